package payroll

import (
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// This file translates the verdict of package receivable on received money into postings. Its functions are pure.

// receipt records how one deposit is posted. While it is active, amount = escrow + surplus + suspense + debtSettled.
// After a reversal all four are zero, and debt is the amount that could not be reversed.
type receipt struct {
	deposit string     // ID of the deposit
	chain   string     // chain of the deposit
	price   string     // ID of the quote that values the deposit, or the deposit's own ID if it was accepted late
	rate    money.Rate // price of the funding asset in the payroll's currency; zero while the deposit is in suspense
	active  bool       // the deposit is posted and not reversed
	version int64      // number of postings and reversals so far
	late    bool       // the deposit was first seen after its quote ended

	amount      money.Amount
	escrow      money.Amount // part that funds the payroll
	surplus     money.Amount // part above the amount due, credited to the company's balance
	suspense    money.Amount // late part, which waits for a decision
	debtSettled money.Amount // part that settled the debt left by an earlier reversal
	debt        money.Amount // amount that the company owes after a reversal
	repriced    money.Amount // operator's gain on a canceled payroll, debited from the balance while the deposit is posted
}

// newReceipt returns the receipt of a deposit that is not posted yet.
func newReceipt(deposit, chain string, amount money.Amount) receipt {
	none := money.Zero(amount.Asset())
	return receipt{deposit: deposit, chain: chain, amount: amount, escrow: none, surplus: none, suspense: none,
		debtSettled: none, debt: none, repriced: none}
}

// book posts a confirmed deposit. It first settles the debt left by an earlier reversal, then fills escrow and
// suspense, and credits the rest to the company's balance. If the deposit was reversed and is confirmed again, it
// also posts the operator's gain on the deposit again.
func (r *receipt) book(payroll string, escrow, suspense money.Amount) ([]ledger.Line, error) {
	surplus, err := money.Sum(r.amount.Asset(), r.amount, r.debt.Neg(), escrow.Neg(), suspense.Neg())
	if err != nil {
		return nil, err
	}
	kept, err := surplus.Sub(r.repriced)
	if err != nil {
		return nil, err
	}
	r.active, r.version = true, r.version+1
	r.debtSettled, r.debt = r.debt, money.Zero(r.amount.Asset())
	r.escrow, r.suspense, r.surplus = escrow, suspense, surplus
	wallet, dim := ledger.WalletOf(r.amount.Asset(), r.chain)
	return []ledger.Line{
		ledger.Debit(wallet, dim, r.amount),
		ledger.Credit(ledger.DueFromCustomer, "", r.debtSettled),
		ledger.Credit(ledger.Escrow, payroll, r.escrow),
		ledger.Credit(ledger.SuspenseLate, payroll, r.suspense),
		credit(ledger.CompanyFunds, "", kept),
		ledger.Credit(ledger.FXPosition, "", r.repriced),
	}, nil
}

// rebook changes how much of a posted deposit is in escrow and in suspense, and credits the rest to the company's
// balance.
func (r *receipt) rebook(payroll string, escrow, suspense money.Amount) ([]ledger.Line, error) {
	intoEscrow, err := escrow.Sub(r.escrow)
	if err != nil {
		return nil, err
	}
	intoSuspense, err := suspense.Sub(r.suspense)
	if err != nil {
		return nil, err
	}
	freed, err := intoEscrow.Add(intoSuspense)
	if err != nil {
		return nil, err
	}
	freed = freed.Neg()
	r.version++
	r.escrow, r.suspense = escrow, suspense
	r.surplus, err = r.surplus.Add(freed)
	return []ledger.Line{
		credit(ledger.Escrow, payroll, intoEscrow), credit(ledger.SuspenseLate, payroll, intoSuspense),
		credit(ledger.CompanyFunds, "", freed),
	}, err
}

// credit returns a line that adds an amount, which may be negative, to the balance of a liability account.
func credit(code ledger.Code, dim string, x money.Amount) ledger.Line {
	if x.Sign() < 0 {
		return ledger.Debit(code, dim, x.Neg())
	}
	return ledger.Credit(code, dim, x)
}

// reverse reverses the postings of a deposit that is no longer confirmed. released reports whether the escrow was
// released; available is the company's balance. The operator's gain on the deposit is returned first. The company
// owes the amount that neither escrow nor balance covers.
func (r *receipt) reverse(payroll string, released bool, available money.Amount) ([]ledger.Line, error) {
	none := money.Zero(r.amount.Asset())
	fromEscrow := r.escrow
	if released {
		fromEscrow = none
	}
	rest, err := money.Sum(r.amount.Asset(), r.amount, fromEscrow.Neg(), r.suspense.Neg())
	if err != nil {
		return nil, err
	}
	if available, err = available.Add(r.repriced); err != nil {
		return nil, err
	}
	fromFunds := smaller(rest, available)
	owed, err := rest.Sub(fromFunds)
	if err != nil {
		return nil, err
	}
	freed, err := r.repriced.Sub(fromFunds)
	if err != nil {
		return nil, err
	}
	wallet, dim := ledger.WalletOf(r.amount.Asset(), r.chain)
	lines := []ledger.Line{
		ledger.Debit(ledger.Escrow, payroll, fromEscrow),
		credit(ledger.CompanyFunds, "", freed),
		ledger.Debit(ledger.FXPosition, "", r.repriced),
		ledger.Debit(ledger.SuspenseLate, payroll, r.suspense),
		ledger.Debit(ledger.DueFromCustomer, "", owed),
		ledger.Credit(wallet, dim, r.amount),
	}
	r.active, r.version = false, r.version+1
	r.escrow, r.surplus, r.suspense, r.debtSettled, r.debt = none, none, none, none, owed
	return lines, nil
}

func smaller(x, y money.Amount) money.Amount {
	if x.Cmp(y) < 0 {
		return x
	}
	return y
}
