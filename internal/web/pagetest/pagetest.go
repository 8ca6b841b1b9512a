// Package pagetest serves the pages for tests, with companies and users that tests can sign in.
package pagetest

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	netmail "net/mail"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/sso"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice/checkout"
	"github.com/stipend/stipend/internal/invoice/vendorbill"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/paymentlink"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/payroll/schedule"
	"github.com/stipend/stipend/internal/proposal"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/treasury"
	"github.com/stipend/stipend/internal/web"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/webtest"
	"github.com/stipend/stipend/internal/webhook/delivery"
	"github.com/stipend/stipend/internal/withdrawal"
)

// Site is a running server with the pages.
type Site struct {
	*testing.T
	URL         string
	Logs        strings.Builder // read only after close
	Close       func()
	Server      *ui.Server
	OwnURL      bool         // BaseURL is set, to localhost
	ClockOffset atomic.Int64 // offset of the clock in nanoseconds
}

// Now returns the time of Deps.Now.
func (h *Site) Now() time.Time { return time.Now().Add(time.Duration(h.ClockOffset.Load())) }

// Open serves the pages and the extra routes.
func Open(t *testing.T, d *db.DB, env identity.Environment, extra ...ui.Route) *Site {
	t.Helper()
	return OpenWithKYC(t, d, env, nil, extra...)
}

// OpenWithKYC is Open with verification pages.
func OpenWithKYC(t *testing.T, d *db.DB, env identity.Environment, verify *kyc.Service,
	extra ...ui.Route) *Site {
	t.Helper()
	return OpenSite(t, &Site{T: t}, ui.Deps{DB: d, Env: env, KYC: verify}, extra...)
}

// OpenSite serves the pages with the given dependencies and defaults for the others.
func OpenSite(t *testing.T, h *Site, deps ui.Deps, extra ...ui.Route) *Site {
	t.Helper()
	sealer, err := identity.NewSealer(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	deps.Sealer, deps.Webhooks, deps.Now, deps.Log = sealer, delivery.Setup{Sealer: sealer}, h.Now,
		slog.New(slog.NewTextHandler(&h.Logs, nil))
	if deps.Backoffice, err = backoffice.New(backoffice.Deps{
		Sealer: sealer, Payroll: &payroll.Service{}, ReleaseLimit: approval.NewReleaseLimit(money.Amount{}),
		Screen: allow.Address,
	}); err != nil {
		t.Fatal(err)
	}
	if deps.Withdrawals, err = withdrawal.New(withdrawal.Config{
		Setup:           destination.Setup{Sealer: sealer, BitcoinNetwork: "regtest", Chain: "regtest"},
		AllowUnverified: true,
	}, withdrawal.Guards{TravelRule: allow.Records[payout.Output],
		Screen:          allow.Subjects[destination.ScreeningSubject],
		ReleaseApproved: allow.Release}); err != nil {
		t.Fatal(err)
	}
	if deps.Debits, err = directdebit.New(directdebit.Config{
		Accounts: bank.SandboxAccounts(), AllowUnverified: true,
		Setup: destination.Setup{Sealer: sealer, BitcoinNetwork: "regtest", Chain: "regtest"},
		Payer: func(context.Context, *db.Tx, string) (payout.Details, error) { return payout.Details{}, nil },
	}, directdebit.Guards{
		Stated: func(context.Context, *db.Tx, bank.Account) (string, error) { return "", nil },
		Owns: func(context.Context, *db.Tx, directdebit.Mandate) (bool, error) {
			return true, nil
		}}); err != nil {
		t.Fatal(err)
	}
	if deps.SSO, err = sso.New(sso.Service{
		Client: &sso.Client{HTTP: &http.Client{}, Now: h.Now}, Sealer: sealer, Reserved: true,
		CheckIssuer: func(string) error { return nil },
		LookupTXT:   func(context.Context, string) ([]string, error) { return nil, nil },
	}); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(nil)
	address := "http://" + s.Listener.Addr().String()
	if h.OwnURL {
		_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
		address = "http://localhost:" + port
		deps.BaseURL = address
	}
	h.Server = ui.New(deps, append(web.Routes(), extra...))
	s.Config.Handler = h.Server
	s.Start()
	t.Cleanup(s.Close)
	h.URL, h.Close = address, s.Close
	return h
}

// SQLite returns an empty SQLite database.
func SQLite(t *testing.T) *db.DB {
	t.Helper()
	return dbtest.Open(t, db.Options{URL: dbtest.SQLite(t)})
}

// Response is the response to a request.
type Response struct {
	Status int
	Header http.Header
	Text   string
}

// Do sends a request as a browser does and does not follow redirects. Headers are pairs of name and value.
func (h *Site) Do(method, path, form string, headers ...string) Response {
	h.Helper()
	r, err := http.NewRequestWithContext(h.Context(), method, h.URL+path, strings.NewReader(form))
	if err != nil {
		h.Fatal(err)
	}
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	got, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		h.Fatal(err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		h.Fatal(err)
	}
	return Response{got.StatusCode, got.Header, string(body)}
}

// Password is the password of every user of a fixture.
const Password = "correct horse battery"

// Fixture is a site with two companies and one user for each role, all with the same password.
type Fixture struct {
	*Site
	DB      *db.DB
	Company identity.Company
	Other   identity.Company
	Users   map[string]identity.User // by role
}

// NewFixture returns a fixture with seeded companies, which need no second factor; see RequireFactor.
func NewFixture(t *testing.T, d *db.DB, roles ...string) *Fixture {
	t.Helper()
	x := &Fixture{Site: &Site{T: t}, DB: d}
	sealer, err := identity.NewSealer(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	x.Write(func(ctx context.Context, tx *db.Tx) (err error) {
		x.Users = map[string]identity.User{}
		hash := testkit.PasswordHash(t, Password)
		if x.Company, err = identity.CreateCompany(ctx, tx,
			identity.NewCompany{Name: "Acme", Email: "office@acme.example", Country: "US"}); err != nil {
			return err
		}
		if x.Other, err = identity.CreateCompany(ctx, tx,
			identity.NewCompany{Name: "Zenith", Email: "office@zenith.example", Country: "US"}); err != nil {
			return err
		}
		for _, role := range roles {
			if x.Users[role], err = identity.CreateUser(ctx, tx, sealer,
				identity.NewUser{PasswordHash: hash, Profile: identity.Profile{
					Email: role + "@acme.example", FirstName: "Ada", LastName: "Lovelace"}}); err != nil {
				return err
			}
			if err = x.AddMember(ctx, tx, x.Company, role, role); err != nil {
				return err
			}
		}
		return nil
	})
	payrolls := PayrollService(t, d)
	schedules, err := schedule.New(payrolls)
	if err != nil {
		t.Fatal(err)
	}
	claims := &claim.Service{Config: claim.Config{Network: "regtest"}}
	proposals, err := proposal.New(payrolls, claims, sealer)
	testkit.Check(t, err)
	links, err := paymentlink.New(claims, "")
	testkit.Check(t, err)
	invoices, err := checkout.New(claims)
	testkit.Check(t, err)
	OpenSite(t, x.Site, ui.Deps{
		DB: d, Env: identity.Sandbox, SeededCompanies: []string{x.Company.ID, x.Other.ID}, Payroll: payrolls,
		Schedules: schedules,
		KYC:       &kyc.Service{Sealer: sealer, Images: kyc.NewImageDecoder(1, 1), Provider: kyc.Sandbox{}},
		Claims:    claims, Links: links, Proposals: proposals, Invoices: invoices,
		Vendor: &vendorbill.Service{Payroll: payrolls, Sealer: sealer},
	})
	return x
}

// PayrollService returns a payroll.Service whose guards allow everything.
func PayrollService(t *testing.T, d *db.DB) *payroll.Service {
	t.Helper()
	funds, err := treasury.New(treasury.Unlimited)
	if err != nil {
		t.Fatal(err)
	}
	s, err := payroll.New(payroll.Config{
		Pool: chain.NewPool(d, "regtest", nil), ChainName: "regtest", Network: "regtest", QuoteValidity: 30 * time.Minute,
		Treasury: funds, AllowUnverified: true, Sealer: &identity.Sealer{},
	}, payroll.Guards{TravelRule: allow.Records[payout.Output],
		CheckWatched: allow.Network, Screen: allow.Subjects[destination.ScreeningSubject],
		ReleasePlanned: allow.Release, ReleaseApproved: allow.Release, PayeesApproved: allow.Payees})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// RequireFactor reopens the site without seeded companies, so that users need a second factor.
func (x *Fixture) RequireFactor() *Fixture {
	x.Helper()
	OpenSite(x.T, x.Site, ui.Deps{DB: x.DB, Env: identity.Sandbox})
	return x
}

// AddMember makes a user of the fixture a member of a company.
func (x *Fixture) AddMember(ctx context.Context, tx *db.Tx, c identity.Company, who, role string) error {
	return identity.AddMember(ctx, tx, identity.Member{CompanyID: c.ID, UserID: x.Users[who].ID, Role: role})
}

func (x *Fixture) Write(fn func(ctx context.Context, tx *db.Tx) error) {
	x.Helper()
	if err := x.DB.Write(x.Context(), fn); err != nil {
		x.Fatal(err)
	}
}

// SignIn returns a visitor who is signed in as the user of a role.
func (x *Fixture) SignIn(role string) *webtest.Visitor {
	x.Helper()
	v := webtest.NewVisitor(x, x.URL)
	if got := v.Submit(v.Get("/sign-in"), "/sign-in", "email", role+"@acme.example", "password",
		Password); got.Status != 303 || got.Location() != "/overview" && got.Location() != ui.PayPath {
		x.Fatalf("sign in: %d to %q\n%s", got.Status, got.Location(), got.Text)
	}
	return v
}

// SignedIn reports whether a visitor is signed in.
func SignedIn(v *webtest.Visitor) bool { return v.Get("/account").Status == 200 }

// Count returns the result of a query that counts rows.
func (x *Fixture) Count(query string, args ...any) (n int64) {
	x.Helper()
	x.Write(func(ctx context.Context, tx *db.Tx) error { return tx.QueryRow(ctx, query, args...).Scan(&n) })
	return n
}

// MailsTo runs the waiting jobs and returns the mails to an address, newest first.
func (x *Fixture) MailsTo(address string) []mail.StoredMail {
	x.Helper()
	mailer := &mail.Mailer{From: &netmail.Address{Address: "stipend@pay.example"}, BaseURL: x.URL, Sandbox: true,
		Sealer: x.Server.Sealer}
	runner := job.NewRunner(x.DB, job.Table{auth.JobLink: {Tx: auth.HandleLink(x.Server.Sealer)},
		mail.JobSend: {Net: mailer.Send}}, nil, slog.New(slog.DiscardHandler))
	if err := runner.Drain(x.Context()); err != nil {
		x.Fatal(err)
	}
	companies := []string{""}
	if err := x.DB.Read(x.Context(), func(ctx context.Context, tx *db.Tx) error {
		rows, err := tx.Query(ctx, "SELECT company_id FROM companies ORDER BY company_id")
		found, err := db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
		companies = append(companies, found...)
		return err
	}); err != nil {
		x.Fatal(err)
	}
	var mine []mail.StoredMail
	for _, company := range companies {
		var all []mail.StoredMail
		if err := x.DB.Read(x.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
			all, _, err = mail.List(ctx, tx, company, db.Page{PerPage: 100})
			return err
		}); err != nil {
			x.Fatal(err)
		}
		for _, m := range all {
			if m.To == address {
				mine = append(mine, m)
			}
		}
	}
	return mine
}

// CheckCompanyMails fails unless the address received a mail for each change to the company, or none if changes is
// empty.
func (x *Fixture) CheckCompanyMails(address string, changes ...string) {
	x.Helper()
	var texts []string
	for _, m := range x.MailsTo(address) {
		if m.Template == mail.CompanyChanged {
			texts = append(texts, m.Text)
		}
	}
	for _, want := range changes {
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, want) }) {
			x.Errorf("%s got no mail with %q, but %q", address, want, texts)
		}
	}
	if len(changes) == 0 && len(texts) > 0 {
		x.Errorf("%s got mails: %q", address, texts)
	}
}

// MailedLink returns the path of the link in the newest mail to an address.
func (x *Fixture) MailedLink(address, template string) string {
	x.Helper()
	got := slices.DeleteFunc(x.MailsTo(address), func(m mail.StoredMail) bool { return m.Template != template })
	if len(got) == 0 {
		x.Fatalf("no mail %s to %s", template, address)
	}
	link := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(x.URL) + `(/\S+)$`).FindStringSubmatch(got[0].Text)
	if link == nil {
		x.Fatalf("no link in\n%s", got[0].Text)
	}
	return link[1]
}

// Reopen serves the site at its own base URL on localhost.
func (x *Fixture) Reopen() *Fixture {
	x.Helper()
	x.OwnURL = true
	OpenSite(x.T, x.Site, ui.Deps{DB: x.DB, Env: identity.Sandbox, Contract: identity.NewCompany{FeeBps: 100}})
	return x
}

// Find returns the first group of a pattern in a page.
func Find(t *testing.T, got webtest.Visit, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(got.Text)
	if got.Status != 200 || m == nil {
		t.Fatalf("%d, no %s in\n%s", got.Status, pattern, got.Text)
	}
	return m[1]
}

// TokenText matches the API key that a page shows once.
const TokenText = `<code>(stp_sandbox_key_\w+)</code>`

// Authenticates reports whether a credential is valid.
func (x *Fixture) Authenticates(scheme, credential string) bool {
	err := x.DB.Read(x.Context(), func(ctx context.Context, tx *db.Tx) error {
		_, err := identity.Authenticate(ctx, tx, scheme, credential, identity.Sandbox)
		return err
	})
	return err == nil
}

// Authenticator is a user's authenticator app.
type Authenticator struct {
	x   *Fixture
	Key string
}

// NewAuthenticator returns an authenticator with the given key.
func NewAuthenticator(x *Fixture, key string) Authenticator { return Authenticator{x, key} }

// Code advances the clock by 30 seconds and returns the new code.
func (a Authenticator) Code() string {
	a.x.Helper()
	a.x.ClockOffset.Add(int64(30 * time.Second))
	return a.current()
}

func (a Authenticator) current() string {
	a.x.Helper()
	code, err := totp.GenerateCode(a.Key, a.x.Now())
	if err != nil {
		a.x.Fatal(err)
	}
	return code
}

// RecoveryCode matches a recovery code on a page.
var RecoveryCode = regexp.MustCompile(`<code>(\w{4}(?:-\w{4}){5})</code>`)

// Enroll sets up an authenticator, and returns it with the recovery codes.
func (x *Fixture) Enroll(v *webtest.Visitor, next string) (Authenticator, []string) {
	x.Helper()
	page := v.Get("/account/factor?" + url.Values{"next": {next}}.Encode())
	page = v.Follow(v.Submit(page, "/account/factor/begin"))
	a := Authenticator{x, Find(x.T, page, `<code>([A-Z2-7]{32})</code>`)}
	if again := v.Get("/account/factor"); Find(x.T, again, `<code>([A-Z2-7]{32})</code>`) != a.Key ||
		!strings.Contains(page.Text, `src="data:image/png;base64,`) {
		x.Errorf("the key changes, or has no QR code:\n%s", page.Text)
	}
	if got := v.Submit(page, "/account/factor/confirm", "code", "000000"); got.Status != 422 ||
		!strings.Contains(got.Text, "code-problem") || !strings.Contains(got.Text, a.Key) {
		x.Errorf("a wrong first code: %d\n%s", got.Status, got.Text)
	}
	done := v.Submit(page, "/account/factor/confirm", "code", a.Code())
	var codes []string
	for _, m := range RecoveryCode.FindAllStringSubmatch(done.Text, -1) {
		codes = append(codes, m[1])
	}
	if done.Status != 200 || len(codes) != 10 || !strings.Contains(done.Text, `href="`+next+`"`) {
		x.Fatalf("%d, %d codes, no link to %s:\n%s", done.Status, len(codes), next, done.Text)
	}
	return a, codes
}

// EnterPassword is the first step of a sign-in with two steps.
func (x *Fixture) EnterPassword(role string) (*webtest.Visitor, webtest.Visit) {
	x.Helper()
	v := webtest.NewVisitor(x, x.URL)
	got := v.Submit(v.Get("/sign-in?next=/settings/api"), "/sign-in", "email", role+"@acme.example", "password", Password)
	if got.Status != 303 || got.Location() != "/sign-in/code?next=%2Fsettings%2Fapi" {
		x.Fatalf("%d to %q", got.Status, got.Location())
	}
	return v, v.Follow(got)
}

// CreateApp creates an app of the other company.
func (x *Fixture) CreateApp(redirectURI string, scopes ...identity.Scope) (app identity.App, secret string) {
	x.Helper()
	x.Write(func(ctx context.Context, tx *db.Tx) (err error) {
		app, secret, err = identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{
			CompanyID: x.Other.ID, Name: "Books <b>", RedirectURI: redirectURI, Scopes: identity.NewScopes(scopes...),
		})
		return err
	})
	return app, secret
}

// AppRedirect returns the query of a redirect to the app.
func (x *Fixture) AppRedirect(got webtest.Visit) url.Values {
	x.Helper()
	u, err := url.Parse(got.Location())
	if err != nil || got.Status != 303 || u.Scheme+"://"+u.Host+u.Path != "https://app.example.com/back" ||
		u.Query().Get("from") != "stipend" || u.Query().Get("state") != "s&t" || !u.Query().Has("iss") {
		x.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
	}
	return u.Query()
}

// SignInStaff creates an administrator of the staff and signs them in.
func (x *Fixture) SignInStaff(name string) *webtest.Visitor {
	x.Helper()
	return x.SignInStaffAs(name, backoffice.Admin)
}

// SignInStaffAs creates a staff member with a role and signs them in.
func (x *Fixture) SignInStaffAs(name string, role backoffice.Role) *webtest.Visitor {
	x.Helper()
	var made backoffice.Credentials
	email := strings.ToLower(name) + "@staff.example"
	x.Write(func(ctx context.Context, tx *db.Tx) (err error) {
		_, made, err = backoffice.Add(ctx, tx, x.Server.Sealer, name, email, role)
		return err
	})
	code, err := totp.GenerateCode(made.Secret, x.Now())
	if err != nil {
		x.Fatal(err)
	}
	v := webtest.NewVisitor(x, x.URL)
	if got := v.Submit(v.Get("/operations/sign-in"), "/operations/sign-in", "email", email, "password", made.Password,
		"code", code); got.Location() != "/operations" {
		x.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
	}
	return v
}

// SetStaffRole changes the role of a staff member of SignInStaffAs.
func (x *Fixture) SetStaffRole(name string, role backoffice.Role) {
	x.Helper()
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		return backoffice.SetRole(ctx, tx, strings.ToLower(name)+"@staff.example", role)
	})
}

// Inviter is a company that invites people.
type Inviter struct {
	T  *testing.T
	DB *db.DB
	By identity.Principal
	s  *identity.Sealer
}

// NewInviter returns a company that invites workers.
func NewInviter(t *testing.T, d *db.DB) Inviter {
	t.Helper()
	sealer, err := identity.NewSealer(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	x := Inviter{T: t, DB: d, s: sealer}
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{
			Name: "Acme <i>& Co</i>", Email: "office@acme.example", Country: "US"})
		x.By = identity.Principal{Kind: identity.KindAPIKey, ID: "key_1", CompanyID: c.ID, Scopes: identity.AllScopes()}
		return err
	})
	return x
}

func (x Inviter) Write(fn func(ctx context.Context, tx *db.Tx) error) {
	x.T.Helper()
	if err := x.DB.Write(x.T.Context(), fn); err != nil {
		x.T.Fatal(err)
	}
}

// Invite sends an invitation and returns the path of its link.
func (x Inviter) Invite(email string) (path string) {
	x.T.Helper()
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		v, err := payee.Invite(ctx, tx, x.s, x.By, payee.InviteParams{Email: email})
		if err != nil {
			return err
		}
		var id, sealed string
		var letter mail.InvitationData
		if err := tx.QueryRow(ctx, "SELECT mail_id, data FROM mails WHERE mail_key LIKE $1", v.ID+"/%").Scan(
			&id, &sealed); err != nil {
			return err
		}
		data, err := x.s.Open(identity.SealContext{Table: "mails", Column: "data", Row: id}, sealed)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, &letter); err != nil {
			return err
		}
		path = "/invitation/" + letter.Token
		return nil
	})
	return path
}

// State returns the newest invitation of an address.
func (x Inviter) State(email string) (v payee.Invitation) {
	x.T.Helper()
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		found, err := payee.Invitations(ctx, tx, x.By,
			payee.InvitationsParams{Email: email, Page: db.Page{Number: 1, PerPage: 20}})
		if err == nil && len(found.Items) == 1 {
			v = found.Items[0]
		}
		return err
	})
	return v
}

// Count returns the result of a query that counts rows.
func (x Inviter) Count(query string) (n int64) {
	x.T.Helper()
	x.Write(func(ctx context.Context, tx *db.Tx) error { return tx.QueryRow(ctx, query).Scan(&n) })
	return n
}
