// Package claim is the merchant's checkout. A claim is an amount that a customer owes a merchant, priced in the
// merchant's currency and paid in bitcoin or in stablecoins.
//
// A claim has addresses that are never used for anything else. For each asset that it accepts, it has a quote that is
// valid for a quarter of an hour and can be renewed. Its states:
//
//	awaiting_payment → partially_paid → confirming → paid
//	   │                  └→ underpaid     └→ invalid: seen in time, and never confirmed
//	   ├→ expired → paid_late → refunded
//	   └→ cancelled
//
// Invariants:
//
//   - evaluate.go decides. From the verdict of package receivable and the merchant's decisions it computes the
//     claim's state and the amounts that should be posted. It is pure: the same facts give the same result, in any
//     order and however often they arrive. A payment that a reorganization removed is no longer a fact.
//   - Each step writes one version of the row, its history and its event, and one journal with the difference between
//     the posted amounts and the amounts that should be posted. So nothing is posted twice, and everything can be
//     reversed.
//   - All of a payer's money is accounted for: money that pays the claim belongs to the merchant (2200), money that
//     came too late or is not enough waits (2600), and an excess is owed to the payer (2400). Only the service's fee is
//     revenue.
//   - A payment over Lightning is a normal deposit that is confirmed from the start. If a claim is paid both over
//     Lightning and on chain, the excess is owed to the payer.
//   - One asset pays a claim (assets.go): the first asset whose payments cover it. Money in different assets is never
//     added up. Money in another asset waits, and is owed to the payer once the claim is paid.
//   - A merchant refunds a paid claim from the merchant's own money (refund_paid.go). That does not change the record
//     of the payment.
//   - A merchant may cancel and refund, but an address never stops being watched.
package claim

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/treasury"
	"github.com/stipend/stipend/internal/withdrawal"
)

// State is the public status of a claim.
type State string

// States of a claim.
const (
	AwaitingPayment State = "awaiting_payment"
	PartiallyPaid   State = "partially_paid" // less than the amount due was seen in time
	Confirming      State = "confirming"     // the amount due was seen in time and waits for confirmations
	Paid            State = "paid"
	Expired         State = "expired"   // the quote ended without any payment
	Underpaid       State = "underpaid" // the quote ended with a payment that is too small
	PaidLate        State = "paid_late" // late confirmed money waits for the merchant's decision
	Invalid         State = "invalid"   // payments seen in time were not confirmed within a day after the quote ended
	Refunded        State = "refunded"
	Cancelled       State = "cancelled"
)

// Exception describes an unusual payment.
type Exception string

// Exceptions.
const (
	None            Exception = "none"
	Overpaid        Exception = "overpaid"         // the payment was too large; the excess is owed to the payer
	Late            Exception = "late"             // the payment was first seen after the quote ended
	WithinTolerance Exception = "within_tolerance" // the payment was too small, within the merchant's tolerance
)

// Limits.
const (
	// MonitorFor is the time for which a claim waits for confirmations after the end of its quote.
	MonitorFor = 24 * time.Hour

	maxReference   = 128
	maxDescription = 500
	maxExternal    = 255
	maxURL         = 2000
	maxItems       = 50
	minExpiry      = time.Minute
	maxExpiry      = 90 * 24 * time.Hour
)

// Jobs of this package.
const (
	JobMonitor = "claim.monitor" // re-evaluates a claim that waits for confirmations; payload [Named]
	JobRefund  = "claim.refund"  // sends a refund that the payer accepted
	JobLinked  = "claim.linked"  // a claim of a payment link or invoice changed its state; payload [Linked]
)

// Named is the payload of a job about a claim.
type Named struct {
	ClaimID string `json:"claim_id"`
}

// Linked is the payload of a job about a claim of a payment link or invoice.
type Linked struct {
	ClaimID string `json:"claim_id"`
	LinkID  string `json:"link_id"`
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
	errFunding = apierr.New(apierr.Invalid, "currency_not_supported",
		"A claim is paid in BTC, USDC or USDT, if the service has a network of the currency, or in any of them.")
	errNoReference = apierr.New(apierr.Invalid, "missing_field",
		"Name the payer: the id of one, or your own reference.")
	// ErrExternalID contains the ID of the claim that has the external ID, as Meta "claim_id".
	ErrExternalID = apierr.New(apierr.Conflict, "external_id_conflict",
		"The company already has another claim with this external_id.")
	// ErrEnded is returned to a payer who requests a new price after the end that the merchant set.
	ErrEnded = apierr.New(apierr.Conflict, "invalid_state",
		"This payment request has ended. Ask the merchant for a new one.")

	errReturn = apierr.New(apierr.Invalid, "redirect_uri_invalid",
		"A return address starts with one of the origins in the merchant settings.")
)

// Claim is a request for a payment by one customer of a merchant, as stored, with related data as noted at the
// fields.
type Claim struct {
	ID          string
	CompanyID   string // the merchant, or the user whose invoice the claim pays
	PayerID     string // ID of a payer, or the merchant's own reference
	Description string
	ReturnURL   string // link that the checkout shows after the payment; "" for none
	Redirects   bool   // the checkout redirects to ReturnURL once the claim is paid
	ExternalID  string // the merchant's order number, unique per company; "" for none
	Metadata    map[string]string
	Items       []LineItem
	LinkID      string    // payment link or invoice that created the claim; "" for none
	ExpiresAt   time.Time // time after which the payer gets no new price; zero for never
	State       State
	Exception   Exception
	Reverted    bool // a reorganization removed the payment of a paid claim
	Version     int64

	Amount   money.Amount // amount due, in the merchant's currency
	Fee      money.Amount // the service's fee, a part of Amount
	Funding  money.Asset  // asset that pays the claim; before a payment, the first asset that it accepts
	SettleIn money.Asset  // asset credited to the merchant
	Address  string       // address and network of the first asset that the claim accepts
	Network  string
	Policy   Policy // the merchant's policy when the claim was created
	TxHash   string // transaction that completed the payment, or else the newest transaction; "" for none
	Seen     money.Amount
	Refunded money.Amount // refunded part of the payer's own money: of an excess, or of money that did not pay the claim
	Returned money.Amount // refunded part of the money that paid the claim
	// ReturnedValue is the part of Amount that was refunded. The claim is refunded when ReturnedValue equals Amount.
	ReturnedValue money.Amount
	Refunding     bool      // all money of the claim is being refunded
	CancelledAt   time.Time // zero unless the claim was cancelled
	InvalidAt     time.Time // zero unless the claim became invalid
	CreatedAt     time.Time
	UpdatedAt     time.Time

	Quote   *quote.Quote // the newest quote
	Payable bool         // the newest quote is active and nothing was paid under it
	Invoice string       // Lightning invoice (BOLT 11) while Payable; "" for none
	Offers  []Offer      // ways to pay the rest of the claim now, offers in Funding first

	feeBps     int64
	settlement string // the merchant's [Settings.SettleIn] when the claim was created
	booked     position
	others     map[money.Asset]holding // money in assets other than Funding
	email      string                  // sealed email address for the payer's receipts; "" for none
}

// Ended reports whether the end that the merchant set has passed, so that the payer gets no new price.
func (c *Claim) Ended(now time.Time) bool { return !c.ExpiresAt.IsZero() && !now.Before(c.ExpiresAt) }

// Received returns the confirmed money paid for the claim.
func (c *Claim) Received() money.Amount { return c.booked.wallet }

// Earned returns the merchant's earnings from the claim, after the fee, in the settlement currency.
func (c *Claim) Earned() money.Amount { return c.booked.merchant }

// RefundedTotal returns the amount refunded to the payer.
func (c *Claim) RefundedTotal() money.Amount {
	return money.New(c.Funding, c.Refunded.Units()+c.Returned.Units())
}

// Refundable returns the amount of Funding still owed to the payer: an overpayment, or money that did not pay the
// claim, minus the amount already refunded.
func (c *Claim) Refundable() money.Amount {
	return c.holding(c.Funding).refundable()
}

// Policy has a merchant's settings for payments.
type Policy struct {
	ToleranceBps  int64 // shortfall in basis points up to which a claim counts as paid
	Confirmations int64 // confirmations that a payment needs: 0, 1, 2 or 6
	Late          LatePolicy
	GraceSeconds  int64 // seconds after the end of a quote in which a payment is still in time
}

// LatePolicy decides how late money is handled.
type LatePolicy string

// Policies for late money. LateRequote and LateRefund act automatically only on amounts below 1,000 USD.
const (
	LateManual  LatePolicy = "manual"  // the merchant decides
	LateRequote LatePolicy = "requote" // late money is accepted at the current rate
	LateRefund  LatePolicy = "refund"  // late money is refunded to the payer
)

// Config configures how claims are priced, paid and settled.
type Config struct {
	Pool      *chain.Pool
	ChainName string
	Network   string
	Accounts  chain.EVMNetworks // EVM networks on which claims can be paid
	SpreadBps int64
	Validity  time.Duration // validity of a quote
	BaseURL   string        // URL of the checkout pages, without the path
	// Lightning creates invoices; nil if claims are paid on chain only.
	Lightning *lightning.Service
	// LightningRefunds has the limits of refunds over Lightning; nil if refunds in bitcoin are only paid on chain.
	LightningRefunds *LightningRefunds
	// PerMinute and MaxOpen limit the claims that a company creates. They separately limit the claims that payers create
	// with the company's payment links and invoices. 0 means no limit.
	PerMinute, MaxOpen int64
	// Withdrawals pays settlements out to the company's destinations.
	Withdrawals *withdrawal.Service
	// Treasury has the operator's funds, which limit the exchanges for refunds and settlements.
	Treasury *treasury.Treasury
	// Sealer encrypts the email addresses of payers.
	Sealer *identity.Sealer
}

// Guards decide whether a claim may be priced and a refund may leave. All of them are required.
type Guards struct {
	// CheckWatched returns an error while payments on a network would not be noticed in time, or while payments made
	// before the time until may not be known yet. No quote is created while it returns an error.
	CheckWatched func(ctx context.Context, tx *db.Tx, network string, until time.Time) error
	// Screen reports whether sanctions screening blocks payments to an address, for a subject of the company.
	Screen func(ctx context.Context, tx *db.Tx, companyID, subjectID, address string) (blocked bool, err error)
	// ReleaseApproved reports whether the operator allows a refund to be paid out: its amount is within the release
	// limit, or two staff members have approved it.
	ReleaseApproved func(ctx context.Context, tx *db.Tx, companyID, refundID string, amount money.Amount) (bool, error)
	// Renewable returns an error if the payer must not get a new price for a claim, because the invoice that created the
	// claim is no longer owed. linkID is the LinkID of the [Claim].
	Renewable func(ctx context.Context, tx *db.Tx, ownerID, linkID string, amount money.Amount) error
}

// Service creates claims, tracks their payments, and pays refunds and settlements.
type Service struct {
	Config

	guards Guards
}

// New returns a Service. It returns an error if a dependency or a guard is missing.
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
	case c.Treasury == nil:
		return nil, errors.New("claim: Config.Treasury is required")
	case c.Sealer == nil:
		return nil, errors.New("claim: Config.Sealer is required")
	case g.CheckWatched == nil:
		return nil, errors.New("claim: Guards.CheckWatched is required")
	case g.Screen == nil:
		return nil, errors.New("claim: Guards.Screen is required")
	case g.ReleaseApproved == nil:
		return nil, errors.New("claim: Guards.ReleaseApproved is required")
	case g.Renewable == nil:
		return nil, errors.New("claim: Guards.Renewable is required")
	}
	return &Service{Config: c, guards: g}, nil
}

// ownerOf returns the company that owns claims. For a user whose invoices the claims pay, it returns a company
// without a fee that has the user's name.
func ownerOf(ctx context.Context, tx *db.Tx, id string) (identity.Company, error) {
	if !identity.IsUser(id) {
		return identity.CompanyByID(ctx, tx, id)
	}
	u, err := identity.GetUser(ctx, tx, nil, id)
	return identity.Company{ID: u.ID, Name: u.Name(), Country: u.Country, Status: identity.CompanyActive}, err
}

// CheckoutURL returns the URL of a claim's checkout page.
func (s *Service) CheckoutURL(claimID string) string { return s.BaseURL + "/pay/" + claimID }
