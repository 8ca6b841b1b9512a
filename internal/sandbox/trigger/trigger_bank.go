package trigger

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// returnPayout pays a payee by bank and makes the bank return the payment.
func returnPayout(ctx context.Context, c *Client) error {
	payee, err := c.makeBankPayee(ctx, "GB", "GBP", map[string]any{"sort_code": "200000", "account_number": "55779911"})
	if err != nil {
		return err
	}
	return PayTo(payee, Pay("exact"), func(ctx context.Context, c *Client, p Made) error {
		for {
			var detail struct {
				Payments []struct {
					ID     string `json:"subpayroll_id"`
					Status string `json:"status"`
				} `json:"payments"`
			}
			if err := c.Get(ctx, "/api/company/payrolls/"+p.PayrollID, &detail); err != nil {
				return err
			}
			if len(detail.Payments) == 1 && detail.Payments[0].Status == "fulfilled" {
				return c.Post(ctx, "/api/sandbox/bank-return", map[string]string{"subpayroll_id": detail.Payments[0].ID,
					"reason": "AC04"}, nil)
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(100 * time.Millisecond):
			}
		}
	})(ctx, c)
}

// askCorrection pays to an account number for which the simulated bank asks for a correction.
func askCorrection(ctx context.Context, c *Client) error {
	payee, err := c.makeBankPayee(ctx, "US", "USD", map[string]any{
		"routing_number": "091000019", "account_number": "12991001", "account_type": "checking",
		"address": map[string]string{"address_line1": "1 Main Street", "city": "Springfield", "state": "IL",
			"postal_code": "62701", "country": "US"},
	})
	if err != nil {
		return err
	}
	return PayTo(payee, Pay("exact"))(ctx, c)
}

// makeBankPayee creates a recipient in a country with a bank account and returns the ID.
func (c *Client) makeBankPayee(ctx context.Context, country, symbol string, account map[string]any) (string, error) {
	path, err := c.makeRecipientIn(ctx, country)
	if err != nil {
		return "", err
	}
	account["account_holder_name"], account["account_holder_type"] = "Ada Example", "individual"
	return path[strings.LastIndexByte(path, '/')+1:], c.Post(ctx, path+"/distribution", map[string]any{"symbol": symbol,
		"distribution_data": account}, nil)
}

func takeTransferBack(ctx context.Context, c *Client) error {
	payee, err := c.makePayee(ctx)
	if err != nil {
		return err
	}
	var p Made
	if err := c.Post(ctx, "/api/company/payroll/create", map[string]any{
		"currency": "EUR", "funding_method": "bank", "to_pay": []map[string]any{{"user_id": payee,
			"amount_fiat": json.Number("100.00")}},
	}, &p); err != nil {
		return err
	}
	return Pay("reorged")(ctx, c, p)
}
