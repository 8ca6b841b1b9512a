package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/chaincfg/v2"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/treasury"
	"github.com/stipend/stipend/internal/webhook"
	"github.com/stipend/stipend/internal/withdrawal"
)

const (
	claimPath = "/api/merchant/claim/create"

	paidAtOnce      = 1_000 // claims paid by one block
	foreignPayments = 1_000 // payments to other addresses in one block
	foreignBlocks   = 40    // blocks measured for each number of open claims
)

// openClaims are the numbers of open claims to compare.
var openClaims = []int{1_000, 100_000}

func (c company) claim() []byte {
	return fmt.Appendf(nil,
		`{"company_id":%q,"payer_id":"customer","amount":100.00,"denomination_currency":"USD","funding_currency":"BTC"}`,
		c.id)
}

// waitIdle waits until the service has finished the background work of its requests, such as queueing their events,
// so that this work does not count for the next measurement.
func (b *bench) waitIdle(service int) {
	for range 30 {
		was := cpuOf(service)
		time.Sleep(100 * time.Millisecond)
		if cpuOf(service)-was <= 2*tick {
			return
		}
	}
}

// claims measures merchant claims over HTTP: their creation, and their checkout page.
func (b *bench) claims(ctx context.Context, binary string) error {
	if err := b.createClaims(ctx, binary); err != nil {
		return err
	}
	return b.showCheckout(ctx, binary)
}

// createClaims measures concurrent clients that create claims, in many companies and all in one, and compares them
// with the floor: the same rows by plain SQL, with one commit for each request.
func (b *bench) createClaims(ctx context.Context, binary string) error {
	address, err := b.databases("claims")
	if err != nil {
		return err
	}
	most := slices.Max(b.clients)
	w, err := seed(ctx, address, 1, most, 1)
	if err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	service, err := start(ctx, binary, address)
	if err != nil {
		return err
	}
	defer service.stop()
	own, merchant := newClient(service.url, most), w.companies[0]
	if err := own.ready(ctx, merchant); err != nil {
		return err
	}
	one, err := capture(ctx, address, func() ([]byte, error) {
		return merchant.claim(), own.post(ctx, merchant, claimPath, newKey(), merchant.claim())
	})
	if err != nil {
		return fmt.Errorf("model of a claim: %w", err)
	}
	least, err := b.startFloor(ctx, "claims_floor")
	if err != nil {
		return err
	}
	defer least.stop()
	least.use(one)
	floor := newClient(least.url, most)

	t := newTable(b.out, fmt.Sprintf("%s: claims a second (%d rows each)", b.engine, one.rows()),
		"clients", "many companies", "p50", "p99", "floor", "p50", "p99", "ratio", "one company", "p50", "p99",
		"floor", "p50", "p99", "ratio")
	work := newTable(b.out, "", "clients", "many companies: service", "database", "client", "floor: server and client",
		"database", "floor / service",
		"one company: service", "database", "client", "floor: server and client", "database", "floor / service")
	for _, n := range b.clients {
		b.logf("%d clients create claims", n)
		in := func(companies int, c *client) func(int) error {
			return func(i int) error {
				by := w.companies[i%companies]
				return c.post(ctx, by, claimPath, newKey(), by.claim())
			}
		}
		flows, err := b.alternate(n, service.pid, in(n, own), in(n, floor), in(1, own), in(1, floor))
		if err != nil {
			return err
		}
		rates, costs := []any{n}, []any{n}
		for _, f := range [][2]comparedFlow{{flows[0], flows[1]}, {flows[2], flows[3]}} {
			ours, low := f[0], f[1]
			rates = append(rates, ours.rate, ours.p50, ours.p99, low.rate, low.p50, low.p99, ratio(ours.rate, low.rate))
			costs = append(costs, ours.each(0), ours.each(1), ours.each(2), low.each(2), low.each(1),
				ratio(float64(low.each(1, 2)), float64(ours.each())))
		}
		t.row(rates...)
		work.row(costs...)
	}
	if err := t.end(); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "\nprocessor time for each claim\n")
	return work.end()
}

// turns is the number of pieces into which each measurement is divided. The pieces alternate, so that other work of
// the machine affects all measurements. The median of the rates is reported, because a short stop of the disk affects
// a single piece.
const turns = 9

// comparedFlow is a measurement with the processor time of the service, of the database server, and of this process,
// which runs the clients and the floor.
type comparedFlow struct {
	measurement
	n    int
	work [3]time.Duration
}

// each returns the processor time of one request in the given processes, or in all.
func (w comparedFlow) each(of ...int) micros {
	if len(of) == 0 {
		of = []int{0, 1, 2}
	}
	var sum time.Duration
	for _, i := range of {
		sum += w.work[i]
	}
	return micros(sum / time.Duration(max(w.n, 1)))
}

// alternate measures the throughput of several functions, divided into pieces that alternate. service is the process
// id of the service.
func (b *bench) alternate(n, service int, all ...func(client int) error) ([]comparedFlow, error) {
	now := func() [3]time.Duration {
		return [3]time.Duration{cpuOf(service), cpuOfTree(b.server), cpuOf(os.Getpid())}
	}
	flows := make([]comparedFlow, len(all))
	took, rates := make([][]time.Duration, len(all)), make([][]float64, len(all))
	for turn := range turns {
		for i, f := range all {
			if turn == 0 {
				if _, _, err := stream(n, b.span/6, f); err != nil {
					return nil, err
				}
			}
			before := now()
			some, elapsed, err := stream(n, b.span/turns, f)
			if err != nil {
				return nil, err
			}
			b.waitIdle(service)
			for j, w := range now() {
				flows[i].work[j] += w - before[j]
			}
			took[i] = append(took[i], some...)
			rates[i] = append(rates[i], float64(len(some))/elapsed.Seconds())
		}
	}
	for i := range flows {
		flows[i].n = len(took[i])
		slices.Sort(rates[i])
		flows[i].rate = rates[i][turns/2]
		flows[i].spread = spreadOf(took[i])
	}
	return flows, nil
}

// claimBench is a merchant's claims in this process, on a pipeline.
type claimBench struct {
	*pipeline
	claims *claim.Service
}

func newClaimBench(ctx context.Context, database string) (*claimBench, error) {
	l, err := newPipeline(ctx, database, 1)
	if err != nil {
		return nil, err
	}
	withdrawals, err := withdrawal.New(withdrawal.Config{
		Setup: destination.Setup{Sealer: &identity.Sealer{}}, AllowUnverified: true,
	}, withdrawal.Guards{Screen: allow.Subjects[destination.ScreeningSubject], ReleaseApproved: allow.Release})
	if err != nil {
		return nil, err
	}
	claims, err := claim.New(claim.Config{
		Pool: l.pay.Pool, ChainName: chainName, Network: networkName, Validity: 24 * time.Hour, Withdrawals: withdrawals,
		Sealer: &identity.Sealer{}, Treasury: &treasury.Treasury{},
	}, claim.Guards{CheckWatched: allow.Network, Screen: allow.Address, ReleaseApproved: allow.Release,
		Renewable: allow.Renewal})
	if err != nil {
		return nil, err
	}
	x := &claimBench{pipeline: l, claims: claims}
	x.match = job.NewRunner(l.d, job.Table{chain.JobOutput: {Batch: deposit.OutputsChanged},
		deposit.JobChanged: {Batch: x.claims.Follow}}, nil, slog.New(slog.DiscardHandler))
	return x, nil
}

func (x *claimBench) open(ctx context.Context) (c claim.Claim, err error) {
	err = x.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		c, err = x.claims.Create(ctx, tx, x.by, claim.CreateParams{PayerID: "customer", AmountText: "100.00",
			Currency: "USD"})
		return err
	})
	return c, err
}

// openMany opens claims concurrently, as requests do, so that they share commits.
func (x *claimBench) openMany(ctx context.Context, n int) ([]claim.Claim, error) {
	all := make([]claim.Claim, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 32)
	for i := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			all[i], errs[i] = x.open(ctx)
		})
	}
	wg.Wait()
	i := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if i >= 0 {
		return nil, errs[i]
	}
	return all, nil
}

// readEvents reads and numbers all new events, as the service does before it sends them.
func (x *claimBench) readEvents(ctx context.Context) error {
	for {
		var placed []webhook.StoredEvent
		if err := x.d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			placed, err = webhook.Next(ctx, tx, 1_000)
			return err
		}); err != nil || len(placed) == 0 {
			return err
		}
	}
}

// claimBlocks measures a block that pays many claims, and the effect of the number of open claims on the cost of
// other blocks.
func (b *bench) claimBlocks(ctx context.Context) error {
	database, err := b.databases("claim_blocks")
	if err != nil {
		return err
	}
	x, err := newClaimBench(ctx, database)
	if err != nil {
		return err
	}
	defer x.d.Close()
	b.logf("%d claims paid by one block", paidAtOnce)
	t := newTable(b.out, fmt.Sprintf("%s: one block pays %d claims of one merchant", b.engine, paidAtOnce),
		"seen in the mempool", "block matched and credited", "events read", "block total", "processor time: seen",
		"matched and credited", "events read")
	for range 3 {
		p, err := x.payBlock(ctx, b)
		if err != nil {
			return err
		}
		t.row(p.seen.took, p.matched.took, p.announced.took, p.matched.took+p.announced.took, p.seen.worked, p.matched.worked,
			p.announced.worked)
	}
	if err := t.end(); err != nil {
		return err
	}
	return b.watchedBlocks(ctx)
}

// watchedBlocks measures blocks without payments of claims, with few and with many open claims. It uses two databases
// alternately, so that other work of the machine affects both.
func (b *bench) watchedBlocks(ctx context.Context) error {
	benches := make([]*claimBench, len(openClaims))
	for i, n := range openClaims {
		database, err := b.databases(fmt.Sprintf("claims_open_%d", n))
		if err != nil {
			return err
		}
		if benches[i], err = newClaimBench(ctx, database); err != nil {
			return err
		}
		defer benches[i].d.Close()
		b.logf("%d claims are open", n)
		one, err := capture(ctx, database, func() ([]byte, error) { _, err := benches[i].open(ctx); return nil, err })
		if err != nil {
			return fmt.Errorf("model of a claim: %w", err)
		}
		if err := fillClaims(ctx, database, one, n); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
		for range 30 { // the reads of a watcher within a minute
			if _, err := benches[i].sync(ctx); err != nil {
				return err
			}
		}
	}
	looks, worked := make([][]time.Duration, len(benches)), make([]time.Duration, len(benches))
	for round := range foreignBlocks + 1 {
		for i, x := range benches {
			c, err := x.foreignBlock(ctx, b)
			if err != nil {
				return err
			}
			if round > 0 { // the first round is a warm-up
				looks[i] = append(looks[i], c.took)
				worked[i] += c.worked
			}
		}
	}
	t := newTable(b.out, fmt.Sprintf("%s: %d blocks of %d payments to others, watched", b.engine, foreignBlocks,
		foreignPayments), "open claims", "p50", "p99", "ratio to first", "processor time", "ratio to first")
	for i, n := range openClaims {
		s, first := spreadOf(looks[i]), spreadOf(looks[0])
		t.row(n, s.p50, s.p99, ratio(s.p50.Seconds(), first.p50.Seconds()), micros(worked[i]/foreignBlocks),
			ratio(worked[i].Seconds(), worked[0].Seconds()))
	}
	return t.end()
}

// firstFilled is the first address index that fillClaims uses. Lower indexes belong to the claims of the model or
// remain unused.
const firstFilled = 1_000

// fillClaims writes n claims like the model. Their addresses are random, as real ones are; those of plain copies
// would be adjacent in the index.
func fillClaims(ctx context.Context, database string, m *model, n int) error {
	const addresses = "chain_addresses"
	rest := *m
	rest.tables = slices.DeleteFunc(slices.Clone(m.tables), func(t modelTable) bool { return t.name == addresses })
	i := slices.IndexFunc(m.tables, func(t modelTable) bool { return t.name == addresses })
	if i < 0 {
		return errors.New("a claim has no address")
	}
	like := m.tables[i]
	column, index := slices.Index(like.columns, "address"), slices.Index(like.columns, "idx")
	b, err := openBare(ctx, database)
	if err != nil {
		return err
	}
	defer b.close()
	for left := n; left > 0; left -= 10_000 {
		t := modelTable{name: addresses, columns: like.columns, rows: make([][]any, min(left, 10_000))}
		for i := range t.rows {
			t.rows[i] = slices.Clone(like.rows[0])
			if t.rows[i][column], err = anyAddress(); err != nil {
				return err
			}
			t.rows[i][index] = firstFilled + int64(n-left+i)
		}
		if err := b.write(ctx, []modelTable{t}); err != nil {
			return err
		}
	}
	if err := b.batch(ctx, []statement{{text: fmt.Sprintf("UPDATE chain_pools SET next = %d WHERE branch = %d",
		firstFilled+n, chain.External)}}); err != nil {
		return err
	}
	return fill(ctx, database, &rest, n)
}

// anyAddress returns a random address.
func anyAddress() (string, error) {
	var program [20]byte
	_, _ = rand.Read(program[:])
	to, err := address.NewAddressWitnessPubKeyHash(program[:], &chaincfg.RegressionNetParams)
	if err != nil {
		return "", err
	}
	return to.EncodeAddress(), nil
}

// paidBlock is the cost of a block: reading its payments in the mempool, recording its confirmations, and reading the
// resulting events.
type paidBlock struct{ seen, matched, announced cost }

// cost is elapsed time, and processor time of this process and the database server.
type cost struct{ took, worked time.Duration }

func (b *bench) costOf(f func() error) (c cost, err error) {
	work := func() time.Duration { return cpuOf(os.Getpid()) + cpuOfTree(b.server) }
	before, began := work(), time.Now()
	err = f()
	return cost{time.Since(began), work() - before}, err
}

// payBlock opens claims, pays them all in one block, and checks that they are paid.
func (x *claimBench) payBlock(ctx context.Context, b *bench) (p paidBlock, err error) {
	all, err := x.openMany(ctx, paidAtOnce)
	if err != nil {
		return p, err
	}
	outs := make([]chain.Output, len(all))
	for i, c := range all {
		outs[i] = chain.Output{Address: c.Address, Amount: c.Quote.Funding.Units()}
	}
	if err := x.send(ctx, outs); err != nil {
		return p, err
	}
	syncOnce := func() error { _, err := x.sync(ctx); return err }
	readEvents := func() error { return x.readEvents(ctx) }
	if p.seen, err = b.costOf(syncOnce); err != nil {
		return p, err
	}
	if err := errors.Join(readEvents(), x.chain.Mine(ctx, 1)); err != nil {
		return p, err
	}
	if p.matched, err = b.costOf(syncOnce); err != nil {
		return p, err
	}
	if p.announced, err = b.costOf(readEvents); err != nil {
		return p, err
	}
	return p, x.d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		for _, c := range all {
			now, err := x.claims.Get(ctx, tx, x.by, "", c.ID)
			if err == nil && now.State != claim.Paid {
				err = fmt.Errorf("claim %s is %s after its payment", c.ID, now.State)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// send pays outputs, a few by each transaction.
func (x *claimBench) send(ctx context.Context, outs []chain.Output) error {
	const outputsOfOne = 25 // the simulated payer pays a fixed fee
	for batch := range slices.Chunk(outs, outputsOfOne) {
		if _, err := x.chain.PayAll(ctx, batch...); err != nil {
			return err
		}
	}
	return nil
}

// foreignBlock measures a block with payments to random addresses only.
func (x *claimBench) foreignBlock(ctx context.Context, b *bench) (c cost, err error) {
	outs := make([]chain.Output, foreignPayments)
	for i := range outs {
		outs[i].Amount = 10_000
		if outs[i].Address, err = anyAddress(); err != nil {
			return c, err
		}
	}
	if err := errors.Join(x.send(ctx, outs), x.chain.Mine(ctx, 1)); err != nil {
		return c, err
	}
	return b.costOf(func() error { _, err := x.sync(ctx); return err })
}

// showCheckout measures the checkout page of a claim on a slow phone.
func (b *bench) showCheckout(ctx context.Context, binary string) error {
	address, err := b.databases("checkout")
	if err != nil {
		return err
	}
	w, err := seed(ctx, address, 1, 1, 1)
	if err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	service, err := start(ctx, binary, address)
	if err != nil {
		return err
	}
	defer service.stop()
	own, merchant := newClient(service.url, 1), w.companies[0]
	if err := own.ready(ctx, merchant); err != nil {
		return err
	}
	var made struct {
		CheckoutURL string `json:"checkout_url"`
	}
	answer, err := own.do(ctx, merchant, claimPath, newKey(), merchant.claim())
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, &made); err != nil {
		return err
	}
	b.logf("a slow phone loads the checkout")
	p, err := loadPage(ctx, made.CheckoutURL)
	if err != nil {
		return err
	}
	t := newTable(b.out, b.engine+": the checkout on a slow phone (4 times slower, 1.6 Mbit/s, 150 ms)", "first content",
		"total bytes")
	t.row(p.first, fmt.Sprintf("%.1f kB", float64(p.bytes)/1000))
	return t.end()
}
