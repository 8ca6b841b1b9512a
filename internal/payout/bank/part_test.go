package bank_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
)

// back returns the entry by which a bank returns an amount of a payment. name is the bank's reference.
func back(payment string, a money.Amount, name string) iso20022.Entry {
	e := one(payment, a, true, "FOCR", "RRTN")
	e.Reference, e.Servicer = name, name
	return e
}

// A bank returns a part of a payment, for example after a recall. The part waits in suspense for staff, the ledger
// agrees with the bank's account, and the payment stays fulfilled. Each part counts once. It leaves suspense when
// staff record the return of the payment, when the bank takes it back, or when it is assigned to a company.
func TestAReturnedPartWaitsInSuspense(t *testing.T) {
	run(t, 3, func(b *fixture) {
		b.read()
		b.send()
		account := int64(0) // balance of the account at the bank, in cents
		say := func(name string, problems int, moved int64, entries ...iso20022.Entry) {
			b.Helper()
			account += moved
			b.Clock.Advance(time.Second)
			if a := b.statement(name, entries...); !a.Settled || len(a.Problems) != problems {
				b.Errorf("%s: %+v", name, a)
			}
		}
		check := func(what, waits string, first payout.State, fees, owed int64) {
			b.Helper()
			got := fmt.Sprint(b.Load("out_1").State, b.balance(ledger.BankFee, "sandbox"),
				b.balance(ledger.OutputPayable, "out_1"))
			if want := fmt.Sprint(first, eur(fees), eur(owed)); got != want {
				b.Errorf("%s: %s, want %s", what, got, want)
			}
			b.Write(func(ctx context.Context, tx *db.Tx) error {
				places, err := ledger.ByDimension(ctx, tx, ledger.Bank)
				if len(places) != 1 || places[0] != (ledger.DimensionBalance{Dim: "sandbox", Amount: eur(account)}) {
					b.Errorf("%s: the ledger has %v at the bank, which has %d", what, places, account)
				}
				if err != nil {
					return err
				}
				amounts, rest := "", map[string]money.Amount{}
				for _, w := range b.suspended(ctx, tx) {
					if w.Reason != bankreceipt.ReasonPayment {
						b.Errorf("%s: %+v", what, w)
					}
					amounts += w.Amount.String() + " "
					rest[w.ID] = w.Amount
				}
				if amounts != waits {
					b.Errorf("%s: %q wait in suspense, want %q", what, amounts, waits)
				}
				on2500, err := ledger.ByDimension(ctx, tx, ledger.SuspenseUnknown)
				for _, p := range on2500 {
					if rest[p.Dim] != p.Amount.Neg() {
						b.Errorf("%s: %s has %s on account 2500", what, p.Dim, p.Amount)
					}
					delete(rest, p.Dim)
				}
				if len(rest) > 0 {
					b.Errorf("%s: not on account 2500: %v", what, rest)
				}
				return err
			})
		}
		// A statement has the returned part before the debit of the file.
		say("part", 0, -600+40, back("S0000001P00001", eur(40), "r1"), debit(eur(600), "S0000001"))
		check("a part", "0.40 ", payout.Fulfilled, 0, 0)
		say("again", 0, 0, back("S0000001P00001", eur(40), "r1"))
		check("reported again", "0.40 ", payout.Fulfilled, 0, 0)
		say("more", 0, 5+5, back("S0000001P00001", eur(5), "r2"), back("S0000001P00001", eur(5), "r3"))
		check("two more equal parts", "0.40 0.05 0.05 ", payout.Fulfilled, 0, 0)

		// One entry returns a part of one payment and the whole of another, less the bank's fee.
		both := back("S0000001P00002", eur(70), "r4")
		both.Amount = eur(70 + 260)
		whole := both.Details[0]
		whole.EndToEndID, whole.Amount = "S0000001P00003", eur(260)
		both.Details = append(both.Details, whole)
		say("both", 0, 70+260, both)
		check("in one entry with a return", "0.40 0.05 0.05 0.70 ", payout.Fulfilled, 40, 0)
		if two, three := b.Load("out_2").State, b.Load("out_3").State; two != payout.Fulfilled || three != payout.Returned {
			b.Errorf("%s and %s", two, three)
		}

		cameBack := func(cents int64) error {
			return b.DB.Write(b.Context(), func(ctx context.Context, tx *db.Tx) error {
				return bank.RecordReturn(ctx, tx, 1, 1, eur(cents), bankreceipt.ClearParts)
			})
		}
		if err := cameBack(49); err == nil {
			b.Error("a return below the sum of the parts was accepted")
		}
		check("refused", "0.40 0.05 0.05 0.70 ", payout.Fulfilled, 40, 0)
		for range 2 {
			if err := cameBack(50); err != nil {
				b.Error(err)
			}
			check("the parts were the whole return", "0.70 ", payout.Returned, 90, 100)
		}
		say("old", 0, 0, back("S0000001P00001", eur(40), "r1"), both)
		check("the bank reports them again", "0.70 ", payout.Returned, 90, 100)

		taken := back("S0000001P00002", eur(70), "r5")
		taken.Credit, taken.Details[0].Credit = false, false
		say("taken", 0, -70, taken)
		check("the bank takes a part back", "", payout.Returned, 90, 100)

		say("more2", 0, 30, back("S0000001P00002", eur(30), "r6"))
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			_, err := bankreceipt.Assign(ctx, tx, b.suspended(ctx, tx)[0].ID, ledger.Operator)
			return err
		})
		check("assigned", "", payout.Returned, 90, 100)
		if err := b.DB.Write(b.Context(), func(ctx context.Context, tx *db.Tx) error {
			return bank.RecordReturn(ctx, tx, 1, 2, eur(30), bankreceipt.ClearParts)
		}); err == nil {
			b.Error("a return of an assigned part was accepted")
		}
		check("rejected after the assignment", "", payout.Returned, 90, 100)
		if o := b.Load("out_2"); o.State != payout.Fulfilled {
			b.Errorf("%s", o.State)
		}
		// Without Config.Statement a part is not booked.
		b.e.Config().Statement = nil
		say("unread", 1, 0, back("S0000001P00002", eur(10), "r7"))
		check("not booked", "", payout.Returned, 90, 100)
	})
}

// suspended returns the bank transfers that are in suspense.
func (b *fixture) suspended(ctx context.Context, tx *db.Tx) []bankreceipt.Transfer {
	b.Helper()
	waits, err := bankreceipt.List(ctx, tx, false, 10)
	b.Must(err)
	return waits
}
