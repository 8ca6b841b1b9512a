package payroll

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/metadata"
	"github.com/stipend/stipend/internal/money"
)

// New payrolls are buffered and inserted at the commit, together with the payrolls of other requests in the same
// group commit.

const payrollColumns = `payroll_id, external_id, state, held_from, hold_reason, funding_state, version, currency,
	funding_method, funding_currency, payees, volume, fees, total, escrow, shortfall, rate, address, network,
	tolerance_bps, pay_date, release_at, period_start, period_end, platform_id, platform_fee_bps, platform_earned,
	metadata, created_by, created_at, updated_at`

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
		p.PayDate, releaseAt(p), p.Period.Start, p.Period.End, p.PlatformID, p.PlatformFeeBps, p.PlatformEarned.Units(),
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

// findExternal returns the ID of the payroll with an external ID, or "" if there is none.
func findExternal(ctx context.Context, tx *db.Tx, companyID, externalID string) (id string, err error) {
	err = tx.QueryRow(ctx,
		"SELECT payroll_id FROM payrolls WHERE company_id = $1 AND external_id = $2 AND external_id <> ''",
		companyID, externalID).Scan(&id)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return id, err
}

// findExternalPayments returns the IDs of the payrolls that pay external payment IDs, by external payment ID. An ID
// that no payroll pays is missing.
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

// findKey returns the ID of the payroll that was created from a form with this idempotency key, or "" if there is
// none.
func findKey(ctx context.Context, tx *db.Tx, companyID, key string) (id string, err error) {
	err = tx.QueryRow(ctx, "SELECT payroll_id FROM payroll_form_keys WHERE company_id = $1 AND idempotency_key = $2",
		companyID, key).Scan(&id)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return id, err
}

// keepKey stores the idempotency key of the form that created a payroll. first is false if a concurrent request has
// already stored the key.
func keepKey(ctx context.Context, tx *db.Tx, p *Payroll, key string) (first bool, err error) {
	n, err := tx.Exec(ctx,
		`INSERT INTO payroll_form_keys (company_id, idempotency_key, payroll_id, created_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (company_id, idempotency_key) DO NOTHING`, p.CompanyID, key, p.ID, db.Micros(p.CreatedAt))
	return n == 1, err
}

// formKeysKept is how long the idempotency keys of forms are kept.
const formKeysKept = 30 * 24 * time.Hour

// ForgetFormKeys deletes expired idempotency keys of forms.
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
		&p.PayDate, &release, &p.Period.Start, &p.Period.End, &p.PlatformID, &p.PlatformFeeBps, &earned, &texts,
		&p.CreatedBy, &created, &updated); err != nil {
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

// replacePayments stores the next version of an edited payroll, and replaces the payments of the previous version.
func (p *Payroll) replacePayments(ctx context.Context, tx *db.Tx, before *Payroll) error {
	p.UpdatedAt = tx.Now()
	if err := tx.ExecOne(ctx, `UPDATE payrolls SET external_id = $1, payees = $2, volume = $3, fees = $4, total = $5,
		created_by = $6, updated_at = $7, metadata = $8, platform_id = $9, platform_fee_bps = $10, period_start = $11,
		period_end = $12, version = version + 1
		WHERE company_id = $13 AND payroll_id = $14 AND version = $15 AND state = 'pending'`,
		p.ExternalID, p.Count, p.Volume.Units(), p.Fees.Units(), p.Total.Units(), p.CreatedBy, db.Micros(p.UpdatedAt),
		metadata.Text(p.Metadata), p.PlatformID, p.PlatformFeeBps, p.Period.Start, p.Period.End, p.CompanyID, p.ID,
		p.Version); err != nil {
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

// updateMetadata stores the next version of a payroll with changed metadata.
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
