package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
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
	jobDebitReturn  = "sandbox.debit_return"
	jobBankWork     = "sandbox.bank_work"
)

type bankTransfer struct {
	Name      string      `json:"name"`
	Reference string      `json:"reference"`
	Currency  money.Asset `json:"currency"`
	Units     int64       `json:"units"`
	Back      bool        `json:"back"` // reports whether the bank reverses the transfer
}

type bankReturn struct {
	OutputID string `json:"output_id"`
	Reason   string `json:"reason"`
}

// transfer creates a transfer to the operator's account at the simulated bank and returns the bank's reference. If
// back is true, the bank later reverses the transfer.
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

// BankReturn makes the simulated bank return the paid outputs of a payment. If reason is empty, the bank gives a
// default reason.
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

var errNotCollected = apierr.New(apierr.Conflict, "invalid_state",
	"The bank has not collected this direct debit, so it cannot return it.")

var errNoMember = apierr.New(apierr.Conflict, "invalid_state",
	"The company has no owner or administrator who could accept a mandate.")

// AcceptMandate accepts a mandate for an account, as an administrator of the company would on the mandate's page. If
// number is empty, it uses an account that pays every debit.
func (s *Sandbox) AcceptMandate(ctx context.Context, tx *db.Tx, by identity.Principal, scheme, number string) (
	directdebit.Mandate, error,
) {
	members, err := identity.Administrators(ctx, tx, by.CompanyID)
	if err != nil {
		return directdebit.Mandate{}, err
	}
	if len(members) == 0 {
		return directdebit.Mandate{}, errNoMember
	}
	data := map[string]any{"account_holder_name": "Sandbox Company", "account_holder_type": "business"}
	if bank.DebitScheme(scheme).SEPA() {
		data["iban"] = cmp.Or(number, "DE89370400440532013000")
	} else {
		maps.Copy(data, map[string]any{"rail": "ach", "routing_number": "021000021",
			"account_number": cmp.Or(number, "123456789"), "account_type": "checking", "address": map[string]string{
				"address_line1": "1 Example Street", "city": "Springfield", "state": "IL", "postal_code": "62701",
				"country": "US"}})
	}
	text, err := json.Marshal(data)
	if err != nil {
		return directdebit.Mandate{}, err
	}
	member := identity.Principal{Kind: identity.KindSession, ID: "sandbox", CompanyID: by.CompanyID, UserID: members[0]}
	return s.o.Debits.AddMandate(ctx, tx, member, directdebit.MandateParams{Scheme: scheme, Data: text, Language: "en",
		Accepted: true, Address: "127.0.0.1", Browser: "Sandbox"})
}

type debitReturn struct {
	Number int64            `json:"number"`
	Scheme bank.DebitScheme `json:"scheme"`
	Asset  money.Asset      `json:"currency"`
	Units  int64            `json:"units"`
	Reason string           `json:"reason"`
}

// DebitReturn makes the simulated bank return a collected direct debit. If reason is empty, the bank gives a default
// reason.
func (s *Sandbox) DebitReturn(ctx context.Context, tx *db.Tx, by identity.Principal, debitID, reason string) error {
	x, err := directdebit.Get(ctx, tx, by, "", debitID)
	if err != nil {
		return err
	}
	number, ok := bank.FindDebit(x.Reference())
	if !s.o.SimulatedBank || !ok || x.State != directdebit.Collected && x.State != directdebit.Available {
		return errNotCollected
	}
	job.Enqueue(tx, job.New{CompanyID: x.CompanyID, Kind: jobDebitReturn,
		Payload: debitReturn{number, x.Mandate.Scheme, x.Amount.Asset(), x.Amount.Units(), reason}})
	return nil
}

func handleDebitReturn(b *bank.Sandbox, rail *bank.Rail) job.NetHandler {
	return func(ctx context.Context, d *db.DB, j job.Job) error {
		var in debitReturn
		if err := j.Decode(&in); err != nil {
			return err
		}
		now, err := d.Now(ctx)
		if err != nil {
			return err
		}
		if err := b.ReturnDebit(in.Number, in.Scheme, money.New(in.Asset, in.Units), in.Reason, now); err != nil {
			return err
		}
		return rail.Collect(ctx, d)
	}
}

// BankJobs returns the handlers of jobs of the simulated bank. rail processes the bank's responses.
func BankJobs(b *bank.Sandbox, rail *bank.Rail) job.Table {
	return job.Table{
		jobBankTransfer: {Net: handleTransfer(b, rail)},
		jobBankReturn:   {Net: handleReturn(b, rail)},
		jobDebitReturn:  {Net: handleDebitReturn(b, rail)},
		jobBankWork:     {Net: func(ctx context.Context, d *db.DB, _ job.Job) error { return rail.Collect(ctx, d) }},
	}
}

// handleTransfer posts a transfer at the bank. Repeating it has no effect, because the transfer's reference is the
// same.
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
