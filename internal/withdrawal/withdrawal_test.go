package withdrawal_test

import (
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/withdrawal"
)

func TestNewRefusesAMissingDependency(t *testing.T) {
	for missing, drop := range map[string]func(*withdrawal.Config, *withdrawal.Guards){
		"Sealer":          func(c *withdrawal.Config, _ *withdrawal.Guards) { c.Setup.Sealer = nil },
		"Screen":          func(_ *withdrawal.Config, g *withdrawal.Guards) { g.Screen = nil },
		"ReleaseApproved": func(_ *withdrawal.Config, g *withdrawal.Guards) { g.ReleaseApproved = nil },
	} {
		c := withdrawal.Config{Setup: destination.Setup{Sealer: &identity.Sealer{}}}
		g := withdrawal.Guards{Screen: allow.Subjects[destination.ScreeningSubject], ReleaseApproved: allow.Release}
		if _, err := withdrawal.New(c, g); err != nil {
			t.Fatal(err)
		}
		drop(&c, &g)
		if s, err := withdrawal.New(c, g); err == nil || s != nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}
