package document

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/web/ui/texts"
)

func TestLinesOfDocumentsAreDrawnInVisualOrder(t *testing.T) {
	for _, c := range []struct {
		rightToLeft bool
		line, want  string
	}{
		{false, "Total: 5.00 USD", "Total: 5.00 USD"},
		{true, "Total: 5.00 USD", "Total: 5.00 USD"},
		{false, "דנה", "הנד"},
		{true, "שולם", "םלוש"},
		{true, "עמוד 2 מתוך 10", "10 ךותמ 2 דומע"},
		{true, "\u2068Acme\u2069 שילמה", "המליש Acme"},
	} {
		d := &PDF{rightToLeft: c.rightToLeft}
		if got := d.visual(c.line); got != c.want {
			t.Errorf("%q, right to left %v: %q, want %q", c.line, c.rightToLeft, got, c.want)
		}
	}
}

func TestDocumentsInEveryLanguage(t *testing.T) {
	for _, l := range texts.Languages {
		w := &Writer{Reader: texts.Reader{Language: texts.Language{Tag: l.Tag}}}
		doc := w.New("דנה Acme", w.Text("pay.receipt"), "1,250.00 USD", "pay_1", time.Unix(0, 0),
			[][2]string{{"pay.from", "Acme"}, {"pay.about", strings.Repeat("A long description. ", 30)}, {"pay.fee", ""}})
		doc.Plain(9)
		doc.MultiCell(Width, Line, strings.Repeat(w.Text("pay.means.on_hold")+" ", 40), "T", "L", false)
		data, err := doc.Bytes()
		if err != nil || !bytes.HasPrefix(data, []byte("%PDF-1.")) {
			t.Errorf("%s: %v", l.Tag, err)
		}
		if len(data) > 200_000 {
			t.Errorf("%s: the document has %d bytes: its fonts are not cut to the letters that it uses", l.Tag, len(data))
		}
	}
}

func TestSheetsAreNoFormulas(t *testing.T) {
	f, err := Sheet("x.csv", [][]string{{"=1+1", "-5.00", "-5+1", "@x", "5", "plain"}})
	if err != nil || string(f.Data) != "'=1+1,-5.00,'-5+1,'@x,5,plain\n" {
		t.Errorf("%v %q", err, f.Data)
	}
}
