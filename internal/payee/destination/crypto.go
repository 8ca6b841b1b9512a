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
	rail string // rail, which determines the format of addresses
}

// networks are the networks of each asset, the safest first: the EVM networks of the registry, then those that are only
// stored. If there are several, the network is part of the destination, because the same address on another network may
// belong to nobody. The network of bitcoin is the one of the installation.
var networks = func() map[money.Asset][]network {
	all := map[money.Asset][]network{}
	for _, n := range registry.All(registry.EVM) {
		for _, asset := range money.All() {
			if n.Accepts(asset) {
				all[asset] = append(all[asset], network{n.Name, RailEVM})
			}
		}
	}
	for asset, n := range map[money.Asset]network{
		money.USDC: {"solana", RailSolana}, "SOL": {"solana", RailSolana}, money.USDT: {"tron", RailTron},
		"LTC": {"litecoin", RailLitecoin}, "BCH": {"bitcoin-cash", RailBitcoinCash},
		"XRP": {"xrpl", RailXRP}, "XLM": {"stellar", RailStellar},
	} {
		all[asset] = append(all[asset], n)
	}
	return all
}()

// addressForms read the addresses of each rail.
var addressForms = map[string]func(string) (addr, why string){
	RailEVM: evmAddress, RailSolana: solanaAddress, RailTron: tronAddress, RailLitecoin: litecoinAddress,
	RailBitcoinCash: cashAddress, RailXRP: xrpAddress, RailStellar: stellarAddress,
}

// examples are well-formed addresses, from the networks' own documentation.
var examples = map[string]string{
	RailEVM: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", RailSolana: "7EqQdEULxWcraVx3mXKFjc84LhCkMGZCkRuDpvcMwJeK",
	RailTron: "TJCnKsPa7y5okkXvQAidZBzqx3QyQ6sxMW", RailLitecoin: "LVg2kJoFNg45Nbpy53h7Fe1wKyeXVRhMH9",
	RailBitcoinCash: "bitcoincash:qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a",
	RailXRP:         "rf1BiGeXwwQoi8Z2ueFYTEXSwuJYfV2Jpn",
	RailStellar:     "GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZ"}

// bitcoinExamples are example addresses by network. An address of one network is rejected on another.
var bitcoinExamples = map[string]string{
	"bitcoin": "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "regtest": "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080",
	"testnet": "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx", "signet": "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx",
}

func (n network) example() string {
	if n.rail == RailBitcoin {
		return bitcoinExamples[n.name]
	}
	return examples[n.rail]
}

// tokenContracts are the contracts of tokens. Assets sent to them are lost.
var tokenContracts = func() (all []string) {
	for _, n := range registry.All(registry.EVM) {
		for _, t := range slices.Concat(n.Tokens, n.Accepted) {
			all = append(all, t.Contract)
		}
	}
	return append(all,
		"TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t",           // USDT on tron
		"EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", // USDC on solana
	)
}()

// Networks returns the names of the networks on which an asset can be paid. It returns none for a currency that banks
// pay.
func (s Setup) Networks(symbol money.Asset) []string {
	var names []string
	for _, n := range s.networks(symbol) {
		names = append(names, n.name)
	}
	return names
}

func (s Setup) networks(symbol money.Asset) []network {
	if symbol == money.BTC {
		return []network{{s.BitcoinNetwork, RailBitcoin}}
	}
	return networks[symbol]
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
		return s.checkCrypto(d, members)
	}
	return checkFiat(d, members, country)
}

// object reads distribution_data. A member that is null is absent.
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

func (s Setup) checkCrypto(d Destination, members map[string]any) (Destination, []byte, error) {
	var problems apierr.List
	on := s.networks(d.Symbol)
	known := []string{"address", "network"}
	typed := text(&problems, members, "address", true)
	d.Network = text(&problems, members, "network", len(on) > 1)
	clean := map[string]string{}
	for _, m := range sides[d.Symbol] {
		known = append(known, m.key)
		value := text(&problems, members, m.key, false)
		if value == "" {
			continue
		}
		value, why := m.read(value)
		if why != "" {
			problems.Add("invalid_parameter", base+"/"+m.key, why)
		}
		clean[m.key] = value
	}
	d.Tag, d.Memo = clean["tag"], clean["transfer_memo"]
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
	if err := problems.Err(); err != nil {
		return d, nil, err
	}
	clean["address"], clean["network"] = d.Address, d.Network
	data, err := json.Marshal(clean)
	d.Data = data
	return d, data, err
}

// address reads an address on a network.
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
		addr, why = addressForms[on.rail](text)
	}
	if why == "" && slices.Contains(tokenContracts, addr) {
		return "", "This is the contract of a token. What is sent there is lost."
	}
	return addr, why
}

// AddressOn returns the normal form of an address on a chain that this installation pays on. It rejects addresses of
// the service itself.
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

// side is a member of distribution_data in addition to the address, such as a memo. An exchange needs it to tell
// customers with the same address apart.
type side struct {
	key, label, example string
	read                func(string) (value, why string)
}

var sides = map[money.Asset][]side{
	"XRP": {{"tag", "Destination tag; leave it out only where the receiver has none", "123456", destinationTag}},
	"XLM": {{"transfer_memo", "Memo; leave it out only where the receiver has none", "123456", stellarMemo}},
}

// cryptoFields are the members of distribution_data for a symbol on chains.
func (s Setup) cryptoFields(symbol money.Asset) []Field {
	on := s.networks(symbol)
	if len(on) == 0 {
		return nil
	}
	fields := []Field{{Key: "address", Label: "Address", Type: "text", Required: true, MaxLength: maxAddress,
		Example: on[0].example(), Rail: on[0].rail}}
	if len(on) > 1 {
		f := Field{Key: "network", Label: "Network", Type: "select", Required: true, Example: on[0].name, Rail: on[0].rail}
		for _, n := range on {
			f.Options = append(f.Options, Option{n.name, n.name})
		}
		fields = append(fields, f)
	}
	for _, m := range sides[symbol] {
		fields = append(fields, Field{Key: m.key, Label: m.label, Type: "text", MaxLength: 28, Example: m.example,
			Rail: on[0].rail})
	}
	return fields
}
