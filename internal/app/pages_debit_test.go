package app_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/web/webtest"
)

// A member accepts a mandate after reading its text, funds the balance by direct debit, and revokes the mandate. Staff
// confirm a mandate whose account is unchecked, and set the risk limit, up to which money can be used at once.
func TestDirectDebitPages(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		const at, mandates = "/wallets/direct-debits", "/wallets/mandates"
		o.says(o.Get("/wallets"), `href="`+at+`"`)
		o.silent(o.says(o.Get(at), "No mandates yet", "No direct debits yet"), `name="amount"`)
		o.says(o.Get(mandates+"/new"), "ACH, business account", "SEPA business-to-business")
		form := o.says(o.Get(mandates+"/new?scheme=ach_ccd"), "You authorize Stipend Sandbox to debit your account", "Nacha")
		fields := func(number string, more ...string) []string {
			return append([]string{"d.account_holder_name", "Acme Inc", "d.account_holder_type", "business",
				"d.routing_number", "021000021", "d.account_number", number, "d.account_type", "checking",
				"d.address.address_line1", "1 Example Street", "d.address.city", "Springfield", "d.address.state", "IL",
				"d.address.postal_code", "62701", "d.address.country", "US"}, more...)
		}
		if got := o.Submit(form, mandates+"/new", fields("123456789")...); got.Status != http.StatusUnprocessableEntity ||
			!strings.Contains(got.Text, "Accept the text of the mandate") {
			t.Fatalf("without consent: %d\n%s", got.Status, got.Text)
		}
		mandate := o.Submit(form, mandates+"/new", fields("123456789", "accepted", "yes")...).Location()
		if !strings.HasPrefix(mandate, mandates+"/mdt_") {
			t.Fatalf("redirected to %q", mandate)
		}
		o.says(o.Get(mandate), "You authorize Stipend Sandbox", "127.0.0.1", ">Active<")

		// Two members of staff: one confirms the account of another mandate, and sets the limit.
		unchecked := o.Submit(form, mandates+"/new", fields("123993002", "accepted", "yes")...).Location()
		o.says(o.Get(unchecked), "The operator is checking that the account")
		staff := employ(t, o.s, "Grace").signIn(t)
		const desk = "/operations/direct-debits"
		page := staff.Get(desk)
		if got := staff.Submit(page, "/operations/mandates/"+strings.TrimPrefix(unchecked, mandates+"/"), "answer", "yes",
			"reason", "bank letter"); got.Location() != desk {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		o.says(o.Get(unchecked), ">Active<")
		if got := staff.Submit(staff.Get(desk), "/operations/debit-limits", "company_id", o.d.seed.CompanyID,
			"currency", "USD", "amount", "$30.00", "reason", "two years without a return"); got.Location() != desk {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}

		form = o.says(o.Get(at), `name="amount"`, `name="due_on"`)
		id := strings.TrimPrefix(mandate, mandates+"/")
		if got := o.Submit(form, at, "mandate_id", id, "amount", "0"); got.Status != http.StatusUnprocessableEntity ||
			!strings.Contains(got.Text, `id="amount-problem"`) {
			t.Errorf("no amount: %d\n%s", got.Status, got.Text)
		}
		// A debit that is due later waits, and can be canceled until it is sent.
		later := o.Submit(form, at, "mandate_id", id, "amount", "5", "description", "October",
			"due_on", time.Now().UTC().AddDate(0, 0, 30).Format(time.DateOnly)).Location()
		page = o.says(o.Get(later), ">Scheduled<", "October", later+"/cancel")
		if got := o.Submit(page, later+"/cancel"); got.Location() != later {
			t.Errorf("cancel: %d\n%s", got.Status, got.Text)
		}
		o.silent(o.says(o.Get(later), ">Canceled<"), later+"/cancel")

		// A payroll that is funded by direct debit is previewed with it, and both name each other. Canceling it cancels the
		// debit.
		o.d.operatorFunded()
		ada := o.d.seed.Workers[0].UserID
		preview := o.says(o.Submit(o.says(o.Get("/payrolls/new"), `value="direct_debit"`), "/payrolls/new", "amount."+ada,
			"5", "funding_method", "direct_debit"), "Direct debit from your bank account")
		made := o.Submit(preview, "/payrolls").Location()
		page = o.says(o.Get(made), "Payouts start when the money from the direct debit is available.", ": Scheduled")
		debit := regexp.MustCompile(at + `/ddb_[0-9a-z]+`).FindString(page.Text)
		o.says(o.Get(debit), "Payroll prl_", `href="`+made+`"`)
		o.Submit(page, made+"/cancel")
		o.says(o.Get(debit), ">Canceled<")

		form = o.Get(at)
		first := o.Submit(form, at, "mandate_id", id, "amount", "100,00 USD")
		if again := o.Submit(form, at, "mandate_id", id, "amount", "100"); again.Location() != first.Location() {
			t.Errorf("submitted twice: %q and %q", first.Location(), again.Location())
		}
		o.d.sendDebit(strings.TrimPrefix(first.Location(), at+"/"))
		o.signIn()
		eventually(t, 60*time.Second, "the debit is collected",
			func() bool { return strings.Contains(o.Get(first.Location()).Text, ">Collected, on hold<") })
		o.says(o.Get(first.Location()), "30.00\u00a0USD", "On hold until")
		o.says(o.Get(at), "70.00\u00a0USD on hold")
		if got := o.Submit(o.Get(mandate), mandate+"/revoke"); got.Location() != mandate {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		o.says(o.Get(mandate), ">Revoked<")
		signed := employ(t, o.s, "Ada").signIn(t)
		if got := signed.Get(desk); !strings.Contains(got.Text, "70.00") && !strings.Contains(got.Text, "30.00") {
			t.Errorf("staff see no debit:\n%s", got.Text)
		}
	})
}

// sendDebit advances the clock past the nights until a direct debit is sent.
func (d *apiClient) sendDebit(id string) {
	d.Helper()
	d.advanceUntil(6*time.Hour, "the debit is sent", func() bool {
		var debit struct{ Reference string }
		d.decode(d.ok("GET", "/api/wallets/direct-debits/"+id, ""), &debit)
		return debit.Reference != ""
	})
}

// advanceUntil advances the clock by a step, four times a second, until ok returns true.
func (d *apiClient) advanceUntil(step time.Duration, what string, ok func() bool) {
	d.Helper()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	eventually(d.T, time.Minute, what, func() bool {
		if ok() {
			return true
		}
		select {
		case <-tick.C:
			d.advance(step)
		default:
		}
		return false
	})
}

func TestDirectDebitPagesInABrowser(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	base := o.s.Ready().BaseURL
	var made struct {
		MandateID string `json:"mandate_id"`
	}
	o.d.decode(o.d.ok("POST", "/api/sandbox/mandate", `{"scheme":"ach_ccd"}`), &made)
	var debit struct {
		DebitID string `json:"debit_id"`
	}
	o.d.decode(o.d.ok("POST", "/api/wallets/direct-debits", `{"mandate_id":"`+made.MandateID+`","amount":10}`,
		"Idempotency-Key", freshKey()), &debit)
	b := webtest.Start(t)
	p := b.Open(base+"/wallets/direct-debits", webtest.Look{Width: 320})
	p.Fill("#email", o.d.seed.Admin.Email)
	p.Fill("#password", o.d.seed.Admin.Password)
	p.Send("form:has(#password) button")
	p.Audit()
	b.Check(base + "/wallets/direct-debits")
	b.Check(base + "/wallets/direct-debits/" + debit.DebitID)
	b.Check(base + "/wallets/mandates/" + made.MandateID)
	b.Check(base + "/wallets/mandates/new")
	b.Check(base + "/wallets/mandates/new?scheme=ach_ccd")
}
