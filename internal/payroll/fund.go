package payroll

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// funding is all that is known of a payroll's money at one instant.
type funding struct {
	p        *Payroll
	deposits []deposit.Deposit
	receipts []receipt
	quotes   map[string]quote.Quote
	last     quote.Quote // the newest quote
	late     bool        // a late deposit was booked just now
	moved    bool        // anything was booked just now
	taken    bool        // a receipt was taken back just now
}

// Fund looks at the deposits of a payroll (job deposit.changed): it books what is newly
// confirmed, undoes what no longer is, and takes the payroll where that leads. Objects of
// other kinds are none of its business.
func (s *Service) Fund(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in struct {
		ObjectID string `json:"object_id"`
	}
	if err := j.Decode(&in); err != nil {
		return err
	}
	p, err := find(ctx, tx, j.CompanyID, in.ObjectID)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if !p.FromOutside() {
		return nil
	}
	f, err := look(ctx, tx, p)
	if err != nil {
		return err
	}
	if err := f.settleReceipts(ctx, tx); err != nil {
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

func look(ctx context.Context, tx *db.Tx, p *Payroll) (*funding, error) {
	f := &funding{p: p, quotes: map[string]quote.Quote{}}
	if err := tx.Ask(ctx, []db.Question{
		deposit.Asked(p.CompanyID, p.ID, func(d deposit.Deposit) { f.deposits = append(f.deposits, d) }), p.askReceipts(&f.receipts),
		quote.Asked(p.CompanyID, p.ID, func(q quote.Quote) {
			f.quotes[q.ID] = q
			if q.Number > f.last.Number {
				f.last = q
			}
		}),
	}); err != nil {
		return nil, err
	}
	for i := range f.receipts {
		if at := slices.IndexFunc(f.deposits, func(d deposit.Deposit) bool { return d.ID == f.receipts[i].deposit }); at >= 0 {
			f.receipts[i].chain = f.deposits[at].Chain
		}
	}
	return f, nil
}

// divided says that a payroll's escrow has been released, or partly so.
func (p *Payroll) divided() bool {
	state := p.State
	if state == OnHold {
		state = p.HeldFrom
	}
	return state == Released || state == Fulfilled || state == PartiallyFulfilled
}

// settleReceipts books and reverses until each deposit's receipt agrees with its state.
// Reversals come first, so that what they free is room for what is booked.
func (f *funding) settleReceipts(ctx context.Context, tx *db.Tx) error {
	confirmed := map[string]deposit.Deposit{}
	for _, d := range f.deposits {
		if d.State == deposit.Confirmed {
			confirmed[d.ID] = d
		}
	}
	var gone []*receipt
	for i := range f.receipts {
		if _, still := confirmed[f.receipts[i].deposit]; !still && f.receipts[i].live {
			gone = append(gone, &f.receipts[i])
		}
	}
	if len(gone) > 0 {
		if err := f.reverse(ctx, tx, gone); err != nil {
			return err
		}
	}
	for _, d := range f.deposits {
		if d.State != deposit.Confirmed {
			continue
		}
		if err := f.credit(ctx, tx, d); err != nil {
			return err
		}
	}
	return nil
}

// reverse takes receipts back; what of them is not in escrow comes out of the company's balance.
func (f *funding) reverse(ctx context.Context, tx *db.Tx, gone []*receipt) error {
	p := f.p
	f.taken = true
	for _, r := range gone {
		if err := tx.Flush(ctx); err != nil { // so that the balance is the one that this transaction leaves
			return err
		}
		available, err := ledger.Balance(ctx, tx, p.CompanyID, ledger.CompanyFunds, "", p.FundingCurrency)
		if err != nil {
			return err
		}
		lines, err := r.reverse(p.ID, p.divided(), available)
		if err != nil {
			return err
		}
		if err := f.post(ctx, tx, r, "reverse", lines); err != nil {
			return err
		}
	}
	return nil
}

// credit books a confirmed deposit unless it is booked.
func (f *funding) credit(ctx context.Context, tx *db.Tx, d deposit.Deposit) error {
	p := f.p
	i := slices.IndexFunc(f.receipts, func(r receipt) bool { return r.deposit == d.ID })
	if i < 0 {
		f.receipts = append(f.receipts, newReceipt(d.ID, d.Chain, d.Amount))
		i = len(f.receipts) - 1
	}
	r := &f.receipts[i]
	if r.live {
		return nil
	}
	r.price, r.rate, r.late = d.QuoteID, money.Rate{}, !d.Timely
	room := money.Zero(p.FundingCurrency)
	if q, known := f.quotes[d.QuoteID]; d.Timely && (known || d.ByBank()) {
		if f.p.Currency != f.p.FundingCurrency {
			r.rate = q.Rate
		}
		c, err := cover(p.Total, p.FundingCurrency, f.receipts)
		if err != nil {
			return err
		}
		if room, err = c.Room(d.QuoteID, q.Rate); err != nil {
			return err
		}
	} else {
		r.late = true // without a price in force it cannot be valued yet
	}
	lines, err := r.book(p.ID, p.State == Pending, room)
	if err != nil {
		return err
	}
	f.late = f.late || r.suspense.Sign() > 0
	return f.post(ctx, tx, r, "book", lines)
}

// post books a receipt's turn and stores it.
func (f *funding) post(ctx context.Context, tx *db.Tx, r *receipt, what string, lines []ledger.Line) error {
	f.moved = true
	if err := ledger.Post(tx, ledger.Journal{
		CompanyID: f.p.CompanyID, SourceType: eventSourceType, SourceID: f.p.ID,
		Purpose: fmt.Sprintf("%s:%s:%d", what, r.deposit, r.turn), Lines: lines,
	}); err != nil {
		return err
	}
	return f.p.saveReceipt(ctx, tx, r)
}

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
	return f.sum(func(r receipt) money.Amount { return r.owed })
}

// coverages are what confirmed money covers, and what all money seen in time would.
func (f *funding) coverages() (confirmed, seen quote.Coverage, err error) {
	if confirmed, err = cover(f.p.Total, f.p.FundingCurrency, f.receipts); err != nil {
		return confirmed, seen, err
	}
	seen = confirmed.Clone()
	for _, d := range f.deposits {
		q, known := f.quotes[d.QuoteID]
		if !waiting(d) || !d.Timely || !known {
			continue
		}
		if err := seen.Add(q.ID, q.Rate, d.Amount); err != nil {
			return confirmed, seen, err
		}
	}
	return confirmed, seen, nil
}

// waiting says that a deposit is on its way to its confirmations, for the first time or again.
func waiting(d deposit.Deposit) bool { return d.State.Live() && d.State != deposit.Confirmed }

// anySeen says whether unconfirmed money is on its way.
func (f *funding) anySeen() bool {
	return slices.ContainsFunc(f.deposits, waiting)
}

// conclude takes the payroll where its money leads.
func (f *funding) conclude(ctx context.Context, tx *db.Tx) error {
	switch p := f.p; {
	case p.State == Pending:
		return f.concludePending(ctx, tx)
	case p.State == Received || p.State == OnHold && p.HeldFrom == Received:
		return f.concludeReceived(ctx, tx)
	case p.divided():
		return f.concludeReleased(ctx, tx)
	default:
		return f.concludeClosed(ctx, tx)
	}
}

func (f *funding) concludePending(ctx context.Context, tx *db.Tx) error {
	p := f.p
	confirmed, covered, short, err := f.confirmed()
	if err != nil {
		return err
	}
	if covered {
		return f.receive(ctx, tx, confirmed, short)
	}
	state, held, err := f.await(ctx, tx)
	if err != nil {
		return err
	}
	if state == p.FundingState && held == p.Escrow && !f.moved {
		return nil
	}
	p.FundingState, p.Escrow = state, held
	return p.noteFunding(ctx, tx, EventStatus)
}

// confirmed says whether confirmed money covers the payroll, and what the house would absorb of it.
func (f *funding) confirmed() (c quote.Coverage, covered bool, short money.Amount, err error) {
	if c, _, err = f.coverages(); err != nil {
		return c, false, short, err
	}
	covered, short, err = c.Verdict(f.last.ID, f.last.Rate, f.p.ToleranceBps)
	return c, covered, short, err
}

// await is where the money of a payroll stands that confirmed money does not cover: the price is kept when what was seen in
// time would cover it, and what is in escrow stays there.
func (f *funding) await(ctx context.Context, tx *db.Tx) (state FundingState, held money.Amount, err error) {
	_, seen, err := f.coverages()
	if err != nil {
		return "", held, err
	}
	enough, _, err := seen.Verdict(f.last.ID, f.last.Rate, f.p.ToleranceBps)
	if err != nil {
		return "", held, err
	}
	if err := f.lock(ctx, tx, enough); err != nil {
		return "", held, err
	}
	if held, err = f.escrow(); err != nil {
		return "", held, err
	}
	state, err = f.state(enough, held)
	return state, held, err
}

// state says how far the money of a pending payroll has come.
func (f *funding) state(enough bool, held money.Amount) (FundingState, error) {
	late, err := f.suspense()
	switch {
	case err != nil:
		return "", err
	case late.Sign() > 0:
		return FundingLate, nil
	case enough:
		return FundingConfirming, nil
	case held.Sign() > 0:
		return FundingPartial, nil
	case f.anySeen():
		return FundingDetected, nil
	}
	return FundingNone, nil
}

// lock keeps the price of a quote whose whole amount was seen, and frees it when the money
// vanishes.
func (f *funding) lock(ctx context.Context, tx *db.Tx, enough bool) error {
	switch {
	case f.last.ID == "":
		return nil
	case enough && (f.last.State == quote.StateActive || f.last.State == quote.StateExpired):
		return quote.Accept(ctx, tx, f.p.CompanyID, f.last.ID)
	case !enough && f.last.State == quote.StateAccepted:
		return quote.Reopen(ctx, tx, f.p.CompanyID, f.last.ID)
	}
	return nil
}

// receive takes a covered payroll to received; the house absorbs a shortfall within the
// tolerance (L23).
func (f *funding) receive(ctx context.Context, tx *db.Tx, c quote.Coverage, short money.Amount) error {
	p := f.p
	held, err := f.escrow()
	if err != nil {
		return err
	}
	if p.Escrow, err = held.Add(short); err != nil {
		return err
	}
	// Late money that still waits for a decision will get none any more: it is the company's.
	for i := range f.receipts {
		r := &f.receipts[i]
		if r.suspense.IsZero() {
			continue
		}
		lines, err := r.apply(p.ID, money.Rate{}, money.Zero(p.FundingCurrency))
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
	if p.Rate, err = f.rate(c, short); err != nil {
		return err
	}
	p.State, p.FundingState, p.Shortfall = Received, FundingFunded, short
	if surplus.Sign() > 0 {
		p.FundingState = FundingOver
	}
	if err := f.lock(ctx, tx, true); err != nil {
		return err
	}
	if err := p.step(ctx, tx, Pending, EventStatus, reasonFundingComplete); err != nil {
		return err
	}
	if err := p.absorb(tx, "shortfall", ledger.Debit(ledger.Shortfall, p.ID, short), ledger.Credit(ledger.Escrow, p.ID, short)); err != nil {
		return err
	}
	if err := p.advanceEach(ctx, tx, Pending, Received, ""); err != nil {
		return err
	}
	if p.HoldReason != "" { // it was held when a reorg took it back to pending
		return p.hold(ctx, tx, p.HoldReason)
	}
	p.enqueueRelease(tx)
	return nil
}

// rate is the one at which all that covers the payroll came, zero when there were several. What the house absorbs comes at the price
// of the last quote, as [quote.Coverage.Verdict] counts it: an escrow that holds money of two prices is worth neither of them.
func (f *funding) rate(c quote.Coverage, short money.Amount) (money.Rate, error) {
	if short.IsZero() {
		return c.Single(), nil
	}
	c = c.Clone()
	err := c.Add(f.last.ID, f.last.Rate, short)
	return c.Single(), err
}

// absorb books a shortfall or takes it back, once per version.
func (p *Payroll) absorb(tx *db.Tx, what string, lines ...ledger.Line) error {
	return ledger.Post(tx, ledger.Journal{
		CompanyID: p.CompanyID, SourceType: eventSourceType, SourceID: p.ID,
		Purpose: fmt.Sprintf("%s:%d", what, p.Version), Lines: lines,
	})
}

func (p *Payroll) enqueueRelease(tx *db.Tx) {
	job.Enqueue(tx, job.New{CompanyID: p.CompanyID, Kind: JobRelease, Payload: idPayload{p.ID}})
}

// concludeReceived takes a payroll back to pending when a reorg left it short (L30).
func (f *funding) concludeReceived(ctx context.Context, tx *db.Tx) error {
	p := f.p
	if !f.moved {
		return nil
	}
	confirmed, covered, missing, err := f.confirmed()
	if err != nil {
		return err
	}
	if covered {
		return f.stayReceived(ctx, tx, confirmed, missing)
	}
	state, held, err := f.await(ctx, tx)
	if err != nil {
		return err
	}
	from, short := p.State, p.Shortfall
	p.State, p.HeldFrom, p.Escrow, p.Shortfall, p.Rate = Pending, "", held, money.Zero(p.FundingCurrency), money.Rate{}
	if p.HoldReason == ReasonFrozen || p.HoldReason == ReasonApproval || p.HoldReason == ReasonRelease { // the release finds that out for itself; other holds come back with the money
		p.HoldReason = ""
	}
	p.FundingState = state
	if err := p.step(ctx, tx, from, EventFundingReverted, ReasonReverted); err != nil {
		return err
	}
	if err := p.absorb(tx, "unabsorb", ledger.Debit(ledger.Escrow, p.ID, short), ledger.Credit(ledger.Shortfall, p.ID, short)); err != nil {
		return err
	}
	return p.advanceEach(ctx, tx, Received, Pending, ReasonReverted)
}

// stayReceived follows the escrow of a payroll that is covered all the same; the house absorbs more, or less.
func (f *funding) stayReceived(ctx context.Context, tx *db.Tx, c quote.Coverage, short money.Amount) error {
	p := f.p
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
	if p.Rate, err = f.rate(c, short); err != nil {
		return err
	}
	p.Shortfall = short
	if err := f.noteSurplus(ctx, tx, EventStatus); err != nil {
		return err
	}
	if more.Sign() < 0 {
		return p.absorb(tx, "unabsorb", ledger.Debit(ledger.Escrow, p.ID, more.Neg()), ledger.Credit(ledger.Shortfall, p.ID, more.Neg()))
	}
	return p.absorb(tx, "shortfall", ledger.Debit(ledger.Shortfall, p.ID, more), ledger.Credit(ledger.Escrow, p.ID, more))
}

// concludeReleased holds what has not left yet while the company owes funding that a reorg
// removed after the release (L31), and lets it go when it is back (L32).
func (f *funding) concludeReleased(ctx context.Context, tx *db.Tx) error {
	p := f.p
	owed, err := f.stillOwed(ctx, tx)
	if err != nil {
		return err
	}
	switch {
	case owed.Sign() > 0 && p.State == Released:
		p.State, p.HeldFrom, p.HoldReason = OnHold, Released, ReasonReverted
		if err := p.step(ctx, tx, Released, EventFundingReverted, ReasonReverted); err != nil {
			return err
		}
		_, err := payout.Hold(ctx, tx, p.CompanyID, p.ID)
		return err
	case owed.IsZero() && p.State == OnHold && p.HoldReason == ReasonReverted:
		if err := p.resume(ctx, tx, EventStatus); err != nil {
			return err
		}
		p.enqueueRelease(tx) // a retry may have been refused meanwhile
		return nil
	case owed.Sign() > 0 && f.moved:
		if err := p.step(ctx, tx, p.State, EventFundingReverted, ReasonReverted); err != nil {
			return err
		}
		_, err := payout.Hold(ctx, tx, p.CompanyID, p.ID) // what failed and is corrected stays, too
		return err
	case f.taken: // out of the company's balance
		return p.step(ctx, tx, p.State, EventFundingReverted, ReasonReverted)
	case f.moved:
		if err := f.noteSurplus(ctx, tx, EventStatus); err != nil {
			return err
		}
		if p.State == OnHold || !slices.ContainsFunc(f.receipts, func(r receipt) bool { return r.repaid.Sign() > 0 }) {
			return nil
		}
		p.enqueueRelease(tx)
		return payout.Resume(ctx, tx, p.CompanyID, p.ID)
	}
	return nil
}

// concludeClosed tells that money came for a payroll that takes none: it is the company's.
func (f *funding) concludeClosed(ctx context.Context, tx *db.Tx) error {
	if !f.moved {
		return nil
	}
	return f.noteSurplus(ctx, tx, EventFundingLate)
}

// noteSurplus makes a version of a payroll for which something was booked without a change
// of its state. The version guards the booking against a twin.
func (f *funding) noteSurplus(ctx context.Context, tx *db.Tx, event string) error {
	surplus, err := f.surplus()
	if err != nil {
		return err
	}
	if surplus.Sign() > 0 {
		f.p.FundingState = FundingOver
	}
	return f.p.noteFunding(ctx, tx, event)
}
