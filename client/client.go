// Package client speaks the interface of Stipend, version 2.0.
//
// The operations are methods of [Client], made from the contract that stands beside them (openapi.json). Around them is a thin
// layer that does for each of them alike what a careful caller would: it sends the credential, gives every write an
// idempotency key, and repeats what the service asks to be repeated. Amounts are decimals, never floats.
//
// An error of the service is a [Problem]; [AsProblem] finds it in an error.
package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Credential is what a client signs its requests with.
type Credential struct{ header string }

// APIKey acts for the company that the key belongs to.
func APIKey(key string) Credential { return Credential{"Basic " + key} }

// AccessToken acts for the user who allowed it.
func AccessToken(token string) Credential { return Credential{"Bearer " + token} }

// Setting changes how a client sends.
type Setting func(*sender)

// WithHTTPClient sends through another HTTP client than [http.DefaultClient].
func WithHTTPClient(c *http.Client) Setting { return func(s *sender) { s.http = c } }

// WithAttempts sends a request at most n times; 1 never repeats. The default is 4.
func WithAttempts(n int) Setting { return func(s *sender) { s.attempts = n } }

// New makes a client of the service at a base URL, such as http://127.0.0.1:8080.
func New(baseURL string, credential Credential, settings ...Setting) (*Client, error) {
	s := &sender{http: http.DefaultClient, credential: credential.header, attempts: 4, wait: wait}
	for _, set := range settings {
		set(s)
	}
	return NewClient(baseURL, WithClient(s))
}

type keyOf struct{}

// WithIdempotencyKey gives the write that is made with the context a key of yours: 1 to 255 visible ASCII characters. Keep the
// key of a payment until you know its outcome, also across restarts: the same key never pays twice. Without one, each call
// has a fresh key, which covers the repeats that the client makes itself.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyOf{}, key)
}

// AsProblem finds what the service answered in an error of a call, and with which HTTP status.
func AsProblem(err error) (p *Problem, status int, ok bool) {
	var answered *ProblemStatusCode
	if !errors.As(err, &answered) {
		return nil, 0, false
	}
	return &answered.Response, answered.StatusCode, true
}

// sender is the HTTP client under the operations.
type sender struct {
	http       *http.Client
	credential string
	attempts   int
	wait       func(context.Context, time.Duration) error
}

// Do sends a request, and again as long as it makes sense: the connection broke or the service asks for it (429, 503, and 409
// while a twin runs, all with Retry-After). A write carries a key, so that a repeat of one that was done has no effect.
func (s *sender) Do(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", s.credential)
	r.Header.Set("Api-Version", "2.0")
	if r.Method != http.MethodGet {
		key, _ := r.Context().Value(keyOf{}).(string)
		if key == "" {
			key = uuid.NewString()
		}
		r.Header.Set("Idempotency-Key", key)
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
	}
	for attempt := 1; ; attempt++ {
		if body != nil {
			r.Body = io.NopCloser(bytes.NewReader(body))
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
			r.ContentLength = int64(len(body))
		}
		res, err := s.http.Do(r)
		pause, again := repeat(res, err, attempt)
		if !again || attempt >= s.attempts || r.Context().Err() != nil {
			return res, err
		}
		if res != nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection can be used again
			_ = res.Body.Close()
		}
		if err := s.wait(r.Context(), pause); err != nil {
			return nil, err
		}
	}
}

// longestPause is the most that one answer can make a caller wait.
const longestPause = 30 * time.Second

// repeat says whether a request should be sent again, and after which pause.
func repeat(res *http.Response, err error, attempt int) (time.Duration, bool) {
	pause := 100 * time.Millisecond << attempt
	if err != nil {
		return pause, true
	}
	after := res.Header.Get("Retry-After")
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
	case http.StatusConflict:
		if after == "" { // an answer for good
			return 0, false
		}
	default:
		return 0, false
	}
	if seconds, err := strconv.Atoi(after); err == nil && seconds >= 0 {
		pause = time.Duration(min(seconds, int(longestPause/time.Second))) * time.Second
	}
	return pause, true
}

func wait(ctx context.Context, pause time.Duration) error {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
