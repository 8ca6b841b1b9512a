package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/branding"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/network"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/onchain"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/webhook"
)

// A refund goes to an address that the payer enters (for Lightning, see refund_lightning.go). It never goes back to
// the address that paid, because that may belong to an exchange. The merchant offers the refund through a link that
// works once:
//
//	offered → accepted → paid
//	   │          └→ offered again, if the payout fails for good
//	   └→ withdrawn: another offer replaced it
//
// Refunds of the merchant's money are in refund_paid.go.
//
// An expired offer does not change its state; the money is still owed to the payer and can be offered again.

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
	// RefundLife is the time within which the payer can accept an offer.
	RefundLife = 90 * 24 * time.Hour

	// refundLater is the time until the next attempt to send a refund that cannot be sent now.
	refundLater = 10 * time.Minute

	// refundSize is the size, in vbytes, of a transaction that pays one refund. The payer pays the transaction's fee.
	refundSize = 141
	// refundGas is the gas of a token transfer to an address that holds none of the token.
	refundGas = 65_000
)

// leastRefund returns the smallest refund that is sent, in units of the asset. In bitcoin, an output of this amount
// is relayed for every type of address.
func leastRefund(asset money.Asset) int64 {
	if asset == money.BTC {
		return 546
	}
	return chain.Dust(asset)
}

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
	Network                string       // network on which the payer receives the refund, which is that of the payment
	Amount                 money.Amount // amount owed to the payer, including Fee
	Fee                    money.Amount // network fee, known once the payer has entered an address
	Address                string
	TxHash                 string
	Version                int64
	ExpiresAt, CreatedAt   time.Time
	Withheld               bool // accepted by the payer, but waits for staff because it is above the release limit
	Since                  time.Time

	// The following fields are set only for a refund of the merchant's money.
	Value                   money.Amount // part of the claim's amount
	Cost                    money.Amount // sum of FromClaims and FromBalance, in the claim's settlement currency
	FromClaims, FromBalance money.Amount
	CreatedBy               string // user ID of the member who created the refund; "" if an API client created it

	MailedTo string // email address to which the link was mailed; set only when the link is created

	digest       string // digest of the token of the link that was returned to the merchant
	mailedDigest string // digest of the token of a second link, mailed after the approvals or a failed payout; "" for none
	outputID     string
}

// Refund offers the refundable amount to the payer of a claim. If the claim was not paid in time or in full, the
// merchant thereby decides to refund all money. Refund returns the token of the payer's link, which is not stored. A
// new offer replaces an offer that was not accepted. If the payer is owed several assets, each needs an offer of its
// own; assets without an offer come first.
func (s *Service) Refund(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, claimID string) (Refund,
	string, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return Refund{}, "", err
	}
	account, err := ownerOf(ctx, tx, company)
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
	f, err := gather(ctx, tx, c)
	if err != nil {
		return Refund{}, "", err
	}
	if (c.State == PaidLate || c.State == Underpaid) && !c.Refunding {
		if err := s.giveBack(ctx, tx, f); err != nil {
			return Refund{}, "", err
		}
	}
	all, err := refunds(ctx, tx, c)
	if err != nil {
		return Refund{}, "", err
	}
	owed, err := owedTo(ctx, tx, f, all)
	if err != nil {
		return Refund{}, "", err
	}
	for i := range all {
		if all[i].offers(owed.Asset()) {
			if err := all[i].advance(ctx, tx, RefundWithdrawn, "another offer replaces it"); err != nil {
				return Refund{}, "", err
			}
		}
	}
	token := identity.NewLinkToken()
	r := Refund{
		CompanyID: c.CompanyID, ClaimID: c.ID, ID: tx.NewID("ref"), State: RefundOffered, Amount: owed,
		Fee: money.Zero(owed.Asset()), Network: s.refundNetwork(f, owed.Asset()),
		Version: 1, ExpiresAt: tx.Now().Add(RefundLife), CreatedAt: tx.Now(), digest: identity.LinkDigest(token),
	}
	if err := insertRefund(ctx, tx, r); err != nil {
		return Refund{}, "", err
	}
	db.History(tx, r.CompanyID, r.ID, r.Version, "", string(r.State), "offered by "+by.ID)
	if err := r.emit(tx, webhook.RefundCreated, ""); err != nil {
		return r, "", err
	}
	r.MailedTo, err = s.mailOffer(ctx, tx, r, token)
	return r, token, err
}

// mailOffer mails the link of a refund to the payer and returns the payer's email address. It returns "" if no
// address is known or the address cannot be trusted.
func (s *Service) mailOffer(ctx context.Context, tx *db.Tx, r Refund, token string) (to string, err error) {
	c, err := find(ctx, tx, r.CompanyID, r.ClaimID)
	if err != nil {
		return "", err
	}
	to, err = s.payerEmail(c)
	// An address that a payer entered at a payment link is not verified.
	if err != nil || to == "" || c.LinkID != "" && !identity.IsUser(c.CompanyID) {
		return "", err
	}
	company, err := ownerOf(ctx, tx, r.CompanyID)
	if err != nil {
		return "", err
	}
	brand, err := branding.Of(ctx, tx, r.CompanyID)
	if err != nil {
		return "", err
	}
	return to, mail.Enqueue(ctx, tx, mail.Message{
		CompanyID: r.CompanyID, To: to, Template: mail.RefundOffered, Key: fmt.Sprint(r.ID, ":", r.Version),
		Language: brand.Language(company), Sealer: s.Sealer,
		Data: mail.RefundOfferedData{Company: brand.DisplayName(company),
			Amount: r.Amount.String() + " " + string(r.Amount.Asset()),
			Order:  c.ExternalID, ClaimID: c.ID, Token: token, Expires: r.ExpiresAt},
	})
}

// offers reports whether the refund offers the payer's own money in an asset and is not accepted yet.
func (r *Refund) offers(asset money.Asset) bool {
	return !r.OfMerchant() && r.State == RefundOffered && r.Amount.Asset() == asset
}

// owedTo returns an amount that is owed to the payer and can be offered. It prefers an asset without an offer. all
// are the refunds of the claim.
func owedTo(ctx context.Context, tx *db.Tx, f *facts, all []Refund) (found money.Amount, err error) {
	busy, offered := false, false
	for _, asset := range f.accepted() {
		owed, err := ledger.Balance(ctx, tx, f.c.CompanyID, ledger.RefundPayable, f.c.ID, asset)
		if err != nil {
			return found, err
		}
		// An accepted refund that is not sent yet will pay the full amount owed.
		if slices.ContainsFunc(all, func(r Refund) bool {
			return !r.OfMerchant() && r.State == RefundAccepted && r.Amount.Asset() == asset &&
				(r.outputID == "" || owed.IsZero())
		}) {
			busy = true
			continue
		}
		again := slices.ContainsFunc(all, func(r Refund) bool { return r.offers(asset) })
		if owed.Sign() > 0 && (found.Asset() == "" || offered && !again) {
			found, offered = owed, again
		}
	}
	switch {
	case found.Asset() != "":
		return found, nil
	case busy:
		return found, ErrRefundDue
	}
	return found, ErrNothing
}

// refundNetwork returns the network on which an asset is refunded: the network of the newest payment in the asset.
func (s *Service) refundNetwork(f *facts, asset money.Asset) string {
	if asset == money.BTC {
		return s.Network
	}
	name := f.assets[asset].Newest().Network
	for _, d := range f.deposits {
		if d.Amount.Asset() == asset && d.State == deposit.Confirmed {
			name = d.Chain
		}
	}
	return name
}

// RefundURL returns the URL of the page on which a payer accepts an offer.
func (s *Service) RefundURL(claimID, token string) string {
	return s.CheckoutURL(claimID) + "/refund/" + token
}

// Offer returns the refund that a link offers, with its claim. It returns ErrLink if the link does not work or has
// expired.
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
		if (r.digest == digest || r.mailedDigest == digest) && r.State == RefundOffered && tx.Now().Before(r.ExpiresAt) {
			return r, nil
		}
	}
	return Refund{}, ErrLink
}

// Check returns the refund as it would be paid to an address, or an error if it cannot be paid. It changes nothing.
func (s *Service) Check(ctx context.Context, tx *db.Tx, claimID, token, address string) (Refund, error) {
	c, err := findAny(ctx, tx, claimID)
	if err != nil {
		return Refund{}, ErrLink
	}
	r, err := offered(ctx, tx, c, token)
	if err != nil {
		return Refund{}, err
	}
	if to, ok := lightningTarget(address); ok && s.LightningRefunds != nil && r.Amount.Asset() == money.BTC {
		return s.checkLightning(ctx, tx, r, to)
	}
	if r.Address, err = s.payableTo(ctx, tx, r.Network, address); err != nil {
		return Refund{}, err
	}
	if r.Fee, err = s.refundFee(ctx, tx, r.Network, r.Amount.Asset()); err != nil {
		return Refund{}, err
	}
	if r.Net().Units() < leastRefund(r.Amount.Asset()) {
		if _, ok := s.ByLightning(r); ok {
			return Refund{}, errLightningOnly.At("body", "/address")
		}
		return Refund{}, errTooLittle
	}
	return r, nil
}

// Accept sets the address to which a refund is paid. The link then no longer works.
func (s *Service) Accept(ctx context.Context, tx *db.Tx, claimID, token, address string) (Refund, error) {
	if _, err := lockAny(ctx, tx, claimID); err != nil {
		return Refund{}, ErrLink
	}
	r, err := s.Check(ctx, tx, claimID, token, address)
	if err != nil {
		return Refund{}, err
	}
	if err := r.advance(ctx, tx, RefundAccepted, ""); err != nil {
		return Refund{}, err
	}
	job.Enqueue(tx, job.New{CompanyID: r.CompanyID, Kind: JobRefund, Payload: refundPayload{r.ClaimID, r.ID}})
	return r, nil
}

// Net returns the amount that the payer receives.
func (r Refund) Net() money.Amount {
	return money.New(r.Amount.Asset(), r.Amount.Units()-r.Fee.Units())
}

// refundFee returns the network fee of a refund, which the payer pays. A fee in the network's native coin is
// converted at the current rate.
func (s *Service) refundFee(ctx context.Context, tx *db.Tx, on string, asset money.Asset) (money.Amount, error) {
	if asset == money.BTC {
		rate, err := onchain.FeeRate(ctx, tx, s.ChainName)
		return money.New(money.BTC, rate*refundSize), err
	}
	n, err := network.Lookup(on)
	if err != nil {
		return money.Zero(asset), err
	}
	wei, err := onchain.FeeRate(ctx, tx, on)
	if err != nil || n.Native == money.POL { // no source has a price of POL, and the fee is a fraction of a cent
		return money.Zero(asset), err
	}
	price, err := rates.Latest(ctx, tx, n.Native, asset)
	if err != nil {
		return money.Zero(asset), err
	}
	return price.Convert(money.New(n.Native, evm.GasCost(refundGas, wei)), money.Ceil)
}

// mayNotPay reports whether a company must not pay refunds of its own money, because it is frozen or owes money.
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

// Send queues an accepted refund for payout, with the amount owed now (job claim.refund). The refund waits while its
// address matches a sanctions list, the release is not approved, or the fee would use up the refund. A refund of the
// merchant's money also waits while the company is frozen or owes money. A refund over Lightning is offered again, on
// chain, if the operator no longer pays over Lightning.
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
	overLightning := r.Network == lightning.Chain
	if overLightning && s.LightningRefunds == nil { // the payer chose Lightning while the operator still paid over it
		left, err := ledger.Balance(ctx, tx, c.CompanyID, ledger.RefundPayable, r.account(), r.Amount.Asset())
		if err != nil {
			return err
		}
		return s.offerRest(ctx, tx, r, all, left, "refunds are no longer paid over Lightning")
	}
	held, err := s.guards.Screen(ctx, tx, r.CompanyID, r.ID, r.Address)
	if err != nil {
		return err
	}
	// later is the job that will try to send the refund again.
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
	// The amount owed may have changed since the offer: another payment raises it, and a reorganization reduces it.
	if r.Amount, err = ledger.Balance(ctx, tx, c.CompanyID, ledger.RefundPayable, r.account(),
		r.Amount.Asset()); err != nil {
		return err
	}
	if overLightning {
		*r, _ = s.ByLightning(*r) // the rail fails an amount outside of its limits, and the refund is then offered again
	} else if r.Fee, err = s.refundFee(ctx, tx, r.Network, r.Amount.Asset()); err != nil {
		return err
	}
	net, err := r.Amount.Sub(r.Fee)
	if err != nil {
		return err
	}
	if net.Units() < leastRefund(net.Asset()) {
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
			if err := r.advance(ctx, tx, RefundAccepted, ""); err != nil {
				return err
			}
		}
		job.Enqueue(tx, later)
		return nil
	}
	r.Withheld, r.outputID = false, tx.NewID("out")
	if err := r.advance(ctx, tx, RefundAccepted, ""); err != nil {
		return err
	}
	if err := ledger.Post(tx, ledger.Journal{
		CompanyID: r.CompanyID, SourceType: "claim", SourceID: c.ID, Purpose: "refund:" + r.outputID,
		Lines: []ledger.Line{
			ledger.Debit(ledger.RefundPayable, r.account(), r.Amount),
			ledger.Credit(ledger.OutputPayable, r.outputID, net),
			ledger.Credit(ledger.NetworkFee, "refund", r.Fee), // the payer's part of the transaction's fee
		},
	}); err != nil {
		return err
	}
	return payout.Add(tx, []payout.Output{{
		CompanyID: r.CompanyID, ID: r.outputID, PayrollID: c.ID, PaymentID: r.ID, Rail: s.railOf(r.Network),
		Amount: net, Input: r.Amount, Address: r.Address,
	}})
}

// Freeze puts the unsent payouts of a company's refunds of its own money on hold. Refunds of payers' money continue.
// Refunds that have no payout yet check for the freeze themselves.
func Freeze(ctx context.Context, tx *db.Tx, companyID string) error {
	ids, err := unsentRefunds(ctx, tx, companyID)
	if err != nil {
		return err
	}
	return payout.HoldOutputs(ctx, tx, companyID, ids)
}

// Unfreeze ends the holds that Freeze set.
func Unfreeze(ctx context.Context, tx *db.Tx, companyID string) error {
	ids, err := heldRefunds(ctx, tx, companyID)
	if err != nil {
		return err
	}
	return payout.ResumeOutputs(ctx, tx, companyID, ids)
}

// IsRefund reports whether an ID is the ID of a refund.
func IsRefund(id string) bool { return strings.HasPrefix(id, "ref_") }

// AwaitsRelease reports whether a refund waits until two staff members approve its release.
func AwaitsRelease(ctx context.Context, tx *db.Tx, companyID, refundID string) (bool, error) {
	claimID, err := withheld(ctx, tx, companyID, refundID)
	return claimID != "", err
}

// Retry enqueues the sending of a refund that waited for the approval of two staff members.
func Retry(ctx context.Context, tx *db.Tx, companyID, refundID string) error {
	claimID, err := withheld(ctx, tx, companyID, refundID)
	if err == nil && claimID != "" {
		job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobRefund, Payload: refundPayload{claimID, refundID}})
	}
	return err
}

// railOf returns the rail that makes payouts on a network.
func (s *Service) railOf(on string) payout.RailName {
	if on == s.Network {
		return payout.RailBitcoin
	}
	return payout.RailName(on)
}

// payableTo validates an address for a payout and returns its normal form. The address must belong to the network,
// and must not be an address of the service.
func (s *Service) payableTo(ctx context.Context, tx *db.Tx, on, address string) (string, error) {
	name := on
	if s.railOf(on) == payout.RailBitcoin {
		name = s.ChainName
	}
	setup := destination.Setup{BitcoinNetwork: s.Network, Chain: s.ChainName, Accounts: s.Accounts}
	normal, err := setup.AddressOn(ctx, tx, name, address)
	if fault, isFault := apierr.As(err); isFault {
		if fault.Code == errOwnAddress.Code {
			fault = errOwnAddress
		}
		return "", fault.At("body", "/address")
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

// PayoutChanged updates a claim's refunds from the states of their payouts (job payout.changed).
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
	f, err := gather(ctx, tx, c)
	if err != nil {
		return err
	}
	value, sums := money.Zero(c.Amount.Asset()), map[money.Asset]holding{}
	for _, asset := range f.accepted() {
		h := c.holding(asset)
		h.refunded, h.returned = money.Zero(asset), money.Zero(asset)
		sums[asset] = h
	}
	for i := range all {
		r := &all[i]
		if r.outputID == "" {
			continue
		}
		o, err := payout.Get(ctx, tx, r.CompanyID, r.outputID)
		if err != nil {
			return err
		}
		h := sums[r.Amount.Asset()]
		if o.State == payout.Failed {
			if err := s.offerAgain(ctx, tx, r, all, &h.booked, o.Reason); err != nil {
				return err
			}
			sums[r.Amount.Asset()] = h
			continue
		}
		to := RefundAccepted
		if o.State == payout.Fulfilled {
			to = RefundPaid
			if !r.OfMerchant() {
				h.refunded, err = h.refunded.Add(r.Amount)
			} else if h.returned, err = h.returned.Add(r.Amount); err == nil {
				value, err = value.Add(r.Value)
			}
			if err != nil {
				return err
			}
			sums[r.Amount.Asset()] = h
		}
		if to == r.State && o.TxID == r.TxHash {
			continue
		}
		r.TxHash = o.TxID
		if err := r.advance(ctx, tx, to, ""); err != nil {
			return err
		}
	}
	c.ReturnedValue = value
	for asset, h := range sums {
		c.hold(asset, h)
	}
	return s.conclude(ctx, tx, f)
}

// offerAgain offers a refund again whose payout failed finally, for example because the issuer of a token blocked the
// address. If the company owes money because a reorganization removed the payment, the refund's money first settles
// that debt, and booked, the claim's position in the asset, changes accordingly. all are the refunds of the claim.
func (s *Service) offerAgain(ctx context.Context, tx *db.Tx, r *Refund, all []Refund, booked *position,
	reason string) error {
	left, settled := r.Amount, money.Zero(r.Amount.Asset())
	var err error
	if !r.OfMerchant() {
		settled = smaller(booked.refundDebt, r.Amount)
		if left, err = left.Sub(settled); err == nil {
			booked.refundDebt, err = booked.refundDebt.Sub(settled)
		}
		if err == nil {
			booked.excess, err = booked.excess.Sub(settled)
		}
		if err != nil {
			return err
		}
	}
	if err := ledger.Post(tx, ledger.Journal{
		CompanyID: r.CompanyID, SourceType: "claim", SourceID: r.ClaimID, Purpose: "refund_failed:" + r.outputID,
		Lines: []ledger.Line{
			ledger.Debit(ledger.OutputPayable, r.outputID, r.Net()), ledger.Debit(ledger.NetworkFee, "refund", r.Fee),
			ledger.Credit(ledger.RefundPayable, r.account(), left), ledger.Credit(ledger.DueFromCustomer, "", settled),
		},
	}); err != nil {
		return err
	}
	return s.offerRest(ctx, tx, r, all, left, "the payout failed: "+reason)
}

// offerRest offers an accepted refund again, with the amount that is left, so that the payer enters another address.
// Its links work again, and the payer is mailed a new one. If no money is left, or another refund of the claim will
// pay it, the refund is withdrawn. all are the refunds of the claim.
func (s *Service) offerRest(ctx context.Context, tx *db.Tx, r *Refund, all []Refund, left money.Amount,
	why string) error {
	replaced := !r.OfMerchant() && (left.IsZero() || slices.ContainsFunc(all, func(other Refund) bool {
		return other.ID != r.ID && (other.offers(r.Amount.Asset()) || !other.OfMerchant() &&
			other.State == RefundAccepted && other.outputID == "" && other.Amount.Asset() == r.Amount.Asset())
	}))
	r.Fee, r.Address, r.TxHash, r.outputID = money.Zero(r.Amount.Asset()), "", "", ""
	r.Withheld = false
	if r.Network == lightning.Chain {
		r.Network = s.Network
	}
	if replaced {
		return r.advance(ctx, tx, RefundWithdrawn, why)
	}
	// The approval by staff was for the former address.
	if err := approval.RevokeRelease(ctx, tx, r.CompanyID, r.ID); err != nil {
		return err
	}
	r.Amount, r.ExpiresAt = left, tx.Now().Add(RefundLife)
	token := identity.NewLinkToken()
	mailed, err := s.mailOffer(ctx, tx, *r, token)
	if err != nil {
		return err
	}
	if r.MailedTo = mailed; mailed != "" {
		r.mailedDigest = identity.LinkDigest(token)
	}
	return r.advance(ctx, tx, RefundOffered, why)
}

// advance stores a refund's next version, with its history row and its event. It fails if the refund has changed
// since it was read.
func (r *Refund) advance(ctx context.Context, tx *db.Tx, to RefundState, note string) error {
	from := r.State
	r.State = to
	if err := updateRefund(ctx, tx, r, from); err != nil {
		return err
	}
	db.History(tx, r.CompanyID, r.ID, r.Version, string(from), string(to), note)
	return r.emit(tx, webhook.RefundStatusUpdate, from)
}
