package claim

import (
	"context"
	"slices"

	"github.com/stipend/stipend/internal/branding"
	"github.com/stipend/stipend/internal/db"
)

// Checkout is the payer's view of a claim.
type Checkout struct {
	Detail
	Merchant string // merchant's name as shown to payers
	Brand    branding.Branding
	Support  string   // email address that payers may write to; "" for none
	Origins  []string // origins that may show the checkout in an iframe
	Refunds  []Refund // refunds that were neither withdrawn nor expired, oldest first
}

// Checkout reads a claim for its payer, who knows only its ID. The ID is a secret that only the payer gets.
func (s *Service) Checkout(ctx context.Context, tx *db.Tx, claimID string) (Checkout, error) {
	c, err := findAny(ctx, tx, claimID)
	if err != nil {
		return Checkout{}, err
	}
	company, err := ownerOf(ctx, tx, c.CompanyID)
	if err != nil {
		return Checkout{}, err
	}
	settings, err := settingsOf(ctx, tx, company)
	if err != nil {
		return Checkout{}, err
	}
	brand, err := branding.Of(ctx, tx, c.CompanyID)
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
	return Checkout{d, brand.DisplayName(company), brand, settings.SupportEmail, settings.Origins, back}, err
}

// Waits reports whether the claim waits for money.
func (c Checkout) Waits() bool { return c.State == AwaitingPayment || c.State == PartiallyPaid }
