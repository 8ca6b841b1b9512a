package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	mathrand "math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
)

const (
	x402Payer = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
	x402Key   = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
	x402Units = 40_000_000
	x402Lives = 8
)

// x402Payment is a claim and the payer's request for it, which is the same each time.
type x402Payment struct {
	claimID, address string
	path, signature  string
}

// A real process is killed while it settles payments by x402 on a real node: while it reads and stores the
// authorization, before and after the broadcast of the transfer, and after its block. The payer repeats the request, or
// does not. The chain shows that each payment was made once, and each claim ends as paid.
func TestKilledAtAnyMomentAnX402PaymentIsMadeOnce(t *testing.T) {
	binary := build(t)
	dbtest.RunURL(t, func(t *testing.T, url string) {
		node := evmtest.Start(t)
		xprv := testkit.Must(evm.MasterFromSeed([]byte(evmKey)))
		hot := testkit.Must(testkit.Must(evm.ParseXPriv(xprv)).Deriver().HotAddress())
		testkit.Check(t, node.Fund(t.Context(), hot, 1_000_000_000, 0))
		testkit.Check(t, node.Fund(t.Context(), x402Payer, 0, x402Lives*x402Units))
		contract, _ := node.Spec().Contract(money.USDC)
		w := &world{t: t, binary: binary, url: url, line: newLine(t, node.URL)}
		w.rails = &rails{flags: []string{"--evm-rpc", "base=" + w.line.url, "--evm-chain-id",
			fmt.Sprintf("base=%d", evmtest.ChainID), "--evm-token", fmt.Sprintf("base.USDC=%s/USD Coin/2", contract),
			"--evm-xprv", xprv}}
		var all []x402Payment
		for i := range x402Lives {
			all = append(all, w.dieSettling(node, i, all))
		}
		w.start(time.Hour)
		w.takeOver()
		w.settled(node, all[x402Lives-1])
		for _, p := range all {
			// The payer asks what became of it, and gets the receipt.
			status, body, receipt := w.x402(p)
			if status != http.StatusOK || !receipt.Success || receipt.Transaction == "" {
				t.Errorf("%s asked again: %d %s, %+v", p.claimID, status, body, receipt)
			}
		}
		w.kill()
		amounts, times, err := node.Paid(t.Context(), money.USDC)
		testkit.Check(t, err)
		for _, p := range all {
			if amounts[p.address] != x402Units || times[p.address] != 1 {
				t.Errorf("%s received %d units in %d transfers", p.claimID, amounts[p.address], times[p.address])
			}
		}
		if left := testkit.Must(node.State(t.Context(), x402Payer)).Balances[money.USDC]; left != 0 {
			t.Errorf("the payer has %d units left", left)
		}
		d := dbtest.Open(t, db.Options{URL: url})
		testkit.Check(t, d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			var n int
			err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM payout_batches WHERE purpose = 'collect'").Scan(&n)
			if n != x402Lives {
				t.Errorf("%d transfers were signed, want %d", n, x402Lives)
			}
			return err
		}))
		w.command("ledger", "check")
	})
}

// settled waits until a claim is paid, without another request of the payer.
func (w *world) settled(node *evmtest.Node, p x402Payment) {
	w.t.Helper()
	w.until(p.claimID+" is paid", func() bool {
		w.block(node)
		return w.claimStatus(p.claimID) == "paid"
	})
}

// block mines a block, at most four a second: a process must be able to catch up with the chain.
func (w *world) block(node *evmtest.Node) {
	w.t.Helper()
	if time.Since(w.mined) >= 250*time.Millisecond {
		testkit.Check(w.t, node.Mine(w.t.Context(), 1))
		w.mined = time.Now()
	}
}

// dieSettling is one life of the process. It finishes the payment that the life before began, and ends while it settles
// a new one.
func (w *world) dieSettling(node *evmtest.Node, round int, before []x402Payment) x402Payment {
	w.t.Helper()
	w.start(time.Hour)
	w.takeOver()
	if round > 0 {
		w.settled(node, before[round-1])
	}
	p := w.authorizeX402(node, round)
	transfer := strings.ToLower(strings.TrimPrefix(p.address, "0x")) // the service also signs other transactions
	if round%4 == 1 || round%4 == 2 {
		at := signed
		if round%4 == 2 {
			at = broadcast
		}
		w.line.await(at, transfer, func() { _ = w.process.Process.Kill() })
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _, _ = w.x402(p) // of a process that dies
	}()
	switch round % 4 {
	case 0: // while it reads, verifies, stores or signs
		time.AfterFunc(mathrand.N(haste), func() { _ = w.process.Process.Kill() })
	case 3: // after the block with the transfer
		w.until("the transfer is broadcast", func() bool { return w.line.reached(transfer) > 0 })
		testkit.Check(w.t, node.Mine(w.t.Context(), 1))
		time.AfterFunc(mathrand.N(haste), func() { _ = w.process.Process.Kill() })
	}
	w.until("the process is dead", func() bool { return !w.alive() })
	<-asked
	if round%4 > 0 && round < x402Lives/2 {
		return p // the authorization is stored: nobody asks again
	}
	w.start(time.Hour)
	w.takeOver()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if status, body, receipt := w.x402(p); status != http.StatusOK || !receipt.Success {
			w.t.Errorf("%s asked again: %d %s", p.claimID, status, body)
		}
	}()
	w.until("the payer is answered", func() bool {
		w.block(node)
		select {
		case <-answered:
			return true
		default:
			return false
		}
	})
	w.kill()
	return p
}

// authorizeX402 creates a claim and signs its payment.
func (w *world) authorizeX402(node *evmtest.Node, round int) x402Payment {
	w.t.Helper()
	var made struct {
		ClaimID string `json:"claim_id"`
		X402URL string `json:"x402_url"`
	}
	testkit.Check(w.t, w.call(http.MethodPost, "/api/merchant/claim/create", "", map[string]any{
		"payer_id": "agent-7", "amount": 40, "denomination_currency": "USD", "funding_currency": "USDC",
	}, &made))
	p := x402Payment{claimID: made.ClaimID, path: "/api/x402/" + made.ClaimID}
	status, body, _ := w.x402(p)
	var required struct{ Accepts []map[string]any }
	if err := json.Unmarshal(body, &required); err != nil || status != http.StatusPaymentRequired ||
		len(required.Accepts) != 1 {
		w.t.Fatalf("%d %s", status, body)
	}
	terms := required.Accepts[0]
	p.address = terms["payTo"].(string)
	a := evm.Authorization{
		From: testkit.Must(evm.ParseAddress(x402Payer)), To: testkit.Must(evm.ParseAddress(p.address)),
		Amount: money.New(money.USDC, x402Units), ValidBefore: math.MaxInt32, Nonce: [32]byte{byte(round), 1},
	}
	testkit.Check(w.t, evmtest.Authorize(node.Spec(), testkit.Must(hex.DecodeString(x402Key)), &a))
	text := testkit.Must(json.Marshal(map[string]any{"x402Version": 2, "accepted": terms, "payload": map[string]any{
		"signature": "0x" + hex.EncodeToString(a.Signature[:]),
		"authorization": map[string]string{
			"from": a.From.String(), "to": a.To.String(), "value": strconv.Itoa(x402Units), "validAfter": "0",
			"validBefore": strconv.Itoa(math.MaxInt32), "nonce": "0x" + hex.EncodeToString(a.Nonce[:]),
		},
	}}))
	p.signature = base64.StdEncoding.EncodeToString(text)
	return p
}

type x402Receipt struct {
	Success     bool   `json:"success"`
	Transaction string `json:"transaction"`
}

// x402 requests a claim, with the payer's signature if there is one. The status is 0 if the process is gone.
func (w *world) x402(p x402Payment) (status int, body []byte, receipt x402Receipt) {
	r := testkit.Must(http.NewRequestWithContext(context.WithoutCancel(w.t.Context()), http.MethodGet,
		w.ready.BaseURL+p.path, nil))
	if p.signature != "" {
		r.Header.Set("PAYMENT-SIGNATURE", p.signature)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, receipt
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	if text, bad := base64.StdEncoding.DecodeString(res.Header.Get("PAYMENT-RESPONSE")); err == nil && bad == nil {
		_ = json.Unmarshal(text, &receipt) // the zero value if there is none
	}
	return res.StatusCode, body, receipt
}

func (w *world) claimStatus(claimID string) string {
	w.t.Helper()
	var c struct {
		Status string `json:"status"`
	}
	testkit.Check(w.t, w.call(http.MethodGet, "/api/merchant/claim/status?claim_id="+claimID, "", nil, &c))
	return c.Status
}
