package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/lightning/lightningtest"
	"github.com/stipend/stipend/internal/testkit"
)

// Payers can also pay claims over Lightning. Each scenario is a client of a whole sandbox with a simulated LND node.
func TestLightning(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, url string) {
		node := lightningtest.Start(t)
		s := boot(t, url, func(c *app.Config) {
			c.ReadsPerSecond, c.WritesPerSecond, c.ClaimsPerMinute = 0, 0, 0
			c.LndURL, c.LndMacaroonFile, c.LndTLSCertFile = node.URL(), file(t, "invoices.macaroon", node.Macaroon), file(t,
				"tls.cert", node.Certificate)
		})
		type scenario struct {
			name string
			run  func(*apiClient, *lightningtest.Node)
		}
		all, ran := []scenario{
			{"paid", lightningPaid},
			{"a little more", lightningOverpaid},
			{"the node is down when the claim is created", lightningDownAtCreation},
			{"paid on the chain and over Lightning", lightningBothWays},
			{"partly paid on the chain", lightningPartOnChain},
			{"a new price", lightningNewPrice},
			{"paid in time, seen late", lightningSeenLate},
			{"cancelled, and paid anyway", lightningCancelled},
		}, 0
		for _, c := range all {
			t.Run(c.name, func(t *testing.T) {
				ran++
				d := newAPIClient(t, s)
				c.run(d, node)
				d.checkLedgerBalances()
			})
		}
		if needed := checkEvents(t, s); ran == len(all) {
			checkNeeded(t, needed, ofLightning)
		}
		if node.Refused() > 0 {
			t.Errorf("the node refused %d calls without the right macaroon", node.Refused())
		}
	})
}

func file(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	testkit.Check(t, os.WriteFile(path, content, 0o600))
	return path
}

func (d *apiClient) claimStatus(id string) object {
	d.Helper()
	return d.ok("GET", "/api/merchant/claim/status?claim_id="+id, "").read(d)
}

// invoiceOf waits until a claim shows an invoice, fails the test unless it asks for this amount, and returns it.
func (d *apiClient) invoiceOf(id string, sats int64) (request string) {
	d.Helper()
	eventually(d.T, 20*time.Second, "the claim shows an invoice", func() bool {
		quote := d.claimStatus(id)["quote"].(object)
		request = quote["lightning_invoice"].(string)
		if request != "" && !strings.HasSuffix(quote["payment_uri"].(string), "&lightning="+request) {
			d.Errorf("the payment link is %v", quote["payment_uri"])
		}
		return request != ""
	})
	if r, err := lightning.Decode(request); err != nil || r.Msat != sats*1000 || r.Network != "regtest" {
		d.Fatalf("the invoice is %+v, %v; want %d sat", r, err, sats)
	}
	return request
}

// noInvoice waits until a claim shows no invoice and the node refuses payments of the earlier one.
func (d *apiClient) noInvoice(n *lightningtest.Node, id, request string) {
	d.Helper()
	eventually(d.T, 20*time.Second, "the claim shows no invoice, and the node cancelled the earlier one", func() bool {
		return d.claimStatus(id)["quote"].(object)["lightning_invoice"] == "" && n.State(request) == lightning.NodeCanceled
	})
	if err := n.Pay(d.Context(), request); err == nil {
		d.Error("the node accepted a payment of a withdrawn invoice")
	}
}

func (d *apiClient) payInvoice(n *lightningtest.Node, request string) {
	d.Helper()
	testkit.Check(d, n.Pay(d.Context(), request))
}

func restart(d *apiClient, n *lightningtest.Node) {
	d.Helper()
	testkit.Check(d, n.Restart())
}

func lightningPaid(d *apiClient, n *lightningtest.Node) {
	had, coins, channels := d.merchant(), d.balance(ledger.HotWallet, "").Units(), d.balance(ledger.ChannelBalance,
		"").Units()
	id := d.claimOf("100.00")["claim_id"].(string)
	request := d.invoiceOf(id, 200_000)
	d.payInvoice(n, request)
	v := d.claimIs(id, "paid", "none")
	r, _ := lightning.Decode(request)
	payments := v["payments"].([]any)
	if len(payments) != 1 || v["tx_hash"] != r.Hash.String() || v["due_amount"] != "0.00" ||
		v["received_amount"] != "0.00200000" {
		d.Fatalf("%v", v)
	}
	if p := payments[0].(object); p["method"] != "lightning" || p["status"] != "confirmed" || p["in_time"] != true ||
		p["tx_hash"] != v["tx_hash"] {
		d.Errorf("%v", p)
	}
	if q := v["quote"].(object); q["lightning_invoice"] != "" || q["payment_uri"] != "" {
		d.Errorf("a paid claim still offers a payment: %v", q)
	}
	if d.merchant()-had != 99_00 || d.balance(ledger.ChannelBalance, "").Units()-channels != 200_000 ||
		d.balance(ledger.HotWallet, "").Units() != coins {
		d.Errorf("the merchant's balance grew by %d cents, the channels' by %d sat", d.merchant()-had,
			d.balance(ledger.ChannelBalance, "").Units()-channels)
	}
	eventually(d.T, 10*time.Second, "an event reports the payment", func() bool {
		got := d.statusEvents(id)
		return len(got) == 1 && got[0] == "paid"
	})
}

func lightningOverpaid(d *apiClient, n *lightningtest.Node) {
	had := d.merchant()
	id := d.claimOf("100.00")["claim_id"].(string)
	testkit.Check(d, n.PayMsat(d.invoiceOf(id, 200_000), 200_100_999))
	v := d.claimIs(id, "paid", "overpaid")
	if v["refundable_amount"] != "0.00000100" || d.merchant()-had != 99_00 || d.balance(ledger.RefundPayable,
		id).Units() != 100 {
		d.Errorf("%v", v)
	}
}

func lightningDownAtCreation(d *apiClient, n *lightningtest.Node) {
	n.Stop()
	made := d.claimOf("100.00")
	if made["lightning_invoice"] != "" || strings.Contains(made["payment_uri"].(string), "lightning") {
		d.Errorf("%v", made)
	}
	restart(d, n)
	n.LoseResponses(1)
	d.payInvoice(n, d.invoiceOf(made["claim_id"].(string), 200_000))
	d.claimIs(made["claim_id"].(string), "paid", "none")
}

// A payment on the chain pays the claim if the service hasn't heard yet of the payment over Lightning. The payer can
// get the Lightning payment back.
func lightningBothWays(d *apiClient, n *lightningtest.Node) {
	had := d.merchant()
	id := d.claimOf("100.00")["claim_id"].(string)
	request := d.invoiceOf(id, 200_000)
	n.Stop()
	d.payInvoice(n, request)
	d.payClaim(id, "exact", "")
	d.claimIs(id, "paid", "none")
	restart(d, n)
	v := d.claimIs(id, "paid", "overpaid")
	if v["refundable_amount"] != "0.00200000" || d.balance(ledger.RefundPayable, id).Units() != 200_000 ||
		d.merchant()-had != 99_00 {
		d.Errorf("%v", v)
	}
}

// Once a payer has paid part of a claim on-chain, the claim withdraws the invoice for the whole amount. The rest gets
// its own price and invoice.
func lightningPartOnChain(d *apiClient, n *lightningtest.Node) {
	had := d.merchant()
	id := d.claimOf("100.00")["claim_id"].(string)
	request := d.invoiceOf(id, 200_000)
	d.payClaim(id, "under", "")
	d.claimIs(id, "partially_paid", "none")
	d.noInvoice(n, id, request)
	d.advance(16 * time.Minute)
	d.claimIs(id, "underpaid", "none")
	d.ok("POST", "/api/merchant/claim/quote/refresh", `{"claim_id":"`+id+`"}`)
	d.payInvoice(n, d.invoiceOf(id, 20_000))
	v := d.claimIs(id, "paid", "none")
	if len(v["tx_hashes"].([]any)) != 2 || d.merchant()-had != 99_00 {
		d.Errorf("%v", v)
	}
}

func lightningNewPrice(d *apiClient, n *lightningtest.Node) {
	id := d.claimOf("100.00")["claim_id"].(string)
	old := d.invoiceOf(id, 200_000)
	if again := d.ok("POST", "/api/merchant/claim/quote/refresh", `{"claim_id":"`+id+`"}`).read(
		d); again["lightning_invoice"] != old {
		d.Errorf("a refresh of an active price gives another invoice: %v", again["lightning_invoice"])
	}
	d.advance(16 * time.Minute)
	d.claimIs(id, "expired", "none")
	d.noInvoice(n, id, old)
	d.ok("POST", "/api/merchant/claim/quote/refresh", `{"claim_id":"`+id+`"}`)
	request := d.invoiceOf(id, 200_000)
	if request == old {
		d.Error("the new price has the old invoice")
	}
	d.payInvoice(n, request)
	d.claimIs(id, "paid", "none")
}

// The node received the payment while the price was valid, so the payment is in time even if the service hears of it
// later.
func lightningSeenLate(d *apiClient, n *lightningtest.Node) {
	had := d.merchant()
	id := d.claimOf("100.00")["claim_id"].(string)
	request := d.invoiceOf(id, 200_000)
	n.Stop()
	d.payInvoice(n, request)
	d.advance(16 * time.Minute)
	d.claimIs(id, "expired", "none")
	restart(d, n)
	if v := d.claimIs(id, "paid", "none"); d.merchant()-had != 99_00 {
		d.Errorf("%v", v)
	}
}

func lightningCancelled(d *apiClient, n *lightningtest.Node) {
	cancel := func(id string) {
		d.ok("POST", "/api/merchant/claim/cancel", `{"claim_id":"`+id+`"}`)
	}
	id := d.claimOf("100.00")["claim_id"].(string)
	request := d.invoiceOf(id, 200_000)
	cancel(id)
	d.noInvoice(n, id, request)

	id = d.claimOf("100.00")["claim_id"].(string)
	request = d.invoiceOf(id, 200_000)
	n.Stop()
	cancel(id)
	d.payInvoice(n, request)
	restart(d, n)
	d.claimIs(id, "paid_late", "late")
	if got := d.balance(ledger.SuspenseLate, id).Units(); got != 200_000 {
		d.Errorf("%d sat are unallocated", got)
	}
}
