package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// script is a server that gives its answers in order and notes what it was asked.
func script(t *testing.T, answers ...func(http.ResponseWriter)) (url string, asked *[]*http.Request, bodies *[]string) {
	t.Helper()
	asked, bodies = &[]*http.Request{}, &[]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*asked, *bodies = append(*asked, r), append(*bodies, string(body))
		if len(*asked) > len(answers) {
			t.Errorf("request %d was not expected", len(*asked))
			return
		}
		answers[len(*asked)-1](w)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked, bodies
}

func answer(status int, body string, headers ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func refusal(status int, code string, headers ...string) func(http.ResponseWriter) {
	return answer(status, `{"type":"/docs/errors/`+code+`","title":"No","status":`+strconv.Itoa(status)+`,"code":"`+code+`","detail":"No.","request_id":"req_1","errors":[],"payroll_id":"prl_1"}`, headers...)
}

// patient makes a client that notes its pauses instead of taking them.
func patient(t *testing.T, url string, pauses *[]time.Duration) *Client {
	t.Helper()
	c, err := New(url, APIKey("k"), func(s *sender) {
		s.wait = func(_ context.Context, d time.Duration) error {
			*pauses = append(*pauses, d)
			return nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAWriteIsRepeatedUnderOneKey(t *testing.T) {
	url, asked, bodies := script(t,
		refusal(503, "retry_later", "Retry-After", "5"), refusal(429, "rate_limited", "Retry-After", "2"),
		refusal(409, "idempotency_in_progress", "Retry-After", "1"), answer(200, `{"payroll_id":"prl_1","status":"cancelled"}`))
	var pauses []time.Duration
	done, err := patient(t, url, &pauses).CancelPayroll(t.Context(), &PayrollRefBody{PayrollID: "prl_1"})
	if err != nil || done.Status != "cancelled" {
		t.Fatalf("%+v, %v", done, err)
	}
	for i, r := range *asked {
		if r.Header.Get("Idempotency-Key") != (*asked)[0].Header.Get("Idempotency-Key") || r.Header.Get("Authorization") != "Basic k" || (*bodies)[i] != (*bodies)[0] || (*bodies)[i] == "" {
			t.Errorf("attempt %d differs: %v %q", i, r.Header, (*bodies)[i])
		}
	}
	if len(pauses) != 3 || pauses[0] != 5*time.Second || pauses[1] != 2*time.Second || pauses[2] != time.Second {
		t.Errorf("pauses %v", pauses)
	}
}

func TestKeys(t *testing.T) {
	url, asked, _ := script(t, answer(200, `{"payroll_id":"p","status":"cancelled"}`), answer(200, `{"payroll_id":"p","status":"cancelled"}`), answer(200, `{"payroll_id":"p","status":"cancelled"}`))
	c := patient(t, url, new([]time.Duration))
	for _, ctx := range []context.Context{t.Context(), t.Context(), WithIdempotencyKey(t.Context(), "mine")} {
		if _, err := c.CancelPayroll(ctx, &PayrollRefBody{PayrollID: "p"}); err != nil {
			t.Fatal(err)
		}
	}
	a, b, mine := (*asked)[0].Header.Get("Idempotency-Key"), (*asked)[1].Header.Get("Idempotency-Key"), (*asked)[2].Header.Get("Idempotency-Key")
	if a == "" || a == b || mine != "mine" {
		t.Errorf("%q %q %q", a, b, mine)
	}
}

func TestARefusalForGoodIsNotRepeated(t *testing.T) {
	url, _, _ := script(t, refusal(409, "external_id_conflict"))
	var pauses []time.Duration
	_, err := patient(t, url, &pauses).CancelPayroll(t.Context(), &PayrollRefBody{PayrollID: "p"})
	p, status, ok := AsProblem(err)
	if !ok || status != 409 || p.Code != "external_id_conflict" || p.PayrollID.Value != "prl_1" || len(pauses) != 0 {
		t.Errorf("%v %v %v %v", p, status, ok, pauses)
	}
}

func TestItGivesUp(t *testing.T) {
	busy := refusal(503, "retry_later", "Retry-After", "1")
	url, asked, _ := script(t, busy, busy, busy, busy)
	var pauses []time.Duration
	_, err := patient(t, url, &pauses).CancelPayroll(t.Context(), &PayrollRefBody{PayrollID: "p"})
	if p, _, ok := AsProblem(err); !ok || p.Code != "retry_later" || len(*asked) != 4 {
		t.Errorf("%v after %d attempts", err, len(*asked))
	}
	_, err = patient(t, "http://127.0.0.1:1", &pauses).CancelPayroll(t.Context(), &PayrollRefBody{PayrollID: "p"})
	if _, _, ok := AsProblem(err); ok || err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody listens: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := patient(t, url, &pauses).CancelPayroll(ctx, &PayrollRefBody{PayrollID: "p"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
