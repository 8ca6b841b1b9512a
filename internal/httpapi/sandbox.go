package httpapi

import (
	"context"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
)

// Sandbox plays the outside world for a company that tries the interface: the payer, the chain, the clock, the bank.
type Sandbox interface {
	// Deposit pays a payroll, a claim or a wallet of the principal's company on the simulated chain, in its own transactions. The
	// network is that of a wallet, "" for its first one. An amount of "" lets the kind decide. It returns apierr.NotFoundErr for another
	// company's.
	Deposit(ctx context.Context, by identity.Principal, objectID, network, kind, amount string) (txid string, err error)
	// Advance moves the service's clock forward, in its own transaction, and returns the new time.
	Advance(ctx context.Context, by time.Duration) (time.Time, error)
	// FeeRate has the simulated chain ask for so many satoshis per virtual byte, in its own transactions, and says what it asked
	// for before.
	FeeRate(ctx context.Context, by identity.Principal, rate int64) (before int64, err error)
	// PayoutFailure makes the payouts of a payment fail. It returns apierr.NotFoundErr for another company's.
	PayoutFailure(ctx context.Context, tx *db.Tx, by identity.Principal, subpayrollID string) error
	// BankReturn has the bank send the payouts of a payment back, for a reason of its own when none is given. It returns
	// apierr.NotFoundErr for another company's.
	BankReturn(ctx context.Context, tx *db.Tx, by identity.Principal, subpayrollID, reason string) error
}

type (
	sandboxDepositInput struct{ Body sandboxDepositBody }

	sandboxDepositBody struct {
		CompanyID string  `json:"company_id,omitempty" maxLength:"64"`
		PayrollID string  `json:"payroll_id,omitempty" maxLength:"64" doc:"The payroll to pay, on its chain or, where it is funded by bank, by a transfer; or give a claim or a wallet."`
		ClaimID   string  `json:"claim_id,omitempty" maxLength:"64" doc:"The claim to pay; or give a payroll or a wallet."`
		WalletID  string  `json:"wallet_id,omitempty" maxLength:"64" doc:"The wallet to pay, with an amount; or give a payroll or a claim. Nothing is late there."`
		Network   string  `json:"network,omitempty" maxLength:"20" doc:"On which the wallet is paid; the first of its networks when absent."`
		Kind      string  `json:"kind" enum:"exact,under,over,late,replaced,reorged" doc:"A bank transfer is exact, under, over or, where the bank takes it back, reorged."`
		Amount    Decimal `json:"amount,omitempty" doc:"In the funding currency; the kind decides when absent."`
	}

	sandboxPaid struct {
		PayrollID string `json:"payroll_id" doc:"Empty where a claim was paid."`
		ClaimID   string `json:"claim_id" doc:"Empty where a payroll was paid."`
		WalletID  string `json:"wallet_id" doc:"Empty where something else was paid."`
		TxHash    string `json:"tx_hash" doc:"Of a bank transfer, the bank's own name of it."`
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
		Reason       string `json:"reason,omitempty" maxLength:"4" doc:"Code of the bank's reason, as its rail writes it: AC04, or R02 by ACH. Without one the bank chooses."`
	}

	sandboxMailList struct {
		CompanyID string `query:"company_id"`
		paging
	}

	sandboxMailPage struct {
		Data []sandboxMail `json:"data"`
		Meta meta          `json:"meta"`
	}

	sandboxMail struct {
		MailID   string `json:"mail_id"`
		Template string `json:"template"`
		To       string `json:"to" doc:"The address that it was written to."`
		Subject  string `json:"subject"`
		Text     string `json:"text"`
		HTML     string `json:"html"`
		Created  Time   `json:"created"`
	}
)

func depositInSandbox(ctx context.Context, _ *db.Tx, c *call, in *sandboxDepositInput) (*sandboxPaid, error) {
	b := &in.Body
	given := slices.DeleteFunc([]string{b.PayrollID, b.ClaimID, b.WalletID}, func(id string) bool { return id == "" })
	if len(given) != 1 {
		return nil, apierr.New(apierr.Invalid, "missing_field", "Give one of payroll_id, claim_id and wallet_id.").At("body", "/payroll_id")
	}
	txid, err := c.Sandbox.Deposit(ctx, c.by, given[0], b.Network, b.Kind, string(b.Amount))
	if err != nil {
		return nil, err
	}
	return &sandboxPaid{b.PayrollID, b.ClaimID, b.WalletID, txid}, nil
}

func advanceClock(ctx context.Context, _ *db.Tx, c *call, in *sandboxClockInput) (*sandboxClock, error) {
	now, err := c.Sandbox.Advance(ctx, time.Duration(in.Body.Seconds)*time.Second)
	if err != nil {
		return nil, err
	}
	return &sandboxClock{Time(now)}, nil
}

func setFeeRate(ctx context.Context, _ *db.Tx, c *call, in *sandboxFeeInput) (*sandboxFee, error) {
	before, err := c.Sandbox.FeeRate(ctx, c.by, in.Body.Rate)
	if err != nil {
		return nil, err
	}
	return &sandboxFee{in.Body.Rate, before}, nil
}

func failPayout(ctx context.Context, tx *db.Tx, c *call, in *sandboxFailureInput) (*sandboxFailure, error) {
	if err := c.Sandbox.PayoutFailure(ctx, tx, c.by, in.Body.SubpayrollID); err != nil {
		return nil, err
	}
	return &sandboxFailure{in.Body.SubpayrollID}, nil
}

func returnByBank(ctx context.Context, tx *db.Tx, c *call, in *sandboxReturnInput) (*sandboxFailure, error) {
	if err := c.Sandbox.BankReturn(ctx, tx, c.by, in.Body.SubpayrollID, in.Body.Reason); err != nil {
		return nil, err
	}
	return &sandboxFailure{in.Body.SubpayrollID}, nil
}

// listKeptMails shows what people would have got, had this sandbox a mail server.
func listKeptMails(ctx context.Context, tx *db.Tx, c *call, in *sandboxMailList) (*sandboxMailPage, error) {
	mails, total, err := mail.List(ctx, tx, c.company, (in.Page-1)*in.size(), in.size())
	if err != nil {
		return nil, err
	}
	out := &sandboxMailPage{Data: make([]sandboxMail, len(mails)), Meta: in.meta(total)}
	for i, m := range mails {
		out.Data[i] = sandboxMail{m.ID, m.Template, m.To, m.Subject, m.Text, m.HTML, Time(m.Created)}
	}
	return out, nil
}
