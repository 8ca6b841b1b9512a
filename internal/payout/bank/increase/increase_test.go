package increase_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/increase"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
	"github.com/stipend/stipend/internal/payout/payouttest"
	"github.com/stipend/stipend/internal/testkit"
)

// branch is a rail with an account at Increase.
type branch struct {
	*payouttest.Fixture
	*server
	rail        *bank.Rail
	payees      int
	scheme      string
	corrections []string
}

// open returns a rail with an account at a local server. more are further fields of the account, in JSON.
func open(f *payouttest.Fixture, more string) *branch {
	f.Helper()
	b := &branch{Fixture: f, server: serve(f.T), scheme: "ach"}
	accounts, err := bank.ReadAccounts(strings.NewReader(`[{"id":"usd","currency":"USD","format":"increase",
		"name":"Example Payments Inc","number":"account_1"` + more + `}]`))
	f.Must(err)
	api, err := increase.New(b.URL, apiKey)
	f.Must(err)
	sealer, err := identity.NewSealer(make([]byte, 32))
	f.Must(err)
	b.rail, err = bank.New(bank.Config{Log: f.Log, Accounts: accounts, Sealer: sealer,
		APIs: map[string]bank.API{"usd": api},
		Details: func(_ context.Context, _ *db.Tx, _ string, outs []payout.Output) (map[string]payout.Details, error) {
			of := map[string]payout.Details{}
			for _, o := range outs {
				of[o.ID] = payout.Details{Payer: "Rose & Söhne", Purpose: payout.PurposeWages, Description: "Salary March"}
			}
			return of, nil
		},
		Changed: func(_ context.Context, _ *db.Tx, o payout.Output, code string, c nacha.Correction) error {
			b.corrections = append(b.corrections, fmt.Sprintf("%s %s %+v", o.ID, code, c))
			return nil
		},
		Reveal: func(snapshot json.RawMessage) (bank.Destination, error) {
			return bank.Destination{Country: "US", Scheme: b.scheme, Data: snapshot}, nil
		}})
	f.Must(err)
	return b
}

// number returns the account number of a payee.
func number(payee int) string { return fmt.Sprintf("%09d", 100+payee) }

// to returns an output to the next payee, at the bank with a routing number.
func (b *branch) to(routing string, cents int64) payout.Output {
	b.payees++
	return payout.Output{Rail: payout.RailBank, Amount: money.New(money.USD, cents), Destination: fmt.Appendf(nil,
		`{"account_holder_name":"Ada %d","account_holder_type":"individual","account_type":"checking",
		"routing_number":%q,"account_number":%q,
		"address":{"address_line1":"1 Main St","city":"Denver","state":"CO","postal_code":"80202","country":"US"}}`,
		b.payees, routing, number(b.payees))}
}

// works runs the rail's jobs and periodic work, hour by hour, while the networks execute what they have.
func (b *branch) works(hours int) {
	b.Helper()
	for range hours {
		b.Clock.Advance(time.Hour)
		_ = b.Runner.Drain(b.Context()) // a failed call is repeated
		b.advance()
		for _, p := range b.Rails.Periodic(b.DB) {
			_ = p.Run(b.Context())
		}
		_ = b.Runner.Drain(b.Context())
	}
}

// The rail keeps the contract of payout.Rail with an account at Increase: by ACH, instant payments and wire.
func TestRail(t *testing.T) {
	for name, c := range map[string]struct{ scheme, more, reverted string }{
		"ach": {"ach", "", `{"status":"returned","return":{"raw_return_reason_code":"R03"}}`},
		"fedwire": {"fedwire", "",
			`{"status":"reversed","reversal":{"amount":10000,"return_reason_code":"AC03"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			payouttest.Run(t, func(f *payouttest.Fixture) payouttest.Outside {
				b := open(f, c.more)
				b.scheme = c.scheme
				return payouttest.Outside{
					Rail:   b.rail,
					Output: func() payout.Output { return b.to("101050001", 100_00) },
					Unpayable: func() payout.Output {
						return payout.Output{Amount: money.New(money.USD, 1), Destination: []byte(`{}`)}
					},
					Set:     func(c payouttest.Connection) { b.set(func() { b.connection = c }) },
					Advance: b.advance,
					Revert: func(o payout.Output) {
						var with object
						testkit.Check(t, json.Unmarshal([]byte(c.reverted), &with))
						if n := b.change(b.reference(o), with); n != 1 {
							t.Errorf("%d transfers have the reference of %s", n, o.ID)
						}
						f.Clock.Advance(24 * time.Hour)
					},
					Reverted: payout.Returned,
					Executed: func(o payout.Output) int {
						var to struct {
							Number string `json:"account_number"`
						}
						testkit.Check(t, json.Unmarshal(o.Destination, &to))
						return len(b.paid(to.Number))
					},
				}
			})
		})
	}
}

func (b *branch) reference(o payout.Output) (name string) {
	b.Helper()
	b.Read(func(ctx context.Context, tx *db.Tx) error {
		at, err := bank.Latest(ctx, tx, o.CompanyID, o.ID)
		name = bank.PaymentReference(at.Number, at.Position)
		return err
	})
	return name
}

// The method depends on the amount, the limit that the operator set, and the payee's bank. A network that cannot make
// an instant payment is replaced by ACH, once; an account that is closed is not tried again.
func TestMethods(t *testing.T) {
	const instant = `,"source_account":"account_number_1","instant_limit":"5000.00"`
	for name, c := range map[string]struct {
		more, routing, scheme, reject string
		cents                         int64
		want                          string
		state                         payout.State
		reason                        string
	}{
		"instant": {
			instant, "110000000", "ach", "", 5000_00, "real_time_payments_transfers", payout.Fulfilled, ""},
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
				b.Start(b.rail, nil)
				b.scheme, b.reject = c.scheme, c.reject
				o := b.Queue(b.to(c.routing, c.cents))[0]
				b.works(4)
				b.Want(o.ID, c.state, c.reason)
				if got := strings.Join(b.paid(number(1)), " "); got != c.want {
					t.Errorf("paid by %q, want %q", got, c.want)
				}
			})
		})
	}
}

// Increase's review ends a transfer for good: no other way is tried.
func TestAReviewIsFinal(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, `,"source_account":"account_number_1"`)
		b.Start(b.rail, nil)
		b.review = true
		o := b.Queue(b.to("110000000", 100))[0]
		b.works(3)
		b.Want(o.ID, payout.Failed, "rejected")
	})
}

// Calls carry what the payee's bank shows: the paying company, the description, the class of the entry and PAYROLL.
func TestWhatThePayeeSees(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "")
		b.Start(b.rail, nil)
		outs := b.Queue(b.to("110000000", 100), b.to("110000000", 1_000_000_01))
		b.works(2)
		var in object
		slices.SortFunc(b.transfers, func(x, y object) int { return int(x["amount"].(int64) - y["amount"].(int64)) })
		testkit.Check(t, json.Unmarshal(b.transfers[0]["request"].([]byte), &in))
		for name, want := range map[string]any{"company_name": "Rose Sohne", "statement_descriptor": "Salary March",
			"company_entry_description": "PAYROLL", "standard_entry_class_code": "prearranged_payments_and_deposit",
			"individual_name": "Ada 1", "individual_id": b.reference(outs[0]), "funding": "checking"} {
			if in[name] != want {
				t.Errorf("%s: %q, want %q", name, in[name], want)
			}
		}
		for i, want := range []string{"same_day", "future_dated"} {
			testkit.Check(t, json.Unmarshal(b.transfers[i]["request"].([]byte), &in))
			if got := in["preferred_effective_date"].(object)["settlement_schedule"]; got != want {
				t.Errorf("transfer %d settles %v, want %s", i, got, want)
			}
		}
	})
}

// While money is missing at the bank, the outcome is open and nothing is lost; with money, the payment is made once.
func TestTooLittleMoneyIsWaitedFor(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "")
		b.Start(b.rail, nil)
		b.funds = 50
		o := b.Queue(b.to("110000000", 100))[0]
		b.works(3)
		b.Want(o.ID, payout.UnknownOutcome, "")
		b.set(func() { b.funds = 0 })
		b.works(3)
		b.Want(o.ID, payout.Fulfilled, "")
		if got := b.paid(number(1)); len(got) != 1 {
			t.Errorf("paid by %q", got)
		}
	})
}

// If the bank has another payment with the key of ours, as after a restored backup, payouts are paused and nothing is
// paid.
func TestAKeyOfAnotherPaymentPausesPayouts(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "")
		b.Start(b.rail, nil)
		b.transfers = []object{{"id": "ach_transfer_9", "kind": "ach_transfers", "idempotency_key": "S0000001P00001-ach",
			"request": []byte{}, "amount": 7, "account_number": "1", "routing_number": "110000000", "status": "submitted"}}
		o := b.Queue(b.to("110000000", 100))[0]
		b.works(2)
		b.Want(o.ID, payout.UnknownOutcome, "")
		if why := b.Paused(); !strings.Contains(why, "S0000001P00001-ach") {
			t.Errorf("paused: %q", why)
		}
		if got := b.paid(number(1)); len(got) != 0 {
			t.Errorf("paid by %q", got)
		}
	})
}

// A notification of change becomes a correction of the destination, once. A later return is owed to the payee again.
func TestChangesAndReturns(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "")
		b.Start(b.rail, nil)
		o := b.Queue(b.to("110000000", 100))[0]
		b.works(3)
		b.change("S0000001P00001", object{"notifications_of_change": []object{{
			"change_code": "incorrect_routing_number_and_account_number", "corrected_account_number": "42",
			"corrected_routing_number": "021000021"}}})
		b.works(8)
		if want := []string{o.ID + " C03 {Routing:021000021 Account:42 Name: Type:}"}; !slices.Equal(b.corrections, want) {
			t.Errorf("corrections: %q, want %q", b.corrections, want)
		}
		b.Want(o.ID, payout.Fulfilled, "")
		b.Clock.Advance(30 * 24 * time.Hour)
		b.change("S0000001P00001", object{"status": "returned", "return": object{"raw_return_reason_code": "R02"}})
		b.works(2)
		b.Want(o.ID, payout.Returned, "R02")
		if got := b.Balance(ledger.Bank, "usd", money.USD); !got.IsZero() {
			t.Errorf("%s left the account", got)
		}
	})
}
