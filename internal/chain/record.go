package chain

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
)

// knownRows holds the stored rows that a set of transactions touches.
type knownRows struct {
	addresses map[string]address   // assigned addresses that a transaction pays or is sent from
	own       map[string]ownTx     // transactions of the service
	outputs   map[Outpoint]output  // the wallet's outputs of those transactions that others spend from
	spends    map[Outpoint][]spend // the recorded spends of outputs of the same transactions
}

func (w *Watcher) loadKnown(ctx context.Context, tx *db.Tx, txs []Tx) (knownRows, error) {
	addresses, ids, prevs := map[string]bool{}, make([]string, 0, len(txs)), map[string]bool{}
	for _, t := range txs {
		ids = append(ids, t.ID)
		if t.From != "" {
			addresses[t.From] = true
		}
		for _, o := range t.Outputs {
			if o.Address != "" {
				addresses[o.Address] = true
			}
		}
		for _, in := range t.Inputs {
			prevs[in.TxID] = true
		}
	}
	k := knownRows{map[string]address{}, map[string]ownTx{}, map[Outpoint]output{}, map[Outpoint][]spend{}}
	spent := slices.Sorted(maps.Keys(prevs))
	maybeOurs, others := w.addresses.split(slices.Sorted(maps.Keys(addresses)))
	queries := slices.Concat(addressQueries(tx, w.name, maybeOurs, k.addresses), ownTxQueries(tx, w.name, ids, k.own),
		outputQueries(tx, w.name, spent, k.outputs), spendQueries(tx, w.name, spent, k.spends))
	var pool poolState
	if len(others) > 0 {
		queries = append(queries, poolQuery(w.name, &pool))
	}
	if err := tx.Batch(ctx, queries); err != nil || len(others) == 0 || w.addresses.complete(pool) {
		return k, err
	}
	return k, tx.Batch(ctx, addressQueries(tx, w.name, others, k.addresses))
}

// pays reports whether a transaction pays one of our addresses.
func (k *knownRows) pays(t Tx) bool {
	return slices.ContainsFunc(t.Outputs, func(o Output) bool { return k.addresses[o.Address].address != "" })
}

// concerns reports whether a transaction touches any of the rows.
func (k *knownRows) concerns(t Tx) bool {
	_, own := k.own[t.ID]
	return own || k.addresses[t.From].address != "" || k.pays(t) || slices.ContainsFunc(t.Inputs, func(in Outpoint) bool {
		_, ours := k.outputs[in]
		return ours || len(k.spends[in]) > 0
	})
}

// recorder stores transactions that are now at one position.
type recorder struct {
	knownRows
	w        *Watcher
	tx       *db.Tx
	changes  *changes
	position position
	state    State                // Mined for a block, Seen for the mempool
	spenders map[Outpoint][]spend // recorded spends of the outputs that the transactions create
	writes   outputWrites
}

// record stores transactions that are now at a position: in a block, or in the mempool.
func (w *Watcher) record(ctx context.Context, tx *db.Tx, c *changes, txs []Tx, at position) error {
	if len(txs) == 0 {
		return nil
	}
	k, err := w.loadKnown(ctx, tx, txs)
	if err != nil {
		return err
	}
	var payers []string
	for _, t := range txs {
		if k.pays(t) {
			payers = append(payers, t.ID)
		}
	}
	r := &recorder{
		knownRows: k, w: w, tx: tx, changes: c, position: at, state: Seen, spenders: map[Outpoint][]spend{},
		writes: outputWrites{chain: w.name, position: at},
	}
	if at.height > 0 {
		r.state = Mined
	}
	queries := slices.Concat(outputQueries(tx, w.name, payers, r.outputs), spendQueries(tx, w.name, payers, r.spenders))
	if err := tx.Batch(ctx, queries); err != nil {
		return err
	}
	for _, t := range txs {
		if err := r.apply(ctx, t); err != nil {
			return err
		}
	}
	return r.writes.store(ctx, tx)
}

// apply stores one transaction: the conflicts with other transactions that spend its inputs, its own state if it is
// ours, the outputs of ours that it spends, and those that it creates.
func (r *recorder) apply(ctx context.Context, t Tx) error {
	if slices.ContainsFunc(t.Inputs, func(in Outpoint) bool { return r.changesRows(t, in) }) {
		if err := r.writes.store(ctx, r.tx); err != nil { // the transaction may spend outputs whose rows are not written yet
			return err
		}
	}
	if err := r.markConflicts(ctx, t); err != nil {
		return err
	}
	own, err := r.updateOwn(ctx, t)
	if err != nil {
		return err
	}
	sent := r.detectUnknownSender(t, own)
	spent, depth, err := r.spendOutputs(ctx, t, own)
	if err != nil {
		return err
	}
	if r.state == Mined || !own {
		depth = 0
	}
	paid := r.addOutputs(t, own, depth)
	if !own && !sent && !spent && !paid {
		return nil
	}
	if err := insertSpends(ctx, r.tx, r.w.name, t.ID, t.Inputs, r.position.height); err != nil {
		return err
	}
	for _, in := range t.Inputs {
		r.spends[in] = append(r.spends[in], spend{prev: in, txid: t.ID, height: r.position.height})
	}
	return nil
}

// changesRows reports whether spending an output updates rows: the output is ours, or another transaction spends it
// too.
func (r *recorder) changesRows(t Tx, in Outpoint) bool {
	_, ours := r.outputs[in]
	return ours || slices.ContainsFunc(r.spends[in], func(s spend) bool { return s.txid != t.ID })
}

// spendKnown reports whether it is recorded that the transaction spends the output.
func (r *recorder) spendKnown(t Tx, in Outpoint) bool {
	return slices.ContainsFunc(r.spends[in], func(s spend) bool { return s.txid == t.ID })
}

// markConflicts marks every other transaction that spends an input of t as replaced by t.
func (r *recorder) markConflicts(ctx context.Context, t Tx) error {
	done := map[string]bool{t.ID: true}
	for _, in := range t.Inputs {
		for _, rival := range r.spends[in] {
			if done[rival.txid] {
				continue
			}
			done[rival.txid] = true
			outputs, err := replaceOutputs(ctx, r.tx, r.w.name, rival.txid, t.ID, r.position.height)
			if err != nil {
				return err
			}
			r.changes.outputs(outputs...)
			txs, err := conflictTx(ctx, r.tx, r.w.name, rival.txid, t.ID, r.position.height)
			if err != nil {
				return err
			}
			r.changes.txs(txs...)
			if err := unspendOutputs(ctx, r.tx, r.w.name, rival.txid); err != nil {
				return err
			}
		}
	}
	return nil
}

// updateOwn reports whether the transaction is ours, and stores its new state.
func (r *recorder) updateOwn(ctx context.Context, t Tx) (own bool, err error) {
	mine, own := r.own[t.ID]
	if !own || mine.state == r.state || mine.state == Mined {
		return own, nil
	}
	updated, err := setTxState(ctx, r.tx, r.w.name, mine, r.state, r.position.height, t)
	if updated {
		r.changes.txs(mine)
	}
	return own, err
}

// detectUnknownSender reports whether one of our EVM accounts sent a transaction that is not ours. A new one is added
// to the unknown spends.
func (r *recorder) detectUnknownSender(t Tx, own bool) bool {
	account, ours := r.addresses[t.From]
	if !ours || own || t.From == "" {
		return false
	}
	for _, in := range t.Inputs {
		if !r.spendKnown(t, in) {
			r.changes.unknownSpend(t.ID, account.companyID)
		}
	}
	return true
}

// spendOutputs marks our outputs that the transaction spends. depth is the unconfirmed depth of the outputs that the
// transaction creates: one more than that of its deepest input.
func (r *recorder) spendOutputs(ctx context.Context, t Tx, own bool) (ours bool, depth int64, err error) {
	for _, in := range t.Inputs {
		coin, ok := r.outputs[in]
		if !ok {
			continue
		}
		ours, depth = true, max(depth, coin.depth)
		if !own && !r.spendKnown(t, in) {
			r.changes.unknownSpend(t.ID, coin.companyID)
		}
		if err := spendOutput(ctx, r.tx, r.w.name, in, t.ID, r.position.height); err != nil {
			return ours, depth, err
		}
	}
	return ours, depth + 1, nil
}

// addOutputs queues writes for the outputs that pay our addresses, and reports whether there are any.
func (r *recorder) addOutputs(t Tx, own bool, depth int64) (ours bool) {
	_, from := r.addresses[t.From]
	for _, o := range t.Outputs {
		a, ok := r.addresses[o.Address]
		// A transfer between our own EVM accounts is not a deposit. That includes a sweep to the paying account that we
		// sent before the database was restored. A transaction of ours that transfers money of a payer, who authorized it,
		// is a deposit. Before it is in a block, only our own one proves that the payer did.
		collected := own && o.From != ""
		if !ok || o.Address == "" || t.From != "" && (own && !collected || from && a.objectID == PayingAccount) ||
			o.From != "" && !own && r.state == Seen {
			continue
		}
		ours = true
		row := output{
			Outpoint: Outpoint{t.ID, o.Vout}, companyID: a.companyID, branch: a.branch, own: own && !collected, state: r.state,
			depth:  depth,
			output: o,
		}
		stored, exists := r.outputs[row.Outpoint]
		// A contract may pay differently if another block executes it. Such an output gets its own row, with a higher vout;
		// the first one is never confirmed.
		for exists && (stored.output.Address != o.Address || stored.output.Amount != o.Amount ||
			stored.output.Asset != o.Asset) {
			row.Vout += 1 << 16
			stored, exists = r.outputs[row.Outpoint]
		}
		switch {
		case !exists:
			r.writes.insert(row, a, t.Coinbase, r.firstSeen(), r.requiredConfirmations(row, t.Coinbase),
				r.lastSpender(row.Outpoint))
		case stored.state == r.state || stored.state == Mined:
			continue
		default:
			r.writes.update(row, stored.state)
		}
		r.outputs[row.Outpoint] = row
		r.changes.outputs(row)
	}
	return ours
}

// firstSeen returns the time at which a new output was first seen: now, or the timestamp of its block if that is
// earlier, because the watcher may not have been watching then. Timestamps of blocks are inexact, so the time is not
// before the last scan of the mempool, which did not find the output.
func (r *recorder) firstSeen() time.Time {
	seen := r.tx.Now()
	if at := r.position.time; r.state == Mined && at.Before(seen) {
		seen = at
		if r.w.observedAt.After(seen) {
			seen = r.w.observedAt
		}
	}
	return seen
}

// requiredConfirmations returns the initial number of blocks that confirm an output.
func (r *recorder) requiredConfirmations(o output, coinbase bool) int64 {
	switch {
	case coinbase:
		return CoinbaseMaturity
	case o.isChange():
		return 1
	}
	return DefaultConfirmations * r.w.blocksPerConfirmation
}

func (r *recorder) lastSpender(o Outpoint) (last spend) {
	if s := r.spenders[o]; len(s) > 0 {
		last = s[len(s)-1]
	}
	return last
}

// outputWrites collects rows of outputs at one position, to write them with few statements.
type outputWrites struct {
	chain    string
	position position
	inserted [][]any
	updated  [][]any
}

func (w *outputWrites) insert(o output, a address, coinbase bool, seen time.Time, required int64, spentBy spend) {
	spendState := Available
	if spentBy.txid != "" {
		spendState = Spent
	}
	w.inserted = append(w.inserted, []any{
		w.chain, o.TxID, int64(o.Vout), a.companyID, a.objectID, a.address, a.branch, a.index, o.output.Amount,
		o.own, coinbase, string(o.state), w.position.height, w.position.hash, db.Micros(seen), required, false, "",
		string(spendState), "", spentBy.txid, spentBy.height, o.depth, string(o.output.Asset),
	})
}

// update changes the state of a stored output, provided that its state still is from.
func (w *outputWrites) update(o output, from State) {
	w.updated = append(w.updated, []any{o.TxID, int64(o.Vout), string(from), string(o.state), o.depth, o.own})
}

// dropTx reverts the effects of a transaction that is in neither the mempool nor a block.
func (w *Watcher) dropTx(ctx context.Context, tx *db.Tx, c *changes, txid string) error {
	outputs, err := evictOutputs(ctx, tx, w.name, txid)
	if err != nil {
		return err
	}
	c.outputs(outputs...)
	txs, err := dropTxRows(ctx, tx, w.name, txid)
	if err != nil {
		return err
	}
	c.txs(txs...)
	return unspendOutputs(ctx, tx, w.name, txid)
}

// confirm marks the outputs and transactions that have enough confirmations at the height of the tip.
func (w *Watcher) confirm(ctx context.Context, tx *db.Tx, c *changes, tip int64) error {
	var outputs []output
	var txs []ownTx
	err := tx.Batch(ctx, []db.Statement{confirmOutputsQuery(w.name, tip, &outputs), confirmTxsQuery(w.name, tip, &txs)})
	c.outputs(outputs...)
	c.txs(txs...)
	return err
}

// changes collects the outputs and transactions that a step changed. Each causes one job.
type changes struct {
	chain          string
	seen           map[Outpoint]bool // the outputs in changedOutputs
	changedOutputs []output
	changedTxs     []ownTx
	// unknownSpends maps a transaction that is not ours but spends from us to the company that owned the spent output.
	unknownSpends map[string]string
}

func newChanges(chain string) *changes {
	return &changes{chain: chain, seen: map[Outpoint]bool{}, unknownSpends: map[string]string{}}
}

func (c *changes) outputs(outs ...output) {
	for _, o := range outs {
		if !o.isChange() && !c.seen[o.Outpoint] {
			c.seen[o.Outpoint], c.changedOutputs = true, append(c.changedOutputs, o)
		}
	}
}

func (c *changes) txs(txs ...ownTx) {
	for _, t := range txs {
		if !slices.ContainsFunc(c.changedTxs, func(p ownTx) bool { return p.txid == t.txid }) {
			c.changedTxs = append(c.changedTxs, t)
		}
	}
}

func (c *changes) unknownSpend(txid, companyID string) { c.unknownSpends[txid] = companyID }

func (c *changes) enqueue(tx *db.Tx) {
	for _, o := range c.changedOutputs {
		job.Enqueue(tx, OutputJob(o.companyID, c.chain, o.Outpoint))
	}
	for _, txid := range slices.Sorted(maps.Keys(c.unknownSpends)) {
		job.Enqueue(tx, job.New{CompanyID: c.unknownSpends[txid], Kind: JobUnknownSpend, Payload: TxRef{c.chain, txid}})
	}
	for _, t := range c.changedTxs {
		job.Enqueue(tx, job.New{CompanyID: t.companyID, Kind: JobTx, Payload: TxRef{c.chain, t.txid}})
	}
}
