package delivery

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/propagation"
)

const (
	sendTimeout  = 15 * time.Second // time limit of an attempt, from connecting to the last byte
	maxRead      = 64 << 10         // bytes of a response body that are read at most
	maxStored    = 4 << 10          // bytes of a response body that are stored at most, for the company to read
	maxRetryWait = 24 * time.Hour   // longest pause that a receiver can request with Retry-After
)

// Classes of failures. They help the company find the cause without revealing anything about the service's network.
const (
	failTimeout    = "timeout"
	failConnection = "connection_failed"
	failName       = "name_not_resolved"
	failTLS        = "tls_failed"
	failBlocked    = "blocked_address"
	failRedirect   = "redirect"
	failStatus     = "http_status"
)

// client sends requests to receivers, which it does not trust.
type client struct {
	limit time.Duration
	https *http.Client
	http  *http.Client // for http URLs, which a sandbox permits for this machine
	wall  func() time.Time
}

func newClient(
	p Policy, limit time.Duration, wall func() time.Time, roots *tls.Config, transport http.RoundTripper,
) *client {
	if limit <= 0 {
		limit = sendTimeout
	}
	noRedirects := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	of := func(plain bool) *http.Client {
		if transport != nil {
			return &http.Client{CheckRedirect: noRedirects, Transport: transport}
		}
		return &http.Client{
			CheckRedirect: noRedirects,
			Transport: &http.Transport{
				Proxy:                  nil, // a proxy set by the environment would bypass the policy
				DialContext:            p.dialer(plain).DialContext,
				TLSClientConfig:        roots,
				ForceAttemptHTTP2:      true,
				DisableCompression:     true, // a small compressed response could decompress to a large one
				MaxResponseHeaderBytes: 16 << 10,
				MaxIdleConnsPerHost:    busyRequests, // one host may serve many endpoints
				MaxIdleConns:           4 * busyRequests,
				IdleConnTimeout:        30 * time.Second,
			},
		}
	}
	return &client{limit: limit, https: of(false), http: of(true), wall: wall}
}

// Client returns an HTTP client for servers that are not trusted. It connects only to addresses that the policy
// permits, uses TLS except for http URLs of this machine if the policy permits those, and does not follow redirects.
// Each request takes at most limit. roots is nil except in tests.
func (p Policy) Client(limit time.Duration, roots *tls.Config) *http.Client {
	all := newClient(p, limit, time.Now, roots, nil)
	c := all.https
	c.Timeout = limit
	if p.Loopback {
		c.Transport = byScheme{https: c.Transport, http: all.http.Transport}
	}
	return c
}

// byScheme sends each request with the transport for its URL's scheme.
type byScheme struct{ https, http http.RoundTripper }

func (b byScheme) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "http" {
		return b.http.RoundTrip(r)
	}
	return b.https.RoundTrip(r)
}

// response is the result of an attempt.
type response struct {
	sentAt     time.Time // real time of the request
	took       time.Duration
	status     int    // HTTP status; 0 without a response
	failure    string // class of the failure; "" for success
	retryAfter time.Duration
	body       string
}

// send makes one attempt, which takes no longer than the client's limit.
func (c *client) send(ctx context.Context, url, id string, body []byte, secrets []string) (r response) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	r.sentAt = c.wall()
	defer func() { r.took = c.wall().Sub(r.sentAt) }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		r.failure = failConnection
		return r
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Stipend-Webhooks/1.0")
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header))
	Sign(req.Header, id, r.sentAt, body, secrets...)
	client := c.https
	if req.URL.Scheme == "http" {
		client = c.http
	}
	res, err := client.Do(req)
	if err != nil {
		r.failure = failureClass(err)
		return r
	}
	defer res.Body.Close()
	r.status, r.retryAfter = res.StatusCode, retryAfter(res.Header.Get("Retry-After"), r.sentAt)
	text, err := io.ReadAll(io.LimitReader(res.Body, maxRead))
	r.body = storable(text)
	switch {
	case err != nil:
		r.failure = failureClass(err)
	case r.status >= 300 && r.status < 400:
		r.failure = failRedirect
	case r.status < 200 || r.status >= 300:
		r.failure = failStatus
	}
	return r
}

// storable returns the part of a response body to store, converted to text that both databases accept.
func storable(text []byte) string {
	text = text[:min(len(text), maxStored)]
	for i := 0; i < utf8.UTFMax && len(text) > 0 && !utf8.Valid(text); i++ { // the limit may have cut a character in half
		if r, size := utf8.DecodeLastRune(text); r != utf8.RuneError || size > 1 {
			break
		}
		text = text[:len(text)-1]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(string(text), "\uFFFD"), "\x00", "\uFFFD")
}

// failureClass returns the class of a failed request.
func failureClass(err error) string {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var timeout net.Error
	switch {
	case errors.Is(err, errBlocked):
		return failBlocked
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return failTimeout
	case errors.As(err, &name):
		return failName
	case errors.As(err, &certificate), errors.As(err, &record), errors.As(err, &alert):
		return failTLS
	}
	return failConnection
}

// retryAfter parses the value of a Retry-After header, which is a number of seconds or a date.
func retryAfter(text string, now time.Time) time.Duration {
	wait := time.Duration(0)
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		wait = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return max(0, min(wait, maxRetryWait))
}
