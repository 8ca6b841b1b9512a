package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// claimFee is the divisor of the service's fee: the service keeps one part in claimFee of a claim.
const claimFee = 100

// claim contains the members of a claim in API responses that the model reads.
type claim struct {
	Status  string      `json:"status"`
	Amount  json.Number `json:"denomination_amount"`
	Refunds []struct {
		Status string `json:"status"`
	} `json:"refunds"`
}

func (m *model) claim(o *order) (c claim) {
	m.get("/api/merchant/claim/status?claim_id="+o.id, &c)
	return c
}

// openClaim describes everything about a claim that has not ended.
func (m *model) openClaim(o *order) (open []string) {
	c := m.claim(o)
	if o.mustPay() && c.Status != "paid" {
		open = append(open, fmt.Sprintf("claim %s of %s (%s) is %s, and was paid", o.id, o.key, o.behavior, c.Status))
	}
	for _, r := range c.Refunds {
		if o.refunded != "" && r.Status != "paid" {
			open = append(open, fmt.Sprintf("the refund of claim %s is %s", o.id, r.Status))
		}
	}
	return open
}

// verifyClaim checks a claim. It adds the amounts that the claim earned, and that its payer was owed, to a.
func (m *model) verifyClaim(a *account, o *order) {
	c := m.claim(o)
	m.states["claim "+c.Status]++
	if got := units(c.Amount, "USD"); got != o.cents {
		m.violation("claim %s of %s has an amount of %d cents, not %d", o.id, o.key, got, o.cents)
	}
	switch {
	case c.Status == "paid":
		a.balances["USD"] += o.cents - o.cents/claimFee
		if o.cancelled {
			m.violation("claim %s was cancelled and then paid", o.id)
		}
		if o.paid < o.due {
			m.violation("claim %s was paid with %d of %d satoshis", o.id, o.paid, o.due)
		}
	case o.mustPay():
		m.violation("claim %s of %s (%s) was paid and is %s", o.id, o.key, o.behavior, c.Status)
	}
	if o.refunded != "" {
		a.owed[o.refunded] = append(a.owed[o.refunded], o.refund)
		if o.refund != o.paid-o.due {
			m.violation("claim %s was refunded %d satoshis of %d", o.id, o.refund, o.paid-o.due)
		}
	}
}

// bankCredits adds the amounts, in cents, that the simulated bank has credited to each account, according to the
// bank's files.
func bankCredits(dir string, received map[string][]int64) error {
	files, err := os.ReadDir(filepath.Join(dir, "stipend.db.bank", "ach"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range files {
		body, failed := os.ReadFile(filepath.Join(dir, "stipend.db.bank", "ach", f.Name()))
		var entries []struct {
			Account string
			Cents   int64
			Debit   bool
		}
		if err = errors.Join(err, failed); err == nil {
			err = json.Unmarshal(body, &entries)
		}
		for _, e := range entries {
			if !e.Debit && e.Cents > 0 {
				received[e.Account] = append(received[e.Account], e.Cents)
			}
		}
	}
	return err
}
