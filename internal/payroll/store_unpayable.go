package payroll

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee/destination"
)

// fromUnpayable returns a FROM clause, and its arguments, that selects as r the recipients of a company ($1) who
// cannot be paid yet.
func fromUnpayable(companyID string, r obstacleRules) (string, []any) {
	args := []any{companyID}
	bind := func(value any) string {
		args = append(args, value)
		return "$" + strconv.Itoa(len(args))
	}
	pairs := make([]string, len(r.payable))
	for i, p := range r.payable {
		pairs[i] = bind(p)
	}
	refused := ""
	if len(r.checked) > 0 {
		accounts := make([]string, len(r.checked))
		for i, a := range r.checked {
			accounts[i] = "(" + bind(a.symbol) + ", " + bind(a.country) + ", " + bind(a.scheme) + ")"
		}
		refused = ` OR d.kind = 'fiat' AND (d.symbol, d.country, d.scheme) IN (VALUES ` + strings.Join(accounts, ", ") + `)
				AND NOT (` + checkIs(destination.CheckMatch) + " OR " + checkIs(destination.CheckAccepted) + `)
				AND NOT (` + byPrenote + " AND " + checkIs(destination.CheckPending) + `)
				AND NOT ((d.account_check = '' OR NOT ` + byPrenote + " AND " + checkIs(destination.CheckPending) + `)
					AND d.updated_at > ` + bind(db.Micros(r.entered)) + ")"
	}
	if r.refusedACH {
		refused += " OR d.rail = 'bank' AND d.symbol = 'USD' AND d.country = 'US' AND d.scheme = 'ach'"
	}
	return ` FROM recipients r WHERE r.company_id = $1 AND r.status <> 'inactive' AND r.recipient_id IN (
			SELECT p.recipient_id FROM recipients p WHERE p.company_id = $1 AND p.status = 'pending'
			UNION
			SELECT m.payee_id FROM payments m WHERE m.company_id = $1 AND m.state IN ('action_required', 'returned')
			UNION
			SELECT a.recipient_id FROM recipients a JOIN destinations d ON d.owner_id = a.recipient_id
			WHERE a.company_id = $1 AND a.status = 'active' AND (d.allocation > 0 OR d.fixed_amount > 0) AND (
				d.correction <> '' OR d.kind = 'fiat' AND ` + byPrenote + " AND " + checkIs(destination.CheckReturned) + `
				OR d.kind = 'crypto' AND d.rail <> 'bitcoin'
					AND d.symbol || ' ' || d.network NOT IN (` + strings.Join(pairs, ", ") + ")" + refused + "))", args
}

// byPrenote is the condition that the newest check of a destination d was a prenote.
const byPrenote = `d.account_check LIKE '%"method":"prenote"%'`

// checkIs returns the condition that the newest check of a destination d has a result.
func checkIs(result destination.CheckResult) string {
	return `d.account_check LIKE '%"result":"` + string(result) + `"%'`
}

// selectAccounts returns the distinct kinds of bank accounts of a company's active payees.
func selectAccounts(ctx context.Context, tx *db.Tx, companyID string) ([]account, error) {
	rows, err := tx.Query(ctx, `SELECT DISTINCT d.symbol, d.country, d.scheme
		FROM recipients a JOIN destinations d ON d.owner_id = a.recipient_id
		WHERE a.company_id = $1 AND a.status = 'active' AND d.kind = 'fiat'`, companyID)
	return db.Collect(rows, err, func(r *db.Rows) (a account, err error) {
		return a, r.Scan(&a.symbol, &a.country, &a.scheme)
	})
}

// selectUnpayable returns a page of the IDs of a company's payees who cannot be paid yet, sorted by name, and the
// total number of such payees.
func selectUnpayable(ctx context.Context, tx *db.Tx, companyID string, r obstacleRules,
	page db.Page) (ids []string, total int64, err error) {
	from, args := fromUnpayable(companyID, r)
	if err := tx.QueryRow(ctx, "SELECT COUNT(*)"+from, args...).Scan(&total); err != nil || total == 0 {
		return nil, 0, err
	}
	n := len(args)
	rows, err := tx.Query(ctx, "SELECT r.recipient_id"+from+" ORDER BY r.name_key, r.recipient_id LIMIT $"+
		strconv.Itoa(n+1)+" OFFSET $"+strconv.Itoa(n+2), append(args, int64(page.PerPage), page.Offset())...)
	ids, err = db.Collect(rows, err, scanID)
	return ids, total, err
}

// selectUnasked returns the IDs of payees of a company who cannot be paid yet, have an email address, enter their
// destinations themselves, and were not mailed since a time.
func selectUnasked(ctx context.Context, tx *db.Tx, companyID string, r obstacleRules, since time.Time,
	limit int) ([]string, error) {
	from, args := fromUnpayable(companyID, r)
	n := len(args)
	rows, err := tx.Query(ctx, "SELECT r.recipient_id"+from+` AND r.email <> '' AND NOT EXISTS (
			SELECT 1 FROM destination_requests q WHERE q.company_id = $1 AND q.recipient_id = r.recipient_id
				AND q.sent_at > $`+strconv.Itoa(n+1)+`)
		AND NOT EXISTS (SELECT 1 FROM users u WHERE u.user_id = r.user_id AND u.company_id = $1)
		ORDER BY r.recipient_id LIMIT $`+strconv.Itoa(n+2), append(args, db.Micros(since), int64(limit))...)
	return db.Collect(rows, err, scanID)
}

func scanID(r *db.Rows) (id string, err error) { return id, r.Scan(&id) }

// selectStopped returns the payments to payees that failed, were returned or wait for the payee.
func selectStopped(ctx context.Context, tx *db.Tx, companyID string, payees []string) (all []PayeePayment, err error) {
	return all, db.EachIn(ctx, tx, payees, `SELECT `+payrollOfPayment+ofPayments()+` FROM payments m
		JOIN payrolls p ON p.company_id = m.company_id AND p.payroll_id = m.payroll_id
		WHERE m.company_id = $1 AND m.state IN ('action_required', 'returned') AND m.payee_id IN %s
		ORDER BY m.payroll_id DESC, m.payment_id`, []any{companyID}, func(r *db.Rows) error {
		m, err := scanPayeePayment(r)
		all = append(all, m)
		return err
	})
}
