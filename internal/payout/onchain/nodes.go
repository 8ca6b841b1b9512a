package onchain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/payout"
)

// Nodes broadcasts transactions through one node and looks for them at that node and at witnesses. Repeating a
// broadcast is harmless, because the network identifies a transaction by its txid.
type Nodes struct {
	Source    chain.Source
	Witnesses []chain.Witness
}

// witnessesWithin limits the time for asking the witnesses about transactions whose broadcast has an unknown outcome.
const witnessesWithin = 5 * time.Second

// Submit broadcasts transactions and returns the answers in the same order. It uses one request if the node accepts
// several transactions. A transaction with an unknown outcome counts as accepted if a witness has it. An unknown
// outcome never becomes a refusal.
func (n Nodes) Submit(ctx context.Context, txs ...Transaction) []payout.Answer {
	answers := n.broadcast(ctx, txs)
	ctx, stop := context.WithTimeout(ctx, witnessesWithin)
	defer stop()
	for _, w := range n.Witnesses {
		for i, t := range txs {
			if answers[i].Outcome != payout.Unknown {
				continue
			}
			known, err := knows(ctx, w, t.TxID)
			if err != nil {
				break // further requests would also time out
			}
			if known {
				answers[i] = payout.Answer{Outcome: payout.Accepted}
			}
		}
	}
	return answers
}

func (n Nodes) broadcast(ctx context.Context, txs []Transaction) []payout.Answer {
	answers := make([]payout.Answer, len(txs))
	many, can := n.Source.(chain.Broadcaster)
	if !can || len(txs) == 1 {
		for i, t := range txs {
			answers[i] = answer(n.Source.Broadcast(ctx, t.Raw))
		}
		return answers
	}
	raws := make([][]byte, len(txs))
	for i, t := range txs {
		raws[i] = t.Raw
	}
	for i, err := range many.BroadcastAll(ctx, raws) {
		answers[i] = answer(err)
	}
	return answers
}

func answer(err error) payout.Answer {
	switch {
	case err == nil:
		return payout.Answer{Outcome: payout.Accepted}
	case errors.Is(err, chain.ErrRejected):
		return payout.Answer{Outcome: payout.Refused, Reason: err.Error()}
	default:
		return payout.Answer{Outcome: payout.Unknown, Reason: err.Error()}
	}
}

// Find reports whether the node or a witness has the transaction in its mempool or chain. It returns false without an
// error only if all of them answered that they do not have it.
func (n Nodes) Find(ctx context.Context, txid string) (bool, error) {
	known, err := knows(ctx, n.Source, txid)
	for _, w := range n.Witnesses {
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
