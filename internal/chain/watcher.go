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

// maxScan is the maximum number of new transactions that one mempool scan fetches. It bounds the duration of a step.
const maxScan = 500

// Watcher follows one chain. Several watchers may follow the same chain: each step is a compare-and-set on the
// chain's cursor, and the watcher that loses reads the cursor again.
type Watcher struct {
	d    *db.DB
	name string
	src  Source
	log  *slog.Logger
	// blocksPerConfirmation is the number of blocks that count as one confirmation. It is stored with the cursor, so
	// that other packages can compute confirmations.
	blocksPerConfirmation int64

	mu sync.Mutex
	// known holds the mempool transactions that were already recorded. It only saves requests to the node.
	known map[string]bool
	// missing holds the transactions that the last scan expected in the mempool and did not find. They are dropped only
	// when the next scan misses them too: during a reorganization a node may briefly show a mempool without the
	// transactions of the blocks that it disconnected.
	missing   map[string]bool
	addresses *addressCache // nil unless CacheAddresses was called

	// observedAt is the time of the last complete scan of the mempool at the tip.
	observedAt time.Time

	witnesses     []Witness
	failedChecks  []int          // by witness: the number of consecutive failed requests
	observed      map[Alarm]bool // the alarms that the last check at the tip observed
	initialHealth Health         // the health of a chain that has no cursor yet
	maxTipAge     time.Duration
	stepsAtTip    int
}

// NewWatcher returns a watcher of the chain with the given name, the key of all its rows. On a chain with faster
// blocks than Bitcoin's, blocksPerConfirmation of them count as one confirmation.
func NewWatcher(d *db.DB, name string, src Source, blocksPerConfirmation int64, log *slog.Logger) *Watcher {
	return &Watcher{
		d: d, name: name, src: src, log: log.With("chain", name), blocksPerConfirmation: max(blocksPerConfirmation, 1),
		known: map[string]bool{}, missing: map[string]bool{}, observed: map[Alarm]bool{},
	}
}

// position is the block that holds a transaction. Height 0 means the mempool.
type position struct {
	height int64
	hash   string
	time   time.Time // timestamp of the block
}

// snapshot holds the rows of a chain at the beginning of a step.
type snapshot struct {
	tip                   cursor
	started               bool // the chain has a cursor
	blocksPerConfirmation int64
	parent                []string // the hash of the block below the cursor, if it is stored
	expected              []string // transactions that should be in the mempool
	due                   []string // transactions that have enough confirmations but are not marked confirmed
	health                Health
	now                   time.Time
}

// Step does one unit of work: it connects the next blocks, disconnects one block that left the best chain, or, at the
// tip, scans the mempool. It reports whether there was work to do; a caller repeats it until there is none, and then
// waits.
//
// The first step sets the cursor to the node's tip. Older blocks cannot pay an address that was not assigned yet.
//
// Step returns the errors of the source and the database. It returns ErrNodesDisagree while a witness contradicts the
// node, and ErrTooDeep, which is permanent, for a reorganization deeper than MaxReorg.
func (w *Watcher) Step(ctx context.Context) (progressed bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() {
		if err != nil {
			// After a failover the database may lack the most recent commits, so nothing can be assumed recorded.
			clear(w.known)
			clear(w.missing)
		}
	}()
	s, err := w.readSnapshot(ctx)
	if err != nil {
		return false, err
	}
	if s.started && s.blocksPerConfirmation != w.blocksPerConfirmation {
		return true, w.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			return setBlocksPerConfirmation(ctx, tx, w.name, w.blocksPerConfirmation)
		})
	}
	height, hash, err := w.src.Tip(ctx)
	if err != nil {
		return false, err
	}
	if !s.started {
		return true, w.start(ctx, s, cursor{height, hash})
	}
	if s.tip == (cursor{height, hash}) {
		return w.stepAtTip(ctx, s)
	}
	present, err := w.src.BlockHash(ctx, s.tip.height)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return false, err
	}
	if present != s.tip.hash {
		return w.disconnectTip(ctx, s, height)
	}
	return w.connectNext(ctx, s, height)
}

func (w *Watcher) readSnapshot(ctx context.Context) (s snapshot, err error) {
	err = w.d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		s = snapshot{now: tx.Now()}
		return tx.Batch(ctx, []db.Statement{
			cursorQuery(w.name, &s.tip, &s.blocksPerConfirmation, &s.health, &s.started), parentHashQuery(w.name, &s.parent),
			mempoolQuery(w.name, &s.expected), dueQuery(w.name, &s.due),
		})
	})
	return s, err
}

// Sync calls Step until there is nothing to do.
func (w *Watcher) Sync(ctx context.Context) error {
	for {
		if progressed, err := w.Step(ctx); err != nil || !progressed {
			return err
		}
	}
}

// connectNext connects the blocks after the cursor, up to the node's height.
func (w *Watcher) connectNext(ctx context.Context, s snapshot, height int64) (progressed bool, err error) {
	blocks, err := w.nextBlocks(ctx, s.tip, height)
	if err != nil {
		return false, err
	}
	if len(blocks) == 0 {
		return true, nil // the node switched to another chain during the step
	}
	last := chainTip{height: s.tip.height + int64(len(blocks)), time: blocks[len(blocks)-1].Time}
	last.synced = last.height == height
	health, err := w.checkHealth(ctx, s, last, w.recordedHashes(s.tip.height, blocks))
	if err != nil {
		return false, err
	}
	if health.disagreement(w.name) != nil {
		return false, w.saveHealth(ctx, s, health)
	}
	return true, w.connect(ctx, s.tip, blocks, health)
}

// stepAtTip scans the mempool. It also checks the witnesses at every stepsPerWitnessCheck-th step, and at each step
// while one of them disagrees with the node or is ahead of it.
func (w *Watcher) stepAtTip(ctx context.Context, s snapshot) (bool, error) {
	if w.addresses != nil {
		if err := w.addresses.load(ctx, w.d, w.name); err != nil {
			return false, err
		}
	}
	w.stepsAtTip++
	if w.stepsAtTip%stepsPerWitnessCheck == 1 || w.observed[Behind] || s.health.disagreement(w.name) != nil {
		tip := chainTip{height: s.tip.height, time: s.health.TipTime, synced: true}
		health, err := w.checkHealth(ctx, s, tip, w.recordedHashes(s.tip.height, nil))
		if err == nil {
			err = w.saveHealth(ctx, s, health)
		}
		if err != nil {
			return false, err
		}
	}
	progressed, err := w.scanMempool(ctx, s.tip, s.expected, len(s.due) > 0)
	if err == nil && !progressed {
		w.observedAt = s.now
	}
	return progressed, err
}

// disconnectTip disconnects the last block, which is not in the node's best chain any more. It refuses to if a
// witness contradicts the node, or is ahead of it: the node may have lost blocks that the network still has.
func (w *Watcher) disconnectTip(ctx context.Context, s snapshot, height int64) (bool, error) {
	health, err := w.checkHealth(ctx, s, chainTip{height, s.health.TipTime, true}, w.src.BlockHash)
	if err != nil {
		return false, err
	}
	if len(w.witnesses) > 0 { // the watcher did not record the blocks that the witnesses verified
		health.verifiedHeight = verifiedNone
	}
	if health.Unreliable() || w.observed[Behind] {
		return false, errors.Join(w.saveHealth(ctx, s, health),
			fmt.Errorf("%w: %s, the node does not have block %d any more", ErrNodesDisagree, w.name, s.tip.height))
	}
	if len(s.parent) == 0 {
		return false, fmt.Errorf("%w: %s, block %d %s", ErrTooDeep, w.name, s.tip.height, s.tip.hash)
	}
	return true, w.disconnect(ctx, s.tip, cursor{s.tip.height - 1, s.parent[0]}, health)
}

// These limits apply to one step: blocks that it connects, and transactions after which it takes no further block.
const (
	catchUpBlocks = 16
	catchUpTxs    = 2000
)

// nextBlocks reads consecutive blocks that follow a block, up to a height.
func (w *Watcher) nextBlocks(ctx context.Context, after cursor, upTo int64) ([]Block, error) {
	var blocks []Block
	for txs := 0; after.height < upTo && len(blocks) < catchUpBlocks && txs < catchUpTxs; {
		hash, err := w.src.BlockHash(ctx, after.height+1)
		var b Block
		if err == nil {
			b, err = w.src.Block(ctx, hash)
		}
		if errors.Is(err, ErrNotFound) || err == nil && b.Prev != after.hash {
			break
		}
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
		txs += len(b.Txs)
		after = cursor{after.height + 1, b.Hash}
	}
	return blocks, nil
}

// start creates the cursor at the node's tip.
func (w *Watcher) start(ctx context.Context, s snapshot, top cursor) error {
	b, err := w.src.Block(ctx, top.hash)
	if err != nil {
		return err
	}
	s.health = w.initialHealth
	health, err := w.checkHealth(ctx, s, chainTip{top.height, b.Time, true}, w.src.BlockHash)
	if err != nil {
		return err
	}
	if w.initialHealth = health; health.disagreement(w.name) != nil {
		return fmt.Errorf("chain: %s cannot be watched while the nodes disagree about its blocks", w.name)
	}
	// Older hashes are stored from the start, so that the first reorganization is not a special case.
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
		return setHealth(ctx, tx, w.name, health)
	})
}

// connect records blocks that follow the cursor, and advances it.
func (w *Watcher) connect(ctx context.Context, from cursor, blocks []Block, health Health) error {
	to := cursor{from.height + int64(len(blocks)), blocks[len(blocks)-1].Hash}
	err := w.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if ok, err := advanceCursor(ctx, tx, w.name, from, to); err != nil || !ok {
			return err
		}
		if err := insertBlocks(ctx, tx, w.name, from.height, blocks); err != nil {
			return err
		}
		if err := setHealth(ctx, tx, w.name, health); err != nil {
			return err
		}
		txs, err := w.relevantTxs(ctx, tx, blocks)
		if err != nil {
			return err
		}
		changes := newChanges(w.name)
		for i, b := range blocks {
			at := position{from.height + 1 + int64(i), b.Hash, b.Time}
			if err := w.record(ctx, tx, changes, txs[i], at); err != nil {
				return err
			}
		}
		if err := w.confirm(ctx, tx, changes, to.height); err != nil {
			return err
		}
		changes.enqueue(tx)
		return prune(ctx, tx, w.name, from.height, to.height)
	})
	if err == nil {
		clear(w.missing)
		w.log.DebugContext(ctx, "blocks connected", "blocks", len(blocks), "height", to.height, "hash", to.hash)
	}
	return err
}

// relevantTxs returns, for each block, the transactions that record must process. For a single block it returns all.
// For several blocks it returns those that touch known rows, or that spend from or conflict with an earlier
// transaction of the result.
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
	rows, err := w.loadKnown(ctx, tx, all)
	if err != nil {
		return nil, err
	}
	included, spent := map[string]bool{}, map[Outpoint]bool{}
	for i, b := range blocks {
		for _, t := range b.Txs {
			if !rows.concerns(t) && !slices.ContainsFunc(t.Inputs, func(in Outpoint) bool {
				return included[in.TxID] || spent[in]
			}) {
				continue
			}
			included[t.ID] = true
			for _, in := range t.Inputs {
				spent[in] = true
			}
			txs[i] = append(txs[i], t)
		}
	}
	return txs, nil
}

// disconnect removes the block at the cursor, and returns its transactions and outputs to the mempool.
func (w *Watcher) disconnect(ctx context.Context, from, to cursor, health Health) error {
	err := w.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if ok, err := advanceCursor(ctx, tx, w.name, from, to); err != nil || !ok {
			return err
		}
		if err := deleteBlock(ctx, tx, w.name, from); err != nil {
			return err
		}
		if err := setHealth(ctx, tx, w.name, health); err != nil {
			return err
		}
		changes := newChanges(w.name)
		outputs, err := unmineOutputs(ctx, tx, w.name, from.height)
		if err != nil {
			return err
		}
		changes.outputs(outputs...)
		txs, err := unmineTxs(ctx, tx, w.name, from.height)
		if err != nil {
			return err
		}
		changes.txs(txs...)
		if err := unmineSpends(ctx, tx, w.name, from.height); err != nil {
			return err
		}
		changes.enqueue(tx)
		return nil
	})
	if err == nil {
		// The transactions of the block may be in the mempool or gone: scan the whole mempool again.
		clear(w.known)
		clear(w.missing)
		w.log.WarnContext(ctx, "block disconnected", "height", from.height, "hash", from.hash)
	}
	return err
}

// scanMempool records new transactions of the mempool, drops those that left it, and, if due, confirms outputs and
// transactions.
func (w *Watcher) scanMempool(
	ctx context.Context, tip cursor, expected []string, due bool,
) (progressed bool, err error) {
	txids, err := w.src.Mempool(ctx)
	if err != nil {
		return false, err
	}
	// If a block arrived meanwhile, transactions may have left the mempool for that block.
	if height, hash, err := w.src.Tip(ctx); err != nil || tip != (cursor{height, hash}) {
		return err == nil, err
	}
	present := make(map[string]bool, len(txids))
	var unknown []string
	for _, id := range txids {
		present[id] = true
		if !w.known[id] && len(unknown) < maxScan {
			unknown = append(unknown, id)
		}
	}
	txs, err := w.fetch(ctx, unknown)
	if err != nil {
		return false, err
	}
	gone, missing, err := w.absent(ctx, expected, present)
	if err != nil {
		return false, err
	}
	if len(txs) > 0 || len(gone) > 0 || due {
		if ok, err := w.recordMempool(ctx, tip, txs, gone); err != nil || !ok {
			return err == nil, err
		}
	}
	maps.DeleteFunc(w.known, func(id string, _ bool) bool { return !present[id] })
	for _, t := range txs {
		w.known[t.ID] = true
	}
	w.missing = missing
	return len(unknown) > 0 || len(gone) > 0 || len(missing) > 0, nil
}

// absent returns the expected transactions that are not in the mempool: gone if the previous scan missed them too,
// else missing. Transactions that the node still has are added to present.
func (w *Watcher) absent(
	ctx context.Context, expected []string, present map[string]bool,
) (gone []string, missing map[string]bool, err error) {
	missing = map[string]bool{}
	checker, _ := w.src.(PendingChecker)
	for _, id := range expected {
		if checker != nil && !present[id] {
			if present[id], err = checker.IsPending(ctx, id); err != nil {
				return nil, nil, err
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
	return gone, missing, nil
}

// recordMempool records the result of a mempool scan. It reports false if the cursor changed since the scan.
func (w *Watcher) recordMempool(ctx context.Context, tip cursor, txs []Tx, gone []string) (ok bool, err error) {
	err = w.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		var err error
		if ok, err = advanceCursor(ctx, tx, w.name, tip, tip); err != nil || !ok {
			return err
		}
		changes := newChanges(w.name)
		if err := w.record(ctx, tx, changes, txs, position{}); err != nil {
			return err
		}
		for _, id := range gone {
			if err := w.dropTx(ctx, tx, changes, id); err != nil {
				return err
			}
		}
		if err := w.confirm(ctx, tx, changes, tip.height); err != nil {
			return err
		}
		changes.enqueue(tx)
		return nil
	})
	return ok, err
}

// fetch returns the transactions with the given ids, without those that the node does not have any more.
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
