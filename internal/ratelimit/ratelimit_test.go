package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/ratelimit"
)

func TestAllow(t *testing.T) {
	start := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
	l := ratelimit.New(2, 3) // 2 per second, bursts of 3
	for i, c := range []struct {
		after     time.Duration
		key       string
		remaining string
		retry     string // "" means allowed
	}{
		{0, "a", "2", ""},
		{0, "a", "1", ""},
		{0, "a", "0", ""},
		{0, "a", "0", "1"},
		{0, "b", "2", ""}, // another key has a bucket of its own
		{500 * time.Millisecond, "a", "0", ""},
		{500 * time.Millisecond, "a", "0", "1"},
		{time.Minute, "a", "2", ""}, // full again, not more than the burst
		{time.Minute, "b", "2", ""}, // its full bucket was removed meanwhile
	} {
		h := http.Header{}
		err := l.Allow(start.Add(c.after), c.key, h)
		if h.Get("RateLimit-Limit") != "3" || h.Get("RateLimit-Policy") != `"credential";q=3;w=2` ||
			!strings.HasPrefix(h.Get("RateLimit"), `"credential";r=`+c.remaining+";t=") ||
			h.Get("RateLimit-Remaining") != c.remaining {
			t.Errorf("request %d: headers %v, want %s remaining", i, h, c.remaining)
		}
		if c.retry == "" {
			if err != nil {
				t.Errorf("request %d: %v", i, err)
			}
			continue
		}
		if f, _ := apierr.As(err); !errors.Is(err, ratelimit.ErrTooMany) || f.Meta["retry_after"] != c.retry {
			t.Errorf("request %d: %v", i, err)
		}
	}
}

func TestZeroPerSecondMeansNoLimit(t *testing.T) {
	l, h := ratelimit.New(0, 0), http.Header{}
	for range 100 {
		if err := l.Allow(time.Time{}, "a", h); err != nil || len(h) != 0 {
			t.Fatalf("%v, headers %v", err, h)
		}
	}
}

// request returns a request with a body of a size. A negative contentLength is an unknown length.
func request(size int, contentLength int64) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", size)))
	r.ContentLength = contentLength
	return r
}

// canceled returns a request whose client has gone, so that waiting for budget ends at once.
func canceled(r *http.Request) *http.Request {
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	return r.WithContext(ctx)
}

func TestBodyBudget(t *testing.T) {
	const large, small, limit = 4 << 20, 1 << 20, 4 << 20
	for _, c := range []struct {
		name          string
		size          int
		contentLength int64
		takes         int64 // bytes of the budget of its size
	}{
		{"empty", 0, 0, 0},
		{"free", ratelimit.FreeBodySize, ratelimit.FreeBodySize, 0},
		{"free of unknown length", ratelimit.FreeBodySize, -1, 0},
		{"small", small, small, small},
		{"large", 3 << 20, 3 << 20, 3 << 20},
		{"unknown length", ratelimit.FreeBodySize + 1, -1, limit},
		{"announced above the limit", 100, limit + 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := ratelimit.NewBodyBudget(large, small, time.Minute)
			r := request(c.size, c.contentLength)
			release, ok := b.Acquire(httptest.NewRecorder(), r, time.Now, limit)
			if !ok {
				t.Fatal("no budget for the first body")
			}
			if body, err := io.ReadAll(r.Body); err != nil || len(body) != c.size {
				t.Errorf("the body has %d bytes, want %d: %v", len(body), c.size, err)
			}
			// A second body fits if the first one left enough of the same budget.
			second := request(c.size, c.contentLength)
			budget := int64(large)
			if c.takes <= ratelimit.SmallBodySize {
				budget = small
			}
			fits := 2*c.takes <= budget
			if !fits {
				second = canceled(second)
			}
			again, ok := b.Acquire(httptest.NewRecorder(), second, time.Now, limit)
			if ok != fits {
				t.Errorf("second body: %v, want %v", ok, fits)
			}
			if ok {
				again()
			}
			release()
			if again, ok = b.Acquire(httptest.NewRecorder(), request(c.size, c.contentLength), time.Now, limit); !ok {
				t.Error("no budget after release")
			} else {
				again()
			}
		})
	}
}

// Uploads that use the whole budget of large bodies do not delay small ones.
func TestLargeAndSmallBodiesHaveSeparateBudgets(t *testing.T) {
	b := ratelimit.NewBodyBudget(3<<20, 1<<20, time.Minute)
	if _, ok := b.Acquire(httptest.NewRecorder(), request(3<<20, 3<<20), time.Now, 4<<20); !ok {
		t.Fatal("no budget for the large body")
	}
	if _, ok := b.Acquire(httptest.NewRecorder(), request(1<<20, 1<<20), time.Now, 4<<20); !ok {
		t.Error("no budget for the small body")
	}
	rejected := canceled(request(3<<20, 3<<20))
	if _, ok := b.Acquire(httptest.NewRecorder(), rejected, time.Now, 4<<20); ok {
		t.Error("budget for two large bodies")
	}
	if rest, err := io.ReadAll(rejected.Body); err != nil || len(rest) != 0 {
		t.Errorf("%d bytes of the rejected body are left: %v", len(rest), err)
	}
}

// A body that stops arriving ends long before the time for a whole body.
func TestABodyThatStopsArrivingEnds(t *testing.T) {
	read := make(chan error, 1)
	b := ratelimit.DefaultBodyBudget()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The clock is behind, so that the test need not wait for a whole step.
		late := func() time.Time { return time.Now().Add(-4900 * time.Millisecond) }
		release, ok := b.Acquire(w, r, late, 2<<20, "com_a")
		if !ok {
			read <- nil
			return
		}
		defer release()
		_, err := io.ReadAll(r.Body)
		read <- err
	}))
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n%s",
		strings.Repeat("x", 17<<10)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-read:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, want a deadline", err)
		}
	case <-time.After(15 * time.Second):
		t.Error("the body is still awaited")
	}
}

// A limiter forgets keys before they take much memory, as when a client sends a new one with each request.
func TestALimiterKeepsABoundedNumberOfKeys(t *testing.T) {
	l, start := ratelimit.New(1, 1), time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
	for i := range 150_000 {
		if err := l.Allow(start, strconv.Itoa(i), http.Header{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.Keys(); n > 100_000 {
		t.Errorf("%d keys are kept", n)
	}
}
