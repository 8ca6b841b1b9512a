// Package docs serves the documentation for developers: the pages of package docsite, as HTML and as Markdown, and the
// search in them.
package docs

import (
	"cmp"
	"context"
	"mime"
	"path"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/docsite"
	"github.com/stipend/stipend/internal/web/ui"
)

// Routes are the routes of the documentation.
var Routes = []ui.Route{
	{Method: "GET", Path: "/docs", Kind: ui.Plain, Access: ui.Anyone, Public: true, Handler: showStart},
	{Method: "GET", Path: "/docs/{$}", Kind: ui.Plain, Access: ui.Anyone, Public: true, Handler: redirect("/docs")},
	{Method: "GET", Path: "/docs/search", Kind: ui.Plain, Access: ui.Anyone, Handler: search},
	{Method: "GET", Path: "/docs/errors/{$}", Kind: ui.Plain, Access: ui.Anyone, Public: true,
		Handler: redirect("/docs/error-codes")},
	{Method: "GET", Path: "/docs/errors/{name}", Kind: ui.Plain, Access: ui.Anyone, Public: true,
		Handler: showPage("errors/")},
	{Method: "GET", Path: "/docs/{name}", Kind: ui.Plain, Access: ui.Anyone, Public: true, Handler: showPage("")},
	{Method: "GET", Path: "/llms.txt", Kind: ui.Plain, Access: ui.Anyone, Public: true, Handler: sendIndex},
}

// view is the data of all pages of the documentation.
type view struct {
	Sections []docsite.Section
	Page     *docsite.Page
	Query    string
	Hits     []docsite.Hit
}

func showStart(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Template: "docs", Title: c.Text("docs.title"), Lead: c.Text("docs.lead"),
		Summary: c.Text("docs.lead"), Data: view{Sections: c.Docs.Sections}}, nil
}

func redirect(to string) func(context.Context, *db.Tx, *ui.Request) (ui.View, error) {
	return func(context.Context, *db.Tx, *ui.Request) (ui.View, error) { return ui.View{Redirect: to}, nil }
}

// showPage serves a page as HTML, as Markdown if its name ends with .md, or a file for download.
func showPage(directory string) func(context.Context, *db.Tx, *ui.Request) (ui.View, error) {
	return func(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
		name, markdown := strings.CutSuffix(c.HTTP.PathValue("name"), ".md")
		p, ok := c.Docs.Page(directory + name)
		file, download := c.Docs.File(directory + name)
		switch {
		case download:
			contentType := cmp.Or(mime.TypeByExtension(path.Ext(name)), octets)
			return ui.View{File: &ui.File{Name: name, ContentType: contentType, Data: file}}, nil
		case !ok:
			return ui.View{}, ui.ErrNoPage
		case markdown:
			return text("text/markdown; charset=utf-8", p.Markdown), nil
		}
		return ui.View{Template: "docs", Title: p.Title, Summary: p.Lead,
			Data: view{Sections: c.Docs.Sections, Page: p}}, nil
	}
}

func search(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	v := view{Sections: c.Docs.Sections, Query: strings.TrimSpace(c.HTTP.FormValue("q"))}
	if v.Query == "" {
		return ui.View{Redirect: "/docs"}, nil
	}
	v.Hits = c.Docs.Search(v.Query)
	return ui.View{Template: "docs", Title: c.Text("docs.results", v.Query), Data: v}, nil
}

// sendIndex lists all pages for language models.
func sendIndex(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return text("text/plain; charset=utf-8", c.Docs.Index(c.BaseURL)), nil
}

func text(contentType, content string) ui.View {
	return ui.View{File: &ui.File{ContentType: contentType, Data: []byte(content)}}
}

// octets is the type of files whose type is unknown.
const octets = "application/octet-stream"
