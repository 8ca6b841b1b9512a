package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/webhook"
)

const (
	hookEvents   = 10_000
	hookSequence = 4 // events per object
	hookKills    = 3
	mostTwice    = 64 // deliveries of one queue that a process may have sent but not recorded
)

// hookReceiver is a partner's server that records deliveries.
type hookReceiver struct {
	mu       sync.Mutex
	bodies   map[string][]byte // by webhook-id
	last     map[string]int64  // sequence, by object
	twice    int
	killAt   int
	kill     func()
	wrong    []string
	all      chan struct{}
	verifier *standardwebhooks.Webhook
}

func (r *hookReceiver) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender was killed
	}
	var event struct {
		ID       string
		Sequence int64
		Data     struct {
			Object string `json:"payroll_id"`
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := req.Header.Get("webhook-id")
	if err := json.Unmarshal(body, &event); err != nil || event.ID != id {
		r.wrong = append(r.wrong, fmt.Sprintf("%s is sent as %s", body, id))
	}
	if err := r.verifier.Verify(body, req.Header); err != nil {
		r.wrong = append(r.wrong, fmt.Sprintf("%s: %v", id, err))
	}
	if before, again := r.bodies[id]; again {
		r.twice++
		if !bytes.Equal(before, body) {
			r.wrong = append(r.wrong, id+" came twice, and not the same")
		}
		return
	}
	r.bodies[id] = body
	if event.Sequence != r.last[event.Data.Object]+1 {
		r.wrong = append(r.wrong, fmt.Sprintf("%s got %d after %d", event.Data.Object, event.Sequence,
			r.last[event.Data.Object]))
	}
	r.last[event.Data.Object] = event.Sequence
	if r.kill != nil && len(r.bodies) >= r.killAt {
		r.kill()
		r.kill = nil
	}
	if len(r.bodies) == hookEvents {
		close(r.all)
	}
}

// The program is killed three times during 10,000 deliveries, and restarted. No delivery is lost, repeated ones have
// the same ID and body, and each object's events arrive in order.
func TestKilledBetweenDeliveriesNoneIsLost(t *testing.T) {
	binary := build(t)
	dbtest.RunURL(t, func(t *testing.T, url string) {
		w := &world{t: t, binary: binary, url: url}
		w.start(time.Hour)
		r := &hookReceiver{bodies: map[string][]byte{}, last: map[string]int64{}, all: make(chan struct{})}
		server := httptest.NewServer(r)
		defer server.Close()
		var endpoint struct {
			ID     string `json:"webhook_id"`
			Secret string `json:"secret"`
		}
		testkit.Check(t, w.call(http.MethodPost, "/api/webhooks", "", map[string]any{"url": server.URL,
			"events": []string{"payroll.*"}}, &endpoint))
		var err error
		if r.verifier, err = standardwebhooks.NewWebhook(endpoint.Secret); err != nil {
			t.Fatal(err)
		}
		w.kill()
		happen(t, url, w.ready.Seed.CompanyID)
		for i := range hookKills {
			dead := make(chan struct{})
			r.mu.Lock()
			r.killAt = (i+1)*hookEvents/(hookKills+1) + mathrand.N(500)
			r.kill = func() { close(dead) }
			r.mu.Unlock()
			w.start(time.Hour)
			w.outliveLease()
			select {
			case <-dead:
			case <-time.After(patience):
				t.Fatalf("%d of %d deliveries after %s:\n%s", len(r.bodies), hookEvents, patience, w.log)
			}
			w.kill()
		}
		w.start(time.Hour)
		w.outliveLease()
		select {
		case <-r.all:
		case <-time.After(patience):
			r.mu.Lock()
			defer r.mu.Unlock()
			t.Fatalf("%d of %d deliveries after %s:\n%s", len(r.bodies), hookEvents, patience, w.log)
		}
		look := time.NewTicker(50 * time.Millisecond)
		defer look.Stop()
		for deadline := time.Now().Add(patience); ; <-look.C {
			var open struct{ Data []json.RawMessage }
			testkit.Check(t, w.call(http.MethodGet, "/api/webhooks/"+endpoint.ID+"/deliveries?status=pending", "", nil,
				&open))
			if len(open.Data) == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("still waiting: %s", open.Data)
			}
		}
		w.kill()
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, what := range r.wrong[:min(len(r.wrong), 10)] {
			t.Error(what)
		}
		if r.twice > hookKills*mostTwice {
			t.Errorf("%d came twice, want at most %d for each kill", r.twice, mostTwice)
		}
		t.Logf("%d came twice in %d kills", r.twice, hookKills)
	})
}

// happen inserts the events of a company, as the program would.
func happen(t *testing.T, url, companyID string) {
	t.Helper()
	d, err := db.Open(t.Context(), db.Options{URL: url, AdjustableClock: true})
	testkit.Check(t, err)
	defer d.Close()
	for from := 0; from < hookEvents; from += 1000 {
		testkit.Check(t, d.Write(t.Context(), func(_ context.Context, tx *db.Tx) error {
			for i := from; i < from+1000; i++ {
				object := fmt.Sprintf("prl_%d", i/hookSequence)
				data := webhook.PayrollStatusUpdate.Example
				data.PayrollID = object
				if err := webhook.Emit(tx, webhook.PayrollStatusUpdate.Event(companyID, object, int64(i%hookSequence)+1,
					data)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

// outliveLease advances the sandbox's clock past the killed process's leases.
func (w *world) outliveLease() {
	w.t.Helper()
	testkit.Check(w.t, w.call(http.MethodPost, "/api/sandbox/clock", "", map[string]any{"advance_seconds": 61},
		&json.RawMessage{}))
}
