// Package railtest is what every rail must do, as tests. A rail brings its outside, real or played, and a way
// to break the line to it.
package railtest

import (
	"context"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/rail"
)

// Line is how the line to the outside behaves.
type Line int

// The lines.
const (
	Fine       Line = iota
	LostBefore      // nothing reaches the outside, and no answer comes back
	LostAfter       // the order reaches the outside, but the answer is lost
)

// Outside is a rail and what is behind it.
type Outside struct {
	Rail rail.Rail
	// Order makes a new valid order.
	Order func() rail.Order
	// Refused is an order that the outside definitely refuses.
	Refused rail.Order
	// Executed says how often the outside will execute the order with this reference: 0, or 1, or a bug.
	Executed func(reference string) int
	// Set changes the line.
	Set func(Line)
}

// Run checks the contract of package rail against a fresh outside for each test.
func Run(t *testing.T, open func(t *testing.T) Outside) {
	test := func(name string, f func(t *testing.T, o Outside)) {
		t.Run(name, func(t *testing.T) { f(t, open(t)) })
	}
	submit := func(t *testing.T, o Outside, order rail.Order, want rail.Outcome) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if got := o.Rail.Submit(ctx, order)[0]; got.Outcome != want {
			t.Fatalf("submit: %s (%s), want %s", got.Outcome, got.Reason, want)
		} else if want != rail.Accepted && got.Reason == "" {
			t.Fatal("nothing accepted, and no reason")
		}
	}
	find := func(t *testing.T, o Outside, reference string, want bool) {
		t.Helper()
		got, err := o.Rail.Find(t.Context(), reference)
		if err != nil || got != want {
			t.Fatalf("find: %v, %v; want %v", got, err, want)
		}
	}
	executed := func(t *testing.T, o Outside, reference string, want int) {
		t.Helper()
		if got := o.Executed(reference); got != want {
			t.Fatalf("executed %d times, want %d", got, want)
		}
	}

	test("an accepted order is found and executed once", func(t *testing.T, o Outside) {
		order := o.Order()
		find(t, o, order.Reference, false)
		submit(t, o, order, rail.Accepted)
		find(t, o, order.Reference, true)
		executed(t, o, order.Reference, 1)
	})
	test("submitting again is harmless", func(t *testing.T, o Outside) {
		order := o.Order()
		for range 3 {
			submit(t, o, order, rail.Accepted)
		}
		executed(t, o, order.Reference, 1)
	})
	test("a lost answer is doubt, and the same order again settles it", func(t *testing.T, o Outside) {
		for line, times := range map[Line]int{LostBefore: 0, LostAfter: 1} {
			order := o.Order()
			o.Set(line)
			submit(t, o, order, rail.Unclear)
			executed(t, o, order.Reference, times)
			o.Set(Fine)
			find(t, o, order.Reference, times == 1)
			submit(t, o, order, rail.Accepted)
			executed(t, o, order.Reference, 1)
		}
	})
	test("a refusal is told apart from doubt", func(t *testing.T, o Outside) {
		submit(t, o, o.Refused, rail.Refused)
		find(t, o, o.Refused.Reference, false)
		executed(t, o, o.Refused.Reference, 0)
	})
	test("a context that has ended is doubt at worst", func(t *testing.T, o Outside) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		order := o.Order()
		if got := o.Rail.Submit(ctx, order)[0]; got.Outcome == rail.Refused {
			t.Fatalf("a refusal out of nothing: %s", got.Reason)
		}
		submit(t, o, order, rail.Accepted)
		executed(t, o, order.Reference, 1)
	})
	test("orders do not touch each other", func(t *testing.T, o Outside) {
		a, b := o.Order(), o.Order()
		submit(t, o, a, rail.Accepted)
		find(t, o, b.Reference, false)
		submit(t, o, b, rail.Accepted)
		executed(t, o, a.Reference, 1)
		executed(t, o, b.Reference, 1)
	})
	test("of several at once each has its own answer, and is executed once", func(t *testing.T, o Outside) {
		a, b := o.Order(), o.Order()
		submit(t, o, a, rail.Accepted)
		for range 2 {
			answers := o.Rail.Submit(t.Context(), a, o.Refused, b)
			for i, want := range []rail.Outcome{rail.Accepted, rail.Refused, rail.Accepted} {
				if len(answers) != 3 || answers[i].Outcome != want {
					t.Fatalf("submit: %v", answers)
				}
			}
		}
		executed(t, o, a.Reference, 1)
		executed(t, o, b.Reference, 1)
		executed(t, o, o.Refused.Reference, 0)

		c, d := o.Order(), o.Order()
		o.Set(LostAfter)
		for _, answer := range o.Rail.Submit(t.Context(), c, d) {
			if answer.Outcome != rail.Unclear {
				t.Fatalf("submit without an answer: %v", answer)
			}
		}
		o.Set(Fine)
		executed(t, o, c.Reference, 1)
		executed(t, o, d.Reference, 1)
	})
}
