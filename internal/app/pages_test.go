package app_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// companyBrowser is a user who is signed in to the pages of the sandbox's company, together with a client of that
// company's API.
type companyBrowser struct {
	*testing.T
	*webtest.Visitor
	s *service
	d *apiClient
}

// openCompanyBrowser starts a service and signs in as the sandbox's administrator.
func openCompanyBrowser(t *testing.T, database string, change ...func(*app.Config)) *companyBrowser {
	t.Helper()
	s := boot(t, database, change...)
	o := &companyBrowser{T: t, s: s, d: newAPIClient(t, s)}
	o.signIn()
	return o
}

// signIn signs in as the sandbox's administrator in a new browser.
func (o *companyBrowser) signIn() {
	o.Helper()
	o.Visitor = webtest.NewVisitor(o.T, o.s.Ready().BaseURL)
	admin := o.s.Ready().Seed.Admin
	if got := o.Submit(o.Get("/sign-in"), "/sign-in", "email", admin.Email, "password",
		admin.Password); got.Status != http.StatusSeeOther {
		o.Fatalf("sign in: got status %d\n%s", got.Status, got.Text)
	}
}

// says fails the test unless the page loaded and contains all of these texts.
func (o *companyBrowser) says(at webtest.Visit, wants ...string) webtest.Visit {
	o.Helper()
	for _, want := range wants {
		if at.Status != http.StatusOK || !at.Contains(want) {
			o.Fatalf("got status %d, redirect to %q, and no %q in\n%s", at.Status, at.Location(), want, at.Text)
		}
	}
	return at
}

// silent fails the test if a page contains any of these texts.
func (o *companyBrowser) silent(at webtest.Visit, unwanted ...string) {
	o.Helper()
	for _, text := range unwanted {
		if at.Contains(text) {
			o.Errorf("the page contains %q:\n%s", text, at.Text)
		}
	}
}

func TestOverviewAndPayrolls(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		o.silent(o.says(o.Get("/overview"), "Set up your company", "No payrolls yet"), "You’re all caught up.")
		seed := o.s.Ready().Seed

		evil := `=cmd|' /C calc'!A0 <script>alert(1)</script>`
		made := o.d.create(`{"external_id":"march","to_pay":[{"user_id":"` + seed.Workers[0].UserID +
			`","amount_fiat":1600,"description":"` + evil + `"},{"user_id":"` + seed.Workers[1].UserID + `","amount_fiat":40}]}`)
		other := o.d.create(`{"to_pay":[{"user_id":"` + seed.Workers[1].UserID + `","amount_fiat":75.5}]}`)
		page := o.says(o.Get("/overview"), "/payrolls/"+made.PayrollID+"/fund", "Fund Payroll of ", ": send ",
			"1,656.40\u00a0USD",
			"/payrolls/"+other.PayrollID)
		o.silent(page, "You’re all caught up")

		page = o.says(o.Get("/payrolls?external_id=march&status=pending&since=2020-01-01"), made.PayrollID, `value="march"`,
			`value="pending" selected`, "1 to 1 of 1")
		o.silent(page, other.PayrollID)
		o.silent(o.Get("/payrolls?status=fulfilled"), made.PayrollID)
		o.silent(o.Get("/payrolls?until=2020-01-01"), made.PayrollID)
		o.says(o.Get("/payrolls?status=nonsense&page=-1&since=x"), made.PayrollID, other.PayrollID)
		o.says(o.Get("/payrolls?lang=fr"), "1\u202f656,40\u00a0USD", "En attente de fonds")
		o.says(o.Get("/payrolls?lang=es"), "1656,40\u00a0USD")
		o.Get("/payrolls?lang=en")

		page = o.says(o.Get("/payrolls/"+made.PayrollID), "Awaiting funds", "Ada Lovelace", "1,600.00\u00a0USD",
			"&lt;script&gt;alert(1)&lt;/script&gt;", "Nothing received yet", "Cancel payroll …")
		o.silent(page, "<script>alert")
		sheet := o.says(o.Get("/payrolls/"+made.PayrollID+"/statement.csv"), "amount")
		rows, err := csv.NewReader(strings.NewReader(sheet.Text)).ReadAll()
		if err != nil || len(rows) != 3 || rows[1][10] != "'"+evil || rows[1][5] != "1600.00" ||
			rows[2][4] != "Grace Hopper" {
			t.Errorf("%v\n%s", err, sheet.Text)
		}
		if d := sheet.Header.Get("Content-Disposition"); !strings.HasPrefix(d,
			"attachment; filename=payroll-"+made.PayrollID+".csv") {
			t.Errorf("Content-Disposition %q", d)
		}

		// The statement is also available as JSON, and the payrolls of a whole month as CSV and JSON.
		var statement struct {
			PayrollID string `json:"payroll_id"`
			Total     json.Number
			Payments  []struct {
				Payee, Description string
				Amount             json.Number
			}
		}
		text := o.says(o.Get("/payrolls/"+made.PayrollID+"/statement.json"), "payments").Text
		if err := json.Unmarshal([]byte(text), &statement); err != nil || statement.PayrollID != made.PayrollID ||
			statement.Total != "1656.40" ||
			len(statement.Payments) != 2 || statement.Payments[0].Amount != "1600.00" ||
			statement.Payments[0].Description != evil {
			t.Errorf("%v\n%s", err, text)
		}
		month := regexp.MustCompile(`"created": "(\d{4}-\d{2})-`).FindStringSubmatch(text)
		if month == nil {
			t.Fatalf("no creation date in\n%s", text)
		}
		o.says(o.Get("/payrolls/month.csv?month="+month[1]), made.PayrollID, ",march,pending,2,1640.00,16.40,1656.40,USD",
			other.PayrollID)
		o.says(o.Get("/payrolls/month.json?month="+month[1]), made.PayrollID, `"payrolls": 2,`, `"volume": 1715.50,`)
		o.silent(o.Get("/payrolls/month.csv?month=2020-01"), made.PayrollID)
		if got := o.Get("/payrolls/month.csv?month=march"); got.Status != http.StatusUnprocessableEntity {
			t.Errorf("an invalid month: got status %d, want 422", got.Status)
		}

		// The company funds one payroll, which is paid, and cancels the other.
		o.d.deposit(made.PayrollID, "exact", "")
		o.d.fulfilled(made.PayrollID)
		sent := regexp.MustCompile(`"tx_hash":"(\w+)"`).FindStringSubmatch(o.d.ok("GET",
			"/api/company/payrolls/"+made.PayrollID, "").text)
		o.says(o.Get("/payrolls/"+made.PayrollID), "Everyone has been paid.", "Arrived", sent[1], "Fully funded")
		if got := o.Submit(o.Get("/payrolls/"+other.PayrollID),
			"/payrolls/"+other.PayrollID+"/cancel"); got.Location() != "/payrolls/"+other.PayrollID {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		page = o.says(o.Get("/payrolls/"+other.PayrollID), "Nobody gets paid.", "Canceled")
		o.silent(page, "Cancel payroll …")
		o.says(o.Get("/overview"), "You’re all caught up.")

		// A viewer sees all of it and can't change anything.
		open := o.d.create(`{"to_pay":[{"user_id":"` + seed.Workers[1].UserID + `","amount_fiat":75.5}]}`)
		_, form := webtest.Form(t, o.Get("/payrolls/"+open.PayrollID).Text, "/payrolls/"+open.PayrollID+"/cancel")
		o.role("viewer")
		o.silent(o.says(o.Get("/payrolls/"+open.PayrollID), "Awaiting funds"), "Cancel payroll …")
		if got := o.Post("/payrolls/"+open.PayrollID+"/cancel", form); got.Status != http.StatusForbidden {
			t.Errorf("a viewer cancels a payroll: got status %d, want 403", got.Status)
		}
		o.role("admin")
		// The pages answer "not found" for a payroll that this company doesn't have.
		if got := o.Get("/payrolls/prl_00000000000000000000000000"); got.Status != http.StatusNotFound {
			t.Errorf("%d", got.Status)
		}
	})
}

func TestCompanyPagesInABrowser(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	seed := o.s.Ready().Seed
	base := o.s.Ready().BaseURL
	made := o.d.create(`{"external_id":"march","to_pay":[{"user_id":"` + seed.Workers[0].UserID +
		`","amount_fiat":1600},{"user_id":"` + seed.Workers[1].UserID + `","amount_fiat":40}]}`)
	o.d.deposit(made.PayrollID, "exact", "")
	o.d.fulfilled(made.PayrollID)
	waiting := o.d.create(`{"to_pay":[{"user_id":"` + seed.Workers[0].UserID + `","amount_fiat":10000}]}`)

	b := webtest.Start(t)
	p := b.Open(base+"/overview", webtest.Look{NoScript: true})
	p.Fill("#email", seed.Admin.Email)
	p.Fill("#password", seed.Admin.Password)
	p.Send("form:has(#password) button")
	if p.Path() != "/overview" {
		t.Fatalf("at %s:\n%s", p.Path(), p.Text())
	}
	o.d.ok("GET", "/api/wallets", "", "X-Request-Id", "noted")
	o.linesOf("noted")
	noted := regexp.MustCompile(`href="(/settings/api/requests/[^"?]+)"`).FindStringSubmatch(
		o.Get("/settings/api/requests?route=" + createPath).Text)
	if noted == nil {
		t.Fatal("the log has no request that creates a payroll")
	}
	for _, path := range []string{"/overview", "/search?q=march", "/payrolls", "/settings/api/requests", noted[1],
		"/settings/approvals", "/notifications",
		"/payrolls/" + made.PayrollID, "/payrolls/" + waiting.PayrollID} {
		b.Check(base + path)
	}
}

// role changes the role of the sandbox's administrator.
func (o *companyBrowser) role(role string) {
	o.Helper()
	err := o.s.DB().Write(o.Context(), func(ctx context.Context, tx *db.Tx) error {
		return identity.AddMember(ctx, tx, identity.Member{CompanyID: o.s.Ready().Seed.CompanyID,
			UserID: sandbox.SeedID("usr", "admin"), Role: role})
	})
	testkit.Check(o, err)
}

// A user makes a payroll by typing amounts next to the payees. The form shows each error next to its field. Nothing
// is created before the user confirms the preview, and confirming twice creates one payroll. The company then pays it
// as the funding page says.
func TestPayrollByForm(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		ada, grace := o.d.seed.Workers[0].UserID, o.d.seed.Workers[1].UserID
		form := o.says(o.Get("/payrolls/new"), "Ada Lovelace", "Grace Hopper", "Amount for Ada Lovelace")
		for _, c := range []struct {
			problem string
			pairs   []string
		}{
			{"Enter an amount for at least one person.", nil},
			{`id="amount.` + ada + `-problem"`, []string{"amount." + ada, "12.345"}},
			{`href="#amount.` + ada + `">Ada Lovelace`, []string{"amount." + ada, "-1"}},
			{"This is below the minimum amount.", []string{"amount." + ada, "0.01"}},
		} {
			got := o.Submit(form, "/payrolls/new", c.pairs...)
			if got.Status != http.StatusUnprocessableEntity || !strings.Contains(got.Text, c.problem) {
				t.Errorf("%v: %d, no %s in\n%s", c.pairs, got.Status, c.problem, got.Text)
			}
		}
		found := o.says(o.Submit(form, "/payrolls/new", "amount."+ada, "600.00", "search", "grace", "find", "1"),
			`value="600.00"`, "Grace Hopper")
		o.silent(found, o.d.seed.Recipients[0].RecipientID)
		o.says(o.Submit(found, "/payrolls/new", "search", "nobody", "find", "1"), `value="600.00"`, "Ada Lovelace")

		preview := o.says(o.Submit(form, "/payrolls/new", "external_id", "april", "amount."+ada, "600.00", "note."+ada,
			"April <b>", "amount."+grace, "250.5"),
			"850.50\u00a0USD", "8.50\u00a0USD", "Create payroll for 859.00\u00a0USD", "April &lt;b&gt;", "BTC bcrt1")
		if n := o.d.count("SELECT COUNT(*) FROM payrolls"); n != 0 {
			t.Fatalf("the preview created %d payrolls", n)
		}
		changed := o.Submit(preview, "/payrolls", "seen", "1.00")
		if changed.Status != http.StatusConflict || !strings.Contains(changed.Text, "Amounts or destinations have changed") ||
			o.d.count("SELECT COUNT(*) FROM payrolls") != 0 {
			t.Errorf("a form with a different total than the preview showed: got status %d\n%s", changed.Status, changed.Text)
		}
		made, again := o.Submit(preview, "/payrolls"), o.Submit(preview, "/payrolls")
		if made.Status != http.StatusSeeOther || made.Location() != again.Location() ||
			o.d.count("SELECT COUNT(*) FROM payrolls") != 1 {
			t.Fatalf("%d to %q, then %d to %q\n%s", made.Status, made.Location(), again.Status, again.Location(), made.Text)
		}
		second := o.Submit(o.Submit(form, "/payrolls/new", "external_id", "april", "amount."+ada, "1.00"), "/payrolls/new")
		if second.Status == http.StatusOK && o.d.count("SELECT COUNT(*) FROM payrolls") != 1 {
			t.Errorf("a second payroll with the same reference: got status %d", second.Status)
		}

		at := made.Location()
		id := strings.Split(at, "/")[2]
		asked := o.d.payroll(id)
		page := o.says(o.Get(at), "Send exactly", string(asked.Quote.Amount), "BTC · Regtest", "minutes left",
			"No deposits yet", `class="qr"`, `href="bitcoin:bcrt1`)
		if policy := page.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "connect-src 'self'") ||
			strings.Contains(policy, "unsafe") {
			t.Errorf("the content security policy is %s", policy)
		}
		if got := o.Submit(page, "/payrolls/"+id+"/sandbox/deposit", "kind", "under"); got.Location() != at {
			t.Fatalf("simulate a deposit: got status %d\n%s", got.Status, got.Text)
		}
		o.d.until(id, "Partly funded", func(v payrollView) bool { return v.FundingState == "partial" })
		page = o.says(o.Get(at), "Partly funded", "Confirmed")
		if got := o.Submit(page, at); got.Location() != at {
			t.Fatalf("refresh the quote: got status %d\n%s", got.Status, got.Text)
		}
		o.Submit(o.Get(at), "/payrolls/"+id+"/sandbox/deposit", "kind", "exact")
		o.d.fulfilled(id)
		o.says(o.Get("/payrolls/"+id), "Everyone has been paid.")
		o.silent(o.says(o.Get(at), "No more money is needed."), "Send BTC to this address", "Refresh rate")
		if got := o.Get("/payrolls/" + id + "/statement.pdf"); got.Status != 200 || !strings.HasPrefix(got.Text, "%PDF-") ||
			got.Header.Get("Content-Type") != "application/pdf" {
			t.Errorf("the PDF statement: got status %d and the header %v", got.Status, got.Header)
		}

		// Funding by a dollar token and by bank transfer works the same way.
		bea := o.d.bankPayee()
		form = o.says(o.Get("/payrolls/new"), "ETH payment on Base", "Bank transfer")
		token := o.says(o.Submit(form, "/payrolls/new", "amount."+bea, "20", "funding_method", "crypto/USDC/base"),
			"USDC payment on Base")
		o.says(o.Get(o.Submit(token, "/payrolls").Location()), "Send USDC to this address", "USDC · Base",
			"only on the Base network", `href="ethereum:0x`, "20.20")
		transfer := o.Submit(o.says(o.Submit(form, "/payrolls/new", "amount."+bea, "30", "funding_method", "bank"),
			"Bank transfer"), "/payrolls").Location()
		id = strings.Split(transfer, "/")[2]
		page = o.says(o.Get(transfer), "Transfer to this account", "Stipend Sandbox", "091000019",
			strings.ToUpper(strings.ReplaceAll(id, "_", "")), "30.30")
		o.silent(page, "Rate holds until", `class="qr"`, "Reversed by the network")
		o.Submit(page, "/payrolls/"+id+"/sandbox/deposit", "kind", "exact")
		o.d.fulfilled(id)
		o.says(o.Get(transfer), "trf_", "No more money is needed.")

		// An administrator can move the sandbox's clock. Then the price has expired.
		late := o.Submit(o.Submit(form, "/payrolls/new", "amount."+ada, "10"), "/payrolls")
		got := o.Submit(o.Get(late.Location()), "/sandbox/clock", "seconds", "3600")
		if got.Location() != late.Location() {
			t.Errorf("%d to %q", got.Status, got.Location())
		}
		o.says(o.Get(late.Location()), "This rate has expired")
		o.says(o.Get("/overview"), "has expired. Get a new one to fund it")
	})
}

func TestPayrollByFile(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		ada := o.d.seed.Workers[0]
		form := o.says(o.Get("/payrolls/import"), "is_premium", `accept=".csv,text/csv"`)
		for text, wants := range map[string][]string{
			"":                              {"Choose a file, or paste CSV."},
			"payee\n":                       {"What your columns contain", `name="map.0"`},
			"payee,amount,wages\n":          {"What your columns contain", ">wages<"},
			"payee,amount\n":                {"no rows below the header"},
			"payee,amount\n\"x,1\n":         {"Line 2 is not valid CSV"},
			"payee,amount\nnobody,1\n\nx,2": {"No match, or more than one", ">2<", ">4<", "Nothing was created"},
			"payee,amount\n" + ada.Email + ",1\n" + ada.UserID + ",x\n" + ada.UserID + ",-2": {">3<", "Enter a number like",
				">4<", "greater than 0"},
			// All problems are listed at once, each with its value.
			"payee,amount\nnobody,1\n" + ada.UserID + ",x\n" + ada.UserID + ",1.250,50\n": {
				`name="fix.2.payee" value="nobody"`, `name="fix.3.amount" value="x"`, "has 3 fields"},
			"payee,amount,country\n" + ada.UserID + ",1,Brasil\n": {`name="fix.2.country" value="Brasil"`,
				"Use a two-letter country code"},
		} {
			got := o.Submit(form, "/payrolls/import", "csv", text)
			for _, want := range wants {
				if got.Status != http.StatusUnprocessableEntity || !strings.Contains(got.Text, want) {
					t.Errorf("%q: %d, no %q in\n%s", text, got.Status, want, got.Text)
				}
			}
		}
		file := "\ufeffamount;payee;description;is_premium\r\n600.00;" + strings.ToUpper(ada.Email) + ";'=1+1;yes\r\n250.5;" +
			o.d.seed.Recipients[1].RecipientID + ";;\r\n"
		preview := o.says(o.Submit(form, "/payrolls/import", "csv", file), "850.50\u00a0USD", "Ada Lovelace", "=1&#43;1")
		if n := o.d.count("SELECT COUNT(*) FROM payrolls"); n != 0 {
			t.Fatalf("the preview created %d payrolls", n)
		}
		// The user says what the columns contain, corrects a value, and is warned of what looks wrong.
		odd := o.Submit(form, "/payrolls/import", "csv", "who,wage,team\n"+ada.Email+",\"1,250.50\",a\n"+ada.Email+",x,b\n"+
			ada.Email+",10,c\n"+o.d.seed.Recipients[1].RecipientID+",,d\n")
		odd = o.Submit(odd, "/payrolls/import", "map.0", "payee", "map.1", "amount", "map.2", "ignore")
		o.says(o.Submit(odd, "/payrolls/import", "fix.3.amount", "20"), "1,280.50\u00a0USD", "is paid 3 times",
			"more than ten times", "1 row without an amount is left out.")
		o.says(o.Get("/payrolls/import/template.csv"), "payee,name,amount", ada.UserID)

		made := o.Submit(preview, "/payrolls")
		if made.Status != http.StatusSeeOther ||
			o.d.count("SELECT COUNT(*) FROM payments WHERE premium AND description = '=1+1'") != 1 {
			t.Errorf("%d\n%s", made.Status, made.Text)
		}
		o.says(o.Get("/recipients/"+ada.UserID), "600.00\u00a0USD", "=1&#43;1", strings.TrimSuffix(made.Location(), "/fund"))
	})
}

// screenshots is the directory for the screenshots in docs/pages.md. If it is empty, the tests take none.
var screenshots = flag.String("screenshots", "", "write the pictures of the documentation to this directory")

// picture saves a screenshot of a page for the documentation.
func (o *companyBrowser) picture(p *webtest.Page, name string) {
	o.Helper()
	if *screenshots == "" {
		return
	}
	testkit.Check(o, os.WriteFile(filepath.Join(*screenshots, name+".png"), p.Picture(), 0o644))
}

// A user makes a payroll in a browser without JavaScript, then funds it and watches it live with JavaScript. The user
// makes another payroll from a file.
func TestPayrollInABrowser(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	seed, base := o.d.seed, o.s.Ready().BaseURL
	if *screenshots != "" { // the pages in the screenshots need some payrolls
		for _, amount := range []string{"1250.00", "980.50"} {
			made := o.d.payTwo(amount)
			o.d.deposit(made.PayrollID, "over", "")
			o.d.fulfilled(made.PayrollID)
		}
	}
	b := webtest.Start(t)
	p := b.Open(base+"/payrolls/new", webtest.Look{NoScript: true, Width: 320})
	p.Fill("#email", seed.Admin.Email)
	p.Fill("#password", seed.Admin.Password)
	p.Send("form:has(#password) button")
	p.Fill("[id='amount."+seed.Workers[0].UserID+"']", "600.00")
	p.Fill("[id='amount."+seed.Workers[1].UserID+"']", "50")
	p.Send("main form[method=post] button")
	if !strings.Contains(p.Text(), "656.50\u00a0USD") {
		t.Fatalf("at %s:\n%s", p.Path(), p.Text())
	}
	p.Send("main button")
	fund := p.Path()
	b.Check(base + "/payrolls/new")
	b.Check(base + "/payrolls/import")
	b.Check(base + fund)
	bea := o.d.bankPayee()
	for _, more := range []string{`"funding_currency":"USDC",`, `"funding_method":"bank",`} {
		b.Check(base + "/payrolls/" + o.d.create(pays(more, "20", bea)).PayrollID + "/fund")
	}

	if *screenshots != "" {
		o.picture(b.Open(base+"/overview", webtest.Look{Width: 960}), "overview")
		o.picture(b.Open(base+fund, webtest.Look{Width: 960}), "fund")
	}
	live := b.Open(base+fund, webtest.Look{})
	live.Send(".simulate button")
	eventually(t, 90*time.Second, "the page shows that the payroll is fully funded", func() bool {
		return strings.Contains(live.Text(), "No more money is needed.")
	})
	if announced := webtest.Evaluate[string](live,
		"document.querySelector('[data-announce]').textContent"); !strings.Contains(announced, "Fully funded") {
		t.Errorf("a screen reader announces %q", announced)
	}
	live.Audit()
	id := strings.Split(fund, "/")[2]
	o.d.fulfilled(id)
	b.Check(base + "/payrolls/" + id)

	file := filepath.Join(t.TempDir(), "payments.csv")
	testkit.Check(t, os.WriteFile(file,
		[]byte("payee,amount\n"+seed.Workers[0].Email+",20\n"+seed.Recipients[1].RecipientID+",30\n"), 0o600))
	p = b.Open(base+"/payrolls/import", webtest.Look{})
	p.Do(chromedp.SetUploadFiles("#file", []string{file}))
	p.Send("main button")
	if !strings.Contains(p.Text(), "50.50\u00a0USD") {
		t.Fatalf("at %s:\n%s", p.Path(), p.Text())
	}
	p.Audit()
	p.Send("main button")
	if !strings.HasSuffix(p.Path(), "/fund") {
		t.Errorf("at %s:\n%s", p.Path(), p.Text())
	}
}

// A user without a mouse signs in and pays people. At each step, the focus is visible.
func TestPayrollByKeyboardAlone(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	seed := o.d.seed
	p := webtest.Start(t).Open(o.s.Ready().BaseURL+"/payrolls/new", webtest.Look{})
	p.Reach("#email")
	p.Keys(seed.Admin.Email)
	p.Reach("#password")
	p.Keys(seed.Admin.Password)
	p.Enter()
	p.Reach("[id='amount." + seed.Workers[0].UserID + "']")
	p.Keys("600.00")
	p.Reach("main form[method=post] button")
	p.Enter()
	if !strings.Contains(p.Text(), "606.00\u00a0USD") {
		t.Fatalf("at %s:\n%s", p.Path(), p.Text())
	}
	p.Reach("main form[method=post] button")
	p.Enter()
	if !strings.HasSuffix(p.Path(), "/fund") {
		t.Fatalf("at %s:\n%s", p.Path(), p.Text())
	}
	p.Reach(".simulate button")
	p.Enter()
	o.d.fulfilled(strings.Split(p.Path(), "/")[2])
}
