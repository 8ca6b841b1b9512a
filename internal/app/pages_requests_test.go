package app_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db/dbtest"
)

// linesOf waits until the request log shows a request.
func (o *companyBrowser) linesOf(requestID string) {
	o.Helper()
	eventually(o.T, 20*time.Second, "the request "+requestID+" is in the log", func() bool {
		return strings.Contains(o.Get("/settings/api/requests?request_id="+requestID).Text, "<tbody")
	})
}

// A company sees its API requests without personal data, and can send them again.
func TestRequestLog(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		worker := o.s.Ready().Seed.Workers[0].UserID
		body := pays(`"external_id":"canary-reference","note_canary":"canary@private.example",`, "12.50", worker)
		o.d.refused(http.StatusUnprocessableEntity, "unknown_field", "POST", createPath, body, "Idempotency-Key",
			"the-key-of-the-canary")
		body = pays(`"external_id":"canary-reference",`, "12.50", worker)
		o.d.ok("POST", createPath, body, "Idempotency-Key", "the-key-of-the-canary", "X-Request-Id", "made")
		o.d.ok("POST", createPath, body, "Idempotency-Key", "the-key-of-the-canary", "X-Request-Id", "again")
		o.d.ok("GET", "/api/company/workers?email=canary%40private.example", "", "X-Request-Id", "last")
		o.linesOf("last")

		list := o.says(o.Get("/settings/api/requests"), "GET /api/company/workers?email=…", "422 unknown_field",
			"POST "+createPath, "Replayed response", "Sandbox")
		link := regexp.MustCompile(`href="(/settings/api/requests/[^"?]+)"`)
		made := link.FindStringSubmatch(o.Get("/settings/api/requests?request_id=made").Text)
		if again := o.says(o.Get("/settings/api/requests?outcome=replayed"), "Replayed response"); made == nil ||
			len(link.FindAllString(again.Text, -1)) != 1 {
			t.Fatalf("%v\n%s", made, again.Text)
		}
		if refused := o.Get("/settings/api/requests?outcome=refused&route=" +
			createPath); len(link.FindAllString(refused.Text, -1)) != 1 {
			t.Errorf("the list of refused requests doesn't have exactly one request:\n%s", refused.Text)
		}
		page := o.says(o.Get(made[1]), "made", worker, "12.50", "payroll_id", "the-…nary", "curl -X POST", "$IDEMPOTENCY_KEY",
			"external_id")
		o.silent(list, "canary")
		o.silent(page, "canary", "Ada") // no response contains the payee's name, and the company chose the reference itself
		o.says(o.Get(link.FindStringSubmatch(o.Get("/settings/api/requests?outcome=refused").Text)[1]), "/note_canary",
			"unknown_field")

		// The copied command sends the same request again. The user adds the credential.
		command := regexp.MustCompile(`(?s)data-copy="(curl[^"]*)"`).FindStringSubmatch(page.Text)
		if command == nil {
			t.Fatal("the page has no command to copy")
		}
		text := html.UnescapeString(command[1])
		sent := regexp.MustCompile(
			`(?s)^curl -X POST '(http://[^']+)' \\\n  -H "Authorization: Basic \$STIPEND_TOKEN" \\\n  ` +
				`-H "Idempotency-Key: \$IDEMPOTENCY_KEY" \\\n  ` +
				`-H 'Content-Type: application/json' \\\n  --data '([^']+)'$`).FindStringSubmatch(text)
		if sent == nil || sent[1] != o.s.Ready().BaseURL+createPath {
			t.Fatalf("%s", text)
		}
		o.d.ok("POST", createPath, sent[2], "Idempotency-Key", "another")

		// One company never sees the requests of another.
		_, other := o.d.stranger()
		other.ok("GET", "/api/company/workers", "", "X-Request-Id", "theirs")
		o.d.ok("GET", "/api/company/workers", "", "X-Request-Id", "ours")
		o.linesOf("ours")
		if got := o.Get("/settings/api/requests?request_id=theirs"); strings.Contains(got.Text, "<tbody") {
			t.Errorf("the log shows a request of another company:\n%s", got.Text)
		}
	})
}
