package httpapi

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// The responses of a deprecated operation, errors too, say since when it is deprecated and until when it works. The
// contract marks it.
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
	if got := b.do("GET", "/openapi.json", ""); got.status != http.StatusOK ||
		got.json(t)["paths"].(members)["/old"].(members)["get"].(members)["deprecated"] != true {
		t.Errorf("%.300s", got.text)
	}
}
