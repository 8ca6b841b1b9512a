package trigger

import (
	"context"
	"encoding/json"
	"strings"
)

// returnPayout pays a payee by bank, and makes the bank return the payment.
func returnPayout(ctx context.Context, c *Client) error {
	payee, err := c.makeBankPayee(ctx, "GB", "GBP", fields{"sort_code": "200000", "account_number": "55779911"})
	if err != nil {
		return err
	}
	return PayTo(payee, Pay("exact"), func(ctx context.Context, c *Client, p Made) error {
		return poll(ctx, func() (bool, error) {
			var detail struct {
				Payments []struct {
					ID     string `json:"subpayroll_id"`
					Status string `json:"status"`
				} `json:"payments"`
			}
			if err := c.Get(ctx, "/api/company/payrolls/"+p.PayrollID, &detail); err != nil {
				return true, err
			}
			if len(detail.Payments) != 1 || detail.Payments[0].Status != "fulfilled" {
				return false, nil
			}
			return true, c.Post(ctx, "/api/sandbox/bank-return",
				fields{"subpayroll_id": detail.Payments[0].ID, "reason": "AC04"}, nil)
		})
	})(ctx, c)
}

// checkAccount creates a recipient whose bank account belongs to a person with a similar name.
func checkAccount(ctx context.Context, c *Client) error {
	_, err := c.makeBankPayee(ctx, "DE", "EUR", fields{"iban": "DE35370400440000993001"})
	return err
}

// askCorrection makes a payment to an account number for which the simulated bank requests a correction.
func askCorrection(ctx context.Context, c *Client) error {
	_, err := c.askCorrection(ctx)
	return err
}

// askCorrection pays a new recipient at an account whose number the bank asks to correct, and returns the recipient's
// ID.
func (c *Client) askCorrection(ctx context.Context) (string, error) {
	payee, err := c.makeBankPayee(ctx, "US", "USD", fields{
		"routing_number": "091000019", "account_number": "12991001", "account_type": "checking",
		"address": fields{"address_line1": "1 Main Street", "city": "Springfield", "state": "IL",
			"postal_code": "62701", "country": "US"},
	})
	if err != nil {
		return "", err
	}
	return payee, PayTo(payee, Pay("exact"))(ctx, c)
}

// disputeCorrection waits for the correction that the bank requests, and disputes it.
func disputeCorrection(ctx context.Context, c *Client) error {
	payee, err := c.askCorrection(ctx)
	if err != nil {
		return err
	}
	company, err := c.company(ctx)
	if err != nil {
		return err
	}
	path := "/api/company/" + company + "/recipients/" + payee + "/distribution"
	return poll(ctx, func() (bool, error) {
		var known struct {
			Distributions []struct {
				ID         string `json:"distribution_id"`
				Correction *struct {
					ID string `json:"correction_id"`
				} `json:"correction"`
			} `json:"distributions"`
		}
		if err := c.Get(ctx, path, &known); err != nil {
			return true, err
		}
		if len(known.Distributions) != 1 || known.Distributions[0].Correction == nil {
			return false, nil
		}
		d := known.Distributions[0]
		return true, c.Post(ctx, path+"/correction/dispute", fields{"distribution_id": d.ID,
			"correction_id": d.Correction.ID}, nil)
	})
}

// makeBankPayee creates a recipient in a country with a bank account, and returns the recipient's ID.
func (c *Client) makeBankPayee(ctx context.Context, country, symbol string, account fields) (string, error) {
	path, err := c.makeRecipientIn(ctx, country)
	if err != nil {
		return "", err
	}
	account["account_holder_name"], account["account_holder_type"] = "Ada Example", "individual"
	return path[strings.LastIndexByte(path, '/')+1:], c.Post(ctx, path+"/distribution", fields{"symbol": symbol,
		"distribution_data": account}, nil)
}

func reverseTransfer(ctx context.Context, c *Client) error {
	payee, err := c.makePayee(ctx)
	if err != nil {
		return err
	}
	made, err := c.makePayroll(ctx, payee, fields{"currency": "EUR", "funding_method": "bank"})
	if err != nil {
		return err
	}
	return Pay("reorged")(ctx, c, made)
}

// acceptMandate accepts a mandate for direct debits, and revokes it.
func acceptMandate(ctx context.Context, c *Client) error {
	id, err := c.mandate(ctx)
	if err != nil {
		return err
	}
	return c.Post(ctx, "/api/wallets/mandates/revoke", fields{"mandate_id": id}, nil)
}

func (c *Client) mandate(ctx context.Context) (id string, err error) {
	return c.create(ctx, "/api/sandbox/mandate", "mandate_id", fields{"scheme": "ach_ccd"})
}

// debit schedules a direct debit under a new mandate, and revokes the mandate, which cancels the debit.
func debit(ctx context.Context, c *Client) error {
	mandate, err := c.mandate(ctx)
	if err != nil {
		return err
	}
	if _, err := c.create(ctx, "/api/wallets/direct-debits", "debit_id",
		fields{"mandate_id": mandate, "amount": json.Number("10.00")}); err != nil {
		return err
	}
	return c.Post(ctx, "/api/wallets/mandates/revoke", fields{"mandate_id": mandate}, nil)
}
