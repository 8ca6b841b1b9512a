package income

import (
	"context"
	"strconv"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
)

// notify mails the person about an income that arrived, waits, was paid or was returned. It mails only people with an
// account of their own; for other users, the company that created the user gets events. The mail about a payment is
// sent once, even if a reorganization removes the payment and a later block confirms it again.
func (i *Income) notify(ctx context.Context, tx *db.Tx, outputs []payout.Output) error {
	if i.State == payroll.OnHold && i.Reason == payroll.ReasonAnswer {
		return nil // it continues within minutes
	}
	d := mail.IncomeUpdateData{Amount: i.Amount.String() + " " + string(i.Amount.Asset()), Reference: i.ID}
	key := i.ID + "/" + strconv.FormatInt(i.Version, 10)
	switch i.State {
	case payroll.Received:
		d.Change = mail.IncomeArrived
	case payroll.ActionRequired, payroll.OnHold:
		d.Change = mail.IncomeWaits
		switch {
		case i.Reason == ReasonVerification, i.Reason == payroll.ReasonNoDestination,
			i.Reason == payroll.ReasonCoolDown:
			d.Reason = i.Reason
		case i.State == payroll.ActionRequired, i.Reason == payroll.ReasonCheck: // the person must confirm the account
			d.Reason = mail.WaitsForAction
		}
	case payroll.Fulfilled:
		d.Change, d.Arrived, key = mail.IncomePaid, payroll.Arrivals(outputs), i.ID+"/paid"
	case payroll.Returned:
		d.Change = mail.IncomeReturned
	default:
		return nil
	}
	u, err := identity.GetUser(ctx, tx, nil, i.UserID)
	if err != nil || u.CompanyID != "" || !mail.Valid(u.Email) {
		return err
	}
	d.Name = u.Name()
	return mail.Enqueue(ctx, tx, mail.Message{
		To: u.Email, Template: mail.IncomeUpdate, Language: mail.LanguageOf(u.Country), Key: key, Data: d,
	})
}
