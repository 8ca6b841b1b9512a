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
	maxLatestDeliveries = 10 // on the page of an endpoint
	deliveriesPerPage   = 25 // on a page of the list
)

func webhookPath(id string) string { return "/settings/webhooks/" + id }

// endpointView is an endpoint with its display texts.
type endpointView struct {
	delivery.Endpoint
	Path, Chosen, Success, Failing string
	State                          ui.Cell
}

func newEndpointView(c *ui.Request, e delivery.Endpoint) endpointView {
	s := endpointView{Endpoint: e, State: c.StateCell("webhook.status", e.Status), Path: webhookPath(e.ID),
		Chosen:  strings.Join(e.Events, ", "),
		Success: c.FormatTime(e.LastSuccess), Failing: c.FormatTime(e.FailingSince)}
	if s.Chosen == "" {
		s.Chosen = c.Text("webhooks.all")
	}
	return s
}

// Stopped reports whether the endpoint is disabled.
func (s endpointView) Stopped() bool {
	return s.Status == delivery.DisabledAuto || s.Status == delivery.DisabledManual
}

type webhooksPage struct {
	Endpoints []endpointView
	Fields    []ui.Field
	Events    eventChoices
}

// eventChoices are the events that an endpoint can receive.
type eventChoices struct {
	Groups  []eventGroup
	Problem ui.LocalizedText
}

// eventGroup is the events of one kind of object: a prefix that selects all of them, and their names.
type eventGroup struct {
	All   ui.Option
	Names []ui.Option
	Count string
	Open  bool // a name is selected
}

// newEventChoices returns the choices of events. Those of the form are selected, or the chosen ones before it is sent.
func newEventChoices(c *ui.Request, chosen []string) (all eventChoices) {
	if c.Form != nil {
		chosen = postedEvents(c)
	}
	for _, name := range slices.Concat(webhook.Names(), chosen) {
		object, _, _ := strings.Cut(name, ".")
		prefix := object + ".*"
		i := slices.IndexFunc(all.Groups, func(g eventGroup) bool { return g.All.Value == prefix })
		if i < 0 {
			i = len(all.Groups)
			all.Groups = append(all.Groups, eventGroup{All: ui.Option{Value: prefix, Label: prefix,
				Selected: slices.Contains(chosen, prefix)}})
		}
		g := &all.Groups[i]
		if name == prefix || slices.ContainsFunc(g.Names, func(o ui.Option) bool { return o.Value == name }) {
			continue
		}
		one := ui.Option{Value: name, Label: name, Selected: slices.Contains(chosen, name)}
		g.Names, g.Open = append(g.Names, one), g.Open || one.Selected
	}
	for i := range all.Groups {
		n := int64(len(all.Groups[i].Names))
		all.Groups[i].Count = c.Plural("webhooks.count", n, c.FormatCount(n))
	}
	for _, w := range c.Problems() {
		if w.Name == "events" {
			all.Problem = w.LocalizedText
		}
	}
	return all
}

func endpointFields(c *ui.Request, e delivery.Endpoint) []ui.Field {
	return []ui.Field{
		c.Field(ui.Field{Name: "url", Type: "url", Required: true, MaxLength: 2000, Value: e.URL}),
		c.Field(ui.Field{Name: "description", MaxLength: 200, Value: e.Description}),
	}
}

// postedEvents returns the names and prefixes of events in the form.
func postedEvents(c *ui.Request) []string {
	return strings.FieldsFunc(strings.Join(c.Form["events"], ","),
		func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })
}

// endpointParams returns the posted settings of an endpoint. An empty list of events means all.
func endpointParams(c *ui.Request) delivery.Params {
	address, description := strings.TrimSpace(c.Form.Get("url")), c.Form.Get("description")
	events := postedEvents(c)
	return delivery.Params{URL: &address, Description: &description, Events: &events}
}

// showWebhooks lists the company's endpoints and renders the form for a new one.
func showWebhooks(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	all, err := delivery.List(ctx, tx, c.Session.Principal())
	if err != nil {
		return ui.View{}, err
	}
	p := webhooksPage{Fields: endpointFields(c, delivery.Endpoint{}), Events: newEventChoices(c, nil)}
	for _, e := range all {
		p.Endpoints = append(p.Endpoints, newEndpointView(c, e))
	}
	return ui.View{Template: "webhooks", Title: c.Text("webhooks.title"), Data: p}, nil
}

// createWebhook creates an endpoint and shows its secret.
func createWebhook(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	e, secret, err := c.Webhooks.Create(ctx, tx, c.Session.Principal(), endpointParams(c))
	if err != nil {
		return ui.View{}, err
	}
	return showSecret(c, webhookPath(e.ID), "webhook.secret", secret), nil
}

type webhookPage struct {
	Endpoint   endpointView
	Fields     []ui.Field
	Events     eventChoices
	Deliveries []deliveryRow
}

type deliveryRow struct {
	delivery.Delivery
	Path, URL, At, NextTry string
	State                  ui.Cell
}

func newDeliveryRow(c *ui.Request, endpointID string, d delivery.Delivery) deliveryRow {
	path := webhookPath(endpointID) + "/deliveries/" + d.EventID
	return deliveryRow{Delivery: d, Path: path, URL: c.URL(path), State: c.StateCell("delivery.status", d.State),
		At: c.FormatTime(d.Created), NextTry: c.FormatTime(d.Next)}
}

// showWebhook renders an endpoint with its latest deliveries.
func showWebhook(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	e, err := delivery.Get(ctx, tx, by, c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	all, _, err := delivery.Deliveries(ctx, tx, by, e.ID, delivery.DeliveriesParams{Limit: maxLatestDeliveries})
	if err != nil {
		return ui.View{}, err
	}
	p := webhookPage{Endpoint: newEndpointView(c, e), Fields: endpointFields(c, e),
		Events: newEventChoices(c, e.Events)}
	for _, d := range all {
		p.Deliveries = append(p.Deliveries, newDeliveryRow(c, e.ID, d))
	}
	return ui.View{Template: "webhook", Title: c.Text("webhook.title"), State: p.Endpoint.State,
		Crumbs: []ui.Cell{c.LinkCell(c.Text("webhooks.title"), "/settings/webhooks")}, Data: p}, nil
}

// updateWebhook changes the settings of an endpoint.
func updateWebhook(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := c.Webhooks.Update(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"), endpointParams(c))
	return backToWebhook(c, err)
}

func backToWebhook(c *ui.Request, err error) (ui.View, error) {
	return ui.View{Redirect: webhookPath(c.HTTP.PathValue("id"))}, err
}

// deleteWebhook deletes an endpoint.
func deleteWebhook(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/settings/webhooks"}, delivery.Delete(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
}

// rotateWebhook replaces the secret of an endpoint. The old one stays valid for 24 hours.
func rotateWebhook(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	e, secret, err := c.Webhooks.Rotate(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"), delivery.DefaultOverlap)
	if err != nil {
		return ui.View{}, err
	}
	return showSecret(c, webhookPath(e.ID), "webhook.secret", secret), nil
}

// testWebhook sends a test event.
func testWebhook(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := delivery.Ping(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	return backToWebhook(c, err)
}

// disableWebhook disables an endpoint.
func disableWebhook(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := delivery.Disable(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	return backToWebhook(c, err)
}

// enableWebhook enables an endpoint.
func enableWebhook(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := delivery.Enable(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	return backToWebhook(c, err)
}

type deliveryPage struct {
	deliveryRow
	Endpoint string
	Body     string
	Attempts []attemptRow
}

type attemptRow struct {
	delivery.Attempt
	At, Took string
}

// showWebhookDelivery renders a delivery with its event and attempts.
func showWebhookDelivery(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	d, ev, attempts, err := delivery.GetDelivery(ctx, tx, c.Session.Principal(), id, c.HTTP.PathValue("event"))
	if err != nil {
		return ui.View{}, err
	}
	p := deliveryPage{deliveryRow: newDeliveryRow(c, id, d), Endpoint: webhookPath(id),
		Body: indented(string(ev.Body(c.Env)))}
	for _, a := range attempts {
		p.Attempts = append(p.Attempts, attemptRow{
			Attempt: a, At: c.FormatTime(a.At), Took: strconv.FormatInt(a.Took.Milliseconds(), 10) + " ms"})
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
	Lang           string // explicitly chosen language, for the filter form
	Fields         []ui.Field
	Deliveries     []deliveryRow
	First, Next    string // links to pages of the list
	Again          string
}

var deliveryStates = []string{delivery.Pending, delivery.Retrying, delivery.Succeeded, delivery.Failed,
	delivery.Cancelled, delivery.Blocked}

// formTime reads a posted time in UTC. It returns the zero time for an empty value.
func formTime(c *ui.Request, name string) (time.Time, error) {
	text := strings.TrimSpace(c.Form.Get(name))
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	if text == "" {
		return time.Time{}, nil
	}
	return time.Time{}, errTime.At("body", "/"+name)
}

var (
	errTime = apierr.New(apierr.Invalid, "invalid_parameter",
		"Enter a time in UTC, such as 2026-01-31T09:30.")
	errEvents = apierr.New(apierr.Invalid, "invalid_parameter", "Unknown event.")
)

// formPeriod reads the posted times from and to.
func formPeriod(c *ui.Request) (from, to time.Time, err error) {
	if from, err = formTime(c, "from"); err == nil {
		to, err = formTime(c, "to")
	}
	return from, to, err
}

// showDeliveryFilters renders the filters of the deliveries without a list.
func showDeliveryFilters(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	e, err := delivery.Get(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	c.Form = c.HTTP.URL.Query()
	states := []ui.Option{{Label: c.Text("webhooks.all")}}
	for _, s := range deliveryStates {
		states = append(states, ui.Option{Value: s, Label: c.Text("delivery.status." + s)})
	}
	p := deliveriesPage{Path: webhookPath(e.ID) + "/deliveries", Endpoint: webhookPath(e.ID),
		Again: webhookPath(e.ID) + "/redeliver", Fields: []ui.Field{
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

// showDeliveries lists the deliveries that match the filters.
func showDeliveries(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	v, err := showDeliveryFilters(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	p := v.Data.(deliveriesPage)
	from, to, err := formPeriod(c)
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
		State: state, Names: names, From: from, To: to, After: c.Form.Get("after"), Limit: deliveriesPerPage,
	})
	if err != nil {
		return ui.View{}, err
	}
	for _, d := range all {
		p.Deliveries = append(p.Deliveries, newDeliveryRow(c, id, d))
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

// Which events of a range to send again.
const (
	resendFailed = "failed"
	resendAll    = "all"
)

// showRedeliver renders the form that sends a range of events again.
func showRedeliver(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	e, err := delivery.Get(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Template: "redeliver", Title: c.Text("redeliver.title"), Data: redeliverPage{
		Path: webhookPath(e.ID) + "/redeliver", Endpoint: webhookPath(e.ID), Fields: []ui.Field{
			c.Field(ui.Field{Name: "from", Type: "datetime-local"}),
			c.Field(ui.Field{Name: "to", Type: "datetime-local"}),
			c.Field(ui.Field{Name: "which", Type: "select", Value: resendFailed, Options: []ui.Option{
				{Value: resendFailed, Label: c.Text("redeliver.failed")}, {Value: resendAll, Label: c.Text("redeliver.all")},
			}}),
		},
	}}, nil
}

// redeliverRange sends the events of a range again.
func redeliverRange(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	from, to, err := formPeriod(c)
	if err != nil {
		return ui.View{}, err
	}
	id := c.HTTP.PathValue("id")
	_, err = delivery.Replay(ctx, tx, c.Session.Principal(), id,
		delivery.Range{From: from, To: to, All: c.Form.Get("which") == resendAll})
	return ui.View{Redirect: webhookPath(id) + "/deliveries"}, err
}
