package delivery

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Headers of a delivery. The first three are defined by Standard Webhooks 1.0.
const (
	HeaderID        = "Webhook-Id"          // event's ID, the same in every attempt
	HeaderTimestamp = "Webhook-Timestamp"   // time of this attempt, in seconds since 1970
	HeaderSignature = "Webhook-Signature"   // "v1,<base64>" for each valid secret, separated by spaces
	HeaderPlain     = "X-Stipend-Signature" // hexadecimal HMAC-SHA256 of the body with the first secret
)

const secretPrefix = "whsec_"

// NewSecret returns a new secret for an endpoint: 256 random bits in the format of Standard Webhooks.
func NewSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never returns an error
	return secretPrefix + base64.StdEncoding.EncodeToString(b[:])
}

// Sign sets the headers of a delivery. With them, the receiver verifies the sender, the endpoint and the time.
// Webhook-Signature contains one signature per secret. X-Stipend-Signature is for receivers without a library for
// Standard Webhooks: it uses only the first secret and does not cover the time.
func Sign(h http.Header, id string, at time.Time, body []byte, secrets ...string) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, timestamp)
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		// Generated secrets are base64. A secret from a command line may be any text; then the text itself is the key.
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
		if err != nil {
			key = []byte(secret)
		}
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac(key, []byte(id+"."+timestamp+"."), body))
	}
	h.Set(HeaderSignature, strings.Join(signatures, " "))
	h.Set(HeaderPlain, hex.EncodeToString(mac([]byte(secrets[0]), body)))
}

func mac(key []byte, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}
