package company_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/securitylog"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/webtest"
)

// TestLargeFormsNeedAccess checks that access is checked before a large form is read.
func TestLargeFormsNeedAccess(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "admin", "viewer")
	if got := x.Do("POST", "/payrolls/import", "anything", "Content-Type", "text/plain"); got.Status != 303 {
		t.Errorf("without sign-in: %d", got.Status)
	}
	if got := x.SignIn("viewer").Post("/payrolls/import",
		url.Values{"csv": {strings.Repeat("x", 8<<20)}}); got.Status != 403 {
		t.Errorf("a viewer: %d", got.Status)
	}
}

func TestMembers(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := pagetest.NewFixture(t, d, "owner", "admin", "developer")
		x.OwnURL = true
		pagetest.OpenSite(t, x.Site, ui.Deps{DB: d, Env: identity.Sandbox, SeededCompanies: []string{x.Company.ID}})
		owner, admin, developer := x.SignIn("owner"), x.SignIn("admin"), x.SignIn("developer")
		if page := developer.Get("/settings/members"); page.Status != 200 || strings.Contains(page.Text, "/role\"") ||
			strings.Contains(page.Text, `name="email"`) || !strings.Contains(page.Text, "admin@acme.example") ||
			!page.Contains("Developers create payrolls and manage people") {
			t.Errorf("a developer can change members:\n%s", page.Text)
		}
		invite := func(v *webtest.Visitor, email, role string) webtest.Visit {
			t.Helper()
			return v.Submit(v.Get("/settings/members"), "/settings/members", "email", email, "role", role)
		}
		for _, role := range []string{"", "king"} {
			if got := invite(owner, "new@acme.example", role); got.Status != 422 || !strings.Contains(got.Text, "role-problem") {
				t.Errorf("role %q: %d", role, got.Status)
			}
		}
		if got := invite(admin, "new@acme.example", "owner"); got.Status != 403 {
			t.Errorf("an administrator invites an owner: %d", got.Status)
		}
		if got := invite(admin, "Developer@acme.example", "viewer"); got.Status != 409 && got.Status != 422 {
			t.Errorf("a member is invited: %d", got.Status)
		}

		// A person without an account gets one. A second invitation replaces the first link.
		invite(admin, "new@acme.example", "admin")
		first := x.MailedLink("new@acme.example", mail.MemberInvited)
		clock.Advance(1e9)
		invite(admin, "new@acme.example", "developer")
		path := x.MailedLink("new@acme.example", mail.MemberInvited)
		v := webtest.NewVisitor(t, x.URL)
		if got := v.Get(first); got.Status != 404 {
			t.Errorf("a replaced invitation works: %d", got.Status)
		}
		page := v.Get(path)
		if got := v.Submit(page, path, "first_name", "Grace", "last_name", "", "new_password", "x"); got.Status != 422 ||
			!strings.Contains(got.Text, "last_name-problem") || !strings.Contains(got.Text, "new_password-problem") {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		if got := v.Submit(page, path, "first_name", "Grace", "last_name", "Hopper", "new_password",
			"wire of eleven inches"); got.Location() != "/overview" {
			t.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		if page := v.Get("/account"); !strings.Contains(page.Text, "<dd>Developer</dd>") ||
			!strings.Contains(page.Text, "Grace Hopper") {
			t.Errorf("%s", page.Text)
		}
		if got := v.Get(path); got.Status != 404 {
			t.Errorf("a second time: %d", got.Status)
		}

		x.CheckCompanyMails("admin@acme.example", "new@acme.example: developer")

		// A person with an account must sign in with that account.
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			owner, err := identity.CreateUser(ctx, tx, x.Server.Sealer, identity.NewUser{
				Profile: identity.Profile{Email: "owner@other.example"}})
			return errors.Join(err,
				identity.AddMember(ctx, tx, identity.Member{CompanyID: x.Other.ID, UserID: owner.ID, Role: identity.RoleOwner}),
				auth.Invite(ctx, tx, x.Server.Sealer, auth.Actor{CompanyID: x.Other.ID, UserID: owner.ID},
					"developer@acme.example", "viewer", "en"))
		})
		x.MailsTo("")
		var other []mail.StoredMail
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
			other, _, err = mail.List(ctx, tx, x.Other.ID, db.Page{PerPage: 1})
			return err
		}); err != nil || len(other) != 1 {
			t.Fatalf("%v, %d mails", err, len(other))
		}
		path = regexp.MustCompile(`/join/\S+`).FindString(other[0].Text)
		if page := owner.Get(path); !strings.Contains(page.Text, "for another address") ||
			strings.Contains(page.Text, `action="`+path+`"`) {
			t.Errorf("%s", page.Text)
		}
		if got := owner.Post(path, url.Values{"form_token": {
			ui.FormToken(owner.Cookie("stipend_session"))}}); !strings.HasPrefix(got.Location(), "/sign-in") {
			t.Errorf("with another account: %d to %q", got.Status, got.Location())
		}
		if got := developer.Post(path, url.Values{}); got.Status != 403 {
			t.Errorf("a form without a token: %d", got.Status)
		}
		if got := developer.Submit(developer.Get(path), path); got.Location() != "/overview" {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		if page := developer.Get("/account"); !strings.Contains(page.Text, "<dd>Zenith</dd>") ||
			!strings.Contains(page.Text, "<dd>Viewer</dd>") {
			t.Errorf("%s", page.Text)
		}

		// Changed roles and ended memberships take effect immediately, also for apps.
		grant := func(role string) string {
			t.Helper()
			var token string
			x.Write(func(ctx context.Context, tx *db.Tx) (err error) {
				app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox,
					identity.NewApp{CompanyID: x.Other.ID, Name: "Books", Scopes: identity.AllScopes()})
				if err == nil {
					_, token, err = identity.CreateAccessToken(ctx, tx, identity.Sandbox,
						identity.NewAccessToken{CompanyID: x.Company.ID, AppID: app.ID, UserID: x.Users[role].ID,
							Scopes: identity.AllScopes()})
				}
				return err
			})
			return token
		}
		change := func(v *webtest.Visitor, role, to string) webtest.Visit {
			t.Helper()
			action := "/settings/members/" + x.Users[role].ID
			if to == "" {
				return v.Post(action+"/remove", url.Values{"form_token": {ui.FormToken(v.Cookie("stipend_session"))}})
			}
			return v.Post(action+"/role", url.Values{"form_token": {ui.FormToken(v.Cookie("stipend_session"))}, "role": {to}})
		}
		token := grant("developer")
		x.CheckCompanyMails("developer@acme.example")
		if got := change(admin, "developer", "admin"); got.Status != 303 || !x.Authenticates("Bearer", token) {
			t.Errorf("%d; the app has access: %v", got.Status, x.Authenticates("Bearer", token))
		}
		x.CheckCompanyMails("admin@acme.example", "developer@acme.example: developer → admin")
		if got := change(admin, "developer", "viewer"); got.Status != 303 || x.Authenticates("Bearer", token) {
			t.Errorf("%d; a viewer's app has access", got.Status)
		}
		for what, got := range map[string]webtest.Visit{
			"an administrator changes an owner": change(admin, "owner", "viewer"), "removes one": change(admin, "owner", ""),
			"becomes one":      change(admin, "admin", "owner"),
			"a viewer changes": change(developer, "admin", "viewer"),
		} {
			if got.Status != 403 {
				t.Errorf("%s: %d", what, got.Status)
			}
		}
		for what, got := range map[string]webtest.Visit{
			"is demoted": change(owner, "owner", "admin"), "is removed": change(owner, "owner", ""),
			"leaves": owner.Submit(owner.Get("/settings/members"), "/settings/members/leave"),
		} {
			if got.Status != 409 || !strings.Contains(got.Text, "last_owner") {
				t.Errorf("the last owner %s: %d", what, got.Status)
			}
		}
		invite(admin, "back@acme.example", "admin")
		way := x.MailedLink("back@acme.example", mail.MemberInvited)
		token = grant("admin")
		if got := change(owner, "admin", ""); got.Status != 303 || pagetest.SignedIn(admin) ||
			x.Authenticates("Bearer", token) {
			t.Errorf("%d; signed in: %v, the app has access: %v", got.Status, pagetest.SignedIn(admin),
				x.Authenticates("Bearer", token))
		}
		if page := x.SignIn("admin").Get("/settings/members"); page.Status != 403 {
			t.Errorf("a removed member can see the members: %d", page.Status)
		}
		if got := v.Get(way); got.Status != 404 {
			t.Errorf("the invitation of a removed member works: %d", got.Status)
		}
		change(owner, "developer", "owner")
		if got := owner.Submit(owner.Get("/settings/members"), "/settings/members/leave"); got.Status != 303 ||
			pagetest.SignedIn(owner) {
			t.Errorf("one of two owners cannot leave: %d", got.Status)
		}
		var changes []db.Change
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
			changes, err = db.Changes(ctx, tx, x.Company.ID, x.Company.ID)
			return err
		}); err != nil || len(changes) != 9 {
			t.Errorf("%v, %d changes in the history: %+v", err, len(changes), changes)
		}
	})
}

// TestLastOwnerCannotLeave checks that if the last two owners leave concurrently, one remains.
func TestLastOwnerCannotLeave(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d, "owner", "admin")
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			return x.AddMember(ctx, tx, x.Company, "admin", identity.RoleOwner)
		})
		left := make(chan error)
		for _, who := range []string{"owner", "admin"} {
			go func() {
				left <- d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					return auth.RemoveMember(ctx, tx, auth.Actor{CompanyID: x.Company.ID, UserID: x.Users[who].ID},
						x.Users[who].ID)
				})
			}()
		}
		if a, b := <-left, <-left; (a == nil) == (b == nil) ||
			x.Count("SELECT COUNT(*) FROM members WHERE company_id = '"+x.Company.ID+"'") != 1 {
			t.Errorf("%v, %v", a, b)
		}
	})
}

func TestOpenInvitationsAreLimited(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "owner")
	v := x.SignIn("owner")
	invite := func(i int) webtest.Visit {
		return v.Submit(v.Get("/settings/members"), "/settings/members", "email", fmt.Sprintf("p%d@acme.example", i), "role",
			"viewer")
	}
	for i := range auth.MaxInvitations {
		if got := invite(i); got.Status != 303 {
			t.Fatalf("%d: %d", i, got.Status)
		}
	}
	if got := invite(auth.MaxInvitations); got.Status != 409 {
		t.Errorf("one more: %d", got.Status)
	}
	page := v.Get("/settings/members")
	v.Submit(page, pagetest.Find(t, page, `action="([^"]*/withdraw)"`))
	if got := invite(auth.MaxInvitations); got.Status != 303 {
		t.Errorf("after one was revoked: %d", got.Status)
	}
}

func TestMembersInABrowser(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "owner", "viewer").Reopen()
	pagetest.OpenSite(t, x.Site, ui.Deps{DB: x.DB, Env: identity.Sandbox, SeededCompanies: []string{x.Company.ID}})
	b := webtest.Start(t)
	p := b.Open(x.URL+"/settings/members", webtest.Look{NoScript: true})
	p.Fill("#email", "owner@acme.example")
	p.Fill("#password", pagetest.Password)
	p.Send("form:has(#password) button")
	p.Fill("#email", "new@acme.example")
	p.Send(`form[action="/settings/members"] button`)
	if !strings.Contains(p.Text(), "new@acme.example") {
		t.Errorf("at %s:\n%s", p.Path(), p.Text())
	}
	b.Check(x.URL + "/settings/members")
	b.Open(x.URL+x.MailedLink("new@acme.example", mail.MemberInvited), webtest.Look{Width: 320}).Audit()
}

// A member of a frozen company changes nothing of it, and can only leave it or revoke a key.
func TestAFrozenCompanyChangesNothing(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d, "owner", "admin", "viewer")
		admin := x.SignIn("admin")
		page := admin.Get("/settings/members")
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			_, err := identity.SetCompanyStatus(ctx, tx, x.Company.ID, identity.CompanyActive, identity.CompanyFrozen)
			return err
		})
		_, form := webtest.Form(t, page.Text, "/settings/members")
		for _, path := range []string{
			"/settings/members", "/settings/members/" + x.Users["viewer"].ID + "/role",
			"/settings/members/" + x.Users["viewer"].ID + "/remove", "/settings/webhooks", "/settings/api", "/invitations",
			"/payrolls/prl_1/cancel",
		} {
			if got := admin.Post(path, form); got.Status != 403 || !strings.Contains(got.Text, "company_frozen") {
				t.Errorf("%s: %d\n%s", path, got.Status, got.Text)
			}
		}
		if got := admin.Submit(page, "/settings/members/leave"); got.Status != 303 {
			t.Errorf("leaving: %d\n%s", got.Status, got.Text)
		}
	})
}

// Members see who signed in and sent forms, from where and with which result, also refused ones; others do not. A
// person is known at a network from which they signed in.
func TestSecurityLog(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d, "owner", "viewer")
		v := webtest.NewVisitor(t, x.URL)
		try := func(email, secret string) {
			v.Submit(v.Get("/sign-in"), "/sign-in", "email", email, "password", secret)
		}
		try("owner@acme.example", "wrong password")
		try("nobody@acme.example", "wrong password")
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			u, err := identity.UserByEmail(ctx, tx, "owner@acme.example")
			if err != nil {
				return err
			}
			known, err := securitylog.KnownNetwork(ctx, tx, u.ID, "127.0.0.1")
			if known {
				t.Error("a network is known before the first sign-in from it")
			}
			return err
		})
		owner := x.SignIn("owner")
		if got := owner.Submit(owner.Get("/settings/members"), "/settings/members", "email", "new@acme.example", "role",
			"viewer"); got.Status != 303 {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		var events []securitylog.Event
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			u, err := identity.UserByEmail(ctx, tx, "owner@acme.example")
			if err != nil {
				return err
			}
			if events, _, err = securitylog.List(ctx, tx, x.Company.ID,
				securitylog.Filter{Page: db.Page{PerPage: 10}}); err != nil {
				return err
			}
			for _, e := range events {
				if e.UserID != u.ID || e.Address != "127.0.0.1" || e.Agent == "" || e.StaffID != "" {
					t.Errorf("%+v", e)
				}
			}
			known, err := securitylog.KnownNetwork(ctx, tx, u.ID, "127.0.0.1")
			if !known {
				t.Error("the network is not known after a sign-in from it")
			}
			return err
		})
		var got []string
		for _, e := range events {
			got = append(got, strings.Join([]string{string(e.Category), e.Path, e.Outcome}, " "))
		}
		want := []string{"members /settings/members ", "sign_in /sign-in ", "sign_in /sign-in sign_in_failed"}
		if !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		page := owner.Get("/settings/security?area=sign_in")
		if page.Status != 200 || !strings.Contains(page.Text, "127.0.0.1") || !strings.Contains(page.Text,
			"sign_in_failed") || strings.Contains(page.Text, "<code>/settings/members</code>") {
			t.Errorf("%d\n%s", page.Status, page.Text)
		}
		if id := x.Users["owner"].ID; strings.Contains(page.Text, id) {
			t.Errorf("the ID %s of a member instead of the name in\n%s", id, page.Text)
		}
		if got := x.SignIn("viewer").Get("/settings/security"); got.Status != 403 {
			t.Errorf("a viewer: %d", got.Status)
		}
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			all, _, err := securitylog.List(ctx, tx, "com_other", securitylog.Filter{Page: db.Page{PerPage: 10}})
			if err != nil || len(all) > 0 {
				t.Errorf("another company: %+v, %v", all, err)
			}
			if err := securitylog.Erase(ctx, tx, events[0].UserID); err != nil {
				return err
			}
			all, _, err = securitylog.List(ctx, tx, x.Company.ID,
				securitylog.Filter{Page: db.Page{PerPage: 10}, UserID: events[0].UserID})
			if len(all) != 3 || all[0].Address != "" || all[0].Agent != "" {
				t.Errorf("after the person was erased: %+v", all)
			}
			return err
		})
	})
}
