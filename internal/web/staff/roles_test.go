package staff_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/staff"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/webtest"
)

// send posts a form to a path, whether or not a page shows the form.
func send(t *testing.T, v *webtest.Visitor, path string, pairs ...string) webtest.Visit {
	t.Helper()
	_, values := webtest.Form(t, v.Get(ui.StaffPath).Text, ui.StaffPath+"/sign-out")
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return v.Post(path, values)
}

// TestEveryStaffPageChecksTheRole requests each page and sends each form of staff in each role. A role that the route
// does not name gets 403, and the menu links only to pages that the role can read.
func TestEveryStaffPageChecksTheRole(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t))
	for _, role := range backoffice.Roles {
		v := x.SignInStaffAs(string(role), role)
		home := v.Get(ui.StaffPath)
		for _, rt := range staff.Routes {
			if rt.Access != ui.StaffOnly || strings.HasSuffix(rt.Path, "/sign-out") {
				continue
			}
			path := strings.NewReplacer("{queue}", backoffice.OnHold, "{id}", "x").Replace(rt.Path)
			allowed := role == backoffice.Admin || slices.Contains(rt.Roles, role)
			var got webtest.Visit
			if rt.Method == http.MethodGet {
				got = v.Get(path)
				if linked := strings.Contains(home.Text, `href="`+path+`"`); linked && !allowed {
					t.Errorf("the menu of %s links to %s", role, path)
				}
			} else {
				got = send(t, v, path, "action", backoffice.Resume)
			}
			if refused := got.Status == http.StatusForbidden; refused == allowed {
				t.Errorf("%s %s as %s: %d", rt.Method, path, role, got.Status)
			}
		}
		for _, queue := range backoffice.Queues {
			allowed := backoffice.StaffMember{Role: role}.MayRead(queue)
			if got := v.Get(ui.StaffPath + "/queues/" + queue); (got.Status == http.StatusOK) != allowed {
				t.Errorf("queue %s as %s: %d", queue, role, got.Status)
			}
			if strings.Contains(home.Text, "/queues/"+queue) != allowed {
				t.Errorf("queue %s on the start page of %s", queue, role)
			}
		}
	}
}

// TestRequestsNeedTheRoleOfTheirAction checks that a role that may not take an action can neither request, approve nor
// drop it, and that a changed role applies to an open session.
func TestRequestsNeedTheRoleOfTheirAction(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d)
		katherine := x.SignInStaffAs("Katherine", backoffice.Compliance)
		dorothy := x.SignInStaffAs("Dorothy", backoffice.Finance)
		act := func(v *webtest.Visitor, path string, want int, fields ...string) {
			t.Helper()
			if got := send(t, v, path, append(fields, "reason", "a court order")...); got.Status != want {
				t.Fatalf("%s: %d, want %d\n%s", path, got.Status, want, got.Text)
			}
		}
		act(dorothy, "/operations/companies/freeze", http.StatusForbidden, "company_id", x.Company.ID)
		act(katherine, "/operations/companies/freeze", http.StatusSeeOther, "company_id", x.Company.ID)
		unfreeze := []string{"action", backoffice.Unfreeze, "company_id", x.Company.ID}
		act(dorothy, "/operations/requests", http.StatusForbidden, unfreeze...)
		act(katherine, "/operations/requests", http.StatusSeeOther, unfreeze...)
		request := requestPath.FindString(katherine.Get(ui.StaffPath).Text)
		for _, answer := range []string{"yes", "no"} {
			act(dorothy, request, http.StatusForbidden, "answer", answer)
		}
		if page := dorothy.Get(ui.StaffPath); requestPath.MatchString(page.Text) || page.Contains("Freeze") {
			t.Errorf("finance is shown forms that it cannot send:\n%s", page.Text)
		}
		x.SetStaffRole("Dorothy", backoffice.Compliance)
		act(dorothy, request, http.StatusSeeOther, "answer", "yes")
		if n := x.Count("SELECT COUNT(*) FROM companies WHERE status = 'frozen'"); n != 0 {
			t.Error("the company is frozen")
		}
		if n := x.Count(`SELECT COUNT(*) FROM staff_actions
			WHERE action = 'operator.role' AND reason = 'finance → compliance'`); n != 1 {
			t.Error("the changed role is not in the audit log")
		}
	})
}
