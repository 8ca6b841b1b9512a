package staff

import (
	"context"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/web/ui"
)

// reversalPage shows the reversals of ACH payments, and a form to request one.
type reversalPage struct {
	Acts   bool
	Fields []ui.Field
	Items  ui.Table
}

// showReversals renders the reversals of ACH payments.
func showReversals(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	all, err := bank.Reversals(ctx, tx, backoffice.MostItems)
	if err != nil {
		return ui.View{}, err
	}
	p := reversalPage{Acts: c.Staff.MayAct(c.Time), Items: ui.Table{Caption: c.Text("reversals.title"),
		Empty: c.EmptyStep("undo-2", "reversals.none", false, "", ""),
		Heads: c.Columns("operations.since|d", "reversals.payment|a", "operations.company|e",
			"payment.amount#|b", "reversals.kind|e", "reversals.state|c")}}
	for _, v := range all {
		state := c.StateCell("reversals.state", v.State)
		if v.Code != "" {
			state.Lines = []ui.Cell{ui.CodeCell(v.Code)}
		}
		company, err := companyCell(ctx, tx, c, v.CompanyID)
		if err != nil {
			return ui.View{}, err
		}
		p.Items.Rows = append(p.Items.Rows, []ui.Cell{c.TimeCell(v.At), ui.CodeCell(v.Payment), company,
			c.AmountCell(v.Amount), {Text: c.Word("reversals.kind", v.Reason)}, state})
	}
	var kinds []ui.Option
	for _, kind := range bank.ReversalReasons {
		kinds = append(kinds, ui.Option{Value: kind, Label: c.Word("reversals.kind", kind)})
	}
	p.Fields = []ui.Field{
		c.Field(ui.Field{Name: "payment", Label: c.Text("reversals.payment"), Required: true, MaxLength: 20}),
		c.Field(ui.Field{Name: "kind", Label: c.Text("reversals.kind"), Type: "select", Options: kinds}),
		c.Field(ui.Field{Name: "reason", Label: c.Text("operations.reason"), Required: true, MaxLength: 500}),
	}
	return ui.View{Template: "reversals", Title: c.Text("reversals.title"), Lead: c.Text("reversals.lead"),
		Data: p}, nil
}

// requestReversal requests the reversal of an ACH payment.
func requestReversal(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	err := c.Backoffice.RequestReversal(ctx, tx, *c.Staff, c.Form.Get("payment"), c.Form.Get("kind"),
		c.Form.Get("reason"))
	return ui.View{Redirect: ui.StaffPath + "/reversals"}, ui.FormConflict(err)
}
