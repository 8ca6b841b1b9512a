package chain_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/testkit"
)

// forkedNode is a node of a simulated chain. Its blocks from the height fork on differ, unless fork is 0.
type forkedNode struct {
	*bitcoinsim.Chain
	fork int64
}

func (s *forkedNode) BlockHash(ctx context.Context, height int64) (string, error) {
	hash, err := s.Chain.BlockHash(ctx, height)
	if err == nil && s.fork > 0 && height >= s.fork {
		hash = "other " + hash
	}
	return hash, err
}

// truncatedNode is a node of a simulated chain without the blocks above the height to, unless to is 0.
type truncatedNode struct {
	*bitcoinsim.Chain
	to int64
}

func (l *truncatedNode) Tip(ctx context.Context) (int64, string, error) {
	if l.to == 0 {
		return l.Chain.Tip(ctx)
	}
	hash, err := l.Chain.BlockHash(ctx, l.to)
	return l.to, hash, err
}

func (l *truncatedNode) BlockHash(ctx context.Context, height int64) (string, error) {
	if l.to > 0 && height > l.to {
		return "", chain.ErrNotFound
	}
	return l.Chain.BlockHash(ctx, height)
}

// The tips of two nodes may differ by two blocks, and both nodes may reorganize to any depth; no alarm is raised. The
// watcher does not connect blocks in which the witness differs three blocks deep or more. It disconnects nothing when
// its own node has lost blocks.
func TestWatcherStopsWhileAWitnessDisagrees(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		node := bitcoinsim.New(d)
		source, witness := &truncatedNode{Chain: node}, &forkedNode{Chain: node}
		w := chain.NewWatcher(d, "witnessed", source, 1, slog.New(slog.DiscardHandler))
		w.SetWitnesses([]chain.Witness{{Source: witness, Name: "second"}}, 0)
		wantTip := func(want int64, alarms ...chain.Alarm) {
			t.Helper()
			testkit.Check(t, d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				at, _, err := chain.Tip(ctx, tx, "witnessed")
				if err != nil {
					return err
				}
				all, err := chain.LoadHealth(ctx, tx)
				if got := all["witnessed"]; at != want || !slices.Equal(got.Alarms, alarms) {
					t.Fatalf("at block %d with alarms %v, want block %d and %v", at, got.Alarms, want, alarms)
				}
				return err
			}))
		}
		testkit.Check(t, node.Mine(t.Context(), 10))
		testkit.Check(t, w.Sync(t.Context()))
		height, _, err := node.Tip(t.Context())
		testkit.Check(t, err)

		testkit.Check(t, node.Mine(t.Context(), 2))
		witness.fork = height + 1
		testkit.Check(t, w.Sync(t.Context()))
		wantTip(height + 2)
		witness.fork = 0

		testkit.Check(t, node.Reorg(t.Context(), 6)) // the chain after the reorganization is one block longer
		testkit.Check(t, w.Sync(t.Context()))
		wantTip(height + 3)

		// The node loses its last blocks, like one that reindexes. The watcher disconnects nothing, and raises the alarm at
		// the second check.
		source.to = height - 5
		for _, alarms := range [][]chain.Alarm{nil, {chain.Behind}} {
			if err := w.Sync(t.Context()); !errors.Is(err, chain.ErrNodesDisagree) {
				t.Fatalf("a node that lost its blocks: %v", err)
			}
			wantTip(height+3, alarms...)
		}
		source.to = 0
		testkit.Check(t, w.Sync(t.Context()))

		testkit.Check(t, node.Mine(t.Context(), 20))
		witness.fork = height + 4
		for range 3 {
			if err := w.Sync(t.Context()); !errors.Is(err, chain.ErrNodesDisagree) {
				t.Fatalf("the step returned %v", err)
			}
			wantTip(height+3, chain.Contradicted)
		}
		witness.fork = height + 3 + 20
		testkit.Check(t, w.Sync(t.Context()))
		wantTip(height + 23)
	})
}

// downNode is a node that does not respond.
type downNode struct{ chain.Source }

func (downNode) Tip(context.Context) (int64, string, error) {
	return 0, "", errors.New("connection refused")
}

// witnessed is a watcher of a simulated chain.
type witnessed struct {
	*testing.T
	d       *db.DB
	node    *bitcoinsim.Chain
	watcher *chain.Watcher
	log     bytes.Buffer
}

func newWitnessed(t *testing.T, d *db.DB, blocksPerConfirmation int64) *witnessed {
	w := &witnessed{T: t, d: d, node: bitcoinsim.New(d)}
	w.watcher = chain.NewWatcher(d, "witnessed", w.node, blocksPerConfirmation, slog.New(slog.NewTextHandler(&w.log, nil)))
	return w
}

func (w *witnessed) mine(blocks int) {
	w.Helper()
	testkit.Check(w, w.node.Mine(w.Context(), blocks))
}

func (w *witnessed) top() int64 {
	w.Helper()
	height, _, err := w.node.Tip(w.Context())
	testkit.Check(w, err)
	return height
}

// A watcher connects no block while one of its witnesses contradicts the node, even after that witness stops
// responding. A witness that does not respond, even one with the same name, does not stop the watcher.
func TestOneContradictingWitnessOfTwoIsEnough(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := newWitnessed(t, d, 1)
		witness := &forkedNode{Chain: w.node}
		w.watcher.SetWitnesses([]chain.Witness{{Source: downNode{}, Name: "host"}, {Source: witness, Name: "host"}}, 0)
		w.mine(10)
		testkit.Check(w, w.watcher.Sync(t.Context()))
		witness.fork = w.top() + 1
		w.mine(5)
		if err := w.watcher.Sync(t.Context()); !errors.Is(err, chain.ErrNodesDisagree) {
			t.Fatalf("one of two has other blocks: %v", err)
		}
		// Another process takes over, and the contradicting witness is down.
		w.watcher = chain.NewWatcher(d, "witnessed", w.node, 1, slog.New(slog.DiscardHandler))
		w.watcher.SetWitnesses([]chain.Witness{{Source: witness.Chain, Name: "host"}, {Source: downNode{}, Name: "host"}}, 0)
		if err := w.watcher.Sync(t.Context()); !errors.Is(err, chain.ErrNodesDisagree) {
			t.Fatalf("the contradicting witness is silent: %v", err)
		}
		witness.fork = 0
		w.watcher.SetWitnesses([]chain.Witness{{Source: downNode{}, Name: "host"}, {Source: witness, Name: "host"}}, 0)
		testkit.Check(w, w.watcher.Sync(t.Context()))
	})
}

// A block is verified only while a responding witness has it. An earlier answer does not count once the witness has
// left that chain.
func TestABlockIsVerifiedWhileAWitnessHasIt(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := newWitnessed(t, d, 10)
		witness := &forkedNode{Chain: w.node}
		w.watcher.SetWitnesses([]chain.Witness{{Source: downNode{}, Name: "silent"}, {Source: witness, Name: "second"}}, 0)
		w.mine(40)
		testkit.Check(w, w.watcher.Sync(t.Context()))
		txid := testkit.Must(w.node.Pay(t.Context(), "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080", 5_000))
		testkit.Check(w, d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			return chain.WatchTx(ctx, tx, "witnessed", txid, "cmp_1", "", 1)
		}))
		verified := func(when string, want bool) {
			t.Helper()
			w.mine(1)
			testkit.Check(w, w.watcher.Sync(t.Context()))
			testkit.Check(w, d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				found, err := chain.GetTx(ctx, tx, "witnessed", txid)
				if found.State != chain.Mined || found.Verified != want {
					t.Fatalf("%s, the transaction is %+v, want it verified: %v", when, found, want)
				}
				return err
			}))
		}
		verified("in a block that both have", true)
		witness.fork = w.top()
		verified("when the witness has left", false)
		witness.fork = 0
		verified("when it has come back", true)
		w.watcher.SetWitnesses([]chain.Witness{{Source: downNode{}, Name: "silent"}}, 0)
		verified("when none answers", false)
		w.watcher.SetWitnesses(nil, 0)
		verified("when there is none to ask", true)
	})
}

// aheadNode is a node that has more blocks than the watcher's: the number in by.
type aheadNode struct {
	*bitcoinsim.Chain
	by int64
}

func (a *aheadNode) Tip(ctx context.Context) (int64, string, error) {
	height, hash, err := a.Chain.Tip(ctx)
	return height + a.by, hash, err
}

// alarms returns the alarms that were logged since the last call: +name for a raised one, -name for a cleared one.
func (w *witnessed) alarms() (all []string) {
	for line := range strings.Lines(w.log.String()) {
		if _, after, ok := strings.Cut(line, "level=ERROR"); ok {
			_, after, _ = strings.Cut(after, " alarm=")
			all = append(all, "+"+strings.TrimSpace(after))
		} else if _, after, ok = strings.Cut(line, "alarm over"); ok {
			_, after, _ = strings.Cut(after, " alarm=")
			all = append(all, "-"+strings.TrimSpace(after))
		}
	}
	w.log.Reset()
	return all
}

// Each alarm is logged once. None is raised for a node that is ahead or silent at one check only, and none changes
// during catch-up.
func TestEachAlarmIsLoggedOnce(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := newWitnessed(t, d, 1)
		says := func(when string, want ...string) {
			t.Helper()
			if got := w.alarms(); !slices.Equal(got, want) {
				t.Fatalf("%s: %q, want %q", when, got, want)
			}
		}
		// The nodes disagree from the first check on.
		witness := &forkedNode{Chain: w.node, fork: 1}
		w.watcher.SetWitnesses([]chain.Witness{{Source: witness, Name: "second"}}, 0)
		w.mine(10)
		for range 3 {
			if err := w.watcher.Sync(t.Context()); err == nil || errors.Is(err, chain.ErrNodesDisagree) {
				t.Fatalf("a chain without a cursor: %v", err)
			}
		}
		says("before the first block", "+contradicted")
		witness.fork = 0
		testkit.Check(w, w.watcher.Sync(t.Context()))
		says("when they agree", "-contradicted")

		second := &aheadNode{w.node, 0}
		look := func() {
			w.mine(1)
			testkit.Check(w, w.watcher.Sync(t.Context()))
		}
		w.watcher.SetWitnesses([]chain.Witness{{Source: second, Name: "second"}}, 0)
		look()
		second.by = chain.MaxDivergence + 1
		w.mine(1)
		if _, err := w.watcher.Step(t.Context()); err != nil || !w.watcher.WitnessAhead() {
			t.Fatalf("a node ahead is not noticed: %v", err)
		}
		second.by = 0
		look()
		says("ahead once")
		second.by = chain.MaxDivergence + 1
		look()
		look()
		says("ahead for two looks", "+behind")
		second.by = 0
		look()
		says("no more", "-behind")
		w.mine(40) // one step cannot connect so many blocks
		testkit.Check(w, w.watcher.Sync(t.Context()))
		says("many blocks at once")

		w.watcher.SetWitnesses([]chain.Witness{{Source: downNode{}, Name: "second"}}, 90*time.Minute)
		step := func(times int) {
			for range times {
				testkit.Must(w.watcher.Step(t.Context()))
			}
		}
		w.mine(1)
		step(1)
		says("silent once")
		clock.Advance(91 * time.Minute)
		step(12)
		says("for long, and no block is found", "+witness_silent", "+tip_old")
		w.mine(40)
		clock.Advance(91 * time.Minute)
		testkit.Check(w, w.watcher.Sync(t.Context()))
		says("many blocks, all old")
		testkit.Check(w, w.node.Reorg(t.Context(), 2))
		clock.Advance(91 * time.Minute)
		testkit.Check(w, w.watcher.Sync(t.Context()))
		says("others in their place, as old")
		look()
		says("a new one", "-tip_old")
	})
}
