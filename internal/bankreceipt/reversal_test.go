package bankreceipt

import (
	"context"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// The money of a reversed ACH payment is the balance of the company that paid, once and if it is exactly the payment's
// amount, whatever a payer writes. If the payee's bank returns the reversal, the balance is taken back.
func TestTheMoneyOfAReversalIsTheCompanys(t *testing.T) {
	run(t, func(b *fixture) {
		b.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO bank_reversals (company_id, file_id, position, payment, reason, state, code,
				number, amount, collected, approved_at)
				VALUES ($1, 'bfl_1', 1, 'S0000001P00001', 'duplicate', 'ordered', '', 13, 100, FALSE, 1)`, b.by.CompanyID)
			return err
		})
		balance := func() int64 { return b.account(b.by.CompanyID, ledger.CompanyFunds, "", money.USD) }
		suspense := func(what string, c credit) {
			b.Helper()
			c.currency = "USD"
			b.want(what, b.mustImport("053", c), Summary{Suspense: 1})
			b.want(what, balance(), 0)
		}
		suspense("another amount", credit{amount: "0.99", reference: "S0000013B00001", servicer: "1"})
		suspense("a payer's text", credit{amount: "1.00", words: "S0000013P00001", servicer: "2"})
		back := credit{amount: "1.00", currency: "USD", reference: "S0000013B00001", servicer: "3"}
		b.want("the money", b.mustImport("053", back), Summary{Credited: 1})
		b.want("balance", balance(), 100)
		b.read(func(ctx context.Context, tx *db.Tx) error {
			var state string
			err := tx.QueryRow(ctx, "SELECT state FROM bank_reversals WHERE collected").Scan(&state)
			b.want("state", state, "collected")
			return err
		})
		b.want("again", b.mustImport("054", back), Summary{Known: 1})
		taken := back
		taken.debit, taken.reversal = true, true
		b.want("returned", b.mustImport("053", taken), Summary{Returned: 1})
		b.want("balance", balance(), 0)
		suspense("a second one", credit{amount: "1.00", reference: "S0000013B00001", servicer: "4", day: "2026-04-02"})
	})
}
