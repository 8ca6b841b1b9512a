package backoffice_test

import (
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/testkit/allow"
)

func TestNewRefusesAMissingDependency(t *testing.T) {
	for missing, drop := range map[string]func(*backoffice.Deps){
		"Sealer":  func(d *backoffice.Deps) { d.Sealer = nil },
		"Payroll": func(d *backoffice.Deps) { d.Payroll = nil },
		"Screen":  func(d *backoffice.Deps) { d.Screen = nil },
	} {
		d := backoffice.Deps{Sealer: &identity.Sealer{}, Payroll: &payroll.Service{}, Screen: allow.Address}
		if _, err := backoffice.New(d); err != nil {
			t.Fatal(err)
		}
		drop(&d)
		if s, err := backoffice.New(d); err == nil || s != nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}
