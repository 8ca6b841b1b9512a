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
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	bitcoinrail "github.com/stipend/stipend/internal/payout/bitcoin"
	evmrail "github.com/stipend/stipend/internal/payout/evm"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/allow"
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

// Claims that payers create with payment links and the merchant's own claims do not use up each other's limits.
func TestLimitsOfLinksAreSeparate(t *testing.T) {
	run(t, func(m *merchant) {
		byLink := func(want error) {
			t.Helper()
			m.WantError(want, func(ctx context.Context, tx *db.Tx) error {
				_, err := m.claims.Create(ctx, tx, m.By, claim.CreateParams{PayerID: "payer", AmountText: "100",
					Currency: "USD", LinkID: "plk_1"})
				return err
			})
		}
		own := func(want error) {
			t.Helper()
			if _, err := m.tryCreate(); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		linked := func() {
			m.Write(fixture.Drop(func(ctx context.Context, tx *db.Tx) (claim.Claim, error) {
				return m.claims.Create(ctx, tx, m.By, claim.CreateParams{PayerID: "payer", AmountText: "100",
					Currency: "USD", LinkID: "plk_1"})
			}))
		}
		m.claims.PerMinute = 2
		linked()
		linked()
		byLink(claim.ErrTooOften)
		own(nil)
		own(nil)
		own(claim.ErrTooOften)
		m.claims.PerMinute, m.claims.MaxOpen = 0, 3
		linked()
		byLink(claim.ErrTooManyOpen)
		own(nil)
		own(claim.ErrTooManyOpen)
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
	m.Run(m.payoutTable(c))
}

// payoutTable returns the jobs of the merchant with those of the rail that pays refunds in bitcoin.
func (m *merchant) payoutTable(c chain.Source) job.Table {
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
	return table
}

func (m *merchant) settlements() (all []claim.Settlement) {
	m.Helper()
	m.Read(func(ctx context.Context, tx *db.Tx) (err error) {
		all, _, err = m.claims.Settlements(ctx, tx, m.By, "", db.Page{PerPage: 100})
		return err
	})
	return all
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
		m.Clock.Advance(24 * time.Hour)
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
				WHERE j.company_id = $1 AND j.source_id = $2 AND j.purpose LIKE 'refund:%'`, m.By.CompanyID, s.id)
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

// refusing is a node of a network whose token contract refuses payments to one address.
type refusing struct {
	evm.Node
	to   string
	busy bool // the node reports nothing about payments to the address
}

func (n *refusing) Estimate(ctx context.Context, from string, calls []evm.Call) ([]evm.Estimate, error) {
	all, err := n.Node.Estimate(ctx, from, calls)
	for i, call := range calls {
		if to, _, _ := n.Spec().ParseTransfer(call); to.String() == n.to {
			fault := evm.Error{Method: "eth_estimateGas", Code: 3, Message: "execution reverted: blocked"}
			if n.busy {
				fault = evm.Error{Method: "eth_estimateGas", Code: -32005, Message: "limit exceeded"}
			}
			all[i] = evm.Estimate{Verdict: fault.Verdict(call), Refusal: fault.Error()}
		}
	}
	return all, err
}

// startTokenPayouts starts the rail of the network base for the merchant's payouts. Its wallet must have money.
func (m *merchant) startTokenPayouts(node evm.Node, keys *evm.Signer) {
	m.Helper()
	must := func(err error) {
		m.Helper()
		if err != nil {
			m.Fatal(err)
		}
	}
	rail, err := evmrail.New(m.Context(), m.DB, evmrail.Config{Node: node, Signer: keys,
		Log: slog.New(slog.DiscardHandler), FeeMaxAge: 10_000 * time.Hour, Screen: allow.Address,
		Due: m.claims.Due})
	must(err)
	must(rail.RefreshFees(m.Context(), m.DB))
	rails, err := payout.New(rail)
	must(err)
	table := rails.Jobs()
	maps.Copy(table, m.jobTable())
	table[claim.JobRefund], table[payout.JobChanged] = job.Entry{Tx: m.claims.Send}, job.Entry{Tx: m.claims.PayoutChanged}
	m.Run(table)
	m.evm.Run(table)
}

// A refund whose payout fails for good is offered again. The payer names another address with the same link or with the
// mailed one, and is paid once.
func TestARefundThatCannotBePaidIsOfferedAgain(t *testing.T) {
	const wallet = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	run(t, func(m *merchant) {
		sim, keys := simulateBase(t, m.DB)
		m.accept(base{sim, money.USDC}, sim.Spec(), keys)
		hot := testkit.Must(keys.Deriver().HotAddress())
		testkit.Check(t, sim.Fund(t.Context(), hot, money.New(money.ETH, 1_000_000_000_000)))
		testkit.Check(t, sim.Fund(t.Context(), hot, money.New(money.USDC, 1_000_000_000)))
		node := &refusing{Node: sim, to: "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"} // payments to it fail for good
		m.startTokenPayouts(node, keys)
		s := m.openIn(money.USDC, "USDC")
		s.Play("pay 110_000_000, mine 1, is paid", s.step)
		email, err := m.claims.Sealer.Seal(identity.SealContext{Table: "claims", Column: "payer_email", Row: s.id},
			[]byte("payer@example.com"))
		if err != nil {
			t.Fatal(err)
		}
		m.Exec("UPDATE claims SET payer_email = $1", email)
		dollars := func(units int64) money.Amount { return money.New(money.USDC, units) }
		fees := int64(0) // that payers paid
		failed := func(id, dim string, owed int64) {
			t.Helper()
			s.Settle(nil)
			m.WantCount(1, "claim_refunds WHERE refund_id = $1 AND state = 'offered' AND address = '' AND output_id = ''"+
				" AND txid = '' AND fee = 0 AND mailed_digest <> ''", id)
			m.WantCount(1, "outputs WHERE payment_id = $1 AND state = 'failed'", id)
			m.WantBalance(ledger.RefundPayable, dim, dollars(owed))
			m.WantBalance(ledger.NetworkFee, "refund", dollars(fees))
			m.CheckLedger()
		}
		paid := func(id, dim string) {
			t.Helper()
			s.Settle(nil)
			s.Play("mine 1, mine 1", nil)
			m.WantCount(1, "claim_refunds WHERE refund_id = $1 AND state = 'paid' AND address = $2", id, wallet)
			m.WantCount(1, "outputs WHERE payment_id = $1 AND state = 'fulfilled'", id)
			m.WantBalance(ledger.RefundPayable, dim, dollars(0))
			m.CheckLedger()
			fees = m.Balance(ledger.NetworkFee, "refund", money.USDC)
		}
		offer := func() (r claim.Refund, token string) {
			t.Helper()
			s.Write(func(ctx context.Context, tx *db.Tx) (err error) {
				r, token, err = m.claims.Refund(ctx, tx, m.By, "", s.id)
				return err
			})
			return r, token
		}

		excess, token := offer()
		s.accept(token, node.to)
		failed(excess.ID, s.id, 10_000_000)
		m.WantCount(2, "mails WHERE template = 'refund_offered'")
		s.accept(token, wallet)
		paid(excess.ID, s.id)

		part, token := s.part(m.By, claim.PartParams{AmountText: "40"})
		s.accept(token, node.to)
		failed(part.ID, part.ID, 40_000_000)
		m.Clock.Advance(claim.RefundLife - time.Minute)
		s.accept(token, wallet)
		paid(part.ID, part.ID)
		if c := s.is(claim.Paid); c.Refunded != dollars(10_000_000) || c.Returned != dollars(40_000_000) {
			t.Errorf("refunded %s of the excess, and %s of the payment", c.Refunded, c.Returned)
		}

		// Another offer, made while the payout was on its way, pays all that is owed.
		s.Play("pay 5_000_000, mine 1", s.step)
		node.busy = true
		first, token := offer()
		s.accept(token, node.to)
		s.Play("pay 3_000_000, mine 1", s.step)
		second, token := offer()
		node.busy = false
		m.Clock.Advance(time.Minute)
		s.Settle(nil)
		m.WantCount(1, "claim_refunds WHERE refund_id = $1 AND state = 'withdrawn'", first.ID)
		m.WantBalance(ledger.RefundPayable, s.id, dollars(8_000_000))
		s.accept(token, wallet)
		paid(second.ID, s.id)
		if c := s.is(claim.Paid); c.Refunded != dollars(18_000_000) {
			t.Errorf("refunded %s of the excess", c.Refunded)
		}

		// What a reorganization removed while the payout was on its way is not offered again.
		s.Play("pay 7_000_000, mine 1", s.step)
		node.busy = true
		third, token := offer()
		s.accept(token, node.to)
		s.Settle(nil)
		s.Play("reorg 1, evict", s.step)
		m.WantBalance(ledger.DueFromCustomer, "", dollars(7_000_000))
		node.busy = false
		m.Clock.Advance(time.Minute)
		s.Settle(nil)
		m.WantCount(1, "claim_refunds WHERE refund_id = $1 AND state = 'withdrawn'", third.ID)
		m.WantBalance(ledger.DueFromCustomer, "", dollars(0))
		m.WantBalance(ledger.RefundPayable, s.id, dollars(0))
		m.CheckLedger()
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
