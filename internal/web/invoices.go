package web

import (
	"context"
	"errors"
	"slices"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/payee"
)

var invoiceStates = []string{
	string(invoice.Sent), string(invoice.Overdue), string(invoice.InPayroll), string(invoice.PartiallyPaid), string(invoice.Paid), string(invoice.Draft), string(invoice.Void),
}

func invoicePath(id string) string { return "/invoices/" + id }

type invoicesPage struct {
	Filters  []field
	Invoices table
	Pager    pager
}

// listInvoices are the invoices that the company's people have written.
func listInvoices(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	f := invoice.Filter{Status: invoice.Status(c.among("status", invoiceStates)), From: c.askedDay("since"), To: c.askedDay("until"), Page: c.page(), PerPage: perPage}
	if !f.To.IsZero() {
		f.To = f.To.AddDate(0, 0, 1) // the day itself, too
	}
	all, total, err := invoice.OfCompany(ctx, tx, c.session.Principal(), f)
	if err != nil {
		return view{}, err
	}
	var ids []string
	for _, v := range all {
		ids = append(ids, v.UserID)
	}
	slices.Sort(ids)
	people, err := payee.Payees(ctx, tx, c.session.Company.ID, slices.Compact(ids))
	if err != nil {
		return view{}, err
	}
	t := table{Caption: c.text("invoices.title"), Empty: c.text("invoices.none"), Heads: c.heads("invoice.number", "invoice.by", "payroll.status", "payroll.total#", "invoice.paid#", "invoice.due")}
	for _, v := range all {
		by := people[v.UserID].Name
		if by == "" {
			by = v.UserID
		}
		state := v.Shown(tx.Now())
		t.Rows = append(t.Rows, []cell{
			c.link(v.Number, invoicePath(v.ID)), {Text: by}, {Text: c.word("invoice.state", string(state)), Warn: state == invoice.Overdue},
			c.amount(v.Total), c.amount(v.Paid), {Text: v.DueDate, ISO: v.DueDate},
		})
	}
	p := invoicesPage{Invoices: t, Pager: c.pager(f.Page, f.PerPage, total), Filters: []field{
		c.filter(field{Name: "status", Type: "select", Options: c.choices("invoice.state", invoiceStates...)}),
		c.filter(field{Name: "since", Type: "date"}),
		c.filter(field{Name: "until", Type: "date"}),
	}}
	return view{page: "invoices", title: c.text("invoices.title"), wide: true, data: p}, nil
}

type invoicePage struct {
	invoice.Invoice
	By, ByPath, State             string
	SubtotalText, TaxText, TotalT string
	PaidText, PayrollPath         string
	Lines                         table
	Theirs                        bool // its lines are its writer's alone
}

// showInvoice is one invoice. What it says line by line is shown of people for whom the company acts.
func showInvoice(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	by := c.session.Principal()
	v, err := invoice.OneOfCompany(ctx, tx, by, c.r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	p := invoicePage{Invoice: v, By: v.UserID, ByPath: recipientPath(v.UserID)}
	full, err := invoice.Detail(ctx, tx, c.Sealer, by, v.UserID, v.ID)
	switch {
	case errors.Is(err, apierr.NotFoundErr), errors.Is(err, invoice.ErrNotFound):
		p.Theirs = true
	case err != nil:
		return view{}, err
	default:
		p.Invoice = full
	}
	people, err := payee.Payees(ctx, tx, c.session.Company.ID, []string{v.UserID})
	if err != nil {
		return view{}, err
	}
	if who, ok := people[v.UserID]; ok {
		p.By = who.Name
	}
	p.State = c.word("invoice.state", string(v.Shown(tx.Now())))
	p.SubtotalText, p.TaxText, p.TotalT, p.PaidText = c.money(v.Subtotal), c.money(v.Tax), c.money(v.Total), c.money(v.Paid)
	if v.PayrollID != "" {
		p.PayrollPath = payrollPath(v.PayrollID)
	}
	p.Lines = table{Caption: c.text("invoice.lines"), Heads: c.heads("invoice.line", "invoice.quantity#", "invoice.price#", "invoice.tax#", "payment.amount#")}
	for _, it := range p.Items {
		p.Lines.Rows = append(p.Lines.Rows, []cell{
			{Text: it.Description}, {Text: c.number(it.Quantity), Kind: "number"}, {Text: c.number(it.UnitPrice), Kind: "number"},
			{Text: c.number(it.TaxRate) + "\u00a0%", Kind: "number"}, {Text: c.number(it.Amount), Kind: "number"},
		})
	}
	return view{page: "invoice", title: c.text("invoice.title", v.Number), wide: true, data: p}, nil
}
