package bitcoin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/psbt/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain"
)

// KeyPath is the place of a key in an account: m / branch / index, below the account's key.
type KeyPath struct{ Branch, Index uint32 }

// Fingerprint returns the fingerprint of the account's key (BIP 32), by which a PSBT names the account.
func (d *Deriver) Fingerprint() (uint32, error) {
	key, _, err := parseKey(d.account, networkName(d.params.Name))
	if err != nil {
		return 0, err
	}
	pub, err := key.ECPubKey()
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(address.Hash160(pub.SerializeCompressed())), nil
}

// networkName returns the name that this package uses for a network of the library.
func networkName(name string) string {
	for _, own := range []string{"bitcoin", "testnet", "signet", "regtest"} {
		if p, err := Params(own); err == nil && p.Name == name {
			return own
		}
	}
	return name
}

// publicKey returns the public key at a path.
func (d *Deriver) publicKey(p KeyPath) (*btcec.PublicKey, error) {
	if p.Branch > chain.Change || p.Index >= 1<<31 {
		return nil, fmt.Errorf("bitcoin: no key at branch %d, index %d", p.Branch, p.Index)
	}
	return d.branches[p.Branch].child(p.Index)
}

// Script returns the script of the address at a path.
func (d *Deriver) Script(p KeyPath) ([]byte, error) {
	a, err := d.derive(p.Branch, p.Index)
	if err != nil {
		return nil, err
	}
	return txscript.PayToAddrScript(a)
}

// Packet returns a PSBT (BIP 174) of an unsigned transaction that spends coins of the account, in the order of its
// inputs. own has the paths of the outputs that pay the account, by their position.
func (d *Deriver) Packet(unsigned *wire.MsgTx, coins []chain.WalletCoin, own map[int]KeyPath) (*psbt.Packet, error) {
	if len(coins) != len(unsigned.TxIn) {
		return nil, fmt.Errorf("bitcoin: %d inputs but %d coins", len(unsigned.TxIn), len(coins))
	}
	fingerprint, err := d.Fingerprint()
	if err != nil {
		return nil, err
	}
	derivation := func(p KeyPath) ([]*psbt.Bip32Derivation, error) {
		pub, err := d.publicKey(p)
		if err != nil {
			return nil, err
		}
		return []*psbt.Bip32Derivation{{PubKey: pub.SerializeCompressed(), MasterKeyFingerprint: fingerprint,
			Bip32Path: []uint32{p.Branch, p.Index}}}, nil
	}
	packet, err := psbt.NewFromUnsignedTx(unsigned)
	if err != nil {
		return nil, err
	}
	for i, c := range coins {
		path := KeyPath{c.Branch, c.Index}
		script, err := d.Script(path)
		if err != nil {
			return nil, err
		}
		packet.Inputs[i].WitnessUtxo = wire.NewTxOut(c.Amount, script)
		packet.Inputs[i].SighashType = txscript.SigHashAll
		if packet.Inputs[i].Bip32Derivation, err = derivation(path); err != nil {
			return nil, err
		}
	}
	for i, path := range own {
		if packet.Outputs[i].Bip32Derivation, err = derivation(path); err != nil {
			return nil, err
		}
	}
	return packet, nil
}

// Path returns the path of the key that a PSBT names for one of its inputs or outputs. It reports false if the script
// does not pay the account, whatever the PSBT says.
func (d *Deriver) Path(derivations []*psbt.Bip32Derivation, script []byte) (p KeyPath, ok bool) {
	for _, named := range derivations {
		if len(named.Bip32Path) != 2 || named.Bip32Path[0] > chain.Change || named.Bip32Path[1] >= 1<<31 {
			continue
		}
		p = KeyPath{named.Bip32Path[0], named.Bip32Path[1]}
		if own, err := d.Script(p); err == nil && bytes.Equal(own, script) {
			return p, true
		}
	}
	return KeyPath{}, false
}

// SigningHash returns the hash that signs an input of a transaction which spends a P2WPKH output (BIP 143).
func SigningHash(tx *wire.MsgTx, i int, coins txscript.PrevOutputFetcher) ([]byte, error) {
	out := coins.FetchPrevOutput(tx.TxIn[i].PreviousOutPoint)
	if out == nil {
		return nil, fmt.Errorf("bitcoin: input %d spends an unknown output", i)
	}
	return txscript.CalcWitnessSigHash(out.PkScript, txscript.NewTxSigHashes(tx, coins), txscript.SigHashAll, tx, i,
		out.Value)
}

// Coins returns the outputs that a PSBT says its transaction spends.
func Coins(p *psbt.Packet) (*txscript.MultiPrevOutFetcher, error) {
	coins := txscript.NewMultiPrevOutFetcher(nil)
	for i, in := range p.UnsignedTx.TxIn {
		if p.Inputs[i].WitnessUtxo == nil {
			return nil, fmt.Errorf("bitcoin: the PSBT does not say what input %d spends", i)
		}
		coins.AddPrevOut(in.PreviousOutPoint, p.Inputs[i].WitnessUtxo)
	}
	return coins, nil
}

// AddSignature adds the signature of a P2WPKH input to a PSBT. sig is r and s; s may be high.
func (d *Deriver) AddSignature(p *psbt.Packet, i int, path KeyPath, sig [64]byte) error {
	pub, err := d.publicKey(path)
	if err != nil {
		return err
	}
	p.Inputs[i].PartialSigs = []*psbt.PartialSig{{
		PubKey: pub.SerializeCompressed(), Signature: append(der(sig), byte(txscript.SigHashAll)),
	}}
	return nil
}

// der returns the DER encoding of a signature, with the low one of the two values that s can have.
func der(sig [64]byte) []byte {
	var r, s btcec.ModNScalar
	r.SetByteSlice(sig[:32])
	s.SetByteSlice(sig[32:])
	if s.IsOverHalfOrder() {
		s.Negate()
	}
	return ecdsa.NewSignature(&r, &s).Serialize()
}

// Finish returns the transaction of a signed PSBT. It fails unless it is the given unsigned transaction, and the
// signatures are valid for the given coins.
func Finish(p *psbt.Packet, unsigned *wire.MsgTx, coins []chain.WalletCoin, network string) (
	raw []byte, txid string, err error,
) {
	if p.UnsignedTx.TxHash() != unsigned.TxHash() {
		return nil, "", errors.New("bitcoin: the signer returned another transaction")
	}
	if err := psbt.MaybeFinalizeAll(p); err != nil {
		return nil, "", fmt.Errorf("bitcoin: the signer's PSBT: %w", err)
	}
	tx, err := psbt.Extract(p)
	if err != nil {
		return nil, "", fmt.Errorf("bitcoin: the signer's PSBT: %w", err)
	}
	fetcher := txscript.NewMultiPrevOutFetcher(nil)
	for i, c := range coins {
		hash, err := chainhash.NewHashFromStr(c.TxID)
		if err != nil {
			return nil, "", err
		}
		if op := (wire.OutPoint{Hash: *hash, Index: c.Vout}); tx.TxIn[i].PreviousOutPoint != op {
			return nil, "", fmt.Errorf("bitcoin: input %d does not spend the coin %v", i, op)
		}
		script, err := AddressScript(c.Address, network)
		if err != nil {
			return nil, "", err
		}
		fetcher.AddPrevOut(tx.TxIn[i].PreviousOutPoint, wire.NewTxOut(c.Amount, script))
	}
	if err := Verify(tx, fetcher); err != nil {
		return nil, "", err
	}
	return Serialize(tx), tx.TxID(), nil
}

// ScriptType returns the usual name of a script's type: p2wpkh, p2wsh, p2tr, p2pkh or p2sh; "" for any other.
func ScriptType(script []byte) string {
	switch txscript.GetScriptClass(script) {
	case txscript.WitnessV0PubKeyHashTy:
		return "p2wpkh"
	case txscript.WitnessV0ScriptHashTy:
		return "p2wsh"
	case txscript.WitnessV1TaprootTy:
		return "p2tr"
	case txscript.PubKeyHashTy:
		return "p2pkh"
	case txscript.ScriptHashTy:
		return "p2sh"
	default:
		return ""
	}
}

// ScriptAddress returns the address that a script pays.
func ScriptAddress(script []byte, network string) (string, error) {
	params, err := Params(network)
	if err != nil {
		return "", err
	}
	a := scriptAddress(script, params)
	if a == "" {
		return "", errors.New("bitcoin: the script has no address")
	}
	return a, nil
}
