package identity

import (
	"context"

	"github.com/stipend/stipend/internal/db"
)

// DirectoryFilter selects companies or people for the operator's staff. Text is an ID, or a part of a name or email
// address. Empty fields do not filter.
type DirectoryFilter struct {
	Text, Status, KYBStatus string
	Page                    db.Page
}

// Directory returns a page of all companies, newest first, and their total number. Only the ID, the profile, the
// states and the time of creation are set.
func Directory(ctx context.Context, tx *db.Tx, f DirectoryFilter) ([]Company, int64, error) {
	l := &db.List{Columns: "company_id, name, email, country, status, kyb_status, created_at", Table: "companies",
		ID: "company_id", Time: "created_at", Page: f.Page}
	l.Where("company_id <> ''")
	if f.Text != "" {
		is, pattern := tx.Contains(f.Text)
		l.Where("(company_id = ? OR name "+is+" ? OR email "+is+" ?)", f.Text, pattern, pattern)
	}
	if f.Status != "" {
		l.Where("status = ?", f.Status)
	}
	if f.KYBStatus != "" {
		l.Where("kyb_status = ?", f.KYBStatus)
	}
	return db.ReadPage(ctx, tx, l, func(r *db.Rows) (c Company, err error) {
		var created int64
		err = r.Scan(&c.ID, &c.Name, &c.Email, &c.Country, &c.Status, &c.KYBStatus, &created)
		c.Created = db.Time(created)
		return c, err
	})
}

// People returns a page of all users, newest first, and their total number. Only the ID, the names, the email
// address, the country, the verification state, the time of creation and the company that created them are set.
func People(ctx context.Context, tx *db.Tx, f DirectoryFilter) ([]User, int64, error) {
	l := &db.List{Columns: "user_id, email, first_name, last_name, country, company_id, kyc_status, created_at",
		Table: "users", ID: "user_id", Time: "created_at", Page: f.Page}
	l.Where("user_id <> ''")
	if f.Text != "" {
		is, pattern := tx.Contains(f.Text)
		l.Where("(user_id = ? OR email_key "+is+" ? OR first_name || ' ' || last_name "+is+" ?)", f.Text, pattern, pattern)
	}
	return db.ReadPage(ctx, tx, l, func(r *db.Rows) (u User, err error) {
		var created int64
		err = r.Scan(&u.ID, &u.Email, &u.FirstName, &u.LastName, &u.Country, &u.CompanyID, &u.KYCStatus, &created)
		u.Created = db.Time(created)
		return u, err
	})
}

// Fees are the fees and the tolerance in a company's contract, in basis points.
type Fees struct{ FeeBps, PremiumBps, ToleranceBps int64 }

// Fees returns the fees and the tolerance in the company's contract.
func (c Company) Fees() Fees { return Fees{c.FeeBps, c.PremiumBps, c.ToleranceBps} }

// SetFees changes the contract of a company. The new terms apply only to objects created later. SetFees returns false
// if the current terms are not from.
func SetFees(ctx context.Context, tx *db.Tx, companyID string, from, to Fees) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE companies SET fee_bps = $2, premium_bps = $3, tolerance_bps = $4, version = version + 1,
			updated_at = $5
		WHERE company_id = $1 AND fee_bps = $6 AND premium_bps = $7 AND tolerance_bps = $8`, companyID, to.FeeBps,
		to.PremiumBps, to.ToleranceBps, db.Micros(tx.Now()), from.FeeBps, from.PremiumBps, from.ToleranceBps)
	return n == 1, err
}
