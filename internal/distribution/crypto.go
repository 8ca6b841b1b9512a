package distribution

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"golang.org/x/crypto/sha3"

	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/fault"
	"github.com/stipend/stipend/internal/money"
)

// evmNetworks are the networks on which each symbol is what it says, the safest first. The network is part of the destination:
// the same address on another network may be nobody's.
var evmNetworks = map[money.Asset][]string{
	money.ETH:  {"ethereum", "base", "arbitrum"},
	money.USDC: {"ethereum", "base", "polygon", "arbitrum"},
	money.USDT: {"ethereum", "polygon", "arbitrum"},
}

// tokenContracts swallow what is sent to them.
var tokenContracts = []string{
	"0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", // USDC on ethereum
	"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", // USDC on base
	"0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359", // USDC on polygon
	"0xaf88d065e77c8cC2239327C5EDb3A432268e5831", // USDC on arbitrum
	"0xdAC17F958D2ee523a2206206994597C13D831ec7", // USDT on ethereum
	"0xc2132D05D31c914a87C6611C10748AEb04B58e8F", // USDT on polygon
	"0xFd086bC7CD5C481DCC9C85ebE478A1C0b69FCbb9", // USDT on arbitrum
}

// check validates a wanted destination. It returns it with masked data, and what is to be sealed.
func (s Setup) check(p CreateParams, country string) (d Distribution, clean []byte, err error) {
	symbol, known := money.Lookup(p.Symbol)
	if p.Symbol == "" {
		var problems fault.List
		problems.Add("missing_field", "/symbol", "This member is required.")
		return d, nil, problems.Err()
	}
	_, evm := evmNetworks[symbol]
	if !known || symbol.IsCrypto() && symbol != money.BTC && !evm {
		return d, nil, ErrCurrency.At("body", "/symbol")
	}
	d.Symbol, d.Kind = symbol, Fiat
	if symbol.IsCrypto() {
		d.Kind = Crypto
	}
	if p.Kind != "" && p.Kind != d.Kind {
		var problems fault.List
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
	var problems fault.List
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

func (s Setup) checkCrypto(d Distribution, members map[string]any) (Distribution, []byte, error) {
	var problems fault.List
	networks, needed := evmNetworks[d.Symbol], true
	d.Rail = RailEVM
	if d.Symbol == money.BTC {
		networks, needed, d.Rail = []string{s.BitcoinNetwork}, false, RailBitcoin
	}
	typed := text(&problems, members, "address", true)
	d.Network = text(&problems, members, "network", needed)
	refuseUnknown(&problems, base, members, "address", "network")
	switch {
	case d.Network == "" && !needed:
		d.Network = networks[0]
	case d.Network != "" && !slices.Contains(networks, d.Network):
		problems.Add("invalid_parameter", base+"/network", string(d.Symbol)+" is paid on: "+strings.Join(networks, ", ")+".")
		return d, nil, problems.Err()
	}
	if typed != "" {
		var why string
		if d.Symbol == money.BTC {
			d.Address, why = bitcoinAddress(typed, d.Network)
		} else {
			d.Address, why = evmAddress(typed)
		}
		if why != "" {
			problems.Add("address_invalid", base+"/address", why)
		}
	}
	if err := problems.Err(); err != nil {
		return d, nil, err
	}
	data, err := json.Marshal(map[string]string{"address": d.Address, "network": d.Network})
	d.Data = data
	return d, data, err
}

// bitcoinAddress returns an address in its usual spelling, or why it is refused.
func bitcoinAddress(text, network string) (addr, why string) {
	addr, err := bitcoin.NormalAddress(text, network)
	if err == nil {
		return addr, ""
	}
	if f, ok := fault.As(err); ok {
		return "", f.Detail
	}
	return "", "This is not an address of the Bitcoin network " + network + "."
}

// evmAddress returns an address with its checksum in the letters' case, or why it is refused. Without any case to check,
// all small or all capital, it is taken as it is.
func evmAddress(text string) (addr, why string) {
	digits, ok := strings.CutPrefix(text, "0x")
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != 20 {
		return "", "This is not an address: 0x and 40 hexadecimal digits."
	}
	addr = eip55(raw)
	mixed := strings.ToLower(digits) != digits && strings.ToUpper(digits) != digits
	switch {
	case mixed && addr != text:
		return "", "The checksum of this address is wrong (EIP-55). Check it for a mistyped character."
	case !slices.ContainsFunc(raw, func(b byte) bool { return b != 0 }):
		return "", "Nobody owns the zero address."
	case slices.Contains(tokenContracts, addr):
		return "", "This is the contract of a token. What is sent there is lost."
	}
	return addr, ""
}

// eip55 writes an address with the letters' case as its checksum.
func eip55(raw []byte) string {
	digits := []byte(hex.EncodeToString(raw))
	h := sha3.NewLegacyKeccak256()
	h.Write(digits)
	sum := h.Sum(nil)
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
