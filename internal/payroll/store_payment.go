package payroll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/metadata"
	"github.com/stipend/stipend/internal/money"
)

func (p *Payroll) scanPayment(scan func(...any) error) (Payment, error) {
	m := Payment{PayrollID: p.ID}
	var state, texts, receives string
	var amount, fee, receive, surcharge int64
	err := scan(&m.ID, &m.Position, &m.PayeeID, &m.UserID, &state, &m.Version, &amount, &fee, &receive, &receives,
		&surcharge, &m.Country, &m.IsPremium, &m.InvoiceID, &m.Description, &m.Category, &m.ExternalPaymentID, &texts,
		&m.Reason)
	if err != nil {
		return m, err
	}
	m.Amount, m.Fee = money.New(p.Currency, amount), money.New(p.Currency, fee)
	m.Surcharge = money.New(p.Currency, surcharge)
	if receive > 0 {
		m.Receive = money.New(money.Asset(receives), receive)
	}
	m.setState(State(state))
	m.Metadata, err = metadata.Parse(texts)
	return m, err
}

// setState sets a payment's state, and its flags Received, Released and Fulfilled.
func (m *Payment) setState(to State) {
	m.State = to
	m.Received, m.Released, m.Fulfilled = flags(to)
}

// payments reads the payments of a payroll that are in a state, or all payments for "", in the order of to_pay.
func (p *Payroll) payments(ctx context.Context, tx *db.Tx, state State) ([]Payment, error) {
	rows, err := tx.Query(ctx, "SELECT "+paymentColumns+` FROM payments
		WHERE company_id = $1 AND payroll_id = $2 AND ($3 = '' OR state = $3)`, p.CompanyID, p.ID, string(state))
	all, err := db.Collect(rows, err, func(r *db.Rows) (Payment, error) { return p.scanPayment(r.Scan) })
	if byPosition := func(a, b Payment) int { return cmp.Compare(a.Position, b.Position) }; !slices.IsSortedFunc(all,
		byPosition) {
		slices.SortFunc(all, byPosition)
	}
	return all, err
}

// paymentTexts reads the payee, invoice and description of payments of a payroll into found, by payment ID.
func paymentTexts(ctx context.Context, tx *db.Tx, companyID, payrollID string, ids []string,
	found map[string]Payment) error {
	return db.EachIn(ctx, tx, ids, `SELECT payment_id, payee_id, invoice_id, description FROM payments
		WHERE company_id = $1 AND payroll_id = $2 AND payment_id IN %s`, []any{companyID, payrollID},
		func(r *db.Rows) error {
			var m Payment
			err := r.Scan(&m.ID, &m.PayeeID, &m.InvoiceID, &m.Description)
			found[m.ID] = m
			return err
		})
}

// payment reads one payment. It returns false if the payroll has no such payment.
func (p *Payroll) payment(ctx context.Context, tx *db.Tx, id string) (Payment, bool, error) {
	m, err := p.scanPayment(tx.QueryRow(ctx, "SELECT "+paymentColumns+` FROM payments
		WHERE company_id = $1 AND payroll_id = $2 AND payment_id = $3`, p.CompanyID, p.ID, id).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return m, false, nil
	}
	return m, err == nil, err
}

// flags returns the flags Received, Released and Fulfilled of a payment in a state.
func flags(to State) (received, released, fulfilled bool) {
	switch to {
	case Received:
		received = true
	case Released, ActionRequired, OnHold, Returned:
		received, released = true, true
	case Fulfilled:
		received, released, fulfilled = true, true, true
	default: // a payment that is not funded has no flag set
	}
	return received, released, fulfilled
}

// PaidBefore reports whether a company queued a payout to a payee before a time.
func PaidBefore(ctx context.Context, tx *db.Tx, companyID, payeeID string, at time.Time) (bool, error) {
	var n int64
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM payments m
		JOIN outputs o ON o.company_id = m.company_id AND o.payroll_id = m.payroll_id AND o.payment_id = m.payment_id
		WHERE m.company_id = $1 AND m.payee_id = $2 AND o.queued_at < $3`, companyID, payeeID, db.Micros(at)).Scan(&n)
	return n > 0, err
}

// lastPaid returns, by payee ID, the time at which the company last paid the payee. Payees never paid are missing.
func lastPaid(ctx context.Context, tx *db.Tx, companyID string, payeeIDs []string) (map[string]time.Time, error) {
	last := map[string]time.Time{}
	for in, args := range db.BindList(tx, payeeIDs, 2) {
		rows, err := tx.Query(ctx, `SELECT m.payee_id, MAX(o.queued_at) FROM payments m
			JOIN outputs o ON o.company_id = m.company_id AND o.payroll_id = m.payroll_id
			AND o.payment_id = m.payment_id
			WHERE m.company_id = $1 AND m.payee_id IN `+in+` GROUP BY m.payee_id`, append([]any{companyID}, args...)...)
		_, err = db.Collect(rows, err, func(r *db.Rows) (id string, err error) {
			var at int64
			err = r.Scan(&id, &at)
			last[id] = db.Time(at)
			return id, err
		})
		if err != nil {
			return nil, err
		}
	}
	return last, nil
}

// earlierPayments returns, by payee ID, facts about payments of the company's other payrolls: the largest of the
// payee's last historyLength payments in this payroll's currency, and the number of payments in payrolls created
// since a time, in any currency, including payments not made yet.
func (p *Payroll) earlierPayments(ctx context.Context, tx *db.Tx, payeeIDs []string, since time.Time) (
	map[string]history, error) {
	found := map[string]history{}
	return found, db.EachIn(ctx, tx, payeeIDs, `SELECT payee_id,
			COALESCE(MAX(CASE WHEN paid = 1 AND n <= $5 THEN amount END), 0),
			CAST(SUM(CASE WHEN created_at >= $4 THEN 1 ELSE 0 END) AS BIGINT)
		FROM (SELECT payee_id, amount, created_at, paid,
				ROW_NUMBER() OVER (PARTITION BY payee_id, paid ORDER BY created_at DESC, payment_id DESC) AS n
			FROM (SELECT m.payee_id, m.payment_id, m.amount, p.created_at,
					CASE WHEN p.currency = $2 AND m.state IN ('released', 'fulfilled') THEN 1 ELSE 0 END AS paid
				FROM payments m JOIN payrolls p ON p.company_id = m.company_id AND p.payroll_id = m.payroll_id
				WHERE m.company_id = $1 AND m.payroll_id <> $3 AND m.state NOT IN ('cancelled', 'expired_unfunded')
				AND m.payee_id IN %s) payment) earlier
		GROUP BY payee_id`,
		[]any{p.CompanyID, string(p.Currency), p.ID, db.Micros(since), int64(historyLength)},
		func(r *db.Rows) error {
			var id string
			var most int64
			var h history
			err := r.Scan(&id, &most, &h.recent)
			if most > 0 {
				h.most = money.New(p.Currency, most)
			}
			found[id] = h
			return err
		})
}

// confirm records that a member confirmed the destination of a payment's payee.
func (p *Payroll) confirm(ctx context.Context, tx *db.Tx, paymentID, by string) error {
	return tx.ExecOne(ctx,
		"UPDATE payments SET confirmed_at = $1, confirmed_by = $2 WHERE company_id = $3 AND payroll_id = $4 AND payment_id "+
			"= $5",
		db.Micros(tx.Now()), by, p.CompanyID, p.ID, paymentID)
}

// insertContents stores the digests of the payments at the first approval of a payroll. Later approvals keep them.
func (p *Payroll) insertContents(ctx context.Context, tx *db.Tx, all []approved) error {
	if known, err := p.approvedContents(ctx, tx); err != nil || len(known) > 0 {
		return err
	}
	rows := make([][]any, len(all))
	for i, a := range all {
		rows[i] = []any{p.CompanyID, p.ID, a.paymentID, a.content}
	}
	return tx.Insert(ctx, "approved_payments", []string{"company_id", "payroll_id", "payment_id", "content"}, rows)
}

// approvedContents returns the digests of the approved payments, by payment ID. It is empty without an approval.
func (p *Payroll) approvedContents(ctx context.Context, tx *db.Tx) (map[string]string, error) {
	rows, err := tx.Query(ctx, `SELECT payment_id, content FROM approved_payments
		WHERE company_id = $1 AND payroll_id = $2`, p.CompanyID, p.ID)
	all, err := db.Collect(rows, err, func(r *db.Rows) (a approved, err error) {
		return a, r.Scan(&a.paymentID, &a.content)
	})
	contents := make(map[string]string, len(all))
	for _, a := range all {
		contents[a.paymentID] = a.content
	}
	return contents, err
}

// approveContent replaces the approved digest of a payment. It does nothing if the payroll has no approval.
func (p *Payroll) approveContent(ctx context.Context, tx *db.Tx, a approved) error {
	_, err := tx.Exec(ctx, `UPDATE approved_payments SET content = $1
		WHERE company_id = $2 AND payroll_id = $3 AND payment_id = $4`, a.content, p.CompanyID, p.ID, a.paymentID)
	return err
}

// deleteContents deletes the approved digests of a payroll whose payments change.
func (p *Payroll) deleteContents(ctx context.Context, tx *db.Tx) error {
	_, err := tx.Exec(ctx, "DELETE FROM approved_payments WHERE company_id = $1 AND payroll_id = $2", p.CompanyID, p.ID)
	return err
}

// confirmedSince reports whether the destination of a payment was confirmed at or after a time.
func (p *Payroll) confirmedSince(ctx context.Context, tx *db.Tx, paymentID string, at time.Time) (bool, error) {
	var n int64
	err := tx.QueryRow(ctx,
		"SELECT COUNT(*) FROM payments WHERE company_id = $1 AND payroll_id = $2 AND payment_id = $3 AND confirmed_at >= $4",
		p.CompanyID, p.ID, paymentID, db.Micros(at)).Scan(&n)
	return n == 1, err
}

// stoppedFor returns the IDs of a company's payrolls in which a payment to a payee waits.
func stoppedFor(ctx context.Context, tx *db.Tx, companyID, payeeID string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT DISTINCT payroll_id FROM payments
		WHERE company_id = $1 AND payee_id = $2 AND state IN ('on_hold', 'action_required', 'returned')
		ORDER BY payroll_id`, companyID, payeeID)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// stoppedBy returns the IDs of a company's payrolls in which a payment waits for a reason.
func stoppedBy(ctx context.Context, tx *db.Tx, companyID, reason string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT DISTINCT payroll_id FROM payments
		WHERE company_id = $1 AND state IN ('on_hold', 'action_required', 'returned') AND reason = $2
		ORDER BY payroll_id`, companyID, reason)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// heldFor returns the IDs of a company's payrolls that are on hold for a reason.
func heldFor(ctx context.Context, tx *db.Tx, companyID, reason string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT payroll_id FROM payrolls
		WHERE company_id = $1 AND state = 'on_hold' AND hold_reason = $2 ORDER BY payroll_id`, companyID, reason)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// heldForDebts returns the IDs of a company's released payrolls whose funding was reversed, including payrolls that
// have ended, because they may have payouts on hold.
func heldForDebts(ctx context.Context, tx *db.Tx, companyID string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT payroll_id FROM payrolls WHERE company_id = $1
		AND (state = 'on_hold' AND hold_reason = $2
			OR (state IN ('released', 'fulfilled', 'partially_fulfilled') OR state = 'on_hold' AND held_from = 'released')
			AND funding_state NOT IN ('funded', 'over')) ORDER BY payroll_id`, companyID, ReasonReverted)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// going returns the IDs of a company's payrolls that can still send payments and are not on hold.
func going(ctx context.Context, tx *db.Tx, companyID string) ([]string, error) {
	rows, err := tx.Query(ctx,
		"SELECT payroll_id FROM payrolls WHERE company_id = $1 AND state IN ('received', 'released') ORDER BY payroll_id",
		companyID)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// endedWithUnsent returns the IDs of a company's payrolls that have ended but have payouts that may not be sent yet.
func endedWithUnsent(ctx context.Context, tx *db.Tx, companyID string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT p.payroll_id FROM payrolls p WHERE p.company_id = $1
		AND p.state = 'partially_fulfilled' AND EXISTS (SELECT 1 FROM outputs o WHERE o.company_id = p.company_id
			AND o.payroll_id = p.payroll_id AND o.state IN ('queued', 'prepared', 'sent', 'in_doubt'))
		ORDER BY p.payroll_id`, companyID)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// endedOnHold returns the IDs of a company's payrolls that have ended, are fully funded, and have payouts on hold.
func endedOnHold(ctx context.Context, tx *db.Tx, companyID string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT p.payroll_id FROM payrolls p WHERE p.company_id = $1
		AND p.state IN ('fulfilled', 'partially_fulfilled') AND p.funding_state IN ('funded', 'over')
		AND EXISTS (SELECT 1 FROM outputs o WHERE o.company_id = p.company_id AND o.payroll_id = p.payroll_id AND o.on_hold)
		ORDER BY p.payroll_id`, companyID)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// updatePayments writes the next version of payments, which must all have the same state and version. It fails if a
// payment has changed since it was read, or if another payment of the payroll has the same state and version.
func (p *Payroll) updatePayments(ctx context.Context, tx *db.Tx, all []Payment, to State) error {
	from, version := all[0].State, all[0].Version
	for i := range all {
		if m := &all[i]; m.State != from || m.Version != version {
			return fmt.Errorf("payment %s is %s, version %d; %s is %s, version %d", all[0].ID, from, version, m.ID,
				m.State, m.Version)
		}
	}
	n, err := tx.Exec(ctx, `UPDATE payments SET state = $1, version = version + 1
		WHERE company_id = $2 AND payroll_id = $3 AND state = $4
		AND version = $5`, string(to), p.CompanyID, p.ID, string(from), version)
	if err != nil {
		return err
	}
	if n != int64(len(all)) {
		return db.ErrConflict
	}
	for i := range all {
		all[i].setState(to)
		all[i].Version++
	}
	return nil
}

// updatePayment writes the next version of a payment. It fails if the payment has changed since it was read.
func (p *Payroll) updatePayment(ctx context.Context, tx *db.Tx, m *Payment, to State, reason string) error {
	if err := tx.ExecOne(ctx, `UPDATE payments SET state = $1, version = version + 1, reason = $2
		WHERE company_id = $3 AND payroll_id = $4 AND payment_id = $5 AND version = $6 AND state = $7`,
		string(to), reason, p.CompanyID, p.ID, m.ID, m.Version, string(m.State)); err != nil {
		return err
	}
	m.setState(to)
	m.Version++
	m.Reason = reason
	return nil
}

// setSurcharge stores the amount that the company pays for a waiting payment in addition to the payment's amount.
func (p *Payroll) setSurcharge(ctx context.Context, tx *db.Tx, m *Payment, x money.Amount) error {
	m.Surcharge = x
	m.Version++
	return tx.ExecOne(ctx, `UPDATE payments SET surcharge = $1, version = version + 1 WHERE company_id = $2
		AND payroll_id = $3 AND payment_id = $4 AND version = $5 AND state = 'on_hold'`, x.Units(), p.CompanyID, p.ID, m.ID,
		m.Version-1)
}

// countPayments counts the payments of a payroll by state.
func (p *Payroll) countPayments(ctx context.Context, tx *db.Tx) (map[State]int64, error) {
	rows, err := tx.Query(ctx,
		`SELECT state, COUNT(*) FROM payments WHERE company_id = $1 AND payroll_id = $2 GROUP BY state`,
		p.CompanyID, p.ID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	counts := map[State]int64{}
	for rows.Next() {
		var state string
		var n int64
		if err := rows.Scan(&state, &n); err != nil {
			return nil, err
		}
		counts[State(state)] = n
	}
	return counts, rows.Err()
}

// fulfilledVolume returns the sum of the payments that are fulfilled.
func (p *Payroll) fulfilledVolume(ctx context.Context, tx *db.Tx) (money.Amount, error) {
	var units int64
	err := tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM payments
		WHERE company_id = $1 AND payroll_id = $2 AND state = 'fulfilled'`, p.CompanyID, p.ID).Scan(&units)
	return money.New(p.Currency, units), err
}

// setEarned stores the amount that was posted for the platform so far. It fails if the stored amount has changed
// since the payroll was read.
func (p *Payroll) setEarned(ctx context.Context, tx *db.Tx, earned money.Amount) error {
	err := tx.ExecOne(ctx, `UPDATE payrolls SET platform_earned = $1
		WHERE company_id = $2 AND payroll_id = $3 AND platform_earned = $4`, earned.Units(), p.CompanyID, p.ID,
		p.PlatformEarned.Units())
	p.PlatformEarned = earned
	return err
}

// paymentSteps reads the recorded state changes of a payroll's payments, oldest first. CROSS JOIN makes SQLite begin
// with the payments; it would scan the company's whole history otherwise.
func (p *Payroll) paymentSteps(ctx context.Context, tx *db.Tx) ([]Step, error) {
	rows, err := tx.Query(ctx, `SELECT h.object_id, h.version, h.from_state, h.to_state, h.reason, h.at
		FROM payments m CROSS JOIN history h
		WHERE m.company_id = $1 AND m.payroll_id = $2 AND h.company_id = m.company_id AND h.object_id = m.payment_id
		ORDER BY h.at, m.position, h.version`, p.CompanyID, p.ID)
	return db.Collect(rows, err, func(r *db.Rows) (s Step, err error) {
		var from, to string
		var at int64
		err = r.Scan(&s.ObjectID, &s.Version, &from, &to, &s.Reason, &at)
		s.From, s.To, s.At = State(from), State(to), db.Time(at)
		return s, err
	})
}

// receipts reads the receipts of a payroll, which record how each deposit is posted.
func (p *Payroll) receipts(ctx context.Context, tx *db.Tx) (all []receipt, err error) {
	err = tx.Batch(ctx, []db.Statement{p.askReceipts(&all)})
	return all, err
}

func (p *Payroll) askReceipts(into *[]receipt) db.Statement {
	return db.CollectInto(into, func(rows *db.Rows) (r receipt, err error) {
		var rate string
		var amount, escrow, surplus, suspense, repaid, owed, repriced int64
		if err := rows.Scan(&r.deposit, &r.price, &rate, &r.active, &r.late, &r.version,
			&amount, &escrow, &surplus, &suspense, &repaid, &owed, &repriced); err != nil {
			return r, err
		}
		f := p.FundingCurrency
		r.amount, r.escrow, r.surplus = money.New(f, amount), money.New(f, escrow), money.New(f, surplus)
		r.suspense, r.debtSettled, r.debt = money.New(f, suspense), money.New(f, repaid), money.New(f, owed)
		r.repriced = money.New(f, repriced)
		r.rate, err = readRate(f, p.Currency, rate)
		return r, err
	}, `SELECT deposit_id, price_id, rate, active, is_late, version, amount, escrow, surplus, suspense,
		debt_settled, debt, repriced
		FROM payroll_receipts WHERE company_id = $1 AND payroll_id = $2 ORDER BY deposit_id`, p.CompanyID, p.ID)
}

// saveReceipt stores the next version of a receipt. It fails if the receipt has changed since it was read.
func (p *Payroll) saveReceipt(ctx context.Context, tx *db.Tx, r *receipt) error {
	return tx.ExecOne(ctx, `INSERT INTO payroll_receipts (company_id, payroll_id, deposit_id, price_id, rate, active,
		is_late, version,
		amount, escrow, surplus, suspense, debt_settled, debt, repriced)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
		ON CONFLICT (company_id, payroll_id, deposit_id) DO UPDATE SET price_id = excluded.price_id,
		rate = excluded.rate,
		active = excluded.active, is_late = excluded.is_late, version = excluded.version,
		escrow = excluded.escrow, surplus = excluded.surplus,
		suspense = excluded.suspense, debt_settled = excluded.debt_settled, debt = excluded.debt,
		repriced = excluded.repriced
		WHERE payroll_receipts.version = excluded.version - 1`,
		p.CompanyID, p.ID, r.deposit, r.price, rateText(r.rate), r.active, r.late, r.version,
		r.amount.Units(), r.escrow.Units(), r.surplus.Units(), r.suspense.Units(), r.debtSettled.Units(),
		r.debt.Units(), r.repriced.Units())
}
