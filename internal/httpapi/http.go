// Package httpapi serves the JSON API: it converts HTTP requests to calls of domain functions, and their results to
// responses.
//
// The variable routes lists every operation. From its declaration, a route gets authentication, authorization, rate
// limits, the acting company, strict decoding of parameters and body, idempotency, paging, error responses and its
// part of the contract at /openapi.json. A handler only maps the decoded request to one domain call and the result to
// a response.
//
// One request is one transaction. The effect of a write, its idempotency key and its stored response are committed
// together. A handler may run more than once and must not have effects outside its transaction.
//
// Authorization is deny by default: a route without a scope prevents the service from starting, and a path without a
// route gets 404.
//
// The package writes only the table idempotency, contains no business rules, and never converts amounts to floating
// point.
package httpapi

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
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
	"github.com/stipend/stipend/internal/branding"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice/vendorbill"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/oauth"
	"github.com/stipend/stipend/internal/paymentlink"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/payroll/schedule"
	"github.com/stipend/stipend/internal/platform"
	"github.com/stipend/stipend/internal/proposal"
	"github.com/stipend/stipend/internal/ratelimit"
	"github.com/stipend/stipend/internal/requestlog"
	"github.com/stipend/stipend/internal/travelrule"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/webhook/delivery"
	"github.com/stipend/stipend/internal/withdrawal"
)

// Version is the version of the API, which every response states.
const Version = "2.0"

// Deps are the dependencies of the API. DB, Now and Env are required.
type Deps struct {
	DB *db.DB
	// SecurityContact is the URL for reports of vulnerabilities (RFC 9116), such as mailto:security@pay.example. If it
	// is empty, no security.txt is served.
	SecurityContact string
	Payroll         *payroll.Service
	Claim           *claim.Service
	// Platforms creates the companies of platforms.
	Platforms *platform.Service
	// Branding changes the name, logo and colors that payers of a merchant see.
	Branding *branding.Service
	// Schedule creates payrolls that repeat.
	Schedule *schedule.Service
	// Links creates claims when payers open payment links.
	Links *paymentlink.Service
	// Proposals stores payrolls and claims that an agent prepared and a person must confirm.
	Proposals *proposal.Service
	// Withdrawal pays out the balances of companies.
	Withdrawal *withdrawal.Service
	// TravelRule stores who hosts the wallets of destinations, and proofs that their owners control them.
	TravelRule *travelrule.Service
	// Debits collects money from the bank accounts of companies.
	Debits *directdebit.Service
	// Webhooks holds the policy for the URLs of endpoints and encrypts their secrets.
	Webhooks delivery.Setup
	// BaseURL is the address of the API, and AuthURL the address of the page where users authorize apps. Neither ends
	// with a slash.
	BaseURL, AuthURL string
	// ServiceName is the name of the service in documents. If it is empty, the name is Stipend.
	ServiceName string
	// Env is the environment to which credentials must belong. Sandbox routes exist only in the sandbox.
	Env identity.Environment
	// Sealer encrypts personal data and secrets at rest.
	Sealer *identity.Sealer
	// KYC stores documents and verifies people and companies.
	KYC *kyc.Service
	// BankCallbacks authenticates the webhooks of banks.
	BankCallbacks bank.Callbacks
	// Funding opens virtual bank accounts for users and companies.
	Funding *virtualaccount.Service
	// Vendor pays vendors against their invoices.
	Vendor *vendorbill.Service
	// Sandbox implements the sandbox routes. If it is nil, these routes do not exist.
	Sandbox Sandbox
	// TryKey is the API key with which the page /reference sends requests. It is set only in a sandbox.
	TryKey string
	// Now is the clock of rate limits and logs. Business logic uses the transaction's time instead.
	Now func() time.Time
	// Reads and Writes limit the requests of one credential per second. Zero means no limit.
	Reads, Writes float64
	// Bodies limits the memory that request bodies use in the process. Nil means a new budget for this API only.
	Bodies *ratelimit.BodyBudget
	// Opened limits the claims that each network creates by opening payment links. Nil means a new limit for this API
	// only.
	Opened *ratelimit.Limiter
	// Hosts lists the accepted Host names. If it is empty, every name is accepted.
	Hosts []string
	// Ready returns an error if the service should not receive requests. If it is nil, only the database is checked.
	Ready func(context.Context) error
	// Problems returns problems to report in the response of /readyz although the service can receive requests. It may
	// be nil.
	Problems func(context.Context) ([]string, error)
	// Observe is called after every routed request, for metrics.
	Observe func(ctx context.Context, method, route string, status int, took time.Duration)
	// Requests records the requests that programs send for their companies. If it is nil, nothing is recorded.
	Requests *requestlog.Log
	Log      *slog.Logger
}

// New returns the handler of the API.
func New(d Deps) http.Handler { return newServer(d, routes) }

// NewServer returns an HTTP server with timeouts that keep slow clients from holding connections open.
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

// kind states how a route uses the database.
type kind int

const (
	read   kind = iota // one read-only snapshot
	write              // one transaction, with support for idempotency keys
	direct             // no transaction: the handler opens its own
)

// Maximum sizes of request bodies, in bytes.
const (
	defaultBodyLimit = ratelimit.SmallBodySize
	payrollLimit     = 8 << 20
	importLimit      = 8 << 20
	imageLimit       = 15 << 20 // 10 MiB in base64
)

// route declares one operation: its address, its authorization, its handler and its documentation in the contract.
type route struct {
	method, path string
	name         string         // unique operation ID in the contract
	scope        identity.Scope // scope that the credential must have; public requires no credential
	orScope      identity.Scope // alternative scope that also suffices; may be empty
	apiKeyOnly   bool           // rejects OAuth tokens, whatever their scopes
	platforms    bool           // like apiKeyOnly, but also accepts a platform's token for its companies
	sandboxOnly  bool           // absent outside the sandbox
	perNetwork   bool           // public, and limited to a few requests a second per network
	kind         kind
	bodyLimit    int64        // in bytes; zero means defaultBodyLimit
	keyRequired  bool         // an API key must send an Idempotency-Key
	bodyOptional bool         // an empty body means {}
	proposes     bool         // agents may use the write: it only stores a proposal, on which a person decides
	deprecated   *deprecation // nil unless the operation will be removed
	files        []string     // content types of the files that the handler sends; nil means CSV
	handler      handler
	summary      string // one line without a final period
	description  string // further rules; may be empty
	example      string // JSON example of the request body; generated from the schema if empty
	// errors lists the error codes that the handler returns. The function errorCodes adds the codes that follow from the
	// other fields and from the types of the input.
	errors []string
}

// deprecation announces that an operation will be removed.
type deprecation struct {
	from, sunset time.Time // since when it is deprecated, and until when it works
}

// since returns the value of the Deprecation header (RFC 9745).
func (d *deprecation) since() string { return "@" + strconv.FormatInt(d.from.Unix(), 10) }

// until returns the value of the Sunset header (RFC 8594).
func (d *deprecation) until() string { return d.sunset.UTC().Format(http.TimeFormat) }

// announce adds the headers that mark an operation as deprecated to a response.
func (d *deprecation) announce(h http.Header, baseURL string) {
	h.Set("Deprecation", d.since())
	h.Set("Sunset", d.until())
	h.Add("Link", "<"+baseURL+`/docs/versions>; rel="deprecation"; type="text/html"`)
}

// public marks a route that requires no credential.
const public = "public"

// anyScope marks a route that accepts any credential: a sandbox route, or credentialPath.
const anyScope = "any"

// credentialPath is the path of the operation that describes the caller's own credential.
const credentialPath = "/api/credential" //nolint:gosec // a path

// handler is a typed handler function together with the types of its input and output.
type handler struct {
	in, out reflect.Type
	run     func(ctx context.Context, tx *db.Tx, c *request, in any) (any, error)
	// preprocess runs once before the transaction. It does slow work, such as decoding an image, and stores the results
	// in the input.
	preprocess func(ctx context.Context, c *request, in any) error
	// adaptStored rewrites the stored response that is returned for a repeated Idempotency-Key. It may be nil.
	adaptStored func(string) string
	// prefetch names the rows that run will read, so that they are read together for all requests that share a
	// transaction.
	prefetch func(c *request, in any) []db.Prefetch
	// secret reports whether the response contains a secret. The response is then encrypted where it is stored.
	secret bool
}

// withSecret marks a handler whose response contains a secret, so that the stored response is encrypted.
func withSecret(h handler) handler {
	h.secret = true
	return h
}

// request is the context of a request that a handler receives in addition to its input.
type request struct {
	*server
	by identity.Principal
	// company is the ID of the acting company, or "" if the operation has none.
	company string
	network string // rate-limit key of the client's address
}

// file is a response that is not JSON. It is written within the transaction, piece by piece, because it may be long.
type file struct {
	name        string
	contentType string // "" means CSV
	write       func(io.Writer) error
}

// sendsFile reports whether the handler responds with a file.
func (h *handler) sendsFile() bool { return h.out == reflect.TypeFor[file]() }

// paysBy402 reports whether the handler responds with the statuses and headers of x402.
func (h *handler) paysBy402() bool { return h.out == reflect.TypeFor[paymentAnswer]() }

// fileTime is the time that a client has to download a file.
const fileTime = 5 * time.Minute

// sendFile sends a file. If writing fails, it aborts the connection so that the client does not mistake a part for
// the whole.
func (s *server) sendFile(w *responseWriter, f *file) {
	h := w.Header()
	h.Set("Content-Type", cmp.Or(f.contentType, document.TypeCSV))
	h.Set("Content-Disposition", `attachment; filename="`+f.name+`"`)
	_ = http.NewResponseController(w).SetWriteDeadline(s.Now().Add(fileTime)) // some writers do not support deadlines
	w.WriteHeader(http.StatusOK)
	if err := f.write(w); err != nil {
		s.Log.Warn("writing a file failed", slog.String("request_id", w.requestID), slog.String("route", w.route),
			slog.String("error", err.Error()))
		panic(http.ErrAbortHandler)
	}
}

// none is the input of an operation without parameters.
type none struct{}

// handle converts a typed function to a handler.
func handle[In, Out any](fn func(context.Context, *db.Tx, *request, *In) (*Out, error)) handler {
	return handler{
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](),
		run: func(ctx context.Context, tx *db.Tx, c *request, in any) (any, error) { return fn(ctx, tx, c, in.(*In)) },
	}
}

// withPreprocess adds a function that runs once before the handler's transaction.
func withPreprocess[In any](preprocess func(context.Context, *request, *In) error, h handler) handler {
	h.preprocess = func(ctx context.Context, c *request, in any) error { return preprocess(ctx, c, in.(*In)) }
	return h
}

// withPrefetch adds a function that names the rows to load before the handler runs.
func withPrefetch[In any](prefetch func(*request, *In) []db.Prefetch, h handler) handler {
	h.prefetch = func(c *request, in any) []db.Prefetch { return prefetch(c, in.(*In)) }
	return h
}

// server implements the API.
type server struct {
	Deps
	mux           *http.ServeMux
	methods       []string // HTTP methods of all routes
	reads, writes *ratelimit.Limiter
	tokens        *ratelimit.Limiter // OAuth requests per network
	payments      *ratelimit.Limiter // x402 requests per network
	opened        *ratelimit.Limiter // claims created from payment links per network
	attempts      *ratelimit.Limiter // authorized x402 payments per network
	settling      chan struct{}      // contains one value for each request that waits for its payment
	wrongs        *ratelimit.Limiter // wrong credentials per network
	denials       *ratelimit.Limiter // stored records of requests for other companies, per credential
	principals    principals
	proofs        oauth.Proofs // DPoP proofs of tokens that are bound to keys
	inflight      inflight
	answered      answered
	duplicateWait time.Duration
	contract      func() openAPI
}

func newServer(d Deps, table []route) *server {
	if d.Now == nil || d.DB == nil || d.Env == "" {
		panic("httpapi: Deps requires DB, Now and Env")
	}
	if fault := checkRoutes(table); fault != "" {
		panic("httpapi: " + fault)
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Bodies == nil {
		d.Bodies = ratelimit.DefaultBodyBudget()
	}
	if d.Ready == nil {
		d.Ready = d.DB.Ping
	}
	s := &server{
		Deps: d, mux: http.NewServeMux(), reads: perCredential(d.Reads), writes: perCredential(d.Writes),
		tokens: tokenRequests(), payments: ratelimit.New(2, 60), opened: cmp.Or(d.Opened, ratelimit.New(0.1, 20)),
		attempts: ratelimit.New(0.2, 20),
		settling: make(chan struct{}, maxSettling),
		wrongs:   ratelimit.New(wrongsPerSecond, wrongsAtOnce), denials: ratelimit.New(1.0/60, 1),
		inflight: inflight{running: map[idempotencyKey]*execution{}}, duplicateWait: duplicateWait,
	}
	d.DB.OnNotice(identity.NoticeRevoked, s.principals.forget)
	table = slices.DeleteFunc(slices.Clone(table), func(r route) bool {
		return r.sandboxOnly && (d.Sandbox == nil || d.Env != identity.Sandbox)
	})
	var inputs []*input
	s.contract, inputs = compile(table)
	for i, rt := range table {
		s.mount(rt.method, rt.path, s.serveRoute(rt, inputs[i]))
	}
	s.mountOAuth()
	s.mountAgents()
	s.mount("GET", "/openapi.json", func(w *responseWriter, r *http.Request) {
		serveCompressed(w, r, "application/json", func() []byte { return s.contract().json }, s.contract().jsonGzip)
	})
	s.mount("GET", "/openapi.yaml", func(w *responseWriter, r *http.Request) {
		serveCompressed(w, r, "application/yaml", func() []byte { return s.contract().yaml }, s.contract().yamlGzip)
	})
	s.mountReference()
	if d.SecurityContact != "" {
		s.mount("GET", "/.well-known/security.txt", s.serveSecurityContact)
	}
	if d.KYC != nil {
		s.mount("POST", "/callbacks/verification/{provider}", s.serveCallback("/callbacks/verification/{provider}",
			"provider", d.KYC.ExpectsCallback, d.KYC.HandleCallback))
	}
	s.mount("POST", "/callbacks/bank/{bank}", s.serveCallback("/callbacks/bank/{bank}", "bank",
		d.BankCallbacks.Expects, d.BankCallbacks.Handle))
	s.mount("GET", "/healthz", func(w *responseWriter, _ *http.Request) {
		send(w, http.StatusOK, []byte(Healthy))
	})
	s.mount("GET", termsPath, page(serveTerms))
	s.mount("GET", "/readyz", s.serveReady)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.refuse(w.(*responseWriter), s.noRoute(r)) })
	return s
}

func (s *server) mount(method, path string, h func(*responseWriter, *http.Request)) {
	if !slices.Contains(s.methods, method) {
		s.methods = append(s.methods, method)
	}
	s.mux.HandleFunc(method+" "+path, func(w http.ResponseWriter, r *http.Request) { h(w.(*responseWriter), r) })
}

func page(serve func(http.ResponseWriter, *http.Request) *apierr.Fault) func(*responseWriter, *http.Request) {
	return func(w *responseWriter, r *http.Request) {
		if f := serve(w, r); f != nil {
			w.server.refuse(w, f)
		}
	}
}

// responseWriter is the ResponseWriter of a request. It also collects the data for the log and for metrics.
type responseWriter struct {
	http.ResponseWriter
	server    *server
	requestID string
	route     string
	by        identity.Principal // the caller, if authenticated
	reads     bool               // reports whether the route has no effect
	body      []byte             // of the request
	sent      []byte             // response of a write, or an error response
	code      string             // of an error response
	status    int
	size      int
}

func (a *responseWriter) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *responseWriter) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(b) //nolint:gosec // text from clients is sent as JSON or CSV, with nosniff
	a.size += n
	return n, err
}

// Unwrap returns the wrapped ResponseWriter, through which http.ResponseController reaches the connection.
func (a *responseWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// ServeHTTP assigns a request its ID, sets common headers, recovers from panics and logs the request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := s.Now()
	a := &responseWriter{ResponseWriter: w, server: s, requestID: requestID(r.Header)}
	h := w.Header()
	h.Set("X-Request-Id", a.requestID)
	h.Set("Api-Version", Version)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if strings.HasPrefix(s.BaseURL, "https://") {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler { //nolint:errorlint // as net/http does
				panic(p)
			}
			s.Log.LogAttrs(r.Context(), slog.LevelError, "panic", slog.String("request_id", a.requestID), slog.Any("panic", p),
				slog.String("stack", string(debug.Stack())))
			s.refuse(a, errInternal)
		}
		s.logRequest(r, a, s.Now().Sub(start))
	}()
	switch {
	case !Serves(s.Hosts, r):
		s.refuse(a, errMisdirected)
	case !slices.ContainsFunc(r.Header["Api-Version"], func(v string) bool { return v != Version }):
		if p := r.URL.Path; p == "" || p[0] != '/' || path.Clean(p) != strings.TrimSuffix(p, "/") && p != "/" {
			s.refuse(a, errNoSuchRoute) // the mux would send a redirect, which is not JSON and makes clients drop the body
			return
		}
		s.mux.ServeHTTP(a, r)
	default:
		s.refuse(a, errVersion.At("header", "Api-Version"))
	}
}

// anyHost reports whether a path is served under every Host name, as load balancers require.
func anyHost(path string) bool { return path == "/healthz" || path == "/readyz" }

// Serves reports whether a request is for one of the hosts. It returns true if hosts is empty or the path is a health
// check.
func Serves(hosts []string, r *http.Request) bool {
	if len(hosts) == 0 || anyHost(r.URL.Path) {
		return true
	}
	bare := func(host string) string {
		return strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(host), ":443"), ":80")
	}
	return slices.ContainsFunc(hosts, func(h string) bool { return bare(h) == bare(r.Host) })
}

// statusClientClosed is logged if the client disconnected before the response. The number is a convention of other
// HTTP servers.
const statusClientClosed = 499

// logRequest writes the log line of a request and reports it to the metrics.
func (s *server) logRequest(r *http.Request, a *responseWriter, took time.Duration) {
	if a.status == http.StatusServiceUnavailable && r.Context().Err() != nil {
		a.status, a.code = statusClientClosed, ""
	}
	if s.Observe != nil && a.route != "" {
		s.Observe(r.Context(), r.Method, a.route, a.status, took)
	}
	if a.by.CompanyID != "" {
		s.Requests.Add(requestlog.Entry{
			At: s.Now().Add(-took), Took: took, CompanyID: a.by.CompanyID, AppID: a.by.AppID, Credential: a.by.ID,
			RequestID: a.requestID, Method: r.Method, Route: a.route, URL: r.URL.RequestURI(), Status: a.status, Code: a.code,
			Reads: a.reads, IdempotencyKey: r.Header.Get("Idempotency-Key"),
			Replayed: a.Header().Get("Idempotent-Replayed") != "", Body: a.body, Answer: a.sent,
		})
	}
	level := slog.LevelInfo
	if a.status == http.StatusInternalServerError {
		level = slog.LevelError
	}
	if !s.Log.Enabled(r.Context(), level) {
		return
	}
	s.Log.LogAttrs(r.Context(), level, "request", slog.String("request_id", a.requestID), slog.String("method", r.Method),
		slog.String("route", a.route), slog.Int("status", a.status), slog.String("code", a.code),
		slog.String("principal", a.by.ID),
		slog.Int("bytes", a.size), slog.Duration("took", took))
}

// requestID returns the X-Request-Id of the client if it is well-formed, or a new one.
func requestID(h http.Header) string {
	if id := h.Get("X-Request-Id"); visible(id, 128) && strings.Trim(id, requestIDChars) == "" {
		return id
	}
	id := uuid.New()
	return "req_" + hex.EncodeToString(id[:])
}

const requestIDChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:"

// refuse sends an error response. It does nothing if a response has already begun.
func (s *server) refuse(w *responseWriter, err error) {
	if w.status != 0 {
		return
	}
	f := asFault(err)
	if f.Kind == apierr.Internal {
		s.Log.Error("internal error", slog.String("request_id", w.requestID), slog.String("route", w.route),
			slog.String("error", err.Error()))
	}
	if f.Kind == apierr.Unavailable && !errors.Is(err, context.Canceled) {
		s.Log.Warn("requests get 503", slog.String("code", f.Code), slog.String("error", err.Error()))
	}
	h := w.Header()
	if after := retryAfter(f); after != "" {
		h.Set("Retry-After", after)
	}
	if f.Kind == apierr.Unauthorized {
		h.Add("WWW-Authenticate", `Basic realm="api", charset="UTF-8"`)
		h.Add("WWW-Authenticate", `DPoP realm="api", error="invalid_token", algs="`+
			strings.Join(oauth.ProofAlgorithms, " ")+`"`)
		h.Add("WWW-Authenticate", `Bearer realm="api", error="invalid_token", resource_metadata="`+s.BaseURL+resourcePath+`"`)
	}
	if scope := f.Meta["scope"]; f.Code == errScope.Code && scope != "" {
		h.Add("WWW-Authenticate", `Bearer realm="api", error="insufficient_scope", scope="`+scope+`"`)
	}
	if allow := f.Meta["allow"]; allow != "" {
		h.Set("Allow", allow)
	}
	status, body := render(withoutHeaders(f), w.requestID)
	w.code, w.sent = f.Code, requestlog.Truncate(body)
	send(w, status, body)
}

func send(w *responseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // nothing to do if the client disconnected
}

// noRoute returns the error for a request that no route matches: the path is unknown, or the method is wrong.
func (s *server) noRoute(r *http.Request) error {
	var allow []string
	probe := *r
	for _, m := range s.methods {
		probe.Method = m
		if _, pattern := s.mux.Handler(&probe); pattern != "/" {
			allow = append(allow, m)
			if m == "GET" && pattern != "GET "+paymentPath {
				allow = append(allow, "HEAD")
			}
		}
	}
	if len(allow) == 0 {
		return errNoSuchRoute
	}
	slices.Sort(allow)
	return errMethod.Set("allow", strings.Join(allow, ", "))
}

func serveFile(w *responseWriter, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // nothing to do if the client disconnected
}

// serveReady reports whether the service can process requests; see Readiness.
func (s *server) serveReady(w *responseWriter, r *http.Request) {
	body, err := Readiness(r.Context(), s.Ready, s.Problems)
	if err != nil {
		s.Log.Warn("not ready", slog.String("error", err.Error()))
		s.refuse(w, errRetryLater.Detailf("The service is not ready. Retry later."))
		return
	}
	send(w, http.StatusOK, body)
}

// Healthy is the response of /healthz.
const Healthy = `{"status":"ok"}`

// Readiness returns the response of /readyz, which lists the results of problems. It returns an error if ready
// returns one. The two functions together may take three seconds.
func Readiness(ctx context.Context, ready func(context.Context) error,
	problems func(context.Context) ([]string, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	answer := healthAnswer{Status: "ready"}
	err := ready(ctx)
	if err == nil && problems != nil {
		answer.Problems, err = problems(ctx)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}
