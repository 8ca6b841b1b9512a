// Package money defines amounts, in whole minor units, and exchange rates, as decimals. It uses no floating point.
//
// An Amount includes its asset, so amounts of different assets cannot be added by mistake. Units are int64 (US cents,
// satoshis, gwei); operations return an error on overflow.
package money

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
)

// Errors of amounts.
var (
	ErrPrecision   = apierr.New(apierr.Invalid, "amount_precision", "The amount has too many decimals. Round it.")
	ErrTooLarge    = apierr.New(apierr.Invalid, "amount_too_large", "The amount is too large. Send a smaller one.")
	ErrNotPositive = apierr.New(apierr.Invalid, "amount_not_positive", "The amount must be greater than 0.")
	ErrNotANumber  = apierr.New(apierr.Invalid, "invalid_type", "The amount must be a decimal number, for example 12.50.")
)

// maxDigits is the maximum number of digits of an amount. It is checked before any arithmetic, so that rejecting a
// text such as "1e999999999" takes no time.
const maxDigits = 40

// Amount is a number of units of an asset. The zero Amount has no asset and equals only itself.
type Amount struct {
	asset Asset
	units int64
}

// New returns an amount of minor units of an asset.
func New(a Asset, units int64) Amount { return Amount{a, units} }

// Zero returns the zero amount of an asset.
func Zero(a Asset) Amount { return Amount{a, 0} }

// Parse parses a decimal such as "12.5". Exponents ("1e2") are valid, as in JSON. It returns ErrPrecision if the text
// has more decimals than the asset, apart from trailing zeros, and ErrTooLarge if the amount is outside int64.
func Parse(a Asset, text string) (Amount, error) {
	d, err := parseDecimal(text)
	if err != nil {
		return Amount{}, err
	}
	units := new(big.Int).Set(d.digits)
	switch shift := a.Exponent() - d.scale; {
	case shift > maxDigits:
		if units.Sign() != 0 {
			return Amount{}, ErrTooLarge
		}
	case shift >= 0:
		units.Mul(units, pow10(shift))
	default:
		rest := new(big.Int)
		if units.QuoRem(units, pow10(-shift), rest); rest.Sign() != 0 {
			return Amount{}, ErrPrecision.Detailf("%s amounts have at most %d decimals.", a, a.Exponent())
		}
	}
	if !units.IsInt64() || units.Int64() == math.MinInt64 {
		return Amount{}, ErrTooLarge
	}
	return Amount{a, units.Int64()}, nil
}

// Asset returns the asset of the amount.
func (x Amount) Asset() Asset { return x.asset }

// Units returns the amount in minor units of its asset.
func (x Amount) Units() int64 { return x.units }

// IsZero reports whether the amount is 0.
func (x Amount) IsZero() bool { return x.units == 0 }

// Sign returns -1, 0 or 1.
func (x Amount) Sign() int { return cmp.Compare(x.units, 0) }

// Neg returns -x.
func (x Amount) Neg() Amount { return Amount{x.asset, -x.units} }

// Add returns x + y, or an error if the assets differ or the sum overflows.
func (x Amount) Add(y Amount) (Amount, error) {
	if x.asset != y.asset {
		return Amount{}, fmt.Errorf("money: cannot add %s and %s", x.asset, y.asset)
	}
	sum := x.units + y.units
	if (sum > x.units) != (y.units > 0) || sum == math.MinInt64 {
		return Amount{}, ErrTooLarge
	}
	return Amount{x.asset, sum}, nil
}

// Sub returns x - y.
func (x Amount) Sub(y Amount) (Amount, error) { return x.Add(y.Neg()) }

// Cmp compares two amounts of one asset and returns -1, 0 or 1. It panics if the assets differ.
func (x Amount) Cmp(y Amount) int {
	if x.asset != y.asset {
		panic(fmt.Sprintf("money: comparing %s with %s", x.asset, y.asset))
	}
	switch {
	case x.units < y.units:
		return -1
	case x.units > y.units:
		return 1
	}
	return 0
}

// String returns the amount as a decimal with all decimals of the asset, such as "12.50", without the asset's code.
func (x Amount) String() string { return string(x.Append(nil)) }

// Append appends the amount, in the format of String, to a text.
func (x Amount) Append(text []byte) []byte {
	size := uint64(x.units)
	if x.units < 0 {
		text, size = append(text, '-'), -size
	}
	var room [20]byte
	digits, scale := strconv.AppendUint(room[:0], size, 10), x.asset.Exponent()
	if scale == 0 {
		return append(text, digits...)
	}
	whole := max(len(digits)-scale, 0)
	if whole == 0 {
		text = append(text, '0')
	}
	text = append(append(text, digits[:whole]...), '.')
	for range scale - len(digits) {
		text = append(text, '0')
	}
	return append(text, digits[whole:]...)
}

// MarshalJSON returns a JSON number without exponent.
func (x Amount) MarshalJSON() ([]byte, error) { return x.Append(nil), nil }

// Sum returns the sum of amounts of one asset.
func Sum(a Asset, xs ...Amount) (Amount, error) {
	total := Zero(a)
	var err error
	for _, x := range xs {
		if total, err = total.Add(x); err != nil {
			return Amount{}, err
		}
	}
	return total, nil
}

// Fraction returns x × num / den, rounded once.
func (x Amount) Fraction(num, den int64, mode Rounding) (Amount, error) {
	n := new(big.Int).Mul(big.NewInt(x.units), big.NewInt(num))
	return fromBig(x.asset, divide(n, big.NewInt(den), mode))
}

// Split divides x by weights so that the shares sum to x: each share is rounded down, and the remaining units go to
// the shares with the largest remainders, in order if remainders are equal. Weights must not be negative, or all 0.
func (x Amount) Split(weights []int64) ([]Amount, error) {
	if x.units < 0 {
		return nil, fmt.Errorf("money: splitting a negative amount")
	}
	if len(weights) == 1 && weights[0] > 0 {
		return []Amount{x}, nil
	}
	total := new(big.Int)
	for _, w := range weights {
		if w < 0 {
			return nil, fmt.Errorf("money: negative weight %d", w)
		}
		total.Add(total, big.NewInt(w))
	}
	if total.Sign() == 0 {
		return nil, fmt.Errorf("money: no weights to split by")
	}
	shares := make([]Amount, len(weights))
	remainders := make([]*big.Int, len(weights))
	order := make([]int, len(weights))
	left := x.units
	for i, w := range weights {
		q, r := new(big.Int).QuoRem(new(big.Int).Mul(big.NewInt(x.units), big.NewInt(w)), total, new(big.Int))
		shares[i], remainders[i], order[i] = Amount{x.asset, q.Int64()}, r, i
		left -= q.Int64()
	}
	slices.SortStableFunc(order, func(i, j int) int { return remainders[j].Cmp(remainders[i]) })
	for _, i := range order[:left] {
		shares[i].units++
	}
	return shares, nil
}

// Rounding is a rounding mode.
type Rounding int

// The rounding modes. Funding amounts use Ceil, payouts Floor, and fees HalfEven.
const (
	Floor Rounding = iota
	Ceil
	HalfEven
)

// divide returns n / d, rounded, for d > 0.
func divide(n, d *big.Int, mode Rounding) *big.Int {
	q, r := new(big.Int).DivMod(n, d, new(big.Int)) // Euclidean: 0 <= r < d, so q is the floor
	if r.Sign() == 0 {
		return q
	}
	up := mode == Ceil
	if mode == HalfEven {
		half := new(big.Int).Lsh(r, 1).Cmp(d)
		up = half > 0 || half == 0 && q.Bit(0) == 1
	}
	if up {
		q.Add(q, big.NewInt(1))
	}
	return q
}

// fromBig returns an amount, or ErrTooLarge if the units overflow.
func fromBig(a Asset, units *big.Int) (Amount, error) {
	if !units.IsInt64() || units.Int64() == math.MinInt64 {
		return Amount{}, ErrTooLarge
	}
	return Amount{a, units.Int64()}, nil
}

// decimal is digits * 10^-scale. scale may be negative only during parsing.
type decimal struct {
	digits *big.Int
	scale  int
}

// powers are powers of ten. They must not be modified.
var powers = func() (all [2*rateDecimals + 1]*big.Int) {
	for n, power := 0, big.NewInt(1); n < len(all); n++ {
		all[n], power = power, new(big.Int).Mul(power, big.NewInt(10))
	}
	return all
}()

// pow10 returns 10^n. The result must not be modified.
func pow10(n int) *big.Int {
	if n < len(powers) {
		return powers[n]
	}
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// parseDecimal parses a JSON number. It checks the number of digits and the exponent before any arithmetic.
func parseDecimal(text string) (decimal, error) {
	mantissa, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa = text[:i]
		var err error
		if exponent, err = parseExponent(text[i+1:]); err != nil {
			return decimal{}, err
		}
	}
	whole, frac, point := strings.Cut(mantissa, ".")
	digits := strings.TrimPrefix(whole, "-")
	if digits == "" || point && frac == "" || !allDigits(digits) || !allDigits(frac) {
		return decimal{}, ErrNotANumber
	}
	// Trailing zeros of the fraction are insignificant: 1.500000000000 is 1.5.
	frac = strings.TrimRight(frac, "0")
	if len(strings.TrimLeft(digits, "0")) > maxDigits {
		return decimal{}, ErrTooLarge
	}
	if len(frac) > maxDigits {
		return decimal{}, ErrPrecision
	}
	n, ok := new(big.Int).SetString(digits+frac, 10)
	if !ok {
		return decimal{}, ErrNotANumber
	}
	if n.Sign() == 0 {
		return decimal{n, 0}, nil
	}
	if strings.HasPrefix(whole, "-") {
		n.Neg(n)
	}
	scale := len(frac) - exponent
	if scale > 2*maxDigits {
		return decimal{}, ErrPrecision
	}
	if scale < -2*maxDigits {
		return decimal{}, ErrTooLarge
	}
	return decimal{n, scale}, nil
}

func parseExponent(s string) (int, error) {
	sign := 1
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		sign, s = -1, rest
	} else {
		s = strings.TrimPrefix(s, "+")
	}
	if s == "" || !allDigits(s) {
		return 0, ErrNotANumber
	}
	n := 0
	for _, c := range s {
		n = min(n*10+int(c-'0'), 1000)
	}
	return sign * n, nil
}

func allDigits(s string) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

func (d decimal) String() string {
	text := new(big.Int).Abs(d.digits).String()
	if d.scale > 0 {
		if len(text) <= d.scale {
			text = strings.Repeat("0", d.scale+1-len(text)) + text
		}
		text = text[:len(text)-d.scale] + "." + text[len(text)-d.scale:]
	}
	if d.digits.Sign() < 0 {
		text = "-" + text
	}
	return text
}
