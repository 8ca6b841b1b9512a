package payroll

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/metadata"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/webhook"
)

// EditParams are the changes to a payroll.
type EditParams struct {
	PayrollID  string
	ToPay      []Payee            // replaces all payees; nil keeps them
	ExternalID *string            // nil keeps it
	Period     *Period            // nil keeps it
	Metadata   *map[string]string // replaces all metadata; nil keeps them

	// Documents links the vendors' documents of the payments before the change to the payments after it. If it is nil, a
	// payroll that pays vendors cannot be changed. Package vendorbill provides it.
	Documents func(ctx context.Context, tx *db.Tx, before, after []Payment) error
}

const reasonEdited = "edited"

// Edit changes the payees, amounts, reference or pay period of a payroll that waits for its funding and has received
// nothing. The metadata of a payroll can be changed in every state. The payroll keeps its address or payment
// reference. An active quote is replaced by a quote for the new total with the same rate, address and end, so that
// money on its way keeps its value; a surplus goes to the company's balance. If a member other than the creator edits
// a payroll, the payroll no longer has a creator, and two other members must approve it if it is above the limit.
func (s *Service) Edit(ctx context.Context, tx *db.Tx, by identity.Principal, e EditParams) (Payroll, error) {
	company, err := by.Company("")
	if err != nil {
		return Payroll{}, err
	}
	p, err := lock(ctx, tx, company, e.PayrollID)
	if err != nil {
		return Payroll{}, err
	}
	if e.ToPay == nil && e.ExternalID == nil && e.Period == nil && e.Metadata != nil {
		return *p, p.editMetadata(ctx, tx, *e.Metadata)
	}
	f, err := s.editable(ctx, tx, p)
	if err != nil {
		return *p, err
	}
	if p.Payments, err = p.allPayments(ctx, tx, Pending); err != nil {
		return *p, err
	}
	if e.Documents == nil {
		if vendors, err := p.paysVendors(ctx, tx); err != nil {
			return *p, err
		} else if vendors {
			return *p, ErrState.Detailf("This payroll pays vendors, whose documents must be assigned to the new payments.")
		}
	}
	t, err := s.revision(ctx, tx, by, p, e)
	if err != nil {
		return *p, err
	}
	before := *p
	p.Metadata, p.Period = t.metadata, t.period
	p.ExternalID, p.Count, p.Volume, p.Fees, p.Total = t.externalID, int64(len(t.items)), t.volume, t.fees, t.total
	p.PlatformID, p.PlatformFeeBps = t.platformID, t.platformBps
	p.Payments = t.payments(tx, p.ID)
	if p.CreatedBy != approval.CreatorOf(by) {
		p.CreatedBy = ""
	}
	if err := p.replacePayments(ctx, tx, &before); err != nil {
		return *p, err
	}
	if e.Documents != nil {
		if err := e.Documents(ctx, tx, before.Payments, p.Payments); err != nil {
			return *p, err
		}
	}
	// A payroll whose funding was reverted may have approvals from before.
	if err := errors.Join(approval.Reset(ctx, tx, p.subject()), p.deleteContents(ctx, tx)); err != nil {
		return *p, err
	}
	if err := p.reserveInvoices(ctx, tx); err != nil {
		return *p, err
	}
	if q := f.facts.Newest(); q.State == quote.StateActive {
		if q, err = quote.Revise(ctx, tx, q, p.Total); err != nil {
			return *p, err
		}
		p.Quote = &q
	}
	db.History(tx, p.CompanyID, p.ID, p.Version, string(Pending), string(Pending), reasonEdited)
	return *p, p.emit(tx, webhook.PayrollUpdated, Pending, "")
}

// editMetadata replaces the metadata of a payroll in any state.
func (p *Payroll) editMetadata(ctx context.Context, tx *db.Tx, all map[string]string) error {
	var list apierr.List
	metadata.Check(&list, "/metadata", all)
	if err := list.Err(); err != nil {
		return err
	}
	before := p.Metadata
	p.Metadata = all
	if err := p.updateMetadata(ctx, tx, before); err != nil {
		return err
	}
	db.History(tx, p.CompanyID, p.ID, p.Version, string(p.State), string(p.State), reasonEdited)
	return p.emit(tx, webhook.PayrollUpdated, p.State, "")
}

// editable returns the funding of a payroll that can be edited, or an error if the payroll has received money or
// cannot be edited.
func (s *Service) editable(ctx context.Context, tx *db.Tx, p *Payroll) (*funding, error) {
	if p.State == Pending && p.FundingMethod == MethodDebit {
		return nil, ErrState.Detailf("The direct debit of this payroll is announced. Cancel the payroll and create another.")
	}
	if p.State != Pending || !p.FromOutside() {
		return nil, ErrState.Detailf("Only a payroll that waits for its funding can be changed.")
	}
	f, err := loadFunding(ctx, tx, p)
	if err == nil && (len(f.facts.Deposits) > 0 || len(f.receipts) > 0) {
		err = ErrState.Detailf("This payroll has received money, so it cannot be changed. Cancel it to use the money.")
	}
	return f, err
}

// paysVendors reports whether a payee of a payroll is a vendor. Such payments are linked to documents.
func (p *Payroll) paysVendors(ctx context.Context, tx *db.Tx) (bool, error) {
	ids := make([]string, len(p.Payments))
	for i := range p.Payments {
		ids[i] = p.Payments[i].PayeeID
	}
	payees, err := payee.Payees(ctx, tx, p.CompanyID, unique(ids))
	return slices.ContainsFunc(slices.Collect(maps.Values(payees)),
		func(who payee.Payee) bool { return who.Kind != payee.TypeUser || who.Role == payee.Vendor }), err
}

// revision makes the plan of an edited payroll. The invoices and references that the payroll itself uses do not
// conflict.
func (s *Service) revision(ctx context.Context, tx *db.Tx, by identity.Principal, p *Payroll, e EditParams) (plan,
	error) {
	params := CreateParams{CompanyID: p.CompanyID, ToPay: e.ToPay, FundingMethod: p.FundingMethod,
		Currency: string(p.Currency), ExternalID: p.ExternalID, Metadata: p.Metadata, Period: p.Period}
	if p.FundingMethod == MethodCrypto {
		params.FundingCurrency = string(p.FundingCurrency)
		if p.Network != s.Network {
			params.FundingNetwork = p.Network
		}
	}
	if e.ExternalID != nil {
		params.ExternalID = *e.ExternalID
	}
	if e.Period != nil {
		params.Period = *e.Period
	}
	if e.Metadata != nil {
		params.Metadata = *e.Metadata
	}
	if e.ToPay == nil {
		for i := range p.Payments {
			m := &p.Payments[i]
			to := Payee{UserID: m.PayeeID, Country: m.Country,
				IsPremium: m.IsPremium, InvoiceID: m.InvoiceID, Description: m.Description, Category: m.Category,
				ExternalPaymentID: m.ExternalPaymentID, Metadata: m.Metadata}
			if m.Receive.Sign() > 0 {
				to.ReceiveText, to.ReceiveCurrency = m.Receive.String(), string(m.Receive.Asset())
			} else {
				to.AmountText = m.Amount.String()
			}
			params.ToPay = append(params.ToPay, to)
		}
	}
	if err := p.freeInvoices(ctx, tx); err != nil {
		return plan{}, err
	}
	var list apierr.List
	t, company, err := s.work(ctx, tx, by, &params, &list)
	if err != nil {
		return t, err
	}
	if p.PayDate != "" {
		t.payDate = p.PayDate
		t.checkReceive(&list)
	}
	if err := list.Err(); err != nil {
		return t, err
	}
	if err := company.Active(); err != nil {
		return t, err
	}
	if t.externalID != "" {
		id, err := findExternal(ctx, tx, p.CompanyID, t.externalID)
		if err != nil {
			return t, err
		}
		if id != "" && id != p.ID {
			return t, ErrExternalID.Set("payroll_id", id)
		}
	}
	return t, t.checkPaid(ctx, tx, p.ID)
}
