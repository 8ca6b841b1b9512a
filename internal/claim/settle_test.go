package claim_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// earn posts what a claim brought.
func (m *merchant) earn(a money.Amount) {
	m.Helper()
	m.PostTransfer(m.By.CompanyID, "claim", "", "book:1", ledger.HotWallet, ledger.MerchantPayable, a)
}

func (m *merchant) settleDue() {
	m.Helper()
	if err := m.claims.SettleDue(m.Context(), m.DB); err != nil {
		m.Fatal(err)
	}
}

func (m *merchant) wantSettlements(want int, when string) {
	m.Helper()
	if all := m.settlements(); len(all) != want {
		m.Fatalf("%s: %d settlements, want %d", when, len(all), want)
	}
}

// A schedule settles at midnight in its time zone, every day or on one day of the week, also where a clock change skips
// midnight.
func TestScheduledSettlements(t *testing.T) {
	for _, c := range []struct {
		schedule, zone, day string
		start               time.Time
		at                  []string // of the next settlements
	}{
		{"daily", "UTC", "", time.Time{}, []string{"2026-01-16T00:00:00Z", "2026-01-17T00:00:00Z"}},
		{"daily", "Asia/Tokyo", "", time.Time{}, []string{"2026-01-15T15:00:00Z", "2026-01-16T15:00:00Z"}},
		{"weekly", "Asia/Tokyo", "monday", time.Time{}, []string{"2026-01-18T15:00:00Z", "2026-01-25T15:00:00Z"}},
		{"weekly", "America/New_York", "thursday", time.Time{}, []string{"2026-01-22T05:00:00Z", "2026-01-29T05:00:00Z"}},
		{"daily", "America/Havana", "", time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC),
			[]string{"2026-03-08T04:00:00Z", "2026-03-09T04:00:00Z"}},
	} {
		t.Run(c.schedule+" "+c.zone, func(t *testing.T) {
			run(t, func(m *merchant) {
				if !c.start.IsZero() {
					m.Clock.Set(c.start)
				}
				m.earn(usd(1_00))
				change := claim.Change{Schedule: &c.schedule, TimeZone: &c.zone}
				if c.day != "" {
					change.Day = &c.day
				}
				m.change(change)
				m.settleDue()
				m.wantSettlements(0, "when the schedule is chosen")
				for i, text := range c.at {
					at, err := time.Parse(time.RFC3339, text)
					if err != nil {
						t.Fatal(err)
					}
					m.Clock.Set(at.Add(-time.Second))
					m.settleDue()
					m.wantSettlements(i, "a second before "+text)
					m.Clock.Set(at)
					m.settleDue()
					m.settleDue()
					m.wantSettlements(i+1, text)
					m.earn(usd(1_00))
					m.settleDue()
					m.wantSettlements(i+1, "after "+text)
				}
				m.CheckLedger()
			})
		})
	}
}

// Each currency is settled once, by however many workers. What cannot be settled yet is due until it can be, and is not
// settled with what has been.
func TestScheduledSettlementsAreMadeOnce(t *testing.T) {
	run(t, func(m *merchant) {
		daily := "daily"
		m.change(claim.Change{Schedule: &daily})
		day := func() {
			m.earn(usd(1_00))
			m.earn(sats(50_000))
			m.Clock.Advance(24 * time.Hour)
		}
		day()
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				if err := m.claims.SettleDue(m.Context(), m.DB); err != nil {
					t.Error(err)
				}
			})
		}
		workers.Wait()
		m.wantSettlements(2, "by several workers")

		day()
		status := func(from, to string) {
			m.Write(fixture.Drop(func(ctx context.Context, tx *db.Tx) (bool, error) {
				return identity.SetCompanyStatus(ctx, tx, m.By.CompanyID, from, to)
			}))
		}
		status(identity.CompanyActive, identity.CompanyFrozen)
		m.settleDue()
		m.wantSettlements(2, "while the company is frozen")
		status(identity.CompanyFrozen, identity.CompanyActive)
		m.Exec(`INSERT INTO ledger_differences (company_id, code, dim, asset, balance, lines, found_at)
			VALUES ('other', '2000', '', 'BTC', 1, 0, 1)`)
		m.settleDue()
		m.earn(usd(1_00))
		m.settleDue()
		m.wantSettlements(3, "while bitcoin is stopped")
		m.Exec("DELETE FROM ledger_differences")
		m.settleDue()
		m.wantSettlements(4, "bitcoin is no longer stopped")
		m.WantBalance(ledger.MerchantPayable, "", usd(1_00))
		m.WantBalance(ledger.CompanyFunds, "", sats(100_000))
		m.CheckLedger()
	})
}

// A settlement is exchanged into the bank currency that the settings name, and its statement explains it by the ledger.
func TestStatementOfASettlement(t *testing.T) {
	run(t, func(m *merchant) {
		inBTC, euros := "BTC", "EUR"
		m.Exec(`INSERT INTO rates (asset, rate, sources, observed_at, valid_to) VALUES ('EUR', '1.25', 'x', 1, $1)
			ON CONFLICT (asset) DO UPDATE SET rate = '1.25'`, m.Clock.Now().Add(time.Hour).UnixMicro())
		m.change(claim.Change{SettleIn: &inBTC})
		first := m.openPaid("200_000", "6")
		settle := func(amount string) claim.Statement {
			t.Helper()
			x := fixture.Do(m.Fixture, func(ctx context.Context, tx *db.Tx) (claim.Settlement, error) {
				return m.claims.Settle(ctx, tx, m.By, "", "BTC", amount)
			})
			var s claim.Statement
			m.Read(func(ctx context.Context, tx *db.Tx) (err error) {
				s, err = m.claims.StatementOf(ctx, tx, m.By, "", x.ID)
				return err
			})
			return s
		}
		part := settle("0.0005")
		if part.Amount != sats(50_000) || !part.Rate.IsZero() || part.Opening != sats(0) || part.Claims != sats(200_000) ||
			part.Fees != sats(2_000) || part.Closing != sats(148_000) || part.Count != 1 {
			t.Errorf("%+v", part)
		}
		m.change(claim.Change{ConvertTo: &euros})
		m.openPaid("200_000", "6")
		canceled, _ := first.part(m.By, claim.PartParams{AmountText: "0.0001", Currency: "BTC"})
		m.Write(fixture.Drop(func(ctx context.Context, tx *db.Tx) (claim.Refund, error) {
			return m.claims.CancelRefund(ctx, tx, m.By, "", first.id, canceled.ID)
		}))
		first.part(m.By, claim.PartParams{AmountText: "0.0003", Currency: "BTC"})
		all := settle("")
		// 316,000 sat are 158 USD, or 126.40 EUR.
		if all.Earned != sats(316_000) || all.Amount != money.New(money.EUR, 126_40) || all.Rate.String() != "40000" ||
			all.Opening != sats(148_000) || all.Claims != sats(200_000) || all.Fees != sats(2_000) ||
			all.Refunds != sats(30_000) || all.Closing != sats(0) || all.Count != 4 {
			t.Errorf("%+v", all)
		}
		m.WantBalance(ledger.CompanyFunds, "", money.New(money.EUR, 126_40))
		var got string
		m.Read(func(ctx context.Context, tx *db.Tx) error {
			for offset := range 2 {
				lines, err := all.Lines(ctx, tx, db.Page{Number: offset + 1, PerPage: 2})
				if err != nil {
					return err
				}
				for _, l := range lines {
					if l.RefundID != "" && l.ClaimID != first.id {
						t.Errorf("%+v", l)
					}
					got += l.Type + " " + strconv.FormatInt(l.Gross.Units(), 10) + " " + l.Fee.String() + ", "
				}
			}
			return nil
		})
		if want := "claim 200000 0.00002000, refund -10000 0.00000000, refund_withdrawn 10000 0.00000000, " +
			"refund -30000 0.00000000, "; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		m.WantFault("not_found", func(ctx context.Context, tx *db.Tx) error {
			_, err := m.claims.StatementOf(ctx, tx, m.By, "", "stl_x")
			return err
		})
		m.CheckLedger()
	})
}
