package notification

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

func (n *news) row(tx *db.Tx, companyID, userID, id string) []any {
	var units int64
	if n.Amount.Asset() != "" {
		units = n.Amount.Units()
	}
	return []any{companyID, userID, id, string(n.Kind), n.ObjectID, n.about, units, string(n.Amount.Asset()), n.Detail,
		db.Micros(tx.Now()), int64(0)}
}

func insertNotifications(ctx context.Context, tx *db.Tx, rows [][]any) error {
	return tx.Insert(ctx, "notifications", []string{"company_id", "user_id", "notification_id", "kind", "object_id",
		"about", "amount", "currency", "detail", "created_at", "read_at"}, rows)
}

// selectUnread returns the members who have not yet read a notification of a kind about an object.
func selectUnread(ctx context.Context, tx *db.Tx, companyID string, kind Kind, about string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT user_id FROM notifications
		WHERE company_id = $1 AND kind = $2 AND about = $3 AND read_at = 0`, companyID, string(kind), about)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

const columns = "notification_id, kind, object_id, amount, currency, detail, created_at, read_at"

func scan(r interface{ Scan(...any) error }) (n Notification, err error) {
	var units, created, read int64
	var currency string
	err = r.Scan(&n.ID, &n.Kind, &n.ObjectID, &units, &currency, &n.Detail, &created, &read)
	if currency != "" {
		n.Amount = money.New(money.Asset(currency), units)
	}
	n.Created, n.Read = db.Time(created), read != 0
	return n, err
}

func selectNotifications(ctx context.Context, tx *db.Tx, by auth.Actor, page, perPage int) (all []Notification,
	total int64, err error) {
	err = tx.QueryRow(ctx, "SELECT COUNT(*) FROM notifications WHERE company_id = $1 AND user_id = $2", by.CompanyID,
		by.UserID).Scan(&total)
	if err != nil {
		return nil, 0, err
	}
	rows, err := tx.Query(ctx, "SELECT "+columns+` FROM notifications WHERE company_id = $1 AND user_id = $2
		ORDER BY notification_id DESC LIMIT $3 OFFSET $4`, by.CompanyID, by.UserID, int64(perPage), int64((page-1)*perPage))
	all, err = db.Collect(rows, err, func(r *db.Rows) (Notification, error) { return scan(r) })
	return all, total, err
}

func selectNotification(ctx context.Context, tx *db.Tx, by auth.Actor, id string) (n Notification, err error) {
	n, err = scan(tx.QueryRow(ctx, "SELECT "+columns+
		" FROM notifications WHERE company_id = $1 AND user_id = $2 AND notification_id = $3", by.CompanyID, by.UserID, id))
	if errors.Is(err, db.ErrNoRows) {
		err = apierr.NotFoundErr
	}
	return n, err
}

func countUnread(ctx context.Context, tx *db.Tx, by auth.Actor) (n int64, err error) {
	err = tx.QueryRow(ctx, fmt.Sprintf(`SELECT COUNT(*) FROM (SELECT 1 FROM notifications
		WHERE company_id = $1 AND user_id = $2 AND read_at = 0 LIMIT %d) AS unread`, MostUnread), by.CompanyID, by.UserID).
		Scan(&n)
	return n, err
}

// markRead marks a notification as read, or all notifications of a member if id is "".
func markRead(ctx context.Context, tx *db.Tx, by auth.Actor, id string) error {
	_, err := tx.Exec(ctx, `UPDATE notifications SET read_at = $1 WHERE company_id = $2 AND user_id = $3
		AND read_at = 0 AND ($4 = '' OR notification_id = $4)`, db.Micros(tx.Now()), by.CompanyID, by.UserID, id)
	return err
}

func deleteOld(ctx context.Context, tx *db.Tx, before time.Time) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM notifications WHERE (company_id, user_id, notification_id) IN
		(SELECT company_id, user_id, notification_id FROM notifications WHERE created_at < $1
		ORDER BY created_at LIMIT $2)`, db.Micros(before), int64(pruneSize))
}

// CountExpired returns the number of notifications that [Prune] would delete.
func CountExpired(ctx context.Context, tx *db.Tx, kept time.Duration) (n int64, err error) {
	err = tx.QueryRow(ctx, "SELECT COUNT(*) FROM notifications WHERE created_at < $1", db.Micros(tx.Now().Add(-kept))).
		Scan(&n)
	return n, err
}

// selectCreator returns the member who created a payroll, withdrawal or refund, or "".
func selectCreator(ctx context.Context, tx *db.Tx, companyID, id string) (userID string, err error) {
	err = tx.QueryRow(ctx, `SELECT created_by FROM payrolls WHERE company_id = $1 AND payroll_id = $2
		UNION ALL SELECT created_by FROM withdrawals WHERE company_id = $1 AND withdrawal_id = $2
		UNION ALL SELECT created_by FROM claim_refunds WHERE company_id = $1 AND refund_id = $2`, companyID, id).
		Scan(&userID)
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return userID, err
}

// selectUnfunded returns the amount due of a payroll whose current quote ends at the given time, if the payroll still
// waits for its funding. Otherwise it returns an amount without an asset.
func selectUnfunded(ctx context.Context, tx *db.Tx, companyID, payrollID string, validTo int64) (due money.Amount,
	err error) {
	var units int64
	var asset string
	err = tx.QueryRow(ctx, `SELECT q.funding, q.funding_asset FROM quotes q
		JOIN payrolls p ON p.company_id = q.company_id AND p.payroll_id = q.object_id
		WHERE q.company_id = $1 AND q.object_id = $2 AND q.state = 'active'
			AND q.valid_to / 1000000 = CAST($3 AS BIGINT) / 1000000
			AND p.state = 'pending' AND p.funding_state IN ('none', 'partial')`, companyID, payrollID, validTo).
		Scan(&units, &asset)
	if errors.Is(err, db.ErrNoRows) {
		return due, nil
	}
	return money.New(money.Asset(asset), units), err
}

// selectUnwanted returns the people who have chosen not to receive a kind by mail.
func selectUnwanted(ctx context.Context, tx *db.Tx, companyID string, kind Kind) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT p.user_id FROM unmailed_notifications p JOIN members m ON m.user_id = p.user_id
		WHERE m.company_id = $1 AND p.kind = $2`, companyID, string(kind))
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

func selectPreferences(ctx context.Context, tx *db.Tx, userID string) ([]Kind, error) {
	rows, err := tx.Query(ctx, "SELECT kind FROM unmailed_notifications WHERE user_id = $1 ORDER BY kind", userID)
	return db.Collect(rows, err, func(r *db.Rows) (k Kind, err error) { return k, r.Scan(&k) })
}

func savePreferences(ctx context.Context, tx *db.Tx, userID string, unwanted []Kind) error {
	if _, err := tx.Exec(ctx, "DELETE FROM unmailed_notifications WHERE user_id = $1", userID); err != nil {
		return err
	}
	rows := make([][]any, len(unwanted))
	for i, k := range unwanted {
		rows[i] = []any{userID, string(k)}
	}
	return tx.Insert(ctx, "unmailed_notifications", []string{"user_id", "kind"}, rows)
}
