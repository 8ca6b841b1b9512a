// Package evm is the side of package chain that speaks to Ethereum and the networks like it: a [Client] that reads a node as a
// chain.Source, the addresses of a wallet from its public key ([Deriver]), signatures from its private key ([Signer]), and the
// encoding of transactions.
//
// Such a network knows accounts, not coins. To a watcher it looks as follows:
//
//   - A transaction spends one thing, the nonce of its sender, named by [NonceOutpoint]. Two transactions with one nonce are rivals as
//     two that spend one coin are: one of them can be in the chain.
//   - Its outputs are what it moves of the assets that the network was set up with: each Transfer that a token logged, counted
//     from 0, and the native coin that the transaction itself carries, at [NativeVout]. Coins that a contract passes on by itself
//     leave no trace that a node shows without replaying the block; they are not seen.
//   - A transaction can be in a block and have failed: it moved nothing, and its fee is gone.
//
// Amounts are in the units in which assets are booked: gwei of the native coin, what is below that is left out; a token's own.
// Prices of gas are in wei. The package keeps no state beyond its keys, writes nothing to the database, and chooses neither
// nonces nor fees.
package evm

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/sha3"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/network"
	"github.com/stipend/stipend/internal/money"
)

// NativeVout is the place of what a transaction itself carries among its outputs.
const NativeVout = 1<<16 - 1

// ErrAddress refuses what is not an address, by its form or by its checksum.
var ErrAddress = apierr.New(apierr.Invalid, "invalid_address", "This is not an address: 0x and 40 hexadecimal digits, with the checksum of EIP-55 where the letters' case is mixed.")

// Address is the last 20 bytes of the hash of a public key, or a contract.
type Address [20]byte

// ParseAddress reads an address: ErrAddress.
func ParseAddress(text string) (Address, error) {
	var a Address
	digits, ok := strings.CutPrefix(text, "0x")
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != len(a) {
		return a, ErrAddress
	}
	copy(a[:], raw)
	if mixed := strings.ToLower(digits) != digits && strings.ToUpper(digits) != digits; mixed && a.String() != text {
		return a, ErrAddress
	}
	return a, nil
}

// String writes an address with the letters' case as its checksum (EIP-55). It is the one spelling under which addresses are
// stored and compared.
func (a Address) String() string {
	digits := []byte(hex.EncodeToString(a[:]))
	sum := keccak(digits)
	for i, c := range digits {
		nibble := sum[i/2] >> 4
		if i%2 == 1 {
			nibble = sum[i/2] & 15
		}
		if c >= 'a' && nibble >= 8 {
			digits[i] = c - 'a' + 'A'
		}
	}
	return "0x" + string(digits)
}

func keccak(data ...[]byte) []byte {
	h := sha3.NewLegacyKeccak256()
	for _, d := range data {
		h.Write(d)
	}
	return h.Sum(nil)
}

// NonceOutpoint names the nonce of an account as the thing that a transaction spends.
func NonceOutpoint(account string, nonce uint64) chain.Outpoint {
	return chain.Outpoint{TxID: account + "/" + strconv.FormatUint(nonce, 10)}
}

// Token is an asset that a contract keeps.
type Token = network.Token

// Network is an entry of the registry of networks with the calls that pay on it.
type Network struct{ network.Network }

// Lookup returns the EVM network with the given name.
func Lookup(name string) (Network, error) {
	n, err := network.Lookup(name)
	if err == nil && n.Family != network.EVM {
		err = fmt.Errorf("evm: %s is no EVM network", name)
	}
	return Network{n}, err
}

// Contract is the token of an asset; false for the native coin and what the network has not.
func (n Network) Contract(asset money.Asset) (Address, bool) {
	for _, t := range n.Tokens {
		if t.Asset == asset {
			a, err := ParseAddress(t.Contract)
			return a, err == nil
		}
	}
	return Address{}, false
}

// asset is what a contract keeps; false when it is none that the network was set up with.
func (n Network) asset(contract string) (money.Asset, bool) {
	for _, t := range n.Tokens {
		if t.Contract == contract {
			return t.Asset, true
		}
	}
	return "", false
}

// The one function and the one event of a token that matter here (ERC-20).
var (
	selectorTransfer  = keccak([]byte("transfer(address,uint256)"))[:4]
	topicTransfer     = "0x" + hex.EncodeToString(keccak([]byte("Transfer(address,address,uint256)")))
	selectorBalanceOf = keccak([]byte("balanceOf(address)"))[:4]
	selectorDecimals  = keccak([]byte("decimals()"))[:4]
	selectorL1Fee     = keccak([]byte("getL1Fee(bytes)"))[:4] // of the contract at dataFees
)

// dataFees is the contract that tells on each network of the OP stack what publishing a transaction costs.
const gasPriceOracle = "0x420000000000000000000000000000000000000F"

// Call is what a transaction does.
type Call struct {
	To    Address
	Value *big.Int // wei
	Data  []byte
}

// TransferCall is the call that pays an amount of one of the network's assets, and says so of any other.
func (n Network) TransferCall(to Address, amount money.Amount) (Call, error) {
	if amount.Sign() <= 0 {
		return Call{}, fmt.Errorf("evm: cannot pay %s %s", amount, amount.Asset())
	}
	if amount.Asset() == n.Native {
		return Call{To: to, Value: Wei(amount.Units())}, nil
	}
	contract, ok := n.Contract(amount.Asset())
	if !ok {
		return Call{}, fmt.Errorf("evm: network %s does not carry %s", n.Name, amount.Asset())
	}
	data := slices.Concat(selectorTransfer, make([]byte, 12), to[:], make([]byte, 32))
	big.NewInt(amount.Units()).FillBytes(data[36:])
	return Call{To: contract, Value: new(big.Int), Data: data}, nil
}

// URI is what a wallet reads to pay an amount of one of the network's assets (EIP-681).
func (n Network) URI(address string, amount money.Amount) string {
	if contract, ok := n.Contract(amount.Asset()); ok {
		return fmt.Sprintf("ethereum:%s@%d/transfer?address=%s&uint256=%d", contract, n.ChainID, address, amount.Units())
	}
	return fmt.Sprintf("ethereum:%s@%d?value=%s", address, n.ChainID, Wei(amount.Units()))
}

// ParseTransfer reads what a call means to pay, by its bytes alone: a transfer of a token's, or the coin that it carries. Nothing for
// any other call.
func (n Network) ParseTransfer(c Call) (to Address, amount money.Amount, ok bool) {
	if asset, token := n.asset(c.To.String()); token {
		if len(c.Data) != 68 || !slices.Equal(c.Data[:4], selectorTransfer) {
			return to, amount, false
		}
		copy(to[:], c.Data[16:36])
		units := new(big.Int).SetBytes(c.Data[36:])
		return to, money.New(asset, units.Int64()), units.IsInt64() && units.Sign() > 0
	}
	units := Gwei(c.Value)
	return c.To, money.New(n.Native, units.Int64()), units.IsInt64() && units.Sign() > 0
}

const gwei = 1_000_000_000

// Wei turns booked units of a native coin into wei.
func Wei(units int64) *big.Int { return new(big.Int).Mul(big.NewInt(units), big.NewInt(gwei)) }

// Gwei turns wei into booked units, rounded down.
func Gwei(wei *big.Int) *big.Int { return new(big.Int).Quo(wei, big.NewInt(gwei)) }

// GasCost is what gas costs at a price in wei, in booked units, rounded up.
func GasCost(gas uint64, price int64) int64 {
	wei := new(big.Int).Mul(new(big.Int).SetUint64(gas), big.NewInt(price))
	wei.Add(wei, big.NewInt(gwei-1))
	return Gwei(wei).Int64()
}
