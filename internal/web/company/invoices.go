package company

import (
	"context"
	"errors"
	"slices"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/web/ui"
)

var invoiceStates = []string{
	string(invoice.Sent), string(invoice.Overdue), string(invoice.InPayroll), string(invoice.PartiallyPaid),
	string(invoice.Paid), string(invoice.Draft), string(invoice.Void),
}

func invoicePath(id string) string { return "/invoices/" + id }

type invoicesPage struct {
	Filters  ui.Filters
	Invoices ui.Table
	Pager    ui.Pager
}

// listInvoices lists the invoices to the company.
func listInvoices(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	f := invoice.Filter{Status: invoice.Status(queryOneOf(c, "status", invoiceStates)), From: c.QueryDate("since"),
		To: c.QueryDate("until"), Page: c.Page()}
	if !f.To.IsZero() {
		f.To = f.To.AddDate(0, 0, 1) // include the whole day
	}
	all, total, err := invoice.OfCompany(ctx, tx, c.Session.Principal(), f)
	if err != nil {
		return ui.View{}, err
	}
	t, err := invoiceTable(ctx, tx, c, all)
	if err != nil {
		return ui.View{}, err
	}
	p := invoicesPage{Invoices: t, Pager: c.Pager(f.Page, total), Filters: c.FilterBar("/invoices",
		c.Filter(ui.Field{Name: "status", Type: "select", Options: c.Choices("invoice.state", invoiceStates...)}),
		c.Filter(ui.Field{Name: "since", Type: "date"}),
		c.Filter(ui.Field{Name: "until", Type: "date"}),
	)}
	p.Invoices.Empty = c.EmptyList(p.Filters, c.EmptyStep("file-text", "invoices.none", c.Session.Manages(), "bill.new",
		"/invoices/new"))
	err = addSearches(ctx, tx, c, &p.Filters)
	return ui.View{Template: "invoices", Title: c.Text("invoices.title"), Data: p}, err
}

// invoiceTable lists invoices to the company.
func invoiceTable(ctx context.Context, tx *db.Tx, c *ui.Request, all []invoice.Invoice) (ui.Table, error) {
	var ids []string
	for _, v := range all {
		ids = append(ids, v.UserID)
	}
	slices.Sort(ids)
	people, err := payee.Payees(ctx, tx, c.Session.Company.ID, slices.Compact(ids))
	if err != nil {
		return ui.Table{}, err
	}
	t := ui.Table{Caption: c.Text("invoices.title"), Heads: c.Columns("invoice.by|a", "invoice.number|hide",
		"payroll.status|c", "invoice.due|d", "invoice.paid#|hide", "payroll.total#|b")}
	for _, v := range all {
		by := people[v.UserID].Name
		if by == "" {
			by = v.UserID
		}
		t.Rows = append(t.Rows, []ui.Cell{
			{Text: by, Kind: "person", Path: c.URL(invoicePath(v.ID)), Lines: []ui.Cell{{Text: v.Number}}},
			{Text: v.Number},
			c.StateCell("invoice.state", string(v.Shown(tx.Now()))), {Text: v.DueDate, ISO: v.DueDate},
			c.AmountCell(v.Paid), c.AmountCell(v.Total),
		})
	}
	return t, nil
}

type invoicePage struct {
	invoice.Invoice
	By, ByPath                    string
	SubtotalText, TaxText, TotalT string
	PaidText, PayrollPath         string
	Lines                         ui.Table
	Theirs                        bool // only the writer may read the lines
	Voidable                      bool
}

// showInvoice renders an invoice. Its lines are shown only if the company may act for the writer.
func showInvoice(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	v, err := invoice.OneOfCompany(ctx, tx, by, c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	p := invoicePage{Invoice: v, By: v.UserID, ByPath: recipientPath(v.UserID)}
	full := v
	if v.Bill() {
		err = invoice.OpenBill(c.Sealer, &full)
		p.Voidable = c.Session.Manages() && v.Status == invoice.Sent
	} else {
		full, err = invoice.Detail(ctx, tx, c.Sealer, by, v.UserID, v.ID)
	}
	switch {
	case errors.Is(err, apierr.NotFoundErr), errors.Is(err, invoice.ErrNotFound):
		p.Theirs = true
	case err != nil:
		return ui.View{}, err
	default:
		p.Invoice = full
	}
	people, err := payee.Payees(ctx, tx, c.Session.Company.ID, []string{v.UserID})
	if err != nil {
		return ui.View{}, err
	}
	if who, ok := people[v.UserID]; ok {
		p.By = who.Name
	}
	p.SubtotalText, p.TaxText, p.TotalT, p.PaidText = c.FormatMoney(v.Subtotal), c.FormatMoney(v.Tax),
		c.FormatMoney(v.Total), c.FormatMoney(v.Paid)
	if v.PayrollID != "" {
		p.PayrollPath = payrollPath(v.PayrollID)
	}
	p.Lines = ui.Table{Caption: c.Text("invoice.lines"),
		Heads: c.Columns("invoice.line", "invoice.quantity#", "invoice.price#", "invoice.tax#", "payment.amount#")}
	for _, it := range p.Items {
		p.Lines.Rows = append(p.Lines.Rows, []ui.Cell{
			{Text: it.Description}, {Text: c.FormatNumber(it.Quantity), Kind: "number"},
			{Text: c.FormatNumber(it.UnitPrice), Kind: "number"},
			{Text: c.FormatNumber(it.TaxRate) + "\u00a0%", Kind: "number"}, {Text: c.FormatNumber(it.Amount), Kind: "number"},
		})
	}
	return ui.View{Template: "invoice", Title: c.Text("invoice.title", v.Number),
		State:  c.StateCell("invoice.state", string(v.Shown(tx.Now()))),
		Crumbs: []ui.Cell{c.LinkCell(c.Text("invoices.title"), "/invoices")}, Data: p}, nil
}
