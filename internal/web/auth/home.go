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
	Start     string   // first page of the signed-in reader; "" for others
}

// home renders the public start page. A signed-in reader gets a link to their pages instead of the sign-up.
func home(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p := homePage{Email: emailField(c), Simulated: c.CanDecideKYC()}
	signedIn, err := c.FindSession(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	if signedIn {
		if p.Start = ui.PayPath; c.Session.Company.ID != "" {
			p.Start = "/overview"
		}
		c.Session = nil // the page has no navigation
	}
	return ui.View{Template: "home", Title: c.Text("home.title"), Summary: c.Text("home.lead"), Data: p}, nil
}

// sendRobots tells search engines which pages to read: those about the service, and none of a sandbox.
func sendRobots(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	rules := "User-agent: *\nDisallow: /\n"
	if c.Env == identity.Production {
		rules += "Allow: /$\nAllow: /docs\nAllow: /static/\n"
	}
	return ui.View{File: &ui.File{ContentType: "text/plain; charset=utf-8", Data: []byte(rules)}}, nil
}
