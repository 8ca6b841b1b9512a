// Package ui serves the pages: routing, access control, forms, templates, texts, and the components that pages
// share.
//
// A page is rendered on the server, in one read-only transaction, and works without JavaScript. A posted form runs
// in one transaction. The response is a redirect, or the same page with the problems shown at the fields. Every
// response has a language, security headers and a request ID. Each request is checked for its origin and for the
// access that its [Route] requires. The log gets one line per request, without the path, because a path may contain
// a secret token.
//
// The package owns no table and no business rule.
package ui

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"log/slog"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/auth/sso"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/branding"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/docsite"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice/checkout"
	"github.com/stipend/stipend/internal/invoice/vendorbill"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/paymentlink"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/payroll/schedule"
	"github.com/stipend/stipend/internal/proposal"
	"github.com/stipend/stipend/internal/ratelimit"
	"github.com/stipend/stipend/internal/travelrule"
	"github.com/stipend/stipend/internal/web/ui/texts"
	"github.com/stipend/stipend/internal/webhook/delivery"
	"github.com/stipend/stipend/internal/withdrawal"
)

// Deps are the dependencies of the pages. DB, Env and Now are required.
type Deps struct {
	DB *db.DB
	// Env is the environment. In a sandbox, every page says that no real money moves.
	Env identity.Environment
	// BaseURL is the public URL of the pages. AuthURL is the public URL of the consent page and may have another host.
	// Forms are accepted only from these two origins.
	BaseURL, AuthURL string
	// Payroll creates and reads payrolls.
	Payroll *payroll.Service
	// Claims serves the claims that are paid at checkouts.
	Claims *claim.Service
	// Explorers has the URL of a block explorer by network, with {tx} for the transaction.
	Explorers map[string]string
	// Branding changes how payers see a merchant.
	Branding *branding.Service
	// Vendor records bills of vendors.
	Vendor *vendorbill.Service
	// Links creates claims from payment links.
	Links *paymentlink.Service
	// Invoices creates claims by which payers pay invoices of people in coins.
	Invoices *checkout.Service
	// Backoffice authenticates staff and runs the back office. If nil, there are no staff pages.
	Backoffice *backoffice.Service
	// SSO signs members in by the OpenID providers of companies. If nil, there are no pages for it.
	SSO *sso.Service
	// StaffSSO signs staff in by the operator's OpenID provider. If nil, there are no pages for it.
	StaffSSO *sso.Staff
	// Proposals has the payrolls and claims that apps proposed.
	Proposals *proposal.Service
	// Schedules creates payrolls that repeat.
	Schedules *schedule.Service
	// Withdrawals pays company balances out to the companies' own destinations.
	Withdrawals *withdrawal.Service
	// TravelRule stores who hosts the wallets of destinations, and the records of large payouts.
	TravelRule *travelrule.Service
	Debits     *directdebit.Service
	// Webhooks is the configuration for new webhook endpoints.
	Webhooks delivery.Setup
	// Sealer encrypts personal data before it is stored.
	Sealer *identity.Sealer
	// KYC verifies people and companies. In a sandbox, users decide the verifications on pages. If nil, there are no
	// verification pages.
	KYC *kyc.Service
	// Operator is how the operator presents the service.
	Operator Operator
	// Contract holds the fees and other terms of companies that sign up on the pages. The name and email come from the
	// form.
	Contract identity.NewCompany
	// SeededCompanies are the IDs of the companies that a sandbox starts with. Their passwords and API keys are
	// public, so they need no second factor.
	SeededCompanies []string
	// Docs is the documentation for developers.
	Docs *docsite.Site
	// Sandbox simulates payers and the clock. If nil, as in production, there are no forms for it.
	Sandbox Sandbox
	// Bodies limits the memory for large request bodies across all handlers of the process. If nil, the pages use a
	// budget of their own.
	Bodies *ratelimit.BodyBudget
	// Scarce limits forms that create something for anyone, by network. Nil means a limit of its own.
	Scarce *ratelimit.Limiter
	// Done is closed when the process stops, and ends open event streams. If nil, they end by themselves.
	Done <-chan struct{}
	// Now is the system time, for logs, rate limits and authenticator codes. Business rules use the transaction time
	// instead.
	Now func() time.Time
	// Observe records metrics of each request that matched a route.
	Observe func(ctx context.Context, method, route string, status int, took time.Duration)
	Log     *slog.Logger
}

// Sandbox simulates the outside world for a company that tries the service: the payer, the chain and the clock.
type Sandbox interface {
	// Deposit pays a payroll of the principal's company on the simulated chain. If amount is empty, kind determines
	// it.
	Deposit(ctx context.Context, by identity.Principal, objectID, currency, network, kind, amount string) (txid string,
		err error)
	// Advance moves the service's clock forward and returns the new time.
	Advance(ctx context.Context, by time.Duration) (time.Time, error)
}

// New returns a server of the given routes. It panics if a required dependency is missing, a route declares no access,
// or a page of staff declares no role.
func New(d Deps, routes []Route) *Server {
	if d.DB == nil || d.Env == "" || d.Now == nil {
		panic("web: Deps needs DB, Env and Now")
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Bodies == nil {
		d.Bodies = ratelimit.DefaultBodyBudget()
	}
	s := &Server{Deps: d, mux: http.NewServeMux(), pages: map[string]bool{},
		staffPages: map[string][]backoffice.Role{}, origins: http.NewCrossOriginProtection(),
		streams: streams{of: map[netip.Addr]int{}}, polls: ratelimit.New(1, 60),
		scarce:           cmp.Or(d.Scarce, ratelimit.New(0.1, 20)),
		AnonymousLimiter: ratelimit.New(2, 120),
		Passwords:        ratelimit.NewQueue(MaxPasswordChecks),
		StaffPasswords:   ratelimit.NewQueue(maxStaffPasswordChecks)}
	if len(d.Operator.Logo) > 0 {
		logo := newAsset("operator"+d.Operator.LogoType, d.Operator.Logo)
		s.logo = &logo
	}
	for _, text := range []string{d.BaseURL, d.AuthURL} {
		if u, err := url.Parse(text); err == nil && text != "" {
			// Behind a proxy, the Host header may differ from the origin that the browser sends.
			_ = s.origins.AddTrustedOrigin(u.Scheme + "://" + u.Host) // the configuration has validated the URL
		}
	}
	for _, rt := range routes {
		if rt.NeedsKYC && s.KYC == nil || rt.SandboxOnly && s.Env != identity.Sandbox || rt.DecidesKYC && !s.CanDecideKYC() ||
			rt.Simulated && !s.CanSimulate() || (rt.Staff || rt.Access == StaffOnly) && s.Backoffice == nil ||
			rt.NeedsSSO && s.SSO == nil || rt.NeedsStaffSSO && s.StaffSSO == nil {
			continue
		}
		if rt.Access == noAccess {
			panic("web: " + rt.Method + " " + rt.Path + " declares no access")
		}
		if rt.Access == StaffOnly && len(rt.Roles) == 0 {
			panic("web: " + rt.Method + " " + rt.Path + " declares no staff role")
		}
		if rt.Access == StaffOnly && rt.Method == http.MethodGet {
			s.staffPages[rt.Path] = rt.Roles
		}
		if rt.Kind == byMethod {
			rt.Kind = Write
			if rt.Method == http.MethodGet {
				rt.Kind = Read
			}
		}
		s.pages[rt.Path] = s.pages[rt.Path] || rt.Method == http.MethodGet
		s.mux.HandleFunc(rt.Method+" "+rt.Path, func(w http.ResponseWriter, r *http.Request) {
			s.serve(w.(*responseWriter), r, rt)
		})
	}
	s.mux.HandleFunc("GET /static/{name}", func(w http.ResponseWriter, r *http.Request) {
		s.serveAsset(w.(*responseWriter), r)
	})
	s.mux.HandleFunc("GET "+CheckoutScript, func(w http.ResponseWriter, r *http.Request) {
		s.serveCheckoutScript(w.(*responseWriter), r)
	})
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.writeError(w.(*responseWriter), r, s.notFoundError(r))
	})
	return s
}

// Request is a request with its reader, session and form.
type Request struct {
	*Server
	texts.Reader
	HTTP    *http.Request
	ID      string              // request ID
	Form    url.Values          // the posted values
	offered []string            // languages to which the page is limited; empty for all
	resumed bool                // Form is a kept form
	notice  string              // confirms the form that led to this page; "" for none
	Problem *apierr.Fault       // the error of the posted form
	Labels  map[string]string   // labels of fields that the catalogs do not name
	Session *session.Session    // the signed-in user; nil until looked up
	Unread  int64               // notifications that the member has not read
	Staff   *backoffice.Session // the signed-in staff member; only on staff pages
	Author  string              // ID of the user who signs in or uses a link; "" if Session names the user
	Time    time.Time           // transaction time of the session lookup
}

// Server is the HTTP handler of the pages.
type Server struct {
	Deps
	mux   *http.ServeMux
	pages map[string]bool // paths with a GET route
	// staffPages are the roles that may read each page of staff.
	staffPages map[string][]backoffice.Role
	logo       *asset // the operator's; nil for none
	origins    *http.CrossOriginProtection
	// Passwords and StaffPasswords limit concurrent password hashing, for staff separately.
	Passwords, StaffPasswords *ratelimit.Queue
	AnonymousLimiter          *ratelimit.Limiter // limits forms that need no sign-in, by network
	streams                   streams            // open event streams
	scarce                    *ratelimit.Limiter // limits forms that create something for anyone, by network
	polls                     *ratelimit.Limiter // limits polling of live parts, by network and path
}

// CanDecideKYC reports whether users of a sandbox decide verifications.
func (s *Server) CanDecideKYC() bool { return s.Env == identity.Sandbox && s.KYC != nil }

// CanSimulate reports whether the sandbox can simulate deposits and advance the clock.
func (s *Server) CanSimulate() bool { return s.Env == identity.Sandbox && s.Sandbox != nil }

// responseWriter is a ResponseWriter that records what the request log needs.
type responseWriter struct {
	http.ResponseWriter
	ID     string
	route  string
	code   string
	status int
}

func (a *responseWriter) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the underlying ResponseWriter, for http.ResponseController.
func (a *responseWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// policy returns the Content-Security-Policy header. A page may load only its own files and send forms only to its
// own origin or to FormScheme. Only a page with LivePath, Checks or Sends may open connections, and only
// FrameAncestors may embed it.
func (v View) policy() string {
	forms, frames, connect := "'self'", "'none'", ""
	if v.FormScheme != "" {
		forms += " " + v.FormScheme + ":"
	}
	if len(v.FrameAncestors) > 0 {
		frames = strings.Join(v.FrameAncestors, " ")
	}
	if v.LivePath != "" || v.Checks || v.Sends {
		connect = "; connect-src 'self'"
	}
	return "default-src 'none'; style-src 'self'; font-src 'self'; script-src 'self'; img-src 'self' data:; form-action " +
		forms +
		"; frame-ancestors " + frames + "; base-uri 'none'" + connect
}

// Serves reports whether a page or a file has the path of a request.
func (s *Server) Serves(r *http.Request) bool {
	probe := *r
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		probe.Method = method
		if _, pattern := s.mux.Handler(&probe); pattern != "/" {
			return true
		}
	}
	return false
}

// ServeHTTP assigns a request ID, sets the security headers, recovers from panics, checks the origin and writes the
// log line.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := s.Now()
	random := uuid.New()
	a := &responseWriter{ResponseWriter: w, ID: "req_" + hex.EncodeToString(random[:])}
	h := w.Header()
	h.Set("X-Request-Id", a.ID)
	h.Set("Content-Security-Policy", View{}.policy())
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if strings.HasPrefix(s.BaseURL, "https://") {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
				panic(p)
			}
			s.Log.LogAttrs(r.Context(), slog.LevelError, "panic", slog.String("request_id", a.ID), slog.Any("panic", p),
				slog.String("stack", string(debug.Stack())))
			s.writeError(a, r, ErrInternal)
		}
		s.logRequest(r, a, s.Now().Sub(start))
	}()
	if err := s.origins.Check(r); err != nil {
		s.writeError(a, r, errCrossOrigin)
		return
	}
	s.mux.ServeHTTP(a, r)
}

// statusLeft is the status in logs and metrics of a request that the client canceled. It is never sent; nginx uses
// the same code.
const statusLeft = 499

// logRequest writes the log line of a request.
func (s *Server) logRequest(r *http.Request, a *responseWriter, took time.Duration) {
	if a.status == http.StatusServiceUnavailable && r.Context().Err() != nil {
		a.status, a.code = statusLeft, ""
	}
	if s.Observe != nil && a.route != "" {
		s.Observe(r.Context(), r.Method, a.route, a.status, took)
	}
	level := slog.LevelInfo
	if a.status == http.StatusInternalServerError {
		level = slog.LevelError
	}
	s.Log.LogAttrs(r.Context(), level, "page", slog.String("request_id", a.ID), slog.String("method", r.Method),
		slog.String("route", a.route),
		slog.Int("status", a.status), slog.String("code", a.code), slog.Duration("took", took))
}

// serve runs a route and writes the response.
func (s *Server) serve(w *responseWriter, r *http.Request, rt Route) {
	w.route = rt.Path
	if !validText(r.URL.Path) || !allValidText(r.URL.Query()) {
		s.writeError(w, r, ErrNoPage)
		return
	}
	c := s.newRequest(w, r)
	if rt.Public {
		w.Header().Set("Cache-Control", "no-cache")
	} else {
		w.Header().Set("X-Robots-Tag", "noindex")
	}
	if rt.Kind == Stream {
		s.stream(w, c, rt)
		return
	}
	v, err := s.run(w, c, rt)
	s.recordEvent(c, rt, v, err)
	if f, ok := apierr.As(err); ok && rt.FormPage != nil && len(f.Fields) > 0 {
		c.Problem, w.code = f, f.Code
		err = s.DB.Read(r.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
			v, err = c.admit(ctx, tx, rt, rt.FormPage)
			return err
		})
		v.status = int(f.Kind)
		if f.Kind == apierr.RateLimited {
			wait := f.Meta["retry_after"]
			if wait == "" {
				wait = strconv.Itoa(int(session.Window.Seconds()))
			}
			w.Header().Set("Retry-After", wait)
		}
	}
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	c.touchSession()
	c.touchStaffSession()
	if v.Cookie != nil {
		http.SetCookie(w, v.Cookie)
	}
	if v.External != "" {
		w.Header().Set("Location", v.External)
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	if v.keepsForm {
		if err := c.keepForm(); err != nil {
			s.writeError(w, r, err)
			return
		}
	} else if v.Redirect != "" && rt.Notice != "" && r.Method == http.MethodPost {
		http.SetCookie(w, s.preference(noticeCookie, noticeValue(rt.Notice, v.About), time.Minute))
	}
	if v.Redirect != "" {
		w.Header().Set("Location", c.URL(v.Redirect))
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	if v.File != nil {
		h := w.Header()
		h.Set("Content-Type", v.File.ContentType)
		if v.File.Immutable {
			h.Set("Cache-Control", immutable)
			h.Del("Vary") // it has no language
		} else if v.File.Name != "" {
			h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": v.File.Name}))
		}
		h.Set("Content-Length", strconv.Itoa(len(v.File.Data)))
		w.WriteHeader(http.StatusOK)
		if r.Method != http.MethodHead {
			_, _ = w.Write(v.File.Data) // the client may be gone
		}
		return
	}
	if k, err := r.Cookie(noticeCookie); err == nil && r.Method == http.MethodGet && !rt.Public {
		c.notice = c.noticeText(k.Value)
		http.SetCookie(w, s.preference(noticeCookie, "", 0))
	}
	s.writePage(w, c, v)
}

// maxAbout is the length of what a notice names, in characters.
const maxAbout = 100

// noticeValue returns the value of the cookie for a notice, which names about if that is not "".
func noticeValue(key, about string) string {
	if r := []rune(about); len(r) > maxAbout {
		about = string(r[:maxAbout])
	}
	return key + "~" + base64.RawURLEncoding.EncodeToString([]byte(about))
}

// noticeText returns the text of a notice from the value of its cookie, "" if there is none.
func (c *Request) noticeText(value string) string {
	key, encoded, _ := strings.Cut(value, "~")
	key = "notice." + key
	about, err := base64.RawURLEncoding.DecodeString(encoded)
	switch {
	case !c.HasText(key):
		return ""
	case err == nil && len(about) > 0 && c.HasText(key+".of"):
		return c.Text(key+".of", string(about))
	}
	return c.Text(key)
}

// The cookies of preferences and messages. They hold no secret.
const (
	languageCookie = "stipend_language"
	noticeCookie   = "stipend_notice"
)

// preference returns a cookie for a value that is not secret. An empty value deletes it.
func (s *Server) preference(name, value string, age time.Duration) *http.Cookie {
	if value == "" {
		age = -time.Second
	}
	return &http.Cookie{ //nolint:gosec // Secure unless a sandbox is on plain http
		Name: name, Value: value, Path: "/", HttpOnly: true, Secure: s.secure(), SameSite: http.SameSiteLaxMode,
		MaxAge: int(age.Seconds()),
	}
}

// LanguageCookie returns the cookie that keeps the language that the reader chose in this browser, "" for none.
func (s *Server) LanguageCookie(tag string) *http.Cookie {
	return s.preference(languageCookie, tag, 365*24*time.Hour)
}

// run reads the form and runs the handler in the transaction that the kind of the route requires.
func (s *Server) run(w *responseWriter, c *Request, rt Route) (v View, err error) {
	fn := func(ctx context.Context, tx *db.Tx) error {
		v, err = c.admit(ctx, tx, rt, rt.Handler)
		return err
	}
	if rt.Kind == ReadOnlyForm || rt.Kind == Write || rt.Kind == MultiStep {
		if rt.Access == Anyone { // limited before anything is read, hashed or written
			if err := s.AnonymousLimiter.Allow(s.Now(), session.Network(c.RemoteAddr()).String(), http.Header{}); err != nil {
				return v, err
			}
			if rt.Scarce {
				if err := s.scarce.Allow(s.Now(), session.Network(c.RemoteAddr()).String(), http.Header{}); err != nil {
					return v, err
				}
			}
		}
		if rt.MaxBody > FormLimit { // check access before accepting a large body
			v, err := c.admit(c.HTTP.Context(), nil, rt, func(context.Context, *db.Tx, *Request) (View, error) {
				return View{}, nil
			})
			if err != nil || v.Redirect != "" {
				return v, err
			}
			release, ok := s.Bodies.Acquire(w, c.HTTP, s.Now, rt.MaxBody,
				c.account(), session.Network(c.RemoteAddr()).String())
			if !ok {
				return v, errRetryLater
			}
			defer release()
		}
		if err := c.readForm(w, max(rt.MaxBody, FormLimit)); err != nil {
			return v, err
		}
	}
	switch rt.Kind {
	case Read, ReadOnlyForm:
		err = s.DB.Read(c.HTTP.Context(), fn)
	case Write:
		err = s.DB.Write(c.HTTP.Context(), fn)
	default:
		err = fn(c.HTTP.Context(), nil)
	}
	return v, err
}

// account returns the ID of the company that the user acts for, of a user without one, or "" if nobody is signed in.
func (c *Request) account() string {
	if c.Session == nil {
		return ""
	}
	return cmp.Or(c.Session.Company.ID, c.Session.User.ID)
}

// newRequest returns the Request of r, in the reader's language.
func (s *Server) newRequest(w *responseWriter, r *http.Request) *Request {
	c := &Request{Server: s, HTTP: r, ID: w.ID,
		Reader: texts.Reader{Language: s.offer(chooseLanguage(r)), Service: s.Operator.Name}}
	c.offered = s.Operator.Languages
	if k, err := r.Cookie(languageCookie); c.Language.Explicit && (err != nil || k.Value != c.Language.Tag) {
		http.SetCookie(w, s.LanguageCookie(c.Language.Tag))
	}
	w.Header().Set("Content-Language", c.Language.Tag)
	w.Header().Add("Vary", "Accept-Language, Cookie")
	return c
}

// URL returns path with the lang parameter, if the reader chose the language by that parameter.
func (c *Request) URL(path string) string {
	if !c.Language.Explicit {
		return path
	}
	if strings.Contains(path, "?") {
		return path + "&lang=" + c.Language.Tag
	}
	return path + "?lang=" + c.Language.Tag
}

// home returns the path of the page to which a form belongs: the form's own path, or the nearest parent path with a
// page. For a GET request it returns "", which means the current path.
func (c *Request) home() string {
	if c.HTTP.Method == http.MethodGet || c.HTTP.Method == http.MethodHead {
		return ""
	}
	above := func(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }
	at, route := c.HTTP.URL.EscapedPath(), strings.TrimPrefix(c.HTTP.Pattern, c.HTTP.Method+" ")
	for ; !c.pages[route]; at, route = above(at), above(route) {
		if route == "" { // no parent page, or rejected before routing
			return "/"
		}
	}
	return at
}

// writePage renders a page and sends it. If rendering fails, nothing of the page is sent.
func (s *Server) writePage(w *responseWriter, c *Request, v View) {
	body, err := render(c, v)
	if err != nil {
		s.Log.Error("rendering a page failed", slog.String("request_id", w.ID), slog.String("page", v.Template),
			slog.String("error", err.Error()))
		http.Error(w, ErrInternal.Detail+" "+w.ID, http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", c.Language.Tag)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Content-Security-Policy", v.policy())
	if len(v.FrameAncestors) > 0 {
		h.Del("X-Frame-Options") // cannot list origins
	}
	if v.status == 0 {
		v.status = http.StatusOK
	}
	w.WriteHeader(v.status)
	if c.HTTP.Method != http.MethodHead {
		_, _ = w.Write(body) //nolint:gosec // escaped by html/template; the client may be gone
	}
}
