package approval

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

func insertApproval(ctx context.Context, tx *db.Tx, s Subject, userID string) (first bool, err error) {
	n, err := tx.Exec(ctx, `INSERT INTO approvals (company_id, object_id, user_id, at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (company_id, object_id, user_id) DO NOTHING`, s.CompanyID, s.ID, userID, db.Micros(tx.Now()))
	return n == 1, err
}

// given returns the user IDs of the members who approved a subject.
func given(ctx context.Context, tx *db.Tx, s Subject) ([]string, error) {
	rows, err := tx.Query(ctx, "SELECT user_id FROM approvals WHERE company_id = $1 AND object_id = $2 ORDER BY user_id",
		s.CompanyID, s.ID)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// findLimit returns a company's limit. If there is none, its amount has no asset.
func findLimit(ctx context.Context, tx *db.Tx, companyID string) (l Limit, err error) {
	var currency, proposed string
	var amount, proposedAmount, since int64
	err = tx.QueryRow(ctx, `SELECT currency, amount, proposal_id, proposed_by, proposed_currency, proposed_amount, set_at
		FROM approval_limits WHERE company_id = $1`, companyID).
		Scan(&currency, &amount, &l.Proposal.ID, &l.Proposal.By, &proposed, &proposedAmount, &since)
	if errors.Is(err, db.ErrNoRows) {
		return Limit{}, nil
	}
	l.since = db.Time(since)
	if currency != "" {
		l.Amount = money.New(money.Asset(currency), amount)
	}
	if proposed != "" {
		l.Proposal.Amount = money.New(money.Asset(proposed), proposedAmount)
	}
	return l, err
}

// saveLimit stores a company's limit. The caller must have locked the company's row.
func saveLimit(ctx context.Context, tx *db.Tx, companyID string, l Limit) error {
	units := func(a money.Amount) int64 {
		if a.Asset() == "" {
			return 0
		}
		return a.Units()
	}
	_, err := tx.Exec(ctx, `INSERT INTO approval_limits
			(company_id, currency, amount, proposal_id, proposed_by, proposed_currency, proposed_amount, set_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (company_id) DO UPDATE SET currency = excluded.currency, amount = excluded.amount,
			proposal_id = excluded.proposal_id, proposed_by = excluded.proposed_by,
			proposed_currency = excluded.proposed_currency, proposed_amount = excluded.proposed_amount,
			set_at = excluded.set_at, updated_at = excluded.updated_at`,
		companyID, string(l.Amount.Asset()), units(l.Amount), l.Proposal.ID, l.Proposal.By, string(l.Proposal.Amount.Asset()),
		units(l.Proposal.Amount), db.Micros(l.since), db.Micros(tx.Now()))
	return err
}

// LockLimit prevents, until the commit, concurrent changes of a company's limit and concurrent payments that count
// towards it.
func LockLimit(ctx context.Context, tx *db.Tx, companyID string) error {
	_, err := tx.Exec(ctx, "UPDATE approval_limits SET updated_at = updated_at WHERE company_id = $1", companyID)
	return err
}

func insertUse(ctx context.Context, tx *db.Tx, s Subject, amount money.Amount) error {
	_, err := tx.Exec(ctx, `INSERT INTO approval_uses (company_id, object_id, currency, amount, at)
		VALUES ($1, $2, $3, $4, $5) ON CONFLICT (company_id, object_id) DO UPDATE
		SET currency = excluded.currency, amount = excluded.amount`,
		s.CompanyID, s.ID, string(amount.Asset()), amount.Units(), db.Micros(tx.Now()))
	return err
}

func deleteUse(ctx context.Context, tx *db.Tx, s Subject) error {
	_, err := tx.Exec(ctx, "DELETE FROM approval_uses WHERE company_id = $1 AND object_id = $2", s.CompanyID, s.ID)
	return err
}

// usedSince returns the amounts that a company has paid without approval after a time, by currency, except the amount
// of the subject. If the subject is already counted, usedSince includes only amounts that were counted before it.
func usedSince(ctx context.Context, tx *db.Tx, s Subject, after time.Time) ([]money.Amount, error) {
	rows, err := tx.Query(ctx, `SELECT u.currency, CAST(SUM(u.amount) AS BIGINT) FROM approval_uses u
		LEFT JOIN approval_uses own ON own.company_id = u.company_id AND own.object_id = $3
		WHERE u.company_id = $1 AND u.at > $2 AND u.object_id <> $3
			AND (own.at IS NULL OR u.at < own.at OR u.at = own.at AND u.object_id < $3)
		GROUP BY u.currency ORDER BY u.currency`,
		s.CompanyID, db.Micros(after), s.ID)
	return db.Collect(rows, err, func(r *db.Rows) (money.Amount, error) {
		var currency string
		var units int64
		err := r.Scan(&currency, &units)
		return money.New(money.Asset(currency), units), err
	})
}

func deleteApprovals(ctx context.Context, tx *db.Tx, s Subject) error {
	_, err := tx.Exec(ctx, "DELETE FROM approvals WHERE company_id = $1 AND object_id = $2", s.CompanyID, s.ID)
	return err
}

const requestColumns = "request_id, action, company_id, object_id, target, reason, requested_by, requested_at, version"

func insertRequest(ctx context.Context, tx *db.Tx, r Request) (first bool, err error) {
	n, err := tx.Exec(ctx, `INSERT INTO approval_requests (`+requestColumns+`, state, answered_by, answered_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'open', '', 0) ON CONFLICT DO NOTHING`,
		r.ID, r.Action, r.CompanyID, r.ObjectID, r.Target, r.Reason, r.RequestedBy, db.Micros(r.RequestedAt), r.version)
	return n == 1, err
}

func scanRequest(scan func(...any) error) (r Request, err error) {
	var at int64
	err = scan(&r.ID, &r.Action, &r.CompanyID, &r.ObjectID, &r.Target, &r.Reason, &r.RequestedBy, &at, &r.version)
	r.RequestedAt = db.Time(at)
	return r, err
}

// OpenRequests returns the requests that are not answered, oldest first.
func OpenRequests(ctx context.Context, tx *db.Tx) ([]Request, error) {
	rows, err := tx.Query(ctx, "SELECT "+requestColumns+` FROM approval_requests WHERE state = 'open'
		ORDER BY requested_at, request_id`)
	return db.Collect(rows, err, func(r *db.Rows) (Request, error) { return scanRequest(r.Scan) })
}

// DropRequestsOf drops the open requests of a staff member who is being removed.
func DropRequestsOf(ctx context.Context, tx *db.Tx, staffID string) error {
	_, err := tx.Exec(ctx, `UPDATE approval_requests SET state = 'dropped', answered_at = $2, version = version + 1
		WHERE requested_by = $1 AND state = 'open'`, staffID, db.Micros(tx.Now()))
	return err
}

func findRequest(ctx context.Context, tx *db.Tx, id string) (Request, error) {
	r, err := scanRequest(tx.QueryRow(ctx, "SELECT "+requestColumns+
		" FROM approval_requests WHERE request_id = $1 AND state = 'open'", id).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Request{}, ErrAnswered
	}
	return r, err
}

// answer closes a request. It returns ErrAnswered if the request is no longer open.
func answer(ctx context.Context, tx *db.Tx, r Request, state, staffID string) error {
	n, err := tx.Exec(ctx, `UPDATE approval_requests
		SET state = $3, answered_by = $4, answered_at = $5, version = version + 1
		WHERE request_id = $1 AND version = $2 AND state = 'open'`, r.ID, r.version, state, staffID, db.Micros(tx.Now()))
	if err == nil && n != 1 {
		return ErrAnswered
	}
	return err
}

// dropRequests drops the open and approved requests for an action on an object.
func dropRequests(ctx context.Context, tx *db.Tx, action, companyID, objectID string) error {
	_, err := tx.Exec(ctx, `UPDATE approval_requests SET state = 'dropped', answered_at = $4, version = version + 1
		WHERE company_id = $1 AND object_id = $2 AND action = $3 AND state IN ('open', 'approved')`, companyID, objectID,
		action, db.Micros(tx.Now()))
	return err
}

// approved reports whether two different staff members have approved an action on an object.
func approved(ctx context.Context, tx *db.Tx, action, companyID, objectID string) (bool, error) {
	var n int64
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM approval_requests
		WHERE company_id = $1 AND object_id = $2 AND action = $3
		AND state = 'approved' AND answered_by <> requested_by`, companyID, objectID, action).Scan(&n)
	return n > 0, err
}

// lockSubjects makes concurrent payments of the same subjects wait until the commit, and deletes the amounts counted
// for the subjects before a time. The IDs must be sorted, so that two transactions do not deadlock.
func lockSubjects(ctx context.Context, tx *db.Tx, ids []string, before time.Time) error {
	for some := range slices.Chunk(ids, maxVelocityRows) {
		var args []any
		for _, id := range some {
			args = append(args, id, "", "", int64(0), int64(0))
		}
		if _, err := tx.Exec(ctx, "INSERT INTO velocity_uses ("+velocityColumns+") VALUES "+
			db.Placeholders(len(some), 5, 1)+" ON CONFLICT (subject_id, object_id) DO UPDATE SET at = excluded.at",
			args...); err != nil {
			return err
		}
	}
	for in, args := range db.BindList(tx, ids, 2) {
		if _, err := tx.Exec(ctx, "DELETE FROM velocity_uses WHERE object_id <> '' AND at <= $1 AND subject_id IN "+in,
			append([]any{db.Micros(before)}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

const velocityColumns = "subject_id, object_id, currency, amount, at"

// maxVelocityRows is the largest number of rows that one statement writes.
const maxVelocityRows = 100

// insertVelocity counts the amounts of an object for its subjects. Amounts that are already counted stay unchanged.
func insertVelocity(ctx context.Context, tx *db.Tx, objectID string, amounts map[string]money.Amount) error {
	for some := range slices.Chunk(slices.Sorted(maps.Keys(amounts)), maxVelocityRows) {
		var args []any
		for _, id := range some {
			args = append(args, id, objectID, string(amounts[id].Asset()), amounts[id].Units(), db.Micros(tx.Now()))
		}
		if _, err := tx.Exec(ctx, "INSERT INTO velocity_uses ("+velocityColumns+") VALUES "+
			db.Placeholders(len(some), 5, 1)+` ON CONFLICT (subject_id, object_id) DO UPDATE
			SET currency = excluded.currency, amount = excluded.amount`, args...); err != nil {
			return err
		}
	}
	return nil
}

// deleteVelocity deletes the amount counted for an object and one of its subjects.
func deleteVelocity(ctx context.Context, tx *db.Tx, subjectID, objectID string) error {
	_, err := tx.Exec(ctx, "DELETE FROM velocity_uses WHERE subject_id = $1 AND object_id = $2", subjectID, objectID)
	return err
}

// velocityOf returns the amounts counted for an object, by subject.
func velocityOf(ctx context.Context, tx *db.Tx, objectID string, ids []string) (map[string]money.Amount, error) {
	found, err := selectVelocity(ctx, tx, "object_id = $1 AND at > $2", objectID, 0, ids)
	counted := map[string]money.Amount{}
	for id, all := range found {
		counted[id] = all[0]
	}
	return counted, err
}

// velocitySince returns the amounts counted for other objects after a time, by subject and currency.
func velocitySince(ctx context.Context, tx *db.Tx, objectID string, ids []string, since int64) (
	map[string][]money.Amount, error) {
	return selectVelocity(ctx, tx, "object_id NOT IN ('', $1) AND at > $2", objectID, since, ids)
}

func selectVelocity(ctx context.Context, tx *db.Tx, where, objectID string, since int64, ids []string) (
	map[string][]money.Amount, error) {
	found := map[string][]money.Amount{}
	for in, args := range db.BindList(tx, ids, 3) {
		rows, err := tx.Query(ctx, "SELECT subject_id, currency, CAST(SUM(amount) AS BIGINT) FROM velocity_uses WHERE "+
			where+" AND subject_id IN "+in+" GROUP BY subject_id, currency ORDER BY subject_id, currency",
			append([]any{objectID, since}, args...)...)
		if _, err := db.Collect(rows, err, func(r *db.Rows) (struct{}, error) {
			var id, currency string
			var units int64
			err := r.Scan(&id, &currency, &units)
			found[id] = append(found[id], money.New(money.Asset(currency), units))
			return struct{}{}, err
		}); err != nil {
			return nil, err
		}
	}
	return found, nil
}
