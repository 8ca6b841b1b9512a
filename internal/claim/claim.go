// Package claim is the merchant's checkout: what a customer owes a merchant, priced in the merchant's currency and
// paid in bitcoin.
//
// A claim has an address that is never used for anything else, and a quote that is valid for a quarter of an hour and
// can be renewed. Its states:
//
//	awaiting_payment → partially_paid → confirming → paid
//	   │                  └→ underpaid     └→ invalid: seen in time, and never confirmed
//	   ├→ expired → paid_late → refunded
//	   └→ cancelled
//
// Invariants:
//
//   - evaluate.go decides. From the verdict of package receivable and the merchant's decisions it computes the
//     claim's state and what should be posted. It is pure: the same facts give the same result, in whatever order and
//     however often they arrive, and a payment that a reorganization removed is no longer a fact.
//   - Each step writes one version of the row, its history and its event, and one journal with the difference between
//     what was posted and what should be. So nothing is posted twice, and everything can be taken back.
//   - All of a payer's money is accounted for: what pays the claim is the merchant's (2200), what came too late or is
//     not enough waits (2600), what is too much is owed to the payer (2400). None of it is revenue.
//   - A payment over Lightning is a deposit like any other, confirmed from the start. If a claim is paid over
//     Lightning and on chain, the excess is the payer's.
//   - A merchant may cancel and refund, but an address never stops being watched.
package claim

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/withdrawal"
)

// State is the public status of a claim.
type State string

// States of a claim.
const (
	AwaitingPayment State = "awaiting_payment"
	PartiallyPaid   State = "partially_paid" // something was seen in time, not enough
	Confirming      State = "confirming"     // enough was seen in time, confirmations pending
	Paid            State = "paid"
	Expired         State = "expired"   // nothing came in time
	Underpaid       State = "underpaid" // not enough came in time
	PaidLate        State = "paid_late" // confirmed money waits for a decision
	Invalid         State = "invalid"   // seen in time, and not confirmed a day after the price had ended
	Refunded        State = "refunded"
	Cancelled       State = "cancelled"
)

// Exception is what was unusual about a payment.
type Exception string

// Exceptions.
const (
	None            Exception = "none"
	Overpaid        Exception = "overpaid"         // the excess is owed to the payer
	Late            Exception = "late"             // first seen after the price had ended
	WithinTolerance Exception = "within_tolerance" // a little too little
)

// Limits.
const (
	// MonitorFor is how long after the end of its quote a claim waits for confirmations.
	MonitorFor = 24 * time.Hour

	maxReference   = 128
	maxDescription = 500
)

// Jobs of this package.
const (
	JobMonitor = "claim.monitor" // a claim that still confirms: look whether it ever will; payload [Named]
	JobRefund  = "claim.refund"  // a refund was accepted: send it
)

// Named is the payload of a job about a claim.
type Named struct {
	ClaimID string `json:"claim_id"`
}

// Errors returned to callers.
var (
	ErrNotFound    = apierr.New(apierr.NotFound, "not_found", "There is no such claim.")
	ErrState       = apierr.New(apierr.Conflict, "invalid_state", "The claim's state does not allow this.")
	ErrQuoteLocked = apierr.New(apierr.Conflict, "quote_locked",
		"The claim is fully paid and waits for confirmations, so its price cannot be replaced.")
	ErrTooManyOpen = apierr.New(apierr.RateLimited, "rate_limited",
		"The company has too many claims that are still open.")
	ErrTooOften = apierr.New(apierr.RateLimited, "rate_limited", "The company makes claims too fast.")

	errCurrency = apierr.New(apierr.Invalid, "currency_not_supported",
		"The service does not know this currency; see GET /api/currencies.")
	errFunding     = apierr.New(apierr.Invalid, "currency_not_supported", "A claim is paid in BTC.")
	errNoReference = apierr.New(apierr.Invalid, "missing_field",
		"Name the payer: the id of one, or your own reference.")
	errReturn = apierr.New(apierr.Invalid, "redirect_uri_invalid",
		"A return address starts with one of the origins in the merchant settings.")
)

// Claim is what one customer owes a merchant.
type Claim struct {
	ID          string
	CompanyID   string
	PayerID     string // of a payer, or the merchant's own reference
	Description string
	ReturnURL   string // where the checkout leads when it is done, "" for nowhere
	State       State
	Exception   Exception
	Reverted    bool // it was paid until the chain took the payment back
	Version     int64

	Amount      money.Amount // what is due, in the merchant's currency
	Fee         money.Amount // of that, what the service keeps
	Funding     money.Asset  // what it is paid in
	SettleIn    money.Asset  // what the merchant gets
	Address     string
	Network     string
	Policy      Policy // as it stood when the claim was made
	TxHash      string // the transaction that completed the payment, before that the newest, "" for none
	Seen        money.Amount
	Refunded    money.Amount // paid back to the payer
	Refunding   bool         // the merchant gives back what it received
	CancelledAt time.Time    // zero unless cancelled
	InvalidAt   time.Time    // zero unless it was invalid
	CreatedAt   time.Time
	UpdatedAt   time.Time

	Quote   *quote.Quote // the newest
	Payable bool         // the newest price holds, and nothing came for it
	Invoice string       // BOLT 11, by which it can be paid then; "" for none, or none yet

	feeBps int64
	booked position
}

// Received returns the confirmed money that came for the claim.
func (c *Claim) Received() money.Amount { return c.booked.wallet }

// Refundable returns what is still owed to the payer: an overpayment or a refund, minus what was sent.
func (c *Claim) Refundable() money.Amount {
	left, err := c.booked.excess.Sub(c.Refunded)
	if err != nil || left.Sign() < 0 { // a reorganisation took back what had been paid back
		return money.Zero(c.Funding)
	}
	return left
}

// Policy is how a merchant takes payments.
type Policy struct {
	ToleranceBps  int64 // how much too little still counts as paid, in basis points
	Confirmations int64 // 0, 1, 2 or 6
	Late          LatePolicy
	GraceSeconds  int64 // how long after the end of a price a payment is still in time
}

// LatePolicy is what happens to money that came too late.
type LatePolicy string

// Policies for late money. LateRequote and LateRefund act automatically on less than 1,000 USD only.
const (
	LateManual  LatePolicy = "manual"  // it waits for the merchant
	LateRequote LatePolicy = "requote" // it is taken at the present rate
	LateRefund  LatePolicy = "refund"  // it is the payer's again
)

// Config is how claims are priced, paid and settled.
type Config struct {
	Pool      *chain.Pool
	ChainName string
	Network   string
	SpreadBps int64
	Validity  time.Duration // of a quote
	BaseURL   string        // of the checkout pages
	// Lightning makes invoices; nil where claims are paid on chain only.
	Lightning *lightning.Service
	// PerMinute and MaxOpen limit the claims of one company; 0 is no limit.
	PerMinute, MaxOpen int64
	// Withdrawals sends settlements on to the company's destinations.
	Withdrawals *withdrawal.Service
}

// Guards decide whether a claim may be priced and a refund may leave. All of them are required.
type Guards struct {
	// CheckWatched returns an error while payments on the chain would not be noticed in time. No quote is made then.
	CheckWatched func(ctx context.Context, tx *db.Tx) error
	// Screen reports whether sanctions screening blocks payments to an address, for a subject of the company.
	Screen func(ctx context.Context, tx *db.Tx, companyID, subjectID, address string) (blocked bool, err error)
	// ReleaseApproved reports whether a refund may be paid out as far as the operator is concerned: it is within the
	// release limit, or two members of staff approved it.
	ReleaseApproved func(ctx context.Context, tx *db.Tx, companyID, refundID string, amount money.Amount) (bool, error)
}

// Service makes claims, follows their payments, and pays refunds and settlements.
type Service struct {
	Config

	guards Guards
}

// New returns a Service. It refuses a missing dependency, and above all a missing guard.
func New(c Config, g Guards) (*Service, error) {
	switch {
	case c.Pool == nil:
		return nil, errors.New("claim: Config.Pool is required")
	case c.ChainName == "" || c.Network == "":
		return nil, errors.New("claim: Config.ChainName and Config.Network are required")
	case c.Validity <= 0:
		return nil, errors.New("claim: Config.Validity is required")
	case c.Withdrawals == nil:
		return nil, errors.New("claim: Config.Withdrawals is required")
	case g.CheckWatched == nil:
		return nil, errors.New("claim: Guards.CheckWatched is required")
	case g.Screen == nil:
		return nil, errors.New("claim: Guards.Screen is required")
	case g.ReleaseApproved == nil:
		return nil, errors.New("claim: Guards.ReleaseApproved is required")
	}
	return &Service{Config: c, guards: g}, nil
}

// CheckoutURL returns the page where a claim is paid.
func (s *Service) CheckoutURL(claimID string) string { return s.BaseURL + "/pay/" + claimID }
