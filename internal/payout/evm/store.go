package evm

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// lockNonce returns the next nonce of an account, locked for the rest of the transaction. used reports whether one
// was stored before.
func lockNonce(ctx context.Context, tx *db.Tx, chainName, account string) (next uint64, used bool, err error) {
	var n int64
	err = tx.QueryRow(ctx, `INSERT INTO payout_nonces (chain, account, next) VALUES ($1, $2, -1)
		ON CONFLICT (chain, account) DO UPDATE SET next = payout_nonces.next RETURNING next`, chainName, account).Scan(&n)
	return uint64(max(n, 0)), n >= 0, err
}

func setNonce(ctx context.Context, tx *db.Tx, chainName, account string, next uint64) error {
	return tx.Queue(ctx, `UPDATE payout_nonces SET next = $3 WHERE chain = $1 AND account = $2`, chainName, account,
		int64(next))
}

const collectionColumns = `company_id, collection_id, object_id, chain, asset, amount, payer, recipient, valid_after,
	valid_before, nonce, signature, send_before, batch_id, reason, version`

func insertCollection(ctx context.Context, tx *db.Tx, c Collection) error {
	_, err := tx.Exec(ctx, "INSERT INTO payout_collections ("+collectionColumns+`, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, '', '', 1, $14)`, c.CompanyID, c.ID, c.ObjectID,
		c.Chain, string(c.Amount.Asset()), c.Amount.Units(), c.From.String(), c.To.String(), c.ValidAfter, c.ValidBefore,
		hex.EncodeToString(c.Nonce[:]), hex.EncodeToString(c.Signature[:]), db.Micros(c.SendBefore),
		db.Micros(tx.Now()))
	return err
}

func scanCollection(read func(...any) error) (c Collection, err error) {
	var asset, payer, recipient, nonce, signature string
	var units, before int64
	if err := read(&c.CompanyID, &c.ID, &c.ObjectID, &c.Chain, &asset, &units, &payer, &recipient, &c.ValidAfter,
		&c.ValidBefore, &nonce, &signature, &before, &c.BatchID, &c.Reason, &c.Version); err != nil {
		return c, err
	}
	c.Amount, c.SendBefore = money.New(money.Asset(asset), units), db.Time(before)
	from, err1 := evm.ParseAddress(payer)
	to, err2 := evm.ParseAddress(recipient)
	c.From, c.To = from, to
	if !evm.ParseBytes(c.Nonce[:], "0x"+nonce) || !evm.ParseBytes(c.Signature[:], "0x"+signature) {
		err = errors.New("evm: collection " + c.ID + " has a malformed nonce or signature")
	}
	return c, errors.Join(err, err1, err2)
}

func getCollection(ctx context.Context, tx *db.Tx, companyID, id string) (Collection, error) {
	return scanCollection(tx.QueryRow(ctx, "SELECT "+collectionColumns+` FROM payout_collections WHERE company_id = $1
		AND collection_id = $2`, companyID, id).Scan)
}

// CollectionsOf returns the collections for an object, oldest first.
func CollectionsOf(ctx context.Context, tx *db.Tx, companyID, objectID string) ([]Collection, error) {
	rows, err := tx.Query(ctx, "SELECT "+collectionColumns+` FROM payout_collections WHERE company_id = $1
		AND object_id = $2 ORDER BY collection_id`, companyID, objectID)
	return db.Collect(rows, err, func(r *db.Rows) (Collection, error) { return scanCollection(r.Scan) })
}

// setCollectionBatch assigns the batch of a collection that has none.
func setCollectionBatch(ctx context.Context, tx *db.Tx, c Collection, batchID string) error {
	return tx.ExecOne(ctx, `UPDATE payout_collections SET batch_id = $3, version = version + 1
		WHERE company_id = $1 AND collection_id = $2 AND batch_id = '' AND reason = ''`, c.CompanyID, c.ID, batchID)
}

// setCollectionReason ends a collection whose transfer was not signed.
func setCollectionReason(ctx context.Context, tx *db.Tx, c Collection, reason string) error {
	return tx.ExecOne(ctx, `UPDATE payout_collections SET reason = $3, version = version + 1
		WHERE company_id = $1 AND collection_id = $2 AND batch_id = '' AND reason = ''`, c.CompanyID, c.ID, reason)
}
