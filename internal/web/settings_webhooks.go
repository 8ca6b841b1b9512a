package web

import (
	"context"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

const deliveriesShown = 20 // on a page

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
	p := webhooksPage{Fields: c.endpointFields(delivery.Endpoint{})}
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
	Next       string
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
	all, more, err := delivery.Deliveries(ctx, tx, by, e.ID, delivery.DeliveriesParams{After: c.r.URL.Query().Get("after"), Limit: deliveriesShown})
	if err != nil {
		return view{}, err
	}
	p := webhookPage{Endpoint: c.endpointShown(e), Fields: c.endpointFields(e)}
	for _, d := range all {
		p.Deliveries = append(p.Deliveries, showDelivery(e.ID, d))
	}
	if more {
		p.Next = webhookPath(e.ID) + "?after=" + all[len(all)-1].EventID
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
