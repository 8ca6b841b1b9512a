package column_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/column"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

// A webhook of Column, signed as its documentation says, brings the next check of its transfer forward.
func TestCallbacks(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "")
		all := bank.Callbacks{"column": column.Callback("secret_1"), "other": column.Callback("")}
		b.CheckCallbacks(all, "column", 24*time.Hour,
			func(id string, at time.Time, right bool) (http.Header, []byte) {
				body := fmt.Appendf(nil, `{"id":"evnt_1","created_at":%q,"type":"ach.outgoing_transfer.returned",
					"data":{"id":%q}}`, at.Format(time.RFC3339), id)
				secret := map[bool]string{true: "secret_1", false: "secret_2"}[right]
				mac := hmac.New(sha256.New, []byte(secret))
				mac.Write(body)
				return http.Header{"Column-Signature": {hex.EncodeToString(mac.Sum(nil))}}, body
			}, func(o payout.Output) string {
				b.change(b.Reference(o), object{"status": "RETURNED", "return_details": []object{{"return_code": "R03"}}})
				return b.transfers[0]["id"].(string)
			})
	})
}
