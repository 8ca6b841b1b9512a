package chain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
)

// scanSize bounds the new transactions of one mempool scan, and with it the length of a step.
const scanSize = 500

// Watcher follows one chain. Several watchers of one chain do no harm: each step is a compare-and-set on the cursor, and the
// loser looks again.
//
// A chain has a pace: how many of its blocks stand for one of Bitcoin's where confirmations are counted. It is kept with the
// cursor, for those who count.
type Watcher struct {
	d    *db.DB
	name string
	src  Source
	pace int64
	log  *slog.Logger

	mu sync.Mutex
	// known are the transactions of the mempool that were looked at. It saves asking the node again; losing it costs time only.
	known map[string]bool
	// missing are transactions that the last scan expected in the mempool and did not find. A node that is just taking a block
	// back may show its mempool before it put the block's transactions there again, so one look is not enough.
	missing map[string]bool
	ours    *wallet // nil when it remembers none, see Remember
}

// NewWatcher makes a watcher of the chain called name, the key of all its rows, whose pace is 1.
func NewWatcher(d *db.DB, name string, src Source, log *slog.Logger) *Watcher {
	return NewPacedWatcher(d, name, src, 1, log)
}

// NewPacedWatcher makes a watcher of a chain with another pace.
func NewPacedWatcher(d *db.DB, name string, src Source, pace int64, log *slog.Logger) *Watcher {
	return &Watcher{d: d, name: name, src: src, pace: max(pace, 1), log: log.With("chain", name), known: map[string]bool{}, missing: map[string]bool{}}
}

// place is where a transaction is: in a block, or at height 0 in the mempool.
type place struct {
	height int64
	hash   string
}

// Step does one thing: connects the next block, or several when there are, takes back one that left the chain, or, at the tip, looks through the
// mempool. It says whether there was something to do, so that a caller repeats it until there is not, and then waits.
//
// The first step starts at the node's tip: nothing older can pay an address that was not yet given out.
//
// Errors are the source's and the database's, after which the step can be repeated, and ErrTooDeep, after which it cannot.
func (w *Watcher) Step(ctx context.Context) (progressed bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() {
		if err != nil {
			// The database that comes back may be one that lacks what was committed last.
			clear(w.known)
			clear(w.missing)
		}
	}()
	var at cursor
	var started bool
	var pace int64
	var parent, expected, due []string
	err = w.d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		parent, expected, due = nil, nil, nil
		if at, pace, started, err = loadCursor(ctx, tx, w.name); err != nil || !started {
			return err
		}
		return tx.Ask(ctx, []db.Question{blockAt(w.name, at.height-1, &parent), waiting(w.name, &expected), unconfirmedDue(w.name, at.height, &due)})
	})
	if err != nil {
		return false, err
	}
	if started && pace != w.pace {
		return true, w.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return setPace(ctx, tx, w.name, w.pace) })
	}
	height, hash, err := w.src.Tip(ctx)
	if err != nil {
		return false, err
	}
	if !started {
		return true, w.start(ctx, cursor{height, hash})
	}
	if at == (cursor{height, hash}) {
		if w.ours != nil {
			if err := w.ours.learn(ctx, w.d, w.name); err != nil {
				return false, err
			}
		}
		return w.scan(ctx, at, expected, len(due) > 0)
	}
	here, err := w.src.BlockHash(ctx, at.height)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return false, err
	}
	if here != at.hash {
		if len(parent) == 0 {
			return false, fmt.Errorf("%w: %s, block %d %s", ErrTooDeep, w.name, at.height, at.hash)
		}
		return true, w.disconnect(ctx, at, cursor{at.height - 1, parent[0]})
	}
	blocks, err := w.following(ctx, at, height)
	if err != nil || len(blocks) == 0 {
		return err == nil, err // without any the chain moved while we looked
	}
	return true, w.connect(ctx, at, blocks)
}

// Blocks that one step connects when it catches up: no more than so many, and no more after so many transactions.
const (
	catchUpBlocks = 16
	catchUpTxs    = 2000
)

// following reads the next blocks of the chain, each upon the one before, up to a height.
func (w *Watcher) following(ctx context.Context, at cursor, upTo int64) ([]Block, error) {
	var blocks []Block
	for txs := 0; at.height < upTo && len(blocks) < catchUpBlocks && txs < catchUpTxs; {
		hash, err := w.src.BlockHash(ctx, at.height+1)
		var b Block
		if err == nil {
			b, err = w.src.Block(ctx, hash)
		}
		if errors.Is(err, ErrNotFound) || err == nil && b.Prev != at.hash {
			break
		}
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
		txs += len(b.Txs)
		at = cursor{at.height + 1, b.Hash}
	}
	return blocks, nil
}

// Sync steps until there is nothing to do.
func (w *Watcher) Sync(ctx context.Context) error {
	for {
		if progressed, err := w.Step(ctx); err != nil || !progressed {
			return err
		}
	}
}

func (w *Watcher) start(ctx context.Context, tip cursor) error {
	// Older hashes are kept from the start, so that the first reorganisation is no special case.
	last := []cursor{}
	for h := max(0, tip.height-MaxReorg); h < tip.height; h++ {
		hash, err := w.src.BlockHash(ctx, h)
		if err != nil {
			return err
		}
		last = append(last, cursor{h, hash})
	}
	last = append(last, tip)
	return w.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := startCursor(ctx, tx, w.name, w.pace, last)
		return err
	})
}

func (w *Watcher) connect(ctx context.Context, from cursor, blocks []Block) error {
	to := cursor{from.height + int64(len(blocks)), blocks[len(blocks)-1].Hash}
	err := w.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if ok, err := moveCursor(ctx, tx, w.name, from, to); err != nil || !ok {
			return err
		}
		if err := insertBlocks(ctx, tx, w.name, from.height, blocks); err != nil {
			return err
		}
		txs, err := w.concerning(ctx, tx, blocks)
		if err != nil {
			return err
		}
		n := news{chain: w.name, told: map[Outpoint]bool{}}
		for i, b := range blocks {
			if err := w.record(ctx, tx, &n, txs[i], place{from.height + 1 + int64(i), b.Hash}); err != nil {
				return err
			}
		}
		if err := w.confirm(ctx, tx, &n, to.height); err != nil {
			return err
		}
		n.enqueue(tx)
		return prune(ctx, tx, w.name, from.height, to.height)
	})
	if err == nil {
		clear(w.missing)
		w.log.DebugContext(ctx, "blocks connected", "blocks", len(blocks), "height", to.height, "hash", to.hash)
	}
	return err
}

// concerning gives the transactions of each block that record has to look at: of several blocks, most of which hold nothing of ours,
// only those that touch what is known, or what one before them touches.
func (w *Watcher) concerning(ctx context.Context, tx *db.Tx, blocks []Block) ([][]Tx, error) {
	txs := make([][]Tx, len(blocks))
	if len(blocks) == 1 {
		txs[0] = blocks[0].Txs
		return txs, nil
	}
	var all []Tx
	for _, b := range blocks {
		all = append(all, b.Txs...)
	}
	k, err := w.knownOf(ctx, tx, all)
	if err != nil {
		return nil, err
	}
	met, spent := map[string]bool{}, map[Outpoint]bool{}
	for i, b := range blocks {
		for _, t := range b.Txs {
			if !k.concern(t) && !slices.ContainsFunc(t.Inputs, func(in Outpoint) bool { return met[in.TxID] || spent[in] }) {
				continue
			}
			met[t.ID] = true
			for _, in := range t.Inputs {
				spent[in] = true
			}
			txs[i] = append(txs[i], t)
		}
	}
	return txs, nil
}

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

func (w *Watcher) disconnect(ctx context.Context, from, to cursor) error {
	err := w.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if ok, err := moveCursor(ctx, tx, w.name, from, to); err != nil || !ok {
			return err
		}
		if err := deleteBlock(ctx, tx, w.name, from); err != nil {
			return err
		}
		n := news{chain: w.name, told: map[Outpoint]bool{}}
		outputs, err := unmineOutputs(ctx, tx, w.name, from.height)
		if err != nil {
			return err
		}
		n.outputs(outputs...)
		txs, err := unmineTxs(ctx, tx, w.name, from.height)
		if err != nil {
			return err
		}
		n.txs(txs...)
		if err := unmineSpends(ctx, tx, w.name, from.height); err != nil {
			return err
		}
		n.enqueue(tx)
		return nil
	})
	if err == nil {
		// What was taken back may be anywhere now: look at the whole mempool again.
		clear(w.known)
		clear(w.missing)
		w.log.WarnContext(ctx, "block taken back", "height", from.height, "hash", from.hash)
	}
	return err
}

// scan compares the mempool with what the rows believe of it.
func (w *Watcher) scan(ctx context.Context, at cursor, expected []string, due bool) (bool, error) {
	txids, err := w.src.Mempool(ctx)
	if err != nil {
		return false, err
	}
	// A block that came while we asked took transactions with it: they are not gone.
	if height, hash, err := w.src.Tip(ctx); err != nil || at != (cursor{height, hash}) {
		return err == nil, err
	}
	present := make(map[string]bool, len(txids))
	var fresh []string
	for _, id := range txids {
		present[id] = true
		if !w.known[id] && len(fresh) < scanSize {
			fresh = append(fresh, id)
		}
	}
	txs, err := w.fetch(ctx, fresh)
	if err != nil {
		return false, err
	}
	var gone []string
	missing := map[string]bool{}
	waiter, _ := w.src.(Waiter)
	for _, id := range expected {
		if waiter != nil && !present[id] {
			if present[id], err = waiter.Waits(ctx, id); err != nil {
				return false, err
			}
		}
		switch {
		case present[id]:
		case w.missing[id]:
			gone = append(gone, id)
		default:
			missing[id] = true
		}
	}
	if len(txs) > 0 || len(gone) > 0 || due {
		raced := false
		err := w.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			ok, err := moveCursor(ctx, tx, w.name, at, at)
			if raced = !ok; err != nil || !ok {
				return err
			}
			n := news{chain: w.name, told: map[Outpoint]bool{}}
			if err := w.record(ctx, tx, &n, txs, place{}); err != nil {
				return err
			}
			for _, id := range gone {
				if err := w.lose(ctx, tx, &n, id); err != nil {
					return err
				}
			}
			if err := w.confirm(ctx, tx, &n, at.height); err != nil {
				return err
			}
			n.enqueue(tx)
			return nil
		})
		if err != nil || raced {
			return err == nil, err
		}
	}
	maps.DeleteFunc(w.known, func(id string, _ bool) bool { return !present[id] })
	for _, t := range txs {
		w.known[t.ID] = true
	}
	w.missing = missing
	return len(fresh) > 0 || len(gone) > 0 || len(missing) > 0, nil
}

// fetch leaves out transactions that vanished meanwhile.
func (w *Watcher) fetch(ctx context.Context, txids []string) ([]Tx, error) {
	found := make([]Tx, len(txids))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i, id := range txids {
		g.Go(func() error {
			tx, err := w.src.Tx(ctx, id)
			if errors.Is(err, ErrNotFound) {
				return nil
			}
			found[i] = tx
			return err
		})
	}
	err := g.Wait()
	return slices.DeleteFunc(found, func(t Tx) bool { return t.ID == "" }), err
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
	addresses, own, outputs, rivals := k.addresses, k.own, k.outputs, k.spends
	// Our outputs: those these transactions spend, and those they made when they were met before.
	var payers []string
	for _, t := range txs {
		if k.pays(t) {
			payers = append(payers, t.ID)
		}
	}
	spenders := map[Outpoint][]spend{}
	if err := tx.Ask(ctx, slices.Concat(askOutputs(tx, w.name, payers, outputs), askSpends(tx, w.name, payers, spenders))); err != nil {
		return err
	}
	state := Seen
	if at.height > 0 {
		state = Mined
	}
	here := arrivals{chain: w.name, at: at}
	for _, t := range txs {
		if slices.ContainsFunc(t.Inputs, func(in Outpoint) bool {
			_, ours := outputs[in]
			return ours || slices.ContainsFunc(rivals[in], func(s spend) bool { return s.txid != t.ID })
		}) {
			if err := here.store(ctx, tx); err != nil { // what this one does to coins may be to those
				return err
			}
		}
		if err := w.conflicts(ctx, tx, n, t, rivals, at.height); err != nil {
			return err
		}
		mine, isOwn := own[t.ID]
		interesting := isOwn
		if isOwn && mine.state != state && mine.state != Mined {
			if ok, err := placeTx(ctx, tx, w.name, mine, state, at.height, t); err != nil {
				return err
			} else if ok {
				n.txs(mine)
			}
		}
		if account, ours := addresses[t.From]; ours && !isOwn && t.From != "" {
			interesting = true
			for _, in := range t.Inputs {
				if !slices.ContainsFunc(rivals[in], func(s spend) bool { return s.txid == t.ID }) {
					n.stranger(t.ID, account.companyID)
				}
			}
		}
		depth := int64(0)
		for _, in := range t.Inputs {
			if coin, ok := outputs[in]; ok {
				interesting = true
				depth = max(depth, coin.depth)
				if met := slices.ContainsFunc(rivals[in], func(s spend) bool { return s.txid == t.ID }); !isOwn && !met {
					n.stranger(t.ID, coin.companyID)
				}
				if err := spendOutput(ctx, tx, w.name, in, t.ID, at.height); err != nil {
					return err
				}
			}
		}
		if depth++; state == Mined || !isOwn {
			depth = 0
		}
		for _, o := range t.Outputs {
			a, ok := addresses[o.Address]
			// What an account of ours sends to another is nobody's payment to us; neither is what it sends to the account that pays, if we
			// made that before the database was restored.
			if _, from := addresses[t.From]; !ok || o.Address == "" || t.From != "" && (isOwn || from && a.objectID == PayingAccount) {
				continue
			}
			interesting = true
			row := output{Outpoint: Outpoint{t.ID, o.Vout}, companyID: a.companyID, branch: a.branch, own: isOwn, state: state, depth: depth, pays: o}
			was, met := outputs[row.Outpoint]
			// What a contract pays may differ from one block to another: then it is another output, and the first never comes.
			for ; met && (was.pays.Address != o.Address || was.pays.Amount != o.Amount || was.pays.Asset != o.Asset); was, met = outputs[row.Outpoint] {
				row.Vout += 1 << 16
			}
			switch {
			case !met:
				want := DefaultConfirmations * w.pace
				if row.silent() {
					want = 1
				}
				if t.Coinbase {
					want = CoinbaseMaturity
				}
				var by spend
				if s := spenders[row.Outpoint]; len(s) > 0 {
					by = s[len(s)-1]
				}
				here.add(tx, row, a, t.Coinbase, want, by)
			case was.state == state || was.state == Mined:
				continue
			default:
				here.move(row, was.state)
			}
			outputs[row.Outpoint] = row
			n.outputs(row)
		}
		if interesting {
			if err := insertSpends(ctx, tx, w.name, t.ID, t.Inputs, at.height); err != nil {
				return err
			}
			for _, in := range t.Inputs {
				rivals[in] = append(rivals[in], spend{prev: in, txid: t.ID, height: at.height})
			}
		}
	}
	return here.store(ctx, tx)
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

// conflicts marks every transaction that spends a coin of t as having lost it.
func (w *Watcher) conflicts(ctx context.Context, tx *db.Tx, n *news, t Tx, rivals map[Outpoint][]spend, height int64) error {
	done := map[string]bool{t.ID: true}
	for _, in := range t.Inputs {
		for _, r := range rivals[in] {
			if done[r.txid] {
				continue
			}
			done[r.txid] = true
			outputs, err := replaceOutputs(ctx, tx, w.name, r.txid, t.ID)
			if err != nil {
				return err
			}
			n.outputs(outputs...)
			txs, err := conflictTx(ctx, tx, w.name, r.txid, t.ID, height)
			if err != nil {
				return err
			}
			n.txs(txs...)
			if err := unspendOutputs(ctx, tx, w.name, r.txid); err != nil {
				return err
			}
		}
	}
	return nil
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
