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

var errCode = apierr.New(apierr.Invalid, "code_wrong",
	"Incorrect or already used code. Wait for a new one and try again.")

// mayGrant reports whether the session is strong enough to grant an app the requested scopes: changes need a second
// factor, and scopes that move money need a fresh one. These are the same requirements as on the pages.
func mayGrant(ctx context.Context, c *ui.Request, tx *db.Tx, companyID string, scopes identity.Scopes) (bool, error) {
	needed := ui.PasswordOnly
	for _, s := range scopes.List() {
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

// signedInUser returns the signed-in user as a recipient of mail.
func signedInUser(c *ui.Request) auth.Person { return mailRecipient(c, c.Session.User) }

func mailRecipient(c *ui.Request, u identity.User) auth.Person {
	return auth.Person{User: u, Language: c.Language.Tag}
}

type codePage struct {
	Next            string
	Field           ui.Field
	Codes, Passkeys bool // the second factors that the user has
	Password        bool // the user has no second factor
}

func renderCodePage(c *ui.Request, page, title string, codes, keys bool) ui.View {
	return ui.View{Template: page, Title: c.Text(title),
		Data: codePage{Next: c.NextPath(), Codes: codes, Passkeys: keys && passkeys(c) != nil,
			Field: c.Field(ui.Field{Name: "code", Autocomplete: "one-time-code", Required: true, MaxLength: 40})}}
}

// tryCode checks the posted code. A wrong code is a refusal and not an error, so that the transaction commits and
// counts the attempt.
func tryCode(ctx context.Context, c *ui.Request, tx *db.Tx, u identity.User) (refusal *apierr.Fault, err error) {
	allowed, err := session.AttemptCode(ctx, tx, u.ID)
	if err != nil {
		return nil, err
	}
	if !allowed {
		return ui.ErrAttempts.At("body", ""), nil
	}
	right, err := auth.Verify(ctx, tx, c.Sealer, mailRecipient(c, u), c.Form.Get("code"), c.Now())
	if err != nil {
		return nil, err
	}
	if !right {
		return errCode.At("body", "/code"), nil
	}
	return nil, session.CodeSucceeded(ctx, tx, u.ID)
}

// findWaiting returns the user who has entered the password and not yet the code.
func findWaiting(ctx context.Context, c *ui.Request, tx *db.Tx) (u identity.User, some bool, err error) {
	u, err = session.FindWaiting(ctx, tx, c.SessionToken())
	if errors.Is(err, apierr.NotFoundErr) {
		return u, false, nil
	}
	return u, err == nil, err
}

// showCode renders the form for the code, the second step of signing in.
func showCode(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, some, err := findWaiting(ctx, c, tx)
	if err != nil || !some {
		return ui.View{Redirect: ui.SignInPath(c.NextPath())}, err
	}
	return renderCodePage(c, "code", "code.title", true, false), nil
}

// signInCode checks the code and replaces the waiting session by a new one.
func signInCode(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	if !c.HasFormToken() {
		return ui.View{}, ui.ErrFormToken
	}
	var refusal *apierr.Fault
	var token string
	err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		refusal, token = nil, ""
		u, some, err := findWaiting(ctx, c, tx)
		if err != nil || !some {
			return err
		}
		c.Author = u.ID
		if refusal, err = tryCode(ctx, c, tx, u); err != nil || refusal != nil {
			return err
		}
		token, err = session.StartProven(ctx, tx, u.ID, c.SessionToken())
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

// showProof asks for the second factor again, before a sensitive action. A user without one is sent to set one up,
// and must enter the password first if the sign-in was not recent.
func showProof(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	codes, keys, err := c.FactorMethods(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	if !codes && !keys {
		if c.Session.SignedInFreshly(c.Time) {
			return ui.View{Redirect: enrollPath(c)}, nil
		}
		if c.Session.SSO != "" {
			return ui.View{Redirect: ui.SSOPath(enrollPath(c))}, nil
		}
		return ui.View{Template: "proof", Title: c.Text("proof.title"), Data: codePage{
			Next: c.NextPath(), Password: true, Field: c.Field(
				ui.Field{Name: "password", Type: "password", Autocomplete: "current-password", Required: true,
					MaxLength: identity.MaxPassword}),
		}}, nil
	}
	return renderCodePage(c, "proof", "proof.title", codes, keys), nil
}

// enrollPath returns the path on which the user sets up a second factor and then continues.
func enrollPath(c *ui.Request) string {
	if next := c.NextPath(); strings.HasPrefix(next, "/account/") {
		return next
	}
	return "/account/factor?" + url.Values{"next": {c.NextPath()}}.Encode()
}

// checkProof checks the second factor of the signed-in user, or the password of a user without one.
func checkProof(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	if c.Form.Get("password") != "" {
		token, to, err := signInByPassword(ctx, c, c.Session.User.Email, c.Form.Get("password"))
		if err != nil {
			return ui.View{}, err
		}
		if to == c.NextPath() {
			to = enrollPath(c)
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
	Next      string // path to continue with
	Needed    bool   // the page at Next requires a second factor
	On        bool
	Left      string // number of unused recovery codes
	Enrolment *auth.Enrollment
	QR        template.URL
	Field     ui.Field
}

// showFactor renders the state of the user's authenticator.
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
	// Otherwise an open browser would be enough to add an authenticator: a user with passkeys must use one first, and
	if keys && !c.Session.ProvenFreshly(c.Time) || !keys && !c.Session.SignedInFreshly(c.Time) {
		return ui.View{Template: "factor", Title: c.Text("factor.title"), Data: p}, nil
	}
	e, err := auth.PendingEnrollment(ctx, tx, c.Sealer, u, c.OperatorName())
	switch {
	case errors.Is(err, apierr.NotFoundErr):
	case err != nil:
		return ui.View{}, err
	default:
		p.Enrolment = &e
		if p.QR, err = qrDataURL(e.URI); err != nil {
			return ui.View{}, err
		}
		p.Field = c.Field(ui.Field{Name: "code", Autocomplete: "one-time-code", Required: true, MaxLength: 10})
	}
	return ui.View{Template: "factor", Title: c.Text("factor.title"), Data: p}, nil
}

// qrDataURL returns a QR code as a data URL.
func qrDataURL(text string) (template.URL, error) {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return "", err
	}
	image := base64.StdEncoding.EncodeToString(code.PNG())
	return template.URL("data:image/png;base64," + image), nil //nolint:gosec // base64
}

// beginFactor creates the secret of a new authenticator.
func beginFactor(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	to := "/account/factor"
	if c.Form.Get("next") != "" {
		to += "?" + url.Values{"next": {c.NextPath()}}.Encode()
	}
	return ui.View{Redirect: to}, auth.Enroll(ctx, tx, c.Sealer, c.Session.User)
}

type recoveryPage struct {
	Codes []string
	Next  string
	Text  string       // the codes, one per line
	File  template.URL // a file with Text, because the service keeps only digests and cannot send it later
}

// confirmFactor checks the first code and shows the recovery codes.
func confirmFactor(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	codes, right, err := auth.Confirm(ctx, tx, c.Sealer, signedInUser(c), c.Form.Get("code"), c.Now())
	if err != nil {
		return ui.View{}, err
	}
	if !right {
		return ui.View{}, errCode.At("body", "/code")
	}
	return recovery(c, codes), session.Prove(ctx, tx, *c.Session)
}

func recovery(c *ui.Request, codes []string) ui.View {
	text := strings.Join(codes, "\n")
	p := recoveryPage{Codes: codes, Next: "/account/factor", Text: text,
		File: template.URL("data:text/plain;charset=utf-8," + url.PathEscape(text))} //nolint:gosec // own codes, escaped
	if c.Form.Get("next") != "" {
		p.Next = c.NextPath()
	}
	return ui.View{Template: "recovery", Title: c.Text("factor.recovery.title"), Data: p}
}

// renewRecovery replaces the recovery codes.
func renewRecovery(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	codes, err := auth.RenewRecovery(ctx, tx, signedInUser(c))
	return recovery(c, codes), err
}

// removeFactor removes the authenticator.
func removeFactor(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/account/factor"}, auth.Remove(ctx, tx, signedInUser(c))
}
