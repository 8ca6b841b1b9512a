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
)

// run runs a command on the service's database, and gives what it printed.
func (d *apiClient) run(c interface {
	Run(context.Context, cli.Streams) error
}) (printed string, err error) {
	var out bytes.Buffer
	err = c.Run(d.Context(), cli.Streams{Out: &out, Err: &out})
	return out.String(), err
}

// prints runs a command that must succeed and print a text.
func (d *apiClient) prints(want string, c interface {
	Run(context.Context, cli.Streams) error
},
) string {
	d.Helper()
	got, err := d.run(c)
	if err != nil || !strings.Contains(got, want) {
		d.Errorf("%T prints %q, %v; want %q", c, got, err, want)
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

// A balance in euros pays bitcoins that the house owns, at the price that stands with the output; the operator sees the
// position, bounds it, and takes some of it to an exchange.
func paidOutOfTheHouse(d *apiClient) {
	storage := d.s.cfg.Storage
	eventually(d.T, 60*time.Second, "the house has its coins", func() bool { return d.owned(money.BTC).Units() > 9*100_000_000 })
	if got, err := d.run(cli.TreasuryAddressCmd{Storage: storage, WalletFlags: cli.WalletFlags{Env: app.Sandbox}}); err != nil || !strings.HasPrefix(got, "bcrt1q") {
		d.Errorf("the house's address: %s, %v", got, err)
	}
	// The company's euros come by a transfer that names it; another one names nobody.
	statement := filepath.Join(d.TempDir(), "camt.xml")
	entry := `<Ntry><Amt Ccy="EUR">%s</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>BOOK</Sts><BookgDt><Dt>2026-03-02</Dt></BookgDt><AcctSvcrRef>%s</AcctSvcrRef>
		<NtryDtls><TxDtls><RmtInf><Ustrd>%s</Ustrd></RmtInf></TxDtls></NtryDtls></Ntry>`
	if err := os.WriteFile(statement, []byte(`<Document><BkToCstmrStmt><Stmt><Id>1</Id><Acct><Id><IBAN>DE89370400440532013000</IBAN></Id></Acct>`+
		fmt.Sprintf(entry, "1000.00", "A", strings.ToUpper(strings.ReplaceAll(d.seed.CompanyID, "_", " ")))+
		fmt.Sprintf(entry, "5.00", "B", "hello")+`</Stmt></BkToCstmrStmt></Document>`), 0o600); err != nil {
		d.Fatal(err)
	}
	had := d.balanceIn(ledger.CompanyFunds, "", money.EUR)
	d.prints("1 credited, 1 in suspense, 0 returned; 0 imported before", cli.TransfersImportCmd{Storage: storage, Files: []string{statement}})
	d.prints("0 credited, 0 in suspense, 0 returned; 2 imported before", cli.TransfersImportCmd{Storage: storage, Files: []string{statement}})
	if got, err := d.balanceIn(ledger.CompanyFunds, "", money.EUR).Sub(had); err != nil || got.Units() != 1_000_00 {
		d.Errorf("the company has %s EUR more", got)
	}
	listed := strings.Fields(d.prints("hello", cli.TransfersListCmd{Storage: storage, Limit: 10}))
	id := listed[7] // after the seven heads
	d.prints("are credited to", cli.TransfersAssignCmd{Storage: storage, ID: id, To: ledger.Operator})
	d.prints("Nothing is in suspense", cli.TransfersListCmd{Storage: storage, Limit: 10})
	if _, err := d.run(cli.TransfersSendBackCmd{Storage: storage, ID: id}); err == nil {
		d.Error("what was assigned was sent back")
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
	if err := json.Unmarshal([]byte(d.ok("GET", "/api/company/payrolls/"+made.PayrollID, "").text), &paid); err != nil {
		d.Fatal(err)
	}
	if o := paid.Payments[0].Outputs[0]; o.Volume != "0.00200000" || o.RateBase != "BTC" || o.Rate != "50000" {
		d.Errorf("%+v", o)
	}
	spent, err := before.Sub(d.owned(money.BTC))
	if fee := spent.Units() - 200_000; err != nil || fee <= 0 || fee > 100_000 {
		d.Errorf("the house spent %s BTC on 0.002 and its fee", spent)
	}

	// Above what one destination may get at once, the company is told before it pays.
	d.prints("The operator keeps 0.00000000 BTC", cli.TreasuryLimitCmd{Storage: storage, Asset: "BTC", Least: "0", Upper: "5", Most: "0.001"})
	r := d.refused(422, "currency_not_supported", "POST", createPath, pays(`"funding_method":"wallet","funding_currency":"EUR",`, "100.00", d.seed.Workers[0].UserID), "Idempotency-Key", freshKey())
	if got := d.pointers(r); len(got) != 1 || got[0] != "currency_not_supported /to_pay/0/user_id" {
		d.Errorf("%v", got)
	}
	d.prints("sell ", cli.TreasuryReportCmd{Storage: storage, Env: app.Sandbox})
	if text := d.prints(`"result_usd"`, cli.TreasuryReportCmd{Storage: storage, Env: app.Sandbox, JSON: true}); !json.Valid([]byte(text)) {
		d.Errorf("%s", text)
	}

	// Some of it goes to an exchange and comes back as dollars.
	wallet, err := sandbox.SeedWallet()
	if err != nil {
		d.Fatal(err)
	}
	address, err := wallet.Deriver().Address(0, 77)
	if err != nil {
		d.Fatal(err)
	}
	key := cli.WalletFlags{Env: app.Sandbox}
	if _, err := d.run(cli.TreasurySendCmd{Storage: storage, WalletFlags: key, Amount: "1000", Address: address}); err == nil {
		d.Error("the house sent what it does not own")
	}
	sent := strings.Fields(d.prints("1.00000000 BTC are sent as out_", cli.TreasurySendCmd{Storage: storage, WalletFlags: key, Amount: "1", Address: address}))
	out := strings.TrimSuffix(sent[5], ".")
	eventually(d.T, 90*time.Second, "the coins have left", func() bool {
		var o payout.Output
		d.read(func(ctx context.Context, tx *db.Tx) (err error) {
			o, err = payout.Get(ctx, tx, ledger.Operator, out)
			return err
		})
		return o.State == payout.Fulfilled
	})
	dollars := d.owned(money.USD)
	d.prints("Booked", cli.TreasuryDepositCmd{Storage: storage, Amount: "1", Asset: "btc", At: "exchange:kraken", Reference: "1"})
	d.prints("booked before", cli.TreasuryDepositCmd{Storage: storage, Amount: "1", Asset: "BTC", At: "exchange:kraken", Reference: "1"})
	d.prints("Booked", cli.TreasuryTradeCmd{Storage: storage, Env: app.Sandbox, Given: "1", GivenAsset: "BTC", Got: "49000", GotAsset: "USD", At: "exchange:kraken", Reference: "2"})
	d.prints("Booked", cli.TreasuryMoveCmd{Storage: storage, Env: app.Sandbox, Amount: "40000", Asset: "USD", From: "exchange:kraken", To: "bank:main", Reference: "3"})
	if _, err := d.run(cli.TreasuryWithdrawCmd{Storage: storage, Env: app.Sandbox, Amount: "9000.01", Asset: "USD", At: "exchange:kraken", Reference: "4"}); err == nil {
		d.Error("more was withdrawn than is there")
	}
	d.prints("Booked", cli.TreasuryWithdrawCmd{Storage: storage, Env: app.Sandbox, Amount: "9000", Asset: "USD", At: "exchange:kraken", Reference: "4"})
	if got, err := d.owned(money.USD).Sub(dollars); err != nil || got.Units() != 40_000_00 {
		d.Errorf("the house has %s USD more at hand", got)
	}
	d.prints("The operator keeps", cli.TreasuryLimitCmd{Storage: storage, Asset: "BTC", Least: "0"})
}
