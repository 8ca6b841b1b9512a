package app

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
)

// StartUnchecked is Start without Config.Check, for configurations that only tests use.
var StartUnchecked = startUnchecked

// RequestConnections is the number of connections that requests may use.
const RequestConnections = connectionsOfRequests

// CheckInterval returns the interval between checks for due work.
func (c Config) CheckInterval() time.Duration { return c.checkInterval() }

// MetricNames returns the names of the metrics that a process may serve.
func MetricNames() (names []string) {
	descriptions := make(chan *prometheus.Desc, 1000)
	m := newMetrics()
	for _, c := range []prometheus.Collector{m.requests, m.jobs, m.webhooks, m.batches, m.commits, stored{}, pools{}} {
		c.Describe(descriptions)
	}
	close(descriptions)
	for d := range descriptions {
		_, name, _ := strings.Cut(d.String(), `fqName: "`)
		name, _, _ = strings.Cut(name, `"`)
		names = append(names, name)
	}
	return append(names, "stipend_clock_skew_seconds", "stipend_build_info", "stipend_replica_seconds")
}

// SetStopping makes the service answer as if it began or had not begun to stop.
func (s *Service) SetStopping(stopping bool) { s.stopping.Store(stopping) }

// SetSkew sets the clock difference as if the service had just measured it.
func (s *Service) SetSkew(skew time.Duration) { s.setSkew(skew) }

// EVM returns the networks in use.
func (s *Service) EVM() []EVMChain { return s.evms }

// Sources returns what the service compares the ledger with.
func (s *Service) Sources() backoffice.Sources {
	w, _ := s.sources()
	return w
}

// BackOffice returns the service of the operator's staff.
func (s *Service) BackOffice() *backoffice.Service { return s.backoffice }

// Sealer returns the sealer that encrypts stored secrets.
func (s *Service) Sealer() *identity.Sealer { return s.sealer }

// Pools returns the handles to the database, each with connections of its own.
func (s *Service) Pools() []*db.DB { return []*db.DB{s.db, s.requestDB, s.watcherDB} }

// Servers returns the HTTP servers.
func (s *Service) Servers() []*http.Server { return s.servers }

// Bitcoin returns the simulated chain.
func (s *Service) Bitcoin() *bitcoinsim.Chain { return s.sim }

// Miner returns the miner of the simulated chains.
func (s *Service) Miner() *sandbox.Miner { return s.miner }

// ImageDecoder returns the decoder of images under a configuration.
func ImageDecoder(c Config) *kyc.ImageDecoder { return c.imageDecoder() }

// PruneExpired deletes the data whose period is over, as the periodic job does.
func PruneExpired(ctx context.Context, d *db.DB, keep map[string]int) error {
	return Retention{Keep: keep}.pruneExpired(ctx, d)
}
