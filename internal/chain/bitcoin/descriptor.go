package bitcoin

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/btcsuite/btcd/btcutil/v2/hdkeychain"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/txscript/v2"
)

// ReceiverError is a reason for which ParseReceiver refuses a text: a sentence for the person who entered it. It never
// contains the key.
type ReceiverError string

func (e ReceiverError) Error() string { return string(e) }

// Errors of ParseReceiver.
const (
	ErrPrivateKey ReceiverError = "This is a private key. Never enter it anywhere; give the public one (xpub, zpub)."
	ErrDescriptor ReceiverError = "This is not an extended public key (xpub, zpub) or an output descriptor with wpkh, " +
		"sh(wpkh), tr or pkh, one key and /* at the end."
	ErrChecksum   ReceiverError = "The checksum of this descriptor is wrong. Copy it again from the wallet."
	ErrKeyNetwork ReceiverError = "This is an extended key of another Bitcoin network."
	ErrKeyDepth   ReceiverError = "This is not the extended public key of an account. Copy the one that the wallet " +
		"shows for the account, or an output descriptor."
)

// Receiver derives the receiving addresses of someone else's wallet. It cannot sign.
type Receiver struct {
	params *chaincfg.Params
	script string
	branch *hdkeychain.ExtendedKey
}

var (
	descriptorForm = regexp.MustCompile(`^(wpkh|pkh|tr|sh\(wpkh)\(([^()]*)\)(\)?)(?:#([a-z0-9]{8}))?$`)
	keyForm        = regexp.MustCompile(`^(?:\[[0-9a-fA-F]{8}(?:/[0-9]+['hH]?)*\])?([1-9A-HJ-NP-Za-km-z]+)((?:/[0-9]+)*` +
		`(?:/<[0-9]+;[0-9]+>)?(?:/[0-9]+)*)/\*$`)
)

// ParseReceiver parses the extended public key of an account, or an output descriptor with one such key (BIP 380 to
// 386, 389). The addresses of a plain key are P2WPKH, on its receiving branch. Of a descriptor with two branches the
// first one is used. It returns one of the errors above for any other text.
func ParseReceiver(text, network string) (*Receiver, error) {
	r, key, path := &Receiver{script: "wpkh"}, text, "/0"
	if strings.Contains(text, "(") {
		m := descriptorForm.FindStringSubmatch(text)
		if m == nil || (m[1] == "sh(wpkh") != (m[3] == ")") {
			return nil, privateOr(text, ErrDescriptor)
		}
		if body, sum, _ := strings.Cut(text, "#"); sum != "" && descriptorChecksum(body) != sum {
			return nil, ErrChecksum
		}
		k := keyForm.FindStringSubmatch(m[2])
		if k == nil {
			return nil, privateOr(text, ErrDescriptor)
		}
		r.script, key, path = m[1], k[1], k[2]
	}
	extended, params, err := parseKey(key, network)
	switch _, malformed := hdkeychain.NewKeyFromString(key); {
	case malformed != nil:
		return nil, privateOr(text, ErrDescriptor)
	case err != nil:
		return nil, privateOr(text, ErrKeyNetwork)
	case extended.IsPrivate():
		return nil, ErrPrivateKey
	case key == text && extended.Depth() != accountDepth:
		return nil, ErrKeyDepth
	}
	r.params, r.branch = params, extended
	for step := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if step == "" {
			continue
		}
		step, _, _ = strings.Cut(strings.TrimPrefix(step, "<"), ";")
		n, err := strconv.ParseUint(step, 10, 31)
		if err != nil {
			return nil, ErrDescriptor
		}
		if r.branch, err = r.branch.Derive(uint32(n)); err != nil {
			return nil, ErrDescriptor
		}
	}
	if _, err := r.Address(0); err != nil {
		return nil, ErrDescriptor
	}
	return r, nil
}

// privateOr returns ErrPrivateKey for a text that contains an extended private key, and otherwise err.
func privateOr(text string, err error) error {
	for _, prefix := range []string{"xprv", "yprv", "zprv", "tprv", "uprv", "vprv"} {
		if strings.Contains(text, prefix) {
			return ErrPrivateKey
		}
	}
	return err
}

// ID identifies the sequence of addresses: two texts for the same addresses have the same ID.
func (r *Receiver) ID() string {
	sum := sha256.Sum256([]byte(r.script + " " + r.branch.String()))
	return hex.EncodeToString(sum[:])
}

// Address returns the address at an index.
func (r *Receiver) Address(index uint32) (string, error) {
	if index >= hdkeychain.HardenedKeyStart {
		return "", fmt.Errorf("bitcoin: no address at index %d", index)
	}
	child, err := r.branch.Derive(index)
	if err != nil {
		return "", fmt.Errorf("bitcoin: derive address %d: %w", index, err)
	}
	key, err := child.ECPubKey()
	if err != nil {
		return "", fmt.Errorf("bitcoin: derive address %d: %w", index, err)
	}
	hash := address.Hash160(key.SerializeCompressed())
	var a address.Address
	switch r.script {
	case "wpkh":
		a, err = address.NewAddressWitnessPubKeyHash(hash, r.params)
	case "pkh":
		a, err = address.NewAddressPubKeyHash(hash, r.params)
	case "tr":
		a, err = address.NewAddressTaproot(schnorr.SerializePubKey(txscript.ComputeTaprootKeyNoScript(key)), r.params)
	default: // sh(wpkh
		a, err = address.NewAddressScriptHash(append([]byte{txscript.OP_0, txscript.OP_DATA_20}, hash...), r.params)
	}
	if err != nil {
		return "", fmt.Errorf("bitcoin: address %d: %w", index, err)
	}
	return a.EncodeAddress(), nil
}

// descriptorChecksum returns the checksum of a descriptor (BIP 380), or "" for one with other characters.
func descriptorChecksum(descriptor string) string {
	const input = "0123456789()[],'/*abcdefgh@:$%{}IJKLMNOPQRSTUVWXYZ&+-.;<=>?!^_|~ijklmnopqrstuvwxyzABCDEFGH`#\"\\ "
	const output = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	c := uint64(1)
	step := func(value uint64) {
		top := c >> 35
		c = c&0x7ffffffff<<5 ^ value
		for i, g := range [...]uint64{0xf5dee51989, 0xa9fdca3312, 0x1bab10e32d, 0x3706b1677a, 0x644d626ffd} {
			if top>>i&1 == 1 {
				c ^= g
			}
		}
	}
	group, count := uint64(0), 0
	for i := range len(descriptor) {
		at := strings.IndexByte(input, descriptor[i])
		if at < 0 {
			return ""
		}
		step(uint64(at) & 31)
		group = group*3 + uint64(at)>>5
		if count++; count == 3 {
			step(group)
			group, count = 0, 0
		}
	}
	if count > 0 {
		step(group)
	}
	for range 8 {
		step(0)
	}
	c ^= 1
	sum := make([]byte, 8)
	for i := range sum {
		sum[i] = output[c>>(5*(7-i))&31]
	}
	return string(sum)
}
