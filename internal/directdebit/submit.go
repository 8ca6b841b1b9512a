package directdebit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
)

// Times for checks of a debit at a bank with an API: the shortest and the longest interval, and the end. A debit is
// checked until its hold ends, and then as long as a consumer can still dispute it.
const (
	firstCheck   = time.Minute
	longestCheck = 24 * time.Hour
	checksEnd    = 65 * 24 * time.Hour
	// keyLife is the age after which a call is not repeated: banks keep idempotency keys for 30 days.
	keyLife = 25 * 24 * time.Hour
)

// submit sends a debit to the bank (job direct_debit.submit), outside of a transaction.
func (s *Collector) submit(ctx context.Context, d *db.DB, j job.Job) error {
	var in debitPayload
	if err := j.Decode(&in); err != nil {
		return err
	}
	var x Debit
	var a bank.Account
	send := false
	if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		x, a, send, err = s.prepare(ctx, tx, j.CompanyID, in.DebitID)
		return err
	}); err != nil || !send {
		return err
	}
	if a.ByAPI() {
		return s.submitByAPI(ctx, d, x, a)
	}
	return s.submitFile(ctx, d, x)
}

// waits returns the reason why a debit must not be sent now, or "".
func (s *Collector) waits(ctx context.Context, tx *db.Tx, x Debit) (string, error) {
	company, err := identity.CompanyByID(ctx, tx, x.CompanyID)
	if err != nil {
		return "", err
	}
	if company.Active() != nil {
		return ReasonFrozen, nil //nolint:nilerr // the reason is returned
	}
	why, err := payout.PayoutsAllowed(ctx, tx, s.log, x.Amount.Asset())
	if why != "" {
		return ReasonPaused, err
	}
	return "", err
}

// prepare numbers and encodes a scheduled debit and stores the result, or schedules the next attempt. send reports
// whether the debit can be sent, which is also the case if its sending has begun already.
func (s *Collector) prepare(ctx context.Context, tx *db.Tx, companyID, id string) (x Debit, a bank.Account, send bool,
	err error,
) {
	if x, err = lock(ctx, tx, companyID, id); err != nil || x.State != Scheduled && x.State != Submitting {
		return x, a, false, err
	}
	due, err := time.Parse(time.DateOnly, x.DueOn)
	if err != nil {
		return x, a, false, err
	}
	if x.State == Submitting {
		if a, err = s.accountOf(x); err != nil || a.ByAPI() || x.token != "" || !due.Before(a.EarliestDue(tx.Now())) {
			return x, a, err == nil, err
		}
		// The file was not sent in time, so another file with a later due date is made.
		if err := x.advance(ctx, tx, Scheduled, "", "not sent in time"); err != nil {
			return x, a, false, err
		}
	}
	if x.Mandate.State != MandateActive {
		return x, a, false, x.advance(ctx, tx, Cancelled, ReasonMandate, "")
	}
	why, err := s.waits(ctx, tx, x)
	if err != nil {
		return x, a, false, err
	}
	if why != "" {
		return x, a, false, s.wait(ctx, tx, &x, why)
	}
	if a, err = s.account(x.Mandate.Scheme); err != nil {
		return x, a, false, err
	}
	if due.Before(a.EarliestDue(tx.Now())) {
		return x, a, false, s.postpone(ctx, tx, &x, a)
	}
	if at := a.SubmitAt(due); tx.Now().Before(at) { // this job was enqueued before the debit was postponed
		x.enqueue(tx, jobSubmit, at)
		return x, a, false, nil
	}
	order, err := s.order(ctx, tx, x, due)
	if err != nil {
		return x, a, false, err
	}
	if order.International() { // the company is no longer in the United States
		return x, a, false, x.advance(ctx, tx, Cancelled, bank.ReasonInternational, "")
	}
	if order.LacksAddress() {
		return x, a, false, s.wait(ctx, tx, &x, ReasonAddress)
	}
	if order.Sequence, err = x.sequence(ctx, tx); err != nil {
		return x, a, false, err
	}
	if x.number, err = bank.NextNumber(ctx, tx); err != nil {
		return x, a, false, err
	}
	made, err := a.EncodeDebit(x.number, tx.Now(), order)
	if err != nil {
		return x, a, false, fmt.Errorf("direct debit %s: %w", x.ID, err)
	}
	x.account, x.name, x.checksum = a.ID, made.Name, checksum(made.Body)
	if x.sealed, err = s.c.Setup.Sealer.Seal(x.sealPlace(), made.Body); err != nil {
		return x, a, false, err
	}
	if err := x.Mandate.used(ctx, tx); err != nil {
		return x, a, false, err
	}
	return x, a, true, x.advance(ctx, tx, Submitting, "", "")
}

// wait schedules the next attempt to send a debit that must not be sent now.
func (s *Collector) wait(ctx context.Context, tx *db.Tx, x *Debit, why string) error {
	x.enqueue(tx, jobSubmit, tx.Now().Add(waitInterval))
	if x.Reason == why {
		return nil
	}
	return x.advance(ctx, tx, Scheduled, why, "")
}

// postpone gives a debit whose due date the bank can no longer meet a new due date. It announces the debit again,
// with the notice that the mandate promises, and schedules its submission.
func (s *Collector) postpone(ctx context.Context, tx *db.Tx, x *Debit, a bank.Account) error {
	due := a.DueDate(x.Mandate.Scheme, tx.Now(), time.Time{})
	x.DueOn = due.Format(time.DateOnly)
	if err := x.advance(ctx, tx, Scheduled, "", "due later"); err != nil {
		return err
	}
	x.enqueue(tx, jobSubmit, a.SubmitAt(due))
	return x.notify(ctx, tx, mail.DebitAnnounced)
}

func checksum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// used records that a mandate was used now.
func (m *Mandate) used(ctx context.Context, tx *db.Tx) error { return setUsed(ctx, tx, m, tx.Now()) }

// submitFile stages and releases the file of a debit. Only the process that stored the debit's token releases its
// staged copy.
func (s *Collector) submitFile(ctx context.Context, d *db.DB, x Debit) error {
	if x.token == "" {
		if claimed, err := s.stage(ctx, d, &x); err != nil || !claimed {
			return err
		}
	}
	answer := s.drop.Release(ctx, x.name, x.token)
	if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		now, err := lock(ctx, tx, x.CompanyID, x.ID)
		if err != nil || now.State != Submitting || now.token != x.token {
			return err
		}
		if answer.Outcome == payout.Accepted {
			return now.advance(ctx, tx, Submitted, "", "")
		}
		s.log.ErrorContext(ctx, "the outcome of a direct debit is unknown", "debit_id", x.ID, "file", x.name,
			"attempts", now.attempts+1, "reason", answer.Reason)
		return s.unknown(ctx, tx, now)
	}); err != nil || answer.Outcome != payout.Accepted || s.sent == nil {
		return err
	}
	return s.sent(ctx, d)
}

// unknown records that the bank may have a debit, and schedules the next attempt to find out.
func (s *Collector) unknown(ctx context.Context, tx *db.Tx, x Debit) error {
	if x.Reason != ReasonUnknown {
		if err := x.advance(ctx, tx, Submitting, ReasonUnknown, ""); err != nil {
			return err
		}
	}
	return s.again(ctx, tx, x)
}

// again schedules the next attempt to send a debit.
func (s *Collector) again(ctx context.Context, tx *db.Tx, x Debit) error {
	x.enqueue(tx, jobSubmit, tx.Now().Add(payout.Backoff(s.retry, x.attempts)))
	return countAttempt(ctx, tx, x)
}

// stage writes a copy of the file to the drop and records its token. It returns false if this process must not
// release the copy.
func (s *Collector) stage(ctx context.Context, d *db.DB, x *Debit) (claimed bool, err error) {
	body, err := s.c.Setup.Sealer.Open(x.sealPlace(), x.sealed)
	if err != nil {
		return false, err
	}
	if checksum(body) != x.checksum {
		return false, fmt.Errorf("direct debit %s: the file does not match its checksum", x.ID)
	}
	token := ""
	if err := d.Write(ctx, func(_ context.Context, tx *db.Tx) error { token = tx.NewID("try"); return nil }); err != nil {
		return false, err
	}
	staged := s.drop.Stage(ctx, x.name, token, body)
	err = d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		claimed = false
		now, err := lock(ctx, tx, x.CompanyID, x.ID)
		if err != nil || now.State != Submitting || now.token != "" || now.number != x.number {
			return err
		}
		if now.Mandate.State != MandateActive { // nothing was sent
			return now.advance(ctx, tx, Cancelled, ReasonMandate, "")
		}
		why, err := s.waits(ctx, tx, now)
		if err != nil {
			return err
		}
		if staged != nil || why != "" {
			s.log.WarnContext(ctx, "cannot send a direct debit now; it is retried", "debit_id", x.ID, "reason", why,
				"error", staged)
			return s.again(ctx, tx, now)
		}
		claimed, err = claim(ctx, tx, now, token)
		return err
	})
	if claimed {
		x.token = token
	}
	return claimed, err
}

// claimAPI is the token of a debit for which the first call to an API was made.
const claimAPI = "api"

var errKeyExpired = errors.New(
	"the outcome has been unknown for too long to repeat the call; ask the bank about the direct debit")

// submitByAPI orders a debit through the bank's API. If an earlier call may have ordered it, submitByAPI asks the
// bank first.
func (s *Collector) submitByAPI(ctx context.Context, d *db.DB, x Debit, a bank.Account) error {
	order, err := s.readOrder(ctx, d, x)
	if err != nil {
		return err
	}
	o, api := a.DebitOrderFor(x.number, order), s.apis[a.ID]
	first, late, why := false, false, ""
	if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		first, late = false, tx.Now().Sub(x.UpdatedAt) > keyLife
		now, err := lock(ctx, tx, x.CompanyID, x.ID)
		if err != nil || now.State != Submitting {
			return err
		}
		if why, err = s.waits(ctx, tx, now); err != nil {
			return err
		}
		switch active := now.Mandate.State == MandateActive; {
		case x.token != "":
			if why == "" && !active {
				why = ReasonMandate
			}
			return nil
		case !active:
			return now.advance(ctx, tx, Cancelled, ReasonMandate, "")
		case why != "":
			return s.again(ctx, tx, now)
		}
		first, err = claim(ctx, tx, now, claimAPI)
		return err
	}); err != nil || !first && x.token == "" {
		return err
	}
	var t bank.Transfer
	if first {
		t, err = api.Create(ctx, o)
	} else if t, err = api.Find(ctx, o); errors.Is(err, bank.ErrNoTransfer) && why == "" {
		if err = errKeyExpired; !late {
			t, err = bank.Repeat(ctx, api, o)
		}
	}
	return d.Write(context.WithoutCancel(ctx), func(ctx context.Context, tx *db.Tx) error {
		now, lockErr := lock(ctx, tx, x.CompanyID, x.ID)
		if lockErr != nil || now.State != Submitting {
			return lockErr
		}
		if err != nil {
			s.log.ErrorContext(ctx, "the outcome of a direct debit is unknown", "debit_id", x.ID, "attempts", now.attempts+1,
				"error", err)
			if err := pauseOther(ctx, tx, o, err); err != nil {
				return err
			}
			return s.unknown(ctx, tx, now)
		}
		return s.recordTransfer(ctx, tx, &now, t, time.Time{})
	})
}

// readOrder returns the order of a debit at a bank with an API.
func (s *Collector) readOrder(ctx context.Context, d *db.DB, x Debit) (o bank.DebitOrder, err error) {
	err = d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		o, err = s.order(ctx, tx, x, time.Time{})
		return err
	})
	return o, err
}

// pauseOther pauses payouts if an error states that the bank has another payment with the key of a debit.
func pauseOther(ctx context.Context, tx *db.Tx, o bank.Order, err error) error {
	if !errors.Is(err, bank.ErrOther) {
		return nil
	}
	return bank.PauseOther(ctx, tx, o.Key())
}

// recordTransfer applies the report of a bank's API about a debit. asked is the time of the question.
func (s *Collector) recordTransfer(ctx context.Context, tx *db.Tx, x *Debit, t bank.Transfer, asked time.Time) error {
	x.transferID, x.checkAt, x.checkedAt = t.ID, nextCheck(tx.Now(), x.CreatedAt), asked
	if x.State == Submitting && t.Status != bank.TransferRejected {
		if err := x.advance(ctx, tx, Submitted, "", ""); err != nil {
			return err
		}
	} else if err := setCheck(ctx, tx, *x); err != nil {
		return err
	}
	f := bank.DebitFact{Number: x.number, Code: t.Code, Info: t.Info}
	switch t.Status {
	case bank.TransferPending:
		return nil
	case bank.TransferPaid:
		f.Outcome = bank.DebitCollected
	case bank.TransferRejected:
		f.Outcome = bank.DebitRejected
	case bank.TransferReturned:
		f.Outcome = bank.DebitReturned
	}
	problem, err := s.apply(ctx, tx, x, f)
	if problem != "" {
		s.log.ErrorContext(ctx, "a bank's response needs a person", "debit_id", x.ID, "problem", problem)
	}
	return err
}

// nextCheck returns the time of the next check of a debit, or the zero time if the checks have ended. The interval
// grows with the age of the debit.
func nextCheck(now, created time.Time) time.Time {
	age := now.Sub(created)
	if age > checksEnd+maxAhead {
		return time.Time{}
	}
	return now.Add(min(max(age/8, firstCheck), longestCheck))
}

// check asks the banks with an API about the debits that are due for a check.
func (s *Collector) check(ctx context.Context, d *db.DB) error {
	var due []Debit
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		due, err = dueForCheck(ctx, tx, 200)
		return err
	}); err != nil {
		return err
	}
	var failed []error
	for _, x := range due {
		if err := s.checkOne(ctx, d, x); err != nil {
			failed = append(failed, fmt.Errorf("direct debit %s: %w", x.ID, err))
		}
	}
	return errors.Join(failed...)
}

func (s *Collector) checkOne(ctx context.Context, d *db.DB, x Debit) error {
	a, err := s.accountOf(x)
	if err != nil {
		return err
	}
	order, err := s.readOrder(ctx, d, x)
	if err != nil {
		return err
	}
	asked, err := d.Now(ctx)
	if err != nil {
		return err
	}
	o := a.DebitOrderFor(x.number, order)
	t, failed := s.apis[a.ID].Get(ctx, o, x.transferID)
	err = d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		now, err := lock(ctx, tx, x.CompanyID, x.ID)
		if err != nil {
			return err
		}
		if failed != nil {
			if err := pauseOther(ctx, tx, o, failed); err != nil {
				return err
			}
			now.checkAt = nextCheck(tx.Now(), now.CreatedAt)
			return setCheck(ctx, tx, now)
		}
		return s.recordTransfer(ctx, tx, &now, t, asked)
	})
	return errors.Join(failed, err)
}
