package vendorbill_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/invoice/vendorbill"
)

// A PDF is accepted only whole, in strict base64 and up to 10 MiB.
func TestReadChecksPDFs(t *testing.T) {
	const pdf = "%PDF-1.7\n1 0 obj\n%%EOF\n"
	encode := base64.StdEncoding.EncodeToString
	padded := func(size int) string { return "%PDF-" + strings.Repeat(" ", size-len("%PDF-%%EOF")) + "%%EOF" }
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"a PDF":                            {text: encode([]byte(pdf))},
		"of 10 MiB":                        {text: encode([]byte(padded(10 << 20)))},
		"larger than 10 MiB":               {encode([]byte(padded(10<<20 + 1))), vendorbill.ErrTooLarge},
		"without its end":                  {encode([]byte(strings.TrimSuffix(pdf, "%%EOF\n"))), vendorbill.ErrDocument},
		"with its end 1,024 bytes earlier": {encode([]byte(pdf + strings.Repeat(" ", 1024))), vendorbill.ErrDocument},
		"with a line break in base64": {encode([]byte(pdf))[:8] + "\n" + encode([]byte(pdf))[8:],
			vendorbill.ErrDocument},
		"without padding": {strings.TrimRight(encode([]byte(pdf)), "="), vendorbill.ErrDocument},
		"empty":           {"", vendorbill.ErrDocument},
		"not base64":      {"%PDF", vendorbill.ErrDocument},
	} {
		f, err := (&vendorbill.Service{}).Read(t.Context(), c.text)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if c.want == nil && f.MediaType != vendorbill.PDF {
			t.Errorf("%s: stored as %q", name, f.MediaType)
		}
	}
}
