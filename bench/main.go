// Command bench measures the service against its floors and prints the figures.
//
// A floor is the least that the same durable work can cost: the same rows, written by bare SQL in one transaction behind a
// net/http server that knows nothing else. What the service costs above its floor is what its rules cost. The service is the
// real program, started as a process of its own on a fresh database; PostgreSQL is a fresh server that writes through to disk.
//
//	make bench
//	make bench ARGS="-engines sqlite -seconds 5"
//
// Service, floor, database and clients share the machine, so read the ratios; the seconds are this machine's.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/stipend/stipend/internal/db/dbtest"
)

type options struct {
	engines []string
	sizes   []int
	clients []int
	payees  int           // of a payroll, where many clients create them
	span    time.Duration // of each measurement of throughput

	overHTTP, books bool // what to measure
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	engines := flag.String("engines", "sqlite,postgres", "databases to measure on")
	sizes := flag.String("sizes", "1,100,1000,10000", "payees of one payroll")
	clients := flag.String("clients", "8,32", "clients at once")
	payees := flag.Int("payees", 10, "payees of a payroll where many clients create them")
	seconds := flag.Float64("seconds", 3, "length of each measurement of throughput")
	parts := flag.String("parts", "service,ledger", "what to measure")
	flag.Parse()
	o := options{
		engines: strings.Split(*engines, ","), payees: *payees, span: time.Duration(*seconds * float64(time.Second)),
		overHTTP: strings.Contains(*parts, "service"), books: strings.Contains(*parts, "ledger"),
	}
	var err error
	if o.sizes, err = numbers(*sizes); err != nil {
		log.Fatalf("-sizes: %v", err)
	}
	if o.clients, err = numbers(*clients); err != nil {
		log.Fatalf("-clients: %v", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, o); err != nil {
		stop()
		log.Fatal(err)
	}
}

func numbers(list string) ([]int, error) {
	var all []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a number above 0", text)
		}
		all = append(all, n)
	}
	return all, nil
}

func run(ctx context.Context, out io.Writer, o options) error {
	dir, err := os.MkdirTemp("", "stipend-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var binary string
	if o.overHTTP {
		if binary, err = build(ctx, dir); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%s %s/%s, %d processors\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	for _, engine := range o.engines {
		if err := measure(ctx, out, o, engine, binary, filepath.Join(dir, engine)); err != nil {
			return fmt.Errorf("%s: %w", engine, err)
		}
	}
	return nil
}

// measure runs the parts on one engine.
func measure(ctx context.Context, out io.Writer, o options, engine, binary, dir string) error {
	databases, stop, err := provision(ctx, engine, dir)
	if err != nil {
		return err
	}
	defer stop()
	b := bench{options: o, out: out, engine: engine, databases: databases}
	if o.overHTTP {
		if err := b.service(ctx, binary); err != nil {
			return err
		}
	}
	if o.books {
		return b.ledger(ctx)
	}
	return nil
}

// bench is the run on one engine.
type bench struct {
	options
	out       io.Writer
	engine    string
	databases func(name string) (string, error)

	world      *world
	own, floor *client
	bare       *floor
	models     map[int]*model // by number of payees: the rows that one payroll left
}

func (b *bench) say(format string, args ...any) { log.Printf(b.engine+": "+format, args...) }

// service measures the program over HTTP.
func (b *bench) service(ctx context.Context, binary string) error {
	address, err := b.databases("service")
	if err != nil {
		return err
	}
	b.say("seeding")
	most := slices.Max(b.clients)
	if b.world, err = seed(ctx, address, slices.Max(b.sizes), most, b.payees); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	service, err := start(ctx, binary, address)
	if err != nil {
		return err
	}
	defer service.stop()
	b.own = newClient(service.url, most)
	payer := b.world.companies[0]
	if err := b.own.ready(ctx, payer); err != nil {
		return err
	}
	b.models = map[int]*model{}
	for _, n := range append([]int{b.payees}, b.sizes...) {
		if b.models[n], err = capture(ctx, address, func() ([]byte, error) {
			body := payer.payroll(n)
			return body, b.own.create(ctx, payer, body)
		}); err != nil {
			return fmt.Errorf("model of %d payees: %w", n, err)
		}
	}
	bare, err := b.databases("floor")
	if err != nil {
		return err
	}
	if b.bare, err = startFloor(ctx, bare); err != nil {
		return err
	}
	defer b.bare.stop()
	b.floor = newClient(b.bare.url, most)
	for _, part := range []func(context.Context) error{b.latencies, b.throughputs, b.replays} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) latencies(ctx context.Context) error {
	payer := b.world.companies[0]
	t := newTable(b.out, b.engine+": one payroll at a time", "payees", "rows", "service p50", "max", "floor p50", "max", "times the floor")
	for _, n := range b.sizes {
		rounds := min(50, max(5, 20_000/n))
		b.say("%d payees, %d rounds", n, rounds)
		b.bare.use(b.models[n])
		own, err := latency(rounds, func() error { return b.own.create(ctx, payer, payer.payroll(n)) })
		if err != nil {
			return err
		}
		least, err := latency(rounds, func() error { return b.floor.create(ctx, payer, b.models[n].body) })
		if err != nil {
			return err
		}
		t.row(n, b.models[n].rows(), own.p50, own.max, least.p50, least.max, ratio(own.p50.Seconds(), least.p50.Seconds()))
	}
	return t.end()
}

func (b *bench) throughputs(ctx context.Context) error {
	t := newTable(b.out, fmt.Sprintf("%s: payrolls of %d payees a second", b.engine, b.payees), "clients", "companies", "service", "p99", "floor", "p99", "of the floor")
	b.bare.use(b.models[b.payees])
	for _, n := range b.clients {
		for _, companies := range []int{1, n} {
			b.say("%d clients, %d companies", n, companies)
			create := func(c *client) func(int) error {
				return func(i int) error {
					payer := b.world.companies[i%companies]
					return c.create(ctx, payer, payer.payroll(b.payees))
				}
			}
			own, err := throughput(n, b.span, create(b.own))
			if err != nil {
				return err
			}
			least, err := throughput(n, b.span, create(b.floor))
			if err != nil {
				return err
			}
			t.row(n, companies, own.rate, own.p99, least.rate, least.p99, ratio(own.rate, least.rate))
		}
	}
	return t.end()
}

func (b *bench) replays(ctx context.Context) error {
	again, err := b.own.repeatable(ctx, b.world.companies[0], b.payees)
	if err != nil {
		return err
	}
	if err := b.bare.remember(ctx, again.key); err != nil {
		return err
	}
	t := newTable(b.out, b.engine+": repetitions of one request a second, answered from its key", "clients", "service", "p99", "floor", "p99", "of the floor")
	for _, n := range b.clients {
		b.say("%d clients repeat a request", n)
		own, err := throughput(n, b.span, func(int) error { return again.send(ctx, b.own) })
		if err != nil {
			return err
		}
		least, err := throughput(n, b.span, func(int) error { return again.send(ctx, b.floor) })
		if err != nil {
			return err
		}
		t.row(n, own.rate, own.p99, least.rate, least.p99, ratio(own.rate, least.rate))
	}
	return t.end()
}

// ledger measures the books alone, inside this process.
func (b *bench) ledger(ctx context.Context) error {
	books, err := b.databases("books")
	if err != nil {
		return err
	}
	bare, err := b.databases("barebooks")
	if err != nil {
		return err
	}
	t := newTable(b.out, b.engine+": postings a second, 4 lines on 4 guarded balances each", "clients", "companies", "ledger", "p99", "full batches of bare SQL", "of the floor")
	for _, companies := range []int{1, 32} {
		least, err := bareLedger(ctx, bare, companies, b.span)
		if err != nil {
			return err
		}
		for _, n := range append(slices.Clone(b.clients), 128) {
			b.say("%d clients post for %d companies", n, companies)
			own, err := ledgerPostings(ctx, books, n, companies, b.span)
			if err != nil {
				return err
			}
			t.row(n, companies, own.rate, own.p99, least, ratio(own.rate, least))
		}
	}
	return t.end()
}

// provision makes a place for databases that write through to disk, and a function that makes one of them.
func provision(ctx context.Context, engine, dir string) (database func(name string) (string, error), stop func(), err error) {
	switch engine {
	case "sqlite":
		return func(name string) (string, error) {
			return "sqlite:" + filepath.Join(dir, name, "stipend.db"), nil
		}, func() {}, nil
	case "postgres":
		server, err := dbtest.Start(ctx, ".", true)
		if err != nil {
			return nil, nil, fmt.Errorf("no PostgreSQL: %w (make tools gets one)", err)
		}
		return func(name string) (string, error) { return server.Database(ctx, name) }, server.Stop, nil
	}
	return nil, nil, fmt.Errorf("-engines: there is no %q", engine)
}

type spread struct{ p50, p99, max time.Duration }

func spreadOf(all []time.Duration) spread {
	slices.Sort(all)
	return spread{all[len(all)/2], all[len(all)*99/100], all[len(all)-1]}
}

// latency runs f over and over, alone, after one run that does not count.
func latency(rounds int, f func() error) (spread, error) {
	if err := f(); err != nil {
		return spread{}, err
	}
	all := make([]time.Duration, rounds)
	for i := range all {
		began := time.Now()
		if err := f(); err != nil {
			return spread{}, err
		}
		all[i] = time.Since(began)
	}
	return spreadOf(all), nil
}

type flow struct {
	rate float64
	spread
}

// throughput runs f in n clients at once for a while, after a short run that does not count.
func throughput(n int, span time.Duration, f func(client int) error) (flow, error) {
	if _, err := stream(n, span/6, f); err != nil {
		return flow{}, err
	}
	return stream(n, span, f)
}

func stream(n int, span time.Duration, f func(client int) error) (flow, error) {
	var failed atomic.Pointer[error]
	took := make([][]time.Duration, n)
	began := time.Now()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for time.Since(began) < span && failed.Load() == nil {
				start := time.Now()
				if err := f(i); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				took[i] = append(took[i], time.Since(start))
			}
		})
	}
	all.Wait()
	elapsed := time.Since(began)
	if err := failed.Load(); err != nil {
		return flow{}, *err
	}
	every := slices.Concat(took...)
	return flow{float64(len(every)) / elapsed.Seconds(), spreadOf(every)}, nil
}

func ratio(a, b float64) string { return fmt.Sprintf("%.2f", a/b) }

// table prints rows under a title.
type table struct{ w *tabwriter.Writer }

func newTable(out io.Writer, title string, columns ...string) *table {
	fmt.Fprintf(out, "\n%s\n", title)
	t := &table{tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)}
	fmt.Fprintln(t.w, strings.Join(columns, "\t")+"\t")
	return t
}

func (t *table) row(cells ...any) {
	for _, c := range cells {
		switch c := c.(type) {
		case time.Duration:
			fmt.Fprintf(t.w, "%.1f ms\t", float64(c)/1e6)
		case float64:
			fmt.Fprintf(t.w, "%.0f\t", c)
		default:
			fmt.Fprintf(t.w, "%v\t", c)
		}
	}
	fmt.Fprintln(t.w)
}

func (t *table) end() error { return t.w.Flush() }
