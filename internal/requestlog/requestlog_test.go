package requestlog_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/requestlog"
	"github.com/stipend/stipend/internal/testkit"
)

// fixture is a log on a database with a fixed clock.
type fixture struct {
	*testing.T
	d     *db.DB
	clock *dbtest.Clock
	log   *requestlog.Log
}

func run(t *testing.T, f func(b *fixture)) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		f(&fixture{t, d, clock, requestlog.New(d, clock.Now, slog.New(slog.DiscardHandler))})
	})
}

func (b *fixture) add(all ...requestlog.Entry) {
	for _, e := range all {
		if e.At.IsZero() {
			e.At = b.clock.Now()
		}
		if e.CompanyID == "" {
			e.CompanyID = "com_a"
		}
		if e.Route == "" {
			e.Method, e.Route, e.URL = "POST", "/api/company/payroll/create", "/api/company/payroll/create"
		}
		b.log.Add(e)
	}
	b.log.Flush(b.Context())
}

// list returns all entries, read in pages of n.
func (b *fixture) list(company string, f requestlog.Filter, n int) (all []requestlog.Request) {
	b.Helper()
	f.Limit = n
	for {
		dbtest.Read(b, b.d, func(ctx context.Context, tx *db.Tx) error {
			some, next, err := requestlog.List(ctx, tx, company, f)
			all, f.After = append(all, some...), next
			return err
		})
		if f.After == "" {
			return all
		}
	}
}

func TestSecretAndPersonalValuesAreRedacted(t *testing.T) {
	run(t, func(b *fixture) {
		id := "rec_" + strings.Repeat("0", 26)
		b.add(requestlog.Entry{
			Route: "/api/company/{company_id}/recipients/{recipient_id}", Method: "PATCH", Status: 200,
			URL: "/api/company/com_" + strings.Repeat("0", 26) +
				"/recipients/ada@canary.example?page=2&email=ada%40canary.example&search=canary&canary%40x=1&status=canary%40x",
			Body: []byte(`{"currency":"USD","first_name":"canary","date_of_birth":"1985-01-01","state":"CANARY","zip":12345,` +
				`"amount_fiat":12.50,"is_premium":true,"status":"canary name with \"quotes\"",` +
				`"canary@x":1,"123456789":"canary",` +
				`"distribution_data":{"address":"canary","iban":"DE89370400440532013000"},"recipient_id":"` + id +
				`","pointer":"/canary","title":"canary",` +
				`"tax_id":"canary","client_secret":"canary","to_pay":[1,2,3,4,5,6,7],"network":"bad\u0000"}`),
			Answer: []byte(`{"recipient_id":"` + id +
				`","email":"ada@canary.example","secret":"whsec_canary","status":"active","detail":"canary",` +
				`"created":"2026-01-01"}`),
			IdempotencyKey: "canary-canary-of-march", Replayed: true, Took: 1500 * time.Microsecond, RequestID: "req_1",
			AppID: "app_1", Credential: "key_1",
		})
		got := b.list("com_a", requestlog.Filter{}, 10)
		if len(got) != 1 {
			t.Fatalf("%d entries", len(got))
		}
		r := got[0]
		if want := "/api/company/com_" + strings.Repeat("0", 26) +
			"/recipients/…?page=2&email=…&search=…&…=…&status=…"; r.Path != want {
			t.Errorf("path %s\nwant %s", r.Path, want)
		}
		if want := `{"currency":"USD","first_name":"…","date_of_birth":"…","state":"…","zip":"…",` +
			`"amount_fiat":12.50,"is_premium":true,"status":"…",` +
			`"…":"…","…":"…","distribution_data":{"address":"…","iban":"…"},"recipient_id":"` + id +
			`","pointer":"…","title":"…",` +
			`"tax_id":"…","client_secret":"…","to_pay":["…","…","…","…","…","… +2"],"network":"…"}`; r.Body != want {
			t.Errorf("body %s\nwant %s", r.Body, want)
		}
		if want := `{"recipient_id":"` + id +
			`","email":"…","secret":"…","status":"active","detail":"…","created":"2026-01-01"}`; r.Answer != want {
			t.Errorf("answer %s\nwant %s", r.Answer, want)
		}
		if r.IdempotencyKey != "cana…arch" || !r.Replayed || r.Took != 1500*time.Microsecond || r.Status != 200 ||
			!r.At.Equal(b.clock.Now()) {
			t.Errorf("%+v", r)
		}

		// An error response has texts of the service, but pointers may contain submitted names.
		b.add(requestlog.Entry{RequestID: "req_2", Status: 422, Code: "unknown_field",
			Answer: []byte(`{"title":"There is no such member","status":422,"code":"unknown_field","detail":"Leave it out.",` +
				`"errors":[{"pointer":"/canary@x","message":"Leave it out."},{"pointer":"/to_pay/3/amount_fiat"}]}`),
			Body: []byte(`{"broken`), IdempotencyKey: "short"})
		r = b.list("com_a", requestlog.Filter{RequestID: "req_2"}, 10)[0]
		if want := `{"title":"There is no such member","status":422,"code":"unknown_field","detail":"Leave it out.",` +
			`"errors":[{"pointer":"…","message":"Leave it out."},{"pointer":"/to_pay/3/amount_fiat"}]}`; r.Answer != want ||
			r.Body != "{…" || r.IdempotencyKey != "…" {
			t.Errorf("%s, %s, %s", r.Answer, r.Body, r.IdempotencyKey)
		}
	})
}

// A company sees only its own entries, newest first.
func TestListFiltersEntries(t *testing.T) {
	run(t, func(b *fixture) {
		for i, status := range []int{200, 422, 503, 200} {
			b.clock.Advance(time.Hour)
			b.add(requestlog.Entry{Status: status, RequestID: string(rune('a' + i)), AppID: "app_1", Replayed: i == 3})
		}
		b.add(requestlog.Entry{CompanyID: "com_b", Status: 200, RequestID: "theirs"}, requestlog.Entry{Method: "GET",
			Route: "/api/wallets", URL: "/api/wallets", RequestID: "e", Status: 200, Reads: true,
			At: b.clock.Now().Add(time.Second)})
		for _, it := range []struct {
			f    requestlog.Filter
			want string
		}{
			{requestlog.Filter{}, "edcba"},
			{requestlog.Filter{Outcome: requestlog.Succeeded}, "eda"},
			{requestlog.Filter{Outcome: requestlog.Refused}, "b"},
			{requestlog.Filter{Outcome: requestlog.Failed}, "c"},
			{requestlog.Filter{Outcome: requestlog.Replayed}, "d"},
			{requestlog.Filter{AppID: "app_1", Route: "/api/company/payroll/create"}, "dcba"},
			{requestlog.Filter{Route: "/api/wallets"}, "e"},
			{requestlog.Filter{RequestID: "c"}, "c"},
			{requestlog.Filter{RequestID: "theirs"}, ""},
			{requestlog.Filter{To: b.clock.Now().Add(-time.Hour)}, "cba"},
			{requestlog.Filter{After: "nonsense"}, "edcba"},
		} {
			for _, n := range []int{1, 2, 100} {
				got := ""
				for _, r := range b.list("com_a", it.f, n) {
					got += r.RequestID
				}
				if got != it.want {
					t.Errorf("%+v by %d: %q, want %q", it.f, n, got, it.want)
				}
			}
		}
		line := b.list("com_a", requestlog.Filter{}, 1)[0]
		dbtest.Read(t, b.d, func(ctx context.Context, tx *db.Tx) error {
			if got, err := requestlog.Get(ctx, tx, "com_a", line.Ref); err != nil || got != line {
				t.Errorf("%+v, %v", got, err)
			}
			for _, company := range []string{"com_b", ""} {
				if _, err := requestlog.Get(ctx, tx, company, line.Ref); err == nil {
					t.Errorf("company %q gets the entry of another", company)
				}
			}
			return nil
		})
	})
}

// The entries of one company do not displace those of another.
func TestBufferedEntriesAreLimited(t *testing.T) {
	run(t, func(b *fixture) {
		for range 700 {
			b.log.Add(requestlog.Entry{CompanyID: "com_a", Reads: true, Status: 200, At: b.clock.Now()})
			b.log.Add(requestlog.Entry{CompanyID: "com_a", Status: 200, At: b.clock.Now(), Body: make([]byte, 100_000)})
		}
		b.log.Add(requestlog.Entry{CompanyID: "com_b", Reads: true, Status: 200, At: b.clock.Now()})
		b.log.Add(requestlog.Entry{CompanyID: "", Status: 200, At: b.clock.Now()})
		b.log.Flush(t.Context())
		if a, other := len(b.list("com_a", requestlog.Filter{}, 1000)),
			len(b.list("com_b", requestlog.Filter{}, 1000)); a != 505 || other != 1 {
			t.Errorf("%d and %d entries, want 505 and 1", a, other)
		}
		if got := requestlog.Truncate(make([]byte, 1<<20)); cap(got) > 8<<10 {
			t.Errorf("Truncate keeps %d bytes of a large body", cap(got))
		}
	})
}

// Expired entries are hidden at once and deleted by Prune.
func TestEntriesExpire(t *testing.T) {
	run(t, func(b *fixture) {
		for range 2 {
			for range 400 {
				b.log.Add(requestlog.Entry{CompanyID: "com_a", Status: 200, At: b.clock.Now()})
				b.log.Add(requestlog.Entry{CompanyID: "com_b", Status: 200, At: b.clock.Now()})
			}
			b.log.Flush(t.Context())
		}
		b.clock.Advance(requestlog.Life / 2)
		b.add(requestlog.Entry{CompanyID: "com_a", Status: 200})
		b.clock.Advance(requestlog.Life / 2)
		if got := len(b.list("com_a", requestlog.Filter{}, 100)); got != 1 {
			t.Errorf("%d entries are visible, want the newer one", got)
		}
		testkit.Check(t, requestlog.Prune(t.Context(), b.d))
		b.clock.Set(b.clock.Now().Add(-time.Hour)) // makes undeleted entries visible again
		if a, other := len(b.list("com_a", requestlog.Filter{}, 5000)),
			len(b.list("com_b", requestlog.Filter{}, 5000)); a != 1 || other != 0 {
			t.Errorf("%d and %d entries remain, want 1 and 0", a, other)
		}
	})
}
