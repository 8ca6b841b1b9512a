package payroll

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/fixture"
	"github.com/stipend/stipend/internal/treasury"
)

// storeOf returns the account of the wallet or the bank that stores an asset.
func storeOf(a money.Asset) ledger.Code {
	if a.IsCrypto() {
		return ledger.HotWallet
	}
	return ledger.Bank
}

// bring credits the operator.
func (h *env) bring(x money.Amount) {
	h.Helper()
	h.PostTransfer(ledger.Operator, "fx", "", "deposit", storeOf(x.Asset()), ledger.FXPosition, x)
}

// fill credits a company's balance.
func (h *env) fill(companyID string, x money.Amount) {
	h.Helper()
	h.PostTransfer(companyID, "bank_deposit", "", "credit", storeOf(x.Asset()), ledger.CompanyFunds, x)
}

// owned returns the operator's balance.
func (h *env) owned(a money.Asset) money.Amount {
	h.Helper()
	return fixture.Get(h.Fixture, func(ctx context.Context, tx *db.Tx) (money.Amount, error) {
		all, err := ledger.OperatorBalances(ctx, tx, a)
		return all[a], err
	})
}

func (h *env) wantOwned(want money.Amount) {
	h.Helper()
	if got := h.owned(want.Asset()); got != want {
		h.Errorf("the operator has %s %s, want %s", got, got.Asset(), want)
	}
}

// fillRich credits another company, and wantRich checks that its balance is unchanged.
func (h *env) fillRich() { h.Helper(); h.fill("com_rich", sats(900_000_000)) }

func (h *env) wantRich() {
	h.Helper()
	h.WantCount(1, "ledger_balances WHERE company_id = 'com_rich' AND code = $1 AND balance = 900000000",
		ledger.CompanyFunds)
}

// boundFiat limits exchanges into bank currencies to the operator's balance.
func (h *env) boundFiat() {
	h.Helper()
	var err error
	if h.s.Treasury, err = treasury.New(treasury.Bounded); err != nil {
		h.Fatal(err)
	}
}

func (h *env) bound(l treasury.Limit) {
	h.Helper()
	h.Write(func(ctx context.Context, tx *db.Tx) error { return treasury.SetLimit(ctx, tx, l) })
}

// fromEuros returns a payroll from the balance in euros to a payee who wants bitcoin: 500.00 USD, which is 0.01 BTC.
func fromEuros(payee, amount string) CreateParams {
	return CreateParams{ToPay: []Payee{{AmountText: amount, UserID: payee}}, FundingMethod: MethodWallet,
		FundingCurrency: "EUR"}
}

// codesOf returns the code and the JSON pointer of each problem of a request.
func codesOf(err error) (codes []string) {
	f, ok := apierr.As(err)
	if !ok {
		return nil
	}
	for _, field := range f.Fields {
		codes = append(codes, field.Code+" "+field.Pointer)
	}
	return codes
}

func TestABalanceInEurosPaysBitcoinsOfTheOperator(t *testing.T) {
	run(t, func(h *env) {
		h.bring(sats(3_000_000))
		h.fill(h.By.CompanyID, eur(1_000_00))
		p := h.create(fromEuros("rec_btc", "500"))
		h.release(p.ID)
		h.wantState(p, Released)
		paid := h.wantPayment(p, 0, Released, "", 1)
		out := paid.Outputs[0]
		if out.Amount != sats(1_000_000) || out.Input != usd(500_00) || out.Rate.Base() != money.BTC ||
			out.Rate.Cmp(rate(money.BTC, money.USD, "50000")) != 0 {
			h.Errorf("an output of %s for %s at %s %s", out.Amount, out.Input, out.Rate, out.Rate.Base())
		}
		h.wantOwned(sats(2_000_000))
		h.WantBalance(ledger.OutputPayable, out.ID, sats(1_000_000))
		h.WantBalance(ledger.PayeePayable, paid.ID, usd(0))
	})
}

// Another company's coins are in the same wallet, and the ledger separates them: a payroll from euros is refused at
// creation, and waits if the operator's coins are gone by the release.
func TestCoinsOfAnotherCompanyPayNoPayee(t *testing.T) {
	run(t, func(h *env) {
		h.fillRich()
		h.fill(h.By.CompanyID, eur(10_000_00))
		_, err := h.tryCreate(fromEuros("rec_btc", "500"))
		if got := codesOf(err); len(got) != 1 || got[0] != "conversion_unavailable /to_pay/0/user_id" {
			h.Fatalf("without coins of the operator: %v", err)
		}

		h.bring(sats(1_000_000))
		first, second := h.create(fromEuros("rec_btc", "500")), h.create(fromEuros("rec_btc", "500"))
		h.release(first.ID)
		h.release(second.ID)
		h.wantPayment(first, 0, Released, "", 1)
		waits := h.wantPayment(second, 0, OnHold, ReasonConversion, 0)
		h.WantBalance(ledger.PayeePayable, waits.ID, usd(500_00))
		if got := h.Count("SELECT COALESCE(SUM(amount), 0) FROM outputs WHERE asset = 'BTC'"); got != 1_000_000 {
			h.Errorf("the outputs have %d sat, and the operator had 1000000", got)
		}

		h.retryExchange()
		h.wantPayment(second, 0, OnHold, ReasonConversion, 0)
		h.bring(sats(1_000_000))
		h.retryExchange()
		h.wantState(second, Released)
		if m := h.wantPayment(second, 0, Released, "", 1); m.Outputs[0].Amount != sats(1_000_000) {
			h.Errorf("outputs %+v", m.Outputs)
		}
		h.wantOwned(sats(0))
		h.wantRich()
	})
}

// retryExchange runs the periodic retry of exchanges and the releases that it queues.
func (h *env) retryExchange() {
	h.Helper()
	if err := RetryConversions(h.Context(), h.DB); err != nil {
		h.Fatal(err)
	}
	waiting := fixture.Get(h.Fixture, WaitingForConversion)
	if n := h.Count("SELECT COUNT(*) FROM jobs WHERE kind = $1", JobRelease); n < int64(len(waiting)) {
		h.Errorf("%d jobs for %d payrolls", n, len(waiting))
	}
	for _, w := range waiting {
		h.release(w.PayrollID)
	}
}

// Coins at an exchange belong to the operator, but cannot pay a payee before they are in the wallet.
func TestCoinsAtAnExchangePayNoPayee(t *testing.T) {
	run(t, func(h *env) {
		h.fillRich()
		h.fill(h.By.CompanyID, eur(10_000_00))
		h.Write(func(ctx context.Context, tx *db.Tx) error {
			_, err := treasury.Deposit(ctx, tx, treasury.Booking{Place: treasury.Place{Kind: treasury.PlaceExchange,
				Name: "kraken"}, Reference: "1"}, sats(5_000_000))
			return err
		})
		if _, err := h.tryCreate(fromEuros("rec_btc", "500")); err == nil {
			h.Error("coins at an exchange paid a payee")
		}
	})
}

func TestExchangesStayWithinTheLimits(t *testing.T) {
	run(t, func(h *env) {
		h.bring(sats(10_000_000))
		h.fill(h.By.CompanyID, eur(100_000_00))
		h.bound(treasury.Limit{Asset: money.BTC, Least: sats(8_000_000), Most: sats(1_500_000)})
		if _, err := h.tryCreate(fromEuros("rec_btc", "750.01")); err == nil {
			h.Error("one payout took more than it may")
		}
		p := h.create(fromEuros("rec_btc", "750"))
		h.release(p.ID)
		if _, err := h.tryCreate(fromEuros("rec_btc", "300")); err == nil {
			h.Error("the operator went below what it keeps")
		}
		h.create(fromEuros("rec_btc", "250"))
		if got := h.owned(money.EUR); got.Sign() <= 0 {
			h.Errorf("the operator has %s of the euros that it was paid with", got)
		}
	})
}

// In production bank currencies are limited too: the companies' money is at the same bank.
func TestEurosStayWithinTheOperatorsLimit(t *testing.T) {
	run(t, func(h *env) {
		h.boundFiat()
		h.fill("com_rich", eur(1_000_000_00))
		if _, err := h.tryCreate(CreateParams{ToPay: worked}); err == nil {
			h.Error("euros were promised that the operator does not have")
		}
		h.bound(treasury.Limit{Asset: money.EUR, Least: eur(-400_00)})
		p, second := h.create(CreateParams{ToPay: worked}), h.create(CreateParams{ToPay: worked})
		h.fund(p, "confirmed")
		h.fund(second, "confirmed")
		h.release(p.ID)
		h.release(second.ID)
		h.wantPayment(p, 1, Released, "", 1)
		h.wantOwned(eur(-368_00))
		h.wantPayment(second, 0, Released, "", 1)
		h.wantPayment(second, 1, OnHold, ReasonConversion, 0)
		h.bring(eur(400_00))
		h.retryExchange()
		h.wantState(second, Released)
	})
}

// One transaction releases payrolls of several companies that all need the operator's coins.
func TestOperatorCoinsArePaidOnce(t *testing.T) {
	run(t, func(h *env) {
		const companies = 4
		h.bring(sats(1_500_000))
		h.fillRich()
		var payrolls []Payroll
		mine := h.By
		payee := "rec_btc"
		for i := range companies {
			if i > 0 {
				payee = fmt.Sprintf("rec_btc%d", i)
				h.UseCompany(identity.NewCompany{Name: fmt.Sprintf("Company %d", i), Country: "DE"})
				h.payee(payee, map[money.Asset]int{money.BTC: 100})
			}
			h.fill(h.By.CompanyID, eur(1_000_00))
			payrolls = append(payrolls, h.create(fromEuros(payee, "500")))
		}
		h.Write(func(ctx context.Context, tx *db.Tx) error { // jobs that are due together share a transaction
			for _, p := range payrolls {
				found, err := find(ctx, tx, p.CompanyID, p.ID)
				if err != nil {
					return err
				}
				if err := h.s.release(ctx, tx, found); err != nil {
					return err
				}
			}
			return nil
		})
		h.By = mine
		h.WantCount(1, "outputs") // the operator's 1,500,000 sat pay one output of 1,000,000
		h.WantCount(companies-1, "payments WHERE state = 'on_hold' AND reason = $1", ReasonConversion)
	})
}

// For random payrolls and fundings, no unit is created or lost, the parts of each payment add up to it, and the
// operator never pays out more of a coin than it owns.
func TestExchangeLosesNothing(t *testing.T) {
	run(t, func(h *env) {
		seed := uint64(dbtest.Epoch.Unix())
		random := rand.New(rand.NewPCG(seed, uint64(len(t.Name()))))
		h.fillRich()
		h.fill(h.By.CompanyID, eur(10_000_000_00))
		h.fill(h.By.CompanyID, usd(10_000_000_00))
		h.boundFiat()
		assets := []money.Asset{money.BTC, money.EUR, money.USD, money.JPY}
		for round := range 12 {
			var to []Payee
			for i := range 1 + random.IntN(4) {
				id := fmt.Sprintf("rec_%d_%d", round, i)
				random.Shuffle(len(assets), func(i, j int) { assets[i], assets[j] = assets[j], assets[i] })
				first := 1 + random.IntN(97)
				second := 1 + random.IntN(98-first)
				h.payee(id, map[money.Asset]int{assets[0]: first, assets[1]: second, assets[2]: 100 - first - second})
				to = append(to, Payee{AmountText: money.New(money.USD, 1+random.Int64N(200_000)).String(), UserID: id})
			}
			for _, a := range assets {
				h.bring(money.New(a, 1+random.Int64N(40_000_000)))
			}
			funding := []string{"EUR", "USD"}[random.IntN(2)]
			p, err := h.tryCreate(CreateParams{ToPay: to, FundingMethod: MethodWallet, FundingCurrency: funding})
			if err != nil {
				if got := codesOf(err); len(got) == 0 ||
					!strings.HasPrefix(got[0], "conversion_unavailable") {
					h.Fatalf("seed %d round %d: %v", seed, round, err)
				}
				continue
			}
			h.release(p.ID)
			for _, m := range h.get(p.ID).Payments {
				sum := usd(0)
				for _, o := range m.Outputs {
					sum = testkit.Must(sum.Add(o.Input))
					if exchanged := o.Input.Asset() != o.Amount.Asset(); exchanged &&
						string(o.Amount.Asset()) != funding && o.Rate.IsZero() {
						h.Errorf("seed %d: %s became %s %s without a rate", seed, o.Input, o.Amount, o.Amount.Asset())
					}
				}
				if m.State == Released && sum != m.Amount || m.State != Released && !sum.IsZero() {
					h.Errorf("seed %d: a payment of %s that is %s has outputs of %s", seed, m.Amount, m.State, sum)
				}
			}
			if own := h.owned(money.BTC); own.Sign() < 0 {
				h.Fatalf("seed %d round %d: the operator has %s BTC", seed, round, own)
			}
		}
		if n := h.Count("SELECT COUNT(*) FROM outputs WHERE asset = 'BTC'"); n == 0 {
			h.Error("nobody was paid in bitcoin")
		}
		h.wantRich()
	})
}
