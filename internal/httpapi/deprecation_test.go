package httpapi

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// The responses of a deprecated operation, errors too, say since when it is deprecated and until when it works. The
// contract marks it, and names the headers.
func TestDeprecatedOperationsSaySo(t *testing.T) {
	from := time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC)
	b := newFixture(t, sqlite(t), nil)
	b.server = newServer(b.server.Deps, []route{{
		method: "GET", path: "/old", name: "old", scope: identity.CompanyDetail, kind: read, summary: "Old",
		deprecated: &deprecation{from, from.AddDate(0, 6, 0)},
		handler: handle(func(context.Context, *db.Tx, *request, *none) (*succeeded, error) {
			return &succeeded{true}, nil
		}),
	}})
	for _, authorization := range []string{"Basic " + b.key, ""} {
		got := b.do("GET", "/old", "", "Authorization", authorization)
		if h := got.header; h.Get("Deprecation") != "@1798761600" || h.Get("Sunset") != "Thu, 01 Jul 2027 00:00:00 GMT" ||
			h.Get("Link") == "" {
			t.Errorf("%d %v", got.status, h)
		}
	}
	got := b.do("GET", "/openapi.json", "")
	if got.status != http.StatusOK {
		t.Fatalf("%d %.300s", got.status, got.text)
	}
	op := got.json(t)["paths"].(members)["/old"].(members)["get"].(members)
	if text := op["description"].(string); op["deprecated"] != true ||
		!strings.HasSuffix(text, "\n\nDeprecated: since 2027-01-01. It works until 2027-07-01.") {
		t.Errorf("the contract says %v: %s", op["deprecated"], text)
	}
	headers := op["responses"].(members)["200"].(members)["headers"].(members)
	if headers["Deprecation"] == nil || headers["Sunset"] == nil {
		t.Errorf("the contract names the headers %v", headers)
	}
}
