package bankreceipt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
)

// SourceCharge is the source type of the journals of fees and interest; the source ID begins with chg_.
const SourceCharge = "bank_charge"

// charge is a fee of an account, or interest on it, that a statement reports.
type charge struct {
	of        *iso20022.Entry
	account   string // account number
	accountID string // dimension of account 1020
	interest  bool
	entry     *entry
}

// newCharge returns the fee or interest that an entry reports. It returns nil for any other entry, and for a fee of
// one of our payments, which package bank posts.
func newCharge(st *iso20022.Statement, e *iso20022.Entry) *charge {
	t := e.Type
	texts := []string{e.Batch.PaymentInfoID, e.Batch.MessageID, e.Reference, e.Servicer, e.Info}
	for _, d := range e.Details {
		texts = append(texts, d.Names()...)
	}
	if len(e.Details) == 1 {
		t = e.Details[0].Type
	}
	if _, ours := bank.FindReference(texts...); ours || !e.Final() || !t.IsFee() && !t.IsInterest() {
		return nil
	}
	return &charge{of: e, account: compact(st.Account), interest: t.IsInterest()}
}

// name returns an identifier for a charge on its account, computed from its content. n, from 0, distinguishes equal
// charges of one message.
func (c *charge) name(n int) string {
	e := c.of
	digest := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %t %t %t %q %q %q %d", e.Booked.Format(time.DateOnly), e.Amount,
		e.Amount.Asset(), e.Credit, e.Reversal, c.interest, e.Reference, e.Servicer, e.Info, n))
	return "charge " + hex.EncodeToString(digest[:])
}

// postCharges posts each charge, unless an earlier import of a statement posted it, and sets the subjects of the
// charges' entries.
func postCharges(ctx context.Context, d *db.DB, charges []*charge) error {
	equal := map[string]int{}
	for _, c := range charges {
		first := c.account + c.name(0)
		name := c.name(equal[first])
		equal[first]++
		if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			id, isNew, err := insertCharge(ctx, tx, c.account, name, tx.NewID("chg"))
			if err != nil {
				return err
			}
			c.entry.subject = id
			if !isNew {
				return nil
			}
			return c.post(tx, id)
		}); err != nil {
			return err
		}
	}
	return nil
}

// post posts a charge as the operator's cost or income.
func (c *charge) post(tx *db.Tx, id string) error {
	e, code, purpose := c.of, ledger.BankFee, "fee"
	if c.interest {
		code, purpose = ledger.InterestExpense, "interest"
		if e.Credit != e.Reversal { // the bank paid the interest, or takes back interest that it paid
			code = ledger.InterestIncome
		}
	}
	j := ledger.Journal{CompanyID: ledger.Operator, SourceType: SourceCharge, SourceID: id, Purpose: purpose,
		Lines: []ledger.Line{ledger.Debit(code, c.accountID, e.Amount), ledger.Credit(ledger.Bank, c.accountID, e.Amount)}}
	if e.Credit {
		j.Lines = []ledger.Line{ledger.Debit(ledger.Bank, c.accountID, e.Amount), ledger.Credit(code, c.accountID, e.Amount)}
	}
	return ledger.Post(tx, j)
}
