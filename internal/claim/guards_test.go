package claim_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/withdrawal"
)

func TestNewRefusesAMissingDependency(t *testing.T) {
	for missing, drop := range map[string]func(*claim.Config, *claim.Guards){
		"Pool":            func(c *claim.Config, _ *claim.Guards) { c.Pool = nil },
		"ChainName":       func(c *claim.Config, _ *claim.Guards) { c.ChainName = "" },
		"Network":         func(c *claim.Config, _ *claim.Guards) { c.Network = "" },
		"Validity":        func(c *claim.Config, _ *claim.Guards) { c.Validity = 0 },
		"Withdrawals":     func(c *claim.Config, _ *claim.Guards) { c.Withdrawals = nil },
		"CheckWatched":    func(_ *claim.Config, g *claim.Guards) { g.CheckWatched = nil },
		"Screen":          func(_ *claim.Config, g *claim.Guards) { g.Screen = nil },
		"ReleaseApproved": func(_ *claim.Config, g *claim.Guards) { g.ReleaseApproved = nil },
	} {
		c := claim.Config{
			Pool: &chain.Pool{}, ChainName: network, Network: network, Validity: time.Minute,
			Withdrawals: newWithdrawals(t),
		}
		g := claim.Guards{CheckWatched: allow.Chain, Screen: allow.Address, ReleaseApproved: allow.Release}
		if _, err := claim.New(c, g); err != nil {
			t.Fatal(err)
		}
		drop(&c, &g)
		if s, err := claim.New(c, g); err == nil || s != nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}

func TestNoClaimWhileTheChainIsNotWatched(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		till := newTill(t, d, clock, simLab{bitcoinsim.New(d)})
		blind := errors.New("not watched")
		till.guards.CheckWatched = func(context.Context, *db.Tx) error { return blind }
		if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := till.claims.Create(ctx, tx, till.by, claim.CreateParams{PayerID: "customer", AmountText: "100",
				Currency: "USD"})
			return err
		}); !errors.Is(err, blind) {
			t.Errorf("%v", err)
		}
	})
}

// newWithdrawals returns a withdrawal service whose guards allow everything.
func newWithdrawals(t *testing.T) *withdrawal.Service {
	t.Helper()
	s, err := withdrawal.New(withdrawal.Config{
		Setup: destination.Setup{Sealer: &identity.Sealer{}}, AllowUnverified: true,
	}, withdrawal.Guards{Screen: allow.Subjects[destination.ScreeningSubject], ReleaseApproved: allow.Release})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
