package payout

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// Settings of this package.
const (
	settingPaused = "payouts_paused" // why, while paused
	settingFees   = "chain_fees_"    // + chain: "<sat/vB> <instant in microseconds>"
)

var (
	// Added outputs wait for the commit as they are, so that who pays them before it saves a second write of each.
	outputRows = db.NewGroup(40, func(ctx context.Context, tx *db.Tx, items []any) error {
		rows := make([][]any, len(items))
		waiting := map[string]bool{}
		for i, item := range items {
			o := item.(*Output)
			rows[i] = outputRow(o)
			switch key := o.CompanyID + " " + string(o.Rail); {
			case o.State != Queued || waiting[key]:
			case o.Rail == RailBank:
				waiting[key] = true
				fileFor(tx, o.CompanyID)
			case o.Rail == RailBitcoin:
				waiting[key] = true
				lookAt(tx, o.CompanyID, time.Time{})
			case o.Rail.accounts():
				waiting[key] = true
				lookAtAccount(tx, o.CompanyID, o.Rail, time.Time{})
			}
		}
		return tx.Insert(ctx, "outputs", strings.Split(strings.Join(strings.Fields(outputColumns), ""), ","), rows)
	})
)

func addOutput(tx *db.Tx, o *Output) {
	tx.Defer(outputRows, o)
}

// outputRow is an output by outputColumns.
func outputRow(o *Output) []any {
	return []any{o.CompanyID, o.ID, o.PayrollID, o.PaymentID, o.DistributionID, string(o.Rail),
		string(o.Amount.Asset()), o.Amount.Units(), string(o.Input.Asset()), o.Input.Units(), o.Address, string(o.Destination),
		string(o.State), o.Reason, o.Held, o.BatchID, o.TxID, int64(o.Vout), o.Version, db.Micros(o.QueuedAt), db.Micros(o.UpdatedAt),
		string(o.Rate.Base()), rateText(o.Rate)}
}

const outputColumns = `company_id, output_id, payroll_id, payment_id, distribution_id, rail, asset, amount,
	input_asset, input_amount, address, destination, state, reason, held, batch_id, txid, vout, version, queued_at, updated_at,
	rate_base, rate`

func rateText(r money.Rate) string {
	if r.IsZero() {
		return ""
	}
	return r.String()
}

func scanOutput(r *db.Rows) (Output, error) {
	var (
		o                       Output
		asset, input, dest      string
		amount, worth, vout     int64
		queued, updated         int64
		railName, state, reason string
		base, rate              string
	)
	err := r.Scan(&o.CompanyID, &o.ID, &o.PayrollID, &o.PaymentID, &o.DistributionID, &railName, &asset, &amount,
		&input, &worth, &o.Address, &dest, &state, &reason, &o.Held, &o.BatchID, &o.TxID, &vout, &o.Version, &queued, &updated, &base, &rate)
	o.Rail, o.State, o.Reason = Rail(railName), State(state), reason
	o.Amount, o.Input = money.New(money.Asset(asset), amount), money.New(money.Asset(input), worth)
	o.Destination, o.Vout = json.RawMessage(dest), uint32(vout)
	o.QueuedAt, o.UpdatedAt = db.Time(queued), db.Time(updated)
	if err != nil || rate == "" {
		return o, err
	}
	quoted := asset // a price is between what went in and what comes out
	if base == asset {
		quoted = input
	}
	o.Rate, err = money.ParseRate(money.Asset(base), money.Asset(quoted), rate)
	return o, err
}

func selectOutputs(ctx context.Context, tx *db.Tx, where string, args ...any) ([]Output, error) {
	rows, err := tx.Query(ctx, "SELECT "+outputColumns+" FROM outputs WHERE "+where, args...)
	return db.Collect(rows, err, scanOutput)
}

// ForPayroll is every output of a payroll, by payment.
func ForPayroll(ctx context.Context, tx *db.Tx, companyID, payrollID string) ([]Output, error) {
	return selectOutputs(ctx, tx, "company_id = $1 AND payroll_id = $2 ORDER BY payment_id, output_id", companyID, payrollID)
}

// ForPayments is every output of some payments of a payroll, by payment. No payments means none.
func ForPayments(ctx context.Context, tx *db.Tx, companyID, payrollID string, paymentIDs ...string) ([]Output, error) {
	var all []Output
	for in, ids := range tx.In(paymentIDs, 3) {
		some, err := selectOutputs(ctx, tx, "company_id = $1 AND payroll_id = $2 AND payment_id IN "+in+" ORDER BY payment_id, output_id",
			append([]any{companyID, payrollID}, ids...)...)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// Get reads one output; db.ErrNoRows when the company has none of this id.
func Get(ctx context.Context, tx *db.Tx, companyID, outputID string) (Output, error) {
	some, err := selectOutputs(ctx, tx, "company_id = $1 AND output_id = $2", companyID, outputID)
	if err != nil {
		return Output{}, err
	}
	if len(some) == 0 {
		return Output{}, db.ErrNoRows
	}
	return some[0], nil
}

// askQueued asks for the head of a company's queue, oldest first.
func askQueued(into *[]Output, companyID string, limit int) db.Question {
	return db.Collecting(into, scanOutput, "SELECT "+outputColumns+` FROM outputs WHERE company_id = $1 AND rail = 'bitcoin' AND state = 'queued' AND NOT held
		ORDER BY queued_at, output_id LIMIT $2`, companyID, int64(limit))
}

// lockHead keeps a wallet and a company's queue for the rest of the transaction, and reads the queue's head.
func lockHead(ctx context.Context, tx *db.Tx, chainName, companyID string, limit int) (q queueState, head []Output, err error) {
	if err := tx.Later(ctx, nil, holdWallet, settingFees+chainName); err != nil {
		return q, nil, err
	}
	err = tx.Ask(ctx, []db.Question{askLocked(&q, companyID, RailBitcoin), askQueued(&head, companyID, limit)})
	return q, head, err
}

// Assign moves queued outputs into a batch, or into a bank's file, each at its position, counted from first. It fails with
// ErrProcessing when any of them was changed since it was read, so that nothing pays what something else took.
//
// That an output is still queued, its version says. Were it asked for by its state, PostgreSQL would look outputs up by the index of
// the queue, which it takes for almost empty until it counts again, and compare each of the queue with each of these.
func Assign(ctx context.Context, tx *db.Tx, outs []Output, batchID, txid string, first int) error {
	rows := make([][]any, len(outs))
	for i, o := range outs {
		if o.State != Queued || o.Held {
			return ErrProcessing
		}
		rows[i] = []any{o.CompanyID, o.ID, o.Version, int64(first + i)}
		db.History(tx, o.CompanyID, o.ID, o.Version+1, string(Queued), string(Prepared), "")
	}
	moved := int64(0)
	for values, args := range tx.Values(rows, 4) {
		n, err := tx.Exec(ctx, assignStatement(values), append([]any{batchID, txid, db.Micros(tx.Now())}, args...)...)
		if err != nil {
			return err
		}
		moved += n
	}
	if moved != int64(len(outs)) {
		return ErrProcessing
	}
	return nil
}

// The company comes with each id, so that SQLite looks outputs up by their key rather than the whole queue through for each of them.
func assignStatement(values string) string {
	return `WITH v (company_id, output_id, version, vout) AS (` + values + `)
		UPDATE outputs SET state = 'prepared', reason = '', batch_id = $1, txid = $2, vout = v.vout, version = outputs.version + 1, updated_at = $3
		FROM v WHERE outputs.company_id = v.company_id AND outputs.output_id = v.output_id AND outputs.version = v.version`
}

// assignOne is Assign for the one output of an account's transaction.
func assignOne(ctx context.Context, tx *db.Tx, o Output, batchID, txid string) error {
	db.History(tx, o.CompanyID, o.ID, o.Version+1, string(Queued), string(Prepared), "")
	return tx.One(ctx, ErrProcessing, `UPDATE outputs SET state = 'prepared', reason = '', batch_id = $4, txid = $5, vout = 0, version = version + 1, updated_at = $6
		WHERE company_id = $1 AND output_id = $2 AND version = $3 AND state = 'queued' AND NOT held`, o.CompanyID, o.ID, o.Version, batchID, txid, db.Micros(tx.Now()))
}

// moveOne is the guarded change of one output: db.ErrConflict when somebody else has moved it since it was read.
func moveOne(ctx context.Context, tx *db.Tx, o Output, from, to State, reason string) error {
	db.History(tx, o.CompanyID, o.ID, o.Version+1, string(from), string(to), reason)
	return tx.One(ctx, db.ErrConflict, `UPDATE outputs SET state = $4, reason = $5, version = version + 1, updated_at = $6
		WHERE company_id = $1 AND output_id = $2 AND state = $3 AND version = $7`,
		o.CompanyID, o.ID, string(from), string(to), reason, db.Micros(tx.Now()), o.Version)
}

// moveOutputs brings the outputs of a batch that are not returned into a state, with one statement, and
// returns them as they were. The caller holds the batch by its version, so nobody else moves them.
func moveOutputs(ctx context.Context, tx *db.Tx, b Batch, to State, txid, reason string) ([]Output, error) {
	batchID := b.ID
	if to == Queued {
		batchID, txid = "", ""
	}
	if err := tx.Later(ctx, nil, `UPDATE outputs SET state = $3, reason = $4, batch_id = $5, txid = $6,
		version = version + 1, updated_at = $7
		WHERE company_id = $1 AND batch_id = $2 AND batch_id <> '' AND state IN ('prepared', 'sent', 'in_doubt', 'fulfilled')`,
		b.CompanyID, b.ID, string(to), reason, batchID, txid, db.Micros(tx.Now())); err != nil {
		return nil, err
	}
	var moved []Output
	for i, o := range b.outs {
		switch o.State {
		case Prepared, Sent, InDoubt, Fulfilled:
			db.History(tx, o.CompanyID, o.ID, o.Version+1, string(o.State), string(to), reason)
			moved = append(moved, o)
			b.outs[i].State, b.outs[i].Version = to, o.Version+1
		default: // it was in the batch once, and is elsewhere now
		}
	}
	return moved, nil
}

// setHeld takes the queued outputs of a payroll out of the queue's sight, or back. The others carry the mark as well, lest
// they leave when they are queued again: corrected after a failure, or after a proven conflict. Only the queued ones count.
func setHeld(ctx context.Context, tx *db.Tx, companyID, payrollID string, held bool) (int64, error) {
	if err := tx.Flush(ctx); err != nil { // some may have been added by who shares this commit
		return 0, err
	}
	if _, err := tx.Exec(ctx, `UPDATE outputs SET held = $3, version = version + 1, updated_at = $4
		WHERE company_id = $1 AND payroll_id = $2 AND state <> 'queued' AND held <> $3`,
		companyID, payrollID, held, db.Micros(tx.Now())); err != nil {
		return 0, err
	}
	return tx.Exec(ctx, `UPDATE outputs SET held = $3, version = version + 1, updated_at = $4
		WHERE company_id = $1 AND payroll_id = $2 AND state = 'queued' AND held <> $3`,
		companyID, payrollID, held, db.Micros(tx.Now()))
}

// requeue puts an output back with the destination that it has now, if it is at the version that was read.
func requeue(ctx context.Context, tx *db.Tx, o Output) error {
	n, err := tx.Exec(ctx, `UPDATE outputs SET state = 'queued', reason = '', distribution_id = $4, rail = $5, asset = $6, amount = $7,
		rate_base = $8, rate = $9, address = $10, destination = $11, batch_id = '', txid = '',
		vout = 0, version = version + 1, queued_at = $12, updated_at = $12
		WHERE company_id = $1 AND output_id = $2 AND version = $3 AND state IN ('queued', 'failed', 'returned')`,
		o.CompanyID, o.ID, o.Version, o.DistributionID, string(o.Rail), string(o.Amount.Asset()), o.Amount.Units(),
		string(o.Rate.Base()), rateText(o.Rate), o.Address, string(o.Destination), db.Micros(tx.Now()))
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrProcessing
	}
	db.History(tx, o.CompanyID, o.ID, o.Version+1, string(o.State), string(Queued), "destination corrected")
	return nil
}

// paidBy are the places in a transaction at which it pays outputs of ours.
func paidBy(ctx context.Context, tx *db.Tx, txid string) (map[uint32]bool, error) {
	rows, err := tx.Query(ctx, "SELECT vout FROM outputs WHERE txid = $1", txid)
	all, err := db.Collect(rows, err, func(r *db.Rows) (vout int64, err error) { return vout, r.Scan(&vout) })
	places := make(map[uint32]bool, len(all))
	for _, vout := range all {
		places[uint32(vout)] = true
	}
	return places, err
}

// markFound takes a queued output to its end.
func markFound(ctx context.Context, tx *db.Tx, o Output) error {
	n, err := tx.Exec(ctx, `UPDATE outputs SET state = 'fulfilled', reason = '', txid = $3, vout = $4, version = version + 1, updated_at = $5
		WHERE company_id = $1 AND output_id = $2 AND version = $6 AND state = 'queued'`,
		o.CompanyID, o.ID, o.TxID, int64(o.Vout), db.Micros(tx.Now()), o.Version)
	if err != nil {
		return err
	}
	if n != 1 {
		return db.ErrConflict
	}
	db.History(tx, o.CompanyID, o.ID, o.Version+1, string(Queued), string(Fulfilled), ReasonFound)
	return nil
}

// Waiting lists queued outputs of all companies, oldest first.
func Waiting(ctx context.Context, tx *db.Tx, limit int) ([]Output, error) {
	return selectOutputs(ctx, tx, "state = 'queued' ORDER BY queued_at, company_id, output_id LIMIT $1", int64(limit))
}

// queueState is one company's queue for one rail, and what it waits for.
type queueState struct {
	companyID string
	rail      Rail
	held      string
	since     time.Time
	wakeAt    int64
	version   int64
}

// lockQueue reads a queue's row and keeps it for the rest of the transaction, where the engine lets several
// write at once: the update of nothing waits for whoever works on this queue.
func lockQueue(ctx context.Context, tx *db.Tx, companyID string, rail Rail) (q queueState, err error) {
	err = tx.Ask(ctx, []db.Question{askLocked(&q, companyID, rail)})
	return q, err
}

func askLocked(q *queueState, companyID string, rail Rail) db.Question {
	return db.Question{Query: `INSERT INTO payout_queues (company_id, rail, held, held_since, wake_at, version) VALUES ($1, $2, '', 0, 0, 0)
		ON CONFLICT (company_id, rail) DO UPDATE SET version = payout_queues.version
		RETURNING held, held_since, wake_at, version`, Args: []any{companyID, string(rail)}, Row: func(r *db.Rows) error {
		*q = queueState{companyID: companyID, rail: rail}
		var since int64
		err := r.Scan(&q.held, &since, &q.wakeAt, &q.version)
		if since > 0 {
			q.since = db.Time(since)
		}
		return err
	}}
}

// setQueue is the guarded change of a queue's row: db.ErrConflict when somebody else was faster.
func setQueue(ctx context.Context, tx *db.Tx, was queueState, held string, since, wakeAt int64) error {
	return tx.One(ctx, db.ErrConflict, `UPDATE payout_queues SET held = $3, held_since = $4, wake_at = $5, version = version + 1
		WHERE company_id = $1 AND rail = $2 AND version = $6`, was.companyID, string(was.rail), held, since, wakeAt, was.version)
}

// delayed are the payouts of one asset that wait.
type delayed struct {
	n   int64
	sum money.Amount
}

// countQueue says how many outputs of each asset wait, and what they are worth: those of the queue, and those of a batch that is stuck.
func countQueue(ctx context.Context, tx *db.Tx, q queueState, stuck string) ([]delayed, error) {
	rows, err := tx.Query(ctx, `SELECT asset, COUNT(*), CAST(SUM(amount) AS BIGINT) FROM outputs
		WHERE company_id = $1 AND rail = $2 AND (state = 'queued' AND NOT held OR batch_id <> '' AND batch_id = $3) GROUP BY asset ORDER BY asset`,
		q.companyID, string(q.rail), stuck)
	return db.Collect(rows, err, func(r *db.Rows) (d delayed, err error) {
		var asset string
		var sum int64
		err = r.Scan(&asset, &d.n, &sum)
		d.sum = money.New(money.Asset(asset), sum)
		return d, err
	})
}

// anyOpen says whether an output of a queue is not at its end.
func anyOpen(ctx context.Context, tx *db.Tx, q queueState) (open bool, err error) {
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM outputs WHERE company_id = $1 AND rail = $2
		AND state IN ('queued', 'prepared', 'sent', 'in_doubt'))`, q.companyID, string(q.rail)).Scan(&open)
	return open, err
}

func insertBatch(ctx context.Context, tx *db.Tx, b Batch) error {
	inputs, err := json.Marshal(b.inputs)
	if err != nil {
		return err
	}
	db.History(tx, b.CompanyID, b.ID, 1, "", string(Prepared), "")
	return tx.Later(ctx, nil, `INSERT INTO payout_batches
		(company_id, batch_id, chain, state, txid, value, fee, inputs, change, version, created_at, sent_at, asset, purpose, account, nonce)
		VALUES ($1, $2, $3, 'prepared', $4, $5, $6, $7, $8, 1, $9, 0, $10, $11, $12, $13)`,
		b.CompanyID, b.ID, b.Chain, b.TxID, b.Value, b.Fee, string(inputs), b.change, db.Micros(tx.Now()),
		string(cmp.Or(b.Asset, money.BTC)), cmp.Or(b.Purpose, purposePayout), b.account, int64(b.nonce))
}

const batchColumns = "company_id, batch_id, chain, state, txid, value, fee, inputs, change, version, created_at, sent_at, asset, purpose, account, nonce"

// batchesOf are the names of the batches of some transactions.
func batchesOf(ctx context.Context, tx *db.Tx, companyID string, txids []string) (ids []string, err error) {
	var some []db.Question
	one := func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) }
	for in, args := range tx.In(txids, 2) {
		some = append(some, db.Collecting(&ids, one, "SELECT batch_id FROM payout_txs WHERE company_id = $1 AND txid IN "+in, append([]any{companyID}, args...)...))
	}
	return ids, tx.Ask(ctx, some)
}

// lockBatch is lockBatches of one; db.ErrNoRows when the chain has it not.
func lockBatch(ctx context.Context, tx *db.Tx, chainName, companyID, batchID string) (Batch, error) {
	all, err := lockBatches(ctx, tx, chainName, companyID, []string{batchID})
	if err != nil || len(all) == 0 {
		return Batch{}, cmp.Or(err, db.ErrNoRows)
	}
	return all[0], nil
}

// lockBatches reads batches of a chain to decide about them, in the order of their ids, and keeps them for the rest of the transaction as
// lockQueue does: news about two transactions of one batch often comes at once.
func lockBatches(ctx context.Context, tx *db.Tx, chainName, companyID string, ids []string) ([]Batch, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids))) // two who want the same ones wait for each other at the first
	for _, id := range ids {
		if err := tx.Later(ctx, nil, "UPDATE payout_batches SET version = version WHERE company_id = $1 AND batch_id = $2 AND chain = $3", companyID, id, chainName); err != nil {
			return nil, err
		}
	}
	return readBatches(ctx, tx, chainName, companyID, ids)
}

// readBatches reads batches with all that a decision about them needs: what was signed for each, the cheapest first, what the chain shows
// of that, and the outputs by their place.
func readBatches(ctx context.Context, tx *db.Tx, chainName, companyID string, ids []string) ([]Batch, error) {
	var all []Batch
	var signed []Transaction
	var outs []Output
	var some []db.Question
	for in, args := range tx.In(ids, 2) {
		args = append([]any{companyID}, args...)
		some = append(some,
			db.Collecting(&all, scanBatch, "SELECT "+batchColumns+" FROM payout_batches WHERE company_id = $1 AND batch_id IN "+in, args...),
			db.Collecting(&signed, scanTransaction, "SELECT "+transactionColumns+" FROM payout_txs WHERE company_id = $1 AND batch_id IN "+in+" ORDER BY fee", args...),
			db.Collecting(&outs, scanOutput, "SELECT "+outputColumns+" FROM outputs WHERE company_id = $1 AND batch_id <> '' AND batch_id IN "+in+" ORDER BY vout", args...))
	}
	if err := tx.Ask(ctx, some); err != nil {
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
			of[t.BatchID].signed = append(of[t.BatchID].signed, t)
		}
	}
	for _, o := range outs {
		if of[o.BatchID] != nil {
			of[o.BatchID].outs = append(of[o.BatchID].outs, o)
		}
	}
	seen, err := chain.GetTxs(ctx, tx, chainName, txids)
	for i := range all {
		all[i].seen = seen
	}
	return all, err
}

func scanBatch(row *db.Rows) (Batch, error) {
	var (
		b             Batch
		state, inputs string
		asset         string
		created, sent int64
		nonce         int64
	)
	err := row.Scan(&b.CompanyID, &b.ID, &b.Chain, &state, &b.TxID, &b.Value, &b.Fee, &inputs, &b.change, &b.Version, &created, &sent,
		&asset, &b.Purpose, &b.account, &nonce)
	if err != nil {
		return Batch{}, err
	}
	b.Asset, b.nonce = money.Asset(asset), uint64(nonce)
	b.State, b.CreatedAt = State(state), db.Time(created)
	if sent > 0 {
		b.SentAt = db.Time(sent)
	}
	return b, json.Unmarshal([]byte(inputs), &b.inputs)
}

// moveBatch is the guarded change of a batch: db.ErrConflict when it is not at the version any more that the caller decided by. Then it is the
// caller's for the rest of the transaction.
func moveBatch(ctx context.Context, tx *db.Tx, b *Batch, to State, txid string, fee int64, reason string) error {
	sent := int64(0)
	if !b.SentAt.IsZero() {
		sent = db.Micros(b.SentAt)
	} else if to == Sent || to == Fulfilled {
		b.SentAt = tx.Now()
		sent = db.Micros(b.SentAt)
	}
	if err := tx.One(ctx, db.ErrConflict, `UPDATE payout_batches SET state = $3, txid = $4, fee = $5, sent_at = $6, version = version + 1
		WHERE company_id = $1 AND batch_id = $2 AND version = $7`, b.CompanyID, b.ID, string(to), txid, fee, sent, b.Version); err != nil {
		return err
	}
	db.History(tx, b.CompanyID, b.ID, b.Version+1, string(b.State), string(to), reason)
	b.State, b.TxID, b.Fee = to, txid, fee
	b.Version++
	return nil
}

// accountQueue is the head of a company's queue for a network of accounts: so many at most of each asset, the oldest first, behind them
// those that were set aside, the largest first, since a fee becomes fair for them first. What is of no asset of the network comes last.
func accountQueue(ctx context.Context, tx *db.Tx, companyID string, rail Rail, assets []money.Asset, limit int) ([]Output, error) {
	const waits = `company_id = $1 AND rail = $2 AND rail <> 'bank' AND rail <> 'bitcoin' AND state = 'queued' AND NOT held`
	const aside = ` reason IN ('` + heldFee + `', '` + heldUnclear + `')`
	var all []Output
	args := []any{companyID, string(rail)}
	others := ""
	for i, asset := range assets {
		args = append(args, string(asset))
		others += fmt.Sprintf(" AND asset <> $%d", i+3)
		end := len(all) + limit
		for _, order := range []string{" AND NOT" + aside + " ORDER BY queued_at, output_id", " AND" + aside + " ORDER BY amount DESC, output_id"} {
			some, err := selectOutputs(ctx, tx, waits+" AND asset = $3"+order+" LIMIT $4", companyID, string(rail), string(asset), int64(end-len(all)))
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
	}
	slices.SortStableFunc(all, func(a, b Output) int {
		return cmp.Or(a.QueuedAt.Compare(b.QueuedAt), strings.Compare(a.ID, b.ID))
	})
	some, err := selectOutputs(ctx, tx, waits+others+fmt.Sprintf(" ORDER BY queued_at, output_id LIMIT %d", limit), args...)
	return append(all, some...), err
}

// setAside notes why queued outputs wait, each by itself, while others of their queue go on.
func setAside(ctx context.Context, tx *db.Tx, outs []Output, reason string) error {
	var ids []string
	for _, o := range outs {
		if o.Reason != reason {
			ids = append(ids, o.ID)
		}
	}
	for in, args := range tx.In(ids, 4) {
		if _, err := tx.Exec(ctx, `UPDATE outputs SET reason = $2, version = version + 1, updated_at = $3
			WHERE company_id = $1 AND state = 'queued' AND output_id IN `+in, append([]any{outs[0].CompanyID, reason, db.Micros(tx.Now())}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// wakeAccounts has the queues looked at that may have waited for what has come.
func wakeAccounts(ctx context.Context, tx *db.Tx, rail Rail) error {
	rows, err := tx.Query(ctx, "SELECT DISTINCT company_id FROM outputs WHERE rail = $1 AND state = 'queued' AND NOT held LIMIT 1000", string(rail))
	companies, err := db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
	for _, id := range companies {
		lookAtAccount(tx, id, rail, time.Time{})
	}
	return err
}

// lockNonce reads the next nonce of an account and keeps the row for the rest of the transaction; known says that one was used.
func lockNonce(ctx context.Context, tx *db.Tx, chainName, account string) (next uint64, known bool, err error) {
	var n int64
	err = tx.QueryRow(ctx, `INSERT INTO payout_nonces (chain, account, next) VALUES ($1, $2, -1)
		ON CONFLICT (chain, account) DO UPDATE SET next = payout_nonces.next RETURNING next`, chainName, account).Scan(&n)
	return uint64(max(n, 0)), n >= 0, err
}

func setNonce(ctx context.Context, tx *db.Tx, chainName, account string, next uint64) error {
	return tx.Later(ctx, nil, `UPDATE payout_nonces SET next = $3 WHERE chain = $1 AND account = $2`, chainName, account, int64(next))
}

// underWay is what transactions of an account move and may cost whose nonces no block had taken: of each asset, and of the network's
// own coin for gas.
func underWay(ctx context.Context, tx *db.Tx, chainName, account string, from uint64, native money.Asset) (map[money.Asset]int64, error) {
	rows, err := tx.Query(ctx, `SELECT asset, CAST(SUM(value) AS BIGINT), CAST(SUM(fee) AS BIGINT) FROM payout_batches
		WHERE chain = $1 AND account = $2 AND account <> '' AND nonce >= $3 GROUP BY asset`, chainName, account, int64(from))
	sums := map[money.Asset]int64{}
	_, err = db.Collect(rows, err, func(r *db.Rows) (struct{}, error) {
		var asset string
		var value, fee int64
		err := r.Scan(&asset, &value, &fee)
		sums[money.Asset(asset)] += value
		sums[native] += fee
		return struct{}{}, err
	})
	return sums, err
}

// busy says whether a transaction of an account, or one that brings it gas, is under way.
func busy(ctx context.Context, tx *db.Tx, chainName, account string) (bool, error) {
	var n int64
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM payout_batches WHERE company_id = $1 AND chain = $2 AND state IN ('prepared', 'sent', 'in_doubt')
		AND (account = $3 OR purpose = 'gas' AND change = $3)`, ledger.House, chainName, account).Scan(&n)
	return n > 0, err
}

func insertTransaction(ctx context.Context, tx *db.Tx, t Transaction) error {
	return tx.Later(ctx, nil, `INSERT INTO payout_txs
		(company_id, txid, batch_id, replaces, state, raw, fee, vsize, package, ancestors, attempts, created_at)
		VALUES ($1, $2, $3, $4, 'prepared', $5, $6, $7, $8, $9, 0, $10)`,
		t.CompanyID, t.TxID, t.BatchID, t.Replaces, hex.EncodeToString(t.Raw), t.Fee, t.VSize, t.pack, t.ancestors, db.Micros(tx.Now()))
}

const transactionColumns = "company_id, txid, batch_id, replaces, state, raw, fee, vsize, package, ancestors, attempts, created_at"

func scanTransaction(r *db.Rows) (t Transaction, err error) {
	var state, raw string
	var created int64
	if err = r.Scan(&t.CompanyID, &t.TxID, &t.BatchID, &t.Replaces, &state, &raw, &t.Fee, &t.VSize, &t.pack, &t.ancestors, &t.Attempts, &created); err != nil {
		return t, err
	}
	t.State, t.CreatedAt = State(state), db.Time(created)
	t.Raw, err = hex.DecodeString(raw)
	return t, err
}

// markTransaction notes what a broadcast achieved. Attempts count the ones in a row without acceptance.
func markTransaction(ctx context.Context, tx *db.Tx, t Transaction, to State, attempts int64) error {
	return tx.One(ctx, db.ErrConflict, `UPDATE payout_txs SET state = $3, attempts = $4
		WHERE company_id = $1 AND txid = $2 AND state = $5 AND attempts = $6`,
		t.CompanyID, t.TxID, string(to), attempts, string(t.State), t.Attempts)
}

// weight is what an unconfirmed coin of ours stands on: how many unmined transactions of which size. The chain
// knows how long the line is, the signing knew what joined it from the side.
func weight(ctx context.Context, tx *db.Tx, companyID string, c chain.WalletCoin) (ancestors, pack int64, err error) {
	var vsize int64
	err = tx.QueryRow(ctx, "SELECT vsize, package, ancestors FROM payout_txs WHERE company_id = $1 AND txid = $2", companyID, c.TxID).
		Scan(&vsize, &pack, &ancestors)
	if c.Unconfirmed <= 1 {
		return 1, vsize, err
	}
	return max(ancestors, c.Unconfirmed), pack, err
}

// Paused says why all payouts are stopped, "" when they are not.
func Paused(ctx context.Context, tx *db.Tx) (why string, err error) {
	return db.Setting(ctx, tx, settingPaused)
}

// SetPaused stops all payouts, of every company and process, and says why; without a reason it lets them go on, and has every
// queue that waited for that looked at. What is already broadcast cannot be called back.
func SetPaused(ctx context.Context, tx *db.Tx, why string) error {
	if err := db.SetSetting(ctx, tx, settingPaused, why); err != nil || why != "" {
		return err
	}
	rows, err := tx.Query(ctx, "SELECT company_id, rail FROM payout_queues WHERE held = $1 ORDER BY company_id, rail", heldPaused)
	waiting, err := db.Collect(rows, err, func(r *db.Rows) (q queueState, err error) {
		var rail string
		err = r.Scan(&q.companyID, &rail)
		q.rail = Rail(rail)
		return q, err
	})
	for _, q := range waiting {
		q.look(tx, time.Time{})
	}
	return err
}

// Counts is how many outputs are in each state, and in all: a picture for the operator, not a figure to decide on.
func Counts(ctx context.Context, tx *db.Tx) (map[State]int64, error) {
	counts := map[State]int64{}
	rows, err := tx.Query(ctx, "SELECT state, COUNT(*) FROM outputs GROUP BY state")
	_, err = db.Collect(rows, err, func(r *db.Rows) (struct{}, error) {
		var state string
		var n int64
		err := r.Scan(&state, &n)
		counts[State(state)] = n
		return struct{}{}, err
	})
	return counts, err
}

// holdWallet makes those who choose coins of a wallet take turns: they would all choose the same ones.
const holdWallet = "UPDATE settings SET value = value WHERE key = $1"

func setFeeRate(ctx context.Context, tx *db.Tx, chainName string, rate int64) error {
	return db.SetSetting(ctx, tx, settingFees+chainName, fmt.Sprintf("%d %d", rate, db.Micros(tx.Now())))
}

// FeeRate is the fee rate, in sat/vB, that a transaction would be made with now; 0 while none is known.
func FeeRate(ctx context.Context, tx *db.Tx, chainName string) (int64, error) {
	rate, _, err := feeRate(ctx, tx, chainName, 0)
	return rate, err
}

// feeRate is the last fee rate that a node told; false when there is none that is fresh enough.
func feeRate(ctx context.Context, tx *db.Tx, chainName string, limit time.Duration) (int64, bool, error) {
	v, err := db.Setting(ctx, tx, settingFees+chainName)
	if err != nil || v == "" {
		return 0, false, err
	}
	var rate, at int64
	if _, err := fmt.Sscanf(v, "%d %d", &rate, &at); err != nil {
		return 0, false, errors.Join(errors.New("setting "+settingFees+chainName), err)
	}
	return rate, tx.Now().Sub(db.Time(at)) <= limit, nil
}

// InStates lists outputs of all companies that are in one of some states, the longest first: for operators.
func InStates(ctx context.Context, tx *db.Tx, limit int, states ...State) ([]Output, error) {
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = string(s)
	}
	var all []Output
	for in, args := range tx.In(names, 1) {
		some, err := selectOutputs(ctx, tx, "state IN "+in+fmt.Sprintf(" ORDER BY updated_at, company_id, output_id LIMIT %d", limit), args...)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// HeldQueue is a company's payouts that wait for something that ends by itself, or by somebody.
type HeldQueue struct {
	CompanyID, Reason string
	Since             time.Time
}

// HeldQueues lists them, the longest first: for operators.
func HeldQueues(ctx context.Context, tx *db.Tx, limit int) ([]HeldQueue, error) {
	rows, err := tx.Query(ctx, "SELECT company_id, held, held_since FROM payout_queues WHERE held <> '' ORDER BY held_since, company_id LIMIT $1", int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (q HeldQueue, err error) {
		var since int64
		err = r.Scan(&q.CompanyID, &q.Reason, &since)
		q.Since = db.Time(since)
		return q, err
	})
}

// Mismatched are batches of a chain of which the chain and the books tell differently: a transaction that is confirmed and not booked,
// or booked and in no block. Both end by themselves where a job is only late.
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
