package destination

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"filippo.io/edwards25519"
	"github.com/btcsuite/btcd/address/v2/base58"
	"github.com/btcsuite/btcd/address/v2/bech32"
	"golang.org/x/crypto/sha3"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/identity"
)

// The functions below return an address in its normal spelling, or the reason why it is invalid. They verify the
// network's checksum, or the format where there is no checksum (Solana, and Ethereum addresses in a single case).

// bitcoinAddress reads base58check, bech32 and bech32m (BIP 13, 173, 350).
func bitcoinAddress(text, network string) (addr, why string) {
	addr, err := bitcoin.NormalizeAddress(text, network)
	if err == nil {
		return addr, ""
	}
	if f, ok := apierr.As(err); ok {
		return "", f.Detail
	}
	return "", "This is not an address of the Bitcoin network " + network + "."
}

// evmAddress reads an address with its checksum in the letters' case (EIP-55). An address in a single case has no
// checksum and is accepted.
func evmAddress(text string) (addr, why string) {
	digits, ok := strings.CutPrefix(text, "0x")
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != 20 {
		return "", "This is not an address: 0x and 40 hexadecimal digits."
	}
	addr = eip55(raw)
	mixed := strings.ToLower(digits) != digits && strings.ToUpper(digits) != digits
	switch {
	case mixed && addr != text:
		return "", "The checksum of this address is wrong (EIP-55). Check it for a mistyped character."
	case !slices.ContainsFunc(raw, func(b byte) bool { return b != 0 }):
		return "", "Nobody owns the zero address."
	}
	return addr, ""
}

// eip55 returns an address with the checksum in the letters' case.
func eip55(raw []byte) string {
	digits := []byte(hex.EncodeToString(raw))
	h := sha3.NewLegacyKeccak256()
	h.Write(digits)
	sum := h.Sum(nil)
	for i, c := range digits {
		nibble := sum[i/2] >> 4
		if i%2 == 1 {
			nibble = sum[i/2] & 15
		}
		if c >= 'a' && nibble >= 8 {
			digits[i] = c - 'a' + 'A'
		}
	}
	return "0x" + string(digits)
}

// maxAddress is greater than the length of an address on any network.
const maxAddress = 120

// base58Check decodes a version byte and a 20-byte hash, and verifies the checksum.
func base58Check(text string) (version byte, ok bool) {
	raw := base58.Decode(text)
	if len(raw) != 25 {
		return 0, false
	}
	first := sha256.Sum256(raw[:21])
	sum := sha256.Sum256(first[:])
	return raw[0], bytes.Equal(sum[:4], raw[21:])
}

func tronAddress(text string) (addr, why string) {
	if version, ok := base58Check(text); !ok || version != 0x41 {
		return "", "This is not an address of Tron, or it has a mistyped character. It begins with T."
	}
	return text, ""
}

// solanaAddress reads a public key. It has no checksum, but only half of all keys are on the curve. The others belong
// to programs, which cannot forward payments.
func solanaAddress(text string) (addr, why string) {
	raw := base58.Decode(text)
	if len(raw) != 32 || base58.Encode(raw) != text {
		return "", "This is not an address of Solana: 32 bytes in base58."
	}
	if _, err := new(edwards25519.Point).SetBytes(raw); err != nil {
		return "", "This address belongs to a program, not to a wallet, or has a mistyped character. Give the wallet's own " +
			"address."
	}
	if bytes.Equal(raw, make([]byte, 32)) {
		return "", "This is the system's own address. What is sent there is lost."
	}
	return text, ""
}

// litecoinAddress reads base58check (L, M, and 3 for old scripts) and segwit addresses (ltc1…).
func litecoinAddress(text string) (addr, why string) {
	if version, ok := base58Check(text); ok && (version == 0x30 || version == 0x32 || version == 0x05) {
		return text, ""
	}
	if segwit("ltc", text) {
		return strings.ToLower(text), ""
	}
	return "", "This is not an address of Litecoin, or it has a mistyped character."
}

// segwit verifies a witness address: bech32 for version 0, bech32m for the others (BIP 350).
func segwit(prefix, text string) bool {
	if len(text) > 90 {
		return false
	}
	hrp, data, version, err := bech32.DecodeGeneric(text)
	if err != nil || hrp != prefix || len(data) == 0 || data[0] > 16 {
		return false
	}
	program, err := bech32.ConvertBits(data[1:], 5, 8, false)
	if err != nil || len(program) < 2 || len(program) > 40 {
		return false
	}
	if data[0] == 0 {
		return version == bech32.Version0 && (len(program) == 20 || len(program) == 32)
	}
	return version == bech32.VersionM
}

const cashAlphabet = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"

// cashAddress reads Bitcoin Cash addresses: 160-bit hashes of keys (q…) and scripts (p…). The prefix may be absent,
// but is part of the checksum.
func cashAddress(text string) (addr, why string) {
	const prefix, wrongForm = "bitcoincash",
		"This is not an address of Bitcoin Cash (bitcoincash:q… or p…), or it has a mistyped character."
	if strings.ToUpper(text) == text { // CashAddr permits upper case or lower case, but not both
		text = strings.ToLower(text)
	}
	body := strings.TrimPrefix(text, prefix+":")
	if len(body) != 42 {
		return "", wrongForm
	}
	values := make([]byte, 0, len(prefix)+1+len(body))
	for _, c := range []byte(prefix) {
		values = append(values, c&31)
	}
	values = append(values, 0)
	for _, c := range []byte(body) {
		v := strings.IndexByte(cashAlphabet, c)
		if v < 0 {
			return "", wrongForm
		}
		values = append(values, byte(v))
	}
	payload, err := bech32.ConvertBits(values[len(prefix)+1:len(values)-8], 5, 8, false)
	// The version byte encodes the type of the hash, of a key or a script, and its size, which must be 160 bits.
	if err != nil || cashPolymod(values) != 0 || len(payload) != 21 || payload[0] != 0 && payload[0] != 8 {
		return "", wrongForm
	}
	return prefix + ":" + body, ""
}

func cashPolymod(values []byte) uint64 {
	c := uint64(1)
	for _, v := range values {
		top := c >> 35
		c = c&0x07ffffffff<<5 ^ uint64(v)
		for i, g := range [...]uint64{0x98f2bc8e61, 0x79b76d99e2, 0xf33e5fb3c4, 0xae2eabe2a8, 0x1e4f43e470} {
			if top>>i&1 == 1 {
				c ^= g
			}
		}
	}
	return c ^ 1
}

// rippleToBitcoin replaces the letters of the XRP Ledger's base58 alphabet by Bitcoin's letters of the same value.
var rippleToBitcoin = func() *strings.Replacer {
	const ripple, btc = "rpshnaf39wBUDNEGHJKLM4PQRST7VWXYZ2bcdeCg65jkm8oFqi1tuvAxyz",
		"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	var pairs []string
	for i := range ripple {
		pairs = append(pairs, ripple[i:i+1], btc[i:i+1])
	}
	return strings.NewReplacer(pairs...)
}()

func xrpAddress(text string) (addr, why string) {
	if version, ok := base58Check(rippleToBitcoin.Replace(text)); !ok || version != 0 || strings.ContainsAny(text,
		"0OIl") {
		return "", "This is not a classic address of the XRP Ledger (r…), or it has a mistyped character."
	}
	if text == "rrrrrrrrrrrrrrrrrrrrrhoLvTp" || text == "rrrrrrrrrrrrrrrrrrrrBZbvji" {
		return "", "Nobody owns this address of the XRP Ledger."
	}
	return text, ""
}

// stellarAddress reads the public key of an account: base32 of a version, 32 bytes and a CRC-16.
func stellarAddress(text string) (addr, why string) {
	raw, err := base32.StdEncoding.DecodeString(text)
	if len(text) != 56 || err != nil || raw[0] != 6<<3 || crc16(raw[:33]) != binary.LittleEndian.Uint16(raw[33:]) {
		return "", "This is not the address of an account of Stellar (G…), or it has a mistyped character."
	}
	return text, ""
}

// crc16 is CRC-16/XMODEM.
func crc16(data []byte) uint16 {
	var crc uint16
	for _, b := range data {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

// destinationTag reads the XRP Ledger's number by which an exchange identifies its customers.
func destinationTag(text string) (tag, why string) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || len(text) > 10 {
		return "", "A destination tag is a whole number from 0 to 4294967295."
	}
	return strconv.FormatUint(n, 10), ""
}

// stellarMemo reads a text of at most 28 bytes. A number without leading zeros that fits into 64 bits is sent as a
// memo ID, which exchanges that issue numbers expect.
func stellarMemo(text string) (memo, why string) {
	if len(text) > 28 || !utf8.ValidString(text) || strings.ContainsFunc(text, identity.Unprintable) {
		return "", "A memo has at most 28 bytes, and no control characters."
	}
	return text, ""
}
