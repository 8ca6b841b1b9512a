package claim

import (
	"context"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// Checkout is a claim as its payer sees it.
type Checkout struct {
	Detail
	Merchant string
	Support  string   // the address that payers may write to, "" for none
	Origins  []string // where the merchant may show the page within one of its own
	Refunds  []Refund // those that are not withdrawn, oldest first
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
		return r.State == RefundWithdrawn || r.State == RefundOffered && !tx.Now().Before(r.ExpiresAt)
	})
	d, err := s.detail(ctx, tx, c)
	return Checkout{d, company.Name, settings.SupportEmail, settings.Origins, back}, err
}

// Waits reports whether the claim waits for money, as far as is known.
func (c Checkout) Waits() bool { return c.State == AwaitingPayment || c.State == PartiallyPaid }

// Asks reports whether money can be sent now.
func (c Checkout) Asks() bool { return c.Waits() && c.Quote.State == quote.StateActive }

// Link returns the URI that a wallet pays (BIP 321): all of the newest quote or, if part of it came, the rest on
// chain.
func (c Checkout) Link() string {
	if link := c.PaymentURI(); link != "" || !c.Asks() {
		return link
	}
	return "bitcoin:" + c.Address + "?amount=" + c.Rest.String()
}
