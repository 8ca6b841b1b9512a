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

// line is an entry as it is written.
type line struct {
	entry                   Entry
	age                     time.Duration
	path, key, body, answer string
}

var columns = []string{
	"company_id", "at", "id", "request_id", "method", "route", "path", "status", "code", "app_id", "credential", "took",
	"idempotency_key", "replayed", "body", "answer",
}

// insert writes lines. They are told by the clock of the service, which a sandbox may have moved.
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

// Request is a line of the log. Path, Body and Answer have … where something was that is not kept.
type Request struct {
	Ref                            string // names it in Get
	At                             time.Time
	RequestID, Method, Route, Path string
	Status                         int
	Code, AppID, Credential        string
	Took                           time.Duration
	IdempotencyKey, Body, Answer   string
	Replayed                       bool
}

// Filter chooses lines.
type Filter struct {
	// Outcome is one of Outcomes; "" is all.
	Outcome string
	// AppID, Route and RequestID are exact; "" is all.
	AppID, Route, RequestID string
	// To leaves out what began later, unless it is zero.
	To time.Time
	// After continues behind a line, by its Ref.
	After string
	Limit int
}

// How a request may have ended: as it was meant, with a status from 400 or from 500 on, or with the answer of an
// earlier one.
const (
	Succeeded = "succeeded"
	Refused   = "refused"
	Failed    = "failed"
	Replayed  = "replayed"
)

// Outcomes are the values of Filter.Outcome.
var Outcomes = []string{Succeeded, Refused, Failed, Replayed}

// looked is how many lines a filter looks through at most.
const looked = 5000

const selected = `SELECT at, id, request_id, method, route, path, status, code, app_id, credential, took,
	idempotency_key, replayed, body, answer
	FROM requests WHERE `

const newestFirst = " ORDER BY at DESC, id DESC LIMIT "

// chosen is a condition that grows, with what it binds.
type chosen struct {
	text string
	args []any
}

// and adds a condition, whose ? are its values in their order.
func (c *chosen) and(text string, values ...any) {
	for _, v := range values {
		c.args = append(c.args, v)
		text = strings.Replace(text, "?", "$"+strconv.Itoa(len(c.args)), 1)
	}
	c.text += " AND " + text
}

// List gives lines of a company, the newest first. next is where it continues, "" at the end; a filter that chooses
// few of very many may give fewer than it was asked for, or none, before the end.
func List(ctx context.Context, tx *db.Tx, companyID string, f Filter) (all []Request, next string, err error) {
	c := chosen{"company_id = $1", []any{companyID}}
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
			looked-1), c.args...).Scan(&at, &id); {
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
	rows, err := tx.Query(ctx, selected+c.text+newestFirst+strconv.Itoa(f.Limit+1), c.args...)
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

// Get is one line of a company's log.
func Get(ctx context.Context, tx *db.Tx, companyID, reference string) (Request, error) {
	at, id, ok := parseRef(reference)
	if !ok {
		return Request{}, apierr.NotFoundErr
	}
	r, err := scan(tx.QueryRow(ctx, selected+"company_id = $1 AND at = $2 AND id = $3 AND at > $4", companyID, at, id,
		oldest(tx)))
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

func oldest(tx *db.Tx) int64 { return db.Micros(tx.Now().Add(-Life)) }

// ref names a line: its instant and its id.
func ref(at int64, id string) string { return strconv.FormatInt(at, 36) + "-" + id }

func parseRef(text string) (at int64, id string, ok bool) {
	first, id, ok := strings.Cut(text, "-")
	at, err := strconv.ParseInt(first, 36, 64)
	return at, id, ok && err == nil
}

// Prune forgets what is past its life, some at a time. It is meant to run every hour or so.
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
				WHERE company_id = $1 AND at <= $2 ORDER BY at LIMIT 1 OFFSET `+strconv.Itoa(prunedAtOnce),
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
		if deleted <= prunedAtOnce {
			company += "\x01" // the next one
		}
	}
}

// prunedAtOnce bounds a deletion, so that others get at the database between two.
const prunedAtOnce = 500
