package app_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/testkit"
)

// An error that repeats is one line per minute, which counts those left out.
func TestTheLogHasOneLinePerCauseAndMinute(t *testing.T) {
	var out bytes.Buffer
	h := app.LimitRepeats(slog.NewTextHandler(&out, nil))
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	write := func(after time.Duration, message string, attrs ...slog.Attr) {
		t.Helper()
		r := slog.NewRecord(at.Add(after), slog.LevelWarn, message, 0)
		r.AddAttrs(attrs...)
		testkit.Check(t, h.WithAttrs([]slog.Attr{slog.String("process", "api")}).Handle(t.Context(), r))
	}
	for i := range 300 {
		lost := fmt.Errorf("read tcp 127.0.0.1:%d->127.0.0.1:5432: connection reset by peer", 30_000+i)
		write(time.Duration(i)*time.Second, "jobs cannot be claimed", slog.Any("error", lost))
		write(0, "page", slog.String("request_id", fmt.Sprint("req_", i)), slog.Any("error", lost))
		write(0, "block disconnected", slog.Int("height", i))
	}
	write(time.Second, "jobs cannot be claimed", slog.Any("error", errors.New("the disk is full")))
	for text, want := range map[string]int{
		"jobs cannot be claimed": 5 + 1, "repeated=59": 4, "request_id": 300, "block disconnected": 300, "full": 1,
	} {
		if got := strings.Count(out.String(), text); got != want {
			t.Errorf("%q: %d lines, want %d", text, got, want)
		}
	}
}

// A line about traced work has the IDs of the trace and the span, so that both can be found.
func TestTheLogNamesTheTrace(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(app.WithTraceIDs(slog.NewTextHandler(&out, nil)).WithAttrs([]slog.Attr{slog.String("process", "api")}))
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	log.InfoContext(trace.ContextWithSpanContext(t.Context(), span), "traced")
	log.InfoContext(t.Context(), "untraced")
	if text := out.String(); strings.Count(text, "trace_id=01000000000000000000000000000000") != 1 ||
		strings.Count(text, "span_id=0200000000000000") != 1 || strings.Count(text, "process=api") != 2 {
		t.Errorf("the log is %s", text)
	}
}
