package company

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/web/ui"
)

const searchesPath = "/searches"

// searchable are the paths of the lists for which members save searches.
var searchable = []string{claimsPath, "/payrolls", "/recipients", "/invoices", requestsPath}

// addSearches adds the member's saved searches to the filters of a list, and the form that saves the current filter.
func addSearches(ctx context.Context, tx *db.Tx, c *ui.Request, f *ui.Filters) error {
	all, err := auth.Searches(ctx, tx, by(c), f.Path)
	if err != nil {
		return err
	}
	query := url.Values{}
	for _, field := range f.Fields {
		if v := c.Query(field.Name); v != "" {
			query.Set(field.Name, v)
		}
	}
	f.Query = query.Encode()
	for _, one := range all {
		f.Saved = append(f.Saved, ui.SavedSearch{Name: one.Name, URL: c.URL(f.Path + "?" + one.Query),
			Current: one.Query == f.Query})
	}
	return nil
}

// searchList returns the list that a form names.
func searchList(c *ui.Request) (string, error) {
	list := c.Form.Get("list")
	if !slices.Contains(searchable, list) {
		return "", ui.ErrNoPage
	}
	return list, nil
}

// saveSearch saves a filter under a name, and shows the list with it.
func saveSearch(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	list, err := searchList(c)
	if err != nil {
		return ui.View{}, err
	}
	query, err := url.ParseQuery(c.Form.Get("query"))
	if err != nil {
		return ui.View{}, ui.ErrForm
	}
	s := auth.Search{List: list, Name: strings.TrimSpace(c.Form.Get("name")), Query: query.Encode()}
	return ui.View{Redirect: list + "?" + s.Query}, auth.SaveSearch(ctx, tx, by(c), s)
}

// deleteSearch deletes a saved search.
func deleteSearch(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	list, err := searchList(c)
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Redirect: list}, auth.DeleteSearch(ctx, tx, by(c), list, c.Form.Get("name"))
}
