// Package withdrawal takes a company's money out of its balance, to a destination of the company's own.
//
// A destination is an address or a bank account. An owner or administrator who has just shown a second factor names it on a page,
// every owner and administrator is told by mail, and it serves when a cool-down has passed: whoever steals a login, or a key, can
// take money nowhere else before somebody notices. Programs choose among the destinations that are there; they add none.
//
//	pending ─┬→ processing → completed, and back where a reorganisation takes the payout out
//	  ↑ ↓    │       ├→ failed    it could not be paid; the balance has it again
//	on_hold, │       └→ returned  the bank sent it back; the balance has it again
//	awaiting_approval → declined
//	  (all before processing) → cancelled
//
// What holds for all of it:
//
//   - The money leaves the available balance (2000) when the withdrawal is made, and is owed to its output (2110) from then on. So
//     two withdrawals, or a withdrawal and a pay run, never take the same money.
//   - Above the company's limit it needs approvals as a pay run does. What was taken out in the last 24 hours counts along, so that
//     many small ones are no way around it.
//   - The destination is compared with the sanctions lists before the money goes, not only when it was named.
//   - Whoever removes a destination cancels what still waits to go there.
//   - The payout is made by the engine that pays everybody, and only followed here.
package withdrawal

import (
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

// State is where a withdrawal stands.
type State string

// The states of a withdrawal.
const (
	Pending          State = "pending"           // made, and looked at next
	AwaitingApproval State = "awaiting_approval" // above the company's limit
	OnHold           State = "on_hold"           // for its reason
	Processing       State = "processing"        // with the engine that pays
	Completed        State = "completed"
	Returned         State = "returned"
	Failed           State = "failed"
	Declined         State = "declined"
	Cancelled        State = "cancelled"
)

// States are all of them.
var States = []State{Pending, AwaitingApproval, OnHold, Processing, Completed, Returned, Failed, Declined, Cancelled}

// Why a withdrawal waits or has ended.
const (
	ReasonApproval = "approval_required"
	ReasonReview   = "under_review"     // somebody compares the destination with a sanctions list
	ReasonRelease  = "release_review"   // it is above what leaves without two operators
	ReasonFrozen   = "company_frozen"   // the company may do nothing at present
	ReasonOwes     = "balance_owed"     // the company owes what was taken back of money that had come in
	ReasonRemoved  = "destination_gone" // its destination was removed while it waited
)

// JobLook has a withdrawal looked at that has not gone yet (payload {withdrawal_id}).
const JobLook = "withdrawal.look"

const (
	// SourceType names withdrawals in the ledger.
	SourceType = "withdrawal"

	prefix = "wdr"

	// lookLater is how long a withdrawal waits between two looks while something stands in its way that ends by itself.
	lookLater = 10 * time.Minute
	// countedFor is how long a withdrawal counts towards the company's limit.
	countedFor = 24 * time.Hour
	// leastBitcoin is what a payout in bitcoin is worth its fee from, in sat.
	leastBitcoin = 10_000
)

// What a caller may be told.
var (
	ErrNotFound   = apierr.New(apierr.NotFound, "not_found", "There is no such withdrawal.")
	ErrBalance    = apierr.New(apierr.Conflict, "insufficient_balance", "The balance does not cover this.")
	ErrState      = apierr.New(apierr.Conflict, "invalid_state", "The withdrawal is on its way or has ended; nothing can be changed about it.")
	ErrCooling    = apierr.New(apierr.Conflict, "destination_cooling", "This destination is new. Money can go there when its cool-down has passed.")
	ErrExternalID = apierr.New(apierr.Conflict, "external_id_conflict", "The company has a withdrawal with this external_id already.")
	errLeast      = apierr.New(apierr.Invalid, "amount_too_small", "The amount is below the least that is paid out.")
	errTo         = apierr.New(apierr.NotFound, "not_found", "The company has no such destination.")
)

// Config is what withdrawals are made by. Setup is required.
type Config struct {
	Setup        destination.Setup // validates destinations
	CoolDown     approval.CoolDown // of a new destination
	VerifiedOnly bool              // refuses companies whose verification is not approved
}

// Guards decide whether money may leave. All are required.
type Guards struct {
	// Screen returns the IDs that sanctions screening blocks: of destinations, or of the company itself.
	Screen func(ctx context.Context, tx *db.Tx, companyID string, all []destination.ScreeningSubject) (blocked map[string]bool, err error)
	// ReleaseApproved reports whether a withdrawal may be paid out as far as the operator is concerned: it is within the release limit,
	// or two members of staff approved it.
	ReleaseApproved func(ctx context.Context, tx *db.Tx, companyID, withdrawalID string, amount money.Amount) (bool, error)
}

// Service makes withdrawals and pays them.
type Service struct {
	Config

	guards Guards
}

// New returns a Service. It refuses a missing dependency, and above all a missing guard.
func New(c Config, g Guards) (*Service, error) {
	switch {
	case c.Setup.Sealer == nil:
		return nil, errors.New("withdrawal: Config.Setup.Sealer is required")
	case g.Screen == nil:
		return nil, errors.New("withdrawal: Guards.Screen is required")
	case g.ReleaseApproved == nil:
		return nil, errors.New("withdrawal: Guards.ReleaseApproved is required")
	}
	return &Service{c, g}, nil
}

// Withdrawal is what a company takes out.
type Withdrawal struct {
	CompanyID, ID        string
	Destination          Destination // as it was when the withdrawal was read
	Amount               money.Amount
	State                State
	Reason               string
	TxHash               string
	ExternalID           string
	CreatedBy            string // the member who asked for it, "" for a program
	Approval             approval.Progress
	Version              int64
	CreatedAt, UpdatedAt time.Time

	outputID, key string
}

// Params is a wanted withdrawal.
type Params struct {
	CompanyID     string
	DestinationID string
	AmountText    string
	ExternalID    string // the company's own name for it, "" for none
	Key           string // of the form that asks; sent twice, it is one withdrawal. "" for none
}

type look struct {
	WithdrawalID string `json:"withdrawal_id"`
}

// Pays says that payouts for an object are this package's.
func Pays(objectID string) bool { return strings.HasPrefix(objectID, prefix+"_") }

// acting is the company that a principal acts for, when it may move money now.
func (s *Service) acting(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string) (identity.Company, error) {
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
	if s.VerifiedOnly && company.KYBStatus != identity.KYCApproved {
		return company, payroll.ErrUnverified
	}
	return company, nil
}

// Create takes an amount out of the balance. What then happens to it is for [Service.Look]. A member who asks must be an owner or
// administrator; that they have just shown a second factor is the caller's to see to.
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
	return w, w.post(tx, "withdraw", ledger.Debit(ledger.CompanyFunds, "", w.Amount), ledger.Credit(ledger.OutputPayable, w.outputID, w.Amount))
}

// Check says what Create would make, or why it would not. Approval.Needed is 0 where it would wait for none.
func (s *Service) Check(ctx context.Context, tx *db.Tx, by identity.Principal, p Params) (Withdrawal, error) {
	w, err := s.plan(ctx, tx, by, p)
	if err != nil {
		return w, err
	}
	may, err := w.allowed(ctx, tx)
	if may {
		w.Approval = approval.Progress{}
	}
	return w, err
}

// Ready is nil when an amount could go to a destination of the company's now, if only the balance had it.
func (s *Service) Ready(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, destinationID string, amount money.Amount) error {
	if _, err := s.acting(ctx, tx, by, companyID); err != nil {
		return err
	}
	if _, err := serving(ctx, tx, companyID, destinationID); err != nil {
		return err
	}
	if err := ledger.CheckNoDebt(ctx, tx, companyID); err != nil {
		return err
	}
	return enough(amount)
}

// serving is a destination of a company's that money can go to now.
func serving(ctx context.Context, tx *db.Tx, companyID, id string) (Destination, error) {
	to, err := findDestination(ctx, tx, companyID, id)
	switch {
	case err != nil:
		return to, err
	case to.ID == "" || to.Removed:
		return to, errTo
	case tx.Now().Before(to.ReadyAt):
		return to, ErrCooling.Detailf("Money can go to this destination from %s on.", to.ReadyAt.UTC().Format(time.RFC3339))
	}
	return to, nil
}

// enough says that an amount is worth paying out.
func enough(amount money.Amount) error {
	if amount.Asset() == money.BTC && amount.Units() < leastBitcoin {
		return errLeast.Detailf("An address is paid %s BTC at least.", money.New(money.BTC, leastBitcoin)).At("body", "/amount")
	}
	return nil
}

// plan is the wanted withdrawal without its id, or the one that its key has made.
func (s *Service) plan(ctx context.Context, tx *db.Tx, by identity.Principal, p Params) (Withdrawal, error) {
	company, err := s.acting(ctx, tx, by, p.CompanyID)
	if err != nil {
		return Withdrawal{}, err
	}
	if by.Kind == identity.KindSession {
		if _, err := approval.Approvers(ctx, tx, by); err != nil {
			return Withdrawal{}, err
		}
	}
	if p.Key != "" {
		if made, err := byKey(ctx, tx, company.ID, p.Key); err != nil || made.ID != "" {
			return made, err
		}
	}
	to, err := serving(ctx, tx, company.ID, p.DestinationID)
	if told, ok := apierr.As(err); ok {
		err = told.At("body", "/destination_id")
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
	if err := enough(amount); err != nil {
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
		CompanyID: company.ID, Destination: to, Amount: amount, State: Pending, ExternalID: p.ExternalID, CreatedBy: approval.CreatorOf(by),
		Version: 1, CreatedAt: tx.Now(), UpdatedAt: tx.Now(), key: p.Key,
	}, nil
}

func (w *Withdrawal) post(tx *db.Tx, purpose string, lines ...ledger.Line) error {
	return ledger.Post(tx, ledger.Journal{CompanyID: w.CompanyID, SourceType: SourceType, SourceID: w.ID, Purpose: purpose, Lines: lines})
}

func (w *Withdrawal) enqueue(tx *db.Tx, at time.Time) {
	job.Enqueue(tx, job.New{CompanyID: w.CompanyID, Kind: JobLook, Payload: look{w.ID}, RunAt: at})
}

// waits says that nothing was given to the engine yet.
func (w *Withdrawal) waits() bool {
	return w.State == Pending || w.State == AwaitingApproval || w.State == OnHold
}

// move is a guarded change of state.
func (w *Withdrawal) move(ctx context.Context, tx *db.Tx, to State, reason, why string) error {
	from := w.State
	w.State, w.Reason = to, reason
	if err := update(ctx, tx, w, from); err != nil {
		return err
	}
	if why == "" {
		why = reason
	}
	db.History(tx, w.CompanyID, w.ID, w.Version, string(from), string(to), why)
	return w.emit(tx, webhook.WithdrawalStatusUpdate)
}

// emit tells the company how the withdrawal stands now.
func (w *Withdrawal) emit(tx *db.Tx, event webhook.Type[webhook.WithdrawalData]) error {
	return webhook.Emit(tx, event.Event(w.CompanyID, w.ID, w.Version, webhook.WithdrawalData{
		WithdrawalID: w.ID, Status: string(w.State), Reason: w.Reason, DestinationID: w.Destination.ID, Amount: w.Amount,
		Currency: w.Amount.Asset(), TxHash: w.TxHash, ExternalID: w.ExternalID,
	}))
}

// hold lets a withdrawal wait for a reason, and looks again later.
func (w *Withdrawal) hold(ctx context.Context, tx *db.Tx, reason string) error {
	w.enqueue(tx, tx.Now().Add(lookLater))
	if w.State == OnHold && w.Reason == reason {
		return nil
	}
	return w.move(ctx, tx, OnHold, reason, "")
}

// Look brings a withdrawal on its way, or says what stands in it (job withdrawal.look). All that may stand in the way is looked at
// each time, so nothing that leads here goes around any of it.
func (s *Service) Look(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in look
	if err := j.Decode(&in); err != nil {
		return err
	}
	w, err := take(ctx, tx, j.CompanyID, in.WithdrawalID)
	if err != nil || !w.waits() {
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
		return w.giveUp(ctx, tx, Cancelled, ReasonRemoved, "")
	}
	if err := ledger.CheckNoDebt(ctx, tx, w.CompanyID); errors.Is(err, ledger.ErrInsufficient) {
		return w.hold(ctx, tx, ReasonOwes)
	} else if err != nil {
		return err
	}
	switch may, err := w.allowed(ctx, tx); {
	case err != nil:
		return err
	case !may && w.State == AwaitingApproval:
		return nil
	case !may:
		return w.move(ctx, tx, AwaitingApproval, ReasonApproval, "")
	}
	blocked, err := s.guards.Screen(ctx, tx, w.CompanyID, []destination.ScreeningSubject{w.Destination.whom(company)})
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
	to := w.Destination.To
	snapshot, err := w.Destination.snapshot()
	if err != nil {
		return err
	}
	if err := w.move(ctx, tx, Processing, "", "given to the rail"); err != nil {
		return err
	}
	return payout.Add(tx, []payout.Output{{
		CompanyID: w.CompanyID, ID: w.outputID, PayrollID: w.ID, PaymentID: w.ID, DistributionID: to.ID, Rail: payout.RailOf(to.Rail, to.Network),
		Amount: w.Amount, Input: w.Amount, Address: to.Address, Destination: snapshot,
	}})
}

// Again has a withdrawal looked at now: somebody decided about what it waits for.
func Again(tx *db.Tx, companyID, withdrawalID string) {
	job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobLook, Payload: look{withdrawalID}})
}

// Reviewed has the withdrawals of a company looked at that wait for a review that has ended.
func Reviewed(ctx context.Context, tx *db.Tx, companyID string) error {
	held, err := selectWhere(ctx, tx, companyID, "status = 'on_hold' AND reason = 'under_review' ORDER BY created_at, withdrawal_id")
	for _, w := range held {
		Again(tx, companyID, w.ID)
	}
	return err
}

// allowed reports whether a withdrawal is within the company's limit, or has its approvals. What the company took out in the 24
// hours before counts toward the limit, so that many small withdrawals do not avoid it.
func (w *Withdrawal) allowed(ctx context.Context, tx *db.Tx) (bool, error) {
	before, err := sumsBefore(ctx, tx, w, w.CreatedAt.Add(-countedFor))
	if err != nil {
		return false, err
	}
	if w.Approval, err = approval.ProgressOf(ctx, tx, w.subject()); err != nil {
		return false, err
	}
	return approval.Allowed(ctx, tx, w.subject(), append(before, w.Amount)...)
}

func (w *Withdrawal) subject() approval.Subject {
	return approval.Subject{CompanyID: w.CompanyID, ID: w.ID, Creator: w.CreatedBy}
}

// Approve is a member's word that a withdrawal that waits for it may go. Saying it twice is fine. That the member has just shown a
// second factor is the caller's to see to.
func (s *Service) Approve(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (Withdrawal, error) {
	if _, err := approval.Approvers(ctx, tx, by); err != nil {
		return Withdrawal{}, err
	}
	w, err := take(ctx, tx, by.CompanyID, id)
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
	if err := w.move(ctx, tx, AwaitingApproval, ReasonApproval, "approved by "+by.UserID); err != nil {
		return w, err
	}
	w.enqueue(tx, time.Time{})
	return w, nil
}

// Decline ends a withdrawal that waits for an approval; the balance has its money again.
func (s *Service) Decline(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (Withdrawal, error) {
	if _, err := approval.Approvers(ctx, tx, by); err != nil {
		return Withdrawal{}, err
	}
	w, err := take(ctx, tx, by.CompanyID, id)
	switch {
	case err != nil:
		return w, err
	case w.State != AwaitingApproval:
		return w, ErrState
	}
	return w, w.giveUp(ctx, tx, Declined, "", "declined by "+by.UserID)
}

// Cancel ends a withdrawal that has not gone yet; the balance has its money again. One that is cancelled already is that, and one that is being
// paid is payout.ErrProcessing.
func (s *Service) Cancel(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, id string) (Withdrawal, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return Withdrawal{}, err
	}
	w, err := take(ctx, tx, company, id)
	switch {
	case err != nil:
		return w, err
	case w.State == Cancelled:
		return w, nil
	case w.State == Processing:
		return w, payout.ErrProcessing.Detailf("This withdrawal is being paid out.")
	case !w.waits():
		return w, ErrState
	}
	return w, w.giveUp(ctx, tx, Cancelled, "", "cancelled by "+by.ID)
}

// giveUp ends a withdrawal and gives the balance what is still owed to its output.
func (w *Withdrawal) giveUp(ctx context.Context, tx *db.Tx, to State, reason, why string) error {
	if err := w.move(ctx, tx, to, reason, why); err != nil {
		return err
	}
	owed, err := ledger.Balance(ctx, tx, w.CompanyID, ledger.OutputPayable, w.outputID, w.Amount.Asset())
	if err != nil {
		return err
	}
	return w.post(tx, "give_back",
		ledger.Debit(ledger.OutputPayable, w.outputID, owed), ledger.Credit(ledger.CompanyFunds, "", owed))
}

// PayoutChanged looks what became of a withdrawal's payout (job payout.changed).
func (s *Service) PayoutChanged(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in payout.Changed
	if err := j.Decode(&in); err != nil {
		return err
	}
	w, err := take(ctx, tx, j.CompanyID, in.PayrollID)
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
		return w.giveUp(ctx, tx, Returned, o.Reason, "the bank sent it back")
	case payout.Failed:
		return w.giveUp(ctx, tx, Failed, o.Reason, "it could not be paid")
	}
	if to == w.State && hash == w.TxHash {
		return nil
	}
	return w.move(ctx, tx, to, "", "the payout is "+string(o.State))
}

// Get reads one withdrawal, or says ErrNotFound.
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

// List pages a company's withdrawals, newest first, and says how many there are in all.
func List(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, page, perPage int) ([]Withdrawal, int64, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, 0, err
	}
	return list(ctx, tx, company, perPage, int64(max(page, 1)-1)*int64(perPage))
}
