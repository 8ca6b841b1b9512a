package web

import (
	"context"
	"encoding/base64"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"rsc.io/qr"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/oauth"
)

var errCode = apierr.New(apierr.Invalid, "code_wrong", "This code is wrong, or was used already. Wait for the next one.")

// guarded says whether acting for a company needs a second factor.
func (s *server) guarded(companyID string) bool {
	return companyID != "" && !slices.Contains(s.SeededCompanies, companyID)
}

// needs is what a route asks of the second factor and the reader has not given. Their own account is theirs to guard: where they
// have no second factor, it asks for none; to get one, for a fresh sign-in.
func (c *call) needs(ctx context.Context, tx *db.Tx, rt route) (factor, error) {
	switch {
	case rt.factor == passwordOnly,
		rt.factor == provenFactor && c.session.Proven(),
		rt.factor == freshFactor && c.session.ProvenFreshly(c.now),
		rt.access >= member && !c.guarded(c.session.Company.ID):
		return passwordOnly, nil
	case rt.access >= member:
		return rt.factor, nil
	}
	codes, keys, err := c.ways(ctx, tx)
	if !codes && !keys && (!rt.enrols || c.session.SignedInFreshly(c.now)) {
		return passwordOnly, err
	}
	return rt.factor, err
}

// ways are how the reader can show a second factor.
func (c *call) ways(ctx context.Context, tx *db.Tx) (codes, keys bool, err error) {
	if codes, err = auth.HasFactor(ctx, tx, c.session.User.ID); err != nil {
		return false, false, err
	}
	all, err := auth.Passkeys(ctx, tx, c.session.User.ID)
	return codes, len(all) > 0, err
}

// mayAllow says whether the reader may allow an app all of this now: what is more than reading not with a password alone, and what
// moves money, or where it goes, with a second factor that was just shown. It asks what the pages ask that do the same.
func (c *call) mayAllow(ctx context.Context, tx *db.Tx, companyID string, asked identity.Scopes) (bool, error) {
	needed := passwordOnly
	for _, s := range asked.List() {
		switch oauth.GroupOf(s) {
		case oauth.MoveMoney:
			needed = freshFactor
		case oauth.Change:
			needed = max(needed, provenFactor)
		}
	}
	if needed == passwordOnly || needed == provenFactor && c.session.Proven() || c.session.ProvenFreshly(c.now) {
		return true, nil
	}
	if companyID != "" {
		return !c.guarded(companyID), nil
	}
	codes, keys, err := c.ways(ctx, tx)
	return !codes && !keys, err
}

// factorFirst is the page to show a second factor that leads back here: to this page or, from a form, to the page that it is on.
func (c *call) factorFirst() string {
	next := c.r.URL.RequestURI()
	if c.r.Method != http.MethodGet {
		next = c.pageOf(c.r.URL.Path)
	}
	return proofPath(next)
}

func proofPath(next string) string { return "/account/proof?" + url.Values{"next": {next}}.Encode() }

// pageOf is the nearest page at or above a path.
func (s *server) pageOf(at string) string {
	for ; at != "/"; at = path.Dir(at) {
		if _, pattern := s.mux.Handler(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: at}}); pattern != "/" {
			return at
		}
	}
	return "/account"
}

// person is who is signed in, as a reader of mails.
func (c *call) person() auth.Person { return c.reads(c.session.User) }

func (c *call) reads(u identity.User) auth.Person {
	return auth.Person{User: u, Language: c.lang.tag}
}

type codePage struct {
	Next            string
	Field           field
	Codes, Passkeys bool // what the reader can show
	Password        bool // they have nothing but it
}

func (c *call) codePage(page, title string, codes, keys bool) view {
	return view{page: page, title: c.text(title), data: codePage{Next: c.next(), Codes: codes, Passkeys: keys && c.passkeys() != nil, Field: c.field(field{Name: "code", Autocomplete: "one-time-code", Required: true, Most: 40})}}
}

// tryCode takes a code that was posted. That it is wrong is no error here: the try must be counted.
func (c *call) tryCode(ctx context.Context, tx *db.Tx, u identity.User) (refusal *apierr.Fault, err error) {
	allowed, err := session.AttemptCode(ctx, tx, u.ID)
	if err != nil {
		return nil, err
	}
	if !allowed {
		return errAttempts.At("body", ""), nil
	}
	right, err := auth.Verify(ctx, tx, c.Sealer, c.reads(u), c.form.Get("code"), c.Now())
	if err != nil {
		return nil, err
	}
	if !right {
		return errCode.At("body", "/code"), nil
	}
	return nil, session.CodeSucceeded(ctx, tx, u.ID)
}

// waiting is who has given their password and not yet their code.
func (c *call) waiting(ctx context.Context, tx *db.Tx) (u identity.User, some bool, err error) {
	u, err = session.FindWaiting(ctx, tx, c.token())
	if errors.Is(err, apierr.NotFoundErr) {
		return u, false, nil
	}
	return u, err == nil, err
}

// showCode asks for the second factor, after the password.
func showCode(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	_, some, err := c.waiting(ctx, tx)
	if err != nil || !some {
		return view{redirect: signInPath(c.next())}, err
	}
	return c.codePage("code", "code.title", true, false), nil
}

// signInCode takes the second factor and begins the session, which is a new one.
func signInCode(ctx context.Context, _ *db.Tx, c *call) (view, error) {
	if !c.proven() {
		return view{}, errFormToken
	}
	var refusal *apierr.Fault
	var token string
	err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		refusal, token = nil, ""
		u, some, err := c.waiting(ctx, tx)
		if err != nil || !some {
			return err
		}
		if refusal, err = c.tryCode(ctx, tx, u); err != nil || refusal != nil {
			return err
		}
		if err := session.End(ctx, tx, c.token()); err != nil {
			return err
		}
		token, err = session.StartProven(ctx, tx, u.ID)
		return err
	})
	switch {
	case err != nil:
		return view{}, err
	case refusal != nil:
		return view{}, refusal
	case token == "":
		return view{redirect: signInPath(c.next())}, nil
	}
	return view{redirect: c.next(), cookie: c.cookie(token)}, nil
}

// showProof asks for the second factor again, before something grave. Who has none gets one, for the password where it was not given
// lately: a browser that was left open is not enough.
func showProof(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	codes, keys, err := c.ways(ctx, tx)
	if err != nil {
		return view{}, err
	}
	if !codes && !keys {
		if c.session.SignedInFreshly(c.now) {
			return view{redirect: c.enrolPath()}, nil
		}
		return view{page: "proof", title: c.text("proof.title"), data: codePage{
			Next: c.next(), Password: true, Field: c.field(field{Name: "password", Type: "password", Autocomplete: "current-password", Required: true, Most: identity.MaxPassword}),
		}}, nil
	}
	return c.codePage("proof", "proof.title", codes, keys), nil
}

// enrolPath is where the reader gets a second factor, on the way to where they were.
func (c *call) enrolPath() string {
	if next := c.next(); strings.HasPrefix(next, "/account/") {
		return next
	}
	return "/account/factor?" + url.Values{"next": {c.next()}}.Encode()
}

// prove takes the second factor of who is signed in, or the password of who has none.
func prove(ctx context.Context, _ *db.Tx, c *call) (view, error) {
	if c.form.Get("password") != "" {
		token, to, err := c.enter(ctx, c.session.User.Email, c.form.Get("password"))
		if err != nil {
			return view{}, err
		}
		if to == c.next() {
			to = c.enrolPath()
		}
		return view{redirect: to, cookie: c.cookie(token)}, nil
	}
	var refusal *apierr.Fault
	err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if refusal, err = c.tryCode(ctx, tx, c.session.User); err != nil || refusal != nil {
			return err
		}
		return session.Prove(ctx, tx, *c.session)
	})
	if err == nil && refusal != nil {
		err = refusal
	}
	return view{redirect: c.next()}, err
}

type factorPage struct {
	Next      string // where the reader was on the way to
	Needed    bool   // and what they want there needs it
	On        bool
	Left      string // recovery codes that are unused
	Enrolment *auth.Enrolment
	QR        template.URL
	Field     field
}

// showFactor is the state of the reader's second factor, and what can be done about it.
func showFactor(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	u := c.session.User
	p := factorPage{Next: c.next(), Needed: c.form.Get("next") != "" || c.r.URL.Query().Get("next") != ""}
	codes, keys, err := c.ways(ctx, tx)
	if err != nil {
		return view{}, err
	}
	if p.On = codes; p.On {
		left, err := auth.RecoveryLeft(ctx, tx, u.ID)
		p.Left = strconv.FormatInt(left, 10)
		return view{page: "factor", title: c.text("factor.title"), data: p}, err
	}
	// The secret of another factor would be a way round the passkey, and a first one is for who knows the password.
	if keys && !c.session.ProvenFreshly(c.now) || !keys && !c.session.SignedInFreshly(c.now) {
		return view{page: "factor", title: c.text("factor.title"), data: p}, nil
	}
	e, err := auth.Enrolling(ctx, tx, c.Sealer, u)
	switch {
	case errors.Is(err, apierr.NotFoundErr):
	case err != nil:
		return view{}, err
	default:
		p.Enrolment = &e
		if p.QR, err = picture(e.URI); err != nil {
			return view{}, err
		}
		p.Field = c.field(field{Name: "code", Autocomplete: "one-time-code", Required: true, Most: 10})
	}
	return view{page: "factor", title: c.text("factor.title"), data: p}, nil
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
func beginFactor(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	to := "/account/factor"
	if c.form.Get("next") != "" {
		to += "?" + url.Values{"next": {c.next()}}.Encode()
	}
	return view{redirect: to}, auth.Enrol(ctx, tx, c.Sealer, c.session.User)
}

type recoveryPage struct {
	Codes []string
	Next  string
}

// confirmFactor takes the first code and shows the recovery codes.
func confirmFactor(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	codes, right, err := auth.Confirm(ctx, tx, c.Sealer, c.person(), c.form.Get("code"), c.Now())
	if err != nil {
		return view{}, err
	}
	if !right {
		return view{}, errCode.At("body", "/code")
	}
	return c.recovery(codes), session.Prove(ctx, tx, *c.session)
}

func (c *call) recovery(codes []string) view {
	p := recoveryPage{Codes: codes, Next: "/account/factor"}
	if c.form.Get("next") != "" {
		p.Next = c.next()
	}
	return view{page: "recovery", title: c.text("factor.recovery.title"), data: p}
}

// renewRecovery replaces the recovery codes.
func renewRecovery(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	codes, err := auth.RenewRecovery(ctx, tx, c.person())
	return c.recovery(codes), err
}

// removeFactor goes back to the password alone.
func removeFactor(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return view{redirect: "/account/factor"}, auth.Remove(ctx, tx, c.person())
}
