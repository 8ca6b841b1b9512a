package claim_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/btcdtest"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/testkit/fixture"
	"github.com/stipend/stipend/internal/treasury"
	"github.com/stipend/stipend/internal/webhook"
)

const (
	network  = "regtest"
	validity = 15 * time.Minute

	full = 200_000 // satoshis of 100 USD at 50,000 USD per bitcoin
)

// TestPayments performs the actions of payers on the simulated chain and on a real node, on both engines.
func TestPayments(t *testing.T) {
	t.Run("sim", func(t *testing.T) { run(t, testPayments) })
	t.Run("btcd", func(t *testing.T) {
		testkit.NotQuick(t, "btcd")
		start := sync.OnceValue(func() *btcdtest.Node { return btcdtest.Start(t) })
		dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
			testPayments(newMerchant(fixture.New(t, d, clock), start()))
		})
	})
}

func testPayments(m *merchant) {
	t := m.TB.(*testing.T)
	sold := balances{merchant: 99_00, revenue: 1_00}
	for _, c := range []struct {
		name, play string // steps, after a setting of the merchant that ends with a semicolon
		end        claim.State
		exception  claim.Exception
		events     string // the states in the claim's events, in order
		want       balances
	}{
		{"the full amount", "pay 200_000, is confirming, mine 1", claim.Paid, claim.None, "confirming paid", sold},
		{"a second before the quote ends, mined later", "wait 14m59s, pay 200_000, wait 40m, is confirming, mine 1",
			claim.Paid, claim.None, "confirming paid", sold},
		{"half a percent too little, and then the rest",
			"pay 199_000, is partially_paid, mine 1, suspense 199_000, pay 1_000, mine 1",
			claim.Paid, claim.None, "partially_paid confirming paid", sold},
		{"less than dust too little", "pay 199_800, mine 1", claim.Paid, claim.WithinTolerance, "confirming paid",
			balances{merchant: 99_00, revenue: 1_00, shortfall: 200}},
		{"too little", "pay 150_000, mine 1, wait 15m", claim.Underpaid, claim.None, "partially_paid underpaid",
			balances{suspense: 150_000}},
		{"too little, and the rest at a new price",
			"pay 150_000, mine 1, wait 15m, refresh partially_paid 50_000, pay 50_000, mine 1",
			claim.Paid, claim.None, "partially_paid underpaid partially_paid confirming paid", sold},
		{"half a percent too little, within the tolerance", "tolerance 50; pay 199_000, is confirming, mine 1",
			claim.Paid, claim.WithinTolerance, "confirming paid",
			balances{merchant: 99_00, revenue: 1_00, shortfall: 1_000}},
		{"a satoshi less than the tolerance allows", "tolerance 50; pay 198_999, mine 1",
			claim.PartiallyPaid, claim.None, "partially_paid", balances{suspense: 198_999}},
		{"half a percent too much", "pay 201_000, mine 1", claim.Paid, claim.Overpaid, "confirming paid",
			balances{merchant: 99_00, revenue: 1_00, excess: 1_000}},
		{"ten times too much", "pay 2_000_000, mine 1", claim.Paid, claim.Overpaid, "confirming paid",
			balances{merchant: 99_00, revenue: 1_00, excess: 9 * full}},
		{"in two transactions", "pay 80_000, wait 1s, pay 120_000, mine 1, completed, lists all",
			claim.Paid, claim.None, "partially_paid confirming paid", sold},
		{"in two outputs of one transaction", "pay 80_000+120_000, mine 1", claim.Paid, claim.None,
			"confirming paid", sold},
		{"twice", "pay 200_000, mine 1, is paid, pay 200_000, mine 1", claim.Paid, claim.Overpaid,
			"confirming paid", balances{merchant: 99_00, revenue: 1_00, excess: full}},
		{"and again weeks later", "pay 200_000, mine 1, is paid, wait 480h, pay 200_000, mine 1",
			claim.Paid, claim.Overpaid, "confirming paid", balances{merchant: 99_00, revenue: 1_00, excess: full}},
		{"a second after the quote ended", "wait 15m1s, is expired, pay 200_000, is expired, mine 1",
			claim.PaidLate, claim.Late, "expired paid_late", balances{suspense: full}},
		{"months later", "wait 2400h, pay 200_000, mine 1",
			claim.PaidLate, claim.Late, "expired paid_late", balances{suspense: full}},
		{"late, and the merchant accepts it", "wait 15m, pay 200_000, mine 1, refresh",
			claim.Paid, claim.Late, "expired paid_late paid", sold},
		{"late and too little, and the rest in time",
			"wait 15m, pay 150_000, mine 1, refresh partially_paid 50_000, pay 50_000, mine 1",
			claim.Paid, claim.Late, "expired paid_late partially_paid confirming paid", sold},
		{"after the merchant cancelled", "cancel, pay 200_000, is cancelled, mine 1",
			claim.PaidLate, claim.Late, "cancelled paid_late", balances{suspense: full}},
		{"after the merchant cancelled, who accepts the full amount",
			"cancel, pay 150_000, mine 1, refresh refused, is paid_late, pay 50_000, mine 1, refresh",
			claim.Paid, claim.Late, "cancelled paid_late paid", sold},
		{"replaced with a higher fee", "pay 200_000, replace 200_000, is confirming, mine 1, completed",
			claim.Paid, claim.None, "confirming paid", sold},
		{"replaced with a higher fee after the quote ended",
			"pay 200_000, wait 30m, replace 200_000, is confirming, mine 1",
			claim.Paid, claim.None, "confirming paid", sold},
		{"replaced by a smaller amount after the quote ended", "pay 200_000, wait 30m, replace 150_000, mine 1",
			claim.PaidLate, claim.Late, "confirming expired paid_late", balances{suspense: full - 50_000}},
		{"taken back", "pay 200_000, replace, is awaiting_payment, mine 1",
			claim.AwaitingPayment, claim.None, "confirming awaiting_payment", balances{}},
		{"taken back after the quote ended", "pay 200_000, wait 15m, replace, mine 1",
			claim.Expired, claim.None, "confirming expired", balances{}},
		{"evicted from the mempool", "pay 200_000, evict",
			claim.AwaitingPayment, claim.None, "confirming awaiting_payment", balances{}},
		{"in two transactions, one of them evicted", "pay 80_000, mine 1, pay 120_000, evict",
			claim.PartiallyPaid, claim.None, "partially_paid confirming partially_paid", balances{suspense: 80_000}},
		{"removed by a reorganization and mined again",
			"pay 200_000, mine 1, is paid, reorg 1, is confirming reverted, suspense 0, mine 1",
			claim.Paid, claim.None, "confirming paid confirming paid", sold},
		{"removed by a reorganization of six blocks and mined again",
			"pay 200_000, mine 6, reorg 6, is confirming, suspense 0, mine 6",
			claim.Paid, claim.None, "confirming paid confirming paid", sold},
		{"too much, removed by a reorganization and evicted", "pay 250_000, mine 1, is paid, wait 15m, reorg 1, evict",
			claim.Expired, claim.None, "confirming paid confirming expired", balances{}},
		{"several claims in one transaction", "together", claim.Paid, claim.None, "confirming paid", sold},
		{"dust", "dust, is awaiting_payment, wait 15m", claim.Expired, claim.None, "expired", balances{}},
		{"in no block for a day", "pay 200_000, wait 24h15m, is invalid, mine 1",
			claim.PaidLate, claim.Late, "confirming invalid paid_late", balances{suspense: full}},
		{"in two transactions, one of them in no block for a day",
			"pay 80_000, mine 1, pay 120_000, wait 24h15m, is paid_late, suspense 80_000, mine 1",
			claim.PaidLate, claim.Late, "partially_paid confirming paid_late", balances{suspense: full}},
		{"a little, replaced by the full amount after the quote ended",
			"pay 1_000, wait 30m, is underpaid, replace 200_000, mine 1",
			claim.PaidLate, claim.Late, "partially_paid underpaid expired paid_late", balances{suspense: full}},
		{"to an address of another network", "on regtest, wait 15m", claim.Expired, claim.None, "expired", balances{}},
		{"late, and the policy accepts it at the new price", "late requote; wait 15m, pay 200_000, mine 1",
			claim.Paid, claim.Late, "expired paid_late paid", sold},
		{"late, and the policy refunds it", "late refund; wait 15m, pay 200_000, mine 1",
			claim.PaidLate, claim.Late, "expired paid_late", balances{excess: full}},
		{"without confirmations, posted when mined", "confirmations 0; pay 200_000, is paid, suspense 0, mine 1",
			claim.Paid, claim.None, "paid", sold},
		{"without confirmations, and taken back", "confirmations 0; pay 200_000, replace",
			claim.AwaitingPayment, claim.None, "paid awaiting_payment", balances{}},
		{"within the grace period", "grace 60; wait 15m30s, pay 200_000, mine 1",
			claim.Paid, claim.Late, "expired confirming paid", sold},
	} {
		t.Run(c.name, func(t *testing.T) {
			m.TB = t
			settings, steps, ok := strings.Cut(c.play, "; ")
			if !ok {
				settings, steps = "", c.play
			}
			m.setPolicy(settings)
			s := m.open()
			s.Play(steps, s.step)
			if got := s.is(c.end); got.Exception != c.exception {
				s.Errorf("the exception is %s, want %s", got.Exception, c.exception)
			}
			s.wantBalances(c.want)
			if got := s.eventStates(); got != c.events {
				s.Errorf("the events have states %q, want %q", got, c.events)
			}
			m.CheckLedger()
		})
	}
	t.Run("removed by reorganizations of every depth", func(t *testing.T) {
		m.TB = t
		testReorganizations(m)
	})
	m.TB = t
}

// merchant is a company that sells on a chain that the test controls.
type merchant struct {
	*fixture.Chain
	evm    *fixture.Chain // network base; nil unless the test has it
	keys   *bitcoin.Signer
	claims *claim.Service
	guards claim.Guards // the guards that the service calls, which tests replace
}

// run runs f on both engines with the simulated chain, and checks the ledger afterwards.
func run(t *testing.T, f func(m *merchant)) {
	t.Helper()
	fixture.Run(t, func(x *fixture.Fixture) {
		f(newMerchant(x, fixture.Simulated{Chain: bitcoinsim.New(x.DB)}))
	})
}

func newMerchant(x *fixture.Fixture, c chaintest.Chain) *merchant {
	x.Helper()
	sealer, err := identity.NewSealer(make([]byte, 32))
	if err != nil {
		x.Fatal(err)
	}
	funds, err := treasury.New(treasury.Unlimited)
	if err != nil {
		x.Fatal(err)
	}
	m := &merchant{keys: chaintest.NewSigner(x, x.DB)}
	m.guards = claim.Guards{CheckWatched: allow.Network, Screen: allow.Address, ReleaseApproved: allow.Release}
	m.claims, err = claim.New(claim.Config{
		Pool: chain.NewPool(x.DB, network, m.keys.Deriver()), ChainName: network, Network: network, Validity: validity,
		BaseURL: "https://pay.example.com", Withdrawals: newWithdrawals(x), Sealer: sealer,
		Treasury: funds,
	}, claim.Guards{
		CheckWatched: func(ctx context.Context, tx *db.Tx, network string, until time.Time) error {
			return m.guards.CheckWatched(ctx, tx, network, until)
		},
		Screen: func(ctx context.Context, tx *db.Tx, companyID, subjectID, address string) (bool, error) {
			return m.guards.Screen(ctx, tx, companyID, subjectID, address)
		},
		ReleaseApproved: func(ctx context.Context, tx *db.Tx, companyID, id string, a money.Amount) (bool, error) {
			return m.guards.ReleaseApproved(ctx, tx, companyID, id, a)
		},
		Renewable: allow.Renewal,
	})
	if err != nil {
		x.Fatal(err)
	}
	x.UseCompany(identity.NewCompany{Name: "Shop", Country: "US", Email: "shop@example.com", FeeBps: 100})
	m.Chain = x.NewChain(network, c, m.jobTable(), func(ctx context.Context) error {
		_, err := quote.ExpireDue(ctx, x.DB, network, nil)
		return err
	})
	return m
}

func (m *merchant) jobTable() job.Table {
	return job.Table{
		chain.JobOutput: {Batch: deposit.OutputsChanged}, deposit.JobChanged: {Batch: m.claims.Follow},
		quote.JobExpired: {Batch: m.claims.QuoteExpired}, claim.JobMonitor: {Batch: m.claims.Monitor},
	}
}

func (m *merchant) change(c claim.Change) {
	m.Helper()
	m.Write(fixture.Drop(func(ctx context.Context, tx *db.Tx) (claim.Settings, error) {
		return m.claims.ChangeSettings(ctx, tx, m.By, "", c)
	}))
}

// setPolicy sets the default policy with one setting changed, such as "tolerance 50".
func (m *merchant) setPolicy(setting string) {
	m.Helper()
	late, confirmations, grace, tolerance := "manual", int64(1), int64(0), int64(0)
	name, value, _ := strings.Cut(setting, " ")
	number := map[string]*int64{"tolerance": &tolerance, "confirmations": &confirmations, "grace": &grace}[name]
	switch {
	case setting == "":
	case name == "late":
		late = value
	case number != nil:
		*number = testkit.Must(strconv.ParseInt(value, 10, 64))
	default:
		m.Fatalf("unknown setting %q", setting)
	}
	m.change(claim.Change{Late: &late, Confirmations: &confirmations, GraceSeconds: &grace, ToleranceBps: &tolerance})
}

// tryCreate creates a claim of 100 USD.
func (m *merchant) tryCreate() (claim.Claim, error) { return m.tryCreateIn("") }

func (m *merchant) tryCreateIn(funding string) (claim.Claim, error) {
	return fixture.Try(m.Fixture, func(ctx context.Context, tx *db.Tx) (claim.Claim, error) {
		return m.claims.Create(ctx, tx, m.By, claim.CreateParams{PayerID: "customer", AmountText: "100", Currency: "USD",
			Funding: funding})
	})
}

// sale is a claim of 100 USD and its payments.
type sale struct {
	*fixture.Chain
	m     *merchant
	id    string
	asset money.Asset // asset of the balances that are compared
	// merchant and revenue are the balances before the sale.
	merchant, revenue int64
}

func (m *merchant) open() *sale {
	m.Helper()
	return m.openIn(money.BTC, string(money.BTC))
}

// openIn creates a claim with a funding currency, which the steps of Play pay in an asset.
func (m *merchant) openIn(asset money.Asset, funding string) *sale {
	m.Helper()
	s := &sale{m: m, asset: asset}
	s.merchant = m.Balance(ledger.MerchantPayable, "", money.USD)
	s.revenue = m.Balance(ledger.FeeRevenue, "", money.USD)
	c, err := m.tryCreateIn(funding)
	if err != nil {
		m.Fatal(err)
	}
	s.Chain, s.id = m.payer(c, asset), c.ID
	return s
}

// payer returns the chain of an asset, whose steps pay a claim.
func (m *merchant) payer(c claim.Claim, asset money.Asset) *fixture.Chain {
	m.Helper()
	own := *m.Chain
	if asset != money.BTC {
		own = *m.evm
	}
	for _, o := range c.Offers {
		if o.Amount.Asset() == asset {
			own.Address = o.Quote.Address
		}
	}
	return &own
}

// openPaid returns a claim that was paid with an amount and confirmed.
func (m *merchant) openPaid(amount string, blocks string) *sale {
	m.Helper()
	s := m.open()
	s.Play("pay "+amount+", mine "+blocks+", is paid", s.step)
	return s
}

// step performs the steps that package fixture does not define. Unless noted, they compare the claim.
func (s *sale) step(verb, rest string) {
	s.Helper()
	first, second, _ := strings.Cut(rest, " ")
	switch verb {
	case "is":
		if c := s.is(claim.State(first)); second == "reverted" && !c.Reverted {
			s.Errorf("the claim is not marked as reverted")
		}
	case "suspense":
		s.wantBalances(balances{suspense: s.Number(rest)})
	case "cancel":
		s.m.Write(fixture.Drop(func(ctx context.Context, tx *db.Tx) (claim.Claim, error) {
			return s.m.claims.Cancel(ctx, tx, s.m.By, "", s.id)
		}))
	case "refresh":
		s.refresh(first, second)
	case "completed":
		if c, last := s.get(), s.Paid[len(s.Paid)-1]; c.TxHash != last {
			s.Errorf("completed by %s, want %s", c.TxHash, last)
		}
	case "lists":
		var got []string
		for _, d := range s.get().Payments {
			got = append(got, d.TxID)
		}
		if !slices.Equal(got, s.Paid) {
			s.Errorf("the payments are %v, want %v", got, s.Paid)
		}
	case "on":
		if !strings.HasPrefix(s.Address, "bcrt1") || s.get().Network != rest {
			s.Errorf("the address %s is not of network %s", s.Address, rest)
		}
	case "dust":
		s.payDust(chain.Output{Address: s.Address, Amount: 293})
	case "together":
		s.payTogether()
	default:
		s.Fatalf("unknown step %q", verb)
	}
}

// refresh requests a new quote. A state and an amount are those of the new quote, "refused" expects an error.
func (s *sale) refresh(state, amount string) {
	s.Helper()
	c, err := fixture.Try(s.Fixture, func(ctx context.Context, tx *db.Tx) (claim.Claim, error) {
		return s.m.claims.Refresh(ctx, tx, s.m.By, "", s.id)
	})
	switch {
	case state == "refused":
		s.WantError(claim.ErrState, func(context.Context, *db.Tx) error { return err })
	case err != nil:
		s.Fatal(err)
	case amount == "":
	case c.Quote.Funding.Units() != s.Number(amount) || c.Quote.Due != usd(25_00) || string(c.State) != state:
		s.Errorf("the new quote is for %s BTC, %s USD, and the claim is %s", c.Quote.Funding, c.Quote.Due, c.State)
	}
}

// payDust pays an amount that nodes do not relay: only a miner can include it.
func (s *sale) payDust(o chain.Output) {
	s.Helper()
	miner, ok := s.Chain.Chain.(*btcdtest.Node)
	if !ok {
		if _, err := s.Chain.Chain.PayAll(s.Context(), o); err == nil {
			s.Errorf("dust was relayed")
		}
		return
	}
	raw, _, err := miner.SignPayment(o)
	s.Settle(err)
	s.Settle(miner.MineTx(s.Context(), raw))
}

// payTogether pays three claims with one transaction.
func (s *sale) payTogether() {
	s.Helper()
	a, b := s.m.open(), s.m.open()
	s.Pay(chain.Output{Address: a.Address, Amount: full}, chain.Output{Address: s.Address, Amount: full},
		chain.Output{Address: b.Address, Amount: full - 50_000})
	s.Play("mine 1", nil)
	a.is(claim.Paid)
	b.is(claim.PartiallyPaid)
	b.wantBalances(balances{suspense: full - 50_000, merchant: 2 * 99_00, revenue: 2 * 1_00})
	s.merchant += 99_00
	s.revenue += 1_00
}

func (s *sale) get() claim.Detail {
	s.Helper()
	return fixture.Get(s.Fixture, func(ctx context.Context, tx *db.Tx) (claim.Detail, error) {
		return s.m.claims.Get(ctx, tx, s.m.By, "", s.id)
	})
}

func (s *sale) is(want claim.State) claim.Detail {
	s.Helper()
	c := s.get()
	if c.State != want {
		s.Fatalf("the claim is %s, want %s; %+v", c.State, want, c.Payments)
	}
	return c
}

// balances has the balances of a claim, and the changes of the merchant's and the revenue account.
type balances struct{ suspense, excess, shortfall, merchant, revenue int64 }

func (s *sale) wantBalances(want balances) {
	s.Helper()
	got := balances{
		suspense:  s.Balance(ledger.SuspenseLate, s.id, s.asset),
		excess:    s.Balance(ledger.RefundPayable, s.id, s.asset),
		shortfall: s.Balance(ledger.Shortfall, s.id, s.asset),
		merchant:  s.Balance(ledger.MerchantPayable, "", money.USD) - s.merchant,
		revenue:   s.Balance(ledger.FeeRevenue, "", money.USD) - s.revenue,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(balances{})); diff != "" {
		s.Errorf("balances (-want +got):\n%s", diff)
	}
	s.WantBalance(ledger.ClearingDeposits, s.id, sats(0))
}

// eventStates returns the states in the events of the claim, in order. Each has an event of the payment beside it.
func (s *sale) eventStates() string {
	s.Helper()
	states := map[string][]string{}
	s.Read(func(ctx context.Context, tx *db.Tx) error {
		all, _, err := webhook.List(ctx, tx, webhook.ListParams{CompanyID: s.m.By.CompanyID, ObjectID: s.id, Limit: 100})
		for _, e := range all {
			text := string(e.Data)
			_, rest, _ := strings.Cut(text, `"status":"`)
			status, _, _ := strings.Cut(rest, `"`)
			if e.Name != webhook.ClaimStatusUpdate.Name || strings.Contains(text, `"previous_status"`) {
				states[e.Name] = append(states[e.Name], status)
			}
		}
		return err
	})
	if made := s.get().CreatedAt; s.Clock.Now().Sub(made) < webhook.Kept &&
		!slices.Equal(states[webhook.ClaimCreated.Name], []string{"awaiting_payment"}) {
		s.Errorf("claim.created events: %v", states[webhook.ClaimCreated.Name])
	}
	of, payment := states[webhook.ClaimStatusUpdate.Name], states[webhook.UserPaymentStatusUpdate.Name]
	if !slices.Equal(of, payment) {
		s.Errorf("the events of the claim have states %v, those of the payment %v", of, payment)
	}
	return strings.Join(of, " ")
}
