// Package webhook owns the events that partners hear of; package delivery below it brings them to their endpoints.
//
// An event is a row that commits with the change it tells of: the snapshot taken then is what is told, however
// late. Each event of an object carries the object's sequence, so a reader can put them in order.
//
// On its way to the commit an event gets a position behind everything that has committed before. Ids and instants are made earlier,
// so they cannot say what committed last; a reader who goes on after a position misses nothing.
package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

// Event is something that happened to an object of a company.
type Event struct {
	CompanyID string
	Name      string // "payroll.created"
	ObjectID  string
	Sequence  int64 // the object's version after the change, or given by [EmitNext]; one event per object, name and sequence
	Data      any   // the event's data, written as JSON
}

// Appender is data that writes itself, for what is told very often. It writes what encoding/json would.
type Appender interface {
	AppendJSON(text []byte) []byte
}

func (e Event) appendJSON(text []byte) ([]byte, error) {
	if a, ok := e.Data.(Appender); ok {
		return a.AppendJSON(text), nil
	}
	data, err := json.Marshal(e.Data)
	if err != nil {
		return nil, fmt.Errorf("event %s of %s: %w", e.Name, e.ObjectID, err)
	}
	return append(text, data...), nil
}

// Test is the event that asks an endpoint for a sign of life. Only the endpoint that is its object gets it.
const Test = "webhook.test"

// Names are all events that there are.
var Names = []string{
	"claim.created", "claim.quote_expired", "claim.quote_refreshed", "claim.status_update",
	"company.kyb_status_update",
	"distribution.changed", "distribution.correction_asked",
	"invitation.accepted", "invitation.expired", "invitation.revoked", "invitation.sent",
	"invoice.created", "invoice.status_update",
	"merchant.settings_update",
	"payer.created", "payer.status_update",
	"payout.delayed", "payout.returned",
	"payroll.created", "payroll.funding_detected", "payroll.funding_late", "payroll.funding_reverted",
	"payroll.quote_expired", "payroll.quote_refreshed", "payroll.status_update",
	"recipient.created", "recipient.status_update",
	"refund.created", "refund.status_update",
	"settlement.created",
	"transfer.received", "transfer.status_update",
	"user.create_user", "user.funding_account_status", "user.kyc_status_update", "user.payment_status_update",
	"withdrawal.created", "withdrawal.status_update",
	"wallet.created", "wallet.deposit_update", "wallet.status_update",
	"webhook.status_update", Test,
}

// Kept is how long an event can be read and replayed.
const Kept = 30 * 24 * time.Hour

// APIVersion is the version of the interface in whose words events speak.
const APIVersion = "2.0"

// NoticeNew is the notice that there are new events.
const NoticeNew = "webhook.new"

// Emit leaves an event for the commit.
func Emit(tx *db.Tx, e Event) error {
	_, err := EmitID(tx, e)
	return err
}

// EmitNext is Emit for an object whose changes several rows tell of, each with a version of its own: a person, a recipient, a
// company. It gives the event the object's next sequence. What makes such an object may emit its first event with sequence 1.
func EmitNext(ctx context.Context, tx *db.Tx, e Event) (err error) {
	if e.Sequence, err = nextSequence(ctx, tx, e.CompanyID, e.ObjectID); err != nil {
		return err
	}
	return Emit(tx, e)
}

// EmitID is Emit for who must know the event's id.
func EmitID(tx *db.Tx, e Event) (id string, err error) {
	data, err := e.appendJSON(nil)
	if err != nil {
		return "", err
	}
	id = tx.NewID("evt")
	insertEvent(tx, id, e, string(data), "")
	tx.Notify(NoticeNew)
	return id, nil
}

// Placed is an event that has committed, and so has its position.
type Placed struct {
	CompanyID, ID, ObjectID, Name string
	Sequence, Position            int64
	Data                          json.RawMessage
	Created                       time.Time
}

// Body is what is sent of an event: the same bytes at every attempt.
func (p Placed) Body(environment string) []byte {
	text, err := json.Marshal(struct {
		Event       string          `json:"event"`
		Data        json.RawMessage `json:"data"`
		ID          string          `json:"id"`
		Created     string          `json:"created"`
		Environment string          `json:"environment"`
		APIVersion  string          `json:"api_version"`
		Sequence    int64           `json:"sequence"`
	}{p.Name, p.Data, p.ID, p.Created.UTC().Format("2006-01-02T15:04:05.000Z"), environment, APIVersion, p.Sequence})
	if err != nil {
		panic("webhook: an event's stored data is no JSON: " + err.Error()) // Emit wrote it
	}
	return text
}

// Next returns the events, without their data, that follow those it has returned before, in the order of their positions and at most limit.
// What it returns counts with the commit. Of several callers at once one gets them and the others nothing.
func Next(ctx context.Context, tx *db.Tx, limit int) ([]Placed, error) {
	mark, err := selectMark(ctx, tx)
	if err != nil {
		return nil, err
	}
	rows, err := selectFollowing(ctx, tx, mark, limit)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	var events []Placed
	for _, r := range rows {
		for _, e := range r.events() {
			if e.Position > mark { // the last row may have been taken in part
				events = append(events, e)
			}
		}
		if len(events) >= limit {
			events = events[:limit]
			break
		}
	}
	if first, err := moveMark(ctx, tx, mark, events[len(events)-1].Position); err != nil || !first {
		return nil, err
	}
	return events, nil
}

// Waiting says whether Next would return anything.
func Waiting(ctx context.Context, tx *db.Tx) (bool, error) { return anyNew(ctx, tx) }

// ListParams chooses events of a company. Zero values choose everything.
type ListParams struct {
	CompanyID string
	Names     string // names and prefixes ("payroll.*"), separated by commas
	ObjectID  string
	From, To  time.Time // From is included, To is not
	After     string    // id of the last event that was seen
	Newest    bool      // newest first
	Limit     int
}

var errAfter = apierr.New(apierr.Invalid, "invalid_parameter", "There is no such event any more. Events are kept for 30 days; start over without after, and with from.")

// List returns events in the order of their positions, and whether there are more.
func List(ctx context.Context, tx *db.Tx, p ListParams) (events []Placed, more bool, err error) {
	filter, err := ParseNames(p.Names)
	if err != nil {
		return nil, false, err
	}
	if oldest := tx.Now().Add(-Kept); p.From.Before(oldest) {
		p.From = oldest // also what the next pruning will take
	}
	var after int64
	if p.After != "" {
		e, err := Get(ctx, tx, p.CompanyID, p.After)
		if err != nil {
			return nil, false, errAfter.At("query", "after")
		}
		after = e.Position
	}
	events, err = selectEvents(ctx, tx, p, filter, after, p.Limit+1)
	if len(events) > p.Limit {
		return events[:p.Limit], true, err
	}
	return events, false, err
}

// Get reads an event of a company, or says apierr.NotFoundErr.
func Get(ctx context.Context, tx *db.Tx, companyID, id string) (Placed, error) {
	found, err := Named(ctx, tx, companyID, id)
	e, there := found[id]
	if err == nil && !there {
		err = apierr.NotFoundErr
	}
	return e, err
}

// Named reads events of a company by their ids. Those that there are not are left out.
func Named(ctx context.Context, tx *db.Tx, companyID string, ids ...string) (map[string]Placed, error) {
	return selectNamed(ctx, tx, companyID, ids...)
}

// Filter is a choice of events by name: names and prefixes such as "payroll.*". An empty one chooses all.
type Filter []string

var (
	errFilter = apierr.New(apierr.Invalid, "invalid_parameter", "There is no such event. Use names such as payroll.created, prefixes such as payroll.*, or * for all.")
	prefix    = regexp.MustCompile(`^[a-z_]+\.\*$`)
)

// ParseFilter reads names and prefixes; "*" among them chooses all. Each must choose at least one event that exists.
func ParseFilter(names []string) (Filter, error) {
	f := Filter{}
	for _, name := range names {
		name = strings.TrimSpace(name)
		switch {
		case name == "*":
			return Filter{}, nil
		case slices.Contains(Names, name), prefix.MatchString(name) && slices.ContainsFunc(Names, Filter{name}.Has):
			if !slices.Contains(f, name) {
				f = append(f, name)
			}
		default:
			return nil, errFilter
		}
	}
	return f, nil
}

// ParseNames reads the filter of a list: names and prefixes, separated by commas. "" chooses all.
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

// Has says whether the filter chooses an event.
func (f Filter) Has(name string) bool {
	return len(f) == 0 || slices.ContainsFunc(f, func(wanted string) bool {
		if before, ok := strings.CutSuffix(wanted, "*"); ok {
			return strings.HasPrefix(name, before)
		}
		return name == wanted
	})
}

// pruneSize is how many events one transaction deletes.
const pruneSize = 2000

// Prune deletes events that are older than Kept, in small transactions, and returns the position up to which it did.
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
