package evm_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout"
	evmrail "github.com/stipend/stipend/internal/payout/evm"
	"github.com/stipend/stipend/internal/payout/payouttest"
	"github.com/stipend/stipend/internal/signer/signertest"
	"github.com/stipend/stipend/internal/testkit"
)

// A transaction whose fee the signer does not permit uses no nonce, so that it blocks nothing behind it: payouts,
// authorized payments and higher fees wait until the signer permits them.
func TestFeesStayBelowTheSignersCap(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		outside, keys := simulate(f)
		tokens := outside.Spec().Tokens
		policy := func(most string) string {
			return strings.Replace(signertest.Policy, `{"max_fee": "1"}`, fmt.Sprintf(`{"max_fee": %q, "chain_id": %d,
				"tokens": {"USDC": %q, "USDT": %q}}`, most, outside.Spec().ChainID, tokens[0].Contract, tokens[1].Contract), 1)
		}
		remote := signertest.Start(f.T, "", masterKey(), policy("0.000000001"), f.Clock.Now)
		w := newFixtureWith(f, outside, keys, remote)
		permit := func(most string) {
			remote.Stop()
			remote.Policy = policy(most)
			remote.Start()
		}
		count := func(query string) (n int64) {
			t.Helper()
			w.Read(func(ctx context.Context, tx *db.Tx) error { return tx.QueryRow(ctx, query).Scan(&n) })
			return n
		}
		_, id := w.add(usdc(5_000_000))
		pool := chain.NewPool(w.DB, "base", w.keys.Deriver())
		from := testkit.Must(evm.ParseAddress(payer))
		w.Must(outside.Fund(w.Context(), from.String(), 0, 1_000_000_000))
		w.Write(func(ctx context.Context, tx *db.Tx) error {
			address, err := pool.NewAddress(ctx, tx, payouttest.Company, "clm_1")
			if err != nil {
				return err
			}
			a := evm.Authorization{From: from, To: testkit.Must(evm.ParseAddress(address)), Amount: usdc(6_000_000),
				ValidBefore: math.MaxInt32, Nonce: [32]byte{1}}
			w.Must(evmtest.Authorize(outside.Spec(), payerKey, &a))
			return evmrail.Collect(ctx, tx, outside.Spec(), payouttest.Company, "clm_1", a, tx.Now().Add(time.Hour))
		})
		w.sync()
		w.Want(id, payout.Queued, payout.WaitFee)
		if n := count("SELECT COUNT(*) FROM payout_batches"); n != 0 {
			t.Fatalf("%d transactions have a nonce", n)
		}

		permit("1")
		w.wait(time.Minute)
		first := w.Want(id, payout.Sent, "")
		if n := count("SELECT COUNT(*) FROM payout_batches WHERE purpose = 'collect'"); n != 1 {
			t.Errorf("%d authorized payments were sent", n)
		}

		permit("0.000000001")
		w.Must(outside.SetBaseFee(w.Context(), 9_000_000_000))
		w.Must(w.rail.RefreshFees(w.Context(), w.DB))
		w.wait(3 * time.Minute)
		if o := w.Want(id, payout.Sent, ""); o.TxID != first.TxID {
			t.Error("the signer signed a fee above its cap")
		}
		if n := count("SELECT COUNT(*) FROM payout_txs WHERE unsigned"); n != 0 {
			t.Errorf("%d refused replacements remain", n)
		}
		permit("1")
		w.wait(3 * time.Minute)
		if o := w.Want(id, payout.Sent, ""); o.TxID == first.TxID {
			t.Error("the fee was not raised")
		}
		w.mine()
		w.Want(id, payout.Fulfilled, "")
	})
}
