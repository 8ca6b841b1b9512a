package signer

import (
	"context"
	"errors"
	"sync"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

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
