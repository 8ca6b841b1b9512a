package directdebit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/mail"
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

// A debit is announced the notice ahead, sent once, credited once, held, and then released once, however often each
// step is repeated.
func TestADebitIsCreditedAfterItsHold(t *testing.T) {
	run(t, func(x *env) {
		for _, scheme := range bank.DebitSchemes {
			x.UseCompanyOf(scheme)
			m := x.mandate(scheme, "123456")
			d := x.create(m, "2500.00")
			x.want(d, directdebit.Scheduled, "", 0, 0, 0)
			due := testkit.Must(time.Parse(time.DateOnly, d.DueOn))
			notice := map[bank.DebitScheme]time.Duration{bank.SEPACore: 14 * day, bank.SEPAB2B: 14 * day,
				bank.ACHCCD: day, bank.ACHWEB: 10 * day}[scheme]
			if now := testkit.Must(x.DB.Now(x.Context())); due.Sub(now) < notice-day || due.Sub(now) > notice+5*day {
				x.Errorf("%s is due on %s", scheme, d.DueOn)
			}
			x.WantCount(1, "mails WHERE template = '"+mail.DirectDebit+"' AND mail_key LIKE '"+d.ID+"/announced/%'")
			x.collect(d)
			for range 2 {
				x.want(d, directdebit.Collected, "", 2500_00, 0, 0)
				x.submit(d)
				x.respond()
			}
			x.release(d) // too early
			x.want(d, directdebit.Collected, "", 2500_00, 0, 0)
			x.Clock.Advance(80 * day)
			for range 2 { // no statement of the hold was read: a return may have come
				x.release(d)
				x.want(d, directdebit.Collected, directdebit.ReasonUnanswered, 2500_00, 0, 0)
			}
			x.respond()
			for range 2 {
				x.release(d)
				x.want(d, directdebit.Available, "", 0, 2500_00, 0)
			}
			x.Read(func(ctx context.Context, tx *db.Tx) error {
				responses, err := bank.Responses(ctx, tx, true, 100)
				for _, r := range responses {
					if len(r.Problems) > 0 {
						x.Errorf("%s: %v", r.Name, r.Problems)
					}
				}
				return err
			})
			x.PostTransfer(x.By.CompanyID, "test", d.ID, "spent", ledger.CompanyFunds, ledger.FXPosition, d.Amount)
		}
	})
}

// UseCompanyOf makes the accounts of a scheme valid for the company: it moves to the scheme's country.
func (x *env) UseCompanyOf(scheme bank.DebitScheme) {
	country := "US"
	if scheme.SEPA() {
		country = "DE"
	}
	x.Exec("UPDATE companies SET country = $1", country)
}

// Money that is within the risk limit can be used at once. When the debit is returned, the rest of the balance is taken
// and what is missing is a debt; every mandate is suspended and no scheduled debit is sent.
func TestAReturnAfterAnEarlyReleaseIsOwed(t *testing.T) {
	run(t, func(x *env) {
		first, other := x.mandate(bank.SEPAB2B, "123456"), x.mandate(bank.SEPACore, "123457")
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			return directdebit.SetLimit(ctx, tx, x.By.CompanyID, fixture.EUR(400_00))
		})
		d, later := x.create(first, "300.00"), x.create(first, "250.00")
		x.collect(d)
		x.want(d, directdebit.Collected, "", 0, 300_00, 0)
		x.submit(later)
		x.respond()
		x.want(later, directdebit.Collected, "", 150_00, 400_00, 0) // what the limit leaves
		x.PostTransfer(x.By.CompanyID, "test", "spend", "spent", ledger.CompanyFunds, ledger.FXPosition, fixture.EUR(350_00))
		waiting := x.create(other, "10.00")
		number, _ := bank.FindDebit(x.get(d).Reference())
		for range 2 {
			x.Must(x.sim.ReturnDebit(number, bank.SEPAB2B, d.Amount, "AM04", testkit.Must(x.DB.Now(x.Context()))))
			x.respond()
			x.want(d, directdebit.Returned, "AM04", 0, 0, 250_00)
		}
		for _, m := range []directdebit.Mandate{first, other} {
			if got := x.mandateState(m); got != "suspended AM04" {
				x.Errorf("the mandate is %s", got)
			}
		}
		if got := x.get(waiting); got.State != directdebit.Cancelled {
			x.Errorf("the scheduled debit is %s", got.State)
		}
		_, err := x.try(directdebit.Params{MandateID: first.ID, AmountText: "1"})
		if !errors.Is(err, directdebit.ErrMandate) {
			x.Errorf("another debit: %v", err)
		}
		// A company that owes money can neither retry nor have its mandate back.
		x.WantError(ledger.ErrInsufficient, fixture.Drop(func(ctx context.Context, tx *db.Tx) (directdebit.Debit, error) {
			return x.s.RetryDebit(ctx, tx, x.admin, "", d.ID)
		}))
		x.WantError(ledger.ErrInsufficient, func(ctx context.Context, tx *db.Tx) error {
			return directdebit.DecideMandate(ctx, tx, x.By.CompanyID, first.ID, true)
		})
	})
}

// A debit that was returned for lack of funds is retried at most twice; one of a closed account ends its mandate.
func TestRetries(t *testing.T) {
	run(t, func(x *env) {
		x.UseCompanyOf(bank.ACHCCD)
		m := x.mandate(bank.ACHCCD, "990001")
		d := x.create(m, "100.00")
		retry := func(d directdebit.Debit) (directdebit.Debit, error) {
			return fixture.Try(x.Fixture, func(ctx context.Context, tx *db.Tx) (directdebit.Debit, error) {
				return x.s.RetryDebit(ctx, tx, x.admin, "", d.ID)
			})
		}
		if _, err := retry(d); !errors.Is(err, directdebit.ErrRetry) {
			x.Errorf("a retry of a scheduled debit: %v", err)
		}
		for n := range 3 {
			x.collect(d)
			x.want(d, directdebit.Returned, "R01", 0, 0, 0)
			if got := x.mandateState(m); got != "suspended R01" {
				x.Errorf("the mandate is %s", got)
			}
			next, err := retry(d)
			if n == 2 {
				if !errors.Is(err, directdebit.ErrRetry) {
					x.Errorf("a third retry: %v", err)
				}
				break
			}
			x.Must(err)
			if again, err := retry(d); err != nil || again.ID != next.ID || next.RetryOf != d.ID {
				x.Errorf("the second retry is %+v, %v", again, err)
			}
			d = next
		}
		closed := x.mandate(bank.ACHCCD, "990002")
		c := x.create(closed, "100.00")
		x.collect(c)
		x.want(c, directdebit.Returned, "R02", 0, 0, 0)
		if got := x.mandateState(closed); got != "ended R02" {
			x.Errorf("the mandate is %s", got)
		}
		if _, err := retry(c); !errors.Is(err, directdebit.ErrRetry) {
			x.Errorf("a retry of a debit of a closed account: %v", err)
		}
	})
}

// A file that reaches the bank too late for its due date is refused with DT01: the debit gets another number and due
// date, is announced again, and is collected once. Another refusal, or that of a day that has not passed, fails it.
func TestADebitThatArrivedLateIsSentAgain(t *testing.T) {
	run(t, func(x *env) {
		for _, scheme := range []bank.DebitScheme{bank.SEPAB2B, bank.ACHCCD} {
			x.UseCompanyOf(scheme)
			m := x.mandate(scheme, "123456")
			d := x.create(m, "100.00")
			x.reach(d)
			x.submit(d)
			x.want(d, directdebit.Submitted, "", 0, 0, 0)
			first := x.get(d)
			x.Clock.Advance(6 * day) // the bank gets the file after the due date
			for range 2 {
				x.respond()
				x.want(d, directdebit.Scheduled, "", 0, 0, 0)
			}
			x.submit(d)
			again := x.get(d)
			a, _ := bank.DebitAccount(x.accounts, scheme)
			now := testkit.Must(x.DB.Now(x.Context()))
			if want := a.DueDate(scheme, now, time.Time{}).Format(time.DateOnly); again.State != directdebit.Scheduled ||
				again.DueOn != want || again.DueOn <= first.DueOn {
				x.Errorf("%s: it is %s and due on %s, want %s", scheme, again.State, again.DueOn, want)
			}
			x.WantCount(2, "mails WHERE mail_key LIKE '"+d.ID+"/announced/%'")
			x.WantCount(0, "mails WHERE mail_key LIKE '"+d.ID+"/failed/%'")
			if got := x.mandateState(m); got != "active" {
				x.Errorf("%s: the mandate is %s", scheme, got)
			}
			x.reach(again)
			x.submit(d)
			if now := x.get(d); now.Reference() == first.Reference() || now.State != directdebit.Submitted {
				x.Errorf("%s: %s is %s", scheme, now.Reference(), now.State)
			}
			if scheme.SEPA() { // nothing was collected under the mandate
				files := testkit.Must(filepath.Glob(filepath.Join(x.root, "out", "D*.xml")))
				if len(files) != 1 || !strings.Contains(string(testkit.Must(os.ReadFile(files[0]))), "<SeqTp>FRST<") {
					x.Errorf("the bank got %v", files)
				}
			}
			// The refusal of the first file is reported once more: it changes nothing and pauses nothing.
			number, _ := bank.FindDebit(first.Reference())
			x.apply(bank.DebitFact{Number: number, Outcome: bank.DebitRejected, Code: "DT01"}, 1)
			x.respond()
			x.want(d, directdebit.Collected, "", 100_00, 0, 0)
		}
		x.Read(func(ctx context.Context, tx *db.Tx) error {
			why, err := payout.Paused(ctx, tx)
			if why != "" {
				x.Errorf("payouts are paused: %s", why)
			}
			return err
		})
	})
	for name, c := range map[string]struct {
		code string
		wait time.Duration
	}{
		"another reason after the day": {"FF01", 4 * day}, "the day, in time": {"DT01", 0},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(x *env) {
				m := x.mandate(bank.SEPAB2B, "123456")
				d := x.create(m, "100.00")
				x.reach(d)
				x.submit(d)
				x.Clock.Advance(c.wait)
				number, _ := bank.FindDebit(x.get(d).Reference())
				x.apply(bank.DebitFact{Number: number, Outcome: bank.DebitRejected, Code: c.code}, 0)
				x.want(d, directdebit.Failed, c.code, 0, 0, 0)
				if got := x.mandateState(m); got != "suspended "+c.code {
					x.Errorf("the mandate is %s", got)
				}
			})
		})
	}
	// The bank collects a debit whose day it refused: it is credited, and not collected again.
	run(t, func(x *env) {
		d := x.create(x.mandate(bank.SEPAB2B, "123456"), "100.00")
		x.reach(d)
		x.submit(d)
		x.Clock.Advance(4 * day)
		number, _ := bank.FindDebit(x.get(d).Reference())
		x.apply(bank.DebitFact{Number: number, Outcome: bank.DebitRejected, Code: "DT01"}, 0)
		x.submit(d)
		x.apply(bank.DebitFact{Number: number, Outcome: bank.DebitCollected, Amount: d.Amount, Booked: true}, 0)
		x.submit(d)
		x.want(d, directdebit.Collected, "", 100_00, 0, 0)
	})
}

// apply applies a fact, which must cause a number of problems.
func (x *env) apply(f bank.DebitFact, problems int) {
	x.Helper()
	if got, err := x.c.Apply(x.Context(), x.DB, []bank.DebitFact{f}); err != nil || len(got) != problems {
		x.Fatalf("%v, %v; want %d problems", got, err, problems)
	}
}

// A debit that the bank rejects fails and books nothing.
func TestARejectedDebitBooksNothing(t *testing.T) {
	run(t, func(x *env) {
		m := x.mandate(bank.SEPACore, "991001")
		d := x.create(m, "100.00")
		x.collect(d)
		got := x.get(d)
		x.want(d, directdebit.Failed, got.Reason, 0, 0, 0)
		if got.Reason == "" || !strings.HasPrefix(x.mandateState(m), "suspended") {
			x.Errorf("%s, %s", got.Reason, x.mandateState(m))
		}
		x.WantCount(0, "ledger_journals WHERE source_type = 'direct_debit'")
	})
}

// No debit is sent while the company is frozen, payouts are paused, or the mandate is not active.
func TestADebitWaits(t *testing.T) {
	run(t, func(x *env) {
		m := x.mandate(bank.SEPAB2B, "123456")
		d := x.create(m, "100.00")
		x.reach(d)
		files := func() int { return len(testkit.Must(os.ReadDir(filepath.Join(x.root, "out")))) }
		x.Exec("UPDATE companies SET status = 'frozen'")
		x.submit(d)
		x.want(d, directdebit.Scheduled, directdebit.ReasonFrozen, 0, 0, 0)
		x.Exec("UPDATE companies SET status = 'active'")
		x.Write(func(ctx context.Context, tx *db.Tx) error { return payout.SetPaused(ctx, tx, "test") })
		x.submit(d)
		x.want(d, directdebit.Scheduled, directdebit.ReasonPaused, 0, 0, 0)
		x.Write(func(ctx context.Context, tx *db.Tx) error { return payout.SetPaused(ctx, tx, "") })
		if files() != 0 {
			x.Error("a file was sent")
		}
		// The debit is late: it is announced again, with the promised notice, and sent for its new due date.
		x.Clock.Advance(7 * day)
		now := testkit.Must(x.DB.Now(x.Context()))
		for range 2 {
			x.submit(d)
			late := x.get(d)
			due := testkit.Must(time.Parse(time.DateOnly, late.DueOn))
			if late.State != directdebit.Scheduled || due.Sub(now.Truncate(day)) < 14*day || files() != 0 {
				x.Errorf("%s, due on %s; %d files", late.State, late.DueOn, files())
			}
		}
		x.WantCount(2, "mails WHERE mail_key LIKE '"+d.ID+"/announced/%'")
		late := x.get(d)
		x.reach(late)
		x.WantCount(2, fmt.Sprintf("jobs WHERE kind = 'direct_debit.submit' AND run_at > %d AND run_at <= %d", db.Micros(now),
			db.Micros(testkit.Must(x.DB.Now(x.Context())))))
		x.submit(d)
		if sent := x.get(d); sent.State != directdebit.Submitted || sent.DueOn != late.DueOn || files() != 1 {
			x.Errorf("%s, due on %s; %d files", sent.State, sent.DueOn, files())
		}
		x.WantCount(2, "mails WHERE mail_key LIKE '"+d.ID+"/announced/%'")
		x.respond()
		// A frozen company's money is not released.
		x.Exec("UPDATE companies SET status = 'frozen'")
		x.Clock.Advance(30 * day)
		x.respond()
		x.release(d)
		x.want(d, directdebit.Collected, "", 100_00, 0, 0)
		x.Exec("UPDATE companies SET status = 'active'")
		x.release(d)
		x.want(d, directdebit.Available, "", 0, 100_00, 0)

		revoked := x.create(m, "5.00")
		x.Write(fixture.Drop(func(ctx context.Context, tx *db.Tx) (directdebit.Mandate, error) {
			return x.s.Revoke(ctx, tx, x.admin, "", m.ID)
		}))
		x.submit(revoked)
		if got := x.get(revoked); got.State != directdebit.Cancelled || files() != 0 {
			x.Errorf("the debit under a revoked mandate is %s", got.State)
		}
	})
}

// Wherever a process is killed, and however many send a debit at once, the bank gets one file.
func TestADebitIsSentOnce(t *testing.T) {
	run(t, func(x *env) {
		m := x.mandate(bank.SEPAB2B, "123456")
		d := x.create(m, "100.00")
		x.reach(d)
		out := filepath.Join(x.root, "out")
		// The drop is gone: the debit is prepared and not sent.
		x.Must(os.Rename(out, out+".gone"))
		x.Must(os.WriteFile(out, nil, 0o600))
		x.submit(d)
		x.want(d, directdebit.Submitting, "", 0, 0, 0)
		x.Must(os.Remove(out))
		x.Must(os.Rename(out+".gone", out))
		var work sync.WaitGroup
		for range 4 {
			work.Go(func() { _ = x.trySubmit(d) })
		}
		work.Wait()
		x.submit(d)
		files := testkit.Must(filepath.Glob(filepath.Join(out, "D*.xml")))
		if len(files) != 1 {
			x.Fatalf("the bank got %v", files)
		}
		// The record of the transfer is lost: it is found, and not sent again.
		x.Exec("UPDATE direct_debits SET status = 'submitting'")
		x.submit(d)
		x.want(d, directdebit.Submitted, "", 0, 0, 0)
		// The bank has taken the file, and the record is lost: the outcome is unknown until the bank reports it.
		x.Exec("UPDATE direct_debits SET status = 'submitting'")
		x.Must(os.Rename(files[0], filepath.Join(x.root, "done", "kept")))
		x.submit(d)
		x.want(d, directdebit.Submitting, directdebit.ReasonUnknown, 0, 0, 0)
		number, _ := bank.FindDebit(x.get(d).Reference())
		fact := bank.DebitFact{Number: number, Outcome: bank.DebitCollected, Amount: d.Amount, Booked: true}
		for range 2 {
			if problems, err := x.c.Apply(x.Context(), x.DB, []bank.DebitFact{fact}); err != nil || len(problems) > 0 {
				x.Fatal(problems, err)
			}
			x.want(d, directdebit.Collected, "", 100_00, 0, 0)
		}
		x.submit(d)
		if again := testkit.Must(filepath.Glob(filepath.Join(out, "D*.xml"))); len(again) != 0 {
			x.Errorf("the bank got %v again", again)
		}
		// A return that two workers read at once is booked once, with the fee that the bank took, if the account allows it.
		fact = bank.DebitFact{Number: number, Outcome: bank.DebitReturned, Code: "MD01", Amount: d.Amount}
		for range 4 {
			work.Go(func() { _, _ = x.c.Apply(x.Context(), x.DB, []bank.DebitFact{fact}) })
		}
		work.Wait()
		x.want(d, directdebit.Returned, "MD01", 0, 0, 0)
		if got := x.mandateState(m); got != "ended MD01" {
			x.Errorf("the mandate is %s", got)
		}
	})
}

// What contradicts a debit is a problem for staff and books nothing; a debit that the database does not contain pauses
// payouts.
func TestContradictionsAreProblems(t *testing.T) {
	run(t, func(x *env) {
		d := x.create(x.mandate(bank.SEPAB2B, "123456"), "100.00")
		x.reach(d)
		x.submit(d)
		number, _ := bank.FindDebit(x.get(d).Reference())
		for name, f := range map[string]bank.DebitFact{
			"another amount":  {Number: number, Outcome: bank.DebitCollected, Amount: fixture.EUR(1)},
			"a part returned": {Number: number, Outcome: bank.DebitReturned, Amount: fixture.EUR(99_99)},
			"an unknown one":  {Number: 999, Outcome: bank.DebitCollected, Amount: d.Amount},
		} {
			problems, err := x.c.Apply(x.Context(), x.DB, []bank.DebitFact{f})
			if err != nil || len(problems) != 1 {
				x.Errorf("%s: %v, %v", name, problems, err)
			}
		}
		x.want(d, directdebit.Submitted, "", 0, 0, 0)
		x.Read(func(ctx context.Context, tx *db.Tx) error {
			if why, err := payout.Paused(ctx, tx); err != nil || !strings.Contains(why, "D0000999") {
				x.Errorf("payouts are paused by %q, %v", why, err)
			}
			return nil
		})
		// The bank kept more than the agreed fee. The debit came back nevertheless.
		problems, err := x.c.Apply(x.Context(), x.DB, []bank.DebitFact{
			{Number: number, Outcome: bank.DebitReturned, Amount: fixture.EUR(103_00)},
		})
		if err != nil || len(problems) != 1 || x.get(d).State != directdebit.Returned {
			x.Errorf("%s: %v, %v", x.get(d).State, problems, err)
		}
	})
}

// A mandate keeps its proof, waits until its account is known to be the company's, and ends after 36 months without
// use.
func TestMandates(t *testing.T) {
	run(t, func(x *env) {
		x.owns = false
		m := x.mandate(bank.SEPACore, "123456")
		if got := x.mandateState(m); got != "pending ownership_check" {
			x.Errorf("the mandate is %s", got)
		}
		p := testkit.Must(x.s.ProofOf(m))
		if !strings.Contains(p.Text, "DE98ZZZ09999999999") || !strings.Contains(p.Text, "8 weeks") || p.Language != "en" ||
			p.Address != "203.0.113.7" || p.Browser != "Mozilla/5.0" || m.AcceptedBy != x.admin.UserID {
			x.Errorf("the proof is %+v of %+v", p, m)
		}
		if _, err := x.try(directdebit.Params{MandateID: m.ID, AmountText: "1"}); !errors.Is(err, directdebit.ErrMandate) {
			x.Errorf("a debit of an unchecked account: %v", err)
		}
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			return directdebit.DecideMandate(ctx, tx, x.By.CompanyID, m.ID, true)
		})
		for name, p := range map[string]directdebit.MandateParams{
			"not accepted":   {Scheme: "sepa_core", Data: data(bank.SEPACore, "123456")},
			"no such scheme": {Scheme: "bacs", Data: data(bank.SEPACore, "123456"), Accepted: true},
			"no account":     {Scheme: "sepa_core", Data: []byte("{}"), Accepted: true},
		} {
			if _, err := fixture.Try(x.Fixture, func(ctx context.Context, tx *db.Tx) (directdebit.Mandate, error) {
				return x.s.AddMandate(ctx, tx, x.admin, p)
			}); err == nil {
				x.Errorf("%s: it was stored", name)
			}
		}
		key := identity.Principal{Kind: identity.KindAPIKey, ID: "key_1", CompanyID: x.By.CompanyID}
		if _, err := fixture.Try(x.Fixture, func(ctx context.Context, tx *db.Tx) (directdebit.Mandate, error) {
			return x.s.AddMandate(ctx, tx, key, directdebit.MandateParams{Scheme: "sepa_core",
				Data: data(bank.SEPACore, "123456"), Accepted: true})
		}); err == nil {
			x.Error("a program accepted a mandate")
		}
		for _, p := range x.c.Periodic(x.DB) {
			if p.Name == "direct_debit.mandates" {
				x.Clock.Advance(36*30*day + 20*day)
				d := x.create(m, "10.00")
				x.collect(d)
				x.Must(p.Run(x.Context()))
				if got := x.mandateState(m); got != "active" {
					x.Errorf("the used mandate is %s", got)
				}
				x.Clock.Advance(3*366*day + day)
				x.Must(p.Run(x.Context()))
				if got := x.mandateState(m); got != "ended unused" {
					x.Errorf("the unused mandate is %s", got)
				}
			}
		}
	})
}

// Staff who asked the bank decide about a debit whose outcome is unknown. One that the bank does not have is sent
// again, once: as the same file, or by another file that is due later.
func TestStaffDecideAboutAnUnknownOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		decide func(ctx context.Context, tx *db.Tx, number int64) error
		wait   time.Duration
		number int64 // of the file after that
		state  directdebit.State
		files  int
	}{
		"the bank has it": {decide: directdebit.ConfirmReceived, state: directdebit.Submitted, number: 1},
		"it does not":     {decide: directdebit.Resend, state: directdebit.Submitted, number: 1, files: 1},
		"it is too late":  {decide: directdebit.Resend, wait: 20 * day, state: directdebit.Submitted, number: 2, files: 1},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(x *env) {
				d := x.create(x.mandate(bank.SEPAB2B, "123456"), "100.00")
				decide := func() error {
					return x.DB.Write(x.Context(), func(ctx context.Context, tx *db.Tx) error { return c.decide(ctx, tx, 1) })
				}
				if err := decide(); !errors.Is(err, directdebit.ErrNotFound) {
					x.Errorf("before it has a number: %v", err)
				}
				x.reach(d)
				x.submit(d)
				if err := decide(); !errors.Is(err, directdebit.ErrOutcomeKnown) {
					x.Errorf("a known outcome: %v", err)
				}
				x.Exec("UPDATE direct_debits SET status = 'submitting'")
				x.Must(os.Remove(filepath.Join(x.root, "out", "D0000001.xml")))
				x.submit(d)
				x.want(d, directdebit.Submitting, directdebit.ReasonUnknown, 0, 0, 0)
				x.Clock.Advance(c.wait)
				x.Must(decide())
				x.submit(d)
				if c.wait > 0 { // it is announced again before it is sent
					x.want(d, directdebit.Scheduled, "", 0, 0, 0)
					x.reach(x.get(d))
				}
				for range 2 {
					x.submit(d)
				}
				got := x.get(d)
				if number, _ := bank.FindDebit(got.Reference()); got.State != c.state || number != c.number {
					x.Errorf("%s is %s", got.Reference(), got.State)
				}
				if later := c.number == 2; later != (got.DueOn > d.DueOn) {
					x.Errorf("it is due on %s, was %s", got.DueOn, d.DueOn)
				}
				if files, _ := filepath.Glob(filepath.Join(x.root, "out", "D*.xml")); len(files) != c.files {
					x.Errorf("the bank got %v", files)
				}
			})
		})
	}
}

// The holds of the schemes last until the last return that their rulebooks allow has reached the operator's statement.
func TestHoldsOutlastTheReturnWindows(t *testing.T) {
	of := map[bank.DebitScheme]bank.Account{}
	for _, scheme := range bank.DebitSchemes {
		a, ok := bank.DebitAccount(bank.SandboxAccounts(), scheme)
		if !ok {
			t.Fatalf("no account collects %s", scheme)
		}
		of[scheme] = a
	}
	byAPI := testkit.Must(bank.ReadAccounts(strings.NewReader(`[{"id": "usd", "currency": "USD", "format": "column",
		"name": "Example Payments", "number": "bacc_1", "debits": {"schemes": {"ach_ccd": {}}}}]`)))
	of["ach_ccd by API"] = byAPI[0] // which has no calendar of its own
	for _, c := range []struct {
		scheme         bank.DebitScheme
		credited, last string // day of the credit, and the last day on which a return can settle
	}{
		{bank.SEPACore, "2026-02-05", "2026-04-08"}, // eight weeks end on Maundy Thursday; two TARGET days follow Easter
		{bank.SEPACore, "2026-10-29", "2026-12-29"}, // Christmas Eve
		{bank.SEPACore, "2026-06-01", "2026-07-29"},
		{bank.SEPAB2B, "2026-04-02", "2026-04-09"}, // Maundy Thursday
		{bank.SEPAB2B, "2026-06-01", "2026-06-04"},
		{bank.ACHCCD, "2026-11-24", "2026-11-27"}, // Thanksgiving Day is the 26th
		{bank.ACHCCD, "2026-12-23", "2026-12-28"},
		{bank.ACHCCD, "2026-06-01", "2026-06-03"},
		{"ach_ccd by API", "2026-11-24", "2026-11-27"},
		{bank.ACHWEB, "2026-06-01", "2026-07-31"}, // the banking day after the 60th day
	} {
		a := of[c.scheme]
		scheme := bank.DebitScheme(strings.TrimSuffix(string(c.scheme), " by API"))
		end := a.HoldEnd(scheme, testkit.Must(time.Parse(time.DateOnly, c.credited)).Add(15*time.Hour))
		if got := end.Format(time.DateOnly); got <= c.last {
			t.Errorf("%s: what was credited on %s is held until %s; a return can settle on %s", c.scheme, c.credited, got,
				c.last)
		} else if limit := testkit.Must(time.Parse(time.DateOnly, c.last)).AddDate(0, 0, 7); end.After(limit) {
			t.Errorf("%s: what was credited on %s is held until %s", c.scheme, c.credited, got)
		}
	}
}

// A debit that is ready to be sent is not sent after its mandate ended or was suspended.
func TestNoDebitIsSentAfterItsMandateEnded(t *testing.T) {
	for name, end := range map[string]func(x *env, m directdebit.Mandate){
		"revoked": func(x *env, m directdebit.Mandate) {
			x.Write(fixture.Drop(func(ctx context.Context, tx *db.Tx) (directdebit.Mandate, error) {
				return x.s.Revoke(ctx, tx, x.admin, "", m.ID)
			}))
		},
		"suspended": func(x *env, _ directdebit.Mandate) {
			x.Exec("UPDATE direct_debit_mandates SET status = 'suspended', reason = 'MD01'")
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(x *env) {
				m := x.mandate(bank.SEPAB2B, "123456")
				d := x.create(m, "100.00")
				x.reach(d)
				out := filepath.Join(x.root, "out")
				x.Must(os.Rename(out, out+".gone")) // the debit is made and cannot be sent
				x.Must(os.WriteFile(out, nil, 0o600))
				x.submit(d)
				x.want(d, directdebit.Submitting, "", 0, 0, 0)
				x.Must(os.Remove(out))
				x.Must(os.Rename(out+".gone", out))
				end(x, m)
				for range 2 {
					x.submit(d)
				}
				x.want(d, directdebit.Cancelled, directdebit.ReasonMandate, 0, 0, 0)
				if files, _ := filepath.Glob(filepath.Join(out, "D*.xml")); len(files) != 0 {
					x.Errorf("the bank got %v", files)
				}
			})
		})
	}
}

// A company lifts the suspension after a lack of funds by a retry, but not one for another reason, also if that came
// after the lack of funds.
func TestACompanyCannotLiftASuspension(t *testing.T) {
	for reason, lifted := range map[string]bool{"AM04": true, "MS03": false} {
		t.Run(reason, func(t *testing.T) {
			run(t, func(x *env) {
				first, second := x.mandate(bank.SEPAB2B, "123456"), x.mandate(bank.SEPAB2B, "123457")
				d, other := x.create(first, "100.00"), x.create(second, "50.00")
				x.collect(d)
				x.submit(other)
				x.respond()
				for _, back := range []struct {
					debit directdebit.Debit
					code  string
				}{{d, "AM04"}, {other, reason}} {
					number, _ := bank.FindDebit(x.get(back.debit).Reference())
					fact := bank.DebitFact{Number: number, Outcome: bank.DebitReturned, Code: back.code}
					if problems, err := x.c.Apply(x.Context(), x.DB, []bank.DebitFact{fact}); err != nil || len(problems) > 0 {
						x.Fatal(problems, err)
					}
				}
				if got := x.mandateState(first); got != "suspended "+reason {
					x.Errorf("the mandate is %s", got)
				}
				_, err := fixture.Try(x.Fixture, func(ctx context.Context, tx *db.Tx) (directdebit.Debit, error) {
					return x.s.RetryDebit(ctx, tx, x.admin, "", d.ID)
				})
				if lifted != (err == nil) || !lifted && !errors.Is(err, directdebit.ErrMandate) {
					x.Errorf("a retry: %v", err)
				}
				if got := x.mandateState(first); lifted != (got == "active") {
					x.Errorf("after a retry the mandate is %s", got)
				}
			})
		})
	}
}

// The schemes with short holds debit accounts of businesses only.
func TestBusinessSchemesRefusePersonalAccounts(t *testing.T) {
	run(t, func(x *env) {
		for scheme, allowed := range map[bank.DebitScheme]bool{bank.SEPACore: true, bank.SEPAB2B: false, bank.ACHCCD: false,
			bank.ACHWEB: true} {
			x.UseCompanyOf(scheme)
			personal := strings.ReplaceAll(string(data(scheme, "123456")), `"business"`, `"individual"`)
			_, err := fixture.Try(x.Fixture, func(ctx context.Context, tx *db.Tx) (directdebit.Mandate, error) {
				return x.s.AddMandate(ctx, tx, x.admin, directdebit.MandateParams{Scheme: string(scheme), Data: []byte(personal),
					Language: "en", Accepted: true})
			})
			if (err == nil) != allowed {
				x.Errorf("%s of a personal account: %v", scheme, err)
			}
		}
	})
}

// A bank outside of the European Economic Area requires the address of the company that is debited. A mandate is
// refused without it, and a debit waits until the company's profile has it again.
func TestABankAbroadRequiresTheAddress(t *testing.T) {
	run(t, func(x *env) {
		x.Exec("UPDATE companies SET country = 'CH'")
		add := func() (directdebit.Mandate, error) {
			return fixture.Try(x.Fixture, func(ctx context.Context, tx *db.Tx) (directdebit.Mandate, error) {
				return x.s.AddMandate(ctx, tx, x.admin, directdebit.MandateParams{Scheme: string(bank.SEPAB2B),
					Data: []byte(`{"account_holder_name":"Acme AG","account_holder_type":"business",
						"iban":"CH9300762011623852957"}`), Language: "en", Accepted: true})
			})
		}
		if _, err := add(); err == nil || !strings.Contains(err.Error(), "European Economic Area") {
			x.Errorf("without an address: %v", err)
		}
		home := payout.Details{PayerStreet: "2 Main Street", PayerTown: "Zug", PayerCountry: "CH"}
		x.address = home
		m, err := add()
		x.Must(err)
		d := x.create(m, "100.00")
		x.reach(d)
		x.address = payout.Details{}
		x.submit(d)
		x.want(d, directdebit.Scheduled, directdebit.ReasonAddress, 0, 0, 0)
		x.address = home
		x.submit(d)
		body := testkit.Must(os.ReadFile(filepath.Join(x.root, "out", "D0000001.xml")))
		if text := string(body); !strings.Contains(text, "<TwnNm>Zug</TwnNm>") || !strings.Contains(text, "<Ctry>CH</Ctry>") {
			x.Errorf("the file lacks the address:\n%s", text)
		}
		x.Read(func(ctx context.Context, tx *db.Tx) error {
			open, err := directdebit.Unconfirmed(ctx, tx, 10)
			if len(open) != 1 || open[0].ID != d.ID || open[0].CompanyID != d.CompanyID {
				x.Errorf("the debits that the bank has are %+v", open)
			}
			return err
		})
		x.respond()
		x.want(d, directdebit.Collected, "", 100_00, 0, 0)
		x.Read(func(ctx context.Context, tx *db.Tx) error {
			open, err := directdebit.Unconfirmed(ctx, tx, 10)
			if len(open) != 0 {
				x.Errorf("a collected debit is open: %+v", open)
			}
			return err
		})
	})
}
