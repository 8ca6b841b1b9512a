package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// A company enters two bills of a vendor, ticks them, reviews and confirms one payroll, and finds them in it. On a
// phone it does so without JavaScript.
func TestOpenBillsArePaidInABrowser(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]webtest.Look{
		"phone without scripts": {Width: 390, NoScript: true}, "desktop": {Width: 1440},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := openCompanyBrowser(t, dbtest.SQLite(t))
			base := o.s.Ready().BaseURL
			made := o.d.ok("POST", "/api/company/"+o.d.seed.CompanyID+"/recipients/create",
				`{"country":"GB","recipient_type":"company","role":"vendor","name":"Supplies Ltd"}`)
			firm, _ := made.read(t)["recipient_id"].(string)
			o.d.ok("POST", "/api/company/"+o.d.seed.CompanyID+"/recipients/"+firm+"/distribution",
				`{"symbol":"EUR","distribution_data":{"account_holder_name":"Ada Lovelace","account_holder_type":"individual",`+
					`"iban":"DE89370400440532013000"}}`)
			paper := filepath.Join(t.TempDir(), "bill.pdf")
			testkit.Check(t, os.WriteFile(paper, []byte("%PDF-1.7\n1 0 obj\n%%EOF\n"), 0o600))

			p := webtest.Start(t).Open(base+"/sign-in", look)
			p.Fill("#email", o.s.Ready().Seed.Admin.Email)
			p.Fill("#password", o.s.Ready().Seed.Admin.Password)
			p.Send("main form button")
			shows := func(wants ...string) {
				t.Helper()
				text := p.Text()
				for _, want := range wants {
					if !strings.Contains(text, want) {
						t.Fatalf("at %s, no %q in\n%s", p.Path(), want, text)
					}
				}
			}
			audit := func() {
				if !look.NoScript { // axe is a script
					p.Audit()
				}
			}
			for _, bill := range [][2]string{{"R-17", "120.50"}, {"R-18", "30"}} {
				p.Do(chromedp.Navigate(base + "/invoices/new"))
				webtest.Evaluate[string](p, "document.querySelector('#vendor_id').value = '"+firm+"'")
				p.Fill("#bill_number", bill[0])
				p.Fill("#description", "Paper")
				p.Do(chromedp.SetUploadFiles("#document", []string{paper}))
				p.Send("main form button") // without the amount: what was entered stays
				shows("Enter a number like 1250.50.")
				p.Fill("#amount", bill[1])
				p.Send("main form button")
				shows("Invoice "+bill[0], "Supplies Ltd", "Paper")
			}
			p.Do(chromedp.Navigate(base + "/payrolls/open"))
			shows("Supplies Ltd", "R-17", "R-18", "150.50")
			audit()
			p.Send(".sumbar button")
			shows("Tick at least one invoice or bill.")
			webtest.Evaluate[int](p, "document.querySelectorAll('input[name=invoice]').forEach(i => { i.checked = true }); 1")
			webtest.Evaluate[string](p, "document.querySelector('#funding_method').value = 'bank'")
			p.Send(".sumbar button")
			shows("120.50", "30.00", "150.50")
			audit()
			p.Send("form[action$='/payrolls'] button")
			if !strings.HasPrefix(p.Path(), "/payrolls/prl_") {
				t.Fatalf("at %s\n%s", p.Path(), p.Text())
			}
			p.Do(chromedp.Navigate(base + "/payrolls/open"))
			shows("Nothing to pay")
			p.Do(chromedp.Navigate(base + "/invoices"))
			shows("In a payroll")
		})
	}
}
