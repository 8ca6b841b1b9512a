package platform

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

func insert(ctx context.Context, tx *db.Tx, c Company) error {
	return tx.Insert(ctx, "platform_companies", []string{"company_id", "platform_id", "app_id", "grant_id", "external_id",
		"return_url", "state", "version", "created_at", "ended_at"},
		[][]any{{c.ID, c.owner, c.AppID, c.grantID, c.ExternalID, c.ReturnURL, c.State, c.version, db.Micros(c.Created),
			int64(0)}})
}

const columns = `company_id, platform_id, app_id, grant_id, external_id, return_url, state, version, created_at,
	ended_at`

func scan(row func(...any) error) (c Company, err error) {
	var created, ended int64
	err = row(&c.ID, &c.owner, &c.AppID, &c.grantID, &c.ExternalID, &c.ReturnURL, &c.State, &c.version, &created, &ended)
	c.Created = db.Time(created)
	if ended > 0 {
		c.Ended = db.Time(ended)
	}
	return c, err
}

// load adds the current data of the company itself to a row.
func load(ctx context.Context, tx *db.Tx, c Company, err error) (Company, error) {
	if errors.Is(err, db.ErrNoRows) {
		return c, apierr.NotFoundErr
	}
	if err == nil {
		c.Company, err = identity.CompanyByID(ctx, tx, c.ID)
	}
	if c.State == Disconnected { // the stored fee may be that of another platform, connected later
		c.PlatformFeeBps = 0
	}
	return c, err
}

func find(ctx context.Context, tx *db.Tx, companyID string) (Company, error) {
	c, err := scan(tx.QueryRow(ctx, "SELECT "+columns+" FROM platform_companies WHERE company_id = $1", companyID).Scan)
	return load(ctx, tx, c, err)
}

func findExternal(ctx context.Context, tx *db.Tx, appID, externalID string) (Company, error) {
	c, err := scan(tx.QueryRow(ctx, "SELECT "+columns+` FROM platform_companies
		WHERE app_id = $1 AND external_id = $2 AND external_id <> ''`, appID, externalID).Scan)
	return load(ctx, tx, c, err)
}

// lock prevents concurrent changes of a connection until the commit. It returns apierr.NotFoundErr if there is none.
func lock(ctx context.Context, tx *db.Tx, companyID string) error {
	n, err := tx.Exec(ctx, "UPDATE platform_companies SET version = version WHERE company_id = $1", companyID)
	if err == nil && n == 0 {
		err = apierr.NotFoundErr
	}
	return err
}

// update stores the next version of a connection. It returns an error if the connection has changed since it was
// read.
func update(ctx context.Context, tx *db.Tx, c *Company) error {
	var ended int64
	if !c.Ended.IsZero() {
		ended = db.Micros(c.Ended)
	}
	c.version++
	return tx.ExecOne(ctx, `UPDATE platform_companies SET return_url = $1, state = $2, ended_at = $3, version = $4
		WHERE company_id = $5 AND version = $4 - 1 AND state = 'connected'`, c.ReturnURL, c.State, ended, c.version, c.ID)
}

func list(ctx context.Context, tx *db.Tx, by identity.Principal, f Filter) ([]Company, int64, error) {
	l := &db.List{Columns: columns, Table: "platform_companies", ID: "company_id", Time: "created_at", Page: f.Page}
	l.Where("app_id = ?", by.AppID)
	l.Where("platform_id = ?", by.CompanyID)
	if f.State != "" {
		l.Where("state = ?", f.State)
	}
	if f.ExternalID != "" {
		l.Where("external_id = ?", f.ExternalID)
	}
	if f.KYBStatus != "" {
		l.Where("company_id IN (SELECT company_id FROM companies WHERE kyb_status = ?)", f.KYBStatus)
	}
	all, total, err := db.ReadPage(ctx, tx, l, func(r *db.Rows) (Company, error) { return scan(r.Scan) })
	for i := range all {
		if err == nil {
			all[i], err = load(ctx, tx, all[i], nil)
		}
	}
	return all, total, err
}

func insertLink(ctx context.Context, tx *db.Tx, digest, companyID string, expires time.Time) error {
	return tx.Insert(ctx, "onboarding_links", []string{"digest", "company_id", "expires_at", "created_at"},
		[][]any{{digest, companyID, db.Micros(expires), db.Micros(tx.Now())}})
}

// selectLink returns the company to which a link belongs, or apierr.NotFoundErr.
func selectLink(ctx context.Context, tx *db.Tx, digest string) (companyID string, err error) {
	err = tx.QueryRow(ctx, "SELECT company_id FROM onboarding_links WHERE digest = $1 AND expires_at > $2", digest,
		db.Micros(tx.Now())).Scan(&companyID)
	if errors.Is(err, db.ErrNoRows) {
		err = apierr.NotFoundErr
	}
	return companyID, err
}

func deleteLinks(ctx context.Context, tx *db.Tx, companyID string) error {
	_, err := tx.Exec(ctx, "DELETE FROM onboarding_links WHERE company_id = $1", companyID)
	return err
}

func deleteExpired(ctx context.Context, tx *db.Tx) error {
	_, err := tx.Exec(ctx, "DELETE FROM onboarding_links WHERE expires_at <= $1", db.Micros(tx.Now()))
	return err
}
