package app

import (
	"context"
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
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/screening"
)

// metrics are the figures of a process.
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
	m.registry.MustRegister(m.requests, skew, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) observe(method, route string, status int, took time.Duration) {
	m.requests.WithLabelValues(method, route, strconv.Itoa(status)).Observe(took.Seconds())
}

// handler serves the figures at /metrics.
func (m *metrics) handler(d *db.DB, chains []string) http.Handler {
	m.registry.MustRegister(rows{d, chains})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	return mux
}

// maxHits bounds the count of open hits.
const maxHits = 1000

// rows are figures that stand in the database, read when they are asked for.
type rows struct {
	d      *db.DB
	chains []string
}

var (
	descDue     = prometheus.NewDesc("stipend_jobs_waiting", "Jobs that are not done, those for later included.", nil, nil)
	descDead    = prometheus.NewDesc("stipend_jobs_dead", "Jobs that failed too often and are not retried.", nil, nil)
	descHeight  = prometheus.NewDesc("stipend_chain_height", "Last block that was looked at.", []string{"chain"}, nil)
	descList    = prometheus.NewDesc("stipend_sanctions_list_written_seconds", "When a sanctions list in use was last written, in seconds since 1970.", []string{"list"}, nil)
	descHits    = prometheus.NewDesc("stipend_screening_hits_open", "Hits on sanctions lists that wait for a person, at most 1000.", nil, nil)
	descTip     = prometheus.NewDesc("stipend_chain_tip_seconds", "When the last block was made, in seconds since 1970.", []string{"chain"}, nil)
	descAlarm   = prometheus.NewDesc("stipend_chain_alarm", "1 while an alarm of the chain stands.", []string{"chain", "alarm"}, nil)
	descWatched = prometheus.NewDesc("stipend_chain_watched_seconds", "Instant up to which the chain was looked at, in seconds since 1970.", []string{"chain"}, nil)
)

// Describe names the figures.
func (rows) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descDue, descDead, descHeight, descTip, descAlarm, descWatched, descList, descHits} {
		ch <- d
	}
}

// Collect reads them. A database that does not answer leaves them out.
func (r rows) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = r.d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		pending, dead, err := job.Count(ctx, tx)
		if err != nil {
			return err
		}
		ch <- prometheus.MustNewConstMetric(descDue, prometheus.GaugeValue, float64(pending))
		ch <- prometheus.MustNewConstMetric(descDead, prometheus.GaugeValue, float64(dead))
		standings, err := chain.LoadHealth(ctx, tx)
		if err != nil {
			return err
		}
		for _, name := range r.chains {
			if stands, ok := standings[name]; ok {
				collectStanding(ch, name, stands)
			}
			if height, _, err := chain.Tip(ctx, tx, name); err == nil {
				ch <- prometheus.MustNewConstMetric(descHeight, prometheus.GaugeValue, float64(height), name)
			}
			if at, err := watchedUntil(name)(ctx, tx); err == nil && !at.IsZero() {
				ch <- prometheus.MustNewConstMetric(descWatched, prometheus.GaugeValue, float64(at.UnixMicro())/1e6, name)
			}
		}
		lists, err := screening.InUse(ctx, tx)
		for _, l := range lists {
			if !l.Fetched.IsZero() {
				ch <- prometheus.MustNewConstMetric(descList, prometheus.GaugeValue, float64(l.Fetched.Unix()), filepath.Base(l.Path))
			}
		}
		if err != nil {
			return err
		}
		if open, err := screening.Hits(ctx, tx, screening.Open, maxHits); err == nil {
			ch <- prometheus.MustNewConstMetric(descHits, prometheus.GaugeValue, float64(len(open)))
		}
		return nil
	})
}

func collectStanding(ch chan<- prometheus.Metric, name string, stands chain.Health) {
	if !stands.TipTime.IsZero() {
		ch <- prometheus.MustNewConstMetric(descTip, prometheus.GaugeValue, float64(stands.TipTime.Unix()), name)
	}
	for _, a := range chain.Alarms {
		raised := 0.0
		if slices.Contains(stands.Alarms, a) {
			raised = 1
		}
		ch <- prometheus.MustNewConstMetric(descAlarm, prometheus.GaugeValue, raised, name, string(a))
	}
}
