package bank_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

// checks is a rail that pays and checks accounts in the United States at the simulated bank.
type checks struct {
	*fixture
	teller *bank.Sandbox
	got    []string // results, in order
	asked  []string // corrections that banks asked for
}

func runChecks(t *testing.T, f func(b *checks)) {
	payouttest.RunFixture(t, func(on *payouttest.Fixture) {
		b := &checks{fixture: &fixture{Fixture: on, root: on.TempDir()}}
		drop, teller, err := bank.OpenSandbox(b.root)
		b.Must(err)
		c := config(on, drop)
		c.Verifier = teller
		c.Checked = func(_ context.Context, _ *db.Tx, c bank.Checked) (bool, error) {
			text := strings.TrimSpace(c.Result + " " + c.Code + c.Name)
			if !c.Until.IsZero() {
				text += " until " + c.Until.Format(time.DateOnly)
			}
			b.got = append(b.got, text)
			return true, nil
		}
		c.Changed = func(_ context.Context, _ *db.Tx, o payout.Output, code string, _ nacha.Correction) error {
			b.asked = append(b.asked, o.CompanyID+" "+code)
			return nil
		}
		c.Reveal = func(snapshot json.RawMessage) (bank.Destination, error) {
			return bank.Destination{Country: "US", Scheme: "ach", Data: snapshot}, nil
		}
		b.teller = teller
		b.e, err = bank.New(c)
		b.Start(b.e, err)
		f(b)
	})
}

// prenote queues a prenote to an account.
func (b *checks) prenote(number, kind string) {
	b.Write(func(ctx context.Context, tx *db.Tx) error {
		return b.e.AddPrenote(ctx, tx, payouttest.Company, money.USD, fmt.Appendf(nil, `{"account_holder_name":"Ada",
			"account_holder_type":"individual","account_type":%q,"routing_number":"091000019","account_number":%q}`,
			kind, number))
	})
}

// A prenote to a holder abroad would be an international transaction: none is sent.
func TestNoPrenoteGoesAbroad(t *testing.T) {
	runChecks(t, func(b *checks) {
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			return b.e.AddPrenote(ctx, tx, payouttest.Company, money.USD, []byte(`{"account_holder_name":"Ada",
				"account_holder_type":"individual","account_type":"checking","routing_number":"091000019",
				"account_number":"123456","address":{"country":"CA"}}`))
		})
		b.work()
		if !slices.Equal(b.got, []string{"not_possible"}) {
			b.Errorf("%q", b.got)
		}
	})
}

// work runs the rail, lets the bank process files, and reads its responses.
func (b *checks) work() {
	b.Helper()
	for _, p := range b.Rails.Periodic(b.DB) {
		b.Must(p.Run(b.Context()))
	}
	b.Must(b.Runner.Drain(b.Context()))
	b.Must(b.teller.ProcessFiles(b.Clock.Now()))
	b.Must(b.e.Collect(b.Context(), b.DB))
	b.Must(b.Runner.Drain(b.Context()))
}

// Prenotes are entries of zero in a file of their own, without a debit and a journal. Each is accepted on the third
// banking day after it settled, unless the payee's bank returned or corrected it.
func TestPrenotesCheckAccounts(t *testing.T) {
	runChecks(t, func(b *checks) {
		b.Clock.Set(time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)) // a Friday; Thursday is Thanksgiving Day
		b.prenote("1", "checking")
		b.prenote("990003", "savings")
		b.prenote("991001", "checking")
		b.prenote("", "checking")
		for _, p := range b.Rails.Periodic(b.DB) {
			b.Must(p.Run(b.Context()))
		}
		b.Must(b.Runner.Drain(b.Context()))
		body, err := os.ReadFile(filepath.Join(b.root, "out", "S0000001.ach"))
		b.Must(err)
		entries, err := nacha.Inspect(body, b.Clock.Now(), func(time.Time) bool { return true })
		b.Must(err)
		var codes []string
		for _, l := range strings.Split(string(body), "\n") {
			if strings.HasPrefix(l, "6") {
				codes = append(codes, l[1:3])
			}
		}
		slices.Sort(codes)
		if len(entries) != 3 || strings.Join(codes, " ") != "23 23 33" || !entries[0].Prenote || entries[0].Cents != 0 ||
			!strings.Contains(string(body), "PRENOTE") {
			t.Errorf("%q: %+v", codes, entries)
		}
		b.work()
		const wait = "pending until 2026-11-27"
		want := []string{"not_possible", wait, wait, wait, "returned R03", "returned C01"}
		if slices.Sort(b.got[4:]); !slices.Equal(b.got, []string{want[0], wait, wait, wait, "returned C01", "returned R03"}) {
			t.Errorf("%q, want %q", b.got, want)
		}
		if got := []string{payouttest.Company + " C01"}; !slices.Equal(b.asked, got) {
			t.Errorf("corrections %q, want %q", b.asked, got)
		}
		b.Clock.Set(time.Date(2026, 11, 26, 23, 0, 0, 0, time.UTC))
		b.work()
		if len(b.got) != 6 {
			t.Errorf("accepted too early: %q", b.got)
		}
		b.Clock.Set(time.Date(2026, 11, 27, 14, 0, 0, 0, time.UTC))
		b.work()
		b.work()
		if got := b.got[6:]; !slices.Equal(got, []string{"accepted"}) {
			t.Errorf("%q, want one accepted", got)
		}
		b.Read(func(ctx context.Context, tx *db.Tx) error {
			if open, err := bank.ListUnconfirmed(ctx, tx); err != nil || len(open) != 0 {
				t.Errorf("prenotes are payments that a statement should show: %v, %v", open, err)
			}
			return nil
		})
	})
}

// The waiting time begins when the bank has the file.
func TestAPrenoteThatIsSentLateWaitsLonger(t *testing.T) {
	runChecks(t, func(b *checks) {
		b.Clock.Set(time.Date(2026, 11, 9, 15, 0, 0, 0, time.UTC))
		b.prenote("1", "checking")
		for _, p := range b.Rails.Periodic(b.DB) { // the job that sends the file does not run
			b.Must(p.Run(b.Context()))
		}
		b.Clock.Set(time.Date(2026, 11, 18, 15, 0, 0, 0, time.UTC))
		b.work()
		b.work()
		// Another file was written, which settles on the 19th.
		if want := []string{"pending until 2026-11-16", "pending until 2026-11-24"}; !slices.Equal(b.got, want) {
			t.Errorf("%q, want %q", b.got, want)
		}
	})
}

// A file of prenotes that the bank refuses tells nothing about the accounts.
func TestRefusedPrenotes(t *testing.T) {
	runChecks(t, func(b *checks) {
		b.prenote("1", "checking")
		for _, p := range b.Rails.Periodic(b.DB) {
			b.Must(p.Run(b.Context()))
		}
		b.Must(b.Runner.Drain(b.Context()))
		body, err := iso20022.Status{ID: "A", Order: "S0000001", Code: "RJCT",
			Reasons: []iso20022.Reason{{Code: "FF01"}}}.Write(b.Clock.Now())
		b.Must(err)
		b.Must(os.WriteFile(filepath.Join(b.root, "in", "refused.xml"), body, 0o600))
		b.Must(b.e.Collect(b.Context(), b.DB))
		if len(b.got) != 2 || b.got[1] != "not_possible FF01" {
			t.Errorf("%q", b.got)
		}
	})
}

// The simulated bank compares names by the last digits of the account number.
func TestNamesAreVerifiedByACall(t *testing.T) {
	runChecks(t, func(b *checks) {
		for iban, want := range map[string]string{"DE89370400440532013000": "match", "DE35370400440000993001": "close_match" +
			" Ada Sandbox", "DE08370400440000993002": "no_match", "DE78370400440000993003": "not_possible"} {
			answer, err := b.e.VerifyName(b.Context(), bank.Destination{Country: "DE", Scheme: "sepa_ct",
				Data: fmt.Appendf(nil, `{"account_holder_name":"Ada","iban":%q}`, iban)})
			if got := strings.TrimSpace(string(answer.Result) + " " + answer.Name); err != nil || got != want {
				t.Errorf("%s: %q, %v; want %q", iban, got, err, want)
			}
		}
	})
}
