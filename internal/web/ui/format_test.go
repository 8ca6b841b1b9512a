package ui_test

import (
	"testing"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/web/ui"
)

func TestPlainAmount(t *testing.T) {
	for _, c := range []struct {
		language    string
		typed, want string
		currency    money.Asset
	}{
		{"en", "1250.50", "1250.50", money.USD},
		{"en", " 1,250.50 ", "1250.50", money.USD},
		{"en", "$1,250", "1250", money.USD},
		{"en", "1,250,000", "1250000", money.USD},
		{"en", "1.250,50", "1250.50", money.USD},
		{"en", "1250,50", "1250.50", money.USD},
		{"en", "1 250,50", "1250.50", money.USD},
		{"en", "1’250.50 usd", "1250.50", money.USD},
		{"en", "1.250", "1,250", money.USD}, // may mean 1250: refused
		{"en", "1.250", "1.250", money.BTC},
		{"en", "0.125", "0.125", money.USD},
		{"es", "1.250", "1250", money.EUR},
		{"es", "1,250", "1,250", money.EUR},
		{"fr", "1\u202f250,50 €", "1250.50", money.EUR},
		// Anything else is left to be refused.
		{"en", "$300", "$300", money.EUR},
		{"en", "1,25,0.50", "1,25,0.50", money.USD},
		{"en", "12,50,00", "12,50,00", money.USD},
		{"en", "x", "X", money.USD},
	} {
		r := ui.Request{Language: ui.Language{Tag: c.language}}
		if got := r.PlainAmount(c.typed, c.currency); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.language, c.typed, got, c.want)
		}
	}
}
