package wise

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"time"

	"github.com/stipend/stipend/internal/payout/bank"
)

// callbackAge is the largest difference between the stated time of sending of a webhook and now. Deliveries are
// repeated for hours.
const callbackAge = 24 * time.Hour

// Callback authenticates Wise's webhooks with Wise's public key, in PEM. Production and sandbox have different keys.
func Callback(publicKey []byte) (bank.Callback, error) {
	block, _ := pem.Decode(publicKey)
	if block == nil {
		return bank.Callback{}, errors.New("wise: the public key is not in PEM")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return bank.Callback{}, err
	}
	key, ok := parsed.(*rsa.PublicKey)
	if !ok {
		return bank.Callback{}, errors.New("wise: the public key is not an RSA key")
	}
	return bank.Callback{Header: "X-Signature-Sha256", Transfer: func(h http.Header, body []byte, now time.Time,
	) (string, error) {
		signature, err := base64.StdEncoding.DecodeString(h.Get("X-Signature-Sha256"))
		sum := sha256.Sum256(body)
		if err != nil || rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) != nil {
			return "", bank.ErrCallback
		}
		var event struct {
			Sent time.Time `json:"sent_at"`
			Data struct {
				Resource struct {
					Type string      `json:"type"`
					ID   json.Number `json:"id"`
				} `json:"resource"`
			} `json:"data"`
		}
		if json.Unmarshal(body, &event) != nil || now.Sub(event.Sent).Abs() > callbackAge {
			return "", bank.ErrCallback
		}
		if event.Data.Resource.Type != "transfer" {
			return "", nil
		}
		return event.Data.Resource.ID.String(), nil
	}}, nil
}
