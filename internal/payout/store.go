package payout

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// settingPaused is the setting with the reason of a pause.
const settingPaused = "payouts_paused"

const outputColumns = `company_id, output_id, payroll_id, payment_id, destination_id, rail, asset, amount,
	input_asset, input_amount, address, destination, state, reason, on_hold, batch_id, txid, vout, version,
	queued_at, updated_at, rate_base, rate`

var outputRows = db.BulkInsert("outputs", strings.Split(strings.Join(strings.Fields(outputColumns), ""), ",")...)

func addOutputs(tx *db.Tx, outs []Output) {
	for _, o := range outs {
		outputRows.Add(tx, []any{
			o.CompanyID, o.ID, o.PayrollID, o.PaymentID, o.DistributionID, string(o.Rail),
			string(o.Amount.Asset()), o.Amount.Units(), string(o.Input.Asset()), o.Input.Units(), o.Address,
			string(o.Destination),
			string(o.State), o.Reason, o.OnHold, o.BatchID, o.TxID, int64(o.Vout), o.Version, db.Micros(o.QueuedAt),
			db.Micros(o.UpdatedAt),
			string(o.Rate.Base()), rateText(o.Rate),
		})
	}
}

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
		&input, &worth, &o.Address, &dest, &state, &reason, &o.OnHold, &o.BatchID, &o.TxID, &vout, &o.Version, &queued,
		&updated,
		&base, &rate, &o.Proof)
	o.Rail, o.State, o.Reason = RailName(railName), State(state), reason
	o.Amount, o.Input = money.New(money.Asset(asset), amount), money.New(money.Asset(input), worth)
	o.Destination, o.Vout = json.RawMessage(dest), uint32(vout)
	o.QueuedAt, o.UpdatedAt = db.Time(queued), db.Time(updated)
	if err != nil || rate == "" {
		return o, err
	}
	quoted := asset // a rate has the assets of Input and Amount
	if base == asset {
		quoted = input
	}
	o.Rate, err = money.ParseRate(money.Asset(base), money.Asset(quoted), rate)
	return o, err
}

func selectOutputs(ctx context.Context, tx *db.Tx, where string, args ...any) ([]Output, error) {
	rows, err := tx.Query(ctx, "SELECT "+outputColumns+", proof FROM outputs WHERE "+where, args...)
	return db.Collect(rows, err, scanOutput)
}

// Matching returns the newest outputs of a company whose transaction ID or address contains a text, ignoring case. It
// reads all outputs of the company. The text must not contain characters that are special in LIKE.
func Matching(ctx context.Context, tx *db.Tx, companyID, text string, limit int) ([]Output, error) {
	return selectOutputs(ctx, tx, `company_id = $1 AND (LOWER(txid) LIKE $2 OR LOWER(address) LIKE $2)
		ORDER BY output_id DESC LIMIT $3`, companyID, "%"+strings.ToLower(text)+"%", int64(limit))
}

// ForPayroll returns the outputs of a payroll, ordered by payment.
func ForPayroll(ctx context.Context, tx *db.Tx, companyID, payrollID string) ([]Output, error) {
	return selectOutputs(ctx, tx, "company_id = $1 AND payroll_id = $2 ORDER BY payment_id, output_id", companyID,
		payrollID)
}

// ForPayments returns the outputs of some payments of a payroll, ordered by payment. Without payment IDs it returns
// no outputs.
func ForPayments(ctx context.Context, tx *db.Tx, companyID, payrollID string, paymentIDs ...string) ([]Output, error) {
	var all []Output
	for in, ids := range db.BindList(tx, paymentIDs, 3) {
		some, err := selectOutputs(ctx, tx,
			"company_id = $1 AND payroll_id = $2 AND payment_id IN "+in+" ORDER BY payment_id, output_id",
			append([]any{companyID, payrollID}, ids...)...)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// PaymentKey identifies a payment of a payroll, or an income, which counts as a payroll with one payment.
type PaymentKey struct{ PayrollID, PaymentID string }

// ByPayment returns the outputs of some payments of a company, which may belong to several payrolls. The outputs of
// each payment have the order of [ForPayments]. It executes one statement on PostgreSQL, and a few on SQLite
// ([db.BindRows]).
func ByPayment(ctx context.Context, tx *db.Tx, companyID string, of []PaymentKey) (map[PaymentKey][]Output, error) {
	keys := make([][]any, len(of))
	for i, k := range of {
		keys[i] = []any{k.PayrollID, k.PaymentID}
	}
	all := map[PaymentKey][]Output{}
	for values, args := range db.BindRows(tx, keys, 2) {
		some, err := selectOutputs(ctx, tx, "company_id = $1 AND (payroll_id, payment_id) IN ("+values+
			") ORDER BY output_id", append([]any{companyID}, args...)...)
		if err != nil {
			return nil, err
		}
		for _, o := range some {
			k := PaymentKey{o.PayrollID, o.PaymentID}
			all[k] = append(all[k], o)
		}
	}
	return all, nil
}

// InBatches returns the outputs of some batches, ordered by position.
func InBatches(ctx context.Context, tx *db.Tx, companyID string, batchIDs ...string) ([]Output, error) {
	var all []Output
	for in, ids := range db.BindList(tx, batchIDs, 2) {
		some, err := selectOutputs(ctx, tx, "company_id = $1 AND batch_id <> '' AND batch_id IN "+in+" ORDER BY vout",
			append([]any{companyID}, ids...)...)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// Get returns an output, or db.ErrNoRows.
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

// GetQueued returns a queued output of any company, or db.ErrNoRows if the rail's queue does not contain it.
func GetQueued(ctx context.Context, tx *db.Tx, rail RailName, outputID string) (Output, error) {
	some, err := selectOutputs(ctx, tx, "output_id = $1 AND rail = $2 AND state = 'queued'", outputID, string(rail))
	if err == nil && len(some) != 1 {
		err = db.ErrNoRows
	}
	if err != nil {
		return Output{}, err
	}
	return some[0], nil
}

// Head returns the oldest outputs of a company's queue, up to limit. Outputs that the signer refused come last, so
// that they do not crowd out the others.
func Head(ctx context.Context, tx *db.Tx, companyID string, rail RailName, limit int) ([]Output, error) {
	const waits = `company_id = $1 AND rail = $2 AND state = 'queued' AND NOT on_hold AND reason `
	var all []Output
	for _, which := range []string{"<>", "="} {
		some, err := selectOutputs(ctx, tx, waits+which+` $3 ORDER BY queued_at, output_id LIMIT $4`,
			companyID, string(rail), WaitSigner, int64(limit-len(all)))
		if err != nil {
			return nil, err
		}
		if all = append(all, some...); len(all) == limit {
			break
		}
	}
	return all, nil
}

// HeadByAsset returns the head of a company's queue for a rail with several assets, where a shortage of one asset
// must not block the others: up to limit outputs of each asset, oldest first. Within an asset, outputs that wait for
// a reason of their own come last, the largest first, because a fee becomes acceptable for the largest output first.
// Outputs of assets that are not listed follow at the end.
func HeadByAsset(ctx context.Context, tx *db.Tx, companyID string, rail RailName, assets []money.Asset,
	limit int,
) ([]Output, error) {
	const (
		waits  = `company_id = $1 AND rail = $2 AND state = 'queued' AND NOT on_hold`
		marked = ` reason IN ('` + WaitFee + `', '` + WaitNotEstimated + `', '` + WaitAddress + `', '` +
			WaitSigner + `')`
	)
	var all []Output
	args := []any{companyID, string(rail)}
	others := ""
	for i, asset := range assets {
		args = append(args, string(asset))
		others += fmt.Sprintf(" AND asset <> $%d", i+3)
		end := len(all) + limit
		for _, order := range []string{" AND NOT" + marked + " ORDER BY queued_at, output_id",
			" AND" + marked + " ORDER BY amount DESC, output_id"} {
			some, err := selectOutputs(ctx, tx, waits+" AND asset = $3"+order+" LIMIT $4",
				companyID, string(rail), string(asset), int64(end-len(all)))
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
	}
	slices.SortStableFunc(all, byAge)
	some, err := selectOutputs(ctx, tx, waits+others+fmt.Sprintf(" ORDER BY queued_at, output_id LIMIT %d", limit),
		args...)
	return append(all, some...), err
}

// SetReason stores the reason why individual queued outputs wait.
func SetReason(ctx context.Context, tx *db.Tx, outs []Output, reason string) error {
	var ids []string
	for _, o := range outs {
		if o.Reason != reason {
			ids = append(ids, o.ID)
		}
	}
	for in, args := range db.BindList(tx, ids, 4) {
		if _, err := tx.Exec(ctx, `UPDATE outputs SET reason = $2, version = version + 1, updated_at = $3
			WHERE company_id = $1 AND state = 'queued' AND output_id IN `+in,
			append([]any{outs[0].CompanyID, reason, db.Micros(tx.Now())}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// Assign changes queued outputs to prepared and stores their batch and position, counted from first. It returns
// ErrProcessing if an output was changed since it was read, so that no output is in two batches.
//
// The statement checks only the version. With a condition on the state, PostgreSQL would use the index of the queue,
// which it considers almost empty until its statistics are updated, and compare every queued output with every row.
func Assign(ctx context.Context, tx *db.Tx, outs []Output, batchID, txid string, first int) error {
	rows := make([][]any, len(outs))
	for i, o := range outs {
		if o.State != Queued || o.OnHold {
			return ErrProcessing
		}
		rows[i] = []any{o.CompanyID, o.ID, o.Version, int64(first + i)}
		db.History(tx, o.CompanyID, o.ID, o.Version+1, string(Queued), string(Prepared), "")
	}
	changed := int64(0)
	for values, args := range db.BindRows(tx, rows, 4) {
		n, err := tx.Exec(ctx, assignStatement(values), append([]any{batchID, txid, db.Micros(tx.Now())}, args...)...)
		if err != nil {
			return err
		}
		changed += n
	}
	if changed != int64(len(outs)) {
		return ErrProcessing
	}
	return nil
}

// assignStatement joins on company and ID, so that SQLite uses the primary key.
func assignStatement(values string) string {
	return `WITH v (company_id, output_id, version, vout) AS (` + values + `)
		UPDATE outputs SET state = 'prepared', reason = '', batch_id = $1, txid = $2, vout = v.vout,
			version = outputs.version + 1, updated_at = $3
		FROM v WHERE outputs.company_id = v.company_id AND outputs.output_id = v.output_id AND outputs.version = v.version`
}

// Advance changes the state of outputs, and updates the values in outs. It returns db.ErrConflict if an output was
// changed since it was read.
func Advance(ctx context.Context, tx *db.Tx, outs []*Output, to State, reason func(*Output) string) error {
	rows := make([][]any, len(outs))
	for i, o := range outs {
		rows[i] = []any{o.CompanyID, o.ID, o.Version, reason(o)}
		db.History(tx, o.CompanyID, o.ID, o.Version+1, string(o.State), string(to), reason(o))
	}
	changed := int64(0)
	for values, args := range db.BindRows(tx, rows, 3) {
		n, err := tx.Exec(ctx, `WITH v (company_id, output_id, version, reason) AS (`+values+`)
			UPDATE outputs SET state = $1, reason = v.reason, version = outputs.version + 1, updated_at = $2
			FROM v WHERE outputs.company_id = v.company_id AND outputs.output_id = v.output_id AND outputs.version = v.version`,
			append([]any{string(to), db.Micros(tx.Now())}, args...)...)
		if err != nil {
			return err
		}
		changed += n
	}
	if changed != int64(len(outs)) {
		return db.ErrConflict
	}
	for _, o := range outs {
		o.State, o.Reason = to, reason(o)
		o.Version++
	}
	return nil
}

// Fail changes a queued output to failed, for a reason that requires a corrected destination, and announces the
// change.
func Fail(ctx context.Context, tx *db.Tx, o Output, reason string) error {
	err := Advance(ctx, tx, []*Output{&o}, Failed, func(*Output) string { return reason })
	if err == nil {
		Announce(tx, []Output{o})
	}
	return err
}

// Requeue queues outputs again that will certainly not be paid by their batch, and updates the values in outs. The
// outputs keep their place in the queue. Requeue returns db.ErrConflict if an output was changed since it was read.
func Requeue(ctx context.Context, tx *db.Tx, outs []*Output, reason func(*Output) string) error {
	if len(outs) == 0 {
		return nil
	}
	if err := Advance(ctx, tx, outs, Queued, reason); err != nil {
		return err
	}
	rails := map[RailName]bool{}
	ids := make([]string, len(outs))
	for i, o := range outs {
		ids[i], o.BatchID, o.TxID, o.Vout = o.ID, "", "", 0
		if !rails[o.Rail] {
			rails[o.Rail] = true
			EnqueuePrepare(tx, o.CompanyID, o.Rail, time.Time{})
		}
	}
	for in, args := range db.BindList(tx, ids, 2) {
		if _, err := tx.Exec(ctx, `UPDATE outputs SET batch_id = '', txid = '', vout = 0
			WHERE company_id = $1 AND output_id IN `+in, append([]any{outs[0].CompanyID}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// AdvanceBatch changes the state of a batch's outputs with one statement and returns the previous values of the
// outputs that it changed. It skips outputs that a bank returned or that left the batch. The state Queued removes the
// outputs from the batch. The caller must have locked the batch; outs are its outputs as read under that lock.
func AdvanceBatch(ctx context.Context, tx *db.Tx, companyID, batchID string, outs []Output, to State, txid,
	reason string,
) ([]Output, error) {
	into := batchID
	if to == Queued {
		into, txid = "", ""
	}
	if err := tx.Queue(ctx, `UPDATE outputs SET state = $3, reason = $4, batch_id = $5, txid = $6,
		version = version + 1, updated_at = $7
		WHERE company_id = $1 AND batch_id = $2 AND batch_id <> ''
			AND state IN ('prepared', 'sent', 'in_doubt', 'fulfilled')`,
		companyID, batchID, string(to), reason, into, txid, db.Micros(tx.Now())); err != nil {
		return nil, err
	}
	var changed []Output
	for i, o := range outs {
		switch o.State {
		case Prepared, Sent, UnknownOutcome, Fulfilled:
			db.History(tx, o.CompanyID, o.ID, o.Version+1, string(o.State), string(to), reason)
			changed = append(changed, o)
			outs[i].State, outs[i].Version = to, o.Version+1
		case Queued, Failed, Returned, Cancelled:
		}
	}
	return changed, nil
}

// setOnHold sets or clears the hold of a payroll's outputs and returns the number of queued outputs changed. It
// includes outputs in other states, so that they are on hold if they are queued again after a correction or a
// conflict.
func setOnHold(ctx context.Context, tx *db.Tx, companyID, payrollID string, onHold bool) (int64, error) {
	if _, err := tx.Exec(ctx, `UPDATE outputs SET on_hold = $3, version = version + 1, updated_at = $4
		WHERE company_id = $1 AND payroll_id = $2 AND state <> 'queued' AND on_hold <> $3`,
		companyID, payrollID, onHold, db.Micros(tx.Now())); err != nil {
		return 0, err
	}
	return tx.Exec(ctx, `UPDATE outputs SET on_hold = $3, version = version + 1, updated_at = $4
		WHERE company_id = $1 AND payroll_id = $2 AND state = 'queued' AND on_hold <> $3`,
		companyID, payrollID, onHold, db.Micros(tx.Now()))
}

// setOutputsOnHold sets or clears the hold of some outputs in any state.
func setOutputsOnHold(ctx context.Context, tx *db.Tx, companyID string, ids []string, onHold bool) error {
	for in, args := range db.BindList(tx, ids, 4) {
		if _, err := tx.Exec(ctx, `UPDATE outputs SET on_hold = $2, version = version + 1, updated_at = $3
			WHERE company_id = $1 AND on_hold <> $2 AND output_id IN `+in,
			append([]any{companyID, onHold, db.Micros(tx.Now())}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// railsOf returns the rails of the given outputs that are queued.
func railsOf(ctx context.Context, tx *db.Tx, companyID string, ids []string) (all []RailName, err error) {
	for in, args := range db.BindList(tx, ids, 2) {
		rows, err := tx.Query(ctx, `SELECT DISTINCT rail FROM outputs WHERE company_id = $1 AND state = 'queued'
			AND output_id IN `+in, append([]any{companyID}, args...)...)
		some, err := db.Collect(rows, err, func(r *db.Rows) (name RailName, err error) {
			var text string
			err = r.Scan(&text)
			return RailName(text), err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// queuedRails returns the rails of a payroll's queued outputs.
func queuedRails(ctx context.Context, tx *db.Tx, companyID, payrollID string) ([]RailName, error) {
	rows,
		err := tx.Query(ctx,
		"SELECT DISTINCT rail FROM outputs WHERE company_id = $1 AND payroll_id = $2 AND state = 'queued'",
		companyID, payrollID)
	return db.Collect(rows, err, func(r *db.Rows) (name RailName, err error) {
		var text string
		err = r.Scan(&text)
		return RailName(text), err
	})
}

// CompaniesWaiting returns up to 1,000 companies with queued outputs of a rail.
func CompaniesWaiting(ctx context.Context, tx *db.Tx, rail RailName) ([]string, error) {
	rows, err := tx.Query(ctx,
		"SELECT DISTINCT company_id FROM outputs WHERE rail = $1 AND state = 'queued' AND NOT on_hold LIMIT 1000",
		string(rail))
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// requeue queues an output again with its corrected destination. It fails if the output was changed since it was
// read.
func requeue(ctx context.Context, tx *db.Tx, o Output) error {
	n, err := tx.Exec(ctx, `UPDATE outputs SET state = 'queued', reason = '', destination_id = $4, rail = $5,
		asset = $6, amount = $7, rate_base = $8, rate = $9, address = $10, destination = $11, batch_id = '', txid = '',
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

// PaidBy returns the positions in a transaction that pay outputs.
func PaidBy(ctx context.Context, tx *db.Tx, txid string) (map[uint32]bool, error) {
	rows, err := tx.Query(ctx, "SELECT vout FROM outputs WHERE txid = $1", txid)
	all, err := db.Collect(rows, err, func(r *db.Rows) (vout int64, err error) { return vout, r.Scan(&vout) })
	positions := make(map[uint32]bool, len(all))
	for _, vout := range all {
		positions[uint32(vout)] = true
	}
	return positions, err
}

// PaidByPrefix returns the outputs of a rail that were paid by transactions or payments whose ID has a prefix.
func PaidByPrefix(ctx context.Context, tx *db.Tx, rail RailName, prefix string) ([]Output, error) {
	return selectOutputs(ctx, tx, "txid >= $1 AND txid < $2 AND rail = $3", prefix, prefix+"~", string(rail))
}

// MarkPaid changes a queued output to fulfilled, paid by o.TxID at o.Vout, and announces the change. It is for
// payments that the database does not contain.
func MarkPaid(ctx context.Context, tx *db.Tx, o Output, reason string) error {
	if err := tx.ExecOne(ctx, `UPDATE outputs SET state = 'fulfilled', reason = '', txid = $3, vout = $4,
			version = version + 1, updated_at = $5
		WHERE company_id = $1 AND output_id = $2 AND version = $6 AND state = 'queued'`,
		o.CompanyID, o.ID, o.TxID, int64(o.Vout), db.Micros(tx.Now()), o.Version); err != nil {
		return err
	}
	db.History(tx, o.CompanyID, o.ID, o.Version+1, string(Queued), string(Fulfilled), reason)
	Announce(tx, []Output{o})
	return nil
}

// SetProof stores the proof that an output was paid.
func SetProof(ctx context.Context, tx *db.Tx, companyID, outputID, proof string) error {
	return tx.ExecOne(ctx, "UPDATE outputs SET proof = $3 WHERE company_id = $1 AND output_id = $2", companyID, outputID,
		proof)
}

// ListQueued returns queued outputs of all companies, oldest first.
func ListQueued(ctx context.Context, tx *db.Tx, limit int) ([]Output, error) {
	return selectOutputs(ctx, tx, "state = 'queued' ORDER BY queued_at, company_id, output_id LIMIT $1", int64(limit))
}

// ListInStates returns outputs of all companies in some states, ordered by the time since which they have been in
// their state.
func ListInStates(ctx context.Context, tx *db.Tx, limit int, states ...State) ([]Output, error) {
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = string(s)
	}
	var all []Output
	for in, args := range db.BindList(tx, names, 1) {
		some, err := selectOutputs(ctx, tx,
			"state IN "+in+fmt.Sprintf(" ORDER BY updated_at, company_id, output_id LIMIT %d", limit), args...)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// Counts returns the number of outputs by state.
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

// OpenCount is the number of outputs of a rail that are in a state.
type OpenCount struct {
	Rail     RailName
	State    State
	Outputs  int64
	QueuedAt time.Time // when the oldest of the outputs was queued
}

// OpenCounts counts the outputs that are not finished: queued, being paid, or waiting for a correction.
func OpenCounts(ctx context.Context, tx *db.Tx) ([]OpenCount, error) {
	const columns = "SELECT rail, state, COUNT(*), MIN(queued_at) FROM outputs "
	rows, err := tx.Query(ctx, columns+"WHERE state = 'queued' GROUP BY rail, state UNION ALL "+
		columns+"WHERE state IN ('prepared', 'sent', 'in_doubt', 'failed', 'returned') GROUP BY rail, state")
	return db.Collect(rows, err, func(r *db.Rows) (c OpenCount, err error) {
		var at int64
		err = r.Scan(&c.Rail, &c.State, &c.Outputs, &at)
		c.QueuedAt = db.Time(at)
		return c, err
	})
}

// LockQueue returns a company's queue for a rail, locked for the rest of the transaction. It inserts the row if it
// does not exist.
func LockQueue(ctx context.Context, tx *db.Tx, companyID string, rail RailName) (Queue, error) {
	q := Queue{companyID: companyID, rail: rail}
	var since, next int64
	err := tx.QueryRow(ctx, `INSERT INTO payout_queues (company_id, rail, wait_reason, waiting_since, next_run_at, version)
		VALUES ($1, $2, '', 0, 0, 0)
		ON CONFLICT (company_id, rail) DO UPDATE SET version = payout_queues.version
		RETURNING wait_reason, waiting_since, next_run_at, version`,
		companyID, string(rail)).Scan(&q.reason, &since, &next, &q.version)
	if since > 0 {
		q.since = db.Time(since)
	}
	if next > 0 {
		q.nextRunAt = db.Time(next)
	}
	return q, err
}

// setQueue updates a queue. It fails if the queue was changed since it was read.
func setQueue(ctx context.Context, tx *db.Tx, was Queue, reason string, since, next time.Time) error {
	return tx.ExecOne(ctx, `UPDATE payout_queues SET wait_reason = $3, waiting_since = $4, next_run_at = $5,
			version = version + 1
		WHERE company_id = $1 AND rail = $2 AND version = $6`,
		was.companyID, string(was.rail), reason, microsOrZero(since), microsOrZero(next), was.version)
}

func microsOrZero(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return db.Micros(t)
}

// countQueue returns the number and sum of waiting outputs by asset: the queued outputs and the outputs of a stuck
// batch.
func countQueue(ctx context.Context, tx *db.Tx, q Queue, stuck string) ([]waiting, error) {
	rows, err := tx.Query(ctx, `SELECT asset, COUNT(*), CAST(SUM(amount) AS BIGINT) FROM outputs
		WHERE company_id = $1 AND rail = $2 AND (state = 'queued' AND NOT on_hold OR batch_id <> '' AND batch_id = $3)
		GROUP BY asset ORDER BY asset`, q.companyID, string(q.rail), stuck)
	return db.Collect(rows, err, func(r *db.Rows) (w waiting, err error) {
		var asset string
		var sum int64
		err = r.Scan(&asset, &w.n, &sum)
		w.sum = money.New(money.Asset(asset), sum)
		return w, err
	})
}

// AnyOpen reports whether the company has outputs on this rail that are queued or being paid.
func (q Queue) AnyOpen(ctx context.Context, tx *db.Tx) (open bool, err error) {
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM outputs WHERE company_id = $1 AND rail = $2
		AND state IN ('queued', 'prepared', 'sent', 'in_doubt'))`, q.companyID, string(q.rail)).Scan(&open)
	return open, err
}

// queuesWaiting returns the queues that wait for a reason, without locking them.
func queuesWaiting(ctx context.Context, tx *db.Tx, reason string) ([]Queue, error) {
	rows,
		err := tx.Query(ctx, "SELECT company_id, rail FROM payout_queues WHERE wait_reason = $1 ORDER BY company_id, rail",
		reason)
	return db.Collect(rows, err, func(r *db.Rows) (q Queue, err error) {
		var rail string
		err = r.Scan(&q.companyID, &rail)
		q.rail = RailName(rail)
		return q, err
	})
}

// WaitingQueues returns the waiting queues of all companies, the longest waiting first.
func WaitingQueues(ctx context.Context, tx *db.Tx, limit int) ([]WaitingQueue, error) {
	rows, err := tx.Query(ctx,
		`SELECT company_id, wait_reason, waiting_since FROM payout_queues WHERE wait_reason <> ''
			ORDER BY waiting_since, company_id LIMIT $1`, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (q WaitingQueue, err error) {
		var since int64
		err = r.Scan(&q.CompanyID, &q.Reason, &since)
		q.Since = db.Time(since)
		return q, err
	})
}

// Paused returns the reason why all payouts are stopped, or "".
func Paused(ctx context.Context, tx *db.Tx) (why string, err error) {
	return db.Setting(ctx, tx, settingPaused)
}
