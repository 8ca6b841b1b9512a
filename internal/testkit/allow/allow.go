// Package allow has guards that let everything pass, for tests and benchmarks whose subject is something else.
package allow

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Subjects screens subjects of a company and blocks none of them.
func Subjects[T any](context.Context, *db.Tx, string, []T) (map[string]bool, error) {
	return map[string]bool{}, nil
}

// Address screens an address and does not block it.
func Address(context.Context, *db.Tx, string, string, string) (bool, error) { return false, nil }

// Release approves the release of every amount.
func Release(context.Context, *db.Tx, string, string, money.Amount) (bool, error) { return true, nil }

// Payees approves every payment to every payee.
func Payees(context.Context, *db.Tx, string, string, map[string]money.Amount) (bool, error) {
	return true, nil
}

// Renewal allows a new price for every claim.
func Renewal(context.Context, *db.Tx, string, string, money.Amount) error { return nil }

// Network reports that payments on a network are noticed in time.
func Network(context.Context, *db.Tx, string, time.Time) error { return nil }

// Records stores no records, and lets every payout pass.
func Records[T any](context.Context, *db.Tx, []T) (map[string]string, error) { return nil, nil }
