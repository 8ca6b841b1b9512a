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
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

const validity = 30 * time.Minute

func params(object string) Params {
	return Params{
		CompanyID: "cmp_1", ObjectID: object, Due: fixture.USD(101_000), Funding: money.BTC,
		Address: "bcrt1q" + object, Network: "regtest", Validity: validity,
	}
}

// env is a database with prices.
type env struct{ *fixture.Fixture }

func run(t *testing.T, f func(x *env)) {
	t.Helper()
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) { f(&env{fixture.New(t, d, clock)}) })
}

func (x *env) make(p Params) Quote {
	x.Helper()
	return fixture.Do(x.Fixture, func(ctx context.Context, tx *db.Tx) (Quote, error) { return Make(ctx, tx, p) })
}

func (x *env) refresh(p Params) (Quote, error) {
	return fixture.Try(x.Fixture, func(ctx context.Context, tx *db.Tx) (Quote, error) { return Refresh(ctx, tx, p) })
}

func (x *env) get(id string) Quote {
	x.Helper()
	return fixture.Get(x.Fixture, func(ctx context.Context, tx *db.Tx) (Quote, error) { return Get(ctx, tx, "cmp_1", id) })
}

// events returns "name object sequence" of each event, oldest first.
func (x *env) events() []string {
	x.Helper()
	return fixture.Get(x.Fixture, func(ctx context.Context, tx *db.Tx) ([]string, error) {
		rows, err := tx.Query(ctx,
			"SELECT name, object_id, sequence FROM events WHERE company_id = $1 ORDER BY created_at, name, object_id",
			"cmp_1")
		return db.Collect(rows, err, func(r *db.Rows) (string, error) {
			var name, object string
			var sequence int64
			err := r.Scan(&name, &object, &sequence)
			return fmt.Sprint(name, " ", object, " ", sequence), err
		})
	})
}

func TestMakeHoldsThePrice(t *testing.T) {
	run(t, func(x *env) {
		q := x.make(params("prl_1"))
		if q.Funding != fixture.Sats(2_020_000) || q.Rate.String() != "50000" {
			x.Errorf("funding %s at %s", q.Funding, q.Rate)
		}
		if q.State != StateActive || q.Number != 1 || !q.ValidTo.Equal(x.Clock.Now().Add(validity)) {
			x.Errorf("%+v", q)
		}
		if stored := x.get(q.ID); stored != q {
			x.Errorf("stored: %s", cmp.Diff(q, stored, cmp.Comparer(func(a, b money.Amount) bool { return a == b }),
				cmp.Comparer(func(a, b money.Rate) bool { return a == b })))
		}
	})
}

func TestMakeWithSpread(t *testing.T) {
	run(t, func(x *env) {
		p := params("prl_1")
		p.SpreadBps = 50
		q := x.make(p)
		if q.Rate.String() != "49750" || q.Funding.Units() != 2_030_151 { // 1010 USD / 49750 = 0.020301507… BTC
			x.Errorf("funding %s at %s", q.Funding, q.Rate)
		}
		p = params("prl_2")
		p.Due = money.New(money.EUR, 100_00)
		if q = x.make(p); q.Rate.String() != "46000" || q.Funding.Units() != 217_392 {
			x.Errorf("funding %s at %s", q.Funding, q.Rate)
		}
		p = params("prl_3")
		p.Due = fixture.Sats(20_000)
		p.SpreadBps = 50
		if q = x.make(p); q.Rate.String() != "1" || q.Funding != p.Due {
			x.Errorf("funding in the same asset: %s at %s", q.Funding, q.Rate)
		}
	})
}

func TestMakeRefuses(t *testing.T) {
	run(t, func(x *env) {
		for _, c := range []struct {
			object string
			due    money.Amount
			want   error
		}{
			{"prl_1", fixture.USD(499), ErrTooSmall}, // worth 9,980 sat
			{"prl_2", fixture.USD(500), nil},         // worth 10,000 sat
			{"clm_1", fixture.USD(99), ErrTooSmall},  // worth 1,980 sat
			{"clm_2", fixture.USD(100), nil},         // worth 2,000 sat
			{"prl_3", money.Zero(money.USD), ErrTooSmall},
			{"prl_4", money.New("???", 100), rates.ErrUnavailable},
		} {
			p := params(c.object)
			p.Due = c.due
			x.WantError(c.want, fixture.Drop(func(ctx context.Context, tx *db.Tx) (Quote, error) { return Make(ctx, tx, p) }))
		}
	})
}

func TestASecondActiveQuoteIsRefusedByTheIndex(t *testing.T) {
	run(t, func(x *env) {
		x.make(params("prl_1"))
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			q, err := build(ctx, tx, params("prl_1"), 2)
			if err != nil {
				return err
			}
			if in, err := insert(ctx, tx, q); err != nil || in {
				x.Errorf("inserted: %v, %v", in, err)
			}
			return nil
		})
	})
}

func TestRefresh(t *testing.T) {
	run(t, func(x *env) {
		if _, err := x.refresh(params("prl_1")); !errors.Is(err, ErrNotFound) {
			x.Errorf("without a quote: %v", err)
		}
		first := x.make(params("prl_1"))
		x.Clock.Advance(validity - time.Microsecond)
		if q, err := x.refresh(params("prl_1")); err != nil || q != first {
			x.Errorf("an active quote was answered as %v, %v", q, err)
		}
		x.Clock.Advance(time.Microsecond)
		p := params("prl_1")
		p.Due = fixture.USD(100) // a remainder below the minimum of a payroll
		second, err := x.refresh(p)
		if err != nil || second.ID == first.ID || second.Number != 2 || second.Funding.Units() != 2000 {
			x.Fatalf("%+v, %v", second, err)
		}
		if q := x.get(first.ID); q.State != StateSuperseded || q.Version != 3 {
			x.Errorf("the first is %s, version %d", q.State, q.Version)
		}
		if diff := cmp.Diff([]string{"payroll.quote_expired " + first.ID + " 2", "payroll.quote_refreshed " +
			second.ID + " 1"}, x.events()); diff != "" {
			x.Error(diff)
		}
		if foreign, err := x.refresh(Params{CompanyID: "cmp_2", ObjectID: "prl_1", Due: p.Due,
			Funding: money.BTC}); !errors.Is(err, ErrNotFound) {
			x.Errorf("another company's: %v, %v", foreign, err)
		}
	})
}

func TestRefreshIsLimited(t *testing.T) {
	run(t, func(x *env) {
		p := params("prl_1")
		p.Validity = time.Minute
		x.make(p)
		for i := range MaxRefreshes {
			x.Clock.Advance(time.Minute)
			if _, err := x.refresh(p); err != nil {
				x.Fatalf("refresh %d: %v", i+1, err)
			}
		}
		x.Clock.Advance(time.Minute)
		_, err := x.refresh(p)
		f, _ := apierr.As(err)
		if !errors.Is(err, ErrTooMany) || f.Meta["retry_after"] != "3001" {
			x.Fatalf("the 11th: %v %v", err, f)
		}
		x.Clock.Advance(50 * time.Minute)
		if _, err := x.refresh(p); err != nil {
			x.Errorf("an hour after the first: %v", err)
		}
	})
}

func TestRefreshByManyAtOnceMakesOneQuote(t *testing.T) {
	run(t, func(x *env) {
		x.make(params("prl_1"))
		x.Clock.Advance(validity)
		var mu sync.Mutex
		ids := map[string]int{}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				q, err := x.refresh(params("prl_1"))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					x.Error(err)
				}
				ids[q.ID]++
			})
		}
		wg.Wait()
		if len(ids) != 1 {
			x.Errorf("the answers name %d quotes", len(ids))
		}
		if n := len(x.events()); n != 2 {
			x.Errorf("%d events, want one expiry and one refresh", n)
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
		"reopened in time": {{do: accept, want: StateAccepted}, {do: reopen, want: StateActive},
			{do: reopen, want: StateActive}},
		"reopened too late": {{do: accept, want: StateAccepted}, {late: true, do: reopen, want: StateExpired}},
		"cancelled": {{do: cancel, want: StateCancelled}, {do: accept, err: ErrState, want: StateCancelled},
			{late: true, do: renew, err: ErrState, want: StateCancelled}},
		"superseded": {{late: true, do: renew, want: StateSuperseded}, {do: accept, err: ErrState, want: StateSuperseded},
			{do: reopen, want: StateSuperseded}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(x *env) {
				q := x.make(params("prl_1"))
				for i, s := range steps {
					if s.late {
						x.Clock.Advance(validity)
					}
					x.WantError(s.err, func(ctx context.Context, tx *db.Tx) error { return s.do(ctx, tx, q) })
					if got := x.get(q.ID); got.State != s.want {
						x.Errorf("step %d: %s, want %s", i, got.State, s.want)
					}
				}
				final := x.get(q.ID)
				x.WantCount(final.Version-1, "history WHERE company_id = $1 AND object_id = $2", q.CompanyID, q.ID)
			})
		})
	}
}

func TestExpireDue(t *testing.T) {
	run(t, func(x *env) {
		const n = expireBatch + 20
		x.Write(func(ctx context.Context, tx *db.Tx) error {
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
		paid := x.make(params("prl_paid"))
		x.Write(func(ctx context.Context, tx *db.Tx) error { return Accept(ctx, tx, paid.CompanyID, paid.ID) })
		expire := func(watched func(context.Context, *db.Tx) (time.Time, error)) int {
			x.Helper()
			got, err := ExpireDue(x.Context(), x.DB, params("prl_1").Network, watched)
			if err != nil {
				x.Fatal(err)
			}
			return got
		}
		x.Clock.Advance(validity - time.Microsecond)
		if got := expire(nil); got != 0 {
			x.Errorf("%d expired before their time", got)
		}
		x.Clock.Advance(time.Hour)
		behind := dbtest.Epoch.Add(validity - time.Second)
		if got := expire(func(context.Context, *db.Tx) (time.Time, error) { return behind, nil }); got != 0 {
			x.Errorf("%d expired while the chain was not watched up to their end", got)
		}
		if got := expire(nil); got != n+1 {
			x.Errorf("%d expired, want %d", got, n+1)
		}
		if got := expire(nil); got != 0 {
			x.Errorf("%d expired twice", got)
		}
		names := map[string]int{}
		for _, e := range x.events() {
			names[strings.Fields(e)[0]]++
		}
		if diff := cmp.Diff(map[string]int{"payroll.quote_expired": n / 3, "claim.quote_expired": 1},
			names); diff != "" {
			x.Error(diff)
		}
		if q := x.get(paid.ID); q.State != StateAccepted {
			x.Errorf("an accepted quote is %s", q.State)
		}
	})
}

// If the clock jumps back, as after a machine's sleep, a price that has ended does not become valid again.
func TestAPriceThatEndedStaysEnded(t *testing.T) {
	run(t, func(x *env) {
		first := x.make(params("prl_1"))
		x.Clock.Advance(validity)
		if n, err := ExpireDue(x.Context(), x.DB, params("prl_1").Network, nil); n != 1 || err != nil {
			x.Fatalf("%d expired, %v", n, err)
		}
		x.Clock.Advance(-time.Hour)
		if q := x.get(first.ID); q.State != StateExpired {
			x.Errorf("an hour back it is %s", q.State)
		}
		if q, err := x.refresh(params("prl_1")); err != nil || q.ID == first.ID || q.State != StateActive {
			x.Errorf("%+v, %v", q, err)
		}
	})
}

func TestInForce(t *testing.T) {
	run(t, func(x *env) {
		start := x.Clock.Now()
		p := params("prl_1")
		p.Grace = 10 * time.Second
		first := x.make(p)
		x.Clock.Advance(time.Hour)
		second, err := x.refresh(p)
		if err != nil {
			x.Fatal(err)
		}
		x.Clock.Advance(10 * time.Minute)
		x.Write(func(ctx context.Context, tx *db.Tx) error { return Cancel(ctx, tx, "cmp_1", "prl_1") })
		all := fixture.Get(x.Fixture, func(ctx context.Context, tx *db.Tx) ([]Quote, error) {
			return ForObject(ctx, tx, "cmp_1", "prl_1")
		})
		for _, c := range []struct {
			after  time.Duration
			want   string
			inTime bool
		}{
			{-time.Second, first.ID, false},
			{0, first.ID, true},
			{validity - time.Microsecond, first.ID, true},
			{validity, first.ID, true}, // within the grace period
			{validity + 10*time.Second, first.ID, false},
			{time.Hour - time.Microsecond, first.ID, false},
			{time.Hour, second.ID, true},
			{time.Hour + 9*time.Minute, second.ID, true},
			{time.Hour + 10*time.Minute, second.ID, false}, // the second quote was cancelled
			{48 * time.Hour, second.ID, false},
		} {
			at := start.Add(c.after)
			if q, _ := InForce(all, money.BTC, at); q.ID != c.want || q.Covers(at) != c.inTime {
				x.Errorf("after %s: %s in time %v; want %s %v", c.after, q.ID, q.Covers(at), c.want, c.inTime)
			}
		}
		if len(all) != 2 || all[0].ID != second.ID {
			x.Errorf("all: %v", all)
		}
		if q, ok := InForce(all, money.ETH, start); ok {
			x.Errorf("in force for an asset without quotes: %v", q)
		}
		last := fixture.Get(x.Fixture, func(ctx context.Context, tx *db.Tx) (Quote, error) {
			return Last(ctx, tx, "cmp_1", "prl_1", money.BTC)
		})
		if last.State == StateActive {
			x.Errorf("after the cancellation: %v", last)
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
		market := fixture.Rate(money.BTC, asset, text)
		rate := testkit.Must(shorten(market))
		if rate.Cmp(market) > 0 {
			t.Fatalf("%s was raised to %s", market, rate)
		}
		if _, decimals, _ := strings.Cut(rate.String(), "."); len(decimals) > 8 {
			t.Fatalf("%s has more than 8 decimals", rate)
		}
		funding := testkit.Must(rate.Convert(due, money.Ceil))
		q := Quote{Rate: rate, Due: due, Funding: funding}
		full := testkit.Must(q.Value(funding))
		if full.Cmp(due) < 0 {
			t.Fatalf("%s at %s is worth %s, due %s", funding, rate, full, due)
		}
		less := testkit.Must(q.Value(fixture.Sats(funding.Units() - 1)))
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
			continue // the text is not a rate
		}
		if got, err := shorten(r); err != nil || got.String() != want && want != "" {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
}
