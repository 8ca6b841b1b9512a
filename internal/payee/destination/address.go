package destination

import (
	"encoding/hex"
	"slices"
	"strings"

	"golang.org/x/crypto/sha3"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain/bitcoin"
)

// Each of the functions below returns an address in its normal form, or the reason why it is invalid. They verify the
// checksum of the address, or only the format if there is no checksum (Ethereum addresses with letters of a single
// case).

// bitcoinAddress parses base58check, bech32 and bech32m addresses (BIP 13, 173, 350).
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

// evmAddress parses an address whose checksum is encoded in the case of its letters (EIP-55). It also accepts an
// address with letters of a single case, which has no checksum.
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

// eip55 formats an address with the checksum encoded in the case of its letters.
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

// maxAddress is longer than an address on any network.
const maxAddress = 120
