package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// Client is how a command finds the sandbox that it works with.
type Client struct {
	BaseURL string `name:"base-url" default:"http://127.0.0.1:8080" env:"STIPEND_BASE_URL" placeholder:"URL" help:"Sandbox to use (${default})."`
	APIKey  string `name:"api-key" env:"STIPEND_API_KEY" placeholder:"KEY" help:"API key of a company there. Default: that of the seeded company."`
}

func (c Client) open() *demoClient {
	key := c.APIKey
	if key == "" {
		key = sandboxSeed().APIKey
	}
	return &demoClient{base: strings.TrimRight(c.BaseURL, "/"), key: key}
}

// eventPage is an answer of GET /api/events.
type eventPage struct {
	Data []json.RawMessage `json:"data"`
}

type eventHead struct {
	Event string `json:"event"`
	ID    string `json:"id"`
}

// eventsAfter reads events behind one that was seen; "" reads from the oldest.
func (c *demoClient) eventsAfter(ctx context.Context, after, names string) (eventPage, error) {
	var page eventPage
	query := url.Values{"limit": {"100"}}
	if after != "" {
		query.Set("after", after)
	}
	if names != "" {
		query.Set("name", names)
	}
	return page, c.get(ctx, "/api/events?"+query.Encode(), &page)
}

// newestEvent is the id of the last event, "" before the first.
func (c *demoClient) newestEvent(ctx context.Context) (string, error) {
	var page eventPage
	if err := c.get(ctx, "/api/events?order=desc&limit=1", &page); err != nil || len(page.Data) == 0 {
		return "", err
	}
	var head eventHead
	err := json.Unmarshal(page.Data[0], &head)
	return head.ID, err
}

// ListenCmd brings a sandbox's events to a developer's machine, which no service could reach.
type ListenCmd struct {
	Client
	ForwardTo string `required:"" placeholder:"URL" help:"Where to send the events, such as http://localhost:3000/hooks."`
	Events    string `placeholder:"NAMES" help:"Names and prefixes, separated by commas: payroll.*,user.kyc_status_update. Default: all."`
	Secret    string `env:"STIPEND_WEBHOOK_SECRET" placeholder:"SECRET" help:"Sign with this whsec_… secret. Default: a new one, which is printed."`
}

// Help is the long form of the help.
func (ListenCmd) Help() string {
	return `Forwards events as they happen, signed like a real delivery, until it is stopped. It goes on when the service restarts.
Each event is sent once; what your program answers is printed. In another terminal: stipend trigger payroll.created`
}

const (
	listenEvery = 300 * time.Millisecond
	listenRetry = 2 * time.Second // while the service does not answer
)

// Run forwards until ctx ends.
func (cmd ListenCmd) Run(ctx context.Context, std Streams) error {
	target, err := url.Parse(cmd.ForwardTo)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return errors.New("--forward-to is an http:// or https:// address")
	}
	api, secret := cmd.open(), cmd.Secret
	if secret == "" {
		secret = delivery.NewSecret()
	}
	after, err := api.newestEvent(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.Out, "Forwarding events to %s\nSigning secret: %s\n", cmd.ForwardTo, secret)
	client := &http.Client{Timeout: 15 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	tick := time.NewTimer(0)
	defer tick.Stop()
	lost := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		page, err := api.eventsAfter(ctx, after, cmd.Events)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if !lost {
				fmt.Fprintf(std.Err, "The service does not answer: %v\n", err)
			}
			lost = true
			tick.Reset(listenRetry)
			continue
		case lost:
			lost = false
			fmt.Fprintln(std.Err, "The service answers again.")
		}
		for _, body := range page.Data {
			var head eventHead
			if err := json.Unmarshal(body, &head); err != nil {
				return fmt.Errorf("an event that cannot be read: %w", err)
			}
			fmt.Fprintf(std.Out, "%s %s → %s\n", head.Event, head.ID, forward(ctx, client, cmd.ForwardTo, head.ID, body, secret))
			after = head.ID
		}
		tick.Reset(listenEvery)
	}
}

// forward sends one event and says in a word how it went.
func forward(ctx context.Context, client *http.Client, to, id string, body []byte, secret string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	delivery.Sign(req.Header, id, time.Now(), body, secret)
	res, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	return res.Status
}

// TriggerCmd makes an event happen.
type TriggerCmd struct {
	Client
	Event   string        `arg:"" optional:"" help:"Name of the event. Without one, lists those that can be made."`
	Timeout time.Duration `default:"1m" help:"Give up after this long (${default})."`
}

// Help is the long form of the help.
func (TriggerCmd) Help() string {
	return `The event is real: a payroll is created, funded and so on in the sandbox, through the public interface, by an API key. Some
events move the sandbox's clock forward; their lines in the list say so.`
}

// trigger is a way to make an event happen.
type trigger struct {
	how string
	do  func(ctx context.Context, c *demoClient) error
}

var triggers = map[string]trigger{
	"recipient.created": {"creates a recipient", func(ctx context.Context, c *demoClient) error {
		_, err := c.makeRecipient(ctx)
		return err
	}},
	"recipient.status_update": {"creates a recipient and gives them a destination", func(ctx context.Context, c *demoClient) error {
		_, err := c.makePayee(ctx)
		return err
	}},
	"invitation.sent":            {"invites a worker", inviteWorker},
	"payroll.created":            {"creates a payroll", payrollThen()},
	"payroll.funding_detected":   {"creates a payroll and pays it", payrollThen(pay("exact"))},
	"payroll.status_update":      {"creates a payroll and pays it", payrollThen(pay("exact"))},
	"user.payment_status_update": {"creates a payroll and pays it", payrollThen(pay("exact"))},
	"payroll.funding_late":       {"creates a payroll and pays it too late (moves the clock)", payrollThen(pay("late"))},
	"payroll.quote_expired":      {"creates a payroll and lets its quote end (moves the clock)", payrollThen(outlive)},
	"payroll.quote_refreshed":    {"creates a payroll, lets its quote end and asks for another (moves the clock)", payrollThen(outlive, refresh)},
	"webhook.test":               {"has the first endpoint of the company tested", pingFirst},
}

// Run makes the event happen, waits for it and prints it.
func (cmd TriggerCmd) Run(ctx context.Context, std Streams) error {
	t, known := triggers[cmd.Event]
	if !known {
		for _, name := range slices.Sorted(maps.Keys(triggers)) {
			fmt.Fprintf(std.Out, "%-27s %s\n", name, triggers[name].how)
		}
		if cmd.Event == "" {
			return nil
		}
		return fmt.Errorf("%s cannot be triggered; the list says what can", cmd.Event)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cmd.Timeout, errors.New("the event did not come within --timeout"))
	defer cancel()
	api := cmd.open()
	after, err := api.newestEvent(ctx)
	if err != nil {
		return err
	}
	if err := t.do(ctx, api); err != nil {
		return err
	}
	tick := time.NewTicker(listenEvery)
	defer tick.Stop()
	for {
		page, err := api.eventsAfter(ctx, after, cmd.Event)
		if err == nil && len(page.Data) > 0 {
			fmt.Fprintf(std.Out, "%s\n", page.Data[0])
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

func (c *demoClient) company(ctx context.Context) (string, error) {
	var company struct {
		ID string `json:"company_id"`
	}
	return company.ID, c.get(ctx, "/api/company", &company)
}

func (c *demoClient) makeRecipient(ctx context.Context) (path string, err error) {
	company, err := c.company(ctx)
	if err != nil {
		return "", err
	}
	var made struct {
		ID string `json:"recipient_id"`
	}
	err = c.post(ctx, "/api/company/"+company+"/recipients/create", map[string]string{
		"first_name": "Ada", "last_name": "Example", "country": "GB", "external_id": "trigger-" + uuid.NewString(),
	}, &made)
	return "/api/company/" + company + "/recipients/" + made.ID, err
}

// makePayee makes a recipient who can be paid and returns their id.
func (c *demoClient) makePayee(ctx context.Context) (string, error) {
	path, err := c.makeRecipient(ctx)
	if err != nil {
		return "", err
	}
	wallet, err := newWallet("regtest")
	if err != nil {
		return "", err
	}
	address, err := wallet.Deriver().Address(chain.External, 0)
	if err != nil {
		return "", err
	}
	err = c.post(ctx, path+"/distribution", map[string]any{"symbol": "BTC", "distribution_data": map[string]string{"address": address}}, nil)
	return path[strings.LastIndexByte(path, '/')+1:], err
}

// made is a payroll that a trigger works on.
type made struct {
	PayrollID string `json:"payroll_id"`
	Quote     struct {
		From time.Time `json:"valid_from"`
		To   time.Time `json:"valid_to"`
	} `json:"quote"`
}

// payrollThen creates a payroll of one payee and does the steps with it.
func payrollThen(steps ...func(context.Context, *demoClient, made) error) func(context.Context, *demoClient) error {
	return func(ctx context.Context, c *demoClient) error {
		payee, err := c.makePayee(ctx)
		if err != nil {
			return err
		}
		var p made
		if err := c.post(ctx, "/api/company/payroll/create", map[string]any{
			"currency": "USD", "to_pay": []map[string]any{{"user_id": payee, "amount_fiat": json.Number("100.00")}},
		}, &p); err != nil {
			return err
		}
		for _, step := range steps {
			if err := step(ctx, c, p); err != nil {
				return err
			}
		}
		return nil
	}
}

func pay(kind string) func(context.Context, *demoClient, made) error {
	return func(ctx context.Context, c *demoClient, p made) error {
		return c.post(ctx, "/api/sandbox/deposit", map[string]string{"payroll_id": p.PayrollID, "kind": kind}, nil)
	}
}

func outlive(ctx context.Context, c *demoClient, p made) error {
	seconds := int64(p.Quote.To.Sub(p.Quote.From)/time.Second) + 1
	if err := c.post(ctx, "/api/sandbox/clock", map[string]int64{"advance_seconds": seconds}, nil); err != nil {
		return err
	}
	return c.awaitEvent(ctx, "payroll.quote_expired", p.PayrollID)
}

// awaitEvent waits until an event of a payroll is there.
func (c *demoClient) awaitEvent(ctx context.Context, name, payrollID string) error {
	tick := time.NewTicker(listenEvery)
	defer tick.Stop()
	for {
		var page eventPage
		err := c.get(ctx, "/api/events?order=desc&limit=100&name="+name, &page)
		for _, body := range page.Data {
			if bytes.Contains(body, []byte(payrollID)) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

func refresh(ctx context.Context, c *demoClient, p made) error {
	return c.post(ctx, "/api/company/payroll/quote/refresh", map[string]string{"payroll_id": p.PayrollID}, nil)
}

func inviteWorker(ctx context.Context, c *demoClient) error {
	company, err := c.company(ctx)
	if err != nil {
		return err
	}
	return c.post(ctx, "/api/company/worker/invite", map[string]string{
		"company_id": company, "email": "trigger-" + uuid.NewString() + "@sandbox.example", "role": "contractor",
	}, nil)
}

func pingFirst(ctx context.Context, c *demoClient) error {
	var all struct {
		Data []struct {
			ID string `json:"webhook_id"`
		} `json:"data"`
	}
	if err := c.get(ctx, "/api/webhooks", &all); err != nil {
		return err
	}
	if len(all.Data) == 0 {
		return errors.New("the company has no webhook endpoint; create one with POST /api/webhooks")
	}
	return c.post(ctx, "/api/webhooks/"+all.Data[0].ID+"/test", nil, nil)
}
