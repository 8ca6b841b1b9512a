package httpapi

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// No response allows another origin to read it, to a simple or a preflight request.
func TestOtherOriginsCannotReadResponses(t *testing.T) {
	b := newFixture(t, sqlite(t), nil)
	for _, method := range []string{"GET", "OPTIONS"} {
		for _, path := range []string{"/list", "/open", "/openapi.json", "/reference", "/no/such/route"} {
			r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
			r.Header.Set("Authorization", "Basic "+b.key)
			r.Header.Set("Origin", "https://evil.example")
			r.Header.Set("Access-Control-Request-Method", "GET")
			r.Header.Set("Access-Control-Request-Headers", "Authorization")
			w := httptest.NewRecorder()
			b.server.ServeHTTP(w, r)
			for name := range w.Header() {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s %s: %s: %s", method, path, name, w.Header().Get(name))
				}
			}
		}
	}
}

// Internal endpoints are not served to clients.
func TestInternalEndpointsAreNotServed(t *testing.T) {
	b := newFixture(t, sqlite(t), nil)
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/heap", "/debug/vars", "/operations"} {
		if got := b.do("GET", path, ""); got.status != 404 || got.json(t)["code"] != "not_found" {
			t.Errorf("%s: %d %s", path, got.status, got.text)
		}
	}
}

// Header values of clients cannot inject log lines, response headers or terminal escapes.
func TestClientsCannotInjectLogLinesOrHeaders(t *testing.T) {
	var log bytes.Buffer
	b := newFixture(t, sqlite(t), func(d *Deps) { d.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	const evil = "x\r\nSet-Cookie: a=b\x1b[2J\n{\"msg\":\"forged\"}"
	for _, header := range []string{"X-Request-Id", "User-Agent", "Idempotency-Key", "Authorization", "Api-Version"} {
		log.Reset()
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/try/a%0d%0aforged%1b%5b2J", strings.NewReader(good))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Basic "+b.key)
		r.Header[header] = []string{evil}
		w := httptest.NewRecorder()
		b.server.ServeHTTP(w, r)
		if w.Header().Get("Set-Cookie") != "" || len(w.Header()["X-Request-Id"]) != 1 ||
			!strings.HasPrefix(w.Header().Get("X-Request-Id"), "req_") && header == "X-Request-Id" {
			t.Errorf("%s: the response headers %v", header, w.Header())
		}
		for name, values := range w.Header() {
			if strings.ContainsAny(strings.Join(values, ""), "\r\n\x1b") {
				t.Errorf("%s: %s is %q", header, name, values)
			}
		}
		lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
		if len(lines) != 1 || !json.Valid([]byte(lines[0])) || strings.ContainsAny(lines[0], "\r\x1b") {
			t.Errorf("%s: the log has %q", header, lines)
		}
	}
}

// No operation returns an image or document, and every schema with a pattern has a maximum length.
func TestContractReturnsNoDocuments(t *testing.T) {
	b := newService(t, sqlite(t), nil)
	var contract any
	if err := json.Unmarshal([]byte(b.do("GET", "/openapi.json", "").text), &contract); err != nil {
		t.Fatal(err)
	}
	patterns, answers := 0, 0
	var walk func(at string, node any)
	walk = func(at string, node any) {
		switch node := node.(type) {
		case []any:
			for _, x := range node {
				walk(at, x)
			}
		case map[string]any:
			if _, is := node["pattern"].(string); is {
				patterns++
				if _, bounded := node["maxLength"].(float64); !bounded {
					t.Errorf("%s has a pattern and no maxLength", at)
				}
			}
			for name, x := range node {
				if content, is := x.(map[string]any); is && name == "content" {
					for kind := range content {
						answers++
						if !slices.Contains([]string{"application/json", "text/csv", "application/pdf", "application/xml",
							"application/x-www-form-urlencoded"}, kind) {
							t.Errorf("%s is %s", at, kind)
						}
					}
				}
				walk(at+"/"+name, x)
			}
		}
	}
	walk("", contract)
	if patterns == 0 || answers < 100 {
		t.Errorf("%d patterns and %d responses were checked", patterns, answers)
	}
}

// Behind TLS, browsers must not go back to plain HTTP, and pages of the API cannot be framed.
func TestHeadersBehindTLS(t *testing.T) {
	b := newFixture(t, sqlite(t), func(d *Deps) { d.BaseURL = "https://api.example" })
	for _, path := range []string{"/list", "/openapi.json", termsPath, "/healthz"} {
		got := b.do("GET", path, "")
		if got.header.Get("Strict-Transport-Security") == "" {
			t.Errorf("%s: %v", path, got.header)
		}
		policy := got.header.Get("Content-Security-Policy")
		if path == termsPath && !strings.Contains(policy, "frame-ancestors 'none'; base-uri 'none'") {
			t.Errorf("%s: policy %q", path, policy)
		}
	}
}
