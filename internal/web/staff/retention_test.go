package staff_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/webtest"
)

// answerRequest answers the open request of staff.
func answerRequest(t *testing.T, v *webtest.Visitor, want int) {
	t.Helper()
	page := v.Get("/operations")
	if got := v.Submit(page, requestPath.FindString(page.Text), "answer", "yes", "reason",
		"reviewed"); got.Status != want {
		t.Fatalf("%d, want %d\n%s", got.Status, want, got.Text)
	}
}

// TestALegalHoldIsReleasedByTwo places holds on a company and a person, which compliance staff does alone, and releases
// one, which takes two. Both pages show it, and the audit log has each step.
func TestALegalHoldIsReleasedByTwo(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d, "owner")
		katherine := x.SignInStaffAs("Katherine", backoffice.Compliance)
		dorothy := x.SignInStaffAs("Dorothy", backoffice.Compliance)
		mary := x.SignInStaffAs("Mary", backoffice.Finance)
		const page, path = "/operations/retention", "/operations/holds"
		if got := katherine.Get(page); !got.Contains("has not run yet") {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		act := func(v *webtest.Visitor, want int, action, id string) {
			t.Helper()
			if got := send(t, v, path, "action", action, "subject_id", id, "reason", "court order 7"); got.Status != want {
				t.Fatalf("%s %s: %d, want %d\n%s", action, id, got.Status, want, got.Text)
			}
		}
		act(mary, http.StatusForbidden, backoffice.PlaceHold, x.Company.ID)
		act(katherine, http.StatusUnprocessableEntity, backoffice.PlaceHold, "acme")
		act(katherine, http.StatusNotFound, backoffice.PlaceHold, "rec_nobody")
		act(katherine, http.StatusConflict, backoffice.ReleaseHold, x.Company.ID)
		act(katherine, http.StatusSeeOther, backoffice.PlaceHold, x.Company.ID)
		act(katherine, http.StatusConflict, backoffice.PlaceHold, x.Company.ID)
		act(katherine, http.StatusSeeOther, backoffice.PlaceHold, x.Users["owner"].ID)
		for _, shown := range []string{page, "/operations/companies/" + x.Company.ID,
			"/operations/people/" + x.Users["owner"].ID} {
			if got := dorothy.Get(shown); !got.Contains("Katherine") || !got.Contains("Release the legal hold") {
				t.Errorf("%s does not show the hold:\n%s", shown, got.Text)
			}
		}
		holds := func(want int) {
			t.Helper()
			dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
				all, err := kyc.Holds(ctx, tx, 10)
				if len(all) != want {
					t.Errorf("%d holds, want %d", len(all), want)
				}
				return err
			})
		}
		act(katherine, http.StatusSeeOther, backoffice.ReleaseHold, x.Company.ID)
		answerRequest(t, katherine, http.StatusForbidden)
		holds(2)
		answerRequest(t, dorothy, http.StatusSeeOther)
		holds(1)
		for action, want := range map[string]int64{"hold.place": 2, "hold.release.ask": 1, "hold.release.agree": 1} {
			if n := x.Count("SELECT COUNT(*) FROM staff_actions WHERE action = $1", action); n != want {
				t.Errorf("%d entries %s, want %d", n, action, want)
			}
		}
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			return backoffice.StoreRetention(ctx, tx, backoffice.RetentionRun{At: time.Now(),
				Classes: []backoffice.RetentionResult{{Class: "ended_relations", Days: 1827, Deleted: 12, Retained: 34},
					{Class: "mails", Days: 90, Failed: true}}})
		})
		got := dorothy.Get(page)
		for _, want := range []string{"Ended relationships", "1,827", "12", "34", "The run failed"} {
			if !got.Contains(want) {
				t.Errorf("the page lacks %q:\n%s", want, got.Text)
			}
		}
	})
}

// TestAccountsAreClosedByTwo closes the account of a company, not while it has money, and of a person. Both lose their
// access.
func TestAccountsAreClosedByTwo(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d, "owner")
		owner := x.SignIn("owner")
		katherine := x.SignInStaffAs("Katherine", backoffice.Compliance)
		dorothy := x.SignInStaffAs("Dorothy", backoffice.Compliance)
		post := func(from, to ledger.Code, purpose string) {
			x.Write(func(_ context.Context, tx *db.Tx) error {
				a := money.New(money.USD, 10_00)
				return ledger.Post(tx, ledger.Journal{CompanyID: x.Company.ID, SourceType: "test", SourceID: purpose,
					Purpose: purpose, Lines: []ledger.Line{ledger.Debit(from, "", a), ledger.Credit(to, "", a)}})
			})
		}
		company, person := "/operations/companies/"+x.Company.ID, "/operations/people/"+x.Users["owner"].ID
		closeCompany := func(want int) {
			t.Helper()
			if got := send(t, katherine, company+"/close", "reason", "contract ended"); got.Status != want {
				t.Fatalf("%d, want %d\n%s", got.Status, want, got.Text)
			}
		}
		post(ledger.Bank, ledger.CompanyFunds, "deposit")
		closeCompany(http.StatusConflict)
		post(ledger.CompanyFunds, ledger.Bank, "withdrawal")
		closeCompany(http.StatusSeeOther)
		answerRequest(t, dorothy, http.StatusSeeOther)
		if got := katherine.Get(company); !got.Contains("Closed") || got.Contains("Close the company") {
			t.Errorf("the company is not closed:\n%s", got.Text)
		}
		closeCompany(http.StatusConflict)
		if got := owner.Get("/overview"); got.Status == http.StatusOK {
			t.Error("a member still acts for a closed company")
		}
		if got := send(t, katherine, person+"/support", "action", backoffice.CloseAccount, "reason_code", "customer_request",
			"reason", "letter"); got.Status != http.StatusSeeOther {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		answerRequest(t, dorothy, http.StatusSeeOther)
		if pagetest.SignedIn(owner) {
			t.Error("the sessions were not ended")
		}
		if n := x.Count("SELECT COUNT(*) FROM users WHERE sign_in_key <> '' OR password_hash <> ''"); n != 0 {
			t.Error("the person can still sign in")
		}
		if katherine.Get(person).Contains("Requested to close") || katherine.Get(person).Contains(backoffice.CloseAccount) {
			t.Error("a closed account can be closed again")
		}
	})
}
