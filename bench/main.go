// Command bench measures the service against its floors and prints the figures.
//
// A floor is the least that the same durable work can cost: the same rows, written by bare SQL in one transaction
// behind a net/http server that knows nothing else. What the service costs above its floor is what its rules cost. The
// service is the real program, started as a process of its own on a fresh database; PostgreSQL is a fresh server that
// writes through to disk.
//
//	make bench
//	make bench ARGS="-engines sqlite -seconds 5"
//
// Service, floor, database and clients share the machine, so read the ratios; the seconds are this machine's.
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
	payees  int           // of a payroll, where many clients create them
	span    time.Duration // of each measurement of throughput

	endpoints []int // of webhooks

	stock int // payrolls that are there already, for the measurement that wants them

	overHTTP, line, books, crowd bool // what to measure
	hooks, checkout, blocks      bool // likewise
	rails                        bool
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	engines := flag.String("engines", "sqlite,postgres", "databases to measure on")
	sizes := flag.String("sizes", "1,100,1000,10000", "payees of one payroll")
	clients := flag.String("clients", "8,32", "clients at once")
	payees := flag.Int("payees", 10, "payees of a payroll where many clients create them")
	seconds := flag.Float64("seconds", 3, "length of each measurement of throughput")
	endpoints := flag.String("endpoints", "1,100,1000", "endpoints that webhooks are delivered to")
	stock := flag.Int("stock", 1_000_000, "payrolls that the database has already, for the last measurement over HTTP; 0 leaves it out")
	parts := flag.String("parts", "service,claims,blocks,line,rails,webhooks,lists,ledger", "what to measure")
	profile := flag.String("profile", "", "file to write a CPU profile of this process to")
	flag.Parse()
	o := options{
		engines: strings.Split(*engines, ","), payees: *payees, span: time.Duration(*seconds * float64(time.Second)),
		stock: *stock, overHTTP: strings.Contains(*parts, "service"), line: strings.Contains(*parts, "line"), books: strings.Contains(*parts, "ledger"), crowd: strings.Contains(*parts, "lists"),
	}
	o.hooks = strings.Contains(*parts, "webhooks")
	o.checkout = strings.Contains(*parts, "claims")
	o.rails = strings.Contains(*parts, "rails")
	o.blocks = strings.Contains(*parts, "blocks")
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

// profiled runs f and writes what this process spent its time on to a file, if one is named: the parts line and ledger
// run here.
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
	if o.overHTTP || o.checkout {
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
	databases, server, stop, err := provision(ctx, engine, dir)
	if err != nil {
		return err
	}
	defer stop()
	b := bench{options: o, out: out, engine: engine, databases: databases, server: server}
	if o.overHTTP {
		if err := b.service(ctx, binary); err != nil {
			return err
		}
	}
	if o.checkout {
		if err := b.claims(ctx, binary); err != nil {
			return err
		}
	}
	if o.blocks {
		if err := b.claimBlocks(ctx); err != nil {
			return err
		}
	}
	if o.hooks {
		if err := b.webhooks(ctx); err != nil {
			return err
		}
	}
	if o.line {
		if err := b.flow(ctx); err != nil {
			return err
		}
	}
	if o.rails {
		if err := b.ways(ctx, dir); err != nil {
			return err
		}
	}
	if o.crowd {
		if err := b.lists(ctx); err != nil {
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
	server    int // the process of the database's server; 0 where there is none

	world      *world
	own, floor *client
	bare       *floor
	models     map[int]*model  // by number of payees: the rows that one payroll left
	created    map[int]created // likewise: how long creating one takes
	binary     string
	process    *process
	address    string // of the service's database
}

// created is how long it takes to create a payroll.
type created struct{ own, floor spread }

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
	b.binary, b.address = binary, address
	if err := b.serve(ctx); err != nil {
		return err
	}
	defer func() { b.process.stop() }()
	payer := b.world.companies[0]
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
	for _, part := range []func(context.Context) error{b.latencies, b.throughputs, b.replays, b.stocked} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// serve starts the service and waits until it takes payrolls.
func (b *bench) serve(ctx context.Context) (err error) {
	if b.process, err = start(ctx, b.binary, b.address); err != nil {
		return err
	}
	b.own = newClient(b.process.url, slices.Max(b.clients))
	if err := b.own.ready(ctx, b.world.companies[0]); err != nil {
		b.process.stop()
		return err
	}
	return nil
}

// latencies creates payrolls one at a time, in turn with the floor.
func (b *bench) latencies(ctx context.Context) error {
	t := newTable(b.out, b.engine+": one payroll at a time",
		"payees", "rows", "service p50", "p99", "payrolls/s", "payees/s", "per payee", "peak memory", "floor p50", "p99", "times the floor",
		"processors", "of it the client", "floor's", "times")
	b.created = map[int]created{}
	for _, n := range b.sizes {
		b.process.forgetPeak()
		own, least, err := b.inTurn(ctx, n)
		if err != nil {
			return err
		}
		b.created[n] = created{own, least}
		perSecond := 1 / own.p50.Seconds()
		t.row(n, b.models[n].rows(), own.p50, own.p99, perSecond, perSecond*float64(n), micros(own.p50/time.Duration(n)), b.process.peak(),
			least.p50, least.p99, ratio(own.p50.Seconds(), least.p50.Seconds()), own.work, own.client, least.work, ratio(own.work.Seconds(), least.work.Seconds()))
	}
	return t.end()
}

// begin returns what says how long the processors have worked since for the clients and floors of this process, the
// service and the database's server. To look at all processes of the machine costs as much as some requests do: that is
// left out, by looking at this process last here, and first then. So who measures the time as well begins and ends with
// that in between.
func (b *bench) begin() (end func() time.Duration) {
	others, own := b.others(), worked()
	return func() time.Duration { now := worked(); return now - own + b.others() - others }
}

// others is how long they have worked for the service and the database's server.
func (b *bench) others() time.Duration {
	sum := workOfAll(b.server)
	if b.process != nil {
		sum += workOf(b.process.pid)
	}
	return sum
}

// inTurn creates payrolls at the service and at the floor alternately, so that what else the machine does falls on
// both.
func (b *bench) inTurn(ctx context.Context, payees int) (own, least spread, err error) {
	payer := b.world.companies[0]
	rounds := min(100, max(7, 20_000/payees))
	b.say("%d payees, %d rounds", payees, rounds)
	b.bare.use(b.models[payees])
	var mine, floors []time.Duration
	var work [2]time.Duration
	var client time.Duration
	for i := range rounds + 1 {
		end, idle := b.begin(), worked()
		began := time.Now()
		if err := b.own.create(ctx, payer, payer.payroll(payees)); err != nil {
			return own, least, err
		}
		took, asked, served := time.Since(began), worked()-idle, end()
		end = b.begin()
		between := time.Now()
		if err := b.floor.create(ctx, payer, b.models[payees].body); err != nil {
			return own, least, err
		}
		if i > 0 { // the first one warms up
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

// throughputs has many clients create payrolls, in many companies and all in one.
func (b *bench) throughputs(ctx context.Context) error {
	t := newTable(b.out, fmt.Sprintf("%s: payrolls of %d payees a second", b.engine, b.payees),
		"clients", "many companies", "p99", "one company", "p99", "one of many", "floor", "p99", "many of the floor")
	b.bare.use(b.models[b.payees])
	for _, n := range b.clients {
		b.say("%d clients", n)
		in := func(companies int, c *client) func(int) error {
			return func(i int) error {
				payer := b.world.companies[i%companies]
				return c.create(ctx, payer, payer.payroll(b.payees))
			}
		}
		var flows [3]flow
		for i, f := range []func(int) error{in(n, b.own), in(1, b.own), in(n, b.floor)} {
			var err error
			if flows[i], err = throughput(n, b.span, f); err != nil {
				return err
			}
		}
		many, one, least := flows[0], flows[1], flows[2]
		t.row(n, many.rate, many.p99, one.rate, one.p99, ratio(one.rate, many.rate), least.rate, least.p99, ratio(many.rate, least.rate))
	}
	return t.end()
}

// replays has each client repeat a request of its own.
func (b *bench) replays(ctx context.Context) error {
	again := make([]repeat, slices.Max(b.clients))
	for i := range again {
		var err error
		if again[i], err = b.own.repeatable(ctx, b.world.companies[i], b.payees); err != nil {
			return err
		}
		if err := b.bare.remember(ctx, again[i].key); err != nil {
			return err
		}
	}
	t := newTable(b.out, b.engine+": repeated requests a second, answered from their keys", "clients", "service", "p99", "floor", "p99", "of the floor")
	for _, n := range b.clients {
		b.say("%d clients repeat a request", n)
		own, err := throughput(n, b.span, func(i int) error { return again[i].send(ctx, b.own) })
		if err != nil {
			return err
		}
		least, err := throughput(n, b.span, func(i int) error { return again[i].send(ctx, b.floor) })
		if err != nil {
			return err
		}
		t.row(n, own.rate, own.p99, least.rate, least.p99, ratio(own.rate, least.rate))
	}
	return t.end()
}

// stocked creates payrolls where very many are already.
func (b *bench) stocked(ctx context.Context) error {
	if b.stock == 0 {
		return nil
	}
	b.say("filling in %d payrolls", b.stock)
	b.process.stop() // a database that others write to fills slowly, and SQLite's writers would wait for each other in vain
	few := slices.Min(b.sizes)
	if err := fill(ctx, b.address, b.models[few], b.stock); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	if err := b.serve(ctx); err != nil {
		return err
	}
	t := newTable(b.out, fmt.Sprintf("%s: one payroll at a time, with %d payrolls of %d payees in the database", b.engine, b.stock, few),
		"payees", "service p50", "p99", "of the empty database's", "floor p50 (empty)", "times the floor", "before")
	for _, n := range b.sizes {
		own, least, err := b.inTurn(ctx, n)
		if err != nil {
			return err
		}
		before := b.created[n]
		t.row(n, own.p50, own.p99, ratio(own.p50.Seconds(), before.own.p50.Seconds()),
			least.p50, ratio(own.p50.Seconds(), least.p50.Seconds()), ratio(before.own.p50.Seconds(), before.floor.p50.Seconds()))
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
	t := newTable(b.out, b.engine+": postings a second, 4 lines on 4 guarded balances each", "clients", "companies", "ledger", "p99", "bare SQL with as many under way", "of it",
		"bare SQL in full batches", "of it")
	for _, companies := range []int{1, 32} {
		full, err := bareLedger(ctx, bare, companies, 0, b.span)
		if err != nil {
			return err
		}
		for _, n := range append(slices.Clone(b.clients), 128) {
			b.say("%d clients post for %d companies", n, companies)
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

// provision makes a place for databases that write through to disk, and a function that makes one of them. pid is that
// of their server, if they have one.
func provision(ctx context.Context, engine, dir string) (database func(name string) (string, error), pid int, stop func(), err error) {
	switch engine {
	case "sqlite":
		return func(name string) (string, error) {
			return "sqlite:" + filepath.Join(dir, name, "stipend.db"), nil
		}, 0, func() {}, nil
	case "postgres":
		server, err := dbtest.Start(ctx, ".", true)
		if err != nil {
			return nil, 0, nil, fmt.Errorf("no PostgreSQL: %w (make tools gets one)", err)
		}
		return func(name string) (string, error) { return server.Database(ctx, name) }, server.PID, server.Stop, nil
	}
	return nil, 0, nil, fmt.Errorf("-engines: there is no %q", engine)
}

type spread struct {
	p50, p99, max time.Duration
	work          time.Duration // of the processors, on average
	client        time.Duration // of it for the client
}

func spreadOf(all []time.Duration) spread {
	slices.Sort(all)
	return spread{p50: all[len(all)/2], p99: all[len(all)*99/100], max: all[len(all)-1]}
}

type flow struct {
	rate float64
	spread
}

// throughput runs f in n clients at once for a while, after a short run that does not count.
func throughput(n int, span time.Duration, f func(client int) error) (flow, error) {
	if _, _, err := stream(n, span/6, f); err != nil {
		return flow{}, err
	}
	every, elapsed, err := stream(n, span, f)
	if err != nil {
		return flow{}, err
	}
	return flow{float64(len(every)) / elapsed.Seconds(), spreadOf(every)}, nil
}

// stream says how long each run took, and how long all lasted.
func stream(n int, span time.Duration, f func(client int) error) (every []time.Duration, elapsed time.Duration, err error) {
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

// micros is a duration that prints as microseconds.
type micros time.Duration

// memory is bytes that print as MiB; 0 is unknown.
type memory int64

func ratio(a, b float64) string { return fmt.Sprintf("%.2f", a/b) }

// table prints rows under a title, as the documentation has them.
type table struct {
	out            io.Writer
	title, columns string
	rows           []string
	width          int
}

// engines are how the documentation writes their names.
var engineNames = strings.NewReplacer("sqlite", "SQLite", "postgres", "PostgreSQL")

func newTable(out io.Writer, title string, columns ...string) *table {
	return &table{out: out, title: engineNames.Replace(title), columns: "| " + strings.Join(columns, " | ") + " |", width: len(columns)}
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

// thousands writes a number without its fraction, and with commas.
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
	_, err := fmt.Fprintf(t.out, "\n%s%s\n|%s\n%s\n", title, t.columns, strings.Repeat("--:|", t.width), strings.Join(t.rows, "\n"))
	return err
}
