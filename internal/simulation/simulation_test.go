package simulation_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/simulation"
)

var (
	seed  = flag.Uint64("seed", 1, "the first seed")
	runs  = flag.Int("runs", 0, "the number of runs; 0 means few")
	first = flag.Bool("first", false, "stop at the first seed that fails, and do not look for the shortest prefix")
	show  = flag.Bool("show", false, "print the traces")
)

// memory returns an empty directory, in memory if the system has such a file system.
func memory(t *testing.T) string {
	t.Helper()
	base := "/dev/shm"
	if _, err := os.Stat(base); err != nil {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(base, "stipend-simulation-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func template(t *testing.T) string {
	t.Helper()
	dir := memory(t)
	simulation.MakeTemplate(t, dir)
	return dir
}

// ordinary is the number of runs of an ordinary test; more are run by make simulate.
const ordinary = 24

// Whatever fails, payees are paid once and in full, and the books agree with the chain.
func TestNothingIsLostDoubledOrInvented(t *testing.T) {
	n := *runs
	switch {
	case n > 0:
	case testing.Short():
		n = 4
	default:
		n = ordinary
	}
	from := template(t)
	var virtual time.Duration
	began, faults, states, steps, events := time.Now(), map[string]int{}, map[string]int{}, 0, 0
	for i := range n {
		o := simulation.Options{Seed: *seed + uint64(i), Template: from, Dir: memory(t)}
		if *show {
			o.Watch = func(line string) { fmt.Fprintln(os.Stderr, line) }
		}
		r := simulation.Run(t, o)
		virtual += r.Virtual
		steps, events = steps+r.Steps, events+r.Events
		for _, f := range r.Faults {
			faults[f.Kind]++
		}
		for state, n := range r.Payrolls {
			states[state] += n
		}
		if len(r.Violations) > 0 {
			o.Watch = nil
			if *first {
				report(t, r)
				break
			}
			report(t, simulation.Shortest(t, o, r))
		}
		_ = os.RemoveAll(o.Dir)
	}
	t.Logf("%d runs, %d steps, %s of virtual time in %s, faults %v, payrolls %v, %d events", n, steps,
		virtual.Round(time.Hour), time.Since(began).Round(time.Millisecond), faults, states, events)
}

// reported is the number of the last steps that are printed of a failing run.
const reported = 60

// report prints what was found wrong, the faults, and the steps before the end.
func report(t *testing.T, r simulation.Result) {
	t.Helper()
	for _, v := range r.Violations {
		t.Errorf("seed %d: %s", r.Seed, v)
	}
	t.Logf("seed %d fails with %d faults; make simulate ARGS=\"-seed %d -runs 1 -show\" prints all steps", r.Seed,
		len(r.Faults), r.Seed)
	for i, f := range r.Faults {
		t.Logf("fault %d at step %d: %s", i+1, f.Step, f.Kind)
	}
	for _, line := range r.Trace[max(0, len(r.Trace)-reported):] {
		t.Log(line)
	}
}

// One seed gives one run: the same steps at the same times.
func TestASeedRepeatsItsRun(t *testing.T) {
	// On several processors, goroutines that a machine under load delays may join a group commit later than in another
	// run.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	n := 20
	if testing.Short() {
		n = 2
	}
	from := template(t)
	for i := range n {
		var twice [2]simulation.Result
		for k := range twice {
			o := simulation.Options{
				Seed: 7000 + uint64(i), Template: from, Dir: memory(t), Trouble: 10 * time.Minute,
			}
			twice[k] = simulation.Run(t, o)
			_ = os.RemoveAll(o.Dir)
		}
		if twice[0].Digest() != twice[1].Digest() {
			reportDifference(t, twice[0], twice[1])
		}
	}
}

// reportDifference prints where the second run of a seed leaves the first.
func reportDifference(t *testing.T, a, b simulation.Result) {
	t.Helper()
	same := 0
	for same < min(len(a.Trace), len(b.Trace)) && a.Trace[same] == b.Trace[same] {
		same++
	}
	t.Errorf("the runs of seed %d differ from step %d of %d and %d", a.Seed, same, len(a.Trace), len(b.Trace))
	for _, line := range a.Trace[max(0, same-reported/2):same] {
		t.Log("both:   " + line)
	}
	for i, trace := range [][]string{a.Trace, b.Trace} {
		for _, line := range trace[same:min(len(trace), same+reported/4)] {
			t.Logf("run %d:  %s", i+1, line)
		}
	}
}
