package income_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/income"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/testkit/fixture"
	"github.com/stipend/stipend/internal/treasury"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/virtualaccount/stripe"
	"github.com/stipend/stipend/internal/virtualaccount/stripe/stripetest"
	"github.com/stipend/stipend/internal/webhook"
)

var (
	eur  = fixture.EUR
	sats = fixture.Sats
)

const day = 24 * time.Hour

// addresses derives addresses that name their index.
type addresses struct{}

func (addresses) Address(branch, index uint32) (string, error) {
	return fmt.Sprintf("b%d-%d", branch, index), nil
}

// env is a company with users who have funding accounts. Tests store the outcomes of payouts, which rails report.
type env struct {
	*fixture.Fixture
	accounts *virtualaccount.Service
	s        *income.Service
	jobs     *job.Runner
	blocked  bool // screening blocks everyone
	above    bool // every amount needs two staff members
	limit    *approval.ReleaseLimit
	crash    int64 // number of the handler call that fails after its work, from 1; 0 for none
	calls    int64
	people   int
}

func run(t *testing.T, f func(h *env)) {
	t.Helper()
	fixture.Run(t, func(x *fixture.Fixture) {
		h := &env{Fixture: x}
		x.UseCompany(identity.NewCompany{Name: "Acme", Country: "DE"})
		sealer := testkit.Must(identity.NewSealer(bytes.Repeat([]byte{7}, 32)))
		h.accounts = &virtualaccount.Service{Bank: virtualaccount.Sandbox{}, Sealer: sealer}
		pays := testkit.Must(payroll.New(payroll.Config{
			Pool: chain.NewPool(x.DB, "regtest", addresses{}), ChainName: "regtest", Network: "regtest",
			QuoteValidity: 30 * time.Minute, Treasury: testkit.Must(treasury.New(treasury.Unlimited)), AllowUnverified: true,
			Sealer: sealer,
		}, payroll.Guards{TravelRule: allow.Records[payout.Output],
			CheckWatched: allow.Network, Screen: allow.Subjects[destination.ScreeningSubject],
			ReleasePlanned: allow.Release, ReleaseApproved: allow.Release, PayeesApproved: allow.Payees}))
		h.s = testkit.Must(income.New(income.Config{Payroll: pays, FeeBps: 100, CoolDown: day}, income.Guards{
			Screen: func(context.Context, *db.Tx, destination.ScreeningSubject) (bool, error) { return h.blocked, nil },
			ReleaseApproved: func(ctx context.Context, tx *db.Tx, userID, id string, amount money.Amount) (bool, error) {
				if h.limit != nil {
					return h.limit.Approved(ctx, tx, userID, id, amount)
				}
				return !h.above, nil
			},
		}))
		h.jobs = job.NewRunner(x.DB, job.Table{
			virtualaccount.JobTransfer: {Tx: h.crashing(income.Received)},
			virtualaccount.JobOpen:     {Net: h.accounts.HandleOpen},
			income.JobRelease:          {Tx: h.crashing(h.s.Release)},
			payout.JobChanged:          {Tx: h.crashing(h.s.PayoutChanged)},
			payee.JobPayable: {Tx: func(ctx context.Context, tx *db.Tx, j job.Job) error {
				return income.Resume(ctx, tx, j.CompanyID)
			}},
		}, nil, slog.New(slog.DiscardHandler))
		h.PostTransfer(ledger.Operator, "fx", "", "deposit", ledger.HotWallet, ledger.FXPosition, sats(1_000_000_000))
		f(h)
	})
}

var errCrash = errors.New("the process ends before the commit")

// crashing returns a handler whose transaction is rolled back in call number h.crash.
func (h *env) crashing(run job.TxHandler) job.TxHandler {
	return func(ctx context.Context, tx *db.Tx, j job.Job) error {
		if err := run(ctx, tx, j); err != nil {
			return err
		}
		if h.calls++; h.calls == h.crash {
			return errCrash
		}
		return nil
	}
}

// work runs the jobs, and those that failed again.
func (h *env) work() {
	h.Helper()
	if err := h.jobs.Drain(h.Context()); err != nil && !errors.Is(err, errCrash) {
		h.Fatal(err)
	} else if err != nil {
		h.Clock.Advance(time.Minute)
		h.work()
	}
}

// person is a user with a funding account in euros.
type person struct {
	*env
	id, account string
}

// person creates a verified user whose destinations have these allocations.
func (h *env) person(to map[money.Asset]int) *person {
	h.Helper()
	h.people++
	p := &person{env: h}
	h.Write(func(ctx context.Context, tx *db.Tx) error {
		u, err := identity.CreateUser(ctx, tx, h.accounts.Sealer, identity.NewUser{CompanyID: h.By.CompanyID,
			Profile: identity.Profile{Email: fmt.Sprintf("p%d@example.com", h.people), FirstName: "Ada", LastName: "Lovelace",
				Country: "DE"}})
		p.id = u.ID
		return err
	})
	p.verify(identity.KYCApproved)
	h.Write(func(ctx context.Context, tx *db.Tx) error {
		a, err := h.accounts.Open(ctx, tx, h.By, p.id, "EUR", virtualaccount.TermsVersion)
		p.account = a.ID
		return err
	})
	p.destinations(to)
	return p
}

func (p *person) verify(status string) {
	p.Helper()
	p.Write(func(ctx context.Context, tx *db.Tx) error {
		payee.Payable(tx, p.id, p.id)
		return identity.SetKYCStatus(ctx, tx, p.id, status)
	})
}

// destinations replaces the user's destinations, as the page does.
func (p *person) destinations(to map[money.Asset]int) {
	p.Helper()
	p.Exec("DELETE FROM destinations WHERE owner_id = $1", p.id)
	p.Write(func(ctx context.Context, tx *db.Tx) error {
		for asset, allocation := range to {
			kind, rail, address := "fiat", "bank", ""
			if asset.IsCrypto() {
				kind, rail, address = "crypto", "bitcoin", "bcrt1q"+p.id
			}
			if err := tx.Insert(ctx, "destinations", []string{
				"owner_id", "destination_id", "kind", "symbol", "rail", "scheme", "country", "network", "address",
				"sealed", "masked", "allocation", "created_at", "updated_at",
			}, [][]any{{p.id, tx.NewID("dst"), kind, string(asset), rail, "", "", "", address, "", "{}",
				int64(allocation), int64(0), int64(0)}}); err != nil {
				return err
			}
		}
		payee.Payable(tx, p.id, p.id)
		_, err := tx.Exec(ctx, `INSERT INTO destination_owners (owner_id, destinations, version, destination_changed_at)
				SELECT $1, 1, 1, CAST($2 AS BIGINT) WHERE TRUE
			ON CONFLICT (owner_id) DO UPDATE SET destination_changed_at = excluded.destination_changed_at`,
			p.id, db.Micros(tx.Now()))
		return err
	})
}

// receive transfers an amount to the funding account.
func (p *person) receive(amount string) {
	p.Helper()
	p.Clock.Advance(time.Second)
	p.Write(func(ctx context.Context, tx *db.Tx) error {
		_, _, err := p.accounts.Deposit(ctx, tx, p.By, virtualaccount.Incoming{AccountID: p.account, Amount: amount,
			Currency: "EUR", Reference: tx.NewID("ref")})
		return err
	})
}

// incomes returns the user's incomes with everything, oldest first.
func (p *person) incomes() (all []income.Income) {
	p.Helper()
	p.Read(func(ctx context.Context, tx *db.Tx) error {
		some, total, err := income.List(ctx, tx, p.By, p.id, income.Filter{Page: db.Page{Number: 1, PerPage: 100}})
		if err != nil || int64(len(some)) != total {
			p.Errorf("%d of %d incomes", len(some), total)
			return err
		}
		for n := len(some) - 1; n >= 0; n-- {
			i, err := income.Get(ctx, tx, p.By, p.id, some[n].ID)
			if err != nil {
				return err
			}
			all = append(all, i)
		}
		return nil
	})
	return all
}

// want runs the jobs and returns the only income, which must have a state, reason and number of outputs.
func (p *person) want(state payroll.State, reason string, outputs int) income.Income {
	p.Helper()
	p.work()
	all := p.incomes()
	if len(all) != 1 {
		p.Fatalf("%d incomes, want 1", len(all))
	}
	p.check(all[0], state, reason, outputs)
	return all[0]
}

// check compares an income, and its amounts with the ledger.
func (p *person) check(i income.Income, state payroll.State, reason string, outputs int) {
	p.Helper()
	if i.State != state || i.Reason != reason || len(i.Outputs) != outputs {
		p.Fatalf("the income is %s (%s) with %d outputs, want %s (%s) with %d", i.State, i.Reason, len(i.Outputs), state,
			reason, outputs)
	}
	if last := i.Timeline[len(i.Timeline)-1]; int64(len(i.Timeline)) != i.Version || last.To != state {
		p.Errorf("version %d has the timeline %+v", i.Version, i.Timeline)
	}
	if outputs == 0 {
		return
	}
	sum := testkit.Must(i.Withheld.Add(i.Fee))
	for _, o := range i.Outputs {
		sum = testkit.Must(sum.Add(o.Input))
	}
	if sum != i.Amount {
		p.Errorf("withheld %s, fee %s and the outputs are %s, want %s", i.Withheld, i.Fee, sum, i.Amount)
	}
	p.wantIn(ledger.PayeePayable, i.ID, eur(0))
}

// wantIn compares the balance of an account of the user.
func (p *person) wantIn(code ledger.Code, dim string, want money.Amount) {
	p.Helper()
	got := fixture.Get(p.Fixture, func(ctx context.Context, tx *db.Tx) (money.Amount, error) {
		return ledger.Balance(ctx, tx, p.id, code, dim, want.Asset())
	})
	if got != want {
		p.Errorf("account %s %s has %s, want %s %s", code, dim, got, want, want.Asset())
	}
}

// outcome reports the state of an income's outputs in an asset, or of all.
func (p *person) outcome(i income.Income, asset money.Asset, state payout.State) {
	p.Helper()
	p.Exec("UPDATE outputs SET state = $1 WHERE company_id = $2 AND payroll_id = $3 AND ($4 = '' OR asset = $4)",
		string(state), p.id, i.ID, string(asset))
	p.Write(func(_ context.Context, tx *db.Tx) error {
		payout.Announce(tx, i.Outputs)
		return nil
	})
}

// split divides an income between bitcoin and euros.
func split() map[money.Asset]int { return map[money.Asset]int{money.BTC: 60, money.EUR: 40} }

func TestAnIncomeIsDividedByTheAllocations(t *testing.T) {
	run(t, func(h *env) {
		p := h.person(split())
		p.receive("1000")
		i := p.want(payroll.Released, "", 2)
		if i.Fee != eur(10_00) || i.Withheld != eur(0) {
			t.Errorf("fee %s, withheld %s", i.Fee, i.Withheld)
		}
		for _, o := range i.Outputs {
			want, input := eur(396_00), eur(396_00)
			if o.Rail == payout.RailBitcoin {
				want, input = sats(1_291_304), eur(594_00) // at 46000 EUR
			}
			if o.Amount != want || o.Input != input || o.CompanyID != p.id || o.PaymentID != i.ID {
				t.Errorf("output %+v", o)
			}
			p.wantIn(ledger.OutputPayable, o.ID, want)
		}
		p.wantIn(ledger.CompanyFunds, "", eur(0))
		p.wantIn(ledger.FeeRevenue, "income", eur(10_00))

		p.outcome(i, money.BTC, payout.Fulfilled)
		p.want(payroll.Released, "", 2)
		p.outcome(i, "", payout.Fulfilled)
		i = p.want(payroll.Fulfilled, "", 2)
		if n := h.CountEvents(webhook.IncomeReceived.Name, i.ID); n != 1 {
			t.Errorf("%d events of the receipt", n)
		}
		if n := h.CountEvents(webhook.IncomeStatusUpdate.Name, i.ID); n != 2 {
			t.Errorf("%d events of changes", n)
		}
	})
}

// The process may end at every point: before and after each commit.
func TestAnIncomeIsPaidOnceWhereverTheProgramIsKilled(t *testing.T) {
	run(t, func(h *env) {
		for crashed := true; crashed; {
			h.crash++
			h.calls = 0
			p := h.person(split())
			p.receive("1000")
			i := p.want(payroll.Released, "", 2)
			p.outcome(i, "", payout.Fulfilled)
			i = p.want(payroll.Fulfilled, "", 2)
			for range 2 { // every job may run again
				h.Write(func(_ context.Context, tx *db.Tx) error {
					income.Retry(tx, p.id, i.ID, time.Time{})
					payout.Announce(tx, i.Outputs)
					return nil
				})
			}
			i = p.want(payroll.Fulfilled, "", 2)
			p.wantIn(ledger.CompanyFunds, "", eur(0))
			h.WantCount(2, "outputs WHERE company_id = $1", p.id)
			h.WantCount(1, "incomes WHERE user_id = $1", p.id)
			h.WantCount(2, "ledger_journals WHERE company_id = $1 AND source_id = $2", p.id, i.ID)
			posted := func(code ledger.Code) int64 { // credits in euros to an account in the books of the income
				return h.Count(`SELECT COALESCE(SUM(-l.amount), 0) FROM ledger_lines l JOIN ledger_journals j
					ON j.company_id = l.company_id AND j.journal_id = l.journal_id
					WHERE l.company_id = $1 AND j.source_id = $2 AND l.asset = 'EUR' AND l.code = $3`, p.id, i.ID, string(code))
			}
			out, exchanged, fee := posted(ledger.OutputPayable), posted(ledger.FXPosition), posted(ledger.FeeRevenue)
			if out != 396_00 || exchanged != 594_00 || fee != 10_00 || posted(ledger.CompanyFunds) != -1000_00 {
				t.Errorf("the books have %d paid in euros, %d exchanged and a fee of %d, of %d", out, exchanged, fee,
					-posted(ledger.CompanyFunds))
			}
			crashed = h.calls >= h.crash
		}
		if h.crash < 4 {
			t.Errorf("only %d handlers were interrupted", h.crash)
		}
	})
}

// A credit that Stripe reports becomes an income that is paid to both destinations, also if Stripe lists it again.
func TestACreditAtStripeIsPaidOut(t *testing.T) {
	run(t, func(h *env) {
		bank := stripetest.Start(t)
		h.accounts.Bank = stripe.New(stripe.Options{Key: stripetest.Key, URL: bank.URL, Country: "NL"})
		p := h.person(split())
		h.work()
		bank.Add("funded", "eur", 1_000_00)
		for range 2 {
			testkit.Check(t, h.accounts.Collect(h.Context(), h.DB))
		}
		i := p.want(payroll.Released, "", 2)
		if i.Amount != eur(1_000_00) || i.Fee != eur(10_00) {
			t.Errorf("the income is %s with a fee of %s", i.Amount, i.Fee)
		}
		p.outcome(i, "", payout.Fulfilled)
		p.want(payroll.Fulfilled, "", 2)
	})
}

func TestConcurrentReleasesPayAnIncomeOnce(t *testing.T) {
	run(t, func(h *env) {
		h.blocked = true
		p := h.person(split())
		p.receive("1000")
		i := p.want(payroll.OnHold, payroll.ReasonReview, 0)
		h.blocked = false
		release := func(ctx context.Context, tx *db.Tx) error {
			return h.s.Release(ctx, tx, job.Job{CompanyID: p.id, Payload: fmt.Appendf(nil, `{"income_id":%q}`, i.ID)})
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for h.DB.Write(h.Context(), release) != nil { // like a worker, it tries again after a conflict
				}
			})
		}
		all.Wait()
		p.want(payroll.Released, "", 2)
		h.WantCount(2, "outputs WHERE company_id = $1", p.id)
	})
}

// An income waits in the balance for the reason that it states, and is released when the reason is gone.
func TestAnIncomeWaitsAndContinues(t *testing.T) {
	run(t, func(h *env) {
		for name, c := range map[string]struct {
			state         payroll.State
			reason        string
			begin, finish func(p *person)
		}{
			"without a destination": {payroll.ActionRequired, payroll.ReasonNoDestination,
				func(p *person) { p.destinations(nil) }, func(p *person) { p.destinations(split()) }},
			"without verification": {payroll.ActionRequired, income.ReasonVerification,
				func(p *person) { p.verify("expired") }, func(p *person) { p.verify(identity.KYCApproved) }},
			"too little for the chain": {payroll.ActionRequired, payroll.ReasonTooSmall,
				func(p *person) { p.destinations(map[money.Asset]int{money.BTC: 100}) },
				func(p *person) { p.destinations(map[money.Asset]int{money.EUR: 100}) }},
			"without a rail": {payroll.ActionRequired, payroll.ReasonNoRail,
				func(p *person) { p.destinations(map[money.Asset]int{money.USDC: 100}) },
				func(p *person) { p.destinations(split()) }},
			"under review": {payroll.OnHold, payroll.ReasonReview,
				func(p *person) { h.blocked = true },
				func(p *person) {
					h.blocked = false
					h.Write(func(ctx context.Context, tx *db.Tx) error { return income.Resume(ctx, tx, p.id) })
				}},
			"above the release limit": {payroll.OnHold, payroll.ReasonRelease,
				func(*person) { h.above = true },
				func(p *person) {
					h.above = false
					h.Write(func(ctx context.Context, tx *db.Tx) error { return income.Resume(ctx, tx, p.id) })
				}},
			"without coins of the operator": {payroll.OnHold, payroll.ReasonConversion,
				func(*person) {
					h.Write(func(ctx context.Context, tx *db.Tx) error {
						return treasury.SetLimit(ctx, tx, treasury.Limit{Asset: money.BTC, Least: sats(1_000_000_000_000)})
					})
				},
				func(*person) {
					h.Write(func(ctx context.Context, tx *db.Tx) error {
						return treasury.SetLimit(ctx, tx, treasury.Limit{Asset: money.BTC, Least: sats(0)})
					})
					testkit.Check(t, new(income.HeldRetrier).Retry(h.Context(), h.DB))
				}},
		} {
			t.Run(name, func(t *testing.T) {
				p := h.person(split())
				c.begin(p)
				amount := "0.10"
				if c.reason != payroll.ReasonTooSmall {
					amount = "100"
				}
				p.receive(amount)
				i := p.want(c.state, c.reason, 0)
				p.wantIn(ledger.CompanyFunds, "", i.Amount)
				h.Write(func(ctx context.Context, tx *db.Tx) error { return income.Resume(ctx, tx, p.id) })
				if again := p.want(c.state, c.reason, 0); again.Version != i.Version {
					t.Errorf("version %d after another attempt, want %d", again.Version, i.Version)
				}
				c.finish(p)
				p.want(payroll.Released, "", len(i.Outputs)+outputsOf(c.reason))
				p.wantIn(ledger.CompanyFunds, "", eur(0))
			})
		}
	})
}

// outputsOf returns the number of outputs of an income that waited for a reason.
func outputsOf(reason string) int {
	if reason == payroll.ReasonTooSmall {
		return 1
	}
	return 2
}

// A changed destination of a person who was paid before is used a day later.
func TestAnIncomeWaitsForTheCoolDown(t *testing.T) {
	run(t, func(h *env) {
		p := h.person(split())
		p.receive("100")
		p.want(payroll.Released, "", 2)
		h.Clock.Advance(2 * day)
		p.destinations(split())
		p.receive("50")
		h.work()
		second := func(state payroll.State, reason string, outputs int) {
			h.Helper()
			h.work()
			p.check(p.incomes()[1], state, reason, outputs)
		}
		second(payroll.OnHold, payroll.ReasonCoolDown, 0)
		h.Clock.Advance(day - time.Minute)
		second(payroll.OnHold, payroll.ReasonCoolDown, 0)
		h.Clock.Advance(2 * time.Minute)
		second(payroll.Released, "", 2)
	})
}

func TestAReturnedOutputIsSentToTheNewDestination(t *testing.T) {
	run(t, func(h *env) {
		p := h.person(map[money.Asset]int{money.EUR: 100})
		p.receive("100")
		i := p.want(payroll.Released, "", 1)
		out := i.Outputs[0]
		p.outcome(i, "", payout.Fulfilled)
		p.want(payroll.Fulfilled, "", 1)
		p.outcome(i, "", payout.Returned)
		p.want(payroll.Returned, "", 1)

		h.Clock.Advance(time.Hour)
		p.destinations(map[money.Asset]int{money.BTC: 100})
		p.want(payroll.OnHold, payroll.ReasonCoolDown, 1)
		h.Clock.Advance(2 * day)
		i = p.want(payroll.Released, "", 1)
		if o := i.Outputs[0]; o.ID != out.ID || o.State != payout.Queued || o.Rail != payout.RailBitcoin ||
			o.Amount != sats(215_217) || o.Input != eur(99_00) {
			t.Errorf("output %+v", o)
		}
		p.wantIn(ledger.OutputPayable, out.ID, eur(0))
		p.wantIn(ledger.OutputPayable, out.ID, sats(215_217))
		p.outcome(i, "", payout.Fulfilled)
		p.want(payroll.Fulfilled, "", 1)
	})
}

// A failed output waits for another destination, and does not wait for one that was removed again.
func TestAFailedOutputWaitsForAnotherDestination(t *testing.T) {
	run(t, func(h *env) {
		p := h.person(map[money.Asset]int{money.EUR: 100})
		p.receive("100")
		p.outcome(p.want(payroll.Released, "", 1), "", payout.Failed)
		p.want(payroll.ActionRequired, payroll.ReasonPayoutFailed, 1)
		h.Clock.Advance(time.Hour)
		p.destinations(map[money.Asset]int{money.EUR: 100})
		p.want(payroll.OnHold, payroll.ReasonCoolDown, 1)
		p.destinations(nil)
		p.want(payroll.ActionRequired, payroll.ReasonPayoutFailed, 1)
	})
}

// An income that staff released goes to another destination only if staff releases it again.
func TestAReleaseByStaffIsForOneDestination(t *testing.T) {
	run(t, func(h *env) {
		limit := approval.NewReleaseLimit(eur(50_00))
		h.limit = &limit
		p := h.person(map[money.Asset]int{money.EUR: 100})
		release := func(outputs int) {
			h.Helper()
			id := p.want(payroll.OnHold, payroll.ReasonRelease, outputs).ID
			h.Write(func(ctx context.Context, tx *db.Tx) error {
				r, err := approval.Open(ctx, tx, approval.Request{Action: approval.Release, CompanyID: p.id, ObjectID: id,
					Reason: "checked", RequestedBy: "opr_1"})
				if err == nil {
					_, err = approval.Answer(ctx, tx, r.ID, "opr_2", true)
				}
				if err != nil {
					return err
				}
				return income.Resume(ctx, tx, p.id)
			})
		}
		p.receive("100")
		release(0)
		p.outcome(p.want(payroll.Released, "", 1), "", payout.Failed)
		p.want(payroll.ActionRequired, payroll.ReasonPayoutFailed, 1)
		p.destinations(map[money.Asset]int{money.BTC: 100})
		release(1)
		p.want(payroll.Released, "", 1)
	})
}

// Steps: "receive 100" transfers an amount, "return 1" has the bank take the first transfer back, "reverse 30" has the
// provider reverse an amount without naming a transfer, "pay" and "stop" let incomes be released and keep them from it.
func TestAReversedCreditIsNotPaidOut(t *testing.T) {
	run(t, func(h *env) {
		for steps, want := range map[string]struct {
			incomes       string // state and withheld amount of each
			balance, owed int64
		}{
			"stop, receive 100, return 1":                      {"cancelled 100.00", 0, 0},
			"stop, receive 100, reverse 100":                   {"cancelled 100.00", 0, 0},
			"stop, receive 100, reverse 30, pay":               {"released 30.00", 0, 0},
			"stop, receive 100, receive 50, reverse 50, pay":   {"released 0.00, cancelled 50.00", 0, 0},
			"receive 100, return 1":                            {"released 0.00", 0, 100_00},
			"receive 100, return 1, receive 150":               {"released 0.00, released 100.00", 0, 0},
			"receive 100, return 1, receive 40":                {"released 0.00, cancelled 40.00", 0, 60_00},
			"receive 100, stop, receive 50, return 1, pay":     {"released 0.00, cancelled 50.00", 0, 50_00},
			"stop, receive 100, receive 100, reverse 150, pay": {"released 50.00, cancelled 100.00", 0, 0},
		} {
			t.Run(steps, func(t *testing.T) {
				h.blocked = false
				p := h.person(split())
				for step := range strings.SplitSeq(steps, ", ") {
					verb, rest, _ := strings.Cut(step, " ")
					switch verb {
					case "stop", "pay":
						h.blocked = verb == "stop"
						h.Write(func(ctx context.Context, tx *db.Tx) error { return income.Resume(ctx, tx, p.id) })
					case "receive":
						p.receive(rest)
					case "return", "reverse":
						p.takeBack(verb == "return", p.incomes()[0], rest)
					}
					h.work()
				}
				var got []string
				for _, i := range p.incomes() {
					got = append(got, fmt.Sprintf("%s %s", i.State, i.Withheld))
				}
				if all := strings.Join(got, ", "); all != want.incomes {
					t.Errorf("incomes %q, want %q", all, want.incomes)
				}
				p.wantIn(ledger.CompanyFunds, "", eur(want.balance))
				p.wantIn(ledger.DueFromCustomer, "", eur(want.owed))
			})
		}
	})
}

// takeBack has the first transfer returned, or an amount reversed that names no transfer.
func (p *person) takeBack(named bool, first income.Income, amount string) {
	p.Helper()
	p.Write(func(ctx context.Context, tx *db.Tx) error {
		d := webhook.TransferData{CompanyID: p.By.CompanyID, TransferID: tx.NewID("dep"), Status: virtualaccount.Returned,
			Currency: money.EUR, Amount: amount}
		version := int64(1)
		if named {
			d.TransferID, d.PreviousStatus, d.Amount, version = first.TransferID, virtualaccount.Credited,
				first.Amount.String(), 2
		}
		x, err := money.Parse(money.EUR, d.Amount)
		if err != nil {
			return err
		}
		lines, err := ledger.ReversalLines(ctx, tx, p.id, x)
		if err != nil {
			return err
		}
		if err := ledger.Post(tx, ledger.Journal{CompanyID: p.id, SourceType: "bank_deposit", SourceID: d.TransferID,
			Purpose: "return", Lines: append(lines, ledger.Credit(ledger.Bank, "", x))}); err != nil {
			return err
		}
		return virtualaccount.Announce(tx, p.id, version, d)
	})
}

// A person with an account of their own is mailed about an income. For a user of a company, the company gets events.
func TestAPersonIsMailedAboutAnIncome(t *testing.T) {
	run(t, func(h *env) {
		p := h.person(nil)
		alone := func(f func()) {
			h.Exec("UPDATE users SET company_id = '' WHERE user_id = $1", p.id)
			f()
			h.work()
			h.Exec("UPDATE users SET company_id = $1 WHERE user_id = $2", h.By.CompanyID, p.id)
		}
		mailed := func(change, more string, n int64) {
			h.Helper()
			h.WantCount(n, "mails WHERE template = 'income_update' AND data LIKE $1 AND data LIKE $2",
				`%"Change":"`+change+`"%`, "%"+more+"%")
		}
		p.receive("100")
		alone(func() {})
		mailed("arrived", "100.00 EUR", 1)
		mailed("waiting", payroll.ReasonNoDestination, 1)
		alone(func() { p.destinations(map[money.Asset]int{money.EUR: 100}) })
		i := p.want(payroll.Released, "", 1)
		alone(func() { p.outcome(i, "", payout.Fulfilled) })
		mailed("paid", i.ID, 1)
		alone(func() { p.outcome(i, "", payout.Returned) })
		mailed("returned", i.ID, 1)
		alone(func() { p.outcome(i, "", payout.Fulfilled) })
		mailed("paid", i.ID, 1)

		p.receive("50")
		h.work()
		mailed("arrived", "50.00 EUR", 0)
	})
}

// The job of a return may run before the job of the credit.
func TestACreditThatWasReturnedBeforeItIsRecordedIsNotPaid(t *testing.T) {
	run(t, func(h *env) {
		p := h.person(split())
		d := webhook.TransferData{UserID: p.id, TransferID: "trf_1", Status: "returned", PreviousStatus: "credited",
			Currency: money.EUR, Amount: "100.00"}
		for _, status := range []string{"returned", "credited"} {
			h.Write(func(_ context.Context, tx *db.Tx) error {
				d.Status = status
				job.Enqueue(tx, job.New{CompanyID: p.id, Kind: virtualaccount.JobTransfer, Payload: d})
				return nil
			})
			p.want(payroll.Cancelled, income.ReasonReversed, 0)
		}
	})
}

func TestNewRefusesAMissingDependency(t *testing.T) {
	pays := &payroll.Service{}
	screen := func(context.Context, *db.Tx, destination.ScreeningSubject) (bool, error) { return false, nil }
	all := income.Guards{Screen: screen, ReleaseApproved: allow.Release}
	if _, err := income.New(income.Config{Payroll: pays}, all); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		config income.Config
		guards income.Guards
	}{
		"payroll":          {income.Config{}, all},
		"fee":              {income.Config{Payroll: pays, FeeBps: 10_001}, all},
		"screening":        {income.Config{Payroll: pays}, income.Guards{ReleaseApproved: allow.Release}},
		"release approval": {income.Config{Payroll: pays}, income.Guards{Screen: screen}},
	} {
		if _, err := income.New(c.config, c.guards); err == nil {
			t.Errorf("without a valid %s there is no error", name)
		}
	}
}

// A person sees an income in the year in which it arrived, an open one until then, and a cancelled one in the year in
// which it was received.
func TestEarnedIncomeBelongsToTheYearOfItsArrival(t *testing.T) {
	run(t, func(h *env) {
		p := h.person(split())
		begin := h.Clock.Now()
		want := func(what string, from, to time.Time, open bool, arrived time.Time, n int) {
			h.Helper()
			got := fixture.Get(h.Fixture, func(ctx context.Context, tx *db.Tx) ([]income.Income, error) {
				return income.Earned(ctx, tx, p.id, from, to, open)
			})
			if len(got) != n || n > 0 && !got[0].ArrivedAt.Equal(arrived) {
				t.Errorf("%s: %+v, want %d", what, got, n)
			}
		}
		year := func(n int) time.Time { return begin.AddDate(n, 0, 0) }
		p.receive("1000")
		i := p.want(payroll.Released, "", 2)
		want("before the arrival", begin, year(1), true, time.Time{}, 1)
		want("before the arrival, without open ones", begin, year(1), false, time.Time{}, 0)
		h.Clock.Advance(400 * day)
		p.outcome(i, "", payout.Fulfilled)
		at := h.Clock.Now()
		p.want(payroll.Fulfilled, "", 2)
		want("the year of the transfer", begin, year(1), true, time.Time{}, 0)
		want("the year of the arrival", year(1), year(2), false, at, 1)
		h.Exec("UPDATE incomes SET state = 'cancelled'")
		want("a cancelled income", begin, year(1), false, time.Time{}, 1)
		h.Exec("UPDATE incomes SET state = 'fulfilled'")
	})
}
