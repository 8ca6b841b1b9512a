package chain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stipend/stipend/internal/db"
)

// scanSize bounds the new transactions of one mempool scan, and with it the length of a step.
const scanSize = 500

// Watcher follows one chain. Several watchers of one chain do no harm: each step is a compare-and-set on the cursor, and the
// loser looks again.
//
// A chain has a pace: how many of its blocks stand for one of Bitcoin's where confirmations are counted. It is kept with the
// cursor, for those who count.
type Watcher struct {
	d                     *db.DB
	name                  string
	src                   Source
	blocksPerConfirmation int64
	log                   *slog.Logger

	mu sync.Mutex
	// known are the transactions of the mempool that were looked at. It saves asking the node again; losing it costs time only.
	known map[string]bool
	// missing are transactions that the last scan expected in the mempool and did not find. A node that is just taking a block
	// back may show its mempool before it put the block's transactions there again, so one look is not enough.
	missing   map[string]bool
	addresses *addressCache // nil when it remembers none, see Remember

	// See Heed. Silent is in how many looks, one after the other, each witness said nothing; found is what the last look at the tip found;
	// begun is how a chain stands that could not be begun yet, which no row tells; idle counts the steps at the tip.
	witnesses     []Witness
	failedChecks  []int
	observed      map[Alarm]bool
	initialHealth Health
	maxTipAge     time.Duration
	stepsAtTip    int
}

// NewWatcher returns a watcher of the chain with the given name, the key of all its rows. On a chain with faster blocks than
// Bitcoin's, blocksPerConfirmation of them count as one confirmation.
func NewWatcher(d *db.DB, name string, src Source, blocksPerConfirmation int64, log *slog.Logger) *Watcher {
	return &Watcher{d: d, name: name, src: src, blocksPerConfirmation: max(blocksPerConfirmation, 1), log: log.With("chain", name), known: map[string]bool{}, missing: map[string]bool{},
		observed: map[Alarm]bool{}}
}

// position is where a transaction is: in a block, or at height 0 in the mempool.
type position struct {
	height int64
	hash   string
}

// Step does one thing: connects the next block, or several when there are, takes back one that left the chain, or, at the tip, looks through the
// mempool. It says whether there was something to do, so that a caller repeats it until there is not, and then waits.
//
// The first step starts at the node's tip: nothing older can pay an address that was not yet given out.
//
// Errors are the source's and the database's, and ErrContradicted, after which the step can be repeated, and ErrTooDeep, after which it
// cannot.
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
	var g snapshot
	err = w.d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		g = snapshot{now: tx.Now()}
		return tx.Batch(ctx, []db.Statement{cursorQuery(w.name, &g.tip, &g.blocksPerConfirmation, &g.health, &g.started), parentHashQuery(w.name, &g.parent),
			mempoolQuery(w.name, &g.expected), dueQuery(w.name, &g.due)})
	})
	if err != nil {
		return false, err
	}
	if g.started && g.blocksPerConfirmation != w.blocksPerConfirmation {
		return true, w.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			return setBlocksPerConfirmation(ctx, tx, w.name, w.blocksPerConfirmation)
		})
	}
	height, hash, err := w.src.Tip(ctx)
	if err != nil {
		return false, err
	}
	if !g.started {
		return true, w.start(ctx, g, cursor{height, hash})
	}
	if g.tip == (cursor{height, hash}) {
		return w.stepAtTip(ctx, g)
	}
	here, err := w.src.BlockHash(ctx, g.tip.height)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return false, err
	}
	if here != g.tip.hash {
		return w.disconnectTip(ctx, g, height)
	}
	blocks, err := w.nextBlocks(ctx, g.tip, height)
	if err != nil || len(blocks) == 0 {
		return err == nil, err // without any the chain moved while we looked
	}
	last := chainTip{g.tip.height + int64(len(blocks)), blocks[len(blocks)-1].Time, false}
	last.synced = last.height == height
	is, err := w.checkHealth(ctx, g, last, w.recordedHashes(g.tip.height, blocks))
	if err != nil {
		return false, err
	}
	if is.disagreement(w.name) != nil {
		return false, w.saveHealth(ctx, g, is)
	}
	return true, w.connect(ctx, g.tip, blocks, is)
}

// snapshot is what the rows say when a step begins.
type snapshot struct {
	tip                   cursor
	started               bool
	blocksPerConfirmation int64
	parent, expected, due []string
	health                Health
	now                   time.Time
}

// stepAtTip is a step at the tip. The witnesses are asked now and then, and at each step while they disagree with the node or are ahead.
func (w *Watcher) stepAtTip(ctx context.Context, g snapshot) (bool, error) {
	if w.addresses != nil {
		if err := w.addresses.load(ctx, w.d, w.name); err != nil {
			return false, err
		}
	}
	if w.stepsAtTip++; w.stepsAtTip%stepsPerWitnessCheck == 1 || w.observed[Behind] || g.health.disagreement(w.name) != nil {
		made := g.health.TipTime
		if made.IsZero() { // the block was recorded by a program that did not keep it
			b, err := w.src.Block(ctx, g.tip.hash)
			if err != nil {
				return false, err
			}
			made = b.Time
		}
		is, err := w.checkHealth(ctx, g, chainTip{g.tip.height, made, true}, w.recordedHashes(g.tip.height, nil))
		if err == nil {
			err = w.saveHealth(ctx, g, is)
		}
		if err != nil {
			return false, err
		}
	}
	return w.scan(ctx, g.tip, g.expected, len(g.due) > 0)
}

// disconnectTip disconnects the last block, which the node's chain, up to a height, does not have any more: unless a witness says that the
// node is wrong there, or that it is behind, so that it may only have lost what it had.
func (w *Watcher) disconnectTip(ctx context.Context, g snapshot, height int64) (bool, error) {
	is, err := w.checkHealth(ctx, g, chainTip{height, g.health.TipTime, true}, w.src.BlockHash)
	if err != nil {
		return false, err
	}
	if len(w.witnesses) > 0 { // of what is recorded nothing is known before the chains are one again
		is.verifiedHeight = verifiedNone
	}
	if is.Unreliable() || w.observed[Behind] {
		return false, errors.Join(w.saveHealth(ctx, g, is), fmt.Errorf("%w: %s, block %d is gone", ErrNodesDisagree, w.name, g.tip.height))
	}
	if len(g.parent) == 0 {
		return false, fmt.Errorf("%w: %s, block %d %s", ErrTooDeep, w.name, g.tip.height, g.tip.hash)
	}
	return true, w.disconnect(ctx, g.tip, cursor{g.tip.height - 1, g.parent[0]}, is)
}

// Blocks that one step connects when it catches up: no more than so many, and no more after so many transactions.
const (
	catchUpBlocks = 16
	catchUpTxs    = 2000
)

// nextBlocks reads the next blocks of the chain, each upon the one before, up to a height.
func (w *Watcher) nextBlocks(ctx context.Context, at cursor, upTo int64) ([]Block, error) {
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

func (w *Watcher) start(ctx context.Context, g snapshot, top cursor) error {
	b, err := w.src.Block(ctx, top.hash)
	if err != nil {
		return err
	}
	g.health = w.initialHealth
	is, err := w.checkHealth(ctx, g, chainTip{top.height, b.Time, true}, w.src.BlockHash)
	if err != nil {
		return err
	}
	if w.initialHealth = is; is.disagreement(w.name) != nil {
		return fmt.Errorf("chain: %s cannot be begun while the nodes disagree about its blocks", w.name)
	}
	// Older hashes are kept from the start, so that the first reorganisation is no special case.
	last := []cursor{}
	for h := max(0, top.height-MaxReorg); h < top.height; h++ {
		hash, err := w.src.BlockHash(ctx, h)
		if err != nil {
			return err
		}
		last = append(last, cursor{h, hash})
	}
	last = append(last, top)
	return w.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if ok, err := startCursor(ctx, tx, w.name, w.blocksPerConfirmation, last); err != nil || !ok {
			return err
		}
		return setHealth(ctx, tx, w.name, is)
	})
}

func (w *Watcher) connect(ctx context.Context, from cursor, blocks []Block, is Health) error {
	to := cursor{from.height + int64(len(blocks)), blocks[len(blocks)-1].Hash}
	err := w.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if ok, err := advanceCursor(ctx, tx, w.name, from, to); err != nil || !ok {
			return err
		}
		if err := insertBlocks(ctx, tx, w.name, from.height, blocks); err != nil {
			return err
		}
		if err := setHealth(ctx, tx, w.name, is); err != nil {
			return err
		}
		txs, err := w.relevantTxs(ctx, tx, blocks)
		if err != nil {
			return err
		}
		n := changes{chain: w.name, seen: map[Outpoint]bool{}}
		for i, b := range blocks {
			if err := w.record(ctx, tx, &n, txs[i], position{from.height + 1 + int64(i), b.Hash}); err != nil {
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

// relevantTxs gives the transactions of each block that record has to look at: of several blocks, most of which hold nothing of ours,
// only those that touch what is known, or what one before them touches.
func (w *Watcher) relevantTxs(ctx context.Context, tx *db.Tx, blocks []Block) ([][]Tx, error) {
	txs := make([][]Tx, len(blocks))
	if len(blocks) == 1 {
		txs[0] = blocks[0].Txs
		return txs, nil
	}
	var all []Tx
	for _, b := range blocks {
		all = append(all, b.Txs...)
	}
	k, err := w.loadKnown(ctx, tx, all)
	if err != nil {
		return nil, err
	}
	met, spent := map[string]bool{}, map[Outpoint]bool{}
	for i, b := range blocks {
		for _, t := range b.Txs {
			if !k.concerns(t) && !slices.ContainsFunc(t.Inputs, func(in Outpoint) bool { return met[in.TxID] || spent[in] }) {
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

func (w *Watcher) disconnect(ctx context.Context, from, to cursor, is Health) error {
	err := w.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if ok, err := advanceCursor(ctx, tx, w.name, from, to); err != nil || !ok {
			return err
		}
		if err := deleteBlock(ctx, tx, w.name, from); err != nil {
			return err
		}
		if err := setHealth(ctx, tx, w.name, is); err != nil {
			return err
		}
		n := changes{chain: w.name, seen: map[Outpoint]bool{}}
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
	waiter, _ := w.src.(PendingChecker)
	for _, id := range expected {
		if waiter != nil && !present[id] {
			if present[id], err = waiter.IsPending(ctx, id); err != nil {
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
			ok, err := advanceCursor(ctx, tx, w.name, at, at)
			if raced = !ok; err != nil || !ok {
				return err
			}
			n := changes{chain: w.name, seen: map[Outpoint]bool{}}
			if err := w.record(ctx, tx, &n, txs, position{}); err != nil {
				return err
			}
			for _, id := range gone {
				if err := w.dropTx(ctx, tx, &n, id); err != nil {
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
