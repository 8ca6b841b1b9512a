package claim

import (
	"cmp"
	"context"
	"slices"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/webhook"
)

// A refund of a paid claim returns the merchant's own money, whole or in parts, until the claim's full amount is
// returned. The merchant pays for it at once: its cost is debited from the money that claims earned, or from the
// balance, is exchanged into the coin at the current rate, and is then owed to the payer (2400, per refund). So the
// payer is owed a fixed amount of coins, and neither the operator nor the payer bears the price risk until the payer
// accepts.
//
//	awaiting_approval → offered → accepted → paid
//	   └────────────────┴→ withdrawn: exchanged back at the rate of that time
//
// A refund is offered again if its payout fails finally.

// Source is the origin of the money for a refund of a paid claim.
type Source string

// Sources of refunds.
const (
	FromAny     Source = ""        // the money that claims earned and, for the rest, the balance
	FromClaims  Source = "claims"  // the money that claims earned and that was not settled
	FromBalance Source = "balance" // the available balance
)

// RefundRate decides how a refund in the denomination currency is converted into coins.
type RefundRate string

// Rates of refunds.
const (
	CurrentRate RefundRate = "current" // the payer gets coins of the refund's value today
	PaidRate    RefundRate = "paid"    // the payer gets the corresponding part of the coins that were paid
)

// Errors of refunds of paid claims.
var (
	ErrRefundTooMuch = apierr.New(apierr.Invalid, "amount_too_large",
		"The refunds of a claim cannot exceed the amount that was paid.")
	ErrRefundState = apierr.New(apierr.Conflict, "invalid_state", "The refund's state does not allow this.")
	errNoRefund    = apierr.New(apierr.NotFound, "not_found", "There is no such refund.")
	errRefundPart  = apierr.New(apierr.Invalid, "currency_not_supported",
		"A refund is in the currency of the claim or in the coin that paid it.")
	errRefundCoin = apierr.New(apierr.Invalid, "conversion_unavailable",
		"The service cannot exchange this much at the moment. Refund less, or try again later.")
	errRefundSmall = apierr.New(apierr.Invalid, "amount_too_small",
		"The refund is less than the cost of sending it. Enter a larger amount.")
	errRefundValue = apierr.New(apierr.Invalid, "amount_too_small",
		"The refund is worth less than the smallest unit of the claim's currency. Enter a larger amount.")
)

// PartParams is a request for a refund of a paid claim.
type PartParams struct {
	CompanyID, ClaimID string
	AmountText         string
	Currency           string // denomination or funding currency of the claim
	Rate               RefundRate
	Source             Source
	// Seen is the number of refunds of the claim that the caller has seen, so that a form that is sent twice creates
	// only one refund. 0 disables this check.
	Seen int
}

// OfMerchant reports whether the refund returns the merchant's money, and not money that is already owed to the
// payer.
func (r Refund) OfMerchant() bool { return r.Value.Asset() != "" }

// account returns the dimension of the ledger account that owes the refund.
func (r Refund) account() string {
	if r.OfMerchant() {
		return r.ID
	}
	return r.ClaimID
}

func (r Refund) subject() approval.Subject {
	return approval.Subject{CompanyID: r.CompanyID, ID: r.ID, Creator: r.CreatedBy}
}

// RefundPart refunds a part of a paid claim, or all of it. It returns the token of the payer's link, which is not
// stored. Above the company's approval limit, the link works only after other members have approved the refund.
func (s *Service) RefundPart(ctx context.Context, tx *db.Tx, by identity.Principal, p PartParams) (Refund, string,
	error) {
	if err := approval.LockLimit(ctx, tx, by.CompanyID); err != nil { // locked before the treasury, as for payrolls
		return Refund{}, "", err
	}
	r, err := s.planPart(ctx, tx, by, p, true)
	if err != nil {
		return r, "", err
	}
	token := identity.NewLinkToken()
	r.ID, r.digest = tx.NewID("ref"), identity.LinkDigest(token)
	allowed, err := approval.Allowed(ctx, tx, r.subject(), r.Cost)
	switch {
	case err != nil:
		return r, "", err
	case !allowed:
		r.State = RefundAwaiting
	default:
		if err := approval.Count(ctx, tx, r.subject(), r.Cost); err != nil {
			return r, "", err
		}
	}
	if err := insertRefund(ctx, tx, r); err != nil {
		return r, "", err
	}
	db.History(tx, r.CompanyID, r.ID, r.Version, "", string(r.State), "offered by "+by.ID)
	lines := append(exchange(r.Cost, r.Amount),
		ledger.Debit(ledger.MerchantPayable, "", r.FromClaims), ledger.Debit(ledger.CompanyFunds, "", r.FromBalance),
		ledger.Credit(ledger.RefundPayable, r.ID, r.Amount))
	if err := r.post(tx, "set_aside", lines); err != nil {
		return r, "", err
	}
	if err := r.emit(tx, webhook.RefundCreated, ""); err != nil {
		return r, "", err
	}
	if allowed {
		r.MailedTo, err = s.mailOffer(ctx, tx, r, token)
	}
	return r, token, err
}

// CheckPart returns the refund that RefundPart would create, or its error. It changes nothing.
func (s *Service) CheckPart(ctx context.Context, tx *db.Tx, by identity.Principal, p PartParams) (Refund, error) {
	r, err := s.planPart(ctx, tx, by, p, false)
	if err != nil {
		return r, err
	}
	above, err := approval.AboveLimit(ctx, tx, r.subject(), r.Cost)
	if above {
		r.State = RefundAwaiting
	}
	return r, err
}

// planPart returns a refund of a paid claim without an ID. If locks is set, it locks the claim and the operator's
// funds.
func (s *Service) planPart(ctx context.Context, tx *db.Tx, by identity.Principal, p PartParams, locks bool) (Refund,
	error) {
	companyID, err := by.Company(p.CompanyID)
	if err != nil {
		return Refund{}, err
	}
	company, err := identity.CompanyByID(ctx, tx, companyID)
	if err != nil {
		return Refund{}, err
	}
	if err := company.Active(); err != nil {
		return Refund{}, err
	}
	read := find
	if locks {
		read = lock
	}
	c, err := read(ctx, tx, companyID, p.ClaimID)
	if err != nil {
		return Refund{}, err
	}
	if c.State != Paid || c.booked.merchant.Sign() <= 0 {
		return Refund{}, ErrState.Detailf("Only a paid and confirmed claim can be refunded by amount. This claim is %s.",
			c.State)
	}
	all, err := refunds(ctx, tx, c)
	if err != nil {
		return Refund{}, err
	}
	if p.Seen > 0 && p.Seen != len(all)+1 {
		return Refund{}, ErrRefundState.Detailf(
			"Another refund of this claim was created in the meantime. Check the refunds of the claim, and then try again.")
	}
	r := Refund{CompanyID: companyID, ClaimID: c.ID, State: RefundOffered, Fee: money.Zero(c.Funding), Version: 1,
		CreatedBy: approval.CreatorOf(by), ExpiresAt: tx.Now().Add(RefundLife), CreatedAt: tx.Now()}
	if err := r.size(ctx, tx, c, all, p); err != nil {
		return r, err
	}
	f, err := gather(ctx, tx, c)
	if err != nil {
		return r, err
	}
	r.Network = s.refundNetwork(f, c.Funding)
	fee, err := s.refundFee(ctx, tx, r.Network, c.Funding)
	if err != nil {
		return r, err
	}
	_, overLightning := s.ByLightning(r) // costs less
	if !overLightning && r.Amount.Units()-fee.Units() < leastRefund(c.Funding) {
		least := money.New(c.Funding, fee.Units()+leastRefund(c.Funding))
		return r, errRefundSmall.Detailf("The least refund is now %s %s, because sending it costs %s %s. Enter a larger "+
			"amount.", least, c.Funding, fee, c.Funding).At("body", "/amount")
	}
	if r.Cost, err = s.exchanged(ctx, tx, r.Amount, c.SettleIn, money.Ceil, locks); err != nil {
		return r, err
	}
	return r, r.takeFrom(ctx, tx, p.Source)
}

// size sets the amount that the refund pays to the payer, and the part of the claim's amount that it refunds.
func (r *Refund) size(ctx context.Context, tx *db.Tx, c *Claim, all []Refund, p PartParams) error {
	left, refunded := c.Amount, money.Zero(c.Funding)
	var err error
	for _, other := range all {
		if !other.OfMerchant() || other.State == RefundWithdrawn {
			continue
		}
		if left, err = left.Sub(other.Value); err != nil {
			return err
		}
		if other.Amount.Asset() != c.Funding {
			continue // refunded before a reorganization, when another coin paid the claim
		}
		if refunded, err = refunded.Add(other.Amount); err != nil {
			return err
		}
	}
	paid, err := c.booked.wallet.Sub(c.booked.excess) // coins that paid the claim
	if err != nil {
		return err
	}
	asset := money.Asset(cmp.Or(p.Currency, string(c.Amount.Asset())))
	if asset != c.Amount.Asset() && asset != c.Funding {
		return errRefundPart.At("body", "/currency")
	}
	var list apierr.List
	amount, err := money.Parse(asset, p.AmountText)
	if err == nil && amount.Sign() <= 0 {
		err = money.ErrNotPositive
	}
	if err != nil {
		if err := list.AddErr(err, "/amount"); err != nil {
			return err
		}
		return list.Err()
	}
	tooMuch := ErrRefundTooMuch.Detailf("At most %s %s of this claim can still be refunded.", left, left.Asset()).
		At("body", "/amount")
	switch {
	case asset == c.Funding:
		rest, err := paid.Sub(refunded)
		if err != nil {
			return err
		}
		if amount.Cmp(rest) > 0 {
			return ErrRefundTooMuch.Detailf("At most %s %s of this claim can still be refunded.",
				money.New(asset, max(rest.Units(), 0)), asset).At("body", "/amount")
		}
		r.Amount = amount
		if r.Value, err = valueOfCoins(c.Amount, paid, refunded, amount); err != nil {
			return err
		}
		if r.Value.Sign() <= 0 {
			return errRefundValue.At("body", "/amount")
		}
		if r.Value.Units() == left.Units()+1 { // the parts were rounded
			r.Value = left
		}
	case amount.Cmp(left) > 0:
		return tooMuch
	case p.Rate == PaidRate:
		r.Value = amount
		r.Amount, err = paid.Fraction(amount.Units(), c.Amount.Units(), money.Floor)
	default:
		r.Value = amount
		var rate money.Rate
		if rate, err = rates.Latest(ctx, tx, amount.Asset(), c.Funding); err == nil {
			r.Amount, err = rate.Convert(amount, money.Floor)
		}
	}
	if err == nil && r.Value.Cmp(left) > 0 {
		err = tooMuch
	}
	return err
}

// valueOfCoins returns the part of a claim's amount that is refunded by some of the coins that paid it, after other
// coins were refunded. Independent of rounding, the parts of all coins add up to the whole amount.
func valueOfCoins(total, paid, refunded, coins money.Amount) (money.Amount, error) {
	sum, err := refunded.Add(coins)
	if err != nil {
		return total, err
	}
	before, err := total.Fraction(refunded.Units(), paid.Units(), money.HalfEven)
	if err != nil {
		return total, err
	}
	after, err := total.Fraction(sum.Units(), paid.Units(), money.HalfEven)
	if err != nil {
		return total, err
	}
	return after.Sub(before)
}

// exchanged returns the value of coins in an asset for a merchant, at the current rate with the spread at the
// merchant's expense. rounding is money.Ceil for an amount that the merchant pays, and money.Floor for an amount that
// the merchant gets. It returns an error while the operator cannot make the exchange.
func (s *Service) exchanged(ctx context.Context, tx *db.Tx, coins money.Amount, asset money.Asset,
	rounding money.Rounding, locks bool) (money.Amount, error) {
	if asset == coins.Asset() {
		return coins, nil
	}
	pays := rounding == money.Ceil
	rate, err := s.exchangeRate(ctx, tx, coins.Asset(), asset, pays)
	if err != nil {
		return coins, err
	}
	amount, err := rate.Convert(coins, rounding)
	if err != nil {
		return coins, err
	}
	sold := amount
	if pays {
		sold = coins
	}
	capacityOf := s.Treasury.Capacity
	if locks {
		capacityOf = s.Treasury.LockCapacity
	}
	capacity, err := capacityOf(ctx, tx, sold.Asset())
	if err != nil {
		return amount, err
	}
	if ok, err := capacity.Use(sold); err != nil {
		return amount, err
	} else if !ok {
		return amount, errRefundCoin.At("body", "/amount")
	}
	return amount, nil
}

// exchangeRate returns the current price of one asset in another, with the spread at the merchant's expense.
func (s *Service) exchangeRate(ctx context.Context, tx *db.Tx, from, to money.Asset, pays bool) (money.Rate, error) {
	rate, err := rates.Latest(ctx, tx, from, to)
	if err != nil {
		return rate, err
	}
	return rate.WithSpread(s.SpreadBps, pays)
}

// takeFrom divides the cost of the refund between the money that claims earned and the company's balance.
func (r *Refund) takeFrom(ctx context.Context, tx *db.Tx, from Source) error {
	if err := ledger.CheckNoDebt(ctx, tx, r.CompanyID); err != nil {
		return err
	}
	asset := r.Cost.Asset()
	claims, err := ledger.Balance(ctx, tx, r.CompanyID, ledger.MerchantPayable, "", asset)
	if err != nil {
		return err
	}
	balance, err := ledger.Balance(ctx, tx, r.CompanyID, ledger.CompanyFunds, "", asset)
	if err != nil {
		return err
	}
	switch from {
	case FromClaims:
		balance = money.Zero(asset)
	case FromBalance:
		claims = money.Zero(asset)
	case FromAny:
	}
	r.FromClaims = smaller(r.Cost, claims)
	if r.FromBalance, err = r.Cost.Sub(r.FromClaims); err != nil {
		return err
	}
	if r.FromBalance.Cmp(balance) > 0 {
		has, err := claims.Add(balance)
		if err != nil {
			return err
		}
		return ErrNoBalance.Detailf("The refund costs %s %s, and %s %s is available.", r.Cost, asset, has, asset).
			At("body", "/amount")
	}
	return nil
}

// exchange returns the lines that sell one amount to the operator for another. It returns none if both have the same
// asset.
func exchange(from, to money.Amount) []ledger.Line {
	if from.Asset() == to.Asset() {
		return nil
	}
	return []ledger.Line{ledger.Credit(ledger.FXPosition, "", from), ledger.Debit(ledger.FXPosition, "", to)}
}

func (r *Refund) post(tx *db.Tx, purpose string, lines []ledger.Line) error {
	return ledger.Post(tx, ledger.Journal{
		CompanyID: r.CompanyID, SourceType: "refund", SourceID: r.ID, Purpose: purpose, Lines: lines,
	})
}

// ofRefund locks a claim and returns one of its refunds.
func ofRefund(ctx context.Context, tx *db.Tx, companyID, claimID, refundID string) (*Refund, error) {
	c, err := lock(ctx, tx, companyID, claimID)
	if err != nil {
		return nil, err
	}
	all, err := refunds(ctx, tx, c)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(r Refund) bool { return r.ID == refundID })
	if i < 0 {
		return nil, errNoRefund
	}
	return &all[i], nil
}

// ApproveRefund records a member's approval of a refund that waits for approval, and offers the refund to the payer
// once it has enough approvals. The caller must check that the member has just used a second factor.
func (s *Service) ApproveRefund(ctx context.Context, tx *db.Tx, by identity.Principal, claimID, refundID string) error {
	r, err := awaiting(ctx, tx, by, claimID, refundID)
	if err != nil {
		return err
	}
	first, err := approval.Give(ctx, tx, by, r.subject())
	if err != nil || !first {
		return err
	}
	progress, err := approval.ProgressOf(ctx, tx, r.subject())
	if err != nil || !progress.Complete() {
		return err
	}
	r.ExpiresAt = tx.Now().Add(RefundLife)
	// The link that was returned when the refund was created is not stored, so the payer is mailed a new link.
	token := identity.NewLinkToken()
	if r.MailedTo, err = s.mailOffer(ctx, tx, *r, token); err != nil {
		return err
	}
	if r.MailedTo != "" {
		r.mailedDigest = identity.LinkDigest(token)
	}
	return r.advance(ctx, tx, RefundOffered, "")
}

// DeclineRefund withdraws a refund that waits for approval.
func (s *Service) DeclineRefund(ctx context.Context, tx *db.Tx, by identity.Principal, claimID, refundID string) error {
	r, err := awaiting(ctx, tx, by, claimID, refundID)
	if err != nil {
		return err
	}
	return s.withdraw(ctx, tx, r)
}

// awaiting returns a refund that waits for approval. It checks that the member may approve payments.
func awaiting(ctx context.Context, tx *db.Tx, by identity.Principal, claimID, refundID string) (*Refund, error) {
	if _, err := approval.Administrators(ctx, tx, by); err != nil {
		return nil, err
	}
	r, err := ofRefund(ctx, tx, by.CompanyID, claimID, refundID)
	if err == nil && r.State != RefundAwaiting {
		err = ErrRefundState
	}
	return r, err
}

// CancelRefund withdraws a refund of a paid claim that the payer has not accepted. Canceling a refund twice has no
// effect.
func (s *Service) CancelRefund(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, claimID,
	refundID string) (Refund, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return Refund{}, err
	}
	r, err := ofRefund(ctx, tx, company, claimID, refundID)
	if err != nil {
		return Refund{}, err
	}
	switch {
	case !r.OfMerchant():
		return *r, ErrRefundState.Detailf("This money is the payer's, so the offer cannot be canceled.")
	case r.State == RefundWithdrawn:
		return *r, nil
	case r.State != RefundOffered && r.State != RefundAwaiting:
		return *r, ErrRefundState.Detailf("The payer has accepted this refund. It cannot be canceled.")
	}
	return *r, s.withdraw(ctx, tx, r)
}

// withdraw ends a refund of a paid claim. Its coins are exchanged back at the current rate, and the money returns to
// its source.
func (s *Service) withdraw(ctx context.Context, tx *db.Tx, r *Refund) error {
	returned, err := s.exchanged(ctx, tx, r.Amount, r.Cost.Asset(), money.Floor, true)
	if err != nil {
		return err
	}
	if err := r.advance(ctx, tx, RefundWithdrawn, ""); err != nil {
		return err
	}
	if err := approval.Uncount(ctx, tx, r.subject()); err != nil {
		return err
	}
	claims := smaller(returned, r.FromClaims)
	balance, err := returned.Sub(claims)
	if err != nil {
		return err
	}
	return r.post(tx, "give_back", append(exchange(r.Amount, returned),
		ledger.Debit(ledger.RefundPayable, r.ID, r.Amount),
		ledger.Credit(ledger.MerchantPayable, "", claims), ledger.Credit(ledger.CompanyFunds, "", balance)))
}

// Approvals returns the progress of the approvals of a refund.
func (r Refund) Approvals(ctx context.Context, tx *db.Tx) (approval.Progress, error) {
	return approval.ProgressOf(ctx, tx, r.subject())
}

// AwaitingApproval returns refunds of the principal's company that wait for approval, oldest first.
func AwaitingApproval(ctx context.Context, tx *db.Tx, by identity.Principal, limit int) ([]Refund, error) {
	return selectRefunds(ctx, tx, "company_id = $1 AND state = 'awaiting_approval' ORDER BY refund_id LIMIT $2",
		by.CompanyID, int64(limit))
}
