package app_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// proposes returns the path of the page of a new proposal.
func (d *apiClient) proposes(kind, body string) (path string) {
	d.Helper()
	return "/proposals/" + d.ok("POST", "/api/company/proposals/"+kind, body).read(d.T)["proposal_id"].(string)
}

const proposedClaim = `{"payer_id":"customer-9","amount":12.50,"denomination_currency":"EUR","description":"Order 17"}`

// What a person confirms is what they saw: a payee's new destination is reviewed first. Two members who confirm at the
// same time create one payroll.
func TestAProposalCreatesWhatItsPageShowed(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		other, _ := o.colleague()
		payee := o.d.tokenPayee("Una", "USDC", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")
		path := o.d.proposes("payroll", pays(`"funding_currency":"USDC","note":"For June",`, "75.00", payee))
		stale := o.says(o.Get(path), "Una Nonce", "For June", "Confirm and create")
		at := "/api/company/" + o.d.seed.CompanyID + "/recipients/" + payee + "/distribution"
		old := o.d.ok("GET", at, "").read(t)["distributions"].([]any)[0].(map[string]any)["distribution_id"].(string)
		o.d.ok("POST", at+"/update", `{"distribution_id":"`+old+`","symbol":"USDC","distribution_data":{"network":"base",`+
			`"address":"0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"}}`)
		before := o.d.effects()
		got := o.Submit(stale, path+"/confirm")
		if got.Status != http.StatusConflict || !got.Contains("Amounts or destinations have changed.") ||
			!got.Contains("d359") {
			t.Fatalf("confirmed a stale page: %d\n%s", got.Status, got.Text)
		}
		if o.d.effects() != before {
			t.Error("a stale page created something")
		}

		seen, theirs := o.says(o.Get(path), "d359"), other.Get(path)
		at1 := make([]string, 2)
		var both sync.WaitGroup
		both.Go(func() { at1[0] = o.Submit(seen, path+"/confirm").Location() })
		both.Go(func() { at1[1] = other.Submit(theirs, path+"/confirm").Location() })
		both.Wait()
		if at1[0] != at1[1] || !strings.HasPrefix(at1[0], "/payrolls/prl_") {
			t.Errorf("two members who confirm are sent to %q", at1)
		}
		if made := o.d.count("SELECT count(*) FROM payrolls WHERE company_id = $1", o.d.seed.CompanyID); made != 1 {
			t.Errorf("%d payrolls", made)
		}
	})
}

// A proposal waits for the members of its company who may create payrolls, and they get a mail. Others see nothing of
// it, another app cannot withdraw it, and one whose app has lost its access can only be declined.
func TestWhoAnswersAProposal(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		admin := o.d.seed.Admin.Email
		path := o.d.proposes("claim", proposedClaim)
		if link := o.mailed(admin, "/proposals/"); !strings.HasSuffix(link, path) {
			t.Errorf("the mail links to %s", link)
		}
		page := o.says(o.Get(path), "12.50", "customer-9")
		viewer, setRole := o.colleague()
		theirs := viewer.Get(path)
		setRole(identity.RoleViewer)
		if got := viewer.Get(path); got.Status != http.StatusForbidden {
			t.Errorf("a viewer sees a proposal: %d", got.Status)
		}
		for _, answer := range []string{"/confirm", "/decline"} {
			if got := viewer.Submit(theirs, path+answer); got.Status != http.StatusForbidden {
				t.Errorf("a viewer sends %s: %d", answer, got.Status)
			}
		}

		// Another company, its member and its app do not find it; nor does another app of the same company withdraw it.
		company, stranger := o.d.stranger()
		id := strings.TrimPrefix(path, "/proposals/")
		stranger.refused(http.StatusNotFound, "not_found", "GET", "/api/company/proposals/"+id, "")
		stranger.refused(http.StatusNotFound, "not_found", "POST", "/api/company/proposals/cancel",
			`{"proposal_id":"`+id+`"}`)
		own := o.d.proposes("claim", `{"payer_id":"customer-9","amount":3,"denomination_currency":"EUR"}`)
		foreign := stranger.proposes("claim", proposedClaim)
		if got := o.Get(foreign); got.Status != http.StatusNotFound {
			t.Errorf("a member sees another company's proposal: %d", got.Status)
		}
		_, form := webtest.Form(t, page.Text, path+"/confirm")
		if got := o.Post(foreign+"/confirm", form); got.Status != http.StatusNotFound {
			t.Errorf("a member confirms another company's proposal: %d", got.Status)
		}

		// A partner's app, which is another company's, proposes with the consent of a member until they withdraw it.
		partner, grant := o.partner(company)
		partner.refused(http.StatusNotFound, "not_found", "POST", "/api/company/proposals/cancel",
			`{"proposal_id":"`+strings.TrimPrefix(own, "/proposals/")+`"}`)
		theirPath := partner.proposes("claim", `{"payer_id":"customer-9","amount":4,"denomination_currency":"EUR"}`)
		page = o.says(o.Get(theirPath), "Partner", "Confirm and create")
		testkit.Check(t, o.s.DB().Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			return identity.RevokeGrant(ctx, tx, o.d.seed.CompanyID, grant)
		}))
		got := o.Submit(page, theirPath+"/confirm")
		if got.Status != http.StatusConflict || !got.Contains("no longer has access to the company") ||
			got.Contains("Confirm and create") {
			t.Errorf("confirmed for an app without access: %d\n%s", got.Status, got.Text)
		}
		o.silent(o.says(o.Get(theirPath), "no longer has access", "Decline"), "Confirm and create")
		if got := o.Submit(page, theirPath+"/decline"); got.Location() != theirPath {
			t.Errorf("declined: %d", got.Status)
		}
		if n := o.d.count("SELECT count(*) FROM claims WHERE company_id = $1", o.d.seed.CompanyID); n != 0 {
			t.Errorf("%d claims", n)
		}
	})
}

// partner returns a client of an app of another company, to which the sandbox's administrator has consented, and the
// consent.
func (o *companyBrowser) partner(owner string) (d *apiClient, grantID string) {
	o.Helper()
	var token string
	testkit.Check(o, o.s.DB().Write(o.Context(), func(ctx context.Context, tx *db.Tx) error {
		scopes := identity.NewScopes(identity.CompanyPropose)
		app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{CompanyID: owner, Name: "Partner",
			Scopes: scopes})
		if err != nil {
			return err
		}
		user := sandbox.SeedID("usr", "admin")
		g, err := identity.CreateGrant(ctx, tx, identity.Grant{CompanyID: o.d.seed.CompanyID, AppID: app.ID, UserID: user,
			Scopes: scopes})
		if err != nil {
			return err
		}
		grantID = g.ID
		_, token, err = identity.CreateAccessToken(ctx, tx, identity.Sandbox, identity.NewAccessToken{
			CompanyID: o.d.seed.CompanyID, AppID: app.ID, UserID: user, Scopes: scopes, GrantID: g.ID})
		return err
	}))
	return o.d.as("Bearer " + token), grantID
}

// A person reads the mail's link, reviews a payroll and a claim on a phone without JavaScript, and creates them.
func TestProposalPagesInABrowser(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	seed, base := o.d.seed, o.s.Ready().BaseURL
	run := o.d.proposes("payroll", pays(`"note":"Bonus for the release",`, "25.00", seed.Workers[0].UserID))
	claim := o.d.proposes("claim", proposedClaim)
	b := webtest.Start(t)
	p := b.Open(base+run, webtest.Look{NoScript: true, Width: 320})
	p.Fill("#email", seed.Admin.Email)
	p.Fill("#password", seed.Admin.Password)
	p.Send("form:has(#password) button")
	if p.Path() != run || !strings.Contains(p.Text(), "Bonus for the release") {
		t.Fatalf("at %s:\n%s", p.Path(), p.Text())
	}
	b.Check(base + run)
	b.Check(base + claim)
	for path, made := range map[string]string{run: "/payrolls/prl_", claim: "/claims/clm_"} {
		p = b.Open(base+path, webtest.Look{NoScript: true, Width: 320})
		p.Send("form[action='" + path + "/confirm'] button")
		if !strings.HasPrefix(p.Path(), made) {
			t.Errorf("confirmed %s, and at %s:\n%s", path, p.Path(), p.Text())
		}
		b.Check(base + path)
	}
	declined := o.d.proposes("claim", `{"payer_id":"customer-9","amount":3,"denomination_currency":"EUR"}`)
	p = b.Open(base+declined, webtest.Look{NoScript: true})
	p.Send("form[action='" + declined + "/decline'] button")
	if p.Path() != declined || !strings.Contains(p.Text(), "Declined") {
		t.Errorf("at %s:\n%s", p.Path(), p.Text())
	}
	b.Check(base + declined)
	if states := o.d.ok("GET", "/api/company/proposals", "").read(t)["data"].([]any); !slices.ContainsFunc(states,
		func(v any) bool { return v.(map[string]any)["status"] == "declined" }) || len(states) != 3 {
		t.Errorf("the proposals are %v", states)
	}
}
