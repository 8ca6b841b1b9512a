// Package delivery sends events to the webhook endpoints of companies and of the apps that they and people connected.
//
// It owns the endpoints, their secrets and queues, the signatures, and the policy for addresses. An event is
// delivered at least once. A delivery is a row that is pending until the receiver has answered 2xx or the schedule of
// attempts has ended; after that it can be read, and sent again. Each endpoint has its own queue, which one process
// at a time works on, so that a slow or dead receiver does not delay others. The package never opens a connection
// inside a transaction, and never calls an address that the [Policy] does not permit.
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
	disableAfter    = 5 * 24 * time.Hour // an endpoint is disabled after this time with failed attempts only
	reasonGone      = "gone"             // reason of a disabled endpoint: its receiver responded 410 Gone
	reasonFailing   = "failing"
	reasonRequested = "requested"
)

// Errors of callers.
var (
	ErrTooMany = apierr.New(apierr.Conflict, "invalid_state",
		"A company has at most 10 webhook endpoints. Delete one first.")
	ErrKeyOnly = apierr.New(apierr.Forbidden, "insufficient_scope",
		"Webhook endpoints are managed with an API key of the company itself.")
	ErrNoApp = apierr.New(apierr.Invalid, "invalid_parameter",
		"Only an API key of the app can register an endpoint for the companies that connected it.")
	ErrDisabled = apierr.New(apierr.Conflict, "invalid_state", "The endpoint is disabled. Enable it first.")
)

// States of an endpoint. A throttled endpoint is enabled, and paused because of its receiver's responses.
const (
	Enabled        = "enabled"
	Throttled      = "throttled"
	DisabledAuto   = "disabled_auto"
	DisabledManual = "disabled_manual"
)

// Endpoint is a URL that receives events of a company.
type Endpoint struct {
	CompanyID, ID, URL, Description string
	AppID                           string // if not empty, it receives the events of all who connected the app
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

// checkManage returns an error if the principal may not change endpoints. OAuth apps may only read them.
func checkManage(by identity.Principal) error {
	if by.CompanyID == "" {
		return apierr.NotFoundErr
	}
	if by.Kind == identity.KindOAuth {
		return ErrKeyOnly
	}
	return nil
}

// Params are the fields of an endpoint that callers set. Update leaves nil fields unchanged.
type Params struct {
	URL         *string
	Description *string
	Events      *[]string
	// Connections makes a new endpoint receive the events of the companies and users who have connected the principal's
	// app, and not those of the principal's company.
	Connections bool
}

// apply validates the given fields and sets them. It reports all problems at once.
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

// Create registers an endpoint and returns its secret. The secret cannot be read again.
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

// visibleTo reports whether a principal of the endpoint's company can see it. An endpoint of an app receives events of
// the companies that connected the app, so other apps cannot see it, nor can an app that a member connected.
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

// change reads an endpoint, calls update, and writes the endpoint. It returns db.ErrConflict if the endpoint has
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

// emitStatus records that the endpoint was disabled or enabled, and emits the event to the company's enabled endpoints.
func (e Endpoint) emitStatus(tx *db.Tx, from string) error {
	db.History(tx, e.CompanyID, e.ID, e.version, from, e.Status, e.Reason)
	return webhook.Emit(tx, webhook.WebhookStatusUpdate.Event(e.CompanyID, e.ID, e.version, webhook.EndpointData{
		WebhookID: e.ID, Status: e.Status, Reason: e.Reason,
	}))
}

// Update changes the URL, the description or the filter. Pending deliveries are sent to the new URL. The filter
// applies to later events.
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

// Delete deletes an endpoint. A job deletes its deliveries.
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

// Rotate gives an endpoint a new secret and returns it. Until the overlap has passed, deliveries are also signed with
// the old secret.
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

// Disable disables an endpoint. A job cancels its pending deliveries.
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

// Enable enables an endpoint and resets its failures. [Replay] can send the deliveries that were cancelled meanwhile.
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

// source returns the events that the endpoint receives.
func (e Endpoint) source() webhook.Source {
	return webhook.Source{CompanyID: e.CompanyID, AppID: e.AppID}
}

// wants reports whether the endpoint receives an event of its source.
func (e Endpoint) wants(ev webhook.StoredEvent) bool {
	if ev.Name == webhook.WebhookTest.Name {
		return ev.ObjectID == e.ID
	}
	return e.Events.Has(ev.Name)
}

// secrets decrypts the valid secrets of the endpoint, the current one first.
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

// States of a delivery. A retrying delivery is pending and has failed before.
const (
	Pending   = "pending"
	Retrying  = "retrying"
	Succeeded = "succeeded"
	Failed    = "failed"    // all attempts failed
	Cancelled = "cancelled" // the endpoint was disabled
	Blocked   = "blocked"   // the policy does not permit the address
)

// Delivery is the delivery of an event to an endpoint. It is identified by the event's ID.
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
	SentAt     time.Time // the value of the header webhook-timestamp
	Took       time.Duration
	URL        string
	HTTPStatus int64
	Error      string
	Response   string // first 4 KiB of the response body
}

// DeliveriesParams selects deliveries of an endpoint. Zero values select everything.
type DeliveriesParams struct {
	State    string
	Names    string    // names of events and prefixes ("payroll.*"), separated by commas
	From, To time.Time // times of the events; From is inclusive, To is exclusive
	After    string    // event ID of the last delivery that the caller has
	Limit    int
}

var errAfter = apierr.New(apierr.Invalid, "invalid_parameter",
	"The `after` cursor has expired. Start again without it.")

// Deliveries returns deliveries of an endpoint, newest first, and reports whether there are more.
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

// GetDelivery returns a delivery with its event and its attempts, oldest first.
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

// Redeliver sends an event to an endpoint again, now and with a new schedule, even if it was delivered before.
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
	JobClear  = "webhook.clear"  // cancels the pending deliveries of a disabled endpoint; deletes those of a deleted one
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

// Clear is the handler of [JobClear]. It handles one chunk and enqueues a job for the rest. The pending deliveries of
// an endpoint that was enabled again are not changed.
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

// Range selects the events that [Replay] sends again.
type Range struct {
	From, To time.Time // From is inclusive, To is exclusive
	All      bool      // includes events that were delivered or are pending
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

// Replay sends a range of events to an endpoint again, in the background.
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

// HandleReplay is the handler of [JobReplay]. It handles one chunk and enqueues a job for the rest.
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
