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
	Total      string // the sum or the last value; "" for none
	// bars instead of a line
	Bars bool
}

// Point is one value of a chart, with its labels.
type Point struct {
	Label, Text string
	Value       int64
}

// Drawable reports whether there are enough values for a chart.
func (ch Chart) Drawable() bool { return len(ch.Points) > 1 }

// HTML returns the chart as bars, or as a line that changes in steps. Labels are HTML, so that they keep their size.
func (ch Chart) HTML() template.HTML {
	most, highest := int64(1), ""
	for _, p := range ch.Points {
		if p.Value >= most {
			most, highest = p.Value, p.Text
		}
	}
	height := func(v int64) float64 { return float64(max(v, 0)) / float64(most) * 100 }
	step := 100 / float64(max(len(ch.Points), 1))
	var b, labels, line, area strings.Builder
	for i, p := range ch.Points {
		x, y := float64(i)*step, 100-height(p.Value)
		text := template.HTMLEscapeString(p.Label + ": " + p.Text)
		if ch.Bars {
			class := ""
			if i == len(ch.Points)-1 {
				class = ` class="now"`
			}
			fmt.Fprintf(&b, `<g%s><title>%s</title><rect class="b1" x="%.2f" y="%.2f" width="%.2f" height="%.2f"/></g>`, class,
				text, x+step*0.24, y, step*0.52, 100-y)
			label, _, _ := strings.Cut(p.Label, " ")
			labels.WriteString("<span>" + template.HTMLEscapeString(label) + "</span>")
			continue
		}
		if i == 0 {
			fmt.Fprintf(&line, "M0 %.2f", y)
			area.WriteString("M0 100")
		}
		fmt.Fprintf(&line, "V%.2fH%.2f", y, x+step)
		fmt.Fprintf(&area, "V%.2fH%.2f", y, x+step)
	}
	if !ch.Bars && len(ch.Points) > 0 {
		fmt.Fprintf(&b, `<path class="ar" d="%sV100Z"/><path class="ln" d="%s"/>`, area.String(), line.String())
		for _, i := range []int{0, len(ch.Points) - 1} {
			labels.WriteString("<span>" + template.HTMLEscapeString(ch.Points[i].Label) + "</span>")
		}
	}
	return template.HTML(fmt.Sprintf( //nolint:gosec // numbers and escaped labels
		`<div class="chart"><div class="y" aria-hidden="true"><span>%s</span><span>0</span></div>`+
			`<svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true" focusable="false">`+
			`<line class="gl" x1="0" x2="100" y1="0" y2="0"/><line class="gl" x1="0" x2="100" y1="50" y2="50"/>`+
			`<line class="base" x1="0" x2="100" y1="100" y2="100"/>%s</svg><div class="x" aria-hidden="true">%s</div></div>`,
		template.HTMLEscapeString(highest), b.String(), labels.String()))
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

// ChartStart returns the beginning of the first month that charts of months show.
func ChartStart(now time.Time) time.Time {
	now = now.UTC()
	return time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC).AddDate(0, 1-chartMonths, 0)
}

// DayAmount is the sum of one day in one currency.
type DayAmount struct {
	Day    time.Time
	Amount money.Amount
}

// PaidCharts returns a chart of the amounts paid per month for each currency.
func (c *Request) PaidCharts(ctx context.Context, tx *db.Tx) ([]Chart, error) {
	days, err := c.Payroll.PaidByDay(ctx, tx, c.Session.Principal(), ChartStart(tx.Now()))
	if err != nil {
		return nil, err
	}
	amounts := make([]DayAmount, len(days))
	for i, d := range days {
		amounts[i] = DayAmount{d.Day, d.Volume}
	}
	return c.MonthCharts(tx.Now(), "overview.chart", "overview.paid", amounts)
}

// MonthCharts returns a chart of the sums per month for each currency. The keys are those of the title, which names
// the currency, and of the values.
func (c *Request) MonthCharts(now time.Time, title, what string, days []DayAmount) ([]Chart, error) {
	first := ChartStart(now)
	var order []money.Asset
	sums := map[money.Asset][]money.Amount{}
	for _, d := range days {
		a := d.Amount.Asset()
		if sums[a] == nil {
			order = append(order, a)
			sums[a] = make([]money.Amount, chartMonths)
			for i := range sums[a] {
				sums[a][i] = money.Zero(a)
			}
		}
		month := (d.Day.Year()-first.Year())*12 + int(d.Day.Month()) - int(first.Month())
		var err error
		if sums[a][month], err = sums[a][month].Add(d.Amount); err != nil {
			return nil, err
		}
	}
	months := strings.Fields(c.Text("time.months"))
	var all []Chart
	for _, a := range order {
		ch := Chart{Title: c.Text(title, string(a)), When: c.Text("overview.month"), What: c.Text(what),
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

// Progress is a bar of segments with a legend.
type Progress struct {
	Label    string // for screen readers
	Text     string
	Segments []Segment
}

// Segment is a part of a progress bar. Start and Width are percentages.
type Segment struct {
	Kind, Tone, Text, Count string
	Start, Width            string
	Number, Units           int64
}

// NewProgress returns a bar of the given segments by their units. Those without any are left out.
func (c *Request) NewProgress(text string, segments []Segment) Progress {
	var total, start float64
	for _, s := range segments {
		total += float64(s.Units)
	}
	p := Progress{Label: text, Text: text}
	for _, s := range segments {
		if s.Number == 0 || total == 0 {
			continue
		}
		width := float64(s.Units) / total * 100
		gap := 0.35
		if start+width >= 99.99 {
			gap = 0
		}
		s.Start, s.Width = fmt.Sprintf("%.2f", start), fmt.Sprintf("%.2f", max(0, width-gap))
		s.Count = c.FormatCount(s.Number)
		start += width
		p.Segments = append(p.Segments, s)
	}
	return p
}
