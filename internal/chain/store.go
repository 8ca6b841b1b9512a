package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// The following functions store cursors and blocks.

// cursor is the last block that was connected.
type cursor struct {
	height int64
	hash   string
}

// loadCursor returns a chain's cursor. It reports false if the chain was never watched.
func loadCursor(ctx context.Context, tx *db.Tx, chain string) (c cursor, ok bool, err error) {
	var health Health
	var blocksPerConfirmation int64
	err = tx.Batch(ctx, []db.Statement{cursorQuery(chain, &c, &blocksPerConfirmation, &health, &ok)})
	return c, ok, err
}

func cursorQuery(chain string, c *cursor, blocksPerConfirmation *int64, h *Health, ok *bool) db.Statement {
	return db.Statement{
		Query: `SELECT height, hash, blocks_per_step, ` + healthColumns + ` FROM chain_cursors WHERE chain = $1`,
		Args:  []any{chain},
		Row: func(r *db.Rows) error {
			*ok = true
			return h.scan(r, &c.height, &c.hash, blocksPerConfirmation)
		},
	}
}

const healthColumns = `verified_height, alarms, tip_time, conflicting_witness`

// scan reads a row that ends in healthColumns.
func (h *Health) scan(r *db.Rows, before ...any) error {
	var alarms, witnesses string
	var tipTime int64
	err := r.Scan(append(before, &h.verifiedHeight, &alarms, &tipTime, &witnesses)...)
	h.Alarms, h.TipTime, h.conflictingWitnesses = nil, time.Time{}, strings.Fields(witnesses)
	for _, a := range strings.Fields(alarms) {
		h.Alarms = append(h.Alarms, Alarm(a))
	}
	if tipTime != 0 {
		h.TipTime = db.Time(tipTime)
	}
	return err
}

func setHealth(ctx context.Context, tx *db.Tx, chain string, h Health) error {
	alarms, tipTime := make([]string, len(h.Alarms)), int64(0)
	for i, a := range h.Alarms {
		alarms[i] = string(a)
	}
	if !h.TipTime.IsZero() {
		tipTime = db.Micros(h.TipTime)
	}
	return tx.Queue(ctx, `UPDATE chain_cursors
		SET verified_height = $2, alarms = $3, tip_time = $4, conflicting_witness = $5
		WHERE chain = $1`, chain, h.verifiedHeight, strings.Join(alarms, " "), tipTime,
		strings.Join(h.conflictingWitnesses, " "))
}

// LoadHealth returns the health of each watched chain.
func LoadHealth(ctx context.Context, tx *db.Tx) (map[string]Health, error) {
	all := map[string]Health{}
	rows, err := tx.Query(ctx, `SELECT chain, `+healthColumns+` FROM chain_cursors`)
	_, err = db.Collect(rows, err, func(r *db.Rows) (h Health, err error) {
		var name string
		err = h.scan(r, &name)
		all[name] = h
		return h, err
	})
	return all, err
}

func setBlocksPerConfirmation(ctx context.Context, tx *db.Tx, chain string, blocks int64) error {
	_, err := tx.Exec(ctx, `UPDATE chain_cursors SET blocks_per_step = $2 WHERE chain = $1`, chain, blocks)
	return err
}

// Tip returns the last block that the chain's watcher connected. The height is -1 before its first step.
func Tip(ctx context.Context, tx *db.Tx, chainName string) (height int64, hash string, err error) {
	c, ok, err := loadCursor(ctx, tx, chainName)
	if err != nil || !ok {
		return -1, "", err
	}
	return c.height, c.hash, nil
}

// startCursor creates the cursor at the last of the given blocks, and stores all of them. It reports false if the
// cursor exists.
func startCursor(
	ctx context.Context, tx *db.Tx, chain string, blocksPerConfirmation int64, last []cursor,
) (bool, error) {
	tip := last[len(last)-1]
	n, err := tx.Exec(ctx, `INSERT INTO chain_cursors (chain, height, hash, updated, blocks_per_step)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (chain) DO NOTHING`, chain, tip.height, tip.hash, db.Micros(tx.Now()), blocksPerConfirmation)
	if err != nil || n == 0 {
		return false, err
	}
	rows := make([][]any, len(last))
	for i, b := range last {
		rows[i] = []any{chain, b.height, b.hash}
	}
	return true, tx.Insert(ctx, "chain_blocks", []string{"chain", "height", "hash"}, rows)
}

// advanceCursor sets the cursor, provided that it still is from. It reports false if another watcher changed it.
func advanceCursor(ctx context.Context, tx *db.Tx, chain string, from, to cursor) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE chain_cursors SET height = $2, hash = $3, updated = $4 WHERE chain = $1 AND height = $5
		AND hash = $6`,
		chain, to.height, to.hash, db.Micros(tx.Now()), from.height, from.hash)
	return n == 1, err
}

// insertBlocks stores the blocks that follow a height.
func insertBlocks(ctx context.Context, tx *db.Tx, chain string, after int64, blocks []Block) error {
	rows := make([][]any, len(blocks))
	for i, b := range blocks {
		rows[i] = []any{chain, after + 1 + int64(i), b.Hash}
	}
	return tx.Insert(ctx, "chain_blocks", []string{"chain", "height", "hash"}, rows)
}

func deleteBlock(ctx context.Context, tx *db.Tx, chain string, b cursor) error {
	n, err := tx.Exec(ctx, `DELETE FROM chain_blocks WHERE chain = $1 AND height = $2 AND hash = $3`, chain, b.height,
		b.hash)
	if err == nil && n != 1 {
		err = fmt.Errorf("chain %s: block %d %s is the last one but is not stored", chain, b.height, b.hash)
	}
	return err
}

// parentHashQuery reads the hash of the block below the cursor, if it is stored.
func parentHashQuery(chain string, hash *[]string) db.Statement {
	return db.CollectInto(hash, scanString, `SELECT hash FROM chain_blocks
		WHERE chain = $1 AND height = (SELECT height - 1 FROM chain_cursors WHERE chain = $1)`, chain)
}

// hashQuery reads the hash of a block, if it is stored.
func hashQuery(chain string, height int64, hash *[]string) db.Statement {
	return db.CollectInto(hash, scanString, `SELECT hash FROM chain_blocks WHERE chain = $1 AND height = $2`,
		chain, height)
}

// pruneSpendsEvery is the number of blocks between two deletions of old spends. Each deletion scans the table.
const pruneSpendsEvery = 16

// prune deletes the blocks and spends that are too deep to be disconnected, after the blocks from+1 to tip were
// connected. Spends by unknown transactions of the paying account are not deleted, so that staff can still see them.
func prune(ctx context.Context, tx *db.Tx, chain string, from, tip int64) error {
	last := tip - MaxReorg - 1
	err := tx.Queue(ctx, `DELETE FROM chain_blocks WHERE chain = $1 AND height < $2`, chain, last)
	if err != nil || from/pruneSpendsEvery == tip/pruneSpendsEvery {
		return err
	}
	return tx.Queue(ctx, `DELETE FROM chain_spends WHERE chain = $1 AND height > 0 AND height < $2
		AND NOT (EXISTS (SELECT 1 FROM chain_addresses a WHERE a.chain = $1 AND a.object_id = 'fx_account'
			AND `+spentByAccount+`)
			AND NOT EXISTS (SELECT 1 FROM chain_txs t WHERE t.chain = $1 AND t.txid = chain_spends.txid))`, chain, last)
}

// inQueries returns the queries that look up many keys in portions. The given query ends in "IN"; its parameter $1 is
// the chain.
func inQueries[T any](
	tx *db.Tx, query, chain string, keys []string, scan func(*db.Rows) (T, error), found func(T),
) (all []db.Statement) {
	for in, args := range db.BindList(tx, keys, 2) {
		all = append(all, db.Statement{Query: query + " " + in, Args: append([]any{chain}, args...),
			Row: func(r *db.Rows) error {
				v, err := scan(r)
				if err == nil {
					found(v)
				}
				return err
			}})
	}
	return all
}

func scanString(r *db.Rows) (s string, err error) {
	err = r.Scan(&s)
	return s, err
}

// The following functions store addresses and pools.

// PayingAccount is the object id of the account that payouts on EVM networks are sent from. Deposits to it, for gas,
// belong to the operator.
const PayingAccount = "fx_account"

type address struct {
	address, companyID, objectID string
	branch, index                int64
}

var addressRows = db.BulkInsert("chain_addresses", "chain", "address", "company_id", "object_id", "branch", "idx",
	"created")

func insertAddress(tx *db.Tx, chain string, a address) {
	addressRows.Add(tx, []any{chain, a.address, a.companyID, a.objectID, a.branch, a.index, db.Micros(tx.Now())})
}

func addressQueries(tx *db.Tx, chain string, addresses []string, into map[string]address) []db.Statement {
	return inQueries(tx, `SELECT address, company_id, object_id, branch, idx FROM chain_addresses
		WHERE chain = $1 AND address IN`, chain, addresses, func(r *db.Rows) (a address, err error) {
		err = r.Scan(&a.address, &a.companyID, &a.objectID, &a.branch, &a.index)
		return a, err
	}, func(a address) { into[a.address] = a })
}

func loadAddresses(ctx context.Context, tx *db.Tx, chain string, addresses []string) (map[string]address, error) {
	found := make(map[string]address, len(addresses))
	return found, tx.Batch(ctx, addressQueries(tx, chain, addresses, found))
}

// AddressPath returns the branch and index of one of the wallet's addresses, or db.ErrNoRows.
func AddressPath(ctx context.Context, tx *db.Tx, chain, address string) (branch, index uint32, err error) {
	var b, i int64
	err = tx.QueryRow(ctx, "SELECT branch, idx FROM chain_addresses WHERE chain = $1 AND address = $2", chain, address).
		Scan(&b, &i)
	return uint32(b), uint32(i), err
}

// addressPage returns the assigned addresses that sort after the given one.
func addressPage(ctx context.Context, tx *db.Tx, chain, after string, limit int) ([]address, error) {
	rows, err := tx.Query(ctx, `SELECT address, branch, idx FROM chain_addresses WHERE chain = $1 AND address > $2
		ORDER BY address LIMIT $3`, chain, after, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (a address, err error) {
		err = r.Scan(&a.address, &a.branch, &a.index)
		return a, err
	})
}

// firstAddress returns one assigned address of the chain, and whether there is any.
func firstAddress(ctx context.Context, tx *db.Tx, chain string) (a address, found bool, err error) {
	row := tx.QueryRow(ctx, "SELECT address, branch, idx FROM chain_addresses WHERE chain = $1 LIMIT 1", chain)
	err = row.Scan(&a.address, &a.branch, &a.index)
	if errors.Is(err, db.ErrNoRows) {
		return a, false, nil
	}
	return a, err == nil, err
}

// AnyAddress returns an address that was assigned on a chain, or "".
func AnyAddress(ctx context.Context, tx *db.Tx, chain string) (string, error) {
	a, _, err := firstAddress(ctx, tx, chain)
	return a.address, err
}

// usedIndexes returns the indexes of a branch, starting at from, that have an assigned address.
func usedIndexes(
	ctx context.Context, tx *db.Tx, chain string, branch uint32, from int64,
) (used map[int64]bool, err error) {
	rows, err := tx.Query(ctx, "SELECT idx FROM chain_addresses WHERE chain = $1 AND branch = $2 AND idx >= $3",
		chain, int64(branch), from)
	all, err := db.Collect(rows, err, func(r *db.Rows) (i int64, err error) { return i, r.Scan(&i) })
	used = make(map[int64]bool, len(all))
	for _, i := range all {
		used[i] = true
	}
	return used, err
}

// reserveIndexes reserves the next n indexes of a branch for the key with the given id, see keyID, and returns the
// first. If indexes of a branch were ever reserved for different keys, its stored key remains "several".
func reserveIndexes(
	ctx context.Context, tx *db.Tx, chain, key string, branch uint32, n int64,
) (first int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO chain_pools (chain, branch, next, keys) VALUES ($1, $2, $3, $4)
		ON CONFLICT (chain, branch) DO UPDATE SET next = chain_pools.next + excluded.next,
			keys = CASE WHEN chain_pools.keys IN ('', excluded.keys) THEN excluded.keys ELSE 'several' END RETURNING next`,
		chain, int64(branch), n, key).Scan(&first)
	return first - n, err
}

func poolQuery(chain string, into *poolState) db.Statement {
	const query = "SELECT branch, next, keys FROM chain_pools WHERE chain = $1"
	return db.Statement{Query: query, Args: []any{chain}, Row: func(r *db.Rows) error {
		var branch, next int64
		var key string
		err := r.Scan(&branch, &next, &key)
		into.next[branch], into.keyIDs[branch] = next, key
		return err
	}}
}

// WatchAccount watches the account that payouts on an EVM network are sent from, the first address of the change
// branch.
func WatchAccount(ctx context.Context, tx *db.Tx, network, address, companyID string) error {
	_, err := tx.Exec(ctx, `INSERT INTO chain_addresses (chain, address, company_id, object_id, branch, idx, created)
		VALUES ($1, $2, $3, $4, $5, 0, $6) ON CONFLICT (chain, address) DO UPDATE SET object_id = excluded.object_id`,
		network, address, companyID, PayingAccount, int64(Change), db.Micros(tx.Now()))
	return err
}

// BackfillAddresses gives each of the networks, which share a wallet, the addresses that were assigned on the others.
// A payment on a network that was configured later is then not lost. Existing rows do not change.
func BackfillAddresses(ctx context.Context, tx *db.Tx, networks []string) error {
	for _, to := range networks {
		for _, from := range networks {
			if from == to {
				continue
			}
			if _, err := tx.Exec(ctx, `INSERT INTO chain_addresses (chain, address, company_id, object_id, branch, idx, created)
				SELECT CAST($1 AS TEXT), a.address, a.company_id, a.object_id, a.branch, a.idx, a.created
				FROM chain_addresses a WHERE a.chain = $2
				AND NOT EXISTS (SELECT 1 FROM chain_addresses b WHERE b.chain = $1 AND b.address = a.address)`, to,
				from); err != nil {
				return err
			}
		}
	}
	return nil
}

// LoadEVMHoldings returns which of our accounts hold money on an EVM network.
func LoadEVMHoldings(ctx context.Context, tx *db.Tx, network string) (h EVMHoldings, err error) {
	h.Unconfirmed = map[money.Asset]int64{}
	err = tx.QueryRow(ctx, `SELECT height - blocks_per_step + 1 FROM chain_cursors WHERE chain = $1`,
		network).Scan(&h.Height)
	if err != nil {
		return h, err
	}
	rows, err := tx.Query(ctx, `SELECT address FROM chain_addresses WHERE chain = $1 AND branch = $2
		UNION SELECT address FROM chain_outputs WHERE chain = $1 AND state = 'mined' AND height <= $3
		ORDER BY address`, network, int64(Change), h.Height)
	if h.Addresses, err = db.Collect(rows, err, scanString); err != nil {
		return h, err
	}
	rows, err = tx.Query(ctx, `SELECT asset, CAST(SUM(amount) AS BIGINT) FROM chain_outputs
		WHERE chain = $1 AND state = 'mined' AND NOT confirmed AND height <= $2 GROUP BY asset`, network, h.Height)
	if _, err = db.Collect(rows, err, func(r *db.Rows) (none struct{}, err error) {
		var asset string
		var sum int64
		err = r.Scan(&asset, &sum)
		h.Unconfirmed[money.Asset(asset)] = sum
		return none, err
	}); err != nil {
		return h, err
	}
	err = tx.QueryRow(ctx, `SELECT (SELECT COUNT(*) FROM chain_outputs WHERE chain = $1 AND state = 'mined')
		+ (SELECT COUNT(*) FROM chain_txs WHERE chain = $1 AND state = 'mined')`, network).Scan(&h.Movements)
	return h, err
}

// The following functions store outputs and coins.

// output is a row of chain_outputs as the watcher reads it.
type output struct {
	Outpoint
	companyID string
	branch    int64
	own       bool // a transaction of the service created the output
	state     State
	depth     int64 // number of unmined transactions of the service on which the output depends, including its own
	output    Output
}

// isChange reports whether the output is change of our own transaction. No job is enqueued when it changes.
func (o output) isChange() bool { return o.own && o.branch == int64(Change) }

const outputColumns = `txid, vout, company_id, branch, own, state, depth, address, amount, asset`

func scanOutput(r *db.Rows) (o output, err error) {
	var vout int64
	var state, asset string
	err = r.Scan(&o.TxID, &vout, &o.companyID, &o.branch, &o.own, &state, &o.depth, &o.output.Address, &o.output.Amount,
		&asset)
	o.Vout, o.state, o.output.Asset = uint32(vout), State(state), money.Asset(asset)
	return o, err
}

func outputQueries(tx *db.Tx, chain string, txids []string, into map[Outpoint]output) []db.Statement {
	return inQueries(tx, `SELECT `+outputColumns+` FROM chain_outputs WHERE chain = $1 AND txid IN`, chain, txids,
		scanOutput, func(o output) { into[o.Outpoint] = o })
}

func (w *outputWrites) store(ctx context.Context, tx *db.Tx) error {
	if err := tx.Insert(ctx, "chain_outputs", []string{
		"chain", "txid", "vout", "company_id", "object_id", "address", "branch", "idx", "amount",
		"own", "coinbase", "state", "height", "block_hash", "first_seen", "want_confirmations", "confirmed", "replaced_by",
		"spend_state", "reserved_by", "spent_by", "spent_height", "depth", "asset",
	}, w.inserted); err != nil {
		return err
	}
	stored := 0
	for values, args := range db.BindRows(tx, w.updated, 4) {
		n, err := tx.Exec(ctx, `WITH v (txid, vout, old_state, state, depth, own) AS (`+values+`)
			UPDATE chain_outputs SET state = v.state, height = $2, block_hash = $3, replaced_by = '', replaced_height = 0,
				depth = v.depth, own = v.own, confirmed = (want_confirmations = 0) FROM v
			WHERE chain_outputs.chain = $1 AND chain_outputs.txid = v.txid AND chain_outputs.vout = v.vout
				AND chain_outputs.state = v.old_state`, append([]any{w.chain, w.position.height, w.position.hash}, args...)...)
		if err != nil {
			return err
		}
		stored += int(n)
	}
	if stored != len(w.updated) {
		return fmt.Errorf("chain %s: the state of %d of %d outputs changed", w.chain, len(w.updated)-stored, len(w.updated))
	}
	w.inserted, w.updated = nil, nil
	return nil
}

// replaceOutputs marks the outputs of a transaction that is not mined as replaced by another one at the given height,
// which spends its inputs.
func replaceOutputs(ctx context.Context, tx *db.Tx, chain, txid, by string, height int64) ([]output, error) {
	rows, err := tx.Query(ctx, `UPDATE chain_outputs
		SET state = 'replaced', replaced_by = $3, replaced_height = $4, confirmed = FALSE
		WHERE chain = $1 AND txid = $2 AND (state IN ('seen', 'evicted')
			OR state = 'replaced' AND replaced_height = 0 AND (replaced_by <> $3 OR replaced_height <> $4))
		RETURNING `+outputColumns, chain, txid, by, height)
	return db.Collect(rows, err, scanOutput)
}

func evictOutputs(ctx context.Context, tx *db.Tx, chain, txid string) ([]output, error) {
	rows, err := tx.Query(ctx, `UPDATE chain_outputs SET state = 'evicted', confirmed = FALSE
		WHERE chain = $1 AND txid = $2 AND state = 'seen' RETURNING `+outputColumns, chain, txid)
	return db.Collect(rows, err, scanOutput)
}

// unmineOutputs changes the outputs of a disconnected block back to state seen, and returns them. Outputs that a
// transaction of the block replaced remain replaced.
func unmineOutputs(ctx context.Context, tx *db.Tx, chain string, height int64) ([]output, error) {
	if err := tx.Queue(ctx, `UPDATE chain_outputs SET replaced_height = 0
		WHERE chain = $1 AND state = 'replaced' AND replaced_height = $2`, chain, height); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `UPDATE chain_outputs SET state = 'seen', height = 0, block_hash = '',
		confirmed = (want_confirmations = 0), depth = CASE WHEN own THEN 1 ELSE 0 END
		WHERE chain = $1 AND state = 'mined' AND height = $2 RETURNING `+outputColumns, chain, height)
	return db.Collect(rows, err, scanOutput)
}

func confirmOutputsQuery(chain string, tip int64, confirmed *[]output) db.Statement {
	return db.CollectInto(confirmed, scanOutput, `UPDATE chain_outputs SET confirmed = TRUE
		WHERE chain = $1 AND state = 'mined' AND confirmed = FALSE AND height <= $2 - want_confirmations + 1
		RETURNING `+outputColumns, chain, tip)
}

func spendOutput(ctx context.Context, tx *db.Tx, chain string, o Outpoint, by string, height int64) error {
	_, err := tx.Exec(ctx, `UPDATE chain_outputs SET spend_state = 'spent', spent_by = $4, spent_height = $5
		WHERE chain = $1 AND txid = $2 AND vout = $3`, chain, o.TxID, int64(o.Vout), by, height)
	return err
}

// unspendOutputs makes the coins that a dropped transaction spent available again, or reserved if they were reserved
// before.
func unspendOutputs(ctx context.Context, tx *db.Tx, chain, by string) error {
	_, err := tx.Exec(ctx, `UPDATE chain_outputs SET spent_by = '', spent_height = 0,
		spend_state = CASE WHEN reserved_by = '' THEN 'available' ELSE 'reserved' END
		WHERE chain = $1 AND spent_by = $2`, chain, by)
	return err
}

// watchedOutputs selects the watched outputs of a transaction.
const watchedOutputs = `SELECT o.txid, o.vout, o.company_id, o.object_id, o.address, o.branch, o.amount, o.state,
	o.height, o.block_hash, o.first_seen, o.want_confirmations, o.confirmed, o.coinbase, o.replaced_by, o.spend_state,
	o.spent_by, o.replaced_height,
	COALESCE(c.height, 0), COALESCE(c.verified_height, 0), COALESCE(c.blocks_per_step, 1), o.asset
	FROM chain_outputs o LEFT JOIN chain_cursors c ON c.chain = o.chain WHERE o.chain = $1 AND o.txid = $2`

func scanWatched(scan func(...any) error) (w WatchedOutput, err error) {
	var vout, branch, firstSeen, replaced, tip, verified int64
	var state, spend, asset string
	if err := scan(&w.TxID, &vout, &w.CompanyID, &w.ObjectID, &w.Address, &branch, &w.Amount, &state, &w.Height,
		&w.BlockHash, &firstSeen, &w.RequiredConfirmations, &w.Confirmed, &w.Coinbase, &w.ReplacedBy, &spend, &w.SpentBy,
		&replaced, &tip, &verified, &w.BlocksPerConfirmation, &asset); err != nil {
		return WatchedOutput{}, err
	}
	w.Vout, w.Branch, w.State, w.SpendState = uint32(vout), uint32(branch), State(state), SpendState(spend)
	w.FirstSeen, w.Asset = db.Time(firstSeen), cmp.Or(money.Asset(asset), money.BTC)
	switch {
	case w.State == Mined:
		w.Depth = tip - w.Height + 1
	case w.State == Replaced && replaced > 0 && replaced <= verified:
		w.ReplacedDepth = tip - replaced + 1
	}
	return w, nil
}

// GetOutput returns a watched output, or ErrUnknown.
func GetOutput(ctx context.Context, tx *db.Tx, chainName string, o Outpoint) (WatchedOutput, error) {
	w, err := scanWatched(tx.QueryRow(ctx, watchedOutputs+" AND o.vout = $3", chainName, o.TxID, int64(o.Vout)).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return WatchedOutput{}, ErrUnknown
	}
	return w, err
}

// OutputsQuery returns the query for all watched outputs of a transaction. It calls found for each.
func OutputsQuery(chainName, txid string, found func(WatchedOutput)) db.Statement {
	return db.Statement{Query: watchedOutputs, Args: []any{chainName, txid}, Row: func(r *db.Rows) error {
		w, err := scanWatched(r.Scan)
		if err == nil {
			found(w)
		}
		return err
	}}
}

// OutputsOf returns the watched outputs that belong to an object, in the order in which they were first seen.
func OutputsOf(ctx context.Context, tx *db.Tx, chainName, companyID, objectID string) ([]Outpoint, error) {
	rows, err := tx.Query(ctx, `SELECT txid, vout FROM chain_outputs WHERE company_id = $1 AND object_id = $2
		AND chain = $3
		ORDER BY first_seen, txid, vout`, companyID, objectID, chainName)
	return db.Collect(rows, err, func(r *db.Rows) (o Outpoint, err error) {
		var vout int64
		err = r.Scan(&o.TxID, &vout)
		o.Vout = uint32(vout)
		return o, err
	})
}

// RequireConfirmations stores RequiredConfirmations and Confirmed of the outputs, which
// [WatchedOutput.WithConfirmations] has set. It fails if the watcher changed one of the outputs since it was read;
// the caller's job for that change then repeats the call.
func RequireConfirmations(ctx context.Context, tx *db.Tx, chainName string, outputs []WatchedOutput) error {
	rows := make([][]any, len(outputs))
	for i, o := range outputs {
		rows[i] = []any{o.TxID, int64(o.Vout), string(o.State), o.Height, o.RequiredConfirmations, o.Confirmed}
	}
	stored := 0
	for values, args := range db.BindRows(tx, rows, 2) {
		n, err := tx.Exec(ctx, `WITH v (txid, vout, state, height, required, confirmed) AS (`+values+`)
			UPDATE chain_outputs SET want_confirmations = v.required, confirmed = v.confirmed FROM v
			WHERE chain_outputs.chain = $1 AND chain_outputs.txid = v.txid AND chain_outputs.vout = v.vout
				AND chain_outputs.state = v.state AND chain_outputs.height = v.height`, append([]any{chainName}, args...)...)
		if err != nil {
			return err
		}
		stored += int(n)
	}
	if stored != len(outputs) {
		return fmt.Errorf("chain: %d of %d outputs changed concurrently", len(outputs)-stored, len(outputs))
	}
	return nil
}

// Coins returns the coins that may be spent now, the largest first: confirmed ones, and change of our own
// transactions even before it is in a block.
func Coins(ctx context.Context, tx *db.Tx, chainName string) ([]WalletCoin, error) {
	rows, err := tx.Query(ctx, `SELECT txid, vout, address, amount, branch, idx,
			CASE WHEN state = 'mined' THEN 0 ELSE depth END, asset
		FROM chain_outputs WHERE chain = $1 AND spend_state = 'available' AND spent_height = 0
		AND (state = 'mined' AND confirmed OR state IN ('seen', 'mined') AND own AND branch = $2 AND NOT coinbase)
		ORDER BY amount DESC, txid, vout`, chainName, int64(Change))
	return db.Collect(rows, err, func(r *db.Rows) (c WalletCoin, err error) {
		var vout, branch, index int64
		var asset string
		err = r.Scan(&c.TxID, &vout, &c.Address, &c.Amount, &branch, &index, &c.Unconfirmed, &asset)
		c.Asset = money.Asset(asset)
		c.Vout, c.Branch, c.Index = uint32(vout), uint32(branch), uint32(index)
		return c, err
	})
}

// HeldCoins returns all coins of ours that are in a block and that no block spends, including reserved ones.
func HeldCoins(ctx context.Context, tx *db.Tx, chainName string) ([]HeldCoin, error) {
	rows, err := tx.Query(ctx, `SELECT txid, vout, company_id, object_id, amount, branch, confirmed FROM chain_outputs
		WHERE chain = $1 AND state = 'mined' AND (spend_state <> 'spent' OR spent_height = 0) ORDER BY txid, vout`, chainName)
	return db.Collect(rows, err, func(r *db.Rows) (h HeldCoin, err error) {
		var vout, branch int64
		err = r.Scan(&h.TxID, &vout, &h.CompanyID, &h.ObjectID, &h.Amount, &branch, &h.Confirmed)
		h.Vout, h.Change = uint32(vout), uint32(branch) == Change
		return h, err
	})
}

var errNoHolder = errors.New("chain: a reservation needs a holder")

// Reserve reserves coins for a transaction of the given holder. It returns ErrCoinTaken, which must roll back the
// database transaction, if one of them is not available any more.
func Reserve(ctx context.Context, tx *db.Tx, chainName string, coins []Outpoint, holder string) error {
	if holder == "" {
		return errNoHolder
	}
	rows := make([][]any, len(coins))
	for i, c := range coins {
		rows[i] = []any{c.TxID, int64(c.Vout)}
	}
	reserved := 0
	for values, args := range db.BindRows(tx, rows, 3) {
		n, err := tx.Exec(ctx, `WITH v (txid, vout) AS (`+values+`)
			UPDATE chain_outputs SET spend_state = 'reserved', reserved_by = $2 FROM v
			WHERE chain_outputs.chain = $1 AND chain_outputs.txid = v.txid AND chain_outputs.vout = v.vout
				AND spend_state = 'available' AND state IN ('seen', 'mined')`, append([]any{chainName, holder}, args...)...)
		if err != nil {
			return err
		}
		reserved += int(n)
	}
	if reserved != len(coins) {
		return ErrCoinTaken
	}
	return nil
}

// Unreserve releases the unspent coins that are reserved for a holder. Call it only if the holder's transaction can
// never be mined: it was never broadcast, or a conflicting transaction is confirmed.
func Unreserve(ctx context.Context, tx *db.Tx, chainName, holder string) error {
	if holder == "" {
		return errNoHolder
	}
	return tx.Queue(ctx, `UPDATE chain_outputs SET reserved_by = '',
		spend_state = CASE WHEN spend_state = 'reserved' THEN 'available' ELSE spend_state END
		WHERE chain = $1 AND reserved_by = $2`, chainName, holder)
}

// The following functions store transactions of the service, and spends.

// ownTx is a row of chain_txs as the watcher reads it.
type ownTx struct {
	txid, companyID string
	state           State
}

const ownColumns = `txid, company_id, state`

func scanOwn(r *db.Rows) (t ownTx, err error) {
	var state string
	err = r.Scan(&t.txid, &t.companyID, &state)
	t.state = State(state)
	return t, err
}

// WatchTx makes the watcher follow a transaction of our own. Call it before the broadcast, in the database
// transaction that stores the signed bytes. The coins reserved for objectID are recorded as its inputs, so that a
// conflicting transaction is detected even if ours never reaches the mempool. Watching a transaction again changes
// nothing.
func WatchTx(ctx context.Context, tx *db.Tx, chainName, txid, companyID, objectID string, confirmations int64) error {
	err := watchTx(ctx, tx, chainName, txid, companyID, objectID, confirmations)
	if err != nil || objectID == "" {
		return err
	}
	return tx.Queue(ctx, `INSERT INTO chain_spends (chain, prev_txid, prev_vout, txid, height)
		SELECT chain, txid, vout, CAST($3 AS TEXT), 0 FROM chain_outputs WHERE chain = $1 AND reserved_by = $2
		ORDER BY txid, vout
		ON CONFLICT (chain, prev_txid, prev_vout, txid) DO UPDATE SET height = excluded.height`, chainName, objectID, txid)
}

// WatchNonce watches an EVM transaction, which spends the nonce of an account, as WatchTx watches a Bitcoin
// transaction.
func WatchNonce(
	ctx context.Context, tx *db.Tx, chainName, txid, companyID, objectID string, confirmations int64, nonce Outpoint,
) error {
	if err := watchTx(ctx, tx, chainName, txid, companyID, objectID, confirmations); err != nil {
		return err
	}
	return insertSpends(ctx, tx, chainName, txid, []Outpoint{nonce}, 0)
}

func watchTx(ctx context.Context, tx *db.Tx, chainName, txid, companyID, objectID string, confirmations int64) error {
	return tx.Queue(ctx, `INSERT INTO chain_txs
		(chain, txid, company_id, object_id, state, height, want_confirmations, confirmed, conflicted_by, created)
		VALUES ($1, $2, $3, $4, 'watched', 0, $5, FALSE, '', $6) ON CONFLICT (chain, txid) DO NOTHING`,
		chainName, txid, companyID, objectID, max(confirmations, 1), db.Micros(tx.Now()))
}

// GetTx returns a watched transaction, or ErrUnknown.
func GetTx(ctx context.Context, tx *db.Tx, chainName, txid string) (WatchedTx, error) {
	all, err := GetTxs(ctx, tx, chainName, []string{txid})
	w, watched := all[txid]
	if err == nil && !watched {
		err = ErrUnknown
	}
	return w, err
}

// GetTxs returns those of the transactions that are watched, by id.
func GetTxs(ctx context.Context, tx *db.Tx, chainName string, txids []string) (map[string]WatchedTx, error) {
	all := map[string]WatchedTx{}
	scan := func(r *db.Rows) (w WatchedTx, err error) {
		var state string
		var tip, verified int64
		err = r.Scan(&w.TxID, &w.CompanyID, &w.ObjectID, &state, &w.Height, &w.RequiredConfirmations, &w.Confirmed,
			&w.ConflictedBy, &tip, &verified, &w.Fee, &w.Failed)
		if w.State = State(state); w.Height > 0 {
			w.Depth, w.Verified = tip-w.Height+1, w.Height <= verified
		}
		return w, err
	}
	return all, tx.Batch(ctx, inQueries(tx,
		`SELECT t.txid, t.company_id, t.object_id, t.state, t.height, t.want_confirmations,
		t.confirmed, t.conflicted_by, COALESCE(c.height, 0), COALESCE(c.verified_height, 0), t.fee, t.failed
		FROM chain_txs t LEFT JOIN chain_cursors c ON c.chain = t.chain WHERE t.chain = $1 AND t.txid IN`,
		chainName, txids, scan, func(w WatchedTx) { all[w.TxID] = w }))
}

func ownTxQueries(tx *db.Tx, chain string, txids []string, into map[string]ownTx) []db.Statement {
	return inQueries(tx, `SELECT `+ownColumns+` FROM chain_txs WHERE chain = $1 AND txid IN`, chain, txids, scanOwn,
		func(t ownTx) { into[t.txid] = t })
}

func setTxState(ctx context.Context, tx *db.Tx, chain string, t ownTx, to State, height int64, as Tx) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE chain_txs
		SET state = $4, height = $5, conflicted_by = '', confirmed = FALSE, fee = $6, failed = $7
		WHERE chain = $1 AND txid = $2 AND state = $3`,
		chain, t.txid, string(t.state), string(to), height, as.Fee, as.Failed)
	return n == 1, err
}

// conflictTx marks a transaction that is not mined as conflicting with another one at the given height.
func conflictTx(ctx context.Context, tx *db.Tx, chain, txid, by string, height int64) ([]ownTx, error) {
	rows, err := tx.Query(ctx, `UPDATE chain_txs
		SET state = 'conflicted', conflicted_by = $3, height = $4, confirmed = FALSE
		WHERE chain = $1 AND txid = $2 AND (state IN ('watched', 'seen')
			OR state = 'conflicted' AND height = 0 AND (conflicted_by <> $3 OR height <> $4))
		RETURNING `+ownColumns, chain, txid, by, height)
	return db.Collect(rows, err, scanOwn)
}

// unmineTxs reverts the states that depend on a disconnected block.
func unmineTxs(ctx context.Context, tx *db.Tx, chain string, height int64) ([]ownTx, error) {
	rows, err := tx.Query(ctx, `UPDATE chain_txs
		SET state = CASE WHEN state = 'mined' THEN 'seen' ELSE state END, height = 0,
		confirmed = FALSE, fee = 0, failed = FALSE
		WHERE chain = $1 AND state IN ('mined', 'conflicted') AND height = $2 RETURNING `+ownColumns, chain, height)
	return db.Collect(rows, err, scanOwn)
}

func confirmTxsQuery(chain string, tip int64, confirmed *[]ownTx) db.Statement {
	return db.CollectInto(confirmed, scanOwn, `UPDATE chain_txs SET confirmed = TRUE
		WHERE chain = $1 AND state IN ('mined', 'conflicted') AND confirmed = FALSE AND height > 0
			AND height <= $2 - want_confirmations + 1
		RETURNING `+ownColumns, chain, tip)
}

// dropTxRows reverts the states of own transactions that depend on a transaction which left the mempool: that it was
// seen, or that it conflicted.
func dropTxRows(ctx context.Context, tx *db.Tx, chain, txid string) ([]ownTx, error) {
	rows, err := tx.Query(ctx, `UPDATE chain_txs SET state = 'watched', conflicted_by = ''
		WHERE chain = $1 AND (txid = $2 AND state = 'seen' OR conflicted_by = $2 AND state = 'conflicted' AND height = 0)
		RETURNING `+ownColumns, chain, txid)
	return db.Collect(rows, err, scanOwn)
}

// spend is a row of chain_spends: a transaction, at a height or in the mempool, spends an output.
type spend struct {
	prev   Outpoint
	txid   string
	height int64
}

func spendQueries(tx *db.Tx, chain string, prevTxIDs []string, into map[Outpoint][]spend) []db.Statement {
	return inQueries(tx, `SELECT prev_txid, prev_vout, txid, height FROM chain_spends WHERE chain = $1 AND prev_txid IN`,
		chain, prevTxIDs, func(r *db.Rows) (s spend, err error) {
			var vout int64
			err = r.Scan(&s.prev.TxID, &vout, &s.txid, &s.height)
			s.prev.Vout = uint32(vout)
			return s, err
		}, func(s spend) { into[s.prev] = append(into[s.prev], s) })
}

func insertSpends(ctx context.Context, tx *db.Tx, chain, txid string, inputs []Outpoint, height int64) error {
	for _, n := range db.Chunks(len(inputs), 64) {
		args := make([]any, 0, n*5)
		for _, in := range inputs[:n] {
			args = append(args, chain, in.TxID, int64(in.Vout), txid, height)
		}
		inputs = inputs[n:]
		if err := tx.Queue(ctx, `INSERT INTO chain_spends (chain, prev_txid, prev_vout, txid, height) VALUES `+
			db.Placeholders(n, 5, 1)+` ON CONFLICT (chain, prev_txid, prev_vout, txid) DO UPDATE SET height = excluded.height`,
			args...); err != nil {
			return err
		}
	}
	return nil
}

// unmineSpends returns the spends of a disconnected block to the mempool.
func unmineSpends(ctx context.Context, tx *db.Tx, chain string, height int64) error {
	if _, err := tx.Exec(ctx, `UPDATE chain_spends SET height = 0 WHERE chain = $1 AND height = $2`, chain,
		height); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE chain_outputs SET spent_height = 0 WHERE chain = $1 AND spend_state = 'spent'
		AND spent_height = $2`,
		chain, height)
	return err
}

// spentByAccount is the condition that the account a spent a nonce. The id of a nonce is the account, a slash and the
// number; '0' is the character after the slash.
const spentByAccount = `chain_spends.prev_txid >= a.address || '/' AND chain_spends.prev_txid < a.address || '0'`

// UnknownSpends returns the transactions that spent coins or nonces of ours and are not our own, the newest first.
func UnknownSpends(ctx context.Context, tx *db.Tx, chainName string) ([]UnknownSpend, error) {
	rows, err := tx.Query(ctx, `SELECT o.spent_by, MAX(o.spent_height), COUNT(*), SUM(o.amount) FROM chain_outputs o
		WHERE o.chain = $1 AND o.spend_state = 'spent'
		AND NOT EXISTS (SELECT 1 FROM chain_txs t WHERE t.chain = o.chain AND t.txid = o.spent_by)
		GROUP BY o.spent_by ORDER BY MAX(o.spent_height) = 0 DESC, MAX(o.spent_height) DESC, o.spent_by`, chainName)
	coins, err := db.Collect(rows, err, func(r *db.Rows) (s UnknownSpend, err error) {
		s.Chain = chainName
		err = r.Scan(&s.TxID, &s.Height, &s.Coins, &s.Amount)
		return s, err
	})
	if err != nil {
		return nil, err
	}
	rows, err = tx.Query(ctx, `SELECT chain_spends.txid, chain_spends.height, chain_spends.prev_txid
		FROM chain_addresses a JOIN chain_spends ON chain_spends.chain = a.chain AND `+spentByAccount+`
		WHERE a.chain = $1 AND a.object_id = 'fx_account'
		AND NOT EXISTS (SELECT 1 FROM chain_txs t WHERE t.chain = $1 AND t.txid = chain_spends.txid)
		ORDER BY chain_spends.height = 0 DESC, chain_spends.height DESC, chain_spends.txid`, chainName)
	nonces, err := db.Collect(rows, err, func(r *db.Rows) (s UnknownSpend, err error) {
		s.Chain = chainName
		err = r.Scan(&s.TxID, &s.Height, &s.Nonce)
		return s, err
	})
	return append(coins, nonces...), err
}

// mempoolQuery reads the transactions on whose presence in the mempool a stored row depends.
func mempoolQuery(chain string, txids *[]string) db.Statement {
	return db.CollectInto(txids, scanString, `SELECT txid FROM chain_outputs WHERE chain = $1 AND state = 'seen'
		UNION SELECT txid FROM chain_txs WHERE chain = $1 AND state = 'seen'
		UNION SELECT spent_by FROM chain_outputs WHERE chain = $1 AND spend_state = 'spent' AND spent_height = 0
		UNION SELECT conflicted_by FROM chain_txs WHERE chain = $1 AND state = 'conflicted' AND height = 0`, chain)
}

// dueQuery reads the transactions that have enough confirmations but are not marked confirmed. That happens if the
// required number was lowered while a block was being connected.
func dueQuery(chain string, txids *[]string) db.Statement {
	const due = "height <= (SELECT height FROM chain_cursors WHERE chain = $1) - want_confirmations + 1"
	return db.CollectInto(txids, scanString, `SELECT txid FROM chain_outputs
			WHERE chain = $1 AND state = 'mined' AND confirmed = FALSE AND `+due+`
		UNION SELECT txid FROM chain_txs
			WHERE chain = $1 AND state IN ('mined', 'conflicted') AND confirmed = FALSE AND height > 0 AND `+due, chain)
}
