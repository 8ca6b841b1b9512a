package app_test

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

// spans is a collector of traces.
type spans struct {
	*httptest.Server
	mu  sync.Mutex
	all []*tracepb.Span
}

func newSpans(t *testing.T) *spans {
	t.Helper()
	s := &spans{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var batch collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &batch)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, resource := range batch.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				s.all = append(s.all, scope.Spans...)
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// named returns the spans whose names begin with a text.
func (s *spans) named(name string) (found []*tracepb.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.all {
		if strings.HasPrefix(span.Name, name) {
			found = append(found, span)
		}
	}
	return found
}

// A request, its statements, jobs, deliveries and calls are spans. A proxy's trace is continued, and receivers of
// events get the trace of the delivery. Spans contain no paths and queries, which may contain tokens and keys.
func TestTraces(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		sink := newSpans(t)
		var mu sync.Mutex
		var delivered string
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if strings.HasPrefix(r.URL.Path, "/call") {
				if r.Header.Get("Traceparent") != "" {
					t.Error("a vendor gets the trace")
				}
				w.WriteHeader(http.StatusTeapot)
				return
			}
			delivered = r.Header.Get("Traceparent")
		}))
		defer receiver.Close()
		s := boot(t, url, func(c *app.Config) {
			c.OTLPEndpoint, c.TrustedProxies = sink.URL, []string{"127.0.0.1/32"}
		})
		d := newAPIClient(t, s)
		d.ok("POST", "/api/webhooks", `{"url":"`+receiver.URL+`"}`)
		const outer = "0af7651916cd43dd8448eb211c80319c"
		d.ok("POST", createPath, pays("", "25.00", d.seed.Workers[0].UserID), "Idempotency-Key", freshKey(),
			"Traceparent", "00-"+outer+"-b7ad6b7169203331-01")
		eventually(t, 10*time.Second, "an event is delivered", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return delivered != ""
		})
		openMetrics, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Ready().MetricsURL, nil)
		testkit.Check(t, err)
		openMetrics.Header.Set("Accept", "application/openmetrics-text")
		res, err := http.DefaultClient.Do(openMetrics)
		testkit.Check(t, err)
		text, err := io.ReadAll(res.Body)
		testkit.Check(t, err)
		testkit.Check(t, res.Body.Close())
		if !strings.Contains(string(text), `# {trace_id="`+outer+`"}`) {
			t.Error("the histogram of requests has no example")
		}
		ctx, span := sdktrace.NewTracerProvider().Tracer("test").Start(t.Context(), "work")
		for _, address := range []string{receiver.URL, "http://127.0.0.1:1"} { // nobody listens at port 1
			call, err := http.NewRequestWithContext(ctx, http.MethodPut, address+"/call/hidden?key=hidden", nil)
			testkit.Check(t, err)
			call.SetBasicAuth("hidden", "hidden")
			if answer, err := http.DefaultClient.Do(call); err == nil {
				testkit.Check(t, answer.Body.Close())
			}
		}
		span.End()
		testkit.Check(t, s.Stop(t.Context())) // sends the spans that wait

		vendor := sink.named("PUT")
		const failed = tracepb.Status_STATUS_CODE_ERROR
		if len(vendor) != 2 || len(vendor[0].Attributes) != 3 || vendor[0].Status.GetCode() != failed ||
			vendor[1].Status.GetCode() != failed ||
			!strings.Contains(vendor[0].String(), strings.TrimPrefix(receiver.URL, "http://")) {
			t.Errorf("the calls are %v", vendor)
		}
		for _, span := range sink.named("") {
			if strings.Contains(span.String(), "hidden") {
				t.Errorf("a span contains a secret: %v", span)
			}
			for _, a := range span.Attributes {
				if strings.HasPrefix(a.Key, "url.") || strings.HasPrefix(a.Key, "client.") {
					t.Errorf("the span %s contains %s", span.Name, a.Key)
				}
			}
		}
		created := sink.named("POST " + createPath)
		if len(created) != 1 || hex.EncodeToString(created[0].TraceId) != outer {
			t.Fatalf("the request is %v", created)
		}
		if strings.HasPrefix(url, "postgres") {
			statements := 0
			sink.mu.Lock()
			for _, span := range sink.all {
				if hex.EncodeToString(span.TraceId) == outer && span.Kind == tracepb.Span_SPAN_KIND_CLIENT {
					statements++
				}
			}
			sink.mu.Unlock()
			if statements == 0 {
				t.Error("no statement belongs to the request")
			}
		}
		if len(sink.named("job ")) == 0 {
			t.Error("no job is a span")
		}
		found := false
		for _, span := range sink.named("deliver event") {
			found = found || delivered == "00-"+hex.EncodeToString(span.TraceId)+"-"+hex.EncodeToString(span.SpanId)+"-01"
		}
		if !found {
			t.Errorf("the receiver got the trace %s, which is no delivery's", delivered)
		}
	})
}

// Clients that are no proxies of the operator begin traces of their own. Without an endpoint receivers get none.
func TestTracesOfClientsAreNotContinued(t *testing.T) {
	sink := newSpans(t)
	s := boot(t, dbtest.SQLite(t), func(c *app.Config) { c.OTLPEndpoint = sink.URL })
	d := newAPIClient(t, s)
	const outer = "0af7651916cd43dd8448eb211c80319c"
	d.ok("GET", "/api/company/payrolls", "", "Traceparent", "00-"+outer+"-b7ad6b7169203331-01")
	testkit.Check(t, s.Stop(t.Context()))
	requests := sink.named("GET /api/company/payrolls")
	if len(requests) != 1 || hex.EncodeToString(requests[0].TraceId) == outer {
		t.Errorf("the request is %v", requests)
	}
}

func TestTracingNeedsAURL(t *testing.T) {
	c := defaults(t)
	c.DatabaseURL, c.Listen, c.MetricsListen, c.OTLPEndpoint = dbtest.SQLite(t), "127.0.0.1:0", "", "collector:4318"
	if _, err := app.Start(t.Context(), c, testLogger(t.Output(), "error")); err == nil ||
		!strings.Contains(err.Error(), "--otlp-endpoint") {
		t.Errorf("a wrong endpoint: %v", err)
	}
}
