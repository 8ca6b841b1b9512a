package app_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// A developer can read and try the API in a browser that connects only to the service.
func TestDocsInABrowser(t *testing.T) {
	t.Parallel()
	s := boot(t, dbtest.SQLite(t))
	_, text := get(t, s.Ready().BaseURL+"/openapi.json")
	var contract struct {
		Tags  []struct{ Name string }
		Paths map[string]map[string]struct {
			Summary string
			Tags    []string
		}
	}
	testkit.Check(t, json.Unmarshal([]byte(text), &contract))
	p := webtest.Start(t).Open(s.Ready().BaseURL+"/reference#tag/payrolls", webtest.Look{})
	eventually(t, time.Minute, "the page lists the operations of payrolls", func() bool {
		return strings.Contains(p.Text(), contract.Paths["/api/company/payroll/create"]["post"].Summary)
	})
	// Elements of Scalar, which this page cannot change; see CONTRIBUTING.md.
	p.AuditExcept("aria-allowed-attr", "aria-input-field-name", "aria-required-children", "button-name",
		"label-content-name-mismatch", "nested-interactive", "scrollable-region-focusable")
	page := p.Text()
	for _, tag := range contract.Tags {
		if !strings.Contains(page, tag.Name) {
			t.Errorf("the page does not show the tag %s", tag.Name)
		}
	}
	listed := 0
	for path, methods := range contract.Paths {
		for method, op := range methods {
			if len(op.Tags) == 1 && op.Tags[0] == "Payrolls" {
				listed++
				if !strings.Contains(page, op.Summary) {
					t.Errorf("the page does not list %s %s: %s", method, path, op.Summary)
				}
			}
		}
	}
	if listed < 5 {
		t.Errorf("the contract has %d operations of payrolls", listed)
	}

	// press clicks the last visible button with a label. The buttons of an open dialog come after those of the page.
	press := func(what string) {
		t.Helper()
		label, err := json.Marshal(what)
		testkit.Check(t, err)
		eventually(t, time.Minute, what, func() bool {
			return webtest.Evaluate[bool](p, `(() => {
				const all = [...document.querySelectorAll("button")].filter(b =>
					b.textContent.replace(/\s+/g, " ").includes(`+string(label)+`));
				all.at(-1)?.click();
				return all.length > 0;
			})()`)
		})
	}
	try := func(method, path string, want *regexp.Regexp) string {
		t.Helper()
		press("(" + method + " " + path + ")")
		press("Send " + method + " request to " + s.Ready().BaseURL + path)
		answered := ""
		eventually(t, time.Minute, "an answer to "+method+" "+path, func() bool {
			answered = p.Text()
			return want.MatchString(answered)
		})
		return answered
	}
	try("get", "/api/company/payrolls", regexp.MustCompile(`\b200 OK\b`))
	press("Close Client")
	// A request that moves money needs an idempotency key, which the page creates. The payees in the example do not
	// exist.
	if got := try("post", "/api/company/payroll/create", regexp.MustCompile(`\b4\d\d [A-Z]`)); strings.Contains(got,
		"400 Bad Request") {
		t.Errorf("the request that the page sent:\n%s", got)
	}
	p.Quiet()
}
