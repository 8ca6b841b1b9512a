package money

import "slices"

// Asset is the code of a currency, fiat (ISO 4217) or crypto.
type Asset string

// Assets that the code refers to by name. The table below has all assets.
const (
	USD  Asset = "USD"
	EUR  Asset = "EUR"
	GBP  Asset = "GBP"
	JPY  Asset = "JPY"
	KWD  Asset = "KWD"
	BTC  Asset = "BTC"
	ETH  Asset = "ETH"
	POL  Asset = "POL"
	USDC Asset = "USDC"
	USDT Asset = "USDT"
)

// assetInfo is a row of assets.
type assetInfo struct {
	exponent int
	crypto   bool
}

// assets are all assets. The service has a table of its own, because libraries deviate from ISO 4217 (IQD) or lack
// new codes (XCG). Fiat exponents are ISO 4217 minor units. Crypto exponents are at most 9, so that amounts fit into
// int64: ETH is stored in gwei.
var assets = func() map[Asset]assetInfo {
	m := map[Asset]assetInfo{
		"BTC": {8, true}, "LTC": {8, true}, "BCH": {8, true}, "ETH": {9, true}, "POL": {9, true}, "SOL": {9, true},
		"USDC": {6, true}, "USDT": {6, true}, "DAI": {6, true}, "XRP": {6, true}, "XLM": {7, true},
	}
	for exponent, codes := range map[int][]Asset{
		0: {"BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF"},
		2: {"AED", "AFN", "ALL", "AMD", "ANG", "AOA", "ARS", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BGN", "BMD", "BND",
			"BOB", "BRL", "BSD", "BTN", "BWP", "BYN", "BZD", "CAD", "CDF", "CHF", "CNY", "COP", "CRC", "CUP", "CVE", "CZK",
			"DKK", "DOP", "DZD", "EGP", "ERN", "ETB", "EUR", "FJD", "FKP", "GBP", "GEL", "GHS", "GIP", "GMD", "GTQ", "GYD",
			"HKD", "HNL", "HTG", "HUF", "IDR", "ILS", "INR", "IRR", "JMD", "KES", "KGS", "KHR", "KPW", "KYD", "KZT", "LAK",
			"LBP", "LKR", "LRD", "LSL", "MAD", "MDL", "MGA", "MKD", "MMK", "MNT", "MOP", "MRU", "MUR", "MVR", "MWK", "MXN",
			"MYR", "MZN", "NAD", "NGN", "NIO", "NOK", "NPR", "NZD", "PAB", "PEN", "PGK", "PHP", "PKR", "PLN", "QAR", "RON",
			"RSD", "RUB", "SAR", "SBD", "SCR", "SDG", "SEK", "SGD", "SHP", "SLE", "SOS", "SRD", "SSP", "STN", "SVC", "SYP",
			"SZL", "THB", "TJS", "TMT", "TOP", "TRY", "TTD", "TWD", "TZS", "UAH", "USD", "UYU", "UZS", "VES", "WST", "XCD",
			"XCG", "YER", "ZAR", "ZMW", "ZWG"},
		3: {"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"},
	} {
		for _, c := range codes {
			m[c] = assetInfo{exponent, false}
		}
	}
	return m
}()

// Lookup returns the asset with an exact upper-case code.
func Lookup(code string) (Asset, bool) {
	_, ok := assets[Asset(code)]
	return Asset(code), ok
}

// All returns all assets, sorted by code.
func All() []Asset {
	all := make([]Asset, 0, len(assets))
	for a := range assets {
		all = append(all, a)
	}
	slices.Sort(all)
	return all
}

// Exponent returns the number of decimals of stored amounts: one unit is 10^-Exponent of the asset.
func (a Asset) Exponent() int { return assets[a].exponent }

// IsCrypto reports whether the asset is a cryptocurrency or a token on a blockchain.
func (a Asset) IsCrypto() bool { return assets[a].crypto }
