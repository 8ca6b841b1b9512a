package bankreceipt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

const columns = `transfer_id, bank_account, number, currency, amount, booked_on, debtor, debtor_account, lines,
	fingerprint, seen, state, reason, owner_id, company_id, payer_id, invoice_id, invoice_part, payroll_id, version,
	created_at, subaccount, payment`

// lastDigits returns the last four characters of an account number, which suffice to distinguish accounts but not to
// misuse them.
func lastDigits(number string) string {
	if len(number) <= 4 || strings.HasPrefix(number, "…") {
		return number
	}
	return "…" + number[len(number)-4:]
}

func insert(ctx context.Context, tx *db.Tx, t Transfer, references []string) error {
	lines, err := json.Marshal(t.Lines)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO transfers ("+columns+", updated_at) VALUES "+db.Placeholders(1, 24, 1),
		t.ID, t.BankAccount, lastDigits(t.Number), string(t.Amount.Asset()), t.Amount.Units(), t.BookedOn, t.Debtor,
		lastDigits(t.DebtorAccount), string(lines), t.fingerprint,
		t.seen, string(t.State), t.Reason, t.OwnerID, t.CompanyID, t.PayerID, t.InvoiceID, t.invoiceAmount.Units(),
		t.PayrollID, t.Version, db.Micros(t.CreatedAt), t.accountID, t.payment, db.Micros(tx.Now())); err != nil {
		return err
	}
	return insertReferences(ctx, tx, t, references)
}

// lockAccount locks the credits of an account for the rest of the transaction, so that two transactions cannot both
// find that a credit is missing and insert it. It does so by updating the row with the empty name.
func lockAccount(ctx context.Context, tx *db.Tx, account string) error {
	_, err := tx.Exec(ctx, `INSERT INTO transfer_references (bank_account, name, transfer_id) VALUES ($1, '', '')
		ON CONFLICT (bank_account, name) DO UPDATE SET transfer_id = excluded.transfer_id`, account)
	return err
}

// insertReferences stores the bank's references of a credit. It returns db.ErrConflict if another credit already has
// one of the references.
func insertReferences(ctx context.Context, tx *db.Tx, t Transfer, references []string) error {
	for _, name := range references {
		n, err := tx.Exec(ctx, `INSERT INTO transfer_references (bank_account, name, transfer_id) VALUES ($1, $2, $3)
			ON CONFLICT (bank_account, name) DO UPDATE SET name = excluded.name
			WHERE transfer_references.transfer_id = excluded.transfer_id`, t.BankAccount, name, t.ID)
		if err != nil {
			return err
		}
		if n != 1 {
			return db.ErrConflict
		}
	}
	return nil
}

// insertCharge stores the name of a charge with its ID. If an earlier transaction has stored the name, it returns the
// ID stored then.
func insertCharge(ctx context.Context, tx *db.Tx, account, name, id string) (stored string, isNew bool, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO transfer_references (bank_account, name, transfer_id) VALUES ($1, $2, $3)
		ON CONFLICT (bank_account, name) DO UPDATE SET transfer_id = transfer_references.transfer_id
		RETURNING transfer_id`, account, name, id).Scan(&stored)
	return stored, stored == id, err
}

func referencesOf(ctx context.Context, tx *db.Tx, t Transfer) ([]string, error) {
	rows, err := tx.Query(ctx, "SELECT name FROM transfer_references WHERE bank_account = $1 AND transfer_id = $2",
		t.BankAccount, t.ID)
	return db.Collect(rows, err, func(r *db.Rows) (name string, err error) { return name, r.Scan(&name) })
}

func scan(scan func(...any) error) (t Transfer, err error) {
	var currency, lines, state string
	var amount, part, created int64
	if err := scan(&t.ID, &t.BankAccount, &t.Number, &currency, &amount, &t.BookedOn, &t.Debtor, &t.DebtorAccount, &lines,
		&t.fingerprint, &t.seen, &state,
		&t.Reason, &t.OwnerID, &t.CompanyID, &t.PayerID, &t.InvoiceID, &part, &t.PayrollID, &t.Version, &created,
		&t.accountID, &t.payment); err != nil {
		return t, err
	}
	if t.accountID == "" {
		t.accountID = t.BankAccount // transfers without an account ID are stored under the account's number
	}
	a := money.Asset(currency)
	t.Amount, t.invoiceAmount, t.State, t.CreatedAt = money.New(a, amount), money.New(a, part), State(state),
		db.Time(created)
	return t, json.Unmarshal([]byte(lines), &t.Lines)
}

func selectTransfers(ctx context.Context, tx *db.Tx, where string, args ...any) ([]Transfer, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+" FROM transfers WHERE "+where, args...)
	return db.Collect(rows, err, func(r *db.Rows) (Transfer, error) { return scan(r.Scan) })
}

// Get returns a transfer, or ErrNotFound.
func Get(ctx context.Context, tx *db.Tx, id string) (Transfer, error) {
	t, err := scan(tx.QueryRow(ctx, "SELECT "+columns+" FROM transfers WHERE transfer_id = $1", id).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return t, ErrNotFound
	}
	return t, err
}

// byReferences returns the credit that has one of the given references, or the zero Transfer.
func byReferences(ctx context.Context, tx *db.Tx, account string, references []string) (Transfer, error) {
	for in, args := range db.BindList(tx, references, 2) {
		found, err := selectTransfers(ctx, tx,
			`transfer_id IN (SELECT transfer_id FROM transfer_references WHERE bank_account = $1 AND name IN `+in+`)
			ORDER BY created_at, transfer_id LIMIT 1`, append([]any{account}, args...)...)
		if err != nil || len(found) > 0 {
			return append(found, Transfer{})[0], err
		}
	}
	return Transfer{}, nil
}

// byFingerprint returns the credits of an account whose content has a fingerprint, in the order of import.
func byFingerprint(ctx context.Context, tx *db.Tx, account, fingerprint string) ([]Transfer, error) {
	return selectTransfers(ctx, tx, "bank_account = $1 AND fingerprint = $2 ORDER BY created_at, transfer_id", account,
		fingerprint)
}

// byAmount returns the latest credits of an amount on an account that are not returned, newest first.
func byAmount(ctx context.Context, tx *db.Tx, account string, x money.Amount) ([]Transfer, error) {
	return selectTransfers(ctx, tx, `bank_account = $1 AND currency = $2 AND amount = $3 AND state <> 'returned'
		ORDER BY created_at DESC, transfer_id DESC LIMIT 100`, account, string(x.Asset()), x.Units())
}

// byAmountAndDate returns the credits of an amount on an account that were booked between two days, in the order of
// import.
func byAmountAndDate(ctx context.Context, tx *db.Tx, account string, x money.Amount, from, to string) ([]Transfer,
	error,
) {
	return selectTransfers(ctx, tx, `bank_account = $1 AND currency = $2 AND amount = $3
			AND booked_on >= $4 AND booked_on <= $5
		ORDER BY created_at, transfer_id LIMIT 100`,
		account, string(x.Asset()), x.Units(), from, to)
}

// List returns the transfers in suspense, oldest first, or the latest of all transfers.
func List(ctx context.Context, tx *db.Tx, all bool, limit int) ([]Transfer, error) {
	if all {
		return selectTransfers(ctx, tx, "created_at >= 0 ORDER BY created_at DESC, transfer_id DESC LIMIT $1", int64(limit))
	}
	return selectTransfers(ctx, tx, "state = 'suspense' ORDER BY created_at, transfer_id LIMIT $1", int64(limit))
}

// InSuspense returns all transfers in suspense, oldest first.
func InSuspense(ctx context.Context, tx *db.Tx) ([]Transfer, error) {
	return selectTransfers(ctx, tx, "state = 'suspense' ORDER BY created_at, transfer_id")
}

// returnedPartsOf returns the parts of a payment that came back, oldest first.
func returnedPartsOf(ctx context.Context, tx *db.Tx, payment string) ([]Transfer, error) {
	return selectTransfers(ctx, tx, "payment = $1 ORDER BY created_at, transfer_id", payment)
}

// payments returns the references of the payments with returned parts, by the transfer ID of the part.
func payments(ctx context.Context, tx *db.Tx) (map[string]string, error) {
	all, err := selectTransfers(ctx, tx, "payment <> '' ORDER BY transfer_id")
	of := make(map[string]string, len(all))
	for _, t := range all {
		of[t.ID] = t.payment
	}
	return of, err
}

func setSeen(ctx context.Context, tx *db.Tx, t Transfer, seen string) error {
	_, err := tx.Exec(ctx, "UPDATE transfers SET seen = $1 WHERE transfer_id = $2", seen, t.ID)
	return err
}

// update stores the mutable fields of a transfer as its next version. It returns db.ErrConflict if the version or
// state has changed.
func update(ctx context.Context, tx *db.Tx, t *Transfer, from State) error {
	n, err := tx.Exec(ctx, `UPDATE transfers SET state = $1, reason = $2, owner_id = $3, payer_id = $4, invoice_id = $5,
			invoice_part = $6, payroll_id = $7, company_id = $8, version = version + 1, updated_at = $9
		WHERE transfer_id = $10 AND version = $11 AND state = $12`,
		string(t.State), t.Reason, t.OwnerID, t.PayerID, t.InvoiceID, t.invoiceAmount.Units(), t.PayrollID, t.CompanyID,
		db.Micros(tx.Now()), t.ID, t.Version,
		string(from))
	if err != nil {
		return err
	}
	if n != 1 {
		return db.ErrConflict
	}
	t.Version++
	return nil
}

func replaceStatement(ctx context.Context, tx *db.Tx, s *Statement) error {
	key := []any{s.Number, string(s.Currency), s.ID}
	if _, err := tx.Exec(ctx, `INSERT INTO bank_statements
			(number, currency, statement_id, sequence, balanced, opening, closing, opens_on, closes_on, made_at, taken_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
		ON CONFLICT (number, currency, statement_id) DO UPDATE SET sequence = excluded.sequence,
			balanced = excluded.balanced, opening = excluded.opening, closing = excluded.closing,
			opens_on = excluded.opens_on, closes_on = excluded.closes_on, made_at = excluded.made_at`,
		append(key, s.Sequence, s.Balanced, s.Opening.Units(), s.Closing.Units(), s.Opens, s.Closes, db.Micros(s.Made),
			db.Micros(tx.Now()))...); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "DELETE FROM bank_entries WHERE number = $1 AND currency = $2 AND statement_id = $3",
		key...); err != nil {
		return err
	}
	rows := make([][]any, len(s.entries))
	for i, e := range s.entries {
		rows[i] = append(slices.Clone(key), int64(i), e.subject, e.amount.Units(), e.name)
	}
	return tx.Insert(ctx, "bank_entries", []string{"number", "currency", "statement_id", "position", "subject", "amount",
		"name"}, rows)
}

// Statements returns the statements of all accounts, ordered by account and date.
func Statements(ctx context.Context, tx *db.Tx) ([]Statement, error) {
	rows, err := tx.Query(ctx, `SELECT s.number, s.currency, s.statement_id, s.sequence, s.balanced, s.opening, s.closing,
			s.opens_on, s.closes_on, s.made_at,
			CAST(COALESCE((SELECT SUM(e.amount) FROM bank_entries e
				WHERE e.number = s.number AND e.currency = s.currency AND e.statement_id = s.statement_id), 0) AS BIGINT)
		FROM bank_statements s ORDER BY s.number, s.currency, s.closes_on, s.sequence, s.made_at, s.statement_id`)
	return db.Collect(rows, err, func(r *db.Rows) (s Statement, err error) {
		var opening, closing, made, sum int64
		var currency string
		err = r.Scan(&s.Number, &currency, &s.ID, &s.Sequence, &s.Balanced, &opening, &closing, &s.Opens, &s.Closes, &made,
			&sum)
		s.Currency, s.Made = money.Asset(currency), db.Time(made)
		s.Opening, s.Closing, s.Sum = money.New(s.Currency, opening), money.New(s.Currency, closing),
			money.New(s.Currency, sum)
		return s, err
	})
}

// ReadThrough returns the closing day of the newest statement that was read for an account, such as 2026-03-02, or
// "".
func ReadThrough(ctx context.Context, tx *db.Tx, number string, currency money.Asset) (day string, err error) {
	err = tx.QueryRow(ctx, `SELECT COALESCE(MAX(closes_on), '') FROM bank_statements WHERE number = $1 AND currency = $2`,
		compact(number), string(currency)).Scan(&day)
	return day, err
}

// StatementTotals returns the totals of all statements of an account by subject, except the statements with the given
// IDs.
func StatementTotals(ctx context.Context, tx *db.Tx, number string, currency money.Asset, except ...string,
) ([]StatementTotal, error) {
	args, others := []any{number, string(currency)}, ""
	for _, id := range except {
		args = append(args, id)
		others += fmt.Sprintf(" AND statement_id <> $%d", len(args))
	}
	rows, err := tx.Query(ctx, `SELECT subject, MIN(name), CAST(SUM(amount) AS BIGINT) FROM bank_entries
		WHERE number = $1 AND currency = $2`+others+`
		GROUP BY subject, CASE WHEN subject = '' THEN statement_id ELSE '' END,
			CASE WHEN subject = '' THEN position ELSE 0 END
		ORDER BY MIN(statement_id), MIN(position)`, args...)
	return db.Collect(rows, err, func(r *db.Rows) (t StatementTotal, err error) {
		var units int64
		err = r.Scan(&t.Subject, &t.Name, &units)
		t.Amount = money.New(currency, units)
		return t, err
	})
}
