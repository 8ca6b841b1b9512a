package recipient

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/fault"
)

const columns = `company_id, recipient_id, relationship_id, user_id, recipient_type, role, status, name, first_name, last_name,
	email, country, external_id, department, vendor_type, version, created_at`

func scan(scan func(...any) error) (r Recipient, err error) {
	var created int64
	err = scan(&r.CompanyID, &r.ID, &r.RelationshipID, &r.UserID, &r.Type, &r.Role, &r.Status, &r.Name, &r.FirstName, &r.LastName,
		&r.Email, &r.Country, &r.ExternalID, &r.Department, &r.VendorType, &r.Version, &created)
	r.Created = db.Time(created)
	return r, err
}

const insertRow = `INSERT INTO recipients (` + columns + `, name_key, email_key, details, onboarded, updated_at)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)`

func values(r Recipient, details string, onboarded bool) []any {
	at := db.Micros(r.Created)
	return []any{r.CompanyID, r.ID, r.RelationshipID, r.UserID, r.Type, r.Role, r.Status, r.Name, r.FirstName, r.LastName,
		r.Email, r.Country, r.ExternalID, r.Department, r.VendorType, r.Version, at, key(r.Name), key(r.Email), details, onboarded, at}
}

// insert lets the unique index decide who has an external id, and then looks who it was: also when both are
// written at the same moment, the second writer waits for the first and reads its row.
func insert(ctx context.Context, tx *db.Tx, r Recipient, details string) error {
	n, err := tx.Exec(ctx, insertRow+" ON CONFLICT DO NOTHING", values(r, details, false)...)
	if err != nil || n == 1 {
		return err
	}
	var existing string
	err = tx.QueryRow(ctx, "SELECT recipient_id FROM recipients WHERE company_id = $1 AND external_id = $2", r.CompanyID, r.ExternalID).Scan(&existing)
	if err != nil {
		return err
	}
	return ErrExternalID.Set("recipient_id", existing).At("body", "/external_id")
}

// upsertWorker says whether the row is new. An old one keeps its role, state and history.
func upsertWorker(ctx context.Context, tx *db.Tx, r Recipient, onboarded bool) (added bool, err error) {
	n, err := tx.Exec(ctx, insertRow+" ON CONFLICT (company_id, recipient_id) DO NOTHING", values(r, "", onboarded)...)
	if err != nil || n == 1 {
		return n == 1, err
	}
	_, err = tx.Exec(ctx, `UPDATE recipients SET name = $3, name_key = $4, first_name = $5, last_name = $6, email = $7, email_key = $8,
			country = $9, onboarded = $10, updated_at = $11
		WHERE company_id = $1 AND recipient_id = $2`,
		r.CompanyID, r.ID, r.Name, key(r.Name), r.FirstName, r.LastName, r.Email, key(r.Email), r.Country, onboarded, db.Micros(tx.Now()))
	return false, err
}

func selectOne(ctx context.Context, tx *db.Tx, companyID, id string) (Recipient, error) {
	r, err := scan(tx.QueryRow(ctx, "SELECT "+columns+" FROM recipients WHERE company_id = $1 AND recipient_id = $2", companyID, id).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Recipient{}, fault.NotFoundErr
	}
	return r, err
}

func selectDetails(ctx context.Context, tx *db.Tx, companyID, id string) (details string, err error) {
	return details, tx.QueryRow(ctx, "SELECT details FROM recipients WHERE company_id = $1 AND recipient_id = $2", companyID, id).Scan(&details)
}

// chunkSizes are the few lengths of an IN list, so that few statement texts exist and stay prepared. A shorter list is
// filled up with its last id.
var chunkSizes = [...]int{1, 8, 64, 512, 2048}

func selectPayees(ctx context.Context, tx *db.Tx, companyID string, ids []string) (map[string]Payee, error) {
	payees := make(map[string]Payee, len(ids))
	for ids := range slices.Chunk(ids, chunkSizes[len(chunkSizes)-1]) {
		size := chunkSizes[slices.IndexFunc(chunkSizes[:], func(size int) bool { return size >= len(ids) })]
		args := make([]any, 0, size+1)
		args = append(args, companyID)
		for i := range size {
			args = append(args, ids[min(i, len(ids)-1)])
		}
		rows, err := tx.Query(ctx, `SELECT recipient_id, user_id, recipient_type, name, status, country
			FROM recipients WHERE company_id = $1 AND recipient_id IN `+db.Placeholders(1, size, 2), args...)
		found, err := db.Collect(rows, err, func(r *db.Rows) (p Payee, err error) {
			return p, r.Scan(&p.ID, &p.UserID, &p.Kind, &p.Name, &p.Status, &p.Country)
		})
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			payees[p.ID] = p
		}
	}
	return payees, nil
}

// activate is the guard: pending, and all of a payment has a destination.
func activate(ctx context.Context, tx *db.Tx, companyID, id string) (r Recipient, moved bool, err error) {
	r, err = scan(tx.QueryRow(ctx, `UPDATE recipients SET status = 'active', version = version + 1, updated_at = $3
		WHERE company_id = $1 AND recipient_id = $2 AND status = 'pending'
			AND (SELECT COALESCE(SUM(allocation), 0) FROM distributions WHERE owner_id = $2) = 100
		RETURNING `+columns, companyID, id, db.Micros(tx.Now())).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Recipient{}, false, nil
	}
	return r, err == nil, err
}

// companiesWaitingFor lists where a person works and is not active yet: the one question that a person's own change
// asks across companies, for which there is an index by user.
func companiesWaitingFor(ctx context.Context, tx *db.Tx, userID string) ([]string, error) {
	rows, err := tx.Query(ctx, "SELECT company_id FROM recipients WHERE user_id = $1 AND user_id <> '' AND status = 'pending' ORDER BY company_id", userID)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// filter is a WHERE clause under construction; every value is bound.
type filter struct {
	where []string
	args  []any
}

func (f *filter) bind(value any) string {
	f.args = append(f.args, value)
	return "$" + strconv.Itoa(len(f.args))
}

func (f *filter) equal(column, value string) {
	if value != "" {
		f.where = append(f.where, column+" = "+f.bind(value))
	}
}

func (f *filter) String() string { return " WHERE " + strings.Join(f.where, " AND ") }

var likeEscape = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// orders maps what a client may sort by to columns. Ids make every order total, so pages never overlap.
var orders = map[string][2]string{ // SortBy → ascending, descending
	"name":    {"name_key, recipient_id", "name_key DESC, recipient_id DESC"},
	"email":   {"email_key, recipient_id", "email_key DESC, recipient_id DESC"},
	"created": {"created_at, recipient_id", "created_at DESC, recipient_id DESC"},
}

func order(p ListParams) string {
	by, dir := p.SortBy, p.SortDir
	if by == "" {
		by = "created"
		if dir == "" {
			dir = "desc"
		}
	}
	if dir == "desc" {
		return orders[by][1]
	}
	return orders[by][0]
}

func selectPage(ctx context.Context, tx *db.Tx, p ListParams) (Slice[Recipient], error) {
	var f filter
	f.equal("company_id", p.CompanyID)
	f.equal("role", p.Role)
	f.equal("recipient_type", p.Type)
	f.equal("status", p.Status)
	f.equal("country", p.Country)
	if p.Search != "" {
		like := f.bind("%" + likeEscape.Replace(key(p.Search)) + "%")
		f.where = append(f.where, `(name_key LIKE `+like+` ESCAPE '\' OR email_key LIKE `+like+` ESCAPE '\')`)
	}
	return page(ctx, tx, p.Page, "recipients", columns, f, order(p), func(r *db.Rows) (Recipient, error) { return scan(r.Scan) })
}

func selectWorkers(ctx context.Context, tx *db.Tx, p WorkersParams) (Slice[Worker], error) {
	var f filter
	f.equal("company_id", p.CompanyID)
	f.where = append(f.where, "user_id <> ''")
	f.equal("recipient_id", p.UserID)
	f.equal("email_key", key(strings.TrimSpace(p.Email)))
	return page(ctx, tx, p.Page, "recipients", `user_id, email, first_name, last_name, onboarded, status,
			EXISTS (SELECT 1 FROM distributions d WHERE d.owner_id = recipients.recipient_id)`, f, "created_at, recipient_id",
		func(r *db.Rows) (w Worker, err error) {
			var onboarded bool
			var status string
			err = r.Scan(&w.UserID, &w.Email, &w.FirstName, &w.LastName, &onboarded, &status, &w.HasDistributions)
			w.OnboardingComplete = onboarded && status == Active
			return w, err
		})
}

// page counts what matches and reads one page of it, from one snapshot.
func page[T any](ctx context.Context, tx *db.Tx, p Page, table, columns string, f filter, order string, scan func(*db.Rows) (T, error)) (Slice[T], error) {
	s := Slice[T]{Items: []T{}, Page: p}
	if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM "+table+f.String(), f.args...).Scan(&s.Total); err != nil {
		return Slice[T]{}, err
	}
	offset, ok := p.offset(s.Total)
	if !ok {
		return s, nil
	}
	limit, skip := f.bind(int64(p.PerPage)), f.bind(int64(offset))
	rows, err := tx.Query(ctx, "SELECT "+columns+" FROM "+table+f.String()+" ORDER BY "+order+" LIMIT "+limit+" OFFSET "+skip, f.args...)
	items, err := db.Collect(rows, err, scan)
	if err != nil {
		return Slice[T]{}, err
	}
	s.Items = append(s.Items, items...)
	return s, nil
}
