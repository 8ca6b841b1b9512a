package accounting

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// A month with a payroll, its fee, a return, a claim, a refund, a settlement, a debt and a withdrawal makes a journal.
// Each entry balances to the cent, in each format. The company's own codes are in the lines.
func TestTheJournalOfAMonthBalances(t *testing.T) {
	fixture.Run(t, func(x *fixture.Fixture) {
		x.UseCompany(identity.NewCompany{Name: "Acme", Country: "DE"})
		id := x.By.CompanyID
		eur := func(units int64) money.Amount { return money.New(money.EUR, units) }
		btc := func(units int64) money.Amount { return money.New(money.BTC, units) }
		dr, cr := ledger.Debit, ledger.Credit
		x.Write(func(ctx context.Context, tx *db.Tx) error { // funded at a rate that was not the market's
			_, err := tx.Exec(ctx, `INSERT INTO payrolls (company_id, payroll_id, external_id, state, held_from, hold_reason,
				funding_state, version, currency, funding_method, funding_currency, payees, volume, fees, total, escrow,
				shortfall, rate, address, network, tolerance_bps, pay_date, release_at, created_by, created_at, updated_at)
				VALUES ($1, 'prl_1', '', 'released', '', '', 'funded', 1, 'USD', 'crypto', 'BTC', 1, 100000, 1000, 101000, 0,
				0, '49750.12437811', '', '', 0, '', 0, '', $2, $2)`, id, db.Micros(x.Clock.Now()))
			return err
		})
		x.Post(id, "payroll", "prl_1", "book:dep_1", dr(ledger.HotWallet, "", btc(2_040_150)),
			cr(ledger.Escrow, "prl_1", btc(2_030_150)), cr(ledger.CompanyFunds, "", btc(10_000)))
		x.Post(id, "payroll", "prl_1", "release", dr(ledger.Escrow, "prl_1", btc(2_030_150)),
			cr(ledger.OutputPayable, "out_1", btc(2_010_050)), cr(ledger.FeeRevenue, "", btc(20_100)))
		x.Post(id, "bank_transfer", "trf_1", "credit", dr(ledger.Bank, "", eur(333_33)),
			cr(ledger.CompanyFunds, "", eur(333_33)))
		x.Post(id, "bank_transfer", "trf_1", "return", dr(ledger.CompanyFunds, "", eur(333_33)),
			dr(ledger.DueFromCustomer, "trf_1", eur(10)), cr(ledger.Bank, "", eur(333_43)))
		x.Post(id, "claim", "clm_1", "book:1", dr(ledger.HotWallet, "", btc(123_457)),
			cr(ledger.SuspenseLate, "clm_1", btc(123_457)))
		x.Post(id, "claim", "clm_1", "book:2", dr(ledger.SuspenseLate, "clm_1", btc(123_457)),
			cr(ledger.MerchantPayable, "", btc(122_222)), cr(ledger.FeeRevenue, "", btc(1_235)))
		x.Post(id, "refund", "ref_1", "set_aside", dr(ledger.MerchantPayable, "", btc(22_222)),
			cr(ledger.RefundPayable, "ref_1", btc(22_222)))
		x.Post(id, "settlement", "stl_1", "settle", dr(ledger.MerchantPayable, "", btc(100_000)),
			cr(ledger.FXPosition, "", btc(100_000)), dr(ledger.FXPosition, "", eur(45_99)),
			cr(ledger.CompanyFunds, "", eur(45_99)))
		x.Post(id, "withdrawal", "wdr_1", "withdraw", dr(ledger.CompanyFunds, "", eur(20_00)),
			cr(ledger.OutputPayable, "out_2", eur(20_00)))
		x.Clock.Advance(20 * 24 * time.Hour) // the next month
		x.Post(id, "payroll", "prl_2", "fund", dr(ledger.CompanyFunds, "", eur(5_00)), cr(ledger.Escrow, "prl_2", eur(5_00)))

		x.WantFault("invalid_parameter", func(ctx context.Context, tx *db.Tx) error {
			return SetAccounts(ctx, tx, x.By, []Account{{Key: "other"}, {Key: Pay, Code: strings.Repeat("1", 41)}})
		})
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			return SetAccounts(ctx, tx, x.By, []Account{{Pay, " 6010 ", "Wages:Contractors"}, {Fees, "6150", ""}})
		})
		journal := func(month string, in money.Asset) Journal {
			return fixture.Get(x, func(ctx context.Context, tx *db.Tx) (Journal, error) {
				return JournalOf(ctx, tx, x.By, month, in)
			})
		}
		sums := map[string]int64{}
		for _, in := range []money.Asset{money.USD, money.EUR} {
			j := journal("2026-01", in)
			if len(j.Entries) != 8 { // the late payment of the claim is not the company's yet
				x.Errorf("%d entries", len(j.Entries))
			}
			for _, e := range j.Entries {
				sum := int64(0)
				for _, l := range e.Lines {
					if l.Value.Asset() != in {
						x.Errorf("%s: a value in %s", e.Text, l.Value.Asset())
					}
					if sum += l.Value.Units(); in == money.USD {
						sums[l.Account.Key] += l.Value.Units()
					}
				}
				if sum != 0 || len(e.Lines) < 2 {
					x.Errorf("%s: %d lines that add up to %d", e.Text, len(e.Lines), sum)
				}
			}
			for _, format := range Formats {
				var b bytes.Buffer
				if err := j.Write(&b, format); err != nil {
					x.Fatal(err)
				}
				rows, err := csv.NewReader(&b).ReadAll()
				if err != nil || len(rows) != 1+21 {
					x.Errorf("%s: %d rows, %v", format, len(rows), err)
				}
				if format != FormatQuickBooks {
					continue
				}
				balances := map[string]int{} // in cents, by number
				for _, row := range rows[1:] {
					cents := testkit.Must(strconv.Atoi(strings.Replace(row[3]+row[4], ".", "", 1)))
					if row[3] == "" {
						cents = -cents
					}
					if balances[row[0]] += cents; len(row[0]) > maxNumber {
						x.Errorf("the number %q is too long", row[0])
					}
				}
				for number, sum := range balances {
					if sum != 0 || len(balances) != len(j.Entries) {
						x.Errorf("%d entries, and %s is off by %d", len(balances), number, sum)
					}
				}
			}
		}
		// Nothing of the payroll remains, at its own rate: 1,010 USD less the fee of 10 USD.
		for key, want := range map[string]int64{Payrolls: 0, Pay: 1000_00, Claims: 0, Refunds: 11_11, Sales: -61_73} {
			if sums[key] != want {
				x.Errorf("%s: %d, want %d", key, sums[key], want)
			}
		}
		if next := journal("2026-02", money.EUR); len(next.Entries) != 1 || len(next.Entries[0].Lines) != 2 {
			x.Errorf("%+v", next)
		}
		j := journal("2026-01", money.USD)
		for format, want := range map[string]string{
			FormatQuickBooks: ",01/15/2026,Wages:Contractors,1000.00,,Payroll prl_1 release,,USD\n",
			FormatXero:       ",15/01/2026,Payroll prl_1 release,6010,Tax Exempt (0%),1000.00,,,,\n",
			FormatCSV:        ",6150,Payment fees,10.00,,USD,0.00020100,BTC,Payroll prl_1 release\n",
		} {
			var b bytes.Buffer
			if err := j.Write(&b, format); err != nil || !strings.Contains(b.String(), want) {
				x.Errorf("%s: %v, no %q in\n%s", format, err, want, b.String())
			}
		}
		for _, wrong := range [][2]string{{"2026-13", "USD"}, {"2031-01", "USD"}, {"2026-01", "BTC"}} {
			x.WantFault("invalid_parameter", func(ctx context.Context, tx *db.Tx) error {
				_, err := JournalOf(ctx, tx, x.By, wrong[0], money.Asset(wrong[1]))
				return err
			})
		}
	})
}

// A line in a currency without any price has no value and says so. The other lines of the month keep theirs, and the
// lines without a value add up to zero in their currency.
func TestAJournalMarksLinesWithoutAPrice(t *testing.T) {
	fixture.Run(t, func(x *fixture.Fixture) {
		x.UseCompany(identity.NewCompany{Name: "Acme", Country: "DE"})
		id := x.By.CompanyID
		eur, btc := money.New(money.EUR, 45_99), money.New(money.BTC, 100_000)
		dr, cr := ledger.Debit, ledger.Credit
		x.Exec("DELETE FROM rate_history WHERE asset = 'BTC'")
		x.Post(id, "claim", "clm_1", "book:2", dr(ledger.SuspenseLate, "clm_1", btc), cr(ledger.MerchantPayable, "", btc))
		x.Post(id, "settlement", "stl_1", "settle", dr(ledger.MerchantPayable, "", btc), cr(ledger.FXPosition, "", btc),
			dr(ledger.FXPosition, "", eur), cr(ledger.CompanyFunds, "", eur))
		j := fixture.Get(x, func(ctx context.Context, tx *db.Tx) (Journal, error) {
			return JournalOf(ctx, tx, x.By, "2026-01", money.EUR)
		})
		for _, e := range j.Entries {
			valued, unvalued := int64(0), int64(0)
			for _, l := range e.Lines {
				if l.Unvalued {
					unvalued += l.Amount.Units()
				}
				if valued += l.Value.Units(); l.Unvalued != (l.Amount.Asset() == money.BTC) {
					x.Errorf("%s: %+v", e.Text, l)
				}
			}
			if valued != 0 || unvalued != 0 {
				x.Errorf("%s is off by %d EUR and %d BTC", e.Text, valued, unvalued)
			}
		}
		for format, want := range map[string]string{
			FormatCSV: ",1130,Stipend claims to be settled,,,EUR,-0.00100000,BTC," +
				"Settlement stl_1 settle: no EUR price of BTC; enter the value\n",
			FormatQuickBooks: ",Exchange gain or loss,,,Settlement stl_1 settle (0.00100000 BTC): " +
				"no EUR price of BTC; enter the value,,EUR\n",
			FormatXero: ",Settlement stl_1 settle (0.00100000 BTC): no EUR price of BTC; enter the value,7000," +
				"Tax Exempt (0%),,,,,\n",
		} {
			var b bytes.Buffer
			if err := j.Write(&b, format); err != nil || !strings.Contains(b.String(), want) ||
				!strings.Contains(b.String(), "45.99") {
				x.Errorf("%s: %v, no %q in\n%s", format, err, want, b.String())
			}
		}
		for month, want := range map[time.Month]string{time.January: "[BTC]", time.February: "[]"} {
			got := fixture.Get(x, func(ctx context.Context, tx *db.Tx) ([]money.Asset, error) {
				return Unpriced(ctx, tx, x.By, time.Date(2026, month, 1, 0, 0, 0, 0, time.UTC), money.EUR)
			})
			if fmt.Sprint(got) != want {
				x.Errorf("without a price in %s: %s", month, got)
			}
		}
	})
}

// Xero takes at most 300 lines in a file. Each part has whole entries, in order, and none is lost.
func TestAJournalIsDividedIntoFilesThatXeroImports(t *testing.T) {
	line := Line{Account: Defaults[0], Value: money.New(money.USD, 1), Amount: money.New(money.USD, 1)}
	for _, entries := range []int{0, 1, 149, 150, 151, 401} {
		j := Journal{Currency: money.USD}
		for n := range entries {
			lines := []Line{line, line}
			if n%3 == 0 {
				lines = append(lines, line)
			}
			j.Entries = append(j.Entries, Entry{ID: fmt.Sprint(n), Lines: lines})
		}
		next := 0
		for n, part := range j.Parts(FormatXero) {
			lines := 0
			for _, e := range part.Entries {
				if e.ID != fmt.Sprint(next) {
					t.Fatalf("of %d entries, part %d has %s, want %d", entries, n, e.ID, next)
				}
				next++
				lines += len(e.Lines)
			}
			if lines > 300 || entries > 0 && lines == 0 || part.Currency != j.Currency {
				t.Errorf("of %d entries, part %d has %d lines in %s", entries, n, lines, part.Currency)
			}
		}
		if next != entries || len(j.Parts(FormatCSV)) != 1 {
			t.Errorf("%d of %d entries are in a part", next, entries)
		}
	}
}
