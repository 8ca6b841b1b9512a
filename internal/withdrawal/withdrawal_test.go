package withdrawal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/withdrawal"
)

const coolDown = time.Hour

// fixture is a company with two administrators, 0.01 BTC and a destination that can be used.
type fixture struct {
	*testing.T
	d      *db.DB
	clock  *dbtest.Clock
	s      *withdrawal.Service
	config withdrawal.Config
	owner  identity.Principal
	second identity.Principal
	to     string // ID of the destination
}

func guards() withdrawal.Guards {
	return withdrawal.Guards{Screen: allow.Subjects[destination.ScreeningSubject], ReleaseApproved: allow.Release}
}

func run(t *testing.T, f func(x *fixture)) {
	t.Helper()
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		sealer, err := identity.NewSealer(make([]byte, 32))
		if err != nil {
			t.Fatal(err)
		}
		const ever = 10_000 * time.Hour
		r := rates.Refresher{DB: d, Sources: []rates.Source{rates.Sandbox()}, Quorum: 1, CryptoLimit: ever, FiatLimit: ever}
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		x := &fixture{T: t, d: d, clock: clock, config: withdrawal.Config{
			Setup:    destination.Setup{Sealer: sealer, BitcoinNetwork: "regtest", Chain: "regtest"},
			CoolDown: approval.CoolDown(coolDown), AllowUnverified: true,
		}}
		x.guard(guards())
		x.write(func(ctx context.Context, tx *db.Tx) error {
			c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Acme", Country: "DE"})
			if err != nil {
				return err
			}
			for i, p := range []*identity.Principal{&x.owner, &x.second} {
				u, err := identity.CreateUser(ctx, tx, sealer,
					identity.NewUser{Profile: identity.Profile{Email: fmt.Sprintf("%d@acme.example", i)}})
				if err != nil {
					return err
				}
				m := identity.Member{CompanyID: c.ID, UserID: u.ID, Role: identity.RoleAdmin}
				if err := identity.AddMember(ctx, tx, m); err != nil {
					return err
				}
				*p = identity.Principal{Kind: identity.KindSession, ID: "ses_" + u.ID, CompanyID: c.ID, UserID: u.ID}
			}
			return nil
		})
		x.to = x.addDestination()
		x.clock.Advance(coolDown)
		x.write(func(_ context.Context, tx *db.Tx) error {
			return ledger.Post(tx, ledger.Journal{
				CompanyID: x.owner.CompanyID, SourceType: "deposit", SourceID: "dep_1", Purpose: "credited",
				Lines: []ledger.Line{
					ledger.Debit(ledger.HotWallet, "", sats(1_000_000)), ledger.Credit(ledger.CompanyFunds, "", sats(1_000_000)),
				},
			})
		})
		f(x)
		x.write(func(ctx context.Context, tx *db.Tx) error {
			report, err := ledger.Check(ctx, tx)
			if len(report.Problems) > 0 {
				x.Errorf("ledger.Check: %v", report.Problems)
			}
			return err
		})
	})
}

func sats(n int64) money.Amount { return money.New(money.BTC, n) }

func (x *fixture) write(f func(context.Context, *db.Tx) error) {
	x.Helper()
	if err := x.d.Write(x.Context(), f); err != nil {
		x.Fatal(err)
	}
}

// guard builds the service with guards.
func (x *fixture) guard(g withdrawal.Guards) {
	x.Helper()
	var err error
	if x.s, err = withdrawal.New(x.config, g); err != nil {
		x.Fatal(err)
	}
}

func (x *fixture) addDestination() (id string) {
	x.Helper()
	x.write(func(ctx context.Context, tx *db.Tx) error {
		to, err := x.s.AddDestination(ctx, tx, x.owner, "Vault", "BTC",
			[]byte(`{"address":"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"}`))
		id = to.ID
		return err
	})
	return id
}

func (x *fixture) tryCreate(p withdrawal.Params) (w withdrawal.Withdrawal, err error) {
	if p.DestinationID == "" {
		p.DestinationID = x.to
	}
	err = x.d.Write(x.Context(), func(ctx context.Context, tx *db.Tx) error {
		w, err = x.s.Create(ctx, tx, x.owner, p)
		return err
	})
	return w, err
}

// create creates a withdrawal of an amount in bitcoin, a second after the previous one.
func (x *fixture) create(amount string) withdrawal.Withdrawal {
	x.Helper()
	x.clock.Advance(time.Second)
	w, err := x.tryCreate(withdrawal.Params{AmountText: amount})
	if err != nil {
		x.Fatal(err)
	}
	return w
}

func (x *fixture) tryProcess(id string) error {
	return x.d.Write(x.Context(), func(ctx context.Context, tx *db.Tx) error {
		return x.s.Process(ctx, tx, job.Job{
			CompanyID: x.owner.CompanyID, Payload: fmt.Appendf(nil, `{"withdrawal_id":%q}`, id),
		})
	})
}

func (x *fixture) get(id string) (w withdrawal.Withdrawal) {
	x.Helper()
	x.write(func(ctx context.Context, tx *db.Tx) (err error) {
		w, err = withdrawal.Get(ctx, tx, x.owner, "", id)
		return err
	})
	return w
}

// want compares the state of a withdrawal, its number of outputs and the company's balance.
func (x *fixture) want(name, id string, state withdrawal.State, reason string, outputs int, balance int64) {
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

func (x *fixture) outputs(id string) (all []payout.Output) {
	x.Helper()
	x.write(func(ctx context.Context, tx *db.Tx) (err error) {
		all, err = payout.ForPayroll(ctx, tx, x.owner.CompanyID, id)
		return err
	})
	return all
}

func (x *fixture) balance() (units int64) {
	x.Helper()
	x.write(func(ctx context.Context, tx *db.Tx) error {
		a, err := ledger.Balance(ctx, tx, x.owner.CompanyID, ledger.CompanyFunds, "", money.BTC)
		units = a.Units()
		return err
	})
	return units
}

func (x *fixture) setFrozen(frozen bool) {
	x.Helper()
	from, to := identity.CompanyActive, identity.CompanyFrozen
	if !frozen {
		from, to = to, from
	}
	x.write(func(ctx context.Context, tx *db.Tx) error {
		_, err := identity.SetCompanyStatus(ctx, tx, x.owner.CompanyID, from, to)
		return err
	})
}

func TestNewRefusesAMissingDependency(t *testing.T) {
	for missing, drop := range map[string]func(*withdrawal.Config, *withdrawal.Guards){
		"Sealer":          func(c *withdrawal.Config, _ *withdrawal.Guards) { c.Setup.Sealer = nil },
		"Screen":          func(_ *withdrawal.Config, g *withdrawal.Guards) { g.Screen = nil },
		"ReleaseApproved": func(_ *withdrawal.Config, g *withdrawal.Guards) { g.ReleaseApproved = nil },
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
	run(t, func(x *fixture) {
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
		if got := x.balance(); got != 600_000 {
			x.Errorf("the balance is %d", got)
		}
	})
}

func TestCreateRefuses(t *testing.T) {
	run(t, func(x *fixture) {
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
		if got := x.balance(); got != 1_000_000 {
			x.Errorf("the balance is %d", got)
		}
	})
}

// Each guard that does not consent keeps the money in the balance's output, and the withdrawal waits.
func TestNoMoneyMovesWithoutEveryGuard(t *testing.T) {
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
	run(t, func(x *fixture) {
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
		for range 2 { // the payout is queued once
			if err := x.tryProcess(id); err != nil {
				x.Fatal(err)
			}
			x.want("every guard consents", id, withdrawal.Processing, "", 1, 600_000)
		}
	})
}

func TestAFrozenCompanyWaits(t *testing.T) {
	run(t, func(x *fixture) {
		id := x.create("0.004").ID
		for _, frozen := range []bool{true, false} {
			x.setFrozen(frozen)
			if err := x.tryProcess(id); err != nil {
				x.Fatal(err)
			}
			if frozen {
				x.want("frozen", id, withdrawal.OnHold, withdrawal.ReasonFrozen, 0, 600_000)
			}
		}
		x.want("active again", id, withdrawal.Processing, "", 1, 600_000)
	})
}

func TestARemovedDestinationCancelsWhatWaits(t *testing.T) {
	run(t, func(x *fixture) {
		id := x.create("0.004").ID
		for range 2 { // a second removal is no error
			x.write(func(ctx context.Context, tx *db.Tx) error { return x.s.RemoveDestination(ctx, tx, x.owner, x.to) })
		}
		if err := x.tryProcess(id); err != nil {
			x.Fatal(err)
		}
		x.want("the destination is removed", id, withdrawal.Cancelled, withdrawal.ReasonRemoved, 0, 1_000_000)
	})
}

// Above the company's limit a second administrator decides. Withdrawals of the last 24 hours count together.
func TestASecondMemberDecidesAboveTheLimit(t *testing.T) {
	run(t, func(x *fixture) {
		x.write(func(ctx context.Context, tx *db.Tx) error {
			return approval.SetLimit(ctx, tx, x.owner, money.New(money.USD, 100_00)) // 0.002 BTC at 50,000 USD
		})
		process := func(id string) {
			x.Helper()
			if err := x.tryProcess(id); err != nil {
				x.Fatal(err)
			}
		}
		first := x.create("0.0015").ID
		process(first)
		x.want("within the limit", first, withdrawal.Processing, "", 1, 850_000)
		second := x.create("0.001").ID
		process(second)
		x.want("above the limit together", second, withdrawal.AwaitingApproval, withdrawal.ReasonApproval, 0, 750_000)
		decide := func(by identity.Principal, id string, approve bool) error {
			return x.d.Write(x.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
				if approve {
					_, err = x.s.Approve(ctx, tx, by, id)
				} else {
					_, err = x.s.Decline(ctx, tx, by, id)
				}
				return err
			})
		}
		if err := decide(x.owner, second, true); !errors.Is(err, approval.ErrCreator) {
			x.Errorf("the creator approved: %v", err)
		}
		process(second)
		x.want("not approved", second, withdrawal.AwaitingApproval, withdrawal.ReasonApproval, 0, 750_000)
		if err := decide(x.second, second, true); err != nil {
			x.Fatal(err)
		}
		process(second)
		x.want("approved", second, withdrawal.Processing, "", 1, 750_000)

		third := x.create("0.001").ID
		process(third)
		if err := decide(x.second, third, false); err != nil {
			x.Fatal(err)
		}
		x.want("declined", third, withdrawal.Declined, "", 0, 750_000)
		if err := decide(x.second, third, true); !errors.Is(err, withdrawal.ErrState) {
			x.Errorf("a declined withdrawal was approved: %v", err)
		}
		x.clock.Advance(25 * time.Hour)
		fourth := x.create("0.0015").ID
		process(fourth)
		x.want("a day later", fourth, withdrawal.Processing, "", 1, 600_000)
	})
}

func TestCancelReturnsTheMoney(t *testing.T) {
	run(t, func(x *fixture) {
		cancel := func(id string) error {
			return x.d.Write(x.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := x.s.Cancel(ctx, tx, x.owner, "", id)
				return err
			})
		}
		id := x.create("0.004").ID
		for range 2 {
			if err := cancel(id); err != nil {
				x.Fatal(err)
			}
			x.want("canceled", id, withdrawal.Cancelled, "", 0, 1_000_000)
		}
		if err := x.tryProcess(id); err != nil {
			x.Fatal(err)
		}
		x.want("canceled before its job", id, withdrawal.Cancelled, "", 0, 1_000_000)
		paid := x.create("0.004").ID
		if err := x.tryProcess(paid); err != nil {
			x.Fatal(err)
		}
		if err := cancel(paid); !errors.Is(err, payout.ErrProcessing) {
			x.Errorf("a withdrawal that is being paid was canceled: %v", err)
		}
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
	run(t, func(x *fixture) {
		for _, c := range cases {
			id := x.create("0.001").ID
			if err := x.tryProcess(id); err != nil {
				x.Fatal(err)
			}
			o := x.outputs(id)[0]
			x.write(func(ctx context.Context, tx *db.Tx) error { return c.change(ctx, tx, o) })
			for range 2 { // a repeated job changes nothing
				x.write(func(ctx context.Context, tx *db.Tx) error {
					return x.s.PayoutChanged(ctx, tx, job.Job{
						CompanyID: x.owner.CompanyID, Payload: fmt.Appendf(nil, `{"payroll_id":%q}`, id),
					})
				})
				x.want(c.name, id, c.state, c.reason, 1, c.balance)
			}
		}
	})
}

func TestDestinationsAreAddedByAdministrators(t *testing.T) {
	run(t, func(x *fixture) {
		program := identity.Principal{
			Kind: identity.KindAPIKey, ID: "key_1", CompanyID: x.owner.CompanyID, Scopes: identity.AllScopes(),
		}
		add := func(by identity.Principal, data string) error {
			return x.d.Write(x.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := x.s.AddDestination(ctx, tx, by, "Vault", "BTC", []byte(data))
				return err
			})
		}
		if err := add(program, `{"address":"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"}`); !errors.Is(err,
			approval.ErrApprover) {
			x.Errorf("a program added a destination: %v", err)
		}
		if err := add(x.owner, `{"address":"bcrt1qnonsense"}`); err == nil {
			x.Error("an invalid address was added")
		}
		for range 9 {
			x.addDestination()
		}
		err := add(x.owner, `{"address":"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"}`)
		if f, ok := apierr.As(err); !ok || f.Code != "distribution_limit" {
			x.Errorf("an eleventh destination: %v", err)
		}
		x.write(func(ctx context.Context, tx *db.Tx) error {
			all, err := withdrawal.Destinations(ctx, tx, program, "")
			if len(all) != 10 {
				x.Errorf("%d destinations, want 10", len(all))
			}
			return err
		})
	})
}
