package invoice

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/metadata"
	"github.com/stipend/stipend/internal/money"
)

const columns = `user_id, invoice_id, company_id, payer_id, number, status, currency, subtotal, tax, total, paid,
	issue_date, due_date, document,
	content, link, metadata, payroll_id, payment_id, version, created_at, updated_at`

// Lock reads an invoice of a user, without content, and makes other writers of the invoice wait until this
// transaction ends.
func Lock(ctx context.Context, tx *db.Tx, userID, id string) (Invoice, error) {
	v, err := scan(tx.QueryRow(ctx, `UPDATE invoices SET version = version WHERE user_id = $1 AND invoice_id = $2
		RETURNING `+columns, userID, id).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Invoice{}, ErrNotFound
	}
	return v, err
}

// insert inserts an invoice and reports whether its number was free. The unique index decides between concurrent
// transactions.
func insert(ctx context.Context, tx *db.Tx, v Invoice) (bool, error) {
	n, err := tx.Exec(ctx, `INSERT INTO invoices (`+columns+`) VALUES `+db.Placeholders(1, 22, 1)+` ON CONFLICT
		DO NOTHING`,
		v.UserID, v.ID, v.CompanyID, v.PayerID, v.Number, string(v.Status), string(v.Currency), v.Subtotal.Units(),
		v.Tax.Units(), v.Total.Units(),
		v.Paid.Units(), v.IssueDate, v.DueDate, v.Document, v.sealed, v.link,
		metadata.Text(v.Metadata), v.PayrollID, v.PaymentID, v.Version, db.Micros(v.CreatedAt),
		db.Micros(v.UpdatedAt))
	return n == 1, err
}

func scan(scan func(...any) error) (v Invoice, err error) {
	var status, currency, texts string
	var subtotal, tax, total, paid, created, updated int64
	err = scan(&v.UserID, &v.ID, &v.CompanyID, &v.PayerID, &v.Number, &status, &currency, &subtotal, &tax, &total, &paid,
		&v.IssueDate, &v.DueDate, &v.Document,
		&v.sealed, &v.link, &texts, &v.PayrollID, &v.PaymentID, &v.Version, &created, &updated)
	if err != nil {
		return v, err
	}
	v.Status, v.Currency, v.CreatedAt, v.UpdatedAt = Status(status), money.Asset(currency), db.Time(created),
		db.Time(updated)
	v.Subtotal, v.Tax = money.New(v.Currency, subtotal), money.New(v.Currency, tax)
	v.Total, v.Paid = money.New(v.Currency, total), money.New(v.Currency, paid)
	v.Metadata, err = metadata.Parse(texts)
	return v, err
}

func find(ctx context.Context, tx *db.Tx, userID, id string) (Invoice, error) {
	v, err := scan(tx.QueryRow(ctx, "SELECT "+columns+" FROM invoices WHERE user_id = $1 AND invoice_id = $2", userID,
		id).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Invoice{}, ErrNotFound
	}
	return v, err
}

func findByLink(ctx context.Context, tx *db.Tx, digest string) (Invoice, error) {
	v, err := scan(tx.QueryRow(ctx, "SELECT "+columns+" FROM invoices WHERE link = $1 AND link <> ''", digest).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Invoice{}, ErrNotFound
	}
	return v, err
}

func byNumber(ctx context.Context, tx *db.Tx, userID, number string) (id string, err error) {
	err = tx.QueryRow(ctx, "SELECT invoice_id FROM invoices WHERE user_id = $1 AND number = $2 AND status <> 'void'",
		userID, number).Scan(&id)
	return id, err
}

func countOf(ctx context.Context, tx *db.Tx, userID string) (n int64, err error) {
	err = tx.QueryRow(ctx, "SELECT COUNT(*) FROM invoices WHERE user_id = $1", userID).Scan(&n)
	return n, err
}

// Open returns a user's invoices in a currency that are owed and in no payroll, oldest first, without content. It
// returns no bills, because only payrolls pay bills.
func Open(ctx context.Context, tx *db.Tx, userID string, currency money.Asset) ([]Invoice, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+` FROM invoices WHERE user_id = $1 AND currency = $2
		AND status IN ('sent', 'partially_paid') AND payer_id <> ''
		ORDER BY created_at, invoice_id`, userID, string(currency))
	return db.Collect(rows, err, func(r *db.Rows) (Invoice, error) { return scan(r.Scan) })
}

// Named returns the invoices that a payroll names, by ID, without content. Unknown IDs are missing.
func Named(ctx context.Context, tx *db.Tx, ids []string) (map[string]Invoice, error) {
	found := make(map[string]Invoice, len(ids))
	for some := range slices.Chunk(ids, 256) {
		args := make([]any, len(some))
		for i, id := range some {
			args[i] = id
		}
		rows, err := tx.Query(ctx, "SELECT "+columns+" FROM invoices WHERE invoice_id IN (VALUES "+db.Placeholders(len(some),
			1, 1)+")", args...)
		all, err := db.Collect(rows, err, func(r *db.Rows) (Invoice, error) { return scan(r.Scan) })
		if err != nil {
			return nil, err
		}
		for _, v := range all {
			found[v.ID] = v
		}
	}
	return found, nil
}

// update stores the next version of an invoice. It fails if the invoice has changed since it was read, for example
// because another payroll has taken it.
func update(ctx context.Context, tx *db.Tx, v *Invoice, from Status) error {
	n, err := tx.Exec(ctx, `UPDATE invoices SET status = $1, paid = $2, payroll_id = $3, payment_id = $4, updated_at = $5,
		metadata = $6, version = version + 1
		WHERE user_id = $7 AND invoice_id = $8 AND version = $9 AND status = $10`,
		string(v.Status), v.Paid.Units(), v.PayrollID, v.PaymentID, db.Micros(v.UpdatedAt),
		metadata.Text(v.Metadata), v.UserID, v.ID, v.Version, string(from))
	if err != nil {
		return err
	}
	if n != 1 {
		return db.ErrConflict
	}
	v.Version++
	return nil
}

func findOfCompany(ctx context.Context, tx *db.Tx, companyID, id string) (Invoice, error) {
	v, err := scan(tx.QueryRow(ctx, "SELECT "+columns+" FROM invoices WHERE company_id = $1 AND invoice_id = $2 AND "+
		toCompany, companyID, id).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Invoice{}, ErrNotFound
	}
	return v, err
}

// list returns a page of the invoices that meet the SQL condition owner, with the parameter id.
func list(ctx context.Context, tx *db.Tx, owner, id string, f Filter) ([]Invoice, int64, error) {
	l := &db.List{Columns: columns, Table: "invoices", ID: "invoice_id", Time: "created_at", Page: f.Page}
	l.Where(owner, id)
	today := tx.Now().Format(time.DateOnly)
	switch {
	case f.Open:
		l.Where("status IN ('sent', 'partially_paid') AND " + ofPayees)
	case f.Status == "":
		l.Where("status <> 'void'")
	case f.Status == Overdue:
		l.Where("status IN ('sent', 'partially_paid') AND due_date < ?", today)
	case f.Status == Sent || f.Status == PartiallyPaid:
		l.Where("status = ? AND due_date >= ?", string(f.Status), today)
	default:
		l.Where("status = ?", string(f.Status))
	}
	if f.Currency != "" {
		l.Where("currency = ?", string(f.Currency))
	}
	if f.UserID != "" {
		l.Where("user_id = ?", f.UserID)
	}
	if f.PayerID != "" {
		l.Where("payer_id = ?", f.PayerID)
	}
	if f.Number != "" {
		is, pattern := tx.Begins(f.Number)
		l.Where("number "+is+" ?", pattern)
	}
	metadata.Conditions("invoice_id", id, f.Metadata, l.Where)
	l.Created(f.From, f.To)
	return db.ReadPage(ctx, tx, l, func(r *db.Rows) (Invoice, error) { return scan(r.Scan) })
}

// Owed is the number of the open invoices in one currency, and the sum of the amounts due on them.
type Owed struct {
	Count int64
	Due   money.Amount
}

// OwedBy returns the sums due on a company's open invoices and bills, by currency. It leaves out invoices of people
// who are not active payees of the company.
func OwedBy(ctx context.Context, tx *db.Tx, by identity.Principal) ([]Owed, error) {
	company, err := by.Company("")
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `SELECT currency, COUNT(*), CAST(SUM(total - paid) AS BIGINT) FROM invoices
		WHERE company_id <> '' AND company_id = $1 AND status IN ('sent', 'partially_paid')
		AND `+ofPayees+` AND `+toCompany+`
		GROUP BY currency ORDER BY currency`, company)
	return db.Collect(rows, err, func(r *db.Rows) (o Owed, err error) {
		var currency string
		var due int64
		err = r.Scan(&currency, &o.Count, &due)
		o.Due = money.New(money.Asset(currency), due)
		return o, err
	})
}

// ofPayees is the SQL condition for invoices of payees of the company.
const ofPayees = `EXISTS (SELECT 1 FROM recipients p WHERE p.company_id = invoices.company_id
	AND p.recipient_id = invoices.user_id AND p.status <> 'inactive')`

// toCompany is the SQL condition for bills, and for invoices whose payer is the company itself.
const toCompany = `(payer_id = '' OR EXISTS (SELECT 1 FROM payers y WHERE y.owner_id = invoices.user_id
	AND y.payer_id = invoices.payer_id AND y.is_company AND y.company_id = invoices.company_id))`
