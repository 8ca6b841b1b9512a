// Package docsite builds the developer documentation from Markdown: the guides in the repository, a page for each
// error code, and a page with all events. It renders the pages as HTML and searches them, but does not serve them.
package docsite

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// Content is the source of the documentation.
type Content struct {
	// Files contains the Markdown files and the files for download. The name of a Markdown file, without its directory,
	// is the name of its page.
	Files  fs.FS
	Errors []Error
	Events []Event
}

// Error documents an error code of the API.
type Error struct {
	Code   string
	Status int
	Title  string
	What   string // what happened
	Do     string // what to do next
}

// Event documents an event that is sent to webhook endpoints.
type Event struct {
	Name    string
	When    string // when the event is sent
	Example string // a delivery, as JSON
}

// sections lists the pages in the order of the menu.
var sections = []struct {
	title string
	names []string
}{
	{"Start", []string{"quickstart", "whole-app", "testing", "going-live"}},
	{"Guides", []string{"payrolls", "payees", "approvals", "checkout", "shop", "x402", "webhooks", "apps",
		"platforms", "mcp"}},
	{"Concepts", []string{"authentication", "money-and-time", "idempotency", "errors", "pagination", "rate-limits",
		"versions"}},
	{"Payment methods", []string{"lightning", "banks", "direct-debit"}},
	{"Reference", []string{"events", "error-codes", "states", "sdk-methods", "glossary", "changelog"}},
}

// Page is a page of the documentation. Its path is /docs/ followed by its name.
type Page struct {
	Name, Title, Section string
	Lead                 string // the first paragraph, as plain text
	Markdown             string
	HTML                 template.HTML // everything below the title
	Headings             []Heading     // headings of the second level
	parts                []part
}

// Path returns the path of the page.
func (p *Page) Path() string { return "/docs/" + p.Name }

// Heading is a heading of a page. ID is its URL fragment.
type Heading struct{ ID, Text string }

// part is the text below a heading, which the search uses.
type part struct {
	Heading
	text string
}

// Section is a group of pages in the menu.
type Section struct {
	Title string
	Pages []*Page
}

// Site contains all pages.
type Site struct {
	Sections []Section
	pages    map[string]*Page
	order    []*Page
	files    map[string][]byte
}

// New builds the site. It returns an error if a page in the menu has no file, or a file has no page in the menu.
func New(c Content) (*Site, error) {
	sources, files, err := c.sources()
	if err != nil {
		return nil, err
	}
	s := &Site{pages: map[string]*Page{}, files: files}
	add := func(name, section string) (*Page, error) {
		source, ok := sources[name]
		if !ok {
			return nil, fmt.Errorf("docsite: no file for the page %s", name)
		}
		p, err := newPage(name, section, source)
		if err != nil {
			return nil, err
		}
		s.pages[name] = p
		s.order = append(s.order, p)
		return p, nil
	}
	for _, section := range sections {
		in := Section{Title: section.title}
		for _, name := range section.names {
			p, err := add(name, section.title)
			if err != nil {
				return nil, err
			}
			in.Pages = append(in.Pages, p)
		}
		s.Sections = append(s.Sections, in)
	}
	for _, e := range c.Errors {
		if _, err := add("errors/"+e.Code, "Error codes"); err != nil {
			return nil, err
		}
	}
	for name := range sources {
		if s.pages[name] == nil {
			return nil, fmt.Errorf("docsite: the page %s is in no section", name)
		}
	}
	return s, nil
}

// sources returns the Markdown of all pages, and the files for download, by name.
func (c Content) sources() (all map[string]string, files map[string][]byte, err error) {
	all = map[string]string{"events": c.events(), "error-codes": c.errorCodes()}
	files = map[string][]byte{}
	directories := map[string]string{}
	err = fs.WalkDir(c.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(c.Files, name)
		if path.Ext(name) == ".md" {
			all[pageName(name)] = string(text)
			directories[pageName(name)] = path.Dir(name)
		} else {
			files[path.Base(name)] = text
		}
		return err
	})
	for _, e := range c.Errors {
		all["errors/"+e.Code] = fmt.Sprintf("# %s\n\nHTTP status **%d**, code `%s`\n\n## What happened\n\n%s\n\n"+
			"## What to do\n\n%s\n", e.Title, e.Status, e.Code, escape(e.What), escape(e.Do))
	}
	for name, text := range all {
		all[name] = resolveLinks(text, directories[name], func(page string) bool { _, ok := all[page]; return ok })
	}
	return all, files, err
}

// pageName returns the name of the page of a Markdown file.
func pageName(file string) string {
	return strings.ToLower(strings.TrimSuffix(path.Base(file), ".md"))
}

func (c Content) events() string {
	var b strings.Builder
	b.WriteString("# Events\n\nThese events are delivered to webhooks and returned by `GET /api/events`. " +
		"Each has an example. [The guide](webhooks.md) explains how to receive and verify them.\n")
	for _, e := range c.Events {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n```json\n%s\n```\n", e.Name, escape(e.When), e.Example)
	}
	return b.String()
}

func (c Content) errorCodes() string {
	var b strings.Builder
	b.WriteString("# Error codes\n\nEvery code that the API returns, with its HTTP status. " +
		"[The guide](errors.md) explains the form of an error.\n\n| Code | Status | Meaning |\n|---|---|---|\n")
	for _, e := range c.Errors {
		fmt.Fprintf(&b, "| [`%s`](errors/%s.md) | %d | %s |\n", e.Code, e.Code, e.Status, escape(e.Title))
	}
	return b.String()
}

// escape escapes the characters of a text that have a meaning in Markdown.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune("\\`*_{}[]<>#|~&!", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Page returns the page with a name, and reports whether it exists.
func (s *Site) Page(name string) (*Page, bool) {
	p, ok := s.pages[name]
	return p, ok
}

// File returns the contents of the download with a name, and reports whether it exists.
func (s *Site) File(name string) (content []byte, ok bool) {
	content, ok = s.files[name]
	return content, ok
}

// Index returns the list of all pages for language models, in the form of llms.txt, with absolute URLs.
func (s *Site) Index(baseURL string) string {
	var b strings.Builder
	b.WriteString("# Stipend\n\n> Payments and payroll through one API: pay people and vendors in bitcoin, " +
		"stablecoins or to bank accounts, and take payments from customers.\n\n")
	fmt.Fprintf(&b, "The contract is at %s/openapi.json. Every page below is also HTML, without `.md`.\n", baseURL)
	for _, section := range s.Sections {
		fmt.Fprintf(&b, "\n## %s\n\n", section.Title)
		for _, p := range section.Pages {
			fmt.Fprintf(&b, "- [%s](%s%s.md): %s\n", p.Title, baseURL, p.Path(), p.Lead)
		}
	}
	return b.String()
}

// newPage parses and renders a page.
func newPage(name, section, source string) (*Page, error) {
	p := &Page{Name: name, Section: section, Markdown: source}
	text := []byte(source)
	doc := parse(text)
	linkPages(doc)
	title, ok := doc.FirstChild().(*ast.Heading)
	if !ok || title.Level != 1 {
		return nil, fmt.Errorf("docsite: the page %s does not begin with its title", name)
	}
	p.Title = plain(title, text)
	doc.RemoveChild(doc, title)
	current := part{Heading: Heading{Text: p.Title}}
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			p.parts = append(p.parts, current)
			id, _ := h.AttributeString("id")
			raw, _ := id.([]byte)
			current = part{Heading: Heading{ID: string(raw), Text: plain(h, text)}}
			if h.Level == 2 {
				p.Headings = append(p.Headings, current.Heading)
			}
			continue
		}
		words := plain(n, text)
		if p.Lead == "" && n.Kind() == ast.KindParagraph {
			p.Lead = words
		}
		current.text += words + "\n"
	}
	p.parts = append(p.parts, current)
	var b bytes.Buffer
	if err := markdown(name).Renderer().Render(&b, text, doc); err != nil {
		return nil, err
	}
	p.HTML = template.HTML(b.String()) //nolint:gosec // rendered from our own Markdown, in which HTML is escaped
	return p, nil
}

// Hit is a page, or a part of a page, that matches a search.
type Hit struct {
	Page    *Page
	Heading Heading
	Excerpt string
	rank    int
}

// URL returns the path of the page, with the fragment of the part.
func (h Hit) URL() string {
	if h.Heading.ID == "" {
		return h.Page.Path()
	}
	return h.Page.Path() + "#" + h.Heading.ID
}

// most is the maximum number of hits that a search returns.
const most = 30

// Search returns the parts of pages that contain every word of a query. Parts with a word of the query in their title
// or heading come first.
func (s *Site) Search(query string) []Hit {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return nil
	}
	var hits []Hit
	for _, p := range s.order {
		for _, part := range p.parts {
			heading := strings.ToLower(p.Name + " " + p.Title + " " + part.Text)
			text := strings.ToLower(part.text)
			h, found := Hit{Page: p, Heading: part.Heading}, true
			for _, w := range words {
				switch {
				case strings.Contains(strings.ToLower(part.Text), w):
					h.rank += 3
				case strings.Contains(heading, w):
					h.rank++
				case !strings.Contains(text, w):
					found = false
				}
			}
			if !found {
				continue
			}
			h.Excerpt = excerpt(part.text, words)
			hits = append(hits, h)
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return b.rank - a.rank })
	return hits[:min(len(hits), most)]
}

// excerpt returns the line of a text that contains a word, cut to a readable length.
func excerpt(text string, words []string) string {
	const long = 180
	lines := strings.Split(strings.TrimSpace(text), "\n")
	line := lines[0]
	for _, l := range lines {
		if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(strings.ToLower(l), w) }) {
			line = l
			break
		}
	}
	if r := []rune(line); len(r) > long {
		line = strings.TrimSpace(string(r[:long])) + "…"
	}
	return line
}
