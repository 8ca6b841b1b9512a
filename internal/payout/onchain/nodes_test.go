package onchain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/onchain"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

// node is a node that accepts every transaction and finds it by its ID.
type node struct {
	chain.Source // nil, since Nodes calls only the methods below
	connection   payouttest.Connection
	times        map[string]int
}

func (n *node) Network() string { return "regtest" }

func (n *node) Broadcast(ctx context.Context, raw []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if n.connection == payouttest.LostBefore {
		return errors.New("connection refused")
	}
	var tx wire.MsgTx
	if err := tx.Deserialize(bytes.NewReader(raw)); err != nil {
		return fmt.Errorf("%w: %w", chain.ErrRejected, err)
	}
	n.times[tx.TxID()] = 1
	if n.connection == payouttest.LostAfter {
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

func TestNodes(t *testing.T) {
	payouttest.RunNodes(t, func(*testing.T) payouttest.Network {
		n := &node{times: map[string]int{}}
		made := int64(0)
		return payouttest.Network{
			Nodes: onchain.Nodes{Source: n},
			Sign: func() onchain.Transaction {
				made++
				tx := wire.NewMsgTx(2)
				tx.AddTxIn(wire.NewTxIn(&wire.OutPoint{Index: uint32(made)}, nil, nil))
				tx.AddTxOut(wire.NewTxOut(made, make([]byte, 20)))
				var b bytes.Buffer
				if err := tx.Serialize(&b); err != nil {
					panic(err) // a buffer returns no error
				}
				return onchain.Transaction{TxID: tx.TxID(), Raw: b.Bytes()}
			},
			Refused:  onchain.Transaction{TxID: "00", Raw: []byte("nonsense")},
			Executed: func(ref string) int { return n.times[ref] },
			Set:      func(c payouttest.Connection) { n.connection = c },
		}
	})
}

// A transaction that a witness knows was sent, even if the node does not answer or does not know it. It is not found
// only if all nodes say so.
func TestWitnessesDecideUnknownOutcomes(t *testing.T) {
	ours, other := &node{times: map[string]int{}, connection: payouttest.LostBefore},
		&node{times: map[string]int{"paid": 1}}
	r := onchain.Nodes{Source: ours, Witnesses: []chain.Witness{{Source: other, Name: "second"}}}
	got := r.Submit(t.Context(), onchain.Transaction{TxID: "paid"}, onchain.Transaction{TxID: "lost"})
	if got[0].Outcome != payout.Accepted || got[1].Outcome != payout.Unknown {
		t.Errorf("known to the witness: %v, unknown to all: %v", got[0], got[1])
	}
	for ref, want := range map[string]bool{"paid": true, "lost": false} {
		if found, err := r.Find(t.Context(), ref); err != nil || found != want {
			t.Errorf("%s: %t %v", ref, found, err)
		}
	}
	r.Witnesses = append(r.Witnesses, chain.Witness{Source: silent{}, Name: "third"})
	if found, err := r.Find(t.Context(), "paid"); err != nil || !found {
		t.Errorf("one node knows it, another does not answer: %t %v", found, err)
	}
	if _, err := r.Find(t.Context(), "lost"); err == nil {
		t.Error("not found, although a witness did not answer")
	}
}

type silent struct{ chain.Source }

func (silent) Tx(context.Context, string) (chain.Tx, error) {
	return chain.Tx{}, errors.New("connection refused")
}
