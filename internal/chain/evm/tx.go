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
)

// typeDynamicFee is the transaction type of EIP-1559, the only one that the package creates.
const typeDynamicFee = 2

// Tx is an EIP-1559 transaction with an empty access list.
type Tx struct {
	ChainID uint64
	Nonce   uint64
	Tip     int64 // wei per gas for the block's producer
	MaxFee  int64 // maximum wei per gas, including the tip
	Gas     uint64
	Call
}

// items returns the fields in the order of the encoding, without the signature.
func (t Tx) items() [][]byte {
	return [][]byte{
		rlpUint(t.ChainID), rlpUint(t.Nonce), rlpBytes(big.NewInt(t.Tip).Bytes()), rlpBytes(big.NewInt(t.MaxFee).Bytes()),
		rlpUint(t.Gas),
		rlpBytes(t.To[:]), rlpBytes(t.Value.Bytes()), rlpBytes(t.Data), rlpList(nil),
	}
}

func (t Tx) digest() []byte { return keccak([]byte{typeDynamicFee}, rlpList(t.items())) }

// sign returns the bytes to broadcast and the transaction id. It is deterministic.
func (t Tx) sign(key *secp256k1.PrivateKey) (raw []byte, txid string) {
	return t.encode(ecdsa.SignCompact(key, t.digest(), false))
}

// Unsigned returns the encoding of the transaction without a signature, whose hash the account's key signs.
func (t Tx) Unsigned() []byte { return append([]byte{typeDynamicFee}, rlpList(t.items())...) }

// SigningHash returns the hash that the account's key signs.
func (t Tx) SigningHash() []byte { return t.digest() }

// WithSignature returns the bytes to broadcast and the transaction id. The signature is r and s, by the key of an
// account; it fails if another key made it.
func (t Tx) WithSignature(sig [64]byte, account Address) (raw []byte, txid string, err error) {
	for parity := range byte(2) {
		compact := append([]byte{27 + parity}, sig[:]...)
		key, _, err := ecdsa.RecoverCompact(compact, t.digest())
		if err == nil && addressOf(key) == account {
			raw, txid = t.encode(compact)
			return raw, txid, nil
		}
	}
	return nil, "", fmt.Errorf("evm: the signature is not by the key of %s", account)
}

// encode returns the bytes and the id of the transaction with a compact signature.
func (t Tx) encode(sig []byte) (raw []byte, txid string) {
	raw = append([]byte{typeDynamicFee}, rlpList(append(t.items(),
		rlpUint(uint64(sig[0]-27)), rlpBytes(trimZeros(sig[1:33])), rlpBytes(trimZeros(sig[33:65]))))...)
	return raw, ID(raw)
}

// DecodeUnsigned decodes what Unsigned returns.
func DecodeUnsigned(raw []byte) (Tx, error) {
	fields, err := decodeFields(raw)
	if err != nil || len(fields) != 9 {
		return Tx{}, errMalformed
	}
	return txOf(fields)
}

// ID returns the id of an encoded transaction.
func ID(raw []byte) string { return "0x" + hex.EncodeToString(keccak(raw)) }

// errMalformed is returned for bytes that are not an EIP-1559 transaction.
var errMalformed = errors.New("evm: not a transaction of EIP-1559")

// decodeFields returns the fields of an encoded transaction, with or without a signature.
func decodeFields(raw []byte) (fields [][]byte, err error) {
	if len(raw) == 0 || raw[0] != typeDynamicFee {
		return nil, errMalformed
	}
	body, rest, isList, err := rlpNext(raw[1:])
	if err != nil || !isList || len(rest) > 0 {
		return nil, errMalformed
	}
	for i := 0; len(body) > 0; i++ {
		var field []byte
		if field, body, isList, err = rlpNext(body); err != nil || isList != (i == 8) || i == 8 && len(field) > 0 {
			return nil, errMalformed
		}
		fields = append(fields, field)
	}
	return fields, nil
}

// txOf returns the transaction of its first nine fields.
func txOf(fields [][]byte) (t Tx, err error) {
	if len(fields) < 9 || len(fields[5]) != len(t.To) || len(fields[6]) > 32 {
		return t, errMalformed
	}
	var n [5]uint64
	for i := range n {
		if n[i], err = uintOf(fields[i]); err != nil {
			return t, err
		}
	}
	t = Tx{ChainID: n[0], Nonce: n[1], Tip: int64(n[2]), MaxFee: int64(n[3]), Gas: n[4],
		Call: Call{Value: new(big.Int).SetBytes(fields[6]), Data: slices.Clone(fields[7])}}
	copy(t.To[:], fields[5])
	if t.Tip < 0 || t.MaxFee < 0 {
		return t, errMalformed
	}
	return t, nil
}

// DecodeTx decodes a signed transaction, and recovers the signer's address.
func DecodeTx(raw []byte) (t Tx, from Address, err error) {
	fields, err := decodeFields(raw)
	if err != nil || len(fields) != 12 || len(fields[10]) > 32 || len(fields[11]) > 32 {
		return t, from, errMalformed
	}
	if t, err = txOf(fields); err != nil {
		return t, from, err
	}
	parity, err := uintOf(fields[9])
	if err != nil || parity > 1 {
		return t, from, errMalformed
	}
	sig := make([]byte, 65)
	sig[0] = 27 + byte(parity)
	copy(sig[33-len(fields[10]):33], fields[10])
	copy(sig[65-len(fields[11]):], fields[11])
	key, _, err := ecdsa.RecoverCompact(sig, t.digest())
	if err != nil {
		return t, from, fmt.Errorf("evm: signature: %w", err)
	}
	return t, addressOf(key), nil
}

func addressOf(key *secp256k1.PublicKey) (a Address) {
	copy(a[:], keccak(key.SerializeUncompressed()[1:])[12:])
	return a
}

// The following functions implement the part of the RLP encoding that transactions need.

func rlpUint(n uint64) []byte { return rlpBytes(trimZeros(binary.BigEndian.AppendUint64(nil, n))) }

func rlpBytes(b []byte) []byte {
	if len(b) == 1 && b[0] < 0x80 {
		return b
	}
	return append(rlpHead(0x80, len(b)), b...)
}

func rlpList(items [][]byte) []byte {
	body := slices.Concat(items...)
	return append(rlpHead(0xc0, len(body)), body...)
}

func rlpHead(kind byte, size int) []byte {
	if size < 56 {
		return []byte{kind + byte(size)}
	}
	length := trimZeros(binary.BigEndian.AppendUint64(nil, uint64(size)))
	return append([]byte{kind + 55 + byte(len(length))}, length...)
}

func trimZeros(b []byte) []byte {
	for len(b) > 0 && b[0] == 0 {
		b = b[1:]
	}
	return b
}

// rlpNext decodes the first item of b.
func rlpNext(b []byte) (item, rest []byte, isList bool, err error) {
	if len(b) == 0 {
		return nil, nil, false, errMalformed
	}
	head := b[0]
	if head < 0x80 {
		return b[:1], b[1:], false, nil
	}
	isList = head >= 0xc0
	kind := byte(0x80)
	if isList {
		kind = 0xc0
	}
	size, at := uint64(head-kind), 1
	if size >= 56 {
		at = int(size-55) + 1
		if len(b) < at {
			return nil, nil, false, errMalformed
		}
		if size, err = uintOf(b[1:at]); err != nil || size < 56 {
			return nil, nil, false, errMalformed
		}
	}
	if uint64(len(b)-at) < size {
		return nil, nil, false, errMalformed
	}
	end := at + int(size)
	if !isList && size == 1 && b[at] < 0x80 { // not the canonical encoding
		return nil, nil, false, errMalformed
	}
	return b[at:end], b[end:], isList, nil
}

func uintOf(b []byte) (n uint64, err error) {
	if len(b) > 8 || len(b) > 0 && b[0] == 0 {
		return 0, errMalformed
	}
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n, nil
}
