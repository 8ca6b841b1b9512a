package app_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
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
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// customer is a payer who has only the link of a checkout, and the merchant's API client.
type customer struct {
	*companyBrowser
	shop *apiClient
}

func openCheckout(t *testing.T, database string) *customer {
	t.Helper()
	s := boot(t, database, func(c *app.Config) { c.ReadsPerSecond, c.WritesPerSecond, c.ClaimsPerMinute = 0, 0, 0 })
	shop := newAPIClient(t, s)
	shop.ok("POST", "/api/merchant/settings",
		`{"origins":["https://shop.example","https://other.example:8443"],"support_email":"help@shop.example"}`)
	return &customer{&companyBrowser{t, webtest.NewVisitor(t, s.Ready().BaseURL), s, shop}, shop}
}

// claim creates a claim for 100 USD whose texts contain HTML that no browser may run.
func (p *customer) claim() (id, path string) {
	p.Helper()
	made := p.shop.ok("POST", claimPath,
		`{"payer_id":"customer-1","amount":100,"denomination_currency":"USD","funding_currency":"BTC",`+
			`"description":"Tea <script>alert(1)</script>","return_url":"https://shop.example/order/7"}`).read(p.shop)
	return made["claim_id"].(string), strings.TrimPrefix(made["checkout_url"].(string), p.s.Ready().BaseURL)
}

func TestCheckout(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		p := openCheckout(t, database)
		const company = "Sandbox Company"

		// The page shows the amount, the payee and the deadline. It runs nothing that the merchant wrote, and only
		// the merchant's own pages may embed it.
		id, path := p.claim()
		address := p.shop.ok("GET", "/api/merchant/claim/status?claim_id="+id,
			"").read(p.shop)["quote"].(object)["funding_details"].(object)["address"].(string)
		page := p.says(p.Get(path), "Pay "+company, "Waiting for your payment", "0.00200000\u00a0BTC", "100.00\u00a0USD",
			"1 BTC = 50,000 USD, locked for this payment on ", "<span>"+address[:4]+"</span>",
			`href="bitcoin:`+address+`?amount=0.00200000"`, "Tea &lt;script&gt;alert(1)&lt;/script&gt;",
			"Test network (regtest)", `href="https://shop.example/order/7"`, "minutes left", `href="mailto:help@shop.example"`)
		p.silent(page, "<script>alert", "Get a new rate")
		if got := page.Header.Get("Content-Security-Policy"); !strings.Contains(got,
			"frame-ancestors https://shop.example https://other.example:8443;") || page.Header.Get("X-Frame-Options") != "" {
			t.Errorf("the checkout may be embedded by %q", got)
		}
		if got := page.Header.Get("Set-Cookie"); got != "" || page.Header.Get("X-Robots-Tag") != "noindex" {
			t.Errorf("cookie %q, robots %q", got, page.Header.Get("X-Robots-Tag"))
		}
		if got := p.Get("/sign-in").Header; got.Get("X-Frame-Options") != "DENY" ||
			!strings.Contains(got.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("other pages may be embedded by %q", got)
		}
		p.silent(p.says(p.Get(path+"?embed=1"), "0.00200000"), "<header>")
		p.says(p.Get(path+"?lang=es"), "Pagar a "+company, "0,00200000\u00a0BTC", "Esperando tu pago")
		p.Get(path + "?lang=en")
		for _, missing := range []string{"/pay/clm_00000000000000000000000000", "/pay/nonsense", "/pay/" + id + "x", "/pay/" +
			id + "%00", "/pay/%ff", path + "?lang=%00"} {
			if got := p.Get(missing); got.Status != http.StatusNotFound {
				t.Errorf("%s: %d", missing, got.Status)
			}
		}

		// After a partial payment, the page asks for the rest at the same address.
		p.shop.payClaim(id, "under", "0.0005")
		p.shop.claimIs(id, "partially_paid", "none")
		p.says(p.Get(path), "Partial payment received", "Still to pay", "0.00150000\u00a0BTC",
			`href="bitcoin:`+address+`?amount=0.00150000"`)
		// If the payer sends nothing more before the price expires, the page shows no price and no address until the
		// payer requests a new price for the rest.
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
		page = p.says(p.Get(path), "Paid. Thank you. We’ve notified "+company, "Receipt", txid, "Back to "+company,
			"0.00200000\u00a0BTC", "Confirmed")
		p.silent(page, "bitcoin:", "Get a new rate")
		// The response to a form refreshes, and changes its language, at the address of the page.
		refused := p.Post(path+"/price?embed=1", nil)
		for _, want := range []string{"Receipt", `content="15; url=` + path + `?embed=1"`, `href="` + path +
			`?embed=1&amp;lang=es"`} {
			if refused.Status != http.StatusConflict || !strings.Contains(refused.Text, want) {
				t.Errorf("a new price for a paid claim: %d, no %q in\n%s", refused.Status, want, refused.Text)
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
		p.silent(p.says(p.Get(path), "Your payment arrived late. It’s safe.", "After the rate expired"), "bitcoin:",
			"Get a new rate")

		id, path = p.claim()
		p.shop.ok("POST", "/api/merchant/claim/cancel", `{"claim_id":"`+id+`"}`)
		p.silent(p.says(p.Get(path), "canceled this payment. Don’t send anything."), "bitcoin:", "Get a new rate")

		id, path = p.claim()
		p.shop.advance(16 * time.Minute)
		p.shop.claimIs(id, "expired", "none")
		p.silent(p.says(p.Get(path), "Don’t send anything at the old rate", "Get a new rate"), "bitcoin:")
	})
}

// payersOwn is an address of the payer's wallet.
const payersOwn = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"

// refunded has a payer take back an overpayment through the link that the merchant gives them.
func (p *customer) refunded(id, path string) {
	p.Helper()
	offer := p.shop.ok("POST", "/api/merchant/claim/refund", `{"claim_id":"`+id+`"}`).read(p.shop)
	link := strings.TrimPrefix(offer["refund_url"].(string), p.s.Ready().BaseURL)
	p.says(p.Get(path), "You can get 0.00100000\u00a0BTC back")
	page := p.says(p.Get(link), "Get your refund", "0.00100000\u00a0BTC")
	if got := p.Submit(page, link+"/check", "address", "nonsense"); got.Status != http.StatusUnprocessableEntity ||
		!strings.Contains(got.Text, `aria-invalid="true"`) {
		p.Errorf("an invalid address: %d\n%s", got.Status, got.Text)
	}
	own := p.shop.ok("GET", "/api/merchant/claim/status?claim_id="+id,
		"").read(p.shop)["quote"].(object)["funding_details"].(object)["address"].(string)
	if got := p.Submit(page, link+"/check", "address", own); got.Status != http.StatusUnprocessableEntity ||
		!strings.Contains(got.Text, `aria-invalid="true"`) {
		p.Errorf("an address of the service: %d\n%s", got.Status, got.Text)
	}
	const address = payersOwn
	sure := p.says(p.Submit(page, link+"/check", "address", " "+strings.ToUpper(address)), "Is this your address?",
		"<span>bcrt</span><span>1qw5</span>", "You get")
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
	eventually(p.T, 30*time.Second, "a later deposit can be refunded too", func() bool {
		return p.Get(path).Contains("You overpaid by 0.00040000\u00a0BTC")
	})
}

// One IP address may hold a limited number of a process's live streams. Closing a stream frees its place.
// The checkout lists the line items, leads to the shop once the claim is paid, and offers no new price after the end of
// the claim.
// A checkout of any currency offers each at its own price, without JavaScript, and ends with the first payment.
func TestCheckoutOfAnyCurrency(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		p := openCheckout(t, database)
		made := p.shop.ok("POST", claimPath, `{"payer_id":"customer-1","amount":100,"denomination_currency":"USD",`+
			`"funding_currency":"any"}`).read(p.shop)
		id := made["claim_id"].(string)
		path := "/pay/" + id
		page := p.says(p.Get(path), "0.00200000\u00a0BTC", `aria-current="true">Bitcoin</a>`, `href="`+path+`?pay=USDC-base"`)
		if len(page.Text) > 60_000 {
			t.Errorf("the page has %d bytes", len(page.Text))
		}
		option := made["payment_options"].([]any)[1].(object)
		page = p.says(p.Get(path+"?pay=USDC-base"), "100.000000\u00a0USDC", "Address on Base", "Send only USDC on Base.",
			`aria-current="true">USDC</a>`, strings.ReplaceAll(option["payment_uri"].(string), "&", "&amp;"),
			option["address"].(string)[:4]+"</span>", path+"/live?pay=USDC-base")
		p.silent(page, "bitcoin:", "Bitcoin address", "data-wallets")
		p.says(p.Get(path+"?pay=nonsense"), "0.00200000\u00a0BTC")
		p.shop.ok("POST", "/api/sandbox/deposit", `{"claim_id":"`+id+`","kind":"over","currency":"USDC"}`)
		p.shop.claimIs(id, "paid", "overpaid")
		p.silent(p.says(p.Get(path+"?pay=USDC-base"), "Receipt", "110.000000\u00a0USDC",
			"You overpaid by 10.000000\u00a0USDC"), "ethereum:", "Get a new rate")

		// The refund goes to an address on the network of the payment.
		link := p.shop.ok("POST", "/api/merchant/claim/refund", `{"claim_id":"`+id+`"}`).read(p.shop)["refund_url"].(string)
		link = strings.TrimPrefix(link, p.s.Ready().BaseURL)
		page = p.says(p.Get(link), "in USDC on Base", "Your address on Base")
		if got := p.Submit(page, link+"/check", "address", payersOwn); got.Status != http.StatusUnprocessableEntity {
			t.Errorf("an address of another network: %d", got.Status)
		}
		const own = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
		sure := p.says(p.Submit(page, link+"/check", "address", own), "Is this your address?", "10.000000")
		if got := p.Submit(sure, link); got.Location() != path {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		eventually(t, 60*time.Second, "the refund is paid", func() bool {
			all := p.shop.ok("GET", "/api/merchant/claim/status?claim_id="+id, "").read(p.shop)["refunds"].([]any)
			return all[0].(object)["status"] == "paid"
		})
	})
}

func TestCheckoutOfAnOrder(t *testing.T) {
	t.Parallel()
	p := openCheckout(t, dbtest.SQLite(t))
	order := func(number string) (id, path string) {
		made := p.shop.ok("POST", claimPath, `{"payer_id":"customer-1","amount":100,"denomination_currency":"USD",`+
			`"external_id":"`+number+`","redirect_url":"https://shop.example/thanks","expires_in":3600,`+
			`"line_items":[{"description":"Tea <b>","quantity":2,"amount":110},`+
			`{"description":"Discount","amount":-10}]}`).read(p.shop)
		return made["claim_id"].(string), strings.TrimPrefix(made["checkout_url"].(string), p.s.Ready().BaseURL)
	}
	id, path := order("order-1")
	p.silent(p.says(p.Get(path), "order-1", "2 × Tea &lt;b&gt;", "110.00", "Discount", "10.00"), "data-redirect")
	p.shop.payClaim(id, "exact", "")
	p.shop.claimIs(id, "paid", "none")
	p.says(p.Get(path), `data-redirect="https://shop.example/thanks"`)
	p.silent(p.Get(path+"?embed=1"), "data-redirect")

	id, path = order("order-2")
	p.shop.advance(16 * time.Minute)
	p.shop.claimIs(id, "expired", "none")
	page := p.says(p.Get(path), "Get a new rate")
	p.shop.advance(45 * time.Minute)
	p.silent(p.says(p.Get(path), "This payment request has ended"), "Get a new rate")
	if got := p.Submit(page, path+"/price"); got.Status != http.StatusConflict {
		t.Errorf("a new price after the end: %d", got.Status)
	}
}

func TestLiveCheckoutsOfOneReader(t *testing.T) {
	p := openCheckout(t, dbtest.SQLite(t))
	_, path := p.claim()
	follow := func() (status int, leave func()) {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.s.Ready().BaseURL+path+"/live", nil)
		testkit.Check(t, err)
		r.Header.Set("Accept", "text/event-stream")
		got, err := http.DefaultTransport.RoundTrip(r)
		testkit.Check(t, err)
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
		t.Fatalf("one stream over the limit: %d", status)
	}
	last()
	eventually(t, 30*time.Second, "a closed stream's place is free", func() bool {
		status, leave := follow()
		defer leave()
		return status == http.StatusOK
	})
}

// A browser whose stream fails polls instead. The service answers that nothing has changed, and tells a browser that
// polls more than once a second to wait.
func TestCheckoutIsPolled(t *testing.T) {
	p := openCheckout(t, dbtest.SQLite(t))
	_, path := p.claim()
	_, other := p.claim()
	ask := func(path, tag string) (status int, header http.Header) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.s.Ready().BaseURL+path+"/live", nil)
		testkit.Check(t, err)
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
		}
		got, err := http.DefaultTransport.RoundTrip(r)
		testkit.Check(t, err)
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
	for range 200 { // the burst of sixty, and those allowed while the loop runs
		if status, header = ask(path, ""); status == http.StatusTooManyRequests {
			break
		}
	}
	if status != http.StatusTooManyRequests || header.Get("Retry-After") == "" {
		t.Errorf("after too many polls: %d, Retry-After %q", status, header.Get("Retry-After"))
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
	// Without scripts the page shows the same content, refreshes, and has no button that would do nothing.
	still := b.Open(base+path, webtest.Look{NoScript: true, Width: 320})
	if text := still.Text(); !strings.Contains(text, "0.00200000") || !strings.Contains(text, "minutes left") ||
		strings.Contains(text, "Copy") {
		t.Errorf("without scripts: %s", text)
	}

	tab := b.Open(base+path, webtest.Look{})
	// The QR code contains the same text as the link.
	link := webtest.Evaluate[string](tab, `document.querySelector("#wallet").href`)
	address, _, _ := strings.Cut(strings.TrimPrefix(link, "bitcoin:"), "?")
	if got := readQR(t, tab.Shot(".qr")); got != "bitcoin:"+strings.ToUpper(address)+"?amount=0.00200000" ||
		!strings.EqualFold(got, link) {
		t.Errorf("the QR code contains %q, the link %q", got, link)
	}
	if got := webtest.Evaluate[string](tab, `document.querySelector(".clock").textContent`); !strings.Contains(got, ":") {
		t.Errorf("the time left does not count down: %q", got)
	}
	p.picture(tab, "checkout")
	// The page and its files are small enough for a slow connection.
	if got := tab.Received(); got > 60_000 {
		t.Errorf("the page takes %d bytes, want 60,000 at most", got)
	}
	copiesFromKeyboard(tab, map[string]string{"#copy-amount": "0.00200000", "#copy-address": address})
	// The page shows the payment without a reload.
	p.shop.payClaim(id, "exact", "")
	tab.Do(chromedp.Poll[chromedp.Void](`document.querySelector("[data-announce]").textContent.startsWith("Paid.")`))
	tab.Audit()
	id, path = p.claim()
	p.shop.payClaim(id, "late", "")
	p.shop.claimIs(id, "paid_late", "late")
	b.Open(base+path, webtest.Look{Width: 320, Dark: true}).Audit()
	p.refundRefusesServiceAddress(b, address)
	p.announcesTimeLeft(b)
}

// The checkout with all its files, a logo that hardly compresses, every way to pay and a long description, and the page
// of a payment link, are small enough for a slow connection.
func TestPagesOfPayersAreSmall(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t), func(c *app.Config) { c.LndURL = app.SimulatedLnd })
	noise := image.NewNRGBA(image.Rect(0, 0, 400, 400))
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise.Pix) // never fails
	var logo bytes.Buffer
	testkit.Check(t, png.Encode(&logo, noise))
	o.d.ok("POST", "/api/merchant/branding", `{"display_name":"Corner Books","accent_color":"#1d3f8f","logo":"`+
		base64.StdEncoding.EncodeToString(logo.Bytes())+`"}`)
	claim := o.d.ok("POST", claimPath, `{"payer_id":"customer-1","amount":100,"denomination_currency":"USD",`+
		`"funding_currency":"any","description":"`+strings.Repeat("A long text. ", 38)+`"}`).read(t)
	link := o.d.ok("POST", "/api/merchant/payment-links", `{"title":"Donation","denomination_currency":"USD",`+
		`"min_amount":1}`).read(t)
	eventually(t, 30*time.Second, "the claim has an invoice", func() bool {
		return o.Get("/pay/" + claim["claim_id"].(string)).Contains("Lightning")
	})
	for _, path := range []string{"/pay/" + claim["claim_id"].(string), "/pay/" + link["payment_link_id"].(string)} {
		tab := webtest.Start(t).Open(o.s.Ready().BaseURL+path, webtest.Look{Width: 390}) // a browser without a cache
		if width := webtest.Evaluate[int](tab, `document.querySelector("img.logo").naturalWidth`); width < 48 {
			t.Errorf("%s: the logo is %d pixels wide", path, width)
		}
		if got := tab.Received(); got > 60_000 || got < 20_000 {
			t.Errorf("%s takes %d bytes, want 60,000 at most", path, got)
		} else {
			t.Logf("%s takes %d bytes", path, got)
		}
	}
}

// copiesFromKeyboard checks that the buttons copy their values when a user presses them from the keyboard, in a
// browser without the Clipboard API.
func copiesFromKeyboard(tab *webtest.Page, buttons map[string]string) {
	webtest.Evaluate[bool](tab, `(() => {
		Object.defineProperty(navigator, "clipboard", {value: undefined})
		document.addEventListener("copy", (e) => { window.copied = e.target.value })
		return true
	})()`)
	for button, want := range buttons {
		tab.Reach(button)
		tab.Keys(kb.Enter)
		tab.Do(chromedp.Poll[chromedp.Void](
			fmt.Sprintf(`window.copied === %q && document.querySelector("[role=status]").textContent.endsWith(" copied.") &&
			document.activeElement.matches(%q)`, want, button)))
	}
}

// announcesTimeLeft checks a price's countdown for a user of a screen reader and a keyboard. The page announces five
// minutes left, one minute left, and the end, once each and with nothing in between. The user can then renew the
// price.
func (p *customer) announcesTimeLeft(b *webtest.Browser) {
	p.Helper()
	_, path := p.claim()
	tab := b.Open(p.s.Ready().BaseURL+path, webtest.Look{})
	if n := webtest.Evaluate[int](tab,
		`document.querySelectorAll("[role=status] .clock, [aria-live] .clock, [role=timer], [role=alert]").length`); n != 0 {
		p.Errorf("the page announces every second")
	}
	webtest.Evaluate[bool](tab, `(() => {
		window.said = []
		const region = document.querySelector("[role=status]")
		new MutationObserver(() => said.push(region.textContent)).observe(region,
			{childList: true, characterData: true, subtree: true})
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
		p.Errorf("the focus is on %q, not on the link to the wallet", at)
	}
	tab.Audit()
	p.shop.advance(time.Minute)
	tab.Do(chromedp.Poll[chromedp.Void](`document.querySelector("#renew") !== null`))
	said := webtest.Evaluate[[]string](tab, "said")
	want := []string{"Waiting for your payment. Less than five minutes left",
		"Waiting for your payment. Less than a minute left", "This rate has expired. "}
	// the page also announced that the service was checking for last-minute payments
	if len(said) == 4 && strings.HasPrefix(said[2], "One moment.") {
		said = slices.Delete(said, 2, 3)
	}
	if !slices.EqualFunc(said, want, strings.HasPrefix) {
		p.Errorf("a screen reader says %q, want %q", said, want)
	}
	tab.Reach("#renew")
	tab.Enter()
	if text := tab.Text(); !strings.Contains(text, "15 minutes left") && !strings.Contains(text, "14:5") &&
		!strings.Contains(text, "15:00") {
		p.Errorf("a new price: %s", text)
	}
	tab.Reach("#wallet")
}

// refundRefusesServiceAddress has a payer ask for a refund to an address of the service, which belongs to another
// claim, and then to an address of their own.
func (p *customer) refundRefusesServiceAddress(b *webtest.Browser, own string) {
	p.Helper()
	id, _ := p.claim()
	p.shop.payClaim(id, "over", "0.003")
	p.shop.claimIs(id, "paid", "overpaid")
	tab := b.Open(p.shop.ok("POST", "/api/merchant/claim/refund", `{"claim_id":"`+id+`"}`).read(
		p.shop)["refund_url"].(string), webtest.Look{Width: 320})
	tab.Fill("#address", own)
	tab.Send("main button")
	if text := tab.Text(); !strings.Contains(text, "This address belongs to Stipend.") || strings.Contains(text,
		"Is this your address?") {
		p.Errorf("an address of the service: %s", text)
	}
	if wrong := webtest.Evaluate[string](tab, `document.querySelector("[aria-invalid=true]").value`); wrong != own {
		p.Errorf("the invalid field contains %q, want %s", wrong, own)
	}
	tab.Audit()
	webtest.Evaluate[string](tab, `document.querySelector("#address").value = ""`)
	tab.Fill("#address", payersOwn)
	tab.Send("main button")
	if text := tab.Text(); !strings.Contains(text, "Is this your address?") ||
		!strings.Contains(strings.Join(strings.Fields(text), ""), payersOwn) {
		p.Errorf("an address of the payer's: %s", text)
	}
}

// readQR decodes the image of a QR code as a wallet's camera does.
func readQR(t *testing.T, picture []byte) string {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(picture))
	testkit.Check(t, err)
	bitmap, err := gozxing.NewBinaryBitmapFromImage(img)
	testkit.Check(t, err)
	got, err := qrcode.NewQRCodeReader().Decode(bitmap, nil)
	testkit.Check(t, err)
	return got.GetText()
}
