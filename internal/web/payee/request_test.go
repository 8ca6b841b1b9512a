package payee_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/webtest"
)

const (
	firstAddress  = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"
	secondAddress = "2MzQwSSnBHWHqSAqtTVQ6v47XtaisrJa1Vc"
)

// asked is a site with a recipient without an account.
type asked struct {
	*pagetest.Fixture
	company *webtest.Visitor
	id      string // ID of the recipient
	email   string
}

func newAsked(t *testing.T, d *db.DB) *asked {
	t.Helper()
	a := &asked{Fixture: pagetest.NewFixture(t, d, auth.Roles...), email: "joan@example.com"}
	a.Write(func(ctx context.Context, tx *db.Tx) error {
		sealer, err := identity.NewSealer(make([]byte, 32))
		if err != nil {
			return err
		}
		r, err := payee.Create(ctx, tx, sealer, identity.Principal{Kind: identity.KindAPIKey, CompanyID: a.Company.ID},
			payee.CreateParams{Profile: identity.Profile{FirstName: "Joan", LastName: "Clarke", Country: "GB",
				Email: a.email}})
		a.id = r.ID
		return err
	})
	return a
}

// ask asks the recipient from the recipient's page and returns the path of the link.
func (a *asked) ask() string {
	a.Helper()
	page := "/recipients/" + a.id
	a.company = a.SignIn(identity.RoleOwner) // an earlier session may have ended
	if got := a.company.Submit(a.company.Get(page), page+"/ask"); got.Location() != page {
		a.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
	}
	return a.MailedLink(a.email, mail.DestinationLink)
}

// code returns the code of the latest mail.
func (a *asked) code() string {
	a.Helper()
	for _, m := range a.MailsTo(a.email) {
		if m.Template == mail.DestinationCode {
			return regexp.MustCompile(`\d{6}`).FindString(m.Subject)
		}
	}
	a.Fatal("no code was mailed")
	return ""
}

// enter enters an address at a link.
func (a *asked) enter(v *webtest.Visitor, link, address string) webtest.Visit {
	a.Helper()
	return v.Submit(v.Get(link+"/destinations/new?symbol=BTC"), link+"/destinations/new", "d.address", address)
}

// A payee without an account enters a destination at a link, once, and confirms it with a code. Later they renew it.
func TestAPayeeWithoutAnAccountEntersADestination(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		a := newAsked(t, d)
		link, page := a.ask(), "/recipients/"+a.id
		again := a.company.Submit(a.company.Get(page), page+"/ask")
		if again.Status != 409 || !strings.Contains(again.Text, "last 24 hours") {
			t.Errorf("asked twice a day: %d\n%s", again.Status, again.Text)
		}
		v := webtest.NewVisitor(t, a.URL)
		if got := v.Get(link); !got.Contains("Acme wants to pay you") {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		tax := func(number string) webtest.Visit {
			return v.Submit(v.Get(link+"/tax?form=w9"), link+"/tax", "tax_id", number, "tax_id_type", "ssn", "street_address",
				"1 Main Street", "city", "Springfield", "certified", "yes")
		}
		if got := tax("000-12-3456"); got.Status != 422 || !strings.Contains(got.Text, "tax_id-problem") ||
			!strings.Contains(got.Text, `value="Springfield"`) {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		if got := tax("536-90-4399"); got.Location() != link || !v.Get(link).Contains("Valid") ||
			v.Get(link+"/tax").Contains("4399") {
			t.Errorf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		if n := a.Count("SELECT COUNT(*) FROM tax_forms WHERE subject_id = '" + a.id + "'"); n != 1 {
			t.Errorf("%d tax forms", n)
		}
		if got := a.enter(v, link, "bcrt1qnonsense"); got.Status != 422 || !strings.Contains(got.Text, "d.address-problem") ||
			!strings.Contains(got.Text, "bcrt1qnonsense") {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		if got := a.enter(v, link, firstAddress); got.Location() != link+"/code" {
			t.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		if n := a.Count("SELECT COUNT(*) FROM destinations"); n != 0 {
			t.Errorf("%d destinations before the code", n)
		}
		form, code := v.Get(link+"/code"), a.code()
		if got := v.Submit(form, link+"/code", "code", "wrong"); got.Status != 422 ||
			!strings.Contains(got.Text, "code-problem") {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		if got := v.Submit(form, link+"/code", "code", code); got.Location() != link+"/saved" {
			t.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		for _, path := range []string{link, link + "/code", link + "/destinations/new", link + "/tax"} {
			if got := v.Get(path); got.Status != 404 {
				t.Errorf("a used link: %d", got.Status)
			}
		}
		if got := a.company.Get(page); !got.Contains("Link in an email") || !got.Contains(firstAddress[:6]) {
			t.Errorf("%s", got.Text)
		}

		if got := v.Get(link + "/saved"); !got.Contains("saved") || got.Contains("class=\"alert\"") {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		a.Write(func(ctx context.Context, tx *db.Tx) error { // the answer about an account
			_, err := tx.Exec(ctx, `UPDATE destinations SET kind = 'fiat',
				account_check = '{"method":"verification_of_payee","result":"no_match"}'`)
			return err
		})
		if got := v.Get(link + "/saved"); !got.Contains("does not match") {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		clock.Advance(61 * time.Minute)
		if got := v.Get(link + "/saved"); got.Status != 404 {
			t.Errorf("an hour after the use of a link: %d", got.Status)
		}

		clock.Advance(24 * time.Hour)
		link = a.ask()
		a.enter(v, link, secondAddress)
		v.Submit(v.Get(link+"/code"), link+"/code", "code", a.code())
		if a.Count("SELECT COUNT(*) FROM destinations WHERE address = '"+secondAddress+"' AND allocation = 100") != 1 ||
			a.Count("SELECT COUNT(*) FROM destinations") != 1 ||
			a.Count("SELECT COUNT(*) FROM destination_owners WHERE destination_changed_at > 0") != 1 ||
			a.Count("SELECT COUNT(*) FROM mails WHERE template = 'destination_changed'") != 2 {
			t.Error("the destination was not renewed by the rules of any change")
		}
	})
}

// A link ends after five wrong codes, and after its time; a code after fifteen minutes.
func TestALinkToADestinationEnds(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		a := newAsked(t, d)
		link, v := a.ask(), webtest.NewVisitor(t, a.URL)
		a.enter(v, link, firstAddress)
		late := a.code()
		clock.Advance(16 * time.Minute)
		form := v.Get(link + "/code")
		if got := v.Submit(form, link+"/code", "code", late); got.Status != 422 {
			t.Errorf("an expired code: %d", got.Status)
		}
		a.enter(v, link, firstAddress)
		for range 4 {
			v.Submit(form, link+"/code", "code", "wrong")
		}
		if got := v.Submit(form, link+"/code", "code", a.code()); got.Status != 429 {
			t.Errorf("the right code after five attempts: %d", got.Status)
		}
		clock.Advance(25 * time.Hour)
		link = a.ask()
		clock.Advance(8 * 24 * time.Hour)
		if got := v.Get(link); got.Status != 404 {
			t.Errorf("an expired link: %d", got.Status)
		}
		if n := a.Count("SELECT COUNT(*) FROM destinations"); n != 0 {
			t.Errorf("%d destinations", n)
		}
	})
}

// A company reminds everyone who cannot be paid, at most once a day.
func TestEveryoneWhoCannotBePaidIsReminded(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		a := newAsked(t, d)
		owner := a.SignIn(identity.RoleOwner)
		owner.Submit(owner.Get("/invitations"), "/invitations", "email", "new@example.com")
		remind := func(status int) {
			t.Helper()
			a.company = a.SignIn(identity.RoleOwner)
			page := a.company.Get("/recipients/unpayable")
			if !page.Contains("Joan Clarke") || !page.Contains("new@example.com") {
				t.Errorf("%s", page.Text)
			}
			if got := a.company.Submit(page, "/recipients/unpayable"); got.Status != status {
				t.Fatalf("%d\n%s", got.Status, got.Text)
			}
		}
		mails := func(links, invitations int64) {
			t.Helper()
			l, i := a.Count("SELECT COUNT(*) FROM mails WHERE template = 'destination_link'"),
				a.Count("SELECT COUNT(*) FROM mails WHERE template = 'invitation'")
			if l != links || i != invitations {
				t.Errorf("%d links and %d invitations, want %d and %d", l, i, links, invitations)
			}
		}
		remind(303)
		remind(409)
		mails(1, 1)
		clock.Advance(25 * time.Hour)
		remind(303)
		remind(409)
		mails(2, 2)
	})
}

func TestARequestForADestinationInABrowser(t *testing.T) {
	a := newAsked(t, pagetest.SQLite(t))
	link := a.ask()
	b := webtest.Start(t)
	p := b.Open(a.URL+link, webtest.Look{Width: 390, NoScript: true})
	p.Send("main a.btn")
	p.Send("main a.choice")
	if p.Path() != link+"/destinations/new" {
		t.Errorf("at %s", p.Path())
	}
	for _, width := range []int{390, 1440} {
		b.Open(a.URL+link, webtest.Look{Width: width}).Audit()
		b.Open(a.URL+link+"/destinations/new?symbol=BTC", webtest.Look{Width: width, Dark: true}).Audit()
	}
}

// A fixed amount that is no number is shown at its field, which is open then.
func TestAProblemOfAFixedAmountIsShownAtItsField(t *testing.T) {
	a := newAsked(t, pagetest.SQLite(t))
	page := "/recipients/" + a.id
	owner := a.SignIn(identity.RoleOwner)
	for _, address := range []string{firstAddress, secondAddress} {
		form := page + "/destinations/new"
		if got := owner.Submit(owner.Get(form+"?symbol=BTC"), form, "d.address", address); got.Location() != page {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
	}
	shown := owner.Get(page)
	field := regexp.MustCompile(`f\.dst_\w+`).FindAllString(shown.Text, -1)
	got := owner.Submit(shown, page+"/allocations", field[len(field)-1], "1x")
	if got.Status != 422 || !strings.Contains(got.Text, `id="`+field[len(field)-1]+`-problem"`) ||
		!strings.Contains(got.Text, `value="1x"`) || !strings.Contains(got.Text, `<details class="more" open>`) {
		t.Errorf("%d, no problem at %s\n%s", got.Status, field[len(field)-1], got.Text)
	}
}
