package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stipend/stipend/internal/docsite"
	"github.com/stipend/stipend/internal/webhook"
)

// registerPayloads adds the payload types of all events to the schemas of the contract.
func registerPayloads(reg huma.Registry) {
	for _, d := range webhook.Declarations() {
		reg.Schema(d.Payload, true, schemaName(d.Payload, ""))
	}
}

// webhooks returns the webhooks section of the contract, which describes the request that an endpoint receives for
// each event.
func webhooks(reg huma.Registry) map[string]*huma.PathItem {
	items := map[string]*huma.PathItem{}
	for _, d := range webhook.Declarations() {
		summary, _, _ := strings.Cut(d.When, ". ")
		items[d.Name] = &huma.PathItem{Post: &huma.Operation{
			Method: http.MethodPost, OperationID: "on-" + strings.NewReplacer(".", "-", "_", "-").Replace(d.Name),
			Summary: strings.TrimSuffix(summary, "."), Description: describeEvent(d), Tags: []string{tagOf("/api/webhooks")},
			Security: []map[string][]string{},
			RequestBody: &huma.RequestBody{
				Required: true, Description: "The event, signed as docs/webhooks.md describes.",
				Content: map[string]*huma.MediaType{"application/json": {Schema: eventSchema(reg, d), Example: eventExample(d)}},
			},
			Responses: map[string]*huma.Response{
				"2XX": {Description: "The endpoint has received the event. After any other status the event is sent again."},
			},
		}}
	}
	return items
}

// describeEvent describes when an event is sent, and which scopes an app needs to receive a user's event.
func describeEvent(d webhook.Declaration) string {
	scopes := webhook.UserScopes(d.Name)
	if scopes == nil {
		return d.When
	}
	return d.When + " An app that a user has connected receives that of the user, with the scope `" +
		strings.Join(scopes, "` or `") + "`."
}

func eventSchema(reg huma.Registry, d webhook.Declaration) *huma.Schema {
	text := func() *huma.Schema { return &huma.Schema{Type: huma.TypeString} }
	data := *reg.Schema(d.Payload, true, schemaName(d.Payload, ""))
	data.Description = "State of the object when the change was committed."
	s := &huma.Schema{
		Type: huma.TypeObject,
		Required: []string{"api_version", "company_id", "created", "data", "environment", "event", "id", "sequence",
			"user_id"},
		Properties: map[string]*huma.Schema{
			"event": {Type: huma.TypeString, Enum: []any{d.Name}},
			"data":  &data,
			"id": {Type: huma.TypeString, Description: "ID of the event, the same in every delivery.",
				Examples: []any{exampleEventID}},
			"created":     {Type: huma.TypeString, Format: "date-time"},
			"environment": text(),
			"api_version": text(),
			"company_id":  {Type: huma.TypeString, Description: companyOfEvent},
			"user_id":     {Type: huma.TypeString, Description: userOfEvent},
			"sequence": {Type: huma.TypeInteger, Format: "int64",
				Description: "Increases with each event of an object."},
		},
	}
	describeMembers(nil, s, false)
	return s
}

// Documentation returns the error codes, and the events with examples, for the documentation pages.
func Documentation() (errors []docsite.Error, events []docsite.Event) {
	for _, d := range webhook.Declarations() {
		example, err := json.MarshalIndent(eventExample(d), "", "  ")
		if err != nil {
			panic("httpapi: the example of " + d.Name + " cannot be written: " + err.Error())
		}
		events = append(events, docsite.Event{Name: d.Name, When: describeEvent(d), Example: string(example)})
	}
	for _, e := range explanations {
		errors = append(errors, docsite.Error(e))
	}
	return errors, events
}

const exampleCompanyID = "com_06gf58g6w1v5s708fp7tx3xdw0"

// Descriptions of the fields that state whose event it is.
const (
	companyOfEvent = "Company whose event it is. Empty for an event of a user."
	userOfEvent    = "User whose event it is, who has connected the app. Empty for an event of a company."
)

const exampleEventID = "evt_06gf58g6w2qkhv375vsd8b2pm4"

func eventExample(d webhook.Declaration) any {
	data, err := json.Marshal(d.Example)
	if err != nil {
		panic("httpapi: the example of " + d.Name + " cannot be written: " + err.Error())
	}
	return map[string]any{
		"event": d.Name, "data": json.RawMessage(data), "id": exampleEventID, "created": "2026-09-30T14:05:00.000Z",
		"environment": "production", "api_version": webhook.APIVersion, "company_id": exampleCompanyID, "user_id": "",
		"sequence": 1,
	}
}
