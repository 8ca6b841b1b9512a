package app_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db/dbtest"
)

// A member finds people, payrolls, claims and transactions by one text. The ID of an object leads to its page. Another
// company finds nothing of them.
func TestSearch(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		ada := o.d.seed.Workers[0].UserID
		made := o.d.create(`{"external_id":"March 100%","to_pay":[{"user_id":"` + ada + `","amount_fiat":1600.25}]}`)
		o.d.deposit(made.PayrollID, "exact", "")
		done := o.d.fulfilled(made.PayrollID)
		txid, funded := done.Payments[0].Outputs[0].TxHash, done.Deposits[0].TxHash
		claim := o.d.claimOf("20")["claim_id"].(string)
		find := func(text string) string { return "/search?q=" + url.QueryEscape(text) }
		payroll := `href="/payrolls/` + made.PayrollID + `"`
		for _, c := range []struct{ text, want string }{
			{"ada@", "Ada Lovelace"}, {"LOVELACE", "Ada Lovelace"}, {"march 100%", payroll}, {"1600.25", payroll},
			{"1,600.25", payroll}, {txid, payroll}, {strings.ToUpper(txid), payroll},
			{funded, payroll}, {strings.ToUpper(funded), payroll}, {txid[8:20], payroll}, {funded[:8], payroll},
			{made.Quote.FundingDetails.Address[6:20], payroll}, {"1,600.25", "Ada Lovelace"},
			{"no such thing", "Nothing matches “no such thing”."}, {"march 1_0", "Nothing matches"},
			{strings.Repeat("é", 300), "Nothing matches"}, {"", "Name, email, reference"},
		} {
			o.says(o.Get(find(c.text)), c.want)
		}
		for id, page := range map[string]string{made.PayrollID: "/payrolls/", claim: "/claims/"} {
			if got := o.Get(find(id)); got.Status != http.StatusSeeOther || got.Location() != page+id {
				t.Errorf("%s: status %d, redirect to %q", id, got.Status, got.Location())
			}
		}
		for _, name := range []string{"Ann May", "Aaron Ann", "Ann Mayfield"} { // the exact name is listed first
			first, last, _ := strings.Cut(name, " ")
			o.d.ok("POST", "/api/company/"+o.d.seed.CompanyID+"/recipients/create",
				`{"first_name":"`+first+`","last_name":"`+last+`","country":"GB"}`)
		}
		for text, names := range map[string][]string{"ANN MAY": {"Ann May", "Ann Mayfield"},
			"ann": {"Ann May", "Ann Mayfield", "Aaron Ann"}} {
			page, last := o.Get(find(text)).Text, -1
			for _, name := range names {
				at := strings.Index(page, ">"+name+"<")
				if at <= last {
					t.Errorf("%q: %s is not at its place in\n%s", text, name, page)
				}
				last = at
			}
		}
		_, other := o.d.stranger()
		other.ok("POST", claimPath,
			`{"payer_id":"foreign-1","amount":20,"denomination_currency":"USD","funding_currency":"BTC"}`)
		o.says(o.Get(find("foreign-1")), "Nothing matches")
		o.says(o.Get(find("customer-1")), claim)
	})
}
