package payee

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/invoice/checkout"
	"github.com/stipend/stipend/internal/invoice/payer"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/web/ui"
)

// hosted is an invoice as its payer sees it.
type hosted struct {
	invoice.Invoice
	From, To string
	Account  virtualaccount.Details
	HasBank  bool // the person has an account in the invoice's currency
}

// hostedPage is the page of an invoice for its payer, who needs no account.
type hostedPage struct {
	hosted
	PDFPath, Figure, Subtotal, Tax, Total, Paid string
	Open, IsPaid, Void, InPayroll               bool
	Coins                                       string // form that opens the checkout in a coin; "" if not offered
	Lines                                       ui.Table
	Bank                                        []bankFact
}

// bankFact is a line of the details of a bank account, with a button that copies it.
type bankFact struct {
	Label string
	Cell  ui.Cell
}

// readHosted returns what the page and the PDF of an invoice show.
func readHosted(ctx context.Context, tx *db.Tx, c *ui.Request, v invoice.Invoice) (h hosted, err error) {
	h = hosted{Invoice: v}
	from, err := identity.GetUser(ctx, tx, nil, v.UserID)
	if err != nil {
		return h, err
	}
	to, err := payer.Get(ctx, tx, v.UserID, v.PayerID)
	if err != nil {
		return h, err
	}
	h.From, h.To = from.Name(), to.Name
	h.Account, h.HasBank, err = virtualaccount.ForPayer(ctx, tx, c.Sealer, v.UserID, v.Currency)
	return h, err
}

// payable reports whether the payer is asked to pay.
func (h *hosted) payable() bool { return h.Status == invoice.Sent || h.Status == invoice.PartiallyPaid }

// bank returns the details of a transfer that pays the invoice. The invoice's ID, which the payer copies, assigns it.
func (h *hosted) bank(c *ui.Request) (all []bankFact) {
	for i, fact := range [][2]string{{"hosted.holder", h.Account.Holder}, {"hosted.bank", h.Account.BankName},
		{"hosted.iban", h.Account.IBAN}, {"hosted.bic", h.Account.BIC}, {"hosted.routing", h.Account.RoutingNumber},
		{"hosted.account", h.Account.AccountNumber}, {"hosted.reference", h.ID}} {
		if fact[1] != "" {
			label := c.Text(fact[0])
			all = append(all, bankFact{label, ui.Cell{ID: "bank-" + string(rune('a'+i)), Text: fact[1], Kind: "code",
				Copy: c.Text("copy", label), Copied: c.Text("copied", label)}})
		}
	}
	return all
}

// showHosted renders the page of an invoice for its payer, who knows its token.
func showHosted(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	v, err := invoice.ByToken(ctx, tx, c.Sealer, c.HTTP.PathValue("token"))
	if err != nil {
		return ui.View{}, err
	}
	h, err := readHosted(ctx, tx, c, v)
	if err != nil {
		return ui.View{}, err
	}
	due, err := v.Due()
	if err != nil {
		return ui.View{}, err
	}
	p := hostedPage{hosted: h, PDFPath: c.URL("/invoice/" + v.Token + "/invoice.pdf"), Figure: c.FormatMoney(due),
		Subtotal: c.FormatMoney(v.Subtotal), Tax: c.FormatMoney(v.Tax), Total: c.FormatMoney(v.Total), Open: h.payable(),
		IsPaid: v.Status == invoice.Paid, Void: v.Status == invoice.Void, InPayroll: v.Status == invoice.InPayroll,
		Lines: invoiceLines(c, v)}
	if v.Paid.Sign() > 0 {
		p.Paid = c.FormatMoney(v.Paid)
	}
	if !p.Open {
		p.Figure = p.Total
	}
	if p.Open && h.HasBank {
		p.Bank = h.bank(c)
	}
	if offered, err := checkout.Offered(ctx, tx, v); err != nil {
		return ui.View{}, err
	} else if offered && len(c.Claims.Accepts()) > 0 {
		p.Coins = c.URL("/invoice/" + v.Token + "/pay")
	}
	return ui.View{Template: "hosted", Title: c.Text("invoice.title", v.Number), Data: p}, nil
}

// payHosted opens the checkout on which the payer of an invoice pays it in a coin.
func payHosted(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id, err := c.Invoices.Open(ctx, tx, c.Sealer, c.HTTP.PathValue("token"))
	return ui.View{Redirect: "/pay/" + id}, ui.FormConflict(err)
}

// hostedPDF is the PDF of an invoice for its payer.
func hostedPDF(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	v, err := invoice.ByToken(ctx, tx, c.Sealer, c.HTTP.PathValue("token"))
	if err != nil {
		return ui.View{}, err
	}
	return invoicePDF(ctx, tx, c, v)
}

// ownInvoicePDF is the PDF of an invoice for the person who wrote it.
func ownInvoicePDF(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	v, err := invoice.Detail(ctx, tx, c.Sealer, self(c), "", c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	return invoicePDF(ctx, tx, c, v)
}

func invoicePDF(ctx context.Context, tx *db.Tx, c *ui.Request, v invoice.Invoice) (ui.View, error) {
	h, err := readHosted(ctx, tx, c, v)
	if err != nil {
		return ui.View{}, err
	}
	due, err := v.Due()
	if err != nil {
		return ui.View{}, err
	}
	title, now := c.Text("invoice.title", v.Number), tx.Now()
	doc := c.Documents().New(h.From, title, c.FormatMoney(v.Total), v.ID, now, [][2]string{
		{"invoice.by", h.From}, {"invoice.to", h.To}, {"invoice.issued", v.IssueDate}, {"invoice.due", v.DueDate},
		{"payroll.status", c.Word("invoice.state", string(v.Shown(tx.Now())))},
	})
	const what, number, amount = 0.5, 0.25, 0.25 // shares of the width
	row := func(style, rule, a, b, d string) {
		doc.Style(style, 9)
		doc.CellFormat(document.Width*what, document.Line+1, doc.Shorten(a, document.Width*what-2), rule, 0, "L", false, 0,
			"")
		doc.CellFormat(document.Width*number, document.Line+1, b, rule, 0, "R", false, 0, "")
		doc.CellFormat(document.Width*amount, document.Line+1, d, rule, 1, "R", false, 0, "")
	}
	row("B", "", c.Text("invoice.line"), c.Text("invoice.quantity"), c.Text("payment.amount"))
	for _, it := range v.Items {
		row("", "T", it.Description, c.FormatNumber(it.Quantity)+" × "+c.FormatNumber(it.UnitPrice),
			c.FormatNumber(it.Amount))
	}
	row("", "T", c.Text("invoice.subtotal"), "", c.FormatMoney(v.Subtotal))
	row("", "", c.Text("invoice.taxes"), "", c.FormatMoney(v.Tax))
	row("B", "T", c.Text("payroll.total"), "", c.FormatMoney(v.Total))
	row("", "", c.Text("invoice.paid"), "", c.FormatMoney(v.Paid))
	if v.Notes != "" {
		doc.Ln(3)
		doc.Plain(9)
		doc.MultiCell(document.Width, document.Line, v.Notes, "", "L", false)
	}
	if h.payable() && h.HasBank {
		doc.Ln(3)
		doc.Strong(11)
		doc.MultiCell(document.Width, document.Line+2, c.Text("hosted.transfer", c.FormatMoney(due)), "", "L", false)
		doc.Plain(9)
		for _, fact := range h.bank(c) {
			doc.MultiCell(document.Width, document.Line+1, fact.Label+": "+fact.Cell.Text, "", "L", false)
		}
	}
	data, err := doc.Bytes()
	return ui.Download(document.File{Name: "invoice-" + v.ID + ".pdf", ContentType: document.TypePDF, Data: data}, err)
}
