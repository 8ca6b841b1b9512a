// Package delivery sends events to webhook endpoints. An endpoint belongs to a company, and receives the company's
// events, or the events of all companies and users who have connected an app of the company.
//
// The package owns the endpoints, their secrets and queues, the signatures, and the policy for addresses. An event is
// delivered at least once. A delivery is a row that is pending until the receiver has responded with 2xx or all
// scheduled attempts have failed; after that it can still be read, and sent again. Each endpoint has a separate
// queue, which only one process at a time serves, so that a slow or failed receiver does not delay other endpoints.
// The package never opens a connection inside a transaction, and never calls an address that the [Policy] does not
// permit.
package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/webhook"
)

// Limits of an endpoint.
const (
	MaxEndpoints    = 10 // maximum number of endpoints of a company
	DefaultOverlap  = 24 * time.Hour
	maxDescription  = 200
	maxFilter       = 50
	disableAfter    = 5 * 24 * time.Hour // an endpoint is disabled if all attempts have failed for this long
	reasonGone      = "gone"             // reason of a disabled endpoint: its receiver responded 410 Gone
	reasonFailing   = "failing"
	reasonRequested = "requested"
)

// Errors that callers receive.
var (
	ErrTooMany = apierr.New(apierr.Conflict, "invalid_state",
		"A company has at most 10 webhook endpoints. Delete one first.")
	ErrKeyOnly = apierr.New(apierr.Forbidden, "insufficient_scope",
		"Webhook endpoints are managed with an API key of the company itself.")
	ErrNoApp = apierr.New(apierr.Invalid, "invalid_parameter",
		"Only an API key of the app can register an endpoint for the companies that connected it.")
	ErrDisabled = apierr.New(apierr.Conflict, "invalid_state", "The endpoint is disabled. Enable it first.")
)

// States of an endpoint. A throttled endpoint is an enabled endpoint whose deliveries are paused because of its
// receiver's responses.
const (
	Enabled        = "enabled"
	Throttled      = "throttled"
	DisabledAuto   = "disabled_auto"
	DisabledManual = "disabled_manual"
)

// Endpoint is a URL that receives the events of a company or of an app's connections.
type Endpoint struct {
	CompanyID, ID, URL, Description string
	AppID                           string // if not empty, the endpoint receives events of all who connected this app
	Events                          webhook.Filter
	Status                          string
	Reason                          string // reason why the endpoint is disabled
	PreviousUntil                   time.Time
	PausedUntil                     time.Time // end of the pause of a throttled endpoint
	FailingSince                    time.Time // first failure since the last success, or zero
	LastSuccess                     time.Time // time of the last success; zero if there was none
	Created, Updated                time.Time

	version                   int64
	sealed, previous          string
	generation, failures      int64
	holder                    string
	failingSince, pausedUntil int64
}

// Setup registers and changes endpoints.
type Setup struct {
	Sealer *identity.Sealer
	Policy Policy
}

// checkManage returns an error if the principal may not change endpoints. OAuth apps may only read endpoints.
func checkManage(by identity.Principal) error {
	if by.CompanyID == "" {
		return apierr.NotFoundErr
	}
	if by.Kind == identity.KindOAuth {
		return ErrKeyOnly
	}
	return nil
}

// Params are the fields of an endpoint that callers can set. Update leaves fields unchanged that are nil.
type Params struct {
	URL         *string
	Description *string
	Events      *[]string
	// Connections makes a new endpoint receive the events of the companies and users who have connected the principal's
	// app, instead of the events of the principal's company.
	Connections bool
}

// apply validates and sets the given fields. It returns one error with all problems.
func (s Setup) apply(e *Endpoint, p Params) error {
	var problems apierr.List
	if p.URL != nil {
		if err := s.Policy.CheckURL(*p.URL); err != nil {
			if err := problems.AddErr(err, "/url"); err != nil {
				return err
			}
		}
		e.URL = *p.URL
	}
	if p.Description != nil {
		e.Description = identity.Line(&problems, "/description", *p.Description, 0, maxDescription)
	}
	if p.Events != nil {
		for i, name := range *p.Events {
			if _, err := webhook.ParseFilter([]string{name}); err != nil {
				if err := problems.AddErr(err, "/events/"+strconv.Itoa(i)); err != nil {
					return err
				}
			} else if e.AppID != "" && webhook.OfPlatform(name) {
				problems.Add("invalid_parameter", "/events/"+strconv.Itoa(i), name+" is an event of your own company, which an "+
					"endpoint for connected companies does not receive. Use another endpoint, with the source company.")
			}
		}
		filter, _ := webhook.ParseFilter(*p.Events) // an invalid filter was reported above
		if len(filter) > maxFilter {
			problems.Add("invalid_parameter", "/events", "A filter has at most 50 names.")
		}
		e.Events = filter
	}
	return problems.Err()
}

// Create registers an endpoint and returns the endpoint and its secret, which cannot be read later.
func (s Setup) Create(ctx context.Context, tx *db.Tx, by identity.Principal, p Params) (Endpoint, string, error) {
	if err := checkManage(by); err != nil {
		return Endpoint{}, "", err
	}
	e := Endpoint{
		CompanyID: by.CompanyID, ID: tx.NewID("whk"), Events: webhook.Filter{}, Status: Enabled,
		Created: tx.Now(), Updated: tx.Now(), version: 1,
	}
	if p.Connections {
		if e.AppID = by.AppID; e.AppID == "" {
			return Endpoint{}, "", ErrNoApp.At("body", "/source")
		}
	}
	if err := s.apply(&e, p); err != nil {
		return Endpoint{}, "", err
	}
	secret := NewSecret()
	sealed, err := s.Sealer.Seal(secretOf(e.ID), []byte(secret))
	if err != nil {
		return Endpoint{}, "", err
	}
	e.sealed = sealed
	inserted, err := insertEndpoint(ctx, tx, e)
	switch {
	case err != nil:
		return Endpoint{}, "", err
	case !inserted:
		return Endpoint{}, "", ErrTooMany
	}
	err = auth.NotifyAdministrators(ctx, tx, tx.NewID("evt"), e.CompanyID, mail.WebhookAdded, e.redactedURL())
	return e, secret, err
}

func secretOf(endpointID string) identity.SealContext {
	return identity.SealContext{Table: "webhook_endpoints", Column: "secret", Row: endpointID}
}

// redactedURL returns the URL without its query, which may contain a secret of the receiver.
func (e Endpoint) redactedURL() string {
	address, _, _ := strings.Cut(e.URL, "?")
	return address
}

// List returns the endpoints of the principal's company, oldest first.
func List(ctx context.Context, tx *db.Tx, by identity.Principal) ([]Endpoint, error) {
	if by.CompanyID == "" {
		return nil, apierr.NotFoundErr
	}
	all, err := selectEndpoints(ctx, tx, by.CompanyID)
	return slices.DeleteFunc(all, func(e Endpoint) bool { return !e.visibleTo(by) }), err
}

// visibleTo reports whether a principal of the endpoint's company can see the endpoint. An app's endpoint receives
// events of other companies, so only members in a session and the app's own API keys can see it.
func (e Endpoint) visibleTo(by identity.Principal) bool {
	return e.AppID == "" || by.Kind == identity.KindSession || by.Kind == identity.KindAPIKey && by.AppID == e.AppID
}

// Get returns an endpoint of the principal's company, or apierr.NotFoundErr.
func Get(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (Endpoint, error) {
	if by.CompanyID == "" {
		return Endpoint{}, apierr.NotFoundErr
	}
	e, err := selectEndpoint(ctx, tx, by.CompanyID, id)
	if err == nil && !e.visibleTo(by) {
		return Endpoint{}, apierr.NotFoundErr
	}
	return e, err
}

// change reads an endpoint, calls update with it and stores the result. It returns db.ErrConflict if the endpoint has
// changed since it was read.
func change(ctx context.Context, tx *db.Tx, by identity.Principal, id string, update func(*Endpoint) error) (
	Endpoint, error) {
	if err := checkManage(by); err != nil {
		return Endpoint{}, err
	}
	e, err := Get(ctx, tx, by, id)
	if err != nil {
		return Endpoint{}, err
	}
	if err := update(&e); err != nil {
		return Endpoint{}, err
	}
	e.Updated = tx.Now()
	switch ok, err := updateEndpoint(ctx, tx, e); {
	case err != nil:
		return Endpoint{}, err
	case !ok:
		return Endpoint{}, db.ErrConflict
	}
	e.version++
	return e, nil
}

// emitStatus records that the endpoint was disabled or enabled, and emits an event about it to the company's enabled
// endpoints.
func (e Endpoint) emitStatus(tx *db.Tx, from string) error {
	db.History(tx, e.CompanyID, e.ID, e.version, from, e.Status, e.Reason)
	return webhook.Emit(tx, webhook.WebhookStatusUpdate.Event(e.CompanyID, e.ID, e.version, webhook.EndpointData{
		WebhookID: e.ID, Status: e.Status, Reason: e.Reason,
	}))
}

// Update changes the URL, the description or the filter of an endpoint. Pending deliveries go to the new URL. The new
// filter applies only to later events.
func (s Setup) Update(ctx context.Context, tx *db.Tx, by identity.Principal, id string, p Params) (Endpoint, error) {
	before := ""
	e, err := change(ctx, tx, by, id, func(e *Endpoint) error {
		before = e.URL
		return s.apply(e, p)
	})
	if err != nil || e.URL == before {
		return e, err
	}
	err = auth.NotifyAdministrators(ctx, tx, tx.NewID("evt"), e.CompanyID, mail.WebhookURLChanged, e.redactedURL())
	return e, err
}

// Delete deletes an endpoint. A background job deletes its deliveries.
func Delete(ctx context.Context, tx *db.Tx, by identity.Principal, id string) error {
	if err := checkManage(by); err != nil {
		return err
	}
	deleted, err := deleteEndpoint(ctx, tx, by.CompanyID, id)
	if err == nil && !deleted {
		return apierr.NotFoundErr
	}
	clearLater(tx, by.CompanyID, id)
	return err
}

// Rotate replaces the secret of an endpoint and returns the new one. During the overlap, deliveries are signed with
// both the new and the old secret.
func (s Setup) Rotate(ctx context.Context, tx *db.Tx, by identity.Principal, id string, overlap time.Duration) (
	Endpoint, string, error) {
	secret := NewSecret()
	e, err := change(ctx, tx, by, id, func(e *Endpoint) (err error) {
		e.previous, e.PreviousUntil = e.sealed, tx.Now().Add(overlap)
		e.sealed, err = s.Sealer.Seal(secretOf(e.ID), []byte(secret))
		return err
	})
	return e, secret, err
}

// Disable disables an endpoint. A background job cancels its pending deliveries.
func Disable(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (Endpoint, error) {
	from := ""
	e, err := change(ctx, tx, by, id, func(e *Endpoint) error {
		if e.enabled() {
			from, e.Status, e.Reason = Enabled, DisabledManual, reasonRequested
		}
		return nil
	})
	if err != nil {
		return e, err
	}
	clearLater(tx, e.CompanyID, e.ID)
	if from == "" {
		return e, nil
	}
	return e, e.emitStatus(tx, from)
}

// Enable enables an endpoint and resets its failures. [Replay] can send the deliveries that were cancelled while the
// endpoint was disabled.
func Enable(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (Endpoint, error) {
	from := ""
	e, err := change(ctx, tx, by, id, func(e *Endpoint) error {
		if !e.enabled() {
			from = e.Status
		}
		e.Status, e.Reason = Enabled, ""
		return nil
	})
	if err != nil {
		return e, err
	}
	e.FailingSince, e.PausedUntil = time.Time{}, time.Time{}
	if from != "" {
		if err := e.emitStatus(tx, from); err != nil {
			return e, err
		}
	}
	return e, resetQueue(ctx, tx, e)
}

func (e Endpoint) enabled() bool { return e.Status == Enabled || e.Status == Throttled }

// Ping sends the event webhook.test to an endpoint and returns the event's ID.
func Ping(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (eventID string, err error) {
	e, err := change(ctx, tx, by, id, func(e *Endpoint) error {
		if !e.enabled() {
			return ErrDisabled
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	event := webhook.WebhookTest.Event(e.CompanyID, e.ID, e.version, webhook.TestData{
		WebhookID: e.ID, Message: "This is a test. Nothing has happened.",
	})
	event.ID = tx.NewID("evt")
	return event.ID, webhook.Emit(tx, event)
}

// source returns the source of the events that the endpoint receives.
func (e Endpoint) source() webhook.Source {
	return webhook.Source{CompanyID: e.CompanyID, AppID: e.AppID}
}

// wants reports whether the endpoint is to receive an event of its source.
func (e Endpoint) wants(ev webhook.StoredEvent) bool {
	if ev.Name == webhook.WebhookTest.Name {
		return ev.ObjectID == e.ID
	}
	return e.Events.Has(ev.Name)
}

// secrets decrypts the endpoint's valid secrets. The current secret is first.
func (e Endpoint) secrets(s *identity.Sealer, now time.Time) ([]string, error) {
	var all []string
	sealed := []string{e.sealed}
	if e.previous != "" && now.Before(e.PreviousUntil) {
		sealed = append(sealed, e.previous)
	}
	for _, text := range sealed {
		secret, err := s.Open(secretOf(e.ID), text)
		if err != nil {
			return nil, err
		}
		all = append(all, string(secret))
	}
	return all, nil
}

// States of a delivery. A retrying delivery is one that is pending after a failed attempt.
const (
	Pending   = "pending"
	Retrying  = "retrying"
	Succeeded = "succeeded"
	Failed    = "failed"    // all attempts failed
	Cancelled = "cancelled" // the endpoint was disabled
	Blocked   = "blocked"   // the policy does not permit the address of the endpoint
)

// Delivery is the delivery of an event to an endpoint, identified by the event's ID.
type Delivery struct {
	EventID, Event, ObjectID string
	SourceID                 string // the event's company or user
	State                    string
	Attempts                 int64
	Next                     time.Time // time of the next attempt; zero if there will be none
	Error                    string    // class of the last failure
	HTTPStatus               int64     // HTTP status of the last response; 0 without a response
	Created, Updated         time.Time

	position, tries int64
}

// Attempt is one request and its result.
type Attempt struct {
	Number     int64
	At         time.Time // by the service's clock, which a sandbox can advance
	SentAt     time.Time // value of the Webhook-Timestamp header
	Took       time.Duration
	URL        string
	HTTPStatus int64
	Error      string
	Response   string // first 4 KiB of the response body
}

// DeliveriesParams selects deliveries of an endpoint. Zero values select everything.
type DeliveriesParams struct {
	State    string
	Names    string    // names and prefixes ("payroll.*") of events, separated by commas
	From, To time.Time // times of the events; From is inclusive, To is exclusive
	After    string    // event ID of the last delivery of the previous page
	Limit    int
}

var errAfter = apierr.New(apierr.Invalid, "invalid_parameter",
	"The `after` cursor has expired. Start again without it.")

// Deliveries returns a page of an endpoint's deliveries, newest first, and reports whether more follow.
func Deliveries(ctx context.Context, tx *db.Tx, by identity.Principal, id string, p DeliveriesParams) (
	[]Delivery, bool, error) {
	e, err := Get(ctx, tx, by, id)
	if err != nil {
		return nil, false, err
	}
	filter, err := webhook.ParseNames(p.Names)
	if err != nil {
		return nil, false, err
	}
	before := int64(0)
	if p.After != "" {
		last, err := webhook.Get(ctx, tx, e.source(), p.After)
		if err != nil {
			return nil, false, errAfter.At("query", "after")
		}
		before = last.Position
	}
	all, err := selectDeliveries(ctx, tx, e, p, filter, before, p.Limit+1)
	if len(all) > p.Limit {
		return all[:p.Limit], true, err
	}
	return all, false, err
}

// GetDelivery returns a delivery with its event and its attempts. The attempts are sorted oldest first.
func GetDelivery(ctx context.Context, tx *db.Tx, by identity.Principal, id, eventID string) (
	Delivery, webhook.StoredEvent, []Attempt, error) {
	e, err := Get(ctx, tx, by, id)
	if err != nil {
		return Delivery{}, webhook.StoredEvent{}, nil, err
	}
	ev, err := webhook.Get(ctx, tx, e.source(), eventID)
	if err != nil {
		return Delivery{}, ev, nil, err
	}
	d, err := selectDelivery(ctx, tx, e, ev.Position)
	if errors.Is(err, db.ErrNoRows) {
		return Delivery{}, ev, nil, apierr.NotFoundErr
	}
	if err != nil {
		return Delivery{}, ev, nil, err
	}
	attempts, err := selectAttempts(ctx, tx, e, ev.Position)
	return d, ev, attempts, err
}

// Redeliver sends an event to an endpoint again, now and with a new schedule of retries, even if the event was
// delivered before.
func Redeliver(ctx context.Context, tx *db.Tx, by identity.Principal, id, eventID string) (Delivery, error) {
	if err := checkManage(by); err != nil {
		return Delivery{}, err
	}
	e, err := Get(ctx, tx, by, id)
	if err != nil {
		return Delivery{}, err
	}
	if !e.enabled() {
		return Delivery{}, ErrDisabled
	}
	ev, err := webhook.Get(ctx, tx, e.source(), eventID)
	if err != nil {
		return Delivery{}, err
	}
	if err := restart(ctx, tx, e, []webhook.StoredEvent{ev}, false); err != nil {
		return Delivery{}, err
	}
	wake(tx, e.CompanyID, e.ID)
	return selectDelivery(ctx, tx, e, ev.Position)
}

// Kinds of jobs.
const (
	JobClear  = "webhook.clear"  // cancels pending deliveries of a disabled endpoint, or deletes all of a deleted one
	JobReplay = "webhook.replay" // sends a range of events again
)

// chunk is the number of deliveries that one transaction of a job changes.
const chunk = 500

type clearing struct {
	EndpointID string `json:"endpoint_id"`
}

func clearLater(tx *db.Tx, companyID, endpointID string) {
	job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobClear, Payload: clearing{endpointID}})
}

// Clear is the handler of [JobClear]. It handles one chunk of deliveries and enqueues a job for the rest. If the
// endpoint has been enabled again, its pending deliveries stay unchanged.
func Clear(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in clearing
	if err := j.Decode(&in); err != nil {
		return err
	}
	e, err := selectEndpoint(ctx, tx, j.CompanyID, in.EndpointID)
	var n int64
	switch {
	case errors.Is(err, apierr.NotFoundErr):
		n, err = deleteDeliveries(ctx, tx, j.CompanyID, in.EndpointID, chunk)
	case err != nil || e.enabled():
		return err
	default:
		n, err = cancelPending(ctx, tx, e, chunk)
	}
	if err == nil && n > 0 {
		clearLater(tx, j.CompanyID, in.EndpointID)
	}
	return err
}

// Range selects the events that [Replay] sends again: those whose deliveries failed or were cancelled, or all.
type Range struct {
	From, To time.Time // From is inclusive, To is exclusive
	All      bool      // includes events that were delivered, or whose delivery is pending
}

type replay struct {
	EndpointID string `json:"endpoint_id"`
	From       int64  `json:"from"`
	To         int64  `json:"to"`
	All        bool   `json:"all"`
	After      string `json:"after"` // ID of the last event of the previous chunk
}

var errRange = apierr.New(apierr.Invalid, "invalid_parameter",
	"The range ends before it starts, or is more than 30 days ago.")

// Replay sends the events of a range to an endpoint again, in a background job.
func Replay(ctx context.Context, tx *db.Tx, by identity.Principal, id string, r Range) (Endpoint, error) {
	if err := checkManage(by); err != nil {
		return Endpoint{}, err
	}
	e, err := Get(ctx, tx, by, id)
	if err != nil {
		return Endpoint{}, err
	}
	if !e.enabled() {
		return Endpoint{}, ErrDisabled
	}
	if r.To.IsZero() || r.To.After(tx.Now()) {
		r.To = tx.Now().Add(time.Microsecond)
	}
	if oldest := tx.Now().Add(-webhook.Kept); r.From.Before(oldest) {
		r.From = oldest
	}
	if !r.From.Before(r.To) {
		return Endpoint{}, errRange.At("body", "/to")
	}
	job.Enqueue(tx, job.New{CompanyID: e.CompanyID, Kind: JobReplay,
		Payload: replay{EndpointID: e.ID, From: db.Micros(r.From), To: db.Micros(r.To), All: r.All}})
	return e, nil
}

// HandleReplay is the handler of [JobReplay]. It handles one chunk of events and enqueues a job for the rest.
func HandleReplay(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in replay
	if err := j.Decode(&in); err != nil {
		return err
	}
	e, err := selectEndpoint(ctx, tx, j.CompanyID, in.EndpointID)
	if errors.Is(err, apierr.NotFoundErr) || err == nil && !e.enabled() {
		return nil
	}
	if err != nil {
		return err
	}
	events, more, err := webhook.List(ctx, tx, webhook.ListParams{
		CompanyID: e.CompanyID, AppID: e.AppID, From: db.Time(in.From), To: db.Time(in.To), After: in.After, Limit: chunk,
	})
	if err != nil || len(events) == 0 {
		return err
	}
	var wanted []webhook.StoredEvent
	for _, ev := range events {
		if e.wants(ev) {
			wanted = append(wanted, ev)
		}
	}
	if err := restart(ctx, tx, e, wanted, !in.All); err != nil {
		return err
	}
	wake(tx, e.CompanyID, e.ID)
	if more {
		in.After = events[len(events)-1].ID
		job.Enqueue(tx, job.New{CompanyID: e.CompanyID, Kind: JobReplay, Payload: in})
	}
	return nil
}

// Prune deletes expired events and their deliveries.
func Prune(ctx context.Context, d *db.DB) error {
	upTo, err := webhook.Prune(ctx, d)
	if err != nil || upTo == 0 {
		return err
	}
	return pruneDeliveries(ctx, d, upTo)
}

func encodeFilter(f webhook.Filter) string {
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // unreachable: a filter consists of strings
	}
	return string(text)
}
