package ui

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/text/feature/plural"
	xlanguage "golang.org/x/text/language"
)

// Languages lists the languages of the pages. The first is the default.
var Languages = []struct{ Tag, Name string }{{"en", "English"}, {"es", "Español"}, {"pt", "Português"},
	{"fr", "Français"}, {"de", "Deutsch"}, {"he", "עברית"}}

var (
	tags    = languageTags()
	matcher = xlanguage.NewMatcher(tags)
)

func languageTags() []xlanguage.Tag {
	var all []xlanguage.Tag
	for _, l := range Languages {
		all = append(all, xlanguage.Make(l.Tag))
	}
	return all
}

// Language is the language of a response.
type Language struct {
	Tag      string
	Explicit bool // chosen by ?lang=, which links then keep
}

// RightToLeft reports whether the language is written from right to left.
func (l Language) RightToLeft() bool { return l.Tag == "he" }

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
			words := map[string]catalogText{}
			if err := json.Unmarshal(data, &words); err != nil {
				panic(fmt.Sprintf("web: %s: %v", name, err))
			}
			for key, t := range words {
				if all[l.Tag][key] != "" {
					panic(fmt.Sprintf("web: %s has a duplicate key %s", name, key))
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
func (c *Request) HasText(key string) bool { return Catalogs[c.Language.Tag][key] != "" }

// Text returns the text for key in the reader's language, else in English, formatted with args. It panics if there is
// none.
func (c *Request) Text(key string, args ...any) string {
	text, ok := Catalogs[c.Language.Tag][key]
	if !ok {
		text, ok = Catalogs[Languages[0].Tag][key]
	}
	if !ok {
		panic("web: no text for " + key)
	}
	text = c.named(text)
	if len(args) == 0 || !strings.Contains(text, "%") {
		return text // a text need not use its arguments
	}
	if c.Language.RightToLeft() {
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
func (c *Request) Plural(key string, n int64, args ...any) string {
	form := key + "#" + PluralCategory(c.Language.Tag, n)
	if !c.HasText(form) && c.HasText(key+"#other") {
		form = key + "#other"
	}
	return c.Text(form, args...)
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
