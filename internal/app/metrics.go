package app

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/monitor"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/httpapi"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/onchain"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// metrics are the metrics of a process.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	jobs     *prometheus.HistogramVec
	webhooks *prometheus.HistogramVec
	batches  prometheus.Histogram // number of functions in a shared commit
	commits  prometheus.Histogram // duration of a shared commit
	skew     atomic.Int64         // in nanoseconds; see followClock
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stipend_request_seconds", Help: "Time to answer a request, by route and status.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"method", "route", "status"}),
		jobs: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stipend_job_seconds", Help: "Time to run a job, by kind and outcome: succeeded or failed.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60},
		}, []string{"kind", "outcome"}),
		webhooks: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stipend_webhook_seconds", Help: "Time of an attempt to deliver an event, by outcome.",
			Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 15},
		}, []string{"outcome"}),
		batches: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "stipend_commit_functions", Help: "Write functions that shared a commit.",
			Buckets: []float64{1, 2, 4, 8, 16, 32, 64},
		}),
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "stipend_commit_seconds", Help: "Time to execute and commit a batch of write functions.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5},
		}),
	}
	skew := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stipend_clock_skew_seconds", Help: "By how much the database server's clock is ahead of this process's.",
	}, func() float64 { return time.Duration(m.skew.Load()).Seconds() })
	b := ReadBuild()
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stipend_build_info", Help: "1, with the version and the commit of the program.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit},
	}, func() float64 { return 1 })
	m.registry.MustRegister(m.requests, m.jobs, m.webhooks, m.batches, m.commits, skew, build, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) observe(ctx context.Context, method, route string, status int, took time.Duration) {
	observeWith(ctx, m.requests.WithLabelValues(method, route, strconv.Itoa(status)), took)
}

// observeWith adds a duration to a histogram. If the work is traced, it adds the ID of the trace as an exemplar.
func observeWith(ctx context.Context, h prometheus.Observer, took time.Duration) {
	span := trace.SpanContextFromContext(ctx)
	if with, ok := h.(prometheus.ExemplarObserver); ok && span.IsSampled() {
		with.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": span.TraceID().String()})
		return
	}
	h.Observe(took.Seconds())
}

// observeRequest records a request whose route is known.
func (s *Service) observeRequest(ctx context.Context, method, route string, status int, took time.Duration) {
	s.tracing.request(ctx, method, route, status)
	s.metrics.observe(ctx, method, route, status, took)
}

// observeJobs records the duration of jobs of a kind. Jobs that share a transaction count as equal parts of its
// duration.
func (s *Service) observeJobs(ctx context.Context, kind string, jobs int) (context.Context, func(outcome string)) {
	return s.tracing.work(ctx, trace.SpanKindInternal, "job "+kind,
		func(ctx context.Context, outcome string, took time.Duration) {
			if outcome == "split" { // the jobs will run one by one
				return
			}
			for range jobs {
				observeWith(ctx, s.metrics.jobs.WithLabelValues(kind, outcome), took/time.Duration(jobs))
			}
		})
}

// observeDelivery records an attempt to deliver an event.
func (s *Service) observeDelivery(ctx context.Context) (context.Context, func(outcome string)) {
	return s.tracing.work(ctx, trace.SpanKindClient, "deliver event",
		func(ctx context.Context, outcome string, took time.Duration) {
			observeWith(ctx, s.metrics.webhooks.WithLabelValues(outcome), took)
		})
}

func (m *metrics) observeBatch(functions int, took time.Duration) {
	m.batches.Observe(float64(functions))
	m.commits.Observe(took.Seconds())
}

// serveMonitoring returns a handler for the metrics at /metrics, and for /healthz and /readyz, at an address separate
// from that of clients.
func (s *Service) serveMonitoring(chains []string) http.Handler {
	m := s.metrics
	m.registry.MustRegister(stored{s.db, chains}, pools{"jobs": s.db, "requests": s.requestDB, "watchers": s.watcherDB})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, httpapi.Healthy)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		body, err := httpapi.Readiness(r.Context(), s.checkReady, s.problems)
		if err != nil {
			s.log.Warn("not ready", "error", err)
			// Clients of the API do not see the reason; only the operator uses this address.
			reason, _ := json.Marshal(err.Error()) // encoding a string never fails
			writeJSON(w, http.StatusServiceUnavailable, `{"status":"not_ready","reason":`+string(reason)+`}`)
			return
		}
		writeJSON(w, http.StatusOK, string(body))
	})
	return mux
}

func writeJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the client may have disconnected
}

// maxHits is the largest number of open sanctions matches that is reported.
const maxHits = 1000

// stored collects the metrics that are read from the database.
type stored struct {
	d      *db.DB
	chains []string
}

// gauge returns the description of a gauge metric.
func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("stipend_"+name, help, labels, nil)
}

var (
	jobsWaiting  = gauge("jobs_waiting", "Jobs that are not done, including those scheduled for later.")
	jobsDead     = gauge("jobs_dead", "Jobs that failed too often and are not retried.")
	chainHeight  = gauge("chain_height", "Height of the last block that was read.", "chain")
	chainTip     = gauge("chain_tip_seconds", "When the last block was made, in seconds since 1970.", "chain")
	chainAlarm   = gauge("chain_alarm", "1 while an alarm of the chain is raised.", "chain", "alarm")
	chainWatched = gauge("chain_watched_seconds", "Time up to which the chain was seen, in seconds since 1970.", "chain")
	listWritten  = gauge("sanctions_list_written_seconds",
		"When a sanctions list in use was last written, in seconds since 1970.", "list")
	hitsOpen  = gauge("screening_hits_open", "Hits on sanctions lists that wait for a decision, at most 1000.")
	differing = gauge("ledger_differences", "Accounts that are frozen because their balance differs from their lines.")
	owing     = gauge("debts", "Debts of companies after received money was reversed.")

	jobsByKind = gauge("jobs", "Jobs that are not done, by kind and state: waiting or dead.", "kind", "state")
	jobDue     = gauge("job_due_seconds",
		"When the oldest waiting job of a kind was due, or will be, in seconds since 1970.", "kind")
	payrolls = gauge("payrolls", "Payrolls for which something is still to be done, by state.", "state")
	payouts  = gauge("payouts", "Payouts that are not finished, by rail and state.", "rail", "state")
	oldest   = gauge("payout_oldest_seconds",
		"When the oldest unfinished payout of a rail and state was queued, in seconds since 1970.", "rail", "state")
	paused          = gauge("payouts_paused", "1 while payouts are paused.")
	refusals        = gauge("signer_refusals", "Payouts and transactions that the signer currently refuses.")
	webhooksWaiting = gauge("webhooks_waiting", "Deliveries of events that wait for an attempt.")
	webhookOldest   = gauge("webhook_oldest_seconds",
		"When the oldest waiting delivery was created, in seconds since 1970.")
	priceObserved  = gauge("price_observed_seconds", "When the newest price was observed, in seconds since 1970.")
	reconciled     = gauge("reconciliation_seconds", "When the ledger was last compared, in seconds since 1970.")
	reconciledWith = gauge("reconciliation_differences", "Differences that the last comparison of the ledger found.")
	auditEntries   = gauge("audit_entries", "Entries of the audit log of staff.")

	connections = gauge("db_connections", "Connections to the database, by pool and state: in_use, idle or max.", "pool",
		"state")
	connectionWaits = prometheus.NewDesc("stipend_db_waits_total", "Acquisitions of a connection that had to wait.",
		[]string{"pool"}, nil)
	connectionWaited = prometheus.NewDesc("stipend_db_wait_seconds_total", "Time that was waited for connections.",
		[]string{"pool"}, nil)
	writing = gauge("db_writes", "Writes in progress or waiting for a commit.", "pool")
)

// pools collects the state of the connections of each database handle. Its keys describe the use of the handles.
type pools map[string]*db.DB

// Describe implements prometheus.Collector.
func (pools) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connections, connectionWaits, connectionWaited, writing} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. On SQLite all handles are the same, so it reports only one.
func (p pools) Collect(ch chan<- prometheus.Metric) {
	seen := map[*db.DB]bool{}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		d := p[name]
		if seen[d] {
			continue
		}
		seen[d] = true
		s := d.Stats()
		for state, n := range map[string]int{"in_use": s.InUse, "idle": s.Idle, "max": s.Max} {
			ch <- prometheus.MustNewConstMetric(connections, prometheus.GaugeValue, float64(n), name, state)
		}
		ch <- prometheus.MustNewConstMetric(connectionWaits, prometheus.CounterValue, float64(s.Waits), name)
		ch <- prometheus.MustNewConstMetric(connectionWaited, prometheus.CounterValue, s.Waited.Seconds(), name)
		ch <- prometheus.MustNewConstMetric(writing, prometheus.GaugeValue, float64(s.Writing), name)
	}
}

// Describe implements prometheus.Collector.
func (stored) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		jobsWaiting, jobsDead, chainHeight, chainTip, chainAlarm, chainWatched, listWritten, hitsOpen,
		differing, owing, jobsByKind, jobDue, payrolls, payouts, oldest, paused, refusals, webhooksWaiting, webhookOldest,
		priceObserved, reconciled, reconciledWith, auditEntries,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. If the database does not respond, it omits the metrics.
func (c stored) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var send sender = func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	_ = c.d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		pending, dead, err := job.Count(ctx, tx)
		if err != nil {
			return err
		}
		send(jobsWaiting, float64(pending))
		send(jobsDead, float64(dead))
		standings, err := chain.LoadHealth(ctx, tx)
		if err != nil {
			return err
		}
		for _, name := range c.chains {
			if state, ok := standings[name]; ok {
				sendChain(send, name, state)
			}
			if height, _, err := chain.Tip(ctx, tx, name); err == nil {
				send(chainHeight, float64(height), name)
			}
			if at, err := monitor.SeenUntil(name)(ctx, tx); err == nil && !at.IsZero() {
				send(chainWatched, float64(at.UnixMicro())/1e6, name)
			}
		}
		lists, err := screening.InUse(ctx, tx)
		if err != nil {
			return err
		}
		for _, l := range lists {
			if !l.Fetched.IsZero() {
				send(listWritten, float64(l.Fetched.Unix()), filepath.Base(l.Path))
			}
		}
		open, err := screening.Hits(ctx, tx, screening.Open, maxHits)
		if err != nil {
			return err
		}
		send(hitsOpen, float64(len(open)))
		frozen, err := ledger.Differences(ctx, tx)
		if err != nil {
			return err
		}
		send(differing, float64(len(frozen)))
		debts, err := ledger.Debts(ctx, tx)
		if err != nil {
			return err
		}
		send(owing, float64(len(debts)))
		if err := sendBacklogs(ctx, tx, send); err != nil {
			return err
		}
		return sendOperations(ctx, tx, send)
	})
}

// sender sends the value of a metric with its labels to Prometheus.
type sender func(*prometheus.Desc, float64, ...string)

// at sends a time as the value of a metric, unless the time is zero.
func (send sender) at(d *prometheus.Desc, t time.Time, labels ...string) {
	if !t.IsZero() {
		send(d, float64(t.UnixMicro())/1e6, labels...)
	}
}

// sendBacklogs sends metrics of waiting jobs, payrolls, payouts and webhooks.
func sendBacklogs(ctx context.Context, tx *db.Tx, send sender) error {
	backlogs, err := job.Backlogs(ctx, tx)
	if err != nil {
		return err
	}
	for _, b := range backlogs {
		send(jobsByKind, float64(b.Waiting), b.Kind, "waiting")
		send(jobsByKind, float64(b.Dead), b.Kind, "dead")
		send.at(jobDue, b.Due, b.Kind)
	}
	open, err := payroll.OpenCounts(ctx, tx)
	if err != nil {
		return err
	}
	for _, state := range []payroll.State{
		payroll.Pending, payroll.Received, payroll.Released, payroll.OnHold, payroll.PartiallyFulfilled,
		payroll.ActionRequired, payroll.Returned,
	} {
		send(payrolls, float64(open[state]), string(state))
	}
	outputs, err := payout.OpenCounts(ctx, tx)
	if err != nil {
		return err
	}
	for _, o := range outputs {
		send(payouts, float64(o.Outputs), string(o.Rail), string(o.State))
		send.at(oldest, o.QueuedAt, string(o.Rail), string(o.State))
	}
	waiting, since, err := delivery.Backlog(ctx, tx)
	if err != nil {
		return err
	}
	send(webhooksWaiting, float64(waiting))
	send.at(webhookOldest, since)
	return nil
}

// sendOperations sends metrics that show whether payouts are paused, and the ages of prices and of the last
// comparison of the ledger.
func sendOperations(ctx context.Context, tx *db.Tx, send sender) error {
	reason, err := payout.Paused(ctx, tx)
	if err != nil {
		return err
	}
	stopped := 0.0
	if reason != "" {
		stopped = 1
	}
	send(paused, stopped)
	refused, err := onchain.Refusals(ctx, tx)
	if err != nil {
		return err
	}
	send(refusals, float64(refused))
	prices, err := rates.List(ctx, tx)
	if err != nil {
		return err
	}
	var newest time.Time
	for _, p := range prices {
		if p.ObservedAt.After(newest) {
			newest = p.ObservedAt
		}
	}
	send.at(priceObserved, newest)
	reports, err := backoffice.Reports(ctx, tx, 1)
	if err != nil {
		return err
	}
	for _, r := range reports {
		send.at(reconciled, r.At)
		send(reconciledWith, float64(len(r.Differences)))
	}
	entries, err := backoffice.AuditEntries(ctx, tx)
	send(auditEntries, float64(entries))
	return err
}

func sendChain(send sender, name string, state chain.Health) {
	if !state.TipTime.IsZero() {
		send(chainTip, float64(state.TipTime.Unix()), name)
	}
	for _, a := range chain.Alarms {
		raised := 0.0
		if slices.Contains(state.Alarms, a) {
			raised = 1
		}
		send(chainAlarm, raised, name, string(a))
	}
}

// followReplica registers the metric of the continuous copy of the database.
func (m *metrics) followReplica(copied func() time.Time) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stipend_replica_seconds",
		Help: "Time at which everything that was committed before was in the replica (--replicate-to), 0 before the first.",
	}, func() float64 {
		at := copied()
		if at.IsZero() {
			return 0
		}
		return float64(at.UnixMilli()) / 1000
	}))
}
