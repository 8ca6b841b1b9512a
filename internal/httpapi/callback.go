package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/payout/bank"
)

// callbackLimit is the maximum size in bytes of a callback from a provider. A callback names a case or a transfer and
// its state.
const callbackLimit = 64 << 10

// serveCallback returns the handler of callbacks from a provider, which the path names and a signature authenticates.
// The function expects reports whether the provider exists; it is called before the body is read. A repeated callback
// receives the first response and has no further effect, so that the provider stops sending it.
func (s *server) serveCallback(route, name string, expects func(provider string, h http.Header) bool,
	handle func(ctx context.Context, d *db.DB, provider string, h http.Header, body []byte) error,
) func(w *responseWriter, r *http.Request) {
	return func(w *responseWriter, r *http.Request) {
		w.route = route
		if !expects(r.PathValue(name), r.Header) {
			s.refuse(w, errCallback)
			return
		}
		leave, ok := s.Bodies.Acquire(w, r, s.Now, callbackLimit, network(r))
		if !ok {
			s.refuse(w, errRetryLater)
			return
		}
		defer leave()
		body, err := io.ReadAll(http.MaxBytesReader(w.ResponseWriter, r.Body, callbackLimit))
		if err != nil {
			s.refuse(w, errTooLarge)
			return
		}
		switch err := handle(r.Context(), s.DB, r.PathValue(name), r.Header, body); {
		case errors.Is(err, kyc.ErrCallback) || errors.Is(err, bank.ErrCallback):
			s.refuse(w, errCallback)
		case err != nil:
			s.refuse(w, err)
		default:
			send(w, http.StatusOK, []byte(`{"success":true}`))
		}
	}
}
