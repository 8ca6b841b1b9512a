package web

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
)

// How many passwords a process checks at a time; each takes 64 MiB. Operators have a place of their own: nobody else's sign-in
// stands before theirs.
const (
	hashesAtOnce        = 2
	hashesOfHouseAtOnce = 1
)

// The one answer to every wrong sign-in: it does not say what of it was wrong.
var (
	errSignIn    = apierr.New(apierr.Invalid, "sign_in_failed", "The email address or the password is wrong.")
	errAttempts  = apierr.New(apierr.RateLimited, "rate_limited", "There were too many attempts. Try again in 15 minutes.")
	errFormToken = apierr.New(apierr.Forbidden, "csrf_failed", "This form was not made for you, or you have signed in anew since.")
	errNoCompany = apierr.New(apierr.Forbidden, "not_a_member", "You are no member of a company, so there is nothing here.")
	errRole      = apierr.New(apierr.Forbidden, "role_required", "Your role in this company may look, but not change this. Ask an owner or administrator.")
)

// cookieName is __Host- wherever a browser accepts that: then no other host can have set it. A sandbox on plain http has none.
func (s *server) cookieName() string {
	if s.secure() {
		return "__Host-stipend_session"
	}
	return "stipend_session"
}

func (s *server) secure() bool {
	return s.Env != identity.Sandbox || strings.HasPrefix(s.BaseURL, "https://")
}

// cookie holds a session's token, or ends it with "".
func (s *server) cookie(token string) *http.Cookie {
	k := &http.Cookie{Name: s.cookieName(), Value: token, Path: "/", HttpOnly: true, Secure: s.secure(), SameSite: http.SameSiteLaxMode, MaxAge: int(session.Life.Seconds())} //nolint:gosec // Secure unless a sandbox is on plain http
	if token == "" {
		k.MaxAge = -1
	}
	return k
}

// token is what the browser holds, "" without.
func (c *call) token() string {
	if k, err := c.r.Cookie(c.cookieName()); err == nil {
		return k.Value
	}
	return ""
}

// formToken is what a form must carry that somebody sends who is signed in. It follows from the session's token, which no
// other site can read, and does not tell it.
func formToken(token string) string { return identity.Digest("form of " + token) }

// formToken is that of who is signed in on this page: the house's pages have a session of their own.
func (c *call) formToken() string {
	if c.operator != nil {
		return formToken(c.operatorToken())
	}
	return formToken(c.token())
}

// proven says whether the posted form was made for this session.
func (c *call) proven() bool {
	return subtle.ConstantTimeCompare([]byte(c.form.Get("form_token")), []byte(c.formToken())) == 1
}

// find looks up who is signed in and says whether anybody is.
func (c *call) find(ctx context.Context, tx *db.Tx) (bool, error) {
	c.session, c.now = nil, tx.Now()
	s, err := session.Find(ctx, tx, c.token())
	if errors.Is(err, apierr.NotFoundErr) {
		return false, nil
	}
	c.session = &s
	return err == nil, err
}

// admitted runs a handler for those who may come, and sends others to sign in, or to show a second factor, first. It looks at each
// request, so a session or a role that was ended is gone at once.
func (c *call) admitted(ctx context.Context, tx *db.Tx, rt route, h handler) (view, error) {
	switch rt.access {
	case anyone:
		return h(ctx, tx, c)
	case operators:
		return c.operates(ctx, tx, rt, h)
	}
	signedIn, needs := false, passwordOnly
	look := func(ctx context.Context, tx *db.Tx) (err error) {
		if signedIn, err = c.find(ctx, tx); err == nil && signedIn {
			needs, err = c.needs(ctx, tx, rt)
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
		return view{redirect: c.signInFirst()}, err
	}
	switch {
	case c.r.PostForm != nil && !c.proven():
		return view{}, errFormToken
	case rt.access >= member && c.session.Company.ID == "":
		return view{}, errNoCompany
	case rt.access >= manager && !c.session.Manages(), rt.access >= administrator && !c.session.Administers():
		return view{}, errRole
	case needs != passwordOnly:
		return view{redirect: c.factorFirst()}, nil
	}
	return h(ctx, tx, c)
}

// signInFirst is the page to sign in that leads back here. What was posted is lost.
func (c *call) signInFirst() string {
	if c.r.Method != http.MethodGet {
		return "/sign-in"
	}
	return signInPath(c.r.URL.RequestURI())
}

func signInPath(next string) string { return "/sign-in?" + url.Values{"next": {next}}.Encode() }

// keepAlive notes that a session was used. That the note fails is no reason to refuse the page.
func (c *call) keepAlive() {
	if c.session == nil || !c.session.NeedsTouch(c.now) {
		return
	}
	err := c.DB.Write(c.r.Context(), func(ctx context.Context, tx *db.Tx) error { return session.Touch(ctx, tx, *c.session) })
	if err != nil {
		c.Log.Warn("a session's use was not noted", slog.String("request_id", c.id), slog.String("error", err.Error()))
	}
}

// samePath is where to go on after signing in: a path of this face, whatever was asked for.
func samePath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || u.Opaque != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return "/account"
	}
	return next
}

type signInPage struct {
	Next     string
	Fields   []field
	Passkeys bool // whether one can be used here
}

// next is where the reader wanted to go.
func (c *call) next() string {
	if c.form.Has("next") {
		return samePath(c.form.Get("next"))
	}
	return samePath(c.r.URL.Query().Get("next"))
}

// showSignIn asks who somebody is, unless that is known.
func showSignIn(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	signedIn, err := c.find(ctx, tx)
	if err != nil || signedIn && c.problem == nil {
		return view{redirect: c.next()}, err
	}
	return view{page: "sign_in", title: c.text("sign_in.title"), data: signInPage{Next: c.next(), Passkeys: c.passkeys() != nil, Fields: []field{
		c.field(field{Name: "email", Type: "email", Autocomplete: "username", Required: true, Most: 254}),
		c.field(field{Name: "password", Type: "password", Autocomplete: "current-password", Required: true, Most: 1024}),
	}}}, nil
}

// signIn checks a password between two transactions: it takes its time on purpose, for somebody unknown the same.
func signIn(ctx context.Context, _ *db.Tx, c *call) (view, error) {
	email, password := c.form.Get("email"), c.form.Get("password")
	var missing apierr.List
	for _, name := range []string{"email", "password"} {
		if c.form.Get(name) == "" {
			missing.Add("missing_field", "/"+name, "Fill this in.")
		}
	}
	if err := missing.Err(); err != nil {
		return view{}, err
	}
	token, to, err := c.enter(ctx, email, password)
	if err != nil {
		return view{}, err
	}
	return view{redirect: to, cookie: c.cookie(token)}, nil
}

// enter ends the session that there is and begins one of whose address and password these are. It says where they go on.
func (c *call) enter(ctx context.Context, email, password string) (token, to string, err error) {
	u, err := c.signsIn(ctx, email, password)
	if err != nil {
		return "", "", err
	}
	err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if err := errors.Join(session.Succeeded(ctx, tx, email, c.from()), session.End(ctx, tx, c.token())); err != nil {
			return err
		}
		token, to, err = c.begin(ctx, tx, u)
		return err
	})
	return token, to, err
}

// begin starts the session of somebody whose password was right, and says where they go on: with a second factor, to show it.
func (c *call) begin(ctx context.Context, tx *db.Tx, u identity.User) (token, to string, err error) {
	has, err := auth.HasFactor(ctx, tx, u.ID)
	if err != nil {
		return "", "", err
	}
	if !has {
		token, err = session.Start(ctx, tx, u.ID)
		return token, c.next(), err
	}
	token, err = session.StartWaiting(ctx, tx, u.ID)
	return token, "/sign-in/code?" + url.Values{"next": {c.next()}}.Encode(), err
}

// signsIn is whose address and password these are, or why nobody is let in. A right password gives its try back by
// session.Succeeded.
func (c *call) signsIn(ctx context.Context, email, password string) (u identity.User, err error) {
	allowed := false
	err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		u, allowed, err = session.Attempt(ctx, tx, email, c.from())
		return err
	})
	switch {
	case err != nil:
		return u, err
	case !allowed:
		return u, errAttempts.At("body", "")
	}
	right := false
	err = hashed(ctx, c.hashing, func() (err error) {
		right, err = u.CheckPassword(password)
		return err
	})
	if err == nil && !right {
		err = errSignIn.At("body", "")
	}
	return u, err
}

// hashed runs what takes a place among the passwords that are checked or made at a time.
func hashed(ctx context.Context, places chan struct{}, run func() error) error {
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
		return run()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// signOut ends this session. With a next page it leads there by way of another sign-in.
func signOut(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	to := "/sign-in"
	if c.form.Get("next") != "" {
		to = signInPath(c.next())
	}
	return view{redirect: to, cookie: c.cookie("")}, session.End(ctx, tx, c.token())
}

// signOutEverywhere ends all sessions of the person.
func signOutEverywhere(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return view{redirect: "/sign-in", cookie: c.cookie("")}, session.EndAll(ctx, tx, c.session.User.ID)
}

type accountPage struct {
	Verifies                   bool // people can be verified here
	Name, Email, Company, Role string
	Companies                  []option
}

// showAccount is who is signed in, for whom they act, and the way to the rest.
func showAccount(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	s := c.session
	p := accountPage{Verifies: c.KYC != nil, Name: s.User.Name(), Email: s.User.Email, Company: s.Company.Name, Role: c.role(s.Role)}
	for _, m := range s.Members {
		company, err := identity.CompanyByID(ctx, tx, m.CompanyID)
		if err != nil {
			return view{}, err
		}
		p.Companies = append(p.Companies, option{Value: company.ID, Label: company.Name, Selected: company.ID == s.Company.ID})
	}
	return view{page: "account", title: c.text("account.title"), data: p}, nil
}

func (c *call) role(role string) string {
	if c.has("role." + role) {
		return c.text("role." + role)
	}
	return role
}

// actFor chooses the company.
func actFor(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return view{redirect: "/account"}, session.ActFor(ctx, tx, *c.session, c.form.Get("company_id"))
}
