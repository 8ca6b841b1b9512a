package proposal

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

const columns = `proposal_id, kind, state, content, digest, note, app_id, currency, amount, payees, object_id,
	decided_by, version, created_at, updated_at, expires_at`

func insert(ctx context.Context, tx *db.Tx, n *Proposal) error {
	return tx.Insert(ctx, "proposals", []string{"company_id", "proposal_id", "kind", "state", "content", "digest", "note",
		"app_id", "currency", "amount", "payees", "object_id", "decided_by", "version", "created_at", "updated_at",
		"expires_at"},
		[][]any{{n.CompanyID, n.ID, string(n.Kind), string(n.State), n.sealed, n.digest, n.Note, n.AppID,
			string(n.Amount.Asset()), n.Amount.Units(), n.Payees, n.ObjectID, n.DecidedBy, n.Version,
			db.Micros(n.CreatedAt), db.Micros(n.UpdatedAt), db.Micros(n.ExpiresAt)}})
}

func scan(company string, row func(...any) error) (n Proposal, err error) {
	var kind, state, currency string
	var units, created, updated, expires int64
	if err := row(&n.ID, &kind, &state, &n.sealed, &n.digest, &n.Note, &n.AppID, &currency, &units, &n.Payees,
		&n.ObjectID, &n.DecidedBy, &n.Version, &created, &updated, &expires); err != nil {
		return n, err
	}
	n.CompanyID, n.Kind, n.State, n.Amount = company, Kind(kind), State(state), money.New(money.Asset(currency), units)
	n.CreatedAt, n.UpdatedAt, n.ExpiresAt = db.Time(created), db.Time(updated), db.Time(expires)
	return n, nil
}

func one(company string, row db.Row) (Proposal, error) {
	n, err := scan(company, row.Scan)
	if errors.Is(err, db.ErrNoRows) {
		err = ErrNotFound
	}
	return n, err
}

func find(ctx context.Context, tx *db.Tx, company, id string) (Proposal, error) {
	return one(company, tx.QueryRow(ctx, "SELECT "+columns+" FROM proposals WHERE company_id = $1 AND proposal_id = $2",
		company, id))
}

// lock reads a proposal and locks its row until the transaction ends.
func lock(ctx context.Context, tx *db.Tx, company, id string) (Proposal, error) {
	return one(company, tx.QueryRow(ctx, `UPDATE proposals SET version = version
		WHERE company_id = $1 AND proposal_id = $2 RETURNING `+columns, company, id))
}

// openWith returns the open proposal of the same app with the same content. If two transactions insert such a
// proposal concurrently, a unique index makes the second one run again.
func openWith(ctx context.Context, tx *db.Tx, n Proposal) (Proposal, error) {
	return one(n.CompanyID, tx.QueryRow(ctx, "SELECT "+columns+` FROM proposals
		WHERE company_id = $1 AND app_id = $2 AND digest = $3 AND state = 'open'`, n.CompanyID, n.AppID, n.digest))
}

func countOpen(ctx context.Context, tx *db.Tx, company string) (open int64, err error) {
	err = tx.QueryRow(ctx, `SELECT count(*) FROM proposals WHERE company_id = $1 AND state = 'open' AND expires_at > $2`,
		company, db.Micros(tx.Now())).Scan(&open)
	return open, err
}

// finish stores the final state of a proposal as its next version. It returns an error unless the proposal is open.
func (n *Proposal) finish(ctx context.Context, tx *db.Tx) error {
	n.Version++
	return tx.ExecOne(ctx, `UPDATE proposals SET state = $1, content = '', object_id = $2, decided_by = $3,
		updated_at = $4, version = $5 WHERE company_id = $6 AND proposal_id = $7 AND state = 'open' AND version = $5 - 1`,
		string(n.State), n.ObjectID, n.DecidedBy, db.Micros(n.UpdatedAt), n.Version, n.CompanyID, n.ID)
}

func list(ctx context.Context, tx *db.Tx, company string, state State, page db.Page) ([]Proposal, int64, error) {
	l := &db.List{Columns: columns, Table: "proposals", ID: "proposal_id", Page: page}
	l.Where("company_id = ?", company)
	now := db.Micros(tx.Now())
	switch state {
	case "":
	case Open:
		l.Where("state = 'open' AND expires_at > ?", now)
	case Expired:
		l.Where("(state = 'expired' OR state = 'open' AND expires_at <= ?)", now)
	default:
		l.Where("state = ?", string(state))
	}
	return db.ReadPage(ctx, tx, l, func(r *db.Rows) (Proposal, error) { return scan(company, r.Scan) })
}
