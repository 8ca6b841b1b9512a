package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox"
)

// client is a program of the company together with the company's customers. It creates payrolls and claims, one after
// the other, and pays for them.
type client struct {
	w     *World
	name  string
	rng   *rand.Rand
	calls int
	done  bool
}

// item is a payment of a payroll.
type item struct {
	payee payee
	cents int64
}

// payee is a payee of the company, and the place at which their money arrives: an address or the number of a bank
// account.
type payee struct{ ID, Place, Currency string }

// order is a payroll or claim as known to the client that created it.
type order struct {
	key, id   string
	claim     bool
	items     []item    // of a payroll
	cents     int64     // of a claim
	until     time.Time // end of a claim's quote
	refunded  string    // address to which the excess payment of a claim is refunded, or ""
	refund    int64     // satoshis
	behavior  string
	address   string
	currency  string // currency in which the order is paid: BTC or USDC
	due       int64  // satoshis, or millionths of one USDC
	paid      int64  // amount that was sent to the address and not taken back
	cancelled bool   // the service has confirmed the cancellation
	ended     bool   // the client does nothing more with it
}

// behaviors are the ways in which a client pays.
var behaviors = []string{
	"exact", "exact", "exact", "exact", "split", "over", "bumped", "taken back", "cancel unpaid", "cancel paid", "nothing",
	"late", "under",
}

// content is the body of a request, with its type.
type content struct {
	mediaType string
	data      []byte
}

// form is the body of a request that a browser creates from a form.
type form string

// encode returns the body of a request. It encodes objects as JSON.
func encode(body any) content {
	switch b := body.(type) {
	case nil:
		return content{}
	case form:
		return content{"application/x-www-form-urlencoded", []byte(b)}
	}
	data, _ := json.Marshal(body) // plain maps can always be encoded
	return content{"application/json", data}
}

// response is a response of the service.
type response struct {
	status int
	body   []byte
}

// call sends a POST request. It returns false if no response arrived, even if the request did arrive.
func (c *client) call(path, key string, body any) (response, bool) {
	w := c.w
	c.calls++
	label := c.name + " " + strconv.Itoa(c.calls) + " " + path
	text := encode(body)
	request := func(label string) (response, bool) {
		p := w.reachable(c.rng)
		if p == nil {
			return response{}, false
		}
		return w.serve(p, label, path, key, text)
	}
	switch w.park(label, atRequest, nil) {
	case killed:
		runtime.Goexit() // the run has ended
	case lost:
		return response{}, false
	case twice:
		at := label + " again"
		p := w.reachable(c.rng)
		if p != nil {
			w.spawn(p, at, func() { w.serve(p, at, path, key, text) })
		}
	}
	r, ok := request(label)
	switch w.park(label, atResponse, nil) {
	case killed:
		runtime.Goexit()
	case lostAnswer:
		return response{}, false
	}
	return r, ok
}

// reachable returns a process that serves requests, or nil.
func (w *World) reachable(rng *rand.Rand) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := rng.IntN(len(w.processes))
	for i := range w.processes {
		if p := w.processes[(first+i)%len(w.processes)]; !p.dead && p.assembly != nil {
			return p
		}
	}
	return nil
}

// serve has a process respond to a POST request. It returns false if the process was killed before it responded.
func (w *World) serve(p *process, label, path, key string, body content) (response, bool) {
	w.mu.Lock()
	if p.dead || p.assembly == nil {
		w.mu.Unlock()
		return response{}, false
	}
	p.tasks++
	handler, ctx := p.assembly.Handler, p.context(label)
	w.mu.Unlock()
	r := request(ctx, http.MethodPost, path, key, body)
	rec := httptest.NewRecorder()
	handler.ServeHTTP(rec, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	p.tasks--
	return response{rec.Code, rec.Body.Bytes()}, !p.dead
}

// request returns a request with the company's API key.
func request(ctx context.Context, method, path, key string, body content) *http.Request {
	r := httptest.NewRequestWithContext(ctx, method, "http://stipend.example"+path, bytes.NewReader(body.data))
	r.Header.Set("Authorization", "Basic "+basic(sandbox.DefaultSeed().APIKey))
	if body.mediaType != "" {
		r.Header.Set("Content-Type", body.mediaType)
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return r
}

// must sends a POST request until the response has the status 200, and decodes the response into v. It stops at any
// status in give, too. It returns the last status.
func (c *client) must(v any, path, key string, body any, give ...int) int {
	for {
		r, ok := c.call(path, key, body)
		if ok && r.status == http.StatusOK {
			if err := json.Unmarshal(r.body, v); err != nil {
				c.w.model.violation("%s answers what is not JSON: %v", path, err)
			}
			return r.status
		}
		for _, s := range give {
			if ok && r.status == s {
				return s
			}
		}
		if ok && r.status != http.StatusServiceUnavailable && r.status != http.StatusTooManyRequests {
			c.w.model.violation("%s: %s answers %d: %s", c.name, path, r.status, r.body)
			c.pause(time.Minute)
		}
		c.pause(time.Duration(1+c.rng.IntN(5)) * time.Second)
	}
}

func (c *client) pause(d time.Duration) { time.Sleep(d) }

// run creates payrolls and claims, and pays for them.
func (c *client) run(n int) {
	for i := range n {
		c.pause(time.Duration(c.rng.IntN(300)) * time.Second)
		key := fmt.Sprintf("%s-%d", c.name, i)
		if c.rng.IntN(5) < 2 {
			c.claim(key)
		} else {
			c.payroll(key)
		}
	}
	c.w.mu.Lock()
	c.done = true
	c.w.mu.Unlock()
}

// created contains the members that a client reads in the response to the creation of a payroll.
type created struct {
	ID    string `json:"payroll_id"`
	Quote struct {
		Amount  json.Number `json:"funding_amount"`
		Details struct {
			Address string `json:"address"`
		} `json:"funding_details"`
	} `json:"quote"`
}

// payroll creates one payroll and pays for it.
func (c *client) payroll(key string) {
	payees := c.w.payees
	o := &order{key: key, behavior: behaviors[c.rng.IntN(len(behaviors))]}
	var toPay []map[string]any
	for range 1 + c.rng.IntN(4) {
		it := item{payees[c.rng.IntN(len(payees))], 1000 + c.rng.Int64N(50_000)}
		o.items = append(o.items, it)
		toPay = append(toPay, map[string]any{
			"user_id": it.payee.ID, "amount_fiat": json.Number(fmt.Sprintf("%d.%02d", it.cents/100, it.cents%100)),
		})
	}
	c.w.model.add(o)
	body := map[string]any{"currency": "USD", "funding_method": "crypto", "funding_currency": "BTC", "to_pay": toPay}
	if o.currency = "BTC"; c.rng.IntN(3) == 0 {
		o.currency = "USDC"
		body["funding_currency"], body["funding_network"] = "USDC", evmName
	}
	var made created
	c.must(&made, "/api/company/payroll/create", key, body)
	c.w.mu.Lock()
	o.id, o.address, o.due = made.ID, made.Quote.Details.Address, units(made.Quote.Amount, o.currency)
	c.w.mu.Unlock()
	c.pause(time.Duration(c.rng.IntN(120)) * time.Second)
	c.pay(o)
	c.w.mu.Lock()
	o.ended = true
	c.w.mu.Unlock()
}

// pay pays for a payroll or claim in the way that its behavior describes.
func (c *client) pay(o *order) {
	switch o.behavior {
	case "exact":
		c.send(o, o.due)
	case "split":
		c.send(o, o.due/3)
		c.pause(time.Duration(c.rng.IntN(200)) * time.Second)
		c.send(o, o.due-o.due/3)
	case "over":
		c.send(o, o.due+o.due/10)
	case "under":
		c.send(o, o.due/2)
	case "late":
		c.pause(max(40*time.Minute, time.Until(o.until)+time.Minute))
		c.send(o, o.due)
		c.pause(5 * time.Minute)
		c.refresh(o)
	case "bumped":
		c.replace(o, c.send(o, o.due), o.due)
	case "taken back":
		c.replace(o, c.send(o, o.due), 0)
	case "cancel unpaid":
		c.cancel(o)
	case "cancel paid":
		c.send(o, o.due)
		c.pause(time.Duration(c.rng.IntN(150)) * time.Second)
		c.cancel(o)
	}
}

// send pays to the address of a payroll or claim.
func (c *client) send(o *order, amount int64) (txid string) {
	var err error
	if o.currency == "USDC" {
		txid, err = c.w.evm.Pay(c.w.ctx, o.address, money.New(money.USDC, amount))
	} else {
		txid, err = c.w.chain.Pay(c.w.ctx, o.address, amount)
	}
	if err != nil {
		c.w.model.violation("the simulated payer cannot pay: %v", err)
		return ""
	}
	c.w.mu.Lock()
	o.paid += amount
	c.w.mu.Unlock()
	return txid
}

// replace replaces a payment in the mempool by a payment with a higher fee, or by a transaction that takes the money
// back. It does not replace a payment that is already in a block. On an EVM network, it only simulates taking the
// money back.
func (c *client) replace(o *order, txid string, amount int64) {
	c.pause(time.Duration(c.rng.IntN(60)) * time.Second)
	var outputs []chain.Output
	if amount > 0 {
		outputs = append(outputs, chain.Output{Address: o.address, Amount: amount})
	}
	var err error
	switch {
	case o.currency == "BTC":
		_, err = c.w.chain.Replace(c.w.ctx, txid, outputs...)
	case amount == 0:
		_, err = c.w.evm.Replace(c.w.ctx, txid)
	}
	if err == nil && amount == 0 {
		c.w.mu.Lock()
		o.paid = 0
		c.w.mu.Unlock()
	}
}

// refresh accepts the current price for money that arrived too late, unless the service has already used the money.
func (c *client) refresh(o *order) {
	var answer struct{}
	path, body := o.request("/quote/refresh")
	c.must(&answer, path, o.key+"-refresh", body, http.StatusConflict)
}

// request returns the path and the body of a request about an order.
func (o *order) request(what string) (path string, body map[string]any) {
	if o.claim {
		return "/api/merchant/claim" + what, map[string]any{"claim_id": o.id}
	}
	return "/api/company/payroll" + what, map[string]any{"payroll_id": o.id}
}

// cancel cancels a payroll or claim, unless it is too late.
func (c *client) cancel(o *order) {
	var answer struct {
		Status string `json:"status"`
	}
	path, body := o.request("/cancel")
	status := c.must(&answer, path, o.key+"-cancel", body, http.StatusConflict)
	c.w.mu.Lock()
	o.cancelled = status == http.StatusOK
	c.w.mu.Unlock()
}
