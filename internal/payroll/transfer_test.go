package payroll

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/receivable/deposit"
)

const pooled = "DE89370400440532013000"

// wages is a payroll of 1,000.00, with fees of 10.00.
var wages = []Payee{{AmountText: "1000", UserID: "rec_eur"}}

// transferred records a bank transfer for a payroll, or its return, and runs the job that follows.
func (h *fixture) transferred(p Payroll, name string, cents int64, back bool) {
	h.t.Helper()
	h.write(func(ctx context.Context, tx *db.Tx) error {
		if back {
			was, err := deposit.TakenBack(ctx, tx, p.CompanyID, pooled, name)
			if !was {
				h.t.Errorf("%s is no deposit", name)
			}
			return err
		}
		return deposit.Transferred(ctx, tx, p.CompanyID, p.ID, pooled, name, money.New(p.FundingCurrency, cents))
	})
	h.deliver(h.s.Fund, fmt.Sprintf(`{"object_id":%q}`, p.ID))
}

// due returns the transfer that funds a payroll.
func (h *fixture) due(p Payroll) Transfer {
	h.t.Helper()
	p = h.get(p.ID)
	t, ok, err := h.s.Transfer(&p)
	if err != nil || !ok {
		h.t.Fatal(ok, err)
	}
	return t
}

func runBank(t *testing.T, f func(h *fixture)) {
	run(t, func(h *fixture) {
		h.s.Banks = []bank.Account{{ID: "usd", Currency: money.USD, Name: "Example", Number: "123456789",
			Routing: "091000019"}}
		f(h)
	})
}

// A payroll funded by bank waits for a transfer in its currency with its own reference. A smaller transfer is kept
// and the rest stays due; a surplus is the company's.
func TestATransferFundsAPayroll(t *testing.T) {
	runBank(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: wages, FundingMethod: MethodBank})
		due := h.due(p)
		if due.Amount != usd(1_010_00) || due.To.Number != "123456789" ||
			due.Reference != strings.ToUpper("prl"+p.ID[4:]) || p.Quote != nil || p.Address != "" {
			h.t.Fatalf("%+v %+v", due, p)
		}
		h.transferred(p, "trf_1", 1_000_00, false)
		h.want(p.ID, Pending, FundingPartial, Pending)
		if got := h.due(p); got.Amount != usd(10_00) || h.balance(ledger.Escrow, p.ID, money.USD) != 1_000_00 ||
			h.balance(ledger.CompanyFunds, "", money.USD) != 0 {
			h.t.Errorf("%s are due, %d in escrow", got.Amount, h.balance(ledger.Escrow, p.ID, money.USD))
		}
		if n := h.count("SELECT COUNT(*) FROM events WHERE name = 'payroll.funding_detected' AND data LIKE " +
			"'%\"transfer_id\":\"trf_1\"%'"); n != 1 {
			h.t.Errorf("%d events tell of the transfer", n)
		}
		h.transferred(p, "trf_2", 12_00, false)
		h.want(p.ID, Received, FundingOver, Received)
		if h.balance(ledger.Escrow, p.ID, money.USD) != 1_010_00 || h.balance(ledger.CompanyFunds, "",
			money.USD) != 2_00 {
			h.t.Error("the surplus is not the company's")
		}
		h.release(p.ID)
		h.want(p.ID, Released, FundingOver, Released)
		h.outcome(p, "", payout.Fulfilled)
		h.want(p.ID, Fulfilled, FundingOver, Fulfilled)
		if n := h.count("SELECT COALESCE(SUM(amount), 0) FROM ledger_lines WHERE code = '1020' AND dim = $1",
			pooled); n != 1_012_00 {
			h.t.Errorf("%d cents at the bank", n)
		}
	})
}

// A transfer for a payroll that no longer waits belongs to the company, and so does money received before a
// cancellation.
func TestATransferThatComesTooLateIsTheCompanys(t *testing.T) {
	runBank(t, func(h *fixture) {
		late := h.create(CreateParams{ToPay: wages, FundingMethod: MethodBank})
		h.clock.Advance(UnfundedAfter)
		h.deliver(h.s.Expire, fmt.Sprintf(`{"payroll_id":%q}`, late.ID))
		h.transferred(late, "trf_1", 1_010_00, false)
		h.want(late.ID, ExpiredUnfunded, FundingOver, Pending)
		part := h.create(CreateParams{ToPay: wages, FundingMethod: MethodBank})
		h.transferred(part, "trf_2", 100_00, false)
		h.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := h.s.Cancel(ctx, tx, h.by, part.ID)
			return err
		})
		h.want(part.ID, Cancelled, FundingPartial, Cancelled)
		if got := h.balance(ledger.CompanyFunds, "", money.USD); got != 1_110_00 {
			h.t.Errorf("the company has %d cents", got)
		}
	})
}

// A bank may take a transfer back. Before the release the payroll waits again. After it, the money is debited from
// the company's balance and the rest is owed: payouts are held and the balance pays nothing until incoming money has
// settled the debt.
func TestATransferThatTheBankTakesBack(t *testing.T) {
	runBank(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: wages, FundingMethod: MethodBank})
		h.transferred(p, "trf_1", 1_010_00, false)
		h.transferred(p, "trf_1", 1_010_00, true)
		h.want(p.ID, Pending, FundingNone, Pending)
		h.transferred(p, "trf_2", 1_010_00, false)
		h.release(p.ID)
		has := func(name string, cents int64) {
			h.write(func(_ context.Context, tx *db.Tx) error {
				x := money.New(money.USD, cents)
				return ledger.Post(tx, ledger.Journal{CompanyID: h.by.CompanyID, SourceType: "bank_deposit",
					SourceID: name, Purpose: "credit",
					Lines: []ledger.Line{ledger.Debit(ledger.Bank, pooled, x), ledger.Credit(ledger.CompanyFunds, "",
						x)}})
			})
		}
		expect := func(what string, owed, left int64) {
			h.t.Helper()
			got := [2]int64{h.balance(ledger.DueFromCustomer, "", money.USD), h.balance(ledger.CompanyFunds, "",
				money.USD)}
			if got != [2]int64{owed, left} {
				h.t.Errorf("%s: %d cents are owed, and the company has %d; want %d and %d", what, got[0], got[1],
					owed, left)
			}
		}
		settle := func() {
			h.t.Helper()
			if err := SettleDebts(h.t.Context(), h.d); err != nil {
				h.t.Error(err)
			}
			h.deliver(h.s.Fund, fmt.Sprintf(`{"object_id":%q}`, p.ID))
		}
		has("dep_1", 300_00)
		h.transferred(p, "trf_2", 1_010_00, true)
		if got := h.get(p.ID); got.State != OnHold || got.HoldReason != ReasonReverted {
			h.t.Errorf("it is %s, %s", got.State, got.HoldReason)
		}
		expect("taken back", 710_00, 0)
		if n := h.count("SELECT COALESCE(SUM(amount), 0) FROM ledger_lines WHERE code = '1020'"); n != 300_00 {
			h.t.Errorf("%d cents at the bank", n)
		}
		has("dep_2", 700_00)
		_, err := h.tryCreate(CreateParams{ToPay: []Payee{{AmountText: "1", UserID: "rec_eur"}},
			FundingMethod: MethodWallet, FundingCurrency: "USD"})
		if f := wantFault(h.t, err, "insufficient_balance"); !strings.Contains(f.Detail, "owes 710.00 USD") {
			h.t.Error(err)
		}
		settle()
		expect("a part", 10_00, 0)
		if got := h.get(p.ID); got.State != OnHold {
			h.t.Errorf("it is %s", got.State)
		}
		has("dep_3", 100_00)
		settle()
		expect("settled", 0, 90_00)
		if got := h.get(p.ID); got.State != Released {
			h.t.Errorf("it is %s, %s", got.State, got.HoldReason)
		}
		h.exec("UPDATE deposits SET state = 'confirmed' WHERE txid = 'trf_2'")
		h.deliver(h.s.Fund, fmt.Sprintf(`{"object_id":%q}`, p.ID)) // the money arrived again, so the debt was settled twice
		settle()
		expect("it came again", 0, 1_100_00)
	})
}

// A debt that is written off no longer holds payrolls. If its money arrives later, it belongs to the company.
func TestADebtThatIsWrittenOff(t *testing.T) {
	runBank(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: wages, FundingMethod: MethodBank})
		h.transferred(p, "trf_1", 1_010_00, false)
		h.release(p.ID)
		h.transferred(p, "trf_1", 1_010_00, true)
		writeOff := func(caseID string, cents int64, state State) {
			h.t.Helper()
			h.exec("DELETE FROM jobs")
			h.write(func(ctx context.Context, tx *db.Tx) error {
				owed, err := ledger.DebtOf(ctx, tx, p.CompanyID, "USD")
				if err != nil {
					return err
				}
				return WriteOff(ctx, tx, owed, caseID, usd(cents))
			})
			if n := h.count("SELECT COUNT(*) FROM jobs WHERE kind = $1", deposit.JobChanged); n != 1 {
				h.t.Errorf("%d jobs look at what waits", n)
			}
			h.deliver(h.s.Fund, fmt.Sprintf(`{"object_id":%q}`, p.ID))
			if got := h.get(p.ID); got.State != state {
				h.t.Errorf("%s: it is %s, %s; want %s", caseID, got.State, got.HoldReason, state)
			}
		}
		writeOff("oprq_1", 1_000_00, OnHold)
		writeOff("oprq_2", 10_00, Released)
		h.exec("UPDATE deposits SET state = 'confirmed' WHERE txid = 'trf_1'")
		h.deliver(h.s.Fund, fmt.Sprintf(`{"object_id":%q}`, p.ID))
		if err := SettleDebts(h.t.Context(), h.d); err != nil {
			h.t.Error(err)
		}
		got := [3]int64{h.balance(ledger.DueFromCustomer, "", money.USD), h.balance(ledger.CompanyFunds, "",
			money.USD), h.balance(ledger.ReorgLoss, "oprq_1", money.USD)}
		if got != [3]int64{0, 1_010_00, 1_000_00} {
			h.t.Errorf("owed, the company's, and lost: %v", got)
		}
	})
}

func TestWhatABankCannotFund(t *testing.T) {
	runBank(t, func(h *fixture) {
		for _, c := range []struct {
			p    CreateParams
			code string
		}{
			{CreateParams{ToPay: wages, FundingMethod: MethodBank, Currency: "EUR"}, "currency_not_supported"},
			{CreateParams{ToPay: wages, FundingMethod: MethodBank, FundingCurrency: "EUR"}, "currency_not_supported"},
			{CreateParams{ToPay: wages, FundingMethod: MethodBank, FundingNetwork: "base"}, "invalid_parameter"},
		} {
			_, err := h.tryCreate(c.p)
			_ = wantFault(h.t, err, c.code)
		}
	})
}
