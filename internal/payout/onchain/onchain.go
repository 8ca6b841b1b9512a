// Package onchain carries signed blockchain transactions for the rails that pay by them: it stores them, broadcasts them, follows
// them until they are confirmed or proven never to be, and replaces them by ones with a higher fee. Packages payout/bitcoin and
// payout/evm choose what to sign; what differs between them afterwards is a [Family].
//
// A [Batch] is one set of inputs (coins, or the nonce of an account) that pays outputs of one company, with every transaction
// that was ever signed for it. Its states are those of its outputs, and two of its own:
//
//	prepared → sent → fulfilled
//	   └─→ in_doubt ↑     └→ sent again when its block left the chain
//	prepared, sent, in_doubt → dead   another transaction spent its inputs, for certain; its outputs are queued again
//	dead → lost                       it was confirmed after all; payouts are paused
//
// Invariants:
//
//   - The signed bytes, the txid, the journal and the outputs' state are committed before the first broadcast.
//   - Nothing signs a transaction with other inputs for an output that may already be paid. A replacement spends the same inputs
//     and pays the same recipients at the same positions. All transactions of a batch stay watched, because any one of them, and
//     only one, can be confirmed.
//   - A batch in_doubt leaves that state when one of its transactions is found, or when another transaction that spends its
//     inputs is deep enough in the chain. Only then are its outputs queued again.
package onchain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
)

// Config is what a Carrier needs. Everything is required except Witnesses.
type Config struct {
	Rail      payout.RailName
	Chain     string          // name under which package chain keeps the network's rows
	Native    money.Asset     // fees are paid in it
	Source    chain.Source    // node to broadcast through
	Witnesses []chain.Witness // further nodes that are asked for a transaction that Source does not know
	Log       *slog.Logger

	Confirmations int64         // of a payout before it is fulfilled; a reorganization takes the fulfillment back
	ConflictDepth int64         // confirmations of a conflicting transaction that prove that a payout can never be confirmed
	MaxFeeRate    int64         // network fee rate above which nothing is prepared and no fee is raised
	FeeMaxAge     time.Duration // age above which a fee rate is not used
	BumpAfter     time.Duration // age of an unconfirmed transaction before its fee is raised
	NudgeEvery    time.Duration // interval between checks of an unconfirmed batch
	Retry         time.Duration // interval between checks of a queue that waits
	FeeEvery      time.Duration // interval between readings of the fee rate
}

// check returns an error that names what is missing.
func (c Config) check() error {
	switch {
	case c.Rail == "" || c.Chain == "" || c.Native == "":
		return errors.New("onchain: the rail, the chain or its native asset is missing")
	case c.Source == nil:
		return errors.New("onchain: no node is configured for " + c.Chain)
	case c.Log == nil:
		return errors.New("onchain: no logger")
	case min(c.Confirmations, c.ConflictDepth, c.MaxFeeRate) <= 0,
		min(c.FeeMaxAge, c.BumpAfter, c.NudgeEvery, c.Retry, c.FeeEvery) <= 0:
		return errors.New("onchain: a limit of " + c.Chain + " is missing")
	}
	return nil
}

// Family is what differs between the transactions of kinds of chains.
type Family interface {
	// Watch has package chain follow a transaction of the batch that was just signed.
	Watch(ctx context.Context, tx *db.Tx, b Batch, txid string) error
	// Replace signs a transaction that takes the place of old at the given fee rate of the network. It returns
	// ErrFeeTooHigh, ErrUnaffordable or ErrChangeSpent when that is not possible, and stores nothing but reservations.
	Replace(ctx context.Context, tx *db.Tx, b Batch, old Transaction, rate int64) (Transaction, error)
	// Underpays reports whether a transaction pays less than the network asks for at rate, and a higher fee is worth it.
	Underpays(b Batch, t Transaction, rate int64) bool
	// Cost returns the fee that a transaction has paid in its block.
	Cost(t Transaction, seen chain.WatchedTx) int64
}

// Carrier stores, broadcasts and follows the transactions of one chain. It implements what is common to the rails that embed it.
type Carrier struct {
	Config
	family Family
	nodes  Nodes
}

// New returns a carrier of a family's transactions.
func New(c Config, f Family) (*Carrier, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if f == nil {
		return nil, errors.New("onchain: no family of transactions")
	}
	return &Carrier{Config: c, family: f, nodes: Nodes{Source: c.Source, Witnesses: c.Witnesses}}, nil
}

// Name implements payout.Rail.
func (c *Carrier) Name() payout.RailName { return c.Rail }

// Jobs implements payout.Rail.
func (c *Carrier) Jobs() job.Table {
	return job.Table{
		c.nudgeKind():         {Batch: c.Nudge},
		chain.JobTx:           {Batch: c.Confirm},
		chain.JobUnknownSpend: {Tx: c.UnknownSpend},
	}
}

// Periodic implements payout.Rail.
func (c *Carrier) Periodic(d *db.DB) []job.Periodic {
	return []job.Periodic{{Name: "payout.fees." + string(c.Rail), Every: c.FeeEvery, Run: func(ctx context.Context) error {
		return c.RefreshFees(ctx, d)
	}}}
}

// RefreshFees stores the node's current fee rate, at least 1.
func (c *Carrier) RefreshFees(ctx context.Context, d *db.DB) error {
	rate, err := c.Source.FeeRate(ctx)
	if err != nil {
		return fmt.Errorf("fee rate of %s: %w", c.Chain, err)
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return SetFeeRate(ctx, tx, c.Chain, rate)
	})
}

// Wait records that a company's queue waits and schedules its retry.
func (c *Carrier) Wait(ctx context.Context, tx *db.Tx, q payout.Queue, delay payout.Delay) error {
	return q.Wait(ctx, tx, c.Log, c.Retry, delay)
}

// A nudge checks a batch that is not confirmed yet: it broadcasts again, or raises the fee.
func (c *Carrier) nudgeKind() string { return "payout.nudge." + string(c.Rail) }

type nudgeJob struct {
	BatchID string `json:"batch_id"`
}

func (c *Carrier) enqueueNudge(tx *db.Tx, b Batch) {
	job.Enqueue(tx, job.New{
		CompanyID: b.CompanyID, Kind: c.nudgeKind(), Payload: nudgeJob{b.ID}, RunAt: tx.Now().Add(c.NudgeEvery),
	})
}

// Store writes a new batch with its first signed transaction, its journal and the watch on it, and enqueues the next check. The
// caller assigns outputs to the batch and enqueues its sending in the same transaction. outs are the outputs that it pays.
func (c *Carrier) Store(ctx context.Context, tx *db.Tx, b Batch, t Transaction, outs []payout.Output) error {
	if err := insertBatch(ctx, tx, b); err != nil {
		return err
	}
	if err := insertTransaction(ctx, tx, t); err != nil {
		return err
	}
	lines := make([]ledger.Line, 0, len(outs)+3)
	for _, o := range outs {
		lines = append(lines, ledger.Debit(ledger.OutputPayable, o.ID, o.Amount))
	}
	lines = append(lines, ledger.Debit(ledger.NetworkFee, Source, c.native(b.Fee)))
	lines = append(lines, c.transit(ledger.Credit, b, b.Fee)...)
	if err := post(tx, b, "send", lines); err != nil {
		return err
	}
	if err := c.family.Watch(ctx, tx, b, t.TxID); err != nil {
		return err
	}
	c.enqueueNudge(tx, b)
	return nil
}

// native returns an amount of the asset that fees are paid in.
func (c *Carrier) native(units int64) money.Amount { return money.New(c.Native, units) }

// sums returns a batch's value and a fee: one amount where both are of one asset.
func (c *Carrier) sums(b Batch, fee int64) []money.Amount {
	if b.Asset == c.Native {
		return []money.Amount{c.native(b.spends() + fee)}
	}
	return []money.Amount{money.New(b.Asset, b.spends()), c.native(fee)}
}

type side func(ledger.Code, string, money.Amount) ledger.Line

// transit returns the lines of what a batch has in transit.
func (c *Carrier) transit(as side, b Batch, fee int64) (lines []ledger.Line) {
	for _, a := range c.sums(b, fee) {
		lines = append(lines, as(ledger.InTransit, b.ID, a))
	}
	return lines
}

// wallet returns the lines of what a batch takes out of the wallet.
func (c *Carrier) wallet(as side, b Batch, fee int64) (lines []ledger.Line) {
	for _, a := range c.sums(b, fee) {
		code, dim := ledger.WalletOf(a.Asset(), b.Chain)
		lines = append(lines, as(code, dim, a))
	}
	return lines
}

// Source is the source type of a batch's journals.
const Source = "payout"

// post writes a journal of a batch. Each change of the batch has its own version, which makes the purpose unique.
func post(tx *db.Tx, b Batch, what string, lines []ledger.Line) error {
	return ledger.Post(tx, ledger.Journal{
		CompanyID: b.CompanyID, SourceType: Source, SourceID: b.ID, Purpose: fmt.Sprintf("%s.%d", what, b.Version), Lines: lines,
	})
}

// byCompany groups what jobs name by company.
func byCompany[T any](jobs []job.Job, pick func(T) (string, bool)) (companies []string, of map[string][]string, err error) {
	of = map[string][]string{}
	for _, j := range jobs {
		var in T
		if err := j.Decode(&in); err != nil {
			return nil, nil, err
		}
		if id, ok := pick(in); ok {
			of[j.CompanyID] = append(of[j.CompanyID], id)
		}
	}
	return slices.Sorted(maps.Keys(of)), of, nil
}

// Purpose is what a transaction is for.
type Purpose string

// Purposes.
const (
	PurposePayout Purpose = "payout" // pays outputs
	PurposeSweep  Purpose = "sweep"  // moves a deposit to the paying account
	PurposeGas    Purpose = "gas"    // sends what a sweep will cost to the address of the deposit
)

// States of a batch beside those of outputs.
const (
	Dead payout.State = "dead" // its inputs were spent by another transaction, for certain
	Lost payout.State = "lost" // confirmed after it was dead; its outputs may be paid twice
)

// Batch is one set of inputs with every transaction that was signed to spend them.
type Batch struct {
	CompanyID string
	ID        string
	Chain     string
	State     payout.State
	TxID      string // the newest transaction, or the confirmed one
	Value     int64  // sum of the outputs, or what a sweep moves
	Fee       int64  // fee booked so far (account 5000), in units of the chain's native asset
	Asset     money.Asset
	Purpose   Purpose
	Inputs    []chain.WalletCoin
	Account   string // on a chain of accounts: whose nonce it takes
	Nonce     uint64
	Change    string // address of the change, or to which a sweep moves coins; "" for none
	Version   int64
	CreatedAt time.Time
	SentAt    time.Time // zero before the first acceptance

	Signed []Transaction              // every transaction signed for it, cheapest first
	Seen   map[string]chain.WatchedTx // what the chain shows of them, by txid
	Outs   []payout.Output            // by position
}

// NewBatch returns a batch of the carrier's chain that is not stored yet.
func (c *Carrier) NewBatch(tx *db.Tx, companyID string, asset money.Asset, value, fee int64, purpose Purpose) Batch {
	return Batch{
		CompanyID: companyID, ID: tx.NewID("pob"), Chain: c.Chain, State: payout.Prepared,
		Value: value, Fee: fee, Asset: asset, Purpose: purpose, Version: 1,
	}
}

// open reports whether the batch may still be confirmed for the first time.
func (b Batch) open() bool {
	return b.State == payout.Prepared || b.State == payout.Sent || b.State == payout.InDoubt
}

// check returns an error for a state that this version does not know.
func (b Batch) check() error {
	if b.State == Dead || b.State == Lost {
		return nil
	}
	return b.State.Check("batch " + b.ID)
}

// spends returns what the batch takes out of the operator's wallet beside its fee; a sweep takes nothing.
func (b Batch) spends() int64 {
	if b.Purpose == PurposePayout {
		return b.Value
	}
	return 0
}

// newest returns the transaction that is the batch's current one.
func (b Batch) newest() (Transaction, bool) {
	i := slices.IndexFunc(b.Signed, func(t Transaction) bool { return t.TxID == b.TxID })
	if i < 0 {
		return Transaction{}, false
	}
	return b.Signed[i], true
}

// ChangeReservation is the holder of the reservation of the change of a replaced transaction, which never comes into being. The
// batch's own ID holds its inputs.
func (b Batch) ChangeReservation() string { return b.ID + ".change" }

// Transaction is one signed transaction of a batch.
type Transaction struct {
	CompanyID string
	TxID      string
	BatchID   string
	Replaces  string       // txid of the transaction that it was signed to replace
	State     payout.State // prepared, sent or in_doubt
	Raw       []byte
	Fee       int64
	Size      int64 // virtual bytes, or the gas limit
	Package   int64 // Size with the unconfirmed ancestors at signing
	Ancestors int64 // how many those are, itself included
	Attempts  int64 // broadcasts in a row that were not accepted
	CreatedAt time.Time
}
