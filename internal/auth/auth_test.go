package auth_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	netmail "net/mail"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/testkit"
)

type fixture struct {
	*testing.T
	d      *db.DB
	clock  *dbtest.Clock
	sealer *identity.Sealer
}

func run(t *testing.T, f func(x *fixture)) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		s, err := identity.NewSealer(make([]byte, 32))
		testkit.Check(t, err)
		f(&fixture{t, d, clock, s})
	})
}

// write runs fn in a transaction, one second after the previous one, so that mails have an order.
func (x *fixture) write(fn func(ctx context.Context, tx *db.Tx) error) {
	x.Helper()
	x.clock.Advance(time.Second)
	dbtest.Write(x, x.d, fn)
}

// fails runs fn in a transaction and wants an error.
func (x *fixture) fails(what string, want error, fn func(ctx context.Context, tx *db.Tx) error) {
	x.Helper()
	if err := x.d.Write(x.Context(), fn); !errors.Is(err, want) {
		x.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// user creates a user who signs in with an address.
func (x *fixture) user(email string) (u identity.User) {
	x.Helper()
	x.write(func(ctx context.Context, tx *db.Tx) (err error) {
		u, err = identity.CreateUser(ctx, tx, x.sealer, identity.NewUser{Profile: identity.Profile{Email: email}})
		return err
	})
	return u
}

// company creates a company with a member of each of the roles. The members' IDs are returned by role.
func (x *fixture) company(name string, roles ...string) (c identity.Company, members map[string]string) {
	x.Helper()
	members = map[string]string{}
	for _, role := range roles {
		members[role] = x.user(fmt.Sprintf("%s@%s.example", role, strings.ToLower(name))).ID
	}
	x.write(func(ctx context.Context, tx *db.Tx) (err error) {
		c, err = identity.CreateCompany(ctx, tx, identity.NewCompany{Name: name, Country: "US"})
		for role, id := range members {
			err = errors.Join(err, identity.AddMember(ctx, tx, identity.Member{CompanyID: c.ID, UserID: id, Role: role}))
		}
		return err
	})
	return c, members
}

// mails runs all jobs and returns the mails of a company ("" for none), newest first.
func (x *fixture) mails(companyID string) (all []mail.StoredMail) {
	x.Helper()
	mailer := &mail.Mailer{From: &netmail.Address{Address: "a@example.com"}, BaseURL: "https://x", Sealer: x.sealer}
	table := job.Table{auth.JobLink: {Tx: auth.HandleLink(x.sealer)}, mail.JobSend: {Net: mailer.Send}}
	testkit.Check(x, job.NewRunner(x.d, table, nil, slog.New(slog.DiscardHandler)).Drain(x.Context()))
	dbtest.Read(x, x.d, func(ctx context.Context, tx *db.Tx) (err error) {
		all, _, err = mail.List(ctx, tx, companyID, db.Page{PerPage: 1000})
		return err
	})
	return all
}

var linkToken = regexp.MustCompile(`https://x/[a-z-]+/(stp_link_[0-9a-z]+)`)

// token returns the token in the newest mail of a company to an address.
func (x *fixture) token(companyID, to string) string {
	x.Helper()
	for _, m := range x.mails(companyID) {
		if found := linkToken.FindStringSubmatch(m.Text); m.To == to && found != nil {
			return found[1]
		}
	}
	x.Fatalf("no link to %s", to)
	return ""
}

func (x *fixture) request(p auth.Purpose, email string) {
	x.Helper()
	x.write(func(ctx context.Context, tx *db.Tx) error { return auth.RequestLink(ctx, tx, p, email, "en") })
}

func (x *fixture) find(p auth.Purpose, token string) (email string, err error) {
	err = x.d.Read(x.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		email, err = auth.Find(ctx, tx, p, token)
		return err
	})
	return email, err
}

// Only the mail shows whether an account exists.
func TestRequestLink(t *testing.T) {
	run(t, func(x *fixture) {
		x.user("Ada@known.example")
		for _, c := range []struct {
			purpose auth.Purpose
			email   string
			want    string // template of the mail, "" for none
		}{
			{auth.ToSignUp, "new@example.com", mail.SignUp},
			{auth.ToSignUp, "ada@known.example", mail.AccountExists},
			{auth.ToReset, "ada@known.example", mail.PasswordReset},
			{auth.ToReset, "unknown@example.com", ""},
		} {
			before := len(x.mails(""))
			x.request(c.purpose, c.email)
			all := x.mails("")
			if got := len(all) - before; (got == 1) != (c.want != "") || got > 1 || got == 1 && all[0].Template != c.want {
				t.Errorf("%s for %s: %d mails, want %q", c.purpose, c.email, got, c.want)
			}
		}
		x.fails("an invalid address", mail.ErrAddress, func(ctx context.Context, tx *db.Tx) error {
			return auth.RequestLink(ctx, tx, auth.ToSignUp, "ada", "en")
		})

		first := x.token("", "new@example.com")
		x.request(auth.ToSignUp, "new@example.com")
		second := x.token("", "new@example.com")
		for token, ok := range map[string]bool{first: false, second: true, "": false, "x": false, second + "x": false} {
			if email, err := x.find(auth.ToSignUp, token); (err == nil) != ok || ok && email != "new@example.com" {
				t.Errorf("link %q: %q %v", token, email, err)
			}
		}
		if _, err := x.find(auth.ToReset, second); !errors.Is(err, apierr.NotFoundErr) {
			t.Errorf("a sign-up link resets a password: %v", err)
		}
		x.clock.Advance(auth.SignUpLife)
		if _, err := x.find(auth.ToSignUp, second); !errors.Is(err, apierr.NotFoundErr) {
			t.Errorf("a link after %s: %v", auth.SignUpLife, err)
		}
	})
}

func TestSignUpAndPasswordReset(t *testing.T) {
	run(t, func(x *fixture) {
		x.request(auth.ToSignUp, "grace@example.com")
		token := x.token("", "grace@example.com")
		signUp := func(ctx context.Context, tx *db.Tx) error {
			u, c, err := auth.SignUp(ctx, tx, x.sealer, token, auth.Business{FirstName: "Grace", LastName: "Hopper",
				CompanyName: "Acme", Country: "US"}, identity.NewCompany{FeeBps: 100})
			if err != nil {
				return err
			}
			members, err := auth.Members(ctx, tx, c.ID)
			if len(members) != 1 || members[0].UserID != u.ID || members[0].Role != identity.RoleOwner || c.FeeBps != 100 ||
				c.Email != "grace@example.com" {
				t.Errorf("%+v of %+v", members, c)
			}
			return err
		}
		x.write(signUp)
		x.fails("a used link", apierr.NotFoundErr, signUp)

		x.request(auth.ToReset, "grace@example.com")
		reset := x.token("", "grace@example.com")
		var user identity.User
		var cookie string
		x.write(func(ctx context.Context, tx *db.Tx) (err error) {
			if user, err = identity.UserByEmail(ctx, tx, "grace@example.com"); err != nil {
				return err
			}
			cookie, err = session.Start(ctx, tx, user.ID)
			return err
		})
		setPassword := func(ctx context.Context, tx *db.Tx) error {
			_, err := auth.SetPassword(ctx, tx, reset, "hash", "en")
			return err
		}
		x.write(setPassword)
		x.fails("a used reset link", apierr.NotFoundErr, setPassword)
		x.fails("a session after a reset", apierr.NotFoundErr, func(ctx context.Context, tx *db.Tx) error {
			_, err := session.Find(ctx, tx, cookie)
			return err
		})
		if m := x.mails("")[0]; m.Template != mail.AccountChanged || !strings.Contains(m.Subject, "password was changed") {
			t.Errorf("mail %+v", m)
		}
		x.request(auth.ToReset, "grace@example.com")
		reset = x.token("", "grace@example.com")
		x.clock.Advance(auth.ResetLife)
		x.fails("an expired reset link", apierr.NotFoundErr, setPassword)
	})
}

// The secret and the codes are those of RFC 6238, appendix B, shortened to six digits.
func TestMatchCode(t *testing.T) {
	const secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
	for _, c := range []struct {
		code string
		at   int64 // seconds
		step int64 // 0 means no match
	}{
		{"287082", 59, 1}, {"081804", 1111111109, 37037036}, {"050471", 1111111111, 37037037},
		{"005924", 1234567890, 41152263}, {"279037", 2000000000, 66666666},
		{"287 082", 59, 1}, {"287-082", 59, 1},
		{"287082", 59 + 30, 1}, {"287082", 59 - 30, 1}, {"287082", 59 + 60, 0},
		{"287083", 59, 0}, {"28708", 59, 0}, {"2870822", 59, 0}, {"", 59, 0}, {"abcdef", 59, 0},
	} {
		step, ok, err := auth.MatchCode(secret, c.code, time.Unix(c.at, 0))
		if err != nil || ok != (c.step != 0) || step != c.step {
			t.Errorf("%q at %d: step %d, %v, %v", c.code, c.at, step, ok, err)
		}
	}
}

func TestSecondFactor(t *testing.T) {
	run(t, func(x *fixture) {
		p := auth.Person{User: x.user("ada@example.com"), Language: "en"}
		at := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
		verify := func(code string, at time.Time) (ok bool) {
			x.Helper()
			x.write(func(ctx context.Context, tx *db.Tx) (err error) {
				ok, err = auth.Verify(ctx, tx, x.sealer, p, code, at)
				return err
			})
			return ok
		}
		confirm := func(code string) (codes []string, ok bool, err error) {
			err = x.d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				codes, ok, err = auth.Confirm(ctx, tx, x.sealer, p, code, at)
				return err
			})
			return codes, ok, err
		}
		enroll := func(ctx context.Context, tx *db.Tx) error { return auth.Enroll(ctx, tx, x.sealer, p.User) }

		if _, _, err := confirm("123456"); !errors.Is(err, auth.ErrNoFactor) || verify("123456", at) {
			t.Errorf("without an authenticator: %v", err)
		}
		x.write(enroll)
		x.write(enroll) // replaces the unconfirmed one
		var pending auth.Enrollment
		x.write(func(ctx context.Context, tx *db.Tx) (err error) {
			pending, err = auth.PendingEnrollment(ctx, tx, x.sealer, p.User, "Stipend")
			return err
		})
		code := func(at time.Time) string {
			text, err := totp.GenerateCode(pending.Key, at)
			testkit.Check(t, err)
			return text
		}
		if !strings.HasPrefix(pending.URI, "otpauth://totp/Stipend:ada@example.com?") {
			t.Errorf("URI %s", pending.URI)
		}
		if verify(code(at), at) {
			t.Error("an unconfirmed authenticator is accepted")
		}
		if _, ok, err := confirm(code(at.Add(time.Hour))); ok || err != nil {
			t.Errorf("a wrong first code: %v %v", ok, err)
		}
		codes, ok, err := confirm(code(at))
		if !ok || err != nil || len(codes) != 10 || len(slices.Compact(slices.Sorted(slices.Values(codes)))) != 10 {
			t.Fatalf("%v %v %v", codes, ok, err)
		}
		x.fails("a second authenticator", auth.ErrFactorExists, enroll)

		next := at.Add(30 * time.Second)
		for _, c := range []struct {
			name, code string
			at         time.Time
			ok         bool
		}{
			{"the code of the setup", code(at), at, false},
			{"the next code", code(next), next, true},
			{"the same code again", code(next), next, false},
			{"an earlier code", code(at), next, false},
			{"a recovery code in upper case without hyphens", strings.ToUpper(strings.ReplaceAll(codes[0], "-", " ")), next,
				true},
			{"the same recovery code", codes[0], next, false},
			{"another recovery code", codes[1], next, true},
			{"an unknown recovery code", "aaaa-aaaa-aaaa-aaaa", next, false},
		} {
			if got := verify(c.code, c.at); got != c.ok {
				t.Errorf("%s: %v", c.name, got)
			}
		}
		x.write(func(ctx context.Context, tx *db.Tx) error {
			if n, err := auth.RecoveryLeft(ctx, tx, p.ID); err != nil || n != 8 {
				t.Errorf("%d recovery codes left: %v", n, err)
			}
			renewed, err := auth.RenewRecovery(ctx, tx, p)
			if err == nil && (len(renewed) != 10 || slices.Contains(renewed, codes[2])) {
				t.Errorf("renewed %v", renewed)
			}
			return err
		})
		if verify(codes[2], next) {
			t.Error("a replaced recovery code is accepted")
		}
		x.write(func(ctx context.Context, tx *db.Tx) error { return auth.Remove(ctx, tx, p) })
		later := next.Add(30 * time.Second)
		if verify(code(later), later) {
			t.Error("a removed authenticator is accepted")
		}
		var changes []string
		for _, m := range x.mails("") {
			changes = append(changes, m.Subject)
		}
		if len(changes) != 5 { // added, 2 recovery codes used, codes replaced, removed
			t.Errorf("mails: %q", changes)
		}
	})
}

func TestMemberRoles(t *testing.T) {
	run(t, func(x *fixture) {
		c, id := x.company("Acme", auth.Roles...)
		set := func(actor, target, role string) func(ctx context.Context, tx *db.Tx) error {
			by := auth.Actor{CompanyID: c.ID, UserID: id[actor]}
			if role == "" {
				return func(ctx context.Context, tx *db.Tx) error { return auth.RemoveMember(ctx, tx, by, target) }
			}
			return func(ctx context.Context, tx *db.Tx) error { return auth.SetRole(ctx, tx, by, target, role) }
		}
		owner, admin, developer, viewer := identity.RoleOwner, identity.RoleAdmin, identity.RoleDeveloper, identity.RoleViewer
		for _, e := range []struct {
			actor, target, role string // role "" removes the member
			want                error
		}{
			{owner, id[owner], admin, auth.ErrLastOwner},
			{owner, id[owner], "", auth.ErrLastOwner},
			{admin, id[owner], viewer, auth.ErrOwnersOnly},
			{admin, id[owner], "", auth.ErrOwnersOnly},
			{admin, id[viewer], owner, auth.ErrOwnersOnly},
			{admin, id[viewer], "boss", apierr.New(apierr.Invalid, "invalid_parameter", "")},
			{admin, "usr_unknown", viewer, apierr.NotFoundErr},
			{admin, id[viewer], developer, nil},
			{admin, id[viewer], developer, nil}, // no change
			{owner, id[admin], owner, nil},
			{owner, id[owner], admin, nil}, // not the last owner any more
			{developer, id[developer], "", nil},
		} {
			what := fmt.Sprintf("%s makes %s %q", e.actor, e.target, e.role)
			if e.want != nil {
				x.fails(what, e.want, set(e.actor, e.target, e.role))
			} else if err := x.d.Write(t.Context(), set(e.actor, e.target, e.role)); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		roles := map[string]string{}
		x.write(func(ctx context.Context, tx *db.Tx) error {
			members, err := auth.Members(ctx, tx, c.ID)
			for _, m := range members {
				roles[m.UserID] = m.Role
			}
			return err
		})
		if len(roles) != 3 || roles[id[owner]] != admin || roles[id[admin]] != owner || roles[id[viewer]] != developer {
			t.Errorf("roles %v", roles)
		}
	})
}

func TestInvitations(t *testing.T) {
	run(t, func(x *fixture) {
		c, id := x.company("Acme", identity.RoleOwner, identity.RoleAdmin)
		other, _ := x.company("Other")
		admin := auth.Actor{CompanyID: c.ID, UserID: id[identity.RoleAdmin]}
		invite := func(by auth.Actor, email, role string) func(ctx context.Context, tx *db.Tx) error {
			return func(ctx context.Context, tx *db.Tx) error {
				return auth.Invite(ctx, tx, x.sealer, by, email, role, "en")
			}
		}
		join := func(token string, n auth.Newcomer) func(ctx context.Context, tx *db.Tx) error {
			return func(ctx context.Context, tx *db.Tx) error {
				_, err := auth.Join(ctx, tx, x.sealer, token, n)
				return err
			}
		}
		x.fails("an owner invited by an administrator", auth.ErrOwnersOnly, invite(admin, "a@x.example", identity.RoleOwner))
		x.fails("a member", auth.ErrMember, invite(admin, "Owner@acme.example", identity.RoleViewer))
		x.fails("an address of another company's mail", mail.ErrAddress, invite(admin, "x", identity.RoleViewer))

		x.write(invite(admin, "new@x.example", identity.RoleViewer))
		first := x.token(c.ID, "new@x.example")
		x.write(invite(admin, "new@x.example", identity.RoleDeveloper))
		second := x.token(c.ID, "new@x.example")
		x.fails("a replaced invitation", apierr.NotFoundErr, join(first, auth.Newcomer{FirstName: "New"}))
		x.write(join(second, auth.Newcomer{FirstName: "New", LastName: "Comer", PasswordHash: "hash"}))
		x.fails("a used invitation", apierr.NotFoundErr, join(second, auth.Newcomer{}))

		x.user("known@x.example")
		x.write(invite(admin, "known@x.example", identity.RoleViewer))
		known := x.token(c.ID, "known@x.example")
		x.fails("a new account for an existing one", identity.ErrEmailTaken, join(known, auth.Newcomer{PasswordHash: "hash"}))
		x.write(join(known, auth.Newcomer{}))

		x.write(invite(admin, "late@x.example", identity.RoleViewer))
		late := x.token(c.ID, "late@x.example")
		x.clock.Advance(7 * 24 * time.Hour)
		x.fails("an expired invitation", apierr.NotFoundErr, join(late, auth.Newcomer{}))

		for n := range auth.MaxInvitations {
			x.write(invite(admin, fmt.Sprintf("%d@x.example", n), identity.RoleViewer))
		}
		x.fails("one invitation too many", auth.ErrTooMany, invite(admin, "more@x.example", identity.RoleViewer))
		var open []auth.Invitation
		x.write(func(ctx context.Context, tx *db.Tx) (err error) {
			open, err = auth.Invitations(ctx, tx, c.ID)
			return err
		})
		x.fails("withdrawing another company's invitation", auth.ErrRole, func(ctx context.Context, tx *db.Tx) error {
			return auth.Withdraw(ctx, tx, auth.Actor{CompanyID: other.ID}, open[0].ID)
		})
		x.write(func(ctx context.Context, tx *db.Tx) error { return auth.Withdraw(ctx, tx, admin, open[0].ID) })
		x.write(invite(admin, "more@x.example", identity.RoleViewer))

		// Removing the member who sent them withdraws invitations.
		owner := auth.Actor{CompanyID: c.ID, UserID: id[identity.RoleOwner]}
		x.write(func(ctx context.Context, tx *db.Tx) error { return auth.RemoveMember(ctx, tx, owner, admin.UserID) })
		x.write(func(ctx context.Context, tx *db.Tx) error {
			if open, err := auth.Invitations(ctx, tx, c.ID); err != nil || len(open) != 0 {
				t.Errorf("%d invitations of a removed member: %v", len(open), err)
			}
			return nil
		})
	})
}

// The pages' tests register and use passkeys in a browser. These responses never get that far.
func TestInvalidPasskeyResponsesAreRejected(t *testing.T) {
	run(t, func(x *fixture) {
		p := auth.Person{User: x.user("ada@example.com"), Language: "en"}
		relying, err := auth.NewRelying("https://pay.example.com", "Example")
		testkit.Check(t, err)
		x.write(func(ctx context.Context, tx *db.Tx) error {
			options, err := relying.BeginPasskey(ctx, tx, p.User)
			if err != nil || !strings.Contains(options, `"userVerification":"required"`) ||
				!strings.Contains(options, `"id":"pay.example.com"`) {
				t.Errorf("%s %v", options, err)
			}
			_, err = relying.BeginSignIn(ctx, tx)
			return err
		})
		for _, response := range []string{"", "{}", "null", `{"id":"x","type":"public-key"}`} {
			x.write(func(ctx context.Context, tx *db.Tx) error {
				added, err := relying.AddPasskey(ctx, tx, p, "Phone", response)
				_, ok, err2 := relying.SignIn(ctx, tx, response)
				if added || ok {
					t.Errorf("the response %q is accepted", response)
				}
				return errors.Join(err, err2)
			})
		}
		x.fails("renaming an unknown passkey", apierr.NotFoundErr, func(ctx context.Context, tx *db.Tx) error {
			return auth.RenamePasskey(ctx, tx, p.ID, "pky_x", "Phone")
		})
		x.fails("removing an unknown passkey", apierr.NotFoundErr, func(ctx context.Context, tx *db.Tx) error {
			return auth.RemovePasskey(ctx, tx, p, "pky_x")
		})
		x.clock.Advance(24 * time.Hour)
		testkit.Check(t, auth.Forget(t.Context(), x.d))
		x.write(func(ctx context.Context, tx *db.Tx) error {
			var n int
			if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM passkey_challenges").Scan(&n); err != nil || n != 0 {
				t.Errorf("%d challenges remain: %v", n, err)
			}
			return nil
		})
	})
}

// A concurrent transaction removes the member who invites or is invited, or changes the password that was checked.
// A transaction that depends on the earlier state fails. SQLite has one writer at a time.
func TestRightsAreReadWhenTheyAreUsed(t *testing.T) {
	type setting struct {
		owner, admin auth.Actor
		token        string // of an invitation that the administrator sent
		user         identity.User
	}
	type change func(x *fixture, s setting) func(context.Context, *db.Tx) error
	remove := func(_ *fixture, s setting) func(context.Context, *db.Tx) error {
		return func(ctx context.Context, tx *db.Tx) error { return auth.RemoveMember(ctx, tx, s.owner, s.admin.UserID) }
	}
	for name, c := range map[string]struct {
		first, second change
		want          error
	}{
		"an invitation by a removed administrator": {remove, func(x *fixture, s setting) func(context.Context, *db.Tx) error {
			return func(ctx context.Context, tx *db.Tx) error {
				return auth.Invite(ctx, tx, x.sealer, s.admin, "late@x.example", identity.RoleAdmin, "en")
			}
		}, auth.ErrRole},
		"a role given by a removed administrator": {remove, func(_ *fixture, s setting) func(context.Context, *db.Tx) error {
			return func(ctx context.Context, tx *db.Tx) error {
				return auth.SetRole(ctx, tx, s.admin, s.user.ID, identity.RoleAdmin)
			}
		}, auth.ErrRole},
		"joining by the invitation of a removed administrator": {remove,
			func(x *fixture, s setting) func(context.Context, *db.Tx) error {
				return func(ctx context.Context, tx *db.Tx) error {
					_, err := auth.Join(ctx, tx, x.sealer, s.token, auth.Newcomer{FirstName: "A", PasswordHash: "hash"})
					return err
				}
			}, apierr.NotFoundErr},
		"a password that was replaced": {func(_ *fixture, s setting) func(context.Context, *db.Tx) error {
			return func(ctx context.Context, tx *db.Tx) error { return identity.SetPasswordHash(ctx, tx, s.user.ID, "new") }
		}, func(_ *fixture, s setting) func(context.Context, *db.Tx) error {
			return func(ctx context.Context, tx *db.Tx) error { return identity.LockPassword(ctx, tx, s.user) }
		}, identity.ErrPasswordChanged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sealer, err := identity.NewSealer(make([]byte, 32))
			if err != nil {
				t.Fatal(err)
			}
			clock, url := dbtest.NewClock(), dbtest.Postgres(t)
			x := &fixture{t, dbtest.Open(t, db.Options{URL: url, Clock: clock.Now}), clock, sealer}
			company, id := x.company("Acme", identity.RoleOwner, identity.RoleAdmin, identity.RoleViewer)
			s := setting{owner: auth.Actor{CompanyID: company.ID, UserID: id[identity.RoleOwner]},
				admin: auth.Actor{CompanyID: company.ID, UserID: id[identity.RoleAdmin]}}
			x.write(func(ctx context.Context, tx *db.Tx) (err error) {
				s.user, err = identity.GetUser(ctx, tx, nil, id[identity.RoleViewer])
				return errors.Join(err, auth.Invite(ctx, tx, sealer, s.admin, "new@x.example", identity.RoleAdmin, "en"))
			})
			s.token = x.token(company.ID, "new@x.example")
			first, second := dbtest.Interleave(t, url, c.first(x, s), c.second(x, s))
			if first != nil || !errors.Is(second, c.want) {
				t.Errorf("the first transaction: %v; the second: %v, want %v", first, second, c.want)
			}
		})
	}
}
