package income

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
)

// retryAddress is the time until the next attempt to release an income that waits for an address of the user's
// wallet.
const retryAddress = 5 * time.Minute

// Release pays an income, or sends failed and returned outputs to their new destinations, unless something prevents
// it (job income.release). If something does, the income waits with the reason.
func (s *Service) Release(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in releasePayload
	if err := j.Decode(&in); err != nil {
		return err
	}
	i, err := lock(ctx, tx, j.CompanyID, in.IncomeID)
	if err != nil {
		return err
	}
	switch i.State {
	case payroll.Received, payroll.OnHold, payroll.ActionRequired, payroll.Returned:
	case payroll.Released, payroll.Fulfilled, payroll.Cancelled:
		return nil
	default:
		return fmt.Errorf("income: %s has the unknown state %q and is not changed", i.ID, string(i.State))
	}
	u, err := identity.GetUser(ctx, tx, nil, i.UserID)
	if err != nil {
		return err
	}
	all, err := destination.ForOwners(ctx, tx, []string{u.ID})
	if err != nil {
		return err
	}
	to, err := s.Payroll.Addressed(ctx, tx, destination.AddressOwner{CompanyID: i.UserID, PayrollID: i.ID,
		PaymentID: i.ID}, payroll.Allocated(all[u.ID]))
	if errors.Is(err, destination.ErrGap) {
		Retry(tx, i.UserID, i.ID, tx.Now().Add(retryAddress))
		return i.stop(ctx, tx, payroll.ReasonAddress, nil)
	}
	if err != nil {
		return err
	}
	if i.releasedAt.IsZero() {
		if err := s.release(ctx, tx, &i, u, to); err != nil || i.State == payroll.Released {
			return err
		}
		return destination.ReturnAddresses(ctx, tx, destination.AddressOwner{CompanyID: i.UserID, PayrollID: i.ID,
			PaymentID: i.ID})
	}
	return s.resend(ctx, tx, &i, u, to)
}

// release debits the income from the user's balance, and queues one output for each destination.
func (s *Service) release(ctx context.Context, tx *db.Tx, i *Income, u identity.User,
	to []destination.Destination,
) error {
	if err := ledger.OffsetAll(ctx, tx, i.UserID); err != nil {
		return err
	}
	left, err := ledger.Balance(ctx, tx, i.UserID, ledger.CompanyFunds, "", i.Amount.Asset())
	switch {
	case err != nil:
		return err
	case left.Sign() <= 0:
		return i.cancel(ctx, tx)
	case left.Cmp(i.Amount) > 0:
		left = i.Amount
	}
	problem, err := s.obstacle(ctx, tx, i, u, to)
	if err != nil {
		return err
	}
	var outputs []payout.Output
	var convert []ledger.Line
	fee, net := money.Amount{}, money.Amount{}
	if problem == "" {
		if fee, err = left.Fraction(s.FeeBps, basisPoints, money.HalfEven); err != nil {
			return err
		}
		if net, err = left.Sub(fee); err != nil {
			return err
		}
		if outputs, convert, problem, err = s.Payroll.PlanOwed(ctx, tx, i.owed(net, to)); err != nil {
			return err
		}
	}
	if problem != "" {
		return i.stop(ctx, tx, problem, nil)
	}
	if i.Withheld, err = i.Amount.Sub(left); err != nil {
		return err
	}
	i.Fee, i.releasedAt = fee, tx.Now()
	if err := i.advance(ctx, tx, payroll.Released, "", outputs); err != nil {
		return err
	}
	if err := i.post(tx, "release", ledger.Debit(ledger.CompanyFunds, "", left),
		ledger.Credit(ledger.PayeePayable, i.ID, net), ledger.Credit(ledger.FeeRevenue, sourceType, fee)); err != nil {
		return err
	}
	if err := i.post(tx, "convert", convert...); err != nil {
		return err
	}
	return payout.Add(tx, outputs)
}

// resend sends failed and returned outputs to the user's present destinations.
func (s *Service) resend(ctx context.Context, tx *db.Tx, i *Income, u identity.User,
	to []destination.Destination,
) error {
	outputs, err := payout.ForPayroll(ctx, tx, i.UserID, i.ID)
	if err != nil {
		return err
	}
	redirected, err := payroll.Redirected(outputs, to)
	if err != nil {
		return err
	}
	if !redirected {
		if i.State != payroll.OnHold {
			return nil
		}
		// The destination for which the income waited was removed.
		back, reason, err := payroll.Outcome(i.ID, payroll.Released, outputs)
		if err != nil {
			return err
		}
		return i.advance(ctx, tx, back, reason, outputs)
	}
	problem, err := s.obstacle(ctx, tx, i, u, to)
	if err != nil {
		return err
	}
	var lines []ledger.Line
	if problem == "" {
		if lines, problem, err = s.Payroll.ResendOwed(ctx, tx, i.owed(i.Amount, to), outputs); err != nil {
			return err
		}
	}
	if problem != "" {
		return i.stop(ctx, tx, problem, outputs)
	}
	if err := i.post(tx, fmt.Sprintf("correct:%d", i.Version+1), lines...); err != nil {
		return err
	}
	return i.advance(ctx, tx, payroll.Released, "", outputs)
}

func (i *Income) owed(x money.Amount, to []destination.Destination) payroll.Owed {
	return payroll.Owed{OwnerID: i.UserID, ObjectID: i.ID, Amount: x, To: to}
}

// obstacle returns the reason why an income cannot be paid to these destinations now, or "". For a cool-down, it also
// schedules the next attempt.
func (s *Service) obstacle(ctx context.Context, tx *db.Tx, i *Income, u identity.User, to []destination.Destination,
) (string, error) {
	switch {
	case u.KYCStatus != identity.KYCApproved:
		return ReasonVerification, nil
	case len(to) == 0:
		return payroll.ReasonNoDestination, nil
	case !s.Payroll.Carried(to, u.Country):
		return payroll.ReasonNoRail, nil
	}
	blocked, err := s.guards.Screen(ctx, tx, destination.ScreeningSubject{
		Payee: payee.Payee{ID: u.ID, UserID: u.ID, Kind: payee.TypeUser, Name: u.Name(), Country: u.Country}, To: to,
	})
	if err != nil {
		return "", err
	}
	if blocked {
		return payroll.ReasonReview, nil
	}
	switch err := ledger.CheckNoDebt(ctx, tx, i.UserID); {
	case errors.Is(err, ledger.ErrInsufficient):
		return ReasonOwes, nil
	case err != nil:
		return "", err
	}
	if cooling, err := s.cooling(ctx, tx, i); err != nil || cooling {
		return payroll.ReasonCoolDown, err
	}
	if destination.Disputed(to) {
		return payroll.ReasonDisputed, nil
	}
	switch c := s.Payroll.Checks.Concern(tx.Now(), destination.Unconfirmed(to)); {
	case c == nil:
	case c.Returned:
		return payroll.ReasonReturned, nil
	case !c.Waits.IsZero():
		return payroll.ReasonPrenote, nil
	case !c.Unanswered.IsZero():
		Retry(tx, i.UserID, i.ID, c.Unanswered)
		return payroll.ReasonAnswer, nil
	case s.Payroll.Checks.Policy == destination.CheckBlocks:
		return payroll.ReasonCheck, nil
	}
	approved, err := s.guards.ReleaseApproved(ctx, tx, i.UserID, i.ID, i.Amount)
	if err != nil || approved {
		return "", err
	}
	return payroll.ReasonRelease, nil
}

// cooling reports whether the user's destinations changed within the cool-down, and the user was paid before the
// change. If so, it schedules the next attempt.
func (s *Service) cooling(ctx context.Context, tx *db.Tx, i *Income) (bool, error) {
	if s.CoolDown <= 0 {
		return false, nil
	}
	changed, err := destination.ChangedSince(ctx, tx, []string{i.UserID}, tx.Now().Add(-s.CoolDown))
	at, recent := changed[i.UserID]
	if err != nil || !recent {
		return false, err
	}
	paid, err := releasedBefore(ctx, tx, i.UserID, at)
	if err == nil && !paid && i.CompanyID != "" {
		paid, err = payroll.PaidBefore(ctx, tx, i.CompanyID, i.UserID, at)
	}
	if err != nil || !paid {
		return false, err
	}
	Retry(tx, i.UserID, i.ID, at.Add(s.CoolDown))
	return true, nil
}

// stop records why an income cannot be paid now. It does nothing if the income already waits for this reason.
func (i *Income) stop(ctx context.Context, tx *db.Tx, problem string, outputs []payout.Output) error {
	to := payroll.ActionRequired
	switch problem {
	case payroll.ReasonCoolDown, payroll.ReasonCheck, payroll.ReasonAnswer, payroll.ReasonPrenote,
		payroll.ReasonReview, payroll.ReasonConversion, payroll.ReasonRelease, payroll.ReasonAddress, ReasonOwes:
		to = payroll.OnHold
	}
	if i.State == to && i.Reason == problem {
		return nil
	}
	return i.advance(ctx, tx, to, problem, outputs)
}

// PayoutChanged updates an income from the states of its outputs (job payout.changed).
func (s *Service) PayoutChanged(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in payout.Changed
	if err := j.Decode(&in); err != nil {
		return err
	}
	i, err := lock(ctx, tx, j.CompanyID, in.PayrollID)
	if err != nil {
		return err
	}
	outputs, err := payout.ForPayroll(ctx, tx, i.UserID, i.ID)
	if err != nil {
		return err
	}
	to, reason, err := payroll.Outcome(i.ID, i.State, outputs)
	if err != nil || to == i.State {
		return err
	}
	if to == payroll.ActionRequired || to == payroll.Returned {
		// The approval by staff was for the former destination.
		if err := approval.RevokeRelease(ctx, tx, i.UserID, i.ID); err != nil {
			return err
		}
		Retry(tx, i.UserID, i.ID, time.Time{}) // the user may have changed the destination already
	}
	return i.advance(ctx, tx, to, reason, outputs)
}

// Resume enqueues the release of a user's waiting incomes, because an obstacle may have ended.
func Resume(ctx context.Context, tx *db.Tx, userID string) error {
	waiting, err := stopped(ctx, tx, userID)
	for _, i := range waiting {
		Retry(tx, i.UserID, i.ID, time.Time{})
	}
	return err
}

// retrySettings is the time between attempts to release incomes that wait for people or for settings of the operator.
const retrySettings = time.Hour

// HeldRetrier retries the release of incomes that wait for something that ends without an event. The zero value is
// ready for use by one goroutine.
type HeldRetrier struct {
	settings time.Time // last retry of the incomes that wait for settings, or zero
}

// Retry enqueues the release of the incomes that wait for an asset of the operator or for the settlement of a debt.
// In its first call, and again every hour, it includes incomes that wait for something on which the operator's
// settings decide: the networks on which payouts are made, and the checks of accounts. Such incomes may wait for
// people, for months, and settings change only when a process starts. Retry must be called periodically.
func (r *HeldRetrier) Retry(ctx context.Context, d *db.DB) error {
	now, err := d.Now(ctx)
	if err != nil {
		return err
	}
	all := r.settings.IsZero() || now.Sub(r.settings) >= retrySettings
	if err := retryHeld(ctx, d, all); err != nil || !all {
		return err
	}
	r.settings = now
	return nil
}

// retryHeld enqueues the release of all incomes that [held] returns.
func retryHeld(ctx context.Context, d *db.DB, settings bool) error {
	for after := ""; ; {
		var waiting []Income
		if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			waiting, err = held(ctx, tx, settings, after)
			return err
		}); err != nil || len(waiting) == 0 {
			return err
		}
		if err := d.Write(ctx, func(_ context.Context, tx *db.Tx) error {
			for _, i := range waiting {
				Retry(tx, i.UserID, i.ID, time.Time{})
			}
			return nil
		}); err != nil || len(waiting) < heldPage {
			return err
		}
		after = waiting[len(waiting)-1].ID
	}
}
