// Package deposit is money coming in: every paid Lightning invoice, every bank transfer that funds something, and every output that pays an address which was given out for an object (a payroll or a
// claim), from its first sight to its confirmations and, where the chain takes it back, back again.
//
//	seen → confirmed → reverted → confirmed
//	  │                   │
//	  ├→ replaced ←───────┤     and from replaced or evicted to seen or confirmed,
//	  └→ evicted  ←───────┘     should the transaction turn up after all
//
// What holds:
//
//   - Each output has a life of its own; an object may have any number of deposits, and a deposit is counted once.
//   - The state follows the chain's row, whatever the order in which news arrives: [Sync] compares what is with what was
//     booked and books the difference. Running it twice changes nothing.
//   - A deposit belongs to the quote that was in force when it was first seen, and is timely when that quote covers that
//     instant. A replacement by the same payer keeps the first sight of what it replaces if it pays no less, and no more
//     than had been seen then; or any more, if the price had been paid in full. Confirmation never re-prices it.
//   - While a deposit waits for confirmations it stands in clearing (L02, taken back by L03a) and is available to nobody.
//   - How many confirmations are wanted grows with the value at stake, and with the pace of the chain's blocks: that of the object or of all its deposits together,
//     whichever is more, so that cutting a payment into pieces lowers nothing. A claim's quote names its own number, which
//     its merchant chose.
//
// When a deposit changes, the job [JobChanged] says which object to look at. The object's package books what a confirmed
// deposit means to it (L03b, L20 to L25, L30, L31), reading [ForObject]. This package books confirmed money itself where no object
// expects it: to suspense (L43), dust too, which costs more to spend than it is worth and wakes nobody; what comes to an
// address of the house's own ([ledger.House]) to what the house owns; and what comes to a wallet's address to the available balance
// of its company, in whatever coin of those that wallets hold.
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

// JobChanged is the kind of the job that tells an object's package to look at its deposits. Its payload is [Changed].
const JobChanged = "deposit.changed"

// SourceType names deposits in the ledger.
const SourceType = "deposit"

// Changed is the payload of JobChanged.
type Changed struct {
	ObjectID string `json:"object_id"`
}

// State is where a deposit stands.
type State string

// States of a deposit.
const (
	Seen      State = "seen"      // in the mempool, or in a block without enough blocks upon it
	Confirmed State = "confirmed" // has its confirmations
	Reverted  State = "reverted"  // had them and lost them to a reorganisation; waits for them again
	Replaced  State = "replaced"  // another transaction spent its coins
	Evicted   State = "evicted"   // forgotten by the mempool
)

// Waiting says that a deposit is on the chain and stands in clearing until it has its confirmations.
func (s State) Waiting() bool { return s == Seen || s == Reverted }

// Live says that the chain still holds the deposit's transaction.
func (s State) Live() bool { return s.Waiting() || s == Confirmed }

// Deposit is one output that pays one of our addresses.
type Deposit struct {
	ID        string
	CompanyID string
	Chain     string
	chain.Outpoint
	ObjectID   string
	QuoteID    string // the quote that values it, or the object itself where nothing is exchanged; "" when no object expects it
	Address    string
	Amount     money.Amount
	State      State
	Version    int64     // raised by every change, so a booking may be named by it
	Timely     bool      // first seen while its quote covered it
	Dust       bool      // too little to spend
	FirstSeen  time.Time // of the transaction, or of the one that it replaced
	Wanted     int64     // confirmations
	ReplacedBy string    // the transaction that took its place
	OwnerID    string    // the company whose balance has it; "" where an object books it, or nobody has decided
	RefundTo   string    // the address that it is sent back to, "" for none
	RefundID   string    // the payout that does so
}

// ofWallet says that an address was given out for a company's wallet, and not for one thing to pay.
func ofWallet(objectID string) bool { return strings.HasPrefix(objectID, "wal_") }

// walletCoins are what wallets hold. Another coin that comes to the address of one waits in suspense.
var walletCoins = []money.Asset{money.BTC, money.ETH, money.USDC, money.USDT}

// expected says that an object waits for this deposit and books it.
func (d Deposit) expected() bool { return d.QuoteID != "" && !d.Dust }

// confirmationsFor is how many are wanted for a value in dollars.
func confirmationsFor(usd money.Amount) int64 {
	for _, step := range []struct {
		below int64 // cents
		want  int64
	}{{1_000_00, 1}, {10_000_00, 2}, {100_000_00, 3}} {
		if usd.Cmp(money.New(money.USD, step.below)) < 0 {
			return step.want
		}
	}
	return chain.DefaultConfirmations
}

// wanted is the confirmations for a deposit among the others of its object: what its quote says, else by value. A value that
// cannot be told counts as the highest.
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

// inventory says that the money came to an address of the house's own, such as the account that pays on a network of accounts. One that was given out and forgotten ([chain.Nobody]) has no object.
func (d Deposit) inventory() bool { return d.CompanyID == ledger.House && d.ObjectID != "" }

// book posts what a move means for the clearing tier and for suspense, and tells who has to know. A journal is named by the
// version that it belongs to, so each move is booked once and a deposit may come and go any number of times.
func book(ctx context.Context, tx *db.Tx, d Deposit, from State) error {
	post := func(purpose string, debit, credit ledger.Code, debitDim, creditDim string) error {
		return d.post(tx, d.CompanyID, purpose, ledger.Debit(debit, debitDim, d.Amount), ledger.Credit(credit, creditDim, d.Amount))
	}
	var errs []error
	switch {
	case d.Dust: // too many and too small for a tier of their own
	case d.State.Waiting() && !from.Waiting(): // L02
		errs = append(errs, post("detected", ledger.ClearingDeposits, ledger.ContraDeposits, d.ID, d.ID))
	case !d.State.Waiting() && from.Waiting(): // L03a
		errs = append(errs, post("cleared", ledger.ContraDeposits, ledger.ClearingDeposits, d.ID, d.ID))
	}
	if d.OwnerID != "" {
		return errors.Join(append(errs, d.bookBalance(ctx, tx, from))...)
	}
	if !d.expected() {
		wallet, where := ledger.WalletOf(d.Amount.Asset(), d.Chain)
		purpose, account, dim := "unknown", ledger.SuspenseUnknown, d.ID // L43
		switch {
		case d.inventory():
			purpose, account, dim = "inventory", ledger.FXPosition, ""
		case d.RefundID != "": // it is sent back already
			purpose, account = "refunded", ledger.DueFromCustomer
		}
		switch {
		case d.State == Confirmed && from != Confirmed:
			errs = append(errs, post(purpose, wallet, account, where, dim))
		case d.State != Confirmed && from == Confirmed:
			errs = append(errs, post(purpose+"_reverted", account, wallet, dim, where))
		}
		return errors.Join(errs...)
	}
	if d.State.Live() && !from.Live() {
		errs = append(errs, emitDetected(tx, d))
	}
	changed(tx, d)
	return errors.Join(errs...)
}

// post books a change of a deposit, which the version names.
func (d Deposit) post(tx *db.Tx, companyID, purpose string, lines ...ledger.Line) error {
	return ledger.Post(tx, ledger.Journal{
		CompanyID: companyID, SourceType: SourceType, SourceID: d.ID, Purpose: fmt.Sprintf("%s:%d", purpose, d.Version), Lines: lines,
	})
}

func changed(tx *db.Tx, d Deposit) {
	job.Enqueue(tx, job.New{CompanyID: d.CompanyID, Kind: JobChanged, Payload: Changed{d.ObjectID}})
}

// emitDetected tells the company of a payroll. What a deposit means to a claim, the claim itself tells.
func emitDetected(tx *db.Tx, d Deposit) error {
	if strings.HasPrefix(d.ObjectID, "clm_") {
		return nil
	}
	data := webhook.FundingDetectedData{
		PayrollID: d.ObjectID, DepositID: d.ID, QuoteID: d.QuoteID, Status: string(d.State), InTime: d.Timely,
		Currency: d.Amount.Asset(), Amount: d.Amount, Address: d.Address, TxHash: d.TxID, Vout: int64(d.Vout),
		FirstSeen: d.FirstSeen.Format(time.RFC3339), ConfirmationsRequired: d.Wanted,
	}
	if d.ByBank() {
		data.QuoteID, data.TxHash, data.TransferID = "", "", d.TxID
	}
	return webhook.Emit(tx, webhook.PayrollFundingDetected.Event(d.CompanyID, d.ID, d.Version, data))
}
