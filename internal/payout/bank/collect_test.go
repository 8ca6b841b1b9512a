package bank

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
	"github.com/stipend/stipend/internal/testkit"
)

// collecting returns the account of the sandbox that collects by a scheme.
func collecting(t *testing.T, scheme DebitScheme) Account {
	t.Helper()
	a, ok := DebitAccount(SandboxAccounts(), scheme)
	if !ok {
		t.Fatalf("no account collects %s", scheme)
	}
	return a
}

// A debit is due on the wanted business day, but not before the notice of its scheme has passed and the bank can have
// the file.
func TestADebitIsDueAfterItsNotice(t *testing.T) {
	for _, c := range []struct {
		scheme            DebitScheme
		now, wanted, want string
	}{
		{SEPACore, "2026-11-16T09:00:00Z", "", "2026-11-30"},           // 14 days
		{SEPACore, "2026-11-16T09:00:00Z", "2026-11-29", "2026-11-30"}, // too early
		{SEPACore, "2026-11-16T09:00:00Z", "2026-12-03", "2026-12-03"},
		{SEPACore, "2026-11-16T09:00:00Z", "2026-12-25", "2026-12-28"}, // a holiday before a weekend
		{SEPACore, "2026-11-14T09:00:00Z", "", "2026-11-30"},           // the 28th is a Saturday
		{SEPAB2B, "2026-11-16T23:59:00Z", "2026-11-17", "2026-11-30"},
		{ACHWEB, "2026-11-16T15:00:00Z", "", "2026-11-27"}, // ten days later is Thanksgiving
		{ACHCCD, "2026-11-16T15:00:00Z", "", "2026-11-17"},
		{ACHCCD, "2026-11-16T23:00:00Z", "", "2026-11-18"}, // after the cut-off
		{ACHCCD, "2026-11-25T15:00:00Z", "", "2026-11-27"},
	} {
		wanted, _ := time.Parse(time.DateOnly, c.wanted)
		due := collecting(t, c.scheme).DueDate(c.scheme, testkit.Must(time.Parse(time.RFC3339, c.now)), wanted)
		if got := due.Format(time.DateOnly); got != c.want {
			t.Errorf("%s at %s, wanted on %q: %s, want %s", c.scheme, c.now, c.wanted, got, c.want)
		}
	}
}

// An ACH debit with a party outside of the United States would be an international transaction, and is not made.
func TestACHDebitsHaveNoPartyAbroad(t *testing.T) {
	now := time.Date(2026, 11, 16, 15, 0, 0, 0, time.UTC)
	ach := `{"account_holder_name":"Acme","account_holder_type":"business","routing_number":"021000021",
		"account_number":"12345678","account_type":"checking","address":{"city":"X","country":"%"}}`
	sepa := `{"account_holder_name":"Acme","iban":"DE89370400440532013000","address":{"city":"X","country":"%"}}`
	for _, c := range []struct {
		scheme         DebitScheme
		data           string
		country, payer string
		allowed        bool
	}{
		{ACHCCD, ach, "US", "US", true}, {ACHCCD, ach, "PR", "", true}, {ACHWEB, ach, "US", "GU", true},
		{ACHCCD, ach, "US", "CA", false}, {ACHCCD, ach, "CA", "US", false}, {ACHWEB, ach, "CA", "", false},
		{SEPACore, sepa, "DE", "DE", true}, {SEPAB2B, sepa, "DE", "FR", true},
	} {
		a := collecting(t, c.scheme)
		o := DebitOrder{Kind: c.scheme, Mandate: "M-1", Signed: now, Sequence: iso20022.First, Due: now.AddDate(0, 0, 14),
			Payment: Payment{Amount: money.New(a.Currency, 500), Data: json.RawMessage(strings.Replace(c.data, "%",
				c.country, 1)),
				Details: payout.Details{Payer: "Acme", PayerCountry: c.payer, PayerTown: "X"}}}
		m, err := a.EncodeDebit(1, now, o)
		if (err == nil) != c.allowed {
			t.Errorf("%s of an account in %s by a company in %q: %v", c.scheme, c.country, c.payer, err)
		}
		if err == nil && !c.scheme.SEPA() {
			if _, err := nacha.Inspect(m.Body, now.Add(-5*time.Hour), FederalReserve.isBusinessDay); err != nil {
				t.Errorf("the bank refuses it: %v", err)
			}
		}
	}
}
