package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice/vendorbill"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/wallet"
)

// rule describes the values of a member that its valid value does not show.
type rule struct {
	required bool
	id       bool // the ID of an object: an unknown one gets 404, whatever its form
}

// refuseBadInput sends a valid body with one invalid member at a time. Each request must get an error that points at
// the member, and must change no row. Nested members are named by JSON pointers.
func refuseBadInput(b *fixture, method, path string, good members, rules map[string]rule) {
	b.t.Helper()
	before := b.rows()
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		r := rules[name]
		value, present := good[name]
		if !present {
			b.t.Errorf("%s: the good body has no %s", path, name)
			continue
		}
		text, isText := value.(string)
		wrong := map[string]any{"another type": members{"a": 1}, "a list": []any{true}}
		if r.required {
			wrong["missing"], wrong["null"] = nil, json.RawMessage("null")
		}
		if isText {
			wrong["a number"] = 7
			wrong["too long"] = strings.Repeat("a", 20_000)
			wrong["a control character"] = text + "\u0007"
			wrong["a bidirectional override"] = "\u202e" + text
			if r.required && !r.id {
				wrong["empty"], wrong["blank"] = "", "   "
			}
		} else {
			wrong["text"] = "x"
		}
		for _, what := range slices.Sorted(maps.Keys(wrong)) {
			body := maps.Clone(good)
			if body[name] = wrong[what]; wrong[what] == nil {
				delete(body, name)
			}
			b.refused(method, path, name+" is "+what, body, name, r.id)
		}
	}
	unknown := maps.Clone(good)
	unknown["no_such_member"] = 1
	b.refused(method, path, "unknown member", unknown, "no_such_member", false)
	if after := b.rows(); after != before {
		b.t.Errorf("%s: refused requests left rows: %s, before %s", path, after, before)
	}
}

func (b *fixture) refused(method, path, what string, body members, name string, id bool) {
	b.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	got := b.do(method, path, string(text))
	if id && got.status == 404 && strings.Contains(got.text, `"code":"not_found"`) {
		return
	}
	if got.status != 422 || !strings.Contains(got.text, `"pointer":"/`+name) {
		b.t.Errorf("%s %s, %s: %d %.300s", method, path, what, got.status, got.text)
	}
}

// rows returns the row counts of the tables that a rejected request must not change.
func (b *fixture) rows() string {
	b.t.Helper()
	var text strings.Builder
	err := b.db.Read(b.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		for _, table := range []string{
			"payers", "vendor_documents", "vendor_document_chunks", "invoices", "funding_accounts", "funding_receipts",
			"payrolls", "payments", "wallets", "ledger_journals", "history WHERE to_state <> 'authz_denied'", "events", "jobs",
			"idempotency", "subjects", "documents", "document_chunks", "tax_ids", "verifications", "owners", "company_profiles",
		} {
			var n int64
			if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
				return err
			}
			fmt.Fprintf(&text, "%s %d ", table, n)
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return text.String()
}

// drain runs the due jobs of a table.
func (b *fixture) drain(table job.Table) {
	b.t.Helper()
	if err := job.NewRunner(b.db, table, nil, slog.New(slog.DiscardHandler)).Drain(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// credit posts a deposit to the company's balance.
func (b *fixture) credit(name string, a money.Amount) {
	b.t.Helper()
	b.write(func(_ context.Context, tx *db.Tx) error {
		return ledger.Post(tx, ledger.Journal{CompanyID: b.company, SourceType: "bank_deposit", SourceID: name,
			Purpose: "credit",
			Lines:   []ledger.Line{ledger.Debit(ledger.Bank, "", a), ledger.Credit(ledger.CompanyFunds, "", a)}})
	})
}

// checkLedger verifies the ledger.
func (b *fixture) checkLedger() {
	b.t.Helper()
	if err := b.db.Read(b.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		r, err := ledger.Check(ctx, tx)
		if len(r.Problems) > 0 {
			b.t.Errorf("the ledger: %v", r.Problems)
		}
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
}

// newBilling returns a fixture with every service and a key that has every scope.
func newBilling(t testing.TB, d *db.DB) *fixture {
	b := newService(t, d, nil)
	b.server.Funding = &virtualaccount.Service{Bank: virtualaccount.Sandbox{}, Sealer: b.server.Sealer}
	b.server.Vendor = &vendorbill.Service{
		Payroll: b.server.Payroll, Sealer: b.server.Sealer, Intake: kyc.NewImageDecoder(2, kyc.MinPixels),
	}
	b.useAllScopes()
	return b
}

// useAllScopes gives the fixture a key with every scope.
func (b *fixture) useAllScopes() {
	b.t.Helper()
	b.write(func(ctx context.Context, tx *db.Tx) error {
		app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{
			CompanyID: b.company, Name: "All of " + b.company, Scopes: identity.AllScopes(),
		})
		if err != nil {
			return err
		}
		_, b.key, err = identity.CreateAPIKey(ctx, tx, identity.Sandbox,
			identity.NewAPIKey{CompanyID: b.company, AppID: app.ID})
		return err
	})
}

// otherCompany returns a fixture of another company at the same server.
func (b *fixture) otherCompany() *fixture {
	other := newFixture(b.t, b.db, nil)
	other.server = b.server
	other.useAllScopes()
	return other
}

// user creates a user of the company and returns the ID.
func (b *fixture) user(name string) (id string) {
	b.t.Helper()
	b.write(func(ctx context.Context, tx *db.Tx) error {
		u, err := identity.CreateUser(ctx, tx, b.server.Sealer, identity.NewUser{CompanyID: b.company,
			Profile: identity.Profile{
				Email: name + "@example.com", FirstName: name, LastName: "Example", Country: "DE"}})
		id = u.ID
		return err
	})
	return id
}

// token returns the Authorization header of a user who granted scopes to an app of the company.
func (b *fixture) token(userID string, scopes ...identity.Scope) (header string) {
	b.t.Helper()
	b.write(func(ctx context.Context, tx *db.Tx) error {
		app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{
			CompanyID: b.company, Name: "Token", Scopes: identity.AllScopes(),
		})
		if err != nil {
			return err
		}
		_, token, err := identity.CreateAccessToken(ctx, tx, identity.Sandbox, identity.NewAccessToken{
			CompanyID: b.company, AppID: app.ID, UserID: userID, Scopes: identity.NewScopes(scopes...)})
		header = "Bearer " + token
		return err
	})
	return header
}

func (b *fixture) write(f func(context.Context, *db.Tx) error) {
	b.t.Helper()
	if err := b.db.Write(b.t.Context(), f); err != nil {
		b.t.Fatal(err)
	}
}

// wants sends a request that must fail with a status and code.
func (b *fixture) wants(status int, code, method, path, body string, headers ...string) {
	b.t.Helper()
	if got := b.do(method, path, body, headers...); got.status != status || got.json(b.t)["code"] != code {
		b.t.Errorf("%s %s %s: %d %.300s, want %d %s", method, path, body, got.status, got.text, status, code)
	}
}

// payable creates a recipient with a BTC destination and returns the ID.
func (b *fixture) payable(more string) string {
	b.t.Helper()
	base := "/api/company/" + b.company + "/recipients/"
	made, _ := ask[members](b, "POST", base+"create", `{"country":"GB",`+more+`}`)
	id := made["recipient_id"].(string)
	ask[members](b, "POST", base+id+"/distribution", `{"symbol":"EUR","distribution_data":`+bankData+`}`)
	return id
}

// bankData is a bank destination that a payroll of any funding method can pay.
const bankData = `{"account_holder_name":"Ada Lovelace","account_holder_type":"individual",` +
	`"iban":"DE89370400440532013000"}`

// payee returns the ID of a recipient with a BTC destination. It creates the recipient once.
func (b *fixture) payee() string {
	b.t.Helper()
	found, _ := ask[members](b, "GET", "/api/company/recipients?search=Grace", "")
	if rows := found["data"].([]any); len(rows) > 0 {
		return rows[0].(members)["id"].(string)
	}
	return b.payable(`"first_name":"Grace","last_name":"Hopper"`)
}

func (b *fixture) exec(query string, args ...any) (n int64, err error) {
	err = b.db.Write(b.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		n, err = tx.Exec(ctx, query, args...)
		return err
	})
	return n, err
}

// openWallets runs the jobs that decide requests for wallets.
func (b *fixture) openWallets(allowUnverified bool) {
	b.t.Helper()
	opener, err := wallet.New(wallet.Config{Pool: chain.NewPool(b.db, "regtest", nil), AllowUnverified: allowUnverified})
	if err != nil {
		b.t.Fatal(err)
	}
	b.drain(job.Table{wallet.JobOpen: {Tx: opener.Open}})
}

func TestWallets(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newService(t, d, nil)
		made, _ := ask[members](b, "POST", "/api/wallets/request", `{"company_id":"`+b.company+`","currency":"USD"}`)
		id := made["wallet_id"].(string)
		if made["status"] != "pending" || made["company_id"] != b.company || made["currency"] != "USD" {
			t.Errorf("%v", made)
		}
		ask[members](b, "POST", "/api/wallets/request", `{"currency":"XRP"}`)
		b.credit("dep_1", money.New(money.EUR, 500))
		b.credit("dep_2", money.New(money.USD, 100_00))
		pay := func(method, amount string) reply {
			return b.do("POST", "/api/company/payroll/create",
				`{"funding_method":"`+method+`","to_pay":[{"user_id":"`+b.payee()+`","amount_fiat":`+amount+`}]}`,
				"Idempotency-Key", "k"+method+amount)
		}
		if got := pay(id, "60"); got.status != 422 || !strings.Contains(got.text, `"/funding_method"`) {
			t.Errorf("a wallet that is not open yet: %d %s", got.status, got.text)
		}
		b.openWallets(false)
		if again, _ := ask[members](b, "POST", "/api/wallets/request", `{"currency":"USD"}`); again["wallet_id"] != id ||
			again["status"] != "in_progress" {
			t.Errorf("before the company is verified: %v", again)
		}
		if _, err := b.exec("UPDATE jobs SET run_at = 0"); err != nil {
			t.Fatal(err)
		}
		b.openWallets(true)
		// pending, in_progress, completed
		if n := b.tally("SELECT COUNT(*) FROM events WHERE object_id = $1 AND name LIKE 'wallet.%'", id); n != 3 {
			t.Errorf("%d events", n)
		}
		_, text := ask[members](b, "GET", "/api/wallets", "")
		for _, want := range []string{
			`{"wallet_id":"` + id + `","currency":"USD","status":"completed","available":100.00,"reserved":0.00,` +
				`"claims":0.00,"address":"","networks":[]}`,
			`{"wallet_id":"","currency":"EUR","status":"","available":5.00,"reserved":0.00,"claims":0.00,"address":"",` +
				`"networks":[]}`, `"status":"rejected"`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in %s", want, text)
			}
		}

		for _, c := range []struct{ method, amount string }{{id, "60.00"}, {"wallet", "39.99"}} {
			got := pay(c.method, c.amount)
			if got.status != 200 || strings.Contains(got.text, `"quote"`) {
				t.Fatalf("%d %s", got.status, got.text)
			}
			detail, text := ask[members](b, "GET", "/api/company/payrolls/"+got.json(t)["payroll_id"].(string), "")
			if detail["status"] != "received" || detail["funding_state"] != "funded" {
				t.Errorf("%s", text)
			}
		}
		if got := pay(id, "0.02"); got.status != 409 || got.json(t)["code"] != "insufficient_balance" {
			t.Errorf("%d %s", got.status, got.text)
		}
		if got := pay("wal_000", "0.01"); got.status != 422 {
			t.Errorf("%d %s", got.status, got.text)
		}
		first := pay(id, "60.00").json(t)["payroll_id"].(string) // replayed: the same one
		if off, _ := ask[members](b, "POST", "/api/company/payroll/cancel",
			`{"payroll_id":"`+first+`"}`); off["status"] != "cancelled" {
			t.Errorf("%v", off)
		}
		ask[members](b, "POST", "/api/company/payroll/cancel", `{"payroll_id":"`+first+`"}`)
		_, text = ask[members](b, "GET", "/api/wallets", "")
		if !strings.Contains(text, `"available":60.01,"reserved":39.99`) {
			t.Errorf("%s", text)
		}

		page, text := ask[members](b, "GET", "/api/wallets/transactions?currency=USD&per_page=3", "")
		rows := page["data"].([]any)
		if page["meta"].(members)["total"] != 4.0 || len(rows) != 3 || !strings.Contains(text, `"amount":60.00,`+
			`"balance":60.01`) || !strings.Contains(text, `"amount":-60.00`) {
			t.Fatalf("%s", text)
		}
		if row := rows[0].(members); row["type"] != "payroll_cancelled" || row["payroll_id"] != first {
			t.Errorf("%v", row)
		}
		if _, text := ask[members](b, "GET", "/api/wallets/transactions?page=2&per_page=3&currency=USD",
			""); !strings.Contains(text, `"deposit_id":"dep_2"`) || !strings.Contains(text, `"type":"bank_deposit"`) {
			t.Errorf("%s", text)
		}
		if _, text := ask[members](b, "GET", "/api/wallets/transactions?to=2020-01-01", ""); !strings.Contains(text,
			`"data":[]`) {
			t.Errorf("%s", text)
		}
		for path, name := range map[string]string{
			"currency=usd": "currency", "from=yesterday": "from", "to=1&to=2": "to", "page=0": "page",
		} {
			if got := b.do("GET", "/api/wallets/transactions?"+path, ""); got.status != 422 ||
				!strings.Contains(got.text, `"pointer":"`+name+`"`) {
				t.Errorf("%s: %d %s", path, got.status, got.text)
			}
		}
		refuseBadInput(b, "POST", "/api/wallets/request", members{"company_id": b.company, "currency": "EUR"},
			map[string]rule{"company_id": {id: true}, "currency": {required: true}})
		b.refused("POST", "/api/wallets/request", "off by case", members{"currency": "eur"}, "currency", false)

		other := b.otherCompany()
		if _, text := ask[members](other, "GET", "/api/wallets", ""); text != `{"wallets":[]}` {
			t.Errorf("a otherCompany sees %s", text)
		}
		for _, path := range []string{"/api/wallets?company_id=", "/api/wallets/transactions?company_id="} {
			if got := other.do("GET", path+b.company, ""); got.status != 404 {
				t.Errorf("a otherCompany gets %s: %d", path, got.status)
			}
		}
		if got := other.do("POST", "/api/wallets/request",
			`{"company_id":"`+b.company+`","currency":"USD"}`); got.status != 404 {
			t.Errorf("%d %s", got.status, got.text)
		}
		if got := other.do("POST", "/api/company/payroll/create",
			`{"funding_method":"`+id+`","to_pay":[{"user_id":"`+other.payee()+`","amount_fiat":1}]}`, "Idempotency-Key",
			"k"); got.status != 422 {
			t.Errorf("a otherCompany pays from the wallet: %d %s", got.status, got.text)
		}
		b.checkLedger()
	})
}

// Twenty concurrent payrolls of 10.00 compete for a balance of 70.00. Seven succeed, and the ledger shows exactly
// those.
func TestConcurrentPayrollsDoNotOverspendTheBalance(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newService(t, d, nil)
		b.credit("dep_1", money.New(money.USD, 70_00))
		payee := b.payee()
		var wg sync.WaitGroup
		var mu sync.Mutex
		count := map[string]int{}
		for i := range 20 {
			wg.Go(func() {
				got := b.do("POST", "/api/company/payroll/create",
					`{"funding_method":"wallet","to_pay":[{"user_id":"`+payee+`","amount_fiat":10}]}`,
					"Idempotency-Key", fmt.Sprint("k", i))
				mu.Lock()
				defer mu.Unlock()
				if got.status == 200 {
					count["paid"]++
				} else {
					count[fmt.Sprint(got.json(t)["code"])]++
				}
			})
		}
		wg.Wait()
		if count["paid"] != 7 || count["insufficient_balance"] != 13 {
			t.Errorf("%v", count)
		}
		if _, text := ask[members](b, "GET", "/api/wallets", ""); !strings.Contains(text,
			`"available":0.00,"reserved":70.00`) {
			t.Errorf("%s", text)
		}
		page, _ := ask[members](b, "GET", "/api/company/payrolls?status="+string(payroll.Received), "")
		if page["meta"].(members)["total"] != 7.0 {
			t.Errorf("%v", page["meta"])
		}
		b.checkLedger()
	})
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
