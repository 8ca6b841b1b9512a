package column_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/banktest"
	"github.com/stipend/stipend/internal/payout/bank/column"
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
	api, err := column.New(s.URL, apiKey)
	f.Must(err)
	return branch{banktest.Open(f, "column", more, api, s.advance), s}
}

// The rail keeps the contract of payout.Rail with an account at Column.
func TestRail(t *testing.T) {
	for _, scheme := range []string{"ach", "fedwire"} {
		t.Run(scheme, func(t *testing.T) {
			payouttest.Run(t, func(f *payouttest.Fixture) payouttest.Outside {
				b := open(f, "")
				b.Scheme = scheme
				return b.Outside(b.Connect, b.paid,
					func(reference string) int {
						return b.change(reference, object{"status": "RETURNED", "return_details": []object{{"return_code": "R03"}}})
					})
			})
		})
	}
}

// An instant payment is made up to the operator's limit. If Column refuses it because the payee's bank does not take
// part, or the network rejects it, the payment is made by ACH, once. Column's review is final.
func TestMethods(t *testing.T) {
	const instant = `,"instant_limit":"5000.00"`
	for name, c := range map[string]struct {
		more, scheme               string
		cents                      int64
		ineligible, reject, review bool
		want                       string
		state                      payout.State
	}{
		"instant":   {more: instant, cents: 5000_00, want: "realtime", state: payout.Fulfilled},
		"above RTP": {more: `,"instant_limit":"20000000.00"`, cents: 10_000_000_01, want: "ach", state: payout.Fulfilled},
		"too much for the same day": {more: `,"instant_limit":"20000000.00"`, cents: 2_000_000_00, reject: true, want: "ach",
			state: payout.Fulfilled},
		"above":         {more: instant, cents: 5000_01, want: "ach", state: payout.Fulfilled},
		"no limit set":  {cents: 100, want: "ach", state: payout.Fulfilled},
		"wire":          {more: instant, scheme: "fedwire", cents: 100, want: "wire", state: payout.Fulfilled},
		"no part":       {more: instant, cents: 100, ineligible: true, want: "ach", state: payout.Fulfilled},
		"rejected":      {more: instant, cents: 100, reject: true, want: "ach", state: payout.Fulfilled},
		"reviewed":      {more: instant, cents: 100, review: true, state: payout.Failed},
		"reviewed, ach": {cents: 100, review: true, state: payout.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			payouttest.RunFixture(t, func(f *payouttest.Fixture) {
				b := open(f, c.more)
				if c.scheme != "" {
					b.Scheme = c.scheme
				}
				b.ineligible, b.reject, b.review = c.ineligible, c.reject, c.review
				o := b.Queue(b.To("110000000", c.cents))[0]
				b.Work(4)
				b.Want(o.ID, c.state, "")
				if got := strings.Join(b.paid(banktest.Number(1)), " "); got != c.want {
					t.Errorf("paid by %q, want %q", got, c.want)
				}
				for _, s := range b.transfers { // same-day ACH up to its limit, also instead of an instant payment
					if s["kind"] == "ach" && s["same_day"] != (c.cents <= 1_000_000_00) {
						t.Errorf("%d cents are paid on the same day: %v", c.cents, s["same_day"])
					}
				}
			})
		})
	}
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

// The addenda of an ACH transfer have the number of the invoice with the amount, otherwise the description. Without
// both, and in a WEB debit, there are none.
func TestAddenda(t *testing.T) {
	for name, c := range map[string]struct {
		details payout.Details
		debit   nacha.Debit
		want    any
	}{
		"an invoice": {payout.Details{Invoice: "2026-0017", Description: "Design"}, "", `RMR*IV*2026-0017**1234.05\`},
		"a long invoice": {payout.Details{Invoice: strings.Repeat("7", 90)}, "",
			`RMR*IV*` + strings.Repeat("7", 30) + `**1234.05\`},
		"a description":     {payout.Details{Description: "Löhne*März"}, "", `NTE*PMT*Lohne Marz\`},
		"no text":           {payout.Details{Payer: "Example AG"}, "", nil},
		"a company's debit": {payout.Details{Description: "October"}, nacha.CompanyDebit, `NTE*PMT*October\`},
		"a WEB debit":       {payout.Details{Description: "October"}, nacha.WebDebit, nil},
	} {
		s := serve(t)
		api := testkit.Must(column.New(s.URL, apiKey))
		o := order("ach", "ach", c.details)
		o.Debit = c.debit
		if made := testkit.Must(api.Create(t.Context(), o)); made.Status != bank.TransferPending || len(s.transfers) != 1 {
			t.Errorf("%s: %+v", name, made)
			continue
		}
		if got := s.transfers[0]["payment_related_info"]; got != c.want {
			t.Errorf("%s: the addenda are %q, want %q", name, got, c.want)
		}
	}
	for name, in := range map[string]object{
		"an empty text": {"entry_class_code": "PPD", "payment_related_info": ""},
		"81 characters": {"entry_class_code": "PPD", "payment_related_info": strings.Repeat("x", 81)},
		"an umlaut":     {"entry_class_code": "CCD", "payment_related_info": "Löhne"},
		"a WEB debit":   {"entry_class_code": "WEB", "payment_related_info": "October"},
	} {
		if wrongAddenda("ach", in) == "" {
			t.Errorf("the server accepts %s", name)
		}
	}
}

// A wire has the payee's structured address. Without a city or a country it fails before Column is called.
func TestWiresHaveAStructuredAddress(t *testing.T) {
	s := serve(t)
	api := testkit.Must(column.New(s.URL, apiKey))
	o := order("fedwire", "wire", payout.Details{Payer: "Example AG"})
	if made := testkit.Must(api.Create(t.Context(), o)); made.Status != bank.TransferPending || len(s.parties) != 1 {
		t.Fatalf("%+v", made)
	}
	got := s.parties["cpty_1"]["wire"].(object)["beneficiary_address"].(object)
	if want := (object{"line_1": "1 Main St", "line_2": "Suite 5", "city": "Denver", "state": "CO", "postal_code": "80202",
		"country_code": "US"}); !maps.Equal(got, want) {
		t.Errorf("the address is %v, want %v", got, want)
	}
	for _, part := range []string{`"city":"Denver"`, `"country":"US"`} {
		o.Data = bytes.Replace(order("", "", o.Details).Data, []byte(part), []byte(`"none":""`), 1)
		made := testkit.Must(api.Create(t.Context(), o))
		if made.Status != bank.TransferRejected || made.Code != bank.ReasonDestination || len(s.parties) != 1 {
			t.Errorf("without %s: %+v, %d counterparties", part, made, len(s.parties))
		}
	}
}

// A bad routing number fails the output before a transfer exists.
func TestARefusedCounterpartyFails(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "")
		o := b.Queue(b.To("1100000", 100))[0]
		b.Work(2)
		b.Want(o.ID, payout.Failed, "invalid_routing_number")
	})
}

// While money is missing at the bank, the outcome is open; with money, the payment is made once.
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

// If the bank has a payment to a different account under our idempotency key, as after a restored backup, payouts are
// paused.
func TestAKeyOfAnotherPaymentPausesPayouts(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "")
		b.parties["cpty_0"] = object{"id": "cpty_0", "account_number": "1", "routing_number": "110000000"}
		b.transfers = []object{{"id": "ach_0", "kind": "ach", "idempotency_key": "S0000001P00001-ach", "amount": int64(100),
			"counterparty_id": "cpty_0", "status": "SETTLED", "bank_account_id": "account_1"}}
		o := b.Queue(b.To("110000000", 100))[0]
		b.Work(2)
		b.Want(o.ID, payout.UnknownOutcome, "")
		if why := b.Paused(); !strings.Contains(why, "S0000001P00001-ach") {
			t.Errorf("paused: %q", why)
		}
	})
}

// After a lost response the transfer is found among later ones, page by page, and not created again.
func TestALostResponseIsFoundByItsKey(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "")
		o := b.Queue(b.To("110000000", 100))[0]
		b.Connect(payouttest.LostBefore)
		b.Work(1)
		b.Want(o.ID, payout.UnknownOutcome, "")
		b.Between(func() {
			b.Connection = payouttest.Fine
			b.parties["cpty_0"] = object{"id": "cpty_0", "account_number": banktest.Number(1), "routing_number": "110000000"}
			key := b.Reference(o) + "-ach"
			for i := range 150 {
				b.transfers = append(b.transfers, object{"id": fmt.Sprintf("ach_%d", i), "kind": "ach", "idempotency_key": key,
					"amount": int64(100), "counterparty_id": "cpty_0", "status": "SETTLED", "bank_account_id": "account_1"})
				key = fmt.Sprint("other ", i)
			}
			b.listed = 0
		})
		b.Work(1)
		b.Want(o.ID, payout.Fulfilled, "")
		if len(b.transfers) != 150 || b.listed != 2 {
			t.Errorf("%d transfers, %d pages; want 150 and 2", len(b.transfers), b.listed)
		}
	})
}

// A bank that refuses to repeat a call, because the transfer exists by now, is asked for it before the refusal is
// believed: for payments, whose transfer it did not list before, and for micro-entries, whose counterparty is another
// one.
func TestARefusedRepetitionIsNotAFailure(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "")
		b.refuseKeys = true
		// sent adds what an earlier call did, whose response was lost.
		sent := func(key, number string, cents int64) {
			b.parties["cpty_0"] = object{"id": "cpty_0", "account_number": number, "routing_number": "110000000"}
			b.transfers = append(b.transfers, object{"id": "ach_of_" + key, "kind": "ach", "idempotency_key": key,
				"amount": cents, "counterparty_id": "cpty_0", "status": "SETTLED", "bank_account_id": "account_1"})
		}
		o := b.Queue(b.To("110000000", 100))[0]
		b.Connect(payouttest.LostBefore)
		b.Work(1)
		b.Want(o.ID, payout.UnknownOutcome, "")
		key := b.Reference(o) + "-ach"
		b.Between(func() {
			b.Connection, b.hide = payouttest.Fine, 1 // the first list does not have it yet
			sent(key, banktest.Number(1), 100)
		})
		b.Work(1)
		b.Want(o.ID, payout.Fulfilled, "")
		if len(b.transfers) != 1 || b.refusals != 1 {
			t.Errorf("%d transfers, %d refusals; want 1 and 1", len(b.transfers), b.refusals)
		}
		id := ""
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			if err := b.Rail.AddPrenote(ctx, tx, payouttest.Company, money.USD, b.To("110000000", 1).Destination); err != nil {
				return err
			}
			return tx.QueryRow(ctx, "SELECT prenote_id FROM bank_prenotes").Scan(&id)
		})
		b.Between(func() { sent(id, banktest.Number(2), 1) })
		for _, p := range b.Rails.Periodic(b.DB) {
			b.Must(p.Run(b.Context()))
		}
		if len(b.transfers) != 2 || b.refusals != 2 || !slices.Contains(b.Checks, "prenote pending") {
			t.Errorf("%d transfers, %d refusals, %q; want 2, 2 and a pending prenote", len(b.transfers), b.refusals, b.Checks)
		}
	})
}

// A transfer whose outcome is unknown for so long that the bank may have dropped its key is not created again.
func TestAnExpiredKeyIsNotRepeated(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "")
		o := b.Queue(b.To("110000000", 100))[0]
		b.Connect(payouttest.LostBefore)
		b.Work(1)
		b.Want(o.ID, payout.UnknownOutcome, "")
		b.Connect(payouttest.Fine)
		b.Clock.Advance(26 * 24 * time.Hour)
		b.Work(2)
		b.Want(o.ID, payout.UnknownOutcome, "")
		if len(b.transfers) != 0 {
			t.Errorf("%d transfers, want 0", len(b.transfers))
		}
	})
}

// A notification of change becomes a correction of the destination, once; one about the operator's data or that cannot
// be read is a problem for staff.
func TestChanges(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "")
		o := b.Queue(b.To("110000000", 100))[0]
		b.Work(3)
		b.change("S0000001P00001", object{"notification_of_changes": []object{
			{"change_code": "C03", "corrected_data": "021000021   42"}, {"change_code": "C11", "corrected_data": "1"}, {}}})
		b.Work(8)
		if want := []string{o.ID + " C03 {Routing:021000021 Account:42 Name: Type:}"}; !slices.Equal(b.Corrections, want) {
			t.Errorf("corrections: %q, want %q", b.Corrections, want)
		}
		b.Want(o.ID, payout.Fulfilled, "")
		if got := b.Problems(); len(got) != 2 || !strings.Contains(got[0], `"C11"`) {
			t.Errorf("problems: %q", got)
		}
	})
}

// A micro-entry checks an account as a prenote does, and is sent once, also after a lost response. The account is
// accepted on the third banking day after the entry settled, unless the payee's bank returns or corrects it.
func TestPrenotes(t *testing.T) {
	for name, c := range map[string]struct {
		routing  string
		reported object
		want     []string
	}{
		"accepted": {"110000000", object{}, []string{"prenote pending", "prenote accepted"}},
		"returned": {"110000000", object{"status": "RETURNED", "return_details": []object{{"return_code": "R03"}}},
			[]string{"prenote pending", "prenote returned R03"}},
		"corrected": {"110000000", object{"notification_of_changes": []object{{"change_code": "C01",
			"corrected_data": "42"}}}, []string{"prenote pending", "prenote returned C01"}},
		"rejected": {"110000000", object{"status": "REJECTED"}, []string{"prenote pending", "prenote not_possible rejected"}},
		"refused":  {"1100000", object{}, []string{"prenote not_possible invalid_routing_number"}},
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
				if len(b.transfers) != 1 {
					b.Fatalf("the bank has %v", b.transfers)
				}
				for field, want := range map[string]any{"amount": int64(1), "type": "CREDIT", "entry_class_code": "PPD",
					"company_entry_description": "ACCTVERIFY", "company_name": "Example Payments"} {
					if got := b.transfers[0][field]; got != want {
						b.Errorf("%s: %v, want %v", field, got, want)
					}
				}
				b.change("pre_", c.reported)
				b.Connect(payouttest.LostBefore)
				b.Clock.Advance(8 * 24 * time.Hour)
				b.Work(2)
				if len(slices.Compact(slices.Clone(b.Checks))) != 1 { // pending, and pending until a day
					b.Errorf("%q while the bank does not answer", b.Checks)
				}
				b.Connect(payouttest.Fine)
				b.Work(2)
				if got := slices.Compact(slices.Clone(b.Checks)); !slices.Equal(got, c.want) {
					b.Errorf("%q, want %q", got, c.want)
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
					if t["type"] == "DEBIT" && t["amount"] == int64(100_00) {
						n++
					}
				}
			})
			return n
		}, func(reference string) int {
			return b.change(reference, object{"status": "RETURNED", "return_details": []object{{"return_code": "R02"}}})
		})
	})
}
