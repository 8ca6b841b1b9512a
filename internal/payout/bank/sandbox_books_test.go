package bank

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/testkit"
)

// The simulated bank keeps its books for the database with the same ID, and begins anew for another one, whose files
// have the same names.
func TestTheSimulatedBankBeginsAnewForAnotherDatabase(t *testing.T) {
	root := filepath.Join(t.TempDir(), "bank")
	now := time.Date(2026, 11, 13, 10, 0, 0, 0, time.UTC)
	receive := func(id string, cents int64) string {
		t.Helper()
		_, teller, err := OpenSandboxFor(root, id)
		testkit.Check(t, err)
		testkit.Check(t, teller.Receive("bnk_1", "prl1", money.New(money.EUR, cents), false, now))
		entries := testkit.Must(readEntries(filepath.Join(root, partIn, "bnk_1.2.notification.xml")))
		return entries[0].Amount.String()
	}
	for _, c := range []struct {
		id    string
		cents int64
		want  string
	}{{"first", 1, "0.01"}, {"first", 2, "0.01"}, {"second", 3, "0.03"}, {"second", 4, "0.03"}} {
		if got := receive(c.id, c.cents); got != c.want {
			t.Errorf("%s, %d cents: %s were booked, want %s", c.id, c.cents, got, c.want)
		}
	}
}

// The simulated bank notifies each entry at once and sends, for each account with entries, one statement for every
// business day and for each other day with entries, and one for a month without entries that is over. Its statements
// are numbered, open with the balance of the one before, and close with that balance and their entries. An event that
// is reported again is booked once.
func TestTheSimulatedBankStatesEachDay(t *testing.T) {
	root := t.TempDir()
	_, teller, err := OpenSandbox(root)
	testkit.Check(t, err)
	at := func(text string) time.Time { return testkit.Must(time.Parse(time.RFC3339, text)) }
	// reports returns the messages that the bank wrote since the last call, by name, each with its balances and entries.
	reports := func() (all []string) {
		t.Helper()
		for _, f := range testkit.Must(os.ReadDir(filepath.Join(root, partIn))) {
			name := filepath.Join(root, partIn, f.Name())
			body := testkit.Must(os.ReadFile(name))
			testkit.Check(t, os.Remove(name))
			if strings.HasSuffix(f.Name(), ".ach") || bytes.Contains(body, []byte("<CstmrPmtStsRpt>")) {
				continue
			}
			text := ""
			read := func(s *iso20022.Statement, e *iso20022.Entry) error {
				switch {
				case e == nil && s.Message == iso20022.Notification:
					text = "notification " + s.Account
				case e == nil:
					text = "statement " + s.Sequence + " " + s.Account
					for _, b := range s.Balances {
						text += fmt.Sprintf(" %s %s %s", b.Type, b.Day.Format(time.DateOnly), b.Amount)
					}
				default:
					text += fmt.Sprintf(" [%s %s %t]", e.Booked.Format(time.DateOnly), e.Amount, e.Credit)
				}
				return nil
			}
			testkit.Check(t, iso20022.ReadStatements(bytes.NewReader(body), read))
			all = append(all, text)
		}
		return all
	}
	want := func(what string, want ...string) {
		t.Helper()
		if got := reports(); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	process := func(now string) { t.Helper(); testkit.Check(t, teller.ProcessFiles(at(now))) }
	send := func(a Account, number int64, now string, data ...string) {
		t.Helper()
		var all []Payment
		for _, d := range data {
			all = append(all, Payment{Amount: money.New(a.Currency, 100_00), Country: "DE", Data: []byte(d),
				Details: payout.Details{Payer: "Example AG"}})
		}
		f := testkit.Must(a.Encode(number, at(now), all))
		testkit.Check(t, os.WriteFile(filepath.Join(root, partOut, f.Name), f.Body, 0o600))
		process(now)
	}
	const iban, dollars = "DE89370400440532013000", "123456789"
	ach := func(number string) string {
		return `{"account_holder_name":"Ada","routing_number":"021000021","account_number":"` + number + `"}`
	}
	euros := `{"account_holder_name":"Ada","iban":"DE89370400440532013000"}`

	process("2026-11-12T10:00:00Z")
	want("nothing was booked")
	send(sandboxAccount(t, money.EUR), 1, "2026-11-13T10:00:00Z", euros, euros) // a Friday
	want("a file", "notification "+iban+" [2026-11-13 200.00 false]")
	in := money.New(money.EUR, 50_00)
	for range 2 {
		testkit.Check(t, teller.Receive("bnk_1", "prl1", in, false, at("2026-11-14T12:00:00Z")))
		want("a transfer", "notification "+iban+" [2026-11-14 50.00 true]")
	}
	send(SandboxAccounts()[0], 2, "2026-11-14T03:00:00Z", ach("1"), ach("990003")) // Friday evening in New York
	want("a file of Nacha whose second payment comes back, when Friday is over elsewhere",
		"notification "+dollars+" [2026-11-13 200.00 false]",
		"statement 1 "+iban+" OPBD 2026-11-13 0.00 CLBD 2026-11-13 -200.00 [2026-11-13 200.00 false]")
	for range 2 {
		process("2026-11-14T12:00:00Z")
	}
	want("Friday is over in New York",
		"statement 1 "+dollars+" OPBD 2026-11-13 0.00 CLBD 2026-11-13 -100.00 [2026-11-13 200.00 false] "+
			"[2026-11-13 100.00 true]")
	process("2026-11-17T12:00:00Z")
	want("a Saturday with an entry, and Monday",
		"statement 2 "+iban+" OPBD 2026-11-14 -200.00 CLBD 2026-11-14 -150.00 [2026-11-14 50.00 true]",
		"statement 3 "+iban+" OPBD 2026-11-16 -150.00 CLBD 2026-11-16 -150.00",
		"statement 2 "+dollars+" OPBD 2026-11-16 -100.00 CLBD 2026-11-16 -100.00")
	testkit.Check(t, teller.Return(1, 1, money.New(money.EUR, 100_00), false, "AC04", at("2026-11-16T23:59:00Z")))
	want("an entry of a day that was stated is booked on the next one", "notification "+iban+" [2026-11-17 100.00 true]")
	_, again, err := OpenSandbox(root)
	testkit.Check(t, err)
	testkit.Check(t, again.Receive("bnk_1", "prl1", in, false, at("2026-11-17T12:00:00Z")))
	want("a transfer that was booked before", "notification "+iban+" [2026-11-14 50.00 true]")
	testkit.Check(t, again.ProcessFiles(at("2026-11-18T12:00:00Z")))
	want("after a restart",
		"statement 4 "+iban+" OPBD 2026-11-17 -150.00 CLBD 2026-11-17 -50.00 [2026-11-17 100.00 true]",
		"statement 3 "+dollars+" OPBD 2026-11-17 -100.00 CLBD 2026-11-17 -100.00")
	testkit.Check(t, again.Receive("bnk_2", "prl2", in, false, at("2027-02-11T12:00:00Z")))
	want("a transfer three months later", "notification "+iban+" [2027-02-11 50.00 true]")
	testkit.Check(t, again.ProcessFiles(at("2027-04-01T12:00:00Z")))
	var months []string
	for _, r := range reports() {
		if strings.Contains(r, iban) && (!strings.Contains(r, " OPBD 2026-11") && !strings.Contains(r, " OPBD 2027-02-") ||
			strings.Contains(r, "[")) {
			months = append(months, r)
		}
	}
	if want := []string{
		"statement 14 " + iban + " OPBD 2026-12-01 -50.00 CLBD 2026-12-31 -50.00",
		"statement 15 " + iban + " OPBD 2027-01-01 -50.00 CLBD 2027-01-31 -50.00",
		"statement 24 " + iban + " OPBD 2027-02-11 -50.00 CLBD 2027-02-11 0.00 [2027-02-11 50.00 true]",
		"statement 36 " + iban + " OPBD 2027-03-01 0.00 CLBD 2027-03-31 0.00",
	}; !slices.Equal(months, want) {
		t.Errorf("months without entries: %s, want %s", strings.Join(months, "\n"), strings.Join(want, "\n"))
	}
}
