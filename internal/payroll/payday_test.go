package payroll

import (
	"context"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/country/workday"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
)

func inDays(n int) string { return dbtest.Epoch.AddDate(0, 0, n).Format(time.DateOnly) }

// A payroll with a pay date is funded at once and released when that day begins in its time zone, not before, however
// often its release is tried. A payroll that is funded later is released at once.
func TestAPayrollWaitsForItsPayDate(t *testing.T) {
	run(t, func(h *env) {
		day := PayDay{Date: inDays(3), TimeZone: "America/New_York"} // a Sunday
		day.WorkingDay, day.Calendar = workday.After, workday.Weekdays
		begins := dbtest.Epoch.Truncate(24*time.Hour).AddDate(0, 0, 4)
		_, offset := begins.In(must(Zone(day.TimeZone))).Zone()
		begins = begins.Add(-time.Duration(offset) * time.Second)

		p, late := h.create(CreateParams{ToPay: worked, PayDay: day}), h.create(CreateParams{ToPay: worked, PayDay: day})
		if p.PayDate != inDays(4) || !p.ReleaseAt.Equal(begins) {
			h.Errorf("paid on %s, at %s; want %s at %s", p.PayDate, p.ReleaseAt, inDays(4), begins)
		}
		h.fund(p, "confirmed")
		h.release(p.ID)
		h.want(p.ID, Received, FundingFunded, Received)
		if h.Count("SELECT COUNT(*) FROM jobs WHERE kind = $1 AND run_at = $2", JobRelease, begins.UnixMicro()) == 0 {
			h.Error("nothing releases the payroll on its pay date")
		}
		h.does("invalid_state", h.s.Cancel, h.By, p.ID) // its rate is fixed
		h.Clock.Advance(begins.Sub(h.Clock.Now()) - time.Second)
		h.release(p.ID)
		h.want(p.ID, Received, FundingFunded, Received)
		h.Clock.Advance(time.Second)
		h.release(p.ID)
		h.want(p.ID, Released, FundingFunded, Released)
		h.outcome(p, "", payout.Fulfilled)

		h.deposit(late, "late", late.Quote.Funding.Units(), "confirmed")
		h.Write(func(ctx context.Context, tx *db.Tx) error { // accepts the late money at the current rate
			_, _, err := h.s.Refresh(ctx, tx, h.By, late.ID)
			return err
		})
		h.release(late.ID)
		h.want(late.ID, Released, FundingFunded, Released)
	})
}

// Payrolls count toward the company's velocity limit on the day on which they are paid, not when they are funded. Staff
// review one that is above the limit by itself before its pay date.
func TestPayrollsCountTowardTheVelocityLimitOnTheirPayDate(t *testing.T) {
	run(t, func(h *env) {
		limit := approval.NewReleaseLimit(money.Amount{}).WithVelocity(approval.Velocity{CompanyDay: usd(1_500_00)})
		h.s.guards.ReleasePlanned, h.s.guards.ReleaseApproved = limit.Planned, limit.Approved
		planned := func(to ...Payee) Payroll {
			h.Helper()
			p := h.create(CreateParams{ToPay: to, PayDay: PayDay{Date: inDays(5)}})
			h.fund(p, "confirmed")
			h.release(p.ID)
			h.Clock.Advance(25 * time.Hour)
			return p
		}
		first, second := planned(worked...), planned(worked...)
		large := planned(Payee{AmountText: "2000", UserID: "rec_btc"})
		h.want(first.ID, Received, FundingFunded, Received)
		h.want(second.ID, Received, FundingFunded, Received)
		if got := h.get(large.ID); got.State != OnHold || got.HoldReason != ReasonRelease {
			h.Errorf("a payroll above the limit is %s (%s)", got.State, got.HoldReason)
		}
		h.Clock.Advance(2 * 24 * time.Hour)
		h.release(first.ID)
		h.release(second.ID)
		h.want(first.ID, Released, FundingFunded, Released)
		if got := h.get(second.ID); got.State != OnHold || got.HoldReason != ReasonRelease {
			h.Errorf("a second payroll of the day is %s (%s)", got.State, got.HoldReason)
		}
	})
}

// A payroll that is funded in its own currency can be cancelled until its pay date. The company gets the money back.
func TestAPayrollCanBeCancelledBeforeItsPayDate(t *testing.T) {
	runBank(t, func(h *env) {
		p := h.create(CreateParams{ToPay: wages, FundingMethod: MethodBank, PayDay: PayDay{Date: inDays(5)}})
		h.transferred(p, "trf_1", 1_010_00)
		h.release(p.ID)
		h.want(p.ID, Received, FundingFunded, Received)
		h.does("", h.s.Cancel, h.By, p.ID)
		h.want(p.ID, Cancelled, FundingFunded, Cancelled)
		h.WantBalance(ledger.CompanyFunds, "", usd(1_010_00))

		p = h.create(CreateParams{ToPay: wages, FundingMethod: MethodWallet, PayDay: PayDay{Date: inDays(5)}})
		h.WantBalance(ledger.CompanyFunds, "", usd(0))
		h.release(p.ID)
		h.want(p.ID, Received, FundingFunded, Received)
		h.does("", h.s.Cancel, h.By, p.ID)
		h.WantBalance(ledger.CompanyFunds, "", usd(1_010_00))
	})
}

func TestPayDatesAreChecked(t *testing.T) {
	run(t, func(h *env) {
		for _, c := range []struct {
			day  PayDay
			by   string
			code string
		}{
			{PayDay{Date: inDays(-1)}, "", "invalid_parameter"},
			{PayDay{Date: inDays(0)}, "", ""},
			{PayDay{Date: inDays(0), TimeZone: "Pacific/Kiritimati"}, "", "invalid_parameter"}, // it is tomorrow there
			{PayDay{Date: inDays(31)}, "", ""},
			{PayDay{Date: inDays(32)}, "", "invalid_parameter"},
			{PayDay{Date: "1 March"}, "", "invalid_parameter"},
			{PayDay{Date: inDays(1), TimeZone: "Mars/Olympus"}, "", "invalid_parameter"},
			{PayDay{Date: inDays(1), TimeZone: "Local"}, "", "invalid_parameter"},
			{PayDay{Date: inDays(1), WorkingDay: "never"}, "", "invalid_parameter"},
			{PayDay{Date: inDays(1), Calendar: "ZZ"}, "", "invalid_parameter"},
			{PayDay{TimeZone: "UTC"}, "", "missing_field"},
			{PayDay{Date: inDays(1)}, "BTC", "currency_not_supported"}, // a balance in another currency
		} {
			p := CreateParams{ToPay: worked, PayDay: c.day}
			if c.by != "" {
				p.FundingMethod, p.FundingCurrency = MethodWallet, c.by
			}
			if _, err := h.tryCreate(p); c.code == "" && err != nil {
				h.Errorf("%+v: %v", c.day, err)
			} else if c.code != "" {
				_ = h.Fault(c.code, err)
			}
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
