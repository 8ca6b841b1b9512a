//go:build lnd

package app_test

import (
	"testing"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/lightning/lndtest"
	"github.com/stipend/stipend/internal/testkit"
)

// A payer pays a claim through a channel between two real LND nodes, on the chain of a real Bitcoin node.
func TestClaimOverLND(t *testing.T) {
	pair := lndtest.Start(t)
	dbtest.RunURL(t, func(t *testing.T, url string) {
		s := boot(t, url, func(c *app.Config) {
			o := pair.Options()
			c.BitcoinRPC = pair.Chain.URL()
			c.LndURL, c.LndMacaroonFile, c.LndTLSCertFile = o.URL, file(t, "invoices.macaroon", o.Macaroon), file(t, "tls.cert",
				o.Certificate)
		})
		d := newAPIClient(t, s)
		for range 2 { // the service finds the second payment by the node's index
			id := d.claimOf("100.00")["claim_id"].(string)
			testkit.Check(t, pair.Pay(t.Context(), d.invoiceOf(id, 200_000)))
			d.claimIs(id, "paid", "none")
		}
		if got := d.balance(ledger.ChannelBalance, "").Units(); got != 400_000 || d.merchant() != 198_00 {
			t.Errorf("the channels hold %d sat, the merchant has %d cents", got, d.merchant())
		}
		id := d.claimOf("100.00")["claim_id"].(string)
		request := d.invoiceOf(id, 200_000)
		d.ok("POST", "/api/merchant/claim/cancel", `{"claim_id":"`+id+`"}`)
		eventually(t, 20*time.Second, "the invoice of a canceled claim is canceled",
			func() bool { return pair.IsCanceled(t.Context(), request) })
		if err := pair.Pay(t.Context(), request); err == nil {
			t.Error("a payer could pay the invoice of a canceled claim")
		}

		// Paid under, over, twice and late, a claim ends as docs/states.md says: the node refuses what the claim cannot take.
		id = d.claimOf("100.00")["claim_id"].(string)
		request = d.invoiceOf(id, 200_000)
		if err := pair.PayMsat(t.Context(), request, 180_000_000); err == nil {
			t.Error("the node took less than the invoice")
		}
		d.claimIs(id, "awaiting_payment", "none")
		testkit.Check(t, pair.PayMsat(t.Context(), request, 420_000_000))
		d.claimIs(id, "paid", "overpaid")
		if err := pair.PayMsat(t.Context(), request, 200_000_000); err == nil {
			t.Error("the node took a second payment")
		}
		id = d.claimOf("100.00")["claim_id"].(string)
		request = d.invoiceOf(id, 200_000)
		d.advance(16 * time.Minute)
		d.claimIs(id, "expired", "none")
		eventually(t, 20*time.Second, "the invoice of a claim whose price has ended is canceled",
			func() bool { return pair.IsCanceled(t.Context(), request) })
		if err := pair.PayMsat(t.Context(), request, 200_000_000); err == nil {
			t.Error("the node took a late payment")
		}
		if got := d.balance(ledger.ChannelBalance, "").Units(); got != 820_000 || d.merchant() != 297_00 {
			t.Errorf("the channels hold %d sat, the merchant has %d cents", got, d.merchant())
		}
		d.checkLedgerBalances()
	})
}
