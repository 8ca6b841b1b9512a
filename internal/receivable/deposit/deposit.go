// Package deposit records incoming money: every paid Lightning invoice, every bank transfer that funds an object, and
// every output that pays an address of an object (a payroll or a claim). It follows a deposit from its first sight to
// its confirmations and, if a reorganization removes the confirmations, back.
//
//	seen → confirmed → reverted → confirmed
//	  │                   │
//	  ├→ replaced ←───────┤     and from replaced or evicted to seen or confirmed,
//	  └→ evicted  ←───────┘     if the transaction appears after all
//
// Invariants:
//
//   - Each output is a deposit of its own; an object may have any number of deposits, and each is counted once.
//   - The state of a deposit follows the row that the chain watcher stored, in whatever order changes are reported:
//     [OutputsChanged] compares the present state with the posted state and posts the difference. Running it twice
//     changes nothing.
//   - A deposit belongs to the quote that was in force when it was first seen, and is on time if that quote covers
//     that time. A replacement (RBF) keeps the first sight of the replaced deposit if it pays no less than that deposit
//     and no more than had been seen by then. It may pay more if the quote had been paid in full. Confirmation never
//     changes the price of a deposit.
//   - While a deposit waits for confirmations, it is in clearing and cannot be used.
//   - The number of required confirmations grows with the value at stake and with the chain's block rate. The value is
//     that of the object or that of all its deposits, whichever is higher, so that splitting a payment does not reduce
//     it. The quote of a claim has its own number of confirmations, which the merchant chose.
//
// When a deposit changes, the job [JobChanged] names the object to re-evaluate, and the object's package posts the
// effect of a confirmed deposit. This package itself posts confirmed money that no object expects. Money to an
// address of the operator ([ledger.Operator]) goes to the operator's funds. Money to a wallet's address, in any coin
// that wallets hold, goes to the available balance of the wallet's company. All other unexpected money goes to
// suspense and is reported to the company whose address it paid, unless it is dust, which costs more to spend than it
// is worth.
package deposit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/webhook"
)

// JobChanged is the kind of the job that makes an object's package re-evaluate the object's deposits. Its payload is
// [Changed].
const JobChanged = "deposit.changed"

// SourceType is the source type of deposits' journals.
const SourceType = "deposit"

// Changed is the payload of JobChanged.
type Changed struct {
	ObjectID string `json:"object_id"`
}

// State is the state of a deposit.
type State string

// States of a deposit.
const (
	Seen      State = "seen"      // the transaction is in the mempool, or in a block with too few confirmations
	Confirmed State = "confirmed" // the transaction has the required confirmations
	Reverted  State = "reverted"  // a reorganization removed the confirmations; the deposit waits for new ones
	Replaced  State = "replaced"  // another transaction spent the same coins
	Evicted   State = "evicted"   // the transaction is no longer in the mempool
)

// Waiting reports whether a deposit is on the chain or in the mempool, and waits in clearing for its confirmations.
func (s State) Waiting() bool { return s == Seen || s == Reverted }

// Live reports whether the deposit's transaction is on the chain or in the mempool.
func (s State) Live() bool { return s.Waiting() || s == Confirmed }

// Deposit is one output that pays one of our addresses.
type Deposit struct {
	ID        string
	CompanyID string
	Chain     string
	chain.Outpoint
	ObjectID string
	// QuoteID is the ID of the quote that values the deposit, or the object's ID if nothing is exchanged. It is "" if no
	// object expects the deposit.
	QuoteID    string
	Address    string
	Amount     money.Amount
	State      State
	Version    int64     // raised by every change; part of the purposes of journals
	OnTime     bool      // the deposit was first seen while its quote was valid
	Dust       bool      // the amount is too small to spend
	FirstSeen  time.Time // time at which the transaction, or the transaction that it replaced, was first seen
	Wanted     int64     // number of confirmations that the deposit needs
	ReplacedBy string    // ID of the transaction that replaced the deposit's transaction
	OwnerID    string    // company whose balance was credited; "" if an object posts the deposit or staff must decide
	RefundTo   string    // address to which the deposit is sent back; "" for none
	RefundID   string    // ID of the payout that sends the deposit back
}

// ofWallet reports whether the object of a deposit address is a company's wallet, and not a payroll or claim.
func ofWallet(objectID string) bool { return strings.HasPrefix(objectID, "wal_") }

// walletCoins are the assets that wallets hold. Any other asset that is paid to a wallet's address waits in suspense.
var walletCoins = []money.Asset{money.BTC, money.ETH, money.USDC, money.USDT}

// expected reports whether an object expects the deposit and posts its effect.
func (d Deposit) expected() bool { return d.QuoteID != "" && !d.Dust }

// confirmationsFor returns the number of confirmations that a value in US dollars needs.
func confirmationsFor(usd money.Amount) int64 {
	for _, step := range []struct {
		below int64 // upper bound of the value, exclusive, in cents
		want  int64
	}{{1_000_00, 1}, {10_000_00, 2}, {100_000_00, 3}} {
		if usd.Cmp(money.New(money.USD, step.below)) < 0 {
			return step.want
		}
	}
	return chain.DefaultConfirmations
}

// wanted returns the number of confirmations that a deposit needs: the number that its quote requires or, if it has
// none, the number for the value at stake, which is that of the object or of all its deposits, whichever is higher.
// An unknown value counts as the highest.
func wanted(ctx context.Context, tx *db.Tx, q quote.Quote, d Deposit, others []*change) (int64, error) {
	if q.Confirmations > 0 {
		return q.Confirmations, nil
	}
	sum := d.Amount
	for _, o := range others {
		if !o.State.Live() || o.Amount.Asset() != sum.Asset() {
			continue
		}
		var err error
		if sum, err = sum.Add(o.Amount); err != nil {
			return 0, err
		}
	}
	stake := sum
	if d.OwnerID == "" {
		var err error
		if stake, err = q.Value(sum); err != nil {
			return 0, err
		}
		if stake.Cmp(q.Due) < 0 {
			stake = q.Due
		}
	}
	if stake.Asset() != money.USD {
		rate, err := rates.Latest(ctx, tx, stake.Asset(), money.USD)
		if errors.Is(err, rates.ErrUnavailable) {
			return chain.DefaultConfirmations, nil
		}
		if err != nil {
			return 0, err
		}
		if stake, err = rate.Convert(stake, money.Ceil); err != nil {
			return 0, err
		}
	}
	return confirmationsFor(stake), nil
}

// inventory reports whether the deposit paid an address of the operator, such as the account that pays on an EVM
// network. A forgotten address ([chain.Nobody]) has no object.
func (d Deposit) inventory() bool { return d.CompanyID == ledger.Operator && d.ObjectID != "" }

// book posts a change of state to clearing or suspense, and notifies the object. The journal's purpose contains the
// deposit's version, so each change is posted once, even if the deposit is confirmed and reverted repeatedly.
func book(ctx context.Context, tx *db.Tx, d Deposit, from State) error {
	post := func(purpose string, debit, credit ledger.Code, debitDim, creditDim string) error {
		return d.post(tx, d.CompanyID, purpose, ledger.Debit(debit, debitDim, d.Amount), ledger.Credit(credit,
			creditDim, d.Amount))
	}
	var errs []error
	switch {
	case d.Dust: // dust is not posted to clearing
	case d.State.Waiting() && !from.Waiting():
		errs = append(errs, post("detected", ledger.ClearingDeposits, ledger.ContraDeposits, d.ID, d.ID))
	case !d.State.Waiting() && from.Waiting():
		errs = append(errs, post("cleared", ledger.ContraDeposits, ledger.ClearingDeposits, d.ID, d.ID))
	}
	if d.OwnerID != "" {
		return errors.Join(append(errs, d.bookBalance(ctx, tx, from))...)
	}
	if !d.expected() {
		wallet, where := ledger.WalletOf(d.Amount.Asset(), d.Chain)
		purpose, account, dim := "unknown", ledger.SuspenseUnknown, d.ID
		switch {
		case d.inventory():
			purpose, account, dim = "inventory", ledger.FXPosition, ""
		case d.RefundID != "": // the deposit is already being sent back
			purpose, account = "refunded", ledger.DueFromCustomer
		}
		switch {
		case d.State == Confirmed && from != Confirmed:
			errs = append(errs, post(purpose, wallet, account, where, dim))
		case d.State != Confirmed && from == Confirmed:
			errs = append(errs, post(purpose+"_reverted", account, wallet, dim, where))
		}
		if d.State != from && d.ObjectID != "" && d.CompanyID != ledger.Operator && !d.Dust {
			errs = append(errs, d.emitBalance(tx, from))
		}
		return errors.Join(errs...)
	}
	if d.State.Live() && !from.Live() {
		errs = append(errs, emitDetected(tx, d))
	}
	changed(tx, d)
	return errors.Join(errs...)
}

// post posts a journal of a deposit. The purpose contains the deposit's version.
func (d Deposit) post(tx *db.Tx, companyID, purpose string, lines ...ledger.Line) error {
	return ledger.Post(tx, ledger.Journal{
		CompanyID: companyID, SourceType: SourceType, SourceID: d.ID, Purpose: fmt.Sprintf("%s:%d", purpose,
			d.Version), Lines: lines,
	})
}

func changed(tx *db.Tx, d Deposit) {
	job.Enqueue(tx, job.New{CompanyID: d.CompanyID, Kind: JobChanged, Payload: Changed{d.ObjectID}})
}

// emitDetected emits the event of a new deposit for a payroll. Claims emit their own events.
func emitDetected(tx *db.Tx, d Deposit) error {
	if strings.HasPrefix(d.ObjectID, "clm_") {
		return nil
	}
	data := webhook.FundingDetectedData{
		PayrollID: d.ObjectID, DepositID: d.ID, QuoteID: d.QuoteID, Status: string(d.State), InTime: d.OnTime,
		Currency: d.Amount.Asset(), Amount: d.Amount, Address: d.Address, TxHash: d.TxID, Vout: int64(d.Vout),
		FirstSeen: webhook.FormatTime(d.FirstSeen), ConfirmationsRequired: d.Wanted,
	}
	if d.ByBank() {
		data.QuoteID, data.TxHash, data.TransferID = "", "", d.TxID
	}
	return webhook.Emit(tx, webhook.PayrollFundingDetected.Event(d.CompanyID, d.ID, d.Version, data))
}
