package payee

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

const columns = `company_id, recipient_id, relationship_id, user_id, recipient_type, role, status, name, first_name,
	last_name,
	email, country, external_id, department, vendor_type, version, created_at`

func scan(scan func(...any) error) (r Recipient, err error) {
	var created int64
	err = scan(&r.CompanyID, &r.ID, &r.RelationshipID, &r.UserID, &r.Type, &r.Role, &r.Status, &r.Name, &r.FirstName,
		&r.LastName,
		&r.Email, &r.Country, &r.ExternalID, &r.Department, &r.VendorType, &r.Version, &created)
	r.Created = db.Time(created)
	return r, err
}

const insertRow = `INSERT INTO recipients (` + columns + `, name_key, email_key, details, onboarded, updated_at)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)`

func values(r Recipient, details string, onboarded bool) []any {
	at := db.Micros(r.Created)
	return []any{r.CompanyID, r.ID, r.RelationshipID, r.UserID, r.Type, r.Role, r.Status, r.Name, r.FirstName, r.LastName,
		r.Email, r.Country, r.ExternalID, r.Department, r.VendorType, r.Version, at, key(r.Name), key(r.Email), details,
		onboarded, at}
}

// insert inserts a recipient. The unique index decides who has an external ID: if two transactions insert it
// concurrently, the second waits for the first, then reads and returns the first one's row.
func insert(ctx context.Context, tx *db.Tx, r Recipient, details string) error {
	n, err := tx.Exec(ctx, insertRow+" ON CONFLICT DO NOTHING", values(r, details, false)...)
	if err != nil {
		return err
	}
	if n == 1 {
		countNew(tx, r)
		return nil
	}
	var existing string
	err = tx.QueryRow(ctx, "SELECT recipient_id FROM recipients WHERE company_id = $1 AND external_id = $2", r.CompanyID,
		r.ExternalID).Scan(&existing)
	if err != nil {
		return err
	}
	return ErrExternalID.Set("recipient_id", existing).At("body", "/external_id")
}

// insertMany inserts recipients in few statements. If a concurrent transaction takes one of their external IDs, the
// commit fails on the unique index, and the import runs again and finds it taken.
func insertMany(ctx context.Context, tx *db.Tx, people []importing) error {
	names := strings.FieldsFunc(columns+", name_key, email_key, details, onboarded, updated_at",
		func(r rune) bool { return strings.ContainsRune(", \n\t", r) })
	rows := make([][]any, len(people))
	for i := range people {
		rows[i] = values(people[i].r, people[i].details, false)
		countNew(tx, people[i].r)
	}
	return tx.Insert(ctx, "recipients", names, rows)
}

// externalIDs returns the recipients of the company that have one of the external IDs.
func externalIDs(ctx context.Context, tx *db.Tx, companyID string, people []importing) (map[string]string, error) {
	var wanted []string
	for i := range people {
		if id := people[i].r.ExternalID; id != "" {
			wanted = append(wanted, id)
		}
	}
	found := map[string]string{}
	for in, args := range db.BindList(tx, wanted, 2) {
		rows, err := tx.Query(ctx,
			"SELECT external_id, recipient_id FROM recipients WHERE company_id = $1 AND external_id <> '' AND external_id IN "+
				""+in,
			append([]any{companyID}, args...)...)
		_, err = db.Collect(rows, err, func(r *db.Rows) (none struct{}, err error) {
			var external, id string
			err = r.Scan(&external, &id)
			found[external] = id
			return none, err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// upsertWorker inserts a worker and reports whether the row is new. An existing row keeps its role, state and
// history.
func upsertWorker(ctx context.Context, tx *db.Tx, r Recipient, onboarded bool) (added bool, err error) {
	n, err := tx.Exec(ctx, insertRow+" ON CONFLICT (company_id, recipient_id) DO NOTHING", values(r, "", onboarded)...)
	if err != nil {
		return false, err
	}
	if n == 1 {
		countNew(tx, r)
		return true, nil
	}
	return false, refresh(ctx, tx, r, onboarded)
}

// refresh copies a user's profile to the worker's row of one company, if there is one.
func refresh(ctx context.Context, tx *db.Tx, r Recipient, onboarded bool) error {
	for {
		old, err := selectOne(ctx, tx, r.CompanyID, r.ID)
		if errors.Is(err, apierr.NotFoundErr) {
			return nil
		}
		if err != nil {
			return err
		}
		changed, done, err := guarded(tx.QueryRow(ctx, `UPDATE recipients SET name = $3, name_key = $4, first_name = $5,
			last_name = $6, email = $7,
				email_key = $8, country = $9, onboarded = $10, updated_at = $11
			WHERE company_id = $1 AND recipient_id = $2 AND country = $12 AND status = $13 AND role = $14
			RETURNING `+columns,
			r.CompanyID, r.ID, r.Name, key(r.Name), r.FirstName, r.LastName, r.Email, key(r.Email), r.Country, onboarded,
			db.Micros(tx.Now()),
			old.Country, old.Status, old.Role))
		if err != nil {
			return err
		}
		if done {
			countMoved(tx, old.segment(), changed.segment())
			return nil
		}
	}
}

func refreshWorker(ctx context.Context, tx *db.Tx, companyID string, u identity.User) error {
	return refresh(ctx, tx, Recipient{
		CompanyID: companyID, ID: u.ID, Name: u.Name(), FirstName: u.FirstName, LastName: u.LastName, Email: u.Email,
		Country: u.Country,
	}, u.Complete)
}

// companiesOf returns the companies that pay a user.
func companiesOf(ctx context.Context, tx *db.Tx, userID string) ([]string, error) {
	rows, err := tx.Query(ctx,
		"SELECT company_id FROM recipients WHERE user_id = $1 AND user_id <> '' ORDER BY company_id", userID)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

func selectOne(ctx context.Context, tx *db.Tx, companyID, id string) (Recipient, error) {
	r, err := scan(tx.QueryRow(ctx, "SELECT "+columns+" FROM recipients WHERE company_id = $1 AND recipient_id = $2",
		companyID, id).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Recipient{}, apierr.NotFoundErr
	}
	return r, err
}

func selectDetails(ctx context.Context, tx *db.Tx, companyID, id string) (details string, err error) {
	return details, tx.QueryRow(ctx, "SELECT details FROM recipients WHERE company_id = $1 AND recipient_id = $2",
		companyID, id).Scan(&details)
}

func selectPayees(ctx context.Context, tx *db.Tx, companyID string, ids []string) (map[string]Payee, error) {
	payees := make(map[string]Payee, len(ids))
	for in, args := range db.BindList(tx, ids, 2) {
		rows, err := tx.Query(ctx, `SELECT recipient_id, user_id, recipient_type, name, status, country, email
			FROM recipients WHERE company_id = $1 AND recipient_id IN `+in, append([]any{companyID}, args...)...)
		found, err := db.Collect(rows, err, func(r *db.Rows) (p Payee, err error) {
			return p, r.Scan(&p.ID, &p.UserID, &p.Kind, &p.Name, &p.Status, &p.Country, &p.Email)
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

// Resolve finds the company's payees by ID, external ID or email address. Names that match no payee or several are
// missing from the result.
func Resolve(ctx context.Context, tx *db.Tx, companyID string, names []string) (map[string]string, error) {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = key(name)
	}
	found := make(map[string]string, len(names))
	for _, by := range []struct {
		column string
		names  []string
	}{{"email_key", keys}, {"external_id", names}, {"recipient_id", names}} { // later entries take precedence
		several := map[string]bool{}
		ids := map[string]string{}
		for in, args := range db.BindList(tx, by.names, 2) {
			rows, err := tx.Query(ctx,
				"SELECT "+by.column+", recipient_id FROM recipients WHERE company_id = $1 AND "+by.column+" <> '' AND "+
					""+by.column+" IN "+in,
				append([]any{companyID}, args...)...)
			_, err = db.Collect(rows, err, func(r *db.Rows) (none struct{}, err error) {
				var name, id string
				err = r.Scan(&name, &id)
				several[name] = several[name] || ids[name] != "" && ids[name] != id
				ids[name] = id
				return none, err
			})
			if err != nil {
				return nil, err
			}
		}
		for i, name := range by.names {
			switch {
			case several[name]:
				delete(found, names[i])
			case ids[name] != "":
				found[names[i]] = ids[name]
			}
		}
	}
	return found, nil
}

// Vendors returns those of the company's payees that are businesses or have the role vendor.
func Vendors(ctx context.Context, tx *db.Tx, companyID string, ids []string) (map[string]Payee, error) {
	vendors := make(map[string]Payee, len(ids))
	for in, args := range db.BindList(tx, ids, 2) {
		rows, err := tx.Query(ctx, `SELECT recipient_id, user_id, recipient_type, name, status, country, email
			FROM recipients WHERE company_id = $1 AND (role = 'vendor' OR recipient_type = 'company') AND recipient_id IN `+in,
			append([]any{companyID}, args...)...)
		found, err := db.Collect(rows, err, func(r *db.Rows) (p Payee, err error) {
			return p, r.Scan(&p.ID, &p.UserID, &p.Kind, &p.Name, &p.Status, &p.Country, &p.Email)
		})
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			vendors[p.ID] = p
		}
	}
	return vendors, nil
}

// settle updates a recipient's state from the allocations: active if they total 100, pending otherwise. moved is
// false if the state was right already.
func settle(ctx context.Context, tx *db.Tx, companyID, id string) (r Recipient, moved bool, err error) {
	const full = "(SELECT COALESCE(SUM(allocation), 0) FROM destinations WHERE owner_id = $2) = 100"
	r, moved, err = guarded(tx.QueryRow(ctx, `UPDATE recipients SET version = version + 1, updated_at = $3,
			status = CASE status WHEN 'pending' THEN 'active' ELSE 'pending' END
		WHERE company_id = $1 AND recipient_id = $2 AND (status = 'pending' AND `+full+` OR status = 'active'
			AND NOT `+full+`)
		RETURNING `+columns, companyID, id, db.Micros(tx.Now())))
	if moved {
		old := Pending
		if r.Status == Pending {
			old = Active
		}
		countMoved(tx, withStatus(r, old), r.segment())
	}
	return r, moved, err
}

// update writes a recipient over the version that was read as old. It reports whether that version was still the
// current one.
func update(ctx context.Context, tx *db.Tx, old, r Recipient,
	details string) (changed Recipient, done bool, err error) {
	changed, done, err = guarded(tx.QueryRow(ctx, `UPDATE recipients SET role = $4, name = $5, name_key = $6,
		first_name = $7, last_name = $8,
			email = $9, email_key = $10, country = $11, external_id = $12, department = $13, vendor_type = $14, details = $15,
			version = version + 1, updated_at = $16
		WHERE company_id = $1 AND recipient_id = $2 AND version = $3 AND country = $17
		RETURNING `+columns, r.CompanyID, r.ID, r.Version, r.Role, r.Name, key(r.Name), r.FirstName, r.LastName, r.Email,
		key(r.Email),
		r.Country, r.ExternalID, r.Department, r.VendorType, details, db.Micros(tx.Now()), old.Country))
	if done {
		countMoved(tx, old.segment(), changed.segment())
	}
	return changed, done, err
}

// freeExternalID returns ErrExternalID if another recipient has the external ID. If two transactions take one
// concurrently, the unique index fails the later one, which then runs again and gets the error here.
func freeExternalID(ctx context.Context, tx *db.Tx, r Recipient) error {
	if r.ExternalID == "" {
		return nil
	}
	var existing string
	err := tx.QueryRow(ctx,
		"SELECT recipient_id FROM recipients WHERE company_id = $1 AND external_id = $2 AND external_id <> '' AND "+
			"recipient_id <> $3",
		r.CompanyID, r.ExternalID, r.ID).Scan(&existing)
	switch {
	case errors.Is(err, db.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return ErrExternalID.Set("recipient_id", existing).At("body", "/external_id")
}

func deactivate(ctx context.Context, tx *db.Tx, r Recipient) (Recipient, bool, error) {
	changed, moved, err := guarded(tx.QueryRow(ctx, `UPDATE recipients SET status = 'inactive', version = version + 1,
		updated_at = $4
		WHERE company_id = $1 AND recipient_id = $2 AND status = $3
		RETURNING `+columns, r.CompanyID, r.ID, r.Status, db.Micros(tx.Now())))
	if moved {
		countMoved(tx, withStatus(changed, r.Status), changed.segment())
	}
	return changed, moved, err
}

func reactivate(ctx context.Context, tx *db.Tx, r Recipient) (Recipient, bool, error) {
	changed, moved, err := guarded(tx.QueryRow(ctx, `UPDATE recipients SET version = version + 1, updated_at = $3,
			status = CASE WHEN (SELECT COALESCE(SUM(allocation), 0) FROM destinations
				WHERE owner_id = $2) = 100 THEN 'active' ELSE 'pending' END
		WHERE company_id = $1 AND recipient_id = $2 AND status = 'inactive'
		RETURNING `+columns, r.CompanyID, r.ID, db.Micros(tx.Now())))
	if moved {
		countMoved(tx, withStatus(changed, Inactive), changed.segment())
	}
	return changed, moved, err
}

// withStatus returns the segment of a recipient with another status.
func withStatus(r Recipient, status string) segment {
	r.Status = status
	return r.segment()
}

// guarded reads the row that a guarded statement changed and reports whether there is one.
func guarded(row db.Row) (r Recipient, changed bool, err error) {
	r, err = scan(row.Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Recipient{}, false, nil
	}
	return r, err == nil, err
}

// companiesWaitingFor returns the companies in which a person is a worker but not active yet. It is the only query
// across companies for a person's own change; an index by user answers it.
func companiesWaitingFor(ctx context.Context, tx *db.Tx, userID string) ([]string, error) {
	rows, err := tx.Query(ctx,
		"SELECT company_id FROM recipients WHERE user_id = $1 AND user_id <> '' AND status = 'pending' ORDER BY company_id",
		userID)
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

// selectRecipients reads the rows of a page, in the order of their ids in the list.
func selectRecipients(ctx context.Context, tx *db.Tx, companyID string, ids []string) ([]Recipient, error) {
	return inOrder(ctx, tx, columns, companyID, ids, func(r *db.Rows) (string, Recipient, error) {
		v, err := scan(r.Scan)
		return v.ID, v, err
	})
}

func selectWorkers(ctx context.Context, tx *db.Tx, companyID string, ids []string) ([]Worker, error) {
	return inOrder(ctx, tx, `user_id, email, first_name, last_name, onboarded, status,
			EXISTS (SELECT 1 FROM destinations d WHERE d.owner_id = recipients.recipient_id)`, companyID, ids,
		func(r *db.Rows) (id string, w Worker, err error) {
			var onboarded bool
			var status string
			err = r.Scan(&w.UserID, &w.Email, &w.FirstName, &w.LastName, &onboarded, &status, &w.HasDistributions)
			w.OnboardingComplete = onboarded && status == Active
			return w.UserID, w, err
		})
}

// inOrder reads at most a page of recipients by their IDs, in the order of the IDs.
func inOrder[T any](ctx context.Context, tx *db.Tx, columns, companyID string, ids []string,
	scan func(*db.Rows) (string, T, error)) ([]T, error) {
	items := make([]T, len(ids))
	at := make(map[string]int, len(ids))
	for i, id := range ids {
		at[id] = i
	}
	for in, args := range db.BindList(tx, ids, 2) {
		rows, err := tx.Query(ctx, "SELECT "+columns+" FROM recipients WHERE company_id = $1 AND recipient_id IN "+in,
			append([]any{companyID}, args...)...)
		_, err = db.Collect(rows, err, func(r *db.Rows) (none struct{}, err error) {
			id, item, err := scan(r)
			items[at[id]] = item
			return none, err
		})
		if err != nil {
			return nil, err
		}
	}
	return items, nil
}

// page counts the matches and reads one page of them, from one snapshot.
func page[T any](ctx context.Context, tx *db.Tx, p Page, table, columns string, f filter, order string,
	scan func(*db.Rows) (T, error)) (Slice[T], error) {
	s := Slice[T]{Items: []T{}, Page: p}
	if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM "+table+f.String(), f.args...).Scan(&s.Total); err != nil {
		return Slice[T]{}, err
	}
	offset, ok := p.offset(s.Total)
	if !ok {
		return s, nil
	}
	limit, skip := f.bind(int64(p.PerPage)), f.bind(int64(offset))
	rows, err := tx.Query(ctx,
		"SELECT "+columns+" FROM "+table+f.String()+" ORDER BY "+order+" LIMIT "+limit+" OFFSET "+skip, f.args...)
	items, err := db.Collect(rows, err, scan)
	if err != nil {
		return Slice[T]{}, err
	}
	s.Items = append(s.Items, items...)
	return s, nil
}

const invitationColumns = `company_id, invitation_id, email, role, state, reason, resend_count, user_id, version,
	sent_at, expires_at, created_at`

func scanInvitation(scan func(...any) error) (v Invitation, err error) {
	var sent, expires, created int64
	err = scan(&v.CompanyID, &v.ID, &v.Email, &v.Role, &v.State, &v.Reason, &v.Resends, &v.UserID, &v.Version, &sent,
		&expires, &created)
	v.Sent, v.Expires, v.Created = db.Time(sent), db.Time(expires), db.Time(created)
	return v, err
}

// insertInvitation inserts an invitation. The unique index of open invitations decides between concurrent ones to the
// same address.
func insertInvitation(ctx context.Context, tx *db.Tx, v Invitation, digest string) error {
	n, err := tx.Exec(ctx, `INSERT INTO invitations (`+invitationColumns+`, email_key, token_digest, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT (company_id, email_key)
			WHERE state = 'sent' DO NOTHING`,
		v.CompanyID, v.ID, v.Email, v.Role, v.State, v.Reason, int64(v.Resends), v.UserID, v.Version, db.Micros(v.Sent),
		db.Micros(v.Expires), db.Micros(v.Created),
		key(v.Email), digest, db.Micros(v.Created))
	if err != nil || n == 1 {
		return err
	}
	var existing string
	err = tx.QueryRow(ctx,
		"SELECT invitation_id FROM invitations WHERE company_id = $1 AND email_key = $2 AND state = 'sent'",
		v.CompanyID, key(v.Email)).Scan(&existing)
	if err != nil {
		return err
	}
	return ErrAlreadyOpen.Set("invitation_id", existing)
}

func isWorker(ctx context.Context, tx *db.Tx, companyID, emailKey string) (yes bool, err error) {
	return yes, tx.QueryRow(ctx,
		"SELECT EXISTS (SELECT 1 FROM recipients WHERE company_id = $1 AND email_key = $2 AND user_id <> '')",
		companyID, emailKey).Scan(&yes)
}

// lastInvitation returns the newest invitation to an address, nil if it was never invited.
func lastInvitation(ctx context.Context, tx *db.Tx, companyID, emailKey string) (*Invitation, error) {
	v, err := scanInvitation(tx.QueryRow(ctx, "SELECT "+invitationColumns+` FROM invitations
		WHERE company_id = $1 AND email_key = $2 ORDER BY created_at DESC, invitation_id DESC LIMIT 1`, companyID,
		emailKey).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil //nolint:nilnil // none is an answer
	}
	return &v, err
}

func selectInvitation(ctx context.Context, tx *db.Tx, companyID, id string) (Invitation, error) {
	v, err := scanInvitation(tx.QueryRow(ctx,
		"SELECT "+invitationColumns+" FROM invitations WHERE company_id = $1 AND invitation_id = $2", companyID, id).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Invitation{}, apierr.NotFoundErr
	}
	return v, err
}

func invitationByToken(ctx context.Context, tx *db.Tx, digest string) (Invitation, error) {
	if digest == "" {
		return Invitation{}, apierr.NotFoundErr
	}
	v, err := scanInvitation(tx.QueryRow(ctx, "SELECT "+invitationColumns+" FROM invitations WHERE token_digest = $1",
		digest).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Invitation{}, apierr.NotFoundErr
	}
	if err != nil {
		return Invitation{}, err
	}
	company, err := identity.CompanyByID(ctx, tx, v.CompanyID)
	v.CompanyName = company.Name
	return v, err
}

// resend updates an invitation that is sent again. Its condition compares the counter that it raises.
func resend(ctx context.Context, tx *db.Tx, v Invitation, digest string) (Invitation, error) {
	w, err := scanInvitation(tx.QueryRow(ctx, `UPDATE invitations SET state = 'sent', token_digest = $3, sent_at = $4,
		expires_at = $5, updated_at = $4,
			resend_count = resend_count + 1, version = version + 1
		WHERE company_id = $1 AND invitation_id = $2 AND state IN ('sent', 'expired') AND resend_count < 3
		RETURNING `+invitationColumns, v.CompanyID, v.ID, digest, db.Micros(v.Sent), db.Micros(v.Expires)).Scan)
	if !errors.Is(err, db.ErrNoRows) {
		return w, err
	}
	if v, err = selectInvitation(ctx, tx, v.CompanyID, v.ID); err != nil {
		return Invitation{}, err
	}
	if v.State == InvitationAccepted || v.State == InvitationRevoked {
		return Invitation{}, ErrNotOpen
	}
	return Invitation{}, ErrResendLimit
}

// endInvitation ends an invitation early, if it is still open.
func endInvitation(ctx context.Context, tx *db.Tx, v Invitation, state, reason, userID string) (Invitation, error) {
	now := db.Micros(tx.Now())
	w, err := scanInvitation(tx.QueryRow(ctx, `UPDATE invitations SET state = $3, reason = $4, user_id = $5,
		updated_at = $6, version = version + 1
		WHERE company_id = $1 AND invitation_id = $2 AND state = 'sent' AND expires_at > $6
		RETURNING `+invitationColumns, v.CompanyID, v.ID, state, reason, userID, now).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Invitation{}, ErrNotOpen
	}
	return w, err
}

// expireInvitation ends an invitation at its time. It returns nil if a concurrent transaction ended or renewed it.
func expireInvitation(ctx context.Context, tx *db.Tx, v Invitation) (*Invitation, error) {
	w, err := scanInvitation(tx.QueryRow(ctx, `UPDATE invitations SET state = 'expired', updated_at = $3,
		version = version + 1
		WHERE company_id = $1 AND invitation_id = $2 AND state = 'sent' AND expires_at <= $3
		RETURNING `+invitationColumns, v.CompanyID, v.ID, db.Micros(tx.Now())).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil //nolint:nilnil // nothing to do is an answer
	}
	return &w, err
}

func selectInvitations(ctx context.Context, tx *db.Tx, p InvitationsParams) (Slice[Invitation], error) {
	var f filter
	f.equal("company_id", p.CompanyID)
	f.equal("email_key", key(strings.TrimSpace(p.Email)))
	switch now := db.Micros(tx.Now()); p.Status {
	case InvitationSent:
		f.where = append(f.where, "state = 'sent' AND expires_at > "+f.bind(now))
	case InvitationExpired:
		f.where = append(f.where, "(state = 'expired' OR state = 'sent' AND expires_at <= "+f.bind(now)+")")
	default:
		f.equal("state", p.Status)
	}
	return page(ctx, tx, p.Page, "invitations", invitationColumns, f, "created_at DESC, invitation_id DESC",
		func(r *db.Rows) (Invitation, error) {
			v, err := scanInvitation(r.Scan)
			return v.at(tx.Now()), err
		})
}

// Erase removes a user's personal data from every company that pays the user or invited them, and makes the user
// inactive there. email is the address that the user had. It returns the companies, and the IDs and addresses under
// which they knew the user.
func Erase(ctx context.Context, tx *db.Tx, userID, email string) (companies, known []string, err error) {
	if companies, err = companiesOf(ctx, tx, userID); err != nil {
		return nil, nil, err
	}
	for _, company := range companies {
		old, err := eraseIn(ctx, tx, company, userID)
		if err != nil {
			return nil, nil, err
		}
		known = append(known, old.ID, old.Email)
		_, err = tx.Exec(ctx, `UPDATE invitations SET email = '', email_key = invitation_id
			WHERE company_id = $1 AND state <> 'sent' AND (user_id = $2 OR email_key = $3 AND email_key <> '')`, company, userID,
			key(email))
		if err != nil {
			return nil, nil, err
		}
	}
	return companies, known, nil
}

// eraseIn erases a worker's personal data in one company and returns the row as it was.
func eraseIn(ctx context.Context, tx *db.Tx, companyID, userID string) (Recipient, error) {
	for {
		old, err := selectOne(ctx, tx, companyID, userID)
		if err != nil {
			return Recipient{}, err
		}
		changed, done, err := guarded(tx.QueryRow(ctx, `UPDATE recipients SET name = recipient_id, name_key = recipient_id,
			first_name = '',
				last_name = '', email = '', email_key = '', external_id = '', details = '', onboarded = FALSE, status = 'inactive',
				version = version + 1, updated_at = $3
			WHERE company_id = $1 AND recipient_id = $2 AND version = $4 AND country = $5
			RETURNING `+columns, companyID, userID, db.Micros(tx.Now()), old.Version, old.Country))
		if err != nil {
			return Recipient{}, err
		}
		if done {
			countMoved(tx, old.segment(), changed.segment())
			return old, nil
		}
	}
}

// segment is a set of recipients that no filter distinguishes. recipient_counts has the number of recipients in each
// segment of a company.
type segment struct {
	companyID, country, role, recipientType, status string
	hasLogin                                        bool
}

func (r Recipient) segment() segment {
	return segment{r.CompanyID, r.Country, r.Role, r.Type, r.Status, r.UserID != ""}
}

// countChange is a change of the number of recipients in a segment.
type countChange struct {
	segment segment
	by      int64
}

// countNew adds one to the segment of a new recipient.
func countNew(tx *db.Tx, r Recipient) { counts.Add(tx, countChange{r.segment(), 1}) }

// countMoved moves a recipient from one segment to another. The caller's statement must have been guarded by the old
// values.
func countMoved(tx *db.Tx, from, to segment) {
	if from != to {
		counts.Add(tx, countChange{from, -1})
		counts.Add(tx, countChange{to, 1})
	}
}

// counts applies the changes in the order of their keys, so that concurrent commits cannot deadlock.
var counts = db.NewGroup(func(ctx context.Context, tx *db.Tx, items []countChange) error {
	changes := map[segment]int64{}
	for _, c := range items {
		changes[c.segment] += c.by
	}
	for _, s := range slices.SortedFunc(maps.Keys(changes), compareSegments) {
		by := changes[s]
		switch {
		case by > 0:
			_, err := tx.Exec(ctx, `INSERT INTO recipient_counts (company_id, country, role, recipient_type, status, has_login,
				recipients)
				VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (company_id, country, role, recipient_type, status, has_login)
				DO UPDATE SET recipients = recipient_counts.recipients + excluded.recipients`,
				s.companyID, s.country, s.role, s.recipientType, s.status, s.hasLogin, by)
			if err != nil {
				return err
			}
		case by < 0:
			n, err := tx.Exec(ctx, `UPDATE recipient_counts SET recipients = recipients + $7 WHERE company_id = $1
				AND country = $2 AND role = $3
				AND recipient_type = $4 AND status = $5 AND has_login = $6`, s.companyID, s.country, s.role, s.recipientType,
				s.status, s.hasLogin, by)
			if err != nil {
				return err
			}
			if n != 1 {
				return fmt.Errorf("recipient_counts has no row for %+v", s)
			}
		}
	}
	return nil
}, "recipient_counts")

func compareSegments(a, b segment) int {
	login := func(s segment) int {
		if s.hasLogin {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.companyID, b.companyID), cmp.Compare(a.country, b.country), cmp.Compare(a.role, b.role),
		cmp.Compare(a.recipientType, b.recipientType), cmp.Compare(a.status, b.status), cmp.Compare(login(a), login(b)))
}

// query selects one page of a company's recipients. Empty filters do not filter.
type query struct {
	companyID                   string
	search                      string // part of a name or email, as [key] writes it
	country, role, kind, status string
	sortBy                      string // a column of the indexes recipients_by_…
	descending                  bool
	page                        Page
}

// fewMatches is the number of rows up to which matches are collected and sorted. More are read in the order of an
// index, which is as fast for a page at the start or end of a list, and faster everywhere else. Tests lower it.
var fewMatches = 20_000

// find returns the IDs of one page in their order, and the number of matches on all pages.
//
// Without a search, the total is a sum of recipient_counts. A search first collects up to fewMatches+1 matches
// through the trigram index. If that is all of them, they are counted and sorted at once; otherwise they are counted
// in one index and read in the order of another.
func find(ctx context.Context, tx *db.Tx, q query) (ids []string, total int, err error) {
	if q.search != "" {
		from, conditions := q.byTrigram(tx.Engine())
		ids, total, err = q.gather(ctx, tx, from, conditions)
		if err != nil || total <= fewMatches {
			return ids, total, err
		}
		total, err = q.count(ctx, tx)
	} else {
		total, err = q.countSegments(ctx, tx)
		if err == nil && total <= fewMatches && q.filtered() {
			return q.gather(ctx, tx, `recipient_counts c CROSS JOIN recipients r WHERE c.company_id = $1 AND c.recipients > 0
				AND r.company_id = c.company_id AND r.country = c.country AND r.role = c.role
					AND r.recipient_type = c.recipient_type
				AND r.status = c.status AND (r.user_id <> '') = c.has_login`, func(f *filter) { q.equal(f, "c.") })
		}
	}
	if err != nil {
		return nil, 0, err
	}
	ids, err = q.scan(ctx, tx, total)
	return ids, total, err
}

func (q query) filtered() bool { return q.country+q.role+q.kind+q.status != "" }

// equal adds the filters on the columns of a table or alias.
func (q query) equal(f *filter, prefix string) {
	f.equal(prefix+"country", q.country)
	f.equal(prefix+"role", q.role)
	f.equal(prefix+"recipient_type", q.kind)
	f.equal(prefix+"status", q.status)
}

// equalInOrder adds the filters in a form that SQLite checks on each row of the order's index. With plain filters it
// would use the index of segments, and sort.
func (q query) equalInOrder(f *filter) {
	f.equal("CAST(country AS TEXT)", q.country)
	f.equal("CAST(role AS TEXT)", q.role)
	f.equal("CAST(recipient_type AS TEXT)", q.kind)
	f.equal("CAST(status AS TEXT)", q.status)
}

// contains adds the search as a condition without the trigram index.
func (q query) contains(f *filter, engine db.Engine, prefix string) {
	if q.search == "" {
		return
	}
	position := "instr"
	if engine == db.Postgres {
		position = "strpos"
	}
	text := f.bind(q.search)
	f.where = append(f.where, fmt.Sprintf("(%[1]s(%[2]sname_key, %[3]s) > 0 OR %[1]s(%[2]semail_key, %[3]s) > 0)",
		position, prefix, text))
}

// byTrigram returns the source of recipients r that match the search, and its conditions. Searches shorter than three
// characters have no trigram.
func (q query) byTrigram(engine db.Engine) (from string, conditions func(*filter)) {
	trigrams := trigramsOf(q.search)
	if len(trigrams) == 0 {
		return "recipients r WHERE r.company_id = $1", func(f *filter) {
			q.equal(f, "r.")
			q.contains(f, engine, "r.")
		}
	}
	if engine == db.Postgres {
		return "recipients r WHERE r.company_id = $1", func(f *filter) {
			q.equal(f, "r.")
			pattern := f.bind("%" + likeEscaper.Replace(q.search) + "%")
			f.where = append(f.where, fmt.Sprintf("(r.name_key LIKE %[1]s OR r.email_key LIKE %[1]s)", pattern))
		}
	}
	// The joins are read in this order: matches first, then their recipients. The index has which texts have a
	// trigram, not where; contains then checks the texts themselves.
	return `recipient_trigrams x CROSS JOIN recipient_texts t CROSS JOIN recipients r WHERE t.text_id = x.rowid
		AND t.company_id = $1
			AND r.company_id = t.company_id AND r.recipient_id = t.recipient_id`, func(f *filter) {
			quoted := make([]string, len(trigrams))
			for i, t := range trigrams {
				quoted[i] = `"` + strings.ReplaceAll(t, `"`, `""`) + `"`
			}
			f.where = append(f.where, "x.recipient_trigrams MATCH "+f.bind(strings.Join(quoted, " AND ")))
			q.equal(f, "r.")
			q.contains(f, engine, "t.")
		}
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// trigramsOf returns the sequences of three characters in a text, each once.
func trigramsOf(text string) []string {
	runes := []rune(text)
	var all []string
	for i := 0; i+3 <= len(runes); i++ {
		if t := string(runes[i : i+3]); !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}

// gather selects up to fewMatches+1 recipients r from a source, counts them, and returns a page in their order.
func (q query) gather(ctx context.Context, tx *db.Tx, from string,
	conditions func(*filter)) (ids []string, total int, err error) {
	f := filter{args: []any{q.companyID}}
	conditions(&f)
	where := strings.Join(append([]string{from}, f.where...), " AND ")
	rows, err := tx.Query(ctx, `WITH matches AS MATERIALIZED (SELECT r.recipient_id, r.`+q.sortBy+` AS sort_key
		FROM `+where+` LIMIT `+f.bind(int64(fewMatches+1))+`)
		SELECT n.total, COALESCE(p.recipient_id, '') FROM (SELECT COUNT(*) AS total FROM matches) n
		LEFT JOIN (SELECT recipient_id, sort_key FROM matches ORDER BY `+q.order("sort_key", q.descending)+
		` LIMIT `+f.bind(int64(q.page.PerPage))+` OFFSET `+f.bind(q.page.before())+`) p ON TRUE
		ORDER BY `+q.order("p.sort_key", q.descending), f.args...)
	ids, err = db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&total, &id) })
	if len(ids) == 1 && ids[0] == "" {
		ids = nil // the page is past the end
	}
	return ids, total, err
}

// order returns the ORDER BY terms of the list. Recipients with the same key are ordered by ID, so the order is
// total.
func (q query) order(sortKey string, descending bool) string {
	id := "recipient_id"
	if prefix, _, ok := strings.Cut(sortKey, "."); ok {
		id = prefix + "." + id
	}
	if descending {
		return sortKey + " DESC, " + id + " DESC"
	}
	return sortKey + ", " + id
}

// countSegments returns the total of a list without a search.
func (q query) countSegments(ctx context.Context, tx *db.Tx) (total int, err error) {
	f := filter{}
	f.equal("company_id", q.companyID)
	q.equal(&f, "")
	return total, tx.QueryRow(ctx, "SELECT CAST(COALESCE(SUM(recipients), 0) AS BIGINT) FROM recipient_counts"+f.String(),
		f.args...).Scan(&total)
}

// count counts the matches of a search.
func (q query) count(ctx context.Context, tx *db.Tx) (total int, err error) {
	f := filter{}
	f.equal("company_id", q.companyID)
	q.equalInOrder(&f)
	q.contains(&f, tx.Engine(), "")
	return total, tx.QueryRow(ctx, "SELECT COUNT(*) FROM recipients"+f.String(), f.args...).Scan(&total)
}

// scan returns the IDs of one page out of total rows, in the order of an index, read from the nearer end.
func (q query) scan(ctx context.Context, tx *db.Tx, total int) ([]string, error) {
	skip := q.page.before()
	limit := min(int64(q.page.PerPage), int64(total)-skip)
	if limit <= 0 {
		return nil, nil
	}
	descending, backward := q.descending, skip > int64(total)/2
	if backward {
		descending, skip = !descending, int64(total)-skip-limit
	}
	f := filter{}
	f.equal("company_id", q.companyID)
	q.equalInOrder(&f)
	q.contains(&f, tx.Engine(), "")
	rows, err := tx.Query(ctx, "SELECT recipient_id FROM recipients"+f.String()+" ORDER BY "+q.order(q.sortBy, descending)+
		" LIMIT "+f.bind(limit)+" OFFSET "+f.bind(skip), f.args...)
	ids, err := db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
	if backward {
		slices.Reverse(ids)
	}
	return ids, err
}

// before returns the number of rows on earlier pages, at most as many as a database can skip.
func (p Page) before() int64 {
	const most = 1 << 40
	if p.Number-1 > most/p.PerPage {
		return most
	}
	return int64(p.Number-1) * int64(p.PerPage)
}

// findWorkers returns the IDs of one page of a company's workers with a login, oldest first, and the number of
// matches.
func findWorkers(ctx context.Context, tx *db.Tx, p WorkersParams) (ids []string, total int, err error) {
	f := filter{}
	f.equal("company_id", p.CompanyID)
	f.where = append(f.where, "user_id <> ''")
	f.equal("recipient_id", p.UserID)
	f.equal("email_key", key(strings.TrimSpace(p.Email)))
	if p.UserID == "" && p.Email == "" {
		err = tx.QueryRow(ctx,
			"SELECT CAST(COALESCE(SUM(recipients), 0) AS BIGINT) FROM recipient_counts WHERE company_id = $1 AND has_login",
			p.CompanyID).Scan(&total)
	} else {
		err = tx.QueryRow(ctx, "SELECT COUNT(*) FROM recipients"+f.String(), f.args...).Scan(&total)
	}
	if err != nil {
		return nil, 0, err
	}
	rows, err := tx.Query(ctx,
		"SELECT recipient_id FROM recipients"+f.String()+" ORDER BY created_at, recipient_id LIMIT "+
			f.bind(int64(p.Page.PerPage))+" OFFSET "+f.bind(p.Page.before()), f.args...)
	ids, err = db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
	return ids, total, err
}

// SearchIsIndexed reports whether the database has the index by which recipients are searched. PostgreSQL lacks it
// where the extension pg_trgm could not be created.
func SearchIsIndexed(ctx context.Context, tx *db.Tx) (indexed bool, err error) {
	if tx.Engine() != db.Postgres {
		return true, nil
	}
	return indexed, tx.QueryRow(ctx, "SELECT to_regclass('recipients_by_trigram') IS NOT NULL").Scan(&indexed)
}
