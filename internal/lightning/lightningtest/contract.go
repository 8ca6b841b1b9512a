package lightningtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/testkit"
)

// Payee is a node under test, which another node can pay. Every implementation must also implement either [Remote] or
// [lightning.Node].
type Payee interface {
	// Pay pays a payment request in full, or returns an error if it cannot be paid.
	Pay(ctx context.Context, request string) error
}

// Remote is a node with LND's API.
type Remote interface{ Options() lightning.Options }

// RunContract tests a node for the behavior on which package lightning relies. Every node must pass it.
func RunContract(t *testing.T, p Payee) {
	remote, isRemote := p.(Remote)
	c, _ := p.(lightning.Node)
	if isRemote {
		c = client(t, remote.Options())
	}
	serial := byte(0)
	// fresh returns the parameters of a new invoice with a random preimage.
	fresh := func() lightning.NewInvoice {
		serial++
		n := lightning.NewInvoice{Preimage: [32]byte(random(32)), Amount: 2_000 + int64(serial), Expiry: 15 * time.Minute,
			Memo: "Order 7, größer", Private: true}
		return n
	}
	add := func(t *testing.T, n lightning.NewInvoice) string {
		t.Helper()
		return testkit.Must(c.AddInvoice(t.Context(), n))
	}
	paid := func(t *testing.T) lightning.NodeInvoice {
		t.Helper()
		n := fresh()
		testkit.Check(t, p.Pay(t.Context(), add(t, n)))
		i, err := c.Lookup(t.Context(), n.Hash())
		if err != nil || i.State != lightning.NodeSettled || i.SettleIndex == 0 {
			t.Fatalf("%+v, %v", i, err)
		}
		return i
	}

	t.Run("describes itself", func(t *testing.T) {
		i, err := c.Info(t.Context())
		if err != nil || len(i.ID) != 66 || i.Network != "regtest" || i.Version == "" || !i.Synced {
			t.Errorf("%+v, %v", i, err)
		}
		if !isRemote {
			return
		}
		other := remote.Options()
		other.Network = "bitcoin"
		if _, err := client(t, other).AddInvoice(t.Context(), fresh()); !errors.Is(err, lightning.ErrWrongNode) {
			t.Errorf("a node on another network: %v", err)
		}
	})
	if isRemote {
		t.Run("checks the macaroon, and is identified by its certificate", func(t *testing.T) { checksAccess(t, remote) })
	}
	t.Run("creates one invoice per preimage", func(t *testing.T) {
		n := fresh()
		request := add(t, n)
		if again := add(t, n); again != request {
			t.Errorf("added twice, got two requests:\n%s\n%s", request, again)
		}
		r, err := lightning.Decode(request)
		if err != nil || r.Msat != n.Amount*1000 || r.Memo != n.Memo || r.Expiry != n.Expiry || r.Hash != n.Hash() ||
			r.Network != "regtest" {
			t.Errorf("%+v, %v", r, err)
		}
		i, err := c.Lookup(t.Context(), n.Hash())
		if err != nil || i != (lightning.NodeInvoice{Hash: n.Hash(), State: lightning.NodeOpen, PaymentRequest: request}) {
			t.Errorf("%+v, %v", i, err)
		}
	})
	t.Run("settles a paid invoice", func(t *testing.T) {
		n := fresh()
		request := add(t, n)
		testkit.Check(t, p.Pay(t.Context(), request))
		i, err := c.Lookup(t.Context(), n.Hash())
		if err != nil || i.State != lightning.NodeSettled || i.PaidMsat != n.Amount*1000 || i.SettleIndex == 0 ||
			i.SettledAt.IsZero() {
			t.Errorf("%+v, %v", i, err)
		}
		if err := c.CancelInvoice(t.Context(), n.Hash()); !errors.Is(err, lightning.ErrSettled) {
			t.Errorf("canceled what was paid: %v", err)
		}
		if err := p.Pay(t.Context(), request); err == nil {
			t.Error("one invoice was paid twice")
		}
		if again := add(t, n); again != request {
			t.Errorf("added after it was paid: %s", again)
		}
	})
	t.Run("does not accept a payment of a canceled invoice", func(t *testing.T) {
		n := fresh()
		request := add(t, n)
		for range 2 {
			testkit.Check(t, c.CancelInvoice(t.Context(), n.Hash()))
		}
		if i, err := c.Lookup(t.Context(), n.Hash()); err != nil || i.State != lightning.NodeCanceled {
			t.Errorf("%+v, %v", i, err)
		}
		if err := p.Pay(t.Context(), request); err == nil {
			t.Error("a canceled invoice was paid")
		}
	})
	t.Run("returns an error for an unknown invoice", func(t *testing.T) {
		if _, err := c.Lookup(t.Context(), fresh().Hash()); !errors.Is(err, lightning.ErrUnknown) {
			t.Errorf("look: %v", err)
		}
		if err := c.CancelInvoice(t.Context(), fresh().Hash()); !errors.Is(err, lightning.ErrUnknown) {
			t.Errorf("cancel: %v", err)
		}
	})
	t.Run("cancels an expired invoice", func(t *testing.T) {
		n := fresh()
		n.Expiry = time.Second
		request := add(t, n)
		eventually(t, func() error {
			i, err := c.Lookup(t.Context(), n.Hash())
			if err == nil && i.State != lightning.NodeCanceled {
				err = fmt.Errorf("the invoice is %s", i.State)
			}
			return err
		})
		if err := p.Pay(t.Context(), request); err == nil {
			t.Error("an expired invoice was paid")
		}
	})
	t.Run("reports first the invoices settled after an index", func(t *testing.T) {
		first := paid(t)
		want := []lightning.NodeInvoice{paid(t), paid(t), paid(t)}
		var got []lightning.NodeInvoice
		enough := errors.New("enough")
		err := c.Subscribe(t.Context(), first.SettleIndex, func(i lightning.NodeInvoice) error {
			if got = append(got, i); len(got) == len(want) {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got  %v\nwant %v, %v", got, want, err)
		}
	})
	t.Run("reports new settlements only, after index 0", func(t *testing.T) {
		before := paid(t)
		ctx, cancel := context.WithCancel(t.Context())
		settled := make(chan lightning.NodeInvoice)
		done := make(chan error, 1)
		go func() {
			done <- c.Subscribe(ctx, 0, func(i lightning.NodeInvoice) error {
				select {
				case settled <- i:
				case <-ctx.Done():
				}
				return ctx.Err()
			})
		}()
		// The node does not confirm the subscription, so the test pays invoices until the subscription reports one.
		var reported lightning.NodeInvoice
		var last lightning.NodeInvoice
		eventually(t, func() error {
			last = paid(t)
			select {
			case reported = <-settled:
				return nil
			case <-time.After(100 * time.Millisecond):
				return errors.New("nothing was reported")
			}
		})
		if reported.SettleIndex <= before.SettleIndex || reported.SettleIndex > last.SettleIndex {
			t.Errorf("reported %+v, which was settled before the subscription", reported)
		}
		cancel()
		if err := <-done; err == nil {
			t.Error("the subscription goes on")
		}
	})
}

func checksAccess(t *testing.T, p Remote) {
	o := p.Options()
	o.Macaroon = append([]byte(nil), o.Macaroon...)
	o.Macaroon[len(o.Macaroon)-1] ^= 1
	var refusal *lightning.Error
	if _, err := client(t, o).Info(t.Context()); !errors.As(err, &refusal) ||
		!strings.Contains(refusal.Message, "verification failed") {
		t.Errorf("a wrong macaroon: %v", err)
	}
	o = p.Options()
	o.Certificate = nil
	if _, err := client(t, o).Info(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an untrusted certificate: %v", err)
	}
}

func client(t *testing.T, o lightning.Options) *lightning.Client {
	t.Helper()
	return testkit.Must(lightning.NewClient(o))
}

// eventually repeats f until it succeeds.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("timeout: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
