// Package ui serves the pages: routing, admission, forms, templates, texts, and the components that pages share.
//
// A page is rendered on the server, in one read-only transaction, and works without JavaScript. A form is posted into one
// transaction, and answered by a redirect, or by the same page with the problems beside the fields. Every page gets a
// language, security headers, a check of its origin, authorization at its [Route], error pages with the request ID, and one
// log line without the path, which may hold a token.
//
// The package owns no table and no business rule.
package ui

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/ratelimit"
	"github.com/stipend/stipend/internal/webhook/delivery"
	"github.com/stipend/stipend/internal/withdrawal"
)

// Deps is what the face stands on. DB, Env and Now are required.
type Deps struct {
	DB *db.DB
	// Env is the environment; a sandbox says so on every page.
	Env identity.Environment
	// BaseURL is where browsers find the pages, AuthURL where apps send them for consent, which may be another name for the
	// same. Only forms of these origins are taken.
	BaseURL, AuthURL string
	// Payroll makes and reads pay runs.
	Payroll *payroll.Service
	// Claims are paid at checkouts.
	Claims *claim.Service
	// Operators are the house's own people. Nil: they have no pages here.
	Operators *backoffice.Service
	// Withdrawals take companies' money out.
	Withdrawals *withdrawal.Service
	// Webhooks is what endpoints are registered with.
	Webhooks delivery.Setup
	// Sealer seals personal data at rest.
	Sealer *identity.Sealer
	// KYC has its cases decided on pages, where the environment is a sandbox. Nil: there are no such pages.
	KYC *kyc.Service
	// Contract is what companies start with that sign up by themselves: their fees. Who they are is theirs to say.
	Contract identity.NewCompany
	// SeededCompanies are those of a sandbox whose passwords and keys everybody knows. A second factor would protect nothing
	// there, so none is asked for.
	SeededCompanies []string
	// Sandbox moves the simulated world. Nil: there are no such forms, as in production.
	Sandbox Sandbox
	// Bodies is the room for large forms, which the faces of a process share. Nil: an own one.
	Bodies *ratelimit.BodyBudget
	// Done ends what lasts, such as the pages' live parts, when the process stops. Nil never does.
	Done <-chan struct{}
	// Now is the clock of the log and of people's authenticators, never of the business.
	Now func() time.Time
	// Observe is told of every request that a route answered, for metrics.
	Observe func(method, route string, status int, took time.Duration)
	Log     *slog.Logger
}

// Sandbox plays the outside world for a company that tries the service: the payer, the chain and the clock.
type Sandbox interface {
	// Deposit pays a payroll of the principal's company on the simulated chain. An amount of "" lets the kind decide.
	Deposit(ctx context.Context, by identity.Principal, objectID, network, kind, amount string) (txid string, err error)
	// Advance moves the service's clock forward and returns the new time.
	Advance(ctx context.Context, by time.Duration) (time.Time, error)
}

// New makes the face.
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
	s := &Server{Deps: d, mux: http.NewServeMux(), pages: map[string]bool{}, origins: http.NewCrossOriginProtection(), streams: streams{of: map[netip.Addr]int{}}, polls: ratelimit.New(1, 60),
		PasswordSlots: make(chan struct{}, MaxPasswordChecks), StaffPasswordSlots: make(chan struct{}, maxStaffPasswordChecks), AnonymousLimiter: ratelimit.New(2, 120)}
	for _, text := range []string{d.BaseURL, d.AuthURL} {
		if u, err := url.Parse(text); err == nil && text != "" {
			// Behind a proxy the Host may be another than the browser's.
			_ = s.origins.AddTrustedOrigin(u.Scheme + "://" + u.Host) // a URL that is none was refused at start
		}
	}
	for _, rt := range routes {
		if rt.NeedsKYC && s.KYC == nil || rt.SandboxOnly && s.Env != identity.Sandbox || rt.DecidesKYC && !s.CanDecideKYC() || rt.Simulated && !s.CanSimulate() || rt.Staff && s.Operators == nil {
			continue
		}
		if rt.Access == noAccess {
			panic("web: " + rt.Method + " " + rt.Path + " does not say who may come")
		}
		s.pages[rt.Path] = s.pages[rt.Path] || rt.Method == http.MethodGet
		s.mux.HandleFunc(rt.Method+" "+rt.Path, func(w http.ResponseWriter, r *http.Request) { s.serve(w.(*answer), r, rt) })
	}
	s.mux.HandleFunc("GET /static/{name}", func(w http.ResponseWriter, r *http.Request) { s.serveAsset(w.(*answer), r) })
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.writeError(w.(*answer), r, s.notFoundError(r)) })
	return s
}

// Kind is how a route uses the database.
type Kind int

// The kinds of routes.
const (
	Plain        Kind = iota // not at all
	Read                     // one read-only snapshot
	ReadOnlyForm             // one read-only snapshot; a form that changes nothing
	Write                    // one transaction; a form
	Stream                   // one snapshot after another: a part of a page, sent again whenever it has changed
	MultiStep                // a form, whose handler makes its transactions itself, because something slow stands between them
)

// Access is who may use a route. A form of a signed-in user must also carry that user's form token.
type Access int

// The levels of access, from none to the most.
const (
	noAccess      Access = iota // not declared; refused at start
	Anyone                      // without signing in, too
	SignedIn                    // any signed-in user
	Member                      // who acts for a company: owners, administrators, developers and viewers
	Manager                     // all members but viewers
	Administrator               // owners and administrators: may change members and approve payments
	StaffOnly                   // the operator's staff
)

// Factor is what a route asks of the second factor. Acting for a seeded company needs none.
type Factor int

// The requirements of a second factor.
const (
	PasswordOnly Factor = iota
	ProvenFactor        // used in this session
	FreshFactor         // used within session.Fresh: for money and credentials
)

// Route is one line of the table.
type Route struct {
	Method, Path string
	Kind         Kind
	Access       Access
	Handler      handler
	// factor is what the route asks of a second factor, besides the password.
	Factor Factor
	// enrols marks what leads to a second factor: who has none gives their password anew, or has just signed in.
	Enrolls bool
	// again shows the page of a form that was refused, with what was wrong in it. A write without it ends on an error page.
	FormPage handler
	// personal marks pages about somebody: nobody keeps a copy of them.
	Private bool
	// limit bounds what is posted, in bytes; 0 is formLimit. Only a form with a limit of its own may carry files.
	MaxBody int64
	// sandbox marks pages that are nowhere else: whoever reaches a sandbox may do there what is for the provider otherwise.
	SandboxOnly bool
	// decides marks pages that need Deps.KYC.
	DecidesKYC bool
	// verifies marks pages that need Deps.KYC, whoever decides.
	NeedsKYC bool
	// simulated marks forms that move the simulated world.
	Simulated bool
	// house marks the house's own pages, which need Deps.Operators.
	Staff bool
}

// handler does what a route is for. It may run more than once, and touches nothing but its transaction, which is nil for
// a plain route.
type handler func(ctx context.Context, tx *db.Tx, c *Request) (View, error)

// View is what is to be shown: a page, or another address.
type View struct {
	Template       string // a file of templates/, without .html
	part           string // the template of a part of it, "" for the whole
	Title          string
	Data           any
	status         int    // 0 is 200
	Redirect       string // a path of this face; the rest is then empty
	External       string // an app's registered address; the rest is then empty
	File           *File  // to be kept by the reader; the rest is then empty
	Cookie         *http.Cookie
	Wide           bool     // it has tables
	Bare           bool     // it stands within another page
	FrameAncestors []string // the origins whose pages may show it within them
	LivePath       string   // the path of the stream that keeps a part of it up to date
	FormScheme     string   // a scheme to which a form of the page may lead on, besides home
}

// File is an answer that is no page.
type File struct {
	Name, ContentType string
	Data              []byte
}

// Request is what a handler knows of its request.
type Request struct {
	*Server
	HTTP     *http.Request
	ID       string // of the request
	Language Language
	Form     url.Values          // what was posted
	Problem  *apierr.Fault       // what was wrong with it
	Labels   map[string]string   // of fields that have none of their own in the catalogs
	Session  *session.Session    // who is signed in, once that was looked up
	Staff    *backoffice.Session // who of the house is, on its own pages
	Time     time.Time           // of the transaction that did
}

// Server is the face at work.
type Server struct {
	Deps
	mux     *http.ServeMux
	pages   map[string]bool // the paths of the table at which there is one
	origins *http.CrossOriginProtection
	// A place for each password that is being checked, of everybody and of operators.
	PasswordSlots, StaffPasswordSlots chan struct{}
	AnonymousLimiter                  *ratelimit.Limiter // of the forms of anybody, by network
	streams                           streams            // the live parts of pages
	polls                             *ratelimit.Limiter // of the live parts that are asked for again and again
}

// CanDecideKYC says whether people decide verifications here.
func (s *Server) CanDecideKYC() bool { return s.Env == identity.Sandbox && s.KYC != nil }

// CanSimulate says whether the world can be moved here.
func (s *Server) CanSimulate() bool { return s.Env == identity.Sandbox && s.Sandbox != nil }

// What this face itself refuses.
var (
	errNoPage     = apierr.NotFoundErr.Detailf("There is no such page.")
	errMethod     = apierr.New(http.StatusMethodNotAllowed, "method_not_allowed", "This address does not take that method.")
	errForeign    = apierr.New(apierr.Forbidden, "cross_origin", "This form was sent from another site.")
	ErrForm       = apierr.New(apierr.BadRequest, "malformed_form", "The form could not be read.")
	errTooLarge   = apierr.New(apierr.TooLarge, "payload_too_large", "The form is too large.")
	errMediaType  = apierr.New(apierr.Unsupported, "unsupported_media_type", "Send the form as application/x-www-form-urlencoded.")
	errRetryLater = apierr.New(apierr.Unavailable, "retry_later", "The service could not finish in time. Try again.")
	ErrInternal   = apierr.New(apierr.Internal, "internal", "Something went wrong in the service. It has been noted under this request id.")
)

// FormLimit bounds what is posted, in bytes.
const FormLimit = 64 << 10

// answer is the ResponseWriter of a request, with what the log wants to know of it.
type answer struct {
	http.ResponseWriter
	ID     string
	route  string
	code   string
	status int
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// policy lets a page load its own files, send its forms home or also where it says, hear from home where a part of it is kept up to
// date, and stand within other pages only where it names them.
func (v View) policy() string {
	forms, frames, connect := "'self'", "'none'", ""
	if v.FormScheme != "" {
		forms += " " + v.FormScheme + ":"
	}
	if len(v.FrameAncestors) > 0 {
		frames = strings.Join(v.FrameAncestors, " ")
	}
	if v.LivePath != "" {
		connect = "; connect-src 'self'"
	}
	return "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; form-action " + forms +
		"; frame-ancestors " + frames + "; base-uri 'none'" + connect
}

// ServeHTTP gives every request its id, its headers and a net under it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := s.Now()
	random := uuid.New()
	a := &answer{ResponseWriter: w, ID: "req_" + hex.EncodeToString(random[:])}
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
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so, too
				panic(p)
			}
			s.Log.LogAttrs(r.Context(), slog.LevelError, "panic", slog.String("request_id", a.ID), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			s.writeError(a, r, ErrInternal)
		}
		s.logRequest(r, a, s.Now().Sub(start))
	}()
	if err := s.origins.Check(r); err != nil {
		s.writeError(a, r, errForeign)
		return
	}
	s.mux.ServeHTTP(a, r)
}

// statusLeft stands in log and metrics, where others use it too, for a reader who left before there was an answer. Nobody saw it.
const statusLeft = 499

// logRequest writes the one log line of a request.
func (s *Server) logRequest(r *http.Request, a *answer, took time.Duration) {
	if a.status == http.StatusServiceUnavailable && r.Context().Err() != nil {
		a.status, a.code = statusLeft, ""
	}
	if s.Observe != nil && a.route != "" {
		s.Observe(r.Method, a.route, a.status, took)
	}
	level := slog.LevelInfo
	if a.status >= 500 {
		level = slog.LevelError
	}
	s.Log.LogAttrs(r.Context(), level, "page", slog.String("request_id", a.ID), slog.String("method", r.Method), slog.String("route", a.route),
		slog.Int("status", a.status), slog.String("code", a.code), slog.Duration("took", took))
}

// serve makes the way of a request through a route.
func (s *Server) serve(w *answer, r *http.Request, rt Route) {
	w.route = rt.Path
	if !validText(r.URL.Path) || !allValidText(r.URL.Query()) {
		s.writeError(w, r, errNoPage)
		return
	}
	c := s.call(w, r)
	if rt.Private {
		w.Header().Set("X-Robots-Tag", "noindex")
	} else {
		w.Header().Set("Cache-Control", "no-cache")
	}
	if rt.Kind == Stream {
		s.stream(w, c, rt)
		return
	}
	v, err := s.run(w, c, rt)
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
	if v.Redirect != "" {
		w.Header().Set("Location", c.URL(v.Redirect))
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	if v.File != nil {
		h := w.Header()
		h.Set("Content-Type", v.File.ContentType)
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": v.File.Name}))
		h.Set("Content-Length", strconv.Itoa(len(v.File.Data)))
		w.WriteHeader(http.StatusOK)
		if r.Method != http.MethodHead {
			_, _ = w.Write(v.File.Data) // a reader that left needs no file
		}
		return
	}
	s.writePage(w, c, v)
}

// run runs the handler as its kind wants it.
func (s *Server) run(w *answer, c *Request, rt Route) (v View, err error) {
	fn := func(ctx context.Context, tx *db.Tx) error {
		v, err = c.admit(ctx, tx, rt, rt.Handler)
		return err
	}
	if rt.Kind == ReadOnlyForm || rt.Kind == Write || rt.Kind == MultiStep {
		if rt.Access == Anyone { // before anything is read, hashed or written
			if err := s.AnonymousLimiter.Allow(s.Now(), session.Network(c.RemoteAddr()).String(), http.Header{}); err != nil {
				return v, err
			}
		}
		if rt.MaxBody > FormLimit { // who may not come sends nothing large, either
			v, err := c.admit(c.HTTP.Context(), nil, rt, func(context.Context, *db.Tx, *Request) (View, error) { return View{}, nil })
			if err != nil || v.Redirect != "" {
				return v, err
			}
			leave, ok := s.Bodies.Acquire(w, c.HTTP, s.Now(), rt.MaxBody)
			if !ok {
				return v, errRetryLater
			}
			defer leave()
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

// call begins a call in the reader's language.
func (s *Server) call(w *answer, r *http.Request) *Request {
	c := &Request{Server: s, HTTP: r, ID: w.ID, Language: chooseLanguage(r)}
	w.Header().Set("Content-Language", c.Language.Tag)
	w.Header().Add("Vary", "Accept-Language")
	return c
}

// readForm reads what was posted, up to a limit. Files stay in memory.
func (c *Request) readForm(w *answer, limit int64) error {
	kind, _, err := mime.ParseMediaType(c.HTTP.Header.Get("Content-Type"))
	withFiles := kind == "multipart/form-data" && limit > FormLimit
	if err != nil || kind != "application/x-www-form-urlencoded" && !withFiles {
		return errMediaType
	}
	c.HTTP.Body = http.MaxBytesReader(w.ResponseWriter, c.HTTP.Body, limit)
	read := c.HTTP.ParseForm
	if withFiles {
		read = func() error { return c.HTTP.ParseMultipartForm(limit) } //nolint:gosec // the body is bounded
	}
	if err := read(); err != nil {
		var over *http.MaxBytesError
		if errors.As(err, &over) {
			return errTooLarge
		}
		return ErrForm
	}
	if !allValidText(c.HTTP.PostForm) {
		return ErrForm
	}
	c.Form = c.HTTP.PostForm
	return nil
}

// validText says whether both databases can hold a text.
func validText(text string) bool { return utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 }

func allValidText(values url.Values) bool {
	for name, all := range values {
		if !validText(name) || slices.ContainsFunc(all, func(text string) bool { return !validText(text) }) {
			return false
		}
	}
	return true
}

// Upload is a file that was posted, nil without one.
func (c *Request) Upload(name string) ([]byte, error) {
	if c.HTTP.MultipartForm == nil || len(c.HTTP.MultipartForm.File[name]) == 0 {
		return nil, nil
	}
	f, err := c.HTTP.MultipartForm.File[name][0].Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f) // all of it is in memory already
}

// Picture is a file that was posted, in base64, "" without one. It can be had once: the form lets go of it, for it may wait long
// for its turn.
func (c *Request) Picture(name string) (string, error) {
	if c.HTTP.MultipartForm == nil || len(c.HTTP.MultipartForm.File[name]) == 0 {
		return "", nil
	}
	posted := c.HTTP.MultipartForm.File[name][0]
	delete(c.HTTP.MultipartForm.File, name)
	f, err := posted.Open()
	if err != nil {
		return "", err
	}
	defer f.Close()
	var text strings.Builder
	text.Grow(base64.StdEncoding.EncodedLen(int(posted.Size)))
	w := base64.NewEncoder(base64.StdEncoding, &text)
	if _, err := io.Copy(w, f); err != nil {
		return "", err
	}
	err = w.Close() // which writes the last bytes
	return text.String(), err
}

// URL is a path of this face, in the language that was asked for by name.
func (c *Request) URL(path string) string {
	if !c.Language.Explicit {
		return path
	}
	if strings.Contains(path, "?") {
		return path + "&lang=" + c.Language.Tag
	}
	return path + "?lang=" + c.Language.Tag
}

// home is where the page of an answer is to be found again: "" for where it is, and for what is answered to a form the path of the form, or the
// nearest above it, at which there is a page.
func (c *Request) home() string {
	if c.HTTP.Method == http.MethodGet || c.HTTP.Method == http.MethodHead {
		return ""
	}
	above := func(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }
	at, route := c.HTTP.URL.EscapedPath(), strings.TrimPrefix(c.HTTP.Pattern, c.HTTP.Method+" ")
	for ; !c.pages[route]; at, route = above(at), above(route) {
		if route == "" { // nothing of the table is above it, or it was refused before the table was asked
			return "/"
		}
	}
	return at
}

// notFoundError says why no route took a request.
func (s *Server) notFoundError(r *http.Request) error {
	probe := *r
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		probe.Method = method
		if _, pattern := s.mux.Handler(&probe); pattern != "/" {
			return errMethod.Set("allow", method)
		}
	}
	return errNoPage
}

// writeError answers with an error page. It does nothing once an answer has begun.
func (s *Server) writeError(w *answer, r *http.Request, err error) {
	if w.status != 0 {
		return
	}
	f, ok := apierr.As(err)
	switch {
	case ok:
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		f = errRetryLater
	default:
		f = ErrInternal
		s.Log.Error("internal error", slog.String("request_id", w.ID), slog.String("route", w.route), slog.String("error", err.Error()))
	}
	w.code = f.Code
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Robots-Tag", "noindex")
	if allow := f.Meta["allow"]; allow != "" {
		h.Set("Allow", allow)
	}
	if wait := f.Meta["retry_after"]; wait != "" {
		h.Set("Retry-After", wait)
	} else if f.Kind == apierr.Unavailable {
		h.Set("Retry-After", "5")
	}
	c := s.call(w, r)
	status := int(f.Kind)
	if status < 400 || status > 599 {
		status = http.StatusInternalServerError
	}
	group := "error." + strconv.Itoa(status)
	if !c.HasText(group + ".title") {
		group = "error.other"
	}
	s.writePage(w, c, View{Template: "error", Title: c.Text(group + ".title"), status: status, Data: errorPage{
		Fault: f, What: c.Localize(f.Code, f.Detail), Do: c.Text(group + ".do"), RequestID: w.ID,
	}})
}

type errorPage struct {
	Fault     *apierr.Fault
	What      LocalizedText
	Do        string
	RequestID string
}

// writePage sends a page, whole or not at all.
func (s *Server) writePage(w *answer, c *Request, v View) {
	body, err := render(c, v)
	if err != nil {
		s.Log.Error("a page cannot be made", slog.String("request_id", w.ID), slog.String("page", v.Template), slog.String("error", err.Error()))
		http.Error(w, ErrInternal.Detail+" "+w.ID, http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Content-Security-Policy", v.policy())
	if len(v.FrameAncestors) > 0 {
		h.Del("X-Frame-Options") // which cannot name them
	}
	if v.status == 0 {
		v.status = http.StatusOK
	}
	w.WriteHeader(v.status)
	if c.HTTP.Method != http.MethodHead {
		_, _ = w.Write(body) //nolint:gosec // html/template has escaped it; and a reader that left needs no page
	}
}

// serveAsset sends an embedded file. Its name changes with its content, so browsers may keep it for good.
func (s *Server) serveAsset(w *answer, r *http.Request) {
	w.route = "/static/{name}"
	i := slices.IndexFunc(assets, func(a asset) bool { return a.url == r.URL.Path })
	if i < 0 {
		s.writeError(w, r, errNoPage)
		return
	}
	h := w.Header()
	h.Set("Content-Type", assets[i].contentType)
	h.Set("Content-Length", strconv.Itoa(len(assets[i].data)))
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(assets[i].data) // a reader that left needs no file
	}
}
