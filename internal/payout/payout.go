// Package payout is money out: it carries what a release owes to one destination until the
// network or the bank has proven that it arrived.
//
// One Output is one amount to one destination, with the destination as it stood at release.
// Bitcoin outputs of a company are paid together by a batch: one transaction and, when its fee
// had to be raised, its replacements.
//
//	queued → prepared → sent → fulfilled → returned
//	  ↑  └→ failed, cancelled ↑     │
//	  │       prepared, sent → in_doubt
//	  └───────────────────────────┘  only with proof that nothing was paid
//
// An output begins as queued, or as prepared when its release pays it at once (see [Engine.Released]).
//
// What holds for all of it:
//
//   - Write ahead. Inputs, signed bytes, txid, ledger journal and the outputs' state are committed
//     before anything is broadcast. Sending means broadcasting those bytes, again and again if need
//     be; nothing here ever signs a second transaction with other inputs for an output that may
//     already be paid.
//   - Doubt is a state. An unclear answer makes a batch in_doubt. It leaves that state when one of
//     its transactions is found, or when another transaction that spends its inputs has its
//     confirmations: only then do its outputs go back to the queue.
//   - A fee bump spends the same inputs and pays the same recipients at the same positions; it takes
//     the difference from the change. All transactions of a batch stay linked and watched, because
//     any one of them, and only one, can confirm.
//   - The queue is served oldest first. A shortage cuts it at the first output that the wallet cannot
//     pay, so nothing is overtaken for ever. An output that can never be paid (a bad address, dust)
//     fails alone.
//   - Job handlers are level-triggered and every state change is one guarded UPDATE, so each may run
//     twice or late.
//   - The house pays the miner: the fee is booked on 5000, never taken from the payee.
package payout

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/money"
)

// Rail says by which way an output leaves.
type Rail string

// The rails.
const (
	RailBitcoin Rail = "bitcoin"
	RailBank    Rail = "bank"
)

// RailOf is by which way a destination is paid, by the form of its address and its network: each network of accounts has its own.
func RailOf(form, network string) Rail {
	if r := Rail(network); r.accounts() {
		return r
	}
	return Rail(form)
}

// accounts says that the rail is a network of accounts: then it has that network's name.
func (r Rail) accounts() bool { return slices.Contains(evm.Names(), string(r)) }

// State is where an output or a batch stands.
type State string

// States of an output. A batch is prepared, sent, in_doubt, fulfilled, dead or lost.
const (
	Queued    State = "queued"    // owed, nothing done yet
	Prepared  State = "prepared"  // bytes stored, not known to be broadcast
	Sent      State = "sent"      // accepted by the network
	InDoubt   State = "in_doubt"  // may or may not have left
	Fulfilled State = "fulfilled" // confirmed
	Failed    State = "failed"    // needs a corrected destination
	Returned  State = "returned"  // paid, and sent back
	Cancelled State = "cancelled" // taken out of the queue
	Dead      State = "dead"      // batch: its inputs were spent by somebody else, for certain
	Lost      State = "lost"      // batch: confirmed after it was dead; its outputs may be paid twice
)

// Check refuses a state that this version does not know: a newer one may have written it, and what is to be done about it nobody here
// can tell. Whoever decides by a state asks first.
func (s State) Check(of string) error {
	switch s {
	case Queued, Prepared, Sent, InDoubt, Fulfilled, Failed, Returned, Cancelled, Dead, Lost:
		return nil
	}
	return fmt.Errorf("payout: %s is in the state %q, which this version does not know; nothing is done about it", of, string(s))
}

// Reasons that an output can carry beside its state.
const (
	ReasonBadAddress = "invalid_address"
	ReasonDust       = "amount_below_dust"
	ReasonConflict   = "input_conflict"
	ReasonRefused    = "destination_refuses" // the token or the receiving contract fails every payment to the address
)

// Job kinds of this package.
const (
	JobPrepare = "payout.prepare" // payload {company_id}: look at the company's queue
	JobSend    = "payout.send"    // payload {txid} or {txids}: broadcast these stored bytes
	JobAccount = "payout.account" // payload {chain}: look at the company's queue for a network of accounts
	JobNudge   = "payout.nudge"   // payload {batch_id}: still unconfirmed? rebroadcast or raise the fee
	JobBank    = "payout.bank"    // payload {company_id}: make files of what waits for a bank
	JobChanged = "payout.changed" // payload {payroll_id, output_id}: somebody look; output_id is empty when several changed
)

// Faults of this package.
var (
	ErrPaused       = apierr.New(apierr.Unavailable, "payouts_paused", "Payouts are paused by the operator; nothing is lost, they go out when the pause ends.")
	ErrProcessing   = apierr.New(apierr.Conflict, "already_processing", "This payout is already being processed and cannot be changed.")
	ErrUnaffordable = apierr.New(apierr.Conflict, "fee_bump_unaffordable", "The change of this transaction cannot pay the higher fee.")
	ErrChangeSpent  = apierr.New(apierr.Conflict, "fee_bump_blocked", "A later transaction spends the change of this one; raise the fee of the later one.")
	ErrFeeTooHigh   = apierr.New(apierr.Conflict, "fee_above_cap", "The fee rate is above the cap for payouts.")
)

// Output is one amount to one destination.
type Output struct {
	CompanyID      string
	ID             string // given by Add when empty; also the dimension of its payable (2110)
	PayrollID      string
	PaymentID      string
	DistributionID string
	Rail           Rail
	Amount         money.Amount    // what the destination gets
	Input          money.Amount    // what it was worth in the payroll's currency
	Rate           money.Rate      // the price at which Input became Amount; zero where nothing was exchanged, or at several prices
	Address        string          // bitcoin: the address at release
	Destination    json.RawMessage // the whole destination as it stood at release
	State          State
	Reason         string // why it failed or was queued again; "" otherwise
	Held           bool   // queued, and to stay there until its payroll is cleared
	BatchID        string
	TxID           string
	Vout           uint32
	Version        int64
	QueuedAt       time.Time
	UpdatedAt      time.Time
}

// Batch is one set of inputs that pays many outputs of a company, with every transaction that was
// ever signed for it.
type Batch struct {
	CompanyID string
	ID        string
	Chain     string
	State     State
	TxID      string // the newest transaction, or the confirmed one
	Value     int64  // sum of the outputs, or what an account's transaction moves
	Fee       int64  // fee booked for it so far (5000), in units of the network's own coin
	Asset     money.Asset
	Purpose   string // of a transaction of an account: purposePayout, purposeSweep or purposeGas
	Version   int64
	CreatedAt time.Time
	SentAt    time.Time // zero before the first acceptance
	inputs    []chain.WalletCoin
	account   string // whose nonce an account's transaction takes
	nonce     uint64
	signed    []Transaction              // for it, the cheapest first
	seen      map[string]chain.WatchedTx // what the chain shows of those
	outs      []Output                   // by their place
	change    string                     // address of the change, or to which an account's transaction moves what is the house's; "" without
}

// Transaction is one signed transaction of a batch.
type Transaction struct {
	CompanyID string
	TxID      string
	BatchID   string
	Replaces  string // txid of the transaction that it was signed to replace
	State     State  // prepared, sent or in_doubt
	Raw       []byte
	Fee       int64
	VSize     int64
	Attempts  int64 // broadcasts in a row that were not accepted
	CreatedAt time.Time
	pack      int64 // VSize with the unconfirmed ancestors at signing
	ancestors int64 // how many those are, itself included
}

// newest is the transaction that stands for the batch.
func (b Batch) newest() (Transaction, bool) {
	i := slices.IndexFunc(b.signed, func(t Transaction) bool { return t.TxID == b.TxID })
	if i < 0 {
		return Transaction{}, false
	}
	return b.signed[i], true
}
