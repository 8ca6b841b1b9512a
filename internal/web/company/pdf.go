package company

import (
	"bytes"
	"cmp"
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/web/ui"
)

// payrollPDF exports the statement of a payroll as PDF, in the user's language.
func payrollPDF(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := c.Payroll.Get(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	names, err := payeeNames(ctx, tx, p)
	if err != nil {
		return ui.View{}, err
	}
	data, err := statementPDF(c, p, names, c.FormatTime(tx.Now()))
	return ui.View{File: &ui.File{Name: "payroll-" + p.ID + ".pdf", ContentType: "application/pdf", Data: data}}, err
}

func statementPDF(c *ui.Request, p payroll.Payroll, names map[string]string, now string) ([]byte, error) {
	doc := c.NewPDF(c.Session.Company.Name, payrollName(c, p), c.FormatMoney(p.Total), p.ID, now, [][2]string{
		{"payroll.status", c.Word("payroll.state", string(p.State))}, {"field.external_id", p.ExternalID},
		{"payroll.created", c.FormatTime(p.CreatedAt)},
		{"payroll.payees", c.FormatCount(p.Count)}, {"payroll.volume", c.FormatMoney(p.Volume)},
		{"payroll.fees", c.FormatMoney(p.Fees)}, {"payroll.total", c.FormatMoney(p.Total)},
	})
	const left, middle, right = 0.42, 0.22, 0.36 // shares of the width
	row := func(style, rule, payee, amount, state string) {
		doc.Style(style, 9)
		doc.CellFormat(ui.PDFWidth*left, ui.PDFLine+1, ui.Shorten(doc, payee, ui.PDFWidth*left-2), rule, 0, "L", false, 0, "")
		doc.CellFormat(ui.PDFWidth*middle, ui.PDFLine+1, amount, rule, 0, "R", false, 0, "")
		doc.CellFormat(ui.PDFWidth*right, ui.PDFLine+1, "   "+ui.Shorten(doc, state, ui.PDFWidth*right-8), rule, 1, "L",
			false, 0, "")
	}
	row("B", "", c.Text("payment.payee"), c.Text("payment.amount"), c.Text("payroll.status"))
	for _, m := range p.Payments {
		row("", "T", cmp.Or(names[m.PayeeID], m.PayeeID), c.FormatMoney(m.Amount),
			c.StateCell("payment.state", string(m.State)).Text)
		doc.Quiet(8)
		for _, o := range m.Outputs {
			text := c.Text("output.to", c.FormatMoney(o.Amount), DestinationHint(o)) + ", " + c.Word(
				"output.state", string(o.State))
			if o.TxID != "" {
				text += ", " + o.TxID
			}
			doc.SetX(ui.PDFMargin + 5)
			doc.MultiCell(ui.PDFWidth-5, 4, text, "", "L", false)
		}
		if m.Description != "" {
			doc.SetX(ui.PDFMargin + 5)
			doc.MultiCell(ui.PDFWidth-5, 4, m.Description, "", "L", false)
		}
	}
	var b bytes.Buffer
	err := doc.Output(&b)
	return b.Bytes(), err
}
