package identity_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/testkit"
)

func sealer(t *testing.T) *identity.Sealer {
	t.Helper()
	s, err := identity.NewSealer([]byte(strings.Repeat("k", 32)))
	testkit.Check(t, err)
	return s
}

func authenticate(t *testing.T, d *db.DB, scheme, credential, env string) (p identity.Principal, err error) {
	t.Helper()
	err = d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		p, err = identity.Authenticate(ctx, tx, scheme, credential, env)
		return err
	})
	return p, err
}

// flip returns a token with one changed character in its random part.
func flip(token string) string {
	b := []byte(token)
	i := len(b) - 10
	if b[i] == '0' {
		b[i] = '1'
	} else {
		b[i] = '0'
	}
	return string(b)
}

func TestAPIKeys(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		var company identity.Company
		var keyID, key, expiring string
		scopes := identity.NewScopes(identity.CompanyWorkersPay, identity.CompanyWorkerList)
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
			company, err = identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Acme", Country: "US", FeeBps: 100})
			if err != nil {
				return err
			}
			app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox,
				identity.NewApp{CompanyID: company.ID, Name: "Payroll", Scopes: scopes})
			if err != nil {
				return err
			}
			n := identity.NewAPIKey{CompanyID: company.ID, AppID: app.ID}
			if keyID, key, err = identity.CreateAPIKey(ctx, tx, identity.Sandbox, n); err != nil {
				return err
			}
			n.Expires = tx.Now().Add(time.Hour)
			_, expiring, err = identity.CreateAPIKey(ctx, tx, identity.Sandbox, n)
			return err
		})
		if !strings.HasPrefix(key, "stp_sandbox_key_") || len(key) != len("stp_sandbox_key_")+52 {
			t.Fatalf("the key's form: %d characters", len(key))
		}

		for _, c := range []struct {
			name, scheme, credential, env string
			ok                            bool
		}{
			{"raw", "Basic", key, identity.Sandbox, true},
			{"scheme in any case", "bAsIc", key, identity.Sandbox, true},
			{"base64 with colon", "Basic", base64.StdEncoding.EncodeToString([]byte(key + ":")), identity.Sandbox, true},
			{"base64 without colon", "Basic", base64.StdEncoding.EncodeToString([]byte(key)), identity.Sandbox, false},
			{"base64 with a password", "Basic", base64.StdEncoding.EncodeToString([]byte(key + ":x")), identity.Sandbox, false},
			{"key as bearer", "Bearer", key, identity.Sandbox, false},
			{"other environment", "Basic", key, identity.Production, false},
			{"renamed environment", "Basic", strings.Replace(key, "sandbox", "production", 1), identity.Production, false},
			{"one character off", "Basic", flip(key), identity.Sandbox, false},
			{"empty", "Basic", "", identity.Sandbox, false},
			{"no scheme", "", key, identity.Sandbox, false},
			{"not yet expired", "Basic", expiring, identity.Sandbox, true},
		} {
			p, err := authenticate(t, d, c.scheme, c.credential, c.env)
			if c.ok != (err == nil) || !c.ok && !errors.Is(err, identity.ErrInvalidToken) {
				t.Errorf("%s: %v", c.name, err)
			}
			if c.ok && (p.CompanyID != company.ID || p.UserID != "" || p.Kind != identity.KindAPIKey || p.Scopes != scopes) {
				t.Errorf("%s: %+v", c.name, p)
			}
		}

		p, _ := authenticate(t, d, "Basic", key, identity.Sandbox)
		if !p.Has(identity.CompanyWorkersPay) || p.Has(identity.UserCreate) {
			t.Errorf("the key has the scopes %s", p.Scopes)
		}
		if id, err := p.Company(""); id != company.ID || err != nil {
			t.Errorf("own company: %q %v", id, err)
		}
		if _, err := p.Company("com_other"); !errors.Is(err, apierr.NotFoundErr) {
			t.Errorf("another company: %v", err)
		}

		clock.Advance(2 * time.Hour)
		if _, err := authenticate(t, d, "Basic", expiring, identity.Sandbox); !errors.Is(err, identity.ErrInvalidToken) {
			t.Errorf("expired: %v", err)
		}
		if !p.NeedsTouch(clock.Now()) {
			t.Error("NeedsTouch is false for a key that was never used")
		}
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error { return identity.Touch(ctx, tx, p) })
		if p, _ = authenticate(t, d, "Basic", key, identity.Sandbox); p.NeedsTouch(clock.Now()) || p.LastUsed.IsZero() {
			t.Errorf("after a touch: %v", p.LastUsed)
		}
		if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			return identity.RevokeAPIKey(ctx, tx, "com_other", keyID)
		}); !errors.Is(err, apierr.NotFoundErr) {
			t.Errorf("revoking another company's key: %v", err)
		}
		for range 2 {
			dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
				return identity.RevokeAPIKey(ctx, tx, company.ID, keyID)
			})
		}
		if _, err := authenticate(t, d, "Basic", key, identity.Sandbox); !errors.Is(err, identity.ErrInvalidToken) {
			t.Errorf("revoked: %v", err)
		}
		stored := ""
		_ = d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			return tx.QueryRow(ctx, "SELECT digest || hint || key_id FROM api_keys WHERE company_id = $1 AND key_id = $2",
				company.ID, keyID).Scan(&stored)
		})
		if stored == "" || strings.Contains(stored, key[20:50]) {
			t.Error("the key itself is stored")
		}
	})
}

func TestAccessTokens(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		var token, secret string
		var app identity.App
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Acme", Country: "US"})
			if err != nil {
				return err
			}
			app, secret, err = identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{CompanyID: c.ID, Name: "App",
				RedirectURI: "https://app.example/cb", Scopes: identity.NewScopes(identity.UserDetail)})
			if err != nil {
				return err
			}
			u, err := identity.CreateUser(ctx, tx, sealer(t),
				identity.NewUser{Profile: identity.Profile{Email: "ada@example.com"}})
			if err != nil {
				return err
			}
			err = identity.AddMember(ctx, tx,
				identity.Member{CompanyID: c.ID, UserID: u.ID, Role: identity.RoleDeveloper})
			if err != nil {
				return err
			}
			_, token, err = identity.CreateAccessToken(ctx, tx, identity.Sandbox, identity.NewAccessToken{
				CompanyID: c.ID, AppID: app.ID, UserID: u.ID, Scopes: identity.NewScopes(identity.UserDetail, identity.UserCreate)})
			return err
		})
		p, err := authenticate(t, d, "Bearer", token, identity.Sandbox)
		if err != nil || p.Kind != identity.KindOAuth || p.UserID == "" ||
			p.Scopes != identity.NewScopes(identity.UserDetail) {
			t.Fatalf("%+v %v", p, err)
		}
		if _, err := authenticate(t, d, "Basic", token, identity.Sandbox); !errors.Is(err, identity.ErrInvalidToken) {
			t.Errorf("token as Basic: %v", err)
		}
		clock.Advance(89 * 24 * time.Hour)
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error { return identity.Touch(ctx, tx, p) })
		clock.Advance(89 * 24 * time.Hour)
		if _, err := authenticate(t, d, "Bearer", token, identity.Sandbox); err != nil {
			t.Errorf("used within 90 days: %v", err)
		}
		clock.Advance(2 * 24 * time.Hour)
		if _, err := authenticate(t, d, "Bearer", token, identity.Sandbox); !errors.Is(err, identity.ErrInvalidToken) {
			t.Errorf("idle for 91 days: %v", err)
		}
		_ = d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			found, err := identity.AppByClientID(ctx, tx, app.ClientID)
			if err != nil || !found.CheckSecret(secret) || found.CheckSecret(secret+"x") ||
				found.RedirectURI != "https://app.example/cb" {
				t.Errorf("app by client ID: %+v %v", found, err)
			}
			return nil
		})
	})
}

func TestUsers(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		s := sealer(t)
		var u identity.User
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
			u, err = identity.CreateUser(ctx, tx, s, identity.NewUser{Password: "correct horse battery",
				Profile: identity.Profile{
					Email: "Ada@Example.com", FirstName: "Ada", LastName: "Lovelace", Country: "gb", Details: identity.Details{
						DateOfBirth: "1990-12-10", PhoneNumber: "020 7946 0958", PhoneCountry: "GB", StreetAddress: "1 Main St",
						City: "London"}}})
			if err != nil {
				return err
			}
			return identity.AddMember(ctx, tx, identity.Member{CompanyID: "com_1", UserID: u.ID, Role: "admin"})
		})
		err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := identity.CreateUser(ctx, tx, s, identity.NewUser{Profile: identity.Profile{Email: "ADA@example.com"}})
			return err
		})
		if !errors.Is(err, identity.ErrEmailTaken) {
			t.Errorf("second user with the address: %v", err)
		}
		var byMail, byID, unknown identity.User
		var members []identity.Member
		var details string
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
			byMail, _ = identity.UserByEmail(ctx, tx, " ada@EXAMPLE.com ")
			unknown, _ = identity.UserByEmail(ctx, tx, "eve@example.com")
			members, _ = identity.Memberships(ctx, tx, u.ID)
			if err := tx.QueryRow(ctx, "SELECT details FROM users WHERE user_id = $1", u.ID).Scan(&details); err != nil {
				return err
			}
			byID, err = identity.GetUser(ctx, tx, s, u.ID)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if byID.PhoneNumber != "+442079460958" || byID.Country != "GB" || !byID.Complete || len(members) != 1 {
			t.Errorf("%+v %v", byID, members)
		}
		if !strings.HasPrefix(details, "v1.") || strings.Contains(details, "1990") {
			t.Error("the details are not encrypted")
		}
		for _, c := range []struct {
			u        identity.User
			password string
			want     bool
		}{{byMail, "correct horse battery", true}, {byMail, "wrong", false}, {unknown, "no user has this password", false}} {
			if ok, err := c.u.CheckPassword(c.password); ok != c.want || err != nil {
				t.Errorf("CheckPassword(%q) = %v, %v", c.password, ok, err)
			}
		}
	})
}

// Two companies may have users with the same email address; neither company learns of the other user.
func TestCompanyActsOnlyForUsersItCreated(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		s := sealer(t)
		create := func(company, email string) (u identity.User, err error) {
			err = d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
				u, err = identity.CreateUser(ctx, tx, s, identity.NewUser{CompanyID: company, Profile: identity.Profile{
					Email: email, FirstName: "Ada", LastName: "Lovelace", Country: "GB", Details: identity.Details{
						PhoneNumber: "020 7946 0958", PhoneCountry: "GB", DateOfBirth: "1990-12-10", StreetAddress: "1 Main St",
						City: "London", Zip: "w1a1aa"}}})
				return err
			})
			return u, err
		}
		mustCreate := func(company, email string) identity.User {
			t.Helper()
			u, err := create(company, email)
			testkit.Check(t, err)
			return u
		}
		ours, theirs := mustCreate("com_1", "ada@example.com"), mustCreate("com_2", "ADA@example.com")
		free := mustCreate("", "ada@example.com") // a person who signed up without a company
		_, err := create("com_1", "Ada@Example.com")
		if f, _ := apierr.As(err); !errors.Is(err, identity.ErrUserExists) || f.Meta["user_id"] != ours.ID {
			t.Errorf("the same address in one company: %v", err)
		}
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error { // like an accepted invitation
			return identity.AddMember(ctx, tx, identity.Member{CompanyID: "com_1", UserID: free.ID, Role: "worker"})
		})
		key := func(company string) identity.Principal {
			return identity.Principal{Kind: identity.KindAPIKey, CompanyID: company}
		}
		token := identity.Principal{Kind: identity.KindOAuth, CompanyID: "com_1", UserID: free.ID}
		for name, c := range map[string]struct {
			by        identity.Principal
			requested string
			want      string
			err       error
		}{
			"key, own user":                {key("com_1"), ours.ID, ours.ID, nil},
			"key, no user":                 {key("com_1"), "", "", identity.ErrUserRequired},
			"key, another company's user":  {key("com_1"), theirs.ID, "", apierr.NotFoundErr},
			"key, member but not created":  {key("com_1"), free.ID, "", apierr.NotFoundErr},
			"key, unknown user":            {key("com_1"), "usr_x", "", apierr.NotFoundErr},
			"token, no user":               {token, "", free.ID, nil},
			"token, own user":              {token, free.ID, free.ID, nil},
			"token, user of its company":   {token, ours.ID, "", apierr.NotFoundErr},
			"principal without permission": {identity.Principal{}, ours.ID, "", apierr.NotFoundErr},
		} {
			err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				u, err := identity.ActingUser(ctx, tx, c.by, c.requested)
				if err != nil {
					return err
				}
				if u, err = u.Open(s); u.ID != c.want || u.City != "London" || u.KYCStatus != identity.KYCNotStarted {
					t.Errorf("%s: %+v", name, u)
				}
				return err
			})
			if !errors.Is(err, c.err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if ours.CompanyID != "com_1" || free.CompanyID != "" {
			t.Errorf("CompanyID is %q and %q, want com_1 and none", ours.CompanyID, free.CompanyID)
		}
		dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
			u, err := identity.UserByEmail(ctx, tx, "ada@example.com")
			if u.ID != free.ID {
				t.Errorf("signs in as %+v", u)
			}
			unknown, err2 := identity.UserByEmail(ctx, tx, "")
			if unknown.ID != "" {
				t.Errorf("the empty address signs in as %+v", unknown)
			}
			return errors.Join(err, err2)
		})
	})
}

func TestInvalidProfileFieldsAreReported(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for pointer, p := range map[string]identity.Profile{
		"/email":         {Email: "a@b.example\r\nBcc: x@y.example"},
		"/first_name":    {FirstName: "A\nB"},
		"/last_name":     {LastName: "evil\u202egnp.exe"},
		"/country":       {Country: "XX"},
		"/date_of_birth": {Details: identity.Details{DateOfBirth: "2026-05-02"}},
		"/phone_number":  {Details: identity.Details{PhoneNumber: "12"}},
		"/zip":           {Details: identity.Details{Zip: strings.Repeat("1", 21)}},
	} {
		var problems apierr.List
		p.Check(&problems, now)
		if f := problems.Fields(); len(f) != 1 || f[0].Pointer != pointer || f[0].Code != "invalid_parameter" {
			t.Errorf("%s: %+v", pointer, f)
		}
	}
}

func TestRedirectURIs(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		var company identity.Company
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
			company, err = identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Acme", Country: "US",
				Email: "office@acme.example"})
			return err
		})
		for _, c := range []struct {
			uri, env string
			ok       bool
		}{
			{"https://app.example/cb?x=1", identity.Production, true},
			{"http://localhost:3000/cb", identity.Sandbox, true},
			{"http://127.0.0.1/cb", identity.Sandbox, true},
			{"http://localhost:3000/cb", identity.Production, false},
			{"https://localhost/cb", identity.Production, false},
			{"http://app.example/cb", identity.Sandbox, false},
			{"javascript:alert(1)", identity.Sandbox, false},
			{"data:text/html,x", identity.Sandbox, false},
			{"https://*.example/cb", identity.Sandbox, false},
			{"https://app.example/cb#x", identity.Sandbox, false},
			{"https://user@app.example/cb", identity.Sandbox, false},
			{"/cb", identity.Sandbox, false},
			{"https://app.example:8443/cb", identity.Production, true},
			{"https://app.example:99999/cb", identity.Production, false},
			{"https://App.example/cb", identity.Production, false},
			{"https://192.168.1.4/cb", identity.Production, false},
			{"https://[fd00::1]/cb", identity.Production, false},
			{"https://169.254.169.254/cb", identity.Production, false},
		} {
			err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, _, err := identity.CreateApp(ctx, tx, c.env, identity.NewApp{CompanyID: company.ID, Name: "App",
					RedirectURI: c.uri})
				return err
			})
			if c.ok != (err == nil) || !c.ok && !errors.Is(err, identity.ErrRedirectURI) {
				t.Errorf("%s in %s: %v", c.uri, c.env, err)
			}
		}
	})
}

func TestScopes(t *testing.T) {
	all := identity.AllScopes()
	if n := len(all.List()); n != 28 {
		t.Fatalf("%d scopes, the API has 28", n)
	}
	if back, ok := identity.ParseScopes(all.String()); !ok || back != all {
		t.Errorf("ParseScopes(String()) = %s, %v", back, ok)
	}
	if _, ok := identity.ParseScopes("u_user_detail nonsense"); ok {
		t.Error("ParseScopes accepts an unknown scope")
	}
	one := identity.NewScopes(identity.UserDetail)
	if !one.Within(all) || all.Within(one) || one.Has("") || one.Has("nonsense") ||
		identity.Scopes(0).Has(identity.UserDetail) {
		t.Error("Within or Has is wrong")
	}
}

func TestSealer(t *testing.T) {
	old, _ := identity.NewSealer([]byte(strings.Repeat("o", 32)))
	both, _ := identity.NewSealer([]byte(strings.Repeat("n", 32)), []byte(strings.Repeat("o", 32)))
	here := identity.SealContext{Table: "t", Column: "c", Row: "1"}
	sealed, err := old.Seal(here, []byte("secret"))
	testkit.Check(t, err)
	if plain, err := both.Open(here, sealed); err != nil || string(plain) != "secret" {
		t.Errorf("an older key: %q %v", plain, err)
	}
	if again, _ := old.Seal(here, []byte("secret")); again == sealed {
		t.Error("two encryptions of one value are equal")
	}
	otherRow := identity.SealContext{Table: "t", Column: "c", Row: "2"}
	if _, err := both.Open(otherRow, sealed); !errors.Is(err, identity.ErrSealed) {
		t.Errorf("in another row: %v", err)
	}
	fresh, _ := both.Seal(here, []byte("secret"))
	var none *identity.Sealer
	for name, open := range map[string]func() ([]byte, error){
		"without the key": func() ([]byte, error) { return old.Open(here, fresh) },
		"nil":             func() ([]byte, error) { return none.Open(here, sealed) },
		"changed":         func() ([]byte, error) { return old.Open(here, sealed[:len(sealed)-4]+"AAAA") },
		"empty":           func() ([]byte, error) { return old.Open(here, "") },
	} {
		if _, err := open(); !errors.Is(err, identity.ErrSealed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := none.Seal(here, nil); err == nil {
		t.Error("a nil sealer encrypts")
	}
	if _, err := identity.NewSealer([]byte("short")); err == nil {
		t.Error("NewSealer accepts a short key")
	}
}

// A person born on February 29 turns 16 on March 1 of a year that is not a leap year.
func TestMinimumAge(t *testing.T) {
	for _, c := range []struct {
		born, today string
		ok          bool
	}{
		{"2010-05-01", "2026-05-01", true}, {"2010-05-02", "2026-05-01", false},
		{"2008-02-29", "2024-02-29", true}, {"2008-02-29", "2024-02-28", false},
		{"1996-02-29", "2012-02-29", true}, {"1991-02-29", "2026-05-01", false}, {"1900-02-29", "2026-05-01", false},
		{"2000-02-29", "2026-05-01", true}, {"1899-12-31", "2026-05-01", false}, {"1990-1-1", "2026-05-01", false},
		{"1990-12-10T00:00:00Z", "2026-05-01", false},
	} {
		now, err := time.Parse(time.DateOnly, c.today)
		testkit.Check(t, err)
		var problems apierr.List
		identity.Profile{Details: identity.Details{DateOfBirth: c.born}}.Check(&problems, now)
		if problems.Empty() != c.ok {
			t.Errorf("born %s, today %s: %+v", c.born, c.today, problems.Fields())
		}
	}
}

func TestAddressesAreNormalised(t *testing.T) {
	for _, c := range []struct{ country, state, zip, wantState, wantZip string }{
		{"US", "california", "94105", "CA", "94105"}, {"US", "US-CA", "941051234", "CA", "94105-1234"},
		{"US", "ca", " 94105 - 1234", "CA", "94105-1234"},
		{"US", "Ontario", "9410", "!", "!"}, {"CA", "quebec", "h3z 2y7", "QC", "H3Z 2Y7"}, {"CA", "QC", "D3Z2Y7", "QC", "!"},
		{"BR", "são paulo", "01310100", "SP", "01310-100"}, {"BR", "SAO PAULO", "0131010", "SP", "!"},
		{"AU", "New South Wales", "2000", "NSW", "2000"},
		{"MX", "Ciudad de Mexico", "06000", "CMX", "06000"}, {"MX", "DIF", "0600", "CMX", "!"},
		{"IN", "orissa", "751001", "!", "751001"}, {"IN", "OR", "751 001", "OD", "751001"},
		{"GB", "Greater London", "ec1a1bb", "Greater London", "EC1A 1BB"}, {"GB", "", "m1 1ae", "", "M1 1AE"},
		{"GB", "", "E1 1", "", "!"},
		{"IE", "Dublin", "d02x285", "Dublin", "D02 X285"}, {"NL", "", "1012js", "", "1012 JS"},
		{"PL", "", "00950", "", "00-950"}, {"PT", "", "1000-001", "", "1000-001"},
		{"JP", "Tokyo", "1000001", "Tokyo", "100-0001"}, {"SE", "", "11455", "", "114 55"}, {"DE", "", "10115", "", "10115"},
		{"DE", "", "1011", "", "!"},
		{"AE", "Dubai", "", "Dubai", ""}, {"AE", "Dubai", "00000", "Dubai", "00000"}, {"US", "", "", "!", "!"},
		{"DE", "", "", "", "!"}, {"TV", "x\u202e", "a;b", "!", "!"},
	} {
		var problems apierr.List
		state := identity.State(&problems, "/state", c.state, c.country, true)
		if bad := !problems.Empty(); bad != (c.wantState == "!") || !bad && state != c.wantState {
			t.Errorf("%s state %q: %q %+v", c.country, c.state, state, problems.Fields())
		}
		problems = apierr.List{}
		zip := identity.PostalCode(&problems, "/zip", c.zip, c.country, true)
		if bad := !problems.Empty(); bad != (c.wantZip == "!") || !bad && zip != c.wantZip {
			t.Errorf("%s postal code %q: %q %+v", c.country, c.zip, zip, problems.Fields())
		}
	}
}

func TestEmailAndPhone(t *testing.T) {
	for text, want := range map[string]string{
		"Ada@EXAMPLE.com": "Ada@example.com", " ada@example.com ": "ada@example.com",
		"ada+pay@mail.example.co.uk": "ada+pay@mail.example.co.uk", "ada@bücher.example": "ada@bücher.example",
		"ada@localhost": "", "ada": "", "@example.com": "", "ada@example..com": "", "ada@-example.com": "",
		"ada@example.com.": "", "ada@[127.0.0.1]": "", `"a b"@example.com`: "",
		"ada@example.com\r\nBcc: eve@example.com": "", "ada\u200b@example.com": "",
		strings.Repeat("a", 65) + "@example.com": "", "ada@" + strings.Repeat("a.", 130) + "com": "",
	} {
		var problems apierr.List
		if got := identity.Email(&problems, "/email", text, false); got != want || problems.Empty() != (want != "") {
			t.Errorf("%q: %q %+v", text, got, problems.Fields())
		}
	}
	for _, c := range []struct{ number, country, want string }{
		{"(415) 555-2671", "US", "+14155552671"}, {"+14155552671", "CA", "+14155552671"},
		{"020 7946 0958", "gb", "+442079460958"}, {"+49 30 901820", "", "+4930901820"},
		{"+442079460958", "US", ""}, {"555-0123", "US", ""}, {"020 7946 0958", "", ""}, {"+1", "US", ""},
		{"+1415555267112345", "US", ""}, {"call me", "US", ""}, {"+1415555267\u202e1", "US", ""},
	} {
		var problems apierr.List
		p := identity.Profile{Details: identity.Details{PhoneNumber: c.number, PhoneCountry: c.country}}.Check(&problems,
			time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
		if p.PhoneNumber != c.want || problems.Empty() != (c.want != "") {
			t.Errorf("%s in %s: %q %+v", c.number, c.country, p.PhoneNumber, problems.Fields())
		}
	}
}

func TestGuessablePasswordsAreRejected(t *testing.T) {
	for password, rejected := range map[string]bool{
		"bhrh0h2oof6xbqjeh":       true, // in the list of breached passwords
		"BHRH0H2OOF6XBQJEH":       true,
		"!!Butterfly1987":         true, // a listed word between digits and signs
		"Manchester.2024!":        true,
		"passwordpassword":        true,
		"ada.lovelace.1815":       true, // the account's email name
		"246801357913":            true, // digits only
		"horsebatterystaple":      false,
		"seven tiny purple boats": false,
		"kq8#vP2!xLw9zr":          false,
	} {
		var problems apierr.List
		identity.CheckNewPassword(&problems, "/password", password, "ada.lovelace@example.com")
		if err := problems.Err(); (err != nil) != rejected {
			t.Errorf("%q: %v", password, err)
		}
	}
}

// An app's name must not look like that of the service, of a well-known company or of a verified company's app, unless
// the app belongs to that company.
func TestMisleadingAppNamesAreRejected(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		publishers := map[string]identity.Company{}
		for name, status := range map[string]string{
			"Stripe": identity.KYBApproved, "Acme": "", "Verified Books": identity.KYBApproved,
		} {
			dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
				publishers[name], err = identity.CreateCompany(ctx, tx, identity.NewCompany{Name: name, Country: "US",
					Email: "office@example.com", KYBStatus: status})
				return err
			})
		}
		for _, c := range []struct{ publisher, name, code string }{
			{"Verified Books", "Climate Ledger 10", ""},
			{"Acme", "Stipend", identity.CodeReserved},
			{"Stripe", "Stipend", identity.CodeReserved},
			{"Acme", "5t1pend Support", identity.CodeReserved},
			{"Acme", "S t i p e n d", identity.CodeReserved},
			{"Acme", "Ｓｔｉｐｅｎｄ", identity.CodeReserved},
			{"Acme", "Ѕтірепԁ", identity.CodeReserved}, // "stipend" in Cyrillic letters only
			{"Acme", "Stipеnd", identity.CodeMixedScripts},
			{"Acme", "Stripe", identity.CodeReserved},
			{"Acme", "Śtrípé", identity.CodeReserved},
			{"Acme", "Sync for PayPaI", identity.CodeReserved},
			{"Acme", "Αpple", identity.CodeMixedScripts}, // starts with a Greek letter
			{"Acme", "APPLE", identity.CodeReserved},
			{"Acme", "Apple orchard wages", ""},
			{"Stripe", "Stripe", ""},
			{"Acme", "CIimate Iedger lO", identity.CodeTaken},
			{"Verified Books", "Climate Ledger 10", ""},
			{"Acme", "Зарплата 2026", ""},
			{"Acme", "給料 Payroll", ""},
			{"Acme", "Μισθοί", ""},
			{"Acme", "Books & more", ""},
		} {
			err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, _, err := identity.CreateApp(ctx, tx, identity.Sandbox,
					identity.NewApp{CompanyID: publishers[c.publisher].ID, Name: c.name})
				return err
			})
			got := ""
			if f, ok := apierr.As(err); ok {
				got = f.Code
			} else if err != nil {
				t.Fatal(err)
			}
			if got != c.code {
				t.Errorf("%q by %s: %q, want %q", c.name, c.publisher, got, c.code)
			}
		}
	})
}
