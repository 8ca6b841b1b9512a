package mail

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	htmltemplate "html/template"
	"reflect"
	"strings"
	"text/template"
	"time"
	"unicode"

	"golang.org/x/text/language"
)

// The words of the mails: one file per language, each a table of templates that make plain text. Only the two layouts
// know what a mail looks like, so no word is written twice, and html/template escapes all of them in one place.
var (
	//go:embed texts/*.json texts/layout.txt texts/layout.html
	files embed.FS

	languages = []language.Tag{language.English, language.Spanish, language.Portuguese, language.French}
	matcher   = language.NewMatcher(languages)
	catalogs  = readCatalogs()

	layoutText = template.Must(template.ParseFS(files, "texts/layout.txt"))
	layoutHTML = htmltemplate.Must(htmltemplate.ParseFS(files, "texts/layout.html"))
)

// catalog is one language.
type catalog struct {
	Hello       string             `json:"hello"`        // with the name
	HelloNobody string             `json:"hello_nobody"` // without
	Sandbox     string             `json:"sandbox"`
	Link        string             `json:"link"` // stands above the address that a button leads to
	Letters     map[string]wording `json:"letters"`
}

// wording is one mail in one language. Every text is a template over the mail's data.
type wording struct {
	Subject    string      `json:"subject"`
	Paragraphs []string    `json:"paragraphs"` // one that comes out empty is left out
	Facts      [][2]string `json:"facts"`      // label and value; one without a value is left out
	Button     string      `json:"button"`     // of the mail's one link
	Why        string      `json:"why"`        // why the reader gets this
}

// Letter is a finished mail.
type Letter struct{ Subject, Text, HTML string }

// page is what the layouts show.
type page struct {
	Lang, Subject, Sandbox, Hello string
	Paragraphs                    []string
	Facts                         []fact
	Button, URL, Link, Why        string
}

type fact struct{ Label, Value string }

func readCatalogs() map[language.Tag]catalog {
	all := map[language.Tag]catalog{}
	for _, tag := range languages {
		data, err := files.ReadFile("texts/" + tag.String() + ".json")
		if err != nil {
			panic(err) // embedded, so a test would have seen it
		}
		var c catalog
		if err := json.Unmarshal(data, &c); err != nil {
			panic(fmt.Sprintf("mail: texts/%s.json: %v", tag, err))
		}
		all[tag] = c
	}
	return all
}

// write makes the text of a mail in the nearest of our languages, with plain names where nobody has checked whose they
// are.
func (x *Mailer) write(m row, strangers bool) (Letter, error) {
	data := reflect.New(dataOf[m.template])
	plain, err := x.open(m)
	if err != nil {
		return Letter{}, fmt.Errorf("mail %s: %w", m.id, err)
	}
	if err := json.Unmarshal(plain, data.Interface()); err != nil {
		return Letter{}, fmt.Errorf("mail %s: %w", m.id, err)
	}
	if strangers {
		plainNames(data.Elem())
	}
	_, i, _ := matcher.Match(language.Make(m.language))
	c := catalogs[languages[i]]
	w := c.Letters[m.template]
	f := filler{data: data.Elem().Interface()}
	p := page{Lang: languages[i].String(), Subject: f.line(w.Subject), Hello: c.HelloNobody, Why: f.line(w.Why)}
	if name := data.Elem().FieldByName("Name"); name.IsValid() && name.String() != "" {
		p.Hello = f.line(c.Hello)
	}
	if x.Sandbox {
		p.Sandbox, p.Subject = c.Sandbox, "[Sandbox] "+p.Subject
	}
	for _, text := range w.Paragraphs {
		if text = f.line(text); text != "" {
			p.Paragraphs = append(p.Paragraphs, text)
		}
	}
	for _, pair := range w.Facts {
		if value := f.line(pair[1]); value != "" {
			p.Facts = append(p.Facts, fact{f.line(pair[0]), value})
		}
	}
	if data, ok := f.data.(linked); ok {
		p.Button, p.Link, p.URL = f.line(w.Button), c.Link, x.BaseURL+data.link()
	}
	if f.err != nil {
		return Letter{}, fmt.Errorf("mail %s: %w", m.id, f.err)
	}
	var text, html bytes.Buffer
	if err := layoutText.Execute(&text, p); err != nil {
		return Letter{}, err
	}
	if err := layoutHTML.Execute(&html, p); err != nil {
		return Letter{}, err
	}
	return Letter{p.Subject, text.String(), html.String()}, nil
}

// open reads what a mail is made of: sealed, or the JSON itself.
func (x *Mailer) open(m row) ([]byte, error) {
	if strings.HasPrefix(m.data, "{") {
		return []byte(m.data), nil
	}
	return x.Sealer.Open(dataOfMail(m.id), m.data)
}

// filler fills in templates and keeps the first error.
type filler struct {
	data any
	err  error
}

var functions = template.FuncMap{
	"time": func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format("2006-01-02 15:04 UTC")
	},
	"list": func(items []string) string { return strings.Join(items, "; ") },
}

// line fills in one line of text. Whatever names consist of, it stays one line: no name can begin a paragraph of its
// own.
func (f *filler) line(text string) string {
	t, err := template.New("").Funcs(functions).Option("missingkey=error").Parse(text)
	var b strings.Builder
	if err == nil {
		err = t.Execute(&b, f.data)
	}
	if err != nil && f.err == nil {
		f.err = err
	}
	visible := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.Is(unicode.C, r): // control characters, and those that turn the direction of writing
			return -1
		}
		return r
	}, b.String())
	return strings.Join(strings.Fields(visible), " ")
}
