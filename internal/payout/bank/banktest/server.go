package banktest

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/payout/payouttest"
)

// Server is a local server that simulates a bank. It handles one request at a time. The mutex protects the handler's
// data.
type Server struct {
	*httptest.Server
	sync.Mutex
	Connection payouttest.Connection
}

// Serve starts a server for the duration of a test.
func Serve(t *testing.T, handle http.HandlerFunc) *Server {
	t.Helper()
	s := &Server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Lock()
		defer s.Unlock()
		answer := httptest.NewRecorder()
		if s.Connection.Send(func() error { handle(answer, r); return nil }) != nil {
			panic(http.ErrAbortHandler) // closes the connection without a response
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(s.Close)
	return s
}

// Between runs f while no request is handled.
func (s *Server) Between(f func()) {
	s.Lock()
	defer s.Unlock()
	f()
}

// Connect sets the state of the connection.
func (s *Server) Connect(c payouttest.Connection) { s.Between(func() { s.Connection = c }) }
