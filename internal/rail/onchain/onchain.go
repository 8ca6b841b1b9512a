// Package onchain pays by Bitcoin transactions.
//
// compose.go decides coins, fee and change and is pure; Rail broadcasts bytes that somebody else has
// already stored. An order is the signed transaction, its reference the txid, so submitting it again can
// never pay twice.
package onchain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/rail"
)

// Rail broadcasts through one node. Where that does not take or show a transaction, its witnesses are asked whether they know it.
type Rail struct {
	Source    chain.Source
	Witnesses []chain.Witness
}

var _ rail.Rail = Rail{}

// witnessesWithin bounds the questions to witnesses about what one broadcast left unclear, all together.
const witnessesWithin = 5 * time.Second

// Name is the network's.
func (r Rail) Name() string { return "onchain " + r.Source.Network() }

// Submit broadcasts the orders' bytes, by one request where the node takes several in one. What the node does not answer, and a witness
// knows, has got through.
func (r Rail) Submit(ctx context.Context, orders ...rail.Order) []rail.Answer {
	answers := r.broadcast(ctx, orders)
	ctx, stop := context.WithTimeout(ctx, witnessesWithin)
	defer stop()
	for _, w := range r.Witnesses {
		for i, o := range orders {
			if answers[i].Outcome != rail.Unclear {
				continue
			}
			known, err := knows(ctx, w, o.Reference)
			if err != nil {
				break // the next question would wait as long
			}
			if known {
				answers[i] = rail.Answer{Outcome: rail.Accepted}
			}
		}
	}
	return answers
}

func (r Rail) broadcast(ctx context.Context, orders []rail.Order) []rail.Answer {
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

// Find looks for the transaction in the node's mempool and chain, and in its witnesses'. It is nowhere when all say so.
func (r Rail) Find(ctx context.Context, txid string) (bool, error) {
	known, err := knows(ctx, r.Source, txid)
	for _, w := range r.Witnesses {
		if known {
			break
		}
		var silent error
		if known, silent = knows(ctx, w, txid); silent != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", w.Name, silent))
		}
	}
	if known {
		return true, nil
	}
	return false, err
}

func knows(ctx context.Context, s chain.Source, txid string) (bool, error) {
	_, err := s.Tx(ctx, txid)
	if errors.Is(err, chain.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
