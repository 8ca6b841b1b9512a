package oauth

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// grant is a row of authorization_codes.
type grant struct {
	companyID, appID, userID string
	scopes                   identity.Scopes
	challenge                string
	expires                  time.Time
	tokenID                  string
}

func insertCode(ctx context.Context, tx *db.Tx, code string, g grant) error {
	return tx.Insert(ctx, "authorization_codes", []string{"digest", "company_id", "app_id", "user_id", "scopes",
		"challenge", "created_at", "expires_at", "used_at", "token_id"},
		[][]any{{identity.Digest(code), g.companyID, g.appID, g.userID, g.scopes.String(), g.challenge, db.Micros(tx.Now()),
			db.Micros(tx.Now().Add(CodeLife)), int64(0), ""}})
}

// selectCode returns the grant of a code. known is false if there is none.
func selectCode(ctx context.Context, tx *db.Tx, digest string) (g grant, known bool, err error) {
	var scopes string
	var expires int64
	err = tx.QueryRow(ctx, `SELECT company_id, app_id, user_id, scopes, challenge, expires_at, token_id
		FROM authorization_codes WHERE digest = $1`, digest).
		Scan(&g.companyID, &g.appID, &g.userID, &scopes, &g.challenge, &expires, &g.tokenID)
	if errors.Is(err, db.ErrNoRows) {
		return g, false, nil
	}
	g.scopes, _ = identity.ParseScopes(scopes)
	g.expires = db.Time(expires)
	return g, err == nil, err
}

// useCode marks a code as used. It reports true for the first use only.
func useCode(ctx context.Context, tx *db.Tx, companyID, digest string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE authorization_codes SET used_at = $1
		WHERE company_id = $2 AND digest = $3 AND used_at = 0`, db.Micros(tx.Now()), companyID, digest)
	return n == 1, err
}

func setToken(ctx context.Context, tx *db.Tx, companyID, digest, tokenID string) error {
	_, err := tx.Exec(ctx, "UPDATE authorization_codes SET token_id = $1 WHERE company_id = $2 AND digest = $3", tokenID,
		companyID, digest)
	return err
}

func deleteCodes(ctx context.Context, tx *db.Tx, before time.Time) error {
	_, err := tx.Exec(ctx, "DELETE FROM authorization_codes WHERE created_at < $1", db.Micros(before))
	return err
}

// Connections returns the apps that may act for a user, newest first.
func Connections(ctx context.Context, tx *db.Tx, userID string) ([]Connection, error) {
	rows, err := tx.Query(ctx, `SELECT t.app_id, a.name, t.company_id, t.scopes, t.created_at, t.last_used_at
		FROM access_tokens t JOIN apps a ON a.app_id = t.app_id
		WHERE t.user_id = $1 AND t.revoked_at = 0 AND t.expires_at > $2 AND a.status = 'active'
		ORDER BY t.created_at DESC, t.token_id DESC`, userID, db.Micros(tx.Now()))
	all, err := db.Collect(rows, err, func(r *db.Rows) (c Connection, err error) {
		var scopes string
		var created, used int64
		err = r.Scan(&c.AppID, &c.App, &c.CompanyID, &scopes, &created, &used)
		c.Scopes, _ = identity.ParseScopes(scopes)
		c.GrantedAt = db.Time(created)
		if used > 0 {
			c.LastUsed = db.Time(used)
		}
		return c, err
	})
	// Merge several grants to one app into one connection.
	var merged []Connection
next:
	for _, c := range all {
		for i := range merged {
			if m := &merged[i]; m.AppID == c.AppID && m.CompanyID == c.CompanyID {
				m.Scopes |= c.Scopes
				m.GrantedAt = c.GrantedAt
				if c.LastUsed.After(m.LastUsed) {
					m.LastUsed = c.LastUsed
				}
				continue next
			}
		}
		merged = append(merged, c)
	}
	return merged, err
}

// Disconnect revokes all tokens and codes that a user granted to an app for a company, or for the user alone if
// companyID is empty.
func Disconnect(ctx context.Context, tx *db.Tx, userID, appID, companyID string) error {
	if _, err := tx.Exec(ctx, `DELETE FROM authorization_codes
		WHERE company_id = $1 AND user_id = $2 AND app_id = $3 AND used_at = 0`, companyID, userID, appID); err != nil {
		return err
	}
	return identity.RevokeAppTokens(ctx, tx, companyID, userID, appID)
}
