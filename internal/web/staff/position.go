package staff

import (
	"context"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/web/ui"
)

// showPosition renders the treasury report: the operator's own balance of each asset, and the assets to buy or
// sell.
func showPosition(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	report, err := c.Payroll.Treasury.Report(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	waiting, err := payroll.WaitingForConversion(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	p := struct {
		Result            string
		Unpriced          string
		Position, Waiting ui.Table
	}{
		Result: c.FormatMoney(report.Result),
		Position: ui.Table{Caption: c.Text("position.title"), Empty: c.Text("operations.empty"),
			Heads: c.Columns("wallet.currency", "position.at_hand#", "position.away#", "position.worth#",
				"position.least#", "position.upper#", "position.most#", "position.room#", "position.todo")},
		Waiting: ui.Table{Caption: c.Text("position.waiting"), Empty: c.Text("operations.empty"),
			Heads: c.Columns("operations.object", "operations.company", "operations.count#")},
	}
	maybe := func(x money.Amount) ui.Cell {
		if x.Asset() == "" || x.Sign() == 0 {
			return ui.Cell{Text: "–", Kind: "number"}
		}
		return c.AmountCell(x)
	}
	for _, a := range report.Positions {
		least, todo := a.Least, ui.Cell{Text: "–"}
		switch {
		case !a.Bounded:
			least = money.Amount{}
		case a.Hedge.Sign() > 0:
			todo = ui.Cell{Text: c.Text("position.bring", c.FormatMoney(a.Hedge)), Warn: true}
		case a.Hedge.Sign() < 0:
			todo = ui.Cell{Text: c.Text("position.sell", c.FormatMoney(a.Hedge.Neg())), Warn: true}
		}
		p.Position.Rows = append(p.Position.Rows, []ui.Cell{
			{Text: string(a.Asset)}, c.AmountCell(a.Available), maybe(a.AtExchanges), maybe(a.Value), maybe(least),
			maybe(a.Upper),
			maybe(a.Most), maybe(a.Capacity), todo})
	}
	var unpriced []string
	for _, a := range report.Unpriced {
		unpriced = append(unpriced, string(a))
	}
	p.Unpriced = strings.Join(unpriced, ", ")
	for _, t := range waiting {
		p.Waiting.Rows = append(p.Waiting.Rows, []ui.Cell{
			ui.CodeCell(t.PayrollID), ui.CodeCell(t.CompanyID), {Text: c.FormatCount(t.Payments), Kind: "number"}})
	}
	return ui.View{Template: "position", Title: c.Text("position.title"), Data: p}, nil
}
