package payee

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/invoice/payer"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/web/ui"
)

// The export of a person's own data. It has nothing of the companies that pay them but their names.
type (
	exported struct {
		Exported     time.Time             `json:"exported"`
		UserID       string                `json:"user_id"`
		Email        string                `json:"email"`
		FirstName    string                `json:"first_name"`
		LastName     string                `json:"last_name"`
		Country      string                `json:"country"`
		Profile      identity.Details      `json:"profile"`
		Verification string                `json:"verification"`
		Documents    []exportedDocument    `json:"documents"`
		TaxForm      *kyc.TaxForm          `json:"tax_form,omitempty"`
		Destinations []exportedDestination `json:"destinations"`
		Changes      []exportedChange      `json:"destination_changes"`
		Payers       []exportedPayer       `json:"payers"`
		Invoices     []exportedInvoice     `json:"invoices"`
		Payments     []exportedPayment     `json:"payments"`
	}
	exportedDocument struct {
		Type    string `json:"type"`
		Country string `json:"country"`
	}
	exportedDestination struct {
		ID         string          `json:"id"`
		Symbol     string          `json:"symbol"`
		Allocation int             `json:"allocation"`
		Fixed      money.Amount    `json:"fixed_amount"`
		FixedIn    money.Asset     `json:"fixed_currency"`
		Data       json.RawMessage `json:"data"`
		Created    time.Time       `json:"created"`
	}
	exportedChange struct {
		DestinationID string          `json:"destination_id"`
		Action        string          `json:"action"`
		Before        json.RawMessage `json:"before"`
		After         json.RawMessage `json:"after"`
		At            time.Time       `json:"at"`
	}
	exportedPayer struct {
		ID       string        `json:"id"`
		Name     string        `json:"name"`
		Email    string        `json:"email"`
		Type     string        `json:"type"`
		Currency string        `json:"currency"`
		Website  string        `json:"website"`
		Details  payer.Details `json:"details"`
	}
	exportedInvoice struct {
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
	exportedPayment struct {
		ID          string           `json:"id"`
		From        string           `json:"from"`
		Description string           `json:"description"`
		Reference   string           `json:"reference"`
		Status      string           `json:"status"`
		Currency    string           `json:"currency"`
		Amount      string           `json:"amount"`
		Fee         string           `json:"fee"`
		Created     time.Time        `json:"created"`
		Outputs     []exportedOutput `json:"outputs"`
	}
	exportedOutput struct {
		Currency    string `json:"currency"`
		Amount      string `json:"amount"`
		Rate        string `json:"rate,omitempty"`
		Destination string `json:"destination"`
		Status      string `json:"status"`
		Transaction string `json:"transaction,omitempty"`
	}
)

// maxExported is the number of changes and of invoices in an export.
const maxExported = 10_000

// exportData returns the person's own data as a JSON file.
func exportData(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := self(c)
	u, err := identity.GetUser(ctx, tx, c.Sealer, c.Session.User.ID)
	if err != nil {
		return ui.View{}, err
	}
	e := exported{Exported: tx.Now(), UserID: u.ID, Email: u.Email, FirstName: u.FirstName, LastName: u.LastName,
		Country: u.Country, Profile: u.Details, Verification: u.KYCStatus}
	if c.KYC != nil {
		documents, err := c.KYC.List(ctx, tx, by, "")
		if err != nil {
			return ui.View{}, err
		}
		for _, d := range documents {
			e.Documents = append(e.Documents, exportedDocument{d.DocType, d.IssuingCountry})
		}
		if t, err := c.KYC.TaxFormOf(ctx, tx, by, ""); err != nil {
			return ui.View{}, err
		} else if t.Form != "" {
			e.TaxForm = &t
		}
	}
	owned, err := destination.List(ctx, tx, by, u.ID)
	if err != nil {
		return ui.View{}, err
	}
	for _, d := range owned {
		data, err := destination.Reveal(c.Sealer, d)
		if err != nil {
			return ui.View{}, err
		}
		e.Destinations = append(e.Destinations, exportedDestination{d.ID, string(d.Symbol), d.Allocation,
			d.Fixed, d.Fixed.Asset(), data, d.Created})
	}
	changes, _, err := destination.History(ctx, tx, by, u.ID, db.Page{PerPage: maxExported})
	if err != nil {
		return ui.View{}, err
	}
	for _, h := range changes {
		e.Changes = append(e.Changes, exportedChange{h.DistributionID, h.Action, h.Before, h.After, h.At})
	}
	payers, err := payer.List(ctx, tx, c.Sealer, by, "")
	if err != nil {
		return ui.View{}, err
	}
	for _, p := range payers {
		e.Payers = append(e.Payers, exportedPayer{p.ID, p.Name, p.Email, p.Type, string(p.Currency), p.Website, p.Details})
	}
	if err := e.addInvoices(ctx, tx, c); err != nil {
		return ui.View{}, err
	}
	if err := e.addPayments(ctx, tx, c); err != nil {
		return ui.View{}, err
	}
	data, err := json.MarshalIndent(e, "", "  ")
	return ui.View{File: &ui.File{Name: "stipend-" + u.ID + ".json", ContentType: "application/json", Data: data}}, err
}

func (e *exported) addInvoices(ctx context.Context, tx *db.Tx, c *ui.Request) error {
	for _, status := range []invoice.Status{"", invoice.Void} { // without a status, void ones are not listed
		for page := 1; len(e.Invoices) < maxExported; page++ {
			all, total, err := invoice.List(ctx, tx, self(c), "", invoice.Filter{Status: status,
				Page: db.Page{Number: page, PerPage: 100}})
			if err != nil {
				return err
			}
			for _, v := range all {
				full, err := invoice.Detail(ctx, tx, c.Sealer, self(c), "", v.ID)
				if err != nil {
					return err
				}
				e.Invoices = append(e.Invoices, exportedInvoice{v.ID, v.Number, v.PayerID, v.Status, string(v.Currency),
					v.Total.String(), v.Paid.String(), v.IssueDate, v.DueDate, full.Content})
			}
			if int64(page)*100 >= total {
				break
			}
		}
	}
	return nil
}

func (e *exported) addPayments(ctx context.Context, tx *db.Tx, c *ui.Request) error {
	all, err := list(ctx, tx, c, time.Unix(0, 0), tx.Now().AddDate(1, 0, 0))
	if err != nil {
		return err
	}
	for _, some := range all {
		m, err := find(ctx, tx, c, some.ID)
		if err != nil {
			return err
		}
		p := exportedPayment{ID: m.ID, From: m.From, Description: m.About, Reference: m.Reference, Status: string(m.State),
			Currency: string(m.Amount.Asset()), Amount: m.Amount.String(), Fee: m.Fee.String(), Created: m.At}
		for _, o := range m.Outputs {
			x := exportedOutput{Currency: string(o.Amount.Asset()), Amount: o.Amount.String(),
				Destination: document.DestinationHint(o), Status: string(o.State), Transaction: o.TxID}
			if !o.Rate.IsZero() {
				x.Rate = o.Rate.String()
			}
			p.Outputs = append(p.Outputs, x)
		}
		e.Payments = append(e.Payments, p)
	}
	return nil
}
