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

// The version bytes that wallets put before an extended key of BIP84, beside the ones of BIP32.
var (
	zpub = []byte{0x04, 0xb2, 0x47, 0x46}
	zprv = []byte{0x04, 0xb2, 0x43, 0x0c}
	vpub = []byte{0x04, 0x5f, 0x1c, 0xf6}
	vprv = []byte{0x04, 0x5f, 0x18, 0xbc}
)

// accountDepth is how deep the key of an account lies: m / purpose' / coin' / account'.
const accountDepth = 3

// Deriver makes the P2WPKH addresses of one account from its public key. It cannot spend. Safe for concurrent use.
type Deriver struct {
	params   *chaincfg.Params
	account  string
	branches [2]parentKey
	cache    [cacheSize]atomic.Pointer[derived]
}

// keptAddresses is how many of the addresses that were lately asked for a Deriver keeps. Each is asked for twice, by the pool that gives
// it out and by the watcher that remembers whose it is, and working one out is a tenth of all that a claim costs.
const cacheSize = 4096

// derived is an address with its place.
type derived struct {
	branch, index uint32
	address       string
}

// Signer signs for one account. Safe for concurrent use.
type Signer struct {
	deriver  *Deriver
	branches [2]*hdkeychain.ExtendedKey
}

// ParseXPub reads the extended public key of a BIP84 account: xpub or zpub on network bitcoin, tpub or vpub elsewhere.
func ParseXPub(s, network string) (*Deriver, error) {
	key, params, err := parseKey(s, network)
	if err != nil {
		return nil, err
	}
	if key.IsPrivate() {
		return nil, errors.New("bitcoin: this is a private key; give the account's public one")
	}
	if key.Depth() != accountDepth {
		return nil, fmt.Errorf("bitcoin: the extended public key has depth %d; want an account's key, m/84'/%d'/0', of depth %d",
			key.Depth(), params.HDCoinType, accountDepth)
	}
	return newDeriver(key, params)
}

// ParseXPriv reads an extended private key: that of a BIP84 account, or a master key, whose first account is then used.
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
		return nil, fmt.Errorf("bitcoin: the extended private key has depth %d; want a master key (0) or an account's key (%d)",
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

// MasterFromSeed is the extended private master key of a seed, for networks without value: the sandbox and tests.
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
		// The error of the library may repeat the key.
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

// parentKey is an extended public key whose children are public keys by BIP32. It keeps the key's point, which the library works out from
// its text for each child, as it does the child's: half of what a child costs.
type parentKey struct {
	point      btcec.JacobianPoint
	compressed []byte // compressed
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

// child is the public key at an index that is not hardened.
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
		// The library keeps the public key of a private one when it first needs it, without a lock: let it do so now.
		if _, err = branches[b].Derive(0); err != nil {
			return branches, fmt.Errorf("bitcoin: derive branch %d: %w", b, err)
		}
	}
	return branches, nil
}

// XPub is the account's extended public key.
func (d *Deriver) XPub() string { return d.account }

// Address is the P2WPKH address at an index of a branch.
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

// Deriver makes the addresses that the signer can spend from.
func (s *Signer) Deriver() *Deriver { return s.deriver }

// Sign signs every input of the transaction, whose coins are given in the same order, and checks the result by running the
// scripts. The same transaction always gives the same bytes. The argument is left unsigned.
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
		key, err := s.branches[c.Branch].Derive(c.Index)
		if err != nil {
			return nil, "", fmt.Errorf("bitcoin: derive %d/%d: %w", c.Branch, c.Index, err)
		}
		private, err := key.ECPrivKey()
		if err != nil {
			return nil, "", fmt.Errorf("bitcoin: derive %d/%d: %w", c.Branch, c.Index, err)
		}
		tx.TxIn[i].SignatureScript = nil
		tx.TxIn[i].Witness, err = txscript.WitnessSignature(tx, sums, i, c.Amount, scripts[i], txscript.SigHashAll, private, true)
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

// Verify runs the scripts of every input against the outputs it spends.
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
