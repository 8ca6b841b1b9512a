package app

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
)

// Each event that stipend trigger lists happens for real, and reaches a developer's machine through stipend listen, signed with
// the secret that it printed.
func TestListenAndTrigger(t *testing.T) {
	s := boot(t, dbtest.SQLite(t))
	client := Client{BaseURL: s.Ready().BaseURL}
	type request struct {
		header http.Header
		body   []byte
	}
	arrived := make(chan request, 1000)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		arrived <- request{r.Header, body}
	}))
	defer receiver.Close()
	var endpoint struct {
		Secret string `json:"secret"`
	}
	if err := client.open().post(t.Context(), "/api/webhooks", map[string]any{"url": receiver.URL, "events": []string{"claim.*"}}, &endpoint); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var done sync.WaitGroup
	done.Go(func() {
		_ = ListenCmd{Client: client, ForwardTo: receiver.URL + "/hooks"}.Run(ctx, Streams{Out: in, Err: io.Discard})
		in.Close()
	})
	defer done.Wait()
	defer stop()
	printed := make(chan string, 1000)
	go func() {
		var line []byte
		b := make([]byte, 1)
		for {
			if _, err := out.Read(b); err != nil {
				return
			}
			if line = append(line, b[0]); b[0] == '\n' {
				printed <- string(line)
				line = nil
			}
		}
	}()
	<-printed
	secret := strings.TrimSpace(strings.TrimPrefix(<-printed, "Signing secret: "))
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for name := range triggers {
		var text bytes.Buffer
		if err := (TriggerCmd{Client: client, Event: name, Timeout: time.Minute}).Run(t.Context(), Streams{Out: &text}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var head eventHead
		if err := json.Unmarshal(text.Bytes(), &head); err != nil || head.Event != name {
			t.Errorf("%s printed %s", name, text.Bytes())
		}
		for !seen[head.ID] {
			r := <-arrived
			if r.header.Get("webhook-id") != "" && bytes.Contains(r.body, []byte(`"webhook.test"`)) && verifier.Verify(r.body, r.header) != nil {
				continue // the real delivery of the ping, by the endpoint's own secret
			}
			if err := verifier.Verify(r.body, r.header); err != nil {
				t.Errorf("%v: %s", err, r.body)
			}
			seen[r.header.Get("webhook-id")] = true
		}
	}
	checkEvents(t, s)

	var list bytes.Buffer
	if err := (TriggerCmd{Client: client}).Run(t.Context(), Streams{Out: &list}); err != nil || strings.Count(list.String(), "\n") != len(triggers) {
		t.Errorf("%v\n%s", err, list.String())
	}
	if err := (TriggerCmd{Client: client, Event: "claim.paid"}).Run(t.Context(), Streams{Out: io.Discard}); err == nil {
		t.Error("an unknown event is triggered")
	}
}

// checkEvents looks for changes of what partners hear of that left no event of the same version, and for events out of order.
func checkEvents(t *testing.T, s *Service) {
	t.Helper()
	err := s.db.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		rows, err := tx.Query(ctx, `SELECT h.object_id, h.version, h.to_state FROM history h
			LEFT JOIN events e ON e.company_id = h.company_id AND e.object_id = h.object_id AND e.sequence = h.version
			WHERE e.event_id IS NULL AND (SUBSTR(h.object_id, 1, 4) IN ('prl_', 'pmt_', 'rec_') OR SUBSTR(h.object_id, 1, 4) = 'quo_' AND h.to_state = 'expired')`)
		_, err = db.Collect(rows, err, func(r *db.Rows) (none struct{}, err error) {
			var object, to string
			var version int64
			err = r.Scan(&object, &version, &to)
			t.Errorf("%s became %q, version %d, and no event says so", object, to, version)
			return none, err
		})
		if err != nil {
			return err
		}
		var disordered, events int64
		if err := tx.QueryRow(ctx, `SELECT COUNT(*), (SELECT COUNT(*) FROM events) FROM events a JOIN events b ON b.company_id = a.company_id
			AND b.object_id = a.object_id AND b.sequence > a.sequence AND b.position < a.position AND b.position > 0`).Scan(&disordered, &events); err != nil {
			return err
		}
		if disordered != 0 || events == 0 {
			t.Errorf("%d of %d events stand before an earlier one of their object", disordered, events)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
