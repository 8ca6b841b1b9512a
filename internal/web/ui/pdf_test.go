package ui

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/identity"
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
		d := &Document{rightToLeft: c.rightToLeft}
		if got := d.visual(c.line); got != c.want {
			t.Errorf("%q, right to left %v: %q, want %q", c.line, c.rightToLeft, got, c.want)
		}
	}
}

func TestDocumentsInEveryLanguage(t *testing.T) {
	for _, l := range Languages {
		c := &Request{Server: &Server{Deps: Deps{Env: identity.Production}},
			HTTP: httptest.NewRequest(http.MethodGet, "/", nil), Language: Language{Tag: l.Tag}}
		doc := c.NewPDF("דנה Acme", c.Text("pay.receipt"), "1,250.00 USD", "pay_1", "now",
			[][2]string{{"pay.from", "Acme"}, {"pay.about", strings.Repeat("A long description. ", 30)}, {"pay.fee", ""}})
		doc.Plain(9)
		doc.MultiCell(PDFWidth, PDFLine, strings.Repeat(c.Text("pay.means.on_hold")+" ", 40), "T", "L", false)
		var b bytes.Buffer
		if err := doc.Output(&b); err != nil || !bytes.HasPrefix(b.Bytes(), []byte("%PDF-1.")) {
			t.Errorf("%s: %v", l.Tag, err)
		}
		if b.Len() > 200_000 {
			t.Errorf("%s: the document has %d bytes: its fonts are not cut to the letters that it uses", l.Tag, b.Len())
		}
	}
}
