package wallet_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit/fixture"
	"github.com/stipend/stipend/internal/wallet"
)

const network = "regtest"

// addresses derives addresses that name their index.
type addresses struct{}

func (addresses) Address(branch, index uint32) (string, error) {
	return fmt.Sprintf("bcrt1q%d%d", branch, index), nil
}

// env is a company whose verification has not started.
type env struct {
	*fixture.Fixture
	pool *chain.Pool
}

func run(t *testing.T, f func(x *env)) {
	t.Helper()
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		chaintest.StartWatching(t, d, network)
		x := &env{fixture.New(t, d, clock), chain.NewPool(d, network, addresses{})}
		x.useNewCompany()
		f(x)
	})
}

// useNewCompany creates a company and acts for it from now on.
func (x *env) useNewCompany() {
	x.Helper()
	x.UseCompany(identity.NewCompany{Name: "Acme", Country: "DE"})
}

func (x *env) opener(allowUnverified bool) *wallet.Opener {
	x.Helper()
	o, err := wallet.New(wallet.Config{Pool: x.pool, AllowUnverified: allowUnverified})
	if err != nil {
		x.Fatal(err)
	}
	return o
}

// request requests a wallet.
func (x *env) request(currency string) wallet.Wallet {
	x.Helper()
	return fixture.Do(x.Fixture, func(ctx context.Context, tx *db.Tx) (wallet.Wallet, error) {
		return wallet.Request(ctx, tx, x.By, "", currency)
	})
}

// open runs the job that decides a request, and returns the wallet afterwards.
func (x *env) open(o *wallet.Opener, id string) wallet.Wallet {
	x.Helper()
	x.Deliver(o.Open, "wallet_id", id)
	return fixture.Get(x.Fixture, func(ctx context.Context, tx *db.Tx) (wallet.Wallet, error) {
		return wallet.Get(ctx, tx, x.By, id)
	})
}

// setVerification stores the state of the company's verification.
func (x *env) setVerification(status string) {
	x.Helper()
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		return identity.SetKYBStatus(ctx, tx, x.By.CompanyID, status)
	})
}

func (x *env) freeze() {
	x.Helper()
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		_, err := identity.SetCompanyStatus(ctx, tx, x.By.CompanyID, identity.CompanyActive, identity.CompanyFrozen)
		return err
	})
}

// post posts a journal of the company.
func (x *env) post(sourceType, sourceID, purpose string, lines ...ledger.Line) {
	x.Helper()
	x.Post(x.By.CompanyID, sourceType, sourceID, purpose, lines...)
}

// credit and debit return the lines that change the balance of the company by an amount.
func credit(n int64) []ledger.Line {
	return []ledger.Line{ledger.Debit(ledger.Bank, "", cents(n)), ledger.Credit(ledger.CompanyFunds, "", cents(n))}
}

func debit(n int64) []ledger.Line {
	return []ledger.Line{ledger.Debit(ledger.CompanyFunds, "", cents(n)), ledger.Credit(ledger.Bank, "", cents(n))}
}

// A month has a statement of a currency that was paid out whole since then.
func TestStatementCurrenciesHaveThoseOfTheMonth(t *testing.T) {
	run(t, func(x *env) {
		x.post("bank_transfer", "trf_1", "credit", credit(100)...)
		x.post("bank_transfer", "trf_2", "debit", debit(100)...)
		month := time.Date(x.Clock.Now().Year(), x.Clock.Now().Month(), 1, 0, 0, 0, 0, time.UTC)
		for from, want := range map[time.Time]int{month: 1, month.AddDate(0, -1, 0): 0, month.AddDate(0, 1, 0): 0} {
			got := fixture.Get(x.Fixture, func(ctx context.Context, tx *db.Tx) ([]money.Asset, error) {
				return wallet.StatementCurrencies(ctx, tx, x.By, from, from.AddDate(0, 1, 0))
			})
			if len(got) != want || want == 1 && got[0] != cents(1).Asset() {
				x.Errorf("from %s: %s", from, got)
			}
		}
	})
}

var cents = fixture.USD

func TestNewRefusesAMissingDependency(t *testing.T) {
	networks := []chain.EVMNetwork{{Name: "ethereum", Assets: []money.Asset{money.USDC}}}
	for missing, c := range map[string]wallet.Config{
		"Config.Pool":          {},
		"Config.Accounts.Pool": {Pool: &chain.Pool{}, Accounts: chain.EVMNetworks{Networks: networks}},
	} {
		if o, err := wallet.New(c); err == nil || o != nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}

func TestRequestsAreDecided(t *testing.T) {
	cases := map[string]struct {
		currency        string
		allowUnverified bool
		kyb             string
		frozen          bool // the company is frozen after the request
		state           wallet.State
		reason          string
		address         bool
	}{
		"a bank currency":       {currency: "USD", kyb: "approved", state: wallet.Completed},
		"bitcoin":               {currency: "BTC", kyb: "approved", state: wallet.Completed, address: true},
		"an unverified company": {currency: "USD", state: wallet.InProgress},
		"a rejected company":    {currency: "BTC", kyb: "rejected", state: wallet.InProgress},
		"an unverified sandbox": {currency: "BTC", allowUnverified: true, state: wallet.Completed, address: true},
		"a currency that is not held": {
			currency: "JPY", kyb: "approved", state: wallet.Rejected, reason: wallet.ReasonCurrency,
		},
		"a coin without a network": {
			currency: "USDC", kyb: "approved", state: wallet.Rejected, reason: wallet.ReasonCurrency,
		},
		"a company that was frozen": {
			currency: "USD", kyb: "approved", frozen: true, state: wallet.Rejected, reason: wallet.ReasonFrozen,
		},
	}
	run(t, func(x *env) {
		for name, c := range cases {
			x.useNewCompany()
			if c.kyb != "" {
				x.setVerification(c.kyb)
			}
			w := x.request(c.currency)
			if w.State != wallet.Pending || string(w.Currency) != c.currency || w.CompanyID != x.By.CompanyID {
				x.Errorf("%s: requested %+v", name, w)
			}
			if c.frozen {
				x.freeze()
			}
			w = x.open(x.opener(c.allowUnverified), w.ID)
			if w.State != c.state || w.Reason != c.reason || (w.Address != "") != c.address || w.Version != 2 {
				x.Errorf("%s: decided %+v", name, w)
			}
			x.Write(func(ctx context.Context, tx *db.Tx) error {
				asset, err := wallet.Currency(ctx, tx, x.By.CompanyID, w.ID)
				if ok := c.state == wallet.Completed; ok != (err == nil) || ok != (string(asset) == c.currency) {
					x.Errorf("%s: Currency returned %q, %v", name, asset, err)
				}
				return nil
			})
		}
	})
}

func TestARequestWaitsForTheVerification(t *testing.T) {
	run(t, func(x *env) {
		o := x.opener(false)
		w := x.open(o, x.request("BTC").ID)
		if w.State != wallet.InProgress || w.Address != "" {
			x.Errorf("before the verification: %+v", w)
		}
		x.setVerification(identity.KYBApproved)
		if w = x.open(o, w.ID); w.State != wallet.Completed || w.Address == "" {
			x.Errorf("after the verification: %+v", w)
		}
	})
}

func TestACompanyHasOneWalletPerCurrency(t *testing.T) {
	run(t, func(x *env) {
		o := x.opener(true)
		first := x.request("USD")
		if again := x.request("USD"); again.ID != first.ID {
			x.Errorf("a second request made %s besides %s", again.ID, first.ID)
		}
		x.open(o, first.ID)
		if again := x.request("USD"); again.ID != first.ID || again.State != wallet.Completed {
			x.Errorf("a request for a completed wallet returned %+v", again)
		}
		if other := x.request("EUR"); other.ID == first.ID {
			x.Error("two currencies share a wallet")
		}
		rejected := x.open(o, x.request("JPY").ID)
		if again := x.request("JPY"); rejected.State != wallet.Rejected || again.ID == rejected.ID {
			x.Errorf("after %+v a request returned %+v", rejected, again)
		}
	})
}

func TestRequestsAreRefused(t *testing.T) {
	run(t, func(x *env) {
		refused := func(code, currency string) {
			x.Helper()
			x.WantFault(code, fixture.Drop(func(ctx context.Context, tx *db.Tx) (wallet.Wallet, error) {
				return wallet.Request(ctx, tx, x.By, "", currency)
			}))
		}
		refused("currency_not_supported", "XYZ")
		x.freeze()
		refused("company_frozen", "USD")
		x.WantError(wallet.ErrNotFound, fixture.Drop(func(ctx context.Context, tx *db.Tx) (wallet.Wallet, error) {
			return wallet.Get(ctx, tx, x.By, "wal_none")
		}))
	})
}

func TestBalancesCoverWalletsAndMoney(t *testing.T) {
	run(t, func(x *env) {
		w := x.open(x.opener(true), x.request("EUR").ID)
		x.post("bank_deposit", "dep_1", "credit", credit(10_00)...)
		x.post("payroll", "prl_1", "fund",
			ledger.Debit(ledger.CompanyFunds, "", cents(4_00)), ledger.Credit(ledger.Escrow, "prl_1", cents(4_00)))
		x.post("claim", "clm_1", "book",
			ledger.Debit(ledger.HotWallet, "", cents(3_00)), ledger.Credit(ledger.MerchantPayable, "", cents(2_00)),
			ledger.Credit(ledger.RefundPayable, "clm_1", cents(1_00)))
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			all, err := wallet.Balances(ctx, tx, x.By, "")
			if err != nil {
				return err
			}
			zero := money.Zero(money.EUR)
			want := []wallet.Balance{
				{Wallet: w, Available: zero, Reserved: zero, Claims: zero},
				{Wallet: wallet.Wallet{CompanyID: x.By.CompanyID, Currency: money.USD}, Available: cents(6_00),
					Reserved: cents(4_00), Claims: cents(2_00)},
			}
			if !slices.Equal(all, want) {
				x.Errorf("got %+v, want %+v", all, want)
			}
			return nil
		})
	})
}

func TestTransactionsAreClassified(t *testing.T) {
	run(t, func(x *env) {
		cases := []struct {
			sourceType, sourceID, purpose string
			lines                         []ledger.Line
			want, payroll, deposit        string
		}{
			{"bank_deposit", "dep_1", "credit", credit(100_00), wallet.BankDeposit, "", "dep_1"},
			{"deposit", "dep_2", "credited:1", credit(5), wallet.CoinDeposit, "", "dep_2"},
			{"deposit", "dep_2", "taken_back:2", debit(5), wallet.CoinsReverted, "", "dep_2"},
			{"payroll", "prl_1", "fund", debit(20_00), wallet.PayrollFunding, "prl_1", ""},
			{"payroll", "prl_1", "cancel", credit(20_00), wallet.PayrollCancelled, "prl_1", ""},
			{"payroll", "prl_2", "book:dep_3:1", credit(7), wallet.PayrollSurplus, "prl_2", "dep_3"},
			{"payroll", "prl_2", "reverse:dep_3:2", debit(7), wallet.FundingReverted, "prl_2", "dep_3"},
			{"settlement", "stl_1", "settle", credit(8), wallet.Settlement, "", ""},
			{"withdrawal", "wdr_1", "withdraw", debit(9), wallet.Withdrawal, "", ""},
			{"withdrawal", "wdr_1", "give_back", credit(9), wallet.WithdrawalUndone, "", ""},
			{"debt", "off_1", "set_off", debit(1), wallet.Debt, "", ""},
			{"other", "oth_1", "x", credit(2), "other", "", ""},
		}
		balance := money.Zero(money.USD)
		for _, c := range cases {
			x.Clock.Advance(time.Second)
			x.post(c.sourceType, c.sourceID, c.purpose, c.lines...)
		}
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			all, total, err := wallet.Transactions(ctx, tx, x.By, "", wallet.Filter{Page: db.Page{PerPage: 100}})
			if err != nil || total != int64(len(cases)) || len(all) != len(cases) {
				return fmt.Errorf("%d of %d transactions: %w", len(all), total, err)
			}
			slices.Reverse(all) // newest first
			for i, c := range cases {
				got := all[i]
				if got.Type != c.want || got.PayrollID != c.payroll || got.DepositID != c.deposit || got.Description == "" ||
					got.SourceType != c.sourceType || got.SourceID != c.sourceID {
					x.Errorf("%s %s: %+v, want type %s", c.sourceType, c.purpose, got, c.want)
				}
				if balance, err = balance.Add(got.Amount); err != nil {
					return err
				}
				if got.Balance != balance {
					x.Errorf("%s %s: the balance is %s, want %s", c.sourceType, c.purpose, got.Balance, balance)
				}
			}
			page, _, err := wallet.Transactions(ctx, tx, x.By, "", wallet.Filter{Currency: "USD",
				Page: db.Page{Number: 2, PerPage: 5}})
			if len(page) != 5 || page[0].ID != all[len(all)-6].ID {
				x.Errorf("the second page is %+v", page)
			}
			return err
		})
	})
}

func TestTransactionsOfClaimsAreSeparate(t *testing.T) {
	run(t, func(x *env) {
		x.post("claim", "clm_1", "book:1",
			ledger.Debit(ledger.HotWallet, "", cents(3)), ledger.Credit(ledger.MerchantPayable, "", cents(3)))
		x.Clock.Advance(time.Second)
		x.post("claim", "clm_1", "book:2",
			ledger.Debit(ledger.MerchantPayable, "", cents(3)), ledger.Credit(ledger.HotWallet, "", cents(3)))
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			claims, _, err := wallet.Transactions(ctx, tx, x.By, "", wallet.Filter{Claims: true, Page: db.Page{PerPage: 10}})
			if err != nil {
				return err
			}
			if len(claims) != 2 || claims[0].Type != wallet.ClaimReverted || claims[1].Type != wallet.ClaimPayment {
				x.Errorf("the balance of claims has %+v", claims)
			}
			_, n, err := wallet.Transactions(ctx, tx, x.By, "", wallet.Filter{Page: db.Page{PerPage: 10}})
			if n != 0 {
				x.Errorf("the available balance has %d transactions", n)
			}
			return err
		})
	})
}

func TestStatement(t *testing.T) {
	run(t, func(x *env) {
		start := x.Clock.Now()
		post := func(id string, n int64) {
			x.Helper()
			lines := credit(n)
			if n < 0 {
				lines = debit(-n)
			}
			x.post("bank_deposit", id, "credit", lines...)
			x.Clock.Advance(time.Hour)
		}
		for i, n := range []int64{100, 50, -30, 7} { // posted at start and 1, 2 and 3 hours later
			post(fmt.Sprint("dep_", i), n)
		}
		read := func(f wallet.Filter) (wallet.Statement, error) {
			f.Page.PerPage = max(f.Page.PerPage, 2)
			return fixture.Try(x.Fixture, func(ctx context.Context, tx *db.Tx) (wallet.Statement, error) {
				return wallet.StatementOf(ctx, tx, x.By, "", f)
			})
		}
		s, err := read(wallet.Filter{Currency: "USD", From: start.Add(time.Hour), To: start.Add(3 * time.Hour)})
		if err != nil {
			x.Fatal(err)
		}
		if s.Opening != cents(100) || s.In != cents(50) || s.Out != cents(30) || s.Closing != cents(120) || s.Total != 2 {
			x.Errorf("a period of two hours: %+v", s)
		}
		if len(s.Lines) != 2 || s.Lines[0].SourceID != "dep_1" || s.Lines[1].Balance != s.Closing {
			x.Errorf("its lines are %+v", s.Lines)
		}
		s, err = read(wallet.Filter{Currency: "USD", Page: db.Page{Number: 2, PerPage: 3}})
		if err != nil || s.To != x.Clock.Now() || s.From.Day() != 1 {
			x.Errorf("without a period: %+v, %v", s, err)
		}
		if s.Closing != cents(127) || s.Total != 4 || len(s.Lines) != 1 {
			x.Errorf("the second page without a period: %+v", s)
		}
		for name, c := range map[string]struct {
			f    wallet.Filter
			code string
		}{
			"no currency":                     {wallet.Filter{}, "currency_not_supported"},
			"a period that ends at its start": {wallet.Filter{Currency: "USD", From: start, To: start}, "invalid_parameter"},
		} {
			_, err := read(c.f)
			if f, ok := apierr.As(err); !ok || f.Code != c.code {
				x.Errorf("%s: %v, want %s", name, err, c.code)
			}
		}
	})
}

func TestMonthsListsClosedMonths(t *testing.T) {
	run(t, func(x *env) {
		x.post("bank_deposit", "dep_1", "credit", credit(5)...)
		now := x.Clock.Now().UTC()
		next := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		x.Clock.Advance(next.Sub(now) + 2*time.Hour)
		if err := ledger.ClosePeriods(x.Context(), x.DB); err != nil {
			x.Fatal(err)
		}
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			all, err := wallet.Months(ctx, tx, x.By, "", money.USD)
			if len(all) != 1 || all[0].Closing != cents(5) || !all[0].End.Equal(next) {
				x.Errorf("the closed months are %+v", all)
			}
			return err
		})
	})
}
