package httpapi

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// A company creates an endpoint, receives events, reads deliveries and redelivers them.
func TestWebhooks(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		sealer, err := identity.NewSealer(make([]byte, 32))
		if err != nil {
			t.Fatal(err)
		}
		policy := delivery.Policy{Loopback: true}
		b := newService(t, d, func(deps *Deps) { deps.Webhooks = delivery.Setup{Sealer: sealer, Policy: policy} })
		log := slog.New(slog.DiscardHandler)
		sender, err := delivery.NewSender(delivery.Options{DB: d, Sealer: sealer, Env: identity.Sandbox, Policy: policy,
			Log: log})
		if err != nil {
			t.Fatal(err)
		}
		runner := job.NewRunner(d, job.Table{
			delivery.JobClear: {Tx: delivery.Clear}, delivery.JobReplay: {Tx: delivery.HandleReplay},
		}, nil, log)
		work := func() {
			t.Helper()
			for range 2 {
				if err := runner.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := sender.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		var mu sync.Mutex
		var bodies []string
		var headers []http.Header
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			bodies, headers = append(bodies, string(body)), append(headers, r.Header.Clone())
			mu.Unlock()
			_, _ = io.WriteString(w, "thanks")
		}))
		defer receiver.Close()

		// A repeated request returns the secret again, and nothing else does. It is stored encrypted.
		create := `{"url":"` + receiver.URL + `","description":"Books","events":["recipient.*"]}`
		made, text := ask[members](b, "POST", "/api/webhooks", create, "Idempotency-Key", "w1")
		if _, again := ask[members](b, "POST", "/api/webhooks", create, "Idempotency-Key", "w1"); again != text {
			t.Errorf("%s\n%s", text, again)
		}
		secret, at := made["secret"].(string), "/api/webhooks/"+made["webhook_id"].(string)
		if !strings.HasPrefix(secret, "whsec_") || made["status"] != "enabled" {
			t.Fatal(text)
		}
		var stored string
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			return tx.QueryRow(ctx, "SELECT response FROM idempotency WHERE key = 'w1'").Scan(&stored)
		}); err != nil || strings.Contains(stored, "whsec_") {
			t.Errorf("stored: %s, %v", stored, err)
		}
		for _, path := range []string{at, "/api/webhooks"} {
			if _, text := ask[members](b, "GET", path, ""); strings.Contains(text, "whsec_") ||
				!strings.Contains(text, `"description":"Books"`) {
				t.Error(text)
			}
		}
		for body, code := range map[string]string{
			`{"url":"https://169.254.169.254/"}`:                               "url_not_allowed",
			`{"url":"https://hooks.example.com/","events":["payrol.created"]}`: "invalid_parameter",
			`{"events":[]}`: "missing_field",
			`{"url":"https://hooks.example.com/","secret":"x"}`: "unknown_field",
		} {
			if got := b.do("POST", "/api/webhooks", body); got.status != 422 || got.json(t)["code"] != code {
				t.Errorf("%s: %d %s", body, got.status, got.text)
			}
		}

		recipients := "/api/company/" + b.company + "/recipients/create"
		for _, name := range []string{"Ada", "Bob", "Cy"} {
			ask[members](b, "POST", recipients, `{"first_name":"`+name+`","last_name":"L","country":"GB"}`)
		}
		work()
		if len(bodies) != 3 {
			t.Fatalf("%d deliveries", len(bodies))
		}

		// The list contains the same events, in the order of the cursor.
		page, _ := ask[members](b, "GET", "/api/events?name=recipient.*,payroll.created&limit=2", "")
		events := page["data"].([]any)
		first, second := events[0].(members), events[1].(members)
		if len(events) != 2 || page["has_more"] != true || page["next_after"] != second["id"] ||
			first["event"] != "recipient.created" ||
			first["sequence"] != 1.0 || first["environment"] != "sandbox" || first["api_version"] != "2.0" {
			t.Errorf("%v", page)
		}
		rest, _ := ask[members](b, "GET", "/api/events?after="+second["id"].(string), "")
		if left := rest["data"].([]any); len(left) != 1 || rest["has_more"] != false {
			t.Errorf("%v", rest)
		}
		object := first["data"].(members)["recipient_id"].(string)
		if of, _ := ask[members](b, "GET", "/api/events?order=desc&from=2020-01-01&to=2120-01-01&object_id="+object,
			""); len(of["data"].([]any)) != 1 {
			t.Errorf("%v", of)
		}
		for _, query := range []string{"after=evt_none", "name=nothing.*", "order=up", "from=soon", "limit=0"} {
			if got := b.do("GET", "/api/events?"+query, ""); got.status != 422 || got.json(t)["code"] != "invalid_parameter" {
				t.Errorf("%s: %d %s", query, got.status, got.text)
			}
		}

		list, text := ask[members](b, "GET", at+"/deliveries?status=succeeded&limit=2", "")
		if len(list["data"].([]any)) != 2 || list["has_more"] != true {
			t.Error(text)
		}
		next, text := ask[members](b, "GET", at+"/deliveries?after="+list["next_after"].(string), "")
		if len(next["data"].([]any)) != 1 || next["has_more"] != false {
			t.Error(text)
		}
		for query, want := range map[string]int{
			"name=recipient.created": 3, "name=payroll.*": 0, "name=payroll.*,recipient.*&status=failed": 0,
			"from=2020-01-01&to=2120-01-01": 3, "to=2020-01-01": 0, "from=2120-01-01": 0,
		} {
			if some, text := ask[members](b, "GET", at+"/deliveries?"+query, ""); len(some["data"].([]any)) != want {
				t.Errorf("%s: want %d\n%s", query, want, text)
			}
		}
		for _, query := range []string{"after=evt_none", "name=nothing.*", "status=up", "from=soon"} {
			if got := b.do("GET", at+"/deliveries?"+query, ""); got.status != 422 || got.json(t)["code"] != "invalid_parameter" {
				t.Errorf("%s: %d %s", query, got.status, got.text)
			}
		}
		one := at + "/deliveries/" + first["id"].(string)
		detail, text := ask[members](b, "GET", one, "")
		tries := detail["tries"].([]any)
		if len(tries) != 1 || tries[0].(members)["response"] != "thanks" || tries[0].(members)["http_status"] != 200.0 {
			t.Error(text)
		}
		sent := false
		for _, body := range bodies {
			sent = sent || strings.Contains(text, `"body":`+body)
		}
		if !sent {
			t.Errorf("%s\nis not one of %q", text, bodies)
		}

		ask[members](b, "POST", one+"/redeliver", "")
		work()
		if headers[3].Get("webhook-id") != first["id"] {
			t.Errorf("%v", headers[3])
		}
		ask[members](b, "POST", at+"/redeliver", `{"which":"all","from":"2020-01-01"}`)
		work()
		if len(bodies) != 7 {
			t.Errorf("%d deliveries after all were sent again", len(bodies))
		}
		ask[members](b, "POST", at+"/redeliver", `{}`)
		work()
		if len(bodies) != 7 {
			t.Errorf("%d deliveries after those that failed were sent again", len(bodies))
		}

		rotated, _ := ask[members](b, "POST", at+"/rotate", `{"overlap_seconds":60}`)
		ping, _ := ask[members](b, "POST", at+"/test", "")
		work()
		last := len(bodies) - 1
		if headers[last].Get("webhook-id") != ping["event_id"] || !strings.Contains(bodies[last], `"event":"webhook.test"`) {
			t.Errorf("%s", bodies[last])
		}
		for _, s := range []string{secret, rotated["secret"].(string)} {
			verifier, err := standardwebhooks.NewWebhook(s)
			if err == nil {
				err = verifier.Verify([]byte(bodies[last]), headers[last])
			}
			if err != nil {
				t.Error(err)
			}
		}

		if off, text := ask[members](b, "POST", at+"/disable", ""); off["status"] != "disabled_manual" ||
			off["reason"] != "requested" {
			t.Error(text)
		}
		for _, path := range []string{"/test", "/redeliver"} {
			if got := b.do("POST", at+path, `{}`); got.status != 409 {
				t.Errorf("%d %s", got.status, got.text)
			}
		}
		ask[members](b, "POST", recipients, `{"first_name":"Dee","last_name":"L","country":"GB"}`)
		work()
		if on, text := ask[members](b, "POST", at+"/enable", ""); on["status"] != "enabled" {
			t.Error(text)
		}
		before := len(bodies)
		ask[members](b, "POST", at+"/redeliver", `{}`)
		work()
		if len(bodies) != before+1 || !strings.Contains(bodies[before], "recipient.created") {
			t.Errorf("an event during the disabled state was redelivered: %d", len(bodies)-before)
		}
		if changed,
			text := ask[members](b, "PATCH", at, `{"events":["*"],"description":""}`); len(changed["events"].([]any)) != 0 ||
			changed["description"] != "" || changed["url"] != receiver.URL {
			t.Error(text)
		}

		stranger := newFixture(t, d, nil)
		stranger.server = b.server
		for _, c := range [][3]string{
			{"GET"}, {"DELETE"}, {"PATCH", "", `{"url":"https://hooks.example.com/"}`}, {"POST", "/test"}, {"POST", "/enable"},
			{"POST", "/disable"},
			{"POST", "/rotate", `{}`}, {"GET", "/deliveries"}, {"POST", "/redeliver", `{"which":"all"}`},
			{"GET", "/deliveries/" + first["id"].(string)}, {"POST", "/deliveries/" + first["id"].(string) + "/redeliver"},
		} {
			if got := stranger.do(c[0], at+c[1], c[2]); got.status != 404 {
				t.Errorf("another company gets %s %s: %d %s", c[0], c[1], got.status, got.text)
			}
		}
		if none, text := ask[members](stranger, "GET", "/api/events?object_id="+object, ""); len(none["data"].([]any)) != 0 {
			t.Error(text)
		}
		if got := stranger.do("GET", "/api/events?after="+first["id"].(string), ""); got.status != 422 {
			t.Errorf("a stranger goes on after an event: %d %s", got.status, got.text)
		}
		if gone, _ := ask[members](b, "DELETE", at, ""); gone["deleted"] != true {
			t.Errorf("%v", gone)
		}
		work()
		if got := b.do("GET", at, ""); got.status != 404 {
			t.Errorf("%d %s", got.status, got.text)
		}
		var left int64
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			return tx.QueryRow(ctx,
				"SELECT (SELECT COUNT(*) FROM webhook_deliveries) + (SELECT COUNT(*) FROM webhook_attempts)").Scan(&left)
		}); err != nil || left != 0 {
			t.Errorf("a deleted endpoint left %d rows, %v", left, err)
		}
	})
}
