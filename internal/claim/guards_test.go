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
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payee/destination"
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
		"Sealer":          func(c *claim.Config, _ *claim.Guards) { c.Sealer = nil },
		"CheckWatched":    func(_ *claim.Config, g *claim.Guards) { g.CheckWatched = nil },
		"Screen":          func(_ *claim.Config, g *claim.Guards) { g.Screen = nil },
		"ReleaseApproved": func(_ *claim.Config, g *claim.Guards) { g.ReleaseApproved = nil },
	} {
		c := claim.Config{
			Pool: &chain.Pool{}, ChainName: network, Network: network, Validity: time.Minute,
			Withdrawals: newWithdrawals(t), Sealer: &identity.Sealer{},
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
	run(t, func(m *merchant) {
		notWatched := errors.New("not watched")
		m.guards.CheckWatched = func(context.Context, *db.Tx) error { return notWatched }
		if _, err := m.tryCreate(); !errors.Is(err, notWatched) {
			m.Errorf("%v", err)
		}
	})
}

// newWithdrawals returns a withdrawal service with guards that allow every withdrawal.
func newWithdrawals(t testing.TB) *withdrawal.Service {
	t.Helper()
	s, err := withdrawal.New(withdrawal.Config{
		Setup: destination.Setup{Sealer: &identity.Sealer{}}, AllowUnverified: true,
	}, withdrawal.Guards{Screen: allow.Subjects[destination.ScreeningSubject], ReleaseApproved: allow.Release})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
