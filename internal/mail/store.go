package mail

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// The states of a mail.
const (
	queued  = "queued"
	sent    = "sent"    // accepted by the server
	stored  = "stored"  // readable in a sandbox without a server
	refused = "refused" // permanently rejected, by the server or by a limit
)

// row is a row of the table mails.
type row struct {
	companyID, id, template, key string
	to, language, data, state    string
	created                      time.Time
}

// insertSize is the maximum number of mails that one statement inserts.
const insertSize = 200

// inserts writes new mails. It drops a mail if a mail with the same key exists.
var inserts = db.NewGroup(func(ctx context.Context, tx *db.Tx, items []row) error {
	for chunk := range slices.Chunk(items, insertSize) {
		var args []any
		for _, m := range chunk {
			args = append(args, m.companyID, m.id, m.template, m.key, m.to, identity.EmailKey(m.to), m.language, m.data,
				queued, "", "", "", "", db.Micros(m.created), int64(0))
		}
		if _, err := tx.Exec(ctx, `INSERT INTO mails (company_id, mail_id, template, mail_key, address, address_key, language,
				data, state, subject, body_text, body_html, reason, created_at, ended_at)
			VALUES `+db.Placeholders(len(chunk), 15, 1)+` ON CONFLICT (company_id, template, mail_key) DO NOTHING`,
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

// result is the final state of a mail.
type result struct {
	state, reason string
	Content       // rendered texts; only in the state stored
}

// finish stores the result of a queued mail and deletes its data. It does not change a mail that already has a
// result.
func finish(ctx context.Context, tx *db.Tx, m row, e result) error {
	_, err := tx.Exec(ctx, `UPDATE mails SET state = $3, data = '', subject = $4, body_text = $5, body_html = $6,
		reason = $7, ended_at = $8
		WHERE company_id = $1 AND mail_id = $2 AND state = 'queued'`,
		m.companyID, m.id, e.state, e.Subject, e.Text, e.HTML, e.reason, db.Micros(tx.Now()))
	return err
}

// hasNewer reports whether a newer mail with the same company, template and address is queued or was sent.
func hasNewer(ctx context.Context, tx *db.Tx, m row) (bool, error) {
	var n int64
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM mails WHERE company_id = $1 AND created_at >= $2
		AND mail_id > $3
		AND template = $4 AND address_key = $5 AND state IN ('queued', 'sent') LIMIT 1) AS newer`,
		m.companyID, db.Micros(m.created), m.id, m.template, identity.EmailKey(m.to)).Scan(&n)
	return n > 0, err
}

// count increments a counter and returns its new value and the start of its period. The first count after a day
// starts a new period. Callers count for companies first, then people, then addresses; this order prevents deadlocks.
func count(ctx context.Context, tx *db.Tx, counter string) (n int64, since time.Time, err error) {
	var at int64
	err = tx.QueryRow(ctx, `INSERT INTO mail_counts (counter, since_at, mails) VALUES ($1, $2, 1)
		ON CONFLICT (counter) DO UPDATE SET
			mails = CASE WHEN mail_counts.since_at <= $3 THEN 1 ELSE mail_counts.mails + 1 END,
			since_at = CASE WHEN mail_counts.since_at <= $3 THEN $2 ELSE mail_counts.since_at END
		RETURNING mails, since_at`, counter, db.Micros(tx.Now()), db.Micros(tx.Now().Add(-day))).Scan(&n, &at)
	return n, db.Time(at), err
}

// discount decrements a counter.
func discount(ctx context.Context, tx *db.Tx, counter string) error {
	_, err := tx.Exec(ctx, "UPDATE mail_counts SET mails = mails - 1 WHERE counter = $1 AND mails > 0", counter)
	return err
}

func deleteCounts(ctx context.Context, tx *db.Tx) error {
	_, err := tx.Exec(ctx, "DELETE FROM mail_counts WHERE since_at <= $1", db.Micros(tx.Now().Add(-day)))
	return err
}

// companyFrom returns the first company that has mails, starting with the ID from.
func companyFrom(ctx context.Context, tx *db.Tx, from string) (company string, found bool, err error) {
	err = tx.QueryRow(ctx, "SELECT company_id FROM mails WHERE company_id >= $1 ORDER BY company_id LIMIT 1",
		from).Scan(&company)
	if errors.Is(err, db.ErrNoRows) {
		return "", false, nil
	}
	return company, err == nil, err
}

// deleteOld deletes up to pruneSize mails of a company, and returns their number.
func deleteOld(ctx context.Context, tx *db.Tx, company string, before time.Time) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM mails WHERE company_id = $1 AND mail_id IN (SELECT mail_id FROM mails
		WHERE company_id = $1 AND created_at <= $2 AND state <> 'queued' ORDER BY created_at LIMIT $3)`, company,
		db.Micros(before), int64(pruneSize))
}

// CountExpired returns the number of mails that [Prune] would delete.
func CountExpired(ctx context.Context, tx *db.Tx, kept time.Duration) (n int64, err error) {
	err = tx.QueryRow(ctx, "SELECT COUNT(*) FROM mails WHERE created_at <= $1 AND state <> 'queued'",
		db.Micros(tx.Now().Add(-kept))).Scan(&n)
	return n, err
}

func list(ctx context.Context, tx *db.Tx, companyID string, page db.Page) ([]StoredMail, int64, error) {
	l := &db.List{Columns: "mail_id, template, address, subject, body_text, body_html, created_at", Table: "mails",
		ID: "mail_id", Time: "created_at", Page: page}
	l.Where("company_id = ?", companyID)
	l.Where("state = 'stored'")
	return db.ReadPage(ctx, tx, l, func(r *db.Rows) (k StoredMail, err error) {
		var created int64
		err = r.Scan(&k.ID, &k.Template, &k.To, &k.Subject, &k.Text, &k.HTML, &created)
		k.Created = db.Time(created)
		return k, err
	})
}

// Erase deletes the contents and the address of all mails to an address, from all companies. Queued mails are not
// sent.
func Erase(ctx context.Context, tx *db.Tx, address string) error {
	rows, err := tx.Query(ctx, "SELECT company_id, mail_id FROM mails WHERE address_key = $1", identity.EmailKey(address))
	all, err := db.Collect(rows, err, func(r *db.Rows) (m row, err error) { return m, r.Scan(&m.companyID, &m.id) })
	if err != nil {
		return err
	}
	for _, m := range all {
		if _, err := tx.Exec(ctx, `UPDATE mails SET address = '', address_key = '', data = '', subject = '', body_text = '',
				body_html = '',
				reason = CASE WHEN state = 'queued' THEN 'erased' ELSE reason END, ended_at = CASE WHEN state = 'queued' THEN $3
				ELSE ended_at END, state = CASE WHEN state = 'queued' THEN 'refused' ELSE state END
			WHERE company_id = $1 AND mail_id = $2`, m.companyID, m.id, db.Micros(tx.Now())); err != nil {
			return err
		}
	}
	return nil
}
