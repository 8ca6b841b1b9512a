package payroll

import (
	"context"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

const pooled = "DE89370400440532013000"

// wages is a payroll of 1,000.00, with fees of 10.00.
var wages = []Payee{{AmountText: "1000", UserID: "rec_eur"}}

// transferred records a bank transfer for a payroll and runs the job that follows.
func (h *env) transferred(p Payroll, name string, cents int64) {
	h.Helper()
	h.Write(func(ctx context.Context, tx *db.Tx) error {
		return deposit.Transferred(ctx, tx, p.CompanyID, p.ID, pooled, name, money.New(p.FundingCurrency, cents))
	})
	h.Deliver(h.s.Fund, "object_id", p.ID)
}

// takenBack records that the bank took a transfer back, and runs the job that follows.
func (h *env) takenBack(p Payroll, name string) {
	h.Helper()
	if !fixture.Do(h.Fixture, func(ctx context.Context, tx *db.Tx) (bool, error) {
		return deposit.TakenBack(ctx, tx, p.CompanyID, pooled, name)
	}) {
		h.Errorf("%s is no deposit", name)
	}
	h.Deliver(h.s.Fund, "object_id", p.ID)
}

// due returns the transfer that funds a payroll.
func (h *env) due(p Payroll) Transfer {
	h.Helper()
	p = h.get(p.ID)
	t, ok, err := h.s.Transfer(&p)
	if err != nil || !ok {
		h.Fatal(ok, err)
	}
	return t
}

func runBank(t *testing.T, f func(h *env)) {
	run(t, func(h *env) {
		h.s.Banks = []bank.Account{{ID: "usd", Currency: money.USD, Name: "Example", Number: "123456789",
			Routing: "091000019"}}
		f(h)
	})
}

// A payroll funded by bank waits for a transfer in its currency with its own reference. A smaller transfer counts,
// and the rest stays due. A surplus is credited to the company.
func TestATransferFundsAPayroll(t *testing.T) {
	runBank(t, func(h *env) {
		p := h.create(CreateParams{ToPay: wages, FundingMethod: MethodBank})
		due := h.due(p)
		if due.Amount != usd(1_010_00) || due.To.Number != "123456789" ||
			due.Reference != strings.ToUpper("prl"+p.ID[4:]) || p.Quote != nil || p.Address != "" {
			h.Fatalf("%+v %+v", due, p)
		}
		h.transferred(p, "trf_1", 1_000_00)
		h.want(p.ID, Pending, FundingPartial, Pending)
		if got := h.due(p); got.Amount != usd(10_00) {
			h.Errorf("%s are due", got.Amount)
		}
		h.WantBalance(ledger.Escrow, p.ID, usd(1_000_00))
		h.WantBalance(ledger.CompanyFunds, "", usd(0))
		h.WantCount(1, `events WHERE name = 'payroll.funding_detected' AND data LIKE '%"transfer_id":"trf_1"%'`)
		h.transferred(p, "trf_2", 12_00)
		h.want(p.ID, Received, FundingOver, Received)
		h.WantBalance(ledger.Escrow, p.ID, usd(1_010_00))
		h.WantBalance(ledger.CompanyFunds, "", usd(2_00))
		h.release(p.ID)
		h.want(p.ID, Released, FundingOver, Released)
		h.outcome(p, "", payout.Fulfilled)
		h.want(p.ID, Fulfilled, FundingOver, Fulfilled)
		h.WantBalance(ledger.Bank, pooled, usd(1_012_00))
	})
}

// A transfer for a payroll that no longer waits belongs to the company, and so does money received before a
// cancellation.
func TestALateTransferIsCreditedToTheCompany(t *testing.T) {
	runBank(t, func(h *env) {
		late := h.create(CreateParams{ToPay: wages, FundingMethod: MethodBank})
		h.Clock.Advance(UnfundedAfter)
		h.Deliver(h.s.Expire, "payroll_id", late.ID)
		h.transferred(late, "trf_1", 1_010_00)
		h.want(late.ID, ExpiredUnfunded, FundingOver, Pending)
		part := h.create(CreateParams{ToPay: wages, FundingMethod: MethodBank})
		h.transferred(part, "trf_2", 100_00)
		h.does("", h.s.Cancel, h.By, part.ID)
		h.want(part.ID, Cancelled, FundingPartial, Cancelled)
		h.WantBalance(ledger.CompanyFunds, "", usd(1_110_00))
	})
}

// A bank may take a transfer back. Before the release the payroll waits again. After it, the money is debited from
// the company's balance and the rest is owed: payouts are held and the balance pays nothing until incoming money has
// settled the debt.
func TestATransferThatTheBankTakesBack(t *testing.T) {
	runBank(t, func(h *env) {
		p := h.create(CreateParams{ToPay: wages, FundingMethod: MethodBank})
		h.transferred(p, "trf_1", 1_010_00)
		h.takenBack(p, "trf_1")
		h.want(p.ID, Pending, FundingNone, Pending)
		h.transferred(p, "trf_2", 1_010_00)
		h.release(p.ID)
		has := func(name string, cents int64) {
			h.Post(h.By.CompanyID, "bank_deposit", name, "credit", ledger.Debit(ledger.Bank, pooled, usd(cents)),
				ledger.Credit(ledger.CompanyFunds, "", usd(cents)))
		}
		expect := func(state State, owed, left int64) {
			h.Helper()
			h.wantState(p, state)
			h.WantBalance(ledger.DueFromCustomer, "", usd(owed))
			h.WantBalance(ledger.CompanyFunds, "", usd(left))
		}
		settle := func() {
			h.Helper()
			if err := SettleDebts(h.Context(), h.DB); err != nil {
				h.Error(err)
			}
			h.Deliver(h.s.Fund, "object_id", p.ID)
		}
		has("dep_1", 300_00)
		h.takenBack(p, "trf_2")
		if got := h.get(p.ID); got.HoldReason != ReasonReverted {
			h.Errorf("held for %q", got.HoldReason)
		}
		expect(OnHold, 710_00, 0)
		h.WantBalance(ledger.Bank, pooled, usd(300_00))
		has("dep_2", 700_00)
		_, err := h.tryCreate(CreateParams{ToPay: []Payee{{AmountText: "1", UserID: "rec_eur"}},
			FundingMethod: MethodWallet, FundingCurrency: "USD"})
		if f := h.Fault("insufficient_balance", err); !strings.Contains(f.Detail, "owes 710.00 USD") {
			h.Error(err)
		}
		settle()
		expect(OnHold, 10_00, 0)
		has("dep_3", 100_00)
		settle()
		expect(Released, 0, 90_00)
		h.Exec("UPDATE deposits SET state = 'confirmed' WHERE txid = 'trf_2'")
		h.Deliver(h.s.Fund, "object_id", p.ID) // The transfer arrived again, after the debt was settled.
		settle()
		expect(Released, 0, 1_100_00)
	})
}

// A debt that is written off no longer holds payrolls. If its money arrives later, it belongs to the company.
func TestADebtThatIsWrittenOff(t *testing.T) {
	runBank(t, func(h *env) {
		p := h.create(CreateParams{ToPay: wages, FundingMethod: MethodBank})
		h.transferred(p, "trf_1", 1_010_00)
		h.release(p.ID)
		h.takenBack(p, "trf_1")
		writeOff := func(caseID string, cents int64, state State) {
			h.Helper()
			h.Exec("DELETE FROM jobs")
			h.Write(func(ctx context.Context, tx *db.Tx) error {
				owed, err := ledger.DebtOf(ctx, tx, p.CompanyID, "USD")
				if err != nil {
					return err
				}
				return WriteOff(ctx, tx, owed, caseID, usd(cents))
			})
			h.WantCount(1, "jobs WHERE kind = $1", deposit.JobChanged)
			h.Deliver(h.s.Fund, "object_id", p.ID)
			h.wantState(p, state)
		}
		writeOff("oprq_1", 1_000_00, OnHold)
		writeOff("oprq_2", 10_00, Released)
		h.Exec("UPDATE deposits SET state = 'confirmed' WHERE txid = 'trf_1'")
		h.Deliver(h.s.Fund, "object_id", p.ID)
		if err := SettleDebts(h.Context(), h.DB); err != nil {
			h.Error(err)
		}
		h.WantBalance(ledger.DueFromCustomer, "", usd(0))
		h.WantBalance(ledger.CompanyFunds, "", usd(1_010_00))
		h.WantBalance(ledger.ReorgLoss, "oprq_1", usd(1_000_00))
	})
}

func TestBankFundingRefuses(t *testing.T) {
	runBank(t, func(h *env) {
		for code, p := range map[string][]CreateParams{
			"currency_not_supported": {{Currency: "EUR"}, {FundingCurrency: "EUR"}},
			"invalid_parameter":      {{FundingNetwork: "base"}},
		} {
			for _, p := range p {
				p.ToPay, p.FundingMethod = wages, MethodBank
				_, err := h.tryCreate(p)
				_ = h.Fault(code, err)
			}
		}
	})
}
