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
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/testkit/fixture"
	"github.com/stipend/stipend/internal/treasury"
	"github.com/stipend/stipend/internal/withdrawal"
)

func TestNewRefusesAMissingDependency(t *testing.T) {
	for missing, drop := range map[string]func(*claim.Config, *claim.Guards){
		"Pool":            func(c *claim.Config, _ *claim.Guards) { c.Pool = nil },
		"ChainName":       func(c *claim.Config, _ *claim.Guards) { c.ChainName = "" },
		"Network":         func(c *claim.Config, _ *claim.Guards) { c.Network = "" },
		"Validity":        func(c *claim.Config, _ *claim.Guards) { c.Validity = 0 },
		"Withdrawals":     func(c *claim.Config, _ *claim.Guards) { c.Withdrawals = nil },
		"Treasury":        func(c *claim.Config, _ *claim.Guards) { c.Treasury = nil },
		"Sealer":          func(c *claim.Config, _ *claim.Guards) { c.Sealer = nil },
		"CheckWatched":    func(_ *claim.Config, g *claim.Guards) { g.CheckWatched = nil },
		"Screen":          func(_ *claim.Config, g *claim.Guards) { g.Screen = nil },
		"ReleaseApproved": func(_ *claim.Config, g *claim.Guards) { g.ReleaseApproved = nil },
		"Renewable":       func(_ *claim.Config, g *claim.Guards) { g.Renewable = nil },
	} {
		c := claim.Config{
			Pool: &chain.Pool{}, ChainName: network, Network: network, Validity: time.Minute,
			Withdrawals: newWithdrawals(t), Sealer: &identity.Sealer{},
			Treasury: &treasury.Treasury{},
		}
		g := claim.Guards{CheckWatched: allow.Network, Screen: allow.Address, ReleaseApproved: allow.Release,
			Renewable: allow.Renewal}
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
		m.guards.CheckWatched = func(context.Context, *db.Tx, string, time.Time) error { return notWatched }
		if _, err := m.tryCreate(); !errors.Is(err, notWatched) {
			m.Errorf("%v", err)
		}
	})
}

// The price of a claim ends while its chain is not watched. It may have been paid in time, so there is no second price
// before that is known; a payment in time then counts by the time of its block.
func TestPaidWhileTheChainIsNotWatched(t *testing.T) {
	for name, c := range map[string]struct {
		play      string
		end       claim.State
		exception claim.Exception
	}{
		"in time": {"stop, wait 14m, pay 200_000, mine 1, wait 40m, priceless, start",
			claim.Paid, claim.None},
		"late":                     {"stop, wait 16m, pay 200_000, mine 1, wait 40m, start", claim.PaidLate, claim.Late},
		"in time, mined later":     {"wait 14m, pay 200_000, stop, wait 40m, mine 1, start", claim.Paid, claim.None},
		"late, by an old block":    {"wait 16m, mine 1, stop, pay 200_000, mine 1, start", claim.PaidLate, claim.Late},
		"before it is not watched": {"pay 200_000, stop, wait 40m, start, mine 1", claim.Paid, claim.None},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(m *merchant) {
				notWatched := errors.New("not watched until then")
				seen := m.Clock.Now()
				m.guards.CheckWatched = func(_ context.Context, _ *db.Tx, _ string, until time.Time) error {
					if until.After(seen) {
						return notWatched
					}
					return nil
				}
				s := m.open()
				s.Play(c.play, func(verb, rest string) {
					if verb != "priceless" {
						s.step(verb, rest)
						return
					}
					if _, err := fixture.Try(s.Fixture, func(ctx context.Context, tx *db.Tx) (claim.Claim, error) {
						return m.claims.Refresh(ctx, tx, m.By, "", s.id)
					}); !errors.Is(err, notWatched) {
						s.Errorf("a second price while the chain is not watched: %v", err)
					}
				})
				if got := s.is(c.end); got.Exception != c.exception {
					s.Errorf("the exception is %s, want %s", got.Exception, c.exception)
				}
				m.CheckLedger()
			})
		})
	}
}

// newWithdrawals returns a withdrawal service with guards that allow every withdrawal.
func newWithdrawals(t testing.TB) *withdrawal.Service {
	t.Helper()
	s, err := withdrawal.New(withdrawal.Config{
		Setup: destination.Setup{Sealer: &identity.Sealer{}}, AllowUnverified: true,
	}, withdrawal.Guards{TravelRule: allow.Records[payout.Output],
		Screen: allow.Subjects[destination.ScreeningSubject], ReleaseApproved: allow.Release})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
