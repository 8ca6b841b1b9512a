package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

func sats(n int64) money.Amount { return money.New(money.BTC, n) }

func post(d *db.DB, source, purpose string, lines ...ledger.Line) error {
	return d.Write(context.Background(), func(_ context.Context, tx *db.Tx) error {
		return ledger.Post(tx, ledger.Journal{CompanyID: "com_1", SourceType: "test", SourceID: source, Purpose: purpose, Lines: lines})
	})
}

func check(t *testing.T, d *db.DB) {
	t.Helper()
	err := d.Read(context.Background(), func(ctx context.Context, tx *db.Tx) error {
		r, err := ledger.Check(ctx, tx)
		for _, p := range r.Problems {
			t.Error(p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func balance(t *testing.T, d *db.DB, c ledger.Code, dim string) (units int64) {
	t.Helper()
	err := d.Read(context.Background(), func(ctx context.Context, tx *db.Tx) error {
		a, err := ledger.Balance(ctx, tx, "com_1", c, dim, money.BTC)
		units = a.Units()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return units
}

func TestWhatDoesNotBalanceIsNotPosted(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		for name, lines := range map[string][]ledger.Line{
			"one-sided":  {ledger.Debit(ledger.HotWallet, "", sats(5))},
			"off by one": {ledger.Debit(ledger.HotWallet, "", sats(5)), ledger.Credit(ledger.Escrow, "p", sats(4))},
			"two assets": {ledger.Debit(ledger.HotWallet, "", sats(5)), ledger.Credit(ledger.Escrow, "p", money.New(money.USD, 5))},
			"negative":   {ledger.Debit(ledger.HotWallet, "", sats(-5)), ledger.Credit(ledger.Escrow, "p", sats(-5))},
			"no account": {ledger.Debit("9999", "", sats(5)), ledger.Credit(ledger.Escrow, "p", sats(5))},
		} {
			if err := post(d, name, "x", lines...); err == nil {
				t.Errorf("%s was posted", name)
			}
		}
		check(t, d)
	})
}

func TestAGuardedAccountIsNeverOverdrawn(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		if err := post(d, "in", "fund", ledger.Debit(ledger.HotWallet, "", sats(1000)), ledger.Credit(ledger.CompanyFunds, "", sats(1000))); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		ok, refused := 0, 0
		for i := range 100 {
			wg.Go(func() {
				err := post(d, fmt.Sprint(i), "spend", ledger.Debit(ledger.CompanyFunds, "", sats(30)), ledger.Credit(ledger.Escrow, "p", sats(30)))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					ok++
				case errors.Is(err, ledger.ErrInsufficient):
					refused++
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if ok != 33 || refused != 67 {
			t.Errorf("%d spent, %d refused", ok, refused)
		}
		if got := balance(t, d, ledger.CompanyFunds, ""); got != 10 {
			t.Errorf("%d are left", got)
		}
		check(t, d)
	})
}

func TestOneFactIsBookedOnce(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		lines := []ledger.Line{ledger.Debit(ledger.HotWallet, "", sats(7)), ledger.Credit(ledger.Escrow, "p", sats(7))}
		if err := post(d, "a", "fund", lines...); err != nil {
			t.Fatal(err)
		}
		if err := post(d, "a", "fund", lines...); !db.IsUnique(err) {
			t.Errorf("the second time: %v", err)
		}
		if got := balance(t, d, ledger.Escrow, "p"); got != 7 {
			t.Errorf("the balance is %d", got)
		}
		if err := post(d, "a", "unfund", ledger.Credit(ledger.HotWallet, "", sats(7)), ledger.Debit(ledger.Escrow, "p", sats(7))); err != nil {
			t.Fatal(err)
		}
		if got := balance(t, d, ledger.Escrow, "p"); got != 0 {
			t.Errorf("after the reversal the balance is %d", got)
		}
		check(t, d)
	})
}

func TestCheckFindsWhatWasTamperedWith(t *testing.T) {
	for name, sql := range map[string]string{
		"a line":            "UPDATE ledger_lines SET amount = amount + 1 WHERE code = '1000'",
		"a balance":         "UPDATE ledger_balances SET balance = balance + 1",
		"a missing line":    "DELETE FROM ledger_lines WHERE code = '2010'",
		"a missing head":    "DELETE FROM ledger_journals",
		"a missing balance": "DELETE FROM ledger_balances",
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Run(t, func(t *testing.T, d *db.DB) {
				if err := post(d, "a", "fund", ledger.Debit(ledger.HotWallet, "", sats(7)), ledger.Credit(ledger.Escrow, "p", sats(7))); err != nil {
					t.Fatal(err)
				}
				err := d.Write(context.Background(), func(ctx context.Context, tx *db.Tx) error {
					if _, err := tx.Exec(ctx, sql); err != nil {
						return err
					}
					r, err := ledger.Check(ctx, tx)
					if len(r.Problems) == 0 {
						t.Error("not found")
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
