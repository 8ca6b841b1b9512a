// Package app puts the program together: the only package that sees all others.
//
// It owns the configuration, the wiring, the start and the orderly stop of a process, the table that says which job wakes
// whom, and the commands of the command line. It holds no rule of the business. A process has one or more roles: api serves
// requests, worker runs jobs, watcher follows the chain; all processes of a service share one database and nothing else.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/net/netutil"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/httpapi"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice/vendorbill"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/ratelimit"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/requestlog"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/sandbox/evmsim"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/web"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// BitcoinChain is the key of the Bitcoin chain's rows.
const BitcoinChain = "bitcoin"

// StopTimeout is how long an orderly stop may take. What is not done by then is done by the next start: jobs come back.
const StopTimeout = 30 * time.Second

// leaseFor is how long another process waits before it takes over from a watcher that is gone. It is longer than a pause
// between two looks; two watchers at once would only do the same work twice.
const leaseFor = 4 * time.Second

// The connections to PostgreSQL that each side of a process may have: requests that take all of theirs, or wait for a lock, hold up neither
// jobs nor the watching of chains, and the other way round.
const (
	connectionsOfFaces    = 12
	connectionsOfJobs     = 8
	connectionsOfWatchers = 4
)

// patience is how long what a request writes may wait for its turn. A statement waits three seconds for a lock, and then others begin.
const patience = 5 * time.Second

// Service is a running process.
type Service struct {
	cfg    Config
	log    *slog.Logger
	holder string // of leases

	db        *db.DB // of jobs and all that has no side of its own
	faces     *db.DB // the same for requests
	watching  *db.DB // the same for those who follow chains
	operators *backoffice.Service
	funding   *virtualaccount.Service
	sealer    *identity.Sealer
	kyc       *kyc.Service
	policy    delivery.Policy // where webhooks may be sent
	source    chain.Source
	witnesses []chain.Witness   // of Bitcoin's chain
	sim       *bitcoinsim.Chain // nil on a real chain
	evms      []EVMChain
	accounts  chain.EVMNetworks
	rates     *rates.Refresher
	lightning *lightning.Service // nil where it is not switched on
	metrics   *metrics
	requests  *requestlog.Log

	playedBank *bank.Sandbox // nil where a real one pays, and where no payouts are carried
	bankFolder string        // of this process alone, to be removed; "" without one

	data     *os.File     // locked while this process serves an embedded database
	listener net.Listener // of the faces
	servers  []*http.Server
	ready    Ready
	stopping atomic.Bool
	ending   chan struct{} // closed when it stops

	end       context.CancelFunc // of everything in the background
	work      sync.WaitGroup
	miner     *sandbox.Miner // of simulated chains
	watched   sync.Map       // by chain: an instant up to which it was seen, see checkChain
	standings atomic.Pointer[standings]
	failed    chan error
	stopOnce  sync.Once
	stopErr   error
}

// Ready is what a started process tells whoever started it.
type Ready struct {
	BaseURL     string        `json:"base_url"`
	AuthURL     string        `json:"auth_url"`
	MetricsURL  string        `json:"metrics_url"`
	Environment string        `json:"environment"`
	Seed        *sandbox.Seed `json:"seed,omitempty"` // sandbox only
	Database    string        `json:"-"`              // the engine
}

// Start starts a process. When it returns without an error, requests are served. ctx bounds the start only; Stop ends the
// process.
func Start(ctx context.Context, cfg Config, log *slog.Logger) (*Service, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	return run(ctx, cfg.Complete(), log)
}

// run is Start with settings that are complete and were looked at.
func run(ctx context.Context, cfg Config, log *slog.Logger) (*Service, error) {
	s := &Service{cfg: cfg, log: log, holder: uuid.NewString(), failed: make(chan error, 1), ending: make(chan struct{}), metrics: newMetrics()}
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	s.end = end
	if err := s.start(ctx, background); err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTimeout)
		defer cancel()
		return nil, errors.Join(err, s.Stop(stop))
	}
	log.Info("started", "environment", cfg.Env, "roles", cfg.Roles, "base_url", s.ready.BaseURL, "database", s.db.Engine().String(), "version", Version())
	return s, nil
}

// start does what Start says, in the order in which parts need each other.
func (s *Service) start(ctx, background context.Context) error {
	var err error
	if s.data, err = takeData(s.cfg.URL()); err != nil {
		return err
	}
	if err := s.openDatabase(ctx); err != nil {
		return err
	}
	if err := s.readSettings(); err != nil {
		return err
	}
	if err := s.openChain(); err != nil {
		return err
	}
	if err := s.openAccounts(ctx); err != nil {
		return err
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	s.miner = &sandbox.Miner{DB: s.watching, Holder: s.holder, Lease: leaseFor, Every: s.cfg.BlockInterval, Log: s.log}
	p, err := s.assemble()
	if err != nil {
		return err
	}
	if s.cfg.Env == Sandbox {
		if err := sandbox.WriteSeed(ctx, s.db, sandbox.SeedOptions{
			Sealer: s.sealer, Setup: s.setup(), FeeBps: s.cfg.FeeBps, PremiumBps: s.cfg.PremiumBps, ToleranceBps: s.cfg.ToleranceBps,
		}); err != nil {
			return fmt.Errorf("seed the sandbox: %w", err)
		}
	}
	if err := s.startRoles(ctx, background, p); err != nil {
		return err
	}
	return s.listen(ctx, background, p)
}

// openDatabase brings the schema up to this program. The server is noted before anything can be paid, and lost with another that takes
// its place.
func (s *Service) openDatabase(ctx context.Context) (err error) {
	if s.db, err = db.Open(ctx, db.Options{URL: s.cfg.URL(), AdjustableClock: s.cfg.Env == Sandbox, Connections: connectionsOfJobs}); err != nil {
		return err
	}
	if s.faces, err = s.db.WithPool(ctx, db.Options{Connections: connectionsOfFaces, QueueTimeout: patience}); err != nil {
		return err
	}
	if s.watching, err = s.db.WithPool(ctx, db.Options{Connections: connectionsOfWatchers}); err != nil {
		return err
	}
	if err := s.db.Migrate(ctx); err != nil {
		return err
	}
	return s.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := payout.PayoutsAllowed(ctx, tx, s.log)
		return err
	})
}

// startRoles starts what this process does in the background. Watchers come first: until a chain was seen, no address of it is given out.
func (s *Service) startRoles(ctx, background context.Context, p parts) error {
	if s.cfg.Has(RoleWatcher) {
		if err := s.startWatcher(ctx, background, p.keys); err != nil {
			return err
		}
		if s.sim != nil {
			if err := sandbox.FundOperator(ctx, s.db, s.sim, p.pool); err != nil {
				return fmt.Errorf("stock the sandbox: %w", err)
			}
		}
	}
	if s.cfg.Has(RoleWorker) {
		if err := s.startWorker(ctx, background, p); err != nil {
			return err
		}
	}
	s.work.Go(func() { s.followClock(background) })
	if s.cfg.Has(RoleAPI) {
		return s.readAhead(background, p.pool)
	}
	return nil
}

// readAhead fills what requests are answered from.
func (s *Service) readAhead(background context.Context, pool *chain.Pool) error {
	if err := pool.Start(background); err != nil {
		return err
	}
	if s.accounts.Pool != nil {
		if err := s.accounts.Pool.Start(background); err != nil {
			return err
		}
	}
	s.work.Go(func() {
		s.checkSearch(background)
	})
	return nil
}

// checkSearch warns when the search of recipients has no index.
func (s *Service) checkSearch(ctx context.Context) {
	err := s.faces.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		indexed, err := payee.SearchIsIndexed(ctx, tx)
		if err == nil && !indexed {
			s.log.Warn("searches of recipients are slow: PostgreSQL lacks the extension pg_trgm; see \"Search of recipients\" in docs/operating.md")
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.log.Warn("could not check the search index", "error", err)
	}
}

// takeData makes sure that no other process serves the same embedded database, until the file is closed: they would not hear of each
// other's work. Commands that only open it are welcome. Other databases have no such file.
func takeData(url string) (*os.File, error) {
	path, embedded := strings.CutPrefix(url, "sqlite:")
	if !embedded {
		return nil, nil
	}
	path = strings.TrimPrefix(path, "//")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	f, taken, err := lockFile(path + ".serving")
	if taken {
		return nil, fmt.Errorf("another process serves %s already; stop it, choose another --data-dir, or use PostgreSQL, which several processes share", path)
	}
	return f, err
}

// trouble logs an error that passes by itself.
func (s *Service) trouble(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		s.log.Warn(what, "error", err)
	}
}

// fail ends the process: an error that does not pass.
func (s *Service) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// open takes the address of the faces and settles how others reach it: mails carry links, so they wait for it.
func (s *Service) open(ctx context.Context) (err error) {
	s.ready = Ready{Database: s.db.Engine().String(), Environment: s.cfg.Env, BaseURL: s.cfg.BaseURL, AuthURL: s.cfg.AuthURL}
	if s.cfg.Has(RoleAPI) {
		if s.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.Listen); err != nil {
			return err
		}
		s.ready.BaseURL = cmp.Or(s.cfg.BaseURL, "http://"+s.listener.Addr().String())
	}
	s.ready.AuthURL = cmp.Or(s.cfg.AuthURL, s.ready.BaseURL)
	return nil
}

// listen serves the faces and the metrics.
func (s *Service) listen(ctx, background context.Context, p parts) error {
	if s.cfg.Env == Sandbox {
		seed := sandbox.DefaultSeed()
		s.ready.Seed = &seed
	}
	if s.cfg.Has(RoleAPI) {
		if err := s.serveFaces(background, p); err != nil {
			return err
		}
	}
	if s.cfg.MetricsListen == "" {
		return nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.MetricsListen)
	if err != nil {
		return err
	}
	s.serve(l, s.metrics.handler(s.db, s.chains()))
	s.ready.MetricsURL = "http://" + l.Addr().String() + "/metrics"
	return nil
}

// serveFaces serves the interface and the pages, which share an address, and the room for large bodies.
func (s *Service) serveFaces(background context.Context, p parts) error {
	proxies, err := prefixes(s.cfg.TrustedProxies)
	if err != nil {
		return err
	}
	data := httpapi.Deps{
		DB: s.faces, Now: time.Now, Log: s.log, Env: s.cfg.Env, BaseURL: s.ready.BaseURL, AuthURL: s.ready.AuthURL, Hosts: s.cfg.hosts(),
		Payroll: p.payroll, Claim: p.claims, Withdrawal: p.withdrawals, Vendor: &vendorbill.Service{Payroll: p.payroll, Sealer: s.sealer, Intake: s.kyc.Images},
		Sealer: s.sealer, KYC: s.kyc, Funding: s.funding, Webhooks: delivery.Setup{Sealer: s.sealer, Policy: s.policy},
		Reads: float64(s.cfg.ReadsPerSecond), Writes: float64(s.cfg.WritesPerSecond), Bodies: ratelimit.DefaultBodyBudget(),
		Ready: s.checkReady, Observe: s.metrics.observe, Requests: s.requests,
	}
	pages := ui.Deps{
		DB: s.faces, Now: time.Now, Log: s.log, Env: s.cfg.Env, BaseURL: s.ready.BaseURL, AuthURL: s.ready.AuthURL,
		Payroll: p.payroll, Claims: p.claims, Withdrawals: p.withdrawals, Backoffice: s.operators,
		Sealer: s.sealer, KYC: s.kyc, Webhooks: data.Webhooks, Bodies: data.Bodies, Observe: s.metrics.observe, Done: s.ending,
		Contract: identity.NewCompany{FeeBps: s.cfg.FeeBps, PremiumBps: s.cfg.PremiumBps, ToleranceBps: s.cfg.ToleranceBps},
	}
	if s.cfg.Env == Sandbox {
		world, err := s.newSandbox(p)
		if err != nil {
			return err
		}
		data.Sandbox, pages.Sandbox = world, world
		data.TryKey = s.ready.Seed.APIKey
		pages.SeededCompanies = []string{s.ready.Seed.CompanyID}
	}
	s.work.Go(func() { s.requests.Run(background) })
	open := s.listener
	if n := s.cfg.MaxConnections; n > 0 {
		open = netutil.LimitListener(open, n)
	}
	s.serve(open, clients(proxies, faces(data.Hosts, httpapi.New(data), web.New(pages))))
	return nil
}

// ofAPI are the first parts of the paths that the JSON face answers. The pages have the rest.
var ofAPI = []string{"api", "oauth2", "docs", "openapi.json", "openapi.yaml", "healthz", "readyz", "callbacks", ".well-known"}

// faces puts both faces behind one address.
func faces(hosts []string, data, pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 { // a proxy may have seen its end elsewhere: what follows on this connection is nobody's
			w.Header().Set("Connection", "close")
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if slices.Contains(ofAPI, first) || !httpapi.Serves(hosts, r) { // it refuses other hosts
			data.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// serve answers what comes in at a listener, and closes it in the end.
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

// chains are the keys of all that are followed.
func (s *Service) chains() []string {
	all := []string{BitcoinChain}
	for _, a := range s.evms {
		all = append(all, a.Network.Name)
	}
	return all
}

// checkReady says why no requests should be sent here.
func (s *Service) checkReady(ctx context.Context) error {
	if s.stopping.Load() {
		return errors.New("stopping")
	}
	return s.faces.Ping(ctx)
}

// Ready is what the process tells whoever started it.
func (s *Service) Ready() Ready { return s.ready }

// Wait runs until ctx ends or the process cannot go on, and stops it in order.
func (s *Service) Wait(ctx context.Context) error {
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-s.failed:
		s.log.Error("the service cannot go on", "error", failure)
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTimeout)
	defer cancel()
	return errors.Join(failure, s.Stop(stop))
}

// Stop ends the process in order: no new requests, the ones under way answered, jobs that have begun finished, the database
// closed. Stopping twice is harmless. When ctx ends first, the rest is cut off; nothing committed is lost.
func (s *Service) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() { s.stopErr = s.stop(ctx) })
	return s.stopErr
}

func (s *Service) stop(ctx context.Context) error {
	s.log.Info("stopping")
	s.stopping.Store(true)
	close(s.ending)
	var problems []error
	if s.listener != nil && len(s.servers) == 0 {
		s.listener.Close() // the start failed before anything served it
	}
	for _, server := range s.servers {
		if err := server.Shutdown(ctx); err != nil {
			problems = append(problems, fmt.Errorf("requests were cut off: %w", err), server.Close())
		}
	}
	s.end()
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		// Closing the database under a job at work is safe: its transaction fails and the job comes back.
		problems = append(problems, errors.New("work in the background was cut off"))
	}
	if s.db != nil {
		problems = append(problems, s.db.Close())
	}
	if s.data != nil {
		problems = append(problems, s.data.Close())
	}
	if s.bankFolder != "" {
		problems = append(problems, os.RemoveAll(s.bankFolder))
	}
	s.log.Info("stopped")
	return errors.Join(problems...)
}

// DB returns the database of the process, for checks of a service that runs in the same process.
func (s *Service) DB() *db.DB { return s.db }

// Migrate brings the schema of a database up to date and returns the name of its engine.
func Migrate(ctx context.Context, at Storage) (engine string, err error) {
	data, err := takeData(at.URL())
	if err != nil {
		return "", err
	}
	if data != nil {
		defer data.Close()
	}
	d, err := db.Open(ctx, db.Options{URL: at.URL()})
	if err != nil {
		return "", err
	}
	defer d.Close()
	return d.Engine().String(), d.Migrate(ctx)
}

// newSandbox makes what acts as the outside world of a sandbox.
func (s *Service) newSandbox(p parts) (*sandbox.Sandbox, error) {
	simulated := map[string]*evmsim.Chain{}
	for _, a := range s.evms {
		if a.Sim != nil {
			simulated[a.Network.Name] = a.Sim
		}
	}
	return sandbox.New(sandbox.Options{
		DB: s.db, Payroll: p.payroll, Claims: p.claims, Miner: s.miner, BitcoinChain: BitcoinChain, BitcoinNetwork: s.cfg.BitcoinNetwork,
		Bitcoin: s.sim, Accounts: s.accounts, EVM: simulated, SimulatedBank: s.cfg.BankDir == "" && s.cfg.BankSFTP == "",
	})
}
