// Package requestlog stores the requests of a company's API clients, so that the company's developers can see them:
// the operation, the result, the duration, and the bodies without secrets and personal data.
//
// The log does not delay requests: Add buffers an entry in memory, and about once a second Run writes the buffered
// entries with few statements. Memory and the number of entries per company and second are limited, so entries may be
// missing under high load. No other function may depend on this log.
package requestlog

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stipend/stipend/internal/db"
)

// Life is the time for which entries are stored.
const Life = 30 * 24 * time.Hour

// The limits of buffered entries between two writes. maxReads and maxOthers apply to each company.
const (
	flushInterval = time.Second
	maxReads      = 5        // successful requests that only read; limited so that polling does not fill the disk
	maxOthers     = 500      // other requests; ten times the rate limit of a credential
	maxQueued     = 4096     // entries in memory, of all companies
	maxBytes      = 8 << 20  // bytes of bodies in memory; above this, entries are stored without bodies
	maxBody       = 16 << 10 // bytes of a body that Truncate does not shorten
	prefixSize    = 4 << 10  // bytes of a longer body that Truncate keeps
)

// Entry is a request with its response.
type Entry struct {
	At                            time.Time // time by the clock that was given to New
	CompanyID, AppID, Credential  string
	RequestID, Method, Route, URL string // URL is path and query as sent
	Status                        int
	Code                          string // error code, if any
	Took                          time.Duration
	IdempotencyKey                string
	Replayed                      bool
	// Reads reports whether the operation only reads.
	Reads bool
	// Body and Answer are JSON, as returned by Truncate, or nil. The log does not change them, and releases them once
	// they are written.
	Body, Answer []byte
}

// Log buffers entries and writes them.
type Log struct {
	db  *db.DB
	now func() time.Time
	log *slog.Logger

	mu      sync.Mutex
	queue   []Entry
	bytes   int // bytes of the bodies in queue
	counts  map[string]*count
	dropped int
}

// count is the number of buffered entries of a company.
type count struct{ reads, others int }

// New returns a log. now supplies Entry.At.
func New(d *db.DB, now func() time.Time, log *slog.Logger) *Log {
	return &Log{db: d, now: now, log: log, counts: map[string]*count{}}
}

// Add buffers an entry. It never blocks. It ignores entries without a company, and all entries if l is nil.
func (l *Log) Add(e Entry) {
	if l == nil || e.CompanyID == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts[e.CompanyID]
	if c == nil {
		c = &count{}
		l.counts[e.CompanyID] = c
	}
	switch poll := e.Reads && e.Status < 400; {
	case poll && c.reads >= maxReads:
		return // dropped intentionally
	case !poll && c.others >= maxOthers, len(l.queue) >= maxQueued:
		l.dropped++
		return
	case poll:
		c.reads++
	default:
		c.others++
	}
	if l.bytes+len(e.Body)+len(e.Answer) > maxBytes {
		e.Body, e.Answer = nil, nil
	}
	l.bytes += len(e.Body) + len(e.Answer)
	l.queue = append(l.queue, e)
}

// Truncate returns a body to store in an Entry: the body itself or, for a large body, a copy of its beginning, so
// that the Entry does not keep the large body in memory.
func Truncate(body []byte) []byte {
	if len(body) > maxBody {
		return bytes.Clone(body[:prefixSize])
	}
	return body
}

// Run writes the buffered entries about once a second until ctx ends, and then writes the remaining entries.
func (l *Log) Run(ctx context.Context) {
	tick := time.NewTicker(flushInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			l.Flush(last)
			return
		case <-tick.C:
			l.Flush(ctx)
		}
	}
}

// rowsPerCommit is the number of entries per transaction. Small transactions do not delay the group commit of
// requests.
const rowsPerCommit = 128

// Flush writes the buffered entries. If writing fails, it drops them and logs a warning.
func (l *Log) Flush(ctx context.Context) {
	l.mu.Lock()
	all, dropped := l.queue, l.dropped
	l.queue, l.bytes, l.dropped, l.counts = nil, 0, 0, map[string]*count{}
	l.mu.Unlock()
	var failed error
	for len(all) > 0 {
		some := all[:min(len(all), rowsPerCommit)]
		all = all[len(some):]
		lines := make([]line, len(some))
		for i, e := range some {
			lines[i] = line{age: l.now().Sub(e.At), entry: e, path: redactURL(e.Route, e.URL), key: maskKey(e.IdempotencyKey),
				body: redact(e.Body, false), answer: redact(e.Answer, e.Status >= 400)}
		}
		if err := l.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return insert(ctx, tx, lines) }); err != nil {
			dropped, failed = dropped+len(some), err
		}
	}
	if dropped > 0 {
		l.log.Warn("request log entries were dropped", "entries", dropped, "error", failed)
	}
}
