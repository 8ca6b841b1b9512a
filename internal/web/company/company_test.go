package company_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/web"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/ui/texts"
)

// fakeSandbox is a Sandbox whose methods fail.
type fakeSandbox struct{}

func (fakeSandbox) Deposit(context.Context, identity.Principal, string, string, string, string, string) (string,
	error) {
	return "", ui.ErrInternal
}

func (fakeSandbox) Advance(context.Context, time.Duration) (time.Time, error) {
	return time.Time{}, ui.ErrInternal
}

// TestSimulationExistsInSandboxOnly checks that production has no simulation forms even if Deps has a Sandbox.
func TestSimulationExistsInSandboxOnly(t *testing.T) {
	d := pagetest.SQLite(t)
	for env, want := range map[identity.Environment]int{
		identity.Sandbox: http.StatusSeeOther, identity.Production: http.StatusNotFound} {
		h := web.New(ui.Deps{DB: d, Env: env, Sandbox: fakeSandbox{}, Now: time.Now})
		for _, path := range []string{"/sandbox/clock", "/payrolls/prl_1/sandbox/deposit"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader("seconds=900"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s %s: %d, want %d", env, path, w.Code, want)
			}
		}
	}
}

// TestNumbersByLanguage checks that numbers are formatted for readers.
func TestNumbersByLanguage(t *testing.T) {
	for tag, want := range map[string]string{
		"en": "1,234,567.50 1,234 12 \u22120.05", "es": "1.234.567,50 1234 12 \u22120,05",
		"pt": "1.234.567,50 1.234 12 \u22120,05",
		"fr": "1\u202f234\u202f567,50 1\u202f234 12 \u22120,05",
	} {
		c := &ui.Request{Reader: texts.Reader{Language: texts.Language{Tag: tag}}}
		var all []string
		for _, plain := range []string{"1234567.50", "1234", "12", "-0.05"} {
			all = append(all, c.FormatNumber(plain))
		}
		if got := strings.Join(all, " "); got != want {
			t.Errorf("%s: %q, want %q", tag, got, want)
		}
	}
}
