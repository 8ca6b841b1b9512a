package payroll

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/testkit/fixture"
	"github.com/stipend/stipend/internal/webhook"
)

// The timeline of each payment has each of its versions, whether it changed together with the others or alone.
func TestEachPaymentHasItsOwnStateAndHistory(t *testing.T) {
	run(t, func(h *env) {
		p := h.funded(append([]Payee{{AmountText: "50", UserID: "rec_mix"}}, worked...)...)
		h.want(p.ID, Received, FundingFunded, Received)
		h.destinations("rec_mix", nil) // without a destination the payee cannot be paid
		h.release(p.ID)
		h.wantPayment(p, 0, ActionRequired, ReasonNoDestination, 0)
		h.wantPayment(p, 1, Released, "", 1)
		h.wantPayment(p, 2, Released, "", 1)
		h.checkSteps(h.get(p.ID))
		// Each of the three payments changed twice.
		h.WantCount(6, `history h
			JOIN payments m ON m.company_id = h.company_id AND m.payment_id = h.object_id`)
		if n := h.CountEvents(webhook.UserPaymentStatusUpdate.Name, ""); n != 6 {
			h.Errorf("%d events for 3 payments with 2 changes each, want 6", n)
		}
		h.destinations("rec_mix", map[money.Asset]int{money.BTC: 100})
		h.release(p.ID)
		h.outcome(p, money.EUR, payout.Fulfilled)
		h.checkSteps(h.get(p.ID))
		h.outcome(p, "", payout.Fulfilled)
		h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)
	})
}

func TestAStaleChangeOfPaymentsIsRefused(t *testing.T) {
	run(t, func(h *env) {
		p := h.create(CreateParams{ToPay: worked})
		read := h.get(p.ID)
		h.fund(p, "confirmed")
		for name, change := range map[string]func(ctx context.Context, tx *db.Tx, all []Payment) error{
			"of one": func(ctx context.Context, tx *db.Tx, all []Payment) error {
				return read.updatePayment(ctx, tx, &all[0], Cancelled, "")
			},
			"of all": func(ctx context.Context, tx *db.Tx, all []Payment) error {
				return read.updatePayments(ctx, tx, all, Cancelled)
			},
			"of some": func(ctx context.Context, tx *db.Tx, all []Payment) error {
				return read.updatePayments(ctx, tx, all[1:], Cancelled)
			},
		} {
			err := h.DB.Write(h.Context(), func(ctx context.Context, tx *db.Tx) error {
				return change(ctx, tx, slices.Clone(read.Payments))
			})
			if f, ok := apierr.As(err); !ok || f.Code != "retry_later" {
				t.Errorf("a stale change %s: %v", name, err)
			}
		}
		h.want(p.ID, Received, FundingFunded, Received)
	})
}

// A change of several payments changes no other payment, even one in the same state.
func TestAChangeOfSomePaymentsIsRefusedWhileOthersAreAlike(t *testing.T) {
	run(t, func(h *env) {
		p := h.create(CreateParams{ToPay: worked})
		read := h.get(p.ID)
		h.WantFault("retry_later", func(ctx context.Context, tx *db.Tx) error {
			return read.updatePayments(ctx, tx, read.Payments[1:], Cancelled)
		})
		h.want(p.ID, Pending, FundingNone, Pending)
	})
}

// The payee and the banks learn what an output pays: the company, the purpose, the description and the invoice.
func TestDetailsSayWhatAnOutputPays(t *testing.T) {
	run(t, func(h *env) {
		h.payee("rec_vendor", map[money.Asset]int{money.USD: 100})
		h.Exec("UPDATE recipients SET role = 'vendor' WHERE recipient_id = 'rec_vendor'")
		p := h.released(Payee{AmountText: "50", UserID: "rec_vendor", InvoiceID: "2026-17", Description: "Desks"},
			Payee{AmountText: "60", UserID: "rec_mix", Description: "March"})
		h.Read(func(ctx context.Context, tx *db.Tx) error {
			outs, err := payout.ForPayroll(ctx, tx, p.CompanyID, p.ID)
			if err != nil {
				return err
			}
			withdrawal := payout.Output{CompanyID: p.CompanyID, ID: "out_own", PayrollID: "wdr_1", PaymentID: "wdr_1"}
			all, err := Details(ctx, tx, p.CompanyID, append(outs, withdrawal))
			for _, o := range append(outs, withdrawal) {
				want := payout.Details{Payer: "Acme", PayerCountry: "DE"}
				switch o.PaymentID {
				case p.Payments[0].ID:
					want.Purpose, want.Description, want.Invoice = payout.PurposeVendor, "Desks", "2026-17"
				case p.Payments[1].ID:
					want.Purpose, want.Description = payout.PurposeWages, "March"
				}
				if all[o.ID] != want {
					t.Errorf("%s: %+v, want %+v", o.ID, all[o.ID], want)
				}
			}
			return err
		})
	})
}

// A company outside of the United States cannot pay by ACH: the payroll is refused before money is taken, and a
// destination that a payee adds after that waits for another one.
func TestACompanyAbroadCannotCreateAnACHPayroll(t *testing.T) {
	run(t, func(h *env) {
		ach := bank.SandboxAccounts()[:1]
		byACH := func(id string) {
			h.Exec("UPDATE destinations SET scheme = 'ach', country = 'US' WHERE owner_id = $1", id)
		}
		h.payee("rec_ach", map[money.Asset]int{money.USD: 100})
		byACH("rec_ach")
		h.s.Banks = ach
		_, err := h.tryCreate(CreateParams{ToPay: []Payee{{AmountText: "50", UserID: "rec_ach"}}})
		_ = h.Fault("currency_not_supported", err)
		h.WantCount(0, "payrolls")

		h.payee("rec_later", map[money.Asset]int{money.BTC: 100})
		p := h.funded(Payee{AmountText: "50", UserID: "rec_later"})
		h.destinations("rec_later", map[money.Asset]int{money.USD: 100})
		byACH("rec_later")
		h.release(p.ID)
		h.wantPayment(p, 0, ActionRequired, ReasonNoRail, 0)

		h.s.Banks = bank.SandboxAccounts()
		h.release(p.ID)
		h.wantPayment(p, 0, Released, "", 1)
		h.outcome(p, "", payout.Fulfilled)
	})
}

// A payee sees a payment in the year in which it arrived, however old the payroll is, and an open one until it arrives.
func TestEarnedPaymentsBelongToTheYearOfTheirArrival(t *testing.T) {
	run(t, func(h *env) {
		p := h.released(worked...)
		begin := h.Clock.Now()
		want := func(what string, from, to time.Time, open bool, arrived time.Time, n int) {
			h.Helper()
			got := fixture.Get(h.Fixture, func(ctx context.Context, tx *db.Tx) ([]EarnedPayment, error) {
				return EarnedPayments(ctx, tx, h.By.CompanyID, "rec_eur", from, to, open)
			})
			if len(got) != n || n > 0 && (got[0].ID != p.Payments[1].ID || !got[0].ArrivedAt.Equal(arrived)) {
				t.Errorf("%s: %+v, want %d", what, got, n)
			}
		}
		year := func(n int) time.Time { return begin.AddDate(n, 0, 0) }
		want("before the arrival", begin, year(1), true, time.Time{}, 1)
		want("before the arrival, without open ones", begin.AddDate(-1, 0, 0), year(1), false, time.Time{}, 0)
		h.Clock.Advance(400 * 24 * time.Hour)
		at := h.Clock.Now()
		h.outcome(p, "", payout.Fulfilled)
		want("the year of the payroll", begin, year(1), true, time.Time{}, 0)
		want("the year of the arrival", year(1), year(2), false, at, 1)
		h.create(CreateParams{ToPay: worked})
		want("a payroll without money", year(1), year(2), true, at, 1)
	})
}
