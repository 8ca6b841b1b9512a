package app

import (
	"context"
	"log/slog"
	"regexp"
	"sync"
	"time"
)

const (
	repeatPeriod = time.Minute
	maxRepeats   = 1000 // maximum number of remembered causes
)

// LimitRepeats returns a handler that writes at most one line per minute for each cause, where a cause is a message
// with an attribute "error". The next line of a cause contains the number of omitted lines as the attribute
// "repeated". Errors that differ only in numbers, such as ports, are the same cause. A line with an attribute
// "request_id" is always written, because a client may report that ID.
func LimitRepeats(h slog.Handler) slog.Handler {
	return &repeatLimiter{h, &repeats{causes: map[string]*repeat{}}}
}

type repeatLimiter struct {
	slog.Handler
	repeats *repeats // shared with handlers that WithAttrs and WithGroup return
}

type repeats struct {
	mu     sync.Mutex
	causes map[string]*repeat
}

type repeat struct {
	until   time.Time // end of the minute that began with the last written line
	leftOut int
}

// Handle writes a record, or omits it if a record with the same cause was written within the last minute.
func (l *repeatLimiter) Handle(ctx context.Context, r slog.Record) error {
	if cause, ok := causeOf(r); ok {
		leftOut, write := l.repeats.count(cause, r.Time)
		if !write {
			return nil
		}
		if leftOut > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("repeated", leftOut))
		}
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler that adds attributes to each record and counts causes together with l.
func (l *repeatLimiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &repeatLimiter{l.Handler.WithAttrs(attrs), l.repeats}
}

// WithGroup returns a handler that puts attributes into a group and counts causes together with l.
func (l *repeatLimiter) WithGroup(name string) slog.Handler {
	return &repeatLimiter{l.Handler.WithGroup(name), l.repeats}
}

var number = regexp.MustCompile(`\b\d+\b`)

// causeOf returns the cause of a record. ok is false for a record that must not be omitted.
func causeOf(r slog.Record) (cause string, ok bool) {
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "request_id":
			ok = false
			return false
		case "error":
			cause, ok = r.Level.String()+" "+r.Message+" "+number.ReplaceAllString(a.Value.String(), "0"), true
		}
		return true
	})
	return cause, ok
}

// count reports whether a line must be written, and how many lines of its cause were omitted before it.
func (s *repeats) count(cause string, at time.Time) (leftOut int, write bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.causes[cause]; c != nil {
		if at.Before(c.until) {
			c.leftOut++
			return 0, false
		}
		leftOut = c.leftOut
	} else if len(s.causes) >= maxRepeats {
		clear(s.causes)
	}
	s.causes[cause] = &repeat{until: at.Add(repeatPeriod)}
	return leftOut, true
}
