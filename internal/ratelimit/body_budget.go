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

// BodyBudget limits the memory that request bodies use in a process. Requests above the limit wait while their bodies
// are still unread in the connection. Large bodies have a separate budget, so that uploads do not delay payrolls. To
// keep any client from using up the budget, each client can use only a share of it, and a body that arrives too
// slowly is aborted.
type BodyBudget struct {
	large, small *budget
	wait         time.Duration
}

// budget is a budget in bytes. Each client can use only a share of it.
type budget struct {
	all   *semaphore.Weighted
	share int64

	mu      sync.Mutex
	clients map[string]*client
}

type client struct {
	used     *semaphore.Weighted
	requests int // requests that use the share or wait for it
}

func newBudget(bytes, share int64) *budget {
	return &budget{all: semaphore.NewWeighted(bytes), share: min(share, bytes), clients: map[string]*client{}}
}

// acquire waits until size bytes of the budget and of each client's share are available. It returns an error if ctx
// is done first.
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

// enter returns the state of a client, which is kept until leave has been called as often as enter.
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
	// FreeBodySize is the maximum size of a body that does not count against a budget.
	FreeBodySize = 16 << 10
	// SmallBodySize is the maximum size of a body that counts against the budget for small bodies.
	SmallBodySize = 2 << 20
)

const (
	largeBudget = 48 << 20         // bytes; three bodies of the maximum size
	smallBudget = 16 << 20         // bytes; about 250,000 payees, whose decoded form is several times larger
	bodyWait    = 20 * time.Second // maximum time to wait for the budget
	bodyTime    = 30 * time.Second // maximum time to receive a body, including the wait
	stepTime    = 5 * time.Second  // maximum time to receive stepSize bytes of a body
	stepSize    = 64 << 10
	largestBody = 16 << 20
)

// DefaultBodyBudget returns a budget for a process, which its HTTP servers share.
func DefaultBodyBudget() *BodyBudget { return NewBodyBudget(largeBudget, smallBudget, bodyWait) }

// NewBodyBudget returns budgets of the given numbers of bytes for large and for small bodies. A client can use a
// third of the large budget and a quarter of the small one, but always at least one body. A request waits for at most
// wait.
func NewBodyBudget(large, small int64, wait time.Duration) *BodyBudget {
	return &BodyBudget{
		large: newBudget(large, max(large/3, largestBody)), small: newBudget(small, max(small/4, SmallBodySize)), wait: wait,
	}
}

// Acquire takes the size of a request body of at most limit bytes from the budget, and from the shares of the clients
// that sent the request, such as a company and a network. If they do not suffice in time, it discards the body and
// returns false. The caller must call release when the body is no longer referenced. Reading the body fails if the
// body arrives too slowly.
//
// Acquire first waits until more than FreeBodySize bytes have arrived, so that a Content-Length header alone takes no
// budget. A body of unknown length up to FreeBodySize also takes none. A body whose Content-Length is above limit is
// left unread, for the caller to reject.
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
	// The server needs its own body to decide whether to read on before it closes the connection. Otherwise a client
	// that is still sending would see a connection reset instead of the response.
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
		// Otherwise a client that is still sending would not see the response.
		_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, limit))
		restore()
		return nil, false
	}
	return func() { restore(); free() }, true
}

// steadyBody is a body that must arrive at a rate of at least stepSize bytes per stepTime, and completely before a
// final deadline.
type steadyBody struct {
	io.ReadCloser
	conn *http.ResponseController
	now  func() time.Time
	end  time.Time
	step int // bytes received since the deadline was last set
}

// Read implements io.Reader.
func (b *steadyBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.step += n; b.step >= stepSize {
		b.extend()
	}
	return n, err
}

// extend sets the deadline of the next step.
func (b *steadyBody) extend() {
	b.step = 0
	deadline := b.now().Add(stepTime)
	if deadline.After(b.end) {
		deadline = b.end
	}
	_ = b.conn.SetReadDeadline(deadline) // an error only means that deadlines are not supported
}
