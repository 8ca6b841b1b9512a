package distribution

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/fault"
	"github.com/stipend/stipend/internal/money"
)

// countIn takes a place among the owner's destinations, and with it the owner's row until the commit, so that two
// that create at once see each other. A full row is ErrLimit.
func countIn(ctx context.Context, tx *db.Tx, ownerID string) (count, version int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO distribution_owners (owner_id, destinations, version) VALUES ($1, 1, 1)
		ON CONFLICT (owner_id) DO UPDATE SET destinations = distribution_owners.destinations + 1, version = distribution_owners.version + 1
			WHERE distribution_owners.destinations < 3
		RETURNING destinations, version`, ownerID).Scan(&count, &version)
	if errors.Is(err, db.ErrNoRows) {
		return 0, 0, ErrLimit
	}
	return count, version, err
}

// queueUp takes the owner's row until the commit. Every change takes it before any destination, so none wait crosswise.
func queueUp(ctx context.Context, tx *db.Tx, ownerID string) (version int64, err error) {
	return own(tx.QueryRow(ctx, "UPDATE distribution_owners SET version = version + 1 WHERE owner_id = $1 RETURNING version", ownerID))
}

// countOut is queueUp for a destination that goes.
func countOut(ctx context.Context, tx *db.Tx, ownerID string) (version int64, err error) {
	return own(tx.QueryRow(ctx, `UPDATE distribution_owners SET destinations = destinations - 1, version = version + 1
		WHERE owner_id = $1 AND destinations > 0 RETURNING version`, ownerID))
}

func own(row db.Row) (version int64, err error) {
	err = row.Scan(&version)
	if errors.Is(err, db.ErrNoRows) {
		return 0, fault.NotFoundErr
	}
	return version, err
}

func insert(ctx context.Context, tx *db.Tx, d Distribution) error {
	at := db.Micros(d.Created)
	return tx.Insert(ctx, "distributions", []string{"owner_id", "distribution_id", "kind", "symbol", "rail", "scheme", "country", "network",
		"address", "tag", "transfer_memo", "sealed", "masked", "allocation", "created_at", "updated_at"},
		[][]any{{d.OwnerID, d.ID, d.Kind, string(d.Symbol), d.Rail, d.Scheme, d.Country, d.Network,
			d.Address, d.Tag, d.Memo, d.Sealed, string(d.Data), int64(d.Allocation), at, at}})
}

// setAllocation expects the destination as it was read after queueUp.
func setAllocation(ctx context.Context, tx *db.Tx, d Distribution, percent int) error {
	n, err := tx.Exec(ctx, `UPDATE distributions SET allocation = $3, updated_at = $4
		WHERE owner_id = $1 AND distribution_id = $2 AND allocation = $5`,
		d.OwnerID, d.ID, int64(percent), db.Micros(tx.Now()), int64(d.Allocation))
	if err == nil && n != 1 {
		return errors.New("distribution: an allocation changed while its owner was held")
	}
	return err
}

// remove is the guard of a delete: the allocation is 0 in the statement that deletes.
// remove deletes a destination whose allocation is 0, and says what it was as far as its hint needs it.
func remove(ctx context.Context, tx *db.Tx, ownerID, id string) (Distribution, error) {
	d := Distribution{OwnerID: ownerID, ID: id}
	var symbol, masked string
	err := tx.QueryRow(ctx, `DELETE FROM distributions WHERE owner_id = $1 AND distribution_id = $2 AND allocation = 0
		RETURNING kind, symbol, address, masked`, ownerID, id).Scan(&d.Kind, &symbol, &d.Address, &masked)
	if !errors.Is(err, db.ErrNoRows) {
		d.Symbol, d.Data = money.Asset(symbol), json.RawMessage(masked)
		return d, err
	}
	var allocation int64
	err = tx.QueryRow(ctx, "SELECT allocation FROM distributions WHERE owner_id = $1 AND distribution_id = $2", ownerID, id).Scan(&allocation)
	if errors.Is(err, db.ErrNoRows) {
		return d, fault.NotFoundErr
	}
	if err != nil {
		return d, err
	}
	return d, ErrNotZero
}

func selectFor(ctx context.Context, tx *db.Tx, owners []string) (map[string][]Distribution, error) {
	found := make(map[string][]Distribution, len(owners))
	owners = slices.Compact(slices.Sorted(slices.Values(owners)))
	for in, args := range tx.In(owners, 1) {
		rows, err := tx.Query(ctx, `SELECT owner_id, distribution_id, kind, symbol, rail, scheme, country, network,
				address, tag, transfer_memo, sealed, masked, allocation, created_at
			FROM distributions WHERE owner_id IN `+in+` ORDER BY owner_id, created_at, distribution_id`, args...)
		all, err := db.Collect(rows, err, func(r *db.Rows) (d Distribution, err error) {
			var symbol, masked string
			var created int64
			err = r.Scan(&d.OwnerID, &d.ID, &d.Kind, &symbol, &d.Rail, &d.Scheme, &d.Country, &d.Network,
				&d.Address, &d.Tag, &d.Memo, &d.Sealed, &masked, &d.Allocation, &created)
			d.Symbol, d.Data, d.Created = money.Asset(symbol), json.RawMessage(masked), db.Time(created)
			return d, err
		})
		if err != nil {
			return nil, err
		}
		for _, d := range all {
			found[d.OwnerID] = append(found[d.OwnerID], d)
		}
	}
	return found, nil
}
