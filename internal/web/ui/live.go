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
	streamsAtOnce = 256              // of one process
	streamsEach   = 32               // of them, from one network address
	streamLife    = 10 * time.Minute // a browser then opens another one by itself
	lookEvery     = 2 * time.Second
	beatEvery     = 15 * time.Second // so that a reader who is gone is noticed
)

var errStreams = apierr.New(apierr.Unavailable, "retry_later", "Too many pages are kept up to date at the moment. Reload this one by hand.")

// streams are the live parts that are open, by where their readers are: so nobody alone takes the places of all.
type streams struct {
	mu  sync.Mutex
	all int
	of  map[netip.Addr]int
}

// enter takes a place for a reader, if there is one. Call leave when the reader has gone.
func (s *streams) enter(from netip.Addr) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= streamsAtOnce || s.of[from] >= streamsEach {
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

// stream sends the part "live" of a page as a server-sent event, now and whenever it has changed. Who may see it is asked each time.
// Whoever does not ask for events gets the part once, and is told when it has not changed since.
func (s *Server) stream(w *answer, c *Request, rt Route) {
	if !strings.Contains(c.HTTP.Header.Get("Accept"), "text/event-stream") {
		s.poll(w, c, rt)
		return
	}
	leave, ok := s.streams.enter(session.Network(c.RemoteAddr()))
	if !ok {
		s.writeError(w, c.HTTP, errStreams)
		return
	}
	defer leave()
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
		if err := out.SetWriteDeadline(s.Now().Add(beatEvery)); err != nil {
			return err
		}
		if _, err := w.Write([]byte(text)); err != nil { //nolint:gosec // html/template has escaped it
			return err
		}
		return out.Flush()
	}
	if send(event(body)) != nil {
		return
	}
	last := sha256.Sum256(body)
	look, beat, end := time.NewTicker(lookEvery), time.NewTicker(beatEvery), time.NewTimer(streamLife)
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
					s.Log.Warn("a page is no longer kept up to date", slog.String("request_id", c.ID), slog.String("error", err.Error()))
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

// poll sends the part as it is now, to each reader of a page once a second at most.
func (s *Server) poll(w *answer, c *Request, rt Route) {
	if err := s.polls.Allow(s.Now(), session.Network(c.RemoteAddr()).String()+" "+c.HTTP.URL.Path, w.Header()); err != nil {
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
	_, _ = w.Write(body) //nolint:gosec // html/template has escaped it; and a reader that left needs no part
}

// livePart makes the part of the page as it is now, nil for somebody who is no longer signed in.
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

// event is a server-sent event of some lines.
func event(body []byte) string {
	return "data: " + strings.Join(strings.Split(string(bytes.TrimSpace(body)), "\n"), "\ndata: ") + "\n\n"
}
