package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/web/webtest"
)

// shopScript records the events of the checkout and all messages that the page receives.
const shopScript = `
window.seen = []
window.messages = []
for (const type of ["loaded", "resize", "confirming", "paid", "closed"])
	document.addEventListener("stipend:" + type, e =>
		seen.push([type, e.detail.claim_id || "", e.detail.status || ""].join(" ")))
addEventListener("message", e => messages.push(e.origin + " " + (e.data.type || "")))
`

// evilScript pretends to be the checkout.
const evilScript = `parent.postMessage({stipend: 1, type: "paid", claim_id: "forged"}, "*")`

// shopSite serves the pages of a shop on an origin of its own, under a strict policy. The path of a page is a key of
// pages.
func shopSite(t *testing.T, base string, pages map[string]string) (origin string) {
	t.Helper()
	site := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self' "+base+
			"; frame-src https://localhost:* "+base+"; form-action "+base)
		if script, ok := map[string]string{"/shop.js": shopScript, "/evil.js": evilScript}[r.URL.Path]; ok {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = io.WriteString(w, script)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, `<!doctype html><html lang="fr"><title>Shop</title><script src="/shop.js"></script>`+
			`<h1>Shop</h1>`+pages[r.URL.Path])
	}))
	t.Cleanup(site.Close)
	return strings.Replace(site.URL, "127.0.0.1", "localhost", 1)
}

// A shop on another origin opens payments in a dialog and within its page, and gets events. Nobody else can embed the
// pages, get their events, or forge them.
func TestEmbeddedCheckoutInABrowser(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	base := o.s.Ready().BaseURL
	code := `<script src="` + base + `/checkout/v1.js" async></script>`
	_, claimID := o.newClaim("order-1")
	linkPath, linkID := o.newLink("title", "Tea & <cake>", "min_amount", "2")
	link := base + "/pay/" + linkID
	// The page of the link has the code to copy.
	page := o.says(o.Get(linkPath), "Pay button", "&lt;button&gt;Tea &amp;amp; &amp;lt;cake&amp;gt;&lt;/button&gt;")
	o.says(page, "/checkout/v1.js&#34; async&gt;&lt;/script&gt;")
	o.says(o.Get("/claims/settings"), "CHECKOUT_URL", "/checkout/v1.js")
	script := o.says(o.Get("/checkout/v1.js"), "data-stipend")
	if len(script.Text) > 5000 || script.Header.Get("Cross-Origin-Resource-Policy") != "cross-origin" ||
		!strings.HasPrefix(script.Header.Get("Content-Type"), "text/javascript") {
		t.Errorf("%d bytes, %v", len(script.Text), script.Header)
	}

	pages := map[string]string{
		"/buy": `<form id="form" action="` + link + `" data-stipend>` +
			`<input type="hidden" name="amount" value="20"><button>Buy</button></form>` + code,
		"/order": `<div id="place"><a href="` + base + `/pay/` + claimID + `" data-stipend="inline">Pay order</a></div>` +
			code,
		"/frame": `<iframe id="plain" src="` + base + `/pay/` + claimID + `?embed=1"></iframe>`,
		"/evil":  `<script src="/evil.js"></script>`,
		"/link":  `<iframe id="plain" src="` + link + `?embed=1"></iframe>`,
	}
	shop, unlisted := shopSite(t, base, pages), shopSite(t, base, pages)
	o.d.ok("POST", "/api/merchant/settings", `{"origins":["https://shop.example","`+shop+`"]}`)
	b := webtest.Start(t)
	until := func(p *webtest.Page, script string) {
		t.Helper()
		eventually(t, 60*time.Second, script, func() bool { return webtest.Evaluate[bool](p, script) })
	}
	seen := func(p *webtest.Page, event string) {
		t.Helper()
		until(p, `window.seen.includes("`+event+`")`)
	}
	const loaded = `performance.getEntriesByType("resource").some(e => e.name.endsWith("/v1.js") && e.responseEnd > 0)`

	// The button opens the link in a dialog, with the amount. Escape closes the dialog, also from within the frame.
	p := b.Open(shop+"/buy", webtest.Look{})
	until(p, loaded)
	for range 2 {
		p.Do(chromedp.Click("#form button"))
		seen(p, "loaded  ")
		if got := webtest.Evaluate[string](p, `JSON.stringify([document.querySelectorAll("dialog[open] iframe").length,
			document.querySelector("iframe").src, document.querySelector("dialog button").getAttribute("aria-label")])`); got !=
			`[1,"`+link+`?amount=20&embed=1","Fermer"]` {
			t.Errorf("the dialog: %s", got)
		}
		webtest.Evaluate[bool](p, `document.querySelector("iframe").focus() || true`)
		p.Keys(kb.Escape)
		seen(p, "closed  ")
		webtest.Evaluate[bool](p, `!!(seen = [])`)
		if n := webtest.Evaluate[int](p, `document.querySelectorAll("dialog").length`); n != 0 {
			t.Errorf("%d dialogs are left", n)
		}
	}
	p.Quiet(strings.TrimPrefix(base, "http://"))
	p.Close()

	// Within the page, the frame has the height of its content, and tells that the claim is paid.
	p = b.Open(shop+"/order", webtest.Look{})
	seen(p, "loaded "+claimID+" awaiting_payment")
	until(p, `document.querySelector("#place iframe").style.height !== "640px"`)
	// Forged messages are no events: neither from the shop's own window nor from a frame of another site.
	webtest.Evaluate[bool](p, `(() => {
		window.postMessage({stipend: 1, type: "paid", claim_id: "forged"}, "*")
		const other = document.createElement("iframe")
		document.body.append(other)
		other.src = "`+unlisted+`/evil"
		return true
	})()`)
	until(p, `messages.filter(m => m.endsWith(" paid")).length === 2`)
	o.d.payClaim(claimID, "exact", "")
	seen(p, "paid "+claimID+" paid")
	if forged := webtest.Evaluate[bool](p, `seen.some(e => e.includes("forged"))`); forged {
		t.Error("a forged message became an event")
	}
	p.Close()

	// A browser shows neither page on a site that is not listed, and the site gets no message.
	for _, at := range []string{"/frame", "/link"} {
		p = b.Open(unlisted+at, webtest.Look{})
		until(p, `document.readyState === "complete"`)
		if !p.Complains("frame-ancestors") {
			t.Errorf("%s: an unlisted site embeds it", at)
		}
		if got := webtest.Evaluate[string](p, `messages.join()`); got != "" {
			t.Errorf("%s: an unlisted site got %s", at, got)
		}
		p.Close()
		p = b.Open(shop+at, webtest.Look{})
		until(p, `messages.some(m => m === "`+base+` loaded")`)
		p.Close()
	}
	// There, the script opens the payment as a page.
	p = b.Open(unlisted+"/buy", webtest.Look{})
	until(p, loaded)
	p.Do(chromedp.Click("#form button"))
	until(p, `location.pathname === "/pay/`+linkID+`" && !!document.querySelector("#amount")`)
	p.Close()
	// Without scripts, the button leads to the page of the link.
	p = b.Open(shop+"/buy", webtest.Look{NoScript: true})
	p.Send("#form button")
	if p.Path() != "/pay/"+linkID {
		t.Errorf("without scripts: %s", p.Path())
	}
	// Pages on which the merchant or the payer decides something are in no frame.
	for _, path := range []string{"/claims", "/claims/settings", linkPath, "/pay/" + claimID + "/refund/none"} {
		if got := o.Get(path).Header; got.Get("X-Frame-Options") != "DENY" ||
			!strings.Contains(got.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s: %q", path, got.Get("Content-Security-Policy"))
		}
	}
}
