package auth_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/legal"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/webtest"
)

// legalTexts returns texts of some version, in English and Spanish.
func legalTexts(t *testing.T, version string) legal.Texts {
	t.Helper()
	return testkit.Must(legal.Read(fstest.MapFS{
		"terms.en.md":   {Data: []byte("Version: " + version + "\n\n# Terms\n\nPay *fairly*. <script>alert(1)</script>\n")},
		"terms.es.md":   {Data: []byte("Version: " + version + "\n\nPague bien.\n")},
		"privacy.en.md": {Data: []byte("Version: 7\n\nWe keep little.\n")},
	}))
}

// TestLegalTextsAreAccepted checks that a user accepts the legal texts once before any page, and again after a new
// version, and that nothing is asked without texts.
func TestLegalTextsAreAccepted(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d, "owner")
		open := func(texts legal.Texts) {
			pagetest.OpenSite(t, x.Site, ui.Deps{DB: d, Env: identity.Sandbox, SeededCompanies: []string{x.Company.ID},
				Operator: ui.Operator{Legal: texts}})
		}
		if got := x.SignIn("owner").Get("/account"); got.Status != http.StatusOK || strings.Contains(got.Text, "/terms") {
			t.Errorf("without texts: %d", got.Status)
		}
		if got := webtest.NewVisitor(t, x.URL).Get("/terms"); got.Status != http.StatusNotFound {
			t.Errorf("without texts: %d", got.Status)
		}

		open(legalTexts(t, "2026-01-01"))
		v := x.SignIn("owner")
		got := v.Get("/account?x=1")
		if got.Location() != "/legal/accept?next=%2Faccount%3Fx%3D1" {
			t.Fatalf("%d to %q", got.Status, got.Location())
		}
		page := v.Follow(got)
		for _, want := range []string{"Terms of service", "Version 2026-01-01", "Privacy policy", "Version 7"} {
			if !page.Contains(want) {
				t.Errorf("the page lacks %q:\n%s", want, page.Text)
			}
		}
		if got := v.Submit(page, "/legal/accept", "versions",
			"terms 2025-01-01 privacy 7"); got.Status != http.StatusConflict {
			t.Errorf("other versions: %d", got.Status)
		}
		if got := v.Submit(page, "/legal/accept"); got.Location() != "/account?x=1" {
			t.Errorf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		if got := v.Get("/account"); got.Status != http.StatusOK {
			t.Errorf("after accepting: %d", got.Status)
		}
		terms := v.Get("/terms")
		if !strings.Contains(terms.Text, "<em>fairly</em>") || strings.Contains(terms.Text, "alert(1)</script>") {
			t.Errorf("terms:\n%s", terms.Text)
		}
		if got := v.Get("/terms?lang=es"); !got.Contains("Pague bien.") {
			t.Errorf("terms in Spanish:\n%s", got.Text)
		}
		if got := v.Get("/privacy?lang=es"); !strings.Contains(got.Text, `lang="en"`) || !got.Contains("We keep little.") {
			t.Errorf("the policy without a translation:\n%s", got.Text)
		}

		open(legalTexts(t, "2026-02-01"))
		v = x.SignIn("owner")
		if got := v.Get("/account"); !strings.HasPrefix(got.Location(), "/legal/accept") {
			t.Errorf("after a new version: %d to %q", got.Status, got.Location())
		}
		if n := x.Count("SELECT COUNT(*) FROM accepted_terms WHERE user_id = $1", x.Users["owner"].ID); n != 2 {
			t.Errorf("%d acceptances", n)
		}
	})
}

// TestOperatorPresentsTheService checks the operator's name, logo and languages on pages.
func TestOperatorPresentsTheService(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t))
	pagetest.OpenSite(t, x.Site, ui.Deps{DB: x.DB, Env: identity.Sandbox, Operator: ui.Operator{Name: "Harbor Pay",
		Logo: []byte("<svg/>"), LogoType: ".svg", Languages: []string{"es", "en"}}})
	v := webtest.NewVisitor(t, x.URL)
	page := v.Get("/?lang=en")
	if !strings.Contains(page.Text, "– Harbor Pay</title>") || strings.Contains(page.Text, "Stipend") {
		t.Errorf("%s", page.Text)
	}
	at := strings.Index(page.Text, `<img src="/static/operator-`)
	if at < 0 {
		t.Fatalf("no logo in\n%s", page.Text)
	}
	logo, _, _ := strings.Cut(page.Text[at+len(`<img src="`):], `"`)
	if got := v.Get(logo); got.Text != "<svg/>" || got.Header.Get("Content-Type") != "image/svg+xml" {
		t.Errorf("%d %q %s", got.Status, got.Text, got.Header.Get("Content-Type"))
	}
	if got := v.Get("/sign-in?lang=fr"); !strings.Contains(got.Text, `<html lang="es"`) ||
		strings.Contains(got.Text, "lang=fr\"") {
		t.Errorf("a language that is not offered:\n%s", got.Text)
	}
	if got := v.Get("/sign-in?lang=en"); !strings.Contains(got.Text, `<html lang="en"`) {
		t.Errorf("a language that is offered:\n%s", got.Text)
	}
}
