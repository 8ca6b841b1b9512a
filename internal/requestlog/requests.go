// Package requestlog keeps what programs asked for a company, for the people of that company who write them: which
// operation, how it ended, how long it took, and what was sent and answered, without secrets and personal data.
//
// It is kept beside the way of a request, not on it: Add puts a line into memory, and Run writes the lines of about a
// second in few statements. Memory, and what a company can have written in a second, are bounded, so a line may be
// missing where very many come at once; nothing else may rest on this log. It never says what a request did: that is
// what the answer says.
package requestlog

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stipend/stipend/internal/db"
)

// Life is how long a request is remembered.
const Life = 30 * 24 * time.Hour

// What is noted of one company between two writes, and what waits in memory in all.
const (
	everyFlush = time.Second
	mostReads  = 5    // successful ones that only read: a program that polls fills no disk
	mostOthers = 500  // ten times what one credential may sustain
	mostLines  = 4096 // that wait
	mostBytes  = 8 << 20
	mostBody   = 16 << 10 // of a body that is kept as it is until it is written; of a longer one, the beginning
	beginning  = 4 << 10
)

// Entry is one request as it came and was answered.
type Entry struct {
	At                            time.Time // by the clock of New
	CompanyID, AppID, Credential  string
	RequestID, Method, Route, URL string // URL is path and query as they were sent
	Status                        int
	Code                          string // of a refusal
	Took                          time.Duration
	IdempotencyKey                string
	Replayed                      bool
	// Reads says that the operation changes nothing.
	Reads bool
	// Body and Answer are what Kept leaves of JSON, or nothing. They are not changed, and let go of when they are written.
	Body, Answer []byte
}

// Log takes lines and writes them.
type Log struct {
	db  *db.DB
	now func() time.Time
	log *slog.Logger

	mu      sync.Mutex
	waiting []Entry
	held    int // bytes of bodies
	counts  map[string]*count
	missed  int
}

// count is how many lines of a company wait.
type count struct{ reads, others int }

// New makes a log. now is the clock of Entry.At.
func New(d *db.DB, now func() time.Time, log *slog.Logger) *Log {
	return &Log{db: d, now: now, log: log, counts: map[string]*count{}}
}

// Add notes a request. It waits for nothing; a request without a company is not noted.
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
	switch polled := e.Reads && e.Status < 400; {
	case polled && c.reads >= mostReads:
		return // as it is meant
	case !polled && c.others >= mostOthers, len(l.waiting) >= mostLines:
		l.missed++
		return
	case polled:
		c.reads++
	default:
		c.others++
	}
	if l.held+len(e.Body)+len(e.Answer) > mostBytes {
		e.Body, e.Answer = nil, nil
	}
	l.held += len(e.Body) + len(e.Answer)
	l.waiting = append(l.waiting, e)
}

// Kept is what an Entry holds of a body: all of it, or its beginning, so that nothing large lives on in it.
func Kept(body []byte) []byte {
	if len(body) > mostBody {
		return bytes.Clone(body[:beginning])
	}
	return body
}

// Run writes what waits about once a second until ctx ends, and then what is left.
func (l *Log) Run(ctx context.Context) {
	tick := time.NewTicker(everyFlush)
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

// rowsAtOnce bounds what one commit carries of this, since it is nobody's business that waits for the commit.
const rowsAtOnce = 128

// Flush writes what waits. What cannot be written is missing from the log, which is said in the process's own.
func (l *Log) Flush(ctx context.Context) {
	l.mu.Lock()
	all, missed := l.waiting, l.missed
	l.waiting, l.held, l.missed, l.counts = nil, 0, 0, map[string]*count{}
	l.mu.Unlock()
	var failed error
	for len(all) > 0 {
		some := all[:min(len(all), rowsAtOnce)]
		all = all[len(some):]
		lines := make([]line, len(some))
		for i, e := range some {
			lines[i] = line{age: l.now().Sub(e.At), entry: e, path: plainURL(e.Route, e.URL), key: masked(e.IdempotencyKey),
				body: plain(e.Body, false), answer: plain(e.Answer, e.Status >= 400)}
		}
		if err := l.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return insert(ctx, tx, lines) }); err != nil {
			missed, failed = missed+len(some), err
		}
	}
	if missed > 0 {
		l.log.Warn("requests are missing from the log that companies see", "lines", missed, "error", failed)
	}
}
