package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/webhook"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

const (
	perCompany = 10     // endpoints
	backlog    = 10_000 // deliveries that are there at once
	pace       = 50     // events a second, where the delay is measured
)

// webhooks measures deliveries to a receiver on this machine that answers at once, and to one that has some endpoints hang.
func (b *bench) webhooks(ctx context.Context) error {
	t := newTable(b.out, b.engine+": webhooks", "endpoints", "of them hanging", "deliveries", "deliveries/s", "delay p50", "delay p99")
	for _, n := range []int{1, 100, 1000} {
		for _, hanging := range slices.Compact([]int{0, n / 10}) {
			b.say("webhooks: %d endpoints, %d hanging", n, hanging)
			if err := b.deliveries(ctx, t.row, n, hanging); err != nil {
				return err
			}
		}
	}
	return t.w.Flush()
}

// receiver is where deliveries arrive, with the time that each took from its event.
type receiver struct {
	mu      sync.Mutex
	delays  []time.Duration
	arrived chan struct{}
}

func (r *receiver) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	if req.URL.Path == "/hang" {
		<-req.Context().Done()
		return
	}
	var body struct{ Data struct{ At int64 } }
	if json.NewDecoder(req.Body).Decode(&body) != nil {
		return
	}
	r.mu.Lock()
	r.delays = append(r.delays, time.Since(time.Unix(0, body.Data.At)))
	r.mu.Unlock()
	r.arrived <- struct{}{}
}

func (b *bench) deliveries(ctx context.Context, row func(...any), n, hanging int) error {
	address, err := b.databases(fmt.Sprintf("webhooks_%d_%d", n, hanging))
	if err != nil {
		return err
	}
	d, err := db.Open(ctx, db.Options{URL: address})
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Migrate(ctx); err != nil {
		return err
	}
	sealer, err := identity.NewSealer(make([]byte, 32))
	if err != nil {
		return err
	}
	r := &receiver{arrived: make(chan struct{}, 4*backlog)}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	defer server.Close()

	policy := delivery.Policy{Loopback: true}
	setup := delivery.Setup{Sealer: sealer, Policy: policy}
	companies := make([]string, (n+perCompany-1)/perCompany)
	healthy := make([]int, len(companies)) // endpoints that answer
	for i := range companies {
		if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Bench", Country: "US", Email: "bench@bench.example"})
			companies[i], healthy[i] = c.ID, 0
			for e := i * perCompany; e < min((i+1)*perCompany, n) && err == nil; e++ {
				url := "http://" + l.Addr().String() + "/in"
				if e*hanging/n != (e+1)*hanging/n {
					url = "http://" + l.Addr().String() + "/hang"
				} else {
					healthy[i]++
				}
				_, _, err = setup.Create(ctx, tx, identity.Principal{Kind: identity.KindAPIKey, CompanyID: c.ID}, delivery.Params{URL: &url})
			}
			return err
		}); err != nil {
			return err
		}
	}
	serial := 0
	// emit commits some events and says how many deliveries they will be.
	emit := func(count int) (wanted int, err error) {
		err = d.Write(ctx, func(_ context.Context, tx *db.Tx) error {
			wanted = 0
			for i := range count {
				at := (serial + i) % len(companies)
				wanted += healthy[at]
				if err := webhook.Emit(tx, webhook.Event{
					CompanyID: companies[at], Name: "payroll.created", ObjectID: "prl_" + strconv.Itoa(serial+i), Sequence: 1,
					Data: map[string]any{"at": time.Now().UnixNano()},
				}); err != nil {
					return err
				}
			}
			return nil
		})
		serial += count
		return wanted, err
	}
	wait := func(wanted int) error {
		for range wanted {
			select {
			case <-r.arrived:
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Minute):
				return fmt.Errorf("deliveries to %d endpoints stopped", n)
			}
		}
		return nil
	}

	background, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	defer func() {
		stop()
		_ = server.Close() // those that hang
		done.Wait()
	}()
	wanted := 0
	for left := backlog / min(n, perCompany); left > 0; left -= 500 {
		more, err := emit(min(left, 500))
		if err != nil {
			return err
		}
		wanted += more
	}
	sender := delivery.NewSender(delivery.Options{DB: d, Sealer: sealer, Env: identity.Sandbox, Policy: policy, Log: slog.New(slog.DiscardHandler)})
	began := time.Now()
	done.Go(func() { sender.Run(background) })
	if err := wait(wanted); err != nil {
		return err
	}
	took := time.Since(began)

	r.mu.Lock()
	r.delays = nil
	r.mu.Unlock()
	steady := 0
	tick := time.NewTicker(time.Second / pace)
	defer tick.Stop()
	for range int(b.span.Seconds() * pace) {
		<-tick.C
		more, err := emit(1)
		if err != nil {
			return err
		}
		steady += more
	}
	if err := wait(steady); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.delays)
	at := func(percent int) time.Duration {
		return r.delays[len(r.delays)*percent/100].Round(100 * time.Microsecond)
	}
	row(n, hanging, wanted, int(float64(wanted)/took.Seconds()), at(50), at(99))
	return nil
}
