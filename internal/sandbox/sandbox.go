// Package sandbox contains everything that only a sandbox has: initial data and public keys (seed.go, keys.go),
// simulated payers (deposit.go handles each kind of deposit, bank.go simulates bank transfers), an adjustable clock,
// and failures on request. Its subpackages simulate chains (bitcoinsim, evmsim) and a Lightning node (lightningsim),
// and implement the demo and trigger commands.
//
// Nothing in this package runs in production. The other packages of the service do not import it; internal/app uses
// it in place of a node or a bank.
package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/httpapi"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/onchain"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/sandbox/evmsim"
	"github.com/stipend/stipend/internal/sandbox/lightningsim"
)

var (
	errNotSimulated = apierr.New(apierr.Conflict, "invalid_state",
		"This sandbox uses a real node or bank. Pay with a wallet or a transfer.")
	errClock = apierr.New(apierr.Invalid, "invalid_parameter",
		"The clock only moves forward, by at most ten years.").At("body", "/advance_seconds")
)

// maxAdvance is the maximum amount by which one call advances the clock.
const maxAdvance = 10 * 365 * 24 * time.Hour

// Options are the dependencies of a Sandbox.
type Options struct {
	DB      *db.DB
	Payroll *payroll.Service
	Claims  *claim.Service
	Miner   *Miner // mines the blocks of simulated chains

	BitcoinChain   string            // name of the Bitcoin chain in the database
	BitcoinNetwork string            // Bitcoin network, such as regtest
	Bitcoin        *bitcoinsim.Chain // simulated chain; nil if the service uses a real node
	Accounts       chain.EVMNetworks // EVM networks in use
	EVM            map[string]*evmsim.Chain
	SimulatedBank  bool
	Lightning      *lightningsim.Node // simulated Lightning node; nil if there is none
	Debits         *directdebit.Service
}

// Sandbox implements the sandbox operations of the API. It simulates payers, miners, the clock and the bank.
type Sandbox struct{ o Options }

var _ httpapi.Sandbox = (*Sandbox)(nil)

// New returns a Sandbox, or an error if a dependency is missing.
func New(o Options) (*Sandbox, error) {
	if o.DB == nil || o.Payroll == nil || o.Claims == nil || o.Miner == nil || o.Debits == nil || o.BitcoinChain == "" ||
		o.BitcoinNetwork == "" {
		return nil, errors.New(
			"sandbox: DB, Payroll, Claims, Miner, Debits, BitcoinChain and BitcoinNetwork are required")
	}
	return &Sandbox{o}, nil
}

// Advance advances the clock for every company and process that uses the database, and returns the new time. If the
// clock advances by an hour or more, the simulated bank immediately processes files and sends the statements of days
// that have ended.
func (s *Sandbox) Advance(ctx context.Context, by time.Duration) (now time.Time, err error) {
	if by < 0 || by > maxAdvance {
		return now, errClock
	}
	if err := s.o.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		tx.Notify(identity.NoticeRevoked) // credentials may have expired
		if s.o.SimulatedBank && by >= time.Hour {
			job.Enqueue(tx, job.New{CompanyID: ledger.Operator, Kind: jobBankWork})
		}
		return db.AdvanceClock(ctx, tx, by)
	}); err != nil {
		return now, err
	}
	return s.o.DB.Now(ctx)
}

func (s *Sandbox) advanceTo(ctx context.Context, at time.Time) error {
	now, err := s.o.DB.Now(ctx)
	if err != nil || !now.Before(at) {
		return err
	}
	_, err = s.Advance(ctx, at.Sub(now))
	return err
}

// FeeRate sets the fee rate of the simulated Bitcoin chain for every company, in satoshis per virtual byte, and
// returns the previous rate. Payouts use the new rate at once. Payouts of the caller's company that wait for a lower
// fee are retried immediately.
func (s *Sandbox) FeeRate(ctx context.Context, by identity.Principal, rate int64) (before int64, err error) {
	if s.o.Bitcoin == nil {
		return 0, errNotSimulated
	}
	if before, err = s.o.Bitcoin.SetFeeRate(ctx, rate); err != nil {
		return 0, err
	}
	return before, s.o.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		payout.EnqueuePrepare(tx, by.CompanyID, payout.RailBitcoin, time.Time{})
		return onchain.SetFeeRate(ctx, tx, s.o.BitcoinChain, rate)
	})
}
