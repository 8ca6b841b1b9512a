package app_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/web/webtest"
)

var linkPathRegexp = regexp.MustCompile(`^/claims/links/(plk_\w+)$`)

// newLink creates a payment link on the pages and returns its path and ID.
func (o *companyBrowser) newLink(pairs ...string) (path, id string) {
	o.Helper()
	got := o.Submit(o.says(o.Get("/claims/links/new"), "New payment link"), "/claims/links/new", append(pairs,
		"denomination_currency", "USD")...)
	match := linkPathRegexp.FindStringSubmatch(got.Location())
	if match == nil {
		o.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
	}
	return match[0], match[1]
}

// Each opening of a payment link creates one claim. A link for one payment takes no second one while the first payer
// can pay, and the place is free again when that time has passed.
func TestPaymentLinks(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		wrong := o.Submit(o.Get("/claims/links/new"), "/claims/links/new", "title", "", "amount", "1.001",
			"denomination_currency", "USD", "description", "Kept text")
		if wrong.Status != http.StatusUnprocessableEntity || !wrong.Contains(`id="title-problem"`) ||
			!wrong.Contains(`id="amount-problem"`) || !wrong.Contains(`value="Kept text"`) {
			t.Errorf("a wrong form: %d\n%s", wrong.Status, wrong.Text)
		}
		path, id := o.newLink("title", "Concert <ticket>", "amount", "25", "max_payments", "1")
		public := "/pay/" + id
		payer := webtest.NewVisitor(t, o.s.Ready().BaseURL)
		page := o.says(payer.Get(public), "Concert &lt;ticket&gt;", "25.00", "Continue to payment",
			`<meta property="og:title" content="Concert &lt;ticket&gt;">`, ` · 25.00`)
		open := func(page webtest.Visit, pairs ...string) webtest.Visit {
			return payer.Submit(page, public, pairs...)
		}
		first := open(page)
		if !strings.HasPrefix(first.Location(), "/pay/clm_") {
			t.Fatalf("%d to %q\n%s", first.Status, first.Location(), first.Text)
		}
		// The form sent twice leads to the same claim.
		if again := open(page); again.Location() != first.Location() {
			t.Errorf("%q, then %q", first.Location(), again.Location())
		}
		// Another payer finds no place, also with a form that was loaded before.
		o.silent(o.says(payer.Get(public), "All payments are taken or in progress"), "Continue to payment")
		if got := open(page, "opening", "another"); got.Status != http.StatusConflict {
			t.Errorf("a second payer: %d\n%s", got.Status, got.Text)
		}
		o.says(o.Get(path), "0 of 1", strings.TrimPrefix(first.Location(), "/pay/"), "Awaiting payment", "<svg class=\"qr\"")

		// The first payer does not pay in time, and the second one does.
		o.d.advance(36 * time.Minute)
		eventually(t, 30*time.Second, "the place is free", func() bool {
			return payer.Get(public).Contains("Continue to payment")
		})
		second := open(payer.Get(public))
		claimID := strings.TrimPrefix(second.Location(), "/pay/")
		if second.Location() == first.Location() || claimID == "" {
			t.Fatalf("%d to %q\n%s", second.Status, second.Location(), second.Text)
		}
		o.d.payClaim(claimID, "exact", "")
		o.d.claimIs(claimID, "paid", "none")
		eventually(t, 30*time.Second, "the payment is counted", func() bool {
			return fmt.Sprint(o.d.ok("GET", "/api/merchant/payment-links/"+id, "").read(t)["paid_count"]) == "1"
		})
		o.says(payer.Get(public), "no longer accepts payments")
		o.says(o.Get("/claims/links"), "1 of 1", "Ended")

		// The page that follows the payment is changed later, and only to an allowed origin.
		o.d.ok("POST", "/api/merchant/settings", `{"origins":["https://shop.example"]}`)
		got := o.Submit(o.Get(path), path+"/redirect", "redirect_url", "https://evil.example/")
		if got.Status != http.StatusUnprocessableEntity || !got.Contains(`id="redirect_url-problem"`) {
			t.Errorf("another origin: %d\n%s", got.Status, got.Text)
		}
		o.Submit(o.Get(path), path+"/redirect", "redirect_url", "https://shop.example/thanks")
		o.says(o.Get(path), `value="https://shop.example/thanks"`)

		// The payer chooses the amount of a donation.
		_, id = o.newLink("title", "Donation", "min_amount", "2", "suggested_amounts", "5 10")
		public = "/pay/" + id
		page = o.says(payer.Get(public+"?amount=7"), "At least", "5.00", `value="7"`)
		if got := open(page, "amount", "1"); got.Status != http.StatusUnprocessableEntity ||
			!got.Contains(`id="amount-problem"`) {
			t.Errorf("too little: %d\n%s", got.Status, got.Text)
		}
		donated := open(page, "amount", "7.50")
		o.says(payer.Get(donated.Location()), "7.50\u00a0USD", "Donation")

		// A form that was loaded before the link became inactive, or ended, is refused. Claims that are open stay open.
		refused := func(why string) {
			t.Helper()
			if got := open(page, "opening", why, "amount", "7.50"); got.Status != http.StatusConflict ||
				!got.Contains("no longer accepts payments") {
				t.Errorf("%s: %d\n%s", why, got.Status, got.Text)
			}
			o.silent(o.says(payer.Get(public), "no longer accepts payments"), "Continue to payment")
		}
		change := func(members string) map[string]any {
			return o.d.ok("PATCH", "/api/merchant/payment-links/"+id, members).read(t)
		}
		change(`{"active":false}`)
		refused("inactive")
		o.says(payer.Get(donated.Location()), "7.50\u00a0USD")
		created, err := time.Parse(time.RFC3339Nano, fmt.Sprint(change(`{"active":true}`)["updated"]))
		if err != nil {
			t.Fatal(err)
		}
		change(`{"ends_at":"` + created.Add(2*time.Hour).Format(time.RFC3339) + `"}`)
		o.says(payer.Get(public), "Continue to payment")
		o.d.advance(3 * time.Hour)
		refused("ended")
		if n := o.d.count(`SELECT COUNT(*) FROM claims WHERE link_id = '` + id + `'`); n != 1 {
			t.Errorf("the link created %d claims", n)
		}
		o.d.checkLedgerBalances()
	})
}

// One network opens only so many claims of payment links at once, on the pages and by x402 together, and payers of all
// networks only so many claims of a company in a minute. The merchant's own claims go on.
func TestPayersOfLinksShareOneLimit(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database, func(c *app.Config) { c.ClaimsPerMinute = 0 })
		o.exhaustLinks(20)
	})
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database, func(c *app.Config) { c.ClaimsPerMinute = 4 })
		o.exhaustLinks(4)
	})
}

// exhaustLinks opens as many claims of a payment link as are allowed, on the page and by x402 in turn, checks that both
// then refuse more, and creates a claim of the merchant.
func (o *companyBrowser) exhaustLinks(allowed int) {
	o.Helper()
	_, id := o.newLink("title", "Donation", "funding_currency", "any")
	public, x402 := "/pay/"+id, "/api/x402/"+id+"?amount=5"
	payer := webtest.NewVisitor(o.T, o.s.Ready().BaseURL)
	page := payer.Get(public)
	open := func(key string) int {
		return payer.Submit(page, public, "opening", key, "amount", "5").Status
	}
	for i := range allowed / 2 {
		if first, second := open(fmt.Sprint("page-", i)), payer.Get(x402).Status; first != http.StatusSeeOther ||
			second != http.StatusPaymentRequired {
			o.Fatalf("opening %d: %d on the page, %d by x402", i, first, second)
		}
	}
	pages, requests := 0, 0
	for i := range 5 { // the limit of a network recovers by one claim in ten seconds
		if open(fmt.Sprint("more-", i)) == http.StatusTooManyRequests {
			pages++
		}
		if payer.Get(x402).Status == http.StatusTooManyRequests {
			requests++
		}
	}
	if pages == 0 || requests == 0 {
		o.Errorf("after %d claims, %d of 5 openings on the page and %d by x402 are refused", allowed, pages, requests)
	}
	o.d.ok("POST", claimPath, `{"payer_id":"customer-1","amount":100,"denomination_currency":"USD"}`)
}
