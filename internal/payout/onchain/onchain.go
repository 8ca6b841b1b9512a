// Package onchain stores, broadcasts and follows signed blockchain transactions for rails, until they are confirmed
// or proven never to be confirmed. It replaces slow transactions by transactions with a higher fee. Packages
// payout/bitcoin and payout/evm choose and sign the transactions; a [Family] has the remaining differences between
// them.
//
// A [Batch] is one set of inputs (coins, or the nonce of an account) that pays outputs of one company, with every
// transaction ever signed for it. It has the states of outputs and two more:
//
//	prepared → sent → fulfilled
//	   └─→ in_doubt ↑     └→ sent again when its block left the chain
//	prepared, sent, in_doubt → dead   another transaction finally spent its inputs, or the signer refused its first
//	                                  transaction; its outputs are queued again
//	dead → lost                       it was confirmed after all; payouts are paused
//
// Invariants:
//
//   - The signed bytes, the txid, the journal and the outputs' state are committed before the first broadcast.
//   - No transaction with other inputs is signed for an output that may already be paid. A replacement spends the
//     same inputs and pays the same recipients at the same positions. All transactions of a batch remain watched,
//     because any one of them, and only one, can be confirmed.
//   - The outcome of a batch remains unknown (state in_doubt) until one of its transactions is found, or another
//     transaction that spends its inputs is deep enough in the chain. Only then are its outputs queued again.
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
	"github.com/stipend/stipend/internal/signer"
)

// Config has the dependencies and limits of a Carrier. All fields except Witnesses and Signer are
// required.
type Config struct {
	Rail      payout.RailName
	Chain     string          // name of the network in package chain
	Native    money.Asset     // asset in which fees are paid
	Source    chain.Source    // node to broadcast through
	Witnesses []chain.Witness // further nodes, asked about transactions that Source does not know
	Signer    *signer.Client  // signs in another process; nil if the rail has the keys
	Log       *slog.Logger

	Confirmations int64         // confirmations of a fulfilled payout; a reorganization reverts it
	ConflictDepth int64         // confirmations of a conflicting transaction that make a payout's failure final
	MaxFeeRate    int64         // fee rate above which no payout is prepared and no fee is raised
	FeeMaxAge     time.Duration // maximum age of a fee rate
	BumpAfter     time.Duration // age of an unconfirmed transaction when its fee is raised
	NudgeEvery    time.Duration // interval between checks of an unconfirmed batch
	Retry         time.Duration // interval between checks of a waiting queue
	FeeEvery      time.Duration // interval between updates of the fee rate
}

// check returns an error if a required field is missing.
func (c Config) check() error {
	switch {
	case c.Rail == "" || c.Chain == "" || c.Native == "":
		return errors.New("onchain: the rail, the chain or its native asset is missing")
	case c.Source == nil:
		return errors.New("onchain: no node is configured for " + c.Chain)
	case c.Log == nil:
		return errors.New("onchain: the logger is missing")
	case min(c.Confirmations, c.ConflictDepth, c.MaxFeeRate) <= 0,
		min(c.FeeMaxAge, c.BumpAfter, c.NudgeEvery, c.Retry, c.FeeEvery) <= 0:
		return errors.New("onchain: a limit of " + c.Chain + " is missing")
	}
	return nil
}

// Family has the operations that differ between kinds of chains.
type Family interface {
	// Watch makes package chain follow a transaction of the batch.
	Watch(ctx context.Context, tx *db.Tx, b Batch, txid string) error
	// Replace signs a transaction that replaces old at the given fee rate. It returns ErrFeeTooHigh, ErrUnaffordable or
	// ErrChangeSpent if that is not possible. It stores only reservations.
	Replace(ctx context.Context, tx *db.Tx, b Batch, old Transaction, rate int64) (Transaction, error)
	// Underpays reports whether a transaction pays less than the fee rate and should be replaced.
	Underpays(b Batch, t Transaction, rate int64) bool
	// Cost returns the fee of a transaction in a block.
	Cost(t Transaction, seen chain.WatchedTx) int64
	// Free frees the inputs of a batch other than coins. It is called for a batch that has no signature, because the
	// signer refused its first transaction.
	Free(ctx context.Context, tx *db.Tx, b Batch) error
	// Sign requests the signature of a stored transaction from the signer, and verifies the signature. It makes network
	// calls, so it runs outside of database transactions.
	Sign(ctx context.Context, d *db.DB, b Batch, t Transaction, approvals []signer.Approval) (raw []byte, txid string,
		err error)
}

// Carrier stores, broadcasts and follows the transactions of one chain. Rails embed it.
type Carrier struct {
	Config
	family Family
	nodes  Nodes
}

// New returns a carrier for a family.
func New(c Config, f Family) (*Carrier, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if f == nil {
		return nil, errors.New("onchain: the family is missing")
	}
	return &Carrier{Config: c, family: f, nodes: Nodes{Source: c.Source, Witnesses: c.Witnesses}}, nil
}

// Name implements payout.Rail.
func (c *Carrier) Name() payout.RailName { return c.Rail }

// Jobs implements payout.Rail.
func (c *Carrier) Jobs() job.Table {
	return job.Table{
		c.nudgeKind():         {Batch: c.nudge},
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

// RefreshFees stores the node's current fee rate.
func (c *Carrier) RefreshFees(ctx context.Context, d *db.DB) error {
	rate, err := c.Source.FeeRate(ctx)
	if err != nil {
		return fmt.Errorf("fee rate of %s: %w", c.Chain, err)
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return SetFeeRate(ctx, tx, c.Chain, rate) })
}

// Wait records that a company's queue waits and schedules its retry.
func (c *Carrier) Wait(ctx context.Context, tx *db.Tx, q payout.Queue, delay payout.Delay) error {
	return q.Wait(ctx, tx, c.Log, c.Retry, delay)
}

// nudgeKind returns the kind of the job that checks an unconfirmed batch, broadcasts it again and raises its fee.
func (c *Carrier) nudgeKind() string { return "payout.nudge." + string(c.Rail) }

type nudgeJob struct {
	BatchID string `json:"batch_id"`
}

func (c *Carrier) enqueueNudge(tx *db.Tx, b Batch) {
	job.Enqueue(tx, job.New{
		CompanyID: b.CompanyID, Kind: c.nudgeKind(), Payload: nudgeJob{b.ID}, RunAt: tx.Now().Add(c.NudgeEvery),
	})
}

// Store stores a new batch with its first transaction and its journal, watches the transaction if it is signed, and
// enqueues the next check. outs are the outputs that the batch pays. The caller assigns them and enqueues Send in the
// same transaction.
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
	c.enqueueNudge(tx, b)
	if c.Signer != nil {
		ids := make([]string, len(outs))
		for i, o := range outs {
			ids[i] = o.ID
		}
		if err := release(ctx, tx, b.CompanyID, ids); err != nil {
			return err
		}
	}
	if t.Unsigned {
		return nil // watched once it is signed
	}
	return c.family.Watch(ctx, tx, b, t.TxID)
}

// native returns an amount of the native asset.
func (c *Carrier) native(units int64) money.Amount { return money.New(c.Native, units) }

// sums returns the batch's value and a fee, as one amount if both have the same asset.
func (c *Carrier) sums(b Batch, fee int64) []money.Amount {
	if b.Asset == c.Native {
		return []money.Amount{c.native(b.spends() + fee)}
	}
	return []money.Amount{money.New(b.Asset, b.spends()), c.native(fee)}
}

type side func(ledger.Code, string, money.Amount) ledger.Line

// transit returns journal lines for the amounts of a batch on the account for payments in transit.
func (c *Carrier) transit(as side, b Batch, fee int64) (lines []ledger.Line) {
	for _, a := range c.sums(b, fee) {
		lines = append(lines, as(ledger.InTransit, b.ID, a))
	}
	return lines
}

// wallet returns journal lines for the amounts that a batch takes from the wallet.
func (c *Carrier) wallet(as side, b Batch, fee int64) (lines []ledger.Line) {
	for _, a := range c.sums(b, fee) {
		code, dim := ledger.WalletOf(a.Asset(), b.Chain)
		lines = append(lines, as(code, dim, a))
	}
	return lines
}

// Source is the source type of a batch's journals.
const Source = "payout"

// post posts a journal of a batch. The batch's version makes the journal's purpose unique.
func post(tx *db.Tx, b Batch, what string, lines []ledger.Line) error {
	return ledger.Post(tx, ledger.Journal{
		CompanyID: b.CompanyID, SourceType: Source, SourceID: b.ID, Purpose: fmt.Sprintf("%s.%d", what, b.Version),
		Lines: lines,
	})
}

// byCompany decodes the payloads of jobs and groups the IDs that pick returns for them by company.
func byCompany[T any](jobs []job.Job, pick func(T) (string, bool)) (companies []string, of map[string][]string,
	err error,
) {
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

// Purpose is the purpose of a batch.
type Purpose string

// Purposes.
const (
	PurposePayout Purpose = "payout" // pays outputs
	PurposeSweep  Purpose = "sweep"  // moves a deposit to the hot wallet
	PurposeGas    Purpose = "gas"    // sends the gas of a sweep to the deposit's address
	// PurposeCollect transfers money that a payer has authorized to one of the operator's addresses. The batch has the
	// value 0, because the hot wallet pays only the fee; the money arrives as a deposit.
	PurposeCollect Purpose = "collect"
	PurposeFill    Purpose = "fill" // uses a nonce that would block later nonces; pays only its fee
)

// States of a batch in addition to the states of outputs.
const (
	dead payout.State = "dead" // another transaction finally spent its inputs, or the batch was never signed
	lost payout.State = "lost" // confirmed after it was dead; its outputs may have been paid twice
)

// Batch is one set of inputs with every transaction signed to spend them.
type Batch struct {
	CompanyID string
	ID        string
	Chain     string
	State     payout.State
	TxID      string // newest signed transaction, or the confirmed transaction; "" before the first is signed
	Value     int64  // sum of the outputs, or the amount of a sweep
	Fee       int64  // fee posted so far (account 5000), in units of the native asset
	Asset     money.Asset
	Purpose   Purpose
	Inputs    []chain.WalletCoin
	Account   string // EVM: account whose nonce the batch uses; "" if its nonce was freed
	Nonce     uint64
	Change    string // address of the change or target of a sweep, or ""
	Version   int64
	CreatedAt time.Time
	SentAt    time.Time // zero until the network accepts a transaction of the batch

	Signed []Transaction              // by fee, lowest first; at most one is still unsigned
	Seen   map[string]chain.WatchedTx // state of its transactions on the chain, by txid
	Outs   []payout.Output            // by position
}

// NewBatch returns a new batch of the carrier's chain, without storing it.
func (c *Carrier) NewBatch(tx *db.Tx, companyID string, asset money.Asset, value, fee int64, purpose Purpose) Batch {
	return Batch{
		CompanyID: companyID, ID: tx.NewID("pob"), Chain: c.Chain, State: payout.Prepared,
		Value: value, Fee: fee, Asset: asset, Purpose: purpose, Version: 1,
	}
}

// open reports whether the batch is not confirmed yet but can still be.
func (b Batch) open() bool {
	return b.State == payout.Prepared || b.State == payout.Sent || b.State == payout.UnknownOutcome
}

// check returns an error if this version of the program does not know the state.
func (b Batch) check() error {
	if b.State == dead || b.State == lost {
		return nil
	}
	return b.State.Check("batch " + b.ID)
}

// spends returns the amount that the batch takes from the operator's wallets in addition to its fee; only a payout
// takes any.
func (b Batch) spends() int64 {
	if b.Purpose == PurposePayout {
		return b.Value
	}
	return 0
}

// newest returns the current transaction of the batch.
func (b Batch) newest() (Transaction, bool) {
	i := slices.IndexFunc(b.Signed, func(t Transaction) bool { return t.TxID == b.TxID })
	if i < 0 {
		return Transaction{}, false
	}
	return b.Signed[i], true
}

// ChangeReservation returns the ID under which the change of replaced transactions is reserved, because that change
// no longer exists. The batch's own ID reserves its inputs.
func (b Batch) ChangeReservation() string { return b.ID + ".change" }

// Transaction is one transaction of a batch.
type Transaction struct {
	CompanyID string
	TxID      string // before the signature on EVM networks: the hash to be signed
	Unsigned  bool   // the signer in another process has not signed it yet
	BatchID   string
	Replaces  string       // txid of the replaced transaction, or ""
	State     payout.State // prepared, sent or in_doubt
	Raw       []byte
	Fee       int64
	Size      int64 // virtual bytes, or gas limit
	Package   int64 // Size plus the size of its unconfirmed ancestors when it was signed
	Ancestors int64 // number of unconfirmed transactions it depends on, including itself
	Attempts  int64 // consecutive broadcasts that were not accepted
	CreatedAt time.Time
}
