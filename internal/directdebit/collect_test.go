package directdebit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// A debit is announced the notice ahead, sent once, credited once, held, and then released once, however often each
// step is repeated.
func TestADebitIsCreditedAfterItsHold(t *testing.T) {
	run(t, func(x *env) {
		for _, scheme := range bank.DebitSchemes {
			x.UseCompanyOf(scheme)
			m := x.mandate(scheme, "123456")
			d := x.create(m, "2500.00")
			x.want(d, directdebit.Scheduled, "", 0, 0, 0)
			due := testkit.Must(time.Parse(time.DateOnly, d.DueOn))
			notice := map[bank.DebitScheme]time.Duration{bank.SEPACore: 14 * day, bank.SEPAB2B: 14 * day,
				bank.ACHCCD: day, bank.ACHWEB: 10 * day}[scheme]
			if now := testkit.Must(x.DB.Now(x.Context())); due.Sub(now) < notice-day || due.Sub(now) > notice+5*day {
				x.Errorf("%s is due on %s", scheme, d.DueOn)
			}
			x.WantCount(1, "mails WHERE template = '"+mail.DirectDebit+"' AND mail_key LIKE '"+d.ID+"/announced/%'")
			x.collect(d)
			for range 2 {
				x.want(d, directdebit.Collected, "", 2500_00, 0, 0)
				x.submit(d)
				x.respond()
			}
			x.release(d) // too early
			x.want(d, directdebit.Collected, "", 2500_00, 0, 0)
			x.Clock.Advance(80 * day)
			for range 2 { // no statement of the hold was read: a return may have come
				x.release(d)
				x.want(d, directdebit.Collected, directdebit.ReasonUnanswered, 2500_00, 0, 0)
			}
			x.respond()
			for range 2 {
				x.release(d)
				x.want(d, directdebit.Available, "", 0, 2500_00, 0)
			}
			x.Read(func(ctx context.Context, tx *db.Tx) error {
				responses, err := bank.Responses(ctx, tx, true, 100)
				for _, r := range responses {
					if len(r.Problems) > 0 {
						x.Errorf("%s: %v", r.Name, r.Problems)
					}
				}
				return err
			})
			x.PostTransfer(x.By.CompanyID, "test", d.ID, "spent", ledger.CompanyFunds, ledger.FXPosition, d.Amount)
		}
	})
}

// Money that is within the risk limit can be used at once. When the debit is returned, the rest of the balance is taken
// and what is missing is a debt; every mandate is suspended and no scheduled debit is sent.
func TestAReturnAfterAnEarlyReleaseIsOwed(t *testing.T) {
	run(t, func(x *env) {
		first, other := x.mandate(bank.SEPAB2B, "123456"), x.mandate(bank.SEPACore, "123457")
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			return directdebit.SetLimit(ctx, tx, x.By.CompanyID, fixture.EUR(400_00))
		})
		d, later := x.create(first, "300.00"), x.create(first, "250.00")
		x.collect(d)
		x.want(d, directdebit.Collected, "", 0, 300_00, 0)
		x.submit(later)
		x.respond()
		x.want(later, directdebit.Collected, "", 150_00, 400_00, 0) // what the limit leaves
		x.PostTransfer(x.By.CompanyID, "test", "spend", "spent", ledger.CompanyFunds, ledger.FXPosition, fixture.EUR(350_00))
		waiting := x.create(other, "10.00")
		number, _ := bank.FindDebit(x.get(d).Reference())
		for range 2 {
			x.Must(x.sim.ReturnDebit(number, bank.SEPAB2B, d.Amount, "AM04", testkit.Must(x.DB.Now(x.Context()))))
			x.respond()
			x.want(d, directdebit.Returned, "AM04", 0, 0, 250_00)
		}
		for _, m := range []directdebit.Mandate{first, other} {
			if got := x.mandateState(m); got != "suspended AM04" {
				x.Errorf("the mandate is %s", got)
			}
		}
		if got := x.get(waiting); got.State != directdebit.Cancelled {
			x.Errorf("the scheduled debit is %s", got.State)
		}
		_, err := x.try(directdebit.Params{MandateID: first.ID, AmountText: "1"})
		if !errors.Is(err, directdebit.ErrMandate) {
			x.Errorf("another debit: %v", err)
		}
		// A company that owes money can neither retry nor have its mandate back.
		x.WantError(ledger.ErrInsufficient, fixture.Drop(func(ctx context.Context, tx *db.Tx) (directdebit.Debit, error) {
			return x.s.RetryDebit(ctx, tx, x.admin, "", d.ID)
		}))
		x.WantError(ledger.ErrInsufficient, func(ctx context.Context, tx *db.Tx) error {
			return directdebit.DecideMandate(ctx, tx, x.By.CompanyID, first.ID, true)
		})
	})
}

// A debit that was returned for lack of funds is retried at most twice; one of a closed account ends its mandate.
func TestRetries(t *testing.T) {
	run(t, func(x *env) {
		x.UseCompanyOf(bank.ACHCCD)
		m := x.mandate(bank.ACHCCD, "990001")
		d := x.create(m, "100.00")
		retry := func(d directdebit.Debit) (directdebit.Debit, error) {
			return fixture.Try(x.Fixture, func(ctx context.Context, tx *db.Tx) (directdebit.Debit, error) {
				return x.s.RetryDebit(ctx, tx, x.admin, "", d.ID)
			})
		}
		if _, err := retry(d); !errors.Is(err, directdebit.ErrRetry) {
			x.Errorf("a retry of a scheduled debit: %v", err)
		}
		for n := range 3 {
			x.collect(d)
			x.want(d, directdebit.Returned, "R01", 0, 0, 0)
			if got := x.mandateState(m); got != "suspended R01" {
				x.Errorf("the mandate is %s", got)
			}
			next, err := retry(d)
			if n == 2 {
				if !errors.Is(err, directdebit.ErrRetry) {
					x.Errorf("a third retry: %v", err)
				}
				break
			}
			x.Must(err)
			if again, err := retry(d); err != nil || again.ID != next.ID || next.RetryOf != d.ID {
				x.Errorf("the second retry is %+v, %v", again, err)
			}
			d = next
		}
		closed := x.mandate(bank.ACHCCD, "990002")
		c := x.create(closed, "100.00")
		x.collect(c)
		x.want(c, directdebit.Returned, "R02", 0, 0, 0)
		if got := x.mandateState(closed); got != "ended R02" {
			x.Errorf("the mandate is %s", got)
		}
		if _, err := retry(c); !errors.Is(err, directdebit.ErrRetry) {
			x.Errorf("a retry of a debit of a closed account: %v", err)
		}
	})
}

// A debit that the bank rejects fails and books nothing.
func TestARejectedDebitBooksNothing(t *testing.T) {
	run(t, func(x *env) {
		m := x.mandate(bank.SEPACore, "991001")
		d := x.create(m, "100.00")
		x.collect(d)
		got := x.get(d)
		x.want(d, directdebit.Failed, got.Reason, 0, 0, 0)
		if got.Reason == "" || !strings.HasPrefix(x.mandateState(m), "suspended") {
			x.Errorf("%s, %s", got.Reason, x.mandateState(m))
		}
		x.WantCount(0, "ledger_journals WHERE source_type = 'direct_debit'")
	})
}

// What contradicts a debit is a problem for staff and books nothing; a debit that the database does not contain pauses
// payouts.
func TestContradictionsAreProblems(t *testing.T) {
	run(t, func(x *env) {
		d := x.create(x.mandate(bank.SEPAB2B, "123456"), "100.00")
		x.reach(d)
		x.submit(d)
		number, _ := bank.FindDebit(x.get(d).Reference())
		for name, f := range map[string]bank.DebitFact{
			"another amount":  {Number: number, Outcome: bank.DebitCollected, Amount: fixture.EUR(1)},
			"a part returned": {Number: number, Outcome: bank.DebitReturned, Amount: fixture.EUR(99_99)},
			"an unknown one":  {Number: 999, Outcome: bank.DebitCollected, Amount: d.Amount},
		} {
			problems, err := x.c.Apply(x.Context(), x.DB, []bank.DebitFact{f})
			if err != nil || len(problems) != 1 {
				x.Errorf("%s: %v, %v", name, problems, err)
			}
		}
		x.want(d, directdebit.Submitted, "", 0, 0, 0)
		x.Read(func(ctx context.Context, tx *db.Tx) error {
			if why, err := payout.Paused(ctx, tx); err != nil || !strings.Contains(why, "D0000999") {
				x.Errorf("payouts are paused by %q, %v", why, err)
			}
			return nil
		})
		// The bank kept more than the agreed fee. The debit came back nevertheless.
		problems, err := x.c.Apply(x.Context(), x.DB, []bank.DebitFact{
			{Number: number, Outcome: bank.DebitReturned, Amount: fixture.EUR(103_00)},
		})
		if err != nil || len(problems) != 1 || x.get(d).State != directdebit.Returned {
			x.Errorf("%s: %v, %v", x.get(d).State, problems, err)
		}
	})
}

// The holds of the schemes last until the last return that their rulebooks allow has reached the operator's statement.
func TestHoldsOutlastTheReturnWindows(t *testing.T) {
	of := map[bank.DebitScheme]bank.Account{}
	for _, scheme := range bank.DebitSchemes {
		a, ok := bank.DebitAccount(bank.SandboxAccounts(), scheme)
		if !ok {
			t.Fatalf("no account collects %s", scheme)
		}
		of[scheme] = a
	}
	byAPI := testkit.Must(bank.ReadAccounts(strings.NewReader(`[{"id": "usd", "currency": "USD", "format": "column",
		"name": "Example Payments", "number": "bacc_1", "debits": {"schemes": {"ach_ccd": {}}}}]`)))
	of["ach_ccd by API"] = byAPI[0] // which has no calendar of its own
	for _, c := range []struct {
		scheme         bank.DebitScheme
		credited, last string // day of the credit, and the last day on which a return can settle
	}{
		{bank.SEPACore, "2026-02-05", "2026-04-08"}, // eight weeks end on Maundy Thursday; two TARGET days follow Easter
		{bank.SEPACore, "2026-10-29", "2026-12-29"}, // Christmas Eve
		{bank.SEPACore, "2026-06-01", "2026-07-29"},
		{bank.SEPAB2B, "2026-04-02", "2026-04-09"}, // Maundy Thursday
		{bank.SEPAB2B, "2026-06-01", "2026-06-04"},
		{bank.ACHCCD, "2026-11-24", "2026-11-27"}, // Thanksgiving Day is the 26th
		{bank.ACHCCD, "2026-12-23", "2026-12-28"},
		{bank.ACHCCD, "2026-06-01", "2026-06-03"},
		{"ach_ccd by API", "2026-11-24", "2026-11-27"},
		{bank.ACHWEB, "2026-06-01", "2026-07-31"}, // the banking day after the 60th day
	} {
		a := of[c.scheme]
		scheme := bank.DebitScheme(strings.TrimSuffix(string(c.scheme), " by API"))
		end := a.HoldEnd(scheme, testkit.Must(time.Parse(time.DateOnly, c.credited)).Add(15*time.Hour))
		if got := end.Format(time.DateOnly); got <= c.last {
			t.Errorf("%s: what was credited on %s is held until %s; a return can settle on %s", c.scheme, c.credited, got,
				c.last)
		} else if limit := testkit.Must(time.Parse(time.DateOnly, c.last)).AddDate(0, 0, 7); end.After(limit) {
			t.Errorf("%s: what was credited on %s is held until %s", c.scheme, c.credited, got)
		}
	}
}
