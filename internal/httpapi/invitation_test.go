package httpapi

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
)

// keyWith creates an API key of the company with the given scopes.
func (b *fixture) keyWith(scopes ...identity.Scope) (key string) {
	b.t.Helper()
	err := b.db.Write(b.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{
			CompanyID: b.company, Name: "Other", Scopes: identity.NewScopes(scopes...),
		})
		if err != nil {
			return err
		}
		_, key, err = identity.CreateAPIKey(ctx, tx, identity.Sandbox,
			identity.NewAPIKey{CompanyID: b.company, AppID: app.ID})
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return "Basic " + key
}

// query reads one row.
func (b *fixture) query(sql string, dest ...any) {
	b.t.Helper()
	if err := b.db.Read(b.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		return tx.QueryRow(ctx, sql).Scan(dest...)
	}); err != nil {
		b.t.Error(err)
	}
}

func TestInvitations(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newService(t, d, nil)
		lister := b.keyWith(identity.CompanyWorkerInvitationsList)
		const invite, list = "/api/company/worker/invite", "/api/company/worker/invitations"
		made, text := ask[members](b, "POST", invite, `{"company_id":"`+b.company+`","email":"Ada@example.com",`+
			`"role":"employee"}`)
		if made["status"] != "sent" || made["role"] != "employee" || made["resend_count"] != 0.0 ||
			strings.Contains(text, "stp_link_") {
			t.Errorf("%s", text)
		}
		if got := b.do("POST", invite, `{"email":"ada@EXAMPLE.com"}`); got.status != 409 ||
			got.json(t)["invitation_id"] != made["invitation_id"] {
			t.Errorf("%d %s", got.status, got.text)
		}

		var wg sync.WaitGroup
		answers := make([]reply, 10)
		for i := range answers {
			wg.Go(func() {
				answers[i] = b.do("POST", invite+"/resend", `{"company_id":"`+b.company+`","email":"ada@example.com"}`)
			})
		}
		wg.Wait()
		sent := 0
		for _, got := range answers {
			switch {
			case got.status == 200 && got.json(t)["status"] == "sent":
				sent++
			case got.status != 409 || got.json(t)["code"] != "resend_limit_reached":
				t.Errorf("%d %s", got.status, got.text)
			}
		}
		if sent != 3 {
			t.Errorf("sent again %d times", sent)
		}

		var mails, digests int
		b.query("SELECT COUNT(*) FROM invitations WHERE token_digest LIKE '%stp%'", &digests)
		b.query("SELECT COUNT(*) FROM mails WHERE address = 'Ada@example.com'", &mails)
		if mails != 1+3 || digests != 0 {
			t.Errorf("%d mails, %d tokens at rest", mails, digests)
		}

		page, text := ask[members](b, "GET", list+"?status=sent&email=ADA@example.com", "", "Authorization", lister)
		rows := page["data"].([]any)
		if len(rows) != 1 || rows[0].(members)["resend_count"] != 3.0 || page["meta"].(members)["total"] != 1.0 {
			t.Errorf("%s", text)
		}
		if _, text := ask[members](b, "GET", list+"?page=2", "", "Authorization", lister); !strings.Contains(text,
			`"data":[]`) {
			t.Errorf("%s", text)
		}
		if off, text := ask[members](b, "POST", invite+"/revoke",
			`{"email":"ada@example.com"}`); off["status"] != "revoked" || off["reason"] != "revoked" {
			t.Errorf("%s", text)
		}

		stranger := newService(t, d, nil)
		theirs := stranger.keyWith(identity.CompanyWorkerInvitationsList)
		for _, c := range []struct {
			status             int
			code               string
			method, path, body string
			auth               string
		}{
			{422, "missing_field", "POST", invite, `{}`, ""},
			{422, "invalid_parameter", "POST", invite, `{"email":"no"}`, ""},
			{422, "invalid_parameter", "POST", invite, `{"email":"a@example.com\r\nBcc: b@example.com"}`, ""},
			{422, "invalid_parameter", "POST", invite, `{"email":"Ada <a@example.com>"}`, ""},
			{422, "invalid_parameter", "POST", invite, `{"email":"` + strings.Repeat("a", 250) + `@example.com"}`, ""},
			{422, "invalid_type", "POST", invite, `{"email":["a@example.com"]}`, ""},
			{422, "invalid_parameter", "POST", invite, `{"email":"a@example.com","role":"vendor"}`, ""},
			{422, "unknown_field", "POST", invite, `{"email":"a@example.com","resend_count":-5}`, ""},
			{404, "not_found", "POST", invite, `{"email":"a@example.com","company_id":"` + stranger.company + `"}`, ""},
			{404, "not_found", "POST", invite + "/resend", `{"email":"never@example.com"}`, ""},
			{404, "not_found", "POST", invite + "/revoke", `{"email":"never@example.com"}`, ""},
			{409, "invalid_state", "POST", invite + "/revoke", `{"email":"ada@example.com"}`, ""},
			{409, "invalid_state", "POST", invite + "/resend", `{"email":"ada@example.com"}`, ""},
			{404, "not_found", "POST", invite + "/resend", `{"email":"ada@example.com"}`, "Basic " + stranger.key},
			{404, "not_found", "POST", invite + "/resend", `{"email":"ada@example.com","company_id":"` + b.company + `"}`,
				"Basic " + stranger.key},
			{404, "not_found", "GET", list + "?company_id=" + b.company, "", theirs},
			{403, "insufficient_scope", "GET", list, "", "Basic " + b.key},
			{403, "insufficient_scope", "POST", invite, `{"email":"a@example.com"}`, lister},
			{422, "invalid_parameter", "GET", list + "?status=open", "", lister},
			{422, "invalid_parameter", "GET", list + "?page=0", "", lister},
			{422, "invalid_parameter", "GET", list + "?email=a&email=b", "", lister},
		} {
			headers := []string{}
			if c.auth != "" {
				headers = []string{"Authorization", c.auth}
			}
			if got := b.do(c.method, c.path, c.body, headers...); got.status != c.status || got.json(t)["code"] != c.code {
				t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, got.status, got.text)
			}
		}
		if page, text := ask[members](b, "GET", list, "", "Authorization", theirs); len(page["data"].([]any)) != 0 ||
			page["meta"].(members)["total"] != 0.0 {
			t.Errorf("%s", text)
		}
	})
}

// The response to an invitation does not reveal whether the address has an account.
func TestInvitationDoesNotRevealAccounts(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newService(t, d, nil)
		err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := identity.CreateUser(ctx, tx, b.server.Sealer,
				identity.NewUser{Profile: identity.Profile{Email: "known@example.com", FirstName: "Ada", LastName: "L"}})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		shape := func(email string) string {
			got := b.do("POST", "/api/company/worker/invite", `{"email":"`+email+`"}`)
			m := got.json(t)
			for _, own := range []string{"invitation_id", "email", "created", "sent_at", "expires_at"} {
				delete(m, own)
			}
			return fmt.Sprint(got.status, m)
		}
		if known, unknown := shape("known@example.com"), shape("unknown@example.com"); known != unknown {
			t.Errorf("%s\n%s", known, unknown)
		}
	})
}
