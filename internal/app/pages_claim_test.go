package app_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db/dbtest"
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
		o.says(o.Get("/claims"), "No claims here yet.", `href="/claims/new"`)
		page := o.says(o.Get("/claims/new"), "New claim")
		if got := o.Submit(page, "/claims/new", "amount", "1.001", "denomination_currency", "USD"); got.Status !=
			http.StatusUnprocessableEntity || !strings.Contains(got.Text, `id="amount-problem"`) ||
			!strings.Contains(got.Text, `id="payer_id-problem"`) {
			t.Errorf("a wrong form: %d\n%s", got.Status, got.Text)
		}
		path, id := o.paidClaim("order-<1>")
		other, otherID := o.newClaim("order-2")
		page = o.says(o.Get("/claims"), "order-&lt;1&gt;", "order-2", "Awaiting payment", "100.00\u00a0USD",
			"Earned per month in USD")
		o.silent(o.says(o.Get("/claims?search=ORDER-&status=paid&amount=100&currency=USD&since=2020-01-01"),
			"order-&lt;1&gt;"), otherID)
		o.silent(o.Get("/claims?amount=99&currency=USD"), id, otherID)
		sheet := o.says(o.Get("/claims/export.csv?search=order-2"), otherID+",order-2,")
		o.silent(sheet, id)
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
		o.says(o.Get("/wallets"), "From claims", "99.00<")
		o.says(o.Get("/overview"), "99.00\u00a0USD more from claims, not settled yet")

		page = o.says(o.Get(path), "Refund the payer", "payer@example.com", "Paid",
			"/pay/"+id, `value="100.00"`)
		check := path + "/refunds/check"
		if got := o.Submit(page, check, "amount", "100.01"); got.Status != http.StatusUnprocessableEntity ||
			!strings.Contains(got.Text, `id="amount-problem"`) {
			t.Errorf("a refund of too much: %d\n%s", got.Status, got.Text)
		}
		sure := o.says(o.Submit(page, check, "amount", "50", "rate", "paid"), "0.001", "50.00\u00a0USD", "Refund 50.00")
		made := o.says(o.Submit(sure, path+"/refunds"), "Refund link for the payer")
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
		eventually(t, 60*time.Second, "the refund arrives", func() bool {
			return o.d.ok("GET", "/api/merchant/claim/status?claim_id="+id, "").read(t)["refunded_amount"] == "0.00100000"
		})
		o.says(o.Get(path), "Refunded", "Refund: On its way")

		// The rest of the money is settled.
		page = o.says(o.Get("/claims/settlements"), "49.00\u00a0USD", "No settlements yet.")
		if got := o.Submit(page, "/claims/settlements", "currency", "USD", "amount", "50"); got.Status != 409 ||
			!strings.Contains(got.Text, "too low") {
			t.Errorf("a settlement of too much: %d\n%s", got.Status, got.Text)
		}
		if got := o.Submit(page, "/claims/settlements", "currency", "USD"); got.Location() != "/claims/settlements" {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		o.silent(o.says(o.Get("/claims/settlements"), "Nothing to settle.", "49.00\u00a0USD"), "No settlements yet.")
		o.says(o.Get("/wallets"), "Settlement of claims")

		if got := o.Submit(o.Get(other), other+"/cancel"); got.Location() != other {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		o.silent(o.says(o.Get(other), "Canceled"), other+"/cancel")

		const settings = "/claims/settings"
		page = o.says(o.Get(settings), "Late payments")
		if got := o.Submit(page, settings, "tolerance_bps", "501", "origins", "http://shop.example"); got.Status !=
			http.StatusUnprocessableEntity || !strings.Contains(got.Text, `id="tolerance_bps-problem"`) ||
			!strings.Contains(got.Text, `id="origins-problem"`) {
			t.Errorf("wrong settings: %d\n%s", got.Status, got.Text)
		}
		if got := o.Submit(page, settings, "tolerance_bps", "50", "late_policy", "requote", "origins",
			"https://shop.example\nhttps://other.example", "support_email", "help@shop.example"); got.Location() != settings {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		o.says(o.Get(settings), `value="50"`, `value="requote" selected`, "https://other.example", "help@shop.example")
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
	o.says(o.Get("/overview"), "Claims paid late that need your decision: 1", "/claims?status=paid_late")
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
	p.Send("main button")
	p.Audit()
	for _, at := range []string{"/claims", "/claims/new", path, "/claims/settlements", "/claims/settings"} {
		b.Check(base + at)
		for _, look := range []webtest.Look{{Width: 390}, {Width: 1440, Dark: true}} {
			b.Open(base+at, look).Audit()
		}
	}
	p = b.Open(base+path, webtest.Look{Width: 390})
	p.Fill("#amount", "10")
	p.Send(`form[action$="/check"] button`)
	p.Audit()
}
