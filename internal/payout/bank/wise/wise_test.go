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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
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

// A destination that lacks a field, or has one that does not fit, fails before a recipient is created.
func TestRefusals(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "EUR", "PHP", "USD")
		b.Scheme = "local"
		without := b.to("PHP", 100_00, strings.Replace(inManila, `"bank_code":"BOPIPHMM",`, "", 1))
		b.Scheme = "ach"
		outs := b.Queue(without, b.To("1100000", 100_00))
		b.Work(2)
		b.Want(outs[0].ID, payout.Failed, "destination_incomplete")
		b.Want(outs[1].ID, payout.Failed, "destination_incomplete")
		if got := strings.Join(b.Problems(), "\n"); !strings.Contains(got, "bank_code is missing") ||
			!strings.Contains(got, "routing_number does not fit") {
			t.Errorf("problems: %s", got)
		}
		if len(b.transfers) != 0 {
			t.Errorf("%d transfers", len(b.transfers))
		}
	})
}

// If Wise has a payment to another account under our ID, as after a restored backup, payouts are paused.
func TestAKeyOfAnotherPaymentPausesPayouts(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "USD")
		b.accounts = []object{{"id": 7, "details": object{"accountNumber": "42"}}}
		b.transfers = []object{{"id": 1000, "targetAccount": 7, "customerTransactionId": transactionID("S0000001P00001"),
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

// pay lets a server order a payment to a destination, and returns the recipient that it created.
func (s *server) pay(t *testing.T, a money.Asset, country, scheme, destination string) (object, bank.Transfer) {
	t.Helper()
	api := testkit.Must(wise.New(s.URL, token))
	s.Between(func() { s.transfers, s.accounts, s.quotes, s.asked = nil, nil, map[string]object{}, 0 })
	o := bank.Order{Account: bank.Account{ID: "w", Currency: money.Asset(s.currency), Profile: profile, Number: balance},
		Reference: "S0000012P00003", Method: "balance", Payment: bank.Payment{Amount: money.New(a, 100_00), Country: country,
			Scheme: scheme, Data: json.RawMessage(destination), Details: payout.Details{Description: "Salary"}}}
	got := testkit.Must(api.Create(t.Context(), o))
	if len(s.accounts) != 1 || len(s.transfers) != 1 {
		return nil, got
	}
	if found := testkit.Must(api.Get(t.Context(), o, got.ID)); found.Status != bank.TransferPaid {
		t.Errorf("%s %s %s: the transfer is %v", a, country, scheme, found.Status)
	}
	return s.accounts[0], got
}

// Destinations become recipients of a type that Wise offers, with the fields that it requires.
func TestRecipients(t *testing.T) {
	const more = `"account_holder_name":"Ada Ö","account_holder_type":"individual"`
	const denver = `,"address":{"address_line1":"1 Main St","city":"Denver","state":"CO","postal_code":"80202",` +
		`"country":"US"}`
	for _, c := range []struct{ from, currency, destination, kind, want string }{
		{"EUR", "EUR", `"iban":"DE89370400440532013000","bic":"COBADEFF"`, "iban",
			`"BIC":"COBADEFF","IBAN":"DE89370400440532013000"`},
		{"EUR", "GBP", `"sort_code":"200000","account_number":"55779911","email":"ada@example.com"`, "sort_code",
			`"accountNumber":"55779911","sortCode":"200000"`},
		{"EUR", "CHF", `"iban":"CH9300762011623852957","address":{"city":"Bern","postal_code":"3000","country":"CH"}`, "iban",
			`"IBAN":"CH9300762011623852957","postCode":"3000","town":"Bern"`},
		{"EUR", "BDT", `"routing_number":"015270362","account_number":"5060011118000"`, "bangladesh",
			`"accountNumber":"5060011118000","bankCode":"015","branchCode":"015270362"`},
		{"EUR", "CAD", `"institution_number":"006","transit_number":"04841","account_number":"3456712",
			"account_type":"savings"`, "canadian",
			`"accountNumber":"3456712","accountType":"Saving","institutionNumber":"006","transitNumber":"04841"`},
		{"EUR", "JPY", `"bank_code":"6470","branch_code":"100","account_type":"toza","account_number":"1234567",
			"account_holder_kana":"アダ"`, "japanese",
			`"accountNumber":"1234567","accountType":"CURRENT","bankCode":"6470","branchCode":"100"`},
		{"EUR", "MXN", `"clabe":"032180000118359719"`, "mexican", `"clabe":"032180000118359719"`},
		{"EUR", "KES", `"phone_number":"+254712345678"`, "kenya_mobile", `"accountNumber":"254712345678"`},
		{"EUR", "KRW", `"bank_code":"004","account_number":"1234567890","date_of_birth":"900131","email":"ada@example.com"`,
			"south_korean_paygate",
			`"accountNumber":"1234567890","bankCode":"004","dateOfBirth":"1990-01-31","email":"ada@example.com"`},
		{"EUR", "PEN", `"cci":"00219100123456789055","account_type":"ahorros","id_type":"CE","id_number":"123456789",
			"bank_name":"EXAMPLE BANK","phone_number":"+51987654321"`, "peru",
			`"accountNumber":"00219100123456789055","accountType":"SAVINGS","bankCode":"BCON","idDocumentNumber":"123456789",` +
				`"idDocumentType":"C_EXT","phoneNumber":"+51987654321"`},
		{"EUR", "MAD", `"rib":"007810000123400012345628","bank_name":"Example Bank"`, "morocco",
			`"accountNumber":"007810000123400012345628","bankCode":"BCMAMAMC"`},
		{"EUR", "SAR", `"iban":"SA0380000000608010167519","bic":"RJHISARI"` + denver, "swift_code",
			`"accountNumber":"SA0380000000608010167519","address":{"city":"Denver","country":"US","firstLine":"1 Main St",` +
				`"postCode":"80202","state":"CO"},"swiftCode":"RJHISARI"`},
		{"EUR", "USD", `"routing_number":"021000021","account_number":"000123456789","bank_name":"First Bank"` + denver,
			"fedwire_local", `"abartn":"021000021","accountNumber":"000123456789","address":{"city":"Denver","country":"US",` +
				`"firstLine":"1 Main St","postCode":"80202","state":"CO"}`},
		{"USD", "MXN", `"clabe":"032180000118359719"` + denver, "mexican", `"address":{"city":"Denver","country":"US",` +
			`"firstLine":"1 Main St","postCode":"80202","state":"CO"},"clabe":"032180000118359719"`},

		// A field that is missing or does not fit is named, and nothing is created.
		{"EUR", "TRY", `"iban":"TR330006100519786457841326"`, "", "address.country is missing"},
		{"USD", "MXN", `"clabe":"032180000118359719"`, "", "address.country is missing"},
		{"USD", "MXN", `"clabe":"032180000118359719"` + strings.Replace(denver, `"CO"`, `"ZZ"`, 1), "",
			"address.state does not fit"},
		{"EUR", "MXN", `"clabe":"03218000011835971"`, "", "clabe does not fit"},
		{"EUR", "NGN", `"bank_code":"999","account_number":"0000014579"`, "", "bank_code does not fit"},
		{"EUR", "NGN", `"bank_code":"011","account_number":"000001457"`, "", "account_number does not fit"},
		{"EUR", "PEN", `"cci":"00219100123456789055","account_type":"ahorros","id_type":"DNI","id_number":"123456789"`, "",
			"bank_code is missing"},
		{"EUR", "KRW", `"bank_code":"004","account_number":"1234567890","date_of_birth":"900131"`, "", "email is missing"},
		{"EUR", "TZS", `"channel":"mpesa","account_number":"+255712345678"`, "", "bank_code is missing"},
		{"EUR", "SAR", `"iban":"SA0380000000608010167519"` + denver, "", "bic is missing"},
		{"EUR", "BDT", `"routing_number":"015270362","account_number":"5060011118000","account_holder_type":"business"`, "",
			"account_holder_type: business accounts are not paid by this bank"},
		{"EUR", "XAF", `"account_number":"1"`, "", "error.route.not.supported"},
	} {
		s := serve(t)
		s.currency = c.from
		got, transfer := s.pay(t, money.Asset(c.currency), "", "", "{"+more+","+c.destination+"}")
		if c.kind == "" {
			if got != nil || transfer.Status != bank.TransferRejected || transfer.Info != c.want && transfer.Code != c.want {
				t.Errorf("%s: %+v %v; want %q", c.currency, transfer, got, c.want)
			}
			continue
		}
		if got == nil {
			t.Errorf("%s: %+v", c.currency, transfer)
			continue
		}
		text := string(testkit.Must(json.Marshal(got["details"])))
		details := strings.Replace(strings.Replace(text, `,"legalType":"PRIVATE"`, "", 1), `"legalType":"PRIVATE",`, "", 1)
		if got["type"] != c.kind || details != "{"+c.want+"}" || got["accountHolderName"] != "Ada O" {
			t.Errorf("%s: %v %s", c.currency, got, details)
		}
		if asked := s.asked; asked != map[bool]int{true: 2, false: 1}[strings.Contains(c.want, `"address"`)] {
			t.Errorf("%s: asked %d times for the fields", c.currency, asked)
		}
	}
}

// samples are values of fields without an example, or that Wise's form needs in place of one, by currency.
var samples = map[string]map[string]string{
	"BDT": {"routing_number": "015270362", "account_number": "5060011118000"},
	"FJD": {"bank_name": "Example Bank"}, "KRW": {"date_of_birth": "900131"},
	"MAD": {"bank_name": "Example Bank"}, "RWF": {"channel": "bank", "account_number": "1234567890"},
	"TZS": {"channel": "bank", "account_number": "1234567890", "bank_name": "Example Bank"},
	"UGX": {"channel": "bank", "account_number": "1234567890", "bank_name": "Example Bank"},
	"XOF": {"channel": "bank", "account_number": "007810000123400012345628", "bank_name": "Example Bank"},
	"": {"tax_id": "12345678901", "id_number": "12345678", "account_number": "123456789", "branch_code": "100",
		"bank_code": "0123", "bank_name": "Example Bank", "bic": "ABCDEF22", "email": "ada@example.com",
		"phone_number": "+51987654321", "account_holder_kana": "アダ", "city": "Springfield",
		"postal_code": "80202", "state": "CO"},
}

// sample returns the data of a destination with all fields of a scheme.
func sample(currency string, fields []destination.Field, scheme string) map[string]any {
	data := map[string]any{}
	for _, f := range fields {
		switch {
		case f.DependsOn != nil && f.DependsOn.Value != scheme || f.Key == "rail" || f.Key == "alias":
		case f.Type == "group":
			data[f.Key] = sample(currency, f.Fields, scheme)
		default:
			value := samples[currency][f.Key]
			if value == "" {
				value = f.Example
			}
			if value == "" {
				value = samples[""][f.Key]
			}
			data[f.Key] = value
		}
	}
	return data
}

// wallets are types that are not bank accounts, with numbers that look like those of accounts.
var wallets = []string{"australian_bpay", "bankgiro", "bkash", "chinese_alipay", "fiji_mobile", "hong_kong_fps",
	"indian_upi", "interac", "malaysian_duitnow", "philippinesmobile", "privatbank", "singapore_paynow"}

// Every currency that a destination can have is paid to an account with the fields that Wise requires, except by the
// schemes that are not bank accounts.
func TestEveryCurrencyIsPaid(t *testing.T) {
	unpaid := map[string]string{"BRL pix": "the destination lacks data that the bank requires",
		"USD local": "routing_number is missing"}
	paid := map[money.Asset]bool{}
	s := serve(t)
	s.currency = "EUR"
	for _, a := range money.All() {
		for _, country := range destination.Countries(a) {
			fields := testkit.Must(destination.Fields(string(a), country)).Fields
			schemes := []string{}
			for _, f := range fields {
				if f.Key == "rail" {
					for _, o := range f.Options {
						schemes = append(schemes, o.Value)
					}
				}
			}
			if len(schemes) == 0 {
				schemes = []string{"local"}
			}
			for _, scheme := range schemes {
				data := sample(string(a), fields, scheme)
				if slices.Contains([]string{"DOP", "GTQ", "KZT", "RWF", "SAR", "TND"}, string(a)) {
					data["address"] = map[string]any{"address_line1": "1 Main St", "city": "Denver", "state": "CO",
						"postal_code": "80202", "country": "US"}
				}
				got, transfer := s.pay(t, a, country, scheme, string(testkit.Must(json.Marshal(data))))
				want, excepted := unpaid[string(a)+" "+scheme]
				switch {
				case got != nil:
					paid[a] = true
					if slices.Contains(wallets, fmt.Sprint(got["type"])) {
						t.Errorf("%s %s is paid to %s", a, country, got["type"])
					}
				case !excepted || transfer.Info != want:
					t.Errorf("%s %s %s: %+v", a, country, scheme, transfer)
				}
			}
		}
	}
	if len(paid) < 57 {
		t.Errorf("%d currencies are paid, want at least 57", len(paid))
	}
}

// An account must name its profile, and pay only currencies whose recipients are known.
func TestAccounts(t *testing.T) {
	const fields = `[{"id":"w","currency":"EUR","format":"wise","name":"Example","number":"64"%s}]`
	for more, want := range map[string]bool{
		`,"profile":"101"`:                                 true,
		`,"profile":"101","pays":["PHP","JPY"]`:            true,
		``:                                                 false,
		`,"profile":"p_1"`:                                 false,
		`,"profile":"101","pays":["BTC"]`:                  false,
		`,"profile":"101","pays":["EUR"]`:                  false, // twice
		`,"profile":"101","pays":["XOF"]`:                  true,
		`,"profile":"101","pays":["XPF"]`:                  false, // no destination has it
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
