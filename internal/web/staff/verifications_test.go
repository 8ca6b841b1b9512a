package staff_test

import (
	"context"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/webtest"
)

// applicants are users and a company that upload documents.
type applicants struct {
	pagetest.Inviter
	kyc *kyc.Service
}

// openWithKYC serves the site with verification pages.
func openWithKYC(t *testing.T, d *db.DB, env identity.Environment) (*pagetest.Site, applicants) {
	t.Helper()
	sealer, err := identity.NewSealer(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	x := applicants{pagetest.NewInviter(t, d), &kyc.Service{
		Sealer: sealer, Images: kyc.NewImageDecoder(1, 1), Provider: kyc.Sandbox{}}}
	return pagetest.OpenWithKYC(t, d, env, x.kyc), x
}

// onePixel is a PNG of one pixel, in base64.
const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// upload returns a document upload with its image.
func (x applicants) upload(docType, category string) (kyc.Upload, kyc.Image) {
	x.T.Helper()
	image, err := x.kyc.Images.Read(x.T.Context(), onePixel)
	if err != nil {
		x.T.Fatal(err)
	}
	return kyc.Upload{DocType: docType, Category: category, IssuingCountry: "US", Base64: onePixel}, image
}

// submitPerson returns a user in review who uploaded both sides of a card and a tax ID.
func (x applicants) submitPerson(last string) (userID string) {
	x.T.Helper()
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		u, err := identity.CreateUser(ctx, tx, x.kyc.Sealer,
			identity.NewUser{CompanyID: x.By.CompanyID, Profile: identity.Profile{
				Email: strings.ToLower(last[:min(len(last), 20)]) + "@example.com", FirstName: "Ada", LastName: last, Country: "US",
				Details: identity.Details{DateOfBirth: "1990-12-10", StreetAddress: "1 Hidden Street", City: "New York"},
			}})
		userID = u.ID
		return err
	})
	front, image := x.upload("drivers_license", kyc.Front)
	back, _ := x.upload("drivers_license", kyc.Back)
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		if err := x.kyc.Store(ctx, tx, x.By, userID, front, image); err != nil {
			return err
		}
		if err := x.kyc.Store(ctx, tx, x.By, userID, back, image); err != nil {
			return err
		}
		return x.kyc.Store(ctx, tx, x.By, userID, kyc.Upload{DocType: kyc.TaxID, TaxID: "536904399", TaxIDType: "ssn"},
			kyc.Image{})
	})
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		_, _, err := x.kyc.DecideInSandbox(ctx, tx, x.By, userID, "in_review")
		return err
	})
	return userID
}

// submitCompany submits the company and one of its owners.
func (x applicants) submitCompany() (ownerID string) {
	x.T.Helper()
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		_, err := x.kyc.Onboard(ctx, tx, x.By, "", kyc.CompanyProfile{
			Name: "Acme Widgets", Country: "US", RegistrationNumber: "HIDDEN-1", IncorporationDate: "2001-02-03",
			StreetAddress: "1 Hidden Street", City: "Dover",
		})
		return err
	})
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		o, err := x.kyc.AddOwner(ctx, tx, x.By, "", kyc.Owner{
			OwnershipBps: 6000, Person: kyc.Person{FirstName: "Bob", LastName: "Owner", DateOfBirth: "1970-01-31",
				Country: "US"}})
		ownerID = o.ID
		return err
	})
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		for _, u := range []struct{ owner, kind string }{
			{ownerID, kyc.Passport}, {"", "certificate_of_incorporation"}, {"", "shareholder_register"}} {
			upload, image := x.upload(u.kind, kyc.Front)
			if err := x.kyc.StoreFor(ctx, tx, x.By, "", u.owner, upload, image); err != nil {
				return err
			}
		}
		return nil
	})
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		if _, err := x.kyc.InitiateOwner(ctx, tx, x.By, "", ownerID); err != nil {
			return err
		}
		_, err := x.kyc.InitiateCompany(ctx, tx, x.By, "")
		return err
	})
	return ownerID
}

const casesPath = "/sandbox/verifications"

var caseID = regexp.MustCompile(`name="case_id" value="(ver_[0-9a-z]+)"`)

// decide presses a decision button on the page of a case.
func decide(h *pagetest.Site, subject, result string) pagetest.Response {
	h.Helper()
	found := caseID.FindStringSubmatch(h.Do("GET", casesPath+"/"+subject, "").Text)
	if found == nil {
		h.Fatalf("%s cannot be decided", subject)
	}
	return h.Do("POST", casesPath+"/"+subject, url.Values{"case_id": {found[1]}, "result": {result}}.Encode(),
		"Sec-Fetch-Site", "same-origin")
}

// TestVerificationsAreDecided decides cases of people, companies and owners in the sandbox.
func TestVerificationsAreDecided(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		h, x := openWithKYC(t, d, identity.Sandbox)
		if got := h.Do("GET", casesPath, ""); got.Status != 200 || !strings.Contains(got.Text, "No pending verifications") {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		good, bad, again := x.submitPerson("Good"), x.submitPerson("Bad"), x.submitPerson("Again")
		owner := x.submitCompany()
		if got := h.Do("GET", "/?lang=fr", ""); !strings.Contains(got.Text, `href="`+casesPath+`?lang=fr"`) {
			t.Errorf("no link to the cases:\n%s", got.Text)
		}
		list := h.Do("GET", casesPath, "").Text
		for _, id := range []string{good, bad, again, owner, x.By.CompanyID} {
			if !strings.Contains(list, `href="`+casesPath+"/"+id+`"`) {
				t.Errorf("%s is missing in\n%s", id, list)
			}
		}

		page := h.Do("GET", casesPath+"/"+good, "")
		for _, want := range []string{"Verification of Ada Good", "Acme Widgets", "<code>in_review</code>",
			"<code>drivers_license</code>, Front, US", "<code>drivers_license</code>, Back, US",
			"<code>tax_id</code>, <code>ssn</code>, US"} {
			if !strings.Contains(page.Text, want) {
				t.Errorf("no %q in\n%s", want, page.Text)
			}
		}
		if page.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%v", page.Header)
		}
		firm := h.Do("GET", casesPath+"/"+x.By.CompanyID, "").Text
		for _, secret := range []string{"536904399", "4399", "Hidden", "1990", "good@example.com", "HIDDEN-1", "<img",
			"base64"} {
			if strings.Contains(list+page.Text+firm, secret) {
				t.Errorf("a page shows %q", secret)
			}
		}

		for subject, c := range map[string]struct{ result, status string }{
			good: {"approved", "approved"}, bad: {"rejected", "rejected"},
			again: {"resubmission_required", "resubmission_required"}, owner: {"approved", "approved"},
			x.By.CompanyID: {"resubmission_required", "resubmission_required"},
		} {
			if got := decide(h, subject, c.result); got.Status != 303 || got.Header.Get("Location") != casesPath+"/"+subject {
				t.Fatalf("%s: %d to %q\n%s", c.result, got.Status, got.Header.Get("Location"), got.Text)
			}
			got := h.Do("GET", casesPath+"/"+subject, "")
			if !strings.Contains(got.Text, "<code>"+c.status+"</code>") || strings.Contains(got.Text, "<form") ||
				strings.Contains(got.Text, "%!") {
				t.Errorf("after %s:\n%s", c.result, got.Text)
			}
		}
		for query, want := range map[string]int64{
			"SELECT COUNT(*) FROM users WHERE user_id = '" + good + "' AND kyc_status = 'approved'":                        1,
			"SELECT COUNT(*) FROM events WHERE name = 'user.kyc_status_update' AND data LIKE '%resubmission_required%'":    1,
			"SELECT COUNT(*) FROM mails WHERE template = 'kyc_result'":                                                     3,
			"SELECT COUNT(*) FROM verifications WHERE state IN ('initiated', 'submitted', 'in_review')":                    0,
			"SELECT COUNT(*) FROM verifications WHERE subject_id = '" + x.By.CompanyID + "' AND state = 'more_info'":       1,
			"SELECT COUNT(*) FROM owners WHERE owner_id = '" + owner + "' AND kyc_status = 'approved'":                     1,
			"SELECT COUNT(*) FROM events WHERE name = 'company.kyb_status_update' AND data LIKE '%resubmission_required%'": 1,
		} {
			if n := x.Count(query); n != want {
				t.Errorf("%d, want %d: %s", n, want, query)
			}
		}
		h.Close()
		if log := h.Logs.String(); strings.Contains(log, good) || strings.Contains(log, "Good") {
			t.Errorf("the log names the user:\n%s", log)
		}
	})
}

// TestVerificationsAreDecidedOnce checks that a decision applies once, to the case that was shown, and only from
// this site; and that a company is approved only with its owners.
func TestVerificationsAreDecidedOnce(t *testing.T) {
	d := pagetest.SQLite(t)
	h, x := openWithKYC(t, d, identity.Sandbox)
	ada := x.submitPerson("Lovelace")
	at, id := casesPath+"/"+ada, caseID.FindStringSubmatch(h.Do("GET", casesPath+"/"+ada, "").Text)[1]
	const waiting = "SELECT COUNT(*) FROM verifications WHERE state = 'in_review'"
	for name, c := range map[string]struct {
		status  int
		form    string
		headers []string
	}{
		"another site": {403, "case_id=" + id + "&result=approved", []string{"Sec-Fetch-Site", "cross-site"}},
		"no decision":  {422, "case_id=" + id, nil},
		"another word": {422, "case_id=" + id + "&result=expired", nil},
		"another case": {303, "case_id=ver_other&result=approved", nil},
		"no case":      {303, "result=approved", nil},
	} {
		if got := h.Do("POST", at, c.form, c.headers...); got.Status != c.status || x.Count(waiting) != 1 {
			t.Errorf("%s: %d", name, got.Status)
		}
	}
	for _, method := range []string{"GET", "POST"} {
		if got := h.Do(method, casesPath+"/usr_nobody", "result=approved"); got.Status != 404 {
			t.Errorf("%s of an unknown user: %d", method, got.Status)
		}
	}
	for _, result := range []string{"approved", "rejected"} { // the second one is too late
		if got := h.Do("POST", at, "case_id="+id+"&result="+result); got.Status != 303 {
			t.Errorf("%s: %d", result, got.Status)
		}
	}
	if n := x.Count("SELECT COUNT(*) FROM verifications WHERE state = 'approved'"); n != 1 {
		t.Errorf("%d are approved", n)
	}

	owner := x.submitCompany()
	decide(h, x.By.CompanyID, "approved")
	if got := h.Do("GET", casesPath+"/"+x.By.CompanyID, "").Text; !strings.Contains(got, "<code>ubo_pending</code>") ||
		strings.Contains(got, "<form") {
		t.Errorf("approved without its owner:\n%s", got)
	}
	decide(h, owner, "approved")
	if got := h.Do("GET", casesPath+"/"+x.By.CompanyID, "").Text; !strings.Contains(got, "(<code>approved</code>)") {
		t.Errorf("%s", got)
	}
}

// TestNoVerificationPagesInProduction checks that production has no pages to decide cases.
func TestNoVerificationPagesInProduction(t *testing.T) {
	d := pagetest.SQLite(t)
	h, x := openWithKYC(t, d, identity.Production)
	ada := x.submitPerson("Lovelace")
	for _, path := range []string{casesPath, casesPath + "/" + ada} {
		for _, method := range []string{"GET", "POST"} {
			if got := h.Do(method, path, "result=approved"); got.Status != 404 || strings.Contains(got.Text, "Lovelace") {
				t.Errorf("%s %s: %d", method, path, got.Status)
			}
		}
	}
	if got := h.Do("GET", "/", ""); strings.Contains(got.Text, casesPath) {
		t.Errorf("%s", got.Text)
	}
}

func TestVerificationsInABrowser(t *testing.T) {
	d := pagetest.SQLite(t)
	h, x := openWithKYC(t, d, identity.Sandbox)
	b := webtest.Start(t)
	ada, eve := x.submitPerson("Lovelace"), x.submitPerson(strings.Repeat("Verylongname", 8))
	x.submitCompany()
	b.Check(h.URL + casesPath)
	b.Check(h.URL + casesPath + "/" + eve)

	// From the start page to the decision, without JavaScript and on a small screen.
	p := b.Open(h.URL+"/", webtest.Look{Width: 320, NoScript: true})
	p.Send(`a[href="` + casesPath + `"]`)
	p.Send(`a[href="` + casesPath + "/" + ada + `"]`)
	p.Send(`button[value="rejected"]`)
	if text := p.Text(); p.Path() != casesPath+"/"+ada || !strings.Contains(text, "rejected") ||
		!strings.Contains(text, "already decided") {
		t.Errorf("at %s:\n%s", p.Path(), text)
	}
	b.Open(h.URL+casesPath+"/"+ada, webtest.Look{Width: 320}).Audit()
}
