package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/webhook"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

const (
	perCompany      = 10        // endpoints of each company
	burst           = 10_000    // deliveries queued at once
	eventsPerSecond = 50        // events per second in the measurement of the delay
	rounds          = 3         // rounds of each setting, alternating with the others; the median is reported
	backlog         = 1_000_000 // pending deliveries of the dead endpoint
	backlogBatch    = 100_000   // backlog rows inserted in one transaction
)

// webhookSetting is the number of endpoints and of those that never respond. If dead is true, the first endpoint
// refuses connections and has a backlog of deliveries.
type webhookSetting struct {
	endpoints, hanging int
	dead               bool
	backlog            int
}

// webhookResult has the figures of a setting.
type webhookResult struct {
	delivered int
	rate      float64
	work      time.Duration // processor time for one delivery
	p50, p99  time.Duration // delay of single events
	memory    memory
}

// webhooks measures deliveries to a local receiver that responds at once: alone, together with endpoints that never
// respond, and together with a dead endpoint that has a large backlog.
func (b *bench) webhooks(ctx context.Context) error {
	t := newTable(b.out, b.engine+": webhooks", "endpoints", "state", "deliveries", "deliveries/s", "rate ratio",
		"processor time each", "ratio", "delay p50", "p99", "p99 ratio", "peak memory")
	for _, n := range b.endpoints {
		settings := []webhookSetting{{endpoints: n}}
		names := []string{"-"}
		if n > 1 {
			settings, names = append(settings, webhookSetting{endpoints: n, hanging: n / 10}), append(names,
				fmt.Sprintf("%d hang", n/10))
		}
		if n == 100 {
			settings, names = append(settings, webhookSetting{endpoints: n, dead: true}, webhookSetting{endpoints: n, dead: true,
				backlog: backlog}),
				append(names, "1 dead", fmt.Sprintf("1 dead, %d wait", backlog))
		}
		all := make([][]webhookResult, len(settings))
		for round := range rounds {
			for i, s := range settings {
				b.logf("webhooks: %d endpoints, %s, round %d", n, names[i], round+1)
				one, err := b.deliveries(ctx, fmt.Sprintf("webhooks_%d_%d_%d", n, i, round), s)
				if err != nil {
					return err
				}
				all[i] = append(all[i], one)
			}
		}
		alone := median(all[0])
		for i := range settings {
			m := median(all[i])
			t.row(n, names[i], m.delivered, m.rate, ratio(m.rate, alone.rate), micros(m.work), ratio(m.work.Seconds(),
				alone.work.Seconds()),
				m.p50, m.p99, ratio(m.p99.Seconds(), alone.p99.Seconds()), m.memory)
		}
	}
	return t.end()
}

// median returns the median of each figure.
func median(all []webhookResult) webhookResult {
	m := all[0]
	m.rate = medianOf(all, func(h webhookResult) float64 { return h.rate })
	m.work = medianOf(all, func(h webhookResult) time.Duration { return h.work })
	m.p50 = medianOf(all, func(h webhookResult) time.Duration { return h.p50 })
	m.p99 = medianOf(all, func(h webhookResult) time.Duration { return h.p99 })
	m.memory = medianOf(all, func(h webhookResult) memory { return h.memory })
	return m
}

func medianOf[T cmp.Ordered](all []webhookResult, of func(webhookResult) T) T {
	figures := make([]T, len(all))
	for i, h := range all {
		figures[i] = of(h)
	}
	slices.Sort(figures)
	return figures[len(figures)/2]
}

// processCPU returns the processor time that this process has used.
func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it cannot fail for the calling process
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// insertBacklog inserts count pending deliveries of an endpoint, each of its own event and object, which is the most
// expensive case.
func insertBacklog(ctx context.Context, d *db.DB, companyID, endpointID string, count int) error {
	if count == 0 {
		return nil
	}
	const numbers = `WITH RECURSIVE n(i) AS (SELECT CAST($2 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < $3) `
	for from := 1; from <= count; from += backlogBatch {
		if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			now := db.Micros(tx.Now())
			args := []any{companyID, int64(from), int64(min(from+backlogBatch-1, count)), now}
			if _, err := tx.Exec(ctx, `INSERT INTO events (company_id, event_id, object_id, sequence, name, data, created_at,
				position) `+numbers+
				`SELECT CAST($1 AS TEXT), 'evt_' || CAST(i AS TEXT), 'old_' || CAST(i AS TEXT), 1, 'payroll.created', '{}',
					CAST($4 AS BIGINT), i FROM n`, args...); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `INSERT INTO webhook_deliveries (company_id, endpoint_id, position, event_id, object_id,
				state, tries, attempts, next_at,
				error, http_status, created_at, updated_at) `+numbers+`SELECT CAST($1 AS TEXT), CAST($5 AS TEXT), i,
					'evt_' || CAST(i AS TEXT),
				'old_' || CAST(i AS TEXT), 'pending', 0, 0, CAST($4 AS BIGINT), '', 0, CAST($4 AS BIGINT), CAST($4 AS BIGINT)
					FROM n`, append(args, endpointID)...)
			return err
		}); err != nil {
			return err
		}
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		// New events must come after these, which have their positions already.
		_, err := tx.Exec(ctx, "UPDATE event_cursors SET position = $1", int64(count))
		if err == nil && d.Engine() == db.Postgres {
			_, err = tx.Exec(ctx, "SELECT setval('event_positions_position_seq', $1)", int64(count))
		}
		return err
	})
}

// receiver is an HTTP server that receives deliveries and records the delay of each since its event.
type receiver struct {
	*http.Server
	host    string
	arrived chan struct{}

	mu     sync.Mutex
	delays []time.Duration
}

func newReceiver(ctx context.Context) (*receiver, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{host: l.Addr().String(), arrived: make(chan struct{}, 4*burst)}
	r.Server = &http.Server{Handler: http.HandlerFunc(r.receive), ReadHeaderTimeout: time.Minute}
	go func() { _ = r.Serve(l) }()
	return r, nil
}

func (r *receiver) receive(_ http.ResponseWriter, req *http.Request) {
	if req.URL.Path == "/hang" {
		<-req.Context().Done()
		return
	}
	var body struct {
		Data struct {
			At int64 `json:"external_id,string"`
		}
	}
	if json.NewDecoder(req.Body).Decode(&body) != nil {
		return
	}
	r.mu.Lock()
	r.delays = append(r.delays, time.Since(time.Unix(0, body.Data.At)))
	r.mu.Unlock()
	r.arrived <- struct{}{}
}

// takeDelays returns the delays since the last call.
func (r *receiver) takeDelays() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	delays := r.delays
	r.delays = nil
	return delays
}

func (r *receiver) wait(ctx context.Context, wanted int) error {
	for range wanted {
		select {
		case <-r.arrived:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Minute):
			return errors.New("deliveries stopped")
		}
	}
	return nil
}

// unusedAddress returns a local address without a listener.
func unusedAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// emitters are companies with endpoints that emit events in rotation.
type emitters struct {
	d         *db.DB
	companies []string
	healthy   []int // number of responding endpoints of each company
	first     delivery.Endpoint
	serial    int // number of the next event
}

func newEmitters(ctx context.Context, d *db.DB, setup delivery.Setup, host string,
	set webhookSetting) (*emitters, error) {
	unused, err := unusedAddress(ctx)
	if err != nil {
		return nil, err
	}
	n := set.endpoints
	m := &emitters{d: d, companies: make([]string, (n+perCompany-1)/perCompany)}
	m.healthy = make([]int, len(m.companies))
	for i := range m.companies {
		if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Bench", Country: "US",
				Email: "bench@bench.example"})
			m.companies[i], m.healthy[i] = c.ID, 0
			for e := i * perCompany; e < min((i+1)*perCompany, n) && err == nil; e++ {
				url := "http://" + host + "/in"
				switch {
				case set.dead && e == 0:
					url = "http://" + unused
				case e*set.hanging/n != (e+1)*set.hanging/n:
					url = "http://" + host + "/hang"
				default:
					m.healthy[i]++
				}
				var made delivery.Endpoint
				made, _, err = setup.Create(ctx, tx, identity.Principal{Kind: identity.KindAPIKey, CompanyID: c.ID},
					delivery.Params{URL: &url})
				if e == 0 {
					m.first = made
				}
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// emit commits count events and returns the number of deliveries that they cause to responding endpoints.
func (m *emitters) emit(ctx context.Context, count int) (wanted int, err error) {
	err = m.d.Write(ctx, func(_ context.Context, tx *db.Tx) error {
		wanted = 0
		for i := range count {
			at := (m.serial + i) % len(m.companies)
			wanted += m.healthy[at]
			data := webhook.PayrollCreated.Example
			data.ExternalID = strconv.FormatInt(time.Now().UnixNano(), 10)
			event := webhook.PayrollCreated.Event(m.companies[at], "prl_"+strconv.Itoa(m.serial+i), 1, data)
			if err := webhook.Emit(tx, event); err != nil {
				return err
			}
		}
		return nil
	})
	m.serial += count
	return wanted, err
}

// burst commits events until they cause at least burst deliveries to responding endpoints. each is the number of
// deliveries of one event.
func (m *emitters) burst(ctx context.Context, each int) (wanted int, err error) {
	for wanted < burst {
		more, err := m.emit(ctx, min(500, (burst-wanted+each-1)/each))
		if err != nil {
			return 0, err
		}
		wanted += more
	}
	return wanted, nil
}

// emitSteadily commits one event at a time, at a constant rate.
func (m *emitters) emitSteadily(ctx context.Context, span time.Duration) (wanted int, err error) {
	tick := time.NewTicker(time.Second / eventsPerSecond)
	defer tick.Stop()
	for range int(span.Seconds() * eventsPerSecond) {
		<-tick.C
		more, err := m.emit(ctx, 1)
		if err != nil {
			return 0, err
		}
		wanted += more
	}
	return wanted, nil
}

// deliveries measures one setting in its own database: first a burst of events, then single ones.
func (b *bench) deliveries(ctx context.Context, name string, set webhookSetting) (out webhookResult, err error) {
	address, err := b.databases(name)
	if err != nil {
		return out, err
	}
	d, err := db.Open(ctx, db.Options{URL: address})
	if err != nil {
		return out, err
	}
	defer d.Close()
	if err := d.Migrate(ctx); err != nil {
		return out, err
	}
	defer func() {
		if gone := dropTables(ctx, d); err == nil {
			err = gone
		}
	}()
	sealer, err := identity.NewSealer(make([]byte, 32))
	if err != nil {
		return out, err
	}
	policy := delivery.Policy{Loopback: true}
	r, err := newReceiver(ctx)
	if err != nil {
		return out, err
	}
	defer r.Close()
	m, err := newEmitters(ctx, d, delivery.Setup{Sealer: sealer, Policy: policy}, r.host, set)
	if err != nil {
		return out, err
	}
	if err := insertBacklog(ctx, d, m.first.CompanyID, m.first.ID, set.backlog); err != nil {
		return out, err
	}
	if out.delivered, err = m.burst(ctx, min(set.endpoints, perCompany)); err != nil {
		return out, err
	}

	background, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	defer func() {
		stop()
		_ = r.Close() // closes the hanging requests
		done.Wait()
	}()
	sender, err := delivery.NewSender(delivery.Options{DB: d, Sealer: sealer, Env: identity.Sandbox, Policy: policy,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return out, err
	}
	self := &process{pid: os.Getpid()} // the sender and the receiver run in this process
	debug.FreeOSMemory()
	self.forgetPeak()
	began, before := time.Now(), processCPU()
	done.Go(func() { sender.Run(background) })
	if err := r.wait(ctx, out.delivered); err != nil {
		return out, err
	}
	out.rate = float64(out.delivered) / time.Since(began).Seconds()
	if err := waitRecorded(ctx, d, out.delivered); err != nil {
		return out, err
	}
	out.work = (processCPU() - before) / time.Duration(out.delivered)

	r.takeDelays()
	steady, err := m.emitSteadily(ctx, b.span)
	if err != nil {
		return out, err
	}
	if err := r.wait(ctx, steady); err != nil {
		return out, err
	}
	delays := spreadOf(r.takeDelays())
	out.p50, out.p99, out.memory = delays.p50, delays.p99, self.peak()
	return out, nil
}

// waitRecorded waits until the successful deliveries are stored.
func waitRecorded(ctx context.Context, d *db.DB, wanted int) error {
	for {
		var count int64
		if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			return tx.QueryRow(ctx, "SELECT COUNT(*) FROM webhook_attempts WHERE error = ''").Scan(&count)
		}); err != nil || count >= int64(wanted) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// dropTables removes the events and deliveries to free disk space.
func dropTables(ctx context.Context, d *db.DB) error {
	return d.Write(context.WithoutCancel(ctx), func(ctx context.Context, tx *db.Tx) error {
		for _, table := range []string{"webhook_attempts", "webhook_deliveries", "events"} {
			if _, err := tx.Exec(ctx, "DROP TABLE "+table); err != nil {
				return err
			}
		}
		return nil
	})
}
