package evm

import (
	"errors"
	"fmt"
	"strings"

	"github.com/btcsuite/btcd/btcutil/v2/hdkeychain"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/stipend/stipend/internal/chain"
)

// accountDepth is the depth of an account key: m / 44' / 60' / 0'.
const accountDepth = 3

// Deriver derives the addresses of one account (BIP 44) from its public key. It cannot sign. The addresses are the
// same on every EVM network. It is safe for concurrent use.
type Deriver struct {
	account  string
	branches [2]*hdkeychain.ExtendedKey
	hot      string // the hot address if its key is not derived, or ""
}

// Signer signs for the addresses of one account. It is safe for concurrent use.
type Signer struct {
	deriver  *Deriver
	branches [2]*hdkeychain.ExtendedKey
}

// ParseXPub parses the extended public key (xpub) of the account m/44'/60'/0'. If the key of the hot address is not
// derived from it, a comma and the hot address follow.
func ParseXPub(s string) (*Deriver, error) {
	s, hot, external := strings.Cut(s, ",")
	key, err := parseKey(s)
	switch {
	case err != nil:
		return nil, err
	case key.IsPrivate():
		return nil, errors.New("evm: this is a private key; give the account's public one")
	case key.Depth() != accountDepth:
		return nil, fmt.Errorf("evm: the extended public key has depth %d; want an account's key, m/44'/60'/0', of depth %d",
			key.Depth(), accountDepth)
	}
	d, err := newDeriver(key)
	if err != nil || !external {
		return d, err
	}
	address, err := ParseAddress(hot)
	if err != nil {
		return nil, fmt.Errorf("evm: %q after the extended public key is not an address: %w", hot, err)
	}
	return d.WithHot(address), nil
}

// WithHot returns a deriver whose hot address has a key that is not derived from the account.
func (d *Deriver) WithHot(hot Address) *Deriver {
	copied := *d
	copied.hot = hot.String()
	return &copied
}

// ParseXPriv parses an extended private key (xprv): that of the account, or a master key, from which the account is
// derived.
func ParseXPriv(s string) (*Signer, error) {
	key, err := parseKey(s)
	if err != nil {
		return nil, err
	}
	if !key.IsPrivate() {
		return nil, errors.New("evm: this is a public key; signing needs the private one")
	}
	if key.Depth() == 0 {
		if key, err = Account(key); err != nil {
			return nil, err
		}
	}
	if key.Depth() != accountDepth {
		return nil, fmt.Errorf("evm: the extended private key has depth %d; want a master key (0) or an account's key (%d)",
			key.Depth(), accountDepth)
	}
	public, err := key.Neuter()
	if err != nil {
		return nil, fmt.Errorf("evm: public key: %w", err)
	}
	d, err := newDeriver(public)
	if err != nil {
		return nil, err
	}
	branches, err := deriveBranches(key)
	if err != nil {
		return nil, err
	}
	return &Signer{deriver: d, branches: branches}, nil
}

// Account derives m/44'/60'/0' from a master key.
func Account(master *hdkeychain.ExtendedKey) (key *hdkeychain.ExtendedKey, err error) {
	key = master
	for _, i := range []uint32{44, 60, 0} {
		if key, err = key.Derive(hdkeychain.HardenedKeyStart + i); err != nil {
			return nil, fmt.Errorf("evm: derive account: %w", err)
		}
	}
	return key, nil
}

// MasterFromSeed returns the extended private master key of a seed.
func MasterFromSeed(seed []byte) (string, error) {
	key, err := hdkeychain.NewMaster(seed, &chaincfg.MainNetParams)
	if err != nil {
		return "", fmt.Errorf("evm: master key: %w", err)
	}
	return key.String(), nil
}

func parseKey(s string) (*hdkeychain.ExtendedKey, error) {
	key, err := hdkeychain.NewKeyFromString(s)
	if err != nil || !key.IsForNet(&chaincfg.MainNetParams) {
		// The library's error may contain the key.
		return nil, errors.New("evm: this is not an extended key, an xpub or xprv")
	}
	return key, nil
}

func newDeriver(account *hdkeychain.ExtendedKey) (*Deriver, error) {
	branches, err := deriveBranches(account)
	if err != nil {
		return nil, err
	}
	return &Deriver{account: account.String(), branches: branches}, nil
}

func deriveBranches(account *hdkeychain.ExtendedKey) (branches [2]*hdkeychain.ExtendedKey, err error) {
	for _, b := range []uint32{chain.External, chain.Change} {
		if branches[b], err = account.Derive(b); err != nil {
			return branches, fmt.Errorf("evm: derive branch %d: %w", b, err)
		}
		// The library caches the public key of a private key at its first use, without a lock. Derive one child to fill the
		// cache.
		if _, err = branches[b].Derive(0); err != nil {
			return branches, fmt.Errorf("evm: derive branch %d: %w", b, err)
		}
	}
	return branches, nil
}

// XPub returns what ParseXPub parses: the account's extended public key, and the hot address if it is not derived.
func (d *Deriver) XPub() string {
	if d.hot != "" {
		return d.account + "," + d.hot
	}
	return d.account
}

// Address returns the address at an index of a branch.
func (d *Deriver) Address(branch, index uint32) (string, error) {
	if branch > chain.Change || index >= hdkeychain.HardenedKeyStart {
		return "", fmt.Errorf("evm: no address at branch %d, index %d", branch, index)
	}
	if d.hot != "" && branch == chain.Change && index == 0 {
		return d.hot, nil
	}
	key, err := d.branches[branch].Derive(index)
	if err != nil {
		return "", fmt.Errorf("evm: derive %d/%d: %w", branch, index, err)
	}
	compressed, err := key.ECPubKey()
	if err != nil {
		return "", fmt.Errorf("evm: derive %d/%d: %w", branch, index, err)
	}
	public, err := secp256k1.ParsePubKey(compressed.SerializeCompressed())
	if err != nil {
		return "", fmt.Errorf("evm: derive %d/%d: %w", branch, index, err)
	}
	return addressOf(public).String(), nil
}

// AddressOf returns the address of a public key.
func AddressOf(key *secp256k1.PublicKey) Address { return addressOf(key) }

// HotAddress returns the address that payouts are sent from and deposits are swept to: the first of the change branch.
func (d *Deriver) HotAddress() (string, error) { return d.Address(chain.Change, 0) }

// Deriver returns the deriver of the addresses that the signer signs for.
func (s *Signer) Deriver() *Deriver { return s.deriver }

// Sign signs a transaction with the key at an index of a branch.
func (s *Signer) Sign(t Tx, branch, index uint32) (raw []byte, txid string, err error) {
	own, err := s.PrivateKey(branch, index)
	if err != nil {
		return nil, "", err
	}
	defer own.Zero()
	raw, txid = t.sign(own)
	return raw, txid, nil
}

// PrivateKey returns the private key at an index of a branch. The caller erases it by Zero.
func (s *Signer) PrivateKey(branch, index uint32) (*secp256k1.PrivateKey, error) {
	if branch > chain.Change || index >= hdkeychain.HardenedKeyStart {
		return nil, fmt.Errorf("evm: no key at branch %d, index %d", branch, index)
	}
	key, err := s.branches[branch].Derive(index)
	if err != nil {
		return nil, fmt.Errorf("evm: derive %d/%d: %w", branch, index, err)
	}
	private, err := key.ECPrivKey()
	if err != nil {
		return nil, fmt.Errorf("evm: derive %d/%d: %w", branch, index, err)
	}
	defer private.Zero()
	return secp256k1.PrivKeyFromBytes(private.Serialize()), nil
}

// PublicKey returns the public account key of a private or public one, "" if key is malformed.
func PublicKey(key string) string {
	if s, err := ParseXPriv(key); err == nil {
		return s.Deriver().XPub()
	}
	d, err := ParseXPub(key)
	if err != nil {
		return ""
	}
	return d.XPub()
}
