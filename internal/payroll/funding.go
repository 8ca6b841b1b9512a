package payroll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/receivable"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/webhook"
)

// funding is a payroll with the facts about its funding, the verdict on them, and the receipts, which record the
// postings.
type funding struct {
	p        *Payroll
	facts    receivable.Facts
	verdict  receivable.Verdict
	receipts []receipt
	late     bool // a late deposit was posted to suspense in this transaction
	posted   bool // a journal was posted in this transaction
	reversed bool // a receipt was reversed in this transaction
}

// Fund updates a payroll and its postings from its deposits (job deposit.changed): it posts newly confirmed deposits,
// reverses those that are no longer confirmed, and changes the payroll's state accordingly. It ignores objects of
// other kinds.
func (s *Service) Fund(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in struct {
		ObjectID string `json:"object_id"`
	}
	if err := j.Decode(&in); err != nil {
		return err
	}
	p, err := lock(ctx, tx, j.CompanyID, in.ObjectID)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if p.FundingMethod == MethodDebit {
		return s.refundByDebit(ctx, tx, p)
	}
	if !p.FromOutside() {
		return nil
	}
	f, err := loadFunding(ctx, tx, p)
	if err != nil {
		return err
	}
	if err := f.postDeposits(ctx, tx); err != nil {
		return err
	}
	if f.late && p.State == Pending {
		if err := f.announceLate(ctx, tx); err != nil {
			return err
		}
		if err := s.requote(ctx, tx, f); err != nil {
			return err
		}
	}
	return f.conclude(ctx, tx)
}

// loadFunding loads the facts about a payroll's money.
func loadFunding(ctx context.Context, tx *db.Tx, p *Payroll) (*funding, error) {
	f := &funding{p: p, facts: receivable.Facts{Due: p.Total, Asset: p.FundingCurrency, ToleranceBps: p.ToleranceBps}}
	if err := tx.Batch(ctx, append(f.facts.Queries(p.CompanyID, p.ID), p.askReceipts(&f.receipts))); err != nil {
		return nil, err
	}
	for i := range f.receipts {
		if at := slices.IndexFunc(f.facts.Deposits,
			func(d deposit.Deposit) bool { return d.ID == f.receipts[i].deposit }); at >= 0 {
			f.receipts[i].chain = f.facts.Deposits[at].Chain
		}
	}
	return f, f.evaluate()
}

// evaluate updates the verdict. Money that was credited to the company's balance, or that settled a debt, does not
// count. Once the payroll is no longer pending, new deposits do not count either, because they are credited to the
// company.
func (f *funding) evaluate() error {
	f.facts.Accepted, f.facts.Spent = map[string]money.Rate{}, map[string]money.Amount{}
	for i := range f.facts.Deposits {
		d := &f.facts.Deposits[i]
		if d.State != deposit.Confirmed {
			continue
		}
		r := f.receipt(d)
		spent := r.debt
		switch {
		case r.active:
			var err error
			if spent, err = r.surplus.Add(r.debtSettled); err != nil {
				return err
			}
			if r.price == r.deposit {
				f.facts.Accepted[d.ID] = r.rate
			}
		case f.p.State != Pending:
			spent = d.Amount
		}
		f.facts.Spent[d.ID] = spent
	}
	var err error
	f.verdict, err = f.facts.Evaluate()
	return err
}

// receipt returns the receipt of a deposit. If the deposit has no receipt, it adds one.
func (f *funding) receipt(d *deposit.Deposit) *receipt {
	i := slices.IndexFunc(f.receipts, func(r receipt) bool { return r.deposit == d.ID })
	if i < 0 {
		f.receipts = append(f.receipts, newReceipt(d.ID, d.Chain, d.Amount))
		i = len(f.receipts) - 1
	}
	return &f.receipts[i]
}

// escrowReleased reports whether a payroll was released, so that all or a part of its escrow was paid out.
func (p *Payroll) escrowReleased() bool {
	state := p.State
	if state == OnHold {
		state = p.HeldFrom
	}
	return state == Released || state == Fulfilled || state == PartiallyFulfilled
}

// postDeposits posts and reverses until the receipt of each deposit agrees with the deposit's state. It reverses
// first, so that other deposits can cover the freed amounts.
func (f *funding) postDeposits(ctx context.Context, tx *db.Tx) error {
	confirmed := map[string]bool{}
	for i := range f.facts.Deposits {
		d := &f.facts.Deposits[i]
		confirmed[d.ID] = d.State == deposit.Confirmed
	}
	for i := range f.receipts {
		if r := &f.receipts[i]; r.active && !confirmed[r.deposit] {
			if err := f.reverse(ctx, tx, r); err != nil {
				return err
			}
		}
	}
	if f.reversed {
		if err := f.evaluate(); err != nil {
			return err
		}
	}
	if err := f.postVerdict(ctx, tx); err != nil {
		return err
	}
	return f.evaluate()
}

// reverse reverses a receipt. Money that is no longer in escrow is debited from the company's balance; the company
// owes the rest.
func (f *funding) reverse(ctx context.Context, tx *db.Tx, r *receipt) error {
	p := f.p
	f.reversed = true
	available, err := ledger.Balance(ctx, tx, p.CompanyID, ledger.CompanyFunds, "", p.FundingCurrency)
	if err != nil {
		return err
	}
	lines, err := r.reverse(p.ID, p.escrowReleased(), available)
	if err != nil {
		return err
	}
	return f.post(ctx, tx, r, "reverse", lines)
}

// postVerdict posts the confirmed deposits according to the verdict. Only a pending payroll receives money. Once it
// is no longer pending, earlier postings stay unchanged, and new money is credited to the company.
func (f *funding) postVerdict(ctx context.Context, tx *db.Tx) error {
	for _, part := range f.verdict.Parts {
		at := slices.IndexFunc(f.facts.Deposits, func(d deposit.Deposit) bool { return d.ID == part.DepositID })
		d := &f.facts.Deposits[at]
		r := f.receipt(d)
		var lines []ledger.Line
		var err error
		what := "book"
		switch {
		case !r.active:
			r.price, r.rate, r.late = d.QuoteID, part.Rate, part.PriceID == ""
			lines, err = r.book(f.p.ID, part.Counted, part.Held)
			f.late = f.late || r.suspense.Sign() > 0
		case f.p.State == Pending && (part.Counted != r.escrow || part.Held != r.suspense):
			what = "apply"
			r.price, r.rate = part.PriceID, part.Rate
			lines, err = r.rebook(f.p.ID, part.Counted, part.Held)
		default:
			continue
		}
		if err != nil {
			return err
		}
		if err := f.post(ctx, tx, r, what, lines); err != nil {
			return err
		}
	}
	return nil
}

// post posts the next change of a receipt and stores it.
func (f *funding) post(ctx context.Context, tx *db.Tx, r *receipt, what string, lines []ledger.Line) error {
	f.posted = true
	if err := f.p.post(tx, fmt.Sprintf("%s:%s:%d", what, r.deposit, r.version), lines); err != nil {
		return err
	}
	return f.p.saveReceipt(ctx, tx, r)
}

// sum adds up the amount that part returns for each receipt.
func (f *funding) sum(part func(receipt) money.Amount) (money.Amount, error) {
	total := money.Zero(f.p.FundingCurrency)
	var err error
	for _, r := range f.receipts {
		if total, err = total.Add(part(r)); err != nil {
			return total, err
		}
	}
	return total, nil
}

func (f *funding) escrow() (money.Amount, error) {
	return f.sum(func(r receipt) money.Amount { return r.escrow })
}

func (f *funding) surplus() (money.Amount, error) {
	return f.sum(func(r receipt) money.Amount { return r.surplus })
}

func (f *funding) suspense() (money.Amount, error) {
	return f.sum(func(r receipt) money.Amount { return r.suspense })
}

func (f *funding) owed() (money.Amount, error) {
	return f.sum(func(r receipt) money.Amount { return r.debt })
}

// conclude changes the payroll's state according to its money.
func (f *funding) conclude(ctx context.Context, tx *db.Tx) error {
	switch p := f.p; {
	case p.State == Pending:
		return f.concludePending(ctx, tx)
	case p.State == Received || p.State == OnHold && p.HeldFrom == Received:
		return f.concludeReceived(ctx, tx)
	case p.escrowReleased():
		return f.concludeReleased(ctx, tx)
	default:
		return f.concludeClosed(ctx, tx)
	}
}

func (f *funding) concludePending(ctx context.Context, tx *db.Tx) error {
	p := f.p
	if f.verdict.Covered {
		return f.receive(ctx, tx)
	}
	state, held, err := f.await(ctx, tx)
	if err != nil {
		return err
	}
	if state == p.FundingState && held == p.Escrow && !f.posted {
		return nil
	}
	p.FundingState, p.Escrow = state, held
	return p.noteFunding(ctx, tx, webhook.PayrollStatusUpdate)
}

// await returns the funding state and the escrow of a payroll that confirmed money does not cover yet. It keeps the
// quote active while the deposits seen in time would cover the payroll.
func (f *funding) await(ctx context.Context, tx *db.Tx) (state FundingState, held money.Amount, err error) {
	if err := f.facts.KeepQuote(ctx, tx, f.verdict.Enough); err != nil {
		return "", held, err
	}
	if held, err = f.escrow(); err != nil {
		return "", held, err
	}
	late, err := f.suspense()
	switch {
	case err != nil:
		return "", held, err
	case late.Sign() > 0:
		return FundingLate, held, nil
	case f.verdict.Enough:
		return FundingConfirming, held, nil
	case held.Sign() > 0:
		return FundingPartial, held, nil
	case f.verdict.Waiting:
		return FundingDetected, held, nil
	}
	return FundingNone, held, nil
}

// receive changes a covered payroll to received. The operator absorbs a shortfall within the tolerance.
func (f *funding) receive(ctx context.Context, tx *db.Tx) error {
	p, short := f.p, f.verdict.Shortfall
	held, err := f.escrow()
	if err != nil {
		return err
	}
	if p.Escrow, err = held.Add(short); err != nil {
		return err
	}
	// The payroll no longer needs the late money in suspense, so it is credited to the company's balance.
	for i := range f.receipts {
		r := &f.receipts[i]
		if r.suspense.IsZero() {
			continue
		}
		r.price, r.rate = r.deposit, money.Rate{}
		lines, err := r.rebook(p.ID, r.escrow, money.Zero(p.FundingCurrency))
		if err != nil {
			return err
		}
		if err := f.post(ctx, tx, r, "apply", lines); err != nil {
			return err
		}
	}
	surplus, err := f.surplus()
	if err != nil {
		return err
	}
	p.State, p.FundingState, p.Shortfall, p.Rate = Received, FundingFunded, short, f.verdict.Rate
	if surplus.Sign() > 0 {
		p.FundingState = FundingOver
	}
	if err := f.facts.KeepQuote(ctx, tx, true); err != nil {
		return err
	}
	if err := p.step(ctx, tx, Pending, webhook.PayrollStatusUpdate, reasonFundingComplete); err != nil {
		return err
	}
	if err := p.absorb(tx, short); err != nil {
		return err
	}
	if err := p.advanceEach(ctx, tx, Pending, Received, ""); err != nil {
		return err
	}
	if p.HoldReason != "" { // the payroll was on hold when a reorganization changed it to pending
		return p.hold(ctx, tx, p.HoldReason)
	}
	p.enqueueRelease(tx)
	return nil
}

// absorb posts a shortfall that the operator pays. A negative amount reverses such a posting. The payroll's version
// makes the posting unique.
func (p *Payroll) absorb(tx *db.Tx, short money.Amount) error {
	purpose := "shortfall"
	if short.Sign() < 0 {
		purpose = "unabsorb"
	}
	return p.post(tx, fmt.Sprintf("%s:%d", purpose, p.Version), []ledger.Line{
		credit(ledger.Shortfall, p.ID, short.Neg()), credit(ledger.Escrow, p.ID, short),
	})
}

func (p *Payroll) enqueueRelease(tx *db.Tx) { enqueueRelease(tx, p.CompanyID, p.ID, time.Time{}) }

// enqueueRelease enqueues a release that runs at a time, or at once for the zero time.
func enqueueRelease(tx *db.Tx, companyID, payrollID string, at time.Time) {
	job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobRelease, Payload: idPayload{payrollID}, RunAt: at})
}

// concludeReceived changes a payroll back to pending if a reorganization removed funding that it needs.
func (f *funding) concludeReceived(ctx context.Context, tx *db.Tx) error {
	p := f.p
	if !f.posted {
		return nil
	}
	if f.verdict.Covered {
		return f.stayReceived(ctx, tx)
	}
	state, held, err := f.await(ctx, tx)
	if err != nil {
		return err
	}
	from, short := p.State, p.Shortfall
	p.unfund(held, state)
	if err := p.step(ctx, tx, from, webhook.PayrollFundingReverted, ReasonReverted); err != nil {
		return err
	}
	if err := p.absorb(tx, short.Neg()); err != nil {
		return err
	}
	return p.advanceEach(ctx, tx, Received, Pending, ReasonReverted)
}

// unfund changes a payroll that is not released back to pending, with the remaining escrow and the given funding
// state.
func (p *Payroll) unfund(held money.Amount, state FundingState) {
	p.State, p.HeldFrom, p.Escrow, p.Shortfall, p.Rate = Pending, "", held, money.Zero(p.FundingCurrency), money.Rate{}
	// The release checks for these reasons again. A hold for any other reason is restored when the funding returns.
	if p.HoldReason == ReasonFrozen || p.HoldReason == ReasonApproval || p.HoldReason == ReasonRelease {
		p.HoldReason = ""
	}
	p.FundingState = state
}

// stayReceived updates the escrow of a payroll that is still covered, and the shortfall that the operator absorbs.
func (f *funding) stayReceived(ctx context.Context, tx *db.Tx) error {
	p, short := f.p, f.verdict.Shortfall
	held, err := f.escrow()
	if err != nil {
		return err
	}
	more, err := short.Sub(p.Shortfall)
	if err != nil {
		return err
	}
	if p.Escrow, err = held.Add(short); err != nil {
		return err
	}
	p.Shortfall, p.Rate = short, f.verdict.Rate
	if err := f.noteSurplus(ctx, tx, webhook.PayrollStatusUpdate); err != nil {
		return err
	}
	return p.absorb(tx, more)
}

// concludeReleased puts unsent payouts on hold while the company owes funding that a reorganization removed after the
// release, and resumes them when the funding is back.
func (f *funding) concludeReleased(ctx context.Context, tx *db.Tx) error {
	p := f.p
	owed, err := f.stillOwed(ctx, tx)
	if err != nil {
		return err
	}
	before := p.FundingState
	if owed.Sign() > 0 {
		p.FundingState = f.missing()
		if f.reversed {
			job.Enqueue(tx, job.New{CompanyID: p.CompanyID, Kind: JobReverted, Payload: Reverted{PayrollID: p.ID}})
		}
	}
	switch {
	case owed.Sign() > 0 && p.State == Released:
		p.State, p.HeldFrom, p.HoldReason = OnHold, Released, ReasonReverted
		if err := p.step(ctx, tx, Released, webhook.PayrollFundingReverted, ReasonReverted); err != nil {
			return err
		}
		_, err := payout.Hold(ctx, tx, p.CompanyID, p.ID)
		return err
	case owed.IsZero() && (p.State == OnHold && p.HoldReason == ReasonReverted || !p.FundingState.complete()):
		surplus, err := f.surplus()
		if err != nil {
			return err
		}
		if surplus.Sign() > 0 {
			return p.recover(ctx, tx, FundingOver)
		}
		return p.recover(ctx, tx, FundingFunded)
	case owed.Sign() > 0 && f.posted:
		if err := p.step(ctx, tx, p.State, webhook.PayrollFundingReverted, ReasonReverted); err != nil {
			return err
		}
		_, err := payout.Hold(ctx, tx, p.CompanyID, p.ID) // failed outputs with a corrected destination are held too
		return err
	case p.FundingState != before:
		return p.noteFunding(ctx, tx, webhook.PayrollStatusUpdate)
	case f.reversed: // the reversed amount was debited from the company's balance
		return p.step(ctx, tx, p.State, webhook.PayrollFundingReverted, ReasonReverted)
	case f.posted:
		if p.FundingState != FundingOver {
			p.FundingState = FundingFunded
		}
		if err := f.noteSurplus(ctx, tx, webhook.PayrollStatusUpdate); err != nil {
			return err
		}
		if p.State == OnHold || !slices.ContainsFunc(f.receipts,
			func(r receipt) bool { return r.debtSettled.Sign() > 0 }) {
			return nil
		}
		p.enqueueRelease(tx)
		return payout.Resume(ctx, tx, p.CompanyID, p.ID)
	}
	return nil
}

// missing returns the funding state of a released payroll whose funding is incomplete after a reorganization:
// FundingConfirming if a deposit waits for confirmations again, FundingPartial if some money is left, else
// FundingNone.
func (f *funding) missing() FundingState {
	switch {
	case slices.ContainsFunc(f.facts.Deposits, func(d deposit.Deposit) bool { return d.State.Waiting() }):
		return FundingConfirming
	case slices.ContainsFunc(f.receipts, func(r receipt) bool { return r.escrow.Sign() > 0 }):
		return FundingPartial
	}
	return FundingNone
}

// concludeClosed records that money arrived for a payroll that no longer accepts any. It belongs to the company.
func (f *funding) concludeClosed(ctx context.Context, tx *db.Tx) error {
	if !f.posted {
		return nil
	}
	return f.noteSurplus(ctx, tx, webhook.PayrollFundingLate)
}

// noteSurplus stores a new version of a payroll for which a journal was posted without a change of its state. The new
// version makes a concurrent transaction that posts for the payroll fail.
func (f *funding) noteSurplus(ctx context.Context, tx *db.Tx, event webhook.Type[webhook.PayrollData]) error {
	surplus, err := f.surplus()
	if err != nil {
		return err
	}
	if surplus.Sign() > 0 {
		f.p.FundingState = FundingOver
	}
	return f.p.noteFunding(ctx, tx, event)
}
