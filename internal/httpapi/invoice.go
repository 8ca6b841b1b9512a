package httpapi

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/invoice"
)

type (
	invoiceCreateInput struct{ Body invoiceCreateBody }

	invoiceCreateBody struct {
		UserID            string            `json:"user_id,omitempty" minLength:"1" maxLength:"64"`
		ExternalCompanyID string            `json:"external_company_id" maxLength:"64" doc:"The payer."`
		Number            string            `json:"number,omitempty" maxLength:"40"`
		Currency          string            `json:"currency,omitempty" minLength:"1" maxLength:"10"`
		IssueDate         string            `json:"issue_date,omitempty" maxLength:"10" doc:"Default: today."`
		DueDate           string            `json:"due_date,omitempty" maxLength:"10"`
		Items             []invoiceItemBody `json:"items" minItems:"1" maxItems:"100"`
		Notes             string            `json:"notes,omitempty" format:"multiline" maxLength:"2000"`
		Draft             bool              `json:"draft,omitempty"`

		Metadata map[string]string `json:"metadata,omitempty"`
	}

	invoiceItemBody struct {
		Description string  `json:"description" maxLength:"500"`
		Quantity    Decimal `json:"quantity,omitempty" doc:"Default: 1; at most 3 decimals."`
		UnitPrice   Decimal `json:"unit_price" doc:"Without tax."`
		TaxRate     Decimal `json:"tax_rate,omitempty" doc:"Percent. Default: 0; at most 2 decimals."`
	}

	invoiceRefInput struct{ Body invoiceRefBody }

	invoiceRefBody struct {
		UserID    string `json:"user_id,omitempty" minLength:"1" maxLength:"64"`
		InvoiceID string `json:"invoice_id" maxLength:"64"`
	}

	invoiceUpdateInput struct{ Body invoiceUpdateBody }

	invoiceUpdateBody struct {
		UserID    string            `json:"user_id,omitempty" minLength:"1" maxLength:"64"`
		InvoiceID string            `json:"invoice_id" maxLength:"64"`
		Metadata  map[string]string `json:"metadata" doc:"Replaces all metadata; empty removes them."`
	}

	invoiceGet struct {
		UserID    string `query:"user_id" maxLength:"64"`
		InvoiceID string `query:"invoice_id" required:"true" maxLength:"64"`
	}

	invoiceList struct {
		UserID            string    `query:"user_id" maxLength:"64"`
		Status            string    `query:"status" enum:"draft,sent,in_payroll,partially_paid,paid,overdue,void"`
		ExternalCompanyID string    `query:"external_company_id" maxLength:"64"`
		From              time.Time `query:"from" doc:"Created at this time or later."`
		To                time.Time `query:"to" doc:"Created before this time."`

		Metadata map[string]string `query:"metadata" doc:"By key: metadata[key]=value."`
		cursorPaging
	}

	invoicePage struct {
		Data []InvoiceSummary `json:"data"`
		Meta meta             `json:"meta"`
	}

	invoiceMoved struct {
		InvoiceID string `json:"invoice_id"`
		Status    string `json:"status" enum:"draft,sent,in_payroll,partially_paid,paid,overdue,void"`
	}

	// InvoiceSummary is exported because the contract omits the fields of unexported embedded types.
	InvoiceSummary struct {
		InvoiceID         string  `json:"invoice_id"`
		UserID            string  `json:"user_id"`
		ExternalCompanyID string  `json:"external_company_id"`
		Number            string  `json:"number"`
		Status            string  `json:"status" enum:"draft,sent,in_payroll,partially_paid,paid,overdue,void"`
		Currency          string  `json:"currency"`
		Subtotal          Decimal `json:"subtotal"`
		Tax               Decimal `json:"tax"`
		Total             Decimal `json:"total"`
		Paid              Decimal `json:"paid"`
		AmountDue         Decimal `json:"amount_due"`
		IssueDate         string  `json:"issue_date" format:"date"`
		DueDate           string  `json:"due_date" format:"date"`
		PayrollID         string  `json:"payroll_id" doc:"Payroll that pays the invoice."`
		SubpayrollID      string  `json:"subpayroll_id"`
		Created           Time    `json:"created"`
		Updated           Time    `json:"updated"`

		Metadata map[string]string `json:"metadata"`
	}

	invoiceDetail struct {
		InvoiceSummary
		URL   string        `json:"invoice_url" example:"https://pay.example.com/invoice/stp_link_06gf"`
		Notes string        `json:"notes"`
		Items []invoiceLine `json:"items"`
	}

	invoiceLine struct {
		Description string  `json:"description"`
		Quantity    Decimal `json:"quantity"`
		UnitPrice   Decimal `json:"unit_price"`
		TaxRate     Decimal `json:"tax_rate"`
		Amount      Decimal `json:"amount" doc:"Without tax."`
	}
)

func createInvoice(ctx context.Context, tx *db.Tx, c *request, in *invoiceCreateInput) (*invoiceDetail, error) {
	b := &in.Body
	p := invoice.CreateParams{
		UserID: b.UserID, PayerID: b.ExternalCompanyID, Number: b.Number, Currency: b.Currency, IssueDate: b.IssueDate,
		DueDate: b.DueDate, Notes: b.Notes, Draft: b.Draft, Metadata: b.Metadata, Items: make([]invoice.Item, len(b.Items)),
	}
	for i, it := range b.Items {
		p.Items[i] = invoice.Item{
			Description: it.Description, Quantity: string(it.Quantity), UnitPrice: string(it.UnitPrice),
			TaxRate: string(it.TaxRate),
		}
	}
	v, err := invoice.Create(ctx, tx, c.Sealer, c.by, p)
	if err != nil {
		return nil, err
	}
	return showInvoice(c, v, tx.Now())
}

func sendInvoice(ctx context.Context, tx *db.Tx, c *request, in *invoiceRefInput) (*invoiceMoved, error) {
	v, err := invoice.Send(ctx, tx, c.Sealer, c.by, in.Body.UserID, in.Body.InvoiceID)
	return &invoiceMoved{v.ID, string(v.Shown(tx.Now()))}, err
}

func updateInvoice(ctx context.Context, tx *db.Tx, c *request, in *invoiceUpdateInput) (*InvoiceSummary, error) {
	v, err := invoice.SetMetadata(ctx, tx, c.by, in.Body.UserID, in.Body.InvoiceID, in.Body.Metadata)
	if err != nil {
		return nil, err
	}
	s, err := summarizeInvoice(&v, tx.Now())
	return &s, err
}

func deleteInvoice(ctx context.Context, tx *db.Tx, c *request, in *invoiceRefInput) (*invoiceMoved, error) {
	v, err := invoice.Delete(ctx, tx, c.by, in.Body.UserID, in.Body.InvoiceID)
	return &invoiceMoved{v.ID, string(v.Status)}, err
}

func getInvoice(ctx context.Context, tx *db.Tx, c *request, in *invoiceGet) (*invoiceDetail, error) {
	v, err := invoice.Detail(ctx, tx, c.Sealer, c.by, in.UserID, in.InvoiceID)
	if err != nil {
		return nil, err
	}
	return showInvoice(c, v, tx.Now())
}

func listInvoices(ctx context.Context, tx *db.Tx, c *request, in *invoiceList) (*invoicePage, error) {
	all, total, err := invoice.List(ctx, tx, c.by, in.UserID, invoice.Filter{
		Status: invoice.Status(in.Status), PayerID: in.ExternalCompanyID, From: in.From, To: in.To, Page: in.page(),
		Metadata: in.Metadata,
	})
	if err != nil {
		return nil, err
	}
	out := &invoicePage{Data: make([]InvoiceSummary, len(all)), Meta: metaOf(in.cursorPaging, total, all,
		func(x invoice.Invoice) string { return x.ID })}
	for i := range all {
		if out.Data[i], err = summarizeInvoice(&all[i], tx.Now()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func showInvoice(c *request, v invoice.Invoice, now time.Time) (*invoiceDetail, error) {
	s, err := summarizeInvoice(&v, now)
	if err != nil {
		return nil, err
	}
	d := &invoiceDetail{InvoiceSummary: s, Notes: v.Notes, Items: make([]invoiceLine, len(v.Items))}
	if v.Token != "" {
		d.URL = c.BaseURL + "/invoice/" + v.Token
	}
	for i, it := range v.Items {
		d.Items[i] = invoiceLine{
			it.Description, Decimal(it.Quantity), Decimal(it.UnitPrice), Decimal(it.TaxRate), Decimal(it.Amount),
		}
	}
	return d, nil
}

func summarizeInvoice(v *invoice.Invoice, now time.Time) (InvoiceSummary, error) {
	due, err := v.Due()
	return InvoiceSummary{
		InvoiceID: v.ID, UserID: v.UserID, ExternalCompanyID: v.PayerID, Number: v.Number, Status: string(v.Shown(now)),
		Currency: string(v.Currency), Subtotal: amount(v.Subtotal), Tax: amount(v.Tax), Total: amount(v.Total),
		Paid: amount(v.Paid), AmountDue: amount(due), IssueDate: v.IssueDate, DueDate: v.DueDate, PayrollID: v.PayrollID,
		SubpayrollID: v.PaymentID, Created: Time(v.CreatedAt), Updated: Time(v.UpdatedAt), Metadata: v.Metadata,
	}, err
}
