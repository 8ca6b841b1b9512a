package app_test

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/web/webtest"
)

// customer is somebody who has nothing but the link of a checkout, beside the merchant's program.
type customer struct {
	*companyBrowser
	shop *apiClient
}

func openCheckout(t *testing.T, database string) *customer {
	t.Helper()
	s := boot(t, database, func(c *app.Config) { c.ReadsPerSecond, c.WritesPerSecond, c.ClaimsPerMinute = 0, 0, 0 })
	shop := newAPIClient(t, s)
	shop.ok("POST", "/api/merchant/settings", `{"origins":["https://shop.example","https://other.example:8443"],"support_email":"help@shop.example"}`)
	return &customer{&companyBrowser{t, webtest.NewVisitor(t, s.Ready().BaseURL), s, shop}, shop}
}

// claim makes a claim over 100 USD for what nobody should run.
func (p *customer) claim() (id, path string) {
	p.Helper()
	made := p.shop.ok("POST", claimPath, `{"payer_id":"customer-1","amount":100,"denomination_currency":"USD","funding_currency":"BTC",`+
		`"description":"Tea <script>alert(1)</script>","return_url":"https://shop.example/order/7"}`).read(p.shop)
	return made["claim_id"].(string), strings.TrimPrefix(made["checkout_url"].(string), p.s.Ready().BaseURL)
}

func TestCheckout(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		p := openCheckout(t, database)
		const company = "Sandbox Company"

		// What to pay, to whom, until when; nothing of the merchant's runs, and only its own pages may show it within them.
		id, path := p.claim()
		address := p.shop.ok("GET", "/api/merchant/claim/status?claim_id="+id, "").read(p.shop)["quote"].(object)["funding_details"].(object)["address"].(string)
		page := p.says(p.Get(path), "Pay "+company, "Waiting for your payment", "0.00200000\u00a0BTC", "100.00\u00a0USD", "1 BTC = 50,000 USD, locked for this payment on ", "<span>"+address[:4]+"</span>",
			`href="bitcoin:`+address+`?amount=0.00200000"`, "Tea &lt;script&gt;alert(1)&lt;/script&gt;", "Test network (regtest)", `href="https://shop.example/order/7"`, "minutes left", `href="mailto:help@shop.example"`)
		p.silent(page, "<script>alert", "Get a new rate")
		if got := page.Header.Get("Content-Security-Policy"); !strings.Contains(got, "frame-ancestors https://shop.example https://other.example:8443;") || page.Header.Get("X-Frame-Options") != "" {
			t.Errorf("framed by %q", got)
		}
		if got := page.Header.Get("Set-Cookie"); got != "" || page.Header.Get("X-Robots-Tag") != "noindex" {
			t.Errorf("cookie %q, robots %q", got, page.Header.Get("X-Robots-Tag"))
		}
		if got := p.Get("/sign-in").Header; got.Get("X-Frame-Options") != "DENY" || !strings.Contains(got.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("the rest is framed by %q", got)
		}
		p.silent(p.says(p.Get(path+"?embed=1"), "0.00200000"), "<header>")
		p.says(p.Get(path+"?lang=es"), "Pagar a "+company, "0,00200000\u00a0BTC", "Esperando su pago")
		for _, missing := range []string{"/pay/clm_00000000000000000000000000", "/pay/nonsense", "/pay/" + id + "x", "/pay/" + id + "%00", "/pay/%ff", path + "?lang=%00"} {
			if got := p.Get(missing); got.Status != http.StatusNotFound {
				t.Errorf("%s: %d", missing, got.Status)
			}
		}

		// A part: the rest is asked for, at the same address.
		p.shop.payClaim(id, "under", "0.0005")
		p.shop.claimIs(id, "partially_paid", "none")
		p.says(p.Get(path), "Partial payment received", "Still to pay", "0.00150000\u00a0BTC", `href="bitcoin:`+address+`?amount=0.00150000"`)
		// Nothing more in time: no price, and nothing to be sent, until the payer gets a new one for the rest.
		p.shop.advance(16 * time.Minute)
		p.shop.claimIs(id, "underpaid", "none")
		page = p.says(p.Get(path), "Not fully paid in time", "Get a new rate")
		p.silent(page, "Send exactly", "bitcoin:"+address)
		if got := p.Submit(page, path+"/price"); got.Location() != path {
			t.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		p.says(p.Get(path), "Partial payment received", "0.00150000\u00a0BTC", "minutes left")
		txid := p.shop.payClaim(id, "exact", "")
		p.shop.claimIs(id, "paid", "none")
		page = p.says(p.Get(path), "Paid. Thank you. We’ve notified "+company, "Receipt", txid, "Back to "+company, "0.00200000\u00a0BTC", "Confirmed")
		p.silent(page, "bitcoin:", "Get a new rate")
		// What is answered to a form loads itself anew, and is read in another language, at the address of the page.
		refused := p.Post(path+"/price?embed=1", nil)
		for _, want := range []string{"Receipt", `content="15; url=` + path + `?embed=1"`, `href="` + path + `?embed=1&amp;lang=es"`} {
			if refused.Status != http.StatusConflict || !strings.Contains(refused.Text, want) {
				t.Errorf("a new price for what is paid: %d, no %q in\n%s", refused.Status, want, refused.Text)
			}
		}

		id, path = p.claim()
		p.shop.payClaim(id, "over", "0.003")
		p.shop.claimIs(id, "paid", "overpaid")
		p.says(p.Get(path), "You overpaid by 0.00100000\u00a0BTC", "Received", "0.00300000\u00a0BTC")
		p.refunded(id, path)

		id, path = p.claim()
		p.shop.payClaim(id, "late", "")
		p.shop.claimIs(id, "paid_late", "late")
		p.silent(p.says(p.Get(path), "Your payment arrived late. It’s safe.", "After the rate expired"), "bitcoin:", "Get a new rate")

		id, path = p.claim()
		p.shop.ok("POST", "/api/merchant/claim/cancel", `{"claim_id":"`+id+`"}`)
		p.silent(p.says(p.Get(path), "canceled this payment. Don’t send anything."), "bitcoin:", "Get a new rate")

		id, path = p.claim()
		p.shop.advance(16 * time.Minute)
		p.shop.claimIs(id, "expired", "none")
		p.silent(p.says(p.Get(path), "Don’t send anything at the old rate", "Get a new rate"), "bitcoin:")
	})
}

// payersOwn is an address of a payer's wallet.
const payersOwn = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"

// refunded has a payer take back what was too much, by the link that the merchant gives.
func (p *customer) refunded(id, path string) {
	p.Helper()
	offer := p.shop.ok("POST", "/api/merchant/claim/refund", `{"claim_id":"`+id+`"}`).read(p.shop)
	link := strings.TrimPrefix(offer["refund_url"].(string), p.s.Ready().BaseURL)
	p.says(p.Get(path), "You can get 0.00100000\u00a0BTC back")
	page := p.says(p.Get(link), "Get your refund", "0.00100000\u00a0BTC")
	if got := p.Submit(page, link+"/check", "address", "nonsense"); got.Status != http.StatusUnprocessableEntity || !strings.Contains(got.Text, `aria-invalid="true"`) {
		p.Errorf("nonsense for an address: %d\n%s", got.Status, got.Text)
	}
	own := p.shop.ok("GET", "/api/merchant/claim/status?claim_id="+id, "").read(p.shop)["quote"].(object)["funding_details"].(object)["address"].(string)
	if got := p.Submit(page, link+"/check", "address", own); got.Status != http.StatusUnprocessableEntity || !strings.Contains(got.Text, `aria-invalid="true"`) {
		p.Errorf("an address of the service: %d\n%s", got.Status, got.Text)
	}
	const address = payersOwn
	sure := p.says(p.Submit(page, link+"/check", "address", " "+strings.ToUpper(address)), "Is this your address?", "<span>bcrt</span><span>1qw5</span>", "You get")
	if got := p.Submit(sure, link); got.Location() != path {
		p.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
	}
	if got := p.Get(link); got.Status != http.StatusNotFound {
		p.Errorf("the link works again: %d", got.Status)
	}
	eventually(p.T, 30*time.Second, "the refund arrives", func() bool {
		text := p.Get(path).Text
		return strings.Contains(text, "We sent ") && strings.Contains(text, " back to you, to "+address)
	})
	p.shop.payClaim(id, "exact", "0.0004")
	eventually(p.T, 30*time.Second, "what came after it is the payer's, too", func() bool {
		return strings.Contains(p.Get(path).Text, "You overpaid by 0.00040000\u00a0BTC")
	})
}

// One address has some of the live parts of a process, and what it does not use any more it has again.
func TestLiveCheckoutsOfOneReader(t *testing.T) {
	p := openCheckout(t, dbtest.SQLite(t))
	_, path := p.claim()
	follow := func() (status int, leave func()) {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.s.Ready().BaseURL+path+"/live", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/event-stream")
		got, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { got.Body.Close() })
		return got.StatusCode, cancel
	}
	var last func()
	for i := range 32 {
		status, leave := follow()
		defer leave()
		if last = leave; status != http.StatusOK {
			t.Fatalf("reader %d: %d", i+1, status)
		}
	}
	status, leave := follow()
	if leave(); status != http.StatusServiceUnavailable {
		t.Fatalf("one too many: %d", status)
	}
	last()
	eventually(t, 30*time.Second, "there is a place again", func() bool {
		status, leave := follow()
		defer leave()
		return status == http.StatusOK
	})
}

// A reader whose stream does not come through asks again and again: it is told when nothing has changed, and to wait
// when it asks more than once a second.
func TestCheckoutIsPolled(t *testing.T) {
	p := openCheckout(t, dbtest.SQLite(t))
	_, path := p.claim()
	_, other := p.claim()
	ask := func(path, tag string) (status int, header http.Header) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.s.Ready().BaseURL+path+"/live", nil)
		if err != nil {
			t.Fatal(err)
		}
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
		}
		got, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		return got.StatusCode, got.Header
	}
	status, header := ask(path, "")
	if status != http.StatusOK || header.Get("ETag") == "" {
		t.Fatalf("%d, tag %q", status, header.Get("ETag"))
	}
	if status, _ := ask(path, header.Get("ETag")); status != http.StatusNotModified {
		t.Errorf("unchanged: %d", status)
	}
	for range 200 { // the sixty that may come at once, and what refills meanwhile
		if status, header = ask(path, ""); status == http.StatusTooManyRequests {
			break
		}
	}
	if status != http.StatusTooManyRequests || header.Get("Retry-After") == "" {
		t.Errorf("the last of many: %d, Retry-After %q", status, header.Get("Retry-After"))
	}
	if status, _ := ask(other, ""); status != http.StatusOK {
		t.Errorf("another claim: %d", status)
	}
}

func TestCheckoutInABrowser(t *testing.T) {
	t.Parallel()
	p := openCheckout(t, dbtest.SQLite(t))
	base := p.s.Ready().BaseURL
	id, path := p.claim()
	b := webtest.Start(t)
	b.Check(base + path)
	// Without scripts the page says the same, loads itself anew, and offers no button that would do nothing.
	still := b.Open(base+path, webtest.Look{NoScript: true, Width: 320})
	if text := still.Text(); !strings.Contains(text, "0.00200000") || !strings.Contains(text, "minutes left") || strings.Contains(text, "Copy") {
		t.Errorf("without scripts: %s", text)
	}

	tab := b.Open(base+path, webtest.Look{})
	// A camera reads the code: it is what the link says.
	link := webtest.Evaluate[string](tab, `document.querySelector("#wallet").href`)
	address, _, _ := strings.Cut(strings.TrimPrefix(link, "bitcoin:"), "?")
	if got := readQR(t, tab.Shot(".qr")); got != "bitcoin:"+strings.ToUpper(address)+"?amount=0.00200000" || !strings.EqualFold(got, link) {
		t.Errorf("the code says %q, the link %q", got, link)
	}
	if got := webtest.Evaluate[string](tab, `document.querySelector(".clock").textContent`); !strings.Contains(got, ":") {
		t.Errorf("nothing counts down: %q", got)
	}
	p.picture(tab, "checkout")
	// All of it, files included, is small enough for a slow line.
	if got := tab.Received(); got > 60_000 {
		t.Errorf("the page takes %d bytes, want 60,000 at most", got)
	}
	copies(tab, map[string]string{"#copy-amount": "0.00200000", "#copy-address": address})
	// It notices the payment by itself.
	p.shop.payClaim(id, "exact", "")
	tab.Do(chromedp.Poll[chromedp.Void](`document.querySelector("[data-announce]").textContent.startsWith("Paid.")`))
	tab.Audit()
	id, path = p.claim()
	p.shop.payClaim(id, "late", "")
	p.shop.claimIs(id, "paid_late", "late")
	b.Open(base+path, webtest.Look{Width: 320, Dark: true}).Audit()
	p.refusesItsOwnAddress(b, address)
	p.saysHowLongItLasts(b)
}

// copies has somebody without a mouse copy what stands at buttons, in a browser that does not let a page at the
// clipboard unasked.
func copies(tab *webtest.Page, buttons map[string]string) {
	webtest.Evaluate[bool](tab, `(() => {
		Object.defineProperty(navigator, "clipboard", {value: undefined})
		document.addEventListener("copy", (e) => { window.copied = e.target.value })
		return true
	})()`)
	for button, want := range buttons {
		tab.Reach(button)
		tab.Keys(kb.Enter)
		tab.Do(chromedp.Poll[chromedp.Void](fmt.Sprintf(`window.copied === %q && document.querySelector("[role=status]").textContent.endsWith(" copied.") &&
			document.activeElement.matches(%q)`, want, button)))
	}
}

// saysHowLongItLasts follows a price to its end without eyes and without a mouse: what is said when five minutes are
// left, when one is, and at the end, each once and nothing in between; and how the price is renewed.
func (p *customer) saysHowLongItLasts(b *webtest.Browser) {
	p.Helper()
	_, path := p.claim()
	tab := b.Open(p.s.Ready().BaseURL+path, webtest.Look{})
	if n := webtest.Evaluate[int](tab, `document.querySelectorAll("[role=status] .clock, [aria-live] .clock, [role=timer], [role=alert]").length`); n != 0 {
		p.Errorf("each second is said")
	}
	webtest.Evaluate[bool](tab, `(() => {
		window.said = []
		const told = document.querySelector("[role=status]")
		new MutationObserver(() => said.push(told.textContent)).observe(told, {childList: true, characterData: true, subtree: true})
		return true
	})()`)
	tab.Reach("#wallet")
	wait := func(times int) {
		tab.Do(chromedp.Poll[chromedp.Void](fmt.Sprintf("said.length >= %d", times)))
	}
	p.shop.advance(9 * time.Minute)
	p.shop.advance(time.Minute + time.Second)
	wait(1)
	p.shop.advance(4 * time.Minute)
	wait(2)
	if at := webtest.Evaluate[string](tab, `document.activeElement.id`); at != "wallet" {
		p.Errorf("the focus went from the link to the wallet to %q", at)
	}
	tab.Audit()
	p.shop.advance(time.Minute)
	tab.Do(chromedp.Poll[chromedp.Void](`document.querySelector("#renew") !== null`))
	said := webtest.Evaluate[[]string](tab, "said")
	want := []string{"Waiting for your payment. Less than five minutes left", "Waiting for your payment. Less than a minute left", "This rate has expired. "}
	if len(said) == 4 && strings.HasPrefix(said[2], "One moment.") { // it was looked at while payments that came just in time were looked for
		said = slices.Delete(said, 2, 3)
	}
	if !slices.EqualFunc(said, want, strings.HasPrefix) {
		p.Errorf("a screen reader says %q, want %q", said, want)
	}
	tab.Reach("#renew")
	tab.Enter()
	if text := tab.Text(); !strings.Contains(text, "15 minutes left") && !strings.Contains(text, "14:5") && !strings.Contains(text, "15:00") {
		p.Errorf("a new price: %s", text)
	}
	tab.Reach("#wallet")
}

// refusesItsOwnAddress has a payer who is paid back name an address of the service, that of another claim, and then one
// of their own.
func (p *customer) refusesItsOwnAddress(b *webtest.Browser, own string) {
	p.Helper()
	id, _ := p.claim()
	p.shop.payClaim(id, "over", "0.003")
	p.shop.claimIs(id, "paid", "overpaid")
	tab := b.Open(p.shop.ok("POST", "/api/merchant/claim/refund", `{"claim_id":"`+id+`"}`).read(p.shop)["refund_url"].(string), webtest.Look{Width: 320})
	tab.Fill("#address", own)
	tab.Send("main button")
	if text := tab.Text(); !strings.Contains(text, "This address belongs to Stipend.") || strings.Contains(text, "Is this your address?") {
		p.Errorf("an address of the service: %s", text)
	}
	if wrong := webtest.Evaluate[string](tab, `document.querySelector("[aria-invalid=true]").value`); wrong != own {
		p.Errorf("what is marked says %q, want %s", wrong, own)
	}
	tab.Audit()
	webtest.Evaluate[string](tab, `document.querySelector("#address").value = ""`)
	tab.Fill("#address", payersOwn)
	tab.Send("main button")
	if text := tab.Text(); !strings.Contains(text, "Is this your address?") || !strings.Contains(strings.Join(strings.Fields(text), ""), payersOwn) {
		p.Errorf("an address of the payer's: %s", text)
	}
}

// readQR decodes the picture of a code as a wallet's camera does.
func readQR(t *testing.T, picture []byte) string {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	bitmap, err := gozxing.NewBinaryBitmapFromImage(img)
	if err != nil {
		t.Fatal(err)
	}
	got, err := qrcode.NewQRCodeReader().Decode(bitmap, nil)
	if err != nil {
		t.Fatal(err)
	}
	return got.GetText()
}
