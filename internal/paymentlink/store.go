package paymentlink

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/metadata"
	"github.com/stipend/stipend/internal/money"
)

const columns = `company_id, link_id, title, description, currency, amount, min_amount, max_amount, suggested,
	max_payments, paid, reserved, ends_at, active, metadata, redirect_url, funding, version, created_at, updated_at`

func insert(ctx context.Context, tx *db.Tx, l Link) error {
	suggested := make([]int64, len(l.Suggested))
	for i, a := range l.Suggested {
		suggested[i] = a.Units()
	}
	amounts, err := json.Marshal(suggested)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO payment_links ("+columns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, 0,
		$11, TRUE, $12, $13, $14, $15, $16, $16)`, l.CompanyID, l.ID, l.Title, l.Description, string(l.Currency),
		l.Amount.Units(), l.Min.Units(), l.Max.Units(), string(amounts), l.MaxPayments, micros(l.EndsAt),
		metadata.Text(l.Metadata), l.RedirectURL, l.Funding, l.Version, db.Micros(l.CreatedAt))
	metadata.Index(tx, l.CompanyID, l.ID, l.Metadata)
	return err
}

func scan(read func(...any) error) (l Link, err error) {
	var currency, suggested, texts string
	var amount, least, most, ends, created, updated int64
	if err := read(&l.CompanyID, &l.ID, &l.Title, &l.Description, &currency, &amount, &least, &most, &suggested,
		&l.MaxPayments, &l.Paid, &l.Reserved, &ends, &l.Active, &texts, &l.RedirectURL, &l.Funding, &l.Version,
		&created, &updated); err != nil {
		return l, err
	}
	l.Currency = money.Asset(currency)
	l.Amount, l.Min, l.Max = money.New(l.Currency, amount), money.New(l.Currency, least), money.New(l.Currency, most)
	if ends != 0 {
		l.EndsAt = db.Time(ends)
	}
	l.CreatedAt, l.UpdatedAt = db.Time(created), db.Time(updated)
	var units []int64
	if err := json.Unmarshal([]byte(suggested), &units); err != nil {
		return l, err
	}
	for _, n := range units {
		l.Suggested = append(l.Suggested, money.New(l.Currency, n))
	}
	l.Metadata, err = metadata.Parse(texts)
	return l, err
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return db.Micros(t)
}

func one(r db.Row) (Link, error) {
	l, err := scan(r.Scan)
	if errors.Is(err, db.ErrNoRows) {
		return l, ErrNotFound
	}
	return l, err
}

func find(ctx context.Context, tx *db.Tx, companyID, linkID string) (Link, error) {
	return one(tx.QueryRow(ctx, "SELECT "+columns+" FROM payment_links WHERE company_id = $1 AND link_id = $2", companyID,
		linkID))
}

// findAny reads a link of any company, for a payer who knows only the link's ID.
func findAny(ctx context.Context, tx *db.Tx, linkID string) (Link, error) {
	return one(tx.QueryRow(ctx, "SELECT "+columns+" FROM payment_links WHERE link_id = $1", linkID))
}

// lock reads a link like find, and makes other transactions that open or change the link wait until this transaction
// ends.
func lock(ctx context.Context, tx *db.Tx, companyID, linkID string) (Link, error) {
	return one(tx.QueryRow(ctx, "UPDATE payment_links SET version = version WHERE company_id = $1 AND link_id = $2 "+
		"RETURNING "+columns, companyID, linkID))
}

func list(ctx context.Context, tx *db.Tx, companyID string, f Filter) ([]Link, int64, error) {
	l := &db.List{Columns: columns, Table: "payment_links", ID: "link_id", Page: f.Page}
	l.Where("company_id = ?", companyID)
	metadata.Conditions("link_id", companyID, f.Metadata, l.Where)
	return db.ReadPage(ctx, tx, l, func(r *db.Rows) (Link, error) { return scan(r.Scan) })
}

// update stores the fields that a merchant can change. It fails if the link has changed since it was read.
func update(ctx context.Context, tx *db.Tx, l *Link) error {
	err := tx.ExecOne(ctx, `UPDATE payment_links SET title = $1, description = $2, active = $3, max_payments = $4,
		ends_at = $5, redirect_url = $6, updated_at = $7, version = version + 1
		WHERE company_id = $8 AND link_id = $9 AND version = $10`,
		l.Title, l.Description, l.Active, l.MaxPayments, micros(l.EndsAt), l.RedirectURL, db.Micros(l.UpdatedAt),
		l.CompanyID, l.ID, l.Version)
	l.Version++
	return err
}

// opened returns the ID of the claim of an opening, or "".
func opened(ctx context.Context, tx *db.Tx, l Link, digest string) (claimID string, err error) {
	err = tx.QueryRow(ctx, `SELECT claim_id FROM payment_link_claims WHERE company_id = $1 AND link_id = $2
		AND opening = $3`, l.CompanyID, l.ID, digest).Scan(&claimID)
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return claimID, err
}

// madeBy returns the ID of a claim if the link created it, or "".
func madeBy(ctx context.Context, tx *db.Tx, l Link, claimID string) (id string, err error) {
	err = tx.QueryRow(ctx, `SELECT claim_id FROM payment_link_claims WHERE company_id = $1 AND link_id = $2
		AND claim_id = $3`, l.CompanyID, l.ID, claimID).Scan(&id)
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return id, err
}

// reserve reserves a place for a new claim. It fails if no place is left.
func reserve(ctx context.Context, tx *db.Tx, l Link, claimID, digest string) error {
	if err := tx.ExecOne(ctx, `UPDATE payment_links SET reserved = reserved + 1 WHERE company_id = $1 AND link_id = $2
		AND active AND (max_payments = 0 OR paid + reserved < max_payments)`, l.CompanyID, l.ID); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO payment_link_claims (company_id, link_id, claim_id, opening, place)
		VALUES ($1, $2, $3, $4, 'held')`, l.CompanyID, l.ID, claimID, digest)
	return err
}

// move changes the state of a claim's place, and the counts of its link accordingly.
func move(ctx context.Context, tx *db.Tx, l Link, claimID string, to place) error {
	var from string
	err := tx.QueryRow(ctx, `SELECT place FROM payment_link_claims WHERE company_id = $1 AND link_id = $2
		AND claim_id = $3`, l.CompanyID, l.ID, claimID).Scan(&from)
	if errors.Is(err, db.ErrNoRows) || err == nil && place(from) == to {
		return nil
	}
	if err != nil {
		return err
	}
	if err := tx.ExecOne(ctx, `UPDATE payment_link_claims SET place = $1 WHERE company_id = $2 AND link_id = $3
		AND claim_id = $4 AND place = $5`, string(to), l.CompanyID, l.ID, claimID, from); err != nil {
		return err
	}
	count := func(p place) (n int64) {
		if place(from) == p {
			n--
		}
		if to == p {
			n++
		}
		return n
	}
	return tx.ExecOne(ctx, `UPDATE payment_links SET paid = paid + $1, reserved = reserved + $2
		WHERE company_id = $3 AND link_id = $4`, count(taken), count(held), l.CompanyID, l.ID)
}
