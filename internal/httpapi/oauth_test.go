package httpapi

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Token requests are limited per network. All addresses of an IPv6 /64 share a limit.
func TestTokenRequestsAreLimitedPerNetwork(t *testing.T) {
	now := time.Unix(1e9, 0) // the limits do not refill
	b := newFixture(t, sqlite(t), func(d *Deps) { d.Now = func() time.Time { return now } })
	from := func(address string, want int) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), "POST", exchangePath, strings.NewReader("a=b"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.RemoteAddr = address
		w := httptest.NewRecorder()
		b.server.ServeHTTP(w, r)
		if w.Code != want || (want == 429) != (w.Header().Get("Retry-After") != "") {
			t.Fatalf("%s: %d %v, want %d", address, w.Code, w.Header(), want)
		}
		if err := theContract().Check(r, []byte("a=b"), w.Code, w.Header(), w.Body.Bytes()); err != nil {
			t.Error(err)
		}
	}
	for i := range 30 {
		from(fmt.Sprintf("[2001:db8::%x]:1024", i), 401)
		from("192.0.2.1:1024", 401)
	}
	from("[2001:db8::ffff]:1024", 429)
	from("192.0.2.1:1025", 429)
	from("[2001:db8:1::1]:1024", 401)
}
