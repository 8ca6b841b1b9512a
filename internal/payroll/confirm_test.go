package payroll

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// A payment to a changed destination waits until the change is a day old, unless the payee was never paid: a first
// destination is not a change.
func TestAChangedDestinationCoolsDown(t *testing.T) {
	run(t, func(h *fixture) {
		h.s.CoolDown = 24 * time.Hour
		moved := func(id string) {
			h.exec("INSERT INTO destination_owners (owner_id, destinations, version, destination_changed_at) SELECT $1, 1, 1, "+
				"CAST($2 AS BIGINT) WHERE TRUE ON CONFLICT (owner_id) DO UPDATE SET destination_changed_at = "+
				"excluded.destination_changed_at",
				id, db.Micros(h.clock.Now()))
		}
		pay := func() Payroll {
			p := h.create(CreateParams{ToPay: worked})
			h.deposit(p, "dep_"+p.ID, p.Quote.Funding.Units(), "confirmed")
			h.release(p.ID)
			return h.get(p.ID)
		}
		moved("rec_btc")
		first := pay()
		if first.Payments[0].State != Released {
			t.Fatalf("a first payment is held: %+v", first.Payments[0])
		}
		h.clock.Advance(time.Hour)
		second := pay()
		if second.Payments[0].State != Released {
			t.Fatalf("a change before the first payment holds: %+v", second.Payments[0])
		}
		h.clock.Advance(time.Hour)
		moved("rec_btc")
		h.clock.Advance(23 * time.Hour)
		third := pay()
		if m := third.Payments[0]; m.State != OnHold || m.Reason != ReasonCoolDown || len(m.Outputs) != 0 ||
			third.Payments[1].State != Released {
			t.Fatalf("%+v", third.Payments)
		}
		if owed := h.balance(ledger.PayeePayable, third.Payments[0].ID, money.USD); owed != 600_00 {
			t.Errorf("%d stay owed", owed)
		}
		h.release(third.ID)
		if m := h.get(third.ID).Payments[0]; m.State != OnHold {
			t.Errorf("released early: %+v", m)
		}
		h.clock.Advance(time.Hour)
		h.release(third.ID)
		if m := h.get(third.ID).Payments[0]; m.State != Released || len(m.Outputs) != 1 {
			t.Errorf("%+v", m)
		}

		// After an administrator's confirmation the payment need not wait. A later change starts another wait.
		h.member("usr_admin", identity.RoleAdmin)
		confirm := func(code string, by identity.Principal, p Payroll, payment string) {
			h.t.Helper()
			h.says(code, func(ctx context.Context, tx *db.Tx) error {
				_, err := h.s.ConfirmDestination(ctx, tx, by, p.ID, payment)
				return err
			})
		}
		moved("rec_btc")
		h.clock.Advance(time.Minute)
		fourth := pay()
		held := fourth.Payments[0].ID
		confirm("role_required", h.by, fourth, held)
		confirm("not_found", h.as("usr_admin"), fourth, third.Payments[0].ID)
		confirm("invalid_state", h.as("usr_admin"), fourth, fourth.Payments[1].ID)
		confirm("", h.as("usr_admin"), fourth, held)
		h.release(fourth.ID)
		if m := h.get(fourth.ID).Payments[0]; m.State != Released || len(m.Outputs) != 1 {
			t.Errorf("confirmed: %+v", m)
		}
		fifth := pay()
		confirm("", h.as("usr_admin"), fifth, fifth.Payments[0].ID)
		h.clock.Advance(time.Minute)
		moved("rec_btc")
		h.release(fifth.ID)
		if m := h.get(fifth.ID).Payments[0]; m.State != OnHold || m.Reason != ReasonCoolDown {
			t.Errorf("changed after it was confirmed: %+v", m)
		}
	})
}

// A payee whose destination changed since the last payment is listed until this payment is sent, for thirty days. A
// first destination is not a change.
func TestAMovedPayeeIsNamed(t *testing.T) {
	run(t, func(h *fixture) {
		moved := func(id string) {
			h.exec("INSERT INTO destination_owners (owner_id, destinations, version, destination_changed_at) SELECT $1, 1, 1, "+
				"CAST($2 AS BIGINT) WHERE TRUE ON CONFLICT (owner_id) DO UPDATE SET destination_changed_at = "+
				"excluded.destination_changed_at",
				id, db.Micros(h.clock.Now()))
		}
		named := func(when string, p Payroll, want map[string]time.Time) {
			h.t.Helper()
			p = h.get(p.ID)
			h.write(func(ctx context.Context, tx *db.Tx) error {
				got, err := h.s.RecentDestinationChanges(ctx, tx, p)
				if !maps.EqualFunc(got, want, time.Time.Equal) {
					h.t.Errorf("%s: %v, want %v", when, got, want)
				}
				return err
			})
		}
		pay := func(p Payroll) {
			h.deposit(p, "dep_"+p.ID, p.Quote.Funding.Units(), "confirmed")
			h.release(p.ID)
		}
		moved("rec_btc")
		h.clock.Advance(time.Minute)
		first := h.create(CreateParams{ToPay: worked})
		named("a first payment", first, nil)
		pay(first)
		h.clock.Advance(time.Minute)
		moved("rec_btc")
		at := h.clock.Now()
		h.clock.Advance(time.Minute)
		second := h.create(CreateParams{ToPay: worked})
		named("changed since", second, map[string]time.Time{"rec_btc": at})
		named("paid before it", first, nil)
		pay(second)
		named("paid", second, nil)
		h.clock.Advance(time.Minute)
		third := h.create(CreateParams{ToPay: worked})
		named("paid there once", third, nil)
		moved("rec_btc")
		named("changed again", third, map[string]time.Time{"rec_btc": h.clock.Now()})
		h.clock.Advance(changeShown)
		named("long ago", third, nil)
	})
}

// A released payment is sent to the destination at the time of its release, even if the payee changes it before it is
// sent.
func TestADestinationStandsAtItsRelease(t *testing.T) {
	run(t, func(h *fixture) {
		pay := func() Payroll {
			p := h.create(CreateParams{ToPay: worked})
			h.deposit(p, "dep_"+p.ID, p.Quote.Funding.Units(), "confirmed")
			h.release(p.ID)
			return p
		}
		goes := func(p Payroll, want string) {
			h.t.Helper()
			if got := h.get(p.ID).Payments[0].Outputs; len(got) != 1 || got[0].Address != want {
				h.t.Errorf("%+v, want %s", got, want)
			}
		}
		first := pay()
		h.exec("UPDATE destinations SET address = 'bcrt1qelsewhere' WHERE owner_id = 'rec_btc'")
		h.release(first.ID)
		h.deliver(h.s.Settle, `{"payroll_id":"`+first.ID+`"}`)
		goes(first, "bcrt1qrec_btc")
		goes(pay(), "bcrt1qelsewhere")
		goes(first, "bcrt1qrec_btc")
	})
}
