package delivery_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/webhook"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

func fails(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }

// The pauses before attempts are 0, 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h. A failed delivery can be
// sent again.
func TestSchedule(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := newWorld(t, d, clock)
		r := newReceiver(t, clock)
		r.answers(fails)
		e, secret := w.endpoint(r.URL)
		w.emit("payroll.created", "prl_1", 1)
		w.drain()
		for range 20 {
			open := w.deliveries(e.ID, delivery.Retrying)
			if len(open) == 0 {
				break
			}
			clock.Set(open[0].Next.Add(-time.Microsecond))
			before := len(r.all())
			w.drain()
			if len(r.all()) != before {
				t.Fatal("sent before its time")
			}
			clock.Set(open[0].Next)
			w.drain()
		}
		var waits []time.Duration
		all := r.all()
		for i := 1; i < len(all); i++ {
			waits = append(waits, all[i].at.Sub(all[i-1].at))
		}
		want := []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
			5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour}
		if !slices.Equal(waits, want) {
			t.Errorf("waits %v, want %v", waits, want)
		}
		failed := w.deliveries(e.ID, delivery.Failed)
		if len(failed) != 1 || failed[0].Attempts != 10 || failed[0].HTTPStatus != 500 {
			t.Fatalf("%+v", failed)
		}
		for _, g := range all {
			if g.header.Get("webhook-id") != failed[0].EventID || string(g.body) != string(all[0].body) ||
				accepts(g, secret) != nil {
				t.Error("an attempt differs from the first")
			}
		}
		r.answers(nil)
		w.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := delivery.Replay(ctx, tx, w.by, e.ID, delivery.Range{})
			return err
		})
		w.drain()
		w.drain()
		if done := w.deliveries(e.ID, delivery.Succeeded); len(done) != 1 || done[0].Attempts != 11 {
			t.Errorf("%+v", done)
		}
	})
}

// Deliveries that failed together are not repeated together: jitter adds up to a tenth of the pause.
func TestAttemptsHaveJitter(t *testing.T) {
	clock := dbtest.NewClock()
	d := dbtest.Open(t, db.Options{URL: dbtest.SQLite(t), Clock: clock.Now})
	w := newWorld(t, d, clock, func(o *delivery.Options) { o.Jitter = nil })
	r := newReceiver(t, clock)
	r.answers(fails)
	e, _ := w.endpoint(r.URL)
	const events, pause = 8, 5 * time.Second
	for i := range events {
		w.emit("payroll.created", fmt.Sprintf("prl_%d", i), 1)
	}
	w.drain()
	instants := map[time.Time]bool{}
	for _, one := range w.deliveries(e.ID, delivery.Retrying) {
		if wait := one.Next.Sub(clock.Now()); wait < pause || wait > pause+pause/10+time.Microsecond {
			t.Errorf("the next attempt is %s later", wait)
		}
		instants[one.Next] = true
	}
	if len(instants) < 2 {
		t.Errorf("%d events come back at %d instants", events, len(instants))
	}
}

// A receiver that was down for three days gets all events afterwards, those of each object in order.
func TestAReceiverThatWasDownForThreeDaysGetsAllEvents(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := newWorld(t, d, clock)
		r := newReceiver(t, clock)
		e, _ := w.endpoint(r.URL)
		down := true
		r.answers(func(w http.ResponseWriter, _ *http.Request) {
			if down {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		const objects, each = 8, 9
		for hour := range 72 {
			if hour%8 == 0 {
				for o := range objects {
					w.emit("payroll.status_update", fmt.Sprintf("prl_%d", o), int64(hour/8+1))
				}
			}
			w.drain()
			clock.Advance(time.Hour)
		}
		if done := w.deliveries(e.ID, delivery.Succeeded); len(done) != 0 {
			t.Fatalf("%d arrived at a receiver that was down", len(done))
		}
		refused := len(r.all())
		down = false
		for range 26 {
			w.drain()
			clock.Advance(time.Hour)
		}
		next := map[string]int64{}
		for _, g := range r.all()[refused:] {
			object := g.object(t, w)
			if next[object]++; g.event.Sequence != next[object] {
				t.Errorf("%s got %d, want %d", object, g.event.Sequence, next[object])
			}
		}
		for o := range objects {
			if n := next[fmt.Sprintf("prl_%d", o)]; n != each {
				t.Errorf("object %d: %d of %d events", o, n, each)
			}
		}
		if done := w.deliveries(e.ID, delivery.Succeeded); len(done) != objects*each {
			t.Errorf("%d of %d succeeded", len(done), objects*each)
		}
		if refused > 72*8 {
			t.Errorf("%d requests to a receiver that was down", refused)
		}
	})
}

// object returns the ID of the object that the request's event is about.
func (g got) object(t *testing.T, w *world) (object string) {
	t.Helper()
	dbtest.Read(t, w.d, func(ctx context.Context, tx *db.Tx) error {
		ev, err := webhook.Get(ctx, tx, webhook.Source{CompanyID: w.by.CompanyID}, g.event.ID)
		object = ev.ObjectID
		return err
	})
	return object
}

// After five days of failures only, an endpoint is disabled, its pending deliveries are cancelled, and the company
// gets one mail. Each change of its state is an event.
func TestAnEndpointIsDisabledAfterFiveDaysOfFailures(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := newWorld(t, d, clock)
		r := newReceiver(t, clock)
		r.answers(fails)
		e, _ := w.endpoint(r.URL + "/in?secret=1")
		for i := range 11 {
			w.emit("payroll.created", fmt.Sprintf("prl_%d", i), 1)
			w.drain()
			clock.Advance(12 * time.Hour)
		}
		w.drain()
		if now := w.read(e.ID); now.Status != delivery.DisabledAuto || now.Reason != "failing" {
			t.Fatalf("%+v", now)
		}
		for _, state := range []string{delivery.Pending, delivery.Retrying} {
			if open := w.deliveries(e.ID, state); len(open) != 0 {
				t.Errorf("still %s: %+v", state, open)
			}
		}
		var template, to string
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
			return tx.QueryRow(ctx, `SELECT template, address FROM mails
				WHERE company_id = $1 AND template = 'webhook_disabled'`, w.by.CompanyID).Scan(&template, &to)
		}); err != nil || template != mail.WebhookDisabled || to != "ops@acme.example" {
			t.Errorf("mail %q to %q, %v", template, to, err)
		}
		before := len(r.all())
		w.emit("payroll.created", "prl_later", 1)
		w.drain()
		if len(r.all()) != before {
			t.Error("a disabled endpoint got an event")
		}
		w.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := delivery.Ping(ctx, tx, w.by, e.ID)
			if !errors.Is(err, delivery.ErrDisabled) {
				t.Errorf("a ping of a disabled endpoint: %v", err)
			}
			_, err = delivery.Enable(ctx, tx, w.by, e.ID)
			return err
		})
		w.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := delivery.Ping(ctx, tx, w.by, e.ID)
			return err
		})
		w.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := delivery.Disable(ctx, tx, w.by, e.ID)
			return err
		})
		w.drain()
		var emitted []string
		last := int64(0)
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			events, _, err := webhook.List(ctx, tx, webhook.ListParams{CompanyID: w.by.CompanyID, ObjectID: e.ID, Limit: 10})
			for _, ev := range events {
				var data struct{ Status string }
				if err := json.Unmarshal(ev.Data, &data); err != nil || ev.Sequence <= last {
					t.Errorf("%s, sequence %d after %d, %v", ev.Data, ev.Sequence, last, err)
				}
				emitted, last = append(emitted, strings.TrimSpace(ev.Name+" "+data.Status)), ev.Sequence
			}
			return err
		}); err != nil || !slices.Equal(emitted, []string{
			"webhook.status_update disabled_auto", "webhook.status_update enabled", "webhook.test",
			"webhook.status_update disabled_manual"}) {
			t.Errorf("events %q, %v", emitted, err)
		}
	})
}

// A receiver that hangs, with very many pending events, does not delay others, and gets one request at a time.
func TestADeadEndpointDoesNotDelayOthers(t *testing.T) {
	testkit.NotQuick(t, "seconds")
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := newWorld(t, d, clock)
		dead, alive := newReceiver(t, clock), newReceiver(t, clock)
		var now, most atomic.Int64
		hanging := make(chan struct{}, 1)
		dead.answers(func(_ http.ResponseWriter, r *http.Request) {
			for n := now.Add(1); ; {
				old := most.Load()
				if n <= old || most.CompareAndSwap(old, n) {
					break
				}
			}
			select {
			case hanging <- struct{}{}:
			default:
			}
			<-r.Context().Done()
			now.Add(-1)
		})
		arrived := make(chan string, 10)
		alive.answers(func(_ http.ResponseWriter, r *http.Request) { arrived <- r.Header.Get("webhook-id") })
		e, _ := w.endpoint(dead.URL, "payroll.created")
		w.endpoint(alive.URL, "recipient.created")
		const pending = 20_000
		for i := 0; i < pending; i += 1000 {
			w.write(func(_ context.Context, tx *db.Tx) error {
				for j := range 1000 {
					if err := webhook.Emit(tx, eventOf["payroll.created"](w.by.CompanyID, fmt.Sprintf("prl_%d", i+j), 1)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			w.sender.Run(ctx)
		}()
		<-hanging
		for i := range 3 {
			w.emit("recipient.created", fmt.Sprintf("rec_%d", i), 1)
			<-arrived
		}
		if done := w.deliveries(e.ID, delivery.Succeeded); len(done) != 0 {
			t.Errorf("%d", len(done))
		}
		stop()
		dead.CloseClientConnections()
		<-stopped
		if n := most.Load(); n > 1 {
			t.Errorf("%d requests at once", n)
		}
	})
}

// The number of concurrent requests to a receiver grows with each response, up to eight, so that a slow receiver
// keeps up.
func TestConcurrentRequestsGrowWithResponses(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := newWorld(t, d, clock)
		r := newReceiver(t, clock)
		w.endpoint(r.URL)
		const events = 48
		for i := range events {
			w.emit("payroll.created", fmt.Sprintf("prl_%d", i), 1)
		}
		began, may := make(chan struct{}, events), make(chan struct{})
		r.answers(func(http.ResponseWriter, *http.Request) {
			began <- struct{}{}
			<-may
		})
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			w.drain()
		}()
		<-began // only one request is sent before the first response
		for under := 1; under < 8; under++ {
			may <- struct{}{}
			<-began
			<-began // a response permits one more concurrent request than before
		}
		close(may)
		<-drained
		if n := len(r.all()); n != events {
			t.Errorf("%d of %d arrived", n, events)
		}
	})
}

// A process dies during 10,000 deliveries. Another process continues when the lease has ended. No event is lost, and
// repeated deliveries have the same ID.
func TestAnotherProcessContinuesAfterACrash(t *testing.T) {
	testkit.NotQuick(t, "seconds")
	dbtest.RunURL(t, func(t *testing.T, url string) {
		clock := dbtest.NewClock()
		open := func() *db.DB {
			d, err := db.Open(t.Context(), db.Options{URL: url, Clock: clock.Now})
			testkit.Check(t, err)
			return d
		}
		d := open()
		defer d.Close()
		w := newWorld(t, d, clock)
		r := newReceiver(t, clock)
		w.endpoint(r.URL)
		const events = 10_000
		for i := 0; i < events; i += 500 {
			w.write(func(_ context.Context, tx *db.Tx) error {
				for j := range 500 {
					object, sequence := fmt.Sprintf("prl_%d", (i+j)/3), int64(i+j)%3+1
					if err := webhook.Emit(tx, eventOf["payroll.created"](w.by.CompanyID, object, sequence)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		// The first process loses its database at some time during the deliveries, so its later results are not stored.
		first := open()
		var count atomic.Int64
		cut := make(chan struct{})
		r.answers(func(http.ResponseWriter, *http.Request) {
			if count.Add(1) == events/2 {
				close(cut)
			}
		})
		dying := w.newSender(first)
		ended := make(chan struct{})
		life, die := context.WithCancel(t.Context())
		go func() {
			defer close(ended)
			_ = dying.Drain(life)
		}()
		<-cut
		first.Close()
		die()
		<-ended
		r.answers(nil)
		clock.Advance(2 * time.Minute)
		w.drain()

		times := map[string]int{}
		for _, g := range r.all() {
			if g.header.Get("webhook-id") != g.event.ID {
				t.Fatal("an id that is not the event's")
			}
			times[g.event.ID]++
		}
		if len(times) != events {
			t.Errorf("%d of %d events arrived", len(times), events)
		}
		if again := len(r.all()) - events; again > 200 {
			t.Errorf("%d came twice", again)
		}
	})
}

// Events are deleted after 30 days, with their deliveries.
func TestPrune(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := newWorld(t, d, clock)
		r := newReceiver(t, clock)
		e, _ := w.endpoint(r.URL)
		w.emit("payroll.created", "prl_old", 1)
		w.drain()
		clock.Advance(29 * 24 * time.Hour)
		w.emit("payroll.created", "prl_new", 1)
		w.drain()
		left := func() (n int) {
			dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
				events, _, err := webhook.List(ctx, tx, webhook.ListParams{CompanyID: w.by.CompanyID, Limit: 10})
				n = len(events)
				return err
			})
			return n
		}
		for _, c := range []struct{ days, events int }{{0, 2}, {2, 1}, {30, 0}} {
			clock.Advance(time.Duration(c.days) * 24 * time.Hour)
			testkit.Check(t, delivery.Prune(t.Context(), d))
			if n, sent := left(), len(w.deliveries(e.ID, "")); n != c.events || sent != c.events {
				t.Errorf("%d days later: %d events, %d deliveries, want %d", c.days, n, sent, c.events)
			}
		}
	})
}

// An event that waits for its object's failed event comes before later events of the object, however the failed one is
// delivered. The same is true of an event that was added to the queue later than others, by a process with a slower
// clock, and does not fit into the same batch.
func TestNoEventOvertakesAWaitingOne(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := newWorld(t, d, clock)
		r := newReceiver(t, clock)
		e, _ := w.endpoint(r.URL)
		want := func(object string, sequences ...int64) {
			t.Helper()
			var all []webhook.StoredEvent
			testkit.Check(t, d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
				all, _, err = webhook.List(ctx, tx, webhook.ListParams{CompanyID: w.by.CompanyID, ObjectID: object, Limit: 10})
				return err
			}))
			var got []int64
			for _, g := range r.all() {
				for _, ev := range all {
					if ev.ID == g.event.ID {
						got = append(got, ev.Sequence)
					}
				}
			}
			if !slices.Equal(got, sequences) {
				t.Errorf("the events of %s arrived as %v, want %v", object, got, sequences)
			}
		}
		r.answers(fails)
		w.emit("payroll.created", "prl_1", 1)
		w.drain()
		w.emit("payroll.status_update", "prl_1", 2)
		w.drain()
		failed := w.deliveries(e.ID, delivery.Retrying)
		if len(failed) != 1 {
			t.Fatalf("%+v", failed)
		}
		r.answers(nil)
		w.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := delivery.Redeliver(ctx, tx, w.by, e.ID, failed[0].EventID)
			return err
		})
		w.emit("payroll.status_update", "prl_1", 3)
		w.drain()
		want("prl_1", 1, 1, 2, 3)

		r.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
		w.emit("payroll.created", "prl_2", 1)
		w.drain()
		now := clock.Now()
		w.emit("payroll.created", "prl_3", 1)
		w.drain()
		clock.Set(now.Add(-time.Second))
		w.emit("payroll.status_update", "prl_3", 2)
		for i := range 100 {
			w.emit("payroll.created", fmt.Sprintf("prl_other_%d", i), 1)
		}
		w.drain()
		r.answers(nil)
		clock.Set(now.Add(time.Minute))
		w.drain()
		want("prl_3", 1, 2)
	})
}
