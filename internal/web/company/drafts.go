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

// draftsPath is the path to which the form of a new payroll is sent to keep it for later.
const draftsPath = "/payrolls/drafts"

// savedDraft is a payroll that a member has begun to enter and saved.
type savedDraft struct{ Name, URL string }

// savedDrafts returns the member's saved drafts.
func savedDrafts(ctx context.Context, tx *db.Tx, c *ui.Request) (all []savedDraft, err error) {
	found, err := auth.Searches(ctx, tx, by(c), auth.DraftList)
	for _, one := range found {
		all = append(all, savedDraft{one.Name, c.URL("/payrolls/new?" + url.Values{"draft": {one.Name}}.Encode())})
	}
	return all, err
}

// saveDraft saves the entered values of a new payroll under its reference, or under the date.
func saveDraft(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	values := url.Values{}
	for name, all := range c.Form {
		if name != "form_token" && name != "find" && name != "saved" {
			values[name] = all
		}
	}
	name := strings.TrimSpace(c.Form.Get("external_id"))
	if name == "" {
		name = c.Form.Get("saved")
	}
	if name == "" {
		name = c.Text("drafts.of", c.FormatTime(tx.Now()))
	}
	if runes := []rune(name); len(runes) > auth.MaxSearchName {
		name = string(runes[:auth.MaxSearchName])
	}
	return ui.View{Redirect: "/payrolls"}, auth.SaveSearch(ctx, tx, by(c), auth.Search{List: auth.DraftList, Name: name,
		Query: values.Encode()})
}

// deleteDraft deletes a saved draft.
func deleteDraft(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/payrolls"}, auth.DeleteSearch(ctx, tx, by(c), auth.DraftList, c.Form.Get("name"))
}

// openDraft fills the form of a new payroll with a saved draft.
func openDraft(ctx context.Context, tx *db.Tx, c *ui.Request, name string) error {
	found, err := auth.Searches(ctx, tx, by(c), auth.DraftList)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(found, func(s auth.Search) bool { return s.Name == name })
	if i < 0 {
		return ui.ErrNoPage
	}
	if c.Form, err = url.ParseQuery(found[i].Query); err != nil {
		return err
	}
	c.Form.Set("saved", name)
	return nil
}
