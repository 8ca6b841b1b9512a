package company

import (
	"context"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/invoice/payer"
	"github.com/stipend/stipend/internal/invoice/vendorbill"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/web/ui"
)

const (
	openPath    = "/payrolls/open"
	newBillPath = "/invoices/new"
	openPerPage = 100 // invoices that the form lists
)

var errNoneTicked = apierr.New(apierr.Invalid, "nothing_to_pay", "Tick at least one invoice or bill.")

// openPage lists what is open in one currency, to be ticked.
type openPage struct {
	Steps    []ui.Cell
	Sums     []openSum
	Currency string
	Due      []openInvoice
	Terms    []ui.Field
	Pager    ui.Pager
}

// openSum is what is open in a currency.
type openSum struct {
	Path, Total, Count string
	Current            bool
}

// openInvoice is an invoice or a bill with its check box.
type openInvoice struct {
	ID, By, Number, To, Due, Amount, Path string
	Overdue, Bill, Ticked                 bool
}

// showOpen lists the open invoices and bills in one currency.
func showOpen(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	sums, err := invoice.OwedBy(ctx, tx, by)
	if err != nil {
		return ui.View{}, err
	}
	p := openPage{Steps: creationSteps(c, 0), Currency: c.Query("currency")}
	if c.Form != nil {
		p.Currency = c.Form.Get("currency")
	}
	if len(sums) > 0 && !slices.ContainsFunc(sums, func(o invoice.Owed) bool {
		return string(o.Due.Asset()) == p.Currency
	}) {
		p.Currency = string(sums[0].Due.Asset())
	}
	for _, o := range sums {
		currency := string(o.Due.Asset())
		p.Sums = append(p.Sums, openSum{c.URL(openPath + "?currency=" + currency), c.FormatMoney(o.Due),
			c.FormatCount(o.Count), currency == p.Currency})
	}
	f := invoice.Filter{Open: true, Currency: money.Asset(p.Currency), Page: db.Page{Number: c.PageNumber(),
		PerPage: openPerPage}}
	all, total, err := invoice.OfCompany(ctx, tx, by, f)
	if err != nil {
		return ui.View{}, err
	}
	if p.Due, err = openInvoices(ctx, tx, c, all); err != nil {
		return ui.View{}, err
	}
	if p.Terms, err = terms(ctx, c, tx); err != nil {
		return ui.View{}, err
	}
	p.Terms = append(p.Terms[1:], payDayFields(c)...) // the currency is that of the invoices
	p.Pager = c.Pager(f.Page, total)
	return ui.View{Template: "open", Title: c.Text("open.title"), Lead: c.Text("open.lead"), Crumbs: payrollCrumbs(c),
		Data: p}, nil
}

func openInvoices(ctx context.Context, tx *db.Tx, c *ui.Request, all []invoice.Invoice) (due []openInvoice, err error) {
	var ids []string
	for _, v := range all {
		ids = append(ids, v.UserID)
	}
	slices.Sort(ids)
	people, err := payee.Payees(ctx, tx, c.Session.Company.ID, slices.Compact(ids))
	if err != nil {
		return nil, err
	}
	for _, v := range all {
		left, err := v.Due()
		if err != nil {
			return nil, err
		}
		o := openInvoice{ID: v.ID, By: people[v.UserID].Name, Number: v.Number, Due: v.DueDate,
			Amount: c.FormatMoney(left), Path: c.URL(invoicePath(v.ID)), Bill: v.Bill(),
			Overdue: v.Shown(tx.Now()) == invoice.Overdue, Ticked: slices.Contains(c.Form["invoice"], v.ID)}
		if !o.Bill {
			to, err := payer.Get(ctx, tx, v.UserID, v.PayerID)
			if err != nil {
				return nil, err
			}
			if to.Name != c.Session.Company.Name {
				o.To = to.Name
			}
		}
		due = append(due, o)
	}
	return due, nil
}

// previewOpen shows a preview of a payroll that pays the ticked invoices and bills.
func previewOpen(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	ticked := c.Form["invoice"]
	if len(ticked) == 0 {
		return ui.View{}, errNoneTicked.At("body", "")
	}
	items, currency, err := payroll.ToPay(ctx, tx, c.Session.Company.ID, ticked)
	if err != nil {
		return ui.View{}, ui.WholeFormError(err)
	}
	d := draftTerms(c)
	d.Currency = currency
	for _, it := range items {
		d.Items = append(d.Items, draftItem{Payee: it.UserID, Amount: it.AmountText, Invoice: it.InvoiceID})
	}
	return preview(ctx, c, tx, d, 0, func(int, string) string { return "" })
}

type newBillPage struct {
	Fields []ui.Field
	File   ui.Field
	Nobody bool // the company has no vendor
}

// maxVendors is the number of vendors that the form for a bill lists.
const maxVendors = 100

// showNewBill renders the form for a bill of a vendor.
func showNewBill(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	vendor := ui.Field{Name: "vendor_id", Type: "select", Required: true, Value: c.Query("vendor"),
		Options: []ui.Option{{Value: "", Label: c.Text("form.choose")}}}
	listed := map[string]bool{}
	for _, choice := range []payee.ListParams{{Role: payee.Vendor}, {Type: payee.TypeCompany}} {
		choice.SortBy, choice.Page = "name", db.Page{PerPage: maxVendors}
		found, err := payee.List(ctx, tx, c.Session.Principal(), choice)
		if err != nil {
			return ui.View{}, err
		}
		for _, r := range found.Items {
			if !listed[r.ID] && r.Status != payee.Inactive {
				listed[r.ID] = true
				vendor.Options = append(vendor.Options, ui.Option{Value: r.ID, Label: r.Name})
			}
		}
	}
	var currencies []ui.Option
	for _, a := range money.All() {
		if !a.IsCrypto() {
			currencies = append(currencies, ui.Option{Value: string(a), Label: string(a)})
		}
	}
	c.Labels = map[string]string{"amount": c.Text("payment.amount"), "description": c.Text("invoice.line"),
		"document": c.Text("bill.document")}
	p := newBillPage{Nobody: len(listed) == 0, Fields: []ui.Field{
		c.Field(vendor),
		c.Field(ui.Field{Name: "bill_number", Required: true, MaxLength: 40}),
		c.Field(ui.Field{Name: "amount", Label: c.Text("payment.amount"), Required: true, MaxLength: 30,
			InputMode: "decimal"}),
		c.Field(ui.Field{Name: "currency", Type: "select", Value: string(money.USD), Options: currencies}),
		c.Field(ui.Field{Name: "due_date", Type: "date"}),
		c.Field(ui.Field{Name: "description", Label: c.Text("invoice.line"), Required: true, MaxLength: 500}),
	}, File: c.Field(ui.Field{Name: "document", Type: "file", Label: c.Text("bill.document"), Accept: "application/pdf"})}
	return ui.View{Template: "bill_new", Title: c.Text("bill.new"), Lead: c.Text("bill.new.lead"),
		Crumbs: []ui.Cell{c.LinkCell(c.Text("invoices.title"), "/invoices")}, Data: p}, nil
}

// createBill records a bill of a vendor, with its PDF if the form has one.
func createBill(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	value := func(name string) string { return strings.TrimSpace(c.Form.Get(name)) }
	b := invoice.BillParams{VendorID: value("vendor_id"), Number: value("bill_number"), Currency: value("currency"),
		AmountText: c.PlainAmount(value("amount"), money.Asset(value("currency"))), DueDate: value("due_date"),
		Description: value("description")}
	text, err := c.Picture("document")
	if err != nil {
		return ui.View{}, err
	}
	var file vendorbill.File
	if text != "" {
		if file, err = c.Vendor.Read(ctx, text); err != nil {
			return ui.View{}, billError(err)
		}
	}
	var v invoice.Invoice
	err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		by, bill := c.Session.Principal(), b
		if text != "" {
			d, err := c.Vendor.Upload(ctx, tx, by, "", file)
			if err != nil {
				return err
			}
			bill.Document = d.ID
		}
		v, err = c.Vendor.CreateBill(ctx, tx, by, bill)
		return err
	})
	return ui.View{Redirect: invoicePath(v.ID)}, billError(err)
}

// billError returns an error of a bill at the field of its form.
func billError(err error) error {
	err = ui.RenameField(ui.RenameField(err, "/base64_document", "/document"), "/number", "/bill_number")
	if f, ok := apierr.As(err); ok && len(f.Fields) == 0 && f.Code == vendorbill.ErrTooLarge.Code {
		return f.At("body", "/document")
	}
	return ui.FormError(err)
}

// billDocument is the document of a bill.
func billDocument(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	v, err := invoice.OneOfCompany(ctx, tx, by, c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	if v.Document == "" {
		return ui.View{}, ui.ErrNoPage
	}
	f, err := c.Vendor.File(ctx, tx, by, v.Document)
	name := "bill-" + v.ID + ".pdf"
	if f.MediaType == vendorbill.JPEG {
		name = "bill-" + v.ID + ".jpg"
	}
	return ui.View{File: &ui.File{Name: name, ContentType: f.MediaType, Data: f.Data}}, err
}

// voidBill voids a bill that is not paid.
func voidBill(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	v, err := invoice.VoidBill(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	return ui.View{Redirect: invoicePath(v.ID)}, ui.WholeFormError(err)
}
