package company

import (
	"context"
	"regexp"
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
	for _, find := range []search{findPeople, findPayrolls, findClaims, findInvoices, findTransactions} {
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
		payee.ListParams{Search: text, Page: db.Page{PerPage: maxFound}})
	return recipientTable(c, found.Items), err
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

// minAddress is the length of the shortest address or transaction ID.
const minAddress = 20

// findTransactions finds the payments of a transaction, and the deposits of a transaction or to an address.
func findTransactions(ctx context.Context, tx *db.Tx, c *ui.Request, text string) (ui.Table, error) {
	t := ui.Table{Caption: c.Text("search.transactions"),
		Heads: c.Columns("search.payment|a", "payroll.status|c", "payment.amount#|b", "step.at#|d")}
	company := c.Session.Company.ID
	outs, err := payout.ByTransaction(ctx, tx, company, strings.ToLower(text), maxFound)
	for _, o := range outs {
		name := ui.Cell{Text: o.PayrollID}
		if path := objectPath(o.PayrollID); path != "" {
			name = c.LinkCell(o.PayrollID, path)
		}
		t.Rows = append(t.Rows, []ui.Cell{name, c.StateCell("output.state", string(o.State)), c.AmountCell(o.Amount),
			c.TimeCell(o.UpdatedAt)})
	}
	if err != nil || len(text) < minAddress {
		return t, err
	}
	ins, err := deposit.At(ctx, tx, company, strings.ToLower(text), text, maxFound)
	for _, d := range ins {
		if path := objectPath(d.ObjectID); path != "" {
			t.Rows = append(t.Rows, []ui.Cell{c.LinkCell(d.ObjectID, path), c.StateCell("deposit.state", string(d.State)),
				c.AmountCell(d.Amount), c.TimeCell(d.FirstSeen)})
		}
	}
	return t, err
}
