package payer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/invoice/payer"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// The first Ensure stores a payer, and later ones do not change its name. Get does not find another company's payer.
func TestEnsureAndGet(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := &fixture.Fixture{TB: t, DB: d, Clock: clock}
		for i, want := range []bool{true, false} {
			x.Write(func(ctx context.Context, tx *db.Tx) error {
				wrote, err := payer.Ensure(ctx, tx, payer.Payer{
					OwnerID: "com_1", ID: "pyr_1", Name: []string{"First", "Second"}[i], Email: "a@b.example", Type: payer.Client,
					Currency: "USD", Status: payer.Active,
				})
				if wrote != want {
					t.Errorf("Ensure %d wrote %v, want %v", i, wrote, want)
				}
				return err
			})
		}
		x.Read(func(ctx context.Context, tx *db.Tx) error {
			p, err := payer.Get(ctx, tx, "com_1", "pyr_1")
			if err != nil {
				return err
			}
			if p.Name != "First" || p.Status != payer.Active || p.CreatedAt.IsZero() {
				t.Errorf("Get = %+v", p)
			}
			if _, err := payer.Get(ctx, tx, "com_2", "pyr_1"); !errors.Is(err, payer.ErrNotFound) {
				t.Errorf("another company's payer: %v, want ErrNotFound", err)
			}
			return nil
		})
	})
}
