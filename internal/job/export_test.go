package job

import (
	"context"
	"time"
)

// RenewEvery is the interval at which a lease is renewed.
const RenewEvery = renewEvery

// ManualTicks replaces the tickers of periodic work. The returned function gives the channel on which a test sends
// ticks of an interval.
func (r *Runner) ManualTicks() func(every time.Duration) chan<- time.Time {
	channels := map[time.Duration]chan time.Time{renewEvery: make(chan time.Time)}
	for _, p := range r.periodic {
		channels[p.Every] = make(chan time.Time)
	}
	r.ticks = func(every time.Duration) (<-chan time.Time, func()) { return channels[every], func() {} }
	return func(every time.Duration) chan<- time.Time { return channels[every] }
}

// RunLeased runs p once if the runner gets its lease.
func (r *Runner) RunLeased(ctx context.Context, p Periodic) error { return r.runLeased(ctx, p) }
