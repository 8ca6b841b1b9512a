package bank

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
)

// An erroneous ACH credit can be reversed by a debit of the payee's account for the same amount. The debit must reach
// the payee's bank within five banking days after the credit settled. Staff request a reversal with a reason, and a
// second staff member approves it.
//
//	reversal   approved → ordered → collected → returned
//	               └→ expired └→ returned
//	                          └→ refused
//
// Each reversal is a file of its own, so that the credit on the operator's account names the file. Package
// bankreceipt adds that credit to the balance of the company that paid, and takes it back if the payee's bank returns
// the debit. The reversed output stays fulfilled: an amount paid in error is not owed to the payee again.

// Reasons for which Nacha allows the reversal of an entry.
const (
	ReversalDuplicate = "duplicate"
	ReversalPayee     = "wrong_payee"
	ReversalAmount    = "wrong_amount"
	ReversalDate      = "wrong_date"
)

// ReversalReasons are the allowed reasons.
var ReversalReasons = []string{ReversalDuplicate, ReversalPayee, ReversalAmount, ReversalDate}

// States of a reversal.
const (
	ReversalApproved  = "approved"
	ReversalOrdered   = "ordered"   // written to a file
	ReversalCollected = "collected" // the money came back
	ReversalReturned  = "returned"  // the payee's bank returned the debit
	ReversalRefused   = "refused"   // the operator's bank rejected the file
	ReversalExpired   = "expired"   // too late, or the payment came back, before the file was sent
)

// Errors of requests for a reversal.
var (
	ErrNotReversible = apierr.New(apierr.Conflict, "invalid_state",
		"Only an ACH payment that the bank paid can be reversed, once, and not after its return.")
	ErrReversalLate = apierr.New(apierr.Conflict, "invalid_state",
		"More than five banking days have passed since the payment settled. Ask the payee or the payee's bank.")
	ErrReversalReason = apierr.New(apierr.Invalid, "invalid_parameter",
		"A payment can be reversed only if it is a duplicate, or has a wrong payee, amount or date.")
)

// Reversal is the reversal of a payment in a file.
type Reversal struct {
	CompanyID string
	FileID    string // file of the payment
	Position  int    // position of the payment in its file
	Payment   string // reference of the payment, such as S0000012P00003
	Reason    string
	State     string
	Code      string // reason of a return, such as R02
	Number    int64  // number of the reversal's own file; 0 before it is written
	Amount    money.Amount
	At        time.Time // time of the approval
	collected bool
}

// reversalDays is the number of banking days after the settlement within which a reversal must settle.
const reversalDays = 5

// lastReversal returns the last day on which the reversal of a payment can settle, given the payment's settlement
// day.
func lastReversal(settled time.Time) time.Time {
	day := settled
	for range reversalDays {
		day = FederalReserve.nextBusinessDay(day.AddDate(0, 0, 1))
	}
	return day
}

// settlement returns the day on which the payments of a file settled: the later one of the stated day and the day of
// the submission.
func (f File) settlement() (time.Time, error) {
	return time.Parse(time.DateOnly, max(f.Execute, f.SentAt.Format(time.DateOnly)))
}

// Reversible returns the reversal of a payment for a reason, without storing it. It returns ErrNotReversible,
// ErrReversalLate or ErrReversalReason if the payment cannot be reversed now.
func Reversible(ctx context.Context, tx *db.Tx, of, reason string) (Reversal, error) {
	at, ok := FindReference(strings.TrimSpace(of))
	if !ok || at.Position == 0 {
		return Reversal{}, ErrNotReversible
	}
	if !slices.Contains(ReversalReasons, reason) {
		return Reversal{}, ErrReversalReason
	}
	f, err := Find(ctx, tx, at.File)
	if errors.Is(err, db.ErrNoRows) {
		return Reversal{}, ErrNotReversible
	}
	if err != nil {
		return Reversal{}, err
	}
	all, err := payments(ctx, tx, f)
	if err != nil {
		return Reversal{}, err
	}
	i := slices.IndexFunc(all, func(p *payment) bool { return p.position == at.Position })
	if i < 0 || f.Kind != KindPayments || f.State != Sent || all[i].state != Paid {
		return Reversal{}, ErrNotReversible
	}
	ach, err := f.byACH(ctx, tx, at.Position)
	if err == nil && !ach {
		err = ErrNotReversible
	}
	if err != nil {
		return Reversal{}, err
	}
	r := Reversal{CompanyID: f.CompanyID, FileID: f.ID, Position: at.Position,
		Payment: PaymentReference(at.File, at.Position), Reason: reason, State: ReversalApproved, Amount: all[i].amount}
	if _, err := reversalOf(ctx, tx, r.FileID, r.Position); !errors.Is(err, db.ErrNoRows) {
		if err == nil {
			err = ErrNotReversible
		}
		return r, err
	}
	settled, err := f.settlement()
	if err != nil {
		return r, err
	}
	if tx.Now().After(lastReversal(settled).AddDate(0, 0, 1)) {
		return r, ErrReversalLate
	}
	return r, nil
}

// byACH reports whether an executed payment of a file is an ACH transfer.
func (f File) byACH(ctx context.Context, tx *db.Tx, position int) (bool, error) {
	if !strings.HasSuffix(f.Name, apiSuffix) {
		return strings.HasSuffix(f.Name, nachaSuffix), nil
	}
	t, err := getTransfer(ctx, tx, f, position)
	return t.method == methodACH && t.id != "", err
}

// Reverse stores the approved reversal of a payment. It returns the errors of Reversible.
func Reverse(ctx context.Context, tx *db.Tx, of, reason string) error {
	r, err := Reversible(ctx, tx, of, reason)
	if err != nil {
		return err
	}
	return insertReversal(ctx, tx, r)
}

// makeReversals writes each approved reversal to a file. Each has a transaction of its own, so that a reversal that
// cannot be written does not delay the others.
func (r *Rail) makeReversals(ctx context.Context, d *db.DB) error {
	var all []Reversal
	if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		approved, err := reversalsIn(ctx, tx, ReversalApproved)
		if err != nil || len(approved) == 0 {
			return err
		}
		why, err := payout.PayoutsAllowed(ctx, tx, r.c.Log, money.USD)
		if err == nil && why == "" {
			all = approved
		}
		return err
	}); err != nil {
		return err
	}
	var failed []error
	for _, v := range all {
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return r.makeReversal(ctx, tx, v) })
		if err != nil {
			failed = append(failed, fmt.Errorf("reversal of %s: %w", v.Payment, err))
		}
	}
	return errors.Join(failed...)
}

func (r *Rail) makeReversal(ctx context.Context, tx *db.Tx, v Reversal) error {
	at, _ := FindReference(v.Payment)
	was, err := lock(ctx, tx, at.File) // makes responses about the payment wait
	if err != nil {
		return err
	}
	if v, err = reversalOf(ctx, tx, was.ID, at.Position); err != nil || v.State != ReversalApproved {
		return err // another process wrote it
	}
	a, day, err := r.reverses(was, tx.Now())
	if err != nil {
		return err
	}
	if why, err := v.refuses(ctx, tx, was, day); err != nil || why != "" {
		return r.expire(ctx, tx, v, why, err)
	}
	if v.Number, err = NextNumber(ctx, tx); err != nil {
		return err
	}
	suffix, encode := nachaSuffix, r.encodeReversal
	if a.ByAPI() {
		suffix, encode = apiSuffix, r.encodeReversalByAPI
	}
	made, err := encode(ctx, tx, a, was, v, day)
	if err != nil {
		return err
	}
	f := File{CompanyID: v.CompanyID, ID: tx.NewID("bfl"), Number: v.Number, Account: a.ID, Currency: a.Currency,
		Name: FileReference(v.Number) + suffix, Total: money.Zero(a.Currency), Payments: 1,
		Execute: day.Format(time.DateOnly), Checksum: checksum(made), State: Prepared, Version: 1, Kind: KindReversals}
	if f.sealed, err = r.c.Sealer.Seal(sealedAt(f), made); err != nil {
		return err
	}
	outs := []payout.Output{{ID: v.Payment, Amount: money.Zero(a.Currency)}}
	if err := insertFile(ctx, tx, f, outs, []int{1}); err != nil {
		return err
	}
	v.State = ReversalOrdered
	if err := storeReversal(ctx, tx, v); err != nil {
		return err
	}
	enqueueSend(tx, f, tx.Now())
	return nil
}

// reverses returns the account that can reverse payments of a file, and the day on which a reversal that is sent now
// settles.
func (r *Rail) reverses(was File, now time.Time) (a Account, day time.Time, err error) {
	i := slices.IndexFunc(r.c.Accounts, func(a Account) bool {
		return a.ID == was.Account && (a.Format == FormatNACHA || a.ByAPI())
	})
	if i < 0 {
		return a, day, fmt.Errorf("the account %s is not configured", was.Account)
	}
	a = r.c.Accounts[i]
	if day = a.executionDay(now); a.ByAPI() { // on the same day, or the next banking day
		day = FederalReserve.nextBusinessDay(day.AddDate(0, 0, 1))
	}
	return a, day, nil
}

// encodeReversal returns the NACHA file of a reversal, with the data of the payment's file.
func (r *Rail) encodeReversal(_ context.Context, tx *db.Tx, a Account, was File, v Reversal, day time.Time) ([]byte,
	error) {
	body, err := was.Body(r.c.Sealer)
	if err != nil {
		return nil, err
	}
	entry, payer, ok := nacha.Find(body, v.Payment)
	if !ok || entry.Cents != v.Amount.Units() {
		return nil, errors.New("its file does not contain the payment")
	}
	entry.ID, entry.Reversal, entry.Description, entry.Effective = PaymentReference(v.Number, 1), true, nacha.Reversal, day
	out := a.nacha(v.Number, tx.Now())
	out.Payer, out.Entries = payer, []nacha.Entry{entry}
	return out.Write()
}

// encodeReversalByAPI returns the stored order of a reversal at a bank with an API, with the data of the payment.
func (r *Rail) encodeReversalByAPI(ctx context.Context, tx *db.Tx, _ Account, was File, v Reversal, _ time.Time) (
	[]byte, error,
) {
	body, err := was.Body(r.c.Sealer)
	if err != nil {
		return nil, err
	}
	var stored []storedOrder
	if err := json.Unmarshal(body, &stored); err != nil {
		return nil, err
	}
	t, err := getTransfer(ctx, tx, was, v.Position)
	if err != nil {
		return nil, err
	}
	if v.Position > len(stored) || stored[v.Position-1].Units != v.Amount.Units() {
		return nil, errors.New("its file does not contain the payment")
	}
	one := stored[v.Position-1]
	one.Reverses, one.Reason = t.id, v.Reason
	return json.Marshal([]storedOrder{one})
}

// refuses returns the reason why a reversal that would settle on a day must not be sent, or "". was is the locked
// file of the payment.
func (v Reversal) refuses(ctx context.Context, tx *db.Tx, was File, day time.Time) (string, error) {
	all, err := payments(ctx, tx, was)
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(all, func(p *payment) bool { return p.position == v.Position && p.state == Paid }) {
		return "the payment came back", nil
	}
	settled, err := was.settlement()
	if err == nil && day.After(lastReversal(settled)) {
		return "it is too late", nil
	}
	return "", err
}

// expire records that a reversal was not sent.
func (r *Rail) expire(ctx context.Context, tx *db.Tx, v Reversal, why string, err error) error {
	if err != nil {
		return err
	}
	v.State = ReversalExpired
	r.c.Log.ErrorContext(ctx, "a reversal was not sent", "payment", v.Payment, "reason", why)
	return storeReversal(ctx, tx, v)
}

// recheckReversal returns the reason why the file of a reversal, which may have waited for long, must no longer be
// sent, or "". If the bank cannot have the file, the reversal and its file end.
func (r *Rail) recheckReversal(ctx context.Context, tx *db.Tx, f File) (why string, err error) {
	v, err := findReversal(ctx, tx, f.Number)
	if err != nil {
		return "", err
	}
	at, _ := FindReference(v.Payment)
	was, err := lock(ctx, tx, at.File) // locked before its reversal, in the same order as for a response
	if err != nil {
		return "", err
	}
	now, err := lock(ctx, tx, f.Number)
	if err != nil {
		return "", err
	}
	if v, err = reversalByNumber(ctx, tx, f.Number); err != nil {
		return "", err
	}
	_, day, err := r.reverses(f, tx.Now())
	if err != nil {
		return "", err
	}
	if why, err = v.refuses(ctx, tx, was, day); err != nil || why == "" {
		return why, err
	}
	if now.State != Prepared {
		return why, nil
	}
	debits, err := payments(ctx, tx, now)
	if err != nil {
		return why, err
	}
	for _, p := range debits {
		p.state, p.reason = Rejected, why
	}
	if err := errors.Join(storePayments(ctx, tx, now, debits), now.advance(ctx, tx, Refused, why)); err != nil {
		return why, err
	}
	return why, r.expire(ctx, tx, v, why, nil)
}

// applyReversal applies a fact about a file with a reversal.
func (b *fileUpdate) applyReversal(p *payment, f fact) {
	switch {
	case f.kind == returned && p.state != Returned:
		p.state, p.reason, b.changed[p.position] = Returned, f.code, p
		b.reversal = ReversalReturned
	case f.kind == rejected && p.state == Ordered:
		p.state, p.reason, b.changed[p.position] = Rejected, f.code, p
		b.reversal = ReversalRefused
	}
	b.reversalCode = f.code
}

// writeReversal stores the result of a reversal that a response reports.
func (b *fileUpdate) writeReversal(ctx context.Context, tx *db.Tx) error {
	if b.reversal == "" {
		return nil
	}
	v, err := reversalByNumber(ctx, tx, b.f.Number)
	if err != nil {
		return err
	}
	v.State, v.Code = b.reversal, b.reversalCode
	return storeReversal(ctx, tx, v)
}

// CollectReversal records that the money of a reversal came back: a credit on the operator's account names the
// reversal's file and has exactly its amount. It returns the company that paid the reversed payment, or "" if there
// is no such reversal or its money came back before.
func CollectReversal(ctx context.Context, tx *db.Tx, number int64, a money.Amount) (companyID string, err error) {
	v, err := reversalByNumber(ctx, tx, number)
	if errors.Is(err, db.ErrNoRows) || err == nil && (v.Amount != a || v.collected) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	v.collected = true
	if v.State == ReversalOrdered {
		v.State = ReversalCollected
	}
	return v.CompanyID, storeReversal(ctx, tx, v)
}
