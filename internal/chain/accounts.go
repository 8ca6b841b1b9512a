package chain

import (
	"slices"

	"github.com/stipend/stipend/internal/money"
)

// EVMNetworks are the networks of accounts that an installation is paid on and pays on. One wallet serves them all: an address is the
// same on each, and belongs to one object on each. The zero value is an installation without any.
type EVMNetworks struct {
	Pool     *Pool
	Networks []EVMNetwork // the one to prefer first
}

// EVMNetwork is one of them.
type EVMNetwork struct {
	Name   string // the key of its rows, too
	Assets []money.Asset
	Test   bool // what is paid there is worth nothing
	// URI is what a payer's wallet reads to pay an amount to an address.
	URI func(address string, amount money.Amount) string
}

// Carrying names the networks that carry an asset.
func (a EVMNetworks) Carrying(asset money.Asset) []string {
	var names []string
	for _, n := range a.Networks {
		if slices.Contains(n.Assets, asset) {
			names = append(names, n.Name)
		}
	}
	return names
}

// Lookup is one of them by its name.
func (a EVMNetworks) Lookup(name string) (n EVMNetwork, ok bool) {
	i := slices.IndexFunc(a.Networks, func(n EVMNetwork) bool { return n.Name == name })
	if i < 0 {
		return n, false
	}
	return a.Networks[i], true
}

// EVMHoldings are the accounts of ours on a network that ever held anything, as the watcher has seen it.
type EVMHoldings struct {
	Height      int64 // up to which everything that has its confirmations is booked
	Addresses   []string
	Unconfirmed map[money.Asset]int64 // deposits in blocks up to there that need more confirmations
	Movements   int64                 // deposits and transactions of ours: as often may have been rounded
}

// Dust is the least of an asset that is worth moving on its chain: of Bitcoin what nodes relay to an address of the kind we give
// out, elsewhere what moving it would cost on a calm day.
func Dust(asset money.Asset) int64 {
	switch asset {
	case money.BTC:
		return 294
	case money.ETH, money.POL, money.USDC, money.USDT:
		return 10_000 // 0.00001 of a coin, 0.01 of a dollar
	}
	return 1
}
