package job

import (
	"context"
	"errors"
)

// Spawn starts work in a goroutine. The label identifies the work; no other running work has the same label.
type Spawn func(ctx context.Context, label string, work func(context.Context))

// Stepper runs the work of a [Runner] at the times and in the order that its caller chooses. A simulation uses a
// Stepper instead of [Runner.Run].
type Stepper struct {
	r *Runner
	s *slots
}

// Stepper returns a stepper of the runner, which calls spawn to run jobs.
func (r *Runner) Stepper(spawn Spawn) *Stepper {
	s := newSlots(r.table)
	s.spawn = spawn
	return &Stepper{r, s}
}

// Claim leases due jobs for the free slots and starts them. It returns the number of jobs leased.
func (s *Stepper) Claim(ctx context.Context) (int, error) { return s.r.fill(ctx, s.s) }

// Periodic returns the periodic work of the runner.
func (s *Stepper) Periodic() []Periodic { return s.r.periodic }

// RunPeriodic runs periodic work once, if this runner obtains its lease.
func (s *Stepper) RunPeriodic(ctx context.Context, p Periodic) error {
	if err := s.r.runLeased(ctx, p); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
