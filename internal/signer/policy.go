package signer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/go-webauthn/webauthn/protocol/webauthncose"

	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/money"
)

// Policy is what a signer permits. Amounts are decimals. What the policy does not name is refused.
type Policy struct {
	// Assets has the limits of each asset that may leave the wallets, including fees in it.
	Assets map[money.Asset]Limits `json:"assets"`
	// Bitcoin has the rules of Bitcoin transactions.
	Bitcoin BitcoinRules `json:"bitcoin"`
	// EVM has the rules of each permitted EVM network, by its name.
	EVM          map[string]EVMRules `json:"evm"`
	Destinations Destinations        `json:"destinations"`
	Approvers    []Approver          `json:"approvers"`

	limits   map[money.Asset]limits
	knownFor time.Duration
	allowed  map[string]bool
	evm      map[string]evm.Network
	caps     map[string]int64 // maximum fee, by chain
	digest   string
}

// Limits are the limits of one asset. ApprovalAbove is the amount of a payment above which two approvals are required.
type Limits struct {
	Transaction   string `json:"transaction"`
	Hour          string `json:"hour"`
	Day           string `json:"day"`
	ApprovalAbove string `json:"approval_above"`
}

type limits struct{ transaction, hour, day, approvalAbove int64 }

// BitcoinRules limit the fees of Bitcoin transactions and the scripts that they pay.
type BitcoinRules struct {
	Network     string   `json:"network"`
	ScriptTypes []string `json:"script_types"` // p2wpkh, p2wsh, p2tr, p2pkh or p2sh
	MaxFee      string   `json:"max_fee"`      // BTC per transaction
	MaxFeeRate  int64    `json:"max_fee_rate"` // satoshis per virtual byte
}

// EVMRules limit the fees on one EVM network. ChainID and Tokens replace those of the registry on a test network.
type EVMRules struct {
	MaxFee  string                 `json:"max_fee"` // native coin per transaction
	ChainID uint64                 `json:"chain_id,omitempty"`
	Tokens  map[money.Asset]string `json:"tokens,omitempty"`
}

// Destinations says which destinations may be paid without an approval.
type Destinations struct {
	KnownFor string   `json:"known_for"` // how long ago the signer first heard of a destination, such as 24h
	Allowed  []string `json:"allowed"`   // addresses that need not be known, such as the cold wallet's
}

// Approver is a member of staff who may approve payments by a passkey.
type Approver struct {
	Name       string `json:"name"`
	Credential string `json:"credential"` // ID of the passkey, base64url
	PublicKey  []byte `json:"public_key"` // COSE key, base64
	Origin     string `json:"origin"`     // of the pages on which the passkey is used
	RPID       string `json:"rp_id"`
}

// LoadPolicy reads a policy from a file. It refuses a file that others than its owner may write.
func LoadPolicy(path string) (Policy, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Policy{}, err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return Policy{}, fmt.Errorf("signer: others may write %s; run chmod go-w on it", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Policy{}, err
	}
	p, err := ParsePolicy(text)
	if err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// ParsePolicy parses a policy. It refuses unknown members.
func ParsePolicy(text []byte) (p Policy, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, err
	}
	sum := sha256.Sum256(text)
	p.digest = hex.EncodeToString(sum[:])
	p.limits, p.allowed = map[money.Asset]limits{}, map[string]bool{}
	p.evm, p.caps = map[string]evm.Network{}, map[string]int64{}
	for asset, l := range p.Assets {
		var parsed limits
		for _, f := range []struct {
			name, text string
			into       *int64
		}{
			{"transaction", l.Transaction, &parsed.transaction}, {"hour", l.Hour, &parsed.hour},
			{"day", l.Day, &parsed.day}, {"approval_above", l.ApprovalAbove, &parsed.approvalAbove},
		} {
			if *f.into, err = units(asset, f.text); err != nil {
				return p, fmt.Errorf("assets.%s.%s: %w", asset, f.name, err)
			}
		}
		p.limits[asset] = parsed
	}
	if p.knownFor, err = time.ParseDuration(p.Destinations.KnownFor); err != nil || p.knownFor < 0 {
		return p, errors.New("destinations.known_for must be a duration such as 24h")
	}
	for _, a := range p.Destinations.Allowed {
		p.allowed[a] = true
		if known, err := evm.ParseAddress(a); err == nil {
			p.allowed[known.String()] = true
		}
	}
	if p.Bitcoin.MaxFee != "" {
		if p.caps[BitcoinChain], err = units(money.BTC, p.Bitcoin.MaxFee); err != nil {
			return p, fmt.Errorf("bitcoin.max_fee: %w", err)
		}
	}
	for name, r := range p.EVM {
		n, err := r.network(name)
		if err != nil {
			return p, fmt.Errorf("evm.%s: %w", name, err)
		}
		p.evm[name] = n
		if p.caps[name], err = units(n.Native, r.MaxFee); err != nil {
			return p, fmt.Errorf("evm.%s.max_fee: %w", name, err)
		}
	}
	seen := map[string]bool{}
	for i, a := range p.Approvers {
		if a.Name == "" || a.Credential == "" || a.Origin == "" || a.RPID == "" || seen[a.Name] || seen[a.Credential] {
			return p, fmt.Errorf("approvers[%d] needs a name, credential, origin and rp_id that no other one has", i)
		}
		seen[a.Name], seen[a.Credential] = true, true
		if _, err := webauthncose.ParsePublicKey(a.PublicKey); err != nil {
			return p, fmt.Errorf("approvers[%d].public_key is not a COSE key", i)
		}
	}
	return p, nil
}

// network returns the network with its rules.
func (r EVMRules) network(name string) (evm.Network, error) {
	n, err := evm.Lookup(name)
	if err != nil {
		return n, err
	}
	if r.ChainID != 0 {
		n.ChainID, n.Tokens = r.ChainID, nil
		for asset, contract := range r.Tokens {
			a, err := evm.ParseAddress(contract)
			if err != nil {
				return n, err
			}
			n.Tokens = append(n.Tokens, evm.Token{Asset: asset, Contract: a.String()})
		}
	} else if len(r.Tokens) > 0 {
		return n, errors.New("tokens need a chain_id of a test network")
	}
	return n, nil
}

// units parses a positive or zero amount.
func units(asset money.Asset, text string) (int64, error) {
	known, ok := money.Lookup(string(asset))
	if !ok || !known.IsCrypto() {
		return 0, fmt.Errorf("%q is not an asset that can be sent", asset)
	}
	a, err := money.Parse(known, text)
	if err != nil || a.Sign() < 0 {
		return 0, fmt.Errorf("%q is not an amount", text)
	}
	return a.Units(), nil
}

// check returns an error if rules are missing that the wallets require.
func (p Policy) check(withBitcoin bool) error {
	if p.digest == "" {
		return errors.New("signer: the policy was not parsed")
	}
	if withBitcoin && (p.Bitcoin.Network == "" || len(p.Bitcoin.ScriptTypes) == 0 || p.caps[BitcoinChain] == 0 ||
		p.Bitcoin.MaxFeeRate <= 0) {
		return errors.New("signer: the policy needs bitcoin.network, script_types, max_fee and max_fee_rate")
	}
	for asset, l := range p.limits {
		if l.transaction > l.hour || l.hour > l.day {
			return fmt.Errorf("signer: the limits of %s must not decrease from transaction to hour to day", asset)
		}
	}
	if n := len(p.Approvers); n == 1 {
		return errors.New("signer: the policy names one approver; two are required, or none if nothing can be approved")
	}
	return nil
}

// checkFee returns an error if the fee of a transaction is above the caps.
func (p Policy) checkFee(t transaction) error {
	most, ok := p.caps[t.chain]
	switch {
	case !ok:
		return refuse(NotPermitted, "the policy does not permit %s", t.chain)
	case t.fee < 0:
		return refuse(Malformed, "the transaction pays more than it spends")
	case t.fee > most:
		return refuse(FeeTooHigh, "the fee of %s %s is above the cap of %s", money.New(t.native, t.fee), t.native,
			money.New(t.native, most))
	case t.vsize > 0 && t.fee > t.vsize*p.Bitcoin.MaxFeeRate:
		return refuse(FeeTooHigh, "the fee is above %d satoshis per virtual byte", p.Bitcoin.MaxFeeRate)
	}
	return nil
}

// payable returns the address of a payment as the signer finds it in a transaction, or an error if the policy permits
// no transaction that pays it.
func (p Policy) payable(pay Payment) (address string, err error) {
	if _, ok := p.caps[pay.Chain]; !ok {
		return pay.Address, refuse(NotPermitted, "the policy does not permit %s", pay.Chain)
	}
	n, ok := p.evm[pay.Chain]
	if pay.onlyFee() && pay.Asset == n.Native && ok {
		return "", nil
	}
	if ok {
		to, err := evm.ParseAddress(pay.Address)
		if err != nil {
			return pay.Address, refuse(NotPermitted, "%s is not an address on %s", pay.Address, pay.Chain)
		}
		if _, known := n.Contract(pay.Asset); !known && pay.Asset != n.Native {
			return pay.Address, refuse(NotPermitted, "the policy does not permit %s on %s", pay.Asset, pay.Chain)
		}
		return to.String(), nil
	}
	if pay.Asset != money.BTC {
		return pay.Address, refuse(NotPermitted, "the policy does not permit %s on %s", pay.Asset, pay.Chain)
	}
	script, err := bitcoin.AddressScript(pay.Address, p.Bitcoin.Network)
	if err != nil {
		return pay.Address, refuse(NotPermitted, "%s is not an address on %s", pay.Address, p.Bitcoin.Network)
	}
	if kind := bitcoin.ScriptType(script); !p.paysScript(kind) {
		return pay.Address, refuse(NotPermitted, "the policy does not permit the script of %s", pay.Address)
	}
	address, err = bitcoin.ScriptAddress(script, p.Bitcoin.Network)
	if err != nil {
		return pay.Address, refuse(NotPermitted, "%s has no script that can be paid", pay.Address)
	}
	return address, nil
}

// paysScript reports whether the policy permits outputs of a type of script.
func (p Policy) paysScript(kind string) bool {
	return kind != "" && slices.Contains(p.Bitcoin.ScriptTypes, kind)
}
