package auth

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/web/ui"
)

type homePage struct {
	Email     ui.Field // starts the sign-up
	Simulated bool     // the reader may decide verifications
}

// home renders the public start page.
func home(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Template: "home", Title: c.Text("home.title"), Summary: c.Text("home.lead"),
		Data: homePage{Email: emailField(c), Simulated: c.CanDecideKYC()}}, nil
}

// sendRobots tells search engines which pages to read: those about the service, and none of a sandbox.
func sendRobots(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	rules := "User-agent: *\nDisallow: /\n"
	if c.Env == identity.Production {
		rules += "Allow: /$\nAllow: /docs\nAllow: /static/\n"
	}
	return ui.View{File: &ui.File{ContentType: "text/plain; charset=utf-8", Data: []byte(rules)}}, nil
}
