package app_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/pquerna/otp/totp"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// mostClicks is the number of clicks in which somebody who knows only the address of the sandbox pays three people.
const mostClicks = 15

// Somebody signs up at the home page, adds two people who are paid in bitcoin and one with a bank account in the United
// States, and pays them, with few clicks.
func TestAFirstPayrollFromTheHomePageInABrowser(t *testing.T) {
	t.Parallel()
	for name, look := range looks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := openCompanyBrowser(t, dbtest.SQLite(t))
			base := o.s.Ready().BaseURL
			f := &flow{T: t, Page: webtest.Start(t).Open(base+"/", look), base: base, look: look}
			clicks := 0
			click := func(selector string) {
				t.Helper()
				clicks++
				f.Send(selector)
			}
			const who = "owner@studio.example"
			f.set("email", who)
			click(".hero form button")
			f.Do(chromedp.Navigate(base + o.mailed(who, "/sign-up/")))
			for _, v := range [][2]string{{"first_name", "Ada"}, {"last_name", "Byron"}, {"company_name", "Studio North Ltd"},
				{"country", "US"}, {"new_password", "seven tiny purple boats"}} {
				f.set(v[0], v[1])
			}
			click("main button")
			f.shows("Set up your company")
			click("main a[href='/recipients/new']")

			person := func(first, last, symbol string) {
				t.Helper()
				f.set("first_name", first)
				f.set("last_name", last)
				f.set("country", "US")
				f.set("symbol", symbol)
				click("main form .btn.primary")
			}
			click("form[action='/account/factor/begin'] button")
			code, err := totp.GenerateCode(regexp.MustCompile(`[A-Z2-7]{32}`).FindString(f.Text()), time.Now())
			testkit.Check(t, err)
			f.set("code", code)
			click("form[action='/account/factor/confirm'] button")
			click("main a[href*='/recipients/new']")
			person("Grace", "Hopper", "BTC")
			f.set("d.address", o.address())
			click("button[value='person']")
			f.holds("symbol", "BTC", "")
			person("Annie", "Easley", "BTC")
			f.set("d.address", o.address())
			click("button[value='person']")
			person("Mary", "Jackson", "USD")
			for _, v := range [][2]string{{"account_number", "12345991001"}, {"routing_number", "091000019"},
				{"address.address_line1", "1 Main Street"}, {"address.city", "Springfield"}, {"address.state", "IL"},
				{"address.postal_code", "62701"}} {
				f.set("d."+v[0], v[1])
			}
			click("button[value='payroll']")

			const amount = `[...document.querySelectorAll('input[name^="amount."]')][%d].id`
			for i, typed := range []string{"1,250.50", "$300", "800"} {
				f.set(webtest.Evaluate[string](f.Page, fmt.Sprintf(amount, i)), typed)
			}
			f.set("period_start", "2026-09-01")
			f.set("period_end", "2026-09-30")
			click("main form .btn.primary")
			f.shows("Grace Hopper", "Annie Easley", "Mary Jackson", "Sep 1, 2026 – Sep 30, 2026")
			click("main form .btn.primary")
			click("form[action$='/sandbox/deposit'] button")
			if !look.NoScript {
				eventually(t, 60*time.Second, "the badge beside the title changes without a reload", func() bool {
					return webtest.Evaluate[string](f.Page, "document.querySelector('.pagehead .badge').innerText") == "Paid"
				})
			}
			path, _, _ := strings.Cut(f.Path(), "/fund")
			f.waits(path, "Paid")
			t.Logf("%d clicks", clicks)
			if clicks > mostClicks {
				t.Errorf("%d clicks, want at most %d", clicks, mostClicks)
			}
			f.at("/payrolls/new?from=" + strings.TrimPrefix(path, "/payrolls/"))
			f.holds("period_start", "2026-10-01", "")
			f.holds("period_end", "2026-10-31", "")
			o.d.checkLedgerBalances()
		})
	}
}
