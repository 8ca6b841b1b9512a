// Package network is the registry of the blockchain networks that payouts can be made on. It contains data only:
// package evm connects to the EVM networks, and configuration, destinations and documentation list them from here.
//
// To add an EVM network, add an entry to [networks] and a line to the changelog. A network of another family also
// needs a package that connects to its nodes, and a payout rail.
package network

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/money"
)

// Family is a group of networks that share an implementation.
type Family string

// Families.
const (
	Bitcoin Family = "bitcoin"
	EVM     Family = "evm" // Ethereum and compatible networks
)

// Token is an asset that a token contract implements.
type Token struct {
	Asset    money.Asset
	Contract string // with the checksum of EIP-55
	// Domain is the token's EIP-712 domain if it has transferWithAuthorization (EIP-3009); the zero Domain otherwise.
	Domain Domain
}

// Domain identifies a token in signatures (EIP-712), together with its contract and the chain ID.
type Domain struct{ Name, Version string }

// usdCoin is the domain of USDC where its issuer deployed it.
var usdCoin = Domain{"USD Coin", "2"}

// Network describes one blockchain network.
type Network struct {
	Name   string // name in the API and in configuration, and name of the rail
	Title  string // name that people see
	Family Family
	Native money.Asset // asset in which the network's fees are paid

	// BlocksPerConfirmation is the number of blocks that count as one confirmation, so that a confirmation takes about
	// as long as on Bitcoin.
	BlocksPerConfirmation int64

	// The remaining fields apply to EVM networks.
	ChainID    uint64
	PaysNative bool    // the native asset can be paid, not only used for gas
	Tokens     []Token // payable tokens: the issuers' own contracts, no bridged copies
	MaxFee     int64   // gas price, in wei, above which payouts wait
	MinTip     int64   // minimum tip, in wei per gas, that nodes accept
	// MinAuthorized is the least amount of a dollar token, in its units, for which the operator pays the gas of a transfer
	// that the payer authorized.
	MinAuthorized int64
	// DataFee reports whether transactions pay a fee for their publication on another network in addition to gas, as on
	// networks of the OP stack. Networks that charge it as gas, such as Arbitrum, include it in every estimate.
	DataFee bool
}

const (
	gwei   = 1_000_000_000
	dollar = 1_000_000 // units of a dollar token
)

// networks lists the networks in the order in which people see them, the safest first.
var networks = []Network{
	{Name: "bitcoin", Title: "Bitcoin", Family: Bitcoin, Native: money.BTC, BlocksPerConfirmation: 1},
	{
		Name: "ethereum", Title: "Ethereum", Family: EVM, ChainID: 1, Native: money.ETH, PaysNative: true,
		BlocksPerConfirmation: 10, MaxFee: 200 * gwei, MinAuthorized: 20 * dollar,
		Tokens: []Token{
			{money.USDC, "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", usdCoin},
			{money.USDT, "0xdAC17F958D2ee523a2206206994597C13D831ec7", Domain{}},
		},
	},
	{
		Name: "base", Title: "Base", Family: EVM, ChainID: 8453, Native: money.ETH, PaysNative: true,
		BlocksPerConfirmation: 10, MaxFee: 20 * gwei, DataFee: true, MinAuthorized: dollar / 10,
		Tokens: []Token{{money.USDC, "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", usdCoin}},
	},
	{
		Name: "polygon", Title: "Polygon", Family: EVM, ChainID: 137, Native: money.POL,
		BlocksPerConfirmation: 16, MaxFee: 2000 * gwei, MinTip: 30 * gwei, MinAuthorized: dollar / 10,
		Tokens: []Token{
			{money.USDC, "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359", usdCoin},
			{money.USDT, "0xc2132D05D31c914a87C6611C10748AEb04B58e8F", Domain{}},
		},
	},
	{
		Name: "arbitrum", Title: "Arbitrum", Family: EVM, ChainID: 42161, Native: money.ETH, PaysNative: true,
		BlocksPerConfirmation: 16, MaxFee: 20 * gwei, MinAuthorized: dollar / 10,
		Tokens: []Token{
			{money.USDC, "0xaf88d065e77c8cC2239327C5EDb3A432268e5831", usdCoin},
			{money.USDT, "0xFd086bC7CD5C481DCC9C85ebE478A1C0b69FCbb9", Domain{}},
		},
	},
}

// All returns the networks of a family, the safest first.
func All(f Family) []Network {
	var all []Network
	for _, n := range networks {
		if n.Family == f {
			all = append(all, n.clone())
		}
	}
	return all
}

// Names returns the names of the networks of a family.
func Names(f Family) []string {
	var names []string
	for _, n := range networks {
		if n.Family == f {
			names = append(names, n.Name)
		}
	}
	return names
}

// List joins the names of the networks of a family for a sentence, such as "ethereum, base or polygon".
func List(f Family) string {
	names := Names(f)
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Lookup returns the network with the given name.
func Lookup(name string) (Network, error) {
	i := slices.IndexFunc(networks, func(n Network) bool { return n.Name == name })
	if i < 0 {
		return Network{}, fmt.Errorf("there is no network %q", name)
	}
	return networks[i].clone(), nil
}

func (n Network) clone() Network {
	n.Tokens = slices.Clone(n.Tokens)
	return n
}

// Assets returns the assets of the network in which payrolls can be funded and payees paid.
func (n Network) Assets() []money.Asset {
	var all []money.Asset
	if n.PaysNative || n.Family != EVM {
		all = append(all, n.Native)
	}
	for _, t := range n.Tokens {
		all = append(all, t.Asset)
	}
	return all
}

// MayCarry reports whether an output of an asset could be paid on the network. A test network may have any tokens, so
// every network except Bitcoin may carry any crypto asset except BTC.
func (n Network) MayCarry(asset money.Asset) bool {
	if n.Family == Bitcoin {
		return asset == n.Native
	}
	return asset.IsCrypto() && asset != money.BTC
}
