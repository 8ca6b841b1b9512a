package sandbox

import (
	"context"
	"errors"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
)

var errNotPaidByBank = apierr.New(apierr.Conflict, "invalid_state",
	"No bank has paid this payment, so none can return it.")

const (
	jobBankTransfer = "sandbox.bank_transfer"
	jobBankReturn   = "sandbox.bank_return"
)

type bankTransfer struct {
	Name      string      `json:"name"`
	Reference string      `json:"reference"`
	Currency  money.Asset `json:"currency"`
	Units     int64       `json:"units"`
	Back      bool        `json:"back"` // whether the bank reverses the transfer
}

type bankReturn struct {
	OutputID string `json:"output_id"`
	Reason   string `json:"reason"`
}

// transfer creates a transfer to the operator's account at the simulated bank, which reverses it if back is set. It
// returns the bank's reference.
func (s *Sandbox) transfer(ctx context.Context, p payable, amount money.Amount, back bool) (name string, err error) {
	if !s.o.SimulatedBank {
		return "", errNotSimulated
	}
	return name, s.o.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		name = tx.NewID("bnk")
		job.Enqueue(tx, job.New{CompanyID: p.companyID, Kind: jobBankTransfer, Payload: bankTransfer{name,
			p.transfer.Reference, amount.Asset(), amount.Units(), back}})
		return nil
	})
}

// BankReturn makes the simulated bank return the paid outputs of one payment, for the given reason or a default one.
func (s *Sandbox) BankReturn(ctx context.Context, tx *db.Tx, by identity.Principal, paymentID, reason string) error {
	payrollID, err := payrollOf(ctx, tx, by.CompanyID, paymentID)
	if err != nil {
		return err
	}
	outs, err := payout.ForPayments(ctx, tx, by.CompanyID, payrollID, paymentID)
	if err != nil {
		return err
	}
	paid := 0
	for _, o := range outs {
		if o.Rail == payout.RailBank && o.State == payout.Fulfilled {
			job.Enqueue(tx, job.New{CompanyID: by.CompanyID, Kind: jobBankReturn, Payload: bankReturn{o.ID, reason}})
			paid++
		}
	}
	if paid == 0 {
		return errNotPaidByBank
	}
	return nil
}

// BankJobs returns the handlers of the jobs that act for the simulated bank. rail processes the bank's responses.
func BankJobs(b *bank.Sandbox, rail *bank.Rail) job.Table {
	return job.Table{
		jobBankTransfer: {Net: handleTransfer(b, rail)},
		jobBankReturn:   {Net: handleReturn(b, rail)},
	}
}

// handleTransfer posts a transfer at the bank. Running it again has no effect, because the reference is the same.
func handleTransfer(b *bank.Sandbox, rail *bank.Rail) job.NetHandler {
	return func(ctx context.Context, d *db.DB, j job.Job) error {
		var in bankTransfer
		if err := j.Decode(&in); err != nil {
			return err
		}
		now, err := d.Now(ctx)
		if err != nil {
			return err
		}
		if err := b.Receive(in.Name, in.Reference, money.New(in.Currency, in.Units), in.Back, now); err != nil {
			return err
		}
		return rail.Collect(ctx, d)
	}
}

func handleReturn(b *bank.Sandbox, rail *bank.Rail) job.NetHandler {
	return func(ctx context.Context, d *db.DB, j job.Job) error {
		var in bankReturn
		if err := j.Decode(&in); err != nil {
			return err
		}
		var at bank.Attempt
		err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			at, err = bank.Latest(ctx, tx, j.CompanyID, in.OutputID)
			return err
		})
		if errors.Is(err, db.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		now, err := d.Now(ctx)
		if err != nil {
			return err
		}
		if err := b.Return(at.Number, at.Position, at.Amount, strings.HasSuffix(at.File, ".ach"), in.Reason,
			now); err != nil {
			return err
		}
		return rail.Collect(ctx, d)
	}
}
