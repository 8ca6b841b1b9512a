package directdebit

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank"
)

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return db.Micros(t)
}

func timeOf(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return db.Time(at)
}

const mandateColumns = `mandate_id, scheme, reference, creditor, creditor_id, account, text, language, status, reason,
	accepted_by, accepted_at, accepted_from, last_used_at, version`

func insertMandate(ctx context.Context, tx *db.Tx, m Mandate) error {
	account, err := json.Marshal(m.Account)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO direct_debit_mandates (company_id, "+mandateColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
		m.CompanyID, m.ID, string(m.Scheme), m.Reference, m.Creditor, m.CreditorID, string(account), m.text, m.language,
		string(m.State), m.Reason, m.AcceptedBy, db.Micros(m.AcceptedAt), m.sealedFrom, micros(m.LastUsedAt), m.Version)
	return err
}

func scanMandate(companyID string, scan func(...any) error) (Mandate, error) {
	m := Mandate{CompanyID: companyID}
	var scheme, account, state string
	var accepted, used int64
	err := scan(&m.ID, &scheme, &m.Reference, &m.Creditor, &m.CreditorID, &account, &m.text, &m.language, &state,
		&m.Reason, &m.AcceptedBy, &accepted, &m.sealedFrom, &used, &m.Version)
	if errors.Is(err, db.ErrNoRows) {
		return Mandate{}, ErrNotFound
	}
	if err != nil {
		return Mandate{}, err
	}
	m.Scheme, m.State = bank.DebitScheme(scheme), MandateState(state)
	m.AcceptedAt, m.LastUsedAt = db.Time(accepted), timeOf(used)
	return m, json.Unmarshal([]byte(account), &m.Account)
}

func findMandate(ctx context.Context, tx *db.Tx, companyID, id string) (Mandate, error) {
	return scanMandate(companyID, tx.QueryRow(ctx, "SELECT "+mandateColumns+
		" FROM direct_debit_mandates WHERE company_id = $1 AND mandate_id = $2", companyID, id).Scan)
}

// lockMandate reads a mandate and locks its row until the transaction ends.
func lockMandate(ctx context.Context, tx *db.Tx, companyID, id string) (Mandate, error) {
	return scanMandate(companyID, tx.QueryRow(ctx, `UPDATE direct_debit_mandates SET version = version
		WHERE company_id = $1 AND mandate_id = $2 RETURNING `+mandateColumns, companyID, id).Scan)
}

func mandates(ctx context.Context, tx *db.Tx, companyID string) ([]Mandate, error) {
	rows, err := tx.Query(ctx, "SELECT "+mandateColumns+` FROM direct_debit_mandates
		WHERE company_id = $1 ORDER BY accepted_at DESC, mandate_id DESC`, companyID)
	return db.Collect(rows, err, func(r *db.Rows) (Mandate, error) { return scanMandate(companyID, r.Scan) })
}

// updateMandate stores the state of a mandate. It fails if the mandate's state or version has changed since it was
// read.
func updateMandate(ctx context.Context, tx *db.Tx, m *Mandate, from MandateState) error {
	n, err := tx.Exec(ctx, `UPDATE direct_debit_mandates SET status = $4, reason = $5, version = version + 1
		WHERE company_id = $1 AND mandate_id = $2 AND version = $3 AND status = $6`,
		m.CompanyID, m.ID, m.Version, string(m.State), m.Reason, string(from))
	if err == nil && n != 1 {
		return db.ErrConflict
	}
	m.Version++
	return err
}

// setUsed stores the time of the last use of a mandate. It fails if the mandate is no longer active.
func setUsed(ctx context.Context, tx *db.Tx, m *Mandate, at time.Time) error {
	n, err := tx.Exec(ctx, `UPDATE direct_debit_mandates SET last_used_at = $3
		WHERE company_id = $1 AND mandate_id = $2 AND status = 'active'`, m.CompanyID, m.ID, db.Micros(at))
	if err == nil && n != 1 {
		return db.ErrConflict
	}
	return err
}

type mandateKey struct{ CompanyID, ID string }

// unusedMandates returns the open SEPA mandates of all companies that were neither accepted nor used since a time.
func unusedMandates(ctx context.Context, tx *db.Tx, since time.Time) ([]mandateKey, error) {
	rows, err := tx.Query(ctx, `SELECT company_id, mandate_id FROM direct_debit_mandates
		WHERE status IN ('pending', 'active', 'suspended') AND scheme IN ('sepa_core', 'sepa_b2b')
			AND accepted_at < $1 AND last_used_at < $1 ORDER BY company_id, mandate_id LIMIT 200`, db.Micros(since))
	return db.Collect(rows, err, func(r *db.Rows) (k mandateKey, err error) { return k, r.Scan(&k.CompanyID, &k.ID) })
}

const columns = `debit_id, mandate_id, account, number, asset, amount, released, due_on, status, reason, description,
	external_id, request_key, retry_of, retries, is_final, name, checksum, sealed, token, transfer_id, attempts, check_at,
	checked_at, held_until, created_by, payroll_id, version, created_at, updated_at`

func (d *Debit) values() []any {
	return []any{d.CompanyID, d.ID, d.Mandate.ID, d.account, d.number, string(d.Amount.Asset()), d.Amount.Units(),
		d.Released.Units(), d.DueOn, string(d.State), d.Reason, d.Description, d.ExternalID, d.key, d.RetryOf, d.retries,
		d.Final, d.name, d.checksum, d.sealed, d.token, d.transferID, d.attempts, micros(d.checkAt), micros(d.checkedAt),
		micros(d.HeldUntil), d.CreatedBy, d.PayrollID, d.Version, db.Micros(d.CreatedAt), db.Micros(d.UpdatedAt)}
}

func insert(ctx context.Context, tx *db.Tx, d Debit) error {
	n, err := tx.Exec(ctx, "INSERT INTO direct_debits (company_id, "+columns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
			$25, $26, $27, $28, $29, $30, $31) ON CONFLICT DO NOTHING`, d.values()...)
	if err == nil && n != 1 {
		return db.ErrConflict // a concurrent request used the same key, external ID or retried debit
	}
	return err
}

func scan(companyID string, scan func(...any) error) (Debit, error) {
	d := Debit{CompanyID: companyID}
	var asset, state string
	var amount, released, check, checked, held, created, updated int64
	err := scan(&d.ID, &d.Mandate.ID, &d.account, &d.number, &asset, &amount, &released, &d.DueOn, &state, &d.Reason,
		&d.Description, &d.ExternalID, &d.key, &d.RetryOf, &d.retries, &d.Final, &d.name, &d.checksum, &d.sealed, &d.token,
		&d.transferID, &d.attempts, &check, &checked, &held, &d.CreatedBy, &d.PayrollID,
		&d.Version, &created, &updated)
	d.Amount, d.Released = money.New(money.Asset(asset), amount), money.New(money.Asset(asset), released)
	d.State, d.checkAt, d.checkedAt, d.HeldUntil = State(state), timeOf(check), timeOf(checked), timeOf(held)
	d.CreatedAt, d.UpdatedAt = db.Time(created), db.Time(updated)
	return d, err
}

// one scans a debit and reads its mandate. It returns ErrNotFound if there is no row.
func one(ctx context.Context, tx *db.Tx, companyID string, row db.Row) (d Debit, err error) {
	if companyID == "" {
		d, err = scan("", func(dest ...any) error { return row.Scan(append([]any{&companyID}, dest...)...) })
		d.CompanyID = companyID
	} else {
		d, err = scan(companyID, row.Scan)
	}
	if err != nil {
		if errors.Is(err, db.ErrNoRows) {
			err = ErrNotFound
		}
		return Debit{}, err
	}
	d.Mandate, err = findMandate(ctx, tx, companyID, d.Mandate.ID)
	return d, err
}

func find(ctx context.Context, tx *db.Tx, companyID, id string) (Debit, error) {
	return one(ctx, tx, companyID, tx.QueryRow(ctx, "SELECT "+columns+
		" FROM direct_debits WHERE company_id = $1 AND debit_id = $2", companyID, id))
}

// lock reads a debit and locks its row until the transaction ends.
func lock(ctx context.Context, tx *db.Tx, companyID, id string) (Debit, error) {
	return one(ctx, tx, companyID, tx.QueryRow(ctx, `UPDATE direct_debits SET version = version
		WHERE company_id = $1 AND debit_id = $2 RETURNING `+columns, companyID, id))
}

// lockNumber is like [lock], for the number by which the bank knows the debit.
func lockNumber(ctx context.Context, tx *db.Tx, number int64) (Debit, error) {
	return one(ctx, tx, "", tx.QueryRow(ctx, `UPDATE direct_debits SET version = version
		WHERE number = $1 AND number > 0 RETURNING company_id, `+columns, number))
}

// missing turns ErrNotFound into a Debit without an ID.
func missing(d Debit, err error) (Debit, error) {
	if errors.Is(err, ErrNotFound) {
		return Debit{}, nil
	}
	return d, err
}

func byKey(ctx context.Context, tx *db.Tx, companyID, key string) (Debit, error) {
	return missing(one(ctx, tx, companyID, tx.QueryRow(ctx, "SELECT "+columns+
		" FROM direct_debits WHERE company_id = $1 AND request_key = $2 AND request_key <> ''", companyID, key)))
}

func byExternalID(ctx context.Context, tx *db.Tx, companyID, externalID string) (Debit, error) {
	return missing(one(ctx, tx, companyID, tx.QueryRow(ctx, "SELECT "+columns+
		" FROM direct_debits WHERE company_id = $1 AND external_id = $2 AND external_id <> ''", companyID, externalID)))
}

func retryOf(ctx context.Context, tx *db.Tx, companyID, id string) (Debit, error) {
	return missing(one(ctx, tx, companyID, tx.QueryRow(ctx, "SELECT "+columns+
		" FROM direct_debits WHERE company_id = $1 AND retry_of = $2 AND retry_of <> ''", companyID, id)))
}

// OfPayroll returns the newest debit that was created to fund a payroll, or a Debit without an ID if there is none.
func OfPayroll(ctx context.Context, tx *db.Tx, companyID, payrollID string) (Debit, error) {
	return missing(one(ctx, tx, companyID, tx.QueryRow(ctx, "SELECT "+columns+` FROM direct_debits
		WHERE company_id = $1 AND payroll_id = $2 AND payroll_id <> '' ORDER BY created_at DESC, debit_id DESC LIMIT 1`,
		companyID, payrollID)))
}

// debitsWhere returns the debits of a company that meet a condition. Only the IDs of their mandates are loaded.
func debitsWhere(ctx context.Context, tx *db.Tx, companyID, where string, args ...any) ([]Debit, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+" FROM direct_debits WHERE company_id = $1 AND "+where,
		append([]any{companyID}, args...)...)
	return db.Collect(rows, err, func(r *db.Rows) (Debit, error) { return scan(companyID, r.Scan) })
}

func list(ctx context.Context, tx *db.Tx, companyID string, page db.Page) (some []Debit, total int64, err error) {
	l := &db.List{Columns: columns, Table: "direct_debits", ID: "debit_id", Time: "created_at", Page: page}
	l.Where("company_id = ?", companyID)
	some, total, err = db.ReadPage(ctx, tx, l, func(r *db.Rows) (Debit, error) { return scan(companyID, r.Scan) })
	if err != nil {
		return nil, 0, err
	}
	all, err := mandates(ctx, tx, companyID)
	for i := range some {
		for _, m := range all {
			if m.ID == some[i].Mandate.ID {
				some[i].Mandate = m
			}
		}
	}
	return some, total, err
}

// update stores all fields of a debit that can change. It fails if the debit's state or version has changed since it
// was read.
func update(ctx context.Context, tx *db.Tx, d *Debit, from State) error {
	n, err := tx.Exec(ctx, `UPDATE direct_debits
		SET account = $4, number = $5, released = $6, due_on = $7, status = $8, reason = $9, name = $10, checksum = $11,
			sealed = $12, transfer_id = $13, check_at = $14, held_until = $15, checked_at = $16, version = version + 1,
			updated_at = $17
		WHERE company_id = $1 AND debit_id = $2 AND version = $3 AND status = $18`,
		d.CompanyID, d.ID, d.Version, d.account, d.number, d.Released.Units(), d.DueOn, string(d.State), d.Reason, d.name,
		d.checksum, d.sealed, d.transferID, micros(d.checkAt), micros(d.HeldUntil), micros(d.checkedAt),
		db.Micros(tx.Now()), string(from))
	if err == nil && n != 1 {
		return db.ErrConflict
	}
	d.Version++
	d.UpdatedAt = tx.Now()
	return err
}

// claim stores the token of the first attempt to send a debit. It returns false if another process has stored a
// token.
func claim(ctx context.Context, tx *db.Tx, d Debit, token string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE direct_debits SET token = $3
		WHERE company_id = $1 AND debit_id = $2 AND status = 'submitting' AND token = ''`, d.CompanyID, d.ID, token)
	return n == 1, err
}

// unclaim removes the token of a debit that the bank does not have.
func unclaim(ctx context.Context, tx *db.Tx, d Debit) error {
	return tx.ExecOne(ctx, `UPDATE direct_debits SET token = '' WHERE company_id = $1 AND debit_id = $2`, d.CompanyID,
		d.ID)
}

func countAttempt(ctx context.Context, tx *db.Tx, d Debit) error {
	return tx.ExecOne(ctx, `UPDATE direct_debits SET attempts = attempts + 1 WHERE company_id = $1 AND debit_id = $2`,
		d.CompanyID, d.ID)
}

// setCheck stores the bank's ID of a debit, the time of its next check and the time of the last answer.
func setCheck(ctx context.Context, tx *db.Tx, d Debit) error {
	return tx.ExecOne(ctx, `UPDATE direct_debits SET transfer_id = $3, check_at = $4, checked_at = $5
		WHERE company_id = $1 AND debit_id = $2`, d.CompanyID, d.ID, d.transferID, micros(d.checkAt), micros(d.checkedAt))
}

// dueForCheck returns the debits of all companies whose next check is due and whose state can still change.
func dueForCheck(ctx context.Context, tx *db.Tx, limit int) ([]Debit, error) {
	rows, err := tx.Query(ctx, "SELECT company_id, "+columns+` FROM direct_debits
		WHERE check_at > 0 AND check_at <= $1 AND status IN ('submitted', 'collected', 'available')
		ORDER BY check_at LIMIT $2`, db.Micros(tx.Now()), int64(limit))
	return collectAll(ctx, tx, rows, err)
}

// Unconfirmed returns the debits of all companies that the bank has or may have and has not reported as collected,
// ordered by due date.
func Unconfirmed(ctx context.Context, tx *db.Tx) ([]Debit, error) {
	rows, err := tx.Query(ctx, "SELECT company_id, "+columns+` FROM direct_debits
		WHERE status = 'submitted' OR status = 'submitting' AND token <> '' ORDER BY due_on, debit_id`)
	return collectAll(ctx, tx, rows, err)
}

// collectAll scans debits from rows whose first column is the company ID, and reads their mandates.
func collectAll(ctx context.Context, tx *db.Tx, rows *db.Rows, err error) ([]Debit, error) {
	all, err := db.Collect(rows, err, func(r *db.Rows) (d Debit, err error) {
		var company string
		d, err = scan("", func(dest ...any) error { return r.Scan(append([]any{&company}, dest...)...) })
		d.CompanyID = company
		return d, err
	})
	for i := range all {
		if err == nil {
			all[i].Mandate, err = findMandate(ctx, tx, all[i].CompanyID, all[i].Mandate.ID)
		}
	}
	return all, err
}

// countSent returns the number of other debits under the same mandate that were sent and not refused. A scheduled
// debit with a number does not count, because it will be written to another file.
func countSent(ctx context.Context, tx *db.Tx, d Debit) (n int64, err error) {
	return n, tx.QueryRow(ctx, `SELECT COUNT(*) FROM direct_debits WHERE company_id = $1 AND mandate_id = $2
		AND debit_id <> $3 AND number > 0 AND status NOT IN ('failed', 'cancelled', 'scheduled')`,
		d.CompanyID, d.Mandate.ID, d.ID).Scan(&n)
}

func numbers(ctx context.Context, tx *db.Tx) (map[string]int64, error) {
	rows, err := tx.Query(ctx, "SELECT debit_id, number FROM direct_debits WHERE number > 0")
	all := map[string]int64{}
	_, err = db.Collect(rows, err, func(r *db.Rows) (struct{}, error) {
		var id string
		var number int64
		err := r.Scan(&id, &number)
		all[id] = number
		return struct{}{}, err
	})
	return all, err
}

// References returns the references of debits by the bank's IDs of their transfers, for an account of the operator.
func References(ctx context.Context, tx *db.Tx, account string, transfers []string) (map[string]string, error) {
	of := map[string]string{}
	return of, db.EachIn(ctx, tx, transfers, `SELECT transfer_id, number FROM direct_debits
		WHERE account = $1 AND transfer_id IN %s`, []any{account}, func(r *db.Rows) error {
		var id string
		var number int64
		err := r.Scan(&id, &number)
		of[id] = bank.DebitReference(number)
		return err
	})
}

// heldBy returns the amounts that a company has on hold, by currency.
func heldBy(ctx context.Context, tx *db.Tx, companyID string) (map[money.Asset]money.Amount, error) {
	rows, err := tx.Query(ctx, `SELECT asset, CAST(SUM(amount - released) AS BIGINT) FROM direct_debits
		WHERE company_id = $1 AND status = 'collected' GROUP BY asset`, companyID)
	held := map[money.Asset]money.Amount{}
	_, err = db.Collect(rows, err, func(r *db.Rows) (struct{}, error) {
		var asset string
		var units int64
		err := r.Scan(&asset, &units)
		held[money.Asset(asset)] = money.New(money.Asset(asset), units)
		return struct{}{}, err
	})
	return held, err
}

// releasedEarly returns the total amount already released from a company's debits whose holds have not ended.
func releasedEarly(ctx context.Context, tx *db.Tx, companyID string, asset money.Asset) (money.Amount, error) {
	var units int64
	err := tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(released), 0) AS BIGINT) FROM direct_debits
		WHERE company_id = $1 AND asset = $2 AND status = 'collected'`, companyID, string(asset)).Scan(&units)
	return money.New(asset, units), err
}

func findLimit(ctx context.Context, tx *db.Tx, companyID string, asset money.Asset) (money.Amount, error) {
	return scanLimit(asset, tx.QueryRow(ctx, `SELECT amount FROM direct_debit_limits
		WHERE company_id = $1 AND asset = $2`, companyID, string(asset)))
}

// lockLimit reads a risk limit and locks its row, so that concurrent releases for the company wait for each other.
func lockLimit(ctx context.Context, tx *db.Tx, companyID string, asset money.Asset) (money.Amount, error) {
	return scanLimit(asset, tx.QueryRow(ctx, `UPDATE direct_debit_limits SET amount = amount
		WHERE company_id = $1 AND asset = $2 RETURNING amount`, companyID, string(asset)))
}

func scanLimit(asset money.Asset, row db.Row) (money.Amount, error) {
	var units int64
	err := row.Scan(&units)
	if errors.Is(err, db.ErrNoRows) {
		return money.Zero(asset), nil
	}
	return money.New(asset, units), err
}

func saveLimit(ctx context.Context, tx *db.Tx, companyID string, limit money.Amount) error {
	_, err := tx.Exec(ctx, `INSERT INTO direct_debit_limits (company_id, asset, amount, updated_at)
		VALUES ($1, $2, $3, $4) ON CONFLICT (company_id, asset) DO UPDATE
		SET amount = excluded.amount, updated_at = excluded.updated_at`,
		companyID, string(limit.Asset()), limit.Units(), db.Micros(tx.Now()))
	return err
}

// Recent returns the newest debits of all companies, for staff.
func Recent(ctx context.Context, tx *db.Tx, limit int) ([]Debit, error) {
	rows, err := tx.Query(ctx, "SELECT company_id, "+columns+` FROM direct_debits
		ORDER BY updated_at DESC, debit_id LIMIT $1`, int64(limit))
	return collectAll(ctx, tx, rows, err)
}

// Undecided returns the mandates of all companies that are pending or suspended, oldest first, for staff.
func Undecided(ctx context.Context, tx *db.Tx, limit int) ([]Mandate, error) {
	rows, err := tx.Query(ctx, `SELECT company_id, mandate_id FROM direct_debit_mandates
		WHERE status IN ('pending', 'suspended') ORDER BY accepted_at, mandate_id LIMIT $1`, int64(limit))
	keys, err := db.Collect(rows, err, func(r *db.Rows) (k mandateKey, err error) {
		return k, r.Scan(&k.CompanyID, &k.ID)
	})
	all := make([]Mandate, len(keys))
	for i, k := range keys {
		if err == nil {
			all[i], err = findMandate(ctx, tx, k.CompanyID, k.ID)
		}
	}
	return all, err
}

// CompanyLimit is the risk limit of a company, with the used part.
type CompanyLimit struct {
	CompanyID   string
	Limit, Used money.Amount
}

// Limits returns the risk limits of all companies that have one, for staff.
func Limits(ctx context.Context, tx *db.Tx, limit int) ([]CompanyLimit, error) {
	return companyLimits(ctx, tx, "amount > 0 ORDER BY company_id, asset LIMIT $1", int64(limit))
}

// LimitsOf returns the risk limits of a company, for staff.
func LimitsOf(ctx context.Context, tx *db.Tx, companyID string) ([]CompanyLimit, error) {
	return companyLimits(ctx, tx, "amount > 0 AND company_id = $1 ORDER BY asset", companyID)
}

func companyLimits(ctx context.Context, tx *db.Tx, where string, args ...any) ([]CompanyLimit, error) {
	rows, err := tx.Query(ctx, "SELECT company_id, asset, amount FROM direct_debit_limits WHERE "+where, args...)
	all, err := db.Collect(rows, err, func(r *db.Rows) (l CompanyLimit, err error) {
		var asset string
		var units int64
		err = r.Scan(&l.CompanyID, &asset, &units)
		l.Limit = money.New(money.Asset(asset), units)
		return l, err
	})
	for i := range all {
		if err == nil {
			all[i].Used, err = releasedEarly(ctx, tx, all[i].CompanyID, all[i].Limit.Asset())
		}
	}
	return all, err
}
