package earnings

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/invoice/payer"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
)

type (
	// Exported is a person's own data. Of the companies that pay the person, it contains only the names.
	Exported struct {
		Exported     time.Time             `json:"exported"`
		UserID       string                `json:"user_id"`
		Email        string                `json:"email"`
		FirstName    string                `json:"first_name"`
		LastName     string                `json:"last_name"`
		Country      string                `json:"country"`
		Profile      identity.Details      `json:"profile"`
		Verification string                `json:"verification"`
		Documents    []ExportedDocument    `json:"documents"`
		TaxForm      *kyc.TaxForm          `json:"tax_form,omitempty"`
		Destinations []ExportedDestination `json:"destinations"`
		Changes      []ExportedChange      `json:"destination_changes"`
		Payers       []ExportedPayer       `json:"payers"`
		Invoices     []ExportedInvoice     `json:"invoices"`
		Payments     []ExportedPayment     `json:"payments"`
	}

	// ExportedDocument is a document that the person uploaded for the verification, without its content.
	ExportedDocument struct {
		Type    string `json:"type"`
		Country string `json:"country"`
	}

	// ExportedDestination is a destination with its data, which may be masked.
	ExportedDestination struct {
		ID         string          `json:"id"`
		Symbol     string          `json:"symbol"`
		Allocation int             `json:"allocation"`
		Fixed      money.Amount    `json:"fixed_amount"`
		FixedIn    money.Asset     `json:"fixed_currency"`
		Data       json.RawMessage `json:"data"`
		Created    time.Time       `json:"created"`
	}

	// ExportedChange is a change of a destination; Before is null for a new one, and After for a removed one.
	ExportedChange struct {
		DestinationID string          `json:"destination_id"`
		Action        string          `json:"action"`
		Before        json.RawMessage `json:"before"`
		After         json.RawMessage `json:"after"`
		At            time.Time       `json:"at"`
	}

	// ExportedPayer is a payer of the person's invoices.
	ExportedPayer struct {
		ID       string        `json:"id"`
		Name     string        `json:"name"`
		Email    string        `json:"email"`
		Type     string        `json:"type"`
		Currency string        `json:"currency"`
		Website  string        `json:"website"`
		Details  payer.Details `json:"details"`
	}

	// ExportedInvoice is an invoice that the person sent.
	ExportedInvoice struct {
		ID       string          `json:"id"`
		Number   string          `json:"number"`
		PayerID  string          `json:"payer_id"`
		Status   invoice.Status  `json:"status"`
		Currency string          `json:"currency"`
		Total    string          `json:"total"`
		Paid     string          `json:"paid"`
		Issued   string          `json:"issue_date"`
		Due      string          `json:"due_date"`
		Content  invoice.Content `json:"content"`
	}

	// ExportedPayment is a payment to the person, or an income, with its outputs.
	ExportedPayment struct {
		ID          string           `json:"id"`
		From        string           `json:"from"`
		Description string           `json:"description"`
		Reference   string           `json:"reference"`
		Status      string           `json:"status"`
		Currency    string           `json:"currency"`
		Amount      string           `json:"amount"`
		Fee         string           `json:"fee"`
		Created     time.Time        `json:"created"`
		Outputs     []ExportedOutput `json:"outputs"`
	}

	// ExportedOutput is the amount of a payment that one destination receives.
	ExportedOutput struct {
		Currency    string `json:"currency"`
		Amount      string `json:"amount"`
		Rate        string `json:"rate,omitempty"`
		Destination string `json:"destination"`
		Status      string `json:"status"`
		Transaction string `json:"transaction,omitempty"`
	}
)

// maxExported is the largest number of changes, and of invoices, in an export.
const maxExported = 10_000

// Export returns the user's own data. verification is nil if no service verifies people. Unless all is set, the bank
// data of destinations is masked and the tax form is left out.
func (r Reader) Export(ctx context.Context, tx *db.Tx, verification *kyc.Service, all bool) (Exported, error) {
	acting, err := identity.ActingUser(ctx, tx, r.By, r.UserID)
	if err != nil {
		return Exported{}, err
	}
	u, err := identity.GetUser(ctx, tx, r.Sealer, acting.ID)
	if err != nil {
		return Exported{}, err
	}
	by := r.By
	e := Exported{Exported: tx.Now(), UserID: u.ID, Email: u.Email, FirstName: u.FirstName, LastName: u.LastName,
		Country: u.Country, Profile: u.Details, Verification: u.KYCStatus}
	if verification != nil {
		documents, err := verification.List(ctx, tx, by, u.ID)
		if err != nil {
			return e, err
		}
		for _, d := range documents {
			e.Documents = append(e.Documents, ExportedDocument{d.DocType, d.IssuingCountry})
		}
		if all {
			t, err := verification.TaxFormOf(ctx, tx, by, u.ID)
			if err != nil {
				return e, err
			}
			if t.Form != "" {
				e.TaxForm = &t
			}
		}
	}
	owned, err := destination.List(ctx, tx, by, u.ID)
	if err != nil {
		return e, err
	}
	for _, d := range owned {
		data := d.Data
		if all {
			if data, err = destination.Reveal(r.Sealer, d); err != nil {
				return e, err
			}
		}
		e.Destinations = append(e.Destinations, ExportedDestination{d.ID, string(d.Symbol), d.Allocation,
			d.Fixed, d.Fixed.Asset(), data, d.Created})
	}
	changes, _, err := destination.History(ctx, tx, by, u.ID, db.Page{PerPage: maxExported})
	if err != nil {
		return e, err
	}
	for _, h := range changes {
		e.Changes = append(e.Changes, ExportedChange{h.DistributionID, h.Action, h.Before, h.After, h.At})
	}
	payers, err := payer.List(ctx, tx, r.Sealer, by, u.ID)
	if err != nil {
		return e, err
	}
	for _, p := range payers {
		e.Payers = append(e.Payers, ExportedPayer{p.ID, p.Name, p.Email, p.Type, string(p.Currency), p.Website, p.Details})
	}
	if err := e.addInvoices(ctx, tx, r); err != nil {
		return e, err
	}
	return e, e.addPayments(ctx, tx, r)
}

func (e *Exported) addInvoices(ctx context.Context, tx *db.Tx, r Reader) error {
	for _, status := range []invoice.Status{"", invoice.Void} { // void invoices are listed only if the status is given
		for page := 1; len(e.Invoices) < maxExported; page++ {
			all, total, err := invoice.List(ctx, tx, r.By, r.UserID, invoice.Filter{Status: status,
				Page: db.Page{Number: page, PerPage: 100}})
			if err != nil {
				return err
			}
			for _, v := range all {
				full, err := invoice.Detail(ctx, tx, r.Sealer, r.By, r.UserID, v.ID)
				if err != nil {
					return err
				}
				e.Invoices = append(e.Invoices, ExportedInvoice{v.ID, v.Number, v.PayerID, v.Status, string(v.Currency),
					v.Total.String(), v.Paid.String(), v.IssueDate, v.DueDate, full.Content})
			}
			if int64(page)*100 >= total {
				break
			}
		}
	}
	return nil
}

func (e *Exported) addPayments(ctx context.Context, tx *db.Tx, r Reader) error {
	all, err := r.List(ctx, tx, time.Unix(0, 0), tx.Now().AddDate(1, 0, 0), true)
	if err != nil {
		return err
	}
	if err := LoadOutputs(ctx, tx, all); err != nil {
		return err
	}
	for _, m := range all {
		p := ExportedPayment{ID: m.ID, From: m.From, Description: m.About, Reference: m.Reference, Status: string(m.State),
			Currency: string(m.Amount.Asset()), Amount: m.Amount.String(), Fee: m.Fee.String(), Created: m.At}
		for _, o := range m.Outputs {
			x := ExportedOutput{Currency: string(o.Amount.Asset()), Amount: o.Amount.String(),
				Destination: hint(o), Status: string(o.State), Transaction: o.TxID}
			if !o.Rate.IsZero() {
				x.Rate = o.Rate.String()
			}
			p.Outputs = append(p.Outputs, x)
		}
		e.Payments = append(e.Payments, p)
	}
	return nil
}

// hint returns the masked destination of an output as it was at the release.
func hint(o payout.Output) string {
	var d destination.Destination
	if json.Unmarshal(o.Destination, &d) != nil {
		return "?"
	}
	return cmp.Or(d.Hint(), string(d.Symbol))
}
