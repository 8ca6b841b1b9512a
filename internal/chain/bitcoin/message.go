package bitcoin

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"
)

// Formats of signed messages.
const (
	BIP322 = "bip322" // "simple" signature of BIP-322: the witness of a virtual transaction
	BIP137 = "bip137" // recoverable ECDSA signature, as of Bitcoin Core's signmessage
)

// ErrSignature reports that a signature does not prove control of an address.
var ErrSignature = errors.New("bitcoin: the signature is not one of this message by the owner of this address")

const (
	maxSignature   = 4096 // longest signature, in characters
	maxWitness     = 16   // most items of a witness
	maxWitnessItem = 1024 // longest item, in bytes
)

// VerifyMessage verifies that the owner of an address signed a message, and returns the format of the signature. It
// accepts BIP-322 simple signatures of segwit addresses, also of P2SH-P2WPKH, and BIP-137 signatures of P2PKH,
// P2SH-P2WPKH and P2WPKH addresses, in base64. Otherwise it returns ErrSignature.
func VerifyMessage(addr, network, message, signature string) (format string, err error) {
	a, err := decodeAddress(addr, network)
	if err != nil {
		return "", err
	}
	if len(signature) > maxSignature {
		return "", ErrSignature
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(signature), "smp"))
	if err != nil {
		return "", ErrSignature
	}
	if len(raw) == 65 && raw[0] >= 27 && raw[0] <= 42 {
		return BIP137, verifyRecoverable(a, message, raw)
	}
	return BIP322, verifySimple(a, message, raw)
}

// verifyRecoverable verifies a signature from which the public key is recovered. Wallets disagree on the first byte for
// segwit addresses, so that the type of the address decides how the key is hashed.
func verifyRecoverable(a address.Address, message string, raw []byte) error {
	compact := bytes.Clone(raw)
	if compact[0] >= 35 { // BIP-137 marks segwit keys, which are compressed
		compact[0] = 31 + (compact[0]-35)%4
	}
	key, compressed, err := ecdsa.RecoverCompact(compact, signedMessageHash(message))
	if err != nil {
		return ErrSignature
	}
	text := key.SerializeUncompressed()
	if compressed {
		text = key.SerializeCompressed()
	}
	hash := address.Hash160(text)
	switch a := a.(type) {
	case *address.AddressPubKeyHash:
		if bytes.Equal(hash, a.ScriptAddress()) {
			return nil
		}
	case *address.AddressWitnessPubKeyHash:
		if compressed && bytes.Equal(hash, a.ScriptAddress()) {
			return nil
		}
	case *address.AddressScriptHash:
		if compressed && bytes.Equal(address.Hash160(keyProgram(hash)), a.ScriptAddress()) {
			return nil
		}
	}
	return ErrSignature
}

// keyProgram returns the P2WPKH output script of a key's hash.
func keyProgram(hash []byte) []byte {
	return append([]byte{txscript.OP_0, txscript.OP_DATA_20}, hash...)
}

// signedMessageHash returns the hash that Bitcoin Core's signmessage signs.
func signedMessageHash(message string) []byte {
	var b bytes.Buffer
	_ = wire.WriteVarString(&b, 0, "Bitcoin Signed Message:\n") // writes to a buffer do not fail
	_ = wire.WriteVarString(&b, 0, message)
	return chainhash.DoubleHashB(b.Bytes())
}

// verifySimple verifies a BIP-322 simple signature: raw is the witness with which a virtual transaction spends an
// output of the address in another one, which commits to the message.
func verifySimple(a address.Address, message string, raw []byte) error {
	script, err := txscript.PayToAddrScript(a)
	if err != nil {
		return err
	}
	witness, err := decodeWitness(raw)
	if err != nil {
		return ErrSignature
	}
	signed := toSign(script, message)
	signed.TxIn[0].Witness = witness
	switch a.(type) {
	case *address.AddressWitnessPubKeyHash:
	case *address.AddressTaproot:
		if len(witness) != 1 { // only the key path: scripts prove less than the key
			return ErrSignature
		}
		if n := len(witness[0]); n != 64 && (n != 65 || witness[0][64] != byte(txscript.SigHashAll)) {
			return ErrSignature
		}
	case *address.AddressScriptHash:
		if len(witness) != 2 {
			return ErrSignature
		}
		redeem := keyProgram(address.Hash160(witness[1]))
		signed.TxIn[0].SignatureScript = append([]byte{byte(len(redeem))}, redeem...)
	default:
		return ErrSignature
	}
	if n := len(witness[0]); len(witness) == 2 && (n == 0 || witness[0][n-1] != byte(txscript.SigHashAll)) {
		return ErrSignature
	}
	fetcher := txscript.NewCannedPrevOutputFetcher(script, 0)
	engine, err := txscript.NewEngine(script, signed, 0, txscript.StandardVerifyFlags, nil,
		txscript.NewTxSigHashes(signed, fetcher), 0, fetcher)
	if err != nil {
		return ErrSignature
	}
	if engine.Execute() != nil {
		return ErrSignature
	}
	return nil
}

// toSign returns the virtual transaction of BIP-322 that is signed, without its witness.
func toSign(script []byte, message string) *wire.MsgTx {
	spend := wire.NewMsgTx(0)
	spend.AddTxIn(&wire.TxIn{
		PreviousOutPoint: wire.OutPoint{Index: 0xffffffff},
		SignatureScript:  append([]byte{txscript.OP_0, txscript.OP_DATA_32}, bip322Hash(message)...),
	})
	spend.AddTxOut(wire.NewTxOut(0, script))
	signed := wire.NewMsgTx(0)
	signed.AddTxIn(&wire.TxIn{PreviousOutPoint: wire.OutPoint{Hash: spend.TxHash()}})
	signed.AddTxOut(wire.NewTxOut(0, []byte{txscript.OP_RETURN}))
	return signed
}

// bip322Hash returns the tagged hash of a message.
func bip322Hash(message string) []byte {
	tag := sha256.Sum256([]byte("BIP0322-signed-message"))
	h := sha256.New()
	h.Write(tag[:])
	h.Write(tag[:])
	h.Write([]byte(message))
	return h.Sum(nil)
}

// decodeWitness decodes a witness that has at least one item.
func decodeWitness(raw []byte) (wire.TxWitness, error) {
	r := bytes.NewReader(raw)
	n, err := wire.ReadVarInt(r, 0)
	if err != nil || n == 0 || n > maxWitness {
		return nil, fmt.Errorf("bitcoin: a witness of %d items: %w", n, ErrSignature)
	}
	witness := make(wire.TxWitness, n)
	for i := range witness {
		if witness[i], err = wire.ReadVarBytes(r, 0, maxWitnessItem, "witness item"); err != nil {
			return nil, err
		}
	}
	if r.Len() > 0 {
		return nil, ErrSignature
	}
	return witness, nil
}
