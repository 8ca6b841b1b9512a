package app_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox/evmsim"
	"github.com/stipend/stipend/internal/testkit"
)

// payingClient is a program that pays on a real node with an unmodified client of x402. Its account is one of anvil's.
type payingClient struct {
	*apiClient
	node *evmtest.Node // nil on a simulated network, which mines by itself
	dir  string        // of the guide's program
	key  string        // private key of the account that pays
	test string        // token of a test network that the program may pay in, which is not USDC itself
}

const (
	agentKey     = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
	agentAccount = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
)

// onNode configures a service for the node's network and its USDC.
func onNode(node *evmtest.Node) func(*app.Config) {
	contract, _ := node.Spec().Contract(money.USDC)
	return func(c *app.Config) {
		c.EVMRPC = map[string]string{"base": node.URL}
		c.EVMSimulated = nil
		c.EVMChainID = map[string]uint64{"base": evmtest.ChainID}
		c.EVMToken = map[string]string{"base.USDC": contract.String() + "/USD Coin/2"}
	}
}

// bootAgent starts a service on the node's network, and funds its hot wallet and the agent.
func bootAgent(t *testing.T, url string, node *evmtest.Node, change ...func(*app.Config)) *payingClient {
	t.Helper()
	s := boot(t, url, append(change, onNode(node))...)
	contract, _ := node.Spec().Contract(money.USDC)
	a := &payingClient{apiClient: newAPIClient(t, s), node: node, dir: t.TempDir(), key: agentKey,
		test: fmt.Sprintf("eip155:%d %s", evmtest.ChainID, contract)}
	keys := testkit.Must(evm.ParseXPriv(s.cfg.Complete().EVMXPrv))
	testkit.Check(t, node.Fund(t.Context(), testkit.Must(keys.Deriver().HotAddress()), 1_000_000_000, 0))
	testkit.Check(t, node.Fund(t.Context(), agentAccount, 0, 1_000_000_000))
	a.install()
	return a
}

// install writes the guide's program, makes the client's modules available to it, and returns the guide.
func (a *payingClient) install() (guide string) {
	a.Helper()
	root := testkit.Must(filepath.Abs("../.."))
	modules := filepath.Join(root, ".tools/npm/x402/node_modules")
	if _, err := os.Stat(modules); err != nil {
		a.Fatal("npm's @x402/fetch is not installed; run tools/install.sh x402")
	}
	testkit.Check(a.T, os.Symlink(modules, filepath.Join(a.dir, "node_modules")))
	guide = string(testkit.Must(os.ReadFile(filepath.Join(root, "docs/guides/x402.md"))))
	code := regexp.MustCompile("(?s)```js\n(.*?)```").FindStringSubmatch(guide)
	testkit.Check(a.T, os.WriteFile(filepath.Join(a.dir, "pay.mjs"), []byte(code[1]), 0o600))
	return guide
}

// mined calls f, and mines blocks until it returns.
func (a *payingClient) mined(f func()) {
	a.Helper()
	if a.node == nil {
		f()
		return
	}
	var work sync.WaitGroup
	done := make(chan struct{})
	work.Go(func() {
		defer close(done)
		f()
	})
	eventually(a.T, 60*time.Second, "the payment is settled", func() bool {
		testkit.Check(a.T, a.node.Mine(a.Context(), 1))
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	work.Wait()
}

// pay returns the output of the guide's program.
func (a *payingClient) pay(url string) (out string) {
	a.Helper()
	a.mined(func() {
		c := exec.CommandContext(a.Context(), "node", "pay.mjs", url)
		c.Dir, c.Env = a.dir, append(os.Environ(), "PRIVATE_KEY="+a.key, "TEST_TOKEN="+a.test)
		text, err := c.CombinedOutput()
		if out = string(text); err != nil {
			a.Errorf("%v\n%s", err, text)
		}
	})
	return out
}

// dollarClaim creates a claim that is paid in USDC.
func (a *payingClient) dollarClaim(amount string) object {
	a.Helper()
	return a.ok("POST", claimPath, `{"payer_id":"agent-7","amount":`+amount+`,"denomination_currency":"USD",`+
		`"funding_currency":"USDC","description":"Report 17"}`).read(a.apiClient)
}

// get requests a URL with a header PAYMENT-SIGNATURE unless it is "".
func (a *payingClient) get(url, signature string) (status int, body object, header http.Header) {
	a.Helper()
	r := testkit.Must(http.NewRequestWithContext(a.Context(), http.MethodGet, url, nil))
	if signature != "" {
		r.Header.Set("PAYMENT-SIGNATURE", signature)
	}
	resp, err := http.DefaultClient.Do(r)
	testkit.Check(a.T, err)
	defer resp.Body.Close()
	testkit.Check(a.T, json.NewDecoder(resp.Body).Decode(&body))
	return resp.StatusCode, body, resp.Header
}

// transfers returns the USDC that an address received, and in how many transfers.
func (a *payingClient) transfers(address string) (units int64, times int) {
	a.Helper()
	amounts, counts, err := a.node.Paid(a.Context(), money.USDC)
	testkit.Check(a.T, err)
	return amounts[address], counts[address]
}

// An unmodified client of x402 pays a claim and a payment link in USDC on a real node. The service settles the payments
// itself, each in one transaction, and the ledger has their gas.
func TestClientsOfX402PayClaims(t *testing.T) {
	testkit.NotQuick(t, "anvil and node")
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, url string) {
		a := bootAgent(t, url, evmtest.Start(t))
		had := a.merchant()
		made := a.dollarClaim("100.00")
		id, address := made["claim_id"].(string), made["x402_url"].(string)
		payTo := made["payment_options"].([]any)[0].(object)["address"].(string)
		out := a.pay(address)
		receipt := regexp.MustCompile(`(?s)^200 \{"claim_id":"` + id + `","status":"(?:confirming|paid)".*` +
			`"success":true,.*"transaction":"(0x[0-9a-f]{64})","network":"eip155:31337"`).FindStringSubmatch(out)
		if receipt == nil {
			t.Fatalf("the client got: %s", out)
		}
		a.mined(func() { a.claimIs(id, "paid", "none") })
		last := a.claimIs(id, "paid", "none")
		if last["tx_hash"] != receipt[1] || last["funding_currency"] != "USDC" {
			t.Errorf("the claim is paid by %v in %v, want %s", last["tx_hash"], last["funding_currency"], receipt[1])
		}
		if units, times := a.transfers(payTo); units != 100_000_000 || times != 1 {
			t.Errorf("the claim's address received %d units in %d transfers", units, times)
		}
		// The client asks for a claim that is paid, and pays nothing.
		if again := a.pay(address); !strings.HasPrefix(again, `200 {"claim_id":"`+id+`","status":"paid"`) ||
			strings.Contains(again, "success") {
			t.Errorf("a paid claim: %s", again)
		}

		link := a.ok("POST", "/api/merchant/payment-links", `{"title":"Report","min_amount":1,`+
			`"denomination_currency":"USD","funding_currency":"any"}`).read(a.apiClient)
		out = a.pay(link["x402_url"].(string) + "?amount=25")
		paid := regexp.MustCompile(`(?s)^200 \{"claim_id":"(clm_\w+)",.*"success":true`).FindStringSubmatch(out)
		if paid == nil {
			t.Fatalf("the client got: %s", out)
		}
		a.mined(func() { a.claimIs(paid[1], "paid", "none") })
		if now := a.claimIs(paid[1], "paid", "none"); now["payment_link_id"] != link["payment_link_id"] ||
			now["denomination_amount"] != "25.00" {
			t.Errorf("the claim of the link: %v", now)
		}
		if got := a.merchant() - had; got != 99_00+24_75 {
			t.Errorf("the merchant earned %d cents", got)
		}
		a.mined(func() {
			eventually(t, 30*time.Second, "the gas is known and booked", func() bool {
				return a.count(`SELECT COUNT(*) FROM payout_batches WHERE state <> 'fulfilled'`) == 0
			})
		})
		if a.count(`SELECT COUNT(*) FROM payout_batches WHERE purpose = 'collect'`) != 2 {
			t.Error("not every payment was settled by one transaction")
		}
		if gas, booked := a.count(`SELECT CAST(SUM(fee) AS BIGINT) FROM payout_batches WHERE chain = 'base'`),
			a.count(`SELECT CAST(SUM(amount) AS BIGINT) FROM ledger_lines WHERE code = '5000' AND asset = 'ETH'`); gas <= 0 ||
			gas != booked {
			t.Errorf("transactions cost %d gwei, and the ledger has %d", gas, booked)
		}
		a.checkLedgerBalances()
	})
}

// The code of the guide pays on the simulated network of a new sandbox, without a node. Its signature is worth nothing
// on the network that is simulated.
func TestSandboxTakesX402(t *testing.T) {
	testkit.NotQuick(t, "node")
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, url string) {
		a := &payingClient{apiClient: newAPIClient(t, boot(t, url)), dir: t.TempDir()}
		a.key = regexp.MustCompile(`PRIVATE_KEY=(0x[0-9a-f]{64})`).FindStringSubmatch(a.install())[1]
		made := a.dollarClaim("12.50")
		id, address := made["claim_id"].(string), made["x402_url"].(string)
		base := testkit.Must(evm.Lookup("base"))
		domain := base.Tokens[0].Domain
		if got := a.terms(address)["extra"].(object); got["name"] == domain.Name || got["version"] != domain.Version {
			t.Errorf("the domain of the simulated token is %v", got)
		}
		out := a.pay(address)
		if !strings.HasPrefix(out, `200 {"claim_id":"`+id) || !strings.Contains(out, `"success":true`) {
			t.Fatalf("the client got: %s", out)
		}
		a.claimIs(id, "paid", "none")
		if n := a.count(`SELECT CAST(SUM(amount) AS BIGINT) FROM sim_evm_balances WHERE address = '` +
			evmsim.TestAccount + `'`); n != evmsim.TestFunds-12_500_000 {
			t.Errorf("the payer has %d units", n)
		}
		// Another account has nothing.
		a.key = agentKey
		poor := a.dollarClaim("12.50")
		if out := a.pay(poor["x402_url"].(string)); !strings.HasPrefix(out, "402 ") ||
			!strings.Contains(out, `"errorReason":"insufficient_funds"`) {
			t.Errorf("a payer without money: %s", out)
		}
		a.checkLedgerBalances()
	})
}

// terms returns the first terms of a 402.
func (a *payingClient) terms(url string) object {
	a.Helper()
	status, body, header := a.get(url, "")
	text := testkit.Must(base64.StdEncoding.DecodeString(header.Get("PAYMENT-REQUIRED")))
	var required object
	testkit.Check(a.T, json.Unmarshal(text, &required))
	if status != http.StatusPaymentRequired || fmt.Sprint(required) != fmt.Sprint(body) {
		a.Fatalf("%d %v; the header has %s", status, body, text)
	}
	return required["accepts"].([]any)[0].(object)
}

// signature returns a header PAYMENT-SIGNATURE for terms, after change has modified what is signed.
func (a *payingClient) signature(terms object, nonce byte, change func(*evm.Authorization)) string {
	a.Helper()
	now := time.Now().Unix()
	auth := evm.Authorization{
		From: testkit.Must(evm.ParseAddress(agentAccount)), To: testkit.Must(evm.ParseAddress(terms["payTo"].(string))),
		ValidAfter: now - 60, ValidBefore: now + 600, Nonce: [32]byte{31: nonce},
	}
	var units int64
	_, err := fmt.Sscan(terms["amount"].(string), &units)
	testkit.Check(a.T, err)
	auth.Amount = money.New(money.USDC, units)
	if change != nil {
		change(&auth)
	}
	key := testkit.Must(hex.DecodeString(agentKey[2:]))
	testkit.Check(a.T, evmtest.Authorize(a.node.Spec(), key, &auth))
	return a.header(terms, auth)
}

// header encodes an authorization for terms.
func (a *payingClient) header(terms object, auth evm.Authorization) string {
	a.Helper()
	text := testkit.Must(json.Marshal(object{"x402Version": 2, "accepted": terms, "payload": object{
		"signature": "0x" + hex.EncodeToString(auth.Signature[:]),
		"authorization": object{
			"from": auth.From.String(), "to": auth.To.String(), "value": fmt.Sprint(auth.Amount.Units()),
			"validAfter": fmt.Sprint(auth.ValidAfter), "validBefore": fmt.Sprint(auth.ValidBefore),
			"nonce": "0x" + hex.EncodeToString(auth.Nonce[:]),
		},
	}}))
	return base64.StdEncoding.EncodeToString(text)
}

// refusal returns the reason of a refused payment.
func (a *payingClient) refusal(url, signature string) string {
	a.Helper()
	status, body, header := a.get(url, signature)
	text := testkit.Must(base64.StdEncoding.DecodeString(header.Get("PAYMENT-RESPONSE")))
	var settled struct {
		Success     bool
		ErrorReason string
		Transaction string
	}
	if json.Unmarshal(text, &settled) != nil || status != http.StatusPaymentRequired || settled.Success ||
		settled.Transaction != "" {
		a.Errorf("%d %v, PAYMENT-RESPONSE %s", status, body, text)
	}
	return settled.ErrorReason
}

// Payments that are not exactly what the claim requires are refused, and nothing is transferred. The same payment many
// times at once is settled once.
func TestAttacksOnX402(t *testing.T) {
	testkit.NotQuick(t, "anvil")
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, url string) {
		a := bootAgent(t, url, evmtest.Start(t))
		first, second := a.dollarClaim("40.00"), a.dollarClaim("40.00")
		address, other := first["x402_url"].(string), second["x402_url"].(string)
		terms, otherTerms := a.terms(address), a.terms(other)
		with := func(name, value string) object {
			changed := object{}
			for k, v := range terms {
				changed[k] = v
			}
			changed[name] = value
			return changed
		}
		good := a.signature(terms, 1, nil)
		stranger := testkit.Must(evm.ParseAddress("0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"))
		const payload = "invalid_exact_evm_payload_"
		for name, c := range map[string]struct{ signature, want string }{
			"an authorization for another claim": {a.signature(otherTerms, 2, nil), payload + "recipient_mismatch"},
			"too little": {a.signature(terms, 3, func(x *evm.Authorization) { x.Amount = money.New(money.USDC, 39_999_999) }),
				payload + "authorization_value_mismatch"},
			"too much": {a.signature(terms, 4, func(x *evm.Authorization) { x.Amount = money.New(money.USDC, 40_000_001) }),
				payload + "authorization_value_mismatch"},
			"another network":         {a.signature(with("network", "eip155:8453"), 5, nil), "invalid_network"},
			"another kind of network": {a.signature(with("network", "solana:mainnet"), 6, nil), "invalid_network"},
			"another asset": {a.signature(with("asset", "0xdAC17F958D2ee523a2206206994597C13D831ec7"), 7, nil),
				"invalid_payment_requirements"},
			"another recipient": {a.signature(terms, 8, func(x *evm.Authorization) { x.To = stranger }),
				payload + "recipient_mismatch"},
			"expired": {a.signature(terms, 9, func(x *evm.Authorization) { x.ValidBefore = time.Now().Unix() - 1 }),
				payload + "authorization_valid_before"},
			"about to expire": {a.signature(terms, 10, func(x *evm.Authorization) { x.ValidBefore = time.Now().Unix() + 5 }),
				payload + "authorization_valid_before"},
			"not yet valid": {a.signature(terms, 11, func(x *evm.Authorization) { x.ValidAfter = time.Now().Unix() + 60 }),
				payload + "authorization_valid_after"},
			"another payer's signature": {a.signature(terms, 12, func(x *evm.Authorization) { x.From = stranger }),
				payload + "signature"},
			"another scheme": {a.signature(with("scheme", "upto"), 13, nil), "unsupported_scheme"},
		} {
			if got := a.refusal(address, c.signature); got != c.want {
				t.Errorf("%s is refused as %q, want %q", name, got, c.want)
			}
		}
		if status, body, _ := a.get(address, "e30"); status != http.StatusBadRequest {
			t.Errorf("a malformed payload: %d %v", status, body)
		}
		// A payer without money is refused by the worker process, which asks the node.
		poor := testkit.Must(hex.DecodeString("5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a"))
		empty := evm.Authorization{To: testkit.Must(evm.ParseAddress(terms["payTo"].(string))),
			From:   testkit.Must(evm.ParseAddress("0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC")),
			Amount: money.New(money.USDC, 40_000_000), ValidBefore: time.Now().Unix() + 600}
		testkit.Check(t, evmtest.Authorize(a.node.Spec(), poor, &empty))
		if got := a.refusal(address, a.header(terms, empty)); got != "insufficient_funds" {
			t.Errorf("a payer without money is refused as %q", got)
		}
		if n := a.count(`SELECT COUNT(*) FROM payout_batches WHERE purpose = 'collect'`); n != 0 {
			t.Errorf("%d transactions were signed", n)
		}

		var work sync.WaitGroup
		a.mined(func() {
			for range 5 {
				work.Go(func() {
					if status, body, header := a.get(address, good); status != http.StatusOK ||
						header.Get("PAYMENT-RESPONSE") == "" {
						t.Errorf("one of several equal payments: %d %v", status, body)
					}
				})
			}
			work.Wait()
		})
		if got := a.refusal(other, good); got != payload+"recipient_mismatch" {
			t.Errorf("a settled payment for another claim is refused as %q", got)
		}
		a.mined(func() { a.claimIs(first["claim_id"].(string), "paid", "none") })
		if units, times := a.transfers(terms["payTo"].(string)); units != 40_000_000 || times != 1 {
			t.Errorf("the claim's address received %d units in %d transfers", units, times)
		}
		if units, _ := a.transfers(otherTerms["payTo"].(string)); units != 0 {
			t.Errorf("the other claim's address received %d units", units)
		}
		// Two different payments of one claim: one is settled, and the other is refused or not needed.
		x, y := a.signature(otherTerms, 21, nil), a.signature(otherTerms, 22, nil)
		a.mined(func() {
			for _, signature := range []string{x, y} {
				work.Go(func() { a.get(other, signature) })
			}
			work.Wait()
			a.claimIs(second["claim_id"].(string), "paid", "none")
		})
		if units, times := a.transfers(otherTerms["payTo"].(string)); units != 40_000_000 || times != 1 {
			t.Errorf("the second claim's address received %d units in %d transfers", units, times)
		}
		a.checkLedgerBalances()
	})
}
