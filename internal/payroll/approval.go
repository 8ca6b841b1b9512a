package payroll

import (
	"context"
	"fmt"
	"slices"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/webhook"
)

// Two-person approval: above a limit that the company sets, no payroll is released that one person alone wanted. The release itself
// asks, so that nothing that leads to it goes around; a payroll that has not enough approvals is held, with ReasonApproval. Who made
// it is one of the two; one that an app made needs two members. Approvals count while who gave them may still give them.

// What the limit and the approvals are refused with.
var (
	ErrApprover     = apierr.New(apierr.Forbidden, "role_required", "Only an owner or an administrator who is signed in approves money.")
	ErrOwnPayroll   = apierr.New(apierr.Forbidden, "second_person_required", "Whoever made it cannot approve it. Somebody else has to.")
	ErrOnlyOne      = apierr.New(apierr.Conflict, "second_person_missing", "With fewer than two owners or administrators nobody could approve. Invite a second one first.")
	ErrProposal     = apierr.New(apierr.Conflict, "invalid_state", "This proposal was answered, replaced or withdrawn already.")
	errLimitAmount  = apierr.New(apierr.Invalid, "invalid_parameter", "This takes an amount of zero or more in a currency that is no crypto asset.")
	errNotAwaiting  = ErrState.Detailf("This payroll does not wait for an approval.")
	needsOfPersons  = int64(1) // approvals beside the member who made it
	needsOfPrograms = int64(2)
)

// Approval is how far the approval of a payroll has come.
type Approval struct {
	Needed int64    // members who must approve
	By     []string // user ids of those who did, and still may, in the order of their ids
}

// done says whether the money may move.
func (a Approval) done() bool { return int64(len(a.By)) >= a.Needed }

// Limit is above which total a company's payrolls need an approval. An Amount without an asset is no limit.
type Limit struct {
	Amount   money.Amount
	Proposal Proposal
}

// Proposal is what somebody wants the limit to be. Its ID is "" when nobody wants another.
type Proposal struct {
	ID, By string
	Amount money.Amount
}

// LimitOf is the company's limit.
func (s *Service) LimitOf(ctx context.Context, tx *db.Tx, by identity.Principal) (Limit, error) {
	company, err := by.Company("")
	if err != nil {
		return Limit{}, err
	}
	return findLimit(ctx, tx, company)
}

// SetLimit makes an amount the company's limit, an Amount without an asset removes it. A first and a lower limit hold at once. What
// would let more pass waits as a proposal for a second member: see [Service.AnswerLimit].
func (s *Service) SetLimit(ctx context.Context, tx *db.Tx, by identity.Principal, amount money.Amount) error {
	if amount.Asset() != "" && (amount.Sign() < 0 || amount.Asset().IsCrypto()) {
		return errLimitAmount.At("body", "/limit")
	}
	version, err := identity.NextCompanyVersion(ctx, tx, by.CompanyID) // others who change it wait
	if err != nil {
		return err
	}
	approvers, err := Approvers(ctx, tx, by)
	if err != nil {
		return err
	}
	now, err := findLimit(ctx, tx, by.CompanyID)
	if err != nil {
		return err
	}
	if amount.Asset() != "" && len(approvers) < 2 {
		return ErrOnlyOne.At("body", "/limit")
	}
	next, what := Limit{Amount: amount}, "set to"
	switch same := amount.Asset() == now.Amount.Asset(); {
	case same && (amount.Asset() == "" || amount.Cmp(now.Amount) == 0):
		return nil
	case now.Amount.Asset() == "", same && amount.Cmp(now.Amount) < 0:
	default:
		next, what = Limit{Amount: now.Amount, Proposal: Proposal{ID: tx.NewID("alp"), By: by.UserID, Amount: amount}}, "proposed as"
	}
	noteLimit(tx, by, version, what, amount)
	return saveLimit(ctx, tx, by.CompanyID, next)
}

// AnswerLimit makes a proposal the limit, or drops it. Whoever proposed it may only drop it, and it counts only while they are still
// an approver.
func (s *Service) AnswerLimit(ctx context.Context, tx *db.Tx, by identity.Principal, proposalID string, yes bool) error {
	version, err := identity.NextCompanyVersion(ctx, tx, by.CompanyID)
	if err != nil {
		return err
	}
	approvers, err := Approvers(ctx, tx, by)
	if err != nil {
		return err
	}
	l, err := findLimit(ctx, tx, by.CompanyID)
	if err != nil {
		return err
	}
	asked := l.Proposal
	switch {
	case asked.ID == "" || asked.ID != proposalID, yes && !slices.Contains(approvers, asked.By):
		return ErrProposal
	case yes && asked.By == by.UserID:
		return ErrOwnPayroll
	}
	l.Proposal = Proposal{}
	what := "proposal declined:"
	if yes {
		l.Amount, what = asked.Amount, "set, as "+asked.By+" proposed, to"
	}
	noteLimit(tx, by, version, what, asked.Amount)
	return saveLimit(ctx, tx, by.CompanyID, l)
}

func noteLimit(tx *db.Tx, by identity.Principal, version int64, what string, amount money.Amount) {
	shown := "none"
	if amount.Asset() != "" {
		shown = amount.String() + " " + string(amount.Asset())
	}
	db.History(tx, by.CompanyID, by.CompanyID, version, "", "", fmt.Sprintf("approval limit: %s %s by %s", what, shown, by.UserID))
}

// Approvers are the user ids of those who may approve money of a company, or ErrApprover when who asks is none of them.
func Approvers(ctx context.Context, tx *db.Tx, by identity.Principal) ([]string, error) {
	if by.Kind != identity.KindSession || by.UserID == "" {
		return nil, ErrApprover
	}
	all, err := identity.Administrators(ctx, tx, by.CompanyID)
	if err == nil && !slices.Contains(all, by.UserID) {
		err = ErrApprover
	}
	return all, err
}

// Maker is the member who makes a payroll at a page, "" for a program, whomever it acts for.
func Maker(by identity.Principal) string {
	if by.Kind == identity.KindSession {
		return by.UserID
	}
	return ""
}

// ApprovalsNeeded is how many members must approve what a maker makes, without regard to the limit. A maker of "" is a program.
func ApprovalsNeeded(maker string) int64 {
	if maker != "" {
		return needsOfPersons
	}
	return needsOfPrograms
}

// AboveLimit says whether amounts are together above the company's limit. One in another currency is compared at the present rate, and
// is above it while there is none.
func AboveLimit(ctx context.Context, tx *db.Tx, companyID string, amounts ...money.Amount) (bool, error) {
	limit, err := findLimit(ctx, tx, companyID)
	if err != nil || limit.Amount.Asset() == "" {
		return false, err
	}
	total := money.Zero(limit.Amount.Asset())
	for _, a := range amounts {
		if a.Asset() != total.Asset() {
			_, a, err = quote.Price(ctx, tx, a, total.Asset(), 0)
		}
		if err == nil {
			total, err = total.Add(a)
		}
		if _, told := apierr.As(err); told {
			return true, nil // there is no rate, or it is more than can be counted
		}
		if err != nil {
			return false, err
		}
	}
	return total.Cmp(limit.Amount) > 0, nil
}

// mayMove says whether a payroll may be released: it is not above the limit, or has its approvals.
func (p *Payroll) mayMove(ctx context.Context, tx *db.Tx) (bool, error) {
	above, err := AboveLimit(ctx, tx, p.CompanyID, p.Total)
	if err != nil || !above {
		return !above, err
	}
	a, err := p.approval(ctx, tx)
	return a.done(), err
}

// approval counts the approvals of those who may still give them.
func (p *Payroll) approval(ctx context.Context, tx *db.Tx) (Approval, error) {
	a := Approval{Needed: ApprovalsNeeded(p.CreatedBy)}
	given, err := p.approvedBy(ctx, tx)
	if err != nil || len(given) == 0 {
		return a, err
	}
	may, err := identity.Administrators(ctx, tx, p.CompanyID)
	for _, id := range given {
		if id != p.CreatedBy && slices.Contains(may, id) {
			a.By = append(a.By, id)
		}
	}
	return a, err
}

// awaiting reads a payroll that waits for an approval of who asks.
func awaiting(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID string) (*Payroll, error) {
	p, err := find(ctx, tx, by.CompanyID, payrollID)
	if err != nil {
		return nil, err
	}
	if _, err := Approvers(ctx, tx, by); err != nil {
		return p, err
	}
	if !p.awaitsApproval() {
		return p, errNotAwaiting
	}
	return p, nil
}

func (p *Payroll) awaitsApproval() bool { return p.State == OnHold && p.HoldReason == ReasonApproval }

// Approve is a member's word that a payroll that waits for it may be paid; with enough of them it goes on. Saying it twice is fine.
// That the member has just shown a second factor is the caller's to see to.
func (s *Service) Approve(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID string) (Payroll, error) {
	p, err := awaiting(ctx, tx, by, payrollID)
	if err != nil {
		return Payroll{}, err
	}
	if by.UserID == p.CreatedBy {
		return *p, ErrOwnPayroll
	}
	first, err := p.keepApproval(ctx, tx, by.UserID)
	if err != nil {
		return *p, err
	}
	a, err := p.approval(ctx, tx)
	switch {
	case err != nil:
		return *p, err
	case a.done():
		p.State, p.HeldFrom, p.HoldReason = Received, "", ""
		p.enqueueRelease(tx)
	case !first:
		return *p, nil
	}
	return *p, p.step(ctx, tx, OnHold, webhook.PayrollStatusUpdate, ReasonApproved)
}

// Decline ends a payroll that waits for an approval: nobody is paid, and the company's balance has its money.
func (s *Service) Decline(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID string) (Payroll, error) {
	p, err := awaiting(ctx, tx, by, payrollID)
	if err != nil {
		return Payroll{}, err
	}
	return *p, p.withdraw(ctx, tx, ReasonDeclined)
}

// withdraw ends a payroll that waits for an approval, for a reason or none.
func (p *Payroll) withdraw(ctx context.Context, tx *db.Tx, reason string) error {
	if !p.FromOutside() {
		return p.giveBack(ctx, tx, reason)
	}
	f, err := look(ctx, tx, p)
	if err != nil {
		return err
	}
	if err := f.freeAll(ctx, tx); err != nil {
		return err
	}
	short := p.Shortfall
	p.State, p.HeldFrom, p.HoldReason = Cancelled, "", ""
	p.Escrow, p.Shortfall = money.Zero(p.FundingCurrency), money.Zero(p.FundingCurrency)
	if err := p.step(ctx, tx, OnHold, webhook.PayrollStatusUpdate, reason); err != nil {
		return err
	}
	if err := p.absorb(tx, "unabsorb", ledger.Debit(ledger.Escrow, p.ID, short), ledger.Credit(ledger.Shortfall, p.ID, short)); err != nil {
		return err
	}
	return p.advanceEach(ctx, tx, Received, Cancelled, reason)
}
