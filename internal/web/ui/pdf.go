package ui

import (
	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
)

// Sizes on an A4 page, in millimeters.
const (
	PDFMargin = 15.0
	PDFWidth  = 210 - 2*PDFMargin
	PDFLine   = 5.0
)

// NewPDF returns a document of a company or person with a title, facts and a footer on each page. Each fact is a
// text key and a value; facts without a value are omitted.
func (c *Request) NewPDF(of, title, id, now string, facts [][2]string) *fpdf.Fpdf {
	doc := fpdf.New("P", "mm", "A4", "")
	doc.AddUTF8FontFromBytes("go", "", goregular.TTF)
	doc.AddUTF8FontFromBytes("go", "B", gobold.TTF)
	doc.SetMargins(PDFMargin, PDFMargin, PDFMargin)
	doc.SetAutoPageBreak(true, 2*PDFMargin)
	doc.SetTitle(title, true)
	doc.SetLang(c.Language.Tag)
	doc.AliasNbPages("")
	doc.SetFooterFunc(func() {
		doc.SetY(-PDFMargin)
		doc.SetFont("go", "", 8)
		doc.CellFormat(PDFWidth/2, PDFLine, "Stipend · "+id+" · "+now, "", 0, "L", false, 0, "")
		doc.CellFormat(PDFWidth/2, PDFLine, c.Text("pdf.page", c.FormatCount(int64(doc.PageNo())), "{nb}"), "", 0, "R", false,
			0, "")
	})
	doc.AddPage()
	doc.SetFont("go", "B", 15)
	doc.MultiCell(PDFWidth, 8, title, "", "L", false)
	doc.SetFont("go", "", 10)
	doc.MultiCell(PDFWidth, PDFLine, of, "", "L", false)
	if c.CanSimulate() {
		doc.MultiCell(PDFWidth, PDFLine, c.Text("layout.sandbox"), "", "L", false)
	}
	doc.Ln(3)
	for _, fact := range facts {
		if fact[1] != "" {
			doc.SetFont("go", "", 10)
			doc.CellFormat(45, PDFLine+1, c.Text(fact[0]), "", 0, "L", false, 0, "")
			doc.SetFont("go", "B", 10)
			doc.MultiCell(PDFWidth-45, PDFLine+1, fact[1], "", "L", false)
		}
	}
	doc.Ln(4)
	return doc
}

// Shorten truncates text to width millimeters and adds an ellipsis.
func Shorten(doc *fpdf.Fpdf, text string, width float64) string {
	runes := []rune(text)
	if doc.GetStringWidth(text) <= width {
		return text
	}
	for len(runes) > 1 && doc.GetStringWidth(string(runes)+"…") > width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}
