package payroll

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// A payment to a changed destination waits until the change is a day old, unless the payee was never paid: a first
// destination is not a change.
func TestAPaymentToAChangedDestinationWaits(t *testing.T) {
	run(t, func(h *env) {
		h.s.CoolDown = 24 * time.Hour
		h.changeDestination("rec_btc")
		h.wantPayment(h.released(worked...), 0, Released, "", 1) // a first payment does not wait
		h.Clock.Advance(time.Hour)
		h.wantPayment(h.released(worked...), 0, Released, "", 1) // the change preceded the first payment
		h.Clock.Advance(time.Hour)
		h.changeDestination("rec_btc")
		h.Clock.Advance(23 * time.Hour)
		third := h.released(worked...)
		h.wantPayment(third, 0, OnHold, ReasonCoolDown, 0)
		h.wantPayment(third, 1, Released, "", 1)
		h.WantBalance(ledger.PayeePayable, third.Payments[0].ID, usd(600_00))
		h.release(third.ID)
		h.wantPayment(third, 0, OnHold, ReasonCoolDown, 0) // the change is less than a day old
		h.Clock.Advance(time.Hour)
		h.release(third.ID)
		h.wantPayment(third, 0, Released, "", 1)

		// After an administrator's confirmation the payment need not wait. A later change starts another wait.
		h.member("usr_admin", identity.RoleAdmin)
		confirm := func(code string, by identity.Principal, p Payroll, payment string) {
			h.Helper()
			h.WantFault(code, fixture.Drop(func(ctx context.Context, tx *db.Tx) (Payroll, error) {
				return h.s.ConfirmDestination(ctx, tx, by, p.ID, payment)
			}))
		}
		h.changeDestination("rec_btc")
		h.Clock.Advance(time.Minute)
		fourth := h.released(worked...)
		held := fourth.Payments[0].ID
		confirm("role_required", h.By, fourth, held)
		confirm("not_found", h.as("usr_admin"), fourth, third.Payments[0].ID)
		confirm("invalid_state", h.as("usr_admin"), fourth, fourth.Payments[1].ID)
		confirm("", h.as("usr_admin"), fourth, held)
		h.release(fourth.ID)
		h.wantPayment(fourth, 0, Released, "", 1)
		fifth := h.released(worked...)
		confirm("", h.as("usr_admin"), fifth, fifth.Payments[0].ID)
		h.Clock.Advance(time.Minute)
		h.changeDestination("rec_btc")
		h.release(fifth.ID)
		h.wantPayment(fifth, 0, OnHold, ReasonCoolDown, 0)
	})
}

// A payee whose destination changed after the last payment is listed, for thirty days or until the payment is sent. A
// first destination is not a change.
func TestRecentDestinationChangesAreListed(t *testing.T) {
	run(t, func(h *env) {
		listed := func(when string, p Payroll, want map[string]time.Time) {
			h.Helper()
			p = h.get(p.ID)
			h.Write(func(ctx context.Context, tx *db.Tx) error {
				got, err := h.s.RecentDestinationChanges(ctx, tx, p)
				if !maps.EqualFunc(got, want, time.Time.Equal) {
					h.Errorf("%s: %v, want %v", when, got, want)
				}
				return err
			})
		}
		pay := func(p Payroll) {
			h.fund(p, "confirmed")
			h.release(p.ID)
		}
		h.changeDestination("rec_btc")
		h.Clock.Advance(time.Minute)
		first := h.create(CreateParams{ToPay: worked})
		listed("a first payment", first, nil)
		pay(first)
		h.Clock.Advance(time.Minute)
		h.changeDestination("rec_btc")
		at := h.Clock.Now()
		h.Clock.Advance(time.Minute)
		second := h.create(CreateParams{ToPay: worked})
		listed("changed since", second, map[string]time.Time{"rec_btc": at})
		listed("paid before it", first, nil)
		pay(second)
		listed("paid", second, nil)
		h.Clock.Advance(time.Minute)
		third := h.create(CreateParams{ToPay: worked})
		listed("paid there once", third, nil)
		h.changeDestination("rec_btc")
		listed("changed again", third, map[string]time.Time{"rec_btc": h.Clock.Now()})
		h.Clock.Advance(changeShown)
		listed("long ago", third, nil)
	})
}

// A released payment is sent to the destination at the time of its release, even if the payee changes it before it is
// sent.
func TestAReleasedPaymentKeepsItsDestination(t *testing.T) {
	run(t, func(h *env) {
		goes := func(p Payroll, want string) {
			h.Helper()
			if got := h.get(p.ID).Payments[0].Outputs; len(got) != 1 || got[0].Address != want {
				h.Errorf("%+v, want %s", got, want)
			}
		}
		first := h.released(worked...)
		h.Exec("UPDATE destinations SET address = 'bcrt1qelsewhere' WHERE owner_id = 'rec_btc'")
		h.release(first.ID)
		h.Deliver(h.s.Settle, "payroll_id", first.ID)
		goes(first, "bcrt1qrec_btc")
		goes(h.released(worked...), "bcrt1qelsewhere")
		goes(first, "bcrt1qrec_btc")
	})
}
