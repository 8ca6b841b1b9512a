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
)

// second is a node of the same simulated chain, which may have other blocks from a height on.
type second struct {
	*bitcoinsim.Chain
	fork int64
}

func (s *second) BlockHash(ctx context.Context, height int64) (string, error) {
	hash, err := s.Chain.BlockHash(ctx, height)
	if err == nil && s.fork > 0 && height >= s.fork {
		hash = "other " + hash
	}
	return hash, err
}

// lossy is a node that has only the blocks up to a height, unless that is 0.
type lossy struct {
	*bitcoinsim.Chain
	to int64
}

func (l *lossy) Tip(ctx context.Context) (int64, string, error) {
	if l.to == 0 {
		return l.Chain.Tip(ctx)
	}
	hash, err := l.Chain.BlockHash(ctx, l.to)
	return l.to, hash, err
}

func (l *lossy) BlockHash(ctx context.Context, height int64) (string, error) {
	if l.to > 0 && height > l.to {
		return "", chain.ErrNotFound
	}
	return l.Chain.BlockHash(ctx, height)
}

// Nodes may differ by the last two blocks, and may change their minds together, however deep; nobody is disturbed. Blocks that one node has
// otherwise, three deep or more, are not connected even if they come all at once, and a node
// that has lost its blocks takes nothing back.
func TestAWitness(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		node := bitcoinsim.New(d)
		source, witness := &lossy{Chain: node}, &second{Chain: node}
		w := chain.NewWatcher(d, "witnessed", source, 1, slog.New(slog.DiscardHandler))
		w.SetWitnesses([]chain.Witness{{Source: witness, Name: "second"}}, 0)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		stands := func(want int64, alarms ...chain.Alarm) {
			t.Helper()
			must(d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
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
		must(node.Mine(t.Context(), 10))
		must(w.Sync(t.Context()))
		height, _, err := node.Tip(t.Context())
		must(err)

		must(node.Mine(t.Context(), 2))
		witness.fork = height + 1
		must(w.Sync(t.Context()))
		stands(height + 2)
		witness.fork = 0

		must(node.Reorg(t.Context(), 6)) // there is one block more
		must(w.Sync(t.Context()))
		stands(height + 3)

		// The node forgets its last blocks, as one does that reads the chain anew. At once nothing is taken back; the alarm waits for a
		// second look.
		source.to = height - 5
		for _, alarms := range [][]chain.Alarm{nil, {chain.Behind}} {
			if err := w.Sync(t.Context()); !errors.Is(err, chain.ErrNodesDisagree) {
				t.Fatalf("a node that lost its blocks: %v", err)
			}
			stands(height+3, alarms...)
		}
		source.to = 0
		must(w.Sync(t.Context()))

		must(node.Mine(t.Context(), 20))
		witness.fork = height + 4
		for range 3 {
			if err := w.Sync(t.Context()); !errors.Is(err, chain.ErrNodesDisagree) {
				t.Fatalf("the step is answered with %v", err)
			}
			stands(height+3, chain.Contradicted)
		}
		witness.fork = height + 3 + 20
		must(w.Sync(t.Context()))
		stands(height + 23)
	})
}

// gone is a node that does not answer.
type gone struct{ chain.Source }

func (gone) Tip(context.Context) (int64, string, error) {
	return 0, "", errors.New("connection refused")
}

// witnessed is a watched chain of a node, and what to expect of it.
type witnessed struct {
	*testing.T
	d       *db.DB
	node    *bitcoinsim.Chain
	watcher *chain.Watcher
	log     bytes.Buffer
}

func newWitnessed(t *testing.T, d *db.DB, pace int64) *witnessed {
	w := &witnessed{T: t, d: d, node: bitcoinsim.New(d)}
	w.watcher = chain.NewWatcher(d, "witnessed", w.node, pace, slog.New(slog.NewTextHandler(&w.log, nil)))
	return w
}

func (w *witnessed) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *witnessed) mine(blocks int) {
	w.Helper()
	w.must(w.node.Mine(w.Context(), blocks))
}

func (w *witnessed) top() int64 {
	w.Helper()
	height, _, err := w.node.Tip(w.Context())
	w.must(err)
	return height
}

// While nodes disagree nothing goes on, and the one that has other blocks counts on when it falls silent. Another's silence, even if that
// has the same name, keeps nothing up.
func TestOneOfTwoWitnesses(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := newWitnessed(t, d, 1)
		witness := &second{Chain: w.node}
		w.watcher.SetWitnesses([]chain.Witness{{Source: gone{}, Name: "host"}, {Source: witness, Name: "host"}}, 0)
		w.mine(10)
		w.must(w.watcher.Sync(t.Context()))
		witness.fork = w.top() + 1
		w.mine(5)
		if err := w.watcher.Sync(t.Context()); !errors.Is(err, chain.ErrNodesDisagree) {
			t.Fatalf("one of two has other blocks: %v", err)
		}
		// Another process takes over, and that witness is down.
		w.watcher = chain.NewWatcher(d, "witnessed", w.node, 1, slog.New(slog.DiscardHandler))
		w.watcher.SetWitnesses([]chain.Witness{{Source: witness.Chain, Name: "host"}, {Source: gone{}, Name: "host"}}, 0)
		if err := w.watcher.Sync(t.Context()); !errors.Is(err, chain.ErrNodesDisagree) {
			t.Fatalf("one that had other blocks is silent: %v", err)
		}
		witness.fork = 0
		w.watcher.SetWitnesses([]chain.Witness{{Source: gone{}, Name: "host"}, {Source: witness, Name: "host"}}, 0)
		w.must(w.watcher.Sync(t.Context()))
	})
}

// A block counts as attested only while a witness that answers has it: one that left it for others, or says nothing any more, proves
// nothing by what it said before.
func TestAWitnessThatLeaves(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := newWitnessed(t, d, 10)
		witness := &second{Chain: w.node}
		w.watcher.SetWitnesses([]chain.Witness{{Source: gone{}, Name: "silent"}, {Source: witness, Name: "second"}}, 0)
		w.mine(40)
		w.must(w.watcher.Sync(t.Context()))
		txid, err := w.node.Pay(t.Context(), "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080", 5_000)
		w.must(err)
		w.must(d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			return chain.WatchTx(ctx, tx, "witnessed", txid, "cmp_1", "", 1)
		}))
		attested := func(when string, want bool) {
			t.Helper()
			w.mine(1)
			w.must(w.watcher.Sync(t.Context()))
			w.must(d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				found, err := chain.GetTx(ctx, tx, "witnessed", txid)
				if found.State != chain.Mined || found.Verified != want {
					t.Fatalf("%s, the transaction is %+v, want it attested: %v", when, found, want)
				}
				return err
			}))
		}
		attested("in a block that both have", true)
		witness.fork = w.top()
		attested("when the witness has left", false)
		witness.fork = 0
		attested("when it has come back", true)
		w.watcher.SetWitnesses([]chain.Witness{{Source: gone{}, Name: "silent"}}, 0)
		attested("when none answers", false)
		w.watcher.SetWitnesses(nil, 0)
		attested("when there is none to ask", true)
	})
}

// ahead is a node that has heard of so many blocks more.
type ahead struct {
	*bitcoinsim.Chain
	by int64
}

func (a *ahead) Tip(ctx context.Context) (int64, string, error) {
	height, hash, err := a.Chain.Tip(ctx)
	return height + a.by, hash, err
}

// alarms is what the log says of alarms since it was asked last.
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

// Alarms are raised once each, and not for what passes: a node that is ahead or silent once. Blocks that are still to be read change none.
func TestAlarmsDoNotFlap(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := newWitnessed(t, d, 1)
		says := func(when string, want ...string) {
			t.Helper()
			if got := w.alarms(); !slices.Equal(got, want) {
				t.Fatalf("%s: %q, want %q", when, got, want)
			}
		}
		// Nodes that disagree from the first look on.
		witness := &second{Chain: w.node, fork: 1}
		w.watcher.SetWitnesses([]chain.Witness{{Source: witness, Name: "second"}}, 0)
		w.mine(10)
		for range 3 {
			if err := w.watcher.Sync(t.Context()); err == nil || errors.Is(err, chain.ErrNodesDisagree) {
				t.Fatalf("a chain that no row tells of yet: %v", err)
			}
		}
		says("before the first block", "+contradicted")
		witness.fork = 0
		w.must(w.watcher.Sync(t.Context()))
		says("when they agree", "-contradicted")

		second := &ahead{w.node, 0}
		look := func() {
			w.mine(1)
			w.must(w.watcher.Sync(t.Context()))
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
		w.mine(40) // more than are read at once
		w.must(w.watcher.Sync(t.Context()))
		says("many blocks at once")

		w.watcher.SetWitnesses([]chain.Witness{{Source: gone{}, Name: "second"}}, 90*time.Minute)
		step := func(times int) {
			for range times {
				_, err := w.watcher.Step(t.Context())
				w.must(err)
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
		w.must(w.watcher.Sync(t.Context()))
		says("many blocks, all old")
		w.must(w.node.Reorg(t.Context(), 2))
		clock.Advance(91 * time.Minute)
		w.must(w.watcher.Sync(t.Context()))
		says("others in their place, as old")
		look()
		says("a new one", "-tip_old")
	})
}
