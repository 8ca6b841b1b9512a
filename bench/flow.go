package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	bitcoinrail "github.com/stipend/stipend/internal/payout/bitcoin"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/treasury"
)

// line is the service from the funding of a payroll to its signed payouts, inside this process. The benchmark runs the
// watcher and the jobs itself, so that it measures their work without the time between blocks and checks.
type line struct {
	d       *db.DB
	company company
	by      identity.Principal
	pay     *payroll.Service
	chain   *bitcoinsim.Chain
	watcher *chain.Watcher
	match   *job.Runner // books deposits and what they mean to their payrolls
	rail    *bitcoinrail.Rail
	prepare *job.Runner // releases payrolls and signs payouts; nothing is sent
	program *job.Runner // both in one, as the program has them, so that what follows from a deposit shares its commit

	begin func() (end func() time.Duration) // see bench.begin
	work  time.Duration                     // by the processors, for what was measured

	outside atomic.Int64 // nanoseconds for which the watcher waited for the simulated chain
}

// node is the simulated chain as the watcher asks it. It lives in the same database; a real one would not.
type node struct {
	chain.Source
	waited *atomic.Int64
}

func timed[T any](n node, f func() (T, error)) (T, error) {
	began := time.Now()
	defer func() { n.waited.Add(int64(time.Since(began))) }()
	return f()
}

func (n node) Tip(ctx context.Context) (height int64, hash string, err error) {
	_, err = timed(n, func() (none struct{}, err error) {
		height, hash, err = n.Source.Tip(ctx)
		return none, err
	})
	return height, hash, err
}

func (n node) BlockHash(ctx context.Context, height int64) (string, error) {
	return timed(n, func() (string, error) { return n.Source.BlockHash(ctx, height) })
}

func (n node) Block(ctx context.Context, hash string) (chain.Block, error) {
	return timed(n, func() (chain.Block, error) { return n.Source.Block(ctx, hash) })
}

func (n node) Mempool(ctx context.Context) ([]string, error) {
	return timed(n, func() ([]string, error) { return n.Source.Mempool(ctx) })
}

func (n node) Tx(ctx context.Context, txid string) (chain.Tx, error) {
	return timed(n, func() (chain.Tx, error) { return n.Source.Tx(ctx, txid) })
}

const (
	lineChain   = "bitcoin"
	lineNetwork = "regtest"
)

func newLine(ctx context.Context, database string, payees int) (*line, error) {
	w, err := seed(ctx, database, payees, 1, 1)
	if err != nil {
		return nil, err
	}
	d, err := db.Open(ctx, db.Options{URL: database})
	if err != nil {
		return nil, err
	}
	master, err := bitcoin.MasterFromSeed(make([]byte, 32), lineNetwork)
	if err != nil {
		return nil, err
	}
	signer, err := bitcoin.ParseXPriv(master, lineNetwork)
	if err != nil {
		return nil, err
	}
	const never = 24 * time.Hour
	refresher := rates.Refresher{DB: d, Sources: []rates.Source{rates.Sandbox()}, Quorum: 1, CryptoLimit: never, FiatLimit: never}
	if err := refresher.Refresh(ctx); err != nil {
		return nil, err
	}
	l := &line{
		d: d, company: w.companies[0], chain: bitcoinsim.New(d), begin: func() func() time.Duration { return func() time.Duration { return 0 } },
		by: identity.Principal{Kind: identity.KindAPIKey, ID: "key_bench", CompanyID: w.companies[0].id, Scopes: identity.AllScopes()},
	}
	quiet := slog.New(slog.DiscardHandler)
	pool := chain.NewPool(d, lineChain, signer.Deriver())
	if err := pool.Start(ctx); err != nil {
		return nil, err
	}
	funds, err := treasury.New(treasury.Unlimited)
	if err != nil {
		return nil, err
	}
	if l.pay, err = payroll.New(payroll.Config{
		Pool: pool, ChainName: lineChain, Network: lineNetwork, QuoteValidity: time.Hour, Treasury: funds,
	}, payroll.Guards{CheckWatched: allow.Network, Screen: allow.Subjects[destination.ScreeningSubject], ReleaseApproved: allow.Release}); err != nil {
		return nil, err
	}
	rail, err := bitcoinrail.New(bitcoinrail.Config{Chain: lineChain, Source: l.chain, Pool: pool, Signer: signer, Log: quiet, FeeMaxAge: never})
	if err != nil {
		return nil, err
	}
	if err := rail.RefreshFees(ctx, d); err != nil {
		return nil, err
	}
	payouts, err := payout.New(rail)
	if err != nil {
		return nil, err
	}
	l.rail = rail
	l.watcher = chain.NewWatcher(d, lineChain, node{l.chain, &l.outside}, 1, quiet)
	if err := l.watcher.CacheAddresses(signer.Deriver(), chain.AddressCacheThreshold); err != nil {
		return nil, err
	}
	match := job.Table{chain.JobOutput: {Batch: deposit.OutputsChanged}, deposit.JobChanged: {Tx: l.pay.Fund}}
	prepare := job.Table{payroll.JobRelease: {Tx: l.pay.Release}}
	prepare[payout.JobPrepare(payout.RailBitcoin)] = payouts.Jobs()[payout.JobPrepare(payout.RailBitcoin)]
	program := maps.Clone(match)
	maps.Copy(program, prepare)
	l.match, l.prepare, l.program = job.NewRunner(d, match, nil, quiet), job.NewRunner(d, prepare, nil, quiet), job.NewRunner(d, program, nil, quiet)
	if err := l.watcher.Sync(ctx); err != nil {
		return nil, err
	}
	// Seeding left thousands of jobs. The service works them off before it is measured over HTTP; here nobody would.
	if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM jobs")
		return err
	}); err != nil {
		return nil, err
	}
	return l, l.fillWallet(ctx, payees)
}

// fillWallet gives the wallet coins to pay from, as a wallet in use has them: those of payrolls that are held. No
// payout is sent here, so no change comes back.
func (l *line) fillWallet(ctx context.Context, payees int) error {
	for range 4 {
		p, err := l.create(ctx, payees)
		if err != nil {
			return err
		}
		const coins = 100
		if _, err := l.matched(ctx, []payroll.Payroll{p}, coins); err != nil {
			return err
		}
	}
	return l.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return payroll.Freeze(ctx, tx, l.company.id) })
}

func (l *line) create(ctx context.Context, payees int) (p payroll.Payroll, err error) {
	params := payroll.CreateParams{CompanyID: l.company.id, Currency: "USD", FundingCurrency: "BTC", ToPay: make([]payroll.Payee, payees)}
	for i, id := range l.company.payees[:payees] {
		params.ToPay[i] = payroll.Payee{UserID: id, AmountText: fmt.Sprintf("20.%02d", i%100)}
	}
	err = l.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		p, err = l.pay.Create(ctx, tx, l.by, params)
		return err
	})
	return p, err
}

// funded pays payrolls, each in so many pieces, and says how long it took the service to see the deposits, and what it
// did once they had their confirmations. The payer's and the miner's own work does not count.
func (l *line) funded(ctx context.Context, jobs *job.Runner, all []payroll.Payroll, pieces int64) (seen, confirmed time.Duration, err error) {
	const outputsOfOne = 25 // of one payment: the simulated payer pays a fixed fee
	var outs []chain.Output
	for _, p := range all {
		due := p.Quote.Funding.Units()
		for i := range pieces {
			amount := due / pieces
			if i == 0 {
				amount += due % pieces
			}
			outs = append(outs, chain.Output{Address: p.Address, Amount: amount})
		}
	}
	for len(outs) > 0 {
		n := min(len(outs), outputsOfOne)
		if _, err := l.chain.PayAll(ctx, outs[:n]...); err != nil {
			return 0, 0, err
		}
		outs = outs[n:]
	}
	if seen, err = l.follow(ctx, jobs); err != nil {
		return seen, 0, err
	}
	if err := l.chain.Mine(ctx, 6); err != nil {
		return seen, 0, err
	}
	confirmed, err = l.follow(ctx, jobs)
	return seen, confirmed, err
}

// matched has payrolls paid and taken as received.
func (l *line) matched(ctx context.Context, all []payroll.Payroll, pieces int64) (time.Duration, error) {
	seen, confirmed, err := l.funded(ctx, l.match, all, pieces)
	if err != nil {
		return 0, err
	}
	return seen + confirmed, l.d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		for _, p := range all {
			now, err := l.pay.Get(ctx, tx, l.by, p.ID)
			if err == nil && now.State != payroll.Received {
				err = fmt.Errorf("payroll %s is %s after its funding", p.ID, now.State)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// look has the watcher and the matching do what there is to do.
func (l *line) look(ctx context.Context) (time.Duration, error) { return l.follow(ctx, l.match) }

// follow is look with other jobs than the matching's.
func (l *line) follow(ctx context.Context, jobs *job.Runner) (time.Duration, error) {
	end := l.begin()
	began := time.Now()
	defer func() { l.work += end() }()
	if err := l.watcher.Sync(ctx); err != nil {
		return 0, err
	}
	for {
		err := jobs.Drain(ctx)
		if f, ok := apierr.As(err); ok && f.Kind == apierr.Unavailable && time.Since(began) < time.Minute {
			time.Sleep(50 * time.Millisecond) // two jobs met at one payroll; the loser comes back
			continue
		}
		return time.Since(began), err
	}
}

// prepared releases received payrolls and signs their payouts.
func (l *line) prepared(ctx context.Context, all []payroll.Payroll) (time.Duration, error) {
	end := l.begin()
	began := time.Now()
	if err := l.prepare.Drain(ctx); err != nil {
		return 0, err
	}
	took := time.Since(began)
	l.work += end()
	return took, l.ready(ctx, all)
}

// ready says whether every payout of the payrolls is signed.
func (l *line) ready(ctx context.Context, all []payroll.Payroll) error {
	return l.d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		for _, p := range all {
			outs, err := payout.ForPayroll(ctx, tx, p.CompanyID, p.ID)
			if err != nil {
				return err
			}
			ready := 0
			for _, o := range outs {
				if o.State == payout.Prepared {
					ready++
				}
			}
			if int64(ready) != p.Count {
				return fmt.Errorf("payroll %s: %d of %d payouts are ready", p.ID, ready, p.Count)
			}
		}
		return nil
	})
}

// step is the rows that one payroll leaves from its payment to its payouts.
func (l *line) step(ctx context.Context, database string, payees int) (*model, error) {
	p, err := l.create(ctx, payees)
	if err != nil {
		return nil, err
	}
	before, err := dump(ctx, database)
	if err != nil {
		return nil, err
	}
	if _, _, err := l.funded(ctx, l.program, []payroll.Payroll{p}, 1); err != nil {
		return nil, err
	}
	after, err := dump(ctx, database)
	if err != nil {
		return nil, err
	}
	return modelOf(nil, before, after)
}

// flow measures the way from funding to signed payouts.
func (b *bench) flow(ctx context.Context) error {
	database, err := b.databases("line")
	if err != nil {
		return err
	}
	most := 0
	for _, n := range b.sizes {
		most = max(most, n)
	}
	b.say("preparing a wallet")
	l, err := newLine(ctx, database, most)
	if err != nil {
		return fmt.Errorf("line: %w", err)
	}
	defer l.d.Close()
	l.begin = b.begin

	least, err := b.startFloor(ctx, "linefloor")
	if err != nil {
		return err
	}
	defer least.stop()

	t := newTable(b.out, b.engine+": from the creation of a payroll to its signed payouts, one payroll at a time",
		"payees", "create (HTTP)", "deposit seen", "confirmed to payouts ready", "of both the chain", "all", "per payee", "times the floor of create", "rows", "floor of all rows", "times")
	work := newTable(b.out, b.engine+": the same by the processors' time",
		"payees", "create", "of it the client", "seen to ready", "all", "per payee", "times the floor of create", "floor of all rows", "times")
	for _, n := range b.sizes {
		rounds := min(20, max(3, 20_000/n))
		b.say("%d payees from payment to payouts, %d rounds", n, rounds)
		step, err := l.step(ctx, database, n)
		if err != nil {
			return fmt.Errorf("the rows of %d payees: %w", n, err)
		}
		seen, ready, floor := make([]time.Duration, rounds), make([]time.Duration, rounds), make([]time.Duration, rounds)
		var working, writing, waited time.Duration
		for i := range rounds {
			p, err := l.create(ctx, n)
			if err != nil {
				return err
			}
			one := []payroll.Payroll{p}
			before, outside := l.work, l.outside.Load()
			if seen[i], ready[i], err = l.funded(ctx, l.program, one, 1); err != nil {
				return err
			}
			if err := l.ready(ctx, one); err != nil {
				return err
			}
			waited += time.Duration(l.outside.Load() - outside)
			working += l.work - before
			end := b.begin()
			began := time.Now()
			if err := least.db.write(ctx, step.copy(least.serial.Add(1), "")); err != nil {
				return err
			}
			floor[i] = time.Since(began)
			writing += end()
		}
		created, known := b.created[n]
		m, r, f := spreadOf(seen).p50, spreadOf(ready).p50, spreadOf(floor).p50
		each := time.Duration(rounds)
		working, writing, waited = working/each, writing/each, waited/each
		all, worked := created.own.p50+m+r, created.own.work+working
		times, workTimes := "-", "-"
		rows := step.rows()
		if model := b.models[n]; known {
			rows += model.rows()
			f, writing = f+created.floor.p50, writing+created.floor.work
			times, workTimes = ratio(all.Seconds(), created.floor.p50.Seconds()), ratio(worked.Seconds(), created.floor.work.Seconds())
		}
		t.row(n, created.own.p50, m, r, waited, all, micros(all/time.Duration(n)), times, rows, f, ratio(all.Seconds(), f.Seconds()))
		work.row(n, created.own.work, created.own.client, working, worked, micros(worked/time.Duration(n)), workTimes, writing, ratio(worked.Seconds(), writing.Seconds()))
	}
	if err := errors.Join(t.end(), work.end()); err != nil {
		return err
	}

	const many = 300
	b.say("%d payrolls of 1 payee from payment to payouts", many)
	all := make([]payroll.Payroll, many)
	for i := range all {
		if all[i], err = l.create(ctx, 1); err != nil {
			return err
		}
	}
	m, err := l.matched(ctx, all, 1)
	if err != nil {
		return err
	}
	r, err := l.prepared(ctx, all)
	if err != nil {
		return err
	}
	t = newTable(b.out, fmt.Sprintf("%s: %d payrolls of 1 payee at once, a second", b.engine, many), "deposits matched", "payrolls released and payouts prepared")
	t.row(many/m.Seconds(), many/r.Seconds())
	return t.end()
}
