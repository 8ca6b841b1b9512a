package chain

import (
	"context"
	"maps"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
)

// known is what the rows know of some transactions.
type known struct {
	addresses map[string]address   // of ours that they pay, or are sent from
	own       map[string]ownTx     // of them
	outputs   map[Outpoint]output  // of ours, of the transactions whose outputs they spend
	spends    map[Outpoint][]spend // of the same transactions' outputs
}

func (w *Watcher) knownOf(ctx context.Context, tx *db.Tx, txs []Tx) (known, error) {
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
	k := known{map[string]address{}, map[string]ownTx{}, map[Outpoint]output{}, map[Outpoint][]spend{}}
	spent := slices.Sorted(maps.Keys(prevs))
	maybe, others := w.ours.parts(slices.Sorted(maps.Keys(addresses)))
	questions := slices.Concat(askAddresses(tx, w.name, maybe, k.addresses), askOwnTxs(tx, w.name, ids, k.own),
		askOutputs(tx, w.name, spent, k.outputs), askSpends(tx, w.name, spent, k.spends))
	var r reserved
	if len(others) > 0 {
		questions = append(questions, askReserved(w.name, &r))
	}
	if err := tx.Ask(ctx, questions); err != nil || len(others) == 0 || w.ours.complete(r) {
		return k, err
	}
	return k, tx.Ask(ctx, askAddresses(tx, w.name, others, k.addresses))
}

// pays says whether a transaction pays an address of ours.
func (k *known) pays(t Tx) bool {
	return slices.ContainsFunc(t.Outputs, func(o Output) bool { return k.addresses[o.Address].address != "" })
}

// concern says whether a transaction has to do with anything that is known.
func (k *known) concern(t Tx) bool {
	_, own := k.own[t.ID]
	return own || k.addresses[t.From].address != "" || k.pays(t) || slices.ContainsFunc(t.Inputs, func(in Outpoint) bool {
		_, ours := k.outputs[in]
		return ours || len(k.spends[in]) > 0
	})
}

// recording takes in transactions that are now at one place.
type recording struct {
	known
	w        *Watcher
	tx       *db.Tx
	n        *news
	at       place
	state    State                // of what is at that place
	spenders map[Outpoint][]spend // of the outputs that these transactions made when they were met before
	here     arrivals
}

// record takes in transactions that are now at a place.
func (w *Watcher) record(ctx context.Context, tx *db.Tx, n *news, txs []Tx, at place) error {
	if len(txs) == 0 {
		return nil
	}
	k, err := w.knownOf(ctx, tx, txs)
	if err != nil {
		return err
	}
	var payers []string
	for _, t := range txs {
		if k.pays(t) {
			payers = append(payers, t.ID)
		}
	}
	r := &recording{known: k, w: w, tx: tx, n: n, at: at, state: Seen, spenders: map[Outpoint][]spend{}, here: arrivals{chain: w.name, at: at}}
	if at.height > 0 {
		r.state = Mined
	}
	if err := tx.Ask(ctx, slices.Concat(askOutputs(tx, w.name, payers, r.outputs), askSpends(tx, w.name, payers, r.spenders))); err != nil {
		return err
	}
	for _, t := range txs {
		if err := r.take(ctx, t); err != nil {
			return err
		}
	}
	return r.here.store(ctx, tx)
}

// take takes in one transaction: those that it beats, itself if it is ours, the coins that it spends and those that it pays.
func (r *recording) take(ctx context.Context, t Tx) error {
	if slices.ContainsFunc(t.Inputs, func(in Outpoint) bool { return r.moves(t, in) }) {
		if err := r.here.store(ctx, r.tx); err != nil { // what this one does to coins may be to those
			return err
		}
	}
	if err := r.conflicts(ctx, t); err != nil {
		return err
	}
	own, err := r.find(ctx, t)
	if err != nil {
		return err
	}
	sent := r.sentByAccount(t, own)
	spent, depth, err := r.spend(ctx, t, own)
	if err != nil {
		return err
	}
	if r.state == Mined || !own {
		depth = 0
	}
	paid := r.pay(t, own, depth)
	if !own && !sent && !spent && !paid {
		return nil
	}
	if err := insertSpends(ctx, r.tx, r.w.name, t.ID, t.Inputs, r.at.height); err != nil {
		return err
	}
	for _, in := range t.Inputs {
		r.spends[in] = append(r.spends[in], spend{prev: in, txid: t.ID, height: r.at.height})
	}
	return nil
}

// moves says whether a transaction changes rows by spending an output: one of ours, or one that another spends, too.
func (r *recording) moves(t Tx, in Outpoint) bool {
	_, ours := r.outputs[in]
	return ours || slices.ContainsFunc(r.spends[in], func(s spend) bool { return s.txid != t.ID })
}

// met says whether a transaction is known to spend an output.
func (r *recording) met(t Tx, in Outpoint) bool {
	return slices.ContainsFunc(r.spends[in], func(s spend) bool { return s.txid == t.ID })
}

// conflicts marks every transaction that spends a coin of t as having lost it.
func (r *recording) conflicts(ctx context.Context, t Tx) error {
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
			r.n.outputs(outputs...)
			txs, err := conflictTx(ctx, r.tx, r.w.name, rival.txid, t.ID, r.at.height)
			if err != nil {
				return err
			}
			r.n.txs(txs...)
			if err := unspendOutputs(ctx, r.tx, r.w.name, rival.txid); err != nil {
				return err
			}
		}
	}
	return nil
}

// find says whether we made a transaction, and puts it at its place.
func (r *recording) find(ctx context.Context, t Tx) (own bool, err error) {
	mine, own := r.own[t.ID]
	if !own || mine.state == r.state || mine.state == Mined {
		return own, nil
	}
	placed, err := placeTx(ctx, r.tx, r.w.name, mine, r.state, r.at.height, t)
	if placed {
		r.n.txs(mine)
	}
	return own, err
}

// sentByAccount says whether an account of ours sent a transaction that we did not make, and reports it where it is new.
func (r *recording) sentByAccount(t Tx, own bool) bool {
	account, ours := r.addresses[t.From]
	if !ours || own || t.From == "" {
		return false
	}
	for _, in := range t.Inputs {
		if !r.met(t, in) {
			r.n.stranger(t.ID, account.companyID)
		}
	}
	return true
}

// spend takes the coins of ours that a transaction spends. What it pays itself stands one deeper than the deepest of them.
func (r *recording) spend(ctx context.Context, t Tx, own bool) (ours bool, depth int64, err error) {
	for _, in := range t.Inputs {
		coin, ok := r.outputs[in]
		if !ok {
			continue
		}
		ours, depth = true, max(depth, coin.depth)
		if !own && !r.met(t, in) {
			r.n.stranger(t.ID, coin.companyID)
		}
		if err := spendOutput(ctx, r.tx, r.w.name, in, t.ID, r.at.height); err != nil {
			return ours, depth, err
		}
	}
	return ours, depth + 1, nil
}

// pay takes in what a transaction pays to addresses of ours, and says whether there is any.
func (r *recording) pay(t Tx, own bool, depth int64) (ours bool) {
	_, from := r.addresses[t.From]
	for _, o := range t.Outputs {
		a, ok := r.addresses[o.Address]
		// What an account of ours sends to another is nobody's payment to us; neither is what it sends to the account that pays, if we
		// made that before the database was restored.
		if !ok || o.Address == "" || t.From != "" && (own || from && a.objectID == PayingAccount) {
			continue
		}
		ours = true
		row := output{Outpoint: Outpoint{t.ID, o.Vout}, companyID: a.companyID, branch: a.branch, own: own, state: r.state, depth: depth, pays: o}
		was, met := r.outputs[row.Outpoint]
		// What a contract pays may differ from one block to another: then it is another output, and the first never comes.
		for ; met && (was.pays.Address != o.Address || was.pays.Amount != o.Amount || was.pays.Asset != o.Asset); was, met = r.outputs[row.Outpoint] {
			row.Vout += 1 << 16
		}
		switch {
		case !met:
			r.here.add(r.tx, row, a, t.Coinbase, r.wanted(row, t.Coinbase), r.lastSpender(row.Outpoint))
		case was.state == r.state || was.state == Mined:
			continue
		default:
			r.here.move(row, was.state)
		}
		r.outputs[row.Outpoint] = row
		r.n.outputs(row)
	}
	return ours
}

// wanted is how many confirmations make an output final.
func (r *recording) wanted(o output, coinbase bool) int64 {
	switch {
	case coinbase:
		return CoinbaseMaturity
	case o.silent():
		return 1
	}
	return DefaultConfirmations * r.w.pace
}

func (r *recording) lastSpender(o Outpoint) (last spend) {
	if s := r.spenders[o]; len(s) > 0 {
		last = s[len(s)-1]
	}
	return last
}

// arrivals are outputs that come to a place, which are written together.
type arrivals struct {
	chain string
	at    place
	added [][]any
	moved [][]any
}

// add is for an output that was not known.
func (m *arrivals) add(tx *db.Tx, o output, a address, coinbase bool, want int64, spentBy spend) {
	spendState := Available
	if spentBy.txid != "" {
		spendState = Spent
	}
	m.added = append(m.added, []any{
		m.chain, o.TxID, int64(o.Vout), a.companyID, a.objectID, a.address, a.branch, a.index, o.pays.Amount,
		o.own, coinbase, string(o.state), m.at.height, m.at.hash, db.Micros(tx.Now()), want, false, "",
		string(spendState), "", spentBy.txid, spentBy.height, o.depth, string(o.pays.Asset),
	})
}

// move is for a known output that stood elsewhere.
func (m *arrivals) move(o output, from State) {
	m.moved = append(m.moved, []any{o.TxID, int64(o.Vout), string(from), string(o.state), o.depth, o.own})
}

// lose takes back what rests on a transaction that is in neither the mempool nor a block.
func (w *Watcher) lose(ctx context.Context, tx *db.Tx, n *news, txid string) error {
	outputs, err := evictOutputs(ctx, tx, w.name, txid)
	if err != nil {
		return err
	}
	n.outputs(outputs...)
	txs, err := loseTx(ctx, tx, w.name, txid)
	if err != nil {
		return err
	}
	n.txs(txs...)
	return unspendOutputs(ctx, tx, w.name, txid)
}

func (w *Watcher) confirm(ctx context.Context, tx *db.Tx, n *news, tip int64) error {
	var outputs []output
	var txs []ownTx
	err := tx.Ask(ctx, []db.Question{confirmOutputs(w.name, tip, &outputs), confirmTxs(w.name, tip, &txs)})
	n.outputs(outputs...)
	n.txs(txs...)
	return err
}

// news collects what changed in a step: a job for each output and transaction, once.
type news struct {
	chain string
	told  map[Outpoint]bool // outputs that are in out
	out   []output
	own   []ownTx
	// strangers are the companies whose coins transactions spend that are not ours, by transaction.
	strangers map[string]string
}

func (n *news) outputs(outs ...output) {
	for _, o := range outs {
		if !o.silent() && !n.told[o.Outpoint] {
			n.told[o.Outpoint], n.out = true, append(n.out, o)
		}
	}
}

func (n *news) txs(txs ...ownTx) {
	for _, t := range txs {
		if !slices.ContainsFunc(n.own, func(p ownTx) bool { return p.txid == t.txid }) {
			n.own = append(n.own, t)
		}
	}
}

func (n *news) stranger(txid, companyID string) {
	if n.strangers == nil {
		n.strangers = map[string]string{}
	}
	n.strangers[txid] = companyID
}

func (n *news) enqueue(tx *db.Tx) {
	for _, o := range n.out {
		job.Enqueue(tx, job.New{CompanyID: o.companyID, Kind: JobOutput, Payload: OutputNews{n.chain, o.TxID, o.Vout}})
	}
	for _, txid := range slices.Sorted(maps.Keys(n.strangers)) {
		job.Enqueue(tx, job.New{CompanyID: n.strangers[txid], Kind: JobStranger, Payload: TxNews{n.chain, txid}})
	}
	for _, t := range n.own {
		job.Enqueue(tx, job.New{CompanyID: t.companyID, Kind: JobTx, Payload: TxNews{n.chain, t.txid}})
	}
}
