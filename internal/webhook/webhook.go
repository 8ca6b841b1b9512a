// Package webhook declares and stores events, which report changes of an object of a company or of a user. Package
// delivery sends them to the endpoints of the company, and of the apps that the company or the user has connected.
//
// An event is a row that is committed together with the change that it reports. Its data is a snapshot of that time.
// The events of an object have ascending sequences.
//
// Directly before its commit an event gets a position. Readers stop before positions of transactions that have not
// ended, so a reader that continues after a position misses nothing. IDs and times are assigned earlier and are in no
// order that a reader could rely on.
package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// Kept is the time for which an event can be read and sent again.
const Kept = 30 * 24 * time.Hour

// APIVersion is the version of the interface that events follow.
const APIVersion = "2.0"

// NoticeNew is the in-process topic that is notified when events were committed.
const NoticeNew = "webhook.new"

// Emit stores events in this order. They are written directly before the commit, those of users only if the user has
// connected an app.
func Emit(tx *db.Tx, events ...Event) error {
	for _, e := range events {
		if e.name == "" || e.Sequence < 1 {
			return fmt.Errorf("webhook: event %q of %s is not declared or has no sequence", e.name, e.ObjectID)
		}
		data, err := json.Marshal(e.data)
		if err != nil {
			return fmt.Errorf("event %s of %s: %w", e.name, e.ObjectID, err)
		}
		insertEvent(tx, cmp.Or(e.ID, tx.NewID("evt")), e, string(data))
	}
	tx.Notify(NoticeNew)
	return nil
}

// EmitNext stores events with the next sequences of their objects. It is for objects without a version, which are
// stored in several rows: users, recipients, companies. The function that creates such an object may emit its first
// event with sequence 1.
func EmitNext(ctx context.Context, tx *db.Tx, events ...Event) (err error) {
	for _, e := range events {
		ctx := ctx
		if identity.IsUser(e.CompanyID) {
			ctx = ofPeople(ctx)
			if found, err := selectReaders(ctx, tx, []string{e.CompanyID}); err != nil || !found[e.CompanyID] {
				return err
			}
		}
		if e.Sequence, err = nextSequence(ctx, tx, e.CompanyID, e.ObjectID); err != nil {
			return err
		}
		if err := Emit(tx, e); err != nil {
			return err
		}
	}
	return nil
}

// StoredEvent is an event that has been committed and so has a position.
type StoredEvent struct {
	CompanyID, ID, ObjectID, Name string // the CompanyID of a user's event is the user's ID
	Sequence, Position            int64
	Data                          json.RawMessage
	Created                       time.Time
}

// Body returns the JSON text that is sent: the same bytes at every attempt.
func (e StoredEvent) Body(environment string) []byte {
	companyID, userID := e.CompanyID, ""
	if identity.IsUser(companyID) {
		companyID, userID = "", companyID
	}
	text, err := json.Marshal(struct {
		Event       string          `json:"event"`
		Data        json.RawMessage `json:"data"`
		ID          string          `json:"id"`
		Created     string          `json:"created"`
		Environment string          `json:"environment"`
		APIVersion  string          `json:"api_version"`
		CompanyID   string          `json:"company_id"`
		UserID      string          `json:"user_id"`
		Sequence    int64           `json:"sequence"`
	}{e.Name, e.Data, e.ID, e.Created.UTC().Format("2006-01-02T15:04:05.000Z"), environment, APIVersion, companyID,
		userID, e.Sequence})
	if err != nil {
		panic("webhook: the stored data of an event is not JSON: " + err.Error()) // the data was encoded by Emit
	}
	return text
}

// Next returns at most limit events that follow those of the previous call, by position and without their data. Its
// commit stores the position of the last one. If calls run concurrently, only one of them returns the events.
func Next(ctx context.Context, tx *db.Tx, limit int) ([]StoredEvent, error) {
	cursor, err := selectCursor(ctx, tx)
	if err != nil {
		return nil, err
	}
	events, err := selectNext(ctx, tx, cursor, limit)
	if err != nil || len(events) == 0 {
		return nil, err
	}
	if first, err := advanceCursor(ctx, tx, cursor, events[len(events)-1].Position); err != nil || !first {
		return nil, err
	}
	return events, nil
}

// Waiting reports whether Next would return anything.
func Waiting(ctx context.Context, tx *db.Tx) (bool, error) { return anyWaiting(ctx, tx) }

// Source selects the events of a company or, with an AppID, those of all companies and users who have connected the
// app.
type Source struct{ CompanyID, AppID string }

// ListParams selects events of a source. Zero values select everything.
type ListParams struct {
	CompanyID string
	AppID     string // selects the events of all who have connected the app, and not those of CompanyID
	Names     string // names and prefixes ("payroll.*"), separated by commas
	ObjectID  string
	From, To  time.Time // From is inclusive, To is exclusive
	After     string    // ID of the last event that the caller has; the list continues after it
	Newest    bool      // newest first
	Limit     int
}

var errAfter = apierr.New(apierr.Invalid, "invalid_parameter",
	"The `after` cursor has expired. Events are kept for 30 days. Start again without it, with `from`.")

// List returns events in the order of their positions, and reports whether there are more.
func List(ctx context.Context, tx *db.Tx, p ListParams) (events []StoredEvent, more bool, err error) {
	filter, err := ParseNames(p.Names)
	if err != nil {
		return nil, false, err
	}
	if oldest := tx.Now().Add(-Kept); p.From.Before(oldest) {
		p.From = oldest // includes expired events that Prune has not deleted yet
	}
	var after int64
	if p.After != "" {
		if after, err = Position(ctx, tx, Source{p.CompanyID, p.AppID}, p.After); err != nil {
			return nil, false, errAfter.At("query", "after")
		}
	}
	events, err = selectEvents(ctx, tx, p, filter, after, p.Limit+1)
	if len(events) > p.Limit {
		return events[:p.Limit], true, err
	}
	return events, false, err
}

// Get returns an event of a source, or apierr.NotFoundErr.
func Get(ctx context.Context, tx *db.Tx, from Source, id string) (StoredEvent, error) {
	events, err := selectByID(ctx, tx, from, id)
	if err == nil && len(events) == 0 {
		err = apierr.NotFoundErr
	}
	if err != nil {
		return StoredEvent{}, err
	}
	return events[0], nil
}

// Position returns the position of an event of a source, or an error if there is none. Events of companies and users
// who disconnected the source's app since then have positions too, so that a reader can go on behind them.
func Position(ctx context.Context, tx *db.Tx, from Source, id string) (int64, error) {
	return selectPosition(ctx, tx, from, id)
}

// ByPosition returns events of any company by their positions. Events that do not exist are left out.
func ByPosition(ctx context.Context, tx *db.Tx, positions ...int64) (map[int64]StoredEvent, error) {
	return selectByPosition(ctx, tx, positions)
}

// Filter selects events by name: names and prefixes such as "payroll.*". An empty filter selects all.
type Filter []string

var (
	errFilter = apierr.New(apierr.Invalid, "invalid_parameter",
		"There is no such event. Use names such as payroll.created, prefixes such as payroll.*, or * for all.")
	prefix = regexp.MustCompile(`^[a-z_]+\.\*$`)
)

// ParseFilter parses names and prefixes; "*" selects all. Each must select at least one event that exists.
func ParseFilter(names []string) (Filter, error) {
	f := Filter{}
	for _, name := range names {
		name = strings.TrimSpace(name)
		switch {
		case name == "*":
			return Filter{}, nil
		case slices.Contains(Names(), name), prefix.MatchString(name) && slices.ContainsFunc(Names(), Filter{name}.Has):
			if !slices.Contains(f, name) {
				f = append(f, name)
			}
		default:
			return nil, errFilter
		}
	}
	return f, nil
}

// OfPlatform reports whether a name or prefix selects only events of platforms. These belong to the platform's own
// company, never to one that is connected to an app.
func OfPlatform(name string) bool { return strings.HasPrefix(strings.TrimSpace(name), "platform.") }

// ParseNames parses the filter of a list: names and prefixes, separated by commas. "" selects all.
func ParseNames(list string) (Filter, error) {
	if list == "" {
		return nil, nil
	}
	f, err := ParseFilter(strings.Split(list, ","))
	if err != nil {
		return nil, errFilter.At("query", "name")
	}
	return f, nil
}

// Has reports whether the filter selects an event.
func (f Filter) Has(name string) bool {
	return len(f) == 0 || slices.ContainsFunc(f, func(wanted string) bool {
		if before, ok := strings.CutSuffix(wanted, "*"); ok {
			return strings.HasPrefix(name, before)
		}
		return name == wanted
	})
}

// pruneSize is the number of events that one transaction deletes.
const pruneSize = 2000

// Prune deletes events older than Kept, in small transactions, and returns the position of the last one deleted.
func Prune(ctx context.Context, d *db.DB) (upTo int64, err error) {
	for {
		n := 0
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			gone, err := deleteOld(ctx, tx, db.Micros(tx.Now().Add(-Kept)), pruneSize)
			n = len(gone)
			for _, position := range gone {
				upTo = max(upTo, position)
			}
			return err
		})
		if err != nil || n < pruneSize {
			return upTo, err
		}
	}
}
