package backoffice

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/withdrawal"
)

// What two operators do together.
const (
	Resume  = "payouts.resume"
	Release = "release" // of a payroll, a withdrawal or a refund
	// Credit gives a transfer in suspense to somebody, SendBack has the bank send it back: alone up to the house's limit.
	Credit   = "transfer.credit"
	SendBack = "transfer.send_back"
	// Thaw ends what Freeze began, which one does alone.
	Freeze = "company.freeze"
	Thaw   = "company.thaw"
	// ClearHit says that a hit of screening is somebody else. To confirm one takes one operator.
	ClearHit = "hit.clear"
)

// RetryJob is what one operator does.
const RetryJob = "jobs.retry"

// Request is what one operator asks for and another must agree to.
type Request struct {
	ID, Action, CompanyID, ObjectID, Reason string
	Target                                  string // what it is to be done with, "" where that goes without saying
	AskedBy, Name                           string
	AskedAt                                 time.Time
	version                                 int64
}

// Requests are those that nobody has answered, oldest first.
func Requests(ctx context.Context, tx *db.Tx) ([]Request, error) { return openRequests(ctx, tx) }

func reasonOf(text string) (string, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return "", errReason.At("body", "")
	}
	return text[:min(len(text), 500)], nil
}

// Pause stops all payouts, at once, for every process on the database.
func (s *Service) Pause(ctx context.Context, tx *db.Tx, by Session, reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	if err := payout.SetPaused(ctx, tx, reason); err != nil {
		return err
	}
	return note(ctx, tx, by.Operator, Act{Action: "payouts.pause", Reason: reason})
}

// Freeze stops a company at once: it can change nothing, and nothing more of its payrolls leaves. Neither event nor mail tells it so:
// whoever is looked into may not always be told.
func (s *Service) Freeze(ctx context.Context, tx *db.Tx, by Session, companyID, reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	companyID = strings.TrimSpace(companyID)
	if err := FreezeCompany(ctx, tx, companyID); err != nil {
		return err
	}
	return note(ctx, tx, by.Operator, Act{Action: Freeze, CompanyID: companyID, ObjectID: companyID, Reason: reason})
}

// RetryJob has a parked job run again. One operator does it: a job does what was decided before.
func (s *Service) RetryJob(ctx context.Context, tx *db.Tx, by Session, jobID, reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	if jobID == "" { // which stands for all of them
		return errNothing
	}
	n, err := job.Retry(ctx, tx, jobID)
	if err != nil {
		return err
	}
	if n == 0 {
		return errNothing
	}
	return note(ctx, tx, by.Operator, Act{Action: RetryJob, ObjectID: jobID, Reason: reason})
}

// FreezeCompany is [Service.Freeze] at the machine.
func FreezeCompany(ctx context.Context, tx *db.Tx, companyID string) error {
	if err := changeStatus(ctx, tx, companyID, identity.CompanyActive, identity.CompanyFrozen); err != nil {
		return err
	}
	return payroll.Freeze(ctx, tx, companyID)
}

// ThawCompany ends the freeze of a company; what it held goes on where nothing else stands in its way.
func ThawCompany(ctx context.Context, tx *db.Tx, companyID string) error {
	if err := changeStatus(ctx, tx, companyID, identity.CompanyFrozen, identity.CompanyActive); err != nil {
		return err
	}
	return payroll.Thaw(ctx, tx, companyID)
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

// Ask asks for something that two do together: that payouts go on, that a payroll or withdrawal is released, that a company is thawed.
func (s *Service) Ask(ctx context.Context, tx *db.Tx, by Session, action, companyID, objectID, reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	r := Request{Action: action, CompanyID: companyID, ObjectID: objectID, Reason: reason}
	var open bool
	switch action {
	case Resume:
		r.CompanyID, r.ObjectID = "", ""
		var why string
		why, err = payout.Paused(ctx, tx)
		open = why != ""
	case Release:
		open, err = s.waitsForRelease(ctx, tx, companyID, objectID)
	case Thaw:
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
	return request(ctx, tx, by, r)
}

// request keeps what an operator asks for.
func request(ctx context.Context, tx *db.Tx, by Session, r Request) error {
	r.ID, r.AskedBy, r.AskedAt, r.version = tx.NewID("oprq"), by.Operator.ID, tx.Now(), 1
	first, err := insertRequest(ctx, tx, r)
	if err != nil {
		return err
	}
	if !first {
		return ErrAsked
	}
	return note(ctx, tx, by.Operator, Act{Action: r.Action + ".ask", CompanyID: r.CompanyID, ObjectID: r.ObjectID, Reason: r.why()})
}

// why is the reason of an act, with what it was done with.
func (r Request) why() string {
	if r.Target == "" {
		return r.Reason
	}
	return r.Target + ": " + r.Reason
}

// DecideTransfer credits a transfer in suspense to what an id names ([bankreceipt.Assign]), or has it sent back where that is "". One above
// the house's limit is only asked for, and another operator agrees.
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
	r := Request{Action: SendBack, CompanyID: ledger.House, ObjectID: t.ID, Target: strings.TrimSpace(to), Reason: reason}
	if r.Target != "" {
		r.Action = Credit
	}
	return s.decide(ctx, tx, by, t.Amount, r)
}

// decide does what one operator may do alone up to the house's limit, and asks for it above.
func (s *Service) decide(ctx context.Context, tx *db.Tx, by Session, amount money.Amount, r Request) error {
	above, err := s.above(ctx, tx, amount)
	if err != nil {
		return err
	}
	if above {
		return request(ctx, tx, by, r)
	}
	if err := note(ctx, tx, by.Operator, Act{Action: r.Action, CompanyID: r.CompanyID, ObjectID: r.ObjectID, Reason: r.why()}); err != nil {
		return err
	}
	return s.do(ctx, tx, by, r)
}

// transfer does what is asked with a transfer.
func (r Request) transfer(ctx context.Context, tx *db.Tx) (err error) {
	if r.Action == Credit {
		_, err = bankreceipt.Assign(ctx, tx, r.ObjectID, r.Target)
	} else {
		_, err = bankreceipt.SendBack(ctx, tx, r.ObjectID)
	}
	return err
}

// waitsForRelease says whether an object is held because it is above the house's limit.
func (s *Service) waitsForRelease(ctx context.Context, tx *db.Tx, companyID, objectID string) (bool, error) {
	switch {
	case withdrawal.Pays(objectID):
		return withdrawal.AwaitsRelease(ctx, tx, companyID, objectID)
	case claim.IsRefund(objectID):
		return claim.AwaitsRelease(ctx, tx, companyID, objectID)
	}
	return payroll.AwaitsRelease(ctx, tx, companyID, objectID)
}

// Answer agrees to what another operator asks for, and does it, or drops it. Whoever asked may only drop it.
func (s *Service) Answer(ctx context.Context, tx *db.Tx, by Session, requestID string, yes bool, reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	r, err := takeRequest(ctx, tx, requestID)
	if err != nil {
		return err
	}
	to, what := "dropped", ".drop"
	if yes {
		if r.AskedBy == by.Operator.ID {
			return ErrSecondPerson
		}
		to, what = "agreed", ".agree"
	}
	if err := answer(ctx, tx, r, to, by.Operator.ID); err != nil {
		return err
	}
	if err := note(ctx, tx, by.Operator, Act{Action: r.Action + what, CompanyID: r.CompanyID, ObjectID: r.ObjectID, Reason: reason}); err != nil || !yes {
		return err
	}
	return s.do(ctx, tx, by, r)
}

// do does what was decided, at the word of an operator: the one who may alone, or the second.
func (s *Service) do(ctx context.Context, tx *db.Tx, by Session, r Request) error {
	switch r.Action {
	case Resume:
		return payout.SetPaused(ctx, tx, "")
	case Release:
		return s.release(ctx, tx, r)
	case Credit, SendBack:
		return r.transfer(ctx, tx)
	case Thaw:
		return ThawCompany(ctx, tx, r.CompanyID)
	case CreditDeposit, ReturnDeposit:
		return r.deposit(ctx, tx)
	case WriteOff:
		return r.writeOff(ctx, tx)
	case ClearHit:
		if _, err := openHit(ctx, tx, r.ObjectID); err != nil { // confirmed meanwhile
			return err
		}
		_, _, err := DecideHit(ctx, tx, r.ObjectID, screening.Cleared, r.Name+", "+by.Operator.Name, r.Reason)
		return err
	}
	return fmt.Errorf("operator: request %s asks for %q, which nobody does", r.ID, r.Action)
}

// release lets go what is held because it is above the house's limit.
func (s *Service) release(ctx context.Context, tx *db.Tx, r Request) error {
	switch {
	case withdrawal.Pays(r.ObjectID):
		withdrawal.Again(tx, r.CompanyID, r.ObjectID)
		return nil
	case claim.IsRefund(r.ObjectID):
		return claim.Again(ctx, tx, r.CompanyID, r.ObjectID)
	}
	return s.Payroll.Resume(ctx, tx, r.CompanyID, r.ObjectID)
}

// Released says whether an amount may leave: it is not above the house's limit, or two operators have released the object. What is in
// another currency is compared at the present rate, and is above the limit while there is none.
func (s *Service) Released(ctx context.Context, tx *db.Tx, companyID, objectID string, amount money.Amount) (bool, error) {
	if above, err := s.above(ctx, tx, amount); err != nil || !above {
		return err == nil, err
	}
	return agreed(ctx, tx, Release, companyID, objectID)
}

// above says whether an amount is above the house's limit.
func (s *Service) above(ctx context.Context, tx *db.Tx, amount money.Amount) (bool, error) {
	if s.Limit.Asset() == "" {
		return false, nil
	}
	if amount.Asset() != s.Limit.Asset() {
		_, worth, err := quote.Price(ctx, tx, amount, s.Limit.Asset(), 0)
		if _, told := apierr.As(err); told { // there is no rate
			return true, nil
		}
		if err != nil {
			return false, err
		}
		amount = worth
	}
	return amount.Cmp(s.Limit) > 0, nil
}

// DecideHit confirms an open hit of screening, or asks for it to be cleared, to which another operator agrees.
func (s *Service) DecideHit(ctx context.Context, tx *db.Tx, by Session, hitID string, to screening.State, reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	h, err := openHit(ctx, tx, hitID)
	if err != nil {
		return err
	}
	if to == screening.Cleared {
		return request(ctx, tx, by, Request{Action: ClearHit, CompanyID: h.CompanyID, ObjectID: h.ID, Reason: reason})
	}
	if _, _, err := DecideHit(ctx, tx, hitID, to, by.Operator.Name, reason); err != nil {
		return err
	}
	return note(ctx, tx, by.Operator, Act{Action: "hit." + string(to), CompanyID: h.CompanyID, ObjectID: h.ID, Reason: reason})
}

// openHit is a hit that waits for a decision.
func openHit(ctx context.Context, tx *db.Tx, id string) (screening.Hit, error) {
	h, err := screening.Get(ctx, tx, id)
	if errors.Is(err, screening.ErrNoHit) || err == nil && h.State != screening.Open {
		return h, ErrRequest
	}
	return h, err
}

// DecideHit decides a hit and, when it was the last that stood in the way, lets what waited for its subject go on.
func DecideHit(ctx context.Context, tx *db.Tx, id string, to screening.State, by, reason string) (h screening.Hit, blocked bool, err error) {
	if h, err = screening.Decide(ctx, tx, id, to, by, reason); err != nil {
		return h, false, err
	}
	if blocked, err = screening.Blocked(ctx, tx, h.CompanyID, h.SubjectID); err != nil || blocked {
		return h, blocked, err
	}
	if err := payee.Restore(ctx, tx, h.CompanyID, h.SubjectID); err != nil {
		return h, false, err
	}
	if err := withdrawal.Reviewed(ctx, tx, h.CompanyID); err != nil {
		return h, false, err
	}
	return h, false, payroll.Reviewed(ctx, tx, h.CompanyID, h.SubjectID)
}
