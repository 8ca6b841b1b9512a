package sandbox

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/sandbox/lightningsim"
	"github.com/stipend/stipend/internal/wallet"
)

// Kinds of deposits that the sandbox can simulate. "Due" is the amount that remains to be paid.
const (
	depositExact    = "exact"    // pays the amount due
	depositUnder    = "under"    // pays 10 % less than the amount due
	depositOver     = "over"     // pays 10 % more than the amount due
	depositLate     = "late"     // pays the amount due one second after the quote expires; advances the clock
	depositReplaced = "replaced" // pays the amount due, then replaces the payment by one that pays nothing
	// depositReorged pays the amount due in a block that is then reorganized away; later blocks include the payment
	// again. If the payment is a bank transfer, the bank reverses it.
	depositReorged = "reorged"
)

var (
	errKind = apierr.New(apierr.Invalid, "invalid_parameter",
		"kind is one of exact, under, over, late, replaced, reorged.").At("body", "/kind")
	errNotOnChain = apierr.New(apierr.Conflict, "invalid_state",
		"This payroll has no quote to pay: it is not funded on a blockchain.")
	errNothingDue = apierr.New(apierr.Conflict, "invalid_state",
		"It is already paid in full. Give an amount to pay more.")
	errTimeout = apierr.New(apierr.Unavailable, "retry_later",
		"The chain did not show the payment in time. Check again later; it may still arrive.")
	errMined = apierr.New(apierr.Conflict, "invalid_state",
		"The payment was mined before it could be replaced. Try again.")
	errInvoiceKind = apierr.New(apierr.Invalid, "invalid_parameter",
		"A Lightning payment is exact or over: wallets pay no less, and not late.").At("body", "/kind")
	errInvoiceAmount = apierr.New(apierr.Invalid, "invalid_parameter",
		"A Lightning payment is at least the amount of the invoice.").At("body", "/amount")
	errTransferKind = apierr.New(apierr.Invalid, "invalid_parameter",
		"A bank transfer is exact, under, over or reorged. Move the clock for a late one.").At("body", "/kind")
	errNoAddress = apierr.New(apierr.Conflict, "invalid_state",
		"This wallet has no address: it is not active, or not in a cryptocurrency.")
	errCurrency = apierr.New(apierr.Invalid, "invalid_parameter",
		"The claim is not paid in this currency.").At("body", "/currency")
	errClaimNetwork = apierr.New(apierr.Invalid, "invalid_parameter",
		"The claim's currency is not paid on this network.").At("body", "/network")
	errNetwork = apierr.New(apierr.Invalid, "invalid_parameter",
		"The wallet has no address on this network.").At("body", "/network")
	errAmountMissing = apierr.New(apierr.Invalid, "missing_field", "A deposit to a wallet needs an amount.").At("body",
		"/amount")
	errAmountZero = apierr.New(apierr.Invalid, "amount_not_positive", "The amount must be more than 0.").At("body",
		"/amount")
	errWalletLate = apierr.New(apierr.Invalid, "invalid_parameter", "A deposit to a wallet cannot be late.").At("body",
		"/kind")
)

// payable is a payroll, claim or wallet that can receive a deposit.
type payable struct {
	id, companyID string
	address       string
	network       string
	asset         money.Asset
	quote         *quote.Quote      // quote to pay; nil for a wallet
	transfer      *payroll.Transfer // expected bank transfer; nil for a payment on a chain
}

func quoted(id, companyID, address string, q *quote.Quote) payable {
	p := payable{id: id, companyID: companyID, address: address, quote: q}
	if q != nil {
		p.network, p.asset = q.Network, q.Funding.Asset()
	}
	return p
}

// find returns the object to pay. currency and network select one of the ways to pay a claim, and network selects the
// address of a wallet; "" selects the first one.
func (s *Sandbox) find(ctx context.Context, tx *db.Tx, by identity.Principal, id, currency, network string) (payable,
	error) {
	switch {
	case strings.HasPrefix(id, "clm_"):
		return s.findClaim(ctx, tx, by, id, currency, network)
	case strings.HasPrefix(id, "wal_"):
		return s.findWallet(ctx, tx, by, id, network)
	}
	p, err := s.o.Payroll.Head(ctx, tx, by, id)
	if err != nil {
		return payable{}, err
	}
	found := quoted(p.ID, p.CompanyID, p.Address, p.Quote)
	if t, ok, err := s.o.Payroll.Transfer(&p); err != nil || ok {
		found.transfer, found.asset = &t, t.Amount.Asset()
		return found, err
	}
	return found, nil
}

// findClaim returns a claim with its newest quote in a currency. It also returns a claim that cannot be paid now,
// because such a claim can still receive a deposit.
func (s *Sandbox) findClaim(ctx context.Context, tx *db.Tx, by identity.Principal, id, currency,
	network string) (payable, error) {
	c, err := s.o.Claims.Get(ctx, tx, by, "", id)
	if err != nil {
		return payable{}, err
	}
	asset := c.Funding
	if currency != "" {
		asset = money.Asset(currency)
	}
	q, err := quote.Last(ctx, tx, c.CompanyID, c.ID, asset)
	if errors.Is(err, quote.ErrNotFound) {
		err = errCurrency
	}
	if err != nil {
		return payable{}, err
	}
	p := quoted(c.ID, c.CompanyID, q.Address, &q)
	if network != "" {
		p.network = network
		if on := s.o.Accounts.Carrying(asset); network != q.Network && !slices.Contains(on, network) {
			return payable{}, errClaimNetwork
		}
	}
	return p, nil
}

func (s *Sandbox) findWallet(ctx context.Context, tx *db.Tx, by identity.Principal, id,
	network string) (payable, error) {
	w, err := wallet.Get(ctx, tx, by, id)
	if err != nil {
		return payable{}, err
	}
	networks := wallet.Networks(w.Currency, s.o.BitcoinNetwork, s.o.Accounts)
	if w.Address == "" || len(networks) == 0 {
		return payable{}, errNoAddress
	}
	if network == "" {
		network = networks[0]
	}
	if !slices.Contains(networks, network) {
		return payable{}, errNetwork
	}
	return payable{id: w.ID, companyID: w.CompanyID, address: w.Address, network: network, asset: w.Currency}, nil
}

// Deposit pays a payroll, claim or wallet of the principal's company, and returns the transaction ID or the bank's
// reference. kind selects the amount and what happens to the payment; if amount is not empty, it replaces that
// amount. currency and network select one of the ways to pay a claim, and network selects the address of a wallet; ""
// selects the first one. The network "lightning" selects a claim's Lightning invoice.
func (s *Sandbox) Deposit(ctx context.Context, by identity.Principal, objectID, currency, network, kind,
	amount string) (txid string, err error) {
	if !slices.Contains([]string{depositExact, depositUnder, depositOver, depositLate, depositReplaced, depositReorged},
		kind) {
		return "", errKind
	}
	if network == lightning.Chain {
		return s.payInvoice(ctx, by, objectID, kind, amount)
	}
	var p payable
	var due money.Amount
	err = s.o.DB.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		if p, err = s.find(ctx, tx, by, objectID, currency, network); err != nil {
			return err
		}
		if p.transfer != nil && (kind == depositLate || kind == depositReplaced) {
			return errTransferKind
		}
		if p.quote == nil && p.transfer == nil && kind == depositLate {
			return errWalletLate
		}
		due, err = depositAmount(ctx, tx, p, kind, amount)
		return err
	})
	if err != nil {
		return "", err
	}
	if p.transfer != nil {
		return s.transfer(ctx, p, due, kind == depositReorged)
	}
	c := s.chain(p.network)
	if c == nil {
		return "", errNotSimulated
	}
	// No block must be mined between the steps of a replacement or a reorganization.
	defer s.o.Miner.Pause()()
	if kind == depositLate {
		if err := s.advanceTo(ctx, p.quote.ValidTo.Add(time.Second)); err != nil {
			return "", err
		}
	}
	if txid, err = c.Pay(ctx, p.address, due); err != nil {
		return "", err
	}
	switch kind {
	case depositReplaced:
		return txid, s.replace(ctx, c, p, txid)
	case depositReorged:
		return txid, s.reorganize(ctx, c, p, txid)
	}
	return txid, nil
}

// payInvoice waits until a claim has a Lightning invoice, pays it, and returns the payment hash.
func (s *Sandbox) payInvoice(ctx context.Context, by identity.Principal, claimID, kind, amount string) (string, error) {
	if s.o.Lightning == nil {
		return "", errNotSimulated
	}
	if kind != depositExact && kind != depositOver {
		return "", errInvoiceKind
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var open claim.Detail
	for open.Invoice == "" {
		if err := s.o.DB.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			open, err = s.o.Claims.Get(ctx, tx, by, "", claimID)
			return err
		}); err != nil {
			return "", err
		}
		if !open.Payable {
			return "", errNothingDue
		}
		select {
		case <-ctx.Done():
			return "", errTimeout
		case <-time.After(20 * time.Millisecond):
		}
	}
	request, err := lightning.Decode(open.Invoice)
	if err != nil {
		return "", err
	}
	msat := request.Msat
	if kind == depositOver {
		msat += msat / 10
	}
	if amount != "" {
		a, err := money.Parse(money.BTC, amount)
		if err != nil {
			return "", err
		}
		msat = a.Units() * 1000
	}
	if err := s.o.Lightning.Settle(ctx, open.Invoice, msat); errors.Is(err, lightningsim.ErrAmount) {
		return "", errInvoiceAmount
	} else if err != nil {
		return "", err
	}
	return request.Hash.String(), nil
}

// replace replaces a payment after the watcher has seen it.
func (s *Sandbox) replace(ctx context.Context, c simulator, p payable, txid string) error {
	if err := s.await(ctx, p, txid, func(chain.WatchedOutput) bool { return true }); err != nil {
		return err
	}
	if _, err := c.Replace(ctx, txid); err != nil {
		return errors.Join(errMined, err)
	}
	return nil
}

// reorganize mines a payment and, after the watcher has seen the block, removes that block from the chain.
func (s *Sandbox) reorganize(ctx context.Context, c simulator, p payable, txid string) error {
	if err := c.Mine(ctx, 1); err != nil {
		return err
	}
	var depth int64
	if err := s.await(ctx, p, txid, func(o chain.WatchedOutput) bool {
		depth = o.Depth
		return o.State == chain.Mined
	}); err != nil {
		return err
	}
	if err := c.Reorg(ctx, int(max(depth, 1))); err != nil {
		return err
	}
	return s.await(ctx, p, txid, func(o chain.WatchedOutput) bool { return o.State != chain.Mined })
}

// simulator is a simulated chain.
type simulator interface {
	Pay(ctx context.Context, address string, amount money.Amount) (txid string, err error)
	Replace(ctx context.Context, txid string, outputs ...chain.Output) (newTxID string, err error)
	Mine(ctx context.Context, n int) error
	Reorg(ctx context.Context, depth int) error
}

// bitcoinChain adapts the simulated Bitcoin chain to a simulator.
type bitcoinChain struct{ *bitcoinsim.Chain }

func (b bitcoinChain) Pay(ctx context.Context, address string, amount money.Amount) (string, error) {
	return b.Chain.Pay(ctx, address, amount.Units())
}

// chain returns the simulator of a network, or nil if the network is real.
func (s *Sandbox) chain(network string) simulator {
	if c := s.o.EVM[network]; c != nil {
		return c
	}
	if _, evm := s.o.Accounts.Lookup(network); evm || s.o.Bitcoin == nil {
		return nil
	}
	return bitcoinChain{s.o.Bitcoin}
}

// depositAmount returns the amount that a deposit of a kind pays.
func depositAmount(ctx context.Context, tx *db.Tx, p payable, kind, amount string) (money.Amount, error) {
	if p.asset == "" || p.transfer == nil && p.address == "" {
		return money.Amount{}, errNotOnChain
	}
	if amount != "" {
		a, err := money.Parse(p.asset, amount)
		switch {
		case err != nil:
			return a, err
		case a.Sign() <= 0:
			return a, errAmountZero
		}
		return a, p.relays(a)
	}
	due, err := p.due(ctx, tx)
	if err != nil {
		return money.Amount{}, err
	}
	if due <= 0 {
		return money.Amount{}, errNothingDue
	}
	switch kind {
	case depositUnder:
		due -= due / 10
	case depositOver:
		due += due / 10
	}
	a := money.New(p.asset, due)
	return a, p.relays(a)
}

// relays returns quote.ErrTooSmall or money.ErrTooLarge if nodes of the network would not relay a payment of the
// amount.
func (p payable) relays(a money.Amount) error {
	switch {
	case p.transfer != nil || p.asset != money.BTC:
		return nil
	case a.Units() < chain.Dust(money.BTC):
		return quote.ErrTooSmall.Detailf("The network carries no payment below %s BTC.",
			money.New(money.BTC, chain.Dust(money.BTC))).At("body", "/amount")
	case a.Units() > quote.MostBTC:
		return money.ErrTooLarge.At("body", "/amount")
	}
	return nil
}

// due returns the unpaid amount of p, in the smallest unit of the asset.
func (p payable) due(ctx context.Context, tx *db.Tx) (int64, error) {
	if p.transfer != nil {
		return p.transfer.Amount.Units(), nil
	}
	if p.quote == nil {
		return 0, errAmountMissing
	}
	due := p.quote.Funding.Units()
	all, err := deposit.ForObject(ctx, tx, p.companyID, p.id)
	for _, d := range all {
		if d.State.Live() && d.QuoteID == p.quote.ID {
			due -= d.Amount.Units()
		}
	}
	return due, err
}

// await waits up to 10 seconds until the watcher has stored an output of the transaction for which ok returns true.
func (s *Sandbox) await(ctx context.Context, p payable, txid string, ok func(chain.WatchedOutput) bool) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	name := s.o.BitcoinChain
	if _, evm := s.o.Accounts.Lookup(p.network); evm {
		name = p.network
	}
	for {
		done := false
		err := s.o.DB.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			outs, err := chain.OutputsOf(ctx, tx, name, p.companyID, p.id)
			if err != nil {
				return err
			}
			for _, at := range outs {
				if at.TxID != txid {
					continue
				}
				o, err := chain.GetOutput(ctx, tx, name, at)
				if err != nil {
					return err
				}
				done = done || ok(o)
			}
			return nil
		})
		if done {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errTimeout
		case <-time.After(20 * time.Millisecond):
		}
	}
}
