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
	*testing.T
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
		b := &fixture{T: t, d: d, clock: clock, node: lightningtest.Start(t), paid: map[string]int{}}
		b.node.SetClock(clock.Now)
		b.s = &lightning.Service{Client: client(t, b.node.Options()),
			Sealer: testkit.Must(identity.NewSealer(make([]byte, 32)))}
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

// create replaces the invoices of an object by one of 5,000 sat that expires after 15 minutes. A job then creates it
// at the node.
func (b *fixture) create(objectID, quoteID string) {
	b.Helper()
	b.clock.Advance(time.Second)
	testkit.Check(b, b.d.Write(b.Context(), func(ctx context.Context, tx *db.Tx) error {
		if err := lightning.CancelAll(ctx, tx, company, objectID); err != nil {
			return err
		}
		return b.s.Create(tx, lightning.InvoiceParams{CompanyID: company, ObjectID: objectID, QuoteID: quoteID,
			Amount: money.New(money.BTC, 5_000), Memo: "Order 7", ExpiresAt: tx.Now().Add(15 * time.Minute)})
	}))
}

// open creates an invoice at the node and returns it.
func (b *fixture) open(quoteID string) lightning.Invoice {
	b.Helper()
	b.create(object, quoteID)
	b.drain()
	return b.last(lightning.Open)
}

func (b *fixture) end() {
	b.Helper()
	testkit.Check(b, b.d.Write(b.Context(), func(ctx context.Context, tx *db.Tx) error {
		return lightning.CancelAll(ctx, tx, company, object)
	}))
}

func (b *fixture) drain() {
	b.Helper()
	testkit.Check(b, b.jobs.Drain(b.Context()))
}

// invoices returns the invoices of an object, the oldest first.
func (b *fixture) invoices(objectID string) (all []lightning.Invoice) {
	b.Helper()
	testkit.Check(b, b.d.Read(b.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		all, err = lightning.ForObject(ctx, tx, company, objectID)
		return err
	}))
	return all
}

// last returns the newest invoice, and fails unless it has the given state.
func (b *fixture) last(want lightning.State) lightning.Invoice {
	b.Helper()
	all := b.invoices(object)
	i := all[len(all)-1]
	if i.State != want {
		b.Fatalf("the invoice is %s, want %s", i.State, want)
	}
	return i
}

func (b *fixture) pay(i lightning.Invoice) {
	b.Helper()
	testkit.Check(b, b.node.Pay(b.Context(), i.Request))
}

// watchUntilPaid runs Watch until the object's newest invoice is paid, and returns the error of Watch.
func (b *fixture) watchUntilPaid(objectID string) error {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- b.s.Watch(ctx, b.d) }()
	for all := b.invoices(objectID); all[len(all)-1].State != lightning.Paid; all = b.invoices(objectID) {
		select {
		case err := <-done:
			b.Fatalf("the watch ended: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	stop()
	return <-done
}

func (b *fixture) watch() {
	b.Helper()
	if err := b.watchUntilPaid(object); err != nil && !errors.Is(err, context.Canceled) {
		b.Errorf("the watch ended: %v", err)
	}
	b.drain()
}

func TestAnInvoiceIsCreatedShownAndPaid(t *testing.T) {
	run(t, func(b *fixture) {
		b.create(object, "quo_1")
		if i := b.last(lightning.Requested); i.Request != "" {
			b.Error("a payment request before there is an invoice")
		}
		b.drain()
		i := b.last(lightning.Open)
		r, err := lightning.Decode(i.Request)
		if err != nil || r.Msat != 5_000_000 || r.Hash.String() != i.Hash || r.Memo != "Order 7" ||
			!r.Created.Add(r.Expiry).Equal(i.ExpiresAt) {
			b.Errorf("%+v, %v", r, err)
		}
		if shown, ok := lightning.Current(b.invoices(object), "quo_1"); !ok || shown.ID != i.ID {
			b.Errorf("shown is %+v", shown)
		}
		if err := b.node.PayMsat(i.Request, 5_100_999); err != nil { // some wallets pay slightly more
			b.Fatal(err)
		}
		b.watch()
		i = b.last(lightning.Paid)
		if i.Paid.Units() != 5_100 || i.SettledAt.IsZero() || b.paid[i.ID] != 1 {
			b.Errorf("paid %s at %s, reported %d times", i.Paid, i.SettledAt, b.paid[i.ID])
		}
		if _, ok := lightning.Current(b.invoices(object), "quo_1"); ok {
			b.Error("a paid invoice is shown")
		}
	})
}

// Payments made while nothing watched are recorded, the first one of a node as well as later ones, and each is
// reported once.
func TestPaymentsWhileNothingWatchedAreRecorded(t *testing.T) {
	run(t, func(b *fixture) {
		for round := range 3 {
			b.pay(b.open("quo_" + string(rune('a'+round))))
			b.watch()
			if i := b.last(lightning.Paid); b.paid[i.ID] != 1 {
				b.Errorf("round %d: reported %d times", round, b.paid[i.ID])
			}
		}
		// The node also has invoices that the service did not create.
		other := lightning.NewInvoice{Preimage: [32]byte{9}, Amount: 1, Expiry: time.Hour}
		request := testkit.Must(b.s.Client.AddInvoice(b.Context(), other))
		testkit.Check(t, b.node.Pay(b.Context(), request))
		b.pay(b.open("quo_z"))
		b.watch()
		if len(b.paid) != 4 {
			b.Errorf("reported %v", b.paid)
		}
	})
}

// An invoice in an unknown state is not recorded as paid, and does not stop others, whether those were paid before the
// watch or during it. The watch returns the error when it ends.
func TestAnInvoiceInAnUnknownStateStopsNoOther(t *testing.T) {
	run(t, func(b *fixture) {
		const later = "HALF_SETTLED"
		setLater := func(i lightning.Invoice) {
			b.Helper()
			testkit.Check(b, b.node.SetState(i.Request, later))
		}
		var all []lightning.Invoice
		for n := range 8 {
			object := fmt.Sprintf("clm_%d", n+2)
			b.create(object, "quo_1")
			b.drain()
			all = append(all, b.invoices(object)...)
		}
		// the order in which the service checks them
		slices.SortFunc(all, func(a, b lightning.Invoice) int { return strings.Compare(a.ID, b.ID) })
		unknown, after, before := all[0], all[1], all[7]
		for _, i := range all[2:7] {
			setLater(i)
		}
		b.pay(before)
		if err := b.watchUntilPaid(before.ObjectID); err == nil || !strings.Contains(err.Error(), later) {
			b.Errorf("the watch ended: %v", err)
		}
		b.pay(unknown)
		setLater(unknown)
		b.pay(after)
		ctx, stop := context.WithCancel(b.Context())
		defer stop()
		reported := ""
		err := b.s.Client.Subscribe(ctx, 1, func(n lightning.NodeInvoice) error { // settlements after the first one
			reported += n.Hash.String()
			stop()
			return nil
		})
		if reported != after.Hash || err == nil || !strings.Contains(err.Error(), later) {
			b.Errorf("reported %s, then %v; want %s", reported, err, after.Hash)
		}
	})
}

// A lost response, a stopped node or a locked wallet leaves exactly one invoice that can be paid.
func TestAnInvoiceIsCreatedOnce(t *testing.T) {
	run(t, func(b *fixture) {
		b.node.Stop()
		b.create(object, "quo_1")
		if err := b.jobs.Drain(b.Context()); err == nil {
			b.Error("no error although the node is down")
		}
		testkit.Check(t, b.node.Restart())
		b.node.LoseResponses(1)
		b.clock.Advance(10 * time.Second)
		if err := b.jobs.Drain(b.Context()); err == nil {
			b.Error("no error although the response was lost")
		}
		b.clock.Advance(10 * time.Second)
		b.drain()
		b.last(lightning.Open)
		if n := b.node.Count(lightning.NodeOpen); n != 1 {
			b.Errorf("the node has %d invoices", n)
		}
	})
}

// A new quote gets a new invoice, and the old one cannot be paid any more.
func TestANewInvoiceCancelsTheOld(t *testing.T) {
	run(t, func(b *fixture) {
		old := b.open("quo_1")
		b.create(object, "quo_2")
		if _, ok := lightning.Current(b.invoices(object), "quo_1"); ok {
			b.Error("the old invoice is still shown")
		}
		b.drain()
		if err := b.node.Pay(b.Context(), old.Request); !errors.Is(err, lightningtest.ErrNoInvoice) {
			b.Errorf("the old invoice: %v", err)
		}
		if all := b.invoices(object); all[0].State != lightning.Ended || all[1].State != lightning.Open {
			b.Errorf("%s and %s", all[0].State, all[1].State)
		}
	})
}

// A payment counts once, whether the invoice was canceled, expired or was not watched when it was paid.
func TestAnInvoiceIsCanceledWhileItIsPaid(t *testing.T) {
	for name, c := range map[string]struct {
		steps func(b *fixture)
		want  lightning.State
	}{
		"canceled before it was created": {func(b *fixture) { b.create(object, "quo_1"); b.end() }, lightning.Ended},
		"canceled, then paid": {func(b *fixture) {
			i := b.open("quo_1")
			b.end()
			b.pay(i)
		}, lightning.Paid},
		"paid without a watch, then expired": {func(b *fixture) {
			b.pay(b.open("quo_1"))
			b.clock.Advance(16 * time.Minute)
		}, lightning.Paid},
		"expired": {func(b *fixture) { b.open("quo_1"); b.clock.Advance(16 * time.Minute) }, lightning.Ended},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(b *fixture) {
				c.steps(b)
				b.drain()
				i := b.last(c.want)
				if times := b.paid[i.ID]; (times == 1) != (c.want == lightning.Paid) || times > 1 ||
					times == 1 && i.Paid.Units() != 5_000 {
					b.Errorf("paid %s, reported %d times", i.Paid, times)
				}
				if n := b.node.Count(lightning.NodeOpen); n != 0 {
					b.Errorf("%d invoices can be paid", n)
				}
			})
		})
	}
}

// Invoices of a replaced node do not block the queue, and their payments count when the node is configured again.
func TestANodeIsReplaced(t *testing.T) {
	run(t, func(b *fixture) {
		old, i := b.s.Client, b.open("quo_1")
		second := lightningtest.Start(t)
		second.SetClock(b.clock.Now)
		b.s.Client = client(t, second.Options())
		b.pay(i)
		b.clock.Advance(16 * time.Minute)
		b.drain()
		b.last(lightning.Ended)
		b.s.Client = old
		b.pay(b.open("quo_2"))
		b.watch()
		b.pay(b.open("quo_3"))
		b.watch()
		if len(b.paid) != 2 {
			b.Errorf("reported %v", b.paid)
		}
	})
}

// The suite's own node pays as an LND node does.
func TestPayerContract(t *testing.T) {
	payer, payee := lightningtest.Start(t), lightningtest.Start(t)
	payer.Fund(100_000)
	payer.Connect(payee)
	client := testkit.Must(lightning.NewClient(payer.Options()))
	lightningtest.RunPayerContract(t, client, payee)
}
