package quote

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

const columns = `company_id, quote_id, object_id, number, state, version, valid_from, valid_to, grace, cancelled_at,
	due_asset, due, funding_asset, funding, rate, address, network, confirmations`

const columnCount = 18

var quoteRows = db.BulkInsert("quotes", "company_id", "quote_id", "object_id", "number", "state", "version",
	"valid_from", "valid_to",
	"grace", "cancelled_at", "due_asset", "due", "funding_asset", "funding", "rate", "address", "network",
	"confirmations")

func row(q Quote) []any {
	return []any{q.CompanyID, q.ID, q.ObjectID, q.Number, string(q.State), q.Version, db.Micros(q.ValidFrom),
		db.Micros(q.ValidTo),
		q.Grace.Microseconds(), micros(q.CancelledAt), string(q.Due.Asset()), q.Due.Units(),
		string(q.Funding.Asset()), q.Funding.Units(),
		q.Rate.String(), q.Address, q.Network, q.Confirmations}
}

func insertLater(tx *db.Tx, q Quote) { quoteRows.Add(tx, row(q)) }

// insert inserts a quote. It returns false if a concurrent transaction has inserted a quote for the same object and
// asset.
func insert(ctx context.Context, tx *db.Tx, q Quote) (bool, error) {
	n, err := tx.Exec(ctx, "INSERT INTO quotes ("+columns+") VALUES "+db.Placeholders(1, columnCount,
		1)+" ON CONFLICT DO NOTHING", row(q)...)
	return n == 1, err
}

// setState changes the state of a quote. It returns false if the quote has changed since it was read.
func setState(ctx context.Context, tx *db.Tx, q Quote, to State) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE quotes SET state = $1, version = version + 1, cancelled_at = $2
		WHERE company_id = $3 AND quote_id = $4 AND state = $5 AND version = $6`,
		string(to), micros(q.CancelledAt), q.CompanyID, q.ID, string(q.State), q.Version)
	return n == 1, err
}

// Get returns a quote by its ID.
func Get(ctx context.Context, tx *db.Tx, companyID, quoteID string) (Quote, error) {
	return one(tx.QueryRow(ctx, "SELECT "+columns+" FROM quotes WHERE company_id = $1 AND quote_id = $2", companyID,
		quoteID))
}

// Last returns the newest quote of an object in an asset, in any state.
func Last(ctx context.Context, tx *db.Tx, companyID, objectID string, funding money.Asset) (Quote, error) {
	return one(tx.QueryRow(ctx, "SELECT "+columns+` FROM quotes
		WHERE company_id = $1 AND object_id = $2 AND funding_asset = $3 ORDER BY number DESC
		LIMIT 1`, companyID, objectID, string(funding)))
}

// ForObject returns every quote of an object, newest first.
func ForObject(ctx context.Context, tx *db.Tx, companyID, objectID string) (all []Quote, err error) {
	err = tx.Batch(ctx, []db.Statement{Asked(companyID, objectID, func(q Quote) { all = append(all, q) })})
	return all, err
}

// Asked returns the query of [ForObject], for use in a batch.
func Asked(companyID, objectID string, found func(Quote)) db.Statement {
	return db.Statement{Query: "SELECT " + columns + ` FROM quotes WHERE company_id = $1 AND object_id = $2
		ORDER BY number DESC, funding_asset`, Args: []any{companyID, objectID}, Row: func(r *db.Rows) error {
		q, err := scan(r)
		if err == nil {
			found(q)
		}
		return err
	}}
}

// countRefreshes returns the number of refreshes of an object's quotes in an asset since a time, and the time of the
// first.
func countRefreshes(ctx context.Context, tx *db.Tx, companyID, objectID string, funding money.Asset,
	since time.Time) (int, time.Time, error) {
	var count int
	var first int64
	err := tx.QueryRow(ctx, `SELECT COUNT(*), COALESCE(MIN(valid_from), 0) FROM quotes
		WHERE company_id = $1 AND object_id = $2 AND funding_asset = $3 AND number > 1 AND valid_from > $4`,
		companyID, objectID, string(funding), db.Micros(since)).Scan(&count, &first)
	return count, db.Time(first), err
}

// loadDue returns active quotes of a network, for all companies, that ended before a time, oldest first.
func loadDue(ctx context.Context, tx *db.Tx, network string, until time.Time, limit int) ([]Quote, error) {
	rows, err := tx.Query(ctx,
		"SELECT "+columns+" FROM quotes WHERE state = 'active' AND valid_to <= $1 AND network = $3 ORDER BY valid_to LIMIT "+
			"$2",
		db.Micros(until), limit, network)
	return db.Collect(rows, err, func(r *db.Rows) (Quote, error) { return scan(r) })
}

func one(r db.Row) (Quote, error) {
	q, err := scan(r)
	if errors.Is(err, db.ErrNoRows) {
		return Quote{}, ErrNotFound
	}
	return q, err
}

func scan(r interface{ Scan(dest ...any) error }) (Quote, error) {
	var q Quote
	var state, dueAsset, fundingAsset, rate string
	var from, to, grace, cancelled, due, funding int64
	err := r.Scan(&q.CompanyID, &q.ID, &q.ObjectID, &q.Number, &state, &q.Version, &from, &to, &grace, &cancelled,
		&dueAsset, &due, &fundingAsset, &funding, &rate, &q.Address, &q.Network, &q.Confirmations)
	if err != nil {
		return Quote{}, err
	}
	q.State, q.ValidFrom, q.ValidTo, q.Grace = State(state), db.Time(from), db.Time(to),
		time.Duration(grace)*time.Microsecond
	if cancelled != 0 {
		q.CancelledAt = db.Time(cancelled)
	}
	q.Due, q.Funding = money.New(money.Asset(dueAsset), due), money.New(money.Asset(fundingAsset), funding)
	q.Rate, err = money.ParseRate(q.Funding.Asset(), q.Due.Asset(), rate)
	return q, err
}

// micros returns a time in microseconds. The zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return db.Micros(t)
}
