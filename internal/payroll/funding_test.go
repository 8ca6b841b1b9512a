package payroll

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/webhook"
)

func TestUnderThenTopUp(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_1", 2_009_900, "confirmed")
		h.want(p.ID, Pending, FundingPartial, Pending)
		if got := h.balance(ledger.Escrow, p.ID, money.BTC); got != 2_009_900 {
			h.t.Errorf("escrow is %d", got)
		}
		h.release(p.ID) // too early, no effect
		h.want(p.ID, Pending, FundingPartial, Pending)
		h.deposit(p, "dep_2", 10_100, "confirmed")
		h.want(p.ID, Received, FundingFunded, Received)
	})
}

func TestTheHouseAbsorbsWhatCannotBePaid(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_1", 2_019_800, "confirmed")
		if got := h.want(p.ID, Received, FundingFunded, Received); got.Shortfall != sats(200) ||
			got.Escrow != sats(2_020_000) {
			h.t.Errorf("%s short of %s", got.Shortfall, got.Escrow)
		}
		if got := h.balance(ledger.Shortfall, p.ID, money.BTC); got != 200 {
			h.t.Errorf("absorbed %d", got)
		}
		h.deposit(p, "dep_1", 2_019_800, "reverted")
		h.want(p.ID, Pending, FundingConfirming, Pending)
		if got := h.balance(ledger.Shortfall, p.ID, money.BTC); got != 0 {
			h.t.Errorf("absorbed %d", got)
		}
		h.deposit(p, "dep_1", 2_019_800, "confirmed")
		h.want(p.ID, Received, FundingFunded, Received)
		h.release(p.ID)
		h.want(p.ID, Released, FundingFunded, Released)
	})
}

func TestTheSurplusIsTheCompanys(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_1", 2_100_000, "confirmed")
		h.want(p.ID, Received, FundingOver, Received)
		if got := h.balance(ledger.CompanyFunds, "", money.BTC); got != 80_000 {
			h.t.Errorf("the company has %d", got)
		}
		h.deposit(p, "dep_2", 5_000, "confirmed")
		if got := h.balance(ledger.CompanyFunds, "", money.BTC); got != 85_000 {
			h.t.Errorf("the company has %d", got)
		}
		h.want(p.ID, Received, FundingOver, Received)

		// The surplus pays the next payroll: 40.40 USD are 80,800 sat.
		small := h.create(CreateParams{ToPay: []Payee{{AmountText: "40", UserID: "rec_btc"}},
			FundingMethod: MethodWallet, FundingCurrency: "BTC"})
		h.want(small.ID, Received, FundingFunded, Received)
		if got := h.balance(ledger.CompanyFunds, "", money.BTC); got != 4_200 || h.balance(ledger.Escrow, small.ID,
			money.BTC) != 80_800 || h.balance(ledger.Escrow, p.ID, money.BTC) != 2_020_000 {
			h.t.Errorf("the company has %d, and its payrolls what they should not", got)
		}
		h.release(small.ID)
		if got := h.want(small.ID, Released, FundingFunded,
			Released); got.Payments[0].Outputs[0].Amount != sats(80_000) {
			h.t.Errorf("%+v", got.Payments[0].Outputs)
		}
		_, err := h.tryCreate(CreateParams{ToPay: []Payee{{AmountText: "40", UserID: "rec_btc"}},
			FundingMethod: MethodWallet, FundingCurrency: "BTC"})
		_ = wantFault(h.t, err, "insufficient_balance")
	})
}

func TestLateMoneyIsAppliedAtANewRate(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: []Payee{{AmountText: "600", UserID: "rec_btc"}}}) // 606.00: 1,212,000 sat
		h.clock.Advance(31 * time.Minute)
		h.exec("UPDATE rates SET rate = '49000' WHERE asset = 'BTC'")
		h.deposit(p, "dep_1", 1_212_000, "confirmed")
		// 593.88 at 49,000; 12.12 remain, 24,735 sat.
		got := h.want(p.ID, Pending, FundingPartial, Pending)
		if got.Quote.Number != 2 || got.Quote.Due != usd(12_12) || got.Quote.Funding != sats(24_735) {
			h.t.Errorf("%+v", got.Quote)
		}
		if h.balance(ledger.SuspenseLate, p.ID, money.BTC) != 0 || h.balance(ledger.Escrow, p.ID,
			money.BTC) != 1_212_000 {
			h.t.Error("the late money is not applied")
		}
		h.deposit(p, "dep_2", 24_735, "confirmed")
		h.want(p.ID, Received, FundingFunded, Received)
		h.release(p.ID)
		h.want(p.ID, Released, FundingFunded, Released)
		if n := h.count("SELECT COUNT(*) FROM events WHERE name = $1", webhook.PayrollFundingLate.Name); n != 1 {
			h.t.Errorf("%d events", n)
		}
	})
}

// A shortfall of 400 sat is worth 0.20 USD at 50,000 USD per bitcoin and exceeds the tolerance there. At 70,000 it is
// within the tolerance.
func TestAShortfallAtAnotherPriceCanBeReleased(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_1", 2_019_600, "confirmed")
		h.want(p.ID, Pending, FundingPartial, Pending)
		h.clock.Advance(31 * time.Minute)
		h.exec("UPDATE rates SET rate = '70000' WHERE asset = 'BTC'")
		h.write(func(ctx context.Context, tx *db.Tx) error {
			_, _, err := h.s.Refresh(ctx, tx, h.by, p.ID)
			return err
		})
		h.want(p.ID, Received, FundingFunded, Received)
		h.release(p.ID)
		h.want(p.ID, Released, FundingFunded, Released)
	})
}

func TestMuchLateMoneyWaitsForARefresh(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: worked})
		h.clock.Advance(31 * time.Minute)
		h.deposit(p, "dep_1", 2_020_000, "confirmed")
		h.want(p.ID, Pending, FundingLate, Pending)
		if got := h.balance(ledger.SuspenseLate, p.ID, money.BTC); got != 2_020_000 {
			h.t.Errorf("suspense is %d", got)
		}
		h.write(func(ctx context.Context, tx *db.Tx) error {
			got, quotes, err := h.s.Refresh(ctx, tx, h.by, p.ID)
			if err == nil && (got.State != Received || len(quotes) != 0) {
				err = fmt.Errorf("refresh left it %s with %d quotes", got.State, len(quotes))
			}
			return err
		})
		h.want(p.ID, Received, FundingFunded, Received)
	})
}

// Money that a reorganization removes after the release is debited from the company's balance, and the company is
// notified.
func TestABalanceCoversAReorg(t *testing.T) {
	run(t, func(h *fixture) {
		over := h.create(CreateParams{ToPay: worked})
		h.deposit(over, "dep_1", 5_000_000, "confirmed")
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_2", 2_020_000, "confirmed")
		h.release(p.ID)
		h.deposit(p, "dep_2", 2_020_000, "evicted")
		h.want(p.ID, Released, FundingFunded, Released)
		if got := h.balance(ledger.CompanyFunds, "", money.BTC); got != 5_000_000-2*2_020_000 {
			h.t.Errorf("%d sat are left", got)
		}
		if n := h.count("SELECT COUNT(*) FROM events WHERE name = $1 AND object_id = $2",
			webhook.PayrollFundingReverted.Name, p.ID); n != 1 {
			h.t.Errorf("%d events", n)
		}
	})
}

func TestAReorgWalksBack(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_1", 2_020_000, "confirmed")
		h.deposit(p, "dep_1", 2_020_000, "evicted")
		h.want(p.ID, Pending, FundingNone, Pending)
		if h.balance(ledger.HotWallet, "", money.BTC) != 0 || h.balance(ledger.Escrow, p.ID, money.BTC) != 0 {
			h.t.Error("money that never was is booked")
		}
		h.deposit(p, "dep_1", 2_020_000, "confirmed")
		h.want(p.ID, Received, FundingFunded, Received)
		h.release(p.ID)

		// After the release the company owes the money, and unsent payouts are held.
		h.deposit(p, "dep_1", 2_020_000, "reverted")
		got := h.want(p.ID, OnHold, FundingFunded, Released)
		if h.balance(ledger.DueFromCustomer, "", money.BTC) != 2_020_000 || !got.Payments[0].Outputs[0].OnHold {
			h.t.Errorf("%+v", got.Payments[0].Outputs)
		}
		h.deposit(p, "dep_1", 2_020_000, "confirmed")
		got = h.want(p.ID, Released, FundingFunded, Released)
		if h.balance(ledger.DueFromCustomer, "", money.BTC) != 0 || got.Payments[0].Outputs[0].OnHold {
			h.t.Errorf("%+v", got.Payments[0].Outputs)
		}
	})
}
