package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/db"
)

// eventRows are written last, because whoever writes them keeps others from it until the commit: so the order of positions is that of the
// commits, and in one commit that of what was emitted.
var eventRows = db.NewLastGroup(insertEvents)

func insertEvents(ctx context.Context, tx *db.Tx, items []any) error {
	rows := make([][]any, len(items))
	for i, item := range items {
		rows[i] = item.([]any)
	}
	if tx.Engine() == db.SQLite {
		n := int64(0)
		for i := range rows {
			n += max(int64(len(rows[i][7].(string))), 1)
			rows[i] = append(rows[i], n)
		}
		head, err := moveHead(ctx, tx, n)
		if err != nil {
			return err
		}
		for i := range rows {
			rows[i][8] = head - n + rows[i][8].(int64)
		}
		return tx.Insert(ctx, "events", strings.Split(eventValues+", position", ", "), rows)
	}
	if err := tx.Queue(ctx, positionQueue); err != nil {
		return err
	}
	for values, args := range tx.Values(rows, 1) {
		if err := tx.Later(ctx, nil, "INSERT INTO events ("+eventValues+", position) "+behind(values), args...); err != nil {
			return err
		}
	}
	return nil
}

const eventValues = "company_id, event_id, object_id, sequence, name, data, created_at, objects"

func insertEvent(tx *db.Tx, id string, e Event, data, objects string) {
	tx.Defer(eventRows, []any{e.CompanyID, id, e.ObjectID, e.Sequence, e.Name, data, db.Micros(tx.Now()), objects})
}

// positionQueue is the number of the queue for positions.
const positionQueue = 7_020_265

// The last position that was given out. PostgreSQL counts on from there with a sequence: a row that each commit changes would leave
// as many dead versions behind, which the next one has to pass while a backup still needs them.
const settingHead = "webhook.position"

// moveHead gives out n positions, the last of which it returns.
func moveHead(ctx context.Context, tx *db.Tx, n int64) (head int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO settings (key, value) VALUES ($1, CAST(CAST($2 AS BIGINT) AS TEXT))
		ON CONFLICT (key) DO UPDATE SET value = CAST(CAST(settings.value AS BIGINT) + CAST(excluded.value AS BIGINT) AS TEXT)
		RETURNING CAST(value AS BIGINT)`, settingHead, n).Scan(&head)
	return head, err
}

// behind gives rows their positions by PostgreSQL's sequence, in their order, and leaves out those of the other events of a row: nobody else
// counts meanwhile.
func behind(rows string) string {
	const one = "nextval('event_positions_position_seq')"
	return "SELECT r.*, (SELECT COALESCE(MAX(CAST(value AS BIGINT)), 0) FROM settings WHERE key = '" + settingHead + `')
		+ CASE WHEN r.objects = '' THEN ` + one + ` ELSE setval('event_positions_position_seq', ` + one + ` + LENGTH(r.objects) - 1) END
		FROM (` + rows + ") AS r (" + eventValues + ")"
}

// nextSequence keeps other events of the object waiting until the commit. What was emitted before the object had a counter counts.
func nextSequence(ctx context.Context, tx *db.Tx, companyID, objectID string) (next int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO event_sequences (company_id, object_id, sequence)
		SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), COALESCE(MAX(sequence), 1) + 1 FROM events WHERE company_id = $1 AND object_id = $2
		ON CONFLICT (company_id, object_id) DO UPDATE SET sequence = event_sequences.sequence + 1
		RETURNING sequence`, companyID, objectID).Scan(&next)
	return next, err
}

func selectMark(ctx context.Context, tx *db.Tx) (mark int64, err error) {
	err = tx.QueryRow(ctx, "SELECT position FROM event_marks WHERE name = 'queued'").Scan(&mark)
	return mark, err
}

// moveMark says whether it was where it was read.
func moveMark(ctx context.Context, tx *db.Tx, from, to int64) (bool, error) {
	n, err := tx.Exec(ctx, "UPDATE event_marks SET position = $1 WHERE name = 'queued' AND position = $2", to, from)
	return n == 1, err
}

// following are rows of events without their data.
const following = `SELECT company_id, event_id, object_id, name, sequence, position, created_at, objects FROM events
	WHERE position > $1 ORDER BY position LIMIT $2`

func selectFollowing(ctx context.Context, tx *db.Tx, mark int64, limit int) ([]row, error) {
	rows, err := tx.Query(ctx, following, mark, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (p row, err error) {
		var created int64
		err = r.Scan(&p.CompanyID, &p.ID, &p.ObjectID, &p.Name, &p.Sequence, &p.Position, &created, &p.objects)
		p.Created = db.Time(created)
		return p, err
	})
}

const waiting = "SELECT 1 FROM events WHERE position > (SELECT position FROM event_marks WHERE name = 'queued') ORDER BY position LIMIT 1"

func anyNew(ctx context.Context, tx *db.Tx) (bool, error) {
	var one int64
	err := tx.QueryRow(ctx, waiting).Scan(&one)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

const eventColumns = "company_id, event_id, object_id, name, sequence, position, data, created_at, objects"

func scanEvents(r *db.Rows) (p row, err error) {
	var data string
	var created int64
	err = r.Scan(&p.CompanyID, &p.ID, &p.ObjectID, &p.Name, &p.Sequence, &p.Position, &data, &created, &p.objects)
	p.Data, p.Created = []byte(data), db.Time(created)
	return p, err
}

// RowIn is the end of a condition on event_id that finds the row of the event whose id is in a column.
func RowIn(column string) string {
	return "IN (" + column + ", SUBSTR(" + column + ", 1, LENGTH(" + column + ") - 1) || 'z')"
}

// selectNamed are the events of a company with some ids, by id.
func selectNamed(ctx context.Context, tx *db.Tx, companyID string, ids ...string) (map[string]Placed, error) {
	wanted := make([]string, 0, 2*len(ids))
	for _, id := range ids {
		wanted = append(wanted, id, rowOf(id))
	}
	found := make(map[string]Placed, len(ids))
	for in, args := range tx.In(wanted, 2) {
		rows, err := tx.Query(ctx, "SELECT "+eventColumns+" FROM events WHERE company_id = $1 AND event_id IN "+in, append([]any{companyID}, args...)...)
		some, err := db.Collect(rows, err, scanEvents)
		if err != nil {
			return nil, err
		}
		for _, r := range some {
			for _, e := range r.events() {
				found[e.ID] = e
			}
		}
	}
	return found, nil
}

// selectEvents reads rows a few at a time, more and more of them: how many events they have shows then only.
func selectEvents(ctx context.Context, tx *db.Tx, p ListParams, filter Filter, after int64, limit int) (events []Placed, err error) {
	bound := after
	if p.Newest && after > 0 {
		bound += int64(db.RunLength) // a row stands where its last event does
	}
	for some := min(limit, db.RunLength); ; some *= 2 {
		rows, err := selectRows(ctx, tx, p, filter, bound, some)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			all := r.events()
			if p.Newest {
				slices.Reverse(all)
			}
			for _, e := range all {
				switch {
				case p.ObjectID != "" && e.ObjectID != p.ObjectID, !p.Newest && e.Position <= after, p.Newest && after > 0 && e.Position >= after:
				default:
					if events = append(events, e); len(events) == limit {
						return events, nil
					}
				}
			}
			bound = r.Position
		}
		if len(rows) < some {
			return events, nil
		}
	}
}

func selectRows(ctx context.Context, tx *db.Tx, p ListParams, filter Filter, bound int64, limit int) ([]row, error) {
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
	switch {
	case !p.Newest:
		and("position > $%d", bound)
	case bound > 0:
		and("position < $%d", bound)
	}
	and("created_at >= $%d", db.Micros(p.From))
	if !p.To.IsZero() {
		and("created_at < $%d", db.Micros(p.To))
	}
	if p.ObjectID != "" {
		and("object_id IN ($%d, $%d)", p.ObjectID, rowOf(p.ObjectID))
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
	return db.Collect(rows, err, scanEvents)
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

// deleteOld deletes rows of events in the order of their positions, as far as they are old.
func deleteOld(ctx context.Context, tx *db.Tx, before int64, limit int) ([]int64, error) {
	rows, err := tx.Query(ctx, `DELETE FROM events WHERE (company_id, event_id) IN (SELECT company_id, event_id FROM
			(SELECT company_id, event_id, created_at FROM events ORDER BY position LIMIT $2) AS oldest WHERE created_at < $1)
		RETURNING position`, before, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (position int64, err error) { return position, r.Scan(&position) })
}
