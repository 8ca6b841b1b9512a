package company

import (
	"context"
	"html"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/paymentlink"
	"github.com/stipend/stipend/internal/web/ui"
)

const linksPath = claimsPath + "/links"

type linksPage struct {
	Links ui.Table
	Pager ui.Pager
}

// listLinks lists the payment links, newest first.
func listLinks(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	all, total, err := c.Links.List(ctx, tx, c.Session.Principal(), "",
		paymentlink.Filter{Page: c.Page()})
	if err != nil {
		return ui.View{}, err
	}
	p := linksPage{Pager: c.Pager(c.Page(), total), Links: ui.Table{
		Caption: c.Text("links.title"), Empty: c.EmptyStep("link", "links.none",
			c.Session.Manages(), "links.new", linksPath+"/new"),
		Heads: c.Columns("links.name|a", "payroll.status|c", "links.paid#|hide", "payment.amount#|b", "payroll.created#|d")}}
	for _, l := range all {
		name := c.LinkCell(l.Title, linksPath+"/"+l.ID)
		name.Lines = []ui.Cell{{Text: l.ID, Kind: "id"}}
		p.Links.Rows = append(p.Links.Rows, []ui.Cell{name, linkState(c, tx, l), {Text: linkCount(c, l), Kind: "number"},
			linkAmount(c, l), c.TimeCell(l.CreatedAt)})
	}
	return ui.View{Template: "links", Title: c.Text("links.title"), Crumbs: claimCrumbs(c), Data: p}, nil
}

func linkState(c *ui.Request, tx *db.Tx, l paymentlink.Link) ui.Cell {
	state := "inactive"
	switch {
	case l.Open(tx.Now()):
		state = "open"
	case l.Active:
		state = "ended"
	}
	return c.StateCell("link.state", state)
}

// linkCount returns the number of payments, with the limit.
func linkCount(c *ui.Request, l paymentlink.Link) string {
	if l.MaxPayments == 0 {
		return c.FormatCount(l.Paid)
	}
	return c.Text("links.of", c.FormatCount(l.Paid), c.FormatCount(l.MaxPayments))
}

func linkAmount(c *ui.Request, l paymentlink.Link) ui.Cell {
	if l.Amount.Sign() == 0 {
		return ui.Cell{Text: c.Text("links.any", string(l.Currency)), Kind: "number"}
	}
	return c.AmountCell(l.Amount)
}

// showNewLink renders the form for a payment link.
func showNewLink(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	field := func(name string, required bool, most int) ui.Field {
		label := c.Text("links.field." + name)
		c.Labels = withLabel(c.Labels, name, label)
		f := ui.Field{Name: name, Label: label, Required: required, MaxLength: most}
		if key := "links.field." + name + ".hint"; c.HasText(key) {
			f.Hint = c.Text(key)
		}
		return c.Field(f)
	}
	currency := c.Field(ui.Field{Name: "denomination_currency", Label: c.Text("field.currency"), Type: "select",
		Options: ui.ClaimCurrencies(), Value: string(money.USD)})
	funding := c.Field(ui.Field{Name: "funding_currency", Label: c.Text("claim.funding"), Type: "select",
		Options: fundingCurrencies(c)})
	ends := field("ends_at", false, 0)
	ends.Type = "date"
	decimal := func(name string, most int) ui.Field {
		f := field(name, false, most)
		f.InputMode = "decimal"
		return f
	}
	most := field("max_payments", false, 7)
	most.InputMode = "numeric"
	return ui.View{Template: "claim_form", Title: c.Text("links.new"), Lead: c.Text("links.new.lead"),
		Crumbs: linkCrumbs(c), Data: claimForm{Path: linksPath + "/new", Send: c.Text("links.create"),
			Next: nextSteps(c, "claims.next.link"), Groups: []fieldGroup{
				{Title: c.Text("claims.group.payment"), Fields: []ui.Field{field("title", true, paymentlink.MaxTitle),
					field("description", false, paymentlink.MaxDescription), decimal("amount", 40), currency}},
				{Title: c.Text("links.group.choice"), Folded: true, Fields: []ui.Field{decimal("min_amount", 40),
					decimal("max_amount", 40), field("suggested_amounts", false, 200)}},
				{Title: c.Text("links.group.limits"), Folded: true, Fields: []ui.Field{funding, most, ends,
					field("redirect_url", false, 2000)}},
			}}}, nil
}

func linkCrumbs(c *ui.Request) []ui.Cell {
	return append(claimCrumbs(c), c.LinkCell(c.Text("links.title"), linksPath))
}

// createLink creates a payment link.
func createLink(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	value := func(name string) string { return strings.TrimSpace(c.Form.Get(name)) }
	amount := func(text string) string { return c.PlainAmount(text, money.Asset(value("denomination_currency"))) }
	p := paymentlink.Params{
		Title: value("title"), Description: value("description"), Currency: value("denomination_currency"),
		Funding: value("funding_currency"),
		Amount:  amount(value("amount")), Min: amount(value("min_amount")), Max: amount(value("max_amount")),
		RedirectURL: value("redirect_url"),
	}
	for text := range strings.FieldsSeq(value("suggested_amounts")) {
		p.Suggested = append(p.Suggested, amount(text))
	}
	if text := value("max_payments"); text != "" {
		var err error
		if p.MaxPayments, err = strconv.ParseInt(text, 10, 64); err != nil {
			p.MaxPayments = -1 // refused, as any number out of range
		}
	}
	if text := value("ends_at"); text != "" {
		at, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return ui.View{}, errLinkEnd
		}
		p.EndsAt = at.AddDate(0, 0, 1) // include the whole day
	}
	l, err := c.Links.Create(ctx, tx, c.Session.Principal(), p)
	return ui.View{Redirect: linksPath + "/" + l.ID}, ui.FormConflict(err)
}

var errLinkEnd = apierr.New(apierr.Invalid, "invalid_parameter", "Enter a date.").At("body", "/ends_at")

type linkPage struct {
	Path, URL, Amount, Paid, Reserved, Bounds, Ends string
	Active                                          bool
	Redirect                                        ui.Field
	QR                                              template.HTML
	Button, Inline                                  ui.Snippet
	Claims                                          ui.Table
	Pager                                           ui.Pager
}

// showLink renders a payment link with its address, code and claims.
func showLink(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	l, err := c.Links.Get(ctx, tx, by, "", c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	all, total, err := c.Claims.List(ctx, tx, by, "", claim.Filter{LinkID: l.ID, Page: c.Page()})
	if err != nil {
		return ui.View{}, err
	}
	p := linkPage{Path: linksPath + "/" + l.ID, URL: c.Links.URL(l.ID), Amount: linkAmount(c, l).Text,
		Paid: linkCount(c, l), Reserved: c.FormatCount(l.Reserved), Active: l.Active,
		Pager: c.Pager(c.Page(), total), Claims: ui.Table{
			Caption: c.Text("claims.title"), Empty: c.Empty("recipient.payments.none"), Heads: c.Columns(
				"claim.order|a", "payroll.status|c", "payment.amount#|b", "payroll.created#|d")}}
	if p.QR, err = ui.QRCode(p.URL); err != nil {
		return ui.View{}, err
	}
	label := c.Text("links.field.redirect_url")
	c.Labels = withLabel(c.Labels, "redirect_url", label)
	p.Redirect = c.Field(ui.Field{Name: "redirect_url", Label: label, Value: l.RedirectURL, MaxLength: 2000})
	p.Button = c.Snippet("copy-button", "links.button", c.CheckoutCode(payButton(l, p.URL)))
	p.Inline = c.Snippet("copy-inline", "links.inline",
		c.CheckoutCode(`<a href="`+p.URL+`" data-stipend="inline">`+html.EscapeString(l.Title)+`</a>`))
	if !l.EndsAt.IsZero() {
		p.Ends = c.FormatTime(l.EndsAt)
	}
	for _, one := range all {
		p.Claims.Rows = append(p.Claims.Rows, []ui.Cell{c.LinkCell(one.ID, claimPath(one.ID)), claimState(c, one),
			c.AmountCell(one.Amount), c.TimeCell(one.CreatedAt)})
	}
	return ui.View{Template: "link", Title: l.Title, Lead: l.Description, State: linkState(c, tx, l),
		Crumbs: linkCrumbs(c), Data: p}, nil
}

// payButton returns HTML that leads to a link without a script: a link, or a form if the payer chooses the amount.
func payButton(l paymentlink.Link, address string) string {
	title := html.EscapeString(l.Title)
	if l.Amount.Sign() > 0 {
		return `<a href="` + address + `" data-stipend>` + title + `</a>`
	}
	amount := "20"
	if len(l.Suggested) > 0 {
		amount = l.Suggested[0].String()
	}
	return `<form action="` + address + `" data-stipend>` + "\n" +
		`  <input type="hidden" name="amount" value="` + amount + `">` + "\n  <button>" + title + "</button>\n</form>"
}

// switchLink activates or deactivates a payment link.
func switchLink(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	active := c.Form.Get("active") == "true"
	l, err := c.Links.Change(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"),
		paymentlink.Change{Active: &active})
	return ui.View{Redirect: linksPath + "/" + l.ID}, ui.FormConflict(err)
}

// changeLinkRedirect changes the URL to which the checkout leads after the payment.
func changeLinkRedirect(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	address := strings.TrimSpace(c.Form.Get("redirect_url"))
	l, err := c.Links.Change(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"),
		paymentlink.Change{RedirectURL: &address})
	return ui.View{Redirect: linksPath + "/" + l.ID}, ui.FormConflict(err)
}
