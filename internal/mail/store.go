package mail

import (
	"context"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/db"
)

// The states of a mail.
const (
	queued  = "queued"
	sent    = "sent"    // taken by the server
	kept    = "kept"    // to be read in the sandbox
	refused = "refused" // by the server, for good
)

type row struct {
	companyID, id, template, key string
	to, language, data, state    string
	created                      time.Time
}

const insertSize = 200

// inserts drops a mail whose key is taken: its cause was looked at twice.
var inserts = db.NewGroup(func(ctx context.Context, tx *db.Tx, items []row) error {
	for chunk := range slices.Chunk(items, insertSize) {
		var args []any
		for _, m := range chunk {
			args = append(args, m.companyID, m.id, m.template, m.key, m.to, m.language, m.data, queued, "", "", "", "",
				db.Micros(m.created), int64(0))
		}
		if _, err := tx.Exec(ctx, `INSERT INTO mails (company_id, mail_id, template, mail_key, address, language, data, state,
				subject, body_text, body_html, reason, created_at, ended_at)
			VALUES `+db.Placeholders(len(chunk), 14, 1)+` ON CONFLICT (company_id, template, mail_key) DO NOTHING`,
			args...); err != nil {
			return err
		}
	}
	return nil
}, "mails")

func insert(tx *db.Tx, m row) {
	m.created = tx.Now()
	inserts.Add(tx, m)
}

func find(ctx context.Context, tx *db.Tx, companyID, id string) (row, error) {
	m := row{companyID: companyID, id: id}
	var created int64
	err := tx.QueryRow(ctx, `SELECT template, mail_key, address, language, data, state, created_at
		FROM mails WHERE company_id = $1 AND mail_id = $2`, companyID, id).
		Scan(&m.template, &m.key, &m.to, &m.language, &m.data, &m.state, &created)
	m.created = db.Time(created)
	return m, err
}

// ending is what becomes of a queued mail.
type ending struct {
	state, reason string
	Letter        // only of one that is kept
}

// finish ends a queued mail and deletes what it was made of. One that another run has ended stays as it is.
func finish(ctx context.Context, tx *db.Tx, m row, e ending) error {
	_, err := tx.Exec(ctx, `UPDATE mails SET state = $3, data = '', subject = $4, body_text = $5, body_html = $6,
		reason = $7, ended_at = $8
		WHERE company_id = $1 AND mail_id = $2 AND state = 'queued'`,
		m.companyID, m.id, e.state, e.Subject, e.Text, e.HTML, e.reason, db.Micros(tx.Now()))
	return err
}

// hasNewer says whether a newer mail of the same company and kind waits for the same address, or has left already.
func hasNewer(ctx context.Context, tx *db.Tx, m row) (bool, error) {
	var n int64
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM mails WHERE company_id = $1 AND created_at >= $2
		AND mail_id > $3
		AND template = $4 AND address = $5 AND state IN ('queued', 'sent') LIMIT 1) AS newer`,
		m.companyID, db.Micros(m.created), m.id, m.template, m.to).Scan(&n)
	return n > 0, err
}

// count adds one and returns how many there are since a day began, and when that was. The first one after a day begins
// the next. Companies come before addresses, so two mails never wait for each other.
func count(ctx context.Context, tx *db.Tx, counter string) (n int64, since time.Time, err error) {
	var at int64
	err = tx.QueryRow(ctx, `INSERT INTO mail_counts (counter, since_at, mails) VALUES ($1, $2, 1)
		ON CONFLICT (counter) DO UPDATE SET
			mails = CASE WHEN mail_counts.since_at <= $3 THEN 1 ELSE mail_counts.mails + 1 END,
			since_at = CASE WHEN mail_counts.since_at <= $3 THEN $2 ELSE mail_counts.since_at END
		RETURNING mails, since_at`, counter, db.Micros(tx.Now()), db.Micros(tx.Now().Add(-day))).Scan(&n, &at)
	return n, db.Time(at), err
}

func discount(ctx context.Context, tx *db.Tx, counter string) error {
	_, err := tx.Exec(ctx, "UPDATE mail_counts SET mails = mails - 1 WHERE counter = $1 AND mails > 0", counter)
	return err
}

func deleteCounts(ctx context.Context, tx *db.Tx) error {
	_, err := tx.Exec(ctx, "DELETE FROM mail_counts WHERE since_at <= $1", db.Micros(tx.Now().Add(-day)))
	return err
}

func list(ctx context.Context, tx *db.Tx, companyID string, offset, limit int) (mails []Kept, total int64, err error) {
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM mails WHERE company_id = $1
		AND state = 'kept'`, companyID).Scan(&total); err != nil {
		return nil, 0, err
	}
	rows, err := tx.Query(ctx, `SELECT mail_id, template, address, subject, body_text, body_html, created_at FROM mails
		WHERE company_id = $1 AND state = 'kept' ORDER BY created_at DESC, mail_id DESC LIMIT $2 OFFSET $3`, companyID, limit,
		offset)
	mails, err = db.Collect(rows, err, func(r *db.Rows) (k Kept, err error) {
		var created int64
		err = r.Scan(&k.ID, &k.Template, &k.To, &k.Subject, &k.Text, &k.HTML, &created)
		k.Created = db.Time(created)
		return k, err
	})
	return mails, total, err
}

// Erase empties the mails that were written to an address, on whoever's behalf: a read across companies. One that
// waits is not sent any more.
func Erase(ctx context.Context, tx *db.Tx, address string) error {
	rows, err := tx.Query(ctx, "SELECT company_id, mail_id FROM mails WHERE LOWER(address) = LOWER($1)", address)
	all, err := db.Collect(rows, err, func(r *db.Rows) (m row, err error) { return m, r.Scan(&m.companyID, &m.id) })
	if err != nil {
		return err
	}
	for _, m := range all {
		if _, err := tx.Exec(ctx, `UPDATE mails SET address = '', data = '', subject = '', body_text = '', body_html = '',
				reason = CASE WHEN state = 'queued' THEN 'erased' ELSE reason END, ended_at = CASE WHEN state = 'queued' THEN $3
				ELSE ended_at END, state = CASE WHEN state = 'queued' THEN 'refused' ELSE state END
			WHERE company_id = $1 AND mail_id = $2`, m.companyID, m.id, db.Micros(tx.Now())); err != nil {
			return err
		}
	}
	return nil
}
