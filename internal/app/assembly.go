package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/monitor"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/treasury"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// Outside replaces connections of a process to the outside world. A nil field replaces nothing.
type Outside struct {
	Statements db.Intercept        // wraps the statements on SQLite
	Bitcoin    chain.Source        // the Bitcoin node
	EVM        map[string]evm.Node // nodes of EVM networks, by name of the network
	Webhooks   http.RoundTripper   // sends webhooks
}

// Assembly is a process that does nothing by itself: its caller runs its parts in an order that the caller chooses.
// It has no listener and no loops. A simulation runs the service in this way.
type Assembly struct {
	Handler  http.Handler                 // the API and the pages
	Jobs     *job.Runner                  // jobs and periodic work
	Hooks    *delivery.Sender             // webhooks
	Watchers map[string]*monitor.Follower // watchers of the chains, by name; BitcoinChain is the name of Bitcoin

	s *Service
}

// Assemble makes the parts of a process as [Start] does. holder identifies the process as the holder of leases.
func Assemble(ctx context.Context, cfg Config, log *slog.Logger, holder string, w Outside) (*Assembly, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg.Complete(), outside: w, log: log, holder: holder, end: func() {}, ending: make(chan struct{}),
		failed: make(chan error, 1),
	}
	a := &Assembly{s: s}
	if err := a.assemble(ctx); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func (a *Assembly) assemble(ctx context.Context) (err error) {
	s := a.s
	s.metrics = newMetrics()
	if s.tracing, err = startTracing(ctx, ""); err != nil {
		return err
	}
	if err := s.openDatabase(ctx); err != nil {
		return err
	}
	base := cmp.Or(s.cfg.BaseURL, "http://127.0.0.1")
	s.ready = Ready{Database: s.db.Engine().String(), Environment: s.cfg.Env, BaseURL: base, AuthURL: base}
	if err := s.build(ctx); err != nil {
		return err
	}
	if err := s.writeSeed(ctx); err != nil {
		return err
	}
	w, err := s.bitcoinWatcher()
	if err != nil {
		return err
	}
	a.Watchers = map[string]*monitor.Follower{BitcoinChain: s.monitor.Follower(BitcoinChain, w)}
	for _, x := range s.evms {
		a.Watchers[x.Network.Name] = s.monitor.Follower(x.Network.Name, s.evmWatcher(x))
	}
	if a.Jobs, a.Hooks, err = s.buildWorker(ctx, ctx); err != nil {
		return err
	}
	a.Handler, err = s.buildHandler(nil)
	return err
}

// DB returns the database of the process.
func (a *Assembly) DB() *db.DB { return a.s.db }

// WriteRequestLog writes the buffered entries of the request log to the database.
func (a *Assembly) WriteRequestLog(ctx context.Context) { a.s.requests.Flush(ctx) }

// OperatorAddress returns a Bitcoin address that belongs to the operator.
func (a *Assembly) OperatorAddress(ctx context.Context) (address string, err error) {
	err = a.s.db.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		address, err = treasury.OperatorAddress(ctx, tx, a.s.pool)
		return err
	})
	return address, err
}

// Close closes the database.
func (a *Assembly) Close() error {
	if a.s.db == nil {
		return nil
	}
	if err := a.s.db.Close(); err != nil {
		return fmt.Errorf("close the database: %w", err)
	}
	return nil
}
