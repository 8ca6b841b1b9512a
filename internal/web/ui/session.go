package ui

import (
	"context"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// How many passwords a process checks at a time; each takes 64 MiB. Operators have a place of their own: nobody else's sign-in
// stands before theirs.
const (
	MaxPasswordChecks      = 2
	maxStaffPasswordChecks = 1
)

// The one answer to every wrong sign-in: it does not say what of it was wrong.
var (
	ErrSignIn    = apierr.New(apierr.Invalid, "sign_in_failed", "The email address or the password is wrong.")
	ErrAttempts  = apierr.New(apierr.RateLimited, "rate_limited", "There were too many attempts. Try again in 15 minutes.")
	ErrFormToken = apierr.New(apierr.Forbidden, "csrf_failed", "This form was not made for you, or you have signed in anew since.")
	errNoCompany = apierr.New(apierr.Forbidden, "not_a_member", "You are no member of a company, so there is nothing here.")
	ErrRole      = apierr.New(apierr.Forbidden, "role_required", "Your role in this company may look, but not change this. Ask an owner or administrator.")
)

// cookieName is __Host- wherever a browser accepts that: then no other host can have set it. A sandbox on plain http has none.
func (s *Server) cookieName() string {
	if s.secure() {
		return "__Host-stipend_session"
	}
	return "stipend_session"
}

func (s *Server) secure() bool {
	return s.Env != identity.Sandbox || strings.HasPrefix(s.BaseURL, "https://")
}

// SessionCookie holds a session's token, or ends it with "".
func (s *Server) SessionCookie(token string) *http.Cookie {
	k := &http.Cookie{Name: s.cookieName(), Value: token, Path: "/", HttpOnly: true, Secure: s.secure(), SameSite: http.SameSiteLaxMode, MaxAge: int(session.Life.Seconds())} //nolint:gosec // Secure unless a sandbox is on plain http
	if token == "" {
		k.MaxAge = -1
	}
	return k
}

// SessionToken is what the browser holds, "" without.
func (c *Request) SessionToken() string {
	if k, err := c.HTTP.Cookie(c.cookieName()); err == nil {
		return k.Value
	}
	return ""
}

// FormToken is what a form must carry that somebody sends who is signed in. It follows from the session's token, which no
// other site can read, and does not tell it.
func FormToken(token string) string { return identity.Digest("form of " + token) }

// formToken is that of who is signed in on this page: the house's pages have a session of their own.
func (c *Request) formToken() string {
	if c.Staff != nil {
		return FormToken(c.StaffToken())
	}
	return FormToken(c.SessionToken())
}

// HasFormToken says whether the posted form was made for this session.
func (c *Request) HasFormToken() bool {
	return subtle.ConstantTimeCompare([]byte(c.Form.Get("form_token")), []byte(c.formToken())) == 1
}

// FindSession looks up who is signed in and says whether anybody is.
func (c *Request) FindSession(ctx context.Context, tx *db.Tx) (bool, error) {
	c.Session, c.Time = nil, tx.Now()
	s, err := session.Find(ctx, tx, c.SessionToken())
	if errors.Is(err, apierr.NotFoundErr) {
		return false, nil
	}
	c.Session = &s
	return err == nil, err
}

// admit runs a handler for those who may come, and sends others to sign in, or to show a second factor, first. It looks at each
// request, so a session or a role that was ended is gone at once.
func (c *Request) admit(ctx context.Context, tx *db.Tx, rt Route, h handler) (View, error) {
	switch rt.Access {
	case Anyone:
		return h(ctx, tx, c)
	case StaffOnly:
		return c.admitStaff(ctx, tx, rt, h)
	}
	signedIn, needs := false, PasswordOnly
	look := func(ctx context.Context, tx *db.Tx) (err error) {
		if signedIn, err = c.FindSession(ctx, tx); err == nil && signedIn {
			needs, err = c.missingFactor(ctx, tx, rt)
		}
		return err
	}
	var err error
	if tx != nil {
		err = look(ctx, tx)
	} else {
		err = c.DB.Read(ctx, look)
	}
	if err != nil || !signedIn {
		return View{Redirect: c.SignInURL()}, err
	}
	switch {
	case c.HTTP.PostForm != nil && !c.HasFormToken():
		return View{}, ErrFormToken
	case rt.Access >= Member && c.Session.Company.ID == "":
		return View{}, errNoCompany
	case rt.Access >= Manager && !c.Session.Manages(), rt.Access >= Administrator && !c.Session.Administers():
		return View{}, ErrRole
	case needs != PasswordOnly:
		return View{Redirect: c.ProofURL()}, nil
	}
	return h(ctx, tx, c)
}

// SignInURL is the page to sign in that leads back here. What was posted is lost.
func (c *Request) SignInURL() string {
	if c.HTTP.Method != http.MethodGet {
		return "/sign-in"
	}
	return SignInPath(c.HTTP.URL.RequestURI())
}

// SignInPath returns the page that signs in and then leads to next.
func SignInPath(next string) string { return "/sign-in?" + url.Values{"next": {next}}.Encode() }

// touchSession notes that a session was used. That the note fails is no reason to refuse the page.
func (c *Request) touchSession() {
	if c.Session == nil || !c.Session.NeedsTouch(c.Time) {
		return
	}
	err := c.DB.Write(c.HTTP.Context(), func(ctx context.Context, tx *db.Tx) error { return session.Touch(ctx, tx, *c.Session) })
	if err != nil {
		c.Log.Warn("a session's use was not noted", slog.String("request_id", c.ID), slog.String("error", err.Error()))
	}
}

// SamePath is where to go on after signing in: a path of this face, whatever was asked for.
func SamePath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || u.Opaque != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return "/account"
	}
	return next
}

// NextPath is where the reader wanted to go.
func (c *Request) NextPath() string {
	if c.Form.Has("next") {
		return SamePath(c.Form.Get("next"))
	}
	return SamePath(c.HTTP.URL.Query().Get("next"))
}

// Hash runs what takes a place among the passwords that are checked or made at a time.
func Hash(ctx context.Context, places chan struct{}, run func() error) error {
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
		return run()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RoleName returns the name of a member's role in the reader's language.
func (c *Request) RoleName(role string) string {
	if c.HasText("role." + role) {
		return c.Text("role." + role)
	}
	return role
}
