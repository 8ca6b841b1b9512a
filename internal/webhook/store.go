package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/db"
)

// eventRows inserts events directly before the commit, in the order of the Emit calls. At that time the transaction
// holds the locks of all objects that it has changed, so the positions of an object's events are in the order of its
// changes.
var eventRows = db.PreCommit(insertEvents)

const eventColumns = "company_id, event_id, object_id, sequence, name, data, created_at"

func insertEvents(ctx context.Context, tx *db.Tx, rows [][]any) error {
	if slices.ContainsFunc(rows, ofUser) {
		ctx = ofPeople(ctx)
	}
	rows, err := withReaders(ctx, tx, rows)
	if err != nil || len(rows) == 0 {
		return err
	}
	if tx.Engine() == db.SQLite {
		last, err := reservePositions(ctx, tx, int64(len(rows)))
		if err != nil {
			return err
		}
		for i := range rows {
			rows[i] = append(rows[i], last-int64(len(rows)-1-i))
		}
		return tx.Insert(ctx, "events", strings.Split(eventColumns+", position", ", "), rows)
	}
	if err := tx.Queue(ctx, announce, positionLock); err != nil {
		return err
	}
	for values, args := range db.BindRows(tx, rows, 1) {
		query := "INSERT INTO events (" + eventColumns + ", position) " + withPositions(values)
		if err := tx.Queue(ctx, query, args...); err != nil {
			return err
		}
	}
	return nil
}

func insertEvent(tx *db.Tx, id string, e Event, data string) {
	eventRows.Add(tx, []any{e.CompanyID, id, e.ObjectID, e.Sequence, e.name, data, db.Micros(tx.Now())})
}

// positionLock is the first key of a PostgreSQL advisory lock that a transaction holds from before it takes positions
// until it ends. The second key is the lower half of the last position that had been taken before. The locks are
// shared, so no transaction waits for them.
const positionLock int32 = 7_020_265

const (
	lastTaken = "CASE WHEN is_called THEN last_value ELSE 0 END"
	announce  = "SELECT pg_advisory_xact_lock_shared($1, CAST(CAST(" + lastTaken + ` AS BIT(32)) AS INTEGER))
		FROM event_positions_position_seq`
	takenPositions = "SELECT " + lastTaken + " FROM event_positions_position_seq"
	announced      = `SELECT CAST(objid AS BIGINT) FROM pg_locks WHERE locktype = 'advisory' AND classid = CAST($1 AS OID)
		AND objsubid = 2 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
)

// settled returns a position up to which all events are final: later statements of the transaction see every event
// with a position up to it, and no more such events can appear. PostgreSQL transactions take positions before they
// commit, and they commit concurrently, so an event can become visible before an event with a lower position.
//
// The function first reads the last position taken. Transactions that take positions after that get greater ones. A
// transaction that took positions earlier has either ended, so that statements that begin now see its events, or
// still holds its positionLock, whose second key states the position after which its own positions begin.
func settled(ctx context.Context, tx *db.Tx) (position int64, err error) {
	if tx.Engine() == db.SQLite {
		return math.MaxInt64, nil // one transaction writes at a time
	}
	var taken int64
	var open []int64
	if err := tx.Batch(ctx, []db.Statement{
		{Query: takenPositions, Row: func(r *db.Rows) error { return r.Scan(&taken) }},
		db.CollectInto(&open, func(r *db.Rows) (low int64, err error) { return low, r.Scan(&low) },
			announced, int64(positionLock)),
	}); err != nil {
		return 0, err
	}
	position = taken
	for _, low := range open {
		behind := int32(uint32(taken) - uint32(low)) // signed difference of the lower halves
		position = min(position, taken-int64(behind))
	}
	return position, tx.Renew(ctx)
}

// reservePositions reserves the next n positions on SQLite and returns the last of them.
func reservePositions(ctx context.Context, tx *db.Tx, n int64) (last int64, err error) {
	err = tx.QueryRow(ctx, `UPDATE event_cursors SET position = position + $1 WHERE name = 'assigned'
		RETURNING position`, n).Scan(&last)
	return last, err
}

// withPositions returns a query that adds the next value of a PostgreSQL sequence to each row, in order. It uses a
// sequence because a counter row that every commit updates would leave dead row versions, which slow down all readers
// while a backup runs.
func withPositions(rows string) string {
	return "SELECT r.*, nextval('event_positions_position_seq') FROM (" + rows + ") AS r (" + eventColumns + ")"
}

// nextSequence increments the counter of an object's events and returns its new value. It locks the counter's row
// until the commit.
func nextSequence(ctx context.Context, tx *db.Tx, companyID, objectID string) (next int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO event_sequences (company_id, object_id, sequence)
		SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), COALESCE(MAX(sequence), 1) + 1 FROM events
		WHERE company_id = $1 AND object_id = $2
		ON CONFLICT (company_id, object_id) DO UPDATE SET sequence = event_sequences.sequence + 1
		RETURNING sequence`, companyID, objectID).Scan(&next)
	return next, err
}

func selectCursor(ctx context.Context, tx *db.Tx) (position int64, err error) {
	err = tx.QueryRow(ctx, "SELECT position FROM event_cursors WHERE name = 'queued'").Scan(&position)
	return position, err
}

// advanceCursor sets the cursor of [Next] to the position to, and reports whether the cursor still was at the
// position from.
func advanceCursor(ctx context.Context, tx *db.Tx, from, to int64) (bool, error) {
	n, err := tx.Exec(ctx, "UPDATE event_cursors SET position = $1 WHERE name = 'queued' AND position = $2", to, from)
	return n == 1, err
}

// nextEvents selects events within a range of positions, without their data.
const nextEvents = `SELECT company_id, event_id, object_id, name, sequence, position, created_at FROM events
	WHERE position > $1 AND position <= $2 ORDER BY position LIMIT $3`

func selectNext(ctx context.Context, tx *db.Tx, after int64, limit int) ([]StoredEvent, error) {
	last, err := settled(ctx, tx)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, nextEvents, after, last, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (e StoredEvent, err error) {
		var created int64
		err = r.Scan(&e.CompanyID, &e.ID, &e.ObjectID, &e.Name, &e.Sequence, &e.Position, &created)
		e.Created = db.Time(created)
		return e, err
	})
}

const waiting = `SELECT 1 FROM events WHERE position > (SELECT position FROM event_cursors WHERE name = 'queued')
	ORDER BY position LIMIT 1`

func anyWaiting(ctx context.Context, tx *db.Tx) (bool, error) {
	var one int64
	err := tx.QueryRow(ctx, waiting).Scan(&one)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func queryEvents(ctx context.Context, tx *db.Tx, where string, args ...any) ([]StoredEvent, error) {
	rows, err := tx.Query(ctx, "SELECT "+eventColumns+", position FROM events WHERE "+where, args...)
	return db.Collect(rows, err, func(r *db.Rows) (e StoredEvent, err error) {
		var data string
		var created int64
		err = r.Scan(&e.CompanyID, &e.ID, &e.ObjectID, &e.Sequence, &e.Name, &data, &created, &e.Position)
		e.Data, e.Created = []byte(data), db.Time(created)
		return e, err
	})
}

// connected selects the companies that, at the time $2, have connected the app $1 with the scope to read their
// events, and the users who have connected the app without a company.
const connected = `SELECT g.company_id FROM app_grants g
	JOIN apps a ON a.app_id = g.app_id
	LEFT JOIN members m ON m.company_id = g.company_id AND m.user_id = g.user_id
	WHERE g.app_id = $1` + connects + ` UNION ALL SELECT g.user_id FROM app_grants g
	JOIN apps a ON a.app_id = g.app_id
	WHERE g.app_id = $1` + userConnects

// connects is a condition on a consent g, its app a and the member m who gave the consent: it is still valid. There
// is no member if the app's platform created the company. $2 is the time.
const connects = ` AND g.revoked_at = 0 AND g.expires_at > $2 AND a.status = 'active'
	AND (m.role IN ('owner', 'admin', 'developer') OR g.user_id = '' AND g.company_id <> '')
	AND ' ' || g.scopes || ' ' LIKE '% c_company_detail %' AND ' ' || a.scopes || ' ' LIKE '% c_company_detail %'`

// selectConnections selects the apps of companies. It finds the consents by the first column of the primary key, so
// that the time it takes does not depend on how many other companies have connected an app.
func selectConnections(ctx context.Context, tx *db.Tx, companies []string) (all Connections, err error) {
	for some, args := range db.BindKeys(companies, 3) {
		rows, err := tx.Query(ctx, `WITH g AS MATERIALIZED (SELECT company_id, app_id, user_id, scopes, revoked_at, expires_at
				FROM app_grants WHERE company_id <> $1 AND company_id IN `+some+`)
			SELECT DISTINCT g.company_id, g.app_id FROM g
			JOIN apps a ON a.app_id = g.app_id
			LEFT JOIN members m ON m.company_id = g.company_id AND m.user_id = g.user_id
			WHERE g.company_id <> $1`+connects, append([]any{"", db.Micros(tx.Now())}, args...)...)
		found, err := db.Collect(rows, err, func(r *db.Rows) (c Connection, err error) {
			return c, r.Scan(&c.SourceID, &c.AppID)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// where returns the condition that selects the events of a source, with its arguments. Placeholders are numbered from
// $1.
func (s Source) where(tx *db.Tx) (condition string, args []any) {
	if s.AppID == "" {
		return "company_id = $1", []any{s.CompanyID}
	}
	return "company_id IN (" + connected + ") AND name NOT LIKE 'webhook.%' AND " + allowed,
		[]any{s.AppID, db.Micros(tx.Now())}
}

// reach returns a context for statements on events of a source. For an app, the statements may reach several
// companies.
func (s Source) reach(ctx context.Context) context.Context {
	if s.AppID == "" {
		return ctx
	}
	return db.AcrossCompanies(ctx, "an app reads events of the companies that connected it; the statement names the app")
}

func selectByID(ctx context.Context, tx *db.Tx, from Source, id string) ([]StoredEvent, error) {
	where, args := from.where(tx)
	return queryEvents(from.reach(ctx), tx, fmt.Sprintf("%s AND event_id = $%d", where, len(args)+1), append(args, id)...)
}

func selectPosition(ctx context.Context, tx *db.Tx, from Source, id string) (position int64, err error) {
	where, arg := "company_id = $2", from.CompanyID
	if from.AppID != "" {
		where, arg = `company_id IN (SELECT CASE company_id WHEN '' THEN user_id ELSE company_id END FROM app_grants
			WHERE app_id = $2)`, from.AppID
	}
	err = tx.QueryRow(from.reach(ctx), "SELECT position FROM events WHERE event_id = $1 AND "+where, id, arg).
		Scan(&position)
	return position, err
}

func selectByPosition(ctx context.Context, tx *db.Tx, positions []int64) (map[int64]StoredEvent, error) {
	found := make(map[int64]StoredEvent, len(positions))
	if len(positions) == 0 {
		return found, nil
	}
	args := make([]any, len(positions))
	for i, p := range positions {
		args[i] = p
	}
	events, err := queryEvents(ctx, tx, "position IN "+db.Placeholders(1, len(args), 1), args...)
	for _, e := range events {
		found[e.Position] = e
	}
	return found, err
}

func selectEvents(ctx context.Context, tx *db.Tx, p ListParams, filter Filter, after int64, limit int) (
	[]StoredEvent, error) {
	ctx = Source{p.CompanyID, p.AppID}.reach(ctx)
	last, err := settled(ctx, tx)
	if err != nil {
		return nil, err
	}
	var where strings.Builder
	source, args := Source{p.CompanyID, p.AppID}.where(tx)
	and := func(condition string, value any) {
		args = append(args, value)
		fmt.Fprintf(&where, " AND "+condition, len(args))
	}
	and("position <= $%d", last)
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
	fmt.Fprintf(&where, " ORDER BY position %s LIMIT %d", order, limit)
	return queryEvents(ctx, tx, source+where.String(), args...)
}

// SQL returns the filter as an SQL condition on a column with names of events, beginning with " AND", and its
// arguments. Placeholders are numbered from first.
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

// deleteOld deletes at most limit events created before a time, in the order of their positions, and returns the
// positions.
func deleteOld(ctx context.Context, tx *db.Tx, before int64, limit int) ([]int64, error) {
	rows, err := tx.Query(ctx, `DELETE FROM events WHERE (company_id, event_id) IN (SELECT company_id, event_id FROM
			(SELECT company_id, event_id, created_at FROM events ORDER BY position LIMIT $2) AS oldest WHERE created_at < $1)
		RETURNING position`, before, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (position int64, err error) { return position, r.Scan(&position) })
}

// erasedAddress replaces an erased email address in events. It has the form of an email address because receivers
// expect one.
const erasedAddress = "erased@erased.invalid"

// EraseAddress replaces an email address in all events by erasedAddress.
func EraseAddress(ctx context.Context, tx *db.Tx, address string) error {
	text, err := json.Marshal(address)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE events SET data = REPLACE(data, $1, $2) WHERE data LIKE '%"email":%'
		AND data <> REPLACE(data, $1, $2)`, string(text), `"`+erasedAddress+`"`)
	return err
}
