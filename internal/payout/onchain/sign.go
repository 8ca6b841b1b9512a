package onchain

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/signer"
)

// If the signer is another process, the database transaction that chooses inputs and recipients stores the unsigned
// blockchain transaction. Send then requests the signature, stores the signed bytes, and broadcasts them in its next
// run. So everything that is signed was committed before, and a repeated request asks for the signature of the same
// transaction.

// Held is an output that the signer does not pay yet.
type Held struct {
	CompanyID, OutputID string
	Payment             signer.Payment
	Verdict             signer.Verdict
	Since               time.Time
	Approvals           []signer.Approval
}

// signerChain returns the name of the chain in requests to the signer.
func (c *Carrier) signerChain() string {
	if c.Rail == payout.RailBitcoin {
		return signer.BitcoinChain
	}
	return c.Chain
}

// Payment returns the payment of an output in the form that the signer checks.
func (c *Carrier) Payment(o payout.Output) signer.Payment {
	return signer.Payment{Chain: c.signerChain(), Asset: o.Amount.Asset(), Address: o.Address, Units: o.Amount.Units(),
		Reference: o.ID}
}

// Ask asks the signer whether it would sign payments of outputs. It must run outside of a database transaction. It
// returns the verdicts by output ID, or nil if the keys are in this process. If together is true, one transaction
// will pay all the outputs.
func (c *Carrier) Ask(ctx context.Context, d *db.DB, companyID string, outs []payout.Output, together bool) (
	map[string]signer.Verdict, error,
) {
	if c.Signer == nil || len(outs) == 0 {
		return nil, nil
	}
	request := signer.CheckRequest{Together: together}
	ids := make([]string, len(outs))
	for i, o := range outs {
		ids[i] = o.ID
		request.Payments = append(request.Payments, c.Payment(o))
	}
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		request.Approvals, err = approvalsOf(ctx, tx, companyID, ids)
		return err
	}); err != nil {
		return nil, err
	}
	verdicts, err := c.Signer.Check(ctx, request)
	if err != nil {
		c.Log.ErrorContext(ctx, "the signer does not answer; payouts wait", "error", err)
		return nil, err
	}
	of := make(map[string]signer.Verdict, len(outs))
	for i, v := range verdicts {
		of[ids[i]] = v
	}
	return of, nil
}

// FeeCap returns the highest fees that the signer permits; they are unlimited if the keys are in this process. A
// transaction with a higher fee must not be stored for signing: the refusal would block its inputs or all later
// nonces.
func (c *Carrier) FeeCap(ctx context.Context) (signer.FeeCap, error) {
	if c.Signer == nil {
		return signer.FeeCap{Fee: math.MaxInt64, Rate: math.MaxInt64}, nil
	}
	info, err := c.Signer.Info(ctx)
	return info.Fees[c.signerChain()], err
}

// PermitsFee reports whether the signer permits a transaction that pays only a fee of this amount, in units of the
// native asset.
func (c *Carrier) PermitsFee(ctx context.Context, fee int64) (bool, error) {
	most, err := c.FeeCap(ctx)
	if err != nil || c.Signer == nil {
		return err == nil, err
	}
	v := signer.Verdict{Code: signer.FeeTooHigh}
	if fee <= most.Fee {
		verdicts, err := c.Signer.Check(ctx, signer.CheckRequest{Payments: []signer.Payment{{Chain: c.signerChain(),
			Asset: c.Native}}})
		if err != nil {
			return false, err
		}
		v = verdicts[0]
	}
	if v.Code != "" {
		c.Log.ErrorContext(ctx, "the signer does not permit the fee of a transaction, which waits", "fee",
			c.native(fee).String(), "code", v.Code, "detail", v.Detail)
	}
	return v.Code == "", nil
}

// Keep stores that the signer does not pay outputs yet, and the reasons. It logs an error for staff, unless the
// payment will be permitted after some time without any action.
func (c *Carrier) Keep(ctx context.Context, tx *db.Tx, outs []payout.Output, verdicts map[string]signer.Verdict) error {
	for _, o := range outs {
		v := verdicts[o.ID]
		if o.Reason != payout.WaitSigner {
			c.Log.ErrorContext(ctx, "the signer does not permit a payout", "company_id", o.CompanyID, "output_id", o.ID,
				"code", v.Code, "detail", v.Detail)
		}
		h := Held{CompanyID: o.CompanyID, OutputID: o.ID, Payment: c.Payment(o), Verdict: v}
		if err := insertHeld(ctx, tx, h); err != nil {
			return err
		}
	}
	if len(outs) == 0 {
		return nil
	}
	return payout.SetReason(ctx, tx, outs, payout.WaitSigner)
}

// ErrNotHeld is returned for an approval of a payment that the signer has not refused.
var ErrNotHeld = errors.New("the signer refuses no such payment; stipend payouts held lists those that it refuses")

// Approve stores an approval of a payment that the signer refuses, and enqueues the payment's preparation. Only the
// signer verifies the approval.
func Approve(ctx context.Context, tx *db.Tx, a signer.Approval) error {
	h, err := getHeld(ctx, tx, a.Payment.Reference)
	if errors.Is(err, db.ErrNoRows) || err == nil && h.Payment != a.Payment {
		return ErrNotHeld
	}
	if err != nil {
		return err
	}
	o, err := payout.Get(ctx, tx, h.CompanyID, h.OutputID)
	if err != nil {
		return err
	}
	if err := deleteApprovals(ctx, tx, tx.Now().Add(-expiredFor)); err != nil {
		return err
	}
	payout.EnqueuePrepare(tx, h.CompanyID, o.Rail, tx.Now())
	return insertApproval(ctx, tx, h.CompanyID, h.OutputID, a)
}

// expiredFor is how long approvals are kept after they expire, because a replacement of the payout's transaction
// needs them.
const expiredFor = 90 * 24 * time.Hour

// unsigned returns the transaction of the batch that the signer has not signed yet, or false if there is none.
func (b Batch) unsigned() (Transaction, bool) {
	i := slices.IndexFunc(b.Signed, func(t Transaction) bool { return t.Unsigned })
	if i < 0 {
		return Transaction{}, false
	}
	return b.Signed[i], true
}

// sendable returns the IDs of the batch's transactions that Send can process: the newest signed transaction and the
// unsigned one.
func (b Batch) sendable() (ids []string) {
	if b.TxID != "" {
		ids = append(ids, b.TxID)
	}
	if t, ok := b.unsigned(); ok {
		ids = append(ids, t.TxID)
	}
	return ids
}

// pending is a stored transaction without a signature, with its batch.
type pending struct {
	Batch
	Transaction
	approvals []signer.Approval
}

// requestSignature requests the signature of a stored transaction and stores the signed bytes. If the signer refuses
// and another transaction can take this one's place, the transaction is dropped (see drop). Otherwise the refusal is
// stored, and the request is repeated later, because the signer's policy may change or a limit may end.
func (c *Carrier) requestSignature(ctx context.Context, d *db.DB, p pending) error {
	raw, txid, err := c.family.Sign(ctx, d, p.Batch, p.Transaction, p.approvals)
	if err == nil {
		return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return c.signed(ctx, tx, p, raw, txid) })
	}
	c.Log.ErrorContext(ctx, "a payout was not signed", "company_id", p.Batch.CompanyID, "batch_id", p.Batch.ID,
		"error", err)
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if dropped, failed := c.drop(ctx, tx, p, err); failed != nil || dropped {
			return failed
		}
		payout.EnqueueSend(tx, p.Batch.CompanyID, c.Rail, tx.Now().Add(c.Retry), p.Transaction.TxID)
		return setRefusal(ctx, tx, p.Transaction, err.Error())
	})
}

// drop ends a stored transaction that the signer refused, and reports whether it did. The transaction was never
// broadcast, because it has no signature. A replacement is deleted; the transaction that it would have replaced
// remains, and its fee may be raised again later. If the first transaction of a batch is refused, the batch ends: its
// coins or nonce are freed and its outputs are queued again, so that the outputs which the signer permits are paid.
func (c *Carrier) drop(ctx context.Context, tx *db.Tx, p pending, why error) (bool, error) {
	var refused signer.Refused
	if !errors.As(why, &refused) {
		return false, nil
	}
	b, err := lockBatch(ctx, tx, c.Chain, p.Batch.CompanyID, p.Batch.ID)
	if err != nil {
		return false, err
	}
	if t, ok := b.unsigned(); !ok || t.TxID != p.Transaction.TxID || !b.open() {
		return true, nil // another run of the job has decided
	}
	if p.Transaction.Replaces != "" {
		if len(b.Signed) == 2 { // no other replacement, so the change of the first transaction exists
			err = chain.Unreserve(ctx, tx, b.Chain, b.ChangeReservation())
		}
		return true, errors.Join(err, deleteUnsigned(ctx, tx, p.Transaction))
	}
	// A later attempt may create the same transaction.
	if err := deleteUnsigned(ctx, tx, p.Transaction); err != nil {
		return false, err
	}
	if err := freeAccount(ctx, tx, b); err != nil {
		return false, err
	}
	if err := c.family.Free(ctx, tx, b); err != nil {
		return false, err
	}
	return true, c.reopen(ctx, tx, &b, payout.WaitSigner, tx.Now().Add(c.Retry))
}

// signed stores the signed bytes of a transaction, starts to watch it and enqueues its broadcast.
func (c *Carrier) signed(ctx context.Context, tx *db.Tx, p pending, raw []byte, txid string) error {
	b, err := lockBatch(ctx, tx, c.Chain, p.Batch.CompanyID, p.Batch.ID)
	if err != nil {
		return err
	}
	if t, ok := b.unsigned(); !ok || t.TxID != p.Transaction.TxID || !b.open() {
		return nil // another run of the job stored the signature, or the batch ended
	}
	t := p.Transaction
	if err := setSigned(ctx, tx, t, raw, txid); err != nil {
		return err
	}
	t.Raw, t.TxID, t.Unsigned = raw, txid, false
	if t.Replaces != "" {
		return c.replaced(ctx, tx, b, t)
	}
	const reason = "signed"
	if err := advance(ctx, tx, &b, b.State, txid, reason); err != nil {
		return err
	}
	if err := c.family.Watch(ctx, tx, b, txid); err != nil {
		return err
	}
	payout.EnqueueSend(tx, b.CompanyID, c.Rail, tx.Now(), txid)
	return nil
}

// replaced makes a newly signed replacement the current transaction of its batch, and posts its higher fee.
func (c *Carrier) replaced(ctx context.Context, tx *db.Tx, b Batch, t Transaction) error {
	const reason = "fee raised"
	more := c.native(t.Fee - b.Fee)
	b.Fee = t.Fee
	if err := advance(ctx, tx, &b, b.State, t.TxID, reason); err != nil {
		return err
	}
	if err := post(tx, b, "bump", []ledger.Line{
		ledger.Debit(ledger.NetworkFee, Source, more), ledger.Credit(ledger.InTransit, b.ID, more),
	}); err != nil {
		return err
	}
	if err := c.family.Watch(ctx, tx, b, t.TxID); err != nil {
		return err
	}
	payout.EnqueueSend(tx, b.CompanyID, c.Rail, tx.Now(), t.TxID)
	return nil
}

// OwnPath returns the derivation branch and index of an address of the wallet. ok is false for other addresses.
func OwnPath(ctx context.Context, d *db.DB, chainName, address string) (branch, index uint32, ok bool, err error) {
	err = d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		branch, index, err = chain.AddressPath(ctx, tx, chainName, address)
		return err
	})
	if errors.Is(err, db.ErrNoRows) {
		return 0, 0, false, nil
	}
	return branch, index, err == nil, err
}
