// Package rail is the contract for "send this amount to that destination".
//
// A rail hands an order that is already written down to somebody outside: a Bitcoin node, a bank.
// It keeps no state of its own that matters. What is promised by every rail, and checked by the
// suite in railtest:
//
//   - Submit with the same order may be repeated for ever; the outside executes it at most once,
//     because the order carries its own identity (the txid, the bank reference).
//   - Submit answers Accepted only when the outside has the order, Refused only when the outside said
//     a definite no to this attempt, and Unclear for everything else: timeouts, broken connections,
//     answers that cannot be read. It never turns doubt into a refusal.
//   - Refused is not proof that the order was never executed: an earlier attempt may have got through.
//     Find tells.
//   - Find answers from what the outside knows, never from memory.
package rail

import (
	"context"
	"fmt"
)

// Order is one instruction, complete and immutable.
type Order struct {
	Reference string // its identity on the outside
	Body      []byte // what is handed over: signed bytes, a payment message
}

// Outcome is what one Submit achieved.
type Outcome int

// The outcomes.
const (
	Unclear Outcome = iota // the zero value: nobody knows
	Accepted
	Refused
)

func (o Outcome) String() string {
	switch o {
	case Accepted:
		return "accepted"
	case Refused:
		return "refused"
	case Unclear:
		return "unclear"
	}
	return fmt.Sprintf("outcome %d", int(o))
}

// Answer is an outcome with the outside's own words, for the log and the operator.
type Answer struct {
	Outcome Outcome
	Reason  string
}

// Rail hands orders to one outside.
type Rail interface {
	// Name says which outside, for logs.
	Name() string
	// Submit hands orders over, each by itself, and has an answer for each. It returns when the outside answered or ctx ended.
	Submit(ctx context.Context, orders ...Order) []Answer
	// Find reports whether the outside has the order with this reference. The error says that the
	// outside could not be asked.
	Find(ctx context.Context, reference string) (bool, error)
}
