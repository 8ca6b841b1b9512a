package app_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/web/webtest"
)

const salesPath = "/claims/sales"

// claimCount returns the number of the company's claims.
func (o *companyBrowser) claimCount() int {
	return strings.Count(o.Get("/claims").Text, `<td role="cell" data-label="Order"`)
}

// A sale with a tip becomes one claim, also if its form is sent twice. Its page shows the code and the payment.
func TestPointOfSale(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		page := o.says(o.Get(salesPath+"?currency=EUR"), "Point of sale", `value="EUR" selected`, `inputmode="decimal"`)
		wrong := o.Submit(page, salesPath, "amount", "1.001", "tip_amount", "x", "description", "Kept")
		if wrong.Status != http.StatusUnprocessableEntity || !wrong.Contains(`id="amount-problem"`) ||
			!wrong.Contains(`value="Kept"`) {
			t.Errorf("a wrong form: %d\n%s", wrong.Status, wrong.Text)
		}
		for _, tip := range []string{"7", "-5", "x"} {
			if got := o.Submit(page, salesPath, "amount", "10", "tip", tip); got.Status != http.StatusUnprocessableEntity {
				t.Errorf("tip %s: %d", tip, got.Status)
			}
		}
		if got := o.Submit(page, salesPath, "amount", "10", "sale", "order-1"); got.Status != http.StatusUnprocessableEntity {
			t.Errorf("a key of another kind: %d", got.Status)
		}
		// 15 percent of 10.05 is 1.5075.
		first := o.Submit(page, salesPath, "amount", "10.05", "tip", "15", "description", "Table 4")
		if !strings.HasPrefix(first.Location(), salesPath+"/clm_") {
			t.Fatalf("%d to %q\n%s", first.Status, first.Location(), first.Text)
		}
		if again := o.Submit(page, salesPath, "amount", "10.05", "tip", "15", "description",
			"Table 4"); again.Location() != first.Location() {
			t.Errorf("%q, then %q", first.Location(), again.Location())
		}
		// A colleague sends the same form again, in German.
		_, values := webtest.Form(t, page.Text, salesPath)
		colleague, _ := o.colleague()
		german := colleague.Get(salesPath + "?currency=EUR&lang=de")
		again := colleague.Submit(german, salesPath, "sale", values.Get("sale"), "amount", "10,05", "tip", "15",
			"description", "Table 4")
		if again.Location() != first.Location()+"?lang=de" {
			t.Errorf("%q, then %d to %q for a colleague", first.Location(), again.Status, again.Location())
		}
		for _, tip := range []string{"0", "10"} {
			if got := colleague.Submit(german, salesPath, "sale", values.Get("sale"), "amount", "10,05", "tip", tip,
				"description", "Table 4"); got.Status != http.StatusConflict {
				t.Errorf("a tip of %s percent with the same key: %d", tip, got.Status)
			}
		}
		other := o.Submit(page, salesPath, "amount", "12")
		if other.Status != http.StatusConflict || !other.Contains("already sent with other values") {
			t.Fatalf("another amount with the same key: %d\n%s", other.Status, other.Text)
		}
		o.says(o.Get("/claims"), "1 to 1 of 1")
		fresh := o.Submit(other, salesPath)
		if fresh.Location() == first.Location() || fresh.Status != http.StatusSeeOther {
			t.Errorf("the form with another key: %d to %q", fresh.Status, fresh.Location())
		}
		sale := o.says(o.Get(first.Location()), "11.56\u00a0EUR", "Table 4", "1.51\u00a0EUR", `<svg class="qr"`, "New sale",
			salesPath+"?currency=EUR", `data-live="`+first.Location()+`/live"`)
		o.silent(sale, ">sale_", `id="wallet"`) // its random key, and the merchant's own wallet
		o.silent(o.says(o.Get("/claims"), "Table 4"), ">sale_")
		if got := sale.Header.Get("Content-Security-Policy"); !strings.Contains(got, "frame-ancestors 'none'") {
			t.Error(got)
		}
		id := strings.TrimPrefix(first.Location(), salesPath+"/")
		o.d.payClaim(id, "exact", "")
		o.d.claimIs(id, "paid", "none")
		o.says(o.Get(first.Location()), "Receipt", "New sale")
		o.says(o.Get("/claims/"+id), "tip", "1.51", "point-of-sale")
		// The tip as an amount replaces the percentage.
		page = o.Get(salesPath)
		typed := o.Submit(page, salesPath, "amount", "10", "tip", "20", "tip_amount", "0.50", "denomination_currency", "USD")
		o.says(o.Get(typed.Location()), "10.50\u00a0USD")
		// A sale of another company is not found.
		_, stranger := o.d.stranger()
		made := stranger.ok("POST", claimPath, `{"payer_id":"customer-1","amount":100,"denomination_currency":"USD"}`).read(t)
		if got := o.Get(salesPath + "/" + made["claim_id"].(string)); got.Status != http.StatusNotFound {
			t.Errorf("another company's claim: %d", got.Status)
		}
	})
}

// On a phone, a sale that is sent without a connection, or whose answer is lost, is created once.
func TestPointOfSaleInABrowser(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	seed, base := o.d.seed, o.s.Ready().BaseURL
	b := webtest.Start(t)
	p := b.Open(base+salesPath, webtest.Look{Width: 390})
	p.Fill("#email", seed.Admin.Email)
	p.Fill("#password", seed.Admin.Password)
	p.Send("form:has(#password) button")
	p.Audit()
	until := func(script string) {
		t.Helper()
		eventually(t, 60*time.Second, script, func() bool { return webtest.Evaluate[bool](p, script) })
	}
	keys := func(keys ...string) {
		for _, key := range keys {
			p.Do(chromedp.Click(`[data-key="` + key + `"]`))
		}
	}
	keys("1", "2", "9", "back", ".", "5")
	if got := webtest.Evaluate[string](p, `document.querySelector("#amount").value`); got != "12.5" {
		t.Fatalf("the keys typed %q", got)
	}
	p.Do(chromedp.Click(`label[for="tip-10"]`))
	// Without a connection the sale is kept, also when the page is loaded again.
	webtest.Evaluate[bool](p, `(window.fetch = async () => { throw new TypeError("offline") }, true)`)
	p.Do(chromedp.Click("#charge"))
	until(`!document.querySelector("[data-waiting]").hidden && document.querySelector("#amount").disabled`)
	p.Do(chromedp.Navigate(base + salesPath))
	until(`!document.querySelector("[data-waiting]").hidden && document.querySelector("#amount").value === "12.5" &&
		document.querySelector("#tip-10").checked`)
	p.Audit()
	if n := o.claimCount(); n != 0 {
		t.Fatalf("%d claims exist", n)
	}
	// The server creates the claim, but its answer is lost. The sale is sent again, and leads to the same claim.
	webtest.Evaluate[bool](p, `(() => {
		const whole = window.fetch
		window.fetch = async (...all) => {
			window.fetch = whole
			await whole(...all)
			throw new TypeError("lost")
		}
		return window.dispatchEvent(new Event("online"))
	})()`)
	until(`/^\/claims\/sales\/clm_/.test(location.pathname) && !!document.querySelector(".qr")`)
	if n := o.claimCount(); n != 1 {
		t.Errorf("%d claims exist", n)
	}
	if text := p.Text(); !strings.Contains(text, "13.75") {
		t.Errorf("no total in %s", text)
	}
	p.Audit()
	id := regexp.MustCompile(`clm_\w+`).FindString(p.Path())
	o.d.payClaim(id, "exact", "")
	until(`document.querySelector("[data-status]").dataset.status === "paid"`)
	p.Send("#next")
	until(`document.querySelector("[data-last] a").pathname.endsWith("` + id + `") &&
		document.querySelector("#amount").value === ""`)
	// What the server refuses is shown, and not kept.
	keys("0")
	p.Send("#charge")
	until(`!!document.querySelector("#amount-problem") && document.querySelector("[data-waiting]").hidden`)
	// Without scripts, it is a plain form.
	still := b.Open(base+salesPath, webtest.Look{Width: 390, NoScript: true})
	still.Fill("#amount", "30")
	still.Send("#charge")
	if !strings.HasPrefix(still.Path(), salesPath+"/clm_") {
		t.Errorf("without scripts: %s\n%s", still.Path(), still.Text())
	}
	if n := o.claimCount(); n != 2 {
		t.Errorf("%d claims exist", n)
	}
}
