package app_test

import (
	"strings"
	"time"

	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox"
)

// bankPayee creates a payee with a bank account and returns its ID. Any kind of funding can pay this payee.
func (d *apiClient) bankPayee() string {
	d.Helper()
	made := d.ok("POST", "/api/company/"+d.seed.CompanyID+"/recipients/create",
		`{"first_name":"Ada","last_name":"Banks","country":"US"}`).read(d)
	id := made["recipient_id"].(string)
	d.ok("POST", "/api/company/"+d.seed.CompanyID+"/recipients/"+id+"/distribution",
		`{"symbol":"USD","distribution_data":{"rail":"ach",
		"account_holder_name":"Ada Banks","account_holder_type":"individual","routing_number":"021000021",
		"account_number":"12345678","account_type":"checking",
		"address":{"address_line1":"1 Main Street","city":"Springfield","state":"IL","postal_code":"62701","country":"US"}}}`)
	return id
}

// A company funds a payroll with a dollar token or ether on an EVM network: in parts, with too much, and through a
// reorganization.
func fundedOnEVMNetwork(d *apiClient) {
	payee := d.bankPayee()
	wallet := func(a money.Asset) money.Amount { return d.balanceIn(ledger.OtherWallets, "base", a) }
	before := wallet(money.USDC)
	made := d.create(pays(`"funding_currency":"USDC",`, "250.00", payee))
	if q := made.Quote; q.FundingAmount != "252.500000" || q.FundingDetails.Network != "base" ||
		len(q.FundingDetails.Address) != 42 {
		d.Fatalf("%+v", q)
	}
	d.deposit(made.PayrollID, "under", "")
	d.until(made.PayrollID, "a part is confirmed", func(v payrollView) bool { return v.FundingState == "partial" })
	d.deposit(made.PayrollID, "over", "")
	v := d.until(made.PayrollID, "released", func(v payrollView) bool {
		return v.Status == "released" ||
			v.Status == "fulfilled"
	})
	if len(v.Deposits) != 2 || v.FundingState != "over" {
		d.Errorf("%+v", v)
	}
	if got, _ := wallet(money.USDC).Sub(before); got.Units() != 227_250_000+27_775_000 {
		d.Errorf("the wallet received %s USDC", got)
	}

	eth := d.create(pays(`"funding_currency":"ETH","funding_network":"base",`, "100.00", payee))
	if q := eth.Quote; q.FundingAmount != "0.040400000" { // 101.00 USD at 2,500
		d.Fatalf("%+v", q)
	}
	d.deposit(eth.PayrollID, "reorged", "")
	d.until(eth.PayrollID, "released after the reorganization", func(v payrollView) bool {
		return v.Status == "released" ||
			v.Status == "fulfilled"
	})
	eventually(d.T, 60*time.Second, "the deposit is confirmed again", func() bool {
		return wallet(money.ETH).Units()%sandbox.Gas == 40_400_000
	})

	for _, bad := range []struct{ more, code string }{
		{`"funding_currency":"USDC","funding_network":"ethereum",`, "invalid_parameter /funding_network"},
		{`"funding_currency":"BTC","funding_network":"base",`, "invalid_parameter /funding_network"},
		{`"funding_method":"wallet","funding_currency":"USD","funding_network":"base",`,
			"invalid_parameter /funding_network"},
		{`"funding_currency":"SOL",`, "currency_not_supported /funding_currency"},
	} {
		code, _, _ := strings.Cut(bad.code, " ")
		r := d.refused(422, code, "POST", createPath, pays(bad.more, "10.00", payee), "Idempotency-Key", freshKey())
		if got := d.pointers(r); len(got) != 1 || got[0] != bad.code {
			d.Errorf("%s: %v, want %s", bad.more, got, bad.code)
		}
	}

}

// tokenPayee creates a payee who is paid in an asset on the simulated network, and returns its ID.
func (d *apiClient) tokenPayee(name, symbol, address string) string {
	d.Helper()
	made := d.ok("POST", "/api/company/"+d.seed.CompanyID+"/recipients/create",
		`{"first_name":"`+name+`","last_name":"Nonce","country":"GB"}`).read(d)
	id := made["recipient_id"].(string)
	got := d.ok("POST", "/api/company/"+d.seed.CompanyID+"/recipients/"+id+"/distribution",
		`{"symbol":"`+symbol+`","distribution_data":{"network":"base","address":"`+address+`"}}`).read(d)
	if got["payable"] != true {
		d.Errorf("%v", got)
	}
	return id
}

// A payroll that was funded in a dollar token pays its payees in that token. The service moves the deposit to the
// account that pays, with gas that the operator sends. Each payee gets one transaction, and the ledger records the
// cost.
func paidOnEVMNetwork(d *apiClient) {
	first := d.tokenPayee("Una", "USDC", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")
	second := d.tokenPayee("Dua", "USDC", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359")
	made := d.create(pays(`"funding_currency":"USDC",`, "75.00", first, second))
	d.refused(422, "address_invalid", "POST", "/api/company/"+d.seed.CompanyID+"/recipients/"+first+"/distribution",
		`{"symbol":"USDC","distribution_data":{"network":"base","address":"`+made.Quote.FundingDetails.Address+`"}}`)
	d.deposit(made.PayrollID, "exact", "")
	v := d.fulfilled(made.PayrollID)
	hashes := map[string]bool{}
	for _, p := range v.Payments {
		for _, o := range p.Outputs {
			if hashes[o.TxHash] = true; o.Currency != "USDC" || o.Volume != "75.000000" || len(o.TxHash) != 66 {
				d.Errorf("%+v", o)
			}
		}
	}
	if len(hashes) != 2 {
		d.Errorf("%d transactions paid 2 payees", len(hashes))
	}
	// When no transaction is pending, the wallet's balances on the chain equal the ledger, to the last unit of each
	// token and the last gwei of gas.
	eventually(d.T, 30*time.Second, "no transaction is pending", func() bool {
		return d.count(`SELECT COUNT(*) FROM payout_batches WHERE chain = 'base' AND state <> 'fulfilled'`) == 0 &&
			d.count(`SELECT COUNT(*) FROM chain_outputs WHERE chain = 'base' AND asset = 'USDC' AND branch = 0
				AND spend_state = 'available' AND state = 'mined'`) == 0
	})
	for _, asset := range []money.Asset{money.USDC, money.ETH} {
		held := d.count(`SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM sim_evm_balances WHERE network = 'base'
			AND asset = $1
			AND address IN (SELECT address FROM chain_addresses WHERE chain = 'base')`, string(asset))
		booked := d.count(`SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM ledger_lines WHERE code = '1006'
			AND dim = 'base' AND asset = $1`, string(asset))
		if held != booked {
			d.Errorf("the wallet holds %d units of %s, and the ledger has %d", held, asset, booked)
		}
	}
	gas := d.count(`SELECT CAST(COALESCE(SUM(fee), 0) AS BIGINT) FROM payout_batches WHERE chain = 'base'`)
	if gas <= 0 {
		d.Errorf("the ledger records %d gwei of gas", gas)
	}
	if why := d.count(`SELECT COUNT(*) FROM settings WHERE key = 'payouts_paused' AND value <> ''`); why != 0 {
		d.Error("payouts were paused")
	}
}
