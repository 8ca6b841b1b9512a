package directdebit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/webhook"
)

// State is the state of a debit.
type State string

// States of a debit.
const (
	Scheduled  State = "scheduled"  // announced; not sent yet
	Submitting State = "submitting" // stored; the bank may have it
	Submitted  State = "submitted"  // the bank has it
	Collected  State = "collected"  // the bank credited it; the money is on hold
	Available  State = "available"  // the money is in the balance
	Failed     State = "failed"     // the bank did not collect it
	Returned   State = "returned"   // the bank took the money back
	Cancelled  State = "cancelled"
)

// States lists all states.
var States = []State{Scheduled, Submitting, Submitted, Collected, Available, Failed, Returned, Cancelled}

// Reasons of states, in addition to the reason codes of banks.
const (
	ReasonMandate = "mandate_not_active" // cancelled: the mandate was revoked, suspended or ended
	ReasonFrozen  = "company_frozen"     // scheduled: the company is frozen
	ReasonAmount  = "amount_differs"     // collected: the bank took a part back
	ReasonPaused  = "payouts_paused"     // scheduled: payouts are paused, or the currency is stopped
	ReasonAddress = "address_missing"    // scheduled: the bank requires the company's address, which is unknown
	// collected: the hold continues, because since its end the bank has not answered a question about the debit
	ReasonUnanswered = "bank_unanswered"
	// submitting: the bank may have the debit; staff ask it
	ReasonUnknown = "outcome_unknown"
)

const (
	waitInterval = 10 * time.Minute // time between attempts to send a waiting debit, or to release its money
	maxRetries   = 2                // for a debit that was returned for lack of funds; Nacha allows two
	retryWithin  = 30 * 24 * time.Hour
	maxAhead     = 90 * 24 * time.Hour
)

// Debit is a collection of money from a company's own bank account.
type Debit struct {
	CompanyID, ID        string
	Mandate              Mandate
	Amount               money.Amount
	Released             money.Amount // part of the amount that was released to the balance
	DueOn                string       // date, such as 2026-03-16
	State                State
	Reason               string // reason code of the bank, or another reason
	Description          string
	ExternalID           string
	RetryOf              string // ID of the returned debit that this debit repeats, or ""
	Final                bool   // the last debit under its mandate
	PayrollID            string // ID of the payroll that the debit funds, or ""
	CreatedBy            string // user ID of the member; "" if an API client created the debit
	HeldUntil            time.Time
	Version              int64
	CreatedAt, UpdatedAt time.Time

	key               string // idempotency key of a form
	retries           int64  // number of retries before this debit
	account           string // the operator's account (dimension of account 1020); "" before the debit is numbered
	number            int64  // 0 before the debit is numbered
	name, checksum    string
	sealed            string // file or order
	token, transferID string
	attempts          int64
	checkAt           time.Time // time of the next question to the API, or zero
	checkedAt         time.Time // time of the last question that the API answered, or zero
}

// Reference returns the reference that the bank gets, or "" before the debit is numbered.
func (d Debit) Reference() string {
	if d.number == 0 {
		return ""
	}
	return bank.DebitReference(d.number)
}

// Retryable reports whether the debit can be repeated.
func (d Debit) Retryable(now time.Time) bool {
	return (d.State == Returned || d.State == Failed) && lacksFunds(d.Reason) && d.retries < maxRetries &&
		now.Sub(d.UpdatedAt) < retryWithin
}

// Params describes a new debit.
type Params struct {
	CompanyID   string
	MandateID   string
	AmountText  string
	DueOn       string // "" for the first possible day
	Description string
	ExternalID  string // company's own identifier; "" for none
	Key         string // idempotency key of a form; "" for none. A repeated key returns the first debit.
	Final       bool   // the last debit under the mandate, which then ends
}

type debitPayload struct {
	DebitID string `json:"debit_id"`
}

// Create schedules a debit of a company's bank account and announces it by mail. A member who creates a debit must be
// an owner or administrator.
func (s *Service) Create(ctx context.Context, tx *db.Tx, by identity.Principal, p Params) (Debit, error) {
	company, err := s.activeCompany(ctx, tx, by, p.CompanyID)
	if err != nil {
		return Debit{}, err
	}
	if p.Key != "" {
		if first, err := byKey(ctx, tx, company.ID, p.Key); err != nil || first.ID != "" {
			return first, err
		}
	}
	m, err := findMandate(ctx, tx, company.ID, p.MandateID)
	if f, ok := apierr.As(err); ok {
		err = f.At("body", "/mandate_id")
	}
	if err != nil {
		return Debit{}, err
	}
	if m.State != MandateActive {
		return Debit{}, ErrMandate.At("body", "/mandate_id")
	}
	a, err := s.account(m.Scheme)
	if err != nil {
		return Debit{}, err
	}
	var list apierr.List
	amount, err := money.Parse(m.Scheme.Asset(), p.AmountText)
	if err == nil && amount.Sign() <= 0 {
		err = money.ErrNotPositive
	}
	if err == nil && amount.Cmp(a.MaxDebit()) > 0 {
		err = errTooLarge.Detailf("The maximum is %s %s.", a.MaxDebit(), a.Currency)
	}
	if err := list.AddErr(err, "/amount"); err != nil {
		return Debit{}, err
	}
	description := identity.Line(&list, "/description", p.Description, 0, 140)
	wanted := time.Time{}
	if p.DueOn != "" {
		wanted, err = time.Parse(time.DateOnly, p.DueOn)
		if err != nil || wanted.Sub(tx.Now()) > maxAhead {
			_ = list.AddErr(errDue, "/due_on")
		}
	}
	if err := list.Err(); err != nil {
		return Debit{}, err
	}
	if p.ExternalID != "" {
		if other, err := byExternalID(ctx, tx, company.ID, p.ExternalID); err != nil {
			return Debit{}, err
		} else if other.ID != "" {
			return Debit{}, ErrExternalID.Set("debit_id", other.ID)
		}
	}
	d := Debit{CompanyID: company.ID, Mandate: m, Amount: amount, Description: description, ExternalID: p.ExternalID,
		Final: p.Final, CreatedBy: approval.CreatorOf(by), key: p.Key}
	return d, s.schedule(ctx, tx, &d, a, wanted)
}

// schedule stores a new debit, announces it, and enqueues its submission.
func (s *Service) schedule(ctx context.Context, tx *db.Tx, d *Debit, a bank.Account, wanted time.Time) error {
	due := a.DueDate(d.Mandate.Scheme, tx.Now(), wanted)
	d.ID, d.DueOn, d.State, d.Version = tx.NewID("ddb"), due.Format(time.DateOnly), Scheduled, 1
	d.CreatedAt, d.UpdatedAt, d.Released = tx.Now(), tx.Now(), money.Zero(d.Amount.Asset())
	if err := insert(ctx, tx, *d); err != nil {
		return err
	}
	db.History(tx, d.CompanyID, d.ID, d.Version, "", string(d.State), "requested")
	if err := d.emit(tx, webhook.DirectDebitCreated, ""); err != nil {
		return err
	}
	d.enqueue(tx, jobSubmit, a.SubmitAt(due))
	return d.notify(ctx, tx, mail.DebitAnnounced)
}

// lacksFunds reports whether a reason code states that the account lacked the money. Such a debit can be repeated.
func lacksFunds(code string) bool { return slices.Contains([]string{"R01", "R09", "AM04"}, code) }

// RetryDebit repeats a debit that was returned for lack of funds, and makes its mandate active again. A repeated call
// returns the same new debit.
func (s *Service) RetryDebit(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, id string) (Debit,
	error,
) {
	company, err := s.activeCompany(ctx, tx, by, companyID)
	if err != nil {
		return Debit{}, err
	}
	first, err := lock(ctx, tx, company.ID, id)
	if err != nil {
		return Debit{}, err
	}
	if again, err := retryOf(ctx, tx, company.ID, first.ID); err != nil || again.ID != "" {
		return again, err
	}
	m, err := lockMandate(ctx, tx, company.ID, first.Mandate.ID)
	if err != nil {
		return Debit{}, err
	}
	suspended := m.State == MandateSuspended && lacksFunds(m.Reason)
	switch {
	case !first.Retryable(tx.Now()):
		return Debit{}, ErrRetry
	case m.State != MandateActive && !suspended:
		return Debit{}, ErrMandate
	}
	if err := ledger.CheckNoDebt(ctx, tx, company.ID); err != nil {
		return Debit{}, err
	}
	if suspended {
		if err := m.advance(ctx, tx, MandateActive, "", "retried by "+by.ID); err != nil {
			return Debit{}, err
		}
	}
	a, err := s.account(m.Scheme)
	if err != nil {
		return Debit{}, err
	}
	d := Debit{CompanyID: company.ID, Mandate: m, Amount: first.Amount, Description: first.Description, RetryOf: first.ID,
		Final: first.Final, PayrollID: first.PayrollID, CreatedBy: approval.CreatorOf(by), retries: first.retries + 1}
	return d, s.schedule(ctx, tx, &d, a, time.Time{})
}

// Cancel ends a debit that was not sent. Canceling a debit twice has no effect.
func (s *Service) Cancel(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, id string) (Debit, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return Debit{}, err
	}
	d, err := lock(ctx, tx, company, id)
	switch {
	case err != nil:
		return d, err
	case d.State == Cancelled:
		return d, nil
	case d.State != Scheduled:
		return d, ErrState
	}
	return d, d.advance(ctx, tx, Cancelled, "", "cancelled by "+by.ID)
}

// Get returns a debit of the company, or ErrNotFound.
func Get(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, id string) (Debit, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return Debit{}, err
	}
	return find(ctx, tx, company, id)
}

// List returns a page of a company's debits, newest first, and their total number.
func List(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, page db.Page) ([]Debit, int64,
	error,
) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, 0, err
	}
	return list(ctx, tx, company, page)
}

// enqueue enqueues a job about the debit.
func (d *Debit) enqueue(tx *db.Tx, kind string, at time.Time) {
	job.Enqueue(tx, job.New{CompanyID: d.CompanyID, Kind: kind, Payload: debitPayload{d.ID}, RunAt: at})
}

func (d *Debit) sealPlace() identity.SealContext {
	return identity.SealContext{Table: "direct_debits", Column: "sealed", Row: d.CompanyID + "/" + d.ID}
}

// post posts a journal of the debit.
func (d *Debit) post(tx *db.Tx, purpose string, lines ...ledger.Line) error {
	return ledger.Post(tx, ledger.Journal{CompanyID: d.CompanyID, SourceType: Source, SourceID: d.ID, Purpose: purpose,
		Lines: lines})
}

// advance stores the next state and all other fields of a debit, and emits an event. It fails if the debit has
// changed since it was read.
func (d *Debit) advance(ctx context.Context, tx *db.Tx, to State, reason, note string) error {
	from := d.State
	d.State, d.Reason = to, reason
	if err := update(ctx, tx, d, from); err != nil {
		return err
	}
	db.History(tx, d.CompanyID, d.ID, d.Version, string(from), string(to), cmp.Or(note, reason))
	if err := d.emit(tx, webhook.DirectDebitUpdate, from); err != nil {
		return err
	}
	if to == Failed || to == Cancelled { // in other states the money is posted first
		return d.informPayroll(ctx, tx, payroll.DebitEnded)
	}
	return nil
}

func (d *Debit) emit(tx *db.Tx, event webhook.Type[webhook.DirectDebitData], from State) error {
	held := ""
	if !d.HeldUntil.IsZero() {
		held = d.HeldUntil.UTC().Format(time.RFC3339)
	}
	return webhook.Emit(tx, event.Event(d.CompanyID, d.ID, d.Version, webhook.DirectDebitData{
		DebitID: d.ID, MandateID: d.Mandate.ID, Status: string(d.State), PreviousStatus: string(from), Reason: d.Reason,
		Amount: d.Amount, Currency: d.Amount.Asset(), ReleasedAmount: d.Released, DueOn: d.DueOn, HeldUntil: held,
		RetryOf: d.RetryOf, ExternalID: d.ExternalID, PayrollID: d.PayrollID,
	}))
}

// notify mails the owners and administrators about the debit. A new due date is announced with another mail.
func (d *Debit) notify(ctx context.Context, tx *db.Tx, change string) error {
	m := d.Mandate
	return notify(ctx, tx, d.CompanyID, strings.Join([]string{d.ID, change, d.DueOn}, "/"), mail.DirectDebitData{
		Change: change, Amount: d.Amount.String() + " " + string(d.Amount.Asset()), Due: d.DueOn, Account: m.Hint(),
		Mandate: m.Reference, Creditor: m.Creditor, CreditorID: m.CreditorID, Reason: d.Reason})
}

// order returns a debit as an order to the bank.
func (s *Service) order(ctx context.Context, tx *db.Tx, d Debit, due time.Time) (bank.DebitOrder, error) {
	m := d.Mandate
	data, err := destination.Reveal(s.c.Setup.Sealer, m.Account)
	if err != nil {
		return bank.DebitOrder{}, err
	}
	payer, err := s.c.Payer(ctx, tx, d.CompanyID)
	if err != nil {
		return bank.DebitOrder{}, err
	}
	payer.Description = cmp.Or(d.Description, "Account funding")
	return bank.DebitOrder{
		Payment: bank.Payment{Amount: d.Amount, Country: m.Account.Country, Scheme: m.Account.Scheme, Data: data,
			Details: payer},
		Kind: m.Scheme, Mandate: m.Reference, Signed: m.AcceptedAt, Due: due, Retry: d.RetryOf != "",
		Sequence: iso20022.Recurring,
	}, nil
}

// sequence returns the SEPA sequence type of a debit among the debits of its mandate.
func (d *Debit) sequence(ctx context.Context, tx *db.Tx) (string, error) {
	earlier, err := countSent(ctx, tx, *d)
	switch {
	case d.Final && earlier == 0:
		return iso20022.OneOff, err
	case d.Final:
		return iso20022.Final, err
	case earlier == 0:
		return iso20022.First, err
	}
	return iso20022.Recurring, err
}

// Numbers returns the references of all numbered debits, by debit ID.
func Numbers(ctx context.Context, tx *db.Tx) (map[string]string, error) {
	all, err := numbers(ctx, tx)
	references := make(map[string]string, len(all))
	for id, number := range all {
		references[id] = bank.DebitReference(number)
	}
	if err != nil {
		return nil, fmt.Errorf("directdebit: %w", err)
	}
	return references, nil
}
