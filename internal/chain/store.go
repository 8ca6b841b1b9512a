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

// inQueries are the questions for many keys: a query that ends in "IN", in which $1 is the chain.
func inQueries[T any](tx *db.Tx, query, chain string, keys []string, scan func(*db.Rows) (T, error), found func(T)) (all []db.Statement) {
	for in, args := range db.BindList(tx, keys, 2) {
		all = append(all, db.Statement{Query: query + " " + in, Args: append([]any{chain}, args...), Row: func(r *db.Rows) error {
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

// ---- cursor and blocks

type cursor struct {
	height int64
	hash   string
}

// loadCursor says false when the chain was never watched.
func loadCursor(ctx context.Context, tx *db.Tx, chain string) (c cursor, pace int64, ok bool, err error) { //nolint:unparam // the pace is part of what is kept
	var s Health
	err = tx.Batch(ctx, []db.Statement{cursorQuery(chain, &c, &pace, &s, &ok)})
	return c, pace, ok, err
}

func cursorQuery(chain string, c *cursor, pace *int64, s *Health, ok *bool) db.Statement {
	return db.Statement{Query: `SELECT height, hash, blocks_per_step, ` + healthColumns + ` FROM chain_cursors WHERE chain = $1`, Args: []any{chain}, Row: func(r *db.Rows) error {
		*ok = true
		return s.scan(r, &c.height, &c.hash, pace)
	}}
}

const healthColumns = `verified_height, alarms, tip_time, conflicting_witness`

// scan reads a row that ends in standingColumns.
func (s *Health) scan(r *db.Rows, before ...any) error {
	var alarms, contradictedBy string
	var made int64
	err := r.Scan(append(before, &s.verifiedHeight, &alarms, &made, &contradictedBy)...)
	s.Alarms, s.TipTime, s.conflictingWitnesses = nil, time.Time{}, strings.Fields(contradictedBy)
	for _, a := range strings.Fields(alarms) {
		s.Alarms = append(s.Alarms, Alarm(a))
	}
	if made != 0 {
		s.TipTime = db.Time(made)
	}
	return err
}

func setHealth(ctx context.Context, tx *db.Tx, chain string, s Health) error {
	alarms, made := make([]string, len(s.Alarms)), int64(0)
	for i, a := range s.Alarms {
		alarms[i] = string(a)
	}
	if !s.TipTime.IsZero() {
		made = db.Micros(s.TipTime)
	}
	return tx.Queue(ctx, `UPDATE chain_cursors SET verified_height = $2, alarms = $3, tip_time = $4, conflicting_witness = $5 WHERE chain = $1`,
		chain, s.verifiedHeight, strings.Join(alarms, " "), made, strings.Join(s.conflictingWitnesses, " "))
}

// LoadHealth is how each chain stands that was ever watched.
func LoadHealth(ctx context.Context, tx *db.Tx) (map[string]Health, error) {
	all := map[string]Health{}
	rows, err := tx.Query(ctx, `SELECT chain, `+healthColumns+` FROM chain_cursors`)
	_, err = db.Collect(rows, err, func(r *db.Rows) (s Health, err error) {
		var name string
		err = s.scan(r, &name)
		all[name] = s
		return s, err
	})
	return all, err
}

func setBlocksPerConfirmation(ctx context.Context, tx *db.Tx, chain string, pace int64) error {
	_, err := tx.Exec(ctx, `UPDATE chain_cursors SET blocks_per_step = $2 WHERE chain = $1`, chain, pace)
	return err
}

// Tip is the last block that the watcher of the chain has connected; height -1 before its first step.
func Tip(ctx context.Context, tx *db.Tx, chainName string) (height int64, hash string, err error) {
	c, _, ok, err := loadCursor(ctx, tx, chainName)
	if err != nil || !ok {
		return -1, "", err
	}
	return c.height, c.hash, nil
}

func startCursor(ctx context.Context, tx *db.Tx, chain string, pace int64, last []cursor) (bool, error) {
	tip := last[len(last)-1]
	n, err := tx.Exec(ctx, `INSERT INTO chain_cursors (chain, height, hash, updated, blocks_per_step) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (chain) DO NOTHING`,
		chain, tip.height, tip.hash, db.Micros(tx.Now()), pace)
	if err != nil || n == 0 {
		return false, err
	}
	rows := make([][]any, len(last))
	for i, b := range last {
		rows[i] = []any{chain, b.height, b.hash}
	}
	return true, tx.Insert(ctx, "chain_blocks", []string{"chain", "height", "hash"}, rows)
}

// advanceCursor is the compare-and-set on which every step rests; false when another watcher was first.
func advanceCursor(ctx context.Context, tx *db.Tx, chain string, from, to cursor) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE chain_cursors SET height = $2, hash = $3, updated = $4 WHERE chain = $1 AND height = $5 AND hash = $6`,
		chain, to.height, to.hash, db.Micros(tx.Now()), from.height, from.hash)
	return n == 1, err
}

// insertBlocks keeps the blocks that follow a height.
func insertBlocks(ctx context.Context, tx *db.Tx, chain string, after int64, blocks []Block) error {
	rows := make([][]any, len(blocks))
	for i, b := range blocks {
		rows[i] = []any{chain, after + 1 + int64(i), b.Hash}
	}
	return tx.Insert(ctx, "chain_blocks", []string{"chain", "height", "hash"}, rows)
}

func deleteBlock(ctx context.Context, tx *db.Tx, chain string, b cursor) error {
	n, err := tx.Exec(ctx, `DELETE FROM chain_blocks WHERE chain = $1 AND height = $2 AND hash = $3`, chain, b.height, b.hash)
	if err == nil && n != 1 {
		err = fmt.Errorf("chain %s: block %d %s is under the cursor but not kept", chain, b.height, b.hash)
	}
	return err
}

// parentHashQuery asks for the hash of the block below the cursor, if it is kept.
func parentHashQuery(chain string, hash *[]string) db.Statement {
	return db.CollectInto(hash, scanString, `SELECT hash FROM chain_blocks WHERE chain = $1 AND height = (SELECT height - 1 FROM chain_cursors WHERE chain = $1)`, chain)
}

// hashQuery asks for the hash of a block, if it is kept.
func hashQuery(chain string, height int64, hash *[]string) db.Statement {
	return db.CollectInto(hash, scanString, `SELECT hash FROM chain_blocks WHERE chain = $1 AND height = $2`, chain, height)
}

// spendsKept is how many blocks longer than need be spends are kept: looking for old ones takes longer than keeping them.
const pruneSpendsEvery = 16

// prune forgets what lies too deep to be taken back, after the blocks up to tip were connected.
func prune(ctx context.Context, tx *db.Tx, chain string, from, tip int64) error {
	last := tip - MaxReorg - 1
	if err := tx.Queue(ctx, `DELETE FROM chain_blocks WHERE chain = $1 AND height < $2`, chain, last); err != nil || from/pruneSpendsEvery == tip/pruneSpendsEvery {
		return err
	}
	// What others did with the account that pays stays, until a person has explained it.
	return tx.Queue(ctx, `DELETE FROM chain_spends WHERE chain = $1 AND height > 0 AND height < $2
		AND NOT (EXISTS (SELECT 1 FROM chain_addresses a WHERE a.chain = $1 AND a.object_id = 'fx_account' AND `+spentByAccount+`)
			AND NOT EXISTS (SELECT 1 FROM chain_txs t WHERE t.chain = $1 AND t.txid = chain_spends.txid))`, chain, last)
}

// byAccount says that an account spent a nonce: a nonce is named by its account, a stroke and the number.
const spentByAccount = `chain_spends.prev_txid >= a.address || '/' AND chain_spends.prev_txid < a.address || '0'`

// ---- addresses

type address struct {
	address, companyID, objectID string
	branch, index                int64
}

var addressRows = db.BulkInsert("chain_addresses", "chain", "address", "company_id", "object_id", "branch", "idx", "created")

func insertAddress(tx *db.Tx, chain string, a address) {
	addressRows.Add(tx, []any{chain, a.address, a.companyID, a.objectID, a.branch, a.index, db.Micros(tx.Now())})
}

func addressQueries(tx *db.Tx, chain string, addresses []string, into map[string]address) []db.Statement {
	return inQueries(tx, `SELECT address, company_id, object_id, branch, idx FROM chain_addresses WHERE chain = $1 AND address IN`,
		chain, addresses, func(r *db.Rows) (a address, err error) {
			err = r.Scan(&a.address, &a.companyID, &a.objectID, &a.branch, &a.index)
			return a, err
		}, func(a address) { into[a.address] = a })
}

func loadAddresses(ctx context.Context, tx *db.Tx, chain string, addresses []string) (map[string]address, error) {
	found := make(map[string]address, len(addresses))
	return found, tx.Batch(ctx, addressQueries(tx, chain, addresses, found))
}

// PayingAccount is the object that the account belongs to from which a wallet pays on networks of accounts. What others send there,
// for gas, is the house's.
const PayingAccount = "fx_account"

// WatchAccount has a network's watcher know the account that a wallet pays from, the first of the change branch.
func WatchAccount(ctx context.Context, tx *db.Tx, network, address, companyID string) error {
	_, err := tx.Exec(ctx, `INSERT INTO chain_addresses (chain, address, company_id, object_id, branch, idx, created)
		VALUES ($1, $2, $3, $4, $5, 0, $6) ON CONFLICT (chain, address) DO UPDATE SET object_id = excluded.object_id`,
		network, address, companyID, PayingAccount, int64(Change), db.Micros(tx.Now()))
	return err
}

// LoadEVMHoldings says where money of ours lies on a network of accounts.
func LoadEVMHoldings(ctx context.Context, tx *db.Tx, network string) (h EVMHoldings, err error) {
	h.Unconfirmed = map[money.Asset]int64{}
	err = tx.QueryRow(ctx, `SELECT height - blocks_per_step + 1 FROM chain_cursors WHERE chain = $1`, network).Scan(&h.Height)
	if err != nil {
		return h, err
	}
	rows, err := tx.Query(ctx, `SELECT address FROM chain_addresses WHERE chain = $1 AND branch = $2
		UNION SELECT address FROM chain_outputs WHERE chain = $1 AND state = 'mined' AND height <= $3 ORDER BY address`, network, int64(Change), h.Height)
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

// BackfillAddresses gives networks that share a wallet the addresses of each other, so that a payment on one that was added later is not lost.
// What a network has already stays.
func BackfillAddresses(ctx context.Context, tx *db.Tx, networks []string) error {
	for _, to := range networks {
		for _, from := range networks {
			if from == to {
				continue
			}
			if _, err := tx.Exec(ctx, `INSERT INTO chain_addresses (chain, address, company_id, object_id, branch, idx, created)
				SELECT CAST($1 AS TEXT), a.address, a.company_id, a.object_id, a.branch, a.idx, a.created FROM chain_addresses a WHERE a.chain = $2
				AND NOT EXISTS (SELECT 1 FROM chain_addresses b WHERE b.chain = $1 AND b.address = a.address)`, to, from); err != nil {
				return err
			}
		}
	}
	return nil
}

// reserveIndexes takes the next n indexes of a branch for a key, see keysName, and returns the first. A wallet with indexes for more than
// one key says so for ever.
func reserveIndexes(ctx context.Context, tx *db.Tx, chain, keys string, branch uint32, n int64) (first int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO chain_pools (chain, branch, next, keys) VALUES ($1, $2, $3, $4)
		ON CONFLICT (chain, branch) DO UPDATE SET next = chain_pools.next + excluded.next,
			keys = CASE WHEN chain_pools.keys IN ('', excluded.keys) THEN excluded.keys ELSE 'several' END RETURNING next`,
		chain, int64(branch), n, keys).Scan(&first)
	return first - n, err
}

func poolQuery(chain string, into *poolState) db.Statement {
	return db.Statement{Query: "SELECT branch, next, keys FROM chain_pools WHERE chain = $1", Args: []any{chain}, Row: func(r *db.Rows) error {
		var branch, next int64
		var keys string
		err := r.Scan(&branch, &next, &keys)
		into.next[branch], into.keyIDs[branch] = next, keys
		return err
	}}
}

// addressPage are the next addresses that were given out, in the order of the addresses.
func addressPage(ctx context.Context, tx *db.Tx, chain, after string, limit int) ([]address, error) {
	rows, err := tx.Query(ctx, `SELECT address, branch, idx FROM chain_addresses WHERE chain = $1 AND address > $2 ORDER BY address LIMIT $3`, chain, after, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (a address, err error) {
		err = r.Scan(&a.address, &a.branch, &a.index)
		return a, err
	})
}

// ---- outputs

// output is a row of chain_outputs as the watcher needs it.
type output struct {
	Outpoint
	companyID string
	branch    int64
	own       bool
	state     State
	depth     int64
	output    Output
}

// isChange says that nobody waits for news of the output: it is our own change.
func (o output) isChange() bool { return o.own && o.branch == int64(Change) }

const outputColumns = `txid, vout, company_id, branch, own, state, depth, address, amount, asset`

func scanOutput(r *db.Rows) (o output, err error) {
	var vout int64
	var state, asset string
	err = r.Scan(&o.TxID, &vout, &o.companyID, &o.branch, &o.own, &state, &o.depth, &o.output.Address, &o.output.Amount, &asset)
	o.Vout, o.state, o.output.Asset = uint32(vout), State(state), money.Asset(asset)
	return o, err
}

func outputQueries(tx *db.Tx, chain string, txids []string, into map[Outpoint]output) []db.Statement {
	return inQueries(tx, `SELECT `+outputColumns+` FROM chain_outputs WHERE chain = $1 AND txid IN`, chain, txids, scanOutput,
		func(o output) { into[o.Outpoint] = o })
}

func (m *outputWrites) store(ctx context.Context, tx *db.Tx) error {
	if err := tx.Insert(ctx, "chain_outputs", []string{"chain", "txid", "vout", "company_id", "object_id", "address", "branch", "idx", "amount",
		"own", "coinbase", "state", "height", "block_hash", "first_seen", "want_confirmations", "confirmed", "replaced_by",
		"spend_state", "reserved_by", "spent_by", "spent_height", "depth", "asset"}, m.inserted); err != nil {
		return err
	}
	stored := 0
	for values, args := range db.BindRows(tx, m.updated, 4) {
		n, err := tx.Exec(ctx, `WITH v (txid, vout, was, state, depth, own) AS (`+values+`)
			UPDATE chain_outputs SET state = v.state, height = $2, block_hash = $3, replaced_by = '', depth = v.depth, own = v.own,
				confirmed = (want_confirmations = 0) FROM v
			WHERE chain_outputs.chain = $1 AND chain_outputs.txid = v.txid AND chain_outputs.vout = v.vout AND chain_outputs.state = v.was`,
			append([]any{m.chain, m.position.height, m.position.hash}, args...)...)
		if err != nil {
			return err
		}
		stored += int(n)
	}
	if stored != len(m.updated) {
		return fmt.Errorf("chain %s: %d of %d outputs are not where they were", m.chain, len(m.updated)-stored, len(m.updated))
	}
	m.inserted, m.updated = nil, nil
	return nil
}

// replaceOutputs marks the outputs of a transaction that lost its coins to another.
func replaceOutputs(ctx context.Context, tx *db.Tx, chain, txid, by string) ([]output, error) {
	rows, err := tx.Query(ctx, `UPDATE chain_outputs SET state = 'replaced', replaced_by = $3, confirmed = FALSE
		WHERE chain = $1 AND txid = $2 AND (state IN ('seen', 'evicted') OR state = 'replaced' AND replaced_by <> $3) RETURNING `+outputColumns,
		chain, txid, by)
	return db.Collect(rows, err, scanOutput)
}

func evictOutputs(ctx context.Context, tx *db.Tx, chain, txid string) ([]output, error) {
	rows, err := tx.Query(ctx, `UPDATE chain_outputs SET state = 'evicted', confirmed = FALSE
		WHERE chain = $1 AND txid = $2 AND state = 'seen' RETURNING `+outputColumns, chain, txid)
	return db.Collect(rows, err, scanOutput)
}

func unmineOutputs(ctx context.Context, tx *db.Tx, chain string, height int64) ([]output, error) {
	rows, err := tx.Query(ctx, `UPDATE chain_outputs SET state = 'seen', height = 0, block_hash = '', confirmed = (want_confirmations = 0),
		depth = CASE WHEN own THEN 1 ELSE 0 END
		WHERE chain = $1 AND state = 'mined' AND height = $2 RETURNING `+outputColumns, chain, height)
	return db.Collect(rows, err, scanOutput)
}

func confirmOutputsQuery(chain string, tip int64, confirmed *[]output) db.Statement {
	return db.CollectInto(confirmed, scanOutput, `UPDATE chain_outputs SET confirmed = TRUE
		WHERE chain = $1 AND state = 'mined' AND confirmed = FALSE AND height <= $2 - want_confirmations + 1 RETURNING `+outputColumns, chain, tip)
}

func spendOutput(ctx context.Context, tx *db.Tx, chain string, o Outpoint, by string, height int64) error {
	_, err := tx.Exec(ctx, `UPDATE chain_outputs SET spend_state = 'spent', spent_by = $4, spent_height = $5
		WHERE chain = $1 AND txid = $2 AND vout = $3`, chain, o.TxID, int64(o.Vout), by, height)
	return err
}

// UnknownSpends lists them, newest first.
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
	rows, err = tx.Query(ctx, `SELECT chain_spends.txid, chain_spends.height, chain_spends.prev_txid FROM chain_addresses a JOIN chain_spends ON chain_spends.chain = a.chain AND `+spentByAccount+`
		WHERE a.chain = $1 AND a.object_id = 'fx_account'
		AND NOT EXISTS (SELECT 1 FROM chain_txs t WHERE t.chain = $1 AND t.txid = chain_spends.txid)
		ORDER BY chain_spends.height = 0 DESC, chain_spends.height DESC, chain_spends.txid`, chainName)
	accounts, err := db.Collect(rows, err, func(r *db.Rows) (s UnknownSpend, err error) {
		s.Chain = chainName
		err = r.Scan(&s.TxID, &s.Height, &s.Nonce)
		return s, err
	})
	return append(coins, accounts...), err
}

// usedIndexes are the indexes of a branch from one on that have an address, and the next that will be reserved.
func usedIndexes(ctx context.Context, tx *db.Tx, chain string, branch uint32, from int64) (used map[int64]bool, err error) {
	rows, err := tx.Query(ctx, "SELECT idx FROM chain_addresses WHERE chain = $1 AND branch = $2 AND idx >= $3", chain, int64(branch), from)
	all, err := db.Collect(rows, err, func(r *db.Rows) (i int64, err error) { return i, r.Scan(&i) })
	used = make(map[int64]bool, len(all))
	for _, i := range all {
		used[i] = true
	}
	return used, err
}

// firstAddress is one that was given out on the external branch, if any was.
func firstAddress(ctx context.Context, tx *db.Tx, chain string) (a address, found bool, err error) {
	err = tx.QueryRow(ctx, "SELECT address, branch, idx FROM chain_addresses WHERE chain = $1 LIMIT 1", chain).Scan(&a.address, &a.branch, &a.index)
	if errors.Is(err, db.ErrNoRows) {
		return a, false, nil
	}
	return a, err == nil, err
}

// unspendOutputs gives back the coins of a transaction that is gone: to whom they were reserved, if to anybody.
func unspendOutputs(ctx context.Context, tx *db.Tx, chain, by string) error {
	_, err := tx.Exec(ctx, `UPDATE chain_outputs SET spent_by = '', spent_height = 0,
		spend_state = CASE WHEN reserved_by = '' THEN 'available' ELSE 'reserved' END
		WHERE chain = $1 AND spent_by = $2`, chain, by)
	return err
}

// watchedOutputs are the watched outputs of a transaction, as they stand.
const watchedOutputs = `SELECT o.txid, o.vout, o.company_id, o.object_id, o.address, o.branch, o.amount, o.state, o.height, o.block_hash, o.first_seen,
	o.want_confirmations, o.confirmed, o.coinbase, o.replaced_by, o.spend_state, o.spent_by, COALESCE(c.height, 0), COALESCE(c.blocks_per_step, 1), o.asset
	FROM chain_outputs o LEFT JOIN chain_cursors c ON c.chain = o.chain WHERE o.chain = $1 AND o.txid = $2`

func scanWatched(scan func(...any) error) (w WatchedOutput, err error) {
	var vout, branch, firstSeen, tip int64
	var state, spend, asset string
	if err := scan(&w.TxID, &vout, &w.CompanyID, &w.ObjectID, &w.Address, &branch, &w.Amount, &state, &w.Height, &w.BlockHash, &firstSeen,
		&w.RequiredConfirmations, &w.Confirmed, &w.Coinbase, &w.ReplacedBy, &spend, &w.SpentBy, &tip, &w.BlocksPerConfirmation, &asset); err != nil {
		return WatchedOutput{}, err
	}
	w.Vout, w.Branch, w.State, w.SpendState, w.FirstSeen = uint32(vout), uint32(branch), State(state), SpendState(spend), db.Time(firstSeen)
	w.Asset = cmp.Or(money.Asset(asset), money.BTC)
	if w.State == Mined {
		w.Depth = tip - w.Height + 1
	}
	return w, nil
}

// GetOutput is a watched output as it stands; ErrUnknown when it is not one.
func GetOutput(ctx context.Context, tx *db.Tx, chainName string, o Outpoint) (WatchedOutput, error) {
	w, err := scanWatched(tx.QueryRow(ctx, watchedOutputs+" AND o.vout = $3", chainName, o.TxID, int64(o.Vout)).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return WatchedOutput{}, ErrUnknown
	}
	return w, err
}

// OutputsQuery is the question for all watched outputs of a transaction.
func OutputsQuery(chainName, txid string, found func(WatchedOutput)) db.Statement {
	return db.Statement{Query: watchedOutputs, Args: []any{chainName, txid}, Row: func(r *db.Rows) error {
		w, err := scanWatched(r.Scan)
		if err == nil {
			found(w)
		}
		return err
	}}
}

// OutputsOf lists the watched outputs that belong to an object, in the order in which they were first seen.
func OutputsOf(ctx context.Context, tx *db.Tx, chainName, companyID, objectID string) ([]Outpoint, error) {
	rows, err := tx.Query(ctx, `SELECT txid, vout FROM chain_outputs WHERE company_id = $1 AND object_id = $2 AND chain = $3
		ORDER BY first_seen, txid, vout`, companyID, objectID, chainName)
	return db.Collect(rows, err, func(r *db.Rows) (o Outpoint, err error) {
		var vout int64
		err = r.Scan(&o.TxID, &vout)
		o.Vout = uint32(vout)
		return o, err
	})
}

// RequireConfirmations stores how deep outputs must lie before they are called confirmed, as [WatchedOutput.WithConfirmations] has it of each. What
// already stands so changes nothing. An error says that the watcher moved one of them since it was read.
func RequireConfirmations(ctx context.Context, tx *db.Tx, chainName string, outputs []WatchedOutput) error {
	rows := make([][]any, len(outputs))
	for i, o := range outputs {
		rows[i] = []any{o.TxID, int64(o.Vout), string(o.State), o.Height, o.RequiredConfirmations, o.Confirmed}
	}
	stored := 0
	for values, args := range db.BindRows(tx, rows, 2) {
		n, err := tx.Exec(ctx, `WITH v (txid, vout, state, height, wanted, confirmed) AS (`+values+`)
			UPDATE chain_outputs SET want_confirmations = v.wanted, confirmed = v.confirmed FROM v
			WHERE chain_outputs.chain = $1 AND chain_outputs.txid = v.txid AND chain_outputs.vout = v.vout
				AND chain_outputs.state = v.state AND chain_outputs.height = v.height`, append([]any{chainName}, args...)...)
		if err != nil {
			return err
		}
		stored += int(n)
	}
	if stored != len(outputs) {
		return fmt.Errorf("chain: %d of %d outputs moved meanwhile", len(outputs)-stored, len(outputs)) // their news has the caller look again
	}
	return nil
}

// Coins are the coins that may be spent now, the largest first: confirmed ones, and the change of our own transactions even
// before it is in a block.
func Coins(ctx context.Context, tx *db.Tx, chainName string) ([]WalletCoin, error) {
	rows, err := tx.Query(ctx, `SELECT txid, vout, address, amount, branch, idx, CASE WHEN state = 'mined' THEN 0 ELSE depth END, asset
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

// Reserve takes coins out of the choice for whom by names. ErrCoinTaken, which undoes the transaction, when one of them is
// not available any more.
func Reserve(ctx context.Context, tx *db.Tx, chainName string, coins []Outpoint, by string) error {
	if by == "" {
		return errors.New("chain: a reservation needs a holder")
	}
	rows := make([][]any, len(coins))
	for i, c := range coins {
		rows[i] = []any{c.TxID, int64(c.Vout)}
	}
	taken := 0
	for values, args := range db.BindRows(tx, rows, 3) {
		n, err := tx.Exec(ctx, `WITH v (txid, vout) AS (`+values+`)
			UPDATE chain_outputs SET spend_state = 'reserved', reserved_by = $2 FROM v
			WHERE chain_outputs.chain = $1 AND chain_outputs.txid = v.txid AND chain_outputs.vout = v.vout
				AND spend_state = 'available' AND state IN ('seen', 'mined')`, append([]any{chainName, by}, args...)...)
		if err != nil {
			return err
		}
		taken += int(n)
	}
	if taken != len(coins) {
		return ErrCoinTaken
	}
	return nil
}

// Unreserve gives back every coin held under a name and not spent: only for a transaction that can never be mined, because
// it was never handed out or because a rival is confirmed.
func Unreserve(ctx context.Context, tx *db.Tx, chainName, by string) error {
	if by == "" {
		return errors.New("chain: a reservation needs a holder")
	}
	return tx.Queue(ctx, `UPDATE chain_outputs SET reserved_by = '',
		spend_state = CASE WHEN spend_state = 'reserved' THEN 'available' ELSE spend_state END
		WHERE chain = $1 AND reserved_by = $2`, chainName, by)
}

// ---- our own transactions

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

// WatchTx has the watcher follow a transaction of our own: before it is broadcast, in the transaction that stores its bytes.
// The coins reserved under objectID are taken to be its inputs, so that a rival is noticed even if ours never shows.
// Watching it again changes nothing.
func WatchTx(ctx context.Context, tx *db.Tx, chainName, txid, companyID, objectID string, confirmations int64) error {
	err := watchTx(ctx, tx, chainName, txid, companyID, objectID, confirmations)
	if err != nil || objectID == "" {
		return err
	}
	return tx.Queue(ctx, `INSERT INTO chain_spends (chain, prev_txid, prev_vout, txid, height)
		SELECT chain, txid, vout, CAST($3 AS TEXT), 0 FROM chain_outputs WHERE chain = $1 AND reserved_by = $2 ORDER BY txid, vout
		ON CONFLICT (chain, prev_txid, prev_vout, txid) DO UPDATE SET height = excluded.height`, chainName, objectID, txid)
}

// WatchNonce is WatchTx for a transaction that spends the nonce of an account.
func WatchNonce(ctx context.Context, tx *db.Tx, chainName, txid, companyID, objectID string, confirmations int64, nonce Outpoint) error {
	if err := watchTx(ctx, tx, chainName, txid, companyID, objectID, confirmations); err != nil {
		return err
	}
	return insertSpends(ctx, tx, chainName, txid, []Outpoint{nonce}, 0)
}

func watchTx(ctx context.Context, tx *db.Tx, chainName, txid, companyID, objectID string, confirmations int64) error {
	return tx.Queue(ctx, `INSERT INTO chain_txs (chain, txid, company_id, object_id, state, height, want_confirmations, confirmed, conflicted_by, created)
		VALUES ($1, $2, $3, $4, 'watched', 0, $5, FALSE, '', $6) ON CONFLICT (chain, txid) DO NOTHING`,
		chainName, txid, companyID, objectID, max(confirmations, 1), db.Micros(tx.Now()))
}

// GetTx is a watched transaction as it stands; ErrUnknown when it is not one.
func GetTx(ctx context.Context, tx *db.Tx, chainName, txid string) (WatchedTx, error) {
	all, err := GetTxs(ctx, tx, chainName, []string{txid})
	w, watched := all[txid]
	if err == nil && !watched {
		err = ErrUnknown
	}
	return w, err
}

// GetTxs are watched transactions as they stand, by id; those that are not watched are left out.
func GetTxs(ctx context.Context, tx *db.Tx, chainName string, txids []string) (map[string]WatchedTx, error) {
	all := map[string]WatchedTx{}
	scan := func(r *db.Rows) (w WatchedTx, err error) {
		var state string
		var tip, attested int64
		err = r.Scan(&w.TxID, &w.CompanyID, &w.ObjectID, &state, &w.Height, &w.RequiredConfirmations, &w.Confirmed, &w.ConflictedBy, &tip, &attested, &w.Fee, &w.Failed)
		if w.State = State(state); w.Height > 0 {
			w.Depth, w.Verified = tip-w.Height+1, w.Height <= attested
		}
		return w, err
	}
	return all, tx.Batch(ctx, inQueries(tx, `SELECT t.txid, t.company_id, t.object_id, t.state, t.height, t.want_confirmations, t.confirmed, t.conflicted_by,
		COALESCE(c.height, 0), COALESCE(c.verified_height, 0), t.fee, t.failed FROM chain_txs t LEFT JOIN chain_cursors c ON c.chain = t.chain WHERE t.chain = $1 AND t.txid IN`,
		chainName, txids, scan, func(w WatchedTx) { all[w.TxID] = w }))
}

func ownTxQueries(tx *db.Tx, chain string, txids []string, into map[string]ownTx) []db.Statement {
	return inQueries(tx, `SELECT `+ownColumns+` FROM chain_txs WHERE chain = $1 AND txid IN`, chain, txids, scanOwn, func(t ownTx) { into[t.txid] = t })
}

func setTxState(ctx context.Context, tx *db.Tx, chain string, t ownTx, to State, height int64, as Tx) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE chain_txs SET state = $4, height = $5, conflicted_by = '', confirmed = FALSE, fee = $6, failed = $7
		WHERE chain = $1 AND txid = $2 AND state = $3`, chain, t.txid, string(t.state), string(to), height, as.Fee, as.Failed)
	return n == 1, err
}

func conflictTx(ctx context.Context, tx *db.Tx, chain, txid, by string, height int64) ([]ownTx, error) {
	rows, err := tx.Query(ctx, `UPDATE chain_txs SET state = 'conflicted', conflicted_by = $3, height = $4, confirmed = FALSE
		WHERE chain = $1 AND txid = $2 AND (state IN ('watched', 'seen') OR state = 'conflicted' AND height = 0 AND (conflicted_by <> $3 OR height <> $4))
		RETURNING `+ownColumns, chain, txid, by, height)
	return db.Collect(rows, err, scanOwn)
}

func unmineTxs(ctx context.Context, tx *db.Tx, chain string, height int64) ([]ownTx, error) {
	rows, err := tx.Query(ctx, `UPDATE chain_txs SET state = CASE WHEN state = 'mined' THEN 'seen' ELSE state END, height = 0, confirmed = FALSE,
		fee = 0, failed = FALSE
		WHERE chain = $1 AND state IN ('mined', 'conflicted') AND height = $2 RETURNING `+ownColumns, chain, height)
	return db.Collect(rows, err, scanOwn)
}

func confirmTxsQuery(chain string, tip int64, confirmed *[]ownTx) db.Statement {
	return db.CollectInto(confirmed, scanOwn, `UPDATE chain_txs SET confirmed = TRUE
		WHERE chain = $1 AND state IN ('mined', 'conflicted') AND confirmed = FALSE AND height > 0 AND height <= $2 - want_confirmations + 1
		RETURNING `+ownColumns, chain, tip)
}

// dropTxRows takes back what rested on a transaction that left the mempool: that ours was seen, or that it conflicted with ours.
func dropTxRows(ctx context.Context, tx *db.Tx, chain, txid string) ([]ownTx, error) {
	rows, err := tx.Query(ctx, `UPDATE chain_txs SET state = 'watched', conflicted_by = ''
		WHERE chain = $1 AND (txid = $2 AND state = 'seen' OR conflicted_by = $2 AND state = 'conflicted' AND height = 0)
		RETURNING `+ownColumns, chain, txid)
	return db.Collect(rows, err, scanOwn)
}

// ---- spends

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
		if err := tx.Queue(ctx, `INSERT INTO chain_spends (chain, prev_txid, prev_vout, txid, height) VALUES `+db.Placeholders(n, 5, 1)+
			` ON CONFLICT (chain, prev_txid, prev_vout, txid) DO UPDATE SET height = excluded.height`, args...); err != nil {
			return err
		}
	}
	return nil
}

func unmineSpends(ctx context.Context, tx *db.Tx, chain string, height int64) error {
	if _, err := tx.Exec(ctx, `UPDATE chain_spends SET height = 0 WHERE chain = $1 AND height = $2`, chain, height); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE chain_outputs SET spent_height = 0 WHERE chain = $1 AND spend_state = 'spent' AND spent_height = $2`, chain, height)
	return err
}

// ---- the mempool

// mempoolQuery asks for the transactions that some row believes to be in the mempool.
func mempoolQuery(chain string, txids *[]string) db.Statement {
	return db.CollectInto(txids, scanString, `SELECT txid FROM chain_outputs WHERE chain = $1 AND state = 'seen'
		UNION SELECT txid FROM chain_txs WHERE chain = $1 AND state = 'seen'
		UNION SELECT spent_by FROM chain_outputs WHERE chain = $1 AND spend_state = 'spent' AND spent_height = 0
		UNION SELECT conflicted_by FROM chain_txs WHERE chain = $1 AND state = 'conflicted' AND height = 0`, chain)
}

// dueQuery asks for what lies deep enough and is not yet called confirmed: a requirement was lowered while a block was being
// connected.
func dueQuery(chain string, txids *[]string) db.Statement {
	const tip = "(SELECT height FROM chain_cursors WHERE chain = $1)"
	return db.CollectInto(txids, scanString, `SELECT txid FROM chain_outputs WHERE chain = $1 AND state = 'mined' AND confirmed = FALSE AND height <= `+tip+` - want_confirmations + 1
		UNION SELECT txid FROM chain_txs WHERE chain = $1 AND state IN ('mined', 'conflicted') AND confirmed = FALSE
			AND height > 0 AND height <= `+tip+` - want_confirmations + 1`, chain)
}

// UTXOSource is a Source that can say whether a coin is there: in a block, and spent by no block.
type UTXOSource interface {
	Source
	// Coin is the amount of an unspent output, in satoshis; ErrNotFound when there is none.
	Coin(ctx context.Context, o Outpoint) (sats int64, err error)
}

// HeldCoin is a coin of ours that a block has, and that no block spends.
type HeldCoin struct {
	Outpoint
	CompanyID, ObjectID string
	Amount              int64
	Change              bool // of a transaction of our own
	Confirmed           bool // deep enough for whoever expects it
}

// HeldCoins are all coins of ours, whatever they are reserved for.
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
