package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/fault"
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
		head, err := moveHead(ctx, tx, len(rows))
		if err != nil {
			return err
		}
		for i := range rows {
			rows[i] = append(rows[i], head-int64(len(rows)-1-i))
		}
		return tx.Insert(ctx, "events", []string{"company_id", "event_id", "object_id", "sequence", "name", "data", "created_at", "position"}, rows)
	}
	if err := tx.Queue(ctx, positionQueue); err != nil {
		return err
	}
	for values, args := range tx.Values(rows, 1) {
		if err := tx.Later(ctx, nil, "INSERT INTO events (company_id, event_id, object_id, sequence, name, data, created_at, position) "+behind(values), args...); err != nil {
			return err
		}
	}
	return nil
}

func insertEvent(tx *db.Tx, id string, e Event, data string) {
	tx.Defer(eventRows, []any{e.CompanyID, id, e.ObjectID, e.Sequence, e.Name, data, db.Micros(tx.Now())})
}

// positionQueue is the number of the queue for positions.
const positionQueue = 7_020_265

// The last position that was given out. PostgreSQL counts on from there with a sequence: a row that each commit changes would leave
// as many dead versions behind, which the next one has to pass while a backup still needs them.
const settingHead = "webhook.position"

// moveHead gives out n positions, the last of which it returns.
func moveHead(ctx context.Context, tx *db.Tx, n int) (head int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO settings (key, value) VALUES ($1, CAST(CAST($2 AS BIGINT) AS TEXT))
		ON CONFLICT (key) DO UPDATE SET value = CAST(CAST(settings.value AS BIGINT) + CAST(excluded.value AS BIGINT) AS TEXT)
		RETURNING CAST(value AS BIGINT)`, settingHead, int64(n)).Scan(&head)
	return head, err
}

// behind gives rows their positions by PostgreSQL's sequence, in their order.
func behind(rows string) string {
	return "SELECT r.*, (SELECT COALESCE(MAX(CAST(value AS BIGINT)), 0) FROM settings WHERE key = '" + settingHead + `')
		+ nextval('event_positions_position_seq') FROM (` + rows + ") AS r"
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

// following are events without their data.
const following = `SELECT company_id, event_id, object_id, name, sequence, position, created_at FROM events
	WHERE position > $1 ORDER BY position LIMIT $2`

func selectFollowing(ctx context.Context, tx *db.Tx, mark int64, limit int) ([]Placed, error) {
	rows, err := tx.Query(ctx, following, mark, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (p Placed, err error) {
		var created int64
		err = r.Scan(&p.CompanyID, &p.ID, &p.ObjectID, &p.Name, &p.Sequence, &p.Position, &created)
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

const eventColumns = "company_id, event_id, object_id, name, sequence, position, data, created_at"

func scanEvent(r *db.Rows) (p Placed, err error) {
	var data string
	var created int64
	err = r.Scan(&p.CompanyID, &p.ID, &p.ObjectID, &p.Name, &p.Sequence, &p.Position, &data, &created)
	p.Data, p.Created = []byte(data), db.Time(created)
	return p, err
}

func selectEvent(ctx context.Context, tx *db.Tx, companyID, id string) (Placed, error) {
	rows, err := tx.Query(ctx, "SELECT "+eventColumns+" FROM events WHERE company_id = $1 AND event_id = $2", companyID, id)
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

// deleteOld deletes events in the order of their positions, as far as they are old.
func deleteOld(ctx context.Context, tx *db.Tx, before int64, limit int) ([]int64, error) {
	rows, err := tx.Query(ctx, `DELETE FROM events WHERE (company_id, event_id) IN (SELECT company_id, event_id FROM
			(SELECT company_id, event_id, created_at FROM events ORDER BY position LIMIT $2) AS oldest WHERE created_at < $1)
		RETURNING position`, before, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (position int64, err error) { return position, r.Scan(&position) })
}
