package withdrawal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/testkit/fixture"
	"github.com/stipend/stipend/internal/withdrawal"
)

const (
	coolDown = time.Hour
	address  = `{"address":"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"}`
)

// env is a company with two administrators, 0.01 BTC and a destination that can be used.
type env struct {
	*fixture.Fixture
	s      *withdrawal.Service
	config withdrawal.Config
	owner  identity.Principal
	second identity.Principal
	to     string // ID of the destination
}

func guards() withdrawal.Guards {
	return withdrawal.Guards{TravelRule: allow.Records[payout.Output],
		Screen: allow.Subjects[destination.ScreeningSubject], ReleaseApproved: allow.Release}
}

func run(t *testing.T, f func(x *env)) {
	t.Helper()
	fixture.Run(t, func(base *fixture.Fixture) {
		sealer := testkit.Must(identity.NewSealer(make([]byte, 32)))
		x := &env{Fixture: base, config: withdrawal.Config{
			Setup:    destination.Setup{Sealer: sealer, BitcoinNetwork: "regtest", Chain: "regtest"},
			CoolDown: approval.CoolDown(coolDown), AllowUnverified: true,
		}}
		x.guard(guards())
		x.UseCompany(identity.NewCompany{Name: "Acme", Country: "DE"})
		company := x.By.CompanyID
		for i, p := range []*identity.Principal{&x.owner, &x.second} {
			x.Write(func(ctx context.Context, tx *db.Tx) error {
				u, err := identity.CreateUser(ctx, tx, sealer,
					identity.NewUser{Profile: identity.Profile{Email: fmt.Sprintf("%d@acme.example", i)}})
				*p = identity.Principal{Kind: identity.KindSession, ID: "ses_" + u.ID, CompanyID: company, UserID: u.ID}
				if err != nil {
					return err
				}
				return identity.AddMember(ctx, tx, identity.Member{CompanyID: company, UserID: u.ID, Role: identity.RoleAdmin})
			})
		}
		x.to = x.addDestination()
		x.Clock.Advance(coolDown)
		x.PostTransfer(company, "deposit", "dep_1", "credited", ledger.HotWallet, ledger.CompanyFunds,
			fixture.Sats(1_000_000))
		f(x)
	})
}

// guard builds the service with guards.
func (x *env) guard(g withdrawal.Guards) {
	x.Helper()
	var err error
	if x.s, err = withdrawal.New(x.config, g); err != nil {
		x.Fatal(err)
	}
}

func (x *env) addDestination() (id string) {
	x.Helper()
	d := fixture.Do(x.Fixture, func(ctx context.Context, tx *db.Tx) (withdrawal.Destination, error) {
		return x.s.AddDestination(ctx, tx, x.owner, " Vault\r\n1 ", "BTC", []byte(address))
	})
	if d.Label != "Vault 1" { // mails contain it
		x.Errorf("label %q", d.Label)
	}
	return d.ID
}

func (x *env) tryCreate(p withdrawal.Params) (withdrawal.Withdrawal, error) {
	if p.DestinationID == "" {
		p.DestinationID = x.to
	}
	return fixture.Try(x.Fixture, func(ctx context.Context, tx *db.Tx) (withdrawal.Withdrawal, error) {
		return x.s.Create(ctx, tx, x.owner, p)
	})
}

// create creates a withdrawal of an amount in bitcoin, a second after the previous one.
func (x *env) create(amount string) withdrawal.Withdrawal {
	x.Helper()
	x.Clock.Advance(time.Second)
	w, err := x.tryCreate(withdrawal.Params{AmountText: amount})
	if err != nil {
		x.Fatal(err)
	}
	return w
}

func (x *env) tryProcess(id string) error {
	return x.DB.Write(x.Context(), x.Job(x.s.Process, "withdrawal_id", id))
}

func (x *env) process(id string) {
	x.Helper()
	x.WantError(nil, x.Job(x.s.Process, "withdrawal_id", id))
}

func (x *env) get(id string) withdrawal.Withdrawal {
	x.Helper()
	return fixture.Get(x.Fixture, func(ctx context.Context, tx *db.Tx) (withdrawal.Withdrawal, error) {
		return withdrawal.Get(ctx, tx, x.owner, "", id)
	})
}

// want compares the state of a withdrawal, its number of outputs and the company's balance.
func (x *env) want(name, id string, state withdrawal.State, reason string, outputs int, balance int64) {
	x.Helper()
	w := x.get(id)
	if w.State != state || w.Reason != reason {
		x.Errorf("%s: the withdrawal is %s (%s), want %s (%s)", name, w.State, w.Reason, state, reason)
	}
	if got := len(x.outputs(id)); got != outputs {
		x.Errorf("%s: %d outputs, want %d", name, got, outputs)
	}
	if got := x.balance(); got != balance {
		x.Errorf("%s: the balance is %d, want %d", name, got, balance)
	}
}

func (x *env) outputs(id string) []payout.Output {
	x.Helper()
	return fixture.Get(x.Fixture, func(ctx context.Context, tx *db.Tx) ([]payout.Output, error) {
		return payout.ForPayroll(ctx, tx, x.owner.CompanyID, id)
	})
}

func (x *env) balance() int64 { x.Helper(); return x.Balance(ledger.CompanyFunds, "", money.BTC) }

func (x *env) setFrozen(frozen bool) {
	x.Helper()
	from, to := identity.CompanyActive, identity.CompanyFrozen
	if !frozen {
		from, to = to, from
	}
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		_, err := identity.SetCompanyStatus(ctx, tx, x.owner.CompanyID, from, to)
		return err
	})
}

func TestNewRefusesAMissingDependency(t *testing.T) {
	for missing, drop := range map[string]func(*withdrawal.Config, *withdrawal.Guards){
		"Sealer":          func(c *withdrawal.Config, _ *withdrawal.Guards) { c.Setup.Sealer = nil },
		"Screen":          func(_ *withdrawal.Config, g *withdrawal.Guards) { g.Screen = nil },
		"ReleaseApproved": func(_ *withdrawal.Config, g *withdrawal.Guards) { g.ReleaseApproved = nil },
		"TravelRule":      func(_ *withdrawal.Config, g *withdrawal.Guards) { g.TravelRule = nil },
	} {
		c, g := withdrawal.Config{Setup: destination.Setup{Sealer: &identity.Sealer{}}}, guards()
		if _, err := withdrawal.New(c, g); err != nil {
			t.Fatal(err)
		}
		drop(&c, &g)
		if s, err := withdrawal.New(c, g); err == nil || s != nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}

func TestCreateDebitsTheBalanceOnce(t *testing.T) {
	run(t, func(x *env) {
		p := withdrawal.Params{AmountText: "0.004", ExternalID: "rent", Key: "form-1"}
		first, err := x.tryCreate(p)
		if err != nil {
			x.Fatal(err)
		}
		x.want("created", first.ID, withdrawal.Pending, "", 0, 600_000)
		if again, err := x.tryCreate(p); err != nil || again.ID != first.ID {
			x.Errorf("the same form again: %s, %v", again.ID, err)
		}
		if _, err := x.tryCreate(withdrawal.Params{AmountText: "0.001", ExternalID: "rent"}); !errors.Is(err,
			withdrawal.ErrExternalID) {
			x.Errorf("the same external ID: %v", err)
		}
		if _, err := x.tryCreate(withdrawal.Params{AmountText: "0.00600001"}); !errors.Is(err, withdrawal.ErrBalance) {
			x.Errorf("more than the balance: %v", err)
		}
		x.WantBalance(ledger.CompanyFunds, "", fixture.Sats(600_000))
	})
}

func TestCreateRefuses(t *testing.T) {
	run(t, func(x *env) {
		fresh := x.addDestination()
		nothing := func() {}
		for name, c := range map[string]struct {
			params       withdrawal.Params
			before       func()
			after        func()
			code, member string
		}{
			"no destination": {withdrawal.Params{DestinationID: "dst_none", AmountText: "0.001"}, nothing, nothing,
				"not_found", "/destination_id"},
			"a new destination": {withdrawal.Params{DestinationID: fresh, AmountText: "0.001"}, nothing, nothing,
				"destination_cooling", "/destination_id"},
			"an amount of 0": {withdrawal.Params{AmountText: "0"}, nothing, nothing, "amount_not_positive", "/amount"},
			"an amount of dust": {withdrawal.Params{AmountText: "0.00009999"}, nothing, nothing,
				"amount_too_small", "/amount"},
			"a frozen company": {withdrawal.Params{AmountText: "0.001"}, func() { x.setFrozen(true) },
				func() { x.setFrozen(false) }, "company_frozen", ""},
			"an unverified company": {withdrawal.Params{AmountText: "0.001"},
				func() { x.s.AllowUnverified = withdrawal.Config{}.AllowUnverified },
				func() { x.s.AllowUnverified = true }, "kyc_required", ""},
		} {
			c.before()
			_, err := x.tryCreate(c.params)
			c.after()
			f, ok := apierr.As(err)
			if !ok {
				x.Errorf("%s: %v, want %s", name, err, c.code)
				continue
			}
			code, pointer := f.Code, ""
			if len(f.Fields) > 0 {
				code, pointer = f.Fields[0].Code, f.Fields[0].Pointer
			}
			if code != c.code || pointer != c.member {
				x.Errorf("%s: %s at %q, want %s at %q", name, code, pointer, c.code, c.member)
			}
		}
		x.WantBalance(ledger.CompanyFunds, "", fixture.Sats(1_000_000))
	})
}

// While a guard does not consent, the withdrawal waits and no payout is queued.
func TestEveryGuardMustConsent(t *testing.T) {
	broken := errors.New("the guard is broken")
	type subject = destination.ScreeningSubject
	screen := func(blocked func(companyID string, to subject) string, err error) func(*withdrawal.Guards) {
		return func(g *withdrawal.Guards) {
			g.Screen = func(_ context.Context, _ *db.Tx, companyID string, to []subject) (map[string]bool, error) {
				return map[string]bool{blocked(companyID, to[0]): true}, err
			}
		}
	}
	none := func(string, subject) string { return "" }
	approve := func(ok bool, err error) func(*withdrawal.Guards) {
		return func(g *withdrawal.Guards) {
			g.ReleaseApproved = func(context.Context, *db.Tx, string, string, money.Amount) (bool, error) { return ok, err }
		}
	}
	run(t, func(x *env) {
		id := x.create("0.004").ID
		for _, c := range []struct {
			name   string
			change func(*withdrawal.Guards)
			err    error
			state  withdrawal.State
			reason string
		}{
			{"screening is unavailable", screen(none, screening.ErrUnavailable), screening.ErrUnavailable,
				withdrawal.Pending, ""},
			{"the approval cannot be read", approve(true, broken), broken, withdrawal.Pending, ""},
			{"the company is blocked", screen(func(companyID string, _ subject) string { return companyID }, nil),
				nil, withdrawal.OnHold, withdrawal.ReasonReview},
			{"the destination is blocked", screen(func(_ string, to subject) string { return to.ID }, nil),
				nil, withdrawal.OnHold, withdrawal.ReasonReview},
			{"the release is not approved", approve(false, nil), nil, withdrawal.OnHold, withdrawal.ReasonRelease},
			{"the limit is zero", func(g *withdrawal.Guards) { g.ReleaseApproved = approval.ReleaseLimit{}.Approved },
				nil, withdrawal.OnHold, withdrawal.ReasonRelease},
		} {
			g := guards()
			c.change(&g)
			x.guard(g)
			if err := x.tryProcess(id); !errors.Is(err, c.err) {
				x.Errorf("%s: %v, want %v", c.name, err, c.err)
			}
			x.want(c.name, id, c.state, c.reason, 0, 600_000)
		}
		x.guard(guards())
		for range 2 { // a second run does not queue another payout
			x.process(id)
			x.want("every guard consents", id, withdrawal.Processing, "", 1, 600_000)
		}
	})
}

func TestAFreezeHoldsWithdrawals(t *testing.T) {
	run(t, func(x *env) {
		id := x.create("0.004").ID
		for _, frozen := range []bool{true, false} {
			x.setFrozen(frozen)
			x.process(id)
			if frozen {
				x.want("frozen", id, withdrawal.OnHold, withdrawal.ReasonFrozen, 0, 600_000)
			}
		}
		x.want("active again", id, withdrawal.Processing, "", 1, 600_000)
	})
}

// A freeze also holds the payouts of withdrawals that are queued and not sent yet, and those that are queued by a
// transaction that read the company before.
func TestAFreezeHoldsQueuedPayoutsOfWithdrawals(t *testing.T) {
	run(t, func(x *env) {
		first, second := x.create("0.004").ID, x.create("0.003").ID
		x.process(first)
		company := func(change func(ctx context.Context, tx *db.Tx, companyID string) error) {
			x.Helper()
			x.Write(func(ctx context.Context, tx *db.Tx) error { return change(ctx, tx, x.By.CompanyID) })
		}
		company(backoffice.FreezeCompany)
		x.WantCount(1, "outputs WHERE payroll_id = $1 AND on_hold", first)
		x.setFrozen(false) // the processing of the second one read the company before
		x.process(second)
		x.setFrozen(true)
		x.WantCount(1, "outputs WHERE NOT on_hold")
		x.Deliver(backoffice.HandleFreeze, "", "")
		x.WantCount(0, "outputs WHERE NOT on_hold")

		x.Exec("DELETE FROM jobs")
		company(backoffice.UnfreezeCompany)
		x.WantCount(0, "outputs WHERE on_hold")
		x.WantCount(1, "jobs WHERE kind LIKE 'payout.prepare.%'")
		x.Deliver(backoffice.HandleFreeze, "", "")
		x.WantCount(0, "outputs WHERE on_hold")
	})
}

func TestARemovedDestinationCancelsItsWithdrawals(t *testing.T) {
	run(t, func(x *env) {
		id := x.create("0.004").ID
		for range 2 { // a second removal is no error
			x.Write(func(ctx context.Context, tx *db.Tx) error { return x.s.RemoveDestination(ctx, tx, x.owner, x.to) })
		}
		x.process(id)
		x.want("the destination is removed", id, withdrawal.Cancelled, withdrawal.ReasonRemoved, 0, 1_000_000)
	})
}

// Above the company's limit a second administrator decides. Withdrawals of the last 24 hours count together.
func TestASecondMemberDecidesAboveTheLimit(t *testing.T) {
	run(t, func(x *env) {
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			return approval.SetLimit(ctx, tx, x.owner, money.New(money.USD, 100_00)) // worth 0.002 BTC at 50,000 USD
		})
		first := x.create("0.0015").ID
		x.process(first)
		x.want("within the limit", first, withdrawal.Processing, "", 1, 850_000)
		second := x.create("0.001").ID
		x.process(second)
		x.want("above the limit together", second, withdrawal.AwaitingApproval, withdrawal.ReasonApproval, 0, 750_000)
		decide := func(want error, by identity.Principal, id string, approve bool) {
			x.Helper()
			x.WantError(want, fixture.Drop(func(ctx context.Context, tx *db.Tx) (withdrawal.Withdrawal, error) {
				if approve {
					return x.s.Approve(ctx, tx, by, id)
				}
				return x.s.Decline(ctx, tx, by, id)
			}))
		}
		decide(approval.ErrCreator, x.owner, second, true)
		x.process(second)
		x.want("not approved", second, withdrawal.AwaitingApproval, withdrawal.ReasonApproval, 0, 750_000)
		decide(nil, x.second, second, true)
		x.process(second)
		x.want("approved", second, withdrawal.Processing, "", 1, 750_000)
		small := x.create("0.0004").ID
		x.process(small)
		x.want("approved withdrawals do not count", small, withdrawal.Processing, "", 1, 710_000)

		third := x.create("0.001").ID
		x.process(third)
		decide(nil, x.second, third, false)
		x.want("declined", third, withdrawal.Declined, "", 0, 710_000)
		decide(withdrawal.ErrState, x.second, third, true)
		x.Clock.Advance(25 * time.Hour)
		fourth := x.create("0.0015").ID
		x.process(fourth)
		x.want("a day later", fourth, withdrawal.Processing, "", 1, 560_000)
	})
}

// Withdrawals that are processed concurrently count each other toward the limit. The test cannot observe that the
// second transaction waits, so the first one runs many queries before it commits.
func TestConcurrentWithdrawalsCountTogether(t *testing.T) {
	run(t, func(x *env) {
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			return approval.SetLimit(ctx, tx, x.owner, money.New(money.USD, 100_00)) // worth 0.002 BTC at 50,000 USD
		})
		for range 4 {
			ids := []string{x.create("0.0011").ID, x.create("0.0011").ID}
			processed := make(chan struct{})
			var both sync.WaitGroup
			both.Go(func() {
				once := sync.OnceFunc(func() { close(processed) })
				x.Write(func(ctx context.Context, tx *db.Tx) error {
					defer once()
					if err := x.s.Process(ctx, tx, processing(x, ids[0])); err != nil {
						return err
					}
					once()
					for range 200 {
						if _, err := withdrawal.Get(ctx, tx, x.owner, "", ids[0]); err != nil {
							return err
						}
					}
					return nil
				})
			})
			both.Go(func() {
				<-processed
				x.Write(func(ctx context.Context, tx *db.Tx) error { return x.s.Process(ctx, tx, processing(x, ids[1])) })
			})
			both.Wait()
			if got := x.get(ids[1]); got.State != withdrawal.AwaitingApproval {
				x.Fatalf("the second withdrawal is %s", got.State)
			}
			x.Clock.Advance(48 * time.Hour)
		}
	})
}

func processing(x *env, id string) job.Job {
	return job.Job{CompanyID: x.By.CompanyID, ID: "job_1", Payload: fmt.Appendf(nil, `{"withdrawal_id":%q}`, id)}
}

func TestCancelReturnsTheMoney(t *testing.T) {
	run(t, func(x *env) {
		cancel := func(want error, id string) {
			x.Helper()
			x.WantError(want, fixture.Drop(func(ctx context.Context, tx *db.Tx) (withdrawal.Withdrawal, error) {
				return x.s.Cancel(ctx, tx, x.owner, "", id)
			}))
		}
		id := x.create("0.004").ID
		for range 2 {
			cancel(nil, id)
			x.want("canceled", id, withdrawal.Cancelled, "", 0, 1_000_000)
		}
		x.process(id)
		x.want("canceled before its job", id, withdrawal.Cancelled, "", 0, 1_000_000)
		paid := x.create("0.004").ID
		x.process(paid)
		cancel(payout.ErrProcessing, paid)
	})
}

func TestAWithdrawalFollowsItsPayout(t *testing.T) {
	advance := func(to payout.State) func(context.Context, *db.Tx, payout.Output) error {
		return func(ctx context.Context, tx *db.Tx, o payout.Output) error {
			if err := payout.Assign(ctx, tx, []payout.Output{o}, "pob_1", "tx", 0); err != nil {
				return err
			}
			o, err := payout.Get(ctx, tx, o.CompanyID, o.ID)
			if err != nil {
				return err
			}
			return payout.Advance(ctx, tx, []*payout.Output{&o}, to, func(*payout.Output) string { return "why" })
		}
	}
	cases := []struct {
		name    string
		change  func(context.Context, *db.Tx, payout.Output) error
		state   withdrawal.State
		reason  string
		balance int64
	}{
		{"sent", advance(payout.Sent), withdrawal.Processing, "", 900_000},
		{"fulfilled", advance(payout.Fulfilled), withdrawal.Completed, "", 800_000},
		{"failed", func(ctx context.Context, tx *db.Tx, o payout.Output) error { return payout.Fail(ctx, tx, o, "why") },
			withdrawal.Failed, "why", 800_000},
		{"returned", advance(payout.Returned), withdrawal.Returned, "why", 800_000},
	}
	run(t, func(x *env) {
		for _, c := range cases {
			id := x.create("0.001").ID
			x.process(id)
			o := x.outputs(id)[0]
			x.Write(func(ctx context.Context, tx *db.Tx) error { return c.change(ctx, tx, o) })
			x.Deliver(x.s.PayoutChanged, "payroll_id", id)
			x.want(c.name, id, c.state, c.reason, 1, c.balance)
		}
	})
}

func TestDestinationsAreAddedByAdministrators(t *testing.T) {
	run(t, func(x *env) {
		program := identity.Principal{
			Kind: identity.KindAPIKey, ID: "key_1", CompanyID: x.owner.CompanyID, Scopes: identity.AllScopes(),
		}
		add := func(by identity.Principal, data string) error {
			_, err := fixture.Try(x.Fixture, func(ctx context.Context, tx *db.Tx) (withdrawal.Destination, error) {
				return x.s.AddDestination(ctx, tx, by, "Vault", "BTC", []byte(data))
			})
			return err
		}
		if err := add(program, address); !errors.Is(err,
			approval.ErrApprover) {
			x.Errorf("a program added a destination: %v", err)
		}
		if err := add(x.owner, `{"address":"bcrt1qnonsense"}`); err == nil {
			x.Error("an invalid address was added")
		}
		for range 9 {
			x.addDestination()
		}
		_ = x.Fault("distribution_limit", add(x.owner, address)) // a company has at most ten destinations
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			all, err := withdrawal.Destinations(ctx, tx, program, "")
			if len(all) != 10 {
				x.Errorf("%d destinations, want 10", len(all))
			}
			return err
		})
	})
}
