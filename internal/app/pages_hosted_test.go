package app_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/web/webtest"
)

// A payer without an account gets an invoice by mail, sees where to transfer the money, and later that it is paid. On a
// phone this works without JavaScript. A canceled invoice says not to pay, and an unknown link shows nothing.
func TestAnInvoiceIsPaidFromItsPageInABrowser(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]webtest.Look{
		"phone without scripts": {Width: 390, NoScript: true}, "desktop": {Width: 1440},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := openCompanyBrowser(t, dbtest.SQLite(t))
			base, who := o.s.Ready().BaseURL, o.s.Ready().Seed.Workers[0].UserID
			text := func(path, body, member string) string {
				t.Helper()
				got, _ := o.d.ok("POST", path, body).read(t)[member].(string)
				return got
			}
			o.d.ok("POST", "/api/sandbox/kyc", `{"user_id":"`+who+`","result":"approved"}`)
			o.d.ok("POST", "/api/user/funding/account", `{"user_id":"`+who+`","currency":"EUR","terms_version":"2026-01"}`)
			const to = "books@northwind.example"
			payer := text("/api/user/payer/create", `{"user_id":"`+who+`","name":"Northwind","email":"`+to+
				`","company_type":"client","payroll_invoice_currency":"EUR","is_company":true}`, "external_company_id")
			invoice := func(more string) string {
				return text("/api/user/invoice/create", `{"user_id":"`+who+`","external_company_id":"`+payer+`"`+more+
					`,"items":[{"description":"Design","quantity":2,"unit_price":60,"tax_rate":20}]}`, "invoice_id")
			}
			id := invoice("")
			link := o.mailed(to, "/invoice/")
			p := webtest.Start(t).Open(base+link, look)
			shows := func(wants ...string) {
				t.Helper()
				eventually(t, 60*time.Second, strings.Join(wants, ", "), func() bool {
					p.Do(chromedp.Navigate(base + link))
					text := p.Text()
					for _, want := range wants {
						if !strings.Contains(text, want) {
							return false
						}
					}
					return true
				})
			}
			shows("Northwind", "Invoice INV-0001", "144.00", "Design", "IBAN", id)
			if !look.NoScript { // axe is a script
				p.Audit()
			}
			visitor := webtest.NewVisitor(t, base)
			if pdf := visitor.Get(link + "/invoice.pdf"); pdf.Status != http.StatusOK ||
				!strings.HasPrefix(pdf.Text, "%PDF-") {
				t.Errorf("the PDF: %d %.20q", pdf.Status, pdf.Text)
			}
			page := visitor.Get(link)
			if page.Header.Get("X-Robots-Tag") != "noindex" || page.Header.Get("Set-Cookie") != "" {
				t.Errorf("robots %q, cookie %q", page.Header.Get("X-Robots-Tag"), page.Header.Get("Set-Cookie"))
			}
			last := link[len(link)-1:]
			for _, wrong := range []string{link[:len(link)-1] + map[bool]string{true: "0", false: "1"}[last != "0"],
				"/invoice/" + id, "/invoice/none"} {
				if got := visitor.Get(wrong); got.Status != http.StatusNotFound {
					t.Errorf("%s: %d", wrong, got.Status)
				}
			}

			// A payroll that pays the invoice; the page says so, and asks for the money again if the payroll is canceled.
			pay := func(key string) string {
				t.Helper()
				made := o.d.ok("POST", "/api/company/payroll/create", `{"currency":"EUR","to_pay":[{"user_id":"`+who+
					`","amount_fiat":144,"invoice_id":"`+id+`"}]}`, "Idempotency-Key", key).read(t)
				payroll, _ := made["payroll_id"].(string)
				return payroll
			}
			first := pay("first")
			shows("This invoice is being paid by a payroll.")
			o.d.ok("POST", "/api/company/payroll/cancel", `{"payroll_id":"`+first+`"}`)
			shows("IBAN")
			o.d.ok("POST", "/api/sandbox/deposit", `{"payroll_id":"`+pay("second")+`","kind":"exact"}`)
			shows("This invoice is paid.")

			void := invoice(`,"number":"X-1"`)
			detail := o.d.ok("GET", "/api/user/invoice/detail?user_id="+who+"&invoice_id="+void, "").read(t)
			url, _ := detail["invoice_url"].(string)
			link = strings.TrimPrefix(url, base)
			shows("IBAN")
			o.d.ok("POST", "/api/user/invoice/delete", `{"user_id":"`+who+`","invoice_id":"`+void+`"}`)
			shows("This invoice was canceled.")
		})
	}
}
