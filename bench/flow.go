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

// pipeline runs the service in this process, from the funding of a payroll to its signed payouts. The watcher and the
// jobs run on request, so that their work is measured without the time between blocks or polls.
type pipeline struct {
	d       *db.DB
	company company
	by      identity.Principal
	pay     *payroll.Service
	chain   *bitcoinsim.Chain
	watcher *chain.Watcher
	match   *job.Runner // records deposits and updates their payrolls
	rail    *bitcoinrail.Rail
	prepare *job.Runner // releases payrolls and signs payouts, but sends nothing
	program *job.Runner // both together, as in the program, so that the results of a deposit share its commit

	cpuTimer func() (end func() time.Duration) // see bench.cpuTimer
	work     time.Duration                     // processor time of the measured work

	chainWait atomic.Int64 // nanoseconds that the watcher waited for the simulated chain
}

// node measures the watcher's calls to the simulated chain, which is stored in the same database. A real chain would
// not be.
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
	chainName   = "bitcoin"
	networkName = "regtest"
)

func newPipeline(ctx context.Context, database string, payees int) (*pipeline, error) {
	w, err := seed(ctx, database, payees, 1, 1)
	if err != nil {
		return nil, err
	}
	d, err := db.Open(ctx, db.Options{URL: database})
	if err != nil {
		return nil, err
	}
	master, err := bitcoin.MasterFromSeed(make([]byte, 32), networkName)
	if err != nil {
		return nil, err
	}
	signer, err := bitcoin.ParseXPriv(master, networkName)
	if err != nil {
		return nil, err
	}
	const never = 24 * time.Hour
	refresher := rates.Refresher{DB: d, Sources: []rates.Source{rates.Sandbox()}, Quorum: 1, CryptoLimit: never,
		FiatLimit: never}
	if err := refresher.Refresh(ctx); err != nil {
		return nil, err
	}
	l := &pipeline{
		d: d, company: w.companies[0], chain: bitcoinsim.New(d),
		cpuTimer: func() func() time.Duration { return func() time.Duration { return 0 } },
		by: identity.Principal{Kind: identity.KindAPIKey, ID: "key_bench", CompanyID: w.companies[0].id,
			Scopes: identity.AllScopes()},
	}
	quiet := slog.New(slog.DiscardHandler)
	pool := chain.NewPool(d, chainName, signer.Deriver())
	if err := pool.Start(ctx); err != nil {
		return nil, err
	}
	funds, err := treasury.New(treasury.Unlimited)
	if err != nil {
		return nil, err
	}
	if l.pay, err = payroll.New(payroll.Config{
		Pool: pool, ChainName: chainName, Network: networkName, QuoteValidity: time.Hour, Treasury: funds,
		AllowUnverified: true,
	}, payroll.Guards{CheckWatched: allow.Network, Screen: allow.Subjects[destination.ScreeningSubject],
		ReleasePlanned: allow.Release, ReleaseApproved: allow.Release, PayeesApproved: allow.Payees}); err != nil {
		return nil, err
	}
	rail, err := bitcoinrail.New(bitcoinrail.Config{Chain: chainName, Source: l.chain, Pool: pool, Signer: signer,
		Log: quiet, FeeMaxAge: never})
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
	l.watcher = chain.NewWatcher(d, chainName, node{l.chain, &l.chainWait}, 1, quiet)
	if err := l.watcher.CacheAddresses(signer.Deriver(), chain.AddressCacheThreshold); err != nil {
		return nil, err
	}
	match := job.Table{chain.JobOutput: {Batch: deposit.OutputsChanged}, deposit.JobChanged: {Tx: l.pay.Fund}}
	prepare := job.Table{payroll.JobRelease: {Tx: l.pay.Release}}
	prepare[payout.JobPrepare(payout.RailBitcoin)] = payouts.Jobs()[payout.JobPrepare(payout.RailBitcoin)]
	program := maps.Clone(match)
	maps.Copy(program, prepare)
	l.match, l.prepare, l.program = job.NewRunner(d, match, nil, quiet), job.NewRunner(d, prepare, nil, quiet),
		job.NewRunner(d, program, nil, quiet)
	if err := l.watcher.Sync(ctx); err != nil {
		return nil, err
	}
	// Seeding queued thousands of jobs. The service runs them before it is measured over HTTP; this process has no
	// worker for them.
	if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM jobs")
		return err
	}); err != nil {
		return nil, err
	}
	return l, l.fillWallet(ctx, payees)
}

// fillWallet funds several payrolls that are then frozen, so that the wallet has as many coins as one in use. No
// payout is sent here, so no change returns.
func (l *pipeline) fillWallet(ctx context.Context, payees int) error {
	for range 4 {
		p, err := l.create(ctx, payees)
		if err != nil {
			return err
		}
		const coins = 100
		if _, err := l.fundAndMatch(ctx, []payroll.Payroll{p}, coins); err != nil {
			return err
		}
	}
	return l.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return payroll.Freeze(ctx, tx, l.company.id) })
}

func (l *pipeline) create(ctx context.Context, payees int) (p payroll.Payroll, err error) {
	params := payroll.CreateParams{CompanyID: l.company.id, Currency: "USD", FundingCurrency: "BTC",
		ToPay: make([]payroll.Payee, payees)}
	for i, id := range l.company.payees[:payees] {
		params.ToPay[i] = payroll.Payee{UserID: id, AmountText: fmt.Sprintf("20.%02d", i%100)}
	}
	err = l.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		p, err = l.pay.Create(ctx, tx, l.by, params)
		return err
	})
	return p, err
}

// fundPayrolls pays each payroll in several pieces. It returns the time that the service needs to record the deposits
// in the mempool, and to process their confirmations. The work of the simulated payer and miner is not included.
func (l *pipeline) fundPayrolls(ctx context.Context, jobs *job.Runner, all []payroll.Payroll,
	pieces int64) (seen, confirmed time.Duration, err error) {
	const outputsOfOne = 25 // outputs of one payment: the simulated payer pays a fixed fee
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
	if seen, err = l.syncWith(ctx, jobs); err != nil {
		return seen, 0, err
	}
	if err := l.chain.Mine(ctx, 6); err != nil {
		return seen, 0, err
	}
	confirmed, err = l.syncWith(ctx, jobs)
	return seen, confirmed, err
}

// fundAndMatch pays payrolls and checks that they are in state received.
func (l *pipeline) fundAndMatch(ctx context.Context, all []payroll.Payroll, pieces int64) (time.Duration, error) {
	seen, confirmed, err := l.fundPayrolls(ctx, l.match, all, pieces)
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

// sync synchronizes the watcher and runs the jobs that match deposits.
func (l *pipeline) sync(ctx context.Context) (time.Duration, error) { return l.syncWith(ctx, l.match) }

// syncWith synchronizes the watcher and runs the given jobs.
func (l *pipeline) syncWith(ctx context.Context, jobs *job.Runner) (time.Duration, error) {
	end := l.cpuTimer()
	began := time.Now()
	defer func() { l.work += end() }()
	if err := l.watcher.Sync(ctx); err != nil {
		return 0, err
	}
	for {
		err := jobs.Drain(ctx)
		if f, ok := apierr.As(err); ok && f.Kind == apierr.Unavailable && time.Since(began) < time.Minute {
			time.Sleep(50 * time.Millisecond) // two jobs changed the same payroll; one of them is retried
			continue
		}
		return time.Since(began), err
	}
}

// preparePayouts releases received payrolls and signs their payouts.
func (l *pipeline) preparePayouts(ctx context.Context, all []payroll.Payroll) (time.Duration, error) {
	end := l.cpuTimer()
	began := time.Now()
	if err := l.prepare.Drain(ctx); err != nil {
		return 0, err
	}
	took := time.Since(began)
	l.work += end()
	return took, l.checkSigned(ctx, all)
}

// checkSigned returns an error unless every payout of the payrolls is signed.
func (l *pipeline) checkSigned(ctx context.Context, all []payroll.Payroll) error {
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

// captureRows returns the rows that one payroll writes from its funding to its signed payouts.
func (l *pipeline) captureRows(ctx context.Context, database string, payees int) (*model, error) {
	p, err := l.create(ctx, payees)
	if err != nil {
		return nil, err
	}
	before, err := dump(ctx, database)
	if err != nil {
		return nil, err
	}
	if _, _, err := l.fundPayrolls(ctx, l.program, []payroll.Payroll{p}, 1); err != nil {
		return nil, err
	}
	after, err := dump(ctx, database)
	if err != nil {
		return nil, err
	}
	return modelOf(nil, before, after)
}

// fundingToPayouts measures the time from funding to signed payouts.
func (b *bench) fundingToPayouts(ctx context.Context) error {
	database, err := b.databases("line")
	if err != nil {
		return err
	}
	most := 0
	for _, n := range b.sizes {
		most = max(most, n)
	}
	b.logf("preparing a wallet")
	l, err := newPipeline(ctx, database, most)
	if err != nil {
		return fmt.Errorf("line: %w", err)
	}
	defer l.d.Close()
	l.cpuTimer = b.cpuTimer

	least, err := b.startFloor(ctx, "linefloor")
	if err != nil {
		return err
	}
	defer least.stop()

	t := newTable(b.out, b.engine+": from the creation of a payroll to its signed payouts, one payroll at a time",
		"payees", "create (HTTP)", "deposit seen", "confirmed to payouts ready", "chain's part", "total", "per payee",
		"ratio to floor of create", "rows", "floor of all rows", "ratio")
	work := newTable(b.out, b.engine+": the same by processor time",
		"payees", "create", "client's part", "seen to ready", "total", "per payee", "ratio to floor of create",
		"floor of all rows", "ratio")
	for _, n := range b.sizes {
		rounds := min(20, max(3, 20_000/n))
		b.logf("%d payees from payment to payouts, %d rounds", n, rounds)
		step, err := l.captureRows(ctx, database, n)
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
			before, chainWait := l.work, l.chainWait.Load()
			if seen[i], ready[i], err = l.fundPayrolls(ctx, l.program, one, 1); err != nil {
				return err
			}
			if err := l.checkSigned(ctx, one); err != nil {
				return err
			}
			waited += time.Duration(l.chainWait.Load() - chainWait)
			working += l.work - before
			end := b.cpuTimer()
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
			times, workTimes = ratio(all.Seconds(), created.floor.p50.Seconds()), ratio(worked.Seconds(),
				created.floor.work.Seconds())
		}
		t.row(n, created.own.p50, m, r, waited, all, micros(all/time.Duration(n)), times, rows, f, ratio(all.Seconds(),
			f.Seconds()))
		work.row(n, created.own.work, created.own.client, working, worked, micros(worked/time.Duration(n)), workTimes,
			writing, ratio(worked.Seconds(), writing.Seconds()))
	}
	if err := errors.Join(t.end(), work.end()); err != nil {
		return err
	}

	const many = 300
	b.logf("%d payrolls of 1 payee from payment to payouts", many)
	all := make([]payroll.Payroll, many)
	for i := range all {
		if all[i], err = l.create(ctx, 1); err != nil {
			return err
		}
	}
	m, err := l.fundAndMatch(ctx, all, 1)
	if err != nil {
		return err
	}
	r, err := l.preparePayouts(ctx, all)
	if err != nil {
		return err
	}
	t = newTable(b.out, fmt.Sprintf("%s: %d payrolls of 1 payee at once, a second", b.engine, many), "deposits matched",
		"payrolls released and payouts prepared")
	t.row(many/m.Seconds(), many/r.Seconds())
	return t.end()
}
