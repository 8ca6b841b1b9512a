package increase

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/bankhttp"
)

// callbackAge is the largest difference between the time of a webhook and now.
const callbackAge = 5 * time.Minute

// Callback authenticates Increase's webhooks with the secret of the event subscription. The signatures follow the
// Standard Webhooks specification.
func Callback(secret string) bank.Callback {
	return bank.Callback{Header: "Webhook-Signature", Transfer: func(h http.Header, body []byte, now time.Time,
	) (string, error) {
		stamp := h.Get("Webhook-Timestamp")
		seconds, err := strconv.ParseInt(stamp, 10, 64)
		if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > callbackAge {
			return "", bank.ErrCallback
		}
		signed := false
		for _, text := range strings.Fields(h.Get("Webhook-Signature")) { // several while a secret is replaced
			version, encoded, _ := strings.Cut(text, ",")
			mac, err := base64.StdEncoding.DecodeString(encoded)
			signed = signed || err == nil && version == "v1" &&
				bankhttp.SignedBy(secret, mac, h.Get("Webhook-Id"), ".", stamp, ".", string(body))
		}
		var event struct {
			Object string `json:"associated_object_id"`
		}
		if !signed || json.Unmarshal(body, &event) != nil {
			return "", bank.ErrCallback
		}
		return event.Object, nil
	}}
}
