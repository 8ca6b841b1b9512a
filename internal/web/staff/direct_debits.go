package staff

import (
	"context"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/web/ui"
)

const debitsPath = ui.StaffPath + "/direct-debits"

type debitsPage struct {
	Mandates       []mandateRow
	Fields         []ui.Field
	Limits, Debits ui.Table
}

// mandateRow is a mandate that waits for a decision. Why is the reason of the bank for a suspension, or "".
type mandateRow struct {
	ID, CompanyID, Account, Why string
	Company, State              ui.Cell
}

// showDebits renders the mandates that wait for a decision, the risk limits, and the newest direct debits.
func showDebits(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	waiting, err := directdebit.Undecided(ctx, tx, backoffice.MostItems)
	if err != nil {
		return ui.View{}, err
	}
	var p debitsPage
	for _, m := range waiting {
		company, err := companyCell(ctx, tx, c, m.CompanyID)
		if err != nil {
			return ui.View{}, err
		}
		row := mandateRow{ID: m.ID, CompanyID: m.CompanyID, Account: m.Hint(), Company: company,
			State: c.StateCell("mandate.state", string(m.State))}
		if m.State == directdebit.MandateSuspended {
			row.Why = m.Reason
		}
		p.Mandates = append(p.Mandates, row)
	}
	for name, text := range map[string]string{"company_id": "operations.freeze.company",
		"currency": "destination.currency", "amount": "payment.amount"} {
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		c.Labels[name] = c.Text(text)
	}
	p.Fields = []ui.Field{
		c.Field(ui.Field{Name: "company_id", Label: c.Labels["company_id"], Required: true, MaxLength: 100}),
		c.Field(ui.Field{Name: "currency", Label: c.Labels["currency"], Type: "select",
			Options: []ui.Option{{Value: "EUR", Label: "EUR"}, {Value: "USD", Label: "USD"}}}),
		c.Field(ui.Field{Name: "amount", Label: c.Labels["amount"], Required: true, MaxLength: 40}),
	}
	limits, err := directdebit.Limits(ctx, tx, backoffice.MostItems)
	if err != nil {
		return ui.View{}, err
	}
	p.Limits = ui.Table{Caption: c.Text("operations.debits.limits"), Empty: c.Empty("operations.debits.unlimited"),
		Heads: c.Columns("operations.company|a", "operations.debits.limit#|b", "operations.debits.used#|l")}
	for _, l := range limits {
		company, err := companyCell(ctx, tx, c, l.CompanyID)
		if err != nil {
			return ui.View{}, err
		}
		p.Limits.Rows = append(p.Limits.Rows, []ui.Cell{company, c.AmountCell(l.Limit), c.AmountCell(l.Used)})
	}
	all, err := directdebit.Recent(ctx, tx, backoffice.MostItems)
	p.Debits = ui.Table{Caption: c.Text("operations.debits.recent"), Empty: c.Empty("operations.empty"), Heads: c.Columns(
		"debit.id|a", "operations.company|e", "payroll.status|c", "debit.due|d", "debit.available#|hide",
		"payment.amount#|b")}
	for _, d := range all {
		state := c.StateCell("debit.state", string(d.State))
		if d.Reason != "" {
			state.Lines = []ui.Cell{{Text: d.Reason}}
		}
		object := ui.CodeCell(d.ID)
		if reference := d.Reference(); reference != "" {
			object.Lines = []ui.Cell{ui.CodeCell(reference)}
		}
		company, err := companyCell(ctx, tx, c, d.CompanyID)
		if err != nil {
			return ui.View{}, err
		}
		p.Debits.Rows = append(p.Debits.Rows, []ui.Cell{object, company, state, {Text: d.DueOn},
			c.AmountCell(d.Released), c.AmountCell(d.Amount)})
	}
	return ui.View{Template: "operations_debits", Title: c.Text("operations.debits.title"),
		Lead: c.Text("operations.debits.lead"), Data: p}, err
}

// decideMandate confirms or refuses a mandate.
func decideMandate(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	err := c.Backoffice.DecideMandate(ctx, tx, *c.Staff, c.Form.Get("company_id"), c.HTTP.PathValue("id"),
		c.Form.Get("answer") == "yes", c.Form.Get("reason"))
	return ui.View{Redirect: debitsPath}, ui.FormConflict(err)
}

// setDebitLimit sets the risk limit of a company.
func setDebitLimit(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	err := c.Backoffice.SetDebitLimit(ctx, tx, *c.Staff, c.Form.Get("company_id"), c.Form.Get("currency"),
		c.PlainAmount(c.Form.Get("amount"), money.Asset(c.Form.Get("currency"))), c.Form.Get("reason"))
	return ui.View{Redirect: debitsPath}, ui.FormConflict(err)
}
