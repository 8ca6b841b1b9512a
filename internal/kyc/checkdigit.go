package kyc

import (
	"strings"
	"time"
)

// What the rules of many countries are made of: check digits, sums with weights, and days that exist.

func luhn(s string) bool {
	sum := 0
	for i := range len(s) {
		n := digit(s[len(s)-1-i])
		if i%2 == 1 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return sum%10 == 0
}

// iso11 is ISO 7064 MOD 11,10.
func iso11(s string) bool {
	rest := 10
	for i := range len(s) - 1 {
		if rest = (rest + digit(s[i])) % 10; rest == 0 {
			rest = 10
		}
		rest = rest * 2 % 11
	}
	return (rest+digit(s[len(s)-1]))%10 == 1
}

// verhoeff computes in the group of the turns and flips of a pentagon.
func verhoeff(s string) bool {
	check := 0
	for i := range len(s) {
		n := digit(s[len(s)-1-i])
		for range i % 8 {
			n = [10]int{1, 5, 7, 6, 2, 8, 3, 0, 9, 4}[n]
		}
		switch a, b := check, n; {
		case a < 5 && b < 5:
			check = (a + b) % 5
		case a < 5:
			check = (a+b-5)%5 + 5
		case b < 5:
			check = (a-5-b+5)%5 + 5
		default:
			check = (a - b + 5) % 5
		}
	}
	return check == 0
}

func digit(c byte) int { return int(c - '0') }

// number is the value of digits, at most 18 of them.
func number(s string) int {
	n := 0
	for i := range len(s) {
		n = n*10 + digit(s[i])
	}
	return n
}

// digits is s without its marks.
func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, s)
}

// weigh sums the digits times the weights, which repeat.
func weigh(s string, weights ...int) (sum int) {
	for i := range len(s) {
		sum += digit(s[i]) * weights[i%len(weights)]
	}
	return sum
}

// weighRight is weigh with the first weight at the right.
func weighRight(s string, weights ...int) (sum int) {
	for i := range len(s) {
		sum += digit(s[len(s)-1-i]) * weights[i%len(weights)]
	}
	return sum
}

// negative is -sum modulo 11.
func negative(sum int) int { return (11 - sum%11) % 11 }

func pad(s string, length int) string { return strings.Repeat("0", max(0, length-len(s))) + s }

func repeated(s string) bool { return strings.Trim(s, s[:1]) == "" }

// between compares texts of one length.
func between(s, least, most string) bool { return s >= least && s <= most }

func realDay(year, month, day int) bool {
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	return month >= 1 && month <= 12 && t.Month() == time.Month(month) && day == t.Day()
}

func day(year string, month, day int) bool { return realDay(number(year), month, day) }

// day8 reads YYYYMMDD, day2 YYMMDD of either century.
func day8(s string) bool { return realDay(number(s[:4]), number(s[4:6]), number(s[6:8])) }
func day2(s string) bool { return dayOfEither(s[:2], number(s[2:4]), number(s[4:6])) }

// dayOfEither says whether there was such a day in the last or in this century.
func dayOfEither(year string, month, dayOfMonth int) bool {
	return day("19"+year, month, dayOfMonth) || day("20"+year, month, dayOfMonth)
}
