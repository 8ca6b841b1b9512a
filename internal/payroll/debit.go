package payroll

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/webhook"
)

// A payroll with MethodDebit is paid from the company's balance, like a payroll with MethodWallet. But it stays
// pending until a direct debit of its total has credited the balance and the debit's hold has ended. If the debit is
// returned before the release, the payroll is pending again.

// DebitProgress is the progress of a payroll's direct debit.
type DebitProgress int

// Values of DebitProgress.
const (
	DebitEnded     DebitProgress = iota // there is no debit, or it failed, was canceled or was returned
	DebitOrdered                        // the debit is scheduled or was sent to the bank
	DebitOnHold                         // the bank credited the money, which cannot be used yet
	DebitAvailable                      // all of the money is available in the balance
)

// Debits collects the totals of payrolls from bank accounts of companies. Package directdebit implements it, and calls
// [DebitChanged] and [DebitReturned].
type Debits interface {
	// CheckPayroll returns an error if a total cannot be collected, for example because there is no active mandate.
	CheckPayroll(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, total money.Amount) error
	// CollectPayroll schedules the direct debit of a payroll's total.
	CollectPayroll(ctx context.Context, tx *db.Tx, by identity.Principal, p *Payroll) error
	// PayrollProgress returns the progress of the newest direct debit of a payroll.
	PayrollProgress(ctx context.Context, tx *db.Tx, companyID, payrollID string) (DebitProgress, error)
	// CancelPayroll locks the newest direct debit of a payroll, and cancels it if it was not sent to the bank.
	CancelPayroll(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, payrollID string) error
}

// debitRetry is the time until the next attempt to fund a payroll whose company owes money or has already spent the
// money of the debit.
const debitRetry = time.Hour

// byDebit sets up funding by direct debit, in the payroll's own currency.
func (t *plan) byDebit(p CreateParams, list *apierr.List) {
	t.funding = t.currency
	if p.FundingCurrency != "" && p.FundingCurrency != string(t.currency) {
		list.Add("currency_not_supported", "/funding_currency",
			"A direct debit funds a payroll in the payroll's own currency.")
	}
}

var errNoDebits = apierr.New(apierr.Invalid, "currency_not_supported", "This installation collects no direct debits.")

// checkDebit returns an error if the total of a plan cannot be collected by direct debit. It does nothing for other
// funding methods.
func (s *Service) checkDebit(ctx context.Context, tx *db.Tx, by identity.Principal, t plan) error {
	if t.method != MethodDebit {
		return nil
	}
	err := error(errNoDebits)
	if s.Debits != nil {
		err = s.Debits.CheckPayroll(ctx, tx, by, t.companyID, t.total)
	}
	if f, ok := apierr.As(err); ok {
		return f.At("body", "/funding_method")
	}
	return err
}

// createByDebit creates a payroll that waits for its direct debit, and schedules the debit.
func (s *Service) createByDebit(ctx context.Context, tx *db.Tx, by identity.Principal, p *Payroll) error {
	if err := p.createPending(tx); err != nil {
		return err
	}
	return s.Debits.CollectPayroll(ctx, tx, by, p)
}

// debitWaits reports whether the direct debit of a payroll is in progress and may still fund the payroll.
func (s *Service) debitWaits(ctx context.Context, tx *db.Tx, p *Payroll) (bool, error) {
	if p.FundingMethod != MethodDebit || s.Debits == nil {
		return false, nil
	}
	progress, err := s.Debits.PayrollProgress(ctx, tx, p.CompanyID, p.ID)
	return progress != DebitEnded, err
}

// cancelDebit cancels the direct debit of a payroll that is being canceled. If the debit was already sent to the
// bank, its money is credited to the company's balance. Call cancelDebit before changing the payroll: transactions
// that post a debit lock first the debit and then its payroll, so the opposite order can deadlock.
func (s *Service) cancelDebit(ctx context.Context, tx *db.Tx, by identity.Principal, p *Payroll) error {
	if p.FundingMethod != MethodDebit || s.Debits == nil {
		return nil
	}
	return s.Debits.CancelPayroll(ctx, tx, by, p.CompanyID, p.ID)
}

// DebitChanged updates a payroll after its direct debit has made progress. Call it after the money of the debit is
// posted. It leaves a payroll that is no longer pending unchanged; the money then stays in the company's balance.
func DebitChanged(ctx context.Context, tx *db.Tx, companyID, payrollID string, progress DebitProgress) error {
	p, err := lock(ctx, tx, companyID, payrollID)
	if err != nil || p.State != Pending {
		return err
	}
	if progress == DebitAvailable {
		return p.fundFromDebit(ctx, tx)
	}
	state := FundingNone
	if progress == DebitOnHold {
		state = FundingConfirming
	}
	if p.FundingState == state {
		return nil
	}
	p.FundingState = state
	return p.noteFunding(ctx, tx, webhook.PayrollStatusUpdate)
}

// fundFromDebit takes the total of a pending payroll from the company's balance. If the company owes money, or has
// already spent the money of the debit, it schedules another attempt.
func (p *Payroll) fundFromDebit(ctx context.Context, tx *db.Tx) error {
	owes, err := hasDebt(ctx, tx, p.CompanyID)
	if err != nil {
		return err
	}
	available, err := ledger.Balance(ctx, tx, p.CompanyID, ledger.CompanyFunds, "", p.FundingCurrency)
	if err != nil {
		return err
	}
	if owes || available.Cmp(p.Total) < 0 {
		job.Enqueue(tx, job.New{CompanyID: p.CompanyID, Kind: deposit.JobChanged,
			Payload: deposit.Changed{ObjectID: p.ID}, RunAt: tx.Now().Add(debitRetry)})
		return nil
	}
	if err := p.post(tx, fmt.Sprintf("debit:%d", p.Version), []ledger.Line{
		ledger.Debit(ledger.CompanyFunds, "", p.Total), ledger.Credit(ledger.Escrow, p.ID, p.Total),
	}); err != nil {
		return err
	}
	p.State, p.FundingState, p.Escrow = Received, FundingFunded, p.Total
	if err := p.step(ctx, tx, Pending, webhook.PayrollStatusUpdate, reasonFundingComplete); err != nil {
		return err
	}
	if err := p.advanceEach(ctx, tx, Pending, Received, ""); err != nil {
		return err
	}
	if p.HoldReason != "" { // the payroll was on hold when its debit was returned
		return p.hold(ctx, tx, p.HoldReason)
	}
	p.enqueueRelease(tx)
	return nil
}

// refundByDebit funds a payroll whose direct debit was credited earlier. If the payroll was released, it resumes the
// payouts once the company no longer owes money.
func (s *Service) refundByDebit(ctx context.Context, tx *db.Tx, p *Payroll) error {
	if p.escrowReleased() {
		if p.FundingState.complete() {
			return nil
		}
		if owes, err := p.owes(ctx, tx); err != nil || owes {
			return err
		}
		return p.recover(ctx, tx, FundingFunded)
	}
	if p.State != Pending || s.Debits == nil {
		return nil
	}
	progress, err := s.Debits.PayrollProgress(ctx, tx, p.CompanyID, p.ID)
	if err != nil || progress != DebitAvailable {
		return err
	}
	return p.fundFromDebit(ctx, tx)
}

// DebitReturned handles the return of a payroll's direct debit by the bank. It first takes the funding out of a
// payroll that was not released, which then waits for funding again. It then calls take, which debits the returned
// amount from the balance. If the company owes money afterwards, DebitReturned puts the unsent payouts of a released
// payroll on hold, even if the payroll has ended, because its failed payouts may be sent again.
func DebitReturned(ctx context.Context, tx *db.Tx, companyID, payrollID string, take func() error) error {
	p, err := lock(ctx, tx, companyID, payrollID)
	if err != nil {
		return err
	}
	if err := p.losesDebit(ctx, tx); err != nil {
		return err
	}
	if err := take(); err != nil || !p.escrowReleased() {
		return err
	}
	owes, err := hasDebt(ctx, tx, companyID)
	if err != nil || !owes {
		return err
	}
	from := p.State
	if p.FundingState = FundingNone; p.State == Released {
		p.State, p.HeldFrom, p.HoldReason = OnHold, Released, ReasonReverted
	}
	if err := p.step(ctx, tx, from, webhook.PayrollFundingReverted, ReasonReverted); err != nil {
		return err
	}
	job.Enqueue(tx, job.New{CompanyID: p.CompanyID, Kind: JobReverted, Payload: Reverted{PayrollID: p.ID}})
	_, err = payout.Hold(ctx, tx, p.CompanyID, p.ID)
	return err
}

// losesDebit returns the escrow of a payroll that was not released to the company's balance. The payroll is pending
// again.
func (p *Payroll) losesDebit(ctx context.Context, tx *db.Tx) error {
	from := p.State
	switch {
	case from == Pending && p.FundingState != FundingNone:
		p.FundingState = FundingNone
		return p.noteFunding(ctx, tx, webhook.PayrollStatusUpdate)
	case from != Received && (from != OnHold || p.HeldFrom != Received):
		return nil
	}
	if err := p.post(tx, fmt.Sprintf("undebit:%d", p.Version), []ledger.Line{
		ledger.Debit(ledger.Escrow, p.ID, p.Escrow), ledger.Credit(ledger.CompanyFunds, "", p.Escrow),
	}); err != nil {
		return err
	}
	p.unfund(money.Zero(p.FundingCurrency), FundingNone)
	if err := p.step(ctx, tx, from, webhook.PayrollFundingReverted, ReasonReverted); err != nil {
		return err
	}
	return p.advanceEach(ctx, tx, Received, Pending, ReasonReverted)
}

// hasDebt reports whether a company owes money.
func hasDebt(ctx context.Context, tx *db.Tx, companyID string) (bool, error) {
	err := ledger.CheckNoDebt(ctx, tx, companyID)
	if errors.Is(err, ledger.ErrInsufficient) {
		return true, nil
	}
	return false, err
}
