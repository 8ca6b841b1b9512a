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
		Position: ui.Table{Caption: c.Text("position.title"), Empty: c.Empty("operations.empty"),
			Heads: c.Columns("wallet.currency|a", "position.at_hand#|b", "position.worth#|d", "position.limits|e",
				"position.todo|c")},
		Waiting: ui.Table{Caption: c.Text("position.waiting"), Empty: c.Empty("operations.empty"),
			Heads: c.Columns("operations.object|a", "operations.company|e", "operations.count#|b")},
	}
	line := func(to *ui.Cell, key string, x money.Amount) {
		if x.Asset() != "" && x.Sign() != 0 {
			to.Lines = append(to.Lines, ui.Cell{Text: c.Text("list.pair", c.Text(key), c.FormatMoney(x))})
		}
	}
	for _, a := range report.Positions {
		available, limits, todo := c.AmountCell(a.Available), ui.Cell{}, ui.Cell{}
		line(&available, "position.away", a.AtExchanges)
		if a.Bounded {
			line(&limits, "position.least", a.Least)
		}
		line(&limits, "position.upper", a.Upper)
		line(&limits, "position.most", a.Most)
		line(&limits, "position.room", a.Capacity)
		switch {
		case a.Bounded && a.Hedge.Sign() > 0:
			todo = ui.Cell{Text: c.Text("position.bring", c.FormatMoney(a.Hedge)), Warn: true}
		case a.Bounded && a.Hedge.Sign() < 0:
			todo = ui.Cell{Text: c.Text("position.sell", c.FormatMoney(a.Hedge.Neg())), Warn: true}
		}
		worth := ui.Cell{Text: "–", Kind: "number"}
		if a.Value.Asset() != "" {
			worth = c.AmountCell(a.Value)
		}
		p.Position.Rows = append(p.Position.Rows, []ui.Cell{
			{Text: string(a.Asset), Kind: "strong"}, available, worth, limits, todo})
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
