package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// Environment is one of the two installations a credential may belong to.
type Environment = string

// The environments.
const (
	Sandbox    = "sandbox"
	Production = "production"
)

// tokenKind is what a token is, as its prefix says.
type tokenKind string

const (
	keyToken    tokenKind = "key"    // API key of an app
	accessToken tokenKind = "token"  // OAuth access token
	secretToken tokenKind = "secret" // client secret of an app
	codeToken   tokenKind = "code"   // authorization code
)

var tokenEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

const tokenChars = 52 // 256 bits in base32

// newToken makes 256 random bits with a prefix that people and secret scanners can read: stp_sandbox_key_….
// Secrets must not be guessable from ids, so they have their own randomness.
func newToken(kind tokenKind, env Environment) string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime ends the program instead
	return prefix(kind, env) + tokenEncoding.EncodeToString(b[:])
}

func prefix(kind tokenKind, env Environment) string {
	return "stp_" + env + "_" + string(kind) + "_"
}

// wellFormed says whether a token has the form of newToken. What has not needs no look into the database.
func wellFormed(token string, kind tokenKind, env Environment) bool {
	text, ok := strings.CutPrefix(token, prefix(kind, env))
	if !ok || len(text) != tokenChars {
		return false
	}
	_, err := tokenEncoding.DecodeString(text)
	return err == nil
}

// NewAuthorizationCode makes the code that an app exchanges for an access token. Only its Digest is to be stored.
func NewAuthorizationCode(env Environment) string { return newToken(codeToken, env) }

// CodeDigest is under what an authorization code is stored. It is "" for text that has not the form of one.
func CodeDigest(env Environment, code string) string {
	if !wellFormed(code, codeToken, env) {
		return ""
	}
	return digest(code)
}

// Digest is all that is stored of a secret of 256 random bits.
func Digest(token string) string { return digest(token) }

// digest is all that is stored of a token. 256 random bits need no salt and no slow hash.
func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// linkPrefix marks the token of a link in a mail.
const linkPrefix = "stp_link_"

// NewLinkToken makes 256 random bits for a link in a mail. Only their LinkDigest is to be stored.
func NewLinkToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:])
	return linkPrefix + tokenEncoding.EncodeToString(b[:])
}

// LinkDigest is under what the token of a link is stored. It is "" for text that has not the form of such a token.
func LinkDigest(token string) string {
	text, ok := strings.CutPrefix(token, linkPrefix)
	if !ok || len(text) != tokenChars {
		return ""
	}
	return digest(token)
}

// sessionPrefix marks the token of somebody who is signed in.
const sessionPrefix = "stp_session_"

// NewSessionToken makes 256 random bits for a cookie. Only their SessionDigest is to be stored.
func NewSessionToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:])
	return sessionPrefix + tokenEncoding.EncodeToString(b[:])
}

// SessionDigest is under what a session is stored. It is "" for text that has not the form of its token.
func SessionDigest(token string) string {
	text, ok := strings.CutPrefix(token, sessionPrefix)
	if !ok || len(text) != tokenChars {
		return ""
	}
	return digest(token)
}

// NewRecoveryCode makes 80 random bits for somebody to write down, in four groups. Only its RecoveryDigest is to be stored.
func NewRecoveryCode() string {
	var b [10]byte
	_, _ = rand.Read(b[:])
	text := tokenEncoding.EncodeToString(b[:])
	return text[:4] + "-" + text[4:8] + "-" + text[8:12] + "-" + text[12:]
}

// RecoveryDigest is under what a person's recovery code is stored, however its letters and groups are written.
func RecoveryDigest(userID, code string) string {
	plain := strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' {
			return -1
		}
		return r
	}, strings.ToLower(code))
	return digest("recovery code of " + userID + " " + plain)
}

func sameDigest(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// basicToken reads what follows "Basic": the key itself, or base64 of the key and a colon, as clients send it that
// insist on a user name and an (empty) password.
func basicToken(credential string) string {
	if strings.HasPrefix(credential, "stp_") {
		return credential
	}
	plain, err := base64.StdEncoding.DecodeString(credential)
	if err != nil {
		return ""
	}
	token, ok := strings.CutSuffix(string(plain), ":")
	if !ok {
		return ""
	}
	return token
}
