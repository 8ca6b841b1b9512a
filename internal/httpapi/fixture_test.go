package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice/vendorbill"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	kit "github.com/stipend/stipend/internal/testkit/fixture"
	"github.com/stipend/stipend/internal/virtualaccount"
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
			"payrolls", "payments", "schedules", "schedule_runs",
			"wallets", "ledger_journals", "history WHERE to_state <> 'authz_denied'", "events", "jobs",
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
		if err := kit.AddManager(ctx, tx, b.company, userID); err != nil {
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

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// keyWith creates an API key of the company with the given scopes.
func (b *fixture) keyWith(scopes ...identity.Scope) (key string) {
	b.t.Helper()
	err := b.db.Write(b.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{
			CompanyID: b.company, Name: "Other", Scopes: identity.NewScopes(scopes...),
		})
		if err != nil {
			return err
		}
		_, key, err = identity.CreateAPIKey(ctx, tx, identity.Sandbox,
			identity.NewAPIKey{CompanyID: b.company, AppID: app.ID})
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return "Basic " + key
}

// worker creates a user of the company with a BTC destination and returns the ID.
func (b *fixture) worker(name string) string {
	b.t.Helper()
	id := b.user(name)
	b.write(func(ctx context.Context, tx *db.Tx) error {
		if _, err := payee.AddWorker(ctx, tx, b.company, id, payee.Contractor); err != nil {
			return err
		}
		by := identity.Principal{Kind: identity.KindAPIKey, CompanyID: b.company, Scopes: identity.AllScopes()}
		_, err := destination.Create(ctx, tx, destination.Setup{Sealer: b.server.Sealer, BitcoinNetwork: "regtest"}, by,
			destination.CreateParams{OwnerID: id, Symbol: "EUR", Data: []byte(bankData)})
		return err
	})
	return id
}

// billed creates a payer of a user, invoiced in USD, and returns the ID.
func (b *fixture) billed(userID string) string {
	b.t.Helper()
	made, _ := ask[members](b, "POST", "/api/user/payer/create", `{"user_id":"`+userID+`","name":"Northwind",`+
		`"company_type":"client","payroll_invoice_currency":"USD","is_company":true}`)
	return made["external_company_id"].(string)
}

// invoice creates an invoice of 100.00 USD and returns the ID.
func (b *fixture) invoice(userID, payerID string) string {
	b.t.Helper()
	made, _ := ask[members](b, "POST", "/api/user/invoice/create",
		`{"user_id":"`+userID+`","external_company_id":"`+payerID+`","items":[{"description":"Work","unit_price":100}]}`)
	return made["invoice_id"].(string)
}

// pay creates a payroll of one item, funded from the balance.
func (b *fixture) pay(key, item string, more ...string) reply {
	return b.do("POST", "/api/company/payroll/create", `{"funding_method":"wallet",`+strings.Join(more,
		"")+`"to_pay":[`+item+`]}`, "Idempotency-Key", key)
}

func (b *fixture) tally(query string, args ...any) (n int64) {
	b.t.Helper()
	if err := b.db.Read(b.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		return tx.QueryRow(ctx, query, args...).Scan(&n)
	}); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// approve sets the state of the verification of a user.
func (b *fixture) approve(userID, status string) {
	b.t.Helper()
	if n, err := b.exec("UPDATE users SET kyc_status = $1 WHERE user_id = $2", status, userID); n != 1 || err != nil {
		b.t.Fatal(n, err)
	}
}

func goodPayer(userID string) members {
	return members{
		"user_id": userID, "name": "Northwind GmbH", "email": "ap@northwind.example", "company_type": "client",
		"payroll_invoice_currency": "EUR",
		"website":                  "https://northwind.example/about", "street_address": "1 Example Street",
		"street_address_2": "Floor 2",
		"city":             "Berlin",
		"region":           "BE", "zip": "10115", "country": "DE",
	}
}

func pdf(more string) string {
	return base64.StdEncoding.EncodeToString([]byte("%PDF-1.7\n" + more + "\n%%EOF\n"))
}

func (b *fixture) paper(more string) string {
	b.t.Helper()
	made, _ := ask[members](b, "POST", "/api/vendor/payroll/documents", encode(members{"base64_document": pdf(more)}))
	return made["document_id"].(string)
}
