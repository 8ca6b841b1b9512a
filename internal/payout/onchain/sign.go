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

// With a signer in another process, the transaction that chooses inputs and recipients stores the unsigned transaction.
// Send then requests the signature, stores the signed bytes, and broadcasts them in its next run. So whatever is signed
// was committed before, and a repeated request is about the same transaction.

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

// Payment returns what an output pays, as the signer sees it.
func (c *Carrier) Payment(o payout.Output) signer.Payment {
	return signer.Payment{Chain: c.signerChain(), Asset: o.Amount.Asset(), Address: o.Address, Units: o.Amount.Units(),
		Reference: o.ID}
}

// Ask asks the signer about outputs, outside of a transaction. It returns its verdicts by the outputs' IDs, nil if the
// keys are in this process. If together is true, the outputs will be paid by one transaction.
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

// FeeCap returns the highest fees that the signer permits, which are unlimited if the keys are in this process. What it
// does not permit must not be stored to be signed: the refusal would block its inputs, or all later nonces.
func (c *Carrier) FeeCap(ctx context.Context) (signer.FeeCap, error) {
	if c.Signer == nil {
		return signer.FeeCap{Fee: math.MaxInt64, Rate: math.MaxInt64}, nil
	}
	info, err := c.Signer.Info(ctx)
	return info.Fees[c.signerChain()], err
}

// PermitsFee reports whether the signer permits a transaction that pays only its fee, in units of the native asset.
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

// Keep stores that the signer does not pay outputs yet, and why. It is an alarm for staff unless time alone makes the
// payment permitted.
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

// ErrNotHeld is returned for an approval of a payment that the signer does not refuse.
var ErrNotHeld = errors.New("the signer refuses no such payment; stipend payouts held lists those that it refuses")

// Approve stores an approval of a payment that the signer refuses, and prepares it again. Only the signer verifies it.
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

// expiredFor is the time for which approvals are kept after they expired: a replacement of the payout's transaction
// needs them.
const expiredFor = 90 * 24 * time.Hour

// unsigned returns the transaction of the batch that the signer has not signed yet.
func (b Batch) unsigned() (Transaction, bool) {
	i := slices.IndexFunc(b.Signed, func(t Transaction) bool { return t.Unsigned })
	if i < 0 {
		return Transaction{}, false
	}
	return b.Signed[i], true
}

// sendable returns the IDs of the batch's transactions for Send: the newest signed one, and one to be signed.
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

// requestSignature requests the signature of a stored transaction and stores the signed bytes. A transaction that the
// signer refuses is dropped if another can take its place, see drop. Otherwise the refusal is stored, and the request
// is repeated later: the signer may be given another policy, or time may pass.
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

// drop ends a stored transaction that the signer refused, and reports whether it did. Since the transaction has no
// signature, it was never broadcast. A replacement is deleted: the one that it replaces remains, and its fee may be
// raised again. The first transaction of a batch is given up with its batch: its coins or its nonce are free and its
// outputs queued again, so that those which the signer permits are paid.
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
	// The same transaction may be made again.
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

// signed stores the signed bytes of a transaction, watches it and enqueues its broadcast.
func (c *Carrier) signed(ctx context.Context, tx *db.Tx, p pending, raw []byte, txid string) error {
	b, err := lockBatch(ctx, tx, c.Chain, p.Batch.CompanyID, p.Batch.ID)
	if err != nil {
		return err
	}
	if t, ok := b.unsigned(); !ok || t.TxID != p.Transaction.TxID || !b.open() {
		return nil // another run of the job stored it, or the batch ended
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

// replaced makes a signed transaction the current one of its batch, and posts its higher fee.
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

// OwnPath returns the branch and index of one of the wallet's addresses. It reports false for other addresses.
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
