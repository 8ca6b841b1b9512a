package simulation

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
)

// Faults with which the scheduler can answer at a gate.
const (
	killed     = "killed"      // the process no longer exists
	killNow    = "kill here"   // the process is killed before the effect
	killAfter  = "kill after"  // the process is killed after the effect
	lost       = "lost"        // an error without the effect
	lostAnswer = "lost answer" // an error after the effect
	refused    = "refused"     // the receiver responds with an error
	twice      = "twice"       // the message arrives twice
)

var (
	errKilled = errors.New("simulation: the process was killed")
	// errLost is the error of a lost connection to the database.
	errLost = &net.OpError{Op: "read", Net: "tcp", Err: io.ErrUnexpectedEOF}
)

// process is a process of the service, including the processes that replace it after it was killed.
type process struct {
	w        *World
	slot     int
	life     int    // number of restarts
	name     string // name in this life
	ctx      context.Context
	cancel   context.CancelFunc
	assembly *app.Assembly
	tasks    int
	dead     bool
	restart  time.Time
	starting bool
}

func (p *process) context(label string) context.Context {
	return db.WithLabel(p.ctx, p.name+"/"+label)
}

// config returns the configuration of all processes.
func config(path string) (app.Config, error) {
	c, err := app.Defaults()
	c.DatabaseURL = "sqlite:" + path
	c.BitcoinRPC = "http://node.invalid:18443"                        // replaced by the simulated network
	c.EVMRPC = map[string]string{evmName: "http://node.invalid:8545"} // replaced by the simulated network
	c.EVMChainID = map[string]uint64{evmName: evmChainID}
	c.EVMToken = map[string]string{evmName + ".USDC": evmUSDC}
	c.BaseURL, c.AuthURL = "", ""
	c.Listen, c.MetricsListen = "127.0.0.1:0", ""
	return c, err
}

// boot starts a task that assembles the process.
func (w *World) boot(p *process) {
	p.life++
	p.name = "p" + strconv.Itoa(p.slot) + "." + strconv.Itoa(p.life)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.dead, p.starting, p.assembly = false, true, nil
	w.spawn(p, p.name+"/boot", func() {
		ctx := p.context("boot")
		a, err := w.assemble(ctx, p, w.o.Dir)
		w.mu.Lock()
		defer w.mu.Unlock()
		p.starting = false
		if err != nil {
			p.dead, p.restart = true, time.Now().Add(5*time.Second)
			return
		}
		p.assembly = a
		if p.dead {
			return
		}
		w.addActors(p)
	})
}

func (w *World) assemble(ctx context.Context, p *process, dir string) (*app.Assembly, error) {
	c, err := config(dir + "/stipend.db")
	if err != nil {
		return nil, err
	}
	return app.Assemble(ctx, c, slog.New(slog.DiscardHandler), p.name, app.Outside{
		Statements: p.statement, Bitcoin: &node{w: w, p: p}, Webhooks: &transport{w: w, p: p},
		EVM: map[string]evm.Node{evmName: accountNode{&node{w: w, p: p}}},
	})
}

// addActors adds the work of a process. The caller holds w.mu.
func (w *World) addActors(p *process) {
	a := p.assembly
	now := time.Now()
	add := func(name string, first, every time.Duration, when func() time.Time, run func(context.Context)) {
		w.actors = append(w.actors, &actor{name: name, p: p, next: now.Add(first), every: every, when: when, run: run})
	}
	jobs := a.Jobs.Stepper(func(_ context.Context, label string, work func(context.Context)) {
		w.spawn(p, p.name+"/"+label, func() { work(p.context(label)) })
	})
	const poll = 250 * time.Millisecond
	add("jobs", 0, poll, func() time.Time { return w.agenda.jobs }, func(ctx context.Context) {
		_, _ = jobs.Claim(ctx) // an actor repeats it after an error
	})
	add("webhooks", 0, poll, func() time.Time { return w.agenda.hook }, func(ctx context.Context) {
		_, _ = a.Hooks.Step(ctx) // an actor repeats it after an error
	})
	for _, name := range slices.Sorted(maps.Keys(a.Watchers)) {
		add("watcher of "+name, 0, 10*time.Second, nil, func(ctx context.Context) {
			if held, err := job.Lease(ctx, a.DB(), "watcher."+name, p.name, 12*time.Second); err == nil && held {
				_ = a.Watchers[name].Step(ctx) // an actor repeats it after an error
			}
		})
	}
	add("request log", time.Minute, 5*time.Minute, nil, a.WriteRequestLog)
	all := slices.SortedFunc(slices.Values(jobs.Periodic()), func(a, b job.Periodic) int {
		return strings.Compare(a.Name, b.Name)
	})
	for i, periodic := range all {
		// All periodic work runs soon after the start of the first process, and later at different times.
		first := time.Duration(i) * 7 * time.Second
		add(periodic.Name, first, max(periodic.Every, 3*time.Minute), nil, func(ctx context.Context) {
			_ = jobs.RunPeriodic(ctx, periodic) // an actor repeats it after an error
		})
	}
}

// kill kills a process: nothing that it does afterwards has an effect.
func (w *World) kill(p *process) {
	p.dead = true
	p.restart = time.Now().Add(time.Duration(w.chance.IntN(30_000)) * time.Millisecond)
	p.cancel()
	synctestWait() // goroutines that wait for the context end before others of the process continue
}

// bury removes killed processes once their goroutines have ended, and restarts them at the right time.
func (w *World) bury() {
	for _, p := range w.processes {
		w.mu.Lock()
		gone := p.dead && p.tasks == 0
		if gone {
			kept := w.actors[:0]
			for _, a := range w.actors {
				if a.p != p {
					kept = append(kept, a)
				}
			}
			w.actors = kept
		}
		a := p.assembly
		w.mu.Unlock()
		if !gone {
			continue
		}
		if a != nil {
			_ = a.Close()
			p.assembly = nil
			if w.writer == p {
				w.writer = nil
			}
		}
		if !time.Now().Before(p.restart) {
			w.boot(p)
			w.note("boot %s", p.name)
			synctestWait()
		}
	}
}

// statement executes a statement of the process, or makes it fail. Goroutines of the process call it.
func (p *process) statement(ctx context.Context, query string, run func() error) error {
	label := db.Label(ctx)
	writer := label == db.LabelWrite || strings.HasSuffix(label, "/"+db.LabelWrite)
	switch {
	case query == "ROLLBACK":
		err := run()
		if writer {
			p.w.unlock(p)
		}
		return err
	case query == db.Gather:
		p.w.park(p.name+"/"+label, atGather, p)
		return nil
	case query == "BEGIN IMMEDIATE":
		switch p.w.park(p.name+"/"+label, atBegin, p) {
		case killed, killNow:
			return errKilled
		case lost:
			return errLost
		}
		err := run()
		if err != nil {
			p.w.unlock(p)
		}
		return err
	case query == "COMMIT":
		verdict := p.w.park(p.name+"/"+label, atCommit, p)
		switch verdict {
		case killed, killNow:
			return errKilled
		case lost:
			return errLost // the service does not know the outcome; here, nothing was committed
		}
		err := run()
		if err != nil {
			return err
		}
		p.w.unlock(p)
		switch verdict {
		case lostAnswer:
			return errLost
		case killAfter:
			return errKilled
		}
		return nil
	case query == "BEGIN":
		switch p.w.park(label, atRead, p) {
		case killed, killNow:
			return errKilled
		case lost:
			return errLost
		}
		return run()
	case p.isDead():
		return errKilled
	}
	return run()
}

func (p *process) isDead() bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.dead
}

// unlock ends the transaction of a process that writes.
func (w *World) unlock(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writer == p {
		w.writer = nil
	}
	w.commits++
}

// verdict chooses the fault, if any, that happens to a goroutine at a gate.
func (w *World) verdict(g *gate) string {
	if g.p != nil && g.p.dead {
		return killed
	}
	if !w.troubled() {
		return continueNow
	}
	dice := w.chance.IntN(10_000)
	pick := func(faults ...string) string {
		for _, f := range faults {
			often := 12
			if f == killNow || f == killAfter {
				often = 3
			}
			if dice -= often; dice < 0 {
				if often == 3 {
					w.kill(g.p)
				}
				return w.fault(f)
			}
		}
		return continueNow
	}
	switch g.kind {
	case atBegin:
		return pick(lost, killNow)
	case atCommit:
		return pick(lost, lostAnswer, killNow, killAfter)
	case atRead:
		return pick(lost)
	case atNode:
		return pick(lost, lost, lost, killNow)
	case atAnswer:
		return pick(lostAnswer, lostAnswer, killNow)
	case atHook:
		return pick(lost, lost, lost, lost, refused, refused, refused, refused, refused, refused, killNow, killNow)
	case atReceived:
		return pick(lostAnswer, lostAnswer, lostAnswer, lostAnswer, killNow, killNow)
	case atRequest:
		return pick(slices.Concat(slices.Repeat([]string{lost}, 20), slices.Repeat([]string{twice}, 20))...)
	case atResponse:
		return pick(slices.Repeat([]string{lostAnswer}, 40)...)
	}
	return continueNow
}
