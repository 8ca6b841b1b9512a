package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/legal"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/ui/texts"
)

// maxLogo is the maximum size of the operator's logo in bytes.
const maxLogo = 256 << 10

// operator returns how the operator presents the service. It reads the files that the configuration names.
func (c Config) operator() (o ui.Operator, err error) {
	o.Name, o.Languages = strings.TrimSpace(c.OperatorName), c.Languages
	if len(o.Name) > 60 || strings.ContainsAny(o.Name, "{}<>%\n\r") {
		return o, errors.New("--operator-name must have at most 60 bytes, without {, }, <, > and %")
	}
	for _, tag := range o.Languages {
		if !slices.ContainsFunc(texts.Languages, func(l struct{ Tag, Name string }) bool { return l.Tag == tag }) {
			return o, fmt.Errorf("--languages: there are no texts in %q", tag)
		}
	}
	if c.OperatorLogo != "" {
		o.LogoType = strings.ToLower(filepath.Ext(c.OperatorLogo))
		if o.LogoType != ".svg" && o.LogoType != ".png" {
			return o, fmt.Errorf("--operator-logo %s: want a file whose name ends in .svg or .png", c.OperatorLogo)
		}
		if o.Logo, err = os.ReadFile(c.OperatorLogo); err != nil {
			return o, fmt.Errorf("--operator-logo: %w", err)
		}
		if len(o.Logo) == 0 || len(o.Logo) > maxLogo {
			return o, fmt.Errorf("--operator-logo %s: the file must have at most 256 KiB, and not be empty", c.OperatorLogo)
		}
	}
	if c.LegalTexts != "" {
		if o.Legal, err = legal.Read(os.DirFS(c.LegalTexts)); err != nil {
			return o, fmt.Errorf("--legal-texts: %w", err)
		}
	}
	return o, nil
}
