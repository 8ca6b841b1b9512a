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
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/notification"
	"github.com/stipend/stipend/internal/web/ui/texts"
)

// The one answer to every wrong sign-in: it does not say what of it was wrong.
var (
	// ErrSignIn is the error of every failed sign-in. It does not say which part was wrong.
	ErrSignIn    = apierr.New(apierr.Invalid, "sign_in_failed", "Incorrect email address or password.")
	ErrAttempts  = apierr.New(apierr.RateLimited, "rate_limited", "Too many attempts. Try again in 15 minutes.")
	ErrFormToken = apierr.New(apierr.Forbidden, "csrf_failed",
		"This form belongs to an earlier session. Reload the page and try again.")
	errNoCompany = apierr.New(apierr.Forbidden, "not_a_member", "This page is for company members.")
	ErrRole      = apierr.New(apierr.Forbidden, "role_required",
		"Your role has read-only access to this. Ask an owner or administrator.")
)

// cookieName returns the name of the session cookie. The __Host- prefix stops other hosts from setting it, but
// needs HTTPS.
func (s *Server) cookieName() string {
	if s.secure() {
		return "__Host-stipend_session"
	}
	return "stipend_session"
}

func (s *Server) secure() bool {
	return s.Env != identity.Sandbox || strings.HasPrefix(s.BaseURL, "https://")
}

// SessionCookie returns the session cookie. An empty token deletes it.
func (s *Server) SessionCookie(token string) *http.Cookie {
	k := &http.Cookie{ //nolint:gosec // Secure unless a sandbox is on plain http
		Name: s.cookieName(), Value: token, Path: "/", HttpOnly: true, Secure: s.secure(),
		SameSite: http.SameSiteLaxMode, MaxAge: int(session.Life.Seconds()),
	}
	if token == "" {
		k.MaxAge = -1
	}
	return k
}

// SessionToken returns the token of the session cookie, or "".
func (c *Request) SessionToken() string {
	if k, err := c.HTTP.Cookie(c.cookieName()); err == nil {
		return k.Value
	}
	return ""
}

// FormToken returns the token that each form of a session must carry. It is a digest of the session token, so other
// sites cannot compute it and it does not reveal the session token.
func FormToken(token string) string { return identity.Digest("form of " + token) }

// formToken returns the form token of the staff session on staff pages, else of the user's session.
func (c *Request) formToken() string {
	if c.Staff != nil {
		return FormToken(c.StaffToken())
	}
	return FormToken(c.SessionToken())
}

// HasFormToken reports whether the posted form carries the token of this session.
func (c *Request) HasFormToken() bool {
	return subtle.ConstantTimeCompare([]byte(c.Form.Get("form_token")), []byte(c.formToken())) == 1
}

// FindSession loads the session of the request and reports whether the user is signed in.
func (c *Request) FindSession(ctx context.Context, tx *db.Tx) (bool, error) {
	c.Session, c.Locale, c.Time = nil, identity.Locale{}, tx.Now()
	s, err := session.Find(ctx, tx, c.SessionToken())
	if errors.Is(err, apierr.NotFoundErr) {
		return false, nil
	}
	c.Session, c.Locale = &s, s.User.Locale
	if tag := s.User.Locale.Language; err == nil && tag != "" && !c.Language.Chosen && len(c.offered) == 0 {
		c.Language = texts.Language{Tag: tag}
	}
	if err == nil && s.Company.ID != "" {
		c.Unread, err = notification.Unread(ctx, tx, auth.Actor{CompanyID: s.Company.ID, UserID: s.User.ID})
	}
	return err == nil, err
}

// admit runs a handler if the user has the access that rt requires. Others are redirected to sign in or to prove a
// second factor. Because the session is loaded for each request, revoked sessions and changed roles take effect
// immediately.
func (c *Request) admit(ctx context.Context, tx *db.Tx, rt Route, h handler) (View, error) {
	switch rt.Access {
	case Anyone:
		return h(ctx, tx, c)
	case StaffOnly:
		return c.admitStaff(ctx, tx, rt, h)
	}
	signedIn, accepted, needs := false, true, PasswordOnly
	look := func(ctx context.Context, tx *db.Tx) (err error) {
		if signedIn, err = c.FindSession(ctx, tx); err != nil || !signedIn {
			return err
		}
		if !rt.BeforeTerms {
			if accepted, err = c.Operator.Legal.Accepted(ctx, tx, c.Session.User.ID); err != nil {
				return err
			}
		}
		needs, err = c.missingFactor(ctx, tx, rt)
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
	case !accepted:
		return View{Redirect: c.acceptURL()}, nil
	case c.HTTP.PostForm != nil && !c.HasFormToken():
		return View{}, ErrFormToken
	case rt.Access >= Member && c.Session.Company.ID == "":
		return View{}, errNoCompany
	case rt.Access >= Manager && !c.Session.Manages(), rt.Access >= Administrator && !c.Session.Administers():
		return View{}, ErrRole
	case rt.changesCompany() && c.Session.Company.Active() != nil:
		return View{}, c.Session.Company.Active()
	case needs != PasswordOnly:
		return View{Redirect: c.ProofURL(), keepsForm: c.Form != nil}, nil
	}
	if err := c.resumeForm(ctx, tx); err != nil {
		return View{}, err
	}
	if rt.Access >= Member {
		ctx = db.ForCompany(ctx, c.Session.Company.ID)
		c.HTTP = c.HTTP.WithContext(db.ForCompany(c.HTTP.Context(), c.Session.Company.ID))
	}
	return h(ctx, tx, c)
}

// SignInURL returns the URL of the sign-in page that then returns to this page. After a posted form it does not
// return, because the posted values are lost.
func (c *Request) SignInURL() string {
	if c.HTTP.Method != http.MethodGet {
		return "/sign-in"
	}
	return SignInPath(c.HTTP.URL.RequestURI())
}

// acceptURL returns the URL of the page on which the legal texts are accepted, and that then returns to this page.
func (c *Request) acceptURL() string {
	if c.HTTP.Method != http.MethodGet {
		return AcceptPath
	}
	return AcceptPath + "?" + url.Values{"next": {c.HTTP.URL.RequestURI()}}.Encode()
}

// AcceptPath is the path of the page on which a user accepts the legal texts.
const AcceptPath = "/legal/accept"

// SignInPath returns the URL of the sign-in page that then redirects to next.
func SignInPath(next string) string { return "/sign-in?" + url.Values{"next": {next}}.Encode() }

// touchSession records that the session was used. If that fails, the page is still shown.
func (c *Request) touchSession() {
	if c.Session == nil || !c.Session.NeedsTouch(c.Time) {
		return
	}
	err := c.DB.Write(c.HTTP.Context(), func(ctx context.Context, tx *db.Tx) error {
		return session.Touch(ctx, tx, *c.Session)
	})
	if err != nil {
		c.Log.Warn("recording the use of a session failed", slog.String("request_id", c.ID),
			slog.String("error", err.Error()))
	}
}

// LocalPath returns next if it is a path of these pages, else "/account". It prevents redirects to other sites.
func LocalPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || u.Opaque != "" || !strings.HasPrefix(next, "/") ||
		strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return "/account"
	}
	return next
}

// NextPath returns the path to continue with after this step, by default that of the account.
func (c *Request) NextPath() string { return LocalPath(c.Next()) }

// Next returns the path to continue with after this step, or "" if the link or form names none.
func (c *Request) Next() string {
	next := c.HTTP.URL.Query().Get("next")
	if c.Form.Has("next") {
		next = c.Form.Get("next")
	}
	if next == "" {
		return ""
	}
	return LocalPath(next)
}
