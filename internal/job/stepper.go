package job

import (
	"context"
	"errors"
)

// Spawn starts work in a goroutine. The label names the work; it is different from the labels of other work that runs.
type Spawn func(ctx context.Context, label string, work func(context.Context))

// Stepper runs the work of a [Runner] at the times and in the order that its caller chooses. A simulation uses it
// instead of [Runner.Run].
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

// Claim claims due jobs for the free slots and spawns their work. It returns how many jobs it claimed.
func (s *Stepper) Claim(ctx context.Context) (int, error) { return s.r.fill(ctx, s.s) }

// Periodic returns the periodic work of the runner.
func (s *Stepper) Periodic() []Periodic { return s.r.periodic }

// RunPeriodic runs periodic work once, if this runner gets its lease.
func (s *Stepper) RunPeriodic(ctx context.Context, p Periodic) error {
	if err := s.r.runLeased(ctx, p); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
