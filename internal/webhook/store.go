package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/fault"
)

var eventRows = db.InsertGroup(95, "events", "company_id", "event_id", "object_id", "sequence", "name", "data", "created_at")

func insertEvent(tx *db.Tx, id string, e Event, data string) {
	tx.Defer(eventRows, []any{e.CompanyID, id, e.ObjectID, e.Sequence, e.Name, data, db.Micros(tx.Now())})
}

// nextSequence keeps other events of the object waiting until the commit. What was emitted before the object had a counter counts.
func nextSequence(ctx context.Context, tx *db.Tx, companyID, objectID string) (next int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO event_sequences (company_id, object_id, sequence)
		SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), COALESCE(MAX(sequence), 1) + 1 FROM events WHERE company_id = $1 AND object_id = $2
		ON CONFLICT (company_id, object_id) DO UPDATE SET sequence = event_sequences.sequence + 1
		RETURNING sequence`, companyID, objectID).Scan(&next)
	return next, err
}

// settingHead is the last position that was given out.
const settingHead = "webhook.position"

// lockHead reads the last position and keeps others from placing until the commit.
func lockHead(ctx context.Context, tx *db.Tx) (head int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO settings (key, value) VALUES ($1, '0')
		ON CONFLICT (key) DO UPDATE SET value = settings.value RETURNING CAST(value AS BIGINT)`, settingHead).Scan(&head)
	return head, err
}

func moveHead(ctx context.Context, tx *db.Tx, to int64) error {
	_, err := tx.Exec(ctx, "UPDATE settings SET value = CAST(CAST($1 AS BIGINT) AS TEXT) WHERE key = $2", to, settingHead)
	return err
}

// oldestNew are the events that have no position yet, in the order of their instants.
const oldestNew = "SELECT " + eventColumns + " FROM events WHERE position = 0 ORDER BY created_at, sequence, event_id LIMIT $1"

// earlier are those that come before one of the oldest of the same object. CROSS JOIN has SQLite look for them by object: it joins
// in the order that is written, and would otherwise begin with all events.
const earlier = `SELECT e.company_id, e.event_id, e.object_id, e.name, e.sequence, e.position, e.data, e.created_at
	FROM (` + oldestNew + `) AS o CROSS JOIN events AS e
	WHERE e.company_id = o.company_id AND e.object_id = o.object_id AND e.sequence < o.sequence AND e.position = 0`

// selectNew are the oldest events that have no position yet, and what comes before them of the same objects: where more than limit
// wait, that may not be among the oldest, since instants do not say what committed last.
func selectNew(ctx context.Context, tx *db.Tx, limit int) ([]Placed, error) {
	rows, err := tx.Query(ctx, oldestNew, int64(limit))
	events, err := db.Collect(rows, err, scanEvent)
	if err != nil || len(events) < limit {
		return events, err
	}
	rows, err = tx.Query(ctx, earlier, int64(limit))
	before, err := db.Collect(rows, err, scanEvent)
	events = append(events, before...)
	slices.SortFunc(events, func(a, b Placed) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(events, func(a, b Placed) bool { return a.ID == b.ID }), err
}

// place names events one by one: to join them with a list of positions SQLite would read all events.
const place = "UPDATE events SET position = $3 WHERE company_id = $1 AND event_id = $2"

func setPositions(ctx context.Context, tx *db.Tx, events []Placed) error {
	statements := make([]*db.Statement, len(events))
	for i, e := range events {
		statements[i] = &db.Statement{Query: place, Args: []any{e.CompanyID, e.ID, e.Position}}
	}
	return tx.ExecAll(ctx, statements)
}

func anyNew(ctx context.Context, tx *db.Tx) (bool, error) {
	var one int64
	err := tx.QueryRow(ctx, "SELECT 1 FROM events WHERE position = 0 LIMIT 1").Scan(&one)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

const eventColumns = "company_id, event_id, object_id, name, sequence, position, data, created_at"

func scanEvent(r *db.Rows) (p Placed, err error) {
	var data string
	var created int64
	err = r.Scan(&p.CompanyID, &p.ID, &p.ObjectID, &p.Name, &p.Sequence, &p.Position, &data, &created)
	p.Data, p.Created = []byte(data), db.Time(created)
	return p, err
}

func selectEvent(ctx context.Context, tx *db.Tx, companyID, id string) (Placed, error) {
	rows, err := tx.Query(ctx, "SELECT "+eventColumns+" FROM events WHERE company_id = $1 AND event_id = $2 AND position > 0", companyID, id)
	found, err := db.Collect(rows, err, scanEvent)
	switch {
	case err != nil:
		return Placed{}, err
	case len(found) == 0:
		return Placed{}, fault.NotFoundErr
	}
	return found[0], nil
}

func selectEvents(ctx context.Context, tx *db.Tx, p ListParams, filter Filter, after int64, limit int) ([]Placed, error) {
	var where strings.Builder
	args := []any{p.CompanyID}
	and := func(condition string, values ...any) {
		binds := make([]any, len(values))
		for i, v := range values {
			args = append(args, v)
			binds[i] = len(args)
		}
		fmt.Fprintf(&where, " AND "+condition, binds...)
	}
	and("position > 0") // as the index says it
	switch {
	case !p.Newest:
		and("position > $%d", after)
	case after > 0:
		and("position < $%d", after)
	}
	and("created_at >= $%d", db.Micros(p.From))
	if !p.To.IsZero() {
		and("created_at < $%d", db.Micros(p.To))
	}
	if p.ObjectID != "" {
		and("object_id = $%d", p.ObjectID)
	}
	chosen, names := filter.SQL("name", len(args)+1)
	where.WriteString(chosen)
	args = append(args, names...)
	order := "ASC"
	if p.Newest {
		order = "DESC"
	}
	rows, err := tx.Query(ctx, "SELECT "+eventColumns+" FROM events WHERE company_id = $1"+where.String()+
		fmt.Sprintf(" ORDER BY position %s LIMIT %d", order, limit), args...)
	return db.Collect(rows, err, scanEvent)
}

// SQL is the filter as a condition on a column of names, from " AND" on, with its binds counted from first.
func (f Filter) SQL(column string, first int) (condition string, args []any) {
	var choices []string
	for _, name := range f {
		before, isPrefix := strings.CutSuffix(name, "*")
		if isPrefix {
			choices = append(choices, fmt.Sprintf("SUBSTR(%s, 1, %d) = $%d", column, len(before), first+len(args)))
		} else {
			choices = append(choices, fmt.Sprintf("%s = $%d", column, first+len(args)))
		}
		args = append(args, before)
	}
	if len(choices) == 0 {
		return "", nil
	}
	return " AND (" + strings.Join(choices, " OR ") + ")", args
}

func deleteOld(ctx context.Context, tx *db.Tx, before int64, limit int) ([]int64, error) {
	rows, err := tx.Query(ctx, `DELETE FROM events WHERE (company_id, event_id) IN (
			SELECT company_id, event_id FROM events WHERE created_at < $1 AND position > 0 ORDER BY created_at LIMIT $2)
		RETURNING position`, before, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (position int64, err error) { return position, r.Scan(&position) })
}
