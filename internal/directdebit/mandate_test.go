package directdebit_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

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
			open, err := directdebit.Unconfirmed(ctx, tx)
			if len(open) != 1 || open[0].ID != d.ID || open[0].CompanyID != d.CompanyID {
				x.Errorf("the debits that the bank has are %+v", open)
			}
			return err
		})
		x.respond()
		x.want(d, directdebit.Collected, "", 100_00, 0, 0)
		x.Read(func(ctx context.Context, tx *db.Tx) error {
			open, err := directdebit.Unconfirmed(ctx, tx)
			if len(open) != 0 {
				x.Errorf("a collected debit is open: %+v", open)
			}
			return err
		})
	})
}

// ACH debits are for companies in the United States. A debit of a company that is abroad by now ends with its reason,
// and uses no number.
func TestACHDebitsAreForCompaniesInTheUnitedStates(t *testing.T) {
	run(t, func(x *env) {
		for _, scheme := range []bank.DebitScheme{bank.ACHCCD, bank.ACHWEB} {
			x.UseCompanyOf(scheme)
			x.address = payout.Details{PayerCountry: "US"}
			d := x.create(x.mandate(scheme, "123456"), "100.00")
			x.reach(d)
			x.address.PayerCountry = "CA"
			x.submit(d)
			x.want(d, directdebit.Cancelled, "international_ach", 0, 0, 0)
			if ref := x.get(d).Reference(); ref != "" {
				x.Errorf("%s: it has the reference %s", scheme, ref)
			}
			_, err := fixture.Try(x.Fixture, func(ctx context.Context, tx *db.Tx) (directdebit.Mandate, error) {
				return x.s.AddMandate(ctx, tx, x.admin, directdebit.MandateParams{Scheme: string(scheme),
					Data: data(scheme, "123456"), Language: "en", Accepted: true})
			})
			if err == nil || !strings.Contains(err.Error(), "ACH debits are for companies in the United States") {
				x.Errorf("%s: a mandate of a company abroad: %v", scheme, err)
			}
		}
	})
}
