package auth

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/web/ui"
)

// home renders the public start page.
func home(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Template: "home", Title: c.Text("home.title"), Data: c.CanDecideKYC()}, nil
}
