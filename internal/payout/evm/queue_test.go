package evm_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/onchain"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/sandbox/evmsim"
)

// simulated is the sandbox's network as a testNode.
type simulated struct{ *evmsim.Chain }

func (s simulated) Fund(ctx context.Context, account string, native, tokens int64) error {
	if err := s.Chain.Fund(ctx, account, money.New(s.Spec().Native, native)); err != nil {
		return err
	}
	for _, t := range s.Spec().Tokens {
		if err := s.Chain.Fund(ctx, account, money.New(t.Asset, tokens)); err != nil {
			return err
		}
	}
	return nil
}

func (s simulated) SetBaseFee(ctx context.Context, wei int64) error {
	_, err := s.SetFeeRate(ctx, wei)
	return err
}

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
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		network, err := evm.Lookup("base")
		if err != nil {
			t.Fatal(err)
		}
		network.BlocksPerConfirmation = 1
		network.Tokens = append(network.Tokens, evm.Token{Asset: money.USDT,
			Contract: "0xdAC17F958D2ee523a2206206994597C13D831ec7"})
		xprv, err := evm.MasterFromSeed([]byte("the account of a queue with a bad payout"))
		if err != nil {
			t.Fatal(err)
		}
		keys, err := evm.ParseXPriv(xprv)
		if err != nil {
			t.Fatal(err)
		}
		testUnpayableOutputs(t, d, clock, simulated{evmsim.New(d, network)}, keys)
	})
}

func TestOneUnpayableOutputBlocksNoOtherOnARealNode(t *testing.T) {
	node := evmtest.Start(t)
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		testUnpayableOutputs(t, d, clock, node, node.Chain(t, money.USDC).Signer())
	})
}

func testUnpayableOutputs(t *testing.T, d *db.DB, clock *dbtest.Clock, on testNode, keys *evm.Signer) {
	ever := 10_000 * time.Hour
	r := rates.Refresher{DB: d, Sources: []rates.Source{rates.Sandbox()}, Quorum: 1, CryptoLimit: ever, FiatLimit: ever}
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	node := &silent{testNode: on}
	w := newFixture(t, d, clock, node, keys)
	usdc := func(n int64) money.Amount { return money.New(money.USDC, n*1_000_000) }
	usdt := func(n int64) money.Amount { return money.New(money.USDT, n*1_000_000) }
	w.must(on.SetBaseFee(t.Context(), 15_000_000_000)) // a token transfer may cost $2.50
	w.mine()

	contract, _ := on.Spec().Contract(money.USDC)
	refused := w.addTo(contract.String(), money.New(money.ETH, 1_000_000)) // the contract accepts no coins
	badAddress := w.addTo("0x123", usdc(300))
	var short, expensive []string
	for range maxOutputs + 1 {
		_, id := w.add(usdt(1_000_000))
		short = append(short, id)
	}
	for range maxOutputs + 1 {
		_, id := w.add(usdc(20))
		expensive = append(expensive, id)
	}
	var unclear string
	node.about, unclear = w.add(usdc(250))
	goodTo, good := w.add(usdc(500))
	etherTo, ether := w.add(money.New(money.ETH, 500_000_000))
	_, behind := w.add(usdt(200)) // the balance is enough for this output
	w.sync()

	w.want(refused, payout.Failed, onchain.ReasonRefused)
	w.want(badAddress, payout.Failed, payout.ReasonBadAddress)
	for _, id := range append(short, behind) {
		if o := w.want(id, payout.Queued, ""); o.Reason != "" {
			t.Fatalf("an output that waits for funds has its own reason: %s", o.Reason)
		}
	}
	w.want(unclear, payout.Queued, "not_estimated")
	w.want(good, payout.Sent, "")
	w.want(ether, payout.Sent, "")
	for range 3 {
		w.wait(time.Minute)
	}
	marked := slices.DeleteFunc(slices.Clone(expensive),
		func(id string) bool { return w.want(id, payout.Queued, "").Reason != "fee_too_high" })
	if len(marked) != len(expensive) {
		t.Fatalf("%d of %d payouts with too high a fee have this reason", len(marked), len(expensive))
	}
	w.delays("insufficient_funds 7 6000200.000000 USDT base")
	w.mine()
	w.want(good, payout.Fulfilled, "")
	w.want(ether, payout.Fulfilled, "")

	// After the account is funded, the outputs of the asset are paid in order. Now the high fee is the reason of the
	// delay, and the delay is reported.
	w.must(on.Fund(t.Context(), w.hot, 1_000_000_000_000, 200_000_000_000_000))
	w.mine()
	for range 4 {
		w.wait(time.Minute)
	}
	for _, id := range append(short, behind) {
		w.want(id, payout.Sent, "")
	}
	w.delays("insufficient_funds 7 6000200.000000 USDT base", "fee_too_high 7 370.000000 USDC base")

	// Fees fall, and the node estimates payments to the address again.
	node.about = ""
	w.must(on.SetBaseFee(t.Context(), 1_000_000_000))
	w.mine()
	for range 3 {
		w.wait(time.Minute)
		w.mine()
	}
	for _, id := range slices.Concat(short, expensive, []string{behind, unclear}) {
		w.want(id, payout.Fulfilled, "")
	}
	if lab, ok := on.(*evmtest.Node); ok {
		for address, amount := range map[string]money.Amount{goodTo: usdc(500), etherTo: money.New(money.ETH, 500_000_000)} {
			got, times, err := lab.Paid(t.Context(), amount.Asset())
			w.must(err)
			if got[address] != amount.Units() || times[address] != 1 {
				t.Errorf("%s got %d by %d payments", address, got[address], times[address])
			}
		}
	}
	w.must(d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		report, err := ledger.Check(ctx, tx)
		if len(report.Problems) > 0 {
			t.Errorf("ledger: %v", report.Problems)
		}
		return err
	}))
}
