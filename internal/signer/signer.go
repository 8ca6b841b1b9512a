// Package signer holds the private keys of the hot wallets in a process of its own, and signs what its policy permits.
//
// The service sends a PSBT (BIP 174) or an unsigned transaction of EIP-1559 over a Unix socket or mutual TLS. The
// signer takes nothing else from the service: it derives itself which outputs and addresses are the wallet's own, what
// leaves the wallet, for which fee, and to whom. Its own file has the policy: limits of each asset per transaction,
// hour and day, fee caps, kinds of destinations, how long a destination must be known, and the members of staff whose
// passkeys approve what is above a limit. It writes everything that it signs and refuses to a log whose entries are
// chained by hashes, before it signs, and computes its limits from that log. So a process that is stolen with all its
// secrets cannot take more than the policy permits.
//
// It never connects to a network, a node or the database.
package signer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/money"
)

// BitcoinChain is the name of the Bitcoin chain in requests.
const BitcoinChain = "bitcoin"

// Payment is an amount that leaves the wallet.
type Payment struct {
	Chain     string      `json:"chain"` // BitcoinChain or the name of an EVM network
	Asset     money.Asset `json:"asset"`
	Address   string      `json:"address"`
	Units     int64       `json:"units"`
	Reference string      `json:"reference,omitempty"` // ID of the output that is paid
}

// onlyFee reports whether the payment is one of a transaction from which only its fee leaves the wallet.
func (p Payment) onlyFee() bool { return p.Address == "" && p.Units == 0 }

func (p Payment) destination() string { return p.Chain + "/" + p.Address }

func (p Payment) amount() money.Amount { return money.New(p.Asset, p.Units) }

// Code is the reason of a refusal.
type Code string

// Codes.
const (
	Malformed        Code = "malformed"         // the request cannot be read, or contradicts itself
	NotPermitted     Code = "not_permitted"     // the policy permits no such transaction
	FeeTooHigh       Code = "fee_too_high"      // the fee is above the cap
	AboveLimit       Code = "above_limit"       // a limit per transaction, hour or day would be exceeded
	ApprovalRequired Code = "approval_required" // two members of staff must approve the payment
)

// Verdict is the decision about a payment or transaction.
type Verdict struct {
	Code   Code      `json:"code,omitempty"` // "" if it is permitted
	Detail string    `json:"detail,omitempty"`
	Until  time.Time `json:"until,omitzero"` // when it may be permitted without an approval; zero if never
}

// Refused is the error of a transaction that the signer does not sign.
type Refused struct{ Verdict }

func (r Refused) Error() string { return fmt.Sprintf("the signer refused (%s): %s", r.Code, r.Detail) }

func refuse(code Code, format string, args ...any) error {
	return Refused{Verdict{Code: code, Detail: fmt.Sprintf(format, args...)}}
}

// Keys signs with the private keys of a wallet. A path is a branch and an index below the account's key.
type Keys interface {
	// Sign returns the signature of a hash, r and s, by the key at a path.
	Sign(ctx context.Context, path bitcoin.KeyPath, hash []byte) ([64]byte, error)
	// Close erases the keys from memory.
	Close()
}

// Options configure a Service. Policy, Log, Alarm and Now are required, and the keys of at least one wallet.
type Options struct {
	Policy  Policy
	Log     *Log
	Bitcoin *Wallet[*bitcoin.Deriver]
	EVM     *Wallet[*evm.Deriver]
	Alarm   *slog.Logger
	Now     func() time.Time
}

// Wallet has the keys of a wallet and derives its addresses.
type Wallet[D any] struct {
	Deriver D
	Keys    Keys
}

// Service decides and signs. It is safe for concurrent use.
type Service struct {
	o Options

	mu   sync.Mutex
	past state
}

// New returns a service that continues the log.
func New(o Options) (*Service, error) {
	if o.Log == nil || o.Alarm == nil || o.Now == nil || o.Bitcoin == nil && o.EVM == nil {
		return nil, fmt.Errorf("signer: the log, the alarm, the clock or the keys are missing")
	}
	if err := o.Policy.check(o.Bitcoin != nil); err != nil {
		return nil, err
	}
	s := &Service{o: o, past: newState()}
	for _, e := range o.Log.entries {
		s.past.add(e)
	}
	o.Log.entries = nil
	return s, s.append(Entry{Kind: kindStart, Policy: o.Policy.digest})
}

// append writes an entry to the log and counts it.
func (s *Service) append(e Entry) error {
	e.Time = s.o.Now().UTC().Truncate(time.Microsecond)
	e, err := s.o.Log.Append(e)
	if err == nil {
		s.past.add(e)
	}
	return err
}

// transaction is what the signer itself found in a request.
type transaction struct {
	chain    string
	id       string   // its hash, for the log
	inputs   []string // what it spends: coins with their amounts, or the nonce of an account
	payments []Payment
	native   money.Asset
	fee      int64 // highest possible fee, in units of native
	vsize    int64 // Bitcoin only
}

// spends returns the identity of the inputs. Of transactions with the same inputs only one can be confirmed.
func (t transaction) spends() string {
	inputs := slices.Sorted(slices.Values(t.inputs))
	sum := sha256.Sum256([]byte(t.chain + "\n" + strings.Join(inputs, "\n")))
	return hex.EncodeToString(sum[:])
}

// totals returns what leaves the wallet, by asset.
func (t transaction) totals() map[money.Asset]int64 {
	sums := map[money.Asset]int64{}
	if t.fee > 0 {
		sums[t.native] = t.fee
	}
	for _, p := range t.payments {
		sums[p.Asset] += p.Units
	}
	return sums
}

// permit decides about a transaction. It logs the decision before it returns, so that what is signed is counted even if
// the process ends before the answer is sent.
func (s *Service) permit(t transaction, approvals []Approval) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past.forget(s.o.Now())
	used, err := s.decide(t, approvals)
	if err == nil {
		for _, p := range t.payments {
			delete(s.past.reserved, p.reservation())
		}
		return s.append(Entry{Kind: kindSign, Chain: t.chain, Transaction: t.id, Spends: t.spends(), Inputs: t.inputs,
			Payments: t.payments, Totals: t.totals(), Approvals: used})
	}
	s.alarm(t, err)
	return err
}

// alarm reports a refusal and writes it to the log, once an hour for each transaction and code, so that nobody fills
// the disk by asking.
func (s *Service) alarm(t transaction, err error) {
	var r Refused
	if !errors.As(err, &r) {
		s.o.Alarm.Error("the signer failed", "chain", t.chain, "transaction", t.id, "error", err)
		return
	}
	s.o.Alarm.Error("the signer refused a transaction", "chain", t.chain, "transaction", t.id, "code", r.Code, "detail",
		r.Detail)
	s.past.refused++
	if !s.past.firstRefusal(t.id+string(r.Code), s.o.Now()) {
		return
	}
	if err := s.append(Entry{Kind: kindRefuse, Chain: t.chain, Transaction: t.id, Payments: t.payments, Code: r.Code,
		Detail: r.Detail}); err != nil {
		s.o.Alarm.Error("a refusal was not logged", "error", err)
	}
}

// decide returns the approvals that a transaction uses, or why it is refused.
func (s *Service) decide(t transaction, approvals []Approval) (used []string, err error) {
	p, now := s.o.Policy, s.o.Now()
	// Each signature proves only the amount of its own input. Somebody who states different amounts of one coin could
	// combine signatures of two requests to one transaction with a huge fee.
	for _, in := range t.inputs {
		point, amount := splitInput(in)
		if before, known := s.past.coins[point]; known && before != amount {
			return nil, refuse(Malformed, "the coin %s had another amount before", point)
		}
	}
	if err := p.checkFee(t); err != nil {
		return nil, err
	}
	totals, spends := t.totals(), t.spends()
	for _, asset := range slices.Sorted(maps.Keys(totals)) {
		if err := s.within(asset, totals[asset], 0, spends, now); err != nil {
			return nil, err
		}
	}
	for _, payment := range t.payments {
		by, err := s.permitPayment(payment, approvals, used, spends, now)
		if err != nil {
			return nil, err
		}
		used = append(used, by...)
	}
	return used, nil
}

// within returns an error if an amount exceeds a limit, together with what was signed before, and with others that are
// about to be signed. Transactions with the same inputs count once.
func (s *Service) within(asset money.Asset, units, others int64, spends string, now time.Time) error {
	l, ok := s.o.Policy.limits[asset]
	if !ok {
		return refuse(NotPermitted, "the policy has no limits for %s", asset)
	}
	if units < 0 || units > l.transaction {
		return refuse(AboveLimit, "%s %s is above the limit of %s per transaction", money.New(asset, units), asset,
			money.New(asset, l.transaction))
	}
	for _, w := range []struct {
		name  string
		most  int64
		since time.Duration
	}{{"hour", l.hour, time.Hour}, {"day", l.day, 24 * time.Hour}} {
		if before := s.past.sum(asset, spends, now.Add(-w.since)) + others; before > w.most-units {
			r := Refused{Verdict{Code: AboveLimit, Detail: fmt.Sprintf("%s %s and the %s of the last %s are above the limit "+
				"of %s", money.New(asset, units), asset, money.New(asset, before), w.name, money.New(asset, w.most))}}
			if units <= w.most {
				r.Until = now.Add(w.since)
			}
			return r
		}
	}
	return nil
}

// permitPayment decides about one destination and amount. It returns the approvals that it used. before has those that
// other payments of the same request used.
func (s *Service) permitPayment(p Payment, approvals []Approval, before []string, spends string, now time.Time,
) ([]string, error) {
	l, ok := s.o.Policy.limits[p.Asset]
	if !ok || p.Units <= 0 {
		return nil, refuse(NotPermitted, "the policy has no limits for %s", p.Asset)
	}
	since, seen := s.past.seen[p.destination()]
	if !seen {
		if since = now; len(s.past.seen) >= maxDestinations {
			return nil, refuse(NotPermitted, "%d destinations are known, which is the maximum", maxDestinations)
		}
		if err := s.append(Entry{Kind: kindSeen, Chain: p.Chain, Payments: []Payment{{Chain: p.Chain, Asset: p.Asset,
			Address: p.Address}}}); err != nil {
			return nil, err
		}
	}
	known := since.Add(s.o.Policy.knownFor)
	permitted := s.o.Policy.allowed[p.Address] || !now.Before(known)
	if permitted && p.Units <= l.approvalAbove {
		return nil, nil
	}
	used, people := s.approved(p, approvals, before, spends, now)
	if people >= 2 {
		return used, nil
	}
	r := Refused{Verdict{Code: ApprovalRequired}}
	if p.Units > l.approvalAbove {
		r.Detail = fmt.Sprintf("%s %s is above %s: two members of staff must approve it", p.amount(), p.Asset,
			money.New(p.Asset, l.approvalAbove))
	} else {
		r.Detail = fmt.Sprintf("%s is known since %s: two members of staff must approve the payment before %s", p.Address,
			since.Format(time.RFC3339), known.Format(time.RFC3339))
		r.Until = known
	}
	return nil, r
}

// maxDestinations bounds the memory of known destinations, which any caller can add.
const maxDestinations = 5_000_000

// reservedFor is the time for which a permitted payment counts before it is signed.
const reservedFor = 2 * time.Minute

func (p Payment) reservation() string { return p.destination() + "/" + p.Reference }

// Check returns what the signer would decide about payments, without signing. Destinations are known from the first
// time that they are checked. A permitted payment counts for a short time as if it were signed, with the highest fee,
// so that payments which do not fit together are not prepared together. If together is true, the payments are outputs
// of one transaction, in order, and those that no longer fit into its limits are refused. A payment without an address
// and amount is a transaction that pays only its fee, such as one between the wallet's own addresses.
func (s *Service) Check(payments []Payment, approvals []Approval, together bool) []Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	s.past.forget(now)
	payments = slices.Clone(payments)
	refusals := make([]error, len(payments))
	for i, p := range payments {
		payments[i].Address, refusals[i] = s.o.Policy.payable(p)
		delete(s.past.reserved, payments[i].reservation())
	}
	var used []string
	verdicts := make([]Verdict, len(payments))
	sums := map[money.Asset]int64{}
	for i, p := range payments {
		by, err := []string(nil), refusals[i]
		if err == nil && !p.onlyFee() {
			by, err = s.permitPayment(p, approvals, used, "", now)
		}
		if err == nil {
			err = s.fits(p, sums[p.Asset], together, now)
		}
		if err == nil {
			used = append(used, by...)
			sums[p.Asset] += p.Units
			s.past.reserved[p.reservation()] = reserved{p.Asset, p.Units, now.Add(reservedFor)}
		}
		var r Refused
		if err != nil && !errors.As(err, &r) {
			r = Refused{Verdict{Code: Malformed, Detail: "the signer's log cannot be written"}}
		}
		verdicts[i] = r.Verdict
	}
	return verdicts
}

// fits returns an error if a payment and its fee do not fit into the limits. before is the sum of the payments of the
// same request.
func (s *Service) fits(p Payment, before int64, together bool, now time.Time) error {
	native := money.BTC
	if n, ok := s.o.Policy.evm[p.Chain]; ok {
		native = n.Native
	}
	fee, units, others := s.o.Policy.caps[p.Chain], p.Units, s.past.reservedSum(p.Asset)
	if p.Asset != native {
		if err := s.within(native, fee, s.past.reservedSum(native), "", now); err != nil {
			return err
		}
		fee = 0
	}
	if together {
		units, others = units+before, others-before
	}
	return s.within(p.Asset, units+fee, others, "", now)
}

// FeeCap is the highest fee that a policy permits on a chain.
type FeeCap struct {
	Fee  int64 `json:"fee"`            // per transaction, in units of the native asset
	Rate int64 `json:"rate,omitempty"` // Bitcoin only: satoshis per virtual byte
}

// Info describes a signer.
type Info struct {
	BitcoinXPub string `json:"bitcoin_xpub,omitempty"`
	EVMXPub     string `json:"evm_xpub,omitempty"`
	Policy      string `json:"policy"` // digest of the policy
	Entries     int64  `json:"entries"`
	Hash        string `json:"hash"`    // hash of the last entry of the log
	Refused     int64  `json:"refused"` // transactions refused since the start

	Fees map[string]FeeCap `json:"fees"` // by chain; others are not permitted
}

// Info returns the public keys, and where the log ends.
func (s *Service) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := Info{Policy: s.o.Policy.digest, Entries: s.o.Log.seq, Hash: s.o.Log.hash, Refused: s.past.refused,
		Fees: map[string]FeeCap{}}
	for chain, most := range s.o.Policy.caps {
		i.Fees[chain] = FeeCap{Fee: most}
	}
	if most, ok := i.Fees[BitcoinChain]; ok {
		most.Rate = s.o.Policy.Bitcoin.MaxFeeRate
		i.Fees[BitcoinChain] = most
	}
	if s.o.Bitcoin != nil {
		i.BitcoinXPub = s.o.Bitcoin.Deriver.XPub()
	}
	if s.o.EVM != nil {
		i.EVMXPub = s.o.EVM.Deriver.XPub()
	}
	return i
}
