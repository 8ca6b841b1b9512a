package payout

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/rail/onchain"
)

// Prepare looks at a company's queue and turns its head into one signed, stored transaction. All of it is one
// database transaction: when it commits, the batch exists and is only to be broadcast; when it does not,
// nothing was chosen.
func (e *Engine) Prepare(ctx context.Context, tx *db.Tx, j job.Job) error {
	companyID := j.CompanyID
	q, waiting, err := lockHead(ctx, tx, e.c.Chain, companyID, e.c.MaxOutputs)
	if err != nil || len(waiting) == 0 {
		return err
	}
	switch why, err := MayLeave(ctx, tx, e.c.Log); {
	case err != nil:
		return err
	case why != "":
		return e.hold(ctx, tx, q, heldPaused, 0)
	}
	rate, fresh, err := feeRate(ctx, tx, e.c.Chain, e.c.FeeMaxAge)
	switch {
	case err != nil:
		return err
	case !fresh:
		return e.hold(ctx, tx, q, heldNoFee, rate)
	case rate > e.c.MaxFeeRate:
		return e.hold(ctx, tx, q, heldFee, rate)
	}

	outs, recipients, err := e.payable(ctx, tx, waiting)
	if err != nil {
		return err
	}
	if len(outs) == 0 {
		// Everything looked at was refused; the next ones may be fine.
		lookAt(tx, companyID, tx.Now())
		return nil
	}
	wallet, coins, err := e.coins(ctx, tx)
	if err != nil {
		return err
	}
	plan := onchain.Compose(recipients, coins, rate)
	if plan.Paid == 0 {
		return e.hold(ctx, tx, q, heldFunds, rate)
	}
	if !e.reasonable(plan.Fee, plan.Value) {
		return e.hold(ctx, tx, q, heldFee, rate)
	}
	if err := flowing(ctx, tx, q); err != nil {
		return err
	}
	if plan.Paid < len(outs) || len(waiting) == e.c.MaxOutputs {
		lookAt(tx, companyID, tx.Now())
	}
	b, err := e.sign(ctx, tx, companyID, outs[:plan.Paid], recipients, wallet, coins, plan)
	if err != nil {
		return err
	}
	return Assign(ctx, tx, outs[:plan.Paid], b.ID, b.TxID, 0)
}

// worthItsOwn is how many outputs are enough for a transaction of their own. Fewer wait in the queue for Prepare, which pays
// those of several payrolls together.
const worthItsOwn = 50

// Released is a release of payrolls that pays what it adds in its own transaction, where nothing stands against it: there are
// enough of them, no older payout waits, nothing is paused or held, the fee is known and fair, every address is good and the
// wallet has the coins. Then each output is written once and begins as prepared. Whatever is left is the queue's.
func (e *Engine) Released(release job.TxHandler) job.TxHandler {
	return func(ctx context.Context, tx *db.Tx, j job.Job) error {
		if err := release(ctx, tx, j); err != nil {
			return err
		}
		return e.payAdded(ctx, tx, j.CompanyID)
	}
}

func (e *Engine) payAdded(ctx context.Context, tx *db.Tx, companyID string) error {
	waiting := added(tx, companyID)
	if len(waiting) < worthItsOwn {
		return nil
	}
	q, older, err := lockHead(ctx, tx, e.c.Chain, companyID, 1)
	if err != nil || len(older) > 0 || q.held != "" {
		return err
	}
	if why, err := MayLeave(ctx, tx, e.c.Log); err != nil || why != "" {
		return err
	}
	rate, fresh, err := feeRate(ctx, tx, e.c.Chain, e.c.FeeMaxAge)
	if err != nil || !fresh || rate > e.c.MaxFeeRate {
		return err
	}
	for some := range slices.Chunk(waiting, e.c.MaxOutputs) {
		outs, recipients := make([]Output, len(some)), make([]onchain.Recipient, len(some))
		for i, o := range some {
			script, reason := e.script(*o)
			if reason != "" {
				return nil
			}
			outs[i], recipients[i] = *o, onchain.Recipient{Script: script, Amount: o.Amount.Units()}
		}
		wallet, coins, err := e.coins(ctx, tx)
		if err != nil {
			return err
		}
		plan := onchain.Compose(recipients, coins, rate)
		if plan.Paid < len(outs) || !e.reasonable(plan.Fee, plan.Value) {
			return nil
		}
		b, err := e.sign(ctx, tx, companyID, outs, recipients, wallet, coins, plan)
		if err != nil {
			return err
		}
		place(some, b.ID, b.TxID)
		ids := make(map[string]bool, len(some))
		for _, o := range some {
			ids[o.ID] = true
		}
		if err := ledger.Pass(tx, companyID, ledger.OutputPayable, ids); err != nil {
			return err
		}
	}
	return nil
}

// added is the outputs of a company that this transaction has added and not yet written, that the network can be paid with,
// in the order of the queue.
func added(tx *db.Tx, companyID string) []*Output {
	var outs []*Output
	for _, item := range tx.Deferred(outputRows) {
		if o := item.(*Output); o.CompanyID == companyID && o.Rail == RailBitcoin && o.State == Queued {
			outs = append(outs, o)
		}
	}
	slices.SortFunc(outs, func(a, b *Output) int {
		return cmp.Or(a.QueuedAt.Compare(b.QueuedAt), strings.Compare(a.ID, b.ID))
	})
	return outs
}

// place puts added outputs into a batch before they are written, each at its position.
func place(outs []*Output, batchID, txid string) {
	for i, o := range outs {
		o.State, o.BatchID, o.TxID, o.Vout = Prepared, batchID, txid, uint32(i)
	}
}

// script is what an output is paid to, or the reason why no transaction can ever pay it.
func (e *Engine) script(o Output) (script []byte, reason string) {
	script, err := bitcoin.AddressScript(o.Address, e.c.Source.Network())
	switch {
	case err != nil:
		return nil, ReasonBadAddress
	case o.Amount.Units() < onchain.Dust(script):
		return nil, ReasonDust
	}
	return script, ""
}

// payable sorts out the outputs that no transaction can ever pay: they fail, the others go on.
func (e *Engine) payable(ctx context.Context, tx *db.Tx, waiting []Output) ([]Output, []onchain.Recipient, error) {
	outs := make([]Output, 0, len(waiting))
	recipients := make([]onchain.Recipient, 0, len(waiting))
	var refused []Output
	for _, o := range waiting {
		script, reason := e.script(o)
		if reason == "" {
			outs = append(outs, o)
			recipients = append(recipients, onchain.Recipient{Script: script, Amount: o.Amount.Units()})
			continue
		}
		if err := moveOne(ctx, tx, o, Queued, Failed, reason); err != nil {
			return nil, nil, err
		}
		refused = append(refused, o)
	}
	changed(tx, refused)
	return outs, recipients, nil
}

// coins are the wallet's, with the weight of what is unconfirmed below them.
func (e *Engine) coins(ctx context.Context, tx *db.Tx) ([]chain.WalletCoin, []onchain.Coin, error) {
	wallet, err := chain.Coins(ctx, tx, e.c.Chain)
	if err != nil {
		return nil, nil, err
	}
	coins := make([]onchain.Coin, len(wallet))
	for i, c := range wallet {
		coins[i] = onchain.Coin{Outpoint: c.Outpoint, Amount: c.Amount, Ancestors: c.Unconfirmed}
		if c.Unconfirmed == 0 {
			continue
		}
		// Change belongs to the company whose payouts made it. What cannot be found is too heavy to build
		// on, and waits for its block.
		parent, err := chain.GetOutput(ctx, tx, e.c.Chain, c.Outpoint)
		if err == nil {
			coins[i].Ancestors, coins[i].Package, err = weight(ctx, tx, parent.CompanyID, c)
		}
		switch {
		case errors.Is(err, db.ErrNoRows), errors.Is(err, chain.ErrUnknown):
			coins[i].Package = onchain.TooHeavy
		case err != nil:
			return nil, nil, err
		}
	}
	return wallet, coins, nil
}

// reasonable says whether a fee is worth paying for a value.
func (e *Engine) reasonable(fee, value int64) bool {
	return fee <= e.c.SmallFee || fee <= value/10_000*e.c.MaxFeeShare+value%10_000*e.c.MaxFeeShare/10_000
}

// sign reserves the coins of one batch, signs, stores and books it. The caller puts the outputs into it.
func (e *Engine) sign(ctx context.Context, tx *db.Tx, companyID string, outs []Output, recipients []onchain.Recipient,
	wallet []chain.WalletCoin, coins []onchain.Coin, plan onchain.Plan,
) (Batch, error) {
	b := Batch{CompanyID: companyID, ID: tx.NewID("pob"), Chain: e.c.Chain, State: Prepared, Value: plan.Value, Fee: plan.Fee, Version: 1}
	var change []byte
	if plan.Change > 0 {
		var err error
		if b.change, err = e.c.Pool.TakeChange(ctx, tx, companyID, b.ID); err != nil {
			return b, err
		}
		if change, err = bitcoin.AddressScript(b.change, e.c.Source.Network()); err != nil {
			return b, err
		}
	}
	points := make([]chain.Outpoint, len(plan.Inputs))
	for i, n := range plan.Inputs {
		b.inputs = append(b.inputs, wallet[n])
		points[i] = wallet[n].Outpoint
	}
	if err := chain.Reserve(ctx, tx, e.c.Chain, points, b.ID); err != nil {
		return b, err
	}
	unsigned, err := onchain.Build(plan, recipients, coins, change)
	if err != nil {
		return b, err
	}
	raw, txid, err := e.c.Signer.Sign(unsigned, b.inputs)
	if err != nil {
		return b, err
	}
	b.TxID = txid
	if err := insertBatch(ctx, tx, b); err != nil {
		return b, err
	}
	t := Transaction{CompanyID: companyID, TxID: txid, BatchID: b.ID, Raw: raw, Fee: plan.Fee, VSize: plan.VSize,
		pack: plan.Package, ancestors: plan.Ancestors + 1}
	if err := insertTransaction(ctx, tx, t); err != nil {
		return b, err
	}
	if err := ledger.Post(tx, sending(b, outs)); err != nil {
		return b, err
	}
	if err := chain.WatchTx(ctx, tx, e.c.Chain, txid, companyID, b.ID, e.c.Confirmations); err != nil {
		return b, err
	}
	send(tx, companyID, tx.Now(), txid)
	e.nudge(tx, b)
	return b, nil
}

// sending is the journal of a batch that leaves: what was owed to the payees, and the miner's fee from the
// house, is in transit.
func sending(b Batch, outs []Output) ledger.Journal {
	lines := make([]ledger.Line, 0, len(outs)+2)
	for _, o := range outs {
		lines = append(lines, ledger.Debit(ledger.OutputPayable, o.ID, o.Amount))
	}
	return ledger.Journal{CompanyID: b.CompanyID, SourceType: source, SourceID: b.ID, Purpose: purpose("send", b), Lines: append(lines,
		ledger.Debit(ledger.NetworkFee, source, sats(b.Fee)),
		ledger.Credit(ledger.InTransit, b.ID, sats(b.Value+b.Fee)))}
}

// source is the type under which journals name a batch.
const source = "payout"
