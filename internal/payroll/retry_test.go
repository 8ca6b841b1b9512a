package payroll

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/treasury"
)

// returned returns a payroll whose bank payment came back.
func (h *fixture) returned() Payroll {
	h.t.Helper()
	p := h.create(CreateParams{ToPay: worked})
	h.deposit(p, "dep_"+p.ID, 2_020_000, "confirmed")
	h.release(p.ID)
	h.outcome(p, "", payout.Fulfilled)
	h.outcome(p, money.EUR, payout.Returned)
	return h.get(p.ID)
}

// correct changes a payee's destination.
func (h *fixture) correct(id string) {
	h.t.Helper()
	h.clock.Advance(time.Hour)
	h.exec("UPDATE destinations SET sealed = sealed || 'x', address = address || 'x' WHERE owner_id = $1", id)
	h.exec("INSERT INTO destination_owners (owner_id, destinations, version, destination_changed_at) SELECT $1, 1, 1, "+
		"CAST($2 AS BIGINT) WHERE TRUE ON CONFLICT (owner_id) DO UPDATE SET destination_changed_at = "+
		"excluded.destination_changed_at",
		id, db.Micros(h.clock.Now()))
	h.deliver(HandlePayable, fmt.Sprintf(`{"recipient_id":%q}`, id))
}

// A returned payment is sent again, once, when its destination has changed: not before the change is a day old, nor
// while the payee is inactive, the company is frozen or the payroll is on hold.
func TestAReturnGoesToTheCorrectedDestination(t *testing.T) {
	run(t, func(h *fixture) {
		h.s.CoolDown = 24 * time.Hour
		p := h.returned()
		expect := func(state State, reason string, output payout.State) {
			t.Helper()
			h.release(p.ID)
			if m := h.get(p.ID).Payments[1]; m.State != state || m.Reason != reason || len(m.Outputs) != 1 ||
				m.Outputs[0].State != output {
				t.Fatalf("%s (%s), %+v; want %s (%s), %s", m.State, m.Reason, m.Outputs, state, reason, output)
			}
		}
		expect(Returned, "", payout.Returned)

		h.correct("rec_eur")
		expect(OnHold, ReasonCoolDown, payout.Returned)
		h.clock.Advance(25 * time.Hour)
		h.s.guards.Screen = func(_ context.Context, _ *db.Tx, _ string, whom []destination.ScreeningSubject) (map[string]bool,
			error) {
			held := map[string]bool{}
			for _, w := range whom {
				held[w.ID] = w.ID == "rec_eur"
			}
			return held, nil
		}
		expect(OnHold, ReasonReview, payout.Returned)
		h.s.guards.Screen = allow.Subjects[destination.ScreeningSubject]
		h.exec("UPDATE recipients SET status = 'inactive' WHERE recipient_id = 'rec_eur'")
		expect(ActionRequired, ReasonInactive, payout.Returned)
		h.exec("UPDATE recipients SET status = 'active' WHERE recipient_id = 'rec_eur'")
		h.exec("UPDATE companies SET status = 'frozen'")
		expect(ActionRequired, ReasonInactive, payout.Returned)
		h.exec("UPDATE companies SET status = 'active'")

		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for { // a job runs again after a conflict
					if h.d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
						return h.s.Release(ctx, tx, job.Job{CompanyID: p.CompanyID, Payload: fmt.Appendf(nil,
							`{"payroll_id":%q}`, p.ID)})
					}) == nil {
						return
					}
				}
			})
		}
		all.Wait()
		expect(Released, "", payout.Queued)
		if n := h.count("SELECT COUNT(*) FROM history WHERE object_id = $1 AND to_state = 'queued'",
			p.Payments[1].Outputs[0].ID); n != 1 {
			t.Errorf("queued again %d times, want once, by the correction", n)
		}
		// An output that was sent keeps its destination, whatever changes later.
		was := string(h.get(p.ID).Payments[1].Outputs[0].Destination)
		h.correct("rec_eur")
		h.clock.Advance(25 * time.Hour)
		expect(Released, "", payout.Queued)
		if is := string(h.get(p.ID).Payments[1].Outputs[0].Destination); is != was {
			t.Errorf("a payout under way went from %s to %s", was, is)
		}
		h.outcome(p, "", payout.Fulfilled)
		h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)
	})
}

// A correction into another asset exchanges the original value at the current price.
func TestAReturnIsExchangedWhereItsDestinationIsInAnotherAsset(t *testing.T) {
	run(t, func(h *fixture) {
		h.bring(money.New(money.BTC, 100_000_000))
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_1", 2_020_000, "confirmed")
		h.release(p.ID)
		h.outcome(p, money.BTC, payout.Fulfilled)
		h.outcome(p, money.EUR, payout.Failed) // not paid: 368.00 EUR are owed
		h.destinations("rec_eur", map[money.Asset]int{money.BTC: 100})
		h.deliver(HandlePayable, `{"recipient_id":"rec_eur"}`)
		h.release(p.ID)
		o := h.get(p.ID).Payments[1].Outputs
		if len(o) != 1 || o[0].State != payout.Queued || o[0].Rail != payout.RailBitcoin ||
			o[0].Amount != sats(800_000) || o[0].Address != "bcrt1qrec_eur" || o[0].Input != usd(400_00) {
			t.Fatalf("%+v", o)
		}
		if eur, btc := h.balance(ledger.OutputPayable, o[0].ID, money.EUR), h.balance(ledger.OutputPayable, o[0].ID,
			money.BTC); eur != 0 || btc != 800_000 {
			t.Errorf("%d EUR and %d BTC are owed", eur, btc)
		}
		h.outcome(p, "", payout.Fulfilled)
		h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)
	})
}

// A corrected payout in the payroll's own currency is paid from the operator's balance too: the company's money was
// exchanged at the release.
func TestACorrectedReturnWaitsWhileTheOperatorLacksItsCurrency(t *testing.T) {
	run(t, func(h *fixture) {
		h.boundFiat()
		h.bring(eur(1_000_00))
		h.fill(h.by.CompanyID, usd(1_000_00))
		p := h.create(CreateParams{ToPay: []Payee{{AmountText: "400", UserID: "rec_eur"}}, FundingMethod: MethodWallet,
			FundingCurrency: "USD"})
		h.release(p.ID)
		h.write(func(ctx context.Context, tx *db.Tx) error {
			all, err := ledger.OperatorBalances(ctx, tx, money.USD)
			if err != nil {
				return err
			}
			_, err = h.s.Treasury.Withdraw(ctx, tx, treasury.Booking{
				Place: treasury.Place{Kind: treasury.PlaceBank}, Reference: "1",
			}, all[money.USD])
			return err
		})
		h.outcome(p, money.EUR, payout.Failed)
		h.destinations("rec_eur", map[money.Asset]int{money.USD: 100})
		h.deliver(HandlePayable, `{"recipient_id":"rec_eur"}`)
		h.release(p.ID)
		if m := h.get(p.ID).Payments[0]; m.State != OnHold || m.Reason != ReasonConversion {
			t.Fatalf("the payment is %s (%s)", m.State, m.Reason)
		}
		h.bring(usd(400_00))
		h.deliver(HandlePayable, `{"recipient_id":"rec_eur"}`)
		h.release(p.ID)
		m := h.get(p.ID).Payments[0]
		if m.State != Released || len(m.Outputs) != 1 || m.Outputs[0].Amount != usd(400_00) {
			t.Errorf("the payment is %s (%s) with %+v", m.State, m.Reason, m.Outputs)
		}
	})
}
