package identity

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"

	"github.com/stipend/stipend/internal/apierr"
)

// The shortest and the longest password, in characters and bytes.
const (
	MinPassword = 12
	MaxPassword = 1024
)

// commonWords are what most guessed passwords consist of, once the digits and signs at their ends are taken off, and
// breached some 35,000 that were found in breaches, in order. Both are in lower case.
var (
	//go:embed passwords.txt
	commonWords string
	//go:embed breached.txt.gz
	breached []byte
)

// known are those lists, sorted.
var known = sync.OnceValue(func() []string {
	z, err := gzip.NewReader(bytes.NewReader(breached))
	if err != nil {
		panic(err) // embedded, so a test would have seen it
	}
	text, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	all := append(strings.Split(string(text), "\n"), strings.Fields(commonWords)...)
	slices.Sort(all)
	return all
})

func common(word string) bool {
	_, found := slices.BinarySearch(known(), word)
	return found
}

// CheckNewPassword records problems of a new password: too short, or commonly guessed, as NIST SP 800-63B requires.
// There are no rules about its characters. email is that of the account.
func CheckNewPassword(problems *apierr.List, pointer, password, email string) {
	switch {
	case password == "":
		problems.Add("missing_field", pointer, "This field is required.")
	case utf8.RuneCountInString(password) < MinPassword || len(password) > MaxPassword:
		problems.Add("invalid_parameter", pointer, "The password must have at least 12 characters.")
	case guessable(password, email):
		problems.Add("password_common", pointer, "This password is easy to guess. Use three or four unrelated words.")
	}
}

// guessable reports whether a password is a common word or the account name with little around it, has few
// different characters, or is a sequence.
func guessable(password, email string) bool {
	lower := strings.ToLower(password)
	different := map[rune]bool{}
	counts := true
	last := rune(-1)
	for _, r := range lower {
		different[r] = true
		counts = counts && (last < 0 || r == last+1 || r == last-1 || last == '9' && r == '0' || last == '0' && r == '9')
		last = r
	}
	if len(different) < 5 || counts {
		return true
	}
	word := strings.TrimFunc(lower, func(r rune) bool { return !unicode.IsLetter(r) })
	name, _, _ := strings.Cut(strings.ToLower(email), "@")
	for _, w := range []string{lower, word} {
		if common(w) || w == strings.ToLower(email) || w == name || repeats(w) {
			return true
		}
	}
	return word == "" && !mixed(lower)
}

// repeats reports whether a text is a repeated common word.
func repeats(text string) bool {
	for n := 3; n <= len(text)/2; n++ {
		if len(text)%n == 0 && strings.Repeat(text[:n], len(text)/n) == text && (n < 6 || common(text[:n])) {
			return true
		}
	}
	return false
}

// mixed says whether a text without letters is more than a number: those are dates and telephones.
func mixed(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsDigit(r) })
}

// HashPassword returns the hash to store. It takes about 50 ms by design: call it outside a transaction.
func HashPassword(password string) (string, error) {
	return argon2id.CreateHash(password, argon2id.DefaultParams)
}
