package column_test

import (
	"encoding/json"
	"testing"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/column"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
	"github.com/stipend/stipend/internal/testkit"
)

// A debit is an ACH transfer of type DEBIT. It is collected when it has settled.
func TestDebits(t *testing.T) {
	s := serve(t)
	api := testkit.Must(column.New(s.URL, apiKey))
	o := bank.Order{Account: bank.Account{ID: "usd", Currency: money.USD, Name: "Example Payments", Number: "bacc_1",
		InstantLimit: "5000.00"}, Reference: "D0000012P00001", Debit: nacha.WebDebit, Retry: true, Payment: bank.Payment{
		Amount: money.New(money.USD, 100_00), Country: "US", Scheme: "ach", Details: payout.Details{Description: "October"},
		Data: json.RawMessage(`{"account_holder_name":"Acme Inc","account_holder_type":"business",
			"routing_number":"110000000","account_number":"000000101","account_type":"checking"}`)}}
	if o.Method = testkit.Must(api.Method(t.Context(), o)); o.Method != "ach" {
		t.Fatalf("the method is %s", o.Method)
	}
	made := testkit.Must(api.Create(t.Context(), o))
	for name, want := range map[string]any{"type": "DEBIT", "entry_class_code": "WEB", "same_day": false,
		"company_entry_description": "RETRY PYMT", "company_name": "Example Payments"} {
		if got := s.transfers[0][name]; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	want := func(name string, status bank.TransferStatus) {
		t.Helper()
		if got := testkit.Must(api.Get(t.Context(), o, made.ID)); got.Status != status {
			t.Errorf("%s: the status is %v, want %v", name, got.Status, status)
		}
	}
	s.change(o.Reference, object{"status": "SUBMITTED"})
	want("submitted", bank.TransferPending)
	s.change(o.Reference, object{"status": "SETTLED"})
	want("settled", bank.TransferPaid)
	s.change(o.Reference, object{"status": "RETURNED", "return_details": []object{{"return_code": "R10"}}})
	want("returned", bank.TransferReturned)
	if again := testkit.Must(api.Find(t.Context(), o)); again.ID != made.ID || again.Code != "R10" {
		t.Errorf("%+v", again)
	}
}
