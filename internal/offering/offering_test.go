package offering

import (
	"context"
	"errors"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
)

// TestChangeIsOnlyFromTheNamedState checks that a change fails if the asset is in another state.
func TestChangeIsOnlyFromTheNamedState(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if err := Set(ctx, tx, money.USDC, StopAll); err != nil {
				return err
			}
			if done, err := Change(ctx, tx, money.USDC, StopNew, Offered); done || err != nil {
				t.Errorf("from another state: %v, %v", done, err)
			}
			if s, err := Of(ctx, tx, money.USDC); s != StopAll || err != nil {
				t.Errorf("%s, %v", s, err)
			}
			done, err := Change(ctx, tx, money.USDC, StopAll, StopNew)
			if !done {
				t.Error("it was not changed")
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			s, err := Of(ctx, tx, money.USDC)
			if s != StopNew {
				t.Errorf("it is %s", s)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestSwitches checks what each state stops, that an asset without a switch is offered, and that switches are listed.
func TestSwitches(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		for _, c := range []struct {
			set     State
			refused bool
			stopped int
		}{{"", false, 0}, {StopNew, true, 0}, {StopAll, true, 1}, {Offered, false, 0}} {
			if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				if c.set == "" {
					return db.SetSetting(ctx, tx, "another.setting", "stop_all")
				}
				return Set(ctx, tx, money.USDC, c.set)
			}); err != nil {
				t.Fatal(err)
			}
			if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				if err := Check(ctx, tx, money.USDC); errors.Is(err, ErrStopped) != c.refused || err != nil && !c.refused {
					t.Errorf("%q: %v", c.set, err)
				}
				if err := Check(ctx, tx, money.BTC); err != nil {
					t.Errorf("%q: BTC: %v", c.set, err)
				}
				stopped, err := Stopped(ctx, tx)
				if len(stopped) != c.stopped || c.stopped == 1 && !stopped[money.USDC] {
					t.Errorf("%q: stopped %v", c.set, stopped)
				}
				return err
			}, Key(money.USDC)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
