package ratelimit

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

// BodyBudget limits the memory that request bodies use in a process. Requests above it wait, unread, in their
// connections. Large bodies have a budget of their own, so that uploads do not delay payrolls.
type BodyBudget struct {
	large, small *semaphore.Weighted
	wait         time.Duration
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
)

// DefaultBodyBudget returns the budget of a process, shared by its HTTP servers.
func DefaultBodyBudget() *BodyBudget { return NewBodyBudget(largeBudget, smallBudget, bodyWait) }

// NewBodyBudget returns budgets of the given bytes for large and for small bodies. A request waits for at most wait.
func NewBodyBudget(large, small int64, wait time.Duration) *BodyBudget {
	return &BodyBudget{semaphore.NewWeighted(large), semaphore.NewWeighted(small), wait}
}

// Acquire takes the size of a body of at most limit bytes from the budget. It reports false, and discards the body, if
// the budget did not suffice in time. Call release when the body is no longer referenced.
//
// Acquire first waits for more than FreeBodySize bytes to arrive, so a Content-Length alone takes no budget. A body of
// unknown length up to FreeBodySize takes none either. A body with a Content-Length above limit is left unread for the
// caller to reject.
func (b *BodyBudget) Acquire(w http.ResponseWriter, r *http.Request, now time.Time,
	limit int64) (release func(), ok bool) {
	size := r.ContentLength
	if size > limit || size >= 0 && size <= FreeBodySize {
		return func() {}, true
	}
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(now.Add(bodyTime)) // an error only means that the writer does not support deadlines
	own := r.Body
	head := make([]byte, FreeBodySize+1)
	n, err := io.ReadFull(own, head)
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head[:n]), own), own}
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
	_ = conn.SetWriteDeadline(now.Add(2 * bodyTime))
	if budget.Acquire(ctx, size) != nil {
		// A client that is still sending would otherwise not see the response.
		_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, limit))
		restore()
		return nil, false
	}
	return func() { restore(); budget.Release(size) }, true
}
