package httpapi

import (
	"context"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// keyLife is how long an idempotency key is remembered.
const keyLife = 30 * 24 * time.Hour

// keyOrder puts the records of keys last of what a commit carries: a key means that all else has been written.
const keyOrder = 95

var usedKeys = db.InsertGroup(keyOrder, "idempotency", "principal", "route", "key", "fingerprint", "response", "created_at")

// insertDenied notes in the history of a credential that it was refused, once for each minute: that is the version.
func insertDenied(ctx context.Context, tx *db.Tx, by identity.Principal, minute int64, what string) error {
	_, err := tx.Exec(ctx, `INSERT INTO history (company_id, object_id, version, from_state, to_state, reason, at)
		VALUES ($1, $2, $3, '', 'authz_denied', $4, $5) ON CONFLICT DO NOTHING`, by.CompanyID, by.ID, minute, what, db.Micros(tx.Now()))
	return err
}

// keyUse is who used which key for what.
type keyUse struct {
	principal, route, key, fingerprint string
}

// answers are what is stored under keys.
var answers = db.NewLookup(func(tx *db.Tx, keys []keyUse, found func(keyUse, kept)) (all []db.Question) {
	rows := make([][]any, len(keys))
	for i, k := range keys {
		rows[i] = []any{k.principal, k.route, k.key}
	}
	for values, args := range tx.Values(rows, 1) {
		// One look into the index for each: a join is planned for a small table, and would go on to read all of a large one.
		all = append(all, db.Question{Query: "WITH k (principal, route, key) AS (" + values + `) SELECT principal, route, key,
			(SELECT fingerprint FROM idempotency i WHERE i.principal = k.principal AND i.route = k.route AND i.key = k.key),
			(SELECT response FROM idempotency i WHERE i.principal = k.principal AND i.route = k.route AND i.key = k.key),
			(SELECT created_at FROM idempotency i WHERE i.principal = k.principal AND i.route = k.route AND i.key = k.key) FROM k`, Args: args, Row: func(r *db.Rows) error {
			var c keyUse
			var fingerprint, response *string
			var created *int64
			err := r.Scan(&c.principal, &c.route, &c.key, &fingerprint, &response, &created)
			if err == nil && created != nil {
				found(c, kept{*fingerprint, *response, *created})
			}
			return err
		}})
	}
	return all
})

// kept is a stored answer with the request that it answered.
type kept struct {
	fingerprint, response string
	created               int64
}

// ahead is the key to look up, whatever was sent under it.
func (c keyUse) ahead() keyUse {
	c.fingerprint = ""
	return c
}

// replay finds the stored answer for a key, and whether there is one. Another request under the same key is refused.
func (c keyUse) replay(ctx context.Context, tx *db.Tx) (response string, found bool, err error) {
	a, found, err := answers.Get(ctx, tx, c.ahead())
	switch {
	case err != nil || !found:
		return "", false, err
	case a.created <= db.Micros(tx.Now().Add(-keyLife)):
		_, err = tx.Exec(ctx, `DELETE FROM idempotency WHERE principal = $1 AND route = $2 AND key = $3 AND created_at = $4`,
			c.principal, c.route, c.key, a.created)
		return "", false, err
	case a.fingerprint != c.fingerprint:
		return "", false, errKeyReused
	case a.response == "":
		return "", false, errForgotten
	}
	return a.response, true, nil
}

// store records the answer. It is written with the effect: if another process was faster, the commit fails on the
// primary key, the write runs again and finds the other's answer.
func (c keyUse) store(tx *db.Tx, response string) {
	tx.Defer(usedKeys, []any{c.principal, c.route, c.key, c.fingerprint, response, db.Micros(tx.Now())})
}

// place is where a sealed answer stands.
func (c keyUse) place() identity.Place {
	return identity.Place{Table: "idempotency", Column: "response", Row: c.principal + " " + c.route + " " + c.key}
}

func (c keyUse) seal(s *identity.Sealer, response string) (string, error) {
	return s.Seal(c.place(), []byte(response))
}

func (c keyUse) open(s *identity.Sealer, stored string) (string, error) {
	response, err := s.Open(c.place(), stored)
	return string(response), err
}

// ForgetAnswers empties the stored answers that name somebody by one of these ids and addresses, and those that a user among
// them asked for. Their keys stay, so that a repeat is not taken for a new request: it is answered with errForgotten.
func ForgetAnswers(ctx context.Context, tx *db.Tx, names []string) error {
	escape := strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
	for _, name := range names {
		if name == "" {
			continue
		}
		_, err := tx.Exec(ctx, `UPDATE idempotency SET response = ''
			WHERE response <> '' AND (response LIKE $1 ESCAPE '\' OR principal LIKE $2 ESCAPE '\')`, "%"+escape.Replace(name)+"%", "%/"+escape.Replace(name))
		if err != nil {
			return err
		}
	}
	return nil
}

// ForgetKeys deletes idempotency keys that are past their life. It is meant to run every hour or so.
func ForgetKeys(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM idempotency WHERE created_at <= $1`, db.Micros(tx.Now().Add(-keyLife)))
		return err
	})
}
