package trigger

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stipend/stipend/internal/money"
)

// madeClaim is a claim that a trigger created.
type madeClaim struct {
	ID   string    `json:"claim_id"`
	From time.Time `json:"valid_from"`
	To   time.Time `json:"valid_to"`
}

// claimThen creates a claim and runs the steps with it.
func claimThen(steps ...func(context.Context, *Client, madeClaim) error) step {
	return func(ctx context.Context, c *Client) error {
		var made madeClaim
		if err := c.Post(ctx, "/api/merchant/claim/create", fields{
			"payer_id": "trigger", "amount": json.Number("100.00"), "denomination_currency": "USD", "funding_currency": "BTC",
		}, &made); err != nil {
			return err
		}
		return then(ctx, c, made, steps)
	}
}

// payClaim returns a step that pays a claim with a deposit of a kind.
func payClaim(kind string) func(context.Context, *Client, madeClaim) error {
	return func(ctx context.Context, c *Client, made madeClaim) error {
		return c.Post(ctx, "/api/sandbox/deposit", fields{"claim_id": made.ID, "kind": kind}, nil)
	}
}

// offerRefund offers the excess payment of a claim as a refund, once it is confirmed.
func offerRefund(ctx context.Context, c *Client, made madeClaim) error {
	return once(ctx, func() error {
		return c.Post(ctx, "/api/merchant/claim/refund", fields{"claim_id": made.ID}, nil)
	}, "invalid_state")
}

// settingsOfClaims contains the merchant settings that triggers change and restore.
type settingsOfClaims struct {
	Currency string `json:"settlement_currency"`
	To       string `json:"settlement_destination_id"`
}

func saveSettings(ctx context.Context, c *Client) error {
	var now settingsOfClaims
	if err := c.Get(ctx, "/api/merchant/settings", &now); err != nil {
		return err
	}
	return c.Post(ctx, "/api/merchant/settings", now, nil)
}

func saveBranding(ctx context.Context, c *Client) error {
	var now struct {
		Headline string `json:"headline"`
	}
	if err := c.Get(ctx, "/api/merchant/branding", &now); err != nil {
		return err
	}
	return c.Post(ctx, "/api/merchant/branding", now, nil)
}

// makePaymentLink creates a payment link and deactivates it.
func makePaymentLink(ctx context.Context, c *Client) error {
	var made struct {
		ID string `json:"payment_link_id"`
	}
	err := c.Post(ctx, "/api/merchant/payment-links", fields{
		"title": "Workshop", "denomination_currency": string(money.USD), "amount": 25,
	}, &made)
	if err != nil {
		return err
	}
	return c.Do(ctx, "PATCH", "/api/merchant/payment-links/"+made.ID, fields{"active": false}, nil)
}

// settle settles the proceeds of claims in bitcoin.
func settle(ctx context.Context, c *Client) (err error) {
	var before settingsOfClaims
	if err := c.Get(ctx, "/api/merchant/settings", &before); err != nil {
		return err
	}
	if err := c.Post(ctx, "/api/merchant/settings", settingsOfClaims{Currency: string(money.BTC)}, nil); err != nil {
		return err
	}
	defer restore(ctx, &err, func(ctx context.Context) error {
		return c.Post(ctx, "/api/merchant/settings", before, nil)
	})
	return claimThen(payClaim("exact"), func(ctx context.Context, c *Client, _ madeClaim) error {
		return once(ctx, func() error {
			return c.Post(ctx, "/api/merchant/settlements", fields{"currency": string(money.BTC)}, nil)
		}, "insufficient_balance", "amount_too_small")
	})(ctx, c)
}

func outliveClaim(ctx context.Context, c *Client, made madeClaim) error {
	if err := c.advance(ctx, made.To.Sub(made.From)+time.Second); err != nil {
		return err
	}
	return c.awaitEvent(ctx, "claim.quote_expired", made.ID)
}

func refreshClaim(ctx context.Context, c *Client, made madeClaim) error {
	return c.Post(ctx, "/api/merchant/claim/quote/refresh", fields{"claim_id": made.ID}, nil)
}
