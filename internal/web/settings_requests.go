package web

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
)

const requestsPath = "/settings/api/requests"

type requestsPage struct {
	Path     string
	Filters  []field
	Requests table
	Looked   bool // not all was looked through
	First    string
	Next     string
}

// showRequests lists what programs asked for the company, as the filter says.
func showRequests(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	apps, err := identity.Apps(ctx, tx, c.session.Company.ID)
	if err != nil {
		return view{}, err
	}
	names := map[string]string{}
	choices := []option{{Label: c.text("list.all")}}
	for _, a := range apps {
		names[a.ID] = a.Name
		choices = append(choices, option{Value: a.ID, Label: a.Name})
	}
	f := requestlog.Filter{AppID: c.query("app"), Route: c.query("route"), RequestID: c.query("request_id"), After: c.query("after"), Limit: perPage}
	if outcome := c.query("outcome"); slices.Contains(requestlog.Outcomes, outcome) {
		f.Outcome = outcome
	}
	if f.To = c.askedDay("until"); !f.To.IsZero() {
		f.To = f.To.AddDate(0, 0, 1) // the day itself, too
	}
	all, next, err := requestlog.List(ctx, tx, c.session.Company.ID, f)
	if err != nil {
		return view{}, err
	}
	p := requestsPage{Path: requestsPath, Looked: next != "" && len(all) < perPage, Filters: []field{
		c.filter(field{Name: "outcome", Type: "select", Options: c.choices("request.outcome", requestlog.Outcomes...)}),
		c.filter(field{Name: "app", Type: "select", Options: choices}),
		c.filter(field{Name: "route", Most: 255}),
		c.filter(field{Name: "until", Type: "date"}),
		c.filter(field{Name: "request_id", Most: 128}),
	}}
	p.Requests = table{Caption: c.text("requests.title"), Empty: c.text("requests.none"), Heads: c.heads(
		"request.at", "request.operation", "request.outcome", "request.took#", "request.app")}
	for _, r := range all {
		p.Requests.Rows = append(p.Requests.Rows, []cell{
			c.link(c.instant(r.At), requestsPath+"/"+r.Ref), code(r.Method + " " + r.Path), c.outcome(r),
			{Text: took(r), Kind: "number"}, {Text: cmp.Or(names[r.AppID], r.AppID)},
		})
	}
	query := c.r.URL.Query()
	if query.Has("after") {
		query.Del("after")
		p.First = requestsPath + "?" + query.Encode()
	}
	if next != "" {
		query.Set("after", next)
		p.Next = requestsPath + "?" + query.Encode()
	}
	return view{page: "requests", title: c.text("requests.title"), wide: true, data: p}, nil
}

// outcome says how a request ended.
func (c *call) outcome(r requestlog.Request) cell {
	at := cell{Text: strings.TrimSpace(strconv.Itoa(r.Status) + " " + r.Code), Warn: r.Status >= 400}
	if r.Replayed {
		at.Lines = append(at.Lines, cell{Text: c.text("request.replayed")})
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
	Sent, Answered         string // as programs read it, on several lines
	Curl                   string
	Same, List             string
}

// showRequest is one request: what was sent and answered, and how to send it again.
func showRequest(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	r, err := requestlog.Get(ctx, tx, c.session.Company.ID, c.r.PathValue("ref"))
	if err != nil {
		return view{}, err
	}
	p := requestPage{Request: r, Began: c.instant(r.At), Outcome: c.outcome(r).Text, Lasted: took(r), Sent: indented(r.Body), Answered: indented(r.Answer),
		Curl: c.curl(r), List: requestsPath}
	apps, err := identity.Apps(ctx, tx, c.session.Company.ID)
	if err != nil {
		return view{}, err
	}
	p.App = r.AppID
	for _, a := range apps {
		if a.ID == r.AppID {
			p.App = a.Name
		}
	}
	return view{page: "request", title: c.text("request.title"), wide: true, data: p}, nil
}

// indented is JSON on several lines. What was cut is no JSON any more, and stays as it is.
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

// curl is a command that sends a request again, with … where the log has kept nothing.
func (c *call) curl(r requestlog.Request) string {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	scheme := "Basic"
	if strings.HasPrefix(r.Credential, "tok_") {
		scheme = "Bearer"
	}
	lines := []string{"curl -X " + r.Method + " " + quote(c.BaseURL+r.Path), `-H "Authorization: ` + scheme + ` $STIPEND_TOKEN"`}
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
