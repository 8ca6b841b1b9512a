package deposit

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// OutputsChanged handles jobs of kind chain.JobOutput: it updates the deposits of outputs from the chain watcher's
// rows.
func OutputsChanged(ctx context.Context, tx *db.Tx, jobs []job.Job) error {
	places := make([]place, len(jobs))
	for i, j := range jobs {
		var in chain.OutputRef
		if err := j.Decode(&in); err != nil {
			return err
		}
		places[i] = place{j.CompanyID, in.Chain, chain.Outpoint{TxID: in.TxID, Vout: in.Vout}}
	}
	return syncAll(ctx, tx, places)
}

// Heal updates the deposits that contradict the outputs of some chains, one by one: confirmed outputs without a
// confirmed deposit, and confirmed deposits without an output in a block. The watcher's jobs normally keep them in
// agreement; Heal repairs the effect of a job that was lost or failed too often. It skips outputs whose job still
// waits.
func Heal(ctx context.Context, d *db.DB, log *slog.Logger, chains ...string) error {
	var wrong []place
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		wrong = nil
		for _, name := range chains {
			for _, find := range []func(context.Context, *db.Tx, string) ([]place, error){unbooked, gone} {
				found, err := find(ctx, tx, name)
				if err != nil {
					return err
				}
				wrong = append(wrong, found...)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	var failed error
	for _, p := range wrong {
		healed := false
		failed = errors.Join(failed, d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			healed, err = heal(ctx, tx, p)
			return err
		}))
		if healed {
			log.WarnContext(ctx, "a deposit contradicted its output and was updated", "company_id", p.companyID, "chain",
				p.chain, "txid", p.at.TxID, "vout", p.at.Vout)
		}
	}
	return failed
}

// heal updates the deposit of an output unless a job for the output waits. It reports whether it changed the deposit.
func heal(ctx context.Context, tx *db.Tx, p place) (changed bool, err error) {
	if waits, err := job.Waits(ctx, tx, chain.OutputJob(p.companyID, p.chain, p.at)); err != nil || waits {
		return false, err
	}
	version := func() (int64, error) {
		d, err := find(ctx, tx, p.companyID, p.chain, p.at)
		if errors.Is(err, db.ErrNoRows) {
			return 0, nil
		}
		return d.Version, err
	}
	before, err := version()
	if err != nil {
		return false, err
	}
	if err := syncAll(ctx, tx, []place{p}); err != nil {
		return false, err
	}
	after, err := version()
	return after != before, err
}

// place identifies the output of a deposit.
type place struct {
	companyID, chain string
	at               chain.Outpoint
}

func (d Deposit) place() place { return place{d.CompanyID, d.Chain, d.Outpoint} }

// object identifies the payroll, claim or wallet that a deposit pays.
type object struct{ companyID, id string }

func (d Deposit) object() object { return object{d.CompanyID, d.ObjectID} }

// syncAll updates the deposits of outputs from the chain watcher's rows. An output that is not watched, belongs to
// another company or is the service's own change has no deposit.
//
// Transactions that update deposits of one company run one at a time. Otherwise, transaction A could read an output
// before a reorganization, and store its deposit as confirmed after transaction B has found the still unconfirmed
// deposit in agreement with the output. No job would correct that.
func syncAll(ctx context.Context, tx *db.Tx, places []place) (err error) {
	companies := map[string]bool{}
	for _, p := range places {
		companies[p.companyID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(companies)) { // a fixed order of locks prevents deadlocks
		if err := tx.Lock(ctx, syncLock(id)); err != nil {
			return err
		}
	}
	for range 5 {
		if places, err = syncOnce(ctx, tx, places); err != nil || len(places) == 0 {
			return err
		}
		// The concurrent transactions have committed, so the next iteration sees their changes.
	}
	return db.ErrConflict
}

// syncLock returns the number of the advisory lock for the deposits of a company.
func syncLock(companyID string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("deposit.sync/" + companyID))
	return int64(h.Sum64())
}

// syncing holds the data during an update of deposits. All data is read at once, and all changes are written at once.
type syncing struct {
	outputs  map[place]chain.WatchedOutput
	deposits map[place]*change
	all      []*change // all changes, in the order in which they were found
	objects  map[object]*expecting
	required map[string][]chain.WatchedOutput // outputs with new numbers of required confirmations, by chain
}

// expecting is an object with its quotes and the deposits that it expects, ordered by the time first seen.
type expecting struct {
	deposits []*change
	quotes   []quote.Quote
}

// change is a deposit that may change.
type change struct {
	Deposit
	was   Deposit // deposit as stored; the zero Deposit if it is new
	steps []transition
}

type transition struct {
	version  int64
	from, to State
	reason   string
}

// step increments the version of a deposit and records the change of its state.
func (c *change) step(from State, reason string) {
	c.Version++
	c.steps = append(c.steps, transition{c.Version, from, c.State, reason})
}

// note writes the history of a change that was stored.
func (c *change) note(tx *db.Tx) {
	for _, x := range c.steps {
		db.History(tx, c.CompanyID, c.ID, x.version, string(x.from), string(x.to), x.reason)
	}
}

func (c *change) isNew() bool { return c.was.Version == 0 }

// meet returns the known change of a deposit or, if there is none, adds c.
func (s *syncing) meet(c *change) *change {
	if known, ok := s.deposits[c.place()]; ok {
		return known
	}
	s.deposits[c.place()] = c
	s.all = append(s.all, c)
	return c
}

// syncOnce updates the deposits of outputs. It returns the outputs whose deposits were changed by a concurrent
// transaction.
//
// Deposits are read before their outputs, so the state read of an output is at least as recent as the state that the
// deposit reflects. If another writer changes a deposit after it was read, storing the deposit fails.
func syncOnce(ctx context.Context, tx *db.Tx, places []place) (left []place, err error) {
	s := &syncing{
		outputs: map[place]chain.WatchedOutput{}, deposits: map[place]*change{}, objects: map[object]*expecting{},
		required: map[string][]chain.WatchedOutput{},
	}
	if err := tx.Batch(ctx, append(s.askDeposits(places), s.askOutputs(places)...)); err != nil {
		return nil, err
	}
	places = s.ours(places)
	if err := s.readObjects(ctx, tx, places); err != nil {
		return nil, err
	}
	for _, p := range places {
		if c, known := s.deposits[p]; known {
			c.follow(s.outputs[p])
		}
	}
	for _, c := range s.all {
		if err := s.inheritFirstSeen(c); err != nil {
			return nil, err
		}
	}
	for _, p := range places {
		if _, known := s.deposits[p]; !known {
			if err := s.record(ctx, tx, p, s.outputs[p]); err != nil {
				return nil, err
			}
		}
	}
	return s.store(ctx, tx)
}

// ours returns the outputs that are watched for their company and are not the service's own change, each once.
// Outputs to the account that pays on an EVM network do not count as change, because the service's own transactions
// have no outputs there.
func (s *syncing) ours(places []place) (all []place) {
	seen := map[place]bool{}
	for _, p := range places {
		if out, ok := s.outputs[p]; ok && !seen[p] && out.CompanyID == p.companyID && (out.Branch != chain.Change ||
			out.ObjectID == chain.PayingAccount) {
			seen[p], all = true, append(all, p)
		}
	}
	return all
}

// readObjects reads the objects of some outputs. It first updates the other deposits of the objects, so that a
// replaced deposit is known as replaced before its replacement is valued, in whatever order they are processed.
func (s *syncing) readObjects(ctx context.Context, tx *db.Tx, places []place) error {
	for _, p := range places {
		out := s.outputs[p]
		c, known := s.deposits[p]
		if out.ObjectID != "" && (!known || stateOf(out, c.State) == Replaced) {
			s.objects[object{p.companyID, out.ObjectID}] = &expecting{}
		}
	}
	if len(s.objects) == 0 {
		return nil
	}
	read := len(s.all)
	if err := tx.Batch(ctx, s.askObjects()); err != nil {
		return err
	}
	var outdated []place // outputs that were read before their deposit, or not read yet
	for _, c := range s.all[read:] {
		if c.State.Waiting() || slices.Contains(places, c.place()) {
			outdated = append(outdated, c.place())
		}
	}
	if err := tx.Batch(ctx, s.askOutputs(outdated)); err != nil {
		return err
	}
	var waiting []place
	for _, o := range s.objects {
		for _, c := range o.deposits {
			if c.State.Waiting() && !slices.Contains(places, c.place()) {
				waiting = append(waiting, c.place())
			}
		}
	}
	for _, p := range s.ours(waiting) {
		s.deposits[p].follow(s.outputs[p])
	}
	return nil
}

// follow updates a known deposit's state from the output that the chain watcher stored.
func (c *change) follow(out chain.WatchedOutput) {
	to := stateOf(out, c.State)
	if to == c.State && (to != Replaced || out.ReplacedBy == c.ReplacedBy) {
		return
	}
	from := c.State
	c.State, c.ReplacedBy = to, out.ReplacedBy
	c.step(from, "the chain says so")
}

// stateOf returns the next state of a deposit, given its output and its current state.
func stateOf(out chain.WatchedOutput, from State) State {
	switch {
	case out.State == chain.Replaced:
		return Replaced
	case out.State == chain.Evicted:
		return Evicted
	case out.State == chain.Mined && out.Confirmed:
		return Confirmed
	case from == Confirmed || from == Reverted:
		return Reverted
	default:
		return Seen
	}
}

// record creates the deposit of an output that has none yet.
func (s *syncing) record(ctx context.Context, tx *db.Tx, p place, out chain.WatchedOutput) error {
	c := &change{Deposit: Deposit{
		ID: tx.NewID("dep"), CompanyID: out.CompanyID, Chain: p.chain, Outpoint: out.Outpoint, ObjectID: out.ObjectID,
		Address: out.Address, Amount: money.New(out.Asset, out.Amount), Dust: out.Amount < chain.Dust(out.Asset),
		FirstSeen: out.FirstSeen,
		Wanted:    chain.DefaultConfirmations * out.BlocksPerConfirmation, ReplacedBy: out.ReplacedBy,
	}}
	if ofWallet(c.ObjectID) && !c.Dust && slices.Contains(walletCoins, c.Amount.Asset()) {
		c.OwnerID, c.OnTime = c.CompanyID, true
	}
	o := s.objects[c.object()]
	if o != nil {
		c.FirstSeen = o.notBeforeQuotes(c.Deposit)
		if !c.Dust {
			for _, other := range o.deposits {
				same, err := o.succeeds(c.Deposit, other.Deposit)
				if err != nil {
					return err
				}
				if same && other.FirstSeen.Before(c.FirstSeen) {
					c.FirstSeen = other.FirstSeen
				}
			}
		}
		q := c.value(o.quotes)
		if c.expected() || c.OwnerID != "" {
			want, err := wanted(ctx, tx, q, c.Deposit, o.deposits)
			if err != nil {
				return err
			}
			c.Wanted = want * out.BlocksPerConfirmation
			if out.RequiredConfirmations != c.Wanted {
				// If the quote requires fewer confirmations than the watcher's default, the output may have them already.
				out = out.WithConfirmations(c.Wanted)
				s.required[p.chain] = append(s.required[p.chain], out)
			}
			o.deposits = append(o.deposits, c)
		}
	}
	c.State = stateOf(out, "")
	c.step("", "first seen")
	return s.inheritFirstSeen(s.meet(c))
}

// notBeforeQuotes returns the time at which a deposit was first seen, but not a time before the first quote in its
// asset: the timestamp of a block can be earlier than the creation of the address that a transaction in it pays.
func (o *expecting) notBeforeQuotes(d Deposit) time.Time {
	seen := d.FirstSeen
	for _, q := range o.quotes {
		if q.Funding.Asset() == d.Amount.Asset() && q.Number == 1 && seen.Before(q.ValidFrom) {
			seen = q.ValidFrom
		}
	}
	return seen
}

// succeeds reports whether d is the same payment as old with another fee, so that it counts as first seen when old
// was. The transaction of d must have replaced the transaction of old, and must pay no less. It also must not pay
// more than the outputs of old's transaction that had been seen by then, counting all deposits that already have this
// first sight; unless the whole quote had been paid in time, because then the additional amount is excess at any
// price. Otherwise a payer could hold a price with almost no money, and add the rest at that price once it has become
// favorable.
func (o *expecting) succeeds(d, old Deposit) (bool, error) {
	replaced := func(c Deposit) bool { return c.State == Replaced && c.ReplacedBy == d.TxID }
	if !replaced(old) || old.ObjectID != d.ObjectID || d.Amount.Asset() != old.Amount.Asset() ||
		d.Amount.Cmp(old.Amount) < 0 {
		return false, nil
	}
	seen, inherited, others := money.Zero(d.Amount.Asset()), d.Amount, money.Zero(d.Amount.Asset())
	for _, c := range o.deposits {
		var sum *money.Amount
		then := !c.FirstSeen.After(old.FirstSeen)
		switch {
		case c.Amount.Asset() != d.Amount.Asset() || c.Outpoint == d.Outpoint:
		case c.TxID == d.TxID && then:
			sum = &inherited
		case c.TxID == old.TxID && replaced(c.Deposit) && then:
			sum = &seen
		case c.TxID != d.TxID && c.QuoteID == old.QuoteID && c.OnTime && (c.State == Seen || c.State == Confirmed):
			sum = &others
		}
		if sum == nil {
			continue
		}
		var err error
		if *sum, err = sum.Add(c.Amount); err != nil {
			return false, err
		}
	}
	if inherited.Cmp(seen) <= 0 {
		return true, nil
	}
	paid, err := seen.Add(others)
	return err == nil && slices.ContainsFunc(o.quotes, func(q quote.Quote) bool {
		return q.ID == old.QuoteID &&
			paid.Cmp(q.Funding) >= 0
	}), err
}

// inheritFirstSeen copies the first sight of a replaced deposit to its replacement, if the replacement was recorded
// before.
func (s *syncing) inheritFirstSeen(c *change) error {
	o := s.objects[c.object()]
	if o == nil || c.State != Replaced || c.ReplacedBy == "" || !c.expected() {
		return nil
	}
	for _, replacement := range o.deposits {
		if !c.FirstSeen.Before(replacement.FirstSeen) {
			continue
		}
		same, err := o.succeeds(replacement.Deposit, c.Deposit)
		if err != nil {
			return err
		}
		if !same {
			continue
		}
		replacement.FirstSeen = c.FirstSeen
		replacement.value(o.quotes)
		replacement.step(replacement.State, "takes the first sight of what it replaced")
	}
	return nil
}

// value sets the quote that values a deposit, and whether the deposit is on time. A deposit without a quote is
// unexpected.
func (d *Deposit) value(quotes []quote.Quote) quote.Quote {
	q, ok := quote.InForce(quotes, d.Amount.Asset(), d.FirstSeen)
	if ok {
		d.QuoteID, d.OnTime = q.ID, q.Covers(d.FirstSeen)
	}
	return q
}

// store stores and posts all changes. It returns the outputs whose deposits were changed by a concurrent transaction.
func (s *syncing) store(ctx context.Context, tx *db.Tx) (left []place, err error) {
	for _, name := range slices.Sorted(maps.Keys(s.required)) {
		if err := chain.RequireConfirmations(ctx, tx, name, s.required[name]); err != nil {
			return nil, err
		}
	}
	changed := slices.DeleteFunc(s.all, func(c *change) bool { return len(c.steps) == 0 })
	stored, err := storeAll(ctx, tx, changed)
	if err != nil {
		return nil, err
	}
	for _, c := range changed {
		if !stored[c.ID] {
			left = append(left, c.place())
			continue
		}
		c.note(tx)
		if err := book(ctx, tx, c.Deposit, c.was.State); err != nil {
			return nil, err
		}
	}
	return left, nil
}
