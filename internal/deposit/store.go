package deposit

import (
	"context"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

const columns = `company_id, deposit_id, chain, txid, vout, object_id, quote_id, address, asset, amount, state, version,
	timely, dust, first_seen, want_confirmations, replaced_by`

const columnCount = 17

// insert says whether the deposit is in; it is not when the output's deposit was recorded at the same moment.
func insert(ctx context.Context, tx *db.Tx, d Deposit) (bool, error) {
	n, err := tx.Exec(ctx, "INSERT INTO deposits ("+columns+") VALUES "+db.Placeholders(1, columnCount, 1)+" ON CONFLICT DO NOTHING",
		d.CompanyID, d.ID, d.Chain, d.TxID, int64(d.Vout), d.ObjectID, d.QuoteID, d.Address, string(d.Amount.Asset()), d.Amount.Units(),
		string(d.State), d.Version, d.Timely, d.Dust, db.Micros(d.FirstSeen), d.Wanted, d.ReplacedBy)
	return n == 1, err
}

// update writes what may change of a deposit, over the very version that was read.
func update(ctx context.Context, tx *db.Tx, d Deposit) error {
	return tx.One(ctx, errChangedByTwin, `UPDATE deposits SET state = $1, quote_id = $2, timely = $3, first_seen = $4, replaced_by = $5, version = version + 1
		WHERE company_id = $6 AND deposit_id = $7 AND version = $8`,
		string(d.State), d.QuoteID, d.Timely, db.Micros(d.FirstSeen), d.ReplacedBy, d.CompanyID, d.ID, d.Version)
}

// find answers db.ErrNoRows for an output without a deposit.
func find(ctx context.Context, tx *db.Tx, companyID, chainName string, at chain.Outpoint) (Deposit, error) {
	return scan(tx.QueryRow(ctx, "SELECT "+columns+" FROM deposits WHERE company_id = $1 AND chain = $2 AND txid = $3 AND vout = $4",
		companyID, chainName, at.TxID, int64(at.Vout)))
}

// ForObject is the deposits that an object expects, whatever their state, by first sight. Dust is none.
func ForObject(ctx context.Context, tx *db.Tx, companyID, objectID string) (all []Deposit, err error) {
	err = tx.Ask(ctx, []db.Question{Asked(companyID, objectID, &all)})
	return all, err
}

// Asked is the question of ForObject, for who asks others with it.
func Asked(companyID, objectID string, all *[]Deposit) db.Question {
	return db.Question{Query: "SELECT " + columns + ` FROM deposits
		WHERE company_id = $1 AND object_id = $2 AND quote_id <> '' AND dust = FALSE ORDER BY first_seen, txid, vout`, Args: []any{companyID, objectID},
		Row: func(r *db.Rows) error {
			d, err := scan(r)
			*all = append(*all, d)
			return err
		}}
}

// Unknown is the confirmed deposits of a company's addresses that no object expects, and that wait for a person; by first sight.
func Unknown(ctx context.Context, tx *db.Tx, companyID string) ([]Deposit, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+` FROM deposits
		WHERE company_id = $1 AND quote_id = '' AND state = 'confirmed' AND dust = FALSE ORDER BY first_seen, txid, vout`, companyID)
	return db.Collect(rows, err, func(r *db.Rows) (Deposit, error) { return scan(r) })
}

// UnknownToAll is what Unknown is for all companies, those of forgotten addresses (chain.Nobody) included. What came to the house's
// own address is its own.
func UnknownToAll(ctx context.Context, tx *db.Tx, limit int) ([]Deposit, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+` FROM deposits
		WHERE quote_id = '' AND state = 'confirmed' AND dust = FALSE AND NOT (company_id = $2 AND object_id <> '') ORDER BY first_seen DESC, txid, vout LIMIT $1`,
		int64(limit), ledger.House)
	return db.Collect(rows, err, func(r *db.Rows) (Deposit, error) { return scan(r) })
}

func scan(r interface{ Scan(dest ...any) error }) (Deposit, error) {
	var d Deposit
	var asset, state string
	var vout, amount, firstSeen int64
	err := r.Scan(&d.CompanyID, &d.ID, &d.Chain, &d.TxID, &vout, &d.ObjectID, &d.QuoteID, &d.Address, &asset, &amount, &state, &d.Version,
		&d.Timely, &d.Dust, &firstSeen, &d.Wanted, &d.ReplacedBy)
	d.Vout, d.Amount, d.State, d.FirstSeen = uint32(vout), money.New(money.Asset(asset), amount), State(state), db.Time(firstSeen)
	return d, err
}

// Unbooked are coins that a block has, deep enough, and of which no deposit says so: their outpoints.
func Unbooked(ctx context.Context, tx *db.Tx, chainName string) ([]chain.Outpoint, error) {
	return outpoints(ctx, tx, `SELECT o.txid, o.vout FROM chain_outputs o LEFT JOIN deposits d
			ON d.company_id = o.company_id AND d.chain = o.chain AND d.txid = o.txid AND d.vout = o.vout AND d.state = 'confirmed'
		WHERE o.chain = $1 AND o.state = 'mined' AND o.confirmed = TRUE AND o.branch = $2 AND d.txid IS NULL ORDER BY o.txid, o.vout`,
		chainName, int64(chain.External))
}

// Gone are deposits that are confirmed, and whose coin no block has any more: their outpoints.
func Gone(ctx context.Context, tx *db.Tx, chainName string) ([]chain.Outpoint, error) {
	return outpoints(ctx, tx, `SELECT d.txid, d.vout FROM deposits d LEFT JOIN chain_outputs o
			ON o.chain = d.chain AND o.txid = d.txid AND o.vout = d.vout AND o.state = 'mined'
		WHERE d.chain = $1 AND d.state = 'confirmed' AND o.txid IS NULL ORDER BY d.txid, d.vout`, chainName)
}

func outpoints(ctx context.Context, tx *db.Tx, query string, args ...any) ([]chain.Outpoint, error) {
	rows, err := tx.Query(ctx, query, args...)
	return db.Collect(rows, err, func(r *db.Rows) (o chain.Outpoint, err error) {
		var vout int64
		err = r.Scan(&o.TxID, &vout)
		o.Vout = uint32(vout)
		return o, err
	})
}
