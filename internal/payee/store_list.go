package payee

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/metadata"
)

// filter is a WHERE clause that is being built. Every value is a bound argument.
type filter struct {
	where []string
	args  []any
}

func (f *filter) bind(value any) string {
	f.args = append(f.args, value)
	return "$" + strconv.Itoa(len(f.args))
}

func (f *filter) equal(column, value string) {
	if value != "" {
		f.where = append(f.where, column+" = "+f.bind(value))
	}
}

func (f *filter) String() string { return " WHERE " + strings.Join(f.where, " AND ") }

// query selects one page of a company's recipients. Empty fields do not filter.
type query struct {
	companyID                   string
	search                      string // part of a name or email address, in the form that key returns
	country, role, kind, status string
	metadata                    map[string]string
	sortBy                      string // column of one of the indexes recipients_by_…
	descending                  bool
	page                        db.Page
}

// fewMatches is the largest number of matches that are collected and sorted. If there are more, rows are read in the
// order of an index instead, which is then at least as fast for every page. Tests lower the number.
var fewMatches = 20_000

// find returns the IDs of one page in order, and the number of matches on all pages.
//
// Without a search or metadata, the total is a sum of recipient_counts. A search first collects up to fewMatches+1
// matches through the trigram index. If these are all matches, the same statement counts and sorts them; otherwise
// they are counted with one index and read in the order of another.
func find(ctx context.Context, tx *db.Tx, q query) (ids []string, total int, err error) {
	switch {
	case len(q.metadata) > 0:
		if total, err = q.count(ctx, tx); err == nil && total <= fewMatches {
			return q.gather(ctx, tx, "recipients r WHERE r.company_id = $1", func(f *filter) {
				q.equal(f, "r.")
				q.has(f, "r.")
				q.contains(f, tx.Engine(), "r.")
			})
		}
	case q.search != "":
		from, conditions := q.byTrigram(tx.Engine())
		ids, total, err = q.gather(ctx, tx, from, conditions)
		if err != nil || total <= fewMatches {
			return ids, total, err
		}
		total, err = q.count(ctx, tx)
	default:
		total, err = q.countSegments(ctx, tx)
		if err == nil && total <= fewMatches && q.filtered() {
			return q.gather(ctx, tx, `recipient_counts c CROSS JOIN recipients r WHERE c.company_id = $1 AND c.recipients > 0
				AND r.company_id = c.company_id AND r.country = c.country AND r.role = c.role
					AND r.recipient_type = c.recipient_type
				AND r.status = c.status AND (r.user_id <> '') = c.has_login`, func(f *filter) { q.equal(f, "c.") })
		}
	}
	if err != nil {
		return nil, 0, err
	}
	ids, err = q.scan(ctx, tx, total)
	return ids, total, err
}

func (q query) filtered() bool { return q.country+q.role+q.kind+q.status != "" }

// equal adds q's conditions on country, role, type and status to f. The prefix, such as "r.", qualifies the columns.
func (q query) equal(f *filter, prefix string) {
	f.equal(prefix+"country", q.country)
	f.equal(prefix+"role", q.role)
	f.equal(prefix+"recipient_type", q.kind)
	f.equal(prefix+"status", q.status)
}

// equalInOrder adds the same conditions in a form that SQLite checks on each row of the index that gives the order.
// For plain conditions SQLite would use the index of segments, and then have to sort.
func (q query) equalInOrder(f *filter) {
	f.equal("CAST(country AS TEXT)", q.country)
	f.equal("CAST(role AS TEXT)", q.role)
	f.equal("CAST(recipient_type AS TEXT)", q.kind)
	f.equal("CAST(status AS TEXT)", q.status)
}

// has adds the conditions on metadata. The prefix, such as "r.", qualifies the columns.
func (q query) has(f *filter, prefix string) {
	metadata.Conditions(prefix+"recipient_id", q.companyID, q.metadata, func(condition string, values ...any) {
		for _, value := range values {
			condition = strings.Replace(condition, "?", f.bind(value), 1)
		}
		f.where = append(f.where, condition)
	})
}

// contains adds the search as a condition that does not use the trigram index.
func (q query) contains(f *filter, engine db.Engine, prefix string) {
	if q.search == "" {
		return
	}
	position := "instr"
	if engine == db.Postgres {
		position = "strpos"
	}
	text := f.bind(q.search)
	f.where = append(f.where, fmt.Sprintf("(%[1]s(%[2]sname_key, %[3]s) > 0 OR %[1]s(%[2]semail_key, %[3]s) > 0)",
		position, prefix, text))
}

// byTrigram returns the source of the recipients r that match the search, for a FROM clause, and a function that adds
// the conditions. It uses the trigram index, except for searches shorter than three characters.
func (q query) byTrigram(engine db.Engine) (from string, conditions func(*filter)) {
	trigrams := trigramsOf(q.search)
	if len(trigrams) == 0 {
		return "recipients r WHERE r.company_id = $1", func(f *filter) {
			q.equal(f, "r.")
			q.contains(f, engine, "r.")
		}
	}
	if engine == db.Postgres {
		return "recipients r WHERE r.company_id = $1", func(f *filter) {
			q.equal(f, "r.")
			pattern := f.bind("%" + db.EscapeLike(q.search) + "%")
			f.where = append(f.where, fmt.Sprintf("(r.name_key LIKE %[1]s OR r.email_key LIKE %[1]s)", pattern))
		}
	}
	// CROSS JOIN makes SQLite read the tables in this order: first matches, then their recipients. The index shows which
	// texts contain a trigram, but not where, so contains also checks the texts themselves.
	return `recipient_trigrams x CROSS JOIN recipient_texts t CROSS JOIN recipients r WHERE t.text_id = x.rowid
		AND t.company_id = $1
			AND r.company_id = t.company_id AND r.recipient_id = t.recipient_id`, func(f *filter) {
			quoted := make([]string, len(trigrams))
			for i, t := range trigrams {
				quoted[i] = `"` + strings.ReplaceAll(t, `"`, `""`) + `"`
			}
			f.where = append(f.where, "x.recipient_trigrams MATCH "+f.bind(strings.Join(quoted, " AND ")))
			q.equal(f, "r.")
			q.contains(f, engine, "t.")
		}
}

// trigramsOf returns the distinct sequences of three characters in a text.
func trigramsOf(text string) []string {
	runes := []rune(text)
	var all []string
	for i := 0; i+3 <= len(runes); i++ {
		if t := string(runes[i : i+3]); !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}

// gather selects up to fewMatches+1 recipients r from a source. It returns their number and one page of their IDs in
// order.
func (q query) gather(ctx context.Context, tx *db.Tx, from string,
	conditions func(*filter)) (ids []string, total int, err error) {
	f := filter{args: []any{q.companyID}}
	conditions(&f)
	where := strings.Join(append([]string{from}, f.where...), " AND ")
	f.where = []string{"TRUE"}
	if err := q.seek(ctx, tx, &f, "sort_key"); err != nil {
		return nil, 0, err
	}
	rows, err := tx.Query(ctx, `WITH matches AS MATERIALIZED (SELECT r.recipient_id, r.`+q.sortBy+` AS sort_key
		FROM `+where+` LIMIT `+f.bind(int64(fewMatches+1))+`)
		SELECT n.total, COALESCE(p.recipient_id, '') FROM (SELECT COUNT(*) AS total FROM matches) n
		LEFT JOIN (SELECT recipient_id, sort_key FROM matches`+f.String()+` ORDER BY `+q.order("sort_key", q.descending)+
		` LIMIT `+f.bind(int64(q.page.PerPage))+` OFFSET `+f.bind(q.page.Offset())+`) p ON TRUE
		ORDER BY `+q.order("p.sort_key", q.descending), f.args...)
	ids, err = db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&total, &id) })
	if len(ids) == 1 && ids[0] == "" {
		ids = nil // for a page past the end, the query returns one row with an empty ID
	}
	return ids, total, err
}

// order returns the ORDER BY terms of the list. Recipients with the same sort key are ordered by ID, so the order is
// always the same.
func (q query) order(sortKey string, descending bool) string {
	id := "recipient_id"
	if prefix, _, ok := strings.Cut(sortKey, "."); ok {
		id = prefix + "." + id
	}
	if descending {
		return sortKey + " DESC, " + id + " DESC"
	}
	return sortKey + ", " + id
}

// seek limits the rows to those after the row with the ID page.After. column contains the sort key.
func (q query) seek(ctx context.Context, tx *db.Tx, f *filter, column string) error {
	if q.page.After == "" {
		return nil
	}
	var at int64
	var text string
	var key any = &text
	if q.sortBy == "created_at" {
		key = &at
	}
	err := tx.QueryRow(ctx, "SELECT "+q.sortBy+" FROM recipients WHERE company_id = $1 AND recipient_id = $2", q.companyID,
		q.page.After).Scan(key)
	if errors.Is(err, db.ErrNoRows) {
		return db.ErrAfter
	}
	if err != nil {
		return err
	}
	relation, value := ">", any(text)
	if q.descending {
		relation = "<"
	}
	if q.sortBy == "created_at" {
		value = at
	}
	f.where = append(f.where, "("+column+", recipient_id) "+relation+" ("+f.bind(value)+", "+f.bind(q.page.After)+")")
	return nil
}

// countSegments returns the total of a list without a search.
func (q query) countSegments(ctx context.Context, tx *db.Tx) (total int, err error) {
	f := filter{}
	f.equal("company_id", q.companyID)
	q.equal(&f, "")
	return total, tx.QueryRow(ctx, "SELECT CAST(COALESCE(SUM(recipients), 0) AS BIGINT) FROM recipient_counts"+f.String(),
		f.args...).Scan(&total)
}

// count counts the matches of a search.
func (q query) count(ctx context.Context, tx *db.Tx) (total int, err error) {
	f := filter{}
	f.equal("company_id", q.companyID)
	q.equalInOrder(&f)
	q.has(&f, "")
	q.contains(&f, tx.Engine(), "")
	return total, tx.QueryRow(ctx, "SELECT COUNT(*) FROM recipients"+f.String(), f.args...).Scan(&total)
}

// scan returns the IDs of one page of a list of total rows. It reads an index in order, from whichever end is nearer
// to the page.
func (q query) scan(ctx context.Context, tx *db.Tx, total int) ([]string, error) {
	skip := q.page.Offset()
	limit := min(int64(q.page.PerPage), int64(total)-skip)
	if limit <= 0 {
		return nil, nil
	}
	descending, backward := q.descending, skip > int64(total)/2
	if backward {
		descending, skip = !descending, int64(total)-skip-limit
	}
	f := filter{}
	f.equal("company_id", q.companyID)
	if err := q.seek(ctx, tx, &f, q.sortBy); err != nil {
		return nil, err
	}
	q.equalInOrder(&f)
	q.has(&f, "")
	q.contains(&f, tx.Engine(), "")
	rows, err := tx.Query(ctx, "SELECT recipient_id FROM recipients"+f.String()+" ORDER BY "+q.order(q.sortBy, descending)+
		" LIMIT "+f.bind(limit)+" OFFSET "+f.bind(skip), f.args...)
	ids, err := db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
	if backward {
		slices.Reverse(ids)
	}
	return ids, err
}

// findWorkers returns the IDs of one page of a company's workers with a login, oldest first, and the number of
// matches on all pages.
func findWorkers(ctx context.Context, tx *db.Tx, p WorkersParams) (ids []string, total int, err error) {
	f := filter{}
	f.equal("company_id", p.CompanyID)
	f.where = append(f.where, "user_id <> ''")
	f.equal("recipient_id", p.UserID)
	f.equal("email_key", key(strings.TrimSpace(p.Email)))
	if p.UserID == "" && p.Email == "" {
		err = tx.QueryRow(ctx,
			"SELECT CAST(COALESCE(SUM(recipients), 0) AS BIGINT) FROM recipient_counts WHERE company_id = $1 AND has_login",
			p.CompanyID).Scan(&total)
	} else {
		err = tx.QueryRow(ctx, "SELECT COUNT(*) FROM recipients"+f.String(), f.args...).Scan(&total)
	}
	if err != nil {
		return nil, 0, err
	}
	if err := (query{companyID: p.CompanyID, sortBy: "created_at", page: p.Page}).seek(ctx, tx, &f,
		"created_at"); err != nil {
		return nil, 0, err
	}
	rows, err := tx.Query(ctx,
		"SELECT recipient_id FROM recipients"+f.String()+" ORDER BY created_at, recipient_id LIMIT "+
			f.bind(int64(p.Page.PerPage))+" OFFSET "+f.bind(p.Page.Offset()), f.args...)
	ids, err = db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
	return ids, total, err
}

// SearchIsIndexed reports whether the database has the index for searching recipients. A PostgreSQL database lacks it
// if the extension pg_trgm could not be created.
func SearchIsIndexed(ctx context.Context, tx *db.Tx) (indexed bool, err error) {
	if tx.Engine() != db.Postgres {
		return true, nil
	}
	return indexed, tx.QueryRow(ctx, "SELECT to_regclass('recipients_by_trigram') IS NOT NULL").Scan(&indexed)
}
