package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payee"
)

// Objects of the initial data have fixed IDs, which the packages that own the tables do not accept from callers.
// These statements therefore write the same values as those packages do.

// insertSeedCompany inserts the company and reports whether it is new.
func insertSeedCompany(ctx context.Context, tx *db.Tx, id string, c SeedOptions) (bool, error) {
	now := db.Micros(tx.Now())
	n, err := tx.Exec(ctx, `INSERT INTO companies (company_id, name, email, website, country, status, kyb_status,
		funding_method,
			fee_bps, premium_bps, tolerance_bps, version, created_at, updated_at)
		VALUES ($1, $2, $3, '', 'US', 'active', 'approved', 'crypto', $4, $5, $6, 1, $7, $7) ON CONFLICT (company_id)
			DO NOTHING`,
		id, seedCompany, "company@sandbox.example", c.FeeBps, c.PremiumBps, c.ToleranceBps, now)
	return n == 1, err
}

// insertSeedUser inserts a user who signs in with a password, or, if there is no password hash, a user whom the
// company created.
func insertSeedUser(ctx context.Context, tx *db.Tx, s *identity.Sealer, companyID, id, email, first, last,
	hash string) error {
	sealed, err := seedDetails().Seal(s, identity.SealContext{Table: "users", Column: "details", Row: id})
	if err != nil {
		return err
	}
	signIn := email
	if hash == "" {
		signIn = ""
		if _, err := tx.Exec(ctx,
			"INSERT INTO company_users (company_id, user_id, email_key, created_at) VALUES ($1, $2, $3, $4)",
			companyID, id, strings.ToLower(email), db.Micros(tx.Now())); err != nil {
			return err
		}
	} else {
		companyID = ""
	}
	_, err = tx.Exec(ctx, `INSERT INTO users (user_id, email, email_key, sign_in_key, company_id, password_hash,
		first_name, last_name, country,
			details, complete, version, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'US', $9, TRUE, 1, $10, $10)`,
		id, email, strings.ToLower(email), strings.ToLower(signIn), companyID, hash, first, last, sealed, db.Micros(tx.Now()))
	return err
}

func insertSeedApp(ctx context.Context, tx *db.Tx, s Seed, appID string) error {
	digest := sha256.Sum256([]byte(s.ClientSecret))
	_, err := tx.Exec(ctx, `INSERT INTO apps (company_id, app_id, name, client_id, secret_digest, redirect_uri, scopes,
		status, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 'active', $8)`,
		s.CompanyID, appID, seedAppName, s.ClientID, hex.EncodeToString(digest[:]), s.RedirectURI,
		identity.AllScopes().String(), db.Micros(tx.Now()))
	return err
}

func insertSeedRecipient(ctx context.Context, tx *db.Tx, s *identity.Sealer, companyID string, r SeedRecipient) error {
	p := payee.CreateParams{CompanyID: companyID, Type: r.RecipientType, Role: payee.Contractor,
		Profile: identity.Profile{FirstName: "Pat", LastName: "Person", Email: "pat@sandbox.example", Country: "US",
			Details: seedDetails()}}
	if r.RecipientType != payee.TypeUser {
		p.Role, p.Name, p.FirstName, p.LastName, p.Email = payee.Vendor, "Example Supplies Ltd", "", "",
			"billing@supplies.example"
	}
	return payee.CreateWithID(ctx, tx, s, r.RecipientID, SeedID("rel", r.RecipientType), p)
}

// payrollOf returns the ID of the payroll that a payment belongs to.
func payrollOf(ctx context.Context, tx *db.Tx, companyID, paymentID string) (string, error) {
	var id string
	err := tx.QueryRow(ctx, "SELECT payroll_id FROM payments WHERE company_id = $1 AND payment_id = $2", companyID,
		paymentID).Scan(&id)
	if errors.Is(err, db.ErrNoRows) {
		return "", apierr.NotFoundErr
	}
	return id, err
}
