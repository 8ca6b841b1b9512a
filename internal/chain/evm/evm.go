// Package evm implements package chain for EVM networks, such as Ethereum: a [Client] that reads a node as a
// chain.Source, addresses derived from a public key ([Deriver]), signatures by a private key ([Signer]), and the
// encoding of transactions.
//
// An EVM network has accounts instead of coins. It is mapped to the types of package chain as follows:
//
//   - A transaction has one input, the nonce of its sender, see [NonceOutpoint]. Two transactions with the same nonce
//     conflict, like two that spend the same coin: only one of them can be mined.
//   - Its outputs are the transfers of the network's assets: each Transfer event of a token contract, numbered from
//     0, and the native coin that the transaction itself transfers, at index [NativeVout]. Native coin that a
//     contract transfers is not detected, because a node reports it only when it replays the block.
//   - A mined transaction may have failed: it transferred nothing, but paid its fee.
//
// Amounts are in the ledger's units: gwei of the native coin, rounded down, and a token's own smallest unit. Gas
// prices are in wei. The package stores nothing, and chooses neither nonces nor fees.
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

// NativeVout is the output index of the native coin that a transaction itself transfers.
const NativeVout = 1<<16 - 1

// ErrAddress is returned for text that is not an address, or whose checksum is wrong.
var ErrAddress = apierr.New(apierr.Invalid, "invalid_address",
	"This is not an address: 0x and 40 hexadecimal digits, with the checksum of EIP-55 where the letters' case is mixed.")

// Address is the address of an account or a contract.
type Address [20]byte

// ParseAddress parses an address. It returns ErrAddress for malformed text and for a wrong checksum.
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

// String returns the address with its checksum (EIP-55). Addresses are stored and compared in this form.
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

// NonceOutpoint returns the outpoint that represents the nonce of an account.
func NonceOutpoint(account string, nonce uint64) chain.Outpoint {
	return chain.Outpoint{TxID: account + "/" + strconv.FormatUint(nonce, 10)}
}

// Token is an asset that a token contract implements.
type Token = network.Token

// Network is an EVM network of the registry.
type Network struct{ network.Network }

// Lookup returns the EVM network with the given name.
func Lookup(name string) (Network, error) {
	n, err := network.Lookup(name)
	if err == nil && n.Family != network.EVM {
		err = fmt.Errorf("evm: %s is no EVM network", name)
	}
	return Network{n}, err
}

// Contract returns the token contract of an asset. It reports false for the native coin and for assets that the
// network does not carry.
func (n Network) Contract(asset money.Asset) (Address, bool) {
	for _, t := range n.Tokens {
		if t.Asset == asset {
			a, err := ParseAddress(t.Contract)
			return a, err == nil
		}
	}
	return Address{}, false
}

// asset returns the asset of a token contract. It reports false for contracts that are not configured.
func (n Network) asset(contract string) (money.Asset, bool) {
	for _, t := range n.Tokens {
		if t.Contract == contract {
			return t.Asset, true
		}
	}
	return "", false
}

// The selectors and the event topic of the functions that the package calls (ERC-20).
var (
	selectorTransfer  = keccak([]byte("transfer(address,uint256)"))[:4]
	topicTransfer     = "0x" + hex.EncodeToString(keccak([]byte("Transfer(address,address,uint256)")))
	selectorBalanceOf = keccak([]byte("balanceOf(address)"))[:4]
	selectorDecimals  = keccak([]byte("decimals()"))[:4]
	selectorL1Fee     = keccak([]byte("getL1Fee(bytes)"))[:4] // a function of the gas price oracle
)

// gasPriceOracle is the contract that, on each network of the OP stack, returns the cost of publishing a transaction.
const gasPriceOracle = "0x420000000000000000000000000000000000000F"

// Call is the effect of a transaction: a call of a contract, or a transfer of native coin.
type Call struct {
	To    Address
	Value *big.Int // native coin to transfer, in wei
	Data  []byte
}

// TransferCall returns the call that pays an amount of an asset. It fails for an asset that the network does not carry.
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

// URI returns the payment URI (EIP-681) that a wallet reads to pay an amount of one of the network's assets.
func (n Network) URI(address string, amount money.Amount) string {
	if contract, ok := n.Contract(amount.Asset()); ok {
		return fmt.Sprintf("ethereum:%s@%d/transfer?address=%s&uint256=%d", contract, n.ChainID, address, amount.Units())
	}
	return fmt.Sprintf("ethereum:%s@%d?value=%s", address, n.ChainID, Wei(amount.Units()))
}

// ParseTransfer returns the transfer that a call requests: of a token, or of the native coin in its value. It reports
// false for any other call.
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

// Wei converts the ledger's units of a native coin to wei.
func Wei(units int64) *big.Int { return new(big.Int).Mul(big.NewInt(units), big.NewInt(gwei)) }

// Gwei converts wei to the ledger's units, rounded down.
func Gwei(wei *big.Int) *big.Int { return new(big.Int).Quo(wei, big.NewInt(gwei)) }

// GasCost returns the cost of gas at a price in wei, in the ledger's units, rounded up.
func GasCost(gas uint64, price int64) int64 {
	wei := new(big.Int).Mul(new(big.Int).SetUint64(gas), big.NewInt(price))
	wei.Add(wei, big.NewInt(gwei-1))
	return Gwei(wei).Int64()
}
