package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice/vendorbill"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// race sends n requests at once and returns how many got each result, such as "200" or "409 invalid_state".
func (b *fixture) race(n int, send func(i int) reply) (results map[string]int) {
	b.t.Helper()
	var wg sync.WaitGroup
	replies := make([]reply, n)
	for i := range n {
		wg.Go(func() { replies[i] = send(i) })
	}
	wg.Wait()
	results = map[string]int{}
	for _, got := range replies {
		code, _ := got.json(b.t)["code"].(string)
		results[strings.TrimSpace(fmt.Sprint(got.status, " ", code))]++
	}
	return results
}

// raceWants sends n requests at once, and repeats those that get a 503, as clients should. Exactly the given number
// must succeed, and all others must fail with the failure.
func (b *fixture) raceWants(n, succeed int, failure string, send func(i int) reply) {
	b.t.Helper()
	patient := func(i int) (got reply) {
		for range 10 {
			if got = send(i); got.status != http.StatusServiceUnavailable {
				break
			}
		}
		return got
	}
	if got := b.race(n, patient); got["200"] != succeed || got[failure] != n-succeed {
		b.t.Errorf("%v, want %d 200 and %d %s", got, succeed, n-succeed, failure)
	}
}

// Twenty payrolls of 10.00 compete for a balance of 70.00.
func TestConcurrentPayrollsDoNotOverspendTheBalance(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newService(t, d, nil)
		b.credit("dep_1", money.New(money.USD, 70_00))
		item := `{"user_id":"` + b.payee() + `","amount_fiat":10}`
		b.raceWants(20, 7, "409 insufficient_balance", func(i int) reply { return b.pay(fmt.Sprint("k", i), item) })
		balance := func(want string) {
			t.Helper()
			if _, text := ask[members](b, "GET", "/api/wallets", ""); !strings.Contains(text, want) {
				t.Errorf("%s, want %s", text, want)
			}
		}
		balance(`"available":0.00,"reserved":70.00`)
		page, _ := ask[members](b, "GET", "/api/company/payrolls?status="+string(payroll.Received), "")
		if page["meta"].(members)["total"] != 7.0 {
			t.Errorf("%v", page["meta"])
		}
		cancelled := `{"payroll_id":"` + page["data"].([]any)[0].(members)["payroll_id"].(string) + `"}`
		for range 2 {
			ask[members](b, "POST", payrollPath+"/cancel", cancelled)
		}
		balance(`"available":10.00,"reserved":60.00`)
		b.checkLedger()
	})
}

func TestOneOfTwentyPayrollsPaysAnInvoice(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newBilling(t, d)
		b.credit("dep_1", money.New(money.USD, 10_000_00))
		ada := b.worker("ada")
		id := b.invoice(ada, b.billed(ada))
		item := `{"user_id":"` + ada + `","amount_fiat":100,"invoice_id":"` + id + `"}`
		b.raceWants(20, 1, "409 invalid_state", func(i int) reply { return b.pay(fmt.Sprint("k", i), item) })
		if n := b.tally("SELECT COUNT(*) FROM payments WHERE invoice_id = $1", id); n != 1 {
			t.Errorf("%d payments", n)
		}
		b.checkLedger()
	})
}

func TestOneOfTwentyPayrollsPaysAnExternalPaymentID(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newService(t, d, nil)
		b.credit("dep_1", money.New(money.USD, 10_000_00))
		item := `{"user_id":"` + b.payee() + `","amount_fiat":10,"external_payment_id":"salary-1"}`
		b.raceWants(20, 1, "409 external_id_conflict", func(i int) reply { return b.pay(fmt.Sprint("k", i), item) })
		b.checkLedger()
	})
}

func TestOneOfTwentyPayrollsPaysADocument(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newBilling(t, d)
		b.credit("dep_1", money.New(money.USD, 1000_00))
		firm := b.payable(`"recipient_type":"company","role":"vendor","name":"Supplies Ltd"`)
		body := `{"funding_method":"wallet","to_pay":[{"vendor_id":"` + firm + `","amount_fiat":1,"document_id":"` +
			b.paper("1") + `"}]}`
		b.raceWants(20, 1, "409 invalid_state", func(i int) reply {
			return b.do("POST", "/api/vendor/payroll", body, "Idempotency-Key", fmt.Sprint("k", i))
		})

		// Requests that share a transaction get the same error.
		by := identity.Principal{Kind: identity.KindAPIKey, CompanyID: b.company, Scopes: identity.AllScopes()}
		items := []vendorbill.Item{{VendorID: firm, DocumentID: b.paper("2"), AmountText: "10"}}
		b.write(func(ctx context.Context, tx *db.Tx) error {
			for _, want := range []error{nil, vendorbill.ErrTaken} {
				if _, err := b.server.Vendor.Create(ctx, tx, by, vendorbill.Params{
					CreateParams: payroll.CreateParams{Currency: "USD"}, Items: items,
				}); !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			}
			return nil
		})
		b.checkLedger()
	})
}

func TestOneOfTwentyPayrollsPaysABill(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newBilling(t, d)
		b.credit("dep_1", money.New(money.USD, 1000_00))
		firm := b.payable(`"recipient_type":"company","role":"vendor","name":"Supplies Ltd"`)
		made, _ := ask[members](b, "POST", "/api/company/bills", `{"vendor_id":"`+firm+
			`","number":"R-1","amount":10,"currency":"USD","description":"Paper"}`)
		body := `{"funding_method":"wallet","invoice_ids":["` + made["invoice_id"].(string) + `"]}`
		b.raceWants(20, 1, "409 invalid_state", func(i int) reply {
			return b.do("POST", "/api/company/payroll/pay-invoices", body, "Idempotency-Key", fmt.Sprint("k", i))
		})
		if n := b.tally("SELECT COUNT(*) FROM payments WHERE invoice_id = $1", made["invoice_id"]); n != 1 {
			t.Errorf("%d payments", n)
		}
		b.checkLedger()
	})
}

// Equal writes at the same time all succeed: one that another overtook runs again, and responds with the present state.
func TestEqualWritesAtTheSameTimeSucceed(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newBilling(t, d)
		b.server.Webhooks = delivery.Setup{Sealer: b.server.Sealer, Policy: delivery.Policy{Loopback: true}}
		b.credit("dep_1", money.New(money.USD, 10_000_00))
		ada := b.worker("ada")
		item := `{"user_id":"` + ada + `","amount_fiat":10}`
		invoice := func(int) string {
			return `{"user_id":"` + ada + `","invoice_id":"` + b.invoice(ada, b.billed(ada)) + `"}`
		}
		payer := func(more string) func(int) string {
			return func(int) string {
				return `{"user_id":"` + ada + `","external_company_id":"` + b.billed(ada) + `"` + more + `}`
			}
		}
		endpoint, _ := ask[members](b, "POST", "/api/webhooks", `{"url":"http://127.0.0.1:1/"}`)
		hook := "/api/webhooks/" + endpoint["webhook_id"].(string)
		for _, w := range []struct {
			method, path string
			body         func(round int) string
		}{
			{"POST", "/api/company/payroll/cancel", func(i int) string {
				return `{"payroll_id":"` + b.pay(fmt.Sprint("cancelled", i), item).json(t)["payroll_id"].(string) + `"}`
			}},
			{"POST", "/api/merchant/settings", func(i int) string { return fmt.Sprintf(`{"tolerance_bps":%d}`, i+1) }},
			{"POST", "/api/user/payer/update", payer(`,"name":"Southwind"`)},
			{"POST", "/api/user/payer/delete", payer("")},
			{"POST", "/api/user/invoice/send", invoice},
			{"POST", "/api/user/invoice/delete", invoice},
			{"PATCH", hook, func(i int) string { return fmt.Sprintf(`{"description":"%d"}`, i) }},
			{"POST", hook + "/rotate", func(int) string { return "{}" }},
			{"POST", hook + "/test", func(int) string { return "{}" }},
			{"POST", hook + "/disable", func(int) string { return "{}" }},
			{"POST", hook + "/enable", func(int) string { return "{}" }},
		} {
			for round := range 3 {
				body := w.body(round)
				if got := b.race(6, func(int) reply { return b.do(w.method, w.path, body) }); got["200"] != 6 {
					t.Errorf("%s %s: %v, want 6 200", w.method, w.path, got)
				}
			}
		}
		b.checkLedger()
	})
}

// Each transfer is credited once, and an account takes none while its owner is not verified.
func TestTransfersToAFundingAccount(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newBilling(t, d)
		ada := b.user("ada")
		b.approve(ada, identity.KYCApproved)
		const path = "/api/user/funding/account"
		made, _ := ask[members](b, "POST", path, `{"user_id":"`+ada+`","currency":"EUR","terms_version":"`+
			virtualaccount.TermsVersion+`"}`)
		transfer := func(reference string) reply {
			return b.do("POST", "/api/sandbox/bank-deposit", `{"funding_account_id":"`+made["funding_account_id"].(string)+
				`","amount":1,"currency":"EUR","reference":"`+reference+`"}`)
		}
		b.raceWants(20, 20, "", func(i int) reply { return transfer(fmt.Sprint("same-", i%2)) })
		account := func(want string) {
			t.Helper()
			if _, text := ask[members](b, "GET", path+"?user_id="+ada, ""); !strings.Contains(text, want) {
				t.Errorf("%s, want %s", text, want)
			}
		}
		account(`"balance":2.00`)
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			bank, err := ledger.Balance(ctx, tx, ada, ledger.Bank, virtualaccount.SandboxName, money.EUR)
			if bank.String() != "2.00" {
				t.Errorf("the bank account has %s", bank)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		review := func(status string) {
			b.approve(ada, status)
			if err := b.server.Funding.Review(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		review("expired")
		account(`"status":"suspended","reason":"verification_ended"`)
		if got := transfer("late"); got.status != 409 {
			t.Errorf("%d %s", got.status, got.text)
		}
		review(identity.KYCApproved)
		account(`"status":"active"`)
		b.checkLedger()
	})
}

func TestAnInvitationIsResentThreeTimes(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newService(t, d, nil)
		const path, body = "/api/company/worker/invite", `{"email":"ada@example.com"}`
		ask[members](b, "POST", path, body)
		b.raceWants(10, 3, "409 resend_limit_reached", func(int) reply { return b.do("POST", path+"/resend", body) })
		if n := b.count("SELECT COUNT(*) FROM mails WHERE address = 'ada@example.com'"); n != 1+3 {
			t.Errorf("%d mails", n)
		}
	})
}
