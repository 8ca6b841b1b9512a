package bank_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

// pay pays one dollar to each account by a file.
func (b *checks) pay(numbers ...string) {
	b.Helper()
	for i, number := range numbers {
		b.Queue(payout.Output{ID: fmt.Sprintf("out_%d", i+1), Rail: payout.RailBank, Amount: money.New(money.USD, 100),
			Destination: json.RawMessage(fmt.Sprintf(`{"account_holder_name":"Ada","account_holder_type":"individual",
				"account_type":"savings","routing_number":"091000019","account_number":%q}`, number))})
	}
	b.prepare()
	b.work()
}

// reverse approves the reversal of a payment, and reports a refusal.
func (b *checks) reverse(payment, reason string) (err error) {
	b.Helper()
	_ = b.DB.Write(b.Context(), func(ctx context.Context, tx *db.Tx) error {
		err = bank.Reverse(ctx, tx, payment, reason)
		return err
	})
	return err
}

// states returns the states of all reversals by payment.
func (b *checks) states() string {
	b.Helper()
	of := map[string]string{}
	b.Read(func(ctx context.Context, tx *db.Tx) error {
		all, err := bank.Reversals(ctx, tx, 10)
		for _, v := range all {
			of[v.Payment] = strings.TrimSpace(v.State + " " + v.Code)
		}
		return err
	})
	return fmt.Sprint(of)
}

// A payment made in error is reversed by a debit of the payee's account, once, with the data of its own file. The
// payment stays fulfilled, also if the payee's bank returns the debit.
func TestReversals(t *testing.T) {
	runChecks(t, func(b *checks) {
		b.Clock.Set(time.Date(2026, 11, 9, 15, 0, 0, 0, time.UTC))
		b.pay("1", "12994002", "990003")
		for payment, want := range map[string]error{"S0000001P00001": bank.ErrReversalReason,
			"S0000001P00003": bank.ErrNotReversible,
			"S0000001P00009": bank.ErrNotReversible, "S0000009P00001": bank.ErrNotReversible, "x": bank.ErrNotReversible} {
			reason := bank.ReversalPayee
			if errors.Is(want, bank.ErrReversalReason) {
				reason = "changed_my_mind"
			}
			if err := b.reverse(payment, reason); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", payment, err, want)
			}
		}
		b.Must(b.reverse("S0000001P00001", bank.ReversalDuplicate))
		b.Must(b.reverse("S0000001P00002", bank.ReversalAmount))
		if err := b.reverse("S0000001P00001", bank.ReversalDuplicate); !errors.Is(err, bank.ErrNotReversible) {
			t.Errorf("reversed twice: %v", err)
		}
		for _, p := range b.Rails.Periodic(b.DB) {
			b.Must(p.Run(b.Context()))
		}
		b.Must(b.Runner.Drain(b.Context()))
		body, err := os.ReadFile(filepath.Join(b.root, "out", "S0000002.ach"))
		b.Must(err)
		entries, err := nacha.Inspect(body, b.Clock.Now(), func(time.Time) bool { return true })
		b.Must(err)
		if len(entries) != 2 || !entries[0].Debit || entries[0].Account != "1" || entries[0].Name != "Ada" ||
			entries[0].Cents != 100 || entries[0].Class != "PPD" || entries[0].Description != "REVERSAL" || entries[1].Debit ||
			!strings.Contains(string(body), "\n6370910000191 ") {
			t.Errorf("%+v\n%s", entries, body)
		}
		b.work()
		if got := b.states(); got != "map[S0000001P00001:ordered S0000001P00002:returned R02]" {
			t.Error(got)
		}
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			for cents, want := range map[int64]string{99: "", 100: payouttest.Company} {
				if got, err := bank.CollectReversal(ctx, tx, 2, money.New(money.USD, cents)); got != want || err != nil {
					t.Errorf("%d cents: %q, %v; want %q", cents, got, err, want)
				}
			}
			if again, err := bank.CollectReversal(ctx, tx, 2, money.New(money.USD, 100)); again != "" || err != nil {
				t.Errorf("collected twice: %q, %v", again, err)
			}
			return nil
		})
		if got := b.states(); got != "map[S0000001P00001:collected S0000001P00002:returned R02]" {
			t.Error(got)
		}
		for id, want := range map[string]payout.State{"out_1": payout.Fulfilled, "out_2": payout.Fulfilled} {
			if o := b.Load(id); o.State != want {
				t.Errorf("%s is %s, want %s", id, o.State, want)
			}
		}
	})
}

// A reversal settles within five banking days after the payment: a later request is refused, and an approved one whose
// file would be later expires.
func TestReversalsWithinFiveBankingDays(t *testing.T) {
	runChecks(t, func(b *checks) {
		// A Monday; payments settle the same day, so the last day is the 23rd.
		b.Clock.Set(time.Date(2026, 11, 16, 15, 0, 0, 0, time.UTC))
		b.pay("1", "2")
		b.Clock.Set(time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC))
		b.Must(b.reverse("S0000001P00001", bank.ReversalDate))
		b.Clock.Set(time.Date(2026, 11, 23, 23, 0, 0, 0, time.UTC))
		b.work()
		if got := b.states(); got != "map[S0000001P00001:expired]" {
			t.Error(got)
		}
		b.Clock.Set(time.Date(2026, 11, 24, 15, 0, 0, 0, time.UTC))
		if err := b.reverse("S0000001P00002", bank.ReversalDate); !errors.Is(err, bank.ErrReversalLate) {
			t.Errorf("%v, want %v", err, bank.ErrReversalLate)
		}
	})
}

// The file of a reversal that waited, because payouts were paused after it was made, is checked again before it is
// sent: the payment may have come back, and the five days may be over.
func TestAReversalThatWaitedIsCheckedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(b *checks)
		want      string
		file      string // state, or "" for none
		early     bool   // payouts are paused before the file is made
	}{
		"nothing happens":       {func(*checks) {}, "ordered", bank.Sent, false},
		"the payment came back": {func(b *checks) { b.returns("S0000001P00001") }, "expired", bank.Refused, false},
		"it is too late": {func(b *checks) {
			b.Clock.Set(time.Date(2026, 11, 23, 23, 0, 0, 0, time.UTC))
		}, "expired", bank.Refused, false},
		"the payment came back before the file": {func(b *checks) { b.returns("S0000001P00001") }, "expired", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			runChecks(t, func(b *checks) {
				b.Clock.Set(time.Date(2026, 11, 16, 15, 0, 0, 0, time.UTC))
				b.pay("1")
				b.Must(b.reverse("S0000001P00001", bank.ReversalDuplicate))
				if c.early {
					b.Pause("test")
				}
				for _, p := range b.Rails.Periodic(b.DB) {
					b.Must(p.Run(b.Context()))
				}
				b.Pause("test")
				b.Must(b.Runner.Drain(b.Context()))
				c.meanwhile(b)
				b.Pause("")
				b.Clock.Advance(time.Minute)
				b.work()
				if got := b.states(); got != "map[S0000001P00001:"+c.want+"]" {
					t.Error(got)
				}
				b.Read(func(ctx context.Context, tx *db.Tx) error {
					f, err := bank.Find(ctx, tx, 2)
					if c.file == "" && errors.Is(err, db.ErrNoRows) {
						err = nil
					}
					if f.State != c.file {
						t.Errorf("its file is %s, want %s", f.State, c.file)
					}
					return err
				})
			})
		})
	}
}

// returns lets the payee's bank return a payment.
func (b *checks) returns(payment string) {
	b.Helper()
	at, _ := bank.FindReference(payment)
	b.Must(b.teller.Return(at.File, at.Position, money.New(money.USD, 100), true, "R03", b.Clock.Now()))
	b.Must(b.e.Collect(b.Context(), b.DB))
}
