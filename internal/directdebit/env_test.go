package directdebit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

const day = 24 * time.Hour

// env is a verified company with an administrator, and the simulated bank.
type env struct {
	*fixture.Fixture
	s     *directdebit.Service
	c     *directdebit.Collector
	rail  *bank.Rail
	sim   *bank.Sandbox
	root  string
	setup destination.Setup
	owns  bool
	admin identity.Principal
	// address is the company's, as its profile has it.
	address payout.Details
	// accounts are those that collect.
	accounts []bank.Account
}

func run(t *testing.T, f func(x *env)) {
	t.Helper()
	fixture.Run(t, func(base *fixture.Fixture) {
		sealer := testkit.Must(identity.NewSealer(make([]byte, 32)))
		x := &env{Fixture: base, root: base.TempDir(), owns: true, accounts: bank.SandboxAccounts()}
		drop, sim, err := bank.OpenSandbox(x.root)
		x.Must(err)
		x.sim = sim
		x.setup = destination.Setup{Sealer: sealer, BitcoinNetwork: "regtest", Chain: "regtest"}
		x.s = testkit.Must(directdebit.New(directdebit.Config{Accounts: bank.SandboxAccounts(), Setup: x.setup,
			AllowUnverified: true, Payer: x.payer,
		}, directdebit.Guards{Stated: x.stated,
			Owns: func(context.Context, *db.Tx, directdebit.Mandate) (bool, error) { return x.owns, nil }}))
		log := slog.New(slog.DiscardHandler)
		x.c = testkit.Must(directdebit.NewCollector(x.s, drop, nil, log, time.Second))
		x.rail = testkit.Must(bank.New(bank.Config{Drop: drop, Accounts: bank.SandboxAccounts(), Sealer: sealer, Log: log,
			Reveal: func(json.RawMessage) (d bank.Destination, err error) { return d, nil },
			Details: func(context.Context, *db.Tx, string, []payout.Output) (map[string]payout.Details, error) {
				return nil, nil
			},
			Changed: func(context.Context, *db.Tx, payout.Output, string, nacha.Correction) error { return nil },
			Checked: func(context.Context, *db.Tx, bank.Checked) (bool, error) { return true, nil },
			Debits:  x.c.Apply, DebitReferences: directdebit.References,
			Statement: func(ctx context.Context, d *db.DB, in io.Reader, parts []bank.Part) ([]string, error) {
				sum, err := bankreceipt.Import(ctx, d, in, bank.SandboxAccounts(), parts...)
				if sum.Credited+sum.Suspense+sum.Returned > 0 {
					err = errors.Join(err, fmt.Errorf("a direct debit was imported as a transfer: %+v", sum))
				}
				return sum.Problems, err
			}}))
		x.UseCompany(identity.NewCompany{Name: "Acme", Country: "DE"})
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			u, err := identity.CreateUser(ctx, tx, sealer, identity.NewUser{Profile: identity.Profile{Email: "a@acme.example"}})
			x.admin = identity.Principal{Kind: identity.KindSession, ID: "ses_" + u.ID, CompanyID: x.By.CompanyID, UserID: u.ID}
			if err != nil {
				return err
			}
			return identity.AddMember(ctx, tx,
				identity.Member{CompanyID: x.By.CompanyID, UserID: u.ID, Role: identity.RoleAdmin})
		})
		f(x)
		x.CheckLedger()
	})
}

// payer returns the company's address.
func (x *env) payer(context.Context, *db.Tx, string) (payout.Details, error) { return x.address, nil }

// stated returns the day of the newest statement of an account.
func (x *env) stated(ctx context.Context, tx *db.Tx, a bank.Account) (string, error) {
	return bankreceipt.ReadThrough(ctx, tx, a.Number, a.Currency)
}

func (x *env) Must(err error) {
	x.Helper()
	if err != nil {
		x.Fatal(err)
	}
}

// iban returns a German IBAN whose last six digits are given.
func iban(end string) string {
	bban := "370400440532" + end
	for check := 2; check < 99; check++ {
		if s := fmt.Sprintf("DE%02d%s", check, bban); isIBAN(s) {
			return s
		}
	}
	return ""
}

func isIBAN(s string) bool {
	sum := 0
	for _, c := range s[4:] + "1314" + s[2:4] {
		sum = (sum*10 + int(c-'0')) % 97
	}
	return sum == 1
}

func data(scheme bank.DebitScheme, end string) []byte {
	if scheme.SEPA() {
		return []byte(`{"account_holder_name":"Acme GmbH","account_holder_type":"business","iban":"` + iban(end) + `"}`)
	}
	return []byte(`{"rail":"ach","account_holder_name":"Acme Inc","account_holder_type":"business",
		"routing_number":"021000021",
		"account_number":"1234` + end + `","account_type":"checking","address":{
		"address_line1":"1 Main Street","city":"Springfield","state":"IL","postal_code":"62701","country":"US"}}`)
}

func (x *env) mandate(scheme bank.DebitScheme, end string) directdebit.Mandate {
	x.Helper()
	return fixture.Do(x.Fixture, func(ctx context.Context, tx *db.Tx) (directdebit.Mandate, error) {
		return x.s.AddMandate(ctx, tx, x.admin, directdebit.MandateParams{Scheme: string(scheme), Data: data(scheme, end),
			Language: "en", Accepted: true, Address: "203.0.113.7", Browser: "Mozilla/5.0"})
	})
}

func (x *env) try(p directdebit.Params) (directdebit.Debit, error) {
	return fixture.Try(x.Fixture, func(ctx context.Context, tx *db.Tx) (directdebit.Debit, error) {
		return x.s.Create(ctx, tx, x.admin, p)
	})
}

func (x *env) create(m directdebit.Mandate, amount string) directdebit.Debit {
	x.Helper()
	x.Clock.Advance(time.Second)
	d, err := x.try(directdebit.Params{MandateID: m.ID, AmountText: amount})
	x.Must(err)
	return d
}

// submit runs the job that sends a debit.
func (x *env) submit(d directdebit.Debit) {
	x.Helper()
	x.Must(x.trySubmit(d))
}

func (x *env) trySubmit(d directdebit.Debit) error {
	return x.c.Jobs()["direct_debit.submit"].Net(x.Context(), x.DB,
		job.Job{CompanyID: d.CompanyID, Payload: []byte(`{"debit_id":"` + d.ID + `"}`)})
}

func (x *env) release(d directdebit.Debit) {
	x.Helper()
	x.Deliver(x.c.Jobs()["direct_debit.release"].Tx, "debit_id", d.ID)
}

// respond lets the bank process the files and reads its responses.
func (x *env) respond() {
	x.Helper()
	now := testkit.Must(x.DB.Now(x.Context()))
	x.Must(x.sim.ProcessFiles(now))
	x.Must(x.rail.Collect(x.Context(), x.DB))
}

// collect sends a debit on its day and lets the bank respond.
func (x *env) collect(d directdebit.Debit) {
	x.Helper()
	x.reach(d)
	x.submit(d)
	x.respond()
}

// reach sets the clock to the day on which a debit is sent.
func (x *env) reach(d directdebit.Debit) {
	x.Helper()
	a, _ := bank.DebitAccount(x.accounts, d.Mandate.Scheme)
	at := a.SubmitAt(testkit.Must(time.Parse(time.DateOnly, d.DueOn))).Add(9 * time.Hour)
	if at.After(testkit.Must(x.DB.Now(x.Context()))) {
		x.Clock.Set(at)
	}
}

func (x *env) get(d directdebit.Debit) directdebit.Debit {
	x.Helper()
	return fixture.Get(x.Fixture, func(ctx context.Context, tx *db.Tx) (directdebit.Debit, error) {
		return directdebit.Get(ctx, tx, x.admin, "", d.ID)
	})
}

func (x *env) mandateState(m directdebit.Mandate) string {
	x.Helper()
	m = fixture.Get(x.Fixture, func(ctx context.Context, tx *db.Tx) (directdebit.Mandate, error) {
		return directdebit.GetMandate(ctx, tx, x.admin, "", m.ID)
	})
	return strings.TrimSpace(string(m.State) + " " + m.Reason)
}

// want compares the state of a debit and the cents that are on hold, in the balance and owed.
func (x *env) want(d directdebit.Debit, state directdebit.State, reason string, held, balance, owed int64) {
	x.Helper()
	now := x.get(d)
	if now.State != state || now.Reason != reason {
		x.Errorf("the debit is %s (%s), want %s (%s)", now.State, now.Reason, state, reason)
	}
	asset := d.Amount.Asset()
	if h, b, o := x.Balance(ledger.HeldFunds, d.ID, asset), x.Balance(ledger.CompanyFunds, "", asset),
		x.Balance(ledger.DueFromCustomer, "", asset); h != held || b != balance || o != owed {
		x.Errorf("%s: held %d, balance %d, owed %d; want %d, %d, %d", state, h, b, o, held, balance, owed)
	}
}

// UseCompanyOf makes the accounts of a scheme valid for the company: it moves to the scheme's country.
func (x *env) UseCompanyOf(scheme bank.DebitScheme) {
	country := "US"
	if scheme.SEPA() {
		country = "DE"
	}
	x.Exec("UPDATE companies SET country = $1", country)
}

// apply applies a fact, which must cause a number of problems.
func (x *env) apply(f bank.DebitFact, problems int) {
	x.Helper()
	if got, err := x.c.Apply(x.Context(), x.DB, []bank.DebitFact{f}); err != nil || len(got) != problems {
		x.Fatalf("%v, %v; want %d problems", got, err, problems)
	}
}
