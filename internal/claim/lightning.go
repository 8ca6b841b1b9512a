package claim

import (
	"context"
	"net/url"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// offer offers payment over Lightning if that is enabled: one invoice for the newest quote while it is valid and
// nothing was paid under it, none otherwise. So a payer who began to pay on chain is not asked for the full amount
// again.
func (s *Service) offer(ctx context.Context, tx *db.Tx, f *facts) error {
	if s.Lightning == nil {
		return nil
	}
	c := f.c
	all, err := lightning.ForObject(ctx, tx, c.CompanyID, c.ID)
	if err != nil {
		return err
	}
	wanted := f.payable()
	offered := slices.ContainsFunc(all, func(i lightning.Invoice) bool {
		return i.QuoteID == f.Newest().ID && (i.State == lightning.Requested || i.State == lightning.Open ||
			i.State == lightning.Paid)
	})
	if wanted && offered {
		return nil
	}
	if err := lightning.CancelAll(ctx, tx, c.CompanyID, c.ID); err != nil || !wanted {
		return err
	}
	return s.invoice(tx, c, f.Newest())
}

// payable reports whether the newest quote can be paid in full.
func (f *facts) payable() bool {
	if f.c.State != AwaitingPayment && f.c.State != PartiallyPaid || f.Newest().State != quote.StateActive ||
		!f.now.Before(f.Newest().ValidTo) {
		return false
	}
	for _, d := range f.Deposits {
		if d.QuoteID == f.Newest().ID && d.State.Live() {
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

// show sets the ways in which a payer can pay now.
func (s *Service) show(ctx context.Context, tx *db.Tx, f *facts) error {
	c := f.c
	if c.Payable = f.payable(); s.Lightning == nil || !c.Payable {
		return nil
	}
	all, err := lightning.ForObject(ctx, tx, c.CompanyID, c.ID)
	if err != nil {
		return err
	}
	if i, ok := lightning.Current(all, f.Newest().ID); ok {
		c.Invoice = i.Request
	}
	return nil
}

// PaymentURI returns the link for wallets to pay the newest quote (BIP 321): to the claim's address, or over
// Lightning if there is an invoice. It is "" once a payment arrived or the quote ended.
func (c *Claim) PaymentURI() string {
	if !c.Payable {
		return ""
	}
	link := "bitcoin:" + c.Quote.Address + "?amount=" + c.Quote.Funding.String()
	if c.Invoice != "" {
		link += "&lightning=" + url.QueryEscape(c.Invoice)
	}
	return link
}
