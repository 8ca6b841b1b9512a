package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/testkit"
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
			if pdf := p.Download("a[href$='/invoice.pdf']"); !bytes.HasPrefix(pdf, []byte("%PDF-")) {
				t.Errorf("the link downloads %.20q", pdf)
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

// A payer without an account pays an invoice in bitcoin on its page, and the payment becomes an income of the person.
// A late payment waits until the person accepts it on the page of the invoice.
func TestPayersPayInvoicesInCoinsInABrowser(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]webtest.Look{
		"phone without scripts": {Width: 390, NoScript: true}, "desktop": {Width: 1440},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := openCompanyBrowser(t, dbtest.SQLite(t))
			base := o.s.Ready().BaseURL
			p, who := o.payee(webtest.Start(t), "ada@payee.example", look)
			kyc := func(status string) {
				t.Helper()
				testkit.Check(t, o.s.DB().Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					payee.Payable(tx, who, who)
					return identity.SetKYCStatus(ctx, tx, who, status)
				}))
			}
			kyc(identity.KYCApproved)
			shows := func(path string, wants ...string) {
				t.Helper()
				eventually(t, 60*time.Second, strings.Join(wants, ", "), func() bool {
					p.Do(chromedp.Navigate(base + path))
					return !slices.ContainsFunc(wants, func(w string) bool { return !strings.Contains(p.Text(), w) })
				})
				if !look.NoScript { // axe is a script
					p.Audit()
				}
			}
			p.Do(chromedp.Navigate(base + "/account/invoices/new"))
			webtest.Evaluate[int](p, "document.querySelectorAll('details').forEach(d => { d.open = true }); 1")
			p.Fill("#payer_name", "Northwind")
			p.Send("form[action$='/payers'] button")
			create := p.Path() + webtest.Evaluate[string](p, "location.search")
			invoice := func() (id, link string) {
				t.Helper()
				p.Do(chromedp.Navigate(base + create))
				p.Fill("#description_0", "Design")
				p.Fill("#unit_price_0", "100")
				p.Send("form[action$='/invoices/new'] button")
				link = strings.TrimPrefix(webtest.Evaluate[string](p, "document.querySelector('.breaks a').href"), base)
				return strings.TrimPrefix(p.Path(), "/account/invoices/"), link
			}
			open := func(link string) (checkout, address string, sats int64) {
				t.Helper()
				p.Do(chromedp.Navigate(base + link))
				p.Send("form[action$='/pay'] button")
				if checkout = p.Path(); !strings.HasPrefix(checkout, "/pay/clm_") {
					t.Fatalf("at %s\n%s", checkout, p.Text())
				}
				found := regexp.MustCompile(`bitcoin:(bcrt1\w+)\?amount=([0-9.]+)`).FindStringSubmatch(
					webtest.Evaluate[string](p, "document.documentElement.outerHTML"))
				if found == nil {
					t.Fatalf("no address in\n%s", p.Text())
				}
				return checkout, found[1], o.d.sats(json.Number(found[2]))
			}
			id, link := invoice()
			shows(link, "Pay in bitcoin or a stablecoin")
			checkout, address, sats := open(link)
			shows(checkout, "100.00", "INV-0001")
			if again, _, _ := open(link); again != checkout {
				t.Errorf("a second form leads to %s", again)
			}
			kyc(identity.KYCNotStarted)
			testkit.Must(o.s.Bitcoin().Pay(t.Context(), address, sats))
			shows(checkout, "Paid")
			shows(link, "This invoice is paid.")
			eventually(t, 60*time.Second, "one income for the invoice", func() bool {
				return o.d.count("SELECT COUNT(*) FROM incomes WHERE invoice_id = $1 AND user_id = $2", id, who) == 1
			})
			// It waits in the person's balance, says why, and goes on once the person is verified and has a destination.
			shows("/account/payments", "Northwind", "100.00", "Verify your identity first.")
			kyc(identity.KYCApproved)
			shows("/account/payments", "Northwind", "Fix destination", "Add a destination first.")
			shows("/account/payments", "Northwind", "100.00", "Fix destination", "Add a destination first.")
			p.Do(chromedp.Navigate(base + "/account/destinations/new?symbol=BTC"))
			p.Fill("[id='d.address']", o.address())
			p.Send("main form[action$='/destinations/new'] button")
			shows("/account/payments", "Northwind", "Paid")
			p.Send("main table a")
			shows(p.Path(), "Your money has arrived.", "Transaction", "Fee", "1 BTC =")

			id, link = invoice()
			checkout, address, sats = open(link)
			o.d.advance(20 * time.Minute)
			shows(checkout, "This rate has expired")
			testkit.Must(o.s.Bitcoin().Pay(t.Context(), address, sats))
			shows(checkout, "Your payment arrived late")
			shows("/account/invoices/"+id, "Payment in a coin", "Paid late")
			p.Send("form[action$='/accept'] button")
			shows("/account/invoices/"+id, "Paid")
			shows(link, "This invoice is paid.")
		})
	}
}
