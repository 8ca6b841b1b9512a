package payroll

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/metadata"
	"github.com/stipend/stipend/internal/money"
)

// CountOpenPayments returns the number of a payee's payments that have not ended in all payrolls of the company. last
// is the creation time of the newest payroll with a payment to the payee, or zero if there is none.
func CountOpenPayments(ctx context.Context, tx *db.Tx, companyID, payeeID string) (open int64, last time.Time,
	err error) {
	var made int64
	err = tx.QueryRow(ctx,
		`SELECT COALESCE(SUM(CASE WHEN m.state IN ('fulfilled', 'cancelled',
			'expired_unfunded') THEN 0 ELSE 1 END), 0), COALESCE(MAX(p.created_at), 0)
		FROM payments m JOIN payrolls p ON p.company_id = m.company_id AND p.payroll_id = m.payroll_id
		WHERE m.company_id = $1 AND m.payee_id = $2`, companyID, payeeID).Scan(&open, &made)
	if made > 0 {
		last = db.Time(made)
	}
	return open, last, err
}

// PayeePayment is a payment with the data of its payroll that lists of payments show.
type PayeePayment struct {
	Payment
	ExternalID string // company's reference of the payroll; may be empty
	Period     Period // pay period of the payroll
	CreatedAt  time.Time
}

// payrollOfPayment are the columns of a payment's payroll, in the order that scanPayeePayment reads them.
const payrollOfPayment = `p.payroll_id, p.external_id, p.period_start, p.period_end, p.currency, p.created_at, `

// seenByPayee is the condition for payments that are visible to their payees: payments of funded payrolls that do not
// wait for an approval.
const seenByPayee = `AND m.state NOT IN ('pending', 'cancelled')
	AND NOT (p.state = 'on_hold' AND p.hold_reason = 'approval_required')`

// EarnedPayment is a payment with the time at which it arrived, or zero if it has not arrived.
type EarnedPayment struct {
	PayeePayment
	ArrivedAt time.Time
}

// EarnedPayments returns the payments of a company to a payee that arrived in [from, to). If open is set, it also
// returns payments of funded payrolls that have not arrived. It leaves out payrolls that are not funded, because the
// payee may not see them.
func EarnedPayments(ctx context.Context, tx *db.Tx, companyID, payeeID string, from, to time.Time, open bool) (
	all []EarnedPayment, err error) {
	const arrived = `COALESCE((SELECT MAX(h.at) FROM history h WHERE h.company_id = m.company_id
		AND h.object_id = m.payment_id AND h.to_state = 'fulfilled'), 0)`
	rows, err := tx.Query(ctx, `SELECT CASE WHEN m.state = 'fulfilled' THEN `+arrived+` ELSE 0 END,
			`+payrollOfPayment+ofPayments()+` FROM payments m
		JOIN payrolls p ON p.company_id = m.company_id AND p.payroll_id = m.payroll_id
		WHERE m.company_id = $1 AND m.payee_id = $2 `+seenByPayee+` AND (m.state <> 'fulfilled' AND $5
			OR m.state = 'fulfilled' AND `+arrived+` >= $3 AND `+arrived+` < $4)
		ORDER BY m.payroll_id, m.payment_id`, companyID, payeeID, db.Micros(from), db.Micros(to), open)
	return db.Collect(rows, err, func(r *db.Rows) (m EarnedPayment, err error) {
		var at int64
		m.PayeePayment, err = scanPayeePaymentAfter(r, &at)
		if at > 0 {
			m.ArrivedAt = db.Time(at)
		}
		return m, err
	})
}

// FundedPaymentTo returns a payment of a funded payroll to a payee, with its outputs and timeline, or ErrNotFound.
func FundedPaymentTo(ctx context.Context, tx *db.Tx, companyID, payeeID, paymentID string) (m PayeePayment,
	steps []Step, err error) {
	all, err := paymentsTo(ctx, tx, seenByPayee+" AND m.payment_id = $3", companyID, payeeID,
		paymentID)
	if err != nil {
		return m, nil, err
	}
	if len(all) != 1 {
		return m, nil, ErrNotFound
	}
	m = all[0]
	steps, err = m.complete(ctx, tx, companyID)
	return m, steps, err
}

func paymentsTo(ctx context.Context, tx *db.Tx, rest string, args ...any) ([]PayeePayment, error) {
	rows, err := tx.Query(ctx, `SELECT `+payrollOfPayment+ofPayments()+` FROM payments m
		JOIN payrolls p ON p.company_id = m.company_id AND p.payroll_id = m.payroll_id
		WHERE m.company_id = $1 AND m.payee_id = $2 `+rest, args...)
	return db.Collect(rows, err, scanPayeePayment)
}

func scanPayeePayment(r *db.Rows) (m PayeePayment, err error) { return scanPayeePaymentAfter(r) }

// scanPayeePaymentAfter scans a row whose first columns go to before, followed by a payment.
func scanPayeePaymentAfter(r *db.Rows, before ...any) (m PayeePayment, err error) {
	var p Payroll
	var created int64
	m.Payment, err = p.scanPayment(func(to ...any) error {
		return r.Scan(slices.Concat(before, []any{&p.ID, &m.ExternalID, &m.Period.Start, &m.Period.End, &p.Currency,
			&created}, to)...)
	})
	m.PayrollID, m.CreatedAt = p.ID, db.Time(created)
	return m, err
}

// listPayments returns a page of the payments of a company, and their total number.
func listPayments(ctx context.Context, tx *db.Tx, companyID string, f PaymentFilter) ([]PayeePayment, int64, error) {
	l := &db.List{
		Columns: payrollOfPayment + ofPayments(),
		Table:   "payments m JOIN payrolls p ON p.company_id = m.company_id AND p.payroll_id = m.payroll_id",
		ID:      "m.payment_id", Time: "p.created_at", Page: f.Page,
	}
	l.Where("m.company_id = ?", companyID)
	if f.PayeeID != "" {
		l.Where("m.payee_id = ?", f.PayeeID)
	}
	if f.State != "" {
		l.Where("m.state = ?", string(f.State))
	}
	if f.Amount != "" {
		units, err := unitsOf(f.Amount)
		if err != nil {
			return nil, 0, err
		}
		var conditions []string
		var values []any
		for _, n := range slices.Sorted(maps.Keys(units)) {
			conditions = append(conditions, "m.amount = ? AND p.currency IN (?"+strings.Repeat(", ?", len(units[n])-1)+")")
			values = append(append(values, n), units[n]...)
		}
		l.Where("("+strings.Join(conditions, " OR ")+")", values...)
	}
	metadata.Conditions("m.payment_id", companyID, f.Metadata, l.Where)
	l.Created(f.From, f.To)
	return db.ReadPage(ctx, tx, l, scanPayeePayment)
}

// FixedRate is the funding rate of a payroll, and the time when the payroll was created.
type FixedRate struct {
	Rate money.Rate // price of the funding currency in the payroll's currency; zero without an exchange
	At   time.Time
}

// FixedRates returns the funding rates of a company's payrolls by payroll ID.
func FixedRates(ctx context.Context, tx *db.Tx, companyID string, ids []string) (map[string]FixedRate, error) {
	all := make(map[string]FixedRate, len(ids))
	return all, db.EachIn(ctx, tx, ids, `SELECT payroll_id, funding_currency, currency, rate, created_at FROM payrolls
		WHERE company_id = $1 AND payroll_id IN %s`, []any{companyID}, func(r *db.Rows) error {
		var id, funding, currency, rate string
		var created int64
		if err := r.Scan(&id, &funding, &currency, &rate, &created); err != nil {
			return err
		}
		fixed, err := readRate(money.Asset(funding), money.Asset(currency), rate)
		all[id] = FixedRate{fixed, db.Time(created)}
		return err
	})
}

// PaidPayment is a payment that reached its payee.
type PaidPayment struct {
	PayrollID, ID, PayeeID string
	Amount                 money.Amount // in the currency of the payroll
	PaidAt                 time.Time
}

// PaidBetween returns the payments of a company that reached their payees in [from, to), oldest first. A payment that
// was returned and not paid again is left out.
func PaidBetween(ctx context.Context, tx *db.Tx, companyID string, from, to time.Time) ([]PaidPayment, error) {
	rows, err := tx.Query(ctx, `SELECT payroll_id, payment_id, payee_id, currency, amount, paid_at FROM (
			SELECT m.payroll_id, m.payment_id, m.payee_id, p.currency, m.amount, (SELECT MAX(h.at) FROM history h
				WHERE h.company_id = m.company_id AND h.object_id = m.payment_id AND h.to_state = 'fulfilled') AS paid_at
			FROM payments m JOIN payrolls p ON p.company_id = m.company_id AND p.payroll_id = m.payroll_id
			WHERE m.company_id = $1 AND m.state = 'fulfilled' AND p.created_at < $3) paid
		WHERE paid_at >= $2 AND paid_at < $3 ORDER BY paid_at, payment_id`,
		companyID, db.Micros(from), db.Micros(to))
	return db.Collect(rows, err, func(r *db.Rows) (m PaidPayment, err error) {
		var currency string
		var amount, at int64
		err = r.Scan(&m.PayrollID, &m.ID, &m.PayeeID, &currency, &amount, &at)
		m.Amount, m.PaidAt = money.New(money.Asset(currency), amount), db.Time(at)
		return m, err
	})
}

// ofPayments returns the columns of paymentColumns qualified with the alias m.
func ofPayments() string {
	names := columns(paymentColumns)
	for i := range names {
		names[i] = "m." + names[i]
	}
	return strings.Join(names, ", ")
}

// Held is a payroll on hold.
type Held struct {
	CompanyID, ID, Reason string
	Total                 money.Amount
	Since                 time.Time
}

// ListHeld returns payrolls of all companies that are on hold, the longest hold first. It is for staff only.
func ListHeld(ctx context.Context, tx *db.Tx, limit int) ([]Held, error) {
	rows, err := tx.Query(ctx, `SELECT company_id, payroll_id, hold_reason, currency, total, updated_at FROM payrolls
		WHERE state = 'on_hold' ORDER BY updated_at, payroll_id LIMIT $1`, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (h Held, err error) {
		var currency string
		var total, since int64
		err = r.Scan(&h.CompanyID, &h.ID, &h.Reason, &currency, &total, &since)
		h.Total, h.Since = money.New(money.Asset(currency), total), db.Time(since)
		return h, err
	})
}

// IsPayroll reports whether an object ID is the ID of a payroll.
func IsPayroll(objectID string) bool { return strings.HasPrefix(objectID, "prl_") }

// AwaitsRelease reports whether a payroll is on hold until two staff members approve its release.
func AwaitsRelease(ctx context.Context, tx *db.Tx, companyID, payrollID string) (bool, error) {
	var n int64
	err := tx.QueryRow(ctx,
		"SELECT COUNT(*) FROM payrolls WHERE company_id = $1 AND payroll_id = $2 AND state = 'on_hold' AND hold_reason = $3",
		companyID, payrollID, ReasonRelease).Scan(&n)
	return n == 1, err
}

// Unfunded is a payroll that waits for a bank transfer.
type Unfunded struct {
	CompanyID, ID  string
	Total, Arrived money.Amount
	Since          time.Time
}

// AwaitingTransfers returns the payrolls of all companies that wait for a bank transfer, oldest first.
func AwaitingTransfers(ctx context.Context, tx *db.Tx) ([]Unfunded, error) {
	rows, err := tx.Query(ctx, `SELECT company_id, payroll_id, funding_currency, total, escrow, created_at FROM payrolls
		WHERE state = 'pending' AND funding_method = 'bank' ORDER BY created_at, payroll_id`)
	return db.Collect(rows, err, func(r *db.Rows) (u Unfunded, err error) {
		var currency string
		var total, arrived, since int64
		err = r.Scan(&u.CompanyID, &u.ID, &currency, &total, &arrived, &since)
		u.Total, u.Arrived = money.New(money.Asset(currency), total), money.New(money.Asset(currency), arrived)
		u.Since = db.Time(since)
		return u, err
	})
}

// dueByBank returns the IDs of at most two payrolls that wait for a bank transfer of exactly this amount.
func dueByBank(ctx context.Context, tx *db.Tx, companyID string, amount money.Amount) ([]string, error) {
	rows, err := tx.Query(ctx,
		`SELECT payroll_id FROM payrolls WHERE company_id = $1 AND state = 'pending' AND funding_method = 'bank'
		AND funding_currency = $2 AND total - escrow = $3 ORDER BY payroll_id
		LIMIT 2`, companyID, string(amount.Asset()), amount.Units())
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// CompanyOf returns the ID of the company that owns a payroll, or "" if there is no such payroll.
func CompanyOf(ctx context.Context, tx *db.Tx, payrollID string) (company string, err error) {
	err = tx.QueryRow(ctx, "SELECT company_id FROM payrolls WHERE payroll_id = $1", payrollID).Scan(&company)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return company, err
}

// Issues returns, for the company's payrolls with payments that need attention, the number of payments by state,
// newest first, at most 100.
func (s *Service) Issues(ctx context.Context, tx *db.Tx, by identity.Principal) ([]Issue, error) {
	company, err := by.Company("")
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `SELECT payroll_id, state, COUNT(*) FROM payments
		WHERE company_id = $1 AND state IN ('action_required', 'returned')
		GROUP BY payroll_id, state ORDER BY payroll_id DESC, state LIMIT 100`, company)
	return db.Collect(rows, err, func(r *db.Rows) (t Issue, err error) {
		var state string
		err = r.Scan(&t.PayrollID, &state, &t.Payments)
		t.State = State(state)
		return t, err
	})
}

const day = int64(24 * time.Hour / time.Microsecond)

// PaidByDay returns the sums of the company's fulfilled payments, by currency and by the day (UTC) on which their
// payrolls were created, for payrolls created since from, oldest first.
func (s *Service) PaidByDay(ctx context.Context, tx *db.Tx, by identity.Principal, from time.Time) ([]Paid, error) {
	company, err := by.Company("")
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `SELECT p.created_at / $1, p.currency, CAST(SUM(m.amount) AS BIGINT) FROM payrolls p
		JOIN payments m ON m.company_id = p.company_id AND m.payroll_id = p.payroll_id
		WHERE p.company_id = $2 AND p.created_at >= $3 AND m.state = 'fulfilled'
		GROUP BY p.created_at / $1, p.currency ORDER BY 1, 2`, day, company, db.Micros(from))
	return db.Collect(rows, err, func(r *db.Rows) (p Paid, err error) {
		var at, sum int64
		var currency string
		err = r.Scan(&at, &currency, &sum)
		p.Day, p.Volume = db.Time(at*day).UTC(), money.New(money.Asset(currency), sum)
		return p, err
	})
}

// WaitingForConversion returns the payrolls of all companies with payments that wait because the operator owns too
// little of an asset, oldest first.
func WaitingForConversion(ctx context.Context, tx *db.Tx) ([]Issue, error) {
	return waitingFor(ctx, tx, ReasonConversion)
}

func waitingFor(ctx context.Context, tx *db.Tx, reason string) ([]Issue, error) {
	rows, err := tx.Query(ctx, `SELECT company_id, payroll_id, COUNT(*) FROM payments
		WHERE state = 'on_hold' AND reason IN ('conversion_unavailable', 'price_changed') AND reason = $1
		GROUP BY company_id, payroll_id ORDER BY payroll_id LIMIT 1000`, reason)
	return db.Collect(rows, err, func(r *db.Rows) (t Issue, err error) {
		t.State = OnHold
		return t, r.Scan(&t.CompanyID, &t.PayrollID, &t.Payments)
	})
}

// OpenCounts returns the number of payrolls by state, for the states that may require further work.
func OpenCounts(ctx context.Context, tx *db.Tx) (map[State]int64, error) {
	counts := map[State]int64{}
	rows, err := tx.Query(ctx, `SELECT state, COUNT(*) FROM payrolls
		WHERE state IN ('pending', 'received', 'released', 'on_hold', 'partially_fulfilled', 'action_required', 'returned')
		GROUP BY state`)
	_, err = db.Collect(rows, err, func(r *db.Rows) (struct{}, error) {
		var state string
		var n int64
		err := r.Scan(&state, &n)
		counts[State(state)] = n
		return struct{}{}, err
	})
	return counts, err
}
