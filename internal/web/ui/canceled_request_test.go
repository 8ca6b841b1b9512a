package ui_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/ui"
)

// TestCanceledRequestIsNotAnError checks that a client that leaves during a page or an event stream is logged as
// 499.
func TestCanceledRequestIsNotAnError(t *testing.T) {
	entered := make(chan struct{})
	wait := func(ctx context.Context, _ *db.Tx, _ *ui.Request) (ui.View, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return ui.View{}, ctx.Err()
	}
	h := &pagetest.Site{T: t}
	noted := make(chan int, 2)
	pagetest.OpenSite(t, h, ui.Deps{DB: pagetest.SQLite(t), Env: identity.Sandbox,
		Observe: func(_ context.Context, _, _ string, status int, _ time.Duration) { noted <- status }},
		ui.Route{Method: "GET", Path: "/slow", Access: ui.Anyone, Handler: wait},
		ui.Route{Method: "GET", Path: "/slow/live", Kind: ui.Stream, Access: ui.Anyone, Handler: wait})
	for _, path := range []string{"/slow", "/slow/live"} {
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/event-stream")
		go func() { <-entered; leave() }()
		if got, err := http.DefaultTransport.RoundTrip(r); err == nil {
			t.Errorf("%s responded %d after cancellation", path, got.StatusCode)
			_ = got.Body.Close()
		}
		if status := <-noted; status != 499 {
			t.Errorf("%s is counted as %d", path, status)
		}
	}
	h.Close()
	if log := h.Logs.String(); strings.Contains(log, "ERROR") || strings.Contains(log, "status=503") ||
		strings.Count(log, "status=499") != 2 {
		t.Errorf("log:\n%s", log)
	}
}
