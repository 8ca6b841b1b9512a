// Package payout pays the amounts that a release owes to destinations. It stores the queue of outgoing payments, and
// their states until the network or the bank has proven that the money arrived.
//
// An [Output] is one amount for one destination, with a copy of the destination at the release. A [Rail] pays outputs
// through one network or channel: package bitcoin, one EVM network of package evm, package lightning, package bank.
// The queue, its states and its jobs are the same for all rails.
//
//	queued → prepared → sent → fulfilled → returned
//	  ↑  └→ failed, cancelled ↑     │
//	  │       prepared, sent → in_doubt
//	  └───────────────────────────┘  only with proof that nothing was paid
//
// Invariants:
//
//   - Write ahead. The instructions (signed bytes, a file), their external identity (txid, file number), the ledger
//     journal and the outputs' state are committed before anything is sent. Sending transmits exactly those bytes, as
//     often as needed.
//   - An unknown outcome is a state. If it is not known whether instructions were executed, their outputs are
//     in_doubt. They return to the queue only with proof that they were not and never will be paid.
//   - The queue is processed oldest first. An output that can never be paid fails alone and blocks no other.
//   - Job handlers read the current state and every state change is one guarded UPDATE, so each may run twice or
//     late.
//   - The operator pays the network's fee (account 5000); it is never taken from the payee.
//
// Files: add.go enqueues, holds and corrects outputs; queue.go pauses a company's queue and reports the delay;
// pause.go is the switch that stops all payouts; rail.go is the contract of a rail and the dispatch to rails.
package payout

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain/network"
	"github.com/stipend/stipend/internal/money"
)

// RailName is the name of a rail, stored in outputs.rail. For an EVM network it is the network's name.
type RailName string

// Names of the rails that are not EVM networks.
const (
	RailBitcoin   RailName = "bitcoin"
	RailLightning RailName = "lightning"
	RailBank      RailName = "bank"
)

// RailOf returns the name of the rail that pays a destination: the name of its network if that is a registered EVM
// network, otherwise the form of its address. The network decides first, because an address may be valid on several
// networks.
func RailOf(form, networkName string) RailName {
	if n, err := network.Lookup(networkName); err == nil {
		return RailName(n.Name)
	}
	return RailName(form)
}

// State is the state of an output. The batches of rails use the same states.
type State string

// States of an output.
const (
	Queued         State = "queued"    // owed to the payee, not prepared
	Prepared       State = "prepared"  // instructions stored, not sent
	Sent           State = "sent"      // accepted by the network or the bank
	UnknownOutcome State = "in_doubt"  // it is not known whether the payment was executed
	Fulfilled      State = "fulfilled" // the payment is confirmed
	Failed         State = "failed"    // cannot be paid until the destination is corrected
	Returned       State = "returned"  // the payment was made, then the money came back
	Cancelled      State = "cancelled" // removed from the queue
)

// Check returns an error for a state that this version of the program does not know, for example because a newer
// version wrote it. Code that decides by a state must call Check first.
func (s State) Check(of string) error {
	switch s {
	case Queued, Prepared, Sent, UnknownOutcome, Fulfilled, Failed, Returned, Cancelled:
		return nil
	}
	return fmt.Errorf("payout: %s has the unknown state %q and is not changed", of, string(s))
}

// Reasons of failed or requeued outputs that rails share.
const (
	ReasonBadAddress       = "invalid_address"
	ReasonUnsupportedAsset = "unsupported_asset" // the rail does not support the output's asset
)

// JobChanged is the kind of the job that reports changed outputs to the object that owns them; see [Changed].
const JobChanged = "payout.changed"

// ErrProcessing reports that an output is being paid or was paid.
var ErrProcessing = apierr.New(apierr.Conflict, "already_processing",
	"This payout is already being processed and cannot be changed.")

// Output is one amount for one destination.
type Output struct {
	CompanyID      string
	ID             string // assigned by Add if empty; also the dimension of the amount owed (account 2110)
	PayrollID      string // ID of the payroll, claim, withdrawal or other object that the output pays
	PaymentID      string
	DistributionID string
	Rail           RailName
	Amount         money.Amount // amount that the destination receives
	Input          money.Amount // value of Amount in the payroll's currency
	// Rate is the price at which Input was exchanged to Amount. It is zero without an exchange or if there were several
	// prices.
	Rate        money.Rate
	Address     string          // address at release, on blockchains only
	Destination json.RawMessage // all fields of the destination as they were at release
	State       State
	Reason      string // reason of a failed or requeued output, or ""
	OnHold      bool   // the output stays queued until its payroll is resumed
	BatchID     string // batch or file that pays the output
	TxID        string // transaction that pays the output, or the payment hash over Lightning
	Proof       string // preimage of the payment hash, in hexadecimal; "" on other rails and before the payment succeeds
	Vout        uint32 // position of the output in the transaction
	Version     int64
	QueuedAt    time.Time
	UpdatedAt   time.Time
}

// check returns an error for an output that no rail could pay.
func (o *Output) check() error {
	if o.CompanyID == "" || o.PayrollID == "" || o.Amount.Sign() <= 0 {
		return fmt.Errorf("payout: an output of payroll %q lacks a company, payroll or amount", o.PayrollID)
	}
	asset := o.Amount.Asset()
	n, err := network.Lookup(string(o.Rail))
	if o.Rail == RailBank && !asset.IsCrypto() || o.Rail == RailLightning && asset == money.BTC ||
		err == nil && n.MayCarry(asset) {
		return nil
	}
	return fmt.Errorf("payout: rail %q does not support %s", o.Rail, asset)
}
