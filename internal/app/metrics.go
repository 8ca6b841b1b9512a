package app

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/monitor"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/httpapi"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/screening"
)

// metrics are the metrics of a process.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	skew     atomic.Int64 // nanoseconds, see followClock
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stipend_request_seconds", Help: "Time to answer a request, by route and status.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"method", "route", "status"}),
	}
	skew := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stipend_clock_skew_seconds", Help: "By how much the database server's clock is ahead of this process's.",
	}, func() float64 { return time.Duration(m.skew.Load()).Seconds() })
	m.registry.MustRegister(m.requests, skew, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) observe(method, route string, status int, took time.Duration) {
	m.requests.WithLabelValues(method, route, strconv.Itoa(status)).Observe(took.Seconds())
}

// serveMonitoring serves the metrics at /metrics, and /healthz and /readyz apart from the connections of clients.
func (s *Service) serveMonitoring(chains []string) http.Handler {
	m := s.metrics
	m.registry.MustRegister(stored{s.db, chains})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, httpapi.Healthy)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		body, err := httpapi.Readiness(r.Context(), s.checkReady, s.problems)
		if err != nil {
			s.log.Warn("not ready", "error", err)
			writeJSON(w, http.StatusServiceUnavailable, `{"status":"not_ready"}`)
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
	_, _ = io.WriteString(w, body) // the client may be gone
}

// maxHits bounds the number of open hits that is reported.
const maxHits = 1000

// stored collects metrics from the database.
type stored struct {
	d      *db.DB
	chains []string
}

// gauge returns the description of a metric.
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
)

// Describe implements prometheus.Collector.
func (stored) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		jobsWaiting, jobsDead, chainHeight, chainTip, chainAlarm, chainWatched, listWritten, hitsOpen,
		differing, owing,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. It leaves out the metrics that a database without an answer has.
func (c stored) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	send := func(d *prometheus.Desc, value float64, labels ...string) {
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
		if err == nil {
			send(owing, float64(len(debts)))
		}
		return err
	})
}

func sendChain(send func(*prometheus.Desc, float64, ...string), name string, state chain.Health) {
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
