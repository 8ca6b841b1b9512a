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

// Minimum length of a password in characters, and maximum length in bytes.
const (
	MinPassword = 12
	MaxPassword = 1024
)

// Lists of common passwords, in lower case.
var (
	// commonWords are the words in the most common passwords, without digits and symbols at their ends.
	//go:embed passwords.txt
	commonWords string
	// breached contains about 35,000 passwords from data breaches, one per line.
	//go:embed breached.txt.gz
	breached []byte
)

// commonPasswords returns the words of both lists, sorted.
var commonPasswords = sync.OnceValue(func() []string {
	z, err := gzip.NewReader(bytes.NewReader(breached))
	if err != nil {
		panic(err) // never happens: the lists are embedded
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
	_, found := slices.BinarySearch(commonPasswords(), word)
	return found
}

// CheckNewPassword adds a problem if a new password is too short, too long or easy to guess. As NIST SP 800-63B
// recommends, it does not require particular kinds of characters. email is the address of the account.
func CheckNewPassword(problems *apierr.List, pointer, password, email string) {
	switch {
	case password == "":
		problems.Add("missing_field", pointer, "This field is required.")
	case utf8.RuneCountInString(password) < MinPassword || len(password) > MaxPassword:
		problems.Add("invalid_parameter", pointer, "The password must have 12 to 1,024 characters.")
	case guessable(password, email):
		problems.Add("password_common", pointer, "This password is easy to guess. Use three or four unrelated words.")
	}
}

// guessable reports whether a password is easy to guess. Such a password is a common one, possibly surrounded by
// digits and symbols; repeats a short or common word; contains the account name and little else; has fewer than 5
// different characters; is a sequence such as 123456789012; or consists of digits only.
func guessable(password, email string) bool {
	lower := strings.ToLower(password)
	different := map[rune]bool{}
	sequence := true
	last := rune(-1)
	for _, r := range lower {
		different[r] = true
		sequence = sequence &&
			(last < 0 || r == last+1 || r == last-1 || last == '9' && r == '0' || last == '0' && r == '9')
		last = r
	}
	if len(different) < 5 || sequence {
		return true
	}
	word := strings.TrimFunc(lower, func(r rune) bool { return !unicode.IsLetter(r) })
	name, _, _ := strings.Cut(strings.ToLower(email), "@")
	for _, w := range []string{lower, word} {
		if common(w) || w == strings.ToLower(email) || w == name || repeats(w) {
			return true
		}
	}
	// Digits alone are probably a date or a telephone number.
	return !strings.ContainsFunc(lower, func(r rune) bool { return !unicode.IsDigit(r) })
}

// repeats reports whether a text consists of repetitions of a common word or of 3 to 5 bytes.
func repeats(text string) bool {
	for n := 3; n <= len(text)/2; n++ {
		if len(text)%n == 0 && strings.Repeat(text[:n], len(text)/n) == text && (n < 6 || common(text[:n])) {
			return true
		}
	}
	return false
}

// HashPassword returns the hash of a password to store. It takes about 50 ms by design; call it outside a
// transaction.
func HashPassword(password string) (string, error) {
	return argon2id.CreateHash(password, argon2id.DefaultParams)
}
