package increase_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/increase"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

// A webhook of Increase, signed as its documentation says, brings the next check of its transfer forward.
func TestCallbacks(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "")
		all := bank.Callbacks{"increase": increase.Callback("secret_1"), "other": increase.Callback("")}
		b.CheckCallbacks(all, "increase", 5*time.Minute,
			func(id string, at time.Time, right bool) (http.Header, []byte) {
				body := fmt.Appendf(nil, `{"id":"event_1","type":"event","category":"ach_transfer.updated",
					"associated_object_type":"ach_transfer","associated_object_id":%q}`, id)
				secret := map[bool]string{true: "secret_1", false: "secret_2"}[right]
				mac := hmac.New(sha256.New, []byte(secret))
				fmt.Fprintf(mac, "event_1.%d.%s", at.Unix(), body)
				return http.Header{"Webhook-Id": {"event_1"}, "Webhook-Timestamp": {fmt.Sprint(at.Unix())},
					"Webhook-Signature": {"v1,b2xk v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))}}, body
			}, func(o payout.Output) string {
				b.change(b.Reference(o), object{"status": "returned", "return": object{"raw_return_reason_code": "R03"}})
				return b.transfers[0]["id"].(string)
			})
	})
}
