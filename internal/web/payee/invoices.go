package payee

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/invoice/payer"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/web/company"
	"github.com/stipend/stipend/internal/web/ui"
)

const (
	invoicesPath = accountPath + "/invoices"
	invoiceRows  = 5 // lines that the form has
	// invoiceRowsShown is the number of lines that are visible when the form opens.
	invoiceRowsShown = 2
)

func invoicePath(id string) string { return invoicesPath + "/" + id }

// invoiceStates are the states by which the list can be filtered.
var invoiceStates = []string{string(invoice.Sent), string(invoice.Overdue), string(invoice.InPayroll),
	string(invoice.PartiallyPaid), string(invoice.Paid), string(invoice.Void)}

type invoicesPage struct {
	Filters  ui.Filters
	Invoices ui.Table
	Pager    ui.Pager
}

// listInvoices lists the invoices that the person has sent.
func listInvoices(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	f := invoice.Filter{Page: c.Page()}
	if status := c.Query("status"); slices.Contains(invoiceStates, status) {
		f.Status = invoice.Status(status)
	}
	all, total, err := invoice.List(ctx, tx, self(c), "", f)
	if err != nil {
		return ui.View{}, err
	}
	t := ui.Table{Caption: c.Text("pay.invoices"), Empty: c.EmptyStep("file-text", "pay.invoices.none", true,
		"invoice.new", invoicesPath+"/new"),
		Heads: c.Columns("invoice.to|a", "payroll.status|c", "invoice.due|d", "payroll.total#|b")}
	for _, v := range all {
		to, err := payer.Get(ctx, tx, v.UserID, v.PayerID)
		if err != nil {
			return ui.View{}, err
		}
		name := c.LinkCell(to.Name, invoicePath(v.ID))
		name.Lines = []ui.Cell{{Text: v.Number}}
		t.Rows = append(t.Rows, []ui.Cell{name, c.StateCell("invoice.state", string(v.Shown(tx.Now()))),
			{Text: v.DueDate, ISO: v.DueDate}, c.AmountCell(v.Total)})
	}
	return ui.View{Template: "own_invoices", Title: c.Text("pay.invoices"), Data: invoicesPage{Invoices: t,
		Pager: c.Pager(f.Page, total), Filters: c.FilterBar(invoicesPath,
			c.Filter(ui.Field{Name: "status", Type: "select", Options: c.Choices("invoice.state", invoiceStates...)}))}}, nil
}

type newInvoicePage struct {
	Head, Foot           []ui.Field
	Lines                []newInvoiceLine
	Subtotal, Tax, Total string     // of the lines that are complete
	Payer                []ui.Field // fields of a new payer
}

// newInvoiceLine is a line of the form. Amount is "" until the line is complete.
type newInvoiceLine struct {
	Number, Amount string
	Fields         []ui.Field
	More           bool // shown after the reader opens the further lines
}

// MoreOpen reports whether one of the further lines is filled in.
func (p newInvoicePage) MoreOpen() bool {
	return slices.ContainsFunc(p.Lines, func(l newInvoiceLine) bool {
		return l.More && slices.ContainsFunc(l.Fields, func(f ui.Field) bool { return f.Value != "" })
	})
}

// payerFields returns the fields of a new payer.
func payerFields(c *ui.Request) []ui.Field {
	return []ui.Field{
		c.Field(ui.Field{Name: "payer_name", Required: true, MaxLength: 200}),
		c.Field(ui.Field{Name: "payer_email", Type: "email", MaxLength: 254}),
		c.Field(ui.Field{Name: "company_type", Type: "select",
			Options: []ui.Option{{Value: payer.Employer, Label: c.Text("payer.employer")},
				{Value: payer.Client, Label: c.Text("payer.client")}}}),
		c.Field(ui.Field{Name: "payroll_invoice_currency", Type: "select", Options: invoiceCurrencies()}),
	}
}

func invoiceCurrencies() []ui.Option {
	return []ui.Option{{Value: string(money.USD), Label: "USD"}, {Value: string(money.EUR), Label: "EUR"}}
}

// showNewInvoice renders the form for an invoice to a company that pays the person, or to another payer.
func showNewInvoice(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	to := ui.Field{Name: "bill_to", Type: "select", Required: true, Value: c.Query("payer"),
		Options: []ui.Option{{Value: "", Label: c.Text("form.choose")}}}
	companies, err := payee.CompaniesOf(ctx, tx, c.Session.User.ID)
	if err != nil {
		return ui.View{}, err
	}
	for _, id := range companies {
		paying, err := identity.CompanyByID(ctx, tx, id)
		if err != nil {
			return ui.View{}, err
		}
		to.Options = append(to.Options, ui.Option{Value: id, Label: paying.Name})
	}
	payers, err := payer.List(ctx, tx, c.Sealer, self(c), "")
	if err != nil {
		return ui.View{}, err
	}
	for _, p := range payers {
		if !p.IsCompany || !slices.Contains(companies, p.CompanyID) {
			to.Options = append(to.Options, ui.Option{Value: p.ID, Label: p.Name + " (" + string(p.Currency) + ")"})
		}
	}
	if len(to.Options) == 2 && to.Value == "" {
		to.Value = to.Options[1].Value // the only one
	}
	currency := money.Asset(c.Form.Get("invoice_currency"))
	for _, x := range payers {
		if x.ID == c.Form.Get("bill_to") {
			currency = x.Currency
		}
	}
	if currency != money.EUR {
		currency = money.USD
	}
	totals, err := invoice.Preview(currency, postedItems(c, currency))
	if err != nil {
		return ui.View{}, err
	}
	p := newInvoicePage{Payer: payerFields(c), Subtotal: c.FormatMoney(totals.Subtotal), Tax: c.FormatMoney(totals.Tax),
		Total: c.FormatMoney(totals.Total), Head: []ui.Field{c.Field(to),
			c.Field(ui.Field{Name: "invoice_currency", Type: "select", Options: invoiceCurrencies()}),
			c.Field(ui.Field{Name: "due_date", Type: "date"}), c.Field(ui.Field{Name: "number", MaxLength: 40})},
		Foot: []ui.Field{c.Field(ui.Field{Name: "notes", Type: "textarea", MaxLength: 2000})}}
	c.Labels = map[string]string{}
	for n := range invoiceRows {
		line := newInvoiceLine{Number: c.FormatCount(int64(n + 1)), More: n >= invoiceRowsShown}
		if amount := totals.Items[n].Amount; amount != "" {
			line.Amount = c.FormatNumber(amount)
		}
		for _, name := range []string{"description", "quantity", "unit_price", "tax_rate"} {
			f := ui.Field{Name: lineField(name, n), Label: c.Text("invoice.row."+name, line.Number), MaxLength: 500}
			if name != "description" {
				f.InputMode, f.MaxLength = "decimal", 40
			}
			c.Labels[f.Name] = f.Label
			line.Fields = append(line.Fields, c.Field(f))
		}
		p.Lines = append(p.Lines, line)
	}
	return ui.View{Template: "own_invoice_new", Title: c.Text("invoice.new"), Lead: c.Text("invoice.new.lead"),
		Crumbs: invoiceCrumbs(c), Data: p, Checks: true}, nil
}

// postedItems returns every line of the form, with plain numbers. A line that is not filled in is the zero Item.
func postedItems(c *ui.Request, currency money.Asset) []invoice.Item {
	value := func(name string, n int) string { return strings.TrimSpace(c.Form.Get(lineField(name, n))) }
	all := make([]invoice.Item, invoiceRows)
	for n := range all {
		all[n] = invoice.Item{Description: value("description", n),
			UnitPrice: c.PlainAmount(value("unit_price", n), currency),
			// The formats of bitcoin have three decimals, too.
			Quantity: c.PlainAmount(value("quantity", n), money.BTC),
			TaxRate:  c.PlainAmount(strings.TrimSuffix(value("tax_rate", n), "%"), money.BTC)}
	}
	return all
}

func lineField(name string, n int) string { return name + "_" + strconv.Itoa(n) }

func invoiceCrumbs(c *ui.Request) []ui.Cell {
	return []ui.Cell{c.LinkCell(c.Text("pay.invoices"), invoicesPath)}
}

// createInvoice sends an invoice. A company that pays the person becomes one of their payers.
func createInvoice(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	value := func(name string) string { return strings.TrimSpace(c.Form.Get(name)) }
	by, to := self(c), value("bill_to")
	if to == "" {
		var problems apierr.List
		problems.Add("missing_field", "/bill_to", "This field is required.")
		return ui.View{}, problems.Err()
	}
	companies, err := payee.CompaniesOf(ctx, tx, c.Session.User.ID)
	if err != nil {
		return ui.View{}, err
	}
	if slices.Contains(companies, to) {
		by.CompanyID = to // the company sees the invoice and its events
		if to, err = payerOf(ctx, tx, c, by, value("invoice_currency")); err != nil {
			return ui.View{}, err
		}
	}
	used, err := payer.Use(ctx, tx, c.Session.User.ID, to)
	if err != nil {
		return ui.View{}, err
	}
	p := invoice.CreateParams{PayerID: to, Number: value("number"), DueDate: value("due_date"), Notes: value("notes")}
	var rows []int
	for n, it := range postedItems(c, used.Currency) {
		if it != (invoice.Item{}) {
			p.Items, rows = append(p.Items, it), append(rows, n)
		}
	}
	v, err := invoice.Create(ctx, tx, c.Sealer, by, p)
	return ui.View{Redirect: invoicePath(v.ID)}, ui.FormConflict(ui.RenameFields(err, func(pointer string) string {
		rest, ok := strings.CutPrefix(pointer, "/items/")
		if !ok {
			return strings.Replace(pointer, "/items", "/"+lineField("description", 0), 1)
		}
		index, name, _ := strings.Cut(rest, "/")
		if n, err := strconv.Atoi(index); err == nil && n < len(rows) {
			return "/" + lineField(name, rows[n])
		}
		return pointer
	}))
}

// payerOf returns the ID of the person's payer for the company of by, in a currency. It creates the first one.
func payerOf(ctx context.Context, tx *db.Tx, c *ui.Request, by identity.Principal, currency string) (string, error) {
	paying, err := identity.CompanyByID(ctx, tx, by.CompanyID)
	if err != nil {
		return "", err
	}
	all, err := payer.List(ctx, tx, c.Sealer, self(c), "")
	if err != nil {
		return "", err
	}
	for _, p := range all {
		if p.IsCompany && p.CompanyID == paying.ID && string(p.Currency) == currency {
			return p.ID, nil
		}
	}
	kind := payer.Client
	p, err := payer.Create(ctx, tx, c.Sealer, by, c.Session.User.ID, payer.Changes{Name: &paying.Name, Type: &kind,
		Currency: &currency, IsCompany: true})
	return p.ID, ui.RenameField(err, "/payroll_invoice_currency", "/invoice_currency")
}

// addPayer adds a payer to whom the person sends invoices.
func addPayer(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := createPayer(ctx, tx, c)
	return ui.View{Redirect: invoicesPath + "/new?payer=" + p.ID}, err
}

// createPayer creates a payer from the fields of payerFields.
func createPayer(ctx context.Context, tx *db.Tx, c *ui.Request) (payer.Payer, error) {
	name, kind, currency := c.Form.Get("payer_name"), c.Form.Get("company_type"), c.Form.Get("payroll_invoice_currency")
	email := strings.TrimSpace(c.Form.Get("payer_email"))
	p, err := payer.Create(ctx, tx, c.Sealer, self(c), "",
		payer.Changes{Name: &name, Email: &email, Type: &kind, Currency: &currency})
	return p, ui.FormError(ui.RenameField(ui.RenameField(err, "/name", "/payer_name"), "/email", "/payer_email"))
}

type ownInvoicePage struct {
	invoice.Invoice
	To, Path, Subtotal, Tax, Total, Paid string
	Link, PDFPath                        string // Link is the page for the payer
	Lines                                ui.Table
	Deletable                            bool
	Coins                                []coinPayment
}

// coinPayment is a claim by which the payer pays or paid an invoice in a coin, with the person's choices.
type coinPayment struct {
	State                           ui.Cell
	Amount, Received, Refundable    string // the last two are "" for nothing
	Checkout                        string
	AcceptPath, RefundPath, Refunds string // "" if the person cannot do it; Refunds is the key of the button
}

// showInvoice renders an invoice to the person who sent it.
func showInvoice(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	v, err := invoice.Detail(ctx, tx, c.Sealer, self(c), "", c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	to, err := payer.Get(ctx, tx, v.UserID, v.PayerID)
	if err != nil {
		return ui.View{}, err
	}
	p := ownInvoicePage{Invoice: v, To: to.Name, Path: invoicePath(v.ID), Subtotal: c.FormatMoney(v.Subtotal),
		Tax: c.FormatMoney(v.Tax), Total: c.FormatMoney(v.Total), Paid: c.FormatMoney(v.Paid),
		Deletable: v.Status == invoice.Draft || v.Status == invoice.Sent,
		Lines:     invoiceLines(c, v), PDFPath: invoicePath(v.ID) + "/invoice.pdf"}
	payments, err := c.Invoices.Payments(ctx, tx, self(c), "", v.ID)
	if err != nil {
		return ui.View{}, err
	}
	for _, d := range payments {
		if d.State != claim.Cancelled && d.State != claim.Expired && d.State != claim.AwaitingPayment {
			p.Coins = append(p.Coins, newCoinPayment(c, p.Path, d))
		}
	}
	if v.Token != "" && v.Status != invoice.Draft {
		p.Link = c.BaseURL + "/invoice/" + v.Token
	}
	return ui.View{Template: "own_invoice", Title: c.Text("invoice.title", v.Number),
		State: c.StateCell("invoice.state", string(v.Shown(tx.Now()))), Crumbs: invoiceCrumbs(c), Data: p}, nil
}

// newCoinPayment returns what the person sees of a claim, and can decide about it.
func newCoinPayment(c *ui.Request, path string, d claim.Detail) coinPayment {
	path += "/payments/" + d.ID
	p := coinPayment{State: c.StateCell("claim.state", string(d.State)), Amount: c.FormatMoney(d.Amount),
		Checkout: "/pay/" + d.ID}
	if received := d.Received(); received.Sign() > 0 {
		p.Received = c.FormatMoney(received)
	}
	for _, owed := range append([]money.Amount{d.Refundable()}, d.OtherRefundable()...) {
		if owed.Sign() > 0 {
			p.Refundable, p.RefundPath, p.Refunds = c.FormatMoney(owed), path+"/refund", "claim.offer.excess"
		}
	}
	if (d.State == claim.PaidLate || d.State == claim.Underpaid) && !d.Refunding {
		p.RefundPath, p.Refunds = path+"/refund", "claim.offer.all"
	}
	if d.State == claim.PaidLate && !d.Refunding {
		p.AcceptPath = path + "/accept"
	}
	return p
}

// acceptLate counts a late payment of an invoice at the current rate.
func acceptLate(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	err := c.Invoices.Accept(ctx, tx, self(c), "", id, c.HTTP.PathValue("claim"))
	return ui.View{Redirect: invoicePath(id)}, ui.FormConflict(err)
}

// refundPayment offers the payer of an invoice their money, and shows the link once.
func refundPayment(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	r, link, err := c.Invoices.Refund(ctx, tx, self(c), "", id, c.HTTP.PathValue("claim"))
	if err != nil {
		return ui.View{}, ui.FormConflict(err)
	}
	return company.ShowRefundLink(c, invoicePath(id), r, link), nil
}

// invoiceLines lists the lines of an invoice.
func invoiceLines(c *ui.Request, v invoice.Invoice) ui.Table {
	t := ui.Table{Caption: c.Text("invoice.lines"),
		Heads: c.Columns("invoice.line", "invoice.quantity#", "invoice.price#", "invoice.tax#", "payment.amount#")}
	for _, it := range v.Items {
		t.Rows = append(t.Rows, []ui.Cell{
			{Text: it.Description}, {Text: c.FormatNumber(it.Quantity), Kind: "number"},
			{Text: c.FormatNumber(it.UnitPrice), Kind: "number"},
			{Text: c.FormatNumber(it.TaxRate) + "\u00a0%", Kind: "number"}, {Text: c.FormatNumber(it.Amount), Kind: "number"},
		})
	}
	return t
}

// deleteInvoice withdraws an invoice that is not paid.
func deleteInvoice(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	v, err := invoice.Delete(ctx, tx, self(c), "", c.HTTP.PathValue("id"))
	return ui.View{Redirect: invoicePath(v.ID)}, ui.WholeFormError(err)
}
