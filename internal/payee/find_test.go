package payee_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/testkit"
)

// wanted computes a list in memory from all recipients of a company: the result that the database must return.
func wanted(all []payee.Recipient, p payee.ListParams) (page []string, total int) {
	key := func(r payee.Recipient) string {
		switch p.SortBy {
		case "name":
			return strings.ToLower(r.Name)
		case "email":
			return strings.ToLower(r.Email)
		}
		return fmt.Sprintf("%020d", r.Created.UnixMicro())
	}
	search := strings.ToLower(p.Search)
	var found []payee.Recipient
	for _, r := range all {
		if (p.Role == "" || p.Role == r.Role) && (p.Type == "" || p.Type == r.Type) && (p.Status == "" ||
			p.Status == r.Status) &&
			(p.Country == "" || p.Country == r.Country) &&
			(strings.Contains(strings.ToLower(r.Name), search) || strings.Contains(strings.ToLower(r.Email), search)) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b payee.Recipient) int {
		return cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(a.ID,
			b.ID))
	})
	if p.SortDir == "desc" || p.SortBy == "" && p.SortDir == "" {
		slices.Reverse(found)
	}
	from := min((p.Page.Number-1)*p.Page.PerPage, len(found))
	for _, r := range found[from:min(from+p.Page.PerPage, len(found))] {
		page = append(page, r.ID)
	}
	return page, len(found)
}

// all returns every recipient of a company.
func (w world) all(by identity.Principal) (all []payee.Recipient) {
	w.Helper()
	for number := 1; ; number++ {
		s := w.list(by, payee.ListParams{Page: db.Page{Number: number, PerPage: payee.MaxPerPage}})
		all = append(all, s.Items...)
		if len(s.Items) == 0 {
			return all
		}
	}
}

func (w world) list(by identity.Principal, p payee.ListParams) (s payee.Slice[payee.Recipient]) {
	w.Helper()
	dbtest.Read(w, w.d, func(ctx context.Context, tx *db.Tx) (err error) {
		s, err = payee.List(ctx, tx, by, p)
		return err
	})
	return s
}

// check compares a list with the result of wanted.
func (w world) check(by identity.Principal, all []payee.Recipient, p payee.ListParams) {
	w.Helper()
	s := w.list(by, p)
	var ids []string
	for _, r := range s.Items {
		ids = append(ids, r.ID)
	}
	if want, total := wanted(all, p); !slices.Equal(ids, want) || s.Total != total {
		w.Errorf("%+v: got %v of %d, want %v of %d", p, ids, s.Total, want, total)
	}
}

// csvOf returns a CSV file of n recipients whose names and addresses have many kinds of characters.
func csvOf(r *rand.Rand, n int) string {
	pick := func(words string) string { all := strings.Fields(words); return all[r.IntN(len(all))] }
	var b strings.Builder
	b.WriteString("recipient_type,role,name,email,country\n")
	for i := range n {
		name := pick("Ana anna ÅSA Zoë O'Neil 100% under_score back\\slash 王小明 Ünal ana Čapek") + " " +
			pick("Müller de-la Ō Smith SMITH 李 x")
		email := ""
		if r.IntN(4) > 0 {
			email = fmt.Sprintf("%s%d@%s", pick("a.b c_d e+f G.H"), i, pick("example.com EXAMPLE.org mail.example.com"))
		}
		fmt.Fprintf(&b, "%s,%s,%s,%s,%s\n", pick("user company"), pick("contractor employee vendor"), name, email,
			pick("US DE BR"))
	}
	return b.String()
}

func (w world) importCSV(by identity.Principal, file string) {
	w.Helper()
	w.write(func(ctx context.Context, tx *db.Tx) error {
		rows, err := payee.Import(ctx, tx, w.s, by, "", file, false)
		for _, row := range rows {
			if row.Status != payee.ImportCreated {
				w.Fatalf("%+v", row)
			}
		}
		return err
	})
}

func TestListsAreExact(t *testing.T) {
	testLists(t)
}

func TestListsOfManyMatchesAreExact(t *testing.T) {
	payee.SetFewMatches(t, 10)
	testLists(t)
}

func testLists(t *testing.T) {
	t.Helper()
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		r := rand.New(rand.NewPCG(1, 2))
		w.importCSV(w.by, csvOf(r, 300))
		w.importCSV(w.other, csvOf(r, 60))
		all, others := w.all(w.by), w.all(w.other)
		if len(all) != 300 || len(others) != 60 {
			t.Fatalf("%d and %d recipients", len(all), len(others))
		}
		pick := func(from ...string) string { return from[r.IntN(len(from))] }
		for range 200 {
			p := payee.ListParams{
				Search: pick("", "a", "an", "ana", "ANA", "anna m", "%", "_", "0%", "100%", "r_s", `\`, `k\s`, "'", `"`, "neil",
					"王", "小明", "王小明", "ünal", "čap",
					"example", "@example.com", "1@e", "2@", ".com", "smith", "xyz", "a.b", "e+f1", "a OR b", "NOT", "o'neil smith",
					"é", `a"b`),
				Role: pick("", "", "vendor", "employee"), Type: pick("", "", "company", "user"), Country: pick("", "", "DE", "FR"),
				Status: pick("", "", "pending", "active"),
				SortBy: pick("", "name", "email", "created"), SortDir: pick("", "asc", "desc"),
				Page: db.Page{Number: 1 + r.IntN(6), PerPage: 1 + r.IntN(40)},
			}
			w.check(w.by, all, p)
			w.check(w.other, others, p)
		}
		for number := 1; number < 19; number++ {
			for _, dir := range []string{"asc", "desc"} {
				w.check(w.by, all, payee.ListParams{SortBy: "name", SortDir: dir, Page: db.Page{Number: number, PerPage: 17}})
			}
		}
	})
}

func TestSearchIsExactWithoutTrigramIndex(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		indexed := func() (indexed bool) {
			w.write(func(ctx context.Context, tx *db.Tx) (err error) {
				indexed, err = payee.SearchIsIndexed(ctx, tx)
				return err
			})
			return indexed
		}
		if !indexed() {
			t.Fatal("a new database has no index for searches; is the extension pg_trgm installed?")
		}
		if d.Engine() == db.Postgres {
			w.write(func(ctx context.Context, tx *db.Tx) error {
				_, err := tx.Exec(ctx, "DROP EXTENSION pg_trgm CASCADE")
				return err
			})
			if indexed() {
				t.Error("reported an index that was dropped")
			}
		}
		w.importCSV(w.by, csvOf(rand.New(rand.NewPCG(3, 4)), 100))
		all := w.all(w.by)
		for _, search := range []string{"ana", "100%", "müller", "example"} {
			w.check(w.by, all, payee.ListParams{Search: search, Page: db.Page{Number: 1, PerPage: 50}})
		}
	})
}

// Totals are stored counters, so every change of a role, type, status or country must update them.
func TestTotalsFollowEveryChange(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		check := func(after string) {
			t.Helper()
			all := w.all(w.by)
			for _, status := range []string{"", payee.Pending, payee.Active, payee.Inactive} {
				for _, role := range []string{"", payee.Contractor, payee.Employee} {
					for _, country := range []string{"", "US", "GB"} {
						p := payee.ListParams{Status: status, Role: role, Country: country, Page: db.Page{Number: 1, PerPage: 50}}
						if _, total := wanted(all, p); w.list(w.by, p).Total != total {
							t.Errorf("after %s: %q %q %q: got %d, want %d", after, status, role, country, w.list(w.by, p).Total, total)
						}
					}
				}
			}
			var workers payee.Slice[payee.Worker]
			if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
				workers, err = payee.Workers(ctx, tx, w.by, payee.WorkersParams{})
				return err
			}); err != nil || workers.Total != len(workers.Items) {
				t.Errorf("after %s: %d workers, the total says %d (%v)", after, len(workers.Items), workers.Total, err)
			}
		}
		r, err := w.create(w.by, person("Ada", "Lovelace"))
		testkit.Check(t, err)
		if _, err := w.create(w.by, with(person("Bob", "Babbage"), "b")); err != nil {
			t.Fatal(err)
		}
		if _, err := w.create(w.by, with(person("Bob", "Babbage"), "b")); err == nil {
			t.Error("created the same external id twice")
		}
		check("create")
		update := func(c payee.Changes) {
			w.write(func(ctx context.Context, tx *db.Tx) error {
				_, err := payee.Update(ctx, tx, w.s, w.by, "", r.ID, c)
				return err
			})
		}
		employee, gb := payee.Employee, "GB"
		update(payee.Changes{Role: &employee})
		check("a change of the role")
		update(payee.Changes{Country: &gb})
		check("a change of the country")
		give(w, r.ID, 100)
		w.write(func(ctx context.Context, tx *db.Tx) error {
			return payee.ActivateEverywhere(ctx, tx, w.by, payee.Payee{ID: r.ID})
		})
		check("the activation")
		w.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := payee.Deactivate(ctx, tx, w.by, "", r.ID)
			return err
		})
		check("the deactivation")
		w.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := payee.Reactivate(ctx, tx, w.by, "", r.ID)
			return err
		})
		check("the reactivation")

		var u identity.User
		w.write(func(ctx context.Context, tx *db.Tx) (err error) {
			u, err = identity.CreateUser(ctx, tx, w.s, identity.NewUser{CompanyID: w.by.CompanyID,
				Profile: identity.Profile{Email: "worker@example.com", Country: "US"}})
			if err != nil {
				return err
			}
			_, err = payee.AddWorker(ctx, tx, w.by.CompanyID, u.ID, payee.Contractor)
			return err
		})
		check("a new worker")
		w.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := payee.UpdateUser(ctx, tx, w.s, w.by, u.ID, identity.ProfileChanges{Country: &gb})
			return err
		})
		check("a worker's new country")
		w.write(func(ctx context.Context, tx *db.Tx) error {
			_, _, err := payee.Erase(ctx, tx, u.ID, "worker@example.com")
			return err
		})
		check("an erasure")
	})
}

func TestConcurrentChangesAreCountedOnce(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		var ids []string
		for i := range 6 {
			r, err := w.create(w.by, person("P", fmt.Sprint("Person", i)))
			testkit.Check(t, err)
			ids = append(ids, r.ID)
		}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for round := range 6 {
					country, role := []string{"US", "GB", "DE"}[(i+round)%3], []string{payee.Contractor, payee.Employee}[round%2]
					if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
						_, err := payee.Update(ctx, tx, w.s, w.by, "", ids[(i*5+round)%len(ids)], payee.Changes{Country: &country,
							Role: &role})
						return err
					}); err != nil {
						t.Error(err)
					}
					if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
						_, err := payee.Deactivate(ctx, tx, w.by, "", ids[(i+round)%len(ids)])
						return err
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		all := w.all(w.by)
		for _, country := range []string{"", "US", "GB", "DE"} {
			for _, status := range []string{"", payee.Pending, payee.Inactive} {
				w.check(w.by, all, payee.ListParams{Country: country, Status: status, Page: db.Page{Number: 1, PerPage: 50}})
			}
		}
	})
}
