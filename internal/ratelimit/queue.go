package ratelimit

import (
	"context"
	"slices"
	"sync"

	"github.com/stipend/stipend/internal/apierr"
)

// ErrBusy is returned if a Queue is full. Its hint "retry_after" is the number of seconds to wait.
var ErrBusy = apierr.New(apierr.RateLimited, "too_busy",
	"Too many people are signing in right now. Try again in a few seconds.").Set("retry_after", "5")

// Limits of a Queue, which keep waiting times short. At most maxWaiting calls of known clients can wait, and another
// maxWaiting calls of other clients. Each network can have at most maxOfNetwork calls that run or wait.
const (
	maxWaiting   = 16
	maxOfNetwork = 8
)

// Queue runs expensive work, such as hashing a password, for a limited number of callers at a time. Known clients
// take precedence, so that a flood of requests from others does not lock them out. A call that would wait long is
// rejected at once.
type Queue struct {
	mu       sync.Mutex
	free     int            // number of calls that can start
	waiting  [2][]chan bool // waiting calls of known clients, and of others
	networks map[string]int // running and waiting calls by network
}

// NewQueue returns a queue that runs n calls at a time.
func NewQueue(n int) *Queue { return &Queue{free: n, networks: map[string]int{}} }

// Do calls run for a client in a network as soon as possible. It returns ErrBusy if too many calls wait, and the
// error of ctx if ctx is done first. An empty network is not limited.
func (q *Queue) Do(ctx context.Context, network string, known bool, run func() error) error {
	class := 1
	if known {
		class = 0
	}
	q.mu.Lock()
	if network != "" && q.networks[network] >= maxOfNetwork || q.free == 0 && len(q.waiting[class]) >= maxWaiting {
		q.mu.Unlock()
		return ErrBusy
	}
	q.networks[network]++
	defer q.leave(network)
	if q.free > 0 {
		q.free--
		q.mu.Unlock()
		defer q.next()
		return run()
	}
	turn := make(chan bool, 1)
	q.waiting[class] = append(q.waiting[class], turn)
	q.mu.Unlock()
	select {
	case <-turn:
		defer q.next()
		return run()
	case <-ctx.Done():
		q.mu.Lock()
		i := slices.Index(q.waiting[class], turn)
		if i >= 0 {
			q.waiting[class] = slices.Delete(q.waiting[class], i, i+1)
		}
		q.mu.Unlock()
		if i < 0 { // the call got its turn at the same time
			q.next()
		}
		return ctx.Err()
	}
}

// next starts the first waiting call, if there is one.
func (q *Queue) next() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for class, waiting := range q.waiting {
		if len(waiting) > 0 {
			waiting[0] <- true
			q.waiting[class] = waiting[1:]
			return
		}
	}
	q.free++
}

func (q *Queue) leave(network string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.networks[network]--; q.networks[network] == 0 {
		delete(q.networks, network)
	}
}
