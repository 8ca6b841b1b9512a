package bank

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// prenote is a prenote to a destination, as stored in bank_prenotes.
type prenote struct {
	id          string
	companyID   string
	account     string
	asset       money.Asset
	destination json.RawMessage // stored copy of the destination, with sealed bank data
	fileID      string          // "" if it was not written to a file
	transferID  string          // "" if it was not sent by an API
	state       string
	until       time.Time // zero before the prenote was ordered
}

const prenoteColumns = `prenote_id, company_id, account, asset, destination, file_id, transfer_id, state, wait_until`

func scanPrenote(scan func(...any) error) (p prenote, err error) {
	var asset, to string
	var until int64
	err = scan(&p.id, &p.companyID, &p.account, &asset, &to, &p.fileID, &p.transferID, &p.state, &until)
	p.asset, p.destination = money.Asset(asset), json.RawMessage(to)
	if until > 0 {
		p.until = db.Time(until)
	}
	return p, err
}

func insertPrenote(ctx context.Context, tx *db.Tx, p prenote) error {
	return tx.Insert(ctx, "bank_prenotes", []string{"prenote_id", "company_id", "account", "asset", "destination",
		"file_id", "transfer_id", "state", "wait_until", "created_at"}, [][]any{{p.id, p.companyID, p.account,
		string(p.asset), string(p.destination), "", "", p.state, int64(0), db.Micros(tx.Now())}})
}

// prenotesIn returns prenotes of an account in a state, ordered by the time of the last question to the bank and then
// by age.
func prenotesIn(ctx context.Context, tx *db.Tx, a Account, state string) ([]prenote, error) {
	rows, err := tx.Query(ctx, `SELECT `+prenoteColumns+` FROM bank_prenotes
		WHERE state = $1 AND account = $2 AND asset = $3 ORDER BY asked_at, created_at, prenote_id LIMIT $4`,
		state, a.ID, string(a.Currency), int64(maxPrenotes))
	return db.Collect(rows, err, func(r *db.Rows) (prenote, error) { return scanPrenote(r.Scan) })
}

// storeAsked stores that the bank is being asked about prenotes now.
func storeAsked(ctx context.Context, tx *db.Tx, all []prenote) error {
	for _, p := range all {
		if err := tx.ExecOne(ctx, "UPDATE bank_prenotes SET asked_at = $2 WHERE prenote_id = $1", p.id,
			db.Micros(tx.Now())); err != nil {
			return err
		}
	}
	return nil
}

// prenoteTransfers returns which of the bank's transfer IDs belong to prenotes from an account.
func prenoteTransfers(ctx context.Context, tx *db.Tx, account string, ids []string) (map[string]bool, error) {
	are := map[string]bool{}
	return are, db.EachIn(ctx, tx, ids, `SELECT transfer_id FROM bank_prenotes WHERE account = $1 AND transfer_id <> ''
		AND transfer_id IN %s`, []any{account}, func(r *db.Rows) error {
		var id string
		err := r.Scan(&id)
		are[id] = true
		return err
	})
}

// maxPrenotes is the largest number of prenotes that are sent or checked at a time.
const maxPrenotes = 200

// duePrenotes returns ordered prenotes in files whose waiting time is over.
func duePrenotes(ctx context.Context, tx *db.Tx) ([]prenote, error) {
	rows, err := tx.Query(ctx, `SELECT `+prenoteColumns+` FROM bank_prenotes
		WHERE state = 'ordered' AND file_id <> '' AND wait_until > 0 AND wait_until <= $1
		ORDER BY wait_until, prenote_id LIMIT $2`,
		db.Micros(tx.Now()), int64(maxPrenotes))
	return db.Collect(rows, err, func(r *db.Rows) (prenote, error) { return scanPrenote(r.Scan) })
}

// lockPrenote returns a prenote and locks it for the rest of the transaction.
func lockPrenote(ctx context.Context, tx *db.Tx, id string) (prenote, error) {
	return scanPrenote(tx.QueryRow(ctx, `UPDATE bank_prenotes SET state = state WHERE prenote_id = $1 RETURNING `+
		prenoteColumns, id).Scan)
}

func storePrenote(ctx context.Context, tx *db.Tx, p prenote) error {
	until := int64(0)
	if !p.until.IsZero() {
		until = db.Micros(p.until)
	}
	return tx.ExecOne(ctx, `UPDATE bank_prenotes SET file_id = $2, transfer_id = $3, state = $4, wait_until = $5
		WHERE prenote_id = $1`, p.id, p.fileID, p.transferID, p.state, until)
}
