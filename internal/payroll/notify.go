package payroll

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
)

// notifyPayees sends a mail to each payee whose payment was fulfilled or returned and whose email address is known.
// The mail about a fulfilled payment is sent once, even if a reorganization removes the transaction and a later block
// confirms it again.
func (p *Payroll) notifyPayees(ctx context.Context, tx *db.Tx, changed []*Payment,
	outputs map[string][]payout.Output) error {
	var ids []string
	for _, m := range changed {
		if m.State == Fulfilled || m.State == Returned {
			ids = append(ids, m.PayeeID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	payees, err := payee.Payees(ctx, tx, p.CompanyID, ids)
	if err != nil {
		return err
	}
	company, err := identity.CompanyByID(ctx, tx, p.CompanyID)
	if err != nil {
		return err
	}
	for _, m := range changed {
		to := payees[m.PayeeID]
		if !mail.Valid(to.Email) {
			continue
		}
		letter := mail.Message{CompanyID: p.CompanyID, To: to.Email, Language: mail.LanguageOf(to.Country)}
		amount := m.Amount.String() + " " + string(m.Amount.Asset())
		switch m.State {
		case Fulfilled:
			letter.Template, letter.Key = mail.PaymentSent, m.ID
			letter.Data = mail.PaymentSentData{
				Name: to.Name, Company: company.Name, Amount: amount, Description: m.Description, Reference: m.ID,
				Arrived: Arrivals(outputs[m.ID]),
			}
		case Returned:
			letter.Template, letter.Key = mail.PaymentReturned, m.ID+"/"+strconv.FormatInt(m.Version, 10)
			letter.Data = mail.PaymentReturnedData{Name: to.Name, Company: company.Name, Amount: amount,
				Reference: m.ID}
		default:
			continue
		}
		if err := mail.Enqueue(ctx, tx, letter); err != nil {
			return err
		}
	}
	return nil
}

// Arrivals returns a text for each output with its amount and destination, such as "0.00123000 BTC (bc1q9h…k3d2)".
func Arrivals(outputs []payout.Output) []string {
	lines := make([]string, 0, len(outputs))
	for _, o := range outputs {
		var to destination.Destination
		line := o.Amount.String() + " " + string(o.Amount.Asset())
		if json.Unmarshal(o.Destination, &to) == nil && to.Hint() != "" {
			line += " (" + to.Hint() + ")"
		}
		lines = append(lines, line)
	}
	return lines
}
