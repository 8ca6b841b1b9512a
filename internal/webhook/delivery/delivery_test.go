package delivery_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/webhook"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// world is a company with a sender. The test advances the clock.
type world struct {
	*testing.T
	d      *db.DB
	clock  *dbtest.Clock
	by     identity.Principal
	setup  delivery.Setup
	sender *delivery.Sender
	jobs   *job.Runner
}

var local = delivery.Policy{Loopback: true}

func newWorld(t *testing.T, d *db.DB, clock *dbtest.Clock, change ...func(*delivery.Options)) *world {
	t.Helper()
	sealer, err := identity.NewSealer(make([]byte, 32))
	testkit.Check(t, err)
	w := &world{T: t, d: d, clock: clock, setup: delivery.Setup{Sealer: sealer, Policy: local}}
	w.by = w.company()
	w.sender = w.newSender(d, change...)
	table := job.Table{delivery.JobClear: {Tx: delivery.Clear}, delivery.JobReplay: {Tx: delivery.HandleReplay}}
	w.jobs = job.NewRunner(d, table, nil, slog.New(slog.DiscardHandler))
	return w
}

func (w *world) newSender(d *db.DB, change ...func(*delivery.Options)) *delivery.Sender {
	o := delivery.Options{
		DB: d, Sealer: w.setup.Sealer, Env: identity.Sandbox, Policy: local, Log: slog.New(slog.DiscardHandler),
		Jitter: func(time.Duration) time.Duration { return 0 },
	}
	for _, f := range change {
		f(&o)
	}
	sender, err := delivery.NewSender(o)
	if err != nil {
		w.Fatal(err)
	}
	return sender
}

func (w *world) write(f func(context.Context, *db.Tx) error) {
	w.Helper()
	dbtest.Write(w, w.d, f)
}

func (w *world) company() (by identity.Principal) {
	w.Helper()
	w.write(func(ctx context.Context, tx *db.Tx) error {
		c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Acme", Country: "US", Email: "ops@acme.example"})
		by = identity.Principal{Kind: identity.KindAPIKey, ID: "key_1", CompanyID: c.ID, Scopes: identity.AllScopes()}
		return err
	})
	return by
}

// endpoint registers an endpoint for some events, or for all, and returns it with its secret.
func (w *world) endpoint(url string, events ...string) (e delivery.Endpoint, secret string) {
	w.Helper()
	w.write(func(ctx context.Context, tx *db.Tx) (err error) {
		e, secret, err = w.setup.Create(ctx, tx, w.by, delivery.Params{URL: &url, Events: &events})
		return err
	})
	everything.secret(secret)
	return e, secret
}

// eventOf returns the events of these tests, by name.
var eventOf = map[string]func(companyID, objectID string, sequence int64) webhook.Event{
	webhook.PayrollCreated.Name:        example(webhook.PayrollCreated),
	webhook.PayrollStatusUpdate.Name:   example(webhook.PayrollStatusUpdate),
	webhook.RecipientCreated.Name:      example(webhook.RecipientCreated),
	webhook.RecipientStatusUpdate.Name: example(webhook.RecipientStatusUpdate),
}

func example[P any](t webhook.Type[P]) func(companyID, objectID string, sequence int64) webhook.Event {
	return func(companyID, objectID string, sequence int64) webhook.Event {
		return t.Event(companyID, objectID, sequence, t.Example)
	}
}

// emit commits an event of an object, with the payload of the event's example.
func (w *world) emit(name, object string, sequence int64) {
	w.Helper()
	w.write(func(_ context.Context, tx *db.Tx) error {
		return webhook.Emit(tx, eventOf[name](w.by.CompanyID, object, sequence))
	})
}

func (w *world) drain() {
	w.Helper()
	testkit.Check(w, w.sender.Drain(w.Context()))
	testkit.Check(w, w.jobs.Drain(w.Context()))
	testkit.Check(w, w.sender.Drain(w.Context()))
}

func (w *world) read(id string) (e delivery.Endpoint) {
	w.Helper()
	dbtest.Read(w, w.d, func(ctx context.Context, tx *db.Tx) (err error) {
		e, err = delivery.Get(ctx, tx, w.by, id)
		return err
	})
	return e
}

func (w *world) deliveries(id, state string) (all []delivery.Delivery) {
	w.Helper()
	dbtest.Read(w, w.d, func(ctx context.Context, tx *db.Tx) (err error) {
		all, _, err = delivery.Deliveries(ctx, tx, w.by, id, delivery.DeliveriesParams{State: state, Limit: 1000})
		return err
	})
	return all
}

func (w *world) attempts(id, eventID string) (attempts []delivery.Attempt) {
	w.Helper()
	dbtest.Read(w, w.d, func(ctx context.Context, tx *db.Tx) (err error) {
		_, _, attempts, err = delivery.GetDelivery(ctx, tx, w.by, id, eventID)
		return err
	})
	return attempts
}

// got is a request that a receiver received.
type got struct {
	header http.Header
	body   []byte
	at     time.Time // time of the test's clock
	event  struct {
		Event, ID string
		Sequence  int64
		Object    string
	}
}

// receiver is the server of a webhook endpoint.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []got
	answer func(w http.ResponseWriter, r *http.Request)
}

func newReceiver(t *testing.T, clock *dbtest.Clock) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		g := got{header: req.Header.Clone(), body: body, at: clock.Now()}
		everything.add(g)
		if err := json.Unmarshal(body, &g.event); err != nil {
			t.Errorf("not JSON: %s", body)
		}
		r.mu.Lock()
		r.got = append(r.got, g)
		answer := r.answer
		r.mu.Unlock()
		if answer != nil {
			answer(w, req)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answers(f func(http.ResponseWriter, *http.Request)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

func (r *receiver) all() []got {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// accepts returns an error if the Standard Webhooks library rejects a delivery.
func accepts(g got, secret string) error {
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return err
	}
	return verifier.Verify(g.body, g.header)
}

func plain(g got, secret string) bool {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write(g.body)
	return g.header.Get("x-stipend-signature") == hex.EncodeToString(m.Sum(nil))
}

func TestDeliveriesAreSignedAndFiltered(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := newWorld(t, d, clock)
		all, some, other := newReceiver(t, clock), newReceiver(t, clock), newReceiver(t, clock)
		e, secret := w.endpoint(all.URL + "/hooks?token=1")
		w.endpoint(some.URL, "payroll.*", "recipient.created")
		stranger := w.company()
		w.by, stranger = stranger, w.by
		w.endpoint(other.URL)
		w.by = stranger
		w.emit("payroll.created", "prl_1", 1)
		w.emit("recipient.created", "rec_1", 1)
		w.emit("recipient.status_update", "rec_1", 2)
		w.drain()

		names := func(r *receiver) (names []string) {
			for _, g := range r.all() {
				names = append(names, g.event.Event)
			}
			slices.Sort(names)
			return names
		}
		three := []string{"payroll.created", "recipient.created", "recipient.status_update"}
		if got := names(all); !slices.Equal(got, three) {
			t.Errorf("%v", got)
		}
		if got := names(some); !slices.Equal(got, []string{"payroll.created", "recipient.created"}) {
			t.Errorf("%v", got)
		}
		if got := names(other); len(got) != 0 {
			t.Errorf("another company got %v", got)
		}
		for _, g := range all.all() {
			if err := accepts(g, secret); err != nil || !plain(g, secret) {
				t.Errorf("%v\n%v\n%s", err, g.header, g.body)
			}
			if g.header.Get("webhook-id") != g.event.ID || g.header.Get("Content-Type") != "application/json" {
				t.Errorf("%v", g.header)
			}
			g.body = append(g.body, ' ')
			if accepts(g, secret) == nil || plain(g, secret) {
				t.Error("a changed body passes")
			}
		}
		var listed []webhook.StoredEvent
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
			listed, _, err = webhook.List(ctx, tx, webhook.ListParams{CompanyID: w.by.CompanyID, ObjectID: "prl_1", Limit: 10})
			return err
		}); err != nil || len(listed) != 1 {
			t.Fatal(listed, err)
		}
		data, err := json.Marshal(webhook.PayrollCreated.Example)
		testkit.Check(t, err)
		want := fmt.Sprintf(`{"event":"payroll.created","data":%s,"id":%q,"created":"2026-01-15T12:00:00.000Z",`+
			`"environment":"sandbox","api_version":"2.0","company_id":%q,"user_id":"","sequence":1}`, data, listed[0].ID,
			w.by.CompanyID)
		for _, g := range all.all() {
			if g.event.ID == listed[0].ID && string(g.body) != want {
				t.Errorf("sent   %s\nwanted %s", g.body, want)
			}
		}
		done := w.deliveries(e.ID, delivery.Succeeded)
		if len(done) != 3 || done[0].HTTPStatus != 200 || done[0].Attempts != 1 {
			t.Errorf("%+v", done)
		}
	})
}

// During the overlap after a rotation, both a receiver with the old secret and one with the new secret accept
// deliveries.
func TestDeliveriesAreSignedWithBothSecretsDuringARotation(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := newWorld(t, d, clock)
		r := newReceiver(t, clock)
		e, old := w.endpoint(r.URL)
		var fresh string
		w.write(func(ctx context.Context, tx *db.Tx) (err error) {
			_, fresh, err = w.setup.Rotate(ctx, tx, w.by, e.ID, time.Hour)
			return err
		})
		everything.secret(fresh)
		w.emit("payroll.created", "prl_1", 1)
		w.drain()
		clock.Advance(time.Hour)
		w.emit("payroll.status_update", "prl_1", 2)
		w.drain()
		all := r.all()
		if len(all) != 2 || fresh == old {
			t.Fatal(len(all))
		}
		for i, want := range []bool{true, false} {
			if err := accepts(all[i], fresh); err != nil {
				t.Errorf("delivery %d, new secret: %v", i, err)
			}
			if ok := accepts(all[i], old) == nil; ok != want {
				t.Errorf("delivery %d, old secret accepted: %v", i, ok)
			}
		}
		var stored string
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			return tx.QueryRow(ctx, "SELECT secret || previous_secret FROM webhook_endpoints").Scan(&stored)
		}); err != nil || strings.Contains(stored, "whsec_") || strings.Contains(stored, old[6:]) {
			t.Errorf("stored as %s, %v", stored, err)
		}
	})
}

// status returns a handler that responds with a status.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// TestResponses checks the effect of each kind of response on the delivery and on the endpoint.
func TestResponses(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		elsewhere := newReceiver(t, clock)
		for _, c := range []struct {
			name   string
			answer func(http.ResponseWriter, *http.Request)
			state  string
			fail   string
			kept   int
			next   time.Duration
			status string
		}{
			{"204", status(http.StatusNoContent), delivery.Succeeded, "", 0, 0, delivery.Enabled},
			{"500", fails, delivery.Retrying, "http_status", 0, 5 * time.Second, delivery.Enabled},
			{"a redirect is not followed", func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			}, delivery.Retrying, "redirect", 0, 5 * time.Second, delivery.Enabled},
			{"410", status(http.StatusGone), delivery.Cancelled, "http_status", 0, 0, delivery.DisabledAuto},
			{"429 with Retry-After", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "120")
				w.WriteHeader(http.StatusTooManyRequests)
			}, delivery.Retrying, "http_status", 0, 2 * time.Minute, delivery.Throttled},
			{"503 with a date", func(w http.ResponseWriter, r *http.Request) {
				// Compute the date from the time in the request, so that the pause does not depend on the duration of
				// the request.
				sent, _ := strconv.ParseInt(r.Header.Get("webhook-timestamp"), 10, 64)
				w.Header().Set("Retry-After", time.Unix(sent, 0).Add(10*time.Hour).UTC().Format(http.TimeFormat))
				w.WriteHeader(http.StatusServiceUnavailable)
			}, delivery.Retrying, "http_status", 0, 10 * time.Hour, delivery.Throttled},
			{"502", status(http.StatusBadGateway), delivery.Retrying, "http_status", 0, 5 * time.Second, delivery.Throttled},
			{"a long response", func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, strings.Repeat("\x00é", 1<<20))
			}, delivery.Succeeded, "", 4096, 0, delivery.Enabled},
			{"an incomplete response", func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, "o")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}, delivery.Retrying, "timeout", 1, 5 * time.Second, delivery.Enabled},
			{"no response", func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
			}, delivery.Retrying, "timeout", 0, 5 * time.Second, delivery.Enabled},
			{"a closed connection", func(http.ResponseWriter, *http.Request) {
				panic(http.ErrAbortHandler)
			}, delivery.Retrying, "connection_failed", 0, 5 * time.Second, delivery.Enabled},
		} {
			t.Run(c.name, func(t *testing.T) {
				w := newWorld(t, d, clock, func(o *delivery.Options) {
					if c.fail == "timeout" {
						o.Limit = 200 * time.Millisecond
					}
					if c.kept > 0 {
						o.Limit *= 10 // long enough for the first byte on a busy machine
					}
				})
				r := newReceiver(t, clock)
				r.answers(c.answer)
				e, _ := w.endpoint(r.URL)
				w.emit("payroll.created", "prl_1", 1)
				w.drain()
				all := w.deliveries(e.ID, "")
				if len(all) != 1 || all[0].State != c.state || all[0].Error != c.fail {
					t.Fatalf("%+v", all)
				}
				if wait := all[0].Next.Sub(clock.Now()); c.next != 0 && (wait < c.next-2*time.Second || wait > c.next) {
					t.Errorf("next try in %s, want %s", wait, c.next)
				}
				tries := w.attempts(e.ID, all[0].EventID)
				if len(tries) != 1 || len(tries[0].Response) > 4096*3 || (c.kept == 0) != (tries[0].Response == "") ||
					tries[0].URL != r.URL {
					t.Errorf("%+v", tries)
				}
				if got := w.read(e.ID).Status; got != c.status {
					t.Errorf("the endpoint is %s, want %s", got, c.status)
				}
			})
		}
		if n := len(elsewhere.all()); n != 0 {
			t.Errorf("%d redirects were followed", n)
		}
	})
}

// An address that is not public is rejected when it is registered, and again when it is called.
func TestOnlyPublicAddressesAreCalled(t *testing.T) {
	production, sandbox := delivery.Policy{}, local
	own := delivery.Policy{Allowed: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
	for _, c := range []struct {
		url                 string
		production, sandbox bool
	}{
		{"https://hooks.example.com/in?x=1", true, true},
		{"https://hooks.example.com:8443/", true, true},
		{"https://8.8.8.8/", true, true},
		{"https://[2606:4700::1111]/", true, true},
		{"HTTPS://Hooks.Example.com/", true, true},
		{"http://hooks.example.com/", false, false},
		{"http://127.0.0.1:3000/", false, true},
		{"http://localhost:3000/", false, true},
		{"http://[::1]:3000/", false, true},
		{"https://127.0.0.1/", false, true},
		{"https://localhost/", false, true},
		{"https://localhost./", false, false},
		{"http://127.1/", false, false},
		{"https://2130706433/", false, false},
		{"https://0x7f000001/", false, false},
		{"https://0x7f.0.0.1/", false, false},
		{"https://0177.0.0.1/", false, false},
		{"https://127.0.0.1./", false, false},
		{"https://0.0.0.0/", false, false},
		{"https://[::]/", false, false},
		{"https://10.0.0.1/", false, false},
		{"https://172.16.0.1/", false, false},
		{"https://192.168.1.1/", false, false},
		{"https://100.64.0.1/", false, false},
		{"https://169.254.169.254/latest/meta-data/", false, false},
		{"https://168.63.129.16/", false, false},
		{"https://224.0.0.1/", false, false},
		{"https://255.255.255.255/", false, false},
		{"https://198.18.0.1/", false, false},
		{"https://[fd00::1]/", false, false},
		{"https://[fe80::1]/", false, false},
		{"https://[fe80::1%25eth0]/", false, false},
		{"https://[fec0::1]/", false, false},
		{"https://[ff02::1]/", false, false},
		{"https://[::ffff:10.0.0.1]/", false, false},
		{"https://[::ffff:8.8.8.8]/", false, false},
		{"https://[64:ff9b::a00:1]/", false, false},
		{"https://[64:ff9b:1::1]/", false, false},
		{"https://[2002:a00:1::1]/", false, false},
		{"https://[2001:db8::1]/", false, false},
		{"https://[2001::1]/", false, false},
		{"https://metadata.google.internal/", false, false},
		{"https://printer.local/", false, false},
		{"https://intranet/", false, false},
		{"https://hooks.example.com:22/", false, false},
		{"https://hooks.example.com:5432/", false, false},
		{"https://hooks.example.com:0/", false, false},
		{"https://hooks.example.com:99999/", false, false},
		{"https://hooks.example.com:/", false, false},
		{"https://user:password@hooks.example.com/", false, false},
		{"https://hooks.example.com/#part", false, false},
		{"https://hooks.example.com\\@10.0.0.1/", false, false},
		{"https://10.0.0.1%2f@hooks.example.com/", false, false},
		{"https://h%6foks.example.com/", false, false},
		{"https://①②⑦.⓪.⓪.①/", false, false},
		{"https://-.example.com/", false, false},
		{"https:///path", false, false},
		{"https:hooks.example.com", false, false},
		{"//hooks.example.com/", false, false},
		{"unix:///var/run/docker.sock", false, false},
		{"gopher://hooks.example.com/", false, false},
		{"file:///etc/passwd", false, false},
		{"ftp://hooks.example.com/", false, false},
		{"javascript:alert(1)", false, false},
		{"", false, false},
		{"https://" + strings.Repeat("a", 64) + ".com/", false, false},
		{"https://hooks.example.com/" + strings.Repeat("a", 2000), false, false},
	} {
		for _, at := range []struct {
			name   string
			policy delivery.Policy
			want   bool
		}{{"production", production, c.production}, {"sandbox", sandbox, c.sandbox}} {
			err := at.policy.CheckURL(c.url)
			if got := err == nil; got != at.want || err != nil && !errors.Is(err, delivery.ErrURL) {
				t.Errorf("%s in %s: %v", c.url, at.name, err)
			}
		}
	}
	if own.CheckURL("https://10.1.2.3/") != nil || own.CheckURL("https://hooks.internal/") != nil ||
		own.CheckURL("https://10.2.2.3/") == nil || own.CheckURL("https://127.0.0.1/") == nil {
		t.Error("the own networks of a self-hoster")
	}
}

// A name that resolves to a blocked address is detected at every attempt, and nothing is sent.
func TestBlockedAddressesAreNotCalled(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := newWorld(t, d, clock, func(o *delivery.Options) { o.Policy = delivery.Policy{} })
		r := newReceiver(t, clock)
		e, _ := w.endpoint(strings.Replace(r.URL, "127.0.0.1", "localhost", 1))
		w.emit("payroll.created", "prl_1", 1)
		w.drain()
		all := w.deliveries(e.ID, delivery.Blocked)
		if len(all) != 1 || all[0].Error != "blocked_address" || len(r.all()) != 0 {
			t.Fatalf("%+v, and %d requests", all, len(r.all()))
		}
		w.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := delivery.Redeliver(ctx, tx, w.by, e.ID, all[0].EventID)
			return err
		})
		w.drain()
		if again := w.attempts(e.ID, all[0].EventID); len(again) != 2 || len(r.all()) != 0 {
			t.Errorf("%+v", again)
		}
	})
}

// An event that is redelivered before the sender has added it to the queue is sent once, and stops no other delivery.
func TestRedeliveryBeforeTheFirstDelivery(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := newWorld(t, d, clock)
		r := newReceiver(t, clock)
		e, _ := w.endpoint(r.URL)
		w.emit("payroll.created", "prl_1", 1)
		w.write(func(ctx context.Context, tx *db.Tx) error {
			events, _, err := webhook.List(ctx, tx, webhook.ListParams{CompanyID: w.by.CompanyID, Limit: 1})
			if err != nil || len(events) != 1 {
				return fmt.Errorf("%d events (%w)", len(events), err)
			}
			_, err = delivery.Redeliver(ctx, tx, w.by, e.ID, events[0].ID)
			return err
		})
		w.emit("payroll.created", "prl_2", 1)
		w.drain()
		if got := r.all(); len(got) != 2 {
			t.Errorf("%d requests, want one for each event", len(got))
		}
	})
}

func TestACompanyHasAtMostTenEndpoints(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := newWorld(t, d, clock)
		url := "https://hooks.example.com/"
		var group sync.WaitGroup
		var mu sync.Mutex
		made, refused := 0, 0
		for range 12 {
			group.Go(func() {
				err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					_, _, err := w.setup.Create(ctx, tx, w.by, delivery.Params{URL: &url})
					return err
				})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					made++
				case errors.Is(err, delivery.ErrTooMany):
					refused++
				default:
					t.Error(err)
				}
			})
		}
		group.Wait()
		if made != 10 || refused != 2 {
			t.Errorf("%d made, %d refused", made, refused)
		}
		if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			app := identity.Principal{Kind: identity.KindOAuth, CompanyID: w.by.CompanyID}
			_, _, err := w.setup.Create(ctx, tx, app, delivery.Params{URL: &url})
			return err
		}); !errors.Is(err, delivery.ErrKeyOnly) {
			t.Errorf("a token may manage: %v", err)
		}
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := delivery.Get(ctx, tx, w.company(), "whk_none")
			return err
		}); !errors.Is(err, apierr.NotFoundErr) {
			t.Error(err)
		}
	})
}
