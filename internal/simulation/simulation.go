// Package simulation runs the whole service in one process on a virtual clock, with failures that a seed determines.
// It checks from outside that no payment is lost, duplicated or invented.
//
// A [World] contains processes of the service (with the real API handlers, jobs, periodic work, watchers, payouts and
// webhooks, assembled by app.Assemble), a simulated Bitcoin network, a receiver of webhooks, and clients that create
// payrolls, pay for them and repeat requests that got no response. All processes share one SQLite database.
//
// The world runs in a bubble of testing/synctest, so time passes only when all goroutines wait. Work pauses at
// scheduling points: where a transaction begins or commits, and before and after each message to or from a client, a
// node or a receiver. At each step the scheduler waits until all work has paused. Then, as the seed determines, it
// lets one piece of work continue, starts one, or kills a process. The same seed therefore always gives the same run.
//
// The package changes the product's behavior only at these points. It contains no rules for payments except those of
// its model (see model.go), which is independent of the service's own code.
package simulation

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/stipend/stipend/internal/sandbox/evmsim"
)

// Options are the parameters of a run.
type Options struct {
	Seed uint64
	// Template is the directory with the databases with which the run begins. [MakeTemplate] creates it.
	Template string
	// Dir is an empty directory for the databases of the run, preferably in memory.
	Dir string
	// MaxFaults is the maximum number of injected faults. Zero means no limit; a negative number means no faults.
	MaxFaults int
	// Trouble is the virtual time during which faults are injected. Zero means 40 minutes.
	Trouble time.Duration
	// Watch is called with each line of the trace. It may be nil.
	Watch func(line string)
}

// Result is the result of a run.
type Result struct {
	Seed       uint64
	Violations []string // guarantees that the service broke
	Trace      []string // one line per step
	Faults     []Fault
	Steps      int
	Virtual    time.Duration // virtual duration of the run
	Payrolls   map[string]int
	Events     int // number of different events that the receiver got
}

// Fault is an injected fault.
type Fault struct {
	Step int
	Kind string
}

// Digest returns a hash of the trace.
func (r Result) Digest() string {
	h := sha256.New()
	for _, line := range r.Trace {
		h.Write([]byte(line))
		h.Write([]byte{'\n'})
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

const (
	defaultTrouble = 40 * time.Minute
	// patience is the maximum virtual time from the last fault until everything has ended.
	patience = 6 * time.Hour
	maxSteps = 400_000
)

// World is the state of a run. The scheduler's goroutine calls its methods, except where a method's comment permits
// other callers.
type World struct {
	o       Options
	began   time.Time
	order   *rand.Rand // chooses the work that continues
	chance  *rand.Rand // chooses faults
	trouble time.Time  // time at which faults end
	trial   time.Time  // time of the next fault outside of scheduling points

	mu     sync.Mutex
	parked map[string]*gate
	tasks  int // number of tasks whose goroutines have not ended
	woken  chan struct{}

	processes []*process
	writer    *process // process whose transaction holds the database's write lock
	actors    []*actor
	chain     *network
	evm       *evmsim.Chain
	receiver  *receiver
	clients   []*client
	model     *model

	steps   int
	trace   []string
	faults  []Fault
	commits int // number of committed transactions
	agenda  agenda

	ctx     context.Context
	payees  []payee
	refunds []string // addresses to which payers of claims have requested refunds
}

// gate is a scheduling point at which a goroutine waits.
type gate struct {
	label   string
	kind    string
	p       *process // nil for work outside the service
	release chan string
}

// Kinds of gates. Each kind has its own faults.
const (
	atStart     = "start"
	atGather    = "gather"
	atBegin     = "begin"
	atCommit    = "commit"
	atRead      = "read"
	atNode      = "node"
	atAnswer    = "answer"
	atHook      = "hook"
	atReceived  = "received"
	atRequest   = "request"
	atResponse  = "response"
	continueNow = ""
)

// park pauses the calling goroutine until the scheduler lets it continue. It returns the fault that the goroutine
// must act out, or "". Any goroutine may call it.
func (w *World) park(label, kind string, p *process) string {
	g := &gate{label: label, kind: kind, p: p, release: make(chan string)}
	w.mu.Lock()
	if w.parked[label] != nil {
		w.mu.Unlock()
		panic("simulation: two goroutines wait at " + label)
	}
	w.parked[label] = g
	w.mu.Unlock()
	select {
	case w.woken <- struct{}{}:
	default:
	}
	return <-g.release
}

// spawn starts a task that first waits at a scheduling point. Any goroutine may call it.
func (w *World) spawn(p *process, label string, work func()) {
	w.launch(p, func() {
		if w.park(label, atStart, p) != killed {
			work()
		}
	})
}

// launch starts a task immediately.
func (w *World) launch(p *process, work func()) {
	w.mu.Lock()
	w.tasks++
	if p != nil {
		p.tasks++
	}
	w.mu.Unlock()
	go func() {
		defer func() {
			w.mu.Lock()
			w.tasks--
			if p != nil {
				p.tasks--
			}
			w.mu.Unlock()
			select {
			case w.woken <- struct{}{}:
			default:
			}
		}()
		work()
	}()
}

// actor is work that is started whenever it is due and not already running.
type actor struct {
	name    string
	p       *process // nil for work outside the service
	next    time.Time
	every   time.Duration
	when    func() time.Time // returns the time at which the work is due; nil means always
	running bool
	run     func(ctx context.Context)
}

// at returns the time at which the actor may start, and whether it can start at all.
func (a *actor) at() (t time.Time, ok bool) {
	if a.running || a.p != nil && (a.p.dead || a.p.assembly == nil) {
		return t, false
	}
	t = a.next
	if a.when != nil && a.when().After(t) {
		t = a.when()
	}
	return t, true
}

func (w *World) start(a *actor) {
	a.running = true
	ctx := context.Background()
	if a.p != nil {
		ctx = a.p.context(a.name)
	}
	w.launch(a.p, func() {
		a.run(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		a.running, a.next = false, time.Now().Add(a.every)
	})
}

// troubled reports whether faults are being injected.
func (w *World) troubled() bool {
	return w.o.MaxFaults >= 0 && (w.o.MaxFaults == 0 || len(w.faults) < w.o.MaxFaults) && time.Now().Before(w.trouble)
}

// fault records a fault.
func (w *World) fault(kind string) string {
	w.faults = append(w.faults, Fault{w.steps, kind})
	return kind
}

// note adds a line to the trace.
func (w *World) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%6d %s ", w.steps, time.Since(w.began).Round(time.Microsecond))+
		fmt.Sprintf(format, args...))
	if w.o.Watch != nil {
		w.o.Watch(w.trace[len(w.trace)-1])
	}
}

// run schedules work until everything has ended or the time limit is reached.
func (w *World) run() {
	for {
		synctest.Wait()
		if w.steps++; w.steps > maxSteps {
			w.model.violation("the run did not end within %d steps", maxSteps)
			return
		}
		w.bury()
		if w.ended() {
			return
		}
		if w.troubled() && !time.Now().Before(w.trial) {
			w.disturb()
			w.trial = time.Now().Add(time.Duration(w.chance.IntN(10)) * time.Minute)
		}
		choices := w.choices()
		if len(choices) == 0 {
			w.sleep()
			continue
		}
		c := choices[w.order.IntN(len(choices))]
		c.do(c.label)
		if w.order.IntN(4) == 0 {
			synctest.Wait()
			time.Sleep(time.Duration(w.order.IntN(int(3 * time.Millisecond))))
		}
	}
}

type choice struct {
	label string
	do    func(label string)
}

// choices returns the possible next steps, in a fixed order.
func (w *World) choices() (all []choice) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.agenda.read(w.commits)
	for _, g := range w.parked {
		if g.kind == atBegin && w.writer != nil && !(g.p.dead) {
			continue
		}
		all = append(all, choice{g.label, func(string) { w.release(g) }})
	}
	for _, a := range w.actors {
		if t, ok := a.at(); ok && !now.Before(t) {
			all = append(all, choice{"start " + a.name + " " + nameOf(a.p), func(label string) {
				w.note("%s", label)
				w.start(a)
			}})
		}
	}
	slices.SortFunc(all, func(a, b choice) int { return cmp.Compare(a.label, b.label) })
	return all
}

func nameOf(p *process) string {
	if p == nil {
		return "world"
	}
	return p.name
}

// release lets a goroutine continue.
func (w *World) release(g *gate) {
	w.mu.Lock()
	delete(w.parked, g.label)
	w.mu.Unlock()
	verdict := w.verdict(g)
	if g.kind == atBegin && verdict == continueNow {
		w.writer = g.p
	}
	if verdict == continueNow {
		w.note("%s %s", g.kind, g.label)
	} else {
		w.note("%s %s: %s", g.kind, g.label, verdict)
	}
	g.release <- verdict
}

// sleep lets time pass until work pauses at a scheduling point, an actor is due, or a process restarts.
func (w *World) sleep() {
	now := time.Now()
	next := now.Add(time.Hour)
	earlier := func(t time.Time) {
		if t.After(now) && t.Before(next) {
			next = t
		}
	}
	w.mu.Lock()
	for _, a := range w.actors {
		if t, ok := a.at(); ok {
			earlier(t)
		}
	}
	w.mu.Unlock()
	for _, p := range w.processes {
		if p.dead {
			earlier(p.restart)
		}
	}
	select {
	case <-w.woken:
	default:
	}
	timer := time.NewTimer(next.Sub(now))
	defer timer.Stop()
	select {
	case <-w.woken:
	case <-timer.C:
	}
}

// disturb injects a fault outside of scheduling points.
func (w *World) disturb() {
	switch w.chance.IntN(6) {
	case 0, 1, 2:
		if p := w.processes[w.chance.IntN(len(w.processes))]; !p.dead {
			w.note("kill %s", p.name)
			w.fault("kill")
			w.kill(p)
		}
	case 3:
		depth := 1 + w.chance.IntN(4)
		w.note("reorganize %d", w.chain.reorganize(depth))
		w.fault("reorganize")
	case 4:
		depth := 1 + w.chance.IntN(4)
		if w.evm.Reorg(w.ctx, depth) == nil {
			w.note("reorganize %d of EVM", depth)
			w.fault("reorganize EVM")
		}
	case 5:
		pause := time.Duration(w.chance.IntN(90)) * time.Second
		w.note("everything is slow for %s", pause)
		w.fault("slow")
		time.Sleep(pause)
	}
}

// ended reports whether the run is over: everything has ended, or the time limit is reached.
func (w *World) ended() bool {
	now := time.Now()
	if now.Before(w.trouble) {
		return false
	}
	if w.chain.calm.IsZero() {
		w.chain.calm = now
	}
	if w.writer != nil || w.model.nextCheck.After(now) {
		return false
	}
	w.model.nextCheck = now.Add(10 * time.Minute)
	open := w.model.open()
	if len(open) == 0 {
		return true
	}
	if now.After(w.trouble.Add(patience)) {
		w.model.violation("not ended %s after the last fault: %s", patience, strings.Join(open, "; "))
		return true
	}
	return false
}
