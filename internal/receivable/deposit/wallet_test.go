package deposit

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/btcdtest"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/sandbox/evmsim"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/webhook"
)

// road is a chain on which coins are sent to a wallet.
type road struct {
	name   string
	coin   money.Amount // amount of each payment, small enough for one confirmation
	source chain.Source
	keys   chain.Deriver
	pay    func(ctx context.Context, address string) (txid string, err error)
	mine   func(ctx context.Context, blocks int) error
	reorg  func(ctx context.Context, depth int) error
	// holds returns the amount that the chain itself reports as paid.
	holds func(ctx context.Context, address string, coins []chain.Outpoint) (int64, error)
}

// ofLab returns the road of a chain that the test controls.
func ofLab(name string, coin money.Amount, lab chaintest.Chain, keys chain.Deriver) road {
	return road{name: name, coin: coin, source: lab.Source(), keys: keys, mine: lab.Mine, reorg: lab.Reorg,
		pay: func(ctx context.Context, address string) (string, error) {
			return lab.PayAll(ctx, chain.Output{Address: address, Amount: coin.Units()})
		}}
}

// byCoins asks for each coin, byAccount for the balance of an address at the newest block.
func byCoins(r road, node chain.UTXOSource) road {
	r.holds = func(ctx context.Context, _ string, coins []chain.Outpoint) (sum int64, err error) {
		for _, o := range coins {
			sats, err := node.Coin(ctx, o)
			if err != nil {
				return 0, err
			}
			sum += sats
		}
		return sum, nil
	}
	return r
}

func byAccount(r road, node evm.Node) road {
	r.holds = func(ctx context.Context, address string, _ []chain.Outpoint) (int64, error) {
		height, _, err := node.Tip(ctx)
		if err != nil {
			return 0, err
		}
		all, err := node.Balances(ctx, []string{address}, height)
		return all[r.coin.Asset()], err
	}
	return r
}

// simulated adapts the simulated chain to chaintest.
type simulated struct{ *bitcoinsim.Chain }

func (s simulated) Source() chain.Source { return s.Chain }

// Coins sent to a wallet's address are credited to its company's balance, each payment once. A reorganization debits
// them until they are in a block again. This holds on simulated chains, on both engines, and on real nodes, and the
// ledger agrees with the chain.
func TestAWalletIsPaidOnEveryChain(t *testing.T) {
	accounts := sync.OnceValue(func() *evmtest.Node { return evmtest.Start(t) })
	onAccounts := func(coin money.Amount) func(*testing.T, *fixture) road {
		return func(t *testing.T, _ *fixture) road {
			lab := accounts().Chain(t, coin.Asset())
			return byAccount(ofLab("base", coin, lab, lab.Deriver()), lab.Client)
		}
	}
	bitcoins := func(t *testing.T, h *fixture, lab chaintest.Chain, node chain.UTXOSource) road {
		return byCoins(ofLab(network, money.New(money.BTC, 100_000), lab, chaintest.NewSigner(t, h.d).Deriver()), node)
	}
	simulations := map[string]func(*testing.T, *fixture) road{
		"simulated coins": func(t *testing.T, h *fixture) road {
			c := bitcoinsim.New(h.d)
			return bitcoins(t, h, simulated{c}, c)
		},
		"simulated accounts": func(t *testing.T, h *fixture) road {
			n, err := evm.Lookup("base")
			if err != nil {
				t.Fatal(err)
			}
			seed, err := evm.MasterFromSeed([]byte("the wallet of this test"))
			if err != nil {
				t.Fatal(err)
			}
			signer, err := evm.ParseXPriv(seed)
			if err != nil {
				t.Fatal(err)
			}
			c, coin := evmsim.New(h.d, n), money.New(money.USDC, 5_000_000)
			return byAccount(road{name: "base", coin: coin, source: c, keys: signer.Deriver(), mine: c.Mine, reorg: c.Reorg,
				pay: func(ctx context.Context, address string) (string, error) { return c.Pay(ctx, address, coin) }}, c)
		},
	}
	nodes := map[string]func(*testing.T, *fixture) road{
		"btcd": func(t *testing.T, h *fixture) road {
			node := btcdtest.Start(t)
			return bitcoins(t, h, node, node)
		},
		"anvil, its own coin": onAccounts(money.New(money.ETH, 10_000_000)),
		"anvil, a token":      onAccounts(money.New(money.USDC, 5_000_000)),
	}
	play := func(open func(*testing.T, *fixture) road) func(*testing.T, *fixture) {
		return func(t *testing.T, h *fixture) { newPurse(t, h, open(t, h)).isPaid() }
	}
	for name, open := range simulations {
		t.Run(name, func(t *testing.T) { run(t, play(open)) })
	}
	for name, open := range nodes {
		t.Run(name, func(t *testing.T) {
			testkit.NotQuick(t, "a node")
			clock := dbtest.NewClock()
			runIn(t, dbtest.Open(t, db.Options{URL: dbtest.SQLite(t), Clock: clock.Now}), clock, play(open))
		})
	}
}

// purse is a wallet whose chain is watched.
type purse struct {
	*fixture
	road
	watcher *chain.Watcher
	jobs    *job.Runner
	address string
	paid    []string // transaction IDs
}

func newPurse(t *testing.T, h *fixture, r road) *purse {
	t.Helper()
	p := &purse{fixture: h, road: r}
	h.exec("DELETE FROM chain_cursors WHERE chain = $1", network) // the watcher creates its own
	log := slog.New(slog.DiscardHandler)
	p.watcher = chain.NewWatcher(h.d, r.name, r.source, 1, log)
	p.jobs = job.NewRunner(h.d, job.Table{chain.JobOutput: {Batch: OutputsChanged}}, nil, log)
	p.settle()
	pool := chain.NewPool(h.d, r.name, r.keys)
	h.write(func(ctx context.Context, tx *db.Tx) (err error) {
		p.address, err = pool.NewAddress(ctx, tx, company, "wal_1")
		return err
	})
	return p
}

func (p *purse) do(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// settle runs the watcher and its jobs.
func (p *purse) settle() {
	p.t.Helper()
	p.do(p.watcher.Sync(p.t.Context()))
	p.do(p.jobs.Drain(p.t.Context()))
}

// send pays the wallet's address and runs the watcher.
func (p *purse) send() {
	p.t.Helper()
	txid, err := p.pay(p.t.Context(), p.address)
	p.do(err)
	p.settle()
	p.paid = append(p.paid, txid)
}

// credited checks the number of payments in the balance and in the operator's wallet, and the states of all deposits.
func (p *purse) credited(what string, payments int, states ...State) {
	p.t.Helper()
	p.settle()
	asset, want := p.coin.Asset(), int64(payments)*p.coin.Units()
	wallet, where := ledger.WalletOf(asset, p.name)
	balance, held := p.balanceIn(ledger.CompanyFunds, "", asset), p.balanceIn(wallet, where, asset)
	if balance != want || held != want {
		p.t.Errorf("%s: %d in the balance and %d in the wallet, want %d", what, balance, held, want)
	}
	for i, txid := range p.paid {
		d := p.deposit(txid)
		if d.State != states[i] || d.Amount != p.coin || d.Address != p.address || d.OwnerID != company ||
			d.Chain != p.name {
			p.t.Errorf("%s, payment %d: %+v, want it %s", what, i, d, states[i])
		}
	}
	p.checkLedger()
}

// deposit returns the only deposit of a transaction.
func (p *purse) deposit(txid string) (d Deposit) {
	p.t.Helper()
	p.do(p.d.Read(p.t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		d, err = scan(tx.QueryRow(ctx, "SELECT "+columns+" FROM deposits WHERE company_id = $1 AND txid = $2",
			company, txid))
		return err
	}))
	return d
}

func (p *purse) isPaid() {
	ctx := p.t.Context()
	p.send()
	p.credited("seen", 0, Seen)
	p.do(p.mine(ctx, 1))
	p.credited("in a block", 1, Confirmed)
	p.send()
	p.credited("another is seen", 1, Confirmed, Seen)
	p.do(p.mine(ctx, 1))
	p.credited("both in blocks", 2, Confirmed, Confirmed)
	p.do(p.reorg(ctx, 2))
	p.credited("both taken back", 0, Reverted, Reverted)
	p.do(p.mine(ctx, 1))
	p.credited("both again", 2, Confirmed, Confirmed)
	coins := []chain.Outpoint{p.deposit(p.paid[0]).Outpoint, p.deposit(p.paid[1]).Outpoint}
	if holds, err := p.holds(ctx, p.address, coins); err != nil || holds != 2*p.coin.Units() {
		p.t.Errorf("the chain says %d, %v", holds, err)
	}
	if n := p.count("SELECT COUNT(*) FROM events WHERE name = $1 AND data LIKE '%\"status\":\"confirmed\"%'",
		webhook.WalletDepositUpdate.Name); n != 4 {
		p.t.Errorf("%d deposits were reported as confirmed, want two, each twice", n)
	}
}
