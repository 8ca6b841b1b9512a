package company

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/web/ui"
)

// Allowed values of the recipient filters.
var (
	recipientRoles  = []string{payee.Contractor, payee.Employee, payee.Vendor}
	recipientStates = []string{payee.Active, payee.Pending, payee.Inactive}
	recipientTypes  = []string{payee.TypeUser, payee.TypeCompany}
	recipientSorts  = []string{"name", "email", "created"}
)

func recipientPath(id string) string { return "/recipients/" + id }

type recipientsPage struct {
	Filters    ui.Filters
	Bulk       bool // the reader can act on several people at once
	Recipients ui.Table
	Pager      ui.Pager
}

// queryOneOf returns a URL parameter if it is one of values, else "".
func queryOneOf(c *ui.Request, name string, values []string) string {
	if v := c.Query(name); slices.Contains(values, v) {
		return v
	}
	return ""
}

// listRecipients lists the company's recipients.
func listRecipients(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	params := payee.ListParams{
		Search: c.Query("search"), Role: queryOneOf(c, "role", recipientRoles),
		Type:   queryOneOf(c, "recipient_type", recipientTypes),
		Status: queryOneOf(c, "status", recipientStates), SortBy: queryOneOf(c, "sort_by", recipientSorts),
		Page: c.Page(),
	}
	if code := strings.ToUpper(c.Query("country")); country.Exists(code) {
		params.Country = code
	}
	if key, descending := c.SortedBy(recipientSorts...); key != "" {
		params.SortBy, params.SortDir = key, "asc"
		if descending {
			params.SortDir = "desc"
		}
	}
	found, err := payee.List(ctx, tx, c.Session.Principal(), params)
	if err != nil {
		return ui.View{}, err
	}
	countries := c.Countries()
	countries[0].Label = c.Text("list.all")
	sorts := []ui.Option{{Value: "", Label: c.Text("sort.newest")}}
	for _, s := range recipientSorts {
		sorts = append(sorts, ui.Option{Value: s, Label: c.Text("sort." + s)})
	}
	p := recipientsPage{Recipients: recipientTable(c, found.Items),
		Pager: c.Pager(params.Page, int64(found.Total)),
		Filters: c.FilterBar("/recipients",
			c.Filter(ui.Field{Name: "search", MaxLength: 100}),
			c.Filter(ui.Field{Name: "status", Type: "select", Options: c.Choices("recipient.status", recipientStates...)}),
			c.Filter(ui.Field{Name: "role", Type: "select", Options: c.Choices("role", recipientRoles...)}),
			c.Filter(ui.Field{Name: "recipient_type", Type: "select", Options: c.Choices("recipient.type", recipientTypes...)}),
			c.Filter(ui.Field{Name: "country", Label: c.Text("recipient.country"), Type: "select", Options: countries}),
			c.Filter(ui.Field{Name: "sort_by", Type: "select", Options: sorts}),
		)}
	p.Recipients.Empty = c.EmptyList(p.Filters, p.Recipients.Empty)
	p.Recipients.Heads = c.Sortable(p.Recipients.Heads, "name", "", "", "", "", "", "created")
	if c.Session.Manages() && len(found.Items) > 0 {
		p.Bulk = true
		p.Recipients.Heads = append([]ui.Column{{Text: c.Text("form.choose"), Class: "hide"}}, p.Recipients.Heads...)
		for i, r := range found.Items {
			tick := ui.Cell{Kind: "tick", Path: "to", ID: r.ID, Text: c.Text("recipients.tick", r.Name)}
			p.Recipients.Rows[i] = append([]ui.Cell{tick}, p.Recipients.Rows[i]...)
		}
	}
	err = addSearches(ctx, tx, c, &p.Filters)
	return ui.View{Template: "recipients", Title: c.Text("recipients.title"), Data: p}, err
}

// recipientTable lists recipients.
func recipientTable(c *ui.Request, all []payee.Recipient) ui.Table {
	t := ui.Table{Caption: c.Text("recipients.title"), Heads: c.Columns(
		"recipient.name|a", "recipient.role|d", "field.recipient_type|hide", "payroll.status|c", "recipient.country|hide",
		"field.external_id|hide", "recipient.since#|hide"),
		Empty: c.EmptyStep("users", "recipients.none", c.Session.Manages(), "recipients.new", "/recipients/new")}
	for _, r := range all {
		name := c.LinkCell(r.Name, recipientPath(r.ID))
		name.Kind = "person"
		if r.Email != "" {
			name.Lines = []ui.Cell{{Text: r.Email}}
		}
		t.Rows = append(t.Rows, []ui.Cell{
			name, {Text: c.RoleName(r.Role)}, {Text: c.Word("recipient.type", r.Type)},
			c.StateCell("recipient.status", r.Status),
			{Text: r.Country}, {Text: r.ExternalID}, {Text: c.FormatDate(r.Created), ISO: r.Created.UTC().Format("2006-01-02")},
		})
	}
	return t
}

type newRecipientPage struct {
	Fields []ui.Field
	Anyway string // the email address that another recipient has; to be accepted when the form is sent again
}

var (
	errEmailUsed    = apierr.New(apierr.Conflict, "email_used", "Someone in your list already has this email address.")
	errNotPaidThere = apierr.New(apierr.Invalid, "not_paid_there",
		"Nobody can be paid in this currency in this country. Choose another currency.")
)

// showNewRecipient renders the form for a recipient without an account.
func showNewRecipient(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	words := func(prefix string, values ...string) (all []ui.Option) {
		for _, v := range values {
			all = append(all, ui.Option{Value: v, Label: c.Word(prefix, v)})
		}
		return all
	}
	p := newRecipientPage{}
	if c.Problem != nil && c.Problem.Code == errEmailUsed.Code {
		p.Anyway = c.Form.Get("email")
	}
	paid := ui.Field{Name: "symbol", Label: c.Text("recipients.paid"), Hint: c.Text("recipients.paid.hint"),
		Type: "select", Value: c.Query("symbol"), Options: []ui.Option{{Label: c.Text("recipients.paid.later")}}}
	for _, a := range money.All() {
		if a.IsCrypto() && Setup(c).Payable(a, "") || !a.IsCrypto() && len(destination.Countries(a)) > 0 {
			paid.Options = append(paid.Options, ui.Option{Value: string(a), Label: string(a)})
		}
	}
	p.Fields = []ui.Field{
		c.Field(ui.Field{Name: "recipient_type", Type: "select", Options: words("recipient.type", recipientTypes...)}),
		c.Field(ui.Field{Name: "first_name", MaxLength: 100}),
		c.Field(ui.Field{Name: "last_name", MaxLength: 100}),
		c.Field(ui.Field{Name: "firm", MaxLength: 200}),
		c.CountryField(ui.Field{Name: "country", Label: c.Text("recipient.country"), Required: true}),
		c.Field(paid),
		c.Field(ui.Field{Name: "email", Type: "email", Label: c.Text("recipient.email"), MaxLength: 254}),
		c.Field(ui.Field{Name: "role", Type: "select", Options: words("role", recipientRoles...)}),
		c.Field(ui.Field{Name: "department", MaxLength: 100}),
		c.Field(ui.Field{Name: "external_id", MaxLength: 255}),
	}
	return ui.View{Template: "recipient_new", Title: c.Text("recipients.new"), Crumbs: peopleCrumbs(c), Data: p}, nil
}

// createRecipient adds a recipient without an account.
func createRecipient(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	value := func(name string) string { return strings.TrimSpace(c.Form.Get(name)) }
	if email := value("email"); email != "" && email != value("anyway") {
		same, err := payee.List(ctx, tx, c.Session.Principal(), payee.ListParams{Search: email})
		if err != nil {
			return ui.View{}, err
		}
		if slices.ContainsFunc(same.Items, func(r payee.Recipient) bool { return strings.EqualFold(r.Email, email) }) {
			return ui.View{}, errEmailUsed.At("body", "/email")
		}
	}
	symbol, code := value("symbol"), strings.ToUpper(value("country"))
	if a, known := money.Lookup(symbol); symbol != "" && country.Exists(code) && (!known ||
		!a.IsCrypto() && !slices.Contains(destination.Countries(a), code)) {
		return ui.View{}, errNotPaidThere.At("body", "/symbol")
	}
	r, err := payee.Create(ctx, tx, c.Sealer, c.Session.Principal(), payee.CreateParams{
		ExternalID: value("external_id"), Type: value("recipient_type"), Role: value("role"), Department: value("department"),
		Name: value("firm"),
		Profile: identity.Profile{Email: value("email"), FirstName: value("first_name"), LastName: value("last_name"),
			Country: code},
	})
	to := recipientPath(r.ID)
	if symbol != "" {
		to += "/destinations/new?" + url.Values{"symbol": {symbol}, "adding": {"1"}}.Encode()
	}
	return ui.View{Redirect: to, About: r.Name}, ui.RenameField(err, "/name", "/firm")
}

type recipientPage struct {
	payee.Recipient
	Path, RoleName, TypeName, Since, LastPaid string
	Theirs                                    bool // the recipient manages the destinations
	List                                      OwnDestinations
	SharedWith                                []ui.Cell // others who are paid at the same address
	Stopped                                   bool
	UnderReview                               bool // payments wait for a decision of the operator
	Payments                                  ui.Table
	Pager                                     ui.Pager // of Payments
}

// paymentsTo lists a page of the payments to a recipient, the latest first.
func paymentsTo(ctx context.Context, tx *db.Tx, c *ui.Request, r payee.Recipient) (ui.Table, ui.Pager, error) {
	t := ui.Table{Caption: c.Text("recipient.payments"), Empty: c.Empty("recipient.payments.none"),
		Heads: c.Columns("payroll.id|a", "payroll.status|c", "payroll.created#|d", "payment.amount#|b")}
	page := c.PageNumber()
	all, total, err := c.Payroll.Payments(ctx, tx, c.Session.Principal(), r.CompanyID, payroll.PaymentFilter{
		PayeeID: r.ID, Page: db.Page{Number: page, PerPage: ui.PerPage}})
	for _, m := range all {
		name := c.LinkCell(cmp.Or(m.ExternalID, c.Text("payroll.of", c.FormatDate(m.CreatedAt))), payrollPath(m.PayrollID))
		if m.Description != "" {
			name.Lines = []ui.Cell{{Text: m.Description}}
		}
		state := c.StateCell("payment.state", string(m.State))
		if m.Reason != "" {
			state.Lines = []ui.Cell{{Text: ReasonText(c, m.Reason)}}
		}
		t.Rows = append(t.Rows, []ui.Cell{name, state, c.TimeCell(m.CreatedAt), c.AmountCell(m.Amount)})
	}
	return t, c.Pager(db.Page{Number: page, PerPage: ui.PerPage}, total), err
}

// showRecipient renders a recipient with their destinations and the history of changes.
func showRecipient(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	r, err := payee.Get(ctx, tx, by, "", c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	p := recipientPage{
		Recipient: r, Path: recipientPath(r.ID), RoleName: c.RoleName(r.Role), TypeName: c.Word("recipient.type", r.Type),
		Since: c.FormatDate(r.Created), Stopped: r.Status == payee.Inactive,
	}
	if p.UnderReview, err = screening.Blocked(ctx, tx, r.CompanyID, r.ID); err != nil {
		return ui.View{}, err
	}
	if p.Payments, p.Pager, err = paymentsTo(ctx, tx, c, r); err != nil {
		return ui.View{}, err
	}
	if _, last, err := payroll.CountOpenPayments(ctx, tx, r.CompanyID, r.ID); err != nil {
		return ui.View{}, err
	} else if !last.IsZero() {
		p.LastPaid = c.FormatTime(last)
	}
	p.List, err = recipientPages.List(ctx, tx, c)
	if errors.Is(err, apierr.NotFoundErr) {
		p.Theirs, err = true, nil
	}
	if err != nil {
		return ui.View{}, err
	}
	if !p.Theirs {
		shared, err := destination.SharedAddresses(ctx, tx, r.CompanyID, r.ID)
		if err != nil {
			return ui.View{}, err
		}
		for _, s := range shared {
			p.SharedWith = append(p.SharedWith, c.LinkCell(s.Name, recipientPath(s.RecipientID)))
		}
	}
	return ui.View{Template: "recipient", Title: r.Name, State: c.StateCell("recipient.status", r.Status), Checks: true,
		Crumbs: peopleCrumbs(c), Data: p}, nil
}

// peopleCrumbs returns the link to the list of people.
func peopleCrumbs(c *ui.Request) []ui.Cell {
	return []ui.Cell{c.LinkCell(c.Text("recipients.title"), "/recipients")}
}

// DestinationName returns the masked destination with its currency.
func DestinationName(d destination.Destination) string {
	return strings.TrimSpace(string(d.Symbol) + " " + d.Hint())
}

func destinationTable(c *ui.Request, all []destination.Destination) ui.Table {
	t := ui.Table{Caption: c.Text("destinations.title"), Empty: c.Empty("destinations.none"),
		Heads: c.Columns("destination.where", "destination.network", "destination.part#", "payroll.created")}
	for _, d := range all {
		network := d.Network
		if d.Kind == destination.Fiat {
			network = strings.TrimSpace(d.Country + " " + destination.SchemeName(d))
		}
		where := ui.Cell{Text: DestinationName(d)}
		if !Setup(c).Payable(d.Symbol, d.Network) {
			where.Lines = []ui.Cell{{Text: c.Text("destination.unpaid"), Warn: true}}
		}
		if d.Fresh() {
			where.Lines = append(where.Lines, ui.Cell{Text: c.Text("destination.fresh")}, ui.CodeCell(d.Address))
		}
		if text := checkText(c, d); text != "" {
			where.Lines = append(where.Lines, ui.Cell{Text: text, Warn: !d.Check.Passed()})
		}
		t.Rows = append(t.Rows, []ui.Cell{where, {Text: network},
			{Text: partText(c, d), Kind: "number"}, c.TimeCell(d.Created)})
	}
	return t
}

// CheckText explains the check of a destination's bank account, "" if there is none.
func CheckText(c *ui.Request, d destination.Destination) string {
	if d.Check == nil && c.Payroll != nil && c.Payroll.Checks.Checked(d) {
		return c.Text("check.pending")
	}
	return checkText(c, d)
}

// checkText explains the check of a destination's bank account, "" without one.
func checkText(c *ui.Request, d destination.Destination) string {
	if d.Check == nil {
		return ""
	}
	switch d.Check.Result {
	case destination.CheckPending:
		if !d.Check.Until.IsZero() {
			return c.Text("check.waits", c.FormatTime(d.Check.Until))
		}
		return c.Text("check.pending")
	case destination.CheckAccepted:
		return c.Text("check.accepted")
	case destination.CheckReturned:
		return c.Text("check.returned", ReasonText(c, d.Check.Code))
	case destination.CheckMatch:
		return c.Text("output.name.match")
	case destination.CheckCloseMatch:
		if holder, err := d.Holder(c.Sealer); err == nil && holder != "" {
			return c.Text("output.name.close", holder)
		}
	case destination.CheckNoMatch, destination.CheckNotPossible:
		if d.Check.Result == destination.CheckNoMatch {
			return c.Text("output.name.none")
		}
	}
	return c.Text("output.name.unknown")
}

// maxChanges is the number of changes that the page lists.
const maxChanges = 50

// changeTable lists who changed a payee's destinations.
func changeTable(ctx context.Context, c *ui.Request, tx *db.Tx, by identity.Principal, owner string) (ui.Table, error) {
	t := ui.Table{Caption: c.Text("changes.title"), Empty: c.Empty("changes.none"),
		Heads: c.Columns("step.at", "changes.what", "destination.where", "changes.part", "changes.by")}
	some, _, err := destination.History(ctx, tx, by, owner, db.Page{PerPage: maxChanges})
	if err != nil {
		return t, err
	}
	for _, h := range some {
		before, after := stateOf(h.Before), stateOf(h.After)
		now := after
		if now.Symbol == "" {
			now = before
		}
		var part string
		switch {
		case before.Symbol == "":
			part = partText(c, after)
		case after.Symbol == "":
			part = partText(c, before)
		default:
			part = partText(c, before) + " → " + partText(c, after)
		}
		who := ui.Cell{Text: c.Word("credential", string(h.By.Kind))}
		if h.By.UserID != "" {
			who.Lines = []ui.Cell{ui.CodeCell(h.By.UserID)}
		} else if h.By.CredentialID != "" {
			who.Lines = []ui.Cell{ui.CodeCell(h.By.CredentialID)}
		}
		t.Rows = append(t.Rows, []ui.Cell{c.TimeCell(h.At), {Text: c.Word("change", h.Action)}, {Text: DestinationName(now)},
			{Text: part}, who})
	}
	return t, nil
}

// deactivateRecipient stops payments to a recipient.
func deactivateRecipient(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r, err := payee.Deactivate(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"))
	return ui.View{Redirect: recipientPath(r.ID)}, err
}

// reactivateRecipient allows payments to a recipient again.
func reactivateRecipient(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r, err := payee.Reactivate(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"))
	return ui.View{Redirect: recipientPath(r.ID)}, err
}

// maxTicked is the number of people on whom one action acts.
const maxTicked = 100

// actOnTicked pays or deactivates the people that are ticked in the list.
func actOnTicked(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	ids := c.Form["to"]
	if len(ids) == 0 {
		return ui.View{}, errNobodyTicked.At("body", "")
	}
	ids = ids[:min(len(ids), maxTicked)]
	if c.Form.Get("do") != "deactivate" {
		return ui.View{Redirect: "/payrolls/new?" + url.Values{"to": ids}.Encode()}, nil
	}
	for _, id := range ids {
		if _, err := payee.Deactivate(ctx, tx, c.Session.Principal(), "", id); err != nil {
			return ui.View{}, err
		}
	}
	return ui.View{Redirect: "/recipients"}, nil
}

var errNobodyTicked = apierr.New(apierr.Invalid, "nobody_ticked", "Select at least one person first.")
