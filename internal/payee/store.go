package payee

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/metadata"
)

const columns = `company_id, recipient_id, relationship_id, user_id, recipient_type, role, status, name, first_name,
	last_name, email, country, external_id, department, vendor_type, metadata, version, created_at`

func scan(scan func(...any) error) (r Recipient, err error) {
	var created int64
	var texts string
	err = scan(&r.CompanyID, &r.ID, &r.RelationshipID, &r.UserID, &r.Type, &r.Role, &r.Status, &r.Name, &r.FirstName,
		&r.LastName, &r.Email, &r.Country, &r.ExternalID, &r.Department, &r.VendorType, &texts, &r.Version,
		&created)
	if err != nil {
		return r, err
	}
	r.Created = db.Time(created)
	r.Metadata, err = metadata.Parse(texts)
	return r, err
}

const insertRow = `INSERT INTO recipients (` + columns + `, name_key, email_key, details, onboarded, updated_at)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)`

func values(r Recipient, details string, onboarded bool) []any {
	at := db.Micros(r.Created)
	return []any{r.CompanyID, r.ID, r.RelationshipID, r.UserID, r.Type, r.Role, r.Status, r.Name, r.FirstName, r.LastName,
		r.Email, r.Country, r.ExternalID, r.Department, r.VendorType, metadata.Text(r.Metadata),
		r.Version, at, key(r.Name), key(r.Email), details, onboarded, at}
}

// insert inserts a recipient. If two transactions insert the same external ID concurrently, the unique index makes
// the second wait for the first; the second then returns the first one's row.
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
// commit violates the unique index; the import then runs again and finds that the ID is taken.
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

// externalIDs returns the IDs of the company's recipients that already have one of the external IDs, by external ID.
func externalIDs(ctx context.Context, tx *db.Tx, companyID string, people []importing) (map[string]string, error) {
	var wanted []string
	for i := range people {
		if id := people[i].r.ExternalID; id != "" {
			wanted = append(wanted, id)
		}
	}
	found := map[string]string{}
	return found, db.EachIn(ctx, tx, wanted, `SELECT external_id, recipient_id FROM recipients
		WHERE company_id = $1 AND external_id <> '' AND external_id IN %s`, []any{companyID}, func(r *db.Rows) error {
		var external, id string
		err := r.Scan(&external, &id)
		found[external] = id
		return err
	})
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

// refresh copies a user's profile to the user's recipient row in one company, if there is one.
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
			countChangeOf(tx, old.segment(), changed.segment())
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

// CompaniesOf returns the IDs of the companies that pay a user.
func CompaniesOf(ctx context.Context, tx *db.Tx, userID string) ([]string, error) {
	return companiesOf(ctx, tx, userID, "")
}

// companiesOf returns the companies that pay a user. If state is not "", it returns only those in which the user has
// that state. This is the package's only query across companies; an index on the user serves it.
func companiesOf(ctx context.Context, tx *db.Tx, userID, state string) ([]string, error) {
	ctx = db.AcrossCompanies(ctx, "a person is paid by several companies; the statement names the person")
	rows, err := tx.Query(ctx, `SELECT company_id FROM recipients
		WHERE user_id = $1 AND user_id <> '' AND ($2 = '' OR status = $2) ORDER BY company_id`, userID, state)
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

// selectPayees returns, by ID, the payees of a company that have one of the IDs and meet a condition.
func selectPayees(ctx context.Context, tx *db.Tx, companyID string, ids []string, condition string) (map[string]Payee,
	error) {
	payees := make(map[string]Payee, len(ids))
	return payees, db.EachIn(ctx, tx, ids, `SELECT recipient_id, user_id, recipient_type, role, name, status, country,
		email FROM recipients WHERE company_id = $1 AND recipient_id IN %s AND `+condition, []any{companyID},
		func(r *db.Rows) error {
			var p Payee
			err := r.Scan(&p.ID, &p.UserID, &p.Kind, &p.Role, &p.Name, &p.Status, &p.Country, &p.Email)
			payees[p.ID] = p
			return err
		})
}

// Payees returns the company's recipients and workers with the given IDs, by ID. IDs of other companies are not in
// the map.
func Payees(ctx context.Context, tx *db.Tx, companyID string, ids []string) (map[string]Payee, error) {
	return selectPayees(ctx, tx, companyID, ids, "TRUE")
}

// Vendors returns, by ID, those of the company's payees with the given IDs who are businesses or have the role
// vendor.
func Vendors(ctx context.Context, tx *db.Tx, companyID string, ids []string) (map[string]Payee, error) {
	return selectPayees(ctx, tx, companyID, ids, "(role = 'vendor' OR recipient_type = 'company')")
}

// Resolve finds a company's payees. Each of the names is an ID, an external ID or an email address. Resolve returns a
// map from name to payee ID, without the names that match no payee or several payees.
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
		err := db.EachIn(ctx, tx, by.names, "SELECT "+by.column+`, recipient_id FROM recipients
			WHERE company_id = $1 AND `+by.column+" <> '' AND "+by.column+" IN %s", []any{companyID}, func(r *db.Rows) error {
			var name, id string
			err := r.Scan(&name, &id)
			several[name] = several[name] || ids[name] != "" && ids[name] != id
			ids[name] = id
			return err
		})
		if err != nil {
			return nil, err
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

// settle updates a recipient's state from their allocations: active if they total 100, otherwise pending. moved
// reports whether the state changed.
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
		countChangeOf(tx, withStatus(r, old), r.segment())
	}
	return r, moved, err
}

// update replaces the version old of a recipient by r. It reports whether old was still the current version.
func update(ctx context.Context, tx *db.Tx, old, r Recipient,
	details string) (changed Recipient, done bool, err error) {
	changed, done, err = guarded(tx.QueryRow(ctx, `UPDATE recipients SET role = $4, name = $5, name_key = $6,
		first_name = $7, last_name = $8,
			email = $9, email_key = $10, country = $11, external_id = $12, department = $13, vendor_type = $14, details = $15,
			version = version + 1, updated_at = $16, metadata = $17
		WHERE company_id = $1 AND recipient_id = $2 AND version = $3 AND country = $18
		RETURNING `+columns, r.CompanyID, r.ID, r.Version, r.Role, r.Name, key(r.Name), r.FirstName, r.LastName, r.Email,
		key(r.Email),
		r.Country, r.ExternalID, r.Department, r.VendorType, details, db.Micros(tx.Now()),
		metadata.Text(r.Metadata), old.Country))
	if done {
		countChangeOf(tx, old.segment(), changed.segment())
	}
	return changed, done, err
}

// freeExternalID returns ErrExternalID if another recipient has the external ID. If two transactions take an external
// ID concurrently, the later one violates the unique index, runs again and gets this error.
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
		countChangeOf(tx, withStatus(changed, r.Status), changed.segment())
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
		countChangeOf(tx, withStatus(changed, Inactive), changed.segment())
	}
	return changed, moved, err
}

// withStatus returns the segment that a recipient would have with another status.
func withStatus(r Recipient, status string) segment {
	r.Status = status
	return r.segment()
}

// guarded reads the row that a guarded statement changed, and reports whether the statement changed one.
func guarded(row db.Row) (r Recipient, changed bool, err error) {
	r, err = scan(row.Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Recipient{}, false, nil
	}
	return r, err == nil, err
}

// selectRecipients reads the recipients of one page, in the order of ids.
func selectRecipients(ctx context.Context, tx *db.Tx, companyID string, ids []string) ([]Recipient, error) {
	return inOrder(ctx, tx, columns, companyID, ids, func(r *db.Rows) (string, Recipient, error) {
		v, err := scan(r.Scan)
		return v.ID, v, err
	})
}

// Recipients returns the recipients of a company with the given IDs, at most a page of them, in the order of the IDs.
func Recipients(ctx context.Context, tx *db.Tx, companyID string, ids []string) ([]Recipient, error) {
	return selectRecipients(ctx, tx, companyID, ids)
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

// inOrder reads at most one page of recipients by their IDs, in the order of the IDs.
func inOrder[T any](ctx context.Context, tx *db.Tx, columns, companyID string, ids []string,
	scan func(*db.Rows) (string, T, error)) ([]T, error) {
	items := make([]T, len(ids))
	at := make(map[string]int, len(ids))
	for i, id := range ids {
		at[id] = i
	}
	return items, db.EachIn(ctx, tx, ids, "SELECT "+columns+
		" FROM recipients WHERE company_id = $1 AND recipient_id IN %s", []any{companyID}, func(r *db.Rows) error {
		id, item, err := scan(r)
		items[at[id]] = item
		return err
	})
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

// insertInvitation inserts an invitation. If transactions insert open invitations to the same address concurrently,
// the unique index lets only one succeed.
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

// invitationOf reads the invitation that a statement selected or changed. It returns the error none if there is no
// row.
func invitationOf(row db.Row, none error) (Invitation, error) {
	v, err := scanInvitation(row.Scan)
	if errors.Is(err, db.ErrNoRows) {
		err = none
	}
	return v, err
}

// lastInvitation returns the newest invitation to an address, or nil if the address was never invited.
func lastInvitation(ctx context.Context, tx *db.Tx, companyID, emailKey string) (*Invitation, error) {
	v, err := scanInvitation(tx.QueryRow(ctx, "SELECT "+invitationColumns+` FROM invitations
		WHERE company_id = $1 AND email_key = $2 ORDER BY created_at DESC, invitation_id DESC LIMIT 1`, companyID,
		emailKey).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil //nolint:nilnil // the address was never invited
	}
	return &v, err
}

func selectInvitation(ctx context.Context, tx *db.Tx, companyID, id string) (Invitation, error) {
	return invitationOf(tx.QueryRow(ctx, "SELECT "+invitationColumns+
		" FROM invitations WHERE company_id = $1 AND invitation_id = $2", companyID, id), apierr.NotFoundErr)
}

func invitationByToken(ctx context.Context, tx *db.Tx, digest string) (Invitation, error) {
	if digest == "" {
		return Invitation{}, apierr.NotFoundErr
	}
	v, err := invitationOf(tx.QueryRow(ctx, "SELECT "+invitationColumns+" FROM invitations WHERE token_digest = $1",
		digest), apierr.NotFoundErr)
	if err != nil {
		return Invitation{}, err
	}
	company, err := identity.CompanyByID(ctx, tx, v.CompanyID)
	v.CompanyName = company.Name
	return v, err
}

// resend stores an invitation that is sent again. The statement compares the resend count before it increments the
// count, so that concurrent resends cannot exceed the limit.
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

// endInvitation ends an invitation before its time, if it is still open.
func endInvitation(ctx context.Context, tx *db.Tx, v Invitation, state, reason, userID string) (Invitation, error) {
	return invitationOf(tx.QueryRow(ctx, `UPDATE invitations SET state = $3, reason = $4, user_id = $5, updated_at = $6,
			version = version + 1
		WHERE company_id = $1 AND invitation_id = $2 AND state = 'sent' AND expires_at > $6
		RETURNING `+invitationColumns, v.CompanyID, v.ID, state, reason, userID, db.Micros(tx.Now())), ErrNotOpen)
}

// expireInvitation expires an invitation. It returns nil if a concurrent transaction ended or renewed the invitation.
func expireInvitation(ctx context.Context, tx *db.Tx, v Invitation) (*Invitation, error) {
	w, err := scanInvitation(tx.QueryRow(ctx, `UPDATE invitations SET state = 'expired', updated_at = $3,
		version = version + 1
		WHERE company_id = $1 AND invitation_id = $2 AND state = 'sent' AND expires_at <= $3
		RETURNING `+invitationColumns, v.CompanyID, v.ID, db.Micros(tx.Now())).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil //nolint:nilnil // there is nothing to expire
	}
	return &w, err
}

func selectInvitations(ctx context.Context, tx *db.Tx, p InvitationsParams) (Slice[Invitation], error) {
	l := &db.List{Columns: invitationColumns, Table: "invitations", ID: "invitation_id", Time: "created_at", Page: p.Page}
	l.Where("company_id = ?", p.CompanyID)
	if email := key(strings.TrimSpace(p.Email)); email != "" {
		l.Where("email_key = ?", email)
	}
	switch now := db.Micros(tx.Now()); p.Status {
	case "":
	case InvitationSent:
		l.Where("state = 'sent' AND expires_at > ?", now)
	case InvitationExpired:
		l.Where("(state = 'expired' OR state = 'sent' AND expires_at <= ?)", now)
	default:
		l.Where("state = ?", p.Status)
	}
	found, total, err := db.ReadPage(ctx, tx, l, func(r *db.Rows) (Invitation, error) {
		v, err := scanInvitation(r.Scan)
		return v.at(tx.Now()), err
	})
	return Slice[Invitation]{append([]Invitation{}, found...), int(total), p.Page}, err
}

// Unanswered returns the email addresses of a company's invitations, oldest first, that are open or expired, were
// last sent before a given time, can be sent again, and are the newest invitation to their address.
func Unanswered(ctx context.Context, tx *db.Tx, companyID string, before time.Time, limit int) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT v.email FROM invitations v
		WHERE v.company_id = $1 AND v.state IN ('sent', 'expired') AND v.resend_count < $2 AND v.sent_at <= $3
			AND NOT EXISTS (SELECT 1 FROM invitations w WHERE w.company_id = v.company_id AND w.email_key = v.email_key
				AND (w.created_at, w.invitation_id) > (v.created_at, v.invitation_id))
		ORDER BY v.sent_at, v.invitation_id LIMIT $4`, companyID, int64(MaxResends), db.Micros(before), int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (email string, err error) { return email, r.Scan(&email) })
}

// Erase removes a user's personal data from every company that pays the user, and makes the user inactive there.
// email is the user's former address; ended invitations to it are erased, too. Erase returns the companies, and the
// IDs and addresses under which they knew the user.
func Erase(ctx context.Context, tx *db.Tx, userID, email string) (companies, known []string, err error) {
	if companies, err = companiesOf(ctx, tx, userID, ""); err != nil {
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

// Ended returns the IDs of payees who were not erased and whose relationships to all companies ended by a given time,
// because the companies made them inactive or closed their accounts. It returns recipients, and users without a
// separate sign-in, sorted by ID, starting after the ID after.
func Ended(ctx context.Context, tx *db.Tx, until time.Time, after string, limit int) ([]string, error) {
	const ended = `(%[1]s.status = 'inactive' AND %[1]s.updated_at <= $1 OR %[1]s.company_id IN
		(SELECT c.company_id FROM companies c WHERE c.closed_at > 0 AND c.closed_at <= $1))`
	rows, err := tx.Query(ctx, `SELECT DISTINCT r.recipient_id FROM recipients r
		WHERE r.recipient_id > $2 AND r.name <> r.recipient_id AND `+fmt.Sprintf(ended, "r")+`
			AND NOT EXISTS (SELECT 1 FROM users u WHERE u.user_id = r.user_id AND u.sign_in_key <> '')
			AND NOT EXISTS (SELECT 1 FROM recipients o WHERE o.user_id = r.user_id AND r.user_id <> ''
				AND NOT `+fmt.Sprintf(ended, "o")+`)
		ORDER BY r.recipient_id LIMIT $3`, db.Micros(until), after, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// HasActive reports whether a company still pays a user: its account is open, and the user is not inactive there.
func HasActive(ctx context.Context, tx *db.Tx, userID string) (has bool, err error) {
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM recipients r JOIN companies c ON c.company_id = r.company_id
		WHERE r.user_id = $1 AND r.user_id <> '' AND r.status <> 'inactive' AND c.closed_at = 0)`, userID).Scan(&has)
	return has, err
}

// EraseRecipient removes the personal data of a recipient without an account, and makes the recipient inactive. It
// returns the recipient's company and former email address. It returns apierr.NotFoundErr for an unknown recipient.
func EraseRecipient(ctx context.Context, tx *db.Tx, recipientID string) (companyID, address string, err error) {
	companyID, err = CompanyOfRecipient(ctx, tx, recipientID)
	if err != nil {
		return "", "", err
	}
	old, err := eraseIn(ctx, tx, companyID, recipientID)
	return companyID, old.Email, err
}

// CompanyOfRecipient returns the company of a recipient without an account, or apierr.NotFoundErr.
func CompanyOfRecipient(ctx context.Context, tx *db.Tx, recipientID string) (companyID string, err error) {
	err = tx.QueryRow(ctx, "SELECT company_id FROM recipients WHERE recipient_id = $1 AND user_id = ''",
		recipientID).Scan(&companyID)
	if errors.Is(err, db.ErrNoRows) {
		err = apierr.NotFoundErr
	}
	return companyID, err
}

// eraseIn erases a payee's personal data in one company and returns the row as it was before.
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
			countChangeOf(tx, old.segment(), changed.segment())
			return old, nil
		}
	}
}

// segment is a set of recipients who do not differ in any column that lists are filtered by. The table
// recipient_counts contains the number of recipients in each segment.
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

// countChangeOf counts a recipient's change from one segment to another. The caller's statement must have been
// guarded by the old values.
func countChangeOf(tx *db.Tx, from, to segment) {
	if from != to {
		counts.Add(tx, countChange{from, -1})
		counts.Add(tx, countChange{to, 1})
	}
}

// counts applies changes in the order of their keys, so that concurrent commits cannot deadlock.
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
