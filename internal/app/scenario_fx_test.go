package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stipend/stipend/cmd/stipend/cli"
	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/testkit"
)

// run runs a command on the service's database and returns its output.
func (d *apiClient) run(c interface {
	Run(context.Context, cli.Streams) error
}) (printed string, err error) {
	var out bytes.Buffer
	err = c.Run(d.Context(), cli.Streams{Out: &out, Err: &out})
	return out.String(), err
}

// prints runs a command, which must succeed and print a text. It returns the output.
func (d *apiClient) prints(want string, c interface {
	Run(context.Context, cli.Streams) error
},
) string {
	d.Helper()
	got, err := d.run(c)
	if err != nil || !strings.Contains(got, want) {
		d.Errorf("%T prints %q with the error %v; want %q", c, got, err, want)
	}
	return got
}

func (d *apiClient) owned(a money.Asset) (x money.Amount) {
	d.Helper()
	d.read(func(ctx context.Context, tx *db.Tx) error {
		all, err := ledger.OperatorBalances(ctx, tx, a)
		x = all[a]
		return err
	})
	return x
}

// operatorFunded waits until the operator's coins of a new sandbox are in the ledger. Before, nothing can be exchanged
// into bitcoin.
func (d *apiClient) operatorFunded() {
	d.Helper()
	eventually(d.T, 60*time.Second, "the operator's coins are in the ledger",
		func() bool { return d.owned(money.BTC).Units() > 9*100_000_000 })
}

// A balance in euros pays payees in bitcoin that the operator owns, at the price that is recorded with the output.
// The operator sees the position, limits it, and sends some of it to an exchange.
func paidFromOperatorCoins(d *apiClient) {
	storage := d.s.cfg.Storage
	d.operatorFunded()
	if got, err := d.run(cli.TreasuryAddressCmd{Storage: storage,
		WalletFlags: cli.WalletFlags{Env: app.Sandbox}}); err != nil || !strings.HasPrefix(got, "bcrt1q") {
		d.Errorf("the operator's address: %s, %v", got, err)
	}
	// One transfer names the company, which gets the euros. Another transfer names no company.
	statement := filepath.Join(d.TempDir(), "camt.xml")
	entry := `<Ntry><Amt Ccy="EUR">%s</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>BOOK</Sts>
		<BookgDt><Dt>2026-03-02</Dt></BookgDt><AcctSvcrRef>%s</AcctSvcrRef>
		<NtryDtls><TxDtls><RmtInf><Ustrd>%s</Ustrd></RmtInf></TxDtls></NtryDtls></Ntry>`
	testkit.Check(d, os.WriteFile(statement,
		[]byte(`<Document><BkToCstmrStmt><Stmt><Id>1</Id><Acct><Id><IBAN>DE89370400440532013000</IBAN></Id></Acct>`+
			fmt.Sprintf(entry, "1000.00", "A", strings.ToUpper(strings.ReplaceAll(d.seed.CompanyID, "_", " ")))+
			fmt.Sprintf(entry, "5.00", "B", "hello")+`</Stmt></BkToCstmrStmt></Document>`), 0o600))
	had := d.balanceIn(ledger.CompanyFunds, "", money.EUR)
	d.prints("1 credited, 1 in suspense, 0 returned; 0 imported before", cli.TransfersImportCmd{Storage: storage,
		Files: []string{statement}})
	d.prints("0 credited, 0 in suspense, 0 returned; 2 imported before", cli.TransfersImportCmd{Storage: storage,
		Files: []string{statement}})
	if got, err := d.balanceIn(ledger.CompanyFunds, "", money.EUR).Sub(had); err != nil || got.Units() != 1_000_00 {
		d.Errorf("the company's balance grew by %s EUR", got)
	}
	listed := strings.Fields(d.prints("hello", cli.TransfersListCmd{Storage: storage, Limit: 10}))
	id := listed[7] // the field after the seven column headings
	d.prints("are credited to", cli.TransfersAssignCmd{Storage: storage, ID: id, To: ledger.Operator})
	d.prints("Nothing is in suspense", cli.TransfersListCmd{Storage: storage, Limit: 10})
	if _, err := d.run(cli.TransfersSendBackCmd{Storage: storage, ID: id}); err == nil {
		d.Error("the service sent back a transfer that was already assigned")
	}

	before := d.owned(money.BTC)
	made := d.create(pays(`"funding_method":"wallet","funding_currency":"EUR",`, "100.00", d.seed.Workers[0].UserID))
	d.fulfilled(made.PayrollID)
	var paid struct {
		Payments []struct {
			Outputs []struct {
				Volume   json.Number `json:"volume_output_in_output_currency"`
				RateBase string      `json:"rate_base"`
				Rate     json.Number `json:"rate"`
			} `json:"outputs"`
		} `json:"payments"`
	}
	testkit.Check(d, json.Unmarshal([]byte(d.ok("GET", "/api/company/payrolls/"+made.PayrollID, "").text), &paid))
	if o := paid.Payments[0].Outputs[0]; o.Volume != "0.00200000" || o.RateBase != "BTC" || o.Rate != "50000" {
		d.Errorf("%+v", o)
	}
	spent, err := before.Sub(d.owned(money.BTC))
	if fee := spent.Units() - 200_000; err != nil || fee <= 0 || fee > 100_000 {
		d.Errorf("the operator spent %s BTC on a payout of 0.002 BTC and its fee", spent)
	}

	// If a payment exceeds the limit for one destination, the service refuses the payroll before the company pays.
	d.prints("The operator keeps 0.00000000 BTC", cli.TreasuryLimitCmd{Storage: storage, Asset: "BTC", Least: "0",
		Upper: "5", Most: "0.001"})
	r := d.refused(422, "conversion_unavailable", "POST", createPath,
		pays(`"funding_method":"wallet","funding_currency":"EUR",`, "100.00", d.seed.Workers[0].UserID), "Idempotency-Key",
		freshKey())
	if got := d.pointers(r); len(got) != 1 || got[0] != "conversion_unavailable /to_pay/0/user_id" {
		d.Errorf("%v", got)
	}
	d.prints("sell ", cli.TreasuryReportCmd{Storage: storage, Env: app.Sandbox})
	if text := d.prints(`"result_usd"`, cli.TreasuryReportCmd{Storage: storage, Env: app.Sandbox,
		JSON: true}); !json.Valid([]byte(text)) {
		d.Errorf("%s", text)
	}

	// The operator sends some of it to an exchange and gets dollars back.
	wallet, err := sandbox.SeedWallet()
	testkit.Check(d, err)
	address, err := wallet.Deriver().Address(0, 77)
	testkit.Check(d, err)
	key := cli.WalletFlags{Env: app.Sandbox}
	if _, err := d.run(cli.TreasurySendCmd{Storage: storage, WalletFlags: key, Amount: "1000",
		Address: address}); err == nil {
		d.Error("the operator sent more than it owns")
	}
	sent := strings.Fields(d.prints("1.00000000 BTC are sent as out_", cli.TreasurySendCmd{Storage: storage,
		WalletFlags: key, Amount: "1", Address: address}))
	out := strings.TrimSuffix(sent[5], ".")
	eventually(d.T, 90*time.Second, "the coins are sent", func() bool {
		var o payout.Output
		d.read(func(ctx context.Context, tx *db.Tx) (err error) {
			o, err = payout.Get(ctx, tx, ledger.Operator, out)
			return err
		})
		return o.State == payout.Fulfilled
	})
	dollars := d.owned(money.USD)
	d.prints("Booked", cli.TreasuryDepositCmd{Storage: storage, Amount: "1", Asset: "btc", At: "exchange:kraken",
		Reference: "1"})
	d.prints("booked before", cli.TreasuryDepositCmd{Storage: storage, Amount: "1", Asset: "BTC", At: "exchange:kraken",
		Reference: "1"})
	d.prints("Booked", cli.TreasuryTradeCmd{Storage: storage, Env: app.Sandbox, Given: "1", GivenAsset: "BTC",
		Got: "49000", GotAsset: "USD", At: "exchange:kraken", Reference: "2"})
	d.prints("Booked", cli.TreasuryMoveCmd{Storage: storage, Env: app.Sandbox, Amount: "40000", Asset: "USD",
		From: "exchange:kraken", To: "bank:main", Reference: "3"})
	if _, err := d.run(cli.TreasuryWithdrawCmd{Storage: storage, Env: app.Sandbox, Amount: "9000.01", Asset: "USD",
		At: "exchange:kraken", Reference: "4"}); err == nil {
		d.Error("the ledger accepted a withdrawal above the balance")
	}
	d.prints("Booked", cli.TreasuryWithdrawCmd{Storage: storage, Env: app.Sandbox, Amount: "9000", Asset: "USD",
		At: "exchange:kraken", Reference: "4"})
	if got, err := d.owned(money.USD).Sub(dollars); err != nil || got.Units() != 40_000_00 {
		d.Errorf("the operator's balance grew by %s USD", got)
	}
	d.prints("The operator keeps", cli.TreasuryLimitCmd{Storage: storage, Asset: "BTC", Least: "0"})
}
