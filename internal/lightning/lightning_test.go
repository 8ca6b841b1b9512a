package lightning_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/lightning/lightningtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
)

const company, object = "com_1", "clm_1"

// fixture is a service with a simulated node and a job runner.
type fixture struct {
	t     *testing.T
	d     *db.DB
	clock *dbtest.Clock
	node  *lightningtest.Node
	s     *lightning.Service
	jobs  *job.Runner
	paid  map[string]int // the number of JobPaid jobs per invoice
}

func run(t *testing.T, f func(b *fixture)) {
	t.Helper()
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		sealer := testkit.Must(identity.NewSealer(make([]byte, 32)))
		b := &fixture{t: t, d: d, clock: clock, node: lightningtest.Start(t), paid: map[string]int{}}
		b.node.SetClock(clock.Now)
		b.s = &lightning.Service{Client: client(t, b.node.Options()), Sealer: sealer}
		b.jobs = job.NewRunner(d, job.Table{
			lightning.JobInvoice: {Net: b.s.HandleInvoice},
			lightning.JobPaid: {Net: func(_ context.Context, _ *db.DB, j job.Job) error {
				var n lightning.InvoiceRef
				err := j.Decode(&n)
				b.paid[n.InvoiceID]++
				return err
			}},
		}, nil, slog.New(slog.DiscardHandler))
		f(b)
	})
}

// ask creates an invoice of 5,000 sat that expires after 15 minutes.
func (b *fixture) ask(quoteID string) {
	b.t.Helper()
	b.clock.Advance(time.Second)
	b.write(func(ctx context.Context, tx *db.Tx) error {
		if err := lightning.CancelAll(ctx, tx, company, object); err != nil {
			return err
		}
		return b.s.Create(tx, lightning.InvoiceParams{CompanyID: company, ObjectID: object, QuoteID: quoteID,
			Amount: money.New(money.BTC, 5_000),
			Memo:   "Order 7", ExpiresAt: tx.Now().Add(15 * time.Minute)})
	})
}

func (b *fixture) end() {
	b.t.Helper()
	b.write(func(ctx context.Context, tx *db.Tx) error { return lightning.CancelAll(ctx, tx, company, object) })
}

func (b *fixture) write(f func(context.Context, *db.Tx) error) {
	b.t.Helper()
	if err := b.d.Write(b.t.Context(), f); err != nil {
		b.t.Fatal(err)
	}
}

func (b *fixture) drain() {
	b.t.Helper()
	if err := b.jobs.Drain(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// invoices returns the object's invoices, the oldest first.
func (b *fixture) invoices() (all []lightning.Invoice) {
	b.t.Helper()
	if err := b.d.Read(b.t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		all, err = lightning.ForObject(ctx, tx, company, object)
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	return all
}

// last returns the newest invoice, and fails unless it has the given state.
func (b *fixture) last(want lightning.State) lightning.Invoice {
	b.t.Helper()
	all := b.invoices()
	i := all[len(all)-1]
	if i.State != want {
		b.t.Fatalf("the invoice is %s, want %s", i.State, want)
	}
	return i
}

func (b *fixture) pay(i lightning.Invoice) {
	b.t.Helper()
	if err := b.node.Pay(b.t.Context(), i.Request); err != nil {
		b.t.Fatal(err)
	}
}

// watch runs Watch until the newest invoice is paid.
func (b *fixture) watch() {
	b.t.Helper()
	ctx, stop := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- b.s.Watch(ctx, b.d) }()
	for all := b.invoices(); all[len(all)-1].State != lightning.Paid; all = b.invoices() {
		select {
		case err := <-done:
			b.t.Fatalf("the watch ended: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	stop()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		b.t.Errorf("the watch ended: %v", err)
	}
	b.drain()
}

func TestAnInvoiceIsCreatedShownAndPaid(t *testing.T) {
	run(t, func(b *fixture) {
		b.ask("quo_1")
		if i := b.last(lightning.Requested); i.Request != "" {
			t.Error("a payment request before there is an invoice")
		}
		b.drain()
		i := b.last(lightning.Open)
		r, err := lightning.Decode(i.Request)
		if err != nil || r.Msat != 5_000_000 || r.Hash.String() != i.Hash || r.Memo != "Order 7" ||
			!r.Created.Add(r.Expiry).Equal(i.ExpiresAt) {
			t.Errorf("%+v, %v", r, err)
		}
		if shown, ok := lightning.Current(b.invoices(), "quo_1"); !ok || shown.ID != i.ID {
			t.Errorf("shown is %+v", shown)
		}
		if err := b.node.PayMsat(i.Request, 5_100_999); err != nil { // some wallets pay slightly more
			t.Fatal(err)
		}
		b.watch()
		i = b.last(lightning.Paid)
		if i.Paid.Units() != 5_100 || i.SettledAt.IsZero() || b.paid[i.ID] != 1 {
			t.Errorf("paid %s at %s, reported %d times", i.Paid, i.SettledAt, b.paid[i.ID])
		}
		if _, ok := lightning.Current(b.invoices(), "quo_1"); ok {
			t.Error("a paid invoice is shown")
		}
	})
}

// Payments made while nothing watched are recorded, the first one of a node as well as later ones, and each is
// reported once.
func TestPaymentsWhileNothingWatchedAreRecorded(t *testing.T) {
	run(t, func(b *fixture) {
		for round := range 3 {
			b.ask("quo_" + string(rune('a'+round)))
			b.drain()
			b.pay(b.last(lightning.Open))
			b.watch()
			if i := b.last(lightning.Paid); b.paid[i.ID] != 1 {
				t.Errorf("round %d: reported %d times", round, b.paid[i.ID])
			}
		}
		// The node also has invoices that the service did not create.
		other := lightning.NewInvoice{Preimage: [32]byte{9}, Amount: 1, Expiry: time.Hour}
		request := testkit.Must(b.s.Client.AddInvoice(t.Context(), other))
		testkit.Check(t, b.node.Pay(t.Context(), request))
		b.ask("quo_z")
		b.drain()
		b.pay(b.last(lightning.Open))
		b.watch()
		if len(b.paid) != 4 {
			t.Errorf("reported %v", b.paid)
		}
	})
}

// An invoice in an unknown state is not recorded as paid, and does not stop others, whether those were paid before the
// watch or during it. The watch returns the error when it ends.
func TestAnInvoiceInAnUnknownStateStopsNoOther(t *testing.T) {
	run(t, func(b *fixture) {
		const later = "HALF_SETTLED"
		setLater := func(i lightning.Invoice) {
			t.Helper()
			testkit.Check(t, b.node.SetState(i.Request, later))
		}
		paid := func(i lightning.Invoice) (is bool) {
			t.Helper()
			if err := b.d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				all, err := lightning.ForObject(ctx, tx, company, i.ObjectID)
				is = len(all) == 1 && all[0].State == lightning.Paid
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return is
		}
		var all []lightning.Invoice
		for n := range 8 {
			object := fmt.Sprintf("clm_%d", n+2)
			b.write(func(ctx context.Context, tx *db.Tx) error {
				return b.s.Create(tx, lightning.InvoiceParams{CompanyID: company, ObjectID: object, QuoteID: "quo_1",
					Amount: money.New(money.BTC, 5_000), Memo: "x",
					ExpiresAt: tx.Now().Add(15 * time.Minute)})
			})
			b.drain()
			if err := b.d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				some, err := lightning.ForObject(ctx, tx, company, object)
				all = append(all, some...)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		// the order in which the service checks them
		slices.SortFunc(all, func(a, b lightning.Invoice) int { return strings.Compare(a.ID, b.ID) })
		unknown, after, before := all[0], all[1], all[7]
		for _, i := range all[2:7] {
			setLater(i)
		}
		b.pay(before)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		done := make(chan error, 1)
		go func() { done <- b.s.Watch(ctx, b.d) }()
		until := func(i lightning.Invoice) {
			t.Helper()
			for !paid(i) {
				select {
				case err := <-done:
					t.Fatalf("the watch ended: %v", err)
				case <-time.After(5 * time.Millisecond):
				}
			}
		}
		until(before)
		stop()
		if err := <-done; err == nil || !strings.Contains(err.Error(), later) {
			t.Errorf("the watch ended: %v", err)
		}
		b.pay(unknown)
		setLater(unknown)
		b.pay(after)
		ctx, stop = context.WithCancel(t.Context())
		defer stop()
		reported := ""
		err := b.s.Client.Subscribe(ctx, 1, func(n lightning.NodeInvoice) error { // settlements after the first one
			reported += n.Hash.String()
			stop()
			return nil
		})
		if reported != after.Hash || err == nil || !strings.Contains(err.Error(), later) {
			t.Errorf("reported %s, then %v; want %s", reported, err, after.Hash)
		}
	})
}

// A lost response, a stopped node or a locked wallet leaves exactly one invoice that can be paid.
func TestAnInvoiceIsCreatedOnce(t *testing.T) {
	run(t, func(b *fixture) {
		b.node.Stop()
		b.ask("quo_1")
		if err := b.jobs.Drain(t.Context()); err == nil {
			t.Error("no error although the node is down")
		}
		testkit.Check(t, b.node.Restart())
		b.node.LoseResponses(1)
		b.clock.Advance(10 * time.Second)
		if err := b.jobs.Drain(t.Context()); err == nil {
			t.Error("no error although the response was lost")
		}
		b.clock.Advance(10 * time.Second)
		b.drain()
		b.last(lightning.Open)
		if n := b.node.Count(lightning.NodeOpen); n != 1 {
			t.Errorf("the node has %d invoices", n)
		}
	})
}

// A new quote gets a new invoice, and the old one cannot be paid any more.
func TestANewInvoiceCancelsTheOld(t *testing.T) {
	run(t, func(b *fixture) {
		b.ask("quo_1")
		b.drain()
		old := b.last(lightning.Open)
		b.ask("quo_2")
		if _, ok := lightning.Current(b.invoices(), "quo_1"); ok {
			t.Error("the old invoice is still shown")
		}
		b.drain()
		if err := b.node.Pay(t.Context(), old.Request); !errors.Is(err, lightningtest.ErrNoInvoice) {
			t.Errorf("the old invoice: %v", err)
		}
		if all := b.invoices(); all[0].State != lightning.Ended || all[1].State != lightning.Open {
			t.Errorf("%s and %s", all[0].State, all[1].State)
		}
	})
}

// An invoice is canceled while it is being paid, or before it was created.
func TestAnInvoiceIsCanceledWhileItIsPaid(t *testing.T) {
	run(t, func(b *fixture) {
		b.ask("quo_1")
		b.end()
		b.drain()
		b.last(lightning.Ended)
		if n := b.node.Count(lightning.NodeOpen); n != 0 {
			t.Errorf("%d invoices can be paid", n)
		}

		b.ask("quo_2")
		b.drain()
		i := b.last(lightning.Open)
		b.end()
		b.pay(i)
		b.drain()
		if i = b.last(lightning.Paid); b.paid[i.ID] != 1 || i.Paid.Units() != 5_000 {
			t.Errorf("paid %s, reported %d times", i.Paid, b.paid[i.ID])
		}

		b.ask("quo_3")
		b.drain()
		b.pay(b.last(lightning.Open))
		b.clock.Advance(16 * time.Minute) // no watch ran in the meantime
		b.drain()
		if i = b.last(lightning.Paid); b.paid[i.ID] != 1 {
			t.Errorf("reported %d times", b.paid[i.ID])
		}

		b.ask("quo_4")
		b.drain()
		b.clock.Advance(16 * time.Minute)
		b.drain()
		b.last(lightning.Ended)
		if n := b.node.Count(lightning.NodeOpen); n != 0 {
			t.Errorf("%d invoices can be paid", n)
		}
	})
}

// Invoices of a replaced node do not block the queue, and their payments count when the node is configured again.
func TestANodeIsReplaced(t *testing.T) {
	run(t, func(b *fixture) {
		b.ask("quo_1")
		b.drain()
		old, i := b.s.Client, b.last(lightning.Open)
		second := lightningtest.Start(t)
		second.SetClock(b.clock.Now)
		b.s.Client = client(t, second.Options())
		b.pay(i)
		b.clock.Advance(16 * time.Minute)
		b.drain()
		b.last(lightning.Ended)
		b.s.Client = old
		b.ask("quo_2")
		b.drain()
		b.pay(b.last(lightning.Open))
		b.watch()
		b.ask("quo_3")
		b.drain()
		b.pay(b.last(lightning.Open))
		b.watch()
		if len(b.paid) != 2 {
			t.Errorf("reported %v", b.paid)
		}
	})
}
