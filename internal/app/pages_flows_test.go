package app_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/web/webtest"
)

// A member fixes what a payee receives, changes the amount before the payroll is funded, repeats a payroll, and reminds
// those who cannot be paid; a payee signs a tax form. A mistake is shown where it was made, and the form keeps what was
// entered. On a phone all of this works without JavaScript.
func TestFlowsOfPayrollsInABrowser(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]webtest.Look{
		"phone without scripts": {Width: 390, NoScript: true}, "desktop": {Width: 1440},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := openCompanyBrowser(t, dbtest.SQLite(t))
			base, admin, ada := o.s.Ready().BaseURL, o.s.Ready().Seed.Admin, o.s.Ready().Seed.Workers[0].UserID
			b := webtest.Start(t)
			p := b.Open(base+"/sign-in", look)
			p.Fill("#email", admin.Email)
			p.Fill("#password", admin.Password)
			p.Send("main form button")
			shows := func(wants ...string) {
				t.Helper()
				text := p.Text()
				for _, want := range wants {
					if !strings.Contains(text, want) {
						t.Fatalf("at %s, no %q in\n%s", p.Path(), want, text)
					}
				}
				if !look.NoScript { // axe is a script
					p.Audit()
				}
			}
			set := func(field, value string) {
				t.Helper()
				webtest.Evaluate[string](p, "document.querySelector(`[id='"+field+"']`).value = '"+value+"'")
			}

			p.Do(chromedp.Navigate(base + "/payrolls/new"))
			set("in."+ada, "BTC")
			p.Fill("[id='amount."+ada+"']", "0.0123456789")
			p.Send("main form[method=post] button")
			shows("Ada Lovelace")
			if got := webtest.Evaluate[string](p, "document.querySelector(`[id='amount."+ada+"']`).value + ' ' + "+
				"document.querySelector(`[id='in."+ada+"']`).value"); got != "0.0123456789 BTC" {
				t.Errorf("the form kept %q", got)
			}
			set("amount."+ada, "0.02")
			set("pay_date", "2001-01-01")
			p.Send("main form[method=post] button")
			if !webtest.Evaluate[bool](p, "!!document.getElementById('pay_date-problem') && "+
				"document.getElementById('pay_date').value === '2001-01-01'") {
				t.Errorf("no problem at the past pay date:\n%s", p.Text())
			}
			set("pay_date", "")
			p.Send("main form[method=post] button")
			shows("0.02000000\u00a0BTC", "1,010.00\u00a0USD") // 1,000 USD, and the fee
			p.Send("form[action$='/payrolls'] button")
			fund := p.Path()
			if !strings.HasSuffix(fund, "/fund") {
				t.Fatalf("at %s\n%s", fund, p.Text())
			}
			id := strings.Split(fund, "/")[2]
			p.Do(chromedp.Navigate(base + "/payrolls/" + id + "/edit"))
			field := webtest.Evaluate[string](p, "document.querySelector('[id^=\"amount.\"]').id")
			set(field, "-1")
			p.Send("main form[method=post] button")
			shows("Ada Lovelace")
			set(field, "0.03")
			p.Send("main form[method=post] button")
			shows("1,515.00\u00a0USD")
			o.d.deposit(id, "exact", "")
			o.d.fulfilled(id)
			p.Do(chromedp.Navigate(base + "/payrolls/" + id))
			shows("Paid", "0.03000000\u00a0BTC")

			p.Do(chromedp.Navigate(base + "/payrolls/new"))
			p.Fill("[id='amount."+ada+"']", "600")
			p.Send("main form[method=post] button")
			p.Send("form[action$='/schedules/new'] button")
			shows("Twice a month")
			p.Send("main form[action$='/schedules'] button")
			if got := webtest.Evaluate[int](p, "document.querySelectorAll('[id$=\"-problem\"]').length"); got == 0 {
				t.Errorf("no problem at a field:\n%s", p.Text())
			}
			p.Fill("#schedule_name", "Wages")
			set("frequency", "weekly")
			set("start_date", time.Now().UTC().AddDate(0, 0, 10).Format(time.DateOnly))
			set("days", "")
			p.Send("main form[action$='/schedules'] button")
			shows("Wages", "Active")

			p.Do(chromedp.Navigate(base + "/invitations"))
			p.Fill("#email", "joan@payee.example")
			p.Send("main form[method=post] button")
			p.Do(chromedp.Navigate(base + "/recipients/unpayable"))
			shows("joan@payee.example")
			p.Send("form[action$='/recipients/unpayable'] button")
			shows("joan@payee.example")

			p, _ = o.payee(b, "grace@payee.example", look)
			p.Do(chromedp.Navigate(base + "/account/tax?form=w9"))
			p.Fill("#tax_id", "000-12-3456")
			p.Fill("#business_name", "Byron Software")
			p.Send("form[action$='/account/tax'] button")
			if got := webtest.Evaluate[string](p, "document.querySelector('#business_name').value"); got != "Byron Software" {
				t.Errorf("the form kept %q", got)
			}
			set("tax_id", "536-90-4399")
			set("tax_id_type", "ssn")
			set("certified", "yes")
			p.Send("form[action$='/account/tax'] button")
			shows("4399", "Valid")
		})
	}
}
