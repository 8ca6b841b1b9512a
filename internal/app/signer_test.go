package app_test

import (
	"testing"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/signer/signertest"
	"github.com/stipend/stipend/internal/testkit"
)

// A service without private keys pays on Bitcoin and on an EVM network, with deposits that it collects there, while the
// keys are in a signer. The signer stops in between.
func TestAServiceWithoutPrivateKeysPays(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, url string) {
		keys := signertest.Start(t, sandbox.BitcoinKey(), sandbox.EVMKey(), signertest.Policy, time.Now)
		s := start(t, url, func(c *app.Config) {
			c.Signer = keys.Address
			c.BitcoinXPub = testkit.Must(bitcoin.PublicKey(sandbox.BitcoinKey()))
			c.EVMXPub = evm.PublicKey(sandbox.EVMKey())
		})
		if s.cfg.BitcoinXPrv != "" || s.cfg.EVMXPrv != "" {
			t.Fatal("the service has private keys")
		}
		d := newAPIClient(t, s)
		made := d.create(pays("", "100.00", d.seed.Workers[0].UserID))
		d.deposit(made.PayrollID, "exact", "")
		d.fulfilled(made.PayrollID)
		keys.Stop()
		paused := d.create(pays("", "100.00", d.seed.Workers[1].UserID))
		d.deposit(paused.PayrollID, "exact", "")
		d.until(paused.PayrollID, "released", func(v payrollView) bool { return v.Status == "released" })
		keys.Start()
		paidOnEVMNetwork(d)
	})
}
