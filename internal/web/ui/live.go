package ui

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
)

const (
	maxStreams          = 256              // per process
	maxStreamsPerClient = 32               // per network address
	streamLifetime      = 10 * time.Minute // then the browser reconnects
	pollInterval        = 2 * time.Second
	heartbeatInterval   = 15 * time.Second // detects clients that are gone
)

var errTooManyStreams = apierr.New(apierr.Unavailable, "retry_later",
	"Too many live connections. Reload this page manually.")

// streams counts the open event streams by network address, so that one client cannot use them all.
type streams struct {
	mu  sync.Mutex
	all int
	of  map[netip.Addr]int
}

// acquire reserves a stream for a client and reports whether one is free. The caller must call release when the stream
// ends.
func (s *streams) acquire(from netip.Addr) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxStreams || s.of[from] >= maxStreamsPerClient {
		return nil, false
	}
	s.all++
	s.of[from]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.of[from]--; s.of[from] == 0 {
			delete(s.of, from)
		}
	}, true
}

// stream sends the "live" part of a page as server-sent events, immediately and after each change. Access is
// checked again each time. A client that does not accept events gets the part once, with an ETag.
func (s *Server) stream(w *responseWriter, c *Request, rt Route) {
	if !strings.Contains(c.HTTP.Header.Get("Accept"), "text/event-stream") {
		s.poll(w, c, rt)
		return
	}
	release, ok := s.streams.acquire(session.Network(c.RemoteAddr()))
	if !ok {
		s.writeError(w, c.HTTP, errTooManyStreams)
		return
	}
	defer release()
	body, err := s.livePart(c, rt)
	if err != nil {
		s.writeError(w, c.HTTP, err)
		return
	}
	if body == nil {
		s.writeError(w, c.HTTP, ErrFormToken)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	send := func(text string) error {
		if err := out.SetWriteDeadline(s.Now().Add(heartbeatInterval)); err != nil {
			return err
		}
		if _, err := w.Write([]byte(text)); err != nil { //nolint:gosec // escaped by html/template
			return err
		}
		return out.Flush()
	}
	if send(event(body)) != nil {
		return
	}
	last := sha256.Sum256(body)
	look, beat, end := time.NewTicker(pollInterval), time.NewTicker(heartbeatInterval), time.NewTimer(streamLifetime)
	defer look.Stop()
	defer beat.Stop()
	defer end.Stop()
	for {
		select {
		case <-c.HTTP.Context().Done():
			return
		case <-s.Done:
			return
		case <-end.C:
			return
		case <-beat.C:
			if send(":\n\n") != nil {
				return
			}
		case <-look.C:
			body, err := s.livePart(c, rt)
			if err != nil || body == nil {
				if err != nil && c.HTTP.Context().Err() == nil {
					s.Log.Warn("a live page stopped updating", slog.String("request_id", c.ID), slog.String("error", err.Error()))
				}
				return
			}
			if sum := sha256.Sum256(body); sum != last {
				last = sum
				if send(event(body)) != nil {
					return
				}
			}
		}
	}
}

// poll sends the current "live" part, at most once a second on average per client and page. It answers 304 if the
// part is unchanged.
func (s *Server) poll(w *responseWriter, c *Request, rt Route) {
	page := sha256.Sum256([]byte(session.Network(c.RemoteAddr()).String() + " " + c.HTTP.URL.Path))
	if err := s.polls.Allow(s.Now(), string(page[:]), w.Header()); err != nil {
		s.writeError(w, c.HTTP, err)
		return
	}
	body, err := s.livePart(c, rt)
	if err == nil && body == nil {
		err = ErrFormToken
	}
	if err != nil {
		s.writeError(w, c.HTTP, err)
		return
	}
	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	h := w.Header()
	h.Set("ETag", tag)
	if c.HTTP.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) //nolint:gosec // escaped by html/template; the client may be gone
}

// livePart renders the current "live" part. It returns nil if the user has to sign in or prove a second factor
// first.
func (s *Server) livePart(c *Request, rt Route) ([]byte, error) {
	var v View
	err := s.DB.Read(c.HTTP.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		v, err = c.admit(ctx, tx, rt, rt.Handler)
		return err
	})
	if err != nil || v.Redirect != "" {
		return nil, err
	}
	v.part = "live"
	return render(c, v)
}

// event encodes body as a server-sent event.
func event(body []byte) string {
	return "data: " + strings.Join(strings.Split(string(bytes.TrimSpace(body)), "\n"), "\ndata: ") + "\n\n"
}
