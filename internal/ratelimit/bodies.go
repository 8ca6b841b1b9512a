package ratelimit

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

// Bodies bounds what the bodies of requests take of the memory, all together: beyond it they wait unread, in the buffers of
// their connections. The large have a room of their own, so that uploads keep nobody's payroll waiting.
type Bodies struct {
	large, common *semaphore.Weighted
	wait          time.Duration
}

const (
	// TinyBody is up to how many bytes a body needs no room: as many as there are connections.
	TinyBody = 16 << 10
	// CommonBody is up to how many bytes a body shares the room of the common ones.
	CommonBody = 2 << 20
)

const (
	largeAtOnce  = 48 << 20         // three of the largest
	commonAtOnce = 16 << 20         // some 250,000 payees: what a request makes of its body is several times as much
	bodyWait     = 20 * time.Second // then the client may come again
	bodyTime     = 30 * time.Second // in which a client sends one, its wait included
)

// NewBodies makes the room that a process has. All its faces share one.
func NewBodies() *Bodies { return BodiesOf(largeAtOnce, commonAtOnce, bodyWait) }

// BodiesOf makes room for so many bytes of large and of common bodies, for which a request waits so long.
func BodiesOf(large, common int64, wait time.Duration) *Bodies {
	return &Bodies{semaphore.NewWeighted(large), semaphore.NewWeighted(common), wait}
}

// Enter waits until there is room for a body of at most so many bytes, and says false when there was none in time; the body is
// read away then. Call leave when nothing of the body is held any more.
//
// The room of a body is taken once more than a tiny one has come: announcing one costs the client nothing. Where its length is not told
// before, it shows then whether it is tiny. One that announces too much is left unread, for its reader to refuse.
func (b *Bodies) Enter(w http.ResponseWriter, r *http.Request, now time.Time, most int64) (leave func(), ok bool) {
	size := r.ContentLength
	if size > most || size >= 0 && size <= TinyBody {
		return func() {}, true
	}
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(now.Add(bodyTime)) // a writer without a connection has no deadline
	own := r.Body                               // which says once more what went wrong
	head := make([]byte, TinyBody+1)
	n, err := io.ReadFull(own, head)
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head[:n]), own), own}
	// The server asks its own body whether to linger before it closes the connection. Without that, a client that still
	// sends would get a reset instead of its answer.
	giveBack := func() { r.Body = own }
	if size < 0 {
		if err != nil {
			return giveBack, true
		}
		size = most
	}
	room := b.large
	if size <= CommonBody {
		room = b.common
	}
	ctx, cancel := context.WithTimeout(r.Context(), b.wait)
	defer cancel()
	_ = conn.SetWriteDeadline(now.Add(2 * bodyTime))
	if room.Acquire(ctx, size) != nil {
		_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, most)) // a client that still sends would not see the answer
		giveBack()
		return nil, false
	}
	return func() { giveBack(); room.Release(size) }, true
}
