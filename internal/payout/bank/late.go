package bank

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
)

// A file states the day, and the window of same-day ACH, in which the bank executes it. Banks refuse a file whose day
// has passed. So a file that waited for too long, for example because payouts were paused, is withdrawn before the
// bank can see it, and its payments, prenotes or reversal are written to a new file.

// reasonLate is the reason of payments whose file was not sent in time for its day.
const reasonLate = "not_sent_in_time"

// CodeDay is the code with which a bank refuses a file whose stated day is not possible.
const CodeDay = "DT01"

// accountOf returns the account that executes a file, or false if the account is not configured.
func (r *Rail) accountOf(f File) (Account, bool) {
	i := slices.IndexFunc(r.c.Accounts, func(a Account) bool {
		return a.ID == f.Account && a.Currency == f.Currency && !a.ByAPI() &&
			(a.Format == FormatNACHA) == strings.HasSuffix(f.Name, nachaSuffix)
	})
	if i < 0 {
		return Account{}, false
	}
	return r.c.Accounts[i], true
}

// late reports whether a bank that receives a file with the given content now cannot execute all of it at the stated
// times.
func (a Account) late(f File, body []byte, now time.Time) bool {
	first := a.executionDay(now).Format(time.DateOnly)
	switch {
	case f.Instant:
		return f.Execute < a.Day(now) || !a.instantAt(now)
	case a.Format != FormatNACHA:
		return f.Execute < first
	}
	return slices.ContainsFunc(nacha.Schedules(body), func(s nacha.Schedule) bool {
		day := s.Effective.Format(time.DateOnly)
		if s.Window == "" {
			return day < first
		}
		i := a.sameDayWindow(now, 0)
		return day < a.Day(now) || day == a.Day(now) && (i < 0 || nacha.SameDayWindows[i].Date > s.Window)
	})
}

// withdraw ends a prepared file that the bank has not seen. Its payments are queued again; its prenotes and its
// reversal wait for another file.
func (r *Rail) withdraw(ctx context.Context, tx *db.Tx, was File) error {
	f, err := lock(ctx, tx, was.Number)
	if err != nil || f.State != Prepared {
		return err
	}
	r.c.Log.WarnContext(ctx, "a bank file was not sent in time; its payments are written to a new one", "file", f.Name,
		"day", f.Execute)
	b, err := newFileUpdate(ctx, tx, f, r.returnFee(f))
	if err != nil {
		return err
	}
	for _, p := range b.all {
		if err := b.writeAgain(ctx, tx, p); err != nil {
			return err
		}
	}
	return b.write(ctx, tx)
}

// writeAgain removes a payment, prenote or reversal from its file, so that it is written to another file. The bank
// has not executed it from this file and never will.
func (b *fileUpdate) writeAgain(ctx context.Context, tx *db.Tx, p *payment) error {
	if p.state != Ordered {
		return nil
	}
	p.state, p.reason, b.changed[p.position] = Rejected, reasonLate, p
	switch b.f.Kind {
	case KindPrenotes:
		n, err := lockPrenote(ctx, tx, p.output)
		if err != nil || n.state != prenoteOrdered || n.fileID != b.f.ID {
			return err
		}
		n.state, n.fileID, n.until = prenoteNew, "", time.Time{}
		return storePrenote(ctx, tx, n)
	case KindReversals:
		v, err := reversalByNumber(ctx, tx, b.f.Number)
		if err != nil || v.State != ReversalOrdered {
			return err
		}
		v.State, v.Number = ReversalApproved, 0
		return storeReversal(ctx, tx, v)
	}
	b.requeued[p.output] = reasonLate
	b.lines = append(b.lines, ledger.Debit(ledger.InTransit, b.f.ID, p.amount),
		ledger.Credit(ledger.OutputPayable, p.output, p.amount))
	return nil
}

// refusedDay reports whether a fact states that the bank refuses a file or a payment because its day has passed: the
// file was sent in time but reached the bank too late.
func (r *Rail) refusedDay(f File, x fact, now time.Time) bool {
	a, ok := r.accountOf(f)
	return ok && x.kind == rejected && x.code == CodeDay &&
		(f.Execute < a.executionDay(now).Format(time.DateOnly) && !f.Instant || f.Execute < a.Day(now))
}
