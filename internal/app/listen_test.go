package app_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/stipend/stipend/cmd/stipend/cli"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/sandbox/apiclient"
	"github.com/stipend/stipend/internal/sandbox/trigger"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/webhook"
)

// stipend trigger makes each event on its list happen, and stipend listen delivers it to a developer's machine,
// signed with the secret that it printed.
func TestListenAndTrigger(t *testing.T) {
	t.Parallel()
	s := boot(t, dbtest.SQLite(t))
	client := cli.Client{URL: s.Ready().BaseURL}
	type request struct {
		header http.Header
		body   []byte
	}
	arrived := make(chan request, 1000)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/hooks" { // other paths get the endpoint's ping, signed with the endpoint's own secret
			arrived <- request{r.Header, body}
		}
	}))
	defer receiver.Close()
	api := sandboxClient(t, s.Ready().BaseURL)
	testkit.Check(t, api.Post(t.Context(), "/api/webhooks", map[string]any{"url": receiver.URL + "/endpoint",
		"events": []string{"claim.*"}}, nil))
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var done sync.WaitGroup
	done.Go(func() {
		_ = cli.ListenCmd{Client: client, ForwardTo: receiver.URL + "/hooks"}.Run(ctx, cli.Streams{Out: in, Err: io.Discard})
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
	testkit.Check(t, err)
	seen := map[string]bool{}
	// A payroll that is paid out before its funding leaves the chain makes the company a debtor, which is frozen when the
	// clock is advanced. So this event is the last one.
	const reverted = "payroll.funding_reverted"
	events := slices.DeleteFunc(trigger.Events(), func(name string) bool { return name == reverted })
	for _, name := range append(events, reverted) {
		var text bytes.Buffer
		if err := (cli.TriggerCmd{Client: client, Event: name, Timeout: time.Minute}).Run(t.Context(),
			cli.Streams{Out: &text}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var head apiclient.EventHead
		if err := json.Unmarshal(text.Bytes(), &head); err != nil || head.Event != name {
			t.Errorf("%s printed %s", name, text.Bytes())
		}
		for !seen[head.ID] {
			r := <-arrived
			if err := verifier.Verify(r.body, r.header); err != nil {
				t.Errorf("%v: %s", err, r.body)
			}
			seen[r.header.Get("webhook-id")] = true
		}
	}
	checkNeeded(t, checkEvents(t, s), ofTriggers)

	var list bytes.Buffer
	if err := (cli.TriggerCmd{Client: client, List: true}).Run(t.Context(), cli.Streams{Out: &list}); err != nil ||
		strings.Count(list.String(), "\n") != len(trigger.Events()) {
		t.Errorf("%v\n%s", err, list.String())
	}
	if err := (cli.ListenCmd{Client: client, ForwardTo: receiver.URL, Events: "claim.paid"}).Run(t.Context(),
		cli.Streams{Out: io.Discard, Err: io.Discard}); err == nil ||
		!strings.Contains(err.Error(), "There is no such event") {
		t.Errorf("claim.paid: %v", err)
	}
	if err := (cli.TriggerCmd{Client: client, Event: "claim.paid"}).Run(t.Context(),
		cli.Streams{Out: io.Discard}); err == nil || !strings.Contains(err.Error(), "cannot be triggered") {
		t.Errorf("claim.paid: %v", err)
	}
}

// stipend listen --source connections delivers the events of the companies that are connected to the app.
func TestListenToConnectedCompanies(t *testing.T) {
	t.Parallel()
	s := boot(t, dbtest.SQLite(t))
	base := s.Ready().BaseURL
	arrived := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e struct {
			CompanyID string `json:"company_id"`
		}
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		arrived <- e.CompanyID
	}))
	defer receiver.Close()
	api := sandboxClient(t, base)
	var company struct {
		CompanyID string `json:"company_id"`
	}
	testkit.Check(t, api.Post(t.Context(), "/api/platform/companies", map[string]any{"name": "Acme Ltd", "country": "DE",
		"owner_email": "ada@example.com"}, &company))
	var token struct {
		AccessToken string `json:"access_token"`
	}
	testkit.Check(t, api.Post(t.Context(), "/api/platform/companies/"+company.CompanyID+"/token", map[string]any{},
		&token))
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var done sync.WaitGroup
	done.Go(func() {
		_ = cli.ListenCmd{Client: cli.Client{URL: base}, ForwardTo: receiver.URL, Source: "connections"}.Run(ctx,
			cli.Streams{Out: in, Err: io.Discard})
		in.Close()
	})
	defer done.Wait()
	defer stop()
	lines := bufio.NewReader(out)
	_, err := lines.ReadString('\n')
	testkit.Check(t, err)
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	acting := &apiclient.Client{BaseURL: base, Key: token.AccessToken}
	testkit.Check(t, acting.Post(t.Context(), "/api/company/"+company.CompanyID+"/recipients/create",
		map[string]any{"first_name": "Dee", "last_name": "L", "country": "GB"}, nil))
	if got := <-arrived; got != company.CompanyID {
		t.Errorf("the event is of %s, want %s", got, company.CompanyID)
	}
}

// stipend trigger can cause every event.
func TestEveryEventCanBeTriggered(t *testing.T) {
	for _, name := range webhook.Names() {
		if !trigger.Known(name) {
			t.Errorf("%s cannot be triggered", name)
		}
	}
}

// When the service restarts, stipend listen continues after the last event that it received. It also delivers the
// events that happened in between. Each event arrives once and in order.
func TestListenOutlivesARestart(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, url string) {
		var at atomic.Pointer[neturl.URL] // the service's URL, nil while the service is down
		front := httptest.NewServer(&httputil.ReverseProxy{
			ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
			Rewrite: func(r *httputil.ProxyRequest) {
				target := at.Load()
				if target == nil {
					panic(http.ErrAbortHandler)
				}
				r.SetURL(target)
			},
		})
		defer front.Close()
		start := func() *service {
			s := boot(t, url)
			target, err := neturl.Parse(s.Ready().BaseURL)
			testkit.Check(t, err)
			at.Store(target)
			return s
		}
		arrived := make(chan string, 100)
		receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter,
			r *http.Request) {
			arrived <- r.Header.Get("webhook-id")
		}))
		defer receiver.Close()
		first := start()
		// The service numbers the seed's events shortly after it is ready. Later events get later numbers. When the
		// event created here has a number, all of the seed's events have one too, and a new listener receives none of
		// them.
		own := &trigger.Client{Client: sandboxClient(t, first.Ready().BaseURL)}
		marker, err := own.MakeRecipient(t.Context())
		testkit.Check(t, err)
		eventually(t, 30*time.Second, "the events before the listener have numbers", func() bool {
			page, err := own.EventsAfter(t.Context(), "", "recipient.created")
			return err == nil && slices.ContainsFunc(page.Data,
				func(body json.RawMessage) bool { return strings.Contains(string(body), path.Base(marker)) })
		})
		ctx, stop := context.WithCancel(t.Context())
		ready, said := make(chan struct{}), make(chan string, 100)
		var done sync.WaitGroup
		done.Go(func() {
			_ = cli.ListenCmd{Client: cli.Client{URL: front.URL}, ForwardTo: receiver.URL,
				Events: "recipient.created"}.Run(ctx, cli.Streams{
				Out: writer(func(text string) {
					if strings.Contains(text, "Signing secret") {
						close(ready)
					}
				}),
				Err: writer(func(text string) { said <- text }),
			})
		})
		defer done.Wait()
		defer stop()
		<-ready
		seeded, err := sandboxClient(t, first.Ready().BaseURL).EventsAfter(t.Context(), "", "recipient.created")
		testkit.Check(t, err)
		wanted := make([]string, len(seeded.Data)) // a new listener must not receive these
		happen := func(s *service, n int) {
			c := &trigger.Client{Client: sandboxClient(t, s.Ready().BaseURL)}
			for range n {
				if _, err := c.MakeRecipient(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for {
				page, err := c.EventsAfter(t.Context(), "", "recipient.created")
				testkit.Check(t, err)
				if len(page.Data) < len(wanted)+n {
					continue // has no number yet
				}
				for _, body := range page.Data[len(wanted):] {
					var head apiclient.EventHead
					testkit.Check(t, json.Unmarshal(body, &head))
					wanted = append(wanted, head.ID)
				}
				return
			}
		}
		expect := func(n int) {
			t.Helper()
			for _, want := range wanted[len(wanted)-n:] {
				if got := <-arrived; got != want {
					t.Fatalf("%s arrived, want %s", got, want)
				}
			}
		}
		happen(first, 3)
		expect(3)
		at.Store(nil)
		if text := <-said; !strings.Contains(text, "does not answer") {
			t.Errorf("stipend listen printed %q", text)
		}
		happen(first, 2) // no listener receives these yet
		testkit.Check(t, first.Stop(t.Context()))
		second := start()
		happen(second, 3)
		expect(5)
		if len(arrived) != 0 {
			t.Errorf("%d more events arrived than happened", len(arrived))
		}
	})
}

type writer func(text string)

func (w writer) Write(b []byte) (int, error) { w(string(b)); return len(b), nil }

// These are the tests that compare changes with events. Each line of reportedBy names a test that always needs it.
const (
	ofTriggers = iota
	ofScenarios
	ofClaims
	ofLightning
	ofOperations
)

// reportedBy lists, by the prefix of their ids, objects whose changes the event of another object reports. They are
// parts
// of an object that partners know. The states in never must have an event of their own.
var reportedBy = map[string]*struct {
	event string // that reports the change
	never []string
	in    int // the test that fails if it does not need the line
}{
	"dep":        {"payroll.funding_reverted, or the payroll's payroll.status_update", []string{"seen"}, ofScenarios},
	"dep of clm": {"claim.status_update, of the claim whose figures it changes", nil, ofClaims},
	"dep of fx":  {"none: the operator's own coins belong to no company", nil, ofTriggers},
	"dep of suspense": {"none: while in suspense, and when sent back from there, it belongs to no company", nil,
		ofOperations},
	"bfl": {"user.payment_status_update, of the payments in the file", nil, ofTriggers},
	"dst": {"distribution.changed, of the destination's owner", nil, ofTriggers},
	"fx":  {"none: exchanges concern only the operator", nil, ofScenarios},
	"hit": {"the hold that it puts on a payroll or payment; the people on a list are kept secret", nil,
		ofScenarios},
	"lni": {"claim.status_update, of the claim that it pays; before that it is part of the claim's quote", nil,
		ofLightning},
	"out": {"user.payment_status_update, of its payment", nil, ofScenarios},
	"pob": {"user.payment_status_update, of the payments in the batch", nil, ofScenarios},
	"quo": {"the quote_refreshed or status_update of the payroll or claim", []string{"expired"}, ofScenarios},
	"trf": {"none: in suspense, sent back from there, or the operator's own, it belongs to no company", nil,
		ofScenarios},
	"trf of com": {"none, until it belongs to a company", []string{"credited", "returned"}, ofOperations},
	"ver": {"user.kyc_status_update or company.kyb_status_update, of the person or company that is verified",
		nil, ofTriggers},
}

// checkEvents finds changes without an event of the same version (a refused request is not a change), events out of
// order, events with unknown names, and events that contain secrets. It returns the lines of reportedBy that the test
// needed.
func checkEvents(t *testing.T, s *service) (needed map[string]bool) {
	t.Helper()
	needed = map[string]bool{}
	err := s.DB().Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		rows, err := tx.Query(ctx, `SELECT h.object_id, h.version, h.to_state, COALESCE(CASE WHEN EXISTS (SELECT 1
			FROM history x
				WHERE x.object_id = d.deposit_id AND (x.reason LIKE 'credited to %' OR x.reason LIKE 'given to %'
					OR x.reason LIKE 'is sent back%'))
				THEN 'suspense_' ELSE d.object_id END, t.company_id, '') FROM history h
			LEFT JOIN deposits d ON d.company_id = h.company_id AND d.deposit_id = h.object_id
			LEFT JOIN transfers t ON t.transfer_id = h.object_id
			WHERE h.to_state <> 'authz_denied' AND NOT EXISTS (SELECT 1 FROM events e WHERE e.object_id = h.object_id
				AND (e.sequence = h.version
				OR e.created_at = h.at AND e.name LIKE 'recipient.%'))`)
		_, err = db.Collect(rows, err, func(r *db.Rows) (none struct{}, err error) {
			var object, to, paid string
			var version int64
			err = r.Scan(&object, &version, &to, &paid)
			prefix, _, _ := strings.Cut(object, "_")
			if of, _, _ := strings.Cut(paid, "_"); of == "clm" || of == "fx" || of == "com" || of == "suspense" {
				prefix += " of " + of
			}
			needed[prefix] = true
			if line := reportedBy[prefix]; line == nil || slices.Contains(line.never, to) {
				t.Errorf("%s became %q, version %d, and no event reports it", object, to, version)
			}
			return none, err
		})
		if err != nil {
			return err
		}
		var disordered, events int64
		if err := tx.QueryRow(ctx, `SELECT COUNT(*), (SELECT COUNT(*) FROM events) FROM events a JOIN events b
			ON b.company_id = a.company_id
			AND b.object_id = a.object_id AND b.sequence > a.sequence AND b.position < a.position`).Scan(&disordered,
			&events); err != nil {
			return err
		}
		if disordered != 0 || events == 0 {
			t.Errorf("%d of %d events come before an earlier event of the same object", disordered, events)
		}
		rows, err = tx.Query(ctx, "SELECT DISTINCT name FROM events")
		names, err := db.Collect(rows, err, func(r *db.Rows) (name string, err error) { return name, r.Scan(&name) })
		if err != nil {
			return err
		}
		for _, name := range names {
			if !slices.Contains(webhook.Names(), name) {
				t.Errorf("%s is sent, but no endpoint can subscribe to it", name)
			}
		}
		var leaked int64
		if err := tx.QueryRow(ctx,
			"SELECT COUNT(*) FROM events WHERE data LIKE '%whsec%' OR data LIKE '%/refund/%' OR data LIKE '%stp_sandbox%'").
			Scan(&leaked); err != nil {
			return err
		}
		if leaked != 0 {
			t.Errorf("%d events contain a secret", leaked)
		}
		var twice string
		if err := tx.QueryRow(ctx, `SELECT COALESCE(MIN(a.object_id), '') FROM events a JOIN events b
			ON b.company_id = a.company_id
			AND b.object_id = a.object_id AND b.sequence = a.sequence
				AND b.created_at <> a.created_at`).Scan(&twice); err != nil {
			return err
		}
		if twice != "" {
			t.Errorf("events of different changes of %s have one sequence", twice)
		}
		return nil
	})
	testkit.Check(t, err)
	return needed
}

// checkNeeded finds lines of reportedBy that a test should have needed and did not. The test must have run completely.
func checkNeeded(t *testing.T, needed map[string]bool, test int) {
	t.Helper()
	for prefix, line := range reportedBy {
		if line.in == test && !needed[prefix] {
			t.Errorf("every change of %s_ has an event of its own; reportedBy need not say that %s reports it", prefix,
				line.event)
		}
	}
}

// sandboxClient returns the client of a command for a sandbox.
func sandboxClient(t *testing.T, base string) *apiclient.Client {
	t.Helper()
	c, err := cli.Client{URL: base}.API()
	testkit.Check(t, err)
	return c
}
