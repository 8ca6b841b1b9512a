package payroll

import (
	"context"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// coins fixes what rec_btc receives: 0.02 BTC, which is 1,000.00 USD at 50,000.
var coins = Payee{UserID: "rec_btc", ReceiveText: "0.02", ReceiveCurrency: "BTC"}

func (h *env) bitcoinAt(usd string) {
	h.Helper()
	h.Exec("UPDATE rates SET rate = $1 WHERE asset = 'BTC'", usd)
}

func (h *env) refreshed(p Payroll) quote.Quote {
	h.Helper()
	q, err := fixture.Try(h.Fixture, func(ctx context.Context, tx *db.Tx) (quote.Quote, error) {
		_, quotes, err := h.s.Refresh(ctx, tx, h.By, p.ID)
		if err != nil {
			return quote.Quote{}, err
		}
		return quotes[0], nil
	})
	if err != nil {
		h.Fatal(err)
	}
	return q
}

// The cost of what a payee receives is set when the payroll is created and when an expired quote is replaced. The payee
// receives exactly that, and the books balance.
func TestAPayeeReceivesExactlyTheFixedAmount(t *testing.T) {
	run(t, func(h *env) {
		euros := Payee{UserID: "rec_eur", ReceiveText: "333.33", ReceiveCurrency: "EUR"}
		odd := coins // costs a fraction of a cent more
		odd.ReceiveText = "0.02000001"
		p := h.create(CreateParams{ToPay: []Payee{odd, euros, {UserID: "rec_mix", AmountText: "100"}}})
		before := h.get(p.ID).Payments
		if before[0].Amount != usd(1_000_01) || before[0].Receive != sats(2_000_001) || before[0].Fee != usd(10_00) {
			t.Errorf("%+v", before[0])
		}
		h.bitcoinAt("40000")
		if q := h.refreshed(p); q.ID != p.Quote.ID {
			t.Error("an active quote was replaced")
		}
		h.Clock.Advance(31 * time.Minute)
		h.refreshed(p)
		p = h.get(p.ID)
		m := p.Payments
		if m[0].Amount != usd(800_01) || m[0].Fee != usd(8_00) || m[0].ID != before[0].ID ||
			m[1].Amount != before[1].Amount || m[2].Amount != usd(100_00) || p.Quote.Due != p.Total {
			t.Errorf("%+v, due %s of %s", m, p.Quote.Due, p.Total)
		}
		h.fund(p, "confirmed")
		h.bitcoinAt("40390") // 0.975 percent more
		h.release(p.ID)
		for _, m := range h.want(p.ID, Released, FundingFunded, Released).Payments[:2] {
			if len(m.Outputs) != 1 || m.Outputs[0].Amount != m.Receive || m.Outputs[0].Input != m.Amount {
				t.Errorf("%+v", m)
			}
			h.WantBalance(ledger.OutputPayable, m.Outputs[0].ID, m.Receive)
			h.WantBalance(ledger.PayeePayable, m.ID, money.Zero(money.USD))
		}
		h.outcome(p, "", payout.Fulfilled)
		h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)
	})
}

// A payment waits while what the payee receives costs much more than was funded, and goes on when the price falls.
func TestAReceivedAmountWaitsWhileItCostsMuchMore(t *testing.T) {
	run(t, func(h *env) {
		p := h.paidInDollars(coins)
		h.bitcoinAt("50501")
		h.release(p.ID)
		h.waitsForPrice(p)
		h.bitcoinAt("50500")
		if err := RetryConversions(t.Context(), h.DB); err != nil {
			t.Fatal(err)
		}
		h.release(p.ID)
		if m := h.get(p.ID).Payments[0]; m.State != Released || m.Outputs[0].Amount != sats(2_000_000) {
			t.Errorf("%+v", m)
		}
	})
}

func (h *env) waitsForPrice(p Payroll) Payment {
	h.Helper()
	m := h.get(p.ID).Payments[0]
	if m.State != OnHold || m.Reason != ReasonPrice {
		h.Fatalf("%s, %s", m.State, m.Reason)
	}
	return m
}

// paidInDollars returns a payroll that the company's balance paid in dollars. The operator owns the coins.
func (h *env) paidInDollars(to ...Payee) Payroll {
	h.Helper()
	h.fill(h.By.CompanyID, usd(1_010_00))
	h.bring(sats(2_000_000))
	return h.create(CreateParams{ToPay: to, FundingMethod: MethodWallet, FundingCurrency: "USD"})
}

// A payroll that was funded in the coin that its payee receives holds that coin, so it pays whatever the price is.
func TestAReceivedCoinThatWasFundedIsPaidAtAnyPrice(t *testing.T) {
	run(t, func(h *env) {
		for _, price := range []string{"60000", "40000"} {
			p := h.funded(coins)
			h.bitcoinAt(price)
			h.release(p.ID)
			if m := h.get(p.ID).Payments[0]; m.State != Released || m.Outputs[0].Amount != sats(2_000_000) {
				t.Errorf("at %s: %+v", price, m)
			}
			h.bitcoinAt("50000")
		}
		h.check()
	})
}

// A payment that waits for its payee, and has become dearer when the payee has acted, waits for the company.
func TestAWaitingPaymentThatBecomesDearerWaitsForItsPrice(t *testing.T) {
	run(t, func(h *env) {
		p := h.paidInDollars(coins)
		h.Exec("UPDATE recipients SET status = 'inactive' WHERE recipient_id = 'rec_btc'")
		h.release(p.ID)
		if m := h.get(p.ID).Payments[0]; m.State != ActionRequired {
			t.Fatalf("%+v", m)
		}
		h.Exec("UPDATE recipients SET status = 'active' WHERE recipient_id = 'rec_btc'")
		h.bitcoinAt("60000")
		h.release(p.ID)
		h.waitsForPrice(p)
		h.bitcoinAt("50000")
		h.release(p.ID)
		if m := h.get(p.ID).Payments[0]; m.State != Released {
			t.Errorf("%+v", m)
		}
	})
}

// A company pays the higher price from its balance, or takes the payment back with its fee. Neither happens twice.
func TestTheHigherPriceOfAReceivedAmountIsPaidOrTakenBack(t *testing.T) {
	run(t, func(h *env) {
		h.member("anna", "admin")
		admin := h.as("anna")
		differs := func(p Payroll, most string) error {
			id := h.get(p.ID).Payments[0].ID
			_, err := fixture.Try(h.Fixture, func(ctx context.Context, tx *db.Tx) (Payroll, error) {
				return h.s.PayDifference(ctx, tx, admin, p.ID, id, most)
			})
			return err
		}
		back := func(p Payroll) error {
			id := h.get(p.ID).Payments[0].ID
			_, err := fixture.Try(h.Fixture, func(ctx context.Context, tx *db.Tx) (Payroll, error) {
				return h.s.TakeBack(ctx, tx, admin, p.ID, id)
			})
			return err
		}
		p := h.paidInDollars(coins)
		h.bitcoinAt("60000") // 200.00 USD more
		h.release(p.ID)
		m := h.waitsForPrice(p)
		if left := fixture.Get(h.Fixture, func(ctx context.Context, tx *db.Tx) (money.Amount, error) {
			return h.s.PriceDifference(ctx, tx, p, m)
		}); left != usd(200_00) {
			t.Errorf("the difference is %s", left)
		}
		_ = h.Fault("insufficient_balance", differs(p, "200.00"))
		h.PostTransfer(h.By.CompanyID, "bank_deposit", "", "credit", ledger.Bank, ledger.CompanyFunds, usd(250_00))
		_ = h.Fault("payroll_changed", differs(p, "199.99"))
		if err := differs(p, "200.00"); err != nil {
			t.Fatal(err)
		}
		h.release(p.ID)
		m = h.get(p.ID).Payments[0]
		if m.State != Released || m.Outputs[0].Amount != sats(2_000_000) || m.Surcharge != usd(200_00) ||
			m.Amount != usd(1_000_00) {
			t.Errorf("%+v", m)
		}
		h.WantBalance(ledger.CompanyFunds, "", usd(50_00))
		_ = h.Fault("invalid_state", differs(p, "200.00"))
		_ = h.Fault("invalid_state", back(p))

		h.bitcoinAt("50000")
		p = h.paidInDollars(coins)
		h.bitcoinAt("60000")
		h.release(p.ID)
		m = h.waitsForPrice(p)
		if err := back(p); err != nil {
			t.Fatal(err)
		}
		h.WantBalance(ledger.CompanyFunds, "", usd(1_060_00)) // the amount and the fee of 10.00
		h.WantBalance(ledger.PayeePayable, m.ID, usd(0))
		if got := h.get(p.ID); got.State != PartiallyFulfilled || got.Payments[0].State != Cancelled {
			t.Errorf("%s, %s", got.State, got.Payments[0].State)
		}
		_ = h.Fault("invalid_state", back(p))
		h.bitcoinAt("50000")
		h.release(p.ID)
		if m := h.get(p.ID).Payments[0]; m.State != Cancelled || len(m.Outputs) > 0 {
			t.Errorf("%+v", m)
		}
	})
}

// The cost of a received amount contains the spread of quotes.
func TestAReceivedAmountCostsTheSpread(t *testing.T) {
	run(t, func(h *env) {
		h.s.SpreadBps = 100
		euros := Payee{UserID: "rec_eur", ReceiveText: "100", ReceiveCurrency: "EUR"}
		p := h.create(CreateParams{ToPay: []Payee{coins, euros}})
		h.s.SpreadBps = 0
		q := h.create(CreateParams{ToPay: []Payee{coins, euros}})
		with, without := h.get(p.ID).Payments, h.get(q.ID).Payments
		if with[0].Amount != usd(1_010_00) || with[1].Amount.Cmp(without[1].Amount) <= 0 {
			t.Errorf("%s and %s, without the spread %s and %s", with[0].Amount, with[1].Amount, without[0].Amount,
				without[1].Amount)
		}
	})
}

// A payment whose payee no longer takes the currency needs another destination.
func TestAReceivedAmountNeedsItsCurrency(t *testing.T) {
	run(t, func(h *env) {
		p := h.funded(coins)
		h.destinations("rec_btc", map[money.Asset]int{money.BTC: 50, money.EUR: 50})
		h.release(p.ID)
		if m := h.get(p.ID).Payments[0]; m.State != ActionRequired || m.Reason != ReasonReceive {
			t.Errorf("%s, %s", m.State, m.Reason)
		}
		h.destinations("rec_btc", map[money.Asset]int{money.BTC: 100})
		h.release(p.ID)
		if m := h.get(p.ID).Payments[0]; m.State != Released || m.Outputs[0].Amount != sats(2_000_000) {
			t.Errorf("%+v", m)
		}
		_, err := h.tryCreate(CreateParams{ToPay: []Payee{{UserID: "rec_mix", ReceiveText: "1", ReceiveCurrency: "EUR"}}})
		_ = h.Fault("currency_not_supported", err)
	})
}

// A price is not fixed for a time that the company chooses, and an invoice is paid by what is due on it.
func TestAReceivedAmountIsNotFixedForLater(t *testing.T) {
	runBank(t, func(h *env) {
		day := h.Clock.Now().AddDate(0, 0, 5).Format(time.DateOnly)
		for name, c := range map[string]struct {
			code string
			p    CreateParams
		}{
			"at once":     {"", CreateParams{ToPay: []Payee{coins}}},
			"a pay date":  {"invalid_parameter", CreateParams{ToPay: []Payee{coins}, PayDay: PayDay{Date: day}}},
			"by transfer": {"invalid_parameter", CreateParams{ToPay: []Payee{coins}, FundingMethod: MethodBank}},
		} {
			_, err := h.tryCreate(c.p)
			if c.code == "" {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			f := h.Fault(c.code, err)
			if len(f.Fields) != 1 || f.Fields[0].Pointer != "/to_pay/0/receive_amount" {
				t.Errorf("%s: %+v", name, f.Fields)
			}
		}
		p := h.create(CreateParams{ToPay: worked, PayDay: PayDay{Date: day}})
		_, err := fixture.Try(h.Fixture, func(ctx context.Context, tx *db.Tx) (Payroll, error) {
			return h.s.Edit(ctx, tx, h.By, EditParams{PayrollID: p.ID, ToPay: []Payee{coins}})
		})
		_ = h.Fault("invalid_parameter", err)
	})
}

// A company that fixed a price and cancels after its quote gets back at most what the received amount costs then, with
// the fee, and never more than it paid.
func TestACanceledPayrollOfAReceivedAmountGainsNothing(t *testing.T) {
	run(t, func(h *env) {
		h.member("usr_a", identity.RoleOwner)
		h.member("usr_b", identity.RoleAdmin)
		h.limit("", "usr_a", usd(0))
		h.fillRich()
		h.bring(sats(2_000_000))
		h.PostTransfer(h.By.CompanyID, "bank_deposit", "", "credit", ledger.Bank, ledger.CompanyFunds, usd(1_010_00))
		balance := int64(1_010_00)
		for _, c := range []struct {
			wait time.Duration
			btc  string
			lost int64
		}{
			{time.Minute, "40000", 0}, // the quote binds the operator
			{time.Hour, "60000", 0},
			{time.Hour, "40000", 200_00},
		} {
			p := h.create(CreateParams{ToPay: []Payee{coins}, FundingMethod: MethodWallet, FundingCurrency: "USD"})
			h.release(p.ID)
			h.waits(p.ID, 2, 0)
			h.Clock.Advance(c.wait)
			h.bitcoinAt(c.btc)
			h.does("", h.s.Cancel, h.By, p.ID)
			balance -= c.lost
			h.WantBalance(ledger.CompanyFunds, "", usd(balance))
			h.bitcoinAt("50000")
		}

		// A part of the funding paid for that part of the received amount. If the price falls, the coins are worth less than
		// it costs then, and all of them are returned.
		p := h.create(CreateParams{ToPay: []Payee{coins}})
		h.deposit(p, "half", 1_010_000, "confirmed")
		h.Clock.Advance(time.Hour)
		h.bitcoinAt("40000")
		h.does("", h.s.Cancel, h.By, p.ID)
		h.WantBalance(ledger.CompanyFunds, "", sats(1_010_000))
		h.bitcoinAt("50000")
		p = h.create(CreateParams{ToPay: []Payee{coins}})
		h.deposit(p, "half", 1_010_000, "confirmed")
		h.Clock.Advance(time.Hour)
		h.bitcoinAt("100000")
		h.does("", h.s.Cancel, h.By, p.ID)
		h.WantBalance(ledger.CompanyFunds, "", sats(1_515_000))
	})
}

// A payment that is taken back after the price fell again returns what the received amount costs then, with the fee.
func TestAPaymentTakenBackReturnsThePresentPrice(t *testing.T) {
	run(t, func(h *env) {
		h.member("anna", "admin")
		p := h.paidInDollars(coins)
		h.bitcoinAt("60000")
		h.release(p.ID)
		m := h.waitsForPrice(p)
		h.bitcoinAt("40000")
		if _, err := fixture.Try(h.Fixture, func(ctx context.Context, tx *db.Tx) (Payroll, error) {
			return h.s.TakeBack(ctx, tx, h.as("anna"), p.ID, m.ID)
		}); err != nil {
			t.Fatal(err)
		}
		h.WantBalance(ledger.CompanyFunds, "", usd(810_00))
		h.WantBalance(ledger.PayeePayable, m.ID, usd(0))
		h.check()
	})
}

// A company that funds a payroll under several quotes chose between their prices, so it gets no increase for free.
func TestTheOperatorBearsNoIncreaseAfterSeveralQuotes(t *testing.T) {
	run(t, func(h *env) {
		p := h.create(CreateParams{ToPay: []Payee{coins}})
		h.deposit(p, "part", 10_000, "confirmed")
		h.Clock.Advance(31 * time.Minute)
		rest := h.refreshed(p)
		h.deposit(p, "rest", rest.Funding.Units(), "confirmed")
		h.bitcoinAt("50001")
		h.release(p.ID)
		h.waitsForPrice(p)
		h.bitcoinAt("50000")
		h.release(p.ID)
		if m := h.get(p.ID).Payments[0]; m.State != Released {
			t.Errorf("%+v", m)
		}
	})
}
