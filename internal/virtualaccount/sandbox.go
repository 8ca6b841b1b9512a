package virtualaccount

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/stipend/stipend/internal/money"
)

// SandboxName is the provider name of simulated accounts. It differs from the IDs of the operator's accounts at the
// simulated bank, because those accounts' statements do not contain transfers to simulated funding accounts.
const SandboxName = "sandbox-funding"

// Sandbox is a simulated bank. Its account numbers are well-formed and deterministic for each owner, and belong to no
// real bank: no German bank code and no American routing number starts with 99. Like a real bank, it opens euro
// accounts immediately and dollar accounts by a job.
type Sandbox struct{}

var _ Bank = Sandbox{}

// Name implements [Bank].
func (Sandbox) Name() string { return SandboxName }

const (
	sandboxBankCode = "99000000"  // Bankleitzahl
	sandboxRouting  = "990000000" // the ABA checksum is valid: 3×9 + 7×9 is a multiple of 10
	sandboxBIC      = "SANDDE99XXX"
	sandboxBankName = "Sandbox Bank"
)

// OpenImmediately opens euro accounts.
func (b Sandbox) OpenImmediately(a Application) (Opened, bool) {
	if a.Currency != money.EUR {
		return Opened{}, false
	}
	return b.open(a), true
}

// Open implements Bank.
func (b Sandbox) Open(_ context.Context, a Application) (Opened, error) { return b.open(a), nil }

func (Sandbox) open(a Application) Opened {
	sum := sha256.Sum256([]byte("stipend sandbox account\x00" + a.OwnerID + "\x00" + string(a.Currency)))
	n := binary.BigEndian.Uint64(sum[:])
	o := Opened{Ref: a.AccountID, Details: Details{Holder: a.Holder, BankName: sandboxBankName}}
	if a.Currency == money.EUR {
		o.IBAN, o.BIC = iban("DE", fmt.Sprintf("%s%010d", sandboxBankCode, n%10_000_000_000)), sandboxBIC
	} else {
		o.RoutingNumber, o.AccountNumber = sandboxRouting, fmt.Sprintf("%012d", n%1_000_000_000_000)
	}
	return o
}

// iban returns the IBAN for a country and a domestic number of digits. The check digits are 98 minus the remainder
// modulo 97 of the number followed by the country (letters as 10 to 35) and two zeros (ISO 13616).
func iban(country, number string) string {
	rest := 0
	for _, c := range number {
		rest = (rest*10 + int(c-'0')) % 97
	}
	for _, c := range country {
		rest = (rest*100 + int(c-'A') + 10) % 97
	}
	rest = rest * 100 % 97
	return fmt.Sprintf("%s%02d%s", country, 98-rest, number)
}

// Receipts returns nothing: simulated transfers are booked by [Service.Deposit].
func (Sandbox) Receipts(_ context.Context, _ string, _ money.Asset, cursor string) ([]Receipt, string, error) {
	return nil, cursor, nil
}
