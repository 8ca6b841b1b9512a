package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/webhook"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// rawObject is a stored JSON object that is sent unchanged.
type rawObject []byte

// MarshalJSONTo writes the object unchanged.
func (o rawObject) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(jsontext.Value(o))
}

// Schema returns the type's schema in the contract.
func (rawObject) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Type: "object"} }

type (
	eventList struct {
		CompanyID string    `query:"company_id"`
		Source    string    `query:"source" enum:"company,connections" default:"company" doc:"Or all who connected the app."`
		Name      string    `query:"name" maxLength:"2000"`
		ObjectID  string    `query:"object_id" maxLength:"64"`
		From      time.Time `query:"from" doc:"Created at or after."`
		To        time.Time `query:"to" doc:"Created before."`
		After     string    `query:"after" maxLength:"64"`
		Order     string    `query:"order" enum:"asc,desc" default:"asc" doc:"asc: oldest first; desc: newest first."`
		Limit     int       `query:"limit" default:"20" minimum:"1" doc:"At most 100; larger values mean 100."`
	}

	eventPage struct {
		Data      []eventItem `json:"data"`
		HasMore   bool        `json:"has_more"`
		NextAfter string      `json:"next_after" doc:"Value of after for the next page; at the end, future events follow it."`
	}

	eventItem struct {
		Event       string    `json:"event"`
		Data        rawObject `json:"data"`
		ID          string    `json:"id"`
		Created     string    `json:"created" format:"date-time"`
		Environment string    `json:"environment"`
		APIVersion  string    `json:"api_version"`
		CompanyID   string    `json:"company_id" doc:"Company whose event it is. Empty for an event of a user."`
		UserID      string    `json:"user_id" doc:"User whose event it is. Empty for an event of a company."`
		Sequence    int64     `json:"sequence" doc:"The object's version, which increases with every event of the object."`
	}

	webhookList struct {
		CompanyID string `query:"company_id"`
	}

	webhookAll struct {
		Data []WebhookEndpoint `json:"data"`
	}

	webhookCreateInput struct{ Body webhookCreateBody }

	webhookCreateBody struct {
		CompanyID   string   `json:"company_id,omitempty" maxLength:"64"`
		URL         string   `json:"url" doc:"A public https address on port 443 or 8443."`
		Description string   `json:"description,omitempty" maxLength:"200"`
		Events      []string `json:"events,omitempty" maxItems:"50"`
		Source      string   `json:"source,omitempty" enum:"company,connections" doc:"Or all who connected the app."`
	}

	webhookPath struct {
		WebhookID string `path:"webhook_id"`
	}

	webhookUpdateInput struct {
		WebhookID string `path:"webhook_id"`
		Body      webhookUpdateBody
	}

	webhookUpdateBody struct {
		URL         *string   `json:"url,omitempty"`
		Description *string   `json:"description,omitempty" maxLength:"200"`
		Events      *[]string `json:"events,omitempty" maxItems:"50"`
	}

	webhookRotateInput struct {
		WebhookID string `path:"webhook_id"`
		Body      webhookRotateBody
	}

	webhookRotateBody struct {
		Overlap *int64 `json:"overlap_seconds,omitempty" minimum:"0" maximum:"604800"`
	}

	// WebhookEndpoint describes an address to which events are sent.
	WebhookEndpoint struct {
		WebhookID      string   `json:"webhook_id"`
		CompanyID      string   `json:"company_id"`
		URL            string   `json:"url"`
		Description    string   `json:"description"`
		Events         []string `json:"events" doc:"Empty means all."`
		Source         string   `json:"source" enum:"company,connections" doc:"Whose events it receives."`
		Status         string   `json:"status" enum:"enabled,throttled,disabled_auto,disabled_manual"`
		Reason         string   `json:"reason" enum:",requested,gone,failing"`
		ThrottledUntil string   `json:"throttled_until" doc:"Empty unless throttled."`
		FailingSince   string   `json:"failing_since" doc:"Empty if the last attempt succeeded."`
		LastSuccess    string   `json:"last_success" doc:"Empty before the first."`
		OldSecretUntil string   `json:"old_secret_until"`
		Created        Time     `json:"created"`
		Updated        Time     `json:"updated"`
	}

	webhookSecret struct {
		WebhookEndpoint
		Secret string `json:"secret" doc:"Signing secret, returned only once."`
	}

	webhookDeleted struct {
		WebhookID string `json:"webhook_id"`
		Deleted   bool   `json:"deleted"`
	}

	webhookPing struct {
		WebhookID string `json:"webhook_id"`
		EventID   string `json:"event_id"`
	}

	deliveryList struct {
		WebhookID string    `path:"webhook_id"`
		Status    string    `query:"status" enum:"pending,retrying,succeeded,failed,cancelled,blocked"`
		Name      string    `query:"name" maxLength:"2000"`
		From      time.Time `query:"from" doc:"Events created at or after."`
		To        time.Time `query:"to" doc:"Events created before."`
		After     string    `query:"after" maxLength:"64" doc:"Event ID of the last delivery received."`
		Limit     int       `query:"limit" default:"20" minimum:"1" doc:"At most 100; larger values mean 100."`
	}

	deliveryPage struct {
		Data      []DeliveryItem `json:"data"`
		HasMore   bool           `json:"has_more"`
		NextAfter string         `json:"next_after" doc:"Empty at the end."`
	}

	// DeliveryItem describes the delivery of one event to one endpoint.
	DeliveryItem struct {
		EventID    string          `json:"event_id" doc:"Identifies the delivery; sent as webhook-id."`
		Event      string          `json:"event"`
		ObjectID   string          `json:"object_id"`
		Status     string          `json:"status" enum:"pending,retrying,succeeded,failed,cancelled,blocked"`
		Attempts   int64           `json:"attempts"`
		NextTry    string          `json:"next_try" doc:"Empty if there will be none."`
		Error      deliveryFailure `json:"error"`
		HTTPStatus int64           `json:"http_status" doc:"Status of the last response; 0 if there was none."`
		Created    Time            `json:"created"`
		Updated    Time            `json:"updated"`
	}

	deliveryPath struct {
		WebhookID string `path:"webhook_id"`
		EventID   string `path:"event_id"`
	}

	deliveryDetail struct {
		DeliveryItem
		Request deliveryRequest `json:"request"`
		Tries   []deliveryTry   `json:"tries" doc:"The attempts, oldest first."`
	}

	deliveryRequest struct {
		Method  string            `json:"method"`
		Headers map[string]string `json:"headers"`
		Body    rawObject         `json:"body" doc:"Signed request body, the same in every attempt."`
	}

	deliveryTry struct {
		Number     int64           `json:"number"`
		At         Time            `json:"at"`
		Timestamp  string          `json:"webhook_timestamp" doc:"The header webhook-timestamp of this attempt."`
		URL        string          `json:"url"`
		TookMillis int64           `json:"took_ms"`
		HTTPStatus int64           `json:"http_status" doc:"0 if there was no response."`
		Error      deliveryFailure `json:"error"`
		Response   string          `json:"response" doc:"First 4 KiB of the response body."`
	}

	redeliverInput struct {
		WebhookID string `path:"webhook_id"`
		Body      redeliverBody
	}

	redeliverBody struct {
		From  string `json:"from,omitempty" maxLength:"40" doc:"Events created at or after; default: 30 days ago."`
		To    string `json:"to,omitempty" maxLength:"40" doc:"Events created before; default: now."`
		Which string `json:"which,omitempty" enum:"failed,all"`
	}

	redeliverStarted struct {
		WebhookID string `json:"webhook_id"`
		Status    string `json:"status" enum:"started" doc:"started: the events are queued in the background."`
	}
)

// fromConnections selects events of the companies and users who have connected an app.
const fromConnections = "connections"

func listEvents(ctx context.Context, tx *db.Tx, c *request, in *eventList) (*eventPage, error) {
	app := ""
	if in.Source == fromConnections {
		if app = c.by.AppID; c.by.Kind != identity.KindAPIKey {
			return nil, delivery.ErrKeyOnly
		}
	}
	events, more, err := webhook.List(ctx, tx, webhook.ListParams{
		CompanyID: c.company, AppID: app, Names: in.Name, ObjectID: in.ObjectID, From: in.From, To: in.To, After: in.After,
		Newest: in.Order == "desc", Limit: min(in.Limit, maxPerPage),
	})
	if err != nil {
		return nil, err
	}
	out := &eventPage{Data: make([]eventItem, len(events)), HasMore: more, NextAfter: in.After}
	for i, e := range events {
		if err := json.Unmarshal(e.Body(c.Env), &out.Data[i]); err != nil {
			return nil, err
		}
		out.NextAfter = e.ID
	}
	return out, nil
}

// UnmarshalJSON stores a copy of the object's text.
func (o *rawObject) UnmarshalJSON(text []byte) error {
	*o = append((*o)[:0], text...)
	return nil
}

func showTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

func showWebhook(tx *db.Tx, e delivery.Endpoint) WebhookEndpoint {
	shown := WebhookEndpoint{
		WebhookID: e.ID, CompanyID: e.CompanyID, URL: e.URL, Description: e.Description, Events: e.Events, Status: e.Status,
		Reason: e.Reason, ThrottledUntil: showTime(e.PausedUntil), FailingSince: showTime(e.FailingSince),
		LastSuccess: showTime(e.LastSuccess), Created: Time(e.Created), Updated: Time(e.Updated),
	}
	if shown.Source = "company"; e.AppID != "" {
		shown.Source = fromConnections
	}
	if e.PreviousUntil.After(tx.Now()) {
		shown.OldSecretUntil = showTime(e.PreviousUntil)
	}
	return shown
}

func createWebhook(ctx context.Context, tx *db.Tx, c *request, in *webhookCreateInput) (*webhookSecret, error) {
	b := &in.Body
	e, secret, err := c.Webhooks.Create(ctx, tx, c.by, delivery.Params{URL: &b.URL, Description: &b.Description,
		Events: &b.Events, Connections: b.Source == fromConnections})
	if err != nil {
		return nil, err
	}
	return &webhookSecret{showWebhook(tx, e), secret}, nil
}

func listWebhooks(ctx context.Context, tx *db.Tx, c *request, _ *webhookList) (*webhookAll, error) {
	all, err := delivery.List(ctx, tx, c.by)
	if err != nil {
		return nil, err
	}
	out := &webhookAll{Data: make([]WebhookEndpoint, len(all))}
	for i, e := range all {
		out.Data[i] = showWebhook(tx, e)
	}
	return out, nil
}

// webhookOrErr returns the response of an operation on an endpoint, or err.
func webhookOrErr(tx *db.Tx, e delivery.Endpoint, err error) (*WebhookEndpoint, error) {
	if err != nil {
		return nil, err
	}
	out := showWebhook(tx, e)
	return &out, nil
}

func getWebhook(ctx context.Context, tx *db.Tx, c *request, in *webhookPath) (*WebhookEndpoint, error) {
	e, err := delivery.Get(ctx, tx, c.by, in.WebhookID)
	return webhookOrErr(tx, e, err)
}

func updateWebhook(ctx context.Context, tx *db.Tx, c *request, in *webhookUpdateInput) (*WebhookEndpoint, error) {
	e, err := c.Webhooks.Update(ctx, tx, c.by, in.WebhookID, delivery.Params{
		URL: in.Body.URL, Description: in.Body.Description, Events: in.Body.Events,
	})
	return webhookOrErr(tx, e, err)
}

func deleteWebhook(ctx context.Context, tx *db.Tx, c *request, in *webhookPath) (*webhookDeleted, error) {
	if err := delivery.Delete(ctx, tx, c.by, in.WebhookID); err != nil {
		return nil, err
	}
	return &webhookDeleted{in.WebhookID, true}, nil
}

func rotateWebhook(ctx context.Context, tx *db.Tx, c *request, in *webhookRotateInput) (*webhookSecret, error) {
	overlap := delivery.DefaultOverlap
	if in.Body.Overlap != nil {
		overlap = time.Duration(*in.Body.Overlap) * time.Second
	}
	e, secret, err := c.Webhooks.Rotate(ctx, tx, c.by, in.WebhookID, overlap)
	if err != nil {
		return nil, err
	}
	return &webhookSecret{showWebhook(tx, e), secret}, nil
}

func disableWebhook(ctx context.Context, tx *db.Tx, c *request, in *webhookPath) (*WebhookEndpoint, error) {
	e, err := delivery.Disable(ctx, tx, c.by, in.WebhookID)
	return webhookOrErr(tx, e, err)
}

func enableWebhook(ctx context.Context, tx *db.Tx, c *request, in *webhookPath) (*WebhookEndpoint, error) {
	e, err := delivery.Enable(ctx, tx, c.by, in.WebhookID)
	return webhookOrErr(tx, e, err)
}

func testWebhook(ctx context.Context, tx *db.Tx, c *request, in *webhookPath) (*webhookPing, error) {
	id, err := delivery.Ping(ctx, tx, c.by, in.WebhookID)
	if err != nil {
		return nil, err
	}
	return &webhookPing{in.WebhookID, id}, nil
}

func showDelivery(d delivery.Delivery) DeliveryItem {
	return DeliveryItem{
		EventID: d.EventID, Event: d.Event, ObjectID: d.ObjectID, Status: d.State, Attempts: d.Attempts,
		NextTry: showTime(d.Next), Error: deliveryFailure(d.Error), HTTPStatus: d.HTTPStatus, Created: Time(d.Created),
		Updated: Time(d.Updated),
	}
}

func listDeliveries(ctx context.Context, tx *db.Tx, c *request, in *deliveryList) (*deliveryPage, error) {
	all, more, err := delivery.Deliveries(ctx, tx, c.by, in.WebhookID, delivery.DeliveriesParams{
		State: in.Status, Names: in.Name, From: in.From, To: in.To, After: in.After, Limit: min(in.Limit, maxPerPage),
	})
	if err != nil {
		return nil, err
	}
	out := &deliveryPage{Data: make([]DeliveryItem, len(all)), HasMore: more}
	for i, d := range all {
		out.Data[i] = showDelivery(d)
	}
	if more {
		out.NextAfter = all[len(all)-1].EventID
	}
	return out, nil
}

func getDelivery(ctx context.Context, tx *db.Tx, c *request, in *deliveryPath) (*deliveryDetail, error) {
	d, ev, attempts, err := delivery.GetDelivery(ctx, tx, c.by, in.WebhookID, in.EventID)
	if err != nil {
		return nil, err
	}
	out := &deliveryDetail{DeliveryItem: showDelivery(d), Tries: make([]deliveryTry, len(attempts))}
	out.Request.Method = http.MethodPost
	out.Request.Headers = map[string]string{"Content-Type": "application/json", "webhook-id": ev.ID}
	out.Request.Body = ev.Body(c.Env)
	for i, a := range attempts {
		out.Tries[i] = deliveryTry{
			Number: a.Number, At: Time(a.At), Timestamp: strconv.FormatInt(a.SentAt.Unix(), 10), URL: a.URL,
			TookMillis: a.Took.Milliseconds(), HTTPStatus: a.HTTPStatus, Error: deliveryFailure(a.Error), Response: a.Response,
		}
	}
	return out, nil
}

func redeliverOne(ctx context.Context, tx *db.Tx, c *request, in *deliveryPath) (*DeliveryItem, error) {
	d, err := delivery.Redeliver(ctx, tx, c.by, in.WebhookID, in.EventID)
	if err != nil {
		return nil, err
	}
	out := showDelivery(d)
	return &out, nil
}

func redeliverRange(ctx context.Context, tx *db.Tx, c *request, in *redeliverInput) (*redeliverStarted, error) {
	r := delivery.Range{All: in.Body.Which == "all"}
	for _, t := range []struct {
		text, pointer string
		to            *time.Time
	}{{in.Body.From, "/from", &r.From}, {in.Body.To, "/to", &r.To}} {
		if t.text == "" {
			continue
		}
		var err error
		if *t.to, err = parseTime(t.text); err != nil {
			return nil, errNotATime.At("body", t.pointer)
		}
	}
	if _, err := delivery.Replay(ctx, tx, c.by, in.WebhookID, r); err != nil {
		return nil, err
	}
	return &redeliverStarted{in.WebhookID, "started"}, nil
}
