package payee_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/testkit"
)

func (w world) invite(by identity.Principal, email string) (v payee.Invitation, err error) {
	err = w.d.Write(w.Context(), func(ctx context.Context, tx *db.Tx) error {
		v, err = payee.Invite(ctx, tx, w.s, by, payee.InviteParams{Email: email})
		return err
	})
	return v, err
}

func (w world) resend(email string) error {
	return w.d.Write(w.Context(), func(ctx context.Context, tx *db.Tx) error {
		_, err := payee.Resend(ctx, tx, w.s, w.by, "", email)
		return err
	})
}

func (w world) revoke(email string) error {
	return w.d.Write(w.Context(), func(ctx context.Context, tx *db.Tx) error {
		_, err := payee.Revoke(ctx, tx, w.by, "", email)
		return err
	})
}

func (w world) accept(token string, n identity.NewUser) (userID string, err error) {
	err = w.d.Write(w.Context(), func(ctx context.Context, tx *db.Tx) error {
		userID, _, err = payee.AcceptInvitation(ctx, tx, w.s, token, n)
		return err
	})
	return userID, err
}

func (w world) look(token string) (v payee.Invitation, err error) {
	err = w.d.Read(w.Context(), func(ctx context.Context, tx *db.Tx) error {
		v, err = payee.InvitationByToken(ctx, tx, token)
		return err
	})
	return v, err
}

// token returns the token of the link in the last mail of an invitation.
func (w world) token(v payee.Invitation) string {
	w.Helper()
	var letter mail.InvitationData
	if err := w.d.Read(w.Context(), func(ctx context.Context, tx *db.Tx) error {
		var id, sealed string
		err := tx.QueryRow(ctx,
			"SELECT mail_id, data FROM mails WHERE mail_key LIKE $1 ORDER BY created_at DESC, mail_id DESC LIMIT 1",
			v.ID+"/%").Scan(&id, &sealed)
		if err != nil {
			return err
		}
		data, err := w.s.Open(identity.SealContext{Table: "mails", Column: "data", Row: id}, sealed)
		if err != nil {
			return err
		}
		return json.Unmarshal(data, &letter)
	}); err != nil || letter.Company != "Company" || !strings.HasPrefix(letter.Token, "stp_link_") {
		w.Errorf("the mail of an invitation: %+v %v", letter, err)
	}
	return letter.Token
}

// drain runs all due jobs.
func (w world) drain() {
	w.Helper()
	table := job.Table{payee.JobExpire: {Tx: payee.HandleExpire}}
	if err := job.NewRunner(w.d, table, nil, nil).Drain(w.Context()); err != nil {
		w.Error(err)
	}
}

var ada = identity.NewUser{Profile: identity.Profile{FirstName: "Ada", LastName: "Lovelace", Country: "GB"}}

func TestInvitationIsAccepted(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		v, err := w.invite(w.by, "Ada@Example.com")
		if err != nil || v.State != "sent" || v.Role != payee.Contractor || !v.Expires.Equal(v.Created.Add(14*24*time.Hour)) {
			t.Fatalf("%+v %v", v, err)
		}
		token := w.token(v)
		seen, err := w.look(token)
		if err != nil || seen.CompanyName != "Company" || seen.Email != "Ada@example.com" || seen.State != "sent" {
			t.Errorf("%+v %v", seen, err)
		}
		_, err = w.accept(token, identity.NewUser{})
		if f, _ := apierr.As(err); f == nil || len(f.Fields) != 3 {
			t.Errorf("an empty profile: %v", err)
		}
		n := ada
		n.Email = "mallory@example.com" // AcceptInvitation ignores this address and uses that of the invitation
		id, err := w.accept(token, n)
		testkit.Check(t, err)
		_ = d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			u, err := identity.GetUser(ctx, tx, nil, id)
			if err != nil || u.Email != "Ada@example.com" || u.FirstName != "Ada" {
				t.Errorf("%+v %v", u, err)
			}
			s, err := payee.Workers(ctx, tx, w.by, payee.WorkersParams{Email: "ada@example.com"})
			if err != nil || s.Total != 1 || s.Items[0].UserID != id {
				t.Errorf("%+v %v", s, err)
			}
			return nil
		})
		if got := w.events(v.ID); !slices.Equal(got, []string{"invitation.sent", "invitation.accepted"}) {
			t.Errorf("events %v", got)
		}
		if seen, err := w.look(token); err != nil || seen.State != "accepted" || seen.UserID != id {
			t.Errorf("%+v %v", seen, err)
		}
		if _, err := w.accept(token, ada); !errors.Is(err, payee.ErrNotOpen) {
			t.Errorf("twice: %v", err)
		}
		if err := w.resend("ada@example.com"); !errors.Is(err, payee.ErrNotOpen) {
			t.Errorf("resend: %v", err)
		}
		if _, err := w.invite(w.by, "ADA@example.com"); !errors.Is(err, payee.ErrAlreadyWorker) {
			t.Errorf("invited again: %v", err)
		}

		// Another company invites the same person: their account is linked and does not change.
		v, err = w.invite(w.other, "ada@example.com")
		if err != nil || v.State != "sent" {
			t.Fatalf("%+v %v", v, err)
		}
		again, err := w.accept(w.token(v), identity.NewUser{Profile: identity.Profile{FirstName: "Mallory", LastName: "X",
			Country: "US"}})
		if err != nil || again != id {
			t.Errorf("%s %v", again, err)
		}
		_ = d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if r, err := payee.Get(ctx, tx, w.other, "", id); err != nil || r.Name != "Ada Lovelace" || r.UserID != id {
				t.Errorf("%+v %v", r, err)
			}
			return nil
		})
	})
}

// Concurrent requests with one link accept it once.
func TestInvitationIsAcceptedOnce(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		v, err := w.invite(w.by, "ada@example.com")
		testkit.Check(t, err)
		token := w.token(v)
		var wg sync.WaitGroup
		errs := make([]error, 10)
		for i := range errs {
			wg.Go(func() { _, errs[i] = w.accept(token, ada) })
		}
		wg.Wait()
		accepted := 0
		for _, err := range errs {
			switch {
			case err == nil:
				accepted++
			case !errors.Is(err, payee.ErrNotOpen):
				t.Error(err)
			}
		}
		if accepted != 1 {
			t.Errorf("accepted %d times", accepted)
		}
	})
}

func TestInvitationEnds(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := open(t, d)
		v, err := w.invite(w.by, "ada@example.com")
		testkit.Check(t, err)
		old := w.token(v)
		if _, err := w.invite(w.by, "ADA@example.com"); !errors.Is(err, payee.ErrAlreadyOpen) {
			t.Errorf("a second open one: %v", err)
		}
		if f, _ := apierr.As(second(w.invite(w.by, "ada@example.com"))); f == nil || f.Meta["invitation_id"] != v.ID {
			t.Error("the refusal does not name the open invitation")
		}

		// On the thirteenth day, resending gives 14 more days, and the old link stops working.
		clock.Advance(13 * 24 * time.Hour)
		testkit.Check(t, w.resend("ada@example.com"))
		if _, err := w.look(old); !errors.Is(err, apierr.NotFoundErr) {
			t.Errorf("the old link: %v", err)
		}
		token := w.token(v)
		clock.Advance(13 * 24 * time.Hour)
		w.drain()
		if seen, err := w.look(token); err != nil || seen.State != "sent" || seen.Resends != 1 {
			t.Errorf("%+v %v", seen, err)
		}

		// One second before its end the invitation is open; at its end it is not, even before the job has run.
		clock.Advance(24*time.Hour - time.Second)
		if seen, _ := w.look(token); seen.State != "sent" {
			t.Errorf("%+v", seen)
		}
		clock.Advance(time.Second)
		if seen, _ := w.look(token); seen.State != "expired" {
			t.Errorf("%+v", seen)
		}
		if _, err := w.accept(token, ada); !errors.Is(err, payee.ErrNotOpen) {
			t.Errorf("accepted after its end: %v", err)
		}
		if err := w.revoke("ada@example.com"); !errors.Is(err, payee.ErrNotOpen) {
			t.Errorf("revoked after its end: %v", err)
		}
		for status, want := range map[string]int{"sent": 0, "expired": 1, "accepted": 0, "revoked": 0, "": 1} {
			_ = d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				s, err := payee.Invitations(ctx, tx, w.by, payee.InvitationsParams{Status: status, Email: "Ada@example.com"})
				if err != nil || s.Total != want {
					t.Errorf("status %q: %+v %v", status, s, err)
				}
				return nil
			})
		}
		w.drain()
		w.drain()
		if got := w.events(v.ID); !slices.Equal(got, []string{"invitation.sent", "invitation.sent", "invitation.expired"}) {
			t.Errorf("events %v", got)
		}

		// An expired invitation can be resent up to the limit. A new invitation to the same address starts a new
		// count.
		for range 2 {
			testkit.Check(t, w.resend("ada@example.com"))
		}
		if err := w.resend("ada@example.com"); !errors.Is(err, payee.ErrResendLimit) {
			t.Errorf("the fourth: %v", err)
		}
		clock.Advance(15 * 24 * time.Hour)
		if err := w.resend("ada@example.com"); !errors.Is(err, payee.ErrResendLimit) {
			t.Errorf("the fourth, expired: %v", err)
		}
		if _, err := w.invite(w.by, "ada@example.com"); err != nil {
			t.Error(err)
		}
		if got := w.events(v.ID); got[len(got)-1] != "invitation.expired" {
			t.Errorf("events %v", got)
		}
	})
}

// Mails of a revoked invitation count toward the limit of mails to an address.
func TestRevokedInvitationsCount(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := open(t, d)
		mails := 0
		for range 10 {
			v, err := w.invite(w.by, "ada@example.com")
			if errors.Is(err, payee.ErrResendLimit) {
				break
			}
			testkit.Check(t, err)
			mails++
			token := w.token(v)
			if mails%2 == 0 {
				w.write(func(ctx context.Context, tx *db.Tx) error { return payee.DeclineInvitation(ctx, tx, token) })
			} else if err := w.revoke("ada@example.com"); err != nil {
				t.Fatal(err)
			}
			if _, err := w.accept(token, ada); !errors.Is(err, payee.ErrNotOpen) {
				t.Errorf("accepted after its end: %v", err)
			}
			if seen, err := w.look(token); err != nil || seen.State != "revoked" ||
				seen.Reason != map[bool]string{true: "declined", false: "revoked"}[mails%2 == 0] {
				t.Errorf("%+v %v", seen, err)
			}
			if got := w.events(v.ID); !slices.Equal(got, []string{"invitation.sent", "invitation.revoked"}) {
				t.Errorf("events %v", got)
			}
			clock.Advance(time.Hour)
		}
		if mails != 4 {
			t.Errorf("%d mails", mails)
		}
		clock.Advance(14 * 24 * time.Hour)
		if _, err := w.invite(w.by, "ada@example.com"); err != nil {
			t.Errorf("a fortnight later: %v", err)
		}
	})
}
