package evmsim_test

import (
	"context"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox/evmsim"
	"github.com/stipend/stipend/internal/testkit"
)

var _ chaintest.AccountChain = testChain{}

// testChain is a simulated network that a test controls, with a wallet of its own.
type testChain struct {
	*evmsim.Chain
	wallet *evm.Signer
}

func (l testChain) Source() chain.Source { return l.Chain }

// PaysOne marks a chain that cannot pay several addresses by one transaction.
func (l testChain) PaysOne() {}

func (l testChain) PayAll(ctx context.Context, outputs ...chain.Output) (string, error) {
	return l.Pay(ctx, outputs[0].Address, money.New(money.USDC, outputs[0].Amount))
}

func (l testChain) Replace(ctx context.Context, txid string, outputs ...chain.Output) (string, error) {
	for i := range outputs {
		outputs[i].Asset = money.USDC
	}
	return l.Chain.Replace(ctx, txid, outputs...)
}

func (l testChain) Deriver() chain.Deriver { return l.wallet.Deriver() }

func (l testChain) Rebroadcast(ctx context.Context, txid string) error {
	raw, err := l.Raw(ctx, txid)
	if err != nil {
		return err
	}
	return l.Broadcast(ctx, raw)
}

func (l testChain) Fund(ctx context.Context, account string, native, tokens int64) error {
	if err := l.Chain.Fund(ctx, account, money.New(l.Spec().Native, native)); err != nil {
		return err
	}
	return l.Chain.Fund(ctx, account, money.New(money.USDC, tokens))
}

func (l testChain) SignOwn(
	_ context.Context, nonce uint64, tip int64, to chain.Output,
) (raw []byte, txid string, spends chain.Outpoint, err error) {
	hot, err := l.wallet.Deriver().HotAddress()
	if err != nil {
		return nil, "", spends, err
	}
	payee, err := evm.ParseAddress(to.Address)
	if err != nil {
		return nil, "", spends, err
	}
	call, err := l.Spec().TransferCall(payee, money.New(money.USDC, to.Amount))
	if err != nil {
		return nil, "", spends, err
	}
	raw, txid, err = l.wallet.Sign(evm.Tx{
		ChainID: l.Spec().ChainID, Nonce: nonce, Tip: tip, MaxFee: 20 * tip, Gas: 100_000, Call: call,
	}, chain.Change, 0)
	return raw, txid, evm.NonceOutpoint(hot, nonce), err
}

func TestSourceAndWatcher(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		network := testkit.Must(evm.Lookup("base"))
		open := func(t *testing.T, d *db.DB) chaintest.Chain {
			var seed string
			if err := d.Read(t.Context(), func(_ context.Context, tx *db.Tx) error {
				seed = tx.NewID("a seed")
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			xprv := testkit.Must(evm.MasterFromSeed([]byte(seed)))
			s := testkit.Must(evm.ParseXPriv(xprv))
			return testChain{evmsim.New(d, network), s}
		}
		chaintest.Run(t, d, open)
		chaintest.RunWatcher(t, d, open)
	})
}

// testKey is the private key of [evmsim.TestAccount].
const testKey = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"

// A transfer that its payer authorized is executed once, while it is valid and the payer has the money, also after a
// reorganization. Any other one fails and moves nothing.
func TestAuthorizedTransfers(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		network := testkit.Must(evm.Lookup("base"))
		wallet := testkit.Must(evm.ParseXPriv(testkit.Must(evm.MasterFromSeed([]byte("a relay of the simulation")))))
		c := testChain{evmsim.New(d, network), wallet}
		hot := testkit.Must(wallet.Deriver().HotAddress())
		testkit.Check(t, c.Fund(t.Context(), hot, 1_000_000_000, 0))
		const payee = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
		nonce, tip := uint64(0), int64(1_000_000_000)
		holds := func(account string) int64 {
			t.Helper()
			return testkit.Must(c.State(t.Context(), account)).Balances[money.USDC]
		}
		authorize := func(number byte, units int64, change func(*evm.Authorization)) evm.Call {
			t.Helper()
			now := clock.Now().Unix()
			a := evm.Authorization{
				From: testkit.Must(evm.ParseAddress(evmsim.TestAccount)), To: testkit.Must(evm.ParseAddress(payee)),
				Amount: money.New(money.USDC, units), ValidAfter: now - 1, ValidBefore: now + 60, Nonce: [32]byte{number},
			}
			if change != nil {
				change(&a)
			}
			testkit.Check(t, evmtest.Authorize(network, testkit.Must(hex.DecodeString(testKey)), &a))
			if number == 9 {
				a.Signature[3]++
			}
			return testkit.Must(network.AuthorizedCall(a))
		}
		send := func(call evm.Call) (txid string) {
			t.Helper()
			raw, txid, err := wallet.Sign(evm.Tx{ChainID: network.ChainID, Nonce: nonce, Tip: tip, MaxFee: 20 * tip,
				Gas: 200_000, Call: call}, chain.Change, 0)
			testkit.Check(t, err)
			testkit.Check(t, c.Broadcast(t.Context(), raw))
			nonce++
			return txid
		}
		verdict := func(call evm.Call) evm.Verdict {
			t.Helper()
			return testkit.Must(c.Estimate(t.Context(), hot, []evm.Call{call}))[0].Verdict
		}
		good := authorize(1, 30, nil)
		if got := verdict(good); got != evm.WillSucceed {
			t.Errorf("the estimate is %v", got)
		}
		first := send(good)
		seen := testkit.Must(c.Tx(t.Context(), first))
		if len(seen.Outputs) != 1 || seen.Outputs[0].Address != payee || seen.Outputs[0].Amount != 30 ||
			seen.Outputs[0].From != evmsim.TestAccount || seen.From != hot {
			t.Errorf("before its block: %+v", seen)
		}
		send(good) // again, in the same block
		testkit.Check(t, c.Mine(t.Context(), 1))
		for range 2 { // and once more after a reorganization
			if got := holds(payee); got != 30 || holds(evmsim.TestAccount) != evmsim.TestFunds-30 {
				t.Errorf("the payee has %d", got)
			}
			if got := verdict(good); got != evm.WillFail {
				t.Errorf("the estimate of an authorization that was executed is %v", got)
			}
			testkit.Check(t, c.Reorg(t.Context(), 1))
			if got := holds(payee); got != 0 || verdict(good) != evm.WillSucceed {
				t.Errorf("after the reorganization the payee has %d", got)
			}
			testkit.Check(t, c.Mine(t.Context(), 1))
		}
		for name, c := range map[string]struct {
			call evm.Call
			want evm.Verdict
		}{
			"forged": {authorize(9, 30, nil), evm.WillFail},
			"signed by another account": {authorize(2, 30, func(a *evm.Authorization) {
				a.From = testkit.Must(evm.ParseAddress(payee))
			}), evm.WillFail},
			"not yet valid": {authorize(3, 30, func(a *evm.Authorization) { a.ValidAfter = clock.Now().Unix() }), evm.WillFail},
			"expired":       {authorize(4, 30, func(a *evm.Authorization) { a.ValidBefore = clock.Now().Unix() }), evm.WillFail},
			"too much":      {authorize(5, evmsim.TestFunds, nil), evm.InsufficientFunds},
		} {
			if got := verdict(c.call); got != c.want {
				t.Errorf("%s: the estimate is %v", name, got)
			}
			send(c.call)
		}
		testkit.Check(t, c.Mine(t.Context(), 1))
		late := send(authorize(6, 30, nil))
		clock.Advance(2 * time.Minute)
		testkit.Check(t, c.Mine(t.Context(), 1))
		if got := testkit.Must(c.Tx(t.Context(), late)); !got.Failed || len(got.Outputs) != 0 {
			t.Errorf("in a block after its time: %+v", got)
		}
		if got := holds(payee); got != 30 {
			t.Errorf("the payee has %d", got)
		}
		if got := testkit.Must(c.State(t.Context(), hot)); got.Nonce != nonce {
			t.Errorf("%d of %d transactions were executed", got.Nonce, nonce)
		}
	})
}
