package chain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stipend/stipend/internal/db"
)

// Witness is an additional node of a chain, which confirms what the watcher's own node reports. The watcher asks it
// for block hashes, and callers may ask it for transactions. It is never followed, and nothing is broadcast through
// it. The watcher continues if it does not respond.
type Witness struct {
	Source
	Name string // for the log, without credentials
}

// Alarm is a condition of a chain that staff should investigate.
type Alarm string

// Alarms of a chain. While Contradicted or Behind is raised, no price should be quoted: the payment might be made on a
// chain that the node does not show.
const (
	// Contradicted means that a witness has a different block, at a depth that honest nodes agree on. The watcher
	// neither connects nor disconnects blocks.
	Contradicted Alarm = "contradicted"
	// Behind means that a witness is more than [MaxDivergence] blocks ahead of the watcher's own node.
	Behind Alarm = "behind"
	// WitnessSilent means that a witness does not respond, is on another network, or is itself too far behind to compare
	// blocks.
	WitnessSilent Alarm = "witness_silent"
	// TipStale means that the last block is too old: the node may be disconnected from the network.
	TipStale Alarm = "tip_old"
)

// Alarms lists the alarms, the most severe first.
var Alarms = []Alarm{Contradicted, Behind, WitnessSilent, TipStale}

// MaxDivergence is the number of confirmations by which the tips of two honest nodes may temporarily differ.
const MaxDivergence = 3

// ErrNodesDisagree is returned for a step that was not taken because a witness has different blocks.
var ErrNodesDisagree = errors.New("chain: the nodes disagree about the blocks")

// Health is the result of a watcher's last check of its chain.
type Health struct {
	Alarms  []Alarm
	TipTime time.Time // the timestamp of the last block; zero if unknown
	// verifiedHeight is the height up to which some witness had the recorded blocks at the last check. It is
	// verifiedNone if no witness responded, and verifiedAll if there are no witnesses.
	verifiedHeight int64
	// conflictingWitnesses holds the names of the witnesses that have a different block.
	conflictingWitnesses []string
}

// Unreliable reports whether no price should be quoted for payments on the chain.
func (h Health) Unreliable() bool {
	return slices.Contains(h.Alarms, Contradicted) || slices.Contains(h.Alarms, Behind)
}

func (h Health) equal(o Health) bool {
	return h.verifiedHeight == o.verifiedHeight && h.TipTime.Equal(o.TipTime) && slices.Equal(h.Alarms, o.Alarms) &&
		slices.Equal(h.conflictingWitnesses, o.conflictingWitnesses)
}

// disagreement returns ErrNodesDisagree while a witness has different blocks.
func (h Health) disagreement(chain string) error {
	if slices.Contains(h.Alarms, Contradicted) {
		return fmt.Errorf("%w: %s", ErrNodesDisagree, chain)
	}
	return nil
}

const (
	verifiedAll  int64 = math.MaxInt64
	verifiedNone int64 = -1

	// stepsPerWitnessCheck is the number of steps at the tip between two checks of the witnesses. Each new block is
	// checked too.
	stepsPerWitnessCheck = 5
	// witnessTimeout bounds the requests of one check to a witness, so that an unresponsive one delays the watcher only
	// briefly.
	witnessTimeout = 2 * time.Second
	// failedRetryEvery is the number of checks between two requests to a witness that failed at least twice in a row.
	failedRetryEvery = 10
)

// SetWitnesses sets the witnesses, and the age of the last block, in Bitcoin's block times, above which [TipStale] is
// raised; 0 disables that alarm. Witnesses with the same name are numbered.
func (w *Watcher) SetWitnesses(witnesses []Witness, maxTipAge time.Duration) {
	w.witnesses, w.maxTipAge, w.failedChecks = slices.Clone(witnesses), maxTipAge, make([]int, len(witnesses))
	clear(w.observed)
	count := map[string]int{}
	for i, witness := range witnesses {
		if count[witness.Name]++; count[witness.Name] > 1 {
			w.witnesses[i].Name = fmt.Sprintf("%s#%d", witness.Name, count[witness.Name])
		}
	}
}

// WitnessAhead reports whether a witness was more than [MaxDivergence] blocks ahead at the last check, even if no
// alarm is raised yet. If so, the node may lack blocks that exist.
func (w *Watcher) WitnessAhead() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.observed[Behind]
}

// hashLookup returns the hash of the block at a height, or ErrNotFound if it is not stored any more.
type hashLookup func(ctx context.Context, height int64) (string, error)

// recordedHashes looks hashes up in the stored blocks, and in blocks that are about to be connected above a height.
func (w *Watcher) recordedHashes(above int64, blocks []Block) hashLookup {
	return func(ctx context.Context, height int64) (string, error) {
		if i := height - above - 1; i >= 0 && i < int64(len(blocks)) {
			return blocks[i].Hash, nil
		}
		var stored []string
		err := w.d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			stored = nil
			return tx.Batch(ctx, []db.Statement{hashQuery(w.name, height, &stored)})
		})
		if err == nil && len(stored) == 0 {
			err = ErrNotFound
		}
		return strings.Join(stored, ""), err
	}
}

// chainTip is the last block of a chain to be checked.
type chainTip struct {
	height int64
	time   time.Time
	synced bool // it is the tip of the node's best chain too
}

// witnessReport is the result of a check of one witness.
type witnessReport struct {
	agreedHeight   int64 // the height of a block that both chains have, or verifiedNone
	conflictHeight int64 // the height of a block that differs, or verifiedNone
	blocksAhead    int64 // blocks by which the witness is ahead; negative if it is behind
	err            error // reason why the witness could not be compared
}

// errNotAsked is the error of a witness that failed before and is not due for another request.
var errNotAsked = errors.New("it did not answer")

// askWitness compares a witness with the chain that ends at the height top. If the blocks at the lower of the two
// tips differ, it compares the block that has MaxDivergence confirmations on the higher chain: younger blocks may
// differ between honest nodes.
func (w *Watcher) askWitness(
	ctx context.Context, witness Source, top int64, ours hashLookup,
) (r witnessReport, err error) {
	r = witnessReport{agreedHeight: verifiedNone, conflictHeight: verifiedNone}
	limited, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	var height int64
	if height, _, r.err = witness.Tip(limited); r.err != nil {
		return r, nil
	}
	r.blocksAhead = height - top
	lower := min(top, height)
	settled := max(0, min(lower, max(top, height)-MaxDivergence*w.blocksPerConfirmation+1))
	for _, h := range []int64{lower, settled} {
		mine, err := ours(ctx, h)
		if errors.Is(err, ErrNotFound) {
			r.err = fmt.Errorf("it is %d blocks behind", -r.blocksAhead)
			return r, nil
		}
		if err != nil {
			return r, err
		}
		var theirs string
		if theirs, r.err = witness.BlockHash(limited, h); r.err != nil {
			return r, nil
		}
		if mine == theirs {
			r.agreedHeight = h
			return r, nil
		}
		r.conflictHeight = h
	}
	return r, nil
}

// askWitnesses compares all witnesses concurrently.
func (w *Watcher) askWitnesses(ctx context.Context, top int64, ours hashLookup) ([]witnessReport, error) {
	reports, errs := make([]witnessReport, len(w.witnesses)), make([]error, len(w.witnesses))
	var running sync.WaitGroup
	for i, witness := range w.witnesses {
		if n := w.failedChecks[i]; n > 1 && n%failedRetryEvery != 1 {
			reports[i] = witnessReport{agreedHeight: verifiedNone, conflictHeight: verifiedNone, err: errNotAsked}
			continue
		}
		running.Go(func() { reports[i], errs[i] = w.askWitness(ctx, witness, top, ours) })
	}
	running.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err // the witnesses are not to blame for requests that the caller canceled
	}
	for i, r := range reports {
		if w.failedChecks[i]++; r.err == nil {
			w.failedChecks[i] = 0
		}
	}
	return reports, errors.Join(errs...)
}

// checkHealth returns the health of a chain that ends at top: whether the witnesses agree with it, and whether its
// last block is recent. It logs each alarm that is raised or cleared.
func (w *Watcher) checkHealth(ctx context.Context, s snapshot, top chainTip, ours hashLookup) (Health, error) {
	health := Health{TipTime: top.time, verifiedHeight: verifiedAll}
	observed := map[Alarm][]any{} // for each observed alarm, the attributes for the log
	age, limit := s.now.Sub(top.time), w.maxTipAge/time.Duration(w.blocksPerConfirmation)
	if top.synced && w.maxTipAge > 0 && !top.time.IsZero() && age > limit {
		observed[TipStale] = []any{"age", age.Round(time.Second).String(), "height", top.height}
	}
	reports, err := w.askWitnesses(ctx, top.height, ours)
	if err != nil {
		return s.health, err
	}
	w.applyReports(&health, s.health, top.height, reports, observed)
	w.raiseAlarms(ctx, &health, s.health, top.synced, observed)
	return health, nil
}

// applyReports sets the verified height and the conflicting witnesses from the reports, and adds the alarms that they
// justify.
func (w *Watcher) applyReports(
	health *Health, before Health, top int64, reports []witnessReport, observed map[Alarm][]any,
) {
	// Earlier verifications do not count: the witness may have left that chain since.
	if len(reports) > 0 {
		health.verifiedHeight = verifiedNone
	}
	conflictHeight := verifiedNone
	for i, r := range reports {
		name := w.witnesses[i].Name
		switch {
		case r.err != nil:
			observed[WitnessSilent] = []any{"witness", name, "error", r.err}
			// A witness that contradicted the node and does not respond now still counts as contradicting.
			if slices.Contains(before.conflictingWitnesses, name) {
				health.conflictingWitnesses = append(health.conflictingWitnesses, name)
			}
			continue
		case r.blocksAhead < -MaxDivergence*w.blocksPerConfirmation:
			observed[WitnessSilent] = []any{"witness", name, "blocks_behind", -r.blocksAhead}
		case r.blocksAhead > MaxDivergence*w.blocksPerConfirmation:
			observed[Behind] = []any{"witness", name, "blocks", r.blocksAhead, "height", top}
		}
		if r.agreedHeight == verifiedNone {
			health.conflictingWitnesses = append(health.conflictingWitnesses, name)
			conflictHeight = r.conflictHeight
		}
		health.verifiedHeight = max(health.verifiedHeight, r.agreedHeight)
	}
	if len(health.conflictingWitnesses) > 0 {
		observed[Contradicted] = []any{"witnesses", health.conflictingWitnesses, "height", conflictHeight}
		health.verifiedHeight = verifiedNone
	}
}

// raiseAlarms sets the alarms of health and logs the changes. Behind and WitnessSilent are raised only if two
// consecutive checks observe them, because nodes never learn of a block at the same time.
func (w *Watcher) raiseAlarms(
	ctx context.Context, health *Health, before Health, synced bool, observed map[Alarm][]any,
) {
	for _, a := range Alarms {
		attrs, raised := observed[a]
		wasRaised := slices.Contains(before.Alarms, a)
		switch {
		case a == Contradicted:
		case !synced: // the other alarms are about the tip of the best chain only
			raised = wasRaised
		case a == Behind || a == WitnessSilent:
			raised, w.observed[a] = raised && (wasRaised || w.observed[a]), raised
		}
		if raised {
			health.Alarms = append(health.Alarms, a)
		}
		switch {
		case raised && !wasRaised:
			w.log.ErrorContext(ctx, "alarm: "+a.text(), append(attrs, "alarm", a)...)
		case !raised && wasRaised:
			w.log.InfoContext(ctx, "alarm over: "+a.text(), "alarm", a)
		}
	}
}

// text describes the alarm for the log.
func (a Alarm) text() string {
	switch a {
	case Contradicted:
		return "another node has different blocks; the chain is not followed and no price is quoted until the nodes agree"
	case Behind:
		return "another node is ahead; no price is quoted"
	case WitnessSilent:
		return "a witness does not report its blocks"
	default:
		return "the last block is old"
	}
}

// saveHealth stores the health if it changed. It returns ErrNodesDisagree while a witness has different blocks.
func (w *Watcher) saveHealth(ctx context.Context, s snapshot, health Health) error {
	if !health.equal(s.health) {
		err := w.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			if ok, err := advanceCursor(ctx, tx, w.name, s.tip, s.tip); err != nil || !ok {
				return err
			}
			return setHealth(ctx, tx, w.name, health)
		})
		if err != nil {
			return err
		}
	}
	return health.disagreement(w.name)
}
