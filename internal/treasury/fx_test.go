package treasury

import (
	"context"
	"errors"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/rates"
)

func sats(n int64) money.Amount  { return money.New(money.BTC, n) }
func cents(n int64) money.Amount { return money.New(money.USD, n) }

var kraken = Place{PlaceExchange, "kraken"}

// house is a database with prices, and helpers that fail the test.
type house struct {
	*testing.T
	d *db.DB
}

func run(t *testing.T, f func(h house)) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		const ever = 1 << 60
		r := rates.Refresher{DB: d, Sources: []rates.Source{rates.Sandbox()}, Quorum: 1, CryptoLimit: ever, FiatLimit: ever}
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		h := house{t, d}
		f(h)
		h.read(func(ctx context.Context, tx *db.Tx) error {
			report, err := ledger.Check(ctx, tx)
			if len(report.Problems) > 0 {
				t.Errorf("the books: %v", report.Problems)
			}
			return err
		})
	})
}

func (h house) read(f func(context.Context, *db.Tx) error) {
	h.Helper()
	if err := h.d.Read(h.Context(), f); err != nil {
		h.Fatal(err)
	}
}

// book says what became of a booking.
func (h house) book(f func(context.Context, *db.Tx) (bool, error)) (booked bool, err error) {
	err = h.d.Write(h.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		booked, err = f(ctx, tx)
		return err
	})
	return booked, err
}

func (h house) want(what string, booked bool, target error, f func(context.Context, *db.Tx) (bool, error)) {
	h.Helper()
	got, err := h.book(f)
	if got != booked || !errors.Is(err, target) {
		h.Errorf("%s: booked %v, %v; want %v, %v", what, got, err, booked, target)
	}
}

func (h house) deposit(p Place, reference string, x money.Amount) func(context.Context, *db.Tx) (bool, error) {
	return func(ctx context.Context, tx *db.Tx) (bool, error) {
		return Deposit(ctx, tx, Booking{p, reference}, x)
	}
}

func TestWhatTheOperatorDoesIsBookedOnce(t *testing.T) {
	run(t, func(h house) {
		var d Desk
		bank := Place{Kind: PlaceBank}
		h.want("a deposit", true, nil, h.deposit(kraken, "1", sats(100)))
		h.want("the same again", false, nil, h.deposit(kraken, "1", sats(100)))
		h.want("another under its reference", false, ErrBooked, h.deposit(kraken, "1", sats(101)))
		h.want("the same reference elsewhere", true, nil, h.deposit(bank, "1", cents(50)))
		h.want("no reference", false, errName, h.deposit(bank, " ", cents(50)))
		h.want("nothing", false, errNothing, h.deposit(bank, "2", cents(0)))
		h.want("under a mattress", false, errPlace, h.deposit(Place{Kind: "mattress"}, "2", cents(1)))

		trade := func(reference string, given, got money.Amount) func(context.Context, *db.Tx) (bool, error) {
			return func(ctx context.Context, tx *db.Tx) (bool, error) {
				return d.Trade(ctx, tx, Booking{kraken, reference}, given, got)
			}
		}
		h.want("a trade of more than is there", false, ErrShort, trade("t1", sats(101), cents(1)))
		h.want("a trade", true, nil, trade("t1", sats(60), cents(30)))
		h.want("a trade for itself", false, errSame, trade("t2", sats(10), sats(10)))

		move := func(reference string, x money.Amount) func(context.Context, *db.Tx) (bool, error) {
			return func(ctx context.Context, tx *db.Tx) (bool, error) {
				return d.Move(ctx, tx, Booking{kraken, reference}, bank, x)
			}
		}
		h.want("a move of more than is there", false, ErrShort, move("m1", cents(31)))
		holds := func(code ledger.Code, dim string, want money.Amount) {
			t.Helper()
			h.read(func(ctx context.Context, tx *db.Tx) error {
				got, err := ledger.Balance(ctx, tx, ledger.Operator, code, dim, want.Asset())
				if got != want {
					t.Errorf("account %s %s has %s %s, want %s", code, dim, got, got.Asset(), want)
				}
				return err
			})
		}
		holds(ledger.Exchange, "kraken", sats(40))
		holds(ledger.Exchange, "kraken", cents(30))
		holds(ledger.FXPosition, "", sats(40)) // 100 were brought in, 60 given
		holds(ledger.FXPosition, "", cents(80))
		h.want("a move", true, nil, move("m1", cents(30)))
		holds(ledger.Exchange, "kraken", cents(0))
		holds(ledger.Bank, "", cents(80))

		h.read(func(ctx context.Context, tx *db.Tx) error {
			own, err := ledger.OperatorBalances(ctx, tx, money.BTC, money.USD)
			if own[money.BTC] != sats(0) || own[money.USD] != cents(80) {
				t.Errorf("at hand: %v", own)
			}
			return err
		})
		withdraw := func(reference string, x money.Amount) func(context.Context, *db.Tx) (bool, error) {
			return func(ctx context.Context, tx *db.Tx) (bool, error) {
				return d.Withdraw(ctx, tx, Booking{bank, reference}, x)
			}
		}
		h.want("what companies have at the bank", false, ErrShort, func(ctx context.Context, tx *db.Tx) (bool, error) {
			if err := ledger.Post(tx, ledger.Journal{CompanyID: "com_1", SourceType: "test", SourceID: "1", Purpose: "credit", Lines: []ledger.Line{
				ledger.Debit(ledger.Bank, "", cents(1_000)), ledger.Credit(ledger.CompanyFunds, "", cents(1_000)),
			}}); err != nil {
				return false, err
			}
			return withdraw("w1", cents(81))(ctx, tx)
		})
		h.want("what the house has", true, nil, withdraw("w1", cents(80)))
		h.want("coins that are elsewhere", false, ErrShort, func(ctx context.Context, tx *db.Tx) (bool, error) {
			err := d.Give(ctx, tx, "out_1", sats(1))
			return err == nil, err
		})
	})
}

func TestLimitsAreSensible(t *testing.T) {
	run(t, func(h house) {
		for _, c := range []struct {
			l    Limit
			want error
		}{
			{Limit{Asset: money.BTC, Least: sats(-1)}, errCrypto},
			{Limit{Asset: money.USD, Least: cents(10), Upper: cents(9)}, errOrder},
			{Limit{Asset: money.USD, Least: cents(10), Most: cents(0)}, errNothing},
			{Limit{Asset: money.USD, Least: cents(-10), Upper: cents(0), Most: cents(5)}, nil},
			{Limit{Asset: money.USD, Least: cents(-20)}, nil},
		} {
			if err := h.d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error { return SetLimit(ctx, tx, c.l) }); !errors.Is(err, c.want) {
				t.Errorf("%+v: %v, want %v", c.l, err, c.want)
			}
		}
		h.read(func(ctx context.Context, tx *db.Tx) error {
			limits, err := loadLimits(ctx, tx)
			if got := limits[money.USD]; len(limits) != 1 || got.Least != cents(-20) || got.Upper.Asset() != "" || got.Most.Asset() != "" {
				t.Errorf("%+v", limits)
			}
			changes, err2 := db.Changes(ctx, tx, ledger.Operator, "fx_limit_USD")
			if len(changes) != 2 {
				t.Errorf("%d changes are kept", len(changes))
			}
			return errors.Join(err, err2)
		})
	})
}

func TestTheReportSaysWhatToDo(t *testing.T) {
	run(t, func(h house) {
		eur := func(n int64) money.Amount { return money.New(money.EUR, n) }
		h.want("dollars", true, nil, h.deposit(Place{Kind: PlaceBank}, "1", cents(100_00)))
		h.want("coins away", true, nil, h.deposit(kraken, "1", sats(3_000_000)))
		if err := h.d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			// What a pay run of bitcoins to somebody with euros leaves behind.
			if err := ledger.Post(tx, ledger.Journal{CompanyID: "com_1", SourceType: "payroll", SourceID: "prl_1", Purpose: "release", Lines: []ledger.Line{
				ledger.Debit(ledger.HotWallet, "", sats(1_000_000)), ledger.Credit(ledger.FXPosition, "", sats(1_000_000)),
				ledger.Debit(ledger.FXPosition, "", eur(460_00)), ledger.Credit(ledger.OutputPayable, "out_1", eur(460_00)),
			}}); err != nil {
				return err
			}
			return errors.Join(
				SetLimit(ctx, tx, Limit{Asset: money.BTC, Least: sats(0), Upper: sats(2_500_000)}),
				SetLimit(ctx, tx, Limit{Asset: money.EUR, Least: eur(-400_00)}),
				SetLimit(ctx, tx, Limit{Asset: money.GBP, Least: money.Zero(money.GBP)}))
		}); err != nil {
			t.Fatal(err)
		}
		h.read(func(ctx context.Context, tx *db.Tx) error {
			r, err := Desk{Open: true}.Hedging(ctx, tx)
			if err != nil {
				return err
			}
			by := map[money.Asset]Position{}
			for _, p := range r.Positions {
				by[p.Asset] = p
			}
			if p := by[money.BTC]; len(r.Positions) != 4 || p.AtHand != sats(1_000_000) || p.Away != sats(3_000_000) || p.Room != sats(1_000_000) || p.Hedge != sats(-1_500_000) || p.Value != cents(2_000_00) {
				t.Errorf("%+v", p)
			}
			if p := by[money.EUR]; p.AtHand != eur(-460_00) || !p.Room.IsZero() || p.Hedge != eur(60_00) {
				t.Errorf("%+v", p)
			}
			if p := by[money.USD]; p.Bounded || p.Value != cents(100_00) {
				t.Errorf("%+v", p)
			}
			sum := cents(0)
			for _, p := range r.Positions {
				if sum, err = sum.Add(p.Value); err != nil {
					return err
				}
			}
			if r.Result != sum || len(r.Unpriced) != 0 {
				t.Errorf("%s in all, without %v", r.Result, r.Unpriced)
			}
			return nil
		})
	})
}
