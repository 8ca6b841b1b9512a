package destination

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
)

// countIn adds one to the owner's number of destinations and locks the owner's row until the commit, so that
// concurrent creations see each other. It returns ErrLimit if the number is at its maximum.
func countIn(ctx context.Context, tx *db.Tx, ownerID string) (count, version int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO destination_owners (owner_id, destinations, version) VALUES ($1, 1, 1)
		ON CONFLICT (owner_id) DO UPDATE SET destinations = destination_owners.destinations + 1,
			version = destination_owners.version + 1
			WHERE destination_owners.destinations < 3
		RETURNING destinations, version`, ownerID).Scan(&count, &version)
	if errors.Is(err, db.ErrNoRows) {
		return 0, 0, ErrLimit
	}
	return count, version, err
}

// queueUp locks the owner's row until the commit. Every change locks it before any destination, so changes cannot
// deadlock.
func queueUp(ctx context.Context, tx *db.Tx, ownerID string) (version int64, err error) {
	return own(tx.QueryRow(ctx,
		"UPDATE destination_owners SET version = version + 1 WHERE owner_id = $1 RETURNING version", ownerID))
}

// countOut subtracts a removed destination from the owner's number of destinations and locks the owner's row, as
// queueUp does.
func countOut(ctx context.Context, tx *db.Tx, ownerID string) (version int64, err error) {
	return own(tx.QueryRow(ctx, `UPDATE destination_owners SET destinations = destinations - 1, version = version + 1
		WHERE owner_id = $1 AND destinations > 0 RETURNING version`, ownerID))
}

func own(row db.Row) (version int64, err error) {
	err = row.Scan(&version)
	if errors.Is(err, db.ErrNoRows) {
		return 0, apierr.NotFoundErr
	}
	return version, err
}

func insert(ctx context.Context, tx *db.Tx, d Destination) error {
	at := db.Micros(d.Created)
	return tx.Insert(ctx, "destinations", []string{"owner_id", "destination_id", "kind", "symbol", "rail", "scheme",
		"country", "network",
		"address", "tag", "transfer_memo", "sealed", "masked", "allocation", "created_at", "updated_at"},
		[][]any{{d.OwnerID, d.ID, d.Kind, string(d.Symbol), d.Rail, d.Scheme, d.Country, d.Network,
			d.Address, d.Tag, d.Memo, d.Sealed, string(d.Data), int64(d.Allocation), at, at}})
}

// setAllocation stores the allocation of a destination that was read after queueUp.
func setAllocation(ctx context.Context, tx *db.Tx, d Destination, percent int) error {
	n, err := tx.Exec(ctx, `UPDATE destinations SET allocation = $3, updated_at = $4
		WHERE owner_id = $1 AND destination_id = $2 AND allocation = $5`,
		d.OwnerID, d.ID, int64(percent), db.Micros(tx.Now()), int64(d.Allocation))
	if err == nil && n != 1 {
		return errors.New("destination: an allocation changed concurrently")
	}
	return err
}

// replace stores the new data of a destination that was read after queueUp.
func replace(ctx context.Context, tx *db.Tx, d Destination) error {
	n, err := tx.Exec(ctx, `UPDATE destinations SET kind = $3, symbol = $4, rail = $5, scheme = $6, country = $7,
		network = $8,
			address = $9, tag = $10, transfer_memo = $11, sealed = $12, masked = $13, updated_at = $14, correction = '',
				correction_for = ''
		WHERE owner_id = $1 AND destination_id = $2 AND allocation = $15`,
		d.OwnerID, d.ID, d.Kind, string(d.Symbol), d.Rail, d.Scheme, d.Country, d.Network,
		d.Address, d.Tag, d.Memo, d.Sealed, string(d.Data), db.Micros(tx.Now()), int64(d.Allocation))
	if err == nil && n != 1 {
		return errors.New("destination: changed concurrently")
	}
	return err
}

// setCorrection stores the correction of a destination that was read after queueUp.
func setCorrection(ctx context.Context, tx *db.Tx, d Destination, c Correction, companyID string) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	n, err := tx.Exec(ctx, `UPDATE destinations SET correction = $3, correction_for = $4, updated_at = $5
		WHERE owner_id = $1 AND destination_id = $2 AND sealed = $6`, d.OwnerID, d.ID, string(text), companyID,
		db.Micros(tx.Now()), d.Sealed)
	if err == nil && n != 1 {
		return errors.New("destination: changed concurrently")
	}
	return err
}

// asked returns the IDs of recipients without a login with open corrections after payments of a company.
func asked(ctx context.Context, tx *db.Tx, companyID string, limit int) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT DISTINCT owner_id FROM destinations WHERE correction_for = $1
		AND correction_for <> '' AND owner_id LIKE 'rec%'
		ORDER BY owner_id LIMIT $2`, companyID, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// remove deletes a destination, if its allocation is 0.
func remove(ctx context.Context, tx *db.Tx, ownerID, id string) error {
	n, err := tx.Exec(ctx, "DELETE FROM destinations WHERE owner_id = $1 AND destination_id = $2 AND allocation = 0",
		ownerID, id)
	if err == nil && n != 1 {
		return ErrNotZero
	}
	return err
}

var changeRows = db.BulkInsert("destination_changes", "owner_id", "change_id", "destination_id", "action", "actor_kind",
	"actor_id",
	"company_id", "user_id", "state_before", "state_after", "at")

func insertChange(tx *db.Tx, by identity.Principal, ownerID, id, action string, c change) error {
	before, err := state(c.before)
	if err != nil {
		return err
	}
	after, err := state(c.after)
	if err != nil {
		return err
	}
	changeRows.Add(tx, []any{ownerID, tx.NewID("chg"), id, action, string(by.Kind), by.ID, by.CompanyID, by.UserID,
		string(before), string(after), db.Micros(tx.Now())})
	return nil
}

func selectChanges(ctx context.Context, tx *db.Tx, ownerID string, limit,
	offset int64) (some []Change, total int64, err error) {
	if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM destination_changes WHERE owner_id = $1",
		ownerID).Scan(&total); err != nil || offset >= total {
		return nil, total, err
	}
	rows, err := tx.Query(ctx, `SELECT change_id, destination_id, action, actor_kind, actor_id, company_id, user_id,
		state_before, state_after, at
		FROM destination_changes WHERE owner_id = $1 ORDER BY at DESC, change_id DESC LIMIT $2 OFFSET $3`, ownerID, limit,
		offset)
	some, err = db.Collect(rows, err, func(r *db.Rows) (Change, error) {
		c := Change{OwnerID: ownerID}
		var kind, before, after string
		var at int64
		err := r.Scan(&c.ID, &c.DistributionID, &c.Action, &kind, &c.By.CredentialID, &c.By.CompanyID, &c.By.UserID, &before,
			&after, &at)
		c.By.Kind, c.Before, c.After, c.At = identity.Kind(kind), json.RawMessage(before), json.RawMessage(after), db.Time(at)
		return c, err
	})
	return some, total, err
}

// markMoved stores the present time as that of the latest change of the destinations used for payments. The caller
// must hold the owner's lock.
func markMoved(ctx context.Context, tx *db.Tx, ownerID string) error {
	_, err := tx.Exec(ctx, "UPDATE destination_owners SET destination_changed_at = $2 WHERE owner_id = $1", ownerID,
		db.Micros(tx.Now()))
	return err
}

func selectMoved(ctx context.Context, tx *db.Tx, owners []string, since time.Time) (map[string]time.Time, error) {
	moved := map[string]time.Time{}
	return moved, db.EachIn(ctx, tx, owners, `SELECT owner_id, destination_changed_at FROM destination_owners
		WHERE destination_changed_at > $1 AND owner_id IN %s`, []any{db.Micros(since)}, func(r *db.Rows) error {
		var owner string
		var at int64
		err := r.Scan(&owner, &at)
		moved[owner] = db.Time(at)
		return err
	})
}

func selectFor(ctx context.Context, tx *db.Tx, owners []string) (map[string][]Destination, error) {
	found := make(map[string][]Destination, len(owners))
	owners = slices.Compact(slices.Sorted(slices.Values(owners)))
	return found, db.EachIn(ctx, tx, owners, `SELECT owner_id, destination_id, kind, symbol, rail, scheme, country,
			network, address, tag, transfer_memo, sealed, masked, allocation, created_at, correction
		FROM destinations WHERE owner_id IN %s ORDER BY owner_id, created_at, destination_id`, nil, func(r *db.Rows) error {
		var d Destination
		var symbol, masked, correction string
		var created int64
		err := r.Scan(&d.OwnerID, &d.ID, &d.Kind, &symbol, &d.Rail, &d.Scheme, &d.Country, &d.Network,
			&d.Address, &d.Tag, &d.Memo, &d.Sealed, &masked, &d.Allocation, &created, &correction)
		d.Symbol, d.Data, d.Created = money.Asset(symbol), json.RawMessage(masked), db.Time(created)
		if err == nil && correction != "" {
			err = json.Unmarshal([]byte(correction), &d.Correction)
		}
		found[d.OwnerID] = append(found[d.OwnerID], d)
		return err
	})
}

// Erase deletes an owner's destinations. Payouts and the history keep them masked, under the owner's ID.
func Erase(ctx context.Context, tx *db.Tx, ownerID string) error {
	if _, err := tx.Exec(ctx, "UPDATE destination_owners SET destinations = 0, version = version + 1 WHERE owner_id = $1",
		ownerID); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "DELETE FROM destinations WHERE owner_id = $1", ownerID)
	return err
}
