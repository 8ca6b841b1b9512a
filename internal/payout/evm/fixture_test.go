package evm_test

import (
	"context"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	evmrail "github.com/stipend/stipend/internal/payout/evm"
	"github.com/stipend/stipend/internal/payout/payouttest"
	"github.com/stipend/stipend/internal/sandbox/evmsim"
	"github.com/stipend/stipend/internal/signer/signertest"
	"github.com/stipend/stipend/internal/testkit"
)

// maxOutputs is the number of outputs of an asset per Prepare.
const maxOutputs = 5

// fixture has a hot wallet on the network base, with payouts.
type fixture struct {
	*payouttest.Fixture
	node    testNode
	lab     *evmtest.Chain // set only on a real node
	keys    *evm.Signer
	hot     string
	watcher *chain.Watcher
	rail    *evmrail.Rail
	payees  uint32
	blocked string // address that sanctions screening blocks
	notDue  string // ID of the collection whose object is paid otherwise
}

// testNode is a node of the network base that a test controls, with coins for every account.
type testNode interface {
	evm.Node
	Fund(ctx context.Context, account string, native, tokens int64) error
	Mine(ctx context.Context, blocks int) error
	SetBaseFee(ctx context.Context, wei int64) error
}

// simulated is the sandbox's network as a testNode. It records accepted transactions.
type simulated struct {
	*evmsim.Chain
	connection payouttest.Connection
	accepted   map[string]evm.Call // calls of accepted transactions, by the transactions' bytes
}

func (s *simulated) Fund(ctx context.Context, account string, native, tokens int64) error {
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

func (s *simulated) SetBaseFee(ctx context.Context, wei int64) error {
	_, err := s.SetFeeRate(ctx, wei)
	return err
}

func (s *simulated) Broadcast(ctx context.Context, raw []byte) error {
	return s.connection.Send(func() error {
		if err := s.Chain.Broadcast(ctx, raw); err != nil {
			return err
		}
		signed, _, err := evm.DecodeTx(raw)
		s.accepted[string(raw)] = signed.Call
		return err
	})
}

func (s *simulated) BroadcastAll(ctx context.Context, raws [][]byte) (errs []error) {
	for _, raw := range raws {
		errs = append(errs, s.Broadcast(ctx, raw))
	}
	return errs
}

// simulate returns a simulated network base, which also has USDT, and the keys of a wallet.
func simulate(f *payouttest.Fixture) (*simulated, *evm.Signer) {
	network, err := evm.Lookup("base")
	f.Must(err)
	network.BlocksPerConfirmation = 1
	network.Tokens = append(network.Tokens,
		evm.Token{Asset: money.USDT, Contract: "0xdAC17F958D2ee523a2206206994597C13D831ec7"})
	keys, err := evm.ParseXPriv(masterKey())
	f.Must(err)
	return &simulated{Chain: evmsim.New(f.DB, network), accepted: map[string]evm.Call{}}, keys
}

func masterKey() string {
	return testkit.Must(evm.MasterFromSeed([]byte("the account of a rail that is tested")))
}

func newRealFixture(f *payouttest.Fixture, node *evmtest.Node) *fixture {
	lab := node.Chain(f.T, money.USDC)
	w := newFixture(f, node, lab.Signer())
	w.lab = lab
	return w
}

func newFixture(f *payouttest.Fixture, node testNode, keys *evm.Signer) *fixture {
	return newFixtureWith(f, node, keys, nil)
}

// newFixtureWith returns a fixture whose keys are in a signer, or in the process if remote is nil.
func newFixtureWith(f *payouttest.Fixture, node testNode, keys *evm.Signer, remote *signertest.Signer) *fixture {
	w := &fixture{Fixture: f, node: node, keys: keys}
	var err error
	w.hot, err = keys.Deriver().HotAddress()
	w.Must(err)
	w.Must(node.Fund(w.Context(), w.hot, 1_000_000_000_000, 1_000_000_000))
	config := evmrail.Config{Node: node, Signer: keys, Log: w.Log, MaxOutputs: maxOutputs,
		Screen: func(_ context.Context, _ *db.Tx, _, _, address string) (bool, error) {
			return address == w.blocked, nil
		},
		Due: func(_ context.Context, _ *db.Tx, c evmrail.Collection) (bool, error) { return c.ID != w.notDue, nil },
	}
	if remote != nil {
		config.Signer, config.Remote, config.Keys = nil, remote.Client, keys.Deriver()
	}
	w.rail, err = evmrail.New(w.Context(), w.DB, config)
	w.Start(w.rail, err)
	w.watcher = chain.NewWatcher(w.DB, node.Spec().Name, node, 1, w.Log)
	w.sync()
	return w
}

// sync follows the chain and runs the jobs that are due.
func (w *fixture) sync() {
	w.Helper()
	w.Must(w.watcher.Sync(w.Context()))
	w.Drain()
}

// wait lets time pass and then syncs.
func (w *fixture) wait(d time.Duration) {
	w.Helper()
	w.Clock.Advance(d)
	w.sync()
}

// mine mines a block and syncs.
func (w *fixture) mine() {
	w.Helper()
	w.Must(w.node.Mine(w.Context(), 1))
	w.sync()
}

// baseFee sets the base fee of the blocks, mines one, and lets the rail read the fee rate.
func (w *fixture) baseFee(wei int64) {
	w.Helper()
	w.Must(w.node.SetBaseFee(w.Context(), wei))
	w.mine()
	w.Must(w.rail.RefreshFees(w.Context(), w.DB))
}

// newPayee returns the address of a new payee.
func (w *fixture) newPayee() string {
	w.Helper()
	address, err := w.keys.Deriver().Address(chain.External, 1_000+w.payees)
	w.Must(err)
	w.payees++
	return address
}

// add queues an amount to a new payee and returns the payee's address and the output's ID.
func (w *fixture) add(amount money.Amount) (address, id string) {
	w.Helper()
	address = w.newPayee()
	return address, w.addTo(amount, address)[0]
}

// addTo appends a payout of the amount to the queue for each address.
func (w *fixture) addTo(amount money.Amount, addresses ...string) (ids []string) {
	w.Helper()
	w.Clock.Advance(time.Millisecond)
	var outs []payout.Output
	for _, to := range addresses {
		outs = append(outs, payout.Output{Rail: "base", Amount: amount, Address: to})
	}
	for _, o := range w.Queue(outs...) {
		ids = append(ids, o.ID)
	}
	return ids
}

// delays fails the test unless the company has exactly these payout.delayed events.
func (w *fixture) delays(want ...string) {
	w.Helper()
	if got := w.Delays(); !slices.Equal(got, want) {
		w.Fatalf("payout.delayed events %q, want %q", got, want)
	}
}

// paid checks on a real chain that an address received an amount in one transfer, or nothing.
func (w *fixture) paid(address string, amount money.Amount) {
	w.Helper()
	got, times, err := w.lab.Paid(w.Context(), amount.Asset())
	w.Must(err)
	want := 1
	if amount.IsZero() {
		want = 0
	}
	if got[address] != amount.Units() || times[address] != want {
		w.Fatalf("%s got %d in %d transfers, want %d in %d", address, got[address], times[address], amount.Units(), want)
	}
}

// holds compares the balance of a ledger account.
func (w *fixture) holds(code ledger.Code, dim string, want money.Amount) {
	w.Helper()
	if got := w.Balance(code, dim, want.Asset()); got != want {
		w.Errorf("account %s %s has %s, want %s", code, dim, got, want)
	}
}

func usdc(n int64) money.Amount { return money.New(money.USDC, n) }

func eth(n int64) money.Amount { return money.New(money.ETH, n) }
