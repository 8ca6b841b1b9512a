package claim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/onchain"
	"github.com/stipend/stipend/internal/webhook"
)

// A refund goes to an address that the payer enters, never to the address that the money came from, which may belong
// to an exchange. The merchant offers it through a link that works once:
//
//	offered → accepted → paid
//	        └→ withdrawn: another offer replaced it
//
// Refunds of the merchant's money are in refund_paid.go.
//
// An expired offer does not change; the money remains the payer's and can be offered again.

// RefundState is the state of a refund.
type RefundState string

// States of a refund.
const (
	RefundAwaiting  RefundState = "awaiting_approval" // above the company's approval limit; the link does not work yet
	RefundOffered   RefundState = "offered"
	RefundAccepted  RefundState = "accepted" // the payer entered an address; the payout is queued or sent
	RefundPaid      RefundState = "paid"     // the payout is confirmed
	RefundWithdrawn RefundState = "withdrawn"
)

const (
	// RefundLife is the time for which an offer can be accepted.
	RefundLife = 90 * 24 * time.Hour

	// refundLater is the time until the next attempt to send a refund that cannot be sent now.
	refundLater = 10 * time.Minute

	// refundSize is the size in vbytes of a transaction that pays one refund; the payer pays its fee.
	refundSize = 141
	// leastRefund is the smallest amount in satoshis that can be paid to every type of address.
	leastRefund = 546
)

// Errors returned to payers.
var (
	ErrNothing = apierr.New(apierr.Conflict, "invalid_state", "There is nothing to give back for this claim.")
	ErrLink    = apierr.New(apierr.NotFound, "not_found",
		"This link does not work any more. Ask the merchant for another one.")
	ErrRefundDue = apierr.New(apierr.Conflict, "already_processing",
		"A refund of this claim is already being paid out.")

	errOwnAddress = apierr.New(apierr.Invalid, "address_of_service",
		"This address belongs to the service itself. Name one of a wallet of yours.")

	errTooLittle = apierr.New(apierr.Conflict, "amount_too_small",
		"What could be given back is less than sending it costs.")
)

type refundPayload struct {
	ClaimID  string `json:"claim_id"`
	RefundID string `json:"refund_id"`
}

// Refund is a repayment to the payer of a claim.
type Refund struct {
	CompanyID, ClaimID, ID string
	State                  RefundState
	Amount                 money.Amount // amount owed to the payer, including Fee
	Fee                    money.Amount // network fee, known once the payer entered an address
	Address                string
	TxHash                 string
	Version                int64
	ExpiresAt, CreatedAt   time.Time
	Withheld               bool // accepted by the payer, but above the release limit
	Since                  time.Time

	// The rest is set for a refund of the merchant's money only.
	Value                   money.Amount // part of the claim's amount
	Cost                    money.Amount // sum of FromClaims and FromBalance, in the claim's settlement currency
	FromClaims, FromBalance money.Amount
	CreatedBy               string // ID of the member who created it; "" for a program

	digest   string
	outputID string
}

// Refund offers the refundable amount to the payer of a claim. If the claim was not paid in time or in full, this is
// the merchant's decision to refund all money. It returns the token of the link, which is not stored. A new offer
// replaces one that was not accepted.
func (s *Service) Refund(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, claimID string) (Refund,
	string, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return Refund{}, "", err
	}
	account, err := identity.CompanyByID(ctx, tx, company)
	if err != nil {
		return Refund{}, "", err
	}
	if err := account.Active(); err != nil {
		return Refund{}, "", err
	}
	c, err := lock(ctx, tx, company, claimID)
	if err != nil {
		return Refund{}, "", err
	}
	if (c.State == PaidLate || c.State == Underpaid) && !c.Refunding {
		f, err := gather(ctx, tx, c)
		if err != nil {
			return Refund{}, "", err
		}
		if err := s.giveBack(ctx, tx, f); err != nil {
			return Refund{}, "", err
		}
	}
	all, err := refunds(ctx, tx, c)
	if err != nil {
		return Refund{}, "", err
	}
	owed, err := ledger.Balance(ctx, tx, c.CompanyID, ledger.RefundPayable, c.ID, c.Funding)
	if err != nil {
		return Refund{}, "", err
	}
	for _, r := range all { // a refund that is not sent yet will pay the full amount owed
		if !r.OfMerchant() && r.State == RefundAccepted && (r.outputID == "" || owed.IsZero()) {
			return Refund{}, "", ErrRefundDue
		}
	}
	if owed.IsZero() {
		return Refund{}, "", ErrNothing
	}
	for i := range all {
		if !all[i].OfMerchant() && all[i].State == RefundOffered {
			if err := all[i].advance(ctx, tx, RefundWithdrawn); err != nil {
				return Refund{}, "", err
			}
		}
	}
	token := identity.NewLinkToken()
	r := Refund{
		CompanyID: c.CompanyID, ClaimID: c.ID, ID: tx.NewID("ref"), State: RefundOffered, Amount: owed,
		Fee:     money.Zero(c.Funding),
		Version: 1, ExpiresAt: tx.Now().Add(RefundLife), CreatedAt: tx.Now(), digest: identity.LinkDigest(token),
	}
	if err := insertRefund(ctx, tx, r); err != nil {
		return Refund{}, "", err
	}
	db.History(tx, r.CompanyID, r.ID, r.Version, "", string(r.State), "offered by "+by.ID)
	return r, token, r.emit(tx, webhook.RefundCreated, "")
}

// RefundURL returns the page where a payer accepts an offer.
func (s *Service) RefundURL(claimID, token string) string {
	return s.CheckoutURL(claimID) + "/refund/" + token
}

// Offer returns the refund that a link offers, with its claim. It returns ErrLink if there is none, or if it expired.
func (s *Service) Offer(ctx context.Context, tx *db.Tx, claimID, token string) (Refund, Claim, error) {
	c, err := findAny(ctx, tx, claimID)
	if err != nil {
		return Refund{}, Claim{}, ErrLink
	}
	r, err := offered(ctx, tx, c, token)
	return r, *c, err
}

func offered(ctx context.Context, tx *db.Tx, c *Claim, token string) (Refund, error) {
	digest := identity.LinkDigest(token)
	if digest == "" {
		return Refund{}, ErrLink
	}
	all, err := refunds(ctx, tx, c)
	if err != nil {
		return Refund{}, err
	}
	for _, r := range all {
		if r.digest == digest && r.State == RefundOffered && tx.Now().Before(r.ExpiresAt) {
			return r, nil
		}
	}
	return Refund{}, ErrLink
}

// Check returns the refund that an address would receive, and an error if it cannot be paid. It changes nothing.
func (s *Service) Check(ctx context.Context, tx *db.Tx, claimID, token, address string) (Refund, error) {
	c, err := findAny(ctx, tx, claimID)
	if err != nil {
		return Refund{}, ErrLink
	}
	r, err := offered(ctx, tx, c, token)
	if err != nil {
		return Refund{}, err
	}
	if r.Address, err = s.payableTo(ctx, tx, address); err != nil {
		return Refund{}, err
	}
	if r.Fee, err = s.refundFee(ctx, tx); err != nil {
		return Refund{}, err
	}
	if r.Net().Units() < leastRefund {
		return Refund{}, errTooLittle
	}
	return r, nil
}

// Accept sets the address that a refund goes to. The link does not work again.
func (s *Service) Accept(ctx context.Context, tx *db.Tx, claimID, token, address string) (Refund, error) {
	if _, err := lockAny(ctx, tx, claimID); err != nil {
		return Refund{}, ErrLink
	}
	r, err := s.Check(ctx, tx, claimID, token, address)
	if err != nil {
		return Refund{}, err
	}
	if err := r.advance(ctx, tx, RefundAccepted); err != nil {
		return Refund{}, err
	}
	job.Enqueue(tx, job.New{CompanyID: r.CompanyID, Kind: JobRefund, Payload: refundPayload{r.ClaimID, r.ID}})
	return r, nil
}

// Net returns the amount that the payer receives.
func (r Refund) Net() money.Amount {
	return money.New(r.Amount.Asset(), r.Amount.Units()-r.Fee.Units())
}

// refundFee returns the network fee, which the payer pays.
func (s *Service) refundFee(ctx context.Context, tx *db.Tx) (money.Amount, error) {
	rate, err := onchain.FeeRate(ctx, tx, s.ChainName)
	return money.New(money.BTC, rate*refundSize), err
}

// mayNotPay reports whether a company is frozen or owes money, so that it pays no refunds of its own.
func mayNotPay(ctx context.Context, tx *db.Tx, companyID string) (bool, error) {
	company, err := identity.CompanyByID(ctx, tx, companyID)
	if err != nil || company.Active() != nil {
		return true, err
	}
	err = ledger.CheckNoDebt(ctx, tx, companyID)
	if errors.Is(err, ledger.ErrInsufficient) {
		return true, nil
	}
	return false, err
}

// Send queues an accepted refund for payout, with the amount owed now (job claim.refund). It waits while the address
// matches a sanctions list, the release is not approved, or the fee uses up the refund. A refund of the merchant's
// money also waits while the company is frozen or owes money.
func (s *Service) Send(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in refundPayload
	if err := j.Decode(&in); err != nil {
		return err
	}
	c, err := lock(ctx, tx, j.CompanyID, in.ClaimID)
	if err != nil {
		return err
	}
	all, err := refunds(ctx, tx, c)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(r Refund) bool { return r.ID == in.RefundID })
	if i < 0 || all[i].State != RefundAccepted || all[i].outputID != "" {
		return nil
	}
	r := &all[i]
	held, err := s.guards.Screen(ctx, tx, r.CompanyID, r.ID, r.Address)
	if err != nil {
		return err
	}
	// later is the job that tries to send the refund again.
	later := job.New{CompanyID: r.CompanyID, Kind: JobRefund, Payload: in, RunAt: tx.Now().Add(refundLater)}
	if !held && r.OfMerchant() {
		held, err = mayNotPay(ctx, tx, r.CompanyID)
	}
	if err != nil {
		return err
	}
	if held {
		job.Enqueue(tx, later)
		return nil
	}
	// The amount owed may have changed since the offer: another payment raises it, a reorganization reduces it.
	if r.Amount, err = ledger.Balance(ctx, tx, c.CompanyID, ledger.RefundPayable, r.account(), c.Funding); err != nil {
		return err
	}
	if r.Fee, err = s.refundFee(ctx, tx); err != nil {
		return err
	}
	net, err := r.Amount.Sub(r.Fee)
	if err != nil {
		return err
	}
	if net.Units() < leastRefund {
		job.Enqueue(tx, later)
		return nil
	}
	approved, err := s.guards.ReleaseApproved(ctx, tx, r.CompanyID, r.ID, net)
	if err != nil {
		return err
	}
	if !approved {
		if !r.Withheld {
			r.Withheld = true
			if err := r.advance(ctx, tx, RefundAccepted); err != nil {
				return err
			}
		}
		job.Enqueue(tx, later)
		return nil
	}
	r.Withheld, r.outputID = false, tx.NewID("out")
	if err := r.advance(ctx, tx, RefundAccepted); err != nil {
		return err
	}
	if err := ledger.Post(tx, ledger.Journal{
		CompanyID: r.CompanyID, SourceType: "claim", SourceID: c.ID, Purpose: "refund:" + r.ID,
		Lines: []ledger.Line{
			ledger.Debit(ledger.RefundPayable, r.account(), r.Amount),
			ledger.Credit(ledger.OutputPayable, r.outputID, net),
			ledger.Credit(ledger.NetworkFee, "refund", r.Fee), // the payer's part of the transaction's fee
		},
	}); err != nil {
		return err
	}
	return payout.Add(tx, []payout.Output{{
		CompanyID: r.CompanyID, ID: r.outputID, PayrollID: c.ID, PaymentID: r.ID, Rail: payout.RailBitcoin,
		Amount: net, Input: r.Amount, Address: r.Address,
	}})
}

// IsRefund reports whether an ID is a refund's.
func IsRefund(id string) bool { return strings.HasPrefix(id, "ref_") }

// AwaitsRelease reports whether a refund waits for two staff members.
func AwaitsRelease(ctx context.Context, tx *db.Tx, companyID, refundID string) (bool, error) {
	claimID, err := withheld(ctx, tx, companyID, refundID)
	return claimID != "", err
}

// Retry enqueues a refund that waited for two staff members.
func Retry(ctx context.Context, tx *db.Tx, companyID, refundID string) error {
	claimID, err := withheld(ctx, tx, companyID, refundID)
	if err == nil && claimID != "" {
		job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobRefund, Payload: refundPayload{claimID, refundID}})
	}
	return err
}

// payableTo validates an address for a payout: it must be of the network, and not one of the service's own.
func (s *Service) payableTo(ctx context.Context, tx *db.Tx, address string) (string, error) {
	normal, err := bitcoin.NormalizeAddress(address, s.Network)
	if err != nil {
		return "", errAddress.At("body", "/address")
	}
	ours, err := chain.IsOwnAddress(ctx, tx, s.ChainName, normal)
	if err == nil && ours {
		err = errOwnAddress.At("body", "/address")
	}
	return normal, err
}

// Refunds returns the refunds of a claim, oldest first.
func (s *Service) Refunds(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, claimID string) ([]Refund,
	error) {
	c, err := ofCompany(ctx, tx, by, companyID, claimID, find)
	if err != nil {
		return nil, err
	}
	return refunds(ctx, tx, c)
}

// PayoutChanged updates a claim's refunds from their payouts (job payout.changed).
func (s *Service) PayoutChanged(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in payout.Changed
	if err := j.Decode(&in); err != nil {
		return err
	}
	c, err := lock(ctx, tx, j.CompanyID, in.PayrollID)
	if err != nil {
		return err
	}
	all, err := refunds(ctx, tx, c)
	if err != nil {
		return err
	}
	back, returned, value := money.Zero(c.Funding), money.Zero(c.Funding), money.Zero(c.Amount.Asset())
	for i := range all {
		r := &all[i]
		if r.outputID == "" {
			continue
		}
		o, err := payout.Get(ctx, tx, r.CompanyID, r.outputID)
		if err != nil {
			return err
		}
		to := RefundAccepted
		if o.State == payout.Fulfilled {
			to = RefundPaid
			if !r.OfMerchant() {
				back, err = back.Add(r.Amount)
			} else if returned, err = returned.Add(r.Amount); err == nil {
				value, err = value.Add(r.Value)
			}
			if err != nil {
				return err
			}
		}
		if to == r.State && o.TxID == r.TxHash {
			continue
		}
		r.TxHash = o.TxID
		if err := r.advance(ctx, tx, to); err != nil {
			return err
		}
	}
	f, err := gather(ctx, tx, c)
	if err != nil {
		return err
	}
	c.Refunded, c.Returned, c.ReturnedValue = back, returned, value
	return s.conclude(ctx, tx, f)
}

// advance stores a refund's next version, with its history and its event. It fails if the refund has changed since it
// was read.
func (r *Refund) advance(ctx context.Context, tx *db.Tx, to RefundState) error {
	from := r.State
	r.State = to
	if err := updateRefund(ctx, tx, r, from); err != nil {
		return err
	}
	db.History(tx, r.CompanyID, r.ID, r.Version, string(from), string(to), "")
	return r.emit(tx, webhook.RefundStatusUpdate, from)
}
