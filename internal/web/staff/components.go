package staff

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/web/ui"
)

// ComponentsPath is the path of the page that shows every component of the pages.
const ComponentsPath = "/staff/components"

type componentsPage struct {
	Icons, Tones []string
	States       []ui.StateGroup
	Fields       []ui.Field
	List, Facts  ui.Table
	Empty        ui.Table
	Steps        []ui.Cell
	Progress     ui.Progress
	Tasks        []ui.Task
	Chart, Line  ui.Chart
	Snippet      ui.Snippet
	Filters      ui.Filters
	Amounts      []string
	People       []string
}

// showComponents renders every component of the pages with samples, for people who change the pages. It exists only
// in a sandbox. Its own texts are in English.
func showComponents(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	field := func(name, kind, label string) ui.Field {
		return c.Field(ui.Field{Name: name, Type: kind, Label: label, Options: []ui.Option{{Value: "", Label: "Choose"},
			{Value: "a", Label: "First choice"}, {Value: "b", Label: "Second choice"}}})
	}
	hinted := field("sample_hint", "text", "Text with a hint")
	hinted.Hint = "A hint says what to enter, in one sentence."
	wrong := field("sample_wrong", "text", "Text with a problem")
	wrong.Value, wrong.Problem = "12,x", ui.LocalizedText{Text: c.Text("fault.invalid_type")}
	money := func(number, currency string) string { return c.FormatNumber(number) + "\u00a0" + currency }
	pager := ui.Pager{Range: c.Text("list.part", "1", "2", "45"), Earlier: "?page=1", Later: "?page=3",
		EarlierText: c.Text("list.earlier"), LaterText: c.Text("list.later")}
	person := func(name, line string) ui.Cell {
		return ui.Cell{Text: name, Kind: "person", Path: "#", Lines: []ui.Cell{{Text: line}}}
	}
	p := componentsPage{
		Icons: ui.Icons(), Tones: []string{"gray", "amber", "blue", "violet", "green", "red"}, States: c.States(),
		Fields: []ui.Field{field("sample_text", "text", "Text"), hinted, wrong,
			field("sample_select", "select", "Select"), field("sample_date", "date", "Date"),
			field("sample_file", "file", "File"), field("sample_area", "textarea", "Several lines")},
		List: ui.Table{Caption: "List", Pager: pager,
			Heads: c.Columns("payment.payee|a", "payroll.status|c", "payment.amount#|b", "payroll.created#|d"),
			Rows: [][]ui.Cell{
				{person("Ada Lovelace", "Contractor"), c.StateCell("payment.state", "fulfilled"),
					{Text: money("1250.50", "USD"), Kind: "money"}, {Text: c.FormatTime(c.Now())}},
				{person("Grace Hopper", "Employee"), c.StateCell("payment.state", "returned"),
					{Text: money("0.00120000", "BTC"), Kind: "money"}, {Text: c.FormatTime(c.Now())}},
			}},
		Facts: ui.Table{Caption: "Table", Heads: c.Columns("step.at", "step.what", "deposits.tx"),
			Rows: [][]ui.Cell{{{Text: c.FormatTime(c.Now())}, {Text: "A row that becomes a list on a phone"},
				ui.CodeCell("4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b")}}},
		Empty: ui.Table{Caption: "Empty", Empty: c.Empty("payrolls.none")},
		Steps: []ui.Cell{{Kind: "done", Text: c.Text("milestone.created")}, {Kind: "now", Text: c.Text("milestone.funded"),
			Lines: []ui.Cell{{Text: c.Text("payroll.means.pending")}}}, {Text: c.Text("milestone.paying")},
			{Text: c.Text("milestone.paid")}},
		Progress: c.NewProgress(c.Text("progress.of", money("900.00", "USD"), money("1500.00", "USD")), []ui.Segment{
			{Kind: "done", Tone: "green", Text: c.Text("progress.arrived"), Number: 9, Units: 900},
			{Kind: "move", Tone: "blue", Text: c.Text("progress.moving"), Number: 3, Units: 300},
			{Kind: "wait", Tone: "amber", Text: c.Text("progress.held"), Number: 2, Units: 200},
			{Kind: "bad", Tone: "red", Text: c.Text("progress.fix"), Number: 1, Units: 100}}),
		Tasks: []ui.Task{c.Task("amber", "hourglass", "Fund a payroll", "attention.fund.do", "#"),
			c.Task("red", "circle-alert", "Fix a returned payment", "attention.fix", "#"),
			c.Task("violet", "shield-check", "Approve a withdrawal", "attention.review", "#")},
		Snippet: c.Snippet("sample-snippet", "links.button", `<a href="https://pay.example.com/pay/link">Pay</a>`),
		Filters: c.FilterBar(ComponentsPath, field("sample_search", "text", "Search"),
			field("sample_state", "select", "Status")),
		Amounts: []string{money("1250.50", "USD"), money("0.00120000", "BTC"), money("-12.00", "EUR")},
		People:  []string{"Ada Lovelace", "Grace Hopper", "Katherine Johnson", "Alan Turing"},
	}
	p.Chart = ui.Chart{Title: "Bars", When: c.Text("overview.month"), What: c.Text("overview.paid"),
		TableLabel: c.Text("chart.figures"), Bars: true, Total: money("420.00", "USD")}
	for i, v := range []int64{10, 40, 25, 60, 80, 55} {
		at := c.Now().AddDate(0, i-5, 0)
		p.Chart.Points = append(p.Chart.Points, ui.Point{Label: at.Format("Jan 2006"), Value: v,
			Text: money(c.FormatCount(v)+".00", "USD")})
	}
	p.Line = p.Chart
	p.Line.Title, p.Line.Bars = "Line", false
	v := ui.View{Template: "components", Title: "Components", Lead: "Every component of the pages, with samples.",
		State: c.StateCell("payroll.state", "fulfilled"), Data: p}
	v.Crumbs = []ui.Cell{{Text: "Home", Path: "/"}}
	return v, nil
}
