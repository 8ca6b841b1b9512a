package app_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/web/webtest"
)

const notificationsPath = "/notifications"

// notified waits until a member's list of notifications has a text.
func (o *companyBrowser) notified(v *webtest.Visitor, want string) (page webtest.Visit) {
	o.Helper()
	eventually(o.T, 60*time.Second, "a notification: "+want, func() bool {
		page = v.Get(notificationsPath)
		return page.Contains(want)
	})
	return page
}

// mails returns the emails to an address that contain a text.
func (o *companyBrowser) mails(to, text string) (n int) {
	for _, mail := range strings.Split(o.Get("/sandbox/mails").Text, "<details")[1:] {
		if strings.Contains(mail, to) && strings.Contains(mail, text) {
			n++
		}
	}
	return n
}

// Members are notified of what needs their attention: on a page with a count of the unread, and by mail unless they do
// not want it. The creator of a payroll is not asked to approve it.
func TestMembersAreNotified(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		other, setRole := o.colleague()
		ada, limits := o.d.seed.Workers[0].UserID, "/settings/approvals"
		admin, second := o.s.Ready().Seed.Admin.Email, "second@sandbox.example"
		o.says(o.Get(notificationsPath), "No notifications yet")
		page := o.Get(notificationsPath)
		if got := o.Submit(page, notificationsPath+"/mail"); got.Location() == "" {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		_, form := webtest.Form(t, o.Get(notificationsPath).Text, notificationsPath+"/mail")
		form["mail"] = []string{"payroll_paid"}
		o.Post(notificationsPath+"/mail", form)
		o.Submit(o.Get(limits), limits, "limit", "500", "limit_currency", "USD")

		preview := o.Submit(o.Get("/payrolls/new"), "/payrolls/new", "amount."+ada, "600")
		at := strings.TrimSuffix(o.Submit(preview, "/payrolls").Location(), "/fund")
		id := strings.TrimPrefix(at, "/payrolls/")
		o.d.advance(15 * time.Minute) // half of the quote's validity
		page = o.notified(o.Visitor, "expires in about 15 minutes")
		if got := o.Submit(page, pathOf(t, page, "expires in about")); got.Location() != at+"/fund" {
			t.Errorf("the notification of the quote leads to %q", got.Location())
		}
		o.d.deposit(id, "exact", "")
		o.waits(id)
		const waits = "606.00\u00a0USD needs your approval"
		page = o.notified(other, waits)
		o.says(page, "Unread", `<span class="n" aria-hidden="true">3</span>`)
		eventually(t, 60*time.Second, "an email to the approver", func() bool {
			return o.mails(second, "606.00 USD needs your approval") == 1
		})
		o.notified(o.Visitor, "A payroll of 606.00\u00a0USD was funded")
		o.silent(o.Get(notificationsPath), waits)
		if got := other.Submit(page, pathOf(t, page, waits)); got.Location() != at {
			t.Errorf("the notification of the approval leads to %q", got.Location())
		}
		o.says(other.Get(notificationsPath), `<span class="n" aria-hidden="true">2</span>`)
		other.Submit(other.Get(at), at+"/approve")
		o.d.fulfilled(id)
		page = o.notified(o.Visitor, "A payroll of 606.00\u00a0USD was paid")
		eventually(t, 60*time.Second, "an email about the paid payroll", func() bool {
			return o.mails(admin, "A payroll of 606.00 USD was paid") == 1
		})
		if n := o.mails(admin, "was funded"); n != 0 {
			t.Errorf("%d emails about a kind that is not wanted", n)
		}
		if n := o.mails(second, "needs your approval"); n != 1 {
			t.Errorf("%d emails ask for one approval", n)
		}
		if got := o.Submit(page, notificationsPath+"/read"); got.Location() != notificationsPath {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		o.silent(o.Get(notificationsPath), "Unread", `class="n"`)

		// A notification belongs to one member of one company.
		theirs := o.notified(other, "was paid")
		_, form = webtest.Form(t, theirs.Text, pathOf(t, theirs, "was paid"))
		form.Set("form_token", formToken(t, o.Get(notificationsPath)))
		if got := o.Post(pathOf(t, theirs, "was paid"), form); got.Status != 404 {
			t.Errorf("the notification of another member: %d", got.Status)
		}
		setRole(identity.RoleViewer)
		o.says(other.Get(notificationsPath), "was paid")
	})
}

// pathOf returns the path of the form that opens the notification with a text.
func pathOf(t *testing.T, page webtest.Visit, text string) string {
	t.Helper()
	before, after, ok := strings.Cut(page.Text, text)
	_, rest, found := strings.Cut(after, `action="`)
	path, _, _ := strings.Cut(rest, `"`)
	if !ok || !found || !strings.HasPrefix(path, notificationsPath+"/ntf_") {
		t.Fatalf("no form of the notification %q after %d bytes: %q", text, len(before), path)
	}
	return path
}

func formToken(t *testing.T, page webtest.Visit) string {
	t.Helper()
	_, form := webtest.Form(t, page.Text, notificationsPath+"/mail")
	return form.Get("form_token")
}
