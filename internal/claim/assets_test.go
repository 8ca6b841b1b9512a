package claim_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/sandbox/evmsim"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// base is the simulated network base as a chaintest.Chain that pays in one asset.
type base struct {
	*evmsim.Chain
	asset money.Asset
}

func (b base) Source() chain.Source { return b.Chain }

func (b base) PayAll(ctx context.Context, outputs ...chain.Output) (string, error) {
	return b.Pay(ctx, outputs[0].Address, money.New(b.asset, outputs[0].Amount))
}

func (b base) Replace(ctx context.Context, txid string, outputs ...chain.Output) (string, error) {
	for i := range outputs {
		outputs[i].Asset = b.asset
	}
	return b.Chain.Replace(ctx, txid, outputs...)
}

// simulateBase returns the simulated network base, which also has USDT, and the keys of a wallet.
func simulateBase(t testing.TB, d *db.DB) (*evmsim.Chain, *evm.Signer) {
	n := testkit.Must(evm.Lookup("base"))
	n.BlocksPerConfirmation = 1
	n.Tokens = append(n.Tokens, evm.Token{Asset: money.USDT, Contract: "0xdAC17F958D2ee523a2206206994597C13D831ec7"})
	xprv := testkit.Must(evm.MasterFromSeed([]byte("the account of a merchant's claims")))
	return evmsim.New(d, n), testkit.Must(evm.ParseXPriv(xprv))
}

// accept makes claims payable on an EVM network that the test controls.
func (m *merchant) accept(c chaintest.Chain, n evm.Network, keys *evm.Signer) {
	m.Helper()
	m.claims.Accounts = chain.EVMNetworks{
		Pool: chain.NewPool(m.DB, "evm", keys.Deriver(), n.Name),
		Networks: []chain.EVMNetwork{
			{Name: n.Name, Assets: n.Assets(), Test: true, URI: n.URI, Spec: n.Network},
		},
	}
	m.evm = m.NewChain(n.Name, c, m.jobTable(), func(ctx context.Context) error {
		for _, name := range []string{network, n.Name} {
			if _, err := quote.ExpireDue(ctx, m.DB, name, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// runTokens runs f on both engines with simulated chains, and checks the ledger afterwards.
func runTokens(t *testing.T, asset money.Asset, f func(m *merchant)) {
	t.Helper()
	run(t, func(m *merchant) {
		sim, keys := simulateBase(t, m.DB)
		m.accept(base{sim, asset}, sim.Spec(), keys)
		f(m)
	})
}

// TestTokenPayments performs the actions of payers in tokens on the simulated network; TestAClaimInEachAsset performs
// them on a real node.
func TestTokenPayments(t *testing.T) {
	for _, asset := range []money.Asset{money.USDC, money.USDT} {
		t.Run(string(asset), func(t *testing.T) {
			runTokens(t, asset, func(m *merchant) { testTokenPayments(m, asset) })
		})
	}
}

func testTokenPayments(m *merchant, asset money.Asset) {
	t := m.TB.(*testing.T)
	const full = 100_000_000 // 100 USD
	sold := balances{merchant: 99_00, revenue: 1_00}
	for _, c := range []struct {
		name, play string
		end        claim.State
		exception  claim.Exception
		want       balances
	}{
		{"the full amount", "pay 100_000_000, mine 1", claim.Paid, claim.None, sold},
		{"too little", "pay 90_000_000, mine 1, is partially_paid, wait 15m", claim.Underpaid, claim.None,
			balances{suspense: 90_000_000}},
		{"too little, and then the rest", "pay 75_000_000, mine 1, wait 15m, refresh partially_paid 25_000_000, " +
			"pay 25_000_000, mine 1", claim.Paid, claim.None, sold},
		{"too little, within the tolerance", "tolerance 50; pay 99_500_000, mine 1", claim.Paid, claim.WithinTolerance,
			balances{merchant: 99_00, revenue: 1_00, shortfall: 500_000}},
		{"too much", "pay 110_000_000, mine 1", claim.Paid, claim.Overpaid,
			balances{merchant: 99_00, revenue: 1_00, excess: 10_000_000}},
		{"twice", "pay 100_000_000, mine 1, is paid, pay 100_000_000, mine 1", claim.Paid, claim.Overpaid,
			balances{merchant: 99_00, revenue: 1_00, excess: full}},
		{"late", "wait 15m1s, is expired, pay 100_000_000, mine 1", claim.PaidLate, claim.Late, balances{suspense: full}},
		{"late, and the merchant accepts it", "wait 15m, pay 100_000_000, mine 1, refresh", claim.Paid, claim.Late, sold},
		{"late, and the policy refunds it", "late refund; wait 15m, pay 100_000_000, mine 1", claim.PaidLate, claim.Late,
			balances{excess: full}},
		{"after the merchant cancelled", "cancel, pay 100_000_000, mine 1", claim.PaidLate, claim.Late,
			balances{suspense: full}},
		{"replaced before a block", "pay 100_000_000, replace, mine 1", claim.AwaitingPayment, claim.None, balances{}},
		{"replaced with a higher fee", "pay 100_000_000, replace 100_000_000, mine 1", claim.Paid, claim.None, sold},
		{"removed by a reorganization and mined again", "pay 100_000_000, mine 1, is paid, reorg 1, suspense 0, mine 1",
			claim.Paid, claim.None, sold},
		{"removed by a reorganization for good", "pay 100_000_000, mine 1, is paid, reorg 1, evict, wait 15m",
			claim.Expired, claim.None, balances{}},
		{"in no block for a day", "pay 100_000_000, wait 24h15m, is invalid, mine 1", claim.PaidLate, claim.Late,
			balances{suspense: full}},
		{"without confirmations, posted when mined", "confirmations 0; pay 100_000_000, is paid, suspense 0, mine 1",
			claim.Paid, claim.None, sold},
		{"without confirmations, and replaced", "confirmations 0; pay 100_000_000, is paid, replace, mine 1",
			claim.AwaitingPayment, claim.None, balances{}},
		{"late, and the policy accepts it at the new price", "late requote; wait 15m, pay 100_000_000, mine 1",
			claim.Paid, claim.Late, sold},
		{"within the grace period", "grace 60; wait 15m30s, pay 100_000_000, mine 1", claim.Paid, claim.Late, sold},
	} {
		t.Run(c.name, func(t *testing.T) {
			m.TB = t
			settings, steps, ok := strings.Cut(c.play, "; ")
			if !ok {
				settings, steps = "", c.play
			}
			m.setPolicy(settings)
			s := m.openIn(asset, string(asset))
			s.Play(steps, s.step)
			if got := s.is(c.end); got.Exception != c.exception || got.Funding != asset {
				s.Errorf("the exception is %s, want %s; in %s", got.Exception, c.exception, got.Funding)
			}
			s.wantBalances(c.want)
			m.CheckLedger()
		})
	}
	m.TB = t
}

// A claim that accepts any asset is paid by the first one that covers it. Money in the others is the payer's.
func TestTheFirstAssetThatPaysEndsTheOthers(t *testing.T) {
	runTokens(t, money.USDC, func(m *merchant) {
		s := m.openIn(money.USDC, claim.AnyAsset)
		c := s.get()
		var offered []string
		for _, o := range c.Offers {
			offered = append(offered, o.Key()+" "+o.Amount.String())
		}
		if !slices.Equal(offered, []string{"BTC-regtest 0.00200000", "USDC-base 100.000000", "USDT-base 100.000000"}) {
			t.Errorf("the offers are %v", offered)
		}
		bitcoins := m.payer(c.Claim, money.BTC)
		s.Play("pay 100_000_000, mine 1, is paid", s.step)
		if c := s.get(); len(c.Offers) != 0 || c.Funding != money.USDC || c.TxHash != s.Paid[0] {
			t.Errorf("after the payment: %s, %s, offers %v", c.Funding, c.TxHash, c.Offers)
		}
		bitcoins.Play("pay 200_000, mine 1", nil)
		if c := s.is(claim.Paid); c.Exception != claim.Overpaid || len(c.OtherRefundable()) != 1 ||
			c.OtherRefundable()[0] != sats(full) {
			t.Errorf("%s, %v is the payer's", c.Exception, c.OtherRefundable())
		}
		s.wantBalances(balances{merchant: 99_00, revenue: 1_00})
		s.WantBalance(ledger.RefundPayable, s.id, sats(full))

		// If the payment disappears, the other one pays.
		s.Play("reorg 1, evict", s.step)
		if c := s.is(claim.Paid); c.Funding != money.BTC || c.Exception != claim.None || len(c.OtherRefundable()) != 0 {
			t.Errorf("%s in %s, %v is the payer's", c.Exception, c.Funding, c.OtherRefundable())
		}
		s.wantBalances(balances{merchant: 99_00, revenue: 1_00})
		s.WantBalance(ledger.RefundPayable, s.id, sats(0))
		s.Play("pay 100_000_000, mine 1", s.step)
		if c := s.is(claim.Paid); c.Funding != money.BTC {
			t.Errorf("a second payment in USDC changes the asset to %s", c.Funding)
		}
		s.wantBalances(balances{merchant: 99_00, revenue: 1_00, excess: 100_000_000})

		// The payer gets it back on the network of the payment.
		const payer = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
		s.WantFault("address_invalid", func(ctx context.Context, tx *db.Tx) error {
			_, token, err := m.claims.Refund(ctx, tx, m.By, "", s.id)
			if err == nil {
				_, err = m.claims.Accept(ctx, tx, s.id, token, bitcoinsim.New(m.DB).Home())
			}
			return err
		})
		s.refund(payer)
		all := fixture.Get(s.Fixture, func(ctx context.Context, tx *db.Tx) ([]claim.Refund, error) {
			return m.claims.Refunds(ctx, tx, m.By, "", s.id)
		})
		if len(all) != 1 || all[0].Network != "base" || all[0].Address != payer ||
			all[0].Amount != money.New(money.USDC, 100_000_000) {
			t.Errorf("refunds %+v", all)
		}
	})
}

// Parts in different assets are not added up: the rest is asked for in the asset of the first part, and the other part
// is the payer's once the claim is paid.
func TestPartsInDifferentAssets(t *testing.T) {
	runTokens(t, money.USDC, func(m *merchant) {
		s := m.openIn(money.USDC, claim.AnyAsset)
		bitcoins := m.payer(s.get().Claim, money.BTC)
		s.Play("pay 40_000_000, mine 1, is partially_paid, suspense 40_000_000", s.step)
		if c := s.get(); len(c.Offers) != 1 || c.Offers[0].Key() != "USDC-base" || c.Offers[0].Amount.Units() != 60_000_000 {
			t.Errorf("the offers for the rest are %+v", c.Offers)
		}
		bitcoins.Play("pay 120_000, mine 1", nil)
		s.is(claim.PartiallyPaid)
		s.WantBalance(ledger.SuspenseLate, s.id, sats(120_000))
		s.Play("pay 60_000_000, mine 1, is paid", s.step)
		s.wantBalances(balances{merchant: 99_00, revenue: 1_00})
		s.WantBalance(ledger.SuspenseLate, s.id, sats(0))
		s.WantBalance(ledger.RefundPayable, s.id, sats(120_000))
	})
}

// A merchant who settles in coins keeps each payment in its coin.
func TestSettlementInTheCoin(t *testing.T) {
	runTokens(t, money.USDC, func(m *merchant) {
		coin := claim.SettleInCoin
		m.change(claim.Change{SettleIn: &coin})
		s := m.openIn(money.USDC, claim.AnyAsset)
		s.Play("pay 100_000_000, mine 1, is paid", s.step)
		s.WantBalance(ledger.MerchantPayable, "", money.New(money.USDC, 99_000_000))
		s.WantBalance(ledger.OtherWallets, "base", money.New(money.USDC, 100_000_000))
		b := m.openPaid("200_000", "1")
		b.WantBalance(ledger.MerchantPayable, "", sats(198_000))
		if c := b.get(); c.SettleIn != money.BTC {
			t.Errorf("the claim is settled in %s", c.SettleIn)
		}
	})
}
