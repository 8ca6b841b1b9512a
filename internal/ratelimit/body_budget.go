package ratelimit

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// BodyBudget limits the memory that request bodies use in a process. Requests above it wait, unread, in their
// connections. Large bodies have a budget of their own, so that uploads do not delay payrolls. Each client can use a
// part of a budget only, and a body that stops arriving ends, so that no client uses up the budget of the others.
type BodyBudget struct {
	large, small *budget
	wait         time.Duration
}

// budget is a number of bytes. Each client can use a share of it.
type budget struct {
	all   *semaphore.Weighted
	share int64

	mu      sync.Mutex
	clients map[string]*client
}

type client struct {
	used     *semaphore.Weighted
	requests int // requests that use or wait for the share
}

func newBudget(bytes, share int64) *budget {
	return &budget{all: semaphore.NewWeighted(bytes), share: min(share, bytes), clients: map[string]*client{}}
}

// acquire waits for size bytes of the share of each client and of the budget. It returns an error if ctx ends before.
func (b *budget) acquire(ctx context.Context, size int64, clients []string) (release func(), err error) {
	var taken []func()
	release = func() {
		for _, free := range slices.Backward(taken) {
			free()
		}
	}
	take := func(from *semaphore.Weighted) error {
		err := from.Acquire(ctx, size)
		if err == nil {
			taken = append(taken, func() { from.Release(size) })
		}
		return err
	}
	for _, name := range clients {
		if name == "" {
			continue
		}
		c := b.enter(name)
		taken = append(taken, func() { b.leave(name, c) })
		if err := take(c.used); err != nil {
			release()
			return nil, err
		}
	}
	if err := take(b.all); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// enter returns a client, which is kept until as many calls of leave.
func (b *budget) enter(name string) *client {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.clients[name]
	if c == nil {
		c = &client{used: semaphore.NewWeighted(b.share)}
		b.clients[name] = c
	}
	c.requests++
	return c
}

func (b *budget) leave(name string, c *client) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.requests--; c.requests == 0 {
		delete(b.clients, name)
	}
}

const (
	// FreeBodySize is the largest body size that bypasses the budget.
	FreeBodySize = 16 << 10
	// SmallBodySize is the largest body size that is counted in the budget of small bodies.
	SmallBodySize = 2 << 20
)

const (
	largeBudget = 48 << 20         // bytes; three bodies of the maximum size
	smallBudget = 16 << 20         // bytes; about 250,000 payees, which take several times as much once decoded
	bodyWait    = 20 * time.Second // maximum wait for the budget
	bodyTime    = 30 * time.Second // maximum time to receive a body, including the wait
	stepTime    = 5 * time.Second  // maximum time to receive stepSize bytes of it
	stepSize    = 64 << 10
	largestBody = 16 << 20
)

// DefaultBodyBudget returns the budget of a process, shared by its HTTP servers.
func DefaultBodyBudget() *BodyBudget { return NewBodyBudget(largeBudget, smallBudget, bodyWait) }

// NewBodyBudget returns budgets of the given bytes for large and for small bodies. A client can use a third of the
// large one and a quarter of the small one, but at least one body. A request waits for at most wait.
func NewBodyBudget(large, small int64, wait time.Duration) *BodyBudget {
	return &BodyBudget{
		large: newBudget(large, max(large/3, largestBody)), small: newBudget(small, max(small/4, SmallBodySize)), wait: wait,
	}
}

// Acquire takes the size of a body of at most limit bytes from the budget and from the shares of the clients that it
// comes from, such as a company and a network. It reports false, and discards the body, if they did not suffice in
// time. Call release when the body is no longer referenced. Reading the body fails if it arrives too slowly.
//
// Acquire first waits for more than FreeBodySize bytes to arrive, so a Content-Length alone takes no budget. A body of
// unknown length up to FreeBodySize takes none either. A body with a Content-Length above limit is left unread for the
// caller to reject.
func (b *BodyBudget) Acquire(w http.ResponseWriter, r *http.Request, now func() time.Time, limit int64,
	clients ...string) (release func(), ok bool) {
	size := r.ContentLength
	if size > limit || size >= 0 && size <= FreeBodySize {
		return func() {}, true
	}
	conn := http.NewResponseController(w)
	own := r.Body
	steady := &steadyBody{ReadCloser: own, conn: conn, now: now, end: now().Add(bodyTime)}
	steady.extend()
	head := make([]byte, FreeBodySize+1)
	n, err := io.ReadFull(steady, head)
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head[:n]), steady), own}
	// The server needs its own body to decide whether to read on before closing the connection. Otherwise a client
	// that is still sending would get a reset instead of the response.
	restore := func() { r.Body = own }
	if size < 0 {
		if err != nil {
			return restore, true
		}
		size = limit
	}
	budget := b.large
	if size <= SmallBodySize {
		budget = b.small
	}
	ctx, cancel := context.WithTimeout(r.Context(), b.wait)
	defer cancel()
	_ = conn.SetWriteDeadline(now().Add(2 * bodyTime))
	free, err := budget.acquire(ctx, size, clients)
	steady.extend()
	if err != nil {
		// A client that is still sending would otherwise not see the response.
		_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, limit))
		restore()
		return nil, false
	}
	return func() { restore(); free() }, true
}

// steadyBody is a body that must arrive at a rate of stepSize bytes per stepTime, and completely before the end.
type steadyBody struct {
	io.ReadCloser
	conn *http.ResponseController
	now  func() time.Time
	end  time.Time
	step int // bytes received since the deadline was set
}

// Read implements io.Reader.
func (b *steadyBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.step += n; b.step >= stepSize {
		b.extend()
	}
	return n, err
}

// extend sets the deadline for the next step.
func (b *steadyBody) extend() {
	b.step = 0
	deadline := b.now().Add(stepTime)
	if deadline.After(b.end) {
		deadline = b.end
	}
	_ = b.conn.SetReadDeadline(deadline) // an error only means that the writer does not support deadlines
}
