package directdebit_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/testkit"
)

// desk is a bank with an API. It keeps one transfer per key.
type desk struct {
	mu      sync.Mutex
	have    map[string]bank.Transfer
	creates int
	lose    bool // the next answers are lost
	other   bool // the keys belong to other payments
}

var errLost = errors.New("the connection was lost")

func (b *desk) Method(context.Context, bank.Order) (string, error) { return "ach", nil }

func (b *desk) Create(_ context.Context, o bank.Order) (bank.Transfer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.creates++; b.have[o.Key()].ID == "" {
		b.have[o.Key()] = bank.Transfer{ID: "ach_" + o.Key()}
	}
	if b.lose {
		return bank.Transfer{}, errLost
	}
	return b.have[o.Key()], nil
}

func (b *desk) Find(_ context.Context, o bank.Order) (bank.Transfer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.have[o.Key()]
	switch {
	case b.lose:
		return t, errLost
	case b.other:
		return t, bank.ErrOther
	case !ok:
		return t, bank.ErrNoTransfer
	}
	return t, nil
}

func (b *desk) Get(ctx context.Context, o bank.Order, _ string) (bank.Transfer, error) {
	return b.Find(ctx, o)
}

func (b *desk) Statement(context.Context, bank.Account, time.Time, time.Time) (bank.Statement, error) {
	return bank.Statement{}, bank.ErrStatementPending
}

// set sets the status of all transfers.
func (b *desk) set(status bank.TransferStatus, code string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, t := range b.have {
		t.Status, t.Code = status, code
		b.have[key] = t
	}
}

// check runs the periodic work that asks the bank.
func (x *env) check() {
	x.Helper()
	x.Must(x.tryCheck())
}

func (x *env) tryCheck() error {
	x.Clock.Advance(25 * time.Hour)
	for _, p := range x.c.Periodic(x.DB) {
		if p.Name == "direct_debit.check" {
			return p.Run(x.Context())
		}
	}
	return errors.New("nothing checks debits")
}

// openDesk collects by a bank with an API.
func (x *env) openDesk() *desk {
	x.Helper()
	x.UseCompanyOf(bank.ACHCCD)
	accounts := testkit.Must(bank.ReadAccounts(strings.NewReader(`[{"id": "usd", "currency": "USD", "format": "column",
		"name": "Example Payments", "number": "bacc_1",
		"debits": {"schemes": {"ach_ccd": {"notice_days": 2, "hold_days": 5}}}}]`)))
	x.accounts = accounts
	b := &desk{have: map[string]bank.Transfer{}}
	x.s = testkit.Must(directdebit.New(directdebit.Config{Accounts: accounts, Setup: x.setup, AllowUnverified: true,
		Payer: x.payer},
		directdebit.Guards{Stated: x.stated,
			Owns: func(context.Context, *db.Tx, directdebit.Mandate) (bool, error) { return true, nil }}))
	x.c = testkit.Must(directdebit.NewCollector(x.s, nil, map[string]bank.API{"usd": b}, slog.New(slog.DiscardHandler),
		time.Second))
	return b
}

// A debit at a bank with an API is ordered once, although answers are lost and processes send it at the same time, and
// follows what the bank answers.
func TestADebitByAPIIsOrderedOnce(t *testing.T) {
	run(t, func(x *env) {
		b := x.openDesk()
		d := x.create(x.mandate(bank.ACHCCD, "123456"), "80.00")
		x.reach(d)
		b.lose = true
		x.submit(d)
		x.submit(d)
		x.want(d, directdebit.Submitting, directdebit.ReasonUnknown, 0, 0, 0)
		b.lose = false
		var work sync.WaitGroup
		for range 4 {
			work.Go(func() { _ = x.trySubmit(d) })
		}
		work.Wait()
		x.submit(d)
		x.want(d, directdebit.Submitted, "", 0, 0, 0)
		if b.creates != 1 || len(b.have) != 1 {
			x.Errorf("%d calls, %d transfers", b.creates, len(b.have))
		}
		x.check()
		x.want(d, directdebit.Submitted, "", 0, 0, 0)
		b.set(bank.TransferPaid, "")
		for range 2 {
			x.check()
			x.want(d, directdebit.Collected, "", 80_00, 0, 0)
		}
		b.set(bank.TransferReturned, "R29")
		for range 2 {
			x.check()
			x.want(d, directdebit.Returned, "R29", 0, 0, 0)
		}

		refused := x.create(x.mandate(bank.ACHCCD, "123457"), "80.00")
		x.reach(refused)
		x.submit(refused)
		b.set(bank.TransferRejected, "invalid")
		x.check()
		x.want(refused, directdebit.Failed, "invalid", 0, 0, 0)
		x.WantCount(1, "direct_debit_mandates WHERE status = 'suspended'")
	})
}

// Held money is released only after the bank has answered a question about the debit since the hold ended: a return may
// have come while the bank could not be asked.
func TestAHoldGoesOnUntilTheBankAnswers(t *testing.T) {
	for name, returned := range map[string]bool{"nothing came back": false, "it was returned": true} {
		t.Run(name, func(t *testing.T) {
			run(t, func(x *env) {
				b := x.openDesk()
				d := x.create(x.mandate(bank.ACHCCD, "123456"), "80.00")
				x.reach(d)
				x.submit(d)
				b.set(bank.TransferPaid, "")
				x.check()
				x.want(d, directdebit.Collected, "", 80_00, 0, 0)
				b.lose = true
				if returned {
					b.set(bank.TransferReturned, "R29")
				}
				x.Clock.Advance(20 * day)
				for range 2 {
					x.release(d)
					x.want(d, directdebit.Collected, directdebit.ReasonUnanswered, 80_00, 0, 0)
					_ = x.tryCheck() // the bank does not answer
				}
				b.lose = false
				x.release(d) // makes the next question due
				x.check()
				x.release(d)
				if returned {
					x.want(d, directdebit.Returned, "R29", 0, 0, 0)
				} else {
					x.want(d, directdebit.Available, "", 0, 80_00, 0)
				}
			})
		})
	}
}

// If the bank has another payment under the key of a debit, payouts are paused, as for payments.
func TestAKeyOfAnotherDebitPausesPayouts(t *testing.T) {
	for name, sent := range map[string]bool{"when it is sent": false, "when it is checked": true} {
		t.Run(name, func(t *testing.T) {
			run(t, func(x *env) {
				b := x.openDesk()
				d := x.create(x.mandate(bank.ACHCCD, "123456"), "80.00")
				x.reach(d)
				b.lose = !sent
				x.submit(d)
				b.lose, b.other = false, true
				x.submit(d)
				_ = x.tryCheck()
				if d = x.get(d); sent != (d.State == directdebit.Submitted) {
					x.Errorf("the debit is %s", d.State)
				}
				x.Read(func(ctx context.Context, tx *db.Tx) error {
					if why, err := payout.Paused(ctx, tx); err != nil || !strings.Contains(why, d.Reference()) {
						x.Errorf("payouts are paused by %q, %v", why, err)
					}
					return nil
				})
			})
		})
	}
}
