package virtualaccount_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/virtualaccount"
)

// TestLifecycle runs sequences of steps on the dollar account of a company. Each step names the expected state and
// balance, or the expected error.
func TestLifecycle(t *testing.T) {
	const active = "verify, open terms_pending 0, accept pending 0, opened active 0, "
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		for name, steps := range map[string]string{
			"opened after the terms were accepted": "verify, open terms_pending 0, open terms_pending 0, accept pending 0, " +
				"opened active 0",
			"opened once":         active + "open active 0, accept active 0, opened active 0",
			"refused by the bank": "verify, open terms_pending 0, accept pending 0, refused closed 0",
			"another account after a refusal": "verify, open terms_pending 0, accept pending 0, refused closed 0, open " +
				"terms_pending 0",
			"no verification":              "open ErrVerify, accept ErrVerify",
			"a transfer":                   active + "receive+100 active 100",
			"a transfer listed twice":      active + "receive+100 active 100, receive+100 active 100",
			"two transfers":                active + "receive+100 active 100, receive2+50 active 150",
			"a reversal":                   active + "receive+100 active 100, receive2-100 active 0",
			"a reversal of what was spent": active + "receive2-100 active 0",
			"the same reference with another amount": active +
				"receive+100 active 100, receive+90 ErrReference, receive2+1 active 101",
			"an unknown type of transaction": active + "unknown+100 error, receive+5 active 5",
			"suspended while the owner is not verified, and still credited": active +
				"unverify, review suspended 0, receive+100 suspended 100, verify, review active 100",
		} {
			t.Run(name, func(t *testing.T) {
				x := newFixture(t, d)
				for step := range strings.SplitSeq(steps, ", ") {
					words := strings.Fields(step)
					err := x.do(words[0])
					switch {
					case len(words) == 2:
						want := map[string]error{"ErrVerify": virtualaccount.ErrVerify, "ErrReference": virtualaccount.ErrReference}
						if w := want[words[1]]; err == nil || w != nil && !errors.Is(err, w) {
							t.Fatalf("%s: %v", step, err)
						}
					case err != nil:
						t.Fatalf("%s: %v", step, err)
					case len(words) == 3:
						a := x.account()
						if string(a.State) != words[1] || a.Balance.String() != words[2]+".00" {
							t.Fatalf("after %s: %s with a balance of %s", step, a.State, a.Balance)
						}
					}
				}
			})
		}
	})
}

// The account numbers are stored encrypted, shown to the owner, and found by a transfer to them.
func TestNumbers(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := newFixture(t, d)
		for _, step := range []string{"verify", "accept", "opened"} {
			if err := x.do(step); err != nil {
				t.Fatalf("%s: %v", step, err)
			}
		}
		a := x.account()
		if a.RoutingNumber != "990000000" || a.Holder != "Acme" {
			t.Errorf("the owner sees %+v", a.Details)
		}
		for number, want := range map[string]error{"990000000/" + a.ID: nil, "990000000/1": virtualaccount.ErrNotFound} {
			err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				a, err := virtualaccount.ByNumber(ctx, tx, number)
				if err == nil && (a.OwnerID != x.by.CompanyID || a.AccountNumber != "") {
					t.Errorf("%s: an account of %s with number %q", number, a.OwnerID, a.AccountNumber)
				}
				return err
			})
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", number, err, want)
			}
		}
	})
}

// The sandbox's bank opens euro accounts immediately, with a valid IBAN, and books a simulated transfer once.
func TestSandboxBank(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := newFixture(t, d)
		x.service.Bank = virtualaccount.Sandbox{}
		x.currency = "EUR"
		for _, step := range []string{"verify", "accept"} {
			if err := x.do(step); err != nil {
				t.Fatalf("%s: %v", step, err)
			}
		}
		a := x.account()
		if a.State != virtualaccount.Active || mod97(a.IBAN) != 1 {
			t.Fatalf("the account is %s with IBAN %q", a.State, a.IBAN)
		}
		for _, c := range []struct {
			in   virtualaccount.Incoming
			want error
		}{
			{in: virtualaccount.Incoming{AccountID: a.ID, Amount: "10", Currency: "EUR", Reference: "A"}},
			{in: virtualaccount.Incoming{IBAN: strings.ToLower(a.IBAN), Amount: "10", Currency: "EUR", Reference: "A"}},
			{in: virtualaccount.Incoming{IBAN: a.IBAN, Amount: "2.50", Currency: "EUR", Reference: "B"}},
			{virtualaccount.Incoming{AccountID: a.ID, Amount: "11", Currency: "EUR", Reference: "A"},
				virtualaccount.ErrReference},
			{virtualaccount.Incoming{AccountID: a.ID, Amount: "1", Currency: "USD", Reference: "C"}, virtualaccount.ErrCurrency},
			{virtualaccount.Incoming{AccountID: "fac_1", Amount: "1", Currency: "EUR", Reference: "C"},
				virtualaccount.ErrNotFound},
			{virtualaccount.Incoming{AccountID: a.ID, Amount: "0", Currency: "EUR", Reference: "C"}, money.ErrNotPositive},
			{virtualaccount.Incoming{AccountID: a.ID, Amount: "100000000000.01", Currency: "EUR", Reference: "C"},
				money.ErrTooLarge},
		} {
			err := x.write(func(ctx context.Context, tx *db.Tx) error {
				_, _, err := x.service.Deposit(ctx, tx, x.by, c.in)
				return err
			})
			if !errors.Is(err, c.want) {
				t.Errorf("%+v: %v, want %v", c.in, err, c.want)
			}
		}
		if got := x.account().Balance.String(); got != "12.50" {
			t.Errorf("the balance is %s, want 12.50", got)
		}
	})
}

// mod97 returns the remainder that ISO 13616 requires to be 1.
func mod97(iban string) int {
	rest := 0
	for _, c := range iban[4:] + iban[:4] {
		if c >= 'A' {
			rest = (rest*100 + int(c-'A') + 10) % 97
		} else {
			rest = (rest*10 + int(c-'0')) % 97
		}
	}
	return rest
}

// bank is a bank that opens accounts on request and lists the receipts that the test sets.
type bank struct {
	refuse   bool
	opened   string // reference of the account that was opened last
	receipts []virtualaccount.Receipt
}

func (*bank) Name() string { return "bank" }

func (*bank) OpenImmediately(virtualaccount.Application) (o virtualaccount.Opened, ok bool) {
	return o, false
}

func (b *bank) Open(_ context.Context, a virtualaccount.Application) (virtualaccount.Opened, error) {
	if b.refuse {
		return virtualaccount.Opened{}, fmt.Errorf("the bank answered 422: %w", virtualaccount.ErrRefused)
	}
	b.opened = a.AccountID
	return virtualaccount.Opened{Ref: a.AccountID, Details: virtualaccount.Details{
		Holder: a.Holder, RoutingNumber: "990000000", AccountNumber: a.AccountID}}, nil
}

func (b *bank) Receipts(_ context.Context, ref string, _ money.Asset, cursor string) ([]virtualaccount.Receipt, string,
	error,
) {
	if ref != b.opened {
		return nil, cursor, nil
	}
	return b.receipts, cursor + ".", nil
}

// fixture is a company whose verification has not started, and its bank.
type fixture struct {
	*testing.T
	d        *db.DB
	service  *virtualaccount.Service
	bank     *bank
	by       identity.Principal
	currency string
}

func newFixture(t *testing.T, d *db.DB) *fixture {
	t.Helper()
	sealer, err := identity.NewSealer(make([]byte, 32))
	testkit.Check(t, err)
	b := &bank{}
	x := &fixture{T: t, d: d, bank: b, service: &virtualaccount.Service{Bank: b, Sealer: sealer}, currency: "USD"}
	testkit.Check(t, x.write(func(ctx context.Context, tx *db.Tx) error {
		c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Acme", Country: "US"})
		x.by = identity.Principal{Kind: identity.KindAPIKey, CompanyID: c.ID, Scopes: identity.AllScopes()}
		return err
	}))
	return x
}

func (x *fixture) write(f func(context.Context, *db.Tx) error) error {
	return x.d.Write(x.Context(), f)
}

// do performs a step of a test: a verb, or "receive" with the number and the amount of a transfer.
func (x *fixture) do(step string) error {
	x.Helper()
	status := func(kyb string) error {
		return x.write(func(ctx context.Context, tx *db.Tx) error {
			return identity.SetKYBStatus(ctx, tx, x.by.CompanyID, kyb)
		})
	}
	open := func(terms string) error {
		return x.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := x.service.Open(ctx, tx, x.by, "", x.currency, terms)
			return err
		})
	}
	switch step {
	case "verify":
		return status(identity.KYBApproved)
	case "unverify":
		return status("rejected")
	case "open":
		return open("")
	case "accept":
		return open(virtualaccount.TermsVersion)
	case "refused", "opened":
		x.bank.refuse = step == "refused"
		table := job.Table{virtualaccount.JobOpen: {Net: x.service.HandleOpen}}
		return job.NewRunner(x.d, table, nil, slog.New(slog.DiscardHandler)).Drain(x.Context())
	case "review":
		return x.service.Review(x.Context(), x.d)
	}
	at := strings.IndexAny(step, "+-")
	amount, err := money.Parse(money.USD, strings.TrimPrefix(step[at:], "+"))
	testkit.Check(x, err)
	r := virtualaccount.Receipt{Reference: step[:at], Amount: amount}
	if step[:at] == "unknown" {
		r.Unknown = "adjustment"
	}
	x.bank.receipts = []virtualaccount.Receipt{r}
	return x.service.Collect(x.Context(), x.d)
}

// account returns the company's newest account and checks that the ledger agrees with its balance.
func (x *fixture) account() (a virtualaccount.Account) {
	x.Helper()
	dbtest.Read(x, x.d, func(ctx context.Context, tx *db.Tx) error {
		all, err := x.service.List(ctx, tx, x.by, "")
		if err != nil || len(all) == 0 {
			return errors.Join(err, errors.New("no account"))
		}
		a = slices.MaxFunc(all, func(a, b virtualaccount.Account) int { return a.CreatedAt.Compare(b.CreatedAt) })
		report, err := ledger.Check(ctx, tx)
		if len(report.Problems) > 0 {
			x.Errorf("the ledger: %s", report.Problems)
		}
		return err
	})
	return a
}
