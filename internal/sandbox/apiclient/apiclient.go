// Package apiclient is a small API client for the commands of this program. It uses only the public API, as other
// clients do.
package apiclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/google/uuid"
)

// Client calls the API.
type Client struct {
	BaseURL string
	Key     string // API key or access token
	// Connections selects the events of the companies that are connected to the credential's app, instead of those of
	// the app's own company.
	Connections bool
	// Credential, if not nil, is called for each request to get the API key or access token, instead of Key.
	Credential func(context.Context) (string, error)
}

// Authorization returns the Authorization header for the client's API key or access token.
func (c *Client) Authorization(ctx context.Context) (string, error) {
	credential := c.Key
	if c.Credential != nil {
		var err error
		if credential, err = c.Credential(ctx); err != nil {
			return "", err
		}
	}
	if strings.Contains(credential, "_key_") {
		return "Basic " + credential, nil
	}
	return "Bearer " + credential, nil
}

// Get sends a GET request and decodes the response into a value, unless into is nil.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	return c.Do(ctx, http.MethodGet, path, nil, into)
}

// Post sends a POST request with a JSON body and decodes the response into a value, unless into is nil.
func (c *Client) Post(ctx context.Context, path string, body, into any) error {
	return c.Do(ctx, http.MethodPost, path, body, into)
}

// keyContext is the context key of an Idempotency-Key.
type keyContext struct{}

// WithIdempotencyKey returns a context that sets the Idempotency-Key of requests.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyContext{}, key)
}

// Do sends a request. If the request has a body and the context has no Idempotency-Key, it generates one. For any
// status other than 200, it returns an error with the code and the problems in the response.
func (c *Client) Do(ctx context.Context, method, path string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.BaseURL+path, reader)
	if err != nil {
		return err
	}
	authorization, err := c.Authorization(ctx)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", authorization)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		key, _ := ctx.Value(keyContext{}).(string)
		req.Header.Set("Idempotency-Key", cmp.Or(key, uuid.NewString()))
	}
	res, err := http.DefaultClient.Do(req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nothing listens at %s: start the service, or name its address with --url or STIPEND_URL: %w",
			c.BaseURL, err)
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 32<<20))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		var problem struct {
			Code, Detail string
			Errors       []struct{ Pointer, Message string }
		}
		if json.Unmarshal(answer, &problem) != nil || problem.Code == "" {
			return fmt.Errorf("%s %s: %s", method, path, res.Status)
		}
		text := fmt.Sprintf("%s %s: %s: %s", method, path, problem.Code, problem.Detail)
		for _, e := range problem.Errors {
			text += "\n  " + strings.TrimSpace(e.Pointer+" "+e.Message)
		}
		return errors.New(text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

// EventPage is a page of GET /api/events.
type EventPage struct {
	Data []json.RawMessage `json:"data"`
}

// EventHead contains the members that all events have.
type EventHead struct {
	Event string `json:"event"`
	ID    string `json:"id"`
}

// EventsAfter returns up to 100 events that follow the event with the ID after, oldest first. If after is empty, it
// starts at the oldest event. names contains names and prefixes of events, separated by commas; "" selects all
// events.
func (c *Client) EventsAfter(ctx context.Context, after, names string) (EventPage, error) {
	var page EventPage
	query := url.Values{"limit": {"100"}}
	if after != "" {
		query.Set("after", after)
	}
	if names != "" {
		query.Set("name", names)
	}
	return page, c.Get(ctx, c.eventsPath(query), &page)
}

// eventsPath returns the path of the list of events that the client selects.
func (c *Client) eventsPath(query url.Values) string {
	if c.Connections {
		query.Set("source", "connections")
	}
	return "/api/events?" + query.Encode()
}

// NewestEvent returns the ID of the newest event, or "" if there is none.
func (c *Client) NewestEvent(ctx context.Context) (string, error) {
	var page EventPage
	query := url.Values{"order": {"desc"}, "limit": {"1"}}
	if err := c.Get(ctx, c.eventsPath(query), &page); err != nil || len(page.Data) == 0 {
		return "", err
	}
	var head EventHead
	err := json.Unmarshal(page.Data[0], &head)
	return head.ID, err
}
