package simulation

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/sandbox"
)

// claimed contains the members that a client reads in the response to the creation of a claim.
type claimed struct {
	ID      string      `json:"claim_id"`
	ValidTo time.Time   `json:"valid_to"`
	Amount  json.Number `json:"funding_amount"`
	Details struct {
		Address string `json:"address"`
	} `json:"funding_details"`
}

// claim creates a claim. The claim's payer pays it, and takes back an excess payment.
func (c *client) claim(key string) {
	o := &order{
		key: key, claim: true, currency: "BTC", behavior: behaviors[c.rng.IntN(len(behaviors))],
		cents: 100 * (10 + c.rng.Int64N(500)),
	}
	c.w.model.add(o)
	var made claimed
	c.must(&made, "/api/merchant/claim/create", key, map[string]any{
		"payer_id": sandbox.DefaultSeed().PayerID, "amount": json.Number(fmt.Sprint(o.cents / 100)),
		"denomination_currency": "USD", "funding_currency": "BTC",
	})
	c.w.mu.Lock()
	o.id, o.address, o.due, o.until = made.ID, made.Details.Address, units(made.Amount, "BTC"), made.ValidTo
	c.w.mu.Unlock()
	c.pause(time.Duration(c.rng.IntN(60)) * time.Second)
	if time.Until(o.until) < 5*time.Minute && o.behavior != "late" {
		o.behavior = "nothing" // the response came too late
	}
	c.pay(o)
	if o.behavior == "over" && c.rng.IntN(2) == 0 {
		c.pause(5 * time.Minute)
		c.refund(o)
	}
	c.w.mu.Lock()
	o.ended = true
	c.w.mu.Unlock()
}

// refund offers the excess payment of a claim to the payer, who enters an address.
func (c *client) refund(o *order) {
	var offer struct {
		URL    string      `json:"refund_url"`
		Amount json.Number `json:"amount"`
	}
	for attempt := 0; ; attempt++ {
		status := c.must(&offer, "/api/merchant/claim/refund", fmt.Sprintf("%s-refund-%d", o.key, attempt),
			map[string]any{"claim_id": o.id}, http.StatusConflict, http.StatusUnprocessableEntity)
		if status == http.StatusOK {
			break
		}
		if attempt == 5 { // the payment was never confirmed
			return
		}
		c.pause(10 * time.Minute)
	}
	address := c.w.refunds[c.rng.IntN(len(c.w.refunds))]
	entered := form(url.Values{"address": {address}}.Encode())
	link, err := url.Parse(offer.URL)
	if err != nil {
		c.w.model.violation("the link of a refund is no URL: %v", err)
		return
	}
	for {
		r, ok := c.call(link.Path, "", entered)
		switch {
		case ok && (r.status == http.StatusSeeOther || r.status == http.StatusNotFound):
			// A used link is not found: an earlier attempt succeeded, but its response was lost.
			c.w.mu.Lock()
			o.refunded, o.refund = address, units(offer.Amount, "BTC")
			c.w.mu.Unlock()
			return
		case ok && r.status != http.StatusServiceUnavailable && r.status != http.StatusTooManyRequests:
			c.w.model.violation("%s: %s answers %d: %s", c.name, link.Path, r.status, text(r.body))
			return
		}
		c.pause(5 * time.Second)
	}
}

// text returns the text of a page.
func text(page []byte) string {
	_, body, _ := strings.Cut(string(page), "<main")
	return body[:min(len(body), 600)]
}
