package requestlog

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

// line is a redacted entry to write.
type line struct {
	entry                   Entry
	age                     time.Duration
	path, key, body, answer string
}

var columns = []string{
	"company_id", "at", "id", "request_id", "method", "route", "path", "status", "code", "app_id", "credential", "took",
	"idempotency_key", "replayed", "body", "answer",
}

// insert writes entries. It converts their ages to times by the transaction's clock, which a sandbox can change.
func insert(ctx context.Context, tx *db.Tx, lines []line) error {
	rows := make([][]any, len(lines))
	for i, l := range lines {
		e := l.entry
		rows[i] = []any{
			e.CompanyID, db.Micros(tx.Now().Add(-l.age)), tx.NewID("rql"), e.RequestID, e.Method, e.Route, l.path,
			int64(e.Status), e.Code, e.AppID, e.Credential,
			e.Took.Microseconds(), l.key, e.Replayed, l.body, l.answer,
		}
	}
	return tx.Insert(ctx, "requests", columns, rows)
}

// Request is a stored entry. Redacted parts of Path, Body and Answer are replaced by "…".
type Request struct {
	Ref                            string // argument for Get
	At                             time.Time
	RequestID, Method, Route, Path string
	Status                         int
	Code, AppID, Credential        string
	Took                           time.Duration
	IdempotencyKey, Body, Answer   string
	Replayed                       bool
}

// Filter selects entries.
type Filter struct {
	// Outcome is one of Outcomes; "" selects all.
	Outcome string
	// AppID, Route and RequestID must match exactly; "" selects all.
	AppID, Route, RequestID string
	// To excludes entries after this time, unless it is zero.
	To time.Time
	// After selects the entries that follow the entry with this Ref.
	After string
	Limit int
}

// Outcomes of a request: it succeeded, was refused with a 4xx status, failed with a 5xx status, or got the stored
// response of an earlier request.
const (
	Succeeded = "succeeded"
	Refused   = "refused"
	Failed    = "failed"
	Replayed  = "replayed"
)

// Outcomes are the values of Filter.Outcome.
var Outcomes = []string{Succeeded, Refused, Failed, Replayed}

// maxScanned is the maximum number of entries that a filtered List scans.
const maxScanned = 5000

const selectRequests = `SELECT at, id, request_id, method, route, path, status, code, app_id, credential, took,
	idempotency_key, replayed, body, answer
	FROM requests WHERE `

const newestFirst = " ORDER BY at DESC, id DESC LIMIT "

// condition is a WHERE condition with its arguments.
type condition struct {
	text string
	args []any
}

// and adds a condition. Each ? in text is replaced by the placeholder of the next value.
func (c *condition) and(text string, values ...any) {
	for _, v := range values {
		c.args = append(c.args, v)
		text = strings.Replace(text, "?", "$"+strconv.Itoa(len(c.args)), 1)
	}
	c.text += " AND " + text
}

// List returns entries of a company, newest first. next is the Ref after which to continue, or "" at the end. Because
// a filter scans at most maxScanned entries, List may return fewer entries than f.Limit, or none, before the end.
func List(ctx context.Context, tx *db.Tx, companyID string, f Filter) (all []Request, next string, err error) {
	c := condition{"company_id = $1", []any{companyID}}
	c.and("at > ?", oldest(tx))
	if at, id, ok := parseRef(f.After); ok {
		c.and("(at, id) < (?, ?)", at, id)
	}
	if !f.To.IsZero() {
		c.and("at <= ?", db.Micros(f.To))
	}
	end := ""
	if f.RequestID != "" {
		c.and("request_id = ?", f.RequestID)
	} else if f.Outcome != "" || f.AppID != "" || f.Route != "" {
		var at int64
		var id string
		switch err := tx.QueryRow(ctx, "SELECT at, id FROM requests WHERE "+c.text+newestFirst+"1 OFFSET "+strconv.Itoa(
			maxScanned-1), c.args...).Scan(&at, &id); {
		case errors.Is(err, db.ErrNoRows):
		case err != nil:
			return nil, "", err
		default:
			c.and("(at, id) >= (?, ?)", at, id)
			end = ref(at, id)
		}
	}
	if f.AppID != "" {
		c.and("app_id = ?", f.AppID)
	}
	if f.Route != "" {
		c.and("route = ?", f.Route)
	}
	switch f.Outcome {
	case Succeeded:
		c.and("status < 400")
	case Refused:
		c.and("status BETWEEN 400 AND 499")
	case Failed:
		c.and("status >= 500")
	case Replayed:
		c.and("replayed")
	}
	rows, err := tx.Query(ctx, selectRequests+c.text+newestFirst+strconv.Itoa(f.Limit+1), c.args...)
	if err != nil {
		return nil, "", err
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return nil, "", err
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		return nil, "", err
	}
	if len(all) > f.Limit {
		return all[:f.Limit], all[f.Limit-1].Ref, nil
	}
	return all, end, nil
}

// Get returns an entry of a company by its Ref, or apierr.NotFoundErr.
func Get(ctx context.Context, tx *db.Tx, companyID, reference string) (Request, error) {
	at, id, ok := parseRef(reference)
	if !ok {
		return Request{}, apierr.NotFoundErr
	}
	r, err := scan(tx.QueryRow(ctx, selectRequests+"company_id = $1 AND at = $2 AND id = $3 AND at > $4",
		companyID, at, id, oldest(tx)))
	if errors.Is(err, db.ErrNoRows) {
		err = apierr.NotFoundErr
	}
	return r, err
}

func scan(row interface{ Scan(...any) error }) (r Request, err error) {
	var at, took int64
	var id string
	err = row.Scan(&at, &id, &r.RequestID, &r.Method, &r.Route, &r.Path, &r.Status, &r.Code, &r.AppID, &r.Credential,
		&took, &r.IdempotencyKey, &r.Replayed, &r.Body, &r.Answer)
	r.Ref, r.At, r.Took = ref(at, id), db.Time(at), time.Duration(took)*time.Microsecond
	return r, err
}

// oldest returns the time, in microseconds, before which entries have expired.
func oldest(tx *db.Tx) int64 { return db.Micros(tx.Now().Add(-Life)) }

// ref returns the Ref of an entry from its time and ID.
func ref(at int64, id string) string { return strconv.FormatInt(at, 36) + "-" + id }

func parseRef(text string) (at int64, id string, ok bool) {
	first, id, ok := strings.Cut(text, "-")
	at, err := strconv.ParseInt(first, 36, 64)
	return at, id, ok && err == nil
}

// Prune deletes expired entries in small transactions.
func Prune(ctx context.Context, d *db.DB) error {
	company := ""
	for {
		deleted := int64(0)
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			var next string
			switch err := tx.QueryRow(ctx, "SELECT company_id FROM requests WHERE company_id >= $1 ORDER BY company_id LIMIT 1",
				company).Scan(&next); {
			case errors.Is(err, db.ErrNoRows):
				deleted = -1
				return nil
			case err != nil:
				return err
			}
			company = next
			var until int64
			switch err := tx.QueryRow(ctx, `SELECT at FROM requests
				WHERE company_id = $1 AND at <= $2 ORDER BY at LIMIT 1 OFFSET `+strconv.Itoa(pruneSize),
				company, oldest(tx)).Scan(&until); {
			case errors.Is(err, db.ErrNoRows):
				until = oldest(tx)
			case err != nil:
				return err
			}
			n, err := tx.Exec(ctx, "DELETE FROM requests WHERE company_id = $1 AND at <= $2", company, until)
			deleted = n
			return err
		})
		if err != nil || deleted < 0 {
			return err
		}
		if deleted <= pruneSize {
			company += "\x01" // the next company
		}
	}
}

// pruneSize is the approximate number of entries deleted per transaction.
const pruneSize = 500
