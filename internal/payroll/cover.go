package payroll

import (
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// This file decides where received money is booked. It reads nothing and writes nothing. What
// the money covers is for quote.Coverage to say.

// receipt is what was booked for one deposit. While it is live, amount = escrow + surplus
// + suspense + repaid; once reversed, all four are nothing and owed is what could not be
// taken back from where it had gone.
type receipt struct {
	deposit string
	chain   string     // on which it came
	price   string     // id of the quote, or of the deposit itself when it was applied late
	rate    money.Rate // funding asset in the payroll's currency; zero while in suspense
	live    bool
	turn    int64 // bookings and reversals so far
	late    bool

	amount   money.Amount
	escrow   money.Amount // earmarked for the payroll
	surplus  money.Amount // the company's balance
	suspense money.Amount // late, waiting for a decision
	repaid   money.Amount // settled what an earlier reversal left owed
	owed     money.Amount // due from the company after a reversal
}

// cover adds the live escrow of receipts up by price.
func cover(total money.Amount, asset money.Asset, receipts []receipt) (quote.Coverage, error) {
	c := quote.Cover(total, asset)
	for _, r := range receipts {
		if r.live && !r.escrow.IsZero() {
			if err := c.Add(r.price, r.rate, r.escrow); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// newReceipt is the blank of a deposit.
func newReceipt(deposit, chain string, amount money.Amount) receipt {
	none := money.Zero(amount.Asset())
	return receipt{deposit: deposit, chain: chain, amount: amount, escrow: none, surplus: none, suspense: none, repaid: none, owed: none}
}

// book decides where a confirmed deposit goes and gives the journal's lines. What an
// earlier reversal left owed is settled first. Then, while the payroll is open, room is
// what it may still take (a late deposit goes to suspense whole), and the rest is the
// company's.
func (r *receipt) book(payroll string, open bool, room money.Amount) ([]ledger.Line, error) {
	r.live, r.turn = true, r.turn+1
	none := money.Zero(r.amount.Asset())
	r.repaid, r.owed = r.owed, none
	rest, err := r.amount.Sub(r.repaid)
	if err != nil {
		return nil, err
	}
	switch {
	case !open:
		r.escrow, r.suspense = none, none
	case r.late:
		r.escrow, r.suspense = none, rest
	default:
		r.escrow, r.suspense = smaller(room, rest), none
	}
	if rest, err = rest.Sub(r.escrow); err != nil {
		return nil, err
	}
	if r.surplus, err = rest.Sub(r.suspense); err != nil {
		return nil, err
	}
	wallet, dim := ledger.WalletOf(r.amount.Asset(), r.chain)
	return []ledger.Line{
		ledger.Debit(wallet, dim, r.amount),
		ledger.Credit(ledger.DueFromCustomer, "", r.repaid),
		ledger.Credit(ledger.Escrow, payroll, r.escrow),
		ledger.Credit(ledger.SuspenseLate, payroll, r.suspense),
		ledger.Credit(ledger.CompanyFunds, "", r.surplus),
	}, nil
}

// apply takes a late deposit out of suspense at a rate: as much as there is room for into
// escrow, the rest to the company.
func (r *receipt) apply(payroll string, rate money.Rate, room money.Amount) ([]ledger.Line, error) {
	moved := r.suspense
	take := smaller(room, moved)
	rest, err := moved.Sub(take)
	if err != nil {
		return nil, err
	}
	if r.surplus, err = r.surplus.Add(rest); err != nil {
		return nil, err
	}
	r.price, r.rate, r.turn = r.deposit, rate, r.turn+1
	r.escrow, r.suspense = take, money.Zero(moved.Asset())
	return []ledger.Line{
		ledger.Debit(ledger.SuspenseLate, payroll, moved),
		ledger.Credit(ledger.Escrow, payroll, take),
		ledger.Credit(ledger.CompanyFunds, "", rest),
	}, nil
}

// free gives escrow and suspense of a cancelled payroll to the company.
func (r *receipt) free(payroll string) ([]ledger.Line, error) {
	freed, err := r.escrow.Add(r.suspense)
	if err != nil {
		return nil, err
	}
	lines := []ledger.Line{
		ledger.Debit(ledger.Escrow, payroll, r.escrow),
		ledger.Debit(ledger.SuspenseLate, payroll, r.suspense),
		ledger.Credit(ledger.CompanyFunds, "", freed),
	}
	none := money.Zero(freed.Asset())
	r.escrow, r.suspense, r.turn = none, none, r.turn+1
	r.surplus, err = r.surplus.Add(freed)
	return lines, err
}

// reverse undoes the booking of a deposit that is not confirmed any more. divided says
// that escrow has been released, available is the company's balance, wherever that came from:
// what cannot be taken back from either, the company owes.
func (r *receipt) reverse(payroll string, divided bool, available money.Amount) ([]ledger.Line, error) {
	none := money.Zero(r.amount.Asset())
	fromEscrow := r.escrow
	if divided {
		fromEscrow = none
	}
	rest, err := r.amount.Sub(fromEscrow)
	if err != nil {
		return nil, err
	}
	if rest, err = rest.Sub(r.suspense); err != nil {
		return nil, err
	}
	fromFunds := smaller(rest, available)
	owed, err := rest.Sub(fromFunds)
	if err != nil {
		return nil, err
	}
	wallet, dim := ledger.WalletOf(r.amount.Asset(), r.chain)
	lines := []ledger.Line{
		ledger.Debit(ledger.Escrow, payroll, fromEscrow),
		ledger.Debit(ledger.CompanyFunds, "", fromFunds),
		ledger.Debit(ledger.SuspenseLate, payroll, r.suspense),
		ledger.Debit(ledger.DueFromCustomer, "", owed),
		ledger.Credit(wallet, dim, r.amount),
	}
	r.live, r.turn = false, r.turn+1
	r.escrow, r.surplus, r.suspense, r.repaid, r.owed = none, none, none, none, owed
	return lines, nil
}

func smaller(x, y money.Amount) money.Amount {
	if x.Cmp(y) < 0 {
		return x
	}
	return y
}
