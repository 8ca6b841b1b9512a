package payroll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/metadata"
	"github.com/stipend/stipend/internal/money"
)

// New payrolls are buffered and inserted at the commit, together with those of all requests in the same group commit.

const payrollColumns = `payroll_id, external_id, state, held_from, hold_reason, funding_state, version, currency,
	funding_method, funding_currency, payees, volume, fees, total, escrow, shortfall, rate, address, network,
	tolerance_bps, pay_date, release_at, platform_id, platform_fee_bps, platform_earned, metadata, created_by, created_at,
	updated_at`

const paymentColumns = `payment_id, position, payee_id, user_id, state, version, amount, fee, receive_amount,
	receive_asset, surcharge, country, premium,
	invoice_id, description, category, external_payment_id, metadata, reason`

func columns(list string) []string {
	names := strings.Split(list, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}

var (
	payrollRows = db.BulkInsert("payrolls", append([]string{"company_id"}, columns(payrollColumns)...)...)
	paymentRows = db.BulkInsert("payments", append([]string{"company_id", "payroll_id"},
		columns(paymentColumns)...)...)
)

func insertPayroll(tx *db.Tx, p *Payroll) {
	payrollRows.Add(tx, []any{
		p.CompanyID, p.ID, p.ExternalID, string(p.State), string(p.HeldFrom), p.HoldReason, string(p.FundingState),
		p.Version,
		string(p.Currency), p.FundingMethod, string(p.FundingCurrency), p.Count, p.Volume.Units(), p.Fees.Units(),
		p.Total.Units(),
		p.Escrow.Units(), p.Shortfall.Units(), rateText(p.Rate), p.Address, p.Network, p.ToleranceBps,
		p.PayDate, releaseAt(p), p.PlatformID, p.PlatformFeeBps, p.PlatformEarned.Units(),
		metadata.Text(p.Metadata), p.CreatedBy, db.Micros(p.CreatedAt), db.Micros(p.UpdatedAt),
	})
	metadata.Index(tx, p.CompanyID, p.ID, p.Metadata)
	insertPayments(tx, p)
}

func insertPayments(tx *db.Tx, p *Payroll) {
	for i := range p.Payments {
		m := &p.Payments[i]
		paymentRows.Add(tx, []any{
			p.CompanyID, p.ID, m.ID, m.Position, m.PayeeID, m.UserID, string(m.State), m.Version, m.Amount.Units(),
			m.Fee.Units(), m.Receive.Units(), string(m.Receive.Asset()), m.Surcharge.Units(),
			m.Country, m.IsPremium, m.InvoiceID, m.Description, m.Category, m.ExternalPaymentID,
			metadata.Text(m.Metadata), m.Reason,
		})
		metadata.Index(tx, p.CompanyID, m.ID, m.Metadata)
	}
}

// releaseAt returns the value of the column release_at.
func releaseAt(p *Payroll) int64 {
	if p.ReleaseAt.IsZero() {
		return 0
	}
	return db.Micros(p.ReleaseAt)
}

func rateText(r money.Rate) string {
	if r.IsZero() {
		return ""
	}
	return r.String()
}

func readRate(base, quote money.Asset, text string) (money.Rate, error) {
	if text == "" {
		return money.Rate{}, nil
	}
	return money.ParseRate(base, quote, text)
}

// findExternal returns the ID of the payroll with an external ID, "" if there is none.
func findExternal(ctx context.Context, tx *db.Tx, companyID, externalID string) (id string, err error) {
	err = tx.QueryRow(ctx,
		"SELECT payroll_id FROM payrolls WHERE company_id = $1 AND external_id = $2 AND external_id <> ''",
		companyID, externalID).Scan(&id)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return id, err
}

// findExternalPayments returns the IDs of the payrolls that pay external payment IDs, by these. IDs that no payroll
// pays are missing.
func findExternalPayments(ctx context.Context, tx *db.Tx, companyID string, ids []string) (map[string]string, error) {
	found := map[string]string{}
	for some := range slices.Chunk(ids, 256) {
		args := []any{companyID}
		for _, id := range some {
			args = append(args, id)
		}
		rows, err := tx.Query(ctx, `SELECT external_payment_id, payroll_id FROM payments
			WHERE company_id = $1 AND external_payment_id <> '' AND state <> 'cancelled'
			AND external_payment_id IN (VALUES `+db.Placeholders(len(some), 1, 2)+")", args...)
		_, err = db.Collect(rows, err, func(r *db.Rows) (_ struct{}, err error) {
			var id, payrollID string
			err = r.Scan(&id, &payrollID)
			found[id] = payrollID
			return struct{}{}, err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// findKey returns the ID of the payroll created with a form's idempotency key, "" if there is none.
func findKey(ctx context.Context, tx *db.Tx, companyID, key string) (id string, err error) {
	err = tx.QueryRow(ctx, "SELECT payroll_id FROM payroll_form_keys WHERE company_id = $1 AND idempotency_key = $2",
		companyID, key).Scan(&id)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return id, err
}

// keepKey stores the payroll created with a form's idempotency key. first is false if a concurrent request has stored
// the key.
func keepKey(ctx context.Context, tx *db.Tx, p *Payroll, key string) (first bool, err error) {
	n, err := tx.Exec(ctx,
		`INSERT INTO payroll_form_keys (company_id, idempotency_key, payroll_id, created_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (company_id, idempotency_key) DO NOTHING`, p.CompanyID, key, p.ID, db.Micros(p.CreatedAt))
	return n == 1, err
}

// formKeysKept is the time after which a page's form that created a payroll is no longer recognized.
const formKeysKept = 30 * 24 * time.Hour

// ForgetFormKeys deletes old keys of forms.
func ForgetFormKeys(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM payroll_form_keys WHERE created_at <= $1", db.Micros(tx.Now().Add(-formKeysKept)))
		return err
	})
}

func scanPayroll(companyID string, scan func(...any) error) (Payroll, error) {
	p := Payroll{CompanyID: companyID}
	var state, heldFrom, fundingState, currency, funding, rate, texts string
	var volume, fees, total, escrow, shortfall, release, earned, created, updated int64
	if err := scan(&p.ID, &p.ExternalID, &state, &heldFrom, &p.HoldReason, &fundingState, &p.Version, &currency,
		&p.FundingMethod,
		&funding, &p.Count, &volume, &fees, &total, &escrow, &shortfall, &rate, &p.Address, &p.Network, &p.ToleranceBps,
		&p.PayDate, &release, &p.PlatformID, &p.PlatformFeeBps, &earned, &texts, &p.CreatedBy, &created,
		&updated); err != nil {
		return p, err
	}
	if release > 0 {
		p.ReleaseAt = db.Time(release)
	}
	p.State, p.HeldFrom, p.FundingState = State(state), State(heldFrom), FundingState(fundingState)
	p.Currency, p.FundingCurrency = money.Asset(currency), money.Asset(funding)
	p.Volume, p.Fees, p.Total = money.New(p.Currency, volume), money.New(p.Currency, fees), money.New(p.Currency, total)
	p.Escrow, p.Shortfall = money.New(p.FundingCurrency, escrow), money.New(p.FundingCurrency, shortfall)
	p.PlatformEarned = money.New(p.Currency, earned)
	p.CreatedAt, p.UpdatedAt = db.Time(created), db.Time(updated)
	var err error
	if p.Metadata, err = metadata.Parse(texts); err != nil {
		return p, err
	}
	p.Rate, err = readRate(p.FundingCurrency, p.Currency, rate)
	return p, err
}

// find reads a payroll without its payments.
func find(ctx context.Context, tx *db.Tx, companyID, id string) (*Payroll, error) {
	return one(companyID, tx.QueryRow(ctx, "SELECT "+payrollColumns+
		" FROM payrolls WHERE company_id = $1 AND payroll_id = $2", companyID, id))
}

// findOwn reads a payroll of the principal's company without its payments.
func findOwn(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (*Payroll, error) {
	company, err := by.Company("")
	if err != nil {
		return nil, err
	}
	return find(ctx, tx, company, id)
}

// lock reads a payroll like find, and makes other writers of the payroll wait until this transaction ends. Rows read
// after lock are current.
func lock(ctx context.Context, tx *db.Tx, companyID, id string) (*Payroll, error) {
	return one(companyID, tx.QueryRow(ctx,
		"UPDATE payrolls SET version = version WHERE company_id = $1 AND payroll_id = $2 RETURNING "+payrollColumns,
		companyID, id))
}

func one(companyID string, r db.Row) (*Payroll, error) {
	p, err := scanPayroll(companyID, r.Scan)
	if errors.Is(err, db.ErrNoRows) {
		return nil, ErrNotFound
	}
	return &p, err
}

// update writes the next version of a payroll. It fails if the payroll has changed since it was read.
func update(ctx context.Context, tx *db.Tx, p *Payroll, from State) error {
	p.UpdatedAt = tx.Now()
	err := tx.ExecOne(ctx, `UPDATE payrolls SET state = $1, held_from = $2, hold_reason = $3, funding_state = $4,
		escrow = $5,
		shortfall = $6, rate = $7, updated_at = $8, version = version + 1
		WHERE company_id = $9 AND payroll_id = $10 AND version = $11 AND state = $12`,
		string(p.State), string(p.HeldFrom), p.HoldReason, string(p.FundingState), p.Escrow.Units(),
		p.Shortfall.Units(), rateText(p.Rate),
		db.Micros(p.UpdatedAt), p.CompanyID, p.ID, p.Version, string(from))
	p.Version++
	return err
}

// replacePayments stores the next version of an edited payroll, whose payments replace those of the version before.
func (p *Payroll) replacePayments(ctx context.Context, tx *db.Tx, before *Payroll) error {
	p.UpdatedAt = tx.Now()
	if err := tx.ExecOne(ctx, `UPDATE payrolls SET external_id = $1, payees = $2, volume = $3, fees = $4, total = $5,
		created_by = $6, updated_at = $7, metadata = $8, platform_id = $9, platform_fee_bps = $10, version = version + 1
		WHERE company_id = $11 AND payroll_id = $12 AND version = $13 AND state = 'pending'`,
		p.ExternalID, p.Count, p.Volume.Units(), p.Fees.Units(), p.Total.Units(), p.CreatedBy, db.Micros(p.UpdatedAt),
		metadata.Text(p.Metadata), p.PlatformID, p.PlatformFeeBps, p.CompanyID, p.ID, p.Version); err != nil {
		return err
	}
	p.Version++
	n, err := tx.Exec(ctx, "DELETE FROM payments WHERE company_id = $1 AND payroll_id = $2 AND state = 'pending'",
		p.CompanyID, p.ID)
	if err != nil {
		return err
	}
	if n != before.Count {
		return db.ErrConflict
	}
	if err := metadata.Replace(ctx, tx, p.CompanyID, p.ID, before.Metadata, p.Metadata); err != nil {
		return err
	}
	var ids []string
	for i := range before.Payments {
		if len(before.Payments[i].Metadata) > 0 {
			ids = append(ids, before.Payments[i].ID)
		}
	}
	if err := metadata.Remove(ctx, tx, p.CompanyID, ids); err != nil {
		return err
	}
	insertPayments(tx, p)
	return nil
}

// updateMetadata stores the next version of a payroll with other metadata.
func (p *Payroll) updateMetadata(ctx context.Context, tx *db.Tx, before map[string]string) error {
	p.UpdatedAt = tx.Now()
	if err := tx.ExecOne(ctx, `UPDATE payrolls SET metadata = $1, updated_at = $2, version = version + 1
		WHERE company_id = $3 AND payroll_id = $4 AND version = $5`,
		metadata.Text(p.Metadata), db.Micros(p.UpdatedAt), p.CompanyID, p.ID, p.Version); err != nil {
		return err
	}
	p.Version++
	return metadata.Replace(ctx, tx, p.CompanyID, p.ID, before, p.Metadata)
}

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

// setState sets a payment's state, and Received, Released and Fulfilled accordingly.
func (m *Payment) setState(to State) {
	m.State = to
	m.Received, m.Released, m.Fulfilled = flags(to)
}

// payments reads the payments of a payroll in the order of to_pay: those in one state or, for "", all.
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

// paymentTexts adds the payee, invoice and description of payments of a payroll to the map, by payment ID.
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

// payment reads one payment. found is false if there is none.
func (p *Payroll) payment(ctx context.Context, tx *db.Tx, id string) (Payment, bool, error) {
	m, err := p.scanPayment(tx.QueryRow(ctx, "SELECT "+paymentColumns+` FROM payments
		WHERE company_id = $1 AND payroll_id = $2 AND payment_id = $3`, p.CompanyID, p.ID, id).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return m, false, nil
	}
	return m, err == nil, err
}

// flags returns the values of Received, Released and Fulfilled of a payment in a state.
func flags(to State) (received, released, fulfilled bool) {
	switch to {
	case Received:
		received = true
	case Released, ActionRequired, OnHold, Returned:
		received, released = true, true
	case Fulfilled:
		received, released, fulfilled = true, true, true
	default: // a payment that is not funded has none of the flags
	}
	return received, released, fulfilled
}

// PaidBefore reports whether a company paid a payee before a time.
func PaidBefore(ctx context.Context, tx *db.Tx, companyID, payeeID string, at time.Time) (bool, error) {
	var n int64
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM payments m
		JOIN outputs o ON o.company_id = m.company_id AND o.payroll_id = m.payroll_id AND o.payment_id = m.payment_id
		WHERE m.company_id = $1 AND m.payee_id = $2 AND o.queued_at < $3`, companyID, payeeID, db.Micros(at)).Scan(&n)
	return n > 0, err
}

// lastPaid returns the time at which the company last paid each payee that it has paid.
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

// earlierPayments returns the largest of the last payments of other payrolls in this payroll's currency to payees, by
// payee ID, and the number of payments to them in other payrolls created since a time, in every currency and also if
// they wait for an approval or their release.
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

// insertContents stores what the first approval of a payroll refers to. Later approvals do not change it.
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

// approvedContents returns the digests of the payments that were approved, by payment ID; none without an approval.
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

// approveContent replaces what was approved of a payment, if there is an approval.
func (p *Payroll) approveContent(ctx context.Context, tx *db.Tx, a approved) error {
	_, err := tx.Exec(ctx, `UPDATE approved_payments SET content = $1
		WHERE company_id = $2 AND payroll_id = $3 AND payment_id = $4`, a.content, p.CompanyID, p.ID, a.paymentID)
	return err
}

// deleteContents deletes what was approved of a payroll whose payments change.
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

// heldFor returns the IDs of a company's payrolls that are on hold for a reason.
func heldFor(ctx context.Context, tx *db.Tx, companyID, reason string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT payroll_id FROM payrolls
		WHERE company_id = $1 AND state = 'on_hold' AND hold_reason = $2 ORDER BY payroll_id`, companyID, reason)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// heldForDebts returns the IDs of a company's payrolls whose funding was reversed after the release. Also those that
// have ended may have payouts on hold.
func heldForDebts(ctx context.Context, tx *db.Tx, companyID string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT payroll_id FROM payrolls WHERE company_id = $1
		AND (state = 'on_hold' AND hold_reason = $2
			OR (state IN ('released', 'fulfilled', 'partially_fulfilled') OR state = 'on_hold' AND held_from = 'released')
			AND funding_state NOT IN ('funded', 'over')) ORDER BY payroll_id`, companyID, ReasonReverted)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// going returns the IDs of a company's payrolls that may still send payments.
func going(ctx context.Context, tx *db.Tx, companyID string) ([]string, error) {
	rows, err := tx.Query(ctx,
		"SELECT payroll_id FROM payrolls WHERE company_id = $1 AND state IN ('received', 'released') ORDER BY payroll_id",
		companyID)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// endedWithUnsent returns the IDs of a company's payrolls that have ended and have payouts that may still be sent.
func endedWithUnsent(ctx context.Context, tx *db.Tx, companyID string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT p.payroll_id FROM payrolls p WHERE p.company_id = $1
		AND p.state = 'partially_fulfilled' AND EXISTS (SELECT 1 FROM outputs o WHERE o.company_id = p.company_id
			AND o.payroll_id = p.payroll_id AND o.state IN ('queued', 'prepared', 'sent', 'in_doubt'))
		ORDER BY p.payroll_id`, companyID)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// endedOnHold returns the IDs of a company's payrolls that have ended, whose funding is complete, and that have payouts
// on hold.
func endedOnHold(ctx context.Context, tx *db.Tx, companyID string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT p.payroll_id FROM payrolls p WHERE p.company_id = $1
		AND p.state IN ('fulfilled', 'partially_fulfilled') AND p.funding_state IN ('funded', 'over')
		AND EXISTS (SELECT 1 FROM outputs o WHERE o.company_id = p.company_id AND o.payroll_id = p.payroll_id AND o.on_hold)
		ORDER BY p.payroll_id`, companyID)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// updatePayments writes the next version of payments, which must all have the same state and version. It fails if one
// of them has changed since it was read, or if another payment of the payroll has that state and version too.
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

// setSurcharge stores what the company pays for a waiting payment on top of its amount.
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

// setEarned stores what was posted for the platform so far. It fails if that has changed since the payroll was read.
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

// receipts reads the receipts of a payroll: for each deposit, how it is posted.
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

// CountOpenPayments returns the number of a payee's payments that have not ended, in all payrolls of the company, and
// the creation time of the newest payroll with one of them, zero if there is none.
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

// PayeePayment is a payment with what its payroll is known by.
type PayeePayment struct {
	Payment
	ExternalID string // the company's reference of the payroll; may be empty
	CreatedAt  time.Time
}

// seenByPayee selects the payments that their payees see: those of funded payrolls that need no approval.
const seenByPayee = `AND m.state NOT IN ('pending', 'cancelled')
	AND NOT (p.state = 'on_hold' AND p.hold_reason = 'approval_required')`

// EarnedPayment is a payment with the time at which it had arrived, or zero.
type EarnedPayment struct {
	PayeePayment
	ArrivedAt time.Time
}

// EarnedPayments returns the payments of a company to a payee that had arrived in [from, to) and, if open is set, those
// of funded payrolls that have not. It is what a payee may see: payrolls that are not funded are the company's plans.
func EarnedPayments(ctx context.Context, tx *db.Tx, companyID, payeeID string, from, to time.Time, open bool) (
	all []EarnedPayment, err error) {
	const arrived = `COALESCE((SELECT MAX(h.at) FROM history h WHERE h.company_id = m.company_id
		AND h.object_id = m.payment_id AND h.to_state = 'fulfilled'), 0)`
	rows, err := tx.Query(ctx, `SELECT CASE WHEN m.state = 'fulfilled' THEN `+arrived+` ELSE 0 END,
			p.payroll_id, p.external_id, p.currency, p.created_at, `+
		ofPayments()+` FROM payments m
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
	rows, err := tx.Query(ctx, `SELECT p.payroll_id, p.external_id, p.currency, p.created_at, `+
		ofPayments()+` FROM payments m
		JOIN payrolls p ON p.company_id = m.company_id AND p.payroll_id = m.payroll_id
		WHERE m.company_id = $1 AND m.payee_id = $2 `+rest, args...)
	return db.Collect(rows, err, scanPayeePayment)
}

func scanPayeePayment(r *db.Rows) (m PayeePayment, err error) { return scanPayeePaymentAfter(r) }

// scanPayeePaymentAfter scans a payment that other columns precede.
func scanPayeePaymentAfter(r *db.Rows, before ...any) (m PayeePayment, err error) {
	var p Payroll
	var created int64
	m.Payment, err = p.scanPayment(func(to ...any) error {
		return r.Scan(slices.Concat(before, []any{&p.ID, &m.ExternalID, &p.Currency, &created}, to)...)
	})
	m.PayrollID, m.CreatedAt = p.ID, db.Time(created)
	return m, err
}

// listPayments returns a page of the payments of a company, and their total number.
func listPayments(ctx context.Context, tx *db.Tx, companyID string, f PaymentFilter) ([]PayeePayment, int64, error) {
	l := &db.List{
		Columns: "p.payroll_id, p.external_id, p.currency, p.created_at, " +
			ofPayments(),
		Table: "payments m JOIN payrolls p ON p.company_id = m.company_id AND p.payroll_id = m.payroll_id",
		ID:    "m.payment_id", Time: "p.created_at", Page: f.Page,
	}
	l.Where("m.company_id = ?", companyID)
	if f.PayeeID != "" {
		l.Where("m.payee_id = ?", f.PayeeID)
	}
	if f.State != "" {
		l.Where("m.state = ?", string(f.State))
	}
	metadata.Conditions("m.payment_id", companyID, f.Metadata, l.Where)
	l.Created(f.From, f.To)
	return db.ReadPage(ctx, tx, l, scanPayeePayment)
}

// FixedRate is the rate at which a payroll is funded, and when the payroll was created.
type FixedRate struct {
	Rate money.Rate // of the funding currency, in the payroll's; zero without an exchange
	At   time.Time
}

// FixedRates returns the rates of payrolls of a company by ID.
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
// came back, and was not paid again, is not among them.
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

// ofPayments returns the columns of payments, qualified by the alias m.
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

// ListHeld returns payrolls of all companies that are on hold, longest first. Only for staff.
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

// IsPayroll reports whether an ID is that of a payroll.
func IsPayroll(objectID string) bool { return strings.HasPrefix(objectID, "prl_") }

// AwaitsRelease reports whether a payroll is on hold until two staff members release it.
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

// dueByBank returns the IDs of at most two payrolls that wait for a transfer of exactly this amount.
func dueByBank(ctx context.Context, tx *db.Tx, companyID string, amount money.Amount) ([]string, error) {
	rows, err := tx.Query(ctx,
		`SELECT payroll_id FROM payrolls WHERE company_id = $1 AND state = 'pending' AND funding_method = 'bank'
		AND funding_currency = $2 AND total - escrow = $3 ORDER BY payroll_id
		LIMIT 2`, companyID, string(amount.Asset()), amount.Units())
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// CompanyOf returns the ID of the company that a payroll belongs to, "" if there is no such payroll.
func CompanyOf(ctx context.Context, tx *db.Tx, payrollID string) (company string, err error) {
	err = tx.QueryRow(ctx, "SELECT company_id FROM payrolls WHERE payroll_id = $1", payrollID).Scan(&company)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return company, err
}

// Issues returns the company's payrolls with payments that need attention, newest first, at most a hundred.
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

// PaidByDay returns the sums of the company's fulfilled payments by the day (UTC) on which their payrolls were
// created, from a time on, oldest first.
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

// OpenCounts returns the number of payrolls by state, for states in which something is still to be done.
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
