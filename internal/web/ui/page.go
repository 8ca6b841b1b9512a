package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
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
	assets = readAssets()
	// Catalogs holds the texts of the pages by language and key.
	Catalogs = readCatalogs()
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

// Languages are those of the pages; the first one is for readers of none of them.
var Languages = []struct{ Tag, Name string }{{"en", "English"}, {"es", "Español"}, {"pt", "Português"}, {"fr", "Français"}}

var matcher = xlanguage.NewMatcher([]xlanguage.Tag{xlanguage.English, xlanguage.Spanish, xlanguage.Portuguese, xlanguage.French})

// Language is that of a page.
type Language struct {
	Tag      string
	Explicit bool // by ?lang=, so that links keep it
}

// chooseLanguage takes ?lang= when it names one of ours, else what the browser likes best of ours.
func chooseLanguage(r *http.Request) Language {
	asked := r.URL.Query().Get("lang")
	for _, l := range Languages {
		if l.Tag == asked {
			return Language{l.Tag, true}
		}
	}
	wanted, _, err := xlanguage.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	if err != nil {
		return Language{Tag: Languages[0].Tag}
	}
	_, i, _ := matcher.Match(wanted...)
	return Language{Tag: Languages[i].Tag}
}

// readCatalogs reads the words of the pages, by language and key. A word with a %s in it takes what is put there.
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

// HasText reports whether the catalogs have a text in the reader's language.
func (c *Request) HasText(key string) bool { return Catalogs[c.Language.Tag][key] != "" }

// Text says something in the reader's language.
func (c *Request) Text(key string, args ...any) string {
	text, ok := Catalogs[c.Language.Tag][key]
	if !ok {
		panic("web: no text " + key)
	}
	if len(args) == 0 || !strings.Contains(text, "%") {
		return text // not every language, or state of a thing, needs what it could say
	}
	return fmt.Sprintf(text, args...)
}

// LocalizedText is a text that may be in another language than its page: what the domain says is English.
type LocalizedText struct{ Text, Lang string }

// Localize translates what a fault says where the catalogs know its code, perhaps for one field.
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
	// What the domain says differs from place to place; in other languages the pages say what is common to all of it.
	if key := "fault." + code + ".else"; c.HasText(key) {
		return LocalizedText{Text: c.Text(key)}
	}
	return LocalizedText{otherwise, "en"}
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

// PageData is what templates see: the page's own data, and the means to say and link things.
type PageData struct {
	request     *Request
	Title, Lang string
	Wide        bool   // the page has tables
	Bare        bool   // it stands within another one
	Live        string // the path of its stream
	Data        any
}

// T says something in the reader's language.
func (s PageData) T(key string, args ...any) string { return s.request.Text(key, args...) }

// URL is a path of this face, in the reader's language.
func (s PageData) URL(path string) string { return s.request.URL(path) }

// Asset is the address of an embedded file.
func (s PageData) Asset(name string) (string, error) {
	for _, a := range assets {
		if a.name == name {
			return a.url, nil
		}
	}
	return "", fmt.Errorf("no asset %s", name)
}

// Sandbox says whether there is no real money here.
func (s PageData) Sandbox() bool { return s.request.Env == identity.Sandbox }

// Languages are the others that this page can be read in.
func (s PageData) Languages() []struct{ Tag, Name, URL string } {
	var all []struct{ Tag, Name, URL string }
	for _, l := range Languages {
		query := s.request.HTTP.URL.Query()
		query.Set("lang", l.Tag)
		all = append(all, struct{ Tag, Name, URL string }{l.Tag, l.Name, s.request.home() + "?" + query.Encode()})
	}
	return all
}

// Reload says where a page that loads itself anew finds itself, "" where it is.
func (s PageData) Reload() string {
	home := s.request.home()
	if home == "" || s.request.HTTP.URL.RawQuery == "" {
		return home
	}
	return home + "?" + s.request.HTTP.URL.RawQuery
}

// Session is who is signed in, nil for nobody, or where the page does not ask.
func (s PageData) Session() *session.Session { return s.request.Session }

// FormToken proves that a form was made for who is signed in.
func (s PageData) FormToken() string { return s.request.formToken() }

// Problems are what was wrong with the form, in order.
func (s PageData) Problems() []FormProblem { return s.request.Problems() }

// RegisterTemplate adds a page with texts of its own, for tests of the server. page is the content of the layout.
func RegisterTemplate(name, page string, texts map[string]string) {
	for _, l := range Languages {
		maps.Copy(Catalogs[l.Tag], texts)
	}
	layout := template.Must(template.ParseFS(files, "templates/layout.html", "templates/form.html"))
	pages[name] = template.Must(layout.Parse(page))
}

// Field is an input of a form, with its value and problem.
func (s PageData) Field(name string) Field { return s.request.Field(Field{Name: name}) }

func render(c *Request, v View) ([]byte, error) {
	page := pages[v.Template]
	if page == nil {
		return nil, fmt.Errorf("no page %s", v.Template)
	}
	var b bytes.Buffer
	part := "layout.html"
	if v.part != "" {
		part = v.part
	}
	err := page.ExecuteTemplate(&b, part, PageData{request: c, Title: v.Title, Lang: c.Language.Tag, Wide: v.Wide, Bare: v.Bare, Live: v.LivePath, Data: v.Data})
	return b.Bytes(), err
}

// Field is one input of a form, with its label, and what was wrong with it.
type Field struct {
	Name, Label, Hint string
	Type              string // text, email, password, date, datetime-local, select
	Autocomplete      string
	Required          bool
	Most              int // characters
	Value             string
	Options           []Option
	Problem           LocalizedText
}

// Option is one choice of a select field.
type Option struct {
	Value, Label string
	Selected     bool
}

// DescribedBy lists the ids of what explains the field.
func (f Field) DescribedBy() string {
	var ids []string
	if f.Hint != "" {
		ids = append(ids, f.Name+"-hint")
	}
	if f.Problem.Text != "" {
		ids = append(ids, f.Name+"-problem")
	}
	return strings.Join(ids, " ")
}

// Field completes an input: its label from the catalogs, its value from what was posted, its problem from the fault.
func (c *Request) Field(f Field) Field {
	if f.Label == "" {
		f.Label = c.Text("field." + f.Name)
	}
	if key := "field." + f.Name + ".hint"; c.HasText(key) {
		f.Hint = c.Text(key)
	}
	if f.Type == "" {
		f.Type = "text"
	}
	if c.Form.Has(f.Name) && f.Type != "password" {
		f.Value = c.Form.Get(f.Name)
	}
	for i := range f.Options {
		f.Options[i].Selected = f.Options[i].Value == f.Value
	}
	for _, p := range c.Problems() {
		if p.Name == f.Name {
			f.Problem = p.LocalizedText
			break
		}
	}
	return f
}

// FormProblem is one thing wrong with a form.
type FormProblem struct {
	Name  string // of the field, "" for the whole form
	Label string
	LocalizedText
}

// Problems returns what is wrong with the posted form, in order.
func (c *Request) Problems() []FormProblem {
	if c.Problem == nil {
		return nil
	}
	var all []FormProblem
	for _, f := range c.Problem.Fields {
		all = append(all, c.problemOf(f))
	}
	return all
}

func (c *Request) problemOf(f apierr.Field) FormProblem {
	// A problem with one item of a list stands at the field of the list.
	name, _, _ := strings.Cut(strings.TrimPrefix(f.Pointer, "/"), "/")
	p := FormProblem{LocalizedText: c.Localize(f.Code, f.Message, name)}
	if key := "field." + name; c.Labels[name] != "" {
		p.Name, p.Label = name, c.Labels[name]
	} else if c.HasText(key) {
		p.Name, p.Label = name, c.Text(key)
	}
	return p
}

// AskedLanguage is the one that was asked for by name, for forms that make an address.
func (s PageData) AskedLanguage() string {
	if s.request.Language.Explicit {
		return s.request.Language.Tag
	}
	return ""
}
