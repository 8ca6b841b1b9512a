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
	"github.com/stipend/stipend/internal/testkit"
)

// raw is a connection on which a client can write any bytes.
type raw struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, s *service) *raw {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.Ready().BaseURL, "http://"))
	testkit.Check(t, err)
	t.Cleanup(func() { _ = c.Close() })
	testkit.Check(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return &raw{t, c, bufio.NewReader(c)}
}

// rawAnswer is a response.
type rawAnswer struct {
	status int
	last   bool // the server closes the connection after it
	header http.Header
	body   string
}

// says writes text and reads a response.
func (w *raw) says(text string) (rawAnswer, error) {
	if _, err := io.WriteString(w, text); err != nil {
		return rawAnswer{}, err
	}
	got, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return rawAnswer{}, err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	return rawAnswer{got.StatusCode, got.Close, got.Header, string(body)}, err
}

// The service refuses a hostile body with the right error, and uses memory only in proportion to the body's length.
// The test measures the whole process, so no other test runs in parallel.
func TestHostileBodies(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		d := newAPIClient(t, boot(t, url, func(c *app.Config) { c.ReadsPerSecond, c.WritesPerSecond = 0, 0 }))
		bodyAttacks(d)
		d.checkLedgerBalances()
	})
}

// Connections over the limit wait until another one closes.
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
		t.Error("the server answered on a third connection, want two at most")
	}
	testkit.Check(t, second.Close())
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// If two programs could disagree about where a request ends, the service refuses it or closes the connection after
// it. The service never treats the bytes after it as another request.
func TestNothingIsSmuggled(t *testing.T) {
	s := boot(t, dbtest.SQLite(t))
	const post, behind = "POST /sign-in HTTP/1.1\r\nHost: stipend\r\n", "GET /healthz HTTP/1.1\r\nHost: stipend\r\n\r\n"
	for name, c := range map[string]struct {
		status int
		text   string
	}{
		"a length and chunks": {415, post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		"chunks, folded":      {415, post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"},
		"chunks of the old way": {415,
			"POST /sign-in HTTP/1.0\r\nHost: stipend\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
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
			t.Errorf("%s: the bytes after the request got a response, with status %d", name, got.status)
		}
	}
	// The size of a request's head is limited, and so is the time in which it must arrive.
	if got, err := dial(t, s).says("GET /healthz HTTP/1.1\r\nHost: stipend\r\n" +
		strings.Repeat("X-Flood: "+strings.Repeat("a", 55)+"\r\n", 4<<10) + "\r\n"); err == nil && got.status != 431 {
		t.Errorf("too many headers: %d", got.status)
	}
	for _, server := range s.Servers() {
		if most := server.ReadHeaderTimeout; most <= 0 || most > 5*time.Second || server.ReadTimeout <= 0 ||
			server.IdleTimeout <= 0 || server.MaxHeaderBytes > 32<<10 {
			t.Errorf("%s has no limits on its connections: %s %s %s %d", server.Addr, most, server.ReadTimeout,
				server.IdleTimeout, server.MaxHeaderBytes)
		}
	}
}
