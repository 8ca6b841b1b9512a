package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/virtualaccount"
)

// approve sets the state of the verification of a user.
func (b *fixture) approve(userID, status string) {
	b.t.Helper()
	if n, err := b.exec("UPDATE users SET kyc_status = $1 WHERE user_id = $2", status, userID); n != 1 || err != nil {
		b.t.Fatal(n, err)
	}
}

// soundIBAN verifies the check digits of ISO 13616, independently of the product.
func soundIBAN(iban string) bool {
	var digits strings.Builder
	for _, c := range iban[4:] + iban[:4] {
		if c >= 'A' {
			fmt.Fprint(&digits, int(c-'A')+10)
		} else {
			digits.WriteRune(c)
		}
	}
	n, ok := new(big.Int).SetString(digits.String(), 10)
	return ok && new(big.Int).Mod(n, big.NewInt(97)).Int64() == 1
}

func soundRouting(number string) bool {
	sum := 0
	for i, c := range number {
		sum += int(c-'0') * []int{3, 7, 1}[i%3]
	}
	return len(number) == 9 && sum%10 == 0
}

func TestFundingAccounts(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newBilling(t, d)
		ada := b.user("ada")
		const path = "/api/user/funding/account"
		ask1 := func(currency, terms string) string {
			return encode(members{"user_id": ada, "currency": currency, "terms_version": terms})
		}
		b.wants(403, "kyc_required", "POST", path, ask1("EUR", virtualaccount.TermsVersion))
		b.approve(ada, identity.KYCApproved)

		// The terms must be accepted first, by their version.
		terms, _ := ask[members](b, "GET", path+"/tos?user_id="+ada, "")
		version := terms["terms_version"].(string)
		if terms["accepted"] != false || terms["accepted_at"] != "" {
			t.Errorf("%v", terms)
		}
		if page := b.do("GET", terms["terms_url"].(string), "", "Authorization", ""); page.status != 200 ||
			!strings.Contains(page.text, version) {
			t.Errorf("the terms: %d %s", page.status, page.text)
		}
		first, _ := ask[members](b, "POST", path, ask1("EUR", ""))
		if first["status"] != "terms_pending" || first["iban"] != "" {
			t.Errorf("%v", first)
		}
		b.wants(422, "invalid_parameter", "POST", path, ask1("EUR", "1999-01"))
		euro, _ := ask[members](b, "POST", path, ask1("EUR", version))
		iban := euro["iban"].(string)
		if euro["status"] != "active" || euro["funding_account_id"] != first["funding_account_id"] || !soundIBAN(iban) ||
			!regexp.MustCompile(`^DE\d{20}$`).MatchString(iban) || euro["account_holder_name"] != "ada Example" {
			t.Errorf("%v", euro)
		}
		if terms, _ = ask[members](b, "GET", path+"/tos?user_id="+ada, ""); terms["accepted"] != true ||
			terms["accepted_at"] == "" {
			t.Errorf("%v", terms)
		}
		dollar, _ := ask[members](b, "POST", path, ask1("USD", version))
		if dollar["status"] != "pending" || dollar["account_number"] != "" {
			t.Errorf("%v", dollar)
		}
		for range 2 {
			b.drain(job.Table{virtualaccount.JobOpen: {Net: b.server.Funding.HandleOpen}})
		}
		dollar, _ = ask[members](b, "POST", path, ask1("USD", ""))
		if dollar["status"] != "active" || !soundRouting(dollar["routing_number"].(string)) ||
			!strings.HasPrefix(dollar["routing_number"].(string), "99") || len(dollar["account_number"].(string)) != 12 {
			t.Errorf("%v", dollar)
		}
		if n := b.tally("SELECT COUNT(*) FROM events WHERE name = 'user.funding_account_status' AND object_id = $1",
			first["funding_account_id"]); n != 4 {
			t.Errorf("%d events", n) // requested, terms_pending, pending, active
		}
		if n := b.tally("SELECT COUNT(*) FROM funding_accounts " +
			"WHERE details LIKE '%DE%' AND details NOT LIKE 'v1.%'"); n != 0 {
			t.Error("the numbers are not sealed")
		}

		// A transfer is credited once per bank reference.
		pay := func(more members) reply {
			body := members{"iban": iban[:4] + " " + iban[4:], "amount": 1234.56, "currency": "EUR", "reference": "E2E-1"}
			for k, v := range more {
				if body[k] = v; v == nil {
					delete(body, k)
				}
			}
			return b.do("POST", "/api/sandbox/bank-deposit", encode(body))
		}
		one := pay(nil)
		if one.status != 200 || !strings.Contains(one.text, `"balance":1234.56`) {
			t.Fatalf("%d %s", one.status, one.text)
		}
		if again := pay(members{"iban": nil,
			"funding_account_id": euro["funding_account_id"]}); again.json(t)["deposit_id"] != one.json(t)["deposit_id"] ||
			!strings.Contains(again.text, `"balance":1234.56`) {
			t.Errorf("%d %s", again.status, again.text)
		}
		for code, more := range map[string]members{
			"invalid_state": {"amount": 1}, "currency_not_supported": {"currency": "USD", "reference": "x"},
			"not_found":           {"iban": "DE00"},
			"amount_not_positive": {"amount": 0, "reference": "x"}, "amount_precision": {"amount": 0.001, "reference": "x"},
			"invalid_parameter": {"iban": nil, "reference": "x"},
		} {
			if got := pay(more); got.json(t)["code"] != code {
				t.Errorf("%v: %d %s, want %s", more, got.status, got.text, code)
			}
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() { pay(members{"amount": 1, "reference": fmt.Sprint("same-", i%2)}) })
		}
		wg.Wait()
		_, text := ask[members](b, "GET", path+"?user_id="+ada, "")
		if !strings.Contains(text, `"balance":1236.56`) || strings.Count(text, "funding_account_id") != 2 {
			t.Errorf("%s", text)
		}
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			bank, err := ledger.Balance(ctx, tx, ada, ledger.Bank, "sandbox", money.EUR)
			if bank.String() != "1236.56" {
				t.Errorf("the bank account has %s", bank)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}

		// A company has its own account, which funds its payrolls.
		if _, err := b.exec("UPDATE companies SET kyb_status = 'approved' WHERE company_id = $1", b.company); err != nil {
			t.Fatal(err)
		}
		own, _ := ask[members](b, "POST", path, `{"currency":"EUR","terms_version":"`+version+`"}`)
		ask[members](b, "POST", "/api/sandbox/bank-deposit", encode(members{
			"funding_account_id": own["funding_account_id"], "amount": 60.6, "currency": "EUR", "reference": "r",
		}))
		if got := b.pay("k1", `{"user_id":"`+b.payee()+`","amount_fiat":60.6}`, `"currency":"EUR",`); got.status != 200 {
			t.Errorf("%d %s", got.status, got.text)
		}
		if _, text := ask[members](b, "GET", "/api/wallets/transactions?currency=EUR", ""); !strings.Contains(text,
			`"type":"bank_deposit"`) || !strings.Contains(text, `"balance":0.00`) {
			t.Errorf("%s", text)
		}

		// Other companies and users cannot see the account.
		bob, other := b.user("bob"), b.otherCompany()
		if list, _ := ask[members](b, "GET", path+"?user_id="+bob, ""); len(list["accounts"].([]any)) != 0 {
			t.Errorf("%v", list)
		}
		if list, _ := ask[members](b, "GET", path, "", "Authorization",
			b.token(bob, identity.UserBankDetails)); len(list["accounts"].([]any)) != 0 {
			t.Errorf("%v", list)
		}
		other.wants(404, "not_found", "GET", path+"?user_id="+ada, "")
		other.wants(404, "not_found", "GET", path+"/tos?user_id="+ada, "")
		other.wants(404, "not_found", "POST", path, ask1("EUR", version))
		for _, to := range []string{
			`"iban":"` + iban + `"`, `"funding_account_id":"` + own["funding_account_id"].(string) + `"`,
		} {
			other.wants(404, "not_found", "POST", "/api/sandbox/bank-deposit", `{`+to+`,"amount":1,"currency":"EUR",`+
				`"reference":"x"}`)
		}

		// The account is suspended when the verification ends.
		b.approve(ada, "expired")
		review := func() {
			if err := b.server.Funding.Review(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		review()
		if _, text := ask[members](b, "GET", path+"?user_id="+ada, ""); strings.Count(text,
			`"status":"suspended","reason":"verification_ended"`) != 2 {
			t.Errorf("%s", text)
		}
		if got := pay(members{"reference": "late"}); got.status != 409 {
			t.Errorf("%d %s", got.status, got.text)
		}
		b.approve(ada, identity.KYCApproved)
		review()
		if _, text := ask[members](b, "GET", path+"?user_id="+ada, ""); strings.Count(text, `"status":"active"`) != 2 {
			t.Errorf("%s", text)
		}

		refuseBadInput(b, "POST", path, members{"user_id": ada, "currency": "EUR", "terms_version": version},
			map[string]rule{"user_id": {id: true}, "currency": {required: true}, "terms_version": {}})
		refuseBadInput(b, "POST", "/api/sandbox/bank-deposit", members{
			"funding_account_id": euro["funding_account_id"], "amount": 1, "currency": "EUR", "reference": "new",
		},
			map[string]rule{
				"funding_account_id": {id: true}, "amount": {required: true}, "currency": {required: true},
				"reference": {required: true},
			})
		b.refused("POST", path, "off by case", members{"user_id": ada, "currency": "eur"}, "currency", false)
		// Amounts that would overflow the sums of the ledger are rejected.
		b.wants(422, "amount_too_large", "POST", "/api/sandbox/bank-deposit", encode(members{
			"funding_account_id": euro["funding_account_id"], "amount": json.Number("92233720368547758.07"), "currency": "EUR",
			"reference": "huge",
		}))
		b.checkLedger()
	})
}
