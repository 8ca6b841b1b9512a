// Package apiclient is the small API client of the demo, listen and trigger commands. It sees the service as any other
// client does: through its public API.
package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/google/uuid"
)

// Client calls the API with an API key.
type Client struct{ BaseURL, Key string }

// Get sends a GET request and decodes the answer into a value, unless it is nil.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	return c.Do(ctx, http.MethodGet, path, nil, into)
}

// Post sends a POST request with a JSON body and decodes the answer into a value, unless it is nil.
func (c *Client) Post(ctx context.Context, path string, body, into any) error {
	return c.Do(ctx, http.MethodPost, path, body, into)
}

// Do sends a request. A request with a body has a new Idempotency-Key. Any status but 200 is an error with the code and
// detail of the answer.
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
	req.Header.Set("Authorization", "Basic "+c.Key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", uuid.NewString())
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 32<<20))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		var problem struct{ Code, Detail string }
		if json.Unmarshal(answer, &problem) != nil || problem.Code == "" {
			return fmt.Errorf("%s %s: %s", method, path, res.Status)
		}
		return fmt.Errorf("%s %s: %s: %s", method, path, problem.Code, problem.Detail)
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

// EventHead is the part of an event that all events share.
type EventHead struct {
	Event string `json:"event"`
	ID    string `json:"id"`
}

// EventsAfter returns up to 100 events that follow the event with ID after, oldest first. With an empty ID it starts
// at the oldest event. names filters by event names and prefixes, separated by commas; "" selects all events.
func (c *Client) EventsAfter(ctx context.Context, after, names string) (EventPage, error) {
	var page EventPage
	query := url.Values{"limit": {"100"}}
	if after != "" {
		query.Set("after", after)
	}
	if names != "" {
		query.Set("name", names)
	}
	return page, c.Get(ctx, "/api/events?"+query.Encode(), &page)
}

// NewestEvent returns the ID of the last event, or "" if there is none.
func (c *Client) NewestEvent(ctx context.Context) (string, error) {
	var page EventPage
	if err := c.Get(ctx, "/api/events?order=desc&limit=1", &page); err != nil || len(page.Data) == 0 {
		return "", err
	}
	var head EventHead
	err := json.Unmarshal(page.Data[0], &head)
	return head.ID, err
}
