package lightning

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Payer is a Lightning node that makes payments: an LND node ([Client]), or the simulated node of a sandbox.
// lightningtest.RunPayerContract tests the behavior on which the payout rail relies.
type Payer interface {
	// ID returns the node's public key, in hexadecimal.
	ID(ctx context.Context) (string, error)
	// Spendable returns the node's side of its open channels in satoshis, without payments in flight.
	Spendable(ctx context.Context) (sats int64, err error)
	// Pay starts a payment and returns it when it has succeeded or failed, or, if it is still in flight, at the end of
	// ctx. A node pays each payment hash at most once: it refuses a request that it has paid or is paying. After an
	// error, TrackPayment reports whether the payment exists. An [Error] that refuses the request proves that the
	// payment will not start; after any other error it is not known whether the node got the request.
	Pay(ctx context.Context, p PaymentParams) (Payment, error)
	// TrackPayment returns the present state of a payment, or [ErrNoPayment]. After [ErrUnclear] the payment may have
	// been made.
	TrackPayment(ctx context.Context, h Hash) (Payment, error)
}

// ErrNoPayment is returned if the node never started a payment.
var ErrNoPayment = errors.New("lightning: the node has no such payment")

// ErrUnclear is returned if the node has a payment, but its description cannot be trusted or understood.
var ErrUnclear = errors.New("lightning: the node's description of a payment is not valid")

// PaymentParams describe a payment.
type PaymentParams struct {
	Request string // BOLT 11 payment request
	Amount  int64  // satoshis, if the request has no amount; otherwise 0
	MaxFee  int64  // largest fee in satoshis
	Timeout time.Duration
	// MaxBlocks is the largest lock time of a route. The outcome is certain on the chain that many blocks after the last
	// attempt. 0 means the node's own limit.
	MaxBlocks int64
}

// PaymentState is LND's state of a payment.
type PaymentState string

// States of a payment.
const (
	PaymentInFlight  PaymentState = "IN_FLIGHT"
	PaymentSucceeded PaymentState = "SUCCEEDED"
	PaymentFailed    PaymentState = "FAILED" // no part of the payment is in flight
)

// Reasons of failed payments, as LND names them.
const (
	FailureTimeout     = "FAILURE_REASON_TIMEOUT"
	FailureNoRoute     = "FAILURE_REASON_NO_ROUTE"
	FailureError       = "FAILURE_REASON_ERROR"
	FailureWrongDetail = "FAILURE_REASON_INCORRECT_PAYMENT_DETAILS"
	FailureBalance     = "FAILURE_REASON_INSUFFICIENT_BALANCE"
)

// Payment is a payment made by the node.
type Payment struct {
	Hash     Hash
	State    PaymentState
	Msat     int64 // amount that the payee receives
	FeeMsat  int64
	Preimage string // proof of the payment in hexadecimal: its SHA-256 is the hash; "" until the payment has succeeded
	Failure  string // reason of a failed payment
}

// Fee returns the fee in satoshis, rounded up.
func (p Payment) Fee() int64 { return (p.FeeMsat + 999) / 1000 }

// paymentMessage is LND's message of a payment.
type paymentMessage struct {
	Hash     string       `json:"payment_hash"`
	State    PaymentState `json:"status"`
	Msat     number64     `json:"value_msat"`
	FeeMsat  number64     `json:"fee_msat"`
	Preimage string       `json:"payment_preimage"`
	Failure  string       `json:"failure_reason"`
}

// read checks and converts a message. A payment counts as successful only with a preimage of its hash.
func (m paymentMessage) read() (Payment, error) {
	h, err := ParseHash(m.Hash)
	if err != nil {
		return Payment{}, err
	}
	p := Payment{Hash: h, State: m.State, Msat: int64(m.Msat), FeeMsat: int64(m.FeeMsat)}
	switch p.State {
	case PaymentInFlight:
	case "INITIATED":
		p.State = PaymentInFlight
	case PaymentFailed:
		p.Failure = m.Failure
	case PaymentSucceeded:
		preimage, err := ParseHash(m.Preimage)
		if err != nil || HashOf(preimage) != h {
			return p, fmt.Errorf("lightning: the node reports payment %s as successful without its preimage", h)
		}
		p.Preimage = preimage.String()
	default:
		return p, fmt.Errorf("lightning: the node has payment %s in the state %.40q, %w", h, string(p.State),
			errUnknownState)
	}
	return p, nil
}

// Pay implements [Payer]. The client's macaroon must permit offchain:write.
func (c *Client) Pay(ctx context.Context, in PaymentParams) (Payment, error) {
	r, err := Decode(in.Request)
	if err != nil {
		return Payment{}, err
	}
	body := map[string]any{
		"payment_request": in.Request, "timeout_seconds": int64(in.Timeout / time.Second),
		"fee_limit_sat": strconv.FormatInt(in.MaxFee, 10), "no_inflight_updates": true,
	}
	if in.Amount > 0 {
		body["amt"] = strconv.FormatInt(in.Amount, 10)
	}
	if in.MaxBlocks > 0 {
		body["cltv_limit"] = in.MaxBlocks
	}
	return c.firstPayment(ctx, r.Hash, http.MethodPost, "/v2/router/send", body)
}

// TrackPayment implements [Payer].
func (c *Client) TrackPayment(ctx context.Context, h Hash) (Payment, error) {
	p, err := c.firstPayment(ctx, h, http.MethodGet, "/v2/router/track/"+base64.URLEncoding.EncodeToString(h[:]), nil)
	var answer *Error
	if errors.As(err, &answer) && (answer.Code == codeNotFound || refusalContains(err, "isn't initiated")) {
		return p, ErrNoPayment
	}
	return p, err
}

// firstPayment returns the first message of a stream of payments. It returns an error if the message is about another
// payment hash.
func (c *Client) firstPayment(ctx context.Context, h Hash, method, path string, body any) (Payment, error) {
	req, err := c.request(ctx, method, path, body)
	if err != nil {
		return Payment{}, err
	}
	resp, err := c.streams.Do(req)
	if err != nil {
		return Payment{}, fmt.Errorf("lightning: %w", err)
	}
	defer resp.Body.Close()
	limited := io.LimitReader(resp.Body, maxResponse)
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(limited)
		if err != nil {
			return Payment{}, fmt.Errorf("lightning: %s: %w", path, err)
		}
		return Payment{}, refusal(resp.StatusCode, text)
	}
	var message struct {
		Result *paymentMessage `json:"result"`
		Error  *Error          `json:"error"`
	}
	switch err := json.NewDecoder(limited).Decode(&message); {
	case err != nil:
		return Payment{}, fmt.Errorf("lightning: %s: unexpected answer: %w", path, err)
	case message.Error != nil:
		return Payment{}, message.Error
	case message.Result == nil:
		return Payment{}, fmt.Errorf("lightning: %s: an answer without a payment", path)
	}
	p, err := message.Result.read()
	if err == nil && p.Hash != h {
		err = fmt.Errorf("lightning: asked for payment %s, got %s", h, p.Hash)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrUnclear, err)
	}
	return p, err
}

// Spendable implements [Payer].
func (c *Client) Spendable(ctx context.Context) (sats int64, err error) {
	var channels struct {
		Local struct {
			Sats number64 `json:"sat"`
		} `json:"local_balance"`
	}
	err = c.call(ctx, &channels, http.MethodGet, "/v1/balance/channels", nil)
	return int64(channels.Local.Sats), err
}
