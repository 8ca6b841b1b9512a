package auth

import (
	"context"
	"html/template"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/web/ui"
)

type legalPage struct {
	Lang string
	HTML template.HTML
}

// showLegal returns the handler that renders a legal text of the operator.
func showLegal(kind string) func(context.Context, *db.Tx, *ui.Request) (ui.View, error) {
	return func(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
		d, ok := c.Operator.Legal.Find(kind, c.Language.Tag)
		if !ok {
			return ui.View{}, ui.ErrNoPage
		}
		return ui.View{Template: "legal", Title: c.Text("legal." + kind),
			Lead: c.Text("legal.version", d.Version), Data: legalPage{d.Language, d.HTML}}, nil
	}
}

type acceptancePage struct {
	Next, Versions string
	Documents      []ui.Cell
}

// showAcceptance lists the legal texts that the user has to accept.
func showAcceptance(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	p := acceptancePage{Next: c.NextPath(), Versions: c.Operator.Legal.Versions()}
	for _, d := range c.Operator.Legal.All(c.Language.Tag) {
		link := c.LinkCell(c.Text("legal."+d.Kind), "/"+d.Kind)
		link.Lines = []ui.Cell{{Text: c.Text("legal.version", d.Version)}}
		p.Documents = append(p.Documents, link)
	}
	if len(p.Documents) == 0 {
		return ui.View{}, ui.ErrNoPage
	}
	return ui.View{Template: "legal_accept", Title: c.Text("legal.accept.title"), Lead: c.Text("legal.accept.lead"),
		Data: p}, nil
}

// acceptLegal stores that the user accepts the versions that the form showed.
func acceptLegal(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	err := c.Operator.Legal.Accept(ctx, tx, c.Session.User.ID, c.Form.Get("versions"))
	return ui.View{Redirect: c.NextPath()}, ui.FormConflict(err)
}
