// Package texts has the texts of pages and documents in each language, and formats numbers, amounts and times for their
// reader. The catalogs are the JSON files beside it.
package texts

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/text/feature/plural"
	xlanguage "golang.org/x/text/language"

	"github.com/stipend/stipend/internal/identity"
)

// Product is the name of the service in the catalogs.
const Product = "Stipend"

//go:embed *.json
var files embed.FS

// Catalogs maps language tags and keys to the texts.
var Catalogs = readCatalogs()

// Languages lists the languages of the pages. The first is the default.
var Languages = []struct{ Tag, Name string }{{"en", "English"}, {"es", "Español"}, {"pt", "Português"},
	{"fr", "Français"}, {"de", "Deutsch"}, {"he", "עברית"}}

// Language is the language of a response.
type Language struct {
	Tag      string
	Explicit bool // chosen by ?lang=, which links then keep
	Chosen   bool // chosen by ?lang=, now or before in this browser
}

// Reader is who reads a page or document: the language, the formats that the reader chose, and the name under which
// the reader knows the service.
type Reader struct {
	Language Language
	Locale   identity.Locale // the zero Locale has the formats of the language, and UTC
	Service  string          // name of the service; "" means Stipend
}

// RightToLeft reports whether the language is written from right to left.
func (l Language) RightToLeft() bool { return l.Tag == "he" }

// catalogText is a text of a catalog: a string, or an object with a string for each plural category of the language.
type catalogText struct {
	text  string
	forms map[string]string
}

// UnmarshalJSON reads a string or an object of strings.
func (t *catalogText) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		return json.Unmarshal(data, &t.forms)
	}
	return json.Unmarshal(data, &t.text)
}

// readCatalogs reads the embedded texts. Texts may contain %s for arguments. A plural form is stored with the key of
// its text, "#" and its category. It panics on duplicate keys.
func readCatalogs() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, l := range Languages {
		names, err := fs.Glob(files, l.Tag+"*.json")
		if err != nil {
			panic(err)
		}
		all[l.Tag] = map[string]string{}
		for _, name := range names {
			data, err := files.ReadFile(name)
			if err != nil {
				panic(err)
			}
			words := map[string]catalogText{}
			if err := json.Unmarshal(data, &words); err != nil {
				panic(fmt.Sprintf("texts: %s: %v", name, err))
			}
			for key, t := range words {
				if all[l.Tag][key] != "" {
					panic(fmt.Sprintf("texts: %s has a duplicate key %s", name, key))
				}
				if t.forms == nil {
					all[l.Tag][key] = t.text
				}
				for category, text := range t.forms {
					all[l.Tag][key+"#"+category] = text
				}
			}
		}
	}
	return all
}

// HasText reports whether there is a text for key in the reader's language.
func (r *Reader) HasText(key string) bool { return Catalogs[r.Language.Tag][key] != "" }

// Text returns the text for key in the reader's language, else in English, formatted with args. It panics if there is
// none.
func (r *Reader) Text(key string, args ...any) string {
	text, ok := Catalogs[r.Language.Tag][key]
	if !ok {
		text, ok = Catalogs[Languages[0].Tag][key]
	}
	if !ok {
		panic("texts: no text for " + key)
	}
	text = r.named(text)
	if len(args) == 0 || !strings.Contains(text, "%") {
		return text // a text need not use its arguments
	}
	if r.Language.RightToLeft() {
		args = slices.Clone(args)
		for i, a := range args {
			args[i] = isolated(a)
		}
	}
	return fmt.Sprintf(text, args...)
}

// isolated returns a value between Unicode's marks of an isolate, so that its direction does not reorder the text
// around it.
func isolated(value any) any {
	if text, ok := value.(string); ok {
		return "\u2068" + text + "\u2069"
	}
	return value
}

// Plural returns the text for key in the plural form that the reader's language uses for n, formatted with args.
func (r *Reader) Plural(key string, n int64, args ...any) string {
	form := key + "#" + PluralCategory(r.Language.Tag, n)
	if !r.HasText(form) && r.HasText(key+"#other") {
		form = key + "#other"
	}
	return r.Text(form, args...)
}

// categories are the names of Unicode CLDR's plural categories.
var categories = map[plural.Form]string{plural.Zero: "zero", plural.One: "one", plural.Two: "two", plural.Few: "few",
	plural.Many: "many", plural.Other: "other"}

// PluralCategory returns Unicode CLDR's category of a whole number in a language, such as "one" or "other".
func PluralCategory(language string, n int64) string {
	if n < 0 {
		n = -n
	}
	return categories[plural.Cardinal.MatchPlural(xlanguage.Make(language), int(n%1_000_000), 0, 0, 0, 0)]
}

// named returns a text of the catalogs with the name of the service.
func (r *Reader) named(text string) string {
	if r.Service == "" {
		return text
	}
	return strings.ReplaceAll(text, Product, r.Service)
}
