// Package web is the HTML face: the pages that people meet without being partners who write programs.
//
// routes.go is all of it as one table. A page is made on the server, in one read-only transaction, and works without
// JavaScript; a form is posted into one transaction, and answered by a redirect, or by the same page with what was wrong
// beside the fields. What every page gets alike stands here: language, headers that let nothing foreign in, refusal of posts
// from other sites, who may come at all, error pages with the request id, and one line in the log without the path, which may
// hold a token.
//
// The package owns no table and no rule of the business. It never imports api, nor api it.
package web

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
	Bodies *ratelimit.Bodies
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
func New(d Deps) http.Handler {
	if d.DB == nil || d.Env == "" || d.Now == nil {
		panic("web: Deps needs DB, Env and Now")
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Bodies == nil {
		d.Bodies = ratelimit.NewBodies()
	}
	s := &server{Deps: d, mux: http.NewServeMux(), pages: map[string]bool{}, origins: http.NewCrossOriginProtection(), streams: streams{of: map[netip.Addr]int{}}, polls: ratelimit.New(1, 60),
		hashing: make(chan struct{}, hashesAtOnce), hashingOfHouse: make(chan struct{}, hashesOfHouseAtOnce), knocks: ratelimit.New(2, 120)}
	for _, text := range []string{d.BaseURL, d.AuthURL} {
		if u, err := url.Parse(text); err == nil && text != "" {
			// Behind a proxy the Host may be another than the browser's.
			_ = s.origins.AddTrustedOrigin(u.Scheme + "://" + u.Host) // a URL that is none was refused at start
		}
	}
	for _, rt := range routes {
		if rt.verifies && s.KYC == nil || rt.sandbox && s.Env != identity.Sandbox || rt.decides && !s.decides() || rt.simulated && !s.simulates() || rt.house && s.Operators == nil {
			continue
		}
		if rt.access == nobody {
			panic("web: " + rt.method + " " + rt.path + " does not say who may come")
		}
		s.pages[rt.path] = s.pages[rt.path] || rt.method == http.MethodGet
		s.mux.HandleFunc(rt.method+" "+rt.path, func(w http.ResponseWriter, r *http.Request) { s.serve(w.(*answer), r, rt) })
	}
	s.mux.HandleFunc("GET /static/{name}", func(w http.ResponseWriter, r *http.Request) { s.serveAsset(w.(*answer), r) })
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.refuse(w.(*answer), r, s.strayed(r)) })
	return s
}

// How a route meets the database.
type kind int

const (
	plain  kind = iota // not at all
	read               // one read-only snapshot
	look               // one read-only snapshot; a form that changes nothing
	write              // one transaction; a form
	stream             // one snapshot after another: a part of a page, sent again whenever it has changed
	steps              // a form, whose handler makes its transactions itself, because something slow stands between them
)

// Who may come to a route. A form of anybody who is signed in must also prove that it was made for them.
type access int

const (
	nobody        access = iota // who may come was forgotten to say
	anyone                      // also who is not signed in
	person                      // somebody who is signed in
	member                      // and acts for a company: owners, administrators, developers and viewers
	manager                     // in a role that may change what programs do for it: all but viewers
	administrator               // in one that may change who acts for it and approve that money moves: owners and administrators
	operators                   // the house's own people, whom no company and no role makes
)

// What a route asks of a second factor. Acting for a seeded company needs none.
type factor int

const (
	passwordOnly factor = iota
	provenFactor        // one that was shown in this session
	freshFactor         // one that was shown within session.Fresh: for money, and for the way into the account
)

// route is one line of the table.
type route struct {
	method, path string
	kind         kind
	access       access
	handler      handler
	// factor is what the route asks of a second factor, besides the password.
	factor factor
	// enrols marks what leads to a second factor: who has none gives their password anew, or has just signed in.
	enrols bool
	// again shows the page of a form that was refused, with what was wrong in it. A write without it ends on an error page.
	again handler
	// personal marks pages about somebody: nobody keeps a copy of them.
	personal bool
	// limit bounds what is posted, in bytes; 0 is formLimit. Only a form with a limit of its own may carry files.
	limit int64
	// sandbox marks pages that are nowhere else: whoever reaches a sandbox may do there what is for the provider otherwise.
	sandbox bool
	// decides marks pages that need Deps.KYC.
	decides bool
	// verifies marks pages that need Deps.KYC, whoever decides.
	verifies bool
	// simulated marks forms that move the simulated world.
	simulated bool
	// house marks the house's own pages, which need Deps.Operators.
	house bool
}

// handler does what a route is for. It may run more than once, and touches nothing but its transaction, which is nil for
// a plain route.
type handler func(ctx context.Context, tx *db.Tx, c *call) (view, error)

// view is what is to be shown: a page, or another address.
type view struct {
	page     string // a file of templates/, without .html
	part     string // the template of a part of it, "" for the whole
	title    string
	data     any
	status   int    // 0 is 200
	redirect string // a path of this face; the rest is then empty
	away     string // an app's registered address; the rest is then empty
	file     *file  // to be kept by the reader; the rest is then empty
	cookie   *http.Cookie
	wide     bool     // it has tables
	bare     bool     // it stands within another page
	frames   []string // the origins whose pages may show it within them
	live     string   // the path of the stream that keeps a part of it up to date
	formsTo  string   // a scheme to which a form of the page may lead on, besides home
}

// file is an answer that is no page.
type file struct {
	name, contentType string
	data              []byte
}

// call is what a handler knows of its request.
type call struct {
	*server
	r        *http.Request
	id       string // of the request
	lang     language
	form     url.Values          // what was posted
	problem  *apierr.Fault       // what was wrong with it
	labels   map[string]string   // of fields that have none of their own in the catalogs
	session  *session.Session    // who is signed in, once that was looked up
	operator *backoffice.Session // who of the house is, on its own pages
	now      time.Time           // of the transaction that did
}

// server is the face at work.
type server struct {
	Deps
	mux     *http.ServeMux
	pages   map[string]bool // the paths of the table at which there is one
	origins *http.CrossOriginProtection
	// A place for each password that is being checked, of everybody and of operators.
	hashing, hashingOfHouse chan struct{}
	knocks                  *ratelimit.Limiter // of the forms of anybody, by network
	streams                 streams            // the live parts of pages
	polls                   *ratelimit.Limiter // of the live parts that are asked for again and again
}

// decides says whether people decide verifications here.
func (s *server) decides() bool { return s.Env == identity.Sandbox && s.KYC != nil }

// simulates says whether the world can be moved here.
func (s *server) simulates() bool { return s.Env == identity.Sandbox && s.Sandbox != nil }

// What this face itself refuses.
var (
	errNoPage     = apierr.NotFoundErr.Detailf("There is no such page.")
	errMethod     = apierr.New(http.StatusMethodNotAllowed, "method_not_allowed", "This address does not take that method.")
	errForeign    = apierr.New(apierr.Forbidden, "cross_origin", "This form was sent from another site.")
	errForm       = apierr.New(apierr.BadRequest, "malformed_form", "The form could not be read.")
	errTooLarge   = apierr.New(apierr.TooLarge, "payload_too_large", "The form is too large.")
	errMediaType  = apierr.New(apierr.Unsupported, "unsupported_media_type", "Send the form as application/x-www-form-urlencoded.")
	errRetryLater = apierr.New(apierr.Unavailable, "retry_later", "The service could not finish in time. Try again.")
	errInternal   = apierr.New(apierr.Internal, "internal", "Something went wrong in the service. It has been noted under this request id.")
)

// formLimit bounds what is posted, in bytes.
const formLimit = 64 << 10

// answer is the ResponseWriter of a request, with what the log wants to know of it.
type answer struct {
	http.ResponseWriter
	id     string
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
func (v view) policy() string {
	forms, frames, connect := "'self'", "'none'", ""
	if v.formsTo != "" {
		forms += " " + v.formsTo + ":"
	}
	if len(v.frames) > 0 {
		frames = strings.Join(v.frames, " ")
	}
	if v.live != "" {
		connect = "; connect-src 'self'"
	}
	return "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; form-action " + forms +
		"; frame-ancestors " + frames + "; base-uri 'none'" + connect
}

// ServeHTTP gives every request its id, its headers and a net under it.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := s.Now()
	random := uuid.New()
	a := &answer{ResponseWriter: w, id: "req_" + hex.EncodeToString(random[:])}
	h := w.Header()
	h.Set("X-Request-Id", a.id)
	h.Set("Content-Security-Policy", view{}.policy())
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
			s.Log.LogAttrs(r.Context(), slog.LevelError, "panic", slog.String("request_id", a.id), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			s.refuse(a, r, errInternal)
		}
		s.note(r, a, s.Now().Sub(start))
	}()
	if err := s.origins.Check(r); err != nil {
		s.refuse(a, r, errForeign)
		return
	}
	s.mux.ServeHTTP(a, r)
}

// statusLeft stands in log and metrics, where others use it too, for a reader who left before there was an answer. Nobody saw it.
const statusLeft = 499

// note writes the one log line of a request.
func (s *server) note(r *http.Request, a *answer, took time.Duration) {
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
	s.Log.LogAttrs(r.Context(), level, "page", slog.String("request_id", a.id), slog.String("method", r.Method), slog.String("route", a.route),
		slog.Int("status", a.status), slog.String("code", a.code), slog.Duration("took", took))
}

// serve makes the way of a request through a route.
func (s *server) serve(w *answer, r *http.Request, rt route) {
	w.route = rt.path
	if !holdable(r.URL.Path) || !allHoldable(r.URL.Query()) {
		s.refuse(w, r, errNoPage)
		return
	}
	c := s.call(w, r)
	if rt.personal {
		w.Header().Set("X-Robots-Tag", "noindex")
	} else {
		w.Header().Set("Cache-Control", "no-cache")
	}
	if rt.kind == stream {
		s.stream(w, c, rt)
		return
	}
	v, err := s.run(w, c, rt)
	if f, ok := apierr.As(err); ok && rt.again != nil && len(f.Fields) > 0 {
		c.problem, w.code = f, f.Code
		err = s.DB.Read(r.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
			v, err = c.admitted(ctx, tx, rt, rt.again)
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
		s.refuse(w, r, err)
		return
	}
	c.keepAlive()
	c.keepOperatorAlive()
	if v.cookie != nil {
		http.SetCookie(w, v.cookie)
	}
	if v.away != "" {
		w.Header().Set("Location", v.away)
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	if v.redirect != "" {
		w.Header().Set("Location", c.url(v.redirect))
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	if v.file != nil {
		h := w.Header()
		h.Set("Content-Type", v.file.contentType)
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": v.file.name}))
		h.Set("Content-Length", strconv.Itoa(len(v.file.data)))
		w.WriteHeader(http.StatusOK)
		if r.Method != http.MethodHead {
			_, _ = w.Write(v.file.data) // a reader that left needs no file
		}
		return
	}
	s.show(w, c, v)
}

// run runs the handler as its kind wants it.
func (s *server) run(w *answer, c *call, rt route) (v view, err error) {
	fn := func(ctx context.Context, tx *db.Tx) error {
		v, err = c.admitted(ctx, tx, rt, rt.handler)
		return err
	}
	if rt.kind == look || rt.kind == write || rt.kind == steps {
		if rt.access == anyone { // before anything is read, hashed or written
			if err := s.knocks.Take(s.Now(), session.Network(c.from()).String(), http.Header{}); err != nil {
				return v, err
			}
		}
		if rt.limit > formLimit { // who may not come sends nothing large, either
			v, err := c.admitted(c.r.Context(), nil, rt, func(context.Context, *db.Tx, *call) (view, error) { return view{}, nil })
			if err != nil || v.redirect != "" {
				return v, err
			}
			leave, ok := s.Bodies.Enter(w, c.r, s.Now(), rt.limit)
			if !ok {
				return v, errRetryLater
			}
			defer leave()
		}
		if err := c.readForm(w, max(rt.limit, formLimit)); err != nil {
			return v, err
		}
	}
	switch rt.kind {
	case read, look:
		err = s.DB.Read(c.r.Context(), fn)
	case write:
		err = s.DB.Write(c.r.Context(), fn)
	default:
		err = fn(c.r.Context(), nil)
	}
	return v, err
}

// call begins a call in the reader's language.
func (s *server) call(w *answer, r *http.Request) *call {
	c := &call{server: s, r: r, id: w.id, lang: chooseLanguage(r)}
	w.Header().Set("Content-Language", c.lang.tag)
	w.Header().Add("Vary", "Accept-Language")
	return c
}

// readForm reads what was posted, up to a limit. Files stay in memory.
func (c *call) readForm(w *answer, limit int64) error {
	kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	withFiles := kind == "multipart/form-data" && limit > formLimit
	if err != nil || kind != "application/x-www-form-urlencoded" && !withFiles {
		return errMediaType
	}
	c.r.Body = http.MaxBytesReader(w.ResponseWriter, c.r.Body, limit)
	read := c.r.ParseForm
	if withFiles {
		read = func() error { return c.r.ParseMultipartForm(limit) } //nolint:gosec // the body is bounded
	}
	if err := read(); err != nil {
		var over *http.MaxBytesError
		if errors.As(err, &over) {
			return errTooLarge
		}
		return errForm
	}
	if !allHoldable(c.r.PostForm) {
		return errForm
	}
	c.form = c.r.PostForm
	return nil
}

// holdable says whether both databases can hold a text.
func holdable(text string) bool { return utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 }

func allHoldable(values url.Values) bool {
	for name, all := range values {
		if !holdable(name) || slices.ContainsFunc(all, func(text string) bool { return !holdable(text) }) {
			return false
		}
	}
	return true
}

// upload is a file that was posted, nil without one.
func (c *call) upload(name string) ([]byte, error) {
	if c.r.MultipartForm == nil || len(c.r.MultipartForm.File[name]) == 0 {
		return nil, nil
	}
	f, err := c.r.MultipartForm.File[name][0].Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f) // all of it is in memory already
}

// picture is a file that was posted, in base64, "" without one. It can be had once: the form lets go of it, for it may wait long
// for its turn.
func (c *call) picture(name string) (string, error) {
	if c.r.MultipartForm == nil || len(c.r.MultipartForm.File[name]) == 0 {
		return "", nil
	}
	posted := c.r.MultipartForm.File[name][0]
	delete(c.r.MultipartForm.File, name)
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

// url is a path of this face, in the language that was asked for by name.
func (c *call) url(path string) string {
	if !c.lang.asked {
		return path
	}
	if strings.Contains(path, "?") {
		return path + "&lang=" + c.lang.tag
	}
	return path + "?lang=" + c.lang.tag
}

// home is where the page of an answer is to be found again: "" for where it is, and for what is answered to a form the path of the form, or the
// nearest above it, at which there is a page.
func (c *call) home() string {
	if c.r.Method == http.MethodGet || c.r.Method == http.MethodHead {
		return ""
	}
	above := func(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }
	at, route := c.r.URL.EscapedPath(), strings.TrimPrefix(c.r.Pattern, c.r.Method+" ")
	for ; !c.pages[route]; at, route = above(at), above(route) {
		if route == "" { // nothing of the table is above it, or it was refused before the table was asked
			return "/"
		}
	}
	return at
}

// strayed says why no route took a request.
func (s *server) strayed(r *http.Request) error {
	probe := *r
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		probe.Method = method
		if _, pattern := s.mux.Handler(&probe); pattern != "/" {
			return errMethod.Set("allow", method)
		}
	}
	return errNoPage
}

// refuse answers with an error page. It does nothing once an answer has begun.
func (s *server) refuse(w *answer, r *http.Request, err error) {
	if w.status != 0 {
		return
	}
	f, ok := apierr.As(err)
	switch {
	case ok:
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		f = errRetryLater
	default:
		f = errInternal
		s.Log.Error("internal error", slog.String("request_id", w.id), slog.String("route", w.route), slog.String("error", err.Error()))
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
	if !c.has(group + ".title") {
		group = "error.other"
	}
	s.show(w, c, view{page: "error", title: c.text(group + ".title"), status: status, data: errorPage{
		Fault: f, What: c.said(f.Code, f.Detail), Do: c.text(group + ".do"), RequestID: w.id,
	}})
}

type errorPage struct {
	Fault     *apierr.Fault
	What      said
	Do        string
	RequestID string
}

// show sends a page, whole or not at all.
func (s *server) show(w *answer, c *call, v view) {
	body, err := render(c, v)
	if err != nil {
		s.Log.Error("a page cannot be made", slog.String("request_id", w.id), slog.String("page", v.page), slog.String("error", err.Error()))
		http.Error(w, errInternal.Detail+" "+w.id, http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Content-Security-Policy", v.policy())
	if len(v.frames) > 0 {
		h.Del("X-Frame-Options") // which cannot name them
	}
	if v.status == 0 {
		v.status = http.StatusOK
	}
	w.WriteHeader(v.status)
	if c.r.Method != http.MethodHead {
		_, _ = w.Write(body) //nolint:gosec // html/template has escaped it; and a reader that left needs no page
	}
}

// serveAsset sends an embedded file. Its name changes with its content, so browsers may keep it for good.
func (s *server) serveAsset(w *answer, r *http.Request) {
	w.route = "/static/{name}"
	i := slices.IndexFunc(assets, func(a asset) bool { return a.url == r.URL.Path })
	if i < 0 {
		s.refuse(w, r, errNoPage)
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
