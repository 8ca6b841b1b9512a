package job

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/db"
)

// Leader describes work that only one process of a service does at a time, while it holds a lease.
type Leader struct {
	DB     *db.DB
	Name   string        // name of the lease
	Holder string        // identifies this process
	Length time.Duration // duration of the lease; it is renewed after a third of this time
	Pause  time.Duration // time between two attempts to obtain the lease
	Report func(error)   // called with each error of the lease or of the work
}

// Run calls work whenever l holds the lease, until ctx is done. The context of work is canceled when the lease is
// lost. When ctx is done and work has returned, Run releases the lease.
func (l Leader) Run(ctx context.Context, work func(context.Context) error) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		held, err := l.lease(ctx)
		if err == nil && held {
			err = l.lead(ctx, work)
		}
		if held && ctx.Err() != nil {
			if err := release(ctx, l.DB, l.Name, l.Holder); err != nil {
				l.Report(err)
			}
		} else if err != nil && ctx.Err() == nil {
			l.Report(err)
		}
		pause.Reset(l.Pause)
	}
}

func (l Leader) lease(ctx context.Context) (held bool, err error) {
	return Lease(ctx, l.DB, l.Name, l.Holder, l.Length)
}

// lead runs work until it returns or the lease is lost.
func (l Leader) lead(ctx context.Context, work func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- err }()
		defer recoverTo(&err)
		err = work(ctx)
	}()
	tick := time.NewTicker(l.Length / 3)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if held, err := l.lease(ctx); err != nil || !held {
				stop()
				if ended := <-done; !errors.Is(ended, context.Canceled) {
					err = errors.Join(err, ended)
				}
				return err
			}
		}
	}
}
