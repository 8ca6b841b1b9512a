package httpapi

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/country/workday"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payroll"
)

type (
	billCreateInput struct{ Body billCreateBody }

	billCreateBody struct {
		CompanyID   string  `json:"company_id,omitempty" maxLength:"64"`
		VendorID    string  `json:"vendor_id" minLength:"1" maxLength:"64"`
		Number      string  `json:"number" minLength:"1" maxLength:"40" doc:"The vendor's number of the invoice."`
		Amount      Decimal `json:"amount" doc:"Amount owed, with tax."`
		Currency    string  `json:"currency" minLength:"1" maxLength:"10"`
		IssueDate   string  `json:"issue_date,omitempty" maxLength:"10" doc:"Default: today."`
		DueDate     string  `json:"due_date,omitempty" maxLength:"10"`
		Description string  `json:"description" minLength:"1" maxLength:"500" doc:"What is owed for."`
		DocumentID  string  `json:"document_id,omitempty" maxLength:"64" doc:"The vendor's invoice, as uploaded."`

		Metadata map[string]string `json:"metadata,omitempty"`
	}

	billRefInput struct{ Body billRefBody }

	billRefBody struct {
		CompanyID string `json:"company_id,omitempty" maxLength:"64"`
		InvoiceID string `json:"invoice_id" maxLength:"64"`
	}

	companyInvoiceList struct {
		CompanyID string `query:"company_id"`
		Status    string `query:"status" enum:"open,draft,sent,in_payroll,partially_paid,paid,overdue,void"`
		PayeeID   string `query:"payee_id" maxLength:"64" doc:"ID of a payee, as in to_pay."`
		Currency  string `query:"currency" maxLength:"10"`

		From time.Time `query:"from" doc:"Created at this time or later."`
		To   time.Time `query:"to" doc:"Created before this time."`
		cursorPaging
	}

	companyInvoicePage struct {
		Data []CompanyInvoice `json:"data"`
		Owed []owed           `json:"owed" doc:"Sums of all open invoices and bills, by currency."`
		Meta meta             `json:"meta"`
	}

	owed struct {
		Currency  string  `json:"currency"`
		Count     int64   `json:"count" doc:"Number of open invoices and bills." example:"3"`
		AmountDue Decimal `json:"amount_due"`
	}

	// CompanyInvoice is exported because the contract omits the fields of unexported embedded types.
	CompanyInvoice struct {
		InvoiceSummary
		Type       string `json:"type" enum:"invoice,bill"`
		DocumentID string `json:"document_id" doc:"Document of a bill; may be empty."`
	}

	payInvoicesInput struct{ Body payInvoicesBody }

	payInvoicesBody struct {
		CompanyID       string   `json:"company_id,omitempty" maxLength:"64"`
		InvoiceIDs      []string `json:"invoice_ids" minItems:"1" maxItems:"1000"`
		FundingMethod   string   `json:"funding_method,omitempty" minLength:"1" maxLength:"64"`
		FundingCurrency string   `json:"funding_currency,omitempty" minLength:"1" maxLength:"10"`
		FundingNetwork  string   `json:"funding_network,omitempty" minLength:"1" maxLength:"20"`
		ExternalID      string   `json:"external_id,omitempty" maxLength:"255"`
		PayDate         string   `json:"pay_date,omitempty" maxLength:"10" format:"date" example:"2026-09-30"`
		TimeZone        string   `json:"time_zone,omitempty" maxLength:"64" example:"America/New_York"`
		WorkingDay      string   `json:"working_day,omitempty" enum:"none,before,after" example:"before"`
		Calendar        string   `json:"calendar,omitempty" maxLength:"8" example:"US"`

		Metadata map[string]string `json:"metadata,omitempty"`
	}
)

func createBill(ctx context.Context, tx *db.Tx, c *request, in *billCreateInput) (*CompanyInvoice, error) {
	b := &in.Body
	v, err := c.Vendor.CreateBill(ctx, tx, c.by, invoice.BillParams{
		CompanyID: c.company, VendorID: b.VendorID, Number: b.Number, AmountText: string(b.Amount), Currency: b.Currency,
		IssueDate: b.IssueDate, DueDate: b.DueDate, Description: b.Description, Document: b.DocumentID, Metadata: b.Metadata,
	})
	return showCompanyInvoice(tx, v, err)
}

func voidBill(ctx context.Context, tx *db.Tx, c *request, in *billRefInput) (*CompanyInvoice, error) {
	v, err := invoice.VoidBill(ctx, tx, c.by, in.Body.InvoiceID)
	return showCompanyInvoice(tx, v, err)
}

func showCompanyInvoice(tx *db.Tx, v invoice.Invoice, err error) (*CompanyInvoice, error) {
	if err != nil {
		return nil, err
	}
	summary, err := summarizeInvoice(&v, tx.Now())
	out := &CompanyInvoice{InvoiceSummary: summary, Type: "invoice", DocumentID: v.Document}
	if v.Bill() {
		out.Type = "bill"
	}
	return out, err
}

func listCompanyInvoices(ctx context.Context, tx *db.Tx, c *request, in *companyInvoiceList) (*companyInvoicePage,
	error) {
	f := invoice.Filter{
		Status: invoice.Status(in.Status), UserID: in.PayeeID, Currency: money.Asset(in.Currency), From: in.From,
		To: in.To, Page: in.page(),
	}
	if in.Status == "open" {
		f.Status, f.Open = "", true
	}
	all, total, err := invoice.OfCompany(ctx, tx, c.by, f)
	if err != nil {
		return nil, err
	}
	sums, err := invoice.OwedBy(ctx, tx, c.by)
	if err != nil {
		return nil, err
	}
	out := &companyInvoicePage{
		Data: make([]CompanyInvoice, len(all)), Owed: make([]owed, len(sums)), Meta: metaOf(in.cursorPaging, total, all,
			func(x invoice.Invoice) string { return x.ID }),
	}
	for i := range all {
		shown, err := showCompanyInvoice(tx, all[i], nil)
		if err != nil {
			return nil, err
		}
		out.Data[i] = *shown
	}
	for i, o := range sums {
		out.Owed[i] = owed{string(o.Due.Asset()), o.Count, amount(o.Due)}
	}
	return out, nil
}

func payInvoices(ctx context.Context, tx *db.Tx, c *request, in *payInvoicesInput) (*payrollCreated, error) {
	b := &in.Body
	p, err := c.Payroll.PayInvoices(ctx, tx, c.by, payroll.CreateParams{
		CompanyID: c.company, FundingMethod: b.FundingMethod, FundingCurrency: b.FundingCurrency,
		FundingNetwork: b.FundingNetwork, ExternalID: b.ExternalID, Metadata: b.Metadata,
		PayDay: payroll.PayDay{
			Date: b.PayDate, TimeZone: b.TimeZone, WorkingDay: workday.Rule(b.WorkingDay), Calendar: b.Calendar,
		},
	}, b.InvoiceIDs)
	if err != nil {
		return nil, err
	}
	return showCreated(ctx, tx, c, p)
}
