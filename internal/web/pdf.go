package web

import (
	"bytes"
	"cmp"
	"context"

	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payroll"
)

// Sizes on a page of A4, in millimetres.
const (
	pdfMargin = 15.0
	pdfWidth  = 210 - 2*pdfMargin
	pdfLine   = 5.0
)

// payrollPDF is the statement of a payroll to be printed and filed, in the reader's language.
func payrollPDF(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	p, err := c.Payroll.Get(ctx, tx, c.session.Principal(), c.r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	names, err := payeeNames(ctx, tx, p)
	if err != nil {
		return view{}, err
	}
	data, err := c.statementPDF(p, names, c.instant(tx.Now()))
	return view{file: &file{name: "payroll-" + p.ID + ".pdf", contentType: "application/pdf", data: data}}, err
}

func (c *call) statementPDF(p payroll.Payroll, names map[string]string, now string) ([]byte, error) {
	doc := c.newPDF(c.text("payroll.title", p.ID), p.ID, now, [][2]string{
		{"payroll.status", c.word("payroll.state", string(p.State))}, {"field.external_id", p.ExternalID}, {"payroll.created", c.instant(p.CreatedAt)},
		{"payroll.payees", c.count(p.Count)}, {"payroll.volume", c.money(p.Volume)}, {"payroll.fees", c.money(p.Fees)}, {"payroll.total", c.money(p.Total)},
	})
	const left, middle, right = 0.42, 0.22, 0.36 // of the width
	row := func(style, payee, amount, state string) {
		doc.SetFont("go", style, 9)
		doc.CellFormat(pdfWidth*left, pdfLine+1, shorten(doc, payee, pdfWidth*left-2), "B", 0, "L", false, 0, "")
		doc.CellFormat(pdfWidth*middle, pdfLine+1, amount, "B", 0, "R", false, 0, "")
		doc.CellFormat(pdfWidth*right, pdfLine+1, "   "+shorten(doc, state, pdfWidth*right-8), "B", 1, "L", false, 0, "")
	}
	row("B", c.text("payment.payee"), c.text("payment.amount"), c.text("payroll.status"))
	for _, m := range p.Payments {
		row("", cmp.Or(names[m.PayeeID], m.PayeeID), c.money(m.Amount), c.word("payroll.state", string(m.State)))
		doc.SetFont("go", "", 8)
		for _, o := range m.Outputs {
			text := c.text("output.to", c.money(o.Amount), destinationHint(o)) + ", " + c.word("output.state", string(o.State))
			if o.TxID != "" {
				text += ", " + o.TxID
			}
			doc.SetX(pdfMargin + 5)
			doc.MultiCell(pdfWidth-5, 4, text, "", "L", false)
		}
		if m.Description != "" {
			doc.SetX(pdfMargin + 5)
			doc.MultiCell(pdfWidth-5, 4, m.Description, "", "L", false)
		}
	}
	var b bytes.Buffer
	err := doc.Output(&b)
	return b.Bytes(), err
}

// newPDF begins a document of the reader's company: title, facts by the keys of their names, and a foot on each page.
func (c *call) newPDF(title, id, now string, facts [][2]string) *fpdf.Fpdf {
	doc := fpdf.New("P", "mm", "A4", "")
	doc.AddUTF8FontFromBytes("go", "", goregular.TTF)
	doc.AddUTF8FontFromBytes("go", "B", gobold.TTF)
	doc.SetMargins(pdfMargin, pdfMargin, pdfMargin)
	doc.SetAutoPageBreak(true, 2*pdfMargin)
	doc.SetTitle(title, true)
	doc.SetLang(c.lang.tag)
	doc.AliasNbPages("")
	doc.SetFooterFunc(func() {
		doc.SetY(-pdfMargin)
		doc.SetFont("go", "", 8)
		doc.CellFormat(pdfWidth/2, pdfLine, "Stipend · "+id+" · "+now, "", 0, "L", false, 0, "")
		doc.CellFormat(pdfWidth/2, pdfLine, c.text("pdf.page", c.count(int64(doc.PageNo())), "{nb}"), "", 0, "R", false, 0, "")
	})
	doc.AddPage()
	doc.SetFont("go", "B", 15)
	doc.MultiCell(pdfWidth, 8, title, "", "L", false)
	doc.SetFont("go", "", 10)
	doc.MultiCell(pdfWidth, pdfLine, c.session.Company.Name, "", "L", false)
	if c.simulates() {
		doc.MultiCell(pdfWidth, pdfLine, c.text("layout.sandbox"), "", "L", false)
	}
	doc.Ln(3)
	for _, fact := range facts {
		if fact[1] != "" {
			doc.SetFont("go", "", 10)
			doc.CellFormat(45, pdfLine+1, c.text(fact[0]), "", 0, "L", false, 0, "")
			doc.SetFont("go", "B", 10)
			doc.MultiCell(pdfWidth-45, pdfLine+1, fact[1], "", "L", false)
		}
	}
	doc.Ln(4)
	return doc
}

// shorten cuts a text to a width.
func shorten(doc *fpdf.Fpdf, text string, width float64) string {
	runes := []rune(text)
	if doc.GetStringWidth(text) <= width {
		return text
	}
	for len(runes) > 1 && doc.GetStringWidth(string(runes)+"…") > width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}
