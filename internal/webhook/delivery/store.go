package delivery

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/webhook"
)

// insertEndpoint inserts an endpoint with the lowest ordinal that is free in its company. It returns false if none is
// free. If two concurrent transactions choose the same ordinal, one of them violates the unique index and runs again.
func insertEndpoint(ctx context.Context, tx *db.Tx, e Endpoint) (bool, error) {
	rows, err := tx.Query(ctx, "SELECT ordinal FROM webhook_endpoints WHERE company_id = $1", e.CompanyID)
	taken, err := db.Collect(rows, err, func(r *db.Rows) (ordinal int64, err error) { return ordinal, r.Scan(&ordinal) })
	if err != nil || len(taken) >= MaxEndpoints {
		return false, err
	}
	ordinal := int64(1)
	for slices.Contains(taken, ordinal) {
		ordinal++
	}
	now := db.Micros(e.Created)
	columns := []string{"company_id", "endpoint_id", "ordinal", "url", "description", "app_id", "events", "status",
		"reason", "secret", "previous_secret", "previous_until", "version", "created_at", "updated_at",
		"next_run_at", "generation", "lease_holder", "leased_until",
		"failures", "failing_since", "paused_until", "last_success_at"}
	return true, tx.Insert(ctx, "webhook_endpoints", columns, [][]any{{
		e.CompanyID, e.ID, ordinal, e.URL, e.Description, e.AppID, encodeFilter(e.Events), Enabled, "",
		e.sealed, "", int64(0), int64(1), now, now,
		int64(0), int64(0), "", int64(0),
		int64(0), int64(0), int64(0), int64(0),
	}})
}

const endpointColumns = `company_id, endpoint_id, url, description, app_id, events, status, reason, secret,
	previous_secret, previous_until, version, created_at, updated_at, generation, lease_holder, failures, failing_since,
	paused_until, last_success_at`

func scanEndpoint(tx *db.Tx) func(*db.Rows) (Endpoint, error) {
	return func(r *db.Rows) (e Endpoint, err error) {
		var events string
		var previousUntil, created, updated, lastSuccess int64
		err = r.Scan(&e.CompanyID, &e.ID, &e.URL, &e.Description, &e.AppID, &events, &e.Status, &e.Reason, &e.sealed,
			&e.previous, &previousUntil, &e.version, &created, &updated, &e.generation, &e.holder, &e.failures, &e.failingSince,
			&e.pausedUntil, &lastSuccess)
		if err != nil {
			return e, err
		}
		e.PreviousUntil, e.Created, e.Updated = db.Time(previousUntil), db.Time(created), db.Time(updated)
		if lastSuccess > 0 {
			e.LastSuccess = db.Time(lastSuccess)
		}
		if e.failingSince > 0 {
			e.FailingSince = db.Time(e.failingSince)
		}
		if e.pausedUntil > db.Micros(tx.Now()) && e.Status == Enabled {
			e.Status, e.PausedUntil = Throttled, db.Time(e.pausedUntil)
		}
		return e, json.Unmarshal([]byte(events), &e.Events)
	}
}

func selectEndpoints(ctx context.Context, tx *db.Tx, companies ...string) ([]Endpoint, error) {
	args := make([]any, len(companies))
	for i, c := range companies {
		args[i] = c
	}
	rows, err := tx.Query(ctx, "SELECT "+endpointColumns+" FROM webhook_endpoints WHERE company_id IN "+
		db.Placeholders(1, len(args), 1)+" ORDER BY company_id, endpoint_id", args...)
	return db.Collect(rows, err, scanEndpoint(tx))
}

// selectAppEndpoints returns the endpoints of apps, which receive events of the companies and users who have
// connected the apps.
func selectAppEndpoints(ctx context.Context, tx *db.Tx, apps ...string) (all []Endpoint, err error) {
	for in, args := range db.BindList(tx, apps, 1) {
		rows, err := tx.Query(ctx, "SELECT "+endpointColumns+" FROM webhook_endpoints WHERE app_id <> '' AND app_id IN "+in+
			" ORDER BY company_id, endpoint_id", args...)
		some, err := db.Collect(rows, err, scanEndpoint(tx))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func selectEndpoint(ctx context.Context, tx *db.Tx, companyID, id string) (Endpoint, error) {
	rows, err := tx.Query(ctx, "SELECT "+endpointColumns+` FROM webhook_endpoints
		WHERE company_id = $1 AND endpoint_id = $2`, companyID, id)
	found, err := db.Collect(rows, err, scanEndpoint(tx))
	switch {
	case err != nil:
		return Endpoint{}, err
	case len(found) == 0:
		return Endpoint{}, apierr.NotFoundErr
	}
	return found[0], nil
}

// updateEndpoint stores the columns that a company can change. It returns false if the stored version differs from
// the endpoint's. It makes a disabled endpoint never due.
func updateEndpoint(ctx context.Context, tx *db.Tx, e Endpoint) (bool, error) {
	status := e.Status
	if status == Throttled {
		status = Enabled
	}
	n, err := tx.Exec(ctx, `UPDATE webhook_endpoints SET
			url = $3, description = $4, events = $5, status = $6, reason = $7, secret = $8, previous_secret = $9,
			previous_until = $10, version = version + 1, updated_at = $11,
			next_run_at = CASE WHEN $6 = 'enabled' THEN next_run_at ELSE 0 END
		WHERE company_id = $1 AND endpoint_id = $2 AND version = $12`,
		e.CompanyID, e.ID, e.URL, e.Description, encodeFilter(e.Events), status, e.Reason, e.sealed,
		e.previous, db.Micros(e.PreviousUntil), db.Micros(e.Updated), e.version)
	return n == 1, err
}

// resetQueue resets the failures of an endpoint and makes its queue due. A process that holds the lease loses the
// lease.
func resetQueue(ctx context.Context, tx *db.Tx, e Endpoint) error {
	_, err := tx.Exec(ctx, `UPDATE webhook_endpoints SET failures = 0, failing_since = 0, paused_until = 0,
			next_run_at = $3, generation = generation + 1, lease_holder = '', leased_until = 0
		WHERE company_id = $1 AND endpoint_id = $2`, e.CompanyID, e.ID, db.Micros(tx.Now()))
	tx.Notify(noticeDue)
	return err
}

func deleteEndpoint(ctx context.Context, tx *db.Tx, companyID, id string) (bool, error) {
	n, err := tx.Exec(ctx, "DELETE FROM webhook_endpoints WHERE company_id = $1 AND endpoint_id = $2",
		companyID, id)
	return n == 1, err
}

// queueChange is a guarded update of the queue's columns in an endpoint's row. Each transaction executes its changes
// in the order of their keys, so that transactions cannot deadlock.
type queueChange struct {
	companyID, endpointID string
	query                 string
	args                  []any
	done                  *bool // if not nil, set to whether the row was updated
}

var queueChanges = db.NewGroup(func(ctx context.Context, tx *db.Tx, items []queueChange) error {
	slices.SortStableFunc(items, func(x, y queueChange) int {
		return cmp.Or(strings.Compare(x.companyID, y.companyID), strings.Compare(x.endpointID, y.endpointID))
	})
	statements, changed := make([]db.Statement, len(items)), make([]int64, len(items))
	for i, c := range items {
		args := append([]any{c.companyID, c.endpointID}, c.args...)
		statements[i] = db.Statement{Query: c.query, Args: args, Changed: &changed[i]}
	}
	if err := tx.Batch(ctx, statements); err != nil {
		return err
	}
	for i, c := range items {
		if c.done != nil {
			*c.done = changed[i] == 1
		}
	}
	return nil
}, "webhook_endpoints")

// resultChanges are changes of deliveries and attempts. They are executed in one round trip, before the queueChanges,
// which read the remaining deliveries.
var resultChanges = db.NewGroup(func(ctx context.Context, tx *db.Tx, statements []db.Statement) error {
	return tx.Batch(ctx, statements)
}, "webhook_deliveries", "webhook_attempts")

func addResult(tx *db.Tx, query string, args ...any) {
	resultChanges.Add(tx, db.Statement{Query: query, Args: args})
}

// wake makes a queue due, after deliveries were added to it.
func wake(tx *db.Tx, companyID, endpointID string) {
	queueChanges.Add(tx, queueChange{companyID: companyID, endpointID: endpointID, args: []any{db.Micros(tx.Now())},
		query: `UPDATE webhook_endpoints SET generation = generation + 1,
				next_run_at = CASE WHEN paused_until > $3 THEN paused_until ELSE $3 END
			WHERE company_id = $1 AND endpoint_id = $2 AND status = 'enabled'`})
	tx.Notify(noticeDue)
}

// dueEndpoints returns the keys of the endpoints that have a due queue and are not leased by any process.
func dueEndpoints(ctx context.Context, tx *db.Tx, limit int) ([][2]string, error) {
	rows, err := tx.Query(ctx, `SELECT company_id, endpoint_id FROM webhook_endpoints
		WHERE next_run_at > 0 AND next_run_at <= $1 AND leased_until <= $1 AND status = 'enabled'
		ORDER BY next_run_at LIMIT $2`, db.Micros(tx.Now()), int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (key [2]string, err error) { return key, r.Scan(&key[0], &key[1]) })
}

// claim leases a due queue, unless another process has leased it.
func claim(tx *db.Tx, companyID, endpointID, holder string, duration time.Duration, done *bool) {
	queueChanges.Add(tx, queueChange{companyID: companyID, endpointID: endpointID, done: done,
		args: []any{holder, db.Micros(tx.Now().Add(duration)), db.Micros(tx.Now())},
		query: `UPDATE webhook_endpoints SET lease_holder = $3, leased_until = $4
			WHERE company_id = $1 AND endpoint_id = $2 AND next_run_at > 0 AND next_run_at <= $5 AND leased_until <= $5
				AND status = 'enabled'`})
}

// renewLease renews the lease and stores the failures and the pause of the queue.
func renewLease(tx *db.Tx, q *queue, duration time.Duration) {
	queueChanges.Add(tx, queueChange{companyID: q.companyID, endpointID: q.endpointID,
		args: []any{q.holder, db.Micros(tx.Now().Add(duration)), q.failures, q.failingSince, q.pausedUntil, q.lastSuccess},
		query: `UPDATE webhook_endpoints SET
				leased_until = $4, failures = $5, failing_since = $6, paused_until = $7, last_success_at = $8
			WHERE company_id = $1 AND endpoint_id = $2 AND lease_holder = $3`})
}

// disable disables the endpoint of a queue. It returns false if the lease was lost or the endpoint is already
// disabled.
func disable(ctx context.Context, tx *db.Tx, q *queue, reason string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE webhook_endpoints SET status = $4, reason = $5, version = version + 1,
			updated_at = $6, next_run_at = 0
		WHERE company_id = $1 AND endpoint_id = $2 AND lease_holder = $3 AND status = 'enabled'`,
		q.companyID, q.endpointID, q.holder, DisabledAuto, reason, db.Micros(tx.Now()))
	return n == 1, err
}

// release releases the lease. It makes the queue due at the time of its next delivery, but not before its pause ends.
// It does not release the lease if a delivery was added since the generation was read. Nor does it if a delivery is
// due, unless the queue is paused or force is true.
func release(tx *db.Tx, q *queue, generation int64, force bool, done *bool) {
	due := db.Micros(tx.Now())
	if force || q.pausedUntil > due {
		due = 0 // no delivery is due before time 0, so this never prevents the release
	}
	const next = `(SELECT d.next_at FROM webhook_deliveries d
		WHERE d.company_id = $1 AND d.endpoint_id = $2 AND d.state = 'pending' AND d.next_at > 0 ORDER BY d.next_at LIMIT 1)`
	queueChanges.Add(tx, queueChange{companyID: q.companyID, endpointID: q.endpointID, done: done,
		args: []any{q.holder, generation, q.pausedUntil, due},
		query: `UPDATE webhook_endpoints SET lease_holder = '', leased_until = 0,
				next_run_at = COALESCE((SELECT CASE WHEN n.next_at < $5 THEN $5 ELSE n.next_at END FROM ` + next + ` AS n), 0)
			WHERE company_id = $1 AND endpoint_id = $2 AND lease_holder = $3 AND generation = $4
				AND COALESCE(` + next + `, CAST($6 AS BIGINT) + 1) > $6`})
}

// insertDeliveries inserts rows of the type deliveryRow. conflict is the SQL action (after DO) for a delivery that
// already exists.
func insertDeliveries(ctx context.Context, tx *db.Tx, rows [][]any, conflict string) error {
	for len(rows) > 0 {
		some := rows[:min(len(rows), 50)]
		rows = rows[len(some):]
		if _, err := tx.Exec(ctx, `INSERT INTO webhook_deliveries (company_id, endpoint_id, position, event_id,
				source_id, object_id, state, tries, attempts, next_at, error, http_status, created_at, updated_at)
			VALUES `+db.Placeholders(len(some), 14, 1)+`
			ON CONFLICT (company_id, endpoint_id, position) DO `+conflict, slices.Concat(some...)...); err != nil {
			return err
		}
	}
	return nil
}

func deliveryRow(tx *db.Tx, e Endpoint, ev webhook.StoredEvent) []any {
	now := db.Micros(tx.Now())
	return []any{e.CompanyID, e.ID, ev.Position, ev.ID, ev.CompanyID, ev.ObjectID,
		Pending, int64(0), int64(0), now, "", int64(0), now, now}
}

// restart makes deliveries due now, with a new schedule of attempts, and inserts missing deliveries. If onlyFailed is
// true, it does not change deliveries that have succeeded or are pending.
func restart(ctx context.Context, tx *db.Tx, e Endpoint, events []webhook.StoredEvent, onlyFailed bool) error {
	conflict := "UPDATE SET state = 'pending', tries = 0, next_at = excluded.next_at, updated_at = excluded.updated_at"
	if onlyFailed {
		conflict += " WHERE webhook_deliveries.state IN ('failed', 'cancelled', 'blocked')"
	}
	var rows [][]any
	for _, ev := range events {
		rows = append(rows, deliveryRow(tx, e, ev))
	}
	return insertDeliveries(ctx, tx, rows, conflict)
}

// due is a due delivery together with its event.
type due struct {
	Delivery
	event webhook.StoredEvent
}

// dueDeliveries returns an endpoint's first due deliveries, sorted by the time of the next attempt and then in the
// order of the events. It omits deliveries whose event was deleted. Deliveries that the app may no longer receive,
// because the company or user has disconnected the app, are returned in ended.
func dueDeliveries(ctx context.Context, tx *db.Tx, e Endpoint, limit int) (existing, ended []due, err error) {
	rows, err := tx.Query(ctx, `SELECT position, event_id, source_id, tries, attempts FROM webhook_deliveries
		WHERE company_id = $1 AND endpoint_id = $2 AND state = 'pending' AND next_at <= $3
		ORDER BY next_at, position LIMIT $4`, e.CompanyID, e.ID, db.Micros(tx.Now()), int64(limit))
	dues, err := db.Collect(rows, err, func(r *db.Rows) (d due, err error) {
		return d, r.Scan(&d.position, &d.EventID, &d.SourceID, &d.tries, &d.Attempts)
	})
	if err != nil || len(dues) == 0 {
		return nil, nil, err
	}
	positions := make([]int64, len(dues))
	var sources []string
	for i, d := range dues {
		positions[i] = d.position
		if e.AppID != "" {
			sources = append(sources, d.SourceID)
		}
	}
	slices.Sort(sources)
	connections, err := webhook.ConnectionsOf(ctx, tx, slices.Compact(sources)...)
	if err != nil {
		return nil, nil, err
	}
	events, err := webhook.ByPosition(ctx, tx, positions...)
	for _, d := range dues {
		var found bool
		d.event, found = events[d.position]
		test := d.event.Name == webhook.WebhookTest.Name
		switch {
		case !found || d.event.CompanyID != d.SourceID:
		case e.AppID != "" && !test && !connections.Allow(e.AppID, d.event):
			ended = append(ended, d)
		default:
			d.ObjectID, d.Event = d.event.ObjectID, d.event.Name
			existing = append(existing, d)
		}
	}
	return existing, ended, err
}

// cancelEnded cancels pending deliveries of events of companies and users who have disconnected the app.
func cancelEnded(tx *db.Tx, q *queue, ended []due) {
	for _, d := range ended {
		addResult(tx, `UPDATE webhook_deliveries SET state = 'cancelled', next_at = 0, updated_at = $4
			WHERE company_id = $1 AND endpoint_id = $2 AND position = $3 AND state = 'pending'`,
			q.companyID, q.endpointID, d.position, db.Micros(tx.Now()))
	}
}

// blockers returns, for each object, the first pending delivery that is not in the object's chain but comes before
// the chain's last delivery. It ignores deliveries with at least `blocking` failed attempts.
func blockers(ctx context.Context, tx *db.Tx, q *queue, chains map[string][]due, blocking int64) (map[string]blocker,
	error) {
	first := map[string]blocker{}
	var all []db.Statement
	for object, chain := range chains {
		last := chain[len(chain)-1].position
		all = append(all, db.Statement{Query: selectWaiting,
			Args: []any{q.companyID, q.endpointID, object, last, blocking, int64(len(chain))},
			Row: func(r *db.Rows) error {
				var b blocker
				err := r.Scan(&b.position, &b.nextAt)
				_, known := first[object]
				if !known && !slices.ContainsFunc(chain, func(d due) bool { return d.position == b.position }) {
					first[object] = b
				}
				return err
			}})
	}
	return first, tx.Batch(ctx, all)
}

// selectWaiting selects the first pending deliveries of an object that come before a position.
const selectWaiting = `SELECT position, next_at FROM webhook_deliveries
	WHERE company_id = $1 AND endpoint_id = $2 AND object_id = $3 AND state = 'pending' AND position < $4 AND tries < $5
	ORDER BY position LIMIT $6`

// postpone delays a delivery until the next attempt of an earlier delivery of its object. It changes only a pending
// delivery, because others have no next attempt.
func postpone(tx *db.Tx, q *queue, position, to int64) {
	addResult(tx, `UPDATE webhook_deliveries SET next_at = $4
		WHERE company_id = $1 AND endpoint_id = $2 AND position = $3 AND next_at > 0 AND next_at < $4`,
		q.companyID, q.endpointID, position, to)
}

// dueAgain makes the deliveries due that were postponed because an earlier delivery of their object had failed.
func dueAgain(tx *db.Tx, q *queue, objectID string) {
	addResult(tx, `UPDATE webhook_deliveries SET next_at = $4
		WHERE company_id = $1 AND endpoint_id = $2 AND object_id = $3 AND state = 'pending' AND tries = 0 AND next_at > $4`,
		q.companyID, q.endpointID, objectID, db.Micros(tx.Now()))
}

// retryNow makes all pending deliveries due, in the order of their events, after the receiver has recovered.
func retryNow(tx *db.Tx, q *queue) {
	addResult(tx, `UPDATE webhook_deliveries SET next_at = created_at
		WHERE company_id = $1 AND endpoint_id = $2 AND state = 'pending' AND next_at > $3`,
		q.companyID, q.endpointID, db.Micros(tx.Now()))
}

// succeeded records a successful attempt, even if the delivery was cancelled during the attempt. Each statement
// changes one row: for a list of rows, a query planner without statistics might read the whole queue.
func succeeded(tx *db.Tx, q *queue, r result) {
	addResult(tx, `UPDATE webhook_deliveries SET
			state = 'succeeded', tries = tries + 1, attempts = attempts + 1, error = '', http_status = $5, next_at = 0,
			updated_at = $4
		WHERE company_id = $1 AND endpoint_id = $2 AND position = $3 AND state IN ('pending', 'cancelled')`,
		q.companyID, q.endpointID, r.position, db.Micros(tx.Now()), int64(r.status))
}

// failed records a failed attempt, unless another attempt was recorded after the delivery was read.
func failed(tx *db.Tx, q *queue, r result, state string, nextAt int64) {
	addResult(tx, `UPDATE webhook_deliveries SET state = CASE WHEN state = 'pending' THEN $4 ELSE state END,
			tries = tries + 1, attempts = attempts + 1, error = $5, http_status = $6, next_at = $7, updated_at = $8
		WHERE company_id = $1 AND endpoint_id = $2 AND position = $3 AND attempts = $9
			AND state IN ('pending', 'cancelled')`,
		q.companyID, q.endpointID, r.position, state, r.failure, int64(r.status), nextAt, db.Micros(tx.Now()), r.Attempts)
}

// insertAttempts inserts attempts. If two processes made an attempt with the same number, because one of them had
// lost its lease, only the first to be stored is inserted.
func insertAttempts(tx *db.Tx, q *queue, results []result) {
	for _, n := range db.Chunks(len(results), 8) {
		args := make([]any, 0, n*11)
		for _, r := range results[:n] {
			args = append(args, q.companyID, q.endpointID, r.position, r.Attempts+1, db.Micros(tx.Now()),
				r.took.Milliseconds(), r.url, r.sentAt.Unix(), int64(r.status), r.failure, r.body)
		}
		results = results[n:]
		addResult(tx, `INSERT INTO webhook_attempts (company_id, endpoint_id, position, attempt, at, took_ms, url, sent_at,
			http_status, error, response) VALUES `+db.Placeholders(n, 11, 1)+` ON CONFLICT DO NOTHING`, args...)
	}
}

const deliveryColumns = `d.position, d.event_id, d.source_id, d.object_id, COALESCE(e.name, ''), d.state, d.tries,
	d.attempts, d.next_at, d.error, d.http_status, d.created_at, d.updated_at`

const deliveryTables = `webhook_deliveries d
	LEFT JOIN events e ON e.company_id = d.source_id AND e.event_id = d.event_id`

func scanDelivery(r *db.Rows) (d Delivery, err error) {
	var next, created, updated int64
	err = r.Scan(&d.position, &d.EventID, &d.SourceID, &d.ObjectID, &d.Event, &d.State, &d.tries, &d.Attempts, &next,
		&d.Error, &d.HTTPStatus, &created, &updated)
	d.Created, d.Updated = db.Time(created), db.Time(updated)
	if d.State == Pending {
		d.Next = db.Time(next)
		if d.tries > 0 {
			d.State = Retrying
		}
	}
	return d, err
}

func selectDelivery(ctx context.Context, tx *db.Tx, e Endpoint, position int64) (Delivery, error) {
	ctx = db.AcrossCompanies(ctx, "events of connected companies are joined to an endpoint of one; the statement names it")
	rows, err := tx.Query(ctx, "SELECT "+deliveryColumns+" FROM "+deliveryTables+
		" WHERE d.company_id = $1 AND d.endpoint_id = $2 AND d.position = $3", e.CompanyID, e.ID, position)
	found, err := db.Collect(rows, err, scanDelivery)
	if err == nil && len(found) == 0 {
		err = db.ErrNoRows
	}
	if err != nil {
		return Delivery{}, err
	}
	return found[0], nil
}

func selectDeliveries(ctx context.Context, tx *db.Tx, e Endpoint, p DeliveriesParams, filter webhook.Filter,
	before int64, limit int) ([]Delivery, error) {
	ctx = db.AcrossCompanies(ctx, "events of connected companies are joined to an endpoint of one; the statement names it")
	if before == 0 {
		before = 1 << 62
	}
	args := []any{e.CompanyID, e.ID, before, int64(limit)}
	var where strings.Builder
	and := func(condition string, value any) {
		args = append(args, value)
		fmt.Fprintf(&where, " AND "+condition, len(args))
	}
	switch p.State {
	case "":
	case Pending:
		where.WriteString(" AND d.state = 'pending' AND d.tries = 0")
	case Retrying:
		where.WriteString(" AND d.state = 'pending' AND d.tries > 0")
	default:
		and("d.state = $%d", p.State)
	}
	if !p.From.IsZero() {
		and("e.created_at >= $%d", db.Micros(p.From))
	}
	if !p.To.IsZero() {
		and("e.created_at < $%d", db.Micros(p.To))
	}
	chosen, names := filter.SQL("e.name", len(args)+1)
	where.WriteString(chosen)
	args = append(args, names...)
	rows, err := tx.Query(ctx, "SELECT "+deliveryColumns+" FROM "+deliveryTables+
		" WHERE d.company_id = $1 AND d.endpoint_id = $2 AND d.position < $3"+where.String()+
		" ORDER BY d.position DESC LIMIT $4", args...)
	return db.Collect(rows, err, scanDelivery)
}

func selectAttempts(ctx context.Context, tx *db.Tx, e Endpoint, position int64) ([]Attempt, error) {
	rows, err := tx.Query(ctx, `SELECT attempt, at, took_ms, url, sent_at, http_status, error, response
		FROM webhook_attempts WHERE company_id = $1 AND endpoint_id = $2 AND position = $3 ORDER BY attempt`,
		e.CompanyID, e.ID, position)
	return db.Collect(rows, err, func(r *db.Rows) (a Attempt, err error) {
		var at, took, sent int64
		err = r.Scan(&a.Number, &at, &took, &a.URL, &sent, &a.HTTPStatus, &a.Error, &a.Response)
		a.At, a.Took, a.SentAt = db.Time(at), time.Duration(took)*time.Millisecond, time.Unix(sent, 0).UTC()
		return a, err
	})
}

func cancelPending(ctx context.Context, tx *db.Tx, e Endpoint, limit int) (int64, error) {
	return tx.Exec(ctx, `UPDATE webhook_deliveries SET state = 'cancelled', next_at = 0, updated_at = $3
		WHERE company_id = $1 AND endpoint_id = $2 AND position IN (SELECT position FROM webhook_deliveries
			WHERE company_id = $1 AND endpoint_id = $2 AND state = 'pending' LIMIT $4)`,
		e.CompanyID, e.ID, db.Micros(tx.Now()), int64(limit))
}

// deleteDeliveries deletes the oldest deliveries of an endpoint, with their attempts, and returns the number of
// deliveries deleted.
func deleteDeliveries(ctx context.Context, tx *db.Tx, companyID, endpointID string, limit int) (int64, error) {
	return deleteUpTo(ctx, tx, companyID, endpointID, 1<<62, limit)
}

func deleteUpTo(ctx context.Context, tx *db.Tx, companyID, endpointID string, upTo int64, limit int) (int64, error) {
	var last int64
	err := tx.QueryRow(ctx, `SELECT COALESCE(MAX(position), 0) FROM (SELECT position FROM webhook_deliveries
		WHERE company_id = $1 AND endpoint_id = $2 AND position <= $3 ORDER BY position LIMIT $4) AS oldest`,
		companyID, endpointID, upTo, int64(limit)).Scan(&last)
	if err != nil || last == 0 {
		return 0, err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM webhook_attempts
		WHERE company_id = $1 AND endpoint_id = $2 AND position <= $3`, companyID, endpointID, last); err != nil {
		return 0, err
	}
	return tx.Exec(ctx, `DELETE FROM webhook_deliveries
		WHERE company_id = $1 AND endpoint_id = $2 AND position <= $3`, companyID, endpointID, last)
}

// pruneDeliveries deletes the deliveries of all events up to a position, one endpoint at a time.
func pruneDeliveries(ctx context.Context, d *db.DB, upTo int64) error {
	var endpoints [][2]string
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		rows, err := tx.Query(ctx, "SELECT company_id, endpoint_id FROM webhook_endpoints")
		endpoints, err = db.Collect(rows, err, func(r *db.Rows) (key [2]string, err error) {
			return key, r.Scan(&key[0], &key[1])
		})
		return err
	})
	for _, key := range endpoints {
		for n := int64(1); n > 0 && err == nil; {
			err = d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
				n, err = deleteUpTo(ctx, tx, key[0], key[1], upTo, chunk)
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("prune deliveries: %w", err)
		}
	}
	return err
}

// Backlog returns the number of pending deliveries, and the time at which the oldest of them was created, or zero if
// there is none.
func Backlog(ctx context.Context, tx *db.Tx) (waiting int64, oldest time.Time, err error) {
	var at int64
	err = tx.QueryRow(ctx, `SELECT COUNT(*), COALESCE(MIN(created_at), 0) FROM webhook_deliveries
		WHERE state = 'pending'`).Scan(&waiting, &at)
	if at > 0 {
		oldest = db.Time(at)
	}
	return waiting, oldest, err
}
