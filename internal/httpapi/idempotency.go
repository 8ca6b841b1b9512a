package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// An idempotencyKey identifies a write: the account that sent the request, its route, and the value of its
// Idempotency-Key header.
type idempotencyKey struct {
	account, route, value string
}

// A keyedWrite is a write with an idempotency key and the fingerprint of its request.
type keyedWrite struct {
	idempotencyKey
	fingerprint string
}

// KeyLife is how long an idempotency key and its response are stored.
const KeyLife = 30 * 24 * time.Hour

// keyHeader returns the value of the request's Idempotency-Key header, or "" if the header is missing.
func keyHeader(h http.Header) (string, error) {
	values := h["Idempotency-Key"]
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", errDuplicate.At("header", "Idempotency-Key")
	case !visible(values[0], 255):
		return "", errKeyInvalid.At("header", "Idempotency-Key")
	}
	return values[0], nil
}

// keyAccount returns the account to which a principal's idempotency keys belong. All credentials of an app share its
// keys, so the keys remain valid when a credential is rotated.
func keyAccount(by identity.Principal) string {
	app := by.AppID
	if app == "" {
		app = by.ID
	}
	return by.CompanyID + "/" + app + "/" + by.UserID
}

// fingerprint returns a digest that is equal for requests with equal values in the path and the body. The order of
// members, whitespace, the notation of numbers and null members make no difference.
func fingerprint(r *http.Request, in *input, body []byte) string {
	h := sha256.New()
	for _, p := range in.params {
		if p.in == "path" {
			fmt.Fprintf(h, "%q\n", r.PathValue(p.name))
		}
	}
	if in.body >= 0 && body != nil {
		sorted := jsontext.Value(slices.Clone(body))
		_ = sorted.Format(jsontext.ReorderRawObjects(true)) // cannot fail: the body was decoded without a syntax error
		writeCanonical(h, sorted)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// writeCanonical writes the tokens of a valid JSON text, one per line, omitting null members.
func writeCanonical(w io.Writer, text []byte) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		parent, members := d.StackIndex(d.StackDepth())
		token, err := d.ReadToken()
		if err != nil { // the text has ended
			return
		}
		line := token.String()
		switch token.Kind() {
		case '"':
			line = strconv.Quote(line)
			if parent == '{' && members%2 == 0 && d.PeekKind() == 'n' {
				_ = d.SkipValue() // never fails: the text is valid
				continue
			}
		case '0':
			line = canonicalNumber(line)
		}
		fmt.Fprintln(w, line)
	}
}

// canonicalNumber returns a JSON number as its digits, without leading and trailing zeros, and the exponent of the
// last digit. It returns 1e1 for 10, 10.00 and 1e1.
func canonicalNumber(text string) string {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	shift, err := strconv.Atoi(cmp.Or(exponent, "0"))
	if err != nil {
		return text
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	significant := strings.TrimRight(digits, "0")
	switch shift += len(digits) - len(significant) - len(fraction); {
	case significant == "":
		return "0"
	case negative:
		return "-" + significant + "e" + strconv.Itoa(shift)
	}
	return significant + "e" + strconv.Itoa(shift)
}

// sentDigest returns a digest of a request exactly as it was sent, including its key and account.
func sentDigest(key idempotencyKey, r *http.Request, body []byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %t\n", key.account, key.route, key.value, r.URL.RequestURI(), body != nil)
	h.Write(body)
	h.Sum(sum[:0])
	return sum
}

// answered remembers the fingerprints of successful requests by their sentDigest. An identical request need not be
// decoded again: it is valid, and its account has access.
type answered struct {
	mu           sync.Mutex
	fingerprints map[[sha256.Size]byte]string
}

const mostAnswered = 10_000

func (a *answered) fingerprint(sent [sha256.Size]byte) (string, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f, ok := a.fingerprints[sent]
	return f, ok
}

func (a *answered) add(sent [sha256.Size]byte, fingerprint string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fingerprints == nil || len(a.fingerprints) >= mostAnswered {
		a.fingerprints = map[[sha256.Size]byte]string{}
	}
	a.fingerprints[sent] = fingerprint
}

// errNotStored means that no response is stored for a key.
var errNotStored = errors.New("httpapi: no response is stored")

// once runs a write at most once per key. The second result reports whether the response is that of an earlier
// request. The response is stored in the transaction of the write, so a failed write leaves the key unused. If run is
// nil, once returns the stored response or errNotStored.
//
// Concurrent requests with the same key run one at a time within a process. After a request succeeds, the requests
// that waited for it receive its response from memory. For requests in different processes, the primary key of the
// stored response permits only one to commit.
func (s *server) once(
	ctx context.Context, key idempotencyKey, fingerprint string, h handler,
	run func(context.Context, *db.Tx) ([]byte, error), prefetch []db.Prefetch,
) (response []byte, replayed bool, err error) {
	earlier, finish, err := s.inflight.start(ctx, key, s.duplicateWait)
	switch {
	case err != nil:
		return nil, false, err
	case earlier != nil && earlier.fingerprint != fingerprint:
		return nil, false, errKeyReused
	case earlier != nil:
		return h.repeated(earlier.body), true, nil
	}
	var result *storedResponse // nil if the write fails
	defer func() { finish(result) }()
	var body string
	err = s.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		stored, found, err := findResponse(ctx, tx, key)
		if err != nil {
			return err
		}
		if replayed = found; !found && run == nil {
			return nil // errNotStored is returned later, to avoid a rollback of the functions that share the transaction
		}
		if !found {
			return s.runAndStore(ctx, tx, key, fingerprint, h, run, &body)
		}
		if stored.fingerprint != fingerprint {
			return errKeyReused
		}
		if body = stored.body; body == "" {
			return errErasedResponse
		}
		if h.secret {
			opened, err := s.Sealer.Open(key.sealPlace(), body)
			body = string(opened)
			return err
		}
		return nil
	}, append(prefetch, storedResponses.Prefetch(key))...)
	if err == nil && !replayed && run == nil {
		err = errNotStored
	}
	if err != nil {
		return nil, false, err
	}
	result = &storedResponse{fingerprint: fingerprint, body: body}
	if replayed {
		return h.repeated(body), true, nil
	}
	return []byte(body), false, nil
}

// runAndStore runs a write and stores its response, encrypted if it contains a secret.
func (s *server) runAndStore(
	ctx context.Context, tx *db.Tx, key idempotencyKey, fingerprint string, h handler,
	run func(context.Context, *db.Tx) ([]byte, error), body *string,
) error {
	made, err := run(ctx, tx)
	if err != nil {
		return err
	}
	*body = string(made)
	stored := *body
	if h.secret {
		if stored, err = s.Sealer.Seal(key.sealPlace(), made); err != nil {
			return err
		}
	}
	storeResponse(tx, key, fingerprint, stored)
	return nil
}

// repeated returns the response to a repeated request, made from the stored response.
func (h handler) repeated(body string) []byte {
	if h.adaptStored != nil {
		body = h.adaptStored(body)
	}
	return []byte(body)
}

// sealPlace returns the context that binds an encrypted response to its row.
func (k idempotencyKey) sealPlace() identity.SealContext {
	return identity.SealContext{Table: "idempotency", Column: "response", Row: k.account + " " + k.route + " " + k.value}
}

// inflight serializes the requests of this process that have the same idempotency key.
type inflight struct {
	mu      sync.Mutex
	running map[idempotencyKey]*execution
}

// execution is a running request. Its result is set before done is closed, and is nil if the request failed.
type execution struct {
	done   chan struct{}
	result *storedResponse
}

// start waits, for at most wait, until no other request with the key is running. If a request that it waited for
// succeeded, start returns that request's response. Otherwise the caller must run its own request and then call
// finish with the response, or with nil if the request failed.
func (f *inflight) start(ctx context.Context, key idempotencyKey, wait time.Duration) (
	earlier *storedResponse, finish func(*storedResponse), err error,
) {
	var timeout <-chan time.Time
	for {
		f.mu.Lock()
		e, busy := f.running[key]
		if !busy {
			e = &execution{done: make(chan struct{})}
			f.running[key] = e
			f.mu.Unlock()
			return nil, func(result *storedResponse) {
				e.result = result
				f.mu.Lock()
				delete(f.running, key)
				f.mu.Unlock()
				close(e.done)
			}, nil
		}
		f.mu.Unlock()
		if timeout == nil {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-e.done:
			if e.result != nil {
				return e.result, nil, nil
			}
		case <-timeout:
			return nil, nil, errInProgress
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// duplicateWait is how long a request waits for a running request with the same key.
const duplicateWait = 10 * time.Second
