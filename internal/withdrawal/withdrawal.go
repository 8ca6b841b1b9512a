// Package withdrawal pays a company's available balance out to the company's own destinations.
//
// A destination is an address or a bank account. An owner or administrator adds a destination on a page after using a
// second factor, every owner and administrator gets a mail, and the destination can be used only after a cool-down.
// So an attacker with a stolen login or API key cannot withdraw to another destination before the company notices.
// API clients can only use existing destinations.
//
//	pending ─┬→ processing → completed   back to processing if a reorganization reverses the payout
//	  ↑ ↓    │       ├→ failed           not paid; the money is in the balance again
//	on_hold, │       └→ returned         the bank returned it; the money is in the balance again
//	awaiting_approval → declined
//	  (all before processing) → cancelled
//
// Invariants:
//
//   - Creating a withdrawal debits the available balance (2000) and credits the debt to its output (2110). So two
//     withdrawals, or a withdrawal and a payroll, never use the same money.
//   - A withdrawal above the company's approval limit needs approvals, like a payroll.
//   - The destination is screened against the sanctions lists immediately before the payout.
//   - Removing a destination cancels the withdrawals to it that are not being paid yet.
//   - Package payout makes the payout. This package follows its state.
package withdrawal

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
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

// State is the state of a withdrawal.
type State string

// States of a withdrawal.
const (
	Pending          State = "pending"           // the withdrawal was created, and a job will process it
	AwaitingApproval State = "awaiting_approval" // the withdrawal is above the company's approval limit
	OnHold           State = "on_hold"           // the withdrawal waits; Reason states the obstacle
	Processing       State = "processing"        // the payout is queued or sent
	Completed        State = "completed"
	Returned         State = "returned"
	Failed           State = "failed"
	Declined         State = "declined"
	Cancelled        State = "cancelled"
)

// States lists all states.
var States = []State{Pending, AwaitingApproval, OnHold, Processing, Completed, Returned, Failed, Declined, Cancelled}

// Reasons why a withdrawal waits or has ended.
const (
	ReasonApproval = "approval_required"
	ReasonReview   = "under_review"     // sanctions screening found a match, or screening is unavailable
	ReasonRelease  = "release_review"   // two staff members must approve a withdrawal above the release limit
	ReasonFrozen   = "company_frozen"   // the company is frozen
	ReasonOwes     = "balance_owed"     // the company owes money because a deposit was reversed
	ReasonRemoved  = "destination_gone" // the destination was removed
)

// JobProcess is the kind of the job that processes a withdrawal (payload {withdrawal_id}).
const JobProcess = "withdrawal.process"

const (
	// SourceType is the source type of withdrawals in the ledger.
	SourceType = "withdrawal"

	prefix = "wdr"

	// retryInterval is the time between attempts to process a withdrawal that is on hold.
	retryInterval = 10 * time.Minute
	// minBitcoin is the smallest withdrawal in bitcoin, in satoshis; a smaller withdrawal is not worth its network fee.
	minBitcoin = 10_000
)

// Errors that a caller sees.
var (
	ErrNotFound = apierr.New(apierr.NotFound, "not_found", "There is no such withdrawal.")
	ErrBalance  = apierr.New(apierr.Conflict, "insufficient_balance", "The balance does not cover this.")
	ErrState    = apierr.New(apierr.Conflict, "invalid_state",
		"The withdrawal is being paid or has ended. It cannot be changed.")
	ErrCooling = apierr.New(apierr.Conflict, "destination_cooling",
		"This destination is new. It can be used after its cool-down.")
	ErrExternalID = apierr.New(apierr.Conflict, "external_id_conflict",
		"The company already has a withdrawal with this external_id.")
	errTooSmall    = apierr.New(apierr.Invalid, "amount_too_small", "The amount is below the minimum.")
	errDestination = apierr.New(apierr.NotFound, "not_found", "The company has no such destination.")
)

// Config configures a Service. Setup is required.
type Config struct {
	Setup           destination.Setup // validates destinations
	CoolDown        approval.CoolDown // time until a new destination can be used
	AllowUnverified bool              // lets companies without an approved verification withdraw, as in a sandbox
}

// Guards decide whether money may be paid out. All of them are required.
type Guards struct {
	// Screen returns the IDs that sanctions screening blocks: IDs of destinations, or the ID of the company itself.
	Screen func(ctx context.Context, tx *db.Tx, companyID string, all []destination.ScreeningSubject) (
		blocked map[string]bool, err error)
	// ReleaseApproved reports whether the operator allows a withdrawal to be paid out: it is within the release limit,
	// or two staff members have approved it.
	ReleaseApproved func(ctx context.Context, tx *db.Tx, companyID, withdrawalID string, amount money.Amount) (bool,
		error)
	// TravelRule stores the record that the travel rule demands for a payout that is about to be queued. If data is
	// missing, it stores nothing and returns, by withdrawal ID, why the withdrawal must wait; see [payroll.Guards].
	TravelRule func(ctx context.Context, tx *db.Tx, outputs []payout.Output) (missing map[string]string, err error)
}

// Service creates withdrawals and pays them.
type Service struct {
	Config

	guards Guards
}

// New returns a Service. It returns an error if a dependency or a guard is missing.
func New(c Config, g Guards) (*Service, error) {
	switch {
	case c.Setup.Sealer == nil:
		return nil, errors.New("withdrawal: Config.Setup.Sealer is required")
	case g.Screen == nil:
		return nil, errors.New("withdrawal: Guards.Screen is required")
	case g.ReleaseApproved == nil:
		return nil, errors.New("withdrawal: Guards.ReleaseApproved is required")
	case g.TravelRule == nil:
		return nil, errors.New("withdrawal: Guards.TravelRule is required")
	}
	return &Service{c, g}, nil
}

// Withdrawal is a payment from a company's balance to one of its destinations.
type Withdrawal struct {
	CompanyID, ID        string
	Destination          Destination // destination as stored when the withdrawal was read
	Amount               money.Amount
	State                State
	Reason               string
	TxHash               string
	ExternalID           string
	CreatedBy            string // user ID of the member who created the withdrawal; "" if an API client created it
	Approval             approval.Progress
	Version              int64
	CreatedAt, UpdatedAt time.Time

	outputID, key string
}

// Params describes a new withdrawal.
type Params struct {
	CompanyID     string
	DestinationID string
	AmountText    string
	ExternalID    string // company's own identifier; "" for none
	Key           string // idempotency key of a form; "" for none. A repeated key returns the first withdrawal.
}

type processPayload struct {
	WithdrawalID string `json:"withdrawal_id"`
}

// IsWithdrawal reports whether an object ID is the ID of a withdrawal.
func IsWithdrawal(objectID string) bool { return strings.HasPrefix(objectID, prefix+"_") }

// activeCompany returns the company that a principal acts for, or an error if the company cannot withdraw money.
func (s *Service) activeCompany(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string) (
	identity.Company, error,
) {
	id, err := by.Company(companyID)
	if err != nil {
		return identity.Company{}, err
	}
	company, err := identity.CompanyByID(ctx, tx, id)
	if err != nil {
		return company, err
	}
	if err := company.Active(); err != nil {
		return company, err
	}
	if !s.AllowUnverified && company.KYBStatus != identity.KYBApproved {
		return company, payroll.ErrUnverified
	}
	return company, nil
}

// Create creates a withdrawal and debits the balance. [Service.Process] pays it out. A member who creates a
// withdrawal must be an owner or administrator. The caller must check that the member has just used a second factor.
func (s *Service) Create(ctx context.Context, tx *db.Tx, by identity.Principal, p Params) (Withdrawal, error) {
	w, err := s.plan(ctx, tx, by, p)
	if err != nil || w.ID != "" {
		return w, err
	}
	w.ID, w.outputID = tx.NewID(prefix), tx.NewID("out")
	if err := insert(ctx, tx, w); err != nil {
		return w, err
	}
	db.History(tx, w.CompanyID, w.ID, w.Version, "", string(w.State), "requested by "+by.ID)
	if err := w.emit(tx, webhook.WithdrawalCreated); err != nil {
		return w, err
	}
	w.enqueue(tx, time.Time{})
	return w, w.post(tx, "withdraw",
		ledger.Debit(ledger.CompanyFunds, "", w.Amount), ledger.Credit(ledger.OutputPayable, w.outputID, w.Amount))
}

// Check returns the withdrawal that Create would create, or Create's error. Approval.Needed is 0 if the withdrawal
// needs no approval.
func (s *Service) Check(ctx context.Context, tx *db.Tx, by identity.Principal, p Params) (Withdrawal, error) {
	w, err := s.plan(ctx, tx, by, p)
	if err != nil {
		return w, err
	}
	above, err := approval.AboveLimit(ctx, tx, w.subject(), w.Amount)
	if above {
		w.Approval.Needed = approval.Needed(w.CreatedBy)
	}
	return w, err
}

// Ready returns the error that Create would return for an amount, except for an insufficient balance.
func (s *Service) Ready(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, destinationID string,
	amount money.Amount,
) error {
	if _, err := s.activeCompany(ctx, tx, by, companyID); err != nil {
		return err
	}
	if _, err := usableDestination(ctx, tx, companyID, destinationID); err != nil {
		return err
	}
	if err := ledger.CheckNoDebt(ctx, tx, companyID); err != nil {
		return err
	}
	return checkMinimum(amount)
}

// usableDestination returns a destination of the company, or an error if it was removed or its cool-down has not ended.
func usableDestination(ctx context.Context, tx *db.Tx, companyID, id string) (Destination, error) {
	to, err := findDestination(ctx, tx, companyID, id)
	switch {
	case err != nil:
		return to, err
	case to.ID == "" || to.Removed:
		return to, errDestination
	case tx.Now().Before(to.ReadyAt):
		return to, ErrCooling.Detailf("This destination can be used from %s on.", to.ReadyAt.UTC().Format(time.RFC3339))
	}
	return to, nil
}

// checkMinimum returns an error if an amount is too small to be paid out.
func checkMinimum(amount money.Amount) error {
	if amount.Asset() == money.BTC && amount.Units() < minBitcoin {
		return errTooSmall.Detailf("The minimum is %s BTC.", money.New(money.BTC, minBitcoin)).At("body", "/amount")
	}
	return nil
}

// plan validates the parameters and returns the withdrawal without an ID. If the idempotency key was used before, it
// returns the withdrawal of that call.
func (s *Service) plan(ctx context.Context, tx *db.Tx, by identity.Principal, p Params) (Withdrawal, error) {
	company, err := s.activeCompany(ctx, tx, by, p.CompanyID)
	if err != nil {
		return Withdrawal{}, err
	}
	if by.Kind == identity.KindSession {
		if _, err := approval.Administrators(ctx, tx, by); err != nil {
			return Withdrawal{}, err
		}
	}
	if p.Key != "" {
		if first, err := byKey(ctx, tx, company.ID, p.Key); err != nil || first.ID != "" {
			return first, err
		}
	}
	to, err := usableDestination(ctx, tx, company.ID, p.DestinationID)
	if f, ok := apierr.As(err); ok {
		err = f.At("body", "/destination_id")
	}
	if err != nil {
		return Withdrawal{}, err
	}
	asset := to.To.Symbol
	var list apierr.List
	amount, err := money.Parse(asset, p.AmountText)
	if err == nil && amount.Sign() <= 0 {
		err = money.ErrNotPositive
	}
	if err != nil {
		if err := list.AddErr(err, "/amount"); err != nil {
			return Withdrawal{}, err
		}
		return Withdrawal{}, list.Err()
	}
	if err := checkMinimum(amount); err != nil {
		return Withdrawal{}, err
	}
	if err := ledger.CheckNoDebt(ctx, tx, company.ID); err != nil {
		return Withdrawal{}, err
	}
	balance, err := ledger.Balance(ctx, tx, company.ID, ledger.CompanyFunds, "", asset)
	if err != nil {
		return Withdrawal{}, err
	}
	if amount.Cmp(balance) > 0 {
		return Withdrawal{}, ErrBalance.Detailf("The balance is %s %s.", balance, asset).At("body", "/amount")
	}
	if p.ExternalID != "" {
		if other, err := byExternalID(ctx, tx, company.ID, p.ExternalID); err != nil {
			return Withdrawal{}, err
		} else if other.ID != "" {
			return Withdrawal{}, ErrExternalID.Set("withdrawal_id", other.ID)
		}
	}
	return Withdrawal{
		CompanyID: company.ID, Destination: to, Amount: amount, State: Pending, ExternalID: p.ExternalID,
		CreatedBy: approval.CreatorOf(by), Version: 1, CreatedAt: tx.Now(), UpdatedAt: tx.Now(), key: p.Key,
	}, nil
}

func (w *Withdrawal) post(tx *db.Tx, purpose string, lines ...ledger.Line) error {
	return ledger.Post(tx, ledger.Journal{
		CompanyID: w.CompanyID, SourceType: SourceType, SourceID: w.ID, Purpose: purpose, Lines: lines,
	})
}

// enqueue enqueues the job that processes the withdrawal; a zero time means now.
func (w *Withdrawal) enqueue(tx *db.Tx, at time.Time) {
	job.Enqueue(tx, job.New{CompanyID: w.CompanyID, Kind: JobProcess, Payload: processPayload{w.ID}, RunAt: at})
}

// waiting reports whether the payout has not been queued yet.
func (w *Withdrawal) waiting() bool {
	return w.State == Pending || w.State == AwaitingApproval || w.State == OnHold
}

// advance stores the next state and reason, and emits an event. It fails if the withdrawal has changed since it was
// read. note is stored in the history; if it is empty, the reason is stored instead.
func (w *Withdrawal) advance(ctx context.Context, tx *db.Tx, to State, reason, note string) error {
	from := w.State
	w.State, w.Reason = to, reason
	if err := update(ctx, tx, w, from); err != nil {
		return err
	}
	db.History(tx, w.CompanyID, w.ID, w.Version, string(from), string(to), cmp.Or(note, reason))
	return w.emit(tx, webhook.WithdrawalStatusUpdate)
}

// emit emits an event with the withdrawal's state.
func (w *Withdrawal) emit(tx *db.Tx, event webhook.Type[webhook.WithdrawalData]) error {
	return webhook.Emit(tx, event.Event(w.CompanyID, w.ID, w.Version, webhook.WithdrawalData{
		WithdrawalID: w.ID, Status: string(w.State), Reason: w.Reason, DestinationID: w.Destination.ID,
		Amount: w.Amount, Currency: w.Amount.Asset(), TxHash: w.TxHash, ExternalID: w.ExternalID,
	}))
}

// hold puts a withdrawal on hold and schedules the next attempt.
func (w *Withdrawal) hold(ctx context.Context, tx *db.Tx, reason string) error {
	w.enqueue(tx, tx.Now().Add(retryInterval))
	if w.State == OnHold && w.Reason == reason {
		return nil
	}
	return w.advance(ctx, tx, OnHold, reason, "")
}

// Process queues a withdrawal's payout, or stores why it must wait (job withdrawal.process). Each run makes all
// checks, for whatever reason the job was enqueued.
func (s *Service) Process(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in processPayload
	if err := j.Decode(&in); err != nil {
		return err
	}
	w, err := lock(ctx, tx, j.CompanyID, in.WithdrawalID)
	if err != nil || !w.waiting() {
		return err
	}
	company, err := identity.CompanyByID(ctx, tx, w.CompanyID)
	if err != nil {
		return err
	}
	if company.Active() != nil {
		return w.hold(ctx, tx, ReasonFrozen)
	}
	if w.Destination.Removed {
		return w.end(ctx, tx, Cancelled, ReasonRemoved, "")
	}
	if err := ledger.CheckNoDebt(ctx, tx, w.CompanyID); errors.Is(err, ledger.ErrInsufficient) {
		return w.hold(ctx, tx, ReasonOwes)
	} else if err != nil {
		return err
	}
	switch allowed, err := w.allowed(ctx, tx); {
	case err != nil:
		return err
	case !allowed && w.State == AwaitingApproval:
		return nil
	case !allowed:
		return w.advance(ctx, tx, AwaitingApproval, ReasonApproval, "")
	}
	blocked, err := s.guards.Screen(ctx, tx, w.CompanyID,
		[]destination.ScreeningSubject{w.Destination.screeningSubject(company)})
	if err != nil {
		return err
	}
	if blocked[w.Destination.ID] || blocked[w.CompanyID] {
		return w.hold(ctx, tx, ReasonReview)
	}
	if approved, err := s.guards.ReleaseApproved(ctx, tx, w.CompanyID, w.ID, w.Amount); err != nil {
		return err
	} else if !approved {
		return w.hold(ctx, tx, ReasonRelease)
	}
	return s.queuePayout(ctx, tx, &w)
}

// queuePayout queues the payout of a withdrawal that passed all other checks, unless its travel rule record lacks
// data.
func (s *Service) queuePayout(ctx context.Context, tx *db.Tx, w *Withdrawal) error {
	to := w.Destination.To
	snapshot, err := w.Destination.snapshot()
	if err != nil {
		return err
	}
	outputs := []payout.Output{{
		CompanyID: w.CompanyID, ID: w.outputID, PayrollID: w.ID, PaymentID: w.ID, DistributionID: to.ID,
		Rail: payout.RailOf(to.Rail, to.Network), Amount: w.Amount, Input: w.Amount, Address: to.Address,
		Destination: snapshot,
	}}
	missing, err := s.guards.TravelRule(ctx, tx, outputs)
	if err != nil {
		return err
	}
	if reason := missing[w.ID]; reason != "" {
		return w.hold(ctx, tx, reason)
	}
	if err := w.advance(ctx, tx, Processing, "", "payout queued"); err != nil {
		return err
	}
	return payout.Add(tx, outputs)
}

// Freeze puts the unsent payouts of a company's withdrawals on hold. Withdrawals without a payout check for the
// freeze themselves.
func Freeze(ctx context.Context, tx *db.Tx, companyID string) error {
	ids, err := unsentOutputs(ctx, tx, companyID)
	if err != nil {
		return err
	}
	return payout.HoldOutputs(ctx, tx, companyID, ids)
}

// Unfreeze ends the holds that Freeze set.
func Unfreeze(ctx context.Context, tx *db.Tx, companyID string) error {
	ids, err := heldOutputs(ctx, tx, companyID)
	if err != nil {
		return err
	}
	return payout.ResumeOutputs(ctx, tx, companyID, ids)
}

// Retry enqueues the immediate processing of a withdrawal, after a decision for which it waited.
func Retry(tx *db.Tx, companyID, withdrawalID string) {
	w := Withdrawal{CompanyID: companyID, ID: withdrawalID}
	w.enqueue(tx, time.Time{})
}

// RetryReviewed retries the withdrawals of a company that wait for sanctions screening, after staff decided about a
// match.
func RetryReviewed(ctx context.Context, tx *db.Tx, companyID string) error {
	return retryHeld(ctx, tx, companyID, "'under_review'")
}

// RetryRecorded retries the withdrawals of a company whose travel rule records lack data, after the company provided
// some.
func RetryRecorded(ctx context.Context, tx *db.Tx, companyID string) error {
	return retryHeld(ctx, tx, companyID, "'travel_rule_originator', 'travel_rule_wallet', 'travel_rule_proof'")
}

// retryHeld retries the withdrawals of a company that are on hold for one of these reasons.
func retryHeld(ctx context.Context, tx *db.Tx, companyID, reasons string) error {
	held, err := selectWhere(ctx, tx, companyID,
		"status = 'on_hold' AND reason IN ("+reasons+") ORDER BY created_at, withdrawal_id")
	for _, w := range held {
		Retry(tx, companyID, w.ID)
	}
	return err
}

// allowed reports whether a withdrawal is within the company's approval limit or has its approvals. A waiting
// withdrawal counts towards the limit too.
func (w *Withdrawal) allowed(ctx context.Context, tx *db.Tx) (allowed bool, err error) {
	if w.Approval, err = approval.ProgressOf(ctx, tx, w.subject()); err != nil {
		return false, err
	}
	if allowed, err = approval.Allowed(ctx, tx, w.subject(), w.Amount); err != nil {
		return false, err
	}
	return allowed, approval.Count(ctx, tx, w.subject(), w.Amount)
}

// subject returns the withdrawal as a subject of approvals.
func (w *Withdrawal) subject() approval.Subject {
	return approval.Subject{CompanyID: w.CompanyID, ID: w.ID, Creator: w.CreatedBy}
}

// Approve records a member's approval of a withdrawal that waits for approval. A second approval by the same member
// has no effect. The caller must check that the member has just used a second factor.
func (s *Service) Approve(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (Withdrawal, error) {
	if _, err := approval.Administrators(ctx, tx, by); err != nil {
		return Withdrawal{}, err
	}
	w, err := lock(ctx, tx, by.CompanyID, id)
	switch {
	case err != nil:
		return w, err
	case w.State != AwaitingApproval:
		return w, ErrState
	}
	first, err := approval.Give(ctx, tx, by, w.subject())
	if err != nil || !first {
		return w, err
	}
	if err := w.advance(ctx, tx, AwaitingApproval, ReasonApproval, "approved by "+by.UserID); err != nil {
		return w, err
	}
	w.enqueue(tx, time.Time{})
	return w, nil
}

// Decline ends a withdrawal that waits for approval, and returns its money to the balance.
func (s *Service) Decline(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (Withdrawal, error) {
	if _, err := approval.Administrators(ctx, tx, by); err != nil {
		return Withdrawal{}, err
	}
	w, err := lock(ctx, tx, by.CompanyID, id)
	switch {
	case err != nil:
		return w, err
	case w.State != AwaitingApproval:
		return w, ErrState
	}
	return w, w.end(ctx, tx, Declined, "", "declined by "+by.UserID)
}

// Cancel ends a withdrawal that is not being paid, and returns its money to the balance. Canceling a withdrawal twice
// has no effect. Cancel returns payout.ErrProcessing for a withdrawal that is being paid.
func (s *Service) Cancel(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, id string) (Withdrawal,
	error,
) {
	company, err := by.Company(companyID)
	if err != nil {
		return Withdrawal{}, err
	}
	w, err := lock(ctx, tx, company, id)
	switch {
	case err != nil:
		return w, err
	case w.State == Cancelled:
		return w, nil
	case w.State == Processing:
		return w, payout.ErrProcessing.Detailf("This withdrawal is being paid out.")
	case !w.waiting():
		return w, ErrState
	}
	return w, w.end(ctx, tx, Cancelled, "", "cancelled by "+by.ID)
}

// end ends a withdrawal without a payment, and returns its money to the balance.
func (w *Withdrawal) end(ctx context.Context, tx *db.Tx, to State, reason, note string) error {
	if err := w.advance(ctx, tx, to, reason, note); err != nil {
		return err
	}
	if err := approval.Uncount(ctx, tx, w.subject()); err != nil {
		return err
	}
	owed, err := ledger.Balance(ctx, tx, w.CompanyID, ledger.OutputPayable, w.outputID, w.Amount.Asset())
	if err != nil {
		return err
	}
	return w.post(tx, "give_back",
		ledger.Debit(ledger.OutputPayable, w.outputID, owed), ledger.Credit(ledger.CompanyFunds, "", owed))
}

// PayoutChanged updates a withdrawal from the state of its payout (job payout.changed).
func (s *Service) PayoutChanged(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in payout.Changed
	if err := j.Decode(&in); err != nil {
		return err
	}
	w, err := lock(ctx, tx, j.CompanyID, in.PayrollID)
	if err != nil || w.State != Processing && w.State != Completed {
		return err
	}
	o, err := payout.Get(ctx, tx, w.CompanyID, w.outputID)
	if err != nil {
		return err
	}
	hash := w.TxHash
	w.TxHash = o.TxID
	to := Processing
	switch o.State {
	case payout.Fulfilled:
		to = Completed
	case payout.Returned:
		return w.end(ctx, tx, Returned, o.Reason, "the bank returned it")
	case payout.Failed:
		return w.end(ctx, tx, Failed, o.Reason, "it was not paid")
	}
	if to == w.State && hash == w.TxHash {
		return nil
	}
	return w.advance(ctx, tx, to, "", "the payout is "+string(o.State))
}

// Get returns a withdrawal, or ErrNotFound.
func Get(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, id string) (Withdrawal, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return Withdrawal{}, err
	}
	w, err := find(ctx, tx, company, id)
	if err != nil {
		return w, err
	}
	w.Approval, err = approval.ProgressOf(ctx, tx, w.subject())
	return w, err
}

// List returns a page of a company's withdrawals, newest first, and their total number.
func List(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, page db.Page) ([]Withdrawal,
	int64, error,
) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, 0, err
	}
	return list(ctx, tx, company, page)
}
