package wise_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/banktest"
	"github.com/stipend/stipend/internal/payout/bank/wise"
	"github.com/stipend/stipend/internal/payout/payouttest"
	"github.com/stipend/stipend/internal/testkit"
)

func transactionID(reference string) string { return wise.TransactionID(profile, reference) }

// branch is a rail with a balance at a local server.
type branch struct {
	*banktest.Branch
	*server
}

// open returns a branch with a balance in a currency, from which others are paid, too.
func open(f *payouttest.Fixture, currency string, pays ...string) branch {
	f.Helper()
	s := serve(f.T)
	s.currency = currency
	api, err := wise.New(s.URL, token)
	f.Must(err)
	list, err := json.Marshal(append([]string{}, pays...))
	f.Must(err)
	more := fmt.Sprintf(`,"currency":%q,"number":%q,"profile":%q,"pays":%s`, currency, balance, profile, list)
	b := branch{banktest.Open(f, "wise", more, api, s.advance), s}
	s.now = func() time.Time {
		now, err := f.DB.Now(context.Background())
		testkit.Check(f.T, err)
		return now
	}
	return b
}

// The rail keeps the contract of payout.Rail with an account at Wise.
func TestRail(t *testing.T) {
	payouttest.Run(t, func(f *payouttest.Fixture) payouttest.Outside {
		b := open(f, "USD")
		return b.Outside(b.Connect, b.paid, b.refund)
	})
}

// to returns an output of an amount to a destination.
func (b branch) to(a money.Asset, units int64, destination string) payout.Output {
	return payout.Output{Rail: payout.RailBank, Amount: money.New(a, units), Destination: []byte(destination)}
}

const inManila = `{"account_holder_name":"Ada 1","account_holder_type":"individual","bank_code":"BOPIPHMM",
	"account_number":"000000101","address":{"address_line1":"1 Rizal Ave","city":"Manila","postal_code":"1000",
	"country":"PH"}}`

// A payment in another currency than the balance's: the payee receives the exact amount, the price is a fee, and the
// exchange is posted. When Wise refunds the transfer, all of it is undone to the cent.
func TestExchange(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "EUR", "PHP")
		b.Scheme = "local"
		o := b.Queue(b.to("PHP", 12_345_67, inManila))[0]
		b.Work(2)
		b.Want(o.ID, payout.Fulfilled, "")
		// 12345.67 PHP are 191.41 EUR at 64.5, and the price of that is 0.60 and half a percent, 1.55.
		got := map[string]string{
			"bank":  b.Balance(ledger.Bank, "usd", "EUR").String(),
			"fee":   b.Balance(ledger.BankFee, "usd", "EUR").String(),
			"euros": b.Balance(ledger.FXPosition, "", "EUR").String(),
		}
		want := map[string]string{"bank": "-192.96", "fee": "1.55", "euros": "-191.41"} // equity is credited
		if !maps.Equal(got, want) {
			t.Errorf("posted %v, want %v", got, want)
		}
		if left := 10_000_000_00 - b.cents; left != 192_96 {
			t.Errorf("%d cents left the balance", left)
		}
		if n := b.refund(b.Reference(o)); n != 1 {
			t.Fatalf("%d transfers", n)
		}
		b.Clock.Advance(24 * time.Hour)
		b.Work(1)
		b.Want(o.ID, payout.Returned, "funds_refunded")
		for _, code := range []ledger.Code{ledger.Bank, ledger.BankFee, ledger.FXPosition} {
			dim := "usd"
			if code == ledger.FXPosition {
				dim = ""
			}
			if got := b.Balance(code, dim, "EUR"); !got.IsZero() {
				t.Errorf("%s: %s EUR are left", code, got)
			}
		}
		if got := b.Balance(ledger.OutputPayable, o.ID, "PHP"); got.Neg() != o.Amount && got != o.Amount {
			t.Errorf("%s PHP are owed again", got)
		}
	})
}

// While the balance is too low, the outcome is open, and the same transfer is funded later, once.
func TestTooLittleMoneyIsWaitedFor(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "USD")
		b.cents = 50
		o := b.Queue(b.To("110000000", 100_00))[0]
		b.Work(3)
		b.Want(o.ID, payout.UnknownOutcome, "")
		b.Between(func() { b.cents = 1_000_00 })
		b.Work(3)
		b.Want(o.ID, payout.Fulfilled, "")
		if len(b.transfers) != 1 || b.funding != 1 {
			t.Errorf("%d transfers, funded %d times", len(b.transfers), b.funding)
		}
	})
}

// While payouts in the balance's currency are stopped, nothing is exchanged from it.
func TestAStoppedCurrencyIsNotExchanged(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "EUR", "PHP")
		b.Scheme = "local"
		change := func(by int64) {
			f.Helper()
			f.Write(func(ctx context.Context, tx *db.Tx) error {
				return tx.ExecOne(ctx, "UPDATE ledger_balances SET balance = balance + $1 WHERE code = '2000'", by)
			})
			_, _, err := ledger.FindDifferences(f.Context(), f.DB)
			f.Must(err)
		}
		five := money.New("EUR", 500)
		f.Write(func(_ context.Context, tx *db.Tx) error {
			return ledger.Post(tx, ledger.Journal{CompanyID: payouttest.Company, SourceType: "test", SourceID: "a",
				Purpose: "fund", Lines: []ledger.Line{ledger.Debit(ledger.Bank, "other", five),
					ledger.Credit(ledger.CompanyFunds, "", five)}})
		})
		change(1)
		o := b.Queue(b.to("PHP", 100_00, inManila))[0]
		b.Work(2)
		b.Want(o.ID, payout.Queued, "")
		change(-1)
		b.Work(2)
		b.Want(o.ID, payout.Fulfilled, "")
	})
}

// If Wise asks for strong customer authentication, nothing is paid until it stops.
func TestAuthentication(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "USD")
		b.protected = true
		o := b.Queue(b.To("110000000", 100_00))[0]
		b.Work(2)
		b.Want(o.ID, payout.UnknownOutcome, "")
		b.Between(func() { b.protected = false })
		b.Work(3)
		b.Want(o.ID, payout.Fulfilled, "")
		if b.funding != 1 {
			t.Errorf("funded %d times", b.funding)
		}
	})
}

// A call that Wise refuses when it is repeated does not prove that nothing was paid: an earlier call may have created
// the transfer. It is looked for, and funded once.
func TestARefusedRepetitionIsNotAFailure(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "USD")
		b.protected = true
		o := b.Queue(b.To("110000000", 100_00))[0]
		b.Work(1)
		b.Want(o.ID, payout.UnknownOutcome, "")
		b.Between(func() { b.refuse = true })
		b.Work(1)
		b.Want(o.ID, payout.UnknownOutcome, "")
		b.Between(func() { b.protected = false })
		b.Work(3)
		b.Want(o.ID, payout.Fulfilled, "")
		if len(b.transfers) != 1 || b.funding != 1 {
			t.Errorf("%d transfers, funded %d times", len(b.transfers), b.funding)
		}
		refused := b.Queue(b.To("110000000", 200_00))[0]
		b.Work(2)
		b.Want(refused.ID, payout.Failed, "NOT_VALID")
	})
}

// Statuses of a transfer: one that bounced back stays paid until Wise refunds it, one that Wise cancels before it is
// funded fails, and one that is charged back changes nothing.
func TestStatuses(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "USD")
		outs := b.Queue(b.To("110000000", 100_00), b.To("110000000", 200_00))
		b.Work(2)
		for i, status := range []string{"bounced_back", "charged_back"} {
			b.change(b.Reference(outs[i]), func(t object) { t["status"] = status })
		}
		b.Clock.Advance(24 * time.Hour)
		b.Work(1)
		b.Want(outs[0].ID, payout.Fulfilled, "")
		b.Want(outs[1].ID, payout.Fulfilled, "")
		b.change(b.Reference(outs[0]), func(t object) { t["status"] = "cancelled" })
		b.Clock.Advance(24 * time.Hour)
		b.Work(1)
		b.Want(outs[0].ID, payout.Fulfilled, "")
		b.refund(b.Reference(outs[0]))
		b.Clock.Advance(24 * time.Hour)
		b.Work(1)
		b.Want(outs[0].ID, payout.Returned, "funds_refunded")

		b.Between(func() { b.cents = 0 })
		o := b.Queue(b.To("110000000", 300_00))[0]
		b.Work(1)
		b.Want(o.ID, payout.UnknownOutcome, "")
		b.change(b.Reference(o), func(t object) { t["status"] = "cancelled" })
		b.Work(2)
		b.Want(o.ID, payout.Failed, "cancelled")
	})
}

// A destination that lacks a field fails before Wise is called, and one that Wise refuses before a transfer exists.
func TestRefusals(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "EUR", "PHP", "USD")
		b.Scheme = "local"
		without := b.to("PHP", 100_00, strings.Replace(inManila, `"bank_code":"BOPIPHMM",`, "", 1))
		b.Scheme = "ach"
		outs := b.Queue(without, b.To("1100000", 100_00))
		b.Work(2)
		b.Want(outs[0].ID, payout.Failed, "destination_incomplete")
		b.Want(outs[1].ID, payout.Failed, "NOT_VALID")
		if len(b.transfers) != 0 {
			t.Errorf("%d transfers", len(b.transfers))
		}
	})
}

// If Wise has a payment to another account under our ID, as after a restored backup, payouts are paused.
func TestAKeyOfAnotherPaymentPausesPayouts(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "USD")
		b.accounts = []object{{"id": 1, "details": object{"accountNumber": "42"}}}
		b.transfers = []object{{"id": 1000, "targetAccount": 1, "customerTransactionId": transactionID("S0000001P00001"),
			"targetCurrency": "USD", "targetValue": json.Number("100.00"), "status": "processing",
			"payments": []object{{"amount": 101, "currency": "USD"}}}}
		o := b.Queue(b.To("110000000", 100_00))[0]
		b.Work(2)
		b.Want(o.ID, payout.UnknownOutcome, "")
		if why := b.Paused(); !strings.Contains(why, "S0000001P00001") {
			t.Errorf("paused: %q", why)
		}
	})
}

// Destinations become recipients of the type of their currency, with the fields that Wise's documentation names.
func TestRecipients(t *testing.T) {
	const more = `"account_holder_name":"Ada Ö","account_holder_type":"individual"`
	for currency, c := range map[string]struct{ destination, kind, want string }{
		"EUR": {`"iban":"DE89370400440532013000","bic":"COBADEFF"`, "iban",
			`"BIC":"COBADEFF","IBAN":"DE89370400440532013000"`},
		"GBP": {`"sort_code":"200000","account_number":"55779911"`, "sort_code",
			`"accountNumber":"55779911","sortCode":"200000"`},
		"CHF": {`"iban":"CH9300762011623852957","address":{"city":"Bern","postal_code":"3000","country":"CH"}`, "iban",
			`"IBAN":"CH9300762011623852957","address":{"city":"Bern","country":"CH","postCode":"3000"},"postCode":"3000",` +
				`"town":"Bern"`},
		"BDT": {`"routing_number":"015270362","account_number":"5060011118000"`, "bangladesh",
			`"accountNumber":"5060011118000","bankCode":"015","branchCode":"015270362"`},
		"CAD": {`"institution_number":"006","transit_number":"04841","account_number":"3456712","account_type":"savings"`,
			"canadian", `"accountNumber":"3456712","accountType":"Saving","institutionNumber":"006","transitNumber":"04841"`},
		"JPY": {`"bank_code":"6470","branch_code":"100","account_type":"toza","account_number":"1234567",
			"account_holder_kana":"アダ"`, "japanese",
			`"accountNumber":"1234567","accountType":"CURRENT","bankCode":"6470","branchCode":"100"`},
		"MXN": {`"clabe":"032180000118359719"`, "mexican", `"clabe":"032180000118359719"`},
		"TRY": {`"iban":"TR330006100519786457841326"`, "", ""}, // without an address
		"UYU": {`"account_number":"1"`, "", ""},                // not paid
	} {
		o := bank.Order{Account: bank.Account{Currency: money.EUR, Profile: profile}, Payment: bank.Payment{
			Amount: money.New(money.Asset(currency), 100), Data: json.RawMessage("{" + more + "," + c.destination + "}")}}
		got, err := wise.Recipient(o)
		if c.kind == "" {
			if err == nil {
				t.Errorf("%s: %v", currency, got)
			}
			continue
		}
		testkit.Check(t, err)
		text, err := json.Marshal(got["details"])
		testkit.Check(t, err)
		details := strings.Replace(string(text), `,"legalType":"PRIVATE"`, "", 1)
		if got["type"] != c.kind || details != "{"+c.want+"}" || got["accountHolderName"] != "Ada O" {
			t.Errorf("%s: %v %s", currency, got, details)
		}
	}
	if n := wise.Currencies(); n < 40 {
		t.Errorf("%d currencies", n)
	}
}

// An account must name its profile, and pay only currencies whose recipients are known.
func TestAccounts(t *testing.T) {
	const fields = `[{"id":"w","currency":"EUR","format":"wise","name":"Example","number":"64"%s}]`
	for more, want := range map[string]bool{
		`,"profile":"101"`:                      true,
		`,"profile":"101","pays":["PHP","JPY"]`: true,
		``:                                      false,
		`,"profile":"p_1"`:                      false,
		`,"profile":"101","pays":["BTC"]`:       false,
		`,"profile":"101","pays":["EUR"]`:       false, // twice
		`,"profile":"101","pays":["XOF"]`:       false, // unknown to Wise's documentation
		`,"profile":"101","pays":["PHP"],"format":"nacha"`: false,
	} {
		accounts, err := bank.ReadAccounts(strings.NewReader(fmt.Sprintf(fields, more)))
		if err == nil {
			err = wise.CheckAccount(accounts[0])
		}
		if (err == nil) != want {
			t.Errorf("%s: %v", more, err)
		}
	}
}

// A webhook of Wise, signed with its private key, brings the next check of its transfer forward.
func TestCallbacks(t *testing.T) {
	keys := map[bool]*rsa.PrivateKey{}
	for _, right := range []bool{true, false} {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		testkit.Check(t, err)
		keys[right] = key
	}
	public, err := x509.MarshalPKIXPublicKey(&keys[true].PublicKey)
	testkit.Check(t, err)
	callback, err := wise.Callback(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	testkit.Check(t, err)
	if _, err := wise.Callback([]byte("no key")); err == nil {
		t.Error("a text is a key")
	}
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "USD")
		b.CheckCallbacks(bank.Callbacks{"wise": callback}, "wise", 24*time.Hour,
			func(id string, at time.Time, right bool) (http.Header, []byte) {
				if id == "unknown" {
					id = "1"
				}
				body := fmt.Appendf(nil, `{"data":{"resource":{"type":"transfer","id":%s,"profile_id":101},
					"current_state":"funds_refunded"},"event_type":"transfers#state-change","schema_version":"4.0.0",
					"sent_at":%q}`, id, at.UTC().Format(time.RFC3339))
				sum := sha256.Sum256(body)
				signature, err := rsa.SignPKCS1v15(rand.Reader, keys[right], crypto.SHA256, sum[:])
				b.Must(err)
				return http.Header{"X-Signature-Sha256": {base64.StdEncoding.EncodeToString(signature)}}, body
			}, func(o payout.Output) string {
				b.refund(b.Reference(o))
				return fmt.Sprint(b.transfers[0]["id"])
			})
	})
}
