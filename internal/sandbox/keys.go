package sandbox

import (
	"crypto/sha256"
	"sync"

	"github.com/btcsuite/btcd/btcutil/v2/hdkeychain"

	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
)

// DataKey returns the key that encrypts stored secrets in every sandbox. The key is public.
func DataKey() []byte {
	sum := sha256.Sum256([]byte("stipend sandbox data key"))
	return sum[:]
}

// BitcoinKey returns the private master key of the Bitcoin wallet of every sandbox. The key is public, and valid only
// for networks whose coins have no value.
var BitcoinKey = sync.OnceValue(func() string {
	seed := sha256.Sum256([]byte("stipend sandbox wallet"))
	key, err := bitcoin.MasterFromSeed(seed[:], "regtest")
	if err != nil {
		panic(err) // cannot happen: the input is constant
	}
	return key
})

// EVMKey returns the private master key of the EVM wallet of every sandbox. The key is public.
var EVMKey = sync.OnceValue(func() string {
	seed := sha256.Sum256([]byte("stipend sandbox wallet of accounts"))
	key, err := evm.MasterFromSeed(seed[:])
	if err != nil {
		panic(err) // cannot happen: the input is constant
	}
	return key
})

// NewWallet returns a Bitcoin wallet with a random key that is not stored.
func NewWallet(network string) (*bitcoin.Signer, error) {
	seed, err := hdkeychain.GenerateSeed(hdkeychain.RecommendedSeedLen)
	if err != nil {
		return nil, err
	}
	key, err := bitcoin.MasterFromSeed(seed, network)
	if err != nil {
		return nil, err
	}
	return bitcoin.ParseXPriv(key, network)
}
