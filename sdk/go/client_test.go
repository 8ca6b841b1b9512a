package stipend

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// server answers requests in order and records them.
type server struct {
	URL      string
	requests []*http.Request
	bodies   []string
}

func serve(t *testing.T, answers ...http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.requests, s.bodies = append(s.requests, r), append(s.bodies, string(body))
		if len(s.requests) > len(answers) {
			t.Errorf("unexpected request %d: %s %s", len(s.requests), r.Method, r.URL)
			return
		}
		answers[len(s.requests)-1](w, r)
	}))
	t.Cleanup(listening.Close)
	s.URL = listening.URL
	return s
}

func answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for pair := range slices.Chunk(headers, 2) {
			w.Header().Set(pair[0], pair[1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func problem(status int, code string, headers ...string) http.HandlerFunc {
	body, _ := json.Marshal(map[string]any{
		"type": "/docs/errors/" + code, "title": "Title", "status": status, "code": code, "detail": "Detail.",
		"request_id": "req_1",
		"errors":     []any{map[string]string{"code": code, "in": "body", "pointer": "/x", "message": "Wrong."}},
		"payroll_id": "prl_1",
	})
	return answer(status, string(body), headers...)
}

// testClient returns a client that records its pauses instead of waiting.
func testClient(url string) (*Client, *[]time.Duration) {
	pauses := &[]time.Duration{}
	return New(url, APIKey("k"), func(t *transport) {
		t.wait = func(_ context.Context, d time.Duration) error {
			*pauses = append(*pauses, d)
			return nil
		}
	}), pauses
}

const cancelled = `{"payroll_id":"prl_1","status":"cancelled"}`

func TestRetriesReuseTheIdempotencyKey(t *testing.T) {
	s := serve(t, problem(503, "retry_later", "Retry-After", "5"), problem(429, "rate_limited", "Retry-After", "2"),
		problem(409, "idempotency_in_progress", "Retry-After", "1"), answer(200, cancelled))
	client, pauses := testClient(s.URL)
	got, err := client.Payrolls.Cancel(t.Context(), &PayrollRefParams{PayrollID: "prl_1"})
	if err != nil || got.Status != "cancelled" {
		t.Fatalf("got %+v, %v", got, err)
	}
	for i, r := range s.requests {
		if key := r.Header.Get("Idempotency-Key"); key == "" || key != s.requests[0].Header.Get("Idempotency-Key") {
			t.Errorf("attempt %d has key %q", i, key)
		}
		if r.Header.Get("Authorization") != "Basic k" || s.bodies[i] != `{"payroll_id":"prl_1"}` {
			t.Errorf("attempt %d: %v %s", i, r.Header, s.bodies[i])
		}
	}
	if want := []time.Duration{5 * time.Second, 2 * time.Second, time.Second}; !slices.Equal(*pauses, want) {
		t.Errorf("pauses %v, want %v", *pauses, want)
	}
}

func TestEachCallHasItsOwnKeyUnlessTheCallerSetsOne(t *testing.T) {
	s := serve(t, answer(200, cancelled), answer(200, cancelled), answer(200, cancelled))
	client, _ := testClient(s.URL)
	params := &PayrollRefParams{PayrollID: "prl_1"}
	for _, options := range [][]RequestOption{nil, nil, {WithIdempotencyKey("mine")}} {
		if _, err := client.Payrolls.Cancel(t.Context(), params, options...); err != nil {
			t.Fatal(err)
		}
	}
	key := func(i int) string { return s.requests[i].Header.Get("Idempotency-Key") }
	if key(0) == "" || key(0) == key(1) || key(2) != "mine" {
		t.Errorf("keys %q, %q, %q", key(0), key(1), key(2))
	}
}

func TestAFinalErrorIsNotRetried(t *testing.T) {
	s := serve(t, problem(409, "external_id_conflict"))
	client, pauses := testClient(s.URL)
	_, err := client.Payrolls.Cancel(t.Context(), &PayrollRefParams{PayrollID: "prl_1"})
	var e *Error
	if !errors.As(err, &e) || !HasCode(err, CodeExternalIDConflict) || HasCode(err, CodeNotFound) {
		t.Fatalf("got %v", err)
	}
	if e.Status != 409 || e.RequestID != "req_1" || e.Hints["payroll_id"] != "prl_1" || len(e.Errors) != 1 ||
		e.Errors[0].Pointer != "/x" {
		t.Errorf("got %+v", e)
	}
	if len(*pauses) != 0 {
		t.Errorf("waited %v", *pauses)
	}
}

func TestTheClientGivesUpAfterFourAttempts(t *testing.T) {
	busy := problem(503, "retry_later", "Retry-After", "3600")
	s := serve(t, busy, busy, busy, busy)
	client, pauses := testClient(s.URL)
	_, err := client.Payrolls.Cancel(t.Context(), &PayrollRefParams{PayrollID: "prl_1"})
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeRetryLater || e.RetryAfter != time.Hour || len(s.requests) != 4 {
		t.Errorf("%v after %d attempts", err, len(s.requests))
	}
	if slices.Max(*pauses) != maxPause {
		t.Errorf("pauses %v exceed %v", *pauses, maxPause)
	}
}

func TestNoResponse(t *testing.T) {
	client, _ := testClient("http://127.0.0.1:1")
	_, err := client.Payrolls.Cancel(t.Context(), &PayrollRefParams{PayrollID: "prl_1"})
	if e := (*Error)(nil); err == nil || errors.As(err, &e) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v, want the connection's error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Payrolls.Cancel(ctx, &PayrollRefParams{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	s := serve(t, answer(502, "<html>Bad Gateway</html>"))
	client, _ = testClient(s.URL)
	if _, err := client.Payrolls.Cancel(t.Context(), &PayrollRefParams{}); !HasCode(err, "unexpected_response") {
		t.Errorf("got %v for a proxy's error", err)
	}
}

func TestQueryAndPathAreEncoded(t *testing.T) {
	s := serve(t, answer(200, `{}`), answer(200, `a,b`))
	client, _ := testClient(s.URL)
	from := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if _, err := client.Payrolls.List(t.Context(), &PayrollListParams{Status: "released", From: from,
		Page: 2, Metadata: map[string]string{"cost_center": "4 2"}}); err != nil {
		t.Fatal(err)
	}
	if got := s.requests[0].URL.RawQuery; got != "from=2026-01-02T03%3A04%3A05Z&metadata%5Bcost_center%5D=4+2&page=2&"+
		"status=released" {
		t.Errorf("query %q", got)
	}
	if s.requests[0].Header.Get("Idempotency-Key") != "" {
		t.Error("a read carries an Idempotency-Key")
	}
	csv, err := client.Recipients.Export(t.Context(), "com/1", nil)
	if err != nil || string(csv) != "a,b" || s.requests[1].URL.EscapedPath() != "/api/company/com%2F1/recipients/export" {
		t.Errorf("got %q, %v from %s", csv, err, s.requests[1].URL.EscapedPath())
	}
}

func TestAllFollowsPages(t *testing.T) {
	s := serve(t, answer(200,
		`{"data":[{"payroll_id":"a"},{"payroll_id":"b"}],"meta":{"has_next":true,"next_cursor":"b"}}`),
		answer(200, `{"data":[{"payroll_id":"c"}],"meta":{"has_next":false}}`))
	client, _ := testClient(s.URL)
	var ids []string
	for p, err := range client.Payrolls.All(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, p.PayrollID)
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(ids, want) {
		t.Errorf("got %v, want %v", ids, want)
	}
}

func TestAllFollowsCursorsAndStopsAtAnError(t *testing.T) {
	s := serve(t, answer(200, `{"data":[{"id":"evt_1"}],"has_more":true,"next_after":"x"}`),
		problem(403, "insufficient_scope"))
	client, _ := testClient(s.URL)
	var ids []string
	var failed error
	for e, err := range client.Events.All(t.Context(), &EventListParams{Name: "payroll.*"}) {
		if err != nil {
			failed = err
			continue
		}
		ids = append(ids, e.ID)
	}
	if !slices.Equal(ids, []string{"evt_1"}) || !HasCode(failed, CodeInsufficientScope) {
		t.Errorf("got %v, %v", ids, failed)
	}
	if got := s.requests[1].URL.RawQuery; got != "after=x&name=payroll.%2A" {
		t.Errorf("second query %q", got)
	}
}

func TestDecimalKeepsEveryDigit(t *testing.T) {
	item := ToPayItem{UserID: "usr_1", AmountFiat: "1250.50"}
	data, err := json.Marshal(item)
	if err != nil || string(data) != `{"amount_fiat":1250.50,"user_id":"usr_1"}` {
		t.Errorf("got %s, %v", data, err)
	}
	var back ToPayItem
	if err := json.Unmarshal([]byte(`{"amount_fiat":0.00707000}`), &back); err != nil || back.AmountFiat != "0.00707000" {
		t.Errorf("got %+v, %v", back, err)
	}
	if back.AmountFiat.Rat().RatString() != "707/100000" || Decimal("x").Rat() != nil {
		t.Errorf("got %v", back.AmountFiat.Rat())
	}
	if _, err := json.Marshal(Decimal("12,50")); err == nil {
		t.Error("12,50 is taken for a number")
	}
}

// Nil parameters of a write are sent as an object without members.
func TestNilParameters(t *testing.T) {
	s := serve(t, answer(200, `{"access_token":"stp_1"}`))
	if _, err := New(s.URL, APIKey("key")).Platforms.CreateToken(t.Context(), "com_1", nil); err != nil {
		t.Fatal(err)
	}
	if s.bodies[0] != "{}" {
		t.Errorf("%q", s.bodies[0])
	}
}

// A token that ends is read anew for each attempt, and an error says where the problems are.
func TestTokensFromAFunction(t *testing.T) {
	s := serve(t, problem(503, "retry_later"), problem(422, "unknown_field"))
	tokens := []string{"first", "second"}
	client := New(s.URL, AccessTokenFrom(func(context.Context) (string, error) {
		next := tokens[0]
		tokens = tokens[1:]
		return next, nil
	}), func(t *transport) { t.wait = func(context.Context, time.Duration) error { return nil } })
	_, err := client.Payrolls.Cancel(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "422 unknown_field at /x, request req_1") {
		t.Error(err)
	}
	if a, b := s.requests[0].Header.Get("Authorization"), s.requests[1].Header.Get("Authorization"); a != "Bearer first" ||
		b != "Bearer second" {
		t.Errorf("%s, %s", a, b)
	}
}
