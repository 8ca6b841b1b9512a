// Package lightning is the payout rail for Lightning. Through an LND node, it pays BOLT 11 invoices, and Lightning
// addresses whose server it asks for an invoice.
//
//	output   queued → prepared → in_doubt → fulfilled
//	  ↑          └→ failed ↑        └→ sent ↗  └→ failed
//	  └─────────────────────────────────┘
//
// Invariants:
//
//   - Write ahead. The invoice with its payment hash, the journal and the state of the output are committed before the
//     node is called. Every call for a payment pays the same invoice, and a node pays a payment hash only once.
//   - The outcome of a payment is unknown (state in_doubt) from before each call of the node until the node has
//     answered. The node is then asked for the payment by its hash before anything is repeated.
//   - An output gets another invoice, or fails, only with proof that the payment was not and never will be made: the
//     node reports that the payment failed or was never started, and every call whose answer was lost is so old that
//     it cannot reach the node any more, or the invoice has expired.
//   - Staff's decision that a payment was not made is such a proof only if no part of the payment can be in flight any
//     more (settledBy), and if the node, asked after the decision, does not contradict. If the node reports later that
//     the payment was made, payouts are paused.
//   - A payment hash belongs to one output, for all companies together. So an invoice is paid for one output only.
//   - The preimage is the proof of the payment. It is checked and stored.
//
// Files: prepare.go chooses the invoice of each output, send.go calls the node and records its answers, address.go
// asks the servers of Lightning addresses for invoices.
package lightning

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/payout"
)

// Source is the source type of a payment's journals.
const Source = "lightning_payment"

// Reasons of failed outputs.
const (
	ReasonInvoiceUsed    = "invoice_used"        // another payment of this service has or may have paid the invoice
	ReasonInvoiceExpired = "invoice_expired"     // the invoice has expired, or will within minLeft
	ReasonInvoiceAmount  = "invoice_amount"      // the invoice is for another amount
	ReasonAmountTooLarge = "amount_above_limit"  // the amount is above the limit of the operator or of the address
	ReasonAmountTooSmall = "amount_below_limit"  // the amount is below the minimum of the operator or of the address
	ReasonAddress        = "address_unreachable" // the server of the address has not answered for maxUnreachable
	ReasonNoRoute        = "no_route"            // no route within the largest fee and the timeout
	ReasonRefused        = "payment_refused"     // by the payee's node, or by the operator's because of the invoice
	ReasonLiquidity      = "insufficient_funds"  // the channels of the operator's node have too little balance
)

// Resolver requests invoices from Lightning addresses.
type Resolver interface {
	// Invoice returns a payment request for an amount in satoshis. A [Refusal] is final; after any other error the call
	// may be repeated. The caller checks network, amount and expiry of the request.
	Invoice(ctx context.Context, address string, sats int64) (request string, err error)
}

// Refusal is the final refusal of a Lightning address. Reason becomes the reason of the failed output.
type Refusal struct{ Reason, Detail string }

func (r *Refusal) Error() string { return "lightning: the address refuses: " + r.Detail }

// minMaxFee is the default of Config.MinMaxFee.
const minMaxFee = 10

// Config has the dependencies and limits of a Rail. Node, Network, Resolver and Log are required.
type Config struct {
	Node     lightning.Payer
	Network  string // network of the invoices: "bitcoin", "testnet", "signet" or "regtest"
	Resolver Resolver
	Log      *slog.Logger

	// A payee's invoice can end the route at a channel of the payee that charges the largest permitted fee. So the
	// limits of the fee, together with the minimum amount, bound what a payee can take from the operator.
	MaxFeeBps int64         // largest fee, in basis points of the amount; default 30
	MinMaxFee int64         // fee, in satoshis, that is always permitted; default 10
	MinAmount int64         // smallest payment in satoshis; default 1,000
	MaxAmount int64         // largest payment in satoshis; default 10,000,000
	Timeout   time.Duration // time for which the node tries to find a route; default 60 s
	Retry     time.Duration // delay after the first call without a result; default 5 s
}

// Rail pays outputs over Lightning. It implements payout.Rail.
type Rail struct{ c Config }

var _ payout.Rail = (*Rail)(nil)

// New returns the Lightning rail.
func New(c Config) (*Rail, error) {
	if c.Node == nil || c.Resolver == nil || c.Log == nil || lightning.Prefix(c.Network) == "" {
		return nil, errors.New("lightning: Node, Network, Resolver or Log is missing")
	}
	set := func(field *int64, to int64) {
		if *field <= 0 {
			*field = to
		}
	}
	set(&c.MaxFeeBps, 30)
	set(&c.MinMaxFee, minMaxFee)
	set(&c.MinAmount, 1_000)
	set(&c.MaxAmount, 10_000_000)
	if c.Timeout <= 0 {
		c.Timeout = time.Minute
	}
	if c.Retry <= 0 {
		c.Retry = 5 * time.Second
	}
	return &Rail{c}, nil
}

// Name implements payout.Rail.
func (r *Rail) Name() payout.RailName { return payout.RailLightning }

// Jobs implements payout.Rail.
func (r *Rail) Jobs() job.Table { return nil }

// Periodic implements payout.Rail.
func (r *Rail) Periodic(d *db.DB) []job.Periodic {
	return []job.Periodic{{Name: "lightning.queues", Every: time.Minute, Run: func(ctx context.Context) error {
		return r.wake(ctx, d)
	}}, {Name: "lightning.declared", Every: time.Hour, Run: func(ctx context.Context) error {
		return r.checkDeclared(ctx, d)
	}}}
}

// wake enqueues a prepare job for each company with queued outputs, which may wait for a server, the node or the end
// of a pause.
func (r *Rail) wake(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		companies, err := payout.CompaniesWaiting(ctx, tx, r.Name())
		for _, id := range companies {
			payout.EnqueuePrepare(tx, id, r.Name(), time.Time{})
		}
		return err
	})
}

// maxFee returns the largest fee of a payment in satoshis.
func (r *Rail) maxFee(sats int64) int64 { return max(r.c.MinMaxFee, share(sats, r.c.MaxFeeBps)) }

// MaxFee returns the largest fee, in satoshis, of a payment by a rail whose Config has bps as MaxFeeBps and the
// default MinMaxFee.
func MaxFee(sats, bps int64) int64 { return max(minMaxFee, share(sats, bps)) }

func share(sats, bps int64) int64 {
	const whole = 10_000
	return sats/whole*bps + sats%whole*bps/whole
}
