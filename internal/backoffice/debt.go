package backoffice

import (
	"context"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payroll"
)

// WriteOff gives up what a company owes. It costs the house money, so it takes two whatever the amount.
const WriteOff = "debt.write_off"

var (
	errLessOwed = apierr.New(apierr.Conflict, "invalid_state", "Less is owed than this, or nothing. Drop what is asked for, and ask again.")
	errWriteOff = apierr.New(apierr.Invalid, "invalid_parameter", "This is no amount of the currency that is owed, above 0.")
)

// AskWriteOff asks for a debt to be written off (L33): all that is owed now, or an amount of it. Both see and agree to that one amount.
func (s *Service) AskWriteOff(ctx context.Context, tx *db.Tx, by Session, companyID, debtID, amount, reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	r := Request{Action: WriteOff, CompanyID: strings.TrimSpace(companyID), ObjectID: strings.TrimSpace(debtID), Target: strings.TrimSpace(amount), Reason: reason}
	_, x, err := r.debt(ctx, tx)
	if err != nil {
		return err
	}
	r.Target = x.String() + " " + string(x.Asset())
	return request(ctx, tx, by, r)
}

// debt is what the company of a request owes, and how much of it is to be written off.
func (r Request) debt(ctx context.Context, tx *db.Tx) (d ledger.Debt, x money.Amount, err error) {
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

// writeOff does what is asked with a debt.
func (r Request) writeOff(ctx context.Context, tx *db.Tx) error {
	d, x, err := r.debt(ctx, tx)
	if err != nil {
		return err
	}
	return payroll.WriteOff(ctx, tx, d, r.ID, x)
}
