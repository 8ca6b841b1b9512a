package chain

import (
	"context"
	"maps"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
)

// knownRows is what the rows know of some transactions.
type knownRows struct {
	addresses map[string]address   // of ours that they pay, or are sent from
	own       map[string]ownTx     // of them
	outputs   map[Outpoint]output  // of ours, of the transactions whose outputs they spend
	spends    map[Outpoint][]spend // of the same transactions' outputs
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
	maybe, others := w.addresses.split(slices.Sorted(maps.Keys(addresses)))
	questions := slices.Concat(addressQueries(tx, w.name, maybe, k.addresses), ownTxQueries(tx, w.name, ids, k.own),
		outputQueries(tx, w.name, spent, k.outputs), spendQueries(tx, w.name, spent, k.spends))
	var r poolState
	if len(others) > 0 {
		questions = append(questions, poolQuery(w.name, &r))
	}
	if err := tx.Batch(ctx, questions); err != nil || len(others) == 0 || w.addresses.complete(r) {
		return k, err
	}
	return k, tx.Batch(ctx, addressQueries(tx, w.name, others, k.addresses))
}

// pays says whether a transaction pays an address of ours.
func (k *knownRows) pays(t Tx) bool {
	return slices.ContainsFunc(t.Outputs, func(o Output) bool { return k.addresses[o.Address].address != "" })
}

// concerns says whether a transaction has to do with anything that is known.
func (k *knownRows) concerns(t Tx) bool {
	_, own := k.own[t.ID]
	return own || k.addresses[t.From].address != "" || k.pays(t) || slices.ContainsFunc(t.Inputs, func(in Outpoint) bool {
		_, ours := k.outputs[in]
		return ours || len(k.spends[in]) > 0
	})
}

// recorder takes in transactions that are now at one place.
type recorder struct {
	knownRows
	w        *Watcher
	tx       *db.Tx
	changes  *changes
	position position
	state    State                // of what is at that place
	spenders map[Outpoint][]spend // of the outputs that these transactions made when they were met before
	writes   outputWrites
}

// record takes in transactions that are now at a place.
func (w *Watcher) record(ctx context.Context, tx *db.Tx, n *changes, txs []Tx, at position) error {
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
	r := &recorder{knownRows: k, w: w, tx: tx, changes: n, position: at, state: Seen, spenders: map[Outpoint][]spend{}, writes: outputWrites{chain: w.name, position: at}}
	if at.height > 0 {
		r.state = Mined
	}
	if err := tx.Batch(ctx, slices.Concat(outputQueries(tx, w.name, payers, r.outputs), spendQueries(tx, w.name, payers, r.spenders))); err != nil {
		return err
	}
	for _, t := range txs {
		if err := r.apply(ctx, t); err != nil {
			return err
		}
	}
	return r.writes.store(ctx, tx)
}

// apply takes in one transaction: those that it beats, itself if it is ours, the coins that it spends and those that it pays.
func (r *recorder) apply(ctx context.Context, t Tx) error {
	if slices.ContainsFunc(t.Inputs, func(in Outpoint) bool { return r.changesRows(t, in) }) {
		if err := r.writes.store(ctx, r.tx); err != nil { // what this one does to coins may be to those
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

// changesRows says whether a transaction changes rows by spending an output: one of ours, or one that another spends, too.
func (r *recorder) changesRows(t Tx, in Outpoint) bool {
	_, ours := r.outputs[in]
	return ours || slices.ContainsFunc(r.spends[in], func(s spend) bool { return s.txid != t.ID })
}

// spendKnown says whether a transaction is known to spend an output.
func (r *recorder) spendKnown(t Tx, in Outpoint) bool {
	return slices.ContainsFunc(r.spends[in], func(s spend) bool { return s.txid == t.ID })
}

// markConflicts marks every transaction that spends a coin of t as having lost it.
func (r *recorder) markConflicts(ctx context.Context, t Tx) error {
	done := map[string]bool{t.ID: true}
	for _, in := range t.Inputs {
		for _, rival := range r.spends[in] {
			if done[rival.txid] {
				continue
			}
			done[rival.txid] = true
			outputs, err := replaceOutputs(ctx, r.tx, r.w.name, rival.txid, t.ID)
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

// updateOwn says whether we made a transaction, and puts it at its place.
func (r *recorder) updateOwn(ctx context.Context, t Tx) (own bool, err error) {
	mine, own := r.own[t.ID]
	if !own || mine.state == r.state || mine.state == Mined {
		return own, nil
	}
	placed, err := setTxState(ctx, r.tx, r.w.name, mine, r.state, r.position.height, t)
	if placed {
		r.changes.txs(mine)
	}
	return own, err
}

// detectUnknownSender says whether an account of ours sent a transaction that we did not make, and reports it where it is new.
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

// spendOutputs takes the coins of ours that a transaction spends. What it pays itself stands one deeper than the deepest of them.
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

// addOutputs takes in what a transaction pays to addresses of ours, and says whether there is any.
func (r *recorder) addOutputs(t Tx, own bool, depth int64) (ours bool) {
	_, from := r.addresses[t.From]
	for _, o := range t.Outputs {
		a, ok := r.addresses[o.Address]
		// What an account of ours sends to another is nobody's payment to us; neither is what it sends to the account that pays, if we
		// made that before the database was restored.
		if !ok || o.Address == "" || t.From != "" && (own || from && a.objectID == PayingAccount) {
			continue
		}
		ours = true
		row := output{Outpoint: Outpoint{t.ID, o.Vout}, companyID: a.companyID, branch: a.branch, own: own, state: r.state, depth: depth, output: o}
		was, met := r.outputs[row.Outpoint]
		// What a contract pays may differ from one block to another: then it is another output, and the first never comes.
		for ; met && (was.output.Address != o.Address || was.output.Amount != o.Amount || was.output.Asset != o.Asset); was, met = r.outputs[row.Outpoint] {
			row.Vout += 1 << 16
		}
		switch {
		case !met:
			r.writes.insert(r.tx, row, a, t.Coinbase, r.requiredConfirmations(row, t.Coinbase), r.lastSpender(row.Outpoint))
		case was.state == r.state || was.state == Mined:
			continue
		default:
			r.writes.update(row, was.state)
		}
		r.outputs[row.Outpoint] = row
		r.changes.outputs(row)
	}
	return ours
}

// requiredConfirmations is how many confirmations make an output final.
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

// outputWrites are outputs that come to a place, which are written together.
type outputWrites struct {
	chain    string
	position position
	inserted [][]any
	updated  [][]any
}

// insert is for an output that was not known.
func (m *outputWrites) insert(tx *db.Tx, o output, a address, coinbase bool, want int64, spentBy spend) {
	spendState := Available
	if spentBy.txid != "" {
		spendState = Spent
	}
	m.inserted = append(m.inserted, []any{
		m.chain, o.TxID, int64(o.Vout), a.companyID, a.objectID, a.address, a.branch, a.index, o.output.Amount,
		o.own, coinbase, string(o.state), m.position.height, m.position.hash, db.Micros(tx.Now()), want, false, "",
		string(spendState), "", spentBy.txid, spentBy.height, o.depth, string(o.output.Asset),
	})
}

// update is for a known output that stood elsewhere.
func (m *outputWrites) update(o output, from State) {
	m.updated = append(m.updated, []any{o.TxID, int64(o.Vout), string(from), string(o.state), o.depth, o.own})
}

// dropTx takes back what rests on a transaction that is in neither the mempool nor a block.
func (w *Watcher) dropTx(ctx context.Context, tx *db.Tx, n *changes, txid string) error {
	outputs, err := evictOutputs(ctx, tx, w.name, txid)
	if err != nil {
		return err
	}
	n.outputs(outputs...)
	txs, err := dropTxRows(ctx, tx, w.name, txid)
	if err != nil {
		return err
	}
	n.txs(txs...)
	return unspendOutputs(ctx, tx, w.name, txid)
}

func (w *Watcher) confirm(ctx context.Context, tx *db.Tx, n *changes, tip int64) error {
	var outputs []output
	var txs []ownTx
	err := tx.Batch(ctx, []db.Statement{confirmOutputsQuery(w.name, tip, &outputs), confirmTxsQuery(w.name, tip, &txs)})
	n.outputs(outputs...)
	n.txs(txs...)
	return err
}

// changes collects what changed in a step: a job for each output and transaction, once.
type changes struct {
	chain          string
	seen           map[Outpoint]bool // outputs that are in out
	changedOutputs []output
	changedTxs     []ownTx
	// unknownSpends are the companies whose coins transactions spend that are not ours, by transaction.
	unknownSpends map[string]string
}

func (n *changes) outputs(outs ...output) {
	for _, o := range outs {
		if !o.isChange() && !n.seen[o.Outpoint] {
			n.seen[o.Outpoint], n.changedOutputs = true, append(n.changedOutputs, o)
		}
	}
}

func (n *changes) txs(txs ...ownTx) {
	for _, t := range txs {
		if !slices.ContainsFunc(n.changedTxs, func(p ownTx) bool { return p.txid == t.txid }) {
			n.changedTxs = append(n.changedTxs, t)
		}
	}
}

func (n *changes) unknownSpend(txid, companyID string) {
	if n.unknownSpends == nil {
		n.unknownSpends = map[string]string{}
	}
	n.unknownSpends[txid] = companyID
}

func (n *changes) enqueue(tx *db.Tx) {
	for _, o := range n.changedOutputs {
		job.Enqueue(tx, job.New{CompanyID: o.companyID, Kind: JobOutput, Payload: OutputRef{n.chain, o.TxID, o.Vout}})
	}
	for _, txid := range slices.Sorted(maps.Keys(n.unknownSpends)) {
		job.Enqueue(tx, job.New{CompanyID: n.unknownSpends[txid], Kind: JobUnknownSpend, Payload: TxRef{n.chain, txid}})
	}
	for _, t := range n.changedTxs {
		job.Enqueue(tx, job.New{CompanyID: t.companyID, Kind: JobTx, Payload: TxRef{n.chain, t.txid}})
	}
}
