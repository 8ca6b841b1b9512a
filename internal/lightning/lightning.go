// Package lightning receives payments over the Lightning Network through an LND node. It creates invoices at the
// node, cancels them, and records which invoices were paid.
//
//	wanted → open → ending → ended
//	   │       │       │       │
//	   └───────┴───────┴───────┴──→ paid
//
// Invariants:
//
//   - An invoice has the amount of one quote, and expires with the quote: the node itself then cancels the invoice.
//     So a paid invoice was paid in time and in full.
//   - The service chooses the preimage, and stores it sealed before it calls the node. The node creates only one
//     invoice per preimage. So a call that is repeated after a lost response cannot create a second invoice.
//   - A payment request is shown only after its network, amount, hash and signature were verified.
//   - An object has at most one invoice that is shown. The service cancels other invoices at the node. If one of them
//     was paid before, the payment counts. An invoice becomes ended only after the node has confirmed the
//     cancellation.
//   - Payments are read in the order of the node's settle index. The cursor is committed together with the payments,
//     so that no payment is lost while the program is down. In addition, each invoice is checked at its expiry.
//
// [Service.Create] and [CancelAll] run in the caller's transaction. Only the job [JobInvoice] and [Service.Watch]
// call the node. The job [JobPaid] reports payments to the package that owns the object.
package lightning

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/money"
)

// Chain is the name of the Lightning Network where payments are listed by chain.
const Chain = "lightning"

// Kinds of jobs. The payload of both is an [InvoiceRef].
const (
	// JobInvoice creates or cancels an invoice at the node, depending on its state.
	JobInvoice = "lightning.invoice"
	// JobPaid reports that an invoice was paid.
	JobPaid = "lightning.paid"
)

// InvoiceRef is the payload of the jobs.
type InvoiceRef struct {
	InvoiceID string `json:"invoice_id"`
}

// State is the state of an invoice.
type State string

// States of an invoice.
const (
	Requested State = "wanted" // the node has not created the invoice yet
	Open      State = "open"   // the invoice can be paid
	Ending    State = "ending" // the node has not canceled the invoice yet
	Ended     State = "ended"  // the invoice was canceled or expired without payment
	Paid      State = "paid"
)

const (
	// minLifetime is the shortest lifetime for which an invoice is created, because a payment takes some seconds.
	minLifetime = 30 * time.Second
	// checkDelay is the time between the expiry of an invoice and its check, because the node's clock may differ.
	checkDelay = 30 * time.Second
	// sweepEvery is the interval between checks of all open invoices while the node's settle index is unknown.
	sweepEvery = 5 * time.Second
	sweepSize  = 500
	// maxMemo is the maximum length of a memo in bytes. LND accepts 639, but a shorter memo makes a simpler QR code.
	maxMemo = 300
)

// Invoice is an invoice for the amount of one quote.
type Invoice struct {
	ID, CompanyID     string
	ObjectID, QuoteID string
	State             State
	Version           int64
	Amount            money.Amount // amount in BTC
	Memo              string       // shown by the payer's wallet
	ExpiresAt         time.Time
	Hash              string // payment hash in hexadecimal
	NodeID            string // ID of the node that created the invoice
	Request           string // BOLT 11 payment request; "" until the node has created the invoice
	Paid              money.Amount
	SettledAt         time.Time // time by the node's clock, in whole seconds; zero until paid

	preimage    string // sealed preimage of the hash
	settleIndex uint64
}

// InvoiceParams are the parameters of a new invoice.
type InvoiceParams struct {
	CompanyID, ObjectID, QuoteID string
	Amount                       money.Amount // amount in BTC, more than 0
	Memo                         string       // truncated to 300 bytes
	ExpiresAt                    time.Time
}

// Node is a Lightning node that receives payments: an LND node ([Client]), or the simulated node of a sandbox.
// lightningtest.RunContract tests the behavior on which this package relies.
type Node interface {
	// Info returns the node's description, or [ErrWrongNode] if the node is on another network.
	Info(ctx context.Context) (Info, error)
	// ID returns the node's public key, in hexadecimal.
	ID(ctx context.Context) (string, error)
	// Balance returns the node's funds in satoshis.
	Balance(ctx context.Context) (sats int64, err error)
	// AddInvoice creates an invoice and returns its payment request. There is one invoice for each preimage: a repeated
	// call returns the same request.
	AddInvoice(ctx context.Context, n NewInvoice) (string, error)
	// Lookup returns an invoice, or [ErrUnknown].
	Lookup(ctx context.Context, h Hash) (NodeInvoice, error)
	// CancelInvoice cancels an invoice, so that it can no longer be paid. It succeeds if the invoice is already
	// canceled. It returns [ErrSettled] if the invoice was paid, and [ErrUnknown] if the node does not have it.
	CancelInvoice(ctx context.Context, h Hash) error
	// Subscribe calls f for each settled invoice in the order of settlement: first the invoices after the given index,
	// then new ones. With index 0, the node omits invoices settled before the call. Subscribe returns when f fails or
	// ctx ends.
	Subscribe(ctx context.Context, after uint64, f func(NodeInvoice) error) error
}

// Service creates and watches invoices.
type Service struct {
	Client Node // nil in a process that never calls the node
	Sealer *identity.Sealer
}

// HashOf returns the payment hash of a preimage.
func HashOf(preimage [32]byte) Hash { return sha256.Sum256(preimage[:]) }

func sealContext(id string) identity.SealContext {
	return identity.SealContext{Table: "lightning_invoices", Column: "preimage", Row: id}
}

// Create stores an invoice, which a job then creates at the node. It does nothing if too little time is left for a
// payment. If the object may have an older invoice, call [CancelAll] first.
func (s *Service) Create(tx *db.Tx, o InvoiceParams) error {
	if o.ExpiresAt.Sub(tx.Now()) < minLifetime {
		return nil
	}
	var preimage [32]byte
	_, _ = rand.Read(preimage[:]) // never fails: the runtime aborts the program instead
	for len(o.Memo) > maxMemo {
		_, size := utf8.DecodeLastRuneInString(o.Memo)
		o.Memo = o.Memo[:len(o.Memo)-size]
	}
	i := Invoice{
		ID: tx.NewID("lni"), CompanyID: o.CompanyID, ObjectID: o.ObjectID, QuoteID: o.QuoteID, State: Requested, Version: 1,
		Amount: o.Amount, Memo: o.Memo, ExpiresAt: o.ExpiresAt, Hash: HashOf(preimage).String(), Paid: money.Zero(money.BTC),
	}
	var err error
	if i.preimage, err = s.Sealer.Seal(sealContext(i.ID), preimage[:]); err != nil {
		return err
	}
	insert(tx, i)
	db.History(tx, i.CompanyID, i.ID, i.Version, "", string(i.State), "requested")
	enqueueCheck(tx, i, time.Time{})
	return nil
}

// enqueueCheck enqueues a [JobInvoice] that runs at the given time, or at once for the zero time.
func enqueueCheck(tx *db.Tx, i Invoice, at time.Time) {
	job.Enqueue(tx, job.New{CompanyID: i.CompanyID, Kind: JobInvoice, Payload: InvoiceRef{i.ID}, RunAt: at})
}

// CancelAll marks all unpaid invoices of an object for cancellation, and enqueues the jobs that cancel them at the
// node.
func CancelAll(ctx context.Context, tx *db.Tx, companyID, objectID string) error {
	all, err := ForObject(ctx, tx, companyID, objectID)
	if err != nil {
		return err
	}
	for _, i := range all {
		if i.State != Requested && i.State != Open {
			continue
		}
		from := i.State
		i.State = Ending
		if err := transition(ctx, tx, from, &i, "no longer needed"); err != nil {
			return err
		}
		enqueueCheck(tx, i, time.Time{})
	}
	return nil
}

func transition(ctx context.Context, tx *db.Tx, from State, i *Invoice, reason string) error {
	moved, err := update(ctx, tx, *i)
	if err != nil {
		return err
	}
	if !moved {
		return db.ErrConflict
	}
	i.Version++
	db.History(tx, i.CompanyID, i.ID, i.Version, string(from), string(i.State), reason)
	return nil
}

// Current returns the open invoice of a quote, or false if there is none.
func Current(all []Invoice, quoteID string) (Invoice, bool) {
	for _, i := range all {
		if i.QuoteID == quoteID && i.State == Open {
			return i, true
		}
	}
	return Invoice{}, false
}

// HandleInvoice handles [JobInvoice]. It creates a requested invoice at the node, and cancels an ending or expired
// invoice.
func (s *Service) HandleInvoice(ctx context.Context, d *db.DB, j job.Job) error {
	var ref InvoiceRef
	if err := j.Decode(&ref); err != nil {
		return err
	}
	for range 5 {
		// After a conflict the invoice is read again, because its state may be ending now, so that the node must cancel it.
		if err := s.checkInvoice(ctx, d, j.CompanyID, ref.InvoiceID); !errors.Is(err, db.ErrConflict) {
			return err
		}
	}
	return db.ErrConflict
}

func (s *Service) checkInvoice(ctx context.Context, d *db.DB, companyID, id string) error {
	var i Invoice
	var now time.Time
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		now = tx.Now()
		i, err = Get(ctx, tx, companyID, id)
		return err
	})
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	left := i.ExpiresAt.Sub(now)
	switch {
	case i.State == Requested && left >= minLifetime:
		return s.create(ctx, d, i, left)
	case i.State == Requested, i.State == Ending, i.State == Open && left <= 0:
		return s.cancel(ctx, d, i)
	default:
		return nil
	}
}

func (s *Service) create(ctx context.Context, d *db.DB, i Invoice, left time.Duration) error {
	raw, err := s.Sealer.Open(sealContext(i.ID), i.preimage)
	if err != nil {
		return err
	}
	if len(raw) != 32 {
		return fmt.Errorf("lightning: the preimage of %s has %d bytes", i.ID, len(raw))
	}
	n := NewInvoice{Preimage: [32]byte(raw), Amount: i.Amount.Units(), Expiry: left, Memo: i.Memo, Private: true}
	if n.Hash().String() != i.Hash {
		return fmt.Errorf("lightning: the preimage of %s is not that of its hash", i.ID)
	}
	id, err := s.Client.ID(ctx)
	if err != nil {
		return err
	}
	request, err := s.Client.AddInvoice(ctx, n)
	if err != nil {
		return err
	}
	i.State, i.NodeID, i.Request, i.preimage = Open, id, request, ""
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		made := i
		if err := transition(ctx, tx, Requested, &made, "created at the node"); err != nil {
			return err
		}
		enqueueCheck(tx, made, made.ExpiresAt.Add(checkDelay))
		return nil
	})
}

func (s *Service) cancel(ctx context.Context, d *db.DB, i Invoice) error {
	hash, err := ParseHash(i.Hash)
	if err != nil {
		return err
	}
	id, err := s.Client.ID(ctx)
	if err != nil {
		return err
	}
	if i.NodeID != "" && i.NodeID != id {
		return s.endForeign(ctx, d, i)
	}
	switch err := s.Client.CancelInvoice(ctx, hash); {
	case errors.Is(err, ErrSettled):
		found, err := s.Client.Lookup(ctx, hash)
		if err != nil {
			return err
		}
		return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return recordPayment(ctx, tx, found) })
	case err != nil && !errors.Is(err, ErrUnknown):
		return err
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		ended := i
		ended.State, ended.preimage = Ended, ""
		return transition(ctx, tx, i.State, &ended, "canceled at the node")
	})
}

// endForeign ends an invoice of a node that is no longer configured and so cannot be called. If the invoice was paid,
// the payment is found once the node is configured again.
func (s *Service) endForeign(ctx context.Context, d *db.DB, i Invoice) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		ended := i
		ended.State = Ended
		return transition(ctx, tx, i.State, &ended, "its node is not configured any more")
	})
}

// recordPayment stores that an invoice was paid. It ignores invoices that the service did not create, and repeated
// calls.
func recordPayment(ctx context.Context, tx *db.Tx, n NodeInvoice) error {
	i, err := byHash(ctx, tx, n.Hash.String())
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	if err != nil || i.State == Paid {
		return err
	}
	from := i.State
	i.State, i.preimage, i.settleIndex, i.SettledAt = Paid, "", n.SettleIndex, n.SettledAt
	i.Paid = money.New(money.BTC, n.PaidMsat/1000) // the amount is rounded down to a satoshi
	if err := transition(ctx, tx, from, &i, "settled at the node"); err != nil {
		return err
	}
	job.Enqueue(tx, job.New{CompanyID: i.CompanyID, Kind: JobPaid, Payload: InvoiceRef{i.ID}})
	return nil
}

// Watch records payments for some minutes. It returns when the connection ends; the caller then calls it again, and
// it continues after the last recorded payment.
//
// The node returns the invoices settled after an index. But it counts from 1, and with index 0 it returns no past
// invoices. So until a settled invoice of the node is known, Watch also checks each open invoice separately.
func (s *Service) Watch(ctx context.Context, d *db.DB) error {
	info, err := s.Client.Info(ctx)
	if err != nil {
		return err
	}
	var after uint64
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		after, err = loadCursor(ctx, tx, info.ID)
		return err
	}); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer stop()
		return s.Client.Subscribe(ctx, after, func(n NodeInvoice) error {
			return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
				if err := recordPayment(ctx, tx, n); err != nil {
					return err
				}
				return advanceCursor(ctx, tx, info.ID, n.SettleIndex)
			})
		})
	})
	var unknown error // returned last: the group's first error should be the connection's error
	if after == 0 {
		group.Go(func() error { return s.sweep(ctx, d, info.ID, &unknown) })
	}
	err = group.Wait()
	return errors.Join(err, unknown)
}

// sweep checks each open invoice repeatedly until the node's cursor is known. An invoice in an unknown state does not
// prevent the checks of the others; the first such error is stored in unknown.
func (s *Service) sweep(ctx context.Context, d *db.DB, nodeID string, unknown *error) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		known, err := s.sweepOnce(ctx, d, nodeID, unknown)
		if known || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Service) sweepOnce(ctx context.Context, d *db.DB, nodeID string, unknown *error) (known bool, err error) {
	last := ""
	for {
		var some []Invoice
		if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			at, err := loadCursor(ctx, tx, nodeID)
			if known = at > 0; err != nil || known {
				return err
			}
			some, err = payable(ctx, tx, last, sweepSize)
			return err
		}); err != nil || known || len(some) == 0 {
			return known, err
		}
		for _, i := range some {
			switch err := s.findPayment(ctx, d, i); {
			case errors.Is(err, errUnknownState):
				*unknown = cmp.Or(*unknown, err)
			case err != nil:
				return false, err
			}
		}
		last = some[len(some)-1].ID
	}
}

// findPayment asks the node whether an invoice was paid, and records the payment. It does not advance the cursor,
// because other invoices may have been settled earlier.
func (s *Service) findPayment(ctx context.Context, d *db.DB, i Invoice) error {
	hash, err := hex.DecodeString(i.Hash)
	if err != nil {
		return err
	}
	n, err := s.Client.Lookup(ctx, Hash(hash))
	if errors.Is(err, ErrUnknown) || err == nil && n.State != NodeSettled {
		return nil
	}
	if err != nil {
		return err
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return recordPayment(ctx, tx, n) })
}
