package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/exaring/otelpgx"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/stipend/stipend/internal/db"
)

// tracing creates spans of requests, jobs, deliveries of events, SQL statements, and calls of nodes, banks and
// vendors, and sends them by OTLP. Spans contain routes, IDs and statements without their arguments. They contain no
// paths, which may include tokens, and no personal data.
type tracing struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider // nil without an endpoint, which disables tracing
	direct   http.RoundTripper        // the default transport before it was replaced
}

// lastTraces is how long a process that stops waits for a trace collector that does not respond.
const lastTraces = 3 * time.Second

// startTracing returns a tracing that sends spans to an OTLP endpoint. If endpoint is empty, tracing is disabled. The
// standard OTEL_… variables set the headers, the sampler and the resource.
func startTracing(ctx context.Context, endpoint string) (*tracing, error) {
	if endpoint == "" {
		return &tracing{tracer: noop.NewTracerProvider().Tracer("")}, nil
	}
	if at, err := url.Parse(endpoint); err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return nil, fmt.Errorf("--otlp-endpoint %q: want a URL such as http://127.0.0.1:4318", endpoint)
	}
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(strings.TrimSuffix(endpoint, "/")+"/v1/traces"))
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "stipend"),
		attribute.String("service.version", Version())), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	t := &tracing{tracer: provider.Tracer("stipend"), provider: provider, direct: http.DefaultTransport}
	// Clients of nodes, banks and vendors use the default transport. Their requests do not carry the trace. Calls
	// outside of traced work, such as polling, get no span.
	http.DefaultTransport = calls{t}
	return t, nil
}

// calls creates a span of each call of a node, bank or vendor, from the request to the header of the response. The
// span contains only the host of the URL, because paths and queries contain providers' keys.
type calls struct{ *tracing }

// RoundTrip sends a request.
func (c calls) RoundTrip(r *http.Request) (*http.Response, error) {
	if !trace.SpanFromContext(r.Context()).IsRecording() {
		return c.direct.RoundTrip(r)
	}
	ctx, span := c.tracer.Start(r.Context(), r.Method, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("http.request.method", r.Method),
			attribute.String("server.address", r.URL.Host)))
	defer span.End()
	res, err := c.direct.RoundTrip(r.WithContext(ctx))
	if err != nil {
		span.SetStatus(codes.Error, "no response") // the error may contain the URL
		return nil, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", res.StatusCode))
	if res.StatusCode >= http.StatusBadRequest {
		span.SetStatus(codes.Error, http.StatusText(res.StatusCode))
	}
	return res, nil
}

// stop sends the remaining spans and ends tracing.
func (t *tracing) stop(ctx context.Context) error {
	if t == nil || t.provider == nil {
		return nil
	}
	http.DefaultTransport = t.direct
	ctx, cancel := context.WithTimeout(ctx, lastTraces)
	defer cancel()
	return t.provider.Shutdown(ctx)
}

// statements returns the tracer of SQL statements, or nil if tracing is disabled.
func (t *tracing) statements() db.Tracer {
	if t.provider == nil {
		return nil
	}
	return otelpgx.NewTracer(otelpgx.WithTracerProvider(t.provider))
}

// requests creates a span of each request. The span continues a trace only if the request comes from one of the
// operator's proxies; otherwise it begins a new trace.
func (t *tracing) requests(proxies []netip.Prefix, next http.Handler) http.Handler {
	if t.provider == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && contains(proxies, from.Addr().Unmap()) {
			ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
		}
		ctx, span := t.tracer.Start(ctx, r.Method, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func contains(all []netip.Prefix, a netip.Addr) bool {
	for _, p := range all {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// request completes the span of a request once its route and status are known.
func (t *tracing) request(ctx context.Context, method, route string, status int) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetName(method + " " + route)
	span.SetAttributes(attribute.String("http.request.method", method), attribute.String("http.route", route),
		attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, http.StatusText(status))
	}
}

// work creates a span of work that has an outcome, and passes the outcome and the duration to done.
func (t *tracing) work(ctx context.Context, kind trace.SpanKind, name string,
	done func(ctx context.Context, outcome string, took time.Duration),
) (context.Context, func(outcome string)) {
	began := time.Now()
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(kind))
	return ctx, func(outcome string) {
		done(ctx, outcome, time.Since(began))
		span.SetAttributes(attribute.String("stipend.outcome", outcome))
		if outcome != "succeeded" {
			span.SetStatus(codes.Error, outcome)
		}
		span.End()
	}
}

// WithTraceIDs returns a handler that adds the IDs of the trace and the span to each record about traced work.
func WithTraceIDs(h slog.Handler) slog.Handler { return traceIDs{h} }

type traceIDs struct{ slog.Handler }

// Handle adds the IDs of the trace and the span to a record.
func (h traceIDs) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler that adds attributes to each record.
func (h traceIDs) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traceIDs{h.Handler.WithAttrs(attrs)}
}

// WithGroup returns a handler that puts attributes into a group.
func (h traceIDs) WithGroup(name string) slog.Handler { return traceIDs{h.Handler.WithGroup(name)} }
