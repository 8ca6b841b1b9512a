package claim_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	bitcoinrail "github.com/stipend/stipend/internal/payout/bitcoin"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
)

// Concurrent requests are counted together, in whichever transactions they are.
func TestLimitsHoldForClaimsThatAreMadeAtOnce(t *testing.T) {
	for _, c := range []struct {
		name               string
		perMinute, maxOpen int64
		refused            error
	}{
		{"a minute", 7, 0, claim.ErrTooOften},
		{"open", 0, 7, claim.ErrTooManyOpen},
	} {
		t.Run(c.name, func(t *testing.T) {
			dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
				till := newTill(t, d, clock, simLab{bitcoinsim.New(d)})
				till.claims.PerMinute, till.claims.MaxOpen = c.perMinute, c.maxOpen
				var made atomic.Int64
				var all sync.WaitGroup
				for range 30 {
					all.Go(func() {
						err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
							_, err := till.claims.Create(ctx, tx, till.by, claim.CreateParams{PayerID: "customer",
								AmountText: "100", Currency: "USD"})
							return err
						})
						switch {
						case err == nil:
							made.Add(1)
						case !errors.Is(err, c.refused):
							t.Error(err)
						}
					})
				}
				all.Wait()
				if made.Load() != 7 {
					t.Errorf("%d claims were made, want 7", made.Load())
				}
			})
		})
	}
}

// payouts starts the Bitcoin rail for the till's payouts.
func (x *till) payouts(t *testing.T, c chain.Source) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	rail, err := bitcoinrail.New(bitcoinrail.Config{Chain: network, Source: c, Pool: x.claims.Pool, Signer: x.keys,
		Log: log, FeeMaxAge: 10_000 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	rails, err := payout.New(rail)
	if err != nil {
		t.Fatal(err)
	}
	if err := rail.RefreshFees(t.Context(), x.d); err != nil {
		t.Fatal(err)
	}
	table := rails.Jobs()
	maps.Copy(table, job.Table{
		chain.JobOutput: {Batch: deposit.OutputsChanged}, deposit.JobChanged: {Batch: x.claims.Follow},
		quote.JobExpired: {Batch: x.claims.QuoteExpired},
		claim.JobMonitor: {Batch: x.claims.Monitor}, claim.JobRefund: {Tx: x.claims.Send},
		payout.JobChanged: {Tx: x.claims.PayoutChanged},
	})
	x.jobs = job.NewRunner(x.d, table, nil, log)
}

func (x *till) settings(t *testing.T, c claim.Change) {
	t.Helper()
	x.write(t, func(ctx context.Context, tx *db.Tx) error {
		_, err := x.claims.ChangeSettings(ctx, tx, x.by, "", c)
		return err
	})
}

func (x *till) settlements(t *testing.T) (all []claim.Settlement) {
	t.Helper()
	x.write(t, func(ctx context.Context, tx *db.Tx) (err error) {
		all, _, err = x.claims.Settlements(ctx, tx, x.by, "", 1, 100)
		return err
	})
	return all
}

// A schedule settles the balance a day or a week after its last settlement, and nothing twice.
func TestSettlementsKeepTheirSchedule(t *testing.T) {
	for schedule, every := range map[string]time.Duration{"daily": 24 * time.Hour, "weekly": 7 * 24 * time.Hour} {
		t.Run(schedule, func(t *testing.T) {
			dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
				till := newTill(t, d, clock, simLab{bitcoinsim.New(d)})
				sell := func() {
					s := till.open(t)
					s.pay(full)
					s.mine(1)
					s.is(claim.Paid)
				}
				due := func(want int, why string) {
					t.Helper()
					if err := till.claims.SettleDue(t.Context(), d); err != nil {
						t.Fatal(err)
					}
					if got := till.settlements(t); len(got) != want {
						t.Fatalf("%s: %d settlements, want %d", why, len(got), want)
					}
				}
				sell()
				due(0, "manually, the default")
				till.settings(t, claim.Change{Schedule: &schedule})
				due(1, "at once when it is chosen")
				if x := till.settlements(t)[0]; x.Amount != money.New(money.USD, 99_00) || x.WithdrawalID != "" {
					t.Errorf("settled %s %s, %s", x.Amount, x.Amount.Asset(), x.WithdrawalID)
				}
				sell()
				due(1, "its time has not come")
				clock.Advance(every - time.Second)
				due(1, "a second before")
				clock.Advance(time.Second)
				due(2, "in time")
				due(2, "asked again")
				clock.Advance(every)
				due(2, "nothing came")
				sell()
				clock.Advance(every)
				due(3, "the time after")
				till.checkBooks(t)
			})
		})
	}
}

// A company that cannot be settled does not delay others.
func TestEachCompanyIsSettledByItself(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		till := newTill(t, d, clock, simLab{bitcoinsim.New(d)})
		till.write(t, func(ctx context.Context, tx *db.Tx) error { // a company that does not exist
			_, err := tx.Exec(ctx,
				`INSERT INTO merchant_settings (company_id, tolerance_bps, confirmations, late_policy, grace_seconds, settle_in,
					origins, schedule,
				destination_id, version, updated_at) VALUES ('a', 0, 1, 'manual', 0, '', '[]', 'daily', '', 1, 0)`)
			return err
		})
		daily := "daily"
		till.settings(t, claim.Change{Schedule: &daily})
		s := till.open(t)
		s.pay(full)
		s.mine(1)
		s.is(claim.Paid)
		if err := till.claims.SettleDue(t.Context(), d); err == nil {
			t.Error("no error for the company that could not be settled")
		}
		if all := till.settlements(t); len(all) != 1 {
			t.Errorf("%d settlements of the other, want 1", len(all))
		}
	})
}

// refund offers the refundable amount to the payer, who accepts it at an address.
func (s *sale) refund(to string) {
	s.Helper()
	s.till.write(s.T, func(ctx context.Context, tx *db.Tx) error {
		_, token, err := s.till.claims.Refund(ctx, tx, s.till.by, "", s.id)
		if err != nil {
			return err
		}
		_, err = s.till.claims.Accept(ctx, tx, s.id, token, to)
		return err
	})
	s.must(nil)
}

func (s *sale) refundIs(state claim.RefundState, refunded int64) claim.Refund {
	s.Helper()
	var all []claim.Refund
	s.till.write(s.T, func(ctx context.Context, tx *db.Tx) (err error) {
		all, err = s.till.claims.Refunds(ctx, tx, s.till.by, "", s.id)
		return err
	})
	if c := s.look(); len(all) != 1 || all[0].State != state || c.Refunded.Units() != refunded {
		s.Fatalf("refunds %+v, refunded %s; want one that is %s, and %d", all, c.Refunded, state, refunded)
	}
	return all[0]
}

// A refund whose payout a reorganization removes is owed again until it is confirmed again.
func TestARefundThatTheChainTakesBack(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		world := bitcoinsim.New(d)
		till := newTill(t, d, clock, simLab{world})
		till.payouts(t, world)
		s := till.open(t)
		s.pay(full + 50_000)
		s.mine(6)
		s.is(claim.Paid)
		s.refund(world.Home())
		s.refundIs(claim.RefundAccepted, 0)
		s.mine(6)
		paid := s.refundIs(claim.RefundPaid, 50_000)
		// The payer pays the fee: it is deducted from the refund and credited against the operator's network fee.
		var booked map[string]int64
		till.write(t, func(ctx context.Context, tx *db.Tx) error {
			booked = map[string]int64{}
			rows, err := tx.Query(ctx,
				`SELECT l.code, l.amount FROM ledger_journals j JOIN ledger_lines l ON l.company_id = j.company_id
					AND l.journal_id = j.journal_id
				WHERE j.company_id = $1 AND j.source_id = $2 AND j.purpose = $3`, till.company, s.id, "refund:"+paid.ID)
			_, err = db.Collect(rows, err, func(r *db.Rows) (code string, err error) {
				var amount int64
				err = r.Scan(&code, &amount)
				booked[code] += amount
				return code, err
			})
			return err
		})
		fee := paid.Fee.Units()
		if diff := cmp.Diff(map[string]int64{"2400": 50_000, "2110": fee - 50_000, "5000": -fee},
			booked); diff != "" || fee <= 0 {
			t.Errorf("a fee of %d (-want +booked):\n%s", fee, diff)
		}
		s.reorg(6)
		s.refundIs(claim.RefundAccepted, 0)
		s.is(claim.Paid)
		s.mine(7)
		if again := s.refundIs(claim.RefundPaid, 50_000); again.TxHash != paid.TxHash {
			t.Errorf("paid by %s, then by %s", paid.TxHash, again.TxHash)
		}
		till.checkBooks(t)
	})
}

// A refund waits while its address is on a sanctions list, and above the release limit until two staff members
// release it.
func TestMoneyThatSomebodyHasToLookAtWaits(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		world := bitcoinsim.New(d)
		till := newTill(t, d, clock, simLab{world})
		till.payouts(t, world)
		to := world.Home()
		var held, released atomic.Bool
		held.Store(true)
		till.guards.Screen = func(_ context.Context, _ *db.Tx, companyID, _, address string) (bool, error) {
			if companyID != till.company || address != to {
				t.Errorf("asked about %s of %s", address, companyID)
			}
			return held.Load(), nil
		}
		till.guards.ReleaseApproved = func(context.Context, *db.Tx, string, string, money.Amount) (bool,
			error) {
			return released.Load(), nil
		}
		inBTC := "BTC"
		till.settings(t, claim.Change{SettleIn: &inBTC})
		till.settle(t)
		s := till.open(t)
		s.pay(full + 50_000)
		s.mine(6)
		s.is(claim.Paid)
		s.refund(to)
		waits := func(withheld bool) (r claim.Refund) {
			t.Helper()
			for range 3 {
				s.after(10 * time.Minute)
				s.mine(6)
			}
			if r = s.refundIs(claim.RefundAccepted, 0); r.TxHash != "" || r.Withheld != withheld {
				t.Errorf("the refund went out in %q, or withheld: %t", r.TxHash, r.Withheld)
			}
			till.write(t, func(ctx context.Context, tx *db.Tx) error {
				waiting, err := claim.AwaitsRelease(ctx, tx, till.company, r.ID)
				if waiting != withheld {
					t.Errorf("for operators it waits: %t", waiting)
				}
				return err
			})
			return r
		}
		waits(false)
		held.Store(false)
		r := waits(true)
		released.Store(true)
		till.write(t, func(ctx context.Context, tx *db.Tx) error { return claim.Retry(ctx, tx, till.company, r.ID) })
		for range 2 {
			s.after(time.Second)
			s.mine(6)
		}
		if r := s.refundIs(claim.RefundPaid, 50_000); r.Withheld {
			t.Error("still withheld")
		}
		if left := s.balance(ledger.RefundPayable, s.id, money.BTC); left != 0 {
			t.Errorf("%d satoshis are still owed", left)
		}
		till.checkBooks(t)
	})
}

// However deep a reorganization is, once the chain has the payments again, the result is the same as without it.
func reorganisationsChangeNothing(t *testing.T, till *till) {
	for depth := 1; depth <= 6; depth++ {
		late := till.open(t)
		late.after(validity)
		exact, parts, little, much := till.open(t), till.open(t), till.open(t), till.open(t)
		all := []*sale{late, exact, parts, little, much}
		parts.pay(80_000)
		parts.send(chain.Output{Address: late.address, Amount: full}, chain.Output{Address: exact.address,
			Amount: full},
			chain.Output{Address: parts.address, Amount: 120_000}, chain.Output{Address: little.address,
				Amount: 150_000},
			chain.Output{Address: much.address, Amount: full + 50_000})
		exact.mine(depth)
		straight := till.snapshot(t, all)
		exact.reorg(depth)
		for _, s := range all {
			if c := s.look(); c.State == claim.Paid || c.State == claim.PaidLate {
				t.Errorf("%d blocks deep: claim %s is still %s", depth, s.id, c.State)
			}
		}
		exact.mine(depth)
		if diff := cmp.Diff(straight, till.snapshot(t, all)); diff != "" {
			t.Errorf("%d blocks deep (-without +with the reorganisation):\n%s", depth, diff)
		}
		till.checkBooks(t)
	}
}

// snapshot returns the final states of claims and the balance of every account of the merchant.
func (x *till) snapshot(t *testing.T, all []*sale) map[string]string {
	t.Helper()
	at := map[string]string{}
	for i, s := range all {
		c := s.look()
		at[fmt.Sprint("claim ", i)] = fmt.Sprintln(c.State, c.Exception, c.Reverted, c.TxHash, c.Seen, c.Due, c.Rest,
			c.Refunded)
		for _, p := range c.Payments {
			at["payment "+p.TxID+" of "+s.id] = fmt.Sprintln(p.State, p.Amount, p.OnTime)
		}
	}
	if err := x.d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		rows, err := tx.Query(ctx,
			"SELECT code, dim, asset, CAST(SUM(amount) AS BIGINT) FROM ledger_lines WHERE company_id = $1 GROUP BY code, dim, "+
				"asset HAVING SUM(amount) <> 0", x.company)
		_, err = db.Collect(rows, err, func(r *db.Rows) (none struct{}, err error) {
			var code, dim, asset string
			var sum int64
			err = r.Scan(&code, &dim, &asset, &sum)
			at[fmt.Sprintln("account", code, dim, asset)] = fmt.Sprint(sum)
			return none, err
		})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return at
}
