package evm

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/onchain"
)

const (
	// SettleTime is the time for which an authorization must still be valid when its transfer is sent.
	SettleTime = 10 * time.Second

	// collectRetry is the interval between attempts to send a transfer that the node or the hot wallet cannot send yet.
	collectRetry = 2 * time.Second
	// maxCollectShare is the largest network fee, in basis points of the amount, with which a transfer is sent.
	maxCollectShare = 1000
)

// Reasons for which a collection failed.
const (
	CollectFunds    = "insufficient_funds"   // the payer's balance is too low
	CollectRefused  = "refused"              // the token refuses the transfer, or the payer is on a sanctions list
	CollectFee      = "network_fee_too_high" // the network fee is too high for the amount
	CollectExpired  = "expired"              // the authorization ended before the transfer could be sent
	CollectNotDue   = "not_due"              // the object no longer requires this payment
	CollectReverted = "reverted"             // the transfer failed in its block, or can never be in a block
)

// Collection is a transfer of a token to one of the operator's addresses that its payer has authorized (EIP-3009).
// The hot wallet sends the transfer and pays the gas. The money arrives as a deposit at the address.
type Collection struct {
	ID, CompanyID, ObjectID string
	Chain                   string
	evm.Authorization
	SendBefore time.Time // the transfer is not sent after this time, at which the price that it pays ends
	BatchID    string    // batch of package onchain, or "" before the transfer is signed
	Reason     string    // why no transfer was sent; "" if it was or may still be sent
	Version    int64
}

// Collected is the state of a collection.
type Collected struct {
	Done   bool   // the transfer is in a block
	Reason string // why the transfer failed; "" if it did not
	TxID   string // "" before the transfer is signed
}

// Open reports whether the transfer may still succeed.
func (c Collected) Open() bool { return !c.Done && c.Reason == "" }

// Collect stores an authorized transfer for an object of a company, and enqueues the job that sends it. A repeated
// call for the same authorization has no effect. The caller has verified the authorization and locked the object.
func Collect(ctx context.Context, tx *db.Tx, n evm.Network, companyID, objectID string, a evm.Authorization,
	before time.Time,
) error {
	c := Collection{
		ID: tx.NewID("col"), CompanyID: companyID, ObjectID: objectID, Chain: n.Name, Authorization: a, SendBefore: before,
		Version: 1,
	}
	if err := insertCollection(ctx, tx, c); err != nil {
		return err
	}
	db.History(tx, companyID, c.ID, 1, "", "authorized", "")
	enqueueCollect(tx, c, time.Time{})
	return nil
}

// State returns the current state of the collection.
func (c Collection) State(ctx context.Context, tx *db.Tx) (Collected, error) {
	if c.BatchID == "" {
		return Collected{Reason: c.Reason}, nil
	}
	o, err := onchain.OutcomeOf(ctx, tx, c.Chain, ledger.Operator, c.BatchID)
	s := Collected{Done: o.Mined, TxID: o.TxID}
	if o.Over {
		s.Reason = CollectReverted
	}
	return s, err
}

type collectJob struct {
	CollectionID string `json:"collection_id"`
}

func collectKind(chainName string) string { return "payout.collect." + chainName }

func enqueueCollect(tx *db.Tx, c Collection, at time.Time) {
	job.Enqueue(tx, job.New{CompanyID: c.CompanyID, Kind: collectKind(c.Chain), Payload: collectJob{c.ID}, RunAt: at})
}

// Jobs implements payout.Rail.
func (r *Rail) Jobs() job.Table {
	table := r.Carrier.Jobs()
	table[collectKind(r.Chain)] = job.Entry{Net: r.collect, Limit: 8}
	return table
}

// collect sends the transfer of a collection. It asks the node whether the transfer would succeed, then signs and
// stores the transaction with the next nonce of the hot wallet in one database transaction. A collection gets only
// one batch: if its state has changed meanwhile, nothing is stored.
func (r *Rail) collect(ctx context.Context, d *db.DB, j job.Job) error {
	var in collectJob
	if err := j.Decode(&in); err != nil {
		return err
	}
	var c Collection
	var now time.Time
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		now = tx.Now()
		c, err = getCollection(ctx, tx, j.CompanyID, in.CollectionID)
		return err
	}); err != nil || c.BatchID != "" || c.Reason != "" {
		return err
	}
	if now.Add(SettleTime).Unix() >= c.ValidBefore || !now.Before(c.SendBefore) {
		return r.endCollection(ctx, d, c, CollectExpired)
	}
	call, err := r.network.AuthorizedCall(c.Authorization)
	if err != nil {
		return err
	}
	state, estimate, held, err := r.quoteCollection(ctx, c, call)
	switch {
	case err != nil:
		r.Log.WarnContext(ctx, "the node does not answer; an authorized payment waits", "collection_id", c.ID, "error", err)
		return r.retryCollection(ctx, d, c)
	case held < c.Amount.Units():
		return r.endCollection(ctx, d, c, CollectFunds)
	case estimate.Verdict == evm.WillFail:
		return r.endCollection(ctx, d, c, CollectRefused)
	case estimate.Verdict != evm.WillSucceed:
		return r.retryCollection(ctx, d, c)
	}
	if ok, err := r.PermitsFee(ctx, maxCost(estimate, maxPrice(state))); err != nil || !ok {
		if err != nil {
			r.Log.ErrorContext(ctx, "the signer does not answer; an authorized payment waits", "collection_id", c.ID,
				"error", err)
		}
		return r.retryCollection(ctx, d, c)
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return r.sendCollection(ctx, tx, c, call, estimate, state)
	})
}

// quoteCollection returns the state of the hot wallet, the estimate of a transfer and the payer's balance.
func (r *Rail) quoteCollection(ctx context.Context, c Collection, call evm.Call) (
	s evm.State, e evm.Estimate, held int64, err error,
) {
	payer, err := r.node.State(ctx, c.From.String())
	if err != nil {
		return s, e, 0, err
	}
	if s, err = r.node.State(ctx, r.hot); err != nil {
		return s, e, 0, err
	}
	estimates, err := r.node.Estimate(ctx, r.hot, []evm.Call{call})
	if err != nil {
		return s, e, 0, err
	}
	return s, estimates[0], payer.Balances[c.Amount.Asset()], nil
}

// sendCollection signs and stores the transfer, unless it has to wait.
func (r *Rail) sendCollection(ctx context.Context, tx *db.Tx, c Collection, call evm.Call, e evm.Estimate, s evm.State,
) error {
	due, err := r.due(ctx, tx, c) // locks the object, always before the hot wallet
	if err != nil {
		return err
	}
	switch {
	case !tx.Now().Before(c.SendBefore): // the node may have answered slowly
		return failCollection(ctx, tx, c, CollectExpired)
	case !due:
		return failCollection(ctx, tx, c, CollectNotDue)
	}
	p, why, err := r.lockHotWallet(ctx, tx, s)
	if err != nil {
		return err
	}
	if why != "" || p.stopped[c.Amount.Asset()] {
		enqueueCollect(tx, c, tx.Now().Add(collectRetry))
		return nil
	}
	blocked, err := r.screen(ctx, tx, c.CompanyID, c.ID, c.From.String())
	if err != nil {
		return err
	}
	if blocked {
		return failCollection(ctx, tx, c, CollectRefused)
	}
	ok, err := r.within(ctx, tx, expectedCost(e, p.price), c.Amount, maxCollectShare, 0)
	if err != nil {
		return err
	}
	if !ok {
		return failCollection(ctx, tx, c, CollectFee)
	}
	fee := maxCost(e, p.price)
	if p.available[r.network.Native] < fee {
		r.Log.ErrorContext(ctx, "the hot wallet cannot pay the gas of an authorized payment; fund it", "account", r.hot,
			"required", r.native(fee).String())
		enqueueCollect(tx, c, tx.Now().Add(collectRetry))
		return nil
	}
	b := r.NewBatch(tx, ledger.Operator, r.network.Native, 0, fee, onchain.PurposeCollect)
	b.Account, b.Nonce, b.Change = r.hot, p.take(), c.To.String()
	if err := setCollectionBatch(ctx, tx, c, b.ID); err != nil { // first, so that this fails if another job has sent it
		return err
	}
	db.History(tx, c.CompanyID, c.ID, c.Version+1, "authorized", "signed", "")
	signer := chain.WalletCoin{Address: r.hot, Branch: chain.Change}
	id, err := r.sign(ctx, tx, &b, call, gasLimit(e.Gas), p, signer, nil)
	if err != nil {
		return err
	}
	payout.EnqueueSend(tx, b.CompanyID, r.Name(), tx.Now(), id)
	return p.save(ctx, tx)
}

func (r *Rail) retryCollection(ctx context.Context, d *db.DB, c Collection) error {
	return d.Write(ctx, func(_ context.Context, tx *db.Tx) error {
		enqueueCollect(tx, c, tx.Now().Add(collectRetry))
		return nil
	})
}

func (r *Rail) endCollection(ctx context.Context, d *db.DB, c Collection, reason string) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return failCollection(ctx, tx, c, reason) })
}

func failCollection(ctx context.Context, tx *db.Tx, c Collection, reason string) error {
	err := setCollectionReason(ctx, tx, c, reason)
	if errors.Is(err, db.ErrConflict) {
		return nil // another run of the job was first
	}
	db.History(tx, c.CompanyID, c.ID, c.Version+1, "authorized", "failed", reason)
	return err
}
