package app_test

import (
	"encoding/hex"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// walletScript announces a wallet of the browser (EIP-6963). It records what it is asked, and fails as window.fails
// says.
const walletScript = `(() => {
	window.asked = []
	const provider = {request: async ({method, params}) => {
		asked.push({method, params})
		if (method === "eth_requestAccounts") return ["0x70997970c51812dc3a010c7d01b50e0d17dc79c8"]
		if (window.fails?.[method]) throw {code: window.fails[method]}
		return null
	}}
	const detail = {info: {uuid: "1", name: "<b>Fox</b>"}, provider}
	for (let i = 0; i < 2; i++)
		window.dispatchEvent(new CustomEvent("eip6963:announceProvider", {detail}))
	return true
})()`

// A wallet in the payer's browser gets one transaction, on the network of the claim. A real node runs it, and it pays
// the claim. Nothing is sent again, and nothing at all if the payer declines or the wallet fails.
func TestAWalletInTheBrowserPaysAClaim(t *testing.T) {
	testkit.NotQuick(t, "anvil")
	t.Parallel()
	node := evmtest.Start(t)
	s := boot(t, dbtest.SQLite(t), onNode(node))
	d := newAPIClient(t, s)
	id := d.ok("POST", claimPath, `{"payer_id":"customer-1","amount":40,"denomination_currency":"USD",`+
		`"funding_currency":"USDC"}`).read(d)["claim_id"].(string)
	p := webtest.Start(t).Open(s.Ready().BaseURL+"/pay/"+id, webtest.Look{Width: 390})
	if strings.Contains(p.Text(), "Pay with") {
		t.Error("a browser without a wallet has a button for one")
	}
	webtest.Evaluate[bool](p, walletScript)
	type request struct {
		Method string
		Params []map[string]string
	}
	press := func() (all []request) {
		t.Helper()
		webtest.Evaluate[bool](p, `!!(asked = [])`)
		p.Do(chromedp.Click("#wallet-0"))
		p.Do(chromedp.Poll[chromedp.Void](`asked.length > 1 && document.querySelector("#wallet-0").textContent !== "" &&
			(!document.querySelector("#wallet-0").disabled || asked.length > 2)`))
		testkit.Check(t, json.Unmarshal([]byte(webtest.Evaluate[string](p, `JSON.stringify(asked)`)), &all))
		return all
	}
	shows := func(want string) {
		t.Helper()
		eventually(t, 30*time.Second, want, func() bool { return strings.Contains(p.Text(), want) })
	}
	shows("Pay with <b>Fox</b>")
	const problem = "Your wallet didn’t send the payment"
	webtest.Evaluate[bool](p, `!!(window.fails = {eth_sendTransaction: 4001})`)
	press()
	p.Do(chromedp.Poll[chromedp.Void](`!document.querySelector("#wallet-0").disabled`))
	if strings.Contains(p.Text(), problem) {
		t.Error("a payer who declines sees a problem")
	}
	webtest.Evaluate[bool](p, `!!(window.fails = {wallet_switchEthereumChain: 4902})`)
	if all := press(); len(all) != 2 {
		t.Errorf("a wallet without the network is asked %v", all)
	}
	shows(problem)
	p.Audit()

	webtest.Evaluate[bool](p, `!!(window.fails = {})`)
	all := press()
	shows("You sent the payment from your wallet")
	if !webtest.Evaluate[bool](p, `document.querySelector("#wallet-0").disabled &&
		document.querySelectorAll("[data-wallets] button").length === 1`) {
		t.Error("the payment can be sent again, or the wallet has several buttons")
	}
	if len(all) != 3 || all[1].Params[0]["chainId"] != "0x7a69" || all[2].Method != "eth_sendTransaction" {
		t.Fatalf("the wallet is asked %v", all)
	}
	sent := all[2].Params[0]
	data := testkit.Must(hex.DecodeString(strings.TrimPrefix(sent["data"], "0x")))
	call := evm.Call{To: testkit.Must(evm.ParseAddress(sent["to"])), Value: new(big.Int), Data: data}
	testkit.Check(t, node.Chain(t, money.USDC).Submit(t.Context(), call))
	eventually(t, 60*time.Second, "the page shows the receipt", func() bool {
		testkit.Check(t, node.Mine(t.Context(), 1))
		return strings.Contains(p.Text(), "Receipt")
	})
	d.claimIs(id, "paid", "none")
	d.checkLedgerBalances()
}
