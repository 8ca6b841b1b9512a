package payroll

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/treasury"
)

func TestNewRefusesAMissingDependency(t *testing.T) {
	for missing, drop := range map[string]func(*Config, *Guards){
		"Pool":            func(c *Config, _ *Guards) { c.Pool = nil },
		"ChainName":       func(c *Config, _ *Guards) { c.ChainName = "" },
		"Network":         func(c *Config, _ *Guards) { c.Network = "" },
		"QuoteValidity":   func(c *Config, _ *Guards) { c.QuoteValidity = 0 },
		"Treasury":        func(c *Config, _ *Guards) { c.Treasury = nil },
		"Sealer":          func(c *Config, _ *Guards) { c.Sealer = nil },
		"CheckWatched":    func(_ *Config, g *Guards) { g.CheckWatched = nil },
		"Screen":          func(_ *Config, g *Guards) { g.Screen = nil },
		"ReleasePlanned":  func(_ *Config, g *Guards) { g.ReleasePlanned = nil },
		"ReleaseApproved": func(_ *Config, g *Guards) { g.ReleaseApproved = nil },
		"PayeesApproved":  func(_ *Config, g *Guards) { g.PayeesApproved = nil },
		"TravelRule":      func(_ *Config, g *Guards) { g.TravelRule = nil },
	} {
		c := Config{Pool: &chain.Pool{}, ChainName: "regtest", Network: "regtest", QuoteValidity: time.Minute,
			Treasury: &treasury.Treasury{}, Sealer: &identity.Sealer{}}
		g := Guards{TravelRule: allow.Records[payout.Output],
			CheckWatched: allow.Network, Screen: allow.Subjects[destination.ScreeningSubject],
			ReleasePlanned: allow.Release, ReleaseApproved: allow.Release, PayeesApproved: allow.Payees}
		if _, err := New(c, g); err != nil {
			t.Fatal(err)
		}
		drop(&c, &g)
		if s, err := New(c, g); err == nil || s != nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}

// Without AllowUnverified, an unverified company creates no payroll.
func TestAnUnverifiedCompanyCreatesNoPayroll(t *testing.T) {
	run(t, func(h *env) {
		h.s.AllowUnverified = Config{}.AllowUnverified
		if _, err := h.tryCreate(CreateParams{ToPay: worked}); !errors.Is(err, ErrUnverified) {
			t.Errorf("an unverified company: %v", err)
		}
		h.Write(func(ctx context.Context, tx *db.Tx) error {
			return identity.SetKYBStatus(ctx, tx, h.By.CompanyID, identity.KYBApproved)
		})
		h.create(CreateParams{ToPay: worked})
	})
}

// No money is paid while any one guard refuses.
func TestNoMoneyMovesWithoutEveryGuard(t *testing.T) {
	broken := errors.New("the guard is broken")
	type subject = destination.ScreeningSubject
	// screen returns a guard that blocks some of a company and its payees.
	screen := func(blocked func(company string, payees []subject) []string, err error) func(*Guards) {
		return func(g *Guards) {
			g.Screen = func(_ context.Context, _ *db.Tx, company string, payees []subject) (map[string]bool, error) {
				ids := map[string]bool{}
				for _, id := range blocked(company, payees) {
					ids[id] = true
				}
				return ids, err
			}
		}
	}
	approve := func(err error) func(*Guards) {
		return func(g *Guards) {
			g.ReleaseApproved = func(context.Context, *db.Tx, string, string, money.Amount) (bool, error) { return false, err }
		}
	}
	// record returns a guard of the travel rule that gives a reason for every payment.
	record := func(reason string, err error) func(*Guards) {
		return func(g *Guards) {
			g.TravelRule = func(_ context.Context, _ *db.Tx, outs []payout.Output) (map[string]string, error) {
				missing := map[string]string{}
				for _, o := range outs {
					missing[o.PaymentID] = reason
				}
				return missing, err
			}
		}
	}
	for name, change := range map[string]func(*Guards){
		"every record lacks data":    record(ReasonProof, nil),
		"the records are not stored": record("", broken),
		"screening is unavailable":   screen(func(string, []subject) []string { return nil }, screening.ErrUnavailable),
		"screening fails":            screen(func(string, []subject) []string { return nil }, broken),
		"the company is blocked":     screen(func(company string, _ []subject) []string { return []string{company} }, nil),
		"every payee is blocked": screen(func(_ string, payees []subject) (ids []string) {
			for _, p := range payees {
				ids = append(ids, p.ID)
			}
			return ids
		}, nil),
		"the release is not approved": approve(nil),
		"the approval cannot be read": approve(broken),
		"a payee is paid too much": func(g *Guards) {
			g.PayeesApproved = func(context.Context, *db.Tx, string, string, map[string]money.Amount) (bool, error) {
				return false, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *env) {
				p := h.funded(worked...)
				change(&h.s.guards)
				err := h.DB.Write(h.Context(), h.Job(h.s.Release, "payroll_id", p.ID))
				if err != nil && !errors.Is(err, broken) {
					h.Fatal(err)
				}
				h.WantCount(0, "outputs")
			})
		})
	}
}

func TestNoQuoteWhileTheChainIsNotWatched(t *testing.T) {
	run(t, func(h *env) {
		notWatched := errors.New("not watched")
		h.s.guards.CheckWatched = func(context.Context, *db.Tx, string, time.Time) error { return notWatched }
		if _, err := h.tryCreate(CreateParams{ToPay: worked}); !errors.Is(err, notWatched) {
			h.Errorf("%v", err)
		}
		h.WantCount(0, "quotes")
		h.WantCount(0, "payrolls")
	})
}
