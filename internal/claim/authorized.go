package claim

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/network"
	"github.com/stipend/stipend/internal/db"
	evmrail "github.com/stipend/stipend/internal/payout/evm"
	"github.com/stipend/stipend/internal/receivable/deposit"
)

// A payer can pay a claim by an authorization (EIP-3009): a signature that permits one transfer of exactly the amount
// due to the claim's address. The operator sends the transfer and pays its gas. The money arrives as a normal
// deposit, and only the deposit pays the claim. So the transfer counts even if somebody else sends it.

// minTimeLeft is the remaining validity that a price must have to be offered for authorizations. The payer must sign,
// and the transfer must be seen, before the price ends.
const minTimeLeft = 45 * time.Second

// settleMargin is the time before the end of a price in which no transfer is sent for it any more. A transfer that is
// seen after the end is late and does not pay the claim.
const settleMargin = 30 * time.Second

// maxCollections is the largest number of transfers that are signed for a claim, because each failed transfer can
// cost gas. Package httpapi limits the authorizations that are refused earlier.
const maxCollections = 10

// Term is one way to pay a claim by an authorization, for exactly the amount of the offer, to the address of its
// quote.
type Term struct {
	Offer
	On      evm.Network
	Token   network.Token
	Timeout time.Duration // time until the price ends
}

// Charge is a claim as shown to a payer who may authorize its payment.
type Charge struct {
	Checkout
	Terms       []Term // empty if the claim cannot be paid by an authorization now
	Collections []evmrail.Collection
}

// Errors of authorized payments.
var (
	errNoTerms = apierr.New(apierr.Conflict, "invalid_state",
		"This payment request takes no authorized payments. Pay it on its checkout page.")
	// ErrCollecting is returned while another authorized payment of the claim is being processed.
	ErrCollecting = apierr.New(apierr.Conflict, "already_processing",
		"Another authorized payment of this claim is on its way. Request the claim again in a few seconds.")
	// ErrPriceEnded is returned for a claim whose price has ended, and for which [Service.Renew] may create a new price.
	ErrPriceEnded = apierr.New(apierr.Conflict, "invalid_state", "The price of this payment request has ended.")

	errEnding = apierr.New(apierr.Conflict, "invalid_state",
		"The price of this payment request is about to end. Request it again in a minute.").Set("retry_after", "60")
)

// Refusal is the reason why an authorization does not pay a claim. The codes are defined by x402.
type Refusal struct{ Code, Detail string }

func (r *Refusal) Error() string { return "claim: authorization refused: " + r.Code }

// Authorizable reports whether claims with a funding currency, which may be [AnyAsset], can be paid by
// authorizations.
func (s *Service) Authorizable(funding string) bool {
	return slices.ContainsFunc(s.Accounts.Networks, func(n chain.EVMNetwork) bool {
		return slices.ContainsFunc(n.Spec.Tokens, func(t network.Token) bool {
			return t.Domain.Name != "" && (funding == AnyAsset || funding == string(t.Asset))
		})
	})
}

// PaymentURL returns the URL at which a claim or payment link is paid with x402.
func (s *Service) PaymentURL(id string) string { return s.BaseURL + "/api/x402/" + id }

// X402URL returns the URL at which the claim is paid with x402, or "" if it cannot be.
func (s *Service) X402URL(c *Claim) string {
	if slices.ContainsFunc(c.Offers, s.authorizable) {
		return s.PaymentURL(c.ID)
	}
	return ""
}

// Charge reads a claim for a payer, who knows only its ID. It does not change the claim.
func (s *Service) Charge(ctx context.Context, tx *db.Tx, claimID string) (Charge, error) {
	open, err := s.Checkout(ctx, tx, claimID)
	if err != nil {
		return Charge{}, err
	}
	c := Charge{Checkout: open, Terms: s.terms(&open.Claim, tx.Now())}
	c.Collections, err = evmrail.CollectionsOf(ctx, tx, open.CompanyID, open.ID)
	return c, err
}

// Request returns a claim with the terms under which an authorization can pay it. A claim that is paid or confirming
// has no terms. For any other claim without terms, Request returns an error: ErrPriceEnded if the claim's price has
// ended.
func (s *Service) Request(ctx context.Context, tx *db.Tx, claimID string) (Charge, error) {
	c, err := s.Charge(ctx, tx, claimID)
	switch {
	case err != nil || len(c.Terms) > 0 || c.State == Paid || c.State == Confirming:
		return c, err
	case (c.State == Expired || c.State == Underpaid) && !c.Refunding && s.Authorizable(AnyAsset):
		return c, ErrPriceEnded
	case c.Waits() && slices.ContainsFunc(c.Offers, s.authorizable):
		return c, errEnding
	case c.Waits():
		return c, errNoTerms
	}
	return c, ErrState.Detailf("A claim that is %s cannot be paid.", c.State)
}

// authorizable reports whether an offer can be paid by an authorization, apart from the remaining time of its price.
func (s *Service) authorizable(o Offer) bool {
	_, ok := s.term(o, o.Quote.ValidFrom)
	return ok
}

func (s *Service) terms(c *Claim, now time.Time) (all []Term) {
	for _, o := range c.Offers {
		if t, ok := s.term(o, now); ok {
			all = append(all, t)
		}
	}
	return all
}

// term returns the terms of an offer, or false if an authorization cannot pay the offer now.
func (s *Service) term(o Offer, now time.Time) (Term, bool) {
	n, ok := s.Accounts.Lookup(o.Network)
	if !ok {
		return Term{}, false
	}
	on := evm.Network{Network: n.Spec}
	token, ok := on.Authorizable(o.Amount.Asset())
	left := o.Quote.ValidTo.Sub(now)
	return Term{Offer: o, On: on, Token: token, Timeout: left.Truncate(time.Second)},
		ok && left >= minTimeLeft && o.Amount.Units() >= on.MinAuthorized
}

// Authorize accepts an authorization as the payment of a claim. A repeated call with the same authorization has no
// effect. chainID, contract and value state what the payer claims to pay with. The error is a *Refusal if the
// authorization does not meet the claim's terms.
func (s *Service) Authorize(ctx context.Context, tx *db.Tx, claimID string, chainID uint64, contract evm.Address,
	value string, a evm.Authorization,
) error {
	c, err := lockAny(ctx, tx, claimID)
	if err != nil {
		return err
	}
	all, err := evmrail.CollectionsOf(ctx, tx, c.CompanyID, c.ID)
	if err != nil {
		return err
	}
	f, err := gather(ctx, tx, c)
	if err != nil {
		return err
	}
	signed := 0
	for _, known := range all {
		if known.From == a.From && known.Nonce == a.Nonce {
			if known.Signature == a.Signature {
				return nil
			}
			return &Refusal{"invalid_payload", "The nonce was used before. Sign with another one."}
		}
		state, err := known.State(ctx, tx)
		if err != nil {
			return err
		}
		if state.Open() {
			return ErrCollecting
		}
		if state.Done && !slices.ContainsFunc(f.deposits, func(d deposit.Deposit) bool {
			return d.Chain == known.Chain && d.TxID == state.TxID
		}) {
			return nil // the deposit is about to be counted
		}
		if known.BatchID != "" {
			signed++
		}
	}
	if signed >= maxCollections {
		return errNoTerms
	}
	if err := s.show(ctx, tx, f); err != nil || c.State == Paid || c.State == Confirming {
		return err
	}
	t, err := s.accepts(c, tx.Now(), chainID, contract, value, &a)
	if err != nil {
		return err
	}
	return evmrail.Collect(ctx, tx, t.On, c.CompanyID, c.ID, a, t.Quote.ValidTo.Add(-settleMargin))
}

// Due locks the claim of an authorized transfer. It reports whether the claim can still be paid by exactly this
// amount at this address, until the time for which the transfer was accepted.
func (s *Service) Due(ctx context.Context, tx *db.Tx, transfer evmrail.Collection) (bool, error) {
	c, err := lock(ctx, tx, transfer.CompanyID, transfer.ObjectID)
	if err != nil {
		return false, err
	}
	f, err := gather(ctx, tx, c)
	if err == nil {
		err = s.show(ctx, tx, f)
	}
	return slices.ContainsFunc(c.Offers, func(o Offer) bool {
		return o.Network == transfer.Chain && o.Quote.Address == transfer.To.String() && o.Amount == transfer.Amount &&
			!transfer.SendBefore.After(o.Quote.ValidTo.Add(-settleMargin))
	}), err
}

// accepts returns the terms that an authorization meets, and sets the authorization's amount. The error is a *Refusal
// if it meets none.
func (s *Service) accepts(c *Claim, now time.Time, chainID uint64, contract evm.Address, value string,
	a *evm.Authorization,
) (Term, error) {
	terms := s.terms(c, now)
	at := slices.IndexFunc(terms, func(t Term) bool { return t.On.ChainID == chainID })
	if at < 0 {
		return Term{}, &Refusal{"invalid_network", "The claim is not paid on this network."}
	}
	at = slices.IndexFunc(terms, func(t Term) bool {
		return t.On.ChainID == chainID && t.Token.Contract == contract.String()
	})
	if at < 0 {
		return Term{}, &Refusal{"invalid_payment_requirements", "The claim is not paid in this asset."}
	}
	t := terms[at]
	a.Amount = t.Amount
	switch {
	case a.To.String() != t.Quote.Address:
		return t, &Refusal{"invalid_exact_evm_payload_recipient_mismatch", "The recipient is not the claim's address."}
	case value != strconv.FormatInt(t.Amount.Units(), 10):
		return t, &Refusal{"invalid_exact_evm_payload_authorization_value_mismatch", "The amount is not the amount due."}
	case a.ValidAfter >= now.Unix():
		return t, &Refusal{"invalid_exact_evm_payload_authorization_valid_after", "The authorization is not valid yet."}
	case a.ValidBefore <= now.Add(evmrail.SettleTime).Unix():
		return t, &Refusal{"invalid_exact_evm_payload_authorization_valid_before",
			"The authorization has expired, or is about to."}
	}
	err := t.On.Verify(*a)
	if errors.Is(err, evm.ErrSignature) {
		return t, &Refusal{"invalid_exact_evm_payload_signature", "The payer did not sign the authorization."}
	}
	return t, err
}
