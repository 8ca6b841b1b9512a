package ui

import (
	"net/http"
	"slices"
	"strings"

	xlanguage "golang.org/x/text/language"

	"github.com/stipend/stipend/internal/web/ui/texts"
)

var (
	tags    = languageTags()
	matcher = xlanguage.NewMatcher(tags)
)

func languageTags() []xlanguage.Tag {
	var all []xlanguage.Tag
	for _, l := range texts.Languages {
		all = append(all, xlanguage.Make(l.Tag))
	}
	return all
}

// OfferLanguages limits the page to some languages, out of those that the operator offers; the first is the default.
// None is no limit.
func (c *Request) OfferLanguages(tags []string) {
	if offered := c.Operator.Languages; len(offered) > 0 {
		tags = slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return !slices.Contains(offered, tag) })
	}
	if len(tags) == 0 {
		return
	}
	if c.offered = tags; !slices.Contains(tags, c.Language.Tag) {
		c.Language = texts.Language{Tag: tags[0]}
	}
}

// chooseLanguage returns the language of the lang parameter, else the one that the reader chose before, else the best
// match for the Accept-Language header. Languages without texts are ignored.
func chooseLanguage(r *http.Request) texts.Language {
	asked, kept := r.URL.Query().Get("lang"), ""
	if k, err := r.Cookie(languageCookie); err == nil {
		kept = k.Value
	}
	for _, chosen := range []string{asked, kept} {
		for _, l := range texts.Languages {
			if l.Tag == chosen {
				return texts.Language{Tag: l.Tag, Explicit: chosen == asked, Chosen: true}
			}
		}
	}
	wanted, _, err := xlanguage.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	if err != nil {
		return texts.Language{Tag: texts.Languages[0].Tag}
	}
	_, i, _ := matcher.Match(wanted...)
	return texts.Language{Tag: texts.Languages[i].Tag}
}

// LocalizedText is a text with its language, if that differs from the page: error messages without a translation
// are English.
type LocalizedText struct{ Text, Lang string }

// Localize translates the error code, if possible with the text for one of the fields. Without a translation it
// returns otherwise, which is English.
func (c *Request) Localize(code, otherwise string, fields ...string) LocalizedText {
	for _, field := range fields {
		if key := "fault." + code + "." + field; c.HasText(key) {
			return LocalizedText{Text: c.Text(key)}
		}
	}
	if key := "fault." + code; c.HasText(key) {
		return LocalizedText{Text: c.Text(key)}
	}
	if c.Language.Tag == "en" && !strings.Contains(otherwise, " /api/") {
		return LocalizedText{Text: otherwise}
	}
	// Messages of one code vary. Other languages have one general text for all of them, which also replaces a message that
	// names an operation of the API.
	if key := "fault." + code + ".else"; c.HasText(key) {
		return LocalizedText{Text: c.Text(key)}
	}
	return LocalizedText{otherwise, "en"}
}

// Reason returns the text for a rejection code of a verification. Codes without a text get a general one, because
// screening results must not be disclosed.
func (c *Request) Reason(code string) string {
	if key := "kyc.reason." + code; c.HasText(key) {
		return c.Text(key)
	}
	return c.Text("kyc.reason.other")
}
