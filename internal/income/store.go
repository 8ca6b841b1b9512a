package income

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payroll"
)

const columns = `user_id, income_id, company_id, transfer_id, invoice_id, payer_id, currency, amount, withheld, fee,
	released_at, state, reason, version, created_at, updated_at`

// insert stores an income. It returns false if the transfer already has an income.
func insert(ctx context.Context, tx *db.Tx, i Income) (bool, error) {
	n, err := tx.Exec(ctx, "INSERT INTO incomes ("+columns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, $11, $12, $13, $14, $14) ON CONFLICT DO NOTHING`,
		i.UserID, i.ID, i.CompanyID, i.TransferID, i.InvoiceID, i.PayerID, string(i.Amount.Asset()), i.Amount.Units(),
		i.Withheld.Units(), i.Fee.Units(), string(i.State), i.Reason, i.Version, db.Micros(i.CreatedAt))
	return n == 1, err
}

func scan(scan func(...any) error) (i Income, err error) {
	var currency, state string
	var amount, withheld, fee, released, created, updated int64
	err = scan(&i.UserID, &i.ID, &i.CompanyID, &i.TransferID, &i.InvoiceID, &i.PayerID, &currency, &amount, &withheld,
		&fee, &released, &state, &i.Reason, &i.Version, &created, &updated)
	asset := money.Asset(currency)
	i.Amount, i.Withheld, i.Fee = money.New(asset, amount), money.New(asset, withheld), money.New(asset, fee)
	i.State, i.CreatedAt, i.UpdatedAt = payroll.State(state), db.Time(created), db.Time(updated)
	if released > 0 {
		i.releasedAt = db.Time(released)
	}
	return i, err
}

func scanRow(r *db.Rows) (Income, error) { return scan(r.Scan) }

// one scans an income. It returns ErrNotFound if there is no row.
func one(row db.Row) (Income, error) {
	i, err := scan(row.Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Income{}, ErrNotFound
	}
	return i, err
}

func find(ctx context.Context, tx *db.Tx, userID, id string) (Income, error) {
	return one(tx.QueryRow(ctx, "SELECT "+columns+" FROM incomes WHERE user_id = $1 AND income_id = $2", userID, id))
}

func byTransfer(ctx context.Context, tx *db.Tx, userID, transferID string) (Income, error) {
	return one(tx.QueryRow(ctx, "SELECT "+columns+" FROM incomes WHERE user_id = $1 AND transfer_id = $2", userID,
		transferID))
}

// lock reads an income and locks its row until the transaction ends.
func lock(ctx context.Context, tx *db.Tx, userID, id string) (Income, error) {
	return one(tx.QueryRow(ctx, `UPDATE incomes SET version = version WHERE user_id = $1 AND income_id = $2
		RETURNING `+columns, userID, id))
}

// update stores the mutable fields of an income as its next version. It returns db.ErrConflict if the version or
// state has changed.
func update(ctx context.Context, tx *db.Tx, i *Income, from payroll.State) error {
	var released int64
	if !i.releasedAt.IsZero() {
		released = db.Micros(i.releasedAt)
	}
	n, err := tx.Exec(ctx, `UPDATE incomes SET state = $1, reason = $2, withheld = $3, fee = $4, released_at = $5,
			updated_at = $6, version = version + 1
		WHERE user_id = $7 AND income_id = $8 AND version = $9 AND state = $10`,
		string(i.State), i.Reason, i.Withheld.Units(), i.Fee.Units(), released, db.Micros(tx.Now()), i.UserID, i.ID,
		i.Version, string(from))
	if err != nil {
		return err
	}
	if n != 1 {
		return db.ErrConflict
	}
	i.Version++
	i.UpdatedAt = tx.Now()
	return nil
}

// stopped returns the waiting incomes of a user, oldest first.
func stopped(ctx context.Context, tx *db.Tx, userID string) ([]Income, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+` FROM incomes
		WHERE user_id = $1 AND state IN ('received', 'on_hold', 'action_required', 'returned')
		ORDER BY created_at, income_id`, userID)
	return db.Collect(rows, err, scanRow)
}

// Earned returns the incomes of a user that were fulfilled in [from, to), and the cancelled incomes that were
// received in that time. If open is set, it also returns incomes that have not ended.
func Earned(ctx context.Context, tx *db.Tx, userID string, from, to time.Time, open bool) ([]Income, error) {
	ctx = db.AcrossCompanies(ctx, "the income of a person belongs to no company; the statement names the person")
	const arrived = `COALESCE((SELECT MAX(h.at) FROM history h WHERE h.company_id = incomes.user_id
		AND h.object_id = incomes.income_id AND h.to_state = 'fulfilled'), 0)`
	rows, err := tx.Query(ctx, "SELECT CASE WHEN state = 'fulfilled' THEN "+arrived+" ELSE 0 END, "+columns+` FROM incomes
		WHERE user_id = $1 AND (state NOT IN ('fulfilled', 'cancelled') AND $4
			OR state = 'cancelled' AND created_at >= $2 AND created_at < $3
			OR state = 'fulfilled' AND `+arrived+` >= $2 AND `+arrived+` < $3)
		ORDER BY created_at, income_id`, userID, db.Micros(from), db.Micros(to), open)
	return db.Collect(rows, err, func(r *db.Rows) (Income, error) {
		var at int64
		i, err := scan(func(to ...any) error { return r.Scan(append([]any{&at}, to...)...) })
		if at > 0 {
			i.ArrivedAt = db.Time(at)
		}
		return i, err
	})
}

// releasedBefore reports whether an income of the user was released before a time.
func releasedBefore(ctx context.Context, tx *db.Tx, userID string, at time.Time) (released bool, err error) {
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM incomes
		WHERE user_id = $1 AND released_at > 0 AND released_at < $2)`, userID, db.Micros(at)).Scan(&released)
	return released, err
}

// CountOpen returns the number of a user's incomes that have not ended, and the time of the newest income, or zero if
// there is none.
func CountOpen(ctx context.Context, tx *db.Tx, userID string) (open int64, last time.Time, err error) {
	var received int64
	err = tx.QueryRow(ctx, `SELECT COALESCE(SUM(CASE WHEN state IN ('fulfilled', 'cancelled') THEN 0 ELSE 1 END), 0),
			COALESCE(MAX(created_at), 0)
		FROM incomes WHERE user_id = $1`, userID).Scan(&open, &received)
	if received > 0 {
		last = db.Time(received)
	}
	return open, last, err
}

// heldPage is the largest number of incomes that held returns.
const heldPage = 1000

// held returns incomes of all users whose ID follows after, up to heldPage: incomes that wait for an asset or for the
// settlement of a debt and, if settings is set, incomes that wait for something on which the operator's settings
// decide.
func held(ctx context.Context, tx *db.Tx, settings bool, after string) ([]Income, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+` FROM incomes WHERE (state = 'on_hold' AND reason IN ($1, $2)
			OR state = 'on_hold' AND reason = $3 AND $5 OR state = 'action_required' AND reason = $4 AND $5)
		AND income_id > $6 ORDER BY income_id LIMIT $7`, payroll.ReasonConversion, ReasonOwes, payroll.ReasonCheck,
		payroll.ReasonNoRail, settings, after, int64(heldPage))
	return db.Collect(rows, err, scanRow)
}

// ListHeld returns the incomes of all users that are on hold, the longest hold first. It is for staff.
func ListHeld(ctx context.Context, tx *db.Tx, limit int) ([]Income, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+` FROM incomes WHERE state = 'on_hold'
		ORDER BY updated_at, income_id LIMIT $1`, int64(limit))
	return db.Collect(rows, err, scanRow)
}

// AwaitsRelease reports whether an income is on hold until two staff members approve its release.
func AwaitsRelease(ctx context.Context, tx *db.Tx, userID, id string) (bool, error) {
	i, err := find(ctx, tx, userID, id)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return i.State == payroll.OnHold && i.Reason == payroll.ReasonRelease, err
}

func list(ctx context.Context, tx *db.Tx, userID string, f Filter) ([]Income, int64, error) {
	l := &db.List{Columns: columns, Table: "incomes", ID: "income_id", Time: "created_at", Page: f.Page}
	l.Where("user_id = ?", userID)
	if f.State != "" {
		l.Where("state = ?", string(f.State))
	}
	l.Created(f.From, f.To)
	return db.ReadPage(ctx, tx, l, scanRow)
}
