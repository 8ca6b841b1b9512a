package lightning

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/btcsuite/btcd/address/v2/bech32"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
)

// Request is a BOLT 11 payment request, without fields that only a payer needs.
type Request struct {
	Network string // "bitcoin", "testnet", "signet" or "regtest"
	Msat    int64  // millisatoshis; 0 if the payer chooses the amount
	Hash    Hash
	Created time.Time // creation time, in whole seconds
	Expiry  time.Duration
	Memo    string
	// DescriptionHash is the SHA-256 of a description that is not part of the request. It is zero if there is none.
	DescriptionHash Hash
	Payee           string // public key of the node that signed the request, in hexadecimal
}

// Expires returns the time after which the request can no longer be paid.
func (r Request) Expires() time.Time { return r.Created.Add(r.Expiry) }

// prefixes has the first characters of payment requests, by network. Longer prefixes come first, because a text with
// "lnbcrt" also begins with "lnbc".
var prefixes = []struct{ prefix, network string }{
	{"lnbcrt", "regtest"}, {"lntbs", "signet"}, {"lntb", "testnet"}, {"lnbc", "bitcoin"},
}

// Prefix returns the prefix of a network's payment requests, or "" for an unknown network.
func Prefix(network string) string {
	for _, p := range prefixes {
		if p.network == network {
			return p.prefix
		}
	}
	return ""
}

const (
	maxRequest    = 7089 // largest length in characters, which is the capacity of the largest QR code
	signatureLen  = 104  // number of groups of five bits: 64 bytes and the recovery id
	timestampLen  = 7
	hashLen       = 52
	defaultExpiry = time.Hour

	perCoin = 100_000_000_000 // millisatoshis per bitcoin
	coins   = 21_000_000      // the maximum supply in bitcoins
)

// Types of the tagged fields that Decode reads.
const (
	fieldHash            = 1
	fieldExpiry          = 6
	fieldDescription     = 13
	fieldDescriptionHash = 23
)

// Decode parses a payment request and verifies its signature.
func Decode(text string) (Request, error) {
	r, err := decode(text)
	if err != nil {
		return Request{}, fmt.Errorf("lightning: payment request: %w", err)
	}
	return r, nil
}

func decode(text string) (Request, error) {
	if len(text) > maxRequest {
		return Request{}, errors.New("longer than any can be")
	}
	human, data, version, err := bech32.DecodeNoLimitWithVersion(text)
	if err != nil {
		return Request{}, err
	}
	if version != bech32.Version0 {
		return Request{}, errors.New("its checksum is of another kind")
	}
	if len(data) < timestampLen+signatureLen {
		return Request{}, errors.New("too short")
	}
	r := Request{Expiry: defaultExpiry}
	amount := ""
	for _, p := range prefixes {
		// The prefix must be followed by an amount or nothing, so that "lnbcrt…" is not read as "lnbc".
		if rest, ok := strings.CutPrefix(human, p.prefix); ok && (rest == "" || isDigit(rest[0])) {
			r.Network, amount = p.network, rest
			break
		}
	}
	if r.Network == "" {
		return Request{}, fmt.Errorf("%q is of no network known here", human)
	}
	if r.Msat, err = parseAmount(amount); err != nil {
		return Request{}, err
	}
	if r.Payee, err = signer(human, data); err != nil {
		return Request{}, err
	}
	body := data[:len(data)-signatureLen]
	r.Created = time.Unix(number(body[:timestampLen]), 0).UTC()
	return r, r.readFields(body[timestampLen:])
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// parseAmount parses an amount and returns it in millisatoshis.
func parseAmount(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	factor, divisor := int64(perCoin), int64(1)
	digits := text[:len(text)-1]
	switch text[len(text)-1] {
	case 'm':
		factor = perCoin / 1_000
	case 'u':
		factor = perCoin / 1_000_000
	case 'n':
		factor = perCoin / 1_000_000_000
	case 'p':
		factor, divisor = 1, 10
	default:
		digits = text
	}
	bad := fmt.Errorf("%q is no amount", text)
	if digits == "" || len(digits) > 18 || digits[0] == '0' {
		return 0, bad
	}
	var n int64
	for _, c := range []byte(digits) {
		if !isDigit(c) {
			return 0, bad
		}
		n = n*10 + int64(c-'0')
	}
	if n%divisor != 0 {
		return 0, fmt.Errorf("%q is finer than a thousandth of a satoshi", text)
	}
	if n /= divisor; n > coins*perCoin/factor {
		return 0, fmt.Errorf("%q is more than there is", text)
	}
	return n * factor, nil
}

// signer returns the public key that signed a payment request.
func signer(human string, data []byte) (string, error) {
	signature, err := bech32.ConvertBits(data[len(data)-signatureLen:], 5, 8, true)
	if err != nil {
		return "", err
	}
	body, err := bech32.ConvertBits(data[:len(data)-signatureLen], 5, 8, true)
	if err != nil {
		return "", err
	}
	recovery := signature[64]
	if recovery > 3 {
		return "", errors.New("its signature cannot be recovered")
	}
	digest := sha256.Sum256(append([]byte(human), body...))
	compact := append([]byte{27 + 4 + recovery}, signature[:64]...)
	key, _, err := ecdsa.RecoverCompact(compact, digest[:])
	if err != nil {
		return "", errors.New("its signature cannot be recovered")
	}
	return hex.EncodeToString(key.SerializeCompressed()), nil
}

// readFields reads the tagged fields: each is a type, a length of two groups of five bits, and that many groups.
func (r *Request) readFields(fields []byte) error {
	found := false
	for len(fields) > 0 {
		if len(fields) < 3 {
			return errors.New("its last field is cut off")
		}
		kind, size := fields[0], int(fields[1])<<5|int(fields[2])
		if len(fields) < 3+size {
			return errors.New("its last field is cut off")
		}
		value := fields[3 : 3+size]
		fields = fields[3+size:]
		switch kind {
		case fieldHash:
			if size != hashLen || found {
				continue
			}
			raw, err := bech32.ConvertBits(value, 5, 8, false)
			if err != nil {
				return err
			}
			copy(r.Hash[:], raw)
			found = true
		case fieldExpiry:
			if size > 7 {
				return errors.New("its expiry is no number of seconds")
			}
			r.Expiry = time.Duration(number(value)) * time.Second
		case fieldDescription:
			raw, err := bech32.ConvertBits(value, 5, 8, false)
			if err != nil {
				return err
			}
			r.Memo = string(raw)
		case fieldDescriptionHash:
			if size != hashLen {
				continue
			}
			raw, err := bech32.ConvertBits(value, 5, 8, false)
			if err != nil {
				return err
			}
			copy(r.DescriptionHash[:], raw)
		}
	}
	if !found {
		return errors.New("it names no payment hash")
	}
	return nil
}

// number decodes groups of five bits, the most significant first.
func number(groups []byte) (n int64) {
	for _, g := range groups {
		n = n<<5 | int64(g)
	}
	return n
}
