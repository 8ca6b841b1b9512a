package payroll

import (
	"encoding/json"
	"testing"

	"github.com/stipend/stipend/internal/money"
)

// What a payment's event says is what its published form says, to the byte, whatever stands in it.
func TestPaymentEventsAreTheirPublishedForm(t *testing.T) {
	claim := "clm_1"
	plain := paymentData{UserID: "usr_1", SubpayrollID: "pmt_1", PayrollID: "prl_1", Status: Received}
	plain.Payment.Outputs = []outputData{}
	odd := paymentData{UserID: `"\<é>` + "\x00\u2028\x7f\xff", ClaimID: &claim, Status: "&", Reason: "a reason"}
	odd.Payment.SubpayrollID, odd.Payment.Received, odd.Payment.Fulfilled = "pmt_2", true, true
	for _, units := range []int64{0, 1, -1, 99_999_999, 100_000_000, -123_456_789_012, 1<<63 - 1, -(1<<63 - 1)} {
		odd.Payment.Outputs = append(odd.Payment.Outputs, outputData{
			InputCurrency: money.USD, OutputCurrency: money.BTC, Input: money.New(money.USD, units), Output: money.New(money.BTC, units),
			Fees: money.New(money.JPY, units), TxHash: "00ff",
		})
	}
	for _, d := range []paymentData{plain, odd} {
		want, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.AppendJSON([]byte("before")); string(got) != "before"+string(want) {
			t.Errorf("an event says\n%s\nand its form\n%s", got, want)
		}
	}
}
