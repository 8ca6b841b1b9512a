package onchain

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
)

func insertBatch(ctx context.Context, tx *db.Tx, b Batch) error {
	inputs, err := json.Marshal(b.Inputs)
	if err != nil {
		return err
	}
	db.History(tx, b.CompanyID, b.ID, 1, "", string(payout.Prepared), "")
	return tx.Queue(ctx, `INSERT INTO payout_batches
		(company_id, batch_id, chain, state, txid, value, fee, inputs, change, version, created_at, sent_at,
			asset, purpose, account, nonce)
		VALUES ($1, $2, $3, 'prepared', $4, $5, $6, $7, $8, 1, $9, 0, $10, $11, $12, $13)`,
		b.CompanyID, b.ID, b.Chain, b.TxID, b.Value, b.Fee, string(inputs), b.Change, db.Micros(tx.Now()),
		string(b.Asset), string(b.Purpose), b.Account, int64(b.Nonce))
}

const batchColumns = `company_id, batch_id, chain, state, txid, value, fee, inputs, change, version, created_at,
	sent_at, asset, purpose, account, nonce`

func scanBatch(row *db.Rows) (Batch, error) {
	var (
		b                             Batch
		state, inputs, asset, purpose string
		created, sent, nonce          int64
	)
	err := row.Scan(&b.CompanyID, &b.ID, &b.Chain, &state, &b.TxID, &b.Value, &b.Fee, &inputs, &b.Change, &b.Version,
		&created, &sent,
		&asset, &purpose, &b.Account, &nonce)
	if err != nil {
		return Batch{}, err
	}
	b.State, b.Asset, b.Purpose, b.Nonce = payout.State(state), money.Asset(asset), Purpose(purpose), uint64(nonce)
	b.CreatedAt = db.Time(created)
	if sent > 0 {
		b.SentAt = db.Time(sent)
	}
	return b, json.Unmarshal([]byte(inputs), &b.Inputs)
}

// batchesOf returns the IDs of the batches that contain some transactions.
func batchesOf(ctx context.Context, tx *db.Tx, companyID string, txids []string) (ids []string, err error) {
	for in, args := range db.BindList(tx, txids, 2) {
		rows, err := tx.Query(ctx, "SELECT batch_id FROM payout_txs WHERE company_id = $1 AND txid IN "+in,
			append([]any{companyID}, args...)...)
		some, err := db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
		if err != nil {
			return nil, err
		}
		ids = append(ids, some...)
	}
	return ids, nil
}

// lockBatch returns one batch, locked, or db.ErrNoRows.
func lockBatch(ctx context.Context, tx *db.Tx, chainName, companyID, batchID string) (Batch, error) {
	all, err := lockBatches(ctx, tx, chainName, companyID, []string{batchID})
	if err != nil || len(all) == 0 {
		return Batch{}, cmp.Or(err, db.ErrNoRows)
	}
	return all[0], nil
}

// lockBatches returns batches of a chain, locked for the rest of the transaction. It locks them in the order of their
// IDs, so that concurrent transactions do not deadlock.
func lockBatches(ctx context.Context, tx *db.Tx, chainName, companyID string, ids []string) ([]Batch, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	for _, id := range ids {
		if err := tx.Queue(ctx, `UPDATE payout_batches SET version = version
			WHERE company_id = $1 AND batch_id = $2 AND chain = $3`, companyID, id, chainName); err != nil {
			return nil, err
		}
	}
	return readBatches(ctx, tx, chainName, companyID, ids)
}

// readBatches returns batches of a chain with their transactions, the states of the transactions on the chain, and
// their outputs.
func readBatches(ctx context.Context, tx *db.Tx, chainName, companyID string, ids []string) ([]Batch, error) {
	var all []Batch
	var signed []Transaction
	var some []db.Statement
	for in, args := range db.BindList(tx, ids, 2) {
		args = append([]any{companyID}, args...)
		some = append(some,
			db.CollectInto(&all, scanBatch,
				"SELECT "+batchColumns+" FROM payout_batches WHERE company_id = $1 AND batch_id IN "+in, args...),
			db.CollectInto(&signed, scanTransaction,
				"SELECT "+transactionColumns+" FROM payout_txs WHERE company_id = $1 AND batch_id IN "+in+" ORDER BY fee", args...))
	}
	if err := tx.Batch(ctx, some); err != nil {
		return nil, err
	}
	outs, err := payout.InBatches(ctx, tx, companyID, ids...)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(b Batch) bool { return b.Chain != chainName })
	slices.SortFunc(all, func(a, b Batch) int { return strings.Compare(a.ID, b.ID) })
	of := make(map[string]*Batch, len(all))
	for i := range all {
		of[all[i].ID] = &all[i]
	}
	txids := make([]string, len(signed))
	for i, t := range signed {
		if txids[i] = t.TxID; of[t.BatchID] != nil {
			of[t.BatchID].Signed = append(of[t.BatchID].Signed, t)
		}
	}
	for _, o := range outs {
		if of[o.BatchID] != nil {
			of[o.BatchID].Outs = append(of[o.BatchID].Outs, o)
		}
	}
	seen, err := chain.GetTxs(ctx, tx, chainName, txids)
	for i := range all {
		all[i].Seen = seen
	}
	return all, err
}

// Outcome is the outcome of a batch.
type Outcome struct {
	TxID  string
	Mined bool // the transaction is in a block and succeeded
	Over  bool // the batch's transaction failed, or is proven never to be in a block
}

// OutcomeOf returns the outcome of a batch so far.
func OutcomeOf(ctx context.Context, tx *db.Tx, chainName, companyID, batchID string) (Outcome, error) {
	all, err := readBatches(ctx, tx, chainName, companyID, []string{batchID})
	if err != nil || len(all) == 0 {
		return Outcome{}, cmp.Or(err, db.ErrNoRows)
	}
	b := all[0]
	o := Outcome{TxID: b.TxID, Mined: b.State == lost, Over: b.State == dead}
	for _, t := range b.Signed {
		if w := b.Seen[t.TxID]; w.State == chain.Mined && !w.Failed {
			o = Outcome{TxID: t.TxID, Mined: true}
		}
	}
	return o, nil
}

// advanceBatch changes the state, current transaction and fee of a batch. It fails if the batch has changed since it
// was read. The update also locks the batch.
func advanceBatch(ctx context.Context, tx *db.Tx, b *Batch, to payout.State, txid string, fee int64,
	reason string,
) error {
	sent := int64(0)
	if !b.SentAt.IsZero() {
		sent = db.Micros(b.SentAt)
	} else if to == payout.Sent || to == payout.Fulfilled {
		b.SentAt = tx.Now()
		sent = db.Micros(b.SentAt)
	}
	if err := tx.ExecOne(ctx, `UPDATE payout_batches SET state = $3, txid = $4, fee = $5, sent_at = $6,
			version = version + 1
		WHERE company_id = $1 AND batch_id = $2 AND version = $7`,
		b.CompanyID, b.ID, string(to), txid, fee, sent, b.Version); err != nil {
		return err
	}
	db.History(tx, b.CompanyID, b.ID, b.Version+1, string(b.State), string(to), reason)
	b.State, b.TxID, b.Fee = to, txid, fee
	b.Version++
	return nil
}

// UnderWay returns the sum of amounts and maximum fees of an account's transactions whose nonce is at least from, by
// asset. Fees count under the native asset.
func (c *Carrier) UnderWay(ctx context.Context, tx *db.Tx, account string, from uint64) (map[money.Asset]int64, error) {
	rows, err := tx.Query(ctx, `SELECT asset, CAST(SUM(value) AS BIGINT), CAST(SUM(fee) AS BIGINT) FROM payout_batches
		WHERE chain = $1 AND account = $2 AND account <> '' AND nonce >= $3 GROUP BY asset`, c.Chain, account, int64(from))
	sums := map[money.Asset]int64{}
	_, err = db.Collect(rows, err, func(r *db.Rows) (struct{}, error) {
		var asset string
		var value, fee int64
		err := r.Scan(&asset, &value, &fee)
		sums[money.Asset(asset)] += value
		sums[c.Native] += fee
		return struct{}{}, err
	})
	return sums, err
}

// Blocked reports whether unconfirmed transactions of an account have a nonce above the given one.
func (c *Carrier) Blocked(ctx context.Context, tx *db.Tx, account string, nonce uint64) (blocked bool, err error) {
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM payout_batches WHERE chain = $1 AND account = $2
		AND account <> '' AND nonce > $3 AND state IN ('prepared', 'sent', 'in_doubt'))`, c.Chain, account,
		int64(nonce)).Scan(&blocked)
	return blocked, err
}

// Busy reports whether a transaction of an account, or a transaction that sends gas to it, is unconfirmed.
func (c *Carrier) Busy(ctx context.Context, tx *db.Tx, account string) (bool, error) {
	var n int64
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM payout_batches
		WHERE company_id = $1 AND chain = $2 AND state IN ('prepared', 'sent', 'in_doubt')
		AND (account = $3 OR purpose = 'gas' AND change = $3)`, ledger.Operator, c.Chain, account).Scan(&n)
	return n > 0, err
}

func insertTransaction(ctx context.Context, tx *db.Tx, t Transaction) error {
	return tx.Queue(ctx, `INSERT INTO payout_txs
		(company_id, txid, batch_id, replaces, state, raw, fee, vsize, package, ancestors, attempts, created_at, unsigned,
			refusal)
		VALUES ($1, $2, $3, $4, 'prepared', $5, $6, $7, $8, $9, 0, $10, $11, '')`,
		t.CompanyID, t.TxID, t.BatchID, t.Replaces, hex.EncodeToString(t.Raw), t.Fee, t.Size, t.Package, t.Ancestors,
		db.Micros(tx.Now()), t.Unsigned)
}

const transactionColumns = `company_id, txid, batch_id, replaces, state, raw, fee, vsize, package, ancestors, attempts,
	created_at, unsigned`

func scanTransaction(r *db.Rows) (t Transaction, err error) {
	var state, raw string
	var created int64
	if err = r.Scan(&t.CompanyID, &t.TxID, &t.BatchID, &t.Replaces, &state, &raw, &t.Fee, &t.Size, &t.Package,
		&t.Ancestors,
		&t.Attempts, &created, &t.Unsigned); err != nil {
		return t, err
	}
	t.State, t.CreatedAt = payout.State(state), db.Time(created)
	t.Raw, err = hex.DecodeString(raw)
	return t, err
}

// setTransactionState stores the result of a broadcast. It fails if the transaction has changed since it was read.
func setTransactionState(ctx context.Context, tx *db.Tx, t Transaction, to payout.State, attempts int64) error {
	return tx.ExecOne(ctx, `UPDATE payout_txs SET state = $3, attempts = $4
		WHERE company_id = $1 AND txid = $2 AND state = $5 AND attempts = $6`,
		t.CompanyID, t.TxID, string(to), attempts, string(t.State), t.Attempts)
}

// Ancestry returns the number and total size of the unconfirmed transactions on which an unconfirmed coin of the
// wallet depends. Package chain knows only the longest chain of transactions; the stored transaction also records its
// other ancestors.
func Ancestry(ctx context.Context, tx *db.Tx, companyID string, c chain.WalletCoin) (ancestors, size int64, err error) {
	var own int64
	err = tx.QueryRow(ctx, "SELECT vsize, package, ancestors FROM payout_txs WHERE company_id = $1 AND txid = $2",
		companyID, c.TxID).
		Scan(&own, &size, &ancestors)
	if c.Unconfirmed <= 1 {
		return 1, own, err
	}
	return max(ancestors, c.Unconfirmed), size, err
}

// wakeQueues enqueues a prepare job for every company with queued outputs of a rail.
func wakeQueues(ctx context.Context, tx *db.Tx, rail payout.RailName) error {
	companies, err := payout.CompaniesWaiting(ctx, tx, rail)
	for _, id := range companies {
		payout.EnqueuePrepare(tx, id, rail, time.Time{})
	}
	return err
}

// LockWallet locks a chain's wallet for the rest of the transaction, so that concurrent transactions do not choose
// the same coins. It returns the network's fee rate; fresh reports whether the rate is younger than FeeMaxAge.
func (c *Carrier) LockWallet(ctx context.Context, tx *db.Tx) (rate int64, fresh bool, err error) {
	var at int64
	err = tx.QueryRow(ctx, `INSERT INTO hot_wallets (chain, fee_rate, updated_at) VALUES ($1, 0, 0)
		ON CONFLICT (chain) DO UPDATE SET fee_rate = hot_wallets.fee_rate RETURNING fee_rate, updated_at`,
		c.Chain).Scan(&rate, &at)
	return rate, rate > 0 && tx.Now().Sub(db.Time(at)) <= c.FeeMaxAge, err
}

// freshFeeRate returns the same as LockWallet, without locking.
func (c *Carrier) freshFeeRate(ctx context.Context, tx *db.Tx) (rate int64, fresh bool, err error) {
	rate, at, err := feeRate(ctx, tx, c.Chain)
	return rate, rate > 0 && tx.Now().Sub(at) <= c.FeeMaxAge, err
}

// SetFeeRate stores the fee rate of a chain, at least 1.
func SetFeeRate(ctx context.Context, tx *db.Tx, chainName string, rate int64) error {
	_, err := tx.Exec(ctx, `INSERT INTO hot_wallets (chain, fee_rate, updated_at) VALUES ($1, $2, $3)
		ON CONFLICT (chain) DO UPDATE SET fee_rate = excluded.fee_rate, updated_at = excluded.updated_at`,
		chainName, max(rate, 1), db.Micros(tx.Now()))
	return err
}

// FeeRate returns the stored fee rate of a chain, or 0 if none is stored.
func FeeRate(ctx context.Context, tx *db.Tx, chainName string) (int64, error) {
	rate, _, err := feeRate(ctx, tx, chainName)
	return rate, err
}

func feeRate(ctx context.Context, tx *db.Tx, chainName string) (rate int64, at time.Time, err error) {
	var micros int64
	err = tx.QueryRow(ctx, "SELECT fee_rate, updated_at FROM hot_wallets WHERE chain = $1", chainName).Scan(&rate, &micros)
	if errors.Is(err, db.ErrNoRows) {
		return 0, time.Time{}, nil
	}
	return rate, db.Time(micros), err
}

// Mismatched returns transactions for which chain and ledger disagree: unbooked are confirmed but not posted, gone
// are posted but not in a block. Jobs resolve both, so they remain only if jobs fail.
func Mismatched(ctx context.Context, tx *db.Tx, chainName string) (unbooked, gone []Transaction, err error) {
	for _, q := range []struct {
		found *[]Transaction
		where string
	}{
		{&unbooked, `w.state = 'mined' AND w.confirmed = TRUE AND b.state NOT IN ('fulfilled', 'lost')`},
		{&gone, `w.state <> 'mined' AND b.state = 'fulfilled' AND b.txid = t.txid`},
	} {
		rows, err := tx.Query(ctx, `SELECT t.company_id, t.txid, t.batch_id FROM payout_txs t
			JOIN payout_batches b ON b.company_id = t.company_id AND b.batch_id = t.batch_id
			JOIN chain_txs w ON w.chain = b.chain AND w.txid = t.txid
			WHERE b.chain = $1 AND `+q.where+" ORDER BY t.company_id, t.txid", chainName)
		if *q.found, err = db.Collect(rows, err, func(r *db.Rows) (t Transaction, err error) {
			return t, r.Scan(&t.CompanyID, &t.TxID, &t.BatchID)
		}); err != nil {
			return nil, nil, err
		}
	}
	return unbooked, gone, nil
}
