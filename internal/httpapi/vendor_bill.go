package httpapi

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/invoice/vendorbill"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/webhook"
)

type (
	vendorQuoteInput struct{ Body vendorQuoteBody }

	vendorQuoteBody struct {
		CompanyID       string            `json:"company_id,omitempty" maxLength:"64"`
		ToPay           []vendorQuoteItem `json:"to_pay" minItems:"1" maxItems:"1000"`
		FundingMethod   string            `json:"funding_method,omitempty" minLength:"1" maxLength:"64"`
		FundingCurrency string            `json:"funding_currency,omitempty" minLength:"1" maxLength:"10"`
		FundingNetwork  string            `json:"funding_network,omitempty" minLength:"1" maxLength:"20"`
		Currency        string            `json:"currency,omitempty" minLength:"1" maxLength:"10" doc:"Of amount_fiat."`
	}

	vendorQuoteItem struct {
		VendorID        string  `json:"vendor_id" minLength:"1" maxLength:"64"`
		AmountFiat      Decimal `json:"amount_fiat,omitempty"`
		ReceiveAmount   Decimal `json:"receive_amount,omitempty"`
		ReceiveCurrency string  `json:"receive_currency,omitempty" minLength:"1" maxLength:"10"`
		IsPremium       bool    `json:"is_premium,omitempty"`
	}

	vendorUploadInput struct {
		Body vendorUploadBody
		file vendorbill.File // read before the transaction begins
	}

	vendorUploadBody struct {
		CompanyID      string `json:"company_id,omitempty" maxLength:"64"`
		Base64Document string `json:"base64_document" minLength:"1"`
	}

	vendorDocument struct {
		DocumentID string `json:"document_id"`
		MediaType  string `json:"media_type" enum:"application/pdf,image/jpeg"`
		Bytes      int64  `json:"bytes"`
		SHA256     string `json:"sha256"`
	}

	vendorPayrollInput struct{ Body vendorPayrollBody }

	vendorPayrollBody struct {
		CompanyID       string       `json:"company_id,omitempty" maxLength:"64"`
		ToPay           []vendorItem `json:"to_pay" minItems:"1" maxItems:"1000"`
		FundingMethod   string       `json:"funding_method,omitempty" minLength:"1" maxLength:"64"`
		FundingCurrency string       `json:"funding_currency,omitempty" minLength:"1" maxLength:"10"`
		FundingNetwork  string       `json:"funding_network,omitempty" minLength:"1" maxLength:"20"`
		Currency        string       `json:"currency,omitempty" minLength:"1" maxLength:"10" doc:"Currency of amount_fiat."`
		ExternalID      string       `json:"external_id,omitempty" maxLength:"255"`

		Metadata map[string]string `json:"metadata,omitempty"`
	}

	vendorItem struct {
		VendorID          string  `json:"vendor_id" minLength:"1" maxLength:"64"`
		DocumentID        string  `json:"document_id" minLength:"1" maxLength:"64"`
		AmountFiat        Decimal `json:"amount_fiat,omitempty"`
		ReceiveAmount     Decimal `json:"receive_amount,omitempty"`
		ReceiveCurrency   string  `json:"receive_currency,omitempty" minLength:"1" maxLength:"10"`
		InvoiceNumber     string  `json:"invoice_number,omitempty" maxLength:"64" doc:"The vendor's own reference."`
		Country           string  `json:"country,omitempty" maxLength:"2"`
		IsPremium         bool    `json:"is_premium,omitempty"`
		Description       string  `json:"description,omitempty" maxLength:"500"`
		Category          string  `json:"category,omitempty" maxLength:"100" example:"design"`
		ExternalPaymentID string  `json:"external_payment_id,omitempty" maxLength:"255"`

		Metadata map[string]string `json:"metadata,omitempty"`
	}

	vendorPayrollCreated struct {
		PayrollID string                `json:"payroll_id"`
		Fees      Decimal               `json:"fees"`
		Volume    Decimal               `json:"volume_input_in_input_currency"`
		Total     Decimal               `json:"total_input_in_input_currency"`
		Quote     *webhook.PayrollQuote `json:"quote,omitzero" doc:"Only present if the payroll is funded by crypto."`
		Transfer  *bankTransfer         `json:"bank_transfer,omitzero" doc:"Present when the payroll is funded by bank."`
		Payments  []vendorPayment       `json:"payments"`
	}

	vendorPayment struct {
		SubpayrollID string  `json:"subpayroll_id"`
		VendorID     string  `json:"vendor_id"`
		DocumentID   string  `json:"document_id"`
		AmountFiat   Decimal `json:"amount_fiat"`
		Fees         Decimal `json:"fees"`
	}
)

func quoteVendors(ctx context.Context, tx *db.Tx, c *request, in *vendorQuoteInput) (*payrollPreview, error) {
	b := &in.Body
	p := vendorbill.Params{
		CreateParams: payroll.CreateParams{
			CompanyID: c.company, FundingMethod: b.FundingMethod, FundingCurrency: b.FundingCurrency,
			FundingNetwork: b.FundingNetwork, Currency: b.Currency,
		},
		Items: make([]vendorbill.Item, len(b.ToPay)),
	}
	for i, it := range b.ToPay {
		p.Items[i] = vendorbill.Item{
			VendorID: it.VendorID, AmountText: string(it.AmountFiat), ReceiveText: string(it.ReceiveAmount),
			ReceiveCurrency: it.ReceiveCurrency, IsPremium: it.IsPremium,
		}
	}
	v, err := c.Vendor.Quote(ctx, tx, c.by, p)
	if err != nil {
		return nil, err
	}
	return showPreview(v), nil
}

func readVendorDocument(ctx context.Context, c *request, in *vendorUploadInput) (err error) {
	in.file, err = c.Vendor.Read(ctx, in.Body.Base64Document)
	return err
}

func uploadVendorDocument(ctx context.Context, tx *db.Tx, c *request, in *vendorUploadInput) (*vendorDocument, error) {
	d, err := c.Vendor.Upload(ctx, tx, c.by, c.company, in.file)
	if err != nil {
		return nil, err
	}
	return &vendorDocument{d.ID, d.MediaType, d.Bytes, d.SHA256}, nil
}

func createVendorPayroll(
	ctx context.Context, tx *db.Tx, c *request, in *vendorPayrollInput,
) (*vendorPayrollCreated, error) {
	b := &in.Body
	p := vendorbill.Params{
		CreateParams: payroll.CreateParams{
			CompanyID: c.company, FundingMethod: b.FundingMethod, FundingCurrency: b.FundingCurrency,
			FundingNetwork: b.FundingNetwork, Currency: b.Currency, ExternalID: b.ExternalID,
			Metadata: b.Metadata,
		},
		Items: make([]vendorbill.Item, len(b.ToPay)),
	}
	for i, it := range b.ToPay {
		p.Items[i] = vendorbill.Item{
			VendorID: it.VendorID, DocumentID: it.DocumentID, AmountText: string(it.AmountFiat),
			ReceiveText: string(it.ReceiveAmount), ReceiveCurrency: it.ReceiveCurrency, InvoiceNumber: it.InvoiceNumber,
			Country: it.Country, IsPremium: it.IsPremium, Description: it.Description, Category: it.Category,
			ExternalPaymentID: it.ExternalPaymentID, Metadata: it.Metadata,
		}
	}
	made, err := c.Vendor.Create(ctx, tx, c.by, p)
	if err != nil {
		return nil, err
	}
	transfer, err := showTransfer(c, &made)
	if err != nil {
		return nil, err
	}
	out := &vendorPayrollCreated{
		made.ID, amount(made.Fees), amount(made.Volume), amount(made.Total), showQuote(made.Quote), transfer,
		make([]vendorPayment, len(made.Payments)),
	}
	for i, m := range made.Payments {
		out.Payments[i] = vendorPayment{m.ID, m.PayeeID, p.Items[i].DocumentID, amount(m.Amount), amount(m.Fee)}
	}
	return out, nil
}
