package httpapi

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

var usedKeys = db.BulkInsert("idempotency", "principal", "route", "key", "fingerprint", "response", "created_at")

// insertDenied records, in a credential's history, that a request for another company was rejected. The row's version
// is the minute, so there is at most one record per minute.
func insertDenied(ctx context.Context, tx *db.Tx, by identity.Principal, minute int64, what string) error {
	return db.HistoryOnce(ctx, tx, by.CompanyID, by.ID, minute, "", "authz_denied", what)
}

// storedResponse is the successful response to the request that used an idempotency key.
type storedResponse struct {
	fingerprint string // fingerprint of the request
	body        string // encrypted if the response contains a secret; empty after erasure
	createdAt   int64
}

// storedResponses loads responses by their keys, each with a separate statement: PostgreSQL would plan a statement
// for many keys anew at each execution, which takes longer than the lookups.
var storedResponses = db.NewLoader(func(_ *db.Tx, keys []idempotencyKey,
	found func(idempotencyKey, storedResponse)) []db.Statement {
	all := make([]db.Statement, len(keys))
	for i, k := range keys {
		all[i] = db.Statement{
			Query: `SELECT fingerprint, response, created_at FROM idempotency
				WHERE principal = $1 AND route = $2 AND key = $3`,
			Args: []any{k.account, k.route, k.value},
			Row: func(r *db.Rows) error {
				var stored storedResponse
				err := r.Scan(&stored.fingerprint, &stored.body, &stored.createdAt)
				found(k, stored)
				return err
			},
		}
	}
	return all
})

// findResponse returns the stored response of a key and reports whether there is one. It deletes an expired response.
func findResponse(ctx context.Context, tx *db.Tx, k idempotencyKey) (stored storedResponse, found bool, err error) {
	stored, found, err = storedResponses.Get(ctx, tx, k)
	if err != nil || !found || stored.createdAt > db.Micros(tx.Now().Add(-KeyLife)) {
		return stored, found, err
	}
	_, err = tx.Exec(ctx, `DELETE FROM idempotency WHERE principal = $1 AND route = $2 AND key = $3 AND created_at = $4`,
		k.account, k.route, k.value, stored.createdAt)
	return storedResponse{}, false, err
}

// storeResponse stores the response of a key in the transaction of the write. If another process has stored a
// response since the key was looked up, the commit violates the primary key; the write then runs again and finds that
// response.
func storeResponse(tx *db.Tx, k idempotencyKey, fingerprint, body string) {
	usedKeys.Add(tx, []any{k.account, k.route, k.value, fingerprint, body, db.Micros(tx.Now())})
}

// ForgetAnswers erases stored responses that contain any of the names, which are IDs and email addresses. If a name
// is a user's ID, it also erases the responses to that user's own requests. The idempotency keys remain, so that a
// repeated request does not run again but receives errErasedResponse.
func ForgetAnswers(ctx context.Context, tx *db.Tx, names []string) error {
	for _, name := range names {
		if name == "" {
			continue
		}
		pattern := db.EscapeLike(name)
		_, err := tx.Exec(ctx, `UPDATE idempotency SET response = ''
			WHERE response <> '' AND (response LIKE $1 ESCAPE '\' OR principal LIKE $2 ESCAPE '\')`,
			"%"+pattern+"%", "%/"+pattern)
		if err != nil {
			return err
		}
	}
	return nil
}

// ForgetKeys deletes expired idempotency keys. Call it about once an hour.
func ForgetKeys(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM idempotency WHERE created_at <= $1`, db.Micros(tx.Now().Add(-KeyLife)))
		return err
	})
}
