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

// Witness is a further node of a chain. It is only asked: whether it has the blocks that the watcher's own node shows, and whether it
// knows a transaction. Nothing is followed or broadcast through it, and one that is silent stops nothing.
type Witness struct {
	Source
	Name string // for the log, without credentials
}

// Alarm is something about a chain that a person should look at.
type Alarm string

// The alarms. While one of the first two stands, no price should be held: nobody knows on which chain it would be paid.
const (
	// Contradicted is that a witness has another block, so deep that it is no chance. The watcher stands still: it neither believes
	// its own node nor takes anything back.
	Contradicted Alarm = "contradicted"
	// Behind is that a witness is more than [MaxDivergence] blocks ahead of the watcher's own node.
	Behind Alarm = "behind"
	// WitnessSilent is that a witness does not answer, is on another network, or is itself too far behind to say anything.
	WitnessSilent Alarm = "witness_silent"
	// TipStale is that the last block was made too long ago: the node may be cut off from the others.
	TipStale Alarm = "tip_old"
)

// Alarms are all of them, the gravest first.
var Alarms = []Alarm{Contradicted, Behind, WitnessSilent, TipStale}

// Apart is by how many blocks of Bitcoin's pace two honest nodes may differ for a while.
const MaxDivergence = 3

// ErrContradicted is a step that was not taken because a witness has other blocks.
var ErrNodesDisagree = errors.New("chain: the nodes disagree about the blocks")

// Health is what a chain's watcher thinks of it, beside its blocks.
type Health struct {
	Alarms  []Alarm
	TipTime time.Time // when the last block was made; zero where that is not known
	// verifiedHeight is the height up to which a witness, when they were asked last, had the recorded blocks, too: noneAttested where none
	// answered, allAttested where there is none to ask.
	verifiedHeight int64
	// conflictingWitnesses are the names of the witnesses that have another block.
	conflictingWitnesses []string
}

// Unreliable says that no price should be held.
func (s Health) Unreliable() bool {
	return slices.Contains(s.Alarms, Contradicted) || slices.Contains(s.Alarms, Behind)
}

func (s Health) equal(o Health) bool {
	return s.verifiedHeight == o.verifiedHeight && s.TipTime.Equal(o.TipTime) && slices.Equal(s.Alarms, o.Alarms) && slices.Equal(s.conflictingWitnesses, o.conflictingWitnesses)
}

const (
	verifiedAll  int64 = math.MaxInt64
	verifiedNone int64 = -1

	// stepsPerWitnessCheck is how many steps at the tip go by between two looks at the witnesses; each new block is a reason of its own.
	stepsPerWitnessCheck = 5
	// witnessTimeout bounds a look at a witness: the chain is followed no later for one that hangs.
	witnessTimeout = 2 * time.Second
	// failedRetryEvery is how many looks go by between two questions to a witness that is silent, so that one which hangs holds up few blocks.
	// At first it is asked again at once.
	failedRetryEvery = 10
)

// SetWitnesses gives the watcher witnesses, and an age of the last block from which on the alarm is raised, at the pace of Bitcoin's blocks; 0
// for none. Those of one name, because they are on one host, are numbered.
func (w *Watcher) SetWitnesses(witnesses []Witness, old time.Duration) {
	w.witnesses, w.maxTipAge, w.failedChecks = slices.Clone(witnesses), old, make([]int, len(witnesses))
	clear(w.observed)
	times := map[string]int{}
	for i, witness := range witnesses {
		if times[witness.Name]++; times[witness.Name] > 1 {
			w.witnesses[i].Name = fmt.Sprintf("%s#%d", witness.Name, times[witness.Name])
		}
	}
}

// hashLookup tells which block lies at a height of the chain in question; ErrNotFound where that is not kept any more.
type hashLookup func(ctx context.Context, height int64) (string, error)

// recordedHashes is the chain of the blocks kept and those about to be connected above a height.
func (w *Watcher) recordedHashes(above int64, blocks []Block) hashLookup {
	return func(ctx context.Context, height int64) (string, error) {
		if i := height - above - 1; i >= 0 && i < int64(len(blocks)) {
			return blocks[i].Hash, nil
		}
		var kept []string
		err := w.d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			kept = nil
			return tx.Batch(ctx, []db.Statement{hashQuery(w.name, height, &kept)})
		})
		if err == nil && len(kept) == 0 {
			err = ErrNotFound
		}
		return strings.Join(kept, ""), err
	}
}

// chainTip is the last block of a chain to be judged.
type chainTip struct {
	height int64
	time   time.Time
	synced bool // of the node's chain, too: nothing is left to catch up with
}

// witnessReport is what one witness says.
type witnessReport struct {
	agreedHeight   int64 // the height up to which it is known to have our blocks
	conflictHeight int64 // the height of a deep block that it has otherwise, or noneAttested
	blocksAhead    int64 // by how many blocks it is
	err            error // why it says nothing
}

// errResting is the silence of a witness that was not asked again yet.
var errNotAsked = errors.New("it did not answer")

// askWitness asks a witness about a chain that ends at top. Its last block, or ours where that is lower, is the same most of the time.
// Where it is not, the block is looked at upon which either chain has enough blocks: the last ones may differ by chance.
func (w *Watcher) askWitness(ctx context.Context, witness Source, top int64, ours hashLookup) (t witnessReport, err error) {
	t = witnessReport{agreedHeight: verifiedNone, conflictHeight: verifiedNone}
	within, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	var height int64
	if height, _, t.err = witness.Tip(within); t.err != nil {
		return t, nil
	}
	t.blocksAhead = height - top
	last := min(top, height)
	for _, at := range []int64{last, max(0, min(last, max(top, height)-MaxDivergence*w.blocksPerConfirmation+1))} {
		mine, err := ours(ctx, at)
		if errors.Is(err, ErrNotFound) {
			t.err = fmt.Errorf("it is %d blocks behind", -t.blocksAhead)
			return t, nil
		}
		if err != nil {
			return t, err
		}
		var theirs string
		if theirs, t.err = witness.BlockHash(within, at); t.err != nil {
			return t, nil
		}
		if mine == theirs {
			t.agreedHeight = at
			return t, nil
		}
		t.conflictHeight = at
	}
	return t, nil
}

// askWitnesses asks all witnesses at once.
func (w *Watcher) askWitnesses(ctx context.Context, top int64, ours hashLookup) ([]witnessReport, error) {
	all, errs := make([]witnessReport, len(w.witnesses)), make([]error, len(w.witnesses))
	var asked sync.WaitGroup
	for i, witness := range w.witnesses {
		if n := w.failedChecks[i]; n > 1 && n%failedRetryEvery != 1 {
			all[i] = witnessReport{agreedHeight: verifiedNone, conflictHeight: verifiedNone, err: errNotAsked}
			continue
		}
		asked.Go(func() { all[i], errs[i] = w.askWitness(ctx, witness, top, ours) })
	}
	asked.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err // it is we who ended the questions
	}
	for i, t := range all {
		if w.failedChecks[i]++; t.err == nil {
			w.failedChecks[i] = 0
		}
	}
	return all, errors.Join(errs...)
}

// checkHealth is how the chain stands when it ends at top: what the witnesses have of it, and how old its last block is. It tells the log
// what changed. That a witness is silent or ahead is an alarm when it holds in two looks one after the other.
func (w *Watcher) checkHealth(ctx context.Context, g snapshot, top chainTip, ours hashLookup) (Health, error) {
	is := Health{TipTime: top.time, verifiedHeight: verifiedAll}
	found := map[Alarm][]any{}
	if age := g.now.Sub(top.time); top.synced && w.maxTipAge > 0 && !top.time.IsZero() && age > w.maxTipAge/time.Duration(w.blocksPerConfirmation) {
		found[TipStale] = []any{"age", age.Round(time.Second).String(), "height", top.height}
	}
	all, err := w.askWitnesses(ctx, top.height, ours)
	if err != nil {
		return g.health, err
	}
	// What was attested once counts only as long as a witness says so: it may have left for other blocks since.
	if len(all) > 0 {
		is.verifiedHeight = verifiedNone
	}
	differs := verifiedNone
	for i, t := range all {
		name := w.witnesses[i].Name
		switch {
		case t.err != nil:
			found[WitnessSilent] = []any{"witness", name, "error", t.err}
			// Whoever contradicted and is silent now has taken nothing back.
			if slices.Contains(g.health.conflictingWitnesses, name) {
				is.conflictingWitnesses = append(is.conflictingWitnesses, name)
			}
			continue
		case t.blocksAhead < -MaxDivergence*w.blocksPerConfirmation:
			found[WitnessSilent] = []any{"witness", name, "blocks_behind", -t.blocksAhead}
		case t.blocksAhead > MaxDivergence*w.blocksPerConfirmation:
			found[Behind] = []any{"witness", name, "blocks", t.blocksAhead, "height", top.height}
		}
		if t.agreedHeight == verifiedNone {
			is.conflictingWitnesses = append(is.conflictingWitnesses, name)
			differs = t.conflictHeight
		}
		is.verifiedHeight = max(is.verifiedHeight, t.agreedHeight)
	}
	if len(is.conflictingWitnesses) > 0 {
		found[Contradicted] = []any{"witnesses", is.conflictingWitnesses, "height", differs}
		is.verifiedHeight = verifiedNone
	}
	for _, a := range Alarms {
		attrs, raised := found[a]
		before := slices.Contains(g.health.Alarms, a)
		switch {
		case a == Contradicted:
		case !top.synced: // all others are about the last block
			raised = before
		case a == Behind || a == WitnessSilent: // for once it is nothing: no two nodes hear of a block at the same time
			raised, w.observed[a] = raised && (before || w.observed[a]), raised
		}
		if raised {
			is.Alarms = append(is.Alarms, a)
		}
		switch {
		case raised && !before:
			w.log.ErrorContext(ctx, "alarm: "+a.text(), append(attrs, "alarm", a)...)
		case !raised && before:
			w.log.InfoContext(ctx, "alarm over: "+a.text(), "alarm", a)
		}
	}
	return is, nil
}

// text is an alarm in words.
func (a Alarm) text() string {
	switch a {
	case Contradicted:
		return "another node has other blocks; the chain is not followed and no price is given before they agree"
	case Behind:
		return "another node is ahead; no price is given"
	case WitnessSilent:
		return "a witness says nothing about the chain"
	default:
		return "the last block is old"
	}
}

// saveHealth keeps how the chain stands where that changed, and refuses the step while the nodes disagree.
func (w *Watcher) saveHealth(ctx context.Context, g snapshot, is Health) error {
	if !is.equal(g.health) {
		err := w.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			if ok, err := advanceCursor(ctx, tx, w.name, g.tip, g.tip); err != nil || !ok {
				return err
			}
			return setHealth(ctx, tx, w.name, is)
		})
		if err != nil {
			return err
		}
	}
	return is.disagreement(w.name)
}

// WitnessAhead says whether a witness was more than [MaxDivergence] blocks ahead when they were asked last, even if that is no alarm yet: the node may
// not have shown what it should have by now.
func (w *Watcher) WitnessAhead() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.observed[Behind]
}

// disagreement is why no step is taken.
func (s Health) disagreement(chain string) error {
	if slices.Contains(s.Alarms, Contradicted) {
		return fmt.Errorf("%w: %s", ErrNodesDisagree, chain)
	}
	return nil
}
