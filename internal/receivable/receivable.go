// Package receivable decides how money received for a payroll or a claim (the object) is applied.
//
// [Facts] has all inputs of the decision: the amount due, the deposits, the quotes, and the late deposits that were
// accepted. [Facts.Evaluate] is pure: the same facts give the same [Verdict], in whatever order they became known. A
// deposit that a reorganization removed is no longer a fact, so nothing has to be undone here.
//
//   - A deposit that was first seen while its quote was in force counts at the rate of that quote. Its price never
//     changes.
//   - Later money is held. It counts once it is accepted, at the rate at the time of acceptance ([Facts.AcceptLate]).
//   - Money above the amount due is excess. An uncovered part of the amount due, up to the tolerance, is a shortfall
//     that the operator absorbs.
//   - Once the deposits seen cover the amount due, the quote is kept until they are confirmed or gone
//     ([Facts.KeepQuote]).
//
// The package updates quotes. It posts no journals and stores nothing else: payrolls and claims translate the verdict
// into their states, journals and events, and decide to whom the excess belongs.
package receivable

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// ErrCovered is returned by [Facts.Requote] if the deposits seen leave nothing to quote.
var ErrCovered = errors.New("receivable: what was seen covers the amount due")

// automaticLimit is the value below which late money is handled without a decision by the object's owner.
var automaticLimit = money.New(money.USD, 1_000_00)

// Facts has all inputs of the verdict on the money received for an object.
type Facts struct {
	Due          money.Amount // amount due, in the object's currency
	Asset        money.Asset  // asset of the payments
	ToleranceBps int64        // accepted shortfall, in basis points of the amount due
	Deposits     []deposit.Deposit

	// Accepted has the rate of each late deposit that was accepted, by deposit ID.
	Accepted map[string]money.Rate
	// Spent has, by deposit ID, the part of a deposit that was credited to the object's owner or settled a debt. It no
	// longer counts.
	Spent map[string]money.Amount
	// If Closed is set, only accepted deposits count.
	Closed bool
	// VoidUntil excludes deposits under quotes created at or before that time. The zero time excludes none.
	VoidUntil time.Time

	quotes map[string]quote.Quote
	newest quote.Quote
}

// Queries returns the queries that read the deposits and quotes of an object into f.
func (f *Facts) Queries(companyID, objectID string) []db.Statement {
	return []db.Statement{
		deposit.Asked(companyID, objectID, func(d deposit.Deposit) { f.Deposits = append(f.Deposits, d) }),
		quote.Asked(companyID, objectID, f.AddQuote),
	}
}

// AddQuote adds a quote, or replaces an older version of it.
func (f *Facts) AddQuote(q quote.Quote) {
	if f.quotes == nil {
		f.quotes = map[string]quote.Quote{}
	}
	f.quotes[q.ID] = q
	if q.Number >= f.newest.Number {
		f.newest = q
	}
}

// Newest returns the newest quote, or the zero Quote if there is none.
func (f *Facts) Newest() quote.Quote { return f.newest }

// Quote returns a quote of the object by its ID.
func (f *Facts) Quote(id string) (quote.Quote, bool) {
	q, known := f.quotes[id]
	return q, known
}

// Ended reports whether a price is no longer binding at a time: the price of a quote whose validity has ended, or the
// rate at which a late deposit was accepted.
func (f *Facts) Ended(priceID string, now time.Time) bool {
	q, known := f.quotes[priceID]
	return !known || !now.Before(q.ValidTo)
}

// ByAsset divides the facts about an object that can be paid in several assets. It returns the facts about each asset
// in which the object has a quote. Money in different assets is never added up.
func (f *Facts) ByAsset() map[money.Asset]*Facts {
	all := map[money.Asset]*Facts{}
	for _, q := range f.quotes {
		asset := q.Funding.Asset()
		if all[asset] == nil {
			one := *f
			one.Asset, one.Deposits, one.quotes, one.newest = asset, nil, nil, quote.Quote{}
			all[asset] = &one
		}
		all[asset].AddQuote(q)
	}
	for _, d := range f.Deposits {
		if one := all[d.Amount.Asset()]; one != nil {
			one.Deposits = append(one.Deposits, d)
		}
	}
	return all
}

// Part is the division of one confirmed deposit. Counted, Excess, Held and the spent part add up to the deposit's
// amount.
type Part struct {
	DepositID string
	PriceID   string // ID of the quote or, for an accepted late deposit, of the deposit; "" for held money
	Rate      money.Rate
	Counted   money.Amount // part that pays the amount due
	Excess    money.Amount // part above the amount due
	Held      money.Amount // part that waits for a decision, because it is late or the object is closed
}

// Verdict is the result of an evaluation. All amounts except Left are in the asset of the payments.
type Verdict struct {
	Seen      money.Amount // sum of all deposits on the chain, confirmed or not
	Confirmed money.Amount
	Counted   money.Amount // confirmed money that pays the amount due
	Held      money.Amount // confirmed money that waits for a decision
	Parts     []Part       // the confirmed deposits, ordered by the time first seen

	Covered   bool         // confirmed money and Shortfall cover the amount due
	Shortfall money.Amount // missing amount within the tolerance, which the operator pays
	Rate      money.Rate   // rate of all counted money; zero without an exchange or with several rates

	Enough bool         // all deposits seen, if confirmed, would cover the amount due
	Left   money.Amount // part of the amount due that the deposits seen do not cover, in the currency of the amount due
	Room   money.Amount // Left in the asset of the payments, at the newest quote

	Waiting     bool // a deposit waits for confirmations
	AnyCounts   bool // at least one deposit counts, confirmed or not
	LateCounted bool // at least one counted deposit came after the end of its quote

	CompletedBy string // ID of the transaction that completed the coverage of the amount due; "" for none
	LastTx      string // ID of the transaction seen last; "" for none
}

// price returns the rate of an exchange, or zero if nothing is exchanged.
func (f *Facts) price(r money.Rate) money.Rate {
	if f.Due.Asset() == f.Asset {
		return money.Rate{}
	}
	return r
}

// counts returns the price at which a deposit counts. ok is false if it does not count.
func (f *Facts) counts(d *deposit.Deposit) (priceID string, rate money.Rate, ok bool) {
	if rate, ok := f.Accepted[d.ID]; ok {
		return d.ID, rate, true
	}
	q, known := f.quotes[d.QuoteID]
	switch {
	case f.Closed || !d.OnTime || !known && !d.ByBank():
		return "", money.Rate{}, false
	case !f.VoidUntil.IsZero() && !q.ValidFrom.After(f.VoidUntil):
		return "", money.Rate{}, false
	}
	return d.QuoteID, f.price(q.Rate), true
}

// late reports whether a deposit was seen after the end of the quote that values it, in the quote's grace period or
// later.
func (f *Facts) late(d *deposit.Deposit) bool {
	if _, accepted := f.Accepted[d.ID]; accepted {
		return true
	}
	q, known := f.quotes[d.QuoteID]
	return known && !d.FirstSeen.Before(q.ValidTo)
}

// byFirstSight orders deposits by the time at which they were first seen.
func byFirstSight(a, b deposit.Deposit) int {
	if n := a.FirstSeen.Compare(b.FirstSeen); n != 0 {
		return n
	}
	if n := strings.Compare(a.TxID, b.TxID); n != 0 {
		return n
	}
	if a.Vout != b.Vout {
		return int(int64(a.Vout) - int64(b.Vout))
	}
	return strings.Compare(a.ID, b.ID)
}

// Evaluate returns the verdict on the facts. It counts confirmed deposits first, so that unconfirmed deposits cannot
// take their place.
func (f *Facts) Evaluate() (Verdict, error) {
	none := money.Zero(f.Asset)
	e := evaluation{Facts: f, cover: coverage{total: f.Due, asset: f.Asset}}
	e.v = Verdict{Seen: none, Confirmed: none, Counted: none, Held: none, Shortfall: none}
	all := slices.SortedFunc(slices.Values(f.Deposits), byFirstSight)
	for i := range all {
		if all[i].State == deposit.Confirmed {
			if err := e.confirmed(&all[i]); err != nil {
				return e.v, err
			}
		}
	}
	if err := e.conclude(); err != nil {
		return e.v, err
	}
	for i := range all {
		if all[i].State.Waiting() {
			if err := e.waiting(&all[i]); err != nil {
				return e.v, err
			}
		}
	}
	var err error
	if e.v.Left, err = e.cover.remaining(""); err != nil {
		return e.v, err
	}
	e.v.Room, err = e.cover.room(f.newest.ID, f.price(f.newest.Rate))
	return e.v, err
}

// evaluation computes a Verdict.
type evaluation struct {
	*Facts

	v     Verdict
	cover coverage
}

// sum adds an amount to several sums.
func sum(x money.Amount, to ...*money.Amount) error {
	for _, s := range to {
		var err error
		if *s, err = s.Add(x); err != nil {
			return err
		}
	}
	return nil
}

// confirmed counts a confirmed deposit.
func (e *evaluation) confirmed(d *deposit.Deposit) error {
	if err := sum(d.Amount, &e.v.Seen, &e.v.Confirmed); err != nil {
		return err
	}
	e.v.LastTx = d.TxID
	none := money.Zero(e.Asset)
	part := Part{DepositID: d.ID, Counted: none, Excess: none, Held: none}
	left := d.Amount
	if spent, ok := e.Spent[d.ID]; ok {
		var err error
		if left, err = left.Sub(spent); err != nil {
			return err
		}
	}
	var err error
	if id, rate, ok := e.counts(d); ok {
		part.PriceID, part.Rate = id, rate
		if part.Counted, err = e.count(d, id, rate, left); err != nil {
			return err
		}
		if part.Excess, err = left.Sub(part.Counted); err != nil {
			return err
		}
		e.v.LateCounted = e.v.LateCounted || part.Counted.Sign() > 0 && e.late(d)
	} else {
		part.Held = left
	}
	e.v.Parts = append(e.v.Parts, part)
	if err := sum(part.Counted, &e.v.Counted); err != nil {
		return err
	}
	return sum(part.Held, &e.v.Held)
}

// waiting counts a deposit that waits for confirmations.
func (e *evaluation) waiting(d *deposit.Deposit) error {
	if err := sum(d.Amount, &e.v.Seen); err != nil {
		return err
	}
	e.v.Waiting, e.v.LastTx = true, d.TxID
	id, rate, ok := e.counts(d)
	if !ok {
		return nil
	}
	_, err := e.count(d, id, rate, d.Amount)
	return err
}

// count applies a deposit to the amount due, as far as needed, and returns the needed part.
func (e *evaluation) count(d *deposit.Deposit, priceID string, rate money.Rate, x money.Amount) (money.Amount, error) {
	e.v.AnyCounts = true
	if x.IsZero() {
		return x, nil
	}
	need, err := e.cover.room(priceID, rate)
	if err != nil {
		return x, err
	}
	if need.Cmp(x) < 0 {
		x = need
	}
	if x.IsZero() {
		return x, nil
	}
	if err := e.cover.add(priceID, rate, x); err != nil {
		return x, err
	}
	if !e.v.Enough {
		if e.v.Enough, _, err = e.covered(); e.v.Enough {
			e.v.CompletedBy = d.TxID
		}
	}
	return x, err
}

// covered reports whether the counted money is enough at the rate of the newest quote, and returns the shortfall that
// the operator would absorb.
func (e *evaluation) covered() (bool, money.Amount, error) {
	return e.cover.verdict(e.newest.ID, e.newest.Rate, e.ToleranceBps)
}

// conclude decides whether confirmed money covers the amount due, and at which rate. The shortfall is converted at
// the rate of the newest quote.
func (e *evaluation) conclude() (err error) {
	if e.v.Covered, e.v.Shortfall, err = e.covered(); err != nil {
		return err
	}
	if e.v.Shortfall.IsZero() {
		e.v.Rate = e.cover.single()
		return nil
	}
	c := e.cover.clone()
	err = c.add(e.newest.ID, e.price(e.newest.Rate), e.v.Shortfall)
	e.v.Rate = c.single()
	return err
}

// KeepQuote accepts the newest quote if enough is set, so that its price stays fixed until the payment is confirmed.
// Otherwise it reopens an accepted quote, because the payment is gone.
func (f *Facts) KeepQuote(ctx context.Context, tx *db.Tx, enough bool) error {
	var change func(ctx context.Context, tx *db.Tx, companyID, quoteID string) error
	switch state := f.newest.State; {
	case enough && (state == quote.StateActive || state == quote.StateExpired):
		change = quote.Accept
	case !enough && state == quote.StateAccepted:
		change = quote.Reopen
	default:
		return nil
	}
	if err := change(ctx, tx, f.newest.CompanyID, f.newest.ID); err != nil {
		return err
	}
	now, err := quote.Get(ctx, tx, f.newest.CompanyID, f.newest.ID)
	if err == nil {
		f.AddQuote(now)
	}
	return err
}

// AutomaticLate reports whether late money is worth less than 1,000 USD at the current rate, so that it is handled
// without a decision by the object's owner.
func AutomaticLate(ctx context.Context, tx *db.Tx, late money.Amount) (bool, error) {
	_, limit, err := quote.Price(ctx, tx, automaticLimit, late.Asset(), 0)
	return err == nil && late.Cmp(limit) < 0, err
}

// AcceptLate accepts all held money at the current rate. It returns the IDs of the accepted deposits and the rate,
// which the caller must store.
func (f *Facts) AcceptLate(ctx context.Context, tx *db.Tx, spreadBps int64) (depositIDs []string, rate money.Rate,
	err error) {
	v, err := f.Evaluate()
	if err != nil {
		return nil, rate, err
	}
	if rate, _, err = quote.Price(ctx, tx, f.Due, f.Asset, spreadBps); err != nil {
		return nil, rate, err
	}
	rate = f.price(rate)
	if f.Accepted == nil {
		f.Accepted = map[string]money.Rate{}
	}
	for _, p := range v.Parts {
		if p.Held.Sign() > 0 {
			f.Accepted[p.DepositID] = rate
			depositIDs = append(depositIDs, p.DepositID)
		}
	}
	return depositIDs, rate, nil
}

// Requote returns the active quote, or creates a quote for the amount that the deposits seen do not cover; it sets
// p.Due. checkWatched must return an error if no new quote may be created or if payments up to a time may not be
// known yet. Requote returns ErrCovered if nothing is left to quote.
func (f *Facts) Requote(ctx context.Context, tx *db.Tx, p quote.Params, checkWatched func(until time.Time) error) (
	quote.Quote, error) {
	v, err := f.Evaluate()
	if err != nil {
		return quote.Quote{}, err
	}
	if v.Enough {
		return quote.Quote{}, ErrCovered
	}
	// A valid quote is returned without this check. A quote that has ended may have been paid in time while the chain
	// was not watched.
	if f.newest.State != quote.StateActive || !tx.Now().Before(f.newest.ValidTo) {
		if err := checkWatched(f.newest.ValidTo); err != nil {
			return quote.Quote{}, err
		}
	}
	p.Due = v.Left
	q, err := quote.Refresh(ctx, tx, p)
	if err == nil {
		f.AddQuote(q)
	}
	return q, err
}
