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
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	bitcoinrail "github.com/stipend/stipend/internal/payout/bitcoin"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

var usd, sats = fixture.USD, fixture.Sats

// settleBalance pays out the merchant's balance. An amount of "" is the whole balance.
func (m *merchant) settleBalance(amount string) claim.Settlement {
	m.Helper()
	return fixture.Do(m.Fixture, func(ctx context.Context, tx *db.Tx) (claim.Settlement, error) {
		return m.claims.Settle(ctx, tx, m.By, "", "USD", amount)
	})
}

// If a reorganization removes a payment after the merchant withdrew it, the company owes it, and later money for the
// claim pays the debt.
func TestReorganizationAfterTheSettlement(t *testing.T) {
	run(t, func(m *merchant) {
		s := m.openPaid("200_000", "1")
		if x := m.settleBalance(""); x.Amount != usd(99_00) || x.WithdrawalID != "" {
			m.Errorf("settled %s, %s", x.Amount, x.WithdrawalID)
		}
		s.Play("reorg 1, evict, is awaiting_payment", s.step)
		s.wantBalances(balances{})
		s.WantBalance(ledger.DueFromCustomer, "", usd(99_00))
		s.Play("pay 200_000, mine 1, is paid", s.step)
		s.wantBalances(balances{revenue: 1_00})
		s.WantBalance(ledger.DueFromCustomer, "", usd(0))
	})
}

// If a reorganization removes several payments at once, the merchant's remaining balance pays for as many as
// possible, and the rest is owed.
func TestReorganizationOfSeveralPaymentsAfterTheSettlement(t *testing.T) {
	run(t, func(m *merchant) {
		a, b := m.open(), m.open()
		a.Pay(chain.Output{Address: a.Address, Amount: full}, chain.Output{Address: b.Address, Amount: full})
		a.Play("mine 1, is paid", a.step)
		b.is(claim.Paid)
		m.settleBalance("100.00")
		a.Play("reorg 1, evict, is awaiting_payment", a.step)
		b.is(claim.AwaitingPayment)
		m.WantBalance(ledger.MerchantPayable, "", usd(0))
		m.WantBalance(ledger.DueFromCustomer, "", usd(100_00))
	})
}

// While a refund waits to be sent, its amount is not offered a second time: it pays the full debt at the time it is
// sent.
func TestOneRefundAtATime(t *testing.T) {
	run(t, func(m *merchant) {
		s := m.openPaid("250_000", "1")
		s.refund(bitcoinsim.New(m.DB).Home())
		m.WantError(claim.ErrRefundDue, func(ctx context.Context, tx *db.Tx) error {
			_, _, err := m.claims.Refund(ctx, tx, m.By, "", s.id)
			return err
		})
	})
}

func TestLimits(t *testing.T) {
	run(t, func(m *merchant) {
		m.claims.PerMinute, m.claims.MaxOpen = 2, 3
		for i, step := range []struct {
			wait time.Duration
			want error
		}{
			{0, nil}, {0, nil}, {0, claim.ErrTooOften}, {time.Minute, nil}, {time.Minute, claim.ErrTooManyOpen},
			{validity, nil}, // the quotes of the open claims expired
		} {
			m.Clock.Advance(step.wait)
			m.Settle(nil)
			if _, err := m.tryCreate(); !errors.Is(err, step.want) {
				m.Errorf("step %d: %v, want %v", i, err, step.want)
			}
		}
	})
}

// The limits count concurrent requests together, although each has its own transaction.
func TestLimitsOfConcurrentRequests(t *testing.T) {
	for _, c := range []struct {
		name               string
		perMinute, maxOpen int64
		refused            error
	}{
		{"claims per minute", 7, 0, claim.ErrTooOften},
		{"open claims", 0, 7, claim.ErrTooManyOpen},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, func(m *merchant) {
				m.claims.PerMinute, m.claims.MaxOpen = c.perMinute, c.maxOpen
				var made atomic.Int64
				var all sync.WaitGroup
				for range 30 {
					all.Go(func() {
						switch _, err := m.tryCreate(); {
						case err == nil:
							made.Add(1)
						case !errors.Is(err, c.refused):
							m.Error(err)
						}
					})
				}
				all.Wait()
				if made.Load() != 7 {
					m.Errorf("%d claims were created, want 7", made.Load())
				}
			})
		})
	}
}

// startPayouts starts the Bitcoin rail for the merchant's payouts.
func (m *merchant) startPayouts(c chain.Source) {
	m.Helper()
	rail, err := bitcoinrail.New(bitcoinrail.Config{Chain: network, Source: c, Pool: m.claims.Pool, Signer: m.keys,
		Log: slog.New(slog.DiscardHandler), FeeMaxAge: 10_000 * time.Hour})
	if err != nil {
		m.Fatal(err)
	}
	rails, err := payout.New(rail)
	if err != nil {
		m.Fatal(err)
	}
	if err := rail.RefreshFees(m.Context(), m.DB); err != nil {
		m.Fatal(err)
	}
	table := rails.Jobs()
	maps.Copy(table, m.jobTable())
	table[claim.JobRefund], table[payout.JobChanged] = job.Entry{Tx: m.claims.Send}, job.Entry{Tx: m.claims.PayoutChanged}
	m.Run(table)
}

func (m *merchant) settlements() (all []claim.Settlement) {
	m.Helper()
	m.Read(func(ctx context.Context, tx *db.Tx) (err error) {
		all, _, err = m.claims.Settlements(ctx, tx, m.By, "", 1, 100)
		return err
	})
	return all
}

// A schedule settles the balance a day or a week after its last settlement, and nothing twice.
func TestScheduledSettlements(t *testing.T) {
	for schedule, every := range map[string]time.Duration{"daily": 24 * time.Hour, "weekly": 7 * 24 * time.Hour} {
		t.Run(schedule, func(t *testing.T) {
			run(t, func(m *merchant) {
				for i, step := range []struct {
					name   string
					sell   bool
					wait   time.Duration
					choose bool
					want   int
				}{
					{name: "without a schedule", sell: true, want: 0},
					{name: "when the schedule is chosen", choose: true, want: 1},
					{name: "before the period ended", sell: true, want: 1},
					{name: "a second before the period ends", wait: every - time.Second, want: 1},
					{name: "when the period ended", wait: time.Second, want: 2},
					{name: "a second time", want: 2},
					{name: "after a period without sales", wait: every, want: 2},
					{name: "after the next period", sell: true, wait: every, want: 3},
				} {
					if step.sell {
						m.openPaid("200_000", "1")
					}
					m.Clock.Advance(step.wait)
					if step.choose {
						m.change(claim.Change{Schedule: &schedule})
					}
					if err := m.claims.SettleDue(m.Context(), m.DB); err != nil {
						m.Fatal(err)
					}
					all := m.settlements()
					if len(all) != step.want {
						m.Fatalf("%s: %d settlements, want %d", step.name, len(all), step.want)
					}
					if i == 1 && (all[0].Amount != usd(99_00) || all[0].WithdrawalID != "") {
						m.Errorf("settled %+v", all[0])
					}
				}
			})
		})
	}
}

// A company that cannot be settled does not delay others.
func TestAFailedSettlementDoesNotDelayOtherCompanies(t *testing.T) {
	run(t, func(m *merchant) {
		m.Exec(`INSERT INTO merchant_settings (company_id, tolerance_bps, confirmations, late_policy, grace_seconds,
				settle_in, origins, schedule, destination_id, version, updated_at)
			VALUES ('no such company', 0, 1, 'manual', 0, '', '[]', 'daily', '', 1, 0)`)
		daily := "daily"
		m.change(claim.Change{Schedule: &daily})
		m.openPaid("200_000", "1")
		if err := m.claims.SettleDue(m.Context(), m.DB); err == nil {
			m.Error("no error for the company that could not be settled")
		}
		if all := m.settlements(); len(all) != 1 {
			m.Errorf("%d settlements of the other company, want 1", len(all))
		}
	})
}

// refund offers the refundable amount to the payer, who accepts it at an address.
func (s *sale) refund(to string) {
	s.Helper()
	s.Write(func(ctx context.Context, tx *db.Tx) error {
		_, token, err := s.m.claims.Refund(ctx, tx, s.m.By, "", s.id)
		if err != nil {
			return err
		}
		_, err = s.m.claims.Accept(ctx, tx, s.id, token, to)
		return err
	})
	s.m.Settle(nil)
}

// refundIs returns the only refund of the claim, which must have the state.
func (s *sale) refundIs(state claim.RefundState, refunded int64) claim.Refund {
	s.Helper()
	all := fixture.Get(s.Fixture, func(ctx context.Context, tx *db.Tx) ([]claim.Refund, error) {
		return s.m.claims.Refunds(ctx, tx, s.m.By, "", s.id)
	})
	if c := s.get(); len(all) != 1 || all[0].State != state || c.Refunded.Units() != refunded {
		s.Fatalf("refunds %+v, refunded %s; want one that is %s, and %d", all, c.Refunded, state, refunded)
	}
	return all[0]
}

// A refund whose payout a reorganization removes is owed again until it is confirmed again.
func TestReorganizationOfARefund(t *testing.T) {
	run(t, func(m *merchant) {
		world := bitcoinsim.New(m.DB)
		m.startPayouts(world)
		s := m.openPaid("250_000", "6")
		s.refund(world.Home())
		s.refundIs(claim.RefundAccepted, 0)
		s.Play("mine 6", s.step)
		paid := s.refundIs(claim.RefundPaid, 50_000)
		// The payer pays the fee: it is deducted from the refund and credited against the operator's network fee.
		booked := map[string]int64{}
		m.Read(func(ctx context.Context, tx *db.Tx) error {
			rows, err := tx.Query(ctx,
				`SELECT l.code, l.amount FROM ledger_journals j JOIN ledger_lines l ON l.company_id = j.company_id
					AND l.journal_id = j.journal_id
				WHERE j.company_id = $1 AND j.source_id = $2 AND j.purpose = $3`, m.By.CompanyID, s.id, "refund:"+paid.ID)
			_, err = db.Collect(rows, err, func(r *db.Rows) (code string, err error) {
				var amount int64
				err = r.Scan(&code, &amount)
				booked[code] += amount
				return code, err
			})
			return err
		})
		fee := paid.Fee.Units()
		want := map[string]int64{"2400": 50_000, "2110": fee - 50_000, "5000": -fee}
		if diff := cmp.Diff(want, booked); diff != "" || fee <= 0 {
			m.Errorf("a fee of %d (-want +booked):\n%s", fee, diff)
		}
		s.Play("reorg 6", s.step)
		s.refundIs(claim.RefundAccepted, 0)
		s.Play("is paid, mine 7", s.step)
		if again := s.refundIs(claim.RefundPaid, 50_000); again.TxHash != paid.TxHash {
			m.Errorf("paid by %s, then by %s", paid.TxHash, again.TxHash)
		}
	})
}

// A refund waits while its address is on a sanctions list, and above the release limit until two staff members
// release it.
func TestARefundWaitsForScreeningAndRelease(t *testing.T) {
	run(t, func(m *merchant) {
		world := bitcoinsim.New(m.DB)
		m.startPayouts(world)
		to := world.Home()
		var held, released atomic.Bool
		held.Store(true)
		m.guards.Screen = func(_ context.Context, _ *db.Tx, companyID, _, address string) (bool, error) {
			if companyID != m.By.CompanyID || address != to {
				m.Errorf("screened %s of %s", address, companyID)
			}
			return held.Load(), nil
		}
		m.guards.ReleaseApproved = func(context.Context, *db.Tx, string, string, money.Amount) (bool, error) {
			return released.Load(), nil
		}
		inBTC := "BTC"
		m.change(claim.Change{SettleIn: &inBTC})
		s := m.openPaid("250_000", "6")
		s.refund(to)
		waits := func(withheld bool) claim.Refund {
			m.Helper()
			s.Play("wait 10m, mine 6, wait 10m, mine 6, wait 10m, mine 6", s.step)
			r := s.refundIs(claim.RefundAccepted, 0)
			if r.TxHash != "" || r.Withheld != withheld {
				m.Errorf("the refund was sent in %q, or withheld: %t", r.TxHash, r.Withheld)
			}
			if fixture.Get(m.Fixture, func(ctx context.Context, tx *db.Tx) (bool, error) {
				return claim.AwaitsRelease(ctx, tx, m.By.CompanyID, r.ID)
			}) != withheld {
				m.Errorf("the refund awaits its release: %t", !withheld)
			}
			return r
		}
		waits(false)
		held.Store(false)
		r := waits(true)
		released.Store(true)
		m.Write(func(ctx context.Context, tx *db.Tx) error { return claim.Retry(ctx, tx, m.By.CompanyID, r.ID) })
		s.Play("wait 1s, mine 6, wait 1s, mine 6", s.step)
		if r := s.refundIs(claim.RefundPaid, 50_000); r.Withheld {
			m.Error("the paid refund is still withheld")
		}
		m.WantBalance(ledger.RefundPayable, s.id, sats(0))
	})
}

// However deep a reorganization is, once the chain has the payments again, the result is the same as without it.
func testReorganizations(m *merchant) {
	for depth := 1; depth <= 6; depth++ {
		late := m.open()
		late.Play("wait 15m", nil)
		exact, parts, little, much := m.open(), m.open(), m.open(), m.open()
		all := []*sale{late, exact, parts, little, much}
		parts.Play("pay 80_000", nil)
		var outputs []chain.Output
		for i, amount := range []int64{full, full, 120_000, 150_000, full + 50_000} {
			outputs = append(outputs, chain.Output{Address: all[i].Address, Amount: amount})
		}
		m.Pay(outputs...)
		m.Play(fmt.Sprint("mine ", depth), nil)
		want := m.results(all)
		m.Play(fmt.Sprint("reorg ", depth), nil)
		for _, s := range all {
			if c := s.get(); c.State == claim.Paid || c.State == claim.PaidLate {
				m.Errorf("%d blocks deep: claim %s is still %s", depth, s.id, c.State)
			}
		}
		m.Play(fmt.Sprint("mine ", depth), nil)
		if diff := cmp.Diff(want, m.results(all)); diff != "" {
			m.Errorf("%d blocks deep (-without +with the reorganization):\n%s", depth, diff)
		}
		m.CheckLedger()
	}
}

// results returns the final states of claims and the balance of every account of the merchant.
func (m *merchant) results(all []*sale) map[string]any {
	m.Helper()
	at := map[string]any{"balances": m.Balances()}
	for i, s := range all {
		c := s.get()
		at[fmt.Sprint("claim ", i)] = fmt.Sprintln(c.State, c.Exception, c.Reverted, c.TxHash, c.Seen, c.Due, c.Rest,
			c.Refunded)
		for _, p := range c.Payments {
			at["payment "+p.TxID+" of "+s.id] = fmt.Sprintln(p.State, p.Amount, p.OnTime)
		}
	}
	return at
}
