// Package income pays money that a person has received to the person's destinations.
//
// An income begins with a credit to a user's balance: a transfer to the user's funding account, or a payment of the
// user's invoice. It is paid like a payment of a payroll: the operator's fee is deducted, the rest is exchanged at
// current prices and divided by the allocations, and package payout sends it. The user is the tenant of an income, of
// its outputs and of its journals.
//
//	received ─┬→ released → fulfilled       and back to released if the chain or a new destination requires it
//	   ↑↓     │     └→ action_required, returned → released, to another destination
//	on_hold,  └→ cancelled                  a reversed credit has taken the money
//	action_required
//
// Invariants:
//
//   - Each credit has one income: the transfer's ID is unique.
//   - Until the release, the money is in the user's balance (2000). If something prevents the release, the income
//     waits with the reason, and the change that removes the obstacle releases it.
//   - amount = withheld + fee + the sum of the outputs' inputs, exactly, in the income's currency.
//   - A debt of the user (1300) is settled first. The rest of the balance limits the release, so an income never pays
//     out money that a bank has taken back.
package income

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/webhook"
)

// Reasons why an income waits or has ended, in addition to the reasons of payments in package payroll.
const (
	ReasonVerification = "verification_required" // the user is not verified
	ReasonOwes         = "balance_owed"          // the user owes money in another currency because a credit was reversed
	ReasonReversed     = "credit_reversed"       // the money was taken by the reversal of a credit
)

// JobRelease is the kind of the job that pays an income unless something prevents it (payload {income_id}).
const JobRelease = "income.release"

const (
	sourceType  = "income"
	prefix      = "inc"
	basisPoints = 10_000
)

// ErrNotFound is returned for an income that does not exist or belongs to another user.
var ErrNotFound = apierr.New(apierr.NotFound, "not_found", "There is no such income.")

// Config configures a Service.
type Config struct {
	Payroll *payroll.Service // plans outputs: allocations, exchanges, smallest amounts
	FeeBps  int64            // the operator's fee, in basis points of the released amount
	// CoolDown is the time that an income waits after a change of the user's destinations, if the user was paid before.
	CoolDown time.Duration
}

// Guards decide whether money may be paid out. Both are required.
type Guards struct {
	// Screen reports whether sanctions screening blocks a person or one of their destinations.
	Screen func(ctx context.Context, tx *db.Tx, who destination.ScreeningSubject) (bool, error)
	// ReleaseApproved reports whether the operator allows an amount to be paid out: it is within the release limit, or
	// two staff members have approved it.
	ReleaseApproved func(ctx context.Context, tx *db.Tx, userID, incomeID string, amount money.Amount) (bool, error)
}

// Service pays incomes.
type Service struct {
	Config
	guards Guards
}

// New returns a Service. It returns an error if a dependency or a guard is missing.
func New(c Config, g Guards) (*Service, error) {
	switch {
	case c.Payroll == nil:
		return nil, errors.New("income: Config.Payroll is required")
	case c.FeeBps < 0 || c.FeeBps > basisPoints:
		return nil, errors.New("income: Config.FeeBps must be from 0 to 10000")
	case g.Screen == nil:
		return nil, errors.New("income: Guards.Screen is required")
	case g.ReleaseApproved == nil:
		return nil, errors.New("income: Guards.ReleaseApproved is required")
	}
	return &Service{c, g}, nil
}

// Income is money that a user received and that is paid to the user's destinations. It has the states of a payment of
// a payroll, except pending.
type Income struct {
	UserID, ID string
	CompanyID  string // company that receives the events, or ""
	TransferID string // ID of the credit's transfer
	InvoiceID  string // invoice that the credit pays, or ""
	PayerID    string // payer who sent the credit, or ""
	Amount     money.Amount
	Withheld   money.Amount // part that the reversal of a credit took from the balance before the release
	Fee        money.Amount
	State      payroll.State
	Reason     string // why the income waits or has ended, or ""
	Version    int64
	CreatedAt  time.Time
	UpdatedAt  time.Time
	releasedAt time.Time
	ArrivedAt  time.Time       // when the income was fulfilled, or zero; set by Earned only
	Outputs    []payout.Output // set by Get only
	Timeline   []payroll.Step  // set by Get only
}

// IsIncome reports whether an object ID is the ID of an income.
func IsIncome(objectID string) bool { return strings.HasPrefix(objectID, prefix+"_") }

type releasePayload struct {
	IncomeID string `json:"income_id"`
}

// Retry enqueues the release of an income, at the given time; zero means now.
func Retry(tx *db.Tx, userID, incomeID string, at time.Time) {
	job.Enqueue(tx, job.New{CompanyID: userID, Kind: JobRelease, Payload: releasePayload{incomeID}, RunAt: at})
}

// Received records a credit to a user, or the reversal of a credit (job transfer.changed).
func Received(ctx context.Context, tx *db.Tx, j job.Job) error {
	var t webhook.TransferData
	if err := j.Decode(&t); err != nil {
		return err
	}
	amount, err := money.Parse(t.Currency, t.Amount)
	if err != nil {
		return err
	}
	returned := t.Status != "credited"
	if returned && t.PreviousStatus == "" { // the provider reverses an earlier credit without naming it
		return cancelWaiting(ctx, tx, t.UserID, amount)
	}
	i := Income{
		UserID: t.UserID, ID: tx.NewID(prefix), CompanyID: t.CompanyID, TransferID: t.TransferID, InvoiceID: t.InvoiceID,
		PayerID: t.ExternalCompanyID, Amount: amount, Withheld: money.Zero(t.Currency), Fee: money.Zero(t.Currency),
		State: payroll.Received, Version: 1, CreatedAt: tx.Now(), UpdatedAt: tx.Now(),
	}
	if returned { // the credit may be recorded later, because jobs run in any order
		i.State, i.Reason, i.Withheld = payroll.Cancelled, ReasonReversed, amount
	}
	first, err := insert(ctx, tx, i)
	if err != nil {
		return err
	}
	if first {
		db.History(tx, i.UserID, i.ID, i.Version, "", string(i.State), i.Reason)
		Retry(tx, i.UserID, i.ID, time.Time{})
		if err := i.notify(ctx, tx, nil); err != nil {
			return err
		}
		return i.emit(tx, webhook.IncomeReceived, "", nil)
	}
	if !returned {
		return nil
	}
	known, err := byTransfer(ctx, tx, t.UserID, t.TransferID)
	if err != nil {
		return err
	}
	return known.cancel(ctx, tx)
}

// cancelWaiting cancels the newest waiting income of a user that has this amount. If there is none, the reversed
// credit was paid out wholly or in part, and later releases pay only what is left in the balance.
func cancelWaiting(ctx context.Context, tx *db.Tx, userID string, amount money.Amount) error {
	waiting, err := stopped(ctx, tx, userID)
	if err != nil {
		return err
	}
	for n := len(waiting) - 1; n >= 0; n-- {
		if i := &waiting[n]; i.Amount == amount && i.releasedAt.IsZero() {
			return i.cancel(ctx, tx)
		}
	}
	return nil
}

// cancel ends an income that was not released, because its money was taken back. It does nothing if the income was
// released: the paid-out money is a debt of the user.
func (i *Income) cancel(ctx context.Context, tx *db.Tx) error {
	if !i.releasedAt.IsZero() || i.State == payroll.Cancelled {
		return nil
	}
	i.Withheld = i.Amount
	return i.advance(ctx, tx, payroll.Cancelled, ReasonReversed, nil)
}

// advance changes the state and reason of an income, and adds its history row, mail and event. It fails if the income
// has changed since it was read.
func (i *Income) advance(ctx context.Context, tx *db.Tx, to payroll.State, reason string,
	outputs []payout.Output,
) error {
	from := i.State
	i.State, i.Reason = to, reason
	if err := update(ctx, tx, i, from); err != nil {
		return err
	}
	db.History(tx, i.UserID, i.ID, i.Version, string(from), string(to), reason)
	if err := i.notify(ctx, tx, outputs); err != nil {
		return err
	}
	return i.emit(tx, webhook.IncomeStatusUpdate, from, outputs)
}

// emit emits an event for the user and for the income's company, if there is one.
func (i *Income) emit(tx *db.Tx, event webhook.Type[webhook.IncomeData], from payroll.State,
	outputs []payout.Output,
) error {
	fees, err := payroll.OutputFees(i.Fee, outputs)
	if err != nil {
		return err
	}
	d := webhook.IncomeData{
		IncomeID: i.ID, UserID: i.UserID, CompanyID: i.CompanyID, Status: string(i.State), PreviousStatus: string(from),
		Reason: i.Reason, Currency: i.Amount.Asset(), Amount: i.Amount, Withheld: i.Withheld, Fees: i.Fee,
		TransferID: i.TransferID, InvoiceID: i.InvoiceID, ExternalCompanyID: i.PayerID,
		Outputs: make([]webhook.PaymentOutput, len(outputs)),
	}
	for n, o := range outputs {
		d.Outputs[n] = webhook.PaymentOutput{
			InputCurrency: o.Input.Asset(), OutputCurrency: o.Amount.Asset(), Input: o.Input, Output: o.Amount, Fees: fees[n],
			TxHash: o.TxID,
		}
	}
	return webhook.Emit(tx, event.Event(i.CompanyID, i.ID, i.Version, d).And(i.UserID)...)
}

func (i *Income) post(tx *db.Tx, purpose string, lines ...ledger.Line) error {
	return ledger.Post(tx, ledger.Journal{
		CompanyID: i.UserID, SourceType: sourceType, SourceID: i.ID, Purpose: purpose, Lines: lines,
	})
}

// Details returns the details of outputs of a user, by output ID. The payer is the user, because the money already
// belonged to the user.
func Details(ctx context.Context, tx *db.Tx, s *identity.Sealer, userID string, outs []payout.Output) (
	map[string]payout.Details, error,
) {
	u, err := identity.GetUser(ctx, tx, s, userID)
	if err != nil {
		return nil, err
	}
	all := make(map[string]payout.Details, len(outs))
	for _, o := range outs {
		all[o.ID] = payout.Details{
			Payer: u.Name(), PayerCountry: u.Country, PayerStreet: u.StreetAddress, PayerPostCode: u.Zip, PayerTown: u.City,
			PayerState: u.State,
		}
	}
	return all, nil
}

// Filter selects incomes of a user and a page of them, newest first.
type Filter struct {
	State    payroll.State // "" for all
	From, To time.Time     // selects incomes received in [From, To)
	Page     db.Page
}

// List returns a page of the incomes of a user for whom the principal may act, and their total number. Outputs and
// timelines are not loaded.
func List(ctx context.Context, tx *db.Tx, by identity.Principal, userID string, f Filter) ([]Income, int64, error) {
	u, err := identity.ActingUser(ctx, tx, by, userID)
	if err != nil {
		return nil, 0, err
	}
	return list(ctx, tx, u.ID, f)
}

// Get returns an income of a user for whom the principal may act, with its outputs and timeline.
func Get(ctx context.Context, tx *db.Tx, by identity.Principal, userID, id string) (Income, error) {
	u, err := identity.ActingUser(ctx, tx, by, userID)
	if err != nil {
		return Income{}, err
	}
	ctx = db.AcrossCompanies(ctx, "the income of a person belongs to no company; the statements name the person")
	i, err := find(ctx, tx, u.ID, id)
	if err != nil {
		return i, err
	}
	if i.Outputs, err = payout.ForPayroll(ctx, tx, i.UserID, i.ID); err != nil {
		return i, err
	}
	changes, err := db.Changes(ctx, tx, i.UserID, i.ID)
	for _, c := range changes {
		i.Timeline = append(i.Timeline, payroll.Step{
			ObjectID: i.ID, Version: c.Version, From: payroll.State(c.From), To: payroll.State(c.To), Reason: c.Reason,
			At: db.Time(c.At),
		})
	}
	return i, err
}
