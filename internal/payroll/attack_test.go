package payroll

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/screening"
)

// Two transactions that settle the last two payments concurrently conclude the payroll. The test cannot observe that
// the second transaction waits, so the first one runs many queries before it commits.
func TestConcurrentSettlesConcludeThePayroll(t *testing.T) {
	run(t, func(h *env) {
		for range 5 {
			p := h.released(worked...)
			h.Exec("UPDATE outputs SET state = 'fulfilled' WHERE payroll_id = $1", p.ID)
			settled := make(chan struct{})
			settle := func(ctx context.Context, tx *db.Tx, i int) error {
				payload := fmt.Sprintf(`{"payroll_id":%q,"output_id":%q}`, p.ID, p.Payments[i].Outputs[0].ID)
				return h.s.Settle(ctx, tx, job.Job{CompanyID: h.By.CompanyID, ID: "job_1", Payload: []byte(payload)})
			}
			var both sync.WaitGroup
			both.Go(func() {
				once := sync.OnceFunc(func() { close(settled) })
				h.Write(func(ctx context.Context, tx *db.Tx) error {
					defer once()
					if err := settle(ctx, tx, 0); err != nil {
						return err
					}
					once()
					for range 200 {
						if _, err := find(ctx, tx, h.By.CompanyID, p.ID); err != nil {
							return err
						}
					}
					return nil
				})
			})
			both.Go(func() {
				<-settled
				h.Write(func(ctx context.Context, tx *db.Tx) error { return settle(ctx, tx, 1) })
			})
			both.Wait()
			h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)
		}
	})
}

// All companies share the wallet on the chain: a balance in euros cannot buy bitcoins that belong to other companies.
func TestEurosDoNotPayBitcoinsOfOtherCompanies(t *testing.T) {
	run(t, func(h *env) {
		_, err := h.tryCreate(CreateParams{Currency: "EUR", FundingMethod: MethodWallet,
			ToPay: []Payee{{AmountText: "100", UserID: "rec_eur"}, {AmountText: "100", UserID: "rec_btc"}}})
		f := h.Fault("conversion_unavailable", err)
		if len(f.Fields) != 1 || f.Fields[0].Pointer != "/to_pay/1/user_id" {
			h.Errorf("%v", err)
		}
	})
}

// A payee on a sanctions list is not paid, a payroll of a company on a list is held, and without a current list nothing
// is released. The end of the review, or a current list, resumes the release.
func TestScreeningStopsARelease(t *testing.T) {
	run(t, func(h *env) {
		held := map[string]bool{}
		var missing error
		h.s.guards.Screen = func(context.Context, *db.Tx, string, []destination.ScreeningSubject) (map[string]bool, error) {
			return held, missing
		}
		reviewed := func(id string) {
			h.Write(func(ctx context.Context, tx *db.Tx) error {
				return OnScreeningResolved(ctx, tx, h.By.CompanyID, id)
			})
		}
		queued := func(id string) int64 {
			return h.Count("SELECT COUNT(*) FROM jobs WHERE kind = $1 AND payload LIKE '%"+id+"%'", JobRelease)
		}
		p := h.funded(worked...)
		// queues fails the test unless f queues a release of the payroll.
		queues := func(name string, f func()) {
			h.Helper()
			before := queued(p.ID)
			if f(); queued(p.ID) != before+1 {
				h.Errorf("%s: %d jobs were queued, want a release", name, queued(p.ID)-before)
			}
		}
		missing = screening.ErrUnavailable
		before := queued(p.ID)
		h.release(p.ID)
		h.want(p.ID, Received, FundingFunded, Received)
		if queued(p.ID) == before {
			h.Error("without a current list, no later release was queued")
		}

		missing, held = nil, map[string]bool{h.By.CompanyID: true}
		h.release(p.ID)
		if got := h.want(p.ID, OnHold, FundingFunded, Received); got.HoldReason != ReasonReview {
			h.Errorf("held for %q", got.HoldReason)
		}
		held = map[string]bool{"rec_btc": true}
		queues("the end of the company's review", func() { reviewed(h.By.CompanyID) })
		h.want(p.ID, Received, FundingFunded, Received)

		h.release(p.ID)
		h.wantState(p, Released)
		h.wantPayment(p, 0, OnHold, ReasonReview, 0)
		h.wantPayment(p, 1, Released, "", 1)
		held = nil
		queues("the end of the payee's review", func() { reviewed("rec_btc") })
		h.release(p.ID)
		h.want(p.ID, Released, FundingFunded, Released)
	})
}
