// Package onchain pays by Bitcoin transactions.
//
// compose.go decides coins, fee and change and is pure; Rail broadcasts bytes that somebody else has
// already stored. An order is the signed transaction, its reference the txid, so submitting it again can
// never pay twice.
package onchain

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/rail"
)

// Rail broadcasts through one node.
type Rail struct{ Source chain.Source }

var _ rail.Rail = Rail{}

// Name is the network's.
func (r Rail) Name() string { return "onchain " + r.Source.Network() }

// Submit broadcasts the orders' bytes, by one request where the node takes several in one.
func (r Rail) Submit(ctx context.Context, orders ...rail.Order) []rail.Answer {
	answers := make([]rail.Answer, len(orders))
	many, can := r.Source.(chain.Broadcaster)
	if !can || len(orders) == 1 {
		for i, o := range orders {
			answers[i] = answer(r.Source.Broadcast(ctx, o.Body))
		}
		return answers
	}
	raws := make([][]byte, len(orders))
	for i, o := range orders {
		raws[i] = o.Body
	}
	for i, err := range many.BroadcastAll(ctx, raws) {
		answers[i] = answer(err)
	}
	return answers
}

func answer(err error) rail.Answer {
	switch {
	case err == nil:
		return rail.Answer{Outcome: rail.Accepted}
	case errors.Is(err, chain.ErrRejected):
		return rail.Answer{Outcome: rail.Refused, Reason: err.Error()}
	default:
		return rail.Answer{Outcome: rail.Unclear, Reason: err.Error()}
	}
}

// Find looks for the transaction in the node's mempool and chain.
func (r Rail) Find(ctx context.Context, txid string) (bool, error) {
	_, err := r.Source.Tx(ctx, txid)
	if errors.Is(err, chain.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
