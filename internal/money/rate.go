package money

import (
	"fmt"
	"math/big"
	"strings"
)

// rateDecimals is the number of decimals of a rate. It leaves at least 8 significant digits for the smallest price
// that is quoted (one satoshi is about 0.0005 USD).
const rateDecimals = 16

// Rate is the price of one whole unit of base in quote, such as 50000 USD for one BTC. A Rate from ParseRate is
// positive; the zero Rate means that there is no rate.
type Rate struct {
	base, quote Asset
	scaled      string // price * 10^rateDecimals as decimal digits; a string keeps Rate comparable
}

// ParseRate parses a positive decimal price.
func ParseRate(base, quote Asset, text string) (Rate, error) {
	d, err := parseDecimal(text)
	if err != nil {
		return Rate{}, fmt.Errorf("rate %s/%s: %w", base, quote, err)
	}
	n := new(big.Int).Set(d.digits)
	if shift := rateDecimals - d.scale; shift >= 0 {
		n.Mul(n, pow10(shift))
	} else {
		n = divide(n, pow10(-shift), HalfEven)
	}
	return makeRate(base, quote, n)
}

func makeRate(base, quote Asset, scaled *big.Int) (Rate, error) {
	if scaled.Sign() <= 0 {
		return Rate{}, fmt.Errorf("rate %s/%s: the price must be greater than 0", base, quote)
	}
	return Rate{base, quote, scaled.String()}, nil
}

func (r Rate) big() *big.Int {
	n, ok := new(big.Int).SetString(r.scaled, 10)
	if !ok {
		panic("money: use of a zero Rate")
	}
	return n
}

// Base returns the asset that is priced.
func (r Rate) Base() Asset { return r.base }

// Quote returns the asset of the price.
func (r Rate) Quote() Asset { return r.quote }

// IsZero reports whether there is no rate.
func (r Rate) IsZero() bool { return r.scaled == "" }

// String returns the price as a decimal without trailing zeros.
func (r Rate) String() string {
	if r.IsZero() {
		return "0"
	}
	s := decimal{r.big(), rateDecimals}.String()
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// MarshalJSON returns a JSON number.
func (r Rate) MarshalJSON() ([]byte, error) { return []byte(r.String()), nil }

// Convert converts an amount of base to quote or of quote to base, rounded once.
func (r Rate) Convert(x Amount, mode Rounding) (Amount, error) {
	if r.IsZero() {
		return Amount{}, fmt.Errorf("money: zero rate for converting %s", x.asset)
	}
	num, den := big.NewInt(x.units), big.NewInt(1)
	var to Asset
	switch x.asset {
	case r.base:
		to = r.quote
		num.Mul(num, r.big()).Mul(num, pow10(to.Exponent()))
		den.Mul(pow10(rateDecimals), pow10(x.asset.Exponent()))
	case r.quote:
		to = r.base
		num.Mul(num, pow10(rateDecimals)).Mul(num, pow10(to.Exponent()))
		den.Mul(r.big(), pow10(x.asset.Exponent()))
	default:
		return Amount{}, fmt.Errorf("money: a %s/%s rate does not convert %s", r.base, r.quote, x.asset)
	}
	return fromBig(to, divide(num, den, mode))
}

// Inverse returns the price of one unit of the quote in the base, rounded to 16 decimals.
func (r Rate) Inverse() (Rate, error) {
	return makeRate(r.quote, r.base, divide(pow10(2*rateDecimals), r.big(), HalfEven))
}

// Cross returns the price of r's base in s's quote. The quote of r must be the base of s.
func (r Rate) Cross(s Rate) (Rate, error) {
	if r.quote != s.base {
		return Rate{}, fmt.Errorf("money: cannot cross %s/%s with %s/%s", r.base, r.quote, s.base, s.quote)
	}
	return makeRate(r.base, s.quote, divide(new(big.Int).Mul(r.big(), s.big()), pow10(rateDecimals), HalfEven))
}

// WithSpread returns the rate increased (up) or decreased by bps basis points.
func (r Rate) WithSpread(bps int64, up bool) (Rate, error) {
	factor := 10_000 - bps
	if up {
		factor = 10_000 + bps
	}
	return makeRate(r.base, r.quote, divide(new(big.Int).Mul(r.big(), big.NewInt(factor)), big.NewInt(10_000), HalfEven))
}

// Cmp compares two prices of one pair and returns -1, 0 or 1. It panics if the pairs differ.
func (r Rate) Cmp(s Rate) int {
	if r.base != s.base || r.quote != s.quote {
		panic(fmt.Sprintf("money: comparing %s/%s with %s/%s", r.base, r.quote, s.base, s.quote))
	}
	return r.big().Cmp(s.big())
}
