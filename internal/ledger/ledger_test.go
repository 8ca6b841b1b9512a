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
	"github.com/stipend/stipend/internal/testkit"
)

func sats(n int64) money.Amount { return money.New(money.BTC, n) }

// post writes a journal of company com_1.
func post(d *db.DB, source, purpose string, lines ...ledger.Line) error {
	return d.Write(context.Background(), func(_ context.Context, tx *db.Tx) error {
		return ledger.Post(tx, ledger.Journal{
			CompanyID: "com_1", SourceType: "test", SourceID: source, Purpose: purpose, Lines: lines,
		})
	})
}

// transfer returns the lines that debit one account and credit another.
func transfer(units int64, debit ledger.Code, debitDim string, credit ledger.Code, creditDim string) []ledger.Line {
	return []ledger.Line{ledger.Debit(debit, debitDim, sats(units)), ledger.Credit(credit, creditDim, sats(units))}
}

// check reports the problems that ledger.Check finds.
func check(t *testing.T, d *db.DB) {
	t.Helper()
	dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
		r, err := ledger.Check(ctx, tx)
		for _, p := range r.Problems {
			t.Error(p)
		}
		return err
	})
}

func balance(t *testing.T, d *db.DB, c ledger.Code, dim string) (units int64) {
	t.Helper()
	dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
		a, err := ledger.Balance(ctx, tx, "com_1", c, dim, money.BTC)
		units = a.Units()
		return err
	})
	return units
}

func TestPostRefusesInvalidJournals(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		for name, lines := range map[string][]ledger.Line{
			"one-sided":  {ledger.Debit(ledger.HotWallet, "", sats(5))},
			"off by one": {ledger.Debit(ledger.HotWallet, "", sats(5)), ledger.Credit(ledger.Escrow, "p", sats(4))},
			"two assets": {ledger.Debit(ledger.HotWallet, "", sats(5)),
				ledger.Credit(ledger.Escrow, "p", money.New(money.USD, 5))},
			"negative":   transfer(-5, ledger.HotWallet, "", ledger.Escrow, "p"),
			"no account": transfer(5, "9999", "", ledger.Escrow, "p"),
		} {
			if err := post(d, name, "x", lines...); err == nil {
				t.Errorf("%s was posted", name)
			}
		}
		check(t, d)
	})
}

func TestGuardedAccountIsNeverOverdrawn(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		testkit.Check(t, post(d, "in", "fund", transfer(1000, ledger.HotWallet, "", ledger.CompanyFunds, "")...))
		var wg sync.WaitGroup
		var mu sync.Mutex
		ok, refused := 0, 0
		for i := range 100 {
			wg.Go(func() {
				err := post(d, fmt.Sprint(i), "spend", transfer(30, ledger.CompanyFunds, "", ledger.Escrow, "p")...)
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
			t.Errorf("%d transfers succeeded and %d were refused, want 33 and 67", ok, refused)
		}
		if got := balance(t, d, ledger.CompanyFunds, ""); got != 10 {
			t.Errorf("the balance is %d, want 10", got)
		}
		check(t, d)
	})
}

func TestEachFactIsPostedOnce(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		lines := transfer(7, ledger.HotWallet, "", ledger.Escrow, "p")
		testkit.Check(t, post(d, "a", "fund", lines...))
		if err := post(d, "a", "fund", lines...); !db.IsUnique(err) {
			t.Errorf("the second time: %v", err)
		}
		if got := balance(t, d, ledger.Escrow, "p"); got != 7 {
			t.Errorf("the balance is %d", got)
		}
		testkit.Check(t, post(d, "a", "unfund", transfer(7, ledger.Escrow, "p", ledger.HotWallet, "")...))
		if got := balance(t, d, ledger.Escrow, "p"); got != 0 {
			t.Errorf("after the reversal the balance is %d", got)
		}
		check(t, d)
	})
}

func TestCheckFindsChangedRows(t *testing.T) {
	for name, sql := range map[string]string{
		"a changed line":    "UPDATE ledger_lines SET amount = amount + 1 WHERE code = '1000'",
		"a changed balance": "UPDATE ledger_balances SET balance = balance + 1",
		"a missing line":    "DELETE FROM ledger_lines WHERE code = '2010'",
		"a missing journal": "DELETE FROM ledger_journals",
		"a missing balance": "DELETE FROM ledger_balances",
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Run(t, func(t *testing.T, d *db.DB) {
				testkit.Check(t, post(d, "a", "fund", transfer(7, ledger.HotWallet, "", ledger.Escrow, "p")...))
				dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
					if _, err := tx.Exec(ctx, sql); err != nil {
						return err
					}
					r, err := ledger.Check(ctx, tx)
					if len(r.Problems) == 0 {
						t.Error("Check found no problem")
					}
					return err
				})
			})
		})
	}
}

// Transfers in opposite directions between the same accounts lock the balances in the same order. Without that
// PostgreSQL aborts some of them as deadlocks, each after a second.
func TestOppositeTransfersDoNotDeadlock(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		testkit.Check(t, post(d, "fund", "fund", ledger.Debit(ledger.HotWallet, "", sats(2_000_000)),
			ledger.Credit(ledger.Escrow, "a", sats(1_000_000)), ledger.Credit(ledger.Escrow, "b", sats(1_000_000))))
		var all sync.WaitGroup
		for i := range 8 {
			from, to := "a", "b"
			if i%2 == 1 {
				from, to = to, from
			}
			all.Go(func() {
				for n := range 25 {
					err := post(d, fmt.Sprintf("%d-%d", i, n), "transfer", transfer(1, ledger.Escrow, from, ledger.Escrow, to)...)
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		check(t, d)
	})
}

// A balance that differs from its lines is found by the next posting to it and by the check. Then nothing is posted to
// the account until it is right again.
func TestAWrongBalanceIsFrozen(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		noticed := 0
		d.OnNotice(ledger.NoticeDiffers, func() { noticed++ })
		testkit.Check(t, post(d, "a", "fund", transfer(7, ledger.HotWallet, "", ledger.CompanyFunds, "")...))
		testkit.Check(t, post(d, "b", "fund", transfer(5, ledger.HotWallet, "", ledger.Escrow, "p")...))
		spend := func(source string) error {
			return post(d, source, "spend", transfer(3, ledger.CompanyFunds, "", ledger.Escrow, "p")...)
		}
		change := func(by int64) {
			t.Helper()
			dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
				return tx.ExecOne(ctx, "UPDATE ledger_balances SET balance = balance + $1 WHERE code = '2000'", by)
			})
		}
		find := func(frozen int, ended bool) {
			t.Helper()
			got, end, err := ledger.FindDifferences(t.Context(), d)
			if err != nil || len(got) != frozen || end != ended {
				t.Errorf("froze %v, ended %v, %v; want %d, %v", got, end, err, frozen, ended)
			}
			dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
				stopped, err := ledger.StoppedAssets(ctx, tx)
				if all, _ := ledger.Differences(ctx, tx); stopped[money.BTC] != (len(all) > 0) || stopped[money.USD] {
					t.Errorf("stopped %v, differences %v", stopped, all)
				}
				return err
			})
		}
		find(0, false)
		change(100)
		if err := spend("c"); !errors.Is(err, ledger.ErrDiffers) || noticed == 0 {
			t.Errorf("a posting to a wrong balance: %v, noticed %d times", err, noticed)
		}
		testkit.Check(t, post(d, "d", "fund", transfer(5, ledger.HotWallet, "", ledger.Escrow, "p")...))
		find(1, false)
		find(0, false)
		change(-100)
		if err := spend("e"); !errors.Is(err, ledger.ErrDiffers) {
			t.Errorf("a posting to a frozen account: %v", err)
		}
		find(0, true)
		testkit.Check(t, spend("f"))
		if a, b := balance(t, d, ledger.CompanyFunds, ""), balance(t, d, ledger.Escrow, "p"); a != 4 || b != 13 {
			t.Errorf("the balances are %d and %d, want 4 and 13", a, b)
		}
		check(t, d)
	})
}
