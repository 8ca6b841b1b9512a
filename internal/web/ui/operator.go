package ui

import (
	"cmp"
	"slices"

	"github.com/stipend/stipend/internal/legal"
	"github.com/stipend/stipend/internal/web/ui/texts"
)

// Operator is how the operator presents the service. The zero Operator shows Stipend with all languages, and has no
// legal texts.
type Operator struct {
	Name string // "" means Stipend
	// Logo is an image that replaces the mark, nil for none. LogoType is the extension of its file, .svg or .png.
	Logo     []byte
	LogoType string
	// Languages are the tags of the languages that the pages offer, the default first; empty for all.
	Languages []string
	// Legal are the texts that users accept.
	Legal legal.Texts
}

// OperatorName returns the name of the service, as the operator presents it.
func (s *Server) OperatorName() string { return cmp.Or(s.Operator.Name, texts.Product) }

// offer limits the language of a request to those that the operator offers.
func (s *Server) offer(l texts.Language) texts.Language {
	if offered := s.Operator.Languages; len(offered) > 0 && !slices.Contains(offered, l.Tag) {
		return texts.Language{Tag: offered[0]}
	}
	return l
}

// OperatorName returns the name of the service, as the operator presents it.
func (s PageData) OperatorName() string { return s.request.OperatorName() }

// Logo returns the URL of the operator's logo, or "".
func (s PageData) Logo() string {
	if s.request.logo == nil {
		return ""
	}
	return s.request.logo.url
}

// LegalLinks returns links to the operator's legal texts.
func (s PageData) LegalLinks() (all []Cell) {
	for _, d := range s.request.Operator.Legal.All(s.Lang) {
		all = append(all, s.request.LinkCell(s.T("legal."+d.Kind), "/"+d.Kind))
	}
	return all
}
