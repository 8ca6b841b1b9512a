package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"image"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

var claimPathRegexp = regexp.MustCompile(`^/claims/clm_\w+$`)

// newClaim creates a claim on the pages and returns its path and ID.
func (o *companyBrowser) newClaim(order string) (path, id string) {
	o.Helper()
	got := o.Submit(o.says(o.Get("/claims/new"), "New claim"), "/claims/new", "amount", "100",
		"denomination_currency", "USD", "payer_id", "customer-1", "external_id", order,
		"notification_email", "payer@example.com")
	if !claimPathRegexp.MatchString(got.Location()) {
		o.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
	}
	return got.Location(), strings.TrimPrefix(got.Location(), "/claims/")
}

// paidClaim returns the path and ID of a claim of 100 USD that was paid.
func (o *companyBrowser) paidClaim(order string) (path, id string) {
	o.Helper()
	path, id = o.newClaim(order)
	o.d.payClaim(id, "exact", "")
	o.d.claimIs(id, "paid", "none")
	return path, id
}

// A merchant creates a claim, is paid, refunds half of it to the payer, settles, and exports the month, on the pages.
func TestClaimPages(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		o.says(o.Get("/claims"), "No claims yet", `href="/claims/new"`)
		page := o.says(o.Get("/claims/new"), "New claim")
		if got := o.Submit(page, "/claims/new", "amount", "1.001", "denomination_currency", "USD"); got.Status !=
			http.StatusUnprocessableEntity || !strings.Contains(got.Text, `id="amount-problem"`) ||
			!strings.Contains(got.Text, `id="payer_id-problem"`) {
			t.Errorf("a wrong form: %d\n%s", got.Status, got.Text)
		}
		ends := []string{"amount", "5", "denomination_currency", "USD", "payer_id", "c", "expires_in", "3600", "redirect_url"}
		if got := o.Submit(page, "/claims/new", append(ends, "https://shop.invalid/x")...); got.Status !=
			http.StatusUnprocessableEntity || !strings.Contains(got.Text, `id="redirect_url-problem"`) ||
			!strings.Contains(got.Text, "This website isn’t listed in your claim settings") ||
			!strings.Contains(got.Text, `value="https://shop.invalid/x"`) ||
			!strings.Contains(got.Text, `value="3600" selected`) {
			t.Errorf("a page that is not the merchant's: %d\n%s", got.Status, got.Text)
		}
		for field, value := range map[string]string{"line_items": "2; Coffee", "metadata": "table 12"} {
			if got := o.Submit(page, "/claims/new", append(ends, "", field, value)...); got.Status !=
				http.StatusUnprocessableEntity || !strings.Contains(got.Text, `id="`+field+`-problem"`) {
				t.Errorf("%s %q: %d\n%s", field, value, got.Status, got.Text)
			}
		}
		ending := strings.TrimPrefix(o.Submit(page, "/claims/new", append(ends, "", "line_items",
			"2; Coffee; 3.50\n1;Tea;1.5", "metadata", "table: 12\n\nwaiter: Kim: the tall one\n")...).Location(), "/claims/")
		got := o.d.ok("GET", "/api/merchant/claim/status?claim_id="+ending, "").read(t)
		want := `[{"amount":"3.50","description":"Coffee","quantity":2},{"amount":"1.50","description":"Tea","quantity":1}]`
		items, err := json.Marshal(got["line_items"])
		if err != nil || string(items) != want || got["expires_at"] == nil ||
			fmt.Sprint(got["metadata"]) != "map[table:12 waiter:Kim: the tall one]" {
			t.Errorf("%s of %v", items, got)
		}
		path, id := o.paidClaim("=order-<1>")
		other, otherID := o.newClaim("order-2")
		for query, problem := range map[string]string{
			"amount=10": `id="currency-problem"`, "amount=ten&currency=USD": `id="amount-problem"`,
			"amount=1.001&currency=USD": `id="amount-problem"`,
		} {
			o.silent(o.says(o.Get("/claims?"+query), problem), "order-2")
			if got := o.Get("/claims/export.csv?" + query); got.Status != http.StatusUnprocessableEntity {
				t.Errorf("export by %s: status %d", query, got.Status)
			}
		}
		o.says(o.Get("/claims"), "=order-&lt;1&gt;", "order-2", "Awaiting payment", "100.00\u00a0USD",
			"Earned per month in USD")
		o.silent(o.says(o.Get("/claims?search=%3DORDER-&status=paid&amount=100&currency=USD&since=2020-01-01"),
			"=order-&lt;1&gt;"), otherID)
		o.silent(o.Get("/claims?amount=99&currency=USD"), id, otherID)
		sheet := o.says(o.Get("/claims/export.csv?search=order-2"), otherID+",order-2,")
		o.silent(sheet, id)
		// A member saves a search, applies it, and deletes it. A filter cannot lead to another site.
		const filtered = "/claims?search=order-2&status=awaiting_payment"
		page = o.says(o.Get(filtered+"&page=1"), "Save search")
		if got := o.Submit(page, "/searches", "name", "Open <orders>"); got.Location() != filtered {
			t.Errorf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		page = o.says(o.Get("/claims"), "Open &lt;orders&gt;", `href="`+html.EscapeString(filtered)+`"`)
		o.silent(page, "Save search")
		o.silent(o.Get("/payrolls"), "Open &lt;orders&gt;")
		page = o.says(o.Get(filtered), "Delete “Open &lt;orders&gt;”", otherID)
		o.silent(page, "Save search", id)
		for _, wrong := range [][]string{{"name", "Another", "list", "//evil.example"}, {"name", ""},
			{"name", strings.Repeat("x", 61)}} {
			if got := o.Submit(o.Get("/claims?status=paid"), "/searches", wrong...); got.Status < 400 {
				t.Errorf("%v: %d", wrong, got.Status)
			}
		}
		if got := o.Submit(page, "/searches/delete"); got.Location() != "/claims" {
			t.Errorf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		page = o.Get("/claims")
		o.silent(page, "Open &lt;orders&gt;")
		month := page.Header.Get("Date")
		at, err := http.ParseTime(month)
		if err != nil {
			t.Fatal(err)
		}
		o.says(o.Get("/claims/month.csv?month="+at.UTC().Format("2006-01")), id, otherID, ",99.00,1.00,USD,")
		if got := o.Get("/claims/month.csv?month=x"); got.Status != http.StatusUnprocessableEntity {
			t.Errorf("an invalid month: %d", got.Status)
		}

		// What claims earned is visible before it is settled.
		o.says(o.Get("/wallets"), "99.00\u00a0USD more from claims, not settled yet")
		o.says(o.Get("/overview"), "99.00\u00a0USD more from claims, not settled yet")

		page = o.says(o.Get(path), "Refund the payer", "payer@example.com", "Paid",
			"/pay/"+id, `value="100.00"`)
		check := path + "/refunds/check"
		if got := o.Submit(page, check, "amount", "100.01"); got.Status != http.StatusUnprocessableEntity ||
			!strings.Contains(got.Text, `id="amount-problem"`) {
			t.Errorf("a refund of too much: %d\n%s", got.Status, got.Text)
		}
		sure := o.says(o.Submit(page, check, "amount", "50", "rate", "paid"), "0.001", "50.00\u00a0USD", "Refund 50.00")
		made := o.says(o.Submit(sure, path+"/refunds"), "Refund link for the payer",
			"We emailed this link to payer@example.com")
		link := regexp.MustCompile(`/pay/` + id + `/refund/\w+`).FindString(made.Text)
		if got := o.Submit(sure, path+"/refunds"); got.Status != http.StatusConflict {
			t.Errorf("the form sent twice: %d\n%s", got.Status, got.Text)
		}
		o.says(o.Get(path), "Offered", `value="50.00"`)
		payer := webtest.NewVisitor(t, o.s.Ready().BaseURL)
		ask := o.says(payer.Submit(o.says(payer.Get(link), "Get your refund"), link+"/check", "address", payersOwn),
			"Is this your address?")
		if got := payer.Submit(ask, link); got.Location() != "/pay/"+id {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		if again := payer.Get(link); again.Status != http.StatusNotFound || !again.Contains("refund link was already used") {
			t.Errorf("a link of a refund that was accepted: %d\n%s", again.Status, again.Text)
		}
		eventually(t, 60*time.Second, "the refund arrives", func() bool {
			return o.d.ok("GET", "/api/merchant/claim/status?claim_id="+id, "").read(t)["refunded_amount"] == "0.00100000"
		})
		steps := o.says(o.Get(path), "Refund: Refunded", "Refund: On its way", "Refund: Offered").Text
		if done, sent := strings.Index(steps, "Refund: Refunded"), strings.Index(steps, "Refund: On its way"); done > sent ||
			sent > strings.Index(steps, "Refund: Offered") {
			t.Error("the timeline is not in order, the newest first")
		}

		// The rest of the money is settled.
		page = o.says(o.Get("/claims/settlements"), "49.00\u00a0USD", "No settlements yet")
		if got := o.Submit(page, "/claims/settlements", "currency", "USD", "amount", "50"); got.Status != 409 ||
			!strings.Contains(got.Text, "too low") {
			t.Errorf("a settlement of too much: %d\n%s", got.Status, got.Text)
		}
		if got := o.Submit(page, "/claims/settlements", "currency", "USD"); got.Location() != "/claims/settlements" {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		page = o.says(o.Get("/claims/settlements"), "Nothing to settle", "49.00\u00a0USD")
		o.silent(page, "No settlements yet")
		statement := regexp.MustCompile(`/claims/settlements/stl_\w+`).FindString(page.Text)
		o.says(o.Get(statement), "100.00\u00a0USD", "Refund", "=order-&lt;1&gt;", "−50.00", "You received")
		o.says(o.Get(statement+"/statement.csv"), ",claim,"+id+",'=order-<1>,,100.00,1.00,99.00,USD,",
			",settlement,,,,-49.00,")
		if got := o.Get(statement + "/statement.pdf"); !strings.HasPrefix(got.Text, "%PDF") {
			t.Errorf("the PDF: %d", got.Status)
		}
		o.says(o.Get("/wallets"), "Claim settlement")

		if got := o.Submit(o.Get(other), other+"/cancel"); got.Location() != other {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		o.silent(o.says(o.Get(other), "Canceled"), other+"/cancel")

		const settings = "/claims/settings"
		page = o.says(o.Get(settings), "Late payments")
		if got := o.Submit(page, settings, "tolerance_bps", "5.01", "origins", "http://shop.example"); got.Status !=
			http.StatusUnprocessableEntity || !strings.Contains(got.Text, `id="tolerance_bps-problem"`) ||
			!strings.Contains(got.Text, `id="origins-problem"`) {
			t.Errorf("wrong settings: %d\n%s", got.Status, got.Text)
		}
		if got := o.Submit(page, settings, "tolerance_bps", "0.5", "late_policy", "requote", "settlement_schedule", "weekly",
			"settlement_time_zone", "Europe/Paris", "settlement_day", "friday", "settlement_convert_to", "EUR", "origins",
			"https://shop.example\nhttps://other.example"); got.Location() != settings {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		o.says(o.Get(settings), `value="0.50"`, `value="requote" selected`, "Europe/Paris",
			`value="friday" selected`, `value="EUR" selected`, "https://other.example")
		o.d.checkLedgerBalances()
	})
}

// Above the company's limit, a refund is offered once a second person approved it on the page of the claim.
func TestRefundsAreApprovedOnThePages(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	path, id := o.paidClaim("order-1")
	other, _ := o.colleague()
	const limits = "/settings/approvals"
	if got := o.Submit(o.Get(limits), limits, "limit", "10", "limit_currency", "USD"); got.Location() != limits {
		t.Fatalf("%d", got.Status)
	}
	sure := o.says(o.Submit(o.Get(path), path+"/refunds/check", "amount", "20"), "Someone else needs to approve it")
	made := o.says(o.Submit(sure, path+"/refunds"), "Refund link for the payer")
	link := regexp.MustCompile(`/pay/` + id + `/refund/\w+`).FindString(made.Text)
	if got := o.Get(link); got.Status != http.StatusNotFound {
		t.Errorf("the link works before the approval: %d", got.Status)
	}
	o.says(o.Get("/overview"), "A refund of 20.00\u00a0USD needs approval", path)
	o.silent(o.says(o.Get(path), "Needs approval", "Approvals: 0 of 1.", "/decline"), "/approve")
	approve := regexp.MustCompile(`/claims/\w+/refunds/\w+/approve`)
	page := o.says(other.Get(path), "Needs approval")
	if got := other.Submit(page, approve.FindString(page.Text)); got.Location() != path {
		t.Fatalf("%d\n%s", got.Status, got.Text)
	}
	o.says(o.Get(link), "Get your refund")
	page = o.says(o.Get(path), "Offered", "Cancel refund")
	if got := o.Submit(page, regexp.MustCompile(`/claims/\w+/refunds/\w+/cancel`).FindString(page.Text)); got.Location() !=
		path {
		t.Errorf("%d\n%s", got.Status, got.Text)
	}
	o.says(o.Get(path), "Withdrawn", `value="100.00"`)

	// Money that came late is the merchant's decision.
	late, lateID := o.newClaim("order-2")
	o.d.payClaim(lateID, "late", "")
	o.d.claimIs(lateID, "paid_late", "late")
	o.says(o.Get("/overview"), "1 claim was paid late and needs your decision", "/claims?status=paid_late")
	if got := o.Submit(o.says(o.Get(late), "Refund what arrived"), late+"/renew"); got.Location() != late {
		t.Errorf("%d\n%s", got.Status, got.Text)
	}
	o.says(o.Get(late), ">Paid")
	over, overID := o.newClaim("order-3")
	o.d.payClaim(overID, "over", "")
	o.d.claimIs(overID, "paid", "overpaid")
	o.says(o.Submit(o.says(o.Get(over), "Overpaid"), over+"/offer"), "Refund link for the payer")
	o.d.checkLedgerBalances()
}

// A merchant's name, color, texts and languages appear on the pages of the payer, as text only.
func TestBrandingOfPages(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		const path = "/claims/branding"
		page := o.says(o.Get(path), `value="#0e4633"`, "Button text has a contrast")
		// A refused form keeps what was entered, and stores nothing.
		if got := o.Submit(page, path, "display_name", "PayPal", "thank_you", "See you.", "support_email",
			"nobody"); got.Status != http.StatusUnprocessableEntity || !got.Contains(`id="display_name-problem"`) ||
			!got.Contains(`id="support_email-problem"`) || !got.Contains(`value="See you."`) {
			t.Errorf("a wrong form: %d\n%s", got.Status, got.Text)
		}
		o.silent(o.Get(path), "See you.")
		form := []string{"display_name", "Corner Books", "accent_color", "#ffd400", "headline", "<script>alert(1)</script>",
			"thank_you", "Enjoy your books.", "support_email", "help@books.example", "languages", "fr", "languages", "en"}
		_, values := webtest.Form(t, page.Text, path)
		for i := 0; i < len(form); i += 2 {
			values.Set(form[i], form[i+1])
		}
		o.says(o.Post(path+"/preview", values), "Corner Books", "darkened to", `href="/theme/ffd400.css"`)
		o.silent(o.Get(path), "Enjoy your books.")
		if got := o.Submit(page, path, form...); got.Location() != path {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		if css := o.says(o.Get("/theme/ffd400.css"), "--brand"); !strings.HasPrefix(css.Header.Get("Content-Type"),
			"text/css") || !strings.Contains(css.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%v", css.Header)
		}
		for _, wrong := range []string{"/theme/red.css", "/logo/x.png", "/logo/x"} {
			if got := o.Get(wrong); got.Status != http.StatusNotFound {
				t.Errorf("%s: %d", wrong, got.Status)
			}
		}
		_, id := o.paidClaim("order-1")
		payer := webtest.NewVisitor(t, o.s.Ready().BaseURL)
		receipt := o.says(payer.Get("/pay/"+id), `lang="en"`, "Pay Corner Books", `href="/theme/ffd400.css"`,
			"Enjoy your books.", "help@books.example", "&lt;script&gt;alert(1)", "Français")
		o.silent(receipt, "Español", "<script>alert")
		// A language that is not offered becomes the first that is.
		o.says(payer.Get("/pay/"+id+"?lang=es"), `lang="fr"`)
	})
}

func TestClaimPagesInABrowser(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	path, _ := o.paidClaim("order-1")
	sure := o.says(o.Submit(o.Get(path), path+"/refunds/check", "amount", "20"), "Review refund")
	o.says(o.Submit(sure, path+"/refunds"), "Refund link")
	seed, base := o.d.seed, o.s.Ready().BaseURL
	b := webtest.Start(t)
	p := b.Open(base+"/claims", webtest.Look{Width: 390})
	p.Fill("#email", seed.Admin.Email)
	p.Fill("#password", seed.Admin.Password)
	p.Send("form:has(#password) button")
	p.Audit()
	logo := filepath.Join(t.TempDir(), "logo.png")
	var file bytes.Buffer
	testkit.Check(t, png.Encode(&file, image.NewNRGBA(image.Rect(0, 0, 300, 300))))
	testkit.Check(t, os.WriteFile(logo, file.Bytes(), 0o600))
	p = b.Open(base+"/claims/branding", webtest.Look{Width: 390})
	p.Do(chromedp.SetUploadFiles("#logo", []string{logo}))
	p.Send(`form[action$="/logo"] button`)
	// The preview follows the form.
	p.Fill("#display_name", "Corner Books")
	webtest.Evaluate[bool](p, `(() => {
		const color = document.querySelector("#accent_color")
		color.value = "#ffd400"
		return color.dispatchEvent(new Event("input", {bubbles: true}))
	})()`)
	p.Do(chromedp.Poll[chromedp.Void](`
		getComputedStyle(document.querySelector(".pay .btn")).backgroundColor !== "rgb(14, 70, 51)" &&
		document.querySelector(".pay img.logo").naturalWidth === 256 &&
		document.querySelector("[data-contrast]").hidden`))
	if got := webtest.Evaluate[string](p, `document.querySelector("[data-show=display_name]").textContent`); got !=
		"Corner Books" {
		t.Errorf("the preview shows %q", got)
	}
	p.Send(`form[action$="/branding"] .btn.primary`)
	_, claimID := o.newClaim("order-2")
	linkPath, linkID := o.newLink("title", "Donation", "suggested_amounts", "5 10")
	for _, at := range []string{"/claims", "/claims/new", path, "/claims/settlements", "/claims/settings",
		"/claims/branding", "/pay/" + claimID, "/claims/links", "/claims/links/new", linkPath, "/pay/" + linkID} {
		b.Check(base + at)
	}
	p = b.Open(base+path, webtest.Look{Width: 390})
	p.Fill("#amount", "10")
	p.Send(`form[action$="/check"] button`)
	p.Audit()
}

// In a sandbox with a simulated Lightning node, a claim is paid over Lightning on its page, and half of it is refunded.
func TestAClaimIsPaidOverLightningOnThePages(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t), func(c *app.Config) {
		c.LndURL, c.Explorer = app.SimulatedLnd, map[string]string{"regtest": "https://explorer.example/tx/{tx}"}
	})
	path, id := o.newClaim("order-1")
	o.d.invoiceOf(id, 200_000)
	pay := path + "/sandbox/deposit"
	page := o.says(o.Get(path), `value="BTC/lightning"`)
	if got := o.Submit(page, pay, "option", "BTC/lightning", "kind", "under"); got.Status !=
		http.StatusUnprocessableEntity {
		t.Errorf("too little over Lightning: %d", got.Status)
	}
	if got := o.Submit(page, pay, "option", "BTC/lightning", "kind", "exact"); got.Location() != path {
		t.Fatalf("%d\n%s", got.Status, got.Text)
	}
	o.d.claimIs(id, "paid", "none")
	page = o.says(o.Get(path), "Refund the payer")
	sure := o.says(o.Submit(page, path+"/refunds/check", "amount", "50"), "Refund 50.00")
	made := o.says(o.Submit(sure, path+"/refunds"), "Refund link for the payer")
	link := regexp.MustCompile(`/pay/` + id + `/refund/\w+`).FindString(made.Text)
	payer := webtest.NewVisitor(t, o.s.Ready().BaseURL)
	ask := o.says(payer.Submit(o.says(payer.Get(link), "Get your refund"), link+"/check", "address", payersOwn),
		"Is this your address?")
	if got := payer.Submit(ask, link); got.Location() != "/pay/"+id {
		t.Fatalf("%d\n%s", got.Status, got.Text)
	}
	o.silent(o.Get(path), "explorer.example") // a Lightning payment is on no chain
	chained, chainedID := o.newClaim("order-3")
	o.says(o.Get(chained), "/pay/"+chainedID)
	tx := o.d.payClaim(chainedID, "exact", "")
	o.d.claimIs(chainedID, "paid", "none")
	o.says(o.Get(chained), `href="https://explorer.example/tx/`+tx+`"`)
	over, overID := o.newClaim("order-2")
	o.d.invoiceOf(overID, 200_000)
	if got := o.Submit(o.Get(over), over+"/sandbox/deposit", "option", "BTC/lightning", "kind",
		"over"); got.Location() != over {
		t.Fatalf("%d\n%s", got.Status, got.Text)
	}
	o.d.claimIs(overID, "paid", "overpaid")

	// The payer gets the excess back over Lightning, less the largest fee. A payment that fails is offered again.
	made = o.says(o.Submit(o.Get(over), over+"/offer"), "Refund link for the payer")
	link = regexp.MustCompile(`/pay/` + overID + `/refund/\w+`).FindString(made.Text)
	check := func(to string) webtest.Visit {
		t.Helper()
		return payer.Submit(o.says(payer.Get(link), "a Lightning address", "0.00019940"), link+"/check", "address", to)
	}
	_, other := o.newClaim("order-4")
	for to, want := range map[string]string{
		"lnbcrt1nonsense":             "not a Lightning invoice",
		o.d.invoiceOf(other, 200_000): "exactly 0.00019940 BTC",
	} {
		if got := check(to); got.Status != http.StatusUnprocessableEntity || !got.Contains(want) {
			t.Errorf("%s: %d\n%s", to, got.Status, got.Text)
		}
	}
	refund := func() object { return o.d.claimStatus(overID)["refunds"].([]any)[0].(object) }
	const refuses = "refuses@wallet.example"
	sure = o.says(check(refuses), "Is this your address?", refuses, "0.00000060")
	if got := payer.Submit(sure, link); got.Location() != "/pay/"+overID {
		t.Fatalf("%d\n%s", got.Status, got.Text)
	}
	eventually(t, 60*time.Second, "the refund that was refused is offered again", func() bool {
		return payer.Get(link).Status == http.StatusOK
	})
	if got := refund(); got["network"] != "regtest" {
		t.Errorf("the refund that is offered again: %v", got)
	}
	if got := payer.Submit(check(" Ana@Wallet.Example "), link); got.Location() != "/pay/"+overID {
		t.Fatalf("%d\n%s", got.Status, got.Text)
	}
	eventually(t, 60*time.Second, "the refund is paid", func() bool { return refund()["status"] == "paid" })
	if got := refund(); got["network"] != "lightning" || len(got["tx_hash"].(string)) != 64 {
		t.Errorf("the refund over Lightning: %v", got)
	}
	o.says(payer.Get("/pay/"+overID), "We sent 0.00019940\u00a0BTC back to you, to ana@wallet.example.")
	o.silent(o.Get(over), "explorer.example")
	o.d.checkLedgerBalances()
}
