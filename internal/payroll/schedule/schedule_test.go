package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/country/workday"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/testkit/fixture"
	"github.com/stipend/stipend/internal/treasury"
)

type addresses struct{}

func (addresses) Address(branch, index uint32) (string, error) {
	return fmt.Sprintf("bcrt1q%d%d", branch, index), nil
}

// env is a company with a payee who is paid in euros.
type env struct {
	*fixture.Fixture
	s *Service
}

func run(t *testing.T, f func(h *env)) {
	t.Helper()
	fixture.Run(t, func(x *fixture.Fixture) {
		chaintest.StartWatching(x, x.DB, "regtest")
		funds, err := treasury.New(treasury.Unlimited)
		if err != nil {
			x.Fatal(err)
		}
		p, err := payroll.New(payroll.Config{
			Pool: chain.NewPool(x.DB, "regtest", addresses{}), ChainName: "regtest", Network: "regtest",
			QuoteValidity: 30 * time.Minute, Treasury: funds, AllowUnverified: true, Sealer: &identity.Sealer{},
		}, payroll.Guards{TravelRule: allow.Records[payout.Output],
			CheckWatched: allow.Network, Screen: allow.Subjects[destination.ScreeningSubject],
			ReleasePlanned: allow.Release, ReleaseApproved: allow.Release, PayeesApproved: allow.Payees})
		if err != nil {
			x.Fatal(err)
		}
		s, err := New(p)
		if err != nil {
			x.Fatal(err)
		}
		h := &env{x, s}
		x.UseCompany(identity.NewCompany{Name: "Acme", Email: "pay@acme.example", Country: "DE", FeeBps: 100})
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			if err := tx.Insert(ctx, "recipients", []string{
				"company_id", "recipient_id", "relationship_id", "user_id", "recipient_type", "role", "status", "name",
				"name_key", "first_name", "last_name", "email", "email_key", "country", "external_id", "department",
				"vendor_type", "details", "onboarded", "version", "created_at", "updated_at",
			}, [][]any{{x.By.CompanyID, "rec_eur", "rel_eur", "", "user", "contractor", "active", "Eve", "eve", "Eve", "", "",
				"", "DE", "", "", "", "", true, int64(1), int64(0), int64(0)}}); err != nil {
				return err
			}
			return tx.Insert(ctx, "destinations", []string{
				"owner_id", "destination_id", "kind", "symbol", "rail", "scheme", "country", "network", "address",
				"sealed", "masked", "allocation", "created_at", "updated_at",
			}, [][]any{{"rec_eur", "dst_eur", "fiat", "EUR", "bank", "", "", "", "", "", "{}", int64(100), int64(0),
				int64(0)}})
		})
		f(h)
		h.CheckLedger()
	})
}

// weekly is a schedule of Fridays that begins the day after Epoch, two days ahead, paid from the balance. A payroll is
// 101.00 USD with its fee.
func weekly() Params {
	return Params{Name: "Wages", Frequency: Weekly, StartDate: Text(dbtest.Epoch.AddDate(0, 0, 1)),
		DaysAhead: 2, Calendar: workdays, Terms: Terms{FundingMethod: payroll.MethodWallet},
		ToPay: []payroll.Payee{{UserID: "rec_eur", AmountText: "100"}}}
}

const workdays = "weekdays"

func (h *env) create(p Params) Schedule {
	h.Helper()
	return fixture.Do(h.Fixture, func(ctx context.Context, tx *db.Tx) (Schedule, error) {
		return h.s.Create(ctx, tx, h.By, p)
	})
}

func (h *env) get(id string) Schedule {
	h.Helper()
	return fixture.Get(h.Fixture, func(ctx context.Context, tx *db.Tx) (Schedule, error) {
		return Get(ctx, tx, h.By, "", id)
	})
}

func (h *env) update(id string, c Changes) Schedule {
	h.Helper()
	return fixture.Do(h.Fixture, func(ctx context.Context, tx *db.Tx) (Schedule, error) {
		return h.s.Update(ctx, tx, h.By, "", id, c)
	})
}

func (h *env) changeRun(id string, day time.Time, state RunState, to []payroll.Payee) {
	h.Helper()
	h.Write(func(ctx context.Context, tx *db.Tx) error {
		_, _, err := h.s.ChangeRun(ctx, tx, h.By, "", id, Text(day), RunChanges{State: state, ToPay: to})
		return err
	})
}

func (h *env) runDue() {
	h.Helper()
	if err := h.s.RunDue(context.Background(), h.DB); err != nil {
		h.Fatal(err)
	}
}

func (h *env) deposit(cents int64) {
	h.Helper()
	h.Post(h.By.CompanyID, "test", fmt.Sprint(cents), "deposit",
		ledger.Debit(ledger.Bank, "test", money.New(money.USD, cents)),
		ledger.Credit(ledger.CompanyFunds, "", money.New(money.USD, cents)))
}

// payDates returns the pay dates of all payrolls, in order.
func (h *env) payDates() (all []string) {
	h.Helper()
	h.Read(func(ctx context.Context, tx *db.Tx) error {
		rows, err := tx.Query(ctx, "SELECT pay_date FROM payrolls ORDER BY pay_date")
		all, err = db.Collect(rows, err, func(r *db.Rows) (d string, err error) { return d, r.Scan(&d) })
		return err
	})
	return all
}

func (h *env) wantPayrolls(n int64) {
	h.Helper()
	h.WantCount(n, "payrolls")
	h.WantCount(n, "schedule_runs r WHERE state = 'created' AND EXISTS (SELECT 1 FROM payrolls p WHERE p.payroll_id = "+
		"r.payroll_id)")
}

const day = 24 * time.Hour

// Each run gets one payroll, some days before its pay date, and a mail. A schedule ends after its last run.
func TestAScheduleCreatesAPayrollForEachRun(t *testing.T) {
	run(t, func(h *env) {
		h.deposit(1_000_00)
		p := weekly()
		p.StartDate, p.EndDate = Text(dbtest.Epoch.AddDate(0, 0, 8)), Text(dbtest.Epoch.AddDate(0, 0, 17))
		n := h.create(p)
		h.runDue()
		h.wantPayrolls(0)
		h.Clock.Advance(5*day + 12*time.Hour - time.Second) // a second before Wednesday
		h.runDue()
		h.wantPayrolls(0)
		h.Clock.Advance(time.Second)
		for range 2 {
			h.runDue()
			h.wantPayrolls(1)
		}
		h.WantCount(1, "mails WHERE template = 'schedule_run' AND address = 'pay@acme.example'")
		h.Clock.Advance(7 * day)
		h.runDue()
		h.wantPayrolls(2)
		if got := h.payDates(); got[0] != p.StartDate || got[1] != Text(dbtest.Epoch.AddDate(0, 0, 15)) {
			h.Errorf("paid on %v", got)
		}
		if got := h.get(n.ID); got.State != Ended || len(got.Runs) != 2 || !got.Next.IsZero() {
			h.Errorf("%+v", got)
		}
	})
}

// After the service did not run for weeks, each missed run gets its payroll, once. When the clock is set back, nothing
// happens twice.
func TestNoRunIsMadeTwiceOrMissed(t *testing.T) {
	run(t, func(h *env) {
		h.deposit(1_000_00)
		h.create(weekly())
		h.runDue()
		h.wantPayrolls(1) // its pay date is tomorrow
		h.Clock.Advance(22 * day)
		h.runDue()
		h.wantPayrolls(4) // of the 2nd, 3rd and 4th Friday
		if got := h.payDates(); got[0] != "" || got[1] != "" || got[3] != Text(h.Clock.Now()) {
			h.Errorf("the late runs are paid on %v", got)
		}
		h.Clock.Advance(-20 * day)
		h.runDue()
		h.wantPayrolls(4)
		h.Clock.Advance(20*day + 4*day)
		h.runDue()
		h.wantPayrolls(4)
		h.Clock.Advance(day)
		h.runDue()
		h.wantPayrolls(5)
	})
}

// When a zone changes its clocks at midnight of the day on which a payroll is created, the day begins an hour late or
// ends twice. Each run gets one payroll, on its day, also if a process restarts every hour.
func TestClockChangesNeitherRepeatNorOmitARun(t *testing.T) {
	for zone, c := range map[string]struct {
		near    string // a day near the change
		created string // the run whose payroll is created on the day of the change, in UTC
	}{
		"Africa/Cairo":     {"2026-04-24", "2026-04-23T22:00:00Z"}, // 00:00 does not exist, so the day begins at 01:00
		"America/Santiago": {"2026-04-05", "2026-04-05T04:00:00Z"}, // 23:00 of the day before comes twice
		"America/Havana":   {"2026-11-01", "2026-11-01T04:00:00Z"}, // 00:00 comes twice
	} {
		t.Run(zone, func(t *testing.T) {
			run(t, func(h *env) {
				h.deposit(1_000_00)
				p := weekly()
				p.TimeZone, p.DaysAhead, p.WorkingDay = zone, 0, workday.None
				change := date(t, c.near)
				p.StartDate, p.EndDate = Text(change.AddDate(0, 0, -7)), Text(change.AddDate(0, 0, 7))
				h.Clock.Advance(change.AddDate(0, 0, -8).Sub(h.Clock.Now()))
				n := h.create(p)
				var made []string
				for before := int64(0); h.Clock.Now().Before(change.AddDate(0, 0, 9)); h.Clock.Advance(time.Hour) {
					h.runDue()
					if now := h.Count("SELECT COUNT(*) FROM payrolls"); now > before {
						made, before = append(made, h.Clock.Now().Format(time.RFC3339)), now
					}
				}
				h.wantPayrolls(3)
				if len(made) != 3 || made[1] != c.created {
					h.Errorf("payrolls are created at %v", made)
				}
				if got := h.get(n.ID); got.State != Ended || len(got.Runs) != 3 {
					h.Errorf("%+v", got)
				}
			})
		})
	}
}

// Several worker processes at once create each payroll once.
func TestTwoWorkerProcessesCreateOnePayroll(t *testing.T) {
	run(t, func(h *env) {
		h.deposit(10_000_00)
		for range 3 {
			h.create(weekly())
		}
		h.Clock.Advance(14 * day)
		var work sync.WaitGroup
		for range 4 {
			work.Go(func() {
				// A worker process that loses a race may fail; the next call goes on.
				_ = h.s.RunDue(context.Background(), h.DB)
			})
		}
		work.Wait()
		h.runDue()
		h.wantPayrolls(9)
		h.WantCount(0, "schedule_runs a JOIN schedule_runs b ON a.payroll_id = b.payroll_id AND a.run_id < b.run_id")
		h.WantBalance(ledger.CompanyFunds, "", money.New(money.USD, 10_000_00-9*101_00))
	})
}

// A process that ends before its commit has created nothing, and the next one creates the payroll.
func TestACrashLosesNoRun(t *testing.T) {
	run(t, func(h *env) {
		h.deposit(1_000_00)
		n := h.create(weekly())
		crash := errors.New("the process ended")
		if err := h.DB.Write(context.Background(), func(ctx context.Context, tx *db.Tx) error {
			if more, err := h.s.runNext(ctx, tx, key{n.CompanyID, n.ID}); err != nil || !more {
				return fmt.Errorf("%t %w", more, err)
			}
			return crash
		}); !errors.Is(err, crash) {
			h.Fatal(err)
		}
		h.wantPayrolls(0)
		h.runDue()
		h.wantPayrolls(1)
	})
}

// A run whose payroll the balance does not cover waits, with one mail, and goes on when there is money. So does one
// with a payee who cannot be paid.
func TestARunWaitsForItsCause(t *testing.T) {
	run(t, func(h *env) {
		n := h.create(weekly())
		for range 3 {
			h.runDue()
			h.Clock.Advance(time.Hour)
		}
		h.wantPayrolls(0)
		h.WantCount(1, "mails WHERE template = 'schedule_run'")
		if r := h.get(n.ID).Runs[0]; r.State != Waiting || r.Reason != payroll.ErrNoFunds.Code || r.ID == "" {
			h.Errorf("%+v", r)
		}
		h.deposit(200_00)
		h.Exec("UPDATE recipients SET status = 'inactive'")
		h.runDue()
		if r := h.get(n.ID).Runs[0]; r.State != Waiting || r.Reason != "recipient_inactive" {
			h.Errorf("%+v", r)
		}
		h.Exec("UPDATE recipients SET status = 'active'")
		h.Clock.Advance(time.Hour)
		h.runDue()
		h.wantPayrolls(1)
		h.WantCount(3, "mails WHERE template = 'schedule_run'")
		if got := h.CountEvents("schedule.run_update", h.get(n.ID).Runs[0].ID); got != 3 {
			h.Errorf("%d events of the run", got)
		}
	})
}

// Runs can be skipped and changed before their payroll exists, and the changes end with the run.
func TestRunsAreSkippedAndChanged(t *testing.T) {
	run(t, func(h *env) {
		h.deposit(1_000_00)
		n := h.create(weekly())
		first := n.Next
		h.changeRun(n.ID, first, Skipped, nil)
		h.changeRun(n.ID, first.Add(7*day), Skipped, nil)
		h.changeRun(n.ID, first.Add(7*day), Planned, []payroll.Payee{{UserID: "rec_eur", AmountText: "7"}})
		h.Clock.Advance(15 * day)
		h.runDue()
		h.WantCount(2, "payrolls")
		h.WantCount(1, "payrolls WHERE volume = 700")
		h.WantCount(1, "payrolls WHERE volume = 10000")
		for _, c := range []struct {
			day  time.Time
			to   []payroll.Payee
			code string
		}{
			{first, nil, "invalid_state"},
			{first.Add(day), nil, "not_found"},
			{first.Add(28 * day), []payroll.Payee{{UserID: "rec_none", AmountText: "1"}}, "invalid_parameter"},
			{first.Add(28 * day), []payroll.Payee{{UserID: "rec_eur", AmountText: "1", InvoiceID: "7"}}, "invalid_parameter"},
		} {
			h.WantFault(c.code, func(ctx context.Context, tx *db.Tx) error {
				_, _, err := h.s.ChangeRun(ctx, tx, h.By, "", n.ID, Text(c.day), RunChanges{State: Planned, ToPay: c.to})
				return err
			})
		}
	})
}

// Of two members who change the same version of a schedule or a run at once, one succeeds and the other gets an error,
// so that nobody's payee is lost.
func TestConcurrentChangesOfOneVersion(t *testing.T) {
	run(t, func(h *env) {
		n := h.create(weekly())
		var unchanged int64 // the version of a run that is not stored
		for _, change := range []func(ctx context.Context, tx *db.Tx, to []payroll.Payee) error{
			func(ctx context.Context, tx *db.Tx, to []payroll.Payee) error {
				_, err := h.s.Update(ctx, tx, h.By, "", n.ID, Changes{ToPay: to, Version: &n.Version})
				return err
			},
			func(ctx context.Context, tx *db.Tx, to []payroll.Payee) error {
				_, _, err := h.s.ChangeRun(ctx, tx, h.By, "", n.ID, Text(n.Next.Add(7*day)),
					RunChanges{State: Planned, ToPay: to, RunVersion: &unchanged})
				return err
			},
		} {
			var work sync.WaitGroup
			var failed [2]error
			for i := range failed {
				work.Go(func() {
					to := append(slices.Clone(n.ToPay), payroll.Payee{UserID: "rec_eur", AmountText: fmt.Sprint(i + 1)})
					failed[i] = h.DB.Write(context.Background(), func(ctx context.Context, tx *db.Tx) error {
						return change(ctx, tx, to)
					})
				})
			}
			work.Wait()
			first := slices.Index(failed[:], nil)
			if first < 0 || !errors.Is(failed[1-first], ErrChanged) {
				h.Fatalf("%v", failed)
			}
			got := h.get(n.ID)
			to := got.ToPay
			if stored := got.Runs[1].ToPay; stored != nil {
				to = stored
			}
			if len(to) != 2 || to[1].AmountText != fmt.Sprint(first+1) {
				h.Errorf("%d succeeded, and the payees are %+v", first+1, to)
			}
		}
		h.WantFault(ErrChanged.Code, func(ctx context.Context, tx *db.Tx) error { // the schedule has changed, the run has not
			_, _, err := h.s.ChangeRun(ctx, tx, h.By, "", n.ID, Text(n.Next), RunChanges{State: Skipped, Version: &n.Version})
			return err
		})
	})
}

// When the calendar changes, the pay dates of waiting runs and of runs that were changed individually change, too.
func TestAChangedCalendarAppliesToStoredRuns(t *testing.T) {
	run(t, func(h *env) {
		p := weekly()
		p.StartDate = Text(dbtest.Epoch.AddDate(0, 0, 2)) // a Saturday, paid on the Friday before
		n := h.create(p)
		h.runDue() // the first run waits for money
		h.changeRun(n.ID, n.Next.Add(7*day), Planned, []payroll.Payee{{UserID: "rec_eur", AmountText: "7"}})
		h.changeRun(n.ID, n.Next.Add(14*day), Skipped, nil)
		h.update(n.ID, Changes{WorkingDay: new(workday.After)})
		want := func(days ...int) {
			h.Helper()
			for i, r := range h.get(n.ID).Runs[:len(days)] {
				if got := Text(r.PayDate); got != Text(dbtest.Epoch.AddDate(0, 0, days[i])) {
					h.Errorf("run %d, %s, is paid on %s", i, r.State, got)
				}
			}
		}
		want(4, 11, 15, 25)
		h.changeRun(n.ID, n.Next.Add(14*day), Planned, nil)
		want(4, 11, 18, 25)
		h.deposit(1_000_00)
		h.Clock.Advance(8 * day) // three days before the second run is paid
		h.runDue()
		h.WantCount(1, "payrolls")
		h.Clock.Advance(day)
		h.runDue()
		h.WantCount(1, "payrolls WHERE volume = 700 AND pay_date = '"+Text(dbtest.Epoch.AddDate(0, 0, 11))+"'")
		h.WantCount(1, "schedule_runs WHERE state = 'created' AND pay_date = '"+Text(dbtest.Epoch.AddDate(0, 0, 11))+"'")
	})
}

// While a schedule is paused, no payroll is created. Runs whose pay date passed in a pause are skipped. A schedule that
// ended stays ended.
func TestASchedulePausesAndEnds(t *testing.T) {
	run(t, func(h *env) {
		h.deposit(1_000_00)
		n := h.create(weekly())
		state := func(s State) *State { return &s }
		h.update(n.ID, Changes{State: state(Paused)})
		h.Clock.Advance(9 * day) // Saturday after the second Friday
		h.runDue()
		h.wantPayrolls(0)
		if got := h.update(n.ID, Changes{State: state(Active)}); !got.Next.Equal(n.Next.Add(14 * day)) {
			h.Errorf("the next run is on %s", got.Next)
		}
		h.WantCount(2, "schedule_runs WHERE state = 'skipped' AND reason = 'paused'")
		h.Clock.Advance(4 * day)
		h.runDue()
		h.wantPayrolls(1)
		h.update(n.ID, Changes{State: state(Ended)})
		h.update(n.ID, Changes{State: state(Ended)})
		h.WantFault("invalid_state", func(ctx context.Context, tx *db.Tx) error {
			_, err := h.s.Update(ctx, tx, h.By, "", n.ID, Changes{State: state(Active)})
			return err
		})
		h.Clock.Advance(30 * day)
		h.runDue()
		h.wantPayrolls(1)
	})
}

// A member who changes what another one entered removes the creator, so that payrolls above the limit need two others.
func TestASecondEditorRemovesTheCreator(t *testing.T) {
	run(t, func(h *env) {
		h.deposit(1_000_00)
		program := h.By
		h.By = identity.Principal{Kind: identity.KindSession, ID: "ses", CompanyID: program.CompanyID, UserID: "usr_a"}
		n, other := h.create(weekly()), h.create(weekly())
		h.By.UserID = "usr_b"
		h.update(n.ID, Changes{ToPay: []payroll.Payee{{UserID: "rec_eur", AmountText: "9"}}})
		h.runDue()
		h.WantCount(1, "payrolls WHERE created_by = '' AND volume = 900")
		h.WantCount(1, "payrolls WHERE created_by = 'usr_a' AND volume = 10000")
		h.changeRun(other.ID, h.get(other.ID).Next, Planned, []payroll.Payee{{UserID: "rec_eur", AmountText: "8"}})
		h.Clock.Advance(7 * day)
		h.runDue()
		h.WantCount(1, "payrolls WHERE created_by = '' AND volume = 800")
	})
}

// A form that is sent twice creates one schedule, and a schedule of another company does not exist.
func TestCreateIsIdempotentAndScoped(t *testing.T) {
	run(t, func(h *env) {
		p := weekly()
		p.Key = "form"
		if first, again := h.create(p), h.create(p); first.ID != again.ID {
			h.Errorf("%s and %s", first.ID, again.ID)
		}
		n := h.create(weekly())
		h.By.CompanyID = "com_other"
		h.WantFault("not_found", func(ctx context.Context, tx *db.Tx) error {
			_, err := Get(ctx, tx, h.By, "", n.ID)
			return err
		})
		h.WantFault("not_found", func(ctx context.Context, tx *db.Tx) error {
			_, err := h.s.Update(ctx, tx, h.By, "", n.ID, Changes{})
			return err
		})
	})
}

func TestSchedulesAreChecked(t *testing.T) {
	run(t, func(h *env) {
		for _, change := range []func(*Params){
			func(p *Params) { p.Name = " " },
			func(p *Params) { p.DaysAhead = 29 },
			func(p *Params) { p.StartDate = Text(dbtest.Epoch.AddDate(0, 0, -1)) },
			func(p *Params) { p.EndDate = "soon" },
			func(p *Params) { p.TimeZone = "Mars" },
			func(p *Params) { p.Calendar = "ZZ" },
			func(p *Params) { p.WorkingDay = "never" },
			func(p *Params) { p.Frequency, p.Days, p.EndDate = Monthly, []int{1}, p.StartDate }, // no run before the end
		} {
			p := weekly()
			change(&p)
			h.WantFault("invalid_parameter", func(ctx context.Context, tx *db.Tx) error {
				_, err := h.s.Create(ctx, tx, h.By, p)
				return err
			})
		}
		p := weekly()
		p.Terms.FundingCurrency = "BTC" // the rate of a balance in another currency would be fixed too early
		h.WantFault("currency_not_supported", func(ctx context.Context, tx *db.Tx) error {
			_, err := h.s.Create(ctx, tx, h.By, p)
			return err
		})
	})
}
