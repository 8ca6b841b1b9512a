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
	Refunds  []Refund // those that stand, oldest first
}

// Checkout reads a claim for its payer, who has nothing but its id. An id is as good as a key: it is shown to the payer only.
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

// Waits says that the claim waits for money, as far as is known.
func (c Checkout) Waits() bool { return c.State == AwaitingPayment || c.State == PartiallyPaid }

// Asks says that money can be sent now, and until when.
func (c Checkout) Asks() bool { return c.Waits() && c.Quote.State == quote.StateActive }

// Link is what a wallet pays (BIP 321): all of the newest price, or, once a part of it came, the rest of it on the chain.
func (c Checkout) Link() string {
	if link := c.PaymentURI(); link != "" || !c.Asks() {
		return link
	}
	return "bitcoin:" + c.Address + "?amount=" + c.Rest.String()
}
