// Package bankhttp calls the JSON APIs of banks.
package bankhttp

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	timeout     = 15 * time.Second
	maxAnswer   = 4 << 20
	maxDocument = 64 << 20
)

// Client calls the API of one bank.
type Client struct {
	Name   string // name of the bank, for errors
	URL    string
	Header http.Header // sent with every request, for authentication
	// Sign adds headers that authenticate a request. Optional.
	Sign func(h http.Header)
}

// Failure is an error response of the bank. Its text omits the bank's message, because that may repeat personal data
// of the request.
type Failure struct {
	Bank   string
	Status int
	Type   string // the bank's name of the error, or ""
}

func (f *Failure) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %d %s", f.Bank, f.Status, f.Type))
}

// Get reads a resource.
func (c Client) Get(ctx context.Context, path string, into any) error {
	return c.call(ctx, http.MethodGet, path, nil, nil, into)
}

// Post creates a resource from a JSON body, with an Idempotency-Key unless key is empty.
func (c Client) Post(ctx context.Context, path, key string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	return c.call(ctx, http.MethodPost, path, header, text, into)
}

// Download reads a JSON document of at most 64 MiB from a URL that the bank returned. It sends no authentication,
// because the URL is signed. The URL must have the same scheme as the URL of the API.
func (c Client) Download(ctx context.Context, at string, into any) error {
	if scheme, _, _ := strings.Cut(c.URL, "://"); !strings.HasPrefix(at, scheme+"://") {
		return fmt.Errorf("%s: the URL of the document does not begin with %s://", c.Name, scheme)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return fmt.Errorf("%s: the URL of the document cannot be read", c.Name) // without the URL, which is secret
	}
	return c.do(r, maxDocument, into)
}

func (c Client) call(ctx context.Context, method, path string, header http.Header, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(c.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header = header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	for name, values := range c.Header {
		r.Header[name] = values
	}
	if c.Sign != nil {
		c.Sign(r.Header)
	}
	return c.do(r, maxAnswer, into)
}

// do sends a request and decodes the response. It reads at most most bytes.
func (c Client) do(r *http.Request, most int64, into any) error {
	answer, err := http.DefaultClient.Do(r) //nolint:gosec // URLs come from settings or from the bank's own API
	if err != nil {
		return fmt.Errorf("%s: cannot reach %s: %w", c.Name, c.URL, errors.Unwrap(err)) // without the path and query
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: cannot read the response: %w", c.Name, err)
	case int64(len(text)) > most:
		return fmt.Errorf("%s: the response is too large", c.Name)
	case answer.StatusCode/100 == 2:
		if err := json.Unmarshal(text, into); err != nil {
			return fmt.Errorf("%s: cannot decode the response: %w", c.Name, err)
		}
		return nil
	}
	return &Failure{c.Name, answer.StatusCode, errorType(text)}
}

// errorType returns the error's name in a response of the bank, or "".
func errorType(text []byte) string {
	var e struct {
		Type   string `json:"type"`
		Code   string `json:"code"`
		Errors []struct {
			Code string `json:"code"`
		} `json:"errors"`
	}
	_ = json.Unmarshal(text, &e) // a response that is not JSON contains no name
	name := e.Type
	if e.Code != "" {
		name = e.Code
	}
	for _, one := range e.Errors {
		if name == "" {
			name = one.Code
		}
	}
	return name
}

// SignedBy reports whether mac is the HMAC-SHA256 of a message under a secret. It returns false for an empty secret.
func SignedBy(secret string, mac []byte, message ...string) bool {
	h := hmac.New(sha256.New, []byte(secret))
	for _, part := range message {
		h.Write([]byte(part))
	}
	return secret != "" && hmac.Equal(h.Sum(nil), mac)
}

// Cut returns the beginning of an ASCII text, at most n characters.
func Cut(text string, n int) string {
	return strings.TrimSpace(text[:min(n, len(text))])
}
