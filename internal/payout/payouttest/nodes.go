package payouttest

import (
	"context"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/onchain"
)

// Network is a node of a chain, with functions that control the node.
type Network struct {
	Nodes onchain.Nodes
	// Sign returns a new valid transaction.
	Sign func() onchain.Transaction
	// Refused is a transaction that the network will never accept.
	Refused onchain.Transaction
	// Executed returns the number of times that the network executed the transaction: 0 or 1.
	Executed func(txid string) int
	// Set sets the state of the connection.
	Set func(Connection)
}

// RunNodes checks the contract of onchain.Nodes, with a new network for each case.
func RunNodes(t *testing.T, open func(t *testing.T) Network) {
	test := func(name string, f func(t *testing.T, n Network)) {
		t.Run(name, func(t *testing.T) { f(t, open(t)) })
	}
	submit := func(t *testing.T, n Network, signed onchain.Transaction, want payout.Outcome) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if got := n.Nodes.Submit(ctx, signed)[0]; got.Outcome != want {
			t.Fatalf("submit: %s (%s), want %s", got.Outcome, got.Reason, want)
		} else if want != payout.Accepted && got.Reason == "" {
			t.Fatal("not accepted, without a reason")
		}
	}
	find := func(t *testing.T, n Network, reference string, want bool) {
		t.Helper()
		got, err := n.Nodes.Find(t.Context(), reference)
		if err != nil || got != want {
			t.Fatalf("find: %v, %v; want %v", got, err, want)
		}
	}
	executed := func(t *testing.T, n Network, reference string, want int) {
		t.Helper()
		if got := n.Executed(reference); got != want {
			t.Fatalf("executed %d times, want %d", got, want)
		}
	}

	test("an accepted transaction is found and executed once", func(t *testing.T, n Network) {
		signed := n.Sign()
		find(t, n, signed.TxID, false)
		submit(t, n, signed, payout.Accepted)
		find(t, n, signed.TxID, true)
		executed(t, n, signed.TxID, 1)
	})
	test("submitting again is harmless", func(t *testing.T, n Network) {
		signed := n.Sign()
		for range 3 {
			submit(t, n, signed, payout.Accepted)
		}
		executed(t, n, signed.TxID, 1)
	})
	test("after a lost answer the outcome is unknown until the same transaction is sent again",
		func(t *testing.T, n Network) {
			for connection, times := range map[Connection]int{LostBefore: 0, LostAfter: 1} {
				signed := n.Sign()
				n.Set(connection)
				submit(t, n, signed, payout.Unknown)
				executed(t, n, signed.TxID, times)
				n.Set(Fine)
				find(t, n, signed.TxID, times == 1)
				submit(t, n, signed, payout.Accepted)
				executed(t, n, signed.TxID, 1)
			}
		})
	test("a refusal is not an unknown outcome", func(t *testing.T, n Network) {
		submit(t, n, n.Refused, payout.Refused)
		find(t, n, n.Refused.TxID, false)
		executed(t, n, n.Refused.TxID, 0)
	})
	test("a canceled context is not a refusal", func(t *testing.T, n Network) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		signed := n.Sign()
		if got := n.Nodes.Submit(ctx, signed)[0]; got.Outcome == payout.Refused {
			t.Fatalf("refused after cancellation: %s", got.Reason)
		}
		submit(t, n, signed, payout.Accepted)
		executed(t, n, signed.TxID, 1)
	})
	test("transactions do not affect each other", func(t *testing.T, n Network) {
		a, b := n.Sign(), n.Sign()
		submit(t, n, a, payout.Accepted)
		find(t, n, b.TxID, false)
		submit(t, n, b, payout.Accepted)
		executed(t, n, a.TxID, 1)
		executed(t, n, b.TxID, 1)
	})
	test("several transactions in one request have their own answers and are executed once",
		func(t *testing.T, n Network) {
			a, b := n.Sign(), n.Sign()
			submit(t, n, a, payout.Accepted)
			for range 2 {
				answers := n.Nodes.Submit(t.Context(), a, n.Refused, b)
				for i, want := range []payout.Outcome{payout.Accepted, payout.Refused, payout.Accepted} {
					if len(answers) != 3 || answers[i].Outcome != want {
						t.Fatalf("submit: %v", answers)
					}
				}
			}
			executed(t, n, a.TxID, 1)
			executed(t, n, b.TxID, 1)
			executed(t, n, n.Refused.TxID, 0)

			c, d := n.Sign(), n.Sign()
			n.Set(LostAfter)
			for _, answer := range n.Nodes.Submit(t.Context(), c, d) {
				if answer.Outcome != payout.Unknown {
					t.Fatalf("submit without an answer: %v", answer)
				}
			}
			n.Set(Fine)
			executed(t, n, c.TxID, 1)
			executed(t, n, d.TxID, 1)
		})
}
