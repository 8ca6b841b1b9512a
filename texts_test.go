package stipend_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
)

// textsOfPages are the texts of the pages: one set of files per language, with the same keys in each.
const textsOfPages = "internal/web/ui/texts"

// pageText is a text, or its plural forms by Unicode CLDR's categories.
type pageText struct {
	text  string
	forms map[string]string
}

func (t *pageText) UnmarshalJSON(data []byte) error {
	if strings.HasPrefix(string(data), "{") {
		return json.Unmarshal(data, &t.forms)
	}
	return json.Unmarshal(data, &t.text)
}

// catalogsOfPages reads the texts of all pages by language.
func catalogsOfPages(t *testing.T) map[string]map[string]pageText {
	t.Helper()
	names, err := filepath.Glob(textsOfPages + "/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no texts: %v", err)
	}
	all := map[string]map[string]pageText{}
	for _, name := range names {
		tag, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(name), ".json"), "-")
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string]pageText{}
		if err := json.Unmarshal(data, &texts); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if all[tag] == nil {
			all[tag] = map[string]pageText{}
		}
		for key, text := range texts {
			if _, twice := all[tag][key]; twice {
				t.Errorf("%s: %s is in two files", name, key)
			}
			all[tag][key] = text
		}
	}
	return all
}

var formatVerb = regexp.MustCompile(`%[a-z%]`)

// categoriesOf returns the plural categories that a language uses for the numbers up to 1,000.
func categoriesOf(tag string) []string {
	names := map[plural.Form]string{plural.Other: "other", plural.Zero: "zero", plural.One: "one", plural.Two: "two",
		plural.Few: "few", plural.Many: "many"}
	var all []string
	for n := range 1001 {
		if c := names[plural.Cardinal.MatchPlural(language.Make(tag), n, 0, 0, 0, 0)]; !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all
}

func TestTextsAreCompleteInEveryLanguage(t *testing.T) {
	all := catalogsOfPages(t)
	english := all["en"]
	for tag, catalog := range all {
		for key, want := range english {
			got, exists := catalog[key]
			switch {
			case !exists:
				t.Errorf("%s lacks the text %s: %q%v", tag, key, want.text, want.forms)
			case (got.forms == nil) != (want.forms == nil):
				t.Errorf("%s: %s has plural forms in one language only", tag, key)
			case got.forms == nil:
				sameVerbs(t, tag, key, want.text, got.text)
			default:
				for _, category := range categoriesOf(tag) {
					// Hebrew's category of tens is no longer in use: they are counted as others.
					if got.forms[category] == "" && (tag != "he" || category != "many") {
						t.Errorf("%s: %s lacks the plural form %q", tag, key, category)
					}
				}
				for _, text := range got.forms {
					sameVerbs(t, tag, key, want.forms["other"], text)
				}
			}
		}
		for key := range catalog {
			if _, exists := english[key]; !exists {
				t.Errorf("%s: %s is no text in English", tag, key)
			}
		}
	}
}

func sameVerbs(t *testing.T, tag, key, english, text string) {
	t.Helper()
	if text == "" || fmt.Sprint(formatVerb.FindAllString(text, -1)) != fmt.Sprint(formatVerb.FindAllString(english, -1)) {
		t.Errorf("%s: %s is %q, in English %q", tag, key, text, english)
	}
}

func TestMailsAreCompleteInEveryLanguage(t *testing.T) {
	type texts struct {
		Mails map[string]struct {
			Paragraphs []string
			Facts      [][2]string
		}
	}
	read := func(tag string) (all texts) {
		data, err := os.ReadFile("internal/mail/texts/" + tag + ".json")
		if err != nil {
			t.Errorf("the pages have the language %s, the mails have not: %v", tag, err)
			return all
		}
		if err := json.Unmarshal(data, &all); err != nil {
			t.Fatalf("%s: %v", tag, err)
		}
		return all
	}
	english := read("en")
	for tag := range catalogsOfPages(t) {
		got := read(tag)
		for name, want := range english.Mails {
			m, exists := got.Mails[name]
			if !exists || len(m.Paragraphs) != len(want.Paragraphs) || len(m.Facts) != len(want.Facts) {
				t.Errorf("%s: the mail %s is missing or has not the parts of the English one", tag, name)
			}
		}
		if len(got.Mails) != len(english.Mails) {
			t.Errorf("%s: %d mails, in English %d", tag, len(got.Mails), len(english.Mails))
		}
	}
}

// textKeys finds the keys of texts that templates and Go files name.
var textKeys = regexp.MustCompile(`(?:\.T|\.Text|\.Plural)\(? ?"([a-z0-9_.]+)"`)

func TestEveryTextThatIsUsedExists(t *testing.T) {
	english := catalogsOfPages(t)["en"]
	found := 0
	for _, pattern := range []string{"internal/web/*/*.go", "internal/web/ui/templates/*.html"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range textKeys.FindAllStringSubmatch(string(data), -1) {
				found++
				if _, exists := english[match[1]]; !exists && !strings.HasSuffix(match[1], ".") {
					t.Errorf("%s uses %s, which has no text", name, match[1])
				}
			}
		}
	}
	if found < 500 {
		t.Errorf("found only %d uses of texts", found)
	}
}

// oldWords are words and phrases that earlier texts had, and that a native speaker would not write to a customer.
var oldWords = regexp.MustCompile(`(?i)\bno such\b|^there (is|are) no\b|\b(has|have|had) come\b|\bc[ao]mes? back\b|` +
	`\bhand(ed)? in\b|\bput right\b|\bmend|\b(is|been) told\b|\bleave it( there|\.)|\blook at it\b|\bwho(so|m)?ever\b|` +
	`\bthe law asks\b|\bstands?\b|\bcancelled\b|\bescrow\b|\brecipients?\b|\bdistribution\b|\bpayout method\b|` +
	`\bpay run\b|` +
	`\bsecond factor\b|\b(some|any|every)body\b|\bthis is no\b|\bbegun\b|\bnothing waits\b|\bwho(m)? you pay\b|!$|` +
	`\bin a while[.,]|\bgo on\b|\bgrave\b|\blest\b|\bdriving licence\b|\bthe house\b`)

func TestTextsUseTheWordsOfTheGlossary(t *testing.T) {
	check := func(where, text string) {
		if word := oldWords.FindString(text); word != "" {
			t.Errorf("%s: %q in %q; docs/glossary.md and CONTRIBUTING.md have better words", where, word, text)
		}
	}
	for key, text := range catalogsOfPages(t)["en"] {
		check(key, text.text)
		for category, form := range text.forms {
			check(key+" "+category, form)
		}
	}
	data, err := os.ReadFile("internal/mail/texts/en.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range regexp.MustCompile(`"(?:[^"\\]|\\.)*"`).FindAllString(string(data), -1) {
		if text = strings.Trim(text, `"`); strings.Contains(text, " ") {
			check("mails", text)
		}
	}
}
