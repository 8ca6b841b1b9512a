// Command verify verifies a delivery of a webhook, with the standard library alone.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const tolerance = 5 * time.Minute

// Verify says whether a delivery came from the service, for this endpoint, now. rawBody is the body as it came,
// before any JSON parser.
func Verify(secret string, h http.Header, rawBody []byte, now time.Time) bool {
	id, timestamp := h.Get("webhook-id"), h.Get("webhook-timestamp")
	sent, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || id == "" || now.Sub(time.Unix(sent, 0)).Abs() > tolerance {
		return false
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return false
	}
	m := hmac.New(sha256.New, key)
	m.Write([]byte(id + "." + timestamp + "."))
	m.Write(rawBody)
	expected := m.Sum(nil)
	for part := range strings.FieldsSeq(h.Get("webhook-signature")) {
		text, ok := strings.CutPrefix(part, "v1,")
		given, err := base64.StdEncoding.DecodeString(text)
		if ok && err == nil && hmac.Equal(given, expected) {
			return true
		}
	}
	return false
}

// On the command line: verify SECRET ID TIMESTAMP SIGNATURE < body
func main() {
	body, err := io.ReadAll(os.Stdin)
	if err != nil || len(os.Args) != 5 {
		os.Exit(2)
	}
	h := http.Header{}
	h.Set("webhook-id", os.Args[2])
	h.Set("webhook-timestamp", os.Args[3])
	h.Set("webhook-signature", os.Args[4])
	if !Verify(os.Args[1], h, body, time.Now()) {
		os.Exit(1)
	}
}
