package branding

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/stipend/stipend/internal/db"
)

var brandings = db.NewLoader(func(tx *db.Tx, companies []string, found func(string, Branding)) (all []db.Statement) {
	for in, args := range db.BindList(tx, companies, 1) {
		all = append(all, db.Statement{Query: `SELECT company_id, name, accent, headline, thank_you, languages, logo,
			version, updated_at FROM merchant_brandings WHERE company_id IN ` + in, Args: args,
			Row: func(r *db.Rows) error {
				var b Branding
				var languages string
				var updated int64
				if err := r.Scan(&b.CompanyID, &b.Name, &b.Accent, &b.Headline, &b.ThankYou, &languages, &b.Logo, &b.Version,
					&updated); err != nil {
					return err
				}
				b.Languages, b.UpdatedAt = strings.Fields(languages), db.Time(updated)
				found(b.CompanyID, b)
				return nil
			}})
	}
	return all
})

// save stores the next version of a branding. It returns an error if the branding has changed since it was read.
func save(ctx context.Context, tx *db.Tx, b Branding) error {
	n, err := tx.Exec(ctx, `INSERT INTO merchant_brandings (company_id, name, accent, headline, thank_you, languages,
			logo, version, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (company_id) DO UPDATE SET name = excluded.name, accent = excluded.accent,
			headline = excluded.headline, thank_you = excluded.thank_you, languages = excluded.languages,
			logo = excluded.logo, version = excluded.version, updated_at = excluded.updated_at
		WHERE merchant_brandings.version = excluded.version - 1`,
		b.CompanyID, b.Name, b.Accent, b.Headline, b.ThankYou, strings.Join(b.Languages, " "), b.Logo, b.Version+1,
		db.Micros(b.UpdatedAt))
	if err == nil && n != 1 {
		return db.ErrConflict
	}
	return err
}

// saveLogo replaces the company's logo, or removes it if png is empty.
func saveLogo(ctx context.Context, tx *db.Tx, b Branding, png []byte) error {
	if _, err := tx.Exec(ctx, "DELETE FROM brand_logos WHERE company_id = $1", b.CompanyID); err != nil || len(png) == 0 {
		return err
	}
	_, err := tx.Exec(ctx, "INSERT INTO brand_logos (company_id, digest, png) VALUES ($1, $2, $3)", b.CompanyID, b.Logo,
		base64.StdEncoding.EncodeToString(png))
	return err
}

// Logo returns the logo with a digest, of any company, as a PNG.
func Logo(ctx context.Context, tx *db.Tx, digest string) ([]byte, error) {
	var text string
	err := tx.QueryRow(ctx, "SELECT png FROM brand_logos WHERE digest = $1 LIMIT 1", digest).Scan(&text)
	if errors.Is(err, db.ErrNoRows) {
		return nil, ErrNoLogo
	}
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(text)
}
