// Package payroll pays many people at once: a company names payees and amounts, funds the total with one payment, and
// each payee receives the net amount at the payee's own destinations.
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
	"github.com/stipend/stipend/internal/identity"
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

// check returns an error if this version of the program does not know the state. of names the object in the error.
func (s State) check(of string) error {
	switch s {
	case Pending, Received, Released, Fulfilled, PartiallyFulfilled, Cancelled, OnHold, ExpiredUnfunded,
		ActionRequired, Returned:
		return nil
	}
	return fmt.Errorf("payroll: %s is in the state %q, which this version does not know; nothing is done about it",
		of, string(s))
}

// FundingState describes how much of a payroll's funding has arrived.
type FundingState string

// Funding states.
const (
	FundingNone       FundingState = "none"       // no payment was seen
	FundingDetected   FundingState = "detected"   // less than the amount due was seen, and nothing is confirmed
	FundingPartial    FundingState = "partial"    // less than the amount due is confirmed
	FundingConfirming FundingState = "confirming" // the amount due was seen in time and waits for confirmations
	FundingFunded     FundingState = "funded"     // the amount due is confirmed
	FundingLate       FundingState = "late"       // a payment arrived after the quote ended and waits for a decision
	FundingOver       FundingState = "over"       // more than the amount due is confirmed
)

// complete reports whether at least the amount due is confirmed.
func (s FundingState) complete() bool { return s == FundingFunded || s == FundingOver }

// Funding methods. The ID of a wallet can be given in place of MethodWallet, and selects that wallet's currency.
const (
	MethodCrypto = "crypto"
	MethodBank   = "bank" // a transfer in the payroll's own currency, without a quote
	MethodWallet = "wallet"
	MethodDebit  = "direct_debit" // from the balance, after a direct debit of the total, in the payroll's own currency
)

// MaxPayees is the largest number of items of one payroll.
const MaxPayees = 10_000

// UnfundedAfter is the time after which a payroll that has received nothing expires.
const UnfundedAfter = 30 * 24 * time.Hour

// Reasons why a payment needs action or is on hold, or why a payroll is on hold.
const (
	ReasonTooSmall      = "amount_too_small"       // the amount is below the minimum of the destination's rail
	ReasonNoDestination = "no_distribution"        // the payee no longer has a destination
	ReasonInactive      = "recipient_inactive"     // the payee was deactivated before release
	ReasonNoRail        = "currency_not_supported" // no rail pays out the destination's asset
	ReasonReceive       = "receive_currency"       // the receive currency differs from a destination's asset
	// The operator owns too little of the destination's asset. The payment is retried every minute.
	ReasonConversion = "conversion_unavailable"
	// The fixed receive amount costs more than was funded. The company pays the difference or takes the money back. The
	// payment is also retried every minute.
	ReasonPrice        = "price_changed"
	ReasonPayoutFailed = "payout_failed" // a destination refused the payout
	// Checks of the payee's bank account.
	ReasonCheck    = "account_check"         // the bank account did not pass its check, or the check is not complete
	ReasonAnswer   = "account_check_pending" // the bank has not yet answered the first check of the account
	ReasonDisputed = "correction_disputed"   // the payee says that the correction that a bank asked for is wrong
	ReasonPrenote  = "prenote_waiting"       // a prenote was sent to the bank account within the last banking days
	ReasonReturned = "account_check_failed"  // a prenote to the bank account was returned
	ReasonCoolDown = "destination_changed"   // paid after the cool-down, or when a member confirms the change
	ReasonAddress  = "address_gap"           // too many payments to the payee's wallet are not confirmed yet
	// The travel rule: the record of a large payout of crypto assets lacks data.
	ReasonOriginator = "travel_rule_originator" // the postal address of the payer is missing
	ReasonWallet     = "travel_rule_wallet"     // it is not known whether the payee or a provider hosts the wallet
	ReasonProof      = "travel_rule_proof"      // the proof that the payee controls the wallet is missing

	ReasonReverted = "funding_reverted" // the funding was reversed by a reorganization or the return of a direct debit
	ReasonFrozen   = "company_frozen"
	ReasonApproval = "approval_required" // other members must approve a total above the company's limit
	ReasonRelease  = "release_review"    // two staff members must approve a payroll above the operator's limits
	ReasonApproved = "approved"          // only in timeline entries: a member approved the payroll
	ReasonDeclined = "approval_declined" // a member declined the payroll
	// The payee or the company matches a sanctions list and must be reviewed first.
	ReasonReview = screening.Reason
)

// Jobs of this package.
const (
	JobRelease = "payroll.release" // payload {payroll_id}: release a payroll in state received
	// JobReverted reports that a company owes funding that was reversed after its payroll was released. The payload is
	// [Reverted].
	JobReverted = "payroll.reverted"
	// JobPlatformFee credits a platform with its part of a payroll's fees.
	JobPlatformFee = "payroll.platform_fee"
	JobFreeze      = "payroll.freeze" // no payload: put the payrolls of a frozen company on hold
	JobExpire      = "payroll.expire" // payload {payroll_id}: expire a payroll that still waits for its first payment
)

// CreateParams is a request to create a payroll. Amounts are the texts of the JSON numbers.
type CreateParams struct {
	CompanyID       string
	ToPay           []Payee
	FundingMethod   string // "" is the company's default
	FundingCurrency string // "" is BTC for MethodCrypto, and the payroll's currency for MethodWallet
	FundingNetwork  string // network of a crypto asset; "" is the only network of the asset
	Currency        string // "" is USD
	ExternalID      string // company's own reference, unique per company; "" for none
	Metadata        map[string]string
	PayDay          PayDay // day on which payees are paid; the zero PayDay means as soon as the payroll is funded
	Period          Period // pay period; the zero Period means none
	// prices has the prices of the receive currencies that differ from the payroll's currency.
	prices map[money.Asset]money.Rate
	// Key is the idempotency key of a form, "" for none. A second Create with the same key returns the payroll that
	// the first one created. API requests use the Idempotency-Key header instead.
	Key string
}

// Payee is one item of to_pay.
type Payee struct {
	AmountText        string `json:"amount,omitempty"` // "" if ReceiveText is set
	ReceiveText       string `json:"receive_amount,omitempty"`
	ReceiveCurrency   string `json:"receive_currency,omitempty"` // currency of all destinations of the payee
	UserID            string `json:"user_id,omitempty"`          // user ID of a worker, or recipient ID of a person
	CompanyID         string `json:"company_id,omitempty"`       // ID of a recipient that is a company, or of the payer
	Country           string `json:"country,omitempty"`
	IsPremium         bool   `json:"premium,omitempty"`
	InvoiceID         string `json:"invoice_id,omitempty"`
	Description       string `json:"description,omitempty"`
	Category          string `json:"category,omitempty"`
	ExternalPaymentID string `json:"external_payment_id,omitempty"` // company's reference, paid only once; "" for none

	Metadata map[string]string `json:"metadata,omitempty"`
}

// Payroll is a payroll as stored, with related data as noted at the fields.
type Payroll struct {
	ID              string
	CompanyID       string
	ExternalID      string
	State           State
	HeldFrom        State // state before the hold; "" if the payroll is not on hold
	HoldReason      string
	FundingState    FundingState
	Version         int64
	Currency        money.Asset
	FundingMethod   string
	FundingCurrency money.Asset
	Count           int64 // number of payees
	Volume          money.Amount
	Fees            money.Amount
	Total           money.Amount
	Escrow          money.Amount // amount in escrow, in the funding asset, including Shortfall
	Shortfall       money.Amount // missing amount within the tolerance, which the operator pays
	// Rate is the rate at which all of Escrow was credited. It is zero before that, without an exchange, and if several
	// rates applied.
	Rate         money.Rate
	Address      string
	Network      string
	ToleranceBps int64
	PayDate      string    // day on which payees are paid, such as 2026-09-30; "" means as soon as the payroll is funded
	ReleaseAt    time.Time // beginning of PayDate in the time zone of the request; zero without a PayDate
	Period       Period
	// PlatformID is the company ID of the platform that earns PlatformFeeBps of each payment as a part of Fees; "" for
	// none.
	PlatformID     string
	PlatformFeeBps int64
	PlatformEarned money.Amount // credited to the platform so far
	Metadata       map[string]string
	CreatedBy      string // user ID of the member who created the payroll on a page; "" if an API client created it
	CreatedAt      time.Time
	UpdatedAt      time.Time

	Approval approval.Progress // set by Head and Get if the payroll needs or has approvals
	Quote    *quote.Quote      // the active quote or else the last quote; nil if there is none
	Payments []Payment         // set by Get only
	Timeline []Step            // set by Get only
}

// Payment is one payee's part of a payroll. Events call it a subpayroll.
type Payment struct {
	ID        string
	PayrollID string
	Position  int64 // index of the item in to_pay
	PayeeID   string
	UserID    string // ID of the payee's user, or PayeeID if the payee has no user
	State     State
	Version   int64
	Amount    money.Amount
	// Receive is the fixed amount that the payee receives. It is zero if Amount is fixed instead.
	Receive           money.Amount
	Surcharge         money.Amount // paid by the company in addition to Amount because Receive cost more at the release
	Fee               money.Amount // this payment's part of the payroll's fees
	Country           string
	IsPremium         bool
	InvoiceID         string
	Description       string
	Category          string
	ExternalPaymentID string
	Metadata          map[string]string
	Received          bool
	Released          bool
	Fulfilled         bool
	Reason            string // why the payment needs action or is on hold; "" otherwise

	Outputs []payout.Output // set by Get only
}

// Step is a change of state of a payroll or a payment, as recorded in the history.
type Step struct {
	ObjectID string
	Version  int64
	From, To State
	Reason   string
	At       time.Time
}

// Preview describes the payroll that Create would create.
type Preview struct {
	Currency        money.Asset
	FundingMethod   string
	FundingCurrency money.Asset
	FundingNetwork  string // EVM network that funds the payroll; "" for Bitcoin or no network
	Volume          money.Amount
	Fees            money.Amount
	Total           money.Amount
	Funding         money.Amount // Total in FundingCurrency at the current rate; the zero Amount if no rate is known
	Rate            money.Rate   // current rate; zero if none is needed or known
	PayDate         string       // day on which payees are paid, after the working-day rule; "" without a pay date
	Period          Period
	Approvals       int64 // number of members, other than the creator, who must approve the payroll
	Items           []Item
	Blockers        []apierr.Field // empty if Create would succeed
}

// Filter selects payrolls of a company and a page of them, newest first by default.
type Filter struct {
	Status     State
	ExternalID string
	From, To   time.Time // selects payrolls created in [From, To)
	PayeeIDs   []string  // selects payrolls that pay one of these payees; nil for all
	Amount     string    // selects payrolls with this total or volume, or with a payment of this amount; "" for all
	Text       string    // selects payrolls whose reference, or a payment's text, contains Text in any letter case
	Metadata   map[string]string
	Sort       string // created, name, payees or total; "" for the newest first
	Descending bool   // ignored without Sort
	Page       db.Page
}

// Config configures how payrolls are priced, funded and paid.
type Config struct {
	Pool          *chain.Pool // provides Bitcoin addresses
	ChainName     string
	Network       string
	Accounts      chain.EVMNetworks // EVM networks on which payrolls can be funded
	Lightning     bool              // payees can be paid over Lightning
	Banks         []bank.Account    // the operator's bank accounts, which fund payrolls by transfer and pay them
	SpreadBps     int64
	QuoteValidity time.Duration
	// CoolDown is the time that a payment waits after a change of its payee's destination, because an attacker who takes
	// over a login can change the destination before the payee notices. It applies only to payees who were paid before.
	// 0 disables the wait.
	CoolDown time.Duration
	// Debits collects the totals of payrolls with MethodDebit. It is optional: without it, such payrolls are refused.
	Debits Debits
	// Treasury limits how much the operator exchanges into each asset that payees receive.
	Treasury *treasury.Treasury
	// AllowUnverified lets companies without an approved verification create payrolls, as in a sandbox.
	AllowUnverified bool
	// Checks is the policy for the effect of bank account checks on payments.
	Checks destination.Checks
	// Sealer decrypts the wallets of payees who are paid at a new address each time.
	Sealer *identity.Sealer
}

// Guards decide whether a payroll may be priced and paid. All of them are required.
type Guards struct {
	// CheckWatched returns an error while payments on a network would not be noticed in time, or while payments made
	// before the time until may not be known yet. No quote is created while it returns an error.
	CheckWatched func(ctx context.Context, tx *db.Tx, network string, until time.Time) error
	// Screen returns the IDs of the payees that sanctions screening blocks; the company's own ID is included if the
	// company is blocked. See [destination.Screening].
	Screen func(ctx context.Context, tx *db.Tx, companyID string,
		payees []destination.ScreeningSubject) (blocked map[string]bool,
		err error)
	// ReleasePlanned reports whether ReleaseApproved would allow a payroll now. It is used for a payroll that is paid on
	// a later day, and does not count towards the velocity limits.
	ReleasePlanned func(ctx context.Context, tx *db.Tx, companyID, payrollID string, total money.Amount) (bool, error)
	// ReleaseApproved reports whether the operator allows a payroll to be paid out now: its total is within the release
	// limit and the velocity limits, or two staff members have approved the release. A payroll that it allows counts
	// towards the velocity limits.
	ReleaseApproved func(ctx context.Context, tx *db.Tx, companyID, payrollID string, total money.Amount) (bool, error)
	// PayeesApproved reports whether the operator allows the amounts that a payroll pays to each person or recipient:
	// they are within the velocity limits, or two staff members have approved the release of the payroll.
	PayeesApproved func(ctx context.Context, tx *db.Tx, companyID, payrollID string,
		amounts map[string]money.Amount) (bool, error)
	// TravelRule stores the records that the travel rule demands for outputs that are about to be queued. If data is
	// missing, it stores nothing and returns, by payment ID, why each payment must wait: ReasonOriginator, ReasonWallet
	// or ReasonProof.
	TravelRule func(ctx context.Context, tx *db.Tx, outputs []payout.Output) (missing map[string]string, err error)
}

// Service creates payrolls and pays them.
type Service struct {
	Config

	guards Guards
}

// New returns a Service. It returns an error if a dependency or a guard is missing.
func New(c Config, g Guards) (*Service, error) {
	switch {
	case c.Pool == nil:
		return nil, errors.New("payroll: Config.Pool is required")
	case c.ChainName == "" || c.Network == "":
		return nil, errors.New("payroll: Config.ChainName and Config.Network are required")
	case c.QuoteValidity <= 0:
		return nil, errors.New("payroll: Config.QuoteValidity is required")
	case c.Treasury == nil:
		return nil, errors.New("payroll: Config.Treasury is required")
	case c.Sealer == nil:
		return nil, errors.New("payroll: Config.Sealer is required")
	case g.CheckWatched == nil:
		return nil, errors.New("payroll: Guards.CheckWatched is required")
	case g.Screen == nil:
		return nil, errors.New("payroll: Guards.Screen is required")
	case g.ReleasePlanned == nil:
		return nil, errors.New("payroll: Guards.ReleasePlanned is required")
	case g.ReleaseApproved == nil:
		return nil, errors.New("payroll: Guards.ReleaseApproved is required")
	case g.PayeesApproved == nil:
		return nil, errors.New("payroll: Guards.PayeesApproved is required")
	case g.TravelRule == nil:
		return nil, errors.New("payroll: Guards.TravelRule is required")
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
	ErrPaid = apierr.New(apierr.Conflict, "external_id_conflict",
		"Another payroll pays this external_payment_id. Cancel that payroll first, or use another ID.")
	ErrUnverified = apierr.New(apierr.Forbidden, "kyc_required",
		"A company pays people once its verification is approved. Complete that first.")
	ErrNoFunds = apierr.New(apierr.Conflict, "insufficient_balance",
		"The company's balance does not cover this payroll.")
)
