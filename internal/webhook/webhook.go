// Package webhook declares and stores events. An event reports a change of an object of a company or of a user.
// Package delivery sends events to endpoints of the company and of the apps that the company or the user has
// connected.
//
// An event is a row that is committed together with the change that it reports. Its data is a snapshot of the object
// at that time. The events of an object have ascending sequences.
//
// An event gets its position directly before its commit. Readers stop before the positions of transactions that have
// not ended, so a reader that continues after a position misses no event. IDs and times are assigned earlier, so
// readers cannot rely on their order.
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

// Kept is how long an event can be read and sent again.
const Kept = 30 * 24 * time.Hour

// APIVersion is the version of the API whose formats events use.
const APIVersion = "2.0"

// NoticeNew is the topic of the notice in this process that events were committed.
const NoticeNew = "webhook.new"

// Emit stores events, in this order. They are written directly before the commit. An event of a user is stored only
// if the user has connected an app.
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

// EmitNext stores events and assigns each the next sequence of its object. It is for objects that have no version
// because they are stored in several rows: users, recipients and companies. The function that creates such an object
// may emit its first event with sequence 1.
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

// StoredEvent is a committed event, which therefore has a position.
type StoredEvent struct {
	CompanyID, ID, ObjectID, Name string // the CompanyID of a user's event is the user's ID
	Sequence, Position            int64
	Data                          json.RawMessage
	Created                       time.Time
}

// Body returns the JSON text to send, which is the same in every attempt.
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
		panic("webhook: the stored data of an event is not JSON: " + err.Error()) // Emit encoded the data
	}
	return text
}

// Next returns at most limit events that follow those of the previous call, in the order of their positions and
// without their data. The commit stores the position of the last event. If calls run concurrently, only one of them
// returns the events.
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

// Waiting reports whether [Next] would return any events.
func Waiting(ctx context.Context, tx *db.Tx) (bool, error) { return anyWaiting(ctx, tx) }

// Source selects the events of a company or, if AppID is set, the events of all companies and users who have
// connected the app.
type Source struct{ CompanyID, AppID string }

// ListParams selects events of a source. Zero values select everything.
type ListParams struct {
	CompanyID string
	AppID     string // selects the events of all who have connected the app, instead of those of CompanyID
	Names     string // names and prefixes ("payroll.*") of events, separated by commas
	ObjectID  string
	From, To  time.Time // From is inclusive, To is exclusive
	After     string    // ID of the event after which the list begins
	Newest    bool      // newest first
	Limit     int
}

var errAfter = apierr.New(apierr.Invalid, "invalid_parameter",
	"The `after` cursor has expired. Events are kept for 30 days. Start again without it, with `from`.")

// List returns events in the order of their positions, or in reverse, and reports whether more follow.
func List(ctx context.Context, tx *db.Tx, p ListParams) (events []StoredEvent, more bool, err error) {
	filter, err := ParseNames(p.Names)
	if err != nil {
		return nil, false, err
	}
	if oldest := tx.Now().Add(-Kept); p.From.Before(oldest) {
		p.From = oldest // excludes expired events that Prune has not deleted yet
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

// Get returns an event of a source, or apierr.NotFoundErr if the source has no such event.
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

// Position returns the position of an event of a source, or an error if there is no such event. It also finds events
// of companies and users who have since disconnected the source's app, so that a reader can continue after them.
func Position(ctx context.Context, tx *db.Tx, from Source, id string) (int64, error) {
	return selectPosition(ctx, tx, from, id)
}

// ByPosition returns events of any company by their positions. It omits positions without an event.
func ByPosition(ctx context.Context, tx *db.Tx, positions ...int64) (map[int64]StoredEvent, error) {
	return selectByPosition(ctx, tx, positions)
}

// Filter selects events by name. It contains names and prefixes such as "payroll.*". An empty filter selects all
// events.
type Filter []string

var (
	errFilter = apierr.New(apierr.Invalid, "invalid_parameter",
		"There is no such event. Use names such as payroll.created, prefixes such as payroll.*, or * for all.")
	prefix = regexp.MustCompile(`^[a-z_]+\.\*$`)
)

// ParseFilter parses names and prefixes; "*" selects all events. Each must select at least one existing event.
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

// OfPlatform reports whether a name or prefix selects only events of platforms. Such events belong to the platform's
// own company, never to a company that has connected an app.
func OfPlatform(name string) bool { return strings.HasPrefix(strings.TrimSpace(name), "platform.") }

// ParseNames parses the filter of a list of events: names and prefixes, separated by commas. "" selects all events.
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

// pruneSize is the maximum number of events that one transaction deletes.
const pruneSize = 2000

// Prune deletes events older than [Kept], in small transactions, and returns the position of the last event deleted.
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
