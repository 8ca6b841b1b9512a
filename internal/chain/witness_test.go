package chain_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/sim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
)

// second is a node of the same simulated chain, which may have other blocks from a height on.
type second struct {
	*sim.Chain
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
	*sim.Chain
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
		node := sim.New(d)
		source, witness := &lossy{Chain: node}, &second{Chain: node}
		w := chain.NewWatcher(d, "witnessed", source, slog.New(slog.DiscardHandler))
		w.Heed([]chain.Witness{{Source: witness, Name: "second"}}, 0)
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
				all, err := chain.Standings(ctx, tx)
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

		// The node forgets its last blocks, as one does that reads the chain anew.
		source.to = height - 5
		if err := w.Sync(t.Context()); !errors.Is(err, chain.ErrContradicted) {
			t.Fatalf("a node that lost its blocks: %v", err)
		}
		stands(height+3, chain.Behind)
		source.to = 0
		must(w.Sync(t.Context()))

		must(node.Mine(t.Context(), 20))
		witness.fork = height + 4
		for range 3 {
			if err := w.Sync(t.Context()); !errors.Is(err, chain.ErrContradicted) {
				t.Fatalf("the step is answered with %v", err)
			}
			stands(height+3, chain.Contradicted, chain.Behind)
		}
		witness.fork = height + 3 + 20
		must(w.Sync(t.Context()))
		stands(height + 23)
	})
}
