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
	sig := ecdsa.SignCompact(key, t.digest(), false)
	raw = append([]byte{typeDynamicFee}, rlpList(append(t.items(),
		rlpUint(uint64(sig[0]-27)), rlpBytes(trimZeros(sig[1:33])), rlpBytes(trimZeros(sig[33:65]))))...)
	return raw, ID(raw)
}

// ID returns the id of an encoded transaction.
func ID(raw []byte) string { return "0x" + hex.EncodeToString(keccak(raw)) }

// errMalformed is returned for bytes that are not an EIP-1559 transaction.
var errMalformed = errors.New("evm: not a transaction of EIP-1559")

// DecodeTx decodes a signed transaction, and recovers the signer's address.
func DecodeTx(raw []byte) (t Tx, from Address, err error) {
	if len(raw) == 0 || raw[0] != typeDynamicFee {
		return t, from, errMalformed
	}
	body, rest, isList, err := rlpNext(raw[1:])
	if err != nil || !isList || len(rest) > 0 {
		return t, from, errMalformed
	}
	var fields [][]byte
	for i := 0; len(body) > 0; i++ {
		var field []byte
		if field, body, isList, err = rlpNext(body); err != nil || isList != (i == 8) || i == 8 && len(field) > 0 {
			return t, from, errMalformed
		}
		fields = append(fields, field)
	}
	if len(fields) != 12 || len(fields[5]) != len(t.To) || len(fields[6]) > 32 || len(fields[10]) > 32 ||
		len(fields[11]) > 32 {
		return t, from, errMalformed
	}
	var n [12]uint64
	for _, i := range []int{0, 1, 2, 3, 4, 9} {
		if n[i], err = uintOf(fields[i]); err != nil {
			return t, from, err
		}
	}
	t = Tx{ChainID: n[0], Nonce: n[1], Tip: int64(n[2]), MaxFee: int64(n[3]), Gas: n[4],
		Call: Call{Value: new(big.Int).SetBytes(fields[6]), Data: slices.Clone(fields[7])}}
	copy(t.To[:], fields[5])
	if t.Tip < 0 || t.MaxFee < 0 || n[9] > 1 {
		return t, from, errMalformed
	}
	sig := make([]byte, 65)
	sig[0] = 27 + byte(n[9])
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
