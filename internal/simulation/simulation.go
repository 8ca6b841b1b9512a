// Package simulation runs the whole service in one process on a virtual clock, with failures that follow from a seed,
// and checks from outside that no payment is lost, doubled or invented.
//
// A [World] has processes of the service (the real API handlers, jobs, periodic work, watcher, payouts and webhooks,
// assembled by app.Assemble), a simulated Bitcoin network, a receiver of webhooks, and clients that create payrolls,
// pay for them and repeat requests without an answer. All processes share one SQLite database.
//
// The world runs in a bubble of testing/synctest, so time passes only when all goroutines wait. Work stops at
// scheduling points: where a transaction begins or commits, and before and after each message to or from a client, a
// node or a receiver. At each step the scheduler waits until all work has stopped, and then lets one piece of work
// continue, or starts one, or kills a process, as the seed says. So one seed always gives the same run.
//
// The package never changes the product's behavior except through these points, and it has no rules of payments but
// those of its model (see model.go), which is kept apart from the service's own.
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

// Options describe a run.
type Options struct {
	Seed uint64
	// Template is the directory of the databases that a run begins with, made by [MakeTemplate].
	Template string
	// Dir is an empty directory for the databases of the run, best in memory.
	Dir string
	// MaxFaults is the number of faults after which no more are injected. Zero means no limit; negative, no faults.
	MaxFaults int
	// Trouble is the virtual time during which faults are injected. Zero means 40 minutes.
	Trouble time.Duration
	// Watch is called with each line of the trace. Nil means nothing.
	Watch func(line string)
}

// Result describes a run that has ended.
type Result struct {
	Seed       uint64
	Violations []string // what the model found wrong
	Trace      []string // each step
	Faults     []Fault
	Steps      int
	Virtual    time.Duration // how long the run took on the virtual clock
	Payrolls   map[string]int
	Events     int // delivered to the receiver, without repetitions
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
	// patience bounds the virtual time from the end of faults until everything has ended.
	patience = 6 * time.Hour
	maxSteps = 400_000
)

// World is the state of a run. Its methods are called by the goroutine of the scheduler unless they say otherwise.
type World struct {
	o       Options
	began   time.Time
	order   *rand.Rand // chooses what continues
	chance  *rand.Rand // chooses faults
	trouble time.Time  // when faults end
	trial   time.Time  // the next fault that belongs to no scheduling point

	mu     sync.Mutex
	parked map[string]*gate
	tasks  int // goroutines of tasks that have not ended
	woken  chan struct{}

	processes []*process
	writer    *process // holds the lock of the database, which one transaction has at a time
	actors    []*actor
	chain     *network
	evm       *evmsim.Chain
	receiver  *receiver
	clients   []*client
	model     *model

	steps   int
	trace   []string
	faults  []Fault
	commits int // counts transactions
	agenda  agenda

	ctx     context.Context
	payees  []payee
	refunds []string // addresses that the payers of claims let refunds be sent to
}

// gate is a scheduling point at which a goroutine waits.
type gate struct {
	label   string
	kind    string
	p       *process // nil for what is outside the service
	release chan string
}

// Kinds of gates. The scheduler may answer each with a fault of its kind.
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

// park stops the calling goroutine until the scheduler lets it continue. It returns the fault that it must act out, or
// "". Any goroutine may call it.
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

// spawn starts a task, which waits at a scheduling point first. Any goroutine may call it.
func (w *World) spawn(p *process, label string, work func()) {
	w.launch(p, func() {
		if w.park(label, atStart, p) != killed {
			work()
		}
	})
}

// launch starts a task at once.
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

// actor is work that is started whenever its time has come and it does not run.
type actor struct {
	name    string
	p       *process // nil for what is outside the service
	next    time.Time
	every   time.Duration
	when    func() time.Time // when there is work to do; nil means every time
	running bool
	run     func(ctx context.Context)
}

// at returns when the actor may start, if it can.
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

// troubled reports whether faults are injected.
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

// run schedules work until everything has ended, or has not ended in time.
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

// choices returns what can happen next, in a fixed order.
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

// sleep passes time until work stops at a scheduling point, an actor is due, or a process restarts.
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

// disturb injects a fault that belongs to no scheduling point.
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

// ended reports whether the run is over: everything has ended, or time is up.
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
