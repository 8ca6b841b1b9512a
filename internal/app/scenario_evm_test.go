package app

import (
	"strings"

	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// bankPayee is somebody who is paid at a bank, and so out of any funding.
func (d *door) bankPayee() string {
	d.Helper()
	made := d.ok("POST", "/api/company/"+d.seed.CompanyID+"/recipients/create", `{"first_name":"Ada","last_name":"Banks","country":"US"}`).read(d)
	id := made["recipient_id"].(string)
	d.ok("POST", "/api/company/"+d.seed.CompanyID+"/recipients/"+id+"/distribution", `{"symbol":"USD","distribution_data":{"rail":"ach",
		"account_holder_name":"Ada Banks","account_holder_type":"individual","routing_number":"021000021","account_number":"12345678","account_type":"checking",
		"address":{"address_line1":"1 Main Street","city":"Springfield","state":"IL","postal_code":"62701","country":"US"}}}`)
	return id
}

// A payroll is paid in a dollar token or in ether on a network of accounts: in parts, too much, and through a reorganisation.
func fundedOnANetworkOfAccounts(d *door) {
	payee := d.bankPayee()
	wallet := func(a money.Asset) money.Amount { return d.balanceIn(ledger.OtherWallets, "base", a) }
	before := wallet(money.USDC)
	made := d.create(pays(`"funding_currency":"USDC",`, "250.00", payee))
	if q := made.Quote; q.FundingAmount != "252.500000" || q.FundingDetails.Network != "base" || len(q.FundingDetails.Address) != 42 {
		d.Fatalf("%+v", q)
	}
	d.deposit(made.PayrollID, "under", "")
	d.until(made.PayrollID, "a part is confirmed", func(v scene) bool { return v.FundingState == "partial" })
	d.deposit(made.PayrollID, "over", "")
	v := d.until(made.PayrollID, "released", func(v scene) bool { return v.Status == "released" })
	if len(v.Deposits) != 2 || v.FundingState != "over" {
		d.Errorf("%+v", v)
	}
	if got, _ := wallet(money.USDC).Sub(before); got.Units() != 227_250_000+27_775_000 {
		d.Errorf("the wallet got %s USDC", got)
	}

	eth := d.create(pays(`"funding_currency":"ETH","funding_network":"base",`, "100.00", payee))
	if q := eth.Quote; q.FundingAmount != "0.040400000" { // 101.00 USD at 2,500
		d.Fatalf("%+v", q)
	}
	d.deposit(eth.PayrollID, "reorged", "")
	d.until(eth.PayrollID, "released after the reorganisation", func(v scene) bool { return v.Status == "released" })
	if got := wallet(money.ETH); got.Units() != 40_400_000 {
		d.Errorf("the wallet has %s ETH", got)
	}

	for _, bad := range []struct{ more, code string }{
		{`"funding_currency":"USDC","funding_network":"ethereum",`, "invalid_parameter /funding_network"},
		{`"funding_currency":"BTC","funding_network":"base",`, "invalid_parameter /funding_network"},
		{`"funding_method":"wallet","funding_currency":"USD","funding_network":"base",`, "invalid_parameter /funding_network"},
		{`"funding_currency":"SOL",`, "currency_not_supported /funding_currency"},
	} {
		code, _, _ := strings.Cut(bad.code, " ")
		r := d.refused(422, code, "POST", createPath, pays(bad.more, "10.00", payee), "Idempotency-Key", freshKey())
		if got := d.pointers(r); len(got) != 1 || got[0] != bad.code {
			d.Errorf("%s: %v, want %s", bad.more, got, bad.code)
		}
	}

}
