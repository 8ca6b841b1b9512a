package web

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/web/webtest"
)

// inviter is a company that invites people.
type inviter struct {
	t  *testing.T
	d  *db.DB
	by identity.Principal
	s  *identity.Sealer
}

func newInviter(t *testing.T, d *db.DB) inviter {
	t.Helper()
	sealer, err := identity.NewSealer(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	x := inviter{t: t, d: d, s: sealer}
	x.write(func(ctx context.Context, tx *db.Tx) error {
		c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{
			Name: "Acme <i>& Co</i>", Email: "office@acme.example", Country: "US"})
		x.by = identity.Principal{Kind: identity.KindAPIKey, ID: "key_1", CompanyID: c.ID, Scopes: identity.AllScopes()}
		return err
	})
	return x
}

func (x inviter) write(fn func(ctx context.Context, tx *db.Tx) error) {
	x.t.Helper()
	if err := x.d.Write(x.t.Context(), fn); err != nil {
		x.t.Fatal(err)
	}
}

// invite sends an invitation and returns the path of its link.
func (x inviter) invite(email string) (path string) {
	x.t.Helper()
	x.write(func(ctx context.Context, tx *db.Tx) error {
		v, err := payee.Invite(ctx, tx, x.s, x.by, payee.InviteParams{Email: email})
		if err != nil {
			return err
		}
		var id, sealed string
		var letter mail.InvitationData
		if err := tx.QueryRow(ctx, "SELECT mail_id, data FROM mails WHERE mail_key LIKE $1", v.ID+"/%").Scan(
			&id, &sealed); err != nil {
			return err
		}
		data, err := x.s.Open(identity.Place{Table: "mails", Column: "data", Row: id}, sealed)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, &letter); err != nil {
			return err
		}
		path = "/invitation/" + letter.Token
		return nil
	})
	return path
}

func (x inviter) state(email string) (v payee.Invitation) {
	x.t.Helper()
	x.write(func(ctx context.Context, tx *db.Tx) error {
		found, err := payee.Invitations(ctx, tx, x.by,
			payee.InvitationsParams{Email: email, Page: payee.Page{Number: 1, PerPage: 20}})
		if err == nil && len(found.Items) == 1 {
			v = found.Items[0]
		}
		return err
	})
	return v
}

func (x inviter) count(query string) (n int64) {
	x.t.Helper()
	x.write(func(ctx context.Context, tx *db.Tx) error { return tx.QueryRow(ctx, query).Scan(&n) })
	return n
}

var ada = url.Values{
	"first_name": {"Ada"}, "last_name": {"Lovelace"}, "date_of_birth": {"1990-12-10"}, "country": {"GB"},
	"street_address": {"12 St James's Square"},
	"city":           {"London"}, "zip": {"SW1Y 4JH"},
}

func TestInvitationIsAccepted(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		h, x := open(t, d, identity.Sandbox), newInviter(t, d)
		path := x.invite("ada@example.com")
		got := h.do("GET", path, "")
		for _, want := range []string{"Acme &lt;i&gt;&amp; Co&lt;/i&gt; invites you", "ada@example.com", "Valid until",
			`autocomplete="bday"`, `<option value="DE">Germany`} {
			if got.status != 200 || !strings.Contains(got.text, want) {
				t.Errorf("%d, no %q in\n%s", got.status, want, got.text)
			}
		}
		if got.header.Get("Cache-Control") != "no-store" || got.header.Get("X-Robots-Tag") != "noindex" ||
			got.header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%v", got.header)
		}
		if got := h.do("GET", path+"?lang=fr", ""); !strings.Contains(got.text, `<option value="DE">Allemagne`) ||
			!strings.Contains(got.text, `action="`+path+`/accept?lang=fr"`) {
			t.Errorf("in French:\n%s", got.text)
		}

		// All problems are shown at once, at the fields, and nothing is stored.
		got = h.do("POST", path+"/accept?lang=es", url.Values{
			"first_name": {"Ada"}, "country": {"XX"}, "date_of_birth": {"2999-01-01"}, "role": {"employee"}}.Encode())
		for _, want := range []string{"last_name-problem", "date_of_birth-problem", "country-problem",
			"street_address-problem", "city-problem", `value="Ada"`, "Elige un país"} {
			if got.status != 422 || !strings.Contains(got.text, want) {
				t.Errorf("%d, no %q in\n%s", got.status, want, got.text)
			}
		}
		if v := x.state("ada@example.com"); v.State != payee.InvitationSent || x.count("SELECT COUNT(*) FROM users") != 0 {
			t.Errorf("a rejected form left %+v", v)
		}

		// Accepting twice has the same effect as once.
		for range 2 {
			if got := h.do("POST", path+"/accept", ada.Encode(), "Sec-Fetch-Site", "same-origin"); got.status != 303 ||
				got.header.Get("Location") != path {
				t.Fatalf("%d to %q\n%s", got.status, got.header.Get("Location"), got.text)
			}
		}
		v := x.state("ada@example.com")
		if v.State != payee.InvitationAccepted || x.count(
			"SELECT COUNT(*) FROM users WHERE first_name = 'Ada' AND complete") != 1 ||
			x.count("SELECT COUNT(*) FROM recipients") != 1 {
			t.Errorf("%+v", v)
		}
		if got := h.do("GET", path, ""); got.status != 200 || !strings.Contains(got.text, "Invitation accepted") ||
			strings.Contains(got.text, "<form") || strings.Contains(got.text, "%!") {
			t.Errorf("%d\n%s", got.status, got.text)
		}
		if got := h.do("POST", path+"/decline", "", "Content-Type", "application/x-www-form-urlencoded"); got.status != 303 ||
			x.state("ada@example.com").State != payee.InvitationAccepted {
			t.Errorf("declined after accepting: %d", got.status)
		}
		h.close()
		if token := strings.TrimPrefix(path, "/invitation/"); strings.Contains(h.log.String(), token) ||
			strings.Contains(h.log.String(), "Lovelace") {
			t.Errorf("the log holds a token or a name:\n%s", h.log.String())
		}
	})
}

func TestInvitationIsDeclinedRevokedOrUnknown(t *testing.T) {
	d := sqlite(t)
	h, x := open(t, d, identity.Sandbox), newInviter(t, d)
	path := x.invite("ada@example.com")
	if got := h.do("POST", path+"/decline", "", "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site",
		"cross-site"); got.status != 403 || x.state("ada@example.com").State != payee.InvitationSent {
		t.Errorf("another site declined: %d", got.status)
	}
	if got := h.do("POST", path+"/decline", "", "Content-Type", "application/x-www-form-urlencoded"); got.status != 303 {
		t.Fatalf("%d\n%s", got.status, got.text)
	}
	if got := h.do("GET", path, ""); !strings.Contains(got.text, "Invitation declined") ||
		strings.Contains(got.text, "<form") {
		t.Errorf("%s", got.text)
	}
	if got := h.do("POST", path+"/accept", ada.Encode()); got.status != 303 || x.count("SELECT COUNT(*) FROM users") != 0 {
		t.Errorf("accepted after declining: %d", got.status)
	}

	gone := x.invite("eve@example.com")
	x.write(func(ctx context.Context, tx *db.Tx) error {
		_, err := payee.Revoke(ctx, tx, x.by, "", "eve@example.com")
		return err
	})
	if got := h.do("GET", gone, ""); !strings.Contains(got.text, "Invitation revoked") ||
		strings.Contains(got.text, "<form") {
		t.Errorf("%s", got.text)
	}
	for _, tail := range []string{"", "/accept", "/decline", "/ask", "/asked"} {
		method, form := "POST", ada.Encode()
		if tail == "" || tail == "/asked" {
			method, form = "GET", ""
		}
		if got := h.do(method, "/invitation/stp_link_nothing"+tail, form); got.status != 404 {
			t.Errorf("unknown link%s: %d", tail, got.status)
		}
	}
}

func TestExpiredInvitationCanBeRequestedAgain(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		h, x := open(t, d, identity.Sandbox), newInviter(t, d)
		path := x.invite("ada@example.com")
		ask := func() response {
			return h.do("POST", path+"/ask", "", "Content-Type", "application/x-www-form-urlencoded")
		}
		const asked = "SELECT COUNT(*) FROM mails WHERE template = 'invitation_requested'"
		if got := ask(); got.header.Get("Location") != path || x.count(asked) != 0 {
			t.Errorf("requested before it expired: %d", got.status)
		}
		clock.Advance(15 * 24 * time.Hour)
		if got := h.do("GET", path, ""); !strings.Contains(got.text, "Invitation expired") ||
			!strings.Contains(got.text, path+"/ask") || strings.Contains(got.text, "first_name") {
			t.Errorf("%s", got.text)
		}
		for range 3 {
			if got := ask(); got.status != 303 || got.header.Get("Location") != path+"/asked" {
				t.Fatalf("%d to %q", got.status, got.header.Get("Location"))
			}
		}
		if n := x.count(asked + " AND address = 'office@acme.example' AND data LIKE '%ada@example.com%'"); n != 1 {
			t.Errorf("the company got %d mails", n)
		}
		if got := h.do("GET", path+"/asked", ""); got.status != 200 || !strings.Contains(got.text, "We’ve let Acme") {
			t.Errorf("%d\n%s", got.status, got.text)
		}
	})
}

func TestInvitationInABrowser(t *testing.T) {
	d := sqlite(t)
	h, x := open(t, d, identity.Sandbox), newInviter(t, d)
	path := x.invite("ada@example.com")
	b := webtest.Start(t)
	b.Check(h.url + path)

	// On a small dark screen, first with mistakes and then correctly.
	p := b.Open(h.url+path, webtest.Look{Width: 320, Dark: true})
	p.Fill("#first_name", "Ada")
	p.Send("main form button")
	p.Audit()
	if text := p.Text(); !strings.Contains(text, "This field is required.") {
		t.Errorf("no problems are shown:\n%s", text)
	}
	for name, value := range ada {
		p.Do(chromedp.SetValue("#"+name, value[0]))
	}
	p.Send("main form button")
	p.Audit()
	if text := p.Text(); p.Path() != path || !strings.Contains(text, "Invitation accepted") {
		t.Errorf("at %s:\n%s", p.Path(), text)
	}

	// Without JavaScript.
	no := x.invite("eve@example.com")
	p = b.Open(h.url+no, webtest.Look{NoScript: true})
	p.Send("button.second")
	if text := p.Text(); p.Path() != no || !strings.Contains(text, "Invitation declined") {
		t.Errorf("at %s:\n%s", p.Path(), text)
	}
}
