package lightningsim_test

import (
	"context"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/lightning/lightningtest"
	"github.com/stipend/stipend/internal/sandbox/lightningsim"
	"github.com/stipend/stipend/internal/testkit"
)

type payee struct{ *lightningsim.Node }

func (p payee) Pay(ctx context.Context, request string) error { return p.Settle(ctx, request, 0) }

// wallet is a simulated payee.
type wallet struct {
	*testing.T
	node *lightningsim.Node
}

func (w wallet) NewRequest(sats int64, expiry time.Duration) (string, error) {
	return w.node.WalletInvoice(w.Context(), "ana@wallet.example", sats, expiry)
}

func (w wallet) PaidFor(request string) int {
	i, err := w.node.Lookup(w.Context(), testkit.Must(lightning.Decode(request)).Hash)
	if err != nil || i.State != lightning.NodeSettled {
		return 0
	}
	return 1
}

// The simulated node behaves as an LND node does where the service relies on it.
func TestContract(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		node := lightningsim.New(d, "regtest")
		lightningtest.RunContract(t, payee{node})
		lightningtest.RunPayerContract(t, node, wallet{t, node})
	})
}
