package payroll

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/fixture"
	"github.com/stipend/stipend/internal/webhook"
)

// fundingTest is a payroll of 1,010.00 USD, which is 2,020,000 sat at 50,000 USD per bitcoin, on a chain that the test
// controls. Payments of this value need two confirmations.
type fundingTest struct {
	*env
	chain *fixture.Chain
	p     Payroll
}

func runFunding(t *testing.T, f func(x *fundingTest)) {
	t.Helper()
	run(t, func(h *env) {
		h.s.Pool = chain.NewPool(h.DB, "regtest", chaintest.NewSigner(h, h.DB).Deriver())
		table := job.Table{chain.JobOutput: {Batch: deposit.OutputsChanged}, deposit.JobChanged: {Tx: h.s.Fund}}
		c := h.NewChain("regtest", fixture.Simulated{Chain: bitcoinsim.New(h.DB)}, table, func(ctx context.Context) error {
			_, err := quote.ExpireDue(ctx, h.DB, "regtest", nil)
			return err
		})
		x := &fundingTest{env: h, chain: c}
		x.begin(CreateParams{ToPay: worked})
		f(x)
	})
}

func (x *fundingTest) begin(p CreateParams) {
	x.Helper()
	x.p = x.create(p)
	x.chain.Address, x.chain.Paid = x.p.Address, nil
}

func (x *fundingTest) play(steps string) { x.Helper(); x.chain.Play(steps, x.step) }

// step performs a step that is not one of the chain:
//
//	confirmed a 2_000   stores the deposit called a in a state; without an amount, of the full amount
//	later 31m           advances the clock without running the watcher
//	price 40000         sets the price of a bitcoin in USD
//	release, hold, resume, refresh and cancel change the payroll
//
// The others compare: "is" the states of the payroll, its funding and its payments, "held" the reason of a hold,
// "short" the amount that the operator bears, "outputs" whether payouts are held, "quote" the state of the quote.
func (x *fundingTest) step(verb, rest string) {
	x.Helper()
	var words [3]string
	copy(words[:], strings.Fields(rest))
	got := x.get(x.p.ID)
	switch verb {
	case "seen", "confirmed", "reverted", "evicted":
		amount := x.p.Quote.Funding.Units()
		if words[1] != "" {
			amount = x.chain.Number(words[1])
		}
		if words[0] != "all" {
			x.deposit(x.p, words[0], amount, verb)
			return
		}
		x.Exec("UPDATE deposits SET state = $1", verb)
		x.Deliver(x.s.Fund, "object_id", x.p.ID)
	case "later":
		x.Clock.Advance(testkit.Must(time.ParseDuration(words[0])))
	case "price":
		x.Exec("UPDATE rates SET rate = $1 WHERE asset = 'BTC'", words[0])
	case "release":
		x.release(x.p.ID)
	case "hold":
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			p, err := find(ctx, tx, x.By.CompanyID, x.p.ID)
			if err != nil {
				return err
			}
			return p.hold(ctx, tx, "screening")
		})
	case "resume":
		x.Write(func(ctx context.Context, tx *db.Tx) error { return x.s.Resume(ctx, tx, x.By.CompanyID, x.p.ID) })
	case "freeze":
		x.Exec("UPDATE companies SET status = 'frozen'")
		x.Write(func(ctx context.Context, tx *db.Tx) error { return Freeze(ctx, tx, x.By.CompanyID) })
	case "unfreeze":
		x.Exec("UPDATE companies SET status = 'active'")
		x.Write(func(ctx context.Context, tx *db.Tx) error { return Unfreeze(ctx, tx, x.By.CompanyID) })
	case "refresh":
		x.refresh(words[0])
	case "cancel":
		x.does("", x.s.Cancel, x.By, x.p.ID)
	case "is":
		if string(got.State) != words[0] || words[1] != "" && string(got.FundingState) != words[1] {
			x.Fatalf("the payroll is %s, %s; want %v", got.State, got.FundingState, words)
		}
		if words[2] != "" {
			x.want(x.p.ID, got.State, got.FundingState, State(words[2]))
		}
	case "held":
		if got.HoldReason != words[0] {
			x.Errorf("held for %q, want %q", got.HoldReason, words[0])
		}
	case "short":
		if got.Shortfall != sats(x.chain.Number(words[0])) || got.Escrow != sats(2_020_000) {
			x.Errorf("%s short of %s", got.Shortfall, got.Escrow)
		}
	case "outputs":
		for _, m := range got.Payments {
			for _, o := range m.Outputs {
				if o.OnHold != (words[0] == "held") || o.State != payout.Queued {
					x.Errorf("output %s is %s, held: %t", o.ID, o.State, o.OnHold)
				}
			}
		}
	case "quote":
		if string(got.Quote.State) != words[0] {
			x.Errorf("the quote is %s, want %s", got.Quote.State, words[0])
		}
	case "quoted":
		if q := got.Quote; q.ID != x.p.Quote.ID || q.Rate.String() != words[0] {
			x.Errorf("quote %s at %s, want %s", q.ID, q.Rate, words[0])
		}
	case "events":
		x.WantCount(x.chain.Number(words[1]), "events WHERE object_id = $1 AND name = $2", x.p.ID, words[0])
	case "paid":
		x.wantDeposits(x.chain.Paid)
	default:
		x.wantAccount(verb, words[0])
	}
}

// accounts has the ledger accounts that steps name. Some have a balance for each payroll.
var accounts = map[string]struct {
	code       ledger.Code
	perPayroll bool
}{
	"escrow": {ledger.Escrow, true}, "suspense": {ledger.SuspenseLate, true}, "shortfall": {ledger.Shortfall, true},
	"funds": {ledger.CompanyFunds, false}, "owed": {ledger.DueFromCustomer, false}, "wallet": {ledger.HotWallet, false},
	"fx": {ledger.FXPosition, false},
}

func (x *fundingTest) wantAccount(name, want string) {
	x.Helper()
	a, ok := accounts[name]
	if !ok {
		x.Fatalf("unknown step %q", name)
	}
	dim := ""
	if a.perPayroll {
		dim = x.p.ID
	}
	x.WantBalance(a.code, dim, sats(x.chain.Number(want)))
}

func (x *fundingTest) wantDeposits(txids []string) {
	x.Helper()
	var got []string
	for _, d := range fixture.Get(x.Fixture, func(ctx context.Context, tx *db.Tx) ([]deposit.Deposit, error) {
		return deposit.ForObject(ctx, tx, x.By.CompanyID, x.p.ID)
	}) {
		got = append(got, d.TxID)
	}
	if !slices.Equal(got, txids) {
		x.Errorf("deposits of %v, want %v", got, txids)
	}
}

// refresh requests a quote for the rest. want is its amount in satoshis, "same" for the quote of the payroll,
// "none" if the payroll is funded, or "" for any.
func (x *fundingTest) refresh(want string) {
	x.Helper()
	var quotes []quote.Quote
	p := fixture.Do(x.Fixture, func(ctx context.Context, tx *db.Tx) (p Payroll, err error) {
		p, quotes, err = x.s.Refresh(ctx, tx, x.By, x.p.ID)
		return p, err
	})
	switch {
	case want == "":
	case want == "none":
		if p.State != Received || len(quotes) != 0 {
			x.Errorf("the payroll is %s with %d quotes", p.State, len(quotes))
		}
	case len(quotes) != 1 || quotes[0].Address != x.p.Address:
		x.Errorf("quotes %+v, want one to %s", quotes, x.p.Address)
	case want == "same":
		if quotes[0].ID != x.p.Quote.ID {
			x.Errorf("another quote: %+v", quotes[0])
		}
	case quotes[0].Funding != sats(x.chain.Number(want)):
		x.Errorf("a quote of %s, want %s sat", quotes[0].Funding, want)
	}
}

func TestFunding(t *testing.T) {
	for name, steps := range map[string]string{
		"in two parts": "confirmed a 2_009_900, is pending partial pending, escrow 2_009_900, release, " +
			"is pending partial pending, confirmed b 10_100, is received funded received",
		"a shortfall that no transaction can pay": "confirmed a 2_019_800, is received funded received, short 200, " +
			"shortfall 200, reverted a, is pending confirming pending, shortfall 0, confirmed a, " +
			"is received funded received, release, is released funded released",
		// A shortfall of 400 sat is worth 0.20 USD at 50,000 and exceeds the tolerance; at 70,000 it does not.
		"a shortfall at another price": "confirmed a 2_019_600, is pending partial pending, later 31m, " +
			"price 70000, refresh, is received funded received, release, is released funded released",
		// A part of the amount due must not become an option to cancel when the money is worth more than when it was paid.
		"canceled with a part in time": "confirmed a 1_000_000, price 100000, later 1m, cancel, " +
			"is cancelled partial cancelled, funds 1_000_000, fx 0",
		"canceled with a part after the end of its quote": "confirmed a 1_000_000, later 31m, price 100000, cancel, " +
			"is cancelled partial cancelled, escrow 0, funds 500_000, fx 500_000",
		"canceled with a part that lost value": "confirmed a 1_000_000, later 31m, price 40000, cancel, " +
			"is cancelled partial cancelled, funds 1_000_000, fx 0",
		"canceled with a late part that was accepted": "later 31m, price 40000, confirmed a 1_000_000, " +
			"is pending partial pending, price 50000, cancel, is cancelled partial cancelled, funds 800_000, fx 200_000",
		"canceled with two parts, one of them in time": "confirmed a 1_000_000, later 31m, price 100000, " +
			"refresh 510_000, confirmed b 100_000, cancel, is cancelled partial cancelled, funds 600_000, fx 500_000",
		"a reorganization after the settlement of a canceled payroll": "confirmed a 1_000_000, later 31m, price 100000, " +
			"cancel, funds 500_000, fx 500_000, reverted a, funds 0, fx 0, owed 0, wallet 0, confirmed a, funds 500_000, " +
			"fx 500_000, wallet 1_000_000",
		"a late payment waits for a refresh": "later 31m, confirmed a, is pending late pending, suspense 2_020_000, " +
			"refresh none, is received funded received",
		"a late payment is credited once another covers the payroll": "seen a, later 31m, confirmed b, confirmed a, " +
			"is received over received, suspense 0, funds 2_020_000",
		"a reorganization before and after the release": "confirmed a, evicted a, is pending none pending, wallet 0, " +
			"escrow 0, confirmed a, is received funded received, release, reverted a, is on_hold confirming released, " +
			"owed 2_020_000, outputs held, confirmed a, is released funded released, owed 0, outputs free",
		"a frozen company's money returns after a reorganization": "confirmed a, release, reverted a, is on_hold, " +
			"freeze, held funding_reverted, confirmed a, is on_hold funded released, held company_frozen, outputs held, " +
			"unfreeze, release, is released funded released, outputs free",
		"a reorganization within the tolerance": "seen a 2_019_800, seen b 200, confirmed all, " +
			"is received funded received, evicted b, is received, short 200, escrow 2_020_000, release, " +
			"is released funded released",
		// A hold by staff and one by a reorganization are separate: lifting one does not lift the other.
		"a hold is lifted after a reorganization": "confirmed a, release, hold, reverted a, resume, is on_hold, " +
			"held funding_reverted, outputs held, confirmed a, is released funded released, outputs free",
		"a hold stays after a reorganization": "confirmed a, hold, reverted a, is pending confirming pending, " +
			"confirmed a, release, is on_hold funded received, held screening, resume, release, " +
			"is released funded released",
	} {
		t.Run(name, func(t *testing.T) { runFunding(t, func(x *fundingTest) { x.play(steps) }) })
	}
}

// Each case is a sequence of payments and changes of the chain. It ends in one state, and the ledger accounts for
// every satoshi.
func TestFundingOnAChain(t *testing.T) {
	const full = 2_020_000
	type balances struct{ escrow, funds, suspense, shortfall int64 }
	runFunding(t, func(x *fundingTest) {
		t := x.TB.(*testing.T)
		for _, c := range []struct {
			name, play   string
			toleranceBps int
			state        State
			funding      FundingState
			want         balances
		}{
			{"a reorganization after the release", "pay 2_020_000, mine 2, release, outputs free, reorg 2, " +
				"is on_hold confirming, outputs held, mine 1, outputs held, mine 1, outputs free",
				0, Released, FundingFunded, balances{}},
			{"the full amount", "pay 2_020_000, mine 1, is pending confirming, mine 1",
				0, Received, FundingFunded, balances{escrow: full}},
			{"a second before the quote ends, mined later at another price", "wait 29m59s, pay 2_020_000, price 40000, " +
				"wait 40m, is pending confirming, mine 2, quoted 50000, events payroll.funding_late 0",
				0, Received, FundingFunded, balances{escrow: full}},
			{"a second after the quote ended", "wait 30m1s, pay 2_020_000, mine 2, events payroll.funding_late 1",
				0, Pending, FundingLate, balances{suspense: full}},
			{"half a percent too little, and the rest in time", "pay 2_009_900, mine 2, " +
				"is pending partial, refresh same, pay 10_100, mine 2",
				0, Received, FundingFunded, balances{escrow: full}},
			{"half a percent too little", "pay 2_009_900, mine 2, wait 30m, refresh 10_100",
				0, Pending, FundingPartial, balances{escrow: 2_009_900}},
			{"half a percent too little, within the tolerance", "pay 2_009_900, mine 2",
				50, Received, FundingFunded, balances{escrow: full, shortfall: 10_100}},
			{"a satoshi less than the tolerance allows", "pay 2_009_899, mine 2",
				50, Pending, FundingPartial, balances{escrow: 2_009_899}},
			{"dust too little", "pay 2_019_706, mine 2",
				0, Received, FundingFunded, balances{escrow: full, shortfall: 294}},
			{"a satoshi more than dust too little", "pay 2_019_705, mine 2",
				0, Pending, FundingPartial, balances{escrow: full - 295}},
			{"half a percent too much", "pay 2_030_100, mine 2",
				0, Received, FundingOver, balances{escrow: full, funds: 10_100}},
			{"ten times too much", "pay 20_200_000, mine 6",
				0, Received, FundingOver, balances{escrow: full, funds: 9 * full}},
			{"in two transactions", "pay 820_000, wait 1s, pay 1_200_000, mine 2, paid",
				0, Received, FundingFunded, balances{escrow: full}},
			{"in two outputs of one transaction", "pay 820_000+1_200_000, mine 2",
				0, Received, FundingFunded, balances{escrow: full}},
			{"twice", "pay 2_020_000, mine 2, is received funded, pay 2_020_000, mine 3",
				0, Received, FundingOver, balances{escrow: full, funds: full}},
			{"replaced with a higher fee after the quote ended",
				"pay 2_020_000, wait 1h, replace 2_020_000, is pending confirming, mine 2",
				0, Received, FundingFunded, balances{escrow: full}},
			{"replaced by a smaller amount after the quote ended", "pay 2_020_000, wait 1h, replace 2_019_999, mine 2",
				0, Pending, FundingLate, balances{suspense: full - 1}},
			{"taken back by the payer", "pay 2_020_000, is pending confirming, replace, mine 2, quote active",
				0, Pending, FundingNone, balances{}},
			{"taken back by the payer after the quote ended", "pay 2_020_000, wait 30m, replace, quote expired",
				0, Pending, FundingNone, balances{}},
			{"evicted from the mempool", "pay 2_020_000, evict", 0, Pending, FundingNone, balances{}},
			{"a reorganization before the release", "pay 2_020_000, mine 2, is received funded, reorg 2, " +
				"is pending confirming, events payroll.funding_reverted 1, escrow 0, release, is pending confirming, mine 2",
				0, Received, FundingFunded, balances{escrow: full}},
		} {
			x.step("price", "50000")
			x.Exec("UPDATE companies SET tolerance_bps = $1", c.toleranceBps)
			x.begin(CreateParams{ToPay: worked})
			funds := x.Balance(ledger.CompanyFunds, "", money.BTC)
			ok := t.Run(c.name, func(t *testing.T) {
				x.TB = t
				x.play(c.play)
				x.step("is", fmt.Sprint(c.state, " ", c.funding))
				got := balances{
					x.Balance(ledger.Escrow, x.p.ID, money.BTC), x.Balance(ledger.CompanyFunds, "", money.BTC) - funds,
					x.Balance(ledger.SuspenseLate, x.p.ID, money.BTC), x.Balance(ledger.Shortfall, x.p.ID, money.BTC),
				}
				if got != c.want {
					t.Errorf("the balances are %+v, want %+v", got, c.want)
				}
				x.WantBalance(ledger.FeeRevenue, "payroll", sats(0))
				x.check()
			})
			x.TB = t
			if !ok {
				return
			}
		}
	})
}

// The company owes money that a reorganization removes for good after the release, until another payment arrives.
func TestFundingIsReplacedAfterAReorganization(t *testing.T) {
	runFunding(t, func(x *fundingTest) {
		x.play("pay 2_020_000, mine 2, release, reorg 2, evict, is on_hold none, outputs held, owed 2_020_000")
		x.check()
		x.play("pay 2_020_000, mine 2, owed 0, is released funded, outputs free")
	})
}

// However deep a reorganization is, once the chain has the payments again, the result is the same as without it.
func TestReorganizationsOfEveryDepth(t *testing.T) {
	runFunding(t, func(x *fundingTest) {
		for depth := 1; depth <= 6; depth++ {
			var all []Payroll
			var outputs []chain.Output
			// The four amounts are exact, too small, too small by less than dust, and too large.
			for _, sum := range []int64{1_818_000, 900_000, 1_817_800, 1_898_000} {
				x.begin(CreateParams{ToPay: []Payee{worked[0], {AmountText: "300", UserID: "rec_eur"}}})
				all, outputs = append(all, x.p), append(outputs, chain.Output{Address: x.p.Address, Amount: sum})
			}
			x.chain.Pay(outputs...)
			x.play(fmt.Sprint("mine ", depth))
			want := x.results(all)
			x.play(fmt.Sprint("reorg ", depth))
			for _, p := range all {
				if got := x.get(p.ID); got.State != Pending || !got.Escrow.IsZero() {
					x.Errorf("%d blocks deep: a payroll without funding is %s, with %s", depth, got.State, got.Escrow)
				}
			}
			x.play(fmt.Sprint("mine ", depth))
			if diff := cmp.Diff(want, x.results(all)); diff != "" {
				x.Errorf("%d blocks deep (-without +with the reorganization):\n%s", depth, diff)
			}
			x.check()
		}
	})
}

// results returns the final states of payrolls and the balance of every account of the company.
func (x *fundingTest) results(all []Payroll) map[string]any {
	x.Helper()
	at := map[string]any{"balances": x.Balances()}
	for i, p := range all {
		got := x.get(p.ID)
		at[fmt.Sprint("payroll ", i)] = fmt.Sprintln(got.State, got.FundingState, got.Escrow, got.Shortfall,
			got.Quote.State)
	}
	return at
}

func TestASurplusIsCreditedToTheCompany(t *testing.T) {
	run(t, func(h *env) {
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_1", 2_100_000, "confirmed")
		h.want(p.ID, Received, FundingOver, Received)
		h.WantBalance(ledger.CompanyFunds, "", sats(80_000))
		h.deposit(p, "dep_2", 5_000, "confirmed")
		h.WantBalance(ledger.CompanyFunds, "", sats(85_000))
		h.want(p.ID, Received, FundingOver, Received)

		// The surplus pays the next payroll: 40.40 USD are 80,800 sat.
		fromBalance := CreateParams{ToPay: []Payee{{AmountText: "40", UserID: "rec_btc"}}, FundingMethod: MethodWallet,
			FundingCurrency: "BTC"}
		small := h.create(fromBalance)
		h.want(small.ID, Received, FundingFunded, Received)
		h.WantBalance(ledger.CompanyFunds, "", sats(4_200))
		h.WantBalance(ledger.Escrow, small.ID, sats(80_800))
		h.WantBalance(ledger.Escrow, p.ID, sats(2_020_000))
		h.release(small.ID)
		if o := h.want(small.ID, Released, FundingFunded, Released).Payments[0].Outputs; o[0].Amount != sats(80_000) {
			h.Errorf("%+v", o)
		}
		_, err := h.tryCreate(fromBalance)
		_ = h.Fault("insufficient_balance", err)
	})
}

func TestALatePaymentIsAppliedAtANewRate(t *testing.T) {
	run(t, func(h *env) {
		p := h.create(CreateParams{ToPay: worked[:1]}) // a total of 606.00 USD, which is 1,212,000 sat
		h.Clock.Advance(31 * time.Minute)
		h.Exec("UPDATE rates SET rate = '49000' WHERE asset = 'BTC'")
		h.deposit(p, "dep_1", 1_212_000, "confirmed")
		// The payment is worth 593.88 USD at 49,000. The rest of 12.12 USD is 24,735 sat.
		q := h.want(p.ID, Pending, FundingPartial, Pending).Quote
		if q.Number != 2 || q.Due != usd(12_12) || q.Funding != sats(24_735) {
			h.Errorf("%+v", q)
		}
		h.WantBalance(ledger.SuspenseLate, p.ID, sats(0))
		h.WantBalance(ledger.Escrow, p.ID, sats(1_212_000))
		h.deposit(p, "dep_2", 24_735, "confirmed")
		h.want(p.ID, Received, FundingFunded, Received)
		h.release(p.ID)
		h.want(p.ID, Released, FundingFunded, Released)
		h.WantCount(1, "events WHERE name = $1", webhook.PayrollFundingLate.Name)
	})
}

// Money that a reorganization removes after the release is debited from the company's balance, and the company is
// notified.
func TestTheBalanceCoversAReorganization(t *testing.T) {
	run(t, func(h *env) {
		over := h.create(CreateParams{ToPay: worked})
		h.deposit(over, "dep_1", 5_000_000, "confirmed")
		p := h.released(worked...)
		h.fund(p, "evicted")
		h.want(p.ID, Released, FundingFunded, Released)
		h.WantBalance(ledger.CompanyFunds, "", sats(5_000_000-2*2_020_000))
		h.WantCount(1, "events WHERE name = $1 AND object_id = $2", webhook.PayrollFundingReverted.Name, p.ID)
	})
}

// The payouts of a payroll that has ended are on hold while the company owes its funding. Any money of the company
// settles the debt, and then they can be sent again, but not while the company is frozen.
func TestTheBalanceSettlesTheDebtOfAnEndedPayroll(t *testing.T) {
	run(t, func(h *env) {
		p := h.released(worked...)
		h.outcome(p, "", payout.Fulfilled)
		h.outcome(p, money.EUR, payout.Returned)
		h.fund(p, "evicted")
		h.wantState(p, PartiallyFulfilled)
		h.correct("rec_eur")
		h.release(p.ID)
		h.wantPayment(p, 1, Returned, "", 1)
		h.WantCount(2, "outputs WHERE on_hold")

		h.fill(h.By.CompanyID, sats(2_020_000))
		h.Exec("UPDATE companies SET status = 'frozen'")
		if err := SettleDebts(h.Context(), h.DB); err != nil {
			h.Fatal(err)
		}
		h.WantBalance(ledger.DueFromCustomer, "", sats(0))
		h.Deliver(h.s.Fund, "object_id", p.ID)
		h.WantCount(2, "outputs WHERE on_hold")
		h.Exec("UPDATE companies SET status = 'active'")
		h.Exec("DELETE FROM jobs")
		h.Write(func(ctx context.Context, tx *db.Tx) error { return Unfreeze(ctx, tx, h.By.CompanyID) })
		h.WantCount(1, "jobs WHERE kind = $1", deposit.JobChanged)
		h.Deliver(h.s.Fund, "object_id", p.ID)
		h.WantCount(0, "outputs WHERE on_hold")
		h.release(p.ID)
		if m := h.wantPayment(p, 1, Released, "", 1); m.Outputs[0].State != payout.Queued || m.Outputs[0].OnHold {
			h.Errorf("the corrected payout is %s, on hold: %v", m.Outputs[0].State, m.Outputs[0].OnHold)
		}
		if got := h.get(p.ID); got.State != Released || got.FundingState != FundingFunded {
			h.Errorf("the payroll is %s, %s", got.State, got.FundingState)
		}
	})
}

// While the company owes the funding of a payroll, no further payment of it is released.
func TestARetryWaitsForRevertedFunding(t *testing.T) {
	run(t, func(h *env) {
		p := h.funded(append([]Payee{{AmountText: "100", UserID: "rec_mix"}}, worked...)...)
		h.destinations("rec_mix", nil)
		h.release(p.ID)
		h.outcome(p, "", payout.Fulfilled)
		h.fund(p, "reverted")
		h.destinations("rec_mix", map[money.Asset]int{money.BTC: 100})
		first := func(want State) {
			h.Helper()
			h.release(p.ID)
			if m := h.get(p.ID).Payments[0]; m.State != want {
				h.Errorf("the payment is %s, want %s", m.State, want)
			}
		}
		first(ActionRequired)
		h.fund(p, "confirmed")
		if n := h.Count("SELECT COUNT(*) FROM jobs WHERE kind = $1", JobRelease); n < 2 {
			h.Error("the confirmed funding queued no release")
		}
		first(Released)
	})
}
