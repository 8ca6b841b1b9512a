// Package quote fixes a price for an object that waits to be paid: a payroll or a claim.
//
// A quote fixes the amount of the funding asset that pays the amount due, the rate, the end of validity, and the
// address. The funding amount is rounded up once, so paying it always covers the amount due. The displayed rate is
// the rate that was used. Only the state of a quote changes:
//
//	active → accepted    all of it was seen in time, or its object was paid in another asset; confirmations are
//	                     pending, so the quote cannot be replaced
//	active → expired     its time ran out, and the chain had been watched up to then
//	active → cancelled   its object was cancelled
//	accepted → active    the payment disappeared and there is time left
//	accepted → expired   the payment disappeared and there is none
//	expired → accepted   the payment was seen in time, but reported after the expiry
//	expired → superseded a newer quote replaced it
//
// One quote per object and funding asset is active; a unique index ensures this. Refreshing an active quote returns
// the same quote, so a client can repeat the request after a lost response, and cannot choose among prices. Each
// change of state is one guarded statement with its history row.
//
// A payment is valued by the quote that was in force when the payment was first seen ([InForce]), independent of
// later changes of that quote's state. The package posts nothing and decides nothing about its object.
package quote

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/offering"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/webhook"
)

// State is the state of a quote.
type State string

// States of a quote.
const (
	StateActive     State = "active"
	StateAccepted   State = "accepted"
	StateExpired    State = "expired"
	StateSuperseded State = "superseded"
	StateCancelled  State = "cancelled"
)

// Limits.
const (
	MinPayroll   = 10_000 // smallest quote of a payroll, in satoshis
	MinClaim     = 2_000  // smallest quote of a claim, in satoshis
	MaxRefreshes = 10     // largest number of refreshes of an object in an asset within RefreshWindow
	MaxGrace     = 2 * time.Minute

	RefreshWindow = time.Hour
)

// Least returns the smallest amount of an asset for which a claim or another object can be quoted.
func Least(asset money.Asset, claim bool) money.Amount {
	switch {
	case asset == money.BTC && claim:
		return money.New(asset, MinClaim)
	case asset == money.BTC:
		return money.New(asset, MinPayroll)
	case asset == money.ETH:
		return money.New(asset, 400_000) // 0.0004 ETH
	case asset.IsCrypto():
		return money.New(asset, 1_000_000) // 1 USDC
	}
	return money.New(asset, 1)
}

// JobExpired is the kind of the job that re-evaluates the claim of an expired quote. Its payload is [Expired].
const JobExpired = "quote.expired"

// Expired is the payload of JobExpired.
type Expired struct {
	ObjectID string `json:"object_id"`
}

// Errors returned to callers.
var (
	ErrNotFound = apierr.NotFoundErr
	ErrTooSmall = apierr.New(apierr.Invalid, "amount_too_small",
		"The amount is below the least that can be paid on the chain.")
	ErrLocked = apierr.New(apierr.Conflict, "quote_locked",
		"The quote is fully paid and waits for confirmations, so it cannot be replaced.")
	ErrState   = apierr.New(apierr.Conflict, "invalid_state", "The quote's state does not allow this.")
	ErrTooMany = apierr.New(apierr.RateLimited, "rate_limited", "A quote can be refreshed 10 times an hour.")
)

// Params are the parameters of a quote.
type Params struct {
	CompanyID string
	ObjectID  string
	Due       money.Amount // amount to pay, more than 0
	Funding   money.Asset  // asset of the payment
	Address   string
	Network   string
	Validity  time.Duration
	SpreadBps int64         // spread on the market price, in basis points
	Grace     time.Duration // time after the end of the quote in which a payment is still on time, at most MaxGrace

	// Confirmations is the number of confirmations that a payment under the quote needs; 0 makes it depend on the value
	// at stake.
	Confirmations int64
}

// Quote is a price that is fixed for an object.
type Quote struct {
	ID          string
	CompanyID   string
	ObjectID    string
	Number      int64 // sequence number among the quotes of the object in the asset, from 1
	State       State
	Version     int64
	ValidFrom   time.Time
	ValidTo     time.Time
	Grace       time.Duration
	CancelledAt time.Time    // zero unless the quote was cancelled
	Rate        money.Rate   // price of one unit of the funding asset, such as 1 BTC, in the currency due, spread included
	Due         money.Amount // amount due
	Funding     money.Amount // amount to pay
	Address     string
	Network     string

	Confirmations int64 // number of confirmations that a payment needs; 0 if it depends on the value at stake
}

// Covers reports whether a payment first seen at a time is on time for this quote.
func (q Quote) Covers(at time.Time) bool {
	end := q.ValidTo.Add(q.Grace)
	if !q.CancelledAt.IsZero() && q.CancelledAt.Before(end) {
		end = q.CancelledAt
	}
	return !at.Before(q.ValidFrom) && at.Before(end)
}

// Value returns the value of an amount of the funding asset under this quote, rounded down.
func (q Quote) Value(paid money.Amount) (money.Amount, error) {
	if q.Due.Asset() == q.Funding.Asset() {
		return paid, nil
	}
	return q.Rate.Convert(paid, money.Floor)
}

// InForce returns the quote that values a payment in an asset that was first seen at a time, among an object's quotes
// in the order of [ForObject]. That is the newest quote that had begun by then or, for a payment seen before all
// quotes, the first quote. ok is false if there is no quote in the asset. Covers decides whether the payment is on
// time.
func InForce(newestFirst []Quote, funding money.Asset, at time.Time) (q Quote, ok bool) {
	for _, x := range newestFirst {
		if x.Funding.Asset() != funding {
			continue
		}
		if q, ok = x, true; !x.ValidFrom.After(at) {
			break
		}
	}
	return q, ok
}

// Revise replaces an active quote of an object whose amount due has changed. The new quote has the same rate, address
// and end. Revise returns ErrTooSmall if the amount is too small.
func Revise(ctx context.Context, tx *db.Tx, q Quote, due money.Amount) (Quote, error) {
	if q.State != StateActive {
		return q, ErrState
	}
	next := q
	next.ID, next.Number, next.Version, next.ValidFrom, next.Due = tx.NewID("quo"), q.Number+1, 1, tx.Now(), due
	next.Funding = due
	if q.Funding.Asset() != due.Asset() {
		var err error
		if next.Funding, err = q.Rate.Convert(due, money.Ceil); err != nil {
			return q, err
		}
	}
	if least := Least(q.Funding.Asset(), isClaim(q.ObjectID)); next.Funding.Cmp(least) < 0 {
		return q, TooSmall(next.Funding, least)
	}
	if _, err := transition(ctx, tx, q, StateSuperseded, "what is due changed"); err != nil {
		return q, err
	}
	inserted, err := insert(ctx, tx, next)
	if err == nil && !inserted {
		err = db.ErrConflict
	}
	if err != nil {
		return q, err
	}
	return next, emit(tx, next, true)
}

// isClaim reports whether an object is a claim. Any other object is treated as a payroll.
func isClaim(objectID string) bool { return strings.HasPrefix(objectID, "clm_") }

// Price returns the current price of an amount due, and the amount to pay, without fixing the price. It returns
// rates.ErrUnavailable if no current rate is known.
func Price(ctx context.Context, tx *db.Tx, due money.Amount, funding money.Asset, spreadBps int64) (money.Rate,
	money.Amount, error) {
	rate, err := rates.Latest(ctx, tx, funding, due.Asset())
	if err != nil || funding == due.Asset() {
		return rate, due, err // without a conversion there is no spread
	}
	if rate, err = rate.WithSpread(spreadBps, false); err != nil {
		return money.Rate{}, money.Amount{}, err
	}
	if rate, err = shorten(rate); err != nil {
		return money.Rate{}, money.Amount{}, err
	}
	amount, err := rate.Convert(due, money.Ceil)
	return rate, amount, err
}

// shorten cuts a rate to 8 decimals, or to more if fewer than 8 significant digits would remain, so that the
// displayed rate is the rate used. It rounds towards 0, to the payer's disadvantage.
func shorten(r money.Rate) (money.Rate, error) {
	text := r.String()
	point := strings.IndexByte(text, '.')
	if point < 0 {
		return r, nil
	}
	end, significant := point+1, len(strings.TrimLeft(text[:point], "0"))
	for ; end < len(text) && (end-point <= 8 || significant < 8); end++ {
		if significant > 0 || text[end] != '0' {
			significant++
		}
	}
	return money.ParseRate(r.Base(), r.Quote(), text[:end])
}

// TooSmall returns ErrTooSmall with the amount to pay and the smallest possible amount.
func TooSmall(funding, least money.Amount) error {
	return ErrTooSmall.Detailf("The amount comes to %s %s; the least is %s %s.", funding, funding.Asset(), least,
		least.Asset())
}

// Make creates the first quote of an object in an asset. It returns rates.ErrUnavailable, ErrTooSmall or, if the
// amount exceeds the supply of bitcoin, money.ErrTooLarge. The row is inserted at the commit.
func Make(ctx context.Context, tx *db.Tx, p Params) (Quote, error) {
	q, err := build(ctx, tx, p, 1)
	if err != nil {
		return Quote{}, err
	}
	if least := Least(p.Funding, isClaim(p.ObjectID)); q.Funding.Cmp(least) < 0 {
		return Quote{}, TooSmall(q.Funding, least)
	}
	insertLater(tx, q)
	return q, nil
}

// MostBTC is the largest possible supply of bitcoin, in satoshis.
const MostBTC = 21_000_000_00_000_000

func build(ctx context.Context, tx *db.Tx, p Params, number int64) (Quote, error) {
	if p.Due.Sign() <= 0 {
		return Quote{}, ErrTooSmall.Detailf("Nothing is due, so there is nothing to quote.")
	}
	rate, funding, err := Price(ctx, tx, p.Due, p.Funding, p.SpreadBps)
	if err != nil {
		return Quote{}, err
	}
	if p.Funding == money.BTC && funding.Units() > MostBTC {
		return Quote{}, money.ErrTooLarge.Detailf("The amount comes to %s BTC; there are never more than %s BTC.",
			funding, money.New(money.BTC, MostBTC))
	}
	now := tx.Now()
	return Quote{
		ID: tx.NewID("quo"), CompanyID: p.CompanyID, ObjectID: p.ObjectID, Number: number, State: StateActive,
		Version:   1,
		ValidFrom: now, ValidTo: now.Add(p.Validity), Grace: min(max(p.Grace, 0), MaxGrace),
		Rate: rate, Due: p.Due, Funding: funding, Address: p.Address, Network: p.Network,
		Confirmations: p.Confirmations,
	}, nil
}

// Refresh returns the active quote of an object unchanged, or replaces an expired quote by a quote for p.Due, the
// amount that remains to be paid, however small. It returns ErrNotFound if the object never had a quote, ErrLocked if
// its quote is accepted, ErrState if it is cancelled, ErrTooMany, rates.ErrUnavailable or, if the asset is stopped,
// offering.ErrStopped.
func Refresh(ctx context.Context, tx *db.Tx, p Params) (q Quote, err error) {
	err = again(func() error {
		q, err = refresh(ctx, tx, p)
		return err
	})
	return q, err
}

// again repeats f after a conflict with a concurrent transaction. That transaction has committed, so the next run of
// f sees its result, and continues after the steps that an earlier run has completed.
func again(f func() error) (err error) {
	for range 5 {
		if err = f(); !errors.Is(err, db.ErrConflict) {
			return err
		}
	}
	return err
}

func refresh(ctx context.Context, tx *db.Tx, p Params) (Quote, error) {
	last, err := Last(ctx, tx, p.CompanyID, p.ObjectID, p.Funding)
	if err != nil {
		return Quote{}, err
	}
	switch {
	case last.State == StateActive && tx.Now().Before(last.ValidTo):
		return last, nil
	case last.State == StateAccepted:
		return Quote{}, ErrLocked
	case last.State == StateCancelled:
		return Quote{}, ErrState
	}
	switch s, err := offering.Of(ctx, tx, p.Funding); {
	case err != nil:
		return Quote{}, err
	case s == offering.StopAll:
		return Quote{}, offering.ErrStopped.Set("currency", string(p.Funding))
	}
	count, first, err := countRefreshes(ctx, tx, p.CompanyID, p.ObjectID, p.Funding, tx.Now().Add(-RefreshWindow))
	if err != nil {
		return Quote{}, err
	}
	if count >= MaxRefreshes {
		wait := first.Add(RefreshWindow).Sub(tx.Now())
		return Quote{}, ErrTooMany.Set("retry_after", strconv.FormatInt(int64(wait/time.Second)+1, 10))
	}
	next, err := build(ctx, tx, p, last.Number+1)
	if err != nil {
		return Quote{}, err
	}
	if last.State == StateActive {
		if last, err = transition(ctx, tx, last, StateExpired, "its time ran out"); err != nil {
			return Quote{}, err
		}
	}
	if last.State == StateExpired {
		if _, err = transition(ctx, tx, last, StateSuperseded, "refreshed"); err != nil {
			return Quote{}, err
		}
	}
	inserted, err := insert(ctx, tx, next)
	if err != nil {
		return Quote{}, err
	}
	if !inserted {
		return Quote{}, db.ErrConflict
	}
	return next, emit(tx, next, true)
}

// Accept locks a quote whose full amount was seen in time. Accepting a quote twice has no effect. Accept returns
// ErrState if a newer quote has replaced the quote or its object was cancelled.
func Accept(ctx context.Context, tx *db.Tx, companyID, quoteID string) error {
	return again(func() error { return accept(ctx, tx, companyID, quoteID) })
}

func accept(ctx context.Context, tx *db.Tx, companyID, quoteID string) error {
	q, err := Get(ctx, tx, companyID, quoteID)
	if err != nil {
		return err
	}
	switch q.State {
	case StateAccepted:
		return nil
	case StateActive, StateExpired:
		_, err = transition(ctx, tx, q, StateAccepted, "paid in time")
		return err
	default:
		return ErrState
	}
}

// Reopen unlocks an accepted quote whose payment disappeared: the quote becomes active if it is still valid, else
// expired. It does nothing to a quote that is not accepted.
func Reopen(ctx context.Context, tx *db.Tx, companyID, quoteID string) error {
	return again(func() error { return reopen(ctx, tx, companyID, quoteID) })
}

func reopen(ctx context.Context, tx *db.Tx, companyID, quoteID string) error {
	q, err := Get(ctx, tx, companyID, quoteID)
	if err != nil || q.State != StateAccepted {
		return err
	}
	to := StateExpired
	if tx.Now().Before(q.ValidTo) {
		to = StateActive
	}
	_, err = transition(ctx, tx, q, to, "the payment disappeared")
	return err
}

// Cancel cancels the active quotes of an object that was cancelled.
func Cancel(ctx context.Context, tx *db.Tx, companyID, objectID string) error {
	return again(func() error { return cancel(ctx, tx, companyID, objectID) })
}

func cancel(ctx context.Context, tx *db.Tx, companyID, objectID string) error {
	all, err := ForObject(ctx, tx, companyID, objectID)
	if err != nil {
		return err
	}
	for _, q := range all {
		if q.State == StateActive {
			if _, err := transition(ctx, tx, q, StateCancelled, "its object was cancelled"); err != nil {
				return err
			}
		}
	}
	return nil
}

// transition changes the state of a quote, with its history row and, for an expiry, its event. It fails if the quote
// has changed since it was read.
func transition(ctx context.Context, tx *db.Tx, q Quote, to State, reason string) (Quote, error) {
	from := q.State
	if to == StateCancelled {
		q.CancelledAt = tx.Now()
	}
	changed, err := setState(ctx, tx, q, to)
	if err != nil {
		return Quote{}, err
	}
	if !changed {
		return Quote{}, db.ErrConflict
	}
	q.State, q.Version = to, q.Version+1
	db.History(tx, q.CompanyID, q.ID, q.Version, string(from), string(to), reason)
	if to == StateExpired {
		if isClaim(q.ObjectID) {
			job.Enqueue(tx, job.New{CompanyID: q.CompanyID, Kind: JobExpired, Payload: Expired{q.ObjectID}})
		}
		return q, emit(tx, q, false)
	}
	return q, nil
}

// expireBatch is the largest number of quotes that one transaction expires, so that requests do not have to wait
// long.
const expireBatch = 100

// ExpireDue expires the active quotes of a network whose validity has ended, in small batches of one company each,
// and returns their number. watched returns the time until which the chain has been watched, so that a payment made
// in time is seen before its quote expires; if watched is nil, that time is now.
func ExpireDue(ctx context.Context, d *db.DB, network string, watched func(context.Context, *db.Tx) (time.Time,
	error)) (int, error) {
	total := 0
	for {
		var due []Quote
		err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			until := tx.Now()
			if watched != nil {
				seen, err := watched(ctx, tx)
				if err != nil {
					return err
				}
				if seen.Before(until) {
					until = seen
				}
			}
			var err error
			due, err = loadDue(ctx, tx, network, until, expireBatch)
			return err
		})
		if err != nil || len(due) == 0 {
			return total, err
		}
		byCompany := map[string][]Quote{}
		for _, q := range due {
			byCompany[q.CompanyID] = append(byCompany[q.CompanyID], q)
		}
		expired := 0
		var failed []error
		for company, quotes := range byCompany {
			n := 0
			err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
				n = 0
				for _, q := range quotes {
					_, err := transition(ctx, tx, q, StateExpired, "its time ran out")
					if errors.Is(err, db.ErrConflict) {
						continue // the quote was paid, refreshed or cancelled after it was read
					}
					if err != nil {
						return err
					}
					n++
				}
				return nil
			})
			if err != nil {
				failed = append(failed, errors.Join(errors.New("quotes of "+company), err))
				continue
			}
			expired += n
		}
		total += expired
		if len(failed) > 0 || expired == 0 || len(due) < expireBatch {
			return total, errors.Join(failed...)
		}
	}
}

// ForPayroll returns the quote of a payroll as the API and events show it.
func (q Quote) ForPayroll() webhook.PayrollQuote {
	return webhook.PayrollQuote{
		QuoteID: q.ID, ValidFrom: webhook.FormatTime(q.ValidFrom), ValidTo: webhook.FormatTime(q.ValidTo), Rate: q.Rate,
		FundingCurrency: q.Funding.Asset(), FundingAmount: q.Funding,
		FundingDetails: webhook.FundingDetails{Address: q.Address, Network: q.Network},
	}
}

// ForClaim returns the quote of a claim as the API and events show it: amounts are decimal text.
func (q Quote) ForClaim() webhook.ClaimPrice {
	return webhook.ClaimPrice{
		QuoteID: q.ID, ValidFrom: webhook.FormatTime(q.ValidFrom), ValidTo: webhook.FormatTime(q.ValidTo),
		Rate:               q.Rate.String(),
		DenominationAmount: q.Due.String(), FundingAmount: q.Funding.String(),
		FundingDetails: webhook.FundingDetails{Address: q.Address, Network: q.Network},
	}
}

// emit emits the event of a claim or a payroll whose quote expired or was refreshed. Quotes of users have no events.
func emit(tx *db.Tx, q Quote, refreshed bool) error {
	if identity.IsUser(q.CompanyID) { // events are for companies only
		return nil
	}
	if isClaim(q.ObjectID) {
		event := webhook.ClaimQuoteExpired
		if refreshed {
			event = webhook.ClaimQuoteRefreshed
		}
		return webhook.Emit(tx, event.Event(q.CompanyID, q.ID, q.Version, webhook.ClaimQuoteData{
			ClaimID: q.ObjectID, ClaimPrice: q.ForClaim(), Status: string(q.State), FundingCurrency: q.Funding.Asset(),
			DenominationCurrency: q.Due.Asset(),
		}))
	}
	event := webhook.PayrollQuoteExpired
	if refreshed {
		event = webhook.PayrollQuoteRefreshed
	}
	return webhook.Emit(tx, event.Event(q.CompanyID, q.ID, q.Version, webhook.PayrollQuoteData{
		PayrollID: q.ObjectID, PayrollQuote: q.ForPayroll(), Status: string(q.State),
		DenominationCurrency: q.Due.Asset(),
		DenominationAmount:   q.Due,
	}))
}
