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

// simulated is the sandbox's network as a ground of tests.
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

// silent is a node that does not say what a payment to some address needs.
type silent struct {
	ground
	about string
}

func (s *silent) Estimate(ctx context.Context, from string, calls []evm.Call) ([]evm.Estimate, error) {
	all, err := s.ground.Estimate(ctx, from, calls)
	for i, call := range calls {
		if to, _, _ := s.Spec().ParseTransfer(call); to.String() == s.about {
			busy := evm.Error{Method: "eth_estimateGas", Code: -32005, Message: "limit exceeded"}
			all[i] = evm.Estimate{Verdict: busy.Verdict(call), Refusal: busy.Error()}
		}
	}
	return all, err
}

// What cannot be paid fails, or waits and says why; whatever stands behind it in the queue goes on. The same on the sandbox's network and
// on a real node.
func TestOneBadPayoutOfAnAccountHoldsUpNoOther(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		network, err := evm.Lookup("base")
		if err != nil {
			t.Fatal(err)
		}
		network.BlocksPerConfirmation = 1
		network.Tokens = append(network.Tokens, evm.Token{Asset: money.USDT, Contract: "0xdAC17F958D2ee523a2206206994597C13D831ec7"})
		xprv, err := evm.MasterFromSeed([]byte("the account of a queue with a bad payout"))
		if err != nil {
			t.Fatal(err)
		}
		keys, err := evm.ParseXPriv(xprv)
		if err != nil {
			t.Fatal(err)
		}
		oneBad(t, d, clock, simulated{evmsim.New(d, network)}, keys)
	})
}

func TestOneBadPayoutOfAnAccountOnARealNodeHoldsUpNoOther(t *testing.T) {
	node := evmtest.Start(t)
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		oneBad(t, d, clock, node, node.Chain(t, money.USDC).Signer())
	})
}

func oneBad(t *testing.T, d *db.DB, clock *dbtest.Clock, on ground, keys *evm.Signer) {
	ever := 10_000 * time.Hour
	r := rates.Refresher{DB: d, Sources: []rates.Source{rates.Sandbox()}, Quorum: 1, CryptoLimit: ever, FiatLimit: ever}
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	node := &silent{ground: on}
	w := newWorldOn(t, d, clock, node, keys)
	usdc := func(n int64) money.Amount { return money.New(money.USDC, n*1_000_000) }
	usdt := func(n int64) money.Amount { return money.New(money.USDT, n*1_000_000) }
	w.must(on.SetBaseFee(t.Context(), 15_000_000_000)) // a transfer of a token may cost two dollars and a half
	w.mine()

	contract, _ := on.Spec().Contract(money.USDC)
	refused := w.oweAt(contract.String(), money.New(money.ETH, 1_000_000)) // it takes no coins
	nobody := w.oweAt("0x123", usdc(300))
	var short, dear []string
	for range maxOutputs + 1 {
		_, id := w.owe(usdt(1_000_000))
		short = append(short, id)
	}
	for range maxOutputs + 1 {
		_, id := w.owe(usdc(20))
		dear = append(dear, id)
	}
	var unclear string
	node.about, unclear = w.owe(usdc(250))
	goodTo, good := w.owe(usdc(500))
	etherTo, ether := w.owe(money.New(money.ETH, 500_000_000))
	_, behind := w.owe(usdt(200)) // the account has that much
	w.look()

	w.want(refused, payout.Failed, onchain.ReasonRefused)
	w.want(nobody, payout.Failed, payout.ReasonBadAddress)
	for _, id := range append(short, behind) {
		if o := w.want(id, payout.Queued, ""); o.Reason != "" {
			t.Fatalf("the line of an asset has a reason of its own at one place: %s", o.Reason)
		}
	}
	w.want(unclear, payout.Queued, "not_estimated")
	w.want(good, payout.Sent, "")
	w.want(ether, payout.Sent, "")
	for range 3 {
		w.wait(time.Minute)
	}
	marked := slices.DeleteFunc(slices.Clone(dear), func(id string) bool { return w.want(id, payout.Queued, "").Reason != "fee_too_high" })
	if len(marked) != len(dear) {
		t.Fatalf("%d of %d payouts that cost too much say so", len(marked), len(dear))
	}
	w.delays("insufficient_funds 7 6000200.000000 USDT base")
	w.mine()
	w.want(good, payout.Fulfilled, "")
	w.want(ether, payout.Fulfilled, "")

	// The account has enough: the line goes on in its order. What costs too much is the reason now, and the company hears of it.
	w.must(on.Fund(t.Context(), w.hot, 1_000_000_000_000, 200_000_000_000_000))
	w.mine()
	for range 4 {
		w.wait(time.Minute)
	}
	for _, id := range append(short, behind) {
		w.want(id, payout.Sent, "")
	}
	w.delays("insufficient_funds 7 6000200.000000 USDT base", "fee_too_high 7 370.000000 USDC base")

	// Fees are low and the node speaks again.
	node.about = ""
	w.must(on.SetBaseFee(t.Context(), 1_000_000_000))
	w.mine()
	for range 3 {
		w.wait(time.Minute)
		w.mine()
	}
	for _, id := range slices.Concat(short, dear, []string{behind, unclear}) {
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
			t.Errorf("the books: %v", report.Problems)
		}
		return err
	}))
}
