package evm_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
)

// These accounts belong to the mnemonic "test test … junk", which the development tools of EVM networks use by
// default.
const (
	phraseSeed = "9dfc3c64c2f8bede1533b6a79f8570e5943e0b8fd1cf77107adf7b72cef42185d564a3aee24cab43f80e3c4538" +
		"087d70fc824eabbad596a23c97b6ee8322ccc0"
	firstOfAll = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
	secondOf   = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
)

func signer(t *testing.T) *evm.Signer {
	t.Helper()
	seed := testkit.Must(hex.DecodeString(phraseSeed))
	xprv := testkit.Must(evm.MasterFromSeed(seed))
	return testkit.Must(evm.ParseXPriv(xprv))
}

func TestAddressesAreThoseOfOtherWallets(t *testing.T) {
	s := signer(t)
	public := testkit.Must(evm.ParseXPub(s.Deriver().XPub()))
	for i, want := range []string{firstOfAll, secondOf} {
		for _, d := range []*evm.Deriver{s.Deriver(), public} {
			if got, err := d.Address(chain.External, uint32(i)); err != nil || got != want {
				t.Errorf("address %d: %s, %v; want %s", i, got, err, want)
			}
		}
	}
	for _, bad := range []string{"", "0x", "f39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
		"0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266", firstOfAll + "00"} {
		if _, err := evm.ParseAddress(bad); !errors.Is(err, evm.ErrAddress) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	const private = "xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3" +
		"TGtRBeJgk33yuGBxrMPHi"
	if _, err := evm.ParseXPub(private); err == nil {
		t.Error("a private key was accepted as a public one")
	}
}

// A signed transaction is decoded with its signer. Truncated or extended bytes are not decoded.
func TestTransactionsAreReadAsTheyWereSigned(t *testing.T) {
	s := signer(t)
	to := testkit.Must(evm.ParseAddress(secondOf))
	network := testkit.Must(evm.Lookup("ethereum"))
	for _, amount := range []money.Amount{money.New(money.ETH, 1), money.New(money.ETH, 2_100_000_000_000_000),
		money.New(money.USDC, 1_500_000)} {
		call := testkit.Must(network.TransferCall(to, amount))
		for _, nonce := range []uint64{0, 1, 127, 128, 1 << 40} {
			want := evm.Tx{ChainID: network.ChainID, Nonce: nonce, Tip: 1, MaxFee: 30_000_000_000, Gas: 65_000, Call: call}
			raw, txid, err := s.Sign(want, chain.External, 0)
			testkit.Check(t, err)
			got, from, err := evm.DecodeTx(raw)
			if err != nil || from.String() != firstOfAll || evm.ID(raw) != txid || got.Nonce != nonce ||
				got.MaxFee != want.MaxFee {
				t.Fatalf("%+v by %s: %v", got, from, err)
			}
			if who, moved, ok := network.ParseTransfer(got.Call); !ok || who != to || moved != amount {
				t.Fatalf("moves %s %s to %s", moved, moved.Asset(), who)
			}
			for i := range raw {
				if _, _, err := evm.DecodeTx(raw[:i]); err == nil {
					t.Fatalf("%d of %d bytes were read", i, len(raw))
				}
			}
			if _, _, err := evm.DecodeTx(append(raw, 0)); err == nil {
				t.Fatal("a byte too many was read")
			}
		}
	}
	if _, err := network.TransferCall(to, money.New(money.BTC, 1)); err == nil {
		t.Error("bitcoins on Ethereum")
	}
	if got := evm.GasCost(21_000, 1); got != 1 {
		t.Errorf("21,000 wei cost %d gwei, want 1: a fee is rounded up", got)
	}
	if got := evm.Wei(3); got.Cmp(big.NewInt(3_000_000_000)) != 0 {
		t.Errorf("3 gwei are %s wei", got)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{2, 0xc0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		tx, _, err := evm.DecodeTx(raw)
		if err == nil && (tx.Value == nil || tx.Tip < 0 || tx.MaxFee < 0) {
			t.Fatalf("%+v", tx)
		}
	})
}

func TestSourceAndWatcherOnARealNode(t *testing.T) {
	node := evmtest.Start(t)
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		// The database engine selects the token: one that returns nothing from a transfer, or the standard one.
		asset := money.USDC
		if d.Engine() == db.SQLite {
			asset = money.USDT
		}
		lab := func(t *testing.T, _ *db.DB) chaintest.Chain { return node.Chain(t, asset) }
		chaintest.Run(t, d, lab)
		chaintest.RunWatcher(t, d, lab)
	})
}

// The client reads the parts of a block and of the state of accounts that only EVM networks have.
func TestBlocksAndAccountsOfAnEVMNetwork(t *testing.T) {
	node := evmtest.Start(t)
	ctx := t.Context()
	last := func() chain.Tx {
		t.Helper()
		testkit.Check(t, node.Mine(ctx, 1))
		_, hash, err := node.Tip(ctx)
		testkit.Check(t, err)
		b := testkit.Must(node.Block(ctx, hash))
		if len(b.Txs) != 1 {
			t.Fatalf("%d transactions", len(b.Txs))
		}
		return b.Txs[0]
	}
	to := secondOf
	t.Run("the coin itself", func(t *testing.T) {
		lab := node.Chain(t, money.ETH)
		testkit.Must(lab.PayAll(ctx, chain.Output{Address: to, Amount: 12_345}))
		tx := last()
		want := chain.Output{Vout: evm.NativeVout, Address: to, Amount: 12_345, Asset: money.ETH}
		if len(tx.Outputs) != 1 ||
			tx.Outputs[0] != want || tx.Failed || tx.Fee <= 0 {
			t.Fatalf("%+v", tx)
		}
	})
	t.Run("a fee beside the gas", func(t *testing.T) {
		lab := node.Chain(t, money.ETH)
		testkit.Must(lab.PayAll(ctx, chain.Output{Address: to, Amount: 12_345}))
		gas := last()
		node.SetL1Fee(7_000_000_000_000)
		defer node.SetL1Fee(0)
		_, hash, err := node.Tip(ctx)
		testkit.Check(t, err)
		b := testkit.Must(node.Block(ctx, hash))
		one := testkit.Must(node.Tx(ctx, gas.ID))
		if all := b.Txs[0]; all.ID != gas.ID || all.Fee != gas.Fee+7_000 || one.Fee != all.Fee || gas.Fee <= 0 {
			t.Fatalf("%d gwei of gas and 7,000 beside it are %d, and %d by itself", gas.Fee, all.Fee, one.Fee)
		}
	})
	t.Run("a token that answers nothing", func(t *testing.T) {
		lab := node.Chain(t, money.USDT)
		testkit.Must(lab.PayAll(ctx, chain.Output{Address: to, Amount: 7}))
		if tx := last(); len(tx.Outputs) != 1 || tx.Outputs[0] != (chain.Output{Address: to, Amount: 7, Asset: money.USDT}) ||
			tx.Failed {
			t.Fatalf("%+v", tx)
		}
	})
	for asset, why := range map[money.Asset]string{money.USDC: "fails", "DAI": "answers no"} {
		t.Run("a transfer that "+why, func(t *testing.T) {
			lab := node.Chain(t, asset)
			testkit.Check(t, node.Blacklist(ctx, asset, to, true))
			testkit.Must(lab.PayAll(ctx, chain.Output{Address: to, Amount: 9}))
			if tx := last(); !tx.Failed || len(tx.Outputs) != 0 || tx.Fee <= 0 || len(tx.Inputs) != 1 {
				t.Fatalf("%+v", tx)
			}
			testkit.Check(t, node.Blacklist(ctx, asset, to, false))
		})
	}
	t.Run("an account and what calls would need", func(t *testing.T) {
		lab := node.Chain(t, money.USDC)
		hot := testkit.Must(lab.Signer().Deriver().HotAddress())
		testkit.Check(t, node.Fund(ctx, hot, 5_000_000_000, 3_000_000))
		s := testkit.Must(node.State(ctx, hot))
		if s.Nonce != 0 || s.Balances[money.ETH] != 5_000_000_000 || s.Balances[money.USDC] != 3_000_000 ||
			s.Balances[money.USDT] != 3_000_000 || s.BaseFee <= 0 {
			t.Fatalf("%+v", s)
		}
		before := node.Requests()
		held := testkit.Must(node.Balances(ctx, []string{hot, to, hot}, s.Height))
		second := testkit.Must(node.Balances(ctx, []string{to}, s.Height))
		if n := node.Requests() - before; n != 2 || held[money.USDC] != 6_000_000+second[money.USDC] ||
			held[money.ETH] != 10_000_000_000+second[money.ETH] {
			t.Fatalf("%v and %v by %d requests", held, second, n)
		}
		good := testkit.Must(evm.ParseAddress(to))
		var calls []evm.Call
		for _, amount := range []money.Amount{money.New(money.USDC, 5), money.New(money.ETH, 5),
			money.New(money.USDC, 4_000_000)} {
			call := testkit.Must(node.Spec().TransferCall(good, amount))
			calls = append(calls, call)
		}
		all := testkit.Must(node.Estimate(ctx, hot, calls))
		if all[0].Gas < 30_000 || all[1].Gas < 21_000 || all[0].Refusal != "" || all[2].Refusal == "" || all[0].DataFee != 0 {
			t.Fatalf("%+v", all)
		}
		testkit.Check(t, node.SetDataFee(ctx, 7_000_000_000_001))
		defer func() { testkit.Check(t, node.SetDataFee(ctx, 0)) }()
		all = testkit.Must(node.Estimate(ctx, hot, calls))
		if all[0].Gas < 30_000 || all[0].DataFee != 7_001 || all[1].DataFee != 7_001 ||
			all[2].Verdict != evm.InsufficientFunds {
			t.Fatalf("%+v", all)
		}
		other := node.Spec()
		other.DataFee, other.MinTip = false, 30_000_000_000
		c := testkit.Must(evm.NewClient(evm.Options{URL: node.URL, Network: other}))
		all = testkit.Must(c.Estimate(ctx, hot, calls))
		if s = testkit.Must(c.State(ctx, hot)); s.Tip != 30_000_000_000 || all[0].DataFee != 0 {
			t.Fatalf("%+v, %+v", s, all)
		}
	})
	t.Run("another network, and another token", func(t *testing.T) {
		other := node.Spec()
		other.ChainID++
		c := testkit.Must(evm.NewClient(evm.Options{URL: node.URL, Network: other}))
		if _, _, err := c.Tip(ctx); !errors.Is(err, evm.ErrWrongNetwork) {
			t.Errorf("chain id: %v", err)
		}
		other = node.Spec()
		other.Tokens = []evm.Token{{Asset: money.USDC, Contract: node.Payer.String()}}
		c = testkit.Must(evm.NewClient(evm.Options{URL: node.URL, Network: other}))
		if _, _, err := c.Tip(ctx); !errors.Is(err, evm.ErrWrongToken) {
			t.Errorf("token: %v", err)
		}
	})
	t.Run("a receipt that says neither", func(t *testing.T) {
		lab := node.Chain(t, money.ETH)
		testkit.Must(lab.PayAll(ctx, chain.Output{Address: to, Amount: 12_345}))
		last()
		_, hash, err := node.Tip(ctx)
		testkit.Check(t, err)
		at := testkit.Must(url.Parse(node.URL))
		strange := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) },
			ModifyResponse: func(r *http.Response) error {
				body, err := io.ReadAll(r.Body)
				// The replacement has the same length as the original status.
				r.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte(`"status":"0x1"`), []byte(`"status":"0x2"`))))
				return err
			}})
		defer strange.Close()
		c := testkit.Must(evm.NewClient(evm.Options{URL: strange.URL, Network: node.Spec()}))
		if _, err := c.Block(ctx, hash); err == nil || !strings.Contains(err.Error(),
			"has the status 2, which is neither failure nor success") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a node that is gone", func(t *testing.T) {
		node.SetConnection(evmtest.RequestsLost)
		defer node.SetConnection(evmtest.Connected)
		if _, _, err := node.Tip(ctx); err == nil || errors.Is(err, chain.ErrNotFound) || errors.Is(err, chain.ErrRejected) {
			t.Errorf("tip: %v", err)
		}
		if err := node.Broadcast(ctx, []byte{2}); err == nil || errors.Is(err, chain.ErrRejected) {
			t.Errorf("broadcast: %v", err)
		}
	})
}

// Each case is the error message of a real node for an estimate.
func TestVerdictsOfRefusedEstimates(t *testing.T) {
	for _, c := range []struct {
		code          int
		text          string
		coins, tokens evm.Verdict
	}{
		{3, "execution reverted: blocked", evm.WillFail, evm.WillFail},
		{-32000, "execution reverted", evm.WillFail, evm.WillFail},
		{-32015, "VM execution error.", evm.Inconclusive, evm.Inconclusive},
		{-32000, "invalid opcode: INVALID", evm.WillFail, evm.Inconclusive},
		{-32000, "gas required exceeds allowance (50000000)", evm.WillFail, evm.WillFail},
		{3, "execution reverted: ERC20: transfer amount exceeds balance", evm.WillFail, evm.InsufficientFunds},
		// This message is not trusted, because the recipient of coins can return any text.
		{3, "execution reverted: insufficient funds", evm.WillFail, evm.InsufficientFunds},
		{-32000, "insufficient funds for transfer", evm.InsufficientFunds, evm.InsufficientFunds},
		{-32003, "Insufficient funds for gas * price + value", evm.InsufficientFunds, evm.InsufficientFunds},
		{3, "execution reverted: Pausable: paused", evm.WillFail, evm.Inconclusive},
		{-32005, "limit exceeded", evm.Inconclusive, evm.Inconclusive},
		{-32603, "Internal error", evm.Inconclusive, evm.Inconclusive},
	} {
		said := &evm.Error{Code: c.code, Message: c.text}
		if coins, tokens := said.Verdict(evm.Call{}), said.Verdict(evm.Call{Data: []byte{1}}); coins != c.coins ||
			tokens != c.tokens {
			t.Errorf("%d %s: %d and %d, want %d and %d", c.code, c.text, coins, tokens, c.coins, c.tokens)
		}
	}
}
