package column

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"

	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/bankhttp"
)

// callbackAge is the largest difference between the time of an event and now. Column signs the time of the event, not
// the time of the delivery, which may be repeated for hours.
const callbackAge = 24 * time.Hour

// Callback authenticates Column's webhooks with the secret of the webhook endpoint.
func Callback(secret string) bank.Callback {
	return bank.Callback{Header: "Column-Signature", Transfer: func(h http.Header, body []byte, now time.Time,
	) (string, error) {
		mac, err := hex.DecodeString(h.Get("Column-Signature"))
		if err != nil || !bankhttp.SignedBy(secret, mac, string(body)) {
			return "", bank.ErrCallback
		}
		var event struct {
			Created time.Time `json:"created_at"`
			Data    struct {
				ID string `json:"id"`
			} `json:"data"`
		}
		if json.Unmarshal(body, &event) != nil || now.Sub(event.Created).Abs() > callbackAge {
			return "", bank.ErrCallback
		}
		return event.Data.ID, nil
	}}
}
