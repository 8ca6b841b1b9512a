package oauth

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// grant is a row of authorization_codes.
type grant struct {
	companyID, appID, userID string
	scopes                   identity.Scopes
	challenge, proofKey      string
	expires                  time.Time
	grantID                  string // set by the first exchange
}

func insertCode(ctx context.Context, tx *db.Tx, code string, g grant) error {
	return tx.Insert(ctx, "authorization_codes", []string{"digest", "company_id", "app_id", "user_id", "scopes",
		"challenge", "proof_key", "created_at", "expires_at", "used_at", "grant_id"},
		[][]any{{identity.Digest(code), g.companyID, g.appID, g.userID, g.scopes.String(), g.challenge, g.proofKey,
			db.Micros(tx.Now()),
			db.Micros(tx.Now().Add(CodeLife)), int64(0), ""}})
}

// selectCode returns the grant of a code. known reports whether the code exists.
func selectCode(ctx context.Context, tx *db.Tx, digest string) (g grant, known bool, err error) {
	var scopes string
	var expires int64
	err = tx.QueryRow(ctx, `SELECT company_id, app_id, user_id, scopes, challenge, proof_key, expires_at, grant_id
		FROM authorization_codes WHERE digest = $1`, digest).
		Scan(&g.companyID, &g.appID, &g.userID, &scopes, &g.challenge, &g.proofKey, &expires, &g.grantID)
	if errors.Is(err, db.ErrNoRows) {
		return g, false, nil
	}
	g.scopes, _ = identity.ParseScopes(scopes)
	g.expires = db.Time(expires)
	return g, err == nil, err
}

// useCode marks a code as used. It returns true only for the first use.
func useCode(ctx context.Context, tx *db.Tx, companyID, digest string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE authorization_codes SET used_at = $1
		WHERE company_id = $2 AND digest = $3 AND used_at = 0`, db.Micros(tx.Now()), companyID, digest)
	return n == 1, err
}

func setGrant(ctx context.Context, tx *db.Tx, companyID, digest, grantID string) error {
	_, err := tx.Exec(ctx, "UPDATE authorization_codes SET grant_id = $1 WHERE company_id = $2 AND digest = $3", grantID,
		companyID, digest)
	return err
}

// deleteOld deletes codes that were created before a given time, and everything that has expired.
func deleteOld(ctx context.Context, tx *db.Tx, before time.Time) error {
	for query, until := range map[string]time.Time{
		"DELETE FROM authorization_codes WHERE created_at < $1":              before,
		"DELETE FROM refresh_tokens WHERE expires_at < $1":                   tx.Now(),
		"DELETE FROM pushed_requests WHERE expires_at < $1":                  tx.Now(),
		"DELETE FROM device_codes WHERE created_at < $1":                     before,
		"DELETE FROM device_codes WHERE expires_at < $1 AND state <> 'used'": tx.Now(),
	} {
		if _, err := tx.Exec(ctx, query, db.Micros(until)); err != nil {
			return err
		}
	}
	return nil
}

func insertRefresh(ctx context.Context, tx *db.Tx, token string, g identity.Grant, key string,
	expires time.Time) error {
	return tx.Insert(ctx, "refresh_tokens", []string{"digest", "company_id", "grant_id", "proof_key", "expires_at",
		"used_at", "created_at"},
		[][]any{{identity.Digest(token), g.CompanyID, g.ID, key, db.Micros(expires), int64(0), db.Micros(tx.Now())}})
}

// refresh is a row of refresh_tokens.
type refresh struct {
	companyID, grantID, appID, proofKey string
	expires                             time.Time
}

// selectRefresh returns a refresh token. known reports whether the token exists.
func selectRefresh(ctx context.Context, tx *db.Tx, digest string) (r refresh, known bool, err error) {
	var expires int64
	err = tx.QueryRow(ctx, `SELECT r.company_id, r.grant_id, g.app_id, r.proof_key, r.expires_at FROM refresh_tokens r
		JOIN app_grants g ON g.company_id = r.company_id AND g.grant_id = r.grant_id
		WHERE r.digest = $1`, digest).Scan(&r.companyID, &r.grantID, &r.appID, &r.proofKey, &expires)
	if errors.Is(err, db.ErrNoRows) {
		return r, false, nil
	}
	r.expires = db.Time(expires)
	return r, err == nil, err
}

// useRefresh marks a refresh token as used. It returns true only for the first use.
func useRefresh(ctx context.Context, tx *db.Tx, companyID, digest string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE refresh_tokens SET used_at = $1
		WHERE company_id = $2 AND digest = $3 AND used_at = 0`, db.Micros(tx.Now()), companyID, digest)
	return n == 1, err
}

func insertPushed(ctx context.Context, tx *db.Tx, requestURI string, p Params) error {
	return tx.Insert(ctx, "pushed_requests", []string{"digest", "client_id", "params", "expires_at", "created_at"},
		[][]any{{identity.Digest(requestURI), p.ClientID, p.Values().Encode(), db.Micros(tx.Now().Add(PushedLife)),
			db.Micros(tx.Now())}})
}

// selectPushed returns a pushed request of a client. known is false if the request does not exist or has expired.
func selectPushed(ctx context.Context, tx *db.Tx, clientID, requestURI string) (v url.Values, known bool, err error) {
	var params string
	err = tx.QueryRow(ctx, `SELECT params FROM pushed_requests WHERE digest = $1 AND client_id = $2 AND expires_at > $3`,
		identity.Digest(requestURI), clientID, db.Micros(tx.Now())).Scan(&params)
	if errors.Is(err, db.ErrNoRows) {
		return nil, false, nil
	}
	if err == nil {
		v, err = url.ParseQuery(params)
	}
	return v, err == nil, err
}

// Connections returns the apps that may act for a user, newest first.
func Connections(ctx context.Context, tx *db.Tx, userID string) ([]Connection, error) {
	rows, err := tx.Query(ctx, `SELECT g.app_id, a.name, g.company_id, g.scopes, g.created_at,
			COALESCE((SELECT MAX(t.last_used_at) FROM access_tokens t
				WHERE t.company_id = g.company_id AND t.grant_id = g.grant_id), 0)
		FROM app_grants g JOIN apps a ON a.app_id = g.app_id
		WHERE g.user_id = $1 AND g.revoked_at = 0 AND g.expires_at > $2 AND a.status = 'active'
		ORDER BY g.created_at DESC, g.grant_id DESC`, userID, db.Micros(tx.Now()))
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
	// Merge several consents to one app into one connection.
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

// Disconnect revokes all consents and codes that a user gave to an app for a company, or for the user alone if
// companyID is empty. A device that the user allowed but that has not polled since then gets no tokens.
func Disconnect(ctx context.Context, tx *db.Tx, userID, appID, companyID string) error {
	for _, statement := range []string{
		"DELETE FROM authorization_codes WHERE company_id = $1 AND user_id = $2 AND app_id = $3 AND used_at = 0",
		"DELETE FROM device_codes WHERE company_id = $1 AND user_id = $2 AND app_id = $3 AND state = 'allowed'",
	} {
		if _, err := tx.Exec(ctx, statement, companyID, userID, appID); err != nil {
			return err
		}
	}
	return identity.RevokeAppGrants(ctx, tx, companyID, userID, appID)
}
