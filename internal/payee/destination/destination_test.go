package destination_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/testkit"
)

// world is a company with one payee in Germany, and a second company.
type world struct {
	*testing.T
	d         *db.DB
	setup     destination.Setup
	by, other identity.Principal
	payee     string
}

func open(t *testing.T, d *db.DB) world {
	t.Helper()
	s, err := identity.NewSealer([]byte(strings.Repeat("k", 32)))
	testkit.Check(t, err)
	w := world{T: t, d: d, setup: destination.Setup{Sealer: s, BitcoinNetwork: "regtest"}}
	w.must(func(ctx context.Context, tx *db.Tx) error {
		for _, by := range []*identity.Principal{&w.by, &w.other} {
			c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Company", Country: "US"})
			if err != nil {
				return err
			}
			*by = identity.Principal{Kind: identity.KindAPIKey, ID: "key_1", CompanyID: c.ID, Scopes: identity.AllScopes()}
		}
		r, err := payee.Create(ctx, tx, s, w.by, payee.CreateParams{Profile: identity.Profile{FirstName: "Ada",
			LastName: "Lovelace", Country: "DE"}})
		w.payee = r.ID
		return err
	})
	return w
}

func (w world) must(fn func(ctx context.Context, tx *db.Tx) error) {
	w.Helper()
	dbtest.Write(w, w.d, fn)
}

func (w world) read(fn func(ctx context.Context, tx *db.Tx) error) {
	w.Helper()
	dbtest.Read(w, w.d, fn)
}

func (w world) create(by identity.Principal, owner, symbol, data string) (d destination.Destination, err error) {
	err = w.d.Write(w.Context(), func(ctx context.Context, tx *db.Tx) error {
		d, err = destination.Create(ctx, tx, w.setup, by, destination.CreateParams{OwnerID: owner, Symbol: symbol,
			Data: json.RawMessage(data)})
		return err
	})
	return d, err
}

func (w world) allocate(by identity.Principal, shares ...destination.Share) error {
	return w.d.Write(w.Context(), func(ctx context.Context, tx *db.Tx) error {
		_, err := destination.SetAllocations(ctx, tx, by, w.payee, shares)
		return err
	})
}

func (w world) remove(by identity.Principal, id string) error {
	return w.d.Write(w.Context(), func(ctx context.Context, tx *db.Tx) error {
		return destination.Delete(ctx, tx, by,
			w.payee, id)
	})
}

// allocations returns the payee's allocations, oldest first.
func (w world) allocations() (a []int) {
	w.Helper()
	w.read(func(ctx context.Context, tx *db.Tx) error {
		own, err := destination.List(ctx, tx, w.by, w.payee)
		for _, d := range own {
			a = append(a, d.Allocation)
		}
		return err
	})
	return a
}

const (
	btc  = `{"address":"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"}`
	iban = `{"account_holder_name":"Ada Lovelace","account_holder_type":"individual","iban":"DE89370400440532013000"}`
)

func share(id string, percent string) destination.Share {
	return destination.Share{DistributionID: id, Allocation: json.Number(percent)}
}

func TestLifeOfDestinations(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		first, err := w.create(w.by, w.payee, "EUR", iban)
		if err != nil || first.Allocation != 100 || first.Rail != destination.RailBank {
			t.Fatalf("%+v %v", first, err)
		}
		w.read(func(ctx context.Context, tx *db.Tx) error {
			if r, err := payee.Get(ctx, tx, w.by, "", w.payee); err != nil || r.Status != payee.Active || r.Version != 2 {
				t.Errorf("the payee: %+v %v", r, err)
			}
			var sealed, all string
			if err := tx.QueryRow(ctx, "SELECT sealed, address || masked FROM destinations WHERE owner_id = $1",
				w.payee).Scan(&sealed, &all); err != nil {
				return err
			}
			if strings.Contains(sealed+all, "DE8937") || !strings.HasPrefix(sealed, "v1.") {
				t.Error("bank data is stored in the open")
			}
			got, err := destination.Get(ctx, tx, w.by, w.payee, first.ID)
			if err != nil || strings.Contains(string(got.Data), "DE8937") ||
				!strings.Contains(string(got.Data), "••••3000") {
				t.Errorf("masked: %s %v", got.Data, err)
			}
			full, err := destination.Reveal(w.setup.Sealer, got)
			if err != nil || !strings.Contains(string(full), `"DE89370400440532013000"`) {
				t.Errorf("revealed: %s %v", full, err)
			}
			got.ID = "dst_other"
			if _, err := destination.Reveal(w.setup.Sealer, got); !errors.Is(err, identity.ErrSealed) {
				t.Errorf("another row's data: %v", err)
			}
			return nil
		})

		second, err := w.create(w.by, w.payee, "BTC", btc)
		if err != nil || second.Allocation != 0 || second.Network != "regtest" {
			t.Fatalf("%+v %v", second, err)
		}
		third, err := w.create(w.by, w.payee, "BTC", btc)
		testkit.Check(t, err)
		if _, err := w.create(w.by, w.payee, "BTC", btc); !errors.Is(err, destination.ErrLimit) {
			t.Errorf("a fourth: %v", err)
		}

		for name, c := range map[string]struct {
			shares []destination.Share
			want   error
		}{
			"99":         {[]destination.Share{share(first.ID, "99")}, destination.ErrTotal},
			"sum of 101": {[]destination.Share{share(first.ID, "51"), share(second.ID, "50")}, destination.ErrTotal},
			"thirds": {[]destination.Share{share(first.ID, "33.333"), share(second.ID, "66.667")},
				destination.ErrAllocation},
			"an exponent": {[]destination.Share{share(first.ID, "1e2")}, destination.ErrAllocation},
			"negative": {[]destination.Share{share(first.ID, "-10"), share(second.ID, "110")},
				destination.ErrAllocation},
			"named twice": {[]destination.Share{share(first.ID, "50"), share(first.ID, "50")}, destination.ErrAllocation},
			"four": {[]destination.Share{share("a", "25"), share("b", "25"), share("c", "25"), share("d", "25")},
				destination.ErrLimit},
			"unknown":          {[]destination.Share{share(first.ID, "50"), share("dst_x", "50")}, apierr.NotFoundErr},
			"of another owner": {[]destination.Share{share("dst_x", "100")}, apierr.NotFoundErr},
		} {
			if err := w.allocate(w.by, c.shares...); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := w.allocate(w.by); err == nil {
			t.Error("no shares were taken")
		}
		if got := w.allocations(); !slices.Equal(got, []int{100, 0, 0}) {
			t.Fatalf("a refused change left %v", got)
		}
		testkit.Check(t, w.allocate(w.by, share(second.ID, "70"), share(first.ID, "30")))
		testkit.Check(t, w.allocate(w.by, share(third.ID, "50"), share(first.ID, "50")))
		if got := w.allocations(); !slices.Equal(got, []int{50, 0, 50}) {
			t.Errorf("those not named are not 0: %v", got)
		}

		if err := w.remove(w.by, first.ID); !errors.Is(err, destination.ErrNotZero) {
			t.Errorf("delete at 50: %v", err)
		}
		if err := w.remove(w.by, "dst_x"); !errors.Is(err, apierr.NotFoundErr) {
			t.Errorf("delete of an unknown one: %v", err)
		}
		if err := w.remove(w.by, second.ID); err != nil {
			t.Errorf("delete at 0: %v", err)
		}
		if err := w.remove(w.by, second.ID); !errors.Is(err, apierr.NotFoundErr) {
			t.Errorf("delete again: %v", err)
		}
		if fourth, err := w.create(w.by, w.payee, "BTC", btc); err != nil || fourth.Allocation != 0 {
			t.Errorf("there is room again: %+v %v", fourth, err)
		}

		for name, err := range map[string]error{
			"create":   second2(w.create(w.other, w.payee, "BTC", btc)),
			"allocate": w.allocate(w.other, share(first.ID, "100")),
			"delete":   w.remove(w.other, second.ID),
			"list": d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := destination.List(ctx, tx, w.other, w.payee)
				return err
			}),
		} {
			if !errors.Is(err, apierr.NotFoundErr) {
				t.Errorf("a foreign company may %s: %v", name, err)
			}
		}
	})
}

func second2[T any](_ T, err error) error { return err }

func TestManyCreateAtOnce(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		var wg sync.WaitGroup
		errs := make([]error, 12)
		for i := range errs {
			wg.Go(func() { _, errs[i] = w.create(w.by, w.payee, "BTC", btc) })
		}
		wg.Wait()
		made := 0
		for _, err := range errs {
			if err == nil {
				made++
			} else if !errors.Is(err, destination.ErrLimit) {
				t.Error(err)
			}
		}
		got := w.allocations()
		slices.Sort(got)
		if made != 3 || !slices.Equal(got, []int{0, 0, 100}) {
			t.Errorf("%d made, allocations %v", made, got)
		}
	})
}

// TestDeleteAgainstAllocate deletes a destination while allocations are set, many times. The allocations always total
// 100.
func TestDeleteAgainstAllocate(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		first, err := w.create(w.by, w.payee, "BTC", btc)
		testkit.Check(t, err)
		for range 15 {
			second, err := w.create(w.by, w.payee, "BTC", btc)
			testkit.Check(t, err)
			var wg sync.WaitGroup
			var deleted, allocated error
			wg.Go(func() { deleted = w.remove(w.by, second.ID) })
			wg.Go(func() { allocated = w.allocate(w.by, share(first.ID, "40"), share(second.ID, "60")) })
			wg.Wait()
			sum := 0
			for _, a := range w.allocations() {
				sum += a
			}
			won := deleted == nil && errors.Is(allocated, apierr.NotFoundErr) || allocated == nil && errors.Is(deleted,
				destination.ErrNotZero)
			if !won || sum != 100 {
				t.Fatalf("deleted: %v; allocated: %v; total %d", deleted, allocated, sum)
			}
			if allocated == nil {
				testkit.Check(t, errors.Join(w.allocate(w.by, share(first.ID, "100")), w.remove(w.by, second.ID)))
			}
		}
	})
}

func TestAUserInTwoCompanies(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		var u identity.User
		w.must(func(ctx context.Context, tx *db.Tx) (err error) {
			if u, err = identity.CreateUser(ctx, tx, w.setup.Sealer,
				identity.NewUser{Profile: identity.Profile{Email: "u@example.com"}}); err != nil {
				return err
			}
			for _, company := range []string{w.by.CompanyID, w.other.CompanyID} {
				if _, err := payee.AddWorker(ctx, tx, company, u.ID, ""); err != nil {
					return err
				}
			}
			return nil
		})
		if _, err := w.create(w.by, u.ID, "BTC", btc); !errors.Is(err, apierr.NotFoundErr) {
			t.Errorf("a company acts for a worker who came by themselves: %v", err)
		}
		own := identity.Principal{Kind: identity.KindOAuth, ID: "tok_1", CompanyID: w.by.CompanyID, UserID: u.ID}
		if _, err := w.create(own, u.ID, "EUR", iban); !errors.Is(err, destination.ErrProfile) {
			t.Errorf("without a country: %v", err)
		}
		if _, err := w.create(own, u.ID, "BTC", btc); err != nil {
			t.Fatal(err)
		}
		testkit.Check(t, job.NewRunner(d, job.Table{payee.JobActivate: {Tx: payee.HandleActivate}}, nil,
			nil).Drain(t.Context()))
		w.read(func(ctx context.Context, tx *db.Tx) error {
			for _, by := range []identity.Principal{w.by, w.other} {
				if r, err := payee.Get(ctx, tx, by, "", u.ID); err != nil || r.Status != payee.Active {
					t.Errorf("in a company: %+v %v", r, err)
				}
			}
			return nil
		})
	})
}

// While a company is frozen, none of its credentials can change its payees' destinations; people can change their
// own.
func TestAFrozenCompanyChangesNoDestinations(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		was, err := w.create(w.by, w.payee, "BTC", btc)
		testkit.Check(t, err)
		var u identity.User
		w.must(func(ctx context.Context, tx *db.Tx) (err error) {
			if u, err = identity.CreateUser(ctx, tx, w.setup.Sealer,
				identity.NewUser{Profile: identity.Profile{Email: "u@example.com"}}); err != nil {
				return err
			}
			if _, err = payee.AddWorker(ctx, tx, w.by.CompanyID, u.ID, ""); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, "UPDATE companies SET status = 'frozen' WHERE company_id = $1", w.by.CompanyID)
			return err
		})
		manager := identity.Principal{Kind: identity.KindSession, ID: "ses_1", CompanyID: w.by.CompanyID,
			UserID: "usr_manager"}
		app := manager
		app.Kind, app.ID = identity.KindOAuth, "tok_1"
		for _, by := range []identity.Principal{w.by, manager, app} {
			if _, err := w.create(by, w.payee, "BTC", btc); !errors.Is(err, identity.ErrFrozen) {
				t.Errorf("%s adds one: %v", by.Kind, err)
			}
			err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				return destination.Delete(ctx, tx, by, w.payee, was.ID)
			})
			if !errors.Is(err, identity.ErrFrozen) {
				t.Errorf("%s deletes one: %v", by.Kind, err)
			}
		}
		own := identity.Principal{Kind: identity.KindSession, ID: "ses_2", CompanyID: w.by.CompanyID, UserID: u.ID}
		if _, err := w.create(own, u.ID, "BTC", btc); err != nil {
			t.Errorf("their own: %v", err)
		}
	})
}

func TestForOwners(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		for _, data := range []struct{ symbol, data string }{{"EUR", iban}, {"BTC", btc}} {
			if _, err := w.create(w.by, w.payee, data.symbol, data.data); err != nil {
				t.Fatal(err)
			}
		}
		owners := []string{w.payee, w.payee}
		for i := range 10_000 {
			owners = append(owners, fmt.Sprintf("rec_%d", i))
		}
		w.read(func(ctx context.Context, tx *db.Tx) error {
			all, err := destination.ForOwners(ctx, tx, owners)
			if err != nil || len(all) != 1 || len(all[w.payee]) != 2 || all[w.payee][0].Symbol != "EUR" ||
				all[w.payee][1].Address == "" {
				t.Errorf("%+v %v", all, err)
			}
			if none, err := destination.ForOwners(ctx, tx, nil); err != nil || len(none) != 0 {
				t.Errorf("%v %v", none, err)
			}
			r, err := destination.Required(ctx, tx, w.setup, w.by, w.payee, "EUR")
			if err != nil || r.Country != "DE" || len(r.Fields) != 4 {
				t.Errorf("%+v %v", r, err)
			}
			return nil
		})
	})
}
