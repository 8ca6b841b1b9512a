// Package document creates the files that people keep: receipts of payments, and statements of payrolls, balances and
// settlements, as PDF and CSV. It reads no data and makes no decisions: its callers pass it the data that a reader
// may see.
package document

import (
	"bytes"
	"cmp"
	_ "embed" // embeds the fonts
	"strings"
	"time"
	"unicode"

	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/text/unicode/bidi"

	"github.com/stipend/stipend/internal/web/ui/texts"
)

// Sizes on an A4 page, in millimeters.
const (
	Margin = 15.0
	Width  = 210 - 2*Margin
	Line   = 5.0

	pdfPage = 210.0
	pdfMark = 8.0  // side of the mark
	pdfHead = 45.0 // width of the column with the names of facts
)

// Fonts of documents: Inter, and Noto Sans Hebrew for texts with Hebrew letters, which Inter lacks.
var (
	//go:embed fonts/inter-400.ttf
	interRegular []byte
	//go:embed fonts/inter-600.ttf
	interBold []byte
	//go:embed fonts/hebrew-400.ttf
	hebrewRegular []byte
	//go:embed fonts/hebrew-600.ttf
	hebrewBold []byte
)

// Colors of the design on white paper.
var (
	pdfInk      = [3]int{0x12, 0x18, 0x15}
	pdfQuiet    = [3]int{0x62, 0x6d, 0x66}
	pdfHairline = [3]int{0xdf, 0xe5, 0xe0}
	pdfBrand    = [3]int{0x0e, 0x46, 0x33}
	pdfCoin     = [3]int{0x8f, 0xe3, 0xbf}
)

// PDF is a PDF document in the reader's language. For a language that is written from right to left, it mirrors
// positions and alignments. Callers always specify them as for a language that is written from left to right.
type PDF struct {
	*fpdf.Fpdf
	rightToLeft bool
	weight      string // "B" means bold
	size        float64
}

// CellFormat draws a cell like fpdf's method of the same name.
func (d *PDF) CellFormat(w, h float64, text, border string, ln int, align string, fill bool, link int,
	url string) {
	text = d.visual(text)
	d.useFontFor(text)
	if !d.rightToLeft {
		d.Fpdf.CellFormat(w, h, text, border, ln, align, fill, link, url)
		return
	}
	x := d.GetX()
	d.SetX(pdfPage - x - w)
	d.Fpdf.CellFormat(w, h, text, border, 0, mirrored.Replace(align), fill, link, url)
	d.SetX(x + w)
	if ln > 0 {
		d.Ln(h)
	}
}

// mirrored swaps left and right in an alignment.
var mirrored = strings.NewReplacer("L", "R", "R", "L")

// MultiCell draws a text that may take several lines, each of height h. Only the first line has a top border.
func (d *PDF) MultiCell(w, h float64, text, border, align string, fill bool) {
	x := d.GetX()
	text = unmarked(text)
	d.useFontFor(text)
	for i, line := range d.SplitText(text, w) {
		if i > 0 {
			border = strings.ReplaceAll(border, "T", "")
		}
		d.SetX(x)
		d.CellFormat(w, h, line, border, 1, align, fill, 0, "")
	}
}

// Strong selects the font for headings and amounts. The size is in points.
func (d *PDF) Strong(size float64) { d.style("B", size, pdfInk) }

// Plain selects the font for normal text. The size is in points.
func (d *PDF) Plain(size float64) { d.style("", size, pdfInk) }

// Quiet selects the font for labels and further details. The size is in points.
func (d *PDF) Quiet(size float64) { d.style("", size, pdfQuiet) }

// Style selects the font for normal text. The style "B" is bold.
func (d *PDF) Style(style string, size float64) { d.style(style, size, pdfInk) }

func (d *PDF) style(style string, size float64, color [3]int) {
	d.weight, d.size = style, size
	d.useFontFor("")
	d.SetTextColor(color[0], color[1], color[2])
}

// useFontFor selects the font that has the letters of a text, in the current weight and size.
func (d *PDF) useFontFor(text string) {
	family := "inter"
	if strings.ContainsFunc(text, isHebrew) {
		family = "hebrew"
	}
	d.SetFont(family, d.weight, d.size)
}

// unmarked returns a text without the invisible characters that set its direction, which the fonts lack.
func unmarked(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, text)
}

// visual returns a line with its characters in the order in which they are drawn, from left to right.
func (d *PDF) visual(line string) string {
	line = unmarked(line)
	if !d.rightToLeft && !strings.ContainsFunc(line, isHebrew) {
		return line
	}
	base := bidi.LeftToRight
	if d.rightToLeft {
		base = bidi.RightToLeft
	}
	var p bidi.Paragraph
	if _, err := p.SetString(line, bidi.DefaultDirection(base)); err != nil {
		return line
	}
	order, err := p.Order()
	if err != nil {
		return line
	}
	var runs []string
	for i := range order.NumRuns() {
		run := order.Run(i)
		text := run.String()
		if run.Direction() == bidi.RightToLeft {
			text = bidi.ReverseString(text)
		}
		if d.rightToLeft {
			runs = append([]string{text}, runs...)
		} else {
			runs = append(runs, text)
		}
	}
	return strings.Join(runs, "")
}

func isHebrew(r rune) bool { return unicode.Is(unicode.Hebrew, r) }

// Writer creates documents for a reader.
type Writer struct {
	texts.Reader
	Sandbox bool // marks each document as one of a sandbox, in which nothing is real
}

// New returns a document with a title, a large figure (unless it is ""), facts, and a footer on each page. of is the
// company or person for whom the document is. Each fact consists of a text key and a value; facts without a value are
// omitted.
func (w *Writer) New(of, title, figure, id string, now time.Time, facts [][2]string) *PDF {
	doc := &PDF{Fpdf: fpdf.New("P", "mm", "A4", ""), rightToLeft: w.Language.RightToLeft()}
	doc.AddUTF8FontFromBytes("inter", "", interRegular)
	doc.AddUTF8FontFromBytes("inter", "B", interBold)
	doc.AddUTF8FontFromBytes("hebrew", "", hebrewRegular)
	doc.AddUTF8FontFromBytes("hebrew", "B", hebrewBold)
	doc.SetMargins(Margin, Margin, Margin)
	doc.SetAutoPageBreak(true, 2*Margin)
	doc.SetTitle(title, true)
	doc.SetLang(w.Language.Tag)
	doc.AliasNbPages("")
	doc.SetDrawColor(pdfHairline[0], pdfHairline[1], pdfHairline[2])
	doc.SetLineWidth(0.2)
	doc.SetFooterFunc(func() {
		doc.SetY(-Margin)
		doc.Quiet(8)
		name := cmp.Or(w.Service, texts.Product)
		doc.CellFormat(Width/2, Line, name+" · "+id+" · "+w.FormatTime(now), "", 0, "L", false, 0, "")
		doc.CellFormat(Width/2, Line, w.Text("pdf.page", w.FormatCount(int64(doc.PageNo())), "{nb}"), "", 0, "R", false,
			0, "")
	})
	doc.AddPage()
	doc.letterhead(w.Service, of)
	doc.Strong(16)
	doc.MultiCell(Width, 8, title, "", "L", false)
	if figure != "" {
		doc.Strong(26)
		doc.MultiCell(Width, 13, figure, "", "L", false)
	}
	if w.Sandbox {
		doc.Quiet(9)
		doc.MultiCell(Width, Line, w.Text("layout.sandbox"), "", "L", false)
	}
	doc.Ln(4)
	for _, fact := range facts {
		if fact[1] == "" {
			continue
		}
		doc.Quiet(10)
		y := doc.GetY()
		doc.CellFormat(pdfHead, Line+3, w.Text(fact[0]), "T", 0, "L", false, 0, "")
		if doc.GetY() < y { // the cell began a new page
			y = doc.GetY()
		}
		doc.SetXY(Margin+pdfHead, y)
		doc.Strong(10)
		doc.MultiCell(Width-pdfHead, Line+3, fact[1], "T", "R", false)
	}
	doc.CellFormat(Width, 1, "", "T", 1, "L", false, 0, "")
	doc.Ln(5)
	return doc
}

// letterhead draws, on one side, the operator's name, or the mark and name of Stipend if operator is "". On the other
// side it draws the name of the company or person for whom the document is.
func (d *PDF) letterhead(operator, of string) {
	left, y := Margin, Margin
	if operator == "" {
		operator, left = texts.Product, Margin+pdfMark+3
		d.mark(y)
	}
	d.SetXY(left, y)
	d.Strong(13)
	name := Width / 2
	d.CellFormat(name, pdfMark, d.Shorten(operator, name), "", 0, "L", false, 0, "")
	d.Plain(10)
	rest := Margin + Width - left - name
	d.CellFormat(rest, pdfMark, d.Shorten(of, rest), "", 1, "R", false, 0, "")
	d.Ln(8)
}

// mark draws Stipend's mark at the margin, with its top at y.
func (d *PDF) mark(y float64) {
	x := Margin
	if d.rightToLeft {
		x = pdfPage - Margin - pdfMark
	}
	unit := pdfMark / 32
	d.SetFillColor(pdfBrand[0], pdfBrand[1], pdfBrand[2])
	d.RoundedRect(x, y, pdfMark, pdfMark, 2, "1234", "F")
	at := func(px, py float64) (float64, float64) { return x + px*unit, y + py*unit }
	d.SetDrawColor(255, 255, 255)
	d.SetLineWidth(2.6 * unit)
	d.SetLineCapStyle("round")
	startX, startY := at(22.4, 9.4)
	d.MoveTo(startX, startY)
	curve := func(points ...float64) { // the points are the three further points of a Bézier curve
		ax, ay := at(points[0], points[1])
		bx, by := at(points[2], points[3])
		cx, cy := at(points[4], points[5])
		d.CurveBezierCubicTo(ax, ay, bx, by, cx, cy)
	}
	line := func(px, py float64) { d.LineTo(at(px, py)) }
	line(13.8, 9.4)
	curve(9.4, 9.4, 9.4, 16, 13.8, 16)
	line(18.2, 16)
	curve(22.6, 16, 22.6, 22.6, 18.2, 22.6)
	line(13.6, 22.6)
	d.DrawPath("D")
	d.SetFillColor(pdfCoin[0], pdfCoin[1], pdfCoin[2])
	dotX, dotY := at(9, 22.6)
	d.Circle(dotX, dotY, 2.3*unit, "F")
	d.SetDrawColor(pdfHairline[0], pdfHairline[1], pdfHairline[2])
	d.SetLineWidth(0.2)
	d.SetLineCapStyle("butt")
}

// Bytes returns the contents of the PDF file.
func (d *PDF) Bytes() ([]byte, error) {
	var b bytes.Buffer
	err := d.Output(&b)
	return b.Bytes(), err
}

// Shorten truncates a text to a width in millimeters and appends an ellipsis.
func (d *PDF) Shorten(text string, width float64) string {
	text = unmarked(text)
	d.useFontFor(text)
	runes := []rune(text)
	if d.GetStringWidth(text) <= width {
		return text
	}
	for len(runes) > 1 && d.GetStringWidth(string(runes)+"…") > width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}
