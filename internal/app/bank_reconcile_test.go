package app_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/testkit"
)

// The ledger agrees to the cent with the statements of the simulated bank: after payments, returns, transfers that fund
// payrolls, and with balances below zero. Staff see a statement that does not add up, and one without balances.
func TestReconciliationWithTheBank(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, url string) {
		o := openCompanyBrowser(t, url)
		d := o.d
		payees := []string{
			d.hire("DE", "EUR", iban("370400440532013000")),
			d.hire("DE", "EUR", iban("370400440990"+reasonNumber("AC04"))),
			d.hire("US", "USD", ach("12345678")),
			d.hire("US", "USD", ach("12990003")),
			d.hire("GB", "GBP", `"sort_code":"200000","account_number":"55779911"`),
		}
		items := ""
		for i, id := range payees {
			items += map[bool]string{true: ","}[i > 0] + fmt.Sprintf(`{"user_id":%q,"amount_fiat":100.00}`, id)
		}
		made := d.create(`{"currency":"USD","to_pay":[` + items + `]}`)
		d.deposit(made.PayrollID, "exact", "")
		funded := d.create(pays(`"funding_method":"bank",`, "40.00", payees[2]))
		d.deposit(funded.PayrollID, "exact", "")
		d.fulfilled(funded.PayrollID)
		settled := func(state string) int64 {
			return d.count(`SELECT COUNT(*) FROM outputs WHERE company_id = $1 AND payroll_id = $2 AND state = $3`,
				d.seed.CompanyID, made.PayrollID, state)
		}
		eventually(t, time.Minute, "three payments are paid and two came back",
			func() bool { return settled("fulfilled") == 3 && settled("returned") == 2 })

		// The day ends. The bank sends its statements, which have the closing balances of the ledger.
		compare := func() backoffice.Report {
			return testkit.Must(backoffice.Reconcile(t.Context(), o.s.DB(), o.s.Sources()))
		}
		currencies := []money.Asset{money.EUR, money.USD, money.GBP}
		closes := func() {
			t.Helper()
			d.advance(36 * time.Hour)
			eventually(t, time.Minute, "the statements of the day agree with the ledger", func() bool {
				n := d.count("SELECT COUNT(DISTINCT currency) FROM bank_statements WHERE balanced")
				return n == int64(len(currencies)) && compare().Clean()
			})
		}
		closes()
		// A direct debit is credited, and returned on another day.
		var mandate, debit struct {
			ID     string `json:"mandate_id"`
			Debit  string `json:"debit_id"`
			Status string `json:"status"`
		}
		d.decode(d.ok("POST", "/api/sandbox/mandate", `{"scheme":"ach_ccd"}`), &mandate)
		d.decode(d.ok("POST", "/api/wallets/direct-debits", `{"mandate_id":"`+mandate.ID+`","amount":75.00}`,
			"Idempotency-Key", freshKey()), &debit)
		is := func(status string) {
			t.Helper()
			d.advanceUntil(time.Hour, "the debit is "+status, func() bool { // the bank processes files by the hour
				d.decode(d.ok("GET", "/api/wallets/direct-debits/"+debit.Debit, ""), &debit)
				return debit.Status == status
			})
		}
		d.sendDebit(debit.Debit)
		is("collected")
		closes()
		d.ok("POST", "/api/sandbox/direct-debit-return", `{"debit_id":"`+debit.Debit+`","reason":"R01"}`)
		is("returned")
		closes()
		if n := d.count("SELECT COUNT(*) FROM bank_responses WHERE problems <> 'null' OR NOT settled"); n != 0 {
			t.Errorf("%d responses of the bank need a person", n)
		}
		for _, asset := range currencies {
			booked := d.balanceIn(ledger.Bank, "sandbox", asset)
			closing := d.count(`SELECT closing FROM bank_statements WHERE currency = $1
				ORDER BY closes_on DESC, sequence DESC LIMIT 1`, string(asset))
			if booked.Units() != closing || closing >= 0 {
				t.Errorf("the statement in %s closes with %d, and the ledger has %s; want a balance below zero", asset, closing,
					booked)
			}
		}

		// A statement that does not add up, and one without balances.
		now := testkit.Must(o.s.DB().Now(t.Context()))
		state := func(id string, balances ...iso20022.Balance) {
			var out bytes.Buffer
			w := testkit.Must(iso20022.WriteStatement(&out, iso20022.Statement{File: id, ID: id, Created: now,
				Account: "DE89370400440532013000", Currency: "GBP", Balances: balances}))
			testkit.Check(t, w.Close())
			testkit.Check(t, os.WriteFile(filepath.Join(app.SimulatedBankDir(url), "in", id+".xml"), out.Bytes(), 0o600))
		}
		closed := d.balanceIn(ledger.Bank, "sandbox", money.GBP)
		state("OFF", iso20022.Balance{Type: "OPBD", Amount: closed, Day: now},
			iso20022.Balance{Type: "CLBD", Amount: testkit.Must(closed.Add(money.New(money.GBP, 1))), Day: now})
		state("NONE")
		eventually(t, time.Minute, "both statements are differences", func() bool {
			var kinds []string
			for _, x := range compare().Differences {
				kinds = append(kinds, x.Kind)
			}
			return slices.Contains(kinds, backoffice.StatementSum) && slices.Contains(kinds, backoffice.StatementUnbalanced) &&
				slices.Contains(kinds, backoffice.BankTotal)
		})
		page := employ(t, o.s, "Katherine").signIn(t).Get("/operations/reconciliation")
		o.says(page, "The entries of a statement don’t add up to its closing balance",
			"A statement has no opening or closing balance")
	})
}
