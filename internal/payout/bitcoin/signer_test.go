package bitcoin_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout"
	bitcoinrail "github.com/stipend/stipend/internal/payout/bitcoin"
	"github.com/stipend/stipend/internal/payout/onchain"
	"github.com/stipend/stipend/internal/payout/payouttest"
	"github.com/stipend/stipend/internal/signer"
	"github.com/stipend/stipend/internal/signer/signertest"
)

// withSigner runs a test whose keys are in a signer with a policy.
func withSigner(t *testing.T, policy string, f func(w *fixture)) {
	payouttest.RunFixture(t, func(on *payouttest.Fixture) { f(newFixtureWith(on, policy)) })
}

// held returns the outputs that the signer does not pay yet.
func (w *fixture) held() (all []onchain.Held) {
	w.Helper()
	w.Read(func(ctx context.Context, tx *db.Tx) (err error) {
		all, err = onchain.AllHeld(ctx, tx, 10)
		return err
	})
	return all
}

func TestAPayoutAboveTheSignersLimitWaitsForTwoApprovals(t *testing.T) {
	people := []signertest.Passkey{signertest.NewPasskey("ada"), signertest.NewPasskey("grace")}
	policy := strings.Replace(signertest.Policy, `"approval_above": "1000"`, `"approval_above": "0.01"`, 1)
	policy = strings.Replace(policy, `"approvers": []`,
		`"approvers": [`+people[0].Approver()+","+people[1].Approver()+"]", 1)
	withSigner(t, policy, func(w *fixture) {
		w.fund(10_000_000)
		w.release(5_000_000, 500_000)
		w.watch()
		outs := w.states(payout.Queued, payout.Sent)
		held := w.held()
		if outs[0].Reason != payout.WaitSigner || len(held) != 1 || held[0].Verdict.Code != signer.ApprovalRequired {
			t.Fatalf("%s, held %+v", outs[0].Reason, held)
		}
		approve := func(p signertest.Passkey) {
			w.Helper()
			a := p.Approve(held[0].Payment, w.Clock.Now().Add(time.Hour))
			w.Write(func(ctx context.Context, tx *db.Tx) error {
				return onchain.Approve(ctx, tx, a)
			})
			w.wait(time.Second)
		}
		approve(people[0])
		w.states(payout.Queued, payout.Sent)
		approve(people[1])
		outs = w.states(payout.Sent, payout.Sent)
		w.paid(outs...)
		if n := len(w.held()); n != 0 {
			t.Errorf("%d outputs are still held", n)
		}
	})
}

// Payouts that are above the limits together are paid one after the other, and those that do not fit at all wait. None
// is put into a transaction that the signer then refuses.
func TestPayoutsAreSplitByTheSignersLimits(t *testing.T) {
	policy := strings.Replace(signertest.Policy, `{"transaction": "1000", "hour": "1000"`,
		`{"transaction": "0.015", "hour": "0.025"`, 1)
	policy = strings.Replace(policy, `"max_fee": "0.1"`, `"max_fee": "0.001"`, 1)
	withSigner(t, policy, func(w *fixture) {
		w.fund(5_000_000, 5_000_000, 5_000_000)
		w.release(1_000_000, 1_000_000, 1_000_000)
		w.watch()
		txids, states := map[string]bool{}, map[payout.State]int{}
		for _, o := range w.outputs() {
			states[o.State]++
			txids[o.TxID] = true
		}
		if states[payout.Sent] != 2 || states[payout.Queued] != 1 || len(txids) != 3 {
			t.Fatalf("%v in %d transactions", states, len(txids)-1)
		}
		w.mine(1)
		w.wait(61 * time.Minute)
		w.mine(1)
		w.paid(w.all(payout.Fulfilled)...)
	})
}

func TestASignerThatIsDownDelaysPayouts(t *testing.T) {
	withSigner(t, signertest.Policy, func(w *fixture) {
		w.fund(10_000_000, 10_000_000)
		w.remote.Stop()
		w.release(500_000)
		w.watch()
		w.states(payout.Queued)
		w.remote.Start()
		w.wait(2 * time.Minute)
		w.paid(w.states(payout.Sent)...)

		// It stops after a transaction was stored, and before it was signed.
		w.Queue(w.outputsOf(600_000)...)
		w.Must(w.rail.Prepare(w.Context(), w.DB, payouttest.Company))
		w.remote.Stop()
		w.watch()
		prepared := w.states(payout.Sent, payout.Prepared)[1]
		if prepared.TxID != "" {
			t.Errorf("an unsigned transaction has the txid %s", prepared.TxID)
		}
		w.remote.Start()
		w.wait(2 * time.Minute)
		outs := w.states(payout.Sent, payout.Sent)
		w.paid(outs...)
		if outs[1].BatchID != prepared.BatchID {
			t.Error("another batch pays the output")
		}
		w.mine(1)
		w.states(payout.Fulfilled, payout.Fulfilled)
	})
}

func TestTheSignerSignsReplacements(t *testing.T) {
	withSigner(t, signertest.Policy, func(w *fixture) {
		w.fund(2_000_000)
		w.release(500_000)
		w.watch()
		first := w.states(payout.Sent)[0]
		w.feeRate(20)
		w.wait(7 * time.Hour)
		second := w.states(payout.Sent)[0]
		if second.TxID == first.TxID || second.BatchID != first.BatchID {
			t.Fatalf("the fee was not raised: %+v", second)
		}
		w.mine(1)
		w.paid(w.states(payout.Fulfilled)...)
	})
}

// p2pkh is an address that the policy of some tests does not permit.
const p2pkh = "mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn"

// policy restarts the signer with another policy.
func (w *fixture) policy(text string) {
	w.Helper()
	w.remote.Stop()
	w.remote.Policy = text
	w.remote.Start()
}

// refusals returns the number that the alert about refusals reads.
func (w *fixture) refusals() (n int64) {
	w.Helper()
	w.Read(func(ctx context.Context, tx *db.Tx) (err error) {
		n, err = onchain.Refusals(ctx, tx)
		return err
	})
	return n
}

// A payee whose address the policy does not permit waits alone, and the alert ends with the refusal.
func TestAnAddressThatTheSignerDoesNotPermitWaitsAlone(t *testing.T) {
	withSigner(t, strings.Replace(signertest.Policy, `"p2pkh", `, "", 1), func(w *fixture) {
		w.fund(10_000_000)
		outs := w.outputsOf(500_000, 600_000)
		outs[0].Address = p2pkh
		w.Queue(outs...)
		w.watch()
		outs = w.states(payout.Queued, payout.Sent)
		if held := w.held(); len(held) != 1 || held[0].Verdict.Code != signer.NotPermitted || w.refusals() != 1 {
			t.Errorf("held %+v, %d refusals", held, w.refusals())
		}
		w.paid(outs[1])
		w.Write(func(ctx context.Context, tx *db.Tx) error { // the payee has another address now
			return payout.SetReason(ctx, tx, outs[:1], "")
		})
		if n := w.refusals(); n != 0 || len(w.held()) != 0 {
			t.Errorf("%d refusals after the last one ended", n)
		}
	})
}

// A batch whose fee would be above the cap is divided; with a fee rate above the cap, payouts wait.
func TestFeesStayBelowTheSignersCaps(t *testing.T) {
	policy := strings.Replace(signertest.Policy, `"max_fee": "0.1"`, `"max_fee": "0.000012"`, 1)
	policy = strings.Replace(policy, `"max_fee_rate": 1000`, `"max_fee_rate": 10`, 1)
	withSigner(t, policy, func(w *fixture) {
		w.fund(10_000_000, 10_000_000, 10_000_000, 10_000_000)
		w.feeRate(11)
		w.release(500_000, 500_000, 500_000, 500_000, 500_000, 500_000)
		w.watch()
		w.all(payout.Queued)
		w.feeRate(5)
		w.wait(2 * time.Minute)
		txids := map[string]bool{}
		outs := w.all(payout.Sent)
		for _, o := range outs {
			txids[o.TxID] = true
		}
		w.paid(outs...)
		if len(txids) != 2 {
			t.Errorf("%d transactions", len(txids))
		}
		if n := w.refusals(); n != 0 {
			t.Errorf("%d refusals", n)
		}
	})
}

// A stored transaction that the signer finally refuses is given up: its coins are free and its outputs queued again.
func TestARefusedTransactionIsGivenUp(t *testing.T) {
	withSigner(t, signertest.Policy, func(w *fixture) {
		w.fund(10_000_000)
		outs := w.outputsOf(500_000, 600_000)
		outs[0].Address = p2pkh
		w.Queue(outs...)
		w.Must(w.rail.Prepare(w.Context(), w.DB, payouttest.Company))
		before := w.states(payout.Prepared, payout.Prepared)
		w.policy(strings.Replace(signertest.Policy, `"p2pkh", `, "", 1))
		w.watch() // the payout that the signer permits may be sent at once, by a preparation that was due
		if o := w.outputs()[0]; o.State != payout.Queued {
			t.Errorf("the refused output is %s", o.State)
		}
		w.wait(2 * time.Minute)
		after := w.states(payout.Queued, payout.Sent)
		if after[1].BatchID == before[1].BatchID {
			t.Error("the refused transaction was signed")
		}
		w.mine(1)
		w.paid(w.states(payout.Queued, payout.Fulfilled)[1])
	})
}

// A replacement that the signer refuses does not prevent a later one.
func TestARefusedReplacementIsDropped(t *testing.T) {
	withSigner(t, signertest.Policy, func(w *fixture) {
		w.fund(2_000_000)
		w.release(500_000)
		w.watch()
		first := w.states(payout.Sent)[0]
		w.policy(strings.Replace(signertest.Policy, `"max_fee_rate": 1000`, `"max_fee_rate": 10`, 1))
		w.feeRate(20)
		w.wait(7 * time.Hour)
		if got := w.states(payout.Sent)[0]; got.TxID != first.TxID || w.refusals() != 0 {
			t.Errorf("%s instead of %s, %d refusals", got.TxID, first.TxID, w.refusals())
		}
		w.feeRate(9)
		w.wait(7 * time.Hour)
		if w.states(payout.Sent)[0].TxID == first.TxID {
			t.Error("the fee was not raised")
		}
		w.mine(1)
		w.paid(w.states(payout.Fulfilled)...)
	})
}

// Payouts that the signer refuses do not keep later ones out, and it learns of all new destinations at once.
func TestRefusedPayoutsDoNotFillTheHeadOfTheQueue(t *testing.T) {
	policy := strings.Replace(signertest.Policy, `"p2pkh", `, "", 1)
	payouttest.RunFixture(t, func(on *payouttest.Fixture) {
		w := newFixtureWith(on, policy)
		w.config.MaxOutputs = 2
		rail, err := bitcoinrail.New(w.config)
		w.rail = rail
		w.Start(rail, err)
		w.fund(10_000_000)
		outs := w.outputsOf(500_000, 500_000, 500_000, 500_000, 500_000, 600_000)
		for i := range 5 {
			outs[i].Address = p2pkh
		}
		w.Queue(outs...)
		w.watch()
		sent := w.states(payout.Queued, payout.Queued, payout.Queued, payout.Queued, payout.Queued, payout.Sent)
		w.paid(sent[5])
		if n := len(w.held()); n != 5 {
			t.Errorf("the signer was asked about %d of 5 refused payouts", n)
		}
	})
}
