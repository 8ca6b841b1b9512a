package api

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
)

// bodies bounds what large bodies take of the memory, all together: beyond it they wait unread, in the buffers of their
// connections.
type bodies struct {
	room *semaphore.Weighted
	wait time.Duration
}

const (
	bodiesAtOnce = 48 << 20         // three of the largest
	bodyWait     = 20 * time.Second // then the client may come again
	bodyTime     = 30 * time.Second // in which a client sends one, from its turn on
)

func newBodies() bodies { return bodies{semaphore.NewWeighted(bodiesAtOnce), bodyWait} }

// enter waits until there is room for a body. Call leave when nothing of it is held any more.
func (b bodies) enter(w *answer, r *http.Request, limit int64) (leave func(), err error) {
	size := r.ContentLength
	if size < 0 || size > limit { // one that is too long is refused when it is read
		size = limit
	}
	ctx, cancel := context.WithTimeout(r.Context(), b.wait)
	defer cancel()
	err = b.room.Acquire(ctx, size)
	// Its time begins now. A writer without a connection has no deadline.
	conn, now := http.NewResponseController(w), w.server.Now()
	_ = conn.SetReadDeadline(now.Add(bodyTime))
	_ = conn.SetWriteDeadline(now.Add(2 * bodyTime))
	if err != nil {
		_, _ = io.Copy(io.Discard, http.MaxBytesReader(w.ResponseWriter, r.Body, limit)) // a client that still sends would not see the answer
		return nil, errRetryLater
	}
	return func() { b.room.Release(size) }, nil
}

// readAll reads the body of an operation that has one.
func readAll(w *answer, r *http.Request, limit int64, wanted bool) ([]byte, error) {
	if !wanted {
		return nil, nil
	}
	for _, name := range []string{"Content-Type", "Content-Encoding"} {
		if len(r.Header[name]) > 1 {
			return nil, errDuplicate.At("header", name)
		}
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return nil, errMediaType.Detailf("Send the body without a Content-Encoding.")
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
		return nil, errMediaType
	}
	tooLarge := errTooLarge.Detailf("The body is larger than %d bytes.", limit)
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close") // rather than read what nobody wants
		return nil, tooLarge
	}
	body := make([]byte, 0, max(r.ContentLength+1, 512))
	src := http.MaxBytesReader(w.ResponseWriter, r.Body, limit)
	for {
		n, err := src.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		var over *http.MaxBytesError
		switch {
		case errors.Is(err, io.EOF):
			return body, nil
		case errors.As(err, &over):
			return nil, tooLarge
		case err != nil:
			return nil, malformed("The body could not be read to its end.")
		}
		if len(body) == cap(body) {
			body = slices.Grow(body, cap(body))
		}
	}
}
