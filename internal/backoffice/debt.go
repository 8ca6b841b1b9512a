package backoffice

import (
	"context"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payroll"
)

// WriteOff is the action of writing off a company's debt. It needs two members of staff for any amount, because the
// operator bears the cost.
const WriteOff = "debt.write_off"

var (
	errLessOwed = apierr.New(apierr.Conflict, "invalid_state",
		"The debt is smaller than this amount. Cancel the pending request and create a new one.")
	errWriteOff = apierr.New(apierr.Invalid, "invalid_parameter", "Enter an amount greater than 0 in the debt's currency.")
)

// RequestWriteOff requests that a company's debt is written off: all of it, or the given part. The second member of
// staff approves that amount.
func (s *Service) RequestWriteOff(ctx context.Context, tx *db.Tx, by Session, companyID, debtID, amount,
	reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	r := approval.Request{
		Action: WriteOff, CompanyID: strings.TrimSpace(companyID), ObjectID: strings.TrimSpace(debtID),
		Target: strings.TrimSpace(amount), Reason: reason,
	}
	_, x, err := debtOf(ctx, tx, r)
	if err != nil {
		return err
	}
	r.Target = x.String() + " " + string(x.Asset())
	return request(ctx, tx, by, r)
}

// debtOf returns the debt that a request concerns, and the amount to write off.
func debtOf(ctx context.Context, tx *db.Tx, r approval.Request) (d ledger.Debt, x money.Amount, err error) {
	if d, err = ledger.DebtOf(ctx, tx, r.CompanyID, r.ObjectID); err != nil {
		return d, x, err
	}
	if d.Amount.Sign() <= 0 {
		return d, x, errLessOwed
	}
	x = d.Amount
	if text, _, _ := strings.Cut(r.Target, " "); text != "" {
		if x, err = money.Parse(d.Amount.Asset(), text); err != nil || x.Sign() <= 0 {
			return d, x, errWriteOff
		}
	}
	if x.Cmp(d.Amount) > 0 {
		return d, x, errLessOwed
	}
	return d, x, nil
}

// writeOff performs an approved request to write off a debt.
func writeOff(ctx context.Context, tx *db.Tx, r approval.Request) error {
	d, x, err := debtOf(ctx, tx, r)
	if err != nil {
		return err
	}
	return payroll.WriteOff(ctx, tx, d, r.ID, x)
}
