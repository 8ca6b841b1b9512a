package limit

import (
	"context"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

// Bodies bounds what large bodies of requests take of the memory, all together: beyond it they wait unread, in the buffers of
// their connections.
type Bodies struct {
	room *semaphore.Weighted
	wait time.Duration
}

// SmallBody is up to how many bytes a body needs no room.
const SmallBody = 2 << 20

const (
	bodiesAtOnce = 48 << 20         // three of the largest
	bodyWait     = 20 * time.Second // then the client may come again
	bodyTime     = 30 * time.Second // in which a client sends one, from its turn on
)

// NewBodies makes the room that a process has. All its faces share one.
func NewBodies() *Bodies { return BodiesOf(bodiesAtOnce, bodyWait) }

// BodiesOf makes room for so many bytes, for which a request waits so long.
func BodiesOf(bytes int64, wait time.Duration) *Bodies {
	return &Bodies{semaphore.NewWeighted(bytes), wait}
}

// Enter waits until there is room for a body of at most so many bytes, and says false when there was none in time; the body is
// read away then. Call leave when nothing of the body is held any more.
func (b *Bodies) Enter(w http.ResponseWriter, r *http.Request, now time.Time, most int64) (leave func(), ok bool) {
	size := r.ContentLength
	if size < 0 || size > most { // one that is too long is refused when it is read
		size = most
	}
	if size <= SmallBody {
		return func() {}, true
	}
	ctx, cancel := context.WithTimeout(r.Context(), b.wait)
	defer cancel()
	err := b.room.Acquire(ctx, size)
	// Its time begins now. A writer without a connection has no deadline.
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(now.Add(bodyTime))
	_ = conn.SetWriteDeadline(now.Add(2 * bodyTime))
	if err != nil {
		_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, most)) // a client that still sends would not see the answer
		return nil, false
	}
	return func() { b.room.Release(size) }, true
}
