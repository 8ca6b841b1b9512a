package bank_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
)

// A file that was not sent before its day, or its window of same-day ACH, ended is withdrawn. Its payments are written
// to a new file, which states a day on which the bank can execute them, and are paid once.
func TestAFileThatWaitedIsWrittenAgain(t *testing.T) {
	at := func(day, hour, minute int) time.Time {
		return time.Date(2026, time.November, day, hour, minute, 0, 0, time.UTC)
	}
	for name, c := range map[string]struct {
		asset      money.Asset
		large      bool // above the limit of same-day and instant payments
		made, sent time.Time
		again      string // execution date of the new file, "" if there is none
		window     string
		ordinary   bool // the new file has ordinary payments instead of instant ones
	}{
		"a SEPA payment in time":          {money.EUR, true, at(16, 9, 0), at(16, 15, 59), "", "", false},
		"a SEPA payment after cut-off":    {money.EUR, true, at(16, 9, 0), at(16, 16, 0), "2026-11-17", "", false},
		"a SEPA payment on the next day":  {money.EUR, true, at(20, 9, 0), at(21, 9, 0), "2026-11-23", "", false},
		"an instant payment in time":      {money.EUR, false, at(16, 9, 0), at(16, 23, 0), "", "", false},
		"an instant payment":              {money.EUR, false, at(16, 23, 29), at(17, 0, 30), "2026-11-17", "", false},
		"an instant payment in the night": {money.EUR, false, at(16, 23, 29), at(16, 23, 30), "2026-11-17", "", true},
		"ACH in time":                     {money.USD, true, at(16, 15, 0), at(16, 22, 29), "", "", false},
		"ACH after cut-off":               {money.USD, true, at(16, 15, 0), at(16, 22, 30), "2026-11-18", "", false},
		"a window in time":                {money.USD, false, at(16, 14, 0), at(16, 14, 59), "", "", false},
		"after the first window":          {money.USD, false, at(16, 14, 0), at(16, 15, 0), "2026-11-16", "SD1700", false},
		"after the last window":           {money.USD, false, at(16, 14, 0), at(16, 21, 15), "2026-11-17", "", false},
		"on the next day":                 {money.USD, false, at(16, 14, 0), at(17, 14, 0), "2026-11-17", "SD1300", false},
	} {
		t.Run(name, func(t *testing.T) {
			runACH(t, func(b *achFixture) {
				to := `{"account_holder_name":"Ada","account_holder_type":"individual","routing_number":"091000019",
					"account_number":"1000","account_type":"checking"}`
				if c.asset == money.EUR {
					to = payee
					b.e.Config().Reveal = func(data json.RawMessage) (bank.Destination, error) {
						return bank.Destination{Country: "DE", Scheme: "sepa_ct", Data: data}, nil
					}
				}
				units := int64(100)
				if c.large {
					units = nacha.SameDayMaxCents + 1
				}
				b.Clock.Set(c.made)
				b.Queue(payout.Output{ID: "out_1", Rail: payout.RailBank, Amount: money.New(c.asset, units),
					Destination: []byte(to)})
				b.prepare()
				first := b.file()
				b.Clock.Set(c.sent)
				b.send()
				b.send()
				b.prepare()
				var second bank.File
				b.Read(func(ctx context.Context, tx *db.Tx) error {
					second, _ = bank.Find(ctx, tx, 2)
					return nil
				})
				if second.Execute != c.again {
					t.Fatalf("the file of %s is written again for %q, want %q", first.Execute, second.Execute, c.again)
				}
				if c.again != "" {
					b.is(bank.Refused, payout.Prepared)
					if found, _ := filepath.Glob(filepath.Join(b.root, "*", "S0000001.*")); len(found) != 0 {
						t.Errorf("the bank can see %v", found)
					}
					if second.Instant != (first.Instant && !c.ordinary) {
						t.Errorf("the new file is instant: %v", second.Instant)
					}
					b.Must(b.e.Send(b.Context(), b.DB, second.CompanyID, []string{second.ID}))
				}
				if c.window != "" {
					body, err := os.ReadFile(filepath.Join(b.root, "out", "S0000002.ach"))
					b.Must(err)
					if got := nacha.Schedules(body); len(got) != 1 || got[0].Window != c.window {
						t.Errorf("%+v, want %s", got, c.window)
					}
				}
				b.answer()
				if o := b.Load("out_1"); o.State != payout.Fulfilled {
					t.Errorf("the output is %s %s", o.State, o.Reason)
				}
				for code, want := range map[ledger.Code]int64{ledger.InTransit: 0, ledger.OutputPayable: 0, ledger.Bank: -units} {
					dim := map[ledger.Code]string{ledger.InTransit: first.ID, ledger.OutputPayable: "out_1",
						ledger.Bank: first.Account}[code]
					if got := b.Balance(code, dim, c.asset); got.Units() != want {
						t.Errorf("%s is %s, want %d", code, got, want)
					}
				}
			})
		})
	}
}

// A file that the bank received too late for its day is refused, and its payments are written to a new one. The refusal
// of a day that has not passed fails the payments: another file would be refused, too.
func TestAFileThatArrivedLateIsWrittenAgain(t *testing.T) {
	run(t, 2, func(b *fixture) {
		_, teller, err := bank.OpenSandbox(b.root)
		b.Must(err)
		b.send()
		b.is(bank.Sent, payout.Sent)
		b.Clock.Advance(72 * time.Hour)
		for range 2 {
			b.Must(teller.ProcessFiles(b.Clock.Now()))
			b.Must(b.e.Collect(b.Context(), b.DB))
		}
		b.is(bank.Refused, payout.Queued)
		b.prepare()
		b.is(bank.Refused, payout.Prepared)
		b.Must(b.Runner.Drain(b.Context()))
		b.Must(teller.ProcessFiles(b.Clock.Now()))
		b.Must(b.e.Collect(b.Context(), b.DB))
		for _, id := range []string{"out_1", "out_2"} {
			if o := b.Load(id); o.State != payout.Fulfilled {
				b.Errorf("%s is %s", id, o.State)
			}
		}
		if got := b.balance(ledger.Bank, "sandbox"); got != eur(-300) {
			b.Errorf("%s left the account", got)
		}
	})
	run(t, 0, func(b *fixture) {
		b.queue("out_1", eur(200_000_00)) // not an instant payment, which would be paid as an ordinary one
		b.prepare()
		b.send()
		body, err := iso20022.Status{ID: "A1", Order: "S0000001", Code: "RJCT",
			Reasons: []iso20022.Reason{{Code: "DT01"}}}.Write(b.Clock.Now())
		b.Must(err)
		b.response("status.xml", body)
		b.is(bank.Refused, payout.Failed)
	})
}

// A reversal that was not sent before its day is written to another file.
func TestAReversalThatWaitedIsWrittenAgain(t *testing.T) {
	runChecks(t, func(b *checks) {
		b.Clock.Set(time.Date(2026, 11, 16, 15, 0, 0, 0, time.UTC))
		b.pay("1")
		b.Must(b.reverse("S0000001P00001", bank.ReversalDuplicate))
		for _, p := range b.Rails.Periodic(b.DB) { // the job that sends the file does not run
			b.Must(p.Run(b.Context()))
		}
		b.Clock.Set(time.Date(2026, 11, 18, 15, 0, 0, 0, time.UTC))
		b.Must(b.Runner.Drain(b.Context()))
		if got := b.states(); got != "map[S0000001P00001:approved]" {
			t.Error(got)
		}
		b.work()
		if got := b.states(); got != "map[S0000001P00001:ordered]" {
			t.Error(got)
		}
		b.Read(func(ctx context.Context, tx *db.Tx) error {
			for number, want := range map[int64]string{2: bank.Refused + " 2026-11-17", 3: bank.Sent + " 2026-11-19"} {
				f, err := bank.Find(ctx, tx, number)
				if got := f.State + " " + f.Execute; err != nil || got != want {
					t.Errorf("file %d is %s, %v; want %s", number, got, err, want)
				}
			}
			return nil
		})
	})
}
