package evm

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/stipend/stipend/internal/money"
)

// Authorization is a payer's signed permission for one transfer of a token (EIP-3009). Anyone may submit it, once,
// while it is valid; the recipient and the amount cannot be changed. Times are in seconds since 1970.
type Authorization struct {
	From, To    Address
	Amount      money.Amount
	ValidAfter  int64 // the transfer succeeds after this time
	ValidBefore int64 // and before this one
	Nonce       [32]byte
	Signature   [65]byte // r, s and v
}

// ErrSignature is returned for a signature that is not the payer's.
var ErrSignature = errors.New("evm: the authorization is not signed by the account that pays")

var (
	domainType = keccak([]byte("EIP712Domain(string name,string version,uint256 chainId," +
		"address verifyingContract)"))
	authorizationType = keccak([]byte("TransferWithAuthorization(address from,address to,uint256 value," +
		"uint256 validAfter,uint256 validBefore,bytes32 nonce)"))
	selectorAuthorized = keccak([]byte("transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32," +
		"uint8,bytes32,bytes32)"))[:4]
	selectorDomain = keccak([]byte("DOMAIN_SEPARATOR()"))[:4]
)

// word returns a number or an address as a word of 32 bytes.
func word(b []byte) []byte { return append(make([]byte, 32-len(b)), b...) }

func number(n int64) []byte { return word(binary.BigEndian.AppendUint64(nil, uint64(n))) }

// Authorizable returns the token of an asset whose transfers can be authorized by a signature. It reports false for
// other assets.
func (n Network) Authorizable(asset money.Asset) (Token, bool) {
	i := slices.IndexFunc(n.Tokens, func(t Token) bool { return t.Asset == asset && t.Domain.Name != "" })
	if i < 0 {
		return Token{}, false
	}
	return n.Tokens[i], true
}

// separator returns the hash of a token's domain (EIP-712).
func (n Network) separator(t Token) ([]byte, error) {
	contract, err := ParseAddress(t.Contract)
	return keccak(domainType, keccak([]byte(t.Domain.Name)), keccak([]byte(t.Domain.Version)), number(int64(n.ChainID)),
		word(contract[:])), err
}

// fields returns the members that are signed, in the encoding of both EIP-712 and contract calls.
func (a Authorization) fields() []byte {
	return slices.Concat(word(a.From[:]), word(a.To[:]), number(a.Amount.Units()), number(a.ValidAfter),
		number(a.ValidBefore), a.Nonce[:])
}

// Digest returns the hash that the payer signs (EIP-712). It fails for an asset that has no domain on the network.
func (n Network) Digest(a Authorization) ([]byte, error) {
	token, ok := n.Authorizable(a.Amount.Asset())
	if !ok {
		return nil, fmt.Errorf("evm: transfers of %s on %s cannot be authorized", a.Amount.Asset(), n.Name)
	}
	separator, err := n.separator(token)
	return keccak([]byte{0x19, 0x01}, separator, keccak(authorizationType, a.fields())), err
}

// Verify returns ErrSignature unless the account that pays signed the authorization. It does not know accounts that are
// contracts, which verify signatures themselves.
func (n Network) Verify(a Authorization) error {
	digest, err := n.Digest(a)
	if err != nil {
		return err
	}
	var s secp256k1.ModNScalar
	// Tokens refuse the second signature that exists for each one.
	if overflow := s.SetByteSlice(a.Signature[32:64]); overflow || s.IsOverHalfOrder() || a.Signature[64] != 27 &&
		a.Signature[64] != 28 {
		return ErrSignature
	}
	key, _, err := ecdsa.RecoverCompact(slices.Concat(a.Signature[64:], a.Signature[:64]), digest)
	if err != nil || addressOf(key) != a.From || a.From == (Address{}) {
		return ErrSignature
	}
	return nil
}

// AuthorizedCall returns the call that makes the transfer.
func (n Network) AuthorizedCall(a Authorization) (Call, error) {
	contract, ok := n.Contract(a.Amount.Asset())
	if !ok || a.Amount.Sign() <= 0 {
		return Call{}, fmt.Errorf("evm: network %s cannot transfer %s %s", n.Name, a.Amount, a.Amount.Asset())
	}
	return Call{To: contract, Value: new(big.Int), Data: slices.Concat(selectorAuthorized, a.fields(),
		word(a.Signature[64:]), a.Signature[:32], a.Signature[32:64])}, nil
}

// ParseAuthorized returns the authorization whose transfer a call requests. It reports false for any other call.
func (n Network) ParseAuthorized(c Call) (a Authorization, ok bool) {
	asset, token := n.asset(c.To.String())
	if !token || len(c.Data) != 4+9*32 || !slices.Equal(c.Data[:4], selectorAuthorized) {
		return a, false
	}
	at := func(i int) []byte { return c.Data[4+32*i : 4+32*(i+1)] }
	var numbers [3]int64
	for i := range numbers {
		n := new(big.Int).SetBytes(at(2 + i))
		if !n.IsInt64() {
			return a, false
		}
		numbers[i] = n.Int64()
	}
	copy(a.From[:], at(0)[12:])
	copy(a.To[:], at(1)[12:])
	a.Amount, a.ValidAfter, a.ValidBefore = money.New(asset, numbers[0]), numbers[1], numbers[2]
	copy(a.Nonce[:], at(5))
	copy(a.Signature[:], slices.Concat(at(7), at(8), at(6)[31:]))
	return a, a.Amount.Sign() > 0
}

// ParseBytes decodes hexadecimal text with 0x into dst. It reports false if the text is not as long as dst.
func ParseBytes(dst []byte, text string) bool {
	if len(text) != 2+2*len(dst) || text[:2] != "0x" {
		return false
	}
	_, err := hex.Decode(dst, []byte(text[2:]))
	return err == nil
}
