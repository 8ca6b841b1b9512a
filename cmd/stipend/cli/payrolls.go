package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/stipend/stipend/internal/sandbox/apiclient"
)

// PayrollsCmd groups the commands for a company's payrolls.
type PayrollsCmd struct {
	Create PayrollsCreateCmd `cmd:"" help:"Create a payroll from a file."`
	List   PayrollsListCmd   `cmd:"" help:"List payrolls, newest first."`
	Watch  PayrollsWatchCmd  `cmd:"" help:"Follow a payroll until its payees are paid."`
}

// PayrollsCreateCmd creates, previews or proposes a payroll.
type PayrollsCreateCmd struct {
	Client
	Output
	File    string `required:"" placeholder:"FILE" help:"JSON of the payroll; - is the standard input."`
	Preview bool   `xor:"how" help:"Create nothing; print amounts, fees and problems."`
	Propose bool   `xor:"how" help:"Only propose it; a member confirms it on a page."`
	IdempotencyKey
}

// IdempotencyKey contains the flag that makes it safe to repeat a command.
type IdempotencyKey struct {
	IdempotencyKey string `placeholder:"KEY" help:"With its first key, a repeated command creates nothing twice."`
}

// send sends a POST request with a body. If the outcome is unknown, the error contains the idempotency key.
func (k IdempotencyKey) send(ctx context.Context, api *apiclient.Client, path string, body json.RawMessage) (
	answer json.RawMessage, err error) {
	key := k.IdempotencyKey
	if key == "" {
		key = uuid.NewString()
	}
	err = api.Post(apiclient.WithIdempotencyKey(ctx, key), path, body, &answer)
	var unknown *url.Error
	if errors.As(err, &unknown) {
		err = fmt.Errorf("%w\nThe outcome is unknown. Repeat the command with --idempotency-key=%s", err, key)
	}
	return answer, err
}

// Help returns the details of the help.
func (PayrollsCreateCmd) Help() string {
	return `The file has what POST /api/company/payroll/create takes, for example:

  {"currency": "USD", "to_pay": [{"user_id": "usr_…", "amount_fiat": 1250.50}]}`
}

// Run sends the payroll and prints the response.
func (cmd PayrollsCreateCmd) Run(ctx context.Context, std Streams) error {
	body, err := readInput(std, cmd.File)
	if err != nil {
		return err
	}
	api, err := cmd.API()
	if err != nil {
		return err
	}
	path := "/api/company/payroll/create"
	switch {
	case cmd.Preview:
		path = "/api/company/payroll/preview"
	case cmd.Propose:
		path = "/api/company/proposals/payroll"
	}
	answer, err := cmd.send(ctx, api, path, body)
	if err != nil {
		return err
	}
	var made struct {
		PayrollID  string      `json:"payroll_id"`
		ProposalID string      `json:"proposal_id"`
		Review     string      `json:"review_url"`
		Amount     json.Number `json:"amount"`
		Volume     json.Number `json:"volume_input_in_input_currency"`
		Fees       json.Number `json:"fees"`
		Total      json.Number `json:"total_input_in_input_currency"`
		Blockers   []struct{ Pointer, Message string }
	}
	if err := json.Unmarshal(answer, &made); err != nil {
		return err
	}
	if cmd.Propose {
		return cmd.print(std.Out, answer, "PROPOSAL\tAMOUNT\tREVIEW", func(row func(...any)) {
			row(made.ProposalID, made.Amount, made.Review)
		})
	}
	if err := cmd.print(std.Out, answer, "PAYROLL\tAMOUNT\tFEES\tTOTAL", func(row func(...any)) {
		row(dash(made.PayrollID), made.Volume, made.Fees, made.Total)
		for _, b := range made.Blockers {
			row("problem", b.Pointer, b.Message, "")
		}
	}); err != nil || cmd.Output.Output == "json" || cmd.Preview {
		return err
	}
	fmt.Fprintf(std.Out, "Fund it: %s/payrolls/%s/fund\n", api.BaseURL, made.PayrollID)
	return nil
}

// PayrollsListCmd lists payrolls.
type PayrollsListCmd struct {
	Client
	Output
	Status string `help:"Only payrolls with this status."`
	Limit  int    `default:"20" help:"Maximum number of payrolls (${default}, at most 100)."`
}

// Run prints the payrolls.
func (cmd PayrollsListCmd) Run(ctx context.Context, std Streams) error {
	api, err := cmd.API()
	if err != nil {
		return err
	}
	query := url.Values{"per_page": {strconv.Itoa(cmd.Limit)}}
	if cmd.Status != "" {
		query.Set("status", cmd.Status)
	}
	var answer json.RawMessage
	if err := api.Get(ctx, "/api/company/payrolls?"+query.Encode(), &answer); err != nil {
		return err
	}
	var page struct {
		Data []struct {
			PayrollID string      `json:"payroll_id"`
			Status    string      `json:"status"`
			Currency  string      `json:"currency"`
			Total     json.Number `json:"total_input_in_input_currency"`
			Created   string      `json:"created"`
		}
	}
	if err := json.Unmarshal(answer, &page); err != nil {
		return err
	}
	return cmd.print(std.Out, answer, "PAYROLL\tCREATED\tTOTAL\tCURRENCY\tSTATUS", func(row func(...any)) {
		for _, p := range page.Data {
			row(p.PayrollID, p.Created, p.Total, p.Currency, colored(std.Out, p.Status))
		}
	})
}

// PayrollsWatchCmd shows the progress of a payroll.
type PayrollsWatchCmd struct {
	Client
	Payroll string `arg:"" help:"ID of the payroll (prl_…)."`
}

// watchEvery is the interval at which a payroll is read.
const watchEvery = time.Second

// Run prints the progress of the payroll until the payroll ends.
func (cmd PayrollsWatchCmd) Run(ctx context.Context, std Streams) error {
	api, err := cmd.API()
	if err != nil {
		return err
	}
	bar := &progress{w: std.Out, changes: true}
	defer bar.end()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		var p struct {
			Status   string
			Payments []struct{ Status string }
		}
		if err := api.Get(ctx, "/api/company/payrolls/"+url.PathEscape(cmd.Payroll), &p); err != nil {
			return err
		}
		paid := 0
		for _, m := range p.Payments {
			if m.Status == "fulfilled" {
				paid++
			}
		}
		bar.count(paid, len(p.Payments), "paid, "+p.Status)
		switch p.Status {
		case "fulfilled":
			return nil
		case "cancelled", "expired_unfunded", "partially_fulfilled":
			return fmt.Errorf("the payroll is %s", p.Status)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// ClaimsCmd groups the commands for a merchant's claims.
type ClaimsCmd struct {
	Create ClaimsCreateCmd `cmd:"" help:"Create a claim, which a payer pays at its page."`
}

// ClaimsCreateCmd creates or proposes a claim.
type ClaimsCreateCmd struct {
	Client
	Output
	Payer       string `required:"" help:"Your own ID of the payer."`
	Amount      string `required:"" placeholder:"120.00" help:"Amount due."`
	Currency    string `required:"" placeholder:"EUR" help:"Currency of the amount."`
	Description string `help:"What the payer pays for."`
	ExternalID  string `help:"Your own ID of the claim, such as an order number. It is unique."`
	Propose     bool   `help:"Only propose it; a member confirms it on a page."`
	IdempotencyKey
}

// Run sends the claim and prints the address of its page.
func (cmd ClaimsCreateCmd) Run(ctx context.Context, std Streams) error {
	if !json.Valid([]byte(cmd.Amount)) {
		return fmt.Errorf("--amount must be a number such as 120.00, not %q", cmd.Amount)
	}
	fields := map[string]any{"payer_id": cmd.Payer, "amount": json.Number(cmd.Amount),
		"denomination_currency": cmd.Currency}
	for name, value := range map[string]string{"description": cmd.Description, "external_id": cmd.ExternalID} {
		if value != "" {
			fields[name] = value
		}
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	api, err := cmd.API()
	if err != nil {
		return err
	}
	path := "/api/merchant/claim/create"
	if cmd.Propose {
		path = "/api/company/proposals/claim"
	}
	answer, err := cmd.send(ctx, api, path, body)
	if err != nil {
		return err
	}
	var made struct {
		ClaimID    string `json:"claim_id"`
		ProposalID string `json:"proposal_id"`
		Review     string `json:"review_url"`
		Checkout   string `json:"checkout_url"`
		Status     string `json:"status"`
	}
	if err := json.Unmarshal(answer, &made); err != nil {
		return err
	}
	if cmd.Propose {
		return cmd.print(std.Out, answer, "PROPOSAL\tREVIEW", func(row func(...any)) { row(made.ProposalID, made.Review) })
	}
	return cmd.print(std.Out, answer, "CLAIM\tPAGE\tSTATUS", func(row func(...any)) {
		row(made.ClaimID, made.Checkout, colored(std.Out, made.Status))
	})
}
