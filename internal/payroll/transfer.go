package payroll

import (
	"context"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank"
)

// Transfer has the details that a payer needs for a bank transfer.
type Transfer struct {
	To        bank.Account
	Amount    money.Amount // the amount still due
	Reference string       // the payroll's or object's ID as upper-case letters and digits, which every bank transmits
}

// Transfer returns the bank transfer that funds a payroll. ok is false if the payroll is not funded by bank transfer.
func (s *Service) Transfer(p *Payroll) (t Transfer, ok bool, err error) {
	if p.FundingMethod != MethodBank {
		return t, false, nil
	}
	if t, ok = s.TransferTo(p.ID, p.FundingCurrency); !ok {
		return t, false, nil
	}
	t.Amount, err = p.Total.Sub(p.Escrow)
	return t, true, err
}

// TransferTo returns the details of a bank transfer to the operator's account for an object, such as a company's
// balance. Amount is not set: the payer chooses it.
func (s *Service) TransferTo(id string, a money.Asset) (t Transfer, ok bool) {
	t.To, ok = receiving(s.Banks, a)
	t.Reference = strings.ToUpper(strings.ReplaceAll(id, "_", ""))
	return t, ok
}

// receiving returns the operator's first bank account in a currency.
func receiving(banks []bank.Account, a money.Asset) (bank.Account, bool) {
	i := slices.IndexFunc(banks, func(b bank.Account) bool { return b.Currency == a })
	if i < 0 {
		return bank.Account{}, false
	}
	return banks[i], true
}

// FromOutside reports whether a payroll is funded by incoming coins or a bank transfer, and not from a balance.
func (p *Payroll) FromOutside() bool {
	return p.FundingMethod == MethodCrypto || p.FundingMethod == MethodBank
}

// TakesTransfer reports whether a company's payroll is funded by bank transfer in this currency. The state of the
// payroll does not matter: money for a payroll that no longer waits is credited to the company's balance.
func TakesTransfer(ctx context.Context, tx *db.Tx, companyID, payrollID string, a money.Asset) (bool, error) {
	p, err := find(ctx, tx, companyID, payrollID)
	if err != nil {
		return false, err
	}
	return p.FundingMethod == MethodBank && p.FundingCurrency == a, nil
}

// TakesCoins reports whether a company's payroll waits for funding in a crypto asset.
func TakesCoins(ctx context.Context, tx *db.Tx, companyID, payrollID string, a money.Asset) (bool, error) {
	p, err := find(ctx, tx, companyID, payrollID)
	if err != nil {
		return false, err
	}
	return p.FundingMethod == MethodCrypto && p.FundingCurrency == a && p.State == Pending, nil
}

// AwaitsTransfer returns the ID of the company's payroll that waits for a bank transfer of exactly this amount, or ""
// if there is none or more than one.
func AwaitsTransfer(ctx context.Context, tx *db.Tx, companyID string, amount money.Amount) (id string, err error) {
	ids, err := dueByBank(ctx, tx, companyID, amount)
	if err != nil || len(ids) != 1 {
		return "", err
	}
	return ids[0], nil
}
