// Package lightning asks for money over the Lightning Network, through an LND node: invoices that a node makes, what became
// of each, and which were paid.
//
//	wanted → open → ending → ended
//	   │       │       │       │
//	   └───────┴───────┴───────┴──→ paid
//
// What holds:
//
//   - An invoice asks for exactly the amount of one quote and can be paid as long as that quote holds, and not longer: the node
//     itself cancels it at the end. So a paid invoice was paid in time and in full.
//   - The preimage is chosen here and written down, sealed, before the node hears of it. The node makes one invoice of a
//     preimage, so that a call whose answer was lost is repeated without a second invoice that could be paid.
//   - A payment request is shown only after it was read back: network, amount, hash and the node's signature are right.
//   - An object has at most one invoice that is shown. One that is not wanted any more is cancelled at the node; when it was
//     paid first, that counts. "ended" is what the node said, not what was hoped.
//   - Payments are followed by the node's own count of settled invoices, and the cursor is committed with what it stands for, so
//     that none is lost while the program is down. Besides, each invoice is looked at when its time is over.
//
// The requests of a transaction are [Service.Create] and [CancelAll]; the network is spoken to by the job [JobInvoice] and by
// [Service.Watch]. News travels up as the job [JobPaid]: what a payment means is for the owner of the object to say.
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

// Chain is the name under which Lightning payments stand among those of chains.
const Chain = "lightning"

// Kinds of jobs. The payload of both is [InvoiceRef].
const (
	// JobInvoice is that an invoice is to be brought to where it should be at the node.
	JobInvoice = "lightning.invoice"
	// JobPaid is that an invoice was paid.
	JobPaid = "lightning.paid"
)

// InvoiceRef is the payload of the jobs.
type InvoiceRef struct {
	InvoiceID string `json:"invoice_id"`
}

// State is where an invoice stands here.
type State string

// States of an invoice.
const (
	Requested State = "wanted" // the node is to make it
	Open      State = "open"   // it can be paid
	Ending    State = "ending" // it is to be cancelled at the node
	Ended     State = "ended"  // it cannot be paid any more, and was not
	Paid      State = "paid"
)

const (
	// minLifetime is the least time in which a payment can be expected to arrive; for less no invoice is made.
	minLifetime = 30 * time.Second
	// checkDelay is how long after its end an invoice is looked at: the node cancels it by a clock of its own.
	checkDelay = 30 * time.Second
	// sweepEvery is between two looks at all open invoices, while the node's count is not known.
	sweepEvery = 5 * time.Second
	sweepSize  = 500
	// maxMemo is in bytes. A payment request has room for 639; a shorter one makes a code that is easier to read.
	maxMemo = 300
)

// Invoice asks one payer for the amount of one quote.
type Invoice struct {
	ID, CompanyID     string
	ObjectID, QuoteID string
	State             State
	Version           int64
	Amount            money.Amount // BTC
	Memo              string       // what the payer's wallet shows
	ExpiresAt         time.Time
	Hash              string // hex
	NodeID            string // the node that made it
	Request           string // BOLT 11; "" until it was made
	Paid              money.Amount
	SettledAt         time.Time // by the node's clock, to the second; zero until paid

	preimage    string // sealed
	settleIndex uint64
}

// InvoiceParams is an invoice to ask for.
type InvoiceParams struct {
	CompanyID, ObjectID, QuoteID string
	Amount                       money.Amount // BTC, more than 0
	Memo                         string       // cut to 300 bytes
	ExpiresAt                    time.Time
}

// Service makes and follows invoices.
type Service struct {
	Client *Client // nil in a process that only asks
	Sealer *identity.Sealer
}

func hashOf(preimage [32]byte) Hash { return sha256.Sum256(preimage[:]) }

func sealContext(id string) identity.Place {
	return identity.Place{Table: "lightning_invoices", Column: "preimage", Row: id}
}

// Create orders an invoice, which a job then makes. What was asked for the same object before is for [CancelAll]. With too little time
// left for a payment nothing is ordered.
func (s *Service) Create(tx *db.Tx, o InvoiceParams) error {
	if o.ExpiresAt.Sub(tx.Now()) < minLifetime {
		return nil
	}
	var preimage [32]byte
	_, _ = rand.Read(preimage[:]) // never fails: the runtime ends the program instead
	for len(o.Memo) > maxMemo {
		_, size := utf8.DecodeLastRuneInString(o.Memo)
		o.Memo = o.Memo[:len(o.Memo)-size]
	}
	i := Invoice{
		ID: tx.NewID("lni"), CompanyID: o.CompanyID, ObjectID: o.ObjectID, QuoteID: o.QuoteID, State: Requested, Version: 1,
		Amount: o.Amount, Memo: o.Memo, ExpiresAt: o.ExpiresAt, Hash: hashOf(preimage).String(), Paid: money.Zero(money.BTC),
	}
	var err error
	if i.preimage, err = s.Sealer.Seal(sealContext(i.ID), preimage[:]); err != nil {
		return err
	}
	insert(tx, i)
	db.History(tx, i.CompanyID, i.ID, i.Version, "", string(i.State), "asked for")
	enqueueCheck(tx, i, time.Time{})
	return nil
}

// enqueueCheck has an invoice looked at, now or at an instant.
func enqueueCheck(tx *db.Tx, i Invoice, at time.Time) {
	job.Enqueue(tx, job.New{CompanyID: i.CompanyID, Kind: JobInvoice, Payload: InvoiceRef{i.ID}, RunAt: at})
}

// CancelAll says that no invoice of an object is wanted any more. Those that can be paid are cancelled at the node by a job.
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
		if err := transition(ctx, tx, from, &i, "not wanted any more"); err != nil {
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

// Current is the invoice of a quote that can be shown to its payer, if there is one.
func Current(all []Invoice, quoteID string) (Invoice, bool) {
	for _, i := range all {
		if i.QuoteID == quoteID && i.State == Open {
			return i, true
		}
	}
	return Invoice{}, false
}

// HandleInvoice is the handler of [JobInvoice]: it makes an invoice that is wanted, and ends at the node what is not or whose time is
// over.
func (s *Service) HandleInvoice(ctx context.Context, d *db.DB, j job.Job) error {
	var news InvoiceRef
	if err := j.Decode(&news); err != nil {
		return err
	}
	for range 5 {
		// After a clash the invoice is read anew: it may be ending now, and then the node has to hear of it.
		if err := s.checkInvoice(ctx, d, j.CompanyID, news.InvoiceID); !errors.Is(err, db.ErrConflict) {
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
		if err := transition(ctx, tx, Requested, &made, "made at the node"); err != nil {
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
		return transition(ctx, tx, i.State, &ended, "cancelled at the node")
	})
}

// endForeign ends an invoice of a node that is not the configured one any more, and can therefore not be asked. Should it be paid all
// the same, that is found when the node is configured again.
func (s *Service) endForeign(ctx context.Context, d *db.DB, i Invoice) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		ended := i
		ended.State = Ended
		return transition(ctx, tx, i.State, &ended, "its node is not in use any more")
	})
}

// recordPayment writes down that an invoice was paid, once. Invoices that others made at the node are passed over.
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
	i.Paid = money.New(money.BTC, n.PaidMsat/1000) // the rest is less than the smallest unit there is
	if err := transition(ctx, tx, from, &i, "settled at the node"); err != nil {
		return err
	}
	job.Enqueue(tx, job.New{CompanyID: i.CompanyID, Kind: JobPaid, Payload: InvoiceRef{i.ID}})
	return nil
}

// Watch follows the node for some minutes and takes in what is paid. It returns when the connection ends, for the caller to
// call it again; what was settled in between comes first then.
//
// A node gives what it settled after an index, but counts from 1 and takes 0 as "nothing that is past". So until it is known of
// one settled invoice, those that can be paid are asked for one by one besides.
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
	var unknown error // the group would tell what ends first, which is the connection
	if after == 0 {
		group.Go(func() error { return s.sweep(ctx, d, info.ID, &unknown) })
	}
	err = group.Wait()
	return errors.Join(err, unknown)
}

// sweep asks for each invoice that can be paid, again and again until the cursor of the node is known. An invoice in an unknown state
// keeps none of the others from being found; the first of them is told at the end.
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

// findPayment takes in an invoice that was paid unseen. It leaves the cursor alone: others may have been settled before it.
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
