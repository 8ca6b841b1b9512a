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
	"github.com/stipend/stipend/internal/sandbox"
)

// client is a program of the company: it creates payrolls, one after the other, and pays for them.
type client struct {
	w     *World
	name  string
	rng   *rand.Rand
	calls int
	done  bool
}

// item is a payment of a payroll.
type item struct {
	payee string
	cents int64
}

// order is a payroll as its client knows it.
type order struct {
	key, id   string
	items     []item
	behavior  string
	address   string
	due       int64 // satoshis
	paid      int64 // satoshis that were sent to the address, and not taken back
	cancelled bool  // the service has confirmed the cancellation
	ended     bool  // the client does nothing more
}

// behaviors are the ways in which a client pays.
var behaviors = []string{
	"exact", "exact", "exact", "exact", "split", "over", "bumped", "taken back", "cancel unpaid", "cancel paid", "nothing",
	"late", "under",
}

// response is an answer of the service.
type response struct {
	status int
	body   []byte
}

// call sends a request. It returns false if no answer arrived, whether or not the request did.
func (c *client) call(method, path, key string, body any) (response, bool) {
	w := c.w
	c.calls++
	label := c.name + " " + strconv.Itoa(c.calls) + " " + method + " " + path
	var text []byte
	if body != nil {
		text, _ = json.Marshal(body) // plain maps
	}
	request := func(label string) (response, bool) {
		p := w.reachable(c.rng)
		if p == nil {
			return response{}, false
		}
		return w.serve(p, label, method, path, key, text)
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
			w.spawn(p, at, func() { w.serve(p, at, method, path, key, text) })
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

// serve lets a process answer a request. It returns false if the process was killed before it answered.
func (w *World) serve(p *process, label, method, path, key string, body []byte) (response, bool) {
	w.mu.Lock()
	if p.dead || p.assembly == nil {
		w.mu.Unlock()
		return response{}, false
	}
	p.tasks++
	handler, ctx := p.assembly.Handler, p.context(label)
	w.mu.Unlock()
	r := request(ctx, method, path, key, body)
	rec := httptest.NewRecorder()
	handler.ServeHTTP(rec, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	p.tasks--
	return response{rec.Code, rec.Body.Bytes()}, !p.dead
}

// request returns a request of the company's API key.
func request(ctx context.Context, method, path, key string, body []byte) *http.Request {
	r := httptest.NewRequestWithContext(ctx, method, "http://stipend.example"+path, bytes.NewReader(body))
	r.Header.Set("Authorization", "Basic "+basic(sandbox.DefaultSeed().APIKey))
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return r
}

// must sends a request until it is answered with the status 200, and decodes the answer into v. A status in give ends
// the attempts.
func (c *client) must(v any, method, path, key string, body any, give ...int) int {
	for {
		r, ok := c.call(method, path, key, body)
		if ok && r.status == http.StatusOK {
			if err := json.Unmarshal(r.body, v); err != nil {
				c.w.model.violation("%s %s answers what is not JSON: %v", method, path, err)
			}
			return r.status
		}
		for _, s := range give {
			if ok && r.status == s {
				return s
			}
		}
		if ok && r.status != http.StatusServiceUnavailable && r.status != http.StatusTooManyRequests {
			c.w.model.violation("%s: %s %s answers %d: %s", c.name, method, path, r.status, r.body)
			c.pause(time.Minute)
		}
		c.pause(time.Duration(1+c.rng.IntN(5)) * time.Second)
	}
}

func (c *client) pause(d time.Duration) { time.Sleep(d) }

// run creates and pays payrolls.
func (c *client) run(n int) {
	for i := range n {
		c.pause(time.Duration(c.rng.IntN(300)) * time.Second)
		c.payroll(fmt.Sprintf("%s-%d", c.name, i))
	}
	c.w.mu.Lock()
	c.done = true
	c.w.mu.Unlock()
}

// created is what a client reads of the answer to the creation of a payroll.
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
	seed := sandbox.DefaultSeed()
	payees := []string{
		seed.Workers[0].UserID, seed.Workers[1].UserID, seed.Recipients[0].RecipientID, seed.Recipients[1].RecipientID,
	}
	o := &order{key: key, behavior: behaviors[c.rng.IntN(len(behaviors))]}
	var toPay []map[string]any
	for range 1 + c.rng.IntN(4) {
		it := item{payees[c.rng.IntN(len(payees))], 1000 + c.rng.Int64N(50_000)}
		o.items = append(o.items, it)
		toPay = append(toPay, map[string]any{
			"user_id": it.payee, "amount_fiat": json.Number(fmt.Sprintf("%d.%02d", it.cents/100, it.cents%100)),
		})
	}
	c.w.model.add(o)
	var made created
	c.must(&made, http.MethodPost, "/api/company/payroll/create", key, map[string]any{
		"currency": "USD", "funding_method": "crypto", "funding_currency": "BTC", "to_pay": toPay,
	})
	c.w.mu.Lock()
	o.id, o.address, o.due = made.ID, made.Quote.Details.Address, satoshis(made.Quote.Amount)
	c.w.mu.Unlock()
	c.pause(time.Duration(c.rng.IntN(120)) * time.Second)
	c.pay(o)
	c.w.mu.Lock()
	o.ended = true
	c.w.mu.Unlock()
}

// pay pays for a payroll as its behavior says.
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
		c.pause(40 * time.Minute)
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

// send pays to the address of a payroll.
func (c *client) send(o *order, sats int64) (txid string) {
	txid, err := c.w.chain.Pay(c.w.ctx, o.address, sats)
	if err != nil {
		c.w.model.violation("the simulated payer cannot pay: %v", err)
		return ""
	}
	c.w.mu.Lock()
	o.paid += sats
	c.w.mu.Unlock()
	return txid
}

// replace replaces a payment that waits for a block by one with a higher fee, or by one that takes the money back. A
// payment that is in a block stays.
func (c *client) replace(o *order, txid string, sats int64) {
	c.pause(time.Duration(c.rng.IntN(60)) * time.Second)
	var outputs []chain.Output
	if sats > 0 {
		outputs = append(outputs, chain.Output{Address: o.address, Amount: sats})
	}
	if _, err := c.w.chain.Replace(c.w.ctx, txid, outputs...); err == nil && sats == 0 {
		c.w.mu.Lock()
		o.paid = 0
		c.w.mu.Unlock()
	}
}

// refresh accepts the present price for money that came too late, unless the service has used it already.
func (c *client) refresh(o *order) {
	var answer struct{}
	c.must(&answer, http.MethodPost, "/api/company/payroll/quote/refresh", o.key+"-refresh",
		map[string]any{"payroll_id": o.id}, http.StatusConflict)
}

// cancel cancels a payroll, unless it is too late.
func (c *client) cancel(o *order) {
	var answer struct {
		Status string `json:"status"`
	}
	status := c.must(&answer, http.MethodPost, "/api/company/payroll/cancel", o.key+"-cancel",
		map[string]any{"payroll_id": o.id}, http.StatusConflict)
	c.w.mu.Lock()
	o.cancelled = status == http.StatusOK
	c.w.mu.Unlock()
}
