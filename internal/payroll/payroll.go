// Package payroll pays many people at once: a company names payees and amounts, funds the total with one payment, and
// every payee receives their net at the destinations they chose.
//
// A payroll is created pending, together with its payments (one for each payee), a quote and one receiving address
// that is never used for anything else. Confirmed money changes it to received; the release turns escrow into what is
// owed to each destination; the outcomes of the payouts settle it:
//
//	pending → received → released → fulfilled
//	   │         │           └────→ partially_fulfilled
//	   │         └→ on_hold (and back)
//	   ├→ expired_unfunded → cancelled
//	   └→ cancelled
//
// Invariants:
//
//   - plan.go, allocate.go, conversion.go and receipts.go are pure and decide all amounts. What received money pays
//     is decided by package receivable. The verbs (create, fund, release …) read rows, call these, and write.
//   - Total = volume + fees, exactly. Fees are rounded once for a payroll, half to even. Funding rounds up, payouts
//     round down, splits sum back.
//   - Late and excess money is posted to a named account and never dropped.
//   - Every change of state is one guarded UPDATE that raises the version, with its history row, event (sequence =
//     version), journal and follow-up job in the same transaction.
//   - Job handlers read the present state, compare it with what is posted, and post the difference. Running one twice
//     changes nothing.
package payroll

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/treasury"
)

// State is the public status of a payroll and of each of its payments.
type State string

// States of a payroll. A payment has the same states except PartiallyFulfilled and ExpiredUnfunded, and also
// ActionRequired and Returned.
const (
	Pending            State = "pending"
	Received           State = "received"
	Released           State = "released"
	Fulfilled          State = "fulfilled"
	PartiallyFulfilled State = "partially_fulfilled"
	Cancelled          State = "cancelled"
	OnHold             State = "on_hold"
	ExpiredUnfunded    State = "expired_unfunded"
	ActionRequired     State = "action_required"
	Returned           State = "returned"
)

// check refuses a state that this version of the program does not know.
func (s State) check(of string) error {
	switch s {
	case Pending, Received, Released, Fulfilled, PartiallyFulfilled, Cancelled, OnHold, ExpiredUnfunded,
		ActionRequired, Returned:
		return nil
	}
	return fmt.Errorf("payroll: %s is in the state %q, which this version does not know; nothing is done about it",
		of, string(s))
}

// FundingState is how far the funding of a payroll has come.
type FundingState string

// Funding states.
const (
	FundingNone       FundingState = "none"       // nothing seen
	FundingDetected   FundingState = "detected"   // something seen, nothing confirmed, not enough
	FundingPartial    FundingState = "partial"    // something confirmed, not enough
	FundingConfirming FundingState = "confirming" // enough seen, confirmations pending
	FundingFunded     FundingState = "funded"     // enough confirmed
	FundingLate       FundingState = "late"       // money came after the quote's end and waits for a decision
	FundingOver       FundingState = "over"       // more than enough; the surplus is the company's balance
)

// Funding methods. The ID of a wallet means MethodWallet in that wallet's currency.
const (
	MethodCrypto = "crypto"
	MethodBank   = "bank" // a transfer in the payroll's own currency, without a quote
	MethodWallet = "wallet"
)

// MaxPayees is the largest number of items of one payroll.
const MaxPayees = 10_000

// UnfundedAfter is how long a payroll waits for its first payment.
const UnfundedAfter = 30 * 24 * time.Hour

// Why a payment needs action, or a payroll is on hold.
const (
	ReasonTooSmall      = "amount_too_small"       // below what its destination's rail carries
	ReasonNoDestination = "no_distribution"        // the payee has no destination any more
	ReasonInactive      = "recipient_inactive"     // the payee was deactivated before release
	ReasonNoRail        = "currency_not_supported" // no rail carries the destination's asset
	// the operator does not own enough of the destination's asset now; retried each minute
	ReasonConversion   = "conversion_unavailable"
	ReasonPayoutFailed = "payout_failed" // a destination refused the payout
	// the payee's destination is new; it is paid when the change is old enough, or confirmed
	ReasonCoolDown = "destination_changed"
	ReasonReverted = "funding_reverted" // a reorg removed the funding
	ReasonFrozen   = "company_frozen"
	ReasonApproval = "approval_required" // its total is above the company's limit: a second member must approve it
	ReasonRelease  = "release_review"    // its total is above what leaves without two operators
	ReasonApproved = "approved"          // a step: a member approved it
	ReasonDeclined = "approval_declined" // a member declined it
	// somebody must look at the payee, or at the company, before anything is paid
	ReasonReview = screening.Reason
)

// Jobs of this package.
const (
	JobRelease = "payroll.release" // payload {payroll_id}: received, to be released
	JobFreeze  = "payroll.freeze"  // no payload: the company was frozen
	JobExpire  = "payroll.expire"  // payload {payroll_id}: look whether it still waits for money
)

// CreateParams is a request for a payroll. Amounts are the text of the JSON numbers.
type CreateParams struct {
	CompanyID       string
	ToPay           []Payee
	FundingMethod   string // "" takes the company's own
	FundingCurrency string // "" is BTC for crypto, the payroll's currency for wallet
	FundingNetwork  string // of crypto that several networks carry; "" is the only one
	Currency        string // "" is USD
	ExternalID      string // unique per company when given
	// Key makes submitting a form twice harmless: the second time, Create returns the payroll that was made with the
	// key. "" is none; programs have the API's Idempotency-Key.
	Key string
}

// Payee is one item of to_pay.
type Payee struct {
	AmountText        string
	UserID            string // a worker's user, or the recipient id of a person
	CompanyID         string // the recipient id of a company, or the paying company itself
	Country           string
	IsPremium         bool
	InvoiceID         string
	Description       string
	Category          string
	ExternalPaymentID string
}

// Payroll is a payroll as stored.
type Payroll struct {
	ID              string
	CompanyID       string
	ExternalID      string
	State           State
	HeldFrom        State // the state that a hold interrupts, "" otherwise
	HoldReason      string
	FundingState    FundingState
	Version         int64
	Currency        money.Asset
	FundingMethod   string
	FundingCurrency money.Asset
	Count           int64 // payees
	Volume          money.Amount
	Fees            money.Amount
	Total           money.Amount
	Escrow          money.Amount // funding asset booked for this payroll, shortfall included
	Shortfall       money.Amount // absorbed by the operator, within the tolerance
	// the one rate at which all of Escrow was taken; zero before, without exchange, and with several
	Rate         money.Rate
	Address      string
	Network      string
	ToleranceBps int64
	CreatedBy    string // user id of the member who made it at a page, "" when an app did
	CreatedAt    time.Time
	UpdatedAt    time.Time

	Approval approval.Progress // by Head and Get, while it waits for one or when somebody gave one
	Quote    *quote.Quote      // the quote in force or the last one; nil when funded by wallet
	Payments []Payment         // by Get only
	Timeline []Step            // by Get only
}

// Payment is what one payee of a payroll gets. Events call it a subpayroll.
type Payment struct {
	ID                string
	PayrollID         string
	Position          int64 // index in to_pay
	PayeeID           string
	UserID            string // the payee's user, or the payee's id where there is none
	State             State
	Version           int64
	Amount            money.Amount
	Fee               money.Amount // this payment's part of the payroll's fees
	Country           string
	IsPremium         bool
	InvoiceID         string
	Description       string
	Category          string
	ExternalPaymentID string
	Received          bool
	Released          bool
	Fulfilled         bool
	Reason            string // why it needs action or is held, "" otherwise

	Outputs []payout.Output // by Get only
}

// Step is one recorded change of state.
type Step struct {
	ObjectID string
	Version  int64
	From, To State
	Reason   string
	At       time.Time
}

// Preview is what Create would do.
type Preview struct {
	Currency        money.Asset
	FundingMethod   string
	FundingCurrency money.Asset
	FundingNetwork  string // of accounts; "" is Bitcoin's, or none
	Volume          money.Amount
	Fees            money.Amount
	Total           money.Amount
	Funding         money.Amount // at the present rate; zero Amount when no rate is known
	Rate            money.Rate   // zero when none is needed or known
	Approvals       int64        // members who must approve it before it is released, beside who makes it
	Items           []Item
	Blockers        []apierr.Field // empty when Create would succeed
}

// Filter selects and pages payrolls of a company, newest first.
type Filter struct {
	Status     State
	ExternalID string
	From, To   time.Time // created in [From, To)
	Page       int       // from 1
	PerPage    int       // 1 to 100
}

// Config is how payrolls are priced, funded and paid.
type Config struct {
	Pool          *chain.Pool // of Bitcoin addresses
	ChainName     string
	Network       string
	Accounts      chain.EVMNetworks // EVM networks on which payrolls can be funded
	Banks         []bank.Account    // the operator's bank accounts to which payrolls can be funded by transfer
	SpreadBps     int64
	QuoteValidity time.Duration
	// CoolDown is how long a payment waits after its payee changed where it goes, counted from the change. Only
	// payees who were paid before wait: somebody who steals a login changes the destination and leaves before anybody
	// notices. 0 is no wait.
	CoolDown time.Duration
	// FX bounds what the operator exchanges into the assets that payees are paid in.
	FX treasury.Desk
	// VerifiedOnly refuses companies whose verification is not approved.
	VerifiedOnly bool
}

// Guards decide whether a payroll may be priced and paid. All of them are required.
type Guards struct {
	// CheckWatched returns an error while payments on a network would not be noticed in time. No quote is made then.
	CheckWatched func(ctx context.Context, tx *db.Tx, network string) error
	// Screen returns the IDs that sanctions screening blocks: of payees, or of the company itself; see
	// [destination.Screening].
	Screen func(ctx context.Context, tx *db.Tx, companyID string, payees []destination.ScreeningSubject) (blocked map[string]bool,
		err error)
	// ReleaseApproved reports whether a payroll may be paid out as far as the operator is concerned: its total is
	// within the release limit, or two members of staff approved it.
	ReleaseApproved func(ctx context.Context, tx *db.Tx, companyID, payrollID string, total money.Amount) (bool, error)
}

// Service makes payrolls and pays them.
type Service struct {
	Config

	guards Guards
}

// New returns a Service. It refuses a missing dependency, and above all a missing guard.
func New(c Config, g Guards) (*Service, error) {
	switch {
	case c.Pool == nil:
		return nil, errors.New("payroll: Config.Pool is required")
	case c.ChainName == "" || c.Network == "":
		return nil, errors.New("payroll: Config.ChainName and Config.Network are required")
	case c.QuoteValidity <= 0:
		return nil, errors.New("payroll: Config.QuoteValidity is required")
	case g.CheckWatched == nil:
		return nil, errors.New("payroll: Guards.CheckWatched is required")
	case g.Screen == nil:
		return nil, errors.New("payroll: Guards.Screen is required")
	case g.ReleaseApproved == nil:
		return nil, errors.New("payroll: Guards.ReleaseApproved is required")
	}
	return &Service{Config: c, guards: g}, nil
}

// Errors returned to callers.
var (
	ErrNotFound    = apierr.New(apierr.NotFound, "not_found", "There is no such payroll.")
	ErrState       = apierr.New(apierr.Conflict, "invalid_state", "The payroll's state does not allow this.")
	ErrQuoteLocked = apierr.New(apierr.Conflict, "quote_locked",
		"The quote is fully paid and waits for confirmations, so it cannot be replaced.")
	ErrExternalID = apierr.New(apierr.Conflict, "external_id_conflict",
		"A payroll with this external_id exists already.")
	ErrUnverified = apierr.New(apierr.Forbidden, "kyc_required",
		"A company pays people once its verification is approved. Complete that first.")
	ErrNoFunds = apierr.New(apierr.Conflict, "insufficient_balance",
		"The company's balance does not cover this payroll.")
)
