// Package payout pays what a release owes: it keeps the queue of outgoing payments and their states until the network or the
// bank has proven that the money arrived.
//
// One [Output] is one amount to one destination, with the destination as it was at release. A [Rail] pays the outputs of one
// way out: package bitcoin, one EVM network of package evm, package bank. The queue, its states and its jobs are the same for
// all of them.
//
//	queued → prepared → sent → fulfilled → returned
//	  ↑  └→ failed, cancelled ↑     │
//	  │       prepared, sent → in_doubt
//	  └───────────────────────────┘  only with proof that nothing was paid
//
// Invariants:
//
//   - Write ahead. The instructions (signed bytes, a file), their identity outside (txid, file number), the ledger journal and
//     the outputs' state are committed before anything is sent. Sending hands over exactly those bytes, as often as needed.
//   - An unknown outcome is a state. An unclear answer makes an output in_doubt; it returns to the queue only with proof that
//     it was not and never will be paid.
//   - The queue is served oldest first. An output that can never be paid fails alone and holds up no other.
//   - Job handlers are level-triggered and every state change is one guarded UPDATE, so each may run twice or late.
//   - The operator pays the network's fee (account 5000); it is never taken from the payee.
//
// Files: add.go enqueues, holds and corrects outputs; queue.go pauses a company's queue and reports the delay; pause.go is the
// switch that stops all payouts; rail.go is the contract of a rail and the dispatch to rails.
package payout

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain/network"
	"github.com/stipend/stipend/internal/money"
)

// RailName names the rail that pays an output; the column outputs.rail has it. On an EVM network it is the network's name.
type RailName string

// Names of rails that are not those of an EVM network.
const (
	RailBitcoin RailName = "bitcoin"
	RailBank    RailName = "bank"
)

// RailOf returns the name of the rail that pays a destination. form is the form of the destination's address; addresses of one
// form may be valid on several networks, and then the network names the rail.
func RailOf(form, networkName string) RailName {
	if n, err := network.Lookup(networkName); err == nil {
		return RailName(n.Name)
	}
	return RailName(form)
}

// State is the state of an output. Batches of a rail use the same words.
type State string

// States of an output.
const (
	Queued    State = "queued"    // owed, nothing done yet
	Prepared  State = "prepared"  // instructions stored, not known to have been sent
	Sent      State = "sent"      // accepted by the network or the bank
	InDoubt   State = "in_doubt"  // outcome unknown: it may or may not have left
	Fulfilled State = "fulfilled" // confirmed
	Failed    State = "failed"    // needs a corrected destination
	Returned  State = "returned"  // paid, and sent back
	Cancelled State = "cancelled" // removed from the queue
)

// Check returns an error for a state that this version does not know: a newer version may have written it. Code that decides by a
// state calls it first.
func (s State) Check(of string) error {
	switch s {
	case Queued, Prepared, Sent, InDoubt, Fulfilled, Failed, Returned, Cancelled:
		return nil
	}
	return fmt.Errorf("payout: %s has the unknown state %q; it is left as it is", of, string(s))
}

// Reasons of a failed or requeued output that rails share.
const (
	ReasonBadAddress       = "invalid_address"
	ReasonUnsupportedAsset = "unsupported_asset" // the rail does not carry the output's asset
)

// JobChanged is the kind of the job that reports changed outputs to the object they pay for, see [Changed].
const JobChanged = "payout.changed"

// Errors of this package.
var (
	ErrPaused = apierr.New(apierr.Unavailable, "payouts_paused",
		"Payouts are paused by the operator; nothing is lost, they go out when the pause ends.")
	ErrProcessing = apierr.New(apierr.Conflict, "already_processing",
		"This payout is already being processed and cannot be changed.")
)

// Output is one amount to one destination.
type Output struct {
	CompanyID      string
	ID             string // assigned by Add when empty; also the dimension of its payable (account 2110)
	PayrollID      string // payroll, claim, withdrawal or other object that it pays for
	PaymentID      string
	DistributionID string
	Rail           RailName
	Amount         money.Amount    // what the destination receives
	Input          money.Amount    // what it was worth in the payroll's currency
	Rate           money.Rate      // price at which Input became Amount; zero where nothing was exchanged, or at several prices
	Address        string          // on a blockchain: the address at release
	Destination    json.RawMessage // the whole destination as it was at release
	State          State
	Reason         string // why it failed or was queued again; otherwise empty
	OnHold         bool   // stays queued until its payroll is cleared
	BatchID        string // batch or file that pays it
	TxID           string // transaction that pays it
	Vout           uint32 // its position there
	Version        int64
	QueuedAt       time.Time
	UpdatedAt      time.Time
}

// check returns an error for an output that no rail could pay.
func (o *Output) check() error {
	if o.CompanyID == "" || o.PayrollID == "" || o.Amount.Sign() <= 0 {
		return fmt.Errorf("payout: output of payroll %q without company, payroll or amount", o.PayrollID)
	}
	asset := o.Amount.Asset()
	n, err := network.Lookup(string(o.Rail))
	if o.Rail == RailBank && !asset.IsCrypto() || err == nil && n.MayCarry(asset) {
		return nil
	}
	return fmt.Errorf("payout: rail %q does not carry %s", o.Rail, asset)
}
