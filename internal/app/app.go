// Package app assembles the program. Only this package imports all others.
//
// It owns the configuration, the order in which the parts are constructed, the start and the orderly stop of a
// process, and the table of jobs. It contains no business rules. A process has one or more roles: api serves
// requests, worker runs jobs, and watcher follows the chains. All processes of a service share one database and
// nothing else.
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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/replica"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/sandbox"
)

// BitcoinChain is the name of the Bitcoin chain in the database.
const BitcoinChain = "bitcoin"

// StopTimeout is the time limit of an orderly stop. Interrupted jobs run again after the next start.
const StopTimeout = 30 * time.Second

// leaseFor is how long leases last. After this time another process takes over the work of a process that has died.
const leaseFor = 4 * time.Second

// Sizes of the PostgreSQL connection pools of requests, jobs and watchers. They are separate, so that none can use up
// the connections of another.
const (
	connectionsOfRequests = 12
	connectionsOfJobs     = 8
	connectionsOfWatchers = 4
)

// requestQueueTimeout is the longest time that a request's write waits in the queue. It is longer than the three
// seconds that a statement waits for a lock, so that writes queued behind such a statement still run.
const requestQueueTimeout = 5 * time.Second

// Service is a running process.
type Service struct {
	parts // made by the constructors

	cfg     Config
	outside Outside // replaced connections, in a simulation
	log     *slog.Logger
	holder  string // identifies this process as the holder of leases

	ready    Ready
	listener net.Listener // for the API and the pages
	servers  []*http.Server
	replica  *replica.Replica // nil if the database is not copied
	data     *os.File         // locked while this process serves an embedded database

	stopping atomic.Bool
	ending   chan struct{} // closed when the process begins to stop
	end      context.CancelFunc
	work     sync.WaitGroup // background goroutines
	failed   chan error
	stopOnce sync.Once
	stopErr  error
}

// Ready describes a process that was started.
type Ready struct {
	BaseURL     string        `json:"base_url"`
	AuthURL     string        `json:"auth_url"`
	MetricsURL  string        `json:"metrics_url"`
	Environment string        `json:"environment"`
	Seed        *sandbox.Seed `json:"seed,omitempty"` // sandbox only
	Database    string        `json:"-"`              // database engine
}

// Start starts a process. When it returns without an error, the process serves requests. ctx applies only to the
// start; Stop stops the process.
func Start(ctx context.Context, cfg Config, log *slog.Logger) (*Service, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	return startUnchecked(ctx, cfg.Complete(), log)
}

// startUnchecked is like Start, for a configuration that has been completed and checked.
func startUnchecked(ctx context.Context, cfg Config, log *slog.Logger) (*Service, error) {
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &Service{
		cfg: cfg, log: log, holder: uuid.NewString(), end: end, ending: make(chan struct{}), failed: make(chan error, 1),
	}
	if err := s.start(ctx, background); err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTimeout)
		defer cancel()
		return nil, errors.Join(err, s.Stop(stop))
	}
	for _, warning := range cfg.Warnings() {
		log.Warn(warning)
	}
	log.Info("started", "environment", cfg.Env, "roles", cfg.Roles, "base_url", s.ready.BaseURL,
		"database", s.db.Engine().String(), "version", Version())
	return s, nil
}

// start makes the parts of the process and starts its roles. Watchers start first, because no address on a chain is
// issued until the chain has been seen.
func (s *Service) start(ctx, background context.Context) (err error) {
	if s.data, err = lockDatabase(s.cfg.URL()); err != nil {
		return err
	}
	s.metrics = newMetrics()
	if s.tracing, err = startTracing(ctx, s.cfg.OTLPEndpoint); err != nil {
		return err
	}
	if err := s.openDatabase(ctx); err != nil {
		return err
	}
	if err := s.listen(ctx); err != nil {
		return err
	}
	if err := s.build(ctx); err != nil {
		return err
	}
	if err := s.writeSeed(ctx); err != nil {
		return err
	}
	if s.cfg.Has(RoleWatcher) {
		if err := s.startWatchers(ctx, background); err != nil {
			return err
		}
	}
	if s.cfg.Has(RoleWorker) {
		if err := s.startWorker(ctx, background); err != nil {
			return err
		}
	}
	s.work.Go(func() { s.followClock(background) })
	s.followBalances(background)
	if s.cfg.Has(RoleAPI) {
		if err := s.startAPI(background); err != nil {
			return err
		}
	}
	return s.serveMetrics(ctx)
}

// writeSeed writes the initial data of a sandbox.
func (s *Service) writeSeed(ctx context.Context) error {
	if s.cfg.Env != Sandbox {
		return nil
	}
	if err := sandbox.WriteSeed(ctx, s.db, sandbox.SeedOptions{
		Sealer: s.sealer, Setup: s.setup(),
		FeeBps: s.cfg.FeeBps, PremiumBps: s.cfg.PremiumBps, ToleranceBps: s.cfg.ToleranceBps,
	}); err != nil {
		return fmt.Errorf("seed the sandbox: %w", err)
	}
	seed := sandbox.DefaultSeed()
	s.ready.Seed = &seed
	return nil
}

// openDatabase connects to the database and migrates its schema. It records the identity of the server before any
// payment can be made, so that payouts stop if another server takes its place.
func (s *Service) openDatabase(ctx context.Context) (err error) {
	if s.db, err = db.Open(ctx, db.Options{
		URL: s.cfg.URL(), AdjustableClock: s.cfg.Env == Sandbox, Connections: connectionsOfJobs,
		ObserveBatch: s.metrics.observeBatch, Tracer: s.tracing.statements(), Intercept: s.outside.Statements,
	}); err != nil {
		return err
	}
	if s.requestDB, err = s.db.WithPool(ctx, db.Options{
		Connections: connectionsOfRequests, QueueTimeout: requestQueueTimeout,
	}); err != nil {
		return err
	}
	if s.watcherDB, err = s.db.WithPool(ctx, db.Options{Connections: connectionsOfWatchers}); err != nil {
		return err
	}
	if err := s.db.Migrate(ctx); err != nil {
		return err
	}
	if err := s.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := payout.PayoutsAllowed(ctx, tx, s.log)
		return err
	}); err != nil {
		return err
	}
	return s.replicate(ctx)
}

// replicate starts the continuous copy of an embedded database, if it is configured.
func (s *Service) replicate(ctx context.Context) (err error) {
	if s.cfg.ReplicateTo == "" {
		return nil
	}
	path := strings.TrimPrefix(strings.TrimPrefix(s.cfg.URL(), "sqlite:"), "//")
	if s.replica, err = replica.Start(context.WithoutCancel(ctx), s.db, path, s.cfg.ReplicateTo, s.log); err != nil {
		return err
	}
	s.metrics.followReplica(s.replica.Copied)
	return nil
}

// lockDatabase ensures that no other process serves the same embedded database until the returned file is closed,
// because such processes would not notice each other's work. It does not affect commands that only open the database.
// For other databases it returns no file.
func lockDatabase(url string) (*os.File, error) {
	path, embedded := strings.CutPrefix(url, "sqlite:")
	if !embedded {
		return nil, nil
	}
	path = strings.TrimPrefix(path, "//")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	f, locked, err := lockFile(path + ".serving")
	if locked {
		return nil, fmt.Errorf("another process serves %s already; stop it, choose another --data-dir, or use PostgreSQL, "+
			"which several processes share", path)
	}
	return f, err
}

// listen opens the listener of the API and determines the address at which clients reach it. It is called before any
// mail is written, because mails contain links.
func (s *Service) listen(ctx context.Context) (err error) {
	s.ready = Ready{
		Database: s.db.Engine().String(), Environment: s.cfg.Env, BaseURL: s.cfg.BaseURL, AuthURL: s.cfg.AuthURL,
	}
	if s.cfg.Has(RoleAPI) {
		if s.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.Listen); err != nil {
			return err
		}
		s.ready.BaseURL = cmp.Or(s.cfg.BaseURL, "http://"+s.listener.Addr().String())
	}
	s.ready.AuthURL = cmp.Or(s.cfg.AuthURL, s.ready.BaseURL)
	return nil
}

// warn logs an error that may be transient.
func (s *Service) warn(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		s.log.Warn(what, "error", err)
	}
}

// fail stops the process because of an error that would occur again.
func (s *Service) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// checkReady returns an error if this process should not receive requests.
func (s *Service) checkReady(ctx context.Context) error {
	if s.stopping.Load() {
		return errors.New("stopping")
	}
	if err := s.requestDB.Ping(ctx); err != nil {
		return fmt.Errorf("the database does not answer: %w", err)
	}
	return nil
}

// problems returns the problems that staff must investigate, such as frozen accounts.
func (s *Service) problems(ctx context.Context) (found []string, err error) {
	err = s.requestDB.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		found = nil
		frozen, err := ledger.Differences(ctx, tx)
		if len(frozen) > 0 {
			found = append(found, "ledger_differences")
		}
		return err
	})
	return found, err
}

// Ready returns the description of the process.
func (s *Service) Ready() Ready { return s.ready }

// DB returns the database of the process, for checks in the same process.
func (s *Service) DB() *db.DB { return s.db }

// Wait waits until ctx is done or the process fails, and then stops the process.
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

// Stop stops the process in order: it accepts no new requests, answers requests in progress, finishes running jobs
// and closes the database. When ctx is done, it interrupts what still runs; no committed data is lost. Calling Stop
// again has no effect.
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
		s.listener.Close() // the start failed before a server took over the listener
	}
	for _, server := range s.servers {
		if err := server.Shutdown(ctx); err != nil {
			problems = append(problems, fmt.Errorf("requests were interrupted: %w", err), server.Close())
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
		// Closing the database while a job runs is safe: the job's transaction fails, and the job runs again later.
		problems = append(problems, errors.New("background work was interrupted"))
	}
	if s.db != nil {
		problems = append(problems, s.db.Close())
	}
	if s.replica != nil { // copies the last transactions
		problems = append(problems, s.replica.Close(ctx))
	}
	if s.data != nil {
		problems = append(problems, s.data.Close())
	}
	s.warn(ctx, "the last traces were not sent", s.tracing.stop(ctx))
	s.log.Info("stopped")
	return errors.Join(problems...)
}

// Migrate migrates the schema of a database and returns the name of its engine.
func Migrate(ctx context.Context, at Storage) (engine string, err error) {
	data, err := lockDatabase(at.URL())
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
