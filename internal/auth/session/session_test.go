package session_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/testkit"
)

func sealer(t *testing.T) *identity.Sealer {
	t.Helper()
	s, err := identity.NewSealer(make([]byte, 32))
	testkit.Check(t, err)
	return s
}

func find(t *testing.T, d *db.DB, token string) (s session.Session, err error) {
	t.Helper()
	err = d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		s, err = session.Find(ctx, tx, token)
		return err
	})
	return s, err
}

func TestSessions(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		var user identity.User
		var open, closed, other identity.Company
		start := func(begin func(context.Context, *db.Tx, string) (string, error)) (token string) {
			t.Helper()
			dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
				token, err = begin(ctx, tx, user.ID)
				return err
			})
			return token
		}
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
			user, err = identity.CreateUser(ctx, tx, sealer(t), identity.NewUser{
				Profile: identity.Profile{Email: "ada@example.com", FirstName: "Ada"}})
			if err != nil {
				return err
			}
			for name, company := range map[string]*identity.Company{"Open": &open, "Closed": &closed, "Other": &other} {
				if *company, err = identity.CreateCompany(ctx, tx, identity.NewCompany{Name: name, Country: "US"}); err != nil {
					return err
				}
			}
			_, err = identity.SetCompanyStatus(ctx, tx, closed.ID, identity.CompanyActive, identity.CompanyClosed)
			return errors.Join(err,
				identity.AddMember(ctx, tx, identity.Member{CompanyID: closed.ID, UserID: user.ID, Role: identity.RoleOwner}),
				identity.AddMember(ctx, tx, identity.Member{CompanyID: open.ID, UserID: user.ID, Role: identity.RoleViewer}))
		})

		token := start(session.Start)
		s, err := find(t, d, token)
		if err != nil || s.User.ID != user.ID || s.Company.ID != open.ID || s.Role != identity.RoleViewer ||
			len(s.Members) != 1 || s.Manages() || s.Administers() || s.Proven() || !s.SignedInFreshly(clock.Now()) {
			t.Fatalf("%+v %v", s, err)
		}
		if p := s.Principal(); p.Kind != identity.KindSession || p.CompanyID != open.ID || p.UserID != user.ID ||
			p.Scopes != 0 {
			t.Errorf("principal %+v", p)
		}
		for _, id := range []string{closed.ID, other.ID} {
			err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error { return session.ActFor(ctx, tx, s, id) })
			if !errors.Is(err, apierr.NotFoundErr) {
				t.Errorf("acting for %s: %v", id, err)
			}
		}

		// A new role takes effect in the existing session.
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			return identity.AddMember(ctx, tx, identity.Member{CompanyID: open.ID, UserID: user.ID, Role: identity.RoleAdmin})
		})
		if s, err = find(t, d, token); err != nil || !s.Manages() || !s.Administers() {
			t.Errorf("as an administrator: %+v %v", s, err)
		}

		// A session that waits for a second factor is none.
		waiting := start(session.StartWaiting)
		if _, err := find(t, d, waiting); !errors.Is(err, apierr.NotFoundErr) {
			t.Errorf("a waiting session is found: %v", err)
		}
		found := func(token string) error {
			return d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				u, err := session.FindWaiting(ctx, tx, token)
				if err == nil && u.ID != user.ID {
					t.Errorf("FindWaiting returns %s", u.ID)
				}
				return err
			})
		}
		if err := errors.Join(found(waiting)); err != nil {
			t.Error(err)
		}
		if err := found(token); !errors.Is(err, apierr.NotFoundErr) {
			t.Errorf("a full session waits for a factor: %v", err)
		}
		clock.Advance(session.Wait)
		if err := found(waiting); !errors.Is(err, apierr.NotFoundErr) {
			t.Errorf("a waiting session after %s: %v", session.Wait, err)
		}

		// A second factor counts for a while.
		proven := start(func(ctx context.Context, tx *db.Tx, userID string) (string, error) {
			return session.StartProven(ctx, tx, userID, "")
		})
		if s, err = find(t, d, proven); err != nil || !s.ProvenFreshly(clock.Now()) ||
			s.ProvenFreshly(clock.Now().Add(session.Fresh)) || !s.Proven() {
			t.Errorf("%+v %v", s, err)
		}
		if s, _ = find(t, d, token); s.SignedInFreshly(clock.Now()) {
			t.Error("the first sign-in is still fresh")
		}
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error { return session.Prove(ctx, tx, s) })
		if s, _ = find(t, d, token); !s.ProvenFreshly(clock.Now()) {
			t.Error("Prove had no effect")
		}

		// EndOthers and End.
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error { return session.EndOthers(ctx, tx, s) })
		if _, err := find(t, d, proven); !errors.Is(err, apierr.NotFoundErr) {
			t.Errorf("another session after EndOthers: %v", err)
		}
		for _, bad := range []string{"", "x", token[:len(token)-1] + "!"} {
			if _, err := find(t, d, bad); !errors.Is(err, apierr.NotFoundErr) {
				t.Errorf("token %q: %v", bad, err)
			}
		}
		ended := start(session.Start)
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error { return session.End(ctx, tx, ended) })
		if _, err := find(t, d, ended); !errors.Is(err, apierr.NotFoundErr) {
			t.Errorf("after End: %v", err)
		}

		// Idle and maximum lifetime.
		idle := start(session.Start)
		for range int(session.Life/session.Idle) + 1 {
			clock.Advance(session.Idle - time.Minute)
			if s, err := find(t, d, token); err == nil {
				if !s.NeedsTouch(clock.Now()) {
					t.Error("NeedsTouch is false after an idle time")
				}
				dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error { return session.Touch(ctx, tx, s) })
			}
		}
		for name, token := range map[string]string{"unused": idle, "used for its whole life": token} {
			if _, err := find(t, d, token); !errors.Is(err, apierr.NotFoundErr) {
				t.Errorf("a session %s: %v", name, err)
			}
		}
		testkit.Check(t, session.Forget(t.Context(), d))
		var left int
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			return tx.QueryRow(ctx, "SELECT COUNT(*) FROM sessions").Scan(&left)
		}); err != nil || left != 0 {
			t.Errorf("%d sessions after Forget: %v", left, err)
		}
	})
}

func TestNetwork(t *testing.T) {
	for from, want := range map[string]string{
		"192.0.2.1":                  "192.0.2.1",
		"::ffff:192.0.2.1":           "192.0.2.1",
		"2001:db8:1:2:3:4:5:6":       "2001:db8:1:2::",
		"2001:db8:1:2:ffff::1":       "2001:db8:1:2::",
		"fe80::1%eth0":               "fe80::",
		"2001:db8:1:3:ffff:ffff::":   "2001:db8:1:3::",
		"::ffff:198.51.100.255":      "198.51.100.255",
		"2001:db8:ffff:ffff::abcd:1": "2001:db8:ffff:ffff::",
	} {
		if got := session.Network(netip.MustParseAddr(from)); got.String() != want {
			t.Errorf("%s: %s, want %s", from, got, want)
		}
	}
}

func TestAttemptsAreLimited(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		home, away := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("192.0.2.1")
		neighbor := netip.MustParseAddr("2001:db8::2") // of the same /64
		attempt := func(email string, from netip.Addr) (allowed bool) {
			t.Helper()
			dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
				_, allowed, err = session.Attempt(ctx, tx, email, from)
				return err
			})
			return allowed
		}

		// Per network, at any accounts. Successful attempts do not count.
		for i := range session.MaxAttempts {
			if !attempt(fmt.Sprintf("user%d@example.com", i), home) {
				t.Fatalf("attempt %d is not allowed", i+1)
			}
		}
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			return session.Succeeded(ctx, tx, "user0@example.com", home)
		})
		if !attempt("other@example.com", neighbor) || attempt("other@example.com", neighbor) {
			t.Error("a successful attempt counts, or the network is not limited")
		}
		if !attempt("other@example.com", away) {
			t.Error("another network is limited")
		}
		clock.Advance(session.Window)
		if !attempt("other@example.com", home) {
			t.Error("the limit does not end")
		}

		// Per account, from all networks. Case and spaces do not matter.
		clock.Advance(session.Window)
		for i := range session.MaxAgainst {
			from := netip.AddrFrom4([4]byte{198, 51, 100, byte(i)})
			if email := []string{"Ada@example.com", " ada@EXAMPLE.com"}[i%2]; !attempt(email, from) {
				t.Fatalf("attempt %d at the account is not allowed", i+1)
			}
		}
		if attempt("ada@example.com", away) {
			t.Error("the account is not limited")
		}

		// One-time codes and mails.
		code := func() (allowed bool) {
			dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
				allowed, err = session.AttemptCode(ctx, tx, "usr_1")
				return err
			})
			return allowed
		}
		for range session.MaxAttempts {
			if !code() {
				t.Fatal("a code is not allowed")
			}
		}
		if code() {
			t.Error("codes are not limited")
		}
		for i := range session.MaxMails + 1 {
			var send, allowed bool
			dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
				send, allowed, err = session.AttemptMail(ctx, tx, "ada@example.com", home)
				return err
			})
			if send != (i < session.MaxMailsTo) || allowed != (i < session.MaxMails) {
				t.Errorf("mail %d: send %v, allowed %v", i+1, send, allowed)
			}
		}
	})
}
