package lightningsim_test

import (
	"context"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/lightning/lightningtest"
	"github.com/stipend/stipend/internal/sandbox/lightningsim"
)

type payee struct{ *lightningsim.Node }

func (p payee) Pay(ctx context.Context, request string) error { return p.Node.Pay(ctx, request, 0) }

// The simulated node behaves as an LND node does where the service relies on it.
func TestContract(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		lightningtest.RunContract(t, payee{lightningsim.New(d, "regtest")})
	})
}
