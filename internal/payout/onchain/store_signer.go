package onchain

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/signer"
)

// setSigned stores the signature of a transaction. The row's key changes to the final txid, which on EVM networks
// depends on the signature.
func setSigned(ctx context.Context, tx *db.Tx, t Transaction, raw []byte, txid string) error {
	return tx.ExecOne(ctx, `UPDATE payout_txs SET txid = $3, raw = $4, unsigned = FALSE, refusal = '', created_at = $5
		WHERE company_id = $1 AND txid = $2 AND unsigned`, t.CompanyID, t.TxID, txid, hex.EncodeToString(raw),
		db.Micros(tx.Now()))
}

// setRefusal stores why a transaction was not signed.
func setRefusal(ctx context.Context, tx *db.Tx, t Transaction, why string) error {
	_, err := tx.Exec(ctx, `UPDATE payout_txs SET refusal = $3 WHERE company_id = $1 AND txid = $2 AND unsigned`,
		t.CompanyID, t.TxID, why)
	return err
}

// freeAccount separates a batch from its nonce, so that another batch can use the nonce.
func freeAccount(ctx context.Context, tx *db.Tx, b Batch) error {
	_, err := tx.Exec(ctx, "UPDATE payout_batches SET account = '' WHERE company_id = $1 AND batch_id = $2", b.CompanyID,
		b.ID)
	return err
}

// deleteUnsigned deletes a transaction that has no signature.
func deleteUnsigned(ctx context.Context, tx *db.Tx, t Transaction) error {
	return tx.ExecOne(ctx, "DELETE FROM payout_txs WHERE company_id = $1 AND txid = $2 AND unsigned", t.CompanyID, t.TxID)
}

// Refusals returns the number of outputs and transactions of all companies that the signer currently refuses.
func Refusals(ctx context.Context, tx *db.Tx) (n int64, err error) {
	var held, unsigned int64
	if err = tx.QueryRow(ctx, "SELECT COUNT(*) FROM "+presentlyHeld, payout.WaitSigner).Scan(&held); err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, `SELECT COUNT(*) FROM payout_txs t
		JOIN payout_batches b ON b.company_id = t.company_id AND b.batch_id = t.batch_id
		WHERE t.unsigned AND t.refusal <> '' AND b.state IN ('prepared', 'sent', 'in_doubt')`).Scan(&unsigned)
	return held + unsigned, err
}

// presentlyHeld selects the refusals whose outputs still wait for the signer. A stored refusal remains when its
// output was canceled, changed or paid in another way.
const presentlyHeld = `signer_holds h JOIN outputs o ON o.company_id = h.company_id AND o.output_id = h.output_id
	WHERE o.state = 'queued' AND o.reason = $1`

// insertHeld stores the reason why the signer does not pay an output, or replaces an earlier reason.
func insertHeld(ctx context.Context, tx *db.Tx, h Held) error {
	payment, err := json.Marshal(h.Payment)
	if err != nil {
		return err
	}
	until := int64(0)
	if !h.Verdict.Until.IsZero() {
		until = db.Micros(h.Verdict.Until)
	}
	_, err = tx.Exec(ctx, `INSERT INTO signer_holds (company_id, output_id, payment, code, detail, until, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (company_id, output_id) DO UPDATE SET payment = excluded.payment, code = excluded.code,
			detail = excluded.detail, until = excluded.until`,
		h.CompanyID, h.OutputID, string(payment), string(h.Verdict.Code), h.Verdict.Detail, until, db.Micros(tx.Now()))
	return err
}

// release deletes the refusals of outputs that are paid now. It keeps their approvals, because the signer needs them
// again for a replacement.
func release(ctx context.Context, tx *db.Tx, companyID string, ids []string) error {
	for in, args := range db.BindList(tx, ids, 2) {
		if _, err := tx.Exec(ctx, "DELETE FROM signer_holds WHERE company_id = $1 AND output_id IN "+in,
			append([]any{companyID}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// AllHeld returns the outputs of all companies that the signer does not pay yet, the oldest first, up to limit.
func AllHeld(ctx context.Context, tx *db.Tx, limit int) ([]Held, error) {
	rows, err := tx.Query(ctx, `SELECT h.company_id, h.output_id, payment, code, detail, until, h.created_at
		FROM `+presentlyHeld+` ORDER BY h.created_at, h.output_id LIMIT $2`, payout.WaitSigner, int64(limit))
	all, err := db.Collect(rows, err, scanHeld)
	for i := range all {
		if err == nil {
			all[i].Approvals, err = approvalsOf(ctx, tx, all[i].CompanyID, []string{all[i].OutputID})
		}
	}
	return all, err
}

// getHeld returns an output that the signer does not pay yet, or db.ErrNoRows.
func getHeld(ctx context.Context, tx *db.Tx, outputID string) (Held, error) {
	rows, err := tx.Query(ctx, `SELECT company_id, output_id, payment, code, detail, until, created_at FROM signer_holds
		WHERE output_id = $1`, outputID)
	all, err := db.Collect(rows, err, scanHeld)
	if err == nil && len(all) == 0 {
		err = db.ErrNoRows
	}
	if err != nil {
		return Held{}, err
	}
	return all[0], nil
}

func scanHeld(r *db.Rows) (h Held, err error) {
	var payment, code string
	var until, created int64
	if err = r.Scan(&h.CompanyID, &h.OutputID, &payment, &code, &h.Verdict.Detail, &until, &created); err != nil {
		return h, err
	}
	h.Verdict.Code, h.Since = signer.Code(code), db.Time(created)
	if until > 0 {
		h.Verdict.Until = db.Time(until)
	}
	return h, json.Unmarshal([]byte(payment), &h.Payment)
}

// insertApproval stores the approval of an output by a member of staff, which the signer verifies.
func insertApproval(ctx context.Context, tx *db.Tx, companyID, outputID string, a signer.Approval) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO signer_approvals
			(company_id, output_id, credential, approval, expires_at, created_at)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (company_id, output_id, credential) DO UPDATE SET approval = excluded.approval,
			expires_at = excluded.expires_at`,
		companyID, outputID, a.Credential, string(text), db.Micros(a.Expires), db.Micros(tx.Now()))
	return err
}

// approvalsOf returns the approvals of outputs.
func approvalsOf(ctx context.Context, tx *db.Tx, companyID string, ids []string) (all []signer.Approval, err error) {
	for in, args := range db.BindList(tx, ids, 2) {
		rows, err := tx.Query(ctx, "SELECT approval FROM signer_approvals WHERE company_id = $1 AND output_id IN "+in,
			append([]any{companyID}, args...)...)
		some, err := db.Collect(rows, err, func(r *db.Rows) (a signer.Approval, err error) {
			var text string
			if err = r.Scan(&text); err == nil {
				err = json.Unmarshal([]byte(text), &a)
			}
			return a, err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// deleteApprovals deletes approvals that expired before a time.
func deleteApprovals(ctx context.Context, tx *db.Tx, before time.Time) error {
	_, err := tx.Exec(ctx, "DELETE FROM signer_approvals WHERE expires_at < $1", db.Micros(before))
	return err
}
