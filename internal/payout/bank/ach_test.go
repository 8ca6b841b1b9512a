package bank_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moov-io/ach"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

// achFixture is a rail that pays ACH destinations through the simulated bank.
type achFixture struct {
	*fixture
	simulated *bank.Sandbox
	details   map[string]payout.Details // by output ID
}

// runACH runs f on every database.
func runACH(t *testing.T, f func(b *achFixture)) {
	payouttest.RunFixture(t, func(on *payouttest.Fixture) {
		b := &achFixture{fixture: &fixture{Fixture: on, root: on.TempDir()}, details: map[string]payout.Details{}}
		drop, simulated, err := bank.OpenSandbox(b.root)
		b.Must(err)
		c := config(on, drop)
		c.Reveal = func(snapshot json.RawMessage) (bank.Destination, error) {
			return bank.Destination{Country: "US", Scheme: "ach", Data: snapshot}, nil
		}
		c.Details = func(context.Context, *db.Tx, string, []payout.Output) (map[string]payout.Details, error) {
			return b.details, nil
		}
		b.simulated = simulated
		b.e, err = bank.New(c)
		b.Start(b.e, err)
		f(b)
	})
}

// pay queues an output to an account of a person or a business.
func (b *achFixture) pay(id, account, holder string, cents int64, d payout.Details) {
	b.Helper()
	b.details[id] = d
	b.Queue(payout.Output{ID: id, Rail: payout.RailBank, Amount: money.New(money.USD, cents),
		Destination: fmt.Appendf(nil, `{"account_holder_name":"Ada","account_holder_type":%q,"routing_number":"091000019",
			"account_number":%q,"account_type":"checking"}`, holder, account)})
}

// out returns the content of the file that waits for the bank.
func (b *achFixture) out() (name string, body []byte) {
	b.Helper()
	found, _ := filepath.Glob(filepath.Join(b.root, "out", "*.ach"))
	if len(found) != 1 {
		b.Fatalf("%d files wait for the bank", len(found))
	}
	body, err := os.ReadFile(found[0])
	b.Must(err)
	return found[0], body
}

// answer makes the simulated bank process its files, and the rail read the responses.
func (b *achFixture) answer() {
	b.Helper()
	now, err := b.DB.Now(b.Context())
	b.Must(err)
	b.Must(b.simulated.ProcessFiles(now))
	b.Must(b.e.Collect(b.Context(), b.DB))
}

// The pay of people is described as payroll. Pay on a business account, payments to vendors and all others are not.
// With an account for CTX entries, payments to companies that have an invoice and a description contain both.
func TestACHEntriesSayWhatTheyPay(t *testing.T) {
	for _, ctx := range []bool{false, true} {
		testACHEntries(t, ctx)
	}
}

func testACHEntries(t *testing.T, ctx bool) {
	t.Helper()
	runACH(t, func(b *achFixture) {
		b.e.Config().Accounts[0].CTX = ctx
		acme := payout.Details{Payer: "Acme Research", Purpose: payout.PurposeWages, Description: "March"}
		b.pay("out_1", "1000", "individual", 100, acme)
		b.pay("out_2", "2000", "business", 200, acme)
		acme.Purpose, acme.Invoice = payout.PurposeVendor, "2026-17"
		b.pay("out_3", "3000", "business", 300, acme)
		b.pay("out_4", "4000", "individual", 400, acme)
		b.pay("out_5", "5000", "business", 500, payout.Details{Payer: "Acme Research"})
		acme.Invoice = "***" // which an order cannot contain
		b.pay("out_6", "6000", "business", 600, acme)
		b.prepare()
		b.send()
		_, body := b.out()
		file, err := ach.NewReader(bytes.NewReader(body)).Read()
		b.Must(err)
		b.Must(file.Validate())
		got := map[string]string{}
		for _, batch := range file.Batches {
			h := batch.GetHeader()
			if h.CompanyName != "Acme Research" || h.CompanyDiscretionaryData != "Stipend Sandbox" {
				b.Errorf("the payer is %q, the operator %q", h.CompanyName, h.CompanyDiscretionaryData)
			}
			for _, e := range batch.GetEntries() {
				text := h.StandardEntryClassCode + " " + h.CompanyEntryDescription
				if len(e.Addenda05) > 0 {
					text += " "
				}
				for _, a := range e.Addenda05 {
					text += a.PaymentRelatedInformation
				}
				if _, note, is := strings.Cut(text, `\NTE*`); is { // of an order
					text = h.StandardEntryClassCode + " NTE*" + strings.TrimSpace(note)
				}
				if e.TransactionCode == ach.CheckingCredit {
					got[strings.TrimSpace(e.DFIAccountNumber)] = text
				}
			}
		}
		want := map[string]string{
			"1000": `PPD PAYROLL NTE*PMT*March\`, "2000": `CCD PAYMENT NTE*PMT*March\`,
			"3000": `CCD VENDOR PMT RMR*IV*2026-17**3.00\`, "4000": `PPD VENDOR PMT RMR*IV*2026-17**4.00\`,
			"5000": "CCD PAYMENT", "6000": `CCD VENDOR PMT NTE*PMT*March\`,
		}
		if ctx {
			want["3000"] = `CTX NTE*PMT*March\TRN*1*S0000001P00003\N1*PR*Acme Research\N1*PE*` + "Ada" +
				`\ENT*1\RMR*IV*2026-17**3.00\SE*9*0001\GE*1*1\IEA*1*000000001\`
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			b.Errorf("got\n%v\nwant\n%v", got, want)
		}
		b.answer()
		b.is(bank.Sent, payout.Fulfilled)
	})
}

// The simulated bank refuses a whole file that breaks a rule, and the payments of the file fail.
func TestTheSimulatedBankRefusesAWrongFile(t *testing.T) {
	runACH(t, func(b *achFixture) {
		b.pay("out_1", "1000", "business", 100, payout.Details{Payer: "Acme Research", Purpose: payout.PurposeVendor})
		b.prepare()
		b.send()
		name, body := b.out()
		b.Must(os.WriteFile(name, bytes.Replace(body, []byte("VENDOR PMT"), []byte("PAYROLL   "), 1), 0o600))
		b.answer()
		b.is(bank.Refused, payout.Failed)
		if o := b.Load("out_1"); o.Reason != "FF01" {
			b.Errorf("the reason is %q", o.Reason)
		}
	})
}

// Payments of a company abroad or to a payee abroad are paid by credit transfer. Without an account for credit
// transfers, the payment fails.
func TestACompanyOrPayeeAbroadDoesNotPayByACH(t *testing.T) {
	for _, c := range []struct {
		country, home string
		want          payout.State
	}{{"US", "", payout.Fulfilled}, {"PR", "US", payout.Fulfilled}, {"US", "PR", payout.Fulfilled},
		{"CA", "US", payout.Failed}, {"US", "CA", payout.Failed}, {"", "CA", payout.Failed}} {
		country, want := c.country+" to "+c.home, c.want
		runACH(t, func(b *achFixture) {
			b.e.Config().Accounts = b.e.Config().Accounts[:1]
			b.details["out_1"] = payout.Details{Payer: "Acme Research", PayerCountry: c.country}
			b.Queue(payout.Output{ID: "out_1", Rail: payout.RailBank, Amount: money.New(money.USD, 100),
				Destination: fmt.Appendf(nil, `{"account_holder_name":"Ada","account_holder_type":"individual",
					"routing_number":"091000019","account_number":"1000","account_type":"checking",
					"address":{"city":"Springfield","country":%q}}`, c.home)})
			b.prepare()
			if want == payout.Fulfilled {
				b.send()
				b.answer()
			}
			if o := b.Load("out_1"); o.State != want || want == payout.Failed && o.Reason != "international_ach" {
				b.Errorf("%s: the payment is %s %s, want %s", country, o.State, o.Reason, want)
			}
		})
	}
	accounts := bank.SandboxAccounts()
	for _, c := range []struct{ country, format string }{{"US", bank.FormatNACHA}, {"CA", bank.FormatPain}} {
		if a, _ := bank.ChooseAccount(accounts, money.USD, "US", "ach", c.country); a.Format != c.format {
			t.Errorf("a company in %s pays by %s, want %s", c.country, a.Format, c.format)
		}
	}
}
