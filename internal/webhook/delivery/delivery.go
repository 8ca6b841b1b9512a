// Package delivery brings events to the addresses that companies registered for them.
//
// It owns endpoints and their secrets, which addresses may be called, the signature, and the queue of each endpoint. An event
// is delivered at least once: a delivery is a row that is pending until a receiver has answered 2xx or its schedule has ended,
// and then remains to be read and sent again. Each endpoint has a queue of its own, which one process at a time works on, so a
// receiver that is slow or gone delays nobody else. It never opens a connection in a transaction, and never calls an address
// that the [Policy] does not permit, whatever a name resolves to.
package delivery

import (
	"context"
	"encoding/json"
	"errors"
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
	MaxEndpoints    = 10 // of a company
	DefaultOverlap  = 24 * time.Hour
	maxDescription  = 200
	maxFilter       = 50
	disableAfter    = 5 * 24 * time.Hour // of nothing but failures
	reasonGone      = "gone"             // the receiver answered 410
	reasonFailing   = "failing"
	reasonRequested = "requested"
)

// What callers of this package are refused with.
var (
	ErrTooMany  = apierr.New(apierr.Conflict, "invalid_state", "A company has at most 10 webhook endpoints. Delete one first.")
	ErrKeyOnly  = apierr.New(apierr.Forbidden, "insufficient_scope", "Webhook endpoints are managed with an API key of the company itself.")
	ErrDisabled = apierr.New(apierr.Conflict, "invalid_state", "The endpoint is disabled. Enable it first.")
)

// The states of an endpoint. Throttled is an enabled one that is paused because of what its receiver answered.
const (
	Enabled        = "enabled"
	Throttled      = "throttled"
	DisabledAuto   = "disabled_auto"
	DisabledManual = "disabled_manual"
)

// Endpoint is an address that a company wants events sent to.
type Endpoint struct {
	CompanyID, ID, URL, Description string
	Events                          webhook.Filter
	Status                          string
	Reason                          string // why it is disabled
	PreviousUntil                   time.Time
	PausedUntil                     time.Time // while it is throttled
	FailingSince                    time.Time // zero when the last attempt succeeded
	LastSuccess                     time.Time // zero before the first
	Created, Updated                time.Time

	version                   int64
	sealed, previous          string
	generation, failures      int64
	holder                    string
	failingSince, pausedUntil int64
}

// Setup is what endpoints are registered with.
type Setup struct {
	Sealer *identity.Sealer
	Policy Policy
}

// manages refuses who may only read. A session is the company's own people.
func manages(by identity.Principal) error {
	if by.CompanyID == "" {
		return apierr.NotFoundErr
	}
	if by.Kind == identity.KindOAuth {
		return ErrKeyOnly
	}
	return nil
}

// Params are what an endpoint is made of. In a change nil leaves a part as it is.
type Params struct {
	URL         *string
	Description *string
	Events      *[]string
}

// apply checks the parts that are given and notes all problems at once.
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
			}
		}
		filter, _ := webhook.ParseFilter(*p.Events) // what is wrong with it has been noted
		if len(filter) > maxFilter {
			problems.Add("invalid_parameter", "/events", "A filter has at most 50 names.")
		}
		e.Events = filter
	}
	return problems.Err()
}

// Create registers an endpoint and returns its secret, which is not shown again.
func (s Setup) Create(ctx context.Context, tx *db.Tx, by identity.Principal, p Params) (Endpoint, string, error) {
	if err := manages(by); err != nil {
		return Endpoint{}, "", err
	}
	e := Endpoint{
		CompanyID: by.CompanyID, ID: tx.NewID("whk"), Events: webhook.Filter{}, Status: Enabled, Created: tx.Now(), Updated: tx.Now(), version: 1,
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
	return e, secret, auth.NotifyAdministrators(ctx, tx, tx.NewID("evt"), e.CompanyID, mail.WebhookAdded, e.plainURL())
}

func secretOf(endpointID string) identity.Place {
	return identity.Place{Table: "webhook_endpoints", Column: "secret", Row: endpointID}
}

// plainURL is the address as others may read it: what follows a question mark may be a secret of the receiver's.
func (e Endpoint) plainURL() string {
	address, _, _ := strings.Cut(e.URL, "?")
	return address
}

// List returns the endpoints of the principal's company, oldest first.
func List(ctx context.Context, tx *db.Tx, by identity.Principal) ([]Endpoint, error) {
	if by.CompanyID == "" {
		return nil, apierr.NotFoundErr
	}
	return selectEndpoints(ctx, tx, by.CompanyID)
}

// Get reads an endpoint of the principal's company, or says apierr.NotFoundErr.
func Get(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (Endpoint, error) {
	if by.CompanyID == "" {
		return Endpoint{}, apierr.NotFoundErr
	}
	return selectEndpoint(ctx, tx, by.CompanyID, id)
}

// change reads an endpoint that the principal manages, changes it, and writes it under the version that was read.
func change(ctx context.Context, tx *db.Tx, by identity.Principal, id string, how func(*Endpoint) error) (Endpoint, error) {
	if err := manages(by); err != nil {
		return Endpoint{}, err
	}
	e, err := Get(ctx, tx, by, id)
	if err != nil {
		return Endpoint{}, err
	}
	if err := how(&e); err != nil {
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

// moved tells the company that an endpoint was disabled or enabled. Those that are enabled hear of it.
func (e Endpoint) moved(tx *db.Tx, from string) error {
	db.History(tx, e.CompanyID, e.ID, e.version, from, e.Status, e.Reason)
	return webhook.Emit(tx, webhook.WebhookStatusUpdate.Event(e.CompanyID, e.ID, e.version, webhook.EndpointData{
		WebhookID: e.ID, Status: e.Status, Reason: e.Reason,
	}))
}

// Update changes the address, the description or the filter. What is pending goes to the new address; the filter counts for
// events to come.
func (s Setup) Update(ctx context.Context, tx *db.Tx, by identity.Principal, id string, p Params) (Endpoint, error) {
	before := ""
	e, err := change(ctx, tx, by, id, func(e *Endpoint) error {
		before = e.URL
		return s.apply(e, p)
	})
	if err != nil || e.URL == before {
		return e, err
	}
	return e, auth.NotifyAdministrators(ctx, tx, tx.NewID("evt"), e.CompanyID, mail.WebhookURLChanged, e.plainURL())
}

// Delete forgets an endpoint with its deliveries.
func Delete(ctx context.Context, tx *db.Tx, by identity.Principal, id string) error {
	if err := manages(by); err != nil {
		return err
	}
	deleted, err := deleteEndpoint(ctx, tx, by.CompanyID, id)
	if err == nil && !deleted {
		return apierr.NotFoundErr
	}
	clearLater(tx, by.CompanyID, id)
	return err
}

// Rotate gives an endpoint a new secret and returns it. The old one signs too until the overlap has passed.
func (s Setup) Rotate(ctx context.Context, tx *db.Tx, by identity.Principal, id string, overlap time.Duration) (Endpoint, string, error) {
	secret := NewSecret()
	e, err := change(ctx, tx, by, id, func(e *Endpoint) (err error) {
		e.previous, e.PreviousUntil = e.sealed, tx.Now().Add(overlap)
		e.sealed, err = s.Sealer.Seal(secretOf(e.ID), []byte(secret))
		return err
	})
	return e, secret, err
}

// Disable stops an endpoint. What is pending is cancelled.
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
	return e, e.moved(tx, from)
}

// Enable starts an endpoint anew. What was cancelled meanwhile can be sent again by [Replay].
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
		if err := e.moved(tx, from); err != nil {
			return e, err
		}
	}
	return e, resetQueue(ctx, tx, e)
}

func (e Endpoint) enabled() bool { return e.Status == Enabled || e.Status == Throttled }

// Ping sends an endpoint the event webhook.test and returns its id.
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

// wants says whether an event is for the endpoint.
func (e Endpoint) wants(ev webhook.StoredEvent) bool {
	if ev.Name == webhook.WebhookTest.Name {
		return ev.ObjectID == e.ID
	}
	return e.Events.Has(ev.Name)
}

// secrets opens the valid secrets of an endpoint, the present one first.
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

// The states of a delivery. Retrying is a pending one that has failed before.
const (
	Pending   = "pending"
	Retrying  = "retrying"
	Succeeded = "succeeded"
	Failed    = "failed"    // its schedule has ended
	Cancelled = "cancelled" // its endpoint was disabled
	Blocked   = "blocked"   // its address is not allowed
)

// Delivery is one event for one endpoint. The event's id names it.
type Delivery struct {
	EventID, Event, ObjectID string
	State                    string
	Attempts                 int64
	Next                     time.Time // of the next attempt; zero when there will be none
	Error                    string    // class of the last failure
	HTTPStatus               int64     // of the last answer, 0 without one
	Created, Updated         time.Time

	position, tries int64
}

// Attempt is one request and how it ended.
type Attempt struct {
	Number     int64
	At         time.Time // by the clock of the service
	SentAt     time.Time // as webhook-timestamp says
	Took       time.Duration
	URL        string
	HTTPStatus int64
	Error      string
	Response   string // the first 4 KiB
}

// DeliveriesParams chooses deliveries of an endpoint. Zero values choose everything.
type DeliveriesParams struct {
	State    string
	Names    string    // of events: names and prefixes ("payroll.*"), separated by commas
	From, To time.Time // of the events; From is included, To is not
	After    string    // event id of the last delivery that was seen
	Limit    int
}

// Deliveries lists what was sent to an endpoint and what will be, newest first, and says whether there is more.
func Deliveries(ctx context.Context, tx *db.Tx, by identity.Principal, id string, p DeliveriesParams) ([]Delivery, bool, error) {
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
		seen, err := webhook.Get(ctx, tx, e.CompanyID, p.After)
		if err != nil {
			return nil, false, apierr.New(apierr.Invalid, "invalid_parameter", "There is no such delivery any more. Start over without after.").At("query", "after")
		}
		before = seen.Position
	}
	all, err := selectDeliveries(ctx, tx, e, p, filter, before, p.Limit+1)
	if len(all) > p.Limit {
		return all[:p.Limit], true, err
	}
	return all, false, err
}

// GetDelivery reads one delivery with its event and its attempts, oldest first.
func GetDelivery(ctx context.Context, tx *db.Tx, by identity.Principal, id, eventID string) (Delivery, webhook.StoredEvent, []Attempt, error) {
	e, err := Get(ctx, tx, by, id)
	if err != nil {
		return Delivery{}, webhook.StoredEvent{}, nil, err
	}
	ev, err := webhook.Get(ctx, tx, e.CompanyID, eventID)
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

// Redeliver sends one event to an endpoint again, now and by a fresh schedule, whether it was delivered before or not.
func Redeliver(ctx context.Context, tx *db.Tx, by identity.Principal, id, eventID string) (Delivery, error) {
	if err := manages(by); err != nil {
		return Delivery{}, err
	}
	e, err := Get(ctx, tx, by, id)
	if err != nil {
		return Delivery{}, err
	}
	if !e.enabled() {
		return Delivery{}, ErrDisabled
	}
	ev, err := webhook.Get(ctx, tx, e.CompanyID, eventID)
	if err != nil {
		return Delivery{}, err
	}
	if err := restart(ctx, tx, e, []webhook.StoredEvent{ev}, false); err != nil {
		return Delivery{}, err
	}
	wake(tx, e.CompanyID, e.ID)
	return selectDelivery(ctx, tx, e, ev.Position)
}

// The kinds of this package's jobs.
const (
	JobClear  = "webhook.clear"  // cancels what is pending for a disabled endpoint, deletes what a deleted one left
	JobReplay = "webhook.replay" // restarts a range of deliveries
)

// chunk is how many deliveries one transaction of a job touches.
const chunk = 500

type clearing struct {
	EndpointID string `json:"endpoint_id"`
}

func clearLater(tx *db.Tx, companyID, endpointID string) {
	job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobClear, Payload: clearing{endpointID}})
}

// Clear looks at an endpoint that was disabled or deleted and takes a part of what it left behind; the rest is a next job's.
// An endpoint that was enabled again keeps what is still pending.
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

// Range chooses what to send again.
type Range struct {
	From, To time.Time // of the events; To is not included
	All      bool      // also what was delivered; otherwise what failed, was cancelled or blocked, or was never tried
}

type replay struct {
	EndpointID string `json:"endpoint_id"`
	From       int64  `json:"from"`
	To         int64  `json:"to"`
	All        bool   `json:"all"`
	After      string `json:"after"` // last event of the part before
}

// Replay sends a range of events to an endpoint again, in the background.
func Replay(ctx context.Context, tx *db.Tx, by identity.Principal, id string, r Range) (Endpoint, error) {
	if err := manages(by); err != nil {
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
		return Endpoint{}, apierr.New(apierr.Invalid, "invalid_parameter", "The range ends before it starts, or is more than 30 days ago.").At("body", "/to")
	}
	job.Enqueue(tx, job.New{CompanyID: e.CompanyID, Kind: JobReplay, Payload: replay{EndpointID: e.ID, From: db.Micros(r.From), To: db.Micros(r.To), All: r.All}})
	return e, nil
}

// HandleReplay restarts a part of a range; the rest is a next job's.
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
	events, more, err := webhook.List(ctx, tx, webhook.ListParams{CompanyID: e.CompanyID, From: db.Time(in.From), To: db.Time(in.To), After: in.After, Limit: chunk})
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

// Prune deletes events that are too old to be read, with their deliveries.
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
		panic("delivery: a filter is strings: " + err.Error())
	}
	return string(text)
}
