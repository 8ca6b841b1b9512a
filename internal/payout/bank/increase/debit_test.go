package increase_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/increase"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
	"github.com/stipend/stipend/internal/testkit"
)

// A debit is an ACH transfer of a negative amount. It is collected when the Federal Reserve has settled it.
func TestDebits(t *testing.T) {
	for kind, class := range map[nacha.Debit]string{nacha.CompanyDebit: "corporate_credit_or_debit",
		nacha.WebDebit: "internet_initiated"} {
		s := serve(t)
		api := testkit.Must(increase.New(s.URL, apiKey))
		o := bank.Order{Account: bank.Account{ID: "usd", Currency: money.USD, Name: "Example Payments", Number: "account_1",
			Source: "account_number_1"}, Reference: "D0000012P00001", Debit: kind, Payment: bank.Payment{
			Amount: money.New(money.USD, 100_00), Country: "US", Scheme: "ach", Details: payout.Details{Description: "October"},
			Data: json.RawMessage(`{"account_holder_name":"Acme Inc","account_holder_type":"business",
				"routing_number":"110000000","account_number":"000000101","account_type":"checking"}`)}}
		if o.Method = testkit.Must(api.Method(t.Context(), o)); o.Method != "ach" {
			t.Fatalf("the method is %s", o.Method)
		}
		if _, err := api.Find(t.Context(), o); !errors.Is(err, bank.ErrNoTransfer) {
			t.Errorf("before the call: %v", err)
		}
		made := testkit.Must(api.Create(t.Context(), o))
		var in object
		testkit.Check(t, json.Unmarshal(s.transfers[0]["request"].([]byte), &in))
		for name, want := range map[string]any{"amount": -100_00.0, "standard_entry_class_code": class,
			"company_name": "Example Payments", "company_entry_description": "FUNDING", "individual_name": "Acme Inc"} {
			if in[name] != want {
				t.Errorf("%s: %v, want %v", name, in[name], want)
			}
		}
		want := func(name string, status bank.TransferStatus) {
			t.Helper()
			if got := testkit.Must(api.Get(t.Context(), o, made.ID)); got.Status != status {
				t.Errorf("%s: the status is %v, want %v", name, got.Status, status)
			}
		}
		s.advance()
		want("submitted", bank.TransferPending)
		s.change(o.Reference, object{"settlement": object{"settled_at": "2026-01-16T13:30:00Z"}})
		want("settled", bank.TransferPaid)
		s.change(o.Reference, object{"status": "returned", "return": object{"raw_return_reason_code": "R01"}})
		want("returned", bank.TransferReturned)
		if again := testkit.Must(api.Find(t.Context(), o)); again.ID != made.ID || again.Code != "R01" {
			t.Errorf("%+v", again)
		}
		o.Debit = "" // a payment with the same key is another one
		if _, err := api.Find(t.Context(), o); !errors.Is(err, bank.ErrOther) {
			t.Errorf("a payment: %v", err)
		}
	}
}
