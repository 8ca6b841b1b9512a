package payroll

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/testkit/fixture"
	"github.com/stipend/stipend/internal/treasury"
)

// returned returns a payroll whose bank payment came back.
func (h *env) returned() Payroll {
	h.Helper()
	p := h.released(worked...)
	h.outcome(p, "", payout.Fulfilled)
	h.outcome(p, money.EUR, payout.Returned)
	return h.get(p.ID)
}

// changeDestination stores the time of a change of a payee's destination.
func (h *env) changeDestination(id string) {
	h.Helper()
	h.Exec(`INSERT INTO destination_owners (owner_id, destinations, version, destination_changed_at)
			SELECT $1, 1, 1, CAST($2 AS BIGINT) WHERE TRUE
		ON CONFLICT (owner_id) DO UPDATE SET destination_changed_at = excluded.destination_changed_at`,
		id, db.Micros(h.Clock.Now()))
}

// correct changes a payee's destination.
func (h *env) correct(id string) {
	h.Helper()
	h.Clock.Advance(time.Hour)
	h.Exec("UPDATE destinations SET sealed = sealed || 'x', address = address || 'x' WHERE owner_id = $1", id)
	h.changeDestination(id)
	h.Deliver(HandlePayable, "recipient_id", id)
}

// A returned payment is sent again, once, when its destination has changed: not before the change is a day old, nor
// while the payee is inactive, the company is frozen or the payroll is on hold.
func TestAReturnIsPaidToTheCorrectedDestination(t *testing.T) {
	run(t, func(h *env) {
		h.s.CoolDown = 24 * time.Hour
		p := h.returned()
		expect := func(state State, reason string, output payout.State) {
			h.Helper()
			h.release(p.ID)
			if m := h.wantPayment(p, 1, state, reason, 1); m.Outputs[0].State != output {
				h.Fatalf("the output is %s, want %s", m.Outputs[0].State, output)
			}
		}
		expect(Returned, "", payout.Returned)

		h.correct("rec_eur")
		expect(OnHold, ReasonCoolDown, payout.Returned)
		h.Clock.Advance(25 * time.Hour)
		h.s.guards.Screen = func(context.Context, *db.Tx, string, []destination.ScreeningSubject) (map[string]bool, error) {
			return map[string]bool{"rec_eur": true}, nil
		}
		expect(OnHold, ReasonReview, payout.Returned)
		h.s.guards.Screen = allow.Subjects[destination.ScreeningSubject]
		h.Exec("UPDATE recipients SET status = 'inactive' WHERE recipient_id = 'rec_eur'")
		expect(ActionRequired, ReasonInactive, payout.Returned)
		h.Exec("UPDATE recipients SET status = 'active' WHERE recipient_id = 'rec_eur'")
		h.Exec("UPDATE companies SET status = 'frozen'")
		expect(ActionRequired, ReasonInactive, payout.Returned)
		h.Exec("UPDATE companies SET status = 'active'")

		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for { // like a worker, the test runs the job again after a conflict
					if h.DB.Write(h.Context(), h.Job(h.s.Release, "payroll_id", p.ID)) == nil {
						return
					}
				}
			})
		}
		all.Wait()
		expect(Released, "", payout.Queued)
		h.WantCount(1, "history WHERE object_id = $1 AND to_state = 'queued'", p.Payments[1].Outputs[0].ID)
		// An output that was sent keeps its destination, whatever changes later.
		was := string(h.get(p.ID).Payments[1].Outputs[0].Destination)
		h.correct("rec_eur")
		h.Clock.Advance(25 * time.Hour)
		expect(Released, "", payout.Queued)
		if is := string(h.get(p.ID).Payments[1].Outputs[0].Destination); is != was {
			h.Errorf("a payout under way went from %s to %s", was, is)
		}
		h.outcome(p, "", payout.Fulfilled)
		h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)
	})
}

// A correction into another asset exchanges the original value at the current price.
func TestAReturnIsExchangedForADestinationInAnotherAsset(t *testing.T) {
	run(t, func(h *env) {
		h.bring(money.New(money.BTC, 100_000_000))
		p := h.released(worked...)
		h.outcome(p, money.BTC, payout.Fulfilled)
		h.outcome(p, money.EUR, payout.Failed) // the payee is still owed 368.00 EUR
		h.destinations("rec_eur", map[money.Asset]int{money.BTC: 100})
		h.Deliver(HandlePayable, "recipient_id", "rec_eur")
		h.release(p.ID)
		o := h.get(p.ID).Payments[1].Outputs
		if len(o) != 1 || o[0].State != payout.Queued || o[0].Rail != payout.RailBitcoin ||
			o[0].Amount != sats(800_000) || o[0].Address != "bcrt1qrec_eur" || o[0].Input != usd(400_00) {
			h.Fatalf("%+v", o)
		}
		h.WantBalance(ledger.OutputPayable, o[0].ID, eur(0))
		h.WantBalance(ledger.OutputPayable, o[0].ID, sats(800_000))
		h.outcome(p, "", payout.Fulfilled)
		h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)
	})
}

// A corrected payout in the payroll's own currency is paid from the operator's balance too: the company's money was
// exchanged at the release.
func TestACorrectedReturnWaitsWhileTheOperatorLacksItsCurrency(t *testing.T) {
	run(t, func(h *env) {
		h.boundFiat()
		h.bring(eur(1_000_00))
		h.fill(h.By.CompanyID, usd(1_000_00))
		p := h.create(CreateParams{ToPay: []Payee{{AmountText: "400", UserID: "rec_eur"}}, FundingMethod: MethodWallet,
			FundingCurrency: "USD"})
		h.release(p.ID)
		own := h.owned(money.USD)
		h.Write(fixture.Drop(func(ctx context.Context, tx *db.Tx) (bool, error) {
			return h.s.Treasury.Withdraw(ctx, tx, treasury.Booking{
				Place: treasury.Place{Kind: treasury.PlaceBank}, Reference: "1"}, own)
		}))
		h.outcome(p, money.EUR, payout.Failed)
		h.destinations("rec_eur", map[money.Asset]int{money.USD: 100})
		h.Deliver(HandlePayable, "recipient_id", "rec_eur")
		h.release(p.ID)
		h.wantPayment(p, 0, OnHold, ReasonConversion, 1)
		h.bring(usd(400_00))
		h.Deliver(HandlePayable, "recipient_id", "rec_eur")
		h.release(p.ID)
		if m := h.wantPayment(p, 0, Released, "", 1); m.Outputs[0].Amount != usd(400_00) {
			h.Errorf("outputs %+v", m.Outputs)
		}
	})
}
