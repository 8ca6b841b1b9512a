package payee

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/web/company"
	"github.com/stipend/stipend/internal/web/ui"
)

const (
	accountPath      = "/account"
	destinationsPath = accountPath + "/destinations"
)

// ownDestinations are the pages on which people change their own destinations.
var ownDestinations = company.OwnerPages{
	Owner: func(c *ui.Request) (identity.Principal, string) { return self(c), c.Session.User.ID },
	Path:  func(*ui.Request) string { return accountPath },
	Back:  func(*ui.Request) string { return destinationsPath },
	Own:   true,
}

type destinationsPage struct{ List company.OwnDestinations }

// showDestinations renders where the signed-in person is paid.
func showDestinations(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	list, err := ownDestinations.List(ctx, tx, c)
	return ui.View{Template: "destinations", Title: c.Text("destinations.own"), Lead: c.Text("destinations.own.lead"),
		Checks: true, Data: destinationsPage{list}}, err
}
