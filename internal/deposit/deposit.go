// Package deposit is money coming in: every paid Lightning invoice, every bank transfer that funds something, and every output that pays an address which was given out for an object (a payroll or a
// claim), from its first sight to its confirmations and, where the chain takes it back, back again.
//
//	seen → confirmed → reverted → confirmed
//	  │                   │
//	  ├→ replaced ←───────┤     and from replaced or evicted to seen or confirmed,
//	  └→ evicted  ←───────┘     should the transaction turn up after all
//
// What holds:
//
//   - Each output has a life of its own; an object may have any number of deposits, and a deposit is counted once.
//   - The state follows the chain's row, whatever the order in which news arrives: [Sync] compares what is with what was
//     booked and books the difference. Running it twice changes nothing.
//   - A deposit belongs to the quote that was in force when it was first seen, and is timely when that quote covers that
//     instant. A replacement by the same payer that pays no less keeps the first sight of what it replaces. Confirmation
//     never re-prices it.
//   - While a deposit waits for confirmations it stands in clearing (L02, taken back by L03a) and is available to nobody.
//   - How many confirmations are wanted grows with the value at stake, and with the pace of the chain's blocks: that of the object or of all its deposits together,
//     whichever is more, so that cutting a payment into pieces lowers nothing. A claim's quote names its own number, which
//     its merchant chose.
//
// When a deposit changes, the job [JobChanged] says which object to look at. The object's package books what a confirmed
// deposit means to it (L03b, L20 to L25, L30, L31), reading [ForObject]. This package books confirmed money itself where no object
// expects it: to suspense (L43), dust too, which costs more to spend than it is worth and wakes nobody; and what comes to an
// address of the house's own ([ledger.House]) to what the house owns.
package deposit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/fault"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/quote"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/webhook"
)

// JobChanged is the kind of the job that tells an object's package to look at its deposits. Its payload is [Changed].
const JobChanged = "deposit.changed"

// EventDetected is the event of a payroll's deposit that was seen.
const EventDetected = "payroll.funding_detected"

// Changed is the payload of JobChanged.
type Changed struct {
	ObjectID string `json:"object_id"`
}

// State is where a deposit stands.
type State string

// States of a deposit.
const (
	Seen      State = "seen"      // in the mempool, or in a block without enough blocks upon it
	Confirmed State = "confirmed" // has its confirmations
	Reverted  State = "reverted"  // had them and lost them to a reorganisation; waits for them again
	Replaced  State = "replaced"  // another transaction spent its coins
	Evicted   State = "evicted"   // forgotten by the mempool
)

// Waiting says that a deposit is on the chain and stands in clearing until it has its confirmations.
func (s State) Waiting() bool { return s == Seen || s == Reverted }

// Live says that the chain still holds the deposit's transaction.
func (s State) Live() bool { return s.Waiting() || s == Confirmed }

// Deposit is one output that pays one of our addresses.
type Deposit struct {
	ID        string
	CompanyID string
	Chain     string
	chain.Outpoint
	ObjectID   string
	QuoteID    string // the quote that values it, or the object itself where nothing is exchanged; "" when no object expects it
	Address    string
	Amount     money.Amount
	State      State
	Version    int64     // raised by every change, so a booking may be named by it
	Timely     bool      // first seen while its quote covered it
	Dust       bool      // too little to spend
	FirstSeen  time.Time // of the transaction, or of the one that it replaced
	Wanted     int64     // confirmations
	ReplacedBy string    // the transaction that took its place
}

// expected says that an object waits for this deposit and books it.
func (d Deposit) expected() bool { return d.QuoteID != "" && !d.Dust }

// errChangedByTwin: another transaction moved the same deposit between the read and the write.
var errChangedByTwin = fault.New(fault.Unavailable, "retry_later", "The deposit changed at the same moment.")

// OutputChanged handles the job chain.JobOutput.
func OutputChanged(ctx context.Context, tx *db.Tx, j job.Job) error {
	var news chain.OutputNews
	if err := j.Decode(&news); err != nil {
		return err
	}
	return Sync(ctx, tx, j.CompanyID, news.Chain, chain.Outpoint{TxID: news.TxID, Vout: news.Vout})
}

// Sync brings the deposit of an output to where the chain's row is. An output that is not watched, that belongs to another
// company or that is our own change is nobody's deposit.
func Sync(ctx context.Context, tx *db.Tx, companyID, chainName string, at chain.Outpoint) error {
	for range 5 {
		if err := sync(ctx, tx, companyID, chainName, at); !errors.Is(err, errChangedByTwin) {
			return err
		}
		// The twin has committed, so reading anew shows what it did; what was done here up to the clash is whole by itself.
	}
	return errChangedByTwin
}

func sync(ctx context.Context, tx *db.Tx, companyID, chainName string, at chain.Outpoint) error {
	out, err := chain.GetOutput(ctx, tx, chainName, at)
	if errors.Is(err, chain.ErrUnknown) {
		return nil
	}
	if err != nil || out.CompanyID != companyID || out.Branch == chain.Change {
		return err
	}
	d, err := find(ctx, tx, companyID, chainName, at)
	if errors.Is(err, db.ErrNoRows) {
		return record(ctx, tx, chainName, out)
	}
	if err != nil {
		return err
	}
	return follow(ctx, tx, d, out)
}

// follow moves a known deposit.
func follow(ctx context.Context, tx *db.Tx, d Deposit, out chain.WatchedOutput) error {
	to := stateOf(out, d.State)
	if to == d.State && (to != Replaced || out.ReplacedBy == d.ReplacedBy) {
		return bequeath(ctx, tx, d)
	}
	from := d.State
	d.State, d.ReplacedBy = to, out.ReplacedBy
	if err := step(ctx, tx, from, &d, "the chain says so"); err != nil {
		return err
	}
	if err := book(tx, d, from); err != nil {
		return err
	}
	return bequeath(ctx, tx, d)
}

// stateOf is where a deposit belongs, given the chain's row and where it stands.
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

// record makes the deposit of an output that was not known.
func record(ctx context.Context, tx *db.Tx, chainName string, out chain.WatchedOutput) error {
	d := Deposit{
		ID: tx.NewID("dep"), CompanyID: out.CompanyID, Chain: chainName, Outpoint: out.Outpoint, ObjectID: out.ObjectID,
		Address: out.Address, Amount: money.New(out.Asset, out.Amount), Version: 1, Dust: out.Amount < chain.Dust(out.Asset), FirstSeen: out.FirstSeen,
		Wanted: chain.DefaultConfirmations * out.Pace, ReplacedBy: out.ReplacedBy,
	}
	others, err := others(ctx, tx, d)
	if err != nil {
		return err
	}
	for _, o := range others {
		if d.succeeds(o) && o.FirstSeen.Before(d.FirstSeen) {
			d.FirstSeen = o.FirstSeen
		}
	}
	q, err := value(ctx, tx, &d)
	if err != nil {
		return err
	}
	if d.expected() {
		if d.Wanted, err = wanted(ctx, tx, q, d, others); err != nil {
			return err
		}
		d.Wanted *= out.Pace
		if err := chain.RequireConfirmations(ctx, tx, chainName, d.Outpoint, d.Wanted); err != nil {
			return err
		}
		// Fewer than the watcher's own default may be there already.
		if out, err = chain.GetOutput(ctx, tx, chainName, d.Outpoint); err != nil {
			return err
		}
	}
	d.State = stateOf(out, "")
	inserted, err := insert(ctx, tx, d)
	if err != nil {
		return err
	}
	if !inserted {
		return errChangedByTwin
	}
	db.History(tx, d.CompanyID, d.ID, d.Version, "", string(d.State), "first seen")
	if err := book(tx, d, ""); err != nil {
		return err
	}
	return bequeath(ctx, tx, d)
}

// others is the object's other deposits, each brought up to date first, so that a replaced one is known as such before its
// replacement is valued, whichever of them is looked at first.
func others(ctx context.Context, tx *db.Tx, d Deposit) ([]Deposit, error) {
	if d.Dust || d.ObjectID == "" {
		return nil, nil
	}
	all, err := ForObject(ctx, tx, d.CompanyID, d.ObjectID)
	if err != nil || !slices.ContainsFunc(all, func(o Deposit) bool { return o.State.Waiting() }) {
		return all, err
	}
	for _, o := range all {
		if o.State.Waiting() {
			if err := Sync(ctx, tx, o.CompanyID, o.Chain, o.Outpoint); err != nil {
				return nil, err
			}
		}
	}
	return ForObject(ctx, tx, d.CompanyID, d.ObjectID)
}

// succeeds says that d is the same payment as o with another fee: its transaction took o's place and pays no less.
func (d Deposit) succeeds(o Deposit) bool {
	return o.State == Replaced && o.ReplacedBy == d.TxID && o.ObjectID == d.ObjectID && d.Amount.Cmp(o.Amount) >= 0
}

// bequeath gives the first sight of a replaced deposit to its replacement, if that was recorded before.
func bequeath(ctx context.Context, tx *db.Tx, d Deposit) error {
	if d.State != Replaced || d.ReplacedBy == "" || !d.expected() {
		return nil
	}
	all, err := ForObject(ctx, tx, d.CompanyID, d.ObjectID)
	if err != nil {
		return err
	}
	for _, heir := range all {
		if !heir.succeeds(d) || !d.FirstSeen.Before(heir.FirstSeen) {
			continue
		}
		heir.FirstSeen = d.FirstSeen
		if _, err := value(ctx, tx, &heir); err != nil {
			return err
		}
		if err := step(ctx, tx, heir.State, &heir, "takes the first sight of what it replaced"); err != nil {
			return err
		}
		changed(tx, heir)
	}
	return nil
}

// value finds the quote that values a deposit and whether it is in time. A deposit without any is unexpected.
func value(ctx context.Context, tx *db.Tx, d *Deposit) (quote.Quote, error) {
	if d.ObjectID == "" {
		return quote.Quote{}, nil
	}
	q, err := quote.InForce(ctx, tx, d.CompanyID, d.ObjectID, d.Amount.Asset(), d.FirstSeen)
	if errors.Is(err, quote.ErrNotFound) {
		return quote.Quote{}, nil
	}
	d.QuoteID, d.Timely = q.ID, q.Covers(d.FirstSeen)
	return q, err
}

// Confirmations is how many are wanted for a value in dollars.
func Confirmations(usd money.Amount) int64 {
	for _, step := range []struct {
		below int64 // cents
		want  int64
	}{{1_000_00, 1}, {10_000_00, 2}, {100_000_00, 3}} {
		if usd.Cmp(money.New(money.USD, step.below)) < 0 {
			return step.want
		}
	}
	return chain.DefaultConfirmations
}

// wanted is the confirmations for a deposit among the others of its object: what its quote says, else by value. A value that
// cannot be told counts as the highest.
func wanted(ctx context.Context, tx *db.Tx, q quote.Quote, d Deposit, others []Deposit) (int64, error) {
	if q.Confirmations > 0 {
		return q.Confirmations, nil
	}
	sum := d.Amount
	for _, o := range others {
		if !o.State.Live() {
			continue
		}
		var err error
		if sum, err = sum.Add(o.Amount); err != nil {
			return 0, err
		}
	}
	stake, err := q.Value(sum)
	if err != nil {
		return 0, err
	}
	if stake.Cmp(q.Due) < 0 {
		stake = q.Due
	}
	if stake.Asset() != money.USD {
		rate, err := rates.Latest(ctx, tx, stake.Asset(), money.USD)
		if errors.Is(err, rates.ErrUnavailable) {
			return chain.DefaultConfirmations, nil
		}
		if err != nil {
			return 0, err
		}
		if stake, err = rate.Convert(stake, money.Ceil); err != nil {
			return 0, err
		}
	}
	return Confirmations(stake), nil
}

// step writes the next version of a deposit.
func step(ctx context.Context, tx *db.Tx, from State, d *Deposit, reason string) error {
	if err := update(ctx, tx, *d); err != nil {
		return err
	}
	d.Version++
	db.History(tx, d.CompanyID, d.ID, d.Version, string(from), string(d.State), reason)
	return nil
}

// inventory says that the money came to the house's own address. One that was given out and forgotten ([chain.Nobody]) has no object.
func (d Deposit) inventory() bool { return d.CompanyID == ledger.House && d.ObjectID != "" }

// book posts what a move means for the clearing tier and for suspense, and tells who has to know. A journal is named by the
// version that it belongs to, so each move is booked once and a deposit may come and go any number of times.
func book(tx *db.Tx, d Deposit, from State) error {
	post := func(purpose string, debit, credit ledger.Code, debitDim, creditDim string) error {
		return ledger.Post(tx, ledger.Journal{
			CompanyID: d.CompanyID, SourceType: "deposit", SourceID: d.ID, Purpose: fmt.Sprintf("%s:%d", purpose, d.Version),
			Lines: []ledger.Line{ledger.Debit(debit, debitDim, d.Amount), ledger.Credit(credit, creditDim, d.Amount)},
		})
	}
	var errs []error
	switch {
	case d.Dust: // too many and too small for a tier of their own
	case d.State.Waiting() && !from.Waiting(): // L02
		errs = append(errs, post("detected", ledger.ClearingDeposits, ledger.ContraDeposits, d.ID, d.ID))
	case !d.State.Waiting() && from.Waiting(): // L03a
		errs = append(errs, post("cleared", ledger.ContraDeposits, ledger.ClearingDeposits, d.ID, d.ID))
	}
	if !d.expected() {
		wallet, where := ledger.WalletOf(d.Amount.Asset(), d.Chain)
		purpose, account, dim := "unknown", ledger.SuspenseUnknown, d.ID // L43
		if d.inventory() {
			purpose, account, dim = "inventory", ledger.FXPosition, ""
		}
		switch {
		case d.State == Confirmed && from != Confirmed:
			errs = append(errs, post(purpose, wallet, account, where, dim))
		case d.State != Confirmed && from == Confirmed:
			errs = append(errs, post(purpose+"_reverted", account, wallet, dim, where))
		}
		return errors.Join(errs...)
	}
	if d.State.Live() && !from.Live() {
		errs = append(errs, emitDetected(tx, d))
	}
	changed(tx, d)
	return errors.Join(errs...)
}

func changed(tx *db.Tx, d Deposit) {
	job.Enqueue(tx, job.New{CompanyID: d.CompanyID, Kind: JobChanged, Payload: Changed{d.ObjectID}})
}

// emitDetected tells the company of a payroll. What a deposit means to a claim, the claim itself tells.
func emitDetected(tx *db.Tx, d Deposit) error {
	if strings.HasPrefix(d.ObjectID, "clm_") {
		return nil
	}
	return webhook.Emit(tx, webhook.Event{CompanyID: d.CompanyID, Name: EventDetected, ObjectID: d.ID, Sequence: d.Version, Data: map[string]any{
		"payroll_id": d.ObjectID, "deposit_id": d.ID, "quote_id": d.QuoteID, "status": d.State, "in_time": d.Timely,
		"currency": d.Amount.Asset(), "amount": d.Amount, "address": d.Address, "tx_hash": d.TxID, "vout": d.Vout,
		"first_seen": d.FirstSeen.Format(time.RFC3339), "confirmations_required": d.Wanted,
	}})
}
