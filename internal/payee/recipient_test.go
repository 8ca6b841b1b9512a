package payee_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/testkit"
)

// world has two companies. by is the principal of the first one, which the tests use.
type world struct {
	*testing.T
	d         *db.DB
	s         *identity.Sealer
	by, other identity.Principal
}

func open(t *testing.T, d *db.DB) world {
	t.Helper()
	s, err := identity.NewSealer([]byte(strings.Repeat("k", 32)))
	testkit.Check(t, err)
	w := world{T: t, d: d, s: s}
	w.write(func(ctx context.Context, tx *db.Tx) error {
		for _, by := range []*identity.Principal{&w.by, &w.other} {
			c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Company", Country: "US"})
			if err != nil {
				return err
			}
			*by = identity.Principal{Kind: identity.KindAPIKey, ID: "key_1", CompanyID: c.ID, Scopes: identity.AllScopes()}
		}
		return nil
	})
	return w
}

func (w world) write(fn func(ctx context.Context, tx *db.Tx) error) {
	w.Helper()
	dbtest.Write(w, w.d, fn)
}

func (w world) create(by identity.Principal, p payee.CreateParams) (r payee.Recipient, err error) {
	err = w.d.Write(w.Context(), func(ctx context.Context, tx *db.Tx) error {
		r, err = payee.Create(ctx, tx, w.s, by, p)
		return err
	})
	return r, err
}

func person(first, last string) payee.CreateParams {
	return payee.CreateParams{Profile: identity.Profile{FirstName: first, LastName: last, Country: "US"}}
}

// events returns the names of an object's events.
func (w world) events(object string) (names []string) {
	w.Helper()
	dbtest.Read(w, w.d, func(ctx context.Context, tx *db.Tx) error {
		rows, err := tx.Query(ctx, "SELECT name FROM events WHERE object_id = $1 ORDER BY sequence", object)
		names, err = db.Collect(rows, err, func(r *db.Rows) (n string, err error) { return n, r.Scan(&n) })
		return err
	})
	return names
}

func TestCreate(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		p := person("Ada", "Lovelace")
		p.ExternalID, p.Email, p.DateOfBirth = "é-1", "ada@example.com", "1990-12-10"
		r, err := w.create(w.by, p)
		testkit.Check(t, err)
		if !strings.HasPrefix(r.ID, "rec_") || r.Status != payee.Pending || r.Role != payee.Contractor ||
			r.Type != payee.TypeUser || r.Name != "Ada Lovelace" {
			t.Errorf("%+v", r)
		}
		if names := w.events(r.ID); !slices.Equal(names, []string{"recipient.created"}) {
			t.Errorf("events: %v", names)
		}
		_ = d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			got, err := payee.Get(ctx, tx, w.by, "", r.ID)
			if err != nil || !reflect.DeepEqual(got, r) {
				t.Errorf("read back: %+v %v", got, err)
			}
			details, err := payee.Personal(ctx, tx, w.s, w.by, "", r.ID)
			if err != nil || details.DateOfBirth != "1990-12-10" {
				t.Errorf("details: %+v %v", details, err)
			}
			for _, by := range []identity.Principal{w.other, {}} {
				if _, err := payee.Get(ctx, tx, by, "", r.ID); !errors.Is(err, apierr.NotFoundErr) {
					t.Errorf("a foreigner reads: %v", err)
				}
			}
			return nil
		})

		p.ExternalID = "e\u0301-1" // the same characters in another Unicode form
		_, err = w.create(w.by, p)
		if f, _ := apierr.As(err); !errors.Is(err, payee.ErrExternalID) || f.Meta["recipient_id"] != r.ID {
			t.Errorf("twice the external id: %v", err)
		}
		for name, err := range map[string]error{
			"other case":     second(w.create(w.by, with(p, "É-1"))),
			"other company":  second(w.create(w.other, with(p, "é-1"))),
			"no external id": second(w.create(w.by, with(p, ""))),
			"and once more":  second(w.create(w.by, with(p, ""))),
		} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		p.CompanyID = w.other.CompanyID
		if _, err := w.create(w.by, p); !errors.Is(err, apierr.NotFoundErr) {
			t.Errorf("for a foreign company: %v", err)
		}
	})
}

func with(p payee.CreateParams, externalID string) payee.CreateParams {
	p.ExternalID = externalID
	return p
}

func second[T any](_ T, err error) error { return err }

func TestCreateSaysAllThatIsWrong(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		_, err := w.create(w.by, payee.CreateParams{Role: "boss", ExternalID: "a\x00b",
			Profile: identity.Profile{FirstName: "Ada", Email: "no"}})
		f, _ := apierr.As(err)
		if f == nil {
			t.Fatal(err)
		}
		var got []string
		for _, field := range f.Fields {
			got = append(got, field.Code+" "+field.Pointer)
		}
		want := []string{"invalid_parameter /role", "invalid_parameter /email", "missing_field /last_name",
			"missing_field /country", "invalid_parameter /external_id"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		_, err = w.create(w.by, payee.CreateParams{Type: "company", Profile: identity.Profile{FirstName: "A", LastName: "B",
			Country: "US"}})
		if f, _ := apierr.As(err); f == nil || f.Code != "missing_field" || f.Fields[0].Pointer != "/name" {
			t.Errorf("a firm without a name: %v", err)
		}
	})
}

func TestExternalIDRace(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		p := with(person("Ada", "Lovelace"), "one")
		var wg sync.WaitGroup
		errs := make([]error, 16)
		for i := range errs {
			wg.Go(func() { _, errs[i] = w.create(w.by, p) })
		}
		wg.Wait()
		made := 0
		for _, err := range errs {
			if err == nil {
				made++
			} else if !errors.Is(err, payee.ErrExternalID) {
				t.Error(err)
			}
		}
		if made != 1 {
			t.Errorf("%d recipients were made", made)
		}
	})
}

func TestList(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := open(t, d)
		for i, p := range []payee.CreateParams{
			{Profile: identity.Profile{FirstName: "Zoë", LastName: "Ångström", Email: "zoe@example.com", Country: "SE"},
				Role: "employee"},
			{Profile: identity.Profile{FirstName: "Bob", LastName: "100%_\\", Email: "Bob@Example.com", Country: "US"}},
			{Name: "Acme", Type: "company", Role: "vendor", VendorType: "software", Profile: identity.Profile{Country: "DE"}},
		} {
			if _, err := w.create(w.by, p); err != nil {
				t.Fatal(i, err)
			}
			clock.Advance(time.Second)
		}
		if _, err := w.create(w.other, person("Bob", "Foreign")); err != nil {
			t.Fatal(err)
		}
		list := func(p payee.ListParams) (names []string, s payee.Slice[payee.Recipient], err error) {
			err = d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				s, err = payee.List(ctx, tx, w.by, p)
				return err
			})
			for _, r := range s.Items {
				names = append(names, strings.Fields(r.Name)[0])
			}
			return names, s, err
		}
		for name, c := range map[string]struct {
			p    payee.ListParams
			want []string
		}{
			"all, newest first":        {payee.ListParams{}, []string{"Acme", "Bob", "Zoë"}},
			"by name":                  {payee.ListParams{SortBy: "name"}, []string{"Acme", "Bob", "Zoë"}},
			"by name, falling":         {payee.ListParams{SortBy: "name", SortDir: "desc"}, []string{"Zoë", "Bob", "Acme"}},
			"by email":                 {payee.ListParams{SortBy: "email"}, []string{"Acme", "Bob", "Zoë"}},
			"by created":               {payee.ListParams{SortBy: "created"}, []string{"Zoë", "Bob", "Acme"}},
			"role":                     {payee.ListParams{Role: "employee"}, []string{"Zoë"}},
			"type":                     {payee.ListParams{Type: "company"}, []string{"Acme"}},
			"status":                   {payee.ListParams{Status: "active"}, nil},
			"country":                  {payee.ListParams{Country: "de"}, []string{"Acme"}},
			"search name, other case":  {payee.ListParams{Search: "ZOË ån"}, []string{"Zoë"}},
			"search email, other case": {payee.ListParams{Search: "bOb@"}, []string{"Bob"}},
			"search percent":           {payee.ListParams{Search: "%"}, []string{"Bob"}},
			"search underscore":        {payee.ListParams{Search: "_"}, []string{"Bob"}},
			"search backslash":         {payee.ListParams{Search: `\`}, []string{"Bob"}},
			"search quote":             {payee.ListParams{Search: `' OR 1=1 --`}, nil},
			"filters together":         {payee.ListParams{Search: "e", Role: "vendor", Country: "DE"}, []string{"Acme"}},
			"second page": {payee.ListParams{SortBy: "created", Page: db.Page{Number: 2, PerPage: 2}},
				[]string{"Acme"}},
			"page past the end":         {payee.ListParams{Page: db.Page{Number: 3, PerPage: 2}}, nil},
			"page far past the end":     {payee.ListParams{Page: db.Page{Number: 1 << 62, PerPage: 100}}, nil},
			"more per page than is had": {payee.ListParams{Page: db.Page{PerPage: 5000}}, []string{"Acme", "Bob", "Zoë"}},
		} {
			got, s, err := list(c.p)
			if err != nil || !slices.Equal(got, c.want) || s.Items == nil {
				t.Errorf("%s: %v %v", name, got, err)
			}
		}
		if _, s, _ := list(payee.ListParams{Page: db.Page{Number: 2, PerPage: 1}}); s.Total != 3 {
			t.Errorf("total %d", s.Total)
		}
		if _, s, _ := list(payee.ListParams{Page: db.Page{PerPage: 5000}}); s.Page != (db.Page{Number: 1,
			PerPage: 100}) {
			t.Errorf("page %+v", s.Page)
		}
		_, _, err := list(payee.ListParams{SortBy: "name; DROP TABLE recipients", SortDir: "up", Role: "x", Status: "y",
			Country: "XX", Page: db.Page{Number: -1}})
		if f, _ := apierr.As(err); f == nil || len(f.Fields) != 6 || f.Fields[0].In != "query" {
			t.Errorf("wrong filters: %v", err)
		}
		if _, _, err := list(payee.ListParams{CompanyID: w.other.CompanyID}); !errors.Is(err, apierr.NotFoundErr) {
			t.Errorf("a foreign company: %v", err)
		}
	})
}

func TestWorkersAndPayees(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		var ada, bob identity.User
		w.write(func(ctx context.Context, tx *db.Tx) (err error) {
			complete := identity.Profile{Email: "Ada@example.com", FirstName: "Ada", LastName: "Lovelace", Country: "GB",
				Details: identity.Details{DateOfBirth: "1990-12-10", StreetAddress: "1 Main St", City: "London"}}
			if ada, err = identity.CreateUser(ctx, tx, w.s, identity.NewUser{Profile: complete}); err != nil {
				return err
			}
			if bob, err = identity.CreateUser(ctx, tx, w.s,
				identity.NewUser{Profile: identity.Profile{Email: "bob@example.com"}}); err != nil {
				return err
			}
			for range 2 { // the second call changes nothing
				if _, err := payee.AddWorker(ctx, tx, w.by.CompanyID, ada.ID, ""); err != nil {
					return err
				}
			}
			_, err = payee.AddWorker(ctx, tx, w.by.CompanyID, bob.ID, payee.Employee)
			return err
		})
		firm, err := w.create(w.by, payee.CreateParams{Name: "Acme", Type: "company",
			Profile: identity.Profile{Country: "DE"}})
		testkit.Check(t, err)
		foreign, err := w.create(w.other, person("F", "X"))
		testkit.Check(t, err)
		var made identity.User
		w.write(func(ctx context.Context, tx *db.Tx) (err error) {
			made, err = identity.CreateUser(ctx, tx, w.s, identity.NewUser{CompanyID: w.by.CompanyID,
				Profile: identity.Profile{Email: "made@example.com"}})
			return err
		})
		if names := w.events(ada.ID); !slices.Equal(names, []string{"recipient.created"}) {
			t.Errorf("events of a worker linked twice: %v", names)
		}
		give(w, ada.ID, 60, 40)
		w.write(func(ctx context.Context, tx *db.Tx) error {
			for range 2 {
				if err := payee.ActivateEverywhere(ctx, tx, w.by, payee.Payee{ID: ada.ID, UserID: ada.ID}); err != nil {
					return err
				}
			}
			return nil
		})
		if names := w.events(ada.ID); !slices.Equal(names, []string{"recipient.created", "recipient.status_update"}) {
			t.Errorf("events of an active worker: %v", names)
		}
		_ = d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			s, err := payee.Workers(ctx, tx, w.by, payee.WorkersParams{})
			if err != nil || s.Total != 2 || len(s.Items) != 2 {
				t.Errorf("workers: %+v %v", s, err)
			}
			s, err = payee.Workers(ctx, tx, w.by, payee.WorkersParams{Email: "ADA@EXAMPLE.COM"})
			want := payee.Worker{UserID: ada.ID, Email: "Ada@example.com", FirstName: "Ada", LastName: "Lovelace",
				OnboardingComplete: true, HasDistributions: true}
			if err != nil || len(s.Items) != 1 || s.Items[0] != want {
				t.Errorf("by email: %+v %v", s, err)
			}
			s, err = payee.Workers(ctx, tx, w.by, payee.WorkersParams{UserID: bob.ID})
			if err != nil || len(s.Items) != 1 || s.Items[0].OnboardingComplete || s.Items[0].HasDistributions {
				t.Errorf("by id: %+v %v", s, err)
			}
			if s, _ = payee.Workers(ctx, tx, w.other, payee.WorkersParams{UserID: bob.ID}); s.Total != 0 {
				t.Error("another company sees the worker")
			}

			ids := []string{ada.ID, firm.ID, foreign.ID, "nonsense"}
			for i := range 10_000 {
				ids = append(ids, fmt.Sprintf("rec_%d", i))
			}
			ids = append(ids, bob.ID)
			payees, err := payee.Payees(ctx, tx, w.by.CompanyID, ids)
			if err != nil || len(payees) != 3 {
				t.Errorf("payees: %v %v", payees, err)
			}
			if p := payees[ada.ID]; p != (payee.Payee{ID: ada.ID, UserID: ada.ID, Kind: "user", Role: "contractor",
				Name: "Ada Lovelace", Status: "active", Country: "GB", Email: "Ada@example.com"}) {
				t.Errorf("%+v", p)
			}
			if p := payees[firm.ID]; p != (payee.Payee{ID: firm.ID, Kind: "company", Role: "contractor",
				Name: "Acme", Status: "pending", Country: "DE"}) {
				t.Errorf("%+v", p)
			}
			if payees, err := payee.Payees(ctx, tx, w.by.CompanyID, nil); err != nil || len(payees) != 0 {
				t.Errorf("no payees: %v %v", payees, err)
			}

			self := identity.Principal{Kind: identity.KindOAuth, CompanyID: w.other.CompanyID, UserID: bob.ID}
			for name, c := range map[string]struct {
				by identity.Principal
				id string
				ok bool
			}{
				"a worker who came by themselves": {w.by, bob.ID, false}, "a worker whom the company created": {w.by, made.ID,
					true},
				"another's created worker": {w.other, made.ID, false}, "the company's firm": {w.by, firm.ID, true},
				"a foreign worker": {w.other, bob.ID, false}, "a foreign firm": {w.other, firm.ID, false},
				"oneself": {self, bob.ID, true}, "somebody else": {self, ada.ID, false}, "nobody": {identity.Principal{}, "",
					false},
			} {
				if p, err := payee.Owner(ctx, tx, c.by, c.id); c.ok != (err == nil) || c.ok && p.ID != c.id || !c.ok &&
					!errors.Is(err, apierr.NotFoundErr) {
					t.Errorf("owner, %s: %+v %v", name, p, err)
				}
			}
			return nil
		})
	})
}

// give inserts destinations with these allocations directly, because package destination imports package payee.
func give(w world, owner string, allocations ...int64) {
	w.Helper()
	w.write(func(ctx context.Context, tx *db.Tx) error {
		for i, a := range allocations {
			if _, err := tx.Exec(ctx, `INSERT INTO destinations (owner_id, destination_id, kind, symbol, rail, scheme, country,
				network,
					address, sealed, masked, allocation, created_at, updated_at)
				VALUES ($1, $2, 'crypto', 'BTC', 'bitcoin', '', '', 'regtest', 'x', '', '{}', $3, 0, 0)`, owner,
				fmt.Sprint("dst_", i), a); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestFrozenCompanyCreatesNobody(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		w.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE companies SET status = 'frozen' WHERE company_id = $1", w.by.CompanyID)
			return err
		})
		if _, err := w.create(w.by, person("Ada", "Lovelace")); !errors.Is(err, identity.ErrFrozen) {
			t.Error(err)
		}
	})
}

// A company cannot change the data that a worker entered, only its own data about the worker.
func TestUpdateOfAWorker(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		var u identity.User
		w.write(func(ctx context.Context, tx *db.Tx) (err error) {
			if u, err = identity.CreateUser(ctx, tx, w.s, identity.NewUser{Profile: identity.Profile{Email: "ada@example.com",
				FirstName: "Ada", LastName: "L", Country: "GB"}}); err != nil {
				return err
			}
			_, err = payee.AddWorker(ctx, tx, w.by.CompanyID, u.ID, "")
			return err
		})
		update := func(c payee.Changes) (r payee.Recipient, err error) {
			err = d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				r, err = payee.Update(ctx, tx, w.s, w.by, "", u.ID, c)
				return err
			})
			return r, err
		}
		text := func(s string) *string { return &s }
		r, err := update(payee.Changes{Role: text("employee"), ExternalID: text("e-1"), Department: text("Ops")})
		if err != nil || r.Role != "employee" || r.ExternalID != "e-1" || r.Department != "Ops" || r.Name != "Ada L" {
			t.Errorf("%+v %v", r, err)
		}
		_, err = update(payee.Changes{Role: text("vendor"), FirstName: text("Eve"), Email: text("eve@example.com"),
			City: text("Paris")})
		if f, _ := apierr.As(err); f == nil || len(f.Fields) != 4 {
			t.Errorf("%v", err)
		}
	})
}

// A list shows a worker's new name at once.
func TestListsFollowAProfile(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		var u identity.User
		w.write(func(ctx context.Context, tx *db.Tx) (err error) {
			u, err = payee.CreateUser(ctx, tx, w.s, w.by, identity.Profile{Email: "ada@example.com", FirstName: "Ada",
				LastName: "King", Country: "GB",
				Details: identity.Details{DateOfBirth: "1990-12-10", PhoneNumber: "+442071838750", PhoneCountry: "GB",
					StreetAddress: "1 Main St", City: "London", State: "London", Zip: "N1 1AA"}})
			return err
		})
		total := func(search string) (n int) {
			_ = d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				s, err := payee.List(ctx, tx, w.by, payee.ListParams{Search: search})
				if n = s.Total; err != nil {
					t.Error(err)
				}
				return nil
			})
			return n
		}
		if total("king") != 1 || total("lovelace") != 0 {
			t.Error("before")
		}
		w.write(func(ctx context.Context, tx *db.Tx) error {
			last := "Lovelace"
			_, err := payee.UpdateUser(ctx, tx, w.s, w.by, u.ID, identity.ProfileChanges{LastName: &last})
			return err
		})
		if total("king") != 0 || total("lovelace") != 1 {
			t.Error("after")
		}
	})
}
