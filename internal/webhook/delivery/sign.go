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

// The headers of a delivery. The first three are those of Standard Webhooks 1.0.
const (
	HeaderID        = "Webhook-Id"        // the event's id, the same at every attempt
	HeaderTimestamp = "Webhook-Timestamp" // seconds since 1970 at which this attempt was sent
	HeaderSignature = "Webhook-Signature" // "v1,<base64>" for each valid secret, separated by spaces
	HeaderPlain     = "X-Stipend-Signature"
)

const secretPrefix = "whsec_"

// NewSecret makes the secret of an endpoint: 256 random bits in the form of Standard Webhooks.
func NewSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime ends the program instead
	return secretPrefix + base64.StdEncoding.EncodeToString(b[:])
}

// Sign puts the headers of a delivery into h: who reads them can tell that the body came from here, for this endpoint, at
// this time. There is a signature for each secret in webhook-signature; x-stipend-signature, the plain form for those who
// have no library, is of the first secret alone and says nothing of the time.
func Sign(h http.Header, id string, at time.Time, body []byte, secrets ...string) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, timestamp)
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		// Our own secrets are base64; one given on a command line need not be, and then signs as it is.
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
