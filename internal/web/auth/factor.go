package auth

import (
	"context"
	"encoding/base64"
	"errors"
	"html/template"
	"net/url"
	"strconv"
	"strings"

	"rsc.io/qr"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/oauth"
	"github.com/stipend/stipend/internal/web/ui"
)

var errCode = apierr.New(apierr.Invalid, "code_wrong", "This code is wrong, or was used already. Wait for the next one.")

// mayAllow says whether the reader may allow an app all of this now: what is more than reading not with a password alone, and what
// moves money, or where it goes, with a second factor that was just shown. It asks what the pages ask that do the same.
func mayAllow(ctx context.Context, c *ui.Request, tx *db.Tx, companyID string, asked identity.Scopes) (bool, error) {
	needed := ui.PasswordOnly
	for _, s := range asked.List() {
		switch oauth.GroupOf(s) {
		case oauth.MoveMoney:
			needed = ui.FreshFactor
		case oauth.Change:
			needed = max(needed, ui.ProvenFactor)
		}
	}
	if needed == ui.PasswordOnly || needed == ui.ProvenFactor && c.Session.Proven() || c.Session.ProvenFreshly(c.Time) {
		return true, nil
	}
	if companyID != "" {
		return !c.RequiresFactor(companyID), nil
	}
	codes, keys, err := c.FactorMethods(ctx, tx)
	return !codes && !keys, err
}

// person is who is signed in, as a reader of mails.
func person(c *ui.Request) auth.Person { return reads(c, c.Session.User) }

func reads(c *ui.Request, u identity.User) auth.Person {
	return auth.Person{User: u, Language: c.Language.Tag}
}

type codePage struct {
	Next            string
	Field           ui.Field
	Codes, Passkeys bool // what the reader can show
	Password        bool // they have nothing but it
}

func renderCodePage(c *ui.Request, page, title string, codes, keys bool) ui.View {
	return ui.View{Template: page, Title: c.Text(title), Data: codePage{Next: c.NextPath(), Codes: codes, Passkeys: keys && passkeys(c) != nil, Field: c.Field(ui.Field{Name: "code", Autocomplete: "one-time-code", Required: true, Most: 40})}}
}

// tryCode takes a code that was posted. That it is wrong is no error here: the try must be counted.
func tryCode(ctx context.Context, c *ui.Request, tx *db.Tx, u identity.User) (refusal *apierr.Fault, err error) {
	allowed, err := session.AttemptCode(ctx, tx, u.ID)
	if err != nil {
		return nil, err
	}
	if !allowed {
		return ui.ErrAttempts.At("body", ""), nil
	}
	right, err := auth.Verify(ctx, tx, c.Sealer, reads(c, u), c.Form.Get("code"), c.Now())
	if err != nil {
		return nil, err
	}
	if !right {
		return errCode.At("body", "/code"), nil
	}
	return nil, session.CodeSucceeded(ctx, tx, u.ID)
}

// waiting is who has given their password and not yet their code.
func waiting(ctx context.Context, c *ui.Request, tx *db.Tx) (u identity.User, some bool, err error) {
	u, err = session.FindWaiting(ctx, tx, c.SessionToken())
	if errors.Is(err, apierr.NotFoundErr) {
		return u, false, nil
	}
	return u, err == nil, err
}

// showCode asks for the second factor, after the password.
func showCode(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, some, err := waiting(ctx, c, tx)
	if err != nil || !some {
		return ui.View{Redirect: ui.SignInPath(c.NextPath())}, err
	}
	return renderCodePage(c, "code", "code.title", true, false), nil
}

// signInCode takes the second factor and begins the session, which is a new one.
func signInCode(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	if !c.HasFormToken() {
		return ui.View{}, ui.ErrFormToken
	}
	var refusal *apierr.Fault
	var token string
	err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		refusal, token = nil, ""
		u, some, err := waiting(ctx, c, tx)
		if err != nil || !some {
			return err
		}
		if refusal, err = tryCode(ctx, c, tx, u); err != nil || refusal != nil {
			return err
		}
		if err := session.End(ctx, tx, c.SessionToken()); err != nil {
			return err
		}
		token, err = session.StartProven(ctx, tx, u.ID)
		return err
	})
	switch {
	case err != nil:
		return ui.View{}, err
	case refusal != nil:
		return ui.View{}, refusal
	case token == "":
		return ui.View{Redirect: ui.SignInPath(c.NextPath())}, nil
	}
	return ui.View{Redirect: c.NextPath(), Cookie: c.SessionCookie(token)}, nil
}

// showProof asks for the second factor again, before something grave. Who has none gets one, for the password where it was not given
// lately: a browser that was left open is not enough.
func showProof(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	codes, keys, err := c.FactorMethods(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	if !codes && !keys {
		if c.Session.SignedInFreshly(c.Time) {
			return ui.View{Redirect: enrolPath(c)}, nil
		}
		return ui.View{Template: "proof", Title: c.Text("proof.title"), Data: codePage{
			Next: c.NextPath(), Password: true, Field: c.Field(ui.Field{Name: "password", Type: "password", Autocomplete: "current-password", Required: true, Most: identity.MaxPassword}),
		}}, nil
	}
	return renderCodePage(c, "proof", "proof.title", codes, keys), nil
}

// enrolPath is where the reader gets a second factor, on the way to where they were.
func enrolPath(c *ui.Request) string {
	if next := c.NextPath(); strings.HasPrefix(next, "/account/") {
		return next
	}
	return "/account/factor?" + url.Values{"next": {c.NextPath()}}.Encode()
}

// checkProof takes the second factor of who is signed in, or the password of who has none.
func checkProof(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	if c.Form.Get("password") != "" {
		token, to, err := enter(ctx, c, c.Session.User.Email, c.Form.Get("password"))
		if err != nil {
			return ui.View{}, err
		}
		if to == c.NextPath() {
			to = enrolPath(c)
		}
		return ui.View{Redirect: to, Cookie: c.SessionCookie(token)}, nil
	}
	var refusal *apierr.Fault
	err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if refusal, err = tryCode(ctx, c, tx, c.Session.User); err != nil || refusal != nil {
			return err
		}
		return session.Prove(ctx, tx, *c.Session)
	})
	if err == nil && refusal != nil {
		err = refusal
	}
	return ui.View{Redirect: c.NextPath()}, err
}

type factorPage struct {
	Next      string // where the reader was on the way to
	Needed    bool   // and what they want there needs it
	On        bool
	Left      string // recovery codes that are unused
	Enrolment *auth.Enrolment
	QR        template.URL
	Field     ui.Field
}

// showFactor is the state of the reader's second factor, and what can be done about it.
func showFactor(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	u := c.Session.User
	p := factorPage{Next: c.NextPath(), Needed: c.Form.Get("next") != "" || c.HTTP.URL.Query().Get("next") != ""}
	codes, keys, err := c.FactorMethods(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	if p.On = codes; p.On {
		left, err := auth.RecoveryLeft(ctx, tx, u.ID)
		p.Left = strconv.FormatInt(left, 10)
		return ui.View{Template: "factor", Title: c.Text("factor.title"), Data: p}, err
	}
	// The secret of another factor would be a way round the passkey, and a first one is for who knows the password.
	if keys && !c.Session.ProvenFreshly(c.Time) || !keys && !c.Session.SignedInFreshly(c.Time) {
		return ui.View{Template: "factor", Title: c.Text("factor.title"), Data: p}, nil
	}
	e, err := auth.Enrolling(ctx, tx, c.Sealer, u)
	switch {
	case errors.Is(err, apierr.NotFoundErr):
	case err != nil:
		return ui.View{}, err
	default:
		p.Enrolment = &e
		if p.QR, err = picture(e.URI); err != nil {
			return ui.View{}, err
		}
		p.Field = c.Field(ui.Field{Name: "code", Autocomplete: "one-time-code", Required: true, Most: 10})
	}
	return ui.View{Template: "factor", Title: c.Text("factor.title"), Data: p}, nil
}

// picture is a QR code, within its own address.
func picture(text string) (template.URL, error) {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return "", err
	}
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(code.PNG())), nil //nolint:gosec // base64 of our own
}

// beginFactor makes the secret of a new authenticator.
func beginFactor(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	to := "/account/factor"
	if c.Form.Get("next") != "" {
		to += "?" + url.Values{"next": {c.NextPath()}}.Encode()
	}
	return ui.View{Redirect: to}, auth.Enrol(ctx, tx, c.Sealer, c.Session.User)
}

type recoveryPage struct {
	Codes []string
	Next  string
}

// confirmFactor takes the first code and shows the recovery codes.
func confirmFactor(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	codes, right, err := auth.Confirm(ctx, tx, c.Sealer, person(c), c.Form.Get("code"), c.Now())
	if err != nil {
		return ui.View{}, err
	}
	if !right {
		return ui.View{}, errCode.At("body", "/code")
	}
	return recovery(c, codes), session.Prove(ctx, tx, *c.Session)
}

func recovery(c *ui.Request, codes []string) ui.View {
	p := recoveryPage{Codes: codes, Next: "/account/factor"}
	if c.Form.Get("next") != "" {
		p.Next = c.NextPath()
	}
	return ui.View{Template: "recovery", Title: c.Text("factor.recovery.title"), Data: p}
}

// renewRecovery replaces the recovery codes.
func renewRecovery(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	codes, err := auth.RenewRecovery(ctx, tx, person(c))
	return recovery(c, codes), err
}

// removeFactor goes back to the password alone.
func removeFactor(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/account/factor"}, auth.Remove(ctx, tx, person(c))
}
