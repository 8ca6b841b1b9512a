package quote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/rates"
)

const validity = 30 * time.Minute

func params(object string) Params {
	return Params{
		CompanyID: "cmp_1", ObjectID: object, Due: money.New(money.USD, 101_000), Funding: money.BTC,
		Address: "bcrt1q" + object, Network: "regtest", Validity: validity,
	}
}

// run runs a test on both engines with prices that never expire.
func run(t *testing.T, f func(t *testing.T, d *db.DB, clock *dbtest.Clock)) {
	t.Helper()
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		const ever = 1000 * time.Hour
		r := rates.Refresher{DB: d, Sources: []rates.Source{rates.Sandbox()}, Quorum: 1, CryptoLimit: ever,
			FiatLimit: ever}
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(t, d, clock)
	})
}

func write(t *testing.T, d *db.DB, f func(ctx context.Context, tx *db.Tx) error) {
	t.Helper()
	if err := d.Write(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

func makeQuote(t *testing.T, d *db.DB, p Params) Quote {
	t.Helper()
	var q Quote
	write(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
		q, err = Make(ctx, tx, p)
		return err
	})
	return q
}

func renewed(t *testing.T, d *db.DB, p Params) (Quote, error) {
	t.Helper()
	var q Quote
	err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		q, err = Refresh(ctx, tx, p)
		return err
	})
	return q, err
}

func get(t *testing.T, d *db.DB, id string) Quote {
	t.Helper()
	var q Quote
	if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		q, err = Get(ctx, tx, "cmp_1", id)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return q
}

// events returns "name object sequence" of each event, oldest first.
func events(t *testing.T, d *db.DB) (all []string) {
	t.Helper()
	if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		rows, err := tx.Query(ctx,
			"SELECT name, object_id, sequence FROM events WHERE company_id = $1 ORDER BY created_at, name, object_id",
			"cmp_1")
		all, err = db.Collect(rows, err, func(r *db.Rows) (string, error) {
			var name, object string
			var sequence int64
			err := r.Scan(&name, &object, &sequence)
			return fmt.Sprint(name, " ", object, " ", sequence), err
		})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestMakeHoldsThePrice(t *testing.T) {
	run(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		q := makeQuote(t, d, params("prl_1"))
		if q.Funding != money.New(money.BTC, 2_020_000) || q.Rate.String() != "50000" {
			t.Errorf("funding %s at %s", q.Funding, q.Rate)
		}
		if q.State != StateActive || q.Number != 1 || !q.ValidTo.Equal(clock.Now().Add(validity)) {
			t.Errorf("%+v", q)
		}
		if stored := get(t, d, q.ID); stored != q {
			t.Errorf("stored: %s", cmp.Diff(q, stored, cmp.Comparer(func(a, b money.Amount) bool { return a == b }),
				cmp.Comparer(func(a, b money.Rate) bool { return a == b })))
		}
	})
}

func TestMakeWithSpread(t *testing.T) {
	run(t, func(t *testing.T, d *db.DB, _ *dbtest.Clock) {
		p := params("prl_1")
		p.SpreadBps = 50
		q := makeQuote(t, d, p)
		if q.Rate.String() != "49750" || q.Funding.Units() != 2_030_151 { // 1010 / 49750 = 0.020301507…
			t.Errorf("funding %s at %s", q.Funding, q.Rate)
		}
		p = params("prl_2")
		p.Due = money.New(money.EUR, 100_00)
		if q = makeQuote(t, d, p); q.Rate.String() != "46000" || q.Funding.Units() != 217_392 {
			t.Errorf("funding %s at %s", q.Funding, q.Rate)
		}
		p = params("prl_3")
		p.Due = money.New(money.BTC, 20_000)
		p.SpreadBps = 50
		if q = makeQuote(t, d, p); q.Rate.String() != "1" || q.Funding != p.Due {
			t.Errorf("funding in the very asset: %s at %s", q.Funding, q.Rate)
		}
	})
}

func TestMakeRefuses(t *testing.T) {
	run(t, func(t *testing.T, d *db.DB, _ *dbtest.Clock) {
		for _, c := range []struct {
			object string
			due    money.Amount
			want   error
		}{
			{"prl_1", money.New(money.USD, 499), ErrTooSmall}, // 9,980 sat
			{"prl_2", money.New(money.USD, 500), nil},         // 10,000 sat
			{"clm_1", money.New(money.USD, 99), ErrTooSmall},  // 1,980 sat
			{"clm_2", money.New(money.USD, 100), nil},         // 2,000 sat
			{"prl_3", money.Zero(money.USD), ErrTooSmall},
			{"prl_4", money.New("???", 100), rates.ErrUnavailable},
		} {
			p := params(c.object)
			p.Due = c.due
			err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := Make(ctx, tx, p)
				return err
			})
			if !errors.Is(err, c.want) {
				t.Errorf("%s %s: %v, want %v", c.object, c.due.Asset(), err, c.want)
			}
		}
	})
}

func TestASecondActiveQuoteIsRefusedByTheIndex(t *testing.T) {
	run(t, func(t *testing.T, d *db.DB, _ *dbtest.Clock) {
		makeQuote(t, d, params("prl_1"))
		err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			q, err := build(ctx, tx, params("prl_1"), 2)
			if err != nil {
				return err
			}
			if in, err := insert(ctx, tx, q); err != nil || in {
				t.Errorf("inserted: %v, %v", in, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestRefresh(t *testing.T) {
	run(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		if _, err := renewed(t, d, params("prl_1")); !errors.Is(err, ErrNotFound) {
			t.Errorf("without a quote: %v", err)
		}
		first := makeQuote(t, d, params("prl_1"))
		clock.Advance(validity - time.Microsecond)
		if q, err := renewed(t, d, params("prl_1")); err != nil || q != first {
			t.Errorf("an active quote was answered as %v, %v", q, err)
		}
		clock.Advance(time.Microsecond)
		p := params("prl_1")
		p.Due = money.New(money.USD, 100) // a remainder below the minimum of a payroll
		second, err := renewed(t, d, p)
		if err != nil || second.ID == first.ID || second.Number != 2 || second.Funding.Units() != 2000 {
			t.Fatalf("%+v, %v", second, err)
		}
		if q := get(t, d, first.ID); q.State != StateSuperseded || q.Version != 3 {
			t.Errorf("the first is %s, version %d", q.State, q.Version)
		}
		if diff := cmp.Diff([]string{"payroll.quote_expired " + first.ID + " 2", "payroll.quote_refreshed " +
			second.ID + " 1"}, events(t, d)); diff != "" {
			t.Error(diff)
		}
		if foreign, err := renewed(t, d, Params{CompanyID: "cmp_2", ObjectID: "prl_1", Due: p.Due,
			Funding: money.BTC}); !errors.Is(err, ErrNotFound) {
			t.Errorf("another company's: %v, %v", foreign, err)
		}
	})
}

func TestRefreshIsLimited(t *testing.T) {
	run(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		p := params("prl_1")
		p.Validity = time.Minute
		makeQuote(t, d, p)
		for i := range MaxRefreshes {
			clock.Advance(time.Minute)
			if _, err := renewed(t, d, p); err != nil {
				t.Fatalf("refresh %d: %v", i+1, err)
			}
		}
		clock.Advance(time.Minute)
		_, err := renewed(t, d, p)
		f, _ := apierr.As(err)
		if !errors.Is(err, ErrTooMany) || f.Meta["retry_after"] != "3001" {
			t.Fatalf("the 11th: %v %v", err, f)
		}
		clock.Advance(50 * time.Minute)
		if _, err := renewed(t, d, p); err != nil {
			t.Errorf("an hour after the first: %v", err)
		}
	})
}

func TestRefreshByManyAtOnceMakesOneQuote(t *testing.T) {
	run(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		makeQuote(t, d, params("prl_1"))
		clock.Advance(validity)
		var mu sync.Mutex
		ids := map[string]int{}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				q, err := renewed(t, d, params("prl_1"))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				ids[q.ID]++
			})
		}
		wg.Wait()
		if len(ids) != 1 {
			t.Errorf("the answers name %d quotes", len(ids))
		}
		if n := len(events(t, d)); n != 2 {
			t.Errorf("%d events, want one expiry and one refresh", n)
		}
	})
}

func TestTransitions(t *testing.T) {
	accept := func(ctx context.Context, tx *db.Tx, q Quote) error { return Accept(ctx, tx, q.CompanyID, q.ID) }
	reopen := func(ctx context.Context, tx *db.Tx, q Quote) error { return Reopen(ctx, tx, q.CompanyID, q.ID) }
	cancel := func(ctx context.Context, tx *db.Tx, q Quote) error { return Cancel(ctx, tx, q.CompanyID, q.ObjectID) }
	renew := func(ctx context.Context, tx *db.Tx, q Quote) error {
		_, err := Refresh(ctx, tx, params(q.ObjectID))
		return err
	}
	type step struct {
		late bool
		do   func(context.Context, *db.Tx, Quote) error
		err  error
		want State
	}
	for name, steps := range map[string][]step{
		"accepted is locked": {{do: accept, want: StateAccepted}, {do: accept, want: StateAccepted},
			{late: true, do: renew, err: ErrLocked, want: StateAccepted}},
		"accepted is not cancelled": {{do: accept, want: StateAccepted}, {do: cancel, want: StateAccepted}},
		"reopened in time": {{do: accept, want: StateAccepted}, {do: reopen, want: StateActive}, {do: reopen,
			want: StateActive}},
		"reopened too late": {{do: accept, want: StateAccepted}, {late: true, do: reopen, want: StateExpired}},
		"cancelled": {{do: cancel, want: StateCancelled}, {do: accept, err: ErrState,
			want: StateCancelled}, {late: true, do: renew, err: ErrState, want: StateCancelled}},
		"superseded": {{late: true, do: renew, want: StateSuperseded}, {do: accept, err: ErrState,
			want: StateSuperseded}, {do: reopen, want: StateSuperseded}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
				q := makeQuote(t, d, params("prl_1"))
				for i, s := range steps {
					if s.late {
						clock.Advance(validity)
					}
					err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error { return s.do(ctx, tx, q) })
					if !errors.Is(err, s.err) {
						t.Errorf("step %d: %v, want %v", i, err, s.err)
					}
					if got := get(t, d, q.ID); got.State != s.want {
						t.Errorf("step %d: %s, want %s", i, got.State, s.want)
					}
				}
				final := get(t, d, q.ID)
				if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					changes, err := db.Changes(ctx, tx, q.CompanyID, q.ID)
					if int64(len(changes)) != final.Version-1 {
						t.Errorf("%d history rows of a quote at version %d", len(changes), final.Version)
					}
					return err
				}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestExpireDue(t *testing.T) {
	run(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		const n = expireBatch + 20
		write(t, d, func(ctx context.Context, tx *db.Tx) error {
			for i := range n {
				p := params(fmt.Sprintf("prl_%d", i))
				p.CompanyID = fmt.Sprintf("cmp_%d", i%3)
				if _, err := Make(ctx, tx, p); err != nil {
					return err
				}
			}
			p := params("clm_1")
			p.Validity = 2 * validity
			_, err := Make(ctx, tx, p)
			return err
		})
		paid := makeQuote(t, d, params("prl_paid"))
		write(t, d, func(ctx context.Context, tx *db.Tx) error { return Accept(ctx, tx, paid.CompanyID, paid.ID) })
		expire := func(watched func(context.Context, *db.Tx) (time.Time, error)) int {
			t.Helper()
			got, err := ExpireDue(t.Context(), d, params("prl_1").Network, watched)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		clock.Advance(validity - time.Microsecond)
		if got := expire(nil); got != 0 {
			t.Errorf("%d expired before their time", got)
		}
		clock.Advance(time.Hour)
		behind := dbtest.Epoch.Add(validity - time.Second)
		if got := expire(func(context.Context, *db.Tx) (time.Time, error) { return behind, nil }); got != 0 {
			t.Errorf("%d expired while the chain was not watched up to their end", got)
		}
		if got := expire(nil); got != n+1 {
			t.Errorf("%d expired, want %d", got, n+1)
		}
		if got := expire(nil); got != 0 {
			t.Errorf("%d expired twice", got)
		}
		names := map[string]int{}
		for _, e := range events(t, d) {
			names[strings.Fields(e)[0]]++
		}
		if diff := cmp.Diff(map[string]int{"payroll.quote_expired": n / 3, "claim.quote_expired": 1},
			names); diff != "" {
			t.Error(diff)
		}
		if q := get(t, d, paid.ID); q.State != StateAccepted {
			t.Errorf("an accepted quote is %s", q.State)
		}
	})
}

// If the clock jumps back, as after a machine's sleep, a price that has ended does not become valid again.
func TestAPriceThatEndedStaysEnded(t *testing.T) {
	run(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		first := makeQuote(t, d, params("prl_1"))
		clock.Advance(validity)
		if n, err := ExpireDue(t.Context(), d, params("prl_1").Network, nil); n != 1 || err != nil {
			t.Fatalf("%d expired, %v", n, err)
		}
		clock.Advance(-time.Hour)
		if q := get(t, d, first.ID); q.State != StateExpired {
			t.Errorf("an hour back it is %s", q.State)
		}
		if q, err := renewed(t, d, params("prl_1")); err != nil || q.ID == first.ID || q.State != StateActive {
			t.Errorf("%+v, %v", q, err)
		}
	})
}

func TestInForce(t *testing.T) {
	run(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		start := clock.Now()
		p := params("prl_1")
		p.Grace = 10 * time.Second
		first := makeQuote(t, d, p)
		clock.Advance(time.Hour)
		second, err := renewed(t, d, p)
		if err != nil {
			t.Fatal(err)
		}
		clock.Advance(10 * time.Minute)
		write(t, d, func(ctx context.Context, tx *db.Tx) error { return Cancel(ctx, tx, "cmp_1", "prl_1") })
		for _, c := range []struct {
			after  time.Duration
			want   string
			inTime bool
		}{
			{-time.Second, first.ID, false},
			{0, first.ID, true},
			{validity - time.Microsecond, first.ID, true},
			{validity, first.ID, true}, // within the grace
			{validity + 10*time.Second, first.ID, false},
			{time.Hour - time.Microsecond, first.ID, false},
			{time.Hour, second.ID, true},
			{time.Hour + 9*time.Minute, second.ID, true},
			{time.Hour + 10*time.Minute, second.ID, false}, // cancelled
			{48 * time.Hour, second.ID, false},
		} {
			if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				all, err := ForObject(ctx, tx, "cmp_1", "prl_1")
				q, _ := InForce(all, money.BTC, start.Add(c.after))
				if q.ID != c.want || q.Covers(start.Add(c.after)) != c.inTime {
					t.Errorf("after %s: %s in time %v; want %s %v", c.after, q.ID, q.Covers(start.Add(c.after)),
						c.want, c.inTime)
				}
				return err
			}); err != nil {
				t.Error(err)
			}
		}
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if all, err := ForObject(ctx, tx, "cmp_1", "prl_1"); err != nil || len(all) != 2 || all[0].ID != second.ID {
				t.Errorf("all: %v, %v", all, err)
			} else if q, ok := InForce(all, money.ETH, start); ok {
				t.Errorf("in force for an asset without quotes: %v", q)
			}
			if q, err := Last(ctx, tx, "cmp_1", "prl_1", money.BTC); err != nil || q.State == StateActive {
				t.Errorf("after the cancel: %v, %v", q, err)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
}

// The funding amount covers the amount due, and one unit less does not: a payer of the full amount never owes a rest,
// and pays less than one unit too much.
func TestFundingCoversTheDueExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		asset := rapid.SampledFrom([]money.Asset{money.USD, money.JPY, money.KWD, money.EUR}).Draw(t, "asset")
		due := money.New(asset, rapid.Int64Range(1, 1_000_000_000_00).Draw(t, "due"))
		text := fmt.Sprintf("%d.%016d", rapid.Int64Range(1000, 10_000_000).Draw(t, "whole"), rapid.Int64Range(0,
			9_999_999_999_999_999).Draw(t, "part"))
		market, err := money.ParseRate(money.BTC, asset, text)
		if err != nil {
			t.Fatal(err)
		}
		rate, err := shorten(market)
		if err != nil {
			t.Fatal(err)
		}
		if rate.Cmp(market) > 0 {
			t.Fatalf("%s was raised to %s", market, rate)
		}
		if _, decimals, _ := strings.Cut(rate.String(), "."); len(decimals) > 8 {
			t.Fatalf("%s has more than 8 decimals", rate)
		}
		funding, err := rate.Convert(due, money.Ceil)
		if err != nil {
			t.Fatal(err)
		}
		q := Quote{Rate: rate, Due: due, Funding: funding}
		full, err := q.Value(funding)
		if err != nil {
			t.Fatal(err)
		}
		if full.Cmp(due) < 0 {
			t.Fatalf("%s at %s is worth %s, due %s", funding, rate, full, due)
		}
		less, err := q.Value(money.New(money.BTC, funding.Units()-1))
		if err != nil {
			t.Fatal(err)
		}
		if less.Cmp(due) >= 0 {
			t.Fatalf("one unit less than %s is worth %s too, due %s", funding, less, due)
		}
	})
}

func TestShortenKeepsSignificantDigits(t *testing.T) {
	for text, want := range map[string]string{
		"50000":                "50000",
		"50000.123456789":      "50000.12345678",
		"0.0000123456789":      "0.000012345678",
		"0.5":                  "0.5",
		"1.00000000999":        "1",
		"0.000000000000000123": "",
	} {
		r, err := money.ParseRate(money.BTC, money.USD, text)
		if err != nil {
			continue // no rate
		}
		if got, err := shorten(r); err != nil || got.String() != want && want != "" {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
}
