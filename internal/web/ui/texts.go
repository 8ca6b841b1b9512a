package ui

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	xlanguage "golang.org/x/text/language"
)

// Languages lists the languages of the pages. The first is the default.
var Languages = []struct{ Tag, Name string }{{"en", "English"}, {"es", "Español"}, {"pt", "Português"},
	{"fr", "Français"}}

var matcher = xlanguage.NewMatcher([]xlanguage.Tag{xlanguage.English, xlanguage.Spanish, xlanguage.Portuguese,
	xlanguage.French})

// Language is the language of a response.
type Language struct {
	Tag      string
	Explicit bool // chosen by ?lang=, which links then keep
}

// OfferLanguages limits the page to some languages; the first is the default. None is no limit.
func (c *Request) OfferLanguages(tags []string) {
	if c.offered = tags; len(tags) > 0 && !slices.Contains(tags, c.Language.Tag) {
		c.Language = Language{Tag: tags[0]}
	}
}

// chooseLanguage returns the language of the lang parameter, else the one that the reader chose before, else the best
// match for the Accept-Language header. Languages without texts are ignored.
func chooseLanguage(r *http.Request) Language {
	asked, kept := r.URL.Query().Get("lang"), ""
	if k, err := r.Cookie(languageCookie); err == nil {
		kept = k.Value
	}
	for _, chosen := range []string{asked, kept} {
		for _, l := range Languages {
			if l.Tag == chosen {
				return Language{l.Tag, chosen == asked}
			}
		}
	}
	wanted, _, err := xlanguage.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	if err != nil {
		return Language{Tag: Languages[0].Tag}
	}
	_, i, _ := matcher.Match(wanted...)
	return Language{Tag: Languages[i].Tag}
}

// readCatalogs reads the embedded texts. Texts may contain %s for arguments. It panics on duplicate keys.
func readCatalogs() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, l := range Languages {
		names, err := fs.Glob(files, "texts/"+l.Tag+"*.json")
		if err != nil {
			panic(err)
		}
		all[l.Tag] = map[string]string{}
		for _, name := range names {
			data, err := files.ReadFile(name)
			if err != nil {
				panic(err)
			}
			words := map[string]string{}
			if err := json.Unmarshal(data, &words); err != nil {
				panic(fmt.Sprintf("web: %s: %v", name, err))
			}
			for key, text := range words {
				if all[l.Tag][key] != "" {
					panic(fmt.Sprintf("web: %s has a duplicate key %s", name, key))
				}
				all[l.Tag][key] = text
			}
		}
	}
	return all
}

// HasText reports whether there is a text for key in the reader's language.
func (c *Request) HasText(key string) bool { return Catalogs[c.Language.Tag][key] != "" }

// Text returns the text for key in the reader's language, formatted with args. It panics if there is none.
func (c *Request) Text(key string, args ...any) string {
	text, ok := Catalogs[c.Language.Tag][key]
	if !ok {
		panic("web: no text for " + key)
	}
	if len(args) == 0 || !strings.Contains(text, "%") {
		return text // a text need not use its arguments
	}
	return fmt.Sprintf(text, args...)
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
	if c.Language.Tag == "en" {
		return LocalizedText{Text: otherwise}
	}
	// Messages of one code vary. Other languages have one general text for all of them.
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
