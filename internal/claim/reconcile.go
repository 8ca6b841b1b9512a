package claim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// Follow re-evaluates claims whose deposits changed (job deposit.changed).
func (s *Service) Follow(ctx context.Context, tx *db.Tx, jobs []job.Job) error {
	return reconcile(ctx, tx, s, jobs, func(in deposit.Changed) string { return in.ObjectID })
}

// QuoteExpired re-evaluates claims whose quote has ended (job quote.expired).
func (s *Service) QuoteExpired(ctx context.Context, tx *db.Tx, jobs []job.Job) error {
	return reconcile(ctx, tx, s, jobs, func(in quote.Expired) string { return in.ObjectID })
}

// Monitor re-evaluates claims that wait for confirmations that may never come (job claim.monitor).
func (s *Service) Monitor(ctx context.Context, tx *db.Tx, jobs []job.Job) error {
	return reconcile(ctx, tx, s, jobs, func(in Named) string { return in.ClaimID })
}

// reconcile updates the claims of jobs from the current facts. id returns the object ID in a job's payload. IDs of
// objects other than claims are ignored.
func reconcile[T any](ctx context.Context, tx *db.Tx, s *Service, jobs []job.Job, id func(payload T) string) error {
	ids := make([]claimID, len(jobs))
	for i, j := range jobs {
		var in T
		if err := j.Decode(&in); err != nil {
			return err
		}
		ids[i] = claimID{j.CompanyID, id(in)}
	}
	claims, err := lockAll(ctx, tx, ids)
	if err != nil {
		return err
	}
	all, err := gatherAll(ctx, tx, claims)
	if err != nil {
		return err
	}
	for _, f := range all {
		if err := s.conclude(ctx, tx, f); err != nil {
			return err
		}
		if err := s.actOnLate(ctx, tx, f); err != nil {
			return err
		}
	}
	return nil
}

// gather reads the facts of a claim.
func gather(ctx context.Context, tx *db.Tx, c *Claim) (*facts, error) {
	all, err := gatherAll(ctx, tx, []*Claim{c})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// gatherAll reads the facts of several claims with one batch of queries.
func gatherAll(ctx context.Context, tx *db.Tx, claims []*Claim) ([]*facts, error) {
	all := make([]*facts, len(claims))
	received, accepted := make([]receivable.Facts, len(claims)), make([]map[string]string, len(claims))
	var questions []db.Statement
	for i, c := range claims {
		r := &received[i]
		r.Due, r.ToleranceBps = c.Amount, c.Policy.ToleranceBps
		accepted[i], c.others = map[string]string{}, map[money.Asset]holding{}
		questions = append(append(questions, r.Queries(c.CompanyID, c.ID)...), acceptedBy(c, accepted[i]), othersOf(c))
	}
	if err := tx.Batch(ctx, questions); err != nil {
		return nil, err
	}
	for i, c := range claims {
		r := &received[i]
		var err error
		if r.Accepted, err = acceptedRates(c, r.Deposits, accepted[i]); err != nil {
			return nil, err
		}
		f := &facts{c: c, was: *c, now: tx.Now(), assets: r.ByAsset(), deposits: r.Deposits}
		if f.assets[c.Funding] == nil {
			return nil, fmt.Errorf("claim: %s has no quote", c.ID)
		}
		f.showQuote()
		all[i] = f
	}
	return all, nil
}

// showQuote sets the claim's quote to its newest quote.
func (f *facts) showQuote() {
	q := f.newest()
	f.c.Quote = &q
}

// conclude updates the claim, its quotes and the ledger from the facts.
func (s *Service) conclude(ctx context.Context, tx *db.Tx, f *facts) error {
	c, was := f.c, &f.was
	v, err := f.evaluate()
	if err == nil && v.state == Invalid && was.State != Invalid {
		c.InvalidAt = tx.Now() // earlier deposits no longer count, and confirmed ones wait for a decision
		v, err = f.evaluate()
	}
	if err != nil {
		return err
	}
	if err := f.keepQuotes(ctx, tx, v.enough); err != nil {
		return err
	}
	f.showQuote()
	lines, err := c.rebook(ctx, tx, v.books)
	if err != nil {
		return err
	}
	c.State, c.Exception, c.TxHash, c.Seen = v.state, v.exception, v.txHash, v.seen
	switch {
	case c.State == Paid || c.State == Refunded:
		c.Reverted = false
	case was.State == Paid || was.State == Refunded && !c.Refunding:
		c.Reverted = true
	}
	if err := s.offer(ctx, tx, f); err != nil {
		return err
	}
	if c.same(was) {
		return nil
	}
	confirming := c.State == Confirming && was.State != Confirming
	if err := s.step(ctx, tx, f, v); err != nil {
		return err
	}
	if confirming {
		job.Enqueue(tx, job.New{CompanyID: c.CompanyID, Kind: JobMonitor, Payload: Named{c.ID},
			RunAt: f.newest().ValidTo.Add(MonitorFor)})
	}
	return ledger.Post(tx, ledger.Journal{
		CompanyID: c.CompanyID, SourceType: "claim", SourceID: c.ID, Purpose: fmt.Sprintf("book:%d", c.Version),
		Lines: lines,
	})
}

// same reports whether no change requires a new version or an event.
func (c *Claim) same(was *Claim) bool {
	return c.State == was.State && c.Exception == was.Exception && c.Reverted == was.Reverted &&
		c.TxHash == was.TxHash && c.Funding == was.Funding &&
		c.Seen == was.Seen && c.booked.equal(was.booked) && maps.EqualFunc(c.others, was.others, holding.equal) &&
		c.Refunding == was.Refunding && c.Refunded == was.Refunded &&
		c.Returned == was.Returned && c.ReturnedValue == was.ReturnedValue &&
		c.CancelledAt.Equal(was.CancelledAt)
}

// step stores the claim's next version with its history row, and emits its events.
func (s *Service) step(ctx context.Context, tx *db.Tx, f *facts, v verdict) error {
	c, was := f.c, f.was
	f.was = *c
	if err := update(ctx, tx, c, was.State); err != nil {
		return err
	}
	if err := storeOthers(ctx, tx, c, was.others); err != nil {
		return err
	}
	db.History(tx, c.CompanyID, c.ID, c.Version, string(was.State), string(c.State), reason(c, &was))
	if c.State == Paid && was.State != Paid {
		if err := s.mailReceipt(ctx, tx, c); err != nil {
			return err
		}
	}
	return s.emitStatus(tx, c, &was, v)
}

func reason(c, was *Claim) string {
	switch {
	case c.Reverted && !was.Reverted:
		return "funding_reverted"
	case c.Exception != None:
		return string(c.Exception)
	}
	return ""
}

// actOnLate applies the merchant's policy to late money below the limit for automatic handling.
func (s *Service) actOnLate(ctx context.Context, tx *db.Tx, f *facts) error {
	c := f.c
	if c.State != PaidLate || c.Refunding || c.Policy.Late == LateManual || c.Policy.Late == LateRequote &&
		!c.CancelledAt.IsZero() {
		return nil
	}
	t, err := f.current().Evaluate()
	if err != nil {
		return err
	}
	if automatic, err := receivable.AutomaticLate(ctx, tx, t.Held); err != nil || !automatic {
		return err
	}
	if c.Policy.Late == LateRefund {
		return s.giveBack(ctx, tx, f)
	}
	if err := s.acceptLate(ctx, tx, f); err != nil {
		return err
	}
	if err := s.conclude(ctx, tx, f); err != nil || c.State == Paid || c.State == Confirming {
		return err
	}
	err = s.quoteRest(ctx, tx, f)
	if errors.Is(err, quote.ErrTooMany) || errors.Is(err, ErrQuoteLocked) {
		return nil // the late money is accepted; the payer can request a quote later
	}
	if err != nil {
		return err
	}
	return s.conclude(ctx, tx, f)
}

// giveBack makes all money paid for a claim refundable to the payer.
func (s *Service) giveBack(ctx context.Context, tx *db.Tx, f *facts) error {
	f.c.Refunding = true
	return s.conclude(ctx, tx, f)
}

// acceptLate accepts all confirmed money that does not count yet, at the current rate.
func (s *Service) acceptLate(ctx context.Context, tx *db.Tx, f *facts) error {
	ids, rate, err := f.current().AcceptLate(ctx, tx, s.SpreadBps)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := insertAccepted(ctx, tx, f.c, id, rate); err != nil {
			return err
		}
	}
	return nil
}

// quoteRest creates quotes for the amount that deposits seen in time do not cover: in the asset of the deposits that
// count or, if there are none, in each accepted asset. It returns an error if no asset can be quoted.
func (s *Service) quoteRest(ctx context.Context, tx *db.Tx, f *facts) error {
	v, err := f.current().Evaluate()
	if err != nil {
		return err
	}
	assets := f.accepted()
	if v.AnyCounts {
		assets = []money.Asset{f.c.Funding}
	}
	var first error
	quoted := 0
	for _, asset := range assets {
		last := f.in(asset).Newest()
		_, err := f.in(asset).Requote(ctx, tx, s.params(f.c, money.Amount{}, asset, last.Address, last.Network, tx.Now()),
			func(until time.Time) error { return s.checkWatched(ctx, tx, asset, until) })
		if errors.Is(err, receivable.ErrCovered) {
			return ErrQuoteLocked
		}
		if _, isFault := apierr.As(err); err != nil && !isFault {
			return err
		}
		if err == nil {
			quoted++
		} else if first == nil {
			first = err
		}
	}
	f.showQuote()
	if quoted > 0 {
		return nil
	}
	return first
}

// ofCompany reads a claim of the principal's company with the function read, which is find or lock.
func ofCompany(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, claimID string,
	read func(ctx context.Context, tx *db.Tx, companyID, id string) (*Claim, error)) (*Claim, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, err
	}
	return read(ctx, tx, company, claimID)
}

// Refresh returns the quote with which a claim can be paid: the active quote unchanged, or else a new quote for the
// amount still due. It first accepts late money, at the current rate. If that is enough, the claim is paid, and
// Refresh returns the last quote. A cancelled claim gets no new quote, so its late money is accepted only if it is
// enough.
func (s *Service) Refresh(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, claimID string) (Claim,
	error) {
	c, err := ofCompany(ctx, tx, by, companyID, claimID, lock)
	if err != nil {
		return Claim{}, err
	}
	return s.renew(ctx, tx, c, true)
}

// Renew returns a quote as [Service.Refresh] does, but for the payer, who cannot decide about late money.
func (s *Service) Renew(ctx context.Context, tx *db.Tx, claimID string) (Claim, error) {
	c, err := lockAny(ctx, tx, claimID)
	if err != nil {
		return Claim{}, err
	}
	if c.Ended(tx.Now()) {
		return *c, ErrEnded
	}
	if err := s.guards.Renewable(ctx, tx, c.CompanyID, c.LinkID, c.Amount); err != nil {
		return *c, err
	}
	return s.renew(ctx, tx, c, false)
}

func (s *Service) renew(ctx context.Context, tx *db.Tx, c *Claim, late bool) (Claim, error) {
	f, err := gather(ctx, tx, c)
	if err != nil {
		return *c, err
	}
	switch {
	case c.Refunding || c.State == Cancelled || c.State == Paid || c.State == Refunded:
		return *c, ErrState.Detailf("A claim that is %s has no price to refresh.", c.State)
	case c.State == Confirming:
		return *c, ErrQuoteLocked
	case c.State == PaidLate && !late:
		return *c, ErrState.Detailf(
			"Money came for this claim after its price had ended; the merchant decides about it first.")
	case c.State == PaidLate:
		if err := s.acceptLate(ctx, tx, f); err != nil {
			return *c, err
		}
		v, err := f.evaluate()
		if err != nil {
			return *c, err
		}
		if v.enough {
			return *c, s.conclude(ctx, tx, f)
		}
		if !c.CancelledAt.IsZero() {
			return *c, ErrState.Detailf("The claim was cancelled, and what came for it is not enough to pay it. Give it back.")
		}
	}
	if err := s.quoteRest(ctx, tx, f); err != nil {
		return *c, err
	}
	if err := s.conclude(ctx, tx, f); err != nil {
		return *c, err
	}
	err = s.show(ctx, tx, f)
	return *c, err
}

// Cancel cancels a claim that has no payment. Its address stays watched; money that arrives later is held for the
// payer. Canceling a claim twice has no effect.
func (s *Service) Cancel(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, claimID string) (Claim,
	error) {
	c, err := ofCompany(ctx, tx, by, companyID, claimID, lock)
	if err != nil {
		return Claim{}, err
	}
	switch c.State {
	case Cancelled:
		return *c, nil
	case AwaitingPayment, Expired:
	default:
		return *c, ErrState.Detailf("Only a claim for which nothing has come can be cancelled; this one is %s.",
			c.State)
	}
	f, err := gather(ctx, tx, c)
	if err != nil {
		return *c, err
	}
	for _, d := range f.deposits {
		if d.State.Live() {
			return *c, ErrState.Detailf("A payment for this claim has just been seen.")
		}
	}
	if err := quote.Cancel(ctx, tx, c.CompanyID, c.ID); err != nil {
		return *c, err
	}
	c.State, c.CancelledAt = Cancelled, tx.Now()
	v, err := f.evaluate()
	if err != nil {
		return *c, err
	}
	if err := s.offer(ctx, tx, f); err != nil {
		return *c, err
	}
	return *c, s.step(ctx, tx, f, v)
}
