package evm

import (
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
)

// ErrMessageSignature reports that a signature does not prove control of an account.
var ErrMessageSignature = errors.New("evm: the signature is not one of this message by the owner of this account")

// VerifyMessage verifies that the owner of an account signed a message with personal_sign (EIP-191, version 0x45): 65
// bytes in hexadecimal. Otherwise it returns ErrMessageSignature. Accounts that are contracts have no key.
func VerifyMessage(account, message, signature string) error {
	of, err := ParseAddress(account)
	if err != nil {
		return err
	}
	raw, err := hex.DecodeString(strings.TrimPrefix(strings.TrimSpace(signature), "0x"))
	if err != nil || len(raw) != 65 {
		return ErrMessageSignature
	}
	v := raw[64]
	if v < 2 { // some wallets return the parity
		v += 27
	}
	if v != 27 && v != 28 {
		return ErrMessageSignature
	}
	digest := keccak([]byte("\x19Ethereum Signed Message:\n"+strconv.Itoa(len(message))), []byte(message))
	key, _, err := ecdsa.RecoverCompact(slices.Concat([]byte{v}, raw[:64]), digest)
	if err != nil || addressOf(key) != of {
		return ErrMessageSignature
	}
	return nil
}
