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
)

const (
	sendLimit = 15 * time.Second // of one attempt, from connecting to the last byte
	readLimit = 64 << 10         // of an answer's body; what follows is not read
	keepLimit = 4 << 10          // of an answer's body, for the company to see
)

// The classes of failures. They tell an owner what to look at, and a stranger nothing about the network around the service.
const (
	failTimeout    = "timeout"
	failConnection = "connection_failed"
	failName       = "name_not_resolved"
	failTLS        = "tls_failed"
	failBlocked    = "blocked_address"
	failRedirect   = "redirect"
	failStatus     = "http_status"
)

// client sends requests to receivers that nobody here knows.
type client struct {
	limit time.Duration
	https *http.Client
	http  *http.Client // to this machine only, in a sandbox
	wall  func() time.Time
}

func newClient(p Policy, limit time.Duration, wall func() time.Time, roots *tls.Config) *client {
	if limit <= 0 {
		limit = sendLimit
	}
	of := func(plain bool) *http.Client {
		return &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				Proxy:                  nil, // an environment's proxy would connect for us, to anything
				DialContext:            p.dialer(plain).DialContext,
				TLSClientConfig:        roots,
				ForceAttemptHTTP2:      true,
				DisableCompression:     true, // a small answer must stay small
				MaxResponseHeaderBytes: 16 << 10,
				MaxIdleConnsPerHost:    crowd, // many endpoints may be of one host
				MaxIdleConns:           4 * crowd,
				IdleConnTimeout:        30 * time.Second,
			},
		}
	}
	return &client{limit: limit, https: of(false), http: of(true), wall: wall}
}

// answer is how one attempt ended.
type answer struct {
	sentAt     time.Time // by the wall's clock
	took       time.Duration
	status     int    // 0 without an answer
	fail       string // "" for success
	retryAfter time.Duration
	body       string
}

// send makes one attempt. It never takes longer than the limit.
func (c *client) send(ctx context.Context, url, id string, body []byte, secrets []string) (a answer) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	a.sentAt = c.wall()
	defer func() { a.took = c.wall().Sub(a.sentAt) }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		a.fail = failConnection
		return a
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Stipend-Webhooks/1.0")
	Sign(req.Header, id, a.sentAt, body, secrets...)
	through := c.https
	if req.URL.Scheme == "http" {
		through = c.http
	}
	res, err := through.Do(req)
	if err != nil {
		a.fail = classOf(err)
		return a
	}
	defer res.Body.Close()
	a.status, a.retryAfter = res.StatusCode, retryAfter(res.Header.Get("Retry-After"), a.sentAt)
	text, err := io.ReadAll(io.LimitReader(res.Body, readLimit))
	a.body = keep(text)
	switch {
	case err != nil:
		a.fail = classOf(err)
	case a.status >= 300 && a.status < 400:
		a.fail = failRedirect
	case a.status < 200 || a.status >= 300:
		a.fail = failStatus
	}
	return a
}

// keep is the part of an answer that is stored, as text that both databases take.
func keep(text []byte) string {
	text = text[:min(len(text), keepLimit)]
	for i := 0; i < utf8.UTFMax && len(text) > 0 && !utf8.Valid(text); i++ { // a character may have been cut
		if r, size := utf8.DecodeLastRune(text); r != utf8.RuneError || size > 1 {
			break
		}
		text = text[:len(text)-1]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(string(text), "\uFFFD"), "\x00", "\uFFFD")
}

func classOf(err error) string {
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

// longestWait bounds what a receiver may ask for.
const longestWait = 24 * time.Hour

// retryAfter reads the header: seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	wait := time.Duration(0)
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		wait = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return max(0, min(wait, longestWait))
}
