package company

import (
	"cmp"
	"context"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/withdrawal"
)

// Limits of a search.
const (
	maxSearch = 100 // characters of the text
	maxFound  = 10  // results of a kind
)

type searchPage struct {
	Query   string
	Results []ui.Table
}

// search finds one kind of object. It returns a table without rows if it finds none.
type search func(ctx context.Context, tx *db.Tx, c *ui.Request, text string) (ui.Table, error)

// showSearch renders what matches a text: people, payrolls, claims, invoices, and payments by amount or transaction.
// The ID of an object leads to its page.
func showSearch(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	text := strings.TrimSpace(c.Query(ui.SearchField))
	if r := []rune(text); len(r) > maxSearch {
		text = string(r[:maxSearch])
	}
	v := ui.View{Template: "search", Title: c.Text("search.title")}
	p := searchPage{Query: text}
	if text == "" {
		v.Data = p
		return v, nil
	}
	if path := objectPath(text); path != "" {
		return ui.View{Redirect: path}, nil
	}
	for _, find := range []search{findPeople, findPayments, findPayrolls, findClaims, findInvoices, findTransactions} {
		t, err := find(ctx, tx, c, text)
		if err != nil {
			return ui.View{}, err
		}
		if len(t.Rows) > 0 {
			p.Results = append(p.Results, t)
		}
	}
	v.Data = p
	return v, nil
}

// wholeID matches a complete ID.
var wholeID = regexp.MustCompile(`^[a-z]{3}_[0-9a-z]{26}$`)

// objectPath returns the path of the page of an object with an ID, or "" if the text is no such ID.
func objectPath(id string) string {
	switch {
	case !wholeID.MatchString(id):
		return ""
	case strings.HasPrefix(id, "prl_"):
		return payrollPath(id)
	case claim.IsClaim(id):
		return claimPath(id)
	case invoice.Is(id):
		return invoicePath(id)
	case withdrawal.IsWithdrawal(id):
		return withdrawalsPath + "/" + id
	}
	return ""
}

func findPeople(ctx context.Context, tx *db.Tx, c *ui.Request, text string) (ui.Table, error) {
	found, err := payee.List(ctx, tx, c.Session.Principal(),
		payee.ListParams{Search: text, SortBy: "name", Page: db.Page{PerPage: maxFound}})
	slices.SortStableFunc(found.Items, func(a, b payee.Recipient) int {
		return cmp.Compare(distance(a.Name, text), distance(b.Name, text))
	})
	return recipientTable(c, found.Items), err
}

// distance returns 0 if a name is the text, 1 if it starts with it, and 2 otherwise. Case does not matter.
func distance(name, text string) int {
	switch name, text = strings.ToLower(name), strings.ToLower(text); {
	case name == text:
		return 0
	case strings.HasPrefix(name, text):
		return 1
	}
	return 2
}

func findPayrolls(ctx context.Context, tx *db.Tx, c *ui.Request, text string) (ui.Table, error) {
	by := c.Session.Principal()
	all, _, err := c.Payroll.List(ctx, tx, by, "", payroll.Filter{Text: text, Page: db.Page{PerPage: maxFound}})
	if err != nil {
		return ui.Table{}, err
	}
	if len(all) == 0 {
		all, _, err = c.Payroll.List(ctx, tx, by, "",
			payroll.Filter{Amount: c.PlainAmount(text, money.USD), Page: db.Page{PerPage: maxFound}})
		if fault, ok := apierr.As(err); ok && fault.Kind == apierr.Invalid {
			err = nil // the text is no amount
		}
	}
	return payrollTable(c, c.Text("payrolls.title"), all), err
}

func findClaims(ctx context.Context, tx *db.Tx, c *ui.Request, text string) (ui.Table, error) {
	all, _, err := c.Claims.List(ctx, tx, c.Session.Principal(), "", claim.Filter{Search: text,
		Page: db.Page{PerPage: maxFound}})
	return claimTable(c, all), err
}

func findInvoices(ctx context.Context, tx *db.Tx, c *ui.Request, text string) (ui.Table, error) {
	all, _, err := invoice.OfCompany(ctx, tx, c.Session.Principal(), invoice.Filter{Number: text,
		Page: db.Page{PerPage: maxFound}})
	if err != nil {
		return ui.Table{}, err
	}
	return invoiceTable(ctx, tx, c, all)
}

// findPayments finds the payments of an amount.
func findPayments(ctx context.Context, tx *db.Tx, c *ui.Request, text string) (ui.Table, error) {
	t := ui.Table{Caption: c.Text("recipient.payments"),
		Heads: c.Columns("recipient.name|a", "payroll.status|c", "payment.amount#|b", "payroll.id|e", "payroll.created#|d")}
	amount := c.PlainAmount(text, money.USD)
	if strings.Trim(amount, "0123456789.") != "" {
		return t, nil
	}
	all, _, err := c.Payroll.Payments(ctx, tx, c.Session.Principal(), "", payroll.PaymentFilter{Amount: amount,
		Page: db.Page{PerPage: maxFound}})
	if fault, ok := apierr.As(err); ok && fault.Kind == apierr.Invalid {
		return t, nil // the text is no amount
	}
	if err != nil {
		return t, err
	}
	var ids []string
	for _, m := range all {
		ids = append(ids, m.PayeeID)
	}
	slices.Sort(ids)
	people, err := payee.Payees(ctx, tx, c.Session.Company.ID, slices.Compact(ids))
	if err != nil {
		return t, err
	}
	for _, m := range all {
		who := people[m.PayeeID].Name
		name := c.LinkCell(cmp.Or(who, m.PayeeID), payrollPath(m.PayrollID)+"?search="+url.QueryEscape(who))
		name.Kind = "person"
		t.Rows = append(t.Rows, []ui.Cell{name, c.StateCell("payment.state", string(m.State)), c.AmountCell(m.Amount),
			c.LinkCell(cmp.Or(m.ExternalID, c.Text("payroll.of", c.FormatDate(m.CreatedAt))), payrollPath(m.PayrollID)),
			c.TimeCell(m.CreatedAt)})
	}
	return t, nil
}

// partOfTransaction matches a part of an address or transaction ID that is long enough to search for.
var partOfTransaction = regexp.MustCompile(`^[0-9A-Za-z]{8,100}$`)

// findTransactions finds the payments and deposits whose transaction ID or address contains the text. A text without a
// digit is a name.
func findTransactions(ctx context.Context, tx *db.Tx, c *ui.Request, text string) (ui.Table, error) {
	t := ui.Table{Caption: c.Text("search.transactions"),
		Heads: c.Columns("search.payment|a", "payroll.status|c", "payment.amount#|b", "step.at#|d")}
	company := c.Session.Company.ID
	if !partOfTransaction.MatchString(text) || !strings.ContainsAny(text, "0123456789") {
		return t, nil
	}
	outs, err := payout.Matching(ctx, tx, company, text, maxFound)
	if err != nil {
		return t, err
	}
	for _, o := range outs {
		name := ui.Cell{Text: o.PayrollID}
		if path := objectPath(o.PayrollID); path != "" {
			name = c.LinkCell(o.PayrollID, path)
		}
		if o.Address != "" {
			name.Lines = append(name.Lines, ui.CodeCell(o.Address))
		}
		t.Rows = append(t.Rows, []ui.Cell{name, c.StateCell("output.state", string(o.State)), c.AmountCell(o.Amount),
			c.TimeCell(o.UpdatedAt)})
	}
	ins, err := deposit.Matching(ctx, tx, company, text, maxFound)
	for _, d := range ins {
		if path := objectPath(d.ObjectID); path != "" {
			t.Rows = append(t.Rows, []ui.Cell{c.LinkCell(d.ObjectID, path), c.StateCell("deposit.state", string(d.State)),
				c.AmountCell(d.Amount), c.TimeCell(d.FirstSeen)})
		}
	}
	return t, err
}
