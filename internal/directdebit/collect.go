package directdebit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payroll"
)

// Apply applies the facts that a bank reports about debits, each in its own transaction, and returns problems for
// staff. A fact that was applied before has no effect.
func (s *Collector) Apply(ctx context.Context, d *db.DB, facts []bank.DebitFact) (problems []string, err error) {
	for _, f := range facts {
		problem := ""
		if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			problem = ""
			x, err := lockNumber(ctx, tx, f.Number)
			if errors.Is(err, ErrNotFound) {
				problem = bank.DebitReference(f.Number) + " is not a direct debit of this service"
				if f.Outcome == bank.DebitRejected && f.Code == bank.CodeDay { // may concern the former number of a debit
					return nil
				}
				return pauseUnknown(ctx, tx, f)
			}
			if err == nil {
				problem, err = s.apply(ctx, tx, &x, f)
			}
			return err
		}); err != nil {
			return problems, err
		}
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	return problems, nil
}

// pauseUnknown pauses payouts, and thereby the sending of debits, when the bank has a debit that the database does
// not contain: the database was restored from an older backup.
func pauseUnknown(ctx context.Context, tx *db.Tx, f bank.DebitFact) error {
	if why, err := payout.Paused(ctx, tx); err != nil || why != "" {
		return err
	}
	return payout.SetPaused(ctx, tx,
		"the bank has the direct debit "+bank.DebitReference(f.Number)+", which this database does not contain")
}

// apply applies a fact to a locked debit. It returns a problem for staff if the fact contradicts the debit.
func (s *Service) apply(ctx context.Context, tx *db.Tx, x *Debit, f bank.DebitFact) (problem string, err error) {
	sent := x.State == Submitting || x.State == Submitted
	contradicts := func() string {
		return fmt.Sprintf("%s: the bank reports %s (%s %s), but the direct debit is %s", bank.DebitReference(f.Number),
			[]string{"that it has it", "that it was collected", "that it is rejected", "that it was returned"}[f.Outcome],
			f.Code, f.Info, x.State)
	}
	switch f.Outcome {
	case bank.DebitAccepted:
		if x.State == Submitting {
			err = x.advance(ctx, tx, Submitted, "", "")
		}
		return "", err
	case bank.DebitCollected:
		switch {
		case f.Amount.Asset() != "" && f.Amount != x.Amount:
			return fmt.Sprintf("%s: %s %s were credited, but the debit is of %s", x.Reference(), f.Amount, f.Amount.Asset(),
				x.Amount), nil
		case sent, x.State == Scheduled: // the bank had refused the due date, but collected nevertheless
			return "", s.collected(ctx, tx, x)
		case x.State == Failed || x.State == Cancelled:
			return contradicts(), nil
		}
		return "", nil
	case bank.DebitRejected:
		if !sent {
			if x.State == Failed || x.State == Returned || x.State == Scheduled { // the bank refused it before
				return "", nil
			}
			return contradicts(), nil
		}
		if late, err := s.refusedDay(*x, f, tx.Now()); err != nil {
			return "", err
		} else if late {
			return "", x.writeAgain(ctx, tx)
		}
		if err := x.advance(ctx, tx, Failed, cmp.Or(f.Code, "MS03"), f.Info); err != nil {
			return "", err
		}
		return "", s.refused(ctx, tx, x, mail.DebitFailed)
	case bank.DebitReturned:
		if x.State == Failed || x.State == Returned {
			return "", nil
		}
		if !sent && x.State != Collected && x.State != Available {
			return contradicts(), nil
		}
		return s.returned(ctx, tx, x, f)
	}
	return "", nil
}

// refusedDay reports whether a fact states that the bank refuses the file of a debit because it can no longer meet
// the due date: the file reached the bank too late.
func (s *Service) refusedDay(x Debit, f bank.DebitFact, now time.Time) (bool, error) {
	a, err := s.accountOf(x)
	if err != nil || a.ByAPI() || f.Code != bank.CodeDay {
		return false, err
	}
	due, err := time.Parse(time.DateOnly, x.DueOn)
	return due.Before(a.EarliestDue(now)), err
}

// writeAgain removes a debit from its file, which the bank refused because of the due date. The job that sends the
// debit gives it a new number and a later due date, and announces it again.
func (d *Debit) writeAgain(ctx context.Context, tx *db.Tx) error {
	if err := unclaim(ctx, tx, *d); err != nil {
		return err
	}
	if err := d.advance(ctx, tx, Scheduled, "", "the bank received it too late"); err != nil {
		return err
	}
	d.enqueue(tx, jobSubmit, tx.Now())
	return nil
}

// credit posts the money of a debit to the account for money on hold.
func (s *Service) credit(tx *db.Tx, x *Debit) error {
	return x.post(tx, "collect", ledger.Debit(ledger.Bank, x.account, x.Amount),
		ledger.Credit(ledger.HeldFunds, x.ID, x.Amount))
}

// collected records that the bank credited a debit, and releases the part that is within the company's risk limit.
func (s *Service) collected(ctx context.Context, tx *db.Tx, x *Debit) error {
	a, err := s.accountOf(*x)
	if err != nil {
		return err
	}
	x.HeldUntil = a.HoldEnd(x.Mandate.Scheme, tx.Now())
	early, err := earlyRelease(ctx, tx, x)
	if err != nil {
		return err
	}
	x.Released = early
	if err := x.advance(ctx, tx, Collected, "", ""); err != nil {
		return err
	}
	x.enqueue(tx, jobRelease, x.HeldUntil)
	if err := s.credit(tx, x); err != nil {
		return err
	}
	if err := x.post(tx, "early", ledger.Debit(ledger.HeldFunds, x.ID, early),
		ledger.Credit(ledger.CompanyFunds, "", early)); err != nil {
		return err
	}
	if err := x.informPayroll(ctx, tx, x.progress()); err != nil {
		return err
	}
	if x.Final {
		m, err := lockMandate(ctx, tx, x.CompanyID, x.Mandate.ID)
		if err != nil || m.State != MandateActive {
			return err
		}
		return m.end(ctx, tx, MandateEnded, ReasonFinal, "")
	}
	return nil
}

// earlyRelease returns the part of a debit that can be used before its hold ends: the unused part of the company's
// risk limit. A debit that funds a payroll is released early only as a whole.
func earlyRelease(ctx context.Context, tx *db.Tx, x *Debit) (money.Amount, error) {
	zero := money.Zero(x.Amount.Asset())
	limit, err := lockLimit(ctx, tx, x.CompanyID, x.Amount.Asset())
	if err != nil || limit.IsZero() {
		return zero, err
	}
	company, err := identity.CompanyByID(ctx, tx, x.CompanyID)
	if err != nil || company.Active() != nil || x.Mandate.State != MandateActive {
		return zero, err
	}
	if err := ledger.CheckNoDebt(ctx, tx, x.CompanyID); errors.Is(err, ledger.ErrInsufficient) {
		return zero, nil
	} else if err != nil {
		return zero, err
	}
	at, err := releasedEarly(ctx, tx, x.CompanyID, x.Amount.Asset())
	if err != nil {
		return zero, err
	}
	left, err := limit.Sub(at)
	if err != nil || left.Sign() <= 0 {
		return zero, err
	}
	if left.Cmp(x.Amount) > 0 {
		left = x.Amount
	}
	if x.PayrollID != "" && left != x.Amount {
		return zero, nil
	}
	return left, nil
}

// release credits the rest of a debit to the balance when its hold has ended (job direct_debit.release).
func (s *Collector) release(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in debitPayload
	if err := j.Decode(&in); err != nil {
		return err
	}
	x, err := lock(ctx, tx, j.CompanyID, in.DebitID)
	if err != nil || x.State != Collected {
		return err
	}
	if tx.Now().Before(x.HeldUntil) {
		x.enqueue(tx, jobRelease, x.HeldUntil)
		return nil
	}
	company, err := identity.CompanyByID(ctx, tx, x.CompanyID)
	if err != nil {
		return err
	}
	stopped, err := ledger.StoppedAssets(ctx, tx)
	if err != nil {
		return err
	}
	if company.Active() != nil || stopped[x.Amount.Asset()] || x.Reason == ReasonAmount {
		x.enqueue(tx, jobRelease, tx.Now().Add(waitInterval))
		return nil //nolint:nilerr // waits while the company is frozen
	}
	heard, err := s.heard(ctx, tx, x)
	if err != nil {
		return err
	}
	if !heard { // a return may be on its way
		x.enqueue(tx, jobRelease, tx.Now().Add(waitInterval))
		if x.transferID != "" { // the bank is asked at once
			x.checkAt = tx.Now()
		}
		if x.Reason == ReasonUnanswered {
			return setCheck(ctx, tx, x)
		}
		s.log.ErrorContext(ctx, "a direct debit stays on hold, because the bank has not answered whether it came back",
			"debit_id", x.ID, "account", x.account, "held_until", x.HeldUntil)
		return x.advance(ctx, tx, Collected, ReasonUnanswered, "")
	}
	rest, err := x.Amount.Sub(x.Released)
	if err != nil {
		return err
	}
	x.Released = x.Amount
	if err := x.advance(ctx, tx, Available, "", ""); err != nil {
		return err
	}
	if err := x.post(tx, "release", ledger.Debit(ledger.HeldFunds, x.ID, rest),
		ledger.Credit(ledger.CompanyFunds, "", rest)); err != nil {
		return err
	}
	return x.informPayroll(ctx, tx, x.progress())
}

// heard reports whether a return of a debit within its hold would be known: the bank's API has answered a question
// about the debit since the hold ended, or the statements up to the end of the hold were read.
func (s *Collector) heard(ctx context.Context, tx *db.Tx, x Debit) (bool, error) {
	if x.transferID != "" {
		return !x.checkedAt.Before(x.HeldUntil), nil
	}
	a, err := s.accountOf(x)
	if err != nil {
		return false, err
	}
	day, err := s.guards.Stated(ctx, tx, a)
	return day >= a.ReturnsStated(x.HeldUntil), err
}

// returned takes the amount of a returned debit from the held money, then from the balance; the rest becomes a debt
// of the company. The operator pays a fee that the bank charged with the return, up to the fee that the account
// permits.
func (s *Service) returned(ctx context.Context, tx *db.Tx, x *Debit, f bank.DebitFact) (problem string, err error) {
	a, err := s.accountOf(*x)
	if err != nil {
		return "", err
	}
	fee := money.Zero(x.Amount.Asset())
	if f.Amount.Asset() != "" {
		if fee, err = f.Amount.Sub(x.Amount); err != nil {
			return err.Error(), nil //nolint:nilerr // a problem for staff
		}
		most := a.MaxReturnFee()
		if fee.Sign() < 0 || fee.Cmp(most) > 0 {
			problem = fmt.Sprintf("%s: %s %s were taken back, but the debit is of %s", x.Reference(), f.Amount,
				f.Amount.Asset(), x.Amount)
		}
		if fee.Sign() < 0 { // only a part came back: nothing more is released until staff decide
			if x.State == Collected && x.Reason != ReasonAmount {
				err = x.advance(ctx, tx, Collected, ReasonAmount, f.Info)
			}
			return problem, err
		}
		if fee.Cmp(most) > 0 { // the whole debit came back; staff post the difference
			fee = money.Zero(x.Amount.Asset())
		}
	}
	if x.State == Submitting || x.State == Submitted { // the bank takes back a credit that it has not reported
		if err := s.credit(tx, x); err != nil {
			return "", err
		}
	}
	held, err := x.Amount.Sub(x.Released)
	if err != nil {
		return "", err
	}
	gone, err := x.Amount.Add(fee)
	if err != nil {
		return "", err
	}
	code := strings.TrimSpace(f.Code)
	if err := x.advance(ctx, tx, Returned, cmp.Or(code, "MS03"), f.Info); err != nil {
		return "", err
	}
	take := func() error {
		lines, err := ledger.ReversalLines(ctx, tx, x.CompanyID, x.Released)
		if err != nil {
			return err
		}
		return x.post(tx, "return", append(lines, ledger.Debit(ledger.HeldFunds, x.ID, held),
			ledger.Debit(ledger.BankFee, x.account, fee), ledger.Credit(ledger.Bank, x.account, gone))...)
	}
	if x.PayrollID == "" {
		err = take()
	} else {
		err = payroll.DebitReturned(ctx, tx, x.CompanyID, x.PayrollID, take)
	}
	if err != nil {
		return "", err
	}
	return problem, s.refused(ctx, tx, x, mail.DebitReturned)
}

// refused ends or suspends the mandates of a company after a debit failed or was returned, and informs the company.
// The debit's mandate ends if no further debit under it can succeed.
func (s *Service) refused(ctx context.Context, tx *db.Tx, x *Debit, change string) error {
	all, err := mandates(ctx, tx, x.CompanyID)
	if err != nil {
		return err
	}
	for _, found := range all {
		m, err := lockMandate(ctx, tx, x.CompanyID, found.ID)
		if err != nil {
			return err
		}
		open := m.State == MandateActive || m.State == MandateSuspended || m.State == MandatePending
		switch {
		case m.ID == x.Mandate.ID && open && endsMandate(x.Reason):
			err = m.end(ctx, tx, MandateEnded, x.Reason, "direct debit "+x.ID)
		case m.State == MandateSuspended && lacksFunds(m.Reason) && !lacksFunds(x.Reason): // the company cannot lift it
			err = m.advance(ctx, tx, MandateSuspended, x.Reason, "direct debit "+x.ID)
		case m.State == MandateActive:
			if err = m.advance(ctx, tx, MandateSuspended, x.Reason, "direct debit "+x.ID); err == nil {
				err = m.cancelScheduled(ctx, tx)
			}
		}
		if err != nil {
			return err
		}
	}
	return x.notify(ctx, tx, change)
}

// endsMandate reports whether a reason code states that the account or the authorization no longer exists, so that a
// new mandate is needed.
func endsMandate(code string) bool {
	switch code {
	case "R02", "R03", "R04", "R05", "R07", "R08", "R10", "R11", "R12", "R13", "R15", "R16", "R20", "R29", "R51",
		"AC01", "AC04", "AC06", "AC13", "AG01", "MD01", "MD02", "MD06", "MD07", "MS02", "SL01":
		return true
	}
	return false
}

// Limit returns the amount in a currency that a company can use before the holds of its debits end.
func Limit(ctx context.Context, tx *db.Tx, companyID string, asset money.Asset) (money.Amount, error) {
	return findLimit(ctx, tx, companyID, asset)
}

// SetLimit sets the risk limit of a company in a currency. It does not release money that was collected earlier.
func SetLimit(ctx context.Context, tx *db.Tx, companyID string, limit money.Amount) error {
	if limit.Sign() < 0 {
		return apierr.New(apierr.Invalid, "invalid_parameter", "Enter an amount of zero or more.")
	}
	return saveLimit(ctx, tx, companyID, limit)
}

// Exposure returns the amount that a company was able to use although the holds of its debits have not ended.
func Exposure(ctx context.Context, tx *db.Tx, companyID string, asset money.Asset) (money.Amount, error) {
	return releasedEarly(ctx, tx, companyID, asset)
}

// Held returns the amounts on hold, by currency.
func Held(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string) (map[money.Asset]money.Amount,
	error,
) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, err
	}
	return heldBy(ctx, tx, company)
}
