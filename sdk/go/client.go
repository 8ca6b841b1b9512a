// Package stipend is the Go client of the Stipend API, version 2.0.
//
// A [Client] has one service per resource:
//
//	client := stipend.New("https://api.example.com", stipend.APIKey(key))
//	payroll, err := client.Payrolls.Create(ctx, &stipend.PayrollCreateParams{
//		Currency: "USD",
//		ToPay:    []stipend.ToPayItem{{UserID: "usr_…", AmountFiat: "1250.50"}},
//	}, stipend.WithIdempotencyKey("run-2026-09"))
//
// Every write carries an Idempotency-Key, a random one unless the caller supplies one. The client therefore retries
// safely: after a broken connection, a 429 or a 503, and after a 409 with Retry-After. An error of the API is an
// [*Error]. Methods named All… iterate over the pages of a list. Amounts are of type [Decimal], which keeps every
// digit.
//
// [VerifyWebhook] checks and parses a webhook delivery.
package stipend

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	apiVersion      = "2.0"
	defaultAttempts = 4
	maxPause        = 30 * time.Second
	maxResponse     = 64 << 20
)

// Credential authenticates requests.
type Credential struct {
	header func(context.Context) (string, error)
}

func fixed(header string) Credential {
	return Credential{func(context.Context) (string, error) { return header, nil }}
}

// APIKey returns the credential of a company's API key.
func APIKey(key string) Credential { return fixed("Basic " + key) }

// AccessToken returns the credential of an OAuth access token.
func AccessToken(token string) Credential { return fixed("Bearer " + token) }

// AccessTokenFrom returns a credential of access tokens that end: token returns a valid one before each attempt of a
// request, and can be called concurrently.
func AccessTokenFrom(token func(context.Context) (string, error)) Credential {
	return Credential{func(ctx context.Context) (string, error) {
		text, err := token(ctx)
		return "Bearer " + text, err
	}}
}

// Option configures a Client.
type Option func(*transport)

// WithHTTPClient sends requests through c instead of [http.DefaultClient].
func WithHTTPClient(c *http.Client) Option { return func(t *transport) { t.http = c } }

// WithMaxAttempts limits how often a request is sent, retries included. 1 disables retries. The default is 4.
func WithMaxAttempts(n int) Option { return func(t *transport) { t.attempts = n } }

// RequestOption configures one request.
type RequestOption func(*http.Request)

// WithIdempotencyKey sets the Idempotency-Key of a write: 1 to 255 visible ASCII characters. Store the key of a payment
// and reuse it until the outcome is known, also after a restart: requests with the same key never pay twice.
func WithIdempotencyKey(key string) RequestOption {
	return func(r *http.Request) { r.Header.Set("Idempotency-Key", key) }
}

// New returns a client of the service at baseURL, for example http://127.0.0.1:8080.
func New(baseURL string, credential Credential, options ...Option) *Client {
	t := &transport{
		http: http.DefaultClient, base: strings.TrimRight(baseURL, "/"),
		credential: credential, attempts: defaultAttempts, wait: wait,
	}
	for _, option := range options {
		option(t)
	}
	return newClient(t)
}

// Error is an error response of the API (RFC 9457 problem details).
type Error struct {
	Type      string    `json:"type"`   // URL of the page that explains Code
	Title     string    `json:"title"`  // short summary of Code
	Status    int       `json:"status"` // HTTP status
	Code      ErrorCode `json:"code"`
	Detail    string    `json:"detail"`     // what went wrong, for people
	RequestID string    `json:"request_id"` // identifies the request in the service's log

	// Errors lists every problem of the request; Code and Detail repeat the first.
	Errors []FieldError `json:"errors"`

	// Missing lists the missing fields and documents, with profile_incomplete and documents_incomplete.
	Missing []string `json:"missing"`

	// Hints holds further members, such as payroll_id with external_id_conflict.
	Hints map[string]string `json:"-"`

	// RetryAfter is the pause requested by the service, or 0.
	RetryAfter time.Duration `json:"-"`
}

// ErrorCode is the machine-readable reason of an Error.
type ErrorCode string

// FieldError is one problem of a request.
type FieldError struct {
	Code    ErrorCode `json:"code"`
	In      string    `json:"in"`      // body, query, path or header
	Pointer string    `json:"pointer"` // JSON pointer into the body, or the parameter's name
	Message string    `json:"message"`
}

// Error returns the detail with the status, the code, the places of the problems and the request ID.
func (e *Error) Error() string {
	var places []string
	for _, f := range e.Errors {
		if f.Pointer != "" {
			places = append(places, f.Pointer)
		}
	}
	at := ""
	if len(places) > 0 {
		at = " at " + strings.Join(places, ", ")
	}
	return fmt.Sprintf("stipend: %s (%d %s%s, request %s)", e.Detail, e.Status, e.Code, at, e.RequestID)
}

// HasCode reports whether err is an [*Error] with the given code.
func HasCode(err error, code ErrorCode) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// transport sends requests for all services.
type transport struct {
	http       *http.Client
	base       string
	credential Credential
	attempts   int
	wait       func(context.Context, time.Duration) error
}

// request is one call of the API.
type request struct {
	method  string
	path    string
	query   url.Values
	body    any // encoded as JSON; nil sends no body
	options []RequestOption
}

// call sends r and decodes the response.
func call[Result any](ctx context.Context, t *transport, r request) (*Result, error) {
	data, err := t.send(ctx, r)
	if err != nil {
		return nil, err
	}
	result := new(Result)
	if err := json.Unmarshal(data, result); err != nil {
		return nil, fmt.Errorf("stipend: decode the response: %w", err)
	}
	return result, nil
}

// send returns the body of r's response. It retries r while that is safe and useful.
func (t *transport) send(ctx context.Context, r request) ([]byte, error) {
	var body []byte
	if r.body != nil {
		var err error
		if body, err = json.Marshal(r.body); err != nil {
			return nil, fmt.Errorf("stipend: encode the request: %w", err)
		}
		if string(body) == "null" { // nil parameters
			body = []byte("{}")
		}
	}
	target := t.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, r.method, target, nil)
	if err != nil {
		return nil, fmt.Errorf("stipend: %w", err)
	}
	request.Header.Set("Api-Version", apiVersion)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if r.method != http.MethodGet {
		request.Header.Set("Idempotency-Key", rand.Text())
	}
	for _, option := range r.options {
		option(request)
	}
	for attempt := 1; ; attempt++ {
		authorization, err := t.credential.header(ctx)
		if err != nil {
			return nil, fmt.Errorf("stipend: get an access token: %w", err)
		}
		request.Header.Set("Authorization", authorization)
		if body != nil {
			request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
			request.Body, _ = request.GetBody()
			request.ContentLength = int64(len(body))
		}
		status, header, data, err := t.attempt(request)
		if err == nil && status/100 == 2 {
			return data, nil
		}
		if err == nil {
			err = parseError(status, header, data)
		}
		pause, retry := retryAfter(status, header, attempt)
		if !retry || attempt >= t.attempts || ctx.Err() != nil {
			return nil, err
		}
		if waitErr := t.wait(ctx, pause); waitErr != nil {
			return nil, waitErr
		}
	}
}

// attempt sends a request once.
func (t *transport) attempt(r *http.Request) (int, http.Header, []byte, error) {
	response, err := t.http.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	if err == nil && len(data) > maxResponse {
		err = errors.New("stipend: the response is too large")
	}
	if err != nil {
		return 0, nil, nil, err
	}
	return response.StatusCode, response.Header, data, nil
}

func parseError(status int, header http.Header, data []byte) error {
	e := &Error{}
	if err := json.Unmarshal(data, e); err != nil || e.Code == "" {
		// The response is not from the service: for example, it is from a proxy.
		e = &Error{Title: http.StatusText(status), Code: "unexpected_response", Detail: "unexpected response"}
	}
	e.Status = status
	e.RetryAfter, _ = parseRetryAfter(header)
	if e.RequestID == "" {
		e.RequestID = header.Get("X-Request-Id")
	}
	members := map[string]any{}
	if json.Unmarshal(data, &members) == nil {
		for _, known := range []string{"type", "title", "status", "code", "detail", "request_id", "errors"} {
			delete(members, known)
		}
		for name, value := range members {
			if text, ok := value.(string); ok {
				if e.Hints == nil {
					e.Hints = map[string]string{}
				}
				e.Hints[name] = text
			}
		}
	}
	return e
}

// retryAfter reports whether a failed attempt is worth repeating, and the pause before. Status 0 means no response.
func retryAfter(status int, header http.Header, attempt int) (time.Duration, bool) {
	requested, ok := parseRetryAfter(header)
	switch status {
	case 0, http.StatusTooManyRequests, http.StatusServiceUnavailable:
	case http.StatusConflict:
		if !ok { // final: only a conflict with a running request has Retry-After
			return 0, false
		}
	default:
		return 0, false
	}
	if ok {
		return min(requested, maxPause), true
	}
	return 100 * time.Millisecond << attempt, true
}

func parseRetryAfter(header http.Header) (time.Duration, bool) {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0, false
	}
	return time.Duration(seconds) * time.Second, true
}

func wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
