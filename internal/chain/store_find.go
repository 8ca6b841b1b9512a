package chain

import (
	"context"
	"strings"

	"github.com/stipend/stipend/internal/db"
)

// Place is an object to which an address was given, or that a transaction pays or was made for.
type Place struct {
	Chain, CompanyID, ObjectID string
	Address                    string // "" for a transaction that pays outputs
	TxID                       string // "" for an address
}

// FindPlaces returns the objects of all companies that an address or a transaction ID belongs to, for staff. Addresses
// of EVM networks are found in any case of their letters.
func FindPlaces(ctx context.Context, tx *db.Tx, text string, limit int) ([]Place, error) {
	const known = "chain IN (SELECT chain FROM chain_cursors)"
	rows, err := tx.Query(ctx, `SELECT chain, company_id, object_id, address, '' FROM chain_addresses
			WHERE `+known+` AND address IN ($1, $2)
		UNION SELECT chain, company_id, object_id, address, txid FROM chain_outputs WHERE `+known+` AND txid IN ($1, $2)
		UNION SELECT chain, company_id, object_id, '', txid FROM chain_txs WHERE `+known+` AND txid IN ($1, $2)
		LIMIT $3`, text, strings.ToLower(text), int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (p Place, err error) {
		return p, r.Scan(&p.Chain, &p.CompanyID, &p.ObjectID, &p.Address, &p.TxID)
	})
}
