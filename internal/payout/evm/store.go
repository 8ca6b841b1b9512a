package evm

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// nonces are the nonces of an account that no transaction uses.
type nonces struct {
	chain, account string
	known          bool     // a nonce of the account was assigned before
	free           []uint64 // free nonces below next, ascending: their transactions were never signed
	next           uint64   // this nonce and all higher nonces are free
	spent          []uint64 // nonces taken from free since they were read
}

// lockNonces returns the free nonces of an account, locked for the rest of the transaction.
func lockNonces(ctx context.Context, tx *db.Tx, chainName, account string) (nonces, error) {
	n := nonces{chain: chainName, account: account}
	var next int64
	if err := tx.QueryRow(ctx, `INSERT INTO payout_nonces (chain, account, next) VALUES ($1, $2, -1)
		ON CONFLICT (chain, account) DO UPDATE SET next = payout_nonces.next RETURNING next`, chainName, account).
		Scan(&next); err != nil {
		return n, err
	}
	n.known, n.next = next >= 0, uint64(max(next, 0))
	rows, err := tx.Query(ctx, `SELECT nonce FROM payout_free_nonces WHERE chain = $1 AND account = $2 ORDER BY nonce`,
		chainName, account)
	n.free, err = db.Collect(rows, err, func(r *db.Rows) (uint64, error) {
		var nonce int64
		err := r.Scan(&nonce)
		return uint64(nonce), err
	})
	return n, err
}

// take returns the lowest free nonce and marks it as used.
func (n *nonces) take() uint64 {
	if len(n.free) > 0 {
		lowest := n.free[0]
		n.free, n.spent = n.free[1:], append(n.spent, lowest)
		return lowest
	}
	n.next++
	return n.next - 1
}

// skip marks all nonces below the account's next nonce on the chain as used. It reports whether one of them was free
// although the account has assigned nonces before: then the chain has unknown transactions of the account.
func (n *nonces) skip(next uint64) (unknown bool) {
	for len(n.free) > 0 && n.free[0] < next {
		n.take()
		unknown = true
	}
	unknown = unknown || n.known && n.next < next
	n.next = max(n.next, next)
	return unknown
}

// save stores the free nonces.
func (n *nonces) save(ctx context.Context, tx *db.Tx) error {
	for _, nonce := range n.spent {
		if err := tx.Queue(ctx, "DELETE FROM payout_free_nonces WHERE chain = $1 AND account = $2 AND nonce = $3", n.chain,
			n.account, int64(nonce)); err != nil {
			return err
		}
	}
	return tx.Queue(ctx, "UPDATE payout_nonces SET next = $3 WHERE chain = $1 AND account = $2", n.chain, n.account,
		int64(n.next))
}

// insertFree frees the nonce of a transaction that was never signed.
func insertFree(ctx context.Context, tx *db.Tx, chainName, account string, nonce uint64) error {
	if _, err := lockNonces(ctx, tx, chainName, account); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "INSERT INTO payout_free_nonces (chain, account, nonce, freed_at) VALUES ($1, $2, $3, $4)",
		chainName, account, int64(nonce), db.Micros(tx.Now()))
	return err
}

// freeSince returns the lowest nonce of an account that was freed at or before a time, or false if there is none.
func freeSince(ctx context.Context, tx *db.Tx, chainName, account string, at time.Time) (uint64, bool, error) {
	var nonce int64
	err := tx.QueryRow(ctx, `SELECT nonce FROM payout_free_nonces WHERE chain = $1 AND account = $2 AND freed_at <= $3
		ORDER BY nonce LIMIT 1`, chainName, account, db.Micros(at)).Scan(&nonce)
	if errors.Is(err, db.ErrNoRows) {
		return 0, false, nil
	}
	return uint64(nonce), err == nil, err
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

// setCollectionBatch assigns a batch to a collection that has no batch.
func setCollectionBatch(ctx context.Context, tx *db.Tx, c Collection, batchID string) error {
	return tx.ExecOne(ctx, `UPDATE payout_collections SET batch_id = $3, version = version + 1
		WHERE company_id = $1 AND collection_id = $2 AND batch_id = '' AND reason = ''`, c.CompanyID, c.ID, batchID)
}

// collectionOf returns the collection whose transfer is a batch's transaction, or db.ErrNoRows.
func collectionOf(ctx context.Context, tx *db.Tx, chainName, batchID string) (Collection, error) {
	return scanCollection(tx.QueryRow(ctx, "SELECT "+collectionColumns+` FROM payout_collections WHERE batch_id = $1
		AND batch_id <> '' AND chain = $2`, batchID, chainName).Scan)
}

// clearCollectionBatch removes the batch of a collection.
func clearCollectionBatch(ctx context.Context, tx *db.Tx, c Collection) error {
	return tx.ExecOne(ctx, `UPDATE payout_collections SET batch_id = '', version = version + 1
		WHERE company_id = $1 AND collection_id = $2 AND batch_id = $3 AND version = $4`, c.CompanyID, c.ID, c.BatchID,
		c.Version)
}

// setCollectionReason ends a collection whose transfer was not signed.
func setCollectionReason(ctx context.Context, tx *db.Tx, c Collection, reason string) error {
	return tx.ExecOne(ctx, `UPDATE payout_collections SET reason = $3, version = version + 1
		WHERE company_id = $1 AND collection_id = $2 AND batch_id = '' AND reason = ''`, c.CompanyID, c.ID, reason)
}
