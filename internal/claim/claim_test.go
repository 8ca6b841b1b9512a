package claim_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
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
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/webhook"
)

const (
	network  = "regtest"
	validity = 15 * time.Minute

	full = 200_000 // satoshis of 100 USD at 50,000
)

// TestPayers runs the actions of payers on the simulated chain and on a real node, on both engines.
func TestPayers(t *testing.T) {
	t.Run("sim", func(t *testing.T) {
		dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
			payers(t, d, clock,
				simLab{bitcoinsim.New(d)})
		})
	})
	t.Run("btcd", func(t *testing.T) {
		testkit.NotQuick(t, "btcd")
		start := sync.OnceValue(func() *btcdtest.Node { return btcdtest.Start(t) })
		dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) { payers(t, d, clock, start()) })
	})
}

// simLab adapts the simulated chain to chaintest.
type simLab struct{ *bitcoinsim.Chain }

func (l simLab) Source() chain.Source { return l.Chain }

func payers(t *testing.T, d *db.DB, clock *dbtest.Clock, lab chaintest.Chain) {
	till := newTill(t, d, clock, lab)
	for _, c := range []struct {
		name   string
		play   func(*sale)
		end    claim.State
		what   claim.Exception
		events string // the states in the events, in order
		want   books
	}{
		{"exactly", func(s *sale) {
			s.pay(full)
			s.is(claim.Confirming)
			s.mine(1)
		}, claim.Paid, claim.None, "confirming paid", books{merchant: 99_00, revenue: 1_00}},
		{"a second before the end, mined long after", func(s *sale) {
			s.after(validity - time.Second)
			s.pay(full)
			s.after(40 * time.Minute)
			s.is(claim.Confirming)
			s.mine(1)
		}, claim.Paid, claim.None, "confirming paid", books{merchant: 99_00, revenue: 1_00}},
		{"half a percent too little, and then the rest", func(s *sale) {
			s.pay(199_000)
			s.is(claim.PartiallyPaid)
			s.mine(1)
			s.books(books{suspense: 199_000})
			s.pay(1_000)
			s.mine(1)
		}, claim.Paid, claim.None, "partially_paid confirming paid", books{merchant: 99_00, revenue: 1_00}},
		{"less than dust too little", func(s *sale) {
			s.pay(full - 200)
			s.mine(1)
		}, claim.Paid, claim.WithinTolerance, "confirming paid", books{merchant: 99_00, revenue: 1_00, shortfall: 200}},
		{"too little", func(s *sale) {
			s.pay(150_000)
			s.mine(1)
			s.after(validity)
		}, claim.Underpaid, claim.None, "partially_paid underpaid", books{suspense: 150_000}},
		{"too little, and the rest at a new price", func(s *sale) {
			s.pay(150_000)
			s.mine(1)
			s.after(validity)
			if c := s.refresh(); c.Quote.Funding.Units() != 50_000 || c.Quote.Due != money.New(money.USD, 25_00) ||
				c.State != claim.PartiallyPaid {
				s.Errorf("a refresh asks for %s BTC for %s USD, %s", c.Quote.Funding, c.Quote.Due, c.State)
			}
			s.pay(50_000)
			s.mine(1)
		}, claim.Paid, claim.None, "partially_paid underpaid partially_paid confirming paid", books{merchant: 99_00,
			revenue: 1_00}},
		{"half a percent too little, where that is enough", func(s *sale) {
			s.pay(199_000)
			s.is(claim.Confirming)
			s.mine(1)
		}, claim.Paid, claim.WithinTolerance, "confirming paid", books{merchant: 99_00, revenue: 1_00,
			shortfall: 1_000}},
		{"a satoshi less than is enough, where half a percent may lack", func(s *sale) {
			s.pay(198_999)
			s.mine(1)
		}, claim.PartiallyPaid, claim.None, "partially_paid", books{suspense: 198_999}},
		{"half a percent too much", func(s *sale) {
			s.pay(201_000)
			s.mine(1)
		}, claim.Paid, claim.Overpaid, "confirming paid", books{merchant: 99_00, revenue: 1_00, excess: 1_000}},
		{"ten times too much", func(s *sale) {
			s.pay(10 * full)
			s.mine(1)
		}, claim.Paid, claim.Overpaid, "confirming paid", books{merchant: 99_00, revenue: 1_00, excess: 9 * full}},
		{"in two transactions", func(s *sale) {
			first := s.pay(80_000)
			s.after(time.Second)
			second := s.pay(120_000)
			s.mine(1)
			if c := s.look(); c.TxHash != second {
				s.Errorf("completed by %s, want %s", c.TxHash, second)
			}
			s.paidBy(first, second)
		}, claim.Paid, claim.None, "partially_paid confirming paid", books{merchant: 99_00, revenue: 1_00}},
		{"in two outputs of one transaction", func(s *sale) {
			s.send(chain.Output{Address: s.address, Amount: 80_000}, chain.Output{Address: s.address, Amount: 120_000})
			s.mine(1)
		}, claim.Paid, claim.None, "confirming paid", books{merchant: 99_00, revenue: 1_00}},
		{"twice", func(s *sale) {
			s.pay(full)
			s.mine(1)
			s.is(claim.Paid)
			s.pay(full)
			s.mine(1)
		}, claim.Paid, claim.Overpaid, "confirming paid", books{merchant: 99_00, revenue: 1_00, excess: full}},
		{"and once more weeks later", func(s *sale) {
			s.pay(full)
			s.mine(1)
			s.is(claim.Paid)
			s.after(20 * 24 * time.Hour)
			s.pay(full)
			s.mine(1)
		}, claim.Paid, claim.Overpaid, "confirming paid", books{merchant: 99_00, revenue: 1_00, excess: full}},
		{"a second after the end of the price", func(s *sale) {
			s.after(validity + time.Second)
			s.is(claim.Expired)
			s.pay(full)
			s.is(claim.Expired)
			s.mine(1)
		}, claim.PaidLate, claim.Late, "expired paid_late", books{suspense: full}},
		{"months later", func(s *sale) {
			s.after(100 * 24 * time.Hour)
			s.pay(full)
			s.mine(1)
		}, claim.PaidLate, claim.Late, "expired paid_late", books{suspense: full}},
		{"late, and the merchant takes it", func(s *sale) {
			s.after(validity)
			s.pay(full)
			s.mine(1)
			s.refresh()
		}, claim.Paid, claim.Late, "expired paid_late paid", books{merchant: 99_00, revenue: 1_00}},
		{"late and too little, and the rest in time", func(s *sale) {
			s.after(validity)
			s.pay(150_000)
			s.mine(1)
			if c := s.refresh(); c.Quote.Funding.Units() != 50_000 || c.State != claim.PartiallyPaid {
				s.Errorf("a refresh asks for %s BTC, %s", c.Quote.Funding, c.State)
			}
			s.pay(50_000)
			s.mine(1)
		}, claim.Paid, claim.Late, "expired paid_late partially_paid confirming paid", books{merchant: 99_00,
			revenue: 1_00}},
		{"after the merchant cancelled", func(s *sale) {
			s.cancel()
			s.pay(full)
			s.is(claim.Cancelled)
			s.mine(1)
		}, claim.PaidLate, claim.Late, "cancelled paid_late", books{suspense: full}},
		{"after the merchant cancelled, who takes it when it is enough", func(s *sale) {
			s.cancel()
			s.pay(150_000)
			s.mine(1)
			err := s.till.d.Write(s.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := s.till.claims.Refresh(ctx, tx, s.till.by, "", s.id)
				return err
			})
			if !errors.Is(err, claim.ErrState) {
				s.Errorf("three quarters of it are taken: %v", err)
			}
			s.is(claim.PaidLate)
			s.pay(50_000)
			s.mine(1)
			s.refresh()
		}, claim.Paid, claim.Late, "cancelled paid_late paid", books{merchant: 99_00, revenue: 1_00}},
		{"with the fee raised", func(s *sale) {
			old := s.pay(full)
			next := s.replace(old, chain.Output{Address: s.address, Amount: full})
			s.is(claim.Confirming)
			s.mine(1)
			if c := s.look(); c.TxHash != next {
				s.Errorf("paid by %s, want the replacement %s", c.TxHash, next)
			}
		}, claim.Paid, claim.None, "confirming paid", books{merchant: 99_00, revenue: 1_00}},
		{"with the fee raised after the end of the price", func(s *sale) {
			old := s.pay(full)
			s.after(2 * validity)
			s.replace(old, chain.Output{Address: s.address, Amount: full})
			s.is(claim.Confirming)
			s.mine(1)
		}, claim.Paid, claim.None, "confirming paid", books{merchant: 99_00, revenue: 1_00}},
		{"with less in its place after the end of the price", func(s *sale) {
			old := s.pay(full)
			s.after(2 * validity)
			s.replace(old, chain.Output{Address: s.address, Amount: full - 50_000})
			s.mine(1)
		}, claim.PaidLate, claim.Late, "confirming expired paid_late", books{suspense: full - 50_000}},
		{"and takes it back", func(s *sale) {
			s.replace(s.pay(full))
			s.is(claim.AwaitingPayment)
			s.mine(1)
		}, claim.AwaitingPayment, claim.None, "confirming awaiting_payment", books{}},
		{"and takes it back after the end of the price", func(s *sale) {
			txid := s.pay(full)
			s.after(validity)
			s.replace(txid)
			s.mine(1)
		}, claim.Expired, claim.None, "confirming expired", books{}},
		{"and the mempool forgets it", func(s *sale) {
			s.evict(s.pay(full))
		}, claim.AwaitingPayment, claim.None, "confirming awaiting_payment", books{}},
		{"a part, and the mempool forgets the other", func(s *sale) {
			s.pay(80_000)
			s.mine(1)
			s.evict(s.pay(120_000))
		}, claim.PartiallyPaid, claim.None, "partially_paid confirming partially_paid", books{suspense: 80_000}},
		{"and a reorganisation takes it out", func(s *sale) {
			s.pay(full)
			s.mine(1)
			s.is(claim.Paid)
			s.reorg(1)
			if c := s.is(claim.Confirming); !c.Reverted {
				s.Errorf("no event says that it was paid")
			}
			s.books(books{})
			s.mine(1)
		}, claim.Paid, claim.None, "confirming paid confirming paid", books{merchant: 99_00, revenue: 1_00}},
		{"and six blocks are mined anew with it", func(s *sale) {
			s.pay(full)
			s.mine(6)
			s.reorg(6)
			s.is(claim.Confirming)
			s.books(books{})
			s.mine(6)
		}, claim.Paid, claim.None, "confirming paid confirming paid", books{merchant: 99_00, revenue: 1_00}},
		{"too much, and a reorganisation takes it out for good", func(s *sale) {
			txid := s.pay(250_000)
			s.mine(1)
			s.is(claim.Paid)
			s.after(validity)
			s.reorg(1)
			s.evict(txid)
		}, claim.Expired, claim.None, "confirming paid confirming expired", books{}},
		{"several claims in one transaction", func(s *sale) {
			a, b := s.till.open(s.T), s.till.open(s.T)
			s.send(chain.Output{Address: a.address, Amount: full}, chain.Output{Address: s.address, Amount: full},
				chain.Output{Address: b.address, Amount: full - 50_000})
			s.mine(1)
			a.is(claim.Paid)
			b.is(claim.PartiallyPaid)
			b.books(books{suspense: full - 50_000, merchant: 2 * 99_00, revenue: 2 * 1_00})
			s.merchant += 99_00
			s.revenue += 1_00
		}, claim.Paid, claim.None, "confirming paid", books{merchant: 99_00, revenue: 1_00}},
		{"dust", func(s *sale) {
			s.dust(chain.Output{Address: s.address, Amount: 293})
			s.is(claim.AwaitingPayment)
			s.after(validity)
		}, claim.Expired, claim.None, "expired", books{}},
		{"and no block takes it for a day", func(s *sale) {
			s.pay(full)
			s.after(validity + claim.MonitorFor)
			s.is(claim.Invalid)
			s.mine(1)
		}, claim.PaidLate, claim.Late, "confirming invalid paid_late", books{suspense: full}},
		{"and no block takes a part of it for a day", func(s *sale) {
			s.pay(80_000)
			s.mine(1)
			s.pay(120_000)
			s.after(validity + claim.MonitorFor)
			s.is(claim.PaidLate)
			s.books(books{suspense: 80_000})
			s.mine(1)
		}, claim.PaidLate, claim.Late, "partially_paid confirming paid_late", books{suspense: full}},
		{"a little, and all of it in its place after the end of the price", func(s *sale) {
			old := s.pay(1_000)
			s.after(2 * validity)
			s.is(claim.Underpaid)
			s.replace(old, chain.Output{Address: s.address, Amount: full})
			s.mine(1)
		}, claim.PaidLate, claim.Late, "partially_paid underpaid expired paid_late", books{suspense: full}},
		{"on another network", func(s *sale) {
			if !strings.HasPrefix(s.address, "bcrt1") || s.look().Network != network {
				s.Errorf("the address %s does not say that it is of %s", s.address, network)
			}
			s.after(validity) // the payment was replaced by one to another address
		}, claim.Expired, claim.None, "expired", books{}},
		{"late, where that is taken at the new price", func(s *sale) {
			s.after(validity)
			s.pay(full)
			s.mine(1)
		}, claim.Paid, claim.Late, "expired paid_late paid", books{merchant: 99_00, revenue: 1_00}},
		{"late, where that is given back", func(s *sale) {
			s.after(validity)
			s.pay(full)
			s.mine(1)
		}, claim.PaidLate, claim.Late, "expired paid_late", books{excess: full}},
		{"where nobody waits for a block", func(s *sale) {
			s.pay(full)
			s.is(claim.Paid)
			s.books(books{}) // nothing is posted before the confirmation
			s.mine(1)
		}, claim.Paid, claim.None, "paid", books{merchant: 99_00, revenue: 1_00}},
		{"where nobody waits for a block, and takes it back", func(s *sale) {
			s.replace(s.pay(full))
		}, claim.AwaitingPayment, claim.None, "paid awaiting_payment", books{}},
		{"within the grace after the end", func(s *sale) {
			s.after(validity + 30*time.Second)
			s.pay(full)
			s.mine(1)
		}, claim.Paid, claim.Late, "expired confirming paid", books{merchant: 99_00, revenue: 1_00}},
	} {
		t.Run(c.name, func(t *testing.T) {
			till.policy(t, c.name)
			s := till.open(t)
			c.play(s)
			last := s.is(c.end)
			if last.Exception != c.what {
				s.Errorf("the exception is %s, want %s", last.Exception, c.what)
			}
			s.books(c.want)
			if got := s.eventStates(); got != c.events {
				s.Errorf("the events have states %q, want %q", got, c.events)
			}
			till.checkBooks(t)
		})
	}
	t.Run("while the chain is rewritten at every depth", func(t *testing.T) { reorganisationsChangeNothing(t, till) })
}

// till is a merchant whose chain the test controls.
type till struct {
	keys    *bitcoin.Signer
	d       *db.DB
	clock   *dbtest.Clock
	lab     chaintest.Chain
	watcher *chain.Watcher
	jobs    *job.Runner
	claims  *claim.Service
	guards  claim.Guards // changed by tests
	company string
	by      identity.Principal
}

func newTill(t *testing.T, d *db.DB, clock *dbtest.Clock, lab chaintest.Chain) *till {
	t.Helper()
	const ever = 10_000 * time.Hour
	r := rates.Refresher{DB: d, Sources: []rates.Source{rates.Sandbox()}, Quorum: 1, CryptoLimit: ever, FiatLimit: ever}
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	keys := chaintest.NewSigner(t, d)
	pool := chain.NewPool(d, network, keys.Deriver())
	x := &till{d: d, keys: keys, clock: clock, lab: lab, watcher: chain.NewWatcher(d, network, lab.Source(), 1, log)}
	x.guards = claim.Guards{CheckWatched: allow.Chain, Screen: allow.Address, ReleaseApproved: allow.Release}
	claims, err := claim.New(claim.Config{
		Pool: pool, ChainName: network, Network: network, Validity: validity, BaseURL: "https://pay.example.com",
		Withdrawals: newWithdrawals(t),
	}, claim.Guards{
		CheckWatched: func(ctx context.Context, tx *db.Tx) error { return x.guards.CheckWatched(ctx, tx) },
		Screen: func(ctx context.Context, tx *db.Tx, companyID, subjectID, address string) (bool, error) {
			return x.guards.Screen(ctx, tx, companyID, subjectID, address)
		},
		ReleaseApproved: func(ctx context.Context, tx *db.Tx, companyID, refundID string, amount money.Amount) (bool,
			error) {
			return x.guards.ReleaseApproved(ctx, tx, companyID, refundID, amount)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	x.claims = claims
	x.jobs = job.NewRunner(d, job.Table{
		chain.JobOutput: {Batch: deposit.OutputsChanged}, deposit.JobChanged: {Batch: claims.Follow},
		quote.JobExpired: {Batch: claims.QuoteExpired}, claim.JobMonitor: {Batch: claims.Monitor},
	}, nil, log)
	x.write(t, func(ctx context.Context, tx *db.Tx) error {
		c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Shop", Country: "US",
			Email: "shop@example.com", FeeBps: 100})
		x.company = c.ID
		x.by = identity.Principal{Kind: identity.KindAPIKey, ID: "key_1", CompanyID: c.ID, Scopes: identity.AllScopes()}
		return err
	})
	x.settle(t)
	return x
}

// policy sets the merchant's policy that the case's name describes.
func (x *till) policy(t *testing.T, name string) {
	t.Helper()
	late, confirmations, grace, tolerance := "manual", int64(1), int64(0), int64(0)
	switch {
	case strings.Contains(name, "where that is enough"), strings.Contains(name, "where half a percent may lack"):
		tolerance = 50
	case strings.HasSuffix(name, "taken at the new price"):
		late = "requote"
	case strings.HasSuffix(name, "given back"):
		late = "refund"
	case strings.HasPrefix(name, "where nobody waits"):
		confirmations = 0
	case strings.HasPrefix(name, "within the grace"):
		grace = 60
	}
	x.write(t, func(ctx context.Context, tx *db.Tx) error {
		_, err := x.claims.ChangeSettings(ctx, tx, x.by, "", claim.Change{Late: &late, Confirmations: &confirmations,
			GraceSeconds: &grace, ToleranceBps: &tolerance})
		return err
	})
}

func (x *till) write(t *testing.T, f func(context.Context, *db.Tx) error) {
	t.Helper()
	if err := x.d.Write(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

// settle runs the watcher, expires quotes and runs all jobs.
func (x *till) settle(t *testing.T) {
	t.Helper()
	_, err := quote.ExpireDue(t.Context(), x.d, network, nil)
	if err := errors.Join(x.watcher.Sync(t.Context()), err, x.jobs.Drain(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func (x *till) checkBooks(t *testing.T) {
	t.Helper()
	if err := x.d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		r, err := ledger.Check(ctx, tx)
		if len(r.Problems) > 0 {
			t.Error(r.Problems)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// books has the balances of a claim, and the changes of the merchant's and the revenue account.
type books struct{ suspense, excess, shortfall, merchant, revenue int64 }

// sale is a claim of 100 USD and its payments.
type sale struct {
	*testing.T
	till              *till
	id, address       string
	merchant, revenue int64 // before it
}

func (x *till) open(t *testing.T) *sale {
	t.Helper()
	s := &sale{T: t, till: x}
	s.merchant, s.revenue = s.balance(ledger.MerchantPayable, "", money.USD), s.balance(ledger.FeeRevenue, "",
		money.USD)
	x.write(t, func(ctx context.Context, tx *db.Tx) error {
		c, err := x.claims.Create(ctx, tx, x.by, claim.CreateParams{PayerID: "customer", AmountText: "100",
			Currency: "USD"})
		s.id, s.address = c.ID, c.Address
		return err
	})
	return s
}

func (s *sale) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	s.till.settle(s.T)
}

// paidBy checks the transactions listed for the claim, by first sight.
func (s *sale) paidBy(want ...string) {
	s.Helper()
	var got []string
	for _, d := range s.look().Payments {
		got = append(got, d.TxID)
	}
	if !slices.Equal(got, want) {
		s.Errorf("paid by %v, want %v", got, want)
	}
}

func (s *sale) pay(sats int64) string {
	s.Helper()
	return s.send(chain.Output{Address: s.address, Amount: sats})
}

func (s *sale) send(outputs ...chain.Output) string {
	s.Helper()
	txid, err := s.till.lab.PayAll(s.Context(), outputs...)
	s.must(err)
	return txid
}

// dust pays an amount that nodes do not relay: only a miner can include it.
func (s *sale) dust(o chain.Output) {
	s.Helper()
	miner, ok := s.till.lab.(*btcdtest.Node)
	if !ok {
		if _, err := s.till.lab.PayAll(s.Context(), o); err == nil {
			s.Errorf("dust was passed on")
		}
		return
	}
	raw, _, err := miner.SignPayment(o)
	s.must(err)
	s.must(miner.MineTx(s.Context(), raw))
}

func (s *sale) replace(txid string, outputs ...chain.Output) string {
	s.Helper()
	next, err := s.till.lab.Replace(s.Context(), txid, outputs...)
	s.must(err)
	return next
}

func (s *sale) evict(txid string) { s.Helper(); s.must(s.till.lab.Evict(s.Context(), txid)) }
func (s *sale) mine(n int)        { s.Helper(); s.must(s.till.lab.Mine(s.Context(), n)) }
func (s *sale) reorg(depth int)   { s.Helper(); s.must(s.till.lab.Reorg(s.Context(), depth)) }

func (s *sale) after(d time.Duration) {
	s.Helper()
	s.till.clock.Advance(d)
	s.must(nil)
}

func (s *sale) look() (c claim.Detail) {
	s.Helper()
	if err := s.till.d.Read(s.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		c, err = s.till.claims.Get(ctx, tx, s.till.by, "", s.id)
		return err
	}); err != nil {
		s.Fatal(err)
	}
	return c
}

func (s *sale) is(want claim.State) claim.Detail {
	s.Helper()
	c := s.look()
	if c.State != want {
		s.Fatalf("the claim is %s, want %s; %+v", c.State, want, c.Payments)
	}
	return c
}

func (s *sale) refresh() (c claim.Claim) {
	s.Helper()
	s.till.write(s.T, func(ctx context.Context, tx *db.Tx) (err error) {
		c, err = s.till.claims.Refresh(ctx, tx, s.till.by, "", s.id)
		return err
	})
	return c
}

func (s *sale) cancel() {
	s.Helper()
	s.till.write(s.T, func(ctx context.Context, tx *db.Tx) error {
		_, err := s.till.claims.Cancel(ctx, tx, s.till.by, "", s.id)
		return err
	})
}

func (s *sale) balance(code ledger.Code, dim string, asset money.Asset) int64 {
	s.Helper()
	var a money.Amount
	if err := s.till.d.Read(s.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		a, err = ledger.Balance(ctx, tx, s.till.company, code, dim, asset)
		return err
	}); err != nil {
		s.Fatal(err)
	}
	return a.Units()
}

func (s *sale) books(want books) {
	s.Helper()
	got := books{
		suspense: s.balance(ledger.SuspenseLate, s.id, money.BTC), excess: s.balance(ledger.RefundPayable, s.id,
			money.BTC),
		shortfall: s.balance(ledger.Shortfall, s.id, money.BTC),
		merchant:  s.balance(ledger.MerchantPayable, "", money.USD) - s.merchant,
		revenue:   s.balance(ledger.FeeRevenue, "", money.USD) - s.revenue,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(books{})); diff != "" {
		s.Errorf("the books (-want +got):\n%s", diff)
	}
	if owed := s.balance(ledger.ClearingDeposits, s.id, money.BTC); owed != 0 {
		s.Errorf("%d sat stand in clearing", owed)
	}
}

// eventStates returns the states in the events of the claim, in order. Each has an event of the payment beside it.
func (s *sale) eventStates() string {
	s.Helper()
	states := map[string][]string{}
	if err := s.till.d.Read(s.Context(), func(ctx context.Context, tx *db.Tx) error {
		all, _, err := webhook.List(ctx, tx, webhook.ListParams{CompanyID: s.till.company, ObjectID: s.id, Limit: 100})
		for _, e := range all {
			text := string(e.Data)
			_, rest, _ := strings.Cut(text, `"status":"`)
			status, _, _ := strings.Cut(rest, `"`)
			if e.Name != webhook.ClaimStatusUpdate.Name || strings.Contains(text, `"previous_status"`) {
				states[e.Name] = append(states[e.Name], status)
			}
		}
		return err
	}); err != nil {
		s.Fatal(err)
	}
	if made := s.look().CreatedAt; s.till.clock.Now().Sub(made) < webhook.Kept &&
		!slices.Equal(states[webhook.ClaimCreated.Name], []string{"awaiting_payment"}) {
		s.Errorf("claim.created events: %v", states[webhook.ClaimCreated.Name])
	}
	if !slices.Equal(states[webhook.ClaimStatusUpdate.Name], states[webhook.UserPaymentStatusUpdate.Name]) {
		s.Errorf("the claim's events tell %v, the payment's %v", states[webhook.ClaimStatusUpdate.Name],
			states[webhook.UserPaymentStatusUpdate.Name])
	}
	return strings.Join(states[webhook.ClaimStatusUpdate.Name], " ")
}

// If a reorganization removes a payment after the merchant withdrew it, the company owes it, and later money for the
// claim pays the debt.
func TestTakenBackAfterItWasSettled(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		till := newTill(t, d, clock, simLab{bitcoinsim.New(d)})
		s := till.open(t)
		txid := s.pay(full)
		s.mine(1)
		s.is(claim.Paid)
		till.write(t, func(ctx context.Context, tx *db.Tx) error {
			x, err := till.claims.Settle(ctx, tx, till.by, "", "USD", "")
			if x.Amount != money.New(money.USD, 99_00) || x.WithdrawalID != "" {
				t.Errorf("settled %s, %s", x.Amount, x.WithdrawalID)
			}
			return err
		})
		s.reorg(1)
		s.evict(txid)
		s.is(claim.AwaitingPayment)
		s.books(books{})
		if owed := s.balance(ledger.DueFromCustomer, "", money.USD); owed != 99_00 {
			t.Errorf("the company owes %d cents, want 9900", owed)
		}
		s.pay(full)
		s.mine(1)
		s.is(claim.Paid)
		s.books(books{revenue: 1_00})
		if owed := s.balance(ledger.DueFromCustomer, "", money.USD); owed != 0 {
			t.Errorf("the company still owes %d cents", owed)
		}
		till.checkBooks(t)
	})
}

// If a reorganization removes several payments at once, the merchant's remaining balance pays for as many as
// possible, and the rest is owed.
func TestSeveralTakenBackAfterSomeWasSettled(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		till := newTill(t, d, clock, simLab{bitcoinsim.New(d)})
		a, b := till.open(t), till.open(t)
		txid := a.send(chain.Output{Address: a.address, Amount: full}, chain.Output{Address: b.address, Amount: full})
		a.mine(1)
		a.is(claim.Paid)
		b.is(claim.Paid)
		till.write(t, func(ctx context.Context, tx *db.Tx) error {
			_, err := till.claims.Settle(ctx, tx, till.by, "", "USD", "100.00")
			return err
		})
		a.reorg(1)
		a.evict(txid)
		a.is(claim.AwaitingPayment)
		b.is(claim.AwaitingPayment)
		if left, owed := a.balance(ledger.MerchantPayable, "", money.USD), a.balance(ledger.DueFromCustomer, "",
			money.USD); left != 0 || owed != 100_00 {
			t.Errorf("%d cents are left, %d owed; want none, and 10000", left, owed)
		}
		till.checkBooks(t)
	})
}

// While a refund waits to be sent, its amount is not offered a second time: it pays the full debt at the time it is
// sent.
func TestOneRefundAtATime(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		world := bitcoinsim.New(d)
		till := newTill(t, d, clock, simLab{world})
		s := till.open(t)
		s.pay(full + 50_000)
		s.mine(1)
		s.is(claim.Paid)
		till.write(t, func(ctx context.Context, tx *db.Tx) error {
			_, token, err := till.claims.Refund(ctx, tx, till.by, "", s.id)
			if err != nil {
				return err
			}
			_, err = till.claims.Accept(ctx, tx, s.id, token, world.Home())
			return err
		})
		err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, _, err := till.claims.Refund(ctx, tx, till.by, "", s.id)
			return err
		})
		if !errors.Is(err, claim.ErrRefundDue) {
			t.Errorf("offered again: %v", err)
		}
	})
}

func TestLimits(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		till := newTill(t, d, clock, simLab{bitcoinsim.New(d)})
		till.claims.PerMinute, till.claims.MaxOpen = 2, 3
		create := func(want error) {
			t.Helper()
			err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := till.claims.Create(ctx, tx, till.by, claim.CreateParams{PayerID: "customer",
					AmountText: "100", Currency: "USD"})
				return err
			})
			if !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		create(nil)
		create(nil)
		create(claim.ErrTooOften)
		clock.Advance(time.Minute)
		create(nil)
		clock.Advance(time.Minute)
		create(claim.ErrTooManyOpen)
		clock.Advance(validity)
		till.settle(t) // quotes expire
		create(nil)
	})
}
