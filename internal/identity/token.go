package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"
	"unicode"
)

// Environment is the environment of an installation. Each credential belongs to one environment.
type Environment = string

// The environments.
const (
	Sandbox    = "sandbox"
	Production = "production"
)

// tokenKind is the kind of a token, which is part of the token's prefix.
type tokenKind string

const (
	keyToken    tokenKind = "key"    // API key of an app
	accessToken tokenKind = "token"  // OAuth access token
	secretToken tokenKind = "secret" // client secret of an app
	codeToken   tokenKind = "code"   // authorization code

	refreshToken tokenKind = "refresh" // OAuth refresh token
)

var tokenEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

const tokenChars = 52 // length of 256 bits in base32

// newToken returns 256 random bits with a prefix, such as stp_sandbox_key_, that people and secret scanners
// recognize.
func newToken(kind tokenKind, env Environment) string {
	return prefix(kind, env) + randomText(32)
}

// NewCode returns a code of six random digits.
func NewCode() string {
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		panic(err) // never happens
	}
	return fmt.Sprintf("%06d", n)
}

// randomText returns size random bytes in base32.
func randomText(size int) string {
	b := make([]byte, size)
	_, _ = rand.Read(b) // never returns an error
	return tokenEncoding.EncodeToString(b)
}

func prefix(kind tokenKind, env Environment) string {
	return "stp_" + env + "_" + string(kind) + "_"
}

// wellFormed reports whether a token has the form that newToken returns. Other tokens need no lookup in the database.
func wellFormed(token string, kind tokenKind, env Environment) bool {
	text, ok := strings.CutPrefix(token, prefix(kind, env))
	if !ok || len(text) != tokenChars {
		return false
	}
	_, err := tokenEncoding.DecodeString(text)
	return err == nil
}

// NewAuthorizationCode returns a new authorization code. Store only its [CodeDigest].
func NewAuthorizationCode(env Environment) string { return newToken(codeToken, env) }

// CodeDigest returns the digest of an authorization code, or "" if it is malformed.
func CodeDigest(env Environment, code string) string {
	if !wellFormed(code, codeToken, env) {
		return ""
	}
	return Digest(code)
}

// NewRequestReference returns 160 random bits in base32 that refer to a pushed authorization request. Store only the
// [Digest].
func NewRequestReference() string { return randomText(20) }

// NewDeviceCode returns 160 random bits in base32 with which a device requests its tokens. Store only the [Digest].
func NewDeviceCode() string { return randomText(20) }

// userCodeLetters are the letters of user codes. They contain no vowels, so that codes form no words (RFC 8628,
// section 6.1).
const userCodeLetters = "BCDFGHJKLMNPQRSTVWXZ"

// NewUserCode returns a code of eight random letters, such as WDJB-MJHT, for a person to type. Store only the
// [Digest] of its [UserCode].
func NewUserCode() string {
	code := make([]byte, 0, 8)
	for range 8 {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(userCodeLetters))))
		if err != nil {
			panic(err) // never happens
		}
		code = append(code, userCodeLetters[n.Int64()])
	}
	return FormatUserCode(string(code))
}

// FormatUserCode formats the letters of a user code as a device shows them: WDJB-MJHT.
func FormatUserCode(letters string) string { return letters[:4] + "-" + letters[4:] }

// UserCode returns the letters of a code that a person typed, in capitals, or "" if the text cannot be a user code.
func UserCode(typed string) string {
	code := strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' {
			return -1
		}
		return unicode.ToUpper(r)
	}, typed)
	if len(code) != 8 || strings.Trim(code, userCodeLetters) != "" {
		return ""
	}
	return code
}

// NewRefreshToken returns a new OAuth refresh token. Store only its [RefreshDigest].
func NewRefreshToken(env Environment) string { return newToken(refreshToken, env) }

// RefreshDigest returns the digest of a refresh token, or "" if it is malformed.
func RefreshDigest(env Environment, token string) string {
	if !wellFormed(token, refreshToken, env) {
		return ""
	}
	return Digest(token)
}

// Digest returns the SHA-256 digest under which a random token is stored. Tokens with so many random bits need no
// salt and no slow hash.
func Digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// linkPrefix is the prefix of tokens of links in mails.
const linkPrefix = "stp_link_"

// NewLinkToken returns a new token for a link in a mail. Store only its [LinkDigest].
func NewLinkToken() string { return linkPrefix + randomText(32) }

// LinkDigest returns the digest of a link token, or "" if it is malformed.
func LinkDigest(token string) string { return prefixedDigest(linkPrefix, token) }

func prefixedDigest(prefix, token string) string {
	if text, ok := strings.CutPrefix(token, prefix); !ok || len(text) != tokenChars {
		return ""
	}
	return Digest(token)
}

// sessionPrefix is the prefix of session tokens.
const sessionPrefix = "stp_session_"

// NewSessionToken returns a new token for a session cookie. Store only its [SessionDigest].
func NewSessionToken() string { return sessionPrefix + randomText(32) }

// SessionDigest returns the digest of a session token, or "" if it is malformed.
func SessionDigest(token string) string { return prefixedDigest(sessionPrefix, token) }

// NewRecoveryCode returns a code of random base32 characters in four groups, for a person to write down. Store only
// its [RecoveryDigest].
func NewRecoveryCode() string {
	text := randomText(15)
	return text[:4] + "-" + text[4:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// RecoveryDigest returns the digest of a person's recovery code. It ignores case, spaces and hyphens in the code.
func RecoveryDigest(userID, code string) string {
	plain := strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' {
			return -1
		}
		return r
	}, strings.ToLower(code))
	return Digest("recovery code of " + userID + " " + plain)
}

func sameDigest(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// basicToken returns the API key in a Basic credential: the key itself, or base64 of the key and a colon, which
// clients send that require a user name and an empty password.
func basicToken(credential string) string {
	if strings.HasPrefix(credential, "stp_") {
		return credential
	}
	plain, err := base64.StdEncoding.DecodeString(credential)
	if err != nil {
		return ""
	}
	if token, ok := strings.CutSuffix(string(plain), ":"); ok {
		return token
	}
	return ""
}
