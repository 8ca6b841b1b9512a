package httpapi

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
)

// Wrong credentials are limited per network. Valid credentials and other networks are not affected.
func TestWrongCredentialsAreLimitedPerNetwork(t *testing.T) {
	b := newFixture(t, sqlite(t), func(d *Deps) { d.Now = func() time.Time { return time.Unix(1e9, 0) } })
	from := func(address, credential string, want int) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/list", nil)
		r.RemoteAddr = address
		if credential != "" {
			r.Header.Set("Authorization", credential)
		}
		w := httptest.NewRecorder()
		b.server.ServeHTTP(w, r)
		if w.Code != want || (want == 429) != (w.Header().Get("Retry-After") != "") {
			t.Fatalf("%s with %q: %d %v, want %d", address, credential, w.Code, w.Header(), want)
		}
		if err := theContract().Check(r, nil, w.Code, w.Header(), w.Body.Bytes()); err != nil {
			t.Error(err)
		}
	}
	for i := range wrongsAtOnce {
		from("203.0.113.7:1024", []string{"Basic nonsense", "Bearer " + b.key}[i%2], 401)
	}
	from("203.0.113.7:1025", "Basic nonsense", 429)
	from("203.0.113.7:1026", "Basic "+b.key, 200)
	from("203.0.113.7:1027", "", 401) // a missing credential does not count as wrong
	from("203.0.113.8:1024", "Basic nonsense", 401)
}

// A request for another company is recorded once a minute, whether or not that company exists.
func TestRequestsForAnotherCompanyAreRecorded(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		now := time.Unix(1e9, 0)
		b, other := newFixture(t, d, func(d *Deps) { d.Now = func() time.Time { return now } }), newFixture(t, d, nil)
		rows := func() (n int64) {
			t.Helper()
			if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				return tx.QueryRow(ctx, "SELECT COUNT(*) FROM history WHERE company_id = $1 AND object_id LIKE 'key_%' AND "+
					"to_state = 'authz_denied' AND reason LIKE 'GET /list for another company, request req_%'", b.company).Scan(&n)
			}); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if got := b.do("GET", "/list?company_id="+b.company, ""); got.status != 200 || rows() != 0 {
			t.Errorf("its own: %d, %d rows", got.status, rows())
		}
		for minute := range int64(2) {
			for _, company := range []string{other.company, "com_none", other.company} {
				if got := b.do("GET", "/list?company_id="+company, ""); got.status != 404 || got.json(t)["code"] != "not_found" {
					t.Errorf("%d %s", got.status, got.text)
				}
			}
			if rows() != minute+1 {
				t.Errorf("%d rows within %d minutes", rows(), minute+1)
			}
			now = now.Add(time.Minute)
		}
		// A second process adds no row in the same minute.
		now = now.Add(-time.Minute)
		second := &fixture{t: t, db: d, key: b.key, company: b.company, server: newServer(b.server.Deps, b.routes())}
		if got := second.do("GET", "/list?company_id="+other.company, ""); got.status != 404 || rows() != 2 {
			t.Errorf("%d, %d rows", got.status, rows())
		}
	})
}
