// Package allow contains guards that permit everything, for tests and benchmarks that are not about guards.
package allow

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Subjects is a sanctions screening that blocks none of a company's subjects.
func Subjects[T any](context.Context, *db.Tx, string, []T) (map[string]bool, error) {
	return map[string]bool{}, nil
}

// Address is a sanctions screening that does not block the address.
func Address(context.Context, *db.Tx, string, string, string) (bool, error) { return false, nil }

// Release approves the release of any amount.
func Release(context.Context, *db.Tx, string, string, money.Amount) (bool, error) { return true, nil }

// Payees approves any payment to any payee.
func Payees(context.Context, *db.Tx, string, string, map[string]money.Amount) (bool, error) {
	return true, nil
}

// Renewal permits a new price for any claim.
func Renewal(context.Context, *db.Tx, string, string, money.Amount) error { return nil }

// Network reports that payments on any network are noticed in time.
func Network(context.Context, *db.Tx, string, time.Time) error { return nil }

// Records stores no travel rule records, and permits every payout.
func Records[T any](context.Context, *db.Tx, []T) (map[string]string, error) { return nil, nil }
