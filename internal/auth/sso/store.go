package sso

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

// find returns a company's connection without its domains. The result has no issuer if the company has no provider.
func find(ctx context.Context, tx *db.Tx, companyID string) (Connection, error) {
	n := Connection{CompanyID: companyID}
	err := tx.QueryRow(ctx, `SELECT issuer, client_id, client_secret, enforced FROM sso_connections
		WHERE company_id = $1`, companyID).Scan(&n.Issuer, &n.ClientID, &n.sealed, &n.Enforced)
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return n, err
}

func upsert(ctx context.Context, tx *db.Tx, n Connection) error {
	_, err := tx.Exec(ctx, `INSERT INTO sso_connections (company_id, issuer, client_id, client_secret, enforced,
			updated_at, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $6)
		ON CONFLICT (company_id) DO UPDATE SET issuer = $2, client_id = $3, client_secret = $4, enforced = $5,
			updated_at = $6`,
		n.CompanyID, n.Issuer, n.ClientID, n.sealed, n.Enforced, db.Micros(tx.Now()))
	return err
}

// setEnforced stores whether single sign-on is enforced. It returns apierr.NotFoundErr if the company has no
// provider.
func setEnforced(ctx context.Context, tx *db.Tx, companyID string, enforced bool) error {
	n, err := tx.Exec(ctx, "UPDATE sso_connections SET enforced = $2, updated_at = $3 WHERE company_id = $1", companyID,
		enforced, db.Micros(tx.Now()))
	return one(n, err)
}

// one returns apierr.NotFoundErr if no row was changed.
func one(n int64, err error) error {
	if err == nil && n == 0 {
		return apierr.NotFoundErr
	}
	return err
}

func deleteConnection(ctx context.Context, tx *db.Tx, companyID string) error {
	_, err := tx.Exec(ctx, "DELETE FROM sso_domains WHERE company_id = $1", companyID)
	if err != nil {
		return err
	}
	return one(tx.Exec(ctx, "DELETE FROM sso_connections WHERE company_id = $1", companyID))
}

// domains returns the domains of a company, sorted by name.
func domains(ctx context.Context, tx *db.Tx, companyID string) ([]Domain, error) {
	rows, err := tx.Query(ctx, "SELECT domain, verified_at FROM sso_domains WHERE company_id = $1 ORDER BY domain",
		companyID)
	return db.Collect(rows, err, func(r *db.Rows) (d Domain, err error) {
		var at int64
		err = r.Scan(&d.Name, &at)
		d.Verified = at > 0
		return d, err
	})
}

func insertDomain(ctx context.Context, tx *db.Tx, companyID, name string) error {
	return tx.Insert(ctx, "sso_domains", []string{"company_id", "domain", "verified_at", "created_at"},
		[][]any{{companyID, name, 0, db.Micros(tx.Now())}})
}

func deleteDomain(ctx context.Context, tx *db.Tx, companyID, name string) error {
	return one(tx.Exec(ctx, "DELETE FROM sso_domains WHERE company_id = $1 AND domain = $2", companyID, name))
}

// domainFree reports whether no other company has proved that it owns a domain.
func domainFree(ctx context.Context, tx *db.Tx, companyID, name string) (bool, error) {
	var n int64
	ctx = db.AcrossCompanies(ctx, "a domain belongs to one company; only a number is read")
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM sso_domains WHERE domain = $1 AND verified_at > 0
		AND company_id <> $2`, name, companyID).Scan(&n)
	return n == 0, err
}

func verifyDomain(ctx context.Context, tx *db.Tx, companyID, name string) error {
	return one(tx.Exec(ctx, "UPDATE sso_domains SET verified_at = $3 WHERE company_id = $1 AND domain = $2", companyID,
		name, db.Micros(tx.Now())))
}

// companyOf returns the company that has proved that it owns a domain, or "".
func companyOf(ctx context.Context, tx *db.Tx, domain string) (companyID string, err error) {
	err = tx.QueryRow(ctx, "SELECT company_id FROM sso_domains WHERE domain = $1 AND verified_at > 0", domain).
		Scan(&companyID)
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return companyID, err
}

// selectIdentity returns the user who belongs to an account at the provider, or "".
func selectIdentity(ctx context.Context, tx *db.Tx, companyID, subject string) (userID string, err error) {
	err = tx.QueryRow(ctx, "SELECT user_id FROM sso_identities WHERE company_id = $1 AND subject = $2", companyID,
		subject).Scan(&userID)
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return userID, err
}

// insertIdentity stores the provider account of a user. It returns false if the user has another account, or the
// account another user.
func insertIdentity(ctx context.Context, tx *db.Tx, companyID, userID, subject string) (bool, error) {
	n, err := tx.Exec(ctx, `INSERT INTO sso_identities (company_id, user_id, subject, created_at)
		VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`, companyID, userID, subject, db.Micros(tx.Now()))
	return n == 1, err
}

func deleteIdentity(ctx context.Context, tx *db.Tx, companyID, userID string) error {
	return one(tx.Exec(ctx, "DELETE FROM sso_identities WHERE company_id = $1 AND user_id = $2", companyID, userID))
}

func deleteIdentities(ctx context.Context, tx *db.Tx, companyID string) error {
	_, err := tx.Exec(ctx, "DELETE FROM sso_identities WHERE company_id = $1", companyID)
	return err
}

func deleteIdentitiesOf(ctx context.Context, tx *db.Tx, userID string) error {
	_, err := tx.Exec(ctx, "DELETE FROM sso_identities WHERE user_id = $1", userID)
	return err
}

// Linked returns the members of a company who have signed in through its provider.
func Linked(ctx context.Context, tx *db.Tx, companyID string) (userIDs []string, err error) {
	rows, err := tx.Query(ctx, "SELECT user_id FROM sso_identities WHERE company_id = $1 ORDER BY user_id", companyID)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) {
		err = r.Scan(&id)
		return id, err
	})
}

func insertAttempt(ctx context.Context, tx *db.Tx, digest, companyID, subject, next string) error {
	return tx.Insert(ctx, "sso_attempts", []string{"digest", "company_id", "subject", "next_path", "created_at"},
		[][]any{{digest, companyID, subject, next, db.Micros(tx.Now())}})
}

// takeAttempt returns an attempt and deletes it. It returns ErrFailed if there is none.
func takeAttempt(ctx context.Context, tx *db.Tx, digest, companyID string) (subject, next string, err error) {
	err = tx.QueryRow(ctx, `DELETE FROM sso_attempts WHERE digest = $1 AND company_id = $2 AND created_at > $3
		RETURNING subject, next_path`, digest, companyID, db.Micros(tx.Now().Add(-AttemptLife))).Scan(&subject, &next)
	if errors.Is(err, db.ErrNoRows) {
		err = ErrFailed
	}
	return subject, next, err
}

// selectAttempt returns the subject of a staff sign-in, or ErrFailed.
func selectAttempt(ctx context.Context, tx *db.Tx, digest string) (subject string, err error) {
	err = tx.QueryRow(ctx, `SELECT subject FROM sso_attempts WHERE digest = $1 AND company_id = '' AND subject <> ''
		AND created_at > $2`, digest, db.Micros(tx.Now().Add(-AttemptLife))).Scan(&subject)
	if errors.Is(err, db.ErrNoRows) {
		err = ErrFailed
	}
	return subject, err
}

func deleteEnded(ctx context.Context, tx *db.Tx) error {
	_, err := tx.Exec(ctx, "DELETE FROM sso_attempts WHERE created_at <= $1", db.Micros(tx.Now().Add(-AttemptLife)))
	return err
}
