package httpapi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/paymentlink"
	evmrail "github.com/stipend/stipend/internal/payout/evm"
)

// Programs can pay a claim or a payment link with x402, version 2, scheme exact on EVM networks with EIP-3009. The
// protocol data is in headers; the body of a 402 response repeats PAYMENT-REQUIRED.
//
// The process that serves requests does not call a blockchain node. It verifies and stores the payer's authorization,
// and waits until the worker process has executed the transfer.

type (
	paymentInput struct {
		PaymentID string `path:"payment_id" maxLength:"64" doc:"Claim or link." example:"clm_06gf58g6w1v5s708fp7tx3xdw0"`
		Amount    string `query:"amount" maxLength:"40" doc:"Amount of a link whose payer chooses it." example:"25.00"`
		Signature string `header:"PAYMENT-SIGNATURE" maxLength:"8192"`
	}

	// paymentStatus describes the state of a claim to its payer.
	paymentStatus struct {
		ClaimID              string     `json:"claim_id"`
		Status               claimState `json:"status"`
		Merchant             string     `json:"merchant" doc:"Name of the merchant." example:"Corner Books"`
		Description          string     `json:"description"`
		DenominationAmount   string     `json:"denomination_amount" doc:"The claim's amount, as decimal text."`
		DenominationCurrency string     `json:"denomination_currency"`
		TxHash               string     `json:"tx_hash"`
		CheckoutURL          string     `json:"checkout_url"`
	}

	// PaymentRequired is the content of the PAYMENT-REQUIRED header. Its member names are defined by x402.
	PaymentRequired struct {
		Version  int64                `json:"x402Version" doc:"Version of the protocol." example:"2"`
		Error    string               `json:"error" doc:"What happened and what to do." example:"Payment is required."`
		Resource paymentResource      `json:"resource" doc:"What is paid for."`
		Accepts  []paymentRequirement `json:"accepts" doc:"Ways to pay, one per network and token."`
	}

	paymentResource struct {
		URL         string `json:"url" doc:"This address." example:"https://pay.example.com/api/x402/clm_06gf"`
		Description string `json:"description" doc:"The claim's description." example:"Order 17"`
		MimeType    string `json:"mimeType" doc:"Type of the response." example:"application/json"`
	}

	paymentRequirement struct {
		Scheme  string       `json:"scheme" enum:"exact" doc:"Scheme of x402."`
		Network string       `json:"network" doc:"Network, as CAIP-2." example:"eip155:8453"`
		Amount  string       `json:"amount" doc:"Amount in the token's smallest unit." example:"10000"`
		Asset   string       `json:"asset" doc:"Contract of the token." example:"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"`
		PayTo   string       `json:"payTo" doc:"The claim's address." example:"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"`
		Timeout int64        `json:"maxTimeoutSeconds" doc:"Seconds until the price ends." example:"840"`
		Extra   paymentExtra `json:"extra" doc:"Domain of the signature (EIP-712)."`
	}

	paymentExtra struct {
		Method  string `json:"assetTransferMethod" enum:"eip3009" doc:"How the token is transferred."`
		Name    string `json:"name" doc:"Name of the token's domain." example:"USD Coin"`
		Version string `json:"version" doc:"Version of the token's domain." example:"2"`
	}

	// paymentPayload is the content of the PAYMENT-SIGNATURE header.
	paymentPayload struct {
		Version  int64              `json:"x402Version"`
		Accepted paymentRequirement `json:"accepted"`
		Payload  struct {
			Signature     string `json:"signature"`
			Authorization struct {
				From        string `json:"from"`
				To          string `json:"to"`
				Value       string `json:"value"`
				ValidAfter  string `json:"validAfter"`
				ValidBefore string `json:"validBefore"`
				Nonce       string `json:"nonce"`
			} `json:"authorization"`
		} `json:"payload"`
	}

	// paymentSettled is the content of the PAYMENT-RESPONSE header.
	paymentSettled struct {
		Success     bool   `json:"success"`
		Reason      string `json:"errorReason,omitempty"`
		Payer       string `json:"payer,omitempty"`
		Transaction string `json:"transaction"`
		Network     string `json:"network"`
		Amount      string `json:"amount,omitempty"`
	}

	// paymentAnswer is a response with the status and headers of x402.
	paymentAnswer struct {
		status   int
		required *PaymentRequired // set for status 402
		claim    *paymentStatus   // set for any other status
		settled  *paymentSettled  // nil if the request settled nothing
	}
)

const (
	paymentPath = "/api/x402/{payment_id}"
	x402Version = 2

	// settleWait is how long a request waits until the transfer is in a block.
	settleWait = 25 * time.Second
	settlePoll = 250 * time.Millisecond
	// maxSettling is the maximum number of requests of a process that wait at the same time.
	maxSettling = 256
)

var (
	errPayment = apierr.New(apierr.BadRequest, "malformed_json",
		"The header PAYMENT-SIGNATURE is not a payment payload of x402 version 2: JSON in base64.")
	errRecipient = apierr.New(apierr.BadRequest, "malformed_json",
		"The recipient (to) in the header PAYMENT-SIGNATURE is not an address. Sign the payTo of the terms.")
)

// pay handles an x402 request to pay a claim or a payment link.
func pay(ctx context.Context, _ *db.Tx, c *request, in *paymentInput) (*paymentAnswer, error) {
	var p *paymentPayload
	if in.Signature != "" {
		var err error
		if p, err = parsePayment(in.Signature); err != nil {
			return nil, err
		}
	}
	claimID, err := c.paidClaim(ctx, in, p)
	if err != nil {
		return nil, err
	}
	if p == nil {
		charge, err := c.requestPayment(ctx, claimID)
		if err != nil {
			return nil, err
		}
		return c.askPayment(in, charge, "Payment is required. Send the header PAYMENT-SIGNATURE."), nil
	}
	a, err := p.authorization()
	if err == nil {
		if _, _, known, err := c.collected(ctx, claimID, a); err != nil || known {
			if err != nil {
				return nil, err
			}
			return c.awaitPayment(ctx, in, claimID, p, a)
		}
		if _, err := c.requestPayment(ctx, claimID); err != nil {
			return nil, err
		}
		err = c.authorize(ctx, claimID, p, a)
	}
	var refusal *claim.Refusal
	if errors.As(err, &refusal) {
		return c.refusePayment(ctx, in, claimID, p, refusal.Code, refusal.Detail)
	}
	if err != nil {
		return nil, err
	}
	return c.awaitPayment(ctx, in, claimID, p, a)
}

// paidClaim returns the ID of the claim that a request pays. For a payment link, it returns the claim whose address
// the payload names, or creates a new claim.
func (c *request) paidClaim(ctx context.Context, in *paymentInput, p *paymentPayload) (id string, err error) {
	if !strings.HasPrefix(in.PaymentID, paymentlink.Prefix+"_") {
		return in.PaymentID, nil
	}
	if p != nil {
		to, err := evm.ParseAddress(p.Payload.Authorization.To)
		if err != nil {
			return "", errRecipient.At("header", "PAYMENT-SIGNATURE")
		}
		err = c.DB.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			id, err = c.Links.ClaimAt(ctx, tx, in.PaymentID, to.String())
			return err
		})
		if err != nil || id != "" {
			return id, err
		}
	}
	if err := c.opened.Allow(c.Now(), c.network, http.Header{}); err != nil {
		return "", err
	}
	err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		made, err := c.Links.Claim(ctx, tx, in.PaymentID, paymentlink.OpenParams{Key: tx.NewID("opn"), Amount: in.Amount})
		id = made.ID
		return locateQuery(err)
	})
	return id, err
}

// locateQuery changes the place of an error from the body, which the request does not have, to the query.
func locateQuery(err error) error {
	f, ok := apierr.As(err)
	if !ok || len(f.Fields) == 0 {
		return err
	}
	moved := *f
	moved.Fields = slices.Clone(f.Fields)
	for i := range moved.Fields {
		moved.Fields[i].In, moved.Fields[i].Pointer = "query", strings.TrimPrefix(moved.Fields[i].Pointer, "/")
	}
	return &moved
}

// requestPayment returns a claim with its payment terms, and renews its price if necessary.
func (c *request) requestPayment(ctx context.Context, claimID string) (charge claim.Charge, err error) {
	request := func(ctx context.Context, tx *db.Tx) error {
		charge, err = c.Claim.Request(ctx, tx, claimID)
		return err
	}
	if err = c.DB.Read(ctx, request); !errors.Is(err, claim.ErrPriceEnded) {
		return charge, err
	}
	err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if _, err := c.Claim.Renew(ctx, tx, claimID); err != nil {
			return err
		}
		return request(ctx, tx)
	})
	return charge, err
}

func (c *request) authorize(ctx context.Context, claimID string, p *paymentPayload, a evm.Authorization) error {
	chainID, contract, err := p.asset()
	if err != nil {
		return err
	}
	if err := c.attempts.Allow(c.Now(), c.network, http.Header{}); err != nil {
		return err
	}
	err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return c.Claim.Authorize(ctx, tx, claimID, chainID, contract, p.Payload.Authorization.Value, a)
	})
	if err != nil {
		c.attempts.Return(c.Now(), c.network) // nothing was stored
	}
	return err
}

// askPayment returns a response that demands payment of a claim, or describes the claim if it is already paid.
func (c *request) askPayment(in *paymentInput, charge claim.Charge, text string) *paymentAnswer {
	if len(charge.Terms) == 0 {
		return &paymentAnswer{status: http.StatusOK, claim: c.paymentStatus(charge)}
	}
	address := c.Claim.PaymentURL(in.PaymentID)
	if in.Amount != "" {
		address += "?amount=" + in.Amount
	}
	required := &PaymentRequired{
		Version: x402Version, Error: text, Accepts: make([]paymentRequirement, len(charge.Terms)),
		Resource: paymentResource{address, charge.Description, "application/json"},
	}
	for i, t := range charge.Terms {
		required.Accepts[i] = paymentRequirement{
			Scheme: "exact", Network: "eip155:" + strconv.FormatUint(t.On.ChainID, 10),
			Amount: strconv.FormatInt(t.Amount.Units(), 10), Asset: t.Token.Contract, PayTo: t.Quote.Address,
			Timeout: int64(t.Timeout.Seconds()), Extra: paymentExtra{"eip3009", t.Token.Domain.Name, t.Token.Domain.Version},
		}
	}
	return &paymentAnswer{status: http.StatusPaymentRequired, required: required}
}

func (c *request) paymentStatus(charge claim.Charge) *paymentStatus {
	return &paymentStatus{
		ClaimID: charge.ID, Status: claimState(charge.State), Merchant: charge.Merchant, Description: charge.Description,
		DenominationAmount: charge.Amount.String(), DenominationCurrency: string(charge.Amount.Asset()),
		TxHash: charge.TxHash, CheckoutURL: c.Claim.CheckoutURL(charge.ID),
	}
}

// refusePayment returns a response that explains why a payment failed and demands another payment.
func (c *request) refusePayment(ctx context.Context, in *paymentInput, claimID string, p *paymentPayload, code,
	text string,
) (*paymentAnswer, error) {
	charge, err := c.requestPayment(ctx, claimID)
	if err != nil {
		return nil, err
	}
	answer := c.askPayment(in, charge, text)
	if answer.status == http.StatusPaymentRequired {
		answer.settled = &paymentSettled{Reason: code, Payer: p.Payload.Authorization.From, Network: p.Accepted.Network}
	}
	return answer, nil
}

// settleErrors maps each reason why collecting a payment fails to its x402 error code and a text.
var settleErrors = map[string]struct{ code, text string }{
	evmrail.CollectFunds:    {"insufficient_funds", "The payer has too little of the token. Nothing was paid."},
	evmrail.CollectRefused:  {"invalid_transaction_state", "The token refuses the transfer. Nothing was paid."},
	evmrail.CollectReverted: {"invalid_transaction_state", "The transfer failed. Nothing was paid."},
	evmrail.CollectFee: {"unexpected_settle_error",
		"The network's fee is too high for this amount at the moment. Nothing was paid."},
	evmrail.CollectExpired: {"invalid_exact_evm_payload_authorization_valid_before",
		"The authorization ended before the transfer could be sent. Nothing was paid."},
	evmrail.CollectNotDue: {"invalid_payment_requirements",
		"Before the transfer could be sent, the claim was paid or ended, or its price changed. Nothing was paid."},
}

// awaitPayment waits until a payment has been settled or has failed. If neither happens in time, the response is 202,
// and the client can repeat the same request to get the outcome.
func (c *request) awaitPayment(ctx context.Context, in *paymentInput, claimID string, p *paymentPayload,
	a evm.Authorization,
) (*paymentAnswer, error) {
	ctx, stop := context.WithTimeout(ctx, settleWait)
	defer stop()
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	waits := false
	for {
		charge, state, ours, err := c.collected(context.WithoutCancel(ctx), claimID, a)
		if err != nil {
			return nil, err
		}
		paid := charge.State == claim.Paid || charge.State == claim.Confirming
		final := !paid && !charge.Waits() && charge.State != claim.Expired && charge.State != claim.Underpaid
		done := &paymentAnswer{status: http.StatusOK, claim: c.paymentStatus(charge)}
		switch {
		case state.Done && paid:
			done.settled = &paymentSettled{
				Success: true, Payer: a.From.String(), Transaction: state.TxID, Network: p.Accepted.Network,
				Amount: p.Payload.Authorization.Value,
			}
			return done, nil
		case paid && (!ours || state.Reason != ""): // the claim was paid in another way
			return done, nil
		case state.Reason != "":
			why := settleErrors[state.Reason]
			return c.refusePayment(context.WithoutCancel(ctx), in, claimID, p, why.code, why.text)
		case state.Done && (final || ctx.Err() != nil && !charge.Waits()):
			return nil, claim.ErrState.Detailf("The transfer %s arrived, but it did not pay the claim, which is %s. Do not pay "+
				"again; the merchant decides about the money.", state.TxID, charge.State)
		case ctx.Err() != nil:
			done.status = http.StatusAccepted
			return done, nil
		}
		if !waits {
			select {
			case c.settling <- struct{}{}:
				waits = true
				defer func() { <-c.settling }()
			default:
				stop() // too many requests wait: this one answers now
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// collected returns a claim and the state of the collection of a payment. ours reports whether this service collects
// that payment.
func (c *request) collected(ctx context.Context, claimID string, a evm.Authorization) (charge claim.Charge,
	state evmrail.Collected, ours bool, err error,
) {
	err = c.DB.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		if charge, err = c.Claim.Charge(ctx, tx, claimID); err != nil {
			return err
		}
		i := slices.IndexFunc(charge.Collections, func(one evmrail.Collection) bool {
			return one.From == a.From && one.Nonce == a.Nonce && one.Signature == a.Signature
		})
		if ours = i >= 0; ours {
			state, err = charge.Collections[i].State(ctx, tx)
		}
		return err
	})
	return charge, state, ours, err
}

// parsePayment decodes a PAYMENT-SIGNATURE header.
func parsePayment(header string) (*paymentPayload, error) {
	text, err := base64.StdEncoding.DecodeString(header)
	p := &paymentPayload{}
	if err != nil || json.Unmarshal(text, p) != nil {
		return nil, errPayment.At("header", "PAYMENT-SIGNATURE")
	}
	return p, nil
}

// asset returns the network and the token contract that the payload names.
func (p *paymentPayload) asset() (chainID uint64, contract evm.Address, err error) {
	id, ok := strings.CutPrefix(p.Accepted.Network, "eip155:")
	chainID, err = strconv.ParseUint(id, 10, 64)
	if !ok || err != nil {
		return 0, contract, &claim.Refusal{Code: "invalid_network", Detail: "The network is not eip155 and a chain ID."}
	}
	if contract, err = evm.ParseAddress(p.Accepted.Asset); err != nil {
		return 0, contract, &claim.Refusal{Code: "invalid_payment_requirements", Detail: "The asset is not an address."}
	}
	return chainID, contract, nil
}

// authorization returns the payer's authorization in a payload. The error is a *claim.Refusal.
func (p *paymentPayload) authorization() (a evm.Authorization, err error) {
	in := p.Payload.Authorization
	switch {
	case p.Version != x402Version:
		return a, &claim.Refusal{Code: "invalid_x402_version", Detail: "The version of x402 must be 2."}
	case p.Accepted.Scheme != "exact":
		return a, &claim.Refusal{Code: "unsupported_scheme", Detail: "The scheme must be exact."}
	}
	var err1, err2, err3, err4 error
	a.From, err1 = evm.ParseAddress(in.From)
	a.To, err2 = evm.ParseAddress(in.To)
	a.ValidAfter, err3 = strconv.ParseInt(in.ValidAfter, 10, 64)
	a.ValidBefore, err4 = strconv.ParseInt(in.ValidBefore, 10, 64)
	if errors.Join(err1, err2, err3, err4) != nil || a.ValidAfter < 0 || a.ValidBefore < 0 ||
		!evm.ParseBytes(a.Nonce[:], in.Nonce) || !evm.ParseBytes(a.Signature[:], p.Payload.Signature) {
		return a, &claim.Refusal{Code: "invalid_payload",
			Detail: "The payload is not an authorization of EIP-3009 with a signature of 65 bytes."}
	}
	return a, nil
}

// send writes the response, including the headers of x402.
func (a *paymentAnswer) send(w *responseWriter) error {
	encode := func(name string, value any) ([]byte, error) {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("httpapi: %s: %w", name, err)
		}
		w.Header().Set(name, base64.StdEncoding.EncodeToString(text))
		return text, nil
	}
	if a.settled != nil {
		if _, err := encode("PAYMENT-RESPONSE", a.settled); err != nil {
			return err
		}
	}
	var body []byte
	var err error
	if a.required != nil {
		body, err = encode("PAYMENT-REQUIRED", a.required)
	} else {
		body, err = json.Marshal(a.claim)
	}
	if err != nil {
		return err
	}
	if a.status == http.StatusAccepted {
		w.Header().Set("Retry-After", "2")
	}
	send(w, a.status, body)
	return nil
}
