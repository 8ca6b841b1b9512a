package httpapi

import (
	"context"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
)

// Sandbox simulates payers, the chain, the clock and the bank, so that a company can test its integration.
type Sandbox interface {
	// Deposit pays a payroll, a claim or a wallet of the principal's company on the simulated chain, in separate
	// transactions. Network selects the network for a wallet or a claim, and currency the currency for a claim; ""
	// selects the first one. If amount is empty, it is derived from kind. Deposit returns apierr.NotFoundErr for another
	// company's object.
	Deposit(ctx context.Context, by identity.Principal, objectID, currency, network, kind, amount string) (txid string,
		err error)
	// Advance advances the service's clock, in a separate transaction, and returns the new time.
	Advance(ctx context.Context, by time.Duration) (time.Time, error)
	// FeeRate sets the fee rate of the simulated chain in satoshis per virtual byte, in separate transactions, and
	// returns the previous rate.
	FeeRate(ctx context.Context, by identity.Principal, rate int64) (before int64, err error)
	// PayoutFailure makes the payouts of a payment fail. It returns apierr.NotFoundErr for another company's
	// payment.
	PayoutFailure(ctx context.Context, tx *db.Tx, by identity.Principal, subpayrollID string) error
	// BankReturn makes the bank return the payouts of a payment. If reason is empty, the bank gives its default reason.
	// BankReturn returns apierr.NotFoundErr for another company's payment.
	BankReturn(ctx context.Context, tx *db.Tx, by identity.Principal, subpayrollID, reason string) error
	// AcceptMandate accepts a mandate, as an administrator of the company would on the mandate's web page.
	AcceptMandate(ctx context.Context, tx *db.Tx, by identity.Principal, scheme, account string) (directdebit.Mandate,
		error)
	// DebitReturn makes the bank return a collected direct debit. If reason is empty, the bank gives its default reason.
	DebitReturn(ctx context.Context, tx *db.Tx, by identity.Principal, debitID, reason string) error
}

type (
	sandboxDepositInput struct{ Body sandboxDepositBody }

	sandboxDepositBody struct {
		CompanyID string  `json:"company_id,omitempty" maxLength:"64"`
		PayrollID string  `json:"payroll_id,omitempty" maxLength:"64"`
		ClaimID   string  `json:"claim_id,omitempty" maxLength:"64"`
		WalletID  string  `json:"wallet_id,omitempty" maxLength:"64"`
		Currency  string  `json:"currency,omitempty" maxLength:"10" doc:"Currency of a claim's payment."`
		Network   string  `json:"network,omitempty" maxLength:"20"`
		Kind      string  `json:"kind" enum:"exact,under,over,late,replaced,reorged"`
		Amount    Decimal `json:"amount,omitempty" doc:"In the funding currency. Default: derived from kind."`
	}

	sandboxPaid struct {
		PayrollID string `json:"payroll_id" doc:"Empty if a claim was paid."`
		ClaimID   string `json:"claim_id" doc:"Empty if a payroll was paid."`
		WalletID  string `json:"wallet_id" doc:"Empty if something else was paid."`
		TxHash    string `json:"tx_hash" doc:"For a bank transfer, the bank's reference."`
	}

	sandboxClockInput struct{ Body sandboxClockBody }

	sandboxClockBody struct {
		Seconds int64 `json:"advance_seconds" minimum:"1" maximum:"31536000"`
	}

	sandboxClock struct {
		Now Time `json:"now"`
	}

	sandboxFeeInput struct{ Body sandboxFeeBody }

	sandboxFeeBody struct {
		Rate int64 `json:"sat_per_vbyte" minimum:"1" maximum:"1000000"`
	}

	sandboxFee struct {
		Rate   int64 `json:"sat_per_vbyte"`
		Before int64 `json:"previous_sat_per_vbyte"`
	}

	sandboxFailureInput struct{ Body sandboxFailureBody }

	sandboxFailureBody struct {
		CompanyID    string `json:"company_id,omitempty" maxLength:"64"`
		SubpayrollID string `json:"subpayroll_id" maxLength:"64"`
	}

	sandboxFailure struct {
		SubpayrollID string `json:"subpayroll_id"`
	}

	sandboxReturnInput struct{ Body sandboxReturnBody }

	sandboxReturnBody struct {
		CompanyID    string `json:"company_id,omitempty" maxLength:"64"`
		SubpayrollID string `json:"subpayroll_id" maxLength:"64"`
		Reason       string `json:"reason,omitempty" maxLength:"4"`
	}

	sandboxMailList struct {
		CompanyID string `query:"company_id"`
		cursorPaging
	}

	sandboxMailPage struct {
		Data []sandboxMail `json:"data"`
		Meta meta          `json:"meta"`
	}

	sandboxMail struct {
		MailID   string `json:"mail_id"`
		Template string `json:"template"`
		To       string `json:"to" doc:"Recipient address."`
		Subject  string `json:"subject"`
		Text     string `json:"text"`
		HTML     string `json:"html"`
		Created  Time   `json:"created"`
	}
)

func depositInSandbox(ctx context.Context, _ *db.Tx, c *request, in *sandboxDepositInput) (*sandboxPaid, error) {
	b := &in.Body
	given := slices.DeleteFunc([]string{b.PayrollID, b.ClaimID, b.WalletID}, func(id string) bool { return id == "" })
	if len(given) != 1 {
		return nil, apierr.New(apierr.Invalid, "missing_field", "Set one of payroll_id, claim_id and wallet_id.").At("body",
			"/payroll_id")
	}
	txid, err := c.Sandbox.Deposit(ctx, c.by, given[0], b.Currency, b.Network, b.Kind, string(b.Amount))
	if err != nil {
		return nil, err
	}
	return &sandboxPaid{b.PayrollID, b.ClaimID, b.WalletID, txid}, nil
}

func advanceClock(ctx context.Context, _ *db.Tx, c *request, in *sandboxClockInput) (*sandboxClock, error) {
	now, err := c.Sandbox.Advance(ctx, time.Duration(in.Body.Seconds)*time.Second)
	if err != nil {
		return nil, err
	}
	return &sandboxClock{Time(now)}, nil
}

func setFeeRate(ctx context.Context, _ *db.Tx, c *request, in *sandboxFeeInput) (*sandboxFee, error) {
	before, err := c.Sandbox.FeeRate(ctx, c.by, in.Body.Rate)
	if err != nil {
		return nil, err
	}
	return &sandboxFee{in.Body.Rate, before}, nil
}

func failPayout(ctx context.Context, tx *db.Tx, c *request, in *sandboxFailureInput) (*sandboxFailure, error) {
	if err := c.Sandbox.PayoutFailure(ctx, tx, c.by, in.Body.SubpayrollID); err != nil {
		return nil, err
	}
	return &sandboxFailure{in.Body.SubpayrollID}, nil
}

func returnByBank(ctx context.Context, tx *db.Tx, c *request, in *sandboxReturnInput) (*sandboxFailure, error) {
	if err := c.Sandbox.BankReturn(ctx, tx, c.by, in.Body.SubpayrollID, in.Body.Reason); err != nil {
		return nil, err
	}
	return &sandboxFailure{in.Body.SubpayrollID}, nil
}

// listKeptMails returns the mails that a sandbox without a mail server stored instead of sending them.
func listKeptMails(ctx context.Context, tx *db.Tx, c *request, in *sandboxMailList) (*sandboxMailPage, error) {
	mails, total, err := mail.List(ctx, tx, c.company, in.page())
	if err != nil {
		return nil, err
	}
	out := &sandboxMailPage{Data: make([]sandboxMail, len(mails)), Meta: metaOf(in.cursorPaging, total, mails,
		func(x mail.StoredMail) string { return x.ID })}
	for i, m := range mails {
		out.Data[i] = sandboxMail{m.ID, m.Template, m.To, m.Subject, m.Text, m.HTML, Time(m.Created)}
	}
	return out, nil
}
