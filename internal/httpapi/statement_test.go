package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/wallet"
)

func TestStatementsAsFiles(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := openTill(t, d)
		b.credit("dep_1", money.New(money.USD, 100_00))
		b.bring(ledger.MerchantPayable, "", money.New(money.USD, 90_00))
		file := func(path, contentType, begins string) {
			t.Helper()
			got := b.do("GET", path, "")
			if got.status != http.StatusOK || got.header.Get("Content-Type") != contentType ||
				!strings.HasPrefix(strings.TrimPrefix(got.text, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"), begins) {
				t.Errorf("%s: %d %s %.80q", path, got.status, got.header.Get("Content-Type"), got.text)
			}
		}
		settled, _ := ask[members](b.fixture, "POST", "/api/merchant/settlements", `{"currency":"USD"}`)
		id := settled["settlement_id"].(string)
		file("/api/merchant/settlements/"+id+"/export", "text/csv; charset=utf-8", "settlement_id,created,type,")
		file("/api/merchant/settlements/"+id+"/export?format=pdf&language=pt", "application/pdf", "%PDF-1.")

		const statement = "/api/wallets/statement/export?currency="
		file(statement+"USD", "text/csv; charset=utf-8", "transaction_id,time,type,")
		file(statement+"USD&format=pdf&language=he", "application/pdf", "%PDF-1.")
		file(statement+"USD&format=camt.053", "application/xml", "<Document ")
		file(statement+"USD&account=claims", "text/csv; charset=utf-8", "transaction_id,time,type,")

		made := b.pay("unpaid", `{"user_id":"`+b.payee()+`","amount_fiat":1}`).json(t)
		payroll := made["payroll_id"].(string)
		all, _ := ask[members](b.fixture, "GET", "/api/company/payments", "")
		payment := all["data"].([]any)[0].(members)["subpayroll_id"].(string)
		one, _ := ask[members](b.fixture, "GET", payrollPath+"/payments/"+payroll+"/"+payment, "")
		if one["subpayroll_id"] != payment || one["status"] != "received" {
			t.Errorf("%v", one)
		}
		file(payrollPath+"/statements/"+payroll, "text/csv; charset=utf-8", "payroll_id,payroll_status,")
		file(payrollPath+"/statements/"+payroll+"?format=pdf", "application/pdf", "%PDF-1.")

		refused := func(status int, code, pointer, path string) refusal {
			return refusal{status, code, pointer, "GET", path, "", ""}
		}
		b.refuses(
			refused(409, "invalid_state", "", payrollPath+"/receipts/"+payroll+"/"+payment),
			refused(404, "not_found", "", payrollPath+"/receipts/"+payroll+"/pay_none"),
			refused(422, "currency_not_supported", "", statement+"BTC&format=camt.053"),
		)
	})
}

func TestAStatementOfManyTransactionsNeedsAShorterPeriod(t *testing.T) {
	b := newFullFixture(t, sqlite(t))
	b.write(func(_ context.Context, tx *db.Tx) error {
		for i := range wallet.MaxStatementLines + 1 {
			if err := ledger.Post(tx, ledger.Journal{CompanyID: b.company, SourceType: "deposit",
				SourceID: fmt.Sprint("dep_", i), Purpose: "credit", Lines: []ledger.Line{
					ledger.Debit(ledger.FXPosition, "", money.New(money.USD, 1)),
					ledger.Credit(ledger.CompanyFunds, "", money.New(money.USD, 1))}}); err != nil {
				return err
			}
		}
		return nil
	})
	b.wants(422, "invalid_parameter", "GET", "/api/wallets/statement/export?currency=USD", "")
}
