package httpapi

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
)

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
		`"company_type":"client","payroll_invoice_currency":"USD"}`)
	return made["external_company_id"].(string)
}

// invoice creates an invoice of 100.00 USD and returns the ID.
func (b *fixture) invoice(userID, payerID string) string {
	b.t.Helper()
	made, _ := ask[members](b, "POST", "/api/user/invoice/create",
		`{"user_id":"`+userID+`","external_company_id":"`+payerID+`","items":[{"description":"Work","unit_price":100}]}`)
	return made["invoice_id"].(string)
}

func (b *fixture) invoiceStatus(userID, id string) string {
	b.t.Helper()
	v, _ := ask[members](b, "GET", "/api/user/invoice/detail?user_id="+userID+"&invoice_id="+id, "")
	return v["status"].(string)
}

// pay creates a payroll of one item, funded from the balance.
func (b *fixture) pay(key, item string, more ...string) reply {
	return b.do("POST", "/api/company/payroll/create", `{"funding_method":"wallet",`+strings.Join(more,
		"")+`"to_pay":[`+item+`]}`, "Idempotency-Key", key)
}

// settle sets the state of every output of a payroll and runs its jobs.
func (b *fixture) settle(payrollID string, state payout.State) {
	b.t.Helper()
	pay := b.server.Payroll
	b.drain(job.Table{payroll.JobRelease: {Tx: pay.Release}})
	b.write(func(ctx context.Context, tx *db.Tx) error {
		n, err := tx.Exec(ctx, "UPDATE outputs SET state = $1 WHERE company_id = $2 AND payroll_id = $3", string(state),
			b.company, payrollID)
		if n == 0 {
			b.t.Error("the payroll has no outputs")
		}
		job.Enqueue(tx, job.New{
			CompanyID: b.company, Kind: payout.JobChanged, Payload: map[string]string{"payroll_id": payrollID},
		})
		return err
	})
	b.drain(job.Table{payout.JobChanged: {Tx: pay.Settle}})
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

func TestInvoices(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		b := newBilling(t, d)
		ada := b.user("ada")
		payerID := b.billed(ada)
		good := members{
			"user_id": ada, "external_company_id": payerID, "number": "2026-001", "currency": "USD", "issue_date": "2026-01-10",
			"due_date": "2026-02-10",
			"notes":    "Thank you.\nPay by transfer.",
			"items": []any{
				members{"description": "Consulting", "quantity": 2.5, "unit_price": 80.1, "tax_rate": 19},
				members{"description": "Travel", "unit_price": 0.05},
			},
		}
		made, text := ask[members](b, "POST", "/api/user/invoice/create", encode(good))
		id := made["invoice_id"].(string)
		for _, want := range []string{
			`"subtotal":200.30`, `"tax":38.05`, `"total":238.35`, `"paid":0.00`, `"amount_due":238.35`, `"status":"sent"`,
			`"number":"2026-001"`,
			`{"description":"Consulting","quantity":2.5,"unit_price":80.10,"tax_rate":19,"amount":200.25}`,
			`"quantity":1,"unit_price":0.05,"tax_rate":0,"amount":0.05`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in %s", want, text)
			}
		}
		if again := b.do("POST", "/api/user/invoice/create", encode(good)); again.status != 409 ||
			again.json(t)["invoice_id"] != id {
			t.Errorf("the same number: %d %s", again.status, again.text)
		}
		next, _ := ask[members](b, "POST", "/api/user/invoice/create",
			`{"user_id":"`+ada+`","external_company_id":"`+payerID+`","draft":true,"items":[{"description":"x",`+
				`"unit_price":1}]}`)
		if next["number"] != "INV-0002" || next["status"] != "draft" || next["issue_date"] != "2026-01-15" ||
			next["due_date"] != "2026-02-14" {
			t.Errorf("%v", next)
		}
		ref := func(id string) string { return `{"user_id":"` + ada + `","invoice_id":"` + id + `"}` }
		if sent, _ := ask[members](b, "POST", "/api/user/invoice/send",
			ref(next["invoice_id"].(string))); sent["status"] != "sent" {
			t.Errorf("%v", sent)
		}
		list := func(query string) (int, members) {
			page, _ := ask[members](b, "GET", "/api/user/invoice/list?user_id="+ada+"&"+query, "")
			return len(page["data"].([]any)), page["meta"].(members)
		}
		if n, meta := list("per_page=1"); n != 1 || meta["total"] != 2.0 {
			t.Errorf("%d %v", n, meta)
		}
		for query, want := range map[string]int{
			"status=sent": 2, "status=paid": 0, "status=overdue": 0, "external_company_id=" + payerID: 2,
			"external_company_id=pyr_x": 0, "to=2026-01-01": 0, "from=2026-01-01": 2,
		} {
			if n, _ := list(query); n != want {
				t.Errorf("%s: %d, want %d", query, n, want)
			}
		}
		clock.Advance(27 * 24 * time.Hour) // 2026-02-11
		if got := b.invoiceStatus(ada, id); got != "overdue" {
			t.Errorf("a day after it was due it is %s", got)
		}
		for query, want := range map[string]int{"status=sent": 1, "status=overdue": 1} {
			if n, _ := list(query); n != want {
				t.Errorf("%s: %d, want %d", query, n, want)
			}
		}
		for range 2 {
			if gone, text := ask[members](b, "POST", "/api/user/invoice/delete", ref(id)); gone["status"] != "void" ||
				gone["invoice_id"] != id {
				t.Errorf("%s", text)
			}
		}
		if n, _ := list(""); n != 1 {
			t.Error("a void invoice is listed")
		}
		if n, _ := list("status=void"); n != 1 {
			t.Error("a void invoice is lost")
		}
		b.wants(409, "invalid_state", "POST", "/api/user/invoice/send", ref(id))
		if n := b.tally("SELECT COUNT(*) FROM events WHERE object_id = $1 AND name IN ('invoice.created', "+
			"'invoice.status_update')", id); n != 2 {
			t.Errorf("%d events", n)
		}

		// A deleted payer cannot be invoiced, nor can a payer of another user.
		bob, other := b.user("bob"), b.otherCompany()
		good["number"], good["user_id"] = "2026-002", bob
		b.wants(404, "not_found", "POST", "/api/user/invoice/create", encode(good))
		other.wants(404, "not_found", "POST", "/api/user/invoice/create", encode(good))
		for _, as := range []*fixture{b, other} {
			for _, user := range []string{bob, ""} {
				if as == other {
					user = ada
				}
				as.wants(map[string]int{"": 422}[user]+map[bool]int{true: 404}[user != ""],
					map[bool]string{true: "not_found", false: "missing_field"}[user != ""],
					"GET", "/api/user/invoice/detail?user_id="+user+"&invoice_id="+id, "")
			}
		}
		other.wants(404, "not_found", "POST", "/api/user/invoice/delete", ref(next["invoice_id"].(string)))
		other.wants(404, "not_found", "GET", "/api/user/invoice/list?user_id="+ada, "")
		b.wants(404, "not_found", "POST", "/api/user/invoice/delete",
			`{"user_id":"`+bob+`","invoice_id":"`+next["invoice_id"].(string)+`"}`)
		b.wants(403, "insufficient_scope", "POST", "/api/user/invoice/delete", `{"invoice_id":"`+id+`"}`, "Authorization",
			b.token(ada, identity.UserInvoiceList))

		good["user_id"] = ada
		refuseBadInput(b, "POST", "/api/user/invoice/create", good, map[string]rule{
			"user_id": {required: true, id: true}, "external_company_id": {required: true, id: true}, "number": {},
			"currency": {}, "issue_date": {}, "due_date": {}, "notes": {},
			"items": {required: true},
		})
		for pointer, change := range map[string]members{
			"currency":            {"currency": "usd"},
			"issue_date":          {"issue_date": "2026-02-30"},
			"due_date":            {"due_date": "2026-01-09"},
			"items":               {"items": []any{}},
			"items/0/description": {"items": []any{members{"description": " ", "unit_price": 1}}},
			"items/0/unit_price":  {"items": []any{members{"description": "x", "unit_price": 0}}},
			"items/1/unit_price": {"items": []any{
				members{"description": "x", "unit_price": 1}, members{"description": "x", "unit_price": 1.001},
			}},
			"items/0/quantity":     {"items": []any{members{"description": "x", "unit_price": 1, "quantity": 0}}},
			"items/0/quantity ":    {"items": []any{members{"description": "x", "unit_price": 1, "quantity": 1.0001}}},
			"items/0/tax_rate":     {"items": []any{members{"description": "x", "unit_price": 1, "tax_rate": -1}}},
			"items/0/tax_rate ":    {"items": []any{members{"description": "x", "unit_price": 1, "tax_rate": 101}}},
			"items/0/unit_price ":  {"items": []any{members{"description": "x", "unit_price": 9e16, "quantity": 1000}}},
			"items/0/unit_price  ": {"items": []any{members{"description": "x", "unit_price": "1"}}},
		} {
			body := members{}
			for k, v := range good {
				body[k] = v
			}
			for k, v := range change {
				body[k] = v
			}
			b.refused("POST", "/api/user/invoice/create", "odd value", body, strings.TrimSpace(pointer), false)
		}
		for _, path := range []string{"send", "delete"} {
			refuseBadInput(b, "POST", "/api/user/invoice/"+path, members{"user_id": ada, "invoice_id": id},
				map[string]rule{"user_id": {required: true, id: true}, "invoice_id": {required: true, id: true}})
		}
		b.wants(422, "invalid_parameter", "GET", "/api/user/invoice/list?user_id="+ada+"&status=Sent", "")
		ask[members](b, "POST", "/api/user/payer/delete", `{"user_id":"`+ada+`","external_company_id":"`+payerID+`"}`)
		b.wants(409, "payer_deleted", "POST", "/api/user/invoice/create", encode(good))
	})
}

// A payroll pays an invoice by its ID. The invoice is locked while it is in the payroll, due again if the payroll is
// cancelled, paid when the payment arrives, and in the payroll again if the payment is returned.
func TestPayrollPaysInvoice(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newBilling(t, d)
		b.credit("dep_1", money.New(money.USD, 1000_00))
		b.credit("dep_2", money.New(money.EUR, 1000_00))
		ada, bob := b.worker("ada"), b.worker("bob")
		payerID := b.billed(ada)
		id := b.invoice(ada, payerID)
		item := func(user, amount string) string {
			return `{"user_id":"` + user + `","amount_fiat":` + amount + `,"invoice_id":"` + id + `"}`
		}
		for _, c := range []struct{ item, more, code, pointer string }{
			{item(ada, "99.99"), "", "invalid_parameter", "/to_pay/0/amount_fiat"},
			{item(bob, "100"), "", "invalid_parameter", "/to_pay/0/invoice_id"},
			{item(ada, "100"), `"currency":"EUR",`, "currency_not_supported", "/to_pay/0/invoice_id"},
			{item(ada, "100") + "," + item(ada, "100"), "", "invalid_parameter", "/to_pay/1/invoice_id"},
			{`{"user_id":"` + ada + `","amount_fiat":100,"invoice_id":"inv_00000000000000000000000000"}`, "",
				"invalid_parameter", "/to_pay/0/invoice_id"},
		} {
			if got := b.pay("bad"+c.item+c.more, c.item, c.more); got.status != 422 || got.json(t)["code"] != c.code ||
				!strings.Contains(got.text, c.pointer) {
				t.Errorf("%s %s: %d %s", c.item, c.more, got.status, got.text)
			}
		}
		if got := b.pay("own", `{"user_id":"`+bob+`","amount_fiat":1,"invoice_id":"our-own-7"}`); got.status != 200 {
			t.Errorf("a reference of the company's own: %d %s", got.status, got.text)
		}

		first := b.pay("k1", item(ada, "100")).json(t)["payroll_id"].(string)
		if got := b.invoiceStatus(ada, id); got != "in_payroll" {
			t.Errorf("it is %s", got)
		}
		ref, payerRef := `{"user_id":"`+ada+`","invoice_id":"`+id+`"}`,
			`{"user_id":"`+ada+`","external_company_id":"`+payerID+`"}`
		b.wants(409, "invalid_state", "POST", "/api/user/invoice/delete", ref)
		b.wants(409, "invalid_state", "POST", "/api/user/payer/delete", payerRef)
		if got := b.pay("k2", item(ada, "100")); got.status != 409 || got.json(t)["code"] != "invalid_state" ||
			!strings.Contains(got.text, "/to_pay/0/invoice_id") {
			t.Errorf("a second payroll: %d %s", got.status, got.text)
		}
		if v, text := ask[members](b, "POST", "/api/company/payroll/preview",
			`{"funding_method":"wallet","to_pay":[`+item(ada, "100")+`]}`); len(v["blockers"].([]any)) != 1 {
			t.Errorf("%s", text)
		}
		ask[members](b, "POST", "/api/company/payroll/cancel", `{"payroll_id":"`+first+`"}`)
		if got := b.invoiceStatus(ada, id); got != "sent" {
			t.Errorf("after the cancellation it is %s", got)
		}

		second := b.pay("k3", item(ada, "100")).json(t)["payroll_id"].(string)
		b.settle(second, payout.Fulfilled)
		v, text := ask[members](b, "GET", "/api/user/invoice/detail?user_id="+ada+"&invoice_id="+id, "")
		if v["status"] != "paid" || v["payroll_id"] != second || !strings.Contains(text, `"paid":100.00,"amount_due":0.00`) {
			t.Errorf("%s", text)
		}
		b.settle(second, payout.Returned)
		if v, text := ask[members](b, "GET", "/api/user/invoice/detail?user_id="+ada+"&invoice_id="+id,
			""); v["status"] != "in_payroll" || !strings.Contains(text, `"paid":0.00`) {
			t.Errorf("after the money came back: %s", text)
		}
		b.settle(second, payout.Fulfilled)
		b.wants(409, "invalid_state", "POST", "/api/user/invoice/delete", ref)
		if got := b.pay("k4", item(ada, "100")); got.status != 422 && got.status != 409 {
			t.Errorf("paid twice: %d %s", got.status, got.text)
		}
		ask[members](b, "POST", "/api/user/payer/delete", payerRef)
		// created, in_payroll, sent, in_payroll, paid, in_payroll, paid
		if n := b.tally("SELECT COUNT(*) FROM events WHERE object_id = $1 AND name LIKE 'invoice.%'", id); n != 7 {
			t.Errorf("%d events", n)
		}
		b.checkLedger()
	})
}

// A payroll that expires unfunded releases its invoice. A later cancellation does not affect the payroll that has the
// invoice then.
func TestExpiredPayrollReleasesInvoice(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		b := newBilling(t, d)
		b.credit("dep_1", money.New(money.USD, 1000_00))
		ada := b.worker("ada")
		id := b.invoice(ada, b.billed(ada))
		item := `{"user_id":"` + ada + `","amount_fiat":100,"invoice_id":"` + id + `"}`
		idle := b.do("POST", "/api/company/payroll/create", `{"to_pay":[`+item+`]}`, "Idempotency-Key",
			"k1").json(t)["payroll_id"].(string)
		clock.Advance(payroll.UnfundedAfter + time.Hour)
		b.drain(job.Table{payroll.JobExpire: {Tx: b.server.Payroll.Expire}})
		if got := b.invoiceStatus(ada, id); got != "sent" {
			t.Errorf("it is %s", got)
		}
		if got := b.pay("k2", item); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.text)
		}
		ask[members](b, "POST", "/api/company/payroll/cancel", `{"payroll_id":"`+idle+`"}`)
		if got := b.invoiceStatus(ada, id); got != "in_payroll" {
			t.Errorf("it is %s", got)
		}
	})
}

func TestOneOfTwentyPayrollsPaysAnInvoice(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newBilling(t, d)
		b.credit("dep_1", money.New(money.USD, 10_000_00))
		ada := b.worker("ada")
		id := b.invoice(ada, b.billed(ada))
		var wg sync.WaitGroup
		var mu sync.Mutex
		count := map[string]int{}
		for i := range 20 {
			wg.Go(func() {
				got := b.pay(fmt.Sprint("k", i), `{"user_id":"`+ada+`","amount_fiat":100,"invoice_id":"`+id+`"}`)
				mu.Lock()
				defer mu.Unlock()
				count[fmt.Sprint(got.status)]++
			})
		}
		wg.Wait()
		if count["200"] != 1 || count["200"]+count["409"] != 20 {
			t.Errorf("%v", count)
		}
		if n := b.tally("SELECT COUNT(*) FROM payments WHERE invoice_id = $1", id); n != 1 {
			t.Errorf("%d payments", n)
		}
		b.checkLedger()
	})
}
