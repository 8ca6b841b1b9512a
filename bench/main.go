// Command bench measures the performance of the service and compares it with floors.
//
// A floor is the least that the same durable work can cost: the same rows, written with plain SQL in one transaction
// by a net/http server that does nothing else. The cost of the service above its floor is the cost of its rules. The
// service is the real program, started as a separate process on a new database. PostgreSQL is a new server that
// writes through to disk.
//
//	make bench
//	make bench ARGS="-engines sqlite -seconds 5"
//
// The service, the floor, the database and the clients share the machine, so compare the ratios; absolute times are
// specific to the machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stipend/stipend/internal/db/dbtest"
)

type options struct {
	engines []string
	sizes   []int
	clients []int
	payees  int           // payees of a payroll created by concurrent clients
	span    time.Duration // duration of each throughput measurement

	endpoints []int // numbers of webhook endpoints

	stock int // payrolls in the database before the last measurement of part service

	parts []string // parts to measure
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	engines := flag.String("engines", "sqlite,postgres", "database engines")
	sizes := flag.String("sizes", "1,100,1000,10000", "numbers of payees of one payroll")
	clients := flag.String("clients", "8,32", "numbers of concurrent clients")
	payees := flag.Int("payees", 10, "payees of a payroll created by concurrent clients")
	seconds := flag.Float64("seconds", 3, "duration of each throughput measurement, in seconds")
	endpoints := flag.String("endpoints", "1,100,1000", "numbers of webhook endpoints")
	stock := flag.Int("stock", 1_000_000,
		"payrolls in the database before the last measurement of part service; 0 omits it")
	parts := flag.String("parts", "service,claims,processes,blocks,line,rails,webhooks,connections,lists,ledger",
		"parts to measure")
	profile := flag.String("profile", "", "file to write a CPU profile of this process to")
	flag.Parse()
	o := options{
		engines: strings.Split(*engines, ","), payees: *payees, span: time.Duration(*seconds * float64(time.Second)),
		stock: *stock, parts: strings.Split(*parts, ","),
	}
	var err error
	if o.sizes, err = numbers(*sizes); err != nil {
		log.Fatalf("-sizes: %v", err)
	}
	if o.clients, err = numbers(*clients); err != nil {
		log.Fatalf("-clients: %v", err)
	}
	if o.endpoints, err = numbers(*endpoints); err != nil {
		log.Fatalf("-endpoints: %v", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := profiled(*profile, func() error { return run(ctx, os.Stdout, o) }); err != nil {
		stop()
		log.Fatal(err)
	}
}

// profiled runs f and, if name is not empty, writes a CPU profile of this process to that file. The parts line and
// ledger run in this process.
func profiled(name string, f func() error) error {
	if name == "" {
		return f()
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return errors.Join(err, file.Close())
	}
	err = f()
	pprof.StopCPUProfile()
	return errors.Join(err, file.Close())
}

func numbers(list string) ([]int, error) {
	var all []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a positive integer", text)
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
	if slices.ContainsFunc([]string{"service", "claims", "processes"}, func(part string) bool {
		return slices.Contains(o.parts, part)
	}) {
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

// measure runs the selected parts on one engine.
func measure(ctx context.Context, out io.Writer, o options, engine, binary, dir string) error {
	databases, server, stop, err := provision(ctx, engine, dir)
	if err != nil {
		return err
	}
	defer stop()
	b := bench{options: o, out: out, engine: engine, databases: databases, server: server}
	for _, part := range []struct {
		name    string
		measure func() error
	}{
		{"service", func() error { return b.service(ctx, binary) }},
		{"claims", func() error { return b.claims(ctx, binary) }},
		{"blocks", func() error { return b.claimBlocks(ctx) }},
		{"processes", func() error { return b.processes(ctx, binary) }},
		{"webhooks", func() error { return b.webhooks(ctx) }},
		{"connections", func() error { return b.connections(ctx) }},
		{"line", func() error { return b.fundingToPayouts(ctx) }},
		{"rails", func() error { return b.payoutRails(ctx, dir) }},
		{"lists", func() error { return b.lists(ctx) }},
		{"ledger", func() error { return b.ledger(ctx) }},
	} {
		if slices.Contains(o.parts, part.name) {
			if err := part.measure(); err != nil {
				return err
			}
		}
	}
	return nil
}

// bench measures one engine.
type bench struct {
	options
	out       io.Writer
	engine    string
	databases func(name string) (string, error)
	server    int // process id of the database server; 0 for SQLite

	dataset    *dataset
	own, floor *client
	bare       *floor
	models     map[int]*model  // rows written by one payroll, by its number of payees
	created    map[int]created // time to create one payroll, by its number of payees
	binary     string
	process    *process
	address    string // URL of the service's database
}

// created is the time to create a payroll, by the service and by the floor.
type created struct{ own, floor spread }

func (b *bench) logf(format string, args ...any) { log.Printf(b.engine+": "+format, args...) }

// service measures the creation of payrolls over HTTP.
func (b *bench) service(ctx context.Context, binary string) error {
	address, err := b.databases("service")
	if err != nil {
		return err
	}
	b.logf("seeding")
	most := slices.Max(b.clients)
	if b.dataset, err = seed(ctx, address, slices.Max(b.sizes), most, b.payees); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	b.binary, b.address = binary, address
	if err := b.serve(ctx); err != nil {
		return err
	}
	defer func() { b.process.stop() }()
	payer := b.dataset.companies[0]
	b.models = map[int]*model{}
	for _, n := range append([]int{b.payees}, b.sizes...) {
		if b.models[n], err = capture(ctx, address, func() ([]byte, error) {
			body := payer.payroll(n)
			return body, b.own.create(ctx, payer, body)
		}); err != nil {
			return fmt.Errorf("model of %d payees: %w", n, err)
		}
	}
	if b.bare, err = b.startFloor(ctx, "floor"); err != nil {
		return err
	}
	defer b.bare.stop()
	b.floor = newClient(b.bare.url, most)
	for _, part := range []func(context.Context) error{b.latencies, b.throughputs, b.replays, b.withExistingPayrolls} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// serve starts the service and waits until it accepts payrolls.
func (b *bench) serve(ctx context.Context) (err error) {
	if b.process, err = start(ctx, b.binary, b.address); err != nil {
		return err
	}
	b.own = newClient(b.process.url, slices.Max(b.clients))
	if err := b.own.ready(ctx, b.dataset.companies[0]); err != nil {
		b.process.stop()
		return err
	}
	return nil
}

// latencies creates payrolls one at a time, alternately at the service and at the floor.
func (b *bench) latencies(ctx context.Context) error {
	t := newTable(b.out, b.engine+": one payroll at a time",
		"payees", "rows", "service p50", "p99", "payrolls/s", "payees/s", "per payee", "peak memory", "floor p50", "p99",
		"ratio to floor",
		"processor time", "client's part", "floor's processor time", "ratio")
	b.created = map[int]created{}
	for _, n := range b.sizes {
		b.process.forgetPeak()
		own, least, err := b.comparePayrolls(ctx, n)
		if err != nil {
			return err
		}
		b.created[n] = created{own, least}
		perSecond := 1 / own.p50.Seconds()
		t.row(n, b.models[n].rows(), own.p50, own.p99, perSecond, perSecond*float64(n), micros(own.p50/time.Duration(n)),
			b.process.peak(),
			least.p50, least.p99, ratio(own.p50.Seconds(), least.p50.Seconds()), own.work, own.client, least.work,
			ratio(own.work.Seconds(), least.work.Seconds()))
	}
	return t.end()
}

// cpuTimer starts to measure processor time. The returned function ends the measurement and returns the processor
// time since the start of this process, the service and the database server. Reading the times of all processes costs
// as much as some requests, so this process is read last at the start and first at the end. A caller that also
// measures elapsed time must do so between the two calls.
func (b *bench) cpuTimer() (end func() time.Duration) {
	others, own := b.otherCPU(), processCPU()
	return func() time.Duration { now := processCPU(); return now - own + b.otherCPU() - others }
}

// otherCPU returns the processor time of the service and the database server.
func (b *bench) otherCPU() time.Duration {
	sum := cpuOfTree(b.server)
	if b.process != nil {
		sum += cpuOf(b.process.pid)
	}
	return sum
}

// comparePayrolls creates payrolls at the service and at the floor alternately, so that other work of the machine
// affects both equally.
func (b *bench) comparePayrolls(ctx context.Context, payees int) (own, least spread, err error) {
	payer := b.dataset.companies[0]
	rounds := min(100, max(7, 20_000/payees))
	b.logf("%d payees, %d rounds", payees, rounds)
	b.bare.use(b.models[payees])
	var mine, floors []time.Duration
	var work [2]time.Duration
	var client time.Duration
	for i := range rounds + 1 {
		end, idle := b.cpuTimer(), processCPU()
		began := time.Now()
		if err := b.own.create(ctx, payer, payer.payroll(payees)); err != nil {
			return own, least, err
		}
		took, asked, served := time.Since(began), processCPU()-idle, end()
		end = b.cpuTimer()
		between := time.Now()
		if err := b.floor.create(ctx, payer, b.models[payees].body); err != nil {
			return own, least, err
		}
		if i > 0 { // the first round is a warm-up
			mine, floors = append(mine, took), append(floors, time.Since(between))
			work[0] += served
			client += asked
			work[1] += end()
		}
	}
	own, least = spreadOf(mine), spreadOf(floors)
	own.client = client / time.Duration(rounds)
	own.work, least.work = work[0]/time.Duration(rounds), work[1]/time.Duration(rounds)
	return own, least, nil
}

// throughputs measures concurrent clients that create payrolls, in many companies and all in one.
func (b *bench) throughputs(ctx context.Context) error {
	t := newTable(b.out, fmt.Sprintf("%s: payrolls of %d payees a second", b.engine, b.payees),
		"clients", "many companies", "p99", "one company", "p99", "one / many", "floor", "p99", "many / floor")
	b.bare.use(b.models[b.payees])
	for _, n := range b.clients {
		b.logf("%d clients", n)
		in := func(companies int, c *client) func(int) error {
			return func(i int) error {
				payer := b.dataset.companies[i%companies]
				return c.create(ctx, payer, payer.payroll(b.payees))
			}
		}
		var flows [3]measurement
		for i, f := range []func(int) error{in(n, b.own), in(1, b.own), in(n, b.floor)} {
			var err error
			if flows[i], err = throughput(n, b.span, f); err != nil {
				return err
			}
		}
		many, one, least := flows[0], flows[1], flows[2]
		t.row(n, many.rate, many.p99, one.rate, one.p99, ratio(one.rate, many.rate), least.rate, least.p99, ratio(many.rate,
			least.rate))
	}
	return t.end()
}

// replays measures concurrent clients that repeat requests: each its own, and all the same.
func (b *bench) replays(ctx context.Context) error {
	again := make([]repeat, slices.Max(b.clients))
	for i := range again {
		var err error
		if again[i], err = b.own.repeatable(ctx, b.dataset.companies[i], b.payees); err != nil {
			return err
		}
		if err := b.bare.remember(ctx, again[i].key); err != nil {
			return err
		}
	}
	t := newTable(b.out, b.engine+": repeated requests a second, answered from their keys", "clients", "keys", "service",
		"p50", "p99", "floor", "p50", "p99", "ratio to floor")
	for _, n := range b.clients {
		for _, keys := range []int{n, 1} {
			b.logf("%d clients repeat the requests of %d keys", n, keys)
			to := func(c *client) func(int) error {
				return func(i int) error { return again[i%keys].send(ctx, c) }
			}
			flows, err := b.alternate(n, b.process.pid, to(b.own), to(b.floor))
			if err != nil {
				return err
			}
			own, least := flows[0], flows[1]
			t.row(n, keys, own.rate, own.p50, own.p99, least.rate, least.p50, least.p99, ratio(own.rate, least.rate))
		}
	}
	return t.end()
}

// withExistingPayrolls measures the creation of payrolls in a database that already has many.
func (b *bench) withExistingPayrolls(ctx context.Context) error {
	if b.stock == 0 {
		return nil
	}
	b.logf("filling in %d payrolls", b.stock)
	b.process.stop() // a concurrent writer would slow down the fill, and the writers of SQLite would time out
	few := slices.Min(b.sizes)
	if err := fill(ctx, b.address, b.models[few], b.stock); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	if err := b.serve(ctx); err != nil {
		return err
	}
	t := newTable(b.out, fmt.Sprintf("%s: one payroll at a time, with %d payrolls of %d payees in the database", b.engine,
		b.stock, few),
		"payees", "service p50", "p99", "ratio to empty database", "floor p50 (empty)", "ratio to floor", "ratio when empty")
	for _, n := range b.sizes {
		own, least, err := b.comparePayrolls(ctx, n)
		if err != nil {
			return err
		}
		before := b.created[n]
		t.row(n, own.p50, own.p99, ratio(own.p50.Seconds(), before.own.p50.Seconds()),
			least.p50, ratio(own.p50.Seconds(), least.p50.Seconds()), ratio(before.own.p50.Seconds(),
				before.floor.p50.Seconds()))
	}
	return t.end()
}

// ledger measures the ledger alone, in this process.
func (b *bench) ledger(ctx context.Context) error {
	books, err := b.databases("books")
	if err != nil {
		return err
	}
	bare, err := b.databases("barebooks")
	if err != nil {
		return err
	}
	t := newTable(b.out, b.engine+": postings a second, 4 lines on 4 guarded balances each", "clients", "companies",
		"ledger", "p99", "plain SQL, same concurrency", "ratio",
		"plain SQL, full batches", "ratio")
	for _, companies := range []int{1, 32} {
		full, err := bareLedger(ctx, bare, companies, 0, b.span)
		if err != nil {
			return err
		}
		for _, n := range append(slices.Clone(b.clients), 128) {
			b.logf("%d clients post for %d companies", n, companies)
			own, err := ledgerPostings(ctx, books, n, companies, b.span)
			if err != nil {
				return err
			}
			least, err := bareLedger(ctx, bare, companies, n, b.span)
			if err != nil {
				return err
			}
			t.row(n, companies, own.rate, own.p99, least, ratio(own.rate, least), full, ratio(own.rate, full))
		}
	}
	return t.end()
}

// provision prepares an engine that writes through to disk. It returns a function that creates a database, the
// process id of the server (0 for SQLite), and a function that stops it.
func provision(ctx context.Context, engine, dir string) (database func(name string) (string, error), pid int,
	stop func(), err error) {
	switch engine {
	case "sqlite":
		return func(name string) (string, error) {
			return "sqlite:" + filepath.Join(dir, name, "stipend.db"), nil
		}, 0, func() {}, nil
	case "postgres":
		server, err := dbtest.Start(ctx, ".", true)
		if err != nil {
			return nil, 0, nil, fmt.Errorf("PostgreSQL is not available: %w (run make tools to install it)", err)
		}
		return func(name string) (string, error) { return server.Database(ctx, name) }, server.PID, server.Stop, nil
	}
	return nil, 0, nil, fmt.Errorf("-engines: unknown engine %q", engine)
}

type spread struct {
	p50, p99, max time.Duration
	work          time.Duration // average processor time
	client        time.Duration // the client's part of work
}

func spreadOf(all []time.Duration) spread {
	slices.Sort(all)
	return spread{p50: all[len(all)/2], p99: all[len(all)*99/100], max: all[len(all)-1]}
}

type measurement struct {
	rate float64
	spread
}

// throughput runs f in n concurrent clients for the time span, after a short warm-up.
func throughput(n int, span time.Duration, f func(client int) error) (measurement, error) {
	if _, _, err := stream(n, span/6, f); err != nil {
		return measurement{}, err
	}
	every, elapsed, err := stream(n, span, f)
	if err != nil {
		return measurement{}, err
	}
	return measurement{float64(len(every)) / elapsed.Seconds(), spreadOf(every)}, nil
}

// stream runs f repeatedly in n concurrent clients. It returns the duration of each call and the total time.
func stream(n int, span time.Duration, f func(client int) error) (every []time.Duration, elapsed time.Duration,
	err error) {
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
	if err := failed.Load(); err != nil {
		return nil, 0, *err
	}
	return slices.Concat(took...), time.Since(began), nil
}

// micros is a duration that is printed in microseconds.
type micros time.Duration

// memory is a number of bytes that is printed in MiB; 0 means unknown.
type memory int64

func ratio(a, b float64) string { return fmt.Sprintf("%.2f", a/b) }

// table prints rows under a title, in the format of the documentation.
type table struct {
	out            io.Writer
	title, columns string
	rows           []string
	width          int
}

// engineNames replaces the names of engines by those of the documentation.
var engineNames = strings.NewReplacer("sqlite", "SQLite", "postgres", "PostgreSQL")

func newTable(out io.Writer, title string, columns ...string) *table {
	return &table{out: out, title: engineNames.Replace(title), columns: "| " + strings.Join(columns, " | ") + " |",
		width: len(columns)}
}

func (t *table) row(cells ...any) {
	var b strings.Builder
	for _, c := range cells {
		b.WriteString("| ")
		switch c := c.(type) {
		case time.Duration:
			switch ms := float64(c) / 1e6; {
			case ms < 100:
				fmt.Fprintf(&b, "%.1f ms ", ms)
			default:
				fmt.Fprintf(&b, "%s ms ", thousands(ms))
			}
		case micros:
			fmt.Fprintf(&b, "%s µs ", thousands(float64(c)/1e3))
		case memory:
			if c == 0 {
				b.WriteString("- ")
				continue
			}
			fmt.Fprintf(&b, "%d MiB ", c>>20)
		case float64:
			b.WriteString(thousands(c) + " ")
		case int:
			b.WriteString(thousands(float64(c)) + " ")
		default:
			fmt.Fprintf(&b, "%v ", c)
		}
	}
	t.rows = append(t.rows, b.String()+"|")
}

// thousands formats a number without its fraction, with commas.
func thousands(f float64) string {
	text := strconv.FormatFloat(f, 'f', 0, 64)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func (t *table) end() error {
	title := ""
	if t.title != "" {
		title = "**" + t.title + "**\n\n"
	}
	_, err := fmt.Fprintf(t.out, "\n%s%s\n|%s\n%s\n", title, t.columns, strings.Repeat("--:|", t.width),
		strings.Join(t.rows, "\n"))
	return err
}
