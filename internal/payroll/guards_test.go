package payroll

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
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
		"CheckWatched":    func(_ *Config, g *Guards) { g.CheckWatched = nil },
		"Screen":          func(_ *Config, g *Guards) { g.Screen = nil },
		"ReleaseApproved": func(_ *Config, g *Guards) { g.ReleaseApproved = nil },
	} {
		c := Config{Pool: &chain.Pool{}, ChainName: "regtest", Network: "regtest", QuoteValidity: time.Minute,
			Treasury: &treasury.Treasury{}}
		g := Guards{CheckWatched: allow.Network, Screen: allow.Subjects[destination.ScreeningSubject],
			ReleaseApproved: allow.Release}
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
	run(t, func(h *fixture) {
		h.s.AllowUnverified = Config{}.AllowUnverified
		if _, err := h.tryCreate(CreateParams{ToPay: worked}); !errors.Is(err, ErrUnverified) {
			t.Errorf("an unverified company: %v", err)
		}
		h.write(func(ctx context.Context, tx *db.Tx) error {
			return identity.SetKYBStatus(ctx, tx, h.by.CompanyID, identity.KYBApproved)
		})
		h.create(CreateParams{ToPay: worked})
	})
}

// No money is paid while any one guard refuses.
func TestNoMoneyMovesWithoutEveryGuard(t *testing.T) {
	broken := errors.New("the guard is broken")
	for name, change := range map[string]func(*Guards){
		"nobody can be screened": func(g *Guards) {
			g.Screen = func(context.Context, *db.Tx, string, []destination.ScreeningSubject) (map[string]bool, error) {
				return nil, screening.ErrUnavailable
			}
		},
		"the company is blocked": func(g *Guards) {
			g.Screen = func(_ context.Context, _ *db.Tx, companyID string, _ []destination.ScreeningSubject) (map[string]bool,
				error) {
				return map[string]bool{companyID: true}, nil
			}
		},
		"every payee is blocked": func(g *Guards) {
			g.Screen = func(_ context.Context, _ *db.Tx, _ string, payees []destination.ScreeningSubject) (map[string]bool,
				error) {
				blocked := map[string]bool{}
				for _, p := range payees {
					blocked[p.ID] = true
				}
				return blocked, nil
			}
		},
		"screening fails": func(g *Guards) {
			g.Screen = func(context.Context, *db.Tx, string, []destination.ScreeningSubject) (map[string]bool,
				error) {
				return nil, broken
			}
		},
		"the release is not approved": func(g *Guards) {
			g.ReleaseApproved = func(context.Context, *db.Tx, string, string, money.Amount) (bool,
				error) {
				return false, nil
			}
		},
		"the approval cannot be read": func(g *Guards) {
			g.ReleaseApproved = func(context.Context, *db.Tx, string, string, money.Amount) (bool,
				error) {
				return false, broken
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *fixture) {
				p := h.create(CreateParams{ToPay: worked})
				h.deposit(p, "dep_1", p.Quote.Funding.Units(), "confirmed")
				change(&h.s.guards)
				err := h.d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					return h.s.Release(ctx, tx, job.Job{CompanyID: h.by.CompanyID, ID: "job_1",
						Payload: fmt.Appendf(nil, `{"payroll_id":%q}`, p.ID)})
				})
				if err != nil && !errors.Is(err, broken) {
					t.Fatal(err)
				}
				if n := h.count("SELECT COUNT(*) FROM outputs"); n != 0 {
					t.Errorf("%d outputs", n)
				}
			})
		})
	}
}

func TestNoQuoteWhileTheChainIsNotWatched(t *testing.T) {
	run(t, func(h *fixture) {
		blind := errors.New("not watched")
		h.s.guards.CheckWatched = func(context.Context, *db.Tx, string) error { return blind }
		err := h.d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := h.s.Create(ctx, tx, h.by, CreateParams{ToPay: worked})
			return err
		})
		if !errors.Is(err, blind) {
			t.Errorf("%v", err)
		}
		if n := h.count("SELECT COUNT(*) FROM quotes") + h.count("SELECT COUNT(*) FROM payrolls"); n != 0 {
			t.Errorf("%d quotes and payrolls", n)
		}
	})
}
