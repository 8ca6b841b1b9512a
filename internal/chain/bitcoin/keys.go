package bitcoin

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcutil/v2/hdkeychain"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain"
)

// The version bytes of extended keys of BIP 84, which wallets use in addition to those of BIP 32.
var (
	zpub = []byte{0x04, 0xb2, 0x47, 0x46}
	zprv = []byte{0x04, 0xb2, 0x43, 0x0c}
	vpub = []byte{0x04, 0x5f, 0x1c, 0xf6}
	vprv = []byte{0x04, 0x5f, 0x18, 0xbc}
)

// accountDepth is the depth of an account key: m / purpose' / coin' / account'.
const accountDepth = 3

// Deriver derives the P2WPKH addresses of one account from its public key. It cannot sign. It is safe for concurrent
// use.
type Deriver struct {
	params   *chaincfg.Params
	account  string
	branches [2]parentKey
	cache    [cacheSize]atomic.Pointer[derived]
}

// cacheSize is the number of recent addresses that a Deriver caches. Each address is requested twice, by the pool
// that assigns it and by the watcher's address cache, and its derivation takes a tenth of the time of a claim.
const cacheSize = 4096

// derived is an address with its branch and index.
type derived struct {
	branch, index uint32
	address       string
}

// Signer signs for the addresses of one account. It is safe for concurrent use.
type Signer struct {
	deriver  *Deriver
	branches [2]*hdkeychain.ExtendedKey
}

// ParseXPub parses the extended public key of a BIP 84 account: xpub or zpub on network bitcoin, tpub or vpub
// elsewhere.
func ParseXPub(s, network string) (*Deriver, error) {
	key, params, err := parseKey(s, network)
	if err != nil {
		return nil, err
	}
	if key.IsPrivate() {
		return nil, errors.New("bitcoin: this is a private key; give the account's public one")
	}
	if key.Depth() != accountDepth {
		return nil, fmt.Errorf("bitcoin: the extended public key has depth %d; want that of m/84'/%d'/0', with depth %d",
			key.Depth(), params.HDCoinType, accountDepth)
	}
	return newDeriver(key, params)
}

// ParseXPriv parses an extended private key: the key of a BIP 84 account, or a master key, from which the first
// account is derived.
func ParseXPriv(s, network string) (*Signer, error) {
	key, params, err := parseKey(s, network)
	if err != nil {
		return nil, err
	}
	if !key.IsPrivate() {
		return nil, errors.New("bitcoin: this is a public key; signing needs the private one")
	}
	if key.Depth() == 0 {
		for _, i := range []uint32{84, params.HDCoinType, 0} {
			if key, err = key.Derive(hdkeychain.HardenedKeyStart + i); err != nil {
				return nil, fmt.Errorf("bitcoin: derive account: %w", err)
			}
		}
	}
	if key.Depth() != accountDepth {
		return nil, fmt.Errorf("bitcoin: the extended private key has depth %d; want a master key (0) or an account key (%d)",
			key.Depth(), accountDepth)
	}
	public, err := key.Neuter()
	if err != nil {
		return nil, fmt.Errorf("bitcoin: public key: %w", err)
	}
	d, err := newDeriver(public, params)
	if err != nil {
		return nil, err
	}
	branches, err := deriveBranches(key)
	if err != nil {
		return nil, err
	}
	return &Signer{deriver: d, branches: branches}, nil
}

// MasterFromSeed returns the extended private master key of a seed. It refuses network bitcoin, because it is meant
// for the sandbox and tests.
func MasterFromSeed(seed []byte, network string) (string, error) {
	params, err := Params(network)
	if err != nil {
		return "", err
	}
	if network == "bitcoin" {
		return "", errors.New("bitcoin: keys of network bitcoin are made in a wallet, never here")
	}
	key, err := hdkeychain.NewMaster(seed, params)
	if err != nil {
		return "", fmt.Errorf("bitcoin: master key: %w", err)
	}
	return key.String(), nil
}

func parseKey(s, network string) (*hdkeychain.ExtendedKey, *chaincfg.Params, error) {
	params, err := Params(network)
	if err != nil {
		return nil, nil, err
	}
	key, err := hdkeychain.NewKeyFromString(s)
	if err != nil {
		// The library's error may contain the key.
		return nil, nil, errors.New("bitcoin: this is not an extended key")
	}
	pub, priv := vpub, vprv
	if network == "bitcoin" {
		pub, priv = zpub, zprv
	}
	switch v := key.Version(); {
	case key.IsPrivate() && (bytes.Equal(v, params.HDPrivateKeyID[:]) || bytes.Equal(v, priv)):
	case !key.IsPrivate() && (bytes.Equal(v, params.HDPublicKeyID[:]) || bytes.Equal(v, pub)):
	default:
		return nil, nil, fmt.Errorf("bitcoin: this extended key is not one of network %s", network)
	}
	key.SetNet(params)
	return key, params, nil
}

func newDeriver(account *hdkeychain.ExtendedKey, params *chaincfg.Params) (*Deriver, error) {
	branches, err := deriveBranches(account)
	if err != nil {
		return nil, err
	}
	d := &Deriver{params: params, account: account.String()}
	for i, b := range branches {
		if d.branches[i], err = newParent(b); err != nil {
			return nil, fmt.Errorf("bitcoin: derive branch %d: %w", i, err)
		}
	}
	return d, nil
}

// parentKey derives child public keys (BIP 32) of an extended public key. It keeps the decoded point of the key,
// which the library would decode again for each child; that halves the time.
type parentKey struct {
	point      btcec.JacobianPoint
	compressed []byte
	chainCode  []byte
}

func newParent(key *hdkeychain.ExtendedKey) (p parentKey, err error) {
	pub, err := key.ECPubKey()
	if err != nil {
		return p, err
	}
	pub.AsJacobian(&p.point)
	p.compressed, p.chainCode = pub.SerializeCompressed(), key.ChainCode()
	return p, nil
}

var errNoKey = errors.New("this index has no key")

// child returns the public key at a non-hardened index.
func (p *parentKey) child(index uint32) (*btcec.PublicKey, error) {
	mac := hmac.New(sha512.New, p.chainCode)
	mac.Write(p.compressed)
	mac.Write(binary.BigEndian.AppendUint32(nil, index))
	var factor btcec.ModNScalar
	if overflow := factor.SetByteSlice(mac.Sum(nil)[:32]); overflow {
		return nil, errNoKey
	}
	var added, point btcec.JacobianPoint
	btcec.ScalarBaseMultNonConst(&factor, &added)
	btcec.AddNonConst(&added, &p.point, &point)
	if point.Z.IsZero() {
		return nil, errNoKey
	}
	point.ToAffine()
	return btcec.NewPublicKey(&point.X, &point.Y), nil
}

func deriveBranches(account *hdkeychain.ExtendedKey) (branches [2]*hdkeychain.ExtendedKey, err error) {
	for _, b := range []uint32{chain.External, chain.Change} {
		if branches[b], err = account.Derive(b); err != nil {
			return branches, fmt.Errorf("bitcoin: derive branch %d: %w", b, err)
		}
		// The library caches the public key of a private key at its first use, without a lock. Derive one child to fill the
		// cache.
		if _, err = branches[b].Derive(0); err != nil {
			return branches, fmt.Errorf("bitcoin: derive branch %d: %w", b, err)
		}
	}
	return branches, nil
}

// XPub returns the account's extended public key.
func (d *Deriver) XPub() string { return d.account }

// Address returns the P2WPKH address at an index of a branch.
func (d *Deriver) Address(branch, index uint32) (string, error) {
	kept := &d.cache[index%cacheSize]
	if k := kept.Load(); k != nil && k.branch == branch && k.index == index {
		return k.address, nil
	}
	a, err := d.derive(branch, index)
	if err != nil {
		return "", err
	}
	k := &derived{branch, index, a.EncodeAddress()}
	kept.Store(k)
	return k.address, nil
}

func (d *Deriver) derive(branch, index uint32) (*address.AddressWitnessPubKeyHash, error) {
	if branch > chain.Change || index >= hdkeychain.HardenedKeyStart {
		return nil, fmt.Errorf("bitcoin: no address at branch %d, index %d", branch, index)
	}
	pub, err := d.branches[branch].child(index)
	if err != nil {
		return nil, fmt.Errorf("bitcoin: derive %d/%d: %w", branch, index, err)
	}
	return address.NewAddressWitnessPubKeyHash(address.Hash160(pub.SerializeCompressed()), d.params)
}

// Deriver returns the deriver of the addresses that the signer signs for.
func (s *Signer) Deriver() *Deriver { return s.deriver }

// Sign signs every input of a transaction, and verifies the signatures. The coins must be in the order of the inputs.
// Sign is deterministic, and does not change its argument.
func (s *Signer) Sign(unsigned *wire.MsgTx, inputs []chain.WalletCoin) (raw []byte, txid string, err error) {
	if len(unsigned.TxIn) != len(inputs) {
		return nil, "", fmt.Errorf("bitcoin: sign: %d inputs but %d coins", len(unsigned.TxIn), len(inputs))
	}
	tx := unsigned.Copy()
	fetcher := txscript.NewMultiPrevOutFetcher(nil)
	scripts := make([][]byte, len(inputs))
	for i, c := range inputs {
		hash, err := chainhash.NewHashFromStr(c.TxID)
		if err != nil {
			return nil, "", fmt.Errorf("bitcoin: sign: coin %s: %w", c.TxID, err)
		}
		if op := (wire.OutPoint{Hash: *hash, Index: c.Vout}); tx.TxIn[i].PreviousOutPoint != op {
			return nil, "", fmt.Errorf("bitcoin: sign: input %d spends %v, coin is %v", i, tx.TxIn[i].PreviousOutPoint, op)
		}
		a, err := s.deriver.derive(c.Branch, c.Index)
		if err != nil {
			return nil, "", err
		}
		if a.EncodeAddress() != c.Address {
			return nil, "", fmt.Errorf("bitcoin: sign: the wallet's address at %d/%d is not %s", c.Branch, c.Index, c.Address)
		}
		if scripts[i], err = txscript.PayToAddrScript(a); err != nil {
			return nil, "", fmt.Errorf("bitcoin: sign: %w", err)
		}
		fetcher.AddPrevOut(tx.TxIn[i].PreviousOutPoint, wire.NewTxOut(c.Amount, scripts[i]))
	}
	sums := txscript.NewTxSigHashes(tx, fetcher)
	for i, c := range inputs {
		private, err := s.PrivateKey(c.Branch, c.Index)
		if err != nil {
			return nil, "", err
		}
		tx.TxIn[i].SignatureScript = nil
		tx.TxIn[i].Witness, err = txscript.WitnessSignature(tx, sums, i, c.Amount, scripts[i], txscript.SigHashAll, private,
			true)
		private.Zero()
		if err != nil {
			return nil, "", fmt.Errorf("bitcoin: sign input %d: %w", i, err)
		}
	}
	if err := Verify(tx, fetcher); err != nil {
		return nil, "", err
	}
	return Serialize(tx), tx.TxID(), nil
}

// PrivateKey returns the private key at an index of a branch. The caller erases it by Zero.
func (s *Signer) PrivateKey(branch, index uint32) (*btcec.PrivateKey, error) {
	if branch > chain.Change || index >= hdkeychain.HardenedKeyStart {
		return nil, fmt.Errorf("bitcoin: no key at branch %d, index %d", branch, index)
	}
	key, err := s.branches[branch].Derive(index)
	if err != nil {
		return nil, fmt.Errorf("bitcoin: derive %d/%d: %w", branch, index, err)
	}
	private, err := key.ECPrivKey()
	if err != nil {
		return nil, fmt.Errorf("bitcoin: derive %d/%d: %w", branch, index, err)
	}
	return private, nil
}

// Verify executes the script of every input against the output that it spends.
func Verify(tx *wire.MsgTx, coins txscript.PrevOutputFetcher) error {
	sums := txscript.NewTxSigHashes(tx, coins)
	for i, in := range tx.TxIn {
		out := coins.FetchPrevOutput(in.PreviousOutPoint)
		if out == nil {
			return fmt.Errorf("bitcoin: input %d spends an unknown output", i)
		}
		vm, err := txscript.NewEngine(out.PkScript, tx, i, txscript.StandardVerifyFlags, nil, sums, out.Value, coins)
		if err != nil {
			return fmt.Errorf("bitcoin: input %d: %w", i, err)
		}
		if err := vm.Execute(); err != nil {
			return fmt.Errorf("bitcoin: input %d: %w", i, err)
		}
	}
	return nil
}
