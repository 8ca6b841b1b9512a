package signer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
)

// account signs by the keys of an account in memory.
type account struct {
	mu      sync.Mutex
	private func(branch, index uint32) (*secp256k1.PrivateKey, error) // nil when closed
}

// Sign implements Keys. The signature of a hash is always the same (RFC 6979).
func (a *account) Sign(_ context.Context, path bitcoin.KeyPath, hash []byte) (sig [64]byte, err error) {
	a.mu.Lock()
	private := a.private
	a.mu.Unlock()
	if private == nil {
		return sig, errors.New("signer: the keys were erased")
	}
	if len(hash) != sha256.Size {
		return sig, fmt.Errorf("signer: a hash of %d bytes cannot be signed", len(hash))
	}
	key, err := private(path.Branch, path.Index)
	if err != nil {
		return sig, err
	}
	defer key.Zero()
	copy(sig[:], ecdsa.SignCompact(key, hash, true)[1:])
	return sig, nil
}

// Close implements Keys.
func (a *account) Close() {
	a.mu.Lock()
	a.private = nil
	a.mu.Unlock()
}

// BitcoinWallet returns the wallet of an account's extended private key.
func BitcoinWallet(xprv, network string) (*Wallet[*bitcoin.Deriver], error) {
	s, err := bitcoin.ParseXPriv(xprv, network)
	if err != nil {
		return nil, err
	}
	return &Wallet[*bitcoin.Deriver]{s.Deriver(), &account{private: s.PrivateKey}}, nil
}

// EVMWallet returns the wallet of an account's extended private key.
func EVMWallet(xprv string) (*Wallet[*evm.Deriver], error) {
	s, err := evm.ParseXPriv(xprv)
	if err != nil {
		return nil, err
	}
	return &Wallet[*evm.Deriver]{s.Deriver(), &account{private: s.PrivateKey}}, nil
}

// KeySource has one private key, which it uses but does not return: a hardware security module or a key management
// service. Implementations are in package keysource.
type KeySource interface {
	PublicKey() *secp256k1.PublicKey
	// Sign returns the signature of a hash, r and s. It is valid for PublicKey, and s is low (EIP-2).
	Sign(ctx context.Context, hash []byte) ([64]byte, error)
	Close() error
}

// WithHotKey returns the wallet with the key of source as the key of its hot address. Deposit addresses remain derived
// from the account.
func WithHotKey(w *Wallet[*evm.Deriver], source KeySource) *Wallet[*evm.Deriver] {
	return &Wallet[*evm.Deriver]{w.Deriver.WithHot(evm.AddressOf(source.PublicKey())), hotKeys{w.Keys, source}}
}

// hotKeys sign by the key of a source at the path of the hot address, and by keys of an account at other paths.
type hotKeys struct {
	Keys
	hot KeySource
}

// Sign implements Keys.
func (k hotKeys) Sign(ctx context.Context, path bitcoin.KeyPath, hash []byte) ([64]byte, error) {
	if path == (bitcoin.KeyPath{Branch: chain.Change}) {
		return k.hot.Sign(ctx, hash)
	}
	return k.Keys.Sign(ctx, path, hash)
}

// Close implements Keys.
func (k hotKeys) Close() {
	k.Keys.Close()
	_ = k.hot.Close() // nothing is lost if the device is not reached
}
