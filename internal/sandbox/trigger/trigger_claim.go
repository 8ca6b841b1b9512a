package trigger

import (
	"context"
	"encoding/json"
	"errors"
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
func claimThen(steps ...func(context.Context, *Client, madeClaim) error) func(context.Context, *Client) error {
	return func(ctx context.Context, c *Client) error {
		var made madeClaim
		if err := c.Post(ctx, "/api/merchant/claim/create", map[string]any{
			"payer_id": "trigger", "amount": json.Number("100.00"), "denomination_currency": "USD", "funding_currency": "BTC",
		}, &made); err != nil {
			return err
		}
		for _, step := range steps {
			if err := step(ctx, c, made); err != nil {
				return err
			}
		}
		return nil
	}
}

func payClaim(ctx context.Context, c *Client, made madeClaim) error {
	return c.Post(ctx, "/api/sandbox/deposit", map[string]string{"claim_id": made.ID, "kind": "exact"}, nil)
}

func overpayClaim(ctx context.Context, c *Client, made madeClaim) error {
	return c.Post(ctx, "/api/sandbox/deposit", map[string]string{"claim_id": made.ID, "kind": "over"}, nil)
}

// offerRefund offers the excess payment of a claim as a refund, once it is confirmed.
func offerRefund(ctx context.Context, c *Client, made madeClaim) error {
	return once(ctx, func() error {
		return c.Post(ctx, "/api/merchant/claim/refund", map[string]string{"claim_id": made.ID}, nil)
	}, "invalid_state")
}

// settingsOfClaims has the merchant settings that triggers change and restore.
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

// settle settles the proceeds of claims in bitcoin.
func settle(ctx context.Context, c *Client) (err error) {
	var before settingsOfClaims
	if err := c.Get(ctx, "/api/merchant/settings", &before); err != nil {
		return err
	}
	if err := c.Post(ctx, "/api/merchant/settings", settingsOfClaims{Currency: string(money.BTC)}, nil); err != nil {
		return err
	}
	defer func() { // restore the settings even after a timeout
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, c.Post(ctx, "/api/merchant/settings", before, nil))
	}()
	return claimThen(payClaim, func(ctx context.Context, c *Client, _ madeClaim) error {
		return once(ctx, func() error {
			return c.Post(ctx, "/api/merchant/settlements", map[string]string{"currency": string(money.BTC)}, nil)
		}, "insufficient_balance", "amount_too_small")
	})(ctx, c)
}

func outliveClaim(ctx context.Context, c *Client, made madeClaim) error {
	if err := c.outliveQuote(ctx, made.From, made.To); err != nil {
		return err
	}
	return c.awaitEvent(ctx, "claim.quote_expired", made.ID)
}

func refreshClaim(ctx context.Context, c *Client, made madeClaim) error {
	return c.Post(ctx, "/api/merchant/claim/quote/refresh", map[string]string{"claim_id": made.ID}, nil)
}
