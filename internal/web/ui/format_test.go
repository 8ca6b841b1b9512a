package ui_test

import (
	"testing"
	"time"

	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/ui/texts"
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
		r := ui.Request{Reader: texts.Reader{Language: texts.Language{Tag: c.language}}}
		if got := r.PlainAmount(c.typed, c.currency); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.language, c.typed, got, c.want)
		}
	}
}

func TestTimesAndNumbersAreWrittenAsTheUserChose(t *testing.T) {
	at := time.Date(2030, 7, 1, 23, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		language string
		locale   identity.Locale
		when     string
		number   string
	}{
		{"en", identity.Locale{}, "Jul 1, 2030, 23:30 UTC", "1,234.50"},
		{"en", identity.Locale{TimeZone: "Europe/Berlin", NumberFormat: "point_comma"}, "Jul 2, 2030, 01:30 CEST",
			"1.234,50"},
		{"de", identity.Locale{TimeZone: "America/Sao_Paulo"}, "1. Juli 2030, 20:30 UTC-03", "1.234,50"},
		{"es", identity.Locale{NumberFormat: "space_comma"}, "1 jul 2030, 23:30 UTC", "1\u202f234,50"},
		{"he", identity.Locale{TimeZone: "nowhere", NumberFormat: "apostrophe_point"}, "1 ביולי 2030, 23:30 UTC",
			"1’234.50"},
	} {
		r := &ui.Request{Reader: texts.Reader{Language: texts.Language{Tag: c.language}, Locale: c.locale}}
		if got := r.FormatTime(at); got != c.when {
			t.Errorf("%s %v: %q, want %q", c.language, c.locale, got, c.when)
		}
		if got := r.FormatNumber("1234.50"); got != c.number {
			t.Errorf("%s %v: %q, want %q", c.language, c.locale, got, c.number)
		}
		if got := r.PlainAmount(c.number, "USD"); got != "1234.50" {
			t.Errorf("%s %v: %q is read as %q", c.language, c.locale, c.number, got)
		}
	}
}

func TestPluralForms(t *testing.T) {
	for _, c := range []struct {
		language string
		n        int64
		want     string
	}{
		{"en", 1, "1 minute left"}, {"en", 2, "2 minutes left"}, {"en", 0, "0 minutes left"},
		{"fr", 0, "il reste 0 minute"}, {"de", 1, "noch 1 Minute"}, {"de", 21, "noch 21 Minuten"},
		{"he", 20, "נותרו \u206820\u2069 דקות"},
	} {
		r := &ui.Request{Reader: texts.Reader{Language: texts.Language{Tag: c.language}}}
		if got := r.Plural("fund.left", c.n, r.FormatCount(c.n)); got != c.want {
			t.Errorf("%s %d: %q, want %q", c.language, c.n, got, c.want)
		}
	}
}

// A page shows the message of an error, unless it is written for programs.
func TestPagesDoNotShowMessagesForPrograms(t *testing.T) {
	r := &ui.Request{Reader: texts.Reader{Language: texts.Language{Tag: "en"}}}
	for message, want := range map[string]string{
		"The service does not know this currency; see GET /api/currencies.": "This currency isn’t supported here. " +
			"Choose another one.",
		"Funding accounts are in EUR or USD.": "Funding accounts are in EUR or USD.",
	} {
		if got := r.Localize("currency_not_supported", message); got != (ui.LocalizedText{Text: want}) {
			t.Errorf("%q is shown as %q", message, got)
		}
	}
}

// Reasons for which payments to bank accounts fail have a text in every language.
func TestReasonsOfBankPaymentsHaveTexts(t *testing.T) {
	for _, l := range texts.Languages {
		r := texts.Reader{Language: texts.Language{Tag: l.Tag}}
		for _, key := range []string{"reason.international_ach", "reason.destination_incomplete", "reason.amount_above_limit",
			"debit.reason.international_ach"} {
			if !r.HasText(key) {
				t.Errorf("%s: %s has no text", l.Tag, key)
			}
		}
	}
}
