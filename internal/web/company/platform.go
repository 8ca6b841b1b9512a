package company

import (
	"context"
	"net/url"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/platform"
	"github.com/stipend/stipend/internal/wallet"
	"github.com/stipend/stipend/internal/web/ui"
)

// platformPath is the path of the page of the platform that is connected to a company.
const platformPath = "/settings/platform"

// platformPage shows the platform that created the company and is connected to it.
type platformPage struct {
	Name, Company, Since, Fee string
	Groups                    []ui.ScopeGroup
	Return                    string        // URL at the platform to return to, "" for none
	Steps                     []onboardStep // of the onboarding
	Link                      string        // path of the link, for a person who is not yet acting for the company
	Joins, SignsIn            bool          // the person must open the invitation first, or sign in
	App                       identity.App  // of the platform
	Of                        platform.Company
}

// onboardStep is a step of the onboarding.
type onboardStep struct {
	Title, Lead, Path string
	State             ui.Cell
}

// connectedPlatform returns the platform of the company, or apierr.NotFoundErr.
func connectedPlatform(ctx context.Context, tx *db.Tx, c *ui.Request) (platformPage, error) {
	of, app, connected, err := platform.Of(ctx, tx, c.Session.Company.ID)
	if err == nil && !connected {
		err = apierr.NotFoundErr
	}
	if err != nil {
		return platformPage{}, err
	}
	owner, err := identity.CompanyByID(db.AcrossCompanies(ctx, "the platform's own name; the company is connected to it"),
		tx, of.Platform())
	p := platformPage{Name: app.Name, Company: owner.Name, Since: c.FormatTime(of.Created), App: app, Of: of,
		Groups: c.ScopeGroups(app.Scopes & identity.GrantableScopes()),
		Fee:    c.FormatNumber(money.New(money.USD, of.PlatformFeeBps).String()) + "\u00a0%"} // hundredths of a percent
	return p, err
}

// showPlatform renders what the platform may do, and the form that disconnects it.
func showPlatform(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := connectedPlatform(ctx, tx, c)
	return ui.View{Template: "platform", Title: c.Text("platform.title"), Data: p}, err
}

// disconnectPlatform disconnects the platform.
func disconnectPlatform(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/settings/api"}, platform.Disconnect(ctx, tx, by(c))
}

// showOnboarding renders the steps that set up a company, and the way back to its platform.
func showOnboarding(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := connectedPlatform(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	id := c.Session.Company.ID
	o, err := c.KYC.OnboardingOf(ctx, tx, id)
	if err != nil {
		return ui.View{}, err
	}
	state := string(o.State)
	if state == "" {
		state = "not_started"
	}
	members, err := auth.Members(ctx, tx, id)
	if err != nil {
		return ui.View{}, err
	}
	wallets, err := wallet.Balances(ctx, tx, c.Session.Principal(), "")
	if err != nil {
		return ui.View{}, err
	}
	count := func(n int) ui.Cell { return ui.Cell{Text: c.FormatCount(int64(n))} }
	p.Steps = []onboardStep{
		{c.Text("kyb.title"), c.Text("onboarding.kyb"), ui.CompanyPath, c.StateCell("kyb.state", state)},
		{c.Text("members.title"), c.Text("onboarding.members"), "/settings/members", count(len(members))},
		{c.Text("wallets.title"), c.Text("onboarding.funding"), "/wallets", count(len(wallets))},
	}
	p.Return = returnTo(p.Of)
	return ui.View{Template: "onboarding", Title: c.Text("onboarding.title", c.Session.Company.Name), Data: p}, nil
}

// returnTo returns the URL at the platform to which the onboarding returns, with the ID of the company.
func returnTo(c platform.Company) string {
	u, err := url.Parse(c.ReturnURL)
	if err != nil || c.ReturnURL == "" {
		return ""
	}
	q := u.Query()
	q.Set("company_id", c.ID)
	u.RawQuery = q.Encode()
	return u.String()
}

// showOnboardingLink renders the first page of a link from a platform. Only members of the company go on.
func showOnboardingLink(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	token := c.HTTP.PathValue("token")
	of, err := platform.Find(ctx, tx, token)
	if err != nil {
		return ui.View{}, err
	}
	app, err := identity.AppWithID(ctx, tx, of.AppID)
	if err != nil {
		return ui.View{}, err
	}
	signedIn, err := c.FindSession(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	p := platformPage{Name: app.Name, Company: of.Name, Link: platform.LinkPath + "/" + token}
	if signedIn {
		p.Joins = !memberOf(c, of.ID)
	} else {
		p.SignsIn = true
	}
	return ui.View{Template: "onboarding_link", Title: c.Text("onboarding.title", of.Name), Data: p}, nil
}

func memberOf(c *ui.Request, companyID string) bool {
	for _, m := range c.Session.Members {
		if m.CompanyID == companyID {
			return true
		}
	}
	return false
}

// followOnboardingLink makes a member act for the company of the link and shows the steps.
func followOnboardingLink(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	token := c.HTTP.PathValue("token")
	of, err := platform.Find(ctx, tx, token)
	if err != nil {
		return ui.View{}, err
	}
	if signedIn, err := c.FindSession(ctx, tx); err != nil || !signedIn {
		return ui.View{Redirect: ui.SignInPath(platform.LinkPath + "/" + token)}, err
	}
	if !c.HasFormToken() {
		return ui.View{}, ui.ErrFormToken
	}
	return ui.View{Redirect: platform.LinkPath}, session.ActFor(ctx, tx, *c.Session, of.ID)
}
