package evm_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/offering"
	"github.com/stipend/stipend/internal/payout"
	evmrail "github.com/stipend/stipend/internal/payout/evm"
	"github.com/stipend/stipend/internal/payout/payouttest"
	"github.com/stipend/stipend/internal/signer/signertest"
	"github.com/stipend/stipend/internal/testkit"
)

// withSigner returns a fixture whose keys are in a signer, with a function that restarts it with limits of each
// transaction: USDC, and the fee in ETH.
func withSigner(f *payouttest.Fixture) (w *fixture, outside *simulated, permit func(usdc, fee string)) {
	f.Helper()
	outside, keys := simulate(f)
	tokens := outside.Spec().Tokens
	policy := func(usdc, fee string) string {
		p := strings.Replace(signertest.Policy, `{"max_fee": "1"}`, fmt.Sprintf(`{"max_fee": %q, "chain_id": %d,
			"tokens": {"USDC": %q, "USDT": %q}}`, fee, outside.Spec().ChainID, tokens[0].Contract, tokens[1].Contract), 1)
		return strings.Replace(p, `"USDC": {"transaction": "1000000"`, fmt.Sprintf(`"USDC": {"transaction": %q`, usdc), 1)
	}
	remote := signertest.Start(f.T, "", masterKey(), policy("1000000", "1"), f.Clock.Now)
	return newFixtureWith(f, outside, keys, remote), outside, func(usdc, fee string) {
		f.Helper()
		remote.Stop()
		remote.Policy = policy(usdc, fee)
		remote.Start()
	}
}

// authorize stores a payment of 6.00 USDC to a new address of the wallet that its payer authorized.
func (w *fixture) authorize(outside *simulated) {
	w.Helper()
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
}

// nonces returns the nonces of the hot wallet that are free, and those that transactions have, each with the purpose.
func (w *fixture) nonces() (free []int64, used []string) {
	w.Helper()
	w.Read(func(ctx context.Context, tx *db.Tx) error {
		rows, err := tx.Query(ctx, "SELECT nonce FROM payout_free_nonces ORDER BY nonce")
		if free, err = db.Collect(rows, err, func(r *db.Rows) (n int64, err error) { return n, r.Scan(&n) }); err != nil {
			return err
		}
		rows, err = tx.Query(ctx, "SELECT nonce, purpose, state FROM payout_batches WHERE account = $1 ORDER BY nonce", w.hot)
		used, err = db.Collect(rows, err, func(r *db.Rows) (string, error) {
			var n int64
			var purpose, state string
			err := r.Scan(&n, &purpose, &state)
			return fmt.Sprint(n, " ", purpose, " ", state), err
		})
		return err
	})
	return free, used
}

func (w *fixture) wantNonces(free []int64, used ...string) {
	w.Helper()
	if f, u := w.nonces(); !slices.Equal(f, free) || !slices.Equal(u, used) {
		w.Errorf("free %v, used %q; want %v, %q", f, u, free, used)
	}
}

// A stored transaction that the signer refuses is given up: its output is queued again, and the next payout gets its
// nonce, so that those with later nonces are mined. Once the policy permits the output, it is paid once.
func TestTheNonceOfARefusedTransactionIsUsedAgain(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		w, outside, permit := withSigner(f)
		_, large := w.add(usdc(9_000_000))
		_, small := w.add(usdc(2_000_000))
		w.Must(w.rail.Prepare(w.Context(), w.DB, payouttest.Company))
		w.wantNonces(nil, "0 payout prepared", "1 payout prepared")
		permit("5", "1")
		w.sync()
		w.Want(large, payout.Queued, payout.WaitSigner)
		w.Want(small, payout.Sent, "")
		w.wantNonces([]int64{0}, "1 payout sent")
		w.mine()
		w.Want(small, payout.Sent, "") // nonce 0 is missing

		_, next := w.add(usdc(3_000_000))
		w.sync()
		w.wantNonces(nil, "0 payout sent", "1 payout sent")
		w.mine()
		w.Want(small, payout.Fulfilled, "")
		w.Want(next, payout.Fulfilled, "")
		w.wait(time.Minute)
		w.Want(large, payout.Queued, payout.WaitSigner)

		permit("1000000", "1")
		w.wait(time.Minute)
		w.mine()
		w.Want(large, payout.Fulfilled, "")
		w.wantNonces(nil, "0 payout fulfilled", "1 payout fulfilled", "2 payout fulfilled")
		if n := len(outside.accepted); n != 3 {
			t.Errorf("%d transactions were broadcast", n)
		}
		if why := w.Paused(); why != "" {
			t.Error(why)
		}
	})
}

// If no other payout needs the nonce, a transaction that pays only its fee uses it, when later ones wait for it.
func TestAFreeNonceThatBlocksOthersIsFilled(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		w, _, permit := withSigner(f)
		_, large := w.add(usdc(9_000_000))
		w.Must(w.rail.Prepare(w.Context(), w.DB, payouttest.Company))
		permit("5", "1")
		sweep := func(after time.Duration) {
			t.Helper()
			w.wait(after)
			w.Must(w.rail.Sweep(w.Context(), w.DB))
			w.sync()
		}
		sweep(0)
		sweep(2 * time.Minute)
		w.wantNonces([]int64{0}) // nothing waits for it

		permit("1000000", "1")
		w.wait(time.Minute)
		w.mine()
		w.Want(large, payout.Fulfilled, "")
		_, large = w.add(usdc(9_000_000))
		_, small := w.add(usdc(2_000_000))
		w.Must(w.rail.Prepare(w.Context(), w.DB, payouttest.Company))
		permit("5", "1")
		sweep(0)
		w.wantNonces([]int64{1}, "0 payout fulfilled", "2 payout sent") // a payout may need it
		sweep(time.Minute)
		w.wantNonces(nil, "0 payout fulfilled", "1 fill sent", "2 payout sent")
		sweep(time.Minute)
		w.mine()
		w.Want(small, payout.Fulfilled, "")
		w.Want(large, payout.Queued, payout.WaitSigner)
		w.wantNonces(nil, "0 payout fulfilled", "1 fill fulfilled", "2 payout fulfilled")
		if why := w.Paused(); why != "" {
			t.Error(why)
		}
	})
}

// An authorized payment whose transaction the signer refuses is sent again later, and blocks nothing.
func TestARefusedCollectionIsSentAgain(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		w, outside, permit := withSigner(f)
		offer := func(state offering.State) {
			t.Helper()
			w.Write(func(ctx context.Context, tx *db.Tx) error { return offering.Set(ctx, tx, money.ETH, state) })
		}
		w.authorize(outside)
		offer(offering.StopAll) // the transaction is stored and not signed
		w.sync()
		state := func(want evmrail.Collected) {
			t.Helper()
			w.Read(func(ctx context.Context, tx *db.Tx) error {
				all, err := evmrail.CollectionsOf(ctx, tx, payouttest.Company, "clm_1")
				if err != nil {
					return err
				}
				got, err := all[0].State(ctx, tx)
				if got.TxID = ""; got != want || len(all) != 1 {
					t.Errorf("%d collections; the first is %+v, want %+v", len(all), got, want)
				}
				return err
			})
		}
		state(evmrail.Collected{})
		w.wantNonces(nil, "0 collect prepared")
		permit("1000000", "0.000000001")
		offer(offering.Offered)
		w.wait(time.Minute)
		state(evmrail.Collected{})
		w.wantNonces([]int64{0})
		permit("1000000", "1")
		w.wait(time.Minute)
		w.wantNonces(nil, "0 collect sent")
		w.mine()
		state(evmrail.Collected{Done: true})
	})
}

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
		w.authorize(outside)
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
