package chain

import (
	"slices"

	"github.com/stipend/stipend/internal/chain/network"
	"github.com/stipend/stipend/internal/money"
)

// EVMNetworks holds the EVM networks that an installation is configured for. They share one wallet: an address is the
// same on each network, and belongs to the same object on each. The zero value is an installation without EVM
// networks.
type EVMNetworks struct {
	Pool     *Pool
	Networks []EVMNetwork // in the operator's order of preference
}

// EVMNetwork describes one EVM network.
type EVMNetwork struct {
	Name   string // name of the network, and of its chain in the database
	Assets []money.Asset
	Test   bool // a test network, with assets of no value
	// Simulated reports whether the network exists only in this sandbox, so that no wallet reaches it.
	Simulated bool
	Spec      network.Network
	// URI returns the payment URI that a wallet reads to pay an amount to an address.
	URI func(address string, amount money.Amount) string
}

// Carrying returns the names of the networks that carry an asset.
func (e EVMNetworks) Carrying(asset money.Asset) []string {
	var names []string
	for _, n := range e.Networks {
		if slices.Contains(n.Assets, asset) {
			names = append(names, n.Name)
		}
	}
	return names
}

// Lookup returns the network with the given name.
func (e EVMNetworks) Lookup(name string) (n EVMNetwork, ok bool) {
	i := slices.IndexFunc(e.Networks, func(n EVMNetwork) bool { return n.Name == name })
	if i < 0 {
		return n, false
	}
	return e.Networks[i], true
}

// EVMHoldings describes which of our accounts hold money on an EVM network, for a comparison of the node's balances
// with the ledger.
type EVMHoldings struct {
	Height      int64                 // deposits in blocks up to this height have all their confirmations
	Addresses   []string              // our accounts that have ever held money
	Unconfirmed map[money.Asset]int64 // deposits up to Height that require more confirmations than usual
	Movements   int64                 // number of our deposits and transactions; the ledger may have rounded each
}

// Dust returns the smallest amount of an asset that is worth moving: for Bitcoin the minimum that nodes relay to our
// type of address, for other assets about the cost of a transfer at a low gas price.
func Dust(asset money.Asset) int64 {
	switch asset {
	case money.BTC:
		return 294
	case money.ETH, money.POL, money.USDC, money.USDT:
		return 10_000 // 0.00001 of a native coin, 0.01 of a dollar
	}
	return 1
}
