package app_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// A company adds a recipient, adds a bank account with the fields that the recipient's country requires, and splits
// the recipient's pay between two destinations. It can later replace a destination and deactivate the recipient.
func TestRecipientPages(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		seed := o.d.seed
		page := o.says(o.Get("/recipients?search=love&status=active&role=contractor&recipient_type=user&sort_by=name"+
			"&country=us"), "Ada Lovelace", "ada@sandbox.example", "1 to 1 of 1")
		o.silent(page, "Grace Hopper")
		saved := o.says(o.Get("/recipients?search=nobody-of-this-name"), "Nothing matches these filters", "Save search")
		if got := o.Submit(saved, "/searches", "name", "Nobody"); got.Location() != "/recipients?search=nobody-of-this-name" {
			t.Errorf("save a search: %d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		o.says(o.Get("/recipients"), ">Nobody</a>")

		form := o.says(o.Get("/recipients/new"), `<option value="MX">Mexico`)
		for problem, pairs := range map[string][]string{
			"country-problem":    {"first_name", "Joan", "last_name", "Clarke"},
			"first_name-problem": {"country", "US"},
			"firm-problem":       {"recipient_type", "company", "country", "US"},
		} {
			if got := o.Submit(form, "/recipients/new", pairs...); got.Status != http.StatusUnprocessableEntity ||
				!strings.Contains(got.Text, `id="`+problem+`"`) {
				t.Errorf("%v: %d, no %s in\n%s", pairs, got.Status, problem, got.Text)
			}
		}
		made := o.Submit(form, "/recipients/new", "first_name", "Joan", "last_name", "<i>Clarke", "country", "us",
			"external_id", "e-7")
		at := made.Location()
		if made.Status != http.StatusSeeOther || !strings.HasPrefix(at, "/recipients/rec_") {
			t.Fatalf("%d to %q\n%s", made.Status, at, made.Text)
		}
		edit := o.says(o.Get(at+"/edit"), `value="Joan"`, `value="US" selected`)
		if got := o.Submit(edit, at+"/edit", "country", "XX"); got.Status != http.StatusUnprocessableEntity ||
			!got.Contains(`id="country-problem"`) {
			t.Errorf("an unknown country: %d\n%s", got.Status, got.Text)
		}
		if got := o.Submit(edit, at+"/edit", "country", "MX", "last_name", "<i>Clark"); got.Location() != at {
			t.Errorf("edit a person: %d\n%s", got.Status, got.Text)
		}
		o.says(o.Get(at), "Joan &lt;i&gt;Clark", "<dd>MX</dd>")
		o.Submit(o.Get(at+"/edit"), at+"/edit", "country", "US")
		twice := []string{"first_name", "Ada", "last_name", "Byron", "country", "GB", "email", "ADA@sandbox.example"}
		again := o.Submit(form, "/recipients/new", twice...)
		if again.Status != http.StatusConflict || !again.Contains("already has this email address") {
			t.Errorf("a second person with an email address: %d\n%s", again.Status, again.Text)
		}
		if got := o.Submit(again, "/recipients/new"); got.Status != http.StatusSeeOther {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}

		if got := o.Submit(form, "/recipients/new", "first_name", "Annie", "last_name", "Easley", "country", "US", "symbol",
			"EUR"); got.Status != http.StatusUnprocessableEntity || !strings.Contains(got.Text, "Nobody can be paid in this") {
			t.Errorf("a currency that is not paid in the country: %d\n%s", got.Status, got.Text)
		}
		next := o.Submit(form, "/recipients/new", "first_name", "Annie", "last_name", "Easley", "country", "US", "symbol",
			"USD")
		o.says(o.Get(next.Location()), "USD, ACH", "Pay by Fedwire", "Save and add another person")

		file := o.says(o.Get("/recipients/import"), "external_id", `accept=".csv,text/csv"`)
		o.says(o.Get("/recipients/import/template.csv"), "external_id,first_name")
		if got := o.Submit(file, "/recipients/import/check", "csv", "nonsense\n"); got.Status != 422 {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		checked := o.says(o.Submit(file, "/recipients/import/check", "csv", "external_id,first_name,last_name,country\n"+
			"i-1,Mary,Jackson,US\ni-2,Katherine,Johnson,Atlantis\ne-7,Joan,Clarke,US\n"),
			"Ready to add: 1. Already in your list: 1. With problems: 1.", "Atlantis", ">3<")
		o.says(o.Submit(checked, "/recipients/import/check", "fix.3.country", "GR"),
			"Ready to add: 2. Already in your list: 1. With problems: 0.", "Katherine,Johnson,GR")
		added := o.Submit(checked, "/recipients/import")
		o.says(o.Follow(added), "Mary Jackson", "1 person added.", "Remind everyone")
		o.says(o.Get("/recipients?search=mary"), "Mary Jackson")
		o.silent(o.says(o.Get("/recipients/export.csv"), "Mary Jackson", "i-1"), "Katherine")

		o.says(o.Get(at), "Joan &lt;i&gt;Clark", "Needs a destination", "No destination yet", "e-7", "No payments yet")

		o.says(o.Get(at+"/destinations/new"), `symbol=BTC"`, `symbol=USD"`, "To a bank account")
		o.says(o.Get(at+"/destinations/new?symbol=USD"), "Pay by Fedwire")
		form = o.says(o.Get(at+"/destinations/new?symbol=USD&d.rail=ach"), "Account number", "For example 110000000.",
			`name="d.address.city"`, ">Checking</option>", ">Individual</option>")
		bank := []string{
			"d.account_holder_name", "Joan Clarke", "d.account_holder_type", "individual", "d.routing_number", "110000000",
			"d.account_number", "000123456789",
			"d.account_type", "checking", "d.address.address_line1", "1 Example Street", "d.address.city", "Springfield",
			"d.address.state", "IL",
			"d.address.postal_code", "62701", "d.address.country", "US",
		}
		wrong := o.Submit(form, at+"/destinations/new", append(bank, "d.routing_number", "12", "d.address.city", "")...)
		for _, want := range []string{`id="d.routing_number-problem"`, `id="d.address.city-problem"`,
			`value="000123456789"`} {
			if wrong.Status != http.StatusUnprocessableEntity || !strings.Contains(wrong.Text, want) {
				t.Errorf("%d, no %s in\n%s", wrong.Status, want, wrong.Text)
			}
		}
		if got := o.Submit(form, at+"/destinations/new", bank...); got.Location() != at {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		page = o.says(o.Get(at), "Ready", "USD ••••6789", "100\u00a0%", "US ACH", "Added", "Dashboard")
		o.silent(page, "000123456789")

		form = o.Get(at + "/destinations/new?symbol=BTC")
		if got := o.Submit(form, at+"/destinations/new", "d.address",
			"bcrt1qnonsense"); got.Status != http.StatusUnprocessableEntity || !strings.Contains(got.Text,
			`id="d.address-problem"`) {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		address := o.address()
		if got := o.Submit(form, at+"/destinations/new", "d.address", address); got.Location() != at {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		o.silent(o.says(o.Get(at), "BTC "+address[:6], "Remove BTC"), "same address")
		other := "/recipients/" + o.d.seed.Recipients[0].RecipientID
		o.Submit(o.Get(other+"/destinations/new?symbol=BTC"), other+"/destinations/new", "d.address", address)
		o.says(o.Get(other), "Paid at the same address as", `href="`+at+`"`)
		page = o.says(o.Get(at), "Paid at the same address as", `href="`+other+`"`)
		_, shares := webtest.Form(t, page.Text, at+"/allocations")
		for name := range shares {
			if strings.HasPrefix(name, "a.") {
				shares.Set(name, "60")
			}
		}
		if got := o.Post(at+"/allocations", shares); got.Status != http.StatusUnprocessableEntity ||
			!strings.Contains(got.Text, "must total 100 percent") {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		part := "40"
		for name := range shares {
			if strings.HasPrefix(name, "a.") {
				shares.Set(name, part)
				part = "60"
			}
		}
		if got := o.Post(at+"/allocations", shares); got.Location() != at {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		o.says(o.Get(at), "Share changed", "60\u00a0%", "40\u00a0%")

		// To replace a destination, the user reviews the old and the new one, both masked, and then confirms. The
		// confirmation applies exactly the values that the review page showed.
		replace := regexp.MustCompile(
			`href="(/recipients/\w+/destinations/\w+/replace)">Replace USD`).FindStringSubmatch(o.Get(at).Text)
		if replace == nil {
			t.Fatalf("the page has no link to replace the account:\n%s", o.Get(at).Text)
		}
		form = o.says(o.Get(replace[1]+"?d.rail=ach"), "Replaces USD ••••6789", `value="110000000"`,
			`value="1 Example Street"`)
		o.silent(form, `value="000123456789"`) // only the number is entered anew
		if got := o.Submit(form, replace[1]+"/check", append(bank, "d.routing_number",
			"12")...); got.Status != http.StatusUnprocessableEntity || !strings.Contains(got.Text,
			`id="d.routing_number-problem"`) {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		check := o.says(o.Submit(form, replace[1]+"/check", append(bank, "d.account_number", "000987654321")...),
			"USD ••••6789", "USD ••••4321", "Nothing has changed yet")
		o.silent(check, "000987654321")
		o.says(o.Get(at), "USD ••••6789")
		_, draft := webtest.Form(t, check.Text, replace[1])
		for where, change := range map[string]func(url.Values) string{
			"a modified draft": func(v url.Values) string { v.Set("draft", v.Get("draft")[:40]); return replace[1] },
			"the draft of another destination": func(url.Values) string {
				return regexp.MustCompile(`dst_\w+`).ReplaceAllString(replace[1], "dst_00000000000000000000000000")
			},
		} {
			form := maps.Clone(draft)
			if got := o.Post(change(form), form); got.Status != http.StatusBadRequest {
				t.Errorf("%s: %d", where, got.Status)
			}
		}
		if got := o.Post(replace[1], draft); got.Location() != at {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		o.silent(o.says(o.Get(at), "USD ••••4321", "Replaced"), "000987654321")

		o.Submit(o.Get(at), at+"/deactivate")
		o.says(o.Get(at), "Inactive", "Reactivate")
		o.silent(o.Get("/payrolls/new"), "Clarke")
		o.Submit(o.Get(at), at+"/reactivate")
		o.says(o.Get("/payrolls/new"), "Clark")

		// A person whom screening stopped is shown as under review, and cannot be reactivated by the company.
		testkit.Check(t, o.s.DB().Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO screening_hits (company_id, hit_id, subject_id, kind, matched, entry_id,
				entry_name, programs, score, state, reason, decided_by, version, created_at, decided_at)
				VALUES ($1, 'hit_1', $2, 'name', 'digest', 'entry', 'Somebody', 'SDN', 90, 'open', '', '', 1, 1, 0)`,
				seed.CompanyID, strings.TrimPrefix(at, "/recipients/"))
			return err
		}))
		o.silent(o.says(o.Get(at), "Under review", "Payments to this person are on hold until the review ends."),
			at+"/reactivate", at+"/deactivate")
		testkit.Check(t, o.s.DB().Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "DELETE FROM screening_hits WHERE hit_id = 'hit_1'")
			return err
		}))

		// A viewer can't change where money goes.
		o.role("viewer")
		for path, form := range map[string]url.Values{replace[1]: draft, replace[1] + "/check": draft, at +
			"/allocations": shares, at + "/deactivate": shares, at + "/destinations/new": shares} {
			if got := o.Post(path, form); got.Status != http.StatusForbidden {
				t.Errorf("a viewer's request to %s was answered with %d, want 403", path, got.Status)
			}
		}
		o.silent(o.says(o.Get(at), "Joan"), "Add a destination", "Deactivate")
		o.role("admin")
		if got := o.Get("/recipients/" + seed.CompanyID); got.Status != http.StatusNotFound {
			t.Errorf("%d", got.Status)
		}
	})
}

// address returns an unused address that a payee could have.
func (o *companyBrowser) address() string {
	o.Helper()
	all, err := sandbox.SeedAddresses("regtest", 9)
	testkit.Check(o, err)
	return all[8]
}

func TestInvitationPages(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		page := o.says(o.Get("/invitations"), "No invitations yet")
		if got := o.Submit(page, "/invitations", "email", "no address"); got.Status != http.StatusUnprocessableEntity ||
			!strings.Contains(got.Text, `id="email-problem"`) {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		o.Submit(page, "/invitations", "email", "joan@example.com")
		o.says(o.Get("/invitations?status=sent"), "joan@example.com", "0 of 3 times")
		for range 3 {
			o.Submit(o.Get("/invitations"), "/invitations/resend")
		}
		page = o.says(o.Get("/invitations"), "3 of 3 times")
		o.silent(page, "Send again")
		o.Submit(page, "/invitations/revoke")
		o.says(o.Get("/invitations?status=revoked"), "Revoked or declined")
	})
}

// The excess of a payroll's deposit belongs to the company. It appears on the company's statement page, in the
// exported file, and in the chart. The company can then pay from that wallet.
func TestWalletAndInvoicePages(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		ada := o.d.seed.Workers[0].UserID
		o.says(o.Get("/wallets"), "No balance yet", "No transactions yet")
		for range 2 {
			made := o.d.create(pays("", "1000", ada))
			o.d.deposit(made.PayrollID, "over", "")
			o.d.fulfilled(made.PayrollID)
		}
		page := o.says(o.Get("/wallets?asset=BTC&since=2020-01-01"), "Payroll overpayment", "1 to 2 of 2", "<svg",
			"Balance in BTC over time", "0.00404000\u00a0BTC")
		o.silent(o.says(o.Get("/wallets?asset=EUR"), "Add money by bank transfer", "DE89 3704",
			strings.ToUpper(strings.ReplaceAll(o.d.seed.CompanyID, "_", ""))), "1 to 2 of 2")
		if got := o.says(o.Get("/wallets/statement.pdf?asset=BTC"),
			"%PDF-1"); got.Header.Get("Content-Type") != "application/pdf" ||
			!strings.Contains(got.Header.Get("Content-Disposition"), "statement-BTC-") {
			t.Errorf("%v", got.Header)
		}
		if got := o.Get("/wallets/statement.xml?asset=BTC"); got.Status != http.StatusUnprocessableEntity {
			t.Errorf("a camt.053 file in bitcoin: got status %d, want 422", got.Status)
		}
		o.bankStatement()
		o.says(o.Get("/wallets/statement.csv"), "payroll_surplus,", ",0.00202000,BTC,0.00404000,payroll,")
		o.Submit(page, "/wallets", "asset", "BTC")
		eventually(t, 60*time.Second, "the wallet is active", func() bool {
			return strings.Contains(o.Get("/wallets").Text,
				"Active")
		})
		preview := o.says(o.Submit(o.says(o.Get("/payrolls/new"), "Balance: 0.00404000\u00a0BTC"), "/payrolls/new",
			"amount."+ada, "100", "funding_method", o.wallet()), "<dd>Your balance</dd>")
		paid := o.Submit(preview, "/payrolls")
		o.d.fulfilled(strings.TrimPrefix(paid.Location(), "/payrolls/"))
		o.says(o.Get("/wallets"), "Payroll funding", "\u2212")
		o.says(o.Get("/wallets/statement.csv"), ",-0.00202000,BTC,")
		const coins = "/wallets?asset=BTC"
		simulate := "/wallets/" + o.wallet() + "/sandbox/deposit"
		page = o.says(o.Get(coins), "This address always belongs to your company", "Send only BTC", "Test network (Regtest)",
			"bcrt1", "No deposits yet", `class="qr"`)
		if got := o.Submit(page, simulate, "amount", "none"); got.Status != http.StatusUnprocessableEntity ||
			!strings.Contains(got.Text, "bcrt1") {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		if got := o.Submit(page, simulate, "amount", "0.5"); got.Location() != coins {
			t.Errorf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		eventually(t, 60*time.Second, "the deposit is on the wallet's page",
			func() bool { return strings.Contains(o.Get(coins).Text, ">Deposit<") })
		o.says(o.Get(coins), "0.50202000\u00a0BTC", "0.50000000\u00a0BTC", "Confirmed")
		o.says(o.Get("/overview"), "Paid to payees in USD, by month", "2,100.00\u00a0USD", "<rect")

		o.says(o.Get("/invoices"), "No invoices yet")
		payer := o.d.ok("POST", "/api/user/payer/create",
			`{"user_id":"`+ada+`","name":"Northwind","company_type":"client",`+
				`"payroll_invoice_currency":"USD","is_company":true}`).read(t)["external_company_id"].(string)
		id := o.d.ok("POST", "/api/user/invoice/create",
			`{"user_id":"`+ada+`","external_company_id":"`+payer+`","items":[{"description":"Work <b>","unit_price":100}],`+
				`"notes":"Thanks"}`).read(t)["invoice_id"].(string)
		o.says(o.Get("/invoices?status=sent"), "/invoices/"+id, "Ada Lovelace", "100.00\u00a0USD")
		o.silent(o.says(o.Get("/invoices?status=paid"), "Save search"), id)
		o.says(o.Get("/invoices/"+id), "Work &lt;b&gt;", "Thanks", "100.00\u00a0USD")
		if got := o.Get("/invoices/inv_00000000000000000000000000"); got.Status != http.StatusNotFound {
			t.Errorf("%d", got.Status)
		}
	})
}

// bankStatement fails the test unless the camt.053 file of a balance in dollars agrees with the ledger.
func (o *companyBrowser) bankStatement() {
	o.Helper()
	for i, cents := range []int64{100_00, 20_00} {
		testkit.Check(o, o.s.DB().Write(o.Context(), func(_ context.Context, tx *db.Tx) error {
			a := money.New(money.USD, cents)
			lines := []ledger.Line{ledger.Debit(ledger.Bank, "", a), ledger.Credit(ledger.CompanyFunds, "", a)}
			if i == 1 {
				lines = []ledger.Line{ledger.Debit(ledger.CompanyFunds, "", a), ledger.Credit(ledger.Bank, "", a)}
			}
			return ledger.Post(tx, ledger.Journal{CompanyID: o.d.seed.CompanyID, SourceType: "bank_deposit",
				SourceID: fmt.Sprint("rcp_", i), Purpose: "credit", Lines: lines})
		}))
	}
	o.says(o.Get("/wallets?asset=USD"), "camt.053 (USD)")
	var head iso20022.Statement
	var entries []iso20022.Entry
	testkit.Check(o, iso20022.ReadStatements(strings.NewReader(o.Get("/wallets/statement.xml?asset=USD").Text),
		func(s *iso20022.Statement, e *iso20022.Entry) error {
			if e == nil {
				head = *s
			} else {
				entries = append(entries, *e)
			}
			return nil
		}))
	if len(entries) != 2 || !entries[0].Credit || entries[0].Amount != money.New(money.USD, 100_00) || entries[1].Credit ||
		entries[1].Details[0].EndToEndID != "rcp_1" ||
		len(head.Balances) != 2 || head.Balances[0].Amount != money.Zero(money.USD) ||
		head.Balances[1].Amount != money.New(money.USD, 80_00) {
		o.Errorf("%+v\n%+v", head, entries)
	}
	got := o.d.ok("GET", "/api/wallets/statement?currency=USD&per_page=1&page=2", "").read(o.T)
	if got["opening_balance"] != 0.0 || got["total_in"] != 100.0 || got["total_out"] != 20.0 ||
		got["closing_balance"] != 80.0 || len(got["data"].([]any)) != 1 {
		o.Errorf("%v", got)
	}
	o.says(o.Get("/wallets/statement.pdf?asset=USD&lang=pt"), "%PDF-1")
	o.Get("/wallets?lang=en")
}

// A journal that is longer than Xero imports is an archive of files.
func TestALongJournalIsAnArchive(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	testkit.Check(t, o.s.DB().Write(t.Context(), func(_ context.Context, tx *db.Tx) error {
		for n := range 151 {
			a := money.New(money.USD, int64(n+1))
			if err := ledger.Post(tx, ledger.Journal{CompanyID: o.d.seed.CompanyID, SourceType: "bank_deposit",
				SourceID: fmt.Sprint("rcp_", n), Purpose: "credit", Lines: []ledger.Line{ledger.Debit(ledger.Bank, "", a),
					ledger.Credit(ledger.CompanyFunds, "", a)}}); err != nil {
				return err
			}
		}
		return nil
	}))
	o.says(o.Get("/reports/journal.csv?format=quickbooks"), "JournalNo", ",1.51,")
	text := o.Get("/reports/journal.csv?format=xero").Text
	archive, err := zip.NewReader(strings.NewReader(text), int64(len(text)))
	if err != nil || len(archive.File) != 2 {
		t.Fatalf("%v in %.300q", err, text)
	}
	for n, lines := range []int{1 + 300, 1 + 2} {
		data, err := fs.ReadFile(archive, archive.File[n].Name)
		if got := bytes.Count(data, []byte("\n")); err != nil || got != lines ||
			!bytes.HasPrefix(data, []byte("*Narration,")) {
			t.Errorf("%s has %d lines: %v", archive.File[n].Name, got, err)
		}
	}
}

// wallet returns the ID of the company's wallet.
func (o *companyBrowser) wallet() string {
	o.Helper()
	at := strings.Index(o.Get("/wallets").Text, "<code>wal_")
	if at < 0 {
		o.Fatal("the page shows no wallet")
	}
	id, _, _ := strings.Cut(o.Get("/wallets").Text[at+len("<code>"):], "<")
	return id
}

func TestPeoplePagesInABrowser(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	seed, base := o.d.seed, o.s.Ready().BaseURL
	b := webtest.Start(t)
	p := b.Open(base+"/recipients", webtest.Look{NoScript: true, Width: 320})
	p.Fill("#email", seed.Admin.Email)
	p.Fill("#password", seed.Admin.Password)
	p.Send("form:has(#password) button")
	p.Do(chromedp.Navigate(base + "/invitations"))
	p.Fill("#email", "joan@example.com")
	p.Send("main form[method=post] button")
	for _, path := range []string{
		"/recipients", "/recipients/new", "/recipients/import", "/recipients/" + seed.Recipients[0].RecipientID,
		"/recipients/" + seed.Recipients[0].RecipientID + "/destinations/new?symbol=USD&d.rail=ach",
		"/invitations", "/wallets", "/invoices", "/reports", "/reports/accounts",
	} {
		b.Check(base + path)
	}
	replace := regexp.MustCompile(
		`href="(/recipients/\w+/destinations/\w+/replace)">Replace BTC`).FindStringSubmatch(o.Get("/recipients/" +
		seed.Recipients[0].RecipientID).Text)
	if replace == nil {
		t.Fatal("the page has no link to replace a destination")
	}
	p = b.Open(base+replace[1], webtest.Look{Width: 320, Dark: true})
	p.Audit()
	webtest.Evaluate[string](p, "document.querySelector('[name=\"d.address\"]').value = '"+o.address()+"'")
	p.Send("main form[action$='/check'] button")
	if text := p.Text(); !strings.Contains(text, "Nothing has changed yet") {
		t.Errorf("at %s:\n%s", p.Path(), text)
	}
	p.Audit()
}

// A company enters its details and its owner, uploads documents with a camera or from a file, and is verified.
func TestVerificationInABrowser(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	base, at := o.s.Ready().BaseURL, "/company/verification"
	page := o.says(o.Get(at), "Not started", "No documents uploaded yet.", `capture="environment"`)
	if got := o.Submit(page, at, "country", "", "incorporation_date",
		"2999-01-01", "lei", "506700GE1G29325QX364"); got.Status != http.StatusUnprocessableEntity ||
		!strings.Contains(got.Text, `id="country-problem"`) || !strings.Contains(got.Text,
		`id="incorporation_date-problem"`) || !strings.Contains(got.Text, `id="lei-problem"`) {
		t.Errorf("%d\n%s", got.Status, got.Text)
	}
	if got := o.Submit(page, at, "lei", "506700ge1g29325qx363", "registration_number", "HRB 1",
		"incorporation_date", "2020-01-31", "street_address", "1 Example Street",
		"city", "Springfield"); got.Location() != at {
		t.Fatalf("%d\n%s", got.Status, got.Text)
	}
	page = o.says(o.Get(at), "Documents needed", "<b>Certificate of incorporation", `value="HRB 1"`,
		`value="506700GE1G29325QX363"`)
	if got := o.Submit(page, at+"/owners", "first_name", "Joan", "last_name", "Approved", "date_of_birth", "1980-01-31",
		"owner_country", "us", "ownership_percentage", "101"); got.Status != http.StatusUnprocessableEntity ||
		!strings.Contains(got.Text, `id="ownership_percentage-problem"`) {
		t.Errorf("%d\n%s", got.Status, got.Text)
	}
	if got := o.Submit(page, at+"/owners", "first_name", "Joan", "last_name", "Approved", "date_of_birth", "1980-01-31",
		"owner_country", "us", "ownership_percentage", "62.5", "control", "yes"); got.Location() != at {
		t.Fatalf("%d\n%s", got.Status, got.Text)
	}
	o.says(o.Get(at), "Joan Approved", "62.50\u00a0%")

	picture := filepath.Join(t.TempDir(), "paper.png")
	var data bytes.Buffer
	if err := errors.Join(png.Encode(&data, image.NewGray(image.Rect(0, 0, 8, 8))), os.WriteFile(picture, data.Bytes(),
		0o600)); err != nil {
		t.Fatal(err)
	}
	b := webtest.Start(t)
	p := b.Open(base+at, webtest.Look{NoScript: true, Width: 320})
	p.Fill("#email", o.d.seed.Admin.Email)
	p.Fill("#password", o.d.seed.Admin.Password)
	p.Send("form:has(#password) button")
	const send = "form[enctype='multipart/form-data'] button"
	p.Send(send)
	if !strings.Contains(p.Text(), "Choose an image") {
		t.Errorf("at %s:\n%s", p.Path(), p.Text())
	}
	for _, paper := range []string{"certificate_of_incorporation", "shareholder_register"} {
		p.Do(chromedp.Navigate(base + at))
		webtest.Evaluate[string](p, "document.querySelector('#doc_type').value = '"+paper+"'")
		p.Do(chromedp.SetUploadFiles("#image", []string{picture}))
		p.Send(send)
		if p.Path() != at {
			t.Fatalf("at %s:\n%s", p.Path(), p.Text())
		}
	}
	page = o.says(o.Get(at), "Certificate of incorporation", "Shareholder register", "Submit for verification")
	o.silent(page, "What is still missing")
	b.Check(base + at)
	if got := o.Submit(page, at+"/start"); got.Location() != at {
		t.Fatalf("%d\n%s", got.Status, got.Text)
	}
	o.d.ok("POST", "/api/sandbox/kyb", `{"result":"approved"}`)
	eventually(t, 60*time.Second, "the company's verification waits for its owner",
		func() bool { return strings.Contains(o.Get(at).Text, "Waiting for owners") })
}
