// Package banktest has helpers for tests of banks with an API: a rail with an account at a simulated bank on a local
// server.
package banktest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

// Branch is a rail with one account in dollars, usd, at a simulated bank with an API.
type Branch struct {
	*payouttest.Fixture
	Rail        *bank.Rail
	Scheme      string   // of all destinations; ach unless a test changes it
	Corrections []string // corrections that payees' banks asked for
	Checks      []string // results of checks of accounts
	Accounts    []bank.Account
	// Statement receives the statements of the account. Nil ignores them.
	Statement func(ctx context.Context, d *db.DB, in io.Reader, parts []bank.Part) ([]string, error)

	advance func()
	payees  int
}

// Open returns a branch and starts its rail. format is the format of the account, more has further JSON fields of it,
// and advance makes the bank execute its pending transfers.
func Open(f *payouttest.Fixture, format, more string, api bank.API, advance func()) *Branch {
	f.Helper()
	b := &Branch{Fixture: f, Scheme: "ach", advance: advance}
	accounts, err := bank.ReadAccounts(strings.NewReader(`[{"id":"usd","currency":"USD","format":"` + format + `",
		"name":"Example Payments Inc","number":"account_1"` + more + `}]`))
	f.Must(err)
	sealer, err := identity.NewSealer(make([]byte, 32))
	f.Must(err)
	b.Accounts = accounts
	b.Rail, err = bank.New(bank.Config{Log: f.Log, Accounts: accounts, Sealer: sealer,
		Statement: func(ctx context.Context, d *db.DB, in io.Reader, parts []bank.Part) ([]string, error) {
			if b.Statement == nil {
				return nil, nil
			}
			return b.Statement(ctx, d, in, parts)
		},
		APIs: map[string]bank.API{"usd": api},
		Details: func(_ context.Context, _ *db.Tx, _ string, outs []payout.Output) (map[string]payout.Details, error) {
			of := map[string]payout.Details{}
			for _, o := range outs {
				of[o.ID] = payout.Details{Payer: "Rose & Söhne", Purpose: payout.PurposeWages, Description: "Salary March"}
			}
			return of, nil
		},
		Changed: func(_ context.Context, _ *db.Tx, o payout.Output, code string, c nacha.Correction) error {
			b.Corrections = append(b.Corrections, fmt.Sprintf("%s %s %+v", o.ID, code, c))
			return nil
		},
		Checked: func(_ context.Context, _ *db.Tx, c bank.Checked) (bool, error) {
			b.Checks = append(b.Checks, strings.TrimSpace(c.Method+" "+c.Result+" "+c.Code))
			return true, nil
		},
		Reveal: func(snapshot json.RawMessage) (bank.Destination, error) {
			return bank.Destination{Country: "US", Scheme: b.Scheme, Data: snapshot}, nil
		}})
	b.Start(b.Rail, err)
	return b
}

// Number returns the account number of the n-th payee, from 1.
func Number(n int) string { return fmt.Sprintf("%09d", 100+n) }

// To returns an output to the next payee, whose bank has the given routing number.
func (b *Branch) To(routing string, cents int64) payout.Output {
	b.payees++
	return payout.Output{Rail: payout.RailBank, Amount: money.New(money.USD, cents), Destination: fmt.Appendf(nil,
		`{"account_holder_name":"Ada %d","account_holder_type":"individual","account_type":"checking",
		"routing_number":%q,"account_number":%q,
		"address":{"address_line1":"1 Main St","city":"Denver","state":"CO","postal_code":"80202","country":"US"}}`,
		b.payees, routing, Number(b.payees))}
}

// Work runs the rail's jobs and periodic work, hour by hour, while the bank executes its pending transfers.
func (b *Branch) Work(hours int) {
	b.Helper()
	for range hours {
		b.Clock.Advance(time.Hour)
		_ = b.Runner.Drain(b.Context()) // a failed call is repeated later
		b.advance()
		for _, p := range b.Rails.Periodic(b.DB) {
			_ = p.Run(b.Context())
		}
		_ = b.Runner.Drain(b.Context())
	}
}

// Problems returns the problems in the bank's responses that staff must handle.
func (b *Branch) Problems() (all []string) {
	b.Helper()
	b.Read(func(ctx context.Context, tx *db.Tx) error {
		responses, err := bank.Responses(ctx, tx, true, 100)
		for _, r := range responses {
			all = append(all, r.Problems...)
		}
		return err
	})
	return all
}

// Reference returns the reference of an output's last payment, such as S0000001P00001.
func (b *Branch) Reference(o payout.Output) (name string) {
	b.Helper()
	b.Read(func(ctx context.Context, tx *db.Tx) error {
		at, err := bank.Latest(ctx, tx, o.CompanyID, o.ID)
		name = bank.PaymentReference(at.Number, at.Position)
		return err
	})
	return name
}

// Outside returns the branch in the form that the suite of all rails needs. set sets the state of the connection,
// paid returns the payments to an account number, and revert returns the payments that have a reference to their
// sender.
func (b *Branch) Outside(set func(payouttest.Connection), paid func(number string) []string,
	revert func(reference string) int,
) payouttest.Outside {
	return payouttest.Outside{
		Rail:   b.Rail,
		Output: func() payout.Output { return b.To("101050001", 100_00) },
		Unpayable: func() payout.Output {
			return payout.Output{Amount: money.New(money.USD, 1), Destination: []byte(`{}`)}
		},
		Set:     set,
		Advance: b.advance,
		Revert: func(o payout.Output) {
			b.Helper()
			if n := revert(b.Reference(o)); n != 1 {
				b.Errorf("%d transfers have the reference of %s", n, o.ID)
			}
			b.Clock.Advance(24 * time.Hour)
		},
		Reverted: payout.Returned,
		Executed: func(o payout.Output) int {
			var to struct {
				Number string `json:"account_number"`
			}
			b.Must(json.Unmarshal(o.Destination, &to))
			return len(paid(to.Number))
		},
	}
}
