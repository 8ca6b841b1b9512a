package notification

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/webhook"
)

// team is a company with an owner and an administrator.
type team struct {
	*testing.T
	d       *db.DB
	company string
	members []string
	serial  int64
}

func newTeam(t *testing.T, d *db.DB) *team {
	x := &team{T: t, d: d}
	sealer, err := identity.NewSealer(make([]byte, 32))
	testkit.Check(t, err)
	dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
		c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Acme", Country: "US", KYBStatus: "approved"})
		x.company = c.ID
		for i, role := range []string{identity.RoleOwner, identity.RoleAdmin} {
			if err != nil {
				return err
			}
			var u identity.User
			if u, err = identity.CreateUser(ctx, tx, sealer, identity.NewUser{
				PasswordHash: "none", Profile: identity.Profile{Email: fmt.Sprintf("member%d@acme.example", i)}}); err == nil {
				err = identity.AddMember(ctx, tx, identity.Member{CompanyID: c.ID, UserID: u.ID, Role: role})
				x.members = append(x.members, u.ID)
			}
		}
		return err
	})
	return x
}

// happen commits events and notifies members of them, as the service does.
func (x *team) happen(events ...func(serial int64) webhook.Event) {
	x.Helper()
	dbtest.Write(x, x.d, func(_ context.Context, tx *db.Tx) error {
		for _, e := range events {
			x.serial++
			if err := webhook.Emit(tx, e(x.serial)); err != nil {
				return err
			}
		}
		return nil
	})
	dbtest.Write(x, x.d, func(ctx context.Context, tx *db.Tx) error {
		all, err := webhook.Next(ctx, tx, 100)
		if err == nil {
			err = Handle(ctx, tx, all)
		}
		return err
	})
	runner := job.NewRunner(x.d, job.Table{JobNotify: {Tx: HandleNotify}}, nil, slog.New(slog.DiscardHandler))
	testkit.Check(x, runner.Drain(x.Context()))
}

// of returns the notifications of a member, oldest first, as kind, object and detail.
func (x *team) of(member string) (all []string) {
	x.Helper()
	dbtest.Read(x, x.d, func(ctx context.Context, tx *db.Tx) error {
		list, _, err := List(ctx, tx, auth.Actor{CompanyID: x.company, UserID: member}, 1, 100)
		for _, n := range list {
			all = append(all, fmt.Sprintf("%s %s %s", n.Kind, n.Path(), n.Detail))
		}
		slices.Reverse(all)
		return err
	})
	return all
}

func (x *team) mails() (n int64) {
	x.Helper()
	dbtest.Read(x, x.d, func(ctx context.Context, tx *db.Tx) error {
		return tx.QueryRow(ctx, "SELECT COUNT(*) FROM mails WHERE template = 'member_notification'").Scan(&n)
	})
	return n
}

func (x *team) verification(status, state string) func(int64) webhook.Event {
	return func(serial int64) webhook.Event {
		return webhook.CompanyKYBStatusUpdate.Event(x.company, x.company, serial, webhook.CompanyVerificationData{
			CompanyID: x.company, Status: status, State: state, Reasons: []string{}})
	}
}

func (x *team) returned(payout string) func(int64) webhook.Event {
	return func(serial int64) webhook.Event {
		data := webhook.PayoutReturned.Example
		data.PayrollID, data.PayoutID = "prl_1", payout
		return webhook.PayoutReturned.Event(x.company, "prl_1", serial, data)
	}
}

func (x *team) refund(id string) func(int64) webhook.Event {
	return func(serial int64) webhook.Event {
		data := webhook.RefundStatusUpdate.Example
		data.RefundID, data.ClaimID, data.Status = id, "clm_1", "awaiting_approval"
		return webhook.RefundStatusUpdate.Event(x.company, id, serial, data)
	}
}

// deposited is a change of a deposit that no object expects, or of one that is credited to a balance.
func (x *team) deposited(id, to, state string, held bool) func(int64) webhook.Event {
	return func(serial int64) webhook.Event {
		data := webhook.WalletDepositUpdate.Example
		data.DepositID, data.PaidTo, data.Status, data.Held = id, to, state, held
		return webhook.WalletDepositUpdate.Event(x.company, id, serial, data)
	}
}

// Members are notified once of money in a currency that its address does not expect, when it is confirmed.
func TestMembersAreNotifiedOfMoneyInAnotherCurrency(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := newTeam(t, d)
		x.happen(x.deposited("dep_1", "prl_1", "seen", true), x.deposited("dep_1", "prl_1", "confirmed", true))
		x.happen(x.deposited("dep_1", "prl_1", "reverted", true), x.deposited("dep_1", "prl_1", "confirmed", true))
		x.happen(x.deposited("dep_2", "wal_1", "confirmed", true), x.deposited("dep_3", "wal_1", "confirmed", false))
		want := []string{"deposit_held /payrolls/prl_1 ", "deposit_held /wallets "}
		for _, member := range x.members {
			if got := x.of(member); !slices.Equal(got, want) {
				t.Errorf("got %q", got)
			}
		}
		if n := x.mails(); n != 4 {
			t.Errorf("%d mails", n)
		}
	})
}

// Members are notified that a quote ends also if its event is handled late. A quote that is valid for a short time is
// not notified.
func TestLateEventsOfQuotesAreNotified(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := newTeam(t, d)
		for i, valid := range []time.Duration{30 * time.Minute, 20 * time.Minute} {
			dbtest.Write(t, d, func(_ context.Context, tx *db.Tx) error {
				data := webhook.PayrollQuoteRefreshed.Example
				data.ValidTo = tx.Now().Add(valid).Format(time.RFC3339)
				return webhook.Emit(tx, webhook.PayrollQuoteRefreshed.Event(x.company, "prl_1", int64(i+1), data))
			})
		}
		clock.Advance(16 * time.Minute)
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			all, err := webhook.Next(ctx, tx, 100)
			if err == nil {
				err = Handle(ctx, tx, all)
			}
			return err
		})
		dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
			var n int
			err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM jobs WHERE kind = $1 AND run_at <= $2", JobNotify,
				db.Micros(tx.Now())).Scan(&n)
			if n != 1 {
				t.Errorf("%d notifications are due, want 1", n)
			}
			return err
		})
	})
}

// Each event is notified once to each member whom it concerns, also if earlier ones about the same object were not
// read. What waits for an approval is not notified again while a member has not read of it.
func TestMembersAreNotifiedOfEachEvent(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := newTeam(t, d)
		x.happen(x.verification("resubmission_required", "more_info"), x.verification("pending", "in_review"))
		x.happen(x.verification("approved", "approved"))
		x.happen(x.returned("pay_1"), x.returned("pay_2"))
		x.happen(x.refund("ref_1"), x.refund("ref_2"), x.refund("ref_1"))
		want := []string{"verification /company/verification resubmission_required",
			"verification /company/verification approved", "payment_returned /payrolls/prl_1 ",
			"payment_returned /payrolls/prl_1 ", "approval_needed /claims/clm_1 ", "approval_needed /claims/clm_1 "}
		for _, member := range x.members {
			if got := x.of(member); !slices.Equal(got, want) {
				t.Errorf("got %q", got)
			}
		}
		if n := x.mails(); n != 12 {
			t.Errorf("%d mails", n)
		}
		by := auth.Actor{CompanyID: x.company, UserID: x.members[0]}
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error { return ReadAll(ctx, tx, by) })
		x.happen(x.refund("ref_1"))
		if first, second := len(x.of(x.members[0])), len(x.of(x.members[1])); first != 7 || second != 6 {
			t.Errorf("%d and %d notifications", first, second)
		}
	})
}
