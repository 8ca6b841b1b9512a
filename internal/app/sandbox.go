package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/sim"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/httpapi"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/onchain"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/wallet"
)

// What the sandbox refuses.
var (
	errNotSimulated  = apierr.New(apierr.Conflict, "invalid_state", "This sandbox follows a real node: pay with a wallet.")
	errNoQuote       = apierr.New(apierr.Conflict, "invalid_state", "This payroll is not funded on the chain, so there is nothing to pay.")
	errNothingDue    = apierr.New(apierr.Conflict, "invalid_state", "It is already paid in full. Give an amount to pay more.")
	errTooSlow       = apierr.New(apierr.Unavailable, "retry_later", "The chain did not show the payment in time. Look again; it may still come.")
	errMined         = apierr.New(apierr.Conflict, "invalid_state", "A block took the payment before it could be replaced. Try again.")
	errNotByBank     = apierr.New(apierr.Conflict, "invalid_state", "No bank has paid any of this payment, so none can send it back.")
	errNotByTransfer = apierr.New(apierr.Invalid, "invalid_parameter", "A bank transfer is exact, under, over or reorged. Move the clock for a late one.").At("body", "/kind")
	errNoCoins       = apierr.New(apierr.Conflict, "invalid_state", "This wallet has no address: it is not in use, or not in coins.")
	errNetwork       = apierr.New(apierr.Invalid, "invalid_parameter", "The wallet is not paid on this network.").At("body", "/network")
	errAmount        = apierr.New(apierr.Invalid, "missing_field", "A wallet asks for no amount; say how much comes.").At("body", "/amount")
	errNeverLate     = apierr.New(apierr.Invalid, "invalid_parameter", "What comes to a wallet is never late.").At("body", "/kind")
	errPaidOut       = apierr.New(apierr.Conflict, "already_processing", "This payment is already being paid out.")
)

// sandbox moves the simulated world for the sandbox's routes: it is the payer, the miner and the clock.
type sandbox struct {
	s      *Service
	pay    *payroll.Service
	claims *claim.Service
}

// The kinds of deposits that the sandbox can make.
const (
	depositExact    = "exact"    // what is due
	depositUnder    = "under"    // nine tenths of it
	depositOver     = "over"     // a tenth more
	depositLate     = "late"     // what is due, after the quote's end: the clock jumps there
	depositReplaced = "replaced" // what is due, and then taken back by a replacement
	depositReorged  = "reorged"  // what is due, mined, and then thrown out of the chain with its block; later blocks take it in again; a bank takes it back
)

var _ httpapi.Sandbox = (*sandbox)(nil)

// payable is a payroll, a claim or a wallet that takes money.
type payable struct {
	id, companyID string
	address       string
	network       string
	asset         money.Asset
	quote         *quote.Quote      // nil for a wallet
	transfer      *payroll.Transfer // that funds it, nil where it is funded otherwise
}

// quoted is what a quote has somebody pay.
func quoted(id, companyID, address string, q *quote.Quote) payable {
	p := payable{id: id, companyID: companyID, address: address, quote: q}
	if q != nil {
		p.network, p.asset = q.Network, q.Funding.Asset()
	}
	return p
}

// find reads what is to be paid; the network is that of a wallet, "" for its first one.
func (x *sandbox) find(ctx context.Context, tx *db.Tx, by identity.Principal, id, network string) (payable, error) {
	switch {
	case strings.HasPrefix(id, "clm_"):
		c, err := x.claims.Get(ctx, tx, by, "", id)
		return quoted(c.ID, c.CompanyID, c.Address, c.Quote), err
	case strings.HasPrefix(id, "wal_"):
		w, err := wallet.Get(ctx, tx, by, id)
		if err != nil {
			return payable{}, err
		}
		networks := wallet.Networks(w.Currency, x.s.cfg.BitcoinNetwork, x.s.accounts)
		if w.Address == "" || len(networks) == 0 {
			return payable{}, errNoCoins
		}
		if network == "" {
			network = networks[0]
		}
		if !slices.Contains(networks, network) {
			return payable{}, errNetwork
		}
		return payable{id: w.ID, companyID: w.CompanyID, address: w.Address, network: network, asset: w.Currency}, nil
	}
	p, err := x.pay.Head(ctx, tx, by, id)
	if err != nil {
		return payable{}, err
	}
	found := quoted(p.ID, p.CompanyID, p.Address, p.Quote)
	if t, ok, err := x.pay.Transfer(&p); err != nil || ok {
		found.transfer, found.asset = &t, t.Amount.Asset()
		return found, err
	}
	return found, nil
}

// Deposit pays a payroll, a claim or a wallet of the principal's company as kind says, or with an amount of its own ("" for none), and
// says by which transaction. The network is that of a wallet, "" for its first one.
func (x *sandbox) Deposit(ctx context.Context, by identity.Principal, objectID, network, kind, amount string) (txid string, err error) {
	if !slices.Contains([]string{depositExact, depositUnder, depositOver, depositLate, depositReplaced, depositReorged}, kind) {
		return "", apierr.New(apierr.Invalid, "invalid_parameter", "kind is one of exact, under, over, late, replaced, reorged.").At("body", "/kind")
	}
	var p payable
	var due money.Amount
	err = x.s.db.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		if p, err = x.find(ctx, tx, by, objectID, network); err != nil {
			return err
		}
		if p.transfer != nil && !slices.Contains([]string{depositExact, depositUnder, depositOver, depositReorged}, kind) {
			return errNotByTransfer
		}
		if p.quote == nil && p.transfer == nil && kind == depositLate {
			return errNeverLate
		}
		due, err = depositAmount(ctx, tx, p, kind, amount)
		return err
	})
	if err != nil {
		return "", err
	}
	if p.transfer != nil {
		return x.transfer(ctx, p, due, kind == depositReorged)
	}
	hand := x.hand(p.network)
	if hand == nil {
		return "", errNotSimulated
	}

	// A replacement and a reorganisation need the chain to stand still meanwhile.
	x.s.mining.Lock()
	held := true
	release := func() {
		if held {
			held = false
			x.s.mining.Unlock()
		}
	}
	defer release()

	if kind == depositLate {
		if err := x.advanceTo(ctx, p.quote.ValidTo.Add(time.Second)); err != nil {
			return "", err
		}
	}
	if txid, err = hand.Pay(ctx, p.address, due); err != nil {
		return "", err
	}
	switch kind {
	case depositReplaced:
		if err := x.await(ctx, p, txid, func(o chain.WatchedOutput) bool { return true }); err != nil {
			return "", err
		}
		if _, err := hand.Replace(ctx, txid); err != nil {
			return "", errors.Join(errMined, err)
		}
	case depositReorged:
		if err := hand.Mine(ctx, 1); err != nil {
			return "", err
		}
		var depth int64
		if err := x.await(ctx, p, txid, func(o chain.WatchedOutput) bool {
			depth = o.Depth
			return o.State == chain.Mined
		}); err != nil {
			return "", err
		}
		if err := hand.Reorg(ctx, int(max(depth, 1))); err != nil {
			return "", err
		}
		if err := x.await(ctx, p, txid, func(o chain.WatchedOutput) bool { return o.State != chain.Mined }); err != nil {
			return "", err
		}
	}
	return txid, nil
}

// transfer has somebody pay to the house's account at the sandbox's bank, which takes it back if it shall, and says by which name of
// the bank's.
func (x *sandbox) transfer(ctx context.Context, p payable, amount money.Amount, back bool) (name string, err error) {
	if x.s.cfg.BankDir != "" || x.s.cfg.BankSFTP != "" {
		return "", errNotSimulated
	}
	return name, x.s.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		name = tx.NewID("bnk")
		job.Enqueue(tx, job.New{CompanyID: p.companyID, Kind: jobBankTransfer, Payload: bankTransfer{name, p.transfer.Reference, amount.Asset(), amount.Units(), back}})
		return nil
	})
}

// hand moves a simulated chain.
type hand interface {
	Pay(ctx context.Context, address string, amount money.Amount) (txid string, err error)
	Replace(ctx context.Context, txid string, outputs ...chain.Output) (newTxID string, err error)
	Mine(ctx context.Context, n int) error
	Reorg(ctx context.Context, depth int) error
}

// bitcoinHand is that of the simulated Bitcoin chain.
type bitcoinHand struct{ *sim.Chain }

func (h bitcoinHand) Pay(ctx context.Context, address string, amount money.Amount) (string, error) {
	return h.Chain.Pay(ctx, address, amount.Units())
}

// hand is that of a network, nil where it is real.
func (x *sandbox) hand(network string) hand {
	for _, a := range x.s.evms {
		if a.network.Name == network {
			if a.sim == nil {
				return nil
			}
			return a.sim
		}
	}
	if x.s.sim == nil {
		return nil
	}
	return bitcoinHand{x.s.sim}
}

// depositAmount is what the kind means for a payroll or a claim.
func depositAmount(ctx context.Context, tx *db.Tx, p payable, kind, amount string) (money.Amount, error) {
	if p.asset == "" || p.transfer == nil && p.address == "" {
		return money.Amount{}, errNoQuote
	}
	if amount != "" {
		a, err := money.Parse(p.asset, amount)
		if err == nil && a.Sign() <= 0 {
			err = apierr.New(apierr.Invalid, "amount_not_positive", "The amount must be more than 0.").At("body", "/amount")
		}
		return a, err
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
	return money.New(p.asset, due), nil
}

// due is what nobody has paid yet.
func (p payable) due(ctx context.Context, tx *db.Tx) (int64, error) {
	if p.transfer != nil {
		return p.transfer.Amount.Units(), nil
	}
	if p.quote == nil {
		return 0, errAmount
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

// await waits until the watcher has seen an output of the payment that is as wanted.
func (x *sandbox) await(ctx context.Context, p payable, txid string, wanted func(chain.WatchedOutput) bool) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		done := false
		err := x.s.db.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			name := x.s.chainOf(p.network)
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
				done = done || wanted(o)
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
			return errTooSlow
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Advance moves the sandbox's clock forward, for every company and process on its database.
func (x *sandbox) Advance(ctx context.Context, by time.Duration) (now time.Time, err error) {
	if by < 0 || by > 10*365*24*time.Hour {
		return now, apierr.New(apierr.Invalid, "invalid_parameter", "The clock moves forward only, by at most ten years.").At("body", "/advance_seconds")
	}
	if err := x.s.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		tx.Notify(identity.NoticeRevoked) // credentials end by the clock
		return tx.AdvanceClock(ctx, by)
	}); err != nil {
		return now, err
	}
	return x.s.db.Now(ctx)
}

func (x *sandbox) advanceTo(ctx context.Context, at time.Time) error {
	now, err := x.s.db.Now(ctx)
	if err != nil || !now.Before(at) {
		return err
	}
	_, err = x.Advance(ctx, at.Sub(now))
	return err
}

// FeeRate changes what the simulated chain asks for, for every company, and tells the engine, which would ask within a
// minute; payouts of the principal's company that wait for a lower fee are looked at now.
func (x *sandbox) FeeRate(ctx context.Context, by identity.Principal, rate int64) (before int64, err error) {
	if x.s.sim == nil {
		return 0, errNotSimulated
	}
	if before, err = x.s.sim.SetFeeRate(ctx, rate); err != nil {
		return 0, err
	}
	return before, x.s.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		payout.EnqueuePrepare(tx, by.CompanyID, payout.RailBitcoin, time.Time{})
		return onchain.SetFeeRate(ctx, tx, chainName, rate)
	})
}

// settingFailures are the payments of a payroll whose payouts shall fail, separated by spaces.
func settingFailures(payrollID string) string { return "sandbox.payout_failure." + payrollID }

// badAddress is nobody's: a payout to it fails before anything is signed.
const badAddress = "sandbox-payout-failure"

// PayoutFailure makes the payouts of one payment fail, as if its destination had gone bad since it was registered: at once
// where they wait, else at the release. The payment then needs action, like a real one.
func (x *sandbox) PayoutFailure(ctx context.Context, tx *db.Tx, by identity.Principal, paymentID string) error {
	payrollID, err := payrollOf(ctx, tx, by.CompanyID, paymentID)
	if err != nil {
		return err
	}
	outs, err := payout.ForPayments(ctx, tx, by.CompanyID, payrollID, paymentID)
	if err != nil {
		return err
	}
	if len(outs) > 0 {
		return breakOutputs(ctx, tx, outs)
	}
	key := settingFailures(payrollID)
	known, err := db.Setting(ctx, tx, key)
	if err != nil || slices.Contains(strings.Fields(known), paymentID) {
		return err
	}
	return db.SetSetting(ctx, tx, key, strings.TrimSpace(known+" "+paymentID))
}

// BankReturn has the sandbox's bank send back what it paid of one payment.
func (x *sandbox) BankReturn(ctx context.Context, tx *db.Tx, by identity.Principal, paymentID, reason string) error {
	payrollID, err := payrollOf(ctx, tx, by.CompanyID, paymentID)
	if err != nil {
		return err
	}
	outs, err := payout.ForPayments(ctx, tx, by.CompanyID, payrollID, paymentID)
	if err != nil {
		return err
	}
	paid := 0
	for _, o := range outs {
		if o.Rail == payout.RailBank && o.State == payout.Fulfilled {
			job.Enqueue(tx, job.New{CompanyID: by.CompanyID, Kind: jobBankReturn, Payload: bankReturn{o.ID, reason}})
			paid++
		}
	}
	if paid == 0 {
		return errNotByBank
	}
	return nil
}

// breakOutputs points waiting outputs to an address that is none.
func breakOutputs(ctx context.Context, tx *db.Tx, outs []payout.Output) error {
	broken := 0
	for _, o := range outs {
		if o.Rail != payout.RailBitcoin || o.State != payout.Queued {
			continue
		}
		o.Address = badAddress
		if err := payout.Correct(ctx, tx, o); err != nil {
			return err
		}
		broken++
	}
	if broken == 0 {
		return errPaidOut
	}
	return nil
}

// withFailures is the release of payrolls in a sandbox: it breaks what was asked to fail, in the release's own transaction.
func withFailures(release job.TxHandler) job.TxHandler {
	return func(ctx context.Context, tx *db.Tx, j job.Job) error {
		if err := release(ctx, tx, j); err != nil {
			return err
		}
		var in struct {
			PayrollID string `json:"payroll_id"`
		}
		if err := j.Decode(&in); err != nil {
			return err
		}
		key := settingFailures(in.PayrollID)
		wanted, err := db.Setting(ctx, tx, key)
		if err != nil || wanted == "" {
			return err
		}
		if err := tx.Flush(ctx); err != nil {
			return err
		}
		outs, err := payout.ForPayments(ctx, tx, j.CompanyID, in.PayrollID, strings.Fields(wanted)...)
		if err != nil || len(outs) == 0 {
			return err
		}
		// A payment fails once: what its payee is paid with another destination goes through.
		left := slices.DeleteFunc(strings.Fields(wanted), func(id string) bool {
			return slices.ContainsFunc(outs, func(o payout.Output) bool { return o.PaymentID == id })
		})
		if err := db.SetSetting(ctx, tx, key, strings.Join(left, " ")); err != nil {
			return err
		}
		if err := breakOutputs(ctx, tx, outs); err != nil && !errors.Is(err, errPaidOut) {
			return fmt.Errorf("break payouts: %w", err)
		}
		return nil
	}
}
