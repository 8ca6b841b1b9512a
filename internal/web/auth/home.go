package auth

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/web/ui"
)

// home says what this is, to somebody who came by the address alone.
func home(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Template: "home", Title: c.Text("home.title"), Data: c.CanDecideKYC()}, nil
}
