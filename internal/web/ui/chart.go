package ui

import (
	"context"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Chart is a series of values, shown as an SVG picture and as a table.
type Chart struct {
	Title      string
	When, What string // When and What are the column headings of the table.
	TableLabel string // label of the link to the table
	Points     []Point
	// bars instead of a line
	Bars bool
}

// Point is one value of a chart, with its labels.
type Point struct {
	Label, Text string
	Value       int64
}

// The size of the SVG view box.
const (
	chartWidth  = 640
	chartHeight = 160
)

// Drawable reports whether there are enough values for a chart.
func (ch Chart) Drawable() bool { return len(ch.Points) > 1 }

// SVG returns the chart as SVG: bars, or a line that changes in steps.
func (ch Chart) SVG() template.HTML {
	most := int64(1)
	for _, p := range ch.Points {
		most = max(most, p.Value)
	}
	height := func(v int64) int { return int(float64(max(v, 0)) / float64(most) * (chartHeight - 4)) }
	step := float64(chartWidth) / float64(len(ch.Points))
	var b strings.Builder
	for i, p := range ch.Points {
		x, y := float64(i)*step, chartHeight-height(p.Value)
		switch {
		case ch.Bars:
			fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="%.1f" height="%d"/>`, x+step*0.1, y, step*0.8, chartHeight-y)
		case i == 0:
			fmt.Fprintf(&b, `<path d="M0 %d H%.1f`, y, step)
		default:
			fmt.Fprintf(&b, ` V%d H%.1f`, y, x+step)
		}
	}
	if !ch.Bars && len(ch.Points) > 0 {
		b.WriteString(`"/>`)
	}
	kind := "line"
	if ch.Bars {
		kind = "bars"
	}
	return template.HTML(fmt.Sprintf( //nolint:gosec // numbers only
		`<svg class="chart %s" viewBox="0 0 %d %d" preserveAspectRatio="none" aria-hidden="true" focusable="false">%s</svg>`,
		kind, chartWidth, chartHeight, b.String()))
}

// Table returns the values as a table.
func (ch Chart) Table() Table {
	t := Table{Caption: ch.Title, Heads: []Column{{Text: ch.When}, {Text: ch.What, Number: true}}}
	for _, p := range ch.Points {
		t.Rows = append(t.Rows, []Cell{{Text: p.Label}, {Text: p.Text, Kind: "number"}})
	}
	return t
}

// chartMonths is the number of months that the chart of paid amounts shows.
const chartMonths = 12

// PaidCharts returns a chart of the amounts paid per month for each currency.
func (c *Request) PaidCharts(ctx context.Context, tx *db.Tx) ([]Chart, error) {
	now := tx.Now().UTC()
	first := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC).AddDate(0, 1-chartMonths, 0)
	days, err := c.Payroll.PaidByDay(ctx, tx, c.Session.Principal(), first)
	if err != nil {
		return nil, err
	}
	var order []money.Asset
	sums := map[money.Asset][]money.Amount{}
	for _, d := range days {
		a := d.Volume.Asset()
		if sums[a] == nil {
			order = append(order, a)
			sums[a] = make([]money.Amount, chartMonths)
			for i := range sums[a] {
				sums[a][i] = money.Zero(a)
			}
		}
		month := (d.Day.Year()-first.Year())*12 + int(d.Day.Month()) - int(first.Month())
		if sums[a][month], err = sums[a][month].Add(d.Volume); err != nil {
			return nil, err
		}
	}
	months := strings.Fields(c.Text("time.months"))
	var all []Chart
	for _, a := range order {
		ch := Chart{Title: c.Text("overview.chart", string(a)), When: c.Text("overview.month"), What: c.Text("overview.paid"),
			TableLabel: c.Text("chart.figures"), Bars: true}
		for i, sum := range sums[a] {
			at := first.AddDate(0, i, 0)
			ch.Points = append(ch.Points, Point{Label: fmt.Sprintf("%s %d", months[at.Month()-1], at.Year()), Value: sum.Units(),
				Text: c.FormatMoney(sum)})
		}
		all = append(all, ch)
	}
	return all, nil
}
