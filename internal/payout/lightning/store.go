package lightning

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/payout"
)

// Payment is a Lightning payment that pays an output.
type Payment struct {
	CompanyID, ID string
	OutputID      string
	State         payout.State // prepared, in_doubt, sent, fulfilled or failed
	NodeID        string       // the node that pays
	Hash          string       // payment hash in hexadecimal
	Request       string       // BOLT 11 payment request
	ExpiresAt     time.Time    // end of the request
	Amount        int64        // satoshis
	MaxFee        int64        // satoshis
	Fee           int64        // satoshis, rounded up
	Preimage      string       // proof of the payment in hexadecimal; "" until it is fulfilled
	Reason        string       // reason of a failed payment
	Attempts      int64
	Version       int64

	doubtUntil time.Time // until then, a call whose answer was lost may still reach the node
	inFlight   bool      // the node's last report was that the payment is in flight
	declaredAt time.Time // when staff decided that it was not made; zero once the node reports the outcome
	followed   bool      // a later job for this payment is enqueued
}

const columns = `company_id, payment_id, output_id, state, node_id, hash, request, expires_at, amount, max_fee, fee,
	preimage, reason, attempts, doubt_until, in_flight, declared_at, version`

func scan(r interface{ Scan(...any) error }) (p Payment, err error) {
	var state string
	var expires, doubt, declared int64
	err = r.Scan(&p.CompanyID, &p.ID, &p.OutputID, &state, &p.NodeID, &p.Hash, &p.Request, &expires, &p.Amount, &p.MaxFee,
		&p.Fee, &p.Preimage, &p.Reason, &p.Attempts, &doubt, &p.inFlight, &declared, &p.Version)
	p.State, p.ExpiresAt = payout.State(state), db.Time(expires)
	if doubt > 0 {
		p.doubtUntil = db.Time(doubt)
	}
	if declared > 0 {
		p.declaredAt = db.Time(declared)
	}
	return p, err
}

func insert(ctx context.Context, tx *db.Tx, p Payment) error {
	now := db.Micros(tx.Now())
	db.History(tx, p.CompanyID, p.ID, p.Version, "", string(p.State), "")
	return tx.Insert(ctx, "lightning_payments", []string{"company_id", "payment_id", "output_id", "state", "node_id",
		"hash", "request", "expires_at", "amount", "max_fee", "version", "created_at", "updated_at"},
		[][]any{{p.CompanyID, p.ID, p.OutputID, string(p.State), p.NodeID, p.Hash, p.Request, db.Micros(p.ExpiresAt),
			p.Amount, p.MaxFee, p.Version, now, now}})
}

// update stores the fields of a payment that may change, as its next version. It fails if the payment has changed
// since it was read.
func update(ctx context.Context, tx *db.Tx, from payout.State, p *Payment) error {
	doubt, declared := int64(0), int64(0)
	if !p.doubtUntil.IsZero() {
		doubt = db.Micros(p.doubtUntil)
	}
	if !p.declaredAt.IsZero() {
		declared = db.Micros(p.declaredAt)
	}
	if err := tx.ExecOne(ctx, `UPDATE lightning_payments SET state = $3, fee = $4, preimage = $5, reason = $6,
			attempts = $7, doubt_until = $8, in_flight = $9, declared_at = $10, updated_at = $11, version = version + 1
		WHERE company_id = $1 AND payment_id = $2 AND version = $12`, p.CompanyID, p.ID, string(p.State), p.Fee, p.Preimage,
		p.Reason, p.Attempts, doubt, p.inFlight, declared, db.Micros(tx.Now()), p.Version); err != nil {
		return err
	}
	p.Version++
	if from != p.State {
		db.History(tx, p.CompanyID, p.ID, p.Version, string(from), string(p.State), p.Reason)
	}
	return nil
}

func get(ctx context.Context, tx *db.Tx, companyID, id string) (Payment, error) {
	return scan(tx.QueryRow(ctx, "SELECT "+columns+" FROM lightning_payments WHERE company_id = $1 AND payment_id = $2",
		companyID, id))
}

// ForOutputs returns the payments of outputs of a company that did not fail, by output ID.
func ForOutputs(ctx context.Context, tx *db.Tx, companyID string, outputIDs []string) (map[string]Payment, error) {
	of := map[string]Payment{}
	return of, db.EachIn(ctx, tx, outputIDs, "SELECT "+columns+` FROM lightning_payments
		WHERE company_id = $1 AND state <> 'failed' AND output_id IN %s`, []any{companyID}, func(r *db.Rows) error {
		p, err := scan(r)
		of[p.OutputID] = p
		return err
	})
}

// lost returns the payments that are still sent although their invoice expired, unless the node's last report was
// that they are in flight.
func lost(ctx context.Context, tx *db.Tx, limit int) ([]Payment, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+` FROM lightning_payments
		WHERE state = 'sent' AND NOT in_flight AND expires_at < $1
		ORDER BY expires_at, payment_id LIMIT $2`, db.Micros(tx.Now().Add(-expiryMargin)), int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (Payment, error) { return scan(r) })
}

// declared returns the payments of a node that failed by staff's decision and whose outcome the node has not reported
// yet.
func declared(ctx context.Context, tx *db.Tx, nodeID string) ([]Payment, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+` FROM lightning_payments
		WHERE node_id = $1 AND declared_at > 0 AND state = 'failed' ORDER BY declared_at, payment_id`, nodeID)
	return db.Collect(rows, err, func(r *db.Rows) (Payment, error) { return scan(r) })
}

// isUsed reports whether a payment hash was paid or may still be paid.
func isUsed(ctx context.Context, tx *db.Tx, h lightning.Hash) (used bool, err error) {
	err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM lightning_payments WHERE hash = $1 AND state <> 'failed')",
		h.String()).Scan(&used)
	return used, err
}

// reserved returns the satoshis, with fees, of payments that may not have left a node's balance yet.
func reserved(ctx context.Context, tx *db.Tx, nodeID string) (sats int64, err error) {
	err = tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(amount + max_fee), 0) AS BIGINT) FROM lightning_payments
		WHERE node_id = $1 AND state IN ('prepared', 'in_doubt')`, nodeID).Scan(&sats)
	return sats, err
}

// countFailed returns the number of failed payments of an output.
func countFailed(ctx context.Context, tx *db.Tx, companyID, outputID string) (n int64, err error) {
	err = tx.QueryRow(ctx, `SELECT COUNT(*) FROM lightning_payments
		WHERE company_id = $1 AND output_id = $2 AND state = 'failed'`, companyID, outputID).Scan(&n)
	return n, err
}
