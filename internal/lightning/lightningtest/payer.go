package lightningtest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/testkit"
)

// payment is a payment made by the node.
type payment struct {
	hash      lightning.Hash
	msat, fee int64
	state     lightning.PaymentState
	preimage  string
	failure   string
}

// payFault determines the fate of the next payments.
type payFault struct {
	lost    bool   // the payment is made, but the call gets no answer
	held    bool   // the payee holds the payment until ReleasePayments
	failure string // the payment fails for this reason
}

// Fund gives the node a balance in satoshis.
func (n *Node) Fund(sats int64) { n.locked(func() { n.funds += 1000 * sats }) }

// Connect enables the node to pay invoices of another node.
func (n *Node) Connect(payee *Node) { n.locked(func() { n.peers = append(n.peers, payee) }) }

// LosePayments makes calls that pay take effect without sending a response.
func (n *Node) LosePayments(lose bool) { n.locked(func() { n.nextPay.lost = lose }) }

// HoldPayments keeps new payments in flight until ReleasePayments.
func (n *Node) HoldPayments() { n.locked(func() { n.nextPay.held = true }) }

// FailPayments makes new payments fail with one of LND's failure reasons; "" ends this.
func (n *Node) FailPayments(reason string) { n.locked(func() { n.nextPay.failure = reason }) }

// ReleasePayments ends HoldPayments. Held payments succeed if reason is "", and otherwise fail with the reason.
func (n *Node) ReleasePayments(reason string) {
	n.locked(func() {
		n.nextPay.held = false
		for _, p := range n.payments {
			if p.state == lightning.PaymentInFlight {
				n.finish(p, reason)
			}
		}
	})
}

// Succeeded returns the number of payments that succeeded or are in flight.
func (n *Node) Succeeded() (count int) {
	n.locked(func() {
		for _, p := range n.payments {
			if p.state != lightning.PaymentFailed {
				count++
			}
		}
	})
	return count
}

// MaxBlocks returns the largest lock time of a route that the latest call to pay permitted; 0 means LND's own limit.
func (n *Node) MaxBlocks() (blocks int64) {
	n.locked(func() { blocks = n.blocks })
	return blocks
}

// Forget removes the node's payments, as if its database had been lost.
func (n *Node) Forget() {
	n.locked(func() { n.lost, n.payments = n.payments, map[lightning.Hash]*payment{} })
}

// Remember reverses Forget, as if the database had been found.
func (n *Node) Remember() { n.locked(func() { n.payments = n.lost }) }

// NewRequest creates an invoice, like a payee's wallet. If sats is 0, the payer chooses the amount.
func (n *Node) NewRequest(sats int64, expiry time.Duration) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i, err := n.make(random(32), "", 1000*sats, int64(expiry/time.Second), false)
	if err != nil {
		return "", err
	}
	return i.text, nil
}

// NewDescribedRequest creates an invoice with the hash of a description, like the server of a Lightning address.
func (n *Node) NewDescribedRequest(msat int64, description string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.tamper
	defer func() { n.tamper = before }()
	n.tamper = func(r *lightning.Request) { r.DescriptionHash = sha256.Sum256([]byte(description)) }
	i, err := n.make(random(32), "", msat, 3600, false)
	if err != nil {
		return "", err
	}
	return i.text, nil
}

// PaidFor returns the number of times that an invoice of the node was paid: 0 or 1.
func (n *Node) PaidFor(request string) int {
	if n.State(request) == lightning.NodeSettled {
		return 1
	}
	return 0
}

// finish ends a payment. The caller must hold the lock.
func (n *Node) finish(p *payment, reason string) {
	p.state, p.failure, p.fee = lightning.PaymentFailed, reason, 0
	if reason != "" {
		return
	}
	p.failure = lightning.FailureWrongDetail
	for _, peer := range n.peers {
		if preimage, ok := peer.accept(p.hash, p.msat); ok {
			p.state, p.failure, p.preimage, p.fee = lightning.PaymentSucceeded, "", hex.EncodeToString(preimage[:]), 1500
			return
		}
	}
}

// accept settles an invoice of the node.
func (n *Node) accept(h lightning.Hash, msat int64) (preimage [32]byte, ok bool) {
	n.mu.Lock()
	i := n.invoices[h]
	n.mu.Unlock()
	if i == nil || n.PayMsat(i.text, msat) != nil {
		return preimage, false
	}
	return i.preimage, true
}

// streamError writes the error of a call that returns a stream, in the form of LND's gateway.
func streamError(w http.ResponseWriter, status, code int, message string) {
	writeJSON(w, status, map[string]any{"error": map[string]any{"code": code, "message": message, "details": []any{}}})
}

const (
	codeAlreadyExists = 6
	maxBlocks         = 2016 // LND's default of --max-cltv-expiry
)

func (n *Node) send(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Request string    `json:"payment_request"`
		Amount  int64Text `json:"amt"`
		Timeout int64     `json:"timeout_seconds"`
		MaxFee  int64Text `json:"fee_limit_sat"`
		Quiet   bool      `json:"no_inflight_updates"`
		Blocks  int64     `json:"cltv_limit"`
	}
	decoder := json.NewDecoder(io.LimitReader(r.Body, 1<<20))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		writeError(w, http.StatusBadRequest, codeInvalid, "proto: syntax error: "+err.Error())
		return
	}
	invoice, err := lightning.Decode(in.Request)
	n.mu.Lock()
	p, lost := n.payments[invoice.Hash], n.nextPay.lost
	n.blocks = in.Blocks
	switch {
	case err != nil:
		n.mu.Unlock()
		streamError(w, http.StatusInternalServerError, codeUnknown, err.Error())
		return
	case in.Blocks > maxBlocks:
		n.mu.Unlock()
		streamError(w, http.StatusInternalServerError, codeUnknown, fmt.Sprintf(
			"total time lock of %d exceeds max allowed %d", in.Blocks, maxBlocks))
		return
	case n.now().After(invoice.Expires()):
		n.mu.Unlock()
		streamError(w, http.StatusInternalServerError, codeUnknown, "invoice expired. Valid until "+
			invoice.Expires().String())
		return
	case p != nil && p.state == lightning.PaymentSucceeded:
		n.mu.Unlock()
		streamError(w, http.StatusConflict, codeAlreadyExists, "invoice is already paid")
		return
	case p != nil && p.state == lightning.PaymentInFlight:
		n.mu.Unlock()
		streamError(w, http.StatusConflict, codeAlreadyExists, "payment is in transition")
		return
	}
	msat := invoice.Msat
	if msat == 0 {
		msat = 1000 * int64(in.Amount)
	}
	p = &payment{hash: invoice.Hash, msat: msat, state: lightning.PaymentInFlight}
	n.payments[p.hash] = p
	switch {
	case n.nextPay.held:
	case n.nextPay.failure != "":
		n.finish(p, n.nextPay.failure)
	default:
		n.finish(p, "")
	}
	held, body := p.state == lightning.PaymentInFlight, p.json()
	n.mu.Unlock()
	switch {
	case lost, held && in.Quiet: // the node answers only when the payment has ended, and no client waits that long
		panic(http.ErrAbortHandler)
	default:
		writeJSON(w, http.StatusOK, map[string]any{"result": body})
	}
}

func (n *Node) track(w http.ResponseWriter, text string) {
	raw, err := base64.URLEncoding.DecodeString(text)
	if err != nil || len(raw) != len(lightning.Hash{}) {
		writeError(w, http.StatusBadRequest, codeInvalid, "type mismatch, parameter: payment_hash")
		return
	}
	n.mu.Lock()
	p := n.payments[lightning.Hash(raw)]
	var body map[string]any
	if p != nil {
		body = p.json()
	}
	n.mu.Unlock()
	if p == nil {
		streamError(w, http.StatusNotFound, codeNotFound, "payment isn't initiated")
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"result": body})
}

// json returns the Payment message of LND's API. The caller must hold the lock.
func (p *payment) json() map[string]any {
	int64Text := func(v int64) string { return strconv.FormatInt(v, 10) }
	preimage, failure := p.preimage, p.failure
	if preimage == "" {
		preimage = lightning.Hash{}.String()
	}
	if failure == "" {
		failure = "FAILURE_REASON_NONE"
	}
	return map[string]any{
		"payment_hash": p.hash.String(), "value": int64Text(p.msat / 1000), "creation_date": "0",
		"fee": int64Text(p.fee / 1000), "payment_preimage": preimage, "value_sat": int64Text(p.msat / 1000),
		"value_msat": int64Text(p.msat), "payment_request": "", "status": p.state, "fee_sat": int64Text(p.fee / 1000),
		"fee_msat": int64Text(p.fee), "creation_time_ns": "0", "htlcs": []any{}, "payment_index": "1",
		"failure_reason": failure, "first_hop_custom_records": map[string]any{},
	}
}

// Wallet is a payee whose invoices a payer can pay.
type Wallet interface {
	// NewRequest creates an invoice for an amount in satoshis; 0 creates an invoice without an amount.
	NewRequest(sats int64, expiry time.Duration) (string, error)
	// PaidFor returns the number of times that an invoice was paid.
	PaidFor(request string) int
}

// RunPayerContract tests a node that pays for the behavior on which the payout rail relies. Every such node must pass
// it. The node must be able to pay invoices of the wallet.
func RunPayerContract(t *testing.T, node lightning.Payer, to Wallet) {
	request := func(t *testing.T, sats int64) (string, lightning.Hash) {
		t.Helper()
		text := testkit.Must(to.NewRequest(sats, time.Hour))
		return text, testkit.Must(lightning.Decode(text)).Hash
	}
	params := func(request string, amount int64) lightning.PaymentParams {
		return lightning.PaymentParams{Request: request, Amount: amount, MaxFee: 100, Timeout: 30 * time.Second}
	}
	check := func(t *testing.T, p lightning.Payment, h lightning.Hash, sats int64, err error) {
		t.Helper()
		preimage, _ := hex.DecodeString(p.Preimage)
		if err != nil || p.State != lightning.PaymentSucceeded || p.Hash != h || p.Msat != 1000*sats || p.FeeMsat < 0 ||
			p.Fee() > 100 || sha256.Sum256(preimage) != h {
			t.Errorf("%+v, %v", p, err)
		}
	}
	t.Run("pays an invoice once", func(t *testing.T) {
		before := testkit.Must(node.Spendable(t.Context()))
		text, h := request(t, 3_000)
		if _, err := node.TrackPayment(t.Context(), h); !errors.Is(err, lightning.ErrNoPayment) {
			t.Errorf("before it is started: %v", err)
		}
		p, err := node.Pay(t.Context(), params(text, 0))
		check(t, p, h, 3_000, err)
		var answer *lightning.Error
		if _, err := node.Pay(t.Context(), params(text, 0)); !errors.As(err, &answer) {
			t.Errorf("paid again: %v", err)
		}
		again, err := node.TrackPayment(t.Context(), h)
		check(t, again, h, 3_000, err)
		if again != p || to.PaidFor(text) != 1 {
			t.Errorf("%+v, before %+v; paid %d times", again, p, to.PaidFor(text))
		}
		eventually(t, func() error { // the balance follows when the channel's states are exchanged
			if left := testkit.Must(node.Spendable(t.Context())); left > before-3_000 {
				return fmt.Errorf("%d sat left of %d", left, before)
			}
			return nil
		})
	})
	t.Run("pays a chosen amount of an invoice without one", func(t *testing.T) {
		text, h := request(t, 0)
		p, err := node.Pay(t.Context(), params(text, 4_321))
		check(t, p, h, 4_321, err)
	})
	t.Run("fails for good what nobody accepts", func(t *testing.T) {
		stranger := Start(t)
		text := testkit.Must(stranger.NewRequest(1_000, time.Hour))
		h := testkit.Must(lightning.Decode(text)).Hash
		for range 2 { // a failed payment can be repeated
			p, err := node.Pay(t.Context(), params(text, 0))
			if err != nil || p.State != lightning.PaymentFailed || p.Failure == "" || p.Preimage != "" {
				t.Errorf("%+v, %v", p, err)
			}
			if again, err := node.TrackPayment(t.Context(), h); err != nil || again.State != lightning.PaymentFailed {
				t.Errorf("%+v, %v", again, err)
			}
		}
	})
	t.Run("refuses an expired invoice, and knows no payment of it", func(t *testing.T) {
		text := testkit.Must(to.NewRequest(1_000, time.Second))
		r := testkit.Must(lightning.Decode(text))
		var answer *lightning.Error
		eventually(t, func() error {
			if time.Now().Before(r.Expires().Add(time.Second)) {
				return errors.New("the invoice has not expired")
			}
			return nil
		})
		if _, err := node.Pay(t.Context(), params(text, 0)); !errors.As(err, &answer) {
			t.Errorf("paid: %v", err)
		}
		if _, err := node.TrackPayment(t.Context(), r.Hash); !errors.Is(err, lightning.ErrNoPayment) {
			t.Errorf("tracked: %v", err)
		}
	})
}
