package bitcoinsim

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/db"
)

// stored is a transaction as stored in the database.
type stored struct {
	msg   *wire.MsgTx
	fee   int64
	state string
}

type output struct {
	amount  int64
	script  string
	spentBy string
}

func tip(ctx context.Context, tx *db.Tx) (height int64, hash string, err error) {
	err = tx.QueryRow(ctx, `SELECT height, hash FROM sim_blocks WHERE active = TRUE ORDER BY height DESC
		LIMIT 1`).Scan(&height, &hash)
	return height, hash, err
}

func insertBlock(ctx context.Context, tx *db.Tx, height int64, header wire.BlockHeader) error {
	var b bytes.Buffer
	if err := header.Serialize(&b); err != nil {
		return err
	}
	return tx.Insert(ctx, "sim_blocks", []string{"hash", "height", "prev", "header", "active"},
		[][]any{{header.BlockHash().String(), height, header.PrevBlock.String(), hex.EncodeToString(b.Bytes()), true}})
}

func decodeHeader(text string) (header wire.BlockHeader, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil {
		return header, err
	}
	return header, header.Deserialize(bytes.NewReader(raw))
}

func activeHeader(ctx context.Context, tx *db.Tx, height int64) (wire.BlockHeader, error) {
	var text string
	err := tx.QueryRow(ctx, `SELECT header FROM sim_blocks WHERE height = $1 AND active = TRUE`, height).Scan(&text)
	if errors.Is(err, db.ErrNoRows) {
		return wire.BlockHeader{}, fmt.Errorf("%w: no block at height %d", chain.ErrNotFound, height)
	}
	if err != nil {
		return wire.BlockHeader{}, err
	}
	return decodeHeader(text)
}

func loadBlock(ctx context.Context, tx *db.Tx, hash string) (height int64, header wire.BlockHeader, err error) {
	var text string
	err = tx.QueryRow(ctx, `SELECT height, header FROM sim_blocks WHERE hash = $1`, hash).Scan(&height, &text)
	if errors.Is(err, db.ErrNoRows) {
		return 0, header, fmt.Errorf("%w: block %s", chain.ErrNotFound, hash)
	}
	if err != nil {
		return 0, header, err
	}
	header, err = decodeHeader(text)
	return height, header, err
}

func insertBlockTx(ctx context.Context, tx *db.Tx, hash string, position int, txid string) error {
	return tx.Insert(ctx, "sim_block_txs", []string{"hash", "position", "txid"}, [][]any{{hash, int64(position), txid}})
}

func blockTxs(ctx context.Context, tx *db.Tx, hash string) ([][]byte, error) {
	rows, err := tx.Query(ctx, `SELECT t.raw FROM sim_block_txs b JOIN sim_txs t ON t.txid = b.txid WHERE b.hash = $1
		ORDER BY b.position`, hash)
	return db.Collect(rows, err, func(r *db.Rows) ([]byte, error) {
		var text string
		if err := r.Scan(&text); err != nil {
			return nil, err
		}
		return hex.DecodeString(text)
	})
}

// deactivate removes the blocks above a height from the chain, and returns their transactions, oldest first.
func deactivate(ctx context.Context, tx *db.Tx, above int64) ([]stored, error) {
	rows, err := tx.Query(ctx, `SELECT t.raw, t.fee, t.state FROM sim_blocks k JOIN sim_block_txs b ON b.hash = k.hash
		JOIN sim_txs t ON t.txid = b.txid WHERE k.active = TRUE AND k.height > $1 ORDER BY k.height, b.position`, above)
	txs, err := db.Collect(rows, err, scanStored)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, `UPDATE sim_blocks SET active = FALSE WHERE active = TRUE AND height > $1`, above)
	return txs, err
}

func scanStored(r *db.Rows) (t stored, err error) {
	var text string
	if err := r.Scan(&text, &t.fee, &t.state); err != nil {
		return t, err
	}
	raw, err := hex.DecodeString(text)
	if err != nil {
		return t, err
	}
	t.msg = &wire.MsgTx{}
	return t, t.msg.Deserialize(bytes.NewReader(raw))
}

// insertTx stores a transaction with its outputs and its spent outputs. If the transaction was dropped earlier,
// insertTx restores it.
func insertTx(ctx context.Context, tx *db.Tx, msg *wire.MsgTx, fee int64, state string) error {
	txid := msg.TxID()
	var arrived int64
	if err := tx.QueryRow(ctx, `SELECT COALESCE(MAX(arrived), 0) + 1 FROM sim_txs`).Scan(&arrived); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO sim_txs (txid, raw, fee, state, arrived) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (txid) DO UPDATE SET state = excluded.state, arrived = excluded.arrived`,
		txid, hex.EncodeToString(bitcoin.Serialize(msg)), fee, state, arrived); err != nil {
		return err
	}
	rows := make([][]any, len(msg.TxOut))
	for i, o := range msg.TxOut {
		rows[i] = []any{txid, int64(i), o.Value, hex.EncodeToString(o.PkScript), ""}
	}
	if err := tx.Insert(ctx, "sim_outputs", []string{"txid", "vout", "amount", "script", "spent_by"}, rows); err != nil {
		return err
	}
	for _, in := range msg.TxIn {
		if _, err := tx.Exec(ctx, `UPDATE sim_outputs SET spent_by = $3 WHERE txid = $1 AND vout = $2`,
			in.PreviousOutPoint.Hash.String(), int64(in.PreviousOutPoint.Index), txid); err != nil {
			return err
		}
	}
	return nil
}

func setState(ctx context.Context, tx *db.Tx, txid, state string) error {
	_, err := tx.Exec(ctx, `UPDATE sim_txs SET state = $2 WHERE txid = $1`, txid, state)
	return err
}

// drop deletes a transaction and its descendants.
func drop(ctx context.Context, tx *db.Tx, txid string) error {
	rows, err := tx.Query(ctx, `SELECT DISTINCT spent_by FROM sim_outputs WHERE txid = $1 AND spent_by <> ''`, txid)
	children, err := db.Collect(rows, err, scanID)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := drop(ctx, tx, child); err != nil {
			return err
		}
	}
	if err := setState(ctx, tx, txid, "dropped"); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE sim_outputs SET spent_by = '' WHERE spent_by = $1`, txid); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `DELETE FROM sim_outputs WHERE txid = $1`, txid)
	return err
}

func scanID(r *db.Rows) (id string, err error) {
	err = r.Scan(&id)
	return id, err
}

func loadTx(ctx context.Context, tx *db.Tx, txid string) (stored, error) {
	rows, err := tx.Query(ctx, `SELECT raw, fee, state FROM sim_txs WHERE txid = $1`, txid)
	found, err := db.Collect(rows, err, scanStored)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%w: transaction %s", chain.ErrNotFound, txid)
	}
	if err != nil {
		return stored{}, err
	}
	return found[0], nil
}

func loadOutput(ctx context.Context, tx *db.Tx, op wire.OutPoint) (o output, err error) {
	err = tx.QueryRow(ctx, `SELECT amount, script, spent_by FROM sim_outputs WHERE txid = $1 AND vout = $2`,
		op.Hash.String(), int64(op.Index)).Scan(&o.amount, &o.script, &o.spentBy)
	return o, err
}

// mempool returns the transactions in the mempool, parents before children.
func mempool(ctx context.Context, tx *db.Tx) ([]stored, error) {
	rows, err := tx.Query(ctx, `SELECT raw, fee, state FROM sim_txs WHERE state = 'mempool' ORDER BY arrived`)
	return db.Collect(rows, err, scanStored)
}

func mempoolIDs(ctx context.Context, tx *db.Tx) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT txid FROM sim_txs WHERE state = 'mempool' ORDER BY arrived`)
	return db.Collect(rows, err, scanID)
}

// faucetCoins returns unspent coins of a script, largest first, that together cover total and a change output.
func faucetCoins(ctx context.Context, tx *db.Tx, script string, total int64) ([]chain.WalletCoin, error) {
	rows, err := tx.Query(ctx, `SELECT o.txid, o.vout, o.amount FROM sim_outputs o JOIN sim_txs t ON t.txid = o.txid
		WHERE o.script = $1 AND o.spent_by = '' AND o.amount > 0 ORDER BY CASE WHEN t.state = 'mined' THEN 0 ELSE 1 END,
			o.amount DESC, o.txid, o.vout LIMIT 200`, script)
	coins, err := db.Collect(rows, err, func(r *db.Rows) (c chain.WalletCoin, err error) {
		var vout int64
		err = r.Scan(&c.TxID, &vout, &c.Amount)
		c.Vout = uint32(vout)
		return c, err
	})
	if err != nil {
		return nil, err
	}
	var have int64
	for i, c := range coins {
		// The remainder must be large enough for a change output.
		if have += c.Amount; have >= total+1_000 {
			return coins[:i+1], nil
		}
	}
	return nil, fmt.Errorf("sim: the faucet has only %d of %d sat", have, total)
}

// minedCoin returns the amount of an unspent output in a block.
func minedCoin(ctx context.Context, tx *db.Tx, o chain.Outpoint) (sats int64, err error) {
	err = tx.QueryRow(ctx, `SELECT o.amount FROM sim_outputs o JOIN sim_txs t ON t.txid = o.txid LEFT JOIN sim_txs s
		ON s.txid = o.spent_by
		WHERE o.txid = $1 AND o.vout = $2 AND t.state = 'mined' AND (o.spent_by = '' OR s.state = 'mempool')`, o.TxID,
		int64(o.Vout)).Scan(&sats)
	if errors.Is(err, db.ErrNoRows) {
		return 0, chain.ErrNotFound
	}
	return sats, err
}
