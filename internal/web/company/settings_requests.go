package company

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/requestlog"
	"github.com/stipend/stipend/internal/web/ui"
)

const requestsPath = "/settings/api/requests"

type requestsPage struct {
	Path     string
	Filters  ui.Filters
	Requests ui.Table
	Partial  bool // Partial reports that only part of the log was searched
	First    string
	Next     string
}

// showRequests lists the API requests of the company.
func showRequests(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	apps, err := identity.Apps(ctx, tx, c.Session.Company.ID)
	if err != nil {
		return ui.View{}, err
	}
	names := map[string]string{}
	choices := []ui.Option{{Label: c.Text("list.all")}}
	for _, a := range apps {
		names[a.ID] = a.Name
		choices = append(choices, ui.Option{Value: a.ID, Label: a.Name})
	}
	f := requestlog.Filter{AppID: c.Query("app"), Route: c.Query("route"), RequestID: c.Query("request_id"),
		After: c.Query("after"), Limit: ui.PerPage}
	if outcome := c.Query("outcome"); slices.Contains(requestlog.Outcomes, outcome) {
		f.Outcome = outcome
	}
	if f.To = c.QueryDate("until"); !f.To.IsZero() {
		f.To = f.To.AddDate(0, 0, 1) // include the whole day
	}
	all, next, err := requestlog.List(ctx, tx, c.Session.Company.ID, f)
	if err != nil {
		return ui.View{}, err
	}
	p := requestsPage{Path: requestsPath, Partial: next != "" && len(all) < ui.PerPage, Filters: c.FilterBar(requestsPath,
		c.Filter(ui.Field{Name: "outcome", Type: "select", Options: c.Choices("request.outcome", requestlog.Outcomes...)}),
		c.Filter(ui.Field{Name: "app", Type: "select", Options: choices}),
		c.Filter(ui.Field{Name: "route", MaxLength: 255}),
		c.Filter(ui.Field{Name: "until", Type: "date"}),
		c.Filter(ui.Field{Name: "request_id", MaxLength: 128}),
	)}
	p.Requests = ui.Table{Caption: c.Text("requests.title"), Heads: c.Columns(
		"request.at|c", "request.operation|a", "request.outcome|b", "request.took#|hide", "request.app|hide")}
	p.Requests.Empty = c.EmptyList(p.Filters, c.EmptyStep("activity", "requests.none", true, "apps.title",
		"/settings/api"))
	for _, r := range all {
		result := outcome(c, r)
		if result.Tone = "green"; r.Status >= 500 {
			result.Tone = "red"
		} else if r.Status >= 400 {
			result.Tone = "amber"
		}
		p.Requests.Rows = append(p.Requests.Rows, []ui.Cell{
			c.LinkCell(c.FormatTime(r.At), requestsPath+"/"+r.Ref), ui.CodeCell(r.Method + " " + r.Path), result,
			{Text: took(r), Kind: "number"}, {Text: cmp.Or(names[r.AppID], r.AppID)},
		})
	}
	query := c.HTTP.URL.Query()
	if query.Has("after") {
		query.Del("after")
		p.First = requestsPath + "?" + query.Encode()
	}
	if next != "" {
		query.Set("after", next)
		p.Next = requestsPath + "?" + query.Encode()
	}
	err = addSearches(ctx, tx, c, &p.Filters)
	return ui.View{Template: "requests", Title: c.Text("requests.title"), Data: p}, err
}

// outcome describes the response to a request.
func outcome(c *ui.Request, r requestlog.Request) ui.Cell {
	at := ui.Cell{Text: strings.TrimSpace(strconv.Itoa(r.Status) + " " + r.Code), Warn: r.Status >= 400}
	if r.Replayed {
		at.Lines = append(at.Lines, ui.Cell{Text: c.Text("request.replayed")})
	}
	return at
}

func took(r requestlog.Request) string {
	return strconv.FormatFloat(float64(r.Took.Microseconds())/1000, 'f', 1, 64) + " ms"
}

type requestPage struct {
	requestlog.Request
	Began, Outcome, Lasted string
	App                    string
	Sent, Answered         string // as formatted JSON
	Curl                   string
	Same, List             string
}

// showRequest renders a request with its response and a curl command.
func showRequest(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r, err := requestlog.Get(ctx, tx, c.Session.Company.ID, c.HTTP.PathValue("ref"))
	if err != nil {
		return ui.View{}, err
	}
	p := requestPage{Request: r, Began: c.FormatTime(r.At), Outcome: outcome(c, r).Text, Lasted: took(r),
		Sent: indented(r.Body), Answered: indented(r.Answer),
		Curl: curl(c, r), List: requestsPath}
	apps, err := identity.Apps(ctx, tx, c.Session.Company.ID)
	if err != nil {
		return ui.View{}, err
	}
	p.App = r.AppID
	for _, a := range apps {
		if a.ID == r.AppID {
			p.App = a.Name
		}
	}
	return ui.View{Template: "request", Title: c.Text("request.title"), Data: p}, nil
}

// indented formats JSON. Truncated JSON is returned unchanged.
func indented(text string) string {
	var value json.RawMessage
	if json.Unmarshal([]byte(text), &value) != nil {
		return text
	}
	lines, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return text
	}
	return string(lines)
}

// curl returns a command that repeats a request, with … for redacted values.
func curl(c *ui.Request, r requestlog.Request) string {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	scheme := "Basic"
	if strings.HasPrefix(r.Credential, "tok_") {
		scheme = "Bearer"
	}
	lines := []string{"curl -X " + r.Method + " " + quote(c.BaseURL+r.Path),
		`-H "Authorization: ` + scheme + ` $STIPEND_TOKEN"`}
	if r.IdempotencyKey != "" {
		lines = append(lines, `-H "Idempotency-Key: $IDEMPOTENCY_KEY"`)
	}
	if r.Body != "" {
		lines = append(lines, "-H 'Content-Type: application/json'")
		if json.Valid([]byte(r.Body)) {
			lines = append(lines, "--data "+quote(r.Body))
		} else {
			lines = append(lines, "--data @body.json")
		}
	}
	return strings.Join(lines, " \\\n  ")
}
