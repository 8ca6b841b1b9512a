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
	// Behind is that a witness is more than [Apart] blocks ahead of the watcher's own node.
	Behind Alarm = "behind"
	// WitnessSilent is that a witness does not answer, is on another network, or is itself too far behind to say anything.
	WitnessSilent Alarm = "witness_silent"
	// TipOld is that the last block was made too long ago: the node may be cut off from the others.
	TipOld Alarm = "tip_old"
)

// Alarms are all of them, the gravest first.
var Alarms = []Alarm{Contradicted, Behind, WitnessSilent, TipOld}

// Apart is by how many blocks of Bitcoin's pace two honest nodes may differ for a while.
const Apart = 3

// ErrContradicted is a step that was not taken because a witness has other blocks.
var ErrContradicted = errors.New("chain: the nodes disagree about the blocks")

// Standing is what a chain's watcher thinks of it, beside its blocks.
type Standing struct {
	Alarms  []Alarm
	TipTime time.Time // when the last block was made; zero where that is not known
	// attested is the height up to which a witness, when they were asked last, had the recorded blocks, too: noneAttested where none
	// answered, allAttested where there is none to ask.
	attested int64
	// contradictedBy are the names of the witnesses that have another block.
	contradictedBy []string
}

// Unsure says that no price should be held.
func (s Standing) Unsure() bool {
	return slices.Contains(s.Alarms, Contradicted) || slices.Contains(s.Alarms, Behind)
}

func (s Standing) same(o Standing) bool {
	return s.attested == o.attested && s.TipTime.Equal(o.TipTime) && slices.Equal(s.Alarms, o.Alarms) && slices.Equal(s.contradictedBy, o.contradictedBy)
}

const (
	allAttested  int64 = math.MaxInt64
	noneAttested int64 = -1

	// idleSteps is how many steps at the tip go by between two looks at the witnesses; each new block is a reason of its own.
	idleSteps = 5
	// askWithin bounds a look at a witness: the chain is followed no later for one that hangs.
	askWithin = 2 * time.Second
	// askEvery is how many looks go by between two questions to a witness that is silent, so that one which hangs holds up few blocks.
	// At first it is asked again at once.
	askEvery = 10
)

// Heed gives the watcher witnesses, and an age of the last block from which on the alarm is raised, at the pace of Bitcoin's blocks; 0
// for none. Those of one name, because they are on one host, are numbered.
func (w *Watcher) Heed(witnesses []Witness, old time.Duration) {
	w.witnesses, w.old, w.silent = slices.Clone(witnesses), old, make([]int, len(witnesses))
	clear(w.found)
	times := map[string]int{}
	for i, witness := range witnesses {
		if times[witness.Name]++; times[witness.Name] > 1 {
			w.witnesses[i].Name = fmt.Sprintf("%s#%d", witness.Name, times[witness.Name])
		}
	}
}

// hashes tells which block lies at a height of the chain in question; ErrNotFound where that is not kept any more.
type hashes func(ctx context.Context, height int64) (string, error)

// recorded is the chain of the blocks kept and those about to be connected above a height.
func (w *Watcher) recorded(above int64, blocks []Block) hashes {
	return func(ctx context.Context, height int64) (string, error) {
		if i := height - above - 1; i >= 0 && i < int64(len(blocks)) {
			return blocks[i].Hash, nil
		}
		var kept []string
		err := w.d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			kept = nil
			return tx.Ask(ctx, []db.Question{askKept(w.name, height, &kept)})
		})
		if err == nil && len(kept) == 0 {
			err = ErrNotFound
		}
		return strings.Join(kept, ""), err
	}
}

// tip is the last block of a chain to be judged.
type tip struct {
	height int64
	made   time.Time
	last   bool // of the node's chain, too: nothing is left to catch up with
}

// testimony is what one witness says.
type testimony struct {
	agreed  int64 // the height up to which it is known to have our blocks
	differs int64 // the height of a deep block that it has otherwise, or noneAttested
	ahead   int64 // by how many blocks it is
	silent  error // why it says nothing
}

// errResting is the silence of a witness that was not asked again yet.
var errResting = errors.New("it did not answer")

// testify asks a witness about a chain that ends at top. Its last block, or ours where that is lower, is the same most of the time.
// Where it is not, the block is looked at upon which either chain has enough blocks: the last ones may differ by chance.
func (w *Watcher) testify(ctx context.Context, witness Source, top int64, ours hashes) (t testimony, err error) {
	t = testimony{agreed: noneAttested, differs: noneAttested}
	within, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var height int64
	if height, _, t.silent = witness.Tip(within); t.silent != nil {
		return t, nil
	}
	t.ahead = height - top
	last := min(top, height)
	for _, at := range []int64{last, max(0, min(last, max(top, height)-Apart*w.pace+1))} {
		mine, err := ours(ctx, at)
		if errors.Is(err, ErrNotFound) {
			t.silent = fmt.Errorf("it is %d blocks behind", -t.ahead)
			return t, nil
		}
		if err != nil {
			return t, err
		}
		var theirs string
		if theirs, t.silent = witness.BlockHash(within, at); t.silent != nil {
			return t, nil
		}
		if mine == theirs {
			t.agreed = at
			return t, nil
		}
		t.differs = at
	}
	return t, nil
}

// hear asks all witnesses at once.
func (w *Watcher) hear(ctx context.Context, top int64, ours hashes) ([]testimony, error) {
	all, errs := make([]testimony, len(w.witnesses)), make([]error, len(w.witnesses))
	var asked sync.WaitGroup
	for i, witness := range w.witnesses {
		if n := w.silent[i]; n > 1 && n%askEvery != 1 {
			all[i] = testimony{agreed: noneAttested, differs: noneAttested, silent: errResting}
			continue
		}
		asked.Go(func() { all[i], errs[i] = w.testify(ctx, witness, top, ours) })
	}
	asked.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err // it is we who ended the questions
	}
	for i, t := range all {
		if w.silent[i]++; t.silent == nil {
			w.silent[i] = 0
		}
	}
	return all, errors.Join(errs...)
}

// judge is how the chain stands when it ends at top: what the witnesses have of it, and how old its last block is. It tells the log
// what changed. That a witness is silent or ahead is an alarm when it holds in two looks one after the other.
func (w *Watcher) judge(ctx context.Context, g glance, top tip, ours hashes) (Standing, error) {
	is := Standing{TipTime: top.made, attested: allAttested}
	found := map[Alarm][]any{}
	if age := g.now.Sub(top.made); top.last && w.old > 0 && !top.made.IsZero() && age > w.old/time.Duration(w.pace) {
		found[TipOld] = []any{"age", age.Round(time.Second).String(), "height", top.height}
	}
	all, err := w.hear(ctx, top.height, ours)
	if err != nil {
		return g.standing, err
	}
	// What was attested once counts only as long as a witness says so: it may have left for other blocks since.
	if len(all) > 0 {
		is.attested = noneAttested
	}
	differs := noneAttested
	for i, t := range all {
		name := w.witnesses[i].Name
		switch {
		case t.silent != nil:
			found[WitnessSilent] = []any{"witness", name, "error", t.silent}
			// Whoever contradicted and is silent now has taken nothing back.
			if slices.Contains(g.standing.contradictedBy, name) {
				is.contradictedBy = append(is.contradictedBy, name)
			}
			continue
		case t.ahead < -Apart*w.pace:
			found[WitnessSilent] = []any{"witness", name, "blocks_behind", -t.ahead}
		case t.ahead > Apart*w.pace:
			found[Behind] = []any{"witness", name, "blocks", t.ahead, "height", top.height}
		}
		if t.agreed == noneAttested {
			is.contradictedBy = append(is.contradictedBy, name)
			differs = t.differs
		}
		is.attested = max(is.attested, t.agreed)
	}
	if len(is.contradictedBy) > 0 {
		found[Contradicted] = []any{"witnesses", is.contradictedBy, "height", differs}
		is.attested = noneAttested
	}
	for _, a := range Alarms {
		attrs, raised := found[a]
		before := slices.Contains(g.standing.Alarms, a)
		switch {
		case a == Contradicted:
		case !top.last: // all others are about the last block
			raised = before
		case a == Behind || a == WitnessSilent: // for once it is nothing: no two nodes hear of a block at the same time
			raised, w.found[a] = raised && (before || w.found[a]), raised
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

// settle keeps how the chain stands where that changed, and refuses the step while the nodes disagree.
func (w *Watcher) settle(ctx context.Context, g glance, is Standing) error {
	if !is.same(g.standing) {
		err := w.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			if ok, err := moveCursor(ctx, tx, w.name, g.at, g.at); err != nil || !ok {
				return err
			}
			return setStanding(ctx, tx, w.name, is)
		})
		if err != nil {
			return err
		}
	}
	return is.refuse(w.name)
}

// Ahead says whether a witness was more than [Apart] blocks ahead when they were asked last, even if that is no alarm yet: the node may
// not have shown what it should have by now.
func (w *Watcher) Ahead() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.found[Behind]
}

// refuse is why no step is taken.
func (s Standing) refuse(chain string) error {
	if slices.Contains(s.Alarms, Contradicted) {
		return fmt.Errorf("%w: %s", ErrContradicted, chain)
	}
	return nil
}
