package deposit

import (
	"context"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/btcdtest"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/sandbox/evmsim"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/fixture"
	"github.com/stipend/stipend/internal/webhook"
)

// paidChain is a chain on which coins are sent to a wallet.
type paidChain struct {
	name  string
	coin  money.Amount // amount of each payment, small enough for one confirmation
	chain chaintest.Chain
	keys  chain.Deriver
	// holds returns the amount that the chain itself reports as paid.
	holds func(ctx context.Context, address string, coins []chain.Outpoint) (int64, error)
}

// bitcoins is a Bitcoin chain. The amount that was paid is the sum of the coins.
func bitcoins(h *env, c chaintest.Chain, node chain.UTXOSource) paidChain {
	return paidChain{network, fixture.Sats(100_000), c, chaintest.NewSigner(h, h.DB).Deriver(),
		func(ctx context.Context, _ string, coins []chain.Outpoint) (sum int64, err error) {
			for _, o := range coins {
				sats, err := node.Coin(ctx, o)
				if err != nil {
					return 0, err
				}
				sum += sats
			}
			return sum, nil
		}}
}

// accounts is an EVM network. The amount that was paid is the balance of the address at the newest block.
func accounts(coin money.Amount, c chaintest.Chain, keys chain.Deriver, node evm.Node) paidChain {
	return paidChain{"base", coin, c, keys, func(ctx context.Context, address string, _ []chain.Outpoint) (int64, error) {
		height, _, err := node.Tip(ctx)
		if err != nil {
			return 0, err
		}
		all, err := node.Balances(ctx, []string{address}, height)
		return all[coin.Asset()], err
	}}
}

// simulatedAccounts makes a simulated EVM network a chaintest.Chain, whose payments are in USDC.
type simulatedAccounts struct{ *evmsim.Chain }

func (s simulatedAccounts) Source() chain.Source { return s.Chain }

func (s simulatedAccounts) PayAll(ctx context.Context, outputs ...chain.Output) (string, error) {
	return s.Pay(ctx, outputs[0].Address, money.New(money.USDC, outputs[0].Amount))
}

// Coins sent to a wallet's address are credited to its company's balance, each payment once. A reorganization debits
// them until they are in a block again. This holds on simulated chains, on both engines, and on real nodes, and the
// ledger agrees with the chain.
func TestPaymentsToAWallet(t *testing.T) {
	anvil := sync.OnceValue(func() *evmtest.Node { return evmtest.Start(t) })
	onAnvil := func(coin money.Amount) func(h *env) paidChain {
		return func(h *env) paidChain {
			c := anvil().Chain(h.TB.(*testing.T), coin.Asset())
			return accounts(coin, c, c.Deriver(), c.Client)
		}
	}
	for name, open := range map[string]func(h *env) paidChain{
		"simulated coins": func(h *env) paidChain {
			c := bitcoinsim.New(h.DB)
			return bitcoins(h, fixture.Simulated{Chain: c}, c)
		},
		"simulated accounts": func(h *env) paidChain {
			c := evmsim.New(h.DB, testkit.Must(evm.Lookup("base")))
			seed := testkit.Must(evm.MasterFromSeed([]byte("the wallet of this test")))
			keys := testkit.Must(evm.ParseXPriv(seed)).Deriver()
			return accounts(money.New(money.USDC, 5_000_000), simulatedAccounts{c}, keys, c)
		},
	} {
		t.Run(name, func(t *testing.T) { run(t, func(h *env) { testWallet(h, open(h)) }) })
	}
	for name, open := range map[string]func(h *env) paidChain{
		"btcd": func(h *env) paidChain {
			node := btcdtest.Start(h.TB)
			return bitcoins(h, node, node)
		},
		"anvil, its own coin": onAnvil(money.New(money.ETH, 10_000_000)),
		"anvil, a token":      onAnvil(money.New(money.USDC, 5_000_000)),
	} {
		t.Run(name, func(t *testing.T) {
			testkit.NotQuick(t, "a node")
			clock := dbtest.NewClock()
			d := dbtest.Open(t, db.Options{URL: dbtest.SQLite(t), Clock: clock.Now})
			runIn(t, d, clock, func(h *env) { testWallet(h, open(h)) })
		})
	}
}

func testWallet(h *env, p paidChain) {
	c := h.watch(p.name, p.chain)
	h.open(c, p.keys, "wal_1")
	pay := func() { c.Pay(chain.Output{Address: c.Address, Amount: p.coin.Units()}) }
	mine := func(n int) { h.Helper(); c.Settle(p.chain.Mine(h.Context(), n)) }
	// deposit returns the only deposit of a transaction.
	deposit := func(txid string) Deposit {
		return fixture.Get(h.Fixture, func(ctx context.Context, tx *db.Tx) (Deposit, error) {
			return scan(tx.QueryRow(ctx, "SELECT "+columns+" FROM deposits WHERE company_id = $1 AND txid = $2",
				company, txid))
		})
	}
	// credited checks the number of payments in the balance and in the operator's wallet, and the states of all deposits.
	credited := func(payments int64, states ...State) {
		h.Helper()
		want := money.New(p.coin.Asset(), payments*p.coin.Units())
		wallet, where := ledger.WalletOf(p.coin.Asset(), p.name)
		h.WantBalance(ledger.CompanyFunds, "", want)
		h.WantBalance(wallet, where, want)
		for i, txid := range c.Paid {
			d := deposit(txid)
			if d.State != states[i] || d.Amount != p.coin || d.Address != c.Address || d.OwnerID != company ||
				d.Chain != p.name {
				h.Errorf("deposit %d: %+v, want it %s", i, d, states[i])
			}
		}
		h.checkLedger()
	}
	pay()
	credited(0, Seen)
	mine(1)
	credited(1, Confirmed)
	pay()
	credited(1, Confirmed, Seen)
	mine(1)
	credited(2, Confirmed, Confirmed)
	c.Settle(p.chain.Reorg(h.Context(), 2))
	credited(0, Reverted, Reverted)
	mine(1)
	credited(2, Confirmed, Confirmed)
	coins := []chain.Outpoint{deposit(c.Paid[0]).Outpoint, deposit(c.Paid[1]).Outpoint}
	if sum, err := p.holds(h.Context(), c.Address, coins); err != nil || sum != 2*p.coin.Units() {
		h.Errorf("the chain reports %d, %v", sum, err)
	}
	// Each of the two deposits was confirmed twice.
	h.WantCount(4, `events WHERE name = $1 AND data LIKE '%"status":"confirmed"%'`, webhook.WalletDepositUpdate.Name)
}
