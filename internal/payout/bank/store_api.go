package bank

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stipend/stipend/internal/db"
)

// bankTransfer is the transfer of a payment at a bank with an API, as stored in bank_transfers.
type bankTransfer struct {
	position  int
	method    string // "" before a method was chosen
	id        string // the bank's ID, "" if unknown
	state     string
	reason    string
	attempts  int64
	checkAt   time.Time // time of the next check, or zero
	createdAt time.Time
}

const transferColumns = "t.position, t.method, t.transfer_id, t.state, t.reason, t.attempts, t.check_at, t.created_at"

func scanTransfer(scan func(...any) error) (t bankTransfer, err error) {
	var position, check, created int64
	err = scan(&position, &t.method, &t.id, &t.state, &t.reason, &t.attempts, &check, &created)
	t.position, t.createdAt = int(position), db.Time(created)
	if check > 0 {
		t.checkAt = db.Time(check)
	}
	return t, err
}

// insertTransfers inserts a new transfer for each of the n payments of a file, unless the file has transfers.
func insertTransfers(ctx context.Context, tx *db.Tx, f File, n int) error {
	if _, err := getTransfer(ctx, tx, f, 1); !errors.Is(err, db.ErrNoRows) {
		return err
	}
	rows := make([][]any, n)
	for i := range rows {
		rows[i] = []any{f.CompanyID, f.ID, int64(i + 1), "", "", transferNew, "", int64(0), int64(0), db.Micros(tx.Now())}
	}
	return tx.Insert(ctx, "bank_transfers", []string{"company_id", "file_id", "position", "method", "transfer_id", "state",
		"reason", "attempts", "check_at", "created_at"}, rows)
}

// openTransfers returns transfers of a file that the bank has not accepted, ordered by number of attempts.
func openTransfers(ctx context.Context, tx *db.Tx, f File, limit int) ([]bankTransfer, error) {
	rows, err := tx.Query(ctx, `SELECT `+transferColumns+` FROM bank_transfers t
		WHERE t.company_id = $1 AND t.file_id = $2 AND t.state IN ('new', 'in_doubt')
		ORDER BY t.attempts, t.position LIMIT $3`, f.CompanyID, f.ID, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (bankTransfer, error) { return scanTransfer(r.Scan) })
}

func getTransfer(ctx context.Context, tx *db.Tx, f File, position int) (bankTransfer, error) {
	return scanTransfer(tx.QueryRow(ctx, `SELECT `+transferColumns+` FROM bank_transfers t
		WHERE t.company_id = $1 AND t.file_id = $2 AND t.position = $3`, f.CompanyID, f.ID, int64(position)).Scan)
}

// beginTransfer changes a new transfer to in_doubt and stores its method, before the first call that creates the
// transfer. It reports whether the transfer was still new.
func beginTransfer(ctx context.Context, tx *db.Tx, f File, t bankTransfer) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE bank_transfers SET state = 'in_doubt', method = $4
		WHERE company_id = $1 AND file_id = $2 AND position = $3 AND state = 'new' AND method IN ('', $4)`,
		f.CompanyID, f.ID, int64(t.position), t.method)
	return n == 1, err
}

// storeTransfer stores a transfer of a locked file.
func storeTransfer(ctx context.Context, tx *db.Tx, f File, t bankTransfer) error {
	check := int64(0)
	if !t.checkAt.IsZero() {
		check = db.Micros(t.checkAt)
	}
	return tx.ExecOne(ctx, `UPDATE bank_transfers SET method = $4, transfer_id = $5, state = $6, reason = $7,
			attempts = $8, check_at = $9
		WHERE company_id = $1 AND file_id = $2 AND position = $3`, f.CompanyID, f.ID, int64(t.position), t.method, t.id,
		t.state, t.reason, t.attempts, check)
}

// checkSoon makes the next check of the accepted transfer with a bank's ID due now. It does nothing if there is no
// such transfer.
func checkSoon(ctx context.Context, tx *db.Tx, transferID string) error {
	now := db.Micros(tx.Now())
	_, err := tx.Exec(ctx, `UPDATE bank_transfers SET check_at = $2
		WHERE transfer_id = $1 AND state = 'accepted' AND (check_at > $2 OR check_at = 0)`, transferID, now)
	return err
}

// lastStatement returns the day of the newest statement that was read for an account, such as 2026-03-02, or "".
func lastStatement(ctx context.Context, tx *db.Tx, a Account) (day string, err error) {
	prefix := a.ID + " "
	err = tx.QueryRow(ctx, `SELECT name FROM bank_responses WHERE kind = $1 AND substr(name, 1, $2) = $3
		ORDER BY name DESC LIMIT 1`, statementKind, int64(utf8.RuneCountInString(prefix)), prefix).Scan(&day)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return strings.TrimPrefix(day, prefix), err
}

// referencesOf returns, by the bank's ID of the transfer, the references of payments and of reversals' files from an
// account. ids are the IDs that a statement mentions.
func referencesOf(ctx context.Context, tx *db.Tx, account string, ids []string) (map[string]string, error) {
	of := map[string]string{}
	return of, db.EachIn(ctx, tx, ids, `SELECT t.transfer_id, f.number, t.position, f.kind FROM bank_transfers t
		JOIN bank_files f ON f.company_id = t.company_id AND f.file_id = t.file_id
		WHERE f.account = $1 AND t.transfer_id IN %s`, []any{account}, func(r *db.Rows) error {
		var id, kind string
		var number, position int64
		err := r.Scan(&id, &number, &position, &kind)
		if of[id] = PaymentReference(number, int(position)); kind == KindReversals {
			of[id] = FileReference(number)
		}
		return err
	})
}

// dueTransfer is an accepted transfer whose next check is due.
type dueTransfer struct {
	bankTransfer
	file File
}

// dueTransfers returns the transfers of an account whose next check is due, grouped by file.
func dueTransfers(ctx context.Context, tx *db.Tx, account string, limit int) ([]dueTransfer, error) {
	type key struct{ company, file string }
	rows, err := tx.Query(ctx, `SELECT t.company_id, t.file_id, `+transferColumns+` FROM bank_transfers t
		JOIN bank_files f ON f.company_id = t.company_id AND f.file_id = t.file_id
		WHERE t.check_at > 0 AND t.check_at <= $1 AND f.account = $2 ORDER BY t.check_at LIMIT $3`,
		db.Micros(tx.Now()), account, int64(limit))
	var order []key
	of := map[key][]bankTransfer{}
	if _, err = db.Collect(rows, err, func(r *db.Rows) (struct{}, error) {
		var k key
		t, err := scanTransfer(func(into ...any) error { return r.Scan(append([]any{&k.company, &k.file}, into...)...) })
		if of[k] == nil {
			order = append(order, k)
		}
		of[k] = append(of[k], t)
		return struct{}{}, err
	}); err != nil {
		return nil, err
	}
	var due []dueTransfer
	for _, k := range order {
		f, err := get(ctx, tx, k.company, k.file)
		if err != nil {
			return nil, err
		}
		for _, t := range of[k] {
			due = append(due, dueTransfer{t, f})
		}
	}
	return due, nil
}
