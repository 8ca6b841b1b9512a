package claim

import (
	"context"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// offer requests a Lightning invoice for the newest quote in bitcoin, if Lightning is enabled, the quote is valid and
// nothing was paid under it. It cancels other invoices. So a payer who has begun to pay on chain is not asked for the
// full amount again.
func (s *Service) offer(ctx context.Context, tx *db.Tx, f *facts) error {
	if s.Lightning == nil || f.assets[money.BTC] == nil {
		return nil
	}
	c, newest := f.c, f.assets[money.BTC].Newest()
	all, err := lightning.ForObject(ctx, tx, c.CompanyID, c.ID)
	if err != nil {
		return err
	}
	wanted := f.payable(money.BTC)
	offered := slices.ContainsFunc(all, func(i lightning.Invoice) bool {
		return i.QuoteID == newest.ID && (i.State == lightning.Requested || i.State == lightning.Open ||
			i.State == lightning.Paid)
	})
	if wanted && offered {
		return nil
	}
	if err := lightning.CancelAll(ctx, tx, c.CompanyID, c.ID); err != nil || !wanted {
		return err
	}
	return s.invoice(tx, c, newest)
}

// payable reports whether the newest quote in an asset can be paid in full.
func (f *facts) payable(asset money.Asset) bool {
	newest := f.assets[asset].Newest()
	if f.c.State != AwaitingPayment && (f.c.State != PartiallyPaid || f.c.Funding != asset) ||
		newest.State != quote.StateActive || !f.now.Before(newest.ValidTo) {
		return false
	}
	for _, d := range f.deposits {
		if d.QuoteID == newest.ID && d.State.Live() {
			return false
		}
	}
	return true
}

// invoice requests an invoice for a quote.
func (s *Service) invoice(tx *db.Tx, c *Claim, q quote.Quote) error {
	return s.Lightning.Create(tx, lightning.InvoiceParams{
		CompanyID: c.CompanyID, ObjectID: c.ID, QuoteID: q.ID, Amount: q.Funding, Memo: c.Description,
		ExpiresAt: q.ValidTo,
	})
}

// show sets the ways in which the payer can pay the claim now.
func (s *Service) show(ctx context.Context, tx *db.Tx, f *facts) (err error) {
	c := f.c
	c.Payable = f.payable(c.Funding)
	if s.Lightning != nil && f.assets[money.BTC] != nil && f.payable(money.BTC) {
		all, err := lightning.ForObject(ctx, tx, c.CompanyID, c.ID)
		if err != nil {
			return err
		}
		if i, ok := lightning.Current(all, f.assets[money.BTC].Newest().ID); ok {
			c.Invoice = i.Request
		}
	}
	c.Offers, err = s.offers(f, c.Invoice)
	return err
}

// PaymentURI returns the link with which wallets pay the newest quote (BIP 321 or EIP-681), on chain or, if there is
// an invoice, over Lightning. It is "" after a payment or after the end of the quote.
func (c *Claim) PaymentURI() string {
	if !c.Payable || len(c.Offers) == 0 {
		return ""
	}
	return c.Offers[0].URI
}
