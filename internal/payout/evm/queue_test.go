package evm_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/onchain"
	"github.com/stipend/stipend/internal/payout/payouttest"
	"github.com/stipend/stipend/internal/rates"
)

// silent is a node that cannot estimate payments to one address.
type silent struct {
	testNode
	about string
}

func (s *silent) Estimate(ctx context.Context, from string, calls []evm.Call) ([]evm.Estimate, error) {
	all, err := s.testNode.Estimate(ctx, from, calls)
	for i, call := range calls {
		if to, _, _ := s.Spec().ParseTransfer(call); to.String() == s.about {
			busy := evm.Error{Method: "eth_estimateGas", Code: -32005, Message: "limit exceeded"}
			all[i] = evm.Estimate{Verdict: busy.Verdict(call), Refusal: busy.Error()}
		}
	}
	return all, err
}

// An output that cannot be paid fails, or waits with a reason; the outputs behind it in the queue are paid. The
// simulated network and a real node behave the same.
func TestOneUnpayableOutputBlocksNoOther(t *testing.T) {
	t.Run("simulated network", func(t *testing.T) {
		payouttest.RunFixture(t, func(f *payouttest.Fixture) {
			node, keys := simulate(f)
			testUnpayableOutputs(f, node, keys)
		})
	})
	t.Run("real node", func(t *testing.T) {
		node := evmtest.Start(t)
		payouttest.RunFixture(t, func(f *payouttest.Fixture) {
			testUnpayableOutputs(f, node, node.Chain(f.T, money.USDC).Signer())
		})
	})
}

func testUnpayableOutputs(f *payouttest.Fixture, on testNode, keys *evm.Signer) {
	ever := 10_000 * time.Hour
	r := rates.Refresher{DB: f.DB, Sources: []rates.Source{rates.Sandbox()}, Quorum: 1, CryptoLimit: ever,
		FiatLimit: ever}
	f.Must(r.Refresh(f.Context()))
	node := &silent{testNode: on}
	w := newFixture(f, node, keys)
	dollars := func(n int64) money.Amount { return usdc(n * 1_000_000) }
	usdt := func(n int64) money.Amount { return money.New(money.USDT, n*1_000_000) }
	w.Must(on.SetBaseFee(w.Context(), 15_000_000_000)) // a token transfer may cost $2.50
	w.mine()

	contract, _ := on.Spec().Contract(money.USDC)
	refused := w.addTo(eth(1_000_000), contract.String())[0] // the contract accepts no coins
	badAddress := w.addTo(dollars(300), "0x123")[0]
	var short, expensive []string
	for range maxOutputs + 1 {
		_, id := w.add(usdt(1_000_000))
		short = append(short, id)
	}
	for range maxOutputs + 1 {
		_, id := w.add(dollars(20))
		expensive = append(expensive, id)
	}
	var unclear string
	node.about, unclear = w.add(dollars(250))
	goodTo, good := w.add(dollars(500))
	etherTo, ether := w.add(eth(500_000_000))
	_, behind := w.add(usdt(200)) // the balance is enough for this output
	w.sync()

	w.Want(refused, payout.Failed, onchain.ReasonRefused)
	w.Want(badAddress, payout.Failed, payout.ReasonBadAddress)
	for _, id := range append(short, behind) {
		if o := w.Want(id, payout.Queued, ""); o.Reason != "" {
			w.Fatalf("an output that waits for funds has its own reason: %s", o.Reason)
		}
	}
	w.Want(unclear, payout.Queued, "not_estimated")
	w.Want(good, payout.Sent, "")
	w.Want(ether, payout.Sent, "")
	for range 3 {
		w.wait(time.Minute)
	}
	marked := slices.DeleteFunc(slices.Clone(expensive),
		func(id string) bool { return w.Want(id, payout.Queued, "").Reason != "fee_too_high" })
	if len(marked) != len(expensive) {
		w.Fatalf("%d of %d payouts with too high a fee have this reason", len(marked), len(expensive))
	}
	w.delays("insufficient_funds 7 6000200.000000 USDT base")
	w.mine()
	w.Want(good, payout.Fulfilled, "")
	w.Want(ether, payout.Fulfilled, "")

	// After the account is funded, the outputs of the asset are paid in order. Now the high fee is the reason of the
	// delay, and the delay is reported.
	w.Must(on.Fund(w.Context(), w.hot, 1_000_000_000_000, 200_000_000_000_000))
	w.mine()
	for range 4 {
		w.wait(time.Minute)
	}
	for _, id := range append(short, behind) {
		w.Want(id, payout.Sent, "")
	}
	w.delays("insufficient_funds 7 6000200.000000 USDT base", "fee_too_high 7 370.000000 USDC base")

	// Fees fall, and the node estimates payments to the address again.
	node.about = ""
	w.Must(on.SetBaseFee(w.Context(), 1_000_000_000))
	w.mine()
	for range 3 {
		w.wait(time.Minute)
		w.mine()
	}
	for _, id := range slices.Concat(short, expensive, []string{behind, unclear}) {
		w.Want(id, payout.Fulfilled, "")
	}
	if lab, ok := on.(*evmtest.Node); ok {
		w.lab = lab.Chain(w.T, money.USDC)
		w.paid(goodTo, dollars(500))
		w.paid(etherTo, eth(500_000_000))
	}
}
