package bank

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stipend/stipend/internal/db"
)

// Callback authenticates the webhooks of one bank with an API.
type Callback struct {
	Header string // name of the header with the signature
	// Transfer returns the ID of the transfer that a webhook is about, or "" if the webhook is about something else. It
	// returns ErrCallback for a webhook that is forged, altered or too old.
	Transfer func(h http.Header, body []byte, now time.Time) (string, error)
}

// Callbacks maps the format of a bank's accounts, such as "increase", to the [Callback] that authenticates the bank's
// webhooks. Webhooks of banks that it lacks are refused.
type Callbacks map[string]Callback

// ErrCallback is returned for a webhook that cannot be authenticated.
var ErrCallback = errors.New("bank: not a webhook of the bank")

// Expects reports whether a request with these headers may be a webhook of a bank. Call it before reading the body.
func (c Callbacks) Expects(bank string, h http.Header) bool {
	of := c[bank]
	return of.Transfer != nil && h.Get(of.Header) != ""
}

// Handle authenticates a webhook of a bank, or returns ErrCallback. It does not trust the webhook's content: it only
// makes the next check of the transfer due at once, so that a worker process asks the bank. A repeated webhook causes
// at most one more check.
func (c Callbacks) Handle(ctx context.Context, d *db.DB, bank string, h http.Header, body []byte) error {
	if !c.Expects(bank, h) {
		return ErrCallback
	}
	now, err := d.Now(ctx)
	if err != nil {
		return err
	}
	id, err := c[bank].Transfer(h, body, now)
	if err != nil || id == "" {
		return err
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return checkSoon(ctx, tx, id) })
}
