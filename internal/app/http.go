package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"golang.org/x/net/netutil"

	"github.com/stipend/stipend"
	"github.com/stipend/stipend/internal/docsite"
	"github.com/stipend/stipend/internal/httpapi"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/ratelimit"
	"github.com/stipend/stipend/internal/web"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// startAPI fills the pools of addresses and serves the API and the pages, which share an address and the budget for
// large request bodies.
func (s *Service) startAPI(background context.Context) error {
	if err := s.pool.Start(background); err != nil {
		return err
	}
	if s.accounts.Pool != nil {
		if err := s.accounts.Pool.Start(background); err != nil {
			return err
		}
	}
	s.work.Go(func() { payee.WarnWithoutSearchIndex(background, s.requestDB, s.log) })
	proxies, err := prefixes(s.cfg.TrustedProxies)
	if err != nil {
		return err
	}
	handler, err := s.buildHandler(proxies)
	if err != nil {
		return err
	}
	s.work.Go(func() { s.requests.Run(background) })
	listener := s.listener
	if n := s.cfg.MaxConnections; n > 0 {
		listener = newFairListener(netutil.LimitListener(listener, n), max(n/networkShare, 1), proxies)
	}
	s.serve(listener, handler)
	return nil
}

// guides returns the documentation, which is built once and shared by all services of a process.
var guides = sync.OnceValues(func() (*docsite.Site, error) {
	codes, events := httpapi.Documentation()
	return docsite.New(docsite.Content{Files: stipend.Docs, Errors: codes, Events: events})
})

// buildHandler makes the HTTP handler of the API and the pages.
func (s *Service) buildHandler(proxies []netip.Prefix) (http.Handler, error) {
	callbacks, err := s.cfg.bankCallbacks()
	if err != nil {
		return nil, err
	}
	hooks := delivery.Setup{Sealer: s.sealer, Policy: s.policy}
	opened := ratelimit.New(0.1, 20) // claims of payment links per network, on the pages and by x402 together
	api := httpapi.Deps{
		DB: s.requestDB, Now: time.Now, Log: s.log, Env: s.cfg.Env, Hosts: s.cfg.hosts(),
		BaseURL: s.ready.BaseURL, AuthURL: s.ready.AuthURL, SecurityContact: s.cfg.SecurityContact,
		ServiceName: s.cfg.OperatorName,
		Payroll:     s.payroll, Schedule: s.schedules, Claim: s.claims, Branding: s.branding, Links: s.links,
		Proposals: s.proposals, Withdrawal: s.withdrawals, TravelRule: s.travelRule, Debits: s.debits, Platforms: s.platforms,
		Vendor: s.vendor,
		Sealer: s.sealer, KYC: s.kyc, Funding: s.funding, Webhooks: hooks, Bodies: s.bodies, Opened: opened,
		BankCallbacks: callbacks,
		Reads:         float64(s.cfg.ReadsPerSecond), Writes: float64(s.cfg.WritesPerSecond),
		Ready: s.checkReady, Problems: s.problems, Observe: s.observeRequest, Requests: s.requests,
	}
	guides, err := guides()
	if err != nil {
		return nil, err
	}
	operator, err := s.cfg.operator()
	if err != nil {
		return nil, err
	}
	members, err := s.sso()
	if err != nil {
		return nil, err
	}
	staff, err := s.cfg.staff()
	if err != nil {
		return nil, err
	}
	pages := ui.Deps{
		Operator: operator, SSO: members, StaffSSO: staff,
		DB: s.requestDB, Now: time.Now, Log: s.log, Env: s.cfg.Env,
		BaseURL: s.ready.BaseURL, AuthURL: s.ready.AuthURL,
		Vendor:  s.vendor,
		Payroll: s.payroll, Schedules: s.schedules, Claims: s.claims, Branding: s.branding, Links: s.links,
		Invoices: s.checkout, Proposals: s.proposals, Withdrawals: s.withdrawals,
		TravelRule: s.travelRule, Debits: s.debits, Backoffice: s.backoffice,
		Explorers: s.cfg.Explorer, Sealer: s.sealer, KYC: s.kyc, Webhooks: hooks, Bodies: s.bodies, Scarce: opened,
		Observe: s.observeRequest, Done: s.ending, Docs: guides,
		Contract: s.contract(),
	}
	if s.cfg.Env == Sandbox {
		world, err := s.newSandbox()
		if err != nil {
			return nil, err
		}
		api.Sandbox, pages.Sandbox = world, world
		api.TryKey = s.ready.Seed.APIKey
		pages.SeededCompanies = []string{s.ready.Seed.CompanyID}
	}
	// The jitter hides the exact size of a compressed page, from which an attacker could guess secrets in the page
	// (BREACH).
	compress, err := gzhttp.NewWrapper(gzhttp.ContentTypes([]string{"text/html", "text/markdown", "text/plain"}),
		gzhttp.EnableZstd(false), gzhttp.RandomJitter(64, 0, false))
	if err != nil {
		return nil, err
	}
	return s.tracing.requests(proxies,
		httpapi.WithClientAddress(proxies, route(api.Hosts, httpapi.New(api), web.New(pages), compress))), nil
}

// serveMetrics serves metrics, /healthz and /readyz at a separate address, if one is configured, so that clients of
// the API cannot use up its connections.
func (s *Service) serveMetrics(ctx context.Context) error {
	if s.cfg.MetricsListen == "" {
		return nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.MetricsListen)
	if err != nil {
		return err
	}
	chains := []string{BitcoinChain}
	for _, a := range s.evms {
		chains = append(chains, a.Network.Name)
	}
	s.serve(l, s.serveMonitoring(chains))
	s.ready.MetricsURL = "http://" + l.Addr().String() + "/metrics"
	return nil
}

// serve serves requests from a listener until the process stops.
func (s *Service) serve(l net.Listener, h http.Handler) {
	server := httpapi.NewServer(l.Addr().String(), h)
	server.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelWarn)
	s.servers = append(s.servers, server)
	s.work.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.fail(err)
		}
	})
}

// apiPrefixes are the first segments of the paths that the API serves. The pages serve all other paths.
var apiPrefixes = []string{
	"api", "oauth2", "reference", "openapi.json", "openapi.yaml", "healthz", "readyz", "callbacks", ".well-known", "mcp",
}

// route sends requests to the API or the pages. Misspelled API paths such as //api/company and /API/company also go
// to the API, whose 404 is JSON, and so do paths without a page if the client expects JSON. Requests for unknown host
// names go to the API, which rejects them.
func route(
	hosts []string, api http.Handler, pages *ui.Server, compress func(http.Handler) http.HandlerFunc,
) http.Handler {
	compressed := compress(pages)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			// A proxy may interpret the end of this body differently, so a further request on this connection could be forged.
			w.Header().Set("Connection", "close")
		}
		first, rest, _ := strings.Cut(strings.ToLower(path.Clean("/" + r.URL.Path)[1:]), "/")
		if first == "terms" && rest != "" { // of an API; /terms is the page with the operator's
			api.ServeHTTP(w, r)
			return
		}
		if slices.Contains(apiPrefixes, first) || !httpapi.Serves(hosts, r) || expectsJSON(r) && !pages.Serves(r) {
			api.ServeHTTP(w, r)
			return
		}
		compressed.ServeHTTP(w, r)
	})
}

// expectsJSON reports whether a client asks for JSON rather than for a page.
func expectsJSON(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return strings.Contains(accept, "json") && !strings.Contains(accept, "text/html")
}

// hosts returns the host names of the public addresses. It returns none if no public address is configured.
func (c Config) hosts() []string {
	if c.BaseURL == "" {
		return nil
	}
	var names []string
	for _, text := range []string{c.BaseURL, c.AuthURL} {
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			names = append(names, u.Host)
		}
	}
	return names
}
