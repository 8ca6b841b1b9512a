package httpapi

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
)

// A program debits an account under a mandate that a member accepted, cancels and retries debits, and revokes the
// mandate.
func TestDirectDebits(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := openTill(t, d)
		x.set("UPDATE companies SET country = 'DE'")
		var m directdebit.Mandate
		x.write(func(ctx context.Context, tx *db.Tx) (err error) {
			m, err = x.server.Debits.AddMandate(ctx, tx, x.owner, directdebit.MandateParams{Scheme: "sepa_b2b", Language: "en",
				Accepted: true, Address: "203.0.113.7", Browser: "Mozilla/5.0",
				Data: []byte(`{"account_holder_name":"Acme GmbH","account_holder_type":"business",
					"iban":"DE89370400440532013000"}`)})
			return err
		})
		const path = "/api/wallets/direct-debits"
		wanted := func(amount, more string) string {
			return `{"mandate_id":"` + m.ID + `","amount":` + amount + more + `}`
		}
		refused := func(status int, code, pointer, body string) refusal {
			return refusal{status, code, pointer, "POST", path, body, ""}
		}
		x.refuses(
			refused(404, "not_found", "/mandate_id", `{"mandate_id":"mdt_none","amount":1}`),
			refused(422, "amount_not_positive", "/amount", wanted("0", "")),
			refused(422, "amount_precision", "/amount", wanted("1.001", "")),
			refused(422, "amount_too_large", "/amount", wanted("100000000", "")),
			refused(422, "invalid_parameter", "/due_on", wanted("1", `,"due_on":"tomorrow"`)),
			refusal{404, "not_found", "", "GET", path + "/ddb_none", "", ""},
			refusal{404, "not_found", "", "GET", "/api/wallets/mandates/mdt_none", "", ""},
			refusal{404, "not_found", "", "POST", path + "/cancel", `{"debit_id":"ddb_none"}`, ""},
			refusal{404, "not_found", "", "POST", path + "/retry", `{"debit_id":"ddb_none"}`, ""},
			refusal{404, "not_found", "", "POST", "/api/wallets/mandates/revoke", `{"mandate_id":"mdt_none"}`, ""},
		)
		offered := *x.server.Debits
		change := func(c directdebit.Config) {
			c.Setup = destination.Setup{Sealer: x.server.Sealer, BitcoinNetwork: "regtest", Chain: "regtest"}
			c.Payer = func(context.Context, *db.Tx, string) (payout.Details, error) { return payout.Details{}, nil }
			other, err := directdebit.New(c, directdebit.Guards{
				Stated: func(context.Context, *db.Tx, bank.Account) (string, error) { return "", nil },
				Owns: func(context.Context, *db.Tx, directdebit.Mandate) (bool,
					error) {
					return true, nil
				}})
			if err != nil {
				t.Fatal(err)
			}
			*x.server.Debits = *other
		}
		change(directdebit.Config{Accounts: bank.SandboxAccounts()})
		x.refuses(refused(403, "kyc_required", "", wanted("1", "")),
			refusal{403, "kyc_required", "", "POST", path + "/retry", `{"debit_id":"ddb_none"}`, ""})
		change(directdebit.Config{AllowUnverified: true})
		x.refuses(refused(409, "invalid_state", "", wanted("1", "")))
		*x.server.Debits = offered

		create := func(key, body string) members {
			t.Helper()
			got, _ := ask[members](x.fixture, "POST", path, body, "Idempotency-Key", key)
			return got
		}
		first := create("d1", wanted("250.00", `,"external_id":"fund-1","description":"October"`))
		id := first["debit_id"].(string)
		again := create("d1", wanted("250.00", `,"external_id":"fund-1","description":"October"`))
		if again["debit_id"] != id || first["status"] != "scheduled" || fmt.Sprint(first["released_amount"]) != "0" ||
			first["reference"] != "" {
			t.Errorf("%v\n%v", first, again)
		}
		x.refuses(refused(409, "external_id_conflict", "", wanted("1", `,"external_id":"fund-1"`)))
		retry := func(status int, code string) {
			t.Helper()
			x.refuses(refusal{status, code, "", "POST", path + "/retry", `{"debit_id":"` + id + `"}`, ""})
		}
		retry(409, "invalid_state")
		x.set("UPDATE direct_debits SET status = 'returned', reason = 'AM04'")
		x.set("UPDATE direct_debit_mandates SET status = 'revoked'")
		retry(409, "mandate_not_active")
		x.refuses(refused(409, "mandate_not_active", "/mandate_id", wanted("1", "")))
		x.set("UPDATE direct_debit_mandates SET status = 'suspended', reason = 'AM04'")
		x.owe("250.00")
		retry(409, "insufficient_balance")
		x.owe("")
		repeated, text := ask[members](x.fixture, "POST", path+"/retry", `{"debit_id":"`+id+`"}`)
		if repeated["retry_of"] != id || repeated["status"] != "scheduled" {
			t.Errorf("%s", text)
		}
		x.refuses(refusal{409, "invalid_state", "", "POST", path + "/cancel", `{"debit_id":"` + id + `"}`, ""})
		for range 2 {
			if got, text := ask[members](x.fixture, "POST", path+"/cancel",
				`{"debit_id":"`+repeated["debit_id"].(string)+`"}`); got["status"] != "cancelled" {
				t.Errorf("%s", text)
			}
		}
		if page, text := ask[members](x.fixture, "GET", path, ""); len(page["data"].([]any)) != 2 {
			t.Errorf("%s", text)
		}
		if got, text := ask[members](x.fixture, "GET", "/api/wallets/mandates/"+m.ID, ""); got["status"] != "active" ||
			!strings.Contains(text, `"accepted_from":"203.0.113.7"`) {
			t.Errorf("%s", text)
		}
		waiting := create("d2", wanted("5", ""))["debit_id"].(string)
		for range 2 {
			if got, text := ask[members](x.fixture, "POST", "/api/wallets/mandates/revoke",
				`{"mandate_id":"`+m.ID+`"}`); got["status"] != "revoked" {
				t.Errorf("%s", text)
			}
		}
		if got, text := ask[members](x.fixture, "GET", path+"/"+waiting, ""); got["status"] != "cancelled" {
			t.Errorf("%s", text)
		}
		if all, text := ask[members](x.fixture, "GET", "/api/wallets/mandates", ""); len(all["mandates"].([]any)) != 1 {
			t.Errorf("%s", text)
		}
		other := x.otherCompany()
		other.wants(404, "not_found", "GET", path+"/"+id, "")
		other.wants(404, "not_found", "GET", "/api/wallets/mandates/"+m.ID, "")
	})
}

// owe makes the company owe an amount in euros, or pays the debt if the amount is "".
func (x *till) owe(amount string) {
	x.t.Helper()
	debt := money.New(money.EUR, 250_00)
	lines := []ledger.Line{ledger.Debit(ledger.DueFromCustomer, "", debt), ledger.Credit(ledger.Bank, "sandbox", debt)}
	if amount == "" {
		lines = []ledger.Line{ledger.Debit(ledger.Bank, "sandbox", debt), ledger.Credit(ledger.DueFromCustomer, "", debt)}
	}
	x.write(func(_ context.Context, tx *db.Tx) error {
		return ledger.Post(tx, ledger.Journal{CompanyID: x.company, SourceType: "test", SourceID: "owe" + amount,
			Purpose: "owe", Lines: lines})
	})
}
