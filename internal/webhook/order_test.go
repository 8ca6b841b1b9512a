package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/webhook"
)

// eventOf returns the events of these tests, by name.
var eventOf = map[string]func(objectID string, sequence int64) webhook.Event{
	"payroll.created":         example(webhook.PayrollCreated),
	"payroll.status_update":   example(webhook.PayrollStatusUpdate),
	"recipient.status_update": example(webhook.RecipientStatusUpdate),
	"user.kyc_status_update":  example(webhook.UserKYCStatusUpdate),
}

func example[P any](t webhook.Type[P]) func(objectID string, sequence int64) webhook.Event {
	return func(objectID string, sequence int64) webhook.Event {
		return t.Event("com_1", objectID, sequence, t.Example)
	}
}

// next returns all new events, reading limit at a time.
func next(t *testing.T, d *db.DB, limit int) (all []webhook.StoredEvent) {
	t.Helper()
	for more := true; more; {
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			some, err := webhook.Next(ctx, tx, limit)
			more = len(some) > 0
			all = append(all, some...)
			return err
		})
	}
	return all
}

// The order of an object's events does not depend on the clock.
func TestAnObjectsEventsKeepTheirOrder(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		emit := func(object, name string, sequence int64) {
			t.Helper()
			dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
				e := eventOf[name](object, sequence)
				if sequence == 0 {
					return webhook.EmitNext(ctx, tx, e)
				}
				return webhook.Emit(tx, e)
			})
		}
		for range 3 { // two rows report changes of one object, and the clock goes back between them
			emit("usr_1", "recipient.status_update", 0)
			clock.Advance(-time.Second)
			emit("usr_1", "user.kyc_status_update", 0)
			clock.Advance(-time.Second)
		}
		for i := range int64(3) {
			emit("prl_1", "payroll.status_update", i+1)
			clock.Advance(-time.Second)
			emit("prl_2", "payroll.created", i+1)
		}
		var got []string
		for _, p := range next(t, d, 2) {
			got = append(got, fmt.Sprintf("%s %d", p.ObjectID, p.Sequence))
		}
		want := []string{"usr_1 2", "usr_1 3", "usr_1 4", "usr_1 5", "usr_1 6", "usr_1 7",
			"prl_1 1", "prl_2 1", "prl_1 2", "prl_2 2", "prl_1 3", "prl_2 3"}
		if !slices.Equal(got, want) {
			t.Errorf("the order is %v", got)
		}
	})
}

// A transaction may begin first and commit last. Its event gets its position before the commit, so a reader that has
// read the event of another transaction still finds it. A transaction that is rolled back leaves no event.
func TestEventsAreInCommitOrder(t *testing.T) {
	url := dbtest.Postgres(t) // on SQLite, no two transactions write concurrently
	d, other := dbtest.Open(t, db.Options{URL: url}), dbtest.Open(t, db.Options{URL: url})
	emit := func(tx *db.Tx, object string) error {
		return webhook.Emit(tx, eventOf["payroll.created"](object, 1))
	}
	var names []string
	look := func() {
		for _, e := range next(t, d, 10) {
			names = append(names, e.ObjectID)
		}
	}
	dbtest.Write(t, d, func(_ context.Context, tx *db.Tx) error {
		if err := emit(tx, "first"); err != nil {
			return err
		}
		dbtest.Write(t, other, func(_ context.Context, tx *db.Tx) error { return emit(tx, "second") })
		undone := errors.New("undone")
		if err := other.Write(t.Context(), func(_ context.Context, tx *db.Tx) error {
			return errors.Join(emit(tx, "third"), undone)
		}); !errors.Is(err, undone) {
			t.Error(err)
		}
		for _, e := range next(t, other, 10) {
			names = append(names, e.ObjectID)
		}
		return nil
	})
	look()
	if !slices.Equal(names, []string{"second", "first"}) {
		t.Errorf("a reader saw %v", names)
	}
}

// TestReadersMissNoEvent writes events concurrently, on PostgreSQL in two processes. Readers that continue after the
// last event that they read get every event.
func TestReadersMissNoEvent(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		const writers, each = 8, 25
		all := []*db.DB{dbtest.Open(t, db.Options{URL: url})}
		if all[0].Engine() == db.Postgres {
			all = append(all, dbtest.Open(t, db.Options{URL: url}))
		}
		var seen []string
		var wg, writing sync.WaitGroup
		var written atomic.Bool
		wg.Go(func() {
			for after, last := "", false; !last; {
				last = written.Load() // an empty page is the end if all were written before it was read
				if err := all[0].Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					events, _, err := webhook.List(ctx, tx, webhook.ListParams{CompanyID: "com_1", After: after, Limit: 7})
					for _, e := range events {
						seen, after, last = append(seen, e.ObjectID), e.ID, false
					}
					return err
				}); err != nil {
					t.Error(err)
				}
			}
		})
		for w := range writers {
			writing.Go(func() {
				for i := range each {
					if err := all[w%len(all)].Write(t.Context(), func(_ context.Context, tx *db.Tx) error {
						return webhook.Emit(tx, eventOf["payroll.created"](fmt.Sprintf("prl_%d_%d", w, i), 1))
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		writing.Wait()
		written.Store(true)
		wg.Wait()
		if len(seen) != writers*each {
			t.Errorf("a reader saw %d of %d events", len(seen), writers*each)
		}
		var taken []string
		for _, e := range next(t, all[0], 9) {
			taken = append(taken, e.ObjectID)
		}
		if !slices.Equal(seen, taken) {
			t.Errorf("a reader saw %d events in the order %v\nthere are %d in the order %v", len(seen), seen, len(taken), taken)
		}
	})
}
