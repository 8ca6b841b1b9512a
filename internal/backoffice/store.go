package backoffice

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

const columns = "staff_id, name, email, role, password_hash, secret, sso_subject, version, created_at"

func insert(ctx context.Context, tx *db.Tx, o StaffMember) (first bool, err error) {
	n, err := tx.Exec(ctx, `INSERT INTO staff (staff_id, name, email, email_key, role, password_hash, secret, last_step,
			status, version, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 'active', $8, $9) ON CONFLICT DO NOTHING`,
		o.ID, o.Name, o.Email, identity.EmailKey(o.Email), string(o.Role), o.hash, o.secret, o.version, db.Micros(o.Created))
	return n == 1, err
}

func scan(scan func(...any) error) (o StaffMember, err error) {
	var created int64
	err = scan(&o.ID, &o.Name, &o.Email, &o.Role, &o.hash, &o.secret, &o.account, &o.version, &created)
	o.Created = db.Time(created)
	return o, err
}

// byEmail returns the active member of staff with an email address. The ID is empty if there is none.
func byEmail(ctx context.Context, tx *db.Tx, email string) (StaffMember, error) {
	o, err := scan(tx.QueryRow(ctx, "SELECT "+columns+" FROM staff WHERE email_key = $1 AND status = 'active'",
		identity.EmailKey(strings.TrimSpace(email))).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return StaffMember{}, nil
	}
	return o, err
}

// byAccount returns the active member of staff who has signed in with an account at the operator's OpenID provider. The
// ID is empty if there is none.
func byAccount(ctx context.Context, tx *db.Tx, account string) (StaffMember, error) {
	o, err := scan(tx.QueryRow(ctx, "SELECT "+columns+" FROM staff WHERE sso_subject = $1 AND status = 'active'",
		account).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return StaffMember{}, nil
	}
	return o, err
}

// byID returns an active member of staff, or apierr.NotFoundErr.
func byID(ctx context.Context, tx *db.Tx, id string) (StaffMember, error) {
	o, err := scan(tx.QueryRow(ctx, "SELECT "+columns+" FROM staff WHERE staff_id = $1 AND status = 'active'", id).Scan)
	if errors.Is(err, db.ErrNoRows) {
		err = apierr.NotFoundErr
	}
	return o, err
}

// setAccount returns db.ErrConflict if the member has signed in with another account.
func setAccount(ctx context.Context, tx *db.Tx, o StaffMember, account string) error {
	return changed(tx.Exec(ctx, `UPDATE staff SET sso_subject = $2
		WHERE staff_id = $1 AND status = 'active' AND sso_subject IN ('', $2)`, o.ID, account))
}

// List returns the active members of staff, by email address.
func List(ctx context.Context, tx *db.Tx) ([]StaffMember, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+" FROM staff WHERE status = 'active' ORDER BY email_key")
	return db.Collect(rows, err, func(r *db.Rows) (StaffMember, error) { return scan(r.Scan) })
}

func changed(n int64, err error) error {
	if err == nil && n != 1 {
		return db.ErrConflict
	}
	return err
}

func updateCredentials(ctx context.Context, tx *db.Tx, o StaffMember) error {
	return changed(tx.Exec(ctx, `UPDATE staff SET password_hash = $3, secret = $4, sso_subject = '', last_step = 0,
			version = version + 1
		WHERE staff_id = $1 AND version = $2 AND status = 'active'`, o.ID, o.version, o.hash, o.secret))
}

func updateRole(ctx context.Context, tx *db.Tx, o StaffMember, role Role) error {
	return changed(tx.Exec(ctx, `UPDATE staff SET role = $3, version = version + 1
		WHERE staff_id = $1 AND version = $2 AND status = 'active'`, o.ID, o.version, string(role)))
}

func remove(ctx context.Context, tx *db.Tx, o StaffMember) error {
	if err := changed(tx.Exec(ctx, `UPDATE staff
		SET status = 'removed', password_hash = '', secret = '', sso_subject = '', version = version + 1
		WHERE staff_id = $1 AND version = $2 AND status = 'active'`, o.ID, o.version)); err != nil {
		return err
	}
	if err := approval.DropRequestsOf(ctx, tx, o.ID); err != nil {
		return err
	}
	return endSessions(ctx, tx, o.ID)
}

// takeStep stores the time step of an authenticator code. It reports false if this step or a later one was used before,
// or if the password or the authenticator was reset since o was read.
func takeStep(ctx context.Context, tx *db.Tx, o StaffMember, step int64) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE staff SET last_step = $2
		WHERE staff_id = $1 AND last_step < $2 AND status = 'active' AND password_hash = $3 AND secret = $4`,
		o.ID, step, o.hash, o.secret)
	return n == 1, err
}

func insertSession(ctx context.Context, tx *db.Tx, digest, staffID string) error {
	now := db.Micros(tx.Now())
	return tx.Insert(ctx, "staff_sessions", []string{"digest", "staff_id", "created_at", "last_used_at"}, [][]any{{digest,
		staffID, now, now}})
}

func findSession(ctx context.Context, tx *db.Tx, digest string) (s Session, err error) {
	var created, since, used int64
	o := &s.Member
	err = tx.QueryRow(ctx, `SELECT o.staff_id, o.name, o.email, o.role, o.version, o.created_at, s.created_at,
			s.last_used_at
		FROM staff_sessions s JOIN staff o ON o.staff_id = s.staff_id
		WHERE s.digest = $1 AND s.created_at > $2 AND s.last_used_at > $3 AND o.status = 'active'`,
		digest, db.Micros(tx.Now().Add(-Life)), db.Micros(tx.Now().Add(-Idle))).
		Scan(&o.ID, &o.Name, &o.Email, &o.Role, &o.version, &created, &since, &used)
	if errors.Is(err, db.ErrNoRows) {
		return Session{}, apierr.NotFoundErr
	}
	o.Created, s.Since, s.lastUsed, s.digest = db.Time(created), db.Time(since), db.Time(used), digest
	return s, err
}

// Touch stores the present time as the last use of a session.
func Touch(ctx context.Context, tx *db.Tx, s Session) error {
	_, err := tx.Exec(ctx, "UPDATE staff_sessions SET last_used_at = $1 WHERE digest = $2 AND last_used_at < $1",
		db.Micros(tx.Now()), s.digest)
	return err
}

func endSession(ctx context.Context, tx *db.Tx, digest string) error {
	_, err := tx.Exec(ctx, "DELETE FROM staff_sessions WHERE digest = $1", digest)
	return err
}

func endSessions(ctx context.Context, tx *db.Tx, staffID string) error {
	_, err := tx.Exec(ctx, "DELETE FROM staff_sessions WHERE staff_id = $1", staffID)
	return err
}

// Forget deletes ended sessions.
func Forget(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM staff_sessions WHERE created_at <= $1 OR last_used_at <= $2",
			db.Micros(tx.Now().Add(-Life)), db.Micros(tx.Now().Add(-Idle)))
		return err
	})
}

// AuditFilter selects entries of the audit log. Zero fields select all.
type AuditFilter struct {
	Text     string // part of the name of the staff member, the reason or the company's name, or an ID
	Action   string
	From, To time.Time // entries at or after From and before To
	Page     db.Page
}

// AuditLog returns a page of the audit log, newest first, and the number of entries that the filter selects.
func AuditLog(ctx context.Context, tx *db.Tx, f AuditFilter) ([]AuditEntry, int64, error) {
	l := &db.List{Columns: auditColumns, Table: "staff_actions", ID: "action_id", Time: "at", Page: f.Page}
	l.Where("sequence > ?", int64(0))
	if f.Text != "" {
		is, pattern := tx.Contains(f.Text)
		l.Where("(name "+is+" ? OR reason "+is+" ? OR company_id = ? OR object_id = ? OR company_id IN "+
			"(SELECT company_id FROM companies WHERE name "+is+" ?))", pattern, pattern, f.Text, f.Text, pattern)
	}
	if f.Action != "" {
		l.Where("action = ?", f.Action)
	}
	if !f.From.IsZero() {
		l.Where("at >= ?", db.Micros(f.From))
	}
	if !f.To.IsZero() {
		l.Where("at < ?", db.Micros(f.To))
	}
	return db.ReadPage(ctx, tx, l, scanAudit)
}

// AuditActions returns the actions that the audit log has, by name.
func AuditActions(ctx context.Context, tx *db.Tx) ([]string, error) {
	rows, err := tx.Query(ctx, "SELECT DISTINCT action FROM staff_actions ORDER BY action")
	return db.Collect(rows, err, func(r *db.Rows) (action string, err error) { return action, r.Scan(&action) })
}

const auditColumns = `sequence, action_id, at, staff_id, name, action, company_id, object_id, reason_code,
	reason, previous, hash`

func scanAudit(r *db.Rows) (a AuditEntry, err error) {
	var at int64
	err = r.Scan(&a.Sequence, &a.ID, &at, &a.StaffID, &a.Name, &a.Action, &a.CompanyID, &a.ObjectID, &a.Code,
		&a.Reason, &a.Previous, &a.Hash)
	a.At = db.Time(at)
	return a, err
}

// AuditAfter returns entries of the audit log in their order, from the one after a sequence number on.
func AuditAfter(ctx context.Context, tx *db.Tx, sequence int64, limit int) ([]AuditEntry, error) {
	rows, err := tx.Query(ctx, "SELECT "+auditColumns+` FROM staff_actions WHERE sequence > $1 ORDER BY sequence LIMIT $2`,
		sequence, int64(limit))
	return db.Collect(rows, err, scanAudit)
}

// auditAbout returns the newest entries of the audit log about a company or a person, newest first.
func auditAbout(ctx context.Context, tx *db.Tx, subjectID string, limit int) ([]AuditEntry, error) {
	rows, err := tx.Query(ctx, "SELECT "+auditColumns+` FROM staff_actions WHERE company_id = $1 OR object_id = $1
		ORDER BY sequence DESC LIMIT $2`, subjectID, int64(limit))
	return db.Collect(rows, err, scanAudit)
}

// auditSequence is the setting with the number of the newest entry. Its row is locked from the addition of an entry to
// the end of the transaction, so that entries have the order of their commits.
const auditSequence = "audit.sequence"

// AuditEntries returns the number of entries that were written to the audit log.
func AuditEntries(ctx context.Context, tx *db.Tx) (int64, error) {
	newest, err := db.Setting(ctx, tx, auditSequence)
	if err != nil || newest == "" {
		return 0, err
	}
	return strconv.ParseInt(newest, 10, 64)
}

func insertAudit(ctx context.Context, tx *db.Tx, a AuditEntry) error {
	return tx.Insert(ctx, "staff_actions", []string{
		"action_id", "at", "staff_id", "name", "action", "company_id", "object_id", "reason_code", "reason", "sequence",
		"previous", "hash",
	}, [][]any{{
		a.ID, db.Micros(a.At), a.StaffID, a.Name, a.Action, a.CompanyID, a.ObjectID, a.Code, a.Reason, a.Sequence, a.Previous,
		a.Hash,
	}})
}

// auditHash returns the hash of an entry, "" if there is none with this number.
func auditHash(ctx context.Context, tx *db.Tx, sequence int64) (hash string, err error) {
	err = tx.QueryRow(ctx, "SELECT hash FROM staff_actions WHERE sequence = $1", sequence).Scan(&hash)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return hash, err
}

func insertNote(ctx context.Context, tx *db.Tx, n Note) error {
	return tx.Insert(ctx, "staff_notes", []string{"company_id", "note_id", "name", "sealed", "created_at"},
		[][]any{{n.CompanyID, n.ID, n.Name, n.sealed, db.Micros(n.At)}})
}

func notesAbout(ctx context.Context, tx *db.Tx, subjectID string, limit int) ([]Note, error) {
	rows, err := tx.Query(ctx, `SELECT note_id, name, sealed, created_at FROM staff_notes WHERE company_id = $1
		ORDER BY created_at DESC, note_id DESC LIMIT $2`, subjectID, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (n Note, err error) {
		var at int64
		err = r.Scan(&n.ID, &n.Name, &n.sealed, &at)
		n.CompanyID, n.At = subjectID, db.Time(at)
		return n, err
	})
}

func insertReport(ctx context.Context, tx *db.Tx, r Report, text []byte) error {
	return tx.Insert(ctx, "reconciliations", []string{"reconciliation_id", "at", "differences", "report"},
		[][]any{{r.ID, db.Micros(r.At), int64(len(r.Differences)), string(text)}})
}

// Reports returns the newest reports, newest first.
func Reports(ctx context.Context, tx *db.Tx, limit int) ([]Report, error) {
	rows, err := tx.Query(ctx, `SELECT reconciliation_id, report FROM reconciliations
		ORDER BY at DESC, reconciliation_id DESC LIMIT $1`, int64(limit))
	return db.Collect(rows, err, func(row *db.Rows) (r Report, err error) {
		var id, text string
		if err := row.Scan(&id, &text); err != nil {
			return r, err
		}
		err = json.Unmarshal([]byte(text), &r)
		r.ID = id
		return r, err
	})
}
