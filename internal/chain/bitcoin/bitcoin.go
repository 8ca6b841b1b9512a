// Package bitcoin implements package chain for Bitcoin: a [Client] that reads a node as a chain.Source, addresses
// derived from a public key ([Deriver]), signatures by a private key ([Signer]), and the decoding of blocks and
// transactions.
//
// It stores nothing, and chooses neither coins nor fees.
package bitcoin

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
)

var (
	// ErrAddress is returned for text that is not a Bitcoin address.
	ErrAddress = apierr.New(apierr.Invalid, "invalid_address",
		"This is not a Bitcoin address. Check it for a missing or mistyped character.")
	// ErrAddressNetwork is returned for an address of another Bitcoin network.
	ErrAddressNetwork = apierr.New(apierr.Invalid, "wrong_network", "This address belongs to another Bitcoin network.")
)

// Params returns the parameters of a network: "bitcoin", "testnet", "signet" or "regtest".
func Params(network string) (*chaincfg.Params, error) {
	switch network {
	case "bitcoin":
		return &chaincfg.MainNetParams, nil
	case "testnet":
		return &chaincfg.TestNet3Params, nil
	case "signet":
		return &chaincfg.SigNetParams, nil
	case "regtest":
		return &chaincfg.RegressionNetParams, nil
	}
	return nil, fmt.Errorf("bitcoin: unknown network %q; want bitcoin, testnet, signet or regtest", network)
}

// NetworksOf returns the networks that an address may belong to: the two kinds of test networks share their format.
func NetworksOf(address string) (all []string) {
	for _, network := range []string{"bitcoin", "testnet", "signet", "regtest"} {
		if _, err := AddressScript(address, network); err == nil {
			all = append(all, network)
		}
	}
	return all
}

// genesisHashes returns the possible hashes of a network's first block. There are two public test networks with the
// same address and key formats.
func genesisHashes(network string) []string {
	switch network {
	case "bitcoin":
		return []string{chaincfg.MainNetParams.GenesisHash.String()}
	case "testnet":
		return []string{chaincfg.TestNet4Params.GenesisHash.String(), chaincfg.TestNet3Params.GenesisHash.String()}
	case "signet":
		return []string{chaincfg.SigNetParams.GenesisHash.String()}
	case "regtest":
		return []string{chaincfg.RegressionNetParams.GenesisHash.String()}
	}
	return nil
}

// NormalizeAddress returns an address in the form in which it is stored and compared; Bech32 addresses may also be
// written in capitals. It returns ErrAddress or ErrAddressNetwork for an address that must not be paid on the
// network. Raw public keys, which the decoder accepts, are refused.
func NormalizeAddress(addr, network string) (string, error) {
	a, err := decodeAddress(addr, network)
	if err != nil {
		return "", err
	}
	return a.EncodeAddress(), nil
}

func decodeAddress(addr, network string) (address.Address, error) {
	params, err := Params(network)
	if err != nil {
		return nil, err
	}
	// The longest address is 90 characters; a raw public key is 66 or 130 hex digits.
	if len(addr) < 14 || len(addr) > 90 {
		return nil, ErrAddress
	}
	if raw, err := hex.DecodeString(addr); err == nil && (len(raw) == 33 || len(raw) == 65) {
		return nil, ErrAddress
	}
	a, err := address.DecodeAddress(addr, params)
	if err != nil {
		if onAnotherNetwork(addr, network) {
			return nil, ErrAddressNetwork
		}
		return nil, ErrAddress
	}
	if !a.IsForNet(params) {
		return nil, ErrAddressNetwork
	}
	switch a.(type) {
	case *address.AddressPubKeyHash, *address.AddressScriptHash, *address.AddressWitnessPubKeyHash,
		*address.AddressWitnessScriptHash, *address.AddressTaproot:
		return a, nil
	}
	return nil, ErrAddress
}

func onAnotherNetwork(addr, network string) bool {
	for _, other := range []string{"bitcoin", "testnet", "signet", "regtest"} {
		params, _ := Params(other)
		if other == network {
			continue
		}
		if i := strings.LastIndexByte(addr, '1'); i > 0 && strings.EqualFold(addr[:i], params.Bech32HRPSegwit) {
			return true
		}
		if a, err := address.DecodeAddress(addr, params); err == nil && a.IsForNet(params) {
			return true
		}
	}
	return false
}

// AddressScript returns the output script that pays an address.
func AddressScript(addr, network string) ([]byte, error) {
	a, err := decodeAddress(addr, network)
	if err != nil {
		return nil, err
	}
	return txscript.PayToAddrScript(a)
}

// DecodeTx decodes a raw transaction. The network determines the format of the addresses.
func DecodeTx(raw []byte, network string) (chain.Tx, error) {
	params, err := Params(network)
	if err != nil {
		return chain.Tx{}, err
	}
	var msg wire.MsgTx
	r := bytes.NewReader(raw)
	if err := msg.Deserialize(r); err != nil {
		return chain.Tx{}, fmt.Errorf("bitcoin: decode transaction: %w", err)
	}
	if r.Len() != 0 {
		return chain.Tx{}, errors.New("bitcoin: decode transaction: bytes left over")
	}
	return toChainTx(&msg, raw, params), nil
}

// decodeBlock decodes a raw block. Its height is set to -1, because a block does not contain a reliable height.
func decodeBlock(raw []byte, network string) (chain.Block, error) {
	params, err := Params(network)
	if err != nil {
		return chain.Block{}, err
	}
	var msg wire.MsgBlock
	if err := msg.Deserialize(bytes.NewReader(raw)); err != nil {
		return chain.Block{}, fmt.Errorf("bitcoin: decode block: %w", err)
	}
	b := chain.Block{
		Height: -1,
		Hash:   msg.BlockHash().String(),
		Prev:   msg.Header.PrevBlock.String(),
		Time:   msg.Header.Timestamp.UTC(),
		Txs:    make([]chain.Tx, len(msg.Transactions)),
	}
	for i, tx := range msg.Transactions {
		b.Txs[i] = toChainTx(tx, nil, params)
	}
	return b, nil
}

// toChainTx converts a transaction. raw may be nil.
func toChainTx(msg *wire.MsgTx, raw []byte, params *chaincfg.Params) chain.Tx {
	tx := chain.Tx{ID: msg.TxID(), Raw: raw, Outputs: make([]chain.Output, len(msg.TxOut))}
	if len(msg.TxIn) == 1 && msg.TxIn[0].PreviousOutPoint.Index == wire.MaxPrevOutIndex &&
		msg.TxIn[0].PreviousOutPoint.Hash == (chainhash.Hash{}) {
		tx.Coinbase = true
	} else {
		tx.Inputs = make([]chain.Outpoint, len(msg.TxIn))
		for i, in := range msg.TxIn {
			tx.Inputs[i] = chain.Outpoint{TxID: in.PreviousOutPoint.Hash.String(), Vout: in.PreviousOutPoint.Index}
		}
	}
	for i, out := range msg.TxOut {
		tx.Outputs[i] = chain.Output{Vout: uint32(i), Address: scriptAddress(out.PkScript, params), Amount: out.Value}
	}
	return tx
}

// scriptAddress returns the address that a script pays, or "" if it has none. Scripts that pay a raw public key have
// none, because the service never assigns such an address.
func scriptAddress(script []byte, params *chaincfg.Params) string {
	class, addrs, _, err := txscript.ExtractPkScriptAddrs(script, params)
	if err != nil || len(addrs) != 1 || class == txscript.PubKeyTy || class == txscript.MultiSigTy {
		return ""
	}
	return addrs[0].EncodeAddress()
}

// Serialize returns the encoding of a transaction with its witnesses.
func Serialize(tx *wire.MsgTx) []byte {
	var b bytes.Buffer
	b.Grow(tx.SerializeSize())
	_ = tx.Serialize(&b) // writing to a bytes.Buffer never fails
	return b.Bytes()
}
