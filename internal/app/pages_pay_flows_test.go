package app_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/web/webtest"
)

// flow is a page on which a person follows links and sends forms.
type flow struct {
	*testing.T
	*webtest.Page
	base string
	look webtest.Look
}

// looks are the widths at which flows are tested, one of them without JavaScript.
var looks = map[string]webtest.Look{"phone without scripts": {Width: 390, NoScript: true}, "desktop": {Width: 1440}}

// at opens a path.
func (f *flow) at(path string) {
	f.Helper()
	f.Do(chromedp.Navigate(f.base + path))
}

// shows fails the test unless the page contains all of these texts and is accessible.
func (f *flow) shows(wants ...string) {
	f.Helper()
	text := f.Text()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			f.Fatalf("at %s, no %q in\n%s", f.Path(), want, text)
		}
	}
	if !f.look.NoScript { // axe is a script
		f.Audit()
	}
}

// waits opens a path again until the page contains a text.
func (f *flow) waits(path, want string) {
	f.Helper()
	eventually(f.T, 60*time.Second, path+" shows "+want, func() bool {
		f.at(path)
		return strings.Contains(f.Text(), want)
	})
}

// set replaces the value of a field.
func (f *flow) set(id, value string) {
	f.Helper()
	webtest.Evaluate[string](f.Page, fmt.Sprintf("document.getElementById(%q).value = %q", id, value))
}

// holds fails the test unless a field has a value and, if the form was rejected, another one states a problem.
func (f *flow) holds(id, value, problem string) {
	f.Helper()
	if got := webtest.Evaluate[string](f.Page, fmt.Sprintf("document.getElementById(%q).value", id)); got != value {
		f.Fatalf("at %s, %s holds %q, want %q\n%s", f.Path(), id, got, value, f.Text())
	}
	if problem != "" && !webtest.Evaluate[bool](f.Page, fmt.Sprintf("!!document.getElementById(%q)", problem+"-problem")) {
		f.Fatalf("at %s, no problem at %s\n%s", f.Path(), problem, f.Text())
	}
}

// fillProfile enters a person in the form of an invitation.
func (f *flow) fillProfile() {
	f.Helper()
	for _, v := range [][2]string{{"first_name", "Ada"}, {"last_name", "Byron"}, {"date_of_birth", "1990-12-10"},
		{"country", "US"}, {"street_address", "1 Hidden Street"}, {"city", "New York"}, {"state", "NY"}, {"zip", "10001"}} {
		f.set(v[0], v[1])
	}
}

// downloads fails the test unless a link downloads a file that contains a text.
func (f *flow) downloads(link, want string) {
	f.Helper()
	if data := f.Download(link); !bytes.Contains(data, []byte(want)) {
		f.Errorf("at %s, %s downloads no %q: %.300q", f.Path(), link, want, data)
	}
}

// flow signs in as the administrator of the sandbox's company in a new browser.
func (o *companyBrowser) flow(look webtest.Look) *flow {
	o.Helper()
	base := o.s.Ready().BaseURL
	f := &flow{T: o.T, Page: webtest.Start(o.T).Open(base+"/sign-in", look), base: base, look: look}
	f.Fill("#email", o.d.seed.Admin.Email)
	f.Fill("#password", o.d.seed.Admin.Password)
	f.Send("main form button")
	return f
}

// A payee confirms the first address of a wallet, adds a Lightning address and a bank account, and divides the pay by
// percentage, fixed amount and remainder. After a payment they accept the bank's correction. They send an invoice,
// replace a destination after a review, download their data, and change their email address at both addresses.
func TestFlowsOfAPayeeInABrowser(t *testing.T) {
	t.Parallel()
	for name, look := range looks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := openCompanyBrowser(t, dbtest.SQLite(t), func(c *app.Config) {
				c.LndURL, c.AccountChecks = app.SimulatedLnd, "block"
			})
			page, user := o.payee(webtest.Start(t), "ada@payee.example", look)
			p := &flow{T: t, Page: page, base: o.s.Ready().BaseURL, look: look}

			const wallet = "tpubDD7tXK8KeQ3YY83yWq755fHY2JW8Ha8Q765tknUM5rSvjPcGWfUppDFMpQ1ScziKfW3ZNtZvAD7M3u7bSs7Hof" +
				"jTD3KP3YxPK7X6hwV8Rk2"
			add := "main form[action$='/destinations/new'] button"
			p.at("/account/destinations/new?symbol=BTC")
			p.set("d.descriptor", wallet)
			p.Send(add)
			p.shows("the first address of your wallet", "Compare the first address")
			p.holds("d.descriptor", wallet, "first")
			first := webtest.Evaluate[string](p.Page, "document.getElementById('first').options[1].value")
			p.set("first", first)
			p.Send(add)
			p.shows(" added.", first, "100%")

			p.at("/account/destinations/new?symbol=BTC")
			p.set("d.lightning_address", "nowhere")
			p.Send(add)
			p.holds("d.lightning_address", "nowhere", "d.lightning_address")
			p.set("d.lightning_address", "ada@wallet.example")
			p.Send(add)
			p.shows(" added.", "ada@wallet.example")

			p.at("/account/destinations/new?symbol=USD&d.rail=ach")
			if !look.NoScript { // the field is checked when it is left, before the form is sent
				p.Fill(`[id="d.routing_number"]`, "091000018\t")
				p.Do(chromedp.WaitVisible(`[id="d.routing_number-problem"]`))
				p.set("d.routing_number", "")
				p.Fill(`[id="d.routing_number"]`, "091000019\t")
				p.Do(chromedp.WaitNotPresent(`[id="d.routing_number-problem"]`))
			}
			for _, v := range [][2]string{{"routing_number", "091000018"}, {"account_number", "12345991001"},
				{"address.address_line1", "1 Main Street"}, {"address.city", "Springfield"}, {"address.state", "IL"},
				{"address.postal_code", "62701"}} {
				p.set("d."+v[0], v[1])
			}
			p.Send(add)
			p.holds("d.account_number", "12345991001", "d.routing_number")
			p.set("d.routing_number", "091000019")
			p.Send(add)
			p.shows(" added.", "USD ••••1001")

			const parts = `[...document.querySelectorAll('input[name^="%s."]')][%d].id`
			share := func(kind string, n int) string { return webtest.Evaluate[string](p.Page, fmt.Sprintf(parts, kind, n)) }
			p.set(share("a", 0), "70")
			p.set(share("a", 1), "20")
			p.set(share("f", 2), "1x")
			preview := "button[formaction$='/allocations/preview']"
			p.Send(preview)
			p.holds(share("f", 2), "1x", share("f", 2))
			p.set(share("f", 2), "100")
			p.set("rest", strings.TrimPrefix(share("a", 1), "a."))
			p.set("preview_amount", "200")
			p.Send(preview)
			p.shows("100.00", "70.00", "30.00")
			p.Send("form[action$='/allocations'] .btn.primary")
			p.shows("Saved.", "70%", "30%", "100.00")
			if n := webtest.Evaluate[int](p.Page, `[...document.querySelectorAll("#split-bar .progress rect")].filter(r =>
				r.getBoundingClientRect().width > 10).length`); n != 2 {
				t.Errorf("the bar shows %d shares", n)
			}

			made := o.d.create(pays("", "200", user))
			o.d.deposit(made.PayrollID, "exact", "")
			o.d.fulfilled(made.PayrollID)
			p.at("/account/payments")
			p.Send("main table a")
			p.shows("Your money has arrived.", "70.00", "ada@wallet.example", "Transaction", "1 BTC =")
			p.downloads("a[href$='/receipt.pdf']", "%PDF-")
			p.at("/account/payments")
			p.downloads("main a[href*='/year.pdf']", "%PDF-")
			p.downloads("main a[href*='/year.csv']", "200.00")
			p.waits("/account/destinations", "The bank reported a correction for USD ••••1001")
			p.Send("form[action$='/dispute'] button")
			p.shows("It was reported as wrong.", "USD ••••1001")
			p.Send("form[action$='/correct'] button")
			p.shows("Saved.", "USD ••••1614")
			if text := p.Text(); strings.Contains(text, "reported a correction") {
				t.Errorf("the correction is still shown:\n%s", text)
			}

			// Another payee confirms an account whose holder's name the bank did not confirm.
			page, _ = o.payee(webtest.Start(t), "bea@payee.example", look, [2]string{"country", "DE"})
			q := &flow{T: t, Page: page, base: p.base, look: look}
			q.at("/account/destinations/new?symbol=EUR")
			q.set("d.iban", "DE08370400440000993002")
			q.Send(add)
			q.waits("/account/destinations", "The bank didn’t confirm EUR ••••3002")
			q.shows("Payments to this account are on hold.")
			q.Send("form[action$='/confirm'] button")
			if text := q.Text(); strings.Contains(text, "didn’t confirm") || !strings.Contains(text, "EUR ••••3002") {
				t.Errorf("after the account was confirmed:\n%s", text)
			}

			send := "main form[action$='/invoices/new'] button"
			p.at("/account/invoices/new")
			p.set("bill_to", "")
			p.Fill("#description_0", "Design")
			p.Fill("#unit_price_0", "1.005")
			p.Send(send)
			p.holds("description_0", "Design", "bill_to")
			p.set("bill_to", o.d.seed.CompanyID)
			p.Send(send)
			p.holds("description_0", "Design", "unit_price_0")
			p.set("unit_price_0", "1250.5")
			p.Send(send)
			p.shows("Design", "1,250.50")
			p.downloads("main a[href$='/invoice.pdf']", "%PDF-")

			p.at("/account/destinations")
			const replaces = `[...document.querySelectorAll("main a[href$='/replace']")].map(a => a.textContent + " " +
				a.getAttribute("href")).find(s => s.includes(%q)) || ""`
			replace := func(name string) string { return webtest.Evaluate[string](p.Page, fmt.Sprintf(replaces, name)) }
			link := replace("ada@wallet.example")
			p.at(link[strings.LastIndex(link, " ")+1:])
			check := "main form[action$='/replace/check'] button"
			p.set("d.lightning_address", "nowhere")
			p.Send(check)
			p.holds("d.lightning_address", "nowhere", "d.lightning_address")
			p.set("d.lightning_address", "ada@other.example")
			p.Send(check)
			p.shows("Nothing has changed yet.", "ada@wallet.example", "ada@other.example")
			p.at("/account/destinations")
			if replace("ada@wallet.example") == "" || replace("ada@other.example") != "" {
				t.Error("the destination is replaced before the review is confirmed")
			}
			p.at(link[strings.LastIndex(link, " ")+1:])
			p.set("d.lightning_address", "ada@other.example")
			p.Send(check)
			p.Send("main form[action$='/replace'] button")
			p.shows("ada@other.example", "30%")
			if replace("ada@wallet.example") != "" || replace("ada@other.example") == "" {
				t.Errorf("the destination is not replaced:\n%s", p.Text())
			}

			p.at("/account")
			data := string(p.Download("main a[href$='/account/export.json']"))
			for _, want := range []string{user, `"last_name": "Byron"`, `"email": "ada@payee.example"`, "1 Hidden Street", first,
				"ada@other.example", "ada@wallet.example", "Design", `"200.00"`} {
				if !strings.Contains(data, want) {
					t.Errorf("no %q in the export\n%s", want, data)
				}
			}

			p.at("/account/email")
			p.shows("You sign in with ada@payee.example")
			change := "form[action$='/account/email'] button"
			p.set("new_email", "ada@payee.example")
			p.Send(change)
			p.holds("new_email", "ada@payee.example", "new_email")
			p.set("new_email", "ada@new.example")
			p.Send(change)
			p.shows("We sent a link to both addresses.")
			at := o.mailed("ada@payee.example", "/email/")
			p.at(at)
			p.shows("Use ada@new.example to sign in from now on?")
			p.Send("form[action$='" + at + "'] button")
			p.shows("Now open the link that we sent to the other address.")
			p.at("/account/email")
			p.shows("You sign in with ada@payee.example")
			at = o.mailed("ada@new.example", "/email/")
			p.at(at)
			p.Send("form[action$='" + at + "'] button")
			p.shows("Sign in with your new address from now on.")
			p.at("/account/email")
			p.shows("You sign in with ada@new.example")
		})
	}
}

// newCode returns the code of the newest mail to a payee without an account, as soon as it is another one than before.
func (o *companyBrowser) newCode(before string) (code string) {
	o.Helper()
	eventually(o.T, 60*time.Second, "the code is mailed", func() bool {
		m := regexp.MustCompile(`Ihr Code lautet (\d{6})`).FindStringSubmatch(o.Get("/sandbox/mails").Text)
		if m != nil {
			code = m[1]
		}
		return m != nil && code != before
	})
	return code
}

// paidInEuros creates a recipient without an account who is paid in euros, and returns their ID.
func (d *apiClient) paidInEuros(body string) string {
	d.Helper()
	company := "/api/company/" + d.seed.CompanyID
	id, _ := d.ok("POST", company+"/recipients/create", body).read(d)["recipient_id"].(string)
	d.ok("POST", company+"/recipients/"+id+"/distribution", `{"symbol":"EUR","distribution_data":{"account_holder_name":`+
		`"Ada Lovelace","account_holder_type":"individual","iban":"DE89370400440532013000"}}`)
	return id
}

// A payee without an account opens the link of the company's reminder, certifies a tax form, enters a bank account, and
// confirms it by a code. The bank says that the account is another person's, which the payee and the company learn.
func TestFlowsOfAPayeeWithoutAnAccountInABrowser(t *testing.T) {
	t.Parallel()
	for name, look := range looks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := openCompanyBrowser(t, dbtest.SQLite(t))
			const who = "joan@payee.example"
			joan, _ := o.d.ok("POST", "/api/company/"+o.d.seed.CompanyID+"/recipients/create",
				`{"first_name":"Joan","last_name":"Clarke","country":"DE","email":"`+who+`"}`).read(t)["recipient_id"].(string)
			p := o.flow(look)
			p.at("/recipients/unpayable")
			p.shows("Joan Clarke", "A reminder sends them a link")
			p.Send("form[action$='/recipients/unpayable'] button")
			link := o.mailed(who, "/payee/")

			p.at(link)
			p.shows("You don’t need an account.", "Missing")
			p.Send("main a[href$='/tax']")
			p.Send("main a[href$='form=w8ben']")
			for _, v := range [][2]string{{"date_of_birth", "1800-01-01"}, {"street_address", "1 Hidden Street"},
				{"city", "Berlin"}, {"certified", "yes"}} {
				p.set(v[0], v[1])
			}
			p.Send("form[action$='/tax'] button")
			p.holds("city", "Berlin", "date_of_birth")
			p.set("date_of_birth", "1990-12-10")
			p.set("certified", "yes")
			p.Send("form[action$='/tax'] button")
			p.shows("W-8BEN", "Valid")
			p.at(link + "/tax?form=w9")
			p.Fill("#tax_id", "000-12-3456")
			p.Fill("#street_address", "1 Main Street")
			p.Send("form[action$='/tax'] button")
			p.holds("street_address", "1 Main Street", "tax_id")
			p.set("tax_id", "536-90-4399")
			p.set("city", "Springfield")
			p.set("certified", "yes")
			p.Send("form[action$='/tax'] button")
			p.shows("Valid")
			p.Send("main a.btn")
			p.Send("main a[href$='symbol=EUR']")
			save := "form[action$='/destinations/new'] button"
			p.set("d.iban", "DE00370400440000993002")
			p.Send(save)
			p.holds("d.iban", "DE00370400440000993002", "d.iban")
			p.set("d.iban", "DE08370400440000993002")
			p.Send(save)
			p.shows("We sent a code")
			code := o.newCode("")
			p.Fill("#code", "nothing")
			p.Send("form[action$='/code'] button")
			p.holds("code", "nothing", "code")
			p.set("code", code)
			p.Send("form[action$='/code'] button")
			p.shows("Your payment details are saved.")
			p.waits("/recipients/"+joan, "the name does not match the account")
			p.shows("Link in an email", "No payments yet")
			eventually(t, 60*time.Second, "the payee is mailed", func() bool {
				text := o.Get("/sandbox/mails").Text
				return strings.Contains(text, "Eine Bank hat Ihr Konto nicht bestätigt") && strings.Contains(text, who)
			})

			// The company asks another payee, who has a bank account, to renew it.
			mary := o.d.paidInEuros(`{"first_name":"Mary","last_name":"Jackson","country":"DE","email":"mary@payee.example"}`)
			p.at("/recipients/" + mary)
			p.shows("EUR ••••3000")
			p.Send("form[action$='/ask'] button")
			p.Send("form[action$='/ask'] button")
			p.shows("They were asked within the last 24 hours.")
			p.at(o.mailed("mary@payee.example", "/payee/"))
			p.shows("EUR ••••3000")
			p.Send("main a.btn")
			p.Send("main a[href$='symbol=EUR']")
			p.set("d.iban", "DE08370400440000993002")
			p.Send(save)
			p.set("code", o.newCode(code))
			p.Send("form[action$='/code'] button")
			p.shows("Your payment details are saved.")
			p.at("/recipients/" + mary)
			p.shows("EUR ••••3002", "Replaced")

			made := o.d.create(pays("", "30", joan))
			o.d.deposit(made.PayrollID, "exact", "")
			o.d.fulfilled(made.PayrollID)
			p.at("/recipients/" + joan)
			p.shows("30.00", "Paid")
			p.at("/payrolls")
			webtest.Evaluate[int](p.Page, "document.querySelectorAll('main details').forEach(d => { d.open = true }); 1")
			p.Fill("#payee", "clarke")
			p.Send("form.filterbar[method=get] button")
			p.shows("30.30")
			for text, found := range map[string]bool{"30": true, "31": false} {
				p.at("/payrolls?amount=" + text)
				p.shows("Payrolls")
				if strings.Contains(p.Text(), "30.30") != found {
					t.Errorf("payrolls with a payment of %s:\n%s", text, p.Text())
				}
			}
			p.at("/search")
			p.Fill("#query", "clarke")
			p.Send("main form[action='/search'] button")
			p.shows("Joan Clarke")
			p.at("/reports")
			p.shows("Joan Clarke", "Tax ID on file")
		})
	}
}

// A company skips a run of a schedule, changes another one, pauses and ends the schedule, and assigns account codes.
func TestFlowsOfSchedulesAndReportsInABrowser(t *testing.T) {
	t.Parallel()
	for name, look := range looks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := openCompanyBrowser(t, dbtest.SQLite(t))
			p := o.flow(look)
			day := func(n int) string { return time.Now().UTC().AddDate(0, 0, n).Format(time.DateOnly) }
			ada := o.d.seed.Workers[0].UserID
			id, _ := o.d.ok("POST", "/api/company/payroll/schedule/create", `{"name":"Wages","frequency":"weekly",`+
				`"start_date":"`+day(10)+`","calendar":"weekdays","working_day":"none","to_pay":[{"user_id":"`+ada+
				`","amount_fiat":600}]}`).read(t)["schedule_id"].(string)
			at := "/schedules/" + id
			run := func(n int) string { return "form[action$='/runs/" + day(n) + "'] " }
			p.at("/schedules")
			p.shows("Wages", "Weekly", "Active")
			p.at(at)
			p.Send(run(10) + "button")
			p.shows("Skipped", "Undo skip")
			p.Send(run(10) + "button")
			p.shows("Planned")
			p.Send(run(17) + "a")
			amount := "amount.0"
			p.set(amount, "12.345")
			p.Send("button[value=this]")
			p.holds(amount, "12.345", amount)
			p.set(amount, "700")
			p.Send("button[value=this]")
			p.shows("changed", "600.00")
			p.Send("main a[href$='/edit']")
			p.set("days_ahead", "29")
			p.Send("form[action$='/edit'] button")
			p.holds("days_ahead", "29", "days_ahead")
			p.set("days_ahead", "2")
			p.set("end_date", day(100))
			p.set("calendar", "FR")
			p.set("time_zone", "Europe/Paris")
			p.set("schedule_payee", "Ada Lovelace")
			p.set("schedule_amount", "12.50")
			p.Send("form[action$='/edit'] button")
			p.holds("schedule_payee", "Ada Lovelace", "schedule_payee")
			p.holds("calendar", "FR", "")
			p.shows("already in the schedule")
			p.set("schedule_payee", "Grace Hopper")
			p.Send("form[action$='/edit'] button")
			p.shows(day(100), "(FR)", "Europe/Paris", "Grace Hopper", "12.50")
			p.Send("button[value=paused]")
			p.shows("Paused")
			p.Send("button[value=active]")
			p.Send("button[value=ended]")
			p.shows("Ended")

			made := o.d.create(pays("", "30", ada))
			o.d.deposit(made.PayrollID, "exact", "")
			o.d.fulfilled(made.PayrollID)
			p.at("/reports")
			p.shows("1099-NEC", "Ada Lovelace", "30.00", "Missing")
			p.downloads("main a[href*='/year.csv']", "Ada Lovelace")
			p.downloads("main a[href*='/year.json']", `"name": "Ada Lovelace"`)
			p.downloads("main a[href*='/1099-nec.csv']", "Box 1 - Nonemployee Compensation")
			p.downloads("main a[href*='format=csv']", ",6000,Payroll and contractors,30.00,")
			p.downloads("main a[href*='format=quickbooks']", ",Payroll and contractors,30.00,")
			p.downloads("main a[href*='format=xero']", ",6000,Tax Exempt (0%),30.00,")
			p.at("/reports/accounts")
			p.set("code_0", strings.Repeat("1", 41))
			p.set("name_0", "Cash")
			p.Send("form[action$='/reports/accounts'] button")
			p.holds("name_0", "Cash", "code_0")
			p.set("code_0", "1010")
			p.Send("form[action$='/reports/accounts'] button")
			p.shows("Saved.")
			p.at("/reports/accounts")
			p.holds("code_0", "1010", "")
		})
	}
}

// A company changes a payroll that pays vendors before its funding. The vendors keep the documents of their payments,
// and the document of a vendor who is left out can be paid by another payroll.
func TestFlowsOfAPayrollOfVendorsInABrowser(t *testing.T) {
	t.Parallel()
	for name, look := range looks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := openCompanyBrowser(t, dbtest.SQLite(t))
			var items, vendors []string
			for _, name := range []string{"Supplies Ltd", "Papers Ltd"} {
				id := o.d.paidInEuros(`{"country":"DE","recipient_type":"company","role":"vendor","name":"` + name + `"}`)
				document, _ := o.d.ok("POST", "/api/vendor/payroll/documents",
					`{"base64_document":"JVBERi0xLjcKQ0FOQVJZLW9mLXRoZS1pbnZvaWNlCiUlRU9GCg=="}`).read(t)["document_id"].(string)
				vendors = append(vendors, id)
				items = append(items, `{"vendor_id":"`+id+`","document_id":"`+document+`","amount_fiat":40}`)
			}
			create := func(items ...string) string {
				id, _ := o.d.ok("POST", "/api/vendor/payroll", `{"to_pay":[`+strings.Join(items, ",")+`]}`, "Idempotency-Key",
					freshKey()).read(t)["payroll_id"].(string)
				return id
			}
			id := create(items...)
			amounts := map[string]string{}
			for _, m := range o.d.payroll(id).Payments {
				amounts[m.UserID] = "amount." + m.ID
			}

			p := o.flow(look)
			p.at("/payrolls/" + id)
			p.Send("main a[href$='/edit']")
			p.shows("Supplies Ltd", "Papers Ltd")
			save := "main form[action$='/edit'] .btn.primary"
			p.set(amounts[vendors[0]], "12.345")
			p.set(amounts[vendors[1]], "")
			p.Send(save)
			p.holds(amounts[vendors[0]], "12.345", amounts[vendors[0]])
			p.holds(amounts[vendors[1]], "", "")
			p.set(amounts[vendors[0]], "70")
			p.Send(save)
			p.shows("Supplies Ltd", "70.00")
			if text := p.Text(); strings.Contains(text, "Papers Ltd") {
				t.Errorf("the other vendor is still paid:\n%s", text)
			}
			o.d.refused(409, "invalid_state", "POST", "/api/vendor/payroll", `{"to_pay":[`+items[0]+`]}`, "Idempotency-Key",
				freshKey())
			create(items[1])
			o.d.deposit(id, "exact", "")
			o.d.fulfilled(id)
			p.at("/payrolls/" + id)
			p.shows("70.00", "Paid")
		})
	}
}
