package bank

import (
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/testkit"
)

// sandboxAccount returns the sandbox's account for pain.001 files in a currency.
func sandboxAccount(t *testing.T, asset money.Asset) Account {
	t.Helper()
	a, ok := ChooseAccount(SandboxAccounts(), asset, "", "", "")
	if !ok {
		t.Fatalf("no account in %s", asset)
	}
	return a
}

// encoded returns a file with one payment of 5.00, with single spaces.
func encoded(t *testing.T, asset money.Asset, data string, d payout.Details) (string, error) {
	t.Helper()
	now := testkit.Must(time.Parse(time.RFC3339, "2026-11-16T10:00:00Z"))
	m, err := sandboxAccount(t, asset).Encode(12, now, []Payment{{Amount: money.New(asset, 500), Country: "DE",
		Data: []byte(data), Details: d}})
	return strings.Join(strings.Fields(string(m.Body)), " "), err
}

// A file says who pays, what the payment is for and which invoice it pays, in characters that every bank accepts.
func TestAFileSaysWhatItPays(t *testing.T) {
	const (
		euros  = `{"account_holder_name":"Zoë Łukasz","iban":"DE89370400440532013000"}`
		francs = `{"account_holder_name":"Ada","iban":"CH9300762011623852957"}`
	)
	payer := payout.Details{Payer: "Müller & Söhne", PayerCountry: "DE", PayerStreet: "Große Straße 1",
		PayerPostCode: "80331", PayerTown: "München"}
	with := func(p payout.Purpose, description, invoice string) payout.Details {
		d := payer
		d.Purpose, d.Description, d.Invoice = p, description, invoice
		return d
	}
	named := payer
	named.PayerLEI = "506700GE1G29325QX363"
	townless := payer
	townless.PayerTown = ""
	for name, c := range map[string]struct {
		asset     money.Asset
		data      string
		d         payout.Details
		has, lack []string
	}{
		"wages": {money.EUR, euros, with(payout.PurposeWages, "Gehalt März 2026", ""),
			[]string{"<CtgyPurp> <Cd>SALA</Cd>", "<Purp> <Cd>SALA</Cd>", "<Ustrd>Gehalt Marz 2026</Ustrd>",
				"<UltmtDbtr> <Nm>Muller Sohne</Nm> </UltmtDbtr>", "<Cdtr> <Nm>Zoe Lukasz</Nm>",
				"<EndToEndId>S0000012P00001</EndToEndId>",
				"<Dbtr> <Nm>Stipend Sandbox</Nm> <PstlAdr> <StrtNm>1 Main Street</StrtNm> <PstCd>10115</PstCd> " +
					"<TwnNm>Berlin</TwnNm> <Ctry>DE</Ctry>"}, nil},
		"a vendor": {money.EUR, euros, with(payout.PurposeVendor, "Design", "2026/17"),
			[]string{"<CtgyPurp> <Cd>SUPP</Cd>", "<Purp> <Cd>SUPP</Cd>", "<Ustrd>Design 2026/17</Ustrd>"}, nil},
		"a withdrawal": {money.EUR, euros, payer, []string{"<Ustrd>Muller Sohne</Ustrd>"}, []string{"Purp>"}},
		"a long description keeps the invoice number": {money.EUR, euros,
			with(payout.PurposeVendor, strings.Repeat("x", 200), "INV-0042"),
			[]string{"<Ustrd>" + strings.Repeat("x", 131) + " INV-0042</Ustrd>"}, nil},
		"a description with the number": {money.EUR, euros, with(payout.PurposeVendor, "Invoice INV-7, design", "INV-7"),
			[]string{"<Ustrd>Invoice INV-7, design</Ustrd>"}, nil},
		"outside SEPA the payer has an address": {"CHF", francs, payer,
			[]string{"<UltmtDbtr> <Nm>Muller Sohne</Nm> <PstlAdr> <StrtNm>Grosse Strasse 1</StrtNm> <PstCd>80331</PstCd> " +
				"<TwnNm>Munchen</TwnNm> <Ctry>DE</Ctry>"}, nil},
		"an LEI": {money.EUR, euros, named, []string{"<UltmtDbtr> <Nm>Muller Sohne</Nm> <Id> <OrgId> " +
			"<LEI>506700GE1G29325QX363</LEI> </OrgId> </Id> </UltmtDbtr>"}, nil},
		"an address without a town is not written": {"CHF", francs, townless,
			[]string{"<UltmtDbtr> <Nm>Muller Sohne</Nm> </UltmtDbtr>"}, nil},
	} {
		body, err := encoded(t, c.asset, c.data, c.d)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, part := range c.has {
			if !strings.Contains(body, part) {
				t.Errorf("%s: %s is not in %s", name, part, body)
			}
		}
		for _, part := range c.lack {
			if strings.Contains(body, part) {
				t.Errorf("%s: %s is in %s", name, part, body)
			}
		}
	}
	// A PIX key is the whole alias of an account: a random key has 36 characters, two more than an account number.
	for kind, key := range map[string]string{"evp": "123e4567-e89b-12d3-a456-426614174000", "cpf": "52998224725",
		"email": strings.Repeat("a", 60) + "_1@example.com"} {
		body, err := encoded(t, "BRL", `{"account_holder_name":"Ada","pix_key_type":"`+kind+`","pix_key":"`+key+`",
			"tax_id":"52998224725"}`, payer)
		want := "<Prxy> <Tp> <Prtry>PIX " + kind + "</Prtry> </Tp> <Id>" + key + "</Id> </Prxy>"
		number := "<Id>" + key + "</Id> <SchmeNm>"
		if len(key) > 34 {
			number = "<Id>NOTPROVIDED</Id> <SchmeNm>"
		}
		if err != nil || !strings.Contains(body, want) || !strings.Contains(body, number) {
			t.Errorf("%s: %v, %s is not in %s", kind, err, want, body)
		}
	}
	for name, data := range map[string]string{
		"an account number of 35 characters": `{"account_holder_name":"Ada","account_number":"` + strings.Repeat("1", 35) +
			`","bank_code":"01","branch_code":"002"}`,
		"an account number with a hash": `{"account_holder_name":"Ada","account_number":"1#2","bank_code":"01",
			"branch_code":"002"}`,
		"a tax ID of 36 characters": `{"account_holder_name":"Ada","account_number":"123456789","bank_code":"01",
			"branch_code":"002","tax_id":"` + strings.Repeat("1", 36) + `"}`,
	} {
		if body, err := encoded(t, "KES", data, payer); err == nil {
			t.Errorf("%s: %s", name, body)
		}
	}
	for name, data := range map[string]string{
		"an IBAN that SEPA does not reach": `{"account_holder_name":"Ada","iban":"AE070331234567890123456"}`,
		"an IBAN of a wrong length":        `{"account_holder_name":"Ada","iban":"DE8937040044053"}`,
		"wrong check digits":               `{"account_holder_name":"Ada","iban":"DE88370400440532013000"}`,
		"a BIC of another country":         `{"account_holder_name":"Ada","iban":"DE89370400440532013000","bic":"ABNANL2A"}`,
		"an address without a town": `{"account_holder_name":"Ada","iban":"DE89370400440532013000",
			"address":{"address_line1":"1 Main Street","country":"DE"}}`,
		"a name without Latin letters": `{"account_holder_name":"&","iban":"DE89370400440532013000"}`,
	} {
		if body, err := encoded(t, money.EUR, data, payer); err == nil {
			t.Errorf("%s: %s", name, body)
		}
	}
}
