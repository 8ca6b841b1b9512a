package virtualaccount

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/stipend/stipend/internal/money"
)

// SandboxName is the provider of accounts that the sandbox gives out.
const SandboxName = "sandbox"

// Sandbox is a bank that exists in a sandbox only. Its numbers are well-formed, the same each time for one owner, and belong
// to no bank: no German bank code and no American routing number starts with 99. Euro accounts are there at once, dollar
// accounts are asked for by a job, as at real banks.
type Sandbox struct{}

var _ Bank = Sandbox{}

// Name is SandboxName.
func (Sandbox) Name() string { return SandboxName }

const (
	sandboxBankCode = "99000000"  // Bankleitzahl
	sandboxRouting  = "990000000" // 3 x 9 + 7 x 9 + 0 … is a multiple of 10
	sandboxBIC      = "SANDDE99XXX"
	sandboxBankName = "Sandbox Bank"
)

// Now gives a euro account.
func (b Sandbox) Now(a Application) (Opened, bool) {
	if a.Currency != money.EUR {
		return Opened{}, false
	}
	return b.open(a), true
}

// Open gives the account of an application.
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

// iban puts the check digits between a country and a domestic number of digits only (ISO 13616: 98 less the remainder by 97
// of the number followed by the country, letters as 10 to 35, and two zeros).
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

// Receipts are none: in a sandbox a transfer arrives when somebody says so.
func (Sandbox) Receipts(_ context.Context, _ string, _ money.Asset, cursor string) ([]Receipt, string, error) {
	return nil, cursor, nil
}
