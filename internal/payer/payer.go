// Package payer keeps the external payers of a company: whom it bills, and who pays its checkout claims.
//
// A payer is a name and an address to write to, never a credential: it cannot sign in and owns no money. A deleted payer
// keeps its row, because what it paid stays explained.
package payer

import (
	"time"

	"github.com/stipend/stipend/internal/fault"
)

// Status is whether a payer may still be used.
type Status string

// The states of a payer.
const (
	Active  Status = "active"
	Deleted Status = "deleted"
)

// ErrNotFound answers a question about a payer that the company does not have.
var ErrNotFound = fault.New(fault.NotFound, "not_found", "There is no such payer.")

// Payer is one external payer.
type Payer struct {
	CompanyID string
	ID        string
	Name      string
	Email     string
	Status    Status
	CreatedAt time.Time
}
