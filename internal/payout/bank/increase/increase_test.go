package increase_test

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/banktest"
	"github.com/stipend/stipend/internal/payout/bank/increase"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
	"github.com/stipend/stipend/internal/payout/payouttest"
	"github.com/stipend/stipend/internal/testkit"
)

// branch is a rail with an account at a local server.
type branch struct {
	*banktest.Branch
	*server
}

func open(f *payouttest.Fixture, more string) branch {
	f.Helper()
	s := serve(f.T)
	api, err := increase.New(s.URL, apiKey)
	f.Must(err)
	return branch{banktest.Open(f, "increase", more, api, s.advance), s}
}

// The rail keeps the contract of payout.Rail with an account at Increase.
func TestRail(t *testing.T) {
	for scheme, reverted := range map[string]object{
		"ach":     {"status": "returned", "return": object{"raw_return_reason_code": "R03"}},
		"fedwire": {"status": "reversed", "reversal": object{"amount": 100_00, "return_reason_code": "AC03"}},
	} {
		t.Run(scheme, func(t *testing.T) {
			payouttest.Run(t, func(f *payouttest.Fixture) payouttest.Outside {
				b := open(f, "")
				b.Scheme = scheme
				return b.Outside(b.Connect, b.paid,
					func(reference string) int { return b.change(reference, reverted) })
			})
		})
	}
}

// The method depends on the amount, the limit that the operator set, and the payee's bank. A network that cannot make
// an instant payment is replaced by ACH, once; an account that is closed is not tried again.
func TestMethods(t *testing.T) {
	const instant = `,"source_account":"account_number_1","instant_limit":"5000.00"`
	const unlimited = `,"source_account":"account_number_1"`
	for name, c := range map[string]struct {
		more, routing, scheme, reject string
		cents                         int64
		want                          string
		state                         payout.State
		reason                        string
	}{
		"instant": {
			instant, "110000000", "ach", "", 5000_00, "real_time_payments_transfers", payout.Fulfilled, ""},
		"above RTP's limit": {
			unlimited, "110000000", "ach", "", 10_000_000_01, "ach_transfers", payout.Fulfilled, ""},
		"FedNow only": {unlimited, fedNowOnly, "ach", "", 10_000_000_00, "fednow_transfers", payout.Fulfilled, ""},
		"FedNow only, above its limit": {
			unlimited, fedNowOnly, "ach", "", 10_000_000_01, "ach_transfers", payout.Fulfilled, ""},
		"FedNow rejects it": {
			unlimited, fedNowOnly, "ach", "amount_exceeds_bank_limits", 100, "ach_transfers", payout.Fulfilled, ""},
		"RTP rejects what is too much for the same day": {
			unlimited, "110000000", "ach", "transaction_not_supported", 2_000_000_00, "ach_transfers", payout.Fulfilled, ""},
		"an unknown bank":             {unlimited, "999999992", "ach", "", 100, "ach_transfers", payout.Fulfilled, ""},
		"above the operator's limit":  {instant, "110000000", "ach", "", 5000_01, "ach_transfers", payout.Fulfilled, ""},
		"no source account":           {"", "110000000", "ach", "", 100, "ach_transfers", payout.Fulfilled, ""},
		"the bank does not take part": {instant, "790000064", "ach", "", 100, "ach_transfers", payout.Fulfilled, ""},
		"wire":                        {instant, "110000000", "fedwire", "", 100, "wire_transfers", payout.Fulfilled, ""},
		"the bank is not connected": {
			instant, "110000000", "ach", "recipient_connection_not_available", 100, "ach_transfers", payout.Fulfilled, ""},
		"the account is closed": {instant, "110000000", "ach", "account_closed", 100, "", payout.Failed, "AC04"},
		"the bank refuses the parameters": {
			"", "1100000", "ach", "", 100, "", payout.Failed, "invalid_parameters_error"},
	} {
		t.Run(name, func(t *testing.T) {
			payouttest.RunFixture(t, func(f *payouttest.Fixture) {
				b := open(f, c.more)
				b.Scheme, b.reject = c.scheme, c.reject
				o := b.Queue(b.To(c.routing, c.cents))[0]
				b.Work(4)
				b.Want(o.ID, c.state, c.reason)
				if got := strings.Join(b.paid(banktest.Number(1)), " "); got != c.want {
					t.Errorf("paid by %q, want %q", got, c.want)
				}
				for _, s := range b.transfers { // same-day ACH up to its limit, also instead of an instant payment
					if s["kind"] == "ach_transfers" {
						want := map[bool]string{true: "same_day", false: "future_dated"}[c.cents <= 1_000_000_00]
						if text := string(s["request"].([]byte)); !strings.Contains(text, `"settlement_schedule":"`+want+`"`) {
							t.Errorf("%s; want %s", text, want)
						}
					}
				}
			})
		})
	}
}

// Increase's review ends a transfer for good: no other way is tried.
func TestAReviewIsFinal(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, `,"source_account":"account_number_1"`)
		b.review = true
		o := b.Queue(b.To("110000000", 100))[0]
		b.Work(3)
		b.Want(o.ID, payout.Failed, "rejected")
	})
}

// Calls carry what the payee's bank shows: the paying company, the description, the class of the entry and PAYROLL.
func TestWhatThePayeeSees(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "")
		outs := b.Queue(b.To("110000000", 100), b.To("110000000", 1_000_000_01))
		b.Work(2)
		var in object
		slices.SortFunc(b.transfers, func(x, y object) int { return int(x["amount"].(int64) - y["amount"].(int64)) })
		testkit.Check(t, json.Unmarshal(b.transfers[0]["request"].([]byte), &in))
		for name, want := range map[string]any{"company_name": "Rose Sohne", "statement_descriptor": "Salary March",
			"company_entry_description": "PAYROLL", "standard_entry_class_code": "prearranged_payments_and_deposit",
			"individual_name": "Ada 1", "individual_id": b.Reference(outs[0]), "funding": "checking"} {
			if in[name] != want {
				t.Errorf("%s: %q, want %q", name, in[name], want)
			}
		}
		if got, want := addenda(in), `NTE*PMT*Salary March\`; got != want {
			t.Errorf("the addenda are %q, want %q", got, want)
		}
		for i, want := range []string{"same_day", "future_dated"} {
			testkit.Check(t, json.Unmarshal(b.transfers[i]["request"].([]byte), &in))
			if got := in["preferred_effective_date"].(object)["settlement_schedule"]; got != want {
				t.Errorf("transfer %d settles %v, want %s", i, got, want)
			}
		}
	})
}

// addenda returns the payment-related information of a request for an ACH transfer, "" if it has no addenda.
func addenda(in object) string {
	if in["addenda"] == nil {
		return ""
	}
	entries := in["addenda"].(object)["freeform"].(object)["entries"].([]any)
	return entries[0].(object)["payment_related_information"].(string)
}

// order returns an order of 1234.05 USD to an account in Denver.
func order(scheme, method string, d payout.Details) bank.Order {
	return bank.Order{Account: bank.Account{ID: "usd", Currency: money.USD, Name: "Example Payments", Number: "account_1"},
		Reference: "S0000012P00001", Method: method, Payment: bank.Payment{Amount: money.New(money.USD, 1234_05),
			Country: "US", Scheme: scheme, Details: d, Data: json.RawMessage(`{"account_holder_name":"Ada",
				"account_holder_type":"business","routing_number":"110000000","account_number":"000000101",
				"address":{"address_line1":"1 Main St","address_line2":"Suite 5","city":"Denver","state":"CO",
				"postal_code":"80202","country":"US"}}`)}}
}

// The addenda of an ACH transfer have the number of the invoice with the amount, otherwise the description, in one
// entry of up to 80 ASCII characters. Without both, and in a WEB debit, there are none.
func TestAddenda(t *testing.T) {
	for name, c := range map[string]struct {
		details payout.Details
		debit   nacha.Debit
		want    string
	}{
		"an invoice": {payout.Details{Invoice: "2026-0017", Description: "Design"}, "", `RMR*IV*2026-0017**1234.05\`},
		"a long invoice": {payout.Details{Invoice: strings.Repeat("7", 90)}, "",
			`RMR*IV*` + strings.Repeat("7", 30) + `**1234.05\`},
		"a description": {payout.Details{Description: "Löhne*März"}, "", `NTE*PMT*Lohne Marz\`},
		"a long description": {payout.Details{Description: strings.Repeat("x", 140)}, "",
			`NTE*PMT*` + strings.Repeat("x", 60) + `\`},
		"no text":           {payout.Details{Payer: "Example AG"}, "", ""},
		"a company's debit": {payout.Details{Description: "October"}, nacha.CompanyDebit, `NTE*PMT*October\`},
		"a WEB debit":       {payout.Details{Description: "October"}, nacha.WebDebit, ""},
	} {
		s := serve(t)
		api := testkit.Must(increase.New(s.URL, apiKey))
		o := order("ach", "ach", c.details)
		o.Debit = c.debit
		if made := testkit.Must(api.Create(t.Context(), o)); made.Status != bank.TransferPending || len(s.transfers) != 1 {
			t.Errorf("%s: %+v", name, made)
			continue
		}
		var in object
		testkit.Check(t, json.Unmarshal(s.transfers[0]["request"].([]byte), &in))
		if got := addenda(in); got != c.want {
			t.Errorf("%s: the addenda are %q, want %q", name, got, c.want)
		}
	}
}

// The server refuses addenda that Increase does not document.
func TestTheServerRefusesWrongAddenda(t *testing.T) {
	form := func(entries ...any) object {
		return object{"category": "freeform", "freeform": object{"entries": entries}}
	}
	entry := func(text string) any { return object{"payment_related_information": text} }
	for name, c := range map[string]struct {
		class   string
		addenda any
		want    string
	}{
		"80 characters": {"", form(entry(strings.Repeat("x", 80))), ""},
		"a text":        {"", "NTE*PMT*October", "addenda"},
		"81 characters": {"", form(entry(strings.Repeat("x", 81))),
			"addenda.freeform.entries.payment_related_information"},
		"an umlaut":        {"", form(entry("Löhne")), "addenda.freeform.entries.payment_related_information"},
		"an empty text":    {"", form(entry("")), "addenda.freeform.entries.payment_related_information"},
		"two entries":      {"", form(entry("x"), entry("y")), "addenda.freeform.entries"},
		"no entry":         {"", form(), "addenda.freeform.entries"},
		"another category": {"", object{"category": "other", "freeform": object{}}, "addenda.category"},
		"a WEB debit":      {"internet_initiated", form(entry("x")), "addenda"},
	} {
		if got := wrongAddenda(object{"standard_entry_class_code": c.class, "addenda": c.addenda}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A wire has the structured address of the payee, with a city and a country.
func TestTheAddressOfAWire(t *testing.T) {
	s := serve(t)
	api := testkit.Must(increase.New(s.URL, apiKey))
	o := order("fedwire", "wire", payout.Details{Description: "Design"})
	whole := string(o.Data)
	made := testkit.Must(api.Create(t.Context(), o))
	if made.Status != bank.TransferPending || len(s.transfers) != 1 {
		t.Fatalf("%+v", made)
	}
	sent := func() object {
		var in object
		testkit.Check(t, json.Unmarshal(s.transfers[len(s.transfers)-1]["request"].([]byte), &in))
		return in["creditor"].(object)["address"].(object)
	}
	want := object{"structured": object{"line1": "1 Main St", "line2": "Suite 5", "city": "Denver", "state": "CO",
		"postal_code": "80202", "country": "US"}}
	if got := sent(); !reflect.DeepEqual(got, want) {
		t.Errorf("the address is %v, want %v", got, want)
	}
	o.Reference = "S0000012P00002" // only what is required
	o.Data = json.RawMessage(`{"account_holder_name":"Ada","routing_number":"110000000","account_number":"000000101",
		"address":{"city":"Denver","country":"US"}}`)
	if made := testkit.Must(api.Create(t.Context(), o)); made.Status != bank.TransferPending {
		t.Errorf("a city and a country: %+v", made)
	}
	if got := sent()["structured"]; !reflect.DeepEqual(got, object{"city": "Denver", "country": "US"}) {
		t.Errorf("the address is %v", got)
	}
	for name, part := range map[string]string{"no city": `"city":"Denver",`, "no country": `,"country":"US"`} {
		o.Reference, o.Data = "S0000012P00003", json.RawMessage(strings.Replace(whole, part, "", 1))
		made := testkit.Must(api.Create(t.Context(), o))
		if made.Status != bank.TransferRejected || made.Code != "destination_incomplete" || made.Info == "" {
			t.Errorf("%s: %+v", name, made)
		}
	}
	if len(s.transfers) != 2 {
		t.Errorf("the bank has %d transfers, want 2", len(s.transfers))
	}
	for name, c := range map[string]struct {
		address object
		want    string
	}{
		"city and country": {object{"structured": object{"city": "Denver", "country": "US"}}, ""},
		"unstructured": {object{"unstructured": object{"line1": "1 Main St", "line2": "Denver"}},
			"creditor.address.structured"},
		"both": {object{"structured": object{"city": "Denver", "country": "US"}, "unstructured": object{}},
			"creditor.address.structured"},
		"no city":    {object{"structured": object{"country": "US"}}, "creditor.address.structured.city"},
		"no country": {object{"structured": object{"city": "Denver"}}, "creditor.address.structured.country"},
		"a country's name": {object{"structured": object{"city": "Denver", "country": "USA"}},
			"creditor.address.structured.country"},
		"an empty state": {object{"structured": object{"city": "Denver", "country": "US", "state": ""}},
			"creditor.address.structured.state"},
		"an unknown part": {object{"structured": object{"city": "Denver", "country": "US", "zip": "1"}},
			"creditor.address.structured.zip"},
	} {
		if got := wrongAddress(object{"creditor": object{"address": c.address}}); got != c.want {
			t.Errorf("the server, %s: %q, want %q", name, got, c.want)
		}
	}
}

// A wire to a payee without a city fails before the bank is called, and staff see why.
func TestAnIncompleteAddressFailsAWire(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "")
		b.Scheme = "fedwire"
		to := b.To("110000000", 100)
		to.Destination = []byte(strings.Replace(string(to.Destination), `"city":"Denver",`, "", 1))
		outs := b.Queue(to, b.To("110000000", 200))
		b.Work(3)
		b.Want(outs[0].ID, payout.Failed, "destination_incomplete")
		b.Want(outs[1].ID, payout.Fulfilled, "")
		if got := b.Problems(); len(got) != 1 || !strings.Contains(got[0], "no city or no country") {
			t.Errorf("problems: %q", got)
		}
		if len(b.transfers) != 1 {
			t.Errorf("the bank has %d transfers, want 1", len(b.transfers))
		}
	})
}

// While money is missing at the bank, the outcome is open and nothing is lost; with money, the payment is made once.
func TestTooLittleMoneyIsWaitedFor(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "")
		b.funds = 50
		o := b.Queue(b.To("110000000", 100))[0]
		b.Work(3)
		b.Want(o.ID, payout.UnknownOutcome, "")
		b.Between(func() { b.funds = 0 })
		b.Work(3)
		b.Want(o.ID, payout.Fulfilled, "")
		if got := b.paid(banktest.Number(1)); len(got) != 1 {
			t.Errorf("paid by %q", got)
		}
	})
}

// If the bank has another payment with the key of ours, as after a restored backup, payouts are paused and nothing is
// paid.
func TestAKeyOfAnotherPaymentPausesPayouts(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "")
		b.transfers = []object{{"id": "ach_transfer_9", "kind": "ach_transfers", "idempotency_key": "S0000001P00001-ach",
			"request": []byte{}, "amount": 7, "account_number": "1", "routing_number": "110000000", "status": "submitted"}}
		o := b.Queue(b.To("110000000", 100))[0]
		b.Work(2)
		b.Want(o.ID, payout.UnknownOutcome, "")
		if why := b.Paused(); !strings.Contains(why, "S0000001P00001-ach") {
			t.Errorf("paused: %q", why)
		}
		if got := b.paid(banktest.Number(1)); len(got) != 0 {
			t.Errorf("paid by %q", got)
		}
	})
}

// A notification of change becomes a correction of the destination, once. A later return is owed to the payee again.
func TestChangesAndReturns(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "")
		o := b.Queue(b.To("110000000", 100))[0]
		b.Work(3)
		b.change("S0000001P00001", object{"notifications_of_change": []object{{
			"change_code": "incorrect_routing_number_and_account_number", "corrected_account_number": "42",
			"corrected_routing_number": "021000021"}, {"change_code": "incorrect_company_identification_number"}}})
		b.Work(8)
		if want := []string{o.ID + " C03 {Routing:021000021 Account:42 Name: Type:}"}; !slices.Equal(b.Corrections, want) {
			t.Errorf("corrections: %q, want %q", b.Corrections, want)
		}
		if got := b.Problems(); len(got) != 1 || !strings.Contains(got[0], "incorrect_company_identification_number") {
			t.Errorf("problems: %q", got)
		}
		b.Want(o.ID, payout.Fulfilled, "")
		b.Clock.Advance(30 * 24 * time.Hour)
		b.change("S0000001P00001", object{"status": "returned", "return": object{"raw_return_reason_code": "R02"}})
		b.Work(2)
		b.Want(o.ID, payout.Returned, "R02")
		if got := b.Balance(ledger.Bank, "usd", money.USD); !got.IsZero() {
			t.Errorf("%s left the account", got)
		}
	})
}

// A prenote is sent once, also after a lost response. It is accepted on the third banking day after it settled, unless
// the payee's bank returns or corrects it.
func TestPrenotes(t *testing.T) {
	for name, c := range map[string]struct {
		routing  string
		reported object
		want     []string
	}{
		"accepted": {"110000000", object{}, []string{"prenote pending", "prenote accepted"}},
		"refused":  {"1100000", object{}, []string{"prenote not_possible invalid_parameters_error"}},
		"returned": {"110000000", object{"status": "returned",
			"prenotification_return": object{"return_reason_code": "no_account"}},
			[]string{"prenote pending", "prenote returned R03"}},
		"corrected": {"110000000", object{"notifications_of_change": []object{{"change_code": "incorrect_account_number",
			"corrected_data": "42"}}}, []string{"prenote pending", "prenote returned C01"}},
	} {
		t.Run(name, func(t *testing.T) {
			payouttest.RunFixture(t, func(f *payouttest.Fixture) {
				b := open(f, "")
				b.Connect(payouttest.LostAfter)
				b.Write(func(ctx context.Context, tx *db.Tx) error {
					return b.Rail.AddPrenote(ctx, tx, payouttest.Company, money.USD, b.To(c.routing, 1).Destination)
				})
				b.Work(1)
				b.Connect(payouttest.Fine)
				b.Work(2)
				for _, p := range b.Rails.Periodic(b.DB) {
					b.Must(p.Run(b.Context()))
				}
				if name == "refused" {
					if len(b.transfers) != 0 || !slices.Equal(b.Checks, c.want) {
						b.Errorf("%q and %d transfers, want %q and none", b.Checks, len(b.transfers), c.want)
					}
					return
				}
				if len(b.transfers) != 1 || b.transfers[0]["kind"] != "ach_prenotifications" {
					b.Errorf("the bank has %v", b.transfers)
				}
				b.change("pre_", c.reported)
				b.Connect(payouttest.LostBefore)
				b.Clock.Advance(8 * 24 * time.Hour)
				b.Work(2)
				if len(b.Checks) != 1 {
					b.Errorf("%q while the bank does not answer", b.Checks)
				}
				b.Connect(payouttest.Fine)
				b.Work(2)
				if !slices.Equal(b.Checks, c.want) {
					b.Errorf("%q, want %q", b.Checks, c.want)
				}
				if len(b.Corrections) != map[bool]int{true: 1}[name == "corrected"] {
					b.Errorf("corrections: %q", b.Corrections)
				}
			})
		})
	}
}

// A payment made in error is reversed, once.
func TestReversals(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "")
		b.CheckReversals(b.Connect, func() (n int) {
			b.Between(func() {
				for _, t := range b.transfers {
					if t["kind"] == "ach_transfers" && t["amount"] == int64(-100_00) &&
						strings.Contains(string(t["request"].([]byte)), `"REVERSAL"`) {
						n++
					}
				}
			})
			return n
		}, func(reference string) int {
			return b.change(reference, object{"status": "returned", "return": object{"raw_return_reason_code": "R02"}})
		})
	})
}
