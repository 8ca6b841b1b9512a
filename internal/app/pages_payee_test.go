package app_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// payee accepts an invitation of the sandbox's company in a browser, with some fields of the profile changed. It
// returns the page that follows and the user ID.
func (o *companyBrowser) payee(b *webtest.Browser, who string, look webtest.Look, profile ...[2]string) (
	p *webtest.Page, userID string) {
	o.Helper()
	o.Submit(o.Get("/invitations"), "/invitations", "email", who)
	p = b.Open(o.s.Ready().BaseURL+o.mailed(who, "/invitation/"), look)
	f := &flow{T: o.T, Page: p, base: o.s.Ready().BaseURL, look: look}
	f.fillProfile()
	for _, v := range profile {
		f.set(v[0], v[1])
	}
	f.set("new_password", "seven tiny purple boats")
	p.Send("form[action$='/accept'] button")
	var found struct {
		Data []struct {
			UserID string `json:"user_id"`
		} `json:"data"`
	}
	o.d.decode(o.d.ok("GET", "/api/company/workers?email="+who, ""), &found)
	if len(found.Data) != 1 {
		o.Fatalf("%d workers with the address %s", len(found.Data), who)
	}
	return p, found.Data[0].UserID
}

// From the invitation alone, a person on a phone says where to be paid, splits the pay, and sees the payment arrive.
func TestAPayeeFromTheInvitationToTheReceiptInABrowser(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	base := o.s.Ready().BaseURL
	phone := webtest.Look{Width: 390}
	b := webtest.Start(t)
	p, user := o.payee(b, "ada@payee.example", phone)
	has := func(p *webtest.Page, wants ...string) {
		t.Helper()
		text := p.Text()
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Fatalf("at %s, no %q in\n%s", p.Path(), want, text)
			}
		}
	}
	has(p, "Your pay", "Tell us where to pay you", "Verify your identity")
	p.Audit()

	addresses, err := sandbox.SeedAddresses("regtest", 9)
	testkit.Check(t, err)
	p.Send(".todo a[href$='/account/destinations/new']")
	has(p, "Add a destination")
	p.Do(chromedp.Navigate(base + "/account/destinations/new?symbol=BTC"))
	field, problem := `[id="d.address"]`, `[id="d.address-problem"]`
	p.Fill(field, "bcrt1qnonsense\t") // leaving the field checks it
	p.Do(chromedp.WaitVisible(problem))
	p.Audit()
	webtest.Evaluate[string](p, `document.querySelector('`+field+`').value = ''`)
	p.Fill(field, addresses[8]+"\t")
	p.Do(chromedp.WaitNotPresent(problem))
	p.Send("main form[action$='/destinations/new'] button")
	has(p, " added.", addresses[8][:6], "100%", "What arrives")

	// The second destination, without JavaScript: a wrong one keeps what was typed.
	plain := b.Open(base+"/account/destinations/new?symbol=BTC", webtest.Look{Width: 390, NoScript: true})
	plain.Fill(field, "bcrt1qnonsense")
	plain.Send("main form[action$='/destinations/new'] button")
	if got := webtest.Evaluate[string](plain, `document.querySelector('`+field+`').value`); got != "bcrt1qnonsense" {
		t.Errorf("the form kept %q", got)
	}
	webtest.Evaluate[string](plain, `document.querySelector('`+field+`').value = '`+addresses[7]+`'`)
	plain.Send("main form[action$='/destinations/new'] button")
	shares := `[...document.querySelectorAll('input[name^="a."]')]`
	split := func(first, second string) string {
		return `const all = ` + shares + `; all[0].value = '` + first + `'; all[1].value = '` + second + `'; `
	}
	webtest.Evaluate[string](plain, split("60", "30")+"''")
	plain.Send("button[formaction$='/allocations/preview']")
	has(plain, "must total 100")
	webtest.Evaluate[string](plain, split("60", "40")+"''")
	plain.Send("button[formaction$='/allocations/preview']")
	has(plain, "60%", "600.00", "400.00")
	fixed := `document.querySelectorAll('input[name^="f."]')[0].value = '200'; `
	webtest.Evaluate[string](plain, split("60", "40")+fixed+"''")
	plain.Send("button[formaction$='/allocations/preview']")
	has(plain, "only one of them")
	webtest.Evaluate[string](plain, split("0", "100")+fixed+"''")
	plain.Send("button[formaction$='/allocations/preview']")
	has(plain, "Fixed amounts and the rest", "200.00", "800.00")

	p.Do(chromedp.Navigate(base + "/account/destinations"))
	webtest.Evaluate[string](p, split("25", "75")+`all[1].dispatchEvent(new Event("change", {bubbles: true})); ''`)
	eventually(t, 30*time.Second, "the preview follows the split", func() bool {
		return strings.Contains(p.Text(), "750.00")
	})
	p.Send("form[action$='/allocations'] button.primary")
	has(p, "Saved.", "25%", "75%")
	b.Check(base + "/account/destinations")

	made := o.d.create(pays("", "1000", user))
	worker := o.d.created(o.d.ok("POST", createPath, pays("", "10", o.d.seed.Workers[0].UserID), "Idempotency-Key",
		"another-payee"))
	if p.Do(chromedp.Navigate(base + "/account/payments")); !strings.Contains(p.Text(), "No payments this year") {
		t.Errorf("a payroll without funds is shown:\n%s", p.Text())
	}
	o.d.deposit(made.PayrollID, "exact", "")
	o.d.fulfilled(made.PayrollID)
	p.Do(chromedp.Navigate(base + "/account/payments"))
	has(p, "Received this year", "1,000.00", "Paid")
	p.Send("main table a")
	has(p, "Your money has arrived.", "Transaction", "1 BTC =", addresses[8][:6])
	at := p.Path()
	b.Check(base + at)
	b.Open(base+"/account/payments", webtest.Look{Width: 1440, Dark: true}).Audit()

	v := webtest.NewVisitor(t, base)
	v.Submit(v.Get("/sign-in"), "/sign-in", "email", "ada@payee.example", "password", "seven tiny purple boats")
	for path, want := range map[string]string{at + "/receipt.pdf": "%PDF", "/account/payments/year.pdf": "%PDF",
		"/account/payments/year.csv": "\n" + at[strings.LastIndex(at, "/")+1:] + ","} {
		if got := v.Get(path); got.Status != http.StatusOK || !strings.Contains(got.Text, want) {
			t.Errorf("%s: %d, no %q in %.200s", path, got.Status, want, got.Text)
		}
	}
	var of struct {
		Payments []struct {
			ID string `json:"subpayroll_id"`
		} `json:"payments"`
	}
	o.d.deposit(worker.PayrollID, "exact", "")
	o.d.fulfilled(worker.PayrollID)
	o.d.decode(o.d.ok("GET", "/api/company/payrolls/"+worker.PayrollID, ""), &of)
	for _, path := range []string{"", "/receipt.pdf"} {
		if got := v.Get("/account/payments/" + of.Payments[0].ID + path); got.Status != http.StatusNotFound {
			t.Errorf("another payee's payment: %d", got.Status)
		}
	}

	// An invoice to the company, first with mistakes.
	form := v.Get("/account/invoices/new")
	company := regexp.MustCompile(`<option value="(com_\w+)"`).FindStringSubmatch(form.Text)[1]
	wrong := v.Submit(form, "/account/invoices/new", "bill_to", company, "description_1", "Design", "unit_price_1",
		"1.005")
	for _, want := range []string{`id="unit_price_1-problem"`, `value="Design"`} {
		if wrong.Status != http.StatusUnprocessableEntity || !strings.Contains(wrong.Text, want) {
			t.Errorf("%d, no %s in\n%s", wrong.Status, want, wrong.Text)
		}
	}
	_, unfinished := webtest.Form(t, form.Text, "/account/invoices/new")
	for name, value := range map[string]string{"quantity_0": "3", "unit_price_0": "120.50", "tax_rate_0": "19",
		"description_1": "not finished"} {
		unfinished.Set(name, value)
	}
	if page := v.Post("/account/invoices/new/preview", unfinished); !page.Contains("361.50") || !page.Contains("430.18") ||
		!page.Contains("not finished") {
		t.Errorf("the total so far: %d %s", page.Status, page.Text)
	}
	sent := v.Submit(form, "/account/invoices/new", "bill_to", company, "description_1", "Design", "unit_price_1",
		"1,250.50", "tax_rate_1", "10")
	if page := v.Get(sent.Location()); !page.Contains("Design") || !page.Contains("1,375.55") {
		t.Fatalf("%d to %q\n%s", sent.Status, sent.Location(), page.Text)
	}
	o.says(o.Get("/invoices"), "1,375.55")
	if got := v.Submit(form, "/account/invoices/payers", "payer_name", "Nobody Ltd"); !strings.HasPrefix(got.Location(),
		"/account/invoices/new?payer=pyr_") {
		t.Errorf("%d to %q", got.Status, got.Location())
	}
	v.Submit(v.Get(sent.Location()), sent.Location()+"/delete")
	o.silent(o.Get("/invoices"), "1,375.55")
	for _, path := range []string{"/account/invoices", "/account/invoices/new", sent.Location()} {
		b.Open(base+path, phone).Audit()
	}

	// A tax form, first with mistakes. The company sees its state, and never the number on its pages.
	o.says(o.Get("/reports"), "Ada Byron", "Missing", "1,000.00")
	fill := func(number, certified string) webtest.Visit {
		return v.Submit(v.Get("/account/tax?form=w9"), "/account/tax", "tax_id", number, "tax_id_type", "ssn",
			"business_name", "Byron Software", "certified", certified)
	}
	for _, wrong := range []webtest.Visit{fill("000-12-3456", "yes"), fill("536-90-4399", "")} {
		if wrong.Status != http.StatusUnprocessableEntity || !strings.Contains(wrong.Text, `value="Byron Software"`) {
			t.Errorf("%d, or the form lost a value:\n%s", wrong.Status, wrong.Text)
		}
	}
	if at := fill("536-90-4399", "yes").Location(); !strings.HasPrefix(at, "/account/tax") {
		t.Errorf("to %q", at)
	}
	if page := v.Get("/account/tax"); !page.Contains("•••••4399") || !page.Contains("Valid") {
		t.Errorf("no valid form in\n%s", page.Text)
	}
	o.silent(o.says(o.Get("/reports"), "Ada Byron", "Tax ID on file", "W-9"), "4399")
	for path, want := range map[string]string{"year.csv": ",w9,valid,on_file,1,USD,1000.00,1000.00,920.00,0",
		"year.json": `"tax_id_on_file": true`, "1099-nec.csv": "Box 1 - Nonemployee Compensation"} {
		o.silent(o.says(o.Get("/reports/"+path), want), "4399") // 1,000 USD is below the threshold of the file
	}
	accounts := o.Get("/reports/accounts")
	if wrong := o.Submit(accounts, "/reports/accounts", "code_0", strings.Repeat("1", 41)); wrong.Status !=
		http.StatusUnprocessableEntity || !strings.Contains(wrong.Text, "A code has at most 40 characters.") {
		t.Errorf("%d\n%s", wrong.Status, wrong.Text)
	}
	o.Submit(accounts, "/reports/accounts", "code_8", "6010", "name_8", "Wages")
	o.says(o.Get("/reports/accounts"), `value="6010"`, `value="1100"`)
	o.says(o.Get("/reports/journal.csv"), ",6010,Wages,1000.00,,USD,")
	b.Check(base + "/account/tax?form=w9")
	b.Open(base+"/account/tax?form=w8ben", phone).Audit()

	data := v.Get("/account/export.json")
	for _, want := range []string{addresses[8], "536904399", "1 Hidden Street", "Design", "Nobody Ltd", `"1000.00"`} {
		if !strings.Contains(data.Text, want) {
			t.Errorf("no %q in %s", want, data.Text)
		}
	}
	if strings.Contains(data.Text, o.d.seed.Workers[0].UserID) || strings.Contains(data.Text, made.PayrollID) {
		t.Errorf("the export has data of the company: %s", data.Text)
	}
	if !regexp.MustCompile(`^/account/payments/\w+$`).MatchString(at) {
		t.Errorf("the payment is at %s", at)
	}
}
