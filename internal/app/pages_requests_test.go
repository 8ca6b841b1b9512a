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

// linesOf waits until the log of requests has what was asked.
func (o *companyBrowser) linesOf(requestID string) {
	o.Helper()
	eventually(o.T, 20*time.Second, "the request "+requestID+" is in the log", func() bool {
		return strings.Contains(o.Get("/settings/api/requests?request_id="+requestID).Text, "<tbody")
	})
}

// The company sees its API requests without personal data, and can send them again.
func TestRequestLog(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		worker := o.s.Ready().Seed.Workers[0].UserID
		body := pays(`"external_id":"canary-reference","note_canary":"canary@private.example",`, "12.50", worker)
		o.d.refused(http.StatusUnprocessableEntity, "unknown_field", "POST", createPath, body, "Idempotency-Key", "the-key-of-the-canary")
		body = pays(`"external_id":"canary-reference",`, "12.50", worker)
		o.d.ok("POST", createPath, body, "Idempotency-Key", "the-key-of-the-canary", "X-Request-Id", "made")
		o.d.ok("POST", createPath, body, "Idempotency-Key", "the-key-of-the-canary", "X-Request-Id", "again")
		o.d.ok("GET", "/api/company/workers?email=canary%40private.example", "", "X-Request-Id", "last")
		o.linesOf("last")

		list := o.says(o.Get("/settings/api/requests"), "GET /api/company/workers?email=…", "422 unknown_field", "POST "+createPath, "Replayed response", "Sandbox")
		link := regexp.MustCompile(`href="(/settings/api/requests/[^"?]+)"`)
		made := link.FindStringSubmatch(o.Get("/settings/api/requests?request_id=made").Text)
		if again := o.says(o.Get("/settings/api/requests?outcome=replayed"), "Replayed response"); made == nil || len(link.FindAllString(again.Text, -1)) != 1 {
			t.Fatalf("%v\n%s", made, again.Text)
		}
		if refused := o.Get("/settings/api/requests?outcome=refused&route=" + createPath); len(link.FindAllString(refused.Text, -1)) != 1 {
			t.Errorf("refused:\n%s", refused.Text)
		}
		page := o.says(o.Get(made[1]), "made", worker, "12.50", "payroll_id", "the-…nary", "curl -X POST", "$IDEMPOTENCY_KEY", "external_id")
		o.silent(list, "canary")
		o.silent(page, "canary", "Ada") // the payee's name is in no answer, and the reference is the company's own
		o.says(o.Get(link.FindStringSubmatch(o.Get("/settings/api/requests?outcome=refused").Text)[1]), "/note_canary", "unknown_field")

		// What the command sends is the request again, for whoever has the credential.
		command := regexp.MustCompile(`(?s)data-copy="(curl[^"]*)"`).FindStringSubmatch(page.Text)
		if command == nil {
			t.Fatal("no command")
		}
		text := html.UnescapeString(command[1])
		sent := regexp.MustCompile(`(?s)^curl -X POST '(http://[^']+)' \\\n  -H "Authorization: Basic \$STIPEND_TOKEN" \\\n  -H "Idempotency-Key: \$IDEMPOTENCY_KEY" \\\n  -H 'Content-Type: application/json' \\\n  --data '([^']+)'$`).FindStringSubmatch(text)
		if sent == nil || sent[1] != o.s.Ready().BaseURL+createPath {
			t.Fatalf("%s", text)
		}
		o.d.ok("POST", createPath, sent[2], "Idempotency-Key", "another")

		// Another company sees none of it.
		_, other := o.d.stranger()
		other.ok("GET", "/api/company/workers", "", "X-Request-Id", "theirs")
		o.d.ok("GET", "/api/company/workers", "", "X-Request-Id", "ours")
		o.linesOf("ours")
		if got := o.Get("/settings/api/requests?request_id=theirs"); strings.Contains(got.Text, "<tbody") {
			t.Errorf("the request of another company is shown:\n%s", got.Text)
		}
	})
}
