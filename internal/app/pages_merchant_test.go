package app_test

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/pquerna/otp/totp"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// A merchant who has never seen the API signs up in the sandbox, brands the checkout, makes a link, is paid over
// Lightning and in USDC, refunds half, and exports the month, with few clicks.
func TestAMerchantFromSignUpToTheMonthsExportInABrowser(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t), func(c *app.Config) { c.LndURL = app.SimulatedLnd })
	base := o.s.Ready().BaseURL
	const who = "owner@books.example"
	b := webtest.Start(t)
	p := b.Open(base+"/sign-up", webtest.Look{Width: 390})
	clicks := 0
	click := func(selector string) {
		t.Helper()
		clicks++
		p.Send(selector)
	}
	shows := func(wants ...string) {
		t.Helper()
		eventually(t, 60*time.Second, strings.Join(wants, ", "), func() bool {
			text := p.Text()
			for _, want := range wants {
				if !strings.Contains(text, want) {
					return false
				}
			}
			return true
		})
	}
	p.Fill("#email", who)
	click("main button")
	p.Do(chromedp.Navigate(base + o.mailed(who, "/sign-up/")))
	for _, f := range [][2]string{{"first_name", "Ada"}, {"last_name", "Byron"}, {"company_name", "Corner Books Ltd"},
		{"country", "United S"}, {"new_password", "seven tiny purple boats"}} {
		p.Fill("#"+f[0], f[1])
	}
	click("main button")
	if p.Path() != "/overview" {
		t.Errorf("after signing up the merchant is at %s", p.Path())
	}

	// Branding. The second factor is set up on the way, and what was entered is kept.
	click("main a[href='/claims']")
	click("main a[href='/claims/branding']")
	webtest.Evaluate[string](p, `document.querySelector("#accent_color").value = "#7a1f5c"`)
	p.Fill("#display_name", "Corner Books")
	p.Fill("#thank_you", "Enjoy your books.")
	save := "form[action='/claims/branding'] .btn.primary"
	click(save)
	click("form[action='/account/factor/begin'] button")
	code, err := totp.GenerateCode(regexp.MustCompile(`[A-Z2-7]{32}`).FindString(p.Text()), time.Now())
	testkit.Check(t, err)
	p.Fill("#code", code)
	click("form[action='/account/factor/confirm'] button")
	click("main a[href='/claims/branding?resume=1']")
	if kept := webtest.Evaluate[string](p, `document.querySelector("#accent_color").value`); kept != "#7a1f5c" {
		t.Errorf("the second factor lost the color: %q", kept)
	}
	click(save)
	shows("Saved")
	picture := filepath.Join(t.TempDir(), "logo.png")
	testkit.Check(t, os.WriteFile(picture, logo(t), 0o600))
	p.Do(chromedp.SetUploadFiles("#logo", []string{picture}))
	click("form[action='/claims/branding/logo'] button")
	shows("Saved")

	// A link, which the payer opens on another device.
	click(".crumbs a[href='/claims']")
	click("main a[href='/claims/links']")
	click("main a[href='/claims/links/new']")
	p.Fill("#title", "Concert ticket")
	p.Fill("#amount", "100")
	click("main form .btn.primary")
	shows("Concert ticket", "Link to share")
	link := webtest.Evaluate[string](p, `document.querySelector("#copy-link").dataset.copy`)
	payer := b.Open(link, webtest.Look{Width: 390})
	if got := webtest.Evaluate[string](payer,
		`getComputedStyle(document.querySelector("main form .btn.primary")).backgroundColor`); got != "rgb(122, 31, 92)" {
		t.Errorf("the button of the link is %s", got)
	}
	if width := webtest.Evaluate[int](payer, `document.querySelector("img.logo").naturalWidth`); width != 64 {
		t.Errorf("the logo of the link is %d pixels wide", width)
	}
	payer.Send("main form button")
	p.Do(chromedp.Reload())
	click("main a[href^='/claims/clm_']")
	claimAt := p.Path()
	if name := webtest.Evaluate[string](p, `document.querySelector("h1").textContent`); name != "Concert ticket" {
		t.Errorf("the claim is called %q", name)
	}
	eventually(t, 60*time.Second, "an invoice", func() bool {
		p.Do(chromedp.Reload())
		return webtest.Evaluate[bool](p, `!!document.querySelector("#option option[value='BTC/lightning']")`)
	})
	webtest.Evaluate[string](p, `document.querySelector("#option").value = "BTC/lightning"`)
	click("#simulate-pay")
	eventually(t, 60*time.Second, "the payer sees the receipt", func() bool {
		return strings.Contains(payer.Text(), "Enjoy your books.")
	})
	if text := payer.Text(); !strings.Contains(text, "Corner Books") {
		t.Errorf("the checkout has no brand: %s", text)
	}

	// A claim for an order, which the payer pays in USDC.
	p.Do(chromedp.Navigate(base + "/claims"))
	click("main a[href='/claims/new']")
	p.Fill("#amount", "40")
	p.Fill("#denomination_currency", "USD")
	p.Fill("#payer_id", "customer-1")
	p.Fill("#external_id", "order-7")
	click("main form .btn.primary")
	orderAt := p.Path()
	order := b.Open(base+"/pay/"+strings.TrimPrefix(orderAt, "/claims/"), webtest.Look{Width: 390})
	webtest.Evaluate[string](p, `document.querySelector("#option").value =
		document.querySelector("#option option[value^='USDC/']").value`)
	click("#simulate-pay")
	eventually(t, 60*time.Second, "the payer sees the receipt", func() bool {
		return strings.Contains(order.Text(), "Enjoy your books.")
	})

	// Half of the ticket is refunded to the payer, who names an address.
	p.Do(chromedp.Navigate(base + claimAt))
	shows("Refund the payer", "Paid")
	if strings.Contains(p.Text(), "0 of 0") {
		t.Error("a payment over Lightning has confirmations")
	}
	webtest.Evaluate[string](p, `document.querySelector("#amount").value = ""`)
	p.Fill("#amount", "50")
	click("form[action$='/refunds/check'] .btn.primary")
	shows("50.00")
	click("form[action$='/refunds'] .btn.primary")
	if text := p.Text(); strings.Contains(text, "password manager") || !strings.Contains(text, "only to the payer") {
		t.Errorf("the payer's link: %s", text)
	}
	back := regexp.MustCompile(`/pay/clm_\w+/refund/\w+`).FindString(p.Text())
	payer.Do(chromedp.Navigate(base + back))
	payer.Fill("#address", payersOwn)
	payer.Send("main form button")
	payer.Send("main form button")
	eventually(t, 2*time.Minute, "the refund has arrived", func() bool {
		p.Do(chromedp.Navigate(base + claimAt))
		return strings.Contains(p.Text(), "Refund: Refunded")
	})

	// The export of the month, which is filled in, has both claims and what was earned.
	p.Do(chromedp.Navigate(base + "/claims"))
	clicks++
	sheet := string(p.Download("form[action='/claims/month.csv'] button"))
	for _, want := range []string{strings.TrimPrefix(claimAt, "/claims/"), strings.TrimPrefix(orderAt, "/claims/"),
		"order-7", ",99.00,1.00,USD,"} {
		if !strings.Contains(sheet, want) {
			t.Errorf("no %q in the export\n%s", want, sheet)
		}
	}
	t.Logf("%d clicks", clicks)
	if clicks > 25 {
		t.Errorf("%d clicks", clicks)
	}
	o.d.checkLedgerBalances()
}

// logo returns a picture of a square of 64 pixels.
func logo(t *testing.T) []byte {
	t.Helper()
	square := image.NewNRGBA(image.Rect(0, 0, 64, 64))
	for i := range square.Pix {
		square.Pix[i] = 0xff
	}
	var b bytes.Buffer
	testkit.Check(t, png.Encode(&b, square))
	return b.Bytes()
}
