package payroll

import (
	"context"
	"fmt"
	"slices"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
)

// Invoices that a payroll pays are checked and reserved when the payroll is created, and updated when their payments
// end. An invoice_id that is not an ID of this service is the company's own reference, which is not checked.

// invoices returns the invoices that the items of a request name, by ID.
func invoices(ctx context.Context, tx *db.Tx, p *CreateParams) (map[string]invoice.Invoice, error) {
	var ids []string
	for _, item := range p.ToPay {
		if invoice.Is(item.InvoiceID) {
			ids = append(ids, item.InvoiceID)
		}
	}
	if len(ids) == 0 || len(p.ToPay) > MaxPayees {
		return nil, nil
	}
	return invoice.Named(ctx, tx, ids)
}

// checkInvoice adds to list each difference between an item and the invoice that it pays.
func checkInvoice(it *Item, named map[string]invoice.Invoice, list *apierr.List, at func(string) string) error {
	if !invoice.Is(it.InvoiceID) {
		return nil
	}
	v, found := named[it.InvoiceID]
	if !found || v.UserID != it.userID {
		list.Add("invalid_parameter", at("invoice_id"), "This payee has no invoice of this id.")
		return nil
	}
	due, err := v.Due()
	switch {
	case err != nil:
		return err
	case it.Receive.Sign() > 0:
		list.Add("invalid_parameter", at("receive_amount"),
			"An invoice is paid by what is due on it. Give amount_fiat in place of receive_amount.")
	case it.Amount.Asset() == "":
	case it.Amount.Asset() != due.Asset():
		list.Add("currency_not_supported", at("invoice_id"),
			fmt.Sprintf("The invoice is in %s; pay it in a payroll of that currency.", due.Asset()))
	case it.Amount.Cmp(due) != 0:
		list.Add("invalid_parameter", at("amount_fiat"), fmt.Sprintf("What is due on the invoice is %s %s.", due,
			due.Asset()))
	}
	return nil
}

// reserveInvoices assigns invoices to the payroll. It returns an error for an invoice that another payroll pays or
// that is not due.
func (p *Payroll) reserveInvoices(ctx context.Context, tx *db.Tx) error {
	for i := range p.Payments {
		m := &p.Payments[i]
		if !invoice.Is(m.InvoiceID) {
			continue
		}
		err := invoice.Take(ctx, tx, p.CompanyID, m.UserID, m.InvoiceID, p.ID, m.ID)
		if f, isFault := apierr.As(err); isFault {
			return f.At("body", fmt.Sprintf("/to_pay/%d/invoice_id", m.Position))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// updateInvoice updates the invoice that a payment pays after a change of the payment's state.
func (m *Payment) updateInvoice(ctx context.Context, tx *db.Tx, from State, outputs []payout.Output) error {
	if !invoice.Is(m.InvoiceID) {
		return nil
	}
	paid := m.invoicePayment()
	if from == Fulfilled {
		if err := paid.Reopen(ctx, tx); err != nil {
			return err
		}
	}
	switch m.State {
	case Fulfilled:
		return paid.Settle(ctx, tx)
	case Cancelled:
		arrived := money.Zero(m.Amount.Asset())
		for _, o := range outputs {
			if o.State != payout.Fulfilled {
				continue
			}
			var err error
			if arrived, err = arrived.Add(o.Input); err != nil {
				return err
			}
		}
		return paid.Drop(ctx, tx, arrived)
	default: // the payment is in progress or waits
		return nil
	}
}

// freeInvoices makes the invoices of a payroll that was never funded payable again.
func (p *Payroll) freeInvoices(ctx context.Context, tx *db.Tx) error {
	payments, err := p.payments(ctx, tx, "")
	if err != nil {
		return err
	}
	for i := range payments {
		m := &payments[i]
		if !invoice.Is(m.InvoiceID) {
			continue
		}
		if err := m.invoicePayment().Drop(ctx, tx, money.Zero(m.Amount.Asset())); err != nil {
			return err
		}
	}
	return nil
}

func (m *Payment) invoicePayment() invoice.Payment {
	return invoice.Payment{UserID: m.UserID, InvoiceID: m.InvoiceID, PaymentID: m.ID, Amount: m.Amount}
}

// MaxInvoices is the largest number of invoices that PayInvoices pays.
const MaxInvoices = 1000

// PayInvoices creates a payroll, in the currency of the invoices, that pays open invoices and bills of the company in
// full. It ignores ToPay and Currency of the parameters.
func (s *Service) PayInvoices(ctx context.Context, tx *db.Tx, by identity.Principal, params CreateParams,
	invoiceIDs []string) (Payroll, error) {
	company, err := by.Company(params.CompanyID)
	if err != nil {
		return Payroll{}, err
	}
	if params.ToPay, params.Currency, err = ToPay(ctx, tx, company, invoiceIDs); err != nil {
		return Payroll{}, err
	}
	p, err := s.Create(ctx, tx, by, params)
	return p, atInvoices(err)
}

// ToPay returns the payroll items that pay open invoices and bills of a company in full, and their common currency.
func ToPay(ctx context.Context, tx *db.Tx, companyID string, invoiceIDs []string) (items []Payee, currency string,
	err error) {
	if len(invoiceIDs) > MaxInvoices {
		return nil, "", apierr.New(apierr.Invalid, "invalid_parameter",
			fmt.Sprintf("A payroll pays at most %d invoices. Pay the others in another payroll.", MaxInvoices)).
			At("body", "/invoice_ids")
	}
	named, err := invoice.Named(ctx, tx, invoiceIDs)
	if err != nil {
		return nil, "", err
	}
	var list apierr.List
	seen := map[string]bool{}
	for i, id := range invoiceIDs {
		at := fmt.Sprintf("/invoice_ids/%d", i)
		v, found := named[id]
		if !found || v.CompanyID != companyID {
			list.Add("invalid_parameter", at, "The company has no invoice or bill of this id.")
			continue
		}
		if seen[id] {
			list.Add("invalid_parameter", at, "The invoice is named twice.")
			continue
		}
		seen[id] = true
		if currency == "" {
			currency = string(v.Currency)
		}
		if currency != string(v.Currency) {
			list.Add("currency_not_supported", at,
				fmt.Sprintf("The invoice is in %s and an earlier one in %s. A payroll has one currency.", v.Currency, currency))
		}
		err := v.CheckPayable(ctx, tx, companyID)
		if f, isFault := apierr.As(err); isFault {
			return nil, "", f.At("body", at)
		}
		if err != nil {
			return nil, "", err
		}
		due, err := v.Due()
		if err != nil {
			return nil, "", err
		}
		items = append(items, Payee{UserID: v.UserID, AmountText: due.String(), InvoiceID: v.ID})
	}
	return items, currency, list.Err()
}

// atInvoices changes an error's JSON pointers to items (/to_pay/0/…) into pointers to the invoices (/invoice_ids/0).
func atInvoices(err error) error {
	f, isFault := apierr.As(err)
	if !isFault || len(f.Fields) == 0 {
		return err
	}
	c := *f
	c.Fields = slices.Clone(f.Fields)
	for i := range c.Fields {
		var n int
		if _, err := fmt.Sscanf(c.Fields[i].Pointer, "/to_pay/%d/", &n); err == nil {
			c.Fields[i].Pointer = fmt.Sprintf("/invoice_ids/%d", n)
		}
	}
	return &c
}
