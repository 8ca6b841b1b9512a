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
	largeBudget = 48 << 20         // three of the largest
	smallBudget = 16 << 20         // about 250,000 payees; a decoded body takes several times its size
	bodyWait    = 20 * time.Second // for budget
	bodyTime    = 30 * time.Second // to receive a body, including the wait
)

// DefaultBodyBudget returns the budget of a process, shared by its HTTP servers.
func DefaultBodyBudget() *BodyBudget { return NewBodyBudget(largeBudget, smallBudget, bodyWait) }

// NewBodyBudget returns a budget of so many bytes for large and small bodies. A request waits for at most wait.
func NewBodyBudget(large, small int64, wait time.Duration) *BodyBudget {
	return &BodyBudget{semaphore.NewWeighted(large), semaphore.NewWeighted(small), wait}
}

// Acquire waits for budget for a body of at most limit bytes. It reports false if none became free in time; it has
// then discarded the body. Call release when the body is no longer referenced.
//
// Budget is taken only after more than FreeBodySize bytes have arrived, so announcing a large body costs nothing. A
// body of unknown length up to FreeBodySize is free too. A body whose announced length exceeds limit is left unread
// for the caller to reject.
func (b *BodyBudget) Acquire(w http.ResponseWriter, r *http.Request, now time.Time,
	limit int64) (release func(), ok bool) {
	size := r.ContentLength
	if size > limit || size >= 0 && size <= FreeBodySize {
		return func() {}, true
	}
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(now.Add(bodyTime)) // not every writer has a deadline
	own := r.Body                               // returns the same error again
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
	room := b.large
	if size <= SmallBodySize {
		room = b.small
	}
	ctx, cancel := context.WithTimeout(r.Context(), b.wait)
	defer cancel()
	_ = conn.SetWriteDeadline(now.Add(2 * bodyTime))
	if room.Acquire(ctx, size) != nil {
		// otherwise a client that is still sending does not see the response
		_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, limit))
		restore()
		return nil, false
	}
	return func() { restore(); room.Release(size) }, true
}
