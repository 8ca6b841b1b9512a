package signer

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/btcsuite/btcd/psbt/v2"

	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/money"
)

// splitInput returns what an input spends, and its amount, "" for the nonce of an account.
func splitInput(input string) (point, amount string) {
	point, amount, _ = strings.Cut(input, "=")
	return point, amount
}

// SignBitcoin signs the transaction of a PSBT and returns the PSBT with the signatures. references has the IDs of the
// outputs that are paid, by their position.
func (s *Service) SignBitcoin(ctx context.Context, text []byte, references []string, approvals []Approval) (
	[]byte, error,
) {
	if s.o.Bitcoin == nil {
		return nil, refuse(NotPermitted, "the signer has no Bitcoin keys")
	}
	p, err := psbt.NewFromRawBytes(bytes.NewReader(text), false)
	if err != nil {
		return nil, refuse(Malformed, "the PSBT cannot be read")
	}
	t, paths, err := s.readBitcoin(p, references)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.alarm(t, err)
		return nil, err
	}
	if err := s.permit(t, approvals); err != nil {
		return nil, err
	}
	coins, err := bitcoin.Coins(p)
	if err != nil {
		return nil, err
	}
	for i, path := range paths {
		hash, err := bitcoin.SigningHash(p.UnsignedTx, i, coins)
		if err != nil {
			return nil, err
		}
		sig, err := s.o.Bitcoin.Keys.Sign(ctx, path, hash)
		if err != nil {
			return nil, err
		}
		if err := s.o.Bitcoin.Deriver.AddSignature(p, i, path, sig); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	err = p.Serialize(&out)
	return out.Bytes(), err
}

// witnessScale is the number of weight units of a byte outside of witnesses.
const witnessScale = 4

// inputWeight is the weight of the signature of a P2WPKH input, which an unsigned transaction lacks.
const inputWeight = 108

// readBitcoin finds what a PSBT spends and pays, and the path of the key of each input.
func (s *Service) readBitcoin(p *psbt.Packet, references []string) (t transaction, paths []bitcoin.KeyPath, err error) {
	d := s.o.Bitcoin.Deriver
	t = transaction{chain: BitcoinChain, id: p.UnsignedTx.TxID(), native: money.BTC}
	var in, out int64
	add := func(sum *int64, amount int64) bool {
		if amount < 0 || amount > math.MaxInt64-*sum {
			return false
		}
		*sum += amount
		return true
	}
	for i, input := range p.UnsignedTx.TxIn {
		coin := p.Inputs[i].WitnessUtxo
		if coin == nil {
			return t, nil, refuse(Malformed, "input %d has no witness_utxo", i)
		}
		path, own := d.Path(p.Inputs[i].Bip32Derivation, coin.PkScript)
		if !own {
			return t, nil, refuse(NotPermitted, "input %d is not the wallet's", i)
		}
		point := fmt.Sprintf("%s:%d", input.PreviousOutPoint.Hash, input.PreviousOutPoint.Index)
		amount := fmt.Sprint(coin.Value)
		if !add(&in, coin.Value) {
			return t, nil, refuse(Malformed, "the amounts of the inputs are wrong")
		}
		t.inputs, paths = append(t.inputs, point+"="+amount), append(paths, path)
	}
	for i, o := range p.UnsignedTx.TxOut {
		if !add(&out, o.Value) {
			return t, nil, refuse(Malformed, "the amounts of the outputs are wrong")
		}
		if _, own := d.Path(p.Outputs[i].Bip32Derivation, o.PkScript); own {
			continue
		}
		if kind := bitcoin.ScriptType(o.PkScript); !s.o.Policy.paysScript(kind) {
			return t, nil, refuse(NotPermitted, "the policy does not permit the script of output %d", i)
		}
		address, err := bitcoin.ScriptAddress(o.PkScript, s.o.Policy.Bitcoin.Network)
		if err != nil {
			return t, nil, refuse(NotPermitted, "output %d has no address", i)
		}
		payment := Payment{Chain: BitcoinChain, Asset: money.BTC, Address: address, Units: o.Value}
		if i < len(references) {
			payment.Reference = references[i]
		}
		t.payments = append(t.payments, payment)
	}
	t.fee = in - out
	t.vsize = (int64(p.UnsignedTx.SerializeSizeStripped())*witnessScale +
		int64(len(p.UnsignedTx.TxIn))*inputWeight + 2 + 3) / witnessScale
	return t, paths, nil
}
