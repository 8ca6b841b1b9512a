package wise

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/payout/bank"
)

// account is a type of recipient account at Wise.
type account struct {
	kind string // Wise's name of the type
	// details are the fields that the type requires, as Wise's key=ours, and key=ours? if it is optional. A colon and a
	// number cut ours to its first characters.
	details   string
	people    bool // only people can be paid
	reference int  // number of characters of the text that the payee sees, if it is not shortReference
}

// shortReference is the number of characters of a text that every network takes.
const shortReference = 10

// recipients has the type of recipient account for each currency. It has the currencies whose fields Wise has published
// and that our destinations have. Wise checks the values when the recipient is created.
var recipients = map[string]account{
	"AED": {kind: "emirates", details: "IBAN=iban"},
	"ARS": {kind: "argentina", details: "accountNumber=cbu_cvu taxId=tax_id"},
	"AUD": {kind: "australian", details: "bsbCode=bsb accountNumber=account_number", reference: 18},
	"BDT": {kind: "bangladesh", people: true,
		details: "bankCode=routing_number:3 branchCode=routing_number accountNumber=account_number"},
	"BRL": {kind: "brazil", people: true, details: "bankCode=bank_code branchCode=branch_code " +
		"accountNumber=account_number accountType=account_type cpf=tax_id phoneNumber=phone_number?"},
	"CAD": {kind: "canadian", details: "institutionNumber=institution_number transitNumber=transit_number " +
		"accountNumber=account_number accountType=account_type"},
	"CHF": {kind: "iban", details: "IBAN=iban town=address.city postCode=address.postal_code"},
	"CLP": {kind: "chile", details: "bankCode=bank_code accountNumber=account_number rut=tax_id " +
		"accountType=account_type phoneNumber=phone_number?"},
	"CNY": {kind: "chinese_card", people: true, details: "cardNumber=card_number"},
	"COP": {kind: "colombia", details: "bankCode=bank_code accountNumber=account_number accountType=account_type " +
		"idDocumentType=id_type idDocumentNumber=id_number phoneNumber=phone_number?"},
	"CZK": {kind: "iban", details: "IBAN=iban"},
	"DKK": {kind: "iban", details: "IBAN=iban"},
	"EUR": {kind: "iban", details: "IBAN=iban BIC=bic?", reference: 35},
	"GBP": {kind: "sort_code", details: "sortCode=sort_code accountNumber=account_number", reference: 18},
	"GEL": {kind: "iban", details: "IBAN=iban"},
	"GHS": {kind: "ghana_local", details: "bankCode=bank_code accountNumber=account_number"},
	"HKD": {kind: "hongkong", details: "bankCode=bank_code accountNumber=account_number"},
	"HUF": {kind: "iban", details: "IBAN=iban"},
	"IDR": {kind: "indonesian", details: "bankCode=bank_code accountNumber=account_number"},
	"ILS": {kind: "israeli_local", details: "IBAN=iban"},
	"INR": {kind: "indian", details: "ifscCode=ifsc accountNumber=account_number"},
	"JPY": {kind: "japanese", details: "bankCode=bank_code branchCode=branch_code accountNumber=account_number " +
		"accountType=account_type"},
	"KES": {kind: "kenya_local", details: "bankCode=bank_code accountNumber=account_number"},
	"LKR": {kind: "srilanka", details: "bankCode=bank_code branchCode=branch_code accountNumber=account_number"},
	"MXN": {kind: "mexican", details: "clabe=clabe"},
	"MYR": {kind: "malaysian", details: "swiftCode=bank_code accountNumber=account_number"},
	"NGN": {kind: "nigeria", details: "bankCode=bank_code accountNumber=account_number"},
	"NOK": {kind: "iban", details: "IBAN=iban"},
	"NPR": {kind: "nepal", people: true, details: "bankCode=bank_code accountNumber=account_number"},
	"NZD": {kind: "newzealand", details: "accountNumber=account_number"},
	"PHP": {kind: "philippines", details: "bankCode=bank_code accountNumber=account_number"},
	"PKR": {kind: "iban", people: true, details: "IBAN=iban"},
	"PLN": {kind: "iban", details: "IBAN=iban"},
	"RON": {kind: "iban", details: "IBAN=iban"},
	"SEK": {kind: "iban", details: "IBAN=iban"},
	"SGD": {kind: "singapore", details: "bankCode=bank_code accountNumber=account_number"},
	"THB": {kind: "thailand", details: "bankCode=bank_code accountNumber=account_number"},
	"TRY": {kind: "turkish_earthport", details: "IBAN=iban"},
	"USD": {kind: "aba", details: "abartn=routing_number accountNumber=account_number accountType=account_type"},
	"ZAR": {kind: "southafrica", details: "swiftCode=bank_code accountNumber=account_number", reference: 18},
}

// numbers are Wise's keys of account numbers.
var numbers = []string{"accountNumber", "IBAN", "clabe", "cardNumber"}

// types are Wise's names of types of accounts.
var types = map[string]string{
	"checking": "CHECKING", "current": "CHECKING", "cheque": "CHECKING", "corriente": "CHECKING", "corrente": "CHECKING",
	"savings": "SAVINGS", "ahorro": "SAVINGS", "ahorros": "SAVINGS", "poupanca": "SAVINGS", "vista": "CUENTA_VISTA",
	"futsu": "SAVINGS", "toza": "CURRENT", "chochiku": "SAVINGS",
}

// needAddress are currencies for which Wise requires the recipient's address: of the recipient, and of the balance.
var needAddress, needAddressFrom = []string{"USD", "PHP", "THB", "TRY"}, []string{"USD", "AUD"}

func referenceLength(o bank.Order) int {
	return max(recipients[string(o.Amount.Asset())].reference, shortReference)
}

// recipient returns the body of the call that creates the recipient of an order. The error names a missing field.
func recipient(o bank.Order) (object, error) {
	currency := string(o.Amount.Asset())
	of, known := recipients[currency]
	if !known {
		return nil, fmt.Errorf("the currency %s is not paid by Wise", currency)
	}
	to, err := o.Receiver()
	if err != nil {
		return nil, err
	}
	if of.people && to.Business {
		return nil, fmt.Errorf("companies are not paid in %s by Wise", currency)
	}
	var data map[string]any
	if err := json.Unmarshal(o.Data, &data); err != nil {
		return nil, err
	}
	details := object{"legalType": map[bool]string{true: "BUSINESS", false: "PRIVATE"}[to.Business]}
	for pair := range strings.FieldsSeq(of.details) {
		key, field, _ := strings.Cut(pair, "=")
		field, optional := strings.CutSuffix(field, "?")
		field, cut, _ := strings.Cut(field, ":")
		from := data
		if inner, nested := strings.CutPrefix(field, "address."); nested {
			from, _ = data["address"].(map[string]any)
			field = inner
		}
		value, _ := from[field].(string)
		if field == "account_type" {
			value = types[value]
		}
		if n := len(cut); n > 0 && len(value) > int(cut[0]-'0') {
			value = value[:cut[0]-'0']
		}
		switch {
		case value != "":
			details[key] = value
		case !optional:
			return nil, fmt.Errorf("the field %s of the destination is missing", field)
		}
	}
	if currency == "CAD" {
		kind, _ := details["accountType"].(string)
		details["accountType"] = map[string]string{"CHECKING": "Checking", "SAVINGS": "Saving"}[kind]
	}
	switch at := to.Address; {
	case at.Country != "" && at.Town != "":
		details["address"] = withoutEmpty(object{"country": at.Country, "city": at.Town, "firstLine": at.Street,
			"postCode": at.PostCode, "state": at.State})
	case slices.Contains(needAddress, currency) || slices.Contains(needAddressFrom, string(o.Account.Currency)):
		return nil, fmt.Errorf("the address of the payee is missing")
	}
	return object{"profile": json.Number(o.Account.Profile), "accountHolderName": name(to.Name), "currency": currency,
		"type": of.kind, "details": details}, nil
}

// name returns a name with the characters that Wise permits.
func name(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("-_()'*,. ", r) {
			return r
		}
		return ' '
	}, s)), " ")
}

func withoutEmpty(o object) object {
	maps.DeleteFunc(o, func(_ string, v any) bool { return v == "" })
	return o
}
