// Package httpapi is the JSON face: it turns HTTP requests into calls of the domain and their results into answers.
//
// routes.go is the whole interface as one table. What stands there gets, for free and alike: authentication, scope, rate
// limit, acting company, strict reading of parameters and body, idempotency, paging, the error answers and the contract at
// /openapi.json. A handler only shapes: wire in, one call of the domain, wire out.
//
// One request is one transaction. A write's effect, its idempotency record and its stored answer commit together; a
// handler may therefore run more than once and must not touch anything outside its transaction.
//
// The package owns the table idempotency and no other, knows no rule of the business, and never sees a float.
package httpapi

import (
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"path"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice/vendorbill"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/ratelimit"
	"github.com/stipend/stipend/internal/requestlog"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/webhook/delivery"
	"github.com/stipend/stipend/internal/withdrawal"
)

// Version is the version of the interface, sent with every answer.
const Version = "2.0"

// Deps is what the face stands on. DB, Now and Env are required.
type Deps struct {
	DB      *db.DB
	Payroll *payroll.Service
	Claim   *claim.Service
	// Withdrawal takes companies' money out.
	Withdrawal *withdrawal.Service
	// Webhooks says which endpoints may be registered, and seals their secrets.
	Webhooks delivery.Setup
	// BaseURL is the address that clients use, AuthURL the one of the page on which users agree; without a slash at the end.
	BaseURL, AuthURL string
	// Env is the environment. Credentials belong to one; sandbox routes exist only in the sandbox.
	Env identity.Environment
	// Sealer seals personal data at rest.
	Sealer *identity.Sealer
	// KYC keeps the documents of people and companies and has them verified.
	KYC *kyc.Service
	// Funding opens bank accounts for users and companies.
	Funding *virtualaccount.Service
	// Vendor pays vendors against their invoices.
	Vendor *vendorbill.Service
	// Sandbox does what the sandbox routes ask. Without it they do not exist.
	Sandbox Sandbox
	// TryKey is the API key that the page /docs tries requests with. Only a sandbox names one.
	TryKey string
	// Now is the clock of rate limits and logs, never of the business.
	Now func() time.Time
	// Reads and Writes bound the requests of one credential in a second; 0 switches the limit off.
	Reads, Writes float64
	// Bodies is the room for large bodies, which the faces of a process share. Nil: an own one.
	Bodies *ratelimit.Bodies
	// Hosts are the names that the service answers for; none means all.
	Hosts []string
	// Ready says why the service should not get requests now; nil means that the database alone decides.
	Ready func(context.Context) error
	// Observe is told of every request that a route answered, for metrics.
	Observe func(method, route string, status int, took time.Duration)
	// Requests notes what programs ask, for their companies; nil notes nothing.
	Requests *requestlog.Log
	Log      *slog.Logger
}

// New makes the face.
func New(d Deps) http.Handler { return newServer(d, routes) }

// NewServer makes an HTTP server whose time limits let no client hold a connection for nothing.
func NewServer(addr string, h http.Handler) *http.Server {
	return &http.Server{
		Addr:              addr,
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
	}
}

// kind is how a route meets the database.
type kind int

const (
	read   kind = iota // one read-only snapshot
	write              // one transaction, with idempotency
	direct             // none: the handler opens its own
)

// Body limits.
const (
	defaultBodyLimit = ratelimit.CommonBody
	payrollLimit     = 8 << 20
	importLimit      = 8 << 20
	imageLimit       = 15 << 20 // 10 MiB in base64
)

// route declares one operation: its address, its authorization, its handler and what the contract says about it.
type route struct {
	method, path string
	name         string         // unique operation ID in the contract
	scope        identity.Scope // required of the credential; public requires no credential
	apiKeyOnly   bool           // reject OAuth tokens, whatever their scopes
	sandboxOnly  bool           // absent outside the sandbox
	kind         kind
	bodyLimit    int64 // in bytes; zero means defaultBodyLimit
	keyRequired  bool  // an API key must send an Idempotency-Key
	bodyOptional bool  // an empty body means {}
	handler      handler
	summary      string // one line without a final period
	description  string // further rules; may be empty
	example      string // JSON example of the request body; generated from the schema if empty
	// errors lists the error codes of the handler. Codes that follow from the other fields and from the types of
	// the input are added to it by errorCodes.
	errors []string
}

// public marks a route that takes no credential. Every other route names its scope.
const public = "public"

// anyScope marks a sandbox route that any credential may use.
const anyScope = "any"

// handler is a function with its input and output types.
type handler struct {
	in, out reflect.Type
	run     func(ctx context.Context, tx *db.Tx, c *call, in any) (any, error)
	// before runs once before the transaction, for work that takes long, such as reading an image; it fills in what run needs.
	before func(ctx context.Context, c *call, in any) error
	// adaptStored rewrites a stored response before it is returned for a repeated Idempotency-Key. It may be nil.
	adaptStored func(string) string
	// ahead says what run will look up, so that requests which share a transaction read it together.
	ahead func(c *call, in any) []db.Ahead
	// secret marks an answer that holds a secret: it is sealed where it is stored to be sent again.
	secret bool
}

// withSecret marks a handler whose response contains a secret. The stored response is encrypted.
func withSecret(h handler) handler {
	h.secret = true
	return h
}

// call is what a handler knows besides its input.
type call struct {
	*server
	by identity.Principal
	// company is the acting company, "" where the operation has none.
	company string
}

// file is an answer that is no JSON but CSV, written while its transaction lasts, since it may be long.
type file struct {
	name  string
	write func(io.Writer) error
}

// sendsFile says that a handler answers with a file.
func (h *handler) sendsFile() bool { return h.out == reflect.TypeFor[file]() }

// fileTime is how long a client may take to fetch a file.
const fileTime = 5 * time.Minute

// sendFile sends a file. When it breaks off, the connection does, so that nobody takes a part for the whole.
func (s *server) sendFile(w *answer, f *file) {
	h := w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="`+f.name+`"`)
	_ = http.NewResponseController(w).SetWriteDeadline(s.Now().Add(fileTime)) // where there is none, none is needed
	w.WriteHeader(http.StatusOK)
	if err := f.write(w); err != nil {
		s.Log.Warn("a file broke off", slog.String("request_id", w.requestID), slog.String("route", w.route), slog.String("error", err.Error()))
		panic(http.ErrAbortHandler)
	}
}

// none is the input of an operation that takes nothing.
type none struct{}

// handle makes a handler of a typed function.
func handle[In, Out any](fn func(context.Context, *db.Tx, *call, *In) (*Out, error)) handler {
	return handler{
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](),
		run: func(ctx context.Context, tx *db.Tx, c *call, in any) (any, error) { return fn(ctx, tx, c, in.(*In)) },
	}
}

// withPreprocess adds work that runs once before the handler's transaction.
func withPreprocess[In any](before func(context.Context, *call, *In) error, h handler) handler {
	h.before = func(ctx context.Context, c *call, in any) error { return before(ctx, c, in.(*In)) }
	return h
}

// withPrefetch adds the keys of rows to load before the handler runs.
func withPrefetch[In any](ahead func(*call, *In) []db.Ahead, h handler) handler {
	h.ahead = func(c *call, in any) []db.Ahead { return ahead(c, in.(*In)) }
	return h
}

// server is the face at work.
type server struct {
	Deps
	mux           *http.ServeMux
	methods       []string // every method that any route has
	reads, writes *ratelimit.Limiter
	tokens        *ratelimit.Limiter // of the endpoints of OAuth, by address
	wrongs        *ratelimit.Limiter // wrong credentials, by address
	stray         *ratelimit.Limiter // rows of those who ask for another company, by credential
	principals    principals
	inflight      inflight
	duplicateWait time.Duration
	contract      func() document
}

func newServer(d Deps, table []route) *server {
	if d.Now == nil || d.DB == nil || d.Env == "" {
		panic("api: Deps needs DB, Now and Env")
	}
	if fault := checkTable(table); fault != "" {
		panic("api: " + fault)
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Bodies == nil {
		d.Bodies = ratelimit.NewBodies()
	}
	s := &server{
		Deps: d, mux: http.NewServeMux(), reads: perCredential(d.Reads), writes: perCredential(d.Writes), tokens: tokenRequests(),
		wrongs: ratelimit.New(wrongsPerSecond, wrongsAtOnce), stray: ratelimit.New(1.0/60, 1),
		inflight: inflight{running: map[idempotencyKey]*execution{}}, duplicateWait: duplicateWait,
	}
	d.DB.OnNotice(identity.NoticeRevoked, s.principals.forget)
	table = slices.DeleteFunc(slices.Clone(table), func(r route) bool { return r.sandboxOnly && (d.Sandbox == nil || d.Env != identity.Sandbox) })
	var inputs []*input
	s.contract, inputs = describe(table)
	for i, rt := range table {
		s.mount(rt.method, rt.path, s.serveRoute(rt, inputs[i]))
	}
	s.mountOAuth()
	s.mount("GET", "/openapi.json", func(w *answer, _ *http.Request) { serveFile(w, "application/json", s.contract().json) })
	s.mount("GET", "/openapi.yaml", func(w *answer, _ *http.Request) { serveFile(w, "application/yaml", s.contract().yaml) })
	s.mountDocs()
	if d.KYC != nil {
		s.mount("POST", "/callbacks/verification/{provider}", s.serveProviderCallback)
	}
	s.mount("GET", "/healthz", func(w *answer, _ *http.Request) { send(w, http.StatusOK, []byte(`{"status":"ok"}`)) })
	s.mount("GET", termsPath, page(serveTerms))
	s.mount("GET", "/readyz", s.serveReady)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.refuse(w.(*answer), s.strayed(r)) })
	return s
}

func (s *server) mount(method, path string, h func(*answer, *http.Request)) {
	if !slices.Contains(s.methods, method) {
		s.methods = append(s.methods, method)
	}
	s.mux.HandleFunc(method+" "+path, func(w http.ResponseWriter, r *http.Request) { h(w.(*answer), r) })
}

func page(serve func(http.ResponseWriter, *http.Request) *apierr.Fault) func(*answer, *http.Request) {
	return func(w *answer, r *http.Request) {
		if f := serve(w, r); f != nil {
			w.server.refuse(w, f)
		}
	}
}

// answer is the ResponseWriter of a request, with what the log wants to know of it.
type answer struct {
	http.ResponseWriter
	server    *server
	requestID string
	route     string
	by        identity.Principal // who asked, where that was known
	reads     bool               // the route changes nothing
	body      []byte             // what was sent
	sent      []byte             // what a write or a refusal answered
	code      string             // of the error answer
	status    int
	size      int
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(b) //nolint:gosec // text that clients sent goes out as JSON or CSV, and nosniff is set
	a.size += n
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// ServeHTTP gives every request its id, its headers and a net under it.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := s.Now()
	a := &answer{ResponseWriter: w, server: s, requestID: requestID(r.Header)}
	h := w.Header()
	h.Set("X-Request-Id", a.requestID)
	h.Set("Api-Version", Version)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so, too
				panic(p)
			}
			s.Log.LogAttrs(r.Context(), slog.LevelError, "panic", slog.String("request_id", a.requestID), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			s.refuse(a, errInternal)
		}
		s.note(r, a, s.Now().Sub(start))
	}()
	switch {
	case !Serves(s.Hosts, r):
		s.refuse(a, errMisdirected)
	case !slices.ContainsFunc(r.Header["Api-Version"], func(v string) bool { return v != Version }):
		if p := r.URL.Path; p == "" || p[0] != '/' || path.Clean(p) != strings.TrimSuffix(p, "/") && p != "/" {
			s.refuse(a, errNoSuchRoute) // rather than the redirect of the mux, which is no JSON and loses the body
			return
		}
		s.mux.ServeHTTP(a, r)
	default:
		s.refuse(a, errVersion.At("header", "Api-Version"))
	}
}

// forAnyHost says whether a path answers under whatever name it is asked: load balancers know none.
func forAnyHost(path string) bool { return path == "/healthz" || path == "/readyz" }

// Serves says whether a request is for one of the hosts that are served, or for any when there are none. Whether the process
// is well may be asked by any name: balancers ask by its address.
func Serves(hosts []string, r *http.Request) bool {
	if len(hosts) == 0 || forAnyHost(r.URL.Path) {
		return true
	}
	bare := func(host string) string {
		return strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(host), ":443"), ":80")
	}
	return slices.ContainsFunc(hosts, func(h string) bool { return bare(h) == bare(r.Host) })
}

// statusLeft stands in log and metrics, where others use it too, for a client who left before there was an answer. Nobody saw it.
const statusLeft = 499

// note writes the one log line of a request.
func (s *server) note(r *http.Request, a *answer, took time.Duration) {
	if a.status == http.StatusServiceUnavailable && r.Context().Err() != nil {
		a.status, a.code = statusLeft, ""
	}
	if s.Observe != nil && a.route != "" {
		s.Observe(r.Method, a.route, a.status, took)
	}
	if a.by.CompanyID != "" {
		s.Requests.Add(requestlog.Entry{
			At: s.Now().Add(-took), Took: took, CompanyID: a.by.CompanyID, AppID: a.by.AppID, Credential: a.by.ID, RequestID: a.requestID,
			Method: r.Method, Route: a.route, URL: r.URL.RequestURI(), Status: a.status, Code: a.code, Reads: a.reads,
			IdempotencyKey: r.Header.Get("Idempotency-Key"), Replayed: a.Header().Get("Idempotent-Replayed") != "", Body: a.body, Answer: a.sent,
		})
	}
	level := slog.LevelInfo
	if a.status >= 500 {
		level = slog.LevelError
	}
	if !s.Log.Enabled(r.Context(), level) {
		return
	}
	s.Log.LogAttrs(r.Context(), level, "request", slog.String("request_id", a.requestID), slog.String("method", r.Method),
		slog.String("route", a.route), slog.Int("status", a.status), slog.String("code", a.code), slog.String("principal", a.by.ID),
		slog.Int("bytes", a.size), slog.Duration("took", took))
}

// requestID keeps a sane id of the client's own, so that both sides can find the request, or makes one.
func requestID(h http.Header) string {
	if id := h.Get("X-Request-Id"); visible(id, 128) && strings.Trim(id, requestIDChars) == "" {
		return id
	}
	id := uuid.New()
	return "req_" + hex.EncodeToString(id[:])
}

const requestIDChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:"

// refuse answers with an error. It does nothing once an answer has begun.
func (s *server) refuse(w *answer, err error) {
	if w.status != 0 {
		return
	}
	f := asFault(err)
	if f.Kind == apierr.Internal {
		s.Log.Error("internal error", slog.String("request_id", w.requestID), slog.String("route", w.route), slog.String("error", err.Error()))
	}
	h := w.Header()
	if after := retryAfter(f); after != "" {
		h.Set("Retry-After", after)
	}
	if f.Kind == apierr.Unauthorized {
		h.Add("WWW-Authenticate", `Basic realm="api", charset="UTF-8"`)
		h.Add("WWW-Authenticate", `Bearer realm="api", error="invalid_token"`)
	}
	if scope := f.Meta["scope"]; f.Code == errScope.Code && scope != "" {
		h.Add("WWW-Authenticate", `Bearer realm="api", error="insufficient_scope", scope="`+scope+`"`)
	}
	if allow := f.Meta["allow"]; allow != "" {
		h.Set("Allow", allow)
	}
	status, body := render(forBody(f), w.requestID)
	w.code, w.sent = f.Code, requestlog.Kept(body)
	send(w, status, body)
}

func send(w *answer, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that left needs no answer
}

// strayed says why no route took a request: no such address, or another method.
func (s *server) strayed(r *http.Request) error {
	var allow []string
	probe := *r
	for _, m := range s.methods {
		probe.Method = m
		if _, pattern := s.mux.Handler(&probe); pattern != "/" {
			allow = append(allow, m)
		}
	}
	if len(allow) == 0 {
		return errNoSuchRoute
	}
	if slices.Contains(allow, "GET") {
		allow = append(allow, "HEAD")
	}
	slices.Sort(allow)
	return errMethod.Set("allow", strings.Join(allow, ", "))
}

func serveFile(w *answer, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // a client that left needs no answer
}

// serveReady says whether the service can do its work: the database answers, and nothing else objects.
func (s *server) serveReady(w *answer, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()
	err := s.DB.Ping(ctx)
	if err == nil && s.Ready != nil {
		err = s.Ready(ctx)
	}
	if err != nil {
		s.Log.Warn("not ready", slog.String("error", err.Error()))
		s.refuse(w, errRetryLater.Detailf("The service is not ready."))
		return
	}
	send(w, http.StatusOK, []byte(`{"status":"ready"}`))
}
