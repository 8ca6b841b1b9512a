package backoffice

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/income"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/withdrawal"
)

// Actions that one member of staff requests and another one approves, unless stated otherwise.
const (
	Resume  = "payouts.resume"
	Release = approval.Release // releases a payroll, a withdrawal or a refund above the release limit
	// Credit credits a transfer in suspense, and SendBack returns it. One member of staff suffices up to the release
	// limit.
	Credit   = "transfer.credit"
	SendBack = "transfer.send_back"
	// Freeze needs one member of staff, Unfreeze needs two.
	Freeze   = "company.freeze"
	Unfreeze = "company.unfreeze"
	// ClearHit decides that a screening match is a different person. Confirming a match needs one member of staff
	// only.
	ClearHit   = "hit.clear"
	confirmHit = "hit.confirmed"
)

// RetryJob is the action of retrying a dead job. It needs one member of staff only.
const RetryJob = "jobs.retry"

// Request is an action that one member of staff requests and another one approves.
type Request struct {
	approval.Request
	Name string // name of the requester
}

// Requests returns the open requests, oldest first.
func Requests(ctx context.Context, tx *db.Tx) ([]Request, error) {
	open, err := approval.OpenRequests(ctx, tx)
	if err != nil || len(open) == 0 {
		return nil, err
	}
	names, err := namesOf(ctx, tx)
	all := make([]Request, len(open))
	for i, r := range open {
		all[i] = Request{r, names[r.RequestedBy]}
	}
	return all, err
}

// namesOf returns the names of the active staff by their ids.
func namesOf(ctx context.Context, tx *db.Tx) (map[string]string, error) {
	staff, err := List(ctx, tx)
	names := make(map[string]string, len(staff))
	for _, o := range staff {
		names[o.ID] = o.Name
	}
	return names, err
}

func reasonOf(text string) (string, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return "", errReason.At("body", "")
	}
	return strings.ToValidUTF8(text[:min(len(text), 500)], ""), nil
}

// Pause stops all payouts of every process immediately.
func (s *Service) Pause(ctx context.Context, tx *db.Tx, by Session, reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	if err := payout.SetPaused(ctx, tx, reason); err != nil {
		return err
	}
	return record(ctx, tx, by.Member, AuditEntry{Action: Pause, Reason: reason})
}

// Freeze freezes a company immediately: the company cannot change anything, and none of its payments is sent. Freeze
// sends no event and no mail, because a company under investigation must not always be informed.
func (s *Service) Freeze(ctx context.Context, tx *db.Tx, by Session, companyID, reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	companyID = strings.TrimSpace(companyID)
	if err := FreezeCompany(ctx, tx, companyID); err != nil {
		return err
	}
	return record(ctx, tx, by.Member, AuditEntry{
		Action: Freeze, CompanyID: companyID, ObjectID: companyID, Reason: reason,
	})
}

// RetryJob makes a dead job run again. One member of staff suffices, because the job only completes an earlier
// decision.
func (s *Service) RetryJob(ctx context.Context, tx *db.Tx, by Session, jobID, reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	if jobID == "" { // job.Retry would retry all dead jobs
		return errNothing
	}
	n, err := job.Retry(ctx, tx, jobID)
	if err != nil {
		return err
	}
	if n == 0 {
		return errNothing
	}
	return record(ctx, tx, by.Member, AuditEntry{Action: RetryJob, ObjectID: jobID, Reason: reason})
}

// FreezeCompany freezes a company like [Service.Freeze], for the command line. It does not write to the audit log.
func FreezeCompany(ctx context.Context, tx *db.Tx, companyID string) error {
	if err := changeStatus(ctx, tx, companyID, identity.CompanyActive, identity.CompanyFrozen); err != nil {
		return err
	}
	return holdPayments(ctx, tx, companyID)
}

// holdPayments puts all unsent payments of a company on hold. HandleFreeze repeats it later, for those that were being
// released when the company was frozen.
func holdPayments(ctx context.Context, tx *db.Tx, companyID string) error {
	for _, hold := range []func(context.Context, *db.Tx, string) error{
		payroll.Freeze, withdrawal.Freeze, claim.Freeze,
	} {
		if err := hold(ctx, tx, companyID); err != nil {
			return err
		}
	}
	return nil
}

// HandleFreeze handles payroll.JobFreeze.
func HandleFreeze(ctx context.Context, tx *db.Tx, j job.Job) error {
	if err := payroll.HandleFreeze(ctx, tx, j); err != nil {
		return err
	}
	c, err := identity.CompanyByID(ctx, tx, j.CompanyID)
	if err != nil || c.Active() == nil {
		return err
	}
	if err := withdrawal.Freeze(ctx, tx, c.ID); err != nil {
		return err
	}
	return claim.Freeze(ctx, tx, c.ID)
}

// UnfreezeCompany unfreezes a company and resumes its payments, unless they are on hold for another reason.
func UnfreezeCompany(ctx context.Context, tx *db.Tx, companyID string) error {
	if err := changeStatus(ctx, tx, companyID, identity.CompanyFrozen, identity.CompanyActive); err != nil {
		return err
	}
	return resumePayments(ctx, tx, companyID)
}

// resumePayments ends the holds that holdPayments placed.
func resumePayments(ctx context.Context, tx *db.Tx, companyID string) error {
	for _, resume := range []func(context.Context, *db.Tx, string) error{
		payroll.Unfreeze, withdrawal.Unfreeze, claim.Unfreeze,
	} {
		if err := resume(ctx, tx, companyID); err != nil {
			return err
		}
	}
	return nil
}

func changeStatus(ctx context.Context, tx *db.Tx, companyID, from, to string) error {
	if _, err := identity.CompanyByID(ctx, tx, companyID); err != nil {
		return err
	}
	done, err := identity.SetCompanyStatus(ctx, tx, companyID, from, to)
	if err == nil && !done {
		return errNothing
	}
	return err
}

// RequestAction requests an action that needs two members of staff: resuming payouts, releasing a payment, or
// unfreezing a company.
func (s *Service) RequestAction(ctx context.Context, tx *db.Tx, by Session, action, companyID, objectID,
	reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	r := approval.Request{Action: action, CompanyID: companyID, ObjectID: objectID, Reason: reason}
	var open bool
	switch action {
	case Resume:
		r.CompanyID, r.ObjectID = "", ""
		var why string
		why, err = payout.Paused(ctx, tx)
		if open = why != ""; err == nil && open {
			err = requireExplained(ctx, tx)
		}
	case Release:
		open, err = s.waitsForRelease(ctx, tx, companyID, objectID)
	case Unfreeze:
		r.ObjectID = companyID
		var c identity.Company
		c, err = identity.CompanyByID(ctx, tx, companyID)
		open = c.Status == identity.CompanyFrozen
	default:
		return apierr.NotFoundErr
	}
	if err != nil {
		return err
	}
	if !open {
		return errNothing
	}
	if err := request(ctx, tx, by, r); err != nil || action != Release || !payroll.IsPayroll(objectID) {
		return err
	}
	return payroll.BindRelease(ctx, tx, companyID, objectID)
}

// request opens a request.
func request(ctx context.Context, tx *db.Tx, by Session, r approval.Request) error {
	r.RequestedBy = by.Member.ID
	r, err := approval.Open(ctx, tx, r)
	if err != nil {
		return err
	}
	return record(ctx, tx, by.Member, AuditEntry{
		Action: r.Action + ".ask", CompanyID: r.CompanyID, ObjectID: r.ObjectID, Code: codeOf(r), Reason: why(r),
	})
}

// codeOf returns the reason code of a request for a support action, or "".
func codeOf(r approval.Request) string {
	if r.Action == RemoveFactor || r.Action == CloseAccount {
		return r.Target
	}
	return ""
}

// why returns the reason for the audit log, preceded by the request's target.
func why(r approval.Request) string {
	if r.Target == "" || codeOf(r) != "" {
		return r.Reason
	}
	return r.Target + ": " + r.Reason
}

// DecideTransfer credits a transfer in suspense to the object with an ID ([bankreceipt.Assign]), or returns it if the
// ID is "". Above the release limit it only opens a request, which another member of staff approves.
func (s *Service) DecideTransfer(ctx context.Context, tx *db.Tx, by Session, transferID, to, reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	t, err := bankreceipt.Get(ctx, tx, transferID)
	if err != nil {
		return err
	}
	if t.State != bankreceipt.Suspense {
		return bankreceipt.ErrState
	}
	r := approval.Request{
		Action: SendBack, CompanyID: ledger.Operator, ObjectID: t.ID, Target: strings.TrimSpace(to), Reason: reason,
	}
	if r.Target != "" {
		r.Action = Credit
	}
	return s.decide(ctx, tx, by, t.Amount, r)
}

// decide performs an action if its amount is within the release limit, and opens a request otherwise.
func (s *Service) decide(ctx context.Context, tx *db.Tx, by Session, amount money.Amount, r approval.Request) error {
	above, err := s.deps.ReleaseLimit.Above(ctx, tx, amount)
	if err != nil {
		return err
	}
	if above {
		return request(ctx, tx, by, r)
	}
	if err := record(ctx, tx, by.Member, AuditEntry{
		Action: r.Action, CompanyID: r.CompanyID, ObjectID: r.ObjectID, Reason: why(r),
	}); err != nil {
		return err
	}
	return s.do(ctx, tx, by, r)
}

// decideTransfer credits or returns a transfer.
func decideTransfer(ctx context.Context, tx *db.Tx, r approval.Request) (err error) {
	if r.Action == Credit {
		_, err = bankreceipt.Assign(ctx, tx, r.ObjectID, r.Target)
	} else {
		_, err = bankreceipt.SendBack(ctx, tx, r.ObjectID)
	}
	return err
}

// waitsForRelease reports whether an object is on hold because it is above the release limit.
func (s *Service) waitsForRelease(ctx context.Context, tx *db.Tx, companyID, objectID string) (bool, error) {
	switch {
	case income.IsIncome(objectID):
		return income.AwaitsRelease(ctx, tx, companyID, objectID)
	case withdrawal.IsWithdrawal(objectID):
		return withdrawal.AwaitsRelease(ctx, tx, companyID, objectID)
	case claim.IsRefund(objectID):
		return claim.AwaitsRelease(ctx, tx, companyID, objectID)
	}
	return payroll.AwaitsRelease(ctx, tx, companyID, objectID)
}

// Answer approves a request of another member of staff and does its action, or drops the request. The requester can
// only drop it.
func (s *Service) Answer(ctx context.Context, tx *db.Tx, by Session, requestID string, yes bool, reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	r, err := approval.Answer(ctx, tx, requestID, by.Member.ID, yes)
	if err != nil {
		return err
	}
	what := ".drop"
	if yes {
		what = ".agree"
	}
	if err := record(ctx, tx, by.Member, AuditEntry{
		Action: r.Action + what, CompanyID: r.CompanyID, ObjectID: r.ObjectID, Code: codeOf(r), Reason: reason,
	}); err != nil || !yes {
		return err
	}
	return s.do(ctx, tx, by, r)
}

// do performs an action that was decided.
func (s *Service) do(ctx context.Context, tx *db.Tx, by Session, r approval.Request) error {
	switch r.Action {
	case Resume:
		return ResumePayouts(ctx, tx)
	case Release:
		return s.release(ctx, tx, r)
	case Credit, SendBack:
		return decideTransfer(ctx, tx, r)
	case Unfreeze:
		return UnfreezeCompany(ctx, tx, r.CompanyID)
	case CreditDeposit, ReturnDeposit:
		return decideDeposit(ctx, tx, r)
	case LightningOutcome:
		return decideLightning(ctx, tx, r)
	case Reverse:
		return bank.Reverse(ctx, tx, r.ObjectID, r.Target)
	case WriteOff:
		return writeOff(ctx, tx, r)
	case DebitLimit:
		return setDebitLimit(ctx, tx, r)
	case ChangeFees:
		return changeFees(ctx, tx, r)
	case RemoveFactor:
		return removeFactor(ctx, tx, r)
	case CloseAccount:
		return closeAccount(ctx, tx, r)
	case CloseCompany:
		return closeCompany(ctx, tx, r)
	case ReleaseHold:
		return endHold(ctx, tx, r)
	case SwitchAsset:
		return switchAsset(ctx, tx, r)
	case ClearHit:
		if _, err := openHit(ctx, tx, r.ObjectID); err != nil { // confirmed meanwhile
			return err
		}
		names, err := namesOf(ctx, tx)
		if err != nil {
			return err
		}
		_, _, err = DecideHit(ctx, tx, r.ObjectID, screening.Cleared, names[r.RequestedBy]+", "+by.Member.Name, r.Reason)
		return err
	}
	return fmt.Errorf("backoffice: request %s has the unknown action %q", r.ID, r.Action)
}

// release resumes a payment that is on hold because it is above the release limit.
func (s *Service) release(ctx context.Context, tx *db.Tx, r approval.Request) error {
	switch {
	case income.IsIncome(r.ObjectID):
		income.Retry(tx, r.CompanyID, r.ObjectID, time.Time{})
		return nil
	case withdrawal.IsWithdrawal(r.ObjectID):
		withdrawal.Retry(tx, r.CompanyID, r.ObjectID)
		return nil
	case claim.IsRefund(r.ObjectID):
		return claim.Retry(ctx, tx, r.CompanyID, r.ObjectID)
	}
	return s.deps.Payroll.Resume(ctx, tx, r.CompanyID, r.ObjectID)
}

// DecideHit confirms an open screening match, or requests that it is cleared, which another member of staff approves.
func (s *Service) DecideHit(ctx context.Context, tx *db.Tx, by Session, hitID string, to screening.State,
	reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	h, err := openHit(ctx, tx, hitID)
	if err != nil {
		return err
	}
	if to == screening.Cleared {
		return request(ctx, tx, by, approval.Request{
			Action: ClearHit, CompanyID: h.CompanyID, ObjectID: h.ID, Reason: reason,
		})
	}
	if _, _, err := DecideHit(ctx, tx, hitID, to, by.Member.Name, reason); err != nil {
		return err
	}
	return record(ctx, tx, by.Member, AuditEntry{
		Action: confirmHit, CompanyID: h.CompanyID, ObjectID: h.ID, Reason: reason,
	})
}

// openHit returns a screening match that is not decided, or approval.ErrAnswered.
func openHit(ctx context.Context, tx *db.Tx, id string) (screening.Hit, error) {
	h, err := screening.Get(ctx, tx, id)
	if errors.Is(err, screening.ErrNoHit) || err == nil && h.State != screening.Open {
		return h, approval.ErrAnswered
	}
	return h, err
}

// DecideHit decides a screening match. After the last match of a subject is cleared, it resumes the subject's payments.
func DecideHit(ctx context.Context, tx *db.Tx, id string, to screening.State, by, reason string) (h screening.Hit,
	blocked bool, err error) {
	if h, err = screening.Decide(ctx, tx, id, to, by, reason); err != nil {
		return h, false, err
	}
	if blocked, err = screening.Blocked(ctx, tx, h.CompanyID, h.SubjectID); err != nil || blocked {
		return h, blocked, err
	}
	if identity.IsUser(h.CompanyID) {
		return h, false, income.Resume(ctx, tx, h.CompanyID)
	}
	if err := payee.Restore(ctx, tx, h.CompanyID, h.SubjectID); err != nil {
		return h, false, err
	}
	if err := withdrawal.RetryReviewed(ctx, tx, h.CompanyID); err != nil {
		return h, false, err
	}
	return h, false, payroll.OnScreeningResolved(ctx, tx, h.CompanyID, h.SubjectID)
}
