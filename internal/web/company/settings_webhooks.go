package company

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/web/ui"
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

func newEndpointShown(c *ui.Request, e delivery.Endpoint) endpointShown {
	s := endpointShown{Endpoint: e, Path: webhookPath(e.ID), Chosen: strings.Join(e.Events, ", "), Success: ui.FormatDay(e.LastSuccess), Failing: ui.FormatDay(e.FailingSince)}
	if s.Chosen == "" {
		s.Chosen = c.Text("webhooks.all")
	}
	return s
}

// Stopped says whether the endpoint is disabled.
func (s endpointShown) Stopped() bool {
	return s.Status == delivery.DisabledAuto || s.Status == delivery.DisabledManual
}

type webhooksPage struct {
	Endpoints []endpointShown
	Fields    []ui.Field
	Names     []string // of all events
}

func endpointFields(c *ui.Request, e delivery.Endpoint) []ui.Field {
	return []ui.Field{
		c.Field(ui.Field{Name: "url", Type: "url", Required: true, Most: 2000, Value: e.URL}),
		c.Field(ui.Field{Name: "description", Most: 200, Value: e.Description}),
		c.Field(ui.Field{Name: "events", Value: strings.Join(e.Events, ", ")}),
	}
}

// endpointParams are what the form says. No event named chooses all.
func endpointParams(c *ui.Request) delivery.Params {
	address, description := strings.TrimSpace(c.Form.Get("url")), c.Form.Get("description")
	events := strings.FieldsFunc(c.Form.Get("events"), func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })
	return delivery.Params{URL: &address, Description: &description, Events: &events}
}

// showWebhooks lists the endpoints of the company, and asks for another.
func showWebhooks(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	all, err := delivery.List(ctx, tx, c.Session.Principal())
	if err != nil {
		return ui.View{}, err
	}
	p := webhooksPage{Fields: endpointFields(c, delivery.Endpoint{}), Names: webhook.Names()}
	for _, e := range all {
		p.Endpoints = append(p.Endpoints, newEndpointShown(c, e))
	}
	return ui.View{Template: "webhooks", Title: c.Text("webhooks.title"), Data: p}, nil
}

// createWebhook registers an endpoint and shows its secret.
func createWebhook(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	e, secret, err := c.Webhooks.Create(ctx, tx, c.Session.Principal(), endpointParams(c))
	if err != nil {
		return ui.View{}, err
	}
	return shownOnce(c, webhookPath(e.ID), "webhook.secret", secret), nil
}

type webhookPage struct {
	Endpoint   endpointShown
	Fields     []ui.Field
	Deliveries []deliveryShown
	Names      []string // of all events
}

type deliveryShown struct {
	delivery.Delivery
	Path, At, NextTry string
}

func showDelivery(endpointID string, d delivery.Delivery) deliveryShown {
	return deliveryShown{Delivery: d, Path: webhookPath(endpointID) + "/deliveries/" + d.EventID, At: ui.FormatDay(d.Created), NextTry: ui.FormatDay(d.Next)}
}

// showWebhook is one endpoint with its latest deliveries.
func showWebhook(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	e, err := delivery.Get(ctx, tx, by, c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	all, _, err := delivery.Deliveries(ctx, tx, by, e.ID, delivery.DeliveriesParams{Limit: latestShown})
	if err != nil {
		return ui.View{}, err
	}
	p := webhookPage{Endpoint: newEndpointShown(c, e), Fields: endpointFields(c, e), Names: webhook.Names()}
	for _, d := range all {
		p.Deliveries = append(p.Deliveries, showDelivery(e.ID, d))
	}
	return ui.View{Template: "webhook", Title: c.Text("webhook.title"), Data: p}, nil
}

// updateWebhook changes an endpoint.
func updateWebhook(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := c.Webhooks.Update(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"), endpointParams(c))
	return backToWebhook(c, err)
}

func backToWebhook(c *ui.Request, err error) (ui.View, error) {
	return ui.View{Redirect: webhookPath(c.HTTP.PathValue("id"))}, err
}

// deleteWebhook forgets an endpoint.
func deleteWebhook(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/settings/webhooks"}, delivery.Delete(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
}

// rotateWebhook gives an endpoint a new secret; the old one signs too for a day.
func rotateWebhook(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	e, secret, err := c.Webhooks.Rotate(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"), delivery.DefaultOverlap)
	if err != nil {
		return ui.View{}, err
	}
	return shownOnce(c, webhookPath(e.ID), "webhook.secret", secret), nil
}

// testWebhook sends an endpoint a test.
func testWebhook(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := delivery.Ping(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	return backToWebhook(c, err)
}

// disableWebhook stops an endpoint.
func disableWebhook(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := delivery.Disable(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	return backToWebhook(c, err)
}

// enableWebhook starts an endpoint anew.
func enableWebhook(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := delivery.Enable(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	return backToWebhook(c, err)
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
func showWebhookDelivery(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	d, ev, attempts, err := delivery.GetDelivery(ctx, tx, c.Session.Principal(), id, c.HTTP.PathValue("event"))
	if err != nil {
		return ui.View{}, err
	}
	p := deliveryPage{deliveryShown: showDelivery(id, d), Endpoint: webhookPath(id), Body: string(ev.Body(c.Env))}
	for _, a := range attempts {
		p.Attempts = append(p.Attempts, attemptShown{Attempt: a, At: ui.FormatDay(a.At), Took: strconv.FormatInt(a.Took.Milliseconds(), 10) + " ms"})
	}
	return ui.View{Template: "delivery", Title: d.Event, Data: p}, nil
}

// redeliver sends an event again.
func redeliver(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id, event := c.HTTP.PathValue("id"), c.HTTP.PathValue("event")
	_, err := delivery.Redeliver(ctx, tx, c.Session.Principal(), id, event)
	return ui.View{Redirect: webhookPath(id) + "/deliveries/" + event}, err
}

type deliveriesPage struct {
	Path, Endpoint string
	Lang           string // chosen by name, so that the filter keeps it
	Fields         []ui.Field
	Deliveries     []deliveryShown
	First, Next    string // pages of the list
	Again          string
}

var deliveryStates = []string{delivery.Pending, delivery.Retrying, delivery.Succeeded, delivery.Failed, delivery.Cancelled, delivery.Blocked}

// moment reads an instant that a form sent: UTC, as the pages show it. Nothing is no instant.
func moment(c *ui.Request, name string) (time.Time, error) {
	text := strings.TrimSpace(c.Form.Get(name))
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
func period(c *ui.Request) (from, to time.Time, err error) {
	if from, err = moment(c, "from"); err == nil {
		to, err = moment(c, "to")
	}
	return from, to, err
}

// askForDeliveries is the list before anything is looked for.
func askForDeliveries(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	e, err := delivery.Get(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	c.Form = c.HTTP.URL.Query()
	states := []ui.Option{{Label: c.Text("webhooks.all")}}
	for _, s := range deliveryStates {
		states = append(states, ui.Option{Value: s, Label: c.Text("delivery.status." + s)})
	}
	p := deliveriesPage{Path: webhookPath(e.ID) + "/deliveries", Endpoint: webhookPath(e.ID), Again: webhookPath(e.ID) + "/redeliver", Fields: []ui.Field{
		c.Field(ui.Field{Name: "status", Type: "select", Options: states}),
		c.Field(ui.Field{Name: "events"}),
		c.Field(ui.Field{Name: "from", Type: "datetime-local"}),
		c.Field(ui.Field{Name: "to", Type: "datetime-local"}),
	}}
	if c.Language.Explicit {
		p.Lang = c.Language.Tag
	}
	return ui.View{Template: "deliveries", Title: c.Text("webhook.deliveries"), Data: p}, nil
}

// showDeliveries lists what was sent to an endpoint and what will be, as the filter says.
func showDeliveries(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	v, err := askForDeliveries(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	p := v.Data.(deliveriesPage)
	from, to, err := period(c)
	if err != nil {
		return ui.View{}, err
	}
	names := strings.TrimSpace(c.Form.Get("events"))
	if _, err := webhook.ParseNames(names); err != nil {
		return ui.View{}, errEvents.At("body", "/events")
	}
	state := c.Form.Get("status")
	if !slices.Contains(deliveryStates, state) {
		state = ""
	}
	id := c.HTTP.PathValue("id")
	all, more, err := delivery.Deliveries(ctx, tx, c.Session.Principal(), id, delivery.DeliveriesParams{
		State: state, Names: names, From: from, To: to, After: c.Form.Get("after"), Limit: deliveriesShown,
	})
	if err != nil {
		return ui.View{}, err
	}
	for _, d := range all {
		p.Deliveries = append(p.Deliveries, showDelivery(id, d))
	}
	at := func(after string) string {
		query := url.Values{}
		for _, name := range []string{"status", "events", "from", "to"} {
			if value := c.Form.Get(name); value != "" {
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
	if c.Form.Get("after") != "" {
		p.First = at("")
	}
	if more {
		p.Next = at(all[len(all)-1].EventID)
	}
	v.Data = p
	return v, nil
}

type redeliverPage struct {
	Path, Endpoint string
	Fields         []ui.Field
}

// The choices of what a range sends again.
const (
	againFailed = "failed"
	againAll    = "all"
)

// showRedeliver asks for a range of events to be sent again.
func showRedeliver(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	e, err := delivery.Get(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Template: "redeliver", Title: c.Text("redeliver.title"), Data: redeliverPage{
		Path: webhookPath(e.ID) + "/redeliver", Endpoint: webhookPath(e.ID), Fields: []ui.Field{
			c.Field(ui.Field{Name: "from", Type: "datetime-local"}),
			c.Field(ui.Field{Name: "to", Type: "datetime-local"}),
			c.Field(ui.Field{Name: "which", Type: "select", Value: againFailed, Options: []ui.Option{
				{Value: againFailed, Label: c.Text("redeliver.failed")}, {Value: againAll, Label: c.Text("redeliver.all")},
			}}),
		},
	}}, nil
}

// redeliverRange sends the events of a range again.
func redeliverRange(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	from, to, err := period(c)
	if err != nil {
		return ui.View{}, err
	}
	id := c.HTTP.PathValue("id")
	_, err = delivery.Replay(ctx, tx, c.Session.Principal(), id, delivery.Range{From: from, To: to, All: c.Form.Get("which") == againAll})
	return ui.View{Redirect: webhookPath(id) + "/deliveries"}, err
}
