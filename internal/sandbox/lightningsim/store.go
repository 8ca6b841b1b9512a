package lightningsim

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/lightning"
)

const columns = "hash, request, state, paid, settle_index, settled_at, expires_at"

// scan reads an invoice. An open invoice that has expired is returned as cancelled.
func scan(now time.Time, scan func(...any) error) (i lightning.NodeInvoice, err error) {
	var hash, state string
	var index, settled, expires int64
	if err = scan(&hash, &i.PaymentRequest, &state, &i.PaidMsat, &index, &settled, &expires); err != nil {
		return i, err
	}
	i.State, i.SettleIndex = lightning.NodeState(state), uint64(max(index, 0))
	if settled > 0 {
		i.SettledAt = db.Time(settled).Truncate(time.Second)
	}
	if i.State == lightning.NodeOpen && !now.Before(db.Time(expires)) {
		i.State = lightning.NodeCanceled
	}
	i.Hash, err = lightning.ParseHash(hash)
	return i, err
}

func find(ctx context.Context, tx *db.Tx, h lightning.Hash) (lightning.NodeInvoice, error) {
	i, err := scan(tx.Now(), tx.QueryRow(ctx, "SELECT "+columns+" FROM sim_lightning_invoices WHERE hash = $1",
		h.String()).Scan)
	if errors.Is(err, db.ErrNoRows) {
		err = lightning.ErrUnknown
	}
	return i, err
}

func insert(ctx context.Context, tx *db.Tx, in lightning.NewInvoice, wallet, request string, expires time.Time) error {
	_, err := tx.Exec(ctx, `INSERT INTO sim_lightning_invoices (hash, wallet, preimage, request, state, amount, paid,
		settle_index, settled_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, 0, 0, 0, $7)`, in.Hash().String(), wallet,
		lightning.Hash(in.Preimage).String(), request, string(lightning.NodeOpen), 1000*in.Amount, db.Micros(expires))
	return err
}

// secretOf returns the preimage and the wallet of an invoice, or db.ErrNoRows.
func secretOf(ctx context.Context, tx *db.Tx, h lightning.Hash) (preimage, wallet string, err error) {
	err = tx.QueryRow(ctx, "SELECT preimage, wallet FROM sim_lightning_invoices WHERE hash = $1", h.String()).Scan(
		&preimage, &wallet)
	return preimage, wallet, err
}

// payment returns a payment, or lightning.ErrNoPayment.
func payment(ctx context.Context, tx *db.Tx, h lightning.Hash) (lightning.Payment, error) {
	p := lightning.Payment{Hash: h}
	var state string
	err := tx.QueryRow(ctx, `SELECT state, amount, fee, preimage, failure FROM sim_lightning_payments WHERE hash = $1`,
		h.String()).Scan(&state, &p.Msat, &p.FeeMsat, &p.Preimage, &p.Failure)
	if errors.Is(err, db.ErrNoRows) {
		err = lightning.ErrNoPayment
	}
	p.State = lightning.PaymentState(state)
	return p, err
}

// insertPayment stores a payment. It replaces a failed payment of the same invoice.
func insertPayment(ctx context.Context, tx *db.Tx, p lightning.Payment) error {
	return tx.ExecOne(ctx, `INSERT INTO sim_lightning_payments (hash, state, amount, fee, preimage, failure)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (hash) DO UPDATE SET state = excluded.state, amount = excluded.amount, fee = excluded.fee,
			preimage = excluded.preimage, failure = excluded.failure WHERE sim_lightning_payments.state = 'FAILED'`,
		p.Hash.String(), string(p.State), p.Msat, p.FeeMsat, p.Preimage, p.Failure)
}

func cancel(ctx context.Context, tx *db.Tx, h lightning.Hash) (bool, error) {
	n, err := tx.Exec(ctx, "UPDATE sim_lightning_invoices SET state = $1 WHERE hash = $2 AND state <> $3",
		string(lightning.NodeCanceled), h.String(), string(lightning.NodeSettled))
	return n == 1, err
}

// settle settles an open invoice that has not expired, and reports whether it found one.
func settle(ctx context.Context, tx *db.Tx, h lightning.Hash, msat int64) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE sim_lightning_invoices SET state = $1, paid = $2, settled_at = $3,
			settle_index = (SELECT MAX(settle_index) + 1 FROM sim_lightning_invoices)
		WHERE hash = $4 AND state = $5 AND expires_at > $3`,
		string(lightning.NodeSettled), msat, db.Micros(tx.Now()), h.String(), string(lightning.NodeOpen))
	if db.IsUnique(err) {
		err = db.ErrConflict // another process settled an invoice
	}
	return n == 1, err
}

func lastSettled(ctx context.Context, tx *db.Tx) (uint64, error) {
	var n int64
	err := tx.QueryRow(ctx, "SELECT COALESCE(MAX(settle_index), 0) FROM sim_lightning_invoices").Scan(&n)
	return uint64(max(n, 0)), err
}

func settledAfter(ctx context.Context, tx *db.Tx, after uint64) ([]lightning.NodeInvoice, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+` FROM sim_lightning_invoices WHERE settle_index > $1 AND wallet = ''
		ORDER BY settle_index LIMIT $2`, int64(after), int64(maxSettled))
	return db.Collect(rows, err, func(r *db.Rows) (lightning.NodeInvoice, error) { return scan(tx.Now(), r.Scan) })
}

// balance returns the node's balance in millisatoshis: its initial funds, plus received payments, minus sent
// payments.
func balance(ctx context.Context, tx *db.Tx) (msat int64, err error) {
	err = tx.QueryRow(ctx, `SELECT CAST(COALESCE((SELECT SUM(paid) FROM sim_lightning_invoices WHERE wallet = ''), 0)
		- COALESCE((SELECT SUM(amount + fee) FROM sim_lightning_payments WHERE state = 'SUCCEEDED'), 0) AS BIGINT)`).Scan(
		&msat)
	return msat + 1000*Funds, err
}
