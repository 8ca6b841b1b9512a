package app_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db/dbtest"
)

// raw is a connection of somebody who writes what they like.
type raw struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, s *service) *raw {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.Ready().BaseURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return &raw{t, c, bufio.NewReader(c)}
}

// heard is an answer.
type heard struct {
	status int
	last   bool // of its connection
	header http.Header
	body   string
}

// says writes text and reads an answer.
func (w *raw) says(text string) (heard, error) {
	if _, err := io.WriteString(w, text); err != nil {
		return heard{}, err
	}
	got, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return heard{}, err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	return heard{got.StatusCode, got.Close, got.Header, string(body)}, err
}

// A body that is an attack is refused for what it is, and takes no more memory than its length is worth. What is
// counted is the process's, so nothing runs beside this.
func TestHostileBodies(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		d := newAPIClient(t, boot(t, url, func(c *app.Config) { c.ReadsPerSecond, c.WritesPerSecond = 0, 0 }))
		bodyAttacks(d)
		d.checkLedgerBalances()
	})
}

// Connections beyond the bound wait until one ends.
func TestConnectionsAreBounded(t *testing.T) {
	s := boot(t, dbtest.SQLite(t), func(c *app.Config) { c.MaxConnections = 2 })
	const ask = "GET /healthz HTTP/1.1\r\nHost: stipend\r\n\r\n"
	first, second, third := dial(t, s), dial(t, s), dial(t, s)
	for _, w := range []*raw{first, second} {
		if got, err := w.says(ask); err != nil || got.status != 200 {
			t.Fatal(got, err)
		}
	}
	answered := make(chan error, 1)
	go func() {
		got, err := third.says(ask)
		if err == nil && got.status != http.StatusOK {
			err = fmt.Errorf("status %d", got.status)
		}
		answered <- err
	}()
	for range 50 {
		if _, err := first.says(ask); err != nil {
			t.Fatal(err)
		}
	}
	if len(answered) > 0 {
		t.Error("a third connection was served beside two")
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// A request whose end two readers could see in different places is refused, or is the last one of its connection: what
// stands behind it is nobody's.
func TestNothingIsSmuggled(t *testing.T) {
	s := boot(t, dbtest.SQLite(t))
	const post, behind = "POST /sign-in HTTP/1.1\r\nHost: stipend\r\n", "GET /healthz HTTP/1.1\r\nHost: stipend\r\n\r\n"
	for name, c := range map[string]struct {
		status int
		text   string
	}{
		"a length and chunks":      {415, post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		"chunks, folded":           {415, post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"},
		"chunks of the old way":    {415, "POST /sign-in HTTP/1.0\r\nHost: stipend\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		"two lengths":              {400, post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef"},
		"a length with a sign":     {400, post + "Content-Length: +5\r\n\r\nabcde"},
		"a blank before the colon": {400, post + "Content-Length : 5\r\n\r\nabcde"},
		"a fold at the start":      {400, "GET /healthz HTTP/1.1\r\n Host: stipend\r\nHost: stipend\r\n\r\n"},
		"two hosts":                {400, "GET /healthz HTTP/1.1\r\nHost: stipend\r\nHost: other\r\n\r\n"},
		"another encoding":         {501, post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"},
		"two encodings":            {501, post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	} {
		w := dial(t, s)
		got, err := w.says(c.text + behind)
		if err != nil || got.status != c.status || !got.last {
			t.Errorf("%s: %d %v", name, got.status, err)
			continue
		}
		if got, err := w.says(""); err == nil {
			t.Errorf("%s: what stood behind it was answered with %d", name, got.status)
		}
	}
	// The head of a request is bounded, and so is the time in which it comes.
	if got, err := dial(t, s).says("GET /healthz HTTP/1.1\r\nHost: stipend\r\n" + strings.Repeat("X-Flood: "+strings.Repeat("a", 55)+"\r\n", 4<<10) + "\r\n"); err == nil && got.status != 431 {
		t.Errorf("a flood of headers: %d", got.status)
	}
	for _, server := range s.Servers() {
		if most := server.ReadHeaderTimeout; most <= 0 || most > 5*time.Second || server.ReadTimeout <= 0 || server.IdleTimeout <= 0 || server.MaxHeaderBytes > 32<<10 {
			t.Errorf("%s holds connections for nothing: %s %s %s %d", server.Addr, most, server.ReadTimeout, server.IdleTimeout, server.MaxHeaderBytes)
		}
	}
}
