package claim

import (
	"context"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// Checkout is the payer's view of a claim.
type Checkout struct {
	Detail
	Merchant string
	Support  string   // email address that payers may write to; "" for none
	Origins  []string // origins that may show the checkout in an iframe
	Refunds  []Refund // refunds that were not withdrawn and did not expire, oldest first
}

// Checkout reads a claim for its payer, who knows only its ID. The ID is a secret: it is shown to the payer only.
func (s *Service) Checkout(ctx context.Context, tx *db.Tx, claimID string) (Checkout, error) {
	c, err := findAny(ctx, tx, claimID)
	if err != nil {
		return Checkout{}, err
	}
	company, err := identity.CompanyByID(ctx, tx, c.CompanyID)
	if err != nil {
		return Checkout{}, err
	}
	settings, err := settingsOf(ctx, tx, company)
	if err != nil {
		return Checkout{}, err
	}
	back, err := refunds(ctx, tx, c)
	if err != nil {
		return Checkout{}, err
	}
	back = slices.DeleteFunc(back, func(r Refund) bool {
		return r.State == RefundWithdrawn || r.State == RefundAwaiting ||
			r.State == RefundOffered && !tx.Now().Before(r.ExpiresAt)
	})
	d, err := s.detail(ctx, tx, c)
	return Checkout{d, company.Name, settings.SupportEmail, settings.Origins, back}, err
}

// Waits reports whether the claim waits for money.
func (c Checkout) Waits() bool { return c.State == AwaitingPayment || c.State == PartiallyPaid }

// Asks reports whether the payer can pay now.
func (c Checkout) Asks() bool { return c.Waits() && c.Quote.State == quote.StateActive }

// Link returns the URI for wallets (BIP 321): the full amount of the newest quote or, after a part payment, the rest
// on chain.
func (c Checkout) Link() string {
	if link := c.PaymentURI(); link != "" || !c.Asks() {
		return link
	}
	return "bitcoin:" + c.Address + "?amount=" + c.Rest.String()
}
