package payroll

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/webhook"
)

// chainFixture is a fixture whose payrolls are funded on a chain, through the watcher and deposits.
type chainFixture struct {
	*fixture
	chain   *bitcoinsim.Chain
	watcher *chain.Watcher
	jobs    *job.Runner
	p       Payroll
}

func newChainFixture(t *testing.T, d *db.DB, clock *dbtest.Clock) *chainFixture {
	t.Helper()
	h := newHouse(t, d, clock)
	log := slog.New(slog.DiscardHandler)
	x := &chainFixture{fixture: h, chain: bitcoinsim.New(d)}
	h.s.Pool = chain.NewPool(d, "regtest", chaintest.NewSigner(t, d).Deriver())
	x.watcher = chain.NewWatcher(d, "regtest", x.chain, 1, log)
	x.jobs = job.NewRunner(d, job.Table{chain.JobOutput: {Batch: deposit.OutputsChanged},
		deposit.JobChanged: {Tx: h.s.Fund}}, nil, log)
	x.must(nil)
	return x
}

// must runs the watcher, expires quotes and runs all jobs.
func (x *chainFixture) must(err error) {
	x.t.Helper()
	for _, step := range []func() error{
		func() error { return err },
		func() error { return x.watcher.Sync(x.t.Context()) },
		func() error { _, err := quote.ExpireDue(x.t.Context(), x.d, "regtest", nil); return err },
		func() error { return x.jobs.Drain(x.t.Context()) },
	} {
		if err := step(); err != nil {
			x.t.Fatal(err)
		}
	}
}

func (x *chainFixture) pay(sats int64) string {
	x.t.Helper()
	txid, err := x.chain.Pay(x.t.Context(), x.p.Address, sats)
	x.must(err)
	return txid
}

func (x *chainFixture) replace(txid string, outputs ...chain.Output) {
	x.t.Helper()
	_, err := x.chain.Replace(x.t.Context(), txid, outputs...)
	x.must(err)
}

func (x *chainFixture) evict(txid string)     { x.t.Helper(); x.must(x.chain.Evict(x.t.Context(), txid)) }
func (x *chainFixture) mine(n int)            { x.t.Helper(); x.must(x.chain.Mine(x.t.Context(), n)) }
func (x *chainFixture) reorg(depth int)       { x.t.Helper(); x.must(x.chain.Reorg(x.t.Context(), depth)) }
func (x *chainFixture) after(d time.Duration) { x.t.Helper(); x.clock.Advance(d); x.must(nil) }

func (x *chainFixture) price(dollars string) {
	x.exec("UPDATE rates SET rate = $1 WHERE asset = 'BTC'", dollars)
}

// refresh returns the quotes of the amount still due.
func (x *chainFixture) refresh() (quotes []quote.Quote) {
	x.t.Helper()
	x.write(func(ctx context.Context, tx *db.Tx) (err error) {
		_, quotes, err = x.s.Refresh(ctx, tx, x.by, x.p.ID)
		return err
	})
	return quotes
}

func (x *chainFixture) is(state State, funding FundingState) Payroll {
	x.t.Helper()
	got := x.get(x.p.ID)
	if got.State != state || got.FundingState != funding {
		x.t.Fatalf("the payroll is %s, %s; want %s, %s", got.State, got.FundingState, state, funding)
	}
	return got
}

func (x *chainFixture) countEvents(event string, want int64) {
	x.t.Helper()
	if n := x.count("SELECT COUNT(*) FROM events WHERE object_id = $1 AND name = $2", x.p.ID, event); n != want {
		x.t.Errorf("%s was emitted %d times, want %d", event, n, want)
	}
}

// Each case is something that can happen to the money of a payroll on its way through a chain. It ends in one state,
// and the ledger accounts for every satoshi. The payroll is of 1,010.00 USD at 50,000, which need two confirmations.
func TestPayrollsOnAChain(t *testing.T) {
	const (
		full     = 2_020_000
		validity = 30 * time.Minute
	)
	type books struct{ escrow, free, late, shortfall int64 }
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := newChainFixture(t, d, clock)
		for _, c := range []struct {
			name    string
			play    func()
			state   State
			funding FundingState
			want    books
		}{
			{"thrown out after the release, and mined again", func() {
				x.pay(full)
				x.mine(2)
				x.release(x.p.ID)
				held := func(want bool) {
					t.Helper()
					for _, m := range x.get(x.p.ID).Payments {
						for _, o := range m.Outputs {
							if o.OnHold != want || o.State != payout.Queued {
								t.Errorf("output %s is %s, held: %t", o.ID, o.State, o.OnHold)
							}
						}
					}
				}
				held(false)
				x.reorg(2)
				x.is(OnHold, FundingFunded)
				held(true)
				x.mine(1)
				held(true) // one confirmation is not enough
				x.mine(1)
				held(false)
			}, Released, FundingFunded, books{}},
			{"exactly", func() {
				x.pay(full)
				x.mine(1)
				x.is(Pending, FundingConfirming)
				x.mine(1)
			}, Received, FundingFunded, books{escrow: full}},
			{"a second before the end, mined long after, at another price", func() {
				x.after(validity - time.Second)
				x.pay(full)
				x.price("40000")
				x.after(40 * time.Minute)
				x.is(Pending, FundingConfirming)
				x.mine(2)
				if q := x.get(x.p.ID).Quote; q.ID != x.p.Quote.ID || q.Rate.String() != "50000" {
					t.Errorf("valued by %s at %s", q.ID, q.Rate)
				}
				x.countEvents(webhook.PayrollFundingLate.Name, 0)
			}, Received, FundingFunded, books{escrow: full}},
			{"a second after the end", func() {
				x.after(validity + time.Second)
				x.pay(full)
				x.mine(2)
				x.countEvents(webhook.PayrollFundingLate.Name, 1)
			}, Pending, FundingLate, books{late: full}},
			{"half a percent too little, and the rest in time", func() {
				x.pay(2_009_900)
				x.mine(2)
				if got := x.is(Pending, FundingPartial); got.Address != x.p.Address ||
					x.refresh()[0].ID != x.p.Quote.ID {
					t.Errorf("another address or price is asked for: %+v", got.Quote)
				}
				x.pay(10_100)
				x.mine(2)
			}, Received, FundingFunded, books{escrow: full}},
			{"half a percent too little", func() {
				x.pay(2_009_900)
				x.mine(2)
				x.after(validity)
				if q := x.refresh()[0]; q.Funding != sats(10_100) || q.Address != x.p.Address {
					t.Errorf("what is due still: %s at %s", q.Funding, q.Address)
				}
			}, Pending, FundingPartial, books{escrow: 2_009_900}},
			{"half a percent too little, where that may lack", func() {
				x.pay(2_009_900)
				x.mine(2)
			}, Received, FundingFunded, books{escrow: full, shortfall: 10_100}},
			{"a satoshi less than that, where half a percent may lack", func() {
				x.pay(2_009_899)
				x.mine(2)
			}, Pending, FundingPartial, books{escrow: 2_009_899}},
			{"less than dust too little", func() {
				x.pay(full - 294)
				x.mine(2)
			}, Received, FundingFunded, books{escrow: full, shortfall: 294}},
			{"a satoshi more than dust too little", func() {
				x.pay(full - 295)
				x.mine(2)
			}, Pending, FundingPartial, books{escrow: full - 295}},
			{"half a percent too much", func() {
				x.pay(2_030_100)
				x.mine(2)
			}, Received, FundingOver, books{escrow: full, free: 10_100}},
			{"ten times too much", func() {
				x.pay(10 * full)
				x.mine(6)
			}, Received, FundingOver, books{escrow: full, free: 9 * full}},
			{"in two transactions", func() {
				first := x.pay(820_000)
				x.after(time.Second)
				second := x.pay(1_200_000)
				x.mine(2)
				var all []deposit.Deposit
				x.write(func(ctx context.Context, tx *db.Tx) (err error) {
					all, err = deposit.ForObject(ctx, tx, x.by.CompanyID, x.p.ID)
					return err
				})
				if len(all) != 2 || all[0].TxID != first || all[1].TxID != second {
					t.Errorf("paid by %+v, want %s and %s", all, first, second)
				}
			}, Received, FundingFunded, books{escrow: full}},
			{"in two outputs of one transaction", func() {
				_, err := x.chain.PayAll(t.Context(), chain.Output{Address: x.p.Address, Amount: 820_000},
					chain.Output{Address: x.p.Address, Amount: 1_200_000})
				x.must(err)
				x.mine(2)
			}, Received, FundingFunded, books{escrow: full}},
			{"twice", func() {
				x.pay(full)
				x.mine(2)
				x.is(Received, FundingFunded)
				x.pay(full)
				x.mine(3)
			}, Received, FundingOver, books{escrow: full, free: full}},
			{"with the fee raised after the end of the price", func() {
				old := x.pay(full)
				x.after(2 * validity)
				x.replace(old, chain.Output{Address: x.p.Address, Amount: full})
				x.is(Pending, FundingConfirming)
				x.mine(2)
			}, Received, FundingFunded, books{escrow: full}},
			{"with less in its place after the end of the price", func() {
				old := x.pay(full)
				x.after(2 * validity)
				x.replace(old, chain.Output{Address: x.p.Address, Amount: full - 1})
				x.mine(2)
			}, Pending, FundingLate, books{late: full - 1}},
			{"taken back by the payer", func() {
				txid := x.pay(full)
				x.is(Pending, FundingConfirming)
				x.replace(txid)
				x.mine(2)
				if q := x.get(x.p.ID).Quote; q.State != quote.StateActive {
					t.Errorf("the price is %s", q.State)
				}
			}, Pending, FundingNone, books{}},
			{"taken back by the payer after the end of the price", func() {
				txid := x.pay(full)
				x.after(validity)
				x.replace(txid)
				if q := x.get(x.p.ID).Quote; q.State != quote.StateExpired {
					t.Errorf("the price is %s", q.State)
				}
			}, Pending, FundingNone, books{}},
			{"forgotten by the mempool", func() { x.evict(x.pay(full)) }, Pending, FundingNone, books{}},
			{"thrown out before the release, and mined again", func() {
				x.pay(full)
				x.mine(2)
				x.is(Received, FundingFunded)
				x.reorg(2)
				x.is(Pending, FundingConfirming)
				x.countEvents(webhook.PayrollFundingReverted.Name, 1)
				if got := x.balance(ledger.Escrow, x.p.ID, money.BTC); got != 0 {
					t.Errorf("%d sat in escrow of money that is not there", got)
				}
				x.release(x.p.ID) // no effect
				x.is(Pending, FundingConfirming)
				x.mine(2)
			}, Received, FundingFunded, books{escrow: full}},
		} {
			x.price("50000")
			bps := 0
			if strings.HasSuffix(c.name, "may lack") {
				bps = 50
			}
			x.exec("UPDATE companies SET tolerance_bps = $1", bps)
			x.p = x.create(CreateParams{ToPay: worked})
			before := x.balance(ledger.CompanyFunds, "", money.BTC)
			ok := t.Run(c.name, func(t *testing.T) {
				x.t = t
				c.play()
				x.is(c.state, c.funding)
				got := books{x.balance(ledger.Escrow, x.p.ID, money.BTC), x.balance(ledger.CompanyFunds, "",
					money.BTC) - before,
					x.balance(ledger.SuspenseLate, x.p.ID, money.BTC), x.balance(ledger.Shortfall, x.p.ID, money.BTC)}
				if got != c.want {
					t.Errorf("the books say %+v, want %+v", got, c.want)
				}
				if n := x.balance(ledger.FeeRevenue, "payroll", money.BTC); n != 0 {
					t.Errorf("%d sat became revenue", n)
				}
				x.checkBooks()
			})
			x.t = t
			if !ok {
				return
			}
		}
	})
}

// Money that a reorganization removes after the release is owed by the company until another payment arrives.
func TestFundingThatIsTakenBackForGood(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := newChainFixture(t, d, clock)
		x.p = x.create(CreateParams{ToPay: worked})
		txid := x.pay(2_020_000)
		x.mine(2)
		x.release(x.p.ID)
		x.reorg(2)
		x.evict(txid)
		owed := func(want int64) {
			t.Helper()
			if got := x.balance(ledger.DueFromCustomer, "", money.BTC); got != want {
				t.Errorf("%d sat are owed, want %d", got, want)
			}
			x.checkBooks()
		}
		if got := x.is(OnHold, FundingFunded); !got.Payments[0].Outputs[0].OnHold {
			t.Error("what was not funded can leave")
		}
		owed(2_020_000)
		x.pay(2_020_000)
		x.mine(2)
		owed(0)
		if got := x.is(Released, FundingFunded); got.Payments[0].Outputs[0].OnHold {
			t.Error("still held")
		}
	})
}

// However deep a reorganization is, once the chain has the payments again, the result is the same as without it.
func TestPayrollsOnARewrittenChain(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := newChainFixture(t, d, clock)
		for depth := 1; depth <= 6; depth++ {
			var all []Payroll
			var outputs []chain.Output
			// exact, too little, too little by less than dust, too much
			for _, sum := range []int64{1_818_000, 900_000, 1_817_800, 1_898_000} {
				x.p = x.create(CreateParams{ToPay: []Payee{{AmountText: "600", UserID: "rec_btc"}, {AmountText: "300",
					UserID: "rec_eur"}}})
				all, outputs = append(all, x.p), append(outputs, chain.Output{Address: x.p.Address, Amount: sum})
			}
			_, err := x.chain.PayAll(t.Context(), outputs...)
			x.must(err)
			x.mine(depth)
			straight := x.snapshot(all)
			x.reorg(depth)
			for _, p := range all {
				if got := x.get(p.ID); got.State != Pending || !got.Escrow.IsZero() {
					t.Errorf("%d blocks deep: a payroll without funding is %s, with %s", depth, got.State, got.Escrow)
				}
			}
			x.mine(depth)
			if diff := cmp.Diff(straight, x.snapshot(all)); diff != "" {
				t.Errorf("%d blocks deep (-without +with the reorganisation):\n%s", depth, diff)
			}
			x.checkBooks()
		}
	})
}

// snapshot returns the final states of payrolls and the balance of every account of the company.
func (x *chainFixture) snapshot(all []Payroll) map[string]string {
	x.t.Helper()
	at := map[string]string{}
	for i, p := range all {
		got := x.get(p.ID)
		at[fmt.Sprint("payroll ", i)] = fmt.Sprintln(got.State, got.FundingState, got.Escrow, got.Shortfall,
			got.Quote.State)
	}
	x.write(func(ctx context.Context, tx *db.Tx) error {
		rows, err := tx.Query(ctx,
			"SELECT code, dim, asset, CAST(SUM(amount) AS BIGINT) FROM ledger_lines WHERE company_id = $1 GROUP BY code, dim, "+
				"asset HAVING SUM(amount) <> 0", x.by.CompanyID)
		_, err = db.Collect(rows, err, func(r *db.Rows) (none struct{}, err error) {
			var code, dim, asset string
			var sum int64
			err = r.Scan(&code, &dim, &asset, &sum)
			at[fmt.Sprintln("account", code, dim, asset)] = fmt.Sprint(sum)
			return none, err
		})
		return err
	})
	return at
}
