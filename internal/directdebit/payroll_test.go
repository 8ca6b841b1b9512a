package directdebit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/testkit/fixture"
	"github.com/stipend/stipend/internal/treasury"
)

type noAddresses struct{}

func (noAddresses) Address(uint32, uint32) (string, error) { return "", errors.New("no addresses") }

// payEnv is a company with a mandate for direct debits and a payee who is paid in euros.
type payEnv struct {
	*env
	pay *payroll.Service
	m   directdebit.Mandate
}

func runPayrolls(t *testing.T, f func(x *payEnv)) {
	t.Helper()
	run(t, func(base *env) {
		x := &payEnv{env: base}
		var err error
		x.pay, err = payroll.New(payroll.Config{
			Pool: chain.NewPool(x.DB, "regtest", noAddresses{}), ChainName: "regtest", Network: "regtest",
			QuoteValidity: 30 * time.Minute, Treasury: testkit.Must(treasury.New(treasury.Unlimited)),
			AllowUnverified: true, Sealer: &identity.Sealer{}, Debits: x.s,
		}, payroll.Guards{TravelRule: allow.Records[payout.Output],
			CheckWatched: allow.Network, Screen: allow.Subjects[destination.ScreeningSubject],
			ReleasePlanned: allow.Release, ReleaseApproved: allow.Release, PayeesApproved: allow.Payees})
		x.Must(err)
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			if err := tx.Insert(ctx, "recipients", []string{
				"company_id", "recipient_id", "relationship_id", "user_id", "recipient_type", "role", "status", "name",
				"name_key", "first_name", "last_name", "email", "email_key", "country", "external_id", "department",
				"vendor_type", "details", "onboarded", "version", "created_at", "updated_at",
			}, [][]any{{x.By.CompanyID, "rec_eur", "rel_eur", "", "user", "contractor", "active", "Eve", "eve", "Eve", "", "",
				"", "DE", "", "", "", "", true, int64(1), int64(0), int64(0)}}); err != nil {
				return err
			}
			return tx.Insert(ctx, "destinations", []string{
				"owner_id", "destination_id", "kind", "symbol", "rail", "scheme", "country", "network", "address",
				"sealed", "masked", "allocation", "created_at", "updated_at",
			}, [][]any{{"rec_eur", "dst_eur", "fiat", "EUR", "bank", "", "", "", "", "", "{}", int64(100), int64(0),
				int64(0)}})
		})
		x.m = x.mandate(bank.SEPAB2B, "123456")
		f(x)
	})
}

// order creates a payroll of 100.00 EUR that is funded by direct debit.
func (x *payEnv) order() (payroll.Payroll, directdebit.Debit) {
	x.Helper()
	x.Clock.Advance(time.Second)
	p, err := x.tryOrder(x.admin, "EUR", "100")
	x.Must(err)
	return p, x.debitOf(p)
}

func (x *payEnv) tryOrder(by identity.Principal, currency, amount string) (payroll.Payroll, error) {
	return fixture.Try(x.Fixture, func(ctx context.Context, tx *db.Tx) (payroll.Payroll, error) {
		return x.pay.Create(ctx, tx, by, payroll.CreateParams{FundingMethod: payroll.MethodDebit, Currency: currency,
			ToPay: []payroll.Payee{{UserID: "rec_eur", AmountText: amount}}})
	})
}

// debitOf returns the newest direct debit of a payroll.
func (x *payEnv) debitOf(p payroll.Payroll) directdebit.Debit {
	x.Helper()
	return fixture.Get(x.Fixture, func(ctx context.Context, tx *db.Tx) (directdebit.Debit, error) {
		return directdebit.OfPayroll(ctx, tx, p.CompanyID, p.ID)
	})
}

// is compares the state of a payroll, and the cents that are in its escrow, in the balance and owed.
func (x *payEnv) is(p payroll.Payroll, want string, escrow, balance, owed int64) {
	x.Helper()
	now := fixture.Get(x.Fixture, func(ctx context.Context, tx *db.Tx) (payroll.Payroll, error) {
		return x.pay.Get(ctx, tx, x.admin, p.ID)
	})
	if got := fmt.Sprint(now.State, " ", now.FundingState); got != want {
		x.Errorf("the payroll is %s, want %s", got, want)
	}
	if state := now.Payments[0].State; now.State != payroll.OnHold && now.State != payroll.ExpiredUnfunded &&
		state != now.State {
		x.Errorf("the payment is %s, the payroll %s", state, now.State)
	}
	if e, b, o := x.Balance(ledger.Escrow, p.ID, money.EUR), x.Balance(ledger.CompanyFunds, "", money.EUR),
		x.Balance(ledger.DueFromCustomer, "", money.EUR); e != escrow || b != balance || o != owed {
		x.Errorf("%s: escrow %d, balance %d, owed %d; want %d, %d, %d", want, e, b, o, escrow, balance, owed)
	}
}

// trust sets the company's risk limit.
func (x *payEnv) trust(cents int64) {
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		return directdebit.SetLimit(ctx, tx, x.By.CompanyID, fixture.EUR(cents))
	})
}

// takeBack makes the bank return a debit.
func (x *payEnv) takeBack(d directdebit.Debit, reason string) {
	x.Helper()
	number, _ := bank.FindDebit(x.get(d).Reference())
	x.Must(x.sim.ReturnDebit(number, d.Mandate.Scheme, d.Amount, reason, testkit.Must(x.DB.Now(x.Context()))))
	x.respond()
}

func (x *payEnv) cancel(p payroll.Payroll) {
	x.Helper()
	x.Write(fixture.Drop(func(ctx context.Context, tx *db.Tx) (payroll.Payroll, error) {
		return x.pay.Cancel(ctx, tx, x.admin, p.ID)
	}))
}

// A payroll waits for its direct debit until the hold has ended, also for longer than other payrolls wait for their
// funding, and is then paid from exactly this money.
func TestADebitFundsAPayroll(t *testing.T) {
	runPayrolls(t, func(x *payEnv) {
		p, d := x.order()
		if d.Amount != fixture.EUR(100_00) || d.PayrollID != p.ID || d.Description != "Payroll "+p.ID {
			x.Errorf("the debit is %+v", d)
		}
		x.is(p, "pending none", 0, 0, 0)
		x.collect(d)
		x.is(p, "pending confirming", 0, 0, 0)
		x.release(d) // too early
		x.is(p, "pending confirming", 0, 0, 0)
		x.Clock.Advance(40 * day)
		x.Deliver(x.pay.Expire, "payroll_id", p.ID)
		x.is(p, "pending confirming", 0, 0, 0)
		x.respond() // the statements of the hold
		x.release(d)
		x.is(p, "received funded", 100_00, 0, 0)
		x.want(d, directdebit.Available, "", 0, 0, 0)
		x.Deliver(x.pay.Release, "payroll_id", p.ID)
		x.is(p, "released funded", 0, 0, 0)
	})
}

// Money within the risk limit funds a payroll at once, if the limit leaves enough for all of it.
func TestTheRiskLimitFundsAWholePayroll(t *testing.T) {
	runPayrolls(t, func(x *payEnv) {
		x.trust(199_99)
		p, d := x.order()
		later, next := x.order()
		x.collect(d)
		x.is(p, "received funded", 100_00, 0, 0)
		x.submit(next)
		x.respond()
		x.is(later, "pending confirming", 0, 0, 0)
		x.want(next, directdebit.Collected, "", 100_00, 0, 0)
	})
}

// A payroll whose ACH debit was canceled because the company is abroad by then stays pending, as after any debit that
// failed, and can be canceled.
func TestAPayrollOutlivesAnInternationalDebit(t *testing.T) {
	runPayrolls(t, func(x *payEnv) {
		x.UseCompanyOf(bank.ACHCCD)
		x.Exec("UPDATE destinations SET symbol = 'USD'")
		x.address.PayerCountry = "US"
		x.mandate(bank.ACHCCD, "123456")
		p, err := x.tryOrder(x.admin, "USD", "100")
		x.Must(err)
		d := x.debitOf(p)
		x.reach(d)
		x.address.PayerCountry = "CA"
		x.submit(d)
		x.want(d, directdebit.Cancelled, bank.ReasonInternational, 0, 0, 0)
		x.is(p, "pending none", 0, 0, 0)
		x.cancel(p)
		x.is(p, "cancelled none", 0, 0, 0)
	})
}

// The return of a debit takes the money out of a payroll that was not released. A retry funds the payroll again.
func TestAReturnedDebitUnfundsItsPayroll(t *testing.T) {
	runPayrolls(t, func(x *payEnv) {
		x.trust(100_00)
		p, d := x.order()
		x.collect(d)
		x.is(p, "received funded", 100_00, 0, 0)
		for range 2 {
			x.takeBack(d, "AM04")
			x.is(p, "pending none", 0, 0, 0)
		}
		x.Deliver(x.pay.Release, "payroll_id", p.ID) // an earlier job
		x.is(p, "pending none", 0, 0, 0)
		again := fixture.Do(x.Fixture, func(ctx context.Context, tx *db.Tx) (directdebit.Debit, error) {
			return x.s.RetryDebit(ctx, tx, x.admin, "", d.ID)
		})
		x.collect(again)
		x.is(p, "received funded", 100_00, 0, 0)
	})
}

// If the payroll was released before its debit was returned, the company owes the money, and payouts that were not sent
// wait until the debt is paid.
func TestAReturnAfterTheReleaseHoldsPayouts(t *testing.T) {
	runPayrolls(t, func(x *payEnv) {
		x.trust(100_00)
		p, d := x.order()
		x.collect(d)
		x.Deliver(x.pay.Release, "payroll_id", p.ID)
		x.takeBack(d, "MS03")
		x.is(p, "on_hold none", 0, 0, 100_00)
		x.WantCount(1, "outputs WHERE on_hold")
		x.Deliver(x.pay.Fund, "object_id", p.ID)
		x.is(p, "on_hold none", 0, 0, 100_00)
		x.PostTransfer(x.By.CompanyID, "test", "pays", "pays", ledger.FXPosition, ledger.CompanyFunds, fixture.EUR(100_00))
		x.Must(payroll.SettleDebts(x.Context(), x.DB))
		x.Deliver(x.pay.Fund, "object_id", p.ID)
		x.is(p, "released funded", 0, 0, 0)
		x.WantCount(0, "outputs WHERE on_hold")
	})
}

// The payouts of a payroll that had ended when its debit was returned can be sent again once the debt is paid.
func TestAPaidDebtResumesThePayoutsOfAnEndedPayroll(t *testing.T) {
	runPayrolls(t, func(x *payEnv) {
		x.trust(100_00)
		p, d := x.order()
		x.collect(d)
		x.Deliver(x.pay.Release, "payroll_id", p.ID)
		x.Exec("UPDATE outputs SET state = 'failed'")
		x.Deliver(x.pay.Settle, "payroll_id", p.ID)
		x.takeBack(d, "MS03")
		x.WantCount(1, "payrolls WHERE state = 'partially_fulfilled' AND funding_state = 'none'")
		x.WantCount(1, "outputs WHERE on_hold")
		x.PostTransfer(x.By.CompanyID, "test", "pays", "pays", ledger.FXPosition, ledger.CompanyFunds, fixture.EUR(100_00))
		x.Exec("DELETE FROM jobs")
		x.Must(payroll.SettleDebts(x.Context(), x.DB))
		x.WantCount(1, "jobs WHERE kind = $1", deposit.JobChanged)
		x.Deliver(x.pay.Fund, "object_id", p.ID)
		x.WantCount(1, "payrolls WHERE state = 'partially_fulfilled' AND funding_state = 'funded'")
		x.WantCount(0, "outputs WHERE on_hold")
		x.WantCount(1, "jobs WHERE kind = $1", payroll.JobRelease)
	})
}

// The payment of the debt does not resume the payouts of a frozen company. They wait for the end of the freeze.
func TestAPaidDebtResumesNoPayoutsOfAFrozenCompany(t *testing.T) {
	runPayrolls(t, func(x *payEnv) {
		x.trust(100_00)
		p, d := x.order()
		x.collect(d)
		x.Deliver(x.pay.Release, "payroll_id", p.ID)
		x.takeBack(d, "MS03")
		x.Exec("UPDATE companies SET status = 'frozen'")
		x.PostTransfer(x.By.CompanyID, "test", "pays", "pays", ledger.FXPosition, ledger.CompanyFunds, fixture.EUR(100_00))
		x.Must(payroll.SettleDebts(x.Context(), x.DB))
		x.Deliver(x.pay.Fund, "object_id", p.ID)
		x.is(p, "on_hold funded", 0, 0, 0)
		x.WantCount(1, "outputs WHERE on_hold")
		x.Exec("UPDATE companies SET status = 'active'")
		x.Write(func(ctx context.Context, tx *db.Tx) error { return payroll.Unfreeze(ctx, tx, x.By.CompanyID) })
		x.is(p, "released funded", 0, 0, 0)
		x.WantCount(0, "outputs WHERE on_hold")
	})
}

// A company that owes money, or has spent that of the debit, is not paid for: the payroll is funded once the balance
// covers it.
func TestAPayrollWaitsForTheDebtsOfItsCompany(t *testing.T) {
	runPayrolls(t, func(x *payEnv) {
		p, d := x.order()
		x.collect(d)
		x.PostTransfer(x.By.CompanyID, "test", "owes", "owes", ledger.DueFromCustomer, ledger.FXPosition, fixture.EUR(30_00))
		x.Clock.Advance(20 * day)
		x.respond()
		x.release(d)
		x.is(p, "pending confirming", 0, 100_00, 30_00)
		x.Must(payroll.SettleDebts(x.Context(), x.DB))
		x.Deliver(x.pay.Fund, "object_id", p.ID)
		x.is(p, "pending confirming", 0, 70_00, 0)
		x.PostTransfer(x.By.CompanyID, "test", "pays", "pays", ledger.FXPosition, ledger.CompanyFunds, fixture.EUR(30_00))
		x.Deliver(x.pay.Fund, "object_id", p.ID)
		x.is(p, "received funded", 100_00, 0, 0)
	})
}

// debitFirst fails the test if a payroll was changed before its debit is locked: transactions that post a debit lock
// the debit first, and the opposite order would be a deadlock.
type debitFirst struct {
	payroll.Debits
	x *payEnv
}

func (f debitFirst) CancelPayroll(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, id string) error {
	var state string
	if err := tx.QueryRow(ctx, "SELECT state FROM payrolls WHERE company_id = $1 AND payroll_id = $2", companyID, id).
		Scan(&state); err != nil {
		return err
	}
	if state != string(payroll.Pending) {
		f.x.Errorf("the payroll is %s before its debit is locked", state)
	}
	return f.Debits.CancelPayroll(ctx, tx, by, companyID, id)
}

// Canceling a payroll cancels its debit. The money of one that the bank has already is the company's balance.
func TestACanceledPayrollCancelsItsDebit(t *testing.T) {
	runPayrolls(t, func(x *payEnv) {
		x.pay.Debits = debitFirst{x.pay.Debits, x}
		p, d := x.order()
		x.cancel(p)
		x.want(d, directdebit.Cancelled, "", 0, 0, 0)
		p, d = x.order()
		x.collect(d)
		x.cancel(p)
		x.Clock.Advance(20 * day)
		x.respond()
		x.release(d)
		x.want(d, directdebit.Available, "", 0, 100_00, 0)
		x.is(p, "cancelled confirming", 0, 100_00, 0)
	})
}

// A debit that the bank refuses leaves its payroll unfunded. A payroll that cannot be collected is not created.
func TestPayrollsThatCannotBeCollected(t *testing.T) {
	runPayrolls(t, func(x *payEnv) {
		refused := func(what, code string, by identity.Principal, currency, amount string) {
			x.Helper()
			_, err := x.tryOrder(by, currency, amount)
			if f := x.Fault(code, err); len(f.Fields) != 1 || f.Fields[0].Pointer != "/funding_method" {
				x.Errorf("%s: %+v", what, f.Fields)
			}
		}
		for _, kind := range []identity.Kind{identity.KindOAuth, identity.KindPlatform} {
			by := x.By
			by.Kind = kind
			refused(string(kind), "insufficient_scope", by, "EUR", "1")
		}
		refused("no mandate in the currency", "mandate_not_active", x.By, "USD", "1")
		refused("no account that collects", "currency_not_supported", x.By, "GBP", "1")
		refused("a large amount", "amount_too_large", x.By, "EUR", "900000000")
		x.WantCount(0, "payrolls")
		x.WantCount(0, "direct_debits")

		x.Write(fixture.Drop(func(ctx context.Context, tx *db.Tx) (directdebit.Mandate, error) {
			return x.s.Revoke(ctx, tx, x.admin, "", x.m.ID)
		}))
		refused("a revoked mandate", "mandate_not_active", x.By, "EUR", "1")
		x.m = x.mandate(bank.SEPACore, "991043")
		p, d := x.order()
		x.collect(d)
		x.want(d, directdebit.Failed, bank.SandboxReasons()[42], 0, 0, 0)
		x.is(p, "pending none", 0, 0, 0)
		x.Clock.Advance(40 * day)
		x.Deliver(x.pay.Expire, "payroll_id", p.ID)
		x.is(p, "expired_unfunded none", 0, 0, 0)
	})
}
