package claim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/offering"
	"github.com/stipend/stipend/internal/receivable"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// A claim has a quote in each asset that it accepts. The first asset whose payments cover the claim pays it; the
// quotes in the other assets are then locked too, and continue if that payment disappears. An asset has one address
// on all networks that carry it.

// AnyAsset is the funding currency of a claim that accepts every asset in which the service can receive claims'
// payments.
const AnyAsset = "any"

// SettleInCoin is the settlement currency of a merchant who keeps each payment in the coin of the payment.
const SettleInCoin = "coin"

// acceptable lists the assets that claims accept, in the order in which a checkout offers them.
var acceptable = []money.Asset{money.BTC, money.USDC, money.USDT}

// Offer is a way to pay the unpaid rest of a claim now.
type Offer struct {
	Quote   quote.Quote
	Network string       // network of the payment, or lightning.Chain for Lightning
	Amount  money.Amount // rest of the claim's amount, at the rate of the quote
	URI     string       // link for wallets (BIP 321 or EIP-681)
	Invoice string       // Lightning invoice for the same amount, part of URI; "" for none
}

// Key identifies the offer among the offers of the claim, such as "USDC-base".
func (o Offer) Key() string { return string(o.Amount.Asset()) + "-" + o.Network }

// Lightning reports whether the offer can only be paid over Lightning.
func (o Offer) Lightning() bool { return o.Network == lightning.Chain }

// holding is the money of a claim in one asset.
type holding struct {
	booked   position
	refunded money.Amount // see Claim.Refunded
	returned money.Amount // see Claim.Returned
}

func (h holding) equal(o holding) bool {
	return h.booked.equal(o.booked) && h.refunded == o.refunded && h.returned == o.returned
}

// holding returns the claim's money in an asset.
func (c *Claim) holding(asset money.Asset) holding {
	if asset == c.Funding {
		return holding{c.booked, c.Refunded, c.Returned}
	}
	if h, ok := c.others[asset]; ok {
		return h
	}
	return holding{nothing(asset, c.settlesIn(asset)), money.Zero(asset), money.Zero(asset)}
}

// hold sets the claim's money in an asset.
func (c *Claim) hold(asset money.Asset, h holding) {
	if asset == c.Funding {
		c.booked, c.Refunded, c.Returned = h.booked, h.refunded, h.returned
		return
	}
	if !c.holding(asset).equal(h) {
		others := maps.Clone(c.others)
		others[asset] = h
		c.others = others
	}
}

// fund sets the asset that pays the claim.
func (c *Claim) fund(asset money.Asset) {
	if asset == c.Funding {
		return
	}
	before, was, now := c.Funding, c.holding(c.Funding), c.holding(asset)
	c.others = maps.Clone(c.others)
	delete(c.others, asset)
	c.Funding, c.SettleIn, c.Seen = asset, c.settlesIn(asset), money.Zero(asset)
	c.hold(asset, now)
	c.hold(before, was)
}

// settlesIn returns the asset that is credited to the merchant if the given asset pays the claim.
func (c *Claim) settlesIn(asset money.Asset) money.Asset {
	if c.settlement == SettleInCoin || c.settlement == string(asset) {
		return asset
	}
	return c.Amount.Asset()
}

// OtherRefundable returns the amounts owed to the payer in assets other than Funding. It is set only if the claim was
// read together with its payments.
func (c *Claim) OtherRefundable() (all []money.Amount) {
	for _, asset := range acceptable {
		if asset != c.Funding {
			if left := c.holding(asset).refundable(); left.Sign() > 0 {
				all = append(all, left)
			}
		}
	}
	return all
}

// refundable returns the part of the excess that was not refunded yet.
func (h holding) refundable() money.Amount {
	left, err := h.booked.excess.Sub(h.refunded)
	if err != nil || left.Sign() < 0 { // a reorganization removed money that was already refunded
		return money.Zero(h.refunded.Asset())
	}
	return left
}

// accepted returns the assets in which the claim has quotes, in the order of acceptable.
func (f *facts) accepted() (all []money.Asset) {
	for _, asset := range acceptable {
		if f.assets[asset] != nil {
			all = append(all, asset)
		}
	}
	return all
}

// paying returns the asset that pays the claim: the first asset that covers it or, if none does, the asset that comes
// closest. If several are equal, the asset that has paid the claim so far stays.
func paying(all map[money.Asset]receivable.Verdict, now money.Asset) (best money.Asset) {
	most := -1
	for _, asset := range acceptable {
		t, ok := all[asset]
		if !ok {
			continue
		}
		n := 0
		switch {
		case t.Covered:
			n = 4
		case t.Enough:
			n = 3
		case t.Held.Sign() > 0:
			n = 2
		case t.AnyCounts:
			n = 1
		}
		if n > most || n == most && n > 0 && asset == now {
			best, most = asset, n
		}
	}
	return best
}

// keepQuotes locks the newest quotes while the deposits seen cover the claim, and reopens them when they no longer
// do.
func (f *facts) keepQuotes(ctx context.Context, tx *db.Tx, enough bool) error {
	for _, asset := range f.accepted() {
		one := f.assets[asset]
		if enough && asset != f.c.Funding && one.Newest().State != quote.StateActive {
			continue // only the asset that pays the claim may have been paid in time but reported late
		}
		if err := one.KeepQuote(ctx, tx, enough); err != nil {
			return err
		}
	}
	return nil
}

// rebook sets the claim's positions, and returns the lines that change the ledger accordingly.
func (c *Claim) rebook(ctx context.Context, tx *db.Tx, books map[money.Asset]position) (lines []ledger.Line,
	err error) {
	for _, asset := range slices.Sorted(maps.Keys(books)) {
		h := c.holding(asset)
		funds, refunds := money.Zero(c.settlesIn(asset)), money.Zero(asset)
		if h.booked.merchant.Sign() > 0 {
			if funds, err = ledger.Balance(ctx, tx, c.CompanyID, ledger.MerchantPayable, "", funds.Asset()); err != nil {
				return nil, err
			}
		}
		if h.booked.excess.Sign() > 0 {
			if refunds, err = ledger.Balance(ctx, tx, c.CompanyID, ledger.RefundPayable, c.ID, asset); err != nil {
				return nil, err
			}
		}
		var more []ledger.Line
		if more, h.booked, err = c.postings(h.booked, books[asset], funds, refunds); err != nil {
			return nil, err
		}
		c.hold(asset, h)
		lines = append(lines, more...)
	}
	return lines, nil
}

// checkWatched returns an error unless every network that carries an asset is watched now and was watched up to a
// time.
func (s *Service) checkWatched(ctx context.Context, tx *db.Tx, asset money.Asset, until time.Time) error {
	for _, name := range s.networksOf(asset) {
		if err := s.guards.CheckWatched(ctx, tx, name, until); err != nil {
			return err
		}
	}
	return nil
}

// networksOf returns the networks on which an asset can be paid, or none if the service does not receive the asset.
func (s *Service) networksOf(asset money.Asset) []string {
	if asset == money.BTC {
		return []string{s.Network}
	}
	return s.Accounts.Carrying(asset)
}

// Accepts returns the assets in which claims can be paid.
func (s *Service) Accepts() (all []money.Asset) {
	for _, asset := range acceptable {
		if len(s.networksOf(asset)) > 0 {
			all = append(all, asset)
		}
	}
	return all
}

// price creates the quotes of a new claim, and sets its asset, addresses and offers. If the claim accepts any asset,
// price leaves out the assets that cannot be quoted now.
func (s *Service) price(ctx context.Context, tx *db.Tx, c *Claim, funding string) error {
	wanted := []money.Asset{money.BTC}
	switch funding {
	case "":
	case AnyAsset:
		wanted = acceptable
	default:
		wanted = []money.Asset{money.Asset(funding)}
	}
	var first error
	evm := ""
	for _, asset := range wanted {
		q, err := s.firstQuote(ctx, tx, c, asset, &evm)
		if f, isFault := apierr.As(err); isFault && first == nil {
			if first = err; errors.Is(err, quote.ErrTooSmall) || errors.Is(err, money.ErrTooLarge) {
				first = f.At("body", "/amount")
			}
		} else if err != nil && !isFault {
			return err
		}
		if err != nil {
			continue
		}
		if c.Quote == nil {
			c.Funding, c.SettleIn, c.Address, c.Network = asset, c.settlesIn(asset), q.Address, q.Network
			c.booked = nothing(asset, c.SettleIn)
			c.Seen, c.Refunded, c.Returned = money.Zero(asset), money.Zero(asset), money.Zero(asset)
			c.Quote, c.Payable = &q, true
		}
		c.Offers = append(c.Offers, s.offersOf(q, q.Funding, "")...)
	}
	if c.Quote == nil {
		return first
	}
	return nil
}

// firstQuote creates the first quote of a claim in an asset. All assets on EVM networks share one address, which
// firstQuote assigns when needed and stores in evm.
func (s *Service) firstQuote(ctx context.Context, tx *db.Tx, c *Claim, asset money.Asset, evm *string) (quote.Quote,
	error) {
	on := s.networksOf(asset)
	if len(on) == 0 {
		return quote.Quote{}, errFunding.At("body", "/funding_currency")
	}
	if err := s.checkWatched(ctx, tx, asset, time.Time{}); err != nil {
		return quote.Quote{}, err
	}
	if err := offering.Check(ctx, tx, asset); err != nil {
		return quote.Quote{}, err
	}
	if _, _, err := quote.Price(ctx, tx, c.Amount, asset, s.SpreadBps); err != nil {
		return quote.Quote{}, err
	}
	address, err := *evm, error(nil)
	switch {
	case asset == money.BTC:
		address, err = s.Pool.NewAddress(ctx, tx, c.CompanyID, c.ID)
	case address == "":
		address, err = s.Accounts.Pool.NewAddress(ctx, tx, c.CompanyID, c.ID)
		*evm = address
	}
	if err != nil {
		return quote.Quote{}, err
	}
	return quote.Make(ctx, tx, s.params(c, c.Amount, asset, address, on[0], tx.Now()))
}

// offersOf returns the ways to pay an amount under a quote, one for each network that carries its asset.
func (s *Service) offersOf(q quote.Quote, amount money.Amount, invoice string) (all []Offer) {
	if amount.Asset() == money.BTC {
		link := "bitcoin:" + q.Address + "?amount=" + amount.String()
		if invoice == "" {
			return []Offer{{Quote: q, Network: q.Network, Amount: amount, URI: link}}
		}
		return []Offer{
			{Quote: q, Network: q.Network, Amount: amount, URI: link + "&lightning=" + url.QueryEscape(invoice),
				Invoice: invoice},
			{Quote: q, Network: lightning.Chain, Amount: amount, URI: "lightning:" + invoice, Invoice: invoice},
		}
	}
	for _, name := range s.networksOf(amount.Asset()) {
		if n, ok := s.Accounts.Lookup(name); ok {
			all = append(all, Offer{Quote: q, Network: name, Amount: amount, URI: n.URI(q.Address, amount)})
		}
	}
	return all
}

// WalletCall is the transaction with which a wallet in the payer's browser pays an offer, in the hexadecimal form
// that such wallets expect (EIP-1193).
type WalletCall struct{ ChainID, To, Data string }

// WalletCall returns the transaction that pays an offer in a token. ok is false for any other offer, and for an offer
// on a simulated network, which wallets cannot reach.
func (s *Service) WalletCall(o Offer) (w WalletCall, ok bool, err error) {
	n, ok := s.Accounts.Lookup(o.Network)
	if !ok || n.Simulated {
		return w, false, nil
	}
	to, err := evm.ParseAddress(o.Quote.Address)
	if err != nil {
		return w, false, err
	}
	call, err := evm.Network{Network: n.Spec}.TransferCall(to, o.Amount)
	if err != nil {
		return w, false, err
	}
	return WalletCall{ChainID: fmt.Sprintf("%#x", n.Spec.ChainID), To: call.To.String(),
		Data: fmt.Sprintf("%#x", call.Data)}, true, nil
}

// offers returns the ways to pay the rest of the claim now. Once an asset has paid a part, only that asset can pay
// the rest.
func (s *Service) offers(f *facts, invoice string) (all []Offer, err error) {
	for _, asset := range f.accepted() {
		q := f.in(asset).Newest()
		if f.c.State != AwaitingPayment && (f.c.State != PartiallyPaid || asset != f.c.Funding) ||
			q.State != quote.StateActive || !f.now.Before(q.ValidTo) {
			continue
		}
		t, err := f.in(asset).Evaluate()
		if err != nil {
			return nil, err
		}
		if t.Room.Sign() > 0 {
			if asset != money.BTC {
				invoice = ""
			}
			all = append(all, s.offersOf(q, t.Room, invoice)...)
		}
	}
	return all, nil
}
