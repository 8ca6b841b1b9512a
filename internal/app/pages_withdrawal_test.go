package app_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

const ownAddress = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"

// vault adds a bitcoin address of the company's as a destination.
func (o *companyBrowser) vault() {
	o.Helper()
	const at = "/wallets/destinations/new"
	page := o.says(o.Get(at+"?symbol=BTC"), "Name of the destination", "Check every line twice")
	if got := o.Submit(page, at, "d.address", "nowhere"); got.Status != http.StatusUnprocessableEntity ||
		!strings.Contains(got.Text, `id="d.address-problem"`) {
		o.Fatalf("%d\n%s", got.Status, got.Text)
	}
	if got := o.Submit(page, at, "label", "Vault <b>", "d.address", ownAddress); got.Location() != "/wallets/withdrawals" {
		o.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
	}
}

// A company withdraws leftover money to its own address, and the withdrawal arrives. Above the limit, a withdrawal
// waits for a second person. The pages refuse members who lack the permission.
func TestWithdrawalPages(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		const at = "/wallets/withdrawals"
		o.says(o.Get("/wallets"), `href="`+at+`"`)
		var seeded struct {
			Destinations []struct {
				ID string `json:"destination_id"`
			} `json:"destinations"`
		}
		o.d.decode(o.d.ok("GET", "/api/wallets/destinations", ""), &seeded)
		for _, to := range seeded.Destinations {
			o.Submit(o.says(o.Get(at), "Sandbox vault"), "/wallets/destinations/"+to.ID+"/remove")
		}
		o.silent(o.says(o.Get(at), "No withdrawals yet", "No destinations yet"), `name="amount"`)
		o.vault()
		// includes the seed's destinations; an app gets the event, but not the address
		for change, want := range map[string]int64{"added": 2, "removed": 1} {
			if n := o.d.count("SELECT COUNT(*) FROM events WHERE company_id = $1 AND object_id = $1 AND name = "+
				"'distribution.changed' AND data LIKE $2",
				o.d.seed.CompanyID, `{"company_id":"`+o.d.seed.CompanyID+`","recipient_id":"","user_id":"","change":"`+change+`",`+
					`"distributions":[{"distribution_id":"%","symbol":"BTC","allocation":0%}]}`); n != want {
				t.Errorf("%d events say that a destination of the company was %s, want %d", n, change, want)
			}
		}
		made := o.d.create(pays("", "1000", o.d.seed.Workers[0].UserID))
		o.d.deposit(made.PayrollID, "over", "")
		o.d.fulfilled(made.PayrollID)

		page := o.says(o.Get(at), "Vault &lt;b&gt; BTC bcrt1q…t080", `name="amount"`)
		for amount, problem := range map[string]string{"": "Enter a number like", "0": "greater than 0",
			"0.000001": "below the minimum amount", "1": "balance is too low"} {
			if got := o.Submit(page, at+"/check", "amount", amount); got.Status < 400 || got.Status > 499 ||
				!strings.Contains(got.Text, `id="amount-problem"`) || !strings.Contains(got.Text, problem) {
				t.Errorf("%q: %d\n%s", amount, got.Status, got.Text)
			}
		}
		o.says(o.Submit(o.Get(at+"?lang=de"), at+"/check", "amount", "0,001"), "0,00100000",
			`name="amount" value="0.00100000"`)
		o.Get(at + "?lang=en")
		check := o.says(o.Submit(page, at+"/check", "amount", "0.001 BTC"), "0.00100000\u00a0BTC", "0.00102000\u00a0BTC",
			"can’t be reversed")
		o.silent(check, "A second person needs to approve it")
		first := o.Submit(check, at)
		if again := o.Submit(check, at); !strings.HasPrefix(first.Location(), at+"/wdr_") ||
			again.Location() != first.Location() {
			t.Fatalf("the first submission redirects to %q, the second to %q", first.Location(), again.Location())
		}
		eventually(t, 60*time.Second, "the withdrawal arrives",
			func() bool { return strings.Contains(o.Get(first.Location()).Text, ">Completed") })
		o.says(o.Get(first.Location()), "<code>", "On its way")
		o.d.checkFunds(102_000)
		o.says(o.Get("/wallets"), ">Withdrawal<")

		// With a limit, a second person has to approve. A developer can't approve or cancel.
		other, setRole := o.colleague()
		if got := o.Submit(o.Get("/settings/approvals"), "/settings/approvals", "limit", "1", "limit_currency",
			"USD"); got.Location() != "/settings/approvals" {
			t.Fatalf("%d", got.Status)
		}
		check = o.says(o.Submit(o.Get(at), at+"/check", "amount", "0.001"), "A second person needs to approve it")
		mine := o.Submit(check, at).Location()
		eventually(t, 60*time.Second, "the withdrawal waits for approval",
			func() bool { return strings.Contains(o.Get(mine).Text, "Approvals: 0 of 1.") })
		for _, page := range []string{"/overview", "/settings/approvals"} {
			o.says(o.Get(page), "A withdrawal of 0.00100000\u00a0BTC needs approval", `href="`+mine+`"`)
		}
		own := o.Get(mine)
		o.silent(own, mine+"/approve")
		_, form := webtest.Form(t, own.Text, mine+"/cancel")
		if got := o.Post(mine+"/approve", form); got.Status != http.StatusForbidden || !strings.Contains(got.Text,
			"second_person_required") {
			t.Errorf("the person who asked for the withdrawal approves it: got status %d\n%s", got.Status, got.Text)
		}
		theirs := other.Get(mine)
		if got := other.Submit(theirs, mine+"/approve"); got.Location() != mine {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		eventually(t, 60*time.Second, "the second withdrawal arrives", func() bool {
			return strings.Contains(o.Get(mine).Text,
				">Completed")
		})
		setRole(identity.RoleDeveloper)
		o.silent(other.Get(at), `name="amount"`, "destinations/new")
		for path, send := range map[string]string{mine + "/approve": mine + "/approve", mine + "/cancel": mine + "/cancel"} {
			if got := other.Submit(theirs, path); got.Status != http.StatusForbidden {
				t.Errorf("a developer's request to %s: got status %d, want 403", send, got.Status)
			}
		}
		o.d.checkFunds(2_000)

		// When the month is over, it is closed, and its files can be downloaded.
		o.d.advance(32 * 24 * time.Hour)
		testkit.Check(t, ledger.ClosePeriods(t.Context(), o.s.DB()))
		admin := o.s.Ready().Seed.Admin
		o.Submit(o.Get("/sign-in"), "/sign-in", "email", admin.Email, "password", admin.Password)
		o.says(o.Get("/wallets?asset=BTC"), "Closed months in BTC", "0.00002000\u00a0BTC",
			"/wallets/statement.pdf?asset=BTC&amp;since=")
		report, err := checkLedger(t.Context(), o.s)
		if err != nil || len(report.Problems) > 0 {
			t.Errorf("%v %v", err, report.Problems)
		}
	})
}

func TestWithdrawalPagesInABrowser(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	seed, base := o.d.seed, o.s.Ready().BaseURL
	o.vault()
	made := o.d.create(pays("", "1000", seed.Workers[0].UserID))
	o.d.deposit(made.PayrollID, "over", "")
	o.d.fulfilled(made.PayrollID)
	b := webtest.Start(t)
	p := b.Open(base+"/wallets/withdrawals", webtest.Look{Width: 320})
	p.Fill("#email", seed.Admin.Email)
	p.Fill("#password", seed.Admin.Password)
	p.Send("form:has(#password) button")
	p.Fill("#amount", "0.001")
	p.Send(`form[action$="/check"] button`)
	p.Audit()
	p.Send("main button")
	b.Check(base + p.Path())
	b.Check(base + "/wallets/withdrawals")
	b.Check(base + "/wallets/destinations/new?symbol=BTC")
}
