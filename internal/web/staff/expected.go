package staff

import (
	"context"
	"maps"
	"slices"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/web/ui"
)

// showExpected renders the bank payments that are expected and have not arrived, or arrived unexpectedly, by age.
func showExpected(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	all, err := backoffice.OpenPayments(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	heads := []string{"expected.direction|a"}
	for i := range backoffice.AgeLimits {
		heads = append(heads, "expected.age."+string(rune('0'+i))+"#|l")
	}
	sums := ui.Table{Caption: c.Text("expected.sums"), Empty: c.EmptyStep("circle-check", "expected.none", false, "", ""),
		Heads: c.Columns(append(heads, "expected.age.older#|l", "expected.total#|b")...)}
	tables := []ui.Table{sums}
	for _, direction := range []string{backoffice.Incoming, backoffice.Debits, backoffice.Reversals, backoffice.Outgoing,
		backoffice.Unmatched} {
		name := c.Word("expected", direction)
		t := ui.Table{Caption: name, Heads: c.Columns("operations.object|a",
			"operations.company|e", "expected.due#|l", "expected.arrived#|l", "expected.open#|b", "expected.since|c")}
		totals := map[money.Asset][]money.Amount{}
		for _, p := range all {
			if p.Direction != direction {
				continue
			}
			if err := addTo(totals, p); err != nil {
				return ui.View{}, err
			}
			if len(t.Rows) < backoffice.MostItems {
				t.Rows = append(t.Rows, []ui.Cell{ui.CodeCell(p.ObjectID), ui.CodeCell(p.CompanyID),
					c.AmountCell(p.Expected), c.AmountCell(p.Arrived), c.AmountCell(p.Open), c.TimeCell(p.Since)})
			}
		}
		for _, asset := range slices.Sorted(maps.Keys(totals)) {
			row := []ui.Cell{{Text: name}}
			for i, sum := range totals[asset] {
				cell := c.AmountCell(sum)
				cell.Warn = i >= len(backoffice.AgeLimits)-1 && i <= len(backoffice.AgeLimits) && !sum.IsZero()
				row = append(row, cell)
			}
			tables[0].Rows = append(tables[0].Rows, row)
		}
		if len(t.Rows) > 0 {
			tables = append(tables, t)
		}
	}
	return ui.View{Template: "expected", Title: c.Text("expected.title"), Data: tables}, nil
}

// addTo adds an open payment to the sum of its age group and to the total, by currency.
func addTo(totals map[money.Asset][]money.Amount, p backoffice.OpenPayment) (err error) {
	asset := p.Open.Asset()
	if totals[asset] == nil {
		totals[asset] = slices.Repeat([]money.Amount{money.Zero(asset)}, len(backoffice.AgeLimits)+2)
	}
	for _, i := range []int{p.Age, len(backoffice.AgeLimits) + 1} {
		if totals[asset][i], err = totals[asset][i].Add(p.Open); err != nil {
			return err
		}
	}
	return nil
}
