package ui

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/web/ui/texts"
)

//go:embed static styles templates licenses
var files embed.FS

var (
	assets = readAssets()
	pages  = readPages()
)

// parseLayout parses the layout and the components that all pages use.
func parseLayout() *template.Template {
	return template.Must(template.New("layout.html").Funcs(template.FuncMap{
		"icon": icon, "mark": mark, "money": moneyHTML, "initials": initials, "hue": hue, "short": shortID,
		"groups": GroupsOfFour,
	}).ParseFS(files, "templates/layout.html", "templates/form.html", "templates/parts.html"))
}

// readPages parses each page template together with the layout.
func readPages() map[string]*template.Template {
	layout := parseLayout()
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

// PageData is the data of a template: the page's own data, and functions for texts and links.
type PageData struct {
	request     *Request
	Title, Lang string
	Bare        bool   // embedded in another site, so without a header
	Live        string // path of the event stream; "" for a static page
	Lead        string // a sentence below the title
	Summary     string // what messages with a link to the page show
	Crumbs      []Cell // links to the pages above
	State       Cell   // a badge beside the title
	Template    string
	Style       string // path of the style sheet with a merchant's accent color; "" for none
	Embedders   string // origins of an embedded page's merchant, separated by spaces; they receive its events
	Checks      bool   // has forms that are checked while they are filled in
	Data        any
}

// sheets are the templates of single tasks, which are shown without navigation. The value is the width of the sheet.
var sheets = map[string]string{
	"authorize": "sheet-m", "code": "", "form_page": "", "invitation": "sheet-m", "join": "sheet-m", "passkey": "",
	"proof": "", "recovery": "sheet-m", "refund": "sheet-m", "refund_check": "sheet-m", "secret": "sheet-m", "sent": "",
	"sign_in": "", "operator_sign_in": "", "payee_request": "sheet-m",
	"device": "", "sso_sign_in": "", "email_change": "sheet-m", "legal_accept": "sheet-m",
}

// Frame returns what surrounds the content: "app" is the navigation of a signed-in user, "sheet" a single task,
// "pay" a checkout, and "page" any other public page.
func (s PageData) Frame() string {
	_, sheet := sheets[s.Template]
	switch {
	case s.Template == "checkout", s.Template == "pay_link":
		return "pay"
	case sheet:
		return "sheet"
	case s.request.Session != nil || s.request.Staff != nil:
		return "app"
	}
	return "page"
}

// Copies reports whether the page has buttons that copy a value, which need a script.
func (s PageData) Copies() bool {
	return s.Live != "" || s.Frame() == "app" || s.Template == "secret" || s.Template == "recovery"
}

// Sheet returns the class for the width of a single task.
func (s PageData) Sheet() string { return sheets[s.Template] }

// T returns the text for key in the reader's language.
func (s PageData) T(key string, args ...any) string { return s.request.Text(key, args...) }

// URL returns path with the lang parameter, if the reader chose one.
func (s PageData) URL(path string) string { return s.request.URL(path) }

// Asset returns the URL of an embedded file.
func (s PageData) Asset(name string) (string, error) {
	for _, a := range assets {
		if a.name == name {
			return a.url, nil
		}
	}
	return "", fmt.Errorf("no asset %s", name)
}

// Direction returns "rtl" if the page is written from right to left, else "".
func (s PageData) Direction() string {
	if s.request.Language.RightToLeft() {
		return "rtl"
	}
	return ""
}

// Sandbox reports whether this is a sandbox, without real money.
func (s PageData) Sandbox() bool { return s.request.Env == identity.Sandbox }

// Languages returns links to this page in each language.
func (s PageData) Languages() []struct{ Tag, Name, URL string } {
	var all []struct{ Tag, Name, URL string }
	for _, l := range texts.Languages {
		if offered := s.request.offered; len(offered) > 0 && !slices.Contains(offered, l.Tag) {
			continue
		}
		query := s.request.HTTP.URL.Query()
		query.Set("lang", l.Tag)
		all = append(all, struct{ Tag, Name, URL string }{l.Tag, l.Name, s.request.home() + "?" + query.Encode()})
	}
	return all
}

// Reload returns the URL from which this page can be loaded again; "" means the current URL.
func (s PageData) Reload() string {
	home := s.request.home()
	if home == "" || s.request.HTTP.URL.RawQuery == "" {
		return home
	}
	return home + "?" + s.request.HTTP.URL.RawQuery
}

// Session returns the session of the signed-in user, or nil.
func (s PageData) Session() *session.Session { return s.request.Session }

// FormToken returns the token that posted forms of this session must carry.
func (s PageData) FormToken() string { return s.request.formToken() }

// Notice confirms the form that led to this page, or is "".
func (s PageData) Notice() string { return s.request.notice }

// Resumed reports whether the form is filled with values that were entered before the second factor was proven.
func (s PageData) Resumed() bool { return s.request.resumed }

// Problems returns the problems of the posted form, in order.
func (s PageData) Problems() []FormProblem { return s.request.Problems() }

// RegisterTemplate adds a page with its texts, for tests. The template page is the content of the layout.
func RegisterTemplate(name, page string, more map[string]string) {
	for _, l := range texts.Languages {
		maps.Copy(texts.Catalogs[l.Tag], more)
	}
	pages[name] = template.Must(parseLayout().Parse(page))
}

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
	embedders := ""
	if v.Bare {
		embedders = strings.Join(v.FrameAncestors, " ")
	}
	err := page.ExecuteTemplate(&b, part, PageData{request: c, Title: v.Title, Lang: c.Language.Tag, Bare: v.Bare,
		Live: v.LivePath, Lead: v.Lead, Summary: v.Summary,
		Crumbs: v.Crumbs, State: v.State, Template: v.Template, Style: v.Style,
		Checks: v.Checks, Embedders: embedders, Data: v.Data})
	return b.Bytes(), err
}

// ExplicitLanguage returns the language that the reader chose by the lang parameter, or "". GET forms carry it as a
// hidden field.
func (s PageData) ExplicitLanguage() string {
	if s.request.Language.Explicit {
		return s.request.Language.Tag
	}
	return ""
}

// Empty returns an empty state with an icon. The key is that of its title.
func (s PageData) Empty(icon, key string) Empty { return s.request.EmptyStep(icon, key, false, "", "") }

// EmptyStep returns an empty state with a button to path.
func (s PageData) EmptyStep(icon, key string, may bool, do, path string) Empty {
	return s.request.EmptyStep(icon, key, may, do, path)
}

// Field returns an input with the posted value and its validation error, if any.
func (s PageData) Field(name string) Field { return s.request.Field(Field{Name: name}) }
