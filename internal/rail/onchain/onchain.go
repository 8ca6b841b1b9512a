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

// Submit broadcasts the order's bytes.
func (r Rail) Submit(ctx context.Context, o rail.Order) rail.Answer {
	err := r.Source.Broadcast(ctx, o.Body)
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
