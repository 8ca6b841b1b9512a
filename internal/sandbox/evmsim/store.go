package evmsim

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

type block struct {
	hash, prev string
	height     int64
	mined      time.Time
}

const blockColumns = "hash, prev, height, mined"

func scanBlock(r interface{ Scan(dest ...any) error }) (b block, err error) {
	var mined int64
	err = r.Scan(&b.hash, &b.prev, &b.height, &mined)
	b.mined = db.Time(mined)
	if errors.Is(err, db.ErrNoRows) {
		err = chain.ErrNotFound
	}
	return b, err
}

func tip(ctx context.Context, tx *db.Tx, network string) (block, error) {
	return scanBlock(tx.QueryRow(ctx,
		"SELECT "+blockColumns+" FROM sim_evm_blocks WHERE network = $1 AND active ORDER BY height DESC LIMIT 1", network))
}

func blockAt(ctx context.Context, tx *db.Tx, network string, height int64) (block, error) {
	return scanBlock(tx.QueryRow(ctx,
		"SELECT "+blockColumns+" FROM sim_evm_blocks WHERE network = $1 AND active AND height = $2", network, height))
}

func blockOf(ctx context.Context, tx *db.Tx, network, hash string) (block, error) {
	return scanBlock(tx.QueryRow(ctx, "SELECT "+blockColumns+" FROM sim_evm_blocks WHERE network = $1 AND hash = $2",
		network, hash))
}

func insertBlock(ctx context.Context, tx *db.Tx, network string, b block) error {
	return tx.Insert(ctx, "sim_evm_blocks", []string{"network", "hash", "height", "prev", "mined", "active"},
		[][]any{{network, b.hash, b.height, b.prev, db.Micros(b.mined), true}})
}

func deactivate(ctx context.Context, tx *db.Tx, network, hash string) error {
	_, err := tx.Exec(ctx, "UPDATE sim_evm_blocks SET active = FALSE WHERE network = $1 AND hash = $2", network, hash)
	return err
}

// stored is a transaction that the network has seen.
type stored struct {
	txid, sender string
	tx           evm.Tx
	raw          []byte
	state        string
	block        string
	failed       bool
	fee          int64
	authorized   string // key of the authorization that the transaction executes, or ""
}

const txColumns = "txid, sender, raw, state, block, failed, fee, authorized"

func scanTx(r *db.Rows) (t stored, err error) {
	var raw string
	if err = r.Scan(&t.txid, &t.sender, &raw, &t.state, &t.block, &t.failed, &t.fee, &t.authorized); err != nil {
		return t, err
	}
	if t.raw, err = hex.DecodeString(raw); err == nil {
		t.tx, _, err = evm.DecodeTx(t.raw)
	}
	return t, err
}

func selectTxs(ctx context.Context, tx *db.Tx, where string, args ...any) ([]stored, error) {
	rows, err := tx.Query(ctx, "SELECT "+txColumns+" FROM sim_evm_txs WHERE "+where, args...)
	return db.Collect(rows, err, scanTx)
}

func waiting(ctx context.Context, tx *db.Tx, network string) ([]stored, error) {
	return selectTxs(ctx, tx, "network = $1 AND state = 'mempool' ORDER BY sender, nonce", network)
}

func waitingIDs(ctx context.Context, tx *db.Tx, network string) ([]string, error) {
	rows, err := tx.Query(ctx, "SELECT txid FROM sim_evm_txs WHERE network = $1 AND state = 'mempool'", network)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

func inBlock(ctx context.Context, tx *db.Tx, network, hash string) ([]stored, error) {
	return selectTxs(ctx, tx, "network = $1 AND block = $2 ORDER BY place", network, hash)
}

func loadTx(ctx context.Context, tx *db.Tx, network, txid string) (stored, error) {
	some, err := selectTxs(ctx, tx, "network = $1 AND txid = $2", network, txid)
	if err == nil && (len(some) == 0 || some[0].state == "dropped") {
		err = chain.ErrNotFound
	}
	if err != nil {
		return stored{}, err
	}
	return some[0], nil
}

func rawOf(ctx context.Context, tx *db.Tx, network, txid string) ([]byte, error) {
	some, err := selectTxs(ctx, tx, "network = $1 AND txid = $2", network, txid)
	if err == nil && len(some) == 0 {
		err = chain.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return some[0].raw, nil
}

// rival returns other transactions with the same sender and nonce, except dropped ones.
func rival(ctx context.Context, tx *db.Tx, network, sender string, nonce uint64) ([]stored, error) {
	return selectTxs(ctx, tx, "network = $1 AND sender = $2 AND nonce = $3 AND state <> 'dropped'", network, sender,
		int64(nonce))
}

// executed reports whether a block of the active chain has executed an authorization.
func executed(ctx context.Context, tx *db.Tx, network, key string) (used bool, err error) {
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM sim_evm_txs WHERE network = $1 AND authorized = $2
		AND state = 'mined' AND NOT failed)`, network, key).Scan(&used)
	return used, err
}

// put stores a transaction with its place, which is the height of its block, or a negative number while it is in the
// mempool.
func put(ctx context.Context, tx *db.Tx, network string, t stored, place int64) error {
	return tx.Queue(ctx, `INSERT INTO sim_evm_txs (network, txid, sender, nonce, raw, state, block, place, failed, fee,
		authorized)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (network, txid) DO UPDATE SET
		state = excluded.state, block = excluded.block, place = excluded.place, failed = excluded.failed, fee = excluded.fee`,
		network, t.txid, t.sender, int64(t.tx.Nonce), hex.EncodeToString(t.raw), t.state, t.block, place, t.failed, t.fee,
		t.authorized)
}

// lastBusy returns the height of the last block with transactions, or 0 if there is none.
func lastBusy(ctx context.Context, tx *db.Tx, network string) (height int64, err error) {
	err = tx.QueryRow(ctx, `SELECT COALESCE(MAX(b.height), 0) FROM sim_evm_blocks b WHERE b.network = $1 AND b.active
		AND EXISTS (SELECT 1 FROM sim_evm_txs t WHERE t.network = b.network AND t.block = b.hash)`, network).Scan(&height)
	return height, err
}

func nonceOf(ctx context.Context, tx *db.Tx, network, address string) (uint64, error) {
	var n int64
	err := tx.QueryRow(ctx, "SELECT nonce FROM sim_evm_accounts WHERE network = $1 AND address = $2", network,
		address).Scan(&n)
	if errors.Is(err, db.ErrNoRows) {
		return 0, nil
	}
	return uint64(n), err
}

func setNonce(ctx context.Context, tx *db.Tx, network, address string, n uint64) error {
	return tx.Queue(ctx, `INSERT INTO sim_evm_accounts (network, address, nonce) VALUES ($1, $2, $3)
		ON CONFLICT (network, address) DO UPDATE SET nonce = excluded.nonce`, network, address, int64(n))
}

func balance(ctx context.Context, tx *db.Tx, network, address string, asset money.Asset) (amount int64, err error) {
	err = tx.QueryRow(ctx, "SELECT amount FROM sim_evm_balances WHERE network = $1 AND address = $2 AND asset = $3",
		network, address, string(asset)).Scan(&amount)
	if errors.Is(err, db.ErrNoRows) {
		return 0, nil
	}
	return amount, err
}

func add(ctx context.Context, tx *db.Tx, network, address string, asset money.Asset, amount int64) error {
	return tx.Queue(ctx, `INSERT INTO sim_evm_balances (network, address, asset, amount) VALUES ($1, $2, $3, $4)
		ON CONFLICT (network, address, asset) DO UPDATE SET amount = sim_evm_balances.amount + excluded.amount`,
		network, address, string(asset), amount)
}
