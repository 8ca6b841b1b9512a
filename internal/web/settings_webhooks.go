package web

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/webhook"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

const (
	latestShown     = 10 // deliveries, on the page of their endpoint
	deliveriesShown = 25 // on a page of the list
)

func webhookPath(id string) string { return "/settings/webhooks/" + id }

// endpointShown is an endpoint as the pages tell of it.
type endpointShown struct {
	delivery.Endpoint
	Path, Chosen, Success, Failing string
}

func (c *call) endpointShown(e delivery.Endpoint) endpointShown {
	s := endpointShown{Endpoint: e, Path: webhookPath(e.ID), Chosen: strings.Join(e.Events, ", "), Success: when(e.LastSuccess), Failing: when(e.FailingSince)}
	if s.Chosen == "" {
		s.Chosen = c.text("webhooks.all")
	}
	return s
}

// Stopped says whether the endpoint is disabled.
func (s endpointShown) Stopped() bool {
	return s.Status == delivery.DisabledAuto || s.Status == delivery.DisabledManual
}

type webhooksPage struct {
	Endpoints []endpointShown
	Fields    []field
	Names     []string // of all events
}

func (c *call) endpointFields(e delivery.Endpoint) []field {
	return []field{
		c.field(field{Name: "url", Type: "url", Required: true, Most: 2000, Value: e.URL}),
		c.field(field{Name: "description", Most: 200, Value: e.Description}),
		c.field(field{Name: "events", Value: strings.Join(e.Events, ", ")}),
	}
}

// endpointParams are what the form says. No event named chooses all.
func (c *call) endpointParams() delivery.Params {
	address, description := strings.TrimSpace(c.form.Get("url")), c.form.Get("description")
	events := strings.FieldsFunc(c.form.Get("events"), func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })
	return delivery.Params{URL: &address, Description: &description, Events: &events}
}

// showWebhooks lists the endpoints of the company, and asks for another.
func showWebhooks(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	all, err := delivery.List(ctx, tx, c.session.Principal())
	if err != nil {
		return view{}, err
	}
	p := webhooksPage{Fields: c.endpointFields(delivery.Endpoint{}), Names: webhook.Names}
	for _, e := range all {
		p.Endpoints = append(p.Endpoints, c.endpointShown(e))
	}
	return view{page: "webhooks", title: c.text("webhooks.title"), data: p}, nil
}

// createWebhook registers an endpoint and shows its secret.
func createWebhook(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	e, secret, err := c.Webhooks.Create(ctx, tx, c.session.Principal(), c.endpointParams())
	if err != nil {
		return view{}, err
	}
	return c.shownOnce(webhookPath(e.ID), "webhook.secret", secret), nil
}

type webhookPage struct {
	Endpoint   endpointShown
	Fields     []field
	Deliveries []deliveryShown
	Names      []string // of all events
}

type deliveryShown struct {
	delivery.Delivery
	Path, At, NextTry string
}

func showDelivery(endpointID string, d delivery.Delivery) deliveryShown {
	return deliveryShown{Delivery: d, Path: webhookPath(endpointID) + "/deliveries/" + d.EventID, At: when(d.Created), NextTry: when(d.Next)}
}

// showWebhook is one endpoint with its latest deliveries.
func showWebhook(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	by := c.session.Principal()
	e, err := delivery.Get(ctx, tx, by, c.r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	all, _, err := delivery.Deliveries(ctx, tx, by, e.ID, delivery.DeliveriesParams{Limit: latestShown})
	if err != nil {
		return view{}, err
	}
	p := webhookPage{Endpoint: c.endpointShown(e), Fields: c.endpointFields(e), Names: webhook.Names}
	for _, d := range all {
		p.Deliveries = append(p.Deliveries, showDelivery(e.ID, d))
	}
	return view{page: "webhook", title: c.text("webhook.title"), data: p}, nil
}

// updateWebhook changes an endpoint.
func updateWebhook(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	_, err := c.Webhooks.Update(ctx, tx, c.session.Principal(), c.r.PathValue("id"), c.endpointParams())
	return c.backToWebhook(err)
}

func (c *call) backToWebhook(err error) (view, error) {
	return view{redirect: webhookPath(c.r.PathValue("id"))}, err
}

// deleteWebhook forgets an endpoint.
func deleteWebhook(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return view{redirect: "/settings/webhooks"}, delivery.Delete(ctx, tx, c.session.Principal(), c.r.PathValue("id"))
}

// rotateWebhook gives an endpoint a new secret; the old one signs too for a day.
func rotateWebhook(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	e, secret, err := c.Webhooks.Rotate(ctx, tx, c.session.Principal(), c.r.PathValue("id"), delivery.DefaultOverlap)
	if err != nil {
		return view{}, err
	}
	return c.shownOnce(webhookPath(e.ID), "webhook.secret", secret), nil
}

// testWebhook sends an endpoint a test.
func testWebhook(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	_, err := delivery.Ping(ctx, tx, c.session.Principal(), c.r.PathValue("id"))
	return c.backToWebhook(err)
}

// disableWebhook stops an endpoint.
func disableWebhook(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	_, err := delivery.Disable(ctx, tx, c.session.Principal(), c.r.PathValue("id"))
	return c.backToWebhook(err)
}

// enableWebhook starts an endpoint anew.
func enableWebhook(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	_, err := delivery.Enable(ctx, tx, c.session.Principal(), c.r.PathValue("id"))
	return c.backToWebhook(err)
}

type deliveryPage struct {
	deliveryShown
	Endpoint string
	Body     string
	Attempts []attemptShown
}

type attemptShown struct {
	delivery.Attempt
	At, Took string
}

// showWebhookDelivery is one delivery: what was sent, and what each attempt came to.
func showWebhookDelivery(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	id := c.r.PathValue("id")
	d, ev, attempts, err := delivery.GetDelivery(ctx, tx, c.session.Principal(), id, c.r.PathValue("event"))
	if err != nil {
		return view{}, err
	}
	p := deliveryPage{deliveryShown: showDelivery(id, d), Endpoint: webhookPath(id), Body: string(ev.Body(c.Env))}
	for _, a := range attempts {
		p.Attempts = append(p.Attempts, attemptShown{Attempt: a, At: when(a.At), Took: strconv.FormatInt(a.Took.Milliseconds(), 10) + " ms"})
	}
	return view{page: "delivery", title: d.Event, data: p}, nil
}

// redeliver sends an event again.
func redeliver(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	id, event := c.r.PathValue("id"), c.r.PathValue("event")
	_, err := delivery.Redeliver(ctx, tx, c.session.Principal(), id, event)
	return view{redirect: webhookPath(id) + "/deliveries/" + event}, err
}

type deliveriesPage struct {
	Path, Endpoint string
	Lang           string // chosen by name, so that the filter keeps it
	Fields         []field
	Deliveries     []deliveryShown
	First, Next    string // pages of the list
	Again          string
}

var deliveryStates = []string{delivery.Pending, delivery.Retrying, delivery.Succeeded, delivery.Failed, delivery.Cancelled, delivery.Blocked}

// moment reads an instant that a form sent: UTC, as the pages show it. Nothing is no instant.
func (c *call) moment(name string) (time.Time, error) {
	text := strings.TrimSpace(c.form.Get(name))
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	if text == "" {
		return time.Time{}, nil
	}
	return time.Time{}, errMoment.At("body", "/"+name)
}

var (
	errMoment = apierr.New(apierr.Invalid, "invalid_parameter", "This is not a time. Use the form 2026-01-31T09:30; it is read as UTC.")
	errEvents = apierr.New(apierr.Invalid, "invalid_parameter", "There is no such event.")
)

// period reads the two ends of a range of instants.
func (c *call) period() (from, to time.Time, err error) {
	if from, err = c.moment("from"); err == nil {
		to, err = c.moment("to")
	}
	return from, to, err
}

// askForDeliveries is the list before anything is looked for.
func askForDeliveries(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	e, err := delivery.Get(ctx, tx, c.session.Principal(), c.r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	c.form = c.r.URL.Query()
	states := []option{{Label: c.text("webhooks.all")}}
	for _, s := range deliveryStates {
		states = append(states, option{Value: s, Label: c.text("delivery.status." + s)})
	}
	p := deliveriesPage{Path: webhookPath(e.ID) + "/deliveries", Endpoint: webhookPath(e.ID), Again: webhookPath(e.ID) + "/redeliver", Fields: []field{
		c.field(field{Name: "status", Type: "select", Options: states}),
		c.field(field{Name: "events"}),
		c.field(field{Name: "from", Type: "datetime-local"}),
		c.field(field{Name: "to", Type: "datetime-local"}),
	}}
	if c.lang.asked {
		p.Lang = c.lang.tag
	}
	return view{page: "deliveries", title: c.text("webhook.deliveries"), data: p}, nil
}

// showDeliveries lists what was sent to an endpoint and what will be, as the filter says.
func showDeliveries(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	v, err := askForDeliveries(ctx, tx, c)
	if err != nil {
		return view{}, err
	}
	p := v.data.(deliveriesPage)
	from, to, err := c.period()
	if err != nil {
		return view{}, err
	}
	names := strings.TrimSpace(c.form.Get("events"))
	if _, err := webhook.ParseNames(names); err != nil {
		return view{}, errEvents.At("body", "/events")
	}
	state := c.form.Get("status")
	if !slices.Contains(deliveryStates, state) {
		state = ""
	}
	id := c.r.PathValue("id")
	all, more, err := delivery.Deliveries(ctx, tx, c.session.Principal(), id, delivery.DeliveriesParams{
		State: state, Names: names, From: from, To: to, After: c.form.Get("after"), Limit: deliveriesShown,
	})
	if err != nil {
		return view{}, err
	}
	for _, d := range all {
		p.Deliveries = append(p.Deliveries, showDelivery(id, d))
	}
	at := func(after string) string {
		query := url.Values{}
		for _, name := range []string{"status", "events", "from", "to"} {
			if value := c.form.Get(name); value != "" {
				query.Set(name, value)
			}
		}
		if after != "" {
			query.Set("after", after)
		}
		if len(query) == 0 {
			return p.Path
		}
		return p.Path + "?" + query.Encode()
	}
	if c.form.Get("after") != "" {
		p.First = at("")
	}
	if more {
		p.Next = at(all[len(all)-1].EventID)
	}
	v.data = p
	return v, nil
}

type redeliverPage struct {
	Path, Endpoint string
	Fields         []field
}

// The choices of what a range sends again.
const (
	againFailed = "failed"
	againAll    = "all"
)

// showRedeliver asks for a range of events to be sent again.
func showRedeliver(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	e, err := delivery.Get(ctx, tx, c.session.Principal(), c.r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	return view{page: "redeliver", title: c.text("redeliver.title"), data: redeliverPage{
		Path: webhookPath(e.ID) + "/redeliver", Endpoint: webhookPath(e.ID), Fields: []field{
			c.field(field{Name: "from", Type: "datetime-local"}),
			c.field(field{Name: "to", Type: "datetime-local"}),
			c.field(field{Name: "which", Type: "select", Value: againFailed, Options: []option{
				{Value: againFailed, Label: c.text("redeliver.failed")}, {Value: againAll, Label: c.text("redeliver.all")},
			}}),
		},
	}}, nil
}

// redeliverRange sends the events of a range again.
func redeliverRange(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	from, to, err := c.period()
	if err != nil {
		return view{}, err
	}
	id := c.r.PathValue("id")
	_, err = delivery.Replay(ctx, tx, c.session.Principal(), id, delivery.Range{From: from, To: to, All: c.form.Get("which") == againAll})
	return view{redirect: webhookPath(id) + "/deliveries"}, err
}
