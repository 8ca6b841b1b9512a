package payroll

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/treasury"
)

// bring gives the operator some of an asset, in its wallet or at its bank.
func (h *fixture) bring(x money.Amount) {
	h.t.Helper()
	at := ledger.Bank
	if x.Asset().IsCrypto() {
		at = ledger.HotWallet
	}
	h.write(func(_ context.Context, tx *db.Tx) error {
		return ledger.Post(tx, ledger.Journal{CompanyID: ledger.Operator, SourceType: "fx", SourceID: tx.NewID("dep"),
			Purpose: "deposit",
			Lines:   []ledger.Line{ledger.Debit(at, "", x), ledger.Credit(ledger.FXPosition, "", x)}})
	})
}

// fill credits a company's balance.
func (h *fixture) fill(companyID string, x money.Amount) {
	h.t.Helper()
	at := ledger.Bank
	if x.Asset().IsCrypto() {
		at = ledger.HotWallet
	}
	h.write(func(_ context.Context, tx *db.Tx) error {
		return ledger.Post(tx, ledger.Journal{CompanyID: companyID, SourceType: "bank_deposit",
			SourceID: tx.NewID("dep"), Purpose: "credit",
			Lines: []ledger.Line{ledger.Debit(at, "", x), ledger.Credit(ledger.CompanyFunds, "", x)}})
	})
}

func (h *fixture) owned(a money.Asset) (x money.Amount) {
	h.t.Helper()
	if err := h.d.Read(h.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		all, err := ledger.OperatorBalances(ctx, tx, a)
		x = all[a]
		return err
	}); err != nil {
		h.t.Fatal(err)
	}
	return x
}

// boundFiat limits exchanges into bank currencies to the operator's balance.
func (h *fixture) boundFiat() {
	h.t.Helper()
	var err error
	if h.s.Treasury, err = treasury.New(treasury.Bounded); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fixture) bound(l treasury.Limit) {
	h.t.Helper()
	h.write(func(ctx context.Context, tx *db.Tx) error { return treasury.SetLimit(ctx, tx, l) })
}

func eur(cents int64) money.Amount { return money.New(money.EUR, cents) }

// fromEuros returns a payroll from the balance in euros to a payee who wants bitcoin: 500.00 USD, which is 0.01 BTC.
func fromEuros(payee, amount string) CreateParams {
	return CreateParams{ToPay: []Payee{{AmountText: amount, UserID: payee}}, FundingMethod: MethodWallet,
		FundingCurrency: "EUR"}
}

// codesOf returns the error codes of the problems of a request.
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

func TestABalanceInEurosPaysBitcoinsOfTheHouse(t *testing.T) {
	run(t, func(h *fixture) {
		h.bring(sats(3_000_000))
		h.fill(h.by.CompanyID, eur(1_000_00))
		p := h.create(fromEuros("rec_btc", "500"))
		h.release(p.ID)
		got := h.get(p.ID)
		if got.State != Released || len(got.Payments) != 1 || len(got.Payments[0].Outputs) != 1 {
			t.Fatalf("%s with %+v", got.State, got.Payments)
		}
		out := got.Payments[0].Outputs[0]
		if out.Amount != sats(1_000_000) || out.Input != usd(500_00) || out.Rate.Cmp(rate(money.BTC, money.USD,
			"50000")) != 0 || out.Rate.Base() != money.BTC {
			t.Errorf("an output of %s for %s at %s %s", out.Amount, out.Input, out.Rate, out.Rate.Base())
		}
		if left := h.owned(money.BTC); left != sats(2_000_000) {
			t.Errorf("the operator has %s BTC left", left)
		}
		if got := h.balance(ledger.OutputPayable, out.ID, money.BTC); got != 1_000_000 {
			t.Errorf("%d sat are owed to the output", got)
		}
		if got := h.balance(ledger.PayeePayable, got.Payments[0].ID, money.USD); got != 0 {
			t.Errorf("%d cents are still owed", got)
		}
	})
}

// Another company's coins are in the same wallet, and the ledger separates them: a payroll from euros is refused at
// creation, and waits if the operator's coins are gone by the release.
func TestNobodyIsPaidWithCoinsOfAnotherCompany(t *testing.T) {
	run(t, func(h *fixture) {
		h.fill("com_rich", sats(900_000_000))
		h.fill(h.by.CompanyID, eur(10_000_00))
		_, err := h.tryCreate(fromEuros("rec_btc", "500"))
		if got := codesOf(err); len(got) != 1 || got[0] != "currency_not_supported /to_pay/0/user_id" {
			t.Fatalf("without coins of the operator: %v", err)
		}

		h.bring(sats(1_000_000))
		first, second := h.create(fromEuros("rec_btc", "500")), h.create(fromEuros("rec_btc", "500"))
		h.release(first.ID)
		h.release(second.ID)
		if got := h.get(first.ID); got.Payments[0].State != Released {
			t.Errorf("the first is %s", got.Payments[0].State)
		}
		waits := h.get(second.ID).Payments[0]
		if waits.State != OnHold || waits.Reason != ReasonConversion || len(waits.Outputs) != 0 {
			t.Errorf("the second is %s (%s) with %d outputs", waits.State, waits.Reason, len(waits.Outputs))
		}
		if got := h.balance(ledger.PayeePayable, waits.ID, money.USD); got != 500_00 {
			t.Errorf("%d cents are owed to the second", got)
		}
		if got := h.count("SELECT COALESCE(SUM(amount), 0) FROM outputs WHERE asset = 'BTC'"); got != 1_000_000 {
			t.Errorf("%d sat leave, of 1000000 that the operator had", got)
		}

		h.retryExchange()
		if got := h.get(second.ID).Payments[0]; got.State != OnHold {
			t.Errorf("tried again with nothing, the second is %s", got.State)
		}
		h.bring(sats(1_000_000))
		h.retryExchange()
		if got := h.get(second.ID); got.State != Released || got.Payments[0].State != Released ||
			got.Payments[0].Outputs[0].Amount != sats(1_000_000) {
			t.Errorf("once there are coins, the second is %s, %s", got.State, got.Payments[0].State)
		}
		if left := h.owned(money.BTC); !left.IsZero() {
			t.Errorf("the operator has %s BTC left", left)
		}
		if rich := h.count("SELECT balance FROM ledger_balances WHERE company_id = 'com_rich'"); rich != 900_000_000 {
			t.Errorf("the other company has %d sat", rich)
		}
	})
}

// retryExchange runs the periodic retry.
func (h *fixture) retryExchange() {
	h.t.Helper()
	if err := RetryConversions(h.t.Context(), h.d); err != nil {
		h.t.Fatal(err)
	}
	var waiting []Issue
	if err := h.d.Read(h.t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		waiting, err = WaitingForConversion(ctx, tx)
		return err
	}); err != nil {
		h.t.Fatal(err)
	}
	if n := h.count("SELECT COUNT(*) FROM jobs WHERE kind = $1", JobRelease); n < int64(len(waiting)) {
		h.t.Errorf("%d jobs for %d payrolls", n, len(waiting))
	}
	for _, w := range waiting {
		h.release(w.PayrollID)
	}
}

// Coins at an exchange belong to the operator, but cannot pay a payee before they are back.
func TestCoinsAtAnExchangeAreNotAtHand(t *testing.T) {
	run(t, func(h *fixture) {
		h.fill("com_rich", sats(900_000_000))
		h.fill(h.by.CompanyID, eur(10_000_00))
		h.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := treasury.Deposit(ctx, tx, treasury.Booking{Place: treasury.Place{Kind: treasury.PlaceExchange,
				Name: "kraken"}, Reference: "1"}, sats(5_000_000))
			return err
		})
		if _, err := h.tryCreate(fromEuros("rec_btc", "500")); err == nil {
			t.Error("coins at an exchange paid a payee")
		}
	})
}

func TestLimitsBoundWhatIsExchanged(t *testing.T) {
	run(t, func(h *fixture) {
		h.bring(sats(10_000_000))
		h.fill(h.by.CompanyID, eur(100_000_00))
		h.bound(treasury.Limit{Asset: money.BTC, Least: sats(8_000_000), Most: sats(1_500_000)})
		if _, err := h.tryCreate(fromEuros("rec_btc", "750.01")); err == nil {
			t.Error("one payout took more than it may")
		}
		p := h.create(fromEuros("rec_btc", "750"))
		h.release(p.ID)
		if _, err := h.tryCreate(fromEuros("rec_btc", "300")); err == nil {
			t.Error("the operator went below what it keeps")
		}
		h.create(fromEuros("rec_btc", "250"))
		if got := h.owned(money.EUR); got.Sign() <= 0 {
			t.Errorf("the operator has %s of the euros that it was paid with", got)
		}
	})
}

// In production bank currencies are limited too: the companies' money is at the same bank.
func TestEurosComeFromTheOperatorOrItsBank(t *testing.T) {
	run(t, func(h *fixture) {
		h.boundFiat()
		h.fill("com_rich", eur(1_000_000_00))
		if _, err := h.tryCreate(CreateParams{ToPay: worked}); err == nil {
			t.Error("euros were promised that the operator does not have")
		}
		h.bound(treasury.Limit{Asset: money.EUR, Least: eur(-400_00)})
		p, second := h.create(CreateParams{ToPay: worked}), h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_1", 2_020_000, "confirmed")
		h.deposit(second, "dep_2", 2_020_000, "confirmed")
		h.release(p.ID)
		h.release(second.ID)
		if got := h.get(p.ID).Payments[1]; got.State != Released || h.owned(money.EUR) != eur(-368_00) {
			t.Errorf("%s (%s); the operator has %s EUR", got.State, got.Reason, h.owned(money.EUR))
		}
		if got := h.get(second.ID).Payments; got[0].State != Released || got[1].State != OnHold ||
			got[1].Reason != ReasonConversion {
			t.Errorf("the second: in bitcoin %s, in euros %s (%s)", got[0].State, got[1].State, got[1].Reason)
		}
		h.bring(eur(400_00))
		h.retryExchange()
		if got := h.get(second.ID); got.State != Released {
			t.Errorf("the second is %s once there are euros", got.State)
		}
	})
}

// Several companies need the operator's only coins, in one transaction.
func TestOperatorCoinsArePaidOnce(t *testing.T) {
	run(t, func(h *fixture) {
		const companies = 4
		h.bring(sats(1_500_000))
		h.fill("com_rich", sats(900_000_000))
		var payrolls []Payroll
		mine := h.by
		for i := range companies {
			if i > 0 {
				h.write(func(ctx context.Context, tx *db.Tx) error {
					c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: fmt.Sprintf("Company %d", i),
						Country: "DE"})
					h.by.CompanyID = c.ID
					return err
				})
				h.payee(fmt.Sprintf("rec_btc%d", i), map[money.Asset]int{money.BTC: 100})
			}
			h.fill(h.by.CompanyID, eur(1_000_00))
			id := "rec_btc"
			if i > 0 {
				id = fmt.Sprintf("rec_btc%d", i)
			}
			payrolls = append(payrolls, h.create(fromEuros(id, "500")))
		}
		h.write(func(ctx context.Context, tx *db.Tx) error { // jobs that are due together share a transaction
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
		h.by = mine
		if got := h.count("SELECT COUNT(*) FROM outputs"); got != 1 {
			t.Errorf("%d outputs of 1000000 sat, of 1500000 that the operator had", got)
		}
		if got := h.count("SELECT COUNT(*) FROM payments WHERE state = 'on_hold' AND reason = " +
			"'conversion_unavailable'"); got != companies-1 {
			t.Errorf("%d payments wait", got)
		}
	})
}

// For random payrolls and fundings, no unit is created or lost, the parts of each payment add up to it, and the
// operator never pays out more of a coin than it owns.
func TestExchangeLosesNothing(t *testing.T) {
	run(t, func(h *fixture) {
		seed := uint64(dbtest.Epoch.Unix())
		random := rand.New(rand.NewPCG(seed, uint64(len(t.Name()))))
		h.fill("com_rich", sats(900_000_000))
		h.fill(h.by.CompanyID, eur(10_000_000_00))
		h.fill(h.by.CompanyID, usd(10_000_000_00))
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
					got[0][:len("currency_not_supported")] != "currency_not_supported" {
					t.Fatalf("seed %d round %d: %v", seed, round, err)
				}
				continue
			}
			h.release(p.ID)
			for _, m := range h.get(p.ID).Payments {
				sum := usd(0)
				for _, o := range m.Outputs {
					sum = must(sum.Add(o.Input))
					if exchanged := o.Input.Asset() != o.Amount.Asset(); exchanged &&
						string(o.Amount.Asset()) != funding && o.Rate.IsZero() {
						t.Errorf("seed %d: %s became %s %s without a rate", seed, o.Input, o.Amount, o.Amount.Asset())
					}
				}
				if m.State == Released && sum != m.Amount || m.State != Released && !sum.IsZero() {
					t.Errorf("seed %d: a payment of %s that is %s has outputs of %s", seed, m.Amount, m.State, sum)
				}
			}
			if own := h.owned(money.BTC); own.Sign() < 0 {
				t.Fatalf("seed %d round %d: the operator has %s BTC", seed, round, own)
			}
		}
		if n := h.count("SELECT COUNT(*) FROM outputs WHERE asset = 'BTC'"); n == 0 {
			t.Error("nobody was paid in bitcoin")
		}
		if rich := h.count("SELECT balance FROM ledger_balances WHERE company_id = 'com_rich'"); rich != 900_000_000 {
			t.Errorf("the other company has %d sat", rich)
		}
	})
}
