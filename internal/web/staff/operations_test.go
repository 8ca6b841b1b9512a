package staff_test

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/webtest"
)

var requestPath = regexp.MustCompile(`/operations/requests/oprq_\w+`)

// TestClearingAHitNeedsTwoStaffMembers checks that clearing needs a request and an approval, that a confirmation in
// between wins, and that confirming takes one staff member.
func TestClearingAHitNeedsTwoStaffMembers(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d)
		for _, id := range []string{"hit_1", "hit_2"} {
			x.Write(func(ctx context.Context, tx *db.Tx) error {
				_, err := tx.Exec(ctx,
					`INSERT INTO screening_hits (company_id, hit_id, subject_id, kind, matched, entry_id, entry_name,
					programs, score, state, reason, decided_by, version, created_at, decided_at)
					VALUES ($1, $2, 'rcp_1', 'name', 'digest', $2, 'Somebody', 'SDN', 90, 'open', '', '', 1, 1, 0)`, x.Company.ID, id)
				return err
			})
		}
		katherine, dorothy := x.SignInStaff("Katherine"), x.SignInStaff("Dorothy")
		const queue = "/operations/queues/hits"
		decide := func(v *webtest.Visitor, hit, answer string, want int) {
			t.Helper()
			if got := v.Submit(v.Get(queue), "/operations/hits/"+hit, "answer", answer, "reason",
				"born in another year"); got.Status != want {
				t.Fatalf("%s of %s: %d\n%s", answer, hit, got.Status, got.Text)
			}
		}
		answer := func(v *webtest.Visitor, answer string) int {
			t.Helper()
			page := v.Get("/operations")
			return v.Submit(page, requestPath.FindString(page.Text), "answer", answer, "reason", "compared the passports").Status
		}
		state := func(hit string) (now, by string) {
			x.Write(func(ctx context.Context, tx *db.Tx) error {
				return tx.QueryRow(ctx, "SELECT state, decided_by FROM screening_hits WHERE hit_id = $1", hit).Scan(&now, &by)
			})
			return now, by
		}
		if page := katherine.Get(queue); !page.Contains("Score 90 of 100") || !page.Contains("Acme") ||
			!page.Contains("Sanctions list") {
			t.Errorf("the match is not shown:\n%s", page.Text)
		}
		decide(katherine, "hit_1", "clear", http.StatusSeeOther)
		decide(katherine, "hit_1", "clear", http.StatusConflict)
		if got := answer(katherine, "yes"); got != http.StatusForbidden {
			t.Errorf("the requester approves: %d", got)
		}
		if now, _ := state("hit_1"); now != "open" {
			t.Fatalf("one staff member alone made it %s", now)
		}
		if got := answer(dorothy, "yes"); got != http.StatusSeeOther {
			t.Errorf("another staff member approves: %d", got)
		}
		if now, by := state("hit_1"); now != "cleared" || by != "Katherine, Dorothy" {
			t.Errorf("%s by %s", now, by)
		}

		decide(katherine, "hit_2", "clear", http.StatusSeeOther)
		decide(dorothy, "hit_2", "confirm", http.StatusSeeOther)
		if got := answer(dorothy, "yes"); got != http.StatusConflict {
			t.Errorf("clearing a hit that was confirmed in the meantime: %d", got)
		}
		if now, by := state("hit_2"); now != "confirmed" || by != "Dorothy" {
			t.Errorf("%s by %s", now, by)
		}
		acts := katherine.Get("/operations/acts").Text
		for _, want := range []string{"Requested to clear a screening match", "Approved clearing a screening match",
			"Confirmed a screening match", `href="/operations/companies/` + x.Company.ID + `">Acme`} {
			if !strings.Contains(acts, want) {
				t.Errorf("the audit log lacks %q", want)
			}
		}
		for query, want := range map[string]int{"": 3, "action=hit.confirmed": 1,
			"q=hit_2": 2, "q=DOROTHY&action=hit.clear.ask": 0, "q=katherine&action=hit.clear.ask": 2,
			"q=another+year&since=2020-01-01": 3, "until=2020-01-01": 0, "q=aCM": 3, "q=Acme+Gmbh": 0,
			"q=" + x.Company.ID: 3} {
			page := katherine.Get("/operations/acts?" + query)
			if got := strings.Count(page.Text, "born in another year"); page.Status != http.StatusOK || got != want {
				t.Errorf("%s: %d entries, want %d\n%s", query, got, want, page.Text)
			}
		}
	})
}

// TestQueuesAreSortedByAgeAndWorth checks the order of a queue, and that the start page shows its worth.
func TestQueuesAreSortedByAgeAndWorth(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := pagetest.NewFixture(t, d)
		for company, cents := range map[string]int64{x.Company.ID: 700_00, x.Other.ID: 10_00} {
			x.Write(func(_ context.Context, tx *db.Tx) error {
				owed := money.New(money.USD, cents)
				return ledger.Post(tx, ledger.Journal{CompanyID: company, SourceType: "test", SourceID: company,
					Purpose: "test", Lines: []ledger.Line{ledger.Debit(ledger.DueFromCustomer, "", owed),
						ledger.Credit(ledger.Bank, "", owed)}})
			})
			clock.Advance(time.Hour)
		}
		v := x.SignInStaff("Katherine")
		const queue = "/operations/queues/debts"
		for sort, falls := range map[string]bool{"amount": false, "-amount": true} {
			page := v.Get(queue + "?sort=" + sort)
			large, small := strings.Index(page.Text, ">700.00"), strings.Index(page.Text, ">10.00")
			if large < 0 || small < 0 || (large < small) != falls || !page.Contains("aria-sort=") {
				t.Errorf("%s: at %d and %d in\n%s", sort, large, small, page.Text)
			}
		}
		older, newer := v.Get(queue+"?sort=since").Text, v.Get(queue+"?sort=-since").Text
		if a, b := strings.Index(older, ">700.00") < strings.Index(older, ">10.00"),
			strings.Index(newer, ">700.00") < strings.Index(newer, ">10.00"); a == b {
			t.Errorf("the order by age does not change:\n%s", newer)
		}
		if page := v.Get("/operations"); !page.Contains("710.00") || !page.Contains("Worth (USD)") {
			t.Errorf("the worth of the queue is not shown:\n%s", page.Text)
		}
	})
}

// TestDeadJobIsRetried checks that dead jobs are listed with their error and that one staff member can retry them,
// which is audited.
func TestDeadJobIsRetried(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d)
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			return tx.Insert(ctx, "jobs", []string{"company_id", "job_id", "kind", "payload", "run_at", "attempt", "dead_at",
				"last_error"}, [][]any{
				{x.Company.ID, "job_stuck", "mail.send", "{}", int64(1e15), int64(20), int64(1e15), "smtp: 451 <busy>"},
				{x.Company.ID, "job_other", "kyc.check", "{}", int64(1e15), int64(20), int64(1e15), "no answer"},
				{x.Company.ID, "job_going", "kyc.check", "{}", int64(1e15), int64(2), int64(0), "will do"},
			})
		})
		v := x.SignInStaff("Katherine")
		page := v.Get("/operations/jobs")
		for _, want := range []string{"job_stuck", "mail.send", "smtp: 451 &lt;busy&gt;", ">20<", "2001-09-09", "job_other"} {
			if !strings.Contains(page.Text, want) {
				t.Errorf("the page lacks %q:\n%s", want, page.Text)
			}
		}
		if strings.Contains(page.Text, "job_going") {
			t.Error("a job that is not dead is listed")
		}
		if got := v.Submit(page, "/operations/jobs/job_stuck", "reason", " "); got.Status != http.StatusUnprocessableEntity {
			t.Errorf("without a reason: %d", got.Status)
		}
		for _, want := range []int{http.StatusSeeOther, http.StatusConflict} {
			if got := v.Submit(page, "/operations/jobs/job_stuck", "reason", "the server is up again"); got.Status != want {
				t.Errorf("%d, want %d\n%s", got.Status, want, got.Text)
			}
		}
		if n := x.Count("SELECT COUNT(*) FROM jobs WHERE job_id = 'job_stuck' AND dead_at = 0 AND attempt = 0"); n != 1 {
			t.Error("the job is not due again")
		}
		if n := x.Count("SELECT COUNT(*) FROM jobs WHERE dead_at <> 0"); n != 1 {
			t.Errorf("%d jobs are dead, want the other one", n)
		}
		if acts := v.Get("/operations/acts").Text; strings.Count(acts, "Retried a dead job") != 2 ||
			!strings.Contains(acts, "the server is up again") {
			t.Errorf("audit log:\n%s", acts)
		}
	})
}

// TestWriteOffNeedsTwoStaffMembers checks that writing off a debt, or part of it, needs two staff members and is a
// loss of the operator. The company can then withdraw again, and money that still arrives for the debt is its own.
func TestWriteOffNeedsTwoStaffMembers(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d)
		cents := func(n int64) money.Amount { return money.New(money.USD, n) }
		posts := func(source string, debit, credit ledger.Line) {
			x.Write(func(_ context.Context, tx *db.Tx) error {
				return ledger.Post(tx, ledger.Journal{CompanyID: x.Company.ID, SourceType: "test", SourceID: source,
					Purpose: "test", Lines: []ledger.Line{debit, credit}})
			})
		}
		checkBalances := func(when string, owed, lost, has int64) {
			t.Helper()
			x.Write(func(ctx context.Context, tx *db.Tx) error {
				var got [3]int64
				for i, c := range []ledger.Code{ledger.DueFromCustomer, ledger.ReorgLoss, ledger.CompanyFunds} {
					sum, err := ledger.Total(ctx, tx, x.Company.ID, c, money.USD)
					if err != nil {
						return err
					}
					got[i] = sum.Units()
				}
				if got != [3]int64{owed, lost, has} {
					t.Errorf("%s: debt %d, loss %d, balance %d; want %d, %d, %d", when, got[0], got[1], got[2], owed,
						lost, has)
				}
				if err := ledger.CheckNoDebt(ctx, tx, x.Company.ID); (err == nil) != (owed == 0) {
					t.Errorf("%s: the company can withdraw: %v", when, err)
				}
				return nil
			})
		}
		katherine, dorothy := x.SignInStaff("Katherine"), x.SignInStaff("Dorothy")
		const queue = "/operations/queues/debts"
		request := func(v *webtest.Visitor, want int, amount string) {
			t.Helper()
			if got := v.Submit(v.Get(queue), "/operations/debts", "amount", amount, "reason",
				"the company is bankrupt"); got.Status != want {
				t.Fatalf("%q: %d, want %d\n%s", amount, got.Status, want, got.Text)
			}
		}
		answer := func(v *webtest.Visitor, want int, answer string) {
			t.Helper()
			page := v.Get("/operations")
			if got := v.Submit(page, requestPath.FindString(page.Text), "answer", answer, "reason",
				"read the court's letter"); got.Status != want {
				t.Fatalf("%s: %d, want %d\n%s", answer, got.Status, want, got.Text)
			}
		}
		posts("spent", ledger.Debit(ledger.DueFromCustomer, "", cents(710_00)), ledger.Credit(ledger.Bank, "", cents(710_00)))

		for _, amount := range []string{"0", "-1", "1.001", "all", "EUR"} {
			request(katherine, http.StatusUnprocessableEntity, amount)
		}
		request(katherine, http.StatusConflict, "710.01")
		request(katherine, http.StatusSeeOther, "700")
		request(dorothy, http.StatusConflict, "700")
		if page := dorothy.Get("/operations"); !strings.Contains(page.Text, "700.00 USD") ||
			!strings.Contains(page.Text, "the company is bankrupt") {
			t.Errorf("the request is not shown:\n%s", page.Text)
		}
		answer(katherine, http.StatusForbidden, "yes")
		checkBalances("requested", 710_00, 0, 0)
		answer(dorothy, http.StatusSeeOther, "yes")
		checkBalances("partly written off", 10_00, 700_00, 0)
		if n := x.Count(`SELECT COUNT(*) FROM ledger_lines l
			JOIN ledger_journals j ON j.company_id = l.company_id AND j.journal_id = l.journal_id
			WHERE j.company_id = $1 AND j.purpose = 'write_off'
				AND (l.code = '5040' AND l.amount = 70000 OR l.code = '1300' AND l.amount = -70000)`, x.Company.ID); n != 2 {
			t.Errorf("%d lines of a write-off", n)
		}

		// The part that was settled in the meantime is not a loss.
		request(dorothy, http.StatusSeeOther, "")
		posts("came", ledger.Debit(ledger.Bank, "", cents(4_00)), ledger.Credit(ledger.CompanyFunds, "", cents(4_00)))
		settle := func() {
			if err := payroll.SettleDebts(t.Context(), d); err != nil {
				t.Error(err)
			}
		}
		settle()
		answer(katherine, http.StatusConflict, "yes")
		answer(katherine, http.StatusSeeOther, "no")
		checkBalances("dropped", 6_00, 700_00, 0)
		request(dorothy, http.StatusSeeOther, "")
		answer(katherine, http.StatusSeeOther, "yes")
		checkBalances("fully written off", 0, 706_00, 0)
		if page := dorothy.Get(queue); strings.Contains(page.Text, "/operations/debts") {
			t.Error("a debt of 0 can be written off")
		}
		posts("again", ledger.Debit(ledger.Bank, "", cents(50_00)), ledger.Credit(ledger.DueFromCustomer, "", cents(50_00)))
		settle()
		checkBalances("received after the write-off", 0, 706_00, 50_00)
		acts := katherine.Get("/operations/acts").Text
		for _, want := range []string{"Requested to write off a debt", "Approved writing off a debt",
			"Dropped the request to write off a debt", "700.00 USD: the company is bankrupt"} {
			if !strings.Contains(acts, want) {
				t.Errorf("the audit log lacks %q", want)
			}
		}
	})
}

// TestReversalNeedsTwoStaffMembers checks that the reversal of an ACH payment needs an error that Nacha allows and two
// staff members, and is made once.
func TestReversalNeedsTwoStaffMembers(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d)
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			if _, err := tx.Exec(ctx, `INSERT INTO bank_files (company_id, file_id, number, account, currency, name, asset,
				payments, total, execute_on, instant, kind, checksum, sealed, state, token, attempts, sent_at, version, created_at)
				VALUES ($1, 'bfl_1', 1, 'usd', 'USD', 'S0000001.ach', 'USD', 1, 100, $2, FALSE, 'payments', '', '', 'sent', '', 0,
				1, 1, 1)`, x.Company.ID, tx.Now().Format(time.DateOnly)); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `INSERT INTO bank_payments (company_id, file_id, position, part, output_id, amount, state,
				reason, fee, cost, price, updated_at)
				VALUES ($1, 'bfl_1', 1, 1, 'out_1', 100, 'paid', '', 0, 0, 0, 1)`, x.Company.ID)
			return err
		})
		katherine, dorothy := x.SignInStaff("Katherine"), x.SignInStaff("Dorothy")
		const page = "/operations/reversals"
		request := func(want int, payment, kind, reason string) {
			t.Helper()
			if got := katherine.Submit(katherine.Get(page), page, "payment", payment, "kind", kind, "reason",
				reason); got.Status != want {
				t.Fatalf("%s %s: %d, want %d\n%s", payment, kind, got.Status, want, got.Text)
			}
		}
		answer := func(v *webtest.Visitor, want int) {
			t.Helper()
			shown := v.Get("/operations")
			if got := v.Submit(shown, requestPath.FindString(shown.Text), "answer", "yes", "reason",
				"asked the company"); got.Status != want {
				t.Fatalf("%d, want %d\n%s", got.Status, want, got.Text)
			}
		}
		request(http.StatusUnprocessableEntity, "S0000001P00001", "duplicate", " ")
		request(http.StatusConflict, "S0000001P00002", "duplicate", "paid twice")
		request(http.StatusSeeOther, "S0000001P00001", "duplicate", "paid twice")
		answer(katherine, http.StatusForbidden)
		if n := x.Count("SELECT COUNT(*) FROM bank_reversals"); n != 0 {
			t.Error("one member of staff made a reversal")
		}
		answer(dorothy, http.StatusSeeOther)
		if n := x.Count(`SELECT COUNT(*) FROM bank_reversals WHERE payment = 'S0000001P00001' AND state = 'approved'
			AND amount = 100 AND company_id = $1`, x.Company.ID); n != 1 {
			t.Errorf("%d reversals", n)
		}
		request(http.StatusConflict, "S0000001P00001", "duplicate", "again")
		if shown := katherine.Get(page).Text; !strings.Contains(shown, "S0000001P00001") ||
			!strings.Contains(shown, "Approved") || !strings.Contains(shown, "Duplicate") {
			t.Errorf("the reversal is not shown:\n%s", shown)
		}
		if acts := katherine.Get("/operations/acts").Text; !strings.Contains(acts, "Approved the reversal of a payment") ||
			!strings.Contains(acts, "duplicate: paid twice") {
			t.Errorf("audit log:\n%s", acts)
		}
	})
}
