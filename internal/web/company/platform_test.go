package company_test

import (
	"context"
	"html"
	"net/http"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/platform"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/webtest"
)

// The first owner of a company that a platform created follows the platform's link, joins by the invitation, sees the
// steps and the way back, and disconnects the platform. Only members see the steps.
func TestOnboardingOfAPlatformsCompany(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "owner")
	x.OwnURL = true
	pagetest.OpenSite(t, x.Site, ui.Deps{DB: x.DB, Env: identity.Sandbox, SeededCompanies: []string{x.Company.ID},
		Payroll: pagetest.PayrollService(t, x.DB),
		KYC:     &kyc.Service{Sealer: x.Server.Sealer, Images: kyc.NewImageDecoder(1, 1), Provider: kyc.Sandbox{}}})
	service, err := platform.New(platform.Service{Sealer: x.Server.Sealer, Env: identity.Sandbox, BaseURL: x.URL,
		AllowUnverified: true})
	testkit.Check(t, err)
	app, _ := x.CreateApp("https://books.example/callback", identity.CompanyDetail, identity.PlatformCompanies)
	by := identity.Principal{Kind: identity.KindAPIKey, CompanyID: app.CompanyID, AppID: app.ID}
	var made platform.Company
	var token, path string
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		if made, err = service.Create(ctx, tx, by, platform.NewCompany{Name: "Lovelace Ltd", Country: "US",
			OwnerEmail: "ada@lovelace.example", ReturnURL: "https://books.example/back?x=1", FeeBps: 50}); err != nil {
			return err
		}
		issued, err := service.IssueToken(ctx, tx, by, made.ID, "")
		if err != nil {
			return err
		}
		token = issued.Token
		link, _, err := service.Link(ctx, tx, by, made.ID, "")
		path = strings.TrimPrefix(link, x.URL)
		return err
	})
	if !x.Authenticates("Bearer", token) {
		t.Error("the platform's token does not work")
	}
	visitor := webtest.NewVisitor(t, x.URL)
	if page := visitor.Get(path); page.Status != 200 || !page.Contains("We emailed an invitation") {
		t.Fatalf("%d\n%s", page.Status, page.Text)
	}
	stranger := x.SignIn("owner")
	if page := stranger.Get(path); page.Contains("<form method=\"post\" action=\"" + path) {
		t.Errorf("a person who is not a member can go on:\n%s", page.Text)
	}
	if got := stranger.Get(platform.LinkPath); got.Status != http.StatusNotFound {
		t.Errorf("a company without a platform: %d", got.Status)
	}
	if got := visitor.Get(platform.LinkPath + "/" + identity.NewLinkToken()); got.Status != http.StatusNotFound {
		t.Errorf("an unknown link: %d", got.Status)
	}

	invitation := x.MailedLink("ada@lovelace.example", mail.MemberInvited)
	joined := visitor.Submit(visitor.Get(invitation), invitation, "first_name", "Ada", "last_name", "Lovelace",
		"new_password", "wire of eleven inches")
	if joined.Location() != platform.LinkPath {
		t.Fatalf("%d to %q\n%s", joined.Status, joined.Location(), joined.Text)
	}
	if again := visitor.Submit(visitor.Get(path), path); again.Location() != platform.LinkPath {
		t.Errorf("%d to %q\n%s", again.Status, again.Location(), again.Text)
	}
	page := visitor.Get(platform.LinkPath)
	for _, want := range []string{`href="https://books.example/back?company_id=` + made.ID + `&amp;x=1"`,
		`href="/settings/members"`, `href="/wallets"`, `href="/company/verification"`} {
		if !page.Contains(want) {
			t.Errorf("no %s in\n%s", want, page.Text)
		}
	}
	if list := visitor.Get("/settings/api"); !list.Contains(html.EscapeString(app.Name)) {
		t.Errorf("the platform is not on the page of apps:\n%s", list.Text)
	}
	page = visitor.Get("/settings/platform")
	if !page.Contains(html.EscapeString(app.Name)) || !page.Contains("0.50") {
		t.Errorf("%d\n%s", page.Status, page.Text)
	}
	x.Enroll(visitor, "/settings/platform")
	if got := visitor.Submit(visitor.Get("/settings/platform"), "/settings/platform/disconnect"); got.Location() == "" {
		t.Errorf("%d\n%s", got.Status, got.Text)
	}
	if got := visitor.Get("/settings/platform"); got.Status != http.StatusNotFound || x.Authenticates("Bearer", token) {
		t.Errorf("after the end: %d; the token works: %v", got.Status, x.Authenticates("Bearer", token))
	}
	if got := visitor.Get("/account"); got.Status != 200 || !got.Contains("Lovelace Ltd") {
		t.Errorf("the company's account: %d", got.Status)
	}
	if x.Count("SELECT COUNT(*) FROM mails WHERE template = 'company_changed' AND company_id = '"+made.ID+"'") == 0 {
		t.Error("nobody got a mail")
	}
}
