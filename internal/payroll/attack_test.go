package payroll

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/screening"
)

// A reorganization within the tolerance changes the escrow; the release divides the current escrow.
func TestAReorgWithinTheToleranceCanBeReleased(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_1", 2_019_800, "seen")
		h.deposit(p, "dep_2", 200, "seen")
		h.exec("UPDATE deposits SET state = 'confirmed'")
		h.deliver(h.s.Fund, fmt.Sprintf(`{"object_id":%q}`, p.ID))
		h.want(p.ID, Received, FundingFunded, Received)
		h.deposit(p, "dep_2", 200, "evicted")
		if got := h.get(p.ID); got.State != Received || got.Escrow != sats(2_020_000) || got.Shortfall != sats(200) {
			h.t.Errorf("%s, %s short of %s", got.State, got.Shortfall, got.Escrow)
		}
		if got := h.balance(ledger.Escrow, p.ID, money.BTC); got != 2_020_000 {
			h.t.Errorf("escrow is %d", got)
		}
		h.release(p.ID)
		h.want(p.ID, Released, FundingFunded, Released)
	})
}

// Late money in suspense is credited to the company once other money covers the payroll.
func TestLateMoneyIsNotStuckWhenOthersCover(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_1", 2_020_000, "seen")
		h.clock.Advance(31 * time.Minute)
		h.deposit(p, "dep_2", 2_020_000, "confirmed")
		h.deposit(p, "dep_1", 2_020_000, "confirmed")
		h.want(p.ID, Received, FundingOver, Received)
		if late, free := h.balance(ledger.SuspenseLate, p.ID, money.BTC), h.balance(ledger.CompanyFunds, "",
			money.BTC); late != 0 || free != 2_020_000 {
			h.t.Errorf("%d late, %d free", late, free)
		}
	})
}

func (h *fixture) holdPayroll(id string) {
	h.t.Helper()
	h.write(func(ctx context.Context, tx *db.Tx) error {
		p, err := find(ctx, tx, h.by.CompanyID, id)
		if err != nil {
			return err
		}
		return p.hold(ctx, tx, "screening")
	})
}

func (h *fixture) resumePayroll(id string) {
	h.t.Helper()
	h.write(func(ctx context.Context, tx *db.Tx) error { return h.s.Resume(ctx, tx, h.by.CompanyID, id) })
}

// A hold by staff and one by a reorganization are separate: lifting one does not lift the other.
func TestAResumeDoesNotPayWhatAReorgRemoved(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_1", 2_020_000, "confirmed")
		h.release(p.ID)
		h.holdPayroll(p.ID)
		h.deposit(p, "dep_1", 2_020_000, "reverted")
		h.resumePayroll(p.ID)
		if got := h.get(p.ID); got.State != OnHold || got.HoldReason != ReasonReverted || !got.Payments[0].Outputs[0].OnHold {
			h.t.Errorf("%s %s", got.State, got.HoldReason)
		}
		h.deposit(p, "dep_1", 2_020_000, "confirmed")
		if got := h.want(p.ID, Released, FundingFunded, Released); got.Payments[0].Outputs[0].OnHold {
			h.t.Error("still held")
		}
	})
}

func TestAReorgDoesNotLiftAHold(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_1", 2_020_000, "confirmed")
		h.holdPayroll(p.ID)
		h.deposit(p, "dep_1", 2_020_000, "reverted")
		h.want(p.ID, Pending, FundingConfirming, Pending)
		h.deposit(p, "dep_1", 2_020_000, "confirmed")
		h.release(p.ID)
		if got := h.want(p.ID, OnHold, FundingFunded, Received); got.HoldReason != "screening" {
			h.t.Errorf("held for %q", got.HoldReason)
		}
		h.resumePayroll(p.ID)
		h.release(p.ID)
		h.want(p.ID, Released, FundingFunded, Released)
	})
}

// Nothing more is released while the company owes the funding.
func TestARetryWaitsForFundingThatAReorgRemoved(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: append([]Payee{{AmountText: "100", UserID: "rec_mix"}}, worked...)})
		h.deposit(p, "dep_1", p.Quote.Funding.Units(), "confirmed")
		h.destinations("rec_mix", nil)
		h.release(p.ID)
		h.outcome(p, "", payout.Fulfilled)
		h.deposit(p, "dep_1", p.Quote.Funding.Units(), "reverted")
		h.destinations("rec_mix", map[money.Asset]int{money.BTC: 100})
		h.release(p.ID)
		if got := h.get(p.ID); got.Payments[0].State != ActionRequired {
			h.t.Errorf("%s", got.Payments[0].State)
		}
		h.deposit(p, "dep_1", p.Quote.Funding.Units(), "confirmed")
		if n := h.count("SELECT COUNT(*) FROM jobs WHERE kind = $1", JobRelease); n < 2 {
			h.t.Error("the return of the funding wakes nobody")
		}
		h.release(p.ID)
		if got := h.get(p.ID); got.Payments[0].State != Released {
			h.t.Errorf("%s", got.Payments[0].State)
		}
	})
}

// Two processes that settle the last two payments concurrently conclude the payroll. The test cannot observe that the
// second one waits, so the first one yields several times before it commits.
func TestTwoSettlesAtOnceEndThePayroll(t *testing.T) {
	run(t, func(h *fixture) {
		for range 5 {
			p := h.create(CreateParams{ToPay: worked})
			h.deposit(p, "dep_"+p.ID, 2_020_000, "confirmed")
			h.release(p.ID)
			payments := h.get(p.ID).Payments
			h.exec("UPDATE outputs SET state = 'fulfilled' WHERE payroll_id = $1", p.ID)
			settled := make(chan struct{})
			settle := func(ctx context.Context, tx *db.Tx, i int) error {
				payload := fmt.Sprintf(`{"payroll_id":%q,"output_id":%q}`, p.ID, payments[i].Outputs[0].ID)
				return h.s.Settle(ctx, tx, job.Job{CompanyID: h.by.CompanyID, ID: "job_1", Payload: []byte(payload)})
			}
			var both sync.WaitGroup
			both.Go(func() {
				once := sync.OnceFunc(func() { close(settled) })
				h.write(func(ctx context.Context, tx *db.Tx) error {
					defer once()
					if err := settle(ctx, tx, 0); err != nil {
						return err
					}
					once()
					for range 200 {
						if _, err := find(ctx, tx, h.by.CompanyID, p.ID); err != nil {
							return err
						}
					}
					return nil
				})
			})
			both.Go(func() {
				<-settled
				h.write(func(ctx context.Context, tx *db.Tx) error { return settle(ctx, tx, 1) })
			})
			both.Wait()
			h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)
		}
	})
}

// All companies share the wallet on the chain: a balance in euros cannot buy bitcoins that belong to other companies.
func TestEurosDoNotPayBitcoinsOfOthers(t *testing.T) {
	run(t, func(h *fixture) {
		err := h.d.Write(h.t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := h.s.Create(ctx, tx, h.by, CreateParams{
				Currency: "EUR", FundingMethod: MethodWallet, ToPay: []Payee{{AmountText: "100", UserID: "rec_eur"},
					{AmountText: "100", UserID: "rec_btc"}},
			})
			return err
		})
		f, ok := apierr.As(err)
		if !ok || f.Code != "currency_not_supported" || len(f.Fields) != 1 ||
			f.Fields[0].Pointer != "/to_pay/1/user_id" {
			h.t.Errorf("%v", err)
		}
	})
}

// A payee on a sanctions list is not paid; a company on one has its whole payroll held; without a current list
// nothing is released. The end of the review, or a list, resumes all of it.
func TestScreeningStopsARelease(t *testing.T) {
	run(t, func(h *fixture) {
		held := map[string]bool{}
		var missing error
		h.s.guards.Screen = func(context.Context, *db.Tx, string, []destination.ScreeningSubject) (map[string]bool, error) {
			return held, missing
		}
		reviewed := func(id string) {
			h.write(func(ctx context.Context, tx *db.Tx) error {
				return OnScreeningResolved(ctx, tx, h.by.CompanyID,
					id)
			})
		}
		queued := func(id string) int64 {
			return h.count("SELECT COUNT(*) FROM jobs WHERE kind = $1 AND payload LIKE '%"+id+"%'", JobRelease)
		}
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_1", p.Quote.Funding.Units(), "confirmed")

		missing = screening.ErrUnavailable
		before := queued(p.ID)
		h.release(p.ID)
		h.want(p.ID, Received, FundingFunded, Received)
		if queued(p.ID) == before {
			t.Error("nobody tries again")
		}

		missing, held = nil, map[string]bool{h.by.CompanyID: true}
		h.release(p.ID)
		if got := h.want(p.ID, OnHold, FundingFunded, Received); got.HoldReason != ReasonReview {
			t.Errorf("held for %q", got.HoldReason)
		}
		held = map[string]bool{"rec_btc": true}
		before = queued(p.ID)
		reviewed(h.by.CompanyID)
		h.want(p.ID, Received, FundingFunded, Received)
		if queued(p.ID) == before {
			t.Error("the end of the review releases nothing")
		}

		h.release(p.ID)
		got := h.get(p.ID)
		if m := got.Payments[0]; got.State != Released || m.State != OnHold || m.Reason != ReasonReview ||
			got.Payments[1].State != Released {
			t.Fatalf("%s: %+v", got.State, got.Payments)
		}
		held = nil
		before = queued(p.ID)
		reviewed("rec_btc")
		if queued(p.ID) != before+1 {
			t.Error("the end of the review releases nobody")
		}
		h.release(p.ID)
		h.want(p.ID, Released, FundingFunded, Released)
	})
}
