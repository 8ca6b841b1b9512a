package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/web/webtest"
)

// A member copies the amounts of an earlier payroll, searches its payments, sees them change without a reload, and
// exports the payments of a month, one line for each.
func TestPayrollIsRepeatedSearchedAndExported(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		ada, grace := o.d.seed.Workers[0].UserID, o.d.seed.Workers[1].UserID
		o.silent(o.Get("/payrolls/new"), "Copy amounts from")
		made := o.d.create(`{"external_id":"march","to_pay":[{"user_id":"` + ada +
			`","amount_fiat":1600.25,"description":"Wages"},{"user_id":"` + ada + `","amount_fiat":100},{"user_id":"` +
			grace + `","amount_fiat":250.50}]}`)
		page := o.says(o.Get("/payrolls/"+made.PayrollID), "Run again", `data-live="/payrolls/`+made.PayrollID+`/live?`,
			"Ada Lovelace", "Grace Hopper")
		o.silent(page, "If your country uses them.")
		if policy := page.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "connect-src 'self'") {
			t.Errorf("the page may not follow its payroll: %s", policy)
		}
		live := o.says(o.Get("/payrolls/"+made.PayrollID+"/live"), "Grace Hopper", "data-announcement")
		if strings.Contains(live.Text, "<html") {
			t.Error("the live part is a whole page")
		}

		o.says(o.Get("/payrolls/new"), "Copy amounts from march", "/payrolls/new?from="+made.PayrollID)
		form := o.says(o.Get("/payrolls/new?from="+made.PayrollID), "Amounts copied from march", `value="1,700.25"`,
			`value="250.50"`, `value="Wages"`)
		o.says(o.Submit(form, "/payrolls/new"), "1,700.25\u00a0USD", "250.50\u00a0USD", "Wages")
		o.says(o.Get("/payrolls/new?lang=de&from="+made.PayrollID), `value="1.700,25"`)
		o.Get("/payrolls/new?lang=en")
		if got := o.Get("/payrolls/new?from=prl_00000000000000000000000000"); got.Status != http.StatusNotFound {
			t.Errorf("the amounts of a payroll that does not exist: status %d", got.Status)
		}

		o.d.deposit(made.PayrollID, "exact", "")
		paid := o.d.fulfilled(made.PayrollID)
		txid := paid.Payments[0].Outputs[0].TxHash
		at := "/payrolls/" + made.PayrollID
		for query, want := range map[string][2]string{
			"search=grace":                {"Grace Hopper", "Ada Lovelace"},
			"search=1,600.25":             {"Ada Lovelace", "Grace Hopper"},
			"search=wages":                {"Ada Lovelace", "Grace Hopper"},
			"state=returned":              {"No payments match these filters.", "Grace Hopper"},
			"state=fulfilled&search=hopp": {"Grace Hopper", "Ada Lovelace"},
		} {
			o.silent(o.says(o.Get(at+"/live?"+query), want[0]), want[1])
		}
		o.says(o.Get(at+"?search="+txid), "Ada Lovelace")
		o.silent(o.Get(at), "data-live") // nothing changes any more

		_, values := webtest.Form(t, o.Get("/payrolls").Text, "/payrolls/month.csv")
		month := values.Get("month")
		file := o.says(o.Get("/payrolls/payments.csv?month="+month), "date,payroll_id,payroll,payment_id", txid,
			"Ada Lovelace", "1600.25,USD", ",BTC,")
		if lines := strings.Count(file.Text, made.PayrollID); lines < 3 {
			t.Errorf("%d lines for three payments:\n%s", lines, file.Text)
		}
		if got := o.Get("/payrolls/payments.csv?month=x"); !got.Contains("Enter a month such as 2026-01.") {
			t.Errorf("the payments of no month: status %d\n%s", got.Status, got.Text)
		}
	})
}

// Lists are sorted by their columns, and a member pays or deactivates the people that are ticked.
func TestListsAreSortedAndActedOn(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		ada, grace := o.d.seed.Workers[0].UserID, o.d.seed.Workers[1].UserID
		for name, amount := range map[string]string{"april": "20", "march": "300", "zulu": "10"} {
			o.d.create(`{"external_id":"` + name + `","to_pay":[{"user_id":"` + ada + `","amount_fiat":` + amount + `}]}`)
		}
		for query, order := range map[string][]string{
			"sort=name": {"april", "march", "zulu"}, "sort=-name": {"zulu", "march", "april"},
			"sort=total": {"zulu", "april", "march"}, "sort=-total": {"march", "april", "zulu"},
		} {
			page := o.says(o.Get("/payrolls?"+query), "aria-sort=")
			last := -1
			for _, name := range order {
				at := strings.Index(page.Text, ">"+name+"</a>")
				if at < last {
					t.Errorf("%s: %s is not where it belongs", query, name)
				}
				last = at
			}
		}
		o.silent(o.Get("/payrolls?sort=secret"), "aria-sort=")
		o.says(o.Get("/payrolls?sort=name"), `href="?sort=-name"`)

		people := o.says(o.Get("/recipients?sort=-name"), `aria-sort="descending"`,
			`value="`+ada+`" aria-label="Select Ada Lovelace"`)
		if got := o.Submit(people, "/recipients", "do", "pay"); !got.Contains("Select at least one person first.") {
			t.Errorf("nobody is ticked: status %d\n%s", got.Status, got.Text)
		}
		paid := o.Submit(people, "/recipients", "do", "pay", "to", grace)
		if paid.Status != http.StatusSeeOther || !strings.HasPrefix(paid.Location(), "/payrolls/new?to="+grace) {
			t.Fatalf("pay the ticked people: status %d to %q", paid.Status, paid.Location())
		}
		o.silent(o.says(o.Get(paid.Location()), "Grace Hopper"), `name="amount.`+ada)
		if got := o.Submit(people, "/recipients", "do", "deactivate", "to", grace); got.Location() != "/recipients" {
			t.Errorf("deactivate the ticked people: status %d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		o.says(o.Get("/recipients?status=inactive"), "Grace Hopper")
	})
}

// A member saves the entered amounts as a draft, continues it later, and creates the payroll, which removes the draft.
func TestDraftOfAPayroll(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		ada := o.d.seed.Workers[0].UserID
		save := func(page webtest.Visit, pairs ...string) {
			_, values := webtest.Form(t, page.Text, "/payrolls/new")
			for i := 0; i < len(pairs); i += 2 {
				values.Set(pairs[i], pairs[i+1])
			}
			if got := o.Post("/payrolls/drafts", values); got.Location() != "/payrolls" {
				t.Fatalf("save a draft: status %d\n%s", got.Status, got.Text)
			}
		}
		save(o.Get("/payrolls/new"), "external_id", "June", "amount."+ada, "12.x")
		o.says(o.Get("/payrolls"), "Drafts", ">June</a>", "Saved.")
		again := o.says(o.Get("/payrolls/new?draft=June"), `value="12.x"`, `name="saved" value="June"`)
		save(again, "amount."+ada, "600")
		made := o.Submit(o.Submit(o.Get("/payrolls/new?draft=June"), "/payrolls/new"), "/payrolls")
		if made.Status != http.StatusSeeOther || !strings.HasSuffix(made.Location(), "/fund") {
			t.Fatalf("create the payroll: status %d to %q\n%s", made.Status, made.Location(), made.Text)
		}
		o.silent(o.Get("/payrolls"), "Drafts")
		if got := o.Get("/payrolls/new?draft=June"); got.Status != http.StatusNotFound {
			t.Errorf("the draft is still there: status %d", got.Status)
		}

		save(o.Get("/payrolls/new"), "amount."+ada, "5")
		page := o.says(o.Get("/payrolls"), "Draft of ")
		o.Submit(page, "/payrolls/drafts/delete")
		o.silent(o.Get("/payrolls"), "Draft of ")
	})
}
