package app_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// colleague signs in another member of the sandbox's company. setRole gives them a role.
func (o *companyBrowser) colleague() (v *webtest.Visitor, setRole func(role string)) {
	o.Helper()
	const email, password = "second@sandbox.example", "wire of eleven inches"
	var user identity.User
	setRole = func(role string) {
		o.Helper()
		testkit.Check(o, o.s.DB().Write(o.Context(), func(ctx context.Context, tx *db.Tx) error {
			return identity.AddMember(ctx, tx, identity.Member{CompanyID: o.d.seed.CompanyID, UserID: user.ID, Role: role})
		}))
	}
	testkit.Check(o, o.s.DB().Write(o.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		sealer, err := identity.NewSealer(make([]byte, 32))
		if err == nil {
			user, err = identity.CreateUser(ctx, tx, sealer, identity.NewUser{
				PasswordHash: testkit.PasswordHash(o.T, password),
				Profile:      identity.Profile{Email: email, FirstName: "Katherine", LastName: "Johnson"}})
		}
		return err
	}))
	setRole(identity.RoleAdmin)
	v = webtest.NewVisitor(o.T, o.s.Ready().BaseURL)
	if got := v.Submit(v.Get("/sign-in"), "/sign-in", "email", email, "password",
		password); got.Status != http.StatusSeeOther {
		o.Fatalf("sign in: %d\n%s", got.Status, got.Text)
	}
	return v, setRole
}

// waits returns the page of a payroll above the limit, once it is funded and on hold.
func (o *companyBrowser) waits(id string) webtest.Visit {
	o.Helper()
	o.d.until(id, "on hold", func(v payrollView) bool { return v.Status == "on_hold" })
	got := o.d.ok("GET", "/api/company/payrolls/"+id, "").read(o.T)
	if got["hold_reason"] != "approval_required" || got["approval"] == nil {
		o.Errorf("%v, %v", got["hold_reason"], got["approval"])
	}
	return o.says(o.Get("/payrolls/"+id), "Waiting for a second person’s approval", "would exceed your approval limit")
}

// A payment that is on hold because its payee's destination is new leaves as soon as an administrator confirms that
// they asked the payee.
func TestANewDestinationIsConfirmed(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database, func(c *app.Config) { c.CoolDown = 24 * time.Hour })
		payee := o.d.tokenPayee("Una", "USDC", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")
		paid := func() createdPayroll {
			made := o.d.create(pays(`"funding_currency":"USDC",`, "75.00", payee))
			o.d.deposit(made.PayrollID, "exact", "")
			return made
		}
		const elsewhere = "payment details changed on"
		changed := func(id string) any {
			payment := o.d.ok("GET", "/api/company/payrolls/"+id, "").read(t)["payments"].([]any)[0].(map[string]any)
			if warned := strings.Contains(fmt.Sprint(payment["warnings"]), "destination_changed"); warned !=
				(payment["destination_changed"] != nil) {
				t.Errorf("the warnings are %v", payment["warnings"])
			}
			return payment["destination_changed"]
		}
		first := paid().PayrollID
		o.d.fulfilled(first)
		at := "/api/company/" + o.d.seed.CompanyID + "/recipients/" + payee + "/distribution"
		list := o.d.ok("GET", at, "").read(t)
		old := list["distributions"].([]any)[0].(map[string]any)["distribution_id"].(string)
		o.d.ok("POST", at+"/update",
			`{"distribution_id":"`+old+`","symbol":"USDC","distribution_data":{"network":"base",`+
				`"address":"0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"}}`)
		made := paid()
		o.d.until(made.PayrollID, "on hold", func(v payrollView) bool {
			return len(v.Payments) == 1 &&
				v.Payments[0].Status == "on_hold"
		})
		page := o.says(o.Get("/payrolls/"+made.PayrollID), "Una Nonce has a new destination", "pay 75.00", elsewhere)
		if changed(made.PayrollID) == nil || changed(first) != nil {
			t.Errorf("changed at %v, and before at %v", changed(made.PayrollID), changed(first))
		}
		o.silent(o.Get("/payrolls/"+first), elsewhere)
		confirm := regexp.MustCompile(`/payrolls/\w+/payments/\w+/confirm`).FindString(page.Text)
		if got := o.Submit(page, confirm); got.Status != http.StatusSeeOther {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		o.d.fulfilled(made.PayrollID)
		o.silent(o.Get("/payrolls/"+made.PayrollID), elsewhere)
		if got := o.Submit(page, confirm); got.Status != http.StatusConflict {
			t.Errorf("a repeated confirmation: %d", got.Status)
		}
	})
}

// Above the company's limit, one person alone cannot have a payroll paid, whether a person or an app created it. One
// person alone cannot loosen the limit either.
func TestTwoPersonApproval(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		ada, limits := o.d.seed.Workers[0].UserID, "/settings/approvals"
		page := o.says(o.Get(limits), "No limit set")
		if got := o.Submit(page, limits, "limit", "500", "limit_currency", "USD"); got.Status != http.StatusConflict ||
			!strings.Contains(got.Text, "Invite another one first") {
			t.Errorf("one member alone: %d\n%s", got.Status, got.Text)
		}
		other, setRole := o.colleague()
		for _, bad := range []string{"", "-1", "x", "1.001"} {
			if got := o.Submit(page, limits, "limit", bad, "limit_currency",
				"USD"); got.Status != http.StatusUnprocessableEntity || !strings.Contains(got.Text, `id="limit-problem"`) {
				t.Errorf("%q: %d\n%s", bad, got.Status, got.Text)
			}
		}
		if got := o.Submit(page, limits, "limit", "500", "limit_currency", "USD"); got.Location() != limits {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		o.says(o.Get(limits), "<strong>500.00\u00a0USD</strong>")

		// A payroll that an app created needs the approval of two members.
		if got := o.d.ok("POST", "/api/company/payroll/preview", pays("", "1000",
			ada)).read(t); got["approvals_needed"].(float64) != 2 {
			t.Errorf("%v", got["approvals_needed"])
		}
		made := o.d.create(pays("", "1000", ada))
		at := "/payrolls/" + made.PayrollID
		o.d.deposit(made.PayrollID, "exact", "")
		page = o.says(o.waits(made.PayrollID), "Approvals: 0 of 2.", "Check these payments", "first payment to this payee")
		o.says(o.Get("/overview"), "Waiting for a second person’s approval")
		o.says(o.Get(limits), "1,010.00\u00a0USD", `href="`+at+`"`)
		_, form := webtest.Form(t, page.Text, at+"/approve")
		if got := o.Submit(page, at+"/approve"); got.Location() != at {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		page = o.says(o.waits(made.PayrollID), "Approvals: 1 of 2.", "created or already approved it")
		o.silent(page, at+"/approve")
		if got := o.Post(at+"/approve", form); got.Location() != at {
			t.Errorf("a repeated approval: %d", got.Status)
		}
		o.says(o.waits(made.PayrollID), "Approvals: 1 of 2.")
		theirs := other.Get(at)
		setRole(identity.RoleDeveloper)
		o.silent(other.Get(at), at+"/approve")
		if got := other.Submit(theirs, at+"/approve"); got.Status != http.StatusForbidden {
			t.Errorf("a developer approves: %d", got.Status)
		}
		setRole(identity.RoleAdmin)
		if got := other.Submit(theirs, at+"/approve"); got.Status != http.StatusForbidden {
			t.Errorf("a new administrator approves: %d", got.Status)
		}
		asNew := other.Get(at)
		o.says(asNew, "You became an owner or administrator less than 7 days ago")
		o.silent(asNew, at+"/approve")
		testkit.Check(t, o.s.DB().Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE members SET role_since = created_at") // as if a week had passed
			return err
		}))
		if got := other.Submit(theirs, at+"/approve"); got.Location() != at {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		o.d.fulfilled(made.PayrollID)
		o.says(o.Get(at), "Approvals: 2 of 2.", "Katherine Johnson", "Approved by a second person")

		// A payroll within the limit needs no approval. A declined payroll gives its money back.
		small := o.d.create(pays("", "100", ada))
		o.d.deposit(small.PayrollID, "exact", "")
		o.d.fulfilled(small.PayrollID)
		declined := o.d.create(pays("", "1000", ada))
		o.d.deposit(declined.PayrollID, "exact", "")
		o.waits(declined.PayrollID)
		at = "/payrolls/" + declined.PayrollID
		if got := other.Submit(other.Get(at), at+"/decline"); got.Location() != at {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		o.says(o.Get(at), "Declined by a second person", "Nobody gets paid.")
		o.d.checkFunds(2_020_000)

		// A payroll that a member created and paid from the balance needs the approval of another member.
		preview := o.says(o.Submit(o.Get("/payrolls/new"), "/payrolls/new", "amount."+ada, "600"),
			"Another owner or administrator needs to approve it")
		at = o.Submit(preview, "/payrolls").Location()
		at = strings.TrimSuffix(at, "/fund")
		id := strings.TrimPrefix(at, "/payrolls/")
		o.d.deposit(id, "exact", "")
		page = o.says(o.waits(id), "Approvals: 0 of 1.", "Created by Alex Admin.", "100% to ")
		o.silent(page, at+"/approve")
		_, form = webtest.Form(t, page.Text, at+"/decline")
		if got := o.Post(at+"/approve", form); got.Status != http.StatusForbidden || !strings.Contains(got.Text,
			"second_person_required") {
			t.Errorf("the maker approves: %d\n%s", got.Status, got.Text)
		}
		other.Submit(other.Get(at), at+"/approve")
		o.d.fulfilled(id)

		// Two members are needed to raise or remove the limit.
		o.Submit(o.Get(limits), limits, "limit", "1000000", "limit_currency", "USD")
		page = o.says(o.Get(limits), "<strong>500.00\u00a0USD</strong>", "proposed a limit of 1,000,000.00\u00a0USD")
		_, form = webtest.Form(t, page.Text, limits+"/answer")
		form.Set("answer", "yes")
		if got := o.Post(limits+"/answer", form); got.Status != http.StatusForbidden {
			t.Errorf("one member alone: %d", got.Status)
		}
		_, form = webtest.Form(t, other.Get(limits).Text, limits+"/answer")
		form.Set("answer", "yes")
		other.Post(limits+"/answer", form)
		o.says(o.Get(limits), "<strong>1,000,000.00\u00a0USD</strong>")
		other.Submit(other.Get(limits), limits+"/remove")
		o.says(o.Get(limits), "<strong>1,000,000.00\u00a0USD</strong>", "proposed to remove the limit", "Approve change")
	})
}
