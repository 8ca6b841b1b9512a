package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	xlanguage "golang.org/x/text/language"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/identity"
)

//go:embed static templates texts
var files embed.FS

var (
	assets   = readAssets()
	catalogs = readCatalogs()
	pages    = readPages()
)

// asset is a file that pages load.
type asset struct {
	name, url, contentType string
	data                   []byte
}

func readAssets() []asset {
	names, err := fs.Glob(files, "static/*")
	if err != nil {
		panic(err)
	}
	var all []asset
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(data)
		file, extension := path.Base(name), path.Ext(name)
		all = append(all, asset{
			name: file, contentType: mime.TypeByExtension(extension), data: data,
			url: "/static/" + strings.TrimSuffix(file, extension) + "-" + hex.EncodeToString(sum[:6]) + extension,
		})
	}
	return all
}

// languages are those of the pages; the first one is for readers of none of them.
var languages = []struct{ Tag, Name string }{{"en", "English"}, {"es", "Español"}, {"pt", "Português"}, {"fr", "Français"}}

var matcher = xlanguage.NewMatcher([]xlanguage.Tag{xlanguage.English, xlanguage.Spanish, xlanguage.Portuguese, xlanguage.French})

// language is that of a page.
type language struct {
	tag   string
	asked bool // by ?lang=, so that links keep it
}

// chooseLanguage takes ?lang= when it names one of ours, else what the browser likes best of ours.
func chooseLanguage(r *http.Request) language {
	asked := r.URL.Query().Get("lang")
	for _, l := range languages {
		if l.Tag == asked {
			return language{l.Tag, true}
		}
	}
	wanted, _, err := xlanguage.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	if err != nil {
		return language{tag: languages[0].Tag}
	}
	_, i, _ := matcher.Match(wanted...)
	return language{tag: languages[i].Tag}
}

// readCatalogs reads the words of the pages, by language and key. A word with a %s in it takes what is put there.
func readCatalogs() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, l := range languages {
		names, err := fs.Glob(files, "texts/"+l.Tag+"*.json")
		if err != nil {
			panic(err)
		}
		all[l.Tag] = map[string]string{}
		for _, name := range names {
			data, err := files.ReadFile(name)
			if err != nil {
				panic(err) // embedded, so a test would have seen it
			}
			words := map[string]string{}
			if err := json.Unmarshal(data, &words); err != nil {
				panic(fmt.Sprintf("web: %s: %v", name, err))
			}
			for key, text := range words {
				if all[l.Tag][key] != "" {
					panic(fmt.Sprintf("web: %s says %s again", name, key))
				}
				all[l.Tag][key] = text
			}
		}
	}
	return all
}

func (c *call) has(key string) bool { return catalogs[c.lang.tag][key] != "" }

// text says something in the reader's language.
func (c *call) text(key string, args ...any) string {
	text, ok := catalogs[c.lang.tag][key]
	if !ok {
		panic("web: no text " + key)
	}
	if len(args) == 0 || !strings.Contains(text, "%") {
		return text // not every language, or state of a thing, needs what it could say
	}
	return fmt.Sprintf(text, args...)
}

// said is a text that may be in another language than its page: what the domain says is English.
type said struct{ Text, Lang string }

// said translates what a fault says where the catalogs know its code, perhaps for one field.
func (c *call) said(code, otherwise string, fields ...string) said {
	for _, field := range fields {
		if key := "fault." + code + "." + field; c.has(key) {
			return said{Text: c.text(key)}
		}
	}
	if key := "fault." + code; c.has(key) {
		return said{Text: c.text(key)}
	}
	if c.lang.tag == "en" {
		return said{Text: otherwise}
	}
	// What the domain says differs from place to place; in other languages the pages say what is common to all of it.
	if key := "fault." + code + ".else"; c.has(key) {
		return said{Text: c.text(key)}
	}
	return said{otherwise, "en"}
}

// readPages parses each page with the layout around it.
func readPages() map[string]*template.Template {
	layout := template.Must(template.ParseFS(files, "templates/layout.html", "templates/form.html", "templates/parts.html"))
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		panic(err)
	}
	all := map[string]*template.Template{}
	for _, name := range names {
		page := strings.TrimSuffix(path.Base(name), ".html")
		if page != "layout" && page != "form" && page != "parts" {
			all[page] = template.Must(template.Must(layout.Clone()).ParseFS(files, name))
		}
	}
	return all
}

// shown is what templates see: the page's own data, and the means to say and link things.
type shown struct {
	c           *call
	Title, Lang string
	Wide        bool   // the page has tables
	Bare        bool   // it stands within another one
	Live        string // the path of its stream
	Data        any
}

// T says something in the reader's language.
func (s shown) T(key string, args ...any) string { return s.c.text(key, args...) }

// URL is a path of this face, in the reader's language.
func (s shown) URL(path string) string { return s.c.url(path) }

// Asset is the address of an embedded file.
func (s shown) Asset(name string) (string, error) {
	for _, a := range assets {
		if a.name == name {
			return a.url, nil
		}
	}
	return "", fmt.Errorf("no asset %s", name)
}

// Sandbox says whether there is no real money here.
func (s shown) Sandbox() bool { return s.c.Env == identity.Sandbox }

// Languages are the others that this page can be read in.
func (s shown) Languages() []struct{ Tag, Name, URL string } {
	var all []struct{ Tag, Name, URL string }
	for _, l := range languages {
		query := s.c.r.URL.Query()
		query.Set("lang", l.Tag)
		all = append(all, struct{ Tag, Name, URL string }{l.Tag, l.Name, s.c.home() + "?" + query.Encode()})
	}
	return all
}

// Reload says where a page that loads itself anew finds itself, "" where it is.
func (s shown) Reload() string {
	home := s.c.home()
	if home == "" || s.c.r.URL.RawQuery == "" {
		return home
	}
	return home + "?" + s.c.r.URL.RawQuery
}

// Session is who is signed in, nil for nobody, or where the page does not ask.
func (s shown) Session() *session.Session { return s.c.session }

// FormToken proves that a form was made for who is signed in.
func (s shown) FormToken() string { return s.c.formToken() }

// Problems are what was wrong with the form, in order.
func (s shown) Problems() []problem { return s.c.problems() }

func render(c *call, v view) ([]byte, error) {
	page := pages[v.page]
	if page == nil {
		return nil, fmt.Errorf("no page %s", v.page)
	}
	var b bytes.Buffer
	part := "layout.html"
	if v.part != "" {
		part = v.part
	}
	err := page.ExecuteTemplate(&b, part, shown{c: c, Title: v.title, Lang: c.lang.tag, Wide: v.wide, Bare: v.bare, Live: v.live, Data: v.data})
	return b.Bytes(), err
}

// field is one input of a form, with its label, and what was wrong with it.
type field struct {
	Name, Label, Hint string
	Type              string // text, email, password, date, datetime-local, select
	Autocomplete      string
	Required          bool
	Most              int // characters
	Value             string
	Options           []option
	Problem           said
}

type option struct {
	Value, Label string
	Selected     bool
}

// DescribedBy lists the ids of what explains the field.
func (f field) DescribedBy() string {
	var ids []string
	if f.Hint != "" {
		ids = append(ids, f.Name+"-hint")
	}
	if f.Problem.Text != "" {
		ids = append(ids, f.Name+"-problem")
	}
	return strings.Join(ids, " ")
}

// field completes an input: its label from the catalogs, its value from what was posted, its problem from the fault.
func (c *call) field(f field) field {
	if f.Label == "" {
		f.Label = c.text("field." + f.Name)
	}
	if key := "field." + f.Name + ".hint"; c.has(key) {
		f.Hint = c.text(key)
	}
	if f.Type == "" {
		f.Type = "text"
	}
	if c.form.Has(f.Name) && f.Type != "password" {
		f.Value = c.form.Get(f.Name)
	}
	for i := range f.Options {
		f.Options[i].Selected = f.Options[i].Value == f.Value
	}
	for _, p := range c.problems() {
		if p.Name == f.Name {
			f.Problem = p.said
			break
		}
	}
	return f
}

// problem is one thing wrong with a form.
type problem struct {
	Name  string // of the field, "" for the whole form
	Label string
	said
}

func (c *call) problems() []problem {
	if c.problem == nil {
		return nil
	}
	var all []problem
	for _, f := range c.problem.Fields {
		all = append(all, c.wrong(f))
	}
	return all
}

func (c *call) wrong(f apierr.Field) problem {
	// A problem with one item of a list stands at the field of the list.
	name, _, _ := strings.Cut(strings.TrimPrefix(f.Pointer, "/"), "/")
	p := problem{said: c.said(f.Code, f.Message, name)}
	if key := "field." + name; c.labels[name] != "" {
		p.Name, p.Label = name, c.labels[name]
	} else if c.has(key) {
		p.Name, p.Label = name, c.text(key)
	}
	return p
}

// AskedLanguage is the one that was asked for by name, for forms that make an address.
func (s shown) AskedLanguage() string {
	if s.c.lang.asked {
		return s.c.lang.tag
	}
	return ""
}
