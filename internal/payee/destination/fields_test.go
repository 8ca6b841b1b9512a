package destination

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	registry "github.com/stipend/stipend/internal/chain/network"
	"github.com/stipend/stipend/internal/country"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
)

func TestEveryBankAccountIsUsable(t *testing.T) {
	schemes := map[string]bool{}
	for b, a := range accounts() {
		at := b.Country.Code + " " + b.Currency
		if _, ok := money.Lookup(b.Currency); !ok {
			t.Errorf("%s: unknown currency", at)
		}
		if schemes[at+a.scheme] {
			t.Errorf("%s: two rails are both called %s", at, a.scheme)
		}
		schemes[at+a.scheme] = true
		for _, f := range a.fields {
			if f.group != nil || f.Example == "" {
				continue
			}
			if got, ok := a.spell(f, f.Example); !ok || got != f.Example {
				t.Errorf("%s: %s does not take its own example", at, f.Key)
			}
			if len(f.Example) < f.MinLength || f.MaxLength > 0 && len([]rune(f.Example)) > f.MaxLength {
				t.Errorf("%s: %s: the example is outside %d to %d characters", at, f.Key, f.MinLength, f.MaxLength)
			}
		}
	}
	if len(accounts()) < 74 {
		t.Errorf("%d bank accounts", len(accounts()))
	}
}

// A destination with the example of every field passes all check digits.
func TestExamplesPassTheirChecks(t *testing.T) {
	for b, a := range accounts() {
		clean := map[string]any{}
		for _, f := range a.fields {
			if f.Example != "" {
				clean[f.Key] = f.Example
			}
		}
		switch b.Country.Code {
		case "BR":
			delete(clean, "pix_key_type") // PIX keys have no example
		case "AR":
			delete(clean, "alias") // cbu_cvu and alias exclude each other
		}
		var problems apierr.List
		a.checkAll(&problems, clean)
		for _, f := range problems.Fields() {
			t.Errorf("%s %s: %s: %s", b.Country.Code, b.Currency, f.Pointer, f.Message)
		}
	}
}

func TestFields(t *testing.T) {
	for _, c := range []struct {
		currency, country string
		keys              string
		err               error
	}{
		{"EUR", "DE", "account_holder_name account_holder_type iban bic", nil},
		{"EUR", "EE", "account_holder_name account_holder_type iban bic", nil},
		{"USD", "EC", "account_holder_name account_holder_type bank_code account_number account_type tax_id", nil},
		{"USD", "US", "rail account_holder_name account_holder_type routing_number account_number account_type address " +
			"routing_number account_number bank_name address", nil},
		{"EUR", "AR", "", ErrCurrency},
		{"BTC", "US", "", ErrCurrency},
		{"USD", "", "", ErrProfile},
	} {
		r, err := Fields(c.currency, c.country)
		var keys []string
		for _, f := range r.Fields {
			keys = append(keys, f.Key)
		}
		if !errors.Is(err, c.err) || strings.Join(keys, " ") != c.keys {
			t.Errorf("%s in %s: %v %v", c.currency, c.country, keys, err)
		}
	}
	r, _ := Fields("USD", "US")
	if o := r.Fields[0].Options; len(o) != 2 || o[0].Value != "ach" || o[1].Value != "fedwire" {
		t.Errorf("rails: %v", o)
	}
	group := r.Fields[6]
	if group.Type != "group" || len(group.Fields) != 5 || group.DependsOn == nil || *group.DependsOn != (Dependency{"rail",
		"ach"}) {
		t.Errorf("address: %+v", group)
	}
	if f := r.Fields[3]; f.MinLength != 9 || f.MaxLength != 9 || f.Checksum != "aba" || f.Type != "text" {
		t.Errorf("routing number: %+v", f)
	}
	if accounts()[country.BankAccounts("USD", "US")[0]].fields[2].DependsOn != nil {
		t.Error("answering changed the table")
	}
}

const holder = `"account_holder_name":"Ada Lovelace","account_holder_type":"individual"`

func TestFiat(t *testing.T) {
	for name, c := range map[string]struct {
		currency money.Asset
		country  string
		data     string
		want     string // expected problems, or one expected member, as member=value
	}{
		"iban": {"EUR", "DE", `{` + holder + `,"iban":"de89 3704 0044 0532 0130 00"}`,
			"iban=DE89370400440532013000"},
		"iban wrong digit": {"EUR", "DE", `{` + holder + `,"iban":"DE89370400440532013001"}`,
			"iban_invalid /distribution_data/iban"},
		"iban of another country": {"EUR", "DE", `{` + holder + `,"iban":"FR1420041010050500013M02606"}`,
			"iban_invalid /distribution_data/iban"},
		"iban by the union's row": {"EUR", "EE", `{` + holder + `,"iban":"EE382200221020145685"}`,
			"iban=EE382200221020145685"},
		"iban outside the union": {"EUR", "EE", `{` + holder + `,"iban":"TR330006100519786457841326"}`,
			"iban_invalid /distribution_data/iban"},
		"iban too short": {"EUR", "EE", `{` + holder + `,"iban":"DE8937040044053201"}`,
			"iban_invalid /distribution_data/iban"},
		"all at once": {"EUR", "DE", `{"iban":7,"bic":"x","colour":"red","a/b":1}`,
			"missing_field /distribution_data/account_holder_name, missing_field /distribution_data/account_holder_type, " +
				"invalid_type /distribution_data/iban, invalid_parameter /distribution_data/bic, unknown_field " +
				"/distribution_data/a~1b, unknown_field /distribution_data/colour"},
		"null is absent": {"EUR", "DE", `{` + holder + `,"iban":"DE89370400440532013000","bic":null,"colour":null}`,
			"iban=DE89370400440532013000"},
		"not an object": {"EUR", "DE", `[]`, "invalid_type /distribution_data"},
		"nothing":       {"EUR", "DE", `null`, "missing_field /distribution_data"},
		"ach": {"USD", "US", `{` + holder +
			`,"routing_number":"110000000","account_number":"000123456789","account_type":"checking",
			"address":{"address_line1":"1 Main Street","city":"Springfield","state":"IL","postal_code":"62701","country":"US"}}`,
			"routing_number=110000000"},
		"ach wrong digit without an address": {"USD", "US", `{` + holder +
			`,"routing_number":"110000001","account_number":"000123456789","account_type":"checking"}`,
			"missing_field /distribution_data/address, invalid_parameter /distribution_data/routing_number"},
		"ach without a state": {"USD", "US", `{` + holder +
			`,"routing_number":"110000000","account_number":"000123456789","account_type":"checking",
			"address":{"address_line1":"1 Main Street","city":"Springfield","postal_code":"62701","country":"XX","x":"y"}}`,
			"missing_field /distribution_data/address/state, invalid_parameter /distribution_data/address/country, " +
				"unknown_field /distribution_data/address/x"},
		"ach of an account holder in Puerto Rico": {"USD", "US", `{` + holder +
			`,"routing_number":"110000000","account_number":"000123456789","account_type":"checking",
			"address":{"address_line1":"1 Main Street","city":"San Juan","state":"PR","postal_code":"00901","country":"PR"}}`,
			"routing_number=110000000"},
		"ach of an account holder abroad": {"USD", "US", `{` + holder +
			`,"routing_number":"110000000","account_number":"000123456789","account_type":"checking",
			"address":{"address_line1":"1 Main Street","city":"Zug","state":"ZG","postal_code":"6300","country":"CH"}}`,
			"invalid_parameter /distribution_data/address/country"},
		"a wire to an account holder abroad": {"USD", "US", `{` + holder +
			`,"rail":"fedwire","routing_number":"021000021","account_number":"000123456789","bank_name":"First Bank",
			"address":{"address_line1":"1 Main Street","city":"Zug","state":"ZG","postal_code":"6300","country":"CH"}}`,
			"bank_name=First Bank"},
		"ach in a wrong state": {"USD", "US", `{` + holder +
			`,"routing_number":"110000000","account_number":"000123456789","account_type":"checking",
			"address":{"address_line1":"1 Main Street","city":"Spring\u202efield","state":"Illinoise",
				"postal_code":"6270","country":"US"}}`,
			"invalid_parameter /distribution_data/address/city, " +
				"invalid_parameter /distribution_data/address/state, invalid_parameter /distribution_data/address/postal_code"},
		"fedwire": {"USD", "US", `{` + holder +
			`,"rail":"fedwire","routing_number":"021000021","account_number":"000123456789","bank_name":"First Bank",
			"address":{"address_line1":"1 Main Street","city":"Springfield","state":"IL","postal_code":"62701","country":"US"}}`,
			"bank_name=First Bank"},
		"unknown rail": {"USD", "US", `{` + holder + `,"rail":"pigeon"}`,
			"invalid_parameter /distribution_data/rail"},
		"rail where there is one": {"EUR", "DE", `{` + holder + `,"iban":"DE89370400440532013000","rail":"sepa"}`,
			"unknown_field /distribution_data/rail"},
		"pix": {"BRL", "BR", `{` + holder +
			`,"pix_key_type":"cpf","pix_key":"529.982.247-25","tax_id":"529.982.247-25"}`, "tax_id=52998224725"},
		"pix of another type": {"BRL", "BR", `{` + holder +
			`,"pix_key_type":"phone","pix_key":"52998224725","tax_id":"52998224725"}`,
			"invalid_parameter /distribution_data/pix_key"},
		"cpf wrong": {"BRL", "BR", `{` + holder +
			`,"pix_key_type":"evp","pix_key":"123e4567-e89b-12d3-a456-426614174000","tax_id":"52998224724"}`,
			"tax_id_invalid /distribution_data/tax_id"},
		"cbu or alias": {"ARS", "AR", `{` + holder + `,"tax_id":"20055361682"}`,
			"invalid_parameter /distribution_data/alias"},
		"cbu and alias": {"ARS", "AR", `{` + holder +
			`,"tax_id":"20055361682","alias":"casa.perro.luna","cbu_cvu":"2850590994009041813526"}`,
			"invalid_parameter /distribution_data/alias"},
		"alias": {"ARS", "AR", `{` + holder + `,"tax_id":"20-05536168-2","alias":"casa.perro.luna"}`,
			"alias=casa.perro.luna"},
		"short british account": {"GBP", "GB", `{` + holder + `,"sort_code":"20-00-00","account_number":"577991"}`,
			"account_number=00577991"},
		"national polish number": {"PLN", "PL", `{` + holder + `,"iban":"61 1090 1014 0000 0712 1981 2874"}`,
			"iban=PL61109010140000071219812874"},
		"national kenyan number": {"KES", "KE", `{` + holder + `,"rail":"m-pesa","phone_number":"0712 345678"}`,
			"phone_number=+254712345678"},
		"a name that is a formula": {"EUR", "DE",
			`{"account_holder_name":"=1+1","account_holder_type":"individual","iban":"DE89370400440532013000"}`,
			"invalid_parameter /distribution_data/account_holder_name"},
		"a very long value": {"EUR", "DE", `{` + holder + `,"iban":"` + strings.Repeat("9", 1<<16) + `"}`,
			"iban_invalid /distribution_data/iban"},
		"no such currency there": {"MXN", "DE", `{}`, "currency_not_supported /symbol"},
	} {
		t.Run(name, func(t *testing.T) {
			d, clean, err := Setup{}.check(CreateParams{Symbol: string(c.currency), Data: json.RawMessage(c.data)}, c.country)
			if err != nil {
				f, ok := apierr.As(err)
				if !ok {
					t.Fatal(err)
				}
				var got []string
				for _, p := range f.Fields {
					got = append(got, p.Code+" "+p.Pointer)
					if len(p.Message) > 600 {
						t.Errorf("a message of %d characters", len(p.Message))
					}
				}
				if strings.Join(got, ", ") != c.want {
					t.Errorf("got %q", got)
				}
				return
			}
			var members map[string]any
			testkit.Check(t, json.Unmarshal(clean, &members))
			key, value, _ := strings.Cut(c.want, "=")
			if members[key] != value || d.Rail != RailBank || d.Country != c.country {
				t.Errorf("%s is %v; %+v", key, members[key], d)
			}
		})
	}
}

func TestProblemsQuoteTheRowAndNotTheValue(t *testing.T) {
	_, _, err := Setup{}.check(CreateParams{Symbol: "USD", Data: json.RawMessage(`{` + holder +
		`,"routing_number":"99-secret"}`)}, "US")
	f, _ := apierr.As(err)
	want := "US USD (ACH / same-day ACH / RTP): ABA routing number must match " +
		`^(0[0-9]|1[0-2]|2[1-9]|3[0-2]|6[1-9]|7[0-2]|80)\d{7}$, for example 110000000.`
	if f == nil || f.Detail != want {
		t.Errorf("%v", err)
	}
}

func TestMask(t *testing.T) {
	got := mask(map[string]any{"iban": "DE89370400440532013000", "bank_code": "011", "tax_id": "1234567",
		"address": map[string]any{"city": "X"}})
	if got["iban"] != "••••3000" || got["bank_code"] != "011" || got["tax_id"] != "••••" || len(got) != 3 {
		t.Errorf("%v", got)
	}
}

func TestCrypto(t *testing.T) {
	sandbox, live := Setup{BitcoinNetwork: "regtest"}, Setup{BitcoinNetwork: "bitcoin"}
	for _, name := range []string{"ethereum", "base"} {
		n := testkit.Must(registry.Lookup(name))
		live.Accounts.Networks = append(live.Accounts.Networks, chain.EVMNetwork{Name: n.Name, Assets: n.Assets()})
	}
	const mixed = evmExample
	for name, c := range map[string]struct {
		setup  Setup
		symbol string
		data   string
		want   string // expected address, or code and pointer of the problem
	}{
		"regtest in a sandbox": {sandbox, "BTC", `{"address":"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"}`,
			"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"},
		"regtest said so": {sandbox, "BTC",
			`{"address":"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080","network":"regtest"}`,
			"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"},
		"capitals": {live, "BTC", `{"address":"BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4"}`,
			"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"},
		"taproot": {live, "BTC",
			`{"address":"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0"}`,
			"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0"},
		"old form": {live, "BTC", `{"address":"1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2"}`,
			"1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2"},
		"live in a sandbox": {sandbox, "BTC", `{"address":"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"}`,
			"address_invalid /distribution_data/address"},
		"sandbox in live": {live, "BTC", `{"address":"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"}`,
			"address_invalid /distribution_data/address"},
		"sandbox network in live": {live, "BTC",
			`{"address":"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080","network":"regtest"}`,
			"invalid_parameter /distribution_data/network"},
		"mistyped": {live, "BTC", `{"address":"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5"}`,
			"address_invalid /distribution_data/address"},
		"a public key": {live, "BTC",
			`{"address":"0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"}`,
			"address_invalid /distribution_data/address"},
		"no address": {live, "BTC", `{}`, "missing_field /distribution_data/address"},
		"unknown member": {live, "BTC", `{"address":"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4","tag":"7"}`,
			"unknown_field /distribution_data/tag"},
		"eip-55":  {live, "ETH", `{"address":"` + mixed + `","network":"ethereum"}`, mixed},
		"no case": {live, "USDC", `{"address":"` + strings.ToLower(mixed) + `","network":"base"}`, mixed},
		"bad case": {live, "USDT",
			`{"address":"0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed","network":"ethereum"}`,
			"address_invalid /distribution_data/address"},
		"network missing": {live, "USDC", `{"address":"` + mixed + `"}`, "missing_field /distribution_data/network"},
		"network without symbol": {live, "USDT", `{"address":"` + mixed + `","network":"base"}`,
			"invalid_parameter /distribution_data/network"},
		"zero": {live, "ETH",
			`{"address":"0x0000000000000000000000000000000000000000","network":"ethereum"}`,
			"address_invalid /distribution_data/address"},
		"a token's contract": {live, "USDC", `{"address":"` + strings.ToLower(tokenContracts[0]) +
			`","network":"ethereum"}`, "address_invalid /distribution_data/address"},
		"too short": {live, "ETH", `{"address":"0x5aAeb6","network":"ethereum"}`,
			"address_invalid /distribution_data/address"},
		"one network, not named": {live, "USDT", `{"address":"` + mixed + `"}`, mixed},
		"a network that is not configured": {live, "USDC", `{"address":"` + mixed + `","network":"polygon"}`,
			"invalid_parameter /distribution_data/network"},
		"USDC on solana": {live, "USDC",
			`{"address":"5oNDL3swdJJF1g9DzJiZ4ynHXgszjAEpUkxVYejchzrY","network":"solana"}`,
			"invalid_parameter /distribution_data/network"},
		"USDT on tron": {live, "USDT", `{"address":"TJCnKsPa7y5okkXvQAidZBzqx3QyQ6sxMW","network":"tron"}`,
			"invalid_parameter /distribution_data/network"},
		"without EVM networks":      {sandbox, "USDC", `{"address":"` + mixed + `"}`, "currency_not_supported /symbol"},
		"XRP":                       {live, "XRP", `{"address":"x"}`, "currency_not_supported /symbol"},
		"XLM":                       {live, "XLM", `{"address":"x"}`, "currency_not_supported /symbol"},
		"SOL":                       {live, "SOL", `{"address":"x"}`, "currency_not_supported /symbol"},
		"LTC":                       {live, "LTC", `{"address":"x"}`, "currency_not_supported /symbol"},
		"BCH":                       {live, "BCH", `{"address":"x"}`, "currency_not_supported /symbol"},
		"DAI":                       {live, "DAI", `{"address":"x"}`, "currency_not_supported /symbol"},
		"POL, which pays fees only": {live, "POL", `{"address":"` + mixed + `"}`, "currency_not_supported /symbol"},
		"no such symbol":            {live, "btc", `{"address":"x"}`, "currency_not_supported /symbol"},
		"no symbol":                 {live, "", `{"address":"x"}`, "missing_field /symbol"},
		"address is not a string":   {live, "BTC", `{"address":{}}`, "invalid_type /distribution_data/address"},
		"address of another chain": {live, "BTC", `{"address":"` + mixed + `"}`,
			"address_invalid /distribution_data/address"},
	} {
		t.Run(name, func(t *testing.T) {
			d, _, err := c.setup.check(CreateParams{Symbol: c.symbol, Data: json.RawMessage(c.data)}, "US")
			got := d.Address
			if f, ok := apierr.As(err); ok {
				got = f.Fields[0].Code + " " + f.Fields[0].Pointer
			}
			if got != c.want {
				t.Errorf("got %q (%v), want %q", got, err, c.want)
			}
		})
	}
	if _, _, err := live.check(CreateParams{Symbol: "BTC", Kind: "fiat", Data: json.RawMessage(`{}`)}, "US"); err == nil {
		t.Error("a symbol of another type was taken")
	}
	for _, contract := range tokenContracts {
		if _, why := live.address(contract, network{"ethereum", RailEVM}); !strings.Contains(why, "contract") {
			t.Errorf("%s: %s", contract, why) // an invalid address in this list would permit payments to the contract
		}
	}
}

func FuzzFiat(f *testing.F) {
	for b, a := range accounts() {
		members := map[string]any{}
		for _, field := range a.fields {
			members[field.Key] = field.Example
		}
		data, _ := json.Marshal(members)
		f.Add(b.Currency, b.Country.Code, data)
	}
	f.Fuzz(func(t *testing.T, currency, country string, data []byte) {
		d, _, err := Setup{BitcoinNetwork: "bitcoin"}.check(CreateParams{Symbol: currency, Data: data}, country)
		if _, ok := apierr.As(err); err != nil && !ok {
			t.Errorf("not a fault: %v", err)
		}
		if err == nil && !json.Valid(d.Data) {
			t.Errorf("data is %q", d.Data)
		}
	})
}
