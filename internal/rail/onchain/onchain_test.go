package onchain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/rail"
	"github.com/stipend/stipend/internal/rail/railtest"
)

// node is a node that believes everything but knows a transaction by its id.
type node struct {
	chain.Source // nil: only what the rail may ask is there
	line         railtest.Line
	times        map[string]int
}

func (n *node) Network() string { return "regtest" }

func (n *node) Broadcast(ctx context.Context, raw []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if n.line == railtest.LostBefore {
		return errors.New("connection refused")
	}
	var tx wire.MsgTx
	if err := tx.Deserialize(bytes.NewReader(raw)); err != nil {
		return fmt.Errorf("%w: %w", chain.ErrRejected, err)
	}
	n.times[tx.TxID()] = 1
	if n.line == railtest.LostAfter {
		return errors.New("connection reset")
	}
	return nil
}

func (n *node) Tx(_ context.Context, txid string) (chain.Tx, error) {
	if n.times[txid] == 0 {
		return chain.Tx{}, chain.ErrNotFound
	}
	return chain.Tx{ID: txid}, nil
}

func TestRail(t *testing.T) {
	railtest.Run(t, func(*testing.T) railtest.Outside {
		n := &node{times: map[string]int{}}
		made := int64(0)
		return railtest.Outside{
			Rail: Rail{Source: n},
			Order: func() rail.Order {
				made++
				tx := wire.NewMsgTx(2)
				tx.AddTxIn(wire.NewTxIn(&wire.OutPoint{Index: uint32(made)}, nil, nil))
				tx.AddTxOut(wire.NewTxOut(made, script(20)))
				var b bytes.Buffer
				if err := tx.Serialize(&b); err != nil {
					panic(err) // a buffer takes everything
				}
				return rail.Order{Reference: tx.TxID(), Body: b.Bytes()}
			},
			Refused:  rail.Order{Reference: "00", Body: []byte("nonsense")},
			Executed: func(ref string) int { return n.times[ref] },
			Set:      func(l railtest.Line) { n.line = l },
		}
	})
}
