package company

import (
	"context"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/securitylog"
	"github.com/stipend/stipend/internal/web/ui"
)

const securityPath = "/settings/security"

// showSecurityLog lists who submitted which form for the company, from where, and the outcome.
func showSecurityLog(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	f := securitylog.Filter{Page: c.Page()}
	if category := securitylog.Category(c.Query("area")); slices.Contains(securitylog.Categories, category) {
		f.Category = category
	}
	all, total, err := securitylog.List(ctx, tx, c.Session.Company.ID, f)
	if err != nil {
		return ui.View{}, err
	}
	users := make([]string, len(all))
	for i, e := range all {
		users[i] = e.UserID
	}
	names, err := memberNames(ctx, c, tx, users...)
	if err != nil {
		return ui.View{}, err
	}
	categories := make([]string, len(securitylog.Categories))
	for i, category := range securitylog.Categories {
		categories[i] = string(category)
	}
	t := ui.Table{Caption: c.Text("security.title"), Heads: c.Columns("request.at|d",
		"security.who|a", "security.what|c", "security.from|e", "request.outcome|b")}
	for i, e := range all {
		what := ui.Cell{Text: c.Word("security.category", string(e.Category)), Lines: []ui.Cell{ui.CodeCell(e.Path)}}
		from := ui.Cell{Text: e.Address}
		if browser := browserOf(e.Agent); browser != "" {
			from = ui.Cell{Text: browser, Lines: []ui.Cell{{Text: e.Address}}}
		}
		outcome := ui.Cell{Text: c.Text("request.outcome.succeeded"), Tone: "green", Icon: "check"}
		if e.Outcome != "" {
			outcome = ui.Cell{Text: c.Text("security.failed"), Tone: "red", Icon: "circle-x",
				Lines: []ui.Cell{ui.CodeCell(e.Outcome)}}
		}
		person := ui.Cell{}
		if names[i] != "" {
			person = ui.Cell{Text: names[i], Kind: "person"}
		}
		t.Rows = append(t.Rows, []ui.Cell{c.TimeCell(e.At), person, what, from, outcome})
	}
	filters := c.FilterBar(securityPath,
		c.Filter(ui.Field{Name: "area", Type: "select", Options: c.Choices("security.category", categories...)}))
	t.Empty = c.EmptyList(filters, c.EmptyStep("shield-check", "security.none", false, "", ""))
	return ui.View{Template: "security", Title: c.Text("security.title"), Lead: c.Text("security.lead"), Data: struct {
		Filters ui.Filters
		Table   ui.Table
		Pager   ui.Pager
	}{filters, t, c.Pager(f.Page, total)}}, nil
}

// browsers and systems are what a User-Agent header contains, and the name of the browser or system. The first match
// counts, because most browsers name others as well.
var (
	browsers = [][2]string{{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"},
		{"Safari/", "Safari"}, {"curl/", "curl"}}
	systems = [][2]string{{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"Windows", "Windows"},
		{"Mac OS X", "macOS"}, {"CrOS", "ChromeOS"}, {"Linux", "Linux"}}
)

// browserOf returns the name of the browser and the system that a User-Agent header claims, such as "Firefox, Windows",
// or the start of a header that names neither.
func browserOf(agent string) string {
	var names []string
	for _, known := range [][][2]string{browsers, systems} {
		for _, one := range known {
			if strings.Contains(agent, one[0]) {
				names = append(names, one[1])
				break
			}
		}
	}
	if len(names) > 0 {
		return strings.Join(names, ", ")
	}
	if first, _, more := strings.Cut(agent, " "); more {
		return first
	}
	return agent
}
