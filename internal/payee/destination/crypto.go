package destination

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	registry "github.com/stipend/stipend/internal/chain/network"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// network is a network on which an asset can be paid.
type network struct {
	name string
	rail string // determines the format of addresses
}

// evmExample is a valid example address, from EIP-55.
const evmExample = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

// bitcoinExamples are example addresses by network. Each address is valid only on its own network.
var bitcoinExamples = map[string]string{
	"bitcoin": "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "regtest": "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080",
	"testnet": "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx", "signet": "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx",
}

func (n network) example() string {
	if n.rail == RailBitcoin {
		return bitcoinExamples[n.name]
	}
	return evmExample
}

// tokenContracts are the contract addresses of tokens. They are rejected as destinations, because assets sent to them
// are lost.
var tokenContracts = func() (all []string) {
	for _, n := range registry.All(registry.EVM) {
		for _, t := range n.Tokens {
			all = append(all, t.Contract)
		}
	}
	return all
}()

// Networks returns the names of the networks on which this installation pays out an asset. It returns none for a
// currency that is paid by banks, and for a coin that is not paid out.
func (s Setup) Networks(symbol money.Asset) []string {
	var names []string
	for _, n := range s.networks(symbol) {
		names = append(names, n.name)
	}
	return names
}

// networks returns the networks on which this installation pays out an asset. If there are several, a destination
// includes the network, because the same address on another network may belong to nobody. Bitcoin is paid on the
// installation's Bitcoin network.
func (s Setup) networks(symbol money.Asset) (all []network) {
	if symbol == money.BTC {
		return []network{{s.BitcoinNetwork, RailBitcoin}}
	}
	for _, name := range s.Accounts.Carrying(symbol) {
		all = append(all, network{name, RailEVM})
	}
	return all
}

// check validates the data of a new or changed destination. It returns the destination with masked data, and the
// plaintext to encrypt.
func (s Setup) check(p CreateParams, country string) (d Destination, clean []byte, err error) {
	symbol, known := money.Lookup(p.Symbol)
	if p.Symbol == "" {
		var problems apierr.List
		problems.Add("missing_field", "/symbol", "This member is required.")
		return d, nil, problems.Err()
	}
	if !known || symbol.IsCrypto() && len(s.networks(symbol)) == 0 {
		return d, nil, ErrCurrency.At("body", "/symbol")
	}
	d.Symbol, d.Kind = symbol, Fiat
	if symbol.IsCrypto() {
		d.Kind = Crypto
	}
	if p.Kind != "" && p.Kind != d.Kind {
		var problems apierr.List
		problems.Add("invalid_parameter", "/distribution_type", string(symbol)+" is of the type "+d.Kind+".")
		return d, nil, problems.Err()
	}
	members, err := object(p.Data)
	if err != nil {
		return d, nil, err
	}
	if d.Kind == Crypto {
		if !p.oneAddress && symbol == money.BTC && s.Lightning && overLightning(members) {
			return s.checkLightning(d, members)
		}
		return s.checkCrypto(d, members, !p.oneAddress && symbol == money.BTC)
	}
	return checkFiat(d, members, country)
}

// object decodes distribution_data. It omits members that are null.
func object(data json.RawMessage) (map[string]any, error) {
	var problems apierr.List
	var members map[string]any
	if len(data) == 0 || string(data) == "null" {
		problems.Add("missing_field", base, "This member is required.")
		return nil, problems.Err()
	}
	if err := json.Unmarshal(data, &members); err != nil {
		problems.Add("invalid_type", base, "This is an object.")
		return nil, problems.Err()
	}
	for key, value := range members {
		if value == nil {
			delete(members, key)
		}
	}
	return members, nil
}

// checkCrypto checks the members of a destination on a blockchain. If wallets is true, it accepts a descriptor
// instead of an address; the descriptor is then the plaintext to encrypt.
func (s Setup) checkCrypto(d Destination, members map[string]any, wallets bool) (Destination, []byte, error) {
	var problems apierr.List
	on := s.networks(d.Symbol)
	known, descriptor := []string{"address", "network"}, ""
	if wallets {
		known = append(known, DescriptorKey)
		descriptor = text(&problems, members, DescriptorKey, false)
	}
	typed := text(&problems, members, "address", descriptor == "" && members[DescriptorKey] == nil || !wallets)
	if descriptor != "" && typed != "" {
		problems.Add("invalid_parameter", base+"/"+DescriptorKey, "Give an address or a descriptor, not both.")
	}
	d.Network = text(&problems, members, "network", len(on) > 1)
	refuseUnknown(&problems, base, members, known...)
	at := slices.IndexFunc(on, func(n network) bool { return n.name == d.Network })
	switch {
	case d.Network == "" && len(on) == 1:
		at, d.Network = 0, on[0].name
	case d.Network != "" && at < 0:
		problems.Add("invalid_parameter", base+"/network", string(d.Symbol)+" is paid on: "+strings.Join(s.Networks(d.Symbol),
			", ")+".")
	}
	if typed != "" && at >= 0 {
		var why string
		d.Rail = on[at].rail
		if d.Address, why = s.address(typed, on[at]); why != "" {
			problems.Add("address_invalid", base+"/address", why)
		}
	}
	clean := map[string]string{"network": d.Network}
	if descriptor != "" && typed == "" && at >= 0 {
		d.Rail = on[at].rail
		var err error
		if d.Address, err = s.FirstAddress(descriptor); err != nil {
			problems.Add("address_invalid", base+"/"+DescriptorKey, err.Error())
		}
		clean[DescriptorKey] = maskText(descriptor)
	}
	if err := problems.Err(); err != nil {
		return d, nil, err
	}
	clean["address"] = d.Address
	var err error
	if d.Data, err = json.Marshal(clean); err != nil || descriptor == "" {
		return d, nil, err
	}
	return d, []byte(descriptor), nil
}

// address parses an address on a network. It returns the normal form of the address, or the reason why it is invalid.
func (s Setup) address(text string, on network) (addr, why string) {
	switch {
	case len(text) > maxAddress || strings.ContainsFunc(text, func(r rune) bool {
		return r > unicode.MaxASCII ||
			r <= ' ' || r == 0x7f
	}):
		return "", "An address has letters and digits only."
	case on.rail == RailBitcoin:
		addr, why = bitcoinAddress(text, on.name)
	default:
		addr, why = evmAddress(text)
	}
	if why == "" && slices.Contains(tokenContracts, addr) {
		return "", "This is the contract of a token. What is sent there is lost."
	}
	return addr, why
}

// AddressOn returns the normal form of an address on a chain on which this installation pays. It rejects the
// service's own addresses.
func (s Setup) AddressOn(ctx context.Context, tx *db.Tx, chainName, text string) (string, error) {
	on := network{chainName, RailEVM}
	if chainName == s.Chain {
		on = network{s.BitcoinNetwork, RailBitcoin}
	}
	addr, why := s.address(text, on)
	if why != "" {
		return "", apierr.New(apierr.Invalid, "address_invalid", why).At("body", "")
	}
	own, err := chain.IsOwnAddress(ctx, tx, chainName, addr)
	if err == nil && own {
		err = apierr.New(apierr.Invalid, "address_of_service",
			"This address belongs to the service itself. Name one of the sender's.").At("body", "")
	}
	return addr, err
}

// cryptoFields returns the members of distribution_data for an asset on blockchains.
func (s Setup) cryptoFields(symbol money.Asset, oneAddress bool) []Field {
	on := s.networks(symbol)
	if len(on) == 0 {
		return nil
	}
	fields := []Field{{Key: "address", Label: "Address", Type: "text", Required: true, MaxLength: maxAddress,
		Example: on[0].example(), Rail: on[0].rail}}
	if symbol == money.BTC && !oneAddress {
		fields[0].Required, fields[0].OneOf = false, "receiver"
		fields = append(fields, Field{Key: DescriptorKey, Type: "text", OneOf: "receiver", MaxLength: maxDescriptor,
			Label: "Extended public key or output descriptor, for a new address per payment", Rail: on[0].rail})
		if s.Lightning {
			fields = append(fields, lightningFields...)
		}
	}
	if len(on) > 1 {
		f := Field{Key: "network", Label: "Network", Type: "select", Required: true, Example: on[0].name, Rail: on[0].rail}
		for _, n := range on {
			f.Options = append(f.Options, Option{n.name, n.name})
		}
		fields = append(fields, f)
	}
	return fields
}
