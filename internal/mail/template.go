package mail

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	htmltemplate "html/template"
	"reflect"
	"regexp"
	"strings"
	"text/template"
	"time"
	"unicode"

	"golang.org/x/text/language"

	formats "github.com/stipend/stipend/internal/web/ui/texts"
)

// Texts of the mails: one file per language with templates in plain text. Two layouts add the markup; html/template
// escapes all texts.
var (
	//go:embed texts/*.json texts/layout.txt texts/layout.html
	files embed.FS

	languages = []language.Tag{language.English, language.Spanish, language.Portuguese, language.French,
		language.German, language.Hebrew}
	matcher  = language.NewMatcher(languages)
	catalogs = readCatalogs()

	layoutText = template.Must(template.ParseFS(files, "texts/layout.txt"))
	layoutHTML = htmltemplate.Must(htmltemplate.ParseFS(files, "texts/layout.html"))
)

// catalog contains the texts of one language.
type catalog struct {
	Hello       string           `json:"hello"`         // greeting if the name is known
	HelloNoName string           `json:"hello_no_name"` // greeting if the name is unknown
	Sandbox     string           `json:"sandbox"`
	Link        string           `json:"link"` // introduces the URL that the button opens
	Mails       map[string]texts `json:"mails"`
}

// texts are the texts of one mail in one language. Each is a template that is executed with the mail's data.
type texts struct {
	Subject    string      `json:"subject"`
	Paragraphs []string    `json:"paragraphs"` // a paragraph is omitted if it is empty
	Facts      [][2]string `json:"facts"`      // label and value; a fact is omitted if its value is empty
	Button     string      `json:"button"`     // label of the button that opens the link
	Why        string      `json:"why"`        // explains why the recipient receives this mail
}

// Content is a rendered mail.
type Content struct{ Subject, Text, HTML string }

// page is the data of the layouts.
type page struct {
	Lang, Subject, Sandbox, Hello string
	RightToLeft                   bool
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
			panic(err) // never happens, because the file is embedded
		}
		var c catalog
		if err := json.Unmarshal(data, &c); err != nil {
			panic(fmt.Sprintf("mail: texts/%s.json: %v", tag, err))
		}
		all[tag] = c
	}
	return all
}

// render returns the text of a mail in the best matching language. If unverified is true, it changes names so that
// they cannot act as links.
func (x *Mailer) render(m row, unverified bool) (Content, error) {
	data := reflect.New(dataOf[m.template])
	plain, err := x.open(m)
	if err != nil {
		return Content{}, fmt.Errorf("mail %s: %w", m.id, err)
	}
	if err := json.Unmarshal(plain, data.Interface()); err != nil {
		return Content{}, fmt.Errorf("mail %s: %w", m.id, err)
	}
	if unverified {
		sanitizeNames(data.Elem())
	}
	_, i, _ := matcher.Match(language.Make(m.language))
	c := catalogs[languages[i]]
	formatAmounts(data.Elem(), languages[i].String())
	w := c.Mails[m.template]
	f := filler{data: data.Elem().Interface(), name: x.Name}
	f.subject = f.line(w.Subject)
	p := page{Lang: languages[i].String(), Subject: f.subject, RightToLeft: languages[i] == language.Hebrew,
		Hello: c.HelloNoName, Why: f.line(w.Why)}
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
		return Content{}, fmt.Errorf("mail %s: %w", m.id, f.err)
	}
	var text, html bytes.Buffer
	if err := layoutText.Execute(&text, p); err != nil {
		return Content{}, err
	}
	if err := layoutHTML.Execute(&html, p); err != nil {
		return Content{}, err
	}
	return Content{p.Subject, text.String(), html.String()}, nil
}

// plainAmount matches an amount in the data of mails, such as "1200.00 USD".
var plainAmount = regexp.MustCompile(`^-?\d+(\.\d+)? [A-Z]{3,5}$`)

// formatAmounts formats the amounts in a mail's data for a language.
func formatAmounts(data reflect.Value, tag string) {
	reader := formats.Reader{Language: formats.Language{Tag: tag}}
	for i := range data.NumField() {
		v := data.Field(i)
		if v.Kind() != reflect.String {
			continue
		}
		v.SetString(plainAmount.ReplaceAllStringFunc(v.String(), func(amount string) string {
			number, currency, _ := strings.Cut(amount, " ")
			return reader.FormatNumber(number) + " " + currency
		}))
	}
}

// open returns the data of a mail as JSON, decrypted if it is encrypted.
func (x *Mailer) open(m row) ([]byte, error) {
	if strings.HasPrefix(m.data, "{") {
		return []byte(m.data), nil
	}
	return x.Sealer.Open(dataPlace(m.id), m.data)
}

// filler executes templates and stores the first error.
type filler struct {
	data    any
	subject string // result of {{subject}}
	name    string // name of the service; "" means Stipend
	err     error
}

func (f *filler) functions() template.FuncMap {
	return template.FuncMap{
		"time": func(t time.Time) string {
			if t.IsZero() {
				return ""
			}
			return t.UTC().Format("2006-01-02 15:04 UTC")
		},
		"list":    func(items []string) string { return strings.Join(items, "; ") },
		"subject": func() string { return f.subject },
	}
}

// line executes a template and returns the result as a single line without control characters, whatever the data
// contains.
func (f *filler) line(text string) string {
	if f.name != "" {
		text = strings.ReplaceAll(text, "Stipend", f.name)
	}
	t, err := template.New("").Funcs(f.functions()).Option("missingkey=error").Parse(text)
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
		case unicode.Is(unicode.C, r): // control characters, including those that change the writing direction
			return -1
		}
		return r
	}, b.String())
	return strings.Join(strings.Fields(visible), " ")
}
