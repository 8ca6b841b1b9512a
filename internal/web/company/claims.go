package company

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/web/ui"
)

const claimsPath = "/claims"

// claimStates are the states by which the list can be filtered.
var claimStates = []string{
	string(claim.AwaitingPayment), string(claim.PartiallyPaid), string(claim.Confirming), string(claim.Paid),
	string(claim.Expired), string(claim.Underpaid), string(claim.PaidLate), string(claim.Invalid),
	string(claim.Refunded), string(claim.Cancelled),
}

func claimPath(id string) string { return claimsPath + "/" + id }

type claimsPage struct {
	Filters ui.Filters
	Claims  ui.Table
	Pager   ui.Pager
	CSV     string
	Month   ui.Field
	Charts  []ui.Chart
}

var errAmountCurrency = apierr.New(apierr.Invalid, "invalid_parameter", "Choose the currency of the amount.")

// claimFilter returns the filter in the URL, and an error at the field if the amount cannot be one or has no currency.
func claimFilter(c *ui.Request) (claim.Filter, error) {
	f := claim.Filter{
		Status: claim.State(queryOneOf(c, "status", claimStates)), Search: c.Query("search"),
		From: c.QueryDate("since"), To: c.QueryDate("until"), Page: c.Page(),
	}
	if !f.To.IsZero() {
		f.To = f.To.AddDate(0, 0, 1) // include the whole day
	}
	typed := strings.TrimSpace(c.Query("amount"))
	a, known := money.Lookup(c.Query("currency"))
	if known {
		f.Currency = a
	} else if typed != "" {
		return f, errAmountCurrency.At("query", "/currency")
	}
	if typed == "" {
		return f, nil
	}
	amount, err := money.Parse(a, c.PlainAmount(typed, a))
	if fault, ok := apierr.As(err); ok {
		return f, fault.At("query", "/amount")
	}
	f.Amount = amount
	return f, err
}

// listClaims lists the company's claims, newest first, with a chart of what they earned.
func listClaims(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	f, err := claimFilter(c)
	var all []claim.Claim
	var total int64
	if fault, ok := apierr.As(err); ok {
		c.Problem, f.Page = fault, db.Page{PerPage: ui.PerPage}
	} else if err == nil {
		all, total, err = c.Claims.List(ctx, tx, c.Session.Principal(), "", f)
	}
	if err != nil && c.Problem == nil {
		return ui.View{}, err
	}
	p := claimsPage{
		Claims: claimTable(c, all), Pager: c.Pager(f.Page, total),
		CSV:   "/claims/export.csv?" + c.HTTP.URL.Query().Encode(),
		Month: c.Filter(ui.Field{Name: "month", Type: "month", Required: true, MaxLength: 7}),
		Filters: c.FilterBar(claimsPath,
			c.Filter(ui.Field{Name: "search", Label: c.Text("claims.search"), MaxLength: 255}),
			c.Filter(ui.Field{Name: "status", Type: "select", Options: c.Choices("claim.state", claimStates...)}),
			c.Filter(ui.Field{Name: "amount", Label: c.Text("payment.amount"), MaxLength: 40}),
			c.Filter(ui.Field{Name: "currency", Type: "select",
				Options: append([]ui.Option{{Label: c.Text("list.all")}}, ui.ClaimCurrencies()...)}),
			c.Filter(ui.Field{Name: "since", Type: "date"}),
			c.Filter(ui.Field{Name: "until", Type: "date"}),
		),
	}
	p.Claims.Empty = c.EmptyList(p.Filters, c.EmptyStep("bitcoin", "claims.none", c.Session.Manages(), "claims.new",
		claimsPath+"/new"))
	p.Month.Value = cmp.Or(p.Month.Value, tx.Now().Format("2006-01"))
	if err := addSearches(ctx, tx, c, &p.Filters); err != nil {
		return ui.View{}, err
	}
	days, err := c.Claims.EarnedByDay(ctx, tx, c.Session.Principal(), ui.ChartStart(tx.Now()))
	if err != nil {
		return ui.View{}, err
	}
	amounts := make([]ui.DayAmount, len(days))
	for i, d := range days {
		amounts[i] = ui.DayAmount(d)
	}
	p.Charts, err = c.MonthCharts(tx.Now(), "claims.chart", "claims.earned", amounts)
	return ui.View{Template: "claims", Title: c.Text("claims.title"), Data: p}, err
}

// claimTable lists claims.
func claimTable(c *ui.Request, all []claim.Claim) ui.Table {
	t := ui.Table{Caption: c.Text("claims.title"), Heads: c.Columns(
		"claim.order|a", "payroll.status|c", "claim.received#|hide", "payment.amount#|b", "payroll.created#|d")}
	for _, one := range all {
		name := c.LinkCell(claimName(c, one), claimPath(one.ID))
		name.Lines = []ui.Cell{{Text: one.ID, Kind: "id"}}
		t.Rows = append(t.Rows, []ui.Cell{name, claimState(c, one), c.AmountCell(one.Received()),
			c.AmountCell(one.Amount), c.TimeCell(one.CreatedAt)})
	}
	return t
}

// claimName returns what people call a claim: the order number, else the payer. The order number of a sale at a point
// of sale is a random key.
func claimName(c *ui.Request, one claim.Claim) string {
	switch {
	case one.PayerID == claim.PointOfSale:
		return cmp.Or(one.Description, c.Text("sale.title"))
	case one.ExternalID != "":
		return one.ExternalID
	case one.LinkID != "" && one.Description != "":
		return one.Description // its payer ID is the ID of the link
	}
	return one.PayerID
}

// claimState returns the state of a claim as a badge, with its exception below.
func claimState(c *ui.Request, one claim.Claim) ui.Cell {
	state := c.StateCell("claim.state", string(one.State))
	if one.Exception != claim.None {
		state.Lines = []ui.Cell{{Text: c.Text("claim.exception." + string(one.Exception))}}
	}
	return state
}

// claimsCSV exports the claims that match the filter of the list.
func claimsCSV(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	f, err := claimFilter(c)
	if err != nil {
		return ui.View{}, err
	}
	return exportClaims(ctx, tx, c, "claims.csv", f)
}

// claimsMonth exports the claims that were created in a month.
func claimsMonth(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	from, err := time.Parse("2006-01", c.Query("month"))
	if err != nil {
		return ui.View{}, errMonth
	}
	return exportClaims(ctx, tx, c, "claims-"+c.Query("month")+".csv",
		claim.Filter{From: from, To: from.AddDate(0, 1, 0)})
}

func exportClaims(ctx context.Context, tx *db.Tx, c *ui.Request, name string, f claim.Filter) (ui.View, error) {
	write, err := c.Claims.Export(tx, c.Session.Principal(), "", f)
	if err != nil {
		return ui.View{}, err
	}
	var b bytes.Buffer
	err = write(ctx, &b)
	return ui.View{File: &ui.File{Name: name, ContentType: "text/csv; charset=utf-8", Data: b.Bytes()}}, err
}

// fundingCurrencies are the options for the currency in which a claim is paid.
func fundingCurrencies(c *ui.Request) []ui.Option {
	var all []ui.Option
	for _, a := range c.Claims.Accepts() {
		all = append(all, ui.Option{Value: string(a), Label: string(a)})
	}
	if len(all) > 1 {
		all = append([]ui.Option{{Value: claim.AnyAsset, Label: c.Text("claim.funding.any")}}, all...)
	}
	return all
}

// claimForm is a page with one form.
type claimForm struct {
	Path, Send string
	Groups     []fieldGroup
	Next       []string     // what happens after the form is sent; none for settings
	Snippets   []ui.Snippet // below the form
}

// fieldGroup is a part of a form. A folded one is closed until the reader opens it.
type fieldGroup struct {
	Title  string
	Folded bool
	Fields []ui.Field
}

// Open reports whether a folded group is open, because one of its fields was filled in or has a problem.
func (g fieldGroup) Open() bool {
	return slices.ContainsFunc(g.Fields, func(f ui.Field) bool {
		return f.Problem.Text != "" || f.Value != "" && f.Type != "select"
	})
}

// nextSteps returns what happens after a claim or payment link is created. The key first is that of its own step.
func nextSteps(c *ui.Request, first string) []string {
	return []string{c.Text(first), c.Text("claims.next.pay"), c.Text("claims.next.settle")}
}

// showNewClaim renders the form for a claim.
func showNewClaim(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	field := func(name, label string, required bool, most int) ui.Field {
		c.Labels = withLabel(c.Labels, name, c.Text(label))
		return c.Field(ui.Field{Name: name, Label: c.Text(label), Required: required, MaxLength: most})
	}
	lines := func(name, label, hint string) ui.Field {
		f := field(name, label, false, 0)
		f.Type, f.Hint = "textarea", c.Text(hint)
		return f
	}
	amount, payer := field("amount", "payment.amount", true, 40), field("payer_id", "claim.payer", true, 128)
	amount.InputMode, payer.Hint = "decimal", c.Text("claim.payer.hint")
	currency := c.Field(ui.Field{Name: "denomination_currency", Label: c.Text("field.currency"), Type: "select",
		Options: ui.ClaimCurrencies(), Value: string(money.USD)})
	var lives []ui.Option
	for _, seconds := range claimLives {
		lives = append(lives, ui.Option{Value: seconds, Label: c.Text("claim.expires." + seconds)})
	}
	end := c.Field(ui.Field{Name: "expires_in", Label: c.Text("claim.expires"), Type: "select", Options: lives})
	funding := c.Field(ui.Field{Name: "funding_currency", Label: c.Text("claim.funding"), Type: "select",
		Options: fundingCurrencies(c)})
	return ui.View{Template: "claim_form", Title: c.Text("claims.new"), Lead: c.Text("claims.new.lead"),
		Crumbs: claimCrumbs(c), Data: claimForm{Path: claimsPath + "/new", Send: c.Text("claims.create"),
			Next: nextSteps(c, "claims.next.share"), Groups: []fieldGroup{
				{Title: c.Text("claims.group.payment"), Fields: []ui.Field{amount, currency, payer,
					field("external_id", "claim.order.new", false, 255), field("description", "claim.description", false, 500),
					field("notification_email", "claim.email", false, 254)}},
				{Title: c.Text("claims.group.options"), Folded: true, Fields: []ui.Field{funding, end,
					field("redirect_url", "links.field.redirect_url", false, 2000)}},
				{Title: c.Text("claims.group.details"), Folded: true, Fields: []ui.Field{
					lines("line_items", "claim.items.new", "claim.items.hint"),
					lines("metadata", "claim.metadata", "claim.metadata.hint")}},
			}}}, nil
}

// claimLives are the times that a claim can be paid for, in seconds; 0 is no end.
var claimLives = []string{"0", "3600", "86400", "604800", "2592000"}

// linesOf returns the lines of a posted field that are not empty.
func linesOf(c *ui.Request, name string) (all []string) {
	for line := range strings.Lines(c.Form.Get(name)) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// claimItems returns the line items of the form: a line has the quantity, the description and the amount. What is
// missing is empty, which [claim.Service.Create] refuses.
func claimItems(c *ui.Request) (all []claim.ItemParams) {
	for _, line := range linesOf(c, "line_items") {
		parts := append(strings.Split(line, ";"), "", "")
		quantity, err := strconv.ParseInt(strings.TrimSpace(parts[0]), 10, 32)
		if err != nil {
			quantity = 0
		}
		all = append(all, claim.ItemParams{Quantity: quantity, Description: strings.TrimSpace(parts[1]),
			AmountText: c.PlainAmount(parts[2], money.Asset(c.Form.Get("denomination_currency")))})
	}
	return all
}

// claimMetadata returns the metadata of the form: a line has a name and a value. A line without a name or a value gets
// an empty name, which [claim.Service.Create] refuses.
func claimMetadata(c *ui.Request) map[string]string {
	all := map[string]string{}
	for _, line := range linesOf(c, "metadata") {
		name, value, _ := strings.Cut(line, ":")
		if name, value = strings.TrimSpace(name), strings.TrimSpace(value); value == "" {
			name = ""
		}
		all[name] = value
	}
	return all
}

// createClaim creates a claim.
func createClaim(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	life, err := strconv.ParseInt(cmp.Or(c.Form.Get("expires_in"), "0"), 10, 32)
	if err != nil || life < 0 {
		life = -1 // refused with the other problems of the form
	}
	made, err := c.Claims.Create(ctx, tx, c.Session.Principal(), claim.CreateParams{
		PayerID:    c.Form.Get("payer_id"),
		AmountText: c.PlainAmount(c.Form.Get("amount"), money.Asset(c.Form.Get("denomination_currency"))),
		Currency:   c.Form.Get("denomination_currency"), Funding: c.Form.Get("funding_currency"),
		ExternalID: c.Form.Get("external_id"), Description: c.Form.Get("description"),
		Email: c.Form.Get("notification_email"), ExpiresIn: time.Duration(life) * time.Second,
		RedirectURL: strings.TrimSpace(c.Form.Get("redirect_url")), Items: claimItems(c), Metadata: claimMetadata(c),
	})
	return ui.View{Redirect: claimPath(made.ID)}, ui.FormConflict(err)
}

func claimCrumbs(c *ui.Request) []ui.Cell {
	return []ui.Cell{c.LinkCell(c.Text("claims.title"), claimsPath)}
}

const settlementsPath = claimsPath + "/settlements"

type settlementsPage struct {
	Earned  []string   // what can be settled, in each currency
	Nothing ui.Empty   // shown if there is nothing to settle
	Fields  []ui.Field // for a settlement; empty if there is nothing to settle
	List    ui.Table
}

// showSettlements lists what claims earned, the settlements, and the form for a new one.
func showSettlements(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	all, total, err := c.Claims.Settlements(ctx, tx, c.Session.Principal(), "", c.Page())
	if err != nil {
		return ui.View{}, err
	}
	earned, err := c.Claims.Earned(ctx, tx, c.Session.Principal())
	if err != nil {
		return ui.View{}, err
	}
	p := settlementsPage{
		Nothing: c.EmptyStep("coins", "settlements.nothing", c.Session.Manages(), "claims.new", claimsPath+"/new"),
		List: ui.Table{Caption: c.Text("settlements.title"), Empty: c.EmptyStep("banknote", "settlements.none",
			c.Session.Administers(), "settlements.schedule", claimsPath+"/settings"),
			Heads: c.Columns("settlement.id|a", "settlement.to|c", "settlement.net#|b", "step.at#|d"),
			Pager: c.Pager(c.Page(), total)},
	}
	var currencies []ui.Option
	for _, a := range earned {
		p.Earned = append(p.Earned, c.FormatMoney(a))
		currencies = append(currencies, ui.Option{Value: string(a.Asset()), Label: string(a.Asset())})
	}
	if len(currencies) > 0 && c.Session.Administers() {
		c.Labels = withLabel(c.Labels, "amount", c.Text("settlement.amount"))
		p.Fields = []ui.Field{c.Field(ui.Field{Name: "currency", Type: "select", Options: currencies}),
			c.Field(ui.Field{Name: "amount", Label: c.Text("settlement.amount"), MaxLength: 40, InputMode: "decimal"})}
	}
	for _, x := range all {
		name := c.LinkCell(c.Text("settlements.of", c.FormatMoney(x.Earned)), settlementPath(x.ID))
		name.Lines = []ui.Cell{{Text: x.ID, Kind: "id"}}
		p.List.Rows = append(p.List.Rows, []ui.Cell{name, settledTo(c, x), c.AmountCell(x.Amount),
			c.TimeCell(x.CreatedAt)})
	}
	return ui.View{Template: "settlements", Title: c.Text("settlements.title"),
		Lead: c.Text("settlements.lead"), Crumbs: claimCrumbs(c), Data: p}, nil
}

// settleClaims settles what claims earned in a currency, or a part of it.
func settleClaims(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := c.Claims.Settle(ctx, tx, c.Session.Principal(), "", c.Form.Get("currency"),
		c.PlainAmount(c.Form.Get("amount"), money.Asset(c.Form.Get("currency"))))
	return ui.View{Redirect: settlementsPath}, ui.FormConflict(err)
}

// claimTasks returns the tasks that claims cause: late money to decide about, and refunds to approve.
func claimTasks(ctx context.Context, c *ui.Request, tx *db.Tx) (all []ui.Task, err error) {
	if all, err = refundTasks(ctx, c, tx, maxAttention); err != nil {
		return nil, err
	}
	_, late, err := c.Claims.List(ctx, tx, c.Session.Principal(), "", claim.Filter{Status: claim.PaidLate,
		Page: db.Page{PerPage: 1}})
	if late > 0 {
		all = append(all, c.Task("amber", "clock", c.Plural("attention.paid_late", late, c.FormatCount(late)),
			"attention.view", claimsPath+"?status="+string(claim.PaidLate)))
	}
	return all, err
}

// refundTasks returns the refunds that wait for an approval.
func refundTasks(ctx context.Context, c *ui.Request, tx *db.Tx, most int) (all []ui.Task, err error) {
	waiting, err := claim.AwaitingApproval(ctx, tx, c.Session.Principal(), most)
	for _, r := range waiting {
		all = append(all, c.Task("violet", "shield-check", c.Text("attention.refund", c.FormatMoney(r.Value)),
			"attention.review", claimPath(r.ClaimID)))
	}
	return all, err
}
