package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/country/workday"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payroll"
)

const columns = `schedule_id, name, state, frequency, start_date, end_date, days, working_day, calendar, time_zone,
	days_ahead, terms, to_pay, next_day, next_at, created_by, version, created_at, updated_at`

// shownRuns is the number of stored runs that Get returns.
const shownRuns = 24

// micros returns a time as a column value: microseconds, or 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return db.Micros(t)
}

func encode(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}

// insert stores a new schedule.
func insert(ctx context.Context, tx *db.Tx, n *Schedule, key string) error {
	terms, err := encode(n.Terms)
	if err != nil {
		return err
	}
	to, err := encode(n.ToPay)
	if err != nil {
		return err
	}
	days := make([]string, len(n.Recurrence.Days))
	for i, d := range n.Recurrence.Days {
		days[i] = strconv.Itoa(d)
	}
	names := strings.Split("company_id, request_key, "+columns, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return tx.Insert(ctx, "schedules", names, [][]any{{n.CompanyID, key, n.ID, n.Name, string(n.State),
		string(n.Recurrence.Frequency), Text(n.Recurrence.Start), Text(n.Recurrence.End), strings.Join(days, ","),
		string(n.Calendar.Rule), n.Calendar.Country, n.Calendar.Zone.String(), int64(n.Calendar.DaysAhead), terms, to,
		Text(n.Next), micros(n.nextAt), n.CreatedBy, n.Version, db.Micros(n.CreatedAt), db.Micros(n.UpdatedAt)}})
}

// parse parses a day such as 2026-09-30, or "" to the zero time.
func parse(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	return workday.Parse(text)
}

func scan(company string, row func(...any) error) (n Schedule, err error) {
	var state, frequency, start, end, days, rule, zone, terms, to, next string
	var ahead, nextAt, created, updated int64
	if err := row(&n.ID, &n.Name, &state, &frequency, &start, &end, &days, &rule, &n.Calendar.Country, &zone, &ahead,
		&terms, &to, &next, &nextAt, &n.CreatedBy, &n.Version, &created, &updated); err != nil {
		return n, err
	}
	n.CompanyID, n.State, n.Recurrence.Frequency = company, State(state), Frequency(frequency)
	n.Calendar.Rule, n.Calendar.DaysAhead = workday.Rule(rule), int(ahead)
	n.CreatedAt, n.UpdatedAt = db.Time(created), db.Time(updated)
	if nextAt > 0 {
		n.nextAt = db.Time(nextAt)
	}
	for text := range strings.SplitSeq(days, ",") {
		if d, err := strconv.Atoi(text); err == nil {
			n.Recurrence.Days = append(n.Recurrence.Days, d)
		}
	}
	var failed [4]error
	n.Recurrence.Start, failed[0] = parse(start)
	n.Recurrence.End, failed[1] = parse(end)
	n.Next, failed[2] = parse(next)
	n.Calendar.Zone, failed[3] = payroll.Zone(zone)
	return n, errors.Join(append(failed[:], json.Unmarshal([]byte(terms), &n.Terms),
		json.Unmarshal([]byte(to), &n.ToPay))...)
}

func one(company string, row db.Row) (Schedule, error) {
	n, err := scan(company, row.Scan)
	if errors.Is(err, db.ErrNoRows) {
		err = ErrNotFound
	}
	return n, err
}

func find(ctx context.Context, tx *db.Tx, company, id string) (Schedule, error) {
	return one(company, tx.QueryRow(ctx, "SELECT "+columns+" FROM schedules WHERE company_id = $1 AND schedule_id = $2",
		company, id))
}

// byKey returns the schedule that was created from a form with this idempotency key.
func byKey(ctx context.Context, tx *db.Tx, company, key string) (Schedule, error) {
	return one(company, tx.QueryRow(ctx, "SELECT "+columns+" FROM schedules WHERE company_id = $1 AND request_key = $2",
		company, key))
}

// lock reads a schedule and locks its row until the transaction ends.
func lock(ctx context.Context, tx *db.Tx, company, id string) (Schedule, error) {
	return one(company, tx.QueryRow(ctx, `UPDATE schedules SET version = version
		WHERE company_id = $1 AND schedule_id = $2 RETURNING `+columns, company, id))
}

// touch stores the next version of a schedule, with all members that can change. It fails if the schedule has changed
// since it was read.
func (n *Schedule) touch(ctx context.Context, tx *db.Tx) error {
	to, err := encode(n.ToPay)
	if err != nil {
		return err
	}
	n.UpdatedAt = tx.Now()
	err = tx.ExecOne(ctx, `UPDATE schedules SET name = $1, state = $2, end_date = $3, days_ahead = $4, to_pay = $5,
		next_day = $6, next_at = $7, created_by = $8, updated_at = $9, working_day = $13, calendar = $14,
			time_zone = $15, version = version + 1
		WHERE company_id = $10 AND schedule_id = $11 AND version = $12 AND ($6 = '' OR next_day <= $6)`,
		n.Name, string(n.State), Text(n.Recurrence.End), int64(n.Calendar.DaysAhead), to, Text(n.Next), micros(n.nextAt),
		n.CreatedBy, db.Micros(n.UpdatedAt), n.CompanyID, n.ID, n.Version,
		string(n.Calendar.Rule), n.Calendar.Country, n.Calendar.Zone.String())
	n.Version++
	return err
}

func list(ctx context.Context, tx *db.Tx, company string, page db.Page) ([]Schedule, int64, error) {
	l := &db.List{Columns: columns, Table: "schedules", ID: "schedule_id", Page: page}
	l.Where("company_id = ?", company)
	return db.ReadPage(ctx, tx, l, func(r *db.Rows) (Schedule, error) { return scan(company, r.Scan) })
}

type key struct{ company, id string }

// due returns the active schedules of all companies whose next payroll is due, ordered by due time.
func due(ctx context.Context, tx *db.Tx, limit int) ([]key, error) {
	rows, err := tx.Query(ctx, `SELECT company_id, schedule_id FROM schedules
		WHERE state = 'active' AND next_at <= $1 ORDER BY next_at, schedule_id LIMIT $2`, db.Micros(tx.Now()), int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (k key, err error) { return k, r.Scan(&k.company, &k.id) })
}

const runColumns = "run_id, day, pay_date, state, reason, payroll_id, to_pay, changed_by, version"

// scanRun reads a run. The pay date of a run that is not over is computed with the schedule's current calendar.
func (n *Schedule) scanRun(row func(...any) error) (r Run, err error) {
	var day, pay, state, to string
	if err := row(&r.ID, &day, &pay, &state, &r.Reason, &r.PayrollID, &to, &r.ChangedBy, &r.Version); err != nil {
		return r, err
	}
	r.State = RunState(state)
	var failed [3]error
	r.Day, failed[0] = parse(day)
	r.PayDate, failed[1] = parse(pay)
	if to != "" {
		failed[2] = json.Unmarshal([]byte(to), &r.ToPay)
	}
	if r.State == Planned || r.State == Waiting {
		r.PayDate = n.Calendar.PayDate(r.Day)
	}
	return r, errors.Join(failed[:]...)
}

// run returns the run of a day as stored or, if it is not stored, as planned.
func (n *Schedule) run(ctx context.Context, tx *db.Tx, day time.Time) (Run, error) {
	r, err := n.scanRun(tx.QueryRow(ctx, "SELECT "+runColumns+` FROM schedule_runs
		WHERE company_id = $1 AND schedule_id = $2 AND day = $3`, n.CompanyID, n.ID, Text(day)).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Run{Day: day, PayDate: n.Calendar.PayDate(day), State: Planned}, nil
	}
	return r, err
}

// stored returns the newest shownRuns stored runs, oldest first.
func (n *Schedule) stored(ctx context.Context, tx *db.Tx) ([]Run, error) {
	rows, err := tx.Query(ctx, "SELECT "+runColumns+` FROM (SELECT * FROM schedule_runs
		WHERE company_id = $1 AND schedule_id = $2 ORDER BY day DESC LIMIT $3) newest ORDER BY day`, n.CompanyID, n.ID,
		int64(shownRuns))
	return db.Collect(rows, err, func(r *db.Rows) (Run, error) { return n.scanRun(r.Scan) })
}

// saveRun stores a version of a run. It fails if the run has changed since it was read, or if its payroll exists.
func (n *Schedule) saveRun(ctx context.Context, tx *db.Tx, r *Run) error {
	to := ""
	if r.ToPay != nil {
		var err error
		if to, err = encode(r.ToPay); err != nil {
			return err
		}
	}
	return tx.ExecOne(ctx, `INSERT INTO schedule_runs (company_id, schedule_id, day, run_id, pay_date, state, reason,
		payroll_id, to_pay, changed_by, version, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (company_id, schedule_id, day) DO UPDATE SET pay_date = excluded.pay_date, state = excluded.state,
		reason = excluded.reason, payroll_id = excluded.payroll_id, to_pay = excluded.to_pay,
		changed_by = excluded.changed_by, version = excluded.version, updated_at = excluded.updated_at
		WHERE schedule_runs.version = excluded.version - 1 AND schedule_runs.payroll_id = ''`,
		n.CompanyID, n.ID, Text(r.Day), r.ID, Text(r.PayDate), string(r.State), r.Reason, r.PayrollID, to, r.ChangedBy,
		r.Version, db.Micros(tx.Now()))
}
