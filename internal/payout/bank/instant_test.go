package bank_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/testkit"
)

// An account pays instantly up to its limit and within its hours, which are those of its time zone, on every day.
func TestInstantPaymentsKeepTheRulesOfTheAccount(t *testing.T) {
	const account = `[{"id":"eur","currency":"EUR","format":"pain.001","name":"Example","number":"DE89370400440532013000",
		"town":"Berlin","country":"DE","calendar":"target","cut_off":"15:00","zone":"Europe/Berlin","instant":%s}]`
	read := func(rules string) ([]bank.Account, error) {
		return bank.ReadAccounts(strings.NewReader(fmt.Sprintf(account, rules)))
	}
	hours := `{"limit":"5000.00","from":"06:00","until":"22:00","fallback":true}`
	for _, c := range []struct {
		rules, now string
		cents      int64
		want       bool
	}{
		{`{"limit":"5000.00"}`, "2026-11-15T23:30:00Z", 5000_00, true}, // a Sunday
		{`{"limit":"5000.00"}`, "2026-11-16T10:00:00Z", 5000_01, false},
		{hours, "2026-11-16T05:00:00Z", 1, true}, // 06:00 in Berlin
		{hours, "2026-11-16T04:59:00Z", 1, false},
		{hours, "2026-11-16T20:59:00Z", 1, true},
		{hours, "2026-11-16T21:00:00Z", 1, false},
		{"null", "2026-11-16T10:00:00Z", 1, false},
	} {
		a := testkit.Must(read(c.rules))[0]
		now := testkit.Must(time.Parse(time.RFC3339, c.now))
		if got := a.PaysInstantly(now, eur(c.cents)); got != c.want {
			t.Errorf("%s at %s: %d cents are instant: %v", c.rules, c.now, c.cents, got)
		}
		body := testkit.Must(a.Encode(1, now, []bank.Payment{{Amount: eur(c.cents), Country: "DE", Instant: c.want,
			Data: []byte(payee)}})).Body
		if bytes.Contains(body, []byte("<Cd>INST</Cd>")) != c.want || c.rules[1] == '"' &&
			c.now == "2026-11-15T23:30:00Z" && !bytes.Contains(body, []byte("<Dt>2026-11-16</Dt>")) {
			t.Errorf("%s at %s:\n%s", c.rules, c.now, body)
		}
	}
	for rules, want := range map[string]string{
		`{}`: "instant.limit", `{"limit":"-1.00"}`: "instant.limit", `{"limit":"1.00","from":"6 am"}`: "instant.from",
		`{"limit":"1.00","from":"22:00","until":"06:00"}`:       "instant.until",
		`{"limit":"1.00"},"currency":"GBP","x":{}`:              "unknown field",
		`{"limit":"1.00"},"currency":"GBP","number":"12345678"`: "instant is only for accounts in EUR",
	} {
		if _, err := read(rules); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", rules, err, want)
		}
	}
}

// A payment that the bank refuses to pay instantly is sent again as an ordinary one, once, if the account allows that
// and an ordinary payment is not refused for the same reason.
func TestARefusedInstantPaymentFallsBack(t *testing.T) {
	for name, c := range map[string]struct {
		reason   string
		fallback bool
		want     payout.State
	}{
		"the payee's bank does not answer": {"AB05", true, payout.Queued},
		"not allowed":                      {"AB05", false, payout.Failed},
		"the account is closed":            {"AC04", true, payout.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, 0, func(b *fixture) {
				for i := range b.e.Config().Accounts {
					if a := &b.e.Config().Accounts[i]; a.Instant != nil {
						a.Instant.Fallback = c.fallback
					}
				}
				b.queue("out_1", eur(100))
				b.queue("out_2", eur(100_000_01))
				b.prepare()
				instant := func() (all []bool) {
					b.Write(func(ctx context.Context, tx *db.Tx) error {
						files, err := bank.List(ctx, tx, false, 10)
						for _, f := range files {
							all = append(all, f.Instant)
						}
						return err
					})
					return all
				}
				if got := fmt.Sprint(instant()); got != "[false true]" {
					b.Fatalf("%s: the second payment is above the limit", got)
				}
				b.send()
				refusal := func(file string) []byte {
					body, err := iso20022.Status{ID: "A" + file, Order: file, Code: "PART", Payments: []iso20022.PaymentStatus{
						{ID: file + "P00001", Code: "RJCT", Reasons: []iso20022.Reason{{Code: c.reason}}}}}.Write(time.Unix(0, 0))
					b.Must(err)
					return body
				}
				b.response("refused", refusal("S0000001"))
				if o := b.Load("out_1"); o.State != c.want || o.Reason != c.reason {
					b.Fatalf("the output is %s (%s), want %s", o.State, o.Reason, c.want)
				}
				if got := b.balance(ledger.OutputPayable, "out_1"); got != eur(100) {
					b.Errorf("%s are owed", got)
				}
				b.prepare()
				if c.want != payout.Queued {
					if n := len(instant()); n != 2 {
						b.Errorf("%d files", n)
					}
					return
				}
				if got := fmt.Sprint(instant()); got != "[false false true]" {
					b.Fatalf("%s: want an ordinary payment", got)
				}
				b.response("late", append(refusal("S0000001"), '\n')) // has no second effect
				if o := b.Load("out_1"); o.State != payout.Prepared {
					b.Errorf("the output is %s", o.State)
				}
				b.response("refused-again", refusal("S0000003"))
				if o := b.Load("out_1"); o.State != payout.Failed {
					b.Errorf("after the second refusal the output is %s", o.State)
				}
				if got := b.balance(ledger.OutputPayable, "out_1"); got != money.New(money.EUR, 100) {
					b.Errorf("%s are owed", got)
				}
			})
		})
	}
}

// A file of instant payments that arrives after the bank's hours is refused as a whole, and its payments are sent as
// ordinary ones.
func TestInstantPaymentsThatArriveAtNightFallBack(t *testing.T) {
	run(t, 0, func(b *fixture) {
		_, teller, err := bank.OpenSandbox(b.root)
		b.Must(err)
		b.Clock.Set(time.Date(2026, time.November, 16, 23, 29, 0, 0, time.UTC))
		b.queue("out_1", eur(100))
		b.prepare()
		b.send()
		b.Clock.Set(time.Date(2026, time.November, 16, 23, 50, 0, 0, time.UTC))
		collect := func() {
			b.Must(teller.ProcessFiles(b.Clock.Now()))
			b.Must(b.e.Collect(b.Context(), b.DB))
		}
		collect()
		if o := b.Load("out_1"); o.State != payout.Queued || o.Reason != "TM01" {
			b.Fatalf("the output is %s (%s), want queued again", o.State, o.Reason)
		}
		b.prepare()
		b.Must(b.Runner.Drain(b.Context()))
		collect()
		if o := b.Load("out_1"); o.State != payout.Fulfilled {
			b.Errorf("the output is %s (%s)", o.State, o.Reason)
		}
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			f, err := bank.Find(ctx, tx, 2)
			if f.Instant || f.Execute != "2026-11-17" {
				b.Errorf("the second file is instant: %v, on %s", f.Instant, f.Execute)
			}
			return err
		})
	})
}
