package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stipend/stipend/internal/ratelimit"
)

// A flood of password checks from many networks is refused early and does not delay known clients.
func TestAQueueIsBoundedAndRunsKnownClientsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := ratelimit.NewQueue(2)
		release := make(chan struct{})
		var mu sync.Mutex
		var order []string
		call := func(ctx context.Context, network string, known bool) <-chan error {
			done := make(chan error, 1)
			go func() {
				done <- q.Do(ctx, network, known, func() error {
					<-release
					mu.Lock()
					defer mu.Unlock()
					order = append(order, network)
					return nil
				})
			}()
			synctest.Wait()
			return done
		}
		var flood []<-chan error
		for i := range 2 + 16 { // two run, sixteen wait
			flood = append(flood, call(t.Context(), fmt.Sprint("flood ", i), false))
		}
		if err := <-call(t.Context(), "late", false); !errors.Is(err, ratelimit.ErrBusy) {
			t.Errorf("a call that would wait long: %v", err)
		}
		known := call(t.Context(), "known", true)
		ctx, cancel := context.WithCancel(t.Context())
		gone := call(ctx, "gone", true)
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("a client that left: %v", err)
		}
		close(release)
		synctest.Wait()
		for _, done := range append(flood, known) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if len(order) != 19 || order[2] != "known" && order[3] != "known" && order[1] != "known" {
			t.Errorf("calls ran in the order %q; want the known client right after those that ran already", order)
		}
	})
}

// One network cannot fill the queue.
func TestAQueueLimitsEachNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := ratelimit.NewQueue(1)
		release := make(chan struct{})
		call := func() <-chan error {
			done := make(chan error, 1)
			go func() { done <- q.Do(t.Context(), "192.0.2.1", true, func() error { <-release; return nil }) }()
			synctest.Wait()
			return done
		}
		var accepted []<-chan error
		for range 8 {
			accepted = append(accepted, call())
		}
		if err := <-call(); !errors.Is(err, ratelimit.ErrBusy) {
			t.Errorf("a ninth call of a network: %v", err)
		}
		close(release)
		for _, done := range accepted {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if err := <-call(); err != nil {
			t.Errorf("after the others: %v", err)
		}
	})
}
