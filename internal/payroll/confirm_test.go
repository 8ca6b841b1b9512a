package payroll

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payout"
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
				return h.confirmDestination(ctx, tx, by, p.ID, payment)
			}))
		}
		h.changeDestination("rec_btc")
		h.Clock.Advance(time.Minute)
		fourth := h.released(worked...)
		held := fourth.Payments[0].ID
		confirm("role_required", h.By, fourth, held)
		confirm("not_found", h.as("usr_admin"), fourth, third.Payments[0].ID)
		confirm("invalid_state", h.as("usr_admin"), fourth, fourth.Payments[1].ID)
		h.WantFault("payroll_changed", fixture.Drop(func(ctx context.Context, tx *db.Tx) (Payroll, error) {
			return h.s.ConfirmDestination(ctx, tx, h.as("usr_admin"), fourth.ID, held, "as shown before a change")
		}))
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

// wantWarnings checks the warnings of the payments of a payroll, by position.
func (h *env) wantWarnings(when string, p Payroll, want map[int][]Warning) {
	h.Helper()
	p = h.get(p.ID)
	h.Read(func(ctx context.Context, tx *db.Tx) error {
		all, err := h.s.Warnings(ctx, tx, p)
		got := map[int][]Warning{}
		for i, m := range p.Payments {
			if len(all[m.ID]) > 0 {
				got[i] = all[m.ID]
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			h.Errorf("%s: %v, want %v", when, got, want)
		}
		return err
	})
}

// A first payment is a warning. So is a destination that changed after the last payment, until the payee is paid there.
// A first destination is not a change.
func TestFirstPaymentsAndChangedDestinationsAreWarnings(t *testing.T) {
	run(t, func(h *env) {
		pay := func(p Payroll) {
			h.fund(p, "confirmed")
			h.release(p.ID)
		}
		changed := func() map[int][]Warning {
			return map[int][]Warning{0: {{Code: WarnDestination, Since: h.Clock.Now()}}}
		}
		h.changeDestination("rec_btc")
		h.Clock.Advance(time.Minute)
		first := h.create(CreateParams{ToPay: worked})
		h.wantWarnings("a first payment", first, map[int][]Warning{0: {{Code: WarnFirst}}, 1: {{Code: WarnFirst}}})
		pay(first)
		h.Clock.Advance(time.Minute)
		h.changeDestination("rec_btc")
		want := changed()
		h.Clock.Advance(time.Minute)
		second := h.create(CreateParams{ToPay: worked})
		h.wantWarnings("changed since", second, want)
		h.wantWarnings("paid before it", first, nil)
		pay(second)
		h.wantWarnings("paid", second, nil)
		h.Clock.Advance(time.Minute)
		third := h.create(CreateParams{ToPay: worked})
		h.wantWarnings("paid there once", third, nil)
		h.changeDestination("rec_btc")
		again := changed()
		h.wantWarnings("changed again", third, again)
		h.Clock.Advance(200 * 24 * time.Hour)
		h.wantWarnings("long after the change, and not paid since", third, again)
	})
}

// An amount over one and a half times the largest of the last payments is a warning, and so are several payments within
// a week.
func TestUnusualAmountsAndFrequentPaymentsAreWarnings(t *testing.T) {
	run(t, func(h *env) {
		ask := func(amount, currency string) Payroll {
			return h.create(CreateParams{Currency: currency, ToPay: []Payee{{AmountText: amount, UserID: "rec_btc"}}})
		}
		h.outcome(h.released(Payee{AmountText: "400", UserID: "rec_btc"}), "", payout.Fulfilled)
		h.Clock.Advance(time.Second)
		h.released(Payee{AmountText: "300", UserID: "rec_btc"}) // smaller, so the first one still counts
		over := map[int][]Warning{0: {{Code: WarnAmount, Most: usd(400_00)}}}
		h.wantWarnings("one and a half times as much", ask("600", "USD"), nil)
		more := ask("600.01", "USD")
		frequent := Warning{Code: WarnFrequent, Recent: 3} // one of the other three is not released
		h.wantWarnings("more", more, map[int][]Warning{0: {over[0][0], frequent}})
		other := ask("9000", "EUR")
		frequent.Recent = 4
		h.wantWarnings("in a currency without history", other, map[int][]Warning{0: {frequent}})
		h.wantWarnings("the one that was asked for before", more, map[int][]Warning{0: {over[0][0], frequent}})
		h.Clock.Advance(frequentWithin + time.Second)
		h.wantWarnings("a week ago", more, over)

		// Several at once, without a release, and several in one payroll.
		three := Payee{AmountText: "100", UserID: "rec_btc"}
		var all []Payroll
		for range 4 {
			all = append(all, ask("100", "USD"))
		}
		frequent.Recent = 3
		for _, p := range all {
			h.wantWarnings("four at once", p, map[int][]Warning{0: {frequent}})
		}
		h.Exec("UPDATE payments SET state = 'cancelled' WHERE payroll_id = $1", all[0].ID)
		h.wantWarnings("one was cancelled", all[1], nil)
		h.Clock.Advance(frequentWithin + time.Second)
		h.wantWarnings("three others of the same payroll", h.create(CreateParams{Currency: "USD",
			ToPay: []Payee{three, three, three, three}}), map[int][]Warning{0: {frequent}, 1: {frequent}, 2: {frequent},
			3: {frequent}})
		h.wantWarnings("two others of the same payroll", h.create(CreateParams{Currency: "EUR",
			ToPay: []Payee{three}}), map[int][]Warning{0: {{Code: WarnFrequent, Recent: 4}}})
		h.Clock.Advance(frequentWithin + time.Second)

		for range historyLength - 1 {
			h.released(Payee{AmountText: "300", UserID: "rec_btc"})
		}
		h.Clock.Advance(frequentWithin + time.Second)
		h.wantWarnings("the largest is no longer among the last", ask("451", "USD"),
			map[int][]Warning{0: {{Code: WarnAmount, Most: usd(300_00)}}})
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

// confirmDestination confirms a payment as a page shows it now.
func (h *env) confirmDestination(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID, paymentID string) (
	Payroll, error) {
	p, err := find(ctx, tx, h.By.CompanyID, payrollID)
	if err != nil {
		return Payroll{}, err
	}
	m, _, err := p.payment(ctx, tx, paymentID)
	if err != nil {
		return *p, err
	}
	shown, err := h.s.PaymentContent(ctx, tx, *p, m)
	if err != nil {
		return *p, err
	}
	return h.s.ConfirmDestination(ctx, tx, by, payrollID, paymentID, shown)
}
