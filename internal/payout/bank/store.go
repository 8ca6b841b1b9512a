package bank

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
)

// File is a payment file of one company, as stored in bank_files.
type File struct {
	CompanyID string
	ID        string      // also the batch ID of its outputs
	Number    int64       // unique across companies
	Account   string      // ID of the operator's account that pays
	Currency  money.Asset // currency of the account; the bank exchanges the payments if Total has another currency
	Name      string
	Total     money.Amount
	Payments  int64
	Execute   string // execution date, such as 2026-03-02
	Instant   bool   // the payments are SEPA instant payments
	Kind      string
	Checksum  string // SHA-256, hexadecimal
	State     string
	Attempts  int64 // failed attempts to submit the file
	Version   int64
	Created   time.Time
	SentAt    time.Time // zero until the bank has received the file
	token     string
	sealed    string
}

const fileColumns = `company_id, file_id, number, account, currency, name, asset, payments, total, execute_on, instant,
	kind, checksum, sealed, state, token, attempts, version, created_at, sent_at`

func scanFile(r interface{ Scan(...any) error }) (File, error) {
	var (
		f                    File
		asset, currency      string
		total, created, sent int64
	)
	err := r.Scan(&f.CompanyID, &f.ID, &f.Number, &f.Account, &currency, &f.Name, &asset, &f.Payments, &total, &f.Execute,
		&f.Instant, &f.Kind, &f.Checksum, &f.sealed, &f.State,
		&f.token, &f.Attempts, &f.Version, &created, &sent)
	f.Total, f.Created, f.Currency = money.New(money.Asset(asset), total), db.Time(created), money.Asset(currency)
	if sent > 0 {
		f.SentAt = db.Time(sent)
	}
	return f, err
}

func get(ctx context.Context, tx *db.Tx, companyID, fileID string) (File, error) {
	return scanFile(tx.QueryRow(ctx, "SELECT "+fileColumns+" FROM bank_files WHERE company_id = $1 AND file_id = $2",
		companyID, fileID))
}

// lock returns the file with a number and locks it for the rest of the transaction. It returns db.ErrNoRows if there
// is no such file.
func lock(ctx context.Context, tx *db.Tx, number int64) (File, error) {
	return scanFile(tx.QueryRow(ctx, "UPDATE bank_files SET version = version WHERE number = $1 RETURNING "+fileColumns,
		number))
}

// List returns up to limit files of all companies, newest first. If open is set, it returns only files that the bank
// may not have received.
func List(ctx context.Context, tx *db.Tx, open bool, limit int) ([]File, error) {
	where := "number > 0"
	if open {
		where = "state IN ('prepared', 'in_doubt')"
	}
	rows, err := tx.Query(ctx, "SELECT "+fileColumns+" FROM bank_files WHERE "+where+" ORDER BY number DESC LIMIT $1",
		int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (File, error) { return scanFile(r) })
}

// Find returns the file with a number, or db.ErrNoRows.
func Find(ctx context.Context, tx *db.Tx, number int64) (File, error) {
	return scanFile(tx.QueryRow(ctx, "SELECT "+fileColumns+" FROM bank_files WHERE number = $1", number))
}

// Unconfirmed is a file with payments that the bank has reported neither as paid nor as rejected.
type Unconfirmed struct {
	File
	Open money.Amount // sum of the unreported payments
}

// ListUnconfirmed returns the files of all companies that the bank has or may have received and that have payments
// without a report of the bank, ordered by execution date.
func ListUnconfirmed(ctx context.Context, tx *db.Tx) ([]Unconfirmed, error) {
	rows, err := tx.Query(ctx, `SELECT `+fileColumns+`, open FROM bank_files
		JOIN (SELECT company_id AS company, file_id AS file, CAST(SUM(amount) AS BIGINT) AS open FROM bank_payments
			WHERE state = 'ordered' AND amount > 0 GROUP BY company_id, file_id) o ON company_id = company AND file_id = file
		WHERE state IN ('sent', 'in_doubt') ORDER BY execute_on, number`)
	return db.Collect(rows, err, func(r *db.Rows) (u Unconfirmed, err error) {
		var open int64
		u.File, err = scanFile(scanWith{r, &open})
		u.Open = money.New(u.Total.Asset(), open)
		return u, err
	})
}

// scanWith scans the columns of a file followed by one further column.
type scanWith struct {
	rows *db.Rows
	last any
}

func (s scanWith) Scan(into ...any) error { return s.rows.Scan(append(into, s.last)...) }

const settingFileNumber = "bank.file_number" // the last used file number

// NextNumber returns the next number of a file or direct debit. A concurrent transaction waits until this transaction
// ends, so the numbers have no gaps.
func NextNumber(ctx context.Context, tx *db.Tx) (int64, error) {
	return db.AddToSetting(ctx, tx, settingFileNumber, 1)
}

// SkipNumbers leaves the next n file numbers unused. It is for a database that was restored from a backup and lacks
// the files made since the backup: no two files may have the same number.
func SkipNumbers(ctx context.Context, tx *db.Tx, n int64) error {
	_, err := db.AddToSetting(ctx, tx, settingFileNumber, n)
	return err
}

// reachNumber raises the last used file number to number if it is lower. Concurrent calls wait until the transaction
// ends.
func reachNumber(ctx context.Context, tx *db.Tx, number int64) error {
	last, err := db.AddToSetting(ctx, tx, settingFileNumber, 0)
	if err == nil && last < number {
		_, err = db.AddToSetting(ctx, tx, settingFileNumber, number-last)
	}
	return err
}

func insertFile(ctx context.Context, tx *db.Tx, f File, outs []payout.Output, parts []int) error {
	if _, err := tx.Exec(ctx, `INSERT INTO bank_files (`+fileColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, '', 0, 1, $16, 0)`,
		f.CompanyID, f.ID, f.Number, f.Account, string(f.Currency), f.Name, string(f.Total.Asset()),
		f.Payments, f.Total.Units(), f.Execute, f.Instant, f.Kind, f.Checksum, f.sealed, f.State,
		db.Micros(tx.Now())); err != nil {
		return err
	}
	db.History(tx, f.CompanyID, f.ID, 1, "", f.State, "")
	rows := make([][]any, len(outs))
	for i, o := range outs {
		rows[i] = []any{f.CompanyID, f.ID, int64(i + 1), int64(parts[i]), o.ID, o.Amount.Units(), Ordered, "", int64(0),
			int64(0), int64(0), db.Micros(tx.Now())}
	}
	return tx.Insert(ctx, "bank_payments", []string{"company_id", "file_id", "position", "part", "output_id", "amount",
		"state", "reason", "fee", "cost", "price", "updated_at"}, rows)
}

// advance changes the state of a file. It fails if the file has changed since it was read.
func (f *File) advance(ctx context.Context, tx *db.Tx, state, reason string) error {
	sent := int64(0)
	if !f.SentAt.IsZero() {
		sent = db.Micros(f.SentAt)
	} else if state == Sent {
		sent = db.Micros(tx.Now())
	}
	token := f.token
	if state == Prepared {
		token = ""
	}
	n, err := tx.Exec(ctx, `UPDATE bank_files SET state = $3, token = $4, sent_at = $5, version = version + 1
		WHERE company_id = $1 AND file_id = $2 AND version = $6`, f.CompanyID, f.ID, state, token, sent, f.Version)
	if err != nil {
		return err
	}
	if n != 1 {
		return db.ErrConflict
	}
	f.Version++
	if f.State != state {
		db.History(tx, f.CompanyID, f.ID, f.Version, f.State, state, reason)
	}
	f.State, f.token = state, token
	return nil
}

// claim changes a prepared file to in_doubt and stores the token of its valid staged copy. It reports whether the
// file was still prepared.
func claim(ctx context.Context, tx *db.Tx, f File, token string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE bank_files SET state = 'in_doubt', token = $3, version = version + 1
		WHERE company_id = $1 AND file_id = $2 AND state = 'prepared' AND version = $4`, f.CompanyID, f.ID, token, f.Version)
	if err == nil && n == 1 {
		db.History(tx, f.CompanyID, f.ID, f.Version+1, Prepared, UnknownOutcome, "")
	}
	return n == 1, err
}

// countAttempt counts a failed attempt to submit a file.
func countAttempt(ctx context.Context, tx *db.Tx, f File) error {
	_, err := tx.Exec(ctx, "UPDATE bank_files SET attempts = attempts + 1 WHERE company_id = $1 AND file_id = $2",
		f.CompanyID, f.ID)
	return err
}

// payment is one payment of a file.
type payment struct {
	position int
	part     int
	output   string
	amount   money.Amount
	state    string
	reason   string
	fee      int64
	cost     int64 // units of the account's currency debited; 0 unless the bank charged a price or exchanged
	price    int64 // the bank's price, a part of cost
}

func payments(ctx context.Context, tx *db.Tx, f File) ([]*payment, error) {
	rows, err := tx.Query(ctx, `SELECT position, part, output_id, amount, state, reason, fee, cost, price
		FROM bank_payments
		WHERE company_id = $1 AND file_id = $2 ORDER BY position`, f.CompanyID, f.ID)
	return db.Collect(rows, err, func(r *db.Rows) (*payment, error) {
		var (
			p                      payment
			position, part, amount int64
		)
		err := r.Scan(&position, &part, &p.output, &amount, &p.state, &p.reason, &p.fee, &p.cost, &p.price)
		p.position, p.part, p.amount = int(position), int(part), money.New(f.Total.Asset(), amount)
		return &p, err
	})
}

// refusedInstantly returns, by output ID, whether a bank has refused to pay an output as an instant payment. An
// output whose file was not sent in time does not count.
func refusedInstantly(ctx context.Context, tx *db.Tx, companyID string, outs []payout.Output) (map[string]bool, error) {
	ids, refused := make([]string, len(outs)), map[string]bool{}
	for i, o := range outs {
		ids[i] = o.ID
	}
	return refused, db.EachIn(ctx, tx, ids, `SELECT p.output_id FROM bank_payments p
		JOIN bank_files f ON f.company_id = p.company_id AND f.file_id = p.file_id
		WHERE p.company_id = $1 AND p.state = 'rejected' AND f.instant AND p.reason <> $2 AND p.output_id IN %s`,
		[]any{companyID, reasonLate},
		func(r *db.Rows) error {
			var id string
			err := r.Scan(&id)
			refused[id] = true
			return err
		})
}

// Attempt is a payment of an output in a file.
type Attempt struct {
	Number   int64
	File     string
	Position int
	Amount   money.Amount
	State    string
}

// Latest returns the last attempt to pay an output, or db.ErrNoRows.
func Latest(ctx context.Context, tx *db.Tx, companyID, outputID string) (Attempt, error) {
	var (
		a                Attempt
		position, amount int64
		asset            string
	)
	err := tx.QueryRow(ctx, `SELECT f.number, f.name, p.position, p.amount, f.asset, p.state FROM bank_payments p
		JOIN bank_files f ON f.company_id = p.company_id AND f.file_id = p.file_id
		WHERE p.company_id = $1 AND p.output_id = $2 ORDER BY f.number DESC LIMIT 1`, companyID, outputID).
		Scan(&a.Number, &a.File, &position, &amount, &asset, &a.State)
	a.Position, a.Amount = int(position), money.New(money.Asset(asset), amount)
	return a, err
}

// storePayments updates payments of a locked file.
func storePayments(ctx context.Context, tx *db.Tx, f File, changed []*payment) error {
	rows := make([][]any, len(changed))
	for i, p := range changed {
		rows[i] = []any{int64(p.position), p.state, p.reason, p.fee, p.cost, p.price}
	}
	for values, args := range db.BindRows(tx, rows, 4) {
		if _, err := tx.Exec(ctx, `WITH v (position, state, reason, fee, cost, price) AS (`+values+`)
			UPDATE bank_payments SET state = v.state, reason = v.reason, fee = v.fee, cost = v.cost, price = v.price,
				updated_at = $3
			FROM v WHERE company_id = $1 AND file_id = $2 AND bank_payments.position = v.position`,
			append([]any{f.CompanyID, f.ID, db.Micros(tx.Now())}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// Response is a file that a bank sent.
type Response struct {
	Checksum string
	Name     string
	Kind     string
	Facts    int64 // number of facts about our payments
	Problems []string
	Settled  bool // false if the response is read again, because it depends on another response or is incomplete
	At       time.Time
}

// findResponse reports whether a response was processed completely. If it was not, since is the time at which its
// content was first seen, or zero if it was never seen.
func findResponse(ctx context.Context, tx *db.Tx, checksum string) (settled bool, since time.Time, err error) {
	var at int64
	err = tx.QueryRow(ctx, "SELECT settled, read_at FROM bank_responses WHERE checksum = $1", checksum).Scan(&settled, &at)
	if errors.Is(err, db.ErrNoRows) {
		return false, time.Time{}, nil
	}
	return settled, db.Time(at), err
}

// storeResponse records a response and the time when its content was first seen. It deletes earlier, incomplete
// contents of the same file name.
func storeResponse(ctx context.Context, tx *db.Tx, a Response) error {
	problems, err := json.Marshal(a.Problems)
	if err != nil {
		return err
	}
	if _,
		err := tx.Exec(ctx, "DELETE FROM bank_responses WHERE name = $1 AND checksum <> $2 AND facts = 0 AND NOT settled",
		a.Name, a.Checksum); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO bank_responses (checksum, name, kind, facts, problems, settled, read_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (checksum) DO UPDATE SET problems = excluded.problems, settled = excluded.settled,
			read_at = CASE WHEN bank_responses.settled THEN excluded.read_at ELSE bank_responses.read_at END
		WHERE NOT bank_responses.settled OR NOT excluded.settled`,
		a.Checksum, a.Name, a.Kind, a.Facts, string(problems), a.Settled, db.Micros(tx.Now()))
	return err
}

// Responses returns responses, newest first: all responses, or only those with problems.
func Responses(ctx context.Context, tx *db.Tx, problems bool, limit int) ([]Response, error) {
	where := "read_at > 0"
	if problems {
		where = "problems <> 'null'"
	}
	rows, err := tx.Query(ctx, `SELECT checksum, name, kind, facts, problems, settled, read_at FROM bank_responses
		WHERE `+where+` ORDER BY read_at DESC, name LIMIT $1`, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (Response, error) {
		var (
			a    Response
			text string
			at   int64
		)
		if err := r.Scan(&a.Checksum, &a.Name, &a.Kind, &a.Facts, &text, &a.Settled, &at); err != nil {
			return a, err
		}
		a.At = db.Time(at)
		return a, json.Unmarshal([]byte(text), &a.Problems)
	})
}

// Change is a bank's request to correct a destination before the next payment.
type Change struct {
	Number   int64
	Position int64
	OutputID string
	Code     string
	At       time.Time
	file     File
	sealed   string
}

// insertChange stores a change and reports whether it is new.
func insertChange(ctx context.Context, tx *db.Tx, f File, position int, code, sealed string) (bool, error) {
	n, err := tx.Exec(ctx, `INSERT INTO bank_changes (company_id, file_id, position, code, sealed, noted_at)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (company_id, file_id, position, code) DO NOTHING`,
		f.CompanyID, f.ID, int64(position), code, sealed, db.Micros(tx.Now()))
	return n == 1, err
}

// Changes returns the newest notifications of change, newest first.
func Changes(ctx context.Context, tx *db.Tx, limit int) ([]Change, error) {
	return selectChanges(ctx, tx, "c.noted_at > 0 ORDER BY c.noted_at DESC LIMIT $1", int64(limit))
}

func selectChanges(ctx context.Context, tx *db.Tx, where string, args ...any) ([]Change, error) {
	rows, err := tx.Query(ctx, `
		SELECT c.company_id, c.file_id, f.number, c.position, p.output_id, c.code, c.sealed, c.noted_at
		FROM bank_changes c
		JOIN bank_files f ON f.company_id = c.company_id AND f.file_id = c.file_id
		JOIN bank_payments p ON p.company_id = c.company_id AND p.file_id = c.file_id AND p.position = c.position
		WHERE `+where, args...)
	return db.Collect(rows, err, func(r *db.Rows) (Change, error) {
		var (
			c  Change
			at int64
		)
		err := r.Scan(&c.file.CompanyID, &c.file.ID, &c.Number, &c.Position, &c.OutputID, &c.Code, &c.sealed, &at)
		c.At = db.Time(at)
		return c, err
	})
}

// FileNumbers returns the numbers of all files by file ID.
func FileNumbers(ctx context.Context, tx *db.Tx) (map[string]int64, error) {
	rows, err := tx.Query(ctx, "SELECT file_id, number FROM bank_files")
	of := map[string]int64{}
	_, err = db.Collect(rows, err, func(r *db.Rows) (struct{}, error) {
		var id string
		var number int64
		err := r.Scan(&id, &number)
		of[id] = number
		return struct{}{}, err
	})
	return of, err
}
