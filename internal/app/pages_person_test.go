package app_test

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/pquerna/otp/totp"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// mailed waits for an email to an address with a link that starts with path, and returns that of the newest one. Emails
// that aren't sent for a company are visible without signing in.
func (o *companyBrowser) mailed(to, path string) (link string) {
	o.Helper()
	pattern := regexp.MustCompile(`href="(?:http://[^"/]+)?(` + path + `[^"]+)"`)
	reader := webtest.NewVisitor(o.T, o.s.Ready().BaseURL)
	eventually(o.T, 60*time.Second, "an email to "+to+" is sent", func() bool {
		for _, got := range []webtest.Visit{reader.Get("/sandbox/mails"), o.Get("/sandbox/mails")} {
			for _, mail := range strings.Split(got.Text, "<details")[1:] { // the newest first
				head, _, _ := strings.Cut(mail, `<div class="body`)
				if m := pattern.FindStringSubmatch(mail); m != nil && strings.Contains(head, " "+to+" ") {
					link = m[1]
					break
				}
			}
		}
		return link != ""
	})
	return link
}

// A worker accepts an invitation, chooses a password, corrects their profile, and uploads documents with a camera or
// from a file. The worker sees why a document was rejected, uploads it again, and is verified.
func TestAWorkerIsVerifiedInABrowser(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	base, at := o.s.Ready().BaseURL, "/account/verification"
	picture := filepath.Join(t.TempDir(), "paper.png")
	var data bytes.Buffer
	if err := errors.Join(png.Encode(&data, image.NewGray(image.Rect(0, 0, 8, 8))), os.WriteFile(picture, data.Bytes(),
		0o600)); err != nil {
		t.Fatal(err)
	}
	for _, look := range looks {
		b := webtest.Start(t)
		page, user := o.payee(b, "ada"+strconv.Itoa(look.Width)+"@worker.example", look)
		p := &flow{T: t, Page: page, base: base, look: look}
		p.at(at)
		p.shows("Not started", "Who pays you. If", "A passport or other ID")
		profile := "form[action$='/profile'] button"
		webtest.Evaluate[int](p.Page, "document.querySelectorAll('details').forEach(d => { d.open = true }); 1")
		p.set("city", "")
		p.set("street_address", "2 Hidden Street")
		p.Send(profile)
		p.holds("street_address", "2 Hidden Street", "city")
		p.set("city", "Albany")
		p.Send(profile)
		p.shows("Saved.")
		p.holds("city", "Albany", "")
		p.Send("form[action$='/payer'] button")
		p.shows("This field is required.")
		p.Fill("#payer_name", "Acme")
		p.Send("form[action$='/payer'] button")
		p.shows("Selfie", "Tax ID")
		if got := webtest.Evaluate[string](p.Page,
			"[...document.querySelectorAll('input[type=file]')].map(i => "+
				"i.getAttribute('capture')).join()"); got != "environment,user" {
			t.Errorf("the camera inputs are %q", got)
		}
		b.Open(base+at, webtest.Look{Width: 320, Dark: true}).Audit()

		p.Send("#papers button")
		p.shows("Choose an image")
		upload := func() {
			p.Do(chromedp.SetUploadFiles("#image", []string{picture}))
			p.Send("#papers button")
		}
		p.set("doc_type", "drivers_license")
		upload()
		p.shows("Driver’s license (Back)")
		p.set("doc_type", "drivers_license")
		p.set("category", "back")
		upload()
		p.Do(chromedp.SetUploadFiles("#face", []string{picture}))
		p.Send("#own-face button")
		p.Fill("#tax_id", "000000000")
		p.Send("#number button")
		p.shows("This isn’t a valid tax ID of this type.")
		p.set("tax_id", "536904399")
		p.Send("#number button")
		p.Send("form[action$='/start'] button")
		p.shows("In review")
		if strings.Contains(p.Text(), "536904399") {
			t.Error("the page shows the whole tax ID")
		}

		// The reviewer asks for new documents, with a reason, and then approves them.
		v := webtest.NewVisitor(t, base)
		decide := func(result string) {
			page := v.Get("/sandbox/verifications/" + user)
			if got := v.Submit(page, "/sandbox/verifications/"+user, "result", result); got.Status != http.StatusSeeOther {
				t.Fatalf("%s: %d\n%s", result, got.Status, got.Text)
			}
			p.at(at)
		}
		if got := v.Get("/sandbox/verifications"); !strings.Contains(got.Text, user) {
			t.Errorf("%s does not wait for a decision:\n%s", user, got.Text)
		}
		decide("resubmission_required")
		p.shows("New documents needed", "Decided manually in the sandbox")
		upload()
		p.Send("form[action$='/start'] button")
		decide("approved")
		p.shows("Verified", "There’s nothing else to do.")
	}
}

// A business signs up, sets up a second factor, registers an app, and authorizes it for the company. Its program then
// calls the API, and the call appears in the request log. The user does all of this without JavaScript on a narrow
// screen.
func TestFromSignUpToTheFirstCallInABrowser(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	base := o.s.Ready().BaseURL
	const who = "grace@nano.example"
	p := webtest.Start(t).Open(base+"/sign-up", webtest.Look{NoScript: true, Width: 320})
	p.Fill("#email", who)
	p.Send("main button")
	p.Do(chromedp.Navigate(base + o.mailed(who, "/sign-up/")))
	for _, f := range [][2]string{{"first_name", "Grace"}, {"last_name", "Hopper"}, {"company_name", "Nanosecond Ltd"},
		{"country", "United S"}, {"new_password", "seven tiny purple boats"}} {
		p.Fill("#"+f[0], f[1])
	}
	p.Send("main button")
	p.Do(chromedp.Navigate(base + "/settings/api"))
	p.Fill("#name", "Payroll robot")
	webtest.Evaluate[string](p, "document.querySelector('#c_company_worker_list').checked = true; ''")
	register := "form[action='/settings/api'] button"
	p.Send(register)
	p.Send("form[action='/account/factor/begin'] button")
	code, err := totp.GenerateCode(regexp.MustCompile(`[A-Z2-7]{32}`).FindString(p.Text()), time.Now())
	testkit.Check(t, err)
	p.Fill("#code", code)
	p.Send("form[action='/account/factor/confirm'] button")
	p.Send("main a[href='/settings/api?resume=1']") // the form still has what was entered
	p.Send(register)
	p.Send("main a[href^='/settings/api/app_']")
	p.Send("form[action$='/keys'] button")
	key := regexp.MustCompile(`stp_sandbox_key_\w+`).FindString(p.Text())
	if key == "" {
		t.Fatalf("no API key at %s:\n%s", p.Path(), p.Text())
	}
	program := o.d.as("Basic " + key)
	program.ok("GET", "/api/company/workers", "", "X-Request-Id", "the-first-call")
	program.refused(http.StatusForbidden, "insufficient_scope", "POST", createPath,
		pays("", "1", o.d.seed.Workers[0].UserID), "Idempotency-Key", "any")
	eventually(t, 30*time.Second, "the call is in the log", func() bool {
		p.Do(chromedp.Navigate(base + "/settings/api/requests"))
		return strings.Contains(p.Text(), "GET /api/company/workers")
	})
	if text := p.Text(); !strings.Contains(text, "403 insufficient_scope") || strings.Contains(text, key) {
		t.Errorf("%s", text)
	}
}
